/* Best-first search in a hierarchy: a heap of nodes and classes by falling log-probability. */
#include "model/best_first.h"

#include "math/omega.h"

#include <math.h>

typedef struct open {
    double log_p;
    uint32_t child; /* an inner node's number, or XSMI_TREE_LEAF + a class */
} open;

/* Whether a is taken before b. Of equal ones nodes come first, as they may hold a smaller class. As leaves are marked
 * by the highest bit, this is the order of the numbers. */
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

static open pop(open *heap, uint32_t *count)
{
    open best = heap[0], last = heap[--*count];
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

static uint32_t name_of(const xsmi_class_tree *h, uint32_t node)
{
    return xsmi_class_tree_is_leaf(h, node) ? h->made[node] : h->number[node];
}

size_t xsmi_best_first_scratch(const xsmi_class_tree *h)
{
    return (size_t)h->classes * sizeof(open); /* each open node has classes of its own */
}

uint64_t xsmi_best_first(const xsm_model *m, const xsmi_features *x, const float *nodes, const xsmi_row_filter *filter,
                         const xsmi_top *list, void *scratch)
{
    const xsmi_class_tree *h = m->hierarchy;
    open *heap = scratch;
    uint32_t count = 0, found = 0;
    uint64_t opened = 0;
    push(heap, &count, (open){0, 0});
    while (found < list->size && count > 0) {
        open best = pop(heap, &count);
        if (best.child & XSMI_TREE_LEAF) {
            const uint32_t class = best.child & ~XSMI_TREE_LEAF;
            if (!filter || xsmi_row_filter_takes(filter, class)) {
                list->class_of[found] = class;
                list->score[found++] = (float)best.log_p;
            }
            continue;
        }
        float z;
        if (nodes) {
            z = nodes[best.child];
        } else {
            xsmi_model_score_classes(m, x, &best.child, 1, m->alpha, &z, NULL);
        }
        if (!isfinite(z)) {
            return 0;
        }
        opened++;
        const uint32_t left = h->first_child[h->inner_node[best.child]];
        for (uint32_t side = 0; side < 2; side++) {
            double against = side ? -(double)z : (double)z;
            push(heap, &count, (open){best.log_p - xsmi_softplus(against), name_of(h, left + side)});
        }
    }
    for (; found < list->size; found++) {
        list->class_of[found] = XSMI_NO_CLASS;
        list->score[found] = -INFINITY;
    }
    return opened;
}
