/* Trees over the classes. */
#include "model/class_tree.h"

#include "base/order.h"

#include <string.h>

xsmi_class_tree *xsmi_class_tree_retain(xsmi_class_tree *t)
{
    if (t) {
        xsmi_holders_add(&t->holders);
    }
    return t;
}

void xsmi_class_tree_release(xsmi_class_tree *t)
{
    if (t && xsmi_holders_drop(&t->holders)) {
        xsmi_held_release(&t->held);
        XSMI_OBJECT_FREE(t, xsmi_class_tree);
    }
}

/* Fills the arrays from `made`; returns false if this is no tree over the classes. class_leaf holds zeros, which stand
 * for none: no leaf is node 0, as the root has children. */
static bool link_nodes(xsmi_class_tree *t)
{
    uint64_t next = 1;
    uint32_t leaves = 0;
    t->parent[0] = 0;
    for (uint32_t v = 0; v < t->nodes; v++) {
        const uint32_t made = t->made[v], class = made & ~XSMI_TREE_LEAF;
        if (v >= next) {
            return false; /* no node's child */
        }
        t->first_child[v] = (uint32_t)next;
        if (made & XSMI_TREE_LEAF) {
            if (v == 0 || class >= t->classes || t->class_leaf[class] != 0) {
                return false;
            }
            t->class_leaf[class] = v;
            t->number[v] = 0;
            leaves++;
            continue;
        }
        if (made == 0 || made > XSMI_TREE_CHILDREN || next + made > t->nodes) {
            return false;
        }
        for (uint32_t i = 0; i < made; i++) {
            t->parent[next++] = v;
        }
        t->inner_node[t->inner] = v;
        t->number[v] = t->inner++;
        t->widest = XSMI_MAX(t->widest, made);
    }
    t->first_child[t->nodes] = (uint32_t)next;
    for (uint32_t v = t->nodes - 1; v > 0; v = t->parent[v]) {
        t->depth++; /* depth of the last node, and no node is deeper */
    }
    return next == t->nodes && leaves == t->classes && t->depth <= XSMI_TREE_DEPTH;
}

/* Numbers the inner nodes in preorder: the numbers of a subtree follow those of the subtrees to its left. */
static void number_in_preorder(xsmi_class_tree *t)
{
    for (uint32_t v = t->nodes; v-- > 0;) { /* first counts the inner nodes of each subtree */
        uint32_t inside = 0;
        for (uint32_t c = t->first_child[v]; c < t->first_child[v + 1]; c++) {
            inside += t->number[c];
        }
        t->number[v] = inside + !xsmi_class_tree_is_leaf(t, v);
    }
    t->number[0] = 0;
    for (uint32_t v = 0; v < t->nodes; v++) {
        uint32_t next = t->number[v] + 1;
        for (uint32_t c = t->first_child[v]; c < t->first_child[v + 1]; c++) {
            const uint32_t inside = t->number[c];
            t->number[c] = next;
            next += inside;
        }
        if (!xsmi_class_tree_is_leaf(t, v)) {
            t->inner_node[t->number[v]] = v;
        }
    }
}

xsm_status xsmi_class_tree_new(xsm_context *ctx, const uint32_t *nodes, size_t count, uint32_t classes,
                               xsmi_tree_order order, xsmi_class_tree **out, xsm_error *err)
{
    *out = NULL;
    if (count < 2 || count >= XSMI_TREE_LEAF || classes < 1) {
        return XSM_OK;
    }
    xsmi_class_tree *t;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &t, xsmi_class_tree, "a tree over the classes", err));
    t->held.context = ctx;
    xsmi_holders_start(&t->holders);
    t->nodes = (uint32_t)count;
    t->classes = classes;
    t->made = xsmi_hold(&t->held, count, sizeof *t->made);
    t->first_child = xsmi_hold(&t->held, count + 1, sizeof *t->first_child);
    t->parent = xsmi_hold(&t->held, count, sizeof *t->parent);
    t->number = xsmi_hold(&t->held, count, sizeof *t->number);
    t->inner_node = xsmi_hold(&t->held, count, sizeof *t->inner_node);
    t->class_leaf = xsmi_hold_zeros(&t->held, classes, sizeof *t->class_leaf);
    const xsm_status status = xsmi_held_check(&t->held, "a tree over the classes", err);
    if (status != XSM_OK) {
        xsmi_class_tree_release(t);
        return status;
    }
    memcpy(t->made, nodes, count * sizeof *nodes);
    if (link_nodes(t)) {
        if (order == XSMI_TREE_PREORDER) {
            number_in_preorder(t);
        }
        *out = t;
    } else {
        xsmi_class_tree_release(t);
    }
    return XSM_OK;
}
