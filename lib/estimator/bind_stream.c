/* Binding an estimator to a stream of rows: see stream.h. */
#include "estimator/stream.h"
#include "base/entry.h"
#include "base/order.h"

static xsm_status new_stream(const xsm_estimator *e, const xsm_model *model, const xsm_stream_options *o,
                             xsmi_stream_rows **out, xsm_error *err)
{
    xsmi_stream_rows *s;
    XSMI_TRY(xsmi_zeros_new(e->context, &s, 1, sizeof *s, "a stream of rows", err));
    s->context = xsmi_context_retain(e->context);
    s->ids = o->ids;
    s->batch = o->batch;
    s->labels = o->labels;
    xsm_status status = xsmi_dataset_start(s->context, &s->rows, err);
    if (status == XSM_OK) {
        status = xsmi_dataset_set_classes(s->rows, model->classes, NULL, NULL, err);
    }
    if (status != XSM_OK) {
        xsmi_stream_free(s);
        return status;
    }
    s->rows->features = xsmi_model_input(model);
    for (uint32_t k = 0; o->class_counts && k < model->classes; k++) {
        s->rows->map.counts[k] = o->class_counts[k];
    }
    *out = s;
    return XSM_OK;
}

static xsm_status read_options(const xsm_estimator *e, const xsm_stream_options *given, xsm_stream_options *o,
                               xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_stream_options, o, given, err));
    o->batch = o->batch ? o->batch : XSMI_DEFAULT(xsm_stream_options, batch);
    o->labels = o->labels ? o->labels : XSMI_DEFAULT(xsm_stream_options, labels);
    if (o->examples == 0 && e->common.ridge > 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a ridge is of the sum over all rows: xsm_stream_options.examples must say how many they are");
    }
    o->examples = o->examples ? o->examples : 1;
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_stream_options, o, reserved, err));
    if (o->labels > XSM_CLASSES_MAX || o->batch > SIZE_MAX / 16 || o->ids > SIZE_MAX / 16) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_stream_options: %llu ids, batches of %llu and %u labels are too many",
                         (unsigned long long)o->ids, (unsigned long long)o->batch, o->labels);
    }
    if (o->labels > 1 && !(e->ops.flags & XSM_ESTIMATOR_MULTI_LABEL)) {
        return xsmi_fail(err, XSM_ERROR_DATA, "estimator '%s' takes one label a row, not %u", e->ops.name, o->labels);
    }
    if ((e->ops.flags & XSM_ESTIMATOR_ROW_STATE) && !e->ops.state_tensor) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' keeps something by row and does not say what (state_tensor()), which a stream "
                         "needs",
                         e->ops.name);
    }
    return XSM_OK;
}

/* The state of the ids of an earlier stream; `bytes` is NULL if there was none. */
typedef struct kept_state {
    uint64_t ids;
    unsigned char *bytes;
} kept_state;

/* Binds, and restores the state of the ids. */
static xsm_status bind(xsm_estimator *e, const xsm_model *model, const xsm_stream_options *o, xsmi_stream_rows *s,
                       const kept_state *kept, xsm_error *err)
{
    uint64_t position = e->position;
    xsmi_bind_size size = {o->examples, o->ids + o->batch, o->labels};
    XSMI_TRY(xsmi_estimator_bind(e, model, s->rows, true, &size, err));
    e->stream = s; /* owned by the binding from here on */
    xsm_status status = xsmi_stream_keep_fresh(e, s, err);
    if (status != XSM_OK) {
        e->stream = NULL; /* still owned by the caller */
        xsmi_estimator_unbind(e);
        return status;
    }
    if (kept->bytes) {
        xsmi_stream_carry(e, kept->ids, kept->bytes, true);
        e->position = position;
    }
    return XSM_OK;
}

xsm_status xsm_estimator_bind_stream(xsm_estimator *e, const xsm_model *model, const xsm_stream_options *options,
                                     xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the estimator"}, {model, "the model"});
    xsm_stream_options o = XSM_STREAM_OPTIONS_INIT;
    XSMI_TRY(read_options(e, options, &o, err));
    xsmi_stream_rows *s = NULL;
    XSMI_TRY(new_stream(e, model, &o, &s, err));
    /* An estimator that was bound to a stream before keeps the state of the ids. */
    uint64_t ids = e->stream ? e->stream->ids : 0;
    ids = XSMI_MIN(ids, o.ids);
    const size_t bytes = e->stream ? xsmi_stream_bytes(e, ids) : 0;
    unsigned char *kept = e->stream ? xsmi_allocate(e->context, bytes, 1) : NULL;
    xsm_status status = XSM_OK;
    if (e->stream && !kept) {
        status = xsmi_fail_memory(err, bytes, "what is kept of rows");
    } else {
        if (kept) {
            xsmi_stream_carry(e, ids, kept, false);
        }
        status = bind(e, model, &o, s, &(kept_state){ids, kept}, err);
    }
    if (status != XSM_OK) {
        xsmi_stream_free(s);
    }
    xsmi_release(e->context, kept, bytes, 1);
    return status;
}
