#include "labels/layout.h"

#include "base/activity.h"
#include "base/order.h"

#include <string.h>

#define MOST_LEVELS 62

/* Neighbouring labels that are to be divided among children of a node. */
typedef struct segment {
    uint32_t start, end; /* positions of its labels */
    uint32_t node;
    uint32_t children, pieces;
} segment;

typedef struct layout_work {
    xsmi_held held; /* the arrays */
    xsmi_layout *t;
    const xsmi_label_vectors *v;
    const xsmi_layout_settings *settings;
    segment *segments, *divided; /* [labels] */
    xsmi_split *splits;          /* [labels] */
    uint32_t *borders;           /* of the splits' parts */
    uint64_t position;           /* of the next split's stream */
} layout_work;

/* Returns the smallest number whose `power`-th power is at least n. */
static uint32_t root_above(uint32_t n, uint32_t power)
{
    uint32_t a = 1;
    for (uint64_t product = 0; product < n; a++) {
        product = 1;
        for (uint32_t i = 0; i < power && product < n; i++) {
            product *= a + 1;
        }
    }
    return a;
}

/* Returns how many levels of nodes of that arity lie above `pieces` nodes. */
static uint32_t levels_above(uint32_t pieces, uint32_t arity)
{
    uint32_t levels = 0;
    for (uint64_t reached = 1; reached < pieces; reached *= arity) {
        levels++;
    }
    return levels;
}

/* Returns the number of a node's labels that have rows. */
static uint32_t known_labels(const xsmi_layout *t, uint32_t node)
{
    return xsmi_layout_is_seen(t, node) ? XSMI_MIN(t->end[node], t->seen) - t->start[node] : 0;
}

static void add_node(xsmi_layout *t, uint32_t start, uint32_t end, uint32_t pieces)
{
    if (t->from) {
        t->from[t->nodes] = XSMI_NO_CLASS;
    }
    t->start[t->nodes] = start;
    t->end[t->nodes] = end;
    t->pieces[t->nodes++] = pieces;
}

/* -- a tree that grows --------------------------------------------------------------------------------------------- */

/* Whether a node has the children of the old one, and those that arrive. */
static bool keeps_children(const layout_work *w, uint32_t v)
{
    const xsmi_arrivals *a = w->settings->arrivals;
    return a && xsmi_layout_is_kept(w->t, v) && xsmi_layout_is_seen(w->t, v) && !a->divided[w->t->from[v]] &&
           !xsmi_class_tree_is_leaf(a->old->tree, w->t->from[v]);
}

/* Adds the children of a node that keeps them, and those that arrive. */
static void keep_children(layout_work *w, uint32_t v)
{
    xsmi_layout *t = w->t;
    const xsmi_arrivals *a = w->settings->arrivals;
    const xsmi_class_tree *tree = a->old->tree;
    const uint32_t old = t->from[v], end = t->start[v] + known_labels(t, v);
    uint32_t at = t->start[v];
    for (uint32_t c = tree->first_child[old]; c < tree->first_child[old + 1]; c++) {
        if (a->under[c] > 0) {
            add_node(t, at, at + a->under[c], (a->under[c] - 1) / w->settings->leaf + 1);
            t->from[t->nodes - 1] = c;
            at += a->under[c];
        }
    }
    for (; at < end; at++) {
        add_node(t, at, at + 1, 1);
    }
}

/* Orders the labels so that those under a node are neighbours, and those that arrive come last among them. */
static xsm_status order_arrivals(layout_work *w, xsm_error *err)
{
    xsmi_layout *t = w->t;
    const xsmi_arrivals *a = w->settings->arrivals;
    const xsmi_class_tree *tree = a->old->tree;
    uint32_t *next; /* [nodes] the position of a node's first label, and then of the first that arrives in it */
    XSMI_TRY(xsmi_array_new(t->context, &next, tree->nodes, sizeof *next, "a label tree", err));
    next[0] = 0;
    for (uint32_t v = 0; v < tree->nodes; v++) {
        for (uint32_t c = tree->first_child[v]; c < tree->first_child[v + 1]; c++) {
            next[c] = next[v];
            next[v] += a->under[c];
        }
    }
    for (uint32_t i = 0; i < a->rows.count; i++) {
        const uint32_t k = a->rows.label[i];
        t->order[a->parent[k] != XSMI_NO_CLASS ? next[a->parent[k]]++ : next[tree->class_leaf[k]]] = i;
    }
    xsmi_release(t->context, next, tree->nodes, sizeof *next);
    return XSM_OK;
}

/* Notes the old nodes of labels, and of the unseen ones' child of the root. */
static void find_origins(xsmi_layout *t, const xsmi_arrivals *a)
{
    for (uint32_t v = 1; v < t->nodes; v++) {
        const uint32_t k = a->rows.label[t->order[t->start[v]]];
        if (!xsmi_layout_is_seen(t, v)) {
            t->from[v] = v < t->first_child[1] ? a->unseen_child : XSMI_NO_CLASS;
        } else if (xsmi_layout_is_leaf(t, v)) {
            t->from[v] = a->parent[k] == XSMI_NO_CLASS ? a->old->tree->class_leaf[k] : XSMI_NO_CLASS;
        }
    }
}

/* -- levels -------------------------------------------------------------------------------------------------------- */

/* Lists the nodes of the last level that must be divided, each as a segment. Returns their number. */
static uint32_t list_segments(layout_work *w)
{
    const xsmi_layout *t = w->t;
    uint32_t count = 0;
    for (uint32_t v = t->level[t->depth - 1]; v < t->nodes; v++) {
        const uint32_t n = known_labels(t, v);
        if (n > w->settings->leaf && !keeps_children(w, v)) {
            const uint32_t levels = levels_above(t->pieces[v], w->settings->arity);
            const uint32_t children =
                w->settings->balanced ? root_above(t->pieces[v], XSMI_MAX(levels, 1)) : XSMI_MIN(w->settings->arity, n);
            w->segments[count++] = (segment){t->start[v], t->start[v] + n, v, XSMI_MAX(children, 2), t->pieces[v]};
        }
    }
    return count;
}

/* Plans how the labels of a segment are divided next. */
static void plan_split(layout_work *w, const segment *s, xsmi_split *split, uint32_t *first)
{
    const uint32_t n = s->end - s->start;
    *split = (xsmi_split){.labels = w->t->order + s->start,
                          .count = n,
                          .parts = w->settings->balanced ? 2 : s->children,
                          .first = first,
                          .balanced = w->settings->balanced,
                          .position = w->position++};
    if (split->balanced) {
        const uint32_t left = (s->children + 1) / 2;
        const uint64_t pieces = (uint64_t)s->pieces * left / s->children;
        const uint64_t middle = ((uint64_t)n * pieces + s->pieces / 2) / s->pieces;
        first[0] = 0;
        first[1] = (uint32_t)XSMI_CLAMP(middle, 1, n - 1);
        first[2] = n;
    }
}

/* Replaces the segments by their parts; segments that are one child stay. Returns the new number of segments. */
static uint32_t divide_segments(layout_work *w, uint32_t count)
{
    uint32_t out = 0;
    size_t split = 0;
    for (uint32_t i = 0; i < count; i++) {
        const segment s = w->segments[i];
        if (s.children == 1) {
            w->divided[out++] = s;
            continue;
        }
        const xsmi_split *done = &w->splits[split++];
        const uint32_t left = (s.children + 1) / 2;
        const uint32_t pieces = (uint32_t)((uint64_t)s.pieces * left / s.children);
        for (uint32_t p = 0; p < done->parts; p++) {
            segment part = {s.start + done->first[p], s.start + done->first[p + 1], s.node, 1, 1};
            if (done->balanced) {
                part.children = p == 0 ? left : s.children - left;
                part.pieces = p == 0 ? pieces : s.pieces - pieces;
            }
            w->divided[out++] = part;
        }
    }
    segment *swap = w->segments;
    w->segments = w->divided;
    w->divided = swap;
    return out;
}

/* Divides all segments until each is one child. */
static xsm_status divide(layout_work *w, uint32_t *count, xsm_error *err)
{
    for (;;) {
        size_t splits = 0, borders = 0;
        for (uint32_t i = 0; i < *count; i++) {
            const segment *s = &w->segments[i];
            if (s->children > 1) {
                plan_split(w, s, &w->splits[splits], w->borders + borders);
                borders += w->splits[splits++].parts + 1;
            }
        }
        if (splits == 0) {
            return XSM_OK;
        }
        const xsmi_split_settings settings = {w->settings->seed, w->settings->iterations, w->settings->divided};
        XSMI_TRY(xsmi_split_all(w->v, &settings, w->splits, splits, err));
        *count = divide_segments(w, *count);
    }
}

/* Adds the children that hold a node's labels without rows: one child of the root, and equal parts of that one. */
static void add_unknown(layout_work *w, uint32_t v, uint32_t known)
{
    xsmi_layout *t = w->t;
    const uint32_t start = t->start[v] + known, n = t->end[v] - start, most = w->settings->leaf;
    const uint32_t children = v == 0 ? 1 : n <= most ? (n > 1 ? n : 0) : XSMI_MIN(most, (n - 1) / most + 1);
    for (uint32_t c = 0; c < children; c++) {
        add_node(t, start + (uint32_t)((uint64_t)n * c / children),
                 start + (uint32_t)((uint64_t)n * (c + 1) / children), 1);
    }
}

/* Adds the children of the last level's nodes, one level. */
static xsm_status add_level(layout_work *w, xsm_error *err)
{
    xsmi_layout *t = w->t;
    const uint32_t from = t->level[t->depth - 1], end = t->nodes;
    uint32_t count = list_segments(w);
    XSMI_TRY(divide(w, &count, err));
    const segment *s = w->segments, *last = s + count;
    for (uint32_t v = from; v < end; v++) {
        const uint32_t known = known_labels(t, v);
        t->first_child[v] = t->nodes;
        if (keeps_children(w, v)) {
            keep_children(w, v);
        } else if (known > w->settings->leaf) {
            for (; s < last && s->node == v; s++) {
                add_node(t, s->start, s->end, s->pieces);
            }
        } else if (known > 1 || (known == 1 && v == 0)) {
            for (uint32_t p = t->start[v]; p < t->start[v] + known; p++) {
                add_node(t, p, p + 1, 1);
            }
        }
        if (known < t->end[v] - t->start[v]) {
            add_unknown(w, v, known);
        }
    }
    return XSM_OK;
}

static xsm_status allocate(xsmi_layout *t, layout_work *w, xsm_error *err)
{
    const uint64_t labels = t->labels;
    const xsmi_arrivals *a = w->settings->arrivals;
    t->capacity = (uint32_t)XSMI_MIN(2 * labels + 2 + (a ? a->old->tree->nodes : 0), UINT32_MAX);
    t->from = a ? xsmi_hold(&t->held, t->capacity, sizeof *t->from) : NULL;
    t->order = xsmi_hold(&t->held, labels, sizeof *t->order);
    t->first_child = xsmi_hold(&t->held, (uint64_t)t->capacity + 1, sizeof *t->first_child);
    t->start = xsmi_hold(&t->held, t->capacity, sizeof *t->start);
    t->end = xsmi_hold(&t->held, t->capacity, sizeof *t->end);
    t->pieces = xsmi_hold(&t->held, t->capacity, sizeof *t->pieces);
    w->segments = xsmi_hold(&w->held, labels, sizeof *w->segments);
    w->divided = xsmi_hold(&w->held, labels, sizeof *w->divided);
    w->splits = xsmi_hold(&w->held, labels, sizeof *w->splits);
    w->borders = xsmi_hold(&w->held, 2 * labels + 2, sizeof *w->borders);
    XSMI_TRY(xsmi_held_check(&t->held, "a label tree", err));
    return xsmi_held_check(&w->held, "a label tree", err);
}

xsm_status xsmi_layout_make(xsmi_layout *t, const xsmi_label_vectors *v, const xsmi_layout_settings *settings,
                            xsm_error *err)
{
    *t = (xsmi_layout){.context = v->context, .held = {.context = v->context}, .labels = v->classes, .seen = v->count};
    layout_work w = {
        .held = {.context = v->context}, .t = t, .v = v, .settings = settings, .position = settings->position};
    xsm_status status = allocate(t, &w, err);
    if (status == XSM_OK) {
        for (uint32_t l = 0; l < t->labels; l++) {
            t->order[l] = l;
        }
        add_node(t, 0, t->labels, (t->seen - 1) / settings->leaf + 1);
        t->depth = 1;
    }
    if (status == XSM_OK && t->from) {
        t->from[0] = 0;
        status = order_arrivals(&w, err);
    }
    while (status == XSM_OK && t->level[t->depth - 1] < t->nodes) {
        if (t->depth == MOST_LEVELS) {
            status = xsmi_fail(err, XSM_ERROR_LIMIT, "the label tree would have more than %d levels", MOST_LEVELS);
            break;
        }
        const uint32_t first = t->nodes;
        status = add_level(&w, err);
        t->level[t->depth++] = first;
    }
    if (status == XSM_OK) {
        t->depth--; /* the last level has no nodes */
        t->first_child[t->nodes] = t->nodes;
        if (t->from) {
            find_origins(t, settings->arrivals);
        }
    }
    xsmi_held_release(&w.held);
    if (status != XSM_OK) {
        xsmi_layout_free(t);
    }
    return status;
}

void xsmi_layout_free(xsmi_layout *t)
{
    xsmi_held_release(&t->held);
    *t = (xsmi_layout){0};
}
