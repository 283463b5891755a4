/* Hierarchies in a model's file. */
#include "model/hierarchy.h"

xsmi_tensor xsmi_hierarchy_tensor(const xsmi_class_tree *h)
{
    return (xsmi_tensor){.name = XSMI_TREE_TENSOR,
                         .dtype = XSMI_DTYPE_U32,
                         .rank = 1,
                         .shape = {h->nodes},
                         .size = h->nodes * sizeof *h->made,
                         .data = (const unsigned char *)h->made};
}

xsm_status xsmi_hierarchy_read(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t classes,
                               xsmi_class_tree **out, xsm_error *err)
{
    const xsmi_tensor *tensor = xsmi_container_tensor(file, XSMI_TREE_TENSOR);
    *out = NULL;
    if (!tensor) {
        return XSM_OK;
    }
    if (tensor->dtype == XSMI_DTYPE_U32 && tensor->rank == 1) {
        const uint32_t *nodes = (const uint32_t *)(const void *)tensor->data;
        XSMI_TRY(xsmi_hierarchy_new(ctx, nodes, (size_t)tensor->shape[0], classes, out, err));
    }
    return *out ? XSM_OK
                : xsmi_fail(err, XSM_ERROR_FORMAT,
                            "%s: tensor '" XSMI_TREE_TENSOR
                            "' must hold a binary tree over the %u classes: 2 for each node with children, level by "
                            "level, 2^31 + the class for each leaf, at most %d steps below the root",
                            name, classes, XSMI_TREE_DEPTH);
}
