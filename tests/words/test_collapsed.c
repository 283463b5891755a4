/*
 * The collapsed skip-gram objective: counts in bounded memory, the objective by definition, its gradients against
 * central differences, and steps that lower it.
 */
#include "training.h"

#include <xsoftmax/words/skipgram.h>

#include "words/collapsed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 30, MANY_WORDS = 150, D = 7 };

static const char *random_text(const char *name, int lines, uint32_t words, uint64_t seed)
{
    HELD_MEMORY(char, text) = malloc((size_t)lines * 120);
    size_t used = 0;
    assert_non_null(text);
    for (int i = 0; i < lines; i++) {
        uint32_t topic = (uint32_t)(test_next(&seed) % 3);
        for (int j = 0; j < 12; j++) {
            uint32_t w = (uint32_t)((double)words / 3 * pow(test_uniform(&seed), 2)) * 3 + topic;
            used += (size_t)sprintf(text + used, "w%u ", w);
        }
        text[used - 1] = '\n';
    }
    const char *path = test_file(name, text, used);
    return path;
}

/* Three ways to run: on one thread, on three, and on two in reverse order without vector instructions. */
static xsm_context *context_of(int way)
{
    return way == 0   ? test_context(1, TEST_BUILT_IN, 0)
           : way == 1 ? test_context(3, TEST_PTHREADS, 0)
                      : test_context(2, TEST_REVERSED, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON);
}

static xsm_corpus *corpus_of(xsm_context *ctx, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_corpus, c, xsm_corpus_open(ctx, path, STRUCT(xsm_corpus_options, .min_count = 1), &c, &err));
    return c;
}

static xsm_model *vectors(xsm_context *ctx, const xsm_corpus *c, double spread, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, m, xsm_word_model_new(ctx, c, D, spread, seed, &m, &err));
    return m;
}

static void weights_of(const xsm_model *m, double *out)
{
    for (uint32_t k = 0; k < xsm_model_class_count(m); k++) {
        for (uint32_t i = 0; i < D; i++) {
            out[k * D + i] = test_weight(m, k, i);
        }
    }
}

/* Counts by definition: a full matrix. */
static double *matrix_of(xsm_context *ctx, const xsm_corpus *c, uint32_t window, double subsample)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
    assert_ok(xsm_corpus_get_info(c, &info, &err), err);
    double *n = calloc((size_t)info.words * info.words, sizeof *n);
    assert_non_null(n);
    xsmi_centres text;
    assert_ok(xsmi_centres_open(&text, ctx, c, &(xsmi_text_settings){window, subsample, 5}, &err), err);
    assert_ok(xsmi_centres_rewind(&text, &err), err);
    for (;;) {
        xsmi_centre at;
        bool found;
        assert_ok(xsmi_centres_next(&text, &at, &found, &err), err);
        if (!found) {
            break;
        }
        for (uint32_t i = 0; i < at.before + 1 + at.after; i++) {
            n[(size_t)at.words[at.before] * info.words + at.words[i]] += i != at.before;
        }
    }
    xsmi_centres_close(&text, ctx);
    return n;
}

/* The counts are those of the text however little memory there is, in more passes. */
TEST(counts_are_right)
{
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    HELD(xsm_corpus, c) = corpus_of(ctx, random_text("counts", 3000, 900, 1));
    xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
    assert_ok(xsm_corpus_get_info(c, &info, &err), err);
    HELD_MEMORY(double, wanted) = matrix_of(ctx, c, 4, 1e-2);
    int passes[2] = {0, 0};
    for (int small = 0; small < 2; small++) {
        xsmi_cooccurrence n;
        const xsmi_text_settings settings = {4, 1e-2, 5};
        assert_ok(xsmi_cooccurrence_start(&n, ctx, c, &settings, small ? 1 : 1 << 24, &err), err);
        double *seen = calloc((size_t)info.words * info.words, sizeof *seen);
        assert_non_null(seen);
        for (uint32_t first = 0; first < info.words; first = n.end) {
            assert_ok(xsmi_cooccurrence_count(&n, first, &err), err);
            assert_true(n.first == first && n.end > first);
            passes[small]++;
            for (uint32_t k = first; k < n.end; k++) {
                for (uint64_t i = n.offsets[k - first]; i < n.offsets[k - first + 1]; i++) {
                    assert_true(i == n.offsets[k - first] || n.contexts[i] > n.contexts[i - 1]);
                    seen[(size_t)k * info.words + n.contexts[i]] += n.numbers[i];
                }
            }
        }
        assert_memory_equal(seen, wanted, (size_t)info.words * info.words * sizeof *seen);
        free(seen);
        xsmi_cooccurrence_clear(&n);
    }
    assert_int_equal(passes[0], 1);
    assert_true(passes[1] > 3);
}

/* The objective in double, by definition. */
static double objective_of(const double *n, uint32_t words, const double *in, const double *out)
{
    double loss = 0, all = 0;
    assert_true(words <= MANY_WORDS);
    for (uint32_t x = 0; x < words; x++) {
        double z[MANY_WORDS], most = -INFINITY, sum = 0;
        for (uint32_t k = 0; k < words; k++) {
            z[k] = 0;
            for (int i = 0; i < D; i++) {
                z[k] += in[x * D + i] * out[k * D + i];
            }
            most = fmax(most, z[k]);
        }
        for (uint32_t k = 0; k < words; k++) {
            sum += exp(z[k] - most);
        }
        for (uint32_t y = 0; y < words; y++) {
            loss += n[x * words + y] * (most + log(sum) - z[y]);
            all += n[x * words + y];
        }
    }
    return loss / all;
}

/* The share of the pairs that have word k as centre (side 0) or context (side 1). */
static double share_of(const double *n, uint32_t words, int side, uint32_t k)
{
    double own = 0, all = 0;
    for (uint32_t x = 0; x < words; x++) {
        own += side == 0 ? n[k * words + x] : n[x * words + k];
        for (uint32_t y = 0; y < words; y++) {
            all += n[x * words + y];
        }
    }
    return own / all;
}

TEST(gradients_are_right)
{
    HELD(xsm_context, ctx) = test_context(2, TEST_BUILT_IN, 0);
    HELD(xsm_corpus, c) = corpus_of(ctx, random_text("gradient", 60, WORDS, 2));
    xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
    assert_ok(xsm_corpus_get_info(c, &info, &err), err);
    const uint32_t words = info.words;
    assert_true(words > 20 && words <= WORDS);
    double *n = matrix_of(ctx, c, 3, 1);
    xsm_model *models[2] = {vectors(ctx, c, 1, 1), vectors(ctx, c, 1, 2)};
    double w[2][WORDS * D];
    for (int m = 0; m < 2; m++) {
        weights_of(models[m], w[m]);
    }
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    o.window = 3;
    o.subsample = 1;
    o.seed = 5;
    o.memory = 1 << 20;
    xsmi_collapsed *at = NULL;
    assert_ok(xsmi_collapsed_new(&(xsmi_word_task){ctx, c, models[0], models[1], NULL}, &o, &at, &err), err);
    for (int side = 0; side < 2; side++) {
        double f, exact = objective_of(n, words, w[0], w[1]);
        assert_ok(xsmi_collapsed_at(at, side, &f, &err), err);
        assert_true(fabs(f - exact) < 1e-6 * exact);
        for (uint32_t k = 0; k < words; k++) {
            const double share = share_of(n, words, side, k);
            for (uint32_t i = 0; i < D; i++) {
                double *place = &w[side][k * D + i], held = *place, h = 1e-5;
                *place = held + h;
                double up = objective_of(n, words, w[0], w[1]);
                *place = held - h;
                double slope = (up - objective_of(n, words, w[0], w[1])) / (2 * h);
                *place = held;
                double got = (double)xsmi_collapsed_gradient(at)[k * xsmi_row_stride(D) + i] * share;
                if (!(fabs(got - slope) < 1e-6)) {
                    fail_msg("side %d, word %u, place %u: %g instead of %g", side, k, i, got, slope);
                }
            }
        }
    }
    xsmi_collapsed_free(at);
    free(n);
    xsm_model_free(models[0]);
    xsm_model_free(models[1]);
}

/* A gradient of one side at some vectors, with an estimator or without. */
static double *gradient_of(xsm_context *ctx, const xsm_corpus *c, xsm_model *in, xsm_model *out, const char *estimator,
                           const char *options, uint32_t candidates, int side, uint64_t memory, double *objective)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    o.window = 3;
    o.subsample = 1;
    o.seed = 5;
    o.memory = memory;
    o.estimator = estimator ? test_estimator(ctx, estimator, options) : NULL;
    if (estimator) {
        assert_ok(xsm_estimator_set(o.estimator, "loss", "cross-entropy", &err), err);
        assert_ok(xsm_estimator_set_number(o.estimator, "candidates", candidates, &err), err);
    }
    xsmi_collapsed *at = NULL;
    const uint32_t words = xsm_model_class_count(in);
    double *gradient = malloc((size_t)words * D * sizeof *gradient);
    assert_non_null(gradient);
    assert_ok(xsmi_collapsed_new(&(xsmi_word_task){ctx, c, in, out, o.estimator}, &o, &at, &err), err);
    for (int again = 0; again < 2; again++) { /* an index that has been looked at says the same */
        double before = *objective;
        assert_ok(xsmi_collapsed_at(at, side, objective, &err), err);
        assert_true(again == 0 || *objective == before);
    }
    for (uint32_t k = 0; k < words; k++) {
        for (uint32_t i = 0; i < D; i++) {
            gradient[k * D + i] = (double)xsmi_collapsed_gradient(at)[k * xsmi_row_stride(D) + i];
        }
    }
    xsmi_collapsed_free(at);
    xsm_estimator_free(o.estimator);
    return gradient;
}

/* With every word found, Algorithms 1 and 2 are the full gradient: Algorithm 2 with one block, or as its rounds go on.
 * A search that finds less says something else. */
TEST(a_search_for_all_is_exact)
{
    static const struct {
        const char *name, *options;
        uint32_t candidates; /* 0 = all words */
        double tolerance;
    } searches[] = {
        {"mips", "index=exact missing=drop", 0, 2e-6},
        {"mips", "index=exact missing=zero", 0, 2e-6},
        {"decomp-mips", "index=exact blocks=1", 0, 2e-6},
        {"decomp-mips", "index=exact blocks=3 rounds=300 threshold=0", 0, 2e-4},
        {"decomp-mips", "index=spherical blocks=7 rounds=300 threshold=0", 0, 2e-4},
        {"mips", "index=exact", 5, -1e-2},
        {"decomp-mips", "index=exact blocks=3 rounds=0", 0, -1e-2},
    };
    HELD(xsm_context, ctx) = test_context(3, TEST_BUILT_IN, 0);
    const char *path = random_text("search", 60, WORDS, 2);
    FILE *file = fopen(path, "a"); /* and a word that is alone */
    assert_true(file && fputs("lonely\n", file) >= 0 && fclose(file) == 0);
    HELD(xsm_corpus, c) = corpus_of(ctx, path);
    HELD(xsm_model, in) = vectors(ctx, c, 1, 1);
    HELD(xsm_model, out) = vectors(ctx, c, 1, 2);
    for (int side = 0; side < 2; side++) {
        double exact, found;
        HELD_MEMORY(double, wanted) = gradient_of(ctx, c, in, out, NULL, NULL, 0, side, 1 << 20, &exact);
        for (size_t i = 0; i < sizeof searches / sizeof searches[0]; i++) {
            const uint32_t words = xsm_model_class_count(in);
            HELD_MEMORY(double, got) = gradient_of(ctx, c, in, out, searches[i].name, searches[i].options,
                                                   searches[i].candidates ? searches[i].candidates : words, side,
                                                   i % 2 ? 1 << 11 : 1 << 20, &found);
            double most = fabs(found - exact);
            for (uint32_t j = 0; j < xsm_model_class_count(in) * D; j++) {
                most = fmax(most, fabs(got[j] - wanted[j]));
            }
            if (!(searches[i].tolerance > 0 ? most < searches[i].tolerance : most > -searches[i].tolerance)) {
                fail_msg("side %d, %s %s: off by %g", side, searches[i].name, searches[i].options, most);
            }
        }
    }
}

/* Algorithm 1 by definition, in double: the sum Z of a centre is over the Q words of the highest scores and its
 * contexts, and e^0 for each other one unless those drop out. Fills the gradient of one side, divided by the pairs of
 * each word, and returns the objective. `n` are the numbers of pairs. */
static double short_search(const double *n, uint32_t words, const double *w[2], uint32_t candidates, bool zero,
                           int side, double *gradient)
{
    double loss = 0, all = 0, *pairs = calloc(words, sizeof *pairs);
    assert_non_null(pairs);
    memset(gradient, 0, (size_t)words * D * sizeof *gradient);
    for (uint32_t x = 0; x < words; x++) {
        double z[WORDS], own = 0, sum = 0;
        bool listed[WORDS];
        for (uint32_t k = 0; k < words; k++) {
            z[k] = 0;
            for (int i = 0; i < D; i++) {
                z[k] += w[0][x * D + i] * w[1][k * D + i];
            }
            own += n[x * words + k];
        }
        for (uint32_t k = 0; k < words; k++) {
            uint32_t better = 0;
            for (uint32_t j = 0; j < words; j++) {
                better += z[j] > z[k];
            }
            listed[k] = better < candidates || n[x * words + k] > 0;
            sum += listed[k] ? exp(z[k]) : zero ? 1 : 0;
        }
        for (uint32_t k = 0; k < words; k++) {
            const double c = (listed[k] ? own * exp(z[k]) / sum : 0) - n[x * words + k];
            loss += n[x * words + k] * (log(sum) - z[k]);
            pairs[side == 0 ? x : k] += n[x * words + k];
            for (int i = 0; i < D; i++) {
                gradient[(side == 0 ? x : k) * D + i] += c * w[!side][(side == 0 ? k : x) * D + i];
            }
        }
        all += own;
    }
    for (uint32_t k = 0; k < words; k++) {
        for (int i = 0; i < D; i++) {
            gradient[k * D + i] /= pairs[k];
        }
    }
    free(pairs);
    return loss / all;
}

TEST(a_short_search_is_by_definition)
{
    HELD(xsm_context, ctx) = test_context(2, TEST_BUILT_IN, 0);
    HELD(xsm_corpus, c) = corpus_of(ctx, random_text("short", 30, WORDS, 2));
    xsm_model *models[2] = {vectors(ctx, c, 1, 1), vectors(ctx, c, 1, 2)};
    const uint32_t words = xsm_model_class_count(models[0]);
    assert_true(words > 20 && words <= WORDS);
    double *n = matrix_of(ctx, c, 3, 1), w[2][WORDS * D], wanted[WORDS * D];
    const double *weights[2] = {w[0], w[1]};
    for (int m = 0; m < 2; m++) {
        weights_of(models[m], w[m]);
    }
    for (int way = 0; way < 8; way++) {
        const int side = way & 1;
        const bool zero = way & 2;
        const uint32_t candidates = way & 4 ? 9 : 3;
        double found;
        HELD_MEMORY(double, got) = gradient_of(ctx, c, models[0], models[1], "mips",
                                               zero ? "index=exact missing=zero" : "index=exact missing=drop",
                                               candidates, side, 1 << 20, &found);
        const double exact = short_search(n, words, weights, candidates, zero, side, wanted);
        double most = fabs(found - exact);
        for (uint32_t j = 0; j < words * D; j++) {
            most = fabs(got[j] - wanted[j]) < most ? most : fabs(got[j] - wanted[j]);
        }
        if (!(most < 1e-5)) {
            fail_msg("side %d, %u candidates, the others %s: off by %g", side, candidates, zero ? "zero" : "dropped",
                     most);
        }
    }
    free(n);
    xsm_model_free(models[0]);
    xsm_model_free(models[1]);
}

/* The memory that is allowed is not what a short text takes. */
TEST(tables_are_no_larger_than_the_text)
{
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    xsm_corpus *c = corpus_of(ctx, random_text("small", 60, WORDS, 2));
    xsm_model *in = vectors(ctx, c, 1, 1), *out = vectors(ctx, c, 1, 2);
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    o.window = 3;
    o.subsample = 1;
    o.memory = 1 << 30;
    xsmi_collapsed *at = NULL;
    assert_ok(xsmi_collapsed_new(&(xsmi_word_task){ctx, c, in, out, o.estimator}, &o, &at, &err), err);
    assert_true(test_memory_bytes(memory) < 4 << 20);
    xsmi_collapsed_free(at);
    xsm_model_free(in);
    xsm_model_free(out);
    xsm_corpus_free(c);
    test_memory_end(memory, ctx);
}

static double seen[64];
static int seen_count;

static int32_t keep_objective(void *user, const xsm_progress *p)
{
    const uint64_t *stop = user;
    assert_true(seen_count < 64 && p->objective == p->loss);
    seen[seen_count++] = p->objective;
    return *stop && p->step == *stop;
}

/* Searches lower the full objective, which is computed by definition. One that finds every word ends where all words
 * do; lists of 40 of the 150 get at least nine tenths of the way. The same bits on any threads. */
TEST(searches_lower_it)
{
    const char *path = random_text("searches", 400, MANY_WORDS, 3);
    static const struct {
        const char *name, *options;
        double least; /* of what all words lower it by */
    } ways[] = {{NULL, NULL, 1},
                {"mips", "loss=cross-entropy candidates=150", 0.9999},
                {"decomp-mips", "loss=cross-entropy candidates=150 blocks=1", 0.9999},
                {"mips", "loss=cross-entropy candidates=40", 0.9},
                {"decomp-mips", "loss=cross-entropy candidates=40 blocks=2", 0.9}};
    double fell[sizeof ways / sizeof ways[0]];
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        uint64_t hashes[3][2];
        for (int threads = 0; threads < (ways[i].name ? 3 : 1); threads++) {
            HELD(xsm_context, ctx) = context_of(threads);
            HELD(xsm_corpus, c) = corpus_of(ctx, path);
            HELD(xsm_model, in) = vectors(ctx, c, 0.5, 1);
            HELD(xsm_model, out) = vectors(ctx, c, 0.5, 2);
            const uint32_t words = xsm_model_class_count(in);
            double *n = matrix_of(ctx, c, 5, 1), w[2][MANY_WORDS * D];
            xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
            weights_of(in, w[0]);
            weights_of(out, w[1]);
            const double before = objective_of(n, words, w[0], w[1]);
            o.iterations = 10;
            o.window = 5;
            o.seed = 5;
            o.subsample = 1;
            o.estimator = ways[i].name ? test_estimator(ctx, ways[i].name, ways[i].options) : NULL;
            assert_ok(xsm_skipgram_fit(ctx, c, in, out, &o, NULL, &err), err);
            weights_of(in, w[0]);
            weights_of(out, w[1]);
            fell[i] = before - objective_of(n, words, w[0], w[1]);
            hashes[threads][0] = test_hash(in);
            hashes[threads][1] = test_hash(out);
            assert_memory_equal(hashes[threads], hashes[0], sizeof hashes[0]);
            free(n);
            xsm_estimator_free(o.estimator); /* which is not bound any more */
        }
        if (!(fell[i] > 0 && fell[i] >= ways[i].least * fell[0])) {
            fail_msg("%s %s lowers the objective by %g, all words by %g", ways[i].name, ways[i].options, fell[i],
                     fell[0]);
        }
    }
}

/* Every step lowers the objective, to below that of the words' frequencies alone; the same bits on any threads. */
TEST(steps_lower_it)
{
    const char *path = random_text("steps", 400, 60, 3);
    uint64_t hashes[3][2];
    for (int way = 0; way < 3; way++) {
        HELD(xsm_context, ctx) = context_of(way);
        HELD(xsm_corpus, c) = corpus_of(ctx, path);
        HELD(xsm_model, in) = vectors(ctx, c, 0.3, 1);
        HELD(xsm_model, out) = vectors(ctx, c, 0.3, 2);
        xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
        uint64_t stop = 0;
        o.iterations = 12;
        o.subsample = 1;
        o.memory = 64 * 1024; /* several passes for the 60 words */
        o.progress = keep_objective;
        o.progress_user = &stop;
        seen_count = 0;
        double objective = 0;
        assert_ok(xsm_skipgram_fit(ctx, c, in, out, &o, &objective, &err), err);
        assert_int_equal(seen_count, 25);
        for (int i = 1; i < seen_count; i++) {
            assert_true(seen[i] <= seen[i - 1]);
        }
        assert_true(objective == seen[24] && objective < seen[0] - 0.5);
        hashes[way][0] = test_hash(in);
        hashes[way][1] = test_hash(out);
        assert_memory_equal(hashes[way], hashes[0], sizeof hashes[0]);
        /* Stopped by the callback. */
        seen_count = 0;
        stop = 3;
        assert_int_equal(xsm_skipgram_fit(ctx, c, in, out, &o, &objective, &err), XSM_CANCELLED);
        assert_true(seen_count == 4 && objective == seen[3]);
    }
}

TEST(bad_arguments)
{
    xsm_corpus *c = corpus_of(NULL, random_text("errors", 20, 20, 4));
    xsm_model *in = vectors(NULL, c, 1, 1), *out = vectors(NULL, c, 1, 2);
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    double objective = -1;
#define FAILS(corpus, input, output, status)                                                                           \
    assert_fails(xsm_skipgram_fit(NULL, corpus, input, output, &o, &objective, &err), status, err)
    FAILS(NULL, in, out, XSM_ERROR_ARGUMENT);
    FAILS(c, NULL, out, XSM_ERROR_ARGUMENT);
    FAILS(c, in, NULL, XSM_ERROR_ARGUMENT);
    FAILS(c, in, in, XSM_ERROR_ARGUMENT);
    o.eta = -1;
    FAILS(c, in, out, XSM_ERROR_RANGE);
    o.eta = 0;
    o.subsample = NAN;
    FAILS(c, in, out, XSM_ERROR_RANGE);
    o.subsample = 0;
    o.window = 300;
    FAILS(c, in, out, XSM_ERROR_RANGE);
    o.window = 0;
    o.memory = 5;
    FAILS(c, in, out, XSM_ERROR_RANGE);
    o.memory = 0;
    o.subsample = 1;
    static const struct {
        const char *name, *options;
    } refused[] = {{"softmax", ""},
                   {"nce", ""},
                   {"mips", ""},
                   {"decomp-mips", "loss=nca"},
                   {"mips", "loss=cross-entropy ridge=1"}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        o.estimator = test_estimator(NULL, refused[i].name, refused[i].options);
        FAILS(c, in, out, XSM_ERROR_UNSUPPORTED);
        xsm_estimator_free(o.estimator);
    }
    o.estimator = NULL;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(in, &p, &err), err);
    p.weight[0] = 3e38f;
    p.weight[1] = -3e38f;
    assert_ok(xsm_model_get_parameters(out, &p, &err), err);
    for (uint32_t k = 0; k < p.classes; k++) {
        p.weight[k * p.class_step] = p.weight[k * p.class_step + 1] = 1e9f * (k % 2 ? 1 : -1);
        p.weight[k * p.class_step] *= 2;
    }
    FAILS(c, in, out, XSM_ERROR_DIVERGED);
    xsm_model_free(in);
    xsm_model_free(out);
    xsm_corpus_free(c);
    c = corpus_of(NULL, test_file("lonely", TEXT("a\nb\na\n")));
    in = vectors(NULL, c, 1, 1);
    out = vectors(NULL, c, 1, 2);
    FAILS(c, in, out, XSM_ERROR_DATA);
    assert_true(objective == -1);
    xsm_model_free(in);
    xsm_model_free(out);
    xsm_corpus_free(c);
}

static xsm_status fit_all(void *state, xsm_context *ctx, xsm_error *err)
{
    HELD(xsm_corpus, c) = NULL;
    HELD(xsm_model, in) = NULL;
    HELD(xsm_model, out) = NULL;
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    options.min_count = 1;
    xsm_skipgram_fit_options o = XSM_SKIPGRAM_FIT_OPTIONS_INIT;
    o.iterations = 1;
    o.subsample = 1;
    o.memory = 1 << 16;
    if (strstr(state, "searched")) {
        xsm_status made = xsm_estimator_new(ctx, "decomp-mips", &o.estimator, err);
        made = made != XSM_OK ? made : xsm_estimator_set(o.estimator, "loss", "cross-entropy", err);
        made = made != XSM_OK ? made : xsm_estimator_set_number(o.estimator, "candidates", 6, err);
        if (made != XSM_OK) {
            xsm_estimator_free(o.estimator);
            return made;
        }
    }
    xsm_status status = xsm_corpus_open(ctx, state, &options, &c, err);
    status = status != XSM_OK ? status : xsm_word_model_new(ctx, c, 4, 0.5, 1, &in, err);
    status = status != XSM_OK ? status : xsm_word_model_new(ctx, c, 4, 0.5, 2, &out, err);
    status = status != XSM_OK ? status : xsm_skipgram_fit(ctx, c, in, out, &o, NULL, err);
    xsm_estimator_free(o.estimator);
    return status;
}

TEST(every_allocation)
{
    static const char *const names[] = {"memory", "searched"};
    for (int i = 0; i < 2; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s", random_text(names[i], 10, 12, 6));
        assert_true(test_every_allocation(fit_all, path) > 20);
    }
}
