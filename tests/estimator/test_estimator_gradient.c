/*
 * Tests of score gradients: central differences of the estimator's own loss, the mean over all sets of classes that
 * can be drawn, the scale of a batch, several labels.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "methods/double_sum.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEATURES = 5, CLASSES = 6, ROWS = 8 };

/* What the double-sum estimators' u are set to before each gradient; NaN leaves them. */
static double held_u = NAN;

static double *u_of(xsm_estimator *e)
{
    return ((xsmi_double_sum *)e->state)->u;
}

static double loss_of(xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch)
{
    xsm_error err = XSM_ERROR_INIT;
    for (uint64_t i = 0; !isnan(held_u) && i < e->train->rows; i++) {
        u_of(e)[i] = held_u;
    }
    assert_ok(xsm_estimator_gradient(e, batch, 0.1, g, &err), err);
    return test_view(g).loss;
}

/* Multi-label targets of the rows, and how many. */
static const uint64_t several_offsets[ROWS + 1] = {0, 1, 3, 4, 8, 9, 11, 12, 13};
static const uint32_t several[13] = {3, 0, 5, 1, 5, 4, 2, 0, 2, 1, 3, 4, 0};

/* d loss / d b_k against the sum of the coefficients of class k, d loss / d w_kj against that of g x_j. */
static void check_differences(const char *name, const char *options, bool multi, bool sparse, uint64_t n)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, sparse, 2);
    xsm_dataset *data = multi ? test_relabel(&p, sparse, CLASSES, several_offsets, several) : p.data;
    xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    xsm_estimator *e = test_estimator(NULL, name, options);
    assert_ok(xsm_estimator_bind(e, m, data, &err), err);
    xsm_gradient *g = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(data, 1, n);
    loss_of(e, g, &batch);
    xsm_gradient_view view = test_view(g);
    double want[CLASSES][FEATURES + 1] = {{0}};
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < (view.lengths ? view.lengths[i] : CLASSES); j++) {
            uint32_t k = view.classes ? view.classes[i * view.width + j] : j;
            double c = (double)view.coefficients[i * view.width + j];
            for (uint32_t f = 0; f < FEATURES; f++) {
                want[k][f] += c * (double)p.x[(1 + i) * FEATURES + f];
            }
            want[k][FEATURES] += c;
        }
    }
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    const float h = 0x1p-7f;
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t f = 0; f <= FEATURES; f++) {
            float *at = f < FEATURES ? &w.weight[k * w.class_step + f * w.feature_step] : &w.bias[k];
            float held = *at;
            double loss[4];
            static const float steps[4] = {-2, -1, 1, 2};
            volatile float moved[4];
            for (int s = 0; s < 4; s++) {
                moved[s] = *at = held + steps[s] * h;
                loss[s] = loss_of(e, g, &batch);
            }
            *at = held;
            double slope =
                (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (6 * ((double)moved[2] - (double)moved[1]));
            if (!(fabs(slope - want[k][f]) <= 3e-5 * (1 + fabs(slope)))) {
                fail_msg("%s %s, batch %llu: class %u feature %u: differences say %.8g, the gradient %.8g", name,
                         options, (unsigned long long)n, k, f, slope, want[k][f]);
            }
        }
    }
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    xsm_model_free(m);
    if (multi) {
        xsm_dataset_free(data);
    }
}

TEST(softmax_is_the_gradient_of_its_loss)
{
    for (int kind = 0; kind < 4; kind++) {
        check_differences("softmax", "", kind & 1, kind & 2, 1);
        check_differences("softmax", "", kind & 1, kind & 2, 6);
    }
}

TEST(bouchard_is_the_gradient_of_its_loss)
{
    for (int kind = 0; kind < 4; kind++) {
        check_differences("bouchard", "", kind & 1, kind & 2, 1);
        check_differences("bouchard", "", kind & 1, kind & 2, 6);
    }
}

TEST(ove_is_the_gradient_of_its_loss)
{
    check_differences("ove", "negatives=5", false, false, 1);
    check_differences("ove", "negatives=5", false, true, 6);
}

/* The estimators with a u: in the weights as above; and u moves by -eta/n of the loss's slope in u. */
TEST(double_sums_are_the_gradients_of_their_losses)
{
    static const char *const kinds[][2] = {
        {"vanilla", "negatives=5"}, {"raman", "negatives=5"}, {"umax", "negatives=5 delta=100"}};
    const double eta = 1e-3, h = 1e-4;
    for (int k = 0; k < 3; k++) {
        for (int kind = 0; kind < 4; kind++) {
            held_u = 0.75 + kind;
            check_differences(kinds[k][0], kinds[k][1], false, kind & 1, kind & 2 ? 6 : 1);
        }
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
        HELD(xsm_estimator, e) = test_estimator(NULL, kinds[k][0], kinds[k][1]);
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        for (uint64_t i = 0; i < ROWS; i++) {
            xsm_batch batch = xsm_batch_range(p.data, i, 1), whole = xsm_batch_range(p.data, 0, ROWS);
            double u = 0.5 + 0.25 * (double)i;
            held_u = u + h;
            double slope = loss_of(e, g, &batch);
            held_u = u - h;
            slope = (slope - loss_of(e, g, &batch)) / (2 * h);
            u_of(e)[i] = held_u = u;
            assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
            assert_true(fabs((u - u_of(e)[i]) / eta - slope) <= 1e-5 * (1 + fabs(slope)));
            u_of(e)[i] = u;
            assert_ok(xsm_estimator_gradient(e, &whole, eta, g, &err), err);
            assert_true(fabs((u - u_of(e)[i]) / eta * ROWS - slope) <= 1e-5 * (1 + fabs(slope)));
        }
        held_u = NAN;
    }
}

/* -- values ------------------------------------------------------------------------------------------------------- */

TEST(softmax_values)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_dataset, data) = test_relabel(&p, false, CLASSES, several_offsets, several);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 2, 4);
    HELD(xsm_estimator, e) = test_estimator(NULL, "softmax", "");
    assert_ok(xsm_estimator_bind(e, m, data, &err), err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(data, 0, ROWS);
    double loss = loss_of(e, g, &batch), sum_loss = 0;
    xsm_gradient_view view = test_view(g);
    for (uint64_t i = 0; i < ROWS; i++) {
        double z[CLASSES], sum = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            z[k] = test_score(m, k, p.x + i * FEATURES);
            sum += exp(z[k]);
        }
        double share = 1 / (double)(several_offsets[i + 1] - several_offsets[i]);
        for (uint32_t k = 0; k < CLASSES; k++) {
            double want = exp(z[k]) / sum;
            for (uint64_t j = several_offsets[i]; j < several_offsets[i + 1]; j++) {
                want -= several[j] == k ? share : 0;
            }
            assert_true(fabs((double)view.coefficients[i * view.width + k] - want / ROWS) < 3e-7);
        }
        for (uint64_t j = several_offsets[i]; j < several_offsets[i + 1]; j++) {
            sum_loss += share * (log(sum) - z[several[j]]);
        }
    }
    assert_true(fabs(loss - sum_loss / ROWS) < 1e-6);
    assert_true(view.decay == 1);
}

/* -- sampled gradients: their mean over every set of m classes ----------------------------------------------------- */

/* Asks a table for the coefficients of one example of class 2 against the classes of `set`. */
static double coefficients_of_set(xsm_estimator *e, uint32_t set, const float *z, double u, float *out)
{
    float g[CLASSES];
    uint32_t classes[CLASSES] = {2}, label = 2, length = 1;
    for (uint32_t k = 0; k < CLASSES; k++) {
        out[k] = 0;
        if (set >> k & 1) {
            classes[length++] = k;
        }
    }
    xsm_example example = {0, 0, &label, 1, 1};
    if (u >= 0) {
        ((xsmi_double_sum *)e->state)->u[0] = u;
    }
    const double loss = test_ask(e, &example, length, classes, z, 1e-3, g);
    for (uint32_t j = 0; j < length; j++) {
        out[classes[j]] = g[j];
    }
    return loss;
}

static uint32_t bits(uint32_t set)
{
    return set ? (set & 1) + bits(set >> 1) : 0;
}

/* u < 0: an estimator without one. */
static void mean_over_sets(const char *name, uint32_t negatives, double u, const float *z, double *mean, double *loss)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    char options[64];
    snprintf(options, sizeof options, "negatives=%u", negatives);
    HELD(xsm_estimator, e) = test_estimator(NULL, name, options);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    uint32_t sets = 0;
    memset(mean, 0, CLASSES * sizeof *mean);
    *loss = 0;
    for (uint32_t set = 0; set < 1u << CLASSES; set++) {
        if (bits(set) == negatives && !(set >> 2 & 1)) {
            float g[CLASSES];
            *loss += coefficients_of_set(e, set, z, u, g);
            for (uint32_t k = 0; k < CLASSES; k++) {
                mean[k] += (double)g[k];
            }
            sets++;
        }
    }
    static const uint32_t binomial[] = {1, 5, 10, 10, 5, 1};
    assert_int_equal(sets, binomial[negatives]);
    for (uint32_t k = 0; k < CLASSES; k++) {
        mean[k] /= sets;
    }
    *loss /= sets;
}

static const float some_scores[CLASSES] = {0.5f, -1.25f, 0.75f, 2, -3, 0.125f};

TEST(ove_is_unbiased)
{
    double full = 0, loss_full = 0;
    double z_y = (double)some_scores[2];
    for (uint32_t k = 0; k < CLASSES; k++) {
        full += k == 2 ? 0 : 1 / (1 + exp(z_y - (double)some_scores[k]));
        loss_full += k == 2 ? 0 : log(1 + exp((double)some_scores[k] - z_y));
    }
    for (uint32_t m = 1; m < CLASSES; m++) {
        double mean[CLASSES], loss;
        mean_over_sets("ove", m, -1, some_scores, mean, &loss);
        for (uint32_t k = 0; k < CLASSES; k++) {
            double want = k == 2 ? -full : 1 / (1 + exp(z_y - (double)some_scores[k]));
            assert_true(fabs(mean[k] - want) < 1e-6);
        }
        assert_true(fabs(loss - loss_full) < 1e-6);
    }
}

/* And so is the step of u, which is linear in the sampled sum as the loss is. */
TEST(double_sums_are_unbiased_at_their_u)
{
    static const char *const names[] = {"umax", "vanilla", "raman"};
    double u = 2.5; /* above every bound: not raised */
    for (int n = 0; n < 3; n++) {
        double z_y = (double)some_scores[2], from = n == 2 ? 0 : z_y, full = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            full += k == 2 ? 0 : exp((double)some_scores[k] - from - u);
        }
        double own = n == 2 ? exp(z_y - u) : 0;
        double want_loss = n == 2 ? u - z_y + own + full - 1 : u + exp(-u) + full - 1;
        for (uint32_t m = 1; m < CLASSES; m++) {
            double mean[CLASSES], loss;
            mean_over_sets(names[n], m, u, some_scores, mean, &loss);
            for (uint32_t k = 0; k < CLASSES; k++) {
                double want = exp((double)some_scores[k] - from - u);
                want = k != 2 ? want : n == 2 ? own - 1 : -full;
                assert_true(fabs(mean[k] - want) < 1e-6);
            }
            assert_true(fabs(loss - want_loss) < 1e-6);
        }
    }
}

/* The least of the double sum over u is the log-loss of all classes. */
TEST(least_over_u_is_the_log_loss)
{
    static const char *const names[] = {"umax", "vanilla", "raman"};
    for (int n = 0; n < 3; n++) {
        double size = 1;
        for (int scale = 0; scale < 4; scale++, size *= 4) {
            float z[CLASSES];
            double sum = 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                z[k] = (float)size * some_scores[k];
                sum += exp((double)z[k]);
            }
            double best = log(sum) - (n == 2 ? 0 : (double)z[2]), at = log(sum) - (double)z[2];
            for (int step = -20; step <= 20; step++) {
                double u = best + step * 0.05, mean[CLASSES], loss;
                if (n < 2 && u < 0) {
                    continue;
                }
                mean_over_sets(names[n], CLASSES - 1, u, z, mean, &loss);
                assert_true(loss >= at - 1e-6 * (1 + at));
                assert_true(step != 0 || fabs(loss - at) <= 1e-6 * (1 + at));
            }
        }
    }
}

/* What is drawn is each set equally often, and never the label. */
TEST(sets_are_drawn_alike)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    static const char *const names[] = {"ove", "umax", "implicit", "vanilla", "raman"};
    for (int n = 0; n < 5; n++) {
        HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, names[n], "negatives=2 seed=12");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        uint32_t seen[1 << CLASSES] = {0};
        enum { DRAWS = 20000 };
        for (int i = 0; i < DRAWS; i++) {
            xsm_batch batch = xsm_batch_range(p.data, 3, 1);
            loss_of(e, g, &batch);
            xsm_gradient_view view = test_view(g);
            assert_int_equal(view.classes[0], p.labels[3]);
            seen[1u << view.classes[1] | 1u << view.classes[2]]++;
        }
        double chi = 0;
        for (uint32_t set = 0; set < 1u << CLASSES; set++) {
            bool possible = bits(set) == 2 && !(set >> p.labels[3] & 1);
            assert_true(possible || seen[set] == 0);
            double off = seen[set] - DRAWS / 10.0;
            chi += possible ? off * off / (DRAWS / 10.0) : 0;
        }
        assert_true(chi < 33.7); /* 9 degrees of freedom, one in ten thousand */
    }
}

/* -- u-max -------------------------------------------------------------------------------------------------------- */

TEST(umax_raises_u_when_it_must)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, false, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "umax", "negatives=2 delta=0.5");
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    double *u = ((xsmi_double_sum *)e->state)->u;
    const double eta = 1e-3; /* of coefficients_of_set() */
    uint64_t seed = 6;
    for (int i = 0; i < 3000; i++) {
        float z[CLASSES], g[CLASSES];
        double reach = i < 1000 ? 3 : i < 2000 ? 100 : 10000;
        for (uint32_t k = 0; k < CLASSES; k++) {
            z[k] = (float)(reach * (2 * test_uniform(&seed) - 1));
        }
        double a = (double)z[4] - (double)z[2], b = (double)z[5] - (double)z[2], most = fmax(0, fmax(a, b));
        double bound = most + log(exp(-most) + exp(a - most) + exp(b - most));
        double old = fmax(0, bound + 2 * test_uniform(&seed) - 1);
        coefficients_of_set(e, 1 << 4 | 1 << 5, z, old, g);
        double used = old < bound - 0.5 ? bound : old, sum = 0;
        for (uint32_t k = 4; k < 6; k++) {
            double want = 2.5 * exp((double)z[k] - (double)z[2] - used);
            assert_true(fabs((double)g[k] - want) <= 1e-6 * want + 1e-38);
            assert_true((double)g[k] <= 2.5 * exp(0.5) * (1 + 1e-6));
            sum += want;
        }
        assert_true(fabs((double)g[2] + sum) <= 1e-6 * sum + 1e-38);
        double next = fmax(0, used - eta * (1 - exp(-used) - sum));
        assert_true(fabs(u[0] - next) <= 1e-12 * (1 + next));
    }
}

/* Through the whole library, from weights that want large steps. */
TEST(umax_coefficients_are_bounded)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(200, FEATURES, 50, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 20, 8);
    HELD(xsm_estimator, e) = test_estimator(NULL, "umax", "negatives=7");
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    for (uint64_t i = 0; i < 200; i++) {
        xsm_batch batch = xsm_batch_range(p.data, i, 1);
        loss_of(e, g, &batch);
        xsm_gradient_view view = test_view(g);
        for (uint32_t j = 1; j < 8; j++) {
            assert_true(view.coefficients[j] >= 0 && (double)view.coefficients[j] <= 7 * exp(1) * (1 + 1e-6));
        }
    }
}

/* -- scale -------------------------------------------------------------------------------------------------------- */

/* A batch of n gives the n-th part of what its examples give one by one, and the mean of their losses. */
TEST(batches_are_means)
{
    static const char *const names[] = {"softmax", "ove", "umax", "vanilla", "raman"};
    enum { MANY = 150 }; /* more than one chunk */
    HELD_STRUCT(test_problem, p) = test_problem_new(MANY, FEATURES, CLASSES, false, 2);
    for (int n = 0; n < 5; n++) {
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
        HELD(xsm_estimator, batched) = test_estimator(NULL, names[n], n ? "negatives=3" : "");
        HELD(xsm_estimator, single) = test_estimator(NULL, names[n], n ? "negatives=3" : "");
        assert_ok(xsm_estimator_bind(batched, m, p.data, &err), err);
        assert_ok(xsm_estimator_bind(single, m, p.data, &err), err);
        HELD(xsm_gradient, g) = test_gradient(NULL);
        HELD(xsm_gradient, one) = test_gradient(NULL);
        xsm_batch batch = xsm_batch_range(p.data, 0, MANY);
        double loss = loss_of(batched, g, &batch), sum = 0;
        xsm_gradient_view view = test_view(g);
        for (uint64_t i = 0; i < MANY; i++) {
            xsm_batch row = xsm_batch_range(p.data, i, 1);
            sum += loss_of(single, one, &row);
            xsm_gradient_view alone = test_view(one);
            assert_int_equal(alone.width, view.width);
            for (uint64_t j = 0; j < view.width; j++) {
                assert_true(!view.classes || view.classes[i * view.width + j] == alone.classes[j]);
                double want = (double)alone.coefficients[j] / MANY;
                assert_true(fabs((double)view.coefficients[i * view.width + j] - want) <= 2e-7 * fabs(want));
            }
        }
        assert_true(fabs(loss - sum / MANY) < 1e-12 * fabs(loss));
        if (n == 2) { /* u takes its part of the batch's step, too */
            double *u = ((xsmi_double_sum *)batched->state)->u, *v = ((xsmi_double_sum *)single->state)->u;
            for (uint64_t i = 0; i < MANY; i++) {
                double base = v[i]; /* u + (1/n)(v - u) for the raised u: within the whole step of each other */
                assert_true(u[i] >= 0 && fabs(u[i] - base) <= 0.1 * (1 + 5 * exp(1)));
            }
        }
    }
}
