/*
 * Scores of a divided model with a hierarchy. Its rows of weights are those of nodes, which the ranks have as they
 * would have classes: each scores its nodes, and all get the scores of all, which each then converts to
 * log-probabilities of classes as one process does.
 */
#include "model/divided.h"

#include "base/activity.h"
#include "base/order.h"
#include "math/omega.h"
#include "model/tiles.h"

#include <math.h>
#include <string.h>

/* Scores of nodes that are kept at once, unless one block of rows has more. */
#define NODES_TOGETHER ((size_t)1 << 22)
/* Nodes of a row that are scored in one call. */
#define SOME 64

/* A model that converts scores of nodes: this rank's part with the classes and the tree of all. Its weights are not
 * read. */
static void view_of(const xsm_model *m, xsm_model *view)
{
    memcpy(view, m->part.own, sizeof *view);
    view->classes = m->classes;
    view->hierarchy = m->hierarchy;
}

/* The nodes of a rank: the first and the end. */
static uint32_t nodes_of(const xsm_model *m, uint32_t rank, uint32_t *end)
{
    const uint32_t ranks = xsmi_ranks(m->context), inner = m->hierarchy->inner;
    const uint32_t first = xsmi_part_start(m->classes, ranks, rank),
                   last = xsmi_part_start(m->classes, ranks, rank + 1);
    *end = XSMI_MIN(last, inner);
    return XSMI_MIN(first, inner);
}

/* -- scores of nodes ----------------------------------------------------------------------------------------------- */

xsm_status xsmi_nodes_new(const xsm_model *m, xsm_context *ctx, size_t rows, bool sparse, xsmi_nodes *n, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context), inner = m->hierarchy->inner, threads = xsmi_context_threads(ctx);
    const size_t lanes = XSMI_LANES, fit = XSMI_MAX(NODES_TOGETHER / inner / lanes * lanes, lanes);
    xsm_model view;
    view_of(m, &view);
    *n = (xsmi_nodes){.model = m, .context = ctx, .sparse = sparse, .together = XSMI_MIN(fit, rows)};
    const size_t own = xsmi_tiles_scratch(m->part.own, sparse, XSMI_TILE_BLOCKS),
                 swept = xsmi_tiles_scratch(&view, sparse, XSMI_TILE_BLOCKS),
                 hidden = xsmi_row_stride(m->features) * sizeof(float);
    n->scratch_each = XSMI_MAX(XSMI_MAX(own, swept), (hidden + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT);
    const size_t line = inner * sizeof *n->scores;
    n->scores = xsmi_allocate(ctx, n->together, line);
    n->mine = xsmi_allocate(ctx, n->together, line);
    n->all = xsmi_allocate(ctx, n->together, line);
    n->sizes = xsmi_allocate(ctx, ranks, sizeof *n->sizes);
    n->scratch = n->scratch_each < SIZE_MAX ? xsmi_allocate(ctx, threads, n->scratch_each) : NULL;
    return n->scores && n->mine && n->all && n->sizes && n->scratch
               ? XSM_OK
               : xsmi_fail_memory(err, 3 * n->together * line, "the scores of a tree's nodes");
}

void xsmi_nodes_free(xsmi_nodes *n)
{
    if (n->model) {
        const size_t line = n->model->hierarchy->inner * sizeof *n->scores;
        xsmi_release(n->context, n->scores, n->together, line);
        xsmi_release(n->context, n->mine, n->together, line);
        xsmi_release(n->context, n->all, n->together, line);
        xsmi_release(n->context, n->sizes, xsmi_ranks(n->model->context), sizeof *n->sizes);
        xsmi_release(n->context, n->scratch, xsmi_context_threads(n->context), n->scratch_each);
    }
}

typedef struct nodes_job {
    const xsmi_nodes *nodes;
    const xsmi_features *features;
    size_t rows;
    uint32_t count, each, pieces; /* this rank's nodes, and those of one of so many pieces */
} nodes_job;

/* Where tiles go. */
typedef struct tiles_to {
    const size_t *counts; /* rows of each block */
    float *out;           /* of the first row */
    size_t stride;
    uint32_t first; /* the node, or class, of column 0 */
} tiles_to;

static void copy_tile(void *state, const xsmi_tile *tile)
{
    const tiles_to *to = state;
    float *out = to->out + (tile->block * XSMI_LANES + tile->row) * to->stride + (tile->first - to->first);
    if (!tile->lanes) {
        memcpy(out, tile->scores, tile->count * sizeof *out);
        return;
    }
    for (size_t l = 0; l < to->counts[tile->block]; l++, out += to->stride) {
        for (size_t c = 0; c < tile->count; c++) {
            out[c] = tile->scores[c * XSMI_LANES + l];
        }
    }
}

/* Divides up to XSMI_TILE_ROWS rows into blocks; returns how many. */
static size_t count_blocks(size_t rows, size_t *counts)
{
    for (size_t b = 0; b < XSMI_TILE_BLOCKS; b++) {
        counts[b] = rows > b * XSMI_LANES ? XSMI_MIN(rows - b * XSMI_LANES, (size_t)XSMI_LANES) : 0;
    }
    return (rows + XSMI_LANES - 1) / XSMI_LANES;
}

static uint32_t piece_end(const nodes_job *job, uint32_t from)
{
    const uint32_t rest = job->count - from;
    return from + XSMI_MIN(rest, job->each);
}

static void score_tiles(void *state, size_t index, uint32_t thread)
{
    const nodes_job *job = state;
    const xsmi_nodes *n = job->nodes;
    const size_t first = index / job->pieces * XSMI_TILE_ROWS, rest = job->rows - first;
    const uint32_t from = (uint32_t)(index % job->pieces) * job->each;
    size_t counts[XSMI_TILE_BLOCKS];
    const size_t blocks = count_blocks(XSMI_MIN(rest, (size_t)XSMI_TILE_ROWS), counts);
    const xsmi_tile_rows rows = {job->features + first, counts, blocks, n->sparse};
    tiles_to to = {counts, n->mine + first * job->count, job->count, 0};
    const xsmi_tile_call call = {n->model->part.own, &rows, from,       piece_end(job, from),
                                 copy_tile,          &to,   n->context, true};
    xsmi_tiles_score(&call, n->scratch + thread * n->scratch_each);
}

/* The same by dot products, as chosen classes are scored. */
static void score_products(void *state, size_t index, uint32_t thread)
{
    const nodes_job *job = state;
    const xsmi_nodes *n = job->nodes;
    const xsm_model *own = n->model->part.own;
    const size_t row = index / job->pieces;
    const uint32_t from = (uint32_t)(index % job->pieces) * job->each, end = piece_end(job, from);
    float *hidden = (float *)(void *)(n->scratch + thread * n->scratch_each);
    const xsmi_features input = xsmi_model_forward(n->model, &job->features[row], hidden);
    for (uint32_t first = from, some; first < end && !xsmi_poll(n->context); first += some) {
        uint32_t list[SOME];
        some = XSMI_MIN(end - first, SOME);
        for (uint32_t i = 0; i < some; i++) {
            list[i] = first + i;
        }
        xsmi_weights_score(&own->w, &input, list, some, own->w.alpha, n->mine + row * job->count + first, NULL);
    }
}

/* Scores this rank's nodes. */
static xsm_status score_mine(const xsmi_nodes *n, const xsmi_features *features, size_t rows, bool products,
                             xsm_error *err)
{
    const uint32_t threads = xsmi_context_threads(n->context);
    uint32_t end, first = nodes_of(n->model, xsmi_rank(n->model->context), &end);
    const size_t groups = products ? rows : (rows + XSMI_TILE_ROWS - 1) / XSMI_TILE_ROWS;
    nodes_job job = {.nodes = n, .features = features, .rows = rows, .count = end - first, .pieces = 1};
    if (job.count == 0) {
        return XSM_OK; /* its one row of weights is not used */
    }
    const uint32_t runs = xsmi_runs_of(job.count), wanted = groups < threads ? XSMI_MIN(threads, runs) : 1;
    job.each = (runs + wanted - 1) / wanted * XSMI_RUN_CLASSES;
    job.pieces = (job.count + job.each - 1) / job.each;
    const xsm_status status =
        xsmi_run(n->context, products ? score_products : score_tiles, &job, groups * job.pieces, err);
    return status == XSM_OK && xsmi_is_cancelled(n->context) ? xsmi_fail_cancelled(n->context, err) : status;
}

xsm_status xsmi_nodes_score(const xsmi_nodes *n, const xsmi_features *features, size_t rows, bool products,
                            xsm_status status, xsm_error *err)
{
    const xsm_model *m = n->model;
    const size_t inner = m->hierarchy->inner;
    status = status == XSM_OK ? score_mine(n, features, rows, products, err) : status;
    XSMI_TRY(xsmi_agree(m->context, status, err));
    for (uint32_t r = 0; r < xsmi_ranks(m->context); r++) {
        uint32_t end, first = nodes_of(m, r, &end);
        n->sizes[r] = rows * (end - first) * sizeof *n->all;
    }
    XSMI_TRY(xsmi_exchange_blocks(m->context, n->mine, n->all, n->sizes, err));
    const float *from = n->all;
    for (uint32_t r = 0; r < xsmi_ranks(m->context); r++) {
        uint32_t end, first = nodes_of(m, r, &end);
        for (size_t i = 0; i < rows; i++, from += end - first) {
            memcpy(n->scores + i * inner + first, from, (end - first) * sizeof *from);
        }
    }
    return XSM_OK;
}

void xsmi_nodes_tiles(const xsmi_nodes *n, const xsmi_nodes_range *range, uint32_t thread)
{
    const size_t inner = n->model->hierarchy->inner;
    size_t counts[XSMI_TILE_BLOCKS];
    const size_t blocks = count_blocks(range->rows, counts);
    const xsmi_tile_rows rows = {range->features, counts, blocks, n->sparse};
    xsmi_node_scores scores = {.stride = inner};
    for (size_t b = 0; b < blocks; b++) {
        scores.of[b] = n->scores + (range->row + b * XSMI_LANES) * inner;
    }
    xsm_model view;
    view_of(n->model, &view);
    const xsmi_tile_call call = {&view,          &rows,        range->first, range->end,
                                 range->consume, range->state, n->context,   true};
    xsmi_tiles_sweep(&call, &scores, n->scratch + thread * n->scratch_each);
}

/* -- all classes --------------------------------------------------------------------------------------------------- */

typedef struct sweep_job {
    const xsmi_nodes *nodes;
    const xsm_model *view;
    const xsmi_score_all *all;
    size_t first, rows, each; /* rows of `all`, and of one job */
    unsigned char *scratch;
    size_t scratch_each;
} sweep_job;

static void sweep_some(void *state, size_t index, uint32_t thread)
{
    const sweep_job *job = state;
    const size_t at = index * job->each, first = job->first + at, inner = job->nodes->model->hierarchy->inner;
    xsmi_score_all some = *job->all;
    some.rows = XSMI_MIN(job->rows - at, job->each);
    some.features += first;
    some.target = some.target ? some.target + first : NULL;
    some.filters = some.filters ? some.filters + first : NULL;
    some.nodes = job->nodes->scores + at * inner;
    some.node_stride = inner;
    some.log_sum_exp += first;
    some.target_score += first;
    some.top_score += first * some.top;
    some.top_class += first * some.top;
    xsmi_model_score_rows(job->view, &some, job->scratch + thread * job->scratch_each, job->nodes->context);
}

xsm_status xsmi_nodes_score_rows(const xsm_model *m, const xsmi_score_all *all, xsm_context *ctx, xsm_error *err)
{
    const size_t threads = xsmi_context_threads(ctx);
    xsm_model view;
    xsmi_nodes n;
    view_of(m, &view);
    xsm_status status = xsmi_nodes_new(m, ctx, all->rows, all->sparse, &n, err);
    const size_t blocks = (n.together + XSMI_LANES - 1) / XSMI_LANES, wanted = (blocks + threads - 1) / threads;
    const size_t each = XSMI_MIN(wanted, (size_t)XSMI_TILE_BLOCKS);
    sweep_job job = {.nodes = &n, .view = &view, .all = all, .each = each * XSMI_LANES};
    job.scratch_each = xsmi_model_score_all_scratch(&view, all->sparse, each, all->top);
    if (status == XSM_OK) {
        job.scratch = job.scratch_each < SIZE_MAX ? xsmi_allocate(ctx, threads, job.scratch_each) : NULL;
        status = job.scratch ? XSM_OK
                             : xsmi_fail_memory(err, threads * job.scratch_each, "scratch of scoring, for each thread");
    }
    do {
        job.rows = XSMI_MIN(all->rows - job.first, n.together);
        status = xsmi_nodes_score(&n, all->features + job.first, job.rows, false, status, err);
        if (status == XSM_OK) {
            status = xsmi_run(ctx, sweep_some, &job, (job.rows + job.each - 1) / job.each, err);
            status = status == XSM_OK && xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : status;
            status = xsmi_agree(m->context, status, err);
        }
        job.first += job.rows;
    } while (status == XSM_OK && job.first < all->rows);
    xsmi_release(ctx, job.scratch, threads, job.scratch_each);
    xsmi_nodes_free(&n);
    return status;
}

/* -- a range of classes -------------------------------------------------------------------------------------------- */

typedef struct range_job {
    const xsmi_nodes *nodes;
    const xsmi_score_range *range;
    const xsmi_features *features; /* of the rows from `first` on */
    size_t first, rows;
} range_job;

static void sweep_range(void *state, size_t index, uint32_t thread)
{
    const range_job *job = state;
    const xsmi_score_range *range = job->range;
    const size_t at = index * XSMI_TILE_ROWS, rest = job->rows - at, rows = XSMI_MIN(rest, (size_t)XSMI_TILE_ROWS);
    size_t counts[XSMI_TILE_BLOCKS];
    (void)count_blocks(rows, counts);
    tiles_to to = {counts, range->scores + (job->first + at) * range->stride, range->stride, range->first};
    xsmi_nodes_tiles(job->nodes,
                     &(xsmi_nodes_range){.features = job->features + at,
                                         .row = at,
                                         .rows = rows,
                                         .first = range->first,
                                         .end = range->first + range->count,
                                         .consume = copy_tile,
                                         .state = &to},
                     thread);
}

xsm_status xsmi_nodes_score_range(const xsm_model *m, const xsmi_score_range *range, xsm_error *err)
{
    xsm_context *ctx = m->context;
    const size_t rows = (size_t)range->batch->count;
    xsmi_nodes n;
    xsm_status status = xsmi_nodes_new(m, ctx, rows, xsmi_batch_sparse(range->batch), &n, err);
    xsmi_features *features = xsmi_allocate(ctx, n.together, sizeof *features);
    if (status == XSM_OK && !features) {
        status = xsmi_fail_memory(err, n.together * sizeof *features, "a batch");
    }
    range_job job = {.nodes = &n, .range = range, .features = features};
    do {
        job.rows = XSMI_MIN(rows - job.first, n.together);
        for (size_t i = 0; i < job.rows && status == XSM_OK; i++) {
            features[i] = xsmi_batch_features(range->batch, job.first + i);
        }
        status = xsmi_nodes_score(&n, features, job.rows, false, status, err);
        if (status == XSM_OK) {
            status = xsmi_run(ctx, sweep_range, &job, (job.rows + XSMI_TILE_ROWS - 1) / XSMI_TILE_ROWS, err);
            status = xsmi_agree(ctx, status, err);
        }
        job.first += job.rows;
    } while (status == XSM_OK && job.first < rows);
    xsmi_release(ctx, features, n.together, sizeof *features);
    xsmi_nodes_free(&n);
    return status;
}

/* -- chosen classes ------------------------------------------------------------------------------------------------ */

/* Nodes on the paths of some classes. */
typedef struct paths {
    const xsm_model *model;
    const xsmi_chosen_rows *chosen;
    size_t first, end; /* classes, of all rows */
    size_t *starts;    /* [classes + 1] the first node of each, of all */
    size_t *row_of;    /* [classes] */
    size_t *sizes, *next;
    float *z, *mine, *all; /* [most] of nodes */
    size_t most;
    float *hidden; /* [threads][stride] */
    size_t stride;
} paths;

static uint32_t path_length(const xsmi_class_tree *h, uint32_t class)
{
    uint32_t count = 0;
    for (uint32_t v = class < h->classes ? h->class_leaf[class] : 0; v != 0; v = h->parent[v]) {
        count++;
    }
    return count;
}

static xsm_status paths_new(paths *p, xsm_error *err)
{
    const xsm_model *m = p->model;
    const xsmi_chosen_rows *c = p->chosen;
    xsm_context *ctx = m->context;
    const size_t count = c->starts[c->rows];
    p->starts = xsmi_allocate(ctx, count + 1, sizeof *p->starts);
    p->row_of = xsmi_allocate(ctx, count, sizeof *p->row_of);
    if (!p->starts || !p->row_of) {
        return xsmi_fail_memory(err, 2 * count * sizeof *p->starts, "the paths of classes");
    }
    size_t longest = 1;
    p->starts[0] = 0;
    for (size_t i = 0; i < c->rows; i++) {
        for (size_t j = c->starts[i]; j < c->starts[i + 1]; j++) {
            const size_t length = path_length(m->hierarchy, c->classes[j]);
            p->row_of[j] = i;
            p->starts[j + 1] = p->starts[j] + length;
            longest = XSMI_MAX(length, longest);
        }
    }
    const size_t all = XSMI_MAX(p->starts[count], 1), together = XSMI_MAX(NODES_TOGETHER, longest);
    const uint32_t ranks = xsmi_ranks(ctx);
    p->most = XSMI_MIN(all, together);
    p->stride = m->layer ? xsmi_row_stride(m->features) : 1;
    p->sizes = xsmi_allocate(ctx, ranks, sizeof *p->sizes);
    p->next = xsmi_allocate(ctx, ranks, sizeof *p->next);
    p->z = xsmi_allocate(ctx, p->most, sizeof *p->z);
    p->mine = xsmi_allocate(ctx, p->most, sizeof *p->mine);
    p->all = xsmi_allocate(ctx, p->most, sizeof *p->all);
    p->hidden = xsmi_allocate(ctx, xsmi_context_threads(ctx), p->stride * sizeof *p->hidden);
    return p->sizes && p->next && p->z && p->mine && p->all && p->hidden
               ? XSM_OK
               : xsmi_fail_memory(err, 3 * p->most * sizeof *p->z, "the scores of a tree's nodes");
}

static void paths_free(paths *p)
{
    xsm_context *ctx = p->model->context;
    const size_t count = p->chosen->starts[p->chosen->rows];
    const uint32_t ranks = xsmi_ranks(ctx);
    xsmi_release(ctx, p->starts, count + 1, sizeof *p->starts);
    xsmi_release(ctx, p->row_of, count, sizeof *p->row_of);
    xsmi_release(ctx, p->sizes, ranks, sizeof *p->sizes);
    xsmi_release(ctx, p->next, ranks, sizeof *p->next);
    xsmi_release(ctx, p->z, p->most, sizeof *p->z);
    xsmi_release(ctx, p->mine, p->most, sizeof *p->mine);
    xsmi_release(ctx, p->all, p->most, sizeof *p->all);
    xsmi_release(ctx, p->hidden, xsmi_context_threads(ctx), p->stride * sizeof *p->hidden);
}

/* Classes of one job. */
#define JOB_CLASSES 64

/* Scores those nodes on the paths of some classes that this rank has. */
static void score_paths(void *state, size_t index, uint32_t thread)
{
    const paths *p = state;
    const xsm_model *m = p->model, *own = m->part.own;
    const xsmi_class_tree *h = m->hierarchy;
    const size_t first = p->first + index * JOB_CLASSES, rest = p->end - first;
    size_t row = SIZE_MAX;
    xsmi_features input = {NULL, NULL, 0};
    for (size_t j = first; j < first + XSMI_MIN(rest, (size_t)JOB_CLASSES) && !xsmi_poll(m->context); j++) {
        if (p->row_of[j] != row) {
            row = p->row_of[j];
            input = xsmi_model_forward(m, &p->chosen->features[row], p->hidden + thread * p->stride);
        }
        float *z = p->z + (p->starts[j] - p->starts[p->first]);
        uint32_t v = p->starts[j + 1] > p->starts[j] ? h->class_leaf[p->chosen->classes[j]] : 0;
        for (; v != 0; v = h->parent[v], z++) {
            const uint32_t node = h->number[h->parent[v]] - m->part.first;
            if (node < own->classes) {
                xsmi_weights_score(&own->w, &input, &node, 1, own->w.alpha, z, NULL);
            }
        }
    }
}

/* The rank of each node of a path in turn, from the class on. */
static uint32_t next_rank(const xsm_model *m, uint32_t *v)
{
    const xsmi_class_tree *h = m->hierarchy;
    *v = h->parent[*v];
    return xsmi_part_of(m->classes, xsmi_ranks(m->context), h->number[*v]);
}

/* Gives all ranks the scores, and adds up each path from the class to the root, as one process does. */
static xsm_status add_paths(paths *p, float *scores, xsm_error *err)
{
    const xsm_model *m = p->model;
    const xsmi_class_tree *h = m->hierarchy;
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_rank(m->context);
    memset(p->sizes, 0, ranks * sizeof *p->sizes);
    size_t kept = 0, at = 0;
    for (size_t j = p->first; j < p->end; j++) {
        uint32_t v = p->starts[j + 1] > p->starts[j] ? h->class_leaf[p->chosen->classes[j]] : 0;
        for (; v != 0; at++) {
            const uint32_t r = next_rank(m, &v);
            p->sizes[r] += sizeof *p->all;
            if (r == rank) {
                p->mine[kept++] = p->z[at];
            }
        }
    }
    XSMI_TRY(xsmi_exchange_blocks(m->context, p->mine, p->all, p->sizes, err));
    at = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        p->next[r] = at;
        at += p->sizes[r] / sizeof *p->all;
    }
    for (size_t j = p->first; j < p->end; j++) {
        double sum = 0;
        uint32_t v = p->starts[j + 1] > p->starts[j] ? h->class_leaf[p->chosen->classes[j]] : 0;
        const bool known = v != 0;
        while (v != 0) {
            const double sign = xsmi_hierarchy_turn(v) ? 1 : -1;
            sum -= xsmi_softplus(-sign * (double)p->all[p->next[next_rank(m, &v)]++]);
        }
        scores[j] = known ? (float)sum : -INFINITY;
    }
    return XSM_OK;
}

xsm_status xsmi_nodes_score_chosen(const xsm_model *m, const xsmi_chosen_rows *chosen, float *scores, xsm_error *err)
{
    const size_t count = chosen->starts[chosen->rows];
    paths p = {.model = m, .chosen = chosen};
    xsm_status status = xsmi_agree(m->context, paths_new(&p, err), err);
    while (status == XSM_OK && p.end < count) {
        p.first = p.end;
        for (p.end++; p.end < count && p.starts[p.end + 1] - p.starts[p.first] <= p.most; p.end++) {
        }
        status = xsmi_run(m->context, score_paths, &p, (p.end - p.first + JOB_CLASSES - 1) / JOB_CLASSES, err);
        status = xsmi_agree(m->context, status, err);
        status = status == XSM_OK ? add_paths(&p, scores, err) : status;
    }
    paths_free(&p);
    return status;
}
