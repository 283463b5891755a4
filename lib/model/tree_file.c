/* Trees over the classes in files. */
#include "model/tree_file.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

const char *const xsmi_tree_tensor_names[XSMI_TREE_TENSORS] = {XSMI_TREE_TENSOR_NAMES};

static xsmi_tensor tensor(size_t which, xsmi_dtype dtype, uint32_t rank, uint64_t rows, uint64_t columns,
                          const void *data)
{
    return (xsmi_tensor){.name = xsmi_tree_tensor_names[which],
                         .dtype = dtype,
                         .rank = rank,
                         .shape = {rows, columns},
                         .size = (size_t)(rows * (rank > 1 ? columns : 1)) * xsmi_dtype_size(dtype),
                         .data = data};
}

size_t xsmi_tree_tensors(const xsmi_tree *t, xsmi_tensor tensors[XSMI_TREE_TENSORS])
{
    const xsmi_pca *p = &t->pca;
    tensors[0] = tensor(0, XSMI_DTYPE_F32, 2, xsmi_tree_leaves(t), t->dims, t->nodes);
    tensors[1] = tensor(1, XSMI_DTYPE_U32, 1, t->classes, 0, t->class_leaf);
    tensors[2] = tensor(2, XSMI_DTYPE_F32, 1, p->features, 0, p->mean);
    tensors[3] = tensor(3, XSMI_DTYPE_F32, 2, p->features, p->components, p->direction);
    return XSMI_TREE_TENSORS;
}

/* Whether no draw can reach a leaf without a class: a node with such a side must choose the other side with probability
 * 1. */
static bool is_closed(const xsmi_tree *t, unsigned char *has_class)
{
    size_t leaves = xsmi_tree_leaves(t);
    for (size_t i = 0; i < leaves; i++) {
        has_class[leaves + i] = t->leaf_class[i] != XSMI_NO_CLASS;
    }
    for (size_t node = leaves - 1; node > 0; node--) {
        bool left = has_class[2 * node], right = has_class[2 * node + 1];
        has_class[node] = 1;
        if (left && right) {
            continue;
        }
        if (!left && !right) {
            return false;
        }
        const float *w = t->nodes + node * t->dims;
        for (uint32_t i = 0; i < t->dims; i++) {
            float want = i == t->pca.components ? (left ? -XSMI_TREE_SURE : XSMI_TREE_SURE) : 0;
            if (w[i] > want || w[i] < want) {
                return false;
            }
        }
    }
    return true;
}

/* Returns the largest absolute value; INFINITY if a number is NaN. */
static double largest(const float *numbers, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double size = fabs((double)numbers[i]);
        most = size < INFINITY ? XSMI_MAX(size, most) : INFINITY;
    }
    return most;
}

/* Whether scores of nodes are far from overflow for rows whose values are about as large as the mean's, or 1. */
static bool is_moderate(const xsmi_tree *t)
{
    const xsmi_pca *p = &t->pca;
    double code =
        p->features * largest(p->direction, (size_t)p->features * p->components) * (1 + largest(p->mean, p->features));
    double node = largest(t->nodes, xsmi_tree_leaves(t) * t->dims) * (1 + p->components * code);
    return code < 1e36 && node < 1e36;
}

static xsm_status bad_tree(const char *name, xsm_error *err)
{
    return xsmi_fail(
        err, XSM_ERROR_FORMAT,
        "%s: its tree is none: tree_nodes, tree_leaves, tree_mean and tree_directions do not fit the classes and "
        "features, or each other, or scores made with them would overflow",
        name);
}

xsm_status xsmi_tree_restore(const xsmi_tensor_source *s, xsmi_tree *t, xsm_error *err)
{
    const xsmi_tensor *nodes = s->tensors[0], *leaves = s->tensors[1], *mean = s->tensors[2];
    const xsmi_tensor *directions = s->tensors[3];
    uint64_t components = directions && directions->rank == 2 ? directions->shape[1] : UINT64_MAX;
    if (components > s->features || !xsmi_tensor_is(leaves, XSMI_DTYPE_U32, 1, s->classes, 0) ||
        !xsmi_tensor_is(mean, XSMI_DTYPE_F32, 1, s->features, 0) ||
        !xsmi_tensor_is(directions, XSMI_DTYPE_F32, 2, s->features, components)) {
        return bad_tree(s->name, err);
    }
    XSMI_TRY(xsmi_pca_start(s->context, s->features, (uint32_t)components, &t->pca, err));
    XSMI_TRY(xsmi_tree_start(s->context, s->classes, t, err));
    if (!xsmi_tensor_is(nodes, XSMI_DTYPE_F32, 2, xsmi_tree_leaves(t), t->dims)) {
        return bad_tree(s->name, err);
    }
    memcpy(t->nodes, nodes->data, nodes->size);
    memcpy(t->class_leaf, leaves->data, leaves->size);
    memcpy(t->pca.mean, mean->data, mean->size);
    memcpy(t->pca.direction, directions->data, directions->size);
    if (!xsmi_tree_set_leaves(t) || !is_moderate(t)) {
        return bad_tree(s->name, err);
    }
    size_t count = 2 * xsmi_tree_leaves(t);
    unsigned char *has_class;
    XSMI_TRY(xsmi_array_new(s->context, &has_class, count, 1, "the leaves of a tree", err));
    bool closed = is_closed(t, has_class);
    xsmi_release(s->context, has_class, count, 1);
    if (!closed) {
        return bad_tree(s->name, err);
    }
    xsmi_pca_set_offset(&t->pca);
    return XSM_OK;
}
