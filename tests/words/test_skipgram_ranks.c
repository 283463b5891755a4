/*
 * Skip-gram training with words divided among ranks: the bytes of one process, whatever the number of ranks and
 * threads. What ends a run on one rank ends it on all, and a run that was stopped goes on.
 */
#include "words.h"

#include "comm.h"
#include "model/divided.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five class runs, so that five ranks have one each; the last is of a few words. */
enum { WORDS = 4 * XSMI_RUN_CLASSES + 5, DIMENSION = 7, EXTRA = 9000, OF_LINE = 12, RANKS = 5 };

typedef struct work {
    double eta;
    uint32_t stops;                                  /* 1 + the rank whose callback stops the run once; 0 = none */
    uint32_t loses;                                  /* 1 + the rank whose text is gone when it is read; 0 = none */
    char texts[RANKS][256], input[272], output[272]; /* where rank 0 saves the models */
    uint64_t steps[RANKS];
} work;

/* Every word once, and most of the frequent ones again and again. */
static char *make_text(size_t *length)
{
    char *text = malloc((size_t)(WORDS + EXTRA) * 8);
    uint64_t stream = 5;
    size_t used = 0;
    for (int i = 0; i < WORDS + EXTRA; i++) {
        const uint32_t word = i < WORDS ? (uint32_t)i : (uint32_t)(WORDS * pow(test_uniform(&stream), 5));
        used += (size_t)sprintf(text + used, "w%u%c", word, i % OF_LINE == OF_LINE - 1 ? '\n' : ' ');
    }
    *length = used;
    return text;
}

static void name_files(work *w, const char *name)
{
    static char *text;
    static size_t length;
    if (!text) {
        text = make_text(&length);
    }
    for (int r = 0; r < RANKS; r++) {
        char file[64];
        snprintf(file, sizeof file, "%s.%d", name, r);
        snprintf(w->texts[r], sizeof w->texts[r], "%s", test_file(file, text, length));
    }
    snprintf(w->input, sizeof w->input, "%s.input", w->texts[0]);
    snprintf(w->output, sizeof w->output, "%s.output", w->texts[0]);
}

typedef struct watch {
    const work *of;
    uint32_t rank;
    bool stopped;
} watch;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    watch *w = user;
    const bool stop = w->of->stops == w->rank + 1 && !w->stopped && p->epoch_ended;
    w->stopped |= stop;
    return stop;
}

static xsm_status train(test_rank *r)
{
    work *w = r->user;
    watch seen = {w, r->rank, false};
    xsm_corpus *corpus = NULL;
    xsm_model *input = NULL, *output = NULL;
    xsm_skipgram *t = NULL;
    xsm_corpus_options vocabulary = XSM_CORPUS_OPTIONS_INIT;
    vocabulary.min_count = 1;
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
    o.epochs = 2;
    o.window = 2;
    o.negatives = 3;
    o.subsample = 1e-2;
    o.batch = 201;
    o.eta = w->eta;
    o.seed = 8;
    o.progress = on_progress;
    o.progress_user = &seen;
    xsm_status status = xsm_corpus_open(r->context, w->texts[r->rank], &vocabulary, &corpus, &r->err);
    status = status == XSM_OK ? xsm_word_model_new(r->context, corpus, DIMENSION, .2, 1, &input, &r->err) : status;
    status = status == XSM_OK ? xsm_word_model_new(r->context, corpus, DIMENSION, .1, 2, &output, &r->err) : status;
    status = status == XSM_OK ? xsm_skipgram_new(r->context, corpus, input, output, NULL, &o, &t, &r->err) : status;
    if (status == XSM_OK && w->loses == r->rank + 1) {
        remove(w->texts[r->rank]);
    }
    status = status == XSM_OK ? xsm_skipgram_run(t, &r->err) : status;
    xsm_progress p = XSM_PROGRESS_INIT;
    if (t && xsm_skipgram_get_progress(t, &p, NULL) == XSM_OK) {
        w->steps[r->rank] = p.step;
    }
    if (status == XSM_CANCELLED && w->stops) {
        status = xsm_skipgram_run(t, &r->err);
    }
    status = status == XSM_OK ? xsm_model_save(input, w->input, &r->err) : status;
    status = status == XSM_OK ? xsm_model_save(output, w->output, &r->err) : status;
    xsm_skipgram_free(t);
    xsm_model_free(input);
    xsm_model_free(output);
    xsm_corpus_free(corpus);
    return status;
}

static void same_file(const char *a, const char *b)
{
    size_t bytes[2];
    unsigned char *text[2] = {test_read(a, &bytes[0]), test_read(b, &bytes[1])};
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(text[0], text[1], bytes[0]);
    free(text[0]);
    free(text[1]);
}

static void all_well(const test_rank *ranks, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        if (ranks[r].status != XSM_OK) {
            fail_msg("rank %u of %u: %s", r, count, ranks[r].err.message);
        }
    }
}

static void one_process(work *w, uint32_t threads)
{
    test_rank alone;
    name_files(w, "words_alone");
    test_run_ranks(1, threads, 0, train, w, &alone);
    all_well(&alone, 1);
}

static void the_bytes_of_one_process(void **state)
{
    (void)state;
    static const uint32_t groups[] = {2, 3, 5};
    work one = {.eta = .1};
    one_process(&one, 2);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            work w = {.eta = .1};
            test_rank ranks[TEST_RANKS];
            name_files(&w, "words_ranks");
            test_run_ranks(groups[g], threads, 0, train, &w, ranks);
            all_well(ranks, groups[g]);
            same_file(one.input, w.input);
            same_file(one.output, w.output);
        }
    }
}

/* A callback stops one rank: all stop after the same words, and go on to the same bytes. */
static void a_stop_is_for_all(void **state)
{
    (void)state;
    work one = {.eta = .1}, w = {.eta = .1, .stops = 2};
    one_process(&one, 1);
    test_rank ranks[TEST_RANKS];
    name_files(&w, "words_stopped");
    test_run_ranks(3, 1, 0, train, &w, ranks);
    all_well(ranks, 3);
    assert_int_equal(w.steps[0], WORDS + EXTRA);
    assert_int_equal(w.steps[1], w.steps[0]);
    assert_int_equal(w.steps[2], w.steps[0]);
    same_file(one.input, w.input);
    same_file(one.output, w.output);
}

static void all_end_with(work *w, xsm_status status, const char *what)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(3, 2, 0, train, w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        if (ranks[r].status != status || !strstr(ranks[r].err.message, what)) {
            fail_msg("rank %u: %s: %s", r, xsm_status_name(ranks[r].status), ranks[r].err.message);
        }
    }
}

static void a_failure_is_for_all(void **state)
{
    (void)state;
    work lost = {.eta = .1, .loses = 2}, diverges = {.eta = 1e14};
    name_files(&lost, "words_lost");
    all_end_with(&lost, XSM_ERROR_IO, "rank 1: ");
    name_files(&diverges, "words_diverge");
    all_end_with(&diverges, XSM_ERROR_DIVERGED, "training diverged in epoch 1");
}

/* A group that fails in any of its calls ends the run on all ranks. */
static void a_lost_group_is_an_error(void **state)
{
    (void)state;
    work w = {.eta = .1};
    name_files(&w, "words_group");
    for (uint64_t call = 1; call < 400; call += call < 24 ? 1 : 67) {
        test_rank ranks[TEST_RANKS];
        test_run_ranks(2, 1, call, train, &w, ranks);
        assert_int_equal(ranks[0].status, XSM_ERROR_COMM);
        assert_int_equal(ranks[1].status, XSM_ERROR_COMM);
    }
}

/* -- what is read, and what is refused ----------------------------------------------------------------------------- */

typedef struct reading {
    char text[256], saved[272];
} reading;

static xsm_status read_and_save(test_rank *r)
{
    const reading *of = r->user;
    xsm_model *m = NULL;
    xsm_status status = xsm_word_model_read(r->context, of->text, &m, &r->err);
    status = status == XSM_OK ? xsm_model_save(m, of->saved, &r->err) : status;
    if (status == XSM_OK && r->ranks > 1 && xsm_word_model_write(m, of->text, NULL) != XSM_ERROR_UNSUPPORTED) {
        status = XSM_ERROR_INTERNAL;
    }
    xsm_model_free(m);
    return status;
}

static void vectors_are_read_as_in_one_process(void **state)
{
    (void)state;
    char *text = malloc((size_t)WORDS * 40);
    size_t used = (size_t)sprintf(text, "%d 2\n", (int)WORDS);
    uint64_t stream = 3;
    for (int i = 0; i < WORDS; i++) {
        used += (size_t)sprintf(text + used, "w%d %.6f %.6f\n", i, test_uniform(&stream), -test_uniform(&stream));
    }
    reading one, w;
    snprintf(one.text, sizeof one.text, "%s", test_file("words.vec", text, used));
    w = one;
    snprintf(one.saved, sizeof one.saved, "%s.one", one.text);
    snprintf(w.saved, sizeof w.saved, "%s.ranks", one.text);
    test_rank ranks[TEST_RANKS];
    test_run_ranks(1, 1, 0, read_and_save, &one, ranks);
    all_well(ranks, 1);
    test_run_ranks(3, 1, 0, read_and_save, &w, ranks);
    all_well(ranks, 3);
    same_file(one.saved, w.saved);
    /* The text ends early: an error at its place on every rank. */
    snprintf(w.text, sizeof w.text, "%s", test_file("short.vec", text, used / 2));
    test_run_ranks(3, 1, 0, read_and_save, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, XSM_ERROR_FORMAT);
        assert_true(ranks[r].err.line > WORDS / 3);
    }
    free(text);
}

/* XSM_OK if what needs all words in one process is refused. */
static xsm_status is_refused(test_rank *r)
{
    const work *w = r->user;
    xsm_corpus *corpus = NULL;
    xsm_model *input = NULL, *output = NULL, *whole = NULL;
    xsm_estimator *e = NULL;
    xsm_skipgram *t = NULL;
    xsm_corpus_options vocabulary = XSM_CORPUS_OPTIONS_INIT;
    vocabulary.min_count = 1;
    xsm_status status = xsm_corpus_open(NULL, w->texts[r->rank], &vocabulary, &corpus, &r->err);
    status = status == XSM_OK ? xsm_word_model_new(r->context, corpus, 2, .2, 1, &input, &r->err) : status;
    status = status == XSM_OK ? xsm_word_model_new(r->context, corpus, 2, .2, 2, &output, &r->err) : status;
    status = status == XSM_OK ? xsm_word_model_new(NULL, corpus, 2, .2, 2, &whole, &r->err) : status;
    status = status == XSM_OK ? xsm_estimator_new(NULL, "negative-sampling", &e, &r->err) : status;
    if (status == XSM_OK) {
        const bool refused =
            xsm_skipgram_new(NULL, corpus, input, output, e, NULL, &t, NULL) == XSM_ERROR_UNSUPPORTED &&
            xsm_skipgram_fit(NULL, corpus, input, output, NULL, NULL, NULL) == XSM_ERROR_UNSUPPORTED &&
            xsm_skipgram_new(NULL, corpus, input, whole, NULL, NULL, &t, NULL) == XSM_ERROR_ARGUMENT;
        status = refused && !t ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    xsm_estimator_free(e);
    xsm_model_free(input);
    xsm_model_free(output);
    xsm_model_free(whole);
    xsm_corpus_free(corpus);
    return status;
}

static void what_needs_all_words_is_refused(void **state)
{
    (void)state;
    work w = {.eta = .1};
    test_rank ranks[TEST_RANKS];
    name_files(&w, "words_refused");
    test_run_ranks(2, 1, 0, is_refused, &w, ranks);
    all_well(ranks, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_one_process),
        cmocka_unit_test(a_stop_is_for_all),
        cmocka_unit_test(a_failure_is_for_all),
        cmocka_unit_test(a_lost_group_is_an_error),
        cmocka_unit_test(vectors_are_read_as_in_one_process),
        cmocka_unit_test(what_needs_all_words_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
