/*
 * Rows of a stream: each batch brings features and labels, and they never form a dataset. State by row is stored by the
 * host's ids; a row without an id gets a slot that is reset for each batch.
 *
 * The estimator is bound to a dataset without rows, which has the classes.
 */
#include "estimator/estimator.h"

#include "base/heap_sort.h"

#include <string.h>

#define BATCH_DEFAULT 256

struct xsmi_stream_rows {
    xsm_context *context;
    xsm_dataset *rows; /* a dataset without rows, for the classes */
    uint64_t ids, batch, labels;
    unsigned char *fresh; /* [fresh_size] a line of each tensor by row in the state after bind(), one after another */
    size_t fresh_size;
};

void xsmi_stream_free(xsmi_stream_rows *s)
{
    if (s) {
        xsm_context *ctx = s->context;
        xsm_dataset_free(s->rows);
        xsmi_release(ctx, s->fresh, s->fresh_size, 1);
        xsmi_release(ctx, s, 1, sizeof *s);
        xsm_context_free(ctx);
    }
}

/* -- state by row ------------------------------------------------------------------------------------------------- */

static size_t line_bytes(const xsm_state_tensor *t)
{
    return (size_t)t->width * (t->type == XSM_STATE_F64 || t->type == XSM_STATE_U64 ? 8 : 4);
}

/* Tensor number `index` of those by row; false after the last. Other tensors have no lines. */
static bool by_row(const xsm_estimator *e, uint32_t index, xsm_state_tensor *t)
{
    bool found = false;
    if (xsmi_estimator_state_tensor(e, index, t, &found, NULL) != XSM_OK || !found) {
        return false;
    }
    t->lines = t->by_row ? t->lines : 0;
    return true;
}

/* Stores a line in its initial state. */
static xsm_status keep_fresh(const xsm_estimator *e, xsmi_stream_rows *s, xsm_error *err)
{
    xsm_state_tensor t;
    size_t size = 0;
    for (uint32_t i = 0; by_row(e, i, &t); i++) {
        size += t.lines > 0 ? line_bytes(&t) : 0;
    }
    s->fresh = xsmi_allocate(s->context, size, 1);
    if (!s->fresh) {
        return xsmi_fail_memory(err, size, "a row's numbers");
    }
    s->fresh_size = size;
    size_t place = 0;
    for (uint32_t i = 0; by_row(e, i, &t); i++) {
        if (t.lines > 0) {
            memcpy(s->fresh + place, (const unsigned char *)t.data + (size_t)s->ids * line_bytes(&t), line_bytes(&t));
            place += line_bytes(&t);
        }
    }
    return XSM_OK;
}

/* Resets the slot of row i to its initial state. */
static void renew(const xsm_estimator *e, const xsmi_stream_rows *s, uint64_t i)
{
    xsm_state_tensor t;
    size_t place = 0;
    for (uint32_t k = 0; by_row(e, k, &t); k++) {
        if (t.lines > 0) {
            memcpy((unsigned char *)t.data + (size_t)(s->ids + i) * line_bytes(&t), s->fresh + place, line_bytes(&t));
            place += line_bytes(&t);
        }
    }
}

/* Copies the lines of the first `ids` rows of all tensors to memory or, with `back`, from there. */
static void carry(const xsm_estimator *e, uint64_t ids, unsigned char *memory, bool back)
{
    xsm_state_tensor t;
    size_t place = 0;
    for (uint32_t i = 0; by_row(e, i, &t); i++) {
        size_t bytes = t.lines > 0 ? (size_t)ids * line_bytes(&t) : 0;
        if (bytes > 0) {
            memcpy(back ? t.data : memory + place, back ? memory + place : t.data, bytes);
        }
        place += bytes;
    }
}

/* -- binding ------------------------------------------------------------------------------------------------------ */

static xsm_status new_stream(const xsm_estimator *e, const xsm_model *model, const xsm_stream_options *o,
                             xsmi_stream_rows **out, xsm_error *err)
{
    xsmi_stream_rows *s = xsmi_allocate_zero(e->context, 1, sizeof *s);
    if (!s) {
        return xsmi_fail_memory(err, sizeof *s, "a stream of rows");
    }
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
        s->rows->class_counts[k] = o->class_counts[k];
    }
    *out = s;
    return XSM_OK;
}

static xsm_status read_options(const xsm_estimator *e, const xsm_stream_options *given, xsm_stream_options *o,
                               xsm_error *err)
{
    XSMI_TRY(xsmi_options_read(o, sizeof *o, sizeof *o, given, "xsm_stream_options", err));
    o->batch = o->batch ? o->batch : BATCH_DEFAULT;
    o->labels = o->labels ? o->labels : 1;
    if (o->examples == 0 && e->common.ridge > 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a ridge is of the sum over all rows: xsm_stream_options.examples must say how many they are");
    }
    o->examples = o->examples ? o->examples : 1;
    if (o->reserved != 0 || o->labels > XSM_CLASSES_MAX || o->batch > SIZE_MAX / 16 || o->ids > SIZE_MAX / 16) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_stream_options: %llu ids, batches of %llu and %u labels are too "
                         "many, or `reserved` is not 0",
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

/* Binds and restores the state by ids from `held`. */
static xsm_status bind(xsm_estimator *e, const xsm_model *model, const xsm_stream_options *o, xsmi_stream_rows *s,
                       uint64_t held_ids, unsigned char *held, xsm_error *err)
{
    uint64_t position = e->position;
    xsmi_bind_size size = {o->examples, o->ids + o->batch, o->labels};
    XSMI_TRY(xsmi_estimator_bind(e, model, s->rows, true, &size, err));
    e->stream = s; /* owned by the binding from here on */
    xsm_status status = keep_fresh(e, s, err);
    if (status != XSM_OK) {
        e->stream = NULL; /* still owned by the caller */
        xsmi_estimator_unbind(e);
        return status;
    }
    if (held) {
        carry(e, held_ids, held, true);
        e->position = position;
    }
    return XSM_OK;
}

xsm_status xsm_estimator_bind_stream(xsm_estimator *e, const xsm_model *model, const xsm_stream_options *options,
                                     xsm_error *err)
{
    if (!e || !model) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_bind_stream: %s is NULL",
                         e ? "the model" : "the estimator");
    }
    xsm_stream_options o = XSM_STREAM_OPTIONS_INIT;
    XSMI_TRY(read_options(e, options, &o, err));
    xsmi_stream_rows *s = NULL;
    XSMI_TRY(new_stream(e, model, &o, &s, err));
    /* If bound to a stream before, the state of ids remains. */
    uint64_t ids = e->stream ? e->stream->ids : 0;
    ids = ids < o.ids ? ids : o.ids;
    size_t bytes = 0;
    xsm_state_tensor t;
    for (uint32_t i = 0; e->stream && by_row(e, i, &t); i++) {
        bytes += t.lines > 0 ? (size_t)ids * line_bytes(&t) : 0;
    }
    unsigned char *held = e->stream ? xsmi_allocate(e->context, bytes, 1) : NULL;
    xsm_status status = XSM_OK;
    if (e->stream && !held) {
        status = xsmi_fail_memory(err, bytes, "what is kept of rows");
    } else {
        if (held) {
            carry(e, ids, held, false);
        }
        status = bind(e, model, &o, s, ids, held, err);
    }
    if (status != XSM_OK) {
        xsmi_stream_free(s);
    }
    xsmi_release(e->context, held, bytes, 1);
    return status;
}

/* -- batches ------------------------------------------------------------------------------------------------------ */

static xsm_status check_row(const xsm_estimator *e, const xsm_batch *batch, uint64_t i, xsm_error *err)
{
    const uint64_t *at = batch->label_offsets;
    const uint64_t first = at ? at[i] : i, end = at ? at[i + 1] : i + 1;
    if (end <= first || end - first > e->stream->labels) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "row %llu of the batch has %lld labels; 1 to %llu are accepted",
                         (unsigned long long)i, (long long)(end - first), (unsigned long long)e->stream->labels);
    }
    for (uint64_t j = first; j < end; j++) {
        if (batch->labels[j] >= e->model->classes) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "row %llu of the batch has the label %u; the model has %u classes, and xsm_model_grow() "
                             "gives it more",
                             (unsigned long long)i, batch->labels[j], e->model->classes);
        }
        for (uint64_t k = first; k < j; k++) {
            if (batch->labels[k] == batch->labels[j]) {
                return xsmi_fail(err, XSM_ERROR_RANGE, "row %llu of the batch has the label %u twice",
                                 (unsigned long long)i, batch->labels[j]);
            }
        }
    }
    uint64_t id = batch->ids ? batch->ids[i] : XSM_NO_ID;
    if (id == XSM_NO_ID ? i >= e->stream->batch : id >= e->stream->ids) {
        return id == XSM_NO_ID
                   ? xsmi_fail(err, XSM_ERROR_RANGE,
                               "row %llu of the batch has no id; batches with such rows have %llu at most, which "
                               "xsm_stream_options.batch says",
                               (unsigned long long)i, (unsigned long long)e->stream->batch)
                   : xsmi_fail(err, XSM_ERROR_RANGE,
                               "row %llu of the batch has the id %llu; ids are below %llu, which "
                               "xsm_stream_options.ids says",
                               (unsigned long long)i, (unsigned long long)id, (unsigned long long)e->stream->ids);
    }
    return XSM_OK;
}

xsm_status xsmi_stream_read_batch(const xsm_estimator *e, const xsm_batch *batch, xsm_error *err)
{
    if (batch->dataset || !batch->labels) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s' is bound to a stream: a batch brings its labels (xsm_batch.labels), not a "
                         "dataset",
                         e->ops.name);
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        XSMI_TRY(check_row(e, batch, i, err));
    }
    for (uint64_t i = 0; e->stream->fresh_size > 0 && i < batch->count; i++) {
        if (!batch->ids || batch->ids[i] == XSM_NO_ID) {
            renew(e, e->stream, i);
        }
    }
    return XSM_OK;
}

uint64_t xsmi_stream_slot(const xsm_estimator *e, const xsm_batch *batch, uint64_t i)
{
    return batch->ids && batch->ids[i] != XSM_NO_ID ? batch->ids[i] : e->stream->ids + i;
}

bool xsmi_stream_repeats(const xsm_estimator *e, const xsm_batch *batch)
{
    if (!batch->ids) {
        return false;
    }
    uint64_t *slots = xsmi_allocate(e->context, (size_t)batch->count, 2 * sizeof *slots);
    if (!slots) {
        return true;
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        slots[i] = xsmi_stream_slot(e, batch, i);
    }
    xsm_batch by_slot = *batch;
    by_slot.rows = slots;
    bool repeats = xsmi_batch_has_repeats(&by_slot, slots + batch->count);
    xsmi_release(e->context, slots, (size_t)batch->count, 2 * sizeof *slots);
    return repeats;
}
