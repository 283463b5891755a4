/*
 * Tests of sparse weights: models that xsm_model_prune() makes against the same sums in double precision here, their
 * files, and what they refuse.
 */
#include "narrow_kinds.h"
#include "sparse_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/hierarchy.h"
#include "model/model.h"
#include "model/model_file.h"
#include "model/score.h"

#include <xsoftmax.h>
#include <xsoftmax/stored_weights.h>

#define FEATURES 700
#define CLASSES 900
#define ROWS 45
#define NONZEROS 20

/* A tenth of the weights are not small. Some classes have none at all, some features too. */
static float weight_of(uint32_t k, uint32_t j)
{
    const uint32_t n = noise(k * FEATURES + j);
    const float size = n % 10 == 0 ? 1.0f : 0.01f;
    return k % 97 == 5 || j % 83 == 7 ? 0 : size * ((float)(n / 16 % 2001) - 1000) / 1000;
}

static float bias_of(uint32_t k)
{
    return (float)(noise(k + 7777777) % 100) / 50 - 1;
}

static xsm_model *make_dense(xsm_context *ctx, int32_t layout, uint32_t features)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    o.bias = 1;
    o.layout = layout;
    NEW(xsm_model, m, xsm_model_new_linear(ctx, features, CLASSES, &o, &m, &err));
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = weight_of(k, j);
        }
        p.bias[k] = bias_of(k);
    }
    assert_ok(xsm_model_set_metadata(m, "maker", "test", &err), err);
    return m;
}

static rows *make_rows(xsm_context *ctx, uint32_t features)
{
    const sparse_shape shape = {ROWS, features, CLASSES, NONZEROS, 60, true};
    return rows_new(ctx, &shape);
}

/* A score in double precision over the weights that pruning keeps. */
static double score_of(const rows *r, uint32_t i, uint32_t k, double below)
{
    double z = bias_of(k);
    for (uint64_t e = r->offsets[i]; e < r->offsets[i + 1]; e++) {
        const double w = weight_of(k, r->index[e]);
        z += fabs(w) >= below ? w * r->values[e] : 0;
    }
    return z;
}

static uint64_t nonzeros_of(double below)
{
    uint64_t count = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            const double w = fabs((double)weight_of(k, j));
            count += w > 0 && w >= below;
        }
    }
    return count;
}

static xsm_model *prune(const xsm_model *m, double below, uint32_t keep)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, pruned, xsm_model_prune(m, STRUCT(xsm_prune_options, .below = below, .keep = keep), &pruned, &err));
    return pruned;
}

#define BELOW 0.02

TEST(scores_are_those_of_the_weights_kept)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, threads);
        rows *r = make_rows(ctx, FEATURES);
        xsm_model *dense = make_dense(ctx, threads - 1 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, FEATURES);
        xsm_model *m = prune(dense, BELOW, 0);
        assert_int_equal(m->w.layout, XSM_LAYOUT_SPARSE_ROWS);
        assert_string_equal(xsm_model_get_metadata(m, "maker"), "test");
        xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
        assert_ok(xsm_model_get_view(m, &v, &err), err);
        assert_null(v.weight);
        assert_non_null(v.bias);
        assert_int_equal(v.nonzeros, nonzeros_of(BELOW));
        assert_true(v.bytes > 5 * v.nonzeros && v.bytes < 8 * v.nonzeros);
        assert_int_equal(v.layout, XSM_LAYOUT_SPARSE_ROWS);
        float *range = calloc(2 * ROWS * CLASSES, sizeof *range), *part = calloc(ROWS * CLASSES, sizeof *part);
        xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS), full = xsm_batch_range(r->full, 0, ROWS);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, range, CLASSES, &err), err);
        assert_ok(xsm_model_score_range(m, &full, 0, CLASSES, range + ROWS * CLASSES, CLASSES, &err), err);
        assert_memory_equal(range, range + ROWS * CLASSES, ROWS * CLASSES * sizeof *range);
        assert_ok(xsm_model_score_range(m, &batch, 301, 500, part, 500, &err), err);
        for (uint32_t i = 0; i < ROWS; i++) {
            assert_memory_equal(part + i * 500, range + i * CLASSES + 301, 500 * sizeof *part);
            for (uint32_t k = 0; k < CLASSES; k++) {
                const double want = score_of(r, i, k, BELOW);
                assert_true(fabs((double)range[i * CLASSES + k] - want) < 1e-5);
            }
        }
        for (uint32_t form = 0; form < 2; form++) { /* chosen classes have the same bits */
            HELD_MEMORY(uint32_t, classes) = calloc(ROWS * CLASSES, sizeof *classes);
            for (uint32_t i = 0; i < ROWS * CLASSES; i++) {
                classes[i] = i % CLASSES;
            }
            assert_ok(xsm_model_scores(m, form ? &full : &batch, classes, CLASSES, part, &err), err);
            assert_memory_equal(part, range, ROWS * CLASSES * sizeof *range);
        }
        free(range);
        free(part);
        xsm_model_free(m);
        xsm_model_free(dense);
        end_rows(r);
        test_memory_end(memory, ctx);
    }
}

/* The best classes and the log-loss, by the sums in double precision. */
/* A tree of the classes has more nodes than a tile: ranges of classes, and their chosen paths. */
TEST(scores_in_a_tree_are_those_of_its_paths)
{
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    rows *r = make_rows(ctx, FEATURES);
    xsm_model *dense = make_dense(ctx, XSM_LAYOUT_CLASS_MAJOR, FEATURES);
    xsmi_class_tree *tree = NULL;
    uint64_t *weights = calloc(CLASSES, sizeof *weights);
    assert_non_null(weights);
    for (uint32_t k = 0; k < CLASSES; k++) {
        weights[k] = noise(k) % 50;
    }
    assert_ok(xsmi_hierarchy_huffman(ctx, weights, CLASSES, &tree, &err), err);
    assert_true(tree->inner > XSMI_ROW_TILE);
    assert_ok(xsmi_model_set_hierarchy(dense, tree, &err), err);
    xsmi_class_tree_release(tree);
    xsm_model *m = prune(dense, BELOW, 0);
    uint32_t *classes = calloc(ROWS * CLASSES, sizeof *classes);
    float *range = calloc(ROWS * CLASSES, sizeof *range), *chosen = calloc(ROWS * CLASSES, sizeof *chosen);
    assert_true(classes && range && chosen);
    for (uint32_t i = 0; i < ROWS * CLASSES; i++) {
        classes[i] = i % CLASSES;
    }
    for (uint32_t form = 0; form < 2; form++) {
        const xsm_batch batch = xsm_batch_range(form ? r->full : r->sparse, 0, ROWS);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, range, CLASSES, &err), err);
        assert_ok(xsm_model_scores(m, &batch, classes, CLASSES, chosen, &err), err);
        for (uint32_t i = 0; i < ROWS * CLASSES; i++) {
            assert_true(fabsf(range[i] - chosen[i]) < 1e-5f * (1 + fabsf(chosen[i])));
        }
    }
    free(classes);
    free(range);
    free(chosen);
    free(weights);
    xsm_model_free(m);
    xsm_model_free(dense);
    end_rows(r);
}

TEST(evaluation_and_prediction_agree_with_the_sums)
{
    double first_loss = 0;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, threads);
        rows *r = make_rows(ctx, FEATURES);
        xsm_model *dense = make_dense(ctx, XSM_LAYOUT_CLASS_MAJOR, FEATURES), *m = prune(dense, BELOW, 0);
        double loss = 0;
        uint32_t best[ROWS];
        for (uint32_t i = 0; i < ROWS; i++) {
            double sum = 0, target = 0;
            const uint64_t first = r->label_offsets[i], end = r->label_offsets[i + 1];
            best[i] = 0;
            for (uint32_t k = 0; k < CLASSES; k++) {
                sum += exp(score_of(r, i, k, BELOW));
                best[i] = score_of(r, i, k, BELOW) > score_of(r, i, best[i], BELOW) ? k : best[i];
            }
            for (uint64_t j = first; j < end; j++) {
                target += score_of(r, i, r->labels[j], BELOW) / (double)(end - first);
            }
            loss += (log(sum) - target) / ROWS;
        }
        TEST_METRICS(metrics, 3);
        assert_ok(xsm_evaluate(NULL, m, r->sparse, NULL, &metrics, &err), err);
        assert_true(fabs(metrics.log_loss - loss) < 1e-5);
        assert_int_equal(metrics.beam, 0);
        assert_true(threads == 1 || metrics.log_loss == first_loss);
        first_loss = metrics.log_loss;
        NEW(xsm_predictor, p, xsm_predictor_new(m, NULL, &p, &err));
        uint32_t classes[ROWS * 5];
        xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS);
        assert_ok(xsm_predictor_run(p, STRUCT(xsm_prediction, .batch = &batch, .classes = classes), &err), err);
        for (uint32_t i = 0; i < ROWS; i++) {
            assert_int_equal(classes[i * 5], best[i]);
        }
        xsm_predictor_free(p);
        xsm_model_free(m);
        xsm_model_free(dense);
        end_rows(r);
        test_memory_end(memory, ctx);
    }
}

/* Whether a class's weight is among the largest, counted one by one. */
static bool is_kept(uint32_t k, uint32_t j, uint32_t keep)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < FEATURES; i++) {
        const float a = fabsf(weight_of(k, i)), b = fabsf(weight_of(k, j));
        before += a > b || (a == b && i < j);
    }
    return before < keep;
}

TEST(the_largest_of_each_class_are_kept)
{
    enum { KEEP = 9, FEW = 60 };
    HELD(xsm_model, dense) = make_dense(NULL, XSM_LAYOUT_FEATURE_MAJOR, FEATURES);
    HELD(xsm_model, m) = prune(dense, 0.004, KEEP);
    assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, &err), err);
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (uint32_t k = 0; k < FEW; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            const float w = weight_of(k, j);
            const bool kept = is_kept(k, j, KEEP) && fabs((double)w) >= 0.004;
            assert_true(p.weight[k * p.class_step + j * p.feature_step] == (kept ? w : 0));
        }
    }
}

TEST(layouts_change_back)
{
    HELD(xsm_model, dense) = make_dense(NULL, XSM_LAYOUT_CLASS_MAJOR, FEATURES);
    for (int32_t layout = XSM_LAYOUT_CLASS_MAJOR; layout <= XSM_LAYOUT_FEATURE_MAJOR; layout++) {
        HELD(xsm_model, m) = prune(dense, 0, 0);
        assert_ok(xsm_model_set_layout(m, XSM_LAYOUT_SPARSE_ROWS, &err), err);
        assert_ok(xsm_model_set_layout(m, layout, &err), err);
        assert_fails(xsm_model_set_layout(m, XSM_LAYOUT_SPARSE_ROWS, &err), XSM_ERROR_UNSUPPORTED, err);
        xsm_parameters p = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(m, &p, &err), err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            assert_true(p.bias[k] == bias_of(k));
            for (uint32_t j = 0; j < FEATURES; j++) {
                assert_true(p.weight[k * p.class_step + j * p.feature_step] == weight_of(k, j));
            }
        }
    }
}

/* Chunks end early where the weights are many: the same model is made from several, with more than 256 rows, and
 * fewer. */
TEST(chunks_of_any_size_give_the_same_scores)
{
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    rows *r = make_rows(ctx, FEATURES);
    float *first = NULL;
    for (uint32_t each = 1; each <= 900; each = each * 7 + 1) {
        xsmi_sparse_builder *b = NULL;
        xsmi_sparse *s = NULL;
        assert_ok(xsmi_sparse_builder_new(ctx, FEATURES, true, &b, &err), err);
        for (uint32_t k = 0; k < CLASSES; k += each) {
            const uint32_t count = CLASSES - k < each ? CLASSES - k : each;
            uint32_t features[FEATURES], starts[FEATURES + 1], columns = 0, n = 0;
            uint16_t *entry = calloc(FEATURES * CLASSES, sizeof *entry);
            float *values = calloc(FEATURES * CLASSES, sizeof *values), bias[CLASSES];
            for (uint32_t j = 0; j < FEATURES; j++) {
                starts[columns] = n;
                for (uint32_t c = 0; c < count; c++) {
                    const float w = weight_of(k + c, j);
                    if (fabs((double)w) >= BELOW) {
                        entry[n] = (uint16_t)c;
                        values[n++] = w;
                    }
                }
                features[columns] = j;
                columns += n > starts[columns];
            }
            starts[columns] = n;
            for (uint32_t c = 0; c < count; c++) {
                bias[c] = bias_of(k + c);
            }
            const xsmi_sparse_chunk chunk = {count, columns, features, starts, entry, values, bias};
            assert_ok(xsmi_sparse_builder_add(b, &chunk, &err), err);
            free(entry);
            free(values);
        }
        assert_ok(xsmi_sparse_builder_finish(b, &s, &err), err);
        xsmi_sparse_builder_free(b);
        assert_int_equal(s->chunks, (CLASSES + each - 1) / each);
        assert_true((s->row8 != NULL) == (each <= 256));
        assert_int_equal(xsmi_sparse_entries(s), nonzeros_of(BELOW));
        MADE(xsm_model, m, xsmi_model_of_sparse(ctx, s, &m, &err));
        xsmi_sparse_release(s);
        float *range = calloc(ROWS * CLASSES, sizeof *range);
        xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS);
        assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, range, CLASSES, &err), err);
        if (first) {
            assert_memory_equal(first, range, ROWS * CLASSES * sizeof *range);
            free(range);
        } else {
            first = range;
        }
    }
    free(first);
    end_rows(r);
}

/* -- in fewer bits ------------------------------------------------------------------------------------------------- */

/* The nearest multiple of twice the error of a kind: of a power of two, or of the row's largest weight. */
static double rounded(double w, double most, const test_kind *kind)
{
    if (w == 0) {
        return 0;
    }
    int exponent;
    (void)frexp(w, &exponent);
    const double step =
        kind->factors ? (double)((float)most / (float)rint(0.5 / kind->error)) : ldexp(kind->error, exponent);
    return rint(w / step) * step;
}

static double largest_of(uint32_t k)
{
    double most = 0;
    for (uint32_t j = 0; j < FEATURES; j++) {
        most = fabs((double)weight_of(k, j)) > most ? fabs((double)weight_of(k, j)) : most;
    }
    return most;
}

TEST(weights_in_fewer_bits_are_rounded)
{
    for (EACH_KIND(kind)) {
        test_memory *memory;
        xsm_context *ctx = test_memory_context(&memory, 1 + kind->bytes % 2);
        rows *r = make_rows(ctx, FEATURES);
        xsm_model *dense = make_dense(ctx, XSM_LAYOUT_CLASS_MAJOR, FEATURES), *m = prune(dense, BELOW, 0);
        xsm_model *small = test_converted(m, kind->dtype), *again = test_converted(small, kind->dtype);
        assert_string_equal(xsm_model_get_metadata(small, "maker"), "test");
        xsm_model_info info = XSM_MODEL_INFO_INIT, was = XSM_MODEL_INFO_INIT;
        assert_ok(xsm_model_get_info(small, &info, &err), err);
        assert_ok(xsm_model_get_info(m, &was, &err), err);
        assert_true(info.dtype == kind->dtype && info.layout == XSM_LAYOUT_SPARSE_ROWS && info.weights == was.weights);
        assert_int_equal(info.bytes,
                         was.bytes - (4 - kind->bytes) * was.weights + (kind->factors ? CLASSES * sizeof(float) : 0));
        xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT, w = XSM_PARAMETERS_VIEW_INIT;
        assert_ok(xsm_model_get_view(small, &v, &err), err);
        assert_ok(xsm_model_get_view(again, &w, &err), err);
        assert_true(!v.weight && !v.class_scales && v.dtype == kind->dtype && v.nonzeros == was.weights);
        assert_memory_equal(v.data, w.data, v.nonzeros * kind->bytes); /* not rounded again */
        float *range = calloc(ROWS * CLASSES, sizeof *range), *other = calloc(ROWS * CLASSES, sizeof *other);
        uint32_t *classes = calloc(ROWS * CLASSES, sizeof *classes);
        xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS), full = xsm_batch_range(r->full, 0, ROWS);
        assert_ok(xsm_model_score_range(small, &batch, 0, CLASSES, range, CLASSES, &err), err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            const double most = largest_of(k);
            for (uint32_t i = 0; i < ROWS; i++) {
                double z = bias_of(k);
                for (uint64_t e = r->offsets[i]; e < r->offsets[i + 1]; e++) {
                    const double weight = weight_of(k, r->index[e]);
                    z += fabs(weight) >= BELOW ? rounded(weight, most, kind) * r->values[e] : 0;
                }
                assert_true(fabs((double)range[i * CLASSES + k] - z) < 1e-5);
                classes[i * CLASSES + k] = k;
            }
        }
        assert_ok(xsm_model_score_range(small, &full, 0, CLASSES, other, CLASSES, &err), err);
        assert_memory_equal(other, range, ROWS * CLASSES * sizeof *range);
        assert_ok(xsm_model_scores(small, &batch, classes, CLASSES, other, &err), err);
        assert_memory_equal(other, range, ROWS * CLASSES * sizeof *range);
        assert_ok(xsm_model_score_range(again, &batch, 0, CLASSES, other, CLASSES, &err), err);
        assert_memory_equal(other, range, ROWS * CLASSES * sizeof *range);
        xsm_model *back = test_converted(small, XSM_DTYPE_FLOAT32); /* exact, but for the product with the factor */
        assert_ok(xsm_model_score_range(back, &batch, 0, CLASSES, other, CLASSES, &err), err);
        for (uint32_t i = 0; i < ROWS * CLASSES; i++) {
            assert_true(kind->factors ? fabs((double)(other[i] - range[i])) < 1e-5 : other[i] == range[i]);
        }
        assert_ok(xsm_model_set_layout(back, XSM_LAYOUT_CLASS_MAJOR, &err), err);
        xsm_model_free(back);
        free(classes);
        free(other);
        free(range);
        xsm_model_free(again);
        xsm_model_free(small);
        xsm_model_free(m);
        xsm_model_free(dense);
        end_rows(r);
        test_memory_end(memory, ctx);
    }
}

TEST(weights_that_do_not_fit_are_refused)
{
    static const test_kind float32 = {XSM_DTYPE_FLOAT32, "float32", 4, false, 0, NAN, NULL};
    for (size_t t = 0; t <= TEST_KINDS; t++) {
        const test_kind *kind = t < TEST_KINDS ? &test_kinds[t] : &float32;
        xsm_convert_options o = XSM_CONVERT_OPTIONS_INIT;
        xsm_parameters p = XSM_PARAMETERS_INIT;
        HELD(xsm_model, dense) = make_dense(NULL, XSM_LAYOUT_CLASS_MAJOR, FEATURES);
        xsm_model *out = NULL;
        assert_ok(xsm_model_get_parameters(dense, &p, &err), err);
        p.weight[777 * p.class_step + 333 * p.feature_step] = 2; /* kept by pruning, and found by its value */
        HELD(xsm_model, m) = prune(dense, 1.5, 0);
        assert_int_equal(xsmi_sparse_entries(m->w.sparse), 1);
        ((float *)(uintptr_t)m->w.sparse->values)[0] = kind->too_large;
        o.dtype = kind->dtype;
        assert_fails(xsm_model_convert(m, &o, &out, &err), XSM_ERROR_DIVERGED, err);
        assert_non_null(strstr(err.message, "class 777 and feature 333"));
        assert_non_null(strstr(err.message, kind->name));
        assert_null(out);
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static void expect_mapped(int32_t dtype)
{
    xsm_error err = XSM_ERROR_INIT;
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    rows *r = make_rows(ctx, FEATURES);
    xsm_model *dense = make_dense(ctx, XSM_LAYOUT_CLASS_MAJOR, FEATURES), *m = prune(dense, BELOW, 0), *loaded = NULL;
    char *first = strdup(test_path("first")), *second = strdup(test_path("second"));
    if (dtype != XSM_DTYPE_FLOAT32) {
        xsm_model *small = test_converted(m, dtype);
        xsm_model_free(m);
        m = small;
    }
    assert_ok(xsm_model_save(m, first, NULL, &err), err);
    assert_ok(xsm_model_load(ctx, first, NULL, NULL, &loaded, &err), err);
    assert_ok(xsm_model_save(loaded, second, NULL, &err), err);
    size_t size, other;
    unsigned char *bytes = test_read(first, &size), *again = test_read(second, &other);
    assert_int_equal(size, other);
    assert_memory_equal(bytes, again, size);
    assert_true(size < 8 * nonzeros_of(BELOW));
    xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
    assert_ok(xsm_model_get_view(loaded, &v, &err), err);
    const unsigned char *values = v.data;
    assert_true(values > loaded->mapping.data &&
                values + xsmi_number_bytes(dtype) * v.nonzeros <= loaded->mapping.data + loaded->mapping.size);
    assert_int_equal(v.dtype, dtype);
    assert_true((uintptr_t)values % (dtype == XSM_DTYPE_FLOAT32 ? 64 : xsmi_number_bytes(dtype)) == 0);
    float *a = calloc(ROWS * CLASSES, sizeof *a), *b = calloc(ROWS * CLASSES, sizeof *b);
    xsm_batch batch = xsm_batch_range(r->sparse, 0, ROWS);
    assert_ok(xsm_model_score_range(m, &batch, 0, CLASSES, a, CLASSES, &err), err);
    assert_ok(xsm_model_score_range(loaded, &batch, 0, CLASSES, b, CLASSES, &err), err);
    assert_memory_equal(a, b, ROWS * CLASSES * sizeof *a);
    free(a);
    free(b);
    free(bytes);
    free(again);
    free(first);
    free(second);
    xsm_model_free(loaded);
    xsm_model_free(m);
    xsm_model_free(dense);
    end_rows(r);
    test_memory_end(memory, ctx);
}

TEST(files_are_mapped_and_saved_alike)
{
    expect_mapped(XSM_DTYPE_FLOAT32);
    for (EACH_KIND(kind)) {
        expect_mapped(kind->dtype);
    }
}

/* Every byte of the numbers that say where weights are is changed, or every few; what is still accepted must be usable.
 * Values may be any numbers. */
static void damage(int32_t dtype, size_t step)
{
    xsm_error err = XSM_ERROR_INIT;
    test_memory *memory;
    xsm_context *ctx = test_memory_context(&memory, 1);
    xsm_model *dense = make_dense(ctx, XSM_LAYOUT_CLASS_MAJOR, 40), *pruned = prune(dense, 0.9, 0);
    xsm_model *m = test_converted(pruned, dtype);
    xsm_model_free(pruned);
    const char *path = test_path("damaged");
    size_t size;
    tried t = {0, 0};
    assert_ok(xsm_model_save(m, path, NULL, &err), err);
    xsm_model_free(m);
    xsm_model_free(dense);
    unsigned char *bytes = test_read(path, &size);
    rows *r = make_rows(ctx, 40);
    const size_t before = test_memory_blocks(memory);
    for (size_t i = 0; i < size; i += step) {
        for (uint32_t change = 1; change < 256; change = change * 5 + 2) {
            bytes[i] ^= (unsigned char)change;
            try_bytes(ctx, bytes, size, r, 40, &t);
            bytes[i] ^= (unsigned char)change;
            assert_int_equal(test_memory_blocks(memory), before);
        }
    }
    assert_true(t.refused > 1000 / step && t.accepted > 1000 / step);
    free(bytes);
    end_rows(r);
    test_memory_end(memory, ctx);
}

TEST(damage_is_found_or_harmless)
{
    damage(XSM_DTYPE_FLOAT32, 1);
    for (EACH_KIND(kind)) {
        damage(kind->dtype, 7);
    }
}

static void write_bytes(const char *path, const unsigned char *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* The first place of a text in a file's header. */
static unsigned char *find_text(unsigned char *bytes, size_t size, const char *text)
{
    for (size_t i = 0; i + strlen(text) <= size; i++) {
        if (memcmp(bytes + i, text, strlen(text)) == 0) {
            return bytes + i;
        }
    }
    fail();
    return NULL;
}

TEST(factors_must_fit_the_weights)
{
    static const char *const changes[][2] = {
        {"values_scale", "values_scal3"}, /* int8 without factors */
        {"\"I8\"", "\"U8\""},             /* no type of weights */
    };
    HELD(xsm_model, dense) = make_dense(NULL, XSM_LAYOUT_CLASS_MAJOR, FEATURES);
    HELD(xsm_model, m) = prune(dense, BELOW, 0);
    HELD(xsm_model, small) = test_converted(m, XSM_DTYPE_INT8);
    xsm_model *loaded = NULL;
    xsm_load_options unchecked = XSM_LOAD_OPTIONS_INIT;
    HELD_MEMORY(char, path) = strdup(test_path("factors"));
    unchecked.skip_verify = 1;
    for (int i = 0; i < 4; i++) {
        if (i >= 2) { /* the first factor */
            ((float *)(uintptr_t)small->w.sparse->factors)[0] = i == 2 ? -1.0f : INFINITY;
        }
        assert_ok(xsm_model_save(small, path, NULL, &err), err);
        if (i < 2) {
            size_t size;
            unsigned char *bytes = test_read(path, &size);
            memcpy(find_text(bytes, size, changes[i][0]), changes[i][1], strlen(changes[i][1]));
            write_bytes(path, bytes, size);
            free(bytes);
        }
        assert_fails(xsm_model_load(NULL, path, NULL, &unchecked, &loaded, &err), XSM_ERROR_FORMAT, err);
        assert_true(i == 0 || strstr(err.message, "values_scale"));
        assert_null(loaded);
    }
}

/* -- what cannot be done ------------------------------------------------------------------------------------------- */

TEST(what_needs_dense_weights_is_refused)
{
    rows *r = make_rows(NULL, FEATURES);
    xsm_model *dense = make_dense(NULL, XSM_LAYOUT_CLASS_MAJOR, FEATURES), *m = prune(dense, BELOW, 0), *other = NULL;
    xsm_fit_options fit = XSM_FIT_OPTIONS_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    NEW(xsm_estimator, e, xsm_estimator_new(NULL, "one-vs-all", &e, &err));
    NEW(xsm_optimizer, o, xsm_optimizer_new(NULL, "sgd", &o, &err));
    NEW(xsm_index, x, xsm_index_new(NULL, "exact", &x, &err));
    assert_fails(xsm_estimator_bind(e, m, r->sparse, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "training by an estimator needs dense weights"));
    assert_fails(xsm_estimator_bind_labels(e, m, r->sparse, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_optimizer_bind(o, m, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_index_build_model(x, m, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_model_grow(m, FEATURES + 1, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_model_add_pairs(m, r->sparse, 1, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_model_set_geometry(m, XSM_GEOMETRY_EUCLIDEAN, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_fails(xsm_model_prune(m, NULL, &other, &err), XSM_ERROR_UNSUPPORTED, err);
    if (test_has_lbfgs()) {
        assert_fails(xsm_fit_full_batch(NULL, m, r->sparse, e, &fit, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    }
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    assert_null(p.weight);
    assert_true(p.bias && p.bias[3] == bias_of(3));
    for (EACH_KIND(kind)) {
        HELD(xsm_model, small) = test_converted(m, kind->dtype);
        assert_fails(xsm_estimator_bind(e, small, r->sparse, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_index_build_model(x, small, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_model_prune(small, NULL, &other, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_fails(xsm_model_set_layout(small, XSM_LAYOUT_CLASS_MAJOR, &err), XSM_ERROR_UNSUPPORTED, err);
        assert_non_null(strstr(err.message, kind->name));
        assert_ok(xsm_model_get_parameters(small, &p, &err), err);
        assert_true(!p.weight && p.dtype == kind->dtype);
    }
    assert_fails(xsm_model_prune(dense, STRUCT(xsm_prune_options, .below = -1), &other, &err), XSM_ERROR_RANGE, err);
    NEW(xsm_model, embedding, xsm_model_new_embedding(NULL, 5, 3, 4, NULL, &embedding, &err));
    assert_fails(xsm_model_prune(embedding, NULL, &other, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_null(other);
    xsm_model_free(embedding);
    xsm_index_free(x);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    xsm_model_free(dense);
    end_rows(r);
}

static xsm_status prune_save_load(void *state, xsm_context *ctx, xsm_error *err)
{
    const char *path = state;
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    HELD(xsm_model, dense) = NULL;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_model, loaded) = NULL;
    HELD(xsm_model, small) = NULL;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_convert_options to = XSM_CONVERT_OPTIONS_INIT;
    to.dtype = XSM_DTYPE_INT8;
    o.bias = 1;
    xsm_status status = xsm_model_new_linear(ctx, 30, 20, &o, &dense, err);
    status = status == XSM_OK ? xsm_model_get_parameters(dense, &p, err) : status;
    for (uint32_t i = 0; status == XSM_OK && i < 20 * 30; i++) {
        p.weight[i / 30 * p.class_step + i % 30 * p.feature_step] = weight_of(i / 30, i % 30);
    }
    const xsm_prune_options prune = {sizeof prune, 0.001, 5, 0};
    status = status == XSM_OK ? xsm_model_prune(dense, &prune, &m, err) : status;
    status = status == XSM_OK ? xsm_model_save(m, path, NULL, err) : status;
    status = status == XSM_OK ? xsm_model_load(ctx, path, NULL, NULL, &loaded, err) : status;
    status = status == XSM_OK ? xsm_model_convert(loaded, &to, &small, err) : status;
    status = status == XSM_OK ? xsm_model_set_layout(loaded, XSM_LAYOUT_FEATURE_MAJOR, err) : status;
    return status;
}

TEST(missing_memory_leaves_nothing)
{
    HELD_MEMORY(char, path) = strdup(test_path("memory"));
    assert_true(test_every_allocation(prune_save_load, path) > 20);
}
