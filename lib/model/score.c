/*
 * Scores of chosen classes, and of a range of classes.
 *
 * The score of a chosen class is one dot product: it has the same bits whatever other classes are scored.
 */
#include "model/score.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/tiles.h"

#include <string.h>

/* -- chosen classes ------------------------------------------------------------------------------------------------ */

/* Classes that are renumbered together. */
#define RENUMBERED 64

/* Adds the model's correction to scores of chosen classes. */
static void correct(const xsm_model *m, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                    float *scratch)
{
    uint32_t moved[RENUMBERED];
    for (size_t start = 0, n; start < count; start += n) {
        n = m->head_first > 0 ? XSMI_MIN(count - start, RENUMBERED) : count;
        for (size_t j = 0; m->head_first > 0 && j < n; j++) {
            moved[j] = m->head_first + classes[start + j];
        }
        m->head->kind->chosen(m->head, x, m->head_first > 0 ? moved : classes, n, scores + start, scratch);
    }
}

void xsmi_model_chosen_scores(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                              float *scores, float *scratch)
{
    const xsmi_head_of_nodes *nodes = xsmi_model_nodes(m);
    if (nodes) {
        nodes->chosen(m, row, classes, count, scores, scratch);
        return;
    }
    xsmi_weights_score(&m->w, &row->input, classes, count, m->w.alpha, scores, NULL);
    if (m->head) {
        correct(m, &row->x, classes, count, scores, scratch);
    }
}

/* -- sparse rows and feature-major weights ------------------------------------------------------------------------- */

/*
 * If rows were scored one by one, each would read its features' weights from memory. Here the weights of all features
 * of the batch for a tile of classes are read once, into a compact matrix that stays in the L2 cache while all rows
 * use it. Threads divide the classes. Scores have the same bits as in tiles.c.
 */
enum {
    COMPACT_FLOATS = 384 << 10, /* 1.5 MB, three quarters of the L2 cache of a server's core */
    TILE_LEAST = 32,            /* classes */
    TILE_MOST = 256,
    FLOATS_AHEAD = 256, /* of weights prefetched: as many lines as a core can load at the same time */
    /* The least average number of rows per feature for which copying the weights together pays off. */
    ROWS_A_FEATURE = 3,
    JOBS_A_THREAD = 4,
    POLL_ROWS = 256
};

typedef struct columns_job {
    const xsm_model *model;
    const xsmi_score_range *range;
    const uint32_t *list; /* [listed] features of the batch, rising */
    size_t listed;
    const uint32_t *columns; /* [entries] of the rows' features in `list`, row after row */
    uint32_t tile;           /* classes of a tile */
    float *compact;          /* [threads][listed][tile] */
} columns_job;

/* compact[f*tile + c] = weight of class first + c and the f-th feature listed. */
static void copy_columns(const columns_job *job, uint32_t first, uint32_t count, float *compact)
{
    const xsm_model *m = job->model;
    const size_t ahead = count < FLOATS_AHEAD ? FLOATS_AHEAD / count : 1;
    for (size_t f = 0; f < job->listed; f++) {
        const float *upcoming = m->w.weight + job->list[f + ahead < job->listed ? f + ahead : f] * m->w.stride + first;
        for (uint32_t c = 0; c < count; c += XSMI_LINE) {
            xsmi_prefetch_line(upcoming + c);
        }
        memcpy(compact + f * job->tile, m->w.weight + job->list[f] * m->w.stride + first, count * sizeof *compact);
    }
}

static void run_columns(void *state, const xsmi_range *r)
{
    const columns_job *job = state;
    const xsm_model *m = job->model;
    const xsmi_score_range *range = job->range;
    const uint32_t start = range->first + (uint32_t)r->first, end = range->first + (uint32_t)r->end;
    float *compact = job->compact + r->thread * job->listed * job->tile;
    for (uint32_t tile = start, count; tile < end; tile += count) {
        count = XSMI_MIN(end - tile, job->tile);
        copy_columns(job, tile, count, compact);
        const uint32_t *columns = job->columns;
        for (uint64_t i = 0; i < range->batch->count; i++) {
            if (i % POLL_ROWS == POLL_ROWS - 1 && xsmi_poll(m->context)) {
                return;
            }
            xsmi_features x = xsmi_batch_features(range->batch, (size_t)i);
            float *out = range->scores + i * range->stride + (tile - range->first);
            memset(out, 0, count * sizeof *out);
            m->kernels->column_sums(compact, job->tile, columns, x.values, x.count, count, out);
            xsmi_tiles_finish(m, tile, count, NULL, out);
            columns += x.count;
        }
    }
}

/* Lists the features of the batch in rising order, and the positions of each row's features in the list; returns the
 * number of features. `column_of` has a number and `used` a bit for every feature (zeros before and after). */
static size_t find_features(const xsm_batch *batch, size_t features, uint64_t *used, uint32_t *column_of,
                            uint32_t *list, uint32_t *columns)
{
    for (uint64_t i = 0; i < batch->count; i++) {
        xsmi_features x = xsmi_batch_features(batch, (size_t)i);
        for (size_t j = 0; j < x.count; j++) {
            used[x.index[j] / 64] |= UINT64_C(1) << x.index[j] % 64;
        }
    }
    size_t listed = 0;
    for (size_t w = 0; w < (features + 63) / 64; w++) {
        for (uint64_t bits = used[w]; bits; bits &= bits - 1) {
            uint32_t feature = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);
            column_of[feature] = (uint32_t)listed;
            list[listed++] = feature;
        }
        used[w] = 0;
    }
    for (uint64_t i = 0; i < batch->count; i++) {
        xsmi_features x = xsmi_batch_features(batch, (size_t)i);
        for (size_t j = 0; j < x.count; j++) {
            *columns++ = column_of[x.index[j]];
        }
    }
    return listed;
}

static bool need_bits(xsm_context *ctx, xsmi_score_scratch *scratch, size_t words)
{
    const size_t before = scratch->used_capacity;
    if (!xsmi_reserve(ctx, &scratch->used, &scratch->used_capacity, words, sizeof *scratch->used)) {
        return false;
    }
    if (scratch->used_capacity > before) {
        memset(scratch->used, 0, scratch->used_capacity * sizeof *scratch->used);
    }
    return true;
}

static uint32_t tile_width(size_t listed)
{
    size_t width = COMPACT_FLOATS / (listed + 1) / TILE_LEAST * TILE_LEAST;
    return (uint32_t)XSMI_CLAMP(width, TILE_LEAST, TILE_MOST);
}

/* For a model without a head and a first layer. Sets *done to false, and does nothing, if this way would not be
 * faster. */
static xsm_status score_columns(const xsm_model *m, const xsmi_score_range *range, xsm_context *ctx,
                                xsmi_score_scratch *scratch, bool *done, xsm_error *err)
{
    const xsm_batch *batch = range->batch;
    const uint32_t count = range->count;
    *done = false;
    if (batch->count < ROWS_A_FEATURE || count < 2 * TILE_LEAST) {
        return XSM_OK;
    }
    const size_t entries = xsmi_batch_entries(batch);
    /* With fewer features than words of the bit array, listing them takes longer than the sums. */
    if (m->features / 64 > entries) {
        return XSM_OK;
    }
    const size_t numbers = 2 * (size_t)m->features + entries;
    if (!need_bits(ctx, scratch, ((size_t)m->features + 63) / 64) ||
        !xsmi_reserve(ctx, &scratch->numbers, &scratch->number_capacity, numbers, sizeof *scratch->numbers)) {
        return xsmi_fail_memory(err, numbers * sizeof *scratch->numbers, "the features of a batch");
    }
    uint32_t *column_of = scratch->numbers, *list = column_of + m->features, *columns = list + m->features;
    const size_t listed = find_features(batch, m->features, scratch->used, column_of, list, columns);
    if (listed == 0 || entries / listed < ROWS_A_FEATURE) {
        return XSM_OK;
    }
    columns_job job = {
        .model = m, .range = range, .list = list, .listed = listed, .columns = columns, .tile = tile_width(listed)};
    const uint32_t threads = xsmi_context_threads(m->context);
    const uint32_t tiles = (count + job.tile - 1) / job.tile, jobs = threads > 1 ? threads * JOBS_A_THREAD : 1;
    const size_t floats = threads * listed * job.tile;
    if (!xsmi_reserve(ctx, &scratch->compact, &scratch->compact_capacity, floats, sizeof *scratch->compact)) {
        return xsmi_fail_memory(err, floats * sizeof *scratch->compact, "weights of a batch");
    }
    job.compact = scratch->compact;
    XSMI_TRY(xsmi_run_ranges(m->context, run_columns, &job, count, (tiles + jobs - 1) / jobs * job.tile, err));
    *done = true;
    return XSM_OK;
}

/* -- ranges of classes --------------------------------------------------------------------------------------------- */

/* The least number of multiplications for which waking a thread pays off. */
#define WAKING_WORK 2e5
/* Number of ranges of classes for each thread, so that no thread waits long for another. */
#define PIECES_A_THREAD 4

typedef struct range_job {
    const xsm_model *model;
    const xsmi_score_range *range;
    uint32_t pieces, each;  /* the classes are divided into `pieces` ranges of `each` classes; each is a job */
    unsigned char *scratch; /* one part per thread */
    size_t scratch_each;
} range_job;

typedef struct block_copy {
    const xsmi_kernels *kernels;
    const xsmi_score_block *block;
    const size_t *counts;
} block_copy;

static void copy_tile(void *state, const xsmi_tile *tile)
{
    const block_copy *copy = state;
    const xsmi_score_block *block = copy->block;
    const size_t row = tile->block * XSMI_LANES + tile->row;
    float *out = block->scores + row * block->stride + (tile->first - block->first);
    if (!tile->lanes) {
        memcpy(out, tile->scores, tile->count * sizeof *out);
        return;
    }
    copy->kernels->unpack(tile->scores, tile->count, copy->counts[tile->block], out, block->stride);
}

void xsmi_model_score_block(const xsm_model *m, const xsmi_score_block *block, void *scratch, const xsm_context *ctx)
{
    size_t counts[XSMI_TILE_BLOCKS] = {0};
    for (size_t i = 0; i < block->count; i++) {
        counts[i / XSMI_LANES]++;
    }
    const xsmi_tile_rows rows = {block->features, counts, (block->count + XSMI_LANES - 1) / XSMI_LANES, block->sparse};
    block_copy copy = {m->kernels, block, counts};
    const xsmi_tile_call call = {m, &rows, block->first, block->end, copy_tile, &copy, ctx, true, block->hidden, false};
    xsmi_tiles_score(&call, scratch);
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
    for (size_t i = 0; i < count; i++) {
        features[i] = xsmi_batch_features(range->batch, first + i);
    }
    end = end - class < job->each ? end : class + job->each;
    float *scores = range->scores + first * range->stride + (class - range->first);
    const xsmi_score_block block = {features, count,        xsmi_batch_sparse(range->batch), false, class, end,
                                    scores,   range->stride};
    xsmi_model_score_block(job->model, &block, job->scratch + thread * job->scratch_each, job->model->context);
}

/* Divides the classes if there are too few rows to keep the threads busy. */
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
    const bool sparse = xsmi_batch_sparse(range->batch), plain = xsmi_model_is_plain(m) && !m->layer && !m->w.sparse;
    if (sparse && plain && m->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
        bool done;
        xsm_status status = score_columns(m, range, ctx, scratch, &done, err);
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
