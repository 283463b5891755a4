/*
 * Class means as a linear model, against means, distances and the likelihood of every row without its own mean, all
 * computed by definition.
 */
#include "support.h"
#include "training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/fit.h>

enum { ROWS = 300, FEATURES = 5, CLASSES = 12, EMPTY = 7, ALONE = 3 };

/* Rows in double precision, with one or two labels; class EMPTY has none, and ALONE one row. */
typedef struct rows {
    float values[ROWS * FEATURES];
    float weights[ROWS], label_weights[2 * ROWS];
    uint64_t offsets[ROWS + 1];
    uint32_t labels[2 * ROWS];
} rows;

static double next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1 << 24);
}

static void make_rows(rows *r, bool several, bool even, double offset, double spread)
{
    uint64_t state = 5;
    r->offsets[0] = 0;
    for (size_t i = 0; i < ROWS; i++) {
        static const uint32_t usual[] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 11};
        const double draw = next(&state) * next(&state);
        const uint32_t class = i == 0 && !even ? ALONE : usual[even ? i % 10 : (size_t)(draw * 10)];
        uint64_t at = r->offsets[i];
        r->labels[at++] = class;
        if (several && i % 3 == 1) {
            r->labels[at++] = class == 1 ? 2 : 1;
        }
        r->offsets[i + 1] = at;
        for (size_t j = 0; j < FEATURES; j++) {
            const double centre = (double)((class * (2 * j + 3) + j) % 7);
            const double noise = next(&state) + next(&state) + next(&state) - 1.5;
            r->values[i * FEATURES + j] = (float)(offset * (double)j + centre + spread * noise);
            if (offset == 0 && (i + j) % 4 == 0) {
                r->values[i * FEATURES + j] = 0;
            }
        }
        r->weights[i] = (float)(1 + i % 3);
        for (uint64_t l = r->offsets[i]; l < at; l++) {
            r->label_weights[l] = l % 2 ? 0.5f : 1;
        }
    }
}

static xsm_dataset *dataset_of(xsm_context *ctx, const rows *r, bool sparse, bool weighted)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *d = NULL;
    const xsm_labels labels = {.size = sizeof labels,
                               .classes = CLASSES,
                               .offsets = r->offsets,
                               .labels = r->labels,
                               .weights = weighted ? r->label_weights : NULL};
    if (!sparse) {
        const xsm_dense_rows dense = {.size = sizeof dense,
                                      .values = r->values,
                                      .rows = ROWS,
                                      .features = FEATURES,
                                      .labels = &labels,
                                      .weights = weighted ? r->weights : NULL};
        assert_ok(xsm_dataset_from_dense(ctx, &dense, &d, &err), err);
        return d;
    }
    static uint64_t offsets[ROWS + 1];
    static uint32_t index[ROWS * FEATURES];
    static float values[ROWS * FEATURES];
    uint64_t n = 0;
    for (size_t i = 0; i < ROWS; i++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            if (r->values[i * FEATURES + j] != 0) {
                index[n] = j;
                values[n++] = r->values[i * FEATURES + j];
            }
        }
        offsets[i + 1] = n;
    }
    const xsm_csr_rows csr = {.size = sizeof csr,
                              .offsets = offsets,
                              .index = index,
                              .values = values,
                              .rows = ROWS,
                              .features = FEATURES,
                              .labels = &labels,
                              .weights = weighted ? r->weights : NULL};
    assert_ok(xsm_dataset_from_csr(ctx, &csr, &d, &err), err);
    return d;
}

/* -- by definition ------------------------------------------------------------------------------------------------- */

typedef struct expected {
    double weight[CLASSES], mean[CLASSES][FEATURES], total;
} expected;

static double weight_at(const rows *r, size_t i, uint64_t label, bool weighted)
{
    return weighted ? (double)r->weights[i] * (double)r->label_weights[label] : 1;
}

/* The means; `without`: of all rows but this one, NULL: of all. */
static void average(const rows *r, bool weighted, const size_t *without, expected *e)
{
    memset(e, 0, sizeof *e);
    for (size_t i = 0; i < ROWS; i++) {
        for (uint64_t l = r->offsets[i]; l < r->offsets[i + 1] && !(without && *without == i); l++) {
            const double w = weight_at(r, i, l, weighted);
            e->weight[r->labels[l]] += w;
            e->total += w;
            for (size_t j = 0; j < FEATURES; j++) {
                e->mean[r->labels[l]][j] += w * (double)r->values[i * FEATURES + j];
            }
        }
    }
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j < FEATURES && e->weight[k] > 0; j++) {
            e->mean[k][j] /= e->weight[k];
        }
    }
}

static double distance(const rows *r, size_t i, const double *mean)
{
    double sum = 0;
    for (size_t j = 0; j < FEATURES; j++) {
        const double from = (double)r->values[i * FEATURES + j] - mean[j];
        sum += from * from;
    }
    return sum;
}

/* The log-likelihood of all labels for a variance, each by its class's mean without the row, with the share of the
 * label that belongs to the other classes; every class is compared. */
static double likelihood(const rows *r, bool weighted, double variance, bool shares)
{
    expected all, rest;
    average(r, weighted, NULL, &all);
    double sum = 0;
    size_t compared = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < ROWS; i++) {
            average(r, weighted, &i, &rest);
            for (uint64_t l = r->offsets[i]; l < r->offsets[i + 1]; l++) {
                const uint32_t own = r->labels[l];
                if (rest.weight[own] == 0) {
                    continue;
                }
                if (pass == 0) {
                    compared++;
                    continue;
                }
                double scores[CLASSES], others = 0, log_sum = 0;
                size_t count = 0;
                for (uint32_t k = 0; k < CLASSES; k++) {
                    const bool labelled = k == r->labels[r->offsets[i]] || k == r->labels[r->offsets[i + 1] - 1];
                    const double from = distance(r, i, k == own ? rest.mean[k] : all.mean[k]);
                    const double weight = k == own ? rest.weight[k] : all.weight[k];
                    scores[k] = k != own && (labelled || weight == 0)
                                    ? -(double)INFINITY
                                    : (shares ? log(weight / all.total) : 0) - from / (2 * variance);
                    if (k != own && isfinite(scores[k])) {
                        others += -from / (2 * variance);
                        count++;
                    }
                }
                for (uint32_t k = 0; k < CLASSES; k++) {
                    log_sum += exp(scores[k] - scores[own]);
                }
                log_sum = log(log_sum) + scores[own];
                const double smooth = 1 / ((double)compared + 2);
                const double prior = shares ? log(rest.weight[own] / all.total) : 0;
                const double target = prior - (1 - smooth) * distance(r, i, rest.mean[own]) / (2 * variance) +
                                      smooth * others / (double)count;
                sum += weight_at(r, i, l, weighted) * (target - log_sum);
            }
        }
    }
    return sum;
}

/* -- tests --------------------------------------------------------------------------------------------------------- */

/* With a bias. */
static const xsm_model_options biased = {.size = sizeof biased, .bias = 1};

static xsm_model *model_of(xsm_context *ctx, int32_t layout)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model_options options = biased;
    options.layout = layout;
    NEW(xsm_model, m, xsm_model_new_linear(ctx, FEATURES, CLASSES, &options, &m, &err));
    return m;
}

/* Returns whether the classes' shares count. */
static bool check_model(xsm_model *m, const rows *r, bool weighted, double variance)
{
    expected e;
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    assert_int_equal(p.layout, XSM_LAYOUT_CLASS_MAJOR);
    average(r, weighted, NULL, &e);
    double mean[FEATURES] = {0};
    for (size_t k = 0; k < CLASSES; k++) {
        for (size_t j = 0; j < FEATURES; j++) {
            mean[j] += e.weight[k] / e.total * e.mean[k][j];
        }
    }
    const double prior = log(e.weight[0] / e.total);
    double first = (double)p.bias[0];
    for (size_t j = 0; j < FEATURES; j++) {
        first -= (mean[j] * mean[j] - e.mean[0][j] * e.mean[0][j]) / (2 * variance);
    }
    const bool shares = fabs(first - prior) < fabs(first);
    for (size_t k = 0; k < CLASSES; k++) {
        double bias = shares ? log(e.weight[k] / e.total) : 0;
        for (size_t j = 0; j < FEATURES; j++) {
            const double weight = e.weight[k] > 0 ? (e.mean[k][j] - mean[j]) / variance : 0;
            assert_true(fabs((double)p.weight[k * p.class_step + j] - weight) < 1e-5 * (1 + fabs(weight)));
            bias += (mean[j] * mean[j] - e.mean[k][j] * e.mean[k][j]) / (2 * variance);
        }
        assert_true(e.weight[k] == 0 || fabs((double)p.bias[k] - bias) < 2e-5 * (1 + fabs(bias)));
        assert_true(isfinite(p.bias[k]));
    }
    /* The best class is that of the least distance, less its share's part; the empty one never is. */
    for (size_t i = 0; i < ROWS; i++) {
        double best = -(double)INFINITY, wanted = -(double)INFINITY;
        size_t found = 0, right = 0;
        for (size_t k = 0; k < CLASSES; k++) {
            double score = (double)p.bias[k];
            for (size_t j = 0; j < FEATURES; j++) {
                score += (double)p.weight[k * p.class_step + j] * (double)r->values[i * FEATURES + j];
            }
            found = score > best ? k : found;
            best = fmax(score, best);
            const double exact = e.weight[k] > 0
                                     ? (shares ? log(e.weight[k]) : 0) - distance(r, i, e.mean[k]) / (2 * variance)
                                     : -(double)INFINITY;
            right = exact > wanted ? k : right;
            wanted = fmax(exact, wanted);
        }
        assert_int_equal(found, right);
    }
    return shares;
}

/* Dense and sparse rows, one or two labels, with weights or without, whatever the layout before. */
TEST(by_definition)
{
    static rows r;
    int with = 0;
    for (int i = 0; i < 8; i++) {
        const bool several = i & 1, sparse = i & 2, weighted = i == 4 || i == 5;
        double variance = 0;
        make_rows(&r, several, i >= 6, 0, 1.5);
        HELD(xsm_dataset, d) = dataset_of(NULL, &r, sparse, weighted);
        HELD(xsm_model, m) = model_of(NULL, sparse ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR);
        assert_ok(xsm_fit_class_means(NULL, m, d, &variance, &err), err);
        const bool shares = check_model(m, &r, weighted, variance);
        /* All rows and classes were looked at, as they are few: the likelihood is at its maximum. */
        const double most = likelihood(&r, weighted, variance, shares);
        assert_true(most > likelihood(&r, weighted, variance * 1.05, shares));
        assert_true(most > likelihood(&r, weighted, variance / 1.05, shares));
        for (double other = variance / 8; other < variance * 8; other *= 1.5) {
            assert_true(most > likelihood(&r, weighted, other, !shares));
        }
        with += shares;
        /* Again, over weights that are not 0. */
        double again = 0;
        assert_ok(xsm_fit_class_means(NULL, m, d, &again, &err), err);
        assert_true(again == variance);
    }
    assert_true(with > 0 && with < 8);
}

/* Columns far from 0, of which float32 keeps few digits, change nothing but those digits. */
TEST(offsets)
{
    static rows r;
    make_rows(&r, false, false, 4096, 1.5);
    HELD(xsm_dataset, d) = dataset_of(NULL, &r, false, false);
    HELD(xsm_model, m) = model_of(NULL, XSM_LAYOUT_CLASS_MAJOR);
    double variance = 0;
    assert_ok(xsm_fit_class_means(NULL, m, d, &variance, &err), err);
    check_model(m, &r, false, variance);
}

/* Where each class has one row, or all rows are the same, there are probabilities all the same. */
TEST(nothing_known)
{
    static const float values[] = {0, 0, 0, 2, 3, 0, 3, 3};
    static const uint32_t labels[] = {0, 1, 2, 3}, one[] = {0, 0, 1, 1};
    for (int same = 0; same < 2; same++) {
        const xsm_labels of = {.size = sizeof of, .classes = 4, .labels = same ? one : labels};
        const xsm_dense_rows dense = {.size = sizeof dense,
                                      .values = values,
                                      .stride = same ? 0 : 2,
                                      .rows = same ? 1 : 4,
                                      .features = 2,
                                      .labels = &of};
        xsm_parameters p = XSM_PARAMETERS_INIT;
        double variance = 0;
        MADE(xsm_dataset, d, xsm_dataset_from_dense(NULL, &dense, &d, &err));
        MADE(xsm_model, m, xsm_model_new_linear(NULL, 2, 4, &biased, &m, &err));
        assert_ok(xsm_fit_class_means(NULL, m, d, &variance, &err), err);
        assert_true(variance > 0 && isfinite(variance));
        assert_ok(xsm_model_get_parameters(m, &p, &err), err);
        for (size_t i = 0; i < (same ? 1 : 4); i++) {
            for (size_t k = 0; k < 4; k++) {
                double gap = 0; /* of the row's class to class k */
                for (size_t j = 0; j < 2; j++) {
                    gap += (double)(p.weight[i * p.class_step + j] - p.weight[k * p.class_step + j]) *
                           (double)values[2 * i + j];
                }
                assert_true(i == k || gap + (double)(p.bias[i] - p.bias[k]) > 0.1);
            }
        }
    }
}

/* More classes and rows than are compared: the variance is near that of all; rows are of the class that is nearest. */
TEST(many_classes)
{
    enum { MANY = 3000, EACH = 4, WIDTH = 16 };
    static float values[MANY * EACH * WIDTH];
    static uint32_t labels[MANY * EACH];
    uint64_t random = 9;
    for (size_t k = 0; k < MANY; k++) {
        float centre[WIDTH];
        for (size_t j = 0; j < WIDTH; j++) {
            centre[j] = (float)(1.5 * next(&random));
        }
        for (size_t i = k * EACH; i < (k + 1) * EACH; i++) {
            labels[i] = (uint32_t)k;
            for (size_t j = 0; j < WIDTH; j++) { /* a sum of three uniform numbers has the variance 1/4 */
                values[i * WIDTH + j] = centre[j] + (float)(next(&random) + next(&random) + next(&random));
            }
        }
    }
    xsm_context *ctx[2] = {NULL, NULL};
    uint64_t hashes[2];
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(xsm_context_new(STRUCT(xsm_context_options, .threads = 1 + 2 * i), &ctx[i], &err), err);
        const xsm_labels of = {.size = sizeof of, .classes = MANY, .labels = labels};
        const xsm_dense_rows dense = {
            .size = sizeof dense, .values = values, .rows = MANY * EACH, .features = WIDTH, .labels = &of};
        double variance = 0;
        NEW(xsm_dataset, d, xsm_dataset_from_dense(ctx[i], &dense, &d, &err));
        NEW(xsm_model, m, xsm_model_new_linear(ctx[i], WIDTH, MANY, &biased, &m, &err));
        assert_ok(xsm_fit_class_means(ctx[i], m, d, &variance, &err), err);
        /* Means of a few rows have a variance, too: a row is (1 + 1/3) / 4 from that of the others of its class. */
        assert_true(variance > 0.3 && variance < 0.5);
        hashes[i] = test_hash(m);
        xsm_model_free(m);
        xsm_dataset_free(d);
        xsm_context_free(ctx[i]);
    }
    assert_true(hashes[0] == hashes[1]);
}

TEST(errors)
{
    static rows r;
    make_rows(&r, false, false, 0, 1);
    xsm_dataset *d = dataset_of(NULL, &r, false, false);
    HELD(xsm_model, m) = model_of(NULL, XSM_LAYOUT_CLASS_MAJOR);
    assert_fails(xsm_fit_class_means(NULL, NULL, d, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_fit_class_means(NULL, m, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    NEW(xsm_model, other, xsm_model_new_linear(NULL, FEATURES + 1, CLASSES, &biased, &other, &err));
    assert_fails(xsm_fit_class_means(NULL, other, d, NULL, &err), XSM_ERROR_SHAPE, err);
    xsm_model_free(other);
    assert_ok(xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, &other, &err), err);
    assert_fails(xsm_fit_class_means(NULL, other, d, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_non_null(strstr(err.message, "bias"));
    xsm_model_free(other);
    assert_ok(xsm_model_new_linear(NULL, FEATURES, CLASSES, &biased, &other, &err), err);
    assert_ok(xsm_model_set_geometry(other, XSM_GEOMETRY_EUCLIDEAN, &err), err);
    assert_fails(xsm_fit_class_means(NULL, other, d, NULL, &err), XSM_ERROR_UNSUPPORTED, err);
    xsm_model_free(other);
    xsm_dataset_free(d);
    memset(r.weights, 0, sizeof r.weights);
    d = dataset_of(NULL, &r, false, true);
    assert_fails(xsm_fit_class_means(NULL, m, d, NULL, &err), XSM_ERROR_DATA, err);
    xsm_dataset_free(d);
    /* Weights that float32 cannot hold leave none. */
    for (size_t i = 0; i < ROWS * FEATURES; i++) {
        r.values[i] *= 1e-42f;
    }
    d = dataset_of(NULL, &r, false, false);
    assert_fails(xsm_fit_class_means(NULL, m, d, NULL, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "'standard'"));
    xsm_parameters p = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &p, &err), err);
    for (size_t k = 0; k < CLASSES; k++) {
        assert_true(p.bias[k] == 0 && p.weight[k * p.class_step] == 0);
    }
    xsm_dataset_free(d);
}

static xsm_status fit_means(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsm_dataset *d = state;
    HELD(xsm_model, m) = NULL;
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, &biased, &m, err);
    if (status == XSM_OK) {
        status = xsm_fit_class_means(ctx, m, d, NULL, err);
    }
    return status;
}

TEST(interrupted)
{
    static rows r;
    make_rows(&r, true, false, 0, 1);
    HELD(xsm_dataset, d) = dataset_of(NULL, &r, true, false);
    assert_true(test_every_allocation(fit_means, d) > 7);
    test_every_poll(fit_means, d, 1, 3, "averaging classes, comparing classes");
    test_every_poll(fit_means, d, 3, 3, "averaging classes, comparing classes");
}
