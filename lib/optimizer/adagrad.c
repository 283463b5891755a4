/*
 * Adagrad (Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic optimization, 2011,
 * Figure 1 with diagonal matrices, without a regulariser). Every weight has its own learning rate, which falls with the
 * gradients of that weight so far. With t the gradient of one weight over the whole batch,
 *     s <- s + t^2,    w <- w - eta t / sqrt(s),
 * where s starts at the option `initial`. The gradients of a batch's examples are summed before they are squared.
 * Weights with gradient 0 keep w and s. The bias is treated as one more weight of each class.
 *
 * An L2 penalty (ridge) is refused rather than applied as a decay of all weights. As the rates of the steps fall, such
 * a decay would become stronger relative to them, and training would not end at the optimum with that penalty. A decay
 * with a rate for every weight would have to update all weights of all classes at every step.
 */
#include "optimizer/adagrad_layer.h"
#include "optimizer/optimizer.h"

#include "kernels/arithmetic.h"

#include <string.h>

/* Classes whose gradients a dense batch computes together, and columns of a row of features. */
enum { ROWS_TOGETHER = 16, COLUMNS_TOGETHER = 2048 };

typedef struct adagrad_state {
    double initial;
    xsm_model *squares; /* the sums s, in a model of the same shape and layout */
    float *sums;        /* [threads][sums_each] gradients of a batch, zeros between calls */
    size_t sums_each, sums_capacity;
    xsmi_adagrad_layer layer;
} adagrad_state;

static const xsm_option options[] = {
    XSMI_OPTION_DOUBLE(
        "initial", adagrad_state, initial, "0.01", 1e-30, 1e30,
        "what each weight's sum of squared gradients starts at; the more, the longer steps stay like plain ones"),
};

static void unbind(xsm_optimizer *o)
{
    adagrad_state *a = o->state;
    xsm_model_free(a->squares);
    xsmi_release(o->context, a->sums, a->sums_capacity, sizeof *a->sums);
    xsmi_adagrad_layer_free(o->context, &a->layer);
    *a = (adagrad_state){.initial = a->initial};
}

static xsm_status bind(xsm_optimizer *o, xsm_error *err)
{
    adagrad_state *a = o->state;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = o->model->bias != NULL;
    shape.layout = o->model->layout;
    XSMI_TRY(xsm_model_new_linear(o->context, o->model->features, o->model->classes, &shape, &a->squares, err));
    for (size_t i = 0; i < a->squares->weight_count; i++) {
        a->squares->weight[i] = (float)a->initial;
    }
    for (uint32_t k = 0; shape.bias && k < o->model->classes; k++) {
        a->squares->bias[k] = (float)a->initial;
    }
    return xsmi_adagrad_layer_new(o->context, &a->layer, o->model, a->squares, (float)a->initial, err);
}

/* -- scratch ------------------------------------------------------------------------------------------------------- */

/* Allocates zeros for the gradients that each thread sums. */
static xsm_status need_sums(xsm_optimizer *o, size_t each, xsm_error *err)
{
    adagrad_state *a = o->state;
    if (each > a->sums_each) {
        size_t threads = xsm_context_threads(o->context), count;
        xsmi_release(o->context, a->sums, a->sums_capacity, sizeof *a->sums);
        a->sums_each = a->sums_capacity = 0;
        a->sums = xsmi_multiply(threads, each, &count) ? xsmi_allocate_zero(o->context, count, sizeof *a->sums) : NULL;
        if (!a->sums) {
            return xsmi_fail_memory(err, threads * each * sizeof *a->sums, "the gradients of a batch");
        }
        a->sums_each = each;
        a->sums_capacity = count;
    }
    return XSM_OK;
}

static xsm_status prepare(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, xsm_error *err)
{
    adagrad_state *a = o->state;
    const xsm_model *m = o->model;
    if (a->squares->classes != m->classes || a->squares->features != m->features || !a->squares->bias != !m->bias) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model has %u features and %u classes now, and %u and %u when optimizer 'adagrad' was "
                         "bound; bind it again",
                         m->features, m->classes, a->squares->features, a->squares->classes);
    }
    XSMI_TRY(xsmi_adagrad_layer_check(&a->layer, m, err));
    XSMI_TRY(xsm_model_set_layout(a->squares, m->layout, err));
    if (!batch) {
        return XSM_OK;
    }
    size_t columns = m->classes < COLUMNS_TOGETHER ? m->classes : COLUMNS_TOGETHER;
    size_t rows = xsmi_gradient_is_exact(g) && m->layout == XSM_LAYOUT_CLASS_MAJOR && !xsmi_batch_sparse(batch)
                      ? ROWS_TOGETHER
                      : 1;
    size_t features = rows * a->squares->stride;
    features = m->layout == XSM_LAYOUT_CLASS_MAJOR ? features : m->features;
    return need_sums(o, features > columns ? features : columns, err);
}

static void fetch(const xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes)
{
    const xsm_model *s = ((const adagrad_state *)o->state)->squares;
    for (uint32_t j = 0; j < count; j++) {
        const float *row = s->weight + (size_t)classes[j] * s->stride;
        for (size_t l = 0; x->index && l < x->count; l++) {
            __builtin_prefetch(row + x->index[l], 1, 3);
        }
        for (size_t l = 0; !x->index && l < x->count; l += XSMI_LINE) {
            xsmi_prefetch_line(row + l);
        }
        if (s->bias) {
            __builtin_prefetch(s->bias + classes[j], 1, 3);
        }
    }
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

/* The step of class k's weights, whose gradient is g x. */
static void step_row(xsm_model *m, xsm_model *s, uint32_t k, const xsmi_features *x, float g, float eta)
{
    if (m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        for (size_t i = 0; i < x->count; i++) {
            size_t at = (size_t)(x->index ? x->index[i] : i) * m->stride + k;
            xsmi_adagrad(&m->weight[at], &s->weight[at], g * x->values[i], eta);
        }
        return;
    }
    float *row = m->weight + (size_t)k * m->stride, *squares = s->weight + (size_t)k * s->stride;
    if (x->index) {
        m->kernels->sparse_adagrad(row, squares, x->index, x->values, x->count, g, eta);
    } else {
        m->kernels->adagrad(row, squares, x->values, x->count, g, eta);
    }
}

static void step(xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                 const float *coefficients, const double *shrinks, double eta, double alpha, double bound)
{
    xsm_model *m = o->model, *s = ((adagrad_state *)o->state)->squares;
    (void)shrinks;
    (void)alpha;
    (void)bound;
    for (uint32_t j = 0; j < count; j++) {
        step_row(m, s, classes[j], x, coefficients[j], (float)eta);
        if (m->bias) {
            xsmi_adagrad(&m->bias[classes[j]], &s->bias[classes[j]], coefficients[j], (float)eta);
        }
    }
}

/* Sums a class's gradient over some entries of g (NULL: its entry of every example), whose features are in any order.
 * Sums start at zeros and are zeros again afterwards. A feature of several examples is stepped at its first example;
 * its sum is 0 at the others. */
static void step_sparse_sum(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t class,
                            const uint64_t *places, size_t count, float eta, float *sums)
{
    xsm_model *m = o->model, *s = ((adagrad_state *)o->state)->squares;
    const bool class_major = m->layout == XSM_LAYOUT_CLASS_MAJOR;
    const uint32_t first = 0;
    for (size_t j = 0; j < count; j++) {
        uint64_t place = places ? places[j] : j * g->width + class;
        xsmi_features x = xsmi_batch_features(batch, place / g->width);
        m->kernels->sparse_scatter_update(sums, 0, &first, 1, x.index, x.values, x.count, g->coefficients + place);
    }
    for (size_t j = 0; j < count; j++) {
        xsmi_features x = xsmi_batch_features(batch, places ? places[j] / g->width : j);
        for (size_t i = 0; i < x.count; i++) {
            uint32_t feature = x.index[i];
            size_t at = class_major ? (size_t) class * m->stride + feature : (size_t)feature * m->stride + class;
            if (sums[feature] != 0) {
                xsmi_adagrad(&m->weight[at], &s->weight[at], sums[feature], eta);
                sums[feature] = 0;
            }
        }
    }
}

/* Sums the gradient of a class over some entries of g and takes the step. */
static void step_class(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t class,
                       const uint64_t *entries, size_t count, double eta, double alpha, uint32_t thread)
{
    adagrad_state *a = o->state;
    xsm_model *m = o->model;
    float *sums = a->sums + thread * a->sums_each, bias = 0;
    (void)alpha;
    for (size_t j = 0; j < count; j++) {
        bias += g->coefficients[entries[j]];
    }
    if (m->bias) {
        xsmi_adagrad(&m->bias[class], &a->squares->bias[class], bias, (float)eta);
    }
    if (count == 1) {
        xsmi_features x = xsmi_batch_features(batch, entries[0] / g->width);
        step_row(m, a->squares, class, &x, g->coefficients[entries[0]], (float)eta);
    } else if (xsmi_batch_sparse(batch)) {
        step_sparse_sum(o, batch, g, class, entries, count, (float)eta, sums);
    } else {
        for (size_t j = 0; j < count; j++) {
            xsmi_features x = xsmi_batch_features(batch, entries[j] / g->width);
            m->kernels->axpby(sums, x.values, x.count, g->coefficients[entries[j]], 1);
        }
        xsmi_features x = {sums, NULL, m->features};
        step_row(m, a->squares, class, &x, 1, (float)eta);
        memset(sums, 0, m->features * sizeof *sums);
    }
}

static void step_sum(xsm_optimizer *o, uint32_t class, float *gradient, float bias, double eta, double alpha)
{
    xsm_model *m = o->model, *s = ((adagrad_state *)o->state)->squares;
    (void)alpha;
    xsmi_features x = {gradient, NULL, m->features};
    step_row(m, s, class, &x, 1, (float)eta);
    if (m->bias) {
        xsmi_adagrad(&m->bias[class], &s->bias[class], bias, (float)eta);
    }
}

/* Dense rows, class-major: computes the gradients of a few classes at a time by a blocked product. */
static void range_dense(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                        float eta, float *sums)
{
    enum { EXAMPLES = 32 };
    xsm_model *m = o->model, *s = ((adagrad_state *)o->state)->squares;
    const float *x[EXAMPLES];
    for (uint32_t c = first; c < first + count; c += ROWS_TOGETHER) {
        uint32_t classes = first + count - c < ROWS_TOGETHER ? first + count - c : ROWS_TOGETHER;
        for (uint64_t start = 0; start < batch->count; start += EXAMPLES) {
            size_t n = batch->count - start < EXAMPLES ? (size_t)(batch->count - start) : EXAMPLES;
            for (size_t i = 0; i < n; i++) {
                x[i] = xsmi_batch_features(batch, start + i).values;
            }
            m->kernels->rank_update(sums, s->stride, classes, g->coefficients + start * g->width + c, (size_t)g->width,
                                    x, n, m->features, 1);
        }
        for (uint32_t k = 0; k < classes; k++) {
            xsmi_features row = {sums + k * s->stride, NULL, m->features};
            step_row(m, s, c + k, &row, 1, eta);
        }
        memset(sums, 0, classes * s->stride * sizeof *sums);
    }
}

/* The bias of `count` classes, at most COLUMNS_TOGETHER. Their coefficients are `stride` floats apart. */
static void step_bias(xsm_optimizer *o, uint64_t examples, const float *coefficients, size_t stride, uint32_t first,
                      uint32_t count, float eta, float *sums)
{
    xsm_model *m = o->model, *s = ((adagrad_state *)o->state)->squares;
    for (uint64_t i = 0; i < examples; i++) {
        m->kernels->axpby(sums, coefficients + i * stride, count, 1, 1);
    }
    m->kernels->adagrad(m->bias + first, s->bias + first, sums, count, 1, eta);
    memset(sums, 0, count * sizeof *sums);
}

/* A tile of at most COLUMNS_TOGETHER classes of a feature-major model. */
static void step_tile(xsm_optimizer *o, const xsmi_class_tile *tile, double eta, double alpha, uint32_t thread)
{
    adagrad_state *a = o->state;
    xsm_model *m = o->model, *s = a->squares;
    const xsmi_feature_list *list = tile->list;
    float *sums = a->sums + thread * a->sums_each;
    (void)alpha;
    if (m->bias) {
        step_bias(o, tile->examples, tile->coefficients, tile->stride, tile->first, tile->count, (float)eta, sums);
    }
    for (size_t f = 0; f < list->founds; f++) {
        const size_t at = list->found[f] * m->stride + tile->first;
        if (f + 1 < list->founds) {
            const size_t next = list->found[f + 1] * m->stride + tile->first;
            xsmi_prefetch_row(m->weight + next, tile->count);
            xsmi_prefetch_row(s->weight + next, tile->count);
        }
        float factor;
        const float *sum =
            xsmi_feature_list_sum(list, f, m->kernels, tile->coefficients, tile->stride, tile->count, sums, &factor);
        m->kernels->adagrad(m->weight + at, s->weight + at, sum, tile->count, factor, (float)eta);
        if (sum == sums) {
            memset(sums, 0, tile->count * sizeof *sums);
        }
    }
}

static void range_bias(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                       float eta, float *sums)
{
    for (uint32_t c = first; c < first + count; c += COLUMNS_TOGETHER) {
        uint32_t columns = first + count - c < COLUMNS_TOGETHER ? first + count - c : COLUMNS_TOGETHER;
        step_bias(o, batch->count, g->coefficients + c, (size_t)g->width, c, columns, eta, sums);
    }
}

static void step_range(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                       double eta, double alpha, uint32_t thread)
{
    adagrad_state *a = o->state;
    float *sums = a->sums + thread * a->sums_each;
    (void)alpha;
    if (o->model->bias) {
        range_bias(o, batch, g, first, count, (float)eta, sums);
    }
    if (xsmi_batch_sparse(batch)) {
        for (uint32_t k = first; k < first + count; k++) {
            step_sparse_sum(o, batch, g, k, NULL, batch->count, (float)eta, sums);
        }
    } else {
        range_dense(o, batch, g, first, count, (float)eta, sums);
    }
}

/* -- the first layer of an embedding model ------------------------------------------------------------------------- */

static xsm_status prepare_layer(xsm_optimizer *o, const xsm_batch *rows, xsm_error *err)
{
    return xsmi_adagrad_layer_prepare(o->context, &((adagrad_state *)o->state)->layer, o->model, rows, err);
}

static void step_layer(xsm_optimizer *o, const xsm_gradient *g, double eta, size_t piece, size_t pieces,
                       uint32_t thread)
{
    adagrad_state *a = o->state;
    xsmi_adagrad_layer_step(&a->layer, o->model, g, (float)eta, piece, pieces, a->sums + thread * a->sums_each);
}

static int32_t state_tensor(xsm_optimizer *o, uint32_t index, xsm_state_tensor *tensor)
{
    const adagrad_state *a = o->state;
    const xsm_model *s = a->squares;
    const xsmi_adagrad_layer *l = &a->layer;
    const bool own_layer = l->count > 0;
    const struct {
        const char *name;
        uint64_t lines, width;
        void *data; /* NULL: no such tensor */
    } all[] = {
        {"squares", s->layout == XSM_LAYOUT_CLASS_MAJOR ? s->classes : s->features, s->stride, s->weight},
        {"bias-squares", s->classes, 1, s->bias},
        {"layer-squares", own_layer ? l->count / l->stride : 0, l->stride, own_layer ? l->squares : NULL},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].data && index-- == 0) {
            tensor->name = all[i].name;
            tensor->type = XSM_STATE_F32;
            tensor->lines = all[i].lines;
            tensor->width = all[i].width;
            tensor->data = all[i].data;
            return 1;
        }
    }
    return 0;
}

const xsm_optimizer_ops xsmi_adagrad_ops = {
    .name = "adagrad",
    .summary = "a rate for each weight that falls with its gradients (Duchi et al. 2011)",
    .state_size = sizeof(adagrad_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .layers = true,
    .bind = bind,
    .unbind = unbind,
    .prepare = prepare,
    .fetch = fetch,
    .step = step,
    .step_class = step_class,
    .step_sum = step_sum,
    .step_range = step_range,
    .step_tile = step_tile,
    .prepare_layer = prepare_layer,
    .step_layer = step_layer,
    .state_tensor = state_tensor,
};
