/*
 * Scores of chosen classes, and of a range of classes.
 *
 * The score of a chosen class is one dot product: it has the same bits whatever other classes are scored.
 */
#include "model/score.h"
#include "model/tiles.h"
#include "math/omega.h"
#include "base/activity.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* Rows of one job, so that a job takes much longer than starting it. */
#define JOB_ROWS 32
/* Classes of a row that are scored between two polls. */
#define POLL_CLASSES 4096

/* -- chosen classes ------------------------------------------------------------------------------------------------ */

/* Nodes of a path that are scored in one call. */
#define PATH_NODES 64

/* log p of classes in a hierarchy, each the sum over its path. O(D) a node. */
static void score_paths(const xsm_model *m, const xsmi_class_tree *h, const xsmi_features *x, const uint32_t *classes,
                        size_t count, float *scores)
{
    for (size_t j = 0; j < count; j++) {
        double sum = 0;
        for (uint32_t v = h->class_leaf[classes[j]]; v != 0;) {
            uint32_t nodes[PATH_NODES], some = 0;
            float z[PATH_NODES];
            double sign[PATH_NODES];
            for (; v != 0 && some < PATH_NODES; some++, v = h->parent[v]) {
                nodes[some] = h->number[h->parent[v]];
                sign[some] = xsmi_hierarchy_turn(v) ? 1 : -1;
            }
            xsmi_weights_score(&m->w, x, nodes, some, m->w.alpha, z, NULL);
            for (uint32_t i = 0; i < some; i++) {
                sum -= xsmi_softplus(-sign[i] * (double)z[i]);
            }
        }
        scores[j] = (float)sum;
    }
}

void xsmi_model_chosen_scores(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                              float *scores, float *scratch)
{
    if (m->trees) {
        xsmi_label_chosen(m->trees, &row->x, classes, count, scores, scratch);
        return;
    }
    if (m->hierarchy) {
        score_paths(m, m->hierarchy, &row->input, classes, count, scores);
        return;
    }
    xsmi_weights_score(&m->w, &row->input, classes, count, m->w.alpha, scores, NULL);
    if (m->correction) {
        m->correction->kind->chosen(m->correction, &row->x, classes, count, scores, scratch);
    }
}

typedef struct scores_job {
    const xsm_model *model;
    const xsm_batch *batch;
    const uint32_t *classes;
    size_t count;
    float *scores;
    float *scratch; /* [threads][each]: the correction's code, then a hidden vector; or NULL */
    size_t code, each;
} scores_job;

static void score_rows(void *state, size_t index, uint32_t thread)
{
    const scores_job *job = state;
    const xsm_model *m = job->model;
    uint64_t first = (uint64_t)index * JOB_ROWS;
    uint64_t end = job->batch->count - first < JOB_ROWS ? job->batch->count : first + JOB_ROWS;
    float *code = job->scratch ? job->scratch + thread * job->each : NULL;
    float *hidden = job->scratch ? code + job->code : NULL;
    for (uint64_t i = first; i < end; i++) {
        const xsmi_features x = xsmi_batch_features(job->batch, (size_t)i);
        const xsmi_model_row row = {x, xsmi_model_forward(m, &x, hidden)};
        const uint32_t *classes = job->classes + i * job->count;
        float *scores = job->scores + i * job->count;
        for (size_t c = 0, some; c < job->count; c += some) {
            some = XSMI_MIN(job->count - c, POLL_CLASSES);
            if (some == POLL_CLASSES && xsmi_poll(m->context)) {
                return;
            }
            xsmi_model_chosen_scores(m, &row, classes + c, some, scores + c, code);
        }
    }
}

xsm_status xsmi_model_batch_scores(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                                   float *scores, xsm_error *err)
{
    const size_t threads = xsmi_context_threads(m->context), hidden = m->layer ? m->features : 0;
    const size_t code = xsmi_model_chosen_scratch(m), each = code + hidden;
    scores_job job = {m, batch, classes, count, scores, NULL, code, each};
    if (each > 0) {
        job.scratch = xsmi_allocate(m->context, threads, each * sizeof *job.scratch);
        if (!job.scratch) {
            return xsmi_fail_memory(err, threads * each * sizeof *job.scratch, "scratch of scoring");
        }
    }
    xsm_status status = xsmi_run(m->context, score_rows, &job, (size_t)((batch->count + JOB_ROWS - 1) / JOB_ROWS), err);
    xsmi_release(m->context, job.scratch, threads, each * sizeof *job.scratch);
    return status;
}

/* -- ranges of classes --------------------------------------------------------------------------------------------- */

/* The least multiplications for which waking a thread pays off. */
#define WAKING_WORK 2e5
/* Ranges of classes for each thread, so that no thread waits long for another. */
#define PIECES_A_THREAD 4

typedef struct range_job {
    const xsm_model *model;
    const xsmi_score_range *range;
    uint32_t pieces, each;  /* the classes are divided into so many ranges, each a job */
    unsigned char *scratch; /* one part per thread */
    size_t scratch_each;
} range_job;

typedef struct range_group {
    const xsmi_score_range *range;
    size_t row; /* of the batch, the group's first */
    const size_t *counts;
} range_group;

static void copy_tile(void *state, const xsmi_tile *tile)
{
    const range_group *group = state;
    const xsmi_score_range *range = group->range;
    size_t row = group->row + tile->block * XSMI_LANES + tile->row;
    float *out = range->scores + row * range->stride + (tile->first - range->first);
    if (!tile->lanes) {
        memcpy(out, tile->scores, tile->count * sizeof *out);
        return;
    }
    for (size_t l = 0; l < group->counts[tile->block]; l++, out += range->stride) {
        for (size_t c = 0; c < tile->count; c++) {
            out[c] = tile->scores[c * XSMI_LANES + l];
        }
    }
}

static void score_group(void *state, size_t index, uint32_t thread)
{
    const range_job *job = state;
    const xsmi_score_range *range = job->range;
    size_t first = index / job->pieces * XSMI_TILE_ROWS;
    uint32_t class = range->first + (uint32_t)(index % job->pieces) * job->each, end = range->first + range->count;
    size_t left = (size_t)range->batch->count - first;
    size_t count = XSMI_MIN(left, XSMI_TILE_ROWS);
    xsmi_features features[XSMI_TILE_ROWS];
    size_t counts[XSMI_TILE_BLOCKS] = {0};
    for (size_t i = 0; i < count; i++) {
        features[i] = xsmi_batch_features(range->batch, first + i);
        counts[i / XSMI_LANES]++;
    }
    xsmi_tile_rows rows = {features, counts, (count + XSMI_LANES - 1) / XSMI_LANES, xsmi_batch_sparse(range->batch)};
    range_group group = {range, first, counts};
    end = end - class < job->each ? end : class + job->each;
    const xsmi_tile_call call = {job->model, &rows, class, end, copy_tile, &group, job->model->context, true};
    xsmi_tiles_score(&call, job->scratch + thread * job->scratch_each);
}

/* Divides the classes where there are too few rows to keep the threads busy. */
static void cut_classes(range_job *job, bool plain, size_t groups)
{
    const xsm_model *m = job->model;
    const xsmi_score_range *range = job->range;
    const bool sparse = xsmi_batch_sparse(range->batch);
    const uint32_t unit = xsmi_tiles_packed(m, sparse) ? XSMI_CLASS_TILE : XSMI_ROW_TILE;
    const uint32_t units = (range->count + unit - 1) / unit, threads = xsmi_context_threads(m->context);
    const bool too_few = plain && groups < threads;
    const double work = too_few ? (double)xsmi_batch_entries(range->batch) * (double)range->count : 0;
    const uint32_t wanted = work > WAKING_WORK ? threads * PIECES_A_THREAD : 1;
    job->each = (units + wanted - 1) / wanted * unit;
    job->pieces = (range->count + job->each - 1) / job->each;
}

void xsmi_score_scratch_free(xsm_context *ctx, xsmi_score_scratch *scratch)
{
    xsmi_release(ctx, scratch->used, scratch->used_capacity, sizeof *scratch->used);
    xsmi_release(ctx, scratch->numbers, scratch->number_capacity, sizeof *scratch->numbers);
    xsmi_release(ctx, scratch->compact, scratch->compact_capacity, sizeof *scratch->compact);
    xsmi_release(ctx, scratch->tiles, scratch->tile_capacity, 1);
    *scratch = (xsmi_score_scratch){.used = NULL};
}

xsm_status xsmi_model_score_range(const xsm_model *m, const xsmi_score_range *range, xsm_context *ctx,
                                  xsmi_score_scratch *scratch, xsm_error *err)
{
    const bool sparse = xsmi_batch_sparse(range->batch),
               plain = xsmi_model_is_plain(m) && !m->layer && m->w.layout != XSM_LAYOUT_SPARSE_ROWS;
    if (sparse && plain && m->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
        bool done;
        xsm_status status = xsmi_columns_score(m, range, ctx, scratch, &done, err);
        if (status != XSM_OK || done) {
            return status;
        }
    }
    const size_t rows = (size_t)range->batch->count, groups = (rows + XSMI_TILE_ROWS - 1) / XSMI_TILE_ROWS;
    const size_t blocks = rows < XSMI_TILE_ROWS ? (rows + XSMI_LANES - 1) / XSMI_LANES : XSMI_TILE_BLOCKS;
    range_job job = {.model = m, .range = range};
    cut_classes(&job, plain, groups);
    const size_t jobs = groups * job.pieces, threads = jobs > 1 ? xsmi_context_threads(m->context) : 1;
    job.scratch_each = xsmi_tiles_scratch(m, sparse, blocks);
    size_t bytes;
    if (!xsmi_multiply(threads, job.scratch_each, &bytes) ||
        !xsmi_reserve(ctx, &scratch->tiles, &scratch->tile_capacity, bytes, 1)) {
        return xsmi_fail_memory(err, job.scratch_each, "scratch of scoring, for each thread");
    }
    job.scratch = scratch->tiles;
    return xsmi_run(m->context, score_group, &job, jobs, err);
}
