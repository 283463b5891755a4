/* The public functions of embedding models; the first layer itself is in layer.c. */
#include "model/layer.h"
#include "base/activity.h"
#include "base/entry.h"
#include "ranks/comm.h"
#include "model/score.h"

#include <math.h>

static xsm_status read_options(const xsm_embedding_options *given, uint32_t hidden, xsm_embedding_options *o,
                               xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_embedding_options, o, given, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_embedding_options, o, bias, err));
    if (o->activation < XSM_ACTIVATION_IDENTITY || o->activation > XSM_ACTIVATION_TANH) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_embedding_options.activation is %d, which is no XSM_ACTIVATION_* value", o->activation);
    }
    if (o->pool < XSM_POOL_SUM || o->pool > XSM_POOL_WEIGHTED_MEAN) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_embedding_options.pool is %d, which is no XSM_POOL_* value",
                         o->pool);
    }
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_embedding_options, o, tied, err));
    if (o->seed > INT64_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_embedding_options.seed is %llu; accepted is 0 to 2^63-1",
                         (unsigned long long)o->seed);
    }
    o->scale = o->scale == XSM_DEFAULT ? sqrt(3.0 / hidden) : o->scale;
    if (!(o->scale >= 0 && o->scale <= 1e6)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_embedding_options.scale is %g; accepted is 0 to 1e6", o->scale);
    }
    return XSM_OK;
}

static xsm_status new_layer(xsm_model *m, uint32_t features, const xsm_embedding_options *o, xsm_error *err)
{
    XSMI_TRY(xsmi_layer_new(m, features, o, err));
    XSMI_TRY(xsmi_layer_allocate(m, err));
    return xsmi_layer_start(m, err);
}

/* Adds the first layer; on a divided model, to every process's part. */
static xsm_status add_layer(xsm_model *m, uint32_t features, const xsm_embedding_options *o, xsm_error *err)
{
    xsm_model *to = xsmi_model_changed(m);
    const xsm_status status = new_layer(to, features, o, err);
    m->layer = to->layer;
    return xsmi_agree(xsmi_model_group(m), status, err);
}

static xsm_status new_embedding(xsm_context *context, uint32_t features, uint32_t hidden, uint32_t classes,
                                const xsm_embedding_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_model_new_embedding", XSMI_GIVEN({out, "out"}), err));
    if (features < 1 || features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u features; accepted are 1 to %u", features, XSM_FEATURES_MAX);
    }
    if (hidden < 1 || hidden > XSM_HIDDEN_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "hidden vectors of %u; accepted are 1 to %u", hidden, XSM_HIDDEN_MAX);
    }
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    XSMI_TRY(read_options(options, hidden, &o, err));
    if (o.tied && features != classes) {
        return xsmi_fail(
            err, XSM_ERROR_SHAPE,
            "tied vectors are both the features' and the classes': %u features and %u classes must be as many",
            features, classes);
    }
    xsm_model_options linear = XSM_MODEL_OPTIONS_INIT;
    linear.bias = o.bias;
    xsm_model *m;
    XSMI_TRY(xsm_model_new_linear(context, hidden, classes, &linear, &m, err));
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "making a model", "weights", 0);
    const xsm_status status = xsmi_end(&activity, add_layer(m, features, &o, err), err);
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    *out = m;
    return XSM_OK;
}

xsm_status xsm_model_new_embedding(xsm_context *context, uint32_t features, uint32_t hidden, uint32_t classes,
                                   const xsm_embedding_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    return XSMI_COLLECTIVE(xsmi_context_group(context),
                           new_embedding(context, features, hidden, classes, options, out, err), err);
}

xsm_status xsm_model_hidden_vectors(const xsm_model *m, const xsm_batch *given, float *out, size_t stride,
                                    xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {out, "out"});
    if (!m->layer) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the model is linear: it has no hidden vectors");
    }
    xsm_batch batch;
    XSMI_TRY(xsmi_model_read_batch(m, given, &batch, err));
    if (stride < m->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "hidden vectors %zu floats apart, of %u", stride, m->features);
    }
    xsmi_region regions[1 + XSMI_BATCH_REGIONS] = {
        xsmi_output_rows("out", out, batch.count, m->features, stride, sizeof *out)};
    xsmi_batch_regions(&batch, regions + 1);
    XSMI_TRY(xsmi_check_overlap("xsm_model_hidden_vectors", regions, 1 + XSMI_BATCH_REGIONS, err));
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "computing hidden vectors", "rows");
    return xsmi_end(&activity, xsmi_model_hidden(m, &batch, 0, (size_t)batch.count, out, stride, NULL, err), err);
}
