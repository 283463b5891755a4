/* Best-first search in a hierarchy: a heap of nodes and classes by falling log-probability. */
#include "model/best_first.h"

#include "math/omega.h"

#include <math.h>

typedef struct open {
    double log_p;
    uint32_t child; /* an inner node's number, or XSMI_TREE_LEAF + a class */
} open;

/* Whether a is taken before b. If they are equal, nodes come first, as they may have a smaller class below them. Leaves
 * are marked by the highest bit, so this is the order of the numbers. */
static bool before(const open *a, const open *b)
{
    return a->log_p > b->log_p || (a->log_p == b->log_p && a->child < b->child);
}

static void push(open *heap, uint32_t *count, open item)
{
    uint32_t position = (*count)++;
    for (; position > 0 && before(&item, &heap[(position - 1) / 2]); position = (position - 1) / 2) {
        heap[position] = heap[(position - 1) / 2];
    }
    heap[position] = item;
}

/* Returns the first of the heap, and puts `last`, which is not in the heap, in its place. */
static open exchange(open *heap, uint32_t *count, open last)
{
    if (*count == 0 || before(&last, &heap[0])) {
        return last;
    }
    open best = heap[0];
    uint32_t position = 0;
    for (uint32_t child = 1; child < *count; child = 2 * position + 1) {
        child += child + 1 < *count && before(&heap[child + 1], &heap[child]);
        if (!before(&heap[child], &last)) {
            break;
        }
        heap[position] = heap[child];
        position = child;
    }
    heap[position] = last;
    return best;
}

static open pop(open *heap, uint32_t *count)
{
    const open last = heap[--*count];
    return exchange(heap, count, last);
}

static uint32_t name_of(const xsmi_class_tree *h, uint32_t node)
{
    return xsmi_class_tree_is_leaf(h, node) ? h->made[node] : h->number[node];
}

size_t xsmi_best_first_scratch(const xsm_model *m)
{
    return (size_t)m->classes * sizeof(open); /* no two open nodes have a class in common */
}

uint64_t xsmi_best_first(const xsm_model *m, const xsmi_features *x, const xsmi_row_filter *filter,
                         const xsmi_top *list, void *scratch)
{
    const xsmi_class_tree *h = m->head->hierarchy;
    open *heap = scratch;
    uint32_t count = 0, found = 0;
    uint64_t opened = 0;
    open better = {0, 0}; /* the better child of the previous node */
    bool child = true;
    while (found < list->size && (child || count > 0)) {
        const open best = child ? exchange(heap, &count, better) : pop(heap, &count);
        child = false;
        if (best.child & XSMI_TREE_LEAF) {
            const uint32_t class = best.child & ~XSMI_TREE_LEAF;
            if (!filter || xsmi_row_filter_takes(filter, class)) {
                list->class_of[found] = class;
                list->score[found++] = (float)best.log_p;
            }
            continue;
        }
        float z;
        xsmi_weights_score(&m->w, x, &best.child, 1, m->w.alpha, &z, NULL);
        if (!isfinite(z)) {
            return 0;
        }
        opened++;
        const uint32_t left = h->first_child[h->inner_node[best.child]];
        const double least = xsmi_softplus(-fabs((double)z)); /* a term of both children's log p */
        const open first = {best.log_p - (XSMI_MAX((double)z, 0) + least), name_of(h, left)};
        const open second = {best.log_p - (XSMI_MAX(-(double)z, 0) + least), name_of(h, left + 1)};
        child = true;
        better = before(&first, &second) ? first : second;
        push(heap, &count, before(&first, &second) ? second : first);
    }
    for (; found < list->size; found++) {
        list->class_of[found] = XSMI_NO_CLASS;
        list->score[found] = -INFINITY;
    }
    return opened;
}
