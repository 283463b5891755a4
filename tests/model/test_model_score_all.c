/*
 * Tests of scores, ranges of scores and scoring of all classes: compared with NumPy and with each other, for every
 * grouping, layout and instruction set.
 */
#include "support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/score_all.h"
#include "base/order.h"
#include "base/top.h"

#include "golden/model_golden.h"

#include <xsoftmax/stored_weights.h>

/* A context with the C library's memory. */
static xsm_context *new_context(uint32_t threads, uint32_t cpu_disable)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    options.cpu_disable = cpu_disable;
    xsm_context *context = NULL;
    assert_int_equal(xsm_context_new(&options, &context, NULL), XSM_OK);
    return context;
}

/* A dataset with its memory, from formulas. */
typedef struct rows {
    float *dense; /* [n][features] */
    xsm_dataset *dataset;
    size_t n, features;
} rows;

static void make_dataset(rows *r, bool sparse)
{
    if (!sparse) {
        assert_int_equal(xsm_dataset_from_dense(NULL,
                                                STRUCT(xsm_dense_rows, .values = r->dense, .stride = r->features,
                                                       .rows = r->n, .features = (uint32_t)r->features),
                                                &r->dataset, NULL),
                         XSM_OK);
        return;
    }
    HELD_MEMORY(uint64_t, offsets) = malloc((r->n + 1) * sizeof *offsets);
    HELD_MEMORY(uint32_t, index) = malloc((r->n * r->features + 1) * sizeof *index);
    HELD_MEMORY(float, values) = malloc((r->n * r->features + 1) * sizeof *values);
    assert_true(offsets && index && values);
    uint64_t total = 0;
    for (size_t i = 0; i < r->n; i++) {
        offsets[i] = total;
        for (size_t j = 0; j < r->features; j++) {
            if (r->dense[i * r->features + j] != 0.0f) {
                index[total] = (uint32_t)j;
                values[total++] = r->dense[i * r->features + j];
            }
        }
    }
    offsets[r->n] = total;
    assert_int_equal(xsm_dataset_from_csr(NULL,
                                          STRUCT(xsm_csr_rows, .offsets = offsets, .index = index, .values = values,
                                                 .rows = r->n, .features = (uint32_t)r->features),
                                          &r->dataset, NULL),
                     XSM_OK);
}

static void free_rows(rows *r)
{
    xsm_dataset_free(r->dataset);
    free(r->dense);
}

/* -- the inputs of golden/model.py --------------------------------------------------------------------------------- */

static rows golden_rows(bool sparse)
{
    rows r = {malloc(GOLDEN_ROWS * GOLDEN_FEATURES * sizeof(float)), NULL, GOLDEN_ROWS, GOLDEN_FEATURES};
    assert_non_null(r.dense);
    for (int i = 0; i < GOLDEN_ROWS; i++) {
        for (int j = 0; j < GOLDEN_FEATURES; j++) {
            float x = (float)((i * 31 + j * 17 + i * j * 7) % 65 - 32) / 32;
            if (sparse && (i == 3 || (i * 5 + j * 3 + i * j) % 4 != 0)) {
                x = 0.0f;
            }
            r.dense[i * GOLDEN_FEATURES + j] = x;
        }
    }
    make_dataset(&r, sparse);
    return r;
}

static xsm_model *golden_model(xsm_context *context, int32_t layout)
{
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = 1;
    options.layout = layout;
    xsm_model *m = NULL;
    assert_int_equal(xsm_model_new_linear(context, GOLDEN_FEATURES, GOLDEN_CLASSES, &options, &m, NULL), XSM_OK);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_int_equal(xsm_model_get_parameters(m, &p, NULL), XSM_OK);
    for (int k = 0; k < GOLDEN_CLASSES; k++) {
        for (int j = 0; j < GOLDEN_FEATURES; j++) {
            p.weight[(size_t)k * p.class_step + (size_t)j * p.feature_step] =
                (float)((k * 7919 + j * 104729 + 13 * k * j) % 257 - 128) / 512;
        }
        p.bias[k] = (float)((k * 37) % 101 - 50) / 64;
    }
    return m;
}

/* -- exact scoring of any number of rows --------------------------------------------------------------------------- */

typedef struct results {
    double *log_sum_exp;
    float *target_score, *top_score;
    uint32_t *top_class;
} results;

static results new_results(size_t n, uint32_t top)
{
    results r = {malloc(n * sizeof(double)), malloc(n * sizeof(float)), malloc((n * top + 1) * sizeof(float)),
                 malloc((n * top + 1) * sizeof(uint32_t))};
    assert_true(r.log_sum_exp && r.target_score && r.top_score && r.top_class);
    return r;
}

static void free_results(results *r)
{
    free(r->log_sum_exp);
    free(r->target_score);
    free(r->top_score);
    free(r->top_class);
}

/* Scores the rows, `each` in a call. */
static results exact(const xsm_model *m, const xsm_dataset *dataset, const uint32_t *target, uint32_t top, size_t each)
{
    const size_t n = (size_t)dataset->rows, blocks = (each + XSMI_LANES - 1) / XSMI_LANES;
    results r = new_results(n, top);
    const size_t bytes = xsmi_model_score_all_scratch(m, dataset->sparse, blocks, top);
    void *scratch = xsmi_allocate(m->context, bytes, 1);
    assert_non_null(scratch);
    memset(scratch, 0xFF, bytes); /* NaN: nothing may be read before it is written */
    for (size_t first = 0, some; first < n; first += some) {
        xsmi_features features[XSMI_TILE_ROWS];
        some = XSMI_MIN(n - first, each);
        for (size_t i = 0; i < some; i++) {
            features[i] = xsmi_dataset_features(dataset, first + i);
        }
        const xsmi_score_all some_rows = {
            .rows = some,
            .features = features,
            .sparse = dataset->sparse,
            .target = target ? target + first : NULL,
            .top = top,
            .log_sum_exp = r.log_sum_exp + first,
            .target_score = r.target_score + first,
            .top_score = r.top_score + first * top,
            .top_class = r.top_class + first * top,
        };
        xsmi_model_score_rows(m, &some_rows, scratch, m->context);
    }
    xsmi_release(m->context, scratch, bytes, 1);
    return r;
}

static void assert_same_results(const results *a, const results *b, size_t n, uint32_t top, bool target)
{
    assert_memory_equal(a->log_sum_exp, b->log_sum_exp, n * sizeof(double));
    if (target) {
        assert_memory_equal(a->target_score, b->target_score, n * sizeof(float));
    }
    if (top) {
        assert_memory_equal(a->top_score, b->top_score, n * top * sizeof(float));
        assert_memory_equal(a->top_class, b->top_class, n * top * sizeof(uint32_t));
    }
}

TEST(matches_numpy)
{
    uint32_t target[GOLDEN_ROWS];
    for (uint32_t i = 0; i < GOLDEN_ROWS; i++) {
        target[i] = (i * 97 + 11) % GOLDEN_CLASSES;
    }
    static const uint32_t masks[] = {0, XSM_CPU_DISABLE_AVX512, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    for (size_t set = 0; set < 3; set++) {
        HELD(xsm_context, context) = new_context(1, masks[set]);
        for (int variant = 0; variant < 4; variant++) {
            bool sparse = variant & 1;
            const double *lse = sparse ? golden_sparse_log_sum_exp : golden_dense_log_sum_exp;
            const double *wanted = sparse ? golden_sparse_target : golden_dense_target;
            rows r = golden_rows(sparse);
            xsm_model *m = golden_model(context, variant / 2);
            results got = exact(m, r.dataset, target, GOLDEN_TOP, 256);
            for (size_t i = 0; i < GOLDEN_ROWS; i++) {
                assert_true(fabs(got.log_sum_exp[i] - lse[i]) < 3e-7 * fabs(lse[i]));
                assert_true((double)got.target_score[i] == wanted[i]);
                for (size_t k = 0; k < GOLDEN_TOP; k++) {
                    unsigned class = sparse ? golden_sparse_top_class[i][k] : golden_dense_top_class[i][k];
                    double score = sparse ? golden_sparse_top_score[i][k] : golden_dense_top_score[i][k];
                    assert_int_equal(got.top_class[i * GOLDEN_TOP + k], class);
                    assert_true((double)got.top_score[i * GOLDEN_TOP + k] == score);
                }
            }
            /* The same scores one by one and in ranges. */
            xsm_batch batch = xsm_batch_range(r.dataset, 0, GOLDEN_ROWS);
            float *range = malloc(sizeof(float) * GOLDEN_ROWS * 610);
            float *chosen = malloc(sizeof(float) * GOLDEN_ROWS * GOLDEN_TOP);
            assert_true(range && chosen);
            assert_int_equal(xsm_model_score_range(m, &batch, 0, GOLDEN_CLASSES, range, 610, NULL), XSM_OK);
            assert_int_equal(xsm_model_scores(m, &batch, got.top_class, GOLDEN_TOP, chosen, NULL), XSM_OK);
            assert_memory_equal(chosen, got.top_score, sizeof(float) * GOLDEN_ROWS * GOLDEN_TOP);
            for (size_t i = 0; i < GOLDEN_ROWS; i++) {
                assert_true((double)range[i * 610 + target[i]] == wanted[i]);
            }
            for (uint32_t first = 0; first < GOLDEN_CLASSES; first += 77) {
                uint32_t count = GOLDEN_CLASSES - first < 301 ? GOLDEN_CLASSES - first : 301;
                HELD_MEMORY(float, part) = malloc(sizeof(float) * GOLDEN_ROWS * count);
                assert_non_null(part);
                assert_int_equal(xsm_model_score_range(m, &batch, first, count, part, count, NULL), XSM_OK);
                for (size_t i = 0; i < GOLDEN_ROWS; i++) {
                    assert_memory_equal(part + i * count, range + i * 610 + first, count * sizeof(float));
                }
            }
            free(range);
            free(chosen);
            free_results(&got);
            xsm_model_free(m);
            free_rows(&r);
        }
    }
}

/* -- odd numbers --------------------------------------------------------------------------------------------------- */

static float noise(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (float)(*state >> 40) / 16777216.0f - 0.5f;
}

static rows noisy_rows(size_t n, size_t features, double density, uint64_t seed, bool sparse)
{
    rows r = {calloc(n * features, sizeof(float)), NULL, n, features};
    assert_non_null(r.dense);
    for (size_t i = 0; i < n * features; i++) {
        if (!sparse || (double)noise(&seed) + 0.5 < density) {
            r.dense[i] = noise(&seed);
        }
    }
    make_dataset(&r, sparse);
    return r;
}

static xsm_model *noisy_model(xsm_context *context, uint32_t features, uint32_t classes, int32_t layout, bool scaled)
{
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = 1;
    options.layout = layout;
    xsm_model *m = NULL;
    assert_int_equal(xsm_model_new_linear(context, features, classes, &options, &m, NULL), XSM_OK);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_int_equal(xsm_model_get_parameters(m, &p, NULL), XSM_OK);
    uint64_t seed = 77;
    for (size_t k = 0; k < classes; k++) {
        for (size_t j = 0; j < features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = 4 * noise(&seed);
        }
        p.bias[k] = noise(&seed);
    }
    if (scaled) {
        m->w.alpha = 0.7;
        if (layout == XSM_LAYOUT_CLASS_MAJOR) {
            assert_int_equal(xsmi_model_need_row_scale(m, NULL), XSM_OK);
            for (size_t k = 0; k < classes; k++) {
                m->w.row_scale[k] = 1.0 + 0.3 * (double)noise(&seed);
            }
        }
    }
    return m;
}

static double plain_score(const xsm_model *m, const rows *r, size_t i, size_t k)
{
    double score = 0;
    for (size_t j = 0; j < r->features; j++) {
        size_t place = m->w.layout == XSM_LAYOUT_CLASS_MAJOR ? k * m->w.stride + j : j * m->w.stride + k;
        score += (double)m->w.weight[place] * (double)r->dense[i * r->features + j];
    }
    score *= m->w.alpha * (m->w.row_scale ? m->w.row_scale[k] : 1.0);
    return score + (m->w.bias ? (double)m->w.bias[k] : 0.0);
}

TEST(grouping_changes_nothing)
{
    /* The last shape has more features in use than are gathered at once, and the one before it wide rows. */
    static const struct {
        uint32_t features, classes;
        double density;
    } shapes[] = {{1, 1, 1.0}, {5, 169, 0.5}, {300, 600, 0.1}, {70, 1300, 0.3}, {4000, 180, 0.01}, {9001, 70, 0.02}};
    uint32_t target[300];
    for (size_t shape = 0; shape < sizeof shapes / sizeof *shapes; shape++) {
        for (uint32_t i = 0; i < 300; i++) {
            target[i] = i % 5 == 4 ? XSMI_NO_CLASS : i * 7 % shapes[shape].classes;
        }
        for (int variant = 0; variant < 8; variant++) {
            bool sparse = variant & 1;
            int32_t layout = variant / 2 % 2;
            bool scaled = variant / 4;
            size_t n = 261;
            rows r = noisy_rows(n, shapes[shape].features, shapes[shape].density, 5, sparse);
            xsm_model *m = noisy_model(NULL, shapes[shape].features, shapes[shape].classes, layout, scaled);
            results all = exact(m, r.dataset, target, 5, 256);
            static const size_t each[] = {32, 1, 7, 75};
            for (size_t g = 0; g < 4; g++) {
                results other = exact(m, r.dataset, target, 5, each[g]);
                assert_same_results(&all, &other, n, 5, true);
                free_results(&other);
            }
            /* Without targets and lists, the sum is the same; with long lists, the first five are. */
            results sums = exact(m, r.dataset, NULL, 0, 256);
            assert_same_results(&all, &sums, n, 0, false);
            free_results(&sums);
            results lists = exact(m, r.dataset, target, 100, 256);
            assert_same_results(&all, &lists, n, 0, true);
            for (size_t i = 0; i < n; i++) {
                assert_memory_equal(lists.top_class + i * 100, all.top_class + i * 5, 5 * sizeof(uint32_t));
                assert_memory_equal(lists.top_score + i * 100, all.top_score + i * 5, 5 * sizeof(float));
                for (size_t k = 1; k < 100; k++) {
                    assert_true(lists.top_score[i * 100 + k] <= lists.top_score[i * 100 + k - 1]);
                    assert_int_equal(lists.top_class[i * 100 + k] == XSMI_NO_CLASS, k >= shapes[shape].classes);
                }
            }
            free_results(&lists);
            /* And it is the right number. */
            for (size_t i = 0; i < n; i += 37) {
                double sum = 0;
                for (size_t k = 0; k < shapes[shape].classes; k++) {
                    sum += exp(plain_score(m, &r, i, k));
                }
                assert_true(fabs(all.log_sum_exp[i] - log(sum)) < 1e-4 * (1 + fabs(log(sum))));
                if (target[i] == XSMI_NO_CLASS) {
                    assert_true(all.target_score[i] == -INFINITY);
                } else {
                    assert_true(fabs((double)all.target_score[i] - plain_score(m, &r, i, target[i])) < 1e-3);
                }
            }
            free_results(&all);
            xsm_model_free(m);
            free_rows(&r);
        }
    }
}

TEST(sparse_layouts_agree)
{
    rows r = noisy_rows(100, 500, 0.1, 9, true);
    xsm_model *m = noisy_model(NULL, 500, 1100, XSM_LAYOUT_CLASS_MAJOR, false);
    results class_major = exact(m, r.dataset, NULL, 9, 128);
    assert_int_equal(xsm_model_set_layout(m, XSM_LAYOUT_FEATURE_MAJOR, NULL), XSM_OK);
    results feature_major = exact(m, r.dataset, NULL, 9, 128);
    assert_same_results(&class_major, &feature_major, 100, 9, false);
    free_results(&class_major);
    free_results(&feature_major);
    xsm_model_free(m);
    free_rows(&r);
}

TEST(instruction_sets_agree)
{
    static const uint32_t masks[] = {0, XSM_CPU_DISABLE_AVX512, XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_NEON};
    for (int variant = 0; variant < 4; variant++) {
        rows r = noisy_rows(50, 90, 0.2, 3, variant & 1);
        results first = {0};
        for (size_t set = 0; set < 3; set++) {
            HELD(xsm_context, context) = new_context(1, masks[set]);
            HELD(xsm_model, m) = noisy_model(context, 90, 700, variant / 2, true);
            results now = exact(m, r.dataset, NULL, 6, 64);
            if (set == 0) {
                first = now;
            } else {
                assert_same_results(&first, &now, 50, 6, false);
                free_results(&now);
            }
        }
        free_results(&first);
        free_rows(&r);
    }
}

TEST(company_changes_no_score)
{
    for (int variant = 0; variant < 4; variant++) {
        rows r = noisy_rows(70, 130, 0.2, 21, variant & 1);
        xsm_model *m = noisy_model(NULL, 130, 400, variant / 2, true);
        uint32_t classes[70 * 9];
        float scores[70 * 9];
        for (uint32_t i = 0; i < 70 * 9; i++) {
            classes[i] = i * 131 % 400;
        }
        xsm_batch batch = xsm_batch_range(r.dataset, 0, 70);
        assert_int_equal(xsm_model_scores(m, &batch, classes, 9, scores, NULL), XSM_OK);
        for (size_t i = 0; i < 70; i++) {
            for (size_t j = 0; j < 9; j++) {
                float alone = 0;
                uint64_t row = i;
                xsm_batch one = xsm_batch_rows(r.dataset, &row, 1);
                assert_int_equal(xsm_model_scores(m, &one, &classes[i * 9 + j], 1, &alone, NULL), XSM_OK);
                assert_memory_equal(&alone, &scores[i * 9 + j], sizeof alone);
                assert_true(fabs((double)alone - plain_score(m, &r, i, classes[i * 9 + j])) < 1e-4);
            }
        }
        xsm_model_free(m);
        free_rows(&r);
    }
}

TEST(threads_change_nothing)
{
    for (int variant = 0; variant < 4; variant++) {
        rows r = noisy_rows(1000, 60, 0.2, 4, variant & 1);
        float *expected = NULL;
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            HELD(xsm_context, context) = new_context(threads, 0);
            HELD(xsm_model, m) = noisy_model(context, 60, 333, variant / 2, true);
            float *scores = malloc(1000 * 333 * sizeof *scores);
            assert_non_null(scores);
            xsm_batch batch = xsm_batch_range(r.dataset, 0, 1000);
            assert_int_equal(xsm_model_score_range(m, &batch, 0, 333, scores, 333, NULL), XSM_OK);
            if (expected) {
                assert_memory_equal(expected, scores, 1000 * 333 * sizeof *scores);
                free(scores);
            } else {
                expected = scores;
            }
        }
        free(expected);
        free_rows(&r);
    }
}

TEST(ties_prefer_the_smaller_class)
{
    for (int variant = 0; variant < 4; variant++) {
        rows r = noisy_rows(33, 8, 0.5, 6, variant & 1);
        xsm_model *m = NULL;
        assert_int_equal(xsm_model_new_linear(NULL, 8, 900, NULL, &m, NULL), XSM_OK);
        assert_int_equal(xsm_model_set_layout(m, variant / 2, NULL), XSM_OK);
        for (uint32_t top = 3; top <= 70; top += 67) {
            results got = exact(m, r.dataset, NULL, top, 64);
            for (size_t i = 0; i < 33; i++) {
                for (uint32_t k = 0; k < top; k++) {
                    assert_int_equal(got.top_class[i * top + k], k);
                }
                assert_true(fabs(got.log_sum_exp[i] - log(900)) < 1e-9);
            }
            free_results(&got);
        }
        xsm_model_free(m);
        free_rows(&r);
    }
    /* The heap on its own, with ties at its border and in it. */
    float score[6];
    uint32_t class[6];
    xsmi_top list = {score, class, 6};
    static const float offered[] = {1, 3, 2, 3, 1, 2, 2, 3, -INFINITY, NAN, 2, 5};
    static const uint32_t kept[] = {11, 1, 3, 7, 2, 5};
    xsmi_top_start(&list);
    for (uint32_t k = 0; k < 12; k++) {
        xsmi_top_offer(&list, offered[k], k);
    }
    xsmi_top_sort(&list);
    assert_memory_equal(class, kept, sizeof kept);
}

TEST(what_is_not_finite_surfaces)
{
    for (int variant = 0; variant < 4; variant++) {
        for (uint32_t bad = 0; bad < 700; bad += 233) {
            rows r = noisy_rows(40, 20, 0.9, 8, variant & 1);
            xsm_model *m = noisy_model(NULL, 20, 700, variant / 2, false);
            float before = m->w.bias[bad];
            m->w.bias[bad] = NAN;
            results got = exact(m, r.dataset, NULL, 3, 64);
            for (size_t i = 0; i < 40; i++) {
                assert_true(isnan(got.log_sum_exp[i]));
                for (size_t k = 0; k < 3; k++) {
                    assert_true(got.top_class[i * 3 + k] < 700 && got.top_class[i * 3 + k] != bad);
                }
            }
            free_results(&got);
            m->w.bias[bad] = INFINITY;
            got = exact(m, r.dataset, NULL, 0, 64);
            for (size_t i = 0; i < 40; i++) {
                assert_true(isnan(got.log_sum_exp[i]));
            }
            free_results(&got);
            m->w.bias[bad] = -INFINITY; /* a class that is ruled out is no failure */
            got = exact(m, r.dataset, NULL, 0, 64);
            for (size_t i = 0; i < 40; i++) {
                assert_true(isfinite(got.log_sum_exp[i]));
            }
            free_results(&got);
            m->w.bias[bad] = before;
            for (size_t k = 0; k < 700; k++) {
                m->w.bias[k] = -INFINITY;
            }
            got = exact(m, r.dataset, NULL, 2, 64);
            for (size_t i = 0; i < 40; i++) {
                assert_true(got.log_sum_exp[i] == -INFINITY);
                assert_int_equal(got.top_class[2 * i], XSMI_NO_CLASS);
            }
            free_results(&got);
            xsm_model_free(m);
            free_rows(&r);
        }
    }
}

TEST(large_scores_do_not_overflow)
{
    for (int variant = 0; variant < 4; variant++) {
        rows r = noisy_rows(40, 20, 0.9, 8, variant & 1);
        xsm_model *m = noisy_model(NULL, 20, 700, variant / 2, false);
        for (size_t k = 0; k < 700; k++) {
            m->w.bias[k] = (float)k * 1000.0f;
        }
        uint32_t target[40];
        for (size_t i = 0; i < 40; i++) {
            target[i] = 699;
        }
        results got = exact(m, r.dataset, target, 0, 64);
        for (size_t i = 0; i < 40; i++) {
            assert_true(got.log_sum_exp[i] == (double)got.target_score[i]);
        }
        free_results(&got);
        xsm_model_free(m);
        free_rows(&r);
    }
}

TEST(batches_are_checked)
{
    rows r = noisy_rows(10, 4, 1, 1, false);
    rows wide = noisy_rows(10, 5, 1, 1, false);
    xsm_model *m = noisy_model(NULL, 4, 6, 0, false);
    uint32_t classes[20] = {0};
    float scores[200];
    xsm_batch good = xsm_batch_range(r.dataset, 2, 2);
    xsm_batch bad = good;
    assert_int_equal(xsm_model_scores(m, &good, classes, 2, scores, &err), XSM_OK);
    assert_int_equal(xsm_model_scores(m, &good, NULL, 0, NULL, &err), XSM_OK);
    assert_int_equal(xsm_model_score_range(m, &good, 6, 0, NULL, 0, &err), XSM_OK);

    assert_int_equal(xsm_model_scores(NULL, &good, classes, 2, scores, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_scores(m, NULL, classes, 2, scores, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_scores(m, &good, NULL, 2, scores, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_scores(m, &good, classes, 2, NULL, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_scores(m, &good, classes, SIZE_MAX, scores, &err), XSM_ERROR_RANGE);
    classes[3] = 6;
    assert_int_equal(xsm_model_scores(m, &good, classes, 2, scores, &err), XSM_ERROR_RANGE);
    assert_non_null(strstr(err.message, "class 6 at position 1 of row 1"));
    classes[3] = 0;
    bad.dataset = NULL;
    assert_int_equal(xsm_model_scores(m, &bad, classes, 2, scores, &err), XSM_ERROR_ARGUMENT);
    bad = good;
    bad.count = 0;
    assert_int_equal(xsm_model_scores(m, &bad, classes, 2, scores, &err), XSM_ERROR_ARGUMENT);
    bad = xsm_batch_range(wide.dataset, 0, 2);
    assert_int_equal(xsm_model_scores(m, &bad, classes, 2, scores, &err), XSM_ERROR_SHAPE);
    bad = xsm_batch_range(r.dataset, 9, 2);
    assert_int_equal(xsm_model_scores(m, &bad, classes, 2, scores, &err), XSM_ERROR_RANGE);
    bad = xsm_batch_range(r.dataset, UINT64_MAX, 2);
    assert_int_equal(xsm_model_scores(m, &bad, classes, 2, scores, &err), XSM_ERROR_RANGE);
    uint64_t numbers[] = {0, 10};
    bad = xsm_batch_rows(r.dataset, numbers, 2);
    assert_int_equal(xsm_model_scores(m, &bad, classes, 2, scores, &err), XSM_ERROR_RANGE);
    assert_non_null(strstr(err.message, "row 10 at position 1"));
    bad = good;
    bad.size = 8;
    assert_int_equal(xsm_model_scores(m, &bad, classes, 2, scores, &err), XSM_ERROR_STRUCT_OLD);

    assert_int_equal(xsm_model_score_range(NULL, &good, 0, 6, scores, 6, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_score_range(m, NULL, 0, 6, scores, 6, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_score_range(m, &good, 0, 6, NULL, 6, &err), XSM_ERROR_ARGUMENT);
    assert_int_equal(xsm_model_score_range(m, &good, 1, 6, scores, 6, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsm_model_score_range(m, &good, 7, 0, scores, 6, &err), XSM_ERROR_RANGE);
    assert_int_equal(xsm_model_score_range(m, &good, 0, 6, scores, 5, &err), XSM_ERROR_SHAPE);
    assert_int_equal(xsm_model_score_range(m, &good, 0, 6, scores, SIZE_MAX, &err), XSM_ERROR_SHAPE);
    assert_non_null(strstr(err.message, "rows of scores"));
    xsm_model_free(m);
    free_rows(&r);
    free_rows(&wide);
}

static xsm_status score_some(void *state, xsm_context *context, xsm_error *err)
{
    rows *r = state;
    xsm_model *m = NULL;
    xsm_status status = xsm_model_new_linear(context, (uint32_t)r->features, 6, NULL, &m, err);
    if (status == XSM_OK) {
        float scores[60];
        xsm_batch batch = xsm_batch_range(r->dataset, 0, 10);
        status = xsm_model_score_range(m, &batch, 0, 6, scores, 6, err);
        xsm_model_free(m);
    }
    return status;
}

TEST(every_allocation_may_fail)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        rows r = noisy_rows(10, 4, 1, 1, sparse);
        test_every_allocation(score_some, &r);
        free_rows(&r);
    }
}

TEST(scratch_is_counted)
{
    HELD(xsm_model, m) = noisy_model(NULL, 4, 6, 0, false);
    assert_true(xsmi_model_score_all_scratch(m, false, 8, 5) < 1000000);
    m->features = XSM_FEATURES_MAX; /* never touched: only counted */
    size_t each = (size_t)XSM_FEATURES_MAX * XSMI_LANES * sizeof(float);
    assert_true(xsmi_model_score_all_scratch(m, false, 2, 5) > 2 * each);
    m->features = 4;
}
