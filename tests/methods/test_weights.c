/*
 * Weights of examples. A weight of 2 is the same as a row twice, for every estimator of the registry:
 *
 * - For a step that is linear in the loss, to the bit, with the draws made equal: two copies of a row are taken from
 *   the same position of the random stream, and their coefficients, losses and states are compared with those of one
 *   row of weight 2. As that holds for every draw, it holds for the expectation.
 * - For exact estimators, to the bit, in one batch with both copies.
 * - For the implicit step, which is not linear, with all classes in one joint batch of copies, to the accuracy of the
 *   solver; and its equation is tested by its stationarity.
 * - For fits by L-BFGS at the optimum.
 */
#include "training.h"

#include "data/dataset.h"
#include "estimator/estimator.h"

#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 6, CLASSES = 9, ROWS = 12, NUMBERS = 64 };

/* An estimator, and options for it. */
typedef struct way {
    const char *name, *options;
} way;

/* Every estimator of the registry with its defaults, and some with other options. */
static size_t list_ways(way *ways, size_t most)
{
    static const way further[] = {{"ove", "negatives=all"},
                                  {"ove", "tight=3"},
                                  {"implicit", "ridge=0.5 negatives=3"},
                                  {"umax", "ridge=0.5"},
                                  {"sampled-softmax", "sampler=frequency negatives=4"},
                                  {"mips", "index=exact"},
                                  {"one-vs-all-sampled", "negatives=3"}};
    size_t count = 0;
    for (const xsm_estimator_ops *ops; (ops = xsm_estimator_at(count)) != NULL; count++) {
        assert_true(count < most);
        ways[count] = (way){ops->name, ""};
    }
    assert_true(count >= 20);
    for (size_t i = 0; i < sizeof further / sizeof *further; i++) {
        assert_true(count < most);
        ways[count++] = further[i];
    }
    return count;
}

static xsm_dataset *copies_of(const xsm_dataset *d, const uint64_t *rows, uint64_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, out, xsm_dataset_select(d, rows, count, &out, &err));
    return out;
}

static xsm_dataset_info info_of(const xsm_dataset *d)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_dataset_get_info(d, &info, &err), err);
    return info;
}

static void set_weights(xsm_dataset *d, const float *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_dataset_set_weights(
                  d, STRUCT(xsm_dataset_weights, .rows = rows, .row_count = rows ? (size_t)info_of(d).rows : 0), &err),
              err);
}

/* What a batch of one row leaves behind. */
typedef struct trace {
    uint64_t length;
    uint32_t classes[NUMBERS];
    float coefficients[NUMBERS];
    double loss, state[NUMBERS];
    size_t states;
} trace;

/* The numbers that the estimator has for a row. */
static void read_state(const xsm_estimator *e, uint64_t row, trace *t)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_state_tensor tensor;
    bool found = true;
    t->states = 0;
    for (uint32_t i = 0; found; i++) {
        assert_int_equal(xsmi_estimator_state_tensor(e, i, &tensor, &found, &err), XSM_OK);
        if (found && tensor.by_row) {
            assert_true(tensor.type == XSM_STATE_F64 && tensor.width == 1 && t->states < NUMBERS);
            t->state[t->states++] = ((const double *)tensor.data)[row];
        }
    }
}

/* Takes the gradient of one row at the first position of the random stream. */
static trace take(xsm_estimator *e, const xsm_model *m, const xsm_dataset *d, uint64_t row, const float *weight)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_gradient, g) = test_gradient(NULL);
    trace t;
    memset(&t, 0, sizeof t);
    xsm_batch batch = xsm_batch_range(d, row, 1);
    batch.weights = weight;
    assert_ok(xsm_estimator_bind(e, m, d, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.25, g, &err), err);
    const xsm_gradient_view v = test_view(g);
    t.length = v.lengths ? v.lengths[0] : v.width;
    assert_true(t.length <= NUMBERS);
    for (uint64_t j = 0; j < t.length; j++) {
        t.classes[j] = v.classes ? v.classes[j] : (uint32_t)j;
        t.coefficients[j] = v.coefficients[v.lengths && xsmi_gradient_is_sifted(g) ? t.classes[j] : j];
    }
    t.loss = v.loss;
    read_state(e, row, &t);
    return t;
}

static bool is_proximal(const xsm_estimator *e)
{
    return (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0;
}

static bool same_lists(const trace *a, const trace *b)
{
    return a->length == b->length && memcmp(a->classes, b->classes, a->length * sizeof *a->classes) == 0;
}

static bool same_numbers(const trace *a, const trace *b)
{
    return memcmp(a->coefficients, b->coefficients, a->length * sizeof *a->coefficients) == 0 && a->loss == b->loss;
}

static bool same_states(const trace *a, const trace *b)
{
    return a->states == b->states && memcmp(a->state, b->state, a->states * sizeof *a->state) == 0;
}

/* A row of weight 2 is what its two copies are together: coefficients, losses and the copies' states. */
static void check_twice(const way *w, bool sparse)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 11);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
    HELD(xsm_estimator, e) = test_estimator(NULL, w->name, w->options);
    const float two = 2, one = 1, none = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        const uint64_t twice[] = {row, row, 0, 1, 2, 3, 4};
        float weights[] = {2, 1, 1, 1, 1, 1, 1};
        HELD(xsm_dataset, copies) = copies_of(p.data, twice, 7);
        HELD(xsm_dataset, weighted) = copies_of(p.data, twice, 7);
        set_weights(weighted, weights);
        const trace a = take(e, m, copies, 0, NULL), b = take(e, m, copies, 1, NULL);
        trace whole = take(e, m, weighted, 0, NULL);
        const trace given = take(e, m, copies, 0, &two), plain = take(e, m, copies, 0, &one);
        const trace absent = take(e, m, copies, 0, &none);
        assert_true(same_lists(&a, &b) && same_numbers(&a, &b) && same_states(&a, &b)); /* the draws are equal */
        assert_true(same_lists(&a, &plain) && same_numbers(&a, &plain) && same_states(&a, &plain));
        assert_true(same_lists(&whole, &given) && same_numbers(&whole, &given) && same_states(&whole, &given));
        assert_true(absent.loss == 0);
        for (uint64_t j = 0; j < absent.length; j++) {
            assert_true(absent.coefficients[j] == 0);
        }
        if (!is_proximal(e)) {
            trace sum = a;
            sum.loss = a.loss + b.loss;
            for (uint64_t j = 0; j < a.length; j++) {
                sum.coefficients[j] = a.coefficients[j] + b.coefficients[j];
            }
            if (!same_lists(&whole, &sum) || !same_numbers(&whole, &sum) || !same_states(&whole, &a)) {
                fail_msg("%s %s, row %d: weight 2 is not the row twice", w->name, w->options, (int)row);
            }
        }
    }
}

TEST(every_estimator_weighs)
{
    way ways[64];
    const size_t count = list_ways(ways, 64);
    for (size_t i = 0; i < count; i++) {
        check_twice(&ways[i], false);
        check_twice(&ways[i], true);
    }
}

/* -- batches ------------------------------------------------------------------------------------------------------- */

/* Each row of a batch with weights that are powers of two has its coefficients and its share of the loss multiplied, to
 * the bit, whatever the other rows are: with draws of its own or shared ones, on a linear model and below a first
 * layer. */
static void check_batch(const way *w, bool embedding)
{
    static const float weights[] = {2, 0.5f, 1, 4, 0.25f, 8};
    enum { SOME = sizeof weights / sizeof *weights };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, embedding, 3);
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
    if (embedding) {
        xsm_model_free(m);
        xsm_parameters of = XSM_PARAMETERS_INIT;
        uint64_t seed = 9;
        assert_ok(xsm_model_new_embedding(NULL, FEATURES, FEATURES, CLASSES, NULL, &m, &err), err);
        assert_ok(xsm_model_get_parameters(m, &of, &err), err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            for (uint32_t j = 0; j < FEATURES; j++) {
                of.weight[k * of.class_step + j * of.feature_step] = (float)test_uniform(&seed);
            }
        }
    }
    xsm_estimator *e = test_estimator(NULL, w->name, w->options);
    xsm_gradient *g = test_gradient(NULL), *h = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, SOME);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.25, g, &err), err);
    batch.weights = weights;
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 0.25, h, &err), err);
    const xsm_gradient_view a = test_view(g), b = test_view(h);
    for (uint64_t i = 0; i < SOME; i++) {
        const uint64_t length = a.lengths && !xsmi_gradient_is_sifted(g) ? a.lengths[i] : a.width;
        assert_true(!a.lengths || a.lengths[i] == b.lengths[i]);
        for (uint64_t j = i * a.width; j < i * a.width + length; j++) {
            assert_true(b.coefficients[j] == weights[i] * a.coefficients[j]);
            assert_true(!a.classes || a.classes[j] == b.classes[j] || xsmi_gradient_is_sifted(g));
        }
        assert_true(h->losses[i] == (double)weights[i] * g->losses[i]);
    }
    for (size_t j = 0; embedding && j < SOME * g->layer.stride; j++) { /* the first layer's, too */
        const size_t column = j % g->layer.stride;
        assert_true(column >= FEATURES || h->layer.gradient[j] == weights[j / g->layer.stride] * g->layer.gradient[j]);
    }
    xsm_gradient_free(g);
    xsm_gradient_free(h);
    xsm_estimator_free(e);
    xsm_model_free(m);
}

TEST(batches_weigh)
{
    way ways[64];
    const size_t count = list_ways(ways, 64);
    for (size_t i = 0; i < count; i++) {
        if (!(xsm_estimator_find(ways[i].name)->flags & XSM_ESTIMATOR_PROXIMAL)) {
            check_batch(&ways[i], false);
            check_batch(&ways[i], true);
        }
    }
    static const way shared[] = {{"sampled-softmax", "negatives=4 shared=yes"},
                                 {"negative-sampling", "negatives=4 shared=yes"},
                                 {"nce", "negatives=4 shared=yes"}};
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        check_batch(&shared[i], false);
        check_batch(&shared[i], true);
    }
}

/* The batches of a stream bring their weights along. */
TEST(streams_weigh)
{
    static const way ways[] = {{"softmax", ""}, {"implicit", "negatives=3"}, {"umax", ""}, {"sampled-softmax", ""}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        HELD(xsm_gradient, h) = test_gradient(NULL);
        const float weight = 2.5f;
        for (uint64_t row = 0; row < ROWS; row++) {
            HELD(xsm_estimator, e) = test_estimator(NULL, ways[i].name, ways[i].options);
            xsm_batch known = xsm_batch_range(p.data, row, 1), stream = XSM_BATCH_INIT;
            known.weights = stream.weights = &weight;
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            assert_ok(xsm_estimator_gradient(e, &known, 0.25, g, &err), err);
            assert_ok(xsm_estimator_bind_stream(e, m, NULL, &err), err);
            stream.values = p.x + row * FEATURES;
            stream.count = 1;
            stream.stride = stream.features = FEATURES;
            stream.labels = p.labels + row;
            assert_ok(xsm_estimator_gradient(e, &stream, 0.25, h, &err), err);
            const xsm_gradient_view a = test_view(g), b = test_view(h);
            const uint64_t length = a.lengths ? a.lengths[0] : a.width;
            assert_true(a.loss == b.loss);
            assert_memory_equal(a.coefficients, b.coefficients, length * sizeof *a.coefficients);
        }
    }
}

/* -- copies in a batch --------------------------------------------------------------------------------------------- */

/* {a, b} with weights of 2 against {a, a, b, b}: twice the mean of two is four times the mean of four. */
TEST(exact_batches_are_equal)
{
    static const way ways[] = {{"softmax", ""},
                               {"bouchard", ""},
                               {"margin", ""},
                               {"one-vs-all", ""},
                               {"ove", "negatives=all"},
                               {"ove", "negatives=all tight=2"},
                               {"one-vs-all-sampled", "negatives=all"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
        const uint64_t once[] = {3, 7}, twice[] = {3, 3, 7, 7};
        const float weights[] = {2, 2};
        float input[2][FEATURES], copies_input[4][FEATURES];
        HELD(xsm_dataset, weighted) = copies_of(p.data, once, 2);
        HELD(xsm_dataset, copies) = copies_of(p.data, twice, 4);
        set_weights(weighted, weights);
        HELD(xsm_estimator, a) = test_estimator(NULL, ways[i].name, ways[i].options);
        HELD(xsm_estimator, b) = test_estimator(NULL, ways[i].name, ways[i].options);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        HELD(xsm_gradient, h) = test_gradient(NULL);
        const xsm_batch two = xsm_batch_range(weighted, 0, 2), four = xsm_batch_range(copies, 0, 4);
        assert_ok(xsm_estimator_bind(a, m, weighted, &err), err);
        assert_ok(xsm_estimator_bind(b, m, copies, &err), err);
        assert_ok(xsm_estimator_gradient_input(a, &two, 1, g, input[0], FEATURES, &err), err);
        assert_ok(xsm_estimator_gradient_input(b, &four, 1, h, copies_input[0], FEATURES, &err), err);
        const xsm_gradient_view v = test_view(g), u = test_view(h);
        assert_true(fabs(v.loss * 2 - u.loss * 4) <= 1e-15 * fabs(u.loss) * 8);
        for (size_t r = 0; r < 2; r++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                const float own = v.coefficients[r * v.width + k];
                assert_true(2 * own ==
                            4 * (u.coefficients[2 * r * u.width + k] + u.coefficients[(2 * r + 1) * u.width + k]));
            }
            for (size_t j = 0; j < FEATURES; j++) {
                assert_true(2 * input[r][j] == 4 * (copies_input[2 * r][j] + copies_input[2 * r + 1][j]));
            }
        }
    }
}

/* -- the implicit step --------------------------------------------------------------------------------------------- */

/* Takes one step with a batch of all rows of the data. */
static void step_all(const char *options, xsm_model *m, const xsm_dataset *d, double eta, double *u)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = test_estimator(NULL, "implicit", options);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    const xsm_batch batch = xsm_batch_range(d, 0, d->rows);
    assert_ok(xsm_estimator_bind(e, m, d, &err), err);
    test_take_step(e, o, g, &batch, eta);
    for (uint64_t i = 0; i < d->rows; i++) {
        trace t;
        read_state(e, i, &t);
        assert_int_equal(t.states, 1);
        u[i] = t.state[0];
    }
}

static void assert_same_weights(const xsm_model *a, const xsm_model *b, double tolerance)
{
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            assert_true(fabs(test_weight(a, k, j) - test_weight(b, k, j)) <= tolerance);
        }
        assert_true(!a->w.bias || fabs(test_bias(a, k) - test_bias(b, k)) <= tolerance);
    }
}

/* The joint step on weighted rows is that on their copies, with the same rate for the sum of the losses. */
TEST(implicit_steps_on_copies)
{
    static const uint64_t once[] = {1, 4, 8}, copies[] = {1, 1, 4, 8, 8, 8};
    static const float weights[] = {2, 1, 3};
    static const struct {
        const char *options;
        uint64_t rows, copies;
    } tries[] = {{"negatives=all", 1, 2}, {"negatives=all", 3, 6}, {"negatives=all ridge=0.5", 3, 6}};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        for (int bias = 0; bias < 2; bias++) {
            HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
            HELD(xsm_model, a) = test_model(NULL, &p, bias != 0, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
            HELD(xsm_model, b) = test_model(NULL, &p, bias != 0, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
            HELD(xsm_dataset, weighted) = copies_of(p.data, once, tries[i].rows);
            HELD(xsm_dataset, all) = copies_of(p.data, copies, tries[i].copies);
            double u[3], v[6];
            const double rate = 0.8; /* of the sum */
            set_weights(weighted, weights);
            step_all(tries[i].options, a, weighted, rate * (double)tries[i].rows, u);
            step_all(tries[i].options, b, all, rate * (double)tries[i].copies, v);
            assert_same_weights(a, b, 2e-6);
            for (uint64_t r = 0, c = 0; r < tries[i].rows; c += (uint64_t)weights[r++]) {
                for (uint64_t n = 0; n < (uint64_t)weights[r]; n++) {
                    assert_true(fabs(u[r] - v[c + n]) <= 1e-6);
                }
            }
        }
    }
}

/* The step of one row minimises v (eta f + (u - u_old)^2/2) + ||theta - theta_old||^2/2: at its end, u's derivative is
 * 0, and each row of weights has moved by v eta df/dz_k x. */
TEST(implicit_solves_the_weighted_equation)
{
    static const float tried[] = {1e-3f, 0.3f, 1, 2.5f, 40, 1e6f};
    for (size_t w = 0; w < sizeof tried / sizeof *tried; w++) {
        for (uint64_t row = 0; row < ROWS; row++) {
            HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, row % 2, 3);
            HELD(xsm_model, m) = test_model(NULL, &p, row % 3 != 0, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
            HELD(xsm_model, old) = test_model(NULL, &p, row % 3 != 0, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
            HELD(xsm_dataset, one) = copies_of(p.data, &row, 1);
            const double eta = 0.6, weight = (double)tried[w];
            const float *x = p.x + row * FEATURES;
            double u = 0, sum = 0, norm = 0, z[CLASSES], before[CLASSES];
            set_weights(one, tried + w);
            step_all("negatives=all tolerance=1e-12", m, one, eta, &u);
            for (uint32_t k = 0; k < CLASSES; k++) {
                z[k] = test_score(m, k, x);
                before[k] = test_score(old, k, x);
            }
            for (uint32_t j = 0; j < FEATURES; j++) {
                norm += (double)x[j] * (double)x[j];
            }
            norm += m->w.bias ? 1 : 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                const uint32_t y = p.labels[row];
                const double c = k == y ? 0 : exp(z[k] - z[y] - u); /* df/dz_k */
                sum += c;
                if (k != y) {
                    const double moved = before[k] - z[k], wanted = weight * eta * c * norm;
                    assert_true(fabs(moved - wanted) <= 1e-5 * (1 + fabs(moved)));
                }
            }
            const double slope = eta * (1 - exp(-u) - sum) + u; /* u was 0 */
            assert_true(fabs(slope) <= 1e-4);
        }
    }
}

/* -- training ------------------------------------------------------------------------------------------------------ */

static int keep_loss(void *user, const xsm_progress *p)
{
    *(double *)user = p->epoch_ended ? p->loss : *(double *)user;
    return 0;
}

/* Trains two epochs in the order of the rows; the loss of the last goes to *loss. */
static uint64_t train(const way *w, const test_problem *p, const xsm_dataset *d, double eta, uint64_t batch,
                      uint32_t threads, double *loss)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
    HELD(xsm_model, m) = test_model(ctx, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
    HELD(xsm_estimator, e) = test_estimator(ctx, w->name, w->options);
    HELD(xsm_optimizer, o) = test_optimizer(ctx, m);
    NEW(xsm_trainer, t,
        xsm_trainer_new(ctx, m, d, e, o,
                        STRUCT(xsm_trainer_options, .epochs = 2, .eta = eta, .batch = batch, .order = XSM_ORDER_FILE,
                               .progress = keep_loss, .progress_user = loss),
                        &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    const uint64_t hash = test_hash(m);
    xsm_trainer_free(t);
    return hash;
}

/* The same by a host's loop, one row a step. */
static uint64_t loop(const way *w, const test_problem *p, const xsm_dataset *d, double eta)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
    HELD(xsm_estimator, e) = test_estimator(NULL, w->name, w->options);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(e, m, d, &err), err);
    for (uint64_t i = 0; i < 2 * d->rows; i++) {
        const xsm_batch batch = xsm_batch_range(d, i % d->rows, 1);
        test_take_step(e, o, g, &batch, eta);
    }
    const uint64_t hash = test_hash(m);
    return hash;
}

/* Weights of 1 change no bit; with weights of 2, half the rate gives the same bits if the step is linear and nothing is
 * kept by row; the trainer's windows take the steps of a host's loop; and the loss that is reported is a weighted
 * mean. */
TEST(trainers_weigh)
{
    way ways[64];
    const size_t count = list_ways(ways, 64);
    for (size_t i = 0; i < count; i++) {
        const double eta = strcmp(ways[i].name, "vanilla") == 0 || strcmp(ways[i].name, "raman") == 0 ? 0x1p-9 : 0x1p-5;
        HELD_STRUCT(test_problem, p) = test_problem_new(150, FEATURES, 40, false, 3);
        const way *w = &ways[i];
        float weights[150];
        double plain_loss = 0, loss = 0;
        for (size_t r = 0; r < 150; r++) {
            weights[r] = 1;
        }
        const uint64_t plain = train(w, &p, p.data, eta, 1, 1, &plain_loss);
        set_weights(p.data, weights);
        assert_int_equal(train(w, &p, p.data, eta, 1, 1, &loss), plain);
        assert_true(loss == plain_loss);
        assert_int_equal(train(w, &p, p.data, eta, 1, 2, &loss), plain);
        const bool linear =
            !(xsm_estimator_find(w->name)->flags & (XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_PROXIMAL)) &&
            !strstr(w->options, "ridge");
        for (size_t r = 0; r < 150; r++) {
            weights[r] = 2;
        }
        set_weights(p.data, weights);
        if (linear) {
            assert_int_equal(train(w, &p, p.data, eta / 2, 1, 2, &loss), plain);
            assert_true(fabs(loss - plain_loss) <= 1e-12 * fabs(plain_loss));
        }
        for (size_t r = 0; r < 150; r++) {
            weights[r] = 0.25f * (float)(r % 7);
        }
        set_weights(p.data, weights);
        const uint64_t weighted = train(w, &p, p.data, eta, 1, 1, &loss);
        assert_true(weighted != plain);
        assert_int_equal(train(w, &p, p.data, eta, 1, 2, &loss), weighted);
        assert_int_equal(loop(w, &p, p.data, eta), weighted);
    }
}

/* L-BFGS on weighted rows and on their copies ends at the same optimum, with the same objective. */
TEST(fits_are_equal)
{
    static const way ways[] = {{"softmax", "ridge=1"},
                               {"bouchard", "ridge=1"},
                               {"one-vs-all", "ridge=1"},
                               {"ove", "negatives=all ridge=1"},
                               {"margin", "ridge=1 mu=1"}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways && test_has_lbfgs(); i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(60, FEATURES, CLASSES, i % 2, 3);
        uint64_t copies[180], count = 0;
        float weights[60];
        for (uint64_t r = 0; r < 60; r++) {
            weights[r] = (float)(r % 4);
            for (uint64_t n = 0; n < r % 4; n++) {
                copies[count++] = r;
            }
        }
        xsm_dataset *data[2] = {copies_of(p.data, copies, count), p.data};
        xsm_model *m[2];
        xsm_fit_result r[2] = {XSM_FIT_RESULT_INIT, XSM_FIT_RESULT_INIT};
        set_weights(p.data, weights);
        for (size_t j = 0; j < 2; j++) {
            HELD(xsm_estimator, e) = test_estimator(NULL, ways[i].name, ways[i].options);
            xsm_fit_options o = XSM_FIT_OPTIONS_INIT;
            o.iterations = 500;
            o.tolerance = 1e-7;
            m[j] = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 5);
            assert_ok(xsm_fit_full_batch(NULL, m[j], data[j], e, &o, &r[j], &err), err);
        }
        assert_true(fabs(r[0].objective - r[1].objective) <= 1e-6 * r[0].objective);
        assert_true(fabs(r[0].loss - r[1].loss) <= 1e-4 * r[0].loss);
        assert_same_weights(m[0], m[1], 2e-3);
        xsm_model_free(m[0]);
        xsm_model_free(m[1]);
        xsm_dataset_free(data[0]);
    }
}

/* -- labels -------------------------------------------------------------------------------------------------------- */

static void set_label_weights(xsm_dataset *d, const float *labels)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_dataset_set_weights(
                  d,
                  STRUCT(xsm_dataset_weights, .labels = labels, .label_count = labels ? (size_t)info_of(d).labels : 0),
                  &err),
              err);
}

/* The loss and the coefficients by class of one row. */
typedef struct labelled {
    double loss, g[CLASSES];
} labelled;

/* With these weights of all labels; NULL: none. */
static labelled take_labelled(test_rig *r, uint64_t row, const float *weights)
{
    xsm_error err = XSM_ERROR_INIT;
    labelled out;
    set_label_weights(r->data, weights);
    assert_ok(xsm_estimator_bind(r->e, r->m, r->data, &err), err);
    const xsm_batch batch = xsm_batch_range(r->data, row, 1);
    assert_ok(xsm_estimator_gradient(r->e, &batch, 0.25, r->g, &err), err);
    const xsm_gradient_view v = test_view(r->g);
    memset(&out, 0, sizeof out);
    out.loss = v.loss;
    for (uint64_t j = 0; j < (v.lengths ? v.lengths[0] : v.width); j++) {
        out.g[v.classes ? v.classes[j] : j] = (double)v.coefficients[j];
    }
    return out;
}

/* With one weight of the row's first label, and another of all others. */
static labelled take_labels(test_rig *r, uint64_t row, float first, float others)
{
    float weights[64];
    const uint64_t labels = r->offsets[ROWS];
    assert_true(labels <= 64);
    for (uint64_t i = 0; i < labels; i++) {
        weights[i] = others;
    }
    weights[r->offsets[row]] = first;
    return take_labelled(r, row, weights);
}

/* A weight of 2 adds the label's term once more: losses and coefficients are straight lines in each weight, with the
 * draws of the same position. Weights of 1 change no bit. */
TEST(labels_weigh)
{
    size_t tried = 0;
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        if (!(ops->flags & XSM_ESTIMATOR_LABEL_WEIGHTED)) {
            continue;
        }
        tried++;
        for (int sparse = 0; sparse < 2; sparse++) {
            HELD_STRUCT(test_rig, r) = test_rig_new(ops->name, "", ROWS, FEATURES, CLASSES, 4, sparse, true, 0.7);
            for (uint64_t row = 0; row < ROWS; row++) {
                const labelled zero = take_labels(&r, row, 0, 1), one = take_labelled(&r, row, NULL);
                const labelled two = take_labels(&r, row, 2, 1), ones = take_labels(&r, row, 1, 1);
                assert_true(fabs(two.loss - one.loss - (one.loss - zero.loss)) <= 1e-5 * (1 + fabs(one.loss)));
                assert_true(fabs(one.loss - zero.loss) > 1e-6);
                for (uint32_t k = 0; k < CLASSES; k++) {
                    assert_true(fabs(two.g[k] - 2 * one.g[k] + zero.g[k]) <= 1e-5);
                    assert_true(ones.g[k] == one.g[k]);
                }
                assert_true(ones.loss == one.loss);
            }
        }
    }
    assert_true(tried >= 5);
}

/* The order of a row's labels changes no bit where classes are drawn: lists have the labels in rising order, and each
 * keeps its weight. */
TEST(labels_weigh_in_any_order)
{
    for (uint32_t most = 2; most <= CLASSES - 2; most++) {
        HELD_STRUCT(test_rig, r) =
            test_rig_new("one-vs-all-sampled", "negatives=2", ROWS, FEATURES, CLASSES, most, true, true, 0.7);
        const uint64_t total = r.offsets[ROWS];
        HELD_MEMORY(float, weights) = calloc(2 * total, sizeof *weights);
        float *moved = weights + total;
        HELD_MEMORY(uint32_t, labels) = calloc(total, sizeof *labels);
        for (uint64_t row = 0; row < ROWS; row++) {
            const uint64_t first = r.offsets[row], count = r.offsets[row + 1] - first;
            for (uint64_t j = 0; j < count; j++) { /* the second half first */
                const uint64_t to = first + (j + count / 2) % count;
                weights[first + j] = 0.25f * (float)(1 + r.labels[first + j]);
                labels[to] = r.labels[first + j];
                moved[to] = weights[first + j];
            }
        }
        xsm_dataset *given = r.data;
        HELD(xsm_dataset, other) = test_relabel(&r.p, true, CLASSES, r.offsets, labels);
        for (uint64_t row = 0; row < ROWS; row++) {
            r.data = given;
            const labelled a = take_labelled(&r, row, weights), plain = take_labelled(&r, row, NULL);
            r.data = other;
            const labelled b = take_labelled(&r, row, moved);
            assert_memory_equal(&a, &b, sizeof a);
            assert_true(a.loss != plain.loss);
        }
        r.data = given;
    }
}

/* Against the formulas, in double. */
TEST(labels_weigh_by_formula)
{
    static const struct {
        const char *name, *options;
        bool softmax;
    } tries[] = {{"softmax", "", true},
                 {"sampled-softmax", "negatives=9", true}, /* all others are drawn */
                 {"one-vs-all", "", false},
                 {"one-vs-all-sampled", "negatives=all", false}};
    for (size_t t = 0; t < sizeof tries / sizeof *tries; t++) {
        HELD_STRUCT(test_rig, r) =
            test_rig_new(tries[t].name, tries[t].options, ROWS, FEATURES, CLASSES, 3, false, true, 0.7);
        for (uint64_t row = 0; row < ROWS; row++) {
            const float first = 2.5f, others = 0.5f;
            const labelled got = take_labels(&r, row, first, others);
            const uint32_t *labels = r.labels + r.offsets[row], count = (uint32_t)(r.offsets[row + 1] - r.offsets[row]);
            double z[CLASSES], sum = 0, loss = 0, g[CLASSES] = {0}, weight[CLASSES] = {0}, total = 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                z[k] = test_score(r.m, k, r.p.x + row * FEATURES);
                sum += exp(z[k]);
            }
            for (uint32_t j = 0; j < count; j++) {
                weight[labels[j]] = (double)(j == 0 ? first : others);
                total += weight[labels[j]];
            }
            for (uint32_t k = 0; k < CLASSES; k++) {
                bool own = false;
                for (uint32_t j = 0; j < count; j++) {
                    own = own || labels[j] == k;
                }
                if (tries[t].softmax) {
                    loss += weight[k] / count * (log(sum) - z[k]);
                    g[k] = total / count * exp(z[k]) / sum - weight[k] / count;
                } else {
                    loss += own ? weight[k] * log1p(exp(-z[k])) : log1p(exp(z[k]));
                    g[k] = own ? -weight[k] / (1 + exp(z[k])) : 1 / (1 + exp(-z[k]));
                }
            }
            assert_true(fabs(got.loss - loss) <= 1e-5 * (1 + loss));
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_true(fabs(got.g[k] - g[k]) <= 1e-5);
            }
        }
    }
}

/* With one label a row, the label's weight is the row's for every estimator that does not read it; with several, those
 * refuse by name. */
TEST(single_labels_weigh_rows)
{
    way ways[64];
    const size_t count = list_ways(ways, 64);
    for (size_t i = 0; i < count; i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, i % 2, 11);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
        HELD(xsm_estimator, e) = test_estimator(NULL, ways[i].name, ways[i].options);
        float weights[ROWS];
        for (size_t r = 0; r < ROWS; r++) {
            weights[r] = 0.5f * (float)(r % 5);
        }
        const bool reads = (xsm_estimator_find(ways[i].name)->flags & XSM_ESTIMATOR_LABEL_WEIGHTED) != 0;
        for (uint64_t row = 0; row < ROWS && !reads; row++) {
            set_label_weights(p.data, NULL);
            set_weights(p.data, weights);
            const trace by_row = take(e, m, p.data, row, NULL);
            set_label_weights(p.data, weights);
            const trace by_label = take(e, m, p.data, row, NULL);
            assert_true(same_lists(&by_row, &by_label) && same_numbers(&by_row, &by_label) &&
                        same_states(&by_row, &by_label));
        }
    }
    HELD_STRUCT(test_rig, r) = test_rig_new("margin", "", ROWS, FEATURES, CLASSES, 3, false, true, 0.7);
    float weights[64] = {0};
    weights[0] = 1;
    set_label_weights(r.data, weights);
    assert_fails(xsm_estimator_bind(r.e, r.m, r.data, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "'margin'"));
}

/* The weights of classes by their formulas, and of a file. */
TEST(classes_weigh)
{
    test_rig r = test_rig_new("softmax", "", 50, FEATURES, CLASSES, 3, false, true, 0.7);
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(r.data, &map, &err), err);
    const double labels = (double)r.offsets[50];
    double present = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        present += map.counts[k] > 0;
    }
    const char *file = test_file("class-weights", TEXT("2 0.5\n\t7\t 3 \n"));
    float given[CLASSES];
    for (uint32_t k = 0; k < CLASSES; k++) {
        given[k] = (float)k;
    }
    for (int method = XSM_CLASS_WEIGHTS_BALANCED; method <= XSM_CLASS_WEIGHTS_GIVEN + 1; method++) {
        xsm_class_weights w = XSM_CLASS_WEIGHTS_INIT;
        const bool from_file = method > XSM_CLASS_WEIGHTS_GIVEN;
        w.method = from_file ? XSM_CLASS_WEIGHTS_GIVEN : method;
        w.weights = method == XSM_CLASS_WEIGHTS_GIVEN ? given : NULL;
        w.count = w.weights ? CLASSES : 0;
        w.path = from_file ? file : NULL;
        set_label_weights(r.data, NULL);
        assert_ok(xsm_dataset_weigh_classes(r.data, &w, &err), err);
        double sum = 0;
        for (uint64_t i = 0; i < 50; i++) {
            xsm_row row = XSM_ROW_INIT;
            assert_ok(xsm_dataset_get_row(r.data, i, &row, &err), err);
            for (uint64_t j = 0; j < row.label_count; j++) {
                const uint32_t k = row.labels[j];
                const double n = (double)map.counts[k];
                const double c = (log(50) - 1) * pow(1.5 + 1, 0.55);
                const double wanted = method == XSM_CLASS_WEIGHTS_BALANCED     ? labels / (present * n)
                                      : method == XSM_CLASS_WEIGHTS_PROPENSITY ? 1 + c * exp(-0.55 * log(n + 1.5))
                                      : method == XSM_CLASS_WEIGHTS_GIVEN      ? (double)k
                                      : k == 2                                 ? 0.5
                                      : k == 7                                 ? 3
                                                                               : 1;
                assert_true(fabs((double)row.label_weights[j] - wanted) <= 1e-6 * (1 + wanted));
                sum += (double)row.label_weights[j];
            }
        }
        assert_true(method != XSM_CLASS_WEIGHTS_BALANCED || fabs(sum - labels) < 1e-4 * labels);
    }
    /* They multiply what is there. */
    xsm_class_weights again = XSM_CLASS_WEIGHTS_INIT;
    again.method = XSM_CLASS_WEIGHTS_GIVEN;
    again.path = file;
    assert_ok(xsm_dataset_weigh_classes(r.data, &again, &err), err);
    for (uint64_t i = 0; i < 50; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(r.data, i, &row, &err), err);
        for (uint64_t j = 0; j < row.label_count; j++) {
            const uint32_t k = row.labels[j];
            assert_true(row.label_weights[j] == (k == 2 ? 0.25f : k == 7 ? 9.0f : 1.0f));
        }
    }
    static const struct {
        const char *text, *message;
    } wrong[] = {{"2 0.5\n99 1\n", "line 2"}, {"2\n", "LABEL WEIGHT"},     {"2 -1\n", "LABEL WEIGHT"},
                 {"x 1\n", "no label"},       {"2 nan\n", "LABEL WEIGHT"}, {"\n", "LABEL WEIGHT"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        again.path = test_file("class-weights", wrong[i].text, strlen(wrong[i].text));
        assert_fails(xsm_dataset_weigh_classes(r.data, &again, &err), XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, wrong[i].message));
    }
    again.path = NULL;
    assert_fails(xsm_dataset_weigh_classes(r.data, &again, &err), XSM_ERROR_ARGUMENT, err);
    again.method = 0;
    assert_fails(xsm_dataset_weigh_classes(r.data, &again, &err), XSM_ERROR_RANGE, err);
    memset(given, 0, sizeof given);
    again.method = XSM_CLASS_WEIGHTS_GIVEN;
    again.weights = given;
    again.count = CLASSES - 1;
    assert_fails(xsm_dataset_weigh_classes(r.data, &again, &err), XSM_ERROR_SHAPE, err);
    again.count = CLASSES;
    assert_fails(xsm_dataset_weigh_classes(r.data, &again, &err), XSM_ERROR_DATA, err); /* all are 0 */
    given[3] = -1;
    assert_fails(xsm_dataset_weigh_classes(r.data, &again, &err), XSM_ERROR_RANGE, err);
    test_rig_free(&r);
    test_files_end();
}

/* -- refusals ------------------------------------------------------------------------------------------------------ */

static void no_gradient(void *state, const xsm_score_block *block)
{
    (void)state;
    memset(block->coefficients, 0, block->count * block->width * sizeof *block->coefficients);
    memset(block->losses, 0, block->count * sizeof *block->losses);
}

static uint64_t all_width(const void *state)
{
    (void)state;
    return 1;
}

static void own_label(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                      uint32_t *lengths)
{
    (void)state;
    for (uint64_t i = 0; i < count; i++) {
        classes[i] = examples[i].labels[0];
        lengths[i] = 1;
    }
}

/* A table with proximal steps that does not say that it reads weights gets none; bad weights are refused, and leave
 * everything as it was. */
TEST(weights_are_refused)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 3);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0.7, 5);
    xsm_estimator_ops table = {.size = sizeof table,
                               .abi = XSM_EXT_ABI_VERSION,
                               .flags = XSM_ESTIMATOR_PROXIMAL,
                               .name = "of-the-host",
                               .summary = "takes no weights",
                               .width = all_width,
                               .select = own_label,
                               .gradient = no_gradient};
    NEW(xsm_estimator, e, xsm_estimator_new_from(NULL, &table, &e, &err));
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    xsm_gradient *g = test_gradient(NULL);
    float weights[ROWS] = {1, 2, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    xsm_batch batch = xsm_batch_range(p.data, 0, 3);
    batch.weights = weights;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "of-the-host"));
    set_weights(p.data, weights);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "of-the-host"));
    table.flags |= XSM_ESTIMATOR_WEIGHTED;
    xsm_estimator_free(e);
    assert_ok(xsm_estimator_new_from(NULL, &table, &e, &err), err);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    static const float bad[] = {-1, (float)NAN, (float)INFINITY};
    for (size_t i = 0; i < 3; i++) {
        xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
        weights[2] = bad[i];
        w.rows = weights;
        w.row_count = ROWS;
        assert_fails(xsm_dataset_set_weights(p.data, &w, &err), XSM_ERROR_RANGE, err);
        assert_non_null(strstr(err.message, "weight 2"));
        assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_RANGE, err);
    }
    xsm_row row = XSM_ROW_INIT;
    assert_ok(xsm_dataset_get_row(p.data, 1, &row, &err), err);
    assert_true(row.weight == 2);
    memset(weights, 0, sizeof weights);
    set_weights(p.data, weights);
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_DATA, err);
    set_weights(p.data, NULL);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
}
