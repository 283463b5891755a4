/*
 * Corrections in a model's file: a tensor `correction` [K] of numbers, or a tree as `tree_nodes` [2^height, dims],
 * `tree_leaves` [K], `tree_mean` [D] and, where it has components, `tree_directions` [D, components].
 */
#include "model/correction.h"
#include "model/parts.h"

#include <string.h>

static void describe(xsmi_tensor *t, const char *name, xsmi_dtype dtype, uint32_t rank, uint64_t rows, uint64_t columns)
{
    *t = (xsmi_tensor){.name = name, .dtype = dtype, .rank = rank, .shape = {rows, columns}};
}

size_t xsmi_correction_tensors(const xsmi_correction *c, xsmi_tensor tensors[XSMI_CORRECTION_TENSORS])
{
    const xsmi_tree *t = xsmi_correction_tree(c);
    if (!t) {
        describe(&tensors[0], "correction", XSMI_DTYPE_F32, 1, xsmi_correction_classes(c), 0);
        return 1;
    }
    describe(&tensors[0], "tree_nodes", XSMI_DTYPE_F32, 2, xsmi_tree_leaves(t), t->dims);
    describe(&tensors[1], "tree_leaves", XSMI_DTYPE_U32, 1, t->classes, 0);
    describe(&tensors[2], "tree_mean", XSMI_DTYPE_F32, 1, t->pca.features, 0);
    describe(&tensors[3], "tree_directions", XSMI_DTYPE_F32, 2, t->pca.features, t->pca.components);
    return t->pca.components > 0 ? 4 : 3;
}

xsm_status xsmi_correction_write(const xsmi_correction *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsmi_tree *t = xsmi_correction_tree(c);
    if (!t) {
        const float *numbers = xsmi_correction_numbers(c);
        return xsmi_container_write(w, numbers, xsmi_correction_classes(c) * sizeof *numbers, err);
    }
    const xsmi_pca *p = &t->pca;
    size_t directions = (size_t)p->features * p->components;
    XSMI_TRY(xsmi_container_write(w, t->nodes, xsmi_tree_leaves(t) * t->dims * sizeof *t->nodes, err));
    XSMI_TRY(xsmi_container_write(w, t->class_leaf, t->classes * sizeof *t->class_leaf, err));
    XSMI_TRY(xsmi_container_write(w, p->mean, p->features * sizeof *p->mean, err));
    return directions ? xsmi_container_write(w, p->direction, directions * sizeof *p->direction, err) : XSM_OK;
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

static xsm_status bad_tree(const char *name, xsm_error *err)
{
    return xsmi_fail(
        err, XSM_ERROR_FORMAT,
        "%s: its tree is none: tree_nodes, tree_leaves, tree_mean and tree_directions do not fit the model or "
        "each other",
        name);
}

static xsm_status read_tree(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t classes,
                            uint32_t features, xsmi_tree *t, xsm_error *err)
{
    const xsmi_tensor *nodes = xsmi_container_tensor(file, "tree_nodes");
    const xsmi_tensor *leaves = xsmi_container_tensor(file, "tree_leaves");
    const xsmi_tensor *mean = xsmi_container_tensor(file, "tree_mean");
    const xsmi_tensor *directions = xsmi_container_tensor(file, "tree_directions");
    uint64_t components = directions && directions->rank == 2 ? directions->shape[1] : 0;
    if (components > features || !has_shape(leaves, XSMI_DTYPE_U32, 1, classes, 0) ||
        !has_shape(mean, XSMI_DTYPE_F32, 1, features, 0) ||
        (directions && !has_shape(directions, XSMI_DTYPE_F32, 2, features, components))) {
        return bad_tree(name, err);
    }
    XSMI_TRY(xsmi_pca_start(ctx, features, (uint32_t)components, &t->pca, err));
    XSMI_TRY(xsmi_tree_start(ctx, classes, t, err));
    if (!has_shape(nodes, XSMI_DTYPE_F32, 2, xsmi_tree_leaves(t), t->dims)) {
        return bad_tree(name, err);
    }
    memcpy(t->nodes, nodes->data, nodes->size);
    memcpy(t->class_leaf, leaves->data, leaves->size);
    memcpy(t->pca.mean, mean->data, mean->size);
    if (directions) {
        memcpy(t->pca.direction, directions->data, directions->size);
    }
    if (!xsmi_tree_set_leaves(t) || !all_finite(t->nodes, nodes->size / sizeof(float)) ||
        !all_finite(t->pca.mean, features) || !all_finite(t->pca.direction, (size_t)features * components)) {
        return bad_tree(name, err);
    }
    xsmi_pca_set_offset(&t->pca);
    return XSM_OK;
}

xsm_status xsmi_correction_read(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t classes,
                                uint32_t features, xsmi_correction **out, xsm_error *err)
{
    static const char *const of_tree[] = {"tree_nodes", "tree_leaves", "tree_mean", "tree_directions"};
    const xsmi_tensor *numbers = xsmi_container_tensor(file, "correction");
    bool tree = false;
    *out = NULL;
    for (size_t i = 0; i < sizeof of_tree / sizeof *of_tree; i++) {
        tree |= xsmi_container_tensor(file, of_tree[i]) != NULL;
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
    xsm_status status = read_tree(ctx, file, name, classes, features, &t, err);
    if (status == XSM_OK) {
        status = xsmi_correction_of_tree(ctx, &t, out, err);
    }
    xsmi_tree_clear(&t);
    return status;
}
