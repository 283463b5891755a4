/*
 * Label trees with more classes and features. New classes get a node of their own under the root, or are children of
 * it if there is one, with weights of 0 and a bias so low that they come last and leave the probabilities of the
 * others as they are, to the last bit: until a fit puts them beside the classes that they are like (labels/arrivals.h).
 */
#include "model/grow_trees.h"

#include "model/model.h"

#include <string.h>

/* The score of new classes under the root: its exponential is 0 beside any other. */
#define LAST (-1e4f)

/* A tree that grows. */
typedef struct growing {
    xsm_context *context;
    const xsmi_label_tree *old;
    uint32_t features, classes;
    const uint32_t *match; /* [classes of the old tree] */
    const uint32_t *fresh; /* [count] the new classes */
    uint32_t count;
} growing;

/* Makes the tree: the new classes' node is the last child of the root, and its children are the last nodes of level
 * 2. */
static xsm_status make_tree(const growing *g, xsmi_class_tree **out, xsm_error *err)
{
    const xsmi_class_tree *old = g->old->tree;
    const uint32_t under = g->count > 1 ? g->count : 0, some = g->count > 0, nodes = old->nodes + some + under;
    const uint32_t first = old->first_child[1], second = old->first_child[first]; /* where levels 1 and 2 end */
    uint32_t *made, at = 0;
    XSMI_TRY(xsmi_array_new(g->context, &made, nodes, sizeof *made, "a label tree", err));
    for (uint32_t v = 0; v <= old->nodes; v++) {
        if (v == first && some) {
            made[at++] = under ? under : XSMI_TREE_LEAF | g->fresh[0];
        }
        for (uint32_t i = 0; v == second && i < under; i++) {
            made[at++] = XSMI_TREE_LEAF | g->fresh[i];
        }
        if (v < old->nodes) {
            made[at++] = xsmi_class_tree_is_leaf(old, v) ? XSMI_TREE_LEAF | g->match[xsmi_class_tree_class(old, v)]
                                                         : old->made[v] + (v == 0 ? some : 0);
        }
    }
    xsm_status status = xsmi_class_tree_new(g->context, made, nodes, g->classes, XSMI_TREE_BY_LEVEL, out, err);
    xsmi_release(g->context, made, nodes, sizeof *made);
    return status == XSM_OK && !*out
               ? xsmi_fail(err, XSM_ERROR_LIMIT, "%u new classes; a label tree takes up to %d at a time", g->count,
                           XSMI_TREE_CHILDREN)
               : status;
}

/* Adds the chunk of the new classes' node. */
static xsm_status add_fresh(const growing *g, xsmi_sparse_builder *b, xsm_error *err)
{
    static const uint32_t none[1] = {0};
    float *bias;
    XSMI_TRY(xsmi_zeros_new(g->context, &bias, g->count, sizeof *bias, "the weights of a node", err));
    const xsm_status status =
        xsmi_sparse_builder_add(b, &(xsmi_sparse_chunk){g->count, 0, none, none, NULL, NULL, bias}, err);
    xsmi_release(g->context, bias, g->count, sizeof *bias);
    return status;
}

/* Adds a chunk as it is; that of the root with a row more, for the new classes' node. */
static xsm_status add_old(const growing *g, xsmi_sparse_builder *b, xsmi_sparse_taken *from, uint32_t number,
                          xsm_error *err)
{
    XSMI_TRY(xsmi_sparse_take(from, g->old->weights, number, err));
    if (number > 0 || g->count == 0) {
        return xsmi_sparse_builder_add(b, &from->chunk, err);
    }
    const uint32_t rows = from->chunk.rows;
    float *bias;
    XSMI_TRY(xsmi_array_new(g->context, &bias, (uint64_t)rows + 1, sizeof *bias, "the weights of a node", err));
    memcpy(bias, from->chunk.bias, rows * sizeof *bias);
    bias[rows] = LAST;
    from->chunk.bias = bias;
    from->chunk.rows++;
    const xsm_status status = xsmi_sparse_builder_add(b, &from->chunk, err);
    xsmi_release(g->context, bias, (size_t)rows + 1, sizeof *bias);
    return status;
}

static xsm_status add_all(const growing *g, xsmi_sparse_builder *b, xsmi_sparse_taken *from, xsm_error *err)
{
    const xsmi_class_tree *old = g->old->tree;
    for (uint32_t v = 0; v <= old->nodes; v++) {
        if (v == old->first_child[1] && g->count > 1) {
            XSMI_TRY(add_fresh(g, b, err));
        }
        if (v < old->nodes && !xsmi_class_tree_is_leaf(old, v)) {
            XSMI_TRY(add_old(g, b, from, old->number[v], err));
        }
    }
    return XSM_OK;
}

static xsm_status make_weights(const growing *g, xsmi_sparse **out, xsm_error *err)
{
    const xsmi_sparse *old = g->old->weights;
    xsmi_sparse_taken from = {.context = g->context};
    xsmi_sparse_builder *b;
    XSMI_TRY(xsmi_sparse_builder_new(g->context, g->features, true, &b, err));
    xsm_status status = add_all(g, b, &from, err);
    status = status == XSM_OK ? xsmi_sparse_builder_finish(b, out, err) : status;
    status = status == XSM_OK && old->scales ? xsmi_sparse_set_scales(*out, old->scales, old->levels, err) : status;
    xsmi_sparse_builder_free(b);
    xsmi_sparse_taken_free(&from);
    return status;
}

/* Lists the classes that no class of the model has become; returns their number. */
static uint32_t list_fresh(const uint32_t *match, uint32_t before, uint32_t classes, uint32_t *list)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < classes; k++) {
        list[k] = 0;
    }
    for (uint32_t k = 0; k < before; k++) {
        list[match[k]] = 1;
    }
    for (uint32_t k = 0; k < classes; k++) {
        if (!list[k]) {
            list[count++] = k;
        }
    }
    return count;
}

xsm_status xsmi_label_trees_grow(const xsm_model *m, uint32_t features, uint32_t classes, const uint32_t *match,
                                 xsm_model **out, xsm_error *err)
{
    const xsmi_label_trees *l = xsmi_model_trees(m);
    xsmi_label_tree trees[XSMI_LABEL_TREES] = {{NULL, NULL}};
    uint32_t *fresh;
    XSMI_TRY(xsmi_array_new(m->context, &fresh, classes, sizeof *fresh, "the new classes", err));
    growing g = {.context = m->context, .features = features, .classes = classes, .match = match, .fresh = fresh};
    g.count = list_fresh(match, m->classes, classes, fresh);
    xsm_status status = XSM_OK;
    for (uint32_t t = 0; t < l->count && status == XSM_OK; t++) {
        g.old = &l->tree[t];
        status = g.old->weights->bias ? make_tree(&g, &trees[t].tree, err)
                                      : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                                  "growing needs biases, which the label tree does not have");
        status = status == XSM_OK ? make_weights(&g, &trees[t].weights, err) : status;
        status = status == XSM_OK ? xsmi_go_on(m->context, err) : status;
    }
    status = status == XSM_OK ? xsmi_model_of_label_trees(m->context, l->link, trees, l->count, out, err) : status;
    for (uint32_t t = 0; t < l->count; t++) {
        xsmi_class_tree_release(trees[t].tree);
        xsmi_sparse_release(trees[t].weights);
    }
    xsmi_release(m->context, fresh, classes, sizeof *fresh);
    return status;
}
