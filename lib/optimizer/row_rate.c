/*
 * The steps of a table with row_rate(): a rate for each row, by the mean square of its gradients.
 *
 * Dense and sparse rows give the gradients in different orders, and the mean must have the same bits in each. So the
 * gradients are rounded to 15 bits of the largest, and their squares are summed as integers, whose order is no matter.
 */
#include "base/order.h"
#include "optimizer/step.h"

#include <math.h>
#include <string.h>

enum {
    BITS = 15,  /* of a rounded gradient */
    PIECE = 128 /* weights that are scaled or copied together */
};

/* Squares of smaller gradients are nothing beside any sum; of larger ones, no finite float. */
#define LEAST 1e-18f
#define MOST 1e18f

/* Returns the largest |factor*x| and how many are above 0, by their bits, which compilers turn into vectors. */
static float find_largest(const xsmi_features *x, float factor, uint32_t *used)
{
    int32_t most = 0;
    uint32_t above = 0;
    for (size_t i = 0; i < x->count; i++) {
        const float t = factor * x->values[i];
        int32_t bits;
        memcpy(&bits, &t, sizeof bits);
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
        above += bits > 0;
    }
    float largest;
    memcpy(&largest, &most, sizeof largest);
    *used = above;
    return largest;
}

/* Returns the mean of the squares of factor*x that are not 0. */
static float mean_square(const xsmi_features *x, float factor)
{
    uint32_t used;
    const float largest = find_largest(x, factor, &used);
    if (!(largest >= LEAST && largest < MOST)) {
        return largest * largest;
    }
    int exponent;
    (void)frexpf(largest, &exponent);
    const float scale = ldexpf(1, BITS - exponent);
    uint64_t sum = 0;
    for (size_t i = 0; i < x->count; i++) {
        const uint32_t rounded = (uint32_t)(int32_t)(fabsf(factor * x->values[i]) * scale + 0.5f);
        sum += (uint64_t)rounded * rounded;
    }
    return (float)ldexp((double)sum / used, 2 * (exponent - BITS));
}

/* Changes n weights that are not next to each other: copies them and writes them back. */
static void change_apart(const xsm_optimizer *o, const xsmi_row *row, const xsmi_features *x, size_t n,
                         const float *sums, float rate)
{
    float weights[PIECE];
    size_t at[PIECE];
    for (size_t i = 0; i < n; i++) {
        at[i] = x->index ? x->index[i] * row->stride : i * row->stride;
        weights[i] = row->weights[at[i]];
    }
    o->model->kernels->axpby(weights, sums, n, -rate, 1);
    for (size_t i = 0; i < n; i++) {
        row->weights[at[i]] = weights[i];
    }
}

void xsmi_row_rate_step(const xsm_optimizer *o, const xsmi_row *row, const xsmi_features *x, float factor,
                        const xsm_step *step)
{
    const float rate = o->ops.row_rate(o->state, row->accumulators, mean_square(x, factor), step);
    const bool together = row->stride == 1 && !x->index;
    float sums[PIECE];
    if (together && factor == 1) {
        o->model->kernels->axpby(row->weights, x->values, x->count, -rate, 1);
        return;
    }
    for (size_t start = 0, n; start < x->count; start += n) {
        n = XSMI_MIN(x->count - start, (size_t)PIECE);
        for (size_t i = 0; i < n; i++) {
            sums[i] = factor * x->values[start + i];
        }
        if (together) {
            o->model->kernels->axpby(row->weights + start, sums, n, -rate, 1);
        } else {
            const xsmi_row rest = {.weights = row->weights + (x->index ? 0 : start * row->stride),
                                   .stride = row->stride};
            const xsmi_features piece = {NULL, x->index ? x->index + start : NULL, n};
            change_apart(o, &rest, &piece, n, sums, rate);
        }
    }
}
