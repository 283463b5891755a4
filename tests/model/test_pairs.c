/*
 * Tests of counted pairs of a feature and a class: their values, that every function that scores includes them, saving
 * and loading, and refused combinations.
 */
#include "training.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/index.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/predict.h>

#include "model/model_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More classes than a tile of either kind, rows for some blocks, some features below 0. */
enum { ROWS = 300, FEATURES = 25, CLASSES = 700, HIDDEN = 8, SOME = 70 };
#define STRENGTH 2.5

/* Labels follow the row's first features, so that some pairs are frequent. */
static test_problem problem(void)
{
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, true, 3);
    for (uint32_t i = 0; i < ROWS; i++) {
        p.labels[i] = i % 2 ? p.labels[i] : i % 26 * 27;
    }
    xsm_dataset_free(p.data);
    p.data = test_relabel(&p, true, CLASSES, NULL, p.labels);
    return p;
}

/* v_jk by its definition, over rows with the labels offsets[i]..offsets[i+1] of a list, or one each (NULL). */
static double pair(const test_problem *p, const uint64_t *offsets, const uint32_t *labels, uint32_t j, uint32_t k)
{
    double with = 0, all = 0, rows = 0, total = 0;
    for (uint64_t i = 0; i < p->rows; i++) {
        const double x = (double)p->x[i * p->features + j];
        for (uint64_t l = offsets ? offsets[i] : i; l < (offsets ? offsets[i + 1] : i + 1); l++) {
            total++;
            rows += labels[l] == k;
            with += x > 0 && labels[l] == k ? x : 0;
            all += x > 0 ? x : 0;
        }
    }
    return with > 0 ? STRENGTH * log(1 + 4 * (with / (1 + all)) / (p->classes * (rows / total))) : 0;
}

static xsm_model *embedding(const test_problem *p, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    o.seed = seed;
    NEW(xsm_model, m, xsm_model_new_embedding(NULL, p->features, HIDDEN, p->classes, &o, &m, &err));
    for (uint32_t k = 0; k < p->classes; k++) {
        for (uint32_t h = 0; h < HIDDEN; h++) {
            m->w.weight[k * m->w.stride + h] = (float)(test_uniform(&seed) - 0.5);
        }
    }
    m->untouched = false;
    return m;
}

/* A model of each kind: linear in both layouts, with and without weights, and of vectors. */
enum { KINDS = 5 };
static xsm_model *model_of(const test_problem *p, int kind)
{
    const int32_t layout = kind & 1 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
    return kind == 4 ? embedding(p, 5) : test_model(NULL, p, kind > 1, layout, kind > 1 ? 0.7 : 0, 9);
}

TEST(what_they_are)
{
    HELD_STRUCT(test_problem, p) = problem();
    uint64_t offsets[ROWS + 1];
    uint32_t labels[2 * ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        offsets[i] = 2 * i;
        labels[2 * i] = p.labels[i];
        labels[2 * i + 1] = (p.labels[i] + 1 + i % 3) % CLASSES;
    }
    offsets[ROWS] = 2 * ROWS;
    HELD(xsm_dataset, several) = test_relabel(&p, true, CLASSES, offsets, labels);
    for (int kind = 0; kind < 2 * KINDS; kind++) {
        const bool both = kind >= KINDS;
        HELD(xsm_model, m) = model_of(&p, kind % KINDS);
        float *plain = calloc((size_t)ROWS * CLASSES, sizeof *plain),
              *with = calloc((size_t)ROWS * CLASSES, sizeof *with);
        assert_true(plain && with);
        test_all_scores(m, p.data, plain);
        assert_ok(xsm_model_add_pairs(m, both ? several : p.data, STRENGTH, &err), err);
        assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_PAIRS);
        test_all_scores(m, p.data, with);
        uint32_t moved = 0;
        for (uint32_t k = kind % 3; k < CLASSES; k += 9) {
            double v[FEATURES];
            for (uint32_t j = 0; j < FEATURES; j++) {
                v[j] = pair(&p, both ? offsets : NULL, both ? labels : p.labels, j, k);
            }
            for (uint32_t i = 0; i < ROWS; i++) {
                double sum = 0;
                for (uint32_t j = 0; j < FEATURES; j++) {
                    sum += (double)p.x[i * FEATURES + j] * v[j];
                }
                const double added = (double)with[i * CLASSES + k] - (double)plain[i * CLASSES + k];
                assert_true(fabs(added - sum) < 2e-5);
                moved += fabs(sum) > 0.1;
            }
        }
        assert_true(moved > 20);
        /* counting again replaces what was there */
        assert_ok(xsm_model_add_pairs(m, both ? several : p.data, STRENGTH, &err), err);
        test_all_scores(m, p.data, plain);
        assert_memory_equal(plain, with, (size_t)ROWS * CLASSES * sizeof *with);
        free(plain);
        free(with);
    }
}

/* Chosen classes, ranges, dense and sparse rows, predictions, log-loss: the same scores. */
TEST(every_score_has_them)
{
    HELD_STRUCT(test_problem, p) = problem();
    HELD(xsm_dataset, dense) = test_relabel(&p, false, CLASSES, NULL, p.labels);
    float *all = calloc((size_t)ROWS * CLASSES, sizeof *all), *chosen = calloc((size_t)SOME * CLASSES, sizeof *chosen),
          *part = calloc((size_t)SOME * CLASSES, sizeof *part);
    HELD_MEMORY(uint32_t, classes) = calloc((size_t)SOME * CLASSES, sizeof *classes);
    assert_true(all && chosen && part && classes);
    for (uint32_t i = 0; i < SOME * CLASSES; i++) {
        classes[i] = i % CLASSES;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        HELD(xsm_model, m) = model_of(&p, kind);
        assert_ok(xsm_model_add_pairs(m, p.data, STRENGTH, &err), err);
        xsm_batch batch = xsm_batch_range(p.data, 0, SOME), as_dense = xsm_batch_range(dense, 0, SOME),
                  whole = xsm_batch_range(p.data, 0, ROWS);
        assert_ok(xsm_model_score_range(m, &whole, 0, CLASSES, all, CLASSES, &err), err);
        assert_ok(xsm_model_scores(m, &batch, classes, CLASSES, chosen, &err), err);
        enum { FIRST = 160, COUNT = 400 };
        assert_ok(xsm_model_score_range(m, &as_dense, FIRST, COUNT, part, CLASSES, &err), err);
        for (uint32_t i = 0; i < SOME; i++) {
            for (uint32_t k = 0; k < CLASSES; k++) {
                assert_true(fabsf(chosen[i * CLASSES + k] - all[i * CLASSES + k]) < 1e-5f);
                if (k >= FIRST && k < FIRST + COUNT) {
                    assert_true(fabsf(part[i * CLASSES + k - FIRST] - all[i * CLASSES + k]) < 1e-5f);
                }
            }
        }
        assert_ok(xsm_model_score_range(m, &batch, FIRST, COUNT, part, CLASSES, &err), err);
        for (uint32_t i = 0; i < SOME; i++) {
            assert_memory_equal(part + i * CLASSES, all + i * CLASSES + FIRST, COUNT * sizeof *part);
        }
        double loss = 0, right = 0;
        NEW(xsm_predictor, predictor, xsm_predictor_new(m, STRUCT(xsm_predictor_options, .top = 1), &predictor, &err));
        for (uint32_t i = 0; i < ROWS; i++) {
            const float *z = all + i * CLASSES;
            uint32_t best = 0, said;
            double sum = 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                best = z[k] > z[best] ? k : best;
                sum += exp((double)z[k]);
            }
            xsm_batch one = xsm_batch_range(p.data, i, 1);
            assert_ok(test_predict(predictor, &one, &said, NULL, NULL, &err), err);
            assert_int_equal(said, best);
            loss += log(sum) - (double)z[p.labels[i]];
            right += best == p.labels[i];
        }
        xsm_predictor_free(predictor);
        TEST_METRICS(metrics, 1);
        assert_ok(xsm_evaluate(NULL, m, p.data, NULL, &metrics, &err), err);
        assert_true(fabs(metrics.log_loss - loss / ROWS) < 1e-5);
        assert_true(fabs(metrics.precision[0] - right / ROWS) < 1e-9);
    }
    free(all);
    free(chosen);
    free(part);
}

TEST(saved_and_loaded)
{
    test_problem p = problem();
    float *before = calloc((size_t)ROWS * CLASSES, sizeof *before),
          *after = calloc((size_t)ROWS * CLASSES, sizeof *after);
    assert_true(before && after);
    for (int kind = 0; kind < KINDS; kind++) {
        HELD(xsm_model, m) = model_of(&p, kind);
        const char *path = test_path("pairs");
        assert_ok(xsm_model_add_pairs(m, p.data, STRENGTH, &err), err);
        test_all_scores(m, p.data, before);
        assert_ok(xsm_model_save(m, path, NULL, &err), err);
        MADE(xsm_model, back, xsm_model_load(NULL, path, NULL, NULL, &back, &err));
        assert_int_equal(test_model_info(back).correction, XSM_CORRECTION_PAIRS);
        assert_ok(xsm_model_set_layout(back, m->w.layout, &err), err);
        test_all_scores(back, p.data, after);
        assert_memory_equal(before, after, (size_t)ROWS * CLASSES * sizeof *before);
    }
    free(before);
    free(after);
    test_problem_free(&p);
    test_files_end();
}

/* Files whose pairs cannot be right. */
TEST(bad_files_are_refused)
{
    enum { K = 3, D = 2, PAIRS = 3, DEFECTS = 9 };
    static const float weight[K * D] = {0}, numbers[K] = {0};
    for (int defect = 0; defect < DEFECTS; defect++) {
        HELD(xsm_context, ctx) = test_context(1, TEST_BUILT_IN, 0);
        uint32_t counts[D] = {2, 1}, classes[PAIRS] = {0, 2, 1};
        float values[PAIRS] = {1, 2, 3};
        counts[1] = defect == 1 ? 2 : 1;                    /* more than there are */
        counts[0] = defect == 2 ? UINT32_MAX : 2;           /* far more */
        classes[1] = defect == 3 ? 3 : defect == 4 ? 0 : 2; /* no such class; not rising */
        values[2] = defect == 5 ? NAN : 3;
        const bool beside = defect == 6, alone = defect == 7;
        const uint64_t shorter = defect == 8 ? PAIRS - 1 : PAIRS;
        xsmi_tensor tensors[5] = {
            {.name = "weight", .dtype = XSMI_DTYPE_F32, .rank = 2, .shape = {K, D}},
            {.name = "pair_counts", .dtype = XSMI_DTYPE_U32, .rank = 1, .shape = {D}},
            {.name = "pair_classes", .dtype = XSMI_DTYPE_U32, .rank = 1, .shape = {PAIRS}},
            {.name = "pair_values", .dtype = XSMI_DTYPE_F32, .rank = 1, .shape = {shorter}},
            {.name = "correction", .dtype = XSMI_DTYPE_F32, .rank = 1, .shape = {K}},
        };
        const char *path = test_path("bad");
        xsmi_container_writer *w = NULL;
        assert_ok(xsmi_container_create(ctx, path,
                                        &(xsmi_container_plan){tensors,
                                                               alone    ? 2
                                                               : beside ? 5
                                                                        : 4,
                                                               0, NULL, 0},
                                        &w, &err),
                  err);
        assert_ok(xsmi_container_write(w, weight, sizeof weight, &err), err);
        assert_ok(xsmi_container_write(w, counts, sizeof counts, &err), err);
        if (!alone) {
            assert_ok(xsmi_container_write(w, classes, sizeof classes, &err), err);
            assert_ok(xsmi_container_write(w, values, shorter * sizeof *values, &err), err);
        }
        if (beside) {
            assert_ok(xsmi_container_write(w, numbers, sizeof numbers, &err), err);
        }
        assert_ok(xsmi_container_commit(w, &err), err);
        test_load_corrected(ctx, path, defect == 0 ? XSM_CORRECTION_PAIRS : XSM_CORRECTION_NONE);
    }
    test_files_end();
}

/* Gradients over all classes are those of the scores with them; estimators that sample refuse them. */
TEST(what_training_sees)
{
    HELD_STRUCT(test_problem, p) = problem();
    HELD_MEMORY(float, z) = calloc((size_t)ROWS * CLASSES, sizeof *z);
    assert_non_null(z);
    for (int kind = 2; kind < KINDS; kind++) {
        HELD(xsm_model, m) = model_of(&p, kind);
        assert_ok(xsm_model_add_pairs(m, p.data, STRENGTH, &err), err);
        test_all_scores(m, p.data, z);
        xsm_estimator *e = test_estimator(NULL, "softmax", "");
        assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
        xsm_gradient *g = test_gradient(NULL);
        for (uint64_t i = 0; i < 20; i++) {
            xsm_batch one = xsm_batch_range(p.data, i, 1);
            assert_ok(xsm_estimator_gradient(e, &one, 1, g, &err), err);
            xsm_gradient_view view = test_view(g);
            double sum = 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                sum += exp((double)z[i * CLASSES + k]);
            }
            for (uint64_t c = 0; c < (view.lengths ? view.lengths[0] : view.width); c++) {
                const uint32_t k = view.classes ? view.classes[c] : (uint32_t)c;
                const double want = exp((double)z[i * CLASSES + k]) / sum - (k == p.labels[i]);
                assert_true(fabs((double)view.coefficients[c] - want) < 1e-5);
            }
            assert_true(fabs(view.loss - (log(sum) - (double)z[i * CLASSES + p.labels[i]])) < 1e-4);
        }
        xsm_gradient_free(g);
        xsm_estimator_free(e);
        static const char *const sampled[] = {"sampled-softmax", "negative-sampling", "umax", "hierarchical"};
        for (size_t i = 0; i < sizeof sampled / sizeof *sampled; i++) {
            e = test_estimator(NULL, sampled[i], "");
            assert_fails(xsm_estimator_bind(e, m, p.data, &err), XSM_ERROR_UNSUPPORTED, err);
            assert_non_null(strstr(err.message, "pairs"));
            xsm_estimator_free(e);
        }
    }
}

TEST(what_does_not_go_with_them)
{
    HELD_STRUCT(test_problem, p) = problem();
    HELD_STRUCT(test_problem, other) = test_problem_new(30, FEATURES + 1, CLASSES, true, 4);
    HELD_STRUCT(test_problem, fewer) = test_problem_new(30, FEATURES, CLASSES - 1, true, 4);
    HELD(xsm_dataset, dense) = test_relabel(&p, false, CLASSES, NULL, p.labels);
    xsm_model *m = model_of(&p, 4);
    assert_fails(xsm_model_add_pairs(NULL, p.data, 1, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_model_add_pairs(m, NULL, 1, &err), XSM_ERROR_ARGUMENT, err);
    static const double wrong[] = {0, -1, NAN, INFINITY, 1e300};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_fails(xsm_model_add_pairs(m, p.data, wrong[i], &err), XSM_ERROR_RANGE, err);
    }
    assert_fails(xsm_model_add_pairs(m, other.data, 1, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_model_add_pairs(m, fewer.data, 1, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_model_add_pairs(m, dense, 1, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_dataset *unseen = test_relabel(&p, true, CLASSES, NULL, p.labels);
    /* As reading against a class map leaves a label that it has not. */
    ((uint32_t *)(uintptr_t)unseen->labels)[ROWS / 2] = XSM_CLASS_UNSEEN;
    unseen->counted.unseen_labels = 1;
    assert_fails(xsm_model_add_pairs(m, unseen, 1, &err), XSM_ERROR_DATA, err);
    xsm_dataset_free(unseen);
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_NONE);
    assert_ok(xsm_model_add_pairs(m, p.data, 1, &err), err);
    NEW(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    assert_fails(xsm_index_build_model(index, m, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "pairs"));
    xsm_index_free(index);
    assert_fails(xsm_model_grow(m, FEATURES + 3, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "counted"));
    xsm_model_clear_correction(m);
    assert_ok(xsm_model_grow(m, FEATURES + 3, NULL, &err), err);
    xsm_model_free(m);

    m = model_of(&p, 0);
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "sampler=frequency");
    xsm_optimizer *o = test_optimizer(NULL, m);
    xsm_gradient *g = test_gradient(NULL);
    xsm_batch batch = xsm_batch_range(p.data, 0, 8);
    assert_ok(xsm_estimator_bind(e, m, p.data, &err), err);
    test_take_step(e, o, g, &batch, 1);
    xsm_estimator_free(e);
    assert_fails(xsm_model_add_pairs(m, p.data, 1, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_CLASSES);
    xsm_gradient_free(g);
    xsm_optimizer_free(o);
    xsm_model_free(m);

    /* nothing above 0: nothing to count */
    for (uint64_t i = 0; i < p.rows * p.features; i++) {
        p.x[i] = p.x[i] > 0 ? -p.x[i] : p.x[i];
    }
    HELD(xsm_dataset, below) = test_relabel(&p, true, CLASSES, NULL, p.labels);
    m = model_of(&p, 0);
    assert_ok(xsm_model_add_pairs(m, below, 1, &err), err);
    assert_int_equal(test_model_info(m).correction, XSM_CORRECTION_NONE);
    xsm_model_free(m);
}

static xsm_status make_and_load(void *state, xsm_context *ctx, xsm_error *err)
{
    const test_problem *p = state;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, back) = NULL;
    xsm_status status = xsm_model_new_linear(ctx, p->features, p->classes, NULL, &m, err);
    status = status == XSM_OK ? xsm_model_add_pairs(m, p->data, 1, err) : status;
    status = status == XSM_OK ? xsm_model_save(m, test_path("pairs"), NULL, err) : status;
    status = status == XSM_OK ? xsm_model_load(ctx, test_path("pairs"), NULL, NULL, &back, err) : status;
    return status;
}

TEST(every_allocation_may_fail)
{
    test_problem p = test_problem_new(40, 6, 9, true, 4);
    assert_true(test_every_allocation(make_and_load, &p) > 12);
    test_problem_free(&p);
    test_files_end();
}
