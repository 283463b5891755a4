/*
 * Linear steps: decay * (weights - eta*gradient). With W = alpha * row_scale * rows, the gradient is added to the rows
 * at the scales before the step, and the scales take the decay after it. So the L2 penalty (ridge) costs one
 * multiplication a step and one for each changed row of weights, and a sparse example changes the weights of its own
 * features only.
 */
#include "base/activity.h"
#include "base/order.h"
#include "optimizer/step.h"

#include <math.h>
#include <string.h>

/* Rows of weights in one call of a kernel. */
#define GROUP 32

static void shrink_row(xsm_model *m, uint32_t k, double shrink)
{
    if (shrink != 1) {
        atomic_store_explicit(&m->w.unscaled, false, memory_order_relaxed);
        m->w.row_scale[k] *= shrink;
        if (m->w.row_scale[k] < XSMI_ROW_SCALE_LEAST) {
            xsmi_model_fold_row(m, k);
        }
    }
}

/*
 * Updates the lengths of rows for w + a x by ||w + a x||^2 = ||w||^2 + 2 a w.x + a^2 ||x||^2, before the rows change.
 * The accumulated rounding error stays below float32's own accuracy, because each length is recomputed after some
 * updates, or when most of it has cancelled.
 */
static void carry_lengths(xsm_model *m, const xsmi_features *x, uint32_t count, const uint32_t *rows,
                          const float *amounts)
{
    float dots[GROUP];
    if (x->index) {
        m->kernels->sparse_gather_scores(m->w.weight, m->w.stride, rows, count, x->index, x->values, x->count, dots);
    } else {
        m->kernels->gather_scores(m->w.weight, m->w.stride, rows, count, x->values, x->count, dots, NULL);
    }
    double norm = (double)m->kernels->dot(x->values, x->values, x->count);
    for (uint32_t j = 0; j < count; j++) {
        xsmi_row_length *length = &m->row_length[rows[j]];
        double a = (double)amounts[j], old = length->square;
        length->square = old + a * (2 * (double)dots[j] + a * norm);
        bool good = length->square > 0.01 * old && length->square < INFINITY;
        length->age = good ? length->age + 1 : UINT64_MAX;
    }
}

/* Returns the number of updates after which a row's length is recomputed: this costs little beside sparse steps. */
static uint64_t age_limit(const xsm_model *m)
{
    return 1024 + m->features / 16;
}

/* Adds a step without regard to the maximum row norm. */
static void add(xsm_model *m, const xsmi_example_step *s)
{
    const xsmi_features *x = s->x;
    const xsmi_entries *entries = &s->entries;
    const double *row_scale = xsmi_weights_scales(&m->w);
    float *bias = xsmi_model_learned_bias(m), amounts[GROUP];
    for (uint64_t start = 0; start < entries->count; start += GROUP) {
        uint32_t group = (uint32_t)XSMI_MIN(entries->count - start, (uint64_t)GROUP);
        const uint32_t *rows = entries->classes + start;
        for (uint32_t j = 0; j < group; j++) {
            double change = -s->step.eta * (double)entries->coefficients[start + j];
            if (bias) {
                bias[rows[j]] = (float)((double)bias[rows[j]] + change);
            }
            double scale = row_scale ? s->alpha * row_scale[rows[j]] : s->alpha;
            amounts[j] = (float)(change / scale);
        }
        if (m->row_length) {
            carry_lengths(m, x, group, rows, amounts);
        }
        xsmi_weights_add(&m->w, x, rows, group, amounts);
        for (uint32_t j = 0; m->row_length && j < group; j++) {
            if (m->row_length[rows[j]].age > age_limit(m)) {
                xsmi_model_sum_row_length(m, rows[j]);
            }
        }
        for (uint32_t j = 0; entries->shrinks && j < group; j++) {
            shrink_row(m, rows[j], entries->shrinks[start + j]);
        }
    }
}

static void bound_row(xsm_model *m, uint32_t k, double alpha, double bound)
{
    double length = alpha * m->w.row_scale[k] * sqrt(m->row_length[k].square);
    if (length > bound) {
        shrink_row(m, k, bound / length);
    }
}

void xsmi_linear_example(xsm_model *m, const xsmi_example_step *s)
{
    const bool pulls = xsmi_model_pulls(m);
    for (uint32_t j = 0; pulls && j < s->entries.count; j++) {
        xsmi_model_pull(m, s->entries.classes[j], (double)s->entries.coefficients[j], s->step.eta);
    }
    add(m, s);
    for (uint32_t j = 0; pulls && j < s->entries.count; j++) {
        xsmi_model_settle(m, s->entries.classes[j]);
    }
    for (uint32_t j = 0; s->bound > 0 && j < s->entries.count; j++) {
        bound_row(m, s->entries.classes[j], s->next_alpha, s->bound);
    }
}

void xsmi_linear_class(const xsmi_step *s, uint32_t class, const uint64_t *entries, size_t count)
{
    xsm_model *m = s->optimizer->model;
    const xsm_gradient *g = s->g;
    xsmi_features x;
    xsmi_example_step one = {.x = &x, .entries = {1, &class, NULL, NULL}, .alpha = s->alpha, .step = s->step};
    if (s->distances) {
        double sum = 0;
        for (size_t j = 0; j < count; j++) {
            sum += (double)*xsmi_gradient_coefficient(g, entries[j]);
        }
        xsmi_model_pull(m, class, sum, s->step.eta);
    }
    for (size_t j = 0; j < count; j++) {
        x = xsmi_batch_features(s->batch, xsmi_gradient_example(g, entries[j]));
        one.entries.coefficients = xsmi_gradient_coefficient(g, entries[j]);
        one.entries.shrinks = xsmi_gradient_shrink(g, entries[j]);
        add(m, &one);
    }
    if (s->distances) {
        xsmi_model_settle(m, class);
    }
    if (g->row_bound > 0) {
        bound_row(m, class, s->next_alpha, g->row_bound);
    }
}

void xsmi_linear_sum(const xsmi_step *s, uint32_t class, const float *sum, float bias)
{
    xsm_model *m = s->optimizer->model;
    const double scale = m->w.row_scale ? s->alpha * m->w.row_scale[class] : s->alpha;
    m->kernels->axpby(m->w.weight + (size_t) class * m->w.stride, sum, m->features, (float)(-s->step.eta / scale), 1);
    if (m->w.bias) {
        m->w.bias[class] = (float)((double)m->w.bias[class] - s->step.eta * (double)bias);
    }
}

/* -- every class --------------------------------------------------------------------------------------------------- */

/* Examples and classes of one product. The number of classes is a multiple of every kernel's block size; their weights
 * stay in the L2 cache while all examples of a batch use them. */
enum { RANGE_EXAMPLES = 128, RANGE_CLASSES = 84, RANGE_FLOATS = RANGE_EXAMPLES * RANGE_CLASSES };

/* Polls only call the hook: a step must be completed, unless it can be undone (step.c). */
#define POLL_WORK 16384    /* features of all examples, below which a product does not poll */
#define POLL_EXAMPLES 4096 /* between two polls of a product, for each range of classes */
#define POLL_ROWS 64       /* between two polls of another step: examples */

size_t xsmi_linear_sums(const xsmi_step *s)
{
    return xsmi_gradient_is_dense(s->g) && xsmi_step_is_product(s) ? RANGE_FLOATS : 0;
}

/* Adds dense rows to a class-major model by a blocked product. `amounts` is scratch of RANGE_FLOATS, zeros after it. */
static void range_dense(const xsmi_step *s, const xsmi_class_matrix *range, float scale, float *amounts)
{
    const xsm_model *m = s->optimizer->model;
    const uint32_t first = range->first, count = (uint32_t)range->count;
    const uint64_t examples = s->batch->count;
    const bool polls = examples * m->features >= POLL_WORK;
    for (uint32_t c = 0; c < count; c += RANGE_CLASSES) {
        size_t classes = XSMI_MIN(count - c, (uint32_t)RANGE_CLASSES);
        if (s->undoes && !xsmi_undo_save(s, first + c, classes)) {
            break;
        }
        for (uint64_t start = 0; start < examples; start += RANGE_EXAMPLES) {
            size_t n = (size_t)XSMI_MIN(examples - start, (uint64_t)RANGE_EXAMPLES);
            if (polls && start % POLL_EXAMPLES == 0) {
                (void)xsmi_poll(s->optimizer->context);
            }
            for (size_t i = 0; i < n; i++) {
                const float *from = range->coefficients + (start + i) * range->stride + c;
                for (size_t k = 0; k < classes; k++) {
                    amounts[i * RANGE_CLASSES + k] = scale * from[k];
                }
            }
            m->kernels->rank_packed(true, m->w.weight + (size_t)(first + c) * m->w.stride, m->w.stride, classes,
                                    amounts, 1, RANGE_CLASSES, s->optimizer->packed + start * XSMI_LANES, xsmi_pitch(s),
                                    n, m->features, NULL);
        }
    }
    memset(amounts, 0, (size_t)XSMI_MIN(examples, (uint64_t)RANGE_EXAMPLES) * RANGE_CLASSES * sizeof *amounts);
}

/* Adds a sparse example to a class-major model. */
static void range_sparse(const xsm_model *m, const xsmi_features *x, const float *coefficients, uint32_t first,
                         uint32_t count, float scale)
{
    uint32_t rows[GROUP];
    float amounts[GROUP];
    for (uint32_t start = 0; start < count; start += GROUP) {
        uint32_t group = XSMI_MIN(count - start, (uint32_t)GROUP);
        for (uint32_t j = 0; j < group; j++) {
            rows[j] = first + start + j;
            amounts[j] = scale * coefficients[start + j];
        }
        m->kernels->sparse_scatter_update(m->w.weight, m->w.stride, rows, group, x->index, x->values, x->count,
                                          amounts);
    }
}

static void add_range(const xsmi_step *s, const xsmi_class_matrix *range, float *scratch)
{
    const xsm_model *m = s->optimizer->model;
    const uint32_t first = range->first, count = (uint32_t)range->count;
    const float scale = (float)(-s->step.eta / s->alpha);
    float *bias = xsmi_model_learned_bias(m);
    for (uint64_t i = 0; bias && i < s->batch->count; i++) {
        m->kernels->axpby(bias + first, range->coefficients + i * range->stride, count, (float)-s->step.eta, 1);
    }
    if (xsmi_step_is_product(s)) {
        range_dense(s, range, scale, scratch);
        return;
    }
    for (uint64_t i = 0; i < s->batch->count; i++) {
        xsmi_features x = xsmi_batch_features(s->batch, (size_t)i);
        const float *from = range->coefficients + i * range->stride;
        if (i % POLL_ROWS == POLL_ROWS - 1) {
            (void)xsmi_poll(s->optimizer->context);
        }
        if (m->w.layout == XSM_LAYOUT_CLASS_MAJOR) {
            range_sparse(m, &x, from, first, count, scale);
        } else {
            m->kernels->column_update(m->w.weight + first, m->w.stride, x.index, x.values, x.count, count, from, scale);
        }
    }
}

void xsmi_linear_range(const xsmi_step *s, const xsmi_class_matrix *range, uint32_t thread)
{
    const xsm_optimizer *o = s->optimizer;
    xsm_model *m = o->model;
    for (uint32_t k = 0; s->distances && k < range->count; k++) {
        double sum = 0;
        for (uint64_t i = 0; i < s->batch->count; i++) {
            sum += (double)range->coefficients[i * range->stride + k];
        }
        xsmi_model_pull(m, range->first + k, sum, s->step.eta);
    }
    add_range(s, range, xsmi_step_is_product(s) ? o->sums + thread * o->sums_each : NULL);
    for (uint32_t k = 0; s->distances && k < range->count; k++) {
        xsmi_model_settle(m, range->first + k);
    }
}

/* The number of features by which weights in distant memory are prefetched ahead. */
#define FEATURES_AHEAD 2

void xsmi_linear_tile(const xsmi_step *s, const xsmi_class_tile *tile)
{
    enum { TOGETHER = 64 };
    const xsm_model *m = s->optimizer->model;
    const xsmi_feature_list *list = tile->list;
    const float scale = (float)(-s->step.eta / s->alpha);
    float amounts[TOGETHER];
    for (uint64_t i = 0; m->w.bias && i < tile->examples; i++) {
        m->kernels->axpby(m->w.bias + tile->first, tile->coefficients + i * tile->stride, tile->count,
                          (float)-s->step.eta, 1);
    }
    for (size_t f = 0; f < list->founds; f++) {
        float *weight = m->w.weight + list->found[f] * m->w.stride + tile->first;
        if (f + FEATURES_AHEAD < list->founds) {
            xsmi_prefetch_row(m->w.weight + list->found[f + FEATURES_AHEAD] * m->w.stride + tile->first, tile->count);
        }
        for (size_t start = list->starts[f], n; start < list->starts[f + 1]; start += n) {
            n = XSMI_MIN(list->starts[f + 1] - start, (size_t)TOGETHER);
            for (size_t j = 0; j < n; j++) {
                amounts[j] = scale * list->values[start + j];
            }
            m->kernels->column_sums(tile->coefficients, tile->stride, list->examples + start, amounts, n, tile->count,
                                    weight);
        }
    }
}
