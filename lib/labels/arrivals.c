#include "labels/arrivals.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/label_beam.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* The beam that finds a class's place, and the classes from which it is chosen. */
enum { WIDTH = 10, CANDIDATES = 16 };
/* Classes of a job. */
enum { TOGETHER = 16 };

/* -- classes that were not trained --------------------------------------------------------------------------------- */

/* Whether the nodes below a node have no weights. */
static bool is_empty(const xsmi_label_tree *t, uint32_t node)
{
    uint32_t from = node, end = node + 1;
    bool empty = true;
    while (empty && from < end) {
        for (uint32_t v = from; empty && v < end; v++) {
            const xsmi_sparse_place *at = &t->weights->places[t->tree->number[v]];
            empty = xsmi_class_tree_is_leaf(t->tree, v) || at[1].entry == at->entry;
        }
        from = t->tree->first_child[from];
        end = t->tree->first_child[end];
    }
    return empty;
}

/* Whether a child of the root has a weight above 0. */
static bool is_trained(const xsmi_sparse *s, uint32_t child)
{
    for (uint64_t i = s->places[0].entry; i < s->places[1].entry; i++) {
        if ((s->row8 ? s->row8[i] : s->row16[i]) == child - 1 && s->values[i] > 0) {
            return true;
        }
    }
    return false;
}

/* Returns the first of the root's last children under which no class was trained. */
static uint32_t first_unseen(const xsmi_label_tree *t)
{
    uint32_t v = t->tree->first_child[1];
    while (v > 1 && (xsmi_class_tree_is_leaf(t->tree, v - 1) ? !is_trained(t->weights, v - 1) : is_empty(t, v - 1))) {
        v--;
    }
    return v;
}

/* Marks the classes of the tree that were not trained. */
static void mark_unseen(const xsmi_label_tree *t, uint8_t *unseen)
{
    const xsmi_class_tree *tree = t->tree;
    const uint32_t first = first_unseen(t), end = tree->first_child[1];
    for (uint32_t k = 0; k < tree->classes; k++) {
        uint32_t v = tree->class_leaf[k];
        while (tree->parent[v] != 0) {
            v = tree->parent[v];
        }
        unseen[k] = v >= first && v < end;
    }
}

/* -- places -------------------------------------------------------------------------------------------------------- */

typedef struct placing {
    const xsm_model *model;
    const xsmi_label_vectors *v;
    const uint8_t *unseen; /* [classes] in some tree */
    const uint32_t *arrive;
    uint32_t *beside;
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each;
    uint32_t width;
    atomic_bool lost; /* no trained class was found beside which some class could go */
} placing;

typedef struct place_scratch {
    xsmi_label_beam beam;
    xsmi_top list;
} place_scratch;

static place_scratch divide(const placing *p, xsmi_arena *arena)
{
    place_scratch s;
    xsmi_label_beam_divide(p->model, p->width, arena, &s.beam);
    s.list.size = XSMI_MIN(CANDIDATES, p->model->classes);
    s.list.score = xsmi_arena_take(arena, s.list.size, sizeof *s.list.score);
    s.list.class_of = xsmi_arena_take(arena, s.list.size, sizeof *s.list.class_of);
    return s;
}

/* Whether the parent of a class has no children but classes, in every tree. */
static bool is_in_leaves(const xsmi_label_trees *l, uint32_t class)
{
    bool all = true;
    for (uint32_t t = 0; t < l->count; t++) {
        const xsmi_class_tree *tree = l->tree[t].tree;
        const uint32_t parent = tree->parent[tree->class_leaf[class]];
        for (uint32_t c = tree->first_child[parent]; all && parent > 0 && c < tree->first_child[parent + 1]; c++) {
            all = xsmi_class_tree_is_leaf(tree, c);
        }
    }
    return all;
}

static void place_classes(void *state, const xsmi_range *r)
{
    placing *p = state;
    xsmi_arena arena = {p->scratch + r->thread * p->scratch_each, 0};
    const place_scratch s = divide(p, &arena);
    xsmi_label_beam_start(&s.beam, p->model->classes);
    for (size_t i = r->first; i < r->end && !xsmi_poll(p->v->context); i++) {
        const xsmi_features x = xsmi_label_vector(p->v, p->arrive[i]);
        (void)xsmi_label_beam_all(&s.beam, &x, XSMI_MIN(WIDTH, p->width), &s.list);
        uint32_t best = XSMI_NO_CLASS;
        bool in_leaves = false;
        for (uint32_t k = 0; k < s.list.size && !in_leaves; k++) { /* best first */
            const uint32_t class = s.list.class_of[k];
            if (class != XSMI_NO_CLASS && !p->unseen[class]) {
                in_leaves = is_in_leaves(xsmi_model_trees(p->model), class);
                best = best == XSMI_NO_CLASS || in_leaves ? class : best;
            }
        }
        p->beside[p->v->label[p->arrive[i]]] = best;
        if (best == XSMI_NO_CLASS) {
            atomic_store(&p->lost, true);
        }
    }
    xsmi_advance(p->v->context, r->end - r->first);
}

static xsm_status search(placing *p, uint32_t count, xsm_error *err)
{
    xsm_context *ctx = p->v->context;
    xsmi_arena counts = {NULL, 0};
    const uint32_t threads = xsmi_context_threads(ctx);
    p->width = XSMI_MIN(XSMI_MAX(WIDTH, CANDIDATES), p->model->classes);
    (void)divide(p, &counts);
    p->scratch_each = counts.used;
    XSMI_TRY(xsmi_array_new(ctx, &p->scratch, threads, p->scratch_each, "the searches for places", err));
    const xsm_status status = xsmi_run_ranges(ctx, place_classes, p, count, TOGETHER, err);
    xsmi_release(ctx, p->scratch, threads, p->scratch_each);
    return status == XSM_OK && atomic_load(&p->lost)
               ? xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "the label tree has no trained class beside which a new one could go; fit it anew")
               : status;
}

xsm_status xsmi_arrivals_place(const xsm_model *m, const xsmi_label_vectors *v, uint32_t *beside, xsm_error *err)
{
    const xsmi_label_trees *l = xsmi_model_trees(m);
    const uint32_t classes = m->classes;
    xsmi_held held = {.context = v->context};
    uint8_t *unseen = xsmi_hold_zeros(&held, classes, sizeof *unseen), *of = xsmi_hold(&held, classes, sizeof *of);
    uint32_t *arrive = xsmi_hold(&held, v->count, sizeof *arrive), count = 0;
    placing p = {.model = m, .v = v, .unseen = unseen, .arrive = arrive, .beside = beside};
    xsm_status status = xsmi_held_check(&held, "new classes", err);
    for (uint32_t t = 0; t < l->count && status == XSM_OK; t++) {
        mark_unseen(&l->tree[t], of);
        for (uint32_t k = 0; k < classes; k++) {
            unseen[k] |= of[k];
        }
    }
    for (uint32_t k = 0; k < classes; k++) {
        beside[k] = XSMI_NO_CLASS;
    }
    for (uint32_t i = 0; i < v->count && status == XSM_OK; i++) {
        if (unseen[v->label[i]]) {
            arrive[count++] = i;
        }
    }
    status = status == XSM_OK && count > 0 ? search(&p, count, err) : status;
    xsmi_held_release(&held);
    return status;
}

/* -- the plan of a tree -------------------------------------------------------------------------------------------- */

/* Counts the classes under each node, and chooses the nodes that are divided. */
static void count_classes(xsmi_arrivals *a, uint32_t leaf)
{
    const xsmi_class_tree *tree = a->old->tree;
    memset(a->under, 0, tree->nodes * sizeof *a->under);
    for (uint32_t k = 0; k < tree->classes; k++) {
        const uint32_t v = a->parent[k] != XSMI_NO_CLASS ? a->parent[k] : tree->class_leaf[k];
        a->under[v] += !a->unseen[k];
    }
    for (uint32_t v = tree->nodes; v-- > 0;) {
        bool only_classes = !xsmi_class_tree_is_leaf(tree, v);
        for (uint32_t c = tree->first_child[v]; c < tree->first_child[v + 1]; c++) {
            only_classes = only_classes && (a->under[c] == 0 || xsmi_class_tree_is_leaf(tree, c));
            a->under[v] += a->under[c];
        }
        a->divided[v] = only_classes && a->under[v] > 2 * leaf;
    }
}

/* Appends the classifier of a class, at unit length, to a block that has room for it. Returns its length. */
static uint32_t take_classifier(const xsmi_sparse_chunk *chunk, uint32_t row, const xsmi_vector_block *b)
{
    uint32_t length = 0;
    double square = 0;
    for (uint32_t c = 0; c < chunk->columns; c++) {
        uint32_t i = chunk->starts[c], end = chunk->starts[c + 1];
        while (i < end) { /* the first of the rising rows that is not below */
            const uint32_t half = i + (end - i) / 2;
            *(chunk->entry_rows[half] < row ? &i : &end) = half + (chunk->entry_rows[half] < row);
        }
        if (i < chunk->starts[c + 1] && chunk->entry_rows[i] == row) {
            b->index[b->count + length] = chunk->features[c];
            b->value[b->count + length++] = chunk->values[i];
            square += (double)chunk->values[i] * (double)chunk->values[i];
        }
    }
    for (uint32_t k = 0; k < length; k++) {
        b->value[b->count + k] *= (float)(1 / sqrt(square));
    }
    return length;
}

/* Appends the vector of class `class`, vector i of a->rows: that of its rows, number `known` of v, or else its
 * classifier. */
static xsm_status take_vector(xsmi_arrivals *a, const xsmi_label_vectors *v, uint32_t i, uint32_t known,
                              xsmi_sparse_taken *taken, xsm_error *err)
{
    const xsmi_class_tree *tree = a->old->tree;
    const uint32_t leaf = tree->class_leaf[a->rows.label[i]], parent = tree->parent[leaf];
    xsmi_vector_block *b = &a->rows.block[i / XSMI_VECTOR_BLOCK];
    uint32_t room;
    if (known != XSMI_NO_CLASS) {
        room = v->length[known];
    } else {
        XSMI_TRY(xsmi_sparse_take(taken, a->old->weights, tree->number[parent], err));
        room = taken->chunk.columns;
    }
    if (!xsmi_vector_block_reserve(b, a->context, room)) {
        return xsmi_fail_memory(err, room * 8ull, "label vectors");
    }
    a->rows.start[i] = b->count;
    if (known == XSMI_NO_CLASS) {
        a->rows.length[i] = take_classifier(&taken->chunk, leaf - tree->first_child[parent], b);
    } else if (room > 0) {
        const xsmi_features x = xsmi_label_vector(v, known);
        memcpy(b->index + b->count, x.index, room * sizeof *b->index);
        memcpy(b->value + b->count, x.values, room * sizeof *b->value);
        a->rows.length[i] = room;
    }
    b->count += a->rows.length[i];
    return XSM_OK;
}

/* Makes the vectors of the classes in nodes that are divided. number[classes] is scratch. */
static xsm_status take_vectors(xsmi_arrivals *a, const xsmi_label_vectors *v, uint32_t *number, xsm_error *err)
{
    const xsmi_class_tree *tree = a->old->tree;
    xsmi_label_vectors *rows = &a->rows;
    const uint32_t classes = tree->classes;
    *rows = (xsmi_label_vectors){
        .context = a->context, .held = {.context = a->context}, .features = v->features, .classes = classes};
    for (uint32_t k = 0; k < classes; k++) {
        number[k] = XSMI_NO_CLASS;
        rows->count += !a->unseen[k];
    }
    for (uint32_t i = 0; i < v->count; i++) {
        number[v->label[i]] = i;
    }
    rows->blocks = (rows->count + XSMI_VECTOR_BLOCK - 1) / XSMI_VECTOR_BLOCK;
    rows->label = xsmi_hold(&rows->held, classes, sizeof *rows->label);
    rows->length = xsmi_hold_zeros(&rows->held, rows->count, sizeof *rows->length);
    rows->start = xsmi_hold_zeros(&rows->held, rows->count, sizeof *rows->start);
    rows->block = xsmi_hold_zeros(&rows->held, rows->blocks, sizeof *rows->block);
    XSMI_TRY(xsmi_held_check(&rows->held, "label vectors", err));
    uint32_t seen = 0, others = rows->count;
    for (uint32_t k = 0; k < classes; k++) {
        rows->label[a->unseen[k] ? others++ : seen++] = k;
    }
    xsmi_sparse_taken taken = {.context = a->context};
    xsm_status status = XSM_OK;
    for (uint32_t i = 0; i < rows->count && status == XSM_OK; i++) {
        const uint32_t k = rows->label[i];
        if (a->divided[a->parent[k] != XSMI_NO_CLASS ? a->parent[k] : tree->parent[tree->class_leaf[k]]]) {
            status = take_vector(a, v, i, number[k], &taken, err);
            status = status == XSM_OK ? xsmi_go_on(a->context, err) : status;
        }
    }
    xsmi_sparse_taken_free(&taken);
    return status;
}

xsm_status xsmi_arrivals_plan(xsmi_arrivals *a, const xsm_model *m, uint32_t tree, const xsmi_label_vectors *v,
                              const uint32_t *beside, uint32_t leaf, xsm_error *err)
{
    const xsmi_label_tree *old = &xsmi_model_trees(m)->tree[tree];
    const xsmi_class_tree *t = old->tree;
    *a = (xsmi_arrivals){
        .context = v->context, .held = {.context = v->context}, .old = old, .unseen_child = XSMI_NO_CLASS};
    a->unseen = xsmi_hold(&a->held, t->classes, sizeof *a->unseen);
    a->parent = xsmi_hold(&a->held, t->classes, sizeof *a->parent);
    a->under = xsmi_hold(&a->held, t->nodes, sizeof *a->under);
    a->divided = xsmi_hold(&a->held, t->nodes, sizeof *a->divided);
    uint32_t *number = xsmi_hold(&a->held, t->classes, sizeof *number);
    xsm_status status = xsmi_held_check(&a->held, "a label tree", err);
    if (status == XSM_OK) {
        bool some = false;
        mark_unseen(old, a->unseen);
        for (uint32_t k = 0; k < t->classes; k++) {
            const bool arrives = a->unseen[k] && beside[k] != XSMI_NO_CLASS;
            a->parent[k] = arrives ? t->parent[t->class_leaf[beside[k]]] : XSMI_NO_CLASS;
            a->count += arrives;
            a->unseen[k] = a->unseen[k] && !arrives;
            some = some || a->unseen[k];
        }
        a->unseen_child = some ? first_unseen(old) : XSMI_NO_CLASS;
        count_classes(a, leaf);
        for (uint32_t n = 0; n < t->nodes; n++) {
            a->divisions += a->divided[n];
        }
        status = take_vectors(a, v, number, err);
    }
    return status;
}

void xsmi_arrivals_free(xsmi_arrivals *a)
{
    xsmi_held_release(&a->held);
    xsmi_label_vectors_free(&a->rows);
    *a = (xsmi_arrivals){0};
}
