/* Scores of label trees, node by node and along the paths of chosen classes; all classes are in label_tiles.c. */
#include "model/label_trees.h"

#include "base/order.h"

#include <math.h>
#include <string.h>

const char *const xsmi_link_names[] = {"sigmoid", "hinge", "softmax", "normalised", NULL}; /* XSMI_LINK_* */

void xsmi_label_trees_free(xsm_context *ctx, xsmi_label_trees *l)
{
    for (uint32_t t = 0; l && t < l->count; t++) {
        xsmi_class_tree_release(l->tree[t].tree);
        xsmi_sparse_release(l->tree[t].weights);
    }
    xsmi_release(ctx, l, 1, sizeof *l);
}

/* Log sigma of each, XSMI_LANES at a time. */
static void log_sigmoid(const xsmi_kernels *kernels, float *z, uint32_t count)
{
    static const float parents[XSMI_LANES];
    for (uint32_t i = 0; i < count; i += XSMI_LANES) {
        const uint32_t some = XSMI_MIN(count - i, XSMI_LANES);
        float scores[XSMI_LANES] = {0}, both[2 * XSMI_LANES];
        memcpy(scores, z + i, some * sizeof *z);
        kernels->log_branches(scores, parents, 1, both);
        memcpy(z + i, both + XSMI_LANES, some * sizeof *z);
    }
}

static void squared_hinge(float *z, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const float lacking = 1 - z[i];
        z[i] = lacking <= 0 ? 0 : -(lacking * lacking);
    }
}

static void subtract_log_sum(const xsmi_kernels *kernels, float *z, uint32_t count)
{
    const float most = kernels->row_max(z, count), log_sum = (float)log(kernels->row_sum_exp(z, count, most));
    for (uint32_t i = 0; i < count; i++) {
        z[i] = (z[i] - most) - log_sum;
    }
}

/* Converts the scores of siblings. */
static void apply_link(const xsmi_label_trees *l, float *z, uint32_t count)
{
    if (l->link == XSMI_LINK_SOFTMAX) {
        subtract_log_sum(l->kernels, z, count);
    } else if (l->link == XSMI_LINK_SQUARED_HINGE) {
        squared_hinge(z, count);
    } else {
        log_sigmoid(l->kernels, z, count);
    }
}

void xsmi_label_children(const xsmi_label_trees *l, uint32_t tree, uint32_t node, const xsmi_features *x, float *z)
{
    const xsmi_label_tree *t = &l->tree[tree];
    xsmi_sparse_scores(t->weights, t->tree->number[node], x, z);
    apply_link(l, z, t->tree->first_child[node + 1] - t->tree->first_child[node]);
}

float xsmi_label_mean(const float *p, uint32_t count)
{
    if (count == 1) {
        return p[0];
    }
    float most = p[0];
    double sum = 0;
    for (uint32_t t = 1; t < count; t++) {
        most = XSMI_MAX(p[t], most);
    }
    if (most == -INFINITY) {
        return most;
    }
    for (uint32_t t = 0; t < count; t++) {
        sum += exp((double)(p[t] - most));
    }
    return most + (float)log(sum / count);
}

/* The log-probability of a node given its parent, `divided` by the sum of its siblings' or not. What does not depend on
 * siblings needs one row of weights. */
static float step_to(const xsmi_label_trees *l, uint32_t tree, uint32_t node, const xsmi_features *x, bool divided,
                     float *scratch)
{
    const xsmi_label_tree *t = &l->tree[tree];
    const uint32_t parent = t->tree->parent[node], first = t->tree->first_child[parent];
    if (l->link == XSMI_LINK_SOFTMAX || divided) {
        xsmi_label_children(l, tree, parent, x, scratch);
        if (divided) {
            subtract_log_sum(l->kernels, scratch, t->tree->first_child[parent + 1] - first);
        }
        return scratch[node - first];
    }
    float z = xsmi_sparse_score(t->weights, node - 1, x);
    apply_link(l, &z, 1);
    return z;
}

/* The inner nodes of a tree whose children a search scored. */
typedef struct opened_nodes {
    const uint32_t *node;
    uint32_t count;
} opened_nodes;

static bool is_opened(const opened_nodes *o, uint32_t node)
{
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->node[i] == node) {
            return true;
        }
    }
    return false;
}

/* A class's log-probability in a tree: summed from the root down, as searches and sweeps do. The path is found from the
 * leaf up, so the steps are kept in pieces. With `opened` the steps below the last of them are divided by the sums of
 * siblings; NULL: none is. */
static float path_sum(const xsmi_label_trees *l, uint32_t tree, uint32_t class, const xsmi_features *x,
                      const opened_nodes *opened, float *scratch)
{
    enum { PIECE = 32 };
    bool divided = false;
    const xsmi_class_tree *t = l->tree[tree].tree;
    const uint32_t leaf = t->class_leaf[class];
    uint32_t depth = 0;
    for (uint32_t v = leaf; v != 0; v = t->parent[v]) {
        depth++;
    }
    float sum = 0;
    for (uint32_t done = 0; done < depth;) {
        uint32_t nodes[PIECE], v = leaf;
        const uint32_t some = XSMI_MIN(depth - done, PIECE);
        for (uint32_t i = depth; i > done; i--, v = t->parent[v]) {
            if (i - done <= some) {
                nodes[i - done - 1] = v;
            }
        }
        for (uint32_t i = 0; i < some; i++) {
            divided = divided || (opened && !is_opened(opened, t->parent[nodes[i]]));
            sum += step_to(l, tree, nodes[i], x, divided, scratch);
        }
        done += some;
    }
    return sum;
}

void xsmi_label_chosen(const xsmi_label_trees *l, const xsmi_features *x, const uint32_t *classes, size_t count,
                       float *scores, float *scratch)
{
    for (size_t j = 0; j < count; j++) {
        float p[XSMI_LABEL_TREES] = {0};
        for (uint32_t t = 0; t < l->count; t++) {
            p[t] = path_sum(l, t, classes[j], x, NULL, scratch);
        }
        scores[j] = xsmi_label_mean(p, l->count);
    }
}

float xsmi_label_outside(const xsmi_label_trees *l, const xsmi_features *x, uint32_t class, const uint32_t *opened,
                         const uint32_t *opened_end, float *scratch)
{
    float p[XSMI_LABEL_TREES] = {0};
    for (uint32_t t = 0; t < l->count; t++) {
        const uint32_t first = t > 0 ? opened_end[t - 1] : 0;
        const opened_nodes nodes = {opened + first, opened_end[t] - first};
        p[t] = path_sum(l, t, class, x, &nodes, scratch);
    }
    return xsmi_label_mean(p, l->count);
}

uint64_t xsmi_label_entries(const xsmi_label_trees *l)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        sum += xsmi_sparse_entries(l->tree[t].weights);
    }
    return sum;
}

uint64_t xsmi_label_bytes(const xsmi_label_trees *l)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        sum += xsmi_sparse_bytes(l->tree[t].weights) + (uint64_t)l->tree[t].tree->nodes * sizeof(uint32_t);
    }
    return sum;
}
