/* Trees over the classes: codes, draws, log-probabilities. */
#include "model/draw_tree.h"
#include "base/safetensors.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* Number of levels of a subtree that a sweep computes at once, so that its data stays in the L1 cache. */
#define SUB_LEVELS 6
#define SUB_LEAVES ((size_t)1 << SUB_LEVELS)

xsm_status xsmi_tree_start(xsm_context *ctx, uint32_t classes, xsmi_tree *t, xsm_error *err)
{
    t->context = t->held.context = ctx;
    t->classes = classes;
    t->height = 0;
    while (((uint64_t)1 << t->height) < classes) {
        t->height++;
    }
    t->dims = (t->pca.components + 1 + 3) / 4 * 4;
    size_t leaves = xsmi_tree_leaves(t);
    t->nodes = xsmi_hold_zeros(&t->held, (uint64_t)leaves * t->dims, sizeof *t->nodes);
    t->leaf_class = xsmi_hold(&t->held, leaves, sizeof *t->leaf_class);
    t->class_leaf = xsmi_hold_zeros(&t->held, classes, sizeof *t->class_leaf);
    const xsm_status status = xsmi_held_check(&t->held, "a tree over the classes", err);
    if (status != XSM_OK) {
        xsmi_held_release(&t->held);
        return status;
    }
    for (size_t i = 0; i < leaves; i++) {
        t->leaf_class[i] = XSMI_NO_CLASS;
    }
    return XSM_OK;
}

void xsmi_tree_clear(xsmi_tree *t)
{
    xsmi_held_release(&t->held);
    xsmi_pca_clear(&t->pca);
    memset(t, 0, sizeof *t);
}

bool xsmi_tree_set_leaves(xsmi_tree *t)
{
    for (uint32_t k = 0; k < t->classes; k++) {
        if (t->class_leaf[k] >= xsmi_tree_leaves(t) || t->leaf_class[t->class_leaf[k]] != XSMI_NO_CLASS) {
            return false;
        }
        t->leaf_class[t->class_leaf[k]] = k;
    }
    return true;
}

void xsmi_tree_encode(const xsmi_tree *t, const xsmi_features *x, float *code)
{
    uint32_t k = t->pca.components;
    xsmi_pca_encode(&t->pca, x, code);
    for (uint32_t i = 0; !xsmi_floats_finite(code, k) && i < k; i++) {
        code[i] = NAN; /* so that every score is NaN, which callers look for, and none is infinite */
    }
    code[k] = 1;
    for (uint32_t i = k + 1; i < t->dims; i++) {
        code[i] = 0;
    }
}

/* Sums log(1 + e^t) = max(t, 0) + log(1 + e^-|t|) over a path. The second terms are summed as the logarithm of a
 * product of numbers up to 2. */
typedef struct path_sum {
    double product, sum; /* a path is at most 31 nodes long: the product stays below 2^31 */
} path_sum;

static inline void path_add(path_sum *p, double t, double e)
{
    p->sum += XSMI_MAX(t, 0);
    p->product *= 1 + e;
}

/* Prefetches the part of the arrays that a descent reads at a node. */
XSMI_PREFETCHER void fetch_node(const xsmi_tree *t, size_t node, size_t leaves, bool at_leaves)
{
    if (at_leaves) {
        __builtin_prefetch(t->leaf_class + (node - leaves), 0, 3);
        return;
    }
    const char *at = (const char *)(t->nodes + node * t->dims);
    const char *last = at + t->dims * sizeof(float) - 1;
    for (; at < last; at += XSMI_ALIGNMENT) {
        __builtin_prefetch(at, 0, 3);
    }
    __builtin_prefetch(last, 0, 3);
}

/* A drawn path whose probability comes out below this may have lost digits: it is computed again. */
#define LEAST_PRODUCT 1e-280

void xsmi_tree_draw(const xsmi_tree *t, const xsmi_kernels *kernels, xsmi_tree_draws *d)
{
    /* All descents go one level at a time, so that one descent's node is read from memory while the others are
     * computed. A uniform number, rescaled within the interval of its side, is uniform again: one number serves the
     * whole descent. */
    const size_t leaves = xsmi_tree_leaves(t), dims = t->dims, n = d->count;
    size_t node[XSMI_TREE_ROWS];
    double at[XSMI_TREE_ROWS], width[XSMI_TREE_ROWS];
    float scores[XSMI_TREE_ROWS], sides[2][XSMI_TREE_ROWS];
    for (size_t i = 0; i < n; i++) {
        node[i] = 1;
        at[i] = d->uniforms[i];
        width[i] = 1;
    }
    for (uint32_t level = 0; level < t->height; level++) {
        for (size_t i = 0; i < n; i++) {
            scores[i] = xsmi_tree_node_score(t->nodes + node[i] * dims, d->codes[i], (uint32_t)dims);
        }
        kernels->logistics(scores, n, sides[0], sides[1], NULL);
        for (size_t i = 0; i < n; i++) {
            const double border = width[i] * (double)sides[0][i];
            /* Rounding may leave nothing above the border, but a side of probability 0 must never be chosen. There are
             * no branches, as half of them would be mispredicted. */
            const size_t go = (size_t)(at[i] >= border) & (size_t)(sides[0][i] < 1);
            const double taken[2] = {0, border};
            at[i] -= taken[go];
            width[i] *= (double)sides[go][i];
            node[i] = 2 * node[i] + go;
        }
        const bool at_leaves = level + 1 == t->height;
        for (size_t i = 0; i < n; i++) {
            fetch_node(t, node[i], leaves, at_leaves);
        }
    }
    for (size_t i = 0; i < n; i++) {
        d->classes[i] = t->leaf_class[node[i] - leaves];
        d->log_probabilities[i] = width[i] > LEAST_PRODUCT ? log(width[i])
                                  : d->classes[i] == XSMI_NO_CLASS
                                      ? (double)NAN /* by a score that is not a number */
                                      : xsmi_tree_log_probability(t, d->codes[i], d->classes[i]);
    }
}

double xsmi_tree_log_probability(const xsmi_tree *t, const float *code, uint32_t class)
{
    path_sum path = {1, 0};
    size_t leaves = xsmi_tree_leaves(t), leaf = leaves + t->class_leaf[class];
    for (uint32_t level = t->height; level > 0; level--) {
        size_t node = leaf >> level;
        double s = (double)xsmi_tree_node_score(t->nodes + node * t->dims, code, t->dims);
        double against = leaf >> (level - 1) & 1 ? -s : s;
        path_add(&path, against, exp(-fabs(s)));
    }
    return -(path.sum + log(path.product));
}

/* -- sweeps -------------------------------------------------------------------------------------------------------- */

static uint32_t top_levels(const xsmi_tree *t)
{
    return t->height > SUB_LEVELS ? t->height - SUB_LEVELS : 0;
}

size_t xsmi_tree_scratch(const xsmi_tree *t)
{
    size_t roots = (size_t)1 << top_levels(t);
    return (t->dims + 2 * roots + 2 * SUB_LEAVES + XSMI_CLASS_TILE) * XSMI_LANES;
}

/* The state of a sweep over the levels of the tree. */
typedef struct sweep {
    const xsmi_tree *tree;
    const xsmi_kernels *kernels;
    const float *packed; /* the rows' codes */
    float *scores;       /* [XSMI_CLASS_TILE][XSMI_LANES] */
} sweep;

/* Computes one level: the scores of nodes first..first+count and, from the nodes' log-probabilities, those of their
 * children. */
static void sweep_level(const sweep *s, size_t first, size_t count, const float *parents, float *children)
{
    const xsmi_tree *t = s->tree;
    for (size_t c = 0; c < count; c += XSMI_CLASS_TILE) {
        size_t some = XSMI_MIN(count - c, XSMI_CLASS_TILE);
        const float *nodes = t->nodes + (first + c) * t->dims;
        s->kernels->score_tile(nodes, t->dims, some, s->packed, t->dims, 1, NULL, NULL, s->scores);
        s->kernels->log_branches(s->scores, parents + c * XSMI_LANES, some, children + 2 * c * XSMI_LANES);
    }
}

void xsmi_tree_sweep(const xsmi_tree *t, const xsmi_kernels *kernels, const float *const *codes, size_t rows,
                     float *out, float *scratch)
{
    uint32_t top = top_levels(t);
    size_t roots = (size_t)1 << top;
    float *packed = scratch, *scores = packed + (size_t)t->dims * XSMI_LANES;
    float *upper[2] = {scores + XSMI_CLASS_TILE * XSMI_LANES, scores + (XSMI_CLASS_TILE + roots) * XSMI_LANES};
    float *lower[2] = {upper[1] + roots * XSMI_LANES, upper[1] + (roots + SUB_LEAVES) * XSMI_LANES};
    const sweep s = {t, kernels, packed, scores};
    kernels->pack(codes, rows, t->dims, packed);
    int from = 0;
    memset(upper[0], 0, XSMI_LANES * sizeof(float));
    for (uint32_t level = 0; level < top; level++, from = !from) {
        sweep_level(&s, (size_t)1 << level, (size_t)1 << level, upper[from], upper[!from]);
    }
    uint32_t below = t->height - top;
    for (size_t root = 0; root < roots; root++) {
        const float *parents = upper[from] + root * XSMI_LANES;
        int to = 0;
        for (uint32_t level = 0; level < below; level++, to = !to) {
            size_t count = (size_t)1 << level;
            sweep_level(&s, (roots + root) << level, count, parents, lower[to]);
            parents = lower[to];
        }
        for (size_t i = 0; i < (size_t)1 << below; i++) {
            uint32_t class = t->leaf_class[(root << below) + i];
            if (class != XSMI_NO_CLASS) {
                memcpy(out + (size_t) class * XSMI_LANES, parents + i * XSMI_LANES, XSMI_LANES * sizeof(float));
            }
        }
    }
}
