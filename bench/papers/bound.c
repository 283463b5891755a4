/* The bounds, their gradients, and alpha. */
#include "bound.h"

#include <stdlib.h>
#include <string.h>

/* LANES: classes in a vector. TILE: rows whose gradient is summed in float before it is added to the doubles. */
enum { LANES = 8, TILE = 256 };
/* Score (logit) of the padding after the last class. */
#define NOWHERE (-1e4F)

struct bound {
    uint64_t rows;
    uint32_t features, classes;
    size_t width;      /* K rounded up to LANES */
    uint64_t *offsets; /* [rows + 1] */
    uint32_t *index, *of;
    float *values;
    float *weights, *part;          /* [D + 1][width] in float, and the gradient of a tile */
    float *scores, *likely, *slope; /* [width] of one row */
    double *alpha;                  /* [rows] */
    double ridge;
};

bound *bound_new(const xsm_dataset *train, double ridge)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    papers_check(xsm_dataset_get_info(train, &info, &err), &err);
    bound *b = papers_memory(1, sizeof *b);
    b->rows = info.rows;
    b->features = info.features;
    b->classes = info.classes;
    b->width = ((size_t)info.classes + LANES - 1) / LANES * LANES;
    b->ridge = ridge;
    b->offsets = papers_memory(info.rows + 1, sizeof *b->offsets);
    b->of = papers_memory(info.rows, sizeof *b->of);
    b->index = papers_memory(info.values, sizeof *b->index);
    b->values = papers_memory(info.values, sizeof *b->values);
    b->alpha = papers_memory(info.rows, sizeof *b->alpha);
    b->weights = papers_memory(((size_t)b->features + 1) * b->width, sizeof *b->weights);
    b->part = papers_memory(((size_t)b->features + 1) * b->width, sizeof *b->part);
    b->scores = papers_memory(b->width, sizeof *b->scores);
    b->likely = papers_memory(b->width, sizeof *b->likely);
    b->slope = papers_memory(b->width, sizeof *b->slope);
    uint64_t count = 0;
    for (uint64_t i = 0; i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        papers_check(xsm_dataset_get_row(train, i, &row, &err), &err);
        for (uint64_t j = 0; j < row.count; j++) {
            b->index[count] = row.index[j];
            b->values[count++] = row.values[j];
        }
        b->offsets[i + 1] = count;
        b->of[i] = row.labels[0];
    }
    return b;
}

void bound_free(bound *b)
{
    free(b->offsets);
    free(b->of);
    free(b->index);
    free(b->values);
    free(b->alpha);
    free(b->weights);
    free(b->part);
    free(b->scores);
    free(b->likely);
    free(b->slope);
    free(b);
}

static size_t weights_of(const bound *b)
{
    return ((size_t)b->features + 1) * b->classes;
}

size_t bound_size(const bound *b, bound_alpha how)
{
    return weights_of(b) + (how == BOUND_JOINT ? b->rows : 0);
}

static void score(const bound *b, uint64_t row)
{
    float *z = b->scores;
    memcpy(z, b->weights + b->features * b->width, b->width * sizeof *z);
    for (uint64_t j = b->offsets[row]; j < b->offsets[row + 1]; j++) {
        const float *w = b->weights + b->index[j] * b->width, x = b->values[j];
        for (size_t k = 0; k < b->width; k++) {
            z[k] += x * w[k];
        }
    }
}

static void add_outer(const bound *b, uint64_t row)
{
    const float *g = b->likely;
    float *bias = b->part + b->features * b->width;
    for (uint64_t j = b->offsets[row]; j < b->offsets[row + 1]; j++) {
        float *part = b->part + b->index[j] * b->width, x = b->values[j];
        for (size_t k = 0; k < b->width; k++) {
            part[k] += x * g[k];
        }
    }
    for (size_t k = 0; k < b->width; k++) {
        bias[k] += g[k];
    }
}

/* Writes sigma(z_k - alpha) to likely[]; returns their sum. */
static double logistics(const bound *b, double alpha)
{
    double sum = 0;
    for (size_t k = 0; k < b->width; k++) {
        float t = b->scores[k] - (float)alpha, e = expf(-fabsf(t));
        b->likely[k] = (t >= 0 ? 1 : e) / (1 + e);
        b->slope[k] = e / ((1 + e) * (1 + e));
        sum += (double)b->likely[k];
    }
    return sum;
}

/* The root of sum_k sigma(z_k - alpha) = 1 by Newton's method between bounds, starting from the previous root. The sum
 * is at least 1 if each of K terms is 1/K or the largest is 1/2, and at most 1 if e^z sums to 1. */
static double best_alpha(const bound *b, double alpha)
{
    double top = (double)b->scores[0], sum = 0;
    for (size_t k = 1; k < b->classes; k++) {
        top = fmax(top, (double)b->scores[k]);
    }
    for (size_t k = 0; k < b->classes; k++) {
        sum += exp((double)b->scores[k] - top);
    }
    double high = top + log(sum), low = high - log((double)b->classes) - 40;
    alpha = alpha > low && alpha < high ? alpha : high - 1;
    for (int step = 0; step < 60; step++) {
        double excess = logistics(b, alpha) - 1, slope = 0;
        for (size_t k = 0; k < b->width; k++) {
            slope += (double)b->slope[k];
        }
        low = excess > 0 ? alpha : low;
        high = excess > 0 ? high : alpha;
        double next = slope > 0 ? alpha + excess / slope : low;
        next = next > low && next < high ? next : (low + high) / 2;
        double moved = fabs(next - alpha);
        alpha = next;
        if (moved < 1e-5 * (1 + fabs(alpha))) {
            break;
        }
    }
    return alpha;
}

/* Adds a tile's sum to the gradient, and clears it. */
static void add_tile(const bound *b, double *gradient)
{
    for (size_t j = 0; j <= b->features; j++) {
        for (size_t k = 0; k < b->classes; k++) {
            gradient[j * b->classes + k] += (double)b->part[j * b->width + k];
        }
    }
    memset(b->part, 0, ((size_t)b->features + 1) * b->width * sizeof *b->part);
}

double bound_value(bound *b, bound_alpha how, const double *x, double *gradient)
{
    const size_t weights = weights_of(b);
    double total = 0, squares = 0;
    for (size_t j = 0; j <= b->features; j++) {
        for (size_t k = 0; k < b->width; k++) {
            float beyond = j < b->features ? 0 : NOWHERE;
            b->weights[j * b->width + k] = k < b->classes ? (float)x[j * b->classes + k] : beyond;
        }
    }
    memset(gradient, 0, weights * sizeof *gradient);
    for (uint64_t i = 0; i < b->rows; i++) {
        score(b, i);
        double target = (double)b->scores[b->of[i]];
        double alpha = how == BOUND_JOINT ? x[weights + i] : b->alpha[i];
        if (how == BOUND_BEST) {
            alpha = b->alpha[i] = best_alpha(b, alpha);
        }
        if (how == BOUND_NONE) {
            alpha = target;
        }
        double sum = logistics(b, alpha);
        total += alpha - target;
        for (size_t k = 0; k < b->classes; k++) {
            if (how == BOUND_NONE && k == b->of[i]) {
                continue; /* the term log(1 + e^0) of the row's own class is left out */
            }
            float t = b->scores[k] - (float)alpha;
            total += (double)(fmaxf(t, 0) + log1pf(expf(-fabsf(t))));
        }
        if (how == BOUND_JOINT) {
            gradient[weights + i] = 1 - sum;
        }
        /* One-vs-each: minus the sum over the other classes; the sum contains sigma(0) of the row's own class. */
        b->likely[b->of[i]] = how == BOUND_NONE ? (float)(0.5 - sum) : b->likely[b->of[i]] - 1;
        add_outer(b, i);
        if (i % TILE == TILE - 1 || i + 1 == b->rows) {
            add_tile(b, gradient);
        }
    }
    for (size_t j = 0; j < weights - b->classes; j++) {
        gradient[j] += b->ridge * x[j];
        squares += x[j] * x[j];
    }
    return total + b->ridge / 2 * squares;
}

double bound_of_model(bound *b, bound_alpha how, xsm_model *model)
{
    xsm_parameters of = XSM_PARAMETERS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_model_get_parameters(model, &of, &err), &err);
    double *x = papers_memory(bound_size(b, how), sizeof *x), *gradient = papers_memory(bound_size(b, how), sizeof *x);
    for (size_t j = 0; j <= b->features; j++) {
        for (size_t k = 0; k < b->classes; k++) {
            float w = j < b->features ? of.weight[k * of.class_step + j * of.feature_step] : of.bias[k];
            x[j * b->classes + k] = (double)w;
        }
    }
    double value = bound_value(b, how, x, gradient);
    free(x);
    free(gradient);
    return value;
}

void bound_to_model(const bound *b, const double *x, bool centred, xsm_model *model)
{
    xsm_parameters to = XSM_PARAMETERS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_model_get_parameters(model, &to, &err), &err);
    for (size_t j = 0; j <= b->features; j++) {
        double mean = 0;
        for (size_t k = 0; centred && k < b->classes; k++) {
            mean += x[j * b->classes + k] / b->classes;
        }
        for (size_t k = 0; k < b->classes; k++) {
            float *w = j < b->features ? &to.weight[k * to.class_step + j * to.feature_step] : &to.bias[k];
            *w = (float)(x[j * b->classes + k] - mean);
        }
    }
}
