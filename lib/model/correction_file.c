/* Corrections in a model's file: a tensor `correction` [K] of numbers, or the tensors of a tree (tree_file.c). */
#include "model/correction.h"
#include "model/parts.h"

#include <string.h>

size_t xsmi_correction_tensors(const xsmi_correction *c, xsmi_tensor tensors[XSMI_CORRECTION_TENSORS])
{
    const xsmi_tree *t = xsmi_correction_tree(c);
    if (t) {
        return xsmi_tree_tensors(t, tensors);
    }
    tensors[0] = (xsmi_tensor){.name = "correction",
                               .dtype = XSMI_DTYPE_F32,
                               .rank = 1,
                               .shape = {xsmi_correction_classes(c)},
                               .size = xsmi_correction_classes(c) * sizeof(float),
                               .data = (const unsigned char *)xsmi_correction_numbers(c)};
    return 1;
}

xsm_status xsmi_correction_write(const xsmi_correction *c, xsmi_container_writer *w, xsm_error *err)
{
    xsmi_tensor tensors[XSMI_CORRECTION_TENSORS];
    size_t count = xsmi_correction_tensors(c, tensors);
    for (size_t i = 0; i < count; i++) {
        XSMI_TRY(xsmi_container_write(w, tensors[i].data, tensors[i].size, err));
    }
    return XSM_OK;
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

static bool has_shape(const xsmi_tensor *t, xsmi_dtype dtype, uint32_t rank, uint64_t rows, uint64_t columns)
{
    return t && t->dtype == dtype && t->rank == rank && t->shape[0] == rows && (rank == 1 || t->shape[1] == columns);
}

static bool all_finite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!(values[i] - values[i] == 0)) {
            return false;
        }
    }
    return true;
}

xsm_status xsmi_correction_read(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t classes,
                                uint32_t features, xsmi_correction **out, xsm_error *err)
{
    const xsmi_tensor *numbers = xsmi_container_tensor(file, "correction");
    const xsmi_tensor *parts[XSMI_TREE_TENSORS];
    bool tree = false;
    *out = NULL;
    for (size_t i = 0; i < XSMI_TREE_TENSORS; i++) {
        parts[i] = xsmi_container_tensor(file, xsmi_tree_tensor_names[i]);
        tree |= parts[i] != NULL;
    }
    if (numbers) {
        const float *values = (const float *)(const void *)numbers->data;
        if (tree || !has_shape(numbers, XSMI_DTYPE_F32, 1, classes, 0) || !all_finite(values, classes)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT,
                             "%s: tensor 'correction' must hold a finite F32 for each of the %u classes, and no tree "
                             "beside it",
                             name, classes);
        }
        return xsmi_correction_of_classes(ctx, values, classes, out, err);
    }
    if (!tree) {
        return XSM_OK;
    }
    xsmi_tree t;
    memset(&t, 0, sizeof t);
    xsm_status status = xsmi_tree_restore(ctx, parts, name, classes, features, &t, err);
    if (status == XSM_OK) {
        status = xsmi_correction_of_tree(ctx, &t, out, err);
    }
    xsmi_tree_clear(&t);
    return status;
}
