#include "labels/split.h"

#include "base/activity.h"
#include "base/order.h"
#include "base/random.h"
#include "ranks/share.h"
#include "labels/marks.h"
#include "labels/select.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Splits with more entries than this use all threads. */
#define WIDE_ENTRIES ((uint64_t)1 << 21)
/* Labels in a job of such a split, and jobs that sum up the clusters. */
#define SCORE_LABELS 1024
#define SUM_JOBS 16

/* The work on one split: a copy of the vectors with renumbered features, or the vectors themselves. */
typedef struct split_work {
    const xsmi_label_vectors *v;
    const xsmi_kernels *kernels;
    bool wide;
    xsmi_split *split;
    uint32_t width; /* features */
    uint64_t *offset;
    uint32_t *index;
    float *value;
    float *sum;            /* [parts][width] if balanced, else [width][stride] */
    float *centre;         /* if balanced [width], the difference of both centres; else [width][stride] */
    size_t stride;         /* of clusters */
    float *score;          /* [count] scores with the first of the two parts */
    uint64_t *key;         /* [count] */
    uint32_t *part, *last; /* [count] of each label, now and in the last iteration */
    double *norm;          /* [parts] of the sums */
    bool fresh;            /* the sums are computed from scratch */
    uint32_t *order;       /* [count] */
    xsmi_numbering features;
    struct {
        size_t offset, index, value, sum, centre, score, key, part, last, norm, order;
    } capacity;
} split_work;

typedef struct split_job {
    split_work *work; /* [threads] */
    const xsmi_label_vectors *v;
    const xsmi_split_settings *settings;
    xsmi_split *splits;
    const size_t *small;
    atomic_bool failed;
} split_job;

static inline xsmi_features row_of(const split_work *w, uint32_t i)
{
    if (w->wide) {
        return xsmi_label_vector(w->v, w->split->labels[i]);
    }
    const xsmi_features f = {w->value + w->offset[i], w->index + w->offset[i],
                             (size_t)(w->offset[i + 1] - w->offset[i])};
    return f;
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static bool work_new(split_work *w, const xsmi_label_vectors *v)
{
    *w = (split_work){.v = v, .kernels = xsmi_context_kernels(v->context)};
    return xsmi_numbering_new(&w->features, v->context, v->features);
}

static void work_free(split_work *w)
{
    xsm_context *ctx = w->v ? w->v->context : NULL;
    if (!ctx) {
        return;
    }
    xsmi_numbering_free(&w->features);
    xsmi_release(ctx, w->offset, w->capacity.offset, sizeof *w->offset);
    xsmi_release(ctx, w->index, w->capacity.index, sizeof *w->index);
    xsmi_release(ctx, w->value, w->capacity.value, sizeof *w->value);
    xsmi_release(ctx, w->sum, w->capacity.sum, sizeof *w->sum);
    xsmi_release(ctx, w->centre, w->capacity.centre, sizeof *w->centre);
    xsmi_release(ctx, w->score, w->capacity.score, sizeof *w->score);
    xsmi_release(ctx, w->key, w->capacity.key, sizeof *w->key);
    xsmi_release(ctx, w->part, w->capacity.part, sizeof *w->part);
    xsmi_release(ctx, w->last, w->capacity.last, sizeof *w->last);
    xsmi_release(ctx, w->norm, w->capacity.norm, sizeof *w->norm);
    xsmi_release(ctx, w->order, w->capacity.order, sizeof *w->order);
}

static uint64_t entries_of(const xsmi_label_vectors *v, const xsmi_split *split)
{
    uint64_t entries = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        entries += v->length[split->labels[i]];
    }
    return entries;
}

/* Copies the vectors, with their features numbered in rising order. */
static bool copy_rows(split_work *w, uint64_t entries)
{
    xsm_context *ctx = w->v->context;
    const xsmi_split *split = w->split;
    if (!xsmi_reserve(ctx, &w->offset, &w->capacity.offset, (uint64_t)split->count + 1, sizeof *w->offset) ||
        !xsmi_reserve(ctx, &w->index, &w->capacity.index, entries, sizeof *w->index) ||
        !xsmi_reserve(ctx, &w->value, &w->capacity.value, entries, sizeof *w->value)) {
        return false;
    }
    for (uint32_t i = 0; i < split->count; i++) {
        const xsmi_features x = xsmi_label_vector(w->v, split->labels[i]);
        for (size_t k = 0; k < x.count; k++) {
            xsmi_marks_add(&w->features.marks, x.index[k]);
        }
    }
    w->width = xsmi_numbering_make(&w->features);
    uint64_t at = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        const xsmi_features x = xsmi_label_vector(w->v, split->labels[i]);
        w->offset[i] = at;
        for (size_t k = 0; k < x.count; k++, at++) {
            w->index[at] = w->features.number[x.index[k]];
            w->value[at] = x.values[k];
        }
    }
    w->offset[split->count] = at;
    return true;
}

static bool work_start(split_work *w, xsmi_split *split, bool wide)
{
    xsm_context *ctx = w->v->context;
    w->split = split;
    w->wide = wide;
    w->width = w->v->features;
    if (!wide && !copy_rows(w, entries_of(w->v, split))) {
        return false;
    }
    w->stride = split->balanced ? 1 : (split->parts + 15) / 16 * 16;
    const uint64_t sums = (uint64_t)w->width * (split->balanced ? 2 : w->stride);
    const uint64_t centres = (uint64_t)w->width * w->stride;
    const uint64_t scores = split->balanced ? split->count : 0;
    return xsmi_reserve(ctx, &w->sum, &w->capacity.sum, sums, sizeof *w->sum) &&
           xsmi_reserve(ctx, &w->centre, &w->capacity.centre, centres, sizeof *w->centre) &&
           xsmi_reserve(ctx, &w->score, &w->capacity.score, scores, sizeof *w->score) &&
           xsmi_reserve(ctx, &w->key, &w->capacity.key, scores, sizeof *w->key) &&
           xsmi_reserve(ctx, &w->part, &w->capacity.part, split->count, sizeof *w->part) &&
           xsmi_reserve(ctx, &w->last, &w->capacity.last, split->count, sizeof *w->last) &&
           xsmi_reserve(ctx, &w->norm, &w->capacity.norm, split->parts, sizeof *w->norm) &&
           xsmi_reserve(ctx, &w->order, &w->capacity.order, split->count, sizeof *w->order);
}

/* -- parts of an iteration, as jobs or one after the other --------------------------------------------------------- */

static void run_parts(split_work *w, xsmi_range_job job, size_t count, size_t each)
{
    if (w->wide) {
        (void)xsmi_run_ranges(w->v->context, job, w, count, each, NULL);
    } else {
        xsmi_run_here(job, w, count, each);
    }
}

static void score_halves(void *state, const xsmi_range *r)
{
    split_work *w = state;
    static const uint32_t only[1] = {0};
    for (size_t i = r->first; i < r->end; i++) {
        const xsmi_features x = row_of(w, (uint32_t)i);
        w->kernels->sparse_gather_scores(w->centre, 0, only, 1, x.index, x.values, x.count, &w->score[i]);
    }
}

static double norm_of(const float *sum, size_t width)
{
    double square = 0;
    for (size_t f = 0; f < width; f++) {
        square += (double)sum[f] * (double)sum[f];
    }
    return sqrt(square);
}

/* Sums the vectors of one half, or adds and subtracts those that have moved. */
static void sum_half(void *state, const xsmi_range *r)
{
    split_work *w = state;
    float *sum = w->sum + r->index * w->width;
    if (w->fresh) {
        memset(sum, 0, w->width * sizeof *sum);
    }
    for (uint32_t i = 0; i < w->split->count; i++) {
        const bool in = w->part[i] == r->index, was = !w->fresh && w->last[i] == r->index;
        if (in == was) {
            continue;
        }
        const float sign = in ? 1.0f : -1.0f;
        const xsmi_features x = row_of(w, i);
        for (size_t k = 0; k < x.count; k++) {
            sum[x.index[k]] += sign * x.values[k];
        }
    }
    w->norm[r->index] = norm_of(sum, w->width);
}

static void nearest_clusters(void *state, const xsmi_range *r)
{
    split_work *w = state;
    float z[XSMI_LANES];
    for (size_t i = r->first; i < r->end && !xsmi_poll(w->v->context); i++) {
        const xsmi_features x = row_of(w, (uint32_t)i);
        float best = -INFINITY;
        for (uint32_t c = 0; c < w->split->parts; c += XSMI_LANES) {
            const uint32_t n = XSMI_MIN(XSMI_LANES, w->split->parts - c);
            memset(z, 0, sizeof z);
            w->kernels->column_sums(w->centre + c, w->stride, x.index, x.values, x.count, n, z);
            for (uint32_t j = 0; j < n; j++) {
                if (z[j] > best) {
                    best = z[j];
                    w->part[i] = c + j;
                }
            }
        }
    }
}

/* Sums the vectors of some of the clusters. */
static void sum_clusters(void *state, const xsmi_range *r)
{
    split_work *w = state;
    for (size_t c = r->index; c < w->split->parts; c += SUM_JOBS) {
        w->norm[c] = 0;
        for (size_t f = 0; f < w->width; f++) {
            w->sum[f * w->stride + c] = 0.0f;
        }
    }
    if (xsmi_poll(w->v->context)) {
        return;
    }
    for (uint32_t i = 0; i < w->split->count; i++) {
        const uint32_t c = w->part[i];
        if (c % SUM_JOBS != r->index) {
            continue;
        }
        const xsmi_features x = row_of(w, i);
        for (size_t k = 0; k < x.count; k++) {
            w->sum[x.index[k] * w->stride + c] += x.values[k];
        }
    }
    for (size_t c = r->index; c < w->split->parts; c += SUM_JOBS) {
        double square = 0;
        for (size_t f = 0; f < w->width; f++) {
            square += (double)w->sum[f * w->stride + c] * (double)w->sum[f * w->stride + c];
        }
        w->norm[c] = sqrt(square);
        const float scale = square > 0 ? (float)(1 / w->norm[c]) : 0.0f;
        for (size_t f = 0; f < w->width; f++) {
            w->centre[f * w->stride + c] = scale * w->sum[f * w->stride + c];
        }
    }
}

/* -- two halves ---------------------------------------------------------------------------------------------------- */

/* The labels with the largest scores become part 0; of equal scores the first. Returns how many changed. */
static uint32_t choose_halves(split_work *w)
{
    const uint32_t count = w->split->count, most = w->split->first[1];
    for (uint32_t i = 0; i < count; i++) {
        w->key[i] = (uint64_t)xsmi_sortable(w->score[i]) << 32 | (UINT32_MAX - i);
        w->last[i] = w->part[i];
        w->part[i] = 1;
    }
    xsmi_select_largest(w->key, count, most);
    uint32_t changed = 0;
    for (uint32_t i = 0; i < most; i++) {
        const uint32_t label = UINT32_MAX - (uint32_t)w->key[i];
        w->part[label] = 0;
        changed += w->last[label] != 0;
    }
    return changed;
}

static void start_halves(split_work *w, xsmi_stream *stream)
{
    const uint32_t a = (uint32_t)xsmi_stream_below(stream, w->split->count);
    const uint32_t b = (a + 1 + (uint32_t)xsmi_stream_below(stream, w->split->count - 1)) % w->split->count;
    memset(w->centre, 0, w->width * sizeof *w->centre);
    const xsmi_features x = row_of(w, a), y = row_of(w, b);
    for (size_t k = 0; k < x.count; k++) {
        w->centre[x.index[k]] += x.values[k];
    }
    for (size_t k = 0; k < y.count; k++) {
        w->centre[y.index[k]] -= y.values[k];
    }
    for (uint32_t i = 0; i < w->split->count; i++) {
        w->part[i] = UINT32_MAX;
    }
}

static void bisect(split_work *w, const xsmi_split_settings *settings, xsmi_stream *stream)
{
    const xsmi_split *split = w->split;
    start_halves(w, stream);
    w->fresh = true;
    for (uint32_t iteration = 0; iteration < settings->iterations && !xsmi_poll(w->v->context); iteration++) {
        run_parts(w, score_halves, split->count, SCORE_LABELS);
        if (choose_halves(w) == 0) {
            break;
        }
        run_parts(w, sum_half, 2, 1);
        w->fresh = false;
        const float a = (float)(w->norm[0] > 0 ? 1 / w->norm[0] : 0), b = (float)(w->norm[1] > 0 ? 1 / w->norm[1] : 0);
        const float *second = w->sum + w->width;
        for (size_t f = 0; f < w->width; f++) {
            w->centre[f] = a * w->sum[f] - b * second[f];
        }
    }
}

/* -- clusters ------------------------------------------------------------------------------------------------------ */

static void start_clusters(split_work *w, xsmi_stream *stream)
{
    const uint32_t count = w->split->count;
    memset(w->centre, 0, w->width * w->stride * sizeof *w->centre);
    memset(w->last, 0, count * sizeof *w->last);
    for (uint32_t c = 0; c < w->split->parts;) {
        const uint32_t i = (uint32_t)xsmi_stream_below(stream, count);
        if (w->last[i]) {
            continue;
        }
        w->last[i] = 1;
        const xsmi_features x = row_of(w, i);
        for (size_t k = 0; k < x.count; k++) {
            w->centre[x.index[k] * w->stride + c] = x.values[k];
        }
        c++;
    }
    for (uint32_t i = 0; i < count; i++) {
        w->part[i] = 0;
        w->last[i] = UINT32_MAX;
    }
}

static void cluster(split_work *w, const xsmi_split_settings *settings, xsmi_stream *stream)
{
    const xsmi_split *split = w->split;
    start_clusters(w, stream);
    for (uint32_t iteration = 0; iteration < settings->iterations && !xsmi_poll(w->v->context); iteration++) {
        run_parts(w, nearest_clusters, split->count, SCORE_LABELS);
        if (memcmp(w->part, w->last, split->count * sizeof *w->part) == 0) {
            break;
        }
        memcpy(w->last, w->part, split->count * sizeof *w->part);
        run_parts(w, sum_clusters, SUM_JOBS, 1);
    }
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

/* Sorts the labels by their part and leaves empty clusters out. If all are in one part, cuts it into halves. */
static void place_labels(split_work *w)
{
    xsmi_split *split = w->split;
    uint32_t parts = split->balanced ? 2 : 0;
    if (!split->balanced) {
        for (uint32_t c = 0; c < split->parts; c++) {
            w->norm[c] = 0;
        }
        for (uint32_t i = 0; i < split->count; i++) {
            w->norm[w->part[i]] += 1;
        }
        uint32_t at = 0;
        for (uint32_t c = 0; c < split->parts; c++) {
            const uint32_t n = (uint32_t)w->norm[c];
            if (n > 0) {
                split->first[parts] = at;
                w->norm[c] = parts++;
                at += n;
            }
        }
        split->first[parts] = at;
        for (uint32_t i = 0; i < split->count; i++) {
            w->part[i] = (uint32_t)w->norm[w->part[i]];
        }
        split->parts = parts;
    }
    if (parts == 1) {
        split->parts = 2;
        split->first[1] = split->count / 2;
        split->first[2] = split->count;
        return;
    }
    uint32_t *at = w->last; /* of each part; there are no more parts than labels */
    memcpy(at, split->first, parts * sizeof *at);
    for (uint32_t i = 0; i < split->count; i++) {
        w->order[at[w->part[i]]++] = split->labels[i];
    }
    memcpy(split->labels, w->order, split->count * sizeof *w->order);
}

static bool split_one(split_work *w, const xsmi_split_settings *settings, xsmi_split *split, bool wide)
{
    if (!work_start(w, split, wide)) {
        return false;
    }
    xsmi_stream stream;
    xsmi_stream_start(&stream, settings->seed, XSMI_STREAM_LABEL_SPLIT, split->position);
    if (split->balanced) {
        bisect(w, settings, &stream);
    } else {
        cluster(w, settings, &stream);
    }
    if (!xsmi_is_cancelled(w->v->context)) {
        place_labels(w);
    }
    return true;
}

static void split_small(void *state, size_t index, uint32_t thread)
{
    split_job *job = state;
    xsmi_split *split = &job->splits[job->small[index]];
    if (!split_one(&job->work[thread], job->settings, split, false)) {
        atomic_store(&job->failed, true);
    }
    xsmi_advance(job->v->context, split->count);
}

/* Does the splits of this process; all of them if `owner` is NULL. */
static xsm_status split_own(const xsmi_label_vectors *v, const xsmi_split_settings *settings, xsmi_split *splits,
                            size_t count, const uint32_t *owner, xsm_error *err)
{
    xsm_context *ctx = v->context;
    const uint32_t threads = xsmi_context_threads(ctx);
    size_t *small = xsmi_allocate(ctx, count, sizeof *small);
    split_job job = {xsmi_allocate_zero(ctx, threads, sizeof(split_work)), v, settings, splits, small, false};
    bool enough = small && job.work;
    for (uint32_t t = 0; enough && t < threads; t++) {
        enough = work_new(&job.work[t], v);
    }
    xsm_status status = XSM_OK;
    size_t smalls = 0;
    for (size_t s = 0; s < count && enough && status == XSM_OK; s++) {
        if (owner && owner[s] != xsmi_rank(ctx)) {
            continue;
        }
        if (entries_of(v, &splits[s]) <= WIDE_ENTRIES) {
            small[smalls++] = s;
            continue;
        }
        enough = split_one(&job.work[0], settings, &splits[s], true);
        xsmi_advance(ctx, splits[s].count);
        status = xsmi_go_on(ctx, err);
    }
    if (enough && status == XSM_OK) {
        status = xsmi_run(ctx, split_small, &job, smalls, err);
    }
    if (status == XSM_OK && (!enough || atomic_load(&job.failed))) {
        status = xsmi_fail_memory(err, (uint64_t)v->features * 16, "the clustering of labels");
    }
    for (uint32_t t = 0; job.work && t < threads; t++) {
        work_free(&job.work[t]);
    }
    xsmi_release(ctx, job.work, threads, sizeof *job.work);
    xsmi_release(ctx, small, count, sizeof *small);
    return status;
}

/* Divides the splits among the processes by their entries, and lists the arrays that each process fills. Returns the
 * number of arrays, at most 3 for each split, or 0 when there is no memory. */
static size_t divide_splits(const xsmi_label_vectors *v, const xsmi_split *splits, size_t count, uint64_t *work,
                            uint32_t *owner, xsmi_shared *arrays)
{
    for (size_t s = 0; s < count; s++) {
        work[s] = entries_of(v, &splits[s]);
    }
    if (xsmi_share_work(v->context, work, count, owner, NULL) != XSM_OK) {
        return 0;
    }
    size_t n = 0;
    for (size_t s = 0; s < count; s++) {
        const xsmi_split *split = &splits[s];
        arrays[n++] = (xsmi_shared){split->labels, split->count * sizeof *split->labels, owner[s]};
        if (!split->balanced) { /* there may be fewer parts than there is room for */
            const size_t bytes = ((size_t)split->parts + 1) * sizeof *split->first;
            memset(split->first, 0, bytes);
            arrays[n++] = (xsmi_shared){(void *)(uintptr_t)&split->parts, sizeof split->parts, owner[s]};
            arrays[n++] = (xsmi_shared){split->first, bytes, owner[s]};
        }
    }
    return n;
}

/* Each process does some of the splits; all get the results. */
static xsm_status split_divided(const xsmi_label_vectors *v, const xsmi_split_settings *settings, xsmi_split *splits,
                                size_t count, xsm_error *err)
{
    xsm_context *ctx = v->context;
    uint64_t *work = xsmi_allocate(ctx, count, sizeof *work);
    uint32_t *owner = xsmi_allocate(ctx, count, sizeof *owner);
    xsmi_shared *arrays = xsmi_allocate(ctx, 3 * (uint64_t)count, sizeof *arrays);
    const size_t listed = work && owner && arrays ? divide_splits(v, splits, count, work, owner, arrays) : 0;
    xsm_status status = listed > 0 ? split_own(v, settings, splits, count, owner, err)
                                   : xsmi_fail_memory(err, count * 3 * sizeof *arrays, "the clustering of labels");
    status = xsmi_share_arrays(ctx, status, arrays, listed, err);
    for (size_t s = 0; s < count && status == XSM_OK; s++) {
        xsmi_advance(ctx, owner[s] != xsmi_rank(ctx) ? splits[s].count : 0);
    }
    xsmi_release(ctx, work, count, sizeof *work);
    xsmi_release(ctx, owner, count, sizeof *owner);
    xsmi_release(ctx, arrays, 3 * count, sizeof *arrays);
    return status;
}

xsm_status xsmi_split_all(const xsmi_label_vectors *v, const xsmi_split_settings *settings, xsmi_split *splits,
                          size_t count, xsm_error *err)
{
    return settings->divided && count > 1 ? split_divided(v, settings, splits, count, err)
                                          : split_own(v, settings, splits, count, NULL, err);
}
