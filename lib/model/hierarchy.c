/* Trees over the classes whose nodes are rows of a model's weights: construction and sweeps. */
#include "model/hierarchy.h"

#include "base/heap_sort.h"

#include <string.h>

/* Nodes of a binary tree over so many classes; refuses one class. */
static xsm_status start(xsm_context *ctx, uint32_t classes, uint32_t **nodes, xsm_error *err)
{
    if (classes < 2) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a tree over %u class; accepted is 2 and more", classes);
    }
    *nodes = xsmi_allocate(ctx, 2 * (uint64_t)classes - 1, sizeof **nodes);
    return *nodes ? XSM_OK : xsmi_fail_memory(err, 2 * (uint64_t)classes * sizeof **nodes, "a tree over the classes");
}

xsm_status xsmi_hierarchy_new(xsm_context *ctx, const uint32_t *nodes, size_t count, uint32_t classes,
                              xsmi_class_tree **out, xsm_error *err)
{
    XSMI_TRY(xsmi_class_tree_new(ctx, nodes, count, classes, XSMI_TREE_PREORDER, out, err));
    if (*out && ((*out)->widest != 2 || (*out)->inner != classes - 1)) { /* else each inner node has two children */
        xsmi_class_tree_release(*out);
        *out = NULL;
    }
    return XSM_OK;
}

/* -- balanced ------------------------------------------------------------------------------------------------------ */

xsm_status xsmi_hierarchy_balanced(xsm_context *ctx, const uint32_t *order, uint32_t classes, xsmi_class_tree **out,
                                   xsm_error *err)
{
    typedef struct range {
        uint32_t first, count; /* of the classes in the given order */
    } range;
    uint32_t *nodes;
    XSMI_TRY(start(ctx, classes, &nodes, err));
    const size_t count = 2 * (size_t)classes - 1;
    range *of = xsmi_allocate(ctx, count, sizeof *of);
    xsm_status status = of ? XSM_OK : xsmi_fail_memory(err, count * sizeof *of, "a tree over the classes");
    size_t made = 1;
    if (of) {
        of[0] = (range){0, classes};
        for (size_t v = 0; v < count; v++) {
            const range r = of[v];
            const uint32_t left = (r.count + 1) / 2;
            nodes[v] = r.count > 1 ? 2 : XSMI_TREE_LEAF | (order ? order[r.first] : r.first);
            if (r.count > 1) {
                of[made++] = (range){r.first, left};
                of[made++] = (range){r.first + left, r.count - left};
            }
        }
        status = xsmi_hierarchy_new(ctx, nodes, count, classes, out, err);
    }
    xsmi_release(ctx, of, count, sizeof *of);
    xsmi_release(ctx, nodes, count, sizeof *nodes);
    return status;
}

/* -- Huffman ------------------------------------------------------------------------------------------------------- */

typedef struct weighted {
    uint64_t weight;
    uint32_t class;
} weighted;

static int compare_weights(const void *a, const void *b)
{
    const weighted *x = a, *y = b;
    int by_weight = (x->weight > y->weight) - (x->weight < y->weight);
    return by_weight ? by_weight : (x->class > y->class) - (x->class < y->class);
}

/* Merges the two lightest until one is left: leaves in rising order, and merged nodes, which are made in rising order
 * too. Of equal weights the leaf comes first, which gives less depth. merged[i] are node i's children, in the order of
 * merging. */
static void merge(const weighted *leaves, uint32_t classes, uint64_t *weights, uint32_t *merged)
{
    uint32_t leaf = 0, node = 0;
    for (uint32_t made = 0; made + 1 < classes; made++) {
        uint64_t sum = 0;
        for (uint32_t side = 0; side < 2; side++) {
            bool use_leaf = leaf < classes && (node >= made || leaves[leaf].weight <= weights[node]);
            merged[2 * (size_t)made + side] = use_leaf ? XSMI_TREE_LEAF | leaves[leaf].class : node;
            sum += use_leaf ? leaves[leaf].weight : weights[node];
            leaf += use_leaf;
            node += !use_leaf;
        }
        weights[made] = sum;
    }
}

/* Lists the merged nodes level by level. `from` [nodes] is scratch: which merged node, or leaf, each is. */
static void list_levels(const uint32_t *merged, uint32_t classes, uint32_t *from, uint32_t *nodes)
{
    const size_t count = 2 * (size_t)classes - 1;
    size_t listed = 1;
    from[0] = classes - 2;
    for (size_t v = 0; v < count; v++) {
        if (from[v] & XSMI_TREE_LEAF) {
            nodes[v] = from[v];
            continue;
        }
        nodes[v] = 2;
        for (uint32_t side = 0; side < 2; side++) {
            from[listed++] = merged[2 * (size_t)from[v] + side];
        }
    }
}

xsm_status xsmi_hierarchy_of_merges(xsm_context *ctx, const uint32_t *merged, uint32_t classes, uint32_t *made,
                                    xsmi_class_tree **out, xsm_error *err)
{
    uint32_t *nodes;
    XSMI_TRY(start(ctx, classes, &nodes, err));
    const size_t count = 2 * (size_t)classes - 1;
    uint32_t *from = xsmi_allocate(ctx, count, sizeof *from);
    xsm_status status = from ? XSM_OK : xsmi_fail_memory(err, count * sizeof *from, "a tree over the classes");
    if (from) {
        list_levels(merged, classes, from, nodes);
        status = xsmi_hierarchy_new(ctx, nodes, count, classes, out, err);
    }
    for (uint32_t i = 0; made && status == XSM_OK && *out && i < (*out)->inner; i++) {
        made[i] = from[(*out)->inner_node[i]];
    }
    xsmi_release(ctx, from, count, sizeof *from);
    xsmi_release(ctx, nodes, count, sizeof *nodes);
    return status;
}

xsm_status xsmi_hierarchy_huffman(xsm_context *ctx, const uint64_t *weights, uint32_t classes, xsmi_class_tree **out,
                                  xsm_error *err)
{
    weighted *leaves = xsmi_allocate(ctx, classes, sizeof *leaves);
    uint64_t *sums = xsmi_allocate(ctx, classes, sizeof *sums);
    uint32_t *merged = xsmi_allocate(ctx, classes, 2 * sizeof *merged);
    xsm_status status = XSM_OK;
    if (!leaves || !sums || !merged) {
        status = xsmi_fail_memory(err, classes * (sizeof *leaves + 24), "a Huffman tree");
    } else {
        for (uint32_t k = 0; k < classes; k++) {
            leaves[k] = (weighted){weights[k], k};
        }
        xsmi_heap_sort(leaves, classes, sizeof *leaves, compare_weights);
        merge(leaves, classes, sums, merged);
        status = xsmi_hierarchy_of_merges(ctx, merged, classes, NULL, out, err);
    }
    xsmi_release(ctx, leaves, classes, sizeof *leaves);
    xsmi_release(ctx, sums, classes, sizeof *sums);
    xsmi_release(ctx, merged, classes, 2 * sizeof *merged);
    return status;
}

/* -- sweeps -------------------------------------------------------------------------------------------------------- */

size_t xsmi_hierarchy_stack(const xsmi_class_tree *h)
{
    return ((size_t)h->depth + 3) * XSMI_LANES;
}

void xsmi_hierarchy_start_sweep(xsmi_hierarchy_sweep *s)
{
    s->next = 0;
    s->height = 1;
    memset(s->stack, 0, XSMI_LANES * sizeof *s->stack);
}

void xsmi_hierarchy_consume(xsmi_hierarchy_sweep *s, const float *scores, uint32_t count)
{
    const xsmi_class_tree *h = s->tree;
    for (uint32_t i = 0; i < count && s->next < h->inner; i++, s->next++) {
        const uint32_t left = h->first_child[h->inner_node[s->next]];
        float both[2 * XSMI_LANES];
        s->height--;
        s->kernels->log_branches(scores + (size_t)i * XSMI_LANES, s->stack + s->height * XSMI_LANES, 1, both);
        for (uint32_t side = 2; side-- > 0;) { /* the left one is pushed last, as its subtree comes next */
            float *to = xsmi_class_tree_is_leaf(h, left + side)
                            ? s->out + (size_t)xsmi_class_tree_class(h, left + side) * XSMI_LANES
                            : s->stack + s->height++ * XSMI_LANES;
            memcpy(to, both + side * XSMI_LANES, XSMI_LANES * sizeof *to);
        }
    }
}

/* -- in a model's file --------------------------------------------------------------------------------------------- */

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
