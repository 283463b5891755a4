/* Models whose weights are sparse: linear ones, and label trees. */
#include "model/model.h"

#include "base/order.h"

xsm_status xsmi_model_of_sparse(xsm_context *ctx, xsmi_sparse *weights, xsm_model **out, xsm_error *err)
{
    XSMI_TRY(xsmi_model_new_empty(ctx, weights->features, weights->rows, out, err));
    (*out)->w.layout = XSM_LAYOUT_SPARSE_ROWS;
    (*out)->w.sparse = xsmi_sparse_retain(weights);
    return XSM_OK;
}

bool xsmi_label_tree_fits(const xsmi_label_tree *t)
{
    bool fits = t->weights->rows == t->tree->nodes - 1 && t->weights->chunks == t->tree->inner;
    for (uint32_t v = 0; fits && v < t->tree->nodes; v++) {
        fits = xsmi_class_tree_is_leaf(t->tree, v) ||
               t->weights->places[t->tree->number[v]].row == t->tree->first_child[v] - 1;
    }
    return fits;
}

xsm_status xsmi_model_of_label_trees(xsm_context *ctx, int32_t link, const xsmi_label_tree *trees, uint32_t count,
                                     xsm_model **out, xsm_error *err)
{
    const uint32_t features = trees[0].weights->features, classes = trees[0].tree->classes;
    for (uint32_t t = 0; t < count; t++) {
        if (count > XSMI_LABEL_TREES || !xsmi_label_tree_fits(&trees[t]) || trees[t].weights->features != features ||
            trees[t].tree->classes != classes ||
            xsmi_sparse_dtype(trees[t].weights) != xsmi_sparse_dtype(trees[0].weights)) {
            return xsmi_fail(err, XSM_ERROR_SHAPE, "tree %u of %u does not fit its weights, or the first tree", t,
                             count);
        }
    }
    xsm_model *m;
    XSMI_TRY(xsmi_model_new_empty(ctx, features, classes, &m, err));
    m->w.layout = XSM_LAYOUT_SPARSE_ROWS;
    m->trees = xsmi_allocate_zero(ctx, 1, sizeof *m->trees);
    if (!m->trees) {
        xsm_model_free(m);
        return xsmi_fail_memory(err, sizeof *m->trees, "label trees");
    }
    m->trees->kernels = m->kernels;
    m->trees->link = link;
    for (uint32_t t = 0; t < count; t++) {
        m->trees->tree[t] =
            (xsmi_label_tree){xsmi_class_tree_retain(trees[t].tree), xsmi_sparse_retain(trees[t].weights)};
        m->trees->count++;
        m->trees->nodes += trees[t].tree->nodes;
        m->trees->widest = XSMI_MAX(m->trees->widest, trees[t].tree->widest);
    }
    *out = m;
    return XSM_OK;
}
