/* The weights of a dataset's rows. */
#include "data/dataset.h"

#include "base/entry.h"

#include <string.h>

#include <xsoftmax/ext/dataset_weights.h>

xsm_status xsm_dataset_set_weights(xsm_dataset *d, const xsm_dataset_weights *given, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!d) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_set_weights: dataset is NULL");
    }
    xsm_dataset_weights w = XSM_DATASET_WEIGHTS_INIT;
    XSMI_TRY(xsmi_options_read(&w, sizeof w, XSMI_FIRST(xsm_dataset_weights), given, "xsm_dataset_weights", err));
    float *fresh = NULL;
    size_t capacity = 0;
    xsm_status status = XSM_OK;
    if (w.rows) {
        XSMI_TRY(xsmi_check_weights(w.rows, d->rows, "rows", err));
        fresh = xsmi_dataset_allocate(d, d->rows, sizeof *fresh, &capacity, &status, err);
        XSMI_TRY(status);
        memcpy(fresh, w.rows, (size_t)d->rows * sizeof *fresh);
    }
    xsmi_dataset_take_weights(d, fresh, capacity);
    return XSM_OK;
}
