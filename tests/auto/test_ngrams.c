/*
 * Tests of the choice of n-grams: texts that only words, pairs of words, or n-grams of characters tell apart, and rows
 * that are afterwards as if they had been read so.
 */
#define XSM_EXPERIMENTAL /* choice and tuning */
#include "training.h"

#include <xsoftmax.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/vocabulary.h>

enum { ROWS = 400, CLASSES = 4, LINE = 200 };

static uint32_t below(uint64_t *stream, uint32_t bound)
{
    return (uint32_t)(test_uniform(stream) * bound);
}

/* Five letters at random, some of two bytes. */
static void stem(uint64_t *stream, char *out)
{
    static const char *const letters[] = {"b", "d", "k", "l", "m", "p", "r", "t", "\xc3\xa6", "\xc3\xb8"};
    out[0] = '\0';
    for (int i = 0; i < 5; i++) {
        strcat(out, letters[below(stream, 10)]);
    }
}

typedef void (*write_row)(uint64_t *stream, uint32_t class, char *line);

/* A row has two of the 20 words of its class. All words have the same letters: "w3", "w17". */
static void by_words(uint64_t *stream, uint32_t class, char *line)
{
    char other[40];
    stem(stream, other);
    const uint32_t first = below(stream, 20), second = below(stream, 20);
    sprintf(line, "w%u w%u %s", first * CLASSES + (first * 7 + class) % CLASSES,
            second * CLASSES + (second * 7 + class) % CLASSES, other);
}

/* The same four words in every row; the class says which follows the first. */
static void by_pairs(uint64_t *stream, uint32_t class, char *line)
{
    static const char *const words[] = {"ab", "cd", "ef", "gh"};
    const uint32_t more = 1 + below(stream, 3);
    sprintf(line, "%s zz %s %s %s", words[(class + more) % 4], words[class], words[(class + 1 + more % 3) % 4],
            words[(class + 1 + (more + 1) % 3) % 4]);
}

/* No word twice; the class is how both words end. */
static void by_ends(uint64_t *stream, uint32_t class, char *line)
{
    static const char *const ends[] = {"ava", "ine", "osu", "uyo"};
    char first[40], second[40];
    stem(stream, first);
    stem(stream, second);
    sprintf(line, "%s%s %s%s", first, ends[class], second, ends[class]);
}

static char *make_text(write_row row)
{
    uint64_t stream = 9;
    char *text = calloc(ROWS, LINE), *at = text, line[LINE];
    assert_non_null(text);
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint32_t class = below(&stream, CLASSES);
        row(&stream, class, line);
        at += sprintf(at, "__label__%u %s\n", class, line);
    }
    return text;
}

static xsm_dataset *read_text(xsm_context *ctx, const char *text, const xsm_text_options *how)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    test_bytes bytes = {text, strlen(text), 0, SIZE_MAX, 0};
    options.format = XSM_FORMAT_TEXT;
    options.text = how;
    NEW(xsm_dataset, d, xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "text"), &options, &d, &err));
    return d;
}

static xsm_dataset *read_pairs(xsm_context *ctx, const char *text)
{
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    how.word_ngrams = 2;
    return read_text(ctx, text, &how);
}

static xsm_choice *choose(xsm_context *ctx, xsm_dataset *d, const xsm_choose_options *options)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_choice, c, xsm_choose_ngrams(ctx, d, options, &c, &err));
    return c;
}

static xsm_choice_info info_of(const xsm_choice *c)
{
    xsm_choice_info info = XSM_CHOICE_INFO_INIT;
    assert_int_equal(xsm_choice_get_info(c, &info, NULL), XSM_OK);
    return info;
}

/* Rows, words and labels. */
static void assert_same_rows(const xsm_dataset *a, const xsm_dataset *b)
{
    xsm_dataset_info x = XSM_DATASET_INFO_INIT, y = XSM_DATASET_INFO_INIT;
    xsm_class_map m = XSM_CLASS_MAP_INIT, n = XSM_CLASS_MAP_INIT;
    assert_int_equal(xsm_dataset_get_info(a, &x, NULL), XSM_OK);
    assert_int_equal(xsm_dataset_get_info(b, &y, NULL), XSM_OK);
    assert_int_equal(xsm_dataset_get_class_map(a, &m, NULL), XSM_OK);
    assert_int_equal(xsm_dataset_get_class_map(b, &n, NULL), XSM_OK);
    assert_true(x.rows == y.rows && x.features == y.features && x.values == y.values && x.empty == y.empty);
    assert_int_equal(xsm_vocabulary_words(m.vocabulary), xsm_vocabulary_words(n.vocabulary));
    for (uint32_t i = 0; i < xsm_vocabulary_words(m.vocabulary); i++) {
        assert_string_equal(xsm_vocabulary_word(m.vocabulary, i), xsm_vocabulary_word(n.vocabulary, i));
    }
    for (uint64_t i = 0; i < x.rows; i++) {
        xsm_row r = XSM_ROW_INIT, s = XSM_ROW_INIT;
        assert_int_equal(xsm_dataset_get_row(a, i, &r, NULL), XSM_OK);
        assert_int_equal(xsm_dataset_get_row(b, i, &s, NULL), XSM_OK);
        assert_int_equal(r.count, s.count);
        assert_memory_equal(r.index, s.index, r.count * sizeof *r.index);
        assert_memory_equal(r.values, s.values, r.count * sizeof *r.values);
        assert_true(r.label_count == 1 && s.label_count == 1 && r.labels[0] == s.labels[0]);
    }
}

/* What tells the classes apart is chosen, and the rows are as if they had been read so, in buckets as many as are in
 * use. */
static void check(write_row row, uint32_t word_ngrams, uint32_t max_chars)
{
    HELD_MEMORY(char, text) = make_text(row);
    HELD(xsm_dataset, d) = read_pairs(NULL, text);
    HELD(xsm_choice, c) = choose(NULL, d, NULL);
    const xsm_text_options *chosen = info_of(c).text;
    assert_int_equal(chosen->word_ngrams, word_ngrams);
    assert_int_equal(chosen->max_chars, max_chars);
    assert_int_equal(chosen->min_chars, max_chars > 0);
    assert_true(info_of(c).held > 0 && info_of(c).trials >= 4);
    HELD(xsm_dataset, same) = read_text(NULL, text, chosen);
    assert_same_rows(d, same);
}

TEST(finds_words)
{
    check(by_words, 1, 0);
}

TEST(finds_pairs)
{
    check(by_pairs, 2, 0);
}

TEST(finds_characters)
{
    check(by_ends, 1, 4);
}

/* Each n-gram that occurs could have a bucket of its own, and no half of the buckets would do. */
TEST(has_buckets_for_all)
{
    HELD_MEMORY(char, text) = make_text(by_pairs);
    HELD(xsm_dataset, d) = read_pairs(NULL, text);
    HELD(xsm_choice, c) = choose(NULL, d, NULL);
    /* the pairs: zz behind 4 words and before 4, and of different words 12 */
    assert_int_equal(info_of(c).text->buckets, 32);
}

TEST(same_on_any_threads)
{
    HELD_MEMORY(char, text) = make_text(by_ends);
    HELD(xsm_choice, first) = NULL;
    xsm_choice_trial t = XSM_CHOICE_TRIAL_INIT, u = XSM_CHOICE_TRIAL_INIT;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
        HELD(xsm_dataset, d) = read_pairs(ctx, text);
        xsm_choice *c = choose(ctx, d, NULL);
        first = first ? first : c;
        assert_int_equal(info_of(c).trials, info_of(first).trials);
        for (uint64_t i = 0; i < info_of(c).trials; i++) {
            assert_int_equal(xsm_choice_get_trial(c, i, &t, NULL), XSM_OK);
            assert_int_equal(xsm_choice_get_trial(first, i, &u, NULL), XSM_OK);
            assert_true(t.loss == u.loss && t.rows == u.rows && t.transform == u.transform);
            assert_true(t.text->word_ngrams == u.text->word_ngrams && t.text->max_chars == u.text->max_chars);
        }
        if (c != first) {
            xsm_choice_free(c);
        }
    }
}

/* Of words that were left out n-grams of characters are not known, and pairs only if they were read. */
TEST(compares_what_is_known)
{
    HELD_MEMORY(char, text) = make_text(by_ends);
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    how.min_count = 2;
    strcpy(text, "__label__0 twice twice");
    text[strlen(text)] = ' ';
    HELD(xsm_dataset, d) = read_text(NULL, text, &how);
    HELD(xsm_choice, c) = choose(NULL, d, NULL);
    assert_int_equal(info_of(c).trials, 0);
    assert_int_equal(info_of(c).text->word_ngrams, 1);
    assert_int_equal(info_of(c).text->max_chars, 0);
}

TEST(refuses)
{
    xsm_choice *c = NULL;
    HELD_STRUCT(test_problem, p) = test_problem_new(60, 5, 3, true, 5);
    HELD_MEMORY(char, text) = make_text(by_words);
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    how.max_chars = 3;
    HELD(xsm_dataset, d) = read_text(NULL, text, &how);
    assert_fails(xsm_choose_ngrams(NULL, p.data, NULL, &c, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "no text"));
    assert_fails(xsm_choose_ngrams(NULL, d, NULL, &c, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "read with n-grams of characters"));
    assert_int_equal(xsm_choose_ngrams(NULL, NULL, NULL, &c, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_choose_ngrams(NULL, d, NULL, NULL, &err), XSM_ERROR_ARGUMENT);
    assert_null(c);
}

/* Reads and chooses, as far as memory lasts. */
static xsm_status choose_once(void *state, xsm_context *ctx, xsm_error *err)
{
    HELD(xsm_choice, c) = NULL;
    HELD(xsm_dataset, d) = NULL;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_text_options how = XSM_TEXT_OPTIONS_INIT;
    test_bytes bytes = {state, strlen(state), 0, SIZE_MAX, 0};
    how.word_ngrams = 2;
    options.format = XSM_FORMAT_TEXT;
    options.text = &how;
    xsm_status status = xsm_dataset_read(ctx, NULL, TEST_BYTES(&bytes, "text"), &options, &d, err);
    status = status == XSM_OK ? xsm_choose_ngrams(ctx, d, NULL, &c, err) : status;
    return status;
}

TEST(every_allocation)
{
    HELD_MEMORY(char, text) = make_text(by_ends);
    char *end = text;
    for (int i = 0; i < 49; i++) { /* too few to try anything: all the rest */
        end = strchr(end, '\n') + 1;
    }
    *end = '\0';
    assert_true(test_every_allocation(choose_once, text) > 20);
}
