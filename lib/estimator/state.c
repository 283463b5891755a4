/*
 * The state of an estimator besides its options and what binding computes from the data: the tensors that its table
 * lists.
 */
#include "estimator/estimator.h"

#include <string.h>

static bool good_name(const char *name)
{
    size_t length = name ? strlen(name) : 0;
    return length > 0 && length < 64 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") == length;
}

xsm_status xsmi_estimator_state_tensor(const xsm_estimator *e, uint32_t index, xsm_state_tensor *tensor, bool *found,
                                       xsm_error *err)
{
    memset(tensor, 0, sizeof *tensor);
    tensor->size = sizeof *tensor;
    *found = false;
    if (!e->ops.state_tensor) {
        if (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "estimator '%s' keeps something by row, but its table has no state_tensor() that says "
                             "what, so that it cannot be saved",
                             e->ops.name);
        }
        return XSM_OK;
    }
    if (!e->ops.state_tensor(e->state, index, tensor)) {
        return XSM_OK;
    }
    size_t count = 0;
    bool fits = tensor->lines < SIZE_MAX && tensor->width < SIZE_MAX &&
                xsmi_multiply((size_t)tensor->lines, (size_t)tensor->width, &count) && count < SIZE_MAX / 8;
    if (!good_name(tensor->name) || tensor->type < XSM_STATE_F64 || tensor->type > XSM_STATE_U32 || !fits ||
        (!tensor->data && count > 0) || (tensor->by_row && tensor->lines != e->row_slots)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': tensor %u of its state has no good name, type, shape or data", e->ops.name,
                         index);
    }
    *found = true;
    return XSM_OK;
}
