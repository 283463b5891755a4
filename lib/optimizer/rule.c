/* The steps of a table's rule: gradients are summed for a few weights at a time, which the rule then changes. */
#include "base/order.h"
#include "optimizer/step.h"

#include <math.h>
#include <string.h>

/* Weights that are copied or scaled together, or whose gradients are scaled in one call of a rule. */
enum { PIECE = 128 };

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Applies the rule to weights that are not next to each other: copies them and writes them back. */
static void rule_on_copies(const xsm_optimizer *o, const xsmi_row *row, const xsmi_features *x, float factor,
                           const xsm_step *step)
{
    const uint32_t count = o->ops.accumulators;
    float sums[PIECE], weights[PIECE], copies[XSM_OPTIMIZER_ACCUMULATORS][PIECE];
    float *accumulators[XSM_OPTIMIZER_ACCUMULATORS];
    size_t at[PIECE];
    for (size_t start = 0, n; start < x->count; start += n) {
        n = XSMI_MIN(x->count - start, (size_t)PIECE);
        for (size_t i = 0; i < n; i++) {
            at[i] = (x->index ? x->index[start + i] : start + i) * row->stride;
            sums[i] = factor * x->values[start + i];
            weights[i] = row->weights[at[i]];
        }
        for (uint32_t j = 0; j < count; j++) {
            accumulators[j] = copies[j];
            for (size_t i = 0; i < n; i++) {
                copies[j][i] = row->accumulators[j][at[i]];
            }
        }
        o->ops.rule(o->state, weights, accumulators, sums, n, step);
        for (size_t i = 0; i < n; i++) {
            row->weights[at[i]] = weights[i];
        }
        for (uint32_t j = 0; j < count; j++) {
            for (size_t i = 0; i < n; i++) {
                row->accumulators[j][at[i]] = copies[j][i];
            }
        }
    }
}

static void rule_scaled(const xsm_optimizer *o, const xsmi_row *row, const xsmi_features *x, float factor,
                        const xsm_step *step)
{
    float sums[PIECE], *accumulators[XSM_OPTIMIZER_ACCUMULATORS];
    for (size_t start = 0, n; start < x->count; start += n) {
        n = XSMI_MIN(x->count - start, (size_t)PIECE);
        for (size_t i = 0; i < n; i++) {
            sums[i] = factor * x->values[start + i];
        }
        for (uint32_t j = 0; j < o->ops.accumulators; j++) {
            accumulators[j] = row->accumulators[j] + start;
        }
        o->ops.rule(o->state, row->weights + start, accumulators, sums, n, step);
    }
}

/* -- rates by row -------------------------------------------------------------------------------------------------- */

/*
 * The steps of a table with row_rate(): a rate for each row, by the mean square of its gradients.
 *
 * Dense and sparse rows give the gradients in different orders, and the mean must have the same bits in each. So the
 * gradients are rounded to 15 bits of the largest, and their squares are summed as integers, whose order does not
 * matter.
 */

enum { BITS = 15 }; /* of a rounded gradient */

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

/* Takes the step of a table with row_rate() on a row whose whole gradient is factor*x. */
static void step_by_row_rates(const xsm_optimizer *o, const xsmi_row *row, const xsmi_features *x, float factor,
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

void xsmi_rule_row(const xsm_optimizer *o, const xsmi_row *row, const xsmi_features *x, float factor,
                   const xsm_step *step)
{
    const bool together = row->stride == 1;
    if (o->ops.row_rate) {
        step_by_row_rates(o, row, x, factor, step);
    } else if (together && !x->index && factor == 1) {
        o->ops.rule(o->state, row->weights, row->accumulators, x->values, x->count, step);
    } else if (together && o->ops.scaled) {
        const xsm_scaled_gradient g = {sizeof g, x->values, x->index, x->count, factor, 0};
        o->ops.scaled(o->state, row->weights, row->accumulators, &g, step);
    } else if (together && !x->index) {
        rule_scaled(o, row, x, factor, step);
    } else {
        rule_on_copies(o, row, x, factor, step);
    }
}

void xsmi_rule_bias(const xsm_optimizer *o, uint32_t first, const xsmi_features *x, const xsm_step *step)
{
    xsmi_row row = {.weights = o->model->w.bias + first, .stride = 1};
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        row.accumulators[i] = o->accumulators[i].w.bias + first;
    }
    if (!o->ops.row_rate) {
        xsmi_rule_row(o, &row, x, 1, step);
        return;
    }
    for (size_t i = 0; i < x->count; i++) { /* each is a row by itself */
        xsmi_row one = {.weights = row.weights + (x->index ? x->index[i] : i), .stride = 1};
        for (uint32_t j = 0; j < o->ops.accumulators; j++) {
            one.accumulators[j] = row.accumulators[j] + (one.weights - row.weights);
        }
        step_by_row_rates(o, &one, &(xsmi_features){x->values + i, NULL, 1}, 1, step);
    }
}

void xsmi_optimizer_fetch(const xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes)
{
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        const xsmi_weights *w = &o->accumulators[i].w;
        for (uint32_t j = 0; j < count; j++) {
            const float *row = w->weight + (size_t)classes[j] * w->stride;
            const size_t n = xsmi_optimizer_numbers(o, x->count);
            for (size_t l = 0; x->index && l < n; l++) {
                __builtin_prefetch(row + (w->stride > 1 ? x->index[l] : 0), 1, 3);
            }
            for (size_t l = 0; !x->index && l < n; l += XSMI_LINE) {
                xsmi_prefetch_line(row + l);
            }
            if (w->bias) {
                __builtin_prefetch(w->bias + classes[j], 1, 3);
            }
        }
    }
}

/* -- examples and classes ------------------------------------------------------------------------------------------ */

void xsmi_rule_example(const xsm_optimizer *o, const xsmi_example_step *s)
{
    const xsmi_entries *list = &s->entries;
    xsmi_row row;
    xsm_scaled_gradient g = {sizeof g, s->x->values, s->x->index, s->x->count, 0, 0};
    for (uint32_t j = 0; j < list->count; j++) {
        xsmi_row_of_class(o, list->classes[j], &row);
        if (row.stride == 1 && o->ops.scaled) { /* the most frequent case of single steps */
            g.factor = list->coefficients[j];
            o->ops.scaled(o->state, row.weights, row.accumulators, &g, &s->step);
        } else {
            xsmi_rule_row(o, &row, s->x, list->coefficients[j], &s->step);
        }
    }
    if (o->model->w.bias) {
        xsmi_rule_bias(o, 0, &(xsmi_features){list->coefficients, list->classes, (size_t)list->count}, &s->step);
    }
}

/* Returns entry j of a class. */
static uint64_t entry_at(const xsm_gradient *g, uint32_t class, const uint64_t *entries, size_t j)
{
    return entries ? entries[j] : xsmi_gradient_entry(g, j, class);
}

/* Applies a rule to a class's sums over features; sums[] is zero before and afterwards. A feature of several examples
 * is taken at its first example; its sum is 0 at the others. A table with row_rate() gets all of them at once, in the
 * scratch that follows the zeros. */
static void rule_sparse(const xsmi_step *s, const xsmi_row *row, uint32_t class, const uint64_t *entries, size_t count,
                        float *sums)
{
    const xsm_optimizer *o = s->optimizer;
    const uint32_t first = 0;
    const size_t features = o->model->features, most = o->ops.row_rate ? features : PIECE;
    uint32_t few[PIECE], *index = o->ops.row_rate ? (uint32_t *)(sums + xsmi_rule_zeros(o->model) + features) : few;
    float few_values[PIECE], *values = o->ops.row_rate ? sums + xsmi_rule_zeros(o->model) : few_values;
    size_t n = 0;
    for (size_t j = 0; j < count; j++) {
        const uint64_t entry = entry_at(s->g, class, entries, j);
        xsmi_features x = xsmi_batch_features(s->batch, xsmi_gradient_example(s->g, entry));
        o->model->kernels->sparse_scatter_update(sums, 0, &first, 1, x.index, x.values, x.count,
                                                 xsmi_gradient_coefficient(s->g, entry));
    }
    for (size_t j = 0; j < count; j++) {
        const uint64_t entry = entry_at(s->g, class, entries, j);
        xsmi_features x = xsmi_batch_features(s->batch, xsmi_gradient_example(s->g, entry));
        for (size_t i = 0; i < x.count; i++) {
            if (sums[x.index[i]] != 0) {
                index[n] = x.index[i];
                values[n++] = sums[x.index[i]];
                sums[x.index[i]] = 0;
            }
            if (n == most) {
                xsmi_rule_row(o, row, &(xsmi_features){values, index, n}, 1, &s->step);
                n = 0;
            }
        }
    }
    xsmi_rule_row(o, row, &(xsmi_features){values, index, n}, 1, &s->step);
}

static void rule_dense(const xsmi_step *s, const xsmi_row *row, uint32_t class, const uint64_t *entries, size_t count,
                       float *sums)
{
    const xsm_model *m = s->optimizer->model;
    for (size_t j = 0; j < count; j++) {
        const uint64_t entry = entry_at(s->g, class, entries, j);
        xsmi_features x = xsmi_batch_features(s->batch, xsmi_gradient_example(s->g, entry));
        m->kernels->axpby(sums, x.values, x.count, *xsmi_gradient_coefficient(s->g, entry), 1);
    }
    xsmi_rule_row(s->optimizer, row, &(xsmi_features){sums, NULL, m->features}, 1, &s->step);
    memset(sums, 0, m->features * sizeof *sums);
}

void xsmi_rule_class(const xsmi_step *s, uint32_t class, const uint64_t *entries, size_t count, uint32_t thread)
{
    const xsm_optimizer *o = s->optimizer;
    xsmi_row row;
    float *sums = o->sums + thread * o->sums_each, bias = 0;
    for (size_t j = 0; o->model->w.bias && j < count; j++) {
        bias += *xsmi_gradient_coefficient(s->g, entry_at(s->g, class, entries, j));
    }
    if (o->model->w.bias) {
        xsmi_rule_bias(o, class, &(xsmi_features){&bias, NULL, 1}, &s->step);
    }
    xsmi_row_of_class(o, class, &row);
    if (count == 1) {
        const uint64_t entry = entry_at(s->g, class, entries, 0);
        xsmi_features x = xsmi_batch_features(s->batch, xsmi_gradient_example(s->g, entry));
        xsmi_rule_row(o, &row, &x, *xsmi_gradient_coefficient(s->g, entry), &s->step);
    } else if (xsmi_batch_sparse(s->batch)) {
        rule_sparse(s, &row, class, entries, count, sums);
    } else {
        rule_dense(s, &row, class, entries, count, sums);
    }
}

/* -- tiles of a feature-major model -------------------------------------------------------------------------------- */

void xsmi_rule_tile(const xsmi_step *s, const xsmi_class_tile *tile, uint32_t thread)
{
    const xsm_optimizer *o = s->optimizer;
    const xsmi_kernels *kernels = o->model->kernels;
    const xsmi_feature_list *list = tile->list;
    xsmi_row row;
    float *sums = o->sums + thread * o->sums_each;
    if (o->model->w.bias) {
        for (uint64_t i = 0; i < tile->examples; i++) {
            kernels->axpby(sums, tile->coefficients + i * tile->stride, tile->count, 1, 1);
        }
        xsmi_rule_bias(o, tile->first, &(xsmi_features){sums, NULL, tile->count}, &s->step);
        memset(sums, 0, tile->count * sizeof *sums);
    }
    const xsmi_example_rows rows = {kernels, tile->coefficients, tile->stride, tile->count};
    for (size_t f = 0; f < list->founds; f++) {
        if (f + 1 < list->founds) {
            xsmi_row_at(o, list->found[f + 1], tile->first, &row);
            xsmi_prefetch_weights(o, &row, tile->count);
        }
        float factor;
        const float *sum = xsmi_feature_list_sum(list, f, &rows, sums, &factor);
        xsmi_row_at(o, list->found[f], tile->first, &row);
        xsmi_rule_row(o, &row, &(xsmi_features){sum, NULL, tile->count}, factor, &s->step);
        if (sum == sums) {
            memset(sums, 0, tile->count * sizeof *sums);
        }
    }
}
