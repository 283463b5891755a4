/*
 * Tests of estimators with a sampler: gradients compared with central differences of their own losses, and means over
 * every sequence of classes that can be drawn. A scripted sampler supplies the draws.
 */
#include "training.h"

#include "estimator/estimator.h"

#include <xsoftmax/draw.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEATURES = 5, CLASSES = 4, ROWS = 8, LABEL = 2 };

/* -- a sampler that draws a script --------------------------------------------------------------------------------- */

static double script_q[CLASSES] = {0.4, 0.3, 0.2, 0.1};
static uint32_t script[8];

static xsm_status script_bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    (void)state;
    (void)problem;
    (void)err;
    return XSM_OK;
}

static void script_draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                        double *log_probabilities)
{
    (void)state;
    (void)code;
    (void)random;
    for (uint32_t j = 0; j < count; j++) {
        classes[j] = script[j];
        log_probabilities[j] = log(script_q[script[j]]);
    }
}

static double script_log_probability(const void *state, const float *code, uint32_t k)
{
    (void)state;
    (void)code;
    return log(script_q[k]);
}

static const xsm_sampler_ops script_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "script",
    .summary = "what the test says",
    .bind = script_bind,
    .draw = script_draw,
    .log_probability = script_log_probability,
};

/* An estimator with the script, a model of random weights, one row of class LABEL (and perhaps 0). */
typedef struct stage {
    test_problem p;
    xsm_dataset *data;
    xsm_model *m;
    xsm_sampler *s;
    xsm_estimator *e;
    xsm_gradient *g;
    double z[CLASSES];
} stage;

static stage stage_new(const char *name, const char *options, bool several, double size)
{
    stage t;
    xsm_error err = XSM_ERROR_INIT;
    t.p = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    static const uint64_t offsets[ROWS + 1] = {0, 2, 3, 4, 5, 6, 7, 8, 9};
    uint32_t labels[ROWS + 1] = {LABEL, 0, 1, 2, 3, 0, 1, 2, 3}, one[ROWS] = {LABEL, 1, 2, 3, 0, 1, 2, 3};
    t.data =
        several ? test_relabel(&t.p, false, CLASSES, offsets, labels) : test_relabel(&t.p, false, CLASSES, NULL, one);
    t.m = test_model(NULL, &t.p, true, XSM_LAYOUT_CLASS_MAJOR, size, 4);
    t.s = NULL;
    assert_ok(xsm_sampler_new_from(NULL, &script_ops, &t.s, &err), err);
    t.e = test_estimator(NULL, name, options);
    assert_ok(xsm_estimator_set_sampler(t.e, t.s, &err), err);
    assert_ok(xsm_estimator_bind(t.e, t.m, t.data, &err), err);
    t.g = test_gradient(NULL);
    for (uint32_t k = 0; k < CLASSES; k++) {
        t.z[k] = test_score(t.m, k, t.p.x);
    }
    return t;
}

static void stage_free(stage *t)
{
    xsm_gradient_free(t->g);
    xsm_estimator_free(t->e);
    xsm_sampler_free(t->s);
    xsm_model_free(t->m);
    xsm_dataset_free(t->data);
    test_problem_free(&t->p);
}

/* Loss and coefficients of row 0 by class. */
static double take(stage *t, double *g)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(t->data, 0, 1);
    assert_ok(xsm_estimator_gradient(t->e, &batch, 0.1, t->g, &err), err);
    xsm_gradient_view view = test_view(t->g);
    memset(g, 0, CLASSES * sizeof *g);
    for (uint32_t j = 0; j < view.lengths[0]; j++) {
        assert_true(g[view.classes[j]] == 0);
        g[view.classes[j]] = (double)view.coefficients[j];
    }
    return view.loss;
}

/* Calls `each` for every sequence of m draws; returns the mean of the loss, and of the coefficients in mean[]. */
static double over_all_draws(stage *t, uint32_t m, double *mean)
{
    double loss = 0, total = 0;
    uint32_t sequences = 1;
    memset(mean, 0, CLASSES * sizeof *mean);
    for (uint32_t j = 0; j < m; j++) {
        sequences *= CLASSES;
    }
    for (uint32_t i = 0; i < sequences; i++) {
        double weight = 1, g[CLASSES];
        for (uint32_t j = 0, rest = i; j < m; j++, rest /= CLASSES) {
            script[j] = rest % CLASSES;
            weight *= script_q[script[j]];
        }
        loss += weight * take(t, g);
        for (uint32_t k = 0; k < CLASSES; k++) {
            mean[k] += weight * g[k];
        }
        total += weight;
    }
    assert_true(fabs(total - 1) < 1e-12);
    return loss;
}

static const struct {
    const char *name, *options;
    bool several;
} methods[] = {
    {"nce", "", false},
    {"nce", "lambda=0.3", false},
    {"importance", "", false},
    {"sampled-softmax", "", false},
    {"sampled-softmax", "", true},
    {"sampled-softmax", "log-q=no", false},
    {"negative-sampling", "", false},
    {"negative-sampling", "lambda=0.3", false},
    {"ove-sampled", "", false},
};
enum { METHODS = sizeof methods / sizeof *methods };

/* -- tests --------------------------------------------------------------------------------------------------------- */

TEST(coefficients_are_slopes)
{
    static const uint32_t scripts[][4] = {{0, 1, 3, 1}, {2, 2, 2, 2}, {0, 0, 0, 0}, {3, 2, 1, 0}};
    const float h = 0x1p-7f;
    for (int i = 0; i < METHODS; i++) {
        for (int c = 0; c < 4; c++) {
            char options[64];
            snprintf(options, sizeof options, "negatives=4 %s", methods[i].options);
            stage t = stage_new(methods[i].name, options, methods[i].several, 1);
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(t.m, &w, &err), err);
            memcpy(script, scripts[c], sizeof scripts[c]);
            double g[CLASSES], none[CLASSES];
            take(&t, g);
            for (uint32_t k = 0; k < CLASSES; k++) {
                float held = w.bias[k];
                w.bias[k] = held + h;
                double step = (double)w.bias[k] - (double)held, above = take(&t, none);
                w.bias[k] = held - h;
                double below = take(&t, none);
                w.bias[k] = held;
                double slope = (above - below) / (2 * step);
                if (!(fabs(slope - g[k]) < 2e-5)) {
                    fail_msg("%s %s, draws %d: class %u: differences say %.8g, the coefficient %.8g", methods[i].name,
                             options, c, k, slope, g[k]);
                }
            }
            stage_free(&t);
        }
    }
}

/* E g_k = m q_k sigma(s_k) - [k = y] sigma(-s_y); and at z = log p, over labels from p, all of it is zero. */
TEST(nce_has_the_right_mean)
{
    for (uint32_t m = 1; m <= 4; m++) {
        char options[32];
        snprintf(options, sizeof options, "negatives=%u", m);
        stage t = stage_new("nce", options, false, 2);
        double mean[CLASSES], want_loss = 0;
        double loss = over_all_draws(&t, m, mean);
        for (uint32_t k = 0; k < CLASSES; k++) {
            double s = t.z[k] - log(m * script_q[k]);
            double want = m * script_q[k] / (1 + exp(-s)) - (k == LABEL) / (1 + exp(s));
            assert_true(fabs(mean[k] - want) < 1e-6);
            want_loss += m * script_q[k] * log1p(exp(s)) + (k == LABEL) * log1p(exp(-s));
        }
        assert_true(fabs(loss - want_loss) < 1e-5);
        stage_free(&t);
        /* consistency: at z_k = log p_k the sum over labels of p_y E g_k vanishes */
        for (uint32_t k = 0; k < CLASSES; k++) {
            double p = 0.1 + 0.1 * k; /* sums to one */
            double s = log(p) - log(m * script_q[k]);
            assert_true(fabs(m * script_q[k] / (1 + exp(-s)) - p / (1 + exp(s))) < 1e-12);
        }
    }
}

/* E g_k = q_k (sigma(z_k) + 2 lambda (z_k + log q_k)) - [k = y] (sigma(-z_y) - 2 lambda (z_y + log q_y)), for any m; at
 * z = log p - log q, over labels from p, it vanishes without lambda: Theorem 1. */
TEST(negative_sampling_has_the_right_mean)
{
    for (uint32_t m = 1; m <= 4; m++) {
        for (int kind = 0; kind < 2; kind++) {
            double lambda = kind ? 0.25 : 0, mean[CLASSES], want_loss = 0;
            char options[48];
            snprintf(options, sizeof options, "negatives=%u lambda=%g", m, lambda);
            stage t = stage_new("negative-sampling", options, false, 2);
            double loss = over_all_draws(&t, m, mean);
            for (uint32_t k = 0; k < CLASSES; k++) {
                double z = t.z[k], soft = z + log(script_q[k]);
                double want = script_q[k] * (1 / (1 + exp(-z)) + 2 * lambda * soft);
                want_loss += script_q[k] * (log1p(exp(z)) + lambda * soft * soft);
                if (k == LABEL) {
                    want += 2 * lambda * soft - 1 / (1 + exp(z));
                    want_loss += log1p(exp(-z)) + lambda * soft * soft;
                }
                assert_true(fabs(mean[k] - want) < 2e-6);
            }
            assert_true(fabs(loss - want_loss) < 1e-5);
            stage_free(&t);
        }
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        double p = 0.1 + 0.1 * k, z = log(p) - log(script_q[k]);
        assert_true(fabs(script_q[k] / (1 + exp(-z)) - p / (1 + exp(z))) < 1e-12);
    }
}

/* Theorem 2: with one row of free scores at the optimum for noise q, the signal-to-noise ratio 1/Tr(Cov H^-1) of the
 * gradient is largest for q = p. Cov and H from the estimator's own coefficients, label and draw running over all. */
static double signal_to_noise(stage *t, const double *p, double *q)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    double second[CLASSES] = {0}, first[CLASSES] = {0}, trace = 0;
    memcpy(script_q, q, sizeof script_q);
    assert_ok(xsm_model_get_parameters(t->m, &w, &err), err);
    memset(w.weight, 0, FEATURES * sizeof *w.weight * CLASSES);
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t f = 0; f < FEATURES; f++) {
            w.weight[k * w.class_step + f * w.feature_step] = 0;
        }
        w.bias[k] = (float)log(p[k] / q[k]);
    }
    for (uint64_t row = 0; row < CLASSES; row++) { /* a row of each label */
        for (uint32_t draw = 0; draw < CLASSES; draw++) {
            double g[CLASSES] = {0};
            xsm_batch batch = xsm_batch_range(t->data, row, 1);
            script[0] = draw;
            assert_ok(xsm_estimator_gradient(t->e, &batch, 0.1, t->g, &err), err);
            xsm_gradient_view view = test_view(t->g);
            for (uint32_t j = 0; j < view.lengths[0]; j++) {
                g[view.classes[j]] += (double)view.coefficients[j];
            }
            double weight = p[t->p.labels[row]] * q[draw];
            for (uint32_t k = 0; k < CLASSES; k++) {
                first[k] += weight * g[k];
                second[k] += weight * g[k] * g[k];
            }
        }
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        assert_true(fabs(first[k]) < 1e-6); /* the optimum: Theorem 1 */
        double z = log(p[k] / q[k]),
               curvature = q[k] / (1 + exp(-z)); /* eq. 13, p sigma(-z) sigma(z) + q sigma sigma */
        trace += second[k] / curvature;
    }
    return 1 / trace;
}

TEST(adversarial_noise_has_the_best_signal)
{
    double p[CLASSES] = {0.4, 0.3, 0.2, 0.1}, held[CLASSES];
    uint64_t seed = 5;
    memcpy(held, script_q, sizeof held);
    stage t = stage_new("negative-sampling", "negatives=1", false, 0);
    for (uint32_t k = 0; k < CLASSES; k++) {
        t.p.labels[k] = k;
    }
    xsm_dataset_free(t.data);
    t.data = test_relabel(&t.p, false, CLASSES, NULL, t.p.labels);
    assert_ok(xsm_estimator_bind(t.e, t.m, t.data, &err), err);
    double best = signal_to_noise(&t, p, p);
    assert_true(fabs(best - 1.0 / (CLASSES - 1)) < 1e-5); /* eq. 15 at p_n = p_D, where the sum of alpha is 1/2 */
    for (int i = 0; i < 50; i++) {
        double q[CLASSES], sum = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            sum += q[k] = 0.05 + test_uniform(&seed);
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            q[k] /= sum;
        }
        assert_true(signal_to_noise(&t, p, q) < best);
    }
    memcpy(script_q, held, sizeof held);
    stage_free(&t);
}

/* The z where the mean coefficient of a class, p (2 lambda s - sigma(-z)) + q (2 lambda s + sigma(z)) with s = z + log
 * q, is zero; it rises in z. Returns s, the softmax's score by eq. 5. */
static double penalised_score(double p, double q, double lambda)
{
    double low = -60, high = 60;
    for (int i = 0; i < 200; i++) {
        double z = (low + high) / 2, pull = 2 * lambda * (z + log(q));
        bool above = p * (pull - 1 / (1 + exp(z))) + q * (pull + 1 / (1 + exp(-z))) > 0;
        low = above ? low : z;
        high = above ? z : high;
    }
    return low + log(q);
}

/* Trained with the tree and lambda > 0, a model predicts by eq. 5: each context's scores are where eq. 6 has its
 * minimum, with log p_n(k|x) added. */
TEST(penalised_training_predicts_by_the_correction)
{
    enum { CONTEXTS = 3, MANY = 1500, WIDE = 6 };
    double share[CONTEXTS][WIDE];
    const double lambda = 0.02;
    HELD_STRUCT(test_problem, p) = test_context_problem(MANY, CONTEXTS, WIDE, share[0]);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    MADE(xsm_sampler, s, xsm_sampler_new(NULL, "tree", &s, &err));
    assert_ok(xsm_sampler_bind(s, p.data, &err), err);
    HELD(xsm_estimator, e) = test_estimator(NULL, "negative-sampling", "negatives=8 lambda=0.02");
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
    MADE(xsm_trainer, t,
         xsm_trainer_new(NULL, m, p.data, e, o,
                         STRUCT(xsm_trainer_options, .epochs = 600, .batch = 50, .eta = 4,
                                .schedule = XSM_SCHEDULE_STEP, .factor = 0.99),
                         &t, &err));
    assert_ok(xsm_trainer_run(t, &err), err);
    MADE(xsm_predictor, predictor, xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = WIDE), &predictor, &err));
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        uint64_t row = 0;
        while (p.x[row * CONTEXTS + c] == 0) {
            row++;
        }
        xsm_batch batch = xsm_batch_range(p.data, row, 1);
        float log_q[WIDE], found[WIDE];
        double probabilities[WIDE], want[WIDE], sum = 0;
        uint32_t classes[WIDE];
        assert_ok(xsm_sampler_log_probabilities(s, &batch, 0, WIDE, log_q, &err), err);
        assert_ok(test_predict(predictor, &batch, classes, found, probabilities, &err), err);
        for (uint32_t k = 0; k < WIDE; k++) {
            want[k] = penalised_score(share[c][k], exp((double)log_q[k]), lambda);
            sum += exp(want[k]);
        }
        for (uint32_t j = 0; j < WIDE; j++) {
            assert_float_equal((double)found[j], want[classes[j]], 0.06);
            assert_float_equal(probabilities[j], exp(want[classes[j]]) / sum, 0.02);
        }
    }
}

TEST(ove_sampled_is_unbiased)
{
    for (uint32_t m = 1; m <= 4; m++) {
        char options[32];
        snprintf(options, sizeof options, "negatives=%u", m);
        stage t = stage_new("ove-sampled", options, false, 2);
        double mean[CLASSES], own = 0, want_loss = 0;
        double loss = over_all_draws(&t, m, mean);
        for (uint32_t k = 0; k < CLASSES; k++) {
            double difference = t.z[k] - t.z[LABEL];
            if (k != LABEL) {
                assert_true(fabs(mean[k] - 1 / (1 + exp(-difference))) < 2e-6);
                own += 1 / (1 + exp(-difference));
                want_loss += log1p(exp(difference));
            }
        }
        assert_true(fabs(mean[LABEL] + own) < 2e-6);
        assert_true(fabs(loss - want_loss) < 1e-5);
        stage_free(&t);
    }
}

/* The estimate of the sum over all classes is unbiased: E e^(loss + z_y) = sum_j e^(z_j). */
TEST(partitions_are_unbiased)
{
    static const char *const names[] = {"importance", "sampled-softmax", "sampled-softmax"};
    for (int i = 0; i < 3; i++) {
        for (uint32_t m = 1; m <= 4; m++) {
            char options[32];
            snprintf(options, sizeof options, "negatives=%u", m);
            stage t = stage_new(names[i], options, i == 2, 2);
            double mean = 0, want = 0, target = i == 2 ? (t.z[LABEL] + t.z[0]) / 2 : t.z[LABEL];
            uint32_t sequences = 1u << (2 * m);
            for (uint32_t n = 0; n < sequences; n++) {
                double weight = 1, g[CLASSES];
                for (uint32_t j = 0; j < m; j++) {
                    script[j] = n >> (2 * j) & 3;
                    weight *= script_q[script[j]];
                }
                mean += weight * exp(take(&t, g) + target);
            }
            for (uint32_t k = 0; k < CLASSES; k++) {
                want += exp(t.z[k]);
            }
            if (!(fabs(mean - want) < 1e-5 * want)) {
                fail_msg("%s, %u draws: mean of the partition %.8g, not %.8g", names[i], m, mean, want);
            }
            stage_free(&t);
        }
    }
}

/* A label that is drawn is no negative, and a class drawn twice counts twice. */
TEST(sampled_softmax_values)
{
    for (int kind = 0; kind < 4; kind++) {
        bool several = kind & 1, log_q = kind & 2;
        stage t = stage_new("sampled-softmax", log_q ? "negatives=4" : "negatives=4 log-q=no", several, 2);
        static const uint32_t draws[4] = {3, LABEL, 3, 1};
        memcpy(script, draws, sizeof draws);
        double g[CLASSES], terms[CLASSES] = {0}, z = 0, target = 0;
        double loss = take(&t, g);
        for (uint32_t k = 0; k < CLASSES; k++) {
            bool label = k == LABEL || (several && k == 0);
            double times = k == 3 ? 2 : k == 1;
            terms[k] = label ? exp(t.z[k]) : times * exp(t.z[k]) / (log_q ? 4 * script_q[k] : 1);
            z += terms[k];
            target += label ? t.z[k] / (several ? 2 : 1) : 0;
        }
        for (uint32_t k = 0; k < CLASSES; k++) {
            bool label = k == LABEL || (several && k == 0);
            assert_true(fabs(g[k] - (terms[k] / z - (label ? 1.0 / (several ? 2 : 1) : 0))) < 1e-6);
        }
        assert_true(fabs(loss - (log(z) - target)) < 1e-5);
        stage_free(&t);
    }
}

/* With all other classes drawn, uniform sampled softmax is the exact one. */
TEST(all_negatives_make_it_exact)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    HELD(xsm_estimator, e) = test_estimator(NULL, "sampled-softmax", "negatives=99");
    HELD(xsm_estimator, exact) = test_estimator(NULL, "softmax", "");
    HELD(xsm_gradient, g) = test_gradient(NULL);
    HELD(xsm_gradient, h) = test_gradient(NULL);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    assert_ok(xsm_estimator_bind(exact, m, p.data, &err), err);
    xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    assert_ok(xsm_estimator_gradient(exact, &batch, 1, h, &err), err);
    xsm_gradient_view a = test_view(g), b = test_view(h);
    assert_true(fabs(a.loss - b.loss) < 1e-6);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(a.lengths[i], CLASSES);
        for (uint32_t j = 0; j < CLASSES; j++) {
            uint32_t k = a.classes[i * a.width + j];
            assert_true(fabs((double)a.coefficients[i * a.width + j] - (double)b.coefficients[i * b.width + k]) < 1e-7);
        }
    }
}

/* Scores of 10^4 are no reason for anything but finite numbers. */
TEST(large_scores_are_finite)
{
    for (int i = 0; i < METHODS; i++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            char options[64];
            snprintf(options, sizeof options, "negatives=4 %s", methods[i].options);
            stage t = stage_new(methods[i].name, options, methods[i].several, 1);
            xsm_parameters w = XSM_PARAMETERS_INIT;
            assert_ok(xsm_model_get_parameters(t.m, &w, &err), err);
            for (uint32_t k = 0; k < CLASSES; k++) {
                w.bias[k] = (float)(sign * (k % 2 ? 1e4 : -1e4));
            }
            for (uint32_t j = 0; j < 4; j++) {
                script[j] = j;
            }
            double g[CLASSES];
            assert_true(isfinite(take(&t, g)));
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_true(fabs(g[k]) <= (strstr(options, "lambda") ? 1e5 : 10));
            }
            stage_free(&t);
        }
    }
}

/* One class: there is nothing to learn, and nothing goes wrong. */
TEST(one_class)
{
    static const char *const samplers[] = {"sampler=uniform", "sampler=frequency"};
    for (int i = 0; i < METHODS; i++) {
        for (int s = 0; s < 2; s++) {
            HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, 1, false, 2);
            HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
            HELD(xsm_estimator, e) = test_estimator(NULL, methods[i].name, samplers[s]);
            HELD(xsm_gradient, g) = test_gradient(NULL);
            xsm_batch batch = xsm_batch_range(p.data, 0, ROWS);
            assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
            assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
            xsm_gradient_view view = test_view(g);
            for (int r = 0; r < ROWS; r++) {
                assert_int_equal(view.lengths[r], 1);
                assert_int_equal(view.classes[r * view.width], 0);
            }
        }
    }
}

/* A label's score would only rise, whichever estimator draws, and whoever made the sampler. */
TEST(labels_that_are_never_drawn_are_refused)
{
    static const double wrong[] = {0, (double)NAN, (double)INFINITY}; /* q of class 3 */
    const double right = script_q[3];
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    static const uint32_t labels[ROWS] = {0, 1, 2, 3, 0, 1, 2, 3}, fewer[ROWS] = {0, 1, 2, 2, 0, 1, 2, 2};
    HELD(xsm_dataset, all) = test_relabel(&p, false, CLASSES, NULL, labels);
    HELD(xsm_dataset, some) = test_relabel(&p, false, CLASSES, NULL, fewer);
    HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
    for (int i = 0; i < METHODS; i++) {
        HELD(xsm_estimator, e) = test_estimator(NULL, methods[i].name, "");
        for (size_t w = 0; w <= sizeof wrong / sizeof *wrong; w++) {
            const bool own = w == sizeof wrong / sizeof *wrong; /* the library's, bound to rows without class 3 */
            HELD(xsm_sampler, s) = NULL;
            assert_ok(own ? xsm_sampler_new(NULL, "frequency", &s, &err)
                          : xsm_sampler_new_from(NULL, &script_ops, &s, &err),
                      err);
            if (own) {
                assert_ok(xsm_sampler_set(s, "smoothing", "0", &err), err);
                assert_ok(xsm_sampler_bind(s, some, &err), err);
            }
            script_q[3] = own ? right : wrong[w];
            assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
            assert_fails(xsm_estimator_bind(e, m, all, &err), XSM_ERROR_RANGE, err);
            assert_non_null(strstr(err.message, own ? "sampler 'frequency' never draws class 3"
                                                    : "sampler 'script' never draws class 3"));
            script_q[3] = right;
        }
    }
    /* A class without rows need not be drawn where its probability is not asked for. */
    HELD(xsm_estimator, e) = test_estimator(NULL, "sampled-softmax", "sampler=frequency sampler.smoothing=0");
    assert_ok(xsm_estimator_bind(e, m, some, &err), err);
}

/* -- a sampler whose draws depend on the row, and are wrong -------------------------------------------------------- */

static struct {
    uint32_t class; /* what every draw is */
    double log_q, label_log_q;
} wrong;

static uint32_t coded_length(const void *state)
{
    (void)state;
    return 1;
}

static void coded_encode(const void *state, const xsm_row *row, float *code)
{
    (void)state;
    *code = row->values[0];
}

static void coded_draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                       double *log_probabilities)
{
    (void)state;
    (void)code;
    (void)random;
    for (uint32_t j = 0; j < count; j++) {
        classes[j] = wrong.class;
        log_probabilities[j] = wrong.log_q;
    }
}

static double coded_log_probability(const void *state, const float *code, uint32_t k)
{
    (void)state;
    (void)code;
    (void)k;
    return wrong.label_log_q;
}

static const xsm_sampler_ops coded_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "coded",
    .summary = "draws that cannot be",
    .bind = script_bind,
    .code_length = coded_length,
    .encode = coded_encode,
    .draw = coded_draw,
    .log_probability = coded_log_probability,
};

/* A run, of which `batch` rows are a step, on two threads and so with windows of steps. */
static xsm_status run_coded(xsm_context *ctx, xsm_estimator *e, const xsm_dataset *data, xsm_model *m, uint64_t batch,
                            xsm_error *err)
{
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_trainer, t) = NULL;
    options.epochs = 30;
    options.batch = batch;
    options.eta = 0.01;
    assert_ok(xsm_optimizer_new(ctx, "sgd", &o, err), *err);
    assert_ok(xsm_trainer_new(ctx, m, data, e, o, &options, &t, err), *err);
    return xsm_trainer_run(t, err);
}

/* At bind it would take every row with every class to find them; they are found when they are drawn. */
TEST(wrong_draws_are_refused_by_class)
{
    static const struct {
        uint32_t class;
        double q, label_q;
        const char *says; /* NULL: nothing is wrong */
    } cases[] = {{3, 0.25, 0.25, NULL},
                 {3, 0, 0.25, "gives class 3, which it drew or which is a label, log q = -inf"},
                 {3, (double)NAN, 0.25, "gives class 3, which it drew or which is a label, log q = "},
                 {3, 1.5, 0.25, "gives class 3, which it drew or which is a label, log q = 0.405"},
                 {3, (double)INFINITY, 0.25, "gives class 3, which it drew or which is a label, log q = inf"},
                 {CLASSES, 0.25, 0.25, "draws class 4; classes are below 4"},
                 {UINT32_MAX, 0.25, 0.25, "draws class 4294967295; classes are below 4"},
                 {3, 0.25, 0, "gives class 2, which it drew or which is a label, log q = -inf"},
                 {3, 0.25, (double)NAN, "gives class 2, which it drew or which is a label, log q = "}};
    MADE(xsm_context, ctx, xsm_context_new(STRUCT(xsm_context_options, .threads = 2), &ctx, &err));
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 2);
    static const uint32_t labels[ROWS] = {LABEL, LABEL, LABEL, LABEL, LABEL, LABEL, LABEL, LABEL};
    HELD(xsm_dataset, data) = test_relabel(&p, false, CLASSES, NULL, labels);
    const xsm_batch one = xsm_batch_range(data, 5, 1), all = xsm_batch_range(data, 0, ROWS);
    uint32_t drawn[ROWS * 3];
    uint64_t tried = 0, asked = 0; /* estimators; those that ask for the labels' probabilities */
    for (int i = 0; i < METHODS; i++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const bool of_label = !(cases[c].label_q > 0);
            wrong.class = cases[c].class;
            wrong.log_q = log(cases[c].q);
            wrong.label_log_q = log(cases[c].label_q);
            HELD(xsm_estimator, e) = test_estimator(ctx, methods[i].name, methods[i].options);
            HELD(xsm_model, m) = test_model(ctx, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 4);
            HELD(xsm_gradient, g) = test_gradient(ctx);
            MADE(xsm_sampler, s, xsm_sampler_new_from(ctx, &coded_ops, &s, &err));
            assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
            const xsm_status bound = xsm_estimator_bind(e, m, data, &err);
            if (bound == XSM_OK) {
                const xsm_status status = xsm_estimator_gradient(e, &one, 0.1, g, &err);
                const bool refused = cases[c].says && !(of_label && status == XSM_OK);
                tried += c == 0;
                asked += of_label && refused;
                for (uint64_t batch = 0; batch <= ROWS; batch = batch ? 2 * batch : 1) { /* 0: a gradient */
                    const xsm_status got =
                        batch ? run_coded(ctx, e, data, m, batch, &err) : xsm_estimator_gradient(e, &all, 0.1, g, &err);
                    if (refused) {
                        assert_fails(got, XSM_ERROR_RANGE, err);
                        assert_non_null(strstr(err.message, cases[c].says));
                    } else {
                        assert_ok(got, err);
                    }
                    for (uint32_t k = 0; k < CLASSES; k++) {
                        assert_true(isfinite(test_score(m, k, p.x)));
                    }
                }
                const xsm_draw draw = {
                    .size = sizeof draw, .batch = &all, .count = 3, .classes = drawn, .log_probabilities = NULL};
                const xsm_status got = xsm_sampler_draw(s, &draw, &err);
                if (cases[c].says && !of_label) {
                    assert_fails(got, XSM_ERROR_RANGE, err);
                    assert_non_null(strstr(err.message, cases[c].says));
                } else {
                    assert_ok(got, err);
                }
            } else {
                assert_fails(bound, XSM_ERROR_UNSUPPORTED, err); /* a correction by a table that cannot be saved */
            }
        }
    }
    assert_true(tried >= 6 && asked >= 4);
}
