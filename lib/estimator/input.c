/*
 * Rows whose features come with their batches, for example from a network of the host's, and the gradient that is
 * returned to it.
 *
 * For an explicit estimator dL/dx = sum_k g_k w_k, at the weights that were scored. A proximal one minimises F(theta) +
 * ||theta - theta_old||^2 / (2 eta) in theta, where F is its objective on the batch. The host's loss is that minimum as
 * a function of x (the Moreau envelope of F). Its derivative in x is dF/dx at the minimum, which is sum_k g_k w_k+ with
 * the weights after the step, w_k+ = s_k (w_k - eta g_k x).
 */
#include "estimator/estimator.h"

#include <math.h>
#include <string.h>

xsm_status xsm_estimator_bind_labels(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    return xsmi_estimator_bind(e, model, train, true, NULL, err);
}

xsm_status xsmi_estimator_read_batch(const xsm_estimator *e, const xsm_batch *given, xsm_batch *batch, xsm_error *err)
{
    xsm_batch known = xsm_batch_range(NULL, 0, 0);
    XSMI_TRY(xsmi_options_read(&known, sizeof known, offsetof(xsm_batch, values), given, "xsm_batch", err));
    if (e->labels_alone && !known.values) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s' is bound to labels alone: the batch must bring its rows' features in `values`",
                         e->ops.name);
    }
    XSMI_TRY(xsmi_model_read_batch(e->model, &known, batch, err));
    if (e->stream) {
        return xsmi_stream_read_batch(e, batch, err);
    }
    if (batch->dataset != e->train) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the batch is of other data than the estimator is bound to");
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_check_joint(const xsm_estimator *e, const xsm_batch *batch, const xsmi_input_gradient *input,
                                      xsm_error *err)
{
    if (e->model->layer) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' takes a batch of several rows as a whole, for which they must not change; the "
                         "hidden vectors of an embedding model do: give it one row at a time",
                         e->ops.name);
    }
    if (batch->values || input) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' takes a batch of several rows as a whole, for which their features must be "
                         "the dataset's; with features of the host's own, or for their gradient, give it one row at a "
                         "time",
                         e->ops.name);
    }
    return XSM_OK;
}

/* -- a batch's rows ------------------------------------------------------------------------------------------------ */

static xsm_status take_codes(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, xsm_error *err)
{
    const size_t length = e->sampler && !e->exact && batch->values ? e->sampler->code_length : 0;
    size_t count;
    if (!xsmi_multiply((size_t)batch->count, length, &count)) {
        return xsmi_fail_memory(err, SIZE_MAX, "what the sampler knows of each row");
    }
    if (!xsmi_reserve(g->context, &g->work.codes, &g->work.code_capacity, count, sizeof *g->work.codes)) {
        return xsmi_fail_memory(err, count * sizeof *g->work.codes, "what the sampler knows of each row");
    }
    g->work.coded = length > 0;
    for (size_t i = 0; length > 0 && i < batch->count; i++) {
        xsmi_sampler_encode_batch(e->sampler, batch, i, g->work.codes + i * length);
    }
    return XSM_OK;
}

static xsm_status take_hidden(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, double eta,
                              xsm_error *err)
{
    const xsm_model *m = e->model;
    const size_t stride = xsmi_row_stride(m->features);
    XSMI_TRY(xsmi_gradient_reserve_layer(g, batch->count, stride, err));
    g->work.rows.values = g->layer.hidden;
    g->work.rows.stride = stride;
    g->layer.decay = 1 / (1 + eta * e->common.ridge / (double)e->examples);
    return xsmi_model_hidden(m, batch, g->layer.hidden, stride, err);
}

xsm_status xsmi_gradient_take_batch(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, double eta,
                                    xsm_error *err)
{
    XSMI_TRY(take_codes(e, g, batch, err));
    g->work.rows.offsets = NULL;
    if (e->model->layer) {
        return take_hidden(e, g, batch, eta, err);
    }
    g->work.rows.values = batch->values;
    g->work.rows.stride = batch->stride;
    g->work.rows.offsets = batch->offsets;
    g->work.rows.index = batch->index;
    return XSM_OK;
}

void xsmi_gradient_measure(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; g->work.rows.values && i < first + count; i++) {
        xsmi_features x = xsmi_gradient_features(e, g, i);
        g->example[i].squared_norm = (double)e->model->kernels->dot(x.values, x.values, x.count);
    }
}

void xsmi_gradient_take_layer(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, uint64_t first,
                              uint64_t count, double *largest)
{
    const xsm_model *m = e->model;
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_features x = xsmi_batch_features(batch, (size_t)i);
        float *gradient = g->layer.gradient + i * g->work.rows.stride;
        xsmi_layer_before(m, &x, g->layer.hidden + i * g->work.rows.stride, gradient);
        double square = (double)m->kernels->dot(gradient, gradient, m->features), reach = 0;
        for (size_t j = 0; j < x.count; j++) {
            reach = fabs((double)x.values[j]) > reach ? fabs((double)x.values[j]) : reach;
        }
        reach *= sqrt(square);
        *largest = reach <= *largest ? *largest : reach; /* NaN is stored too and is detected later */
    }
}

/* -- the gradient with respect to the features --------------------------------------------------------------------- */

/* Classes whose coefficients are applied together. */
#define GROUP 64

/* Adds sum_k g_k s_k (w_k - eta g_k x). */
static void add_proximal(const xsm_estimator *e, const xsm_gradient *g, double eta, uint64_t i, float *out)
{
    const float *coefficients = g->coefficients + i * g->width;
    const double *shrinks = g->shrinks + i * g->width;
    float amounts[GROUP];
    double own = 0;
    for (uint32_t start = 0; start < g->lengths[i]; start += GROUP) {
        uint32_t count = g->lengths[i] - start < GROUP ? g->lengths[i] - start : GROUP;
        for (uint32_t k = 0; k < count; k++) {
            double c = (double)coefficients[start + k], s = shrinks[start + k];
            amounts[k] = (float)(c * s);
            own += c * c * s;
        }
        xsmi_model_backward(e->model, g->classes + i * g->width + start, 0, amounts, count, out);
    }
    xsmi_features x = xsmi_gradient_features(e, g, i);
    const float back = (float)(-eta * own);
    for (size_t j = 0; j < x.count; j++) {
        float *at = out + (x.index ? x.index[j] : j);
        *at = fmaf(back, x.values[j], *at);
    }
}

bool xsmi_input_gradient_take(const xsmi_input_gradient *input, const xsm_estimator *e, const xsm_gradient *g,
                              double eta, uint64_t first, uint64_t count)
{
    const size_t d = e->model->features;
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        memset(input->values + i * input->stride, 0, d * sizeof *input->values);
        if (g->proximal) {
            add_proximal(e, g, eta, i, input->values + i * input->stride);
        } else if (!xsmi_gradient_is_exact(g) || (g->form == XSMI_GRADIENT_SIFTED)) {
            const float *listed = ((g->form == XSMI_GRADIENT_SIFTED) ? g->work.scores : g->coefficients) + i * g->width;
            xsmi_model_backward(e->model, g->classes + i * g->width, 0, listed, g->lengths[i],
                                input->values + i * input->stride);
        }
    }
    /* Every class: one run of classes for each row in turn, so that their weights are in the cache. */
    for (uint32_t k = 0; xsmi_gradient_is_exact(g) && g->form != XSMI_GRADIENT_SIFTED && k < g->width; k += GROUP) {
        size_t some = g->width - k < GROUP ? (size_t)(g->width - k) : GROUP;
        for (uint64_t i = first; i < first + count; i++) {
            xsmi_model_backward(e->model, NULL, k, g->coefficients + i * g->width + k, some,
                                input->values + i * input->stride);
        }
    }
    for (uint64_t i = first; i < first + count; i++) {
        for (size_t j = 0; j < d; j++) {
            finite &= fabsf(input->values[i * input->stride + j]) < INFINITY; /* false for NaN too */
        }
    }
    return finite;
}

xsm_status xsm_estimator_gradient_input(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g,
                                        float *input_gradient, size_t stride, xsm_error *err)
{
    if (!input_gradient) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_gradient_input: input_gradient is NULL");
    }
    if (e && e->model && stride < e->model->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "rows of the gradient %zu floats apart for %u features", stride,
                         e->model->features);
    }
    if (e && e->model && e->model->layer) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "the model has a first layer of its own, whose vectors an optimizer changes: the gradient goes "
            "no further down");
    }
    xsmi_input_gradient input = {input_gradient, stride};
    return xsmi_estimator_gradient(e, batch, eta, g, &input, err);
}
