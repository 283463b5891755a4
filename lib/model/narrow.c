/* Weights in fewer bits: their names, memory, and tensors in a model's file. */
#include "model/narrow.h"
#include "base/order.h"

#include <math.h>

const char *xsmi_narrow_name(int32_t dtype)
{
    return dtype == XSM_DTYPE_FLOAT32    ? "float32"
           : dtype == XSM_DTYPE_BFLOAT16 ? "bfloat16"
           : dtype == XSM_DTYPE_INT8     ? "int8"
                                         : NULL;
}

xsmi_dtype xsmi_narrow_tensor_type(int32_t dtype)
{
    return dtype == XSM_DTYPE_INT8 ? XSMI_DTYPE_I8 : dtype == XSM_DTYPE_BFLOAT16 ? XSMI_DTYPE_BF16 : XSMI_DTYPE_F32;
}

static xsm_status read_factors(xsm_context *ctx, const char *path, const xsmi_tensor *t, double **factors,
                               xsm_error *err)
{
    const size_t rows = (size_t)t->shape[0];
    double *read;
    XSMI_TRY(xsmi_array_new(ctx, &read, rows, sizeof *read, "the factors of weights", err));
    for (size_t k = 0; k < rows; k++) {
        const float factor = ((const float *)(const void *)t->data)[k];
        if (!(factor >= 0 && factor < INFINITY)) {
            xsmi_release(ctx, read, rows, sizeof *read);
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: number %zu of tensor '%s' is %g; 0 and more is accepted", path,
                             k, t->name, (double)factor);
        }
        read[k] = (double)factor;
    }
    *factors = read;
    return XSM_OK;
}

xsm_status xsmi_weights_read(xsm_context *ctx, const xsmi_container *file, const char *path, const xsmi_tensor *numbers,
                             const char *factors_name, xsmi_weights *w, xsm_error *err)
{
    const xsmi_tensor *t = xsmi_container_tensor(file, factors_name);
    const bool int8 = numbers->dtype == XSMI_DTYPE_I8;
    if (t && !int8) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: a tensor '%s' belongs to a tensor '%s' of I8, which here is %s",
                         path, factors_name, numbers->name, xsmi_dtype_name(numbers->dtype));
    }
    if (int8 && !xsmi_tensor_is(t, XSMI_DTYPE_F32, 1, numbers->shape[0], 0)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the tensor '%s' of I8 needs a tensor '%s', F32 of %llu numbers",
                         path, numbers->name, factors_name, (unsigned long long)numbers->shape[0]);
    }
    if (int8) {
        XSMI_TRY(read_factors(ctx, path, t, &w->row_scale, err));
    }
    w->stride = (size_t)numbers->shape[1];
    if (int8 || numbers->dtype == XSMI_DTYPE_BF16) {
        w->narrow = (xsmi_narrow){int8 ? XSM_DTYPE_INT8 : XSM_DTYPE_BFLOAT16, numbers->data, w->stride};
    } else { /* the weights are copied before anyone writes to them; the alignment was checked */
        w->weight = (float *)(uintptr_t)numbers->data;
    }
    return XSM_OK;
}

xsm_status xsmi_narrow_check(const xsmi_narrow *n, size_t first, size_t count, size_t number, xsm_error *err)
{
    const uint16_t *rows = (const uint16_t *)n->data + (n->dtype == XSM_DTYPE_BFLOAT16 ? first * n->stride : 0);
    for (size_t i = 0; n->dtype == XSM_DTYPE_BFLOAT16 && i < count * n->stride; i++) {
        if ((rows[i] & 0x7f80) == 0x7f80) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED,
                             "number %zu of row %zu of the weights is not finite; nothing is saved", i % n->stride,
                             number + i / n->stride);
        }
    }
    return XSM_OK;
}
