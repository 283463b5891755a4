/* Beam search in a tree over the classes. */
#include "model/beam.h"
#include "base/order.h"

#include <math.h>

/* Whether a comes before b: it is more probable, or as probable and further left. */
static bool before(const xsmi_beam_node *a, const xsmi_beam_node *b)
{
    return a->log_q > b->log_q || (!(a->log_q < b->log_q) && a->node < b->node);
}

static void swap(xsmi_beam_node *a, xsmi_beam_node *b)
{
    xsmi_beam_node before = *a;
    *a = *b;
    *b = before;
}

/* Moves the first `keep` of n nodes to the front, in no order (Hoare's selection, the median of three as pivot). */
static void select_first(xsmi_beam_node *nodes, size_t n, size_t keep)
{
    size_t low = 0, high = n; /* the undecided range */
    while (high - low > 1 && keep > low && keep < high) {
        size_t middle = low + (high - low) / 2, last = high - 1;
        if (before(&nodes[middle], &nodes[low])) {
            swap(&nodes[middle], &nodes[low]);
        }
        if (before(&nodes[last], &nodes[low])) {
            swap(&nodes[last], &nodes[low]);
        }
        if (before(&nodes[middle], &nodes[last])) {
            swap(&nodes[middle], &nodes[last]);
        }
        /* The pivot, the median, is the last node; nodes that come before it go to the front. */
        size_t position = low;
        for (size_t i = low; i < last; i++) {
            if (before(&nodes[i], &nodes[last])) {
                swap(&nodes[i], &nodes[position++]);
            }
        }
        swap(&nodes[position], &nodes[last]);
        if (position < keep) {
            low = position + 1;
        } else {
            high = position;
        }
    }
}

/* Returns a child, with the contribution of its side of the node. */
static xsmi_beam_node child_of(const xsmi_beam_node *parent, bool right, double s, double e)
{
    xsmi_beam_node child = {.node = 2 * parent->node + right};
    double against = right ? -s : s;
    child.sum = parent->sum + XSMI_MAX(against, 0);
    child.product = parent->product * (1 + e);
    child.log_q = -(child.sum + log(child.product));
    if (!(child.log_q > (double)-INFINITY)) {
        child.log_q = (double)-INFINITY; /* a NaN must not break the order */
    }
    return child;
}

uint32_t xsmi_tree_beam(const xsmi_tree *t, const float *code, uint32_t width, xsmi_beam_node *scratch,
                        uint32_t *classes, double *log_q)
{
    xsmi_beam_node *now = scratch, *next = scratch + width;
    const size_t leaves = xsmi_tree_leaves(t);
    size_t count = 1;
    now[0] = (xsmi_beam_node){-0.0, 1, 0, 1};
    for (uint32_t level = 0; level < t->height; level++) {
        bool last = level + 1 == t->height;
        size_t made = 0;
        for (size_t i = 0; i < count; i++) {
            if (i + 4 < count) {
                const char *ahead = (const char *)(t->nodes + now[i + 4].node * t->dims);
                for (size_t at = 0; at < t->dims * sizeof(float); at += XSMI_ALIGNMENT) {
                    __builtin_prefetch(ahead + at, 0, 3);
                }
            }
            double s = (double)xsmi_tree_node_score(t->nodes + now[i].node * t->dims, code, t->dims);
            double e = exp(-fabs(s));
            for (int side = 0; side < 2; side++) {
                xsmi_beam_node child = child_of(&now[i], side, s, e);
                if (!last || t->leaf_class[child.node - leaves] != XSMI_NO_CLASS) {
                    next[made++] = child;
                }
            }
        }
        if (made > width) {
            select_first(next, made, width);
            made = width;
        }
        for (size_t i = 0; i < made; i++) {
            now[i] = next[i];
        }
        count = made;
    }
    for (size_t i = 0; i < count; i++) {
        classes[i] = t->leaf_class[now[i].node - leaves];
        log_q[i] = now[i].log_q;
    }
    return (uint32_t)count;
}
