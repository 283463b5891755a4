/* The adagrad step on a first layer. */
#include "optimizer/adagrad_layer.h"

#include <string.h>

xsm_status xsmi_adagrad_layer_new(xsm_context *ctx, xsmi_adagrad_layer *l, const xsm_model *m, const xsm_model *rows,
                                  float initial, xsm_error *err)
{
    if (!m->layer) {
        return XSM_OK;
    }
    if (m->layer->tied) {
        l->squares = rows->weight;
        l->stride = rows->stride;
        return XSM_OK;
    }
    size_t stride = xsmi_row_stride(m->features), count;
    l->squares =
        xsmi_multiply(m->layer->features, stride, &count) ? xsmi_allocate(ctx, count, sizeof *l->squares) : NULL;
    if (!l->squares) {
        return xsmi_fail_memory(err, m->layer->features * stride * sizeof *l->squares,
                                "the squared gradients of the features' vectors");
    }
    l->stride = stride;
    l->count = count;
    for (size_t i = 0; i < count; i++) {
        l->squares[i] = initial;
    }
    return XSM_OK;
}

void xsmi_adagrad_layer_free(xsm_context *ctx, xsmi_adagrad_layer *l)
{
    if (l->count > 0) {
        xsmi_release(ctx, l->squares, l->count, sizeof *l->squares);
    }
    xsmi_feature_list_free(ctx, &l->list);
    *l = (xsmi_adagrad_layer){.squares = NULL};
}

xsm_status xsmi_adagrad_layer_check(const xsmi_adagrad_layer *l, const xsm_model *m, xsm_error *err)
{
    if (l->count > 0 && l->count / l->stride != m->layer->features) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model has vectors for %u features now, and for %zu when optimizer 'adagrad' was bound; "
                         "bind it again",
                         m->layer->features, l->count / l->stride);
    }
    return XSM_OK;
}

xsm_status xsmi_adagrad_layer_prepare(xsm_context *ctx, xsmi_adagrad_layer *l, xsm_model *m, const xsm_batch *rows,
                                      xsm_error *err)
{
    xsmi_layer_fold(m); /* earlier steps with an L2 penalty can have left a scale */
    return xsmi_feature_list_fill(ctx, &l->list, m->layer->features, rows, err);
}

/* How many features ahead of its step a vector is prefetched. */
enum { FEATURES_AHEAD = 2 };

void xsmi_adagrad_layer_step(const xsmi_adagrad_layer *l, xsm_model *m, const xsm_gradient *g, float eta, size_t piece,
                             size_t pieces, float *sums)
{
    const xsmi_layer *layer = m->layer;
    float *weight = layer->tied ? m->weight : layer->weight;
    const size_t stride = layer->tied ? m->stride : layer->stride;
    for (size_t f = piece; f < l->list.founds; f += pieces) {
        const size_t feature = l->list.found[f];
        if (f + FEATURES_AHEAD * pieces < l->list.founds) {
            const size_t upcoming = l->list.found[f + FEATURES_AHEAD * pieces];
            xsmi_prefetch_row(weight + upcoming * stride, m->features);
            xsmi_prefetch_row(l->squares + upcoming * l->stride, m->features);
        }
        float factor;
        const float *sum = xsmi_feature_list_sum(&l->list, f, m->kernels, g->layer.gradient, g->work.rows.stride,
                                                 m->features, sums, &factor);
        m->kernels->adagrad(weight + feature * stride, l->squares + feature * l->stride, sum, m->features, factor, eta);
        if (sum == sums) {
            memset(sums, 0, m->features * sizeof *sums);
        }
    }
}
