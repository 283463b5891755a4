/*
 * The clusters' centres: spherical k-means on a sample of the rows, initialised as in k-means++ (Arthur and
 * Vassilvitskii 2007), and the nearest centre of a row.
 *
 * Sums are made in an order that does not depend on the threads, so the centres do not depend on them either.
 */
#include "index/spherical.h"

#include "base/activity.h"
#include "base/random.h"
#include "base/arena.h"
#include "base/held.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

enum {
    PIECE = 512,      /* rows of one job */
    START_SAMPLES = 4 /* samples for each centre, for k-means++ */
};

double xsmi_sphere_prepare(const xsmi_sphere *s, float *row)
{
    s->kernels->axpby(row, s->mean, s->width, -1, 1);
    double square = (double)s->kernels->dot(row, row, s->width), rest = s->longest - square;
    row[s->width] = s->longest > 0 ? rest > 0 ? (float)sqrt(rest) : 0.0f : 1.0f; /* 1: all rows are equal */
    return square;
}

void xsmi_sphere_pack_centres(xsmi_sphere *s)
{
    size_t width = (size_t)s->width + 1;
    for (uint32_t c = 0; c < s->clusters; c += XSMI_LANES) {
        const float *x[XSMI_LANES];
        uint32_t n = s->clusters - c < XSMI_LANES ? s->clusters - c : XSMI_LANES;
        for (uint32_t l = 0; l < n; l++) {
            x[l] = s->centres + (c + l) * s->stride;
        }
        s->kernels->pack(x, n, width, s->packed_centres + c * width);
    }
}

/* -- nearest centres ----------------------------------------------------------------------------------------------- */

typedef struct assign_job {
    const xsmi_sphere *sphere;
    const float *rows;
    uint32_t count;
    uint32_t *cluster;
    float *gap; /* or NULL */
    unsigned char *scratch;
    size_t scratch_each;
} assign_job;

typedef struct assign_scratch {
    float *tile;   /* [ASSIGN_GROUP][XSMI_LANES] */
    float *scores; /* [ASSIGN_GROUP][C rounded up] */
} assign_scratch;

/* Rows that are compared with the centres together. */
#define ASSIGN_GROUP 56

static assign_scratch divide_assign(const xsmi_sphere *s, xsmi_arena *arena)
{
    assign_scratch p;
    p.tile = xsmi_arena_take(arena, (size_t)ASSIGN_GROUP * XSMI_LANES, sizeof *p.tile);
    p.scores = xsmi_arena_take(arena, (size_t)ASSIGN_GROUP * xsmi_whole_blocks(s->clusters), sizeof *p.scores);
    return p;
}

/* Returns the first index of the largest of n scores, and sets *gap to its gap to all others; 0 and -1 if one is
 * NaN. */
static uint32_t best_of(const xsmi_kernels *kernels, const float *scores, uint32_t n, float *gap)
{
    enum { RUN = 64 };
    float most = -INFINITY, other = -INFINITY;
    uint32_t position = 0;
    for (uint32_t first = 0; first < n; first += RUN) {
        float best = kernels->row_max(scores + first, n - first < RUN ? n - first : RUN);
        if (!(best <= most)) {
            other = most;
            most = best;
            position = first;
        } else {
            other = XSMI_MAX(best, other);
        }
    }
    uint32_t found = UINT32_MAX;
    for (uint32_t end = n - position < RUN ? n : position + RUN; position < end; position++) {
        if (scores[position] == most && found == UINT32_MAX) {
            found = position;
        } else {
            other = XSMI_MAX(scores[position], other);
        }
    }
    *gap = found == UINT32_MAX ? -1 : most - other;
    return found == UINT32_MAX ? 0 : found;
}

static void run_assign(void *state, const xsmi_range *r)
{
    const assign_job *job = state;
    const xsmi_sphere *s = job->sphere;
    xsmi_arena arena = {job->scratch + r->thread * job->scratch_each, 0};
    assign_scratch p = divide_assign(s, &arena);
    size_t all = xsmi_whole_blocks(s->clusters), width = (size_t)s->width + 1;
    for (size_t at = r->first; at < r->end; at += ASSIGN_GROUP) {
        uint32_t n = (uint32_t)(r->end - at < ASSIGN_GROUP ? r->end - at : ASSIGN_GROUP);
        if (xsmi_poll(s->context)) {
            return;
        }
        for (uint32_t c = 0; c < s->clusters; c += XSMI_LANES) {
            s->kernels->score_tile(job->rows + at * s->stride, s->stride, n, s->packed_centres + c * width, width, 1,
                                   NULL, NULL, p.tile);
            for (uint32_t i = 0; i < n; i++) {
                memcpy(p.scores + i * all + c, p.tile + i * XSMI_LANES, XSMI_LANES * sizeof *p.tile);
            }
        }
        for (uint32_t i = 0; i < n; i++) {
            float gap;
            job->cluster[at + i] = best_of(s->kernels, p.scores + i * all, s->clusters, &gap);
            if (job->gap) {
                job->gap[at + i] = gap;
            }
        }
    }
}

xsm_status xsmi_sphere_assign(const xsmi_sphere *s, const float *rows, uint32_t count, uint32_t *cluster, float *gap,
                              xsm_error *err)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_assign(s, &arena);
    size_t threads = xsmi_context_threads(s->context);
    assign_job job = {s, rows, count, cluster, gap, xsmi_allocate(s->context, threads, arena.used), arena.used};
    if (!job.scratch) {
        return xsmi_fail_memory(err, threads * arena.used, "the search of clusters");
    }
    xsm_status status = xsmi_run_ranges(s->context, run_assign, &job, count, PIECE, err);
    xsmi_release(s->context, job.scratch, threads, job.scratch_each);
    return status;
}

/* -- samples ------------------------------------------------------------------------------------------------------- */

/* Rows at even steps, with the extra coordinate, of norm 1. */
typedef struct row_sample {
    float *rows; /* [count][stride] */
    uint32_t *cluster;
    uint32_t count;
} row_sample;

typedef struct read_job {
    xsmi_sphere *sphere;
    const xsm_index_source *source;
    float *rows;
    uint32_t count;  /* rows of the sample */
    double *longest; /* by job; NULL when the norm is known and rows get their extra coordinate */
} read_job;

static void run_read(void *state, const xsmi_range *r)
{
    const read_job *job = state;
    const xsmi_sphere *s = job->sphere;
    for (size_t i = r->first; i < r->end; i++) {
        float *row = job->rows + i * s->stride;
        uint32_t k = (uint32_t)((uint64_t)i * s->count / job->count);
        job->source->read(job->source, NULL, k, 1, row, s->stride);
        (void)xsmi_sphere_prepare(s, row);
        if (s->longest > 0) {
            s->kernels->scale(row, (size_t)s->width + 1, (float)(1 / sqrt(s->longest)));
        }
    }
}

static void run_lengths(void *state, const xsmi_range *r)
{
    const read_job *job = state;
    const xsmi_sphere *s = job->sphere;
    float *row = job->rows + r->thread * s->stride;
    job->longest[r->index] = 0;
    for (size_t k = r->first; k < r->end; k++) {
        job->source->read(job->source, NULL, (uint32_t)k, 1, row, s->stride);
        double square = xsmi_sphere_prepare(s, row);
        job->longest[r->index] = XSMI_MAX(square, job->longest[r->index]);
    }
}

typedef struct mean_of_all {
    xsmi_sphere *sphere;
    const xsm_index_source *source;
    float *rows;  /* [threads][stride] */
    double *sums; /* [jobs][width] */
} mean_of_all;

static void run_sums(void *state, const xsmi_range *r)
{
    const mean_of_all *job = state;
    const xsmi_sphere *s = job->sphere;
    float *row = job->rows + r->thread * s->stride;
    double *sum = job->sums + r->index * s->width;
    memset(sum, 0, s->width * sizeof *sum);
    for (size_t k = r->first; k < r->end; k++) {
        job->source->read(job->source, NULL, (uint32_t)k, 1, row, s->stride);
        for (uint32_t j = 0; j < s->width; j++) {
            sum[j] += (double)row[j];
        }
    }
}

xsm_status xsmi_sphere_find_mean(xsmi_sphere *s, const xsm_index_source *source, xsm_error *err)
{
    size_t jobs = ((size_t)s->count + PIECE - 1) / PIECE, threads = xsmi_context_threads(s->context);
    xsmi_held held = {.context = s->context};
    mean_of_all job = {s, source, xsmi_hold(&held, threads, s->stride * sizeof *job.rows),
                       xsmi_hold(&held, jobs, s->width * sizeof *job.sums)};
    double *sum = xsmi_hold_zeros(&held, s->width, sizeof *sum);
    xsm_status status = xsmi_held_check(&held, "the mean of the rows", err);
    status = status == XSM_OK ? xsmi_run_ranges(s->context, run_sums, &job, s->count, PIECE, err) : status;
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        for (uint32_t j = 0; j < s->width; j++) {
            sum[j] += job.sums[i * s->width + j];
        }
    }
    for (uint32_t j = 0; status == XSM_OK && j < s->width; j++) {
        s->mean[j] = (float)(sum[j] / s->count);
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsmi_sphere_find_longest(xsmi_sphere *s, const xsm_index_source *source, xsm_error *err)
{
    size_t jobs = ((size_t)s->count + PIECE - 1) / PIECE, threads = xsmi_context_threads(s->context);
    read_job job = {.sphere = s, .source = source};
    xsmi_held held = {.context = s->context};
    job.rows = xsmi_hold(&held, threads, s->stride * sizeof *job.rows);
    job.longest = xsmi_hold(&held, jobs, sizeof *job.longest);
    s->longest = 0;
    xsm_status status = xsmi_held_check(&held, "the lengths of rows", err);
    status = status == XSM_OK ? xsmi_run_ranges(s->context, run_lengths, &job, s->count, PIECE, err) : status;
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        s->longest = XSMI_MAX(job.longest[i], s->longest);
    }
    xsmi_held_release(&held);
    return status;
}

/* -- k-means++ ----------------------------------------------------------------------------------------------------- */

typedef struct start_job {
    const xsmi_sphere *sphere;
    const row_sample *sample;
    uint32_t step, count; /* take every step-th row of the sample */
    const float *centre;
    double *distance; /* [count] to the nearest centre so far: half its square */
} start_job;

static void run_distances(void *state, const xsmi_range *r)
{
    const start_job *job = state;
    const xsmi_sphere *s = job->sphere;
    for (size_t i = r->first; i < r->end; i++) {
        const float *row = job->sample->rows + (size_t)i * job->step * s->stride;
        double distance = 1 - (double)s->kernels->dot(row, job->centre, (size_t)s->width + 1);
        distance = distance > 1e-7 ? distance : 0; /* an equal row */
        job->distance[i] = XSMI_MIN(distance, job->distance[i]);
    }
}

/* Returns the point that a uniform number selects with probabilities in proportion to distance. */
static uint32_t draw(const start_job *job, xsmi_stream *stream)
{
    double total = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        total += job->distance[i];
    }
    if (!(total > 0)) {
        return (uint32_t)xsmi_stream_below(stream, job->count);
    }
    double rest = xsmi_stream_uniform(stream) * total;
    uint32_t last = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->distance[i] > 0) {
            last = i;
            rest -= job->distance[i];
            if (rest < 0) {
                break;
            }
        }
    }
    return last;
}

static xsm_status start_centres(xsmi_sphere *s, const row_sample *of, uint64_t seed, xsm_error *err)
{
    uint64_t wanted = (uint64_t)s->clusters * START_SAMPLES;
    start_job job = {.sphere = s, .sample = of};
    job.step = wanted < of->count ? (uint32_t)(of->count / wanted) : 1;
    job.count = of->count / job.step;
    XSMI_TRY(xsmi_array_new(s->context, &job.distance, job.count, sizeof *job.distance, "the start of clusters", err));
    for (uint32_t i = 0; i < job.count; i++) {
        job.distance[i] = INFINITY;
    }
    xsm_status status = XSM_OK;
    xsmi_stream stream;
    xsmi_stream_start(&stream, seed, XSMI_STREAM_CLUSTERS, 0);
    uint32_t chosen = (uint32_t)xsmi_stream_below(&stream, job.count);
    for (uint32_t c = 0; c < s->clusters && status == XSM_OK; c++) {
        float *centre = s->centres + c * s->stride;
        memcpy(centre, of->rows + (size_t)chosen * job.step * s->stride, s->stride * sizeof *centre);
        job.centre = centre;
        status = xsmi_run_ranges(s->context, run_distances, &job, job.count, PIECE, err);
        status = status == XSM_OK ? xsmi_go_on(s->context, err) : status;
        xsmi_advance(s->context, 1);
        chosen = status == XSM_OK ? draw(&job, &stream) : 0;
    }
    xsmi_release(s->context, job.distance, job.count, sizeof *job.distance);
    return status;
}

/* -- k-means ------------------------------------------------------------------------------------------------------- */

void xsmi_sort_by_cluster(const uint32_t *cluster, uint32_t count, uint32_t clusters, uint32_t *starts, uint32_t *order)
{
    memset(starts, 0, ((size_t)clusters + 1) * sizeof *starts);
    for (uint32_t i = 0; i < count; i++) {
        starts[cluster[i] + 1]++;
    }
    for (uint32_t c = 0; c < clusters; c++) {
        starts[c + 1] += starts[c];
    }
    for (uint32_t i = 0; i < count; i++) {
        order[starts[cluster[i]]++] = i;
    }
    for (uint32_t c = clusters; c > 0; c--) {
        starts[c] = starts[c - 1];
    }
    starts[0] = 0;
}

typedef struct mean_job {
    xsmi_sphere *sphere;
    const row_sample *sample;
    const uint32_t *starts, *order;
    double *sums; /* [threads][width + 1] */
} mean_job;

/* Computes the direction of a cluster's mean; a cluster without members keeps its centre. */
static void run_means(void *state, size_t index, uint32_t thread)
{
    const mean_job *job = state;
    const xsmi_sphere *s = job->sphere;
    size_t width = (size_t)s->width + 1;
    double *sum = job->sums + thread * width, square = 0;
    memset(sum, 0, width * sizeof *sum);
    for (uint32_t j = job->starts[index]; j < job->starts[index + 1]; j++) {
        const float *row = job->sample->rows + job->order[j] * s->stride;
        for (size_t f = 0; f < width; f++) {
            sum[f] += (double)row[f];
        }
    }
    for (size_t f = 0; f < width; f++) {
        square += sum[f] * sum[f];
    }
    if (square > 0) {
        float *centre = s->centres + index * s->stride;
        for (size_t f = 0; f < width; f++) {
            centre[f] = (float)(sum[f] / sqrt(square));
        }
    }
}

static xsm_status move_centres(xsmi_sphere *s, row_sample *of, int64_t iterations, xsm_error *err)
{
    size_t threads = xsmi_context_threads(s->context), width = (size_t)s->width + 1;
    xsmi_held held = {.context = s->context};
    uint32_t *starts = xsmi_hold(&held, (size_t)s->clusters + 1, sizeof *starts);
    uint32_t *order = xsmi_hold(&held, of->count, sizeof *order);
    mean_job job = {s, of, starts, order, xsmi_hold(&held, threads, width * sizeof *job.sums)};
    xsm_status status = xsmi_held_check(&held, "the members of clusters", err);
    for (int64_t i = 0; i < iterations && status == XSM_OK; i++) {
        xsmi_sphere_pack_centres(s);
        xsmi_advance(s->context, s->clusters);
        status = xsmi_sphere_assign(s, of->rows, of->count, of->cluster, NULL, err);
        if (status == XSM_OK) {
            xsmi_sort_by_cluster(of->cluster, of->count, s->clusters, starts, order);
            status = xsmi_run(s->context, run_means, &job, s->clusters, err);
        }
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsmi_sphere_find_centres(xsmi_sphere *s, const xsmi_sphere_settings *settings,
                                    const xsm_index_source *source, xsm_error *err)
{
    uint64_t wanted = (uint64_t)s->clusters * (uint64_t)settings->samples;
    row_sample sample = {.count = wanted < s->count ? (uint32_t)wanted : s->count};
    xsmi_held held = {.context = s->context};
    sample.rows = xsmi_hold_zeros(&held, sample.count, s->stride * sizeof *sample.rows);
    sample.cluster = xsmi_hold(&held, sample.count, sizeof *sample.cluster);
    xsm_status status = xsmi_held_check(&held, "a sample of rows", err);
    xsmi_activity activity;
    xsmi_begin(&activity, s->context, "finding clusters", "centres",
               (uint64_t)s->clusters * (1 + (uint64_t)settings->iterations));
    if (status == XSM_OK) {
        read_job job = {s, source, sample.rows, sample.count, NULL};
        status = xsmi_run_ranges(s->context, run_read, &job, sample.count, PIECE, err);
    }
    if (status == XSM_OK) {
        status = start_centres(s, &sample, settings->seed, err);
    }
    if (status == XSM_OK) {
        status = move_centres(s, &sample, settings->iterations, err);
    }
    status = xsmi_end(&activity, status, err);
    xsmi_held_release(&held);
    return status;
}
