/*
 * Tests of models without features: z_k = b_k alone (the non-parametric case of Titsias 2016). Their optima are known
 * in closed form; all functions on models are called with them.
 */
#include "training.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/train.h>
#include <xsoftmax/trainer.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 20 };

/* Rows without features, counts[k] of class k, in turn. */
static test_problem counted(const uint32_t *counts, uint32_t classes, bool sparse)
{
    xsm_error err = XSM_ERROR_INIT;
    uint32_t labels[4096], rows = 0, left[MOST];
    memcpy(left, counts, classes * sizeof *left);
    for (bool any = true; any;) {
        any = false;
        for (uint32_t k = 0; k < classes; k++) {
            if (left[k] > 0) {
                left[k]--;
                labels[rows++] = k;
                any = true;
            }
        }
    }
    test_problem p = {.rows = rows, .features = 0, .classes = classes};
    xsm_labels given = {sizeof given, classes, 0, NULL, labels, NULL};
    static const uint64_t offsets[4097];
    if (sparse) {
        assert_ok(xsm_dataset_from_csr(
                      NULL, STRUCT(xsm_csr_rows, .offsets = offsets, .rows = rows, .features = 0, .labels = &given),
                      &p.data, &err),
                  err);
    } else {
        assert_ok(xsm_dataset_from_dense(
                      NULL, STRUCT(xsm_dense_rows, .values = NULL, .rows = rows, .features = 0, .labels = &given),
                      &p.data, &err),
                  err);
    }
    return p;
}

static void fit(xsm_model *m, const test_problem *p, const char *estimator, const char *options)
{
    if (!test_has_lbfgs()) {
        skip();
    }
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_estimator, e) = test_estimator(NULL, estimator, options);
    xsm_fit_options how = XSM_FIT_OPTIONS_INIT;
    how.tolerance = 1e-12;
    assert_ok(xsm_fit_full_batch(NULL, m, p->data, e, &how, NULL, &err), err);
}

/* b_k - b_0 against slope * log(N_k/N_0). */
static void check_logs(const xsm_model *m, const uint32_t *counts, double slope, double close)
{
    for (uint32_t k = 1; k < m->classes; k++) {
        double want = slope * log((double)counts[k] / counts[0]), is = test_bias(m, k) - test_bias(m, 0);
        if (!(fabs(is - want) <= close)) {
            fail_msg("class %u: %.6f instead of %.6f", k, is, want);
        }
    }
}

static const uint32_t some_counts[] = {120, 3, 40, 77, 1, 12, 200};

/* Propositions 1 and 2: the maximum likelihood and one-vs-each have the same optimum, z_k = log N_k + const. (The
 * tighter bounds with 1 < |C| < K between them do not: at that point the slope of a class k in C is N_k sum_{m not in
 * C} N_m (1/(N_C + N_m) - 1/(N_k + N_m)), which is 0 only where C = {k}.) */
TEST(one_vs_each_finds_the_frequencies)
{
    static const char *const kinds[][2] = {{"softmax", ""},
                                           {"ove", "negatives=all"},
                                           {"ove", "negatives=all tight=1"},
                                           {"ove", "negatives=all tight=all"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (int sparse = 0; sparse < 2; sparse++) {
            HELD_STRUCT(test_problem, p) = counted(some_counts, 7, sparse);
            HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
            fit(m, &p, kinds[i][0], kinds[i][1]);
            check_logs(m, some_counts, 1, 5e-3);
        }
    }
}

/* Proposition 3: with two classes Bouchard's bound has its optimum at z_k = 2 log N_k + const, twice too far apart. */
TEST(bouchard_doubles_two_classes)
{
    static const uint32_t counts[][2] = {{10, 10}, {30, 10}, {7, 200}, {1, 400}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        HELD_STRUCT(test_problem, p) = counted(counts[i], 2, false);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        fit(m, &p, "bouchard", "");
        check_logs(m, counts[i], 2, 5e-3);
    }
}

/* The sampled ways there, as far as steps that do not end can be from it. */
TEST(sampled_steps_get_there)
{
    static const uint32_t counts[] = {120, 30, 40, 77, 200};
    static const char *const kinds[][2] = {{"ove", "negatives=2"}, {"implicit", "negatives=2"}, {"softmax", ""}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        HELD_STRUCT(test_problem, p) = counted(counts, 5, false);
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        HELD(xsm_estimator, e) = test_estimator(NULL, kinds[i][0], kinds[i][1]);
        HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
        MADE(xsm_trainer, t,
             xsm_trainer_new(NULL, m, p.data, e, o,
                             STRUCT(xsm_trainer_options, .epochs = 300, .eta = 3, .schedule = XSM_SCHEDULE_INVERSE), &t,
                             &err));
        assert_ok(xsm_trainer_run(t, &err), err);
        check_logs(m, counts, 1, 0.08);
    }
}

/* Every estimator, one row a step and several, dense and sparse rows: it trains and what it leaves can be used. */
TEST(every_estimator_trains)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const char *name = xsm_estimator_at(i)->name;
        for (int kind = 0; kind < 4; kind++) {
            HELD_STRUCT(test_problem, p) = counted(some_counts, 7, kind & 1);
            HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
            HELD(xsm_estimator, e) = test_estimator(NULL, name, "ridge=0.5");
            HELD(xsm_optimizer, o) = test_optimizer(NULL, m);
            MADE(xsm_trainer, t,
                 xsm_trainer_new(NULL, m, p.data, e, o,
                                 STRUCT(xsm_trainer_options, .epochs = 2, .eta = 0.01, .batch = kind & 2 ? 70 : 1,
                                        .test = p.data, .evaluate_every = 1, .evaluate_train = XSM_EVALUATE_ALL),
                                 &t, &err));
            uint64_t before = test_hash(m);
            assert_ok(xsm_trainer_run(t, &err), err);
            assert_true(test_hash(m) != before);
            xsm_metrics metrics = XSM_METRICS_INIT;
            assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
            assert_true(metrics.rows == p.rows && isfinite(metrics.log_loss));
        }
    }
}

/* Scores, the best classes, evaluation, both layouts, a file and back. */
TEST(models_are_used_and_saved)
{
    const char *path = test_path("bias-only.safetensors");
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = counted(some_counts, 7, sparse);
        double total = 0, entropy = 0;
        float bias[7];
        for (int k = 0; k < 7; k++) {
            total += some_counts[k];
        }
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
        xsm_parameters w = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(m, &w, &err), err);
        assert_true(w.features == 0 && w.classes == 7 && w.weight && w.bias);
        for (int k = 0; k < 7; k++) {
            w.bias[k] = bias[k] = (float)log(some_counts[k]);
            entropy -= some_counts[k] / total * log(some_counts[k] / total);
        }
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, loaded, xsm_model_load(NULL, path, NULL, NULL, &loaded, &err));
        assert_int_equal(xsm_model_feature_count(loaded), 0);
        xsm_model *models[2] = {m, loaded};
        for (int kind = 0; kind < 8; kind++) {
            xsm_model *of = models[kind & 1];
            assert_ok(xsm_model_set_layout(of, kind & 2 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, &err),
                      err);
            xsm_batch batch = xsm_batch_range(p.data, 5, 2);
            float scores[14], chosen[2];
            static const uint32_t wanted[] = {3, 6};
            assert_ok(xsm_model_score_range(of, &batch, 0, 7, scores, 7, &err), err);
            assert_ok(xsm_model_scores(of, &batch, wanted, 1, chosen, &err), err);
            for (int k = 0; k < 14; k++) {
                assert_true(scores[k] == bias[k % 7]);
            }
            assert_true(chosen[0] == bias[3] && chosen[1] == bias[6]);
            xsm_metrics metrics = XSM_METRICS_INIT;
            assert_ok(xsm_evaluate(NULL, of, p.data, NULL, &metrics, &err), err);
            assert_true(fabs(metrics.log_loss - entropy) < 1e-6);
            assert_true(fabs(metrics.error - (1 - 200 / total)) < 1e-12);
            xsm_predictor_options two = XSM_PREDICTOR_OPTIONS_INIT;
            two.top = 2;
            uint32_t best[4];
            MADE(xsm_predictor, predictor, xsm_predictor_new(of, &two, &predictor, &err));
            assert_ok(test_predict(predictor, &batch, best, NULL, NULL, &err), err);
            assert_true(best[0] == 6 && best[1] == 0 && best[2] == 6 && best[3] == 0);
        }
    }
    test_files_end();
}

/* truncate=0 makes rows without features, and a model keeps it for those to come. */
/* A transform of rows without features has nothing to do, and a model has none then. */
TEST(transforms_of_no_features_are_fitted)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        test_problem p = counted(some_counts, 7, sparse);
        xsm_model *m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 2), *trained = NULL;
        assert_ok(xsm_train(NULL, p.data, NULL, &trained, NULL, &err), err);
        assert_ok(xsm_evaluate(NULL, trained, p.data, NULL, &(xsm_metrics)XSM_METRICS_INIT, &err), err);
        xsm_model_free(trained);
        test_problem_free(&p);
        p = counted(some_counts, 7, sparse);
        NEW(xsm_transform, t, xsm_transform_new(NULL, "log,tfidf,standard,unit", &t, &err));
        assert_fails(xsm_model_set_transform(m, t, &err), XSM_ERROR_STATE, err);
        assert_fails(xsm_transform_apply(t, p.data, &err), XSM_ERROR_STATE, err);
        assert_ok(xsm_transform_fit(t, p.data, &err), err);
        assert_ok(xsm_model_set_transform(m, t, &err), err);
        assert_string_equal(test_model_info(m).transform, "");
        assert_ok(xsm_transform_apply(t, p.data, &err), err);
        xsm_model_free(m);
        xsm_transform_free(t);
        test_problem_free(&p);
    }
}

TEST(truncation_takes_every_feature)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(30, 4, 3, sparse, 1);
        HELD(xsm_dataset, other) = test_relabel(&p, sparse, 3, NULL, p.labels);
        MADE(xsm_transform, none, xsm_transform_new(NULL, "truncate=0", &none, &err));
        assert_string_equal(xsmi_transform_description(none), "truncate=0");
        assert_ok(xsm_transform_fit(none, p.data, &err), err);
        assert_ok(xsm_transform_apply(none, p.data, &err), err);
        xsm_dataset_info info = XSM_DATASET_INFO_INIT;
        assert_ok(xsm_dataset_get_info(p.data, &info, &err), err);
        assert_true(info.features == 0 && info.values == 0 && info.rows == 30 && info.empty == 30);
        p.features = 0;
        HELD(xsm_model, m) = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 1, 2);
        assert_ok(xsm_model_set_transform(m, none, &err), err);
        assert_int_equal(test_model_info(m).input_features, 4);
        assert_ok(xsm_model_transform(m, other, &err), err);
        xsm_metrics metrics = XSM_METRICS_INIT;
        assert_ok(xsm_evaluate(NULL, m, other, NULL, &metrics, &err), err);
    }
}

TEST(what_cannot_be)
{
    HELD(xsm_model, m) = NULL;
    assert_fails(xsm_model_new_linear(NULL, 0, 4, NULL, &m, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "0 with a bias"));
    static const uint64_t offsets[] = {0, 0, 1};
    static const uint32_t index[] = {0}, labels[] = {0, 1};
    static const float values[] = {1};
    xsm_labels given = {sizeof given, 2, 0, NULL, labels, NULL};
    xsm_dataset *d = NULL;
    assert_fails(xsm_dataset_from_csr(NULL,
                                      STRUCT(xsm_csr_rows, .offsets = offsets, .index = index, .values = values,
                                             .rows = 2, .features = 0, .labels = &given),
                                      &d, &err),
                 XSM_ERROR_RANGE, err);
    assert_fails(
        xsm_dataset_from_dense(NULL, STRUCT(xsm_dense_rows, .values = NULL, .rows = 0, .features = 0, .labels = &given),
                               &d, &err),
        XSM_ERROR_ARGUMENT, err);
    assert_null(m);
    assert_null(d);
    /* A sampler that looks at features says so. */
    HELD_STRUCT(test_problem, p) = counted(some_counts, 7, false);
    m = test_model(NULL, &p, true, XSM_LAYOUT_CLASS_MAJOR, 0, 0);
    HELD(xsm_estimator, e) = test_estimator(NULL, "nce", "sampler=tree");
    assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "the rows have none"));
}
