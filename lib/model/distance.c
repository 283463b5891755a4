/*
 * Scores that are distances: z_k = w_k . phi - ||w_k||^2/2 = -||phi - w_k||^2/2 + ||phi||^2/2, whose last term is the
 * same for every class (Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, section 2:
 * metric learning as linear scores). -||w_k||^2/2 is stored as the bias, so that scoring and searching see a linear
 * model. Only code that changes a row is different: the derivative is phi - w_k, and the bias must be updated with the
 * row.
 */
#include "ranks/comm.h"
#include "model/score.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/experimental.h>
#include <xsoftmax/stored_weights.h>

const char *const xsmi_geometry_names[] = {"linear", "euclidean", NULL}; /* XSM_GEOMETRY_* */

void xsmi_model_pull(xsm_model *m, uint32_t class, double coefficient, double eta)
{
    if (coefficient != 0) {
        m->kernels->scale(m->w.weight + (size_t) class * m->w.stride, m->features, (float)(1 + eta * coefficient));
    }
}

void xsmi_model_settle(xsm_model *m, uint32_t class)
{
    const float *row = m->w.weight + (size_t) class * m->w.stride;
    m->w.bias[class] = -0.5f * m->kernels->dot(row, row, m->features);
}

xsm_status xsmi_model_settle_all(xsm_model *m, xsm_error *err)
{
    return m->score == XSM_GEOMETRY_LINEAR ? XSM_OK : xsmi_model_each_row(m, xsmi_model_settle, err);
}

bool xsmi_model_constant(const xsm_model *m, uint32_t class, const float *row, size_t width, float *constant)
{
    if (m->score == XSM_GEOMETRY_LINEAR && !m->w.bias) {
        return false;
    }
    *constant = m->score == XSM_GEOMETRY_LINEAR ? m->w.bias[class] : -0.5f * m->kernels->dot(row, row, width);
    return true;
}

/* Gives the weights, which are those of `whole` or of this process's part of it, all that distances need except the
 * values of the biases. */
static xsm_status prepare(const xsm_model *whole, xsm_model *m, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_dense(m, "a score that is a distance", err));
    if (m->features < 1) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "a model without features has no distances");
    }
    if (m->layer && m->layer->tied) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "tied vectors change with the features, where the bias of a distance would not follow; vectors "
            "that are not tied can have distances");
    }
    if (xsmi_model_nodes(whole)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's weights are those of the nodes of a tree, which rows have no distance to");
    }
    XSMI_TRY(xsmi_model_own(m, err));
    XSMI_TRY(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, err));
    xsmi_model_drop_row_lengths(m);
    XSMI_TRY(xsmi_model_fold(m, err));
    if (!m->w.bias) {
        XSMI_TRY(xsmi_zeros_new(m->context, &m->w.bias, m->classes, sizeof *m->w.bias, "the bias", err));
        m->bias_owned = true;
    }
    return XSM_OK;
}

/* Makes the scores distances. On a divided model, each process changes its part once all parts are prepared. */
static xsm_status make_euclidean(xsm_model *m, xsm_error *err)
{
    xsm_model *own = xsmi_model_changed(m);
    xsm_context *group = xsmi_model_group(m);
    const bool had = own->w.bias != NULL;
    const xsm_status status = xsmi_agree(group, prepare(m, own, err), err);
    if (group && status != XSM_OK && !had && own->w.bias) { /* another process has none */
        xsmi_release(m->context, own->w.bias, own->classes, sizeof *own->w.bias);
        own->w.bias = NULL;
        own->bias_owned = false;
    }
    XSMI_TRY(status);
    m->w.layout = own->w.layout;
    return xsmi_agree(group, xsmi_model_each_row(own, xsmi_model_settle, err), err);
}

xsm_status xsm_model_set_geometry(xsm_model *m, int32_t geometry, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    if (geometry != XSM_GEOMETRY_LINEAR && geometry != XSM_GEOMETRY_EUCLIDEAN) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "geometry %d is no XSM_GEOMETRY_* value", geometry);
    }
    if (geometry == XSM_GEOMETRY_EUCLIDEAN) {
        xsmi_activity activity;
        xsmi_begin(&activity, m->context, "changing the geometry", "weights", 0);
        XSMI_TRY(xsmi_end(&activity, make_euclidean(m, err), err));
    }
    if (xsmi_model_is_divided(m)) {
        m->part.own->shape += m->score != geometry;
        m->part.own->score = geometry;
    }
    m->shape += m->score != geometry;
    m->score = geometry;
    xsmi_model_drop_calibration(m);
    return XSM_OK;
}
