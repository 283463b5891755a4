/* The weights of a dataset's rows and labels. */
#include "data/dataset.h"

#include "base/entry.h"

#include <inttypes.h>
#include <string.h>

#include <xsoftmax/dataset_weights.h>

/* Refuses an array that does not have `wanted` elements. */
static xsm_status check_count(const float *weights, size_t count, const char *member, uint64_t wanted, xsm_error *err)
{
    const uint64_t expected = weights ? wanted : 0;
    return count == expected
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_SHAPE, "xsm_dataset_weights.%s is %zu; %" PRIu64 " is accepted, %s", member,
                           count, expected, weights ? "as the dataset has" : "without weights");
}

xsm_status xsm_dataset_set_weights(xsm_dataset *d, const xsm_dataset_weights *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"});
    xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
    XSMI_TRY(XSMI_READ(xsm_dataset_weights, &w, given, err));
    const uint64_t labels = d->label_offsets[d->rows];
    float *row_weights = NULL, *label_weights = NULL;
    size_t row_capacity = 0, label_capacity = 0;
    xsm_status status = XSM_OK;
    XSMI_TRY(check_count(w.rows, w.row_count, "row_count", d->rows, err));
    XSMI_TRY(check_count(w.labels, w.label_count, "label_count", labels, err));
    XSMI_TRY(w.rows ? xsmi_check_weights(w.rows, d->rows, "rows", err) : XSM_OK);
    XSMI_TRY(w.labels ? xsmi_check_weights(w.labels, labels, "labels", err) : XSM_OK);
    if (w.rows) {
        row_weights = xsmi_dataset_allocate(d, d->rows, sizeof *row_weights, &row_capacity, &status, err);
    }
    if (w.labels) {
        label_weights = xsmi_dataset_allocate(d, labels, sizeof *label_weights, &label_capacity, &status, err);
    }
    if (status != XSM_OK) {
        xsmi_release(d->context, row_weights, row_capacity, sizeof *row_weights);
        return status;
    }
    if (w.rows) {
        memcpy(row_weights, w.rows, (size_t)d->rows * sizeof *row_weights);
    }
    if (w.labels) {
        memcpy(label_weights, w.labels, (size_t)labels * sizeof *label_weights);
    }
    xsmi_dataset_take_weights(d, row_weights, row_capacity);
    xsmi_dataset_take_label_weights(d, label_weights, label_capacity);
    return XSM_OK;
}
