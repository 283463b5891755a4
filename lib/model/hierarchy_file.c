/* Hierarchies in a model's file. */
#include "model/hierarchy.h"

xsmi_tensor xsmi_hierarchy_tensor(const xsmi_hierarchy *h)
{
    return (xsmi_tensor){.name = XSMI_HIERARCHY_TENSOR,
                         .dtype = XSMI_DTYPE_U32,
                         .rank = 2,
                         .shape = {h->nodes, 2},
                         .size = 2 * (size_t)h->nodes * sizeof *h->children,
                         .data = (const unsigned char *)h->children};
}

xsm_status xsmi_hierarchy_read(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t classes,
                               xsmi_hierarchy **out, xsm_error *err)
{
    const xsmi_tensor *tensor = xsmi_container_tensor(file, XSMI_HIERARCHY_TENSOR);
    *out = NULL;
    if (!tensor) {
        return XSM_OK;
    }
    if (classes > 1 && xsmi_tensor_is(tensor, XSMI_DTYPE_U32, 2, classes - 1, 2)) {
        const uint32_t *children = (const uint32_t *)(const void *)tensor->data;
        XSMI_TRY(xsmi_hierarchy_from_children(ctx, children, classes, out, err));
    }
    return *out ? XSM_OK
                : xsmi_fail(err, XSM_ERROR_FORMAT,
                            "%s: tensor 'hierarchy' must hold the children of %u nodes, a tree over the %u classes",
                            name, classes - 1, classes);
}
