/*
 * Corrections in a model's file: a tensor `correction` [K] of numbers, or the tensors of a tree (tree_file.c), or a
 * hierarchy as `hierarchy` [K-1, 2], the children of its nodes in preorder: below 2^31 a node, else 2^31 + a class; or
 * pairs as `pair_counts` [D], how many classes each feature has, and feature by feature the classes, rising, as
 * `pair_classes`, and their numbers as `pair_values`.
 */
#include "model/correction.h"
#include "model/parts.h"

#include <string.h>

enum { PAIR_TENSORS = 3 };
static const char *const pair_names[PAIR_TENSORS] = {"pair_counts", "pair_classes", "pair_values"};

static xsmi_tensor list(const char *name, xsmi_dtype dtype, size_t count, size_t each, const void *data)
{
    return (xsmi_tensor){.name = name, .dtype = dtype, .rank = 1, .shape = {count}, .size = count * each, .data = data};
}

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
    const xsmi_pairs *p = xsmi_correction_pairs(c);
    if (p) {
        tensors[0] = list(pair_names[0], XSMI_DTYPE_U32, p->features, sizeof *p->counts, p->counts);
        tensors[1] = list(pair_names[1], XSMI_DTYPE_U32, p->count, sizeof *p->class, p->class);
        tensors[2] = list(pair_names[2], XSMI_DTYPE_F32, p->count, sizeof *p->value, p->value);
        return PAIR_TENSORS;
    }
    tensors[0] =
        list("correction", XSMI_DTYPE_F32, xsmi_correction_classes(c), sizeof(float), xsmi_correction_numbers(c));
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

static xsm_status bad_pairs(const char *name, uint32_t classes, uint32_t features, xsm_error *err)
{
    return xsmi_fail(
        err, XSM_ERROR_FORMAT,
        "%s: tensors 'pair_counts', 'pair_classes' and 'pair_values' must hold how many classes each of the "
        "%u features has, those below %u, rising for each feature, and a finite F32 for each, and no other "
        "correction beside them",
        name, features, classes);
}

static xsm_status read_pairs(xsm_context *ctx, const xsmi_tensor *const t[PAIR_TENSORS], const char *name,
                             uint32_t classes, uint32_t features, xsmi_correction **out, xsm_error *err)
{
    const uint64_t count = t[1] && t[1]->rank == 1 ? t[1]->shape[0] : 0;
    if (count == 0 || !xsmi_tensor_is(t[0], XSMI_DTYPE_U32, 1, features, 0) ||
        !xsmi_tensor_is(t[1], XSMI_DTYPE_U32, 1, count, 0) || !xsmi_tensor_is(t[2], XSMI_DTYPE_F32, 1, count, 0)) {
        return bad_pairs(name, classes, features, err);
    }
    const uint32_t *counts = (const uint32_t *)(const void *)t[0]->data;
    uint64_t total = 0;
    for (uint32_t j = 0; j < features; j++) {
        total += counts[j];
    }
    if (total != count) {
        return bad_pairs(name, classes, features, err);
    }
    xsmi_pairs pairs;
    memset(&pairs, 0, sizeof pairs);
    xsm_status status = xsmi_pairs_start(ctx, counts, features, classes, &pairs, err);
    if (status == XSM_OK) {
        memcpy(pairs.class, t[1]->data, t[1]->size);
        memcpy(pairs.value, t[2]->data, t[2]->size);
        status = xsmi_pairs_sound(&pairs) ? xsmi_correction_of_pairs(ctx, &pairs, out, err)
                                          : bad_pairs(name, classes, features, err);
    }
    xsmi_pairs_clear(&pairs);
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
    const xsmi_tensor *of_pairs[PAIR_TENSORS];
    bool any = false;
    for (size_t i = 0; i < PAIR_TENSORS; i++) {
        of_pairs[i] = xsmi_container_tensor(file, pair_names[i]);
        any |= of_pairs[i] != NULL;
    }
    if (any) {
        return tree || hierarchy || numbers ? bad_pairs(name, classes, features, err)
                                            : read_pairs(ctx, of_pairs, name, classes, features, out, err);
    }
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
