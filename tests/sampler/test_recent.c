/*
 * Tests of samplers that follow the training: the distribution of `recent` against a queue of labels, batch by batch,
 * and that of `midx` against its definition; draws do not depend on the labels of their own batch; who may use such a
 * sampler; what the suite finds of wrong ones.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "sampler/arrays.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/draw.h>

enum { ROWS = 60, FEATURES = 3, CLASSES = 8, DRAWS = 6 };

/* Whether the distribution is .4/R of each of the last R labels and .6/K of each class. */
static void check_mixture(const xsm_sampler *s, const xsm_dataset *data, const uint32_t *labels, uint32_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    float log_q[CLASSES];
    const xsm_batch one = xsm_batch_range(data, 0, 1);
    assert_ok(xsm_sampler_log_probabilities(s, &one, 0, CLASSES, log_q, &err), err);
    for (uint32_t k = 0; k < CLASSES; k++) {
        double q = count > 0 ? 0.6 / CLASSES : 1.0 / CLASSES;
        for (uint32_t i = 0; i < count; i++) {
            q += labels[i] == k ? 0.4 / count : 0;
        }
        assert_true(fabs(exp((double)log_q[k]) - q) < 1e-6);
    }
}

TEST(it_is_a_mixture_of_the_last_labels_and_all_classes)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    xsm_estimator *e =
        test_estimator(NULL, "sampled-softmax", "negatives=6 sampler=recent sampler.share=0.4 sampler.labels=11");
    xsm_gradient *g = test_gradient(NULL);
    for (int pass = 0; pass < 2; pass++) { /* binding begins anew */
        uint32_t queue[ROWS], queued = 0;
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        for (uint64_t first = 0, count = 1; first + count <= ROWS; first += count++) {
            const xsm_batch batch = xsm_batch_range(p.data, first, count);
            const uint32_t kept = queued < 11 ? queued : 11;
            static uint32_t drawn[ROWS][DRAWS];
            check_mixture(e->sampling.sampler, p.data, queue + queued - kept, kept);
            assert_ok(xsm_sampler_draw(e->sampling.sampler,
                                       STRUCT(xsm_draw, .batch = &batch, .seed = 1, .position = first, .count = DRAWS,
                                              .classes = drawn[0]),
                                       &err),
                      err);
            assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
            for (uint64_t i = 0; i < count; i++) { /* the lists are of these draws */
                const xsmi_entries list = xsmi_gradient_list(g, i);
                uint32_t listed = 0, wanted = 1u << p.labels[first + i];
                for (uint32_t j = 0; j < list.count; j++) {
                    listed |= 1u << list.classes[j];
                }
                for (uint32_t j = 0; j < DRAWS; j++) {
                    wanted |= 1u << drawn[i][j];
                }
                assert_int_equal(listed, wanted);
            }
            for (uint64_t i = first; i < first + count; i++) {
                queue[queued++] = p.labels[i];
            }
        }
        assert_true(queued > 3 * 11);
    }
    xsm_gradient_free(g);
    xsm_estimator_free(e);
}

/* Words are means of the weights, and of what the first word leaves of them; q(k) is in proportion to e^(x.(c_a +
 * d_b)).
 */
TEST(midx_is_a_softmax_of_words)
{
    enum { M = 3, BIASED = FEATURES + 1 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    HELD(xsm_estimator, e) = test_estimator(NULL, "importance", "sampler=midx sampler.words=3");
    HELD(xsm_gradient, g) = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    const xsm_batch all = xsm_batch_range(p.data, 0, ROWS);
    const xsm_sampler *s = e->sampling.sampler;
    for (int batch = 0; batch < 2; batch++) { /* the books are made after the second */
        assert_ok(xsm_estimator_gradient(e, &all, 0.1, g, &err), err);
    }
    xsm_array_writer w = {.context = s->context};
    assert_ok(xsmi_sampler_arrays(s, &w, &err), err);
    const float *words = (const float *)(const void *)w.tensors[0].data;
    const uint32_t *cells = (const uint32_t *)(const void *)w.tensors[1].data, stride = (uint32_t)w.tensors[0].shape[2];
    static double near[CLASSES][BIASED], rest[CLASSES][BIASED];
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < BIASED; j++) {
            rest[k][j] = (double)(j < FEATURES ? m->w.weight[k * m->w.stride + j] : m->w.bias[k]);
        }
    }
    for (uint32_t book = 0; book < 2; book++) {
        double sums[M][BIASED] = {{0}};
        uint32_t counts[M] = {0};
        for (uint32_t k = 0; k < CLASSES; k++) {
            const uint32_t a = book ? cells[k] % M : cells[k] / M;
            counts[a]++;
            for (uint32_t j = 0; j < BIASED; j++) {
                sums[a][j] += rest[k][j];
            }
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            const uint32_t a = book ? cells[k] % M : cells[k] / M;
            for (uint32_t j = 0; j < BIASED; j++) {
                assert_true(fabs((double)words[(book * M + a) * stride + j] - sums[a][j] / counts[a]) < 1e-6);
                near[k][j] += sums[a][j] / counts[a];
                rest[k][j] -= sums[a][j] / counts[a];
            }
        }
        assert_true(counts[0] > 0 && counts[1] > 0 && counts[2] > 0);
    }
    static float log_q[ROWS][CLASSES];
    assert_ok(xsm_sampler_log_probabilities(s, &all, 0, CLASSES, log_q[0], &err), err);
    for (uint32_t i = 0; i < ROWS; i++) {
        const float *x = xsmi_dataset_features(p.data, i).values;
        double sum = 0, z[CLASSES];
        for (uint32_t k = 0; k < CLASSES; k++) {
            z[k] = near[k][FEATURES];
            for (uint32_t j = 0; j < FEATURES; j++) {
                z[k] += (double)x[j] * near[k][j];
            }
            sum += exp(z[k]);
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            assert_true(fabs((double)log_q[i][k] - (z[k] - log(sum))) < 1e-5);
        }
    }
    xsmi_array_writer_clear(&w);
}

TEST(who_may_use_it)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    xsm_estimator *one = test_estimator(NULL, "nce", ""), *other = test_estimator(NULL, "importance", "");
    HELD(xsm_estimator, corrected) = test_estimator(NULL, "negative-sampling", "sampler=recent");
    assert_fails(xsm_estimator_bind(corrected, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "follows the training"));
    MADE(xsm_sampler, s, xsm_sampler_new(NULL, "recent", &s, &err));
    assert_ok(xsm_estimator_set_sampler(one, s, &err), err);
    assert_ok(xsm_estimator_set_sampler(other, s, &err), err);
    assert_ok(xsm_estimator_bind(one, m, p.data, &err), err);
    assert_fails(xsm_estimator_bind(other, m, p.data, &err), XSM_ERROR_STATE, err);
    assert_non_null(strstr(err.message, "another estimator"));
    assert_ok(xsm_estimator_bind(one, m, p.data, &err), err);
    xsm_estimator_free(one);
    assert_ok(xsm_estimator_bind(other, m, p.data, &err), err);
    xsm_estimator_free(other);
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    xsm_sampler_ops ops = *xsm_sampler_find("recent");
    xsm_sampler *bad = NULL;
    ops.save = NULL;
    ops.load = NULL;
    assert_fails(xsm_sampler_new_from(NULL, &ops, &bad, &err), XSM_ERROR_ARGUMENT, err);
    ops = *xsm_sampler_find("tree");
    ops.follow = xsm_sampler_find("recent")->follow;
    assert_fails(xsm_sampler_new_from(NULL, &ops, &bad, &err), XSM_ERROR_ARGUMENT, err);
}

/* The likeliest words of both books occur together in no class, by more than a float's exponent; and one is enormous.
 */
TEST(midx_sums_cells_that_have_classes)
{
    enum { M = 2, BIASED = FEATURES + 1, TRIED = 1000 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    static const uint32_t cells[CLASSES] = {1, 1, 2, 2, 2, 3, 3, 3}; /* of (0, 1), (1, 0) and (1, 1) */
    static const uint32_t of_one[CLASSES] = {0};                     /* all in (0, 0) */
    const uint64_t next = 1;
    for (int huge = 0; huge < 2; huge++) {
        float words[M][M][16] = {{{0}}};
        words[0][0][FEATURES] = words[1][0][FEATURES] = huge ? 1e30f : 400; /* biases */
        const uint32_t *in = huge ? of_one : cells;
        MADE(xsm_sampler, s, xsm_sampler_new(NULL, "midx", &s, &err));
        assert_ok(xsm_sampler_set(s, "words", "2", &err), err);
        assert_ok(xsm_sampler_bind(s, p.data, &err), err);
        xsm_array_writer w = {.context = s->context};
        assert_ok(xsmi_sampler_arrays(s, &w, &err), err);
        assert_true(w.tensors[0].shape[2] <= 16);
        for (size_t i = 0; i < 2 * M; i++) {
            float *row = (float *)(uintptr_t)w.tensors[0].data + i * w.tensors[0].shape[2];
            memcpy(row, words[0][0] + i * 16, BIASED * sizeof *row);
        }
        w.tensors[1].data = (const unsigned char *)(const void *)in;
        w.tensors[2].data = (const unsigned char *)(const void *)&next;
        const xsm_array_reader reader = {w.tensors, w.count, "the test", NULL};
        MADE(xsm_sampler, made, xsmi_sampler_from_arrays(s, &reader, &made, &err));
        static float log_q[ROWS][CLASSES];
        const xsm_batch all = xsm_batch_range(p.data, 0, ROWS), one = xsm_batch_range(p.data, 0, 1);
        assert_ok(xsm_sampler_log_probabilities(made, &all, 0, CLASSES, log_q[0], &err), err);
        static uint32_t drawn[TRIED], times[CLASSES];
        memset(times, 0, sizeof times);
        const xsm_draw draw = {.size = sizeof draw, .batch = &one, .seed = 1, .count = TRIED, .classes = drawn};
        assert_ok(xsm_sampler_draw(made, &draw, &err), err);
        for (uint32_t j = 0; j < TRIED; j++) {
            times[drawn[j]]++;
        }
        for (uint32_t k = 0; k < CLASSES; k++) { /* five classes with one likely word, or eight with both */
            const double wanted = huge ? 1. / CLASSES : k < 5 ? 0.2 : 0;
            for (uint32_t i = 0; i < ROWS; i++) {
                assert_true(fabs(exp((double)log_q[i][k]) - wanted) < 1e-6);
            }
            assert_true(fabs(times[k] - wanted * TRIED) <= 6 * sqrt(wanted * TRIED));
        }
        xsmi_array_writer_clear(&w);
    }
}

/* What estimators that are bound draw from cannot be bound to other rows. */
TEST(it_is_not_bound_beneath_an_estimator)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD_STRUCT(test_problem, more) = test_problem_new(ROWS, FEATURES + 1, CLASSES + 9, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    static const char *const names[] = {"uniform", "recent", "midx"};
    for (int i = 0; i < 3; i++) {
        xsm_estimator *one = test_estimator(NULL, "nce", ""), *other = test_estimator(NULL, "importance", "");
        MADE(xsm_sampler, s, xsm_sampler_new(NULL, names[i], &s, &err));
        assert_ok(xsm_estimator_set_sampler(one, s, &err), err);
        assert_ok(xsm_estimator_bind(one, m, p.data, &err), err);
        if (i == 0) { /* what several draw from, the last one frees */
            assert_ok(xsm_estimator_set_sampler(other, s, &err), err);
            assert_ok(xsm_estimator_bind(other, m, p.data, &err), err);
        }
        assert_fails(xsm_sampler_bind(s, more.data, &err), XSM_ERROR_STATE, err);
        xsm_estimator_free(one);
        if (i == 0) {
            assert_fails(xsm_sampler_bind(s, more.data, &err), XSM_ERROR_STATE, err);
        }
        xsm_estimator_free(other);
        assert_ok(xsm_sampler_bind(s, more.data, &err), err);
    }
}

/* -- what the suite finds ------------------------------------------------------------------------------------------ */

static xsm_status follow_by_calls(void *state, const xsm_sampler_step *step, xsm_error *err)
{
    static uint32_t calls;
    const xsm_sampler_step other = {sizeof other, &step->labels[++calls % step->label_count], 1, step->examples,
                                    step->weights};
    return xsm_sampler_find("recent")->follow(state, &other, err);
}

static xsm_status load_more(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader,
                            xsm_error *err)
{
    const uint32_t label = 0;
    const xsm_sampler_step step = {sizeof step, &label, 1, 0, NULL};
    const xsm_status status = xsm_sampler_find("recent")->load(state, problem, reader, err);
    return status == XSM_OK ? xsm_sampler_find("recent")->follow(state, &step, err) : status;
}

TEST(wrong_followers_are_found)
{
    xsm_sampler_check_options o = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    xsm_sampler_ops ops = *xsm_sampler_find("recent");
    o.set = (const char *const[]){"labels=3", NULL};
    ops.follow = follow_by_calls;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "bound anew"));
    ops = *xsm_sampler_find("recent");
    ops.load = load_more;
    assert_fails(xsm_sampler_check(NULL, &ops, &o, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "saved and loaded"));
}
