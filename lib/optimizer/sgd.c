/*
 * Plain stochastic gradient steps. With W = alpha * row_scale * rows, the L2 penalty (ridge) costs one multiplication a
 * step and one for each changed row of weights, and a sparse example changes the weights of its own features only.
 */
#include "optimizer/optimizer.h"

#include <math.h>

/* Rows of weights in one call of a kernel. */
#define GROUP 32

/* Multiplies the scale of class k into its row. */
static void fold_row(xsm_model *m, uint32_t k)
{
    float scale = (float)m->row_scale[k];
    m->kernels->scale(m->weight + (size_t)k * m->stride, m->features, scale);
    m->row_scale[k] = 1;
    xsmi_model_sum_row_length(m, k);
}

static void shrink_row(xsm_model *m, uint32_t k, double shrink)
{
    if (shrink != 1) {
        m->row_scale[k] *= shrink;
        if (m->row_scale[k] < XSMI_ROW_SCALE_LEAST) {
            fold_row(m, k);
        }
    }
}

/*
 * Updates the lengths of rows for w + a x by ||w + a x||^2 = ||w||^2 + 2 a w.x + a^2 ||x||^2, before the rows change.
 * The accumulated rounding error stays below float32's own accuracy, because each length is recomputed now and then, or
 * when most of it is gone.
 */
static void carry_lengths(xsm_model *m, const xsmi_features *x, uint32_t count, const uint32_t *rows,
                          const float *amounts)
{
    float dots[GROUP];
    if (x->index) {
        m->kernels->sparse_gather_scores(m->weight, m->stride, rows, count, x->index, x->values, x->count, dots);
    } else {
        m->kernels->gather_scores(m->weight, m->stride, rows, count, x->values, x->count, dots, NULL);
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

/* The number of updates after which a row's length is recomputed: large enough that this costs little beside sparse
 * steps. */
static uint64_t age_limit(const xsm_model *m)
{
    return 1024 + m->features / 16;
}

/* w[feature][class] += a x for the listed classes of a feature-major model. */
static void add_feature_major(xsm_model *m, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                              const float *amounts)
{
    for (size_t i = 0; i < x->count; i++) {
        float *row = m->weight + (size_t)(x->index ? x->index[i] : i) * m->stride;
        for (uint32_t j = 0; j < count; j++) {
            row[classes[j]] += amounts[j] * x->values[i];
        }
    }
}

static void add(xsm_model *m, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                const float *coefficients, const double *shrinks, double eta, double alpha)
{
    float amounts[GROUP];
    for (uint32_t start = 0; start < count; start += GROUP) {
        uint32_t group = count - start < GROUP ? count - start : GROUP;
        const uint32_t *rows = classes + start;
        for (uint32_t j = 0; j < group; j++) {
            double change = -eta * (double)coefficients[start + j];
            if (m->bias && m->score == XSM_SCORE_LINEAR) {
                m->bias[rows[j]] = (float)((double)m->bias[rows[j]] + change);
            }
            double scale = m->row_scale ? alpha * m->row_scale[rows[j]] : alpha;
            amounts[j] = (float)(change / scale);
        }
        if (m->row_length) {
            carry_lengths(m, x, group, rows, amounts);
        }
        if (m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
            add_feature_major(m, x, group, rows, amounts);
        } else if (x->index) {
            m->kernels->sparse_scatter_update(m->weight, m->stride, rows, group, x->index, x->values, x->count,
                                              amounts);
        } else {
            m->kernels->scatter_update(m->weight, m->stride, rows, group, x->values, x->count, amounts, NULL);
        }
        for (uint32_t j = 0; m->row_length && j < group; j++) {
            if (m->row_length[rows[j]].age > age_limit(m)) {
                xsmi_model_sum_row_length(m, rows[j]);
            }
        }
        for (uint32_t j = 0; shrinks && j < group; j++) {
            shrink_row(m, rows[j], shrinks[start + j]);
        }
    }
}

static void bound_row(xsm_model *m, uint32_t k, double alpha, double bound)
{
    double length = alpha * m->row_scale[k] * sqrt(m->row_length[k].square);
    if (length > bound) {
        shrink_row(m, k, bound / length);
    }
}

static void step(xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                 const float *coefficients, const double *shrinks, double eta, double alpha, double bound)
{
    xsm_model *m = o->model;
    const bool distances = m->score != XSM_SCORE_LINEAR;
    for (uint32_t j = 0; distances && j < count; j++) {
        xsmi_model_pull(m, classes[j], (double)coefficients[j], eta);
    }
    add(m, x, count, classes, coefficients, shrinks, eta, alpha);
    for (uint32_t j = 0; distances && j < count; j++) {
        xsmi_model_settle(m, classes[j]);
    }
    for (uint32_t j = 0; bound > 0 && j < count; j++) {
        bound_row(m, classes[j], alpha, bound);
    }
}

static void step_class(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t class,
                       const uint64_t *entries, size_t count, double eta, double alpha, uint32_t thread)
{
    xsm_model *m = o->model;
    (void)thread;
    if (m->score != XSM_SCORE_LINEAR) {
        double sum = 0;
        for (size_t j = 0; j < count; j++) {
            sum += (double)g->coefficients[entries[j]];
        }
        xsmi_model_pull(m, class, sum, eta);
    }
    for (size_t j = 0; j < count; j++) {
        uint64_t place = entries[j];
        xsmi_features x = xsmi_batch_features(batch, (size_t)(place / g->width));
        add(m, &x, 1, &class, g->coefficients + place, g->proximal ? g->shrinks + place : NULL, eta, alpha);
    }
    if (m->score != XSM_SCORE_LINEAR) {
        xsmi_model_settle(m, class);
    }
    if (g->row_bound > 0) {
        bound_row(m, class, alpha, g->row_bound);
    }
}

static void step_sum(xsm_optimizer *o, uint32_t class, float *gradient, float bias, double eta, double alpha)
{
    xsm_model *m = o->model;
    const double scale = m->row_scale ? alpha * m->row_scale[class] : alpha;
    m->kernels->axpby(m->weight + (size_t) class * m->stride, gradient, m->features, (float)(-eta / scale), 1);
    if (m->bias) {
        m->bias[class] = (float)((double)m->bias[class] - eta * (double)bias);
    }
}

/* Examples and classes of one product. The number of classes is a multiple of every kernel's block size; their weights
 * stay in the second cache while all examples of a batch use them. */
enum { RANGE_EXAMPLES = 128, RANGE_CLASSES = 84, RANGE_FLOATS = RANGE_EXAMPLES * RANGE_CLASSES };

/* Whether step_range() computes blocked products, for which each thread has RANGE_FLOATS in o->sums. */
static bool is_blocked(const xsm_model *m, const xsm_batch *batch)
{
    return m->layout == XSM_LAYOUT_CLASS_MAJOR && !xsmi_batch_sparse(batch);
}

static xsm_status prepare(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, xsm_error *err)
{
    if (!batch || !xsmi_gradient_is_exact(g) || !is_blocked(o->model, batch)) {
        return XSM_OK;
    }
    size_t count;
    if (!xsmi_multiply(xsm_context_threads(o->context), RANGE_FLOATS, &count) ||
        !xsmi_reserve(o->context, &o->sums, &o->sum_capacity, count, sizeof *o->sums)) {
        return xsmi_fail_memory(err, RANGE_FLOATS * sizeof *o->sums, "the gradients of a batch");
    }
    return XSM_OK;
}

/* Dense rows, class-major: a blocked product. `amounts` has RANGE_FLOATS. */
static void range_dense(xsm_model *m, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                        float scale, float *amounts)
{
    const float *x[RANGE_EXAMPLES];
    for (uint32_t c = 0; c < count; c += RANGE_CLASSES) {
        size_t classes = count - c < RANGE_CLASSES ? count - c : RANGE_CLASSES;
        for (uint64_t start = 0; start < batch->count; start += RANGE_EXAMPLES) {
            size_t n = batch->count - start < RANGE_EXAMPLES ? (size_t)(batch->count - start) : RANGE_EXAMPLES;
            for (size_t i = 0; i < n; i++) {
                x[i] = xsmi_batch_features(batch, (size_t)start + i).values;
                const float *from = g->coefficients + (start + i) * g->width + first + c;
                for (size_t k = 0; k < classes; k++) {
                    amounts[i * RANGE_CLASSES + k] = scale * from[k];
                }
            }
            m->kernels->rank_update(m->weight + (size_t)(first + c) * m->stride, m->stride, classes, amounts,
                                    RANGE_CLASSES, x, n, m->features, 1);
        }
    }
}

/* `scratch` is the memory that prepare() reserved for the thread. */
static void add_range(xsm_model *m, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                      double eta, double alpha, float *scratch)
{
    float scale = (float)(-eta / alpha);
    bool class_major = m->layout == XSM_LAYOUT_CLASS_MAJOR;
    for (uint64_t i = 0; m->bias && m->score == XSM_SCORE_LINEAR && i < batch->count; i++) {
        m->kernels->axpby(m->bias + first, g->coefficients + i * g->width + first, count, (float)-eta, 1);
    }
    if (is_blocked(m, batch)) {
        range_dense(m, batch, g, first, count, scale, scratch);
        return;
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        xsmi_features x = xsmi_batch_features(batch, (size_t)i);
        const float *from = g->coefficients + i * g->width + first;
        if (class_major) {
            uint32_t rows[GROUP];
            float amounts[GROUP];
            for (uint32_t start = 0; start < count; start += GROUP) {
                uint32_t group = count - start < GROUP ? count - start : GROUP;
                for (uint32_t j = 0; j < group; j++) {
                    rows[j] = first + start + j;
                    amounts[j] = scale * from[start + j];
                }
                m->kernels->sparse_scatter_update(m->weight, m->stride, rows, group, x.index, x.values, x.count,
                                                  amounts);
            }
            continue;
        }
        m->kernels->column_update(m->weight + first, m->stride, x.index, x.values, x.count, count, from, scale);
    }
}

static void step_range(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                       double eta, double alpha, uint32_t thread)
{
    xsm_model *m = o->model;
    const bool distances = m->score != XSM_SCORE_LINEAR;
    float *scratch = is_blocked(m, batch) ? o->sums + thread * (size_t)RANGE_FLOATS : NULL;
    for (uint32_t k = first; distances && k < first + count; k++) {
        double sum = 0;
        for (uint64_t i = 0; i < batch->count; i++) {
            sum += (double)g->coefficients[i * g->width + k];
        }
        xsmi_model_pull(m, k, sum, eta);
    }
    add_range(m, batch, g, first, count, eta, alpha, scratch);
    for (uint32_t k = first; distances && k < first + count; k++) {
        xsmi_model_settle(m, k);
    }
}

/* The number of features by which weights in distant memory are prefetched ahead. */
#define FEATURES_AHEAD 2

static void step_tile(xsm_optimizer *o, const xsmi_class_tile *tile, double eta, double alpha, uint32_t thread)
{
    enum { TOGETHER = 64 };
    xsm_model *m = o->model;
    const xsmi_feature_list *list = tile->list;
    const float scale = (float)(-eta / alpha);
    float amounts[TOGETHER];
    (void)thread;
    for (uint64_t i = 0; m->bias && i < tile->examples; i++) {
        m->kernels->axpby(m->bias + tile->first, tile->coefficients + i * tile->stride, tile->count, (float)-eta, 1);
    }
    for (size_t f = 0; f < list->founds; f++) {
        float *weight = m->weight + list->found[f] * m->stride + tile->first;
        if (f + FEATURES_AHEAD < list->founds) {
            xsmi_prefetch_row(m->weight + list->found[f + FEATURES_AHEAD] * m->stride + tile->first, tile->count);
        }
        for (size_t start = list->starts[f], n; start < list->starts[f + 1]; start += n) {
            n = list->starts[f + 1] - start < TOGETHER ? list->starts[f + 1] - start : TOGETHER;
            for (size_t j = 0; j < n; j++) {
                amounts[j] = scale * list->values[start + j];
            }
            m->kernels->column_sums(tile->coefficients, tile->stride, list->examples + start, amounts, n, tile->count,
                                    weight);
        }
    }
}

const xsm_optimizer_ops xsmi_sgd_ops = {
    .name = "sgd",
    .summary = "plain steps, with ridge and proximal steps by lazy scales",
    .proximal = true,
    .distances = true,
    .layers = true,
    .prepare = prepare,
    .step = step,
    .step_class = step_class,
    .step_sum = step_sum,
    .step_range = step_range,
    .step_tile = step_tile,
    .additive = true,
};
