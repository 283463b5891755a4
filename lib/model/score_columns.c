/*
 * Scores of a batch of sparse rows against a range of classes of a feature-major model.
 *
 * Row by row, each row would read its features' weights from memory. Here the weights of all features of the batch for
 * a tile of classes are read once, into a compact matrix that stays in the second cache while all rows use it. Threads
 * divide the classes. Scores equal those of plain_tiles.c to the bit.
 */
#include "model/plain_tiles.h"
#include "base/activity.h"
#include "base/order.h"

#include <string.h>

enum {
    COMPACT_FLOATS = 384 << 10, /* 1.5 MB, three quarters of the second cache of a server's core */
    TILE_LEAST = 32,            /* classes */
    TILE_MOST = 256,
    FLOATS_AHEAD = 256, /* of weights prefetched: as many lines as a core can have in flight */
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
    uint32_t each, tile;     /* classes of a job, and of a tile */
    float *compact;          /* [threads][listed][tile] */
} columns_job;

/* compact[f*tile + c] = weight of class first + c and the f-th feature listed. */
static void copy_weights(const columns_job *job, uint32_t first, uint32_t count, float *compact)
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

static void score_classes(void *state, size_t index, uint32_t thread)
{
    const columns_job *job = state;
    const xsm_model *m = job->model;
    const xsmi_score_range *range = job->range;
    const uint32_t start = range->first + (uint32_t)index * job->each, left = range->first + range->count - start;
    const uint32_t end = start + XSMI_MIN(left, job->each);
    float *compact = job->compact + thread * job->listed * job->tile;
    for (uint32_t tile = start, count; tile < end; tile += count) {
        count = XSMI_MIN(end - tile, job->tile);
        copy_weights(job, tile, count, compact);
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

/* Lists the features of the batch in rising order, and the positions of each row's features in the list; returns their
 * number. `column_of` has a number and `used` a bit for every feature (zeros before and after). */
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

xsm_status xsmi_columns_score(const xsm_model *m, const xsmi_score_range *range, xsm_context *ctx,
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
    job.each = (tiles + jobs - 1) / jobs * job.tile;
    job.compact = scratch->compact;
    XSMI_TRY(xsmi_run(m->context, score_classes, &job, (count + job.each - 1) / job.each, err));
    *done = true;
    return XSM_OK;
}
