/*
 * Word vectors with words divided among ranks: the bytes of one process, whatever the number of ranks and threads, of
 * training with and without an estimator, of full gradients, and of text files. What ends a run on one rank ends it on
 * all, and a run that was stopped goes on.
 */
#include "words.h"

#include "comm.h"
#include "model/divided.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Class runs of one rank each; the last is of a few words. */
enum { WORDS = 4 * XSMI_RUN_CLASSES + 5, FEWER = 2 * XSMI_RUN_CLASSES + 5, LEAST = XSMI_RUN_CLASSES + 5 };
enum { DIMENSION = 7, OF_LINE = 12, RANKS = 5 };

typedef struct work {
    uint32_t words, extra, epochs; /* of the text, each once; more of the frequent ones; passes over it */
    const char *estimator;         /* of either kind of training; NULL = none */
    const char *options;           /* of it: "name=value", with blanks between */
    double eta;
    bool fit;                                        /* full gradients */
    uint32_t stops;                                  /* 1 + the rank whose callback stops the run once; 0 = none */
    uint32_t loses;                                  /* 1 + the rank whose text is gone when it is read; 0 = none */
    uint32_t cuts;                                   /* 1 + the rank whose text is cut before the run; 0 = none */
    size_t fails;                                    /* the allocation of rank 1 that fails, from 1; 0 = none */
    bool failed;                                     /* it has come to that one */
    char texts[RANKS][256], input[272], output[272]; /* where rank 0 saves the models */
    uint64_t steps[RANKS];
    double objective[RANKS];
} work;

/* -- runs ---------------------------------------------------------------------------------------------------------- */

/* Every word once, and most of the frequent ones again and again. */
static char *make_text(const work *w, size_t *length)
{
    char *text = malloc((size_t)(w->words + w->extra) * 8);
    uint64_t stream = 5;
    size_t used = 0;
    for (uint32_t i = 0; i < w->words + w->extra; i++) {
        const uint32_t word = i < w->words ? i : (uint32_t)(w->words * pow(test_uniform(&stream), 5));
        used += (size_t)sprintf(text + used, "w%u%c", word, i % OF_LINE == OF_LINE - 1 ? '\n' : ' ');
    }
    *length = used;
    return text;
}

static void name_files(work *w, const char *name)
{
    size_t length;
    char *text = make_text(w, &length);
    for (int r = 0; r < RANKS; r++) {
        char file[64];
        snprintf(file, sizeof file, "%s.%d", name, r);
        snprintf(w->texts[r], sizeof w->texts[r], "%s", test_file(file, text, length));
    }
    snprintf(w->input, sizeof w->input, "%s.input", w->texts[0]);
    snprintf(w->output, sizeof w->output, "%s.output", w->texts[0]);
    free(text);
}

typedef struct watch {
    const work *of;
    uint32_t rank;
    bool stopped;
} watch;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    watch *w = user;
    const bool stop = w->of->stops == w->rank + 1 && !w->stopped && (w->of->fit ? p->step == 1 : p->epoch_ended);
    w->stopped |= stop;
    return stop;
}

static xsm_status make_estimator(const work *w, xsm_context *ctx, xsm_estimator **out, xsm_error *err)
{
    if (!w->estimator) {
        return XSM_OK;
    }
    xsm_status status = xsm_estimator_new(ctx, w->estimator, out, err);
    for (const char *at = w->options; status == XSM_OK && *at;) {
        char key[64], value[64];
        int length = 0;
        if (sscanf(at, "%63[^=]=%63s %n", key, value, &length) < 2) {
            return XSM_ERROR_INTERNAL;
        }
        status = xsm_estimator_set(*out, key, value, err);
        at += length;
    }
    return status;
}

/* What a rank makes. */
typedef struct made {
    xsm_corpus *corpus;
    xsm_model *input, *output;
    xsm_estimator *estimator;
} made;

static xsm_status make(test_rank *r, xsm_context *ctx, made *m)
{
    const work *w = r->user;
    xsm_corpus_options vocabulary = XSM_CORPUS_OPTIONS_INIT;
    vocabulary.min_count = 1;
    xsm_status status = xsm_corpus_open(ctx, w->texts[r->rank], &vocabulary, &m->corpus, &r->err);
    status = status == XSM_OK ? xsm_word_model_new(ctx, m->corpus, DIMENSION, .2, 1, &m->input, &r->err) : status;
    status = status == XSM_OK ? xsm_word_model_new(ctx, m->corpus, DIMENSION, .1, 2, &m->output, &r->err) : status;
    return status == XSM_OK ? make_estimator(w, ctx, &m->estimator, &r->err) : status;
}

static void unmake(made *m)
{
    xsm_estimator_free(m->estimator);
    xsm_model_free(m->input);
    xsm_model_free(m->output);
    xsm_corpus_free(m->corpus);
}

static xsm_status sample(test_rank *r, xsm_context *ctx, const made *m)
{
    work *w = r->user;
    watch seen = {w, r->rank, false};
    xsm_skipgram *t = NULL;
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
    o.epochs = w->epochs;
    o.window = 2;
    o.negatives = 3;
    o.subsample = 1e-2;
    o.batch = 201;
    o.eta = w->eta;
    o.seed = 8;
    o.progress = on_progress;
    o.progress_user = &seen;
    xsm_status status = xsm_skipgram_new(ctx, m->corpus, m->input, m->output, m->estimator, &o, &t, &r->err);
    if (status == XSM_OK && w->loses == r->rank + 1) {
        remove(w->texts[r->rank]);
    }
    if (status == XSM_OK && w->cuts == r->rank + 1 && truncate(w->texts[r->rank], 4000) != 0) {
        status = XSM_ERROR_INTERNAL;
    }
    status = status == XSM_OK ? xsm_skipgram_run(t, &r->err) : status;
    xsm_progress p = XSM_PROGRESS_INIT;
    if (t && xsm_skipgram_get_progress(t, &p, NULL) == XSM_OK) {
        w->steps[r->rank] = p.step;
        w->objective[r->rank] = p.loss;
    }
    if (status == XSM_CANCELLED && w->stops) {
        status = xsm_skipgram_run(t, &r->err);
    }
    xsm_skipgram_free(t);
    return status;
}

static xsm_status fit(test_rank *r, xsm_context *ctx, const made *m)
{
    work *w = r->user;
    watch seen = {w, r->rank, false};
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    o.iterations = w->epochs;
    o.window = 2;
    o.subsample = 1;
    o.seed = 8;
    o.eta = w->eta;
    o.estimator = m->estimator;
    o.progress = on_progress;
    o.progress_user = &seen;
    if (w->loses == r->rank + 1) {
        remove(w->texts[r->rank]);
    }
    const xsm_status status =
        xsm_skipgram_fit(ctx, m->corpus, m->input, m->output, &o, &w->objective[r->rank], &r->err);
    return status == XSM_CANCELLED && w->stops ? XSM_OK : status;
}

/* All of it in a context whose allocations can fail, with the group of the rank's. */
static xsm_status train(test_rank *r)
{
    work *w = r->user;
    test_countdown c = {0, false};
    xsm_context *own = NULL;
    xsm_status status = w->fails > 0 ? test_rank_context(r, &c, NULL, &own) : XSM_OK;
    xsm_context *ctx = own ? own : r->context;
    made m = {.corpus = NULL};
    status = status == XSM_OK ? make(r, ctx, &m) : status;
    c.left = status == XSM_OK && r->rank == 1 ? w->fails : 0;
    status = status == XSM_OK ? (w->fit ? fit : sample)(r, ctx, &m) : status;
    if (r->rank == 1) {
        w->failed = c.reached;
    }
    c.left = 0;
    status = status == XSM_OK ? xsm_model_save(m.input, w->input, &r->err) : status;
    status = status == XSM_OK ? xsm_model_save(m.output, w->output, &r->err) : status;
    unmake(&m);
    xsm_context_free(own);
    return status;
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

static void as_one_process(const work *one, const work *given, uint32_t count, uint32_t threads)
{
    work w = *given;
    test_rank ranks[TEST_RANKS];
    name_files(&w, "words_ranks");
    test_run_ranks(count, threads, 0, train, &w, ranks);
    all_well(ranks, count);
    test_assert_same_file(one->input, w.input);
    test_assert_same_file(one->output, w.output);
    for (uint32_t r = 0; r < count; r++) {
        assert_int_equal(w.steps[r], one->steps[0]);
        assert_memory_equal(&w.objective[r], &one->objective[0], sizeof *w.objective);
    }
}

static const work sampling = {.words = WORDS, .extra = 9000, .epochs = 2, .eta = .1};

static void the_bytes_of_one_process(void **state)
{
    (void)state;
    static const uint32_t groups[] = {2, 3, 5};
    work one = sampling;
    one_process(&one, 2);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        if (!test_ranks_tried(groups[g])) {
            continue;
        }
        if (test_full()) {
            as_one_process(&one, &sampling, groups[g], 1);
        }
        as_one_process(&one, &sampling, groups[g], 3);
    }
}

/* Some count each draw for all the words that it stands for, and want rates that are smaller by so much. Those from
 * `umax` on take their steps one by one. */
static const struct {
    const char *name, *options;
    double eta;
} estimators[] = {
    {"negative-sampling", "negatives=3 sampler=frequency sampler.power=0.75", .1},
    {"sampled-softmax", "negatives=3", .1},
    {"ove-sampled", "negatives=3", 1e-4},
    {"hierarchical", "", .1},
    {"umax", "negatives=3", 1e-4},
    {"implicit", "negatives=3", .1},
    {"augment-reduce", "negatives=3", .05},
};

static void estimators_are_as_in_one_process(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof estimators / sizeof *estimators; i++) {
        const work w = {.words = FEWER,
                        .extra = 2000,
                        .epochs = 1,
                        .estimator = estimators[i].name,
                        .options = estimators[i].options,
                        .eta = estimators[i].eta};
        work one = w;
        one_process(&one, 2);
        as_one_process(&one, &w, 2, 3);
        if (test_full()) {
            as_one_process(&one, &w, 3, 1);
        }
    }
}

static const work fits[] = {
    {.words = FEWER, .extra = 2000, .epochs = 1, .fit = true},
    {.words = FEWER,
     .extra = 2000,
     .epochs = 1,
     .fit = true,
     .estimator = "mips",
     .options = "loss=cross-entropy index=exact candidates=20"},
    {.words = FEWER,
     .extra = 2000,
     .epochs = 1,
     .fit = true,
     .estimator = "decomp-mips",
     .options = "loss=cross-entropy index=exact candidates=20 blocks=2"},
    {.words = FEWER,
     .extra = 500,
     .epochs = 1,
     .fit = true,
     .estimator = "mips",
     .options = "loss=cross-entropy index=spherical candidates=20"},
};
enum { FITS = sizeof fits / sizeof *fits };

static void full_gradients_are_as_in_one_process(void **state)
{
    (void)state;
    for (int i = 0; i < FITS; i++) {
        work one = fits[i];
        one_process(&one, 2);
        assert_true(one.objective[0] > 0 && isfinite(one.objective[0]));
        as_one_process(&one, &fits[i], 2, 3);
        if (test_full()) {
            as_one_process(&one, &fits[i], 3, 1);
        }
    }
}

/* -- stops and failures -------------------------------------------------------------------------------------------- */

/* A callback stops one rank: all stop after the same words, and go on to the same bytes. */
static void a_stop_is_for_all(void **state)
{
    (void)state;
    work one = sampling, w = sampling;
    one_process(&one, 1);
    test_rank ranks[TEST_RANKS];
    w.stops = 2;
    name_files(&w, "words_stopped");
    test_run_ranks(3, 1, 0, train, &w, ranks);
    all_well(ranks, 3);
    assert_int_equal(w.steps[0], w.words + w.extra);
    assert_int_equal(w.steps[1], w.steps[0]);
    assert_int_equal(w.steps[2], w.steps[0]);
    test_assert_same_file(one.input, w.input);
    test_assert_same_file(one.output, w.output);
}

/* A fit is left after the step at which one process was stopped. */
static void a_stop_of_a_fit_is_for_all(void **state)
{
    (void)state;
    work one = fits[1], w = fits[1], whole = fits[1];
    one.stops = 1;
    w.stops = 2;
    one_process(&whole, 1);
    one_process(&one, 1);
    assert_true(one.objective[0] > whole.objective[0]);
    as_one_process(&one, &w, 3, 1);
}

static void all_end_with(const work *given, xsm_status status, const char *what)
{
    work w = *given;
    test_rank ranks[TEST_RANKS];
    name_files(&w, "words_end");
    test_run_ranks(3, 2, 0, train, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        if (ranks[r].status != status || !strstr(ranks[r].err.message, what)) {
            fail_msg("rank %u: %s: %s", r, xsm_status_name(ranks[r].status), ranks[r].err.message);
        }
    }
}

static void a_failure_is_for_all(void **state)
{
    (void)state;
    work lost = sampling, diverges = sampling, fitting = fits[0];
    lost.loses = fitting.loses = 2;
    diverges.eta = 1e14;
    all_end_with(&lost, XSM_ERROR_IO, "rank 1: ");
    all_end_with(&fitting, XSM_ERROR_IO, "rank 1: ");
    all_end_with(&diverges, XSM_ERROR_DIVERGED, "training diverged in epoch 1");
    work cut = sampling;
    cut.cuts = 2;
    all_end_with(&cut, XSM_ERROR_STATE, "rank 1: the words are not those that rank 0 has read");
    diverges.estimator = "nce";
    diverges.options = "negatives=3";
    all_end_with(&diverges, XSM_ERROR_DIVERGED, "training diverged in epoch 1");
    diverges.estimator = "umax";
    all_end_with(&diverges, XSM_ERROR_DIVERGED, "training diverged in epoch 1");
}

/* Runs on two ranks in which something fails. */
static const work runs[] = {
    {.words = LEAST, .extra = 100, .epochs = 1, .eta = .1},
    {.words = LEAST, .extra = 100, .epochs = 1, .eta = .1, .estimator = "nce", .options = "negatives=3"},
    {.words = LEAST, .extra = 100, .epochs = 1, .eta = .1, .estimator = "implicit", .options = "negatives=3"},
    {.words = LEAST, .extra = 100, .epochs = 1, .fit = true},
    {.words = LEAST,
     .extra = 100,
     .epochs = 1,
     .fit = true,
     .estimator = "decomp-mips",
     .options = "loss=cross-entropy index=exact candidates=6 blocks=2"},
};
enum { RUNS = sizeof runs / sizeof *runs };

/* A group that fails in any of its calls ends the run on all ranks: up to a call that is not made any more. */
static void a_lost_group_is_an_error(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i += test_full() ? 1 : 2) {
        work w = runs[i];
        test_rank ranks[TEST_RANKS];
        name_files(&w, "words_group");
        uint64_t call = 1;
        for (bool lost = true; lost; call = test_next_place(call, call < 25 ? 1 : call / 2)) {
            test_run_ranks(2, 1, call, train, &w, ranks);
            lost = ranks[0].status != XSM_OK || ranks[1].status != XSM_OK;
            assert_int_equal(ranks[0].status, lost ? XSM_ERROR_COMM : XSM_OK);
            assert_int_equal(ranks[1].status, lost ? XSM_ERROR_COMM : XSM_OK);
        }
        assert_true(call > 25);
    }
}

/* An allocation of one rank that fails ends the run on all ranks, which say so: each of the first, and some of those of
 * later batches and groups. */
static void a_rank_without_memory_ends_all(void **state)
{
    (void)state;
    for (int i = 0; i < RUNS; i += test_full() ? 1 : 2) {
        work w = runs[i];
        test_rank ranks[TEST_RANKS];
        name_files(&w, "words_memory");
        w.failed = true;
        for (w.fails = 1; w.failed; w.fails = test_next_place(w.fails, w.fails < 30 ? 1 : w.fails / 2)) {
            test_run_ranks(2, 1, 0, train, &w, ranks);
            for (uint32_t r = 0; w.failed && r < 2; r++) {
                if (ranks[r].status != XSM_ERROR_MEMORY || strncmp(ranks[r].err.message, "rank 1: ", 8) != 0) {
                    fail_msg("run %d, allocation %zu, rank %u: %s: %s", i, w.fails, r, xsm_status_name(ranks[r].status),
                             ranks[r].err.message);
                }
            }
        }
        all_well(ranks, 2);
        assert_true(w.fails > 20);
    }
}

/* -- what is read and written, and what is refused ----------------------------------------------------------------- */

typedef struct reading {
    char text[256], saved[272], written[288];
    xsm_status wanted; /* of writing the text anew */
    bool spoilt;       /* a number of the last rank is not finite */
} reading;

static xsm_status read_and_save(test_rank *r)
{
    const reading *of = r->user;
    xsm_model *m = NULL;
    xsm_status status = xsm_word_model_read(r->context, of->text, &m, &r->err);
    status = status == XSM_OK ? xsm_model_save(m, of->saved, &r->err) : status;
    if (status == XSM_OK && of->spoilt && r->rank == r->ranks - 1) {
        xsmi_model_changed(m)->weight[1] = INFINITY;
    }
    if (status == XSM_OK) {
        const xsm_status written = xsm_word_model_write(m, of->written, &r->err);
        status = written == of->wanted ? XSM_OK : written != XSM_OK ? written : XSM_ERROR_INTERNAL;
    }
    xsm_model_free(m);
    return status;
}

static void vectors_are_read_and_written_as_in_one_process(void **state)
{
    (void)state;
    char *text = malloc((size_t)WORDS * 40);
    size_t used = (size_t)sprintf(text, "%d 2\n", (int)WORDS);
    uint64_t stream = 3;
    for (int i = 0; i < WORDS; i++) {
        used += (size_t)sprintf(text + used, "w%d %.6f %.6f\n", i, test_uniform(&stream), -test_uniform(&stream));
    }
    reading one = {.spoilt = false}, w;
    snprintf(one.text, sizeof one.text, "%s", test_file("words.vec", text, used));
    w = one;
    snprintf(one.saved, sizeof one.saved, "%s.one", one.text);
    snprintf(w.saved, sizeof w.saved, "%s.ranks", one.text);
    snprintf(one.written, sizeof one.written, "%s.vec", one.saved);
    snprintf(w.written, sizeof w.written, "%s.vec", w.saved);
    test_rank ranks[TEST_RANKS];
    test_run_ranks(1, 1, 0, read_and_save, &one, ranks);
    all_well(ranks, 1);
    test_run_ranks(3, 1, 0, read_and_save, &w, ranks);
    all_well(ranks, 3);
    test_assert_same_file(one.saved, w.saved);
    test_assert_same_file(one.written, w.written);
    /* What one rank finds ends it on all, and leaves no file. */
    remove(w.written);
    w.spoilt = true;
    w.wanted = XSM_ERROR_DIVERGED;
    test_run_ranks(3, 1, 0, read_and_save, &w, ranks);
    all_well(ranks, 3);
    FILE *left = fopen(w.written, "r");
    assert_null(left);
    w.spoilt = false;
    w.wanted = XSM_ERROR_IO;
    snprintf(w.written, sizeof w.written, "/dev/full");
    test_run_ranks(3, 1, 0, read_and_save, &w, ranks);
    all_well(ranks, 3);
    for (uint32_t r = 0; r < 3; r++) {
        assert_memory_equal(ranks[r].err.message, "rank 0: ", 8);
    }
    for (uint64_t call = 1; call < 100; call++) { /* until there are no more */
        w.wanted = XSM_OK;
        snprintf(w.written, sizeof w.written, "%s.vec", w.saved);
        test_run_ranks(2, 1, call, read_and_save, &w, ranks);
        if (ranks[0].status == XSM_OK) {
            assert_true(call > 5);
            all_well(ranks, 2);
            test_assert_same_file(one.written, w.written);
            break;
        }
        assert_int_equal(ranks[0].status, XSM_ERROR_COMM);
        assert_int_equal(ranks[1].status, XSM_ERROR_COMM);
    }
    /* The text ends early: an error at its place on every rank. */
    snprintf(w.text, sizeof w.text, "%s", test_file("short.vec", text, used / 2));
    test_run_ranks(3, 1, 0, read_and_save, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, XSM_ERROR_FORMAT);
        assert_true(ranks[r].err.line > WORDS / 3);
    }
    free(text);
}

/* Whether training with an estimator, or a fit, is refused, and says why. */
static bool refuses(test_rank *r, const made *m, const char *name, const char *options, bool fitted, const char *why)
{
    const work w = {.estimator = name, .options = options};
    xsm_estimator *e = NULL;
    xsm_skipgram *t = NULL;
    xsm_error err = XSM_ERROR_INIT;
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    xsm_status status = make_estimator(&w, r->context, &e, &err);
    o.estimator = e;
    if (status == XSM_OK) {
        status = fitted ? xsm_skipgram_fit(NULL, m->corpus, m->input, m->output, &o, NULL, &err)
                        : xsm_skipgram_new(NULL, m->corpus, m->input, m->output, e, NULL, &t, &err);
    }
    const bool refused = status == XSM_ERROR_UNSUPPORTED && !t && strstr(err.message, why);
    if (!refused) {
        snprintf(r->err.message, sizeof r->err.message, "%s: %.300s", name, err.message);
    }
    xsm_estimator_free(e);
    return refused;
}

/* XSM_OK if what needs all words in one process is refused. */
static xsm_status is_refused(test_rank *r)
{
    xsm_model *whole = NULL;
    xsm_skipgram *t = NULL;
    made m = {.corpus = NULL};
    xsm_status status = make(r, r->context, &m);
    status = status == XSM_OK ? xsm_word_model_new(NULL, m.corpus, 2, .2, 2, &whole, &r->err) : status;
    if (status == XSM_OK) {
        const bool refused =
            refuses(r, &m, "negative-sampling", "sampler=tree", false, "'tree' draws by the features of a row") &&
            refuses(r, &m, "hierarchical", "tree=fitted", false, "tree") &&
            refuses(r, &m, "softmax", "", false, "scores every class") &&
            refuses(r, &m, "mips", "index=exact", false, "searches for classes") &&
            refuses(r, &m, "nce", "", true, "does not search") &&
            xsm_skipgram_new(NULL, m.corpus, m.input, whole, NULL, NULL, &t, NULL) == XSM_ERROR_SHAPE;
        status = refused && !t ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    if (status == XSM_OK) {
        xsm_model_free(whole);
        whole = NULL;
        status = xsm_word_model_new(NULL, m.corpus, DIMENSION, .2, 2, &whole, &r->err);
        const bool refused =
            status == XSM_OK &&
            xsm_skipgram_new(NULL, m.corpus, m.input, whole, NULL, NULL, &t, NULL) == XSM_ERROR_ARGUMENT &&
            xsm_skipgram_fit(NULL, m.corpus, whole, m.output, NULL, NULL, NULL) == XSM_ERROR_ARGUMENT;
        status = refused && !t ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    xsm_model_free(whole);
    unmake(&m);
    return status;
}

static void what_needs_all_words_is_refused(void **state)
{
    (void)state;
    work w = {.words = LEAST, .extra = 100};
    test_rank ranks[TEST_RANKS];
    name_files(&w, "words_refused");
    test_run_ranks(2, 1, 0, is_refused, &w, ranks);
    all_well(ranks, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_of_one_process),
        cmocka_unit_test(estimators_are_as_in_one_process),
        cmocka_unit_test(full_gradients_are_as_in_one_process),
        cmocka_unit_test(a_stop_is_for_all),
        cmocka_unit_test(a_stop_of_a_fit_is_for_all),
        cmocka_unit_test(a_failure_is_for_all),
        cmocka_unit_test(a_lost_group_is_an_error),
        cmocka_unit_test(a_rank_without_memory_ends_all),
        cmocka_unit_test(vectors_are_read_and_written_as_in_one_process),
        cmocka_unit_test(what_needs_all_words_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, test_files_teardown);
}
