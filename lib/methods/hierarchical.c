/*
 * Hierarchical softmax (Morin and Bengio, Hierarchical probabilistic neural network language model, 2005; Mnih and
 * Hinton, A scalable hierarchical distributed language model, 2008). Classes are the leaves of a binary tree, each
 * inner node is a logistic on the features, and log p(y|x) is the sum over the path to y. A step therefore costs O(D
 * log K) and is exact. With s_i the score (logit) of node i and r_i = 1 where the path goes to the right,
 *     loss = sum over the path of softplus((1 - 2 r_i) s_i),   g_i = sigma(s_i) - r_i.
 * The model's rows of weights belong to the nodes. The model has the tree and converts the nodes' scores into
 * log-probabilities of the classes.
 *
 * The option `tree` chooses the tree. Huffman's tree gives frequent classes short paths (Mikolov et al., Distributed
 * representations of words and phrases, 2013). Another tree halves the classes in their order. A third halves them in
 * the order of the leaves of the adversarial tree of Bamler and Mandt (2020, section 3), which is fitted to the rows. A
 * model that has a tree already keeps it.
 */
#include "methods/method.h"
#include "math/omega.h"

enum { TREE_HUFFMAN, TREE_BALANCED, TREE_FITTED };
static const char *const trees[] = {"huffman", "balanced", "fitted", NULL};

typedef struct hierarchical_state {
    int32_t tree;
    const xsmi_hierarchy *hierarchy; /* of the estimator's correction */
} hierarchical_state;

static const xsm_option options[] = {
    {"tree", XSM_OPTION_CHOICE, offsetof(hierarchical_state, tree), "huffman", 0, 0, trees,
     "how the classes hang: huffman by how frequent they are, balanced in their order, or fitted as by the sampler "
     "'tree'"},
};

/* The leaves of a tree fitted to the rows, from left to right. */
static xsm_status make_fitted(xsm_estimator *e, const xsm_dataset *train, xsmi_hierarchy *h, xsm_error *err)
{
    xsm_sampler *sampler = NULL;
    uint32_t *order = NULL;
    XSMI_TRY(xsm_sampler_new(e->context, "tree", &sampler, err));
    xsm_status status = xsm_sampler_set_int(sampler, "seed", e->common.seed, err);
    status = status == XSM_OK ? xsm_sampler_bind(sampler, train, err) : status;
    if (status == XSM_OK) {
        order = xsmi_allocate(e->context, train->classes, sizeof *order);
        status = order ? XSM_OK : xsmi_fail_memory(err, train->classes * sizeof *order, "an order of the classes");
    }
    if (status == XSM_OK) {
        const xsmi_tree *t = xsmi_sampler_tree(sampler);
        uint32_t count = 0;
        for (size_t leaf = 0; leaf < xsmi_tree_leaves(t); leaf++) {
            if (t->leaf_class[leaf] != XSMI_NO_CLASS) {
                order[count++] = t->leaf_class[leaf];
            }
        }
        status = xsmi_hierarchy_balanced(e->context, order, train->classes, h, err);
    }
    xsmi_release(e->context, order, train->classes, sizeof *order);
    xsm_sampler_free(sampler);
    return status;
}

static xsm_status make_hierarchy(xsm_estimator *e, const xsm_dataset *train, xsm_error *err)
{
    hierarchical_state *s = e->state;
    xsmi_hierarchy h;
    if (train->classes < 2) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "estimator 'hierarchical' needs 2 classes at least, the data have %u",
                         train->classes);
    }
    if (s->tree == TREE_FITTED && (e->labels_alone || train->features == 0)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator 'hierarchical': a fitted tree needs rows with features; tree=balanced or "
                         "tree=huffman is accepted");
    }
    if (s->tree == TREE_FITTED) {
        XSMI_TRY(make_fitted(e, train, &h, err));
    } else if (s->tree == TREE_BALANCED) {
        XSMI_TRY(xsmi_hierarchy_balanced(e->context, NULL, train->classes, &h, err));
    } else {
        XSMI_TRY(xsmi_hierarchy_huffman(e->context, train->class_counts, train->classes, &h, err));
    }
    xsm_status status = xsmi_correction_of_hierarchy(e->context, &h, &e->correction, err);
    xsmi_hierarchy_clear(&h);
    return status;
}

xsm_status xsmi_hierarchical_bind(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    if (xsmi_correction_hierarchy(model->correction)) {
        e->correction = xsmi_correction_retain(model->correction);
    } else {
        XSMI_TRY(make_hierarchy(e, train, err));
    }
    ((hierarchical_state *)e->state)->hierarchy = xsmi_correction_hierarchy(e->correction);
    return XSM_OK;
}

static uint64_t width(const void *state)
{
    return ((const hierarchical_state *)state)->hierarchy->depth;
}

static void select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes, uint32_t *lengths)
{
    const xsmi_hierarchy *h = ((const hierarchical_state *)state)->hierarchy;
    for (uint64_t i = 0; i < count; i++) {
        lengths[i] = xsmi_hierarchy_path(h, examples[i].labels[0], classes + i * h->depth);
    }
}

static void gradient(void *state, const xsm_score_block *block)
{
    const xsmi_hierarchy *h = ((hierarchical_state *)state)->hierarchy;
    for (uint64_t i = 0; i < block->count; i++) {
        const float *s = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint32_t at = h->above_class[block->examples[i].labels[0]];
        double loss = 0;
        for (uint32_t j = 0; j < block->lengths[i]; j++, at = h->above[at / 2]) {
            double against = at & 1 ? -(double)s[j] : (double)s[j], rest = xsmi_sigmoid(against);
            loss += xsmi_softplus(against);
            g[j] = (float)(at & 1 ? -rest : rest);
        }
        block->losses[i] = loss;
    }
}

const xsm_estimator_ops xsmi_hierarchical_ops = {
    XSMI_ESTIMATOR_OF(hierarchical_state),
    .flags = XSMI_ESTIMATOR_HIERARCHY,
    .name = "hierarchical",
    .summary = "hierarchical softmax, exact over a tree of the classes (Morin and Bengio 2005)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .width = width,
    .select = select,
    .gradient = gradient,
};
