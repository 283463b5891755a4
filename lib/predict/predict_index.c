/*
 * Prediction by a search index: it finds classes, which are scored again. For a row with a filter, the index lists rows
 * in falling order until it has scored as many of the classes that are left as it would of all classes; or all that are
 * left are scored.
 */
#include "predict/predict.h"

#include "base/activity.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* The most rows that are listed at a time for a filter. */
#define PORTION 4096
/* The most rows that a table is assumed to score for each that it lists, as `spherical` does. */
#define TIMES 4
/* The least classes that a search scores for each one wanted. */
#define SEARCHED 8

typedef struct index_scratch {
    float *queries; /* [XSM_INDEX_QUERIES][stride] */
    void *scratch;  /* of the index */
    /* With filters: */
    uint32_t *classes; /* [portion] */
    float *scores;     /* [portion] */
    void *cursor;
    size_t cursor_size;
    uint32_t portion;
} index_scratch;

static index_scratch divide(const xsm_predictor *p, xsmi_arena *arena)
{
    const xsm_index *x = p->index;
    index_scratch s = {.portion = p->top};
    s.queries = xsmi_arena_take(arena, (uint64_t)XSM_INDEX_QUERIES * xsmi_index_query_stride(x), sizeof *s.queries);
    if (p->own.memory) {
        s.portion = XSMI_MIN(XSMI_MAX(PORTION, p->top), p->classes);
        s.classes = xsmi_arena_take(arena, s.portion, sizeof *s.classes);
        s.scores = xsmi_arena_take(arena, s.portion, sizeof *s.scores);
        s.cursor_size = x->ops.next ? xsmi_index_cursor(x) : 0;
        s.cursor = xsmi_arena_take(arena, s.cursor_size, 1);
    }
    s.scratch = xsmi_arena_take(arena, xsmi_index_scratch(x, s.portion), 1);
    return s;
}

/* Sorts a row's classes by falling score, of equal scores the smaller class first; most are in order already. */
static void sort_row(uint32_t *classes, float *scores, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t class = classes[i], rank = i;
        float score = scores[i];
        for (; rank > 0 && (scores[rank - 1] < score || (scores[rank - 1] == score && classes[rank - 1] > class));
             rank--) {
            classes[rank] = classes[rank - 1];
            scores[rank] = scores[rank - 1];
        }
        classes[rank] = class;
        scores[rank] = score;
    }
}

/* Makes the query of a row, and returns the input of the output layer, which may be in it. */
static xsmi_features make_query(const xsm_predictor *p, const xsmi_features *x, float *query)
{
    const xsm_index *index = p->index;
    memset(query, 0, xsmi_index_query_stride(index) * sizeof *query);
    const xsmi_features input = xsmi_model_forward(p->model, x, query);
    for (size_t j = 0; input.values != query && j < x->count; j++) {
        query[x->index ? x->index[j] : j] = x->values[j];
    }
    if (index->own_width > index->width) {
        query[index->width] = 1;
    }
    return input;
}

/* Scores the first `count` classes of a row's list again, and sorts them; false if a score is not finite. */
static bool score_again(const xsm_predictor *p, const xsmi_model_row *row, const xsmi_top *list, uint32_t count)
{
    bool finite = true;
    xsmi_model_chosen_scores(p->model, row, list->class_of, count, list->score, NULL); /* numbers need no scratch */
    for (uint32_t k = 0; k < count && finite; k++) {
        finite = isfinite(list->score[k]) != 0;
    }
    sort_row(list->class_of, list->score, count);
    return finite;
}

/* Writes the classes found for a row, with probabilities if they are wanted. */
static void put(const xsm_predictor *p, const xsm_prediction *to, size_t row, const xsmi_top *list)
{
    xsmi_predict_each(p, list->score, p->top, xsmi_predict_space(p, to));
    xsmi_predict_put(p, to, row, list);
}

/* Makes a block of queries in the library's layout, with lists of `top` classes, one after another. */
static xsm_index_block block_of(const xsm_predictor *p, const float *queries, uint32_t count, uint32_t top,
                                uint32_t *classes, float *scores)
{
    return (xsm_index_block){.size = sizeof(xsm_index_block),
                             .queries = queries,
                             .stride = xsmi_index_query_stride(p->index),
                             .count = count,
                             .top = top,
                             .least_score = -INFINITY,
                             .classes = classes,
                             .scores = scores,
                             .list_stride = top};
}

/* Searches for the classes of the next XSM_INDEX_QUERIES rows at most, from `first` on. */
static xsm_status search_rows(xsm_predictor *p, const xsm_prediction *to, size_t first, const index_scratch *own,
                              xsm_error *err)
{
    const xsm_batch *batch = to->batch;
    const uint32_t rows = (uint32_t)XSMI_MIN(batch->count - first, XSM_INDEX_QUERIES);
    const size_t stride = xsmi_index_query_stride(p->index);
    uint32_t lengths[XSM_INDEX_QUERIES];
    uint64_t probed[XSM_INDEX_QUERIES] = {0};
    xsmi_model_row row[XSM_INDEX_QUERIES];
    for (uint32_t i = 0; i < rows; i++) {
        row[i].x = xsmi_batch_features(batch, first + i);
        row[i].input = make_query(p, &row[i].x, own->queries + i * stride);
    }
    xsm_index_block block = block_of(p, own->queries, rows, p->top, p->top_class, p->top_score);
    block.lengths = lengths;
    block.probed = probed;
    block.scratch = own->scratch;
    XSMI_TRY(xsmi_index_block(p->index, &block, err));
    for (uint32_t i = 0; i < rows; i++) {
        const xsmi_top list = xsmi_predict_list(p, i);
        if (lengths[i] != p->top || !score_again(p, &row[i], &list, p->top)) {
            return xsmi_predict_fail(p, batch, first + i, err);
        }
        put(p, to, first + i, &list);
        p->probed += probed[i];
    }
    return XSM_OK;
}

/* -- with a filter ------------------------------------------------------------------------------------------------- */

/* A search in falling order: what was listed so far. */
typedef struct falling {
    uint64_t probed, first; /* rows scored so far, and by the first portion */
    uint64_t listed, found; /* rows listed, and those of them that the filter leaves */
    bool begun;
    bool ended; /* the index has listed all that it can find */
} falling;

/* Lists a portion of rows, and offers those that the filter leaves to the list. */
static xsm_status list_portion(xsm_predictor *p, const index_scratch *own, const xsmi_row_filter *filter, uint32_t rows,
                               const xsmi_top *list, falling *f, xsm_error *err)
{
    const bool further = p->index->ops.next != NULL;
    uint32_t length = 0;
    uint64_t probed = 0;
    xsm_index_block block = block_of(p, own->queries, 1, rows, own->classes, own->scores);
    block.lengths = &length;
    block.probed = &probed;
    block.scratch = own->scratch;
    block.cursors = further ? own->cursor : NULL;
    block.cursor_stride = own->cursor_size;
    block.begin = further && !f->begun;
    XSMI_TRY(further ? xsmi_index_next(p->index, &block, err) : xsmi_index_block(p->index, &block, err));
    for (uint32_t j = 0; j < length; j++) {
        const uint32_t class = own->classes[j];
        const bool left = xsmi_row_filter_takes(filter, class);
        if (left) {
            f->found++;
            xsmi_top_offer_any(list, own->scores[j], class);
        }
    }
    f->listed += length;
    f->first = f->begun ? f->first : probed;
    f->begun = true;
    f->probed += probed;
    f->ended = length < rows || !further;
    return XSM_OK;
}

/* Returns the rows to be scored: enough that as many of the classes that are left are scored as of all classes without
 * a filter. A table that does not count its rows reports 0. */
static uint64_t rows_wanted(const xsm_predictor *p, const xsmi_row_filter *filter, const falling *f)
{
    const uint64_t wanted = f->first * p->classes / filter->most;
    return XSMI_MIN(wanted, p->classes);
}

static bool suffices(const xsm_predictor *p, const xsmi_row_filter *filter, const falling *f)
{
    return f->found >= p->top && (f->ended || f->probed >= rows_wanted(p, filter, f));
}

/* Listing a row takes as long as scoring so many. */
#define LISTING 8

/* Whether scoring all that is left takes less time than continuing, or than what was done so far. */
static bool leaves_less(const xsm_predictor *p, const xsmi_row_filter *filter, const falling *f)
{
    return f->ended || f->listed * LISTING >= filter->most || rows_wanted(p, filter, f) >= f->probed + filter->most;
}

/* Returns the rows to list next. Tables score several rows for each that they list, so that a portion is a part of the
 * rows still to be scored. */
static uint32_t next_portion(const xsm_predictor *p, const index_scratch *own, const xsmi_row_filter *filter,
                             const falling *f)
{
    const uint64_t listed = XSMI_MAX(f->listed, 1), times = XSMI_MAX(f->probed / listed, 1);
    const uint64_t reached = rows_wanted(p, filter, f) / XSMI_MIN(times, TIMES);
    const uint64_t more = reached > f->listed ? reached - f->listed : 3 * listed;
    return (uint32_t)XSMI_MIN(more, own->portion);
}

/* Finds a row's classes; *enough becomes false if all that are left should be scored instead. */
static xsm_status search_left(xsm_predictor *p, const index_scratch *own, const xsmi_row_filter *filter,
                              const xsmi_top *list, bool *enough, xsm_error *err)
{
    const uint64_t expected = 2 * (uint64_t)p->top * p->classes / filter->most;
    uint32_t rows = (uint32_t)XSMI_MIN(XSMI_MAX(expected, p->top), own->portion);
    falling f = {0};
    xsmi_top_start(list);
    do {
        XSMI_TRY(list_portion(p, own, filter, rows, list, &f, err));
        rows = next_portion(p, own, filter, &f);
    } while (!suffices(p, filter, &f) && !leaves_less(p, filter, &f));
    xsmi_top_sort(list);
    p->probed += f.probed;
    *enough = suffices(p, filter, &f);
    return XSM_OK;
}

static xsm_status search_filtered(xsm_predictor *p, const xsm_prediction *to, size_t row, const index_scratch *own,
                                  xsm_error *err)
{
    const xsmi_features x = xsmi_batch_features(to->batch, row);
    xsmi_model_row scored = {x, x};
    const xsmi_row_filter *filter = xsmi_filter_of(p, to, row, 0);
    const xsmi_top list = xsmi_predict_list(p, 0);
    bool enough = false;
    if (filter->most > 0 && !xsmi_filter_leaves_few(p, filter, SEARCHED * p->top)) {
        scored.input = make_query(p, &x, own->queries);
        XSMI_TRY(search_left(p, own, filter, &list, &enough, err));
    }
    if (enough ? !score_again(p, &scored, &list, p->top) : !xsmi_filter_score(p, &x, filter, false, &list)) {
        return xsmi_predict_fail(p, to->batch, row, err);
    }
    put(p, to, row, &list);
    return XSM_OK;
}

/* -- a batch ------------------------------------------------------------------------------------------------------- */

size_t xsmi_index_scratch_of(const xsm_predictor *p)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide(p, &arena);
    return arena.used;
}

xsm_status xsmi_index_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    xsmi_arena arena = {p->scratch, 0};
    const index_scratch own = divide(p, &arena);
    const bool filtered = xsmi_filter_of(p, to, 0, 0) != NULL;
    const size_t together = filtered ? 1 : XSM_INDEX_QUERIES;
    for (size_t first = 0; first < to->batch->count; first += together) {
        XSMI_TRY(xsmi_go_on(p->context, err));
        XSMI_TRY(filtered ? search_filtered(p, to, first, &own, err) : search_rows(p, to, first, &own, err));
        xsmi_advance(p->context, together);
    }
    return XSM_OK;
}
