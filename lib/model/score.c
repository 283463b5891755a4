/*
 * Scores of chosen classes, and of a range of classes.
 *
 * The score of a chosen class is one dot product: it has the same bits whatever other classes are scored.
 */
#include "model/score.h"

#include "model/tiles.h"
#include "base/activity.h"
#include "base/order.h"
#include "base/safetensors.h"
#include "base/entry.h"
#include "base/hash.h"
#include "model/divided.h"
#include "model/together.h"
#include "ranks/comm.h"

#include <math.h>
#include <limits.h>
#include <stdatomic.h>
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
 * of the batch for a tile of classes are read once, into a compact matrix that stays in the second cache while all rows
 * use it. Threads divide the classes. Scores have the same bits as in tiles.c.
 */
enum {
    COMPACT_FLOATS = 384 << 10, /* 1.5 MB, three quarters of the second cache of a server's core */
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
    for (size_t l = 0; l < copy->counts[tile->block]; l++, out += block->stride) {
        for (size_t c = 0; c < tile->count; c++) {
            out[c] = tile->scores[c * XSMI_LANES + l];
        }
    }
}

void xsmi_model_score_block(const xsm_model *m, const xsmi_score_block *block, void *scratch, const xsm_context *ctx)
{
    size_t counts[XSMI_TILE_BLOCKS] = {0};
    for (size_t i = 0; i < block->count; i++) {
        counts[i / XSMI_LANES]++;
    }
    const xsmi_tile_rows rows = {block->features, counts, (block->count + XSMI_LANES - 1) / XSMI_LANES, block->sparse};
    block_copy copy = {block, counts};
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

/* -- scores for hosts ---------------------------------------------------------------------------------------------- */

/*
 * Scores for hosts: of chosen classes, and of a range of classes. Of a divided model, each process scores its classes,
 * and all processes get the scores of all; numbers that are not finite are sent as they are.
 */

/* Number of rows of one job: so many that a job takes much longer than starting it. */
#define JOB_ROWS 32
/* Number of classes of a row that are scored between two polls. */
#define POLL_CLASSES 4096

typedef struct scores_job {
    const xsm_model *model;
    const xsm_batch *batch;
    const uint32_t *classes;
    size_t count;
    float *scores;
    float *scratch; /* [threads][each]: the correction's code, then a hidden vector; or NULL */
    size_t code, each;
} scores_job;

static void score_rows(void *state, const xsmi_range *r)
{
    const scores_job *job = state;
    const xsm_model *m = job->model;
    float *code = job->scratch ? job->scratch + r->thread * job->each : NULL;
    float *hidden = job->scratch ? code + job->code : NULL;
    for (size_t i = r->first; i < r->end; i++) {
        const xsmi_features x = xsmi_batch_features(job->batch, i);
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

/* Scores chosen classes of the rows of a batch against this process's weights. */
static xsm_status score_batch(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                              float *scores, xsm_error *err)
{
    const size_t threads = xsmi_context_threads(m->context), hidden = xsmi_model_hidden_floats(m);
    const size_t code = xsmi_model_chosen_scratch(m), each = code + hidden;
    scores_job job = {m, batch, classes, count, scores, NULL, code, each};
    if (each > 0) {
        XSMI_TRY(
            xsmi_array_new(m->context, &job.scratch, threads, each * sizeof *job.scratch, "scratch of scoring", err));
    }
    xsm_status status = xsmi_run_ranges(m->context, score_rows, &job, batch->count, JOB_ROWS, err);
    xsmi_release(m->context, job.scratch, threads, each * sizeof *job.scratch);
    return status;
}

/* -- of all processes ---------------------------------------------------------------------------------------------- */

/* Number of scores that are exchanged together, unless a row has more. */
#define TOGETHER ((size_t)1 << 20)

/* The blocks of an exchange. */
typedef struct blocks {
    size_t *sizes;     /* [ranks] bytes */
    size_t *next;      /* [ranks] the next number of each block in `all` */
    float *mine, *all; /* [count] */
    size_t count;
} blocks;

static xsm_status blocks_new(const xsm_model *m, size_t count, blocks *b, xsm_error *err)
{
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    b->count = count;
    b->sizes = xsmi_allocate_zero(ctx, ranks, sizeof *b->sizes);
    b->next = xsmi_allocate(ctx, ranks, sizeof *b->next);
    b->mine = xsmi_allocate(ctx, count, sizeof *b->mine);
    b->all = xsmi_allocate(ctx, count, sizeof *b->all);
    return b->sizes && b->next && b->mine && b->all ? XSM_OK
                                                    : xsmi_fail_memory(err, 2 * count * sizeof *b->all, "scores");
}

static void blocks_free(const xsm_model *m, blocks *b)
{
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    xsmi_release(ctx, b->sizes, ranks, sizeof *b->sizes);
    xsmi_release(ctx, b->next, ranks, sizeof *b->next);
    xsmi_release(ctx, b->mine, b->count, sizeof *b->mine);
    xsmi_release(ctx, b->all, b->count, sizeof *b->all);
}

static xsm_status exchange(const xsm_model *m, const blocks *b, xsm_status status, xsm_error *err)
{
    XSMI_TRY(xsmi_agree(m->context, status, err));
    XSMI_TRY(xsmi_exchange_blocks(m->context, b->mine, b->all, b->sizes, err));
    size_t at = 0;
    for (uint32_t r = 0; r < xsmi_ranks(m->context); r++) {
        b->next[r] = at;
        at += b->sizes[r] / sizeof *b->all;
    }
    return XSM_OK;
}

/* -- lists of classes ---------------------------------------------------------------------------------------------- */

/* Scores the listed classes of this process, numbered as in its part, with class 0 of the part in place of other
 * processes' classes. Then counts the bytes of each process, and collects this one's scores. */
static xsm_status score_own(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes, size_t count,
                            uint32_t *local, const blocks *b, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    const size_t total = (size_t)batch->count * count;
    for (size_t j = 0; j < total; j++) {
        local[j] = xsmi_divided_has(m, classes[j]) ? classes[j] - m->part.first : 0;
    }
    XSMI_TRY(score_batch(m->part.own, batch, local, count, b->all, err));
    XSMI_TRY(xsmi_go_on(m->context, err));
    memset(b->sizes, 0, ranks * sizeof *b->sizes);
    for (size_t j = 0, mine = 0; j < total; j++) {
        b->sizes[xsmi_part_of(m->classes, ranks, classes[j])] += sizeof *b->all;
        if (xsmi_divided_has(m, classes[j])) {
            b->mine[mine++] = b->all[j];
        }
    }
    return XSM_OK;
}

/* The process that has the class sends 4 bytes for each score. */
static xsm_status score_chosen_together(const xsm_model *m, const xsm_batch *batch, const uint32_t *classes,
                                        size_t count, float *scores, xsm_error *err)
{
    xsm_context *ctx = m->context;
    const size_t wanted = XSMI_MAX(TOGETHER / count, (size_t)1), rows = (size_t)batch->count,
                 each = XSMI_MIN(wanted, rows);
    blocks b = {.sizes = NULL};
    uint32_t *local = xsmi_allocate(ctx, each, count * sizeof *local);
    xsm_status status =
        local ? blocks_new(m, each * count, &b, err) : xsmi_fail_memory(err, each * count * sizeof *local, "scores");
    for (size_t first = 0; first < rows; first += each) {
        const size_t some = XSMI_MIN(rows - first, each), at = first * count;
        const xsm_batch slice = xsmi_batch_slice(batch, first, some);
        status = status == XSM_OK ? score_own(m, &slice, classes + at, count, local, &b, err) : status;
        status = exchange(m, &b, status, err);
        if (status != XSM_OK) {
            break;
        }
        for (size_t j = 0; j < some * count; j++) {
            scores[at + j] = b.all[b.next[xsmi_part_of(m->classes, xsmi_ranks(ctx), classes[at + j])]++];
        }
        xsmi_advance(ctx, some);
    }
    blocks_free(m, &b);
    xsmi_release(ctx, local, each, count * sizeof *local);
    return status;
}

/* -- ranges of classes --------------------------------------------------------------------------------------------- */

/* Returns the first class of a range that a process has, and sets *end to the end of such classes. */
static uint32_t range_of(const xsm_model *m, const xsmi_score_range *range, uint32_t rank, uint32_t *end)
{
    const uint32_t ranks = xsmi_ranks(m->context), first = xsmi_part_start(m->classes, ranks, rank),
                   last = xsmi_part_start(m->classes, ranks, rank + 1);
    const uint32_t from = XSMI_CLAMP(range->first, first, last);
    *end = XSMI_CLAMP(range->first + range->count, first, last);
    return from;
}

/* Returns the first of the classes at..at+each that a process has in the range, and sets *count to their number. */
static uint32_t piece_of(const xsm_model *m, const xsmi_score_range *range, uint32_t rank, uint32_t at, uint32_t each,
                         uint32_t *count)
{
    uint32_t end, first = range_of(m, range, rank, &end);
    first = XSMI_MIN(end - first, at) + first;
    *count = XSMI_MIN(end - first, each);
    return first;
}

static xsm_status score_piece(const xsm_model *m, const xsmi_score_range *range, uint32_t at, uint32_t each,
                              const blocks *b, xsmi_score_scratch *scratch, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    const size_t rows = (size_t)range->batch->count;
    uint32_t count;
    for (uint32_t r = 0; r < ranks; r++) {
        (void)piece_of(m, range, r, at, each, &count);
        b->sizes[r] = rows * count * sizeof *b->all;
    }
    const uint32_t first = piece_of(m, range, xsmi_rank(m->context), at, each, &count);
    const xsmi_score_range mine = {range->batch, first - m->part.first, count, b->mine, count};
    XSMI_TRY(
        exchange(m, b, count > 0 ? xsmi_model_score_range(m->part.own, &mine, m->context, scratch, err) : XSM_OK, err));
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t from = piece_of(m, range, r, at, each, &count);
        for (size_t i = 0; i < rows; i++, b->next[r] += count) {
            memcpy(range->scores + i * range->stride + (from - range->first), b->all + b->next[r],
                   count * sizeof *b->all);
        }
    }
    return XSM_OK;
}

static xsm_status score_range_together(const xsm_model *m, const xsmi_score_range *range, xsmi_score_scratch *scratch,
                                       xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    const size_t rows = (size_t)range->batch->count;
    uint32_t widest = 0, end;
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t first = range_of(m, range, r, &end);
        widest = XSMI_MAX(end - first, widest);
    }
    const size_t fit = TOGETHER / (rows * ranks) / XSMI_CLASS_TILE * XSMI_CLASS_TILE;
    const size_t wanted = XSMI_MAX(fit, XSMI_CLASS_TILE);
    const uint32_t each = (uint32_t)XSMI_MIN(wanted, widest);
    blocks b = {.sizes = NULL};
    xsm_status status = xsmi_agree(m->context, blocks_new(m, (size_t)each * rows * ranks, &b, err), err);
    for (uint32_t at = 0; at < widest && status == XSM_OK; at += each) {
        status = score_piece(m, range, at, each, &b, scratch, err);
    }
    blocks_free(m, &b);
    return status;
}

/* -- public -------------------------------------------------------------------------------------------------------- */

/* Scores that one job checks. */
#define JOB_SCORES ((size_t)1 << 16)

/* Scores that were computed: those of row i begin at scores[i*stride]. */
typedef struct computed {
    const xsm_model *model;
    const float *scores;
    size_t count, stride;
    atomic_ullong failed; /* the first row with scores that are not finite, or ULLONG_MAX */
} computed;

static void check_rows(void *state, const xsmi_range *r)
{
    computed *c = state;
    for (size_t i = r->first; i < r->end; i++) {
        bool finite = true;
        for (size_t k = 0; k < c->count && finite && !xsmi_poll(c->model->context); k += JOB_SCORES) {
            finite = xsmi_floats_finite(c->scores + i * c->stride + k, XSMI_MIN(c->count - k, JOB_SCORES));
        }
        unsigned long long least = atomic_load(&c->failed);
        while (!finite && i < least && !atomic_compare_exchange_weak(&c->failed, &least, i)) {
        }
    }
}

/* Refuses scores that are not finite. */
static xsm_status check_finite(const xsm_model *m, const float *scores, uint64_t rows, size_t count, size_t stride,
                               xsm_error *err)
{
    computed c = {m, scores, count, stride, ULLONG_MAX};
    XSMI_TRY(
        xsmi_run_together(m->context, xsmi_model_is_divided(m), check_rows, &c, rows, JOB_SCORES / count + 1, err));
    const unsigned long long failed = atomic_load(&c.failed);
    return failed == ULLONG_MAX ? XSM_OK
                                : xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite", failed);
}

static xsm_status read_chosen(const xsm_model *m, const xsm_batch *given, const uint32_t *classes, size_t count,
                              float *scores, xsm_batch *batch, xsm_error *err)
{
    XSMI_TRY(xsmi_model_read_batch(m, given, batch, err));
    size_t total;
    if (!xsmi_multiply((size_t)batch->count, count, &total)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu rows of %zu classes are more than can be addressed",
                         (unsigned long long)batch->count, count);
    }
    XSMI_TRY(count == 0 ? XSM_OK
                        : xsmi_need("xsm_model_scores", XSMI_GIVEN({classes, "classes"}, {scores, "scores"}), err));
    xsmi_region regions[2 + XSMI_BATCH_REGIONS] = {xsmi_output("scores", scores, total, sizeof *scores),
                                                   xsmi_input("classes", classes, total, sizeof *classes)};
    xsmi_batch_regions(batch, regions + 2);
    XSMI_TRY(xsmi_check_overlap("xsm_model_scores", regions, 2 + XSMI_BATCH_REGIONS, err));
    for (size_t i = 0; i < total; i++) {
        if (classes[i] >= m->classes) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "class %u at position %zu of row %zu of the batch; the model has %u",
                             classes[i], i % count, i / count, m->classes);
        }
    }
    return XSM_OK;
}

xsm_status xsm_model_scores(const xsm_model *m, const xsm_batch *given, const uint32_t *classes, size_t count,
                            float *scores, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    xsm_batch batch = {.size = sizeof batch};
    xsm_status status = read_chosen(m, given, classes, count, scores, &batch, err);
    const size_t total = status == XSM_OK ? (size_t)batch.count * count : 0;
    const uint64_t asked =
        xsmi_model_is_divided(m) && total > 0 ? xsmi_hash(classes, total * sizeof *classes, count) : 0;
    XSMI_TRY(xsmi_together_batch(m, &batch, asked, status, err));
    if (total == 0) {
        return XSM_OK;
    }
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "scoring", "rows");
    status = xsmi_model_is_divided(m) ? score_chosen_together(m, &batch, classes, count, scores, err)
                                      : score_batch(m, &batch, classes, count, scores, err);
    status = status == XSM_OK ? check_finite(m, scores, batch.count, count, count, err) : status;
    return xsmi_end(&activity, status, err);
}

static xsm_status read_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                             const float *scores, size_t stride, xsm_batch *batch, xsm_error *err)
{
    XSMI_TRY(xsmi_model_read_batch(m, given, batch, err));
    if (first > m->classes || count > m->classes - first) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u classes from class %u on; the model has %u", count, first,
                         m->classes);
    }
    size_t floats = 0;
    if (stride < count || !xsmi_multiply((size_t)batch->count, stride, &floats) || floats > SIZE_MAX / sizeof(float)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "%llu rows of scores %zu floats apart for %u classes",
                         (unsigned long long)batch->count, stride, count);
    }
    if (count == 0) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_need("xsm_model_score_range", XSMI_GIVEN({scores, "scores"}), err));
    xsmi_region regions[1 + XSMI_BATCH_REGIONS] = {
        xsmi_output_rows("scores", scores, batch->count, count, stride, sizeof *scores)};
    xsmi_batch_regions(batch, regions + 1);
    return xsmi_check_overlap("xsm_model_score_range", regions, 1 + XSMI_BATCH_REGIONS, err);
}

xsm_status xsm_model_score_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                                 float *scores, size_t stride, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    xsm_batch batch = {.size = sizeof batch};
    xsm_status status = read_range(m, given, first, count, scores, stride, &batch, err);
    XSMI_TRY(xsmi_together_batch(m, &batch, (uint64_t)first << 32 | count, status, err));
    if (count == 0 || batch.count == 0) {
        return XSM_OK;
    }
    const xsmi_score_range range = {&batch, first, count, scores, stride};
    xsmi_score_scratch scratch = {.used = NULL};
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "scoring", "rows");
    status = xsmi_model_is_divided(m) ? score_range_together(m, &range, &scratch, err)
                                      : xsmi_model_score_range(m, &range, m->context, &scratch, err);
    status = status == XSM_OK ? check_finite(m, scores, batch.count, count, stride, err) : status;
    xsmi_score_scratch_free(m->context, &scratch);
    return xsmi_end(&activity, status, err);
}
