#include "labels/grow_tree.h"
#include "labels/levels.h"

#include "base/activity.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "base/order.h"
#include "ranks/share.h"
#include "labels/parts.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define LANES XSMI_DUAL_LANES
/* If the rows of a node have more entries than this, each group of its children is trained in a job of its own. */
#define LARGE_ENTRIES ((uint64_t)1 << 22)
/* Entries times groups that are trained before weights are collected. */
#define WINDOW_WORK ((uint64_t)1 << 31)
/* The same for the first window if checkpoints are written; later windows take a quarter of the time between two
 * checkpoints. If that is below a second, each job is a window. */
#define FIRST_WORK ((uint64_t)1 << 22)
/* About as many rows of a level's nodes have their scores kept for calibration. */
#define SAMPLES 4096

/* Groups of a node's children that are trained together. */
typedef struct node_job {
    uint32_t node, level;
    uint32_t first, count; /* groups */
    size_t part;           /* the first group's number in `part` */
    uint32_t old;          /* the old node whose classifiers are trained on, XSMI_NO_CLASS: they start from 0 */
    uint64_t work;
} node_job;

typedef struct grower {
    xsm_context *context;
    xsmi_held held; /* the arrays, without those of `chunk` */
    const xsm_dataset *data;
    const xsmi_grow_settings *settings;
    xsmi_layout layout;
    const uint32_t *label; /* classes of the layout's order */
    uint32_t *place_of;    /* [classes] */
    uint32_t *identity;    /* [features] of a dense dataset */
    xsmi_levels levels;
    node_job *job, *sorted;
    size_t jobs;
    uint32_t *owner;      /* [groups] the process that trains each; NULL: this one trains all */
    xsmi_node_part *part; /* [groups] */
    size_t parts, groups; /* parts: planned so far; groups: all */
    xsmi_node_work *work; /* [threads] */
    atomic_bool failed;
    xsmi_sparse_builder *builder;
    xsmi_fit_checkpoint *checkpoint;
    xsmi_fit_place place; /* how far training has got */
    uint64_t window;      /* work */
    uint64_t trained;     /* nodes */
    struct {
        uint32_t *start, *at;
        uint16_t *row;
        float *value, *bias;
        size_t columns, entries, rows;
    } chunk;
    /* If a tree grows, scratch for its old nodes: */
    xsmi_sparse_taken taken;
    uint32_t *child_of; /* [most children of one] */
    uint8_t *idle;      /* [nodes] 1: no class under it arrives */
} grower;

/* -- jobs ---------------------------------------------------------------------------------------------------------- */

static uint32_t groups_of(const xsmi_layout *t, uint32_t node)
{
    return (t->first_child[node + 1] - t->first_child[node] + LANES - 1) / LANES;
}

static bool has_inner_child(const xsmi_layout *t, uint32_t node)
{
    for (uint32_t v = t->first_child[node]; v < t->first_child[node + 1]; v++) {
        if (!xsmi_layout_is_leaf(t, v)) {
            return true;
        }
    }
    return false;
}

/* Returns the old node whose children a node keeps; XSMI_NO_CLASS: none. */
static uint32_t old_parent(const grower *g, uint32_t node)
{
    const xsmi_layout *t = &g->layout;
    uint32_t parent = XSMI_NO_CLASS;
    for (uint32_t c = t->first_child[node]; c < t->first_child[node + 1]; c++) {
        parent = xsmi_layout_is_kept(t, c) ? g->settings->arrivals->old->tree->parent[t->from[c]] : parent;
    }
    return parent;
}

/* Plans to train the children of a node: in a tree that grows, only if a class under the node arrives, and where the
 * children are classes, only the groups from the first to the last that has a new one. */
static void plan_node(grower *g, uint32_t level, uint32_t node)
{
    const xsmi_layout *t = &g->layout;
    const xsmi_level *l = &g->levels.level[level];
    const uint32_t first = t->first_child[node], all = groups_of(t, node);
    const uint64_t entries = l->entries[node - l->from] + 1;
    const bool idle = g->idle && g->idle[node];
    uint32_t from = 0, end = t->first_child[node + 1] - first;
    const uint32_t old = g->idle && has_inner_child(t, node) ? old_parent(g, node) : XSMI_NO_CLASS;
    if (!has_inner_child(t, node)) {
        for (; from < end && xsmi_layout_is_kept(t, first + from); from++) {
        }
        for (; from < end && xsmi_layout_is_kept(t, first + end - 1); end--) {
        }
    }
    const uint32_t begin = from / LANES, groups = (end + LANES - 1) / LANES;
    const uint32_t each = entries > LARGE_ENTRIES ? 1 : groups - begin;
    if (idle) { /* nothing is trained, and the node is collected */
        g->job[g->jobs++] = (node_job){node, level, 0, 0, g->parts, XSMI_NO_CLASS, 0};
    }
    for (uint32_t k = begin; !idle && k < groups; k += each) {
        g->job[g->jobs++] = (node_job){node, level, k, each, g->parts + k, old, entries * each};
    }
    g->trained += !idle;
    g->parts += all;
}

static void plan_level(grower *g, uint32_t level)
{
    for (uint32_t v = g->levels.level[level].from; v < g->levels.level[level].from + g->levels.level[level].count;
         v++) {
        if (!xsmi_layout_is_leaf(&g->layout, v)) {
            plan_node(g, level, v);
        }
    }
}

/* Makes room for the jobs and groups of all nodes. */
static xsm_status allocate_jobs(grower *g, xsm_error *err)
{
    const xsmi_layout *t = &g->layout;
    for (uint32_t v = 0; v < t->nodes; v++) {
        g->groups += groups_of(t, v);
    }
    g->job = xsmi_hold(&g->held, g->groups, sizeof *g->job);
    g->sorted = xsmi_hold(&g->held, g->groups, sizeof *g->sorted);
    g->part = xsmi_hold_zeros(&g->held, g->groups, sizeof *g->part);
    const bool divided = g->settings->divided;
    g->owner = divided ? xsmi_hold(&g->held, g->groups, sizeof *g->owner) : NULL;
    return xsmi_held_check(&g->held, "the nodes of a label tree", err);
}

/* Returns the share of a level's rows that are sampled, times 2^32. */
static uint64_t sampled_share(const grower *g, const xsmi_level *l)
{
    const uint64_t all = (uint64_t)1 << 32, rows = l->first[l->count];
    return g->settings->calibrate == XSMI_GROW_PLAIN || g->settings->arrivals ? 0
           : rows > SAMPLES                                                   ? all / rows * SAMPLES
                                                                              : all;
}

/* Finds the scale and shift of a level: fitted to the level's scores, or in a tree that grows those that it has. */
static xsmi_calibrated find_scale(const grower *g, uint32_t level)
{
    const xsmi_arrivals *a = g->settings->arrivals;
    if (a && a->old->weights->scales) {
        const xsmi_sparse *old = a->old->weights;
        const float *of = old->scales + 2 * (size_t)XSMI_MIN(level, old->levels - 1);
        return (xsmi_calibrated){(double)of[0], (double)of[1]};
    }
    if (a) {
        return (xsmi_calibrated){1, 0};
    }
    const xsmi_kept_scores *kept = &g->levels.level[level].kept;
    return g->settings->calibrate == XSMI_GROW_SOFTMAX ? xsmi_calibrate_softmax(kept, g->context)
                                                       : xsmi_calibrate_sigmoid(kept);
}

/* Returns the old classifiers of a job's node, from which training continues. */
static xsmi_node_start start_of(const grower *g, const node_job *job)
{
    const xsmi_label_tree *old = g->settings->arrivals->old;
    const xsmi_calibrated c = find_scale(g, job->level);
    return (xsmi_node_start){.weights = old->weights,
                             .chunk = old->tree->number[job->old],
                             .first = old->tree->first_child[job->old],
                             .scale = (float)c.scale,
                             .shift = (float)c.shift,
                             .from = g->layout.from + g->layout.first_child[job->node]};
}

static void train_node(void *state, size_t index, uint32_t thread)
{
    grower *g = state;
    const node_job *job = &g->sorted[index];
    const xsmi_layout *t = &g->layout;
    const xsmi_level *l = &g->levels.level[job->level];
    const uint32_t n = job->node - l->from;
    xsmi_node_start old = {.weights = NULL};
    if (job->old != XSMI_NO_CLASS) {
        old = start_of(g, job);
    }
    const xsmi_node_rows rows = {.data = g->data,
                                 .identity = g->identity,
                                 .rows = l->rows + l->first[n],
                                 .count = (uint32_t)(l->first[n + 1] - l->first[n]),
                                 .entries = l->entries[n],
                                 .place = g->place_of,
                                 .start = t->start[job->node],
                                 .end = t->end[job->node],
                                 .child_at = l[1].node_at,
                                 .first_child = t->first_child[job->node],
                                 .children = t->first_child[job->node + 1] - t->first_child[job->node],
                                 .score = l->score && has_inner_child(t, job->node) ? l->score + l->first[n] : NULL,
                                 .old = old.weights ? &old : NULL,
                                 .sampled = sampled_share(g, l)};
    if (atomic_load(&g->failed) || job->count == 0) {
        return;
    }
    if (!xsmi_node_train(&g->work[thread], &g->settings->node, &rows, job->first, job->count, &g->part[job->part])) {
        atomic_store(&g->failed, true);
    }
    xsmi_advance(g->context, job->count);
}

/* Orders jobs by falling work. */
static int compare_jobs(const void *a, const void *b)
{
    const node_job *x = a, *y = b;
    return XSMI_COMPARE(y->work, x->work);
}

/* -- collecting ---------------------------------------------------------------------------------------------------- */

/* The old classifiers among a node's children. */
typedef struct kept_children {
    const xsmi_layout *layout;
    uint32_t first_child;
    const xsmi_sparse_chunk *chunk; /* of the old node that had these children */
    uint32_t *child_of; /* [rows of the chunk] the child that each is now, XSMI_NO_CLASS: one of another node */
} kept_children;

/* Writes the weights of a group, kept ones and trained ones, or counts them if `to` has no arrays. */
static void merge_group(const kept_children *k, uint32_t group, const xsmi_node_part *trained, xsmi_node_part *to)
{
    const xsmi_sparse_chunk *chunk = k->chunk;
    const bool fill = to->feature != NULL;
    uint32_t columns = 0, entries = 0;
    for (uint32_t c = 0, n = 0; c < chunk->columns || n < trained->columns;) {
        const uint32_t a = c < chunk->columns ? chunk->features[c] : UINT32_MAX;
        const uint32_t b = n < trained->columns ? trained->feature[n] : UINT32_MAX, before = entries;
        float value[LANES];
        uint32_t lanes = 0;
        for (uint32_t i = chunk->starts[c]; a <= b && i < chunk->starts[c + 1]; i++) {
            const uint32_t child = k->child_of[chunk->entry_rows[i]];
            if (child / LANES == group) {
                lanes |= 1u << child % LANES;
                value[child % LANES] = chunk->values[i];
            }
        }
        for (uint32_t i = trained->columns > 0 ? trained->start[n] : 0; b <= a && i < trained->start[n + 1]; i++) {
            const uint32_t lane = trained->child[i];
            if (!xsmi_layout_is_kept(k->layout, k->first_child + group * LANES + lane)) {
                lanes |= 1u << lane;
                value[lane] = trained->value[i];
            }
        }
        if (fill && lanes > 0) {
            to->feature[columns] = XSMI_MIN(a, b);
            to->start[columns] = before;
        }
        columns += lanes > 0;
        for (; lanes > 0; lanes &= lanes - 1, entries++) {
            if (fill) {
                to->child[entries] = (uint8_t)__builtin_ctz(lanes);
                to->value[entries] = value[to->child[entries]];
            }
        }
        c += a <= b;
        n += b <= a;
    }
    if (fill) {
        to->start[columns] = entries;
    }
    to->columns = columns;
    to->entries = entries;
}

/* Adds the old classifiers of a group's children to those that were trained. */
static xsm_status keep_group(const grower *g, const kept_children *k, uint32_t group, xsmi_node_part *part,
                             xsm_error *err)
{
    xsm_context *ctx = g->context;
    xsmi_node_part both = {.children = part->children, .overflown = part->overflown};
    merge_group(k, group, part, &both);
    both.feature = xsmi_allocate(ctx, both.columns, sizeof *both.feature);
    both.start = xsmi_allocate(ctx, (uint64_t)both.columns + 1, sizeof *both.start);
    both.value = xsmi_allocate(ctx, both.entries, sizeof *both.value);
    both.child = xsmi_allocate(ctx, both.entries, sizeof *both.child);
    if (!both.feature || !both.start || !both.value || !both.child) {
        xsmi_node_part_free(&both, ctx);
        return xsmi_fail_memory(err, both.columns * 8ull + both.entries * 5ull, "the weights of a node");
    }
    merge_group(k, group, part, &both);
    memcpy(both.bias, part->bias, sizeof both.bias);
    for (uint32_t r = 0; r < k->chunk->rows; r++) {
        if (k->child_of[r] / LANES == group) {
            both.bias[k->child_of[r] % LANES] = k->chunk->bias[r];
        }
    }
    xsmi_node_part_free(part, ctx);
    *part = both;
    return XSM_OK;
}

/* Adds the old classifiers of a node's children to those that were trained. If there are no others, and they are all
 * of the old node, sets *whole to its chunk. */
static xsm_status keep_children(grower *g, uint32_t node, xsmi_node_part *part, const xsmi_sparse_chunk **whole,
                                xsm_error *err)
{
    const xsmi_layout *t = &g->layout;
    const xsmi_label_tree *old = g->settings->arrivals->old;
    const uint32_t first = t->first_child[node], end = t->first_child[node + 1];
    const uint32_t parent = old_parent(g, node);
    uint32_t kept = 0;
    for (uint32_t c = first; c < end; c++) {
        part[(c - first) / LANES].children = XSMI_MIN(LANES, end - first - (c - first) / LANES * LANES);
        kept += xsmi_layout_is_kept(t, c);
    }
    if (kept == 0) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_sparse_take(&g->taken, old->weights, old->tree->number[parent], err));
    if (kept == end - first && kept == g->taken.chunk.rows) {
        *whole = &g->taken.chunk;
        return XSM_OK;
    }
    const kept_children k = {t, first, &g->taken.chunk, g->child_of};
    for (uint32_t r = 0; r < k.chunk->rows; r++) {
        k.child_of[r] = XSMI_NO_CLASS;
    }
    for (uint32_t c = first; c < end; c++) {
        if (xsmi_layout_is_kept(t, c)) {
            k.child_of[t->from[c] - old->tree->first_child[parent]] = c - first;
        }
    }
    for (uint32_t p = 0; p < groups_of(t, node); p++) {
        XSMI_TRY(keep_group(g, &k, p, &part[p], err));
        XSMI_TRY(xsmi_go_on(g->context, err));
    }
    return XSM_OK;
}

/* Makes the weights of a node from those of its groups. */
static xsm_status collect_node(grower *g, const xsmi_node_part *part, uint32_t groups, xsm_error *err)
{
    xsm_context *ctx = g->context;
    xsmi_node_work *w = &g->work[0];
    uint64_t columns = 0, entries = 0;
    uint32_t children = 0;
    for (uint32_t p = 0; p < groups; p++) {
        columns += part[p].columns;
        entries += part[p].entries;
        children += part[p].children;
        if (part[p].overflown) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED,
                             "a weight of the label tree is too large for float32; rows should have unit length");
        }
    }
    if (entries > UINT32_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "a node of the label tree has more than 4,294,967,295 weights");
    }
    if (!xsmi_reserve_all(ctx, XSMI_ARRAYS(XSMI_ARRAY(g->chunk.start), XSMI_ARRAY(g->chunk.at)), &g->chunk.columns,
                          columns + 1) ||
        !xsmi_reserve_all(ctx, XSMI_ARRAYS(XSMI_ARRAY(g->chunk.row), XSMI_ARRAY(g->chunk.value)), &g->chunk.entries,
                          entries) ||
        !xsmi_reserve(ctx, &g->chunk.bias, &g->chunk.rows, children, sizeof *g->chunk.bias)) {
        return xsmi_fail_memory(err, columns * 8 + entries * 6, "the weights of a node");
    }
    for (uint32_t p = 0; p < groups; p++) {
        for (uint32_t c = 0; c < part[p].columns; c++) {
            xsmi_marks_add(&w->features.marks, part[p].feature[c]);
        }
        memcpy(g->chunk.bias + p * LANES, part[p].bias, part[p].children * sizeof *g->chunk.bias);
    }
    const uint32_t union_columns = xsmi_numbering_make(&w->features);
    for (uint32_t c = 0; c < union_columns; c++) {
        g->chunk.at[c] = 0;
    }
    for (uint32_t p = 0; p < groups; p++) {
        for (uint32_t c = 0; c < part[p].columns; c++) {
            g->chunk.at[w->features.number[part[p].feature[c]]] += part[p].start[c + 1] - part[p].start[c];
        }
    }
    uint32_t at = 0;
    for (uint32_t c = 0; c < union_columns; c++) {
        g->chunk.start[c] = at;
        at += g->chunk.at[c];
        g->chunk.at[c] = g->chunk.start[c];
    }
    g->chunk.start[union_columns] = at;
    for (uint32_t p = 0; p < groups; p++) {
        for (uint32_t c = 0; c < part[p].columns; c++) {
            uint32_t *to = &g->chunk.at[w->features.number[part[p].feature[c]]];
            for (uint32_t k = part[p].start[c]; k < part[p].start[c + 1]; k++, ++*to) {
                g->chunk.row[*to] = (uint16_t)(p * LANES + part[p].child[k]);
                g->chunk.value[*to] = part[p].value[k];
            }
        }
    }
    const xsmi_sparse_chunk chunk = {.rows = children,
                                     .columns = union_columns,
                                     .features = w->features.found,
                                     .starts = g->chunk.start,
                                     .entry_rows = g->chunk.row,
                                     .values = g->chunk.value,
                                     .bias = g->chunk.bias};
    XSMI_TRY(xsmi_sparse_builder_add(g->builder, &chunk, err));
    g->place.chunks++;
    return XSM_OK;
}

/* Keeps the scores of a node's samples. */
static xsm_status collect_samples(grower *g, xsmi_kept_scores *c, const xsmi_node_part *part, uint32_t groups,
                                  xsm_error *err)
{
    const uint32_t children = (groups - 1) * LANES + part[groups - 1].children;
    xsmi_kept_score *to;
    XSMI_TRY(xsmi_kept_scores_reserve(c, g->context, part->samples, children, &to, err));
    for (uint32_t s = 0; s < part->samples; s++) {
        const float weight = part->sample_weight[s];
        for (uint32_t k = 0; k < children; k++) {
            const xsmi_node_part *p = &part[k / LANES];
            const float z = p->score[(size_t)s * LANES + k % LANES];
            if (!isnan(z)) {
                *to++ = (xsmi_kept_score){z, p->sample_positive[s] >> k % LANES & 1 ? weight : -weight};
            }
        }
        xsmi_kept_scores_end(c, to);
    }
    return XSM_OK;
}

/* Scales the weights of the children of a node that are new, and shifts their biases. */
static void scale_node(const xsmi_layout *t, uint32_t node, xsmi_sparse *w, uint32_t chunk, float scale, float shift)
{
    float *values = (float *)(uintptr_t)w->values, *bias = (float *)(uintptr_t)w->bias;
    const uint32_t first = t->first_child[node], row = w->places[chunk].row;
    for (uint64_t k = w->places[chunk].entry; k < w->places[chunk + 1].entry; k++) {
        values[k] *= xsmi_layout_is_kept(t, first + (w->row8 ? w->row8[k] : w->row16[k])) ? 1.0f : scale;
    }
    for (uint32_t r = row; r < w->places[chunk + 1].row; r++) {
        bias[r] = xsmi_layout_is_kept(t, first + r - row) ? bias[r] : scale * bias[r] + shift;
    }
}

/* Scales the weights of each level, and shifts their biases, so that scores are those of probabilities. If no class
 * under a node has rows, all its scores are 0: its children, two or more, get equal parts of its probability, even with
 * sigmoids. With the level's shift each child might get most of it, and many such classes together more than all
 * others. */
static xsm_status calibrate(grower *g, const xsmi_class_tree *tree, xsmi_sparse *weights, xsm_error *err)
{
    const bool softmax = g->settings->calibrate == XSMI_GROW_SOFTMAX;
    float scales[2 * XSMI_TREE_DEPTH];
    for (uint32_t k = 0; k + 1 < g->layout.depth; k++) {
        const xsmi_level *l = &g->levels.level[k];
        const xsmi_calibrated c = find_scale(g, k);
        scales[2 * k] = (float)c.scale;
        scales[2 * k + 1] = (float)c.shift;
        for (uint32_t v = l->from; v < l->from + l->count; v++) {
            if (xsmi_class_tree_is_leaf(tree, v)) {
                continue;
            }
            const double siblings = (double)(tree->first_child[v + 1] - tree->first_child[v]) - 1;
            const double shift = softmax || xsmi_layout_is_seen(&g->layout, v) ? c.shift : -log(siblings);
            scale_node(&g->layout, v, weights, tree->number[v], (float)c.scale, (float)shift);
        }
    }
    return xsmi_sparse_set_scales(weights, scales, g->layout.depth - 1, err);
}

/* Divides the `count` sorted jobs among the processes, and keeps those of this process. */
static xsm_status keep_own(grower *g, size_t *count, xsm_error *err)
{
    const size_t all = *count;
    xsmi_held held = {.context = g->context};
    uint64_t *work = xsmi_hold(&held, all, sizeof *work);
    uint32_t *owner = xsmi_hold(&held, all, sizeof *owner);
    xsm_status status = xsmi_held_check(&held, "the nodes of a label tree", err);
    for (size_t i = 0; i < all && status == XSM_OK; i++) {
        work[i] = g->sorted[i].work;
    }
    status = status == XSM_OK ? xsmi_share_work(g->context, work, all, owner, err) : status;
    *count = 0;
    for (size_t i = 0; i < all && status == XSM_OK; i++) {
        const node_job job = g->sorted[i];
        for (uint32_t p = 0; p < job.count; p++) {
            g->owner[job.part + p] = owner[i];
        }
        if (owner[i] == xsmi_rank(g->context)) {
            g->sorted[(*count)++] = job;
        }
    }
    xsmi_held_release(&held);
    return status;
}

/* Trains those of the jobs first .. end-1 that are this process's. */
static xsm_status train_nodes(grower *g, size_t first, size_t end, xsm_error *err)
{
    size_t count = end - first;
    memcpy(g->sorted, g->job + first, count * sizeof *g->job);
    xsmi_heap_sort(g->sorted, count, sizeof *g->sorted, compare_jobs);
    if (g->owner) {
        XSMI_TRY(keep_own(g, &count, err));
    }
    XSMI_TRY(xsmi_run(g->context, train_node, g, count, err));
    if (atomic_load(&g->failed)) {
        return xsmi_fail_memory(err, (uint64_t)g->data->features * LANES * sizeof(float), "the rows of a node");
    }
    return xsmi_go_on(g->context, err);
}

/* Agrees on `status`, then sends what each process has trained of the jobs first .. end-1 to all others. */
static xsm_status share_nodes(grower *g, size_t first, size_t end, xsm_status status, xsm_error *err)
{
    const size_t from = g->job[first].part, count = g->job[end - 1].part + g->job[end - 1].count - from;
    XSMI_TRY(xsmi_node_parts_share(g->context, status, g->part + from, g->owner + from, count, err));
    size_t others = 0;
    for (size_t p = from; p < from + count; p++) {
        others += g->owner[p] != xsmi_rank(g->context);
    }
    xsmi_advance(g->context, others);
    return XSM_OK;
}

/* Trains the nodes of jobs first .. end-1, and appends their weights. */
static xsm_status train_window(grower *g, size_t first, size_t end, xsm_error *err)
{
    xsm_status status = train_nodes(g, first, end, err);
    status = g->owner ? share_nodes(g, first, end, status, err) : status;
    XSMI_TRY(status);
    for (size_t j = first; j < end;) {
        const uint32_t node = g->job[j].node, groups = groups_of(&g->layout, node);
        xsmi_node_part *part = &g->part[g->job[j].part - g->job[j].first];
        const xsmi_sparse_chunk *whole = NULL;
        for (; j < end && g->job[j].node == node; j++) {
        }
        XSMI_TRY(g->settings->arrivals ? keep_children(g, node, part, &whole, err) : XSM_OK);
        if (whole) {
            XSMI_TRY(xsmi_sparse_builder_add(g->builder, whole, err));
            continue;
        }
        XSMI_TRY(collect_node(g, part, groups, err));
        XSMI_TRY(collect_samples(g, &g->levels.level[g->job[j - 1].level].kept, part, groups, err));
        xsmi_levels_advance(&g->levels, g->job[j - 1].level, g->job[j - 1].node, part);
        for (uint32_t p = 0; p < groups; p++) {
            xsmi_node_part_free(&part[p], g->context);
        }
    }
    return XSM_OK;
}

/* Sets *job to the first job from `first` on that the checkpoint does not have. */
static xsm_status skip_jobs(const grower *g, size_t first, size_t *job, xsm_error *err)
{
    const xsmi_layout *t = &g->layout;
    const uint32_t from = t->level[g->place.level];
    uint32_t nodes = 0;
    for (uint32_t v = 0; v < from; v++) {
        nodes += !xsmi_layout_is_leaf(t, v);
    }
    if (g->place.jobs > g->jobs - first) {
        return xsmi_fit_checkpoint_fail(g->checkpoint, XSMI_FIT_PLACE, err);
    }
    *job = first + (size_t)g->place.jobs;
    for (size_t j = first; j < *job; j++) {
        nodes += j == first || g->job[j].node != g->job[j - 1].node;
    }
    const bool whole = *job == first || *job == g->jobs || g->job[*job].node != g->job[*job - 1].node;
    return whole && nodes == g->place.chunks ? XSM_OK : xsmi_fit_checkpoint_fail(g->checkpoint, XSMI_FIT_PLACE, err);
}

/* Writes a checkpoint if it is due, and chooses the work of the next window after one of `work`, both by the clock of
 * process 0. */
static xsm_status checkpoint(grower *g, uint64_t work, double started, xsm_error *err)
{
    const double speed = (double)work / XSMI_MAX(xsmi_seconds() - started, 1e-6);
    uint64_t next[2] = {(uint64_t)XSMI_CLAMP(speed * g->checkpoint->every / 4, 1.0, (double)WINDOW_WORK),
                        xsmi_fit_checkpoint_is_due(g->checkpoint)};
    if (g->owner) {
        XSMI_TRY(xsmi_agree(g->context, XSM_OK, err));
        XSMI_TRY(xsmi_exchange_copy(g->context, next, sizeof next, 0, err));
    }
    g->window = next[0];
    if (next[1]) {
        (void)xsmi_fit_checkpoint_save(g->checkpoint, &g->place, NULL);
    }
    return XSM_OK;
}

/* Trains the jobs from `job` on, window by window. */
static xsm_status train_jobs(grower *g, size_t first, size_t job, xsm_error *err)
{
    while (job < g->jobs) {
        const double started = xsmi_seconds();
        size_t last = job;
        uint64_t work = 0;
        for (; last < g->jobs && (work < g->window || g->job[last].node == g->job[last - 1].node); last++) {
            work += g->job[last].work;
        }
        const xsm_status status = train_window(g, job, last, err);
        if (status == XSM_CANCELLED && g->checkpoint->place) {
            (void)xsmi_fit_checkpoint_save(g->checkpoint, &g->place, NULL);
        }
        XSMI_TRY(status);
        job = last;
        g->place.jobs = job - first;
        XSMI_TRY(g->checkpoint->place ? checkpoint(g, work, started, err) : XSM_OK);
    }
    return XSM_OK;
}

/* Trains the nodes of levels first .. end-1; `resumed`: some of them are trained. */
static xsm_status train_levels(grower *g, uint32_t first, uint32_t end, bool resumed, xsm_error *err)
{
    const size_t begin = g->jobs;
    size_t job = begin;
    if (resumed) {
        xsmi_levels_swap_beams(&g->levels); /* rows are listed by the beam at the start of the level */
    }
    for (uint32_t k = first; k < end; k++) {
        XSMI_TRY(xsmi_levels_list(&g->levels, k, err));
        XSMI_TRY(xsmi_go_on(g->context, err));
        plan_level(g, k);
    }
    if (resumed) {
        xsmi_levels_swap_beams(&g->levels);
        XSMI_TRY(skip_jobs(g, begin, &job, err));
    } else {
        xsmi_levels_clear_beam(&g->levels);
        g->place.level = first;
        g->place.jobs = 0;
    }
    XSMI_TRY(train_jobs(g, begin, job, err));
    for (uint32_t k = first; k < end; k++) {
        xsmi_levels_release(&g->levels, k);
    }
    return XSM_OK;
}

static xsm_status train_all(grower *g, xsm_error *err)
{
    const uint32_t threads = xsmi_context_threads(g->context);
    g->work = xsmi_hold_zeros(&g->held, threads, sizeof *g->work);
    bool enough = g->work != NULL;
    for (uint32_t t = 0; enough && t < threads; t++) {
        enough = xsmi_node_work_new(&g->work[t], g->context, g->data->features);
    }
    if (!enough) {
        return xsmi_fail_memory(err, (uint64_t)g->data->features * 8 * threads, "the features of a node");
    }
    XSMI_TRY(xsmi_sparse_builder_new(g->context, g->data->features, true, &g->builder, err));
    XSMI_TRY(xsmi_levels_start_beam(&g->levels, err));
    g->place = (xsmi_fit_place){.levels = &g->levels, .builder = g->builder};
    g->window = !g->checkpoint->place ? WINDOW_WORK : g->checkpoint->every < 1 ? 1 : FIRST_WORK;
    XSMI_TRY(xsmi_fit_checkpoint_restore(g->checkpoint, &g->place, err));
    /* A beam needs the levels above; without one, all levels are trained together. */
    const uint32_t depth = g->layout.depth, step = g->settings->beam > 0 ? 1 : depth, begin = g->place.level;
    for (uint32_t k = begin; k < depth; k += step) {
        XSMI_TRY(train_levels(g, k, XSMI_MIN(k + step, depth), g->place.restored && k == begin, err));
    }
    return XSM_OK;
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

static xsm_status make_tree(const grower *g, xsmi_class_tree **out, xsm_error *err)
{
    const xsmi_layout *t = &g->layout;
    uint32_t *numbers;
    XSMI_TRY(xsmi_array_new(g->context, &numbers, t->nodes, sizeof *numbers, "a label tree", err));
    for (uint32_t v = 0; v < t->nodes; v++) {
        numbers[v] = xsmi_layout_is_leaf(t, v) ? XSMI_TREE_LEAF | g->label[t->order[t->start[v]]]
                                               : t->first_child[v + 1] - t->first_child[v];
    }
    xsm_status status = xsmi_class_tree_new(g->context, numbers, t->nodes, t->labels, XSMI_TREE_BY_LEVEL, out, err);
    xsmi_release(g->context, numbers, t->nodes, sizeof *numbers);
    return status == XSM_OK && !*out ? xsmi_fail(err, XSM_ERROR_LIMIT,
                                                 "a node of the label tree has more than %d children, or a label more "
                                                 "than %d steps above it; fit it anew",
                                                 XSMI_TREE_CHILDREN, XSMI_TREE_DEPTH)
                                     : status;
}

/* Finds the nodes under which no class arrives. */
static xsm_status find_idle(grower *g, xsm_error *err)
{
    const xsmi_layout *t = &g->layout;
    const xsmi_arrivals *a = g->settings->arrivals;
    g->idle = xsmi_hold(&g->held, t->nodes, sizeof *g->idle);
    XSMI_TRY(xsmi_held_check(&g->held, "the nodes of a label tree", err));
    for (uint32_t v = t->nodes; v-- > 0;) {
        g->idle[v] = !xsmi_layout_is_leaf(t, v) || a->parent[g->label[t->order[t->start[v]]]] == XSMI_NO_CLASS;
        for (uint32_t c = t->first_child[v]; c < t->first_child[v + 1]; c++) {
            g->idle[v] = g->idle[v] && g->idle[c];
        }
    }
    return XSM_OK;
}

static xsm_status prepare(grower *g, const xsmi_label_vectors *v, xsm_error *err)
{
    const xsmi_arrivals *a = g->settings->arrivals;
    g->held.context = g->context;
    g->place_of = xsmi_hold(&g->held, g->data->classes, sizeof *g->place_of);
    g->identity = g->data->sparse ? NULL : xsmi_hold(&g->held, g->data->features, sizeof *g->identity);
    g->child_of = a ? xsmi_hold(&g->held, a->old->tree->widest, sizeof *g->child_of) : NULL;
    XSMI_TRY(xsmi_held_check(&g->held, "a label tree", err));
    for (uint32_t f = 0; g->identity && f < g->data->features; f++) {
        g->identity[f] = f;
    }
    XSMI_TRY(xsmi_layout_make(&g->layout, v, &g->settings->layout, err));
    for (uint32_t p = 0; p < g->layout.labels; p++) {
        g->place_of[v->label[g->layout.order[p]]] = p;
    }
    XSMI_TRY(a ? find_idle(g, err) : XSM_OK);
    g->levels = (xsmi_levels){.context = g->context,
                              .held = {.context = g->context},
                              .data = g->data,
                              .layout = &g->layout,
                              .place = g->place_of,
                              .idle = g->idle,
                              .width = g->settings->beam,
                              .keep_start = g->checkpoint->place || g->checkpoint->file};
    XSMI_TRY(xsmi_levels_find(&g->levels, err));
    return allocate_jobs(g, err);
}

static void clear(grower *g)
{
    xsm_context *ctx = g->context;
    xsmi_levels_free(&g->levels);
    for (size_t p = 0; g->part && p < g->groups; p++) {
        xsmi_node_part_free(&g->part[p], ctx);
    }
    const uint32_t threads = xsmi_context_threads(ctx);
    for (uint32_t t = 0; g->work && t < threads; t++) {
        xsmi_node_work_free(&g->work[t]);
    }
    xsmi_sparse_builder_free(g->builder);
    xsmi_release_all(ctx, XSMI_ARRAYS(XSMI_ARRAY(g->chunk.start), XSMI_ARRAY(g->chunk.at)), &g->chunk.columns);
    xsmi_release_all(ctx, XSMI_ARRAYS(XSMI_ARRAY(g->chunk.row), XSMI_ARRAY(g->chunk.value)), &g->chunk.entries);
    xsmi_release(ctx, g->chunk.bias, g->chunk.rows, sizeof *g->chunk.bias);
    xsmi_layout_free(&g->layout);
    xsmi_held_release(&g->held);
    if (g->settings->arrivals) {
        xsmi_sparse_taken_free(&g->taken);
    }
}

xsm_status xsmi_label_grow(const xsmi_label_vectors *v, const xsm_dataset *data, const xsmi_grow_settings *settings,
                           xsmi_fit_checkpoint *checkpoint, xsmi_label_tree *out, xsmi_grow_times *times,
                           xsm_error *err)
{
    grower g = {.context = v->context,
                .data = data,
                .settings = settings,
                .label = v->label,
                .checkpoint = checkpoint,
                .taken = {.context = v->context}};
    atomic_init(&g.failed, false);
    *out = (xsmi_label_tree){NULL, NULL};
    const double started = xsmi_seconds();
    xsmi_activity activity;
    xsmi_begin(&activity, g.context, "clustering labels", "labels", 0);
    xsm_status status = xsmi_end(&activity, prepare(&g, v, err), err);
    const double prepared = xsmi_seconds();
    if (status == XSM_OK) {
        xsmi_begin(&activity, g.context, "training nodes", "groups of children", g.groups);
        status = xsmi_end(&activity, train_all(&g, err), err);
    }
    *times = (xsmi_grow_times){prepared - started, xsmi_seconds() - prepared, g.trained};
    if (status == XSM_OK) {
        status = make_tree(&g, &out->tree, err);
    }
    if (status == XSM_OK) {
        status = xsmi_sparse_builder_finish(g.builder, &out->weights, err);
    }
    if (status == XSM_OK && settings->calibrate != XSMI_GROW_PLAIN) {
        status = calibrate(&g, out->tree, out->weights, err);
    }
    clear(&g);
    if (status != XSM_OK) {
        xsmi_class_tree_release(out->tree);
        xsmi_sparse_release(out->weights);
        *out = (xsmi_label_tree){NULL, NULL};
    }
    return status;
}
