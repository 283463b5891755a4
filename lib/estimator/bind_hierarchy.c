/*
 * The tree of an estimator whose rows of weights belong to the nodes of a binary tree over the classes. The model has
 * the tree and converts the nodes' scores (logits) into log-probabilities of the classes; one that has a tree already
 * keeps it.
 *
 * Huffman's tree gives frequent classes short paths (Mikolov et al., Distributed representations of words and phrases,
 * 2013). Another tree halves the classes in their order. A third halves them in the order of the leaves of the
 * adversarial tree of Bamler and Mandt (2020, section 3), which is fitted to the rows.
 */
#include "estimator/estimator.h"
#include "model/hierarchy.h"

enum { TREE_HUFFMAN, TREE_BALANCED, TREE_FITTED };
const char *const xsmi_hierarchy_names[] = {"huffman", "balanced", "fitted", NULL};

/* Makes a tree fitted to the rows. */
static xsm_status make_fitted(const xsm_estimator *e, const xsm_dataset *train, xsmi_class_tree **h, xsm_error *err)
{
    xsm_sampler *sampler = NULL;
    uint32_t *order = NULL;
    xsmi_tree tree;
    memset(&tree, 0, sizeof tree);
    XSMI_TRY(xsm_sampler_new(e->context, "tree", &sampler, err));
    xsm_status status = xsm_sampler_set_number(sampler, "seed", e->common.seed, err);
    status = status == XSM_OK ? xsm_sampler_bind(sampler, train, err) : status;
    if (status == XSM_OK) {
        order = xsmi_allocate(e->context, train->classes, sizeof *order);
        status = order ? XSM_OK : xsmi_fail_memory(err, train->classes * sizeof *order, "an order of the classes");
    }
    if (status == XSM_OK) {
        status = xsmi_sampler_tree(sampler, &tree, err);
    }
    if (status == XSM_OK) {
        uint32_t count = 0;
        for (size_t leaf = 0; leaf < xsmi_tree_leaves(&tree); leaf++) {
            if (tree.leaf_class[leaf] != XSMI_NO_CLASS) {
                order[count++] = tree.leaf_class[leaf];
            }
        }
        status = xsmi_hierarchy_balanced(e->context, order, train->classes, h, err);
    }
    xsmi_tree_clear(&tree);
    xsmi_release(e->context, order, train->classes, sizeof *order);
    xsm_sampler_free(sampler);
    return status;
}

static xsm_status make_hierarchy(const xsm_estimator *e, const xsm_dataset *train, xsmi_class_tree **h, xsm_error *err)
{
    if (train->classes < 2) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "estimator '%s' needs 2 classes at least, the data have %u", e->ops.name,
                         train->classes);
    }
    if (e->common.tree == TREE_FITTED && (e->labels_alone || train->features == 0)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s': a fitted tree needs rows with features; tree=balanced or tree=huffman is "
                         "accepted",
                         e->ops.name);
    }
    if (e->common.tree == TREE_FITTED) {
        return make_fitted(e, train, h, err);
    }
    return e->common.tree == TREE_BALANCED
               ? xsmi_hierarchy_balanced(e->context, NULL, train->classes, h, err)
               : xsmi_hierarchy_huffman(e->context, train->map.counts, train->classes, h, err);
}

xsm_status xsmi_estimator_bind_hierarchy(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train,
                                         xsm_error *err)
{
    if (xsmi_model_nodes(model)) {
        e->head = xsmi_head_retain(model->head);
    } else {
        xsmi_class_tree *h = NULL;
        XSMI_TRY(make_hierarchy(e, train, &h, err));
        const xsm_status status = xsmi_head_of_hierarchy(h, &e->head, err);
        xsmi_class_tree_release(h);
        XSMI_TRY(status);
    }
    e->width = e->head->hierarchy->depth;
    return XSM_OK;
}

void xsmi_hierarchy_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count)
{
    const xsmi_class_tree *h = e->head->hierarchy;
    for (uint64_t i = first; i < first + count; i++) {
        const size_t at = i * g->width;
        g->lengths[i] = xsmi_hierarchy_path(h, g->example[i].labels[0], g->classes + at, g->work.draws + at);
    }
}
