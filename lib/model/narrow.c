/* The table of kinds of weights, and weights in fewer bits in a model's file. */
#include "model/narrow.h"

#define KIND(with, TYPE, name, number, TENSOR, whole, few) {XSM_DTYPE_##TYPE, #name, XSMI_DTYPE_##TENSOR, whole, few},
static const xsmi_weight_kind kinds[] = {XSMI_WEIGHT_KINDS(KIND, )};

const xsmi_weight_kind *xsmi_kind_after(const xsmi_weight_kind *kind)
{
    return !kind ? kinds : kind + 1 < kinds + sizeof kinds / sizeof *kinds ? kind + 1 : NULL;
}

const xsmi_weight_kind *xsmi_kind_of(int32_t dtype)
{
    const xsmi_weight_kind *kind = kinds;
    while (kind && kind->dtype != dtype) {
        kind = xsmi_kind_after(kind);
    }
    return kind;
}

const xsmi_weight_kind *xsmi_kind_in_file(xsmi_dtype tensor)
{
    const xsmi_weight_kind *kind = kinds;
    while (kind && kind->tensor != tensor) {
        kind = xsmi_kind_after(kind);
    }
    return kind;
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
    const xsmi_weight_kind *kind = xsmi_kind_in_file(numbers->dtype);
    const char *type = xsmi_dtype_name(numbers->dtype);
    if (t && !kind->whole) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: no tensor '%s' is accepted beside a tensor '%s' of %s", path,
                         factors_name, numbers->name, type);
    }
    if (kind->whole && !xsmi_tensor_is(t, XSMI_DTYPE_F32, 1, numbers->shape[0], 0)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the tensor '%s' of %s needs a tensor '%s', F32 of %llu numbers",
                         path, numbers->name, type, factors_name, (unsigned long long)numbers->shape[0]);
    }
    if (kind->whole) {
        XSMI_TRY(read_factors(ctx, path, t, &w->row_scale, err));
    }
    w->stride = (size_t)numbers->shape[1];
    if (kind->dtype != XSM_DTYPE_FLOAT32) {
        w->narrow = (xsmi_narrow){kind->dtype, numbers->data, w->stride};
    } else { /* the weights are copied before anyone writes to them; the alignment was checked */
        w->weight = (float *)(uintptr_t)numbers->data;
    }
    return XSM_OK;
}

xsm_status xsmi_narrow_check(const xsmi_narrow *n, size_t first, size_t count, size_t number, xsm_error *err)
{
    for (size_t i = 0; !xsmi_has_factors(n->dtype) && i < count * n->stride; i++) { /* whole numbers are finite */
        if (!isfinite(xsmi_number_at(n->dtype, n->data, first * n->stride + i))) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED,
                             "number %zu of row %zu of the weights is not finite; nothing is saved", i % n->stride,
                             number + i / n->stride);
        }
    }
    return XSM_OK;
}
