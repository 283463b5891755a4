/*
 * Tests of skip-gram steps with a tree that was fitted to pairs of words (adversarial negatives, Bamler and Mandt
 * 2020): draws follow the tree's probabilities for the centre's vector, and scores with the tree's correction predict
 * contexts.
 */
#include "words.h"

#include "sampler/sampler.h"
#include "words/skipgram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 16, PAIRS = 6000, EPOCHS = 3 };

/* A text of topics, vectors that epochs of word2vec have trained on it, pairs of a centre and the word behind it, and a
 * tree that knows them. */
typedef struct tree_of_words {
    xsm_corpus *corpus;
    xsm_model *in, *out;
    uint32_t centres[PAIRS], contexts[PAIRS];
    xsm_labels labels;
    xsm_sampler *tree;
} tree_of_words;

static void vector_of(const xsm_model *m, uint32_t word, float *x)
{
    for (uint32_t i = 0; i < WIDTH; i++) {
        x[i] = (float)test_weight(m, word, i);
    }
}

/* The pairs as rows of the centres' vectors as they are now. */
static xsm_dataset *rows_of(const tree_of_words *w)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_MEMORY(float, rows) = malloc((size_t)PAIRS * WIDTH * sizeof *rows);
    assert_non_null(rows);
    for (size_t i = 0; i < PAIRS; i++) {
        vector_of(w->in, w->centres[i], rows + i * WIDTH);
    }
    NEW(xsm_dataset, data,
        xsm_dataset_from_dense(
            NULL, STRUCT(xsm_dense_rows, .values = rows, .rows = PAIRS, .features = WIDTH, .labels = &w->labels), &data,
            &err));
    return data;
}

/* Trains, with so many of the tree's draws a pair, or 0: with word2vec's. */
static void train(tree_of_words *w, const xsm_skipgram_options *o, int64_t negatives)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = NULL;
    if (negatives > 0) {
        e = test_estimator(NULL, "negative-sampling", "");
        assert_ok(xsm_estimator_set_number(e, "negatives", negatives, &err), err);
        assert_ok(xsm_estimator_set_sampler(e, w->tree, &err), err);
    }
    MADE(xsm_skipgram, t, xsm_skipgram_new(NULL, w->corpus, w->in, w->out, e, o, &t, &err));
    assert_int_equal(test_model_info(w->out).correction, e ? XSM_CORRECTION_TREE : XSM_CORRECTION_NONE);
    assert_ok(xsm_skipgram_run(t, &err), err);
}

static tree_of_words *grow(void)
{
    xsm_error err = XSM_ERROR_INIT;
    tree_of_words *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->corpus = test_corpus(NULL, test_topics_text("tree", 2000, 1), 5);
    w->in = test_vectors(NULL, w->corpus, WIDTH, 0.1, 1);
    w->out = test_vectors(NULL, w->corpus, WIDTH, 0, 0);
    w->labels = (xsm_labels){sizeof w->labels, xsm_model_class_count(w->in), 0, NULL, w->contexts, NULL};
    xsm_skipgram_options o = test_word_run(2);
    train(w, &o, 0);
    xsm_context *ctx = test_context(1, TEST_BUILT_IN, 0);
    xsmi_centres text;
    assert_ok(xsmi_centres_open(&text, ctx, w->corpus, &(xsmi_text_settings){o.window, 1, 5}, &err), err);
    assert_ok(xsmi_centres_rewind(&text, &err), err);
    for (size_t pairs = 0; pairs < PAIRS;) {
        xsmi_centre at;
        bool found;
        assert_ok(xsmi_centres_next(&text, &at, &found, &err), err);
        assert_true(found);
        if (at.after > 0) {
            w->centres[pairs] = at.words[at.before];
            w->contexts[pairs++] = at.words[at.before + 1];
        }
    }
    xsmi_centres_close(&text, ctx);
    xsm_context_free(ctx);
    HELD(xsm_dataset, data) = rows_of(w);
    assert_ok(xsm_sampler_new(NULL, "tree", &w->tree, &err), err);
    assert_ok(xsm_sampler_bind(w->tree, data, &err), err);
    return w;
}

static void fell(tree_of_words *w)
{
    xsm_sampler_free(w->tree);
    xsm_model_free(w->in);
    xsm_model_free(w->out);
    xsm_corpus_free(w->corpus);
    free(w);
}

/* The tree's probabilities q(.|centre), by the vector that the centre has now. */
static void probabilities(const tree_of_words *w, uint32_t centre, double *q)
{
    float x[WIDTH], *code = malloc(w->tree->code_length * sizeof *code);
    assert_non_null(code);
    vector_of(w->in, centre, x);
    xsm_batch one = xsm_batch_values(x, 1, WIDTH, WIDTH);
    xsmi_sampler_encode_batch(w->tree, &one, 0, code);
    for (uint32_t k = 0; k < xsm_model_class_count(w->in); k++) {
        q[k] = exp(w->tree->ops.log_probability(w->tree->state, code, k));
    }
    free(code);
}

/* With output vectors of zero, each pair of a centre c and a context k changes the output vector of word j by
 * (eta/2) ([j = k] - share of the draws that were j) x_c, and that share has the mean q(j|x_c), by which the tree
 * draws. Each place of the vectors is looked at by itself: of 1536 places a true source leaves 5.5 standard deviations
 * with one seed in 17,000. */
TEST(draws_are_the_trees)
{
    tree_of_words *w = grow();
    enum { DRAWS = 64 };
    const uint32_t words = xsm_model_class_count(w->in);
    xsm_skipgram_options o = test_word_run(1);
    const double eta = 1e-6; /* so that scores stay at zero, and falling to nothing at the end of the epoch */
    o.eta = eta;
    o.window = 1;
    o.batch = XSMI_BATCH_MOST; /* all at the first rate */
    xsm_model_free(w->out);
    w->out = test_vectors(NULL, w->corpus, WIDTH, 0, 0);
    double *q = malloc(words * sizeof *q), *x = malloc((size_t)words * WIDTH * sizeof *x);
    double *mean = calloc((size_t)words * WIDTH, sizeof *mean),
           *variance = calloc((size_t)words * WIDTH, sizeof *variance);
    assert_true(q && x && mean && variance);
    for (uint32_t k = 0; k < words; k++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            x[k * WIDTH + i] = test_weight(w->in, k, i);
        }
    }
    xsm_context *ctx = test_context(1, TEST_BUILT_IN, 0);
    xsmi_centres text;
    assert_ok(xsmi_centres_open(&text, ctx, w->corpus, &(xsmi_text_settings){1, 1, o.seed}, &err), err);
    assert_ok(xsmi_centres_rewind(&text, &err), err);
    double *of_centre = calloc(words, sizeof *of_centre);
    assert_non_null(of_centre);
    uint64_t steps = 0;
    for (;; steps++) {
        xsmi_centre at;
        bool found;
        assert_ok(xsmi_centres_next(&text, &at, &found, &err), err);
        if (!found) {
            break;
        }
        const uint32_t c = at.words[at.before];
        for (uint32_t j = 0; j <= at.before + at.after; j++) {
            if (j != at.before) {
                of_centre[c]++;
                for (uint32_t i = 0; i < WIDTH; i++) {
                    mean[at.words[j] * WIDTH + i] += eta / 2 * x[c * WIDTH + i];
                }
            }
        }
    }
    xsmi_centres_close(&text, ctx);
    xsm_context_free(ctx);
    assert_true(steps <= XSMI_BATCH_MOST);
    for (uint32_t c = 0; c < words; c++) {
        probabilities(w, c, q);
        for (uint32_t k = 0; k < words; k++) {
            for (uint32_t i = 0; i < WIDTH; i++) {
                double step = eta / 2 * x[c * WIDTH + i];
                mean[k * WIDTH + i] -= of_centre[c] * q[k] * step;
                variance[k * WIDTH + i] += of_centre[c] * q[k] * (1 - q[k]) / DRAWS * step * step;
            }
        }
    }
    train(w, &o, DRAWS);
    double largest = 0;
    for (uint32_t k = 0; k < words; k++) {
        for (uint32_t i = 0; i < WIDTH; i++) {
            double away = test_weight(w->out, k, i) - mean[k * WIDTH + i], deviation = sqrt(variance[k * WIDTH + i]);
            if (!(fabs(away) < 5.5 * deviation)) {
                fail_msg("word %u, place %u: %g where %g +- %g is expected", k, i, test_weight(w->out, k, i),
                         mean[k * WIDTH + i], deviation);
            }
            largest = fmax(largest, fabs(mean[k * WIDTH + i]) / deviation);
        }
    }
    assert_true(largest > 20); /* or nothing has been shown */
    free(of_centre);
    free(variance);
    free(mean);
    free(x);
    free(q);
    fell(w);
}

/* The tree draws words of the centre's topic, mostly, of which evenly drawn ones would be an eighth. The tree goes by
 * the vectors that were there when the estimator was bound: with its log-probabilities of those, what is learnt against
 * its draws predicts contexts as well as topics allow, and without them does not. */
TEST(contexts_are_predicted)
{
    tree_of_words *w = grow();
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_model_get_class_map(w->in, &map, &err), err);
    const uint32_t words = map.classes;
    double share = 0, *q = malloc((size_t)words * words * sizeof *q);
    assert_non_null(q);
    for (uint32_t c = 0; c < words; c++) {
        probabilities(w, c, q + c * words);
        for (uint32_t k = 0; k < words; k++) {
            share += atoi(map.names[k]) == atoi(map.names[c]) ? q[c * words + k] / words : 0;
        }
    }
    xsm_skipgram_options o = test_word_run(EPOCHS);
    train(w, &o, 5);
    double with = 0, without = 0;
    for (size_t i = 0; i < PAIRS; i++) {
        const uint32_t c = w->centres[i];
        double sums[2] = {0, 0}, z = 0;
        for (uint32_t k = 0; k < words; k++) {
            double score = 0;
            for (uint32_t d = 0; d < WIDTH; d++) {
                score += test_weight(w->in, c, d) * test_weight(w->out, k, d);
            }
            sums[0] += exp(score);
            sums[1] += exp(score) * q[c * words + k];
            z = k == w->contexts[i] ? score : z;
        }
        without += (log(sums[0]) - z) / PAIRS;
        with += (log(sums[1]) - z - log(q[c * words + w->contexts[i]])) / PAIRS;
    }
    free(q);
    /* Where the topic is known log 12; where nothing is log 96, 2.08 more. */
    const double known = log(TEST_OF_TOPIC);
    if (!(share > 0.5 && with < known + 0.2 && without > known + 0.5)) {
        fail_msg("%g of what is drawn is of the centre's topic; contexts have the log-loss %g, without the tree's "
                 "probabilities %g, where topics allow %g",
                 share, with, without, known);
    }
    fell(w);
}
