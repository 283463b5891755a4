#include "estimator/stream.h"

#include <string.h>

void xsmi_stream_free(xsmi_stream_rows *s)
{
    if (s) {
        xsm_context *ctx = s->context;
        xsm_dataset_free(s->rows);
        xsmi_release(ctx, s->fresh, s->fresh_size, 1);
        XSMI_OBJECT_FREE(s, xsmi_stream_rows);
    }
}

/* -- state by row ------------------------------------------------------------------------------------------------- */

static size_t line_bytes(const xsm_state_tensor *t)
{
    return (size_t)t->width * (t->type == XSM_STATE_F64 || t->type == XSM_STATE_U64 ? 8 : 4);
}

/* Gets tensor `index` of the state, with 0 lines if it has none for each row; false after the last. */
static bool by_row(const xsm_estimator *e, uint32_t index, xsm_state_tensor *t)
{
    bool found = false;
    if (xsmi_estimator_state_tensor(e, index, t, &found, NULL) != XSM_OK || !found) {
        return false;
    }
    t->lines = t->by_row ? t->lines : 0;
    return true;
}

xsm_status xsmi_stream_keep_fresh(const xsm_estimator *e, xsmi_stream_rows *s, xsm_error *err)
{
    xsm_state_tensor t;
    size_t size = 0;
    for (uint32_t i = 0; by_row(e, i, &t); i++) {
        size += t.lines > 0 ? line_bytes(&t) : 0;
    }
    XSMI_TRY(xsmi_array_new(s->context, &s->fresh, size, 1, "a row's numbers", err));
    s->fresh_size = size;
    size_t offset = 0;
    for (uint32_t i = 0; by_row(e, i, &t); i++) {
        if (t.lines > 0) {
            memcpy(s->fresh + offset, (const unsigned char *)t.data + (size_t)s->ids * line_bytes(&t), line_bytes(&t));
            offset += line_bytes(&t);
        }
    }
    return XSM_OK;
}

/* Resets the slot of row i to its initial state. */
static void renew(const xsm_estimator *e, const xsmi_stream_rows *s, uint64_t i)
{
    xsm_state_tensor t;
    size_t offset = 0;
    for (uint32_t k = 0; by_row(e, k, &t); k++) {
        if (t.lines > 0) {
            memcpy((unsigned char *)t.data + (size_t)(s->ids + i) * line_bytes(&t), s->fresh + offset, line_bytes(&t));
            offset += line_bytes(&t);
        }
    }
}

size_t xsmi_stream_bytes(const xsm_estimator *e, uint64_t ids)
{
    xsm_state_tensor t;
    size_t bytes = 0;
    for (uint32_t i = 0; by_row(e, i, &t); i++) {
        bytes += t.lines > 0 ? (size_t)ids * line_bytes(&t) : 0;
    }
    return bytes;
}

void xsmi_stream_carry(const xsm_estimator *e, uint64_t ids, unsigned char *memory, bool back)
{
    xsm_state_tensor t;
    size_t offset = 0;
    for (uint32_t i = 0; by_row(e, i, &t); i++) {
        size_t bytes = t.lines > 0 ? (size_t)ids * line_bytes(&t) : 0;
        if (bytes > 0) {
            memcpy(back ? t.data : memory + offset, back ? memory + offset : t.data, bytes);
        }
        offset += bytes;
    }
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
    if (batch->label_weights) {
        const uint64_t labels = batch->label_offsets ? batch->label_offsets[batch->count] : batch->count;
        XSMI_TRY(xsmi_estimator_check_label_weights(e, e->stream->labels, err));
        XSMI_TRY(xsmi_check_weights(batch->label_weights, labels, "labels of the batch", err));
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
