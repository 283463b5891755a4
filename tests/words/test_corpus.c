/* Tests of corpora: counts, order and memory; and of text files of word vectors. */
#include "training.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/words/corpus.h>
#include <xsoftmax/words/skipgram.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static xsm_corpus *open_text(const char *text, size_t size, uint64_t min_count)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_corpus, c,
        xsm_corpus_open(NULL, test_file("text", text, size), STRUCT(xsm_corpus_options, .min_count = min_count), &c,
                        &err));
    return c;
}

static xsm_corpus_info info_of(const xsm_corpus *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
    assert_ok(xsm_corpus_get_info(c, &info, &err), err);
    return info;
}

static xsm_class_map classes_of(const xsm_corpus *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_corpus_get_class_map(c, &map, &err), err);
    return map;
}

TEST(words_are_ranked)
{
    xsm_corpus *c = open_text(TEXT("b a  b\tc\r\n\n a\vd\fb\0e\n \nc a b"), 2);
    xsm_corpus_info info = info_of(c);
    assert_int_equal(info.words, 3);
    assert_int_equal(info.tokens, 11);
    assert_int_equal(info.known, 9);
    assert_int_equal(info.lines, 3);
    assert_int_equal(info.forgotten, 0);
    xsm_class_map map = classes_of(c);
    static const char *const names[] = {"b", "a", "c"}; /* b 4, a 3, c 2; d and e once */
    static const uint64_t counts[] = {4, 3, 2};
    assert_int_equal(map.classes, 3);
    assert_int_equal(map.rows, 9);
    for (uint32_t k = 0; k < 3; k++) {
        assert_string_equal(map.names[k], names[k]);
        assert_int_equal(map.counts[k], counts[k]);
        assert_int_equal(xsm_corpus_find(c, names[k]), k);
    }
    assert_int_equal(xsm_corpus_find(c, "d"), XSM_CLASS_UNSEEN);
    assert_int_equal(xsm_corpus_find(c, ""), XSM_CLASS_UNSEEN);
    assert_int_equal(xsm_corpus_find(c, NULL), XSM_CLASS_UNSEEN);
    assert_int_equal(xsm_corpus_find(NULL, "a"), XSM_CLASS_UNSEEN);
    xsm_corpus_free(c);
    /* Equal counts: in the order of first appearance. */
    c = open_text(TEXT("z y x z y x"), 1);
    assert_int_equal(xsm_corpus_find(c, "z"), 0);
    assert_int_equal(xsm_corpus_find(c, "y"), 1);
    assert_int_equal(xsm_corpus_find(c, "x"), 2);
    xsm_corpus_free(c);
    xsm_corpus_free(NULL);
    /* A byte order mark is no part of the first word; elsewhere it is a word's. */
    c = open_text(TEXT("\xEF\xBB\xBF"
                       "word word \xEF\xBB\xBF"
                       "word"),
                  1);
    assert_int_equal(info_of(c).words, 2);
    assert_int_equal(xsm_corpus_find(c, "word"), 0);
    assert_int_equal(xsm_corpus_find(c, "\xEF\xBB\xBFword"), 1);
    xsm_corpus_free(c);
}

/* A text of many reads, of words of all lengths, counted here by the numbers that the words are made from. */
TEST(long_texts)
{
    enum { WORDS = 200000, DISTINCT = 3000 };
    size_t room = (size_t)16 << 20, used = 0;
    HELD_MEMORY(char, text) = malloc(room);
    HELD_MEMORY(uint64_t, counts) = calloc(DISTINCT, sizeof *counts);
    uint64_t stream = 3;
    assert_true(text && counts);
    for (int i = 0; i < WORDS; i++) {
        uint32_t w = (uint32_t)((double)DISTINCT * pow(test_uniform(&stream), 3));
        counts[w]++;
        used += (size_t)snprintf(text + used, room - used, "w%u", w);
        for (uint32_t j = 0; j < w % 40; j++) {
            text[used++] = (char)('a' + (w + j) % 26);
        }
        text[used++] = i % 17 == 0 ? '\n' : ' ';
    }
    xsm_corpus *c = open_text(text, used, 1);
    xsm_class_map map = classes_of(c);
    assert_int_equal(info_of(c).tokens, WORDS);
    uint32_t seen = 0;
    for (uint32_t w = 0; w < DISTINCT; w++) {
        seen += counts[w] > 0;
    }
    assert_int_equal(map.classes, seen);
    for (uint32_t k = 0; k < map.classes; k++) {
        assert_int_equal(map.counts[k], counts[strtoul(map.names[k] + 1, NULL, 10)]);
        assert_true(k == 0 || map.counts[k] <= map.counts[k - 1]);
    }
    xsm_corpus_free(c);
    /* No more than the frequent ones, */
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    options.min_count = 1;
    options.max_words = 10;
    assert_ok(xsm_corpus_open(NULL, test_file("text", text, used), &options, &c, &err), err);
    assert_int_equal(info_of(c).words, 10);
    xsm_corpus_free(c);
    /* and few counted at once: rare words are forgotten, frequent ones nearly all there. */
    options.max_words = 0;
    options.max_distinct = 500;
    assert_ok(xsm_corpus_open(NULL, test_file("text", text, used), &options, &c, &err), err);
    map = classes_of(c);
    xsm_corpus_info info = info_of(c);
    assert_true(map.classes <= 500);
    assert_true(info.forgotten > 0);
    assert_int_equal(info.known + info.forgotten, info.tokens);
    for (uint32_t k = 0; k < 20; k++) {
        uint64_t all = counts[strtoul(map.names[k] + 1, NULL, 10)];
        assert_true(map.counts[k] <= all && (double)map.counts[k] > 0.99 * (double)all);
    }
    xsm_corpus_free(c);
}

TEST(bad_texts)
{
    xsm_corpus *c = NULL;
    assert_fails(xsm_corpus_open(NULL, NULL, NULL, &c, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_corpus_open(NULL, "x", NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_corpus_open(NULL, test_path("nowhere"), NULL, &c, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_corpus_open(NULL, test_file("text", TEXT("")), NULL, &c, &err), XSM_ERROR_DATA, err);
    assert_fails(xsm_corpus_open(NULL, test_file("text", TEXT("a a a a b b b b")), NULL, &c, &err), XSM_ERROR_DATA,
                 err); /* five are wanted */
    assert_fails(xsm_corpus_open(NULL, test_file("text", TEXT("good\nand b\xffx d")), NULL, &c, &err), XSM_ERROR_FORMAT,
                 err);
    assert_int_equal(err.line, 2);
    assert_int_equal(err.column, 6);
    assert_non_null(strstr(err.message, "0xFF"));
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    options.max_words = XSM_CLASSES_MAX + 1;
    assert_fails(xsm_corpus_open(NULL, "x", &options, &c, &err), XSM_ERROR_RANGE, err);
    options.max_words = 0;
    options.max_distinct = UINT32_MAX;
    assert_fails(xsm_corpus_open(NULL, "x", &options, &c, &err), XSM_ERROR_RANGE, err);
    /* A word of 65535 bytes is one, a longer one is not. */
    enum { LONG = 65536 };
    char *text = malloc(LONG + 8);
    assert_non_null(text);
    memcpy(text, "a\nb ", 4);
    memset(text + 4, 'x', LONG);
    memcpy(text + 4 + LONG, " c", 2);
    assert_fails(xsm_corpus_open(NULL, test_file("text", text, LONG + 6), NULL, &c, &err), XSM_ERROR_FORMAT, err);
    assert_int_equal(err.line, 2);
    assert_int_equal(err.column, 3);
    text[4 + LONG - 1] = ' ';
    options.max_distinct = 0;
    options.min_count = 1;
    assert_null(c);
    assert_ok(xsm_corpus_open(NULL, test_file("text", text, LONG + 6), &options, &c, &err), err);
    assert_int_equal(info_of(c).words, 4);
    xsm_corpus_free(c);
    free(text);
    xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_fails(xsm_corpus_get_info(NULL, &info, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_corpus_get_class_map(NULL, &map, &err), XSM_ERROR_ARGUMENT, err);
}

/* -- text files of vectors ----------------------------------------------------------------------------------------- */

static xsm_model *words_model(xsm_context *ctx, uint32_t dimension, double spread)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_corpus, c) = open_text(TEXT("ein zwei drei ein zwei ein \xc3\xa4"), 1);
    NEW(xsm_model, m, xsm_word_model_new(ctx, c, dimension, spread, 7, &m, &err));
    return m;
}

TEST(vectors_come_back)
{
    HELD(xsm_model, m) = words_model(NULL, 33, 0.25);
    xsm_parameters a = XSM_PARAMETERS_INIT, b = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &a, &err), err);
    float least = 0, most = 0;
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t i = 0; i < 33; i++) {
            float w = a.weight[k * a.class_step + i];
            least = w < least ? w : least;
            most = w > most ? w : most;
        }
    }
    assert_true(least < -0.2f && least >= -0.25f && most > 0.2f && most <= 0.25f);
    a.weight[0] = 1e-40f; /* a subnormal, and the largest */
    a.weight[1] = 3.40282347e38f;
    a.weight[2] = -0.0f;
    const char *path = test_path("words.vec");
    assert_ok(xsm_word_model_write(m, path, &err), err);
    MADE(xsm_model, back, xsm_word_model_read(NULL, path, &back, &err));
    assert_ok(xsm_model_get_parameters(back, &b, &err), err);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_model_get_class_map(back, &map, &err), err);
    assert_string_equal(map.names[0], "ein");
    assert_string_equal(map.names[3], "\xc3\xa4");
    for (uint32_t k = 0; k < 4; k++) {
        assert_memory_equal(a.weight + k * a.class_step, b.weight + k * b.class_step, 33 * sizeof(float));
    }
    /* The other order of weights is the same file. */
    const char *other = test_path("other.vec");
    assert_ok(xsm_model_set_layout(back, XSM_LAYOUT_FEATURE_MAJOR, &err), err);
    assert_ok(xsm_word_model_write(back, other, &err), err);
    char first[4096], second[4096];
    FILE *x = fopen(path, "rb"), *y = fopen(other, "rb");
    assert_true(x && y);
    size_t length = fread(first, 1, sizeof first, x);
    assert_int_equal(fread(second, 1, sizeof second, y), length);
    assert_memory_equal(first, second, length);
    fclose(x);
    fclose(y);
}

static void *allocate_little(void *user, size_t size, size_t alignment)
{
    void *memory = NULL;
    (void)user;
    return size <= 1 << 20 &&
                   posix_memalign(&memory, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) == 0
               ? memory
               : NULL;
}

static void release_little(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)size;
    (void)alignment;
    free(memory);
}

/* Reads what comes from a pipe, with 1 MiB for each array. */
static xsm_status read_pipe(const char *text, xsm_model **out, xsm_error *err)
{
    xsm_allocator little = {sizeof little, NULL, allocate_little, release_little};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    HELD(xsm_context, ctx) = NULL;
    int ends[2];
    char path[32];
    options.allocator = &little;
    options.threads = 1;
    assert_int_equal(xsm_context_new(&options, &ctx, NULL), XSM_OK);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, strlen(text)), strlen(text));
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    const xsm_status status = xsm_word_model_read(ctx, path, out, err);
    close(ends[0]);
    return status;
}

/* Nobody knows how much a pipe will bring: memory is taken as rows come, whatever the first line says. */
TEST(vectors_of_a_pipe)
{
    static const struct {
        const char *text;
        uint64_t line, column;
    } bad[] = {
        {"2147483647 3\na 1 2 3\nb 4 5 6\n", 4, 1},
        {"2 2147483647\na 1 2 3\n", 2, 8},
        {"2147483647 2147483647\na 1\n", 2, 4},
    };
    HELD(xsm_model, m) = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(read_pipe(bad[i].text, &m, &err), XSM_ERROR_FORMAT, err);
        if (err.line != bad[i].line || err.column != bad[i].column) {
            fail_msg("%zu: %s", i, err.message);
        }
        assert_null(m);
    }
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(read_pipe("3 2\na 1 2\nb 3 4\nc 5 6\n", &m, &err), err);
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    assert_ok(xsm_model_get_class_map(m, &map, &err), err);
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(map.names[k][0] == "abc"[k] && map.names[k][1] == '\0');
        assert_true(p.weight[k * p.class_step] == 2 * k + 1 &&
                    p.weight[k * p.class_step + p.feature_step] == 2 * k + 2);
    }
}

TEST(bad_vectors)
{
    static const struct {
        const char *text;
        uint64_t line, column;
    } bad[] = {
        {"", 1, 1},
        {"2\n", 1, 1},
        {"2 2 2\n", 1, 1},
        {"0 2\n", 1, 1},
        {"2 2x\n", 1, 1},
        {"2 2\na 1 2\n", 3, 1},
        {"2 2\na 1 2\nb 1\n", 3, 4},
        {"2 2\na 1 2\nb 1 x\n", 3, 5},
        {"2 2\na 1 2\nb 1 2 3\n", 3, 7},
        {"2 2\na 1 nan\nb 1 2\n", 2, 5},
        {"2 2\n 1 2\nb 1 2\n", 2, 1},
        {"2 2\na\xff 1 2\nb 1 2\n", 2, 2},
        {"2 2\na 1 2\nb 1 2\nc 1 2\n", 4, 1},
        {"2000000000 2000000000\na 1 2\n", 1, 1}, /* before there is memory for them */
        {"30000000 300\na 1 2\n", 1, 1},
    };
    xsm_model *m = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_fails(xsm_word_model_read(NULL, test_file("bad", bad[i].text, strlen(bad[i].text)), &m, &err),
                     XSM_ERROR_FORMAT, err);
        if (err.line != bad[i].line || err.column != bad[i].column) {
            fail_msg("%zu: %s", i, err.message);
        }
        assert_null(m);
    }
    assert_ok(xsm_word_model_read(NULL, test_file("good", TEXT("2 2\na 1 2 \r\nb  1e0\t2")), &m, &err), err);
    assert_fails(xsm_word_model_read(NULL, test_path("nowhere"), &m, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_word_model_read(NULL, NULL, &m, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_word_model_read(NULL, "x", NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_word_model_write(NULL, "x", &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_word_model_write(m, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_word_model_write(m, "/dev/full", &err), XSM_ERROR_IO, err);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    p.weight[p.class_step] = NAN;
    assert_fails(xsm_word_model_write(m, test_path("nan.vec"), &err), XSM_ERROR_DIVERGED, err);
    assert_non_null(strstr(err.message, "'b'"));
    xsm_model_free(m);
    assert_ok(xsm_model_new_linear(NULL, 2, 2, NULL, &m, &err), err);
    assert_fails(xsm_word_model_write(m, "x", &err), XSM_ERROR_DATA, err);
    static const char *const spaced[] = {"a b", "c"};
    assert_ok(xsm_model_set_class_map(m, STRUCT(xsm_class_map, .classes = 2, .names = spaced), &err), err);
    assert_fails(xsm_word_model_write(m, "x", &err), XSM_ERROR_DATA, err);
    xsm_model_free(m);
    /* Making one. */
    HELD(xsm_corpus, c) = open_text(TEXT("a b"), 1);
    assert_fails(xsm_word_model_new(NULL, NULL, 2, 1, 1, &m, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_word_model_new(NULL, c, 2, 1, 1, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_word_model_new(NULL, c, 0, 1, 1, &m, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_word_model_new(NULL, c, 2, -1, 1, &m, &err), XSM_ERROR_RANGE, err);
    assert_fails(xsm_word_model_new(NULL, c, 2, NAN, 1, &m, &err), XSM_ERROR_RANGE, err);
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

typedef struct files {
    const char *text, *vectors;
} files;

static xsm_status all_of_it(void *state, xsm_context *ctx, xsm_error *err)
{
    const files *f = state;
    HELD(xsm_corpus, c) = NULL;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, back) = NULL;
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    options.min_count = 1;
    options.max_distinct = 3; /* so that something is forgotten */
    xsm_status status = xsm_corpus_open(ctx, f->text, &options, &c, err);
    if (status == XSM_OK) {
        status = xsm_word_model_new(ctx, c, 4, 0.5, 1, &m, err);
    }
    if (status == XSM_OK) {
        status = xsm_word_model_write(m, f->vectors, err);
    }
    if (status == XSM_OK) {
        status = xsm_word_model_read(ctx, f->vectors, &back, err);
    }
    return status;
}

TEST(every_allocation)
{
    files f = {test_file("text", TEXT("a a b b c d a b e")), test_path("memory.vec")};
    assert_true(test_every_allocation(all_of_it, &f) > 10);
}
