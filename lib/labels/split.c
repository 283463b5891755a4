#include "labels/split.h"

#include "base/activity.h"
#include "base/held.h"
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
/* Labels or sources in a job of such a split, and jobs that sum up halves, or clusters. */
#define SCORE_LABELS 1024
#define HALF_JOBS 4
#define SUM_JOBS 16

/* The work on one split: its labels' terms, and a copy of the sources with renumbered features, or the sources
 * themselves. */
typedef struct split_work {
    const xsmi_label_vectors *v;
    const xsmi_kernels *kernels;
    bool wide;
    xsmi_split *split;
    uint32_t width;   /* features */
    uint32_t sources; /* that occur */
    uint32_t jobs;    /* that sum up a half */
    uint64_t *first;  /* [count + 1] the first term of each label */
    uint32_t *source; /* [terms] numbers among those that occur */
    float *weight;    /* [terms] */
    uint64_t *offset;
    uint32_t *index;
    float *value;
    float *change;         /* [sources] by which their weights in the sum of the first half change */
    float *z;              /* [sources] scores, [sources][XSMI_LANES] with clusters */
    float *sum;            /* if balanced [jobs][width] parts of the sum of the first half, else [width][stride] */
    float *all;            /* if balanced [width] the sum of both */
    float *centre;         /* if balanced [width], the difference of both centres; else [width][stride] */
    size_t stride;         /* with clusters: floats from feature to feature */
    uint32_t lane, lanes;  /* with clusters: those that are scored */
    float *score;          /* [count] with the best cluster */
    uint64_t *key;         /* [count] of scores with the first of two parts */
    uint32_t *part, *last; /* [count] of each label, now and in the last iteration */
    double *norm;          /* [parts] of the sums */
    uint32_t *order;       /* [count] */
    xsmi_numbering features, numbers; /* numbers: of sources */
    struct {
        size_t first, source, weight, offset, index, value, change, z, sum, all, centre, score, key, part, last, norm,
            order;
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

static inline xsmi_features source_of(const split_work *w, size_t s)
{
    if (w->wide) {
        return xsmi_label_source(w->v, w->numbers.found[s]);
    }
    const xsmi_features f = {w->value + w->offset[s], w->index + w->offset[s],
                             (size_t)(w->offset[s + 1] - w->offset[s])};
    return f;
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static bool work_new(split_work *w, const xsmi_label_vectors *v)
{
    *w = (split_work){.v = v, .kernels = xsmi_context_kernels(v->context)};
    const bool enough = xsmi_numbering_new(&w->features, v->context, v->features);
    return xsmi_numbering_new(&w->numbers, v->context, xsmi_label_sources(v)) && enough;
}

static void work_free(split_work *w)
{
    xsm_context *ctx = w->v ? w->v->context : NULL;
    if (!ctx) {
        return;
    }
    xsmi_numbering_free(&w->features);
    xsmi_numbering_free(&w->numbers);
    xsmi_release(ctx, w->first, w->capacity.first, sizeof *w->first);
    xsmi_release(ctx, w->source, w->capacity.source, sizeof *w->source);
    xsmi_release(ctx, w->weight, w->capacity.weight, sizeof *w->weight);
    xsmi_release(ctx, w->offset, w->capacity.offset, sizeof *w->offset);
    xsmi_release(ctx, w->index, w->capacity.index, sizeof *w->index);
    xsmi_release(ctx, w->value, w->capacity.value, sizeof *w->value);
    xsmi_release(ctx, w->change, w->capacity.change, sizeof *w->change);
    xsmi_release(ctx, w->z, w->capacity.z, sizeof *w->z);
    xsmi_release(ctx, w->sum, w->capacity.sum, sizeof *w->sum);
    xsmi_release(ctx, w->all, w->capacity.all, sizeof *w->all);
    xsmi_release(ctx, w->centre, w->capacity.centre, sizeof *w->centre);
    xsmi_release(ctx, w->score, w->capacity.score, sizeof *w->score);
    xsmi_release(ctx, w->key, w->capacity.key, sizeof *w->key);
    xsmi_release(ctx, w->part, w->capacity.part, sizeof *w->part);
    xsmi_release(ctx, w->last, w->capacity.last, sizeof *w->last);
    xsmi_release(ctx, w->norm, w->capacity.norm, sizeof *w->norm);
    xsmi_release(ctx, w->order, w->capacity.order, sizeof *w->order);
}

/* Numbers the sources of a split. Returns the number of their entries, and sets *terms to that of the labels' terms. */
static uint64_t number_sources(split_work *w, const xsmi_split *split, uint64_t *terms)
{
    const xsmi_label_vectors *v = w->v;
    *terms = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        const xsmi_label_terms t = xsmi_label_terms_of(v, split->labels[i]);
        for (uint32_t k = 0; k < t.count; k++) {
            xsmi_marks_add(&w->numbers.marks, xsmi_term_source(v, &t, split->labels[i], k));
        }
        *terms += t.count;
        xsmi_dataset_poll(v->context, i + 1ull);
    }
    w->sources = xsmi_numbering_make(&w->numbers);
    uint64_t entries = 0;
    for (uint32_t s = 0; s < w->sources; s++) {
        entries += xsmi_label_source(v, w->numbers.found[s]).count;
    }
    return entries;
}

/* Lists the terms of the split's labels. */
static bool list_terms(split_work *w, uint64_t terms)
{
    const xsmi_label_vectors *v = w->v;
    const xsmi_split *split = w->split;
    if (!xsmi_reserve(v->context, &w->first, &w->capacity.first, (uint64_t)split->count + 1, sizeof *w->first) ||
        !xsmi_reserve(v->context, &w->source, &w->capacity.source, terms, sizeof *w->source) ||
        !xsmi_reserve(v->context, &w->weight, &w->capacity.weight, terms, sizeof *w->weight)) {
        return false;
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        const xsmi_label_terms t = xsmi_label_terms_of(v, split->labels[i]);
        w->first[i] = at;
        for (uint32_t k = 0; k < t.count; k++, at++) {
            w->source[at] = w->numbers.number[xsmi_term_source(v, &t, split->labels[i], k)];
            w->weight[at] = t.weight[k];
        }
        xsmi_dataset_poll(v->context, i + 1ull);
    }
    w->first[split->count] = at;
    return true;
}

/* Copies the sources, with their features numbered in rising order. */
static bool copy_sources(split_work *w, uint64_t entries)
{
    xsm_context *ctx = w->v->context;
    if (!xsmi_reserve(ctx, &w->offset, &w->capacity.offset, (uint64_t)w->sources + 1, sizeof *w->offset) ||
        !xsmi_reserve(ctx, &w->index, &w->capacity.index, entries, sizeof *w->index) ||
        !xsmi_reserve(ctx, &w->value, &w->capacity.value, entries, sizeof *w->value)) {
        return false;
    }
    uint64_t at = 0;
    for (uint32_t s = 0; s < w->sources; s++) {
        const xsmi_features x = xsmi_label_source(w->v, w->numbers.found[s]);
        w->offset[s] = at;
        for (size_t k = 0; k < x.count; k++, at++) {
            xsmi_marks_add(&w->features.marks, x.index[k]);
            w->index[at] = x.index[k];
            w->value[at] = x.values[k];
        }
    }
    w->offset[w->sources] = at;
    w->width = xsmi_numbering_make(&w->features);
    for (uint64_t k = 0; k < at; k++) {
        w->index[k] = w->features.number[w->index[k]];
    }
    return true;
}

static bool work_start(split_work *w, xsmi_split *split, bool wide)
{
    xsm_context *ctx = w->v->context;
    w->split = split;
    w->wide = wide;
    w->width = w->v->features;
    uint64_t terms;
    const uint64_t entries = number_sources(w, split, &terms);
    if (!list_terms(w, terms) || (!wide && !copy_sources(w, entries))) {
        return false;
    }
    const bool balanced = split->balanced;
    w->stride = balanced ? 1 : (split->parts + 15) / 16 * 16;
    w->jobs = wide ? HALF_JOBS : 1;
    const uint64_t centres = (uint64_t)w->width * w->stride;
    return xsmi_reserve(ctx, &w->change, &w->capacity.change, balanced ? w->sources : 0, sizeof *w->change) &&
           xsmi_reserve(ctx, &w->z, &w->capacity.z, (balanced ? 1ull : XSMI_LANES) * w->sources, sizeof *w->z) &&
           xsmi_reserve(ctx, &w->sum, &w->capacity.sum, centres * (balanced ? w->jobs : 1), sizeof *w->sum) &&
           xsmi_reserve(ctx, &w->all, &w->capacity.all, balanced ? w->width : 0, sizeof *w->all) &&
           xsmi_reserve(ctx, &w->centre, &w->capacity.centre, centres, sizeof *w->centre) &&
           xsmi_reserve(ctx, &w->score, &w->capacity.score, balanced ? 0 : split->count, sizeof *w->score) &&
           xsmi_reserve(ctx, &w->key, &w->capacity.key, balanced ? split->count : 0, sizeof *w->key) &&
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

/* Adds the vector of the split's label i to a centre. */
static void add_vector(split_work *w, uint32_t i, float scale, float *centre, size_t stride)
{
    for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++) {
        const xsmi_features x = source_of(w, w->source[k]);
        for (size_t e = 0; e < x.count; e++) {
            centre[x.index[e] * stride] += scale * w->weight[k] * x.values[e];
        }
    }
}

static void score_sources(void *state, const xsmi_range *r)
{
    split_work *w = state;
    static const uint32_t only[1] = {0};
    for (size_t s = r->first; s < r->end; s++) {
        const xsmi_features x = source_of(w, s);
        w->kernels->sparse_gather_scores(w->centre, 0, only, 1, x.index, x.values, x.count, &w->z[s]);
    }
}

static void score_halves(void *state, const xsmi_range *r)
{
    split_work *w = state;
    for (size_t i = r->first; i < r->end; i++) {
        float score = 0.0f;
        for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++) {
            score += w->weight[k] * w->z[w->source[k]];
        }
        w->key[i] = (uint64_t)xsmi_sortable(score) << 32 | (UINT32_MAX - (uint32_t)i);
    }
}

/* Changes a part of the sum. */
static void sum_sources(void *state, const xsmi_range *r)
{
    split_work *w = state;
    float *sum = w->sum + r->index * w->width;
    for (size_t s = r->first; s < r->end && !(w->wide && xsmi_poll(w->v->context)); s++) {
        const float change = w->change[s];
        if (change != 0.0f) {
            const xsmi_features x = source_of(w, s);
            for (size_t k = 0; k < x.count; k++) {
                sum[x.index[k]] += change * x.values[k];
            }
            w->change[s] = 0.0f;
        }
    }
}

static void score_source_lanes(void *state, const xsmi_range *r)
{
    split_work *w = state;
    for (size_t s = r->first; s < r->end; s++) {
        const xsmi_features x = source_of(w, s);
        float *z = w->z + s * XSMI_LANES;
        memset(z, 0, XSMI_LANES * sizeof *z);
        w->kernels->column_sums(w->centre + w->lane, w->stride, x.index, x.values, x.count, w->lanes, z);
    }
}

static void nearest_clusters(void *state, const xsmi_range *r)
{
    split_work *w = state;
    for (size_t i = r->first; i < r->end; i++) {
        float z[XSMI_LANES] = {0};
        for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++) {
            for (uint32_t j = 0; j < XSMI_LANES; j++) {
                z[j] += w->weight[k] * w->z[w->source[k] * (size_t)XSMI_LANES + j];
            }
        }
        for (uint32_t j = 0; j < w->lanes; j++) {
            if (z[j] > w->score[i] || (w->lane == 0 && j == 0)) {
                w->score[i] = z[j];
                w->part[i] = w->lane + j;
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
        if (w->part[i] % SUM_JOBS == r->index) {
            add_vector(w, i, 1.0f, w->sum + w->part[i], w->stride);
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

/* Makes the labels with the largest scores part 0; of equal scores the first. Notes how the weights of sources in its
 * sum change. Returns how many labels changed. */
static uint32_t choose_halves(split_work *w)
{
    const uint32_t count = w->split->count, most = w->split->first[1];
    for (uint32_t i = 0; i < count; i++) {
        w->last[i] = w->part[i];
        w->part[i] = 1;
    }
    xsmi_select_largest(w->key, count, most);
    for (uint32_t i = 0; i < most; i++) {
        w->part[UINT32_MAX - (uint32_t)w->key[i]] = 0;
    }
    uint32_t changed = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (w->part[i] == w->last[i]) {
            continue;
        }
        changed += w->part[i] == 0;
        const float sign = w->part[i] == 0 ? 1.0f : w->last[i] == 0 ? -1.0f : 0.0f;
        for (uint64_t k = w->first[i]; k < w->first[i + 1]; k++) {
            w->change[w->source[k]] += sign * w->weight[k];
        }
    }
    return changed;
}

static void sum_changes(split_work *w)
{
    run_parts(w, sum_sources, w->sources, w->sources / w->jobs + 1);
}

/* Returns the sum of feature f in the first half. */
static inline float half_sum(const split_work *w, size_t f)
{
    float sum = w->sum[f];
    for (uint32_t j = 1; j < w->jobs; j++) {
        sum += w->sum[j * (size_t)w->width + f];
    }
    return sum;
}

static void centre_halves(split_work *w)
{
    double first = 0, second = 0;
    for (size_t f = 0; f < w->width; f++) {
        const double a = (double)half_sum(w, f), b = (double)w->all[f] - a;
        first += a * a;
        second += b * b;
    }
    const float a = first > 0 ? (float)(1 / sqrt(first)) : 0.0f, b = second > 0 ? (float)(1 / sqrt(second)) : 0.0f;
    for (size_t f = 0; f < w->width; f++) {
        const float sum = half_sum(w, f);
        w->centre[f] = a * sum - b * (w->all[f] - sum);
    }
}

/* Sums up all labels, and starts the centres from two of them. */
static void start_halves(split_work *w, xsmi_stream *stream)
{
    const uint32_t count = w->split->count;
    const uint32_t a = (uint32_t)xsmi_stream_below(stream, count);
    const uint32_t b = (a + 1 + (uint32_t)xsmi_stream_below(stream, count - 1)) % count;
    memset(w->centre, 0, w->width * sizeof *w->centre);
    add_vector(w, a, 1.0f, w->centre, 1);
    add_vector(w, b, -1.0f, w->centre, 1);
    memset(w->sum, 0, w->jobs * (size_t)w->width * sizeof *w->sum);
    memset(w->change, 0, w->sources * sizeof *w->change);
    for (uint64_t k = 0; k < w->first[count]; k++) {
        w->change[w->source[k]] += w->weight[k];
    }
    sum_changes(w);
    for (size_t f = 0; f < w->width; f++) {
        w->all[f] = half_sum(w, f);
    }
    memset(w->sum, 0, w->jobs * (size_t)w->width * sizeof *w->sum);
    for (uint32_t i = 0; i < count; i++) {
        w->part[i] = UINT32_MAX;
    }
}

static void bisect(split_work *w, const xsmi_split_settings *settings, xsmi_stream *stream)
{
    start_halves(w, stream);
    for (uint32_t iteration = 0; iteration < settings->iterations && !xsmi_poll(w->v->context); iteration++) {
        run_parts(w, score_sources, w->sources, SCORE_LABELS);
        run_parts(w, score_halves, w->split->count, SCORE_LABELS);
        if (choose_halves(w) == 0) {
            break;
        }
        sum_changes(w);
        centre_halves(w);
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
        add_vector(w, i, 1.0f, w->centre + c++, w->stride);
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
        for (w->lane = 0; w->lane < split->parts && !xsmi_poll(w->v->context); w->lane += XSMI_LANES) {
            w->lanes = XSMI_MIN(XSMI_LANES, split->parts - w->lane);
            run_parts(w, score_source_lanes, w->sources, SCORE_LABELS);
            run_parts(w, nearest_clusters, split->count, SCORE_LABELS);
        }
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
    uint64_t terms;
    for (size_t s = 0; s < count && enough && status == XSM_OK; s++) {
        if (owner && owner[s] != xsmi_rank(ctx)) {
            continue;
        }
        if (number_sources(&job.work[0], &splits[s], &terms) + terms <= WIDE_ENTRIES) {
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

/* Returns the approximate work of a split. */
static uint64_t entries_of(const xsmi_label_vectors *v, const xsmi_split *split)
{
    uint64_t entries = 0;
    for (uint32_t i = 0; i < split->count; i++) {
        const xsmi_label_terms t = xsmi_label_terms_of(v, split->labels[i]);
        for (uint32_t k = 0; k < t.count; k++) {
            entries += xsmi_label_source(v, xsmi_term_source(v, &t, split->labels[i], k)).count;
        }
    }
    return entries;
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

/* Does the splits on all processes, each some of them; all get the results. */
static xsm_status split_divided(const xsmi_label_vectors *v, const xsmi_split_settings *settings, xsmi_split *splits,
                                size_t count, xsm_error *err)
{
    xsm_context *ctx = v->context;
    xsmi_held held = {.context = ctx};
    uint64_t *work = xsmi_hold(&held, count, sizeof *work);
    uint32_t *owner = xsmi_hold(&held, count, sizeof *owner);
    xsmi_shared *arrays = xsmi_hold(&held, 3 * (uint64_t)count, sizeof *arrays);
    const size_t listed = work && owner && arrays ? divide_splits(v, splits, count, work, owner, arrays) : 0;
    xsm_status status = listed > 0 ? split_own(v, settings, splits, count, owner, err)
                                   : xsmi_fail_memory(err, count * 3 * sizeof *arrays, "the clustering of labels");
    status = xsmi_share_arrays(ctx, status, arrays, listed, err);
    for (size_t s = 0; s < count && status == XSM_OK; s++) {
        xsmi_advance(ctx, owner[s] != xsmi_rank(ctx) ? splits[s].count : 0);
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsmi_split_all(const xsmi_label_vectors *v, const xsmi_split_settings *settings, xsmi_split *splits,
                          size_t count, xsm_error *err)
{
    return settings->divided && count > 1 ? split_divided(v, settings, splits, count, err)
                                          : split_own(v, settings, splits, count, NULL, err);
}
