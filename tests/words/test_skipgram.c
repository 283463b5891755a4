/*
 * Tests of skip-gram training: centres and contexts of a text, steps compared with central differences of their loss,
 * known neighbours, the same bits on any number of threads, and errors.
 */
#include "words.h"

#include "comm.h"
#include "model/hierarchy.h"
#include "words/skipgram.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Some thousands of words, one of them a quarter of all that stand there. */
static const char *skewed_text(const char *name, int lines)
{
    enum { OF_LINE = 20 };
    HELD_MEMORY(char, text) = malloc((size_t)lines * OF_LINE * 7);
    uint64_t stream = 11;
    size_t used = 0;
    assert_non_null(text);
    for (int i = 0; i < lines * OF_LINE; i++) {
        uint32_t word = (uint32_t)(5000 * pow(test_uniform(&stream), 6));
        used += (size_t)sprintf(text + used, "w%u%c", word, i % OF_LINE == OF_LINE - 1 ? '\n' : ' ');
    }
    const char *path = test_file(name, text, used);
    return path;
}

/* Some count each draw for all the words that it stands for, and want rates that are smaller by so much. */
static const struct {
    const char *name, *options;
    double eta;
} estimators[] = {
    {NULL, "", 0.1},
    {"negative-sampling", "negatives=5 sampler=frequency sampler.power=0.75", 0.1},
    {"nce", "negatives=5 sampler=frequency", 0.1},
    {"sampled-softmax", "negatives=5", 0.1},
    {"importance", "negatives=5", 0.005},
    {"ove", "negatives=5", 0.005},
    {"ove-sampled", "negatives=5", 0.005},
    {"umax", "negatives=5", 0.005},
    {"implicit", "negatives=5", 0.1},
    {"one-vs-all-sampled", "negatives=5", 0.005},
    {"hierarchical", "", 0.1},
    {"augment-reduce", "negatives=5", 0.05},
};
enum { UMAX = 7, IMPLICIT = 8, ESTIMATORS = sizeof estimators / sizeof estimators[0] };

static double last_loss;

static int32_t keep_loss(void *user, const xsm_progress *p)
{
    double *first = user;
    if (p->epoch_ended) {
        if (p->epoch == 1) {
            *first = p->loss;
        }
        last_loss = p->loss;
    }
    return 0;
}

TEST(neighbours_are_found)
{
    const char *path = test_topics_text("topics", 2000, 1);
    for (int i = 0; i < ESTIMATORS; i++) {
        HELD(xsm_corpus, c) = test_corpus(NULL, path, 5);
        HELD(xsm_model, in) = test_vectors(NULL, c, 16, 0.03, 1);
        HELD(xsm_model, out) = test_vectors(NULL, c, 16, 0, 0);
        HELD(xsm_estimator, e) =
            estimators[i].name ? test_estimator(NULL, estimators[i].name, estimators[i].options) : NULL;
        xsm_skipgram_options o = test_word_run(4);
        o.eta = estimators[i].eta;
        double first = 0;
        o.progress = keep_loss;
        o.progress_user = &first;
        MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, e, &o, &t, &err));
        xsm_status status = xsm_skipgram_run(t, &err);
        double right = test_neighbours_right(in);
        /* The double sum's estimates are none of the loss before u has come to its place. */
        bool falls = i == UMAX || i == IMPLICIT || last_loss < first;
        if (status != XSM_OK || !(right >= 0.95) || !falls || !isfinite(last_loss)) {
            fail_msg("%s: %.3f of the neighbours right, loss from %g to %g; %s",
                     estimators[i].name ? estimators[i].name : "word2vec", right, first, last_loss, err.message);
        }
        assert_int_equal(test_model_info(in).correction, XSM_CORRECTION_NONE);
    }
}

/* Hierarchical softmax: the tree is the one of least mean depth for the words of the text, by Huffman's rule done the
 * slow way; before the first step a pair's loss is log 2 for each node above its context. */
TEST(frequent_words_hang_high)
{
    HELD(xsm_corpus, c) = test_corpus(NULL, skewed_text("huffman", 200), 1);
    HELD(xsm_model, in) = test_vectors(NULL, c, 4, 0.1, 1);
    HELD(xsm_model, out) = test_vectors(NULL, c, 4, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "hierarchical", "");
    xsm_skipgram_options o = test_word_run(1);
    o.eta = 1e-9;
    NEW(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, e, &o, &t, &err));
    assert_int_equal(test_model_info(out).correction, XSM_CORRECTION_HIERARCHY);
    const xsmi_class_tree *h = out->head->hierarchy;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_model_get_class_map(out, &map, &err), err);
    uint64_t *weights = malloc(map.classes * sizeof *weights), hung = 0, least = 0;
    uint32_t *nodes = malloc(2 * map.classes * sizeof *nodes), count = map.classes;
    assert_true(weights && nodes && map.classes > 300);
    for (uint32_t k = 0; k < map.classes; k++) {
        weights[k] = map.counts[k];
        hung += map.counts[k] * xsmi_hierarchy_path(h, k, nodes, nodes + map.classes);
    }
    while (count > 1) {
        for (int i = 0; i < 2; i++) { /* the two lightest go to the end */
            uint32_t light = 0;
            for (uint32_t k = 1; k < count; k++) {
                light = weights[k] < weights[light] ? k : light;
            }
            uint64_t held = weights[light];
            weights[light] = weights[--count];
            weights[count] = held;
        }
        weights[count] += weights[count + 1];
        least += weights[count++];
    }
    assert_int_equal(hung, least);
    /* Every word of a line is as often a context as it is a centre, but for the ends of lines, and the windows drawn.
     */
    assert_ok(xsm_skipgram_run(t, &err), err);
    xsm_progress p = XSM_PROGRESS_INIT;
    assert_ok(xsm_skipgram_get_progress(t, &p, &err), err);
    double mean = log(2) * (double)hung / (200 * 20);
    assert_true(fabs(p.loss - mean) < 0.01 * mean);
    free(weights);
    free(nodes);
    xsm_skipgram_free(t);
    /* Full gradients would take the nodes' vectors for those of words. */
    assert_fails(xsm_skipgram_fit(NULL, c, in, out, NULL, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
}

/* -- bits ---------------------------------------------------------------------------------------------------------- */

static void bits_of(xsm_context *ctx, const char *path, int estimator, uint64_t hashes[2])
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_corpus, c) = test_corpus(ctx, path, 5);
    HELD(xsm_model, in) = test_vectors(ctx, c, 23, 0.03, 1);
    HELD(xsm_model, out) = test_vectors(ctx, c, 23, 0, 0);
    const char *name = estimators[estimator].name;
    HELD(xsm_estimator, e) = name ? test_estimator(ctx, name, estimators[estimator].options) : NULL;
    xsm_skipgram_options o = test_word_run(2);
    o.batch = 50;
    o.subsample = 1e-2;
    o.eta = estimators[estimator].eta;
    MADE(xsm_skipgram, t, xsm_skipgram_new(ctx, c, in, out, e, &o, &t, &err));
    assert_ok(xsm_skipgram_run(t, &err), err);
    hashes[0] = test_hash(in);
    hashes[1] = test_hash(out);
}

TEST(the_same_bits)
{
    const char *path = test_topics_text("bits", 300, 2);
    const struct {
        uint32_t threads;
        int runner;
        uint32_t disable;
    } ways[] = {{2, TEST_BUILT_IN, 0},
                {3, TEST_REVERSED, 0},
                {5, TEST_PTHREADS, 0},
                {70, TEST_REVERSED, 0}, /* more than there are parts */
                {1, TEST_BUILT_IN, XSM_CPU_DISABLE_AVX512},
                {2, TEST_BUILT_IN, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON}};
    for (int i = 0; i < ESTIMATORS; i++) {
        xsm_context *ctx = test_context(1, TEST_BUILT_IN, 0);
        uint64_t first[2], again[2];
        bits_of(ctx, path, i, first);
        xsm_context_free(ctx);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            ctx = test_context(ways[w].threads, ways[w].runner, ways[w].disable);
            bits_of(ctx, path, i, again);
            xsm_context_free(ctx);
            if (first[0] != again[0] || first[1] != again[1]) {
                fail_msg("%s differs with %u threads, way %zu", estimators[i].name ? estimators[i].name : "word2vec",
                         ways[w].threads, w);
            }
        }
    }
}

typedef struct stopping {
    uint64_t step;
    int calls;
} stopping;

static int32_t stop_now(void *user, const xsm_progress *p)
{
    stopping *s = user;
    s->calls++;
    s->step = p->step;
    return p->epoch_ended && p->epoch == 1;
}

/* A run that is stopped goes on as if it had not been. */
TEST(stops_and_goes_on)
{
    const char *path = test_topics_text("stop", 400, 3);
    uint64_t whole[2] = {0, 0};
    for (int stopped = 0; stopped < 2; stopped++) {
        HELD(xsm_corpus, c) = test_corpus(NULL, path, 5);
        HELD(xsm_model, in) = test_vectors(NULL, c, 8, 0.05, 1);
        HELD(xsm_model, out) = test_vectors(NULL, c, 8, 0, 0);
        stopping s = {0, 0};
        xsm_skipgram_options o = test_word_run(3);
        o.progress = stopped ? stop_now : NULL;
        o.progress_user = &s;
        MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err));
        if (stopped) {
            assert_int_equal(xsm_skipgram_run(t, &err), XSM_CANCELLED);
            xsm_corpus_info info = XSM_CORPUS_INFO_INIT;
            assert_ok(xsm_corpus_get_info(c, &info, &err), err);
            assert_int_equal(s.step, info.known);
            xsm_progress p = XSM_PROGRESS_INIT;
            assert_ok(xsm_skipgram_get_progress(t, &p, &err), err);
            assert_int_equal(p.epoch, 1);
            assert_int_equal(p.steps, 3 * info.known);
            assert_true(p.examples > info.known && p.loss > 0);
        }
        assert_ok(xsm_skipgram_run(t, &err), err);
        assert_ok(xsm_skipgram_run(t, &err), err); /* nothing is left to do */
        uint64_t hashes[2] = {test_hash(in), test_hash(out)};
        if (!stopped) {
            memcpy(whole, hashes, sizeof whole);
        } else {
            assert_memory_equal(whole, hashes, sizeof whole);
            assert_true(s.calls >= 4);
        }
    }
}

/* -- the text ------------------------------------------------------------------------------------------------------ */

typedef struct seen {
    uint64_t centres, pairs, distances[16];
    uint64_t *by_word;
} seen;

static seen read_centres(const char *path, uint32_t window, double subsample, uint32_t words)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
    HELD(xsm_corpus, c) = test_corpus(ctx, path, 1);
    xsmi_centres text;
    seen s;
    memset(&s, 0, sizeof s);
    s.by_word = calloc(words, sizeof *s.by_word);
    assert_non_null(s.by_word);
    assert_ok(xsmi_centres_open(&text, ctx, c, &(xsmi_text_settings){window, subsample, 5}, &err), err);
    for (int pass = 0; pass < 2; pass++) {
        assert_ok(xsmi_centres_rewind(&text, &err), err);
        for (;;) {
            xsmi_centre centre;
            bool found;
            assert_ok(xsmi_centres_next(&text, &centre, &found, &err), err);
            if (!found) {
                break;
            }
            assert_true(centre.before + centre.after > 0);
            s.centres++;
            s.pairs += centre.before + centre.after;
            s.by_word[centre.words[centre.before]]++;
            for (uint32_t d = 1; d <= window; d++) {
                s.distances[d] += (centre.before >= d) + (centre.after >= d);
            }
        }
        assert_int_equal(text.known, c->info.known);
    }
    xsmi_centres_close(&text, ctx);
    return s;
}

/* One line of 100,000 words, one of them a tenth of the text: windows, cuts and what is dropped. */
TEST(text_is_drawn_from)
{
    enum { WORDS = 100000, OTHERS = 900 };
    char *text = malloc(WORDS * 6);
    uint64_t stream = 9, frequent = 0;
    size_t used = 0;
    assert_non_null(text);
    for (int i = 0; i < WORDS; i++) {
        bool is = test_uniform(&stream) < 0.1;
        frequent += is;
        used += (size_t)sprintf(text + used, is ? "the " : "w%u ", (unsigned)(test_next(&stream) % OTHERS));
    }
    const char *path = test_file("line", text, used);
    free(text);
    /* Without dropping: all are centres; a window reaches distance d with probability (5 - d + 1)/5 on each side, but
     * at the 97 cuts. Bounds of six standard deviations, which chance passes in one of 10^9 runs. */
    seen s = read_centres(path, 5, 1, OTHERS + 1);
    assert_int_equal(s.centres, 2 * WORDS);
    assert_int_equal(s.by_word[0], 2 * frequent);
    for (int d = 1; d <= 5; d++) {
        double p = (6 - d) / 5.0, n = 2 * 2.0 * (WORDS - 98.0 * d);
        double deviation = 6 * 2 * sqrt(n * p * (1 - p)) + 2 * 2 * 98 * d;
        assert_true(fabs((double)s.distances[d] - n * p) <= deviation);
    }
    free(s.by_word);
    /* With a threshold of 1e-3: kept with probability sqrt(t/f) + t/f; the others, at f = 1e-3, all. */
    s = read_centres(path, 5, 1e-3, OTHERS + 1);
    double share = (double)frequent / WORDS, p = sqrt(1e-3 / share) + 1e-3 / share, n = 2.0 * (double)frequent;
    assert_true(fabs((double)s.by_word[0] - n * p) < 6 * sqrt(n * p * (1 - p)));
    uint64_t others = s.centres - s.by_word[0];
    assert_true(others <= 2 * (WORDS - frequent) && (double)others > 1.999 * (double)(WORDS - frequent));
    free(s.by_word);
}

/* Whatever the size of batches, whose centres are taken from far and near, an epoch has each pair of the text once:
 * their number is the same as step by step, and so is the words read at the last batch. */
TEST(batches_take_all_pairs)
{
    static const uint32_t batches[] = {1, 2, 3, 64, 250, 1000, 16000, 40000};
    const char *path = test_topics_text("all_pairs", 2003, 5);
    uint64_t pairs = 0;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        HELD(xsm_corpus, c) = test_corpus(NULL, path, 1);
        HELD(xsm_model, in) = test_vectors(NULL, c, 2, 0.1, 1);
        HELD(xsm_model, out) = test_vectors(NULL, c, 2, 0, 0);
        xsm_skipgram_options o = test_word_run(3);
        o.batch = batches[i];
        o.eta = 1e-9;
        MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err));
        assert_ok(xsm_skipgram_run(t, &err), err);
        xsm_progress p = XSM_PROGRESS_INIT;
        assert_ok(xsm_skipgram_get_progress(t, &p, &err), err);
        assert_int_equal(p.step, 3 * 2003 * 8);
        assert_true(i == 0 ? p.examples > 3 * 2003 * 8 : p.examples == pairs);
        pairs = p.examples;
    }
}

/* -- a step -------------------------------------------------------------------------------------------------------- */

enum { D = 5, PAIRS = 40 };

/* Loss of the text "x y" taken PAIRS times, window 1, one negative, which can only be the centre itself; in double. */
static double loss_of(const double *in, const double *out)
{
    double loss = 0;
    for (int centre = 0; centre < 2; centre++) {
        double z[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < D; i++) {
                z[k] += in[centre * D + i] * out[k * D + i];
            }
        }
        loss += PAIRS * (log1p(exp(-z[!centre])) + log1p(exp(z[centre])));
    }
    return loss;
}

/* One batch of all steps changes the vectors by eta times the gradient of the loss, and says what the loss was. */
TEST(a_step_is_the_gradient)
{
    char text[PAIRS * 4];
    for (int i = 0; i < PAIRS; i++) {
        memcpy(text + 4 * i, "x y\n", 4);
    }
    HELD(xsm_corpus, c) = test_corpus(NULL, test_file("pairs", text, sizeof text), 1);
    xsm_model *models[2] = {test_vectors(NULL, c, D, 0.8, 1), test_vectors(NULL, c, D, 0.8, 2)};
    double before[2][2 * D];
    for (int m = 0; m < 2; m++) {
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < D; i++) {
                before[m][k * D + i] = test_weight(models[m], k, i);
            }
        }
    }
    xsm_skipgram_options o = test_word_run(1);
    o.window = o.negatives = 1;
    o.batch = 2 * PAIRS;
    o.eta = 0.01;
    double first = 0;
    o.progress = keep_loss;
    o.progress_user = &first;
    NEW(xsm_skipgram, t, xsm_skipgram_new(NULL, c, models[0], models[1], NULL, &o, &t, &err));
    assert_ok(xsm_skipgram_run(t, &err), err);
    double expected = loss_of(before[0], before[1]) / (2 * PAIRS);
    assert_true(fabs(first - expected) < 1e-6 * expected);
    for (int m = 0; m < 2; m++) {
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < D; i++) {
                double *place = &before[m][k * D + i], held = *place, h = 1e-5;
                *place = held + h;
                double up = loss_of(before[0], before[1]);
                *place = held - h;
                double slope = (up - loss_of(before[0], before[1])) / (2 * h);
                *place = held;
                double change = test_weight(models[m], k, i) - held;
                if (!(fabs(change + 0.01 * slope) < 2e-5)) {
                    fail_msg("model %d, word %u, place %u: %g instead of %g", m, k, i, change, -0.01 * slope);
                }
            }
        }
    }
    xsm_skipgram_free(t);
    xsm_model_free(models[0]);
    xsm_model_free(models[1]);
}

static void negatives_follow(double power)
{
    xsm_error err = XSM_ERROR_INIT;
    /* "a" is the only context of "b", "c" and "d"; vectors that start at zero move only by what is drawn: the output
     * vector of word k by -eta/2 times the inputs of the centres that it was drawn against. Inputs are all (1). */
    char text[9 * 400];
    size_t used = 0;
    for (int i = 0; i < 400; i++) {
        memcpy(text + used, i % 16 == 0 ? "b a\nd d\n" : i % 4 == 0 ? "b a\nc c\n" : "b a\nb b\n", 8);
        used += 8;
    }
    HELD(xsm_corpus, c) = test_corpus(NULL, test_file("draws", text, used), 1);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_corpus_get_class_map(c, &map, &err), err);
    HELD(xsm_model, in) = test_vectors(NULL, c, 1, 0, 0);
    HELD(xsm_model, out) = test_vectors(NULL, c, 1, 0, 0);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(in, &p, &err), err);
    for (uint32_t k = 0; k < p.classes; k++) {
        p.weight[k * p.class_step] = 1;
    }
    xsm_skipgram_options o = test_word_run(1);
    o.window = 1;
    o.negatives = 200;
    o.batch = 65536;
    o.eta = 2;
    o.power = power;
    MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err));
    assert_ok(xsm_skipgram_run(t, &err), err);
    /* Contexts of the text: each word as often as it occurs (every line is a pair). */
    double total = 0;
    for (uint32_t k = 0; k < map.classes; k++) {
        total += pow((double)map.counts[k], power);
    }
    for (uint32_t k = 0; k < map.classes; k++) {
        double q = pow((double)map.counts[k], power) / total, mean = 0, variance = 0;
        for (uint32_t other = 0; other < map.classes; other++) {
            if (other != k) {
                double share = q / (1 - pow((double)map.counts[other], power) / total),
                       n = 200 * (double)map.counts[other];
                mean += n * share;
                variance += n * share * (1 - share);
            }
        }
        double drawn = (double)map.counts[k] - test_weight(out, k, 0);
        assert_true(fabs(drawn - mean) < 6 * sqrt(variance)); /* chance passes it in one of 10^9 runs */
    }
}

/* What is drawn against a context follows count^power without the context. */
TEST(negatives_follow_the_power)
{
    negatives_follow(0.5);
    negatives_follow(0); /* all words alike */
}

/* A word of nearly all draws: what is drawn against it is another word nevertheless, and at once. */
TEST(one_word_may_dominate)
{
    static char text[4 * 10000 + 8];
    size_t used = 0;
    for (int i = 0; i < 9999; i++) {
        used += (size_t)sprintf(text + used, "a a%c", i % 4 == 3 ? '\n' : ' ');
    }
    used += (size_t)sprintf(text + used, "a b c");
    HELD(xsm_corpus, c) = test_corpus(NULL, test_file("dominated", text, used), 1);
    static const double powers[] = {2, 10}; /* one draw of 2 10^8 is of another word, then none */
    for (int i = 0; i < 2; i++) {
        HELD(xsm_model, in) = test_vectors(NULL, c, 1, 0, 0);
        HELD(xsm_model, out) = test_vectors(NULL, c, 1, 0, 0);
        xsm_parameters p = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(in, &p, &err), err);
        for (uint32_t k = 0; k < p.classes; k++) {
            p.weight[k * p.class_step] = 1;
        }
        xsm_skipgram_options o = test_word_run(1);
        o.window = o.negatives = 1;
        o.batch = 65536;
        o.eta = 2;
        o.power = powers[i];
        o.subsample = 1;
        MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err));
        assert_ok(xsm_skipgram_run(t, &err), err);
        /* Each pair adds 1 to its context, and takes 1 off what was drawn against it. */
        const double pairs = test_weight(out, 0, 0), others = test_weight(out, 1, 0) + test_weight(out, 2, 0);
        assert_true(pairs > 10000 && others < -10000);
        assert_true(fabs(test_weight(out, 1, 0) - test_weight(out, 2, 0)) < 6 * sqrt(pairs)); /* they are alike */
    }
}

/* -- errors -------------------------------------------------------------------------------------------------------- */

static xsm_status of_several(test_rank *r)
{
    xsm_corpus *c = r->user;
    xsm_model *m = NULL, *linear = NULL, *other = NULL;
    xsm_skipgram *t = NULL;
    xsm_error err = XSM_ERROR_INIT;
    XSMI_TRY(xsm_model_new_linear(r->context, 4, 9000, NULL, &linear, &r->err));
    XSMI_TRY(xsm_model_new_linear(r->context, 4, 9000, NULL, &other, &r->err));
    const bool refused = xsm_word_model_new(r->context, c, 4, 1, 1, &m, &r->err) == XSM_ERROR_UNSUPPORTED &&
                         xsm_word_model_read(r->context, "none.vec", &m, &err) == XSM_ERROR_UNSUPPORTED &&
                         xsm_word_model_write(linear, "none.vec", &err) == XSM_ERROR_UNSUPPORTED &&
                         xsm_skipgram_new(NULL, c, linear, other, NULL, NULL, &t, &err) == XSM_ERROR_UNSUPPORTED;
    xsm_model_free(linear);
    xsm_model_free(other);
    return refused && !m && !t ? XSM_OK : XSM_ERROR_STATE;
}

TEST(several_processes)
{
    test_rank ranks[2];
    HELD(xsm_corpus, c) = test_corpus(NULL, test_topics_text("ranks", 50, 4), 1);
    test_run_ranks(2, 1, 0, of_several, c, ranks);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].status, XSM_OK);
        assert_non_null(strstr(ranks[i].err.message, "a word model needs a context without a communicator"));
    }
}

TEST(bad_arguments)
{
    HELD(xsm_corpus, c) = test_corpus(NULL, test_topics_text("errors", 50, 4), 1);
    HELD(xsm_corpus, one) = test_corpus(NULL, test_file("one", TEXT("a a a")), 1);
    xsm_model *in = test_vectors(NULL, c, 4, 1, 1), *out = test_vectors(NULL, c, 4, 0, 0),
              *wide = test_vectors(NULL, c, 5, 0, 0);
    xsm_model *ones = test_vectors(NULL, one, 4, 1, 1), *others = test_vectors(NULL, one, 4, 1, 1),
              *zero = test_vectors(NULL, c, 4, 0, 0);
    NEW(xsm_model, biased,
        xsm_model_new_linear(NULL, 4, xsm_model_class_count(in), STRUCT(xsm_model_options, .bias = 1), &biased, &err));
    xsm_skipgram *t = NULL;
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
#define FAILS(corpus, input, output, estimator, status)                                                                \
    assert_fails(xsm_skipgram_new(NULL, corpus, input, output, estimator, &o, &t, &err), status, err)
    FAILS(NULL, in, out, NULL, XSM_ERROR_ARGUMENT);
    FAILS(c, NULL, out, NULL, XSM_ERROR_ARGUMENT);
    FAILS(c, in, NULL, NULL, XSM_ERROR_ARGUMENT);
    FAILS(c, in, in, NULL, XSM_ERROR_ARGUMENT);
    assert_fails(xsm_skipgram_new(NULL, c, in, out, NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_skipgram_run(NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_progress progress = XSM_PROGRESS_INIT;
    assert_fails(xsm_skipgram_get_progress(NULL, &progress, &err), XSM_ERROR_ARGUMENT, err);
    FAILS(c, ones, out, NULL, XSM_ERROR_SHAPE);
    FAILS(c, in, ones, NULL, XSM_ERROR_SHAPE);
    FAILS(c, in, wide, NULL, XSM_ERROR_SHAPE);
    FAILS(c, in, biased, NULL, XSM_ERROR_UNSUPPORTED);
    FAILS(one, ones, others, NULL, XSM_ERROR_DATA);
    FAILS(c, zero, out, NULL, XSM_ERROR_DATA);
    static const struct {
        const char *name, *options;
    } refused[] = {{"softmax", ""},    {"one-vs-all", ""}, {"ove", "negatives=all"},
                   {"nce", "ridge=1"}, {"mips", ""},       {"decomp-mips", ""}};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, refused[i].name, refused[i].options);
        FAILS(c, in, out, e, XSM_ERROR_UNSUPPORTED);
    }
    /* A model that negative sampling has left with a correction goes on with it, but not without. */
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "sampler=frequency");
    assert_ok(xsm_skipgram_new(NULL, c, in, out, e, &o, &t, &err), err);
    assert_int_equal(test_model_info(out).correction, XSM_CORRECTION_CLASSES);
    xsm_skipgram_free(t);
    t = NULL;
    FAILS(c, in, out, NULL, XSM_ERROR_UNSUPPORTED);
    FAILS(c, out, in, NULL, XSM_ERROR_UNSUPPORTED);
    assert_ok(xsm_skipgram_new(NULL, c, in, out, e, &o, &t, &err), err);
    /* An estimator that was taken elsewhere meanwhile. */
    test_problem p = test_problem_new(10, 4, xsm_model_class_count(out), false, 1);
    assert_ok(xsm_estimator_bind(e, out, p.data, &err), err);
    assert_fails(xsm_skipgram_run(t, &err), XSM_ERROR_STATE, err);
    xsm_skipgram_free(t);
    t = NULL;
    xsm_model_clear_correction(out);
    test_problem_free(&p);
    xsm_estimator_free(e);
#define REFUSED(member, value, back)                                                                                   \
    do {                                                                                                               \
        o.member = value;                                                                                              \
        FAILS(c, in, out, NULL, XSM_ERROR_RANGE);                                                                      \
        o.member = back;                                                                                               \
    } while (0)
    REFUSED(window, 257, 0);
    REFUSED(negatives, 257, 0);
    REFUSED(batch, 65537, 0);
    REFUSED(power, -2, XSM_DEFAULT);
    REFUSED(power, -0.5, XSM_DEFAULT);
    REFUSED(power, NAN, XSM_DEFAULT);
    REFUSED(power, 11, XSM_DEFAULT);
    REFUSED(subsample, -1, 0);
    REFUSED(subsample, NAN, 0);
    REFUSED(eta, -1, 0);
    REFUSED(eta, NAN, 0);
    REFUSED(eta, INFINITY, 0);
    assert_null(t);
    xsm_skipgram_free(NULL);
    xsm_model *all[] = {in, out, wide, ones, others, zero, biased};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        xsm_model_free(all[i]);
    }
}

/* A word that is everywhere, a wide window and many negatives: batches that are chosen stay stable all the same. */
TEST(frequent_words)
{
    HELD(xsm_corpus, c) = test_corpus(NULL, skewed_text("frequent", 4000), 1);
    HELD(xsm_model, in) = test_vectors(NULL, c, 20, 0.025, 1);
    HELD(xsm_model, out) = test_vectors(NULL, c, 20, 0, 0);
    xsm_skipgram_options o = test_word_run(4);
    double first = 0;
    o.window = 8;
    o.negatives = 15;
    o.eta = 0.05;
    o.progress = keep_loss;
    o.progress_user = &first;
    MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err));
    assert_ok(xsm_skipgram_run(t, &err), err);
    assert_true(last_loss <= first && first < 16 * log(2)); /* below that of vectors of zeros */
}

/* Rates that are far too large end in an error with finite vectors; a text that is not what it was, in another. */
TEST(runs_that_fail)
{
    const char *path = test_topics_text("fails", 300, 5);
    static const char *const which[] = {NULL, "nce", "umax"};
    for (int i = 0; i < 3; i++) {
        HELD(xsm_corpus, c) = test_corpus(NULL, path, 1);
        HELD(xsm_model, in) = test_vectors(NULL, c, 6, 1, 1);
        HELD(xsm_model, out) = test_vectors(NULL, c, 6, 0, 0);
        HELD(xsm_estimator, e) = which[i] ? test_estimator(NULL, which[i], "") : NULL;
        xsm_skipgram_options o = test_word_run(2);
        o.eta = 1e12;
        MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, e, &o, &t, &err));
        assert_fails(xsm_skipgram_run(t, &err), XSM_ERROR_DIVERGED, err);
        for (uint32_t k = 0; k < xsm_model_class_count(in); k++) {
            for (uint32_t j = 0; j < 6; j++) {
                assert_true(isfinite(test_weight(in, k, j)) && isfinite(test_weight(out, k, j)));
            }
        }
    }
    xsm_corpus *c = test_corpus(NULL, path, 1);
    xsm_model *in = test_vectors(NULL, c, 6, 1, 1), *out = test_vectors(NULL, c, 6, 0, 0);
    xsm_skipgram_options o = test_word_run(2);
    NEW(xsm_skipgram, t, xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err));
    test_topics_text("fails", 200, 5);
    assert_fails(xsm_skipgram_run(t, &err), XSM_ERROR_STATE, err);
    xsm_skipgram_free(t);
    assert_ok(xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err), err);
    assert_int_equal(remove(path), 0);
    assert_fails(xsm_skipgram_run(t, &err), XSM_ERROR_IO, err);
    xsm_skipgram_free(t);
    /* A text without a pair trains nothing, and says so. */
    xsm_corpus_free(c);
    xsm_model_free(in);
    xsm_model_free(out);
    c = test_corpus(NULL, test_file("lonely", TEXT("a\nb\na\n")), 1);
    in = test_vectors(NULL, c, 2, 1, 1);
    out = test_vectors(NULL, c, 2, 0, 0);
    assert_ok(xsm_skipgram_new(NULL, c, in, out, NULL, &o, &t, &err), err);
    assert_fails(xsm_skipgram_run(t, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "no line has two words"));
    xsm_skipgram_free(t);
    xsm_model_free(in);
    xsm_model_free(out);
    xsm_corpus_free(c);
}

typedef struct training_run {
    const char *path, *estimator;
} training_run;

static xsm_status train_all(void *state, xsm_context *ctx, xsm_error *err)
{
    const training_run *r = state;
    HELD(xsm_corpus, c) = NULL;
    HELD(xsm_model, in) = NULL;
    HELD(xsm_model, out) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_skipgram, t) = NULL;
    xsm_corpus_options options = XSM_CORPUS_OPTIONS_INIT;
    options.min_count = 1;
    xsm_skipgram_options o = test_word_run(1);
    xsm_status status = xsm_corpus_open(ctx, r->path, &options, &c, err);
    status = status != XSM_OK ? status : xsm_word_model_new(ctx, c, 4, 0.5, 1, &in, err);
    status = status != XSM_OK ? status : xsm_word_model_new(ctx, c, 4, 0, 1, &out, err);
    if (status == XSM_OK && r->estimator) {
        status = xsm_estimator_new(ctx, r->estimator, &e, err);
    }
    status = status != XSM_OK ? status : xsm_skipgram_new(ctx, c, in, out, e, &o, &t, err);
    status = status != XSM_OK ? status : xsm_skipgram_run(t, err);
    return status;
}

TEST(every_allocation)
{
    static const char *const which[] = {NULL, "nce", "implicit"};
    for (int i = 0; i < 3; i++) {
        training_run r = {test_topics_text("memory", 10, 6), which[i]};
        assert_true(test_every_allocation(train_all, &r) > 20);
    }
}
