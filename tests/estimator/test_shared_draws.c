/*
 * Tests of draws that a minibatch shares: lists, coefficients and steps compared with their definitions in double, the
 * mean over draws, the same bits for any number of threads and instruction set, and refused settings.
 */
#include "training.h"

#include "estimator/estimator.h"

#include <math.h>
#include <string.h>

enum { ROWS = 90, FEATURES = 30, HIDDEN = 20, CLASSES = 60, DRAWS = 25 };

/* Rows with one to three labels, classes of very different frequency. */
static test_problem new_problem(bool sparse, bool several)
{
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 5);
    uint64_t offsets[ROWS + 1] = {0}, next = 11;
    uint32_t labels[3 * ROWS], count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t k = (uint32_t)(CLASSES * pow(test_uniform(&next), 3)), each = several ? 1 + i % 3 : 1;
        for (uint32_t j = 0; j < each; j++) {
            labels[count++] = (k + 7 * j) % CLASSES;
        }
        offsets[i + 1] = count;
    }
    xsm_dataset *data = test_relabel(&p, sparse, CLASSES, offsets, labels);
    xsm_dataset_free(p.data);
    p.data = data;
    return p;
}

static xsm_model *new_model(xsm_context *ctx, const test_problem *p, bool embedding)
{
    xsm_error err = XSM_ERROR_INIT;
    if (!embedding) {
        return test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 3);
    }
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    uint64_t next = 8;
    o.bias = 1;
    o.activation = XSM_ACTIVATION_TANH;
    NEW(xsm_model, m, xsm_model_new_embedding(ctx, FEATURES, HIDDEN, CLASSES, &o, &m, &err));
    for (uint32_t k = 0; k < CLASSES; k++) {
        m->w.bias[k] = (float)(test_uniform(&next) - 0.5);
        for (uint32_t h = 0; h < HIDDEN; h++) {
            m->w.weight[k * m->w.stride + h] = (float)(test_uniform(&next) - 0.5);
        }
    }
    return m;
}

/* What the rows are to the output layer, [n][width]. */
static uint32_t rows_of(const xsm_model *m, const test_problem *p, uint64_t first, uint64_t n, float *x)
{
    xsm_error err = XSM_ERROR_INIT;
    if (m->layer) {
        xsm_batch batch = xsm_batch_range(p->data, first, n);
        assert_ok(xsm_model_hidden_vectors(m, &batch, x, HIDDEN, &err), err);
        return HIDDEN;
    }
    memcpy(x, p->x + first * FEATURES, n * FEATURES * sizeof *x);
    return FEATURES;
}

static double loss_of(const xsm_gradient *g, uint64_t i, const double *z, uint32_t labels, double *c)
{
    double sum = 0, target = 0;
    const uint64_t at = i * g->width;
    for (uint32_t j = 0; j < g->lengths[i]; j++) {
        c[j] = j < labels ? exp(z[j]) : g->work.draws[at + j] * exp(z[j] - g->work.log_expected[at + j]);
        sum += c[j];
        target += j < labels ? z[j] / labels : 0;
    }
    for (uint32_t j = 0; j < g->lengths[i]; j++) {
        c[j] = c[j] / sum - (j < labels ? 1.0 / labels : 0);
    }
    return log(sum) - target;
}

/* A batch's lists: every example's are its labels, then S without them, with the draws and the expectations of all. */
static void check_lists(const xsm_gradient *g, const xsm_dataset *data, uint64_t first, uint64_t n)
{
    double total = 0;
    uint32_t whole = 0; /* a batch's S is the longest list of drawn classes with what any example left out */
    uint32_t times[CLASSES] = {0};
    double expected[CLASSES] = {0};
    for (uint32_t k = 0; k < CLASSES; k++) {
        total += (double)data->map.counts[k] + 1;
    }
    for (uint64_t i = 0; i < n; i++) {
        size_t labels;
        (void)xsmi_dataset_labels(data, first + i, &labels);
        for (uint32_t j = (uint32_t)labels; j < g->lengths[i]; j++) {
            uint32_t k = g->classes[i * g->width + j];
            whole += times[k] == 0;
            times[k] = g->work.draws[i * g->width + j];
            expected[k] = g->work.log_expected[i * g->width + j];
        }
    }
    uint32_t drawn = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        drawn += times[k];
        if (times[k] > 0) {
            assert_float_equal(expected[k], log(DRAWS * ((double)data->map.counts[k] + 1) / total), 1e-12);
        }
    }
    assert_int_equal(drawn, DRAWS);
    assert_true(whole > 5);
    for (uint64_t i = 0; i < n; i++) {
        size_t labels;
        const uint32_t *label = xsmi_dataset_labels(data, first + i, &labels);
        const uint32_t *list = g->classes + i * g->width;
        uint32_t left = whole;
        bool seen[CLASSES] = {false};
        for (size_t j = 0; j < labels; j++) {
            assert_int_equal(list[j], label[j]);
            left -= times[label[j]] > 0;
        }
        assert_int_equal(g->lengths[i], labels + left);
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            assert_false(seen[list[j]]);
            seen[list[j]] = true;
            assert_true(j < labels || (times[list[j]] == g->work.draws[i * g->width + j] &&
                                       expected[list[j]] == g->work.log_expected[i * g->width + j]));
        }
    }
}

/* One batch: lists, scores and coefficients, the gradient of the rows, and the step of sgd on the weights. */
static void check_batch(bool embedding, bool sparse, bool several, uint64_t first, uint64_t n)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = new_problem(sparse, several);
    HELD(xsm_model, m) = new_model(NULL, &p, embedding);
    HELD(xsm_estimator, e) = test_estimator(NULL, "sampled-softmax", "sampler=frequency negatives=25 shared=yes");
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    xsm_batch batch = xsm_batch_range(p.data, first, n);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.3, g, &err), err);
    assert_true((g->form == XSMI_GRADIENT_SHARED) == !sparse || embedding);
    check_lists(g, p.data, first, n);
    float x[ROWS * FEATURES];
    const uint32_t width = rows_of(m, &p, first, n, x);
    static double want[CLASSES][FEATURES + 1];
    double loss = 0;
    memset(want, 0, sizeof want);
    for (uint64_t i = 0; i < n; i++) {
        double z[CLASSES], c[CLASSES], back[FEATURES] = {0};
        size_t labels;
        (void)xsmi_dataset_labels(p.data, first + i, &labels);
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            z[j] = test_score(m, g->classes[i * g->width + j], x + i * width);
        }
        loss += loss_of(g, i, z, (uint32_t)labels, c) / (double)n;
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            const uint32_t k = g->classes[i * g->width + j];
            c[j] /= (double)n;
            assert_float_equal(g->coefficients[i * g->width + j], c[j], 1e-6);
            for (uint32_t d = 0; d < width; d++) {
                want[k][d] -= 0.3 * c[j] * (double)x[i * width + d];
                back[d] += c[j] * test_weight(m, k, d);
            }
            want[k][width] -= 0.3 * c[j];
        }
        for (uint32_t h = 0; embedding && h < HIDDEN; h++) {
            double slope = 1 - (double)x[i * width + h] * (double)x[i * width + h];
            assert_float_equal(g->layer.gradient[i * g->work.rows.stride + h], slope * back[h], 1e-6);
        }
    }
    assert_float_equal(g->loss, loss, 1e-5);
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t d = 0; d < width; d++) {
            want[k][d] += test_weight(m, k, d);
        }
        want[k][width] += test_bias(m, k);
    }
    assert_ok(xsm_optimizer_apply(o, &batch, g, 0.3, &err), err);
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t d = 0; d < width; d++) {
            assert_float_equal(test_weight(m, k, d), want[k][d], 2e-6);
        }
        assert_float_equal(test_bias(m, k), want[k][width], 2e-6);
    }
}

TEST(batches_are_what_they_are_by_definition)
{
    check_batch(true, true, false, 0, ROWS);
    check_batch(true, true, true, 3, 70);
    check_batch(true, true, true, 20, 2);
    check_batch(false, false, true, 0, 33);
    check_batch(false, true, true, 0, 40); /* sparse rows: no product, the same numbers */
}

/* A row whose gradient says no such draws keeps its own: batches of one, and estimators used in turn on one gradient.
 */
TEST(single_rows_draw_for_themselves)
{
    HELD_STRUCT(test_problem, p) = new_problem(true, false);
    HELD(xsm_model, m) = new_model(NULL, &p, true);
    HELD(xsm_estimator, shared) = test_estimator(NULL, "sampled-softmax", "sampler=frequency negatives=25 shared=yes");
    HELD(xsm_estimator, own) = test_estimator(NULL, "sampled-softmax", "sampler=frequency negatives=25");
    HELD(xsm_gradient, g) = test_gradient(NULL);
    HELD(xsm_gradient, h) = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(shared, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(own, m, p.data, &err), err);
    xsm_batch many = xsm_batch_range(p.data, 0, 50), one = xsm_batch_range(p.data, 50, 1);
    assert_ok(xsm_estimator_gradient(shared, &many, 0.3, g, &err), err);
    assert_true(g->shared.count > 0);
    assert_ok(xsm_estimator_gradient(own, &many, 0.3, g, &err), err);
    assert_int_equal(g->shared.count, 0);
    bool differ = false;
    for (uint64_t i = 1; i < 50; i++) {
        differ |= memcmp(g->classes + 1, g->classes + i * g->width + 1, 5 * sizeof *g->classes) != 0;
    }
    assert_true(differ);
    assert_ok(xsm_estimator_gradient(shared, &one, 0.3, g, &err), err);
    assert_ok(xsm_estimator_gradient(own, &one, 0.3, h, &err), err);
    assert_int_equal(g->lengths[0], h->lengths[0]);
    assert_memory_equal(g->coefficients, h->coefficients, g->lengths[0] * sizeof *g->coefficients);
}

/* The estimate of the one-vs-each bound has the bound as its mean, whoever shares the draws. With 3,000 independent
 * batches a class's coefficient is within six standard errors but once in 5e8. */
TEST(the_mean_over_draws_is_right)
{
    enum { BATCHES = 3000, N = 6 };
    static const char *const samplers[] = {"sampler=frequency negatives=25 shared=yes",
                                           "sampler=uniform negatives=25 shared=yes"};
    HELD_STRUCT(test_problem, p) = new_problem(true, false);
    HELD(xsm_model, m) = new_model(NULL, &p, true);
    float x[N * FEATURES];
    (void)rows_of(m, &p, 0, N, x);
    for (size_t s = 0; s < 2; s++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, "ove-sampled", samplers[s]);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        static double sum[N][CLASSES], square[N][CLASSES];
        memset(sum, 0, sizeof sum);
        memset(square, 0, sizeof square);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        xsm_batch batch = xsm_batch_range(p.data, 0, N);
        for (int b = 0; b < BATCHES; b++) {
            assert_ok(xsm_estimator_gradient(e, &batch, 0.1, g, &err), err);
            assert_true((g->form == XSMI_GRADIENT_SHARED));
            for (uint32_t i = 0; i < N; i++) {
                for (uint32_t j = 0; j < g->lengths[i]; j++) {
                    double c = N * (double)g->coefficients[i * g->width + j];
                    sum[i][g->classes[i * g->width + j]] += c;
                    square[i][g->classes[i * g->width + j]] += c * c;
                }
            }
        }
        for (uint32_t i = 0; i < N; i++) {
            size_t one;
            const uint32_t y = *xsmi_dataset_labels(p.data, i, &one);
            const double zy = test_score(m, y, x + i * HIDDEN);
            for (uint32_t k = 0; k < CLASSES; k++) {
                if (k != y) {
                    double want = 1 / (1 + exp(zy - test_score(m, k, x + i * HIDDEN))), mean = sum[i][k] / BATCHES;
                    double error = sqrt((square[i][k] / BATCHES - mean * mean) / BATCHES);
                    assert_true(fabs(mean - want) <= 6 * error + 1e-5);
                }
            }
        }
    }
}

static uint64_t train(xsm_context *ctx, const test_problem *p, bool embedding, const char *estimator,
                      const char *optimizer)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = new_model(ctx, p, embedding);
    HELD(xsm_estimator, e) = test_estimator(ctx, estimator, "sampler=frequency negatives=25 shared=yes");
    xsm_gradient *g = test_gradient(ctx);
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, optimizer, &o, &err));
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    assert_ok(xsm_estimator_bind(e, m, p->data, &err), err);
    for (uint64_t step = 0; step < 4; step++) {
        xsm_batch batch = xsm_batch_range(p->data, step % 2 * 5, ROWS - 5);
        test_take_step(e, o, g, &batch, 0.1);
    }
    uint64_t hash = embedding ? test_hash_embedding(m) : test_hash(m);
    xsm_gradient_free(g);
    xsm_optimizer_free(o);
    return hash;
}

TEST(threads_and_instructions_do_not_matter)
{
    static const char *const estimators[] = {"sampled-softmax", "nce", "negative-sampling", "importance"};
    static const uint32_t cpus[] = {0, XSM_CPU_DISABLE_AVX512, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    HELD_STRUCT(test_problem, sparse) = new_problem(true, false);
    HELD_STRUCT(test_problem, dense) = new_problem(false, false);
    for (size_t i = 0; i < sizeof estimators / sizeof *estimators; i++) {
        for (int kind = 0; kind < 4; kind++) {
            uint64_t first = 0;
            for (int way = 0; way < 4; way++) {
                xsm_context *ctx =
                    test_context(way == 3 ? 3 : (uint32_t)way + 1, way == 3 ? TEST_REVERSED : way, cpus[way % 3]);
                uint64_t hash =
                    train(ctx, kind % 2 ? &sparse : &dense, kind % 2, estimators[i], kind < 2 ? "adagrad" : "sgd");
                first = way == 0 ? hash : first;
                if (hash != first) {
                    fail_msg("%s, kind %d, way %d: other bits", estimators[i], kind, way);
                }
                xsm_context_free(ctx);
            }
        }
    }
}

TEST(what_draws_by_the_row_is_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(200, 6, 8, false, 5);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 3);
    HELD(xsm_estimator, e) = test_estimator(NULL, "negative-sampling", "sampler=tree sampler.components=2 shared=yes");
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "'tree'"));
    assert_non_null(strstr(err.message, "'frequency'"));
    assert_ok(xsm_estimator_set(e, "shared", "no", &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
}

TEST(allocations_may_fail)
{
    HELD_STRUCT(test_problem, p) = new_problem(true, false);
    test_steps s = {
        .p = &p, .estimator = "sampled-softmax", .optimizer = "adagrad", .steps = 1, .rows = 40, .eta = 0.1};
    s.options = "shared=yes";
    s.hidden = HIDDEN;
    assert_true(test_every_allocation(test_run_steps, &s) > 20);
}
