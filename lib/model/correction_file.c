/*
 * Corrections in a model's file: a tensor `correction` [K] of numbers, or the tensors of a tree (tree_file.c), or a
 * hierarchy as `hierarchy` [K-1, 2], the children of its nodes in preorder: below 2^31 a node, else 2^31 + a class.
 */
#include "model/correction.h"
#include "model/parts.h"

#include <string.h>

size_t xsmi_correction_tensors(const xsmi_correction *c, xsmi_tensor tensors[XSMI_CORRECTION_TENSORS])
{
    const xsmi_tree *t = xsmi_correction_tree(c);
    const xsmi_hierarchy *h = xsmi_correction_hierarchy(c);
    if (h) {
        tensors[0] = (xsmi_tensor){.name = "hierarchy",
                                   .dtype = XSMI_DTYPE_U32,
                                   .rank = 2,
                                   .shape = {h->nodes, 2},
                                   .size = 2 * (size_t)h->nodes * sizeof *h->children,
                                   .data = (const unsigned char *)h->children};
        return 1;
    }
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

static xsm_status read_hierarchy(xsm_context *ctx, const xsmi_tensor *tensor, const char *name, uint32_t classes,
                                 bool alone, xsmi_correction **out, xsm_error *err)
{
    xsmi_hierarchy h;
    bool good = false;
    if (alone && classes > 1 && xsmi_tensor_is(tensor, XSMI_DTYPE_U32, 2, classes - 1, 2)) {
        const uint32_t *children = (const uint32_t *)(const void *)tensor->data;
        XSMI_TRY(xsmi_hierarchy_read(ctx, children, classes, &h, &good, err));
    }
    if (!good) {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s: tensor 'hierarchy' must hold the children of %u nodes, a tree over the %u classes, and no "
            "correction or tree beside it",
            name, classes - 1, classes);
    }
    xsm_status status = xsmi_correction_of_hierarchy(ctx, &h, out, err);
    xsmi_hierarchy_clear(&h);
    return status;
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
    const xsmi_tensor *hierarchy = xsmi_container_tensor(file, "hierarchy");
    if (hierarchy) {
        return read_hierarchy(ctx, hierarchy, name, classes, !tree && !numbers, out, err);
    }
    if (numbers) {
        const float *values = (const float *)(const void *)numbers->data;
        if (tree || !xsmi_tensor_is(numbers, XSMI_DTYPE_F32, 1, classes, 0) || !xsmi_floats_finite(values, classes)) {
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
