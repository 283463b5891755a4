/* Searches: dividing queries into blocks for the threads, and checking the lists of a table. */
#include "index/index.h"

#include "base/activity.h"
#include "base/arena.h"
#include "base/entry.h"
#include "base/overlap.h"
#include "data/batch.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Calls query() or next(), and checks the lists. */
static xsm_status search(const xsm_index *x, const xsm_index_block *block, bool further, xsm_error *err)
{
    xsm_error unsaid = XSM_ERROR_INIT;
    xsm_status status = (further ? x->ops.next : x->ops.query)(x->state, block, &unsaid);
    if (status != XSM_OK) {
        /* A host's table may return an error without a message. */
        return unsaid.status == status ? xsmi_fail_copy(err, &unsaid)
                                       : xsmi_fail(err, status, "index '%s': a search failed", x->ops.name);
    }
    const bool trusted = (x->ops.flags & XSM_INDEX_UNCHECKED) != 0;
    for (uint32_t i = 0; i < block->count; i++) {
        const uint32_t length = block->lengths[i], listed = trusted || length > block->top ? 0 : length;
        const uint32_t *classes = block->classes + i * block->list_stride;
        bool bad = length > block->top;
        for (uint32_t j = 0; j < listed; j++) { /* no early exit, so that the loop is vectorised */
            bad |= classes[j] >= x->count;
        }
        if (bad) {
            return xsmi_fail(err, XSM_ERROR_DATA, "index '%s' lists more rows than asked for, or one that is not there",
                             x->ops.name);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_index_block(const xsm_index *x, const xsm_index_block *block, xsm_error *err)
{
    XSMI_TRY(search(x, block, false, err));
    for (uint32_t i = 0; i < block->count; i++) {
        for (uint32_t j = block->lengths[i]; j < block->top; j++) {
            block->classes[i * block->list_stride + j] = UINT32_MAX;
            block->scores[i * block->list_stride + j] = -INFINITY;
        }
    }
    return XSM_OK;
}

size_t xsmi_index_cursor(const xsm_index *x)
{
    const size_t bytes = x->ops.cursor(x->state);
    return bytes > SIZE_MAX - XSMI_ALIGNMENT ? SIZE_MAX
                                             : (bytes + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
}

xsm_status xsmi_index_next(const xsm_index *x, const xsm_index_block *block, xsm_error *err)
{
    return search(x, block, true, err);
}

static void copy_query(const xsm_index *x, const float *from, float *to)
{
    memcpy(to, from, x->width * sizeof *to);
    for (size_t j = x->width; j < xsmi_index_query_stride(x); j++) {
        to[j] = j < x->own_width; /* 1 for the bias */
    }
}

typedef struct query_job {
    const xsm_index *index;
    const xsm_index_search *search;
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each;
    uint64_t *probed;   /* [n] */
    xsm_status *status; /* by job */
    xsm_error *errors;  /* by job */
} query_job;

static void run_queries(void *state, const xsmi_range *r)
{
    const query_job *job = state;
    const xsm_index *x = job->index;
    const xsm_index_search *s = job->search;
    const size_t first = r->first;
    const uint32_t count = (uint32_t)(r->end - first);
    xsmi_arena arena = {job->scratch + r->thread * job->scratch_each, 0};
    size_t stride = xsmi_index_query_stride(x);
    float *queries = xsmi_arena_take(&arena, (uint64_t)XSM_INDEX_QUERIES * stride, sizeof *queries);
    for (uint32_t i = 0; i < count; i++) {
        copy_query(x, s->queries + (first + i) * s->stride, queries + i * stride);
        job->probed[first + i] = 0;
    }
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = stride,
        .count = count,
        .top = s->top,
        .least_score = s->has_least_score ? s->least_score : -INFINITY,
        .classes = s->classes + first * s->top,
        .scores = s->scores + first * s->top,
        .lengths = s->lengths + first,
        .probed = job->probed + first,
        .scratch = arena.base + arena.used,
        .list_stride = s->top,
    };
    job->errors[r->index] = (xsm_error)XSM_ERROR_INIT;
    job->status[r->index] = xsmi_index_block(x, &block, &job->errors[r->index]);
    xsmi_advance(x->context, count);
}

static xsm_status check_queries(const xsm_index *x, const xsm_index_search *s, xsm_error *err)
{
    const xsmi_kernels *kernels = xsmi_context_kernels(x->context);
    for (uint64_t i = 0; i < s->count; i++) {
        const float *query = s->queries + i * s->stride;
        if (kernels->dot(query, query, x->width) < INFINITY) {
            continue;
        }
        for (uint32_t j = 0; j < x->width; j++) {
            if (!isfinite(query[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "query %llu, number %u (both from 0) is %g; finite numbers are accepted",
                                 (unsigned long long)i, j, (double)query[j]);
            }
        }
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "query %llu (from 0) is so long that its scores would not be finite; a length below %.2g is "
                         "accepted",
                         (unsigned long long)i, sqrt((double)FLT_MAX));
    }
    return XSM_OK;
}

/* Refuses rows so long that a score is infinite. */
static xsm_status check_scores(const xsm_index_search *s, xsm_error *err)
{
    for (uint64_t i = 0; i < s->count; i++) {
        for (uint32_t j = 0; j < s->lengths[i]; j++) {
            if (!isfinite(s->scores[i * s->top + j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE, "query %llu (from 0) has scores that are not finite",
                                 (unsigned long long)i);
            }
        }
    }
    return XSM_OK;
}

xsm_status xsm_index_query(const xsm_index *x, xsm_index_search *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {x, "the index"}, {given, "the search"});
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    XSMI_TRY(XSMI_READ(xsm_index_search, &s, given, err));
    XSMI_TRY(xsmi_check_float32("xsm_index_search.dtype", s.dtype, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_index_search, &s, has_least_score, err));
    if (!x->built) {
        return xsmi_fail(err, XSM_ERROR_STATE, "index '%s' is not built", x->ops.name);
    }
    if (!s.queries || !s.classes || !s.scores || !s.lengths) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_search.%s is NULL",
                         !s.queries   ? "queries"
                         : !s.classes ? "classes"
                         : !s.scores  ? "scores"
                                      : "lengths");
    }
    if (s.stride < x->width) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "queries %zu floats apart for rows of %u numbers", s.stride, x->width);
    }
    if (s.count < 1 || s.top < 1 || s.top > x->count) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%llu queries for %u rows each; accepted are 1 query and more, for 1 to %u rows each",
                         (unsigned long long)s.count, s.top, x->count);
    }
    if (s.has_least_score && !(fabsf(s.least_score) < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_index_search.least_score is %g; accepted is a finite one",
                         (double)s.least_score);
    }
    const size_t n = (size_t)s.count, all = n * s.top;
    const xsmi_region regions[] = {xsmi_output("classes", s.classes, all, sizeof *s.classes),
                                   xsmi_output("scores", s.scores, all, sizeof *s.scores),
                                   xsmi_output("lengths", s.lengths, n, sizeof *s.lengths),
                                   xsmi_input_rows("queries", s.queries, n, x->width, s.stride, sizeof *s.queries)};
    XSMI_TRY(xsmi_check_overlap("xsm_index_search", regions, sizeof regions / sizeof *regions, err));
    XSMI_TRY(check_queries(x, &s, err));
    size_t jobs = (size_t)((s.count + XSM_INDEX_QUERIES - 1) / XSM_INDEX_QUERIES);
    size_t threads = jobs > 1 ? xsmi_context_threads(x->context) : 1;
    xsmi_arena arena = {NULL, 0};
    (void)xsmi_arena_take(&arena, (uint64_t)XSM_INDEX_QUERIES * xsmi_index_query_stride(x), sizeof(float));
    (void)xsmi_arena_take(&arena, xsmi_index_scratch(x, s.top), 1);
    query_job job = {.index = x, .search = &s, .scratch_each = arena.used};
    job.scratch = xsmi_allocate(x->context, threads, job.scratch_each);
    job.probed = xsmi_allocate(x->context, (size_t)s.count, sizeof *job.probed);
    job.status = xsmi_allocate(x->context, jobs, sizeof *job.status);
    job.errors = xsmi_allocate(x->context, jobs, sizeof *job.errors);
    xsm_status status = XSM_OK;
    if (arena.used == SIZE_MAX || !job.scratch || !job.probed || !job.status || !job.errors) {
        status = xsmi_fail_memory(err, job.scratch_each, "a search");
    } else {
        xsmi_activity activity;
        xsmi_begin(&activity, x->context, "searching", "queries", s.count);
        status = xsmi_run_ranges(x->context, run_queries, &job, s.count, XSM_INDEX_QUERIES, err);
        status = xsmi_end(&activity, status, err);
    }
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        if (job.status[i] != XSM_OK) {
            status = xsmi_fail_copy(err, &job.errors[i]);
        }
    }
    status = status == XSM_OK ? check_scores(&s, err) : status;
    if (status == XSM_OK) {
        for (uint64_t i = 0; i < s.count; i++) {
            s.probed = (i ? s.probed : 0) + job.probed[i];
        }
        given->probed = s.probed;
    }
    xsmi_release(x->context, job.scratch, threads, job.scratch_each);
    xsmi_release(x->context, job.probed, (size_t)s.count, sizeof *job.probed);
    xsmi_release(x->context, job.status, jobs, sizeof *job.status);
    xsmi_release(x->context, job.errors, jobs, sizeof *job.errors);
    return status;
}
