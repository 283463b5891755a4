/*
 * Tests of models of fastText: what Debian's fastText answers for the files of tests/golden/fasttext/ (fasttext.sh
 * there made them), and for models that it trains here, is what the imported models answer, before and after they are
 * saved; damaged files are refused.
 *
 * fastText adds 10^-5 to a probability before its logarithm (in the tree of hs to those of each node), and takes
 * sigmoids of ova and ns from a table in steps of 1/32. The answers here are those without, so the tests do both.
 */
#include "training.h"

#include "base/order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/encoder.h>
#include <xsoftmax/fasttext.h>
#include <xsoftmax/vocabulary.h>
#include <xsoftmax/model.h>

#define LESSER 1e-5

typedef enum { SOFTMAX, SIGMOID, TREE } loss;

static const char golden_folder[] = TEST_SOURCE_ROOT "/tests/golden/fasttext/";

/* Of several calls at a time. */
static const char *golden(const char *name, const char *end)
{
    static char paths[4][4096];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s%s%s", golden_folder, name, end);
    return path;
}

static const struct {
    const char *name, *end;
    loss loss;
} supervised[] = {{"softmax", ".bin", SOFTMAX},
                  {"ova", ".bin", SIGMOID},
                  {"ns", ".bin", SIGMOID},
                  {"hs", ".bin", TREE},
                  {"pruned", ".ftz", SOFTMAX}},
  vectors[] = {{"skipgram", ".bin", SIGMOID}, {"cbow", ".bin", TREE}};
enum { SUPERVISED = sizeof supervised / sizeof *supervised, VECTORS = sizeof vectors / sizeof *vectors };

static xsm_model *import(const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, m, xsm_model_import_fasttext(NULL, path, NULL, NULL, &m, &err));
    return m;
}

static xsm_dataset *rows_for(const xsm_model *m, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    const xsm_class_map map = test_map_of_model(m);
    options.classes = &map;
    NEW(xsm_dataset, d, xsm_dataset_read(NULL, path, NULL, &options, &d, &err));
    return d;
}

static uint64_t count_of(const xsm_dataset *d)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    (void)xsm_dataset_get_info(d, &info, NULL);
    return info.rows;
}

/* -- what fastText would print of our scores ----------------------------------------------------------------------- */

/* fastText's tree of the labels' counts, and what it makes of our probabilities of classes: each path's product of
 * probabilities, of which each has LESSER added, and what rounding them to float32 may change. */
static void tree_answers(const uint64_t *counts, uint32_t classes, double *p, double *slack)
{
    const uint32_t nodes = 2 * classes - 1;
    double *weight = calloc(nodes, sizeof *weight), *below = calloc(nodes, sizeof *below);
    double *path = calloc(nodes, sizeof *path), *loose = calloc(nodes, sizeof *loose);
    uint32_t(*child)[2] = calloc(nodes, sizeof *child);
    for (uint32_t k = 0; k < nodes; k++) {
        weight[k] = k < classes ? (double)counts[k] : 1e15;
        below[k] = k < classes ? p[k] : 0;
    }
    for (uint32_t made = classes, leaf = classes, node = classes; made < nodes; made++) {
        weight[made] = 0;
        for (uint32_t side = 0; side < 2; side++) {
            const uint32_t taken = leaf > 0 && (node == made || weight[leaf - 1] < weight[node]) ? --leaf : node++;
            child[made][side] = taken;
            weight[made] += weight[taken];
            below[made] += below[taken];
        }
    }
    path[nodes - 1] = 1;
    for (uint32_t v = nodes; v-- > classes;) {
        for (uint32_t side = 0; side < 2; side++) {
            const uint32_t c = child[v][side];
            const double q = below[c] / below[v] + LESSER;
            path[c] = path[v] * q;
            loose[c] = loose[v] + 1.5e-7 / q;
        }
    }
    memcpy(p, path, classes * sizeof *p);
    memcpy(slack, loose, classes * sizeof *slack);
    free(weight);
    free(below);
    free(path);
    free(loose);
    free(child);
}

static double table(double score)
{
    return score < -8 ? LESSER : score > 8 ? 1 + LESSER : 1 / (1 + exp(-(floor((score + 8) * 32) / 32 - 8))) + LESSER;
}

static void expect(loss of, const uint64_t *counts, const float *scores, uint32_t classes, double *p, double *slack)
{
    double sum = 0;
    for (uint32_t k = 0; k < classes; k++) {
        slack[k] = 0;
        p[k] = exp((double)scores[k]);
        sum += p[k];
    }
    for (uint32_t k = 0; of != TREE && k < classes; k++) {
        p[k] = of == SOFTMAX ? p[k] / sum + LESSER : table((double)scores[k]);
        /* where either of two steps of the table is right */
        slack[k] = of == SIGMOID ? fabs(table((double)scores[k] + 1e-4) - table((double)scores[k] - 1e-4)) / p[k] : 0;
    }
    if (of == TREE) {
        assert_true(fabs(sum - 1) < 1e-5);
        tree_answers(counts, classes, p, slack);
    }
}

static uint32_t class_of(const xsm_class_map *map, const char *name)
{
    uint32_t k = 0;
    while (k < map->classes && strcmp(map->names[k], name) != 0) {
        k++;
    }
    assert_true(k < map->classes);
    return k;
}

/* A line of predict-prob: labels and numbers in turn. Numbers that it leaves out are too small for hs. */
static void compare_line(char *line, const xsm_class_map *map, const double *p, const double *slack)
{
    uint32_t answers = 0;
    double rest = 0;
    for (uint32_t k = 0; k < map->classes; k++) {
        rest += p[k] > 1.01 * LESSER;
    }
    char *save = NULL;
    for (char *word = strtok_r(line, " \n", &save); word; word = strtok_r(NULL, " \n", &save), answers++) {
        assert_memory_equal(word, "__label__", 9);
        const uint32_t k = class_of(map, word + 9);
        const char *number = strtok_r(NULL, " \n", &save);
        assert_non_null(number);
        const double theirs = strtod(number, NULL);
        if (!(fabs(theirs - p[k]) <= (2e-5 + slack[k]) * theirs)) {
            fail_msg("%s: fastText says %s, and %.9g was expected", word, number, p[k]);
        }
    }
    assert_true(answers == map->classes || answers >= rest);
}

/* Scores of all rows and classes, or NULL if some are not finite. */
static float *scores_of(const xsm_model *m, const xsm_dataset *d)
{
    xsm_error err = XSM_ERROR_INIT;
    const uint32_t classes = xsm_model_class_count(m);
    const xsm_batch batch = xsm_batch_range(d, 0, count_of(d));
    float *scores = malloc(batch.count * classes * sizeof *scores);
    if (xsm_model_score_range(m, &batch, 0, classes, scores, classes, &err) == XSM_ERROR_DIVERGED) {
        free(scores);
        return NULL;
    }
    assert_int_equal(err.status, XSM_OK);
    return scores;
}

/* The answers of a model are those of a file of fastText's. */
static void compare_answers(const xsm_model *m, loss of, const char *text, const char *answers)
{
    const xsm_class_map map = test_map_of_model(m);
    HELD(xsm_dataset, d) = rows_for(m, text);
    HELD_MEMORY(float, scores) = scores_of(m, d);
    HELD_MEMORY(double, p) = calloc(map.classes, 2 * sizeof *p);
    FILE *lines = fopen(answers, "r");
    HELD_MEMORY(char, line) = NULL;
    size_t room = 0;
    assert_non_null(lines);
    for (uint64_t i = 0; i < count_of(d); i++) {
        assert_true(getline(&line, &room, lines) > 0);
        expect(of, map.counts, scores + i * map.classes, map.classes, p, p + map.classes);
        compare_line(line, &map, p, p + map.classes);
    }
    assert_true(getline(&line, &room, lines) < 0);
    fclose(lines);
}

/* Saves and loads it; the caller's to free. */
static xsm_model *saved(const xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_model_save(m, test_path("saved.model"), NULL, &err), err);
    NEW(xsm_model, loaded, xsm_model_load(NULL, test_path("saved.model"), NULL, NULL, &loaded, &err));
    return loaded;
}

TEST(answers_are_those_of_fasttext)
{
    for (size_t i = 0; i < SUPERVISED; i++) {
        const char *text = golden("text", ".txt");
        HELD(xsm_model, m) = import(golden(supervised[i].name, supervised[i].end));
        compare_answers(m, supervised[i].loss, text, golden(supervised[i].name, ".txt"));
        assert_int_equal(test_model_info(m).link, supervised[i].loss == SIGMOID ? XSM_LINK_SIGMOID : XSM_LINK_SOFTMAX);
        HELD(xsm_model, again) = saved(m);
        HELD(xsm_dataset, d) = rows_for(m, text);
        HELD(xsm_dataset, e) = rows_for(again, text);
        HELD_MEMORY(float, a) = scores_of(m, d);
        HELD_MEMORY(float, b) = scores_of(again, e);
        assert_memory_equal(a, b, count_of(d) * xsm_model_class_count(m) * sizeof *a);
    }
    test_files_end();
}

/* phi of a line of one word is what print-word-vectors prints. */
static void compare_vectors(const xsm_model *m, const char *words, const char *answers)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_dataset, d) = rows_for(m, words);
    const xsm_batch batch = xsm_batch_range(d, 0, count_of(d));
    const uint32_t hidden = test_model_info(m).hidden;
    HELD_MEMORY(float, phi) = malloc(batch.count * hidden * sizeof *phi);
    assert_ok(xsm_model_hidden_vectors(m, &batch, phi, hidden, &err), err);
    FILE *lines = fopen(answers, "r");
    char word[64];
    assert_non_null(lines);
    for (uint64_t i = 0; i < batch.count; i++) {
        assert_int_equal(fscanf(lines, "%63s", word), 1);
        for (uint32_t h = 0; h < hidden; h++) {
            double number;
            assert_int_equal(fscanf(lines, "%lf", &number), 1);
            assert_true(fabs(number - (double)phi[i * hidden + h]) <= 6e-5 * fabs(number) + 1e-7);
        }
    }
    fclose(lines);
}

TEST(vectors_are_those_of_fasttext)
{
    for (size_t i = 0; i < VECTORS; i++) {
        HELD(xsm_model, m) = import(golden(vectors[i].name, vectors[i].end));
        compare_vectors(m, golden("words", ".txt"), golden(vectors[i].name, ".txt"));
        const xsm_class_map map = test_map_of_model(m);
        assert_string_equal(map.names[class_of(&map, "</s>")], "</s>");
        assert_int_equal(xsm_vocabulary_words(map.vocabulary), map.classes - 1);
        HELD(xsm_model, again) = saved(m);
        compare_vectors(again, golden("words", ".txt"), golden(vectors[i].name, ".txt"));
    }
    test_files_end();
}

/* A request is read as a file is. */
TEST(requests_are_read_alike)
{
    HELD(xsm_model, m) = import(golden("pruned", ".ftz"));
    HELD(xsm_dataset, d) = rows_for(m, golden("text", ".txt"));
    xsm_row wanted = XSM_ROW_INIT;
    xsm_batch batch = xsm_batch_range(NULL, 0, 0);
    static const char line[] = "ungekannt МоскваX 日本語 the the the";
    MADE(xsm_encoder, encoder, xsm_encoder_new(m, NULL, &encoder, &err));
    assert_ok(xsm_encoder_encode(encoder, line, strlen(line), &batch, &err), err);
    assert_ok(xsm_dataset_get_row(d, 16, &wanted, &err), err);
    assert_int_equal(batch.offsets[1] - batch.offsets[0], wanted.count);
    assert_true(wanted.count > 10);
    assert_memory_equal(batch.index, wanted.index, wanted.count * sizeof *wanted.index);
    assert_memory_equal(batch.values, wanted.values, wanted.count * sizeof *wanted.values);
}

/* New words follow the buckets, of a pruned dictionary too; what was known keeps its answers, also in the model's file.
 */
TEST(learns_new_words)
{
    static const char text[] = "__label__one salt neuling\n__label__seven neuling </s>\n";
    for (size_t i = 0; i < SUPERVISED; i++) {
        xsm_model *m = import(golden(supervised[i].name, supervised[i].end));
        const uint32_t features = test_model_info(m).features, classes = xsm_model_class_count(m);
        if (supervised[i].loss == TREE) {
            xsm_model_free(m);
            continue;
        }
        xsm_dataset *d = NULL, *old = rows_for(m, golden("text", ".txt"));
        float *before = scores_of(m, old);
        xsm_class_map map = test_map_of_model(m);
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        options.classes = &map;
        options.new_features = options.new_labels = 1;
        assert_ok(xsm_dataset_read(NULL, test_file("new.txt", TEXT(text)), NULL, &options, &d, &err), err);
        map = test_map_of(d);
        assert_ok(xsm_model_grow(m, map.features, &map, &err), err);
        assert_int_equal(test_model_info(m).features, features + 1);
        assert_int_equal(xsm_vocabulary_feature(map.vocabulary, xsm_vocabulary_words(map.vocabulary) - 1), features);
        xsm_model *again = saved(m);
        xsm_dataset *rows = rows_for(again, golden("text", ".txt"));
        float *after = scores_of(again, rows);
        for (uint64_t r = 0; r < count_of(old); r++) {
            assert_memory_equal(before + r * classes, after + r * (classes + 1), classes * sizeof *before);
        }
        free(before);
        free(after);
        xsm_dataset_free(rows);
        xsm_dataset_free(old);
        xsm_dataset_free(d);
        xsm_model_free(again);
        xsm_model_free(m);
    }
    test_files_end();
}

/* Rows that were read in another way are refused, though their words are the same. */
TEST(other_ngrams_are_refused)
{
    HELD(xsm_model, m) = import(golden("ns", ".bin"));
    const xsm_class_map map = test_map_of_model(m);
    MADE(xsm_dataset, d, xsm_dataset_read(NULL, golden("text", ".txt"), NULL, NULL, &d, &err));
    assert_fails(xsm_dataset_extend(d, &map, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "fastText's"));
}

/* -- damage -------------------------------------------------------------------------------------------------------- */

static const char *const all_files[] = {"softmax.bin", "ova.bin",      "ns.bin",    "hs.bin",
                                        "cbow.bin",    "skipgram.bin", "pruned.ftz"};
enum { FILES = sizeof all_files / sizeof *all_files };

TEST(cut_and_grown_files_are_refused)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    for (size_t i = 0; i < FILES; i++) {
        size_t size;
        unsigned char *bytes = test_read(golden(all_files[i], ""), &size);
        const char *path = test_file("cut.bin", bytes, size);
        for (size_t cut = size; cut-- > 0; cut -= test_full() ? 0 : XSMI_MIN(cut, cut / 100)) {
            xsm_model *m = NULL;
            assert_int_equal(truncate(path, (off_t)cut), 0);
            assert_fails(xsm_model_import_fasttext(ctx, path, NULL, NULL, &m, &err), XSM_ERROR_FORMAT, err);
            assert_null(m);
            assert_int_equal(test_memory_blocks(memory), 0);
        }
        xsm_model *m = NULL;
        bytes[size] = 0;
        assert_fails(xsm_model_import_fasttext(ctx, test_file("cut.bin", bytes, size + 1), NULL, NULL, &m, &err),
                     XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, "1 bytes follow"));
        free(bytes);
    }
    test_memory_end(memory, ctx);
    test_files_end();
}

/* Reads the lines to answer, and scores them. */
static void use(xsm_context *ctx, xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    const xsm_class_map map = test_map_of_model(m);
    options.classes = &map;
    NEW(xsm_dataset, d, xsm_dataset_read(ctx, golden("text", ".txt"), NULL, &options, &d, &err));
    free(scores_of(m, d));
    xsm_dataset_free(d);
    xsm_model_free(m);
}

/* Whatever number stands at whatever place: it is refused, or gives a model that reads text, and scores or says that
 * its scores are not finite. */
TEST(wrong_numbers_do_no_harm)
{
    static const int32_t numbers[] = {0, -1, 1, INT32_MAX, INT32_MIN, 0x7fc00000, 257};
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    for (size_t i = 0; i < FILES; i++) {
        size_t size, refused = 0;
        unsigned char *bytes = test_read(golden(all_files[i], ""), &size);
        const char *path = test_file("wrong.bin", bytes, size);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        const size_t step = test_full() ? 1 : size / 150 + 1;
        for (size_t at = 0; at + 4 <= size; at += at < 100 ? 1 : step) {
            for (size_t n = 0; n <= sizeof numbers / sizeof *numbers; n++) {
                xsm_model *m = NULL;
                const bool back = n == sizeof numbers / sizeof *numbers;
                assert_int_equal(fseek(file, (long)at, SEEK_SET), 0);
                assert_int_equal(fwrite(back ? (const void *)(bytes + at) : &numbers[n], 4, 1, file), 1);
                assert_int_equal(fflush(file), 0);
                if (back) {
                    break;
                }
                if (xsm_model_import_fasttext(ctx, path, NULL, NULL, &m, &err) == XSM_OK) {
                    use(ctx, m);
                } else {
                    assert_true(err.status == XSM_ERROR_FORMAT || err.status == XSM_ERROR_UNSUPPORTED);
                    assert_non_null(strstr(err.message, "wrong.bin"));
                    refused++;
                }
                assert_int_equal(test_memory_blocks(memory), 0);
            }
        }
        assert_true(refused > 300);
        fclose(file);
        free(bytes);
    }
    test_memory_end(memory, ctx);
    test_files_end();
}

static int64_t read_some(void *user, void *buffer, size_t size)
{
    FILE *file = user;
    return (int64_t)fread(buffer, 1, size < 777 ? size : 777, file);
}

/* Bytes in memory, and what a source has, make the model that a file makes; and fail as it does. */
TEST(storages_are_read_as_files)
{
    for (size_t i = 0; i < FILES; i++) {
        HELD(xsm_model, m) = import(golden(all_files[i], ""));
        xsm_model *again = NULL;
        size_t size, sizes[2];
        unsigned char *read = test_read(golden(all_files[i], ""), &size);
        FILE *file = fopen(golden(all_files[i], ""), "rb");
        xsm_source source = {.size = sizeof source, .user = file, .read = read_some};
        xsm_storage storage = XSM_STORAGE_INIT;
        storage.name = "elsewhere";
        storage.bytes = read; /* as malloc() aligns them */
        storage.byte_count = size;
        for (int from_source = 0; from_source < 2; from_source++) {
            assert_ok(xsm_model_import_fasttext(NULL, NULL, &storage, NULL, &again, &err), err);
            assert_ok(xsm_model_save(m, test_path("file"), NULL, &err), err);
            unsigned char *want = test_read(test_path("file"), &sizes[0]);
            assert_ok(xsm_model_save(again, test_path("file"), NULL, &err), err);
            unsigned char *have = test_read(test_path("file"), &sizes[1]);
            assert_int_equal(sizes[0], sizes[1]);
            assert_memory_equal(want, have, sizes[0]);
            free(want);
            free(have);
            xsm_model_free(again);
            storage.bytes = NULL;
            storage.source = &source;
        }
        again = NULL;
        assert_fails(xsm_model_import_fasttext(NULL, NULL, &storage, NULL, &again, &err), XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, "elsewhere, byte 0"));
        fclose(file);
        free(read);
    }
    test_files_end();
}

/* A copy of a golden file in which bytes are replaced by as many others, and what is said of it. */
static void refused(const char *file, const char *from, size_t length, const char *to, const char *prefix,
                    xsm_status status, const char *message)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = NULL;
    size_t size, at = 0;
    unsigned char *bytes = test_read(golden(file, ""), &size);
    while (at + length <= size && memcmp(bytes + at, from, length) != 0) {
        at++;
    }
    assert_true(at + length <= size);
    memcpy(bytes + at, to, length);
    assert_fails(xsm_model_import_fasttext(NULL, test_file("other.bin", bytes, size), NULL, prefix, &m, &err), status,
                 err);
    assert_null(m);
    if (!strstr(err.message, message)) {
        fail_msg("'%s' is not in: %s", message, err.message);
    }
    free(bytes);
}

TEST(says_what_is_wrong)
{
    xsm_model *m = NULL;
    refused("ns.bin", "\xBA\x16\x4F\x2F", 4, "salt", NULL, XSM_ERROR_FORMAT, "no model of fastText");
    refused("ns.bin", "\x0C\0\0\0", 4, "\x0D\0\0\0", NULL, XSM_ERROR_UNSUPPORTED, "11 to 12");
    refused("ns.bin", "salt", 4, "oven", NULL, XSM_ERROR_FORMAT, "for the second time");
    refused("ns.bin", "salt", 4, "sa\nt", NULL, XSM_ERROR_FORMAT, "is no word");
    refused("ns.bin", "__label__ten", 12, "__label__t\xFFn", NULL, XSM_ERROR_FORMAT, "no label of UTF-8");
    refused("ns.bin", "salt", 4, "sal\0", NULL, XSM_ERROR_FORMAT, "byte ");
    refused("ns.bin", "__label__ten", 12, "__label_-ten", NULL, XSM_ERROR_FORMAT, "'__label_-ten' does not begin with");
    refused("ns.bin", "salt", 4, "salt", "__class__", XSM_ERROR_FORMAT, "does not begin with __class__");
    refused("ns.bin", "salt", 4, "salt", "_ _", XSM_ERROR_RANGE, "label_prefix");
    assert_fails(xsm_model_import_fasttext(NULL, test_path("none.bin"), NULL, NULL, &m, &err), XSM_ERROR_IO, err);
    assert_fails(xsm_model_import_fasttext(NULL, NULL, NULL, NULL, &m, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_import_fasttext(NULL, golden("ns", ".bin"), NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT,
                 err);
    assert_ok(xsm_model_import_fasttext(NULL, golden("ns", ".bin"), NULL, "__", &m, &err), err);
    assert_memory_equal(test_map_of_model(m).names[0], "label__", 7);
    xsm_model_free(m);
    test_files_end();
}

/* As they are read where such bytes are replaced; two that are the same then differ by their places. */
TEST(words_that_are_no_utf8_are_mended)
{
    size_t size, mended = 0, changed = 0;
    unsigned char *bytes = test_read(golden("skipgram", ".bin"), &size);
    for (size_t at = 0; at + 5 < size; at++) {
        if (memcmp(bytes + at, "salt", 5) == 0 || memcmp(bytes + at, "oven", 5) == 0) {
            memcpy(bytes + at, changed++ == 0 ? "s\xFFlt" : "s\xC3lt", 4);
        }
    }
    assert_int_equal(changed, 2);
    NEW(xsm_model, m, xsm_model_import_fasttext(NULL, test_file("bytes.bin", bytes, size), NULL, NULL, &m, &err));
    const xsm_class_map map = test_map_of_model(m);
    for (uint32_t i = 0; i < xsm_vocabulary_words(map.vocabulary); i++) {
        const char *word = xsm_vocabulary_word(map.vocabulary, i);
        if (memcmp(word, "s\uFFFDlt", 6) == 0) {
            assert_string_equal(map.names[class_of(&map, word)], word);
            assert_true(mended++ == 0 ? word[6] == '\0' : memcmp(word + 6, "\uFFFD", 3) == 0);
        }
    }
    assert_int_equal(mended, 2);
    xsm_model_free(saved(m));
    xsm_model_free(m);
    free(bytes);
    test_files_end();
}

/* The list of kept buckets in a model's file, and what is said of it. */
TEST(damaged_vocabularies_are_refused)
{
    static const struct {
        const char *from, *to;
    } changes[] = {{"hash=fasttext", "hash=fasttexT"},
                   {"hash=fasttext label_prefix=", "label_prefix=__label____label"},
                   {"buckets=500", "buckets=490"},
                   {"words=19", "words=20"},
                   {"vocabulary_buckets", "vocabulary_bucketS"},
                   {"\1\0\0\0\2\0\0\0\6", "\1\0\0\0\1\0\0\0\6"},
                   {"\1\0\0\0\2\0\0\0\6", "\1\0\0\0\2\0\0\1\6"}};
    xsm_model *m = import(golden("pruned", ".ftz"));
    const xsm_load_options believe = {sizeof believe, 1, 0};
    assert_ok(xsm_model_save(m, test_path("kept.model"), NULL, &err), err);
    xsm_model_free(m);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        size_t size, at = 0, length = strlen(changes[i].from);
        length = length < 5 ? 9 : length;
        unsigned char *bytes = test_read(test_path("kept.model"), &size);
        while (at + length <= size && memcmp(bytes + at, changes[i].from, length) != 0) {
            at++;
        }
        assert_true(at + length <= size);
        memcpy(bytes + at, changes[i].to, length);
        assert_fails(xsm_model_load(NULL, test_file("damaged.model", bytes, size), NULL, &believe, &m, &err),
                     XSM_ERROR_FORMAT, err);
        free(bytes);
    }
    test_files_end();
}

static xsm_status import_and_free(void *state, xsm_context *ctx, xsm_error *err)
{
    xsm_model *m;
    const xsm_status status = xsm_model_import_fasttext(ctx, state, NULL, NULL, &m, err);
    if (status == XSM_OK) {
        xsm_model_free(m);
    }
    return status;
}

TEST(every_allocation_may_fail)
{
    for (size_t i = 0; i < FILES; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s", golden(all_files[i], ""));
        assert_true(test_every_allocation(import_and_free, path) > 15);
        test_every_poll(import_and_free, path, 1, 2, "importing");
    }
}

/* -- the peer ------------------------------------------------------------------------------------------------------ */

static void run(const char *command)
{
    if (system(command) != 0) {
        fail_msg("failed: %s", command);
    }
}

/* Models that the command fasttext trains now, of questions about cooking. */
TEST(agrees_with_the_command)
{
    static const struct {
        const char *settings, *quantize;
        loss loss;
    } models[] = {{"-loss softmax -wordNgrams 2 -minn 3 -maxn 5 -bucket 5000", NULL, SOFTMAX},
                  {"-loss ova -wordNgrams 3 -bucket 3000", NULL, SIGMOID},
                  {"-loss ns", NULL, SIGMOID},
                  {"-loss hs -minn 2 -maxn 3 -bucket 2000", NULL, TREE},
                  {"-loss softmax -wordNgrams 2 -bucket 5000", "-qout -qnorm -dsub 3 -cutoff 1500", SOFTMAX}};
    const char *data = test_data("cooking/cooking_train.txt.gz");
    if (system("command -v fasttext >/dev/null") != 0) {
        print_message("the command fasttext is not there: models are not trained by it\n");
        skip();
    }
    if (!data) {
        skip();
    }
    char command[8192], folder[2048];
    snprintf(folder, sizeof folder, "%s", test_path("fasttext"));
    snprintf(command, sizeof command,
             "mkdir %s && cd %s && gzip -dc %s >all.txt && head -n 800 all.txt >train.txt && tail -n 100 all.txt "
             ">test.txt",
             folder, folder, data);
    run(command);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char file[2100], text[2100], answers[2100];
        const char *end = models[i].quantize ? "ftz" : "bin";
        snprintf(
            command, sizeof command,
            "cd %s && fasttext supervised -input train.txt -output m -dim 6 -lr 0.5 -epoch 3 -thread 1 -verbose 0 %s "
            "&& { [ -z '%s' ] || fasttext quantize -input train.txt -output m -thread 1 -verbose 0 %s; } && fasttext "
            "predict-prob m.%s test.txt -1 >answers.txt",
            folder, models[i].settings, models[i].quantize ? models[i].quantize : "",
            models[i].quantize ? models[i].quantize : "", end);
        run(command);
        snprintf(file, sizeof file, "%s/m.%s", folder, end);
        snprintf(text, sizeof text, "%s/test.txt", folder);
        snprintf(answers, sizeof answers, "%s/answers.txt", folder);
        HELD(xsm_model, m) = import(file);
        compare_answers(m, models[i].loss, text, answers);
    }
    snprintf(command, sizeof command, "rm -r %s", folder);
    run(command);
    test_files_end();
}
