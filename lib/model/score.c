/*
 * Scores of chosen classes, and of a range of classes.
 *
 * The score of a chosen class is one dot product: it has the same bits whatever other classes are scored.
 */
#include "model/model.h"
#include "model/tiles.h"
#include "math/omega.h"

#include <math.h>
#include <string.h>

/* Rows of one job, so that a job takes much longer than starting it. */
#define JOB_ROWS 32

xsm_status xsmi_model_read_batch(const xsm_model *m, const xsm_batch *given, xsm_batch *batch, xsm_error *err)
{
    return xsmi_batch_read(given, "a model", xsmi_model_input(m), batch, err);
}

/* The same for sparse rows. */
static xsm_status check_sparse_values(const xsm_batch *batch, uint32_t features, xsm_error *err)
{
    if (!batch->index) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_batch.index is NULL, with offsets");
    }
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->offsets[i + 1] < batch->offsets[i] || batch->offsets[i + 1] > SIZE_MAX / sizeof(float)) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_batch.offsets: row %zu (from 0) ends before it begins", i);
        }
        for (uint64_t j = batch->offsets[i]; j < batch->offsets[i + 1]; j++) {
            if (batch->index[j] >= features || (j > batch->offsets[i] && batch->index[j] <= batch->index[j - 1])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "xsm_batch.index[%llu] in row %zu (from 0) is %u; a row's rise and are below %u",
                                 (unsigned long long)j, i, batch->index[j], features);
            }
            if (!isfinite(batch->values[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "xsm_batch.values: row %zu, feature %u (both from 0) is not finite; finite values are "
                                 "accepted",
                                 i, batch->index[j]);
            }
        }
    }
    return XSM_OK;
}

/* A host's own features, without its dataset. */
static xsm_status check_values(const xsm_batch *batch, const char *what, uint32_t features, xsm_error *err)
{
    if (batch->features != features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "xsm_batch.values has %u features, for %s of %u", batch->features, what,
                         features);
    }
    if (batch->offsets) {
        return check_sparse_values(batch, features, err);
    }
    if (batch->stride < features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "xsm_batch.values has rows %zu floats apart for %u features",
                         batch->stride, features);
    }
    size_t floats;
    if (!xsmi_multiply((size_t)batch->count, batch->stride, &floats) || floats > SIZE_MAX / sizeof(float)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu rows of %zu floats are more than can be addressed",
                         (unsigned long long)batch->count, batch->stride);
    }
    for (size_t i = 0; i < batch->count; i++) {
        const float *row = batch->values + i * batch->stride;
        for (uint32_t j = 0; j < features; j++) {
            if (!isfinite(row[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "xsm_batch.values: row %zu, feature %u (both from 0) is not finite; finite values are "
                                 "accepted",
                                 i, j);
            }
        }
    }
    return XSM_OK;
}

xsm_status xsmi_batch_read(const xsm_batch *given, const char *what, uint32_t features, xsm_batch *batch,
                           xsm_error *err)
{
    if (!given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "batch is NULL");
    }
    memset(batch, 0, sizeof *batch);
    XSMI_TRY(xsmi_options_read(batch, sizeof *batch, offsetof(xsm_batch, values), given, "xsm_batch", err));
    const xsm_dataset *dataset = batch->dataset;
    if (!dataset && !batch->values) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_batch.dataset is NULL, and there are no values");
    }
    if (batch->count == 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the batch has no rows");
    }
    if (batch->reserved != 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_batch.reserved is %u; it must be 0", batch->reserved);
    }
    if (batch->values) {
        XSMI_TRY(check_values(batch, what, features, err));
    } else if (dataset->features != features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "rows of %u features for %s of %u", dataset->features, what, features);
    }
    if (!dataset) {
        return XSM_OK;
    }
    if (!batch->rows) {
        if (batch->first > dataset->rows || batch->count > dataset->rows - batch->first) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "a batch of %llu rows from row %llu on; the dataset has %llu",
                             (unsigned long long)batch->count, (unsigned long long)batch->first,
                             (unsigned long long)dataset->rows);
        }
        return XSM_OK;
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        if (batch->rows[i] >= dataset->rows) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "row %llu at place %llu of the batch; the dataset has %llu",
                             (unsigned long long)batch->rows[i], (unsigned long long)i,
                             (unsigned long long)dataset->rows);
        }
    }
    return XSM_OK;
}

/* -- chosen classes ------------------------------------------------------------------------------------------------ */

void xsmi_model_score_classes(const xsm_model *m, const xsmi_features *x, const uint32_t *classes, size_t count,
                              double alpha, float *scores, const xsmi_coming *coming)
{
    if (m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        for (size_t j = 0; j < count; j++) {
            /* A column, whose sum has the same order, and so the same bits, as in a tile. */
            scores[j] = 0.0f;
            m->kernels->column_sums(m->weight + classes[j], m->stride, x->index, x->values, x->count, 1, &scores[j]);
        }
    } else if (x->index) {
        m->kernels->sparse_gather_scores(m->weight, m->stride, classes, count, x->index, x->values, x->count, scores);
    } else {
        m->kernels->gather_scores(m->weight, m->stride, classes, count, x->values, x->count, scores, coming);
    }
    float scale = (float)alpha;
    for (size_t j = 0; j < count; j++) {
        float s = m->row_scale ? (float)(alpha * m->row_scale[classes[j]]) : scale;
        scores[j] *= s;
        if (m->bias) {
            scores[j] += m->bias[classes[j]];
        }
    }
}

/* Nodes of a path that are scored together. */
#define PATH_NODES 64

/* log p of classes in a hierarchy, each the sum over its path. O(D) a node. */
static void score_paths(const xsm_model *m, const xsmi_hierarchy *h, const xsmi_features *x, const uint32_t *classes,
                        size_t count, float *scores)
{
    for (size_t j = 0; j < count; j++) {
        double sum = 0;
        uint32_t at = h->above_class[classes[j]];
        for (bool more = true; more;) {
            uint32_t nodes[PATH_NODES], some = 0;
            float z[PATH_NODES];
            double sign[PATH_NODES];
            for (; more && some < PATH_NODES; some++) {
                nodes[some] = at / 2;
                sign[some] = at & 1 ? 1 : -1;
                more = nodes[some] != 0;
                at = more ? h->above[nodes[some]] : 0;
            }
            xsmi_model_score_classes(m, x, nodes, some, m->alpha, z, NULL);
            for (uint32_t i = 0; i < some; i++) {
                sum -= xsmi_softplus(-sign[i] * (double)z[i]);
            }
        }
        scores[j] = (float)sum;
    }
}

void xsmi_model_chosen_scores(const xsm_model *m, const xsmi_features *x, const xsmi_features *seen,
                              const uint32_t *classes, size_t count, float *scores, float *scratch)
{
    const xsmi_hierarchy *h = xsmi_correction_hierarchy(m->correction);
    if (h) {
        score_paths(m, h, seen, classes, count, scores);
        return;
    }
    xsmi_model_score_classes(m, seen, classes, count, m->alpha, scores, NULL);
    if (m->correction) {
        xsmi_correction_add(m->correction, x, classes, count, scores, scratch);
    }
}

typedef struct scores_job {
    const xsm_model *model;
    const xsm_batch *batch;
    const uint32_t *classes;
    size_t count;
    float *scores;
    float *codes; /* [threads][code], for the correction */
    size_t code;
    float *hidden; /* [threads][features], for a first layer */
} scores_job;

static void score_rows(void *state, size_t index, uint32_t thread)
{
    const scores_job *job = state;
    const xsm_model *m = job->model;
    uint64_t first = (uint64_t)index * JOB_ROWS;
    uint64_t end = job->batch->count - first < JOB_ROWS ? job->batch->count : first + JOB_ROWS;
    float *hidden = job->hidden ? job->hidden + thread * (size_t)m->features : NULL;
    float *codes = job->codes ? job->codes + thread * job->code : NULL;
    for (uint64_t i = first; i < end; i++) {
        xsmi_features x = xsmi_batch_features(job->batch, (size_t)i);
        xsmi_features seen = xsmi_model_seen(m, &x, hidden);
        const uint32_t *classes = job->classes + i * job->count;
        xsmi_model_chosen_scores(m, &x, &seen, classes, job->count, job->scores + i * job->count, codes);
    }
}

xsm_status xsm_model_scores(const xsm_model *m, const xsm_batch *given, const uint32_t *classes, size_t count,
                            float *scores, xsm_error *err)
{
    if (!m) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_scores: model is NULL");
    }
    xsm_batch known;
    const xsm_batch *batch = &known;
    XSMI_TRY(xsmi_model_read_batch(m, given, &known, err));
    if (count == 0) {
        return XSM_OK;
    }
    if (!classes || !scores) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_scores: %s is NULL", classes ? "scores" : "classes");
    }
    size_t total;
    if (!xsmi_multiply((size_t)batch->count, count, &total)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu rows of %zu classes are more than can be addressed",
                         (unsigned long long)batch->count, count);
    }
    for (size_t i = 0; i < total; i++) {
        if (classes[i] >= m->classes) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "class %u at place %zu of row %zu of the batch; the model has %u",
                             classes[i], i % count, i / count, m->classes);
        }
    }
    scores_job job = {m, batch, classes, count, scores, NULL, 0, NULL};
    size_t threads = xsm_context_threads(m->context), hidden = m->layer ? m->features : 0;
    if (m->correction) {
        job.code = xsmi_correction_code(m->correction);
        job.codes = xsmi_allocate(m->context, threads, job.code * sizeof *job.codes);
        if (!job.codes) {
            return xsmi_fail_memory(err, threads * job.code * sizeof *job.codes, "scratch of scoring");
        }
    }
    xsm_status status = XSM_OK;
    if (hidden > 0) {
        job.hidden = xsmi_allocate(m->context, threads, hidden * sizeof *job.hidden);
        status = job.hidden ? XSM_OK : xsmi_fail_memory(err, threads * hidden * sizeof *job.hidden, "hidden vectors");
    }
    if (status == XSM_OK) {
        status = xsmi_run(m->context, score_rows, &job, (size_t)((batch->count + JOB_ROWS - 1) / JOB_ROWS), err);
    }
    xsmi_release(m->context, job.hidden, threads, hidden * sizeof *job.hidden);
    xsmi_release(m->context, job.codes, threads, job.code * sizeof *job.codes);
    return status;
}

/* -- ranges of classes --------------------------------------------------------------------------------------------- */

/* The least multiplications for which waking a thread pays off. */
#define WAKING_WORK 2e5
/* Ranges of classes for each thread, so that no thread waits long for another. */
#define PIECES_A_THREAD 4

typedef struct range_job {
    const xsm_model *model;
    const xsm_batch *batch;
    uint32_t first, count;
    uint32_t pieces, each; /* ranges of classes, each a job */
    float *scores;
    size_t stride;
    unsigned char *scratch; /* one part a thread */
    size_t scratch_each;
} range_job;

typedef struct range_group {
    const range_job *job;
    size_t row; /* of the batch, the group's first */
    const size_t *counts;
} range_group;

static void copy_tile(void *state, const xsmi_tile *tile)
{
    const range_group *group = state;
    const range_job *job = group->job;
    size_t row = group->row + tile->block * XSMI_LANES + tile->row;
    float *out = job->scores + row * job->stride + (tile->first - job->first);
    if (!tile->lanes) {
        memcpy(out, tile->scores, tile->count * sizeof *out);
        return;
    }
    for (size_t l = 0; l < group->counts[tile->block]; l++, out += job->stride) {
        for (size_t c = 0; c < tile->count; c++) {
            out[c] = tile->scores[c * XSMI_LANES + l];
        }
    }
}

static void score_group(void *state, size_t index, uint32_t thread)
{
    const range_job *job = state;
    size_t first = index / job->pieces * XSMI_TILE_ROWS;
    uint32_t class = job->first + (uint32_t)(index % job->pieces) * job->each, end = job->first + job->count;
    size_t left = (size_t)job->batch->count - first;
    size_t count = left < XSMI_TILE_ROWS ? left : XSMI_TILE_ROWS;
    xsmi_features features[XSMI_TILE_ROWS];
    size_t counts[XSMI_EXACT_BLOCKS] = {0};
    for (size_t i = 0; i < count; i++) {
        features[i] = xsmi_batch_features(job->batch, first + i);
        counts[i / XSMI_LANES]++;
    }
    xsmi_tile_rows rows = {features, counts, (count + XSMI_LANES - 1) / XSMI_LANES, xsmi_batch_sparse(job->batch)};
    range_group group = {job, first, counts};
    xsmi_tiles_score(job->model, &rows, class, end - class < job->each ? end : class + job->each,
                     job->scratch + thread * job->scratch_each, copy_tile, &group);
}

/* Divides the classes where there are too few rows to keep the threads busy. */
static void cut_classes(range_job *job, bool plain, size_t groups)
{
    const xsm_model *m = job->model;
    const bool sparse = xsmi_batch_sparse(job->batch);
    const uint32_t unit = xsmi_tiles_packed(m, sparse) ? XSMI_CLASS_TILE : XSMI_ROW_TILE;
    const uint32_t units = (job->count + unit - 1) / unit, threads = xsm_context_threads(m->context);
    double work = 0;
    for (size_t i = 0; plain && groups < threads && i < job->batch->count; i++) {
        work += (double)xsmi_batch_features(job->batch, i).count * (double)job->count;
    }
    const uint32_t wanted = work > WAKING_WORK ? threads * PIECES_A_THREAD : 1;
    job->each = (units + wanted - 1) / wanted * unit;
    job->pieces = (job->count + job->each - 1) / job->each;
}

xsm_status xsm_model_score_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                                 float *scores, size_t stride, xsm_error *err)
{
    xsmi_score_room room = {.used = NULL};
    xsm_status status =
        xsmi_model_score_range(m, given, first, count, scores, stride, m ? m->context : NULL, &room, err);
    if (m) {
        xsmi_score_room_free(m->context, &room);
    }
    return status;
}

void xsmi_score_room_free(xsm_context *ctx, xsmi_score_room *room)
{
    xsmi_release(ctx, room->used, room->used_capacity, sizeof *room->used);
    xsmi_release(ctx, room->numbers, room->number_capacity, sizeof *room->numbers);
    xsmi_release(ctx, room->compact, room->compact_capacity, sizeof *room->compact);
    xsmi_release(ctx, room->tiles, room->tile_capacity, 1);
    *room = (xsmi_score_room){.used = NULL};
}

xsm_status xsmi_model_score_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                                  float *scores, size_t stride, xsm_context *ctx, xsmi_score_room *room, xsm_error *err)
{
    if (!m) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_score_range: model is NULL");
    }
    xsm_batch known;
    const xsm_batch *batch = &known;
    XSMI_TRY(xsmi_model_read_batch(m, given, &known, err));
    if (first > m->classes || count > m->classes - first) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u classes from class %u on; the model has %u", count, first,
                         m->classes);
    }
    if (stride < count) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "rows of scores %zu floats apart for %u classes", stride, count);
    }
    if (count == 0) {
        return XSM_OK;
    }
    if (!scores) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_model_score_range: scores is NULL");
    }
    const bool sparse = xsmi_batch_sparse(batch), plain = !m->correction && !m->layer;
    if (sparse && plain && m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        bool done;
        xsm_status status = xsmi_columns_score(m, batch, first, count, scores, stride, ctx, room, &done, err);
        if (status != XSM_OK || done) {
            return status;
        }
    }
    size_t rows = (size_t)batch->count;
    size_t blocks = rows < XSMI_TILE_ROWS ? (rows + XSMI_LANES - 1) / XSMI_LANES : XSMI_EXACT_BLOCKS;
    range_job job = {.model = m, .batch = batch, .first = first, .count = count, .scores = scores, .stride = stride};
    const size_t groups = (rows + XSMI_TILE_ROWS - 1) / XSMI_TILE_ROWS;
    cut_classes(&job, plain, groups);
    const size_t jobs = groups * job.pieces, threads = jobs > 1 ? xsm_context_threads(m->context) : 1;
    job.scratch_each = xsmi_tiles_scratch(m, sparse, blocks);
    size_t bytes;
    if (!xsmi_multiply(threads, job.scratch_each, &bytes) ||
        !xsmi_reserve(ctx, &room->tiles, &room->tile_capacity, bytes, 1)) {
        return xsmi_fail_memory(err, job.scratch_each, "scratch of scoring, for each thread");
    }
    job.scratch = room->tiles;
    return xsmi_run(m->context, score_group, &job, jobs, err);
}
