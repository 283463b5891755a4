/*
 * Prediction by a search that lists classes, of models whose classes are divided among ranks. The ranks divide the rows
 * of a piece; each searches its own, on all its threads, and all get the lists. Then each scores those of its classes
 * that are in lists, and all get the scores, of which each finds the best as one process does. Where a search leaves
 * too few classes, all that the filter leaves are listed.
 */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/order.h"
#include "base/share.h"
#include "data/part.h"
#include "model/divided.h"

#include <math.h>
#include <string.h>

/* Entries of the lists of a piece, unless a row has more; and the least that are scored together. */
#define TOGETHER ((size_t)1 << 17)
#define LEAST_TOGETHER ((size_t)1 << 14)
/* Arrays of a rank's rows. */
#define ARRAYS 3

/* The rows of a piece. */
typedef struct lists {
    const xsmi_finder *finder;
    size_t rows;       /* at most */
    uint32_t *width;   /* [rows] of their searches; 0 = none */
    uint32_t *found;   /* [rows] classes that were listed, or XSMI_NOT_FINITE */
    uint32_t *classes; /* [rows][most] */
    double *added;     /* [rows][most], where the finder adds numbers; else NULL */
    bool *finite;      /* [rows] */
    xsmi_shared *arrays;
    /* Classes that are scored together: */
    size_t capacity;
    size_t count;            /* of pieces of rows */
    size_t *row, *starts;    /* [rows], [rows + 1] */
    xsmi_features *features; /* [rows] */
    uint32_t *listed;        /* [capacity] */
    float *scores;           /* [capacity] */
    unsigned char *scratch;  /* [threads][each] */
    size_t each;
} lists;

static lists divide(const xsm_predictor *p, const xsmi_finder *finder, xsmi_arena *arena)
{
    const size_t most = finder->most, wanted = TOGETHER / most;
    const uint32_t ranks = xsmi_ranks(p->context);
    lists l = {.finder = finder, .rows = XSMI_CLAMP(wanted, (size_t)1, (size_t)XSMI_PIECE)};
    const size_t entries = l.rows * most;
    l.capacity = XSMI_MAX(entries, LEAST_TOGETHER);
    l.width = xsmi_arena_take(arena, l.rows, sizeof *l.width);
    l.found = xsmi_arena_take(arena, l.rows, sizeof *l.found);
    l.classes = xsmi_arena_take(arena, entries, sizeof *l.classes);
    l.added = finder->adds ? xsmi_arena_take(arena, entries, sizeof *l.added) : NULL;
    l.finite = xsmi_arena_take(arena, l.rows, sizeof *l.finite);
    l.arrays = xsmi_arena_take(arena, ranks, ARRAYS * sizeof *l.arrays);
    l.row = xsmi_arena_take(arena, l.rows, sizeof *l.row);
    l.starts = xsmi_arena_take(arena, l.rows + 1, sizeof *l.starts);
    l.features = xsmi_arena_take(arena, l.rows, sizeof *l.features);
    l.listed = xsmi_arena_take(arena, l.capacity, sizeof *l.listed);
    l.scores = xsmi_arena_take(arena, l.capacity, sizeof *l.scores);
    const size_t bytes = finder->scratch(p);
    l.each = bytes < SIZE_MAX / 2 ? (bytes + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT : SIZE_MAX;
    l.scratch = xsmi_arena_take(arena, xsmi_context_threads(p->context), l.each);
    return l;
}

size_t xsmi_lists_scratch(const xsm_predictor *p, const xsmi_finder *finder)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide(p, finder, &arena);
    return arena.used;
}

/* -- searching ----------------------------------------------------------------------------------------------------- */

typedef struct find_job {
    const xsm_predictor *predictor;
    const lists *lists;
    const xsmi_row_filter *filters; /* [rows] or NULL */
    size_t first;                   /* row of this rank's */
} find_job;

static void find_row(void *state, size_t index, uint32_t thread)
{
    const find_job *job = state;
    const lists *l = job->lists;
    const size_t i = job->first + index, at = i * l->finder->most;
    l->found[i] = 0;
    if (l->width[i] > 0 && !xsmi_poll(job->predictor->context)) {
        l->found[i] = l->finder->find(job->predictor, &job->predictor->features[i],
                                      job->filters ? &job->filters[i] : NULL, l->width[i],
                                      l->scratch + thread * l->each, l->classes + at, l->added ? l->added + at : NULL);
    }
}

/* Lists the classes of a piece's rows, on all ranks. */
static xsm_status find_all(xsm_predictor *p, const lists *l, const xsmi_row_filter *filters, size_t rows,
                           xsm_error *err)
{
    xsm_context *ctx = p->context;
    const uint32_t ranks = xsmi_ranks(ctx), rank = xsmi_rank(ctx);
    const size_t most = l->finder->most;
    size_t count = 0;
    find_job job = {p, l, filters, (size_t)xsmi_share_start(rows, ranks, rank)};
    xsm_status status = xsmi_run(ctx, find_row, &job, (size_t)xsmi_share_start(rows, ranks, rank + 1) - job.first, err);
    status = status == XSM_OK ? xsmi_go_on(ctx, err) : status;
    for (uint32_t r = 0; r < ranks; r++) {
        const size_t first = (size_t)xsmi_share_start(rows, ranks, r),
                     some = (size_t)xsmi_share_start(rows, ranks, r + 1) - first;
        l->arrays[count++] = (xsmi_shared){l->found + first, some * sizeof *l->found, r};
        l->arrays[count++] = (xsmi_shared){l->classes + first * most, some * most * sizeof *l->classes, r};
        if (l->added) {
            l->arrays[count++] = (xsmi_shared){l->added + first * most, some * most * sizeof *l->added, r};
        }
    }
    return xsmi_share_arrays(ctx, status, l->arrays, count, err);
}

/* -- scoring ------------------------------------------------------------------------------------------------------- */

/* Begins to collect classes that are scored together. */
static void collect(lists *l)
{
    l->count = 0;
    l->starts[0] = 0;
}

/* A row's classes, which were written behind those of the others. */
static void add_row(const xsm_predictor *p, lists *l, size_t row, size_t classes)
{
    l->row[l->count] = row;
    l->features[l->count] = p->features[row];
    l->starts[l->count + 1] = l->starts[l->count] + classes;
    l->count++;
}

/* The scores of what was collected, on all ranks. */
static xsm_status score(const xsm_predictor *p, const lists *l, bool weights, xsm_error *err)
{
    if (l->count == 0 || l->starts[l->count] == 0) {
        return XSM_OK;
    }
    const xsmi_chosen_rows chosen = {l->features, l->starts, l->count, l->listed};
    return xsmi_divided_list_scores(p->model, &chosen, weights, l->scores, err);
}

/* Fills the rows' lists with the best of the classes that searches have found. */
static xsm_status score_found(xsm_predictor *p, lists *l, const xsmi_row_filter *filters, size_t rows, xsm_error *err)
{
    collect(l);
    for (size_t i = 0; i < rows; i++) {
        l->finite[i] = l->found[i] != XSMI_NOT_FINITE;
        if (l->width[i] > 0 && l->finite[i]) {
            memcpy(l->listed + l->starts[l->count], l->classes + i * l->finder->most, l->found[i] * sizeof *l->listed);
            add_row(p, l, i, l->found[i]);
        }
    }
    XSMI_TRY(score(p, l, l->finder->adds, err));
    for (size_t n = 0; n < l->count; n++) {
        const size_t i = l->row[n], first = l->starts[n];
        const xsmi_top list = xsmi_predict_list(p, i);
        float *scores = l->scores + first;
        for (uint32_t j = 0; l->added && j < l->found[i]; j++) {
            scores[j] = (float)((double)scores[j] + l->added[i * l->finder->most + j]);
        }
        p->probed += l->found[i];
        l->finite[i] =
            xsmi_predict_best(p, l->listed + first, scores, l->found[i], filters ? &filters[i] : NULL, &list);
    }
    return XSM_OK;
}

/* Offers the scores of what was collected to the lists of the rows. */
static xsm_status offer(xsm_predictor *p, lists *l, xsm_error *err)
{
    XSMI_TRY(score(p, l, false, err));
    for (size_t n = 0; n < l->count; n++) {
        const xsmi_top list = xsmi_predict_list(p, l->row[n]);
        for (size_t j = l->starts[n]; j < l->starts[n + 1]; j++) {
            l->finite[l->row[n]] &= isfinite(l->scores[j]) != 0;
            xsmi_top_offer(&list, l->scores[j], l->listed[j]);
        }
    }
    p->probed += l->count > 0 ? l->starts[l->count] : 0;
    collect(l);
    return XSM_OK;
}

/* Scores all classes that are left of the rows that were not searched, or found too few. */
static xsm_status score_left(xsm_predictor *p, lists *l, const xsmi_row_filter *filters, size_t rows, xsm_error *err)
{
    collect(l);
    for (size_t i = 0; i < rows && filters; i++) {
        const xsmi_top list = xsmi_predict_list(p, i);
        if (!l->finite[i] || (l->width[i] > 0 && !xsmi_filter_misses(p, &filters[i], &list))) {
            continue;
        }
        xsmi_top_start(&list);
        l->width[i] = 0;
        uint64_t at = 0;
        for (size_t count = SIZE_MAX; count > 0;) {
            if (l->starts[l->count] == l->capacity) {
                XSMI_TRY(offer(p, l, err));
            }
            const size_t from = l->starts[l->count];
            count = xsmi_row_filter_list(&filters[i], p->classes, &at, l->listed + from, l->capacity - from);
            if (count > 0) {
                add_row(p, l, i, count);
            }
            if (l->count == l->rows) {
                XSMI_TRY(offer(p, l, err));
            }
        }
    }
    XSMI_TRY(offer(p, l, err));
    for (size_t i = 0; i < rows && filters; i++) {
        const xsmi_top list = xsmi_predict_list(p, i);
        if (l->width[i] == 0) {
            xsmi_top_sort(&list);
        }
    }
    return XSM_OK;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

static xsm_status run_piece(xsm_predictor *p, const xsm_prediction *to, lists *l, size_t first, size_t rows,
                            xsm_error *err)
{
    XSMI_TRY(xsmi_batch_fetch(to->batch, first, rows, err));
    const xsmi_row_filter *filters = xsmi_filter_of(p, to, first, 0);
    for (size_t i = 0; i < rows; i++) {
        p->features[i] = xsmi_batch_features(to->batch, first + i);
        l->width[i] = l->finder->width(p, xsmi_filter_of(p, to, first + i, i));
    }
    XSMI_TRY(find_all(p, l, filters, rows, err));
    XSMI_TRY(score_found(p, l, filters, rows, err));
    XSMI_TRY(score_left(p, l, filters, rows, err));
    for (size_t i = 0; i < rows; i++) {
        const xsmi_top list = xsmi_predict_list(p, i);
        if (!l->finite[i]) {
            return xsmi_predict_fail(p, to->batch, first + i, err);
        }
        xsmi_predict_each(p, list.score, p->top, xsmi_predict_space(p, to));
        xsmi_predict_put(p, to, first + i, &list);
    }
    xsmi_advance(p->context, rows);
    return XSM_OK;
}

xsm_status xsmi_lists_run(xsm_predictor *p, const xsm_prediction *to, const xsmi_finder *finder, xsm_error *err)
{
    xsmi_arena arena = {p->scratch, 0};
    lists l = divide(p, finder, &arena);
    for (uint32_t i = 0; i < xsmi_context_threads(p->context); i++) {
        finder->start(p, l.scratch + i * l.each);
    }
    const size_t count = (size_t)to->batch->count;
    for (size_t first = 0; first < count; first += l.rows) {
        XSMI_TRY(run_piece(p, to, &l, first, XSMI_MIN(count - first, l.rows), err));
    }
    return XSM_OK;
}
