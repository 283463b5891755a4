/* Trees over the classes whose nodes are rows of a model's weights: construction and sweeps. */
#include "model/hierarchy.h"

#include "base/heap_sort.h"
#include "base/order.h"

#include <string.h>

static xsm_status start(xsm_context *ctx, uint32_t classes, xsmi_hierarchy **out, xsm_error *err)
{
    if (classes < 2) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a tree over %u class; accepted is 2 and more", classes);
    }
    xsmi_hierarchy *h = xsmi_allocate_zero(ctx, 1, sizeof *h);
    if (!h) {
        return xsmi_fail_memory(err, sizeof *h, "a tree over the classes");
    }
    h->context = xsmi_context_retain(ctx);
    xsmi_holders_start(&h->holders);
    h->classes = classes;
    h->nodes = classes - 1;
    h->children = xsmi_allocate(ctx, h->nodes, 2 * sizeof *h->children);
    h->above = xsmi_allocate_zero(ctx, h->nodes, sizeof *h->above);
    h->above_class = xsmi_allocate_zero(ctx, classes, sizeof *h->above_class);
    if (!h->children || !h->above || !h->above_class) {
        xsmi_hierarchy_release(h);
        return xsmi_fail_memory(err, 4 * (size_t)classes * sizeof *h->children, "a tree over the classes");
    }
    *out = h;
    return XSM_OK;
}

xsmi_hierarchy *xsmi_hierarchy_retain(xsmi_hierarchy *h)
{
    if (h) {
        xsmi_holders_add(&h->holders);
    }
    return h;
}

void xsmi_hierarchy_release(xsmi_hierarchy *h)
{
    if (h && xsmi_holders_drop(&h->holders)) {
        xsm_context *ctx = h->context;
        xsmi_release(ctx, h->children, h->nodes, 2 * sizeof *h->children);
        xsmi_release(ctx, h->above, h->nodes, sizeof *h->above);
        xsmi_release(ctx, h->above_class, h->classes, sizeof *h->above_class);
        xsmi_release(ctx, h, 1, sizeof *h);
        xsm_context_free(ctx);
    }
}

/* Fills the parent of each node and class, from children in preorder. */
static void look_up(xsmi_hierarchy *h)
{
    h->above[0] = 0;
    for (uint32_t i = 0; i < h->nodes; i++) {
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t child = h->children[2 * (size_t)i + side];
            *(child & XSMI_LEAF ? &h->above_class[child & ~XSMI_LEAF] : &h->above[child]) = 2 * i + side;
        }
    }
}

/* Computes the depth; `depths` is scratch, one number per node. */
static void measure(xsmi_hierarchy *h, uint32_t *depths)
{
    h->depth = depths[0] = 1; /* of the root's children */
    for (uint32_t i = 1; i < h->nodes; i++) {
        depths[i] = depths[h->above[i] / 2] + 1;
        h->depth = XSMI_MAX(depths[i], h->depth);
    }
}

/* -- balanced ------------------------------------------------------------------------------------------------------ */

/* A range of classes first..first+count in the given order, and the number of its node. Preorder numbers follow by
 * counting, as a subtree over n classes has n-1 nodes. */
typedef struct range {
    uint32_t node, first, count;
} range;

xsm_status xsmi_hierarchy_balanced(xsm_context *ctx, const uint32_t *order, uint32_t classes, xsmi_hierarchy **out,
                                   xsm_error *err)
{
    xsmi_hierarchy *h = NULL;
    XSMI_TRY(start(ctx, classes, &h, err));
    range stack[33]; /* halves: at most one pending right side at each of 31 levels */
    uint32_t height = 0;
    stack[height++] = (range){0, 0, classes};
    while (height > 0) {
        range r = stack[--height];
        uint32_t left = (r.count + 1) / 2, right = r.count - left;
        uint32_t leaf_left = order ? order[r.first] : r.first;
        uint32_t leaf_right = order ? order[r.first + left] : r.first + left;
        uint32_t *children = h->children + 2 * (size_t)r.node;
        children[0] = left == 1 ? XSMI_LEAF | leaf_left : r.node + 1;
        children[1] = right == 1 ? XSMI_LEAF | leaf_right : r.node + left;
        if (right > 1) {
            stack[height++] = (range){children[1], r.first + left, right};
        }
        if (left > 1) {
            stack[height++] = (range){children[0], r.first, left};
        }
    }
    look_up(h);
    h->depth = 1;
    while (((uint64_t)1 << h->depth) < classes) {
        h->depth++;
    }
    *out = h;
    return XSM_OK;
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
            merged[2 * (size_t)made + side] = use_leaf ? XSMI_LEAF | leaves[leaf].class : node;
            sum += use_leaf ? leaves[leaf].weight : weights[node];
            leaf += use_leaf;
            node += !use_leaf;
        }
        weights[made] = sum;
    }
}

/* Numbers merged nodes in preorder. `stack` and `number` are scratch, one number per node. */
static void renumber(xsmi_hierarchy *h, const uint32_t *merged, uint32_t *stack, uint32_t *number)
{
    uint32_t height = 0, next = 0;
    stack[height++] = h->nodes - 1;
    while (height > 0) {
        uint32_t node = stack[--height];
        number[node] = next++;
        for (uint32_t side = 2; side-- > 0;) {
            uint32_t child = merged[2 * (size_t)node + side];
            if (!(child & XSMI_LEAF)) {
                stack[height++] = child;
            }
        }
    }
    for (uint32_t node = 0; node < h->nodes; node++) {
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t child = merged[2 * (size_t)node + side];
            h->children[2 * (size_t)number[node] + side] = child & XSMI_LEAF ? child : number[child];
        }
    }
}

xsm_status xsmi_hierarchy_huffman(xsm_context *ctx, const uint64_t *weights, uint32_t classes, xsmi_hierarchy **out,
                                  xsm_error *err)
{
    xsmi_hierarchy *h = NULL;
    XSMI_TRY(start(ctx, classes, &h, err));
    weighted *leaves = xsmi_allocate(ctx, classes, sizeof *leaves);
    uint64_t *sums = xsmi_allocate(ctx, classes, sizeof *sums);
    uint32_t *merged = xsmi_allocate(ctx, classes, 2 * sizeof *merged);
    uint32_t *stack = xsmi_allocate(ctx, classes, sizeof *stack);
    xsm_status status = XSM_OK;
    if (!leaves || !sums || !merged || !stack) {
        status = xsmi_fail_memory(err, classes * (sizeof *leaves + 20), "a Huffman tree");
    } else {
        for (uint32_t k = 0; k < classes; k++) {
            leaves[k] = (weighted){weights[k], k};
        }
        xsmi_heap_sort(leaves, classes, sizeof *leaves, compare_weights);
        merge(leaves, classes, sums, merged);
        renumber(h, merged, stack, h->above); /* which look_up() fills afterwards */
        look_up(h);
        measure(h, stack);
    }
    xsmi_release(ctx, leaves, classes, sizeof *leaves);
    xsmi_release(ctx, sums, classes, sizeof *sums);
    xsmi_release(ctx, merged, classes, 2 * sizeof *merged);
    xsmi_release(ctx, stack, classes, sizeof *stack);
    if (status == XSM_OK) {
        *out = h;
    } else {
        xsmi_hierarchy_release(h);
    }
    return status;
}

/* -- from files ---------------------------------------------------------------------------------------------------- */

/* Whether the children are a tree in preorder: each node in order, each class once. Scratch: `due` for the nodes,
 * `leaves` for the classes, zeros. */
static bool is_tree(const xsmi_hierarchy *h, uint32_t *due, uint32_t *leaves)
{
    uint32_t height = 0, classes = 0;
    due[height++] = 0;
    for (uint32_t i = 0; i < h->nodes; i++) {
        if (height == 0 || due[--height] != i) {
            return false;
        }
        for (uint32_t side = 2; side-- > 0;) {
            uint32_t child = h->children[2 * (size_t)i + side], class = child & ~XSMI_LEAF;
            if (!(child & XSMI_LEAF)) {
                if (child >= h->nodes || child <= i || height >= h->nodes) {
                    return false;
                }
                due[height++] = child;
            } else if (class >= h->classes || leaves[class]++) {
                return false;
            } else {
                classes++;
            }
        }
    }
    return height == 0 && classes == h->classes;
}

xsm_status xsmi_hierarchy_from_children(xsm_context *ctx, const uint32_t *children, uint32_t classes,
                                        xsmi_hierarchy **out, xsm_error *err)
{
    xsmi_hierarchy *h = NULL;
    *out = NULL;
    XSMI_TRY(start(ctx, classes, &h, err));
    memcpy(h->children, children, 2 * (size_t)h->nodes * sizeof *children);
    uint32_t *due = xsmi_allocate(ctx, h->nodes, sizeof *due);
    const bool good = due && is_tree(h, due, h->above_class);
    if (good) {
        look_up(h);
        measure(h, due);
        *out = h;
    } else {
        xsmi_hierarchy_release(h);
    }
    const xsm_status status =
        due ? XSM_OK : xsmi_fail_memory(err, (classes - 1) * sizeof *due, "a tree over the classes");
    xsmi_release(ctx, due, classes - 1, sizeof *due);
    return status;
}

/* -- sweeps -------------------------------------------------------------------------------------------------------- */

size_t xsmi_hierarchy_stack(const xsmi_hierarchy *h)
{
    return ((size_t)h->depth + 3) * XSMI_LANES;
}

void xsmi_hierarchy_start_sweep(xsmi_hierarchy_sweep *s)
{
    s->node = 0;
    s->height = 1;
    memset(s->stack, 0, XSMI_LANES * sizeof *s->stack);
}

void xsmi_hierarchy_consume(xsmi_hierarchy_sweep *s, const float *scores, uint32_t count)
{
    const xsmi_hierarchy *h = s->tree;
    for (uint32_t i = 0; i < count && s->node < h->nodes; i++, s->node++) {
        const uint32_t *children = h->children + 2 * (size_t)s->node;
        float both[2 * XSMI_LANES];
        s->height--;
        s->kernels->log_branches(scores + (size_t)i * XSMI_LANES, s->stack + s->height * XSMI_LANES, 1, both);
        for (uint32_t side = 2; side-- > 0;) { /* the left one is pushed last, as its subtree comes next */
            float *to = children[side] & XSMI_LEAF ? s->out + (size_t)(children[side] & ~XSMI_LEAF) * XSMI_LANES
                                                   : s->stack + s->height++ * XSMI_LANES;
            memcpy(to, both + side * XSMI_LANES, XSMI_LANES * sizeof *to);
        }
    }
}
