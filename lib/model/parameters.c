/* Access to the weights for hosts: to write them, which multiplies scales in first, or to read them as they are
 * stored. */
#include "model/model.h"
#include "model/narrow.h"
#include "base/activity.h"
#include "base/entry.h"

#include <xsoftmax/stored_weights.h>

/* Returns the bytes from the first number of `rows` rows to the last. */
static uint64_t stored_bytes(int32_t dtype, size_t rows, size_t stride, size_t length)
{
    return rows == 0 || length == 0 ? 0 : ((uint64_t)(rows - 1) * stride + length) * xsmi_number_bytes(dtype);
}

/* Gives the model weights of its own, without scales, that the caller may change; only a bias of its own if its weights
 * cannot change. */
static xsm_status prepare(xsm_model *m, xsm_error *err)
{
    if (m->w.layout == XSM_LAYOUT_SPARSE_ROWS || m->w.narrow.data) {
        return xsmi_model_own_bias(m, err);
    }
    XSMI_TRY(xsmi_model_own(m, err));
    xsmi_model_drop_row_lengths(m);
    return xsmi_model_fold(m, err);
}

xsm_status xsm_model_get_parameters(xsm_model *m, xsm_parameters *parameters, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {parameters, "parameters"});
    xsm_parameters p = XSM_PARAMETERS_INIT;
    /* Before scales are multiplied in, refuses a struct that cannot be filled; its contents do not matter. */
    XSMI_TRY(XSMI_READ(xsm_parameters, &p, parameters, err));
    XSMI_TRY(xsmi_model_need_whole(m, "xsm_model_get_parameters()", err));
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "preparing weights", "weights");
    XSMI_TRY(xsmi_end(&activity, prepare(m, err), err));
    const bool class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR;
    p.weight = m->w.weight;
    p.bias = m->w.bias;
    const bool sparse = m->w.layout == XSM_LAYOUT_SPARSE_ROWS;
    p.class_step = sparse ? 0 : class_major ? m->w.stride : 1;
    p.feature_step = sparse ? 0 : class_major ? 1 : m->w.stride;
    p.classes = m->classes;
    p.features = m->features;
    p.dtype = xsmi_model_dtype(m);
    p.layout = m->w.layout;
    return XSMI_WRITE(xsm_parameters, &p, parameters, err);
}

xsm_status xsm_model_get_embedding_parameters(xsm_model *m, xsm_embedding_parameters *parameters, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {parameters, "parameters"});
    xsm_embedding_parameters p = XSM_EMBEDDING_PARAMETERS_INIT;
    XSMI_TRY(XSMI_READ(xsm_embedding_parameters, &p, parameters, err));
    if (!m->layer) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the model is linear: it has no features' vectors");
    }
    xsmi_layer *l = m->layer;
    if (l->tied) {
        xsm_parameters w = XSM_PARAMETERS_INIT;
        XSMI_TRY(xsm_model_get_parameters(m, &w, err));
    } else if (!l->w.narrow.data) {
        xsmi_activity activity;
        xsmi_begin_short(&activity, m->context, "preparing weights", "weights");
        const xsm_status status = xsmi_layer_own(m, err);
        if (status == XSM_OK) {
            xsmi_layer_fold(m);
        }
        XSMI_TRY(xsmi_end(&activity, status, err));
    }
    p.vectors = xsmi_model_vectors(m)->weight;
    p.feature_step = xsmi_model_vectors(m)->stride;
    p.features = l->features;
    p.hidden = m->features;
    p.dtype = xsmi_model_dtype(m);
    return XSMI_WRITE(xsm_embedding_parameters, &p, parameters, err);
}

xsm_status xsm_model_get_view(const xsm_model *m, xsm_parameters_view *view, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {view, "view"});
    XSMI_TRY(xsmi_model_need_whole(m, "xsm_model_get_view()", err));
    const bool class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR, sparse = m->w.layout == XSM_LAYOUT_SPARSE_ROWS;
    xsm_parameters_view v = XSM_PARAMETERS_VIEW_INIT;
    v.weight = m->w.weight;
    v.data = m->w.sparse ? xsmi_sparse_numbers(m->w.sparse) : m->w.narrow.data ? m->w.narrow.data : m->w.weight;
    v.nonzeros = xsmi_model_stored(m, &v.bytes);
    if (!sparse) {
        v.bytes = stored_bytes(xsmi_model_dtype(m), class_major ? m->classes : m->features, m->w.stride,
                               class_major ? m->features : m->classes);
    }
    v.bias = m->w.bias;
    v.scale = m->w.alpha;
    v.class_scales = m->w.row_scale;
    v.class_step = sparse ? 0 : class_major ? m->w.stride : 1;
    v.feature_step = sparse ? 0 : class_major ? 1 : m->w.stride;
    v.classes = m->classes;
    v.features = m->features;
    v.dtype = xsmi_model_dtype(m);
    v.layout = m->w.layout;
    return XSMI_WRITE(xsm_parameters_view, &v, view, err);
}

xsm_status xsm_model_get_embedding_view(const xsm_model *m, xsm_embedding_view *view, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {view, "view"});
    if (!m->layer) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the model is linear: it has no features' vectors");
    }
    const xsmi_weights *w = xsmi_model_vectors(m);
    xsm_embedding_view v = XSM_EMBEDDING_VIEW_INIT;
    v.vectors = w->weight;
    v.data = w->narrow.data ? w->narrow.data : w->weight;
    v.feature_step = w->stride;
    v.bytes = stored_bytes(xsmi_model_dtype(m), w->rows, w->stride, w->features);
    v.scale = w->alpha;
    v.feature_scales = w->row_scale;
    v.features = w->rows;
    v.hidden = m->features;
    v.dtype = xsmi_model_dtype(m);
    return XSMI_WRITE(xsm_embedding_view, &v, view, err);
}
