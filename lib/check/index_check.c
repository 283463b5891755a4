/* The conformance suite for indexes' tables, on synthetic problems (ext/index.h says what it tests). */
#include "base/arena.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "base/random.h"
#include "check/failures.h"
#include "index/index.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 70, TOP = 10 }; /* more queries than in a block */
enum { BIASED = 1, EQUAL = 2, ZEROS = 4, KINDS = 8 };

typedef struct problem {
    xsm_context *context;
    const xsm_index_ops *ops;
    const xsm_index_check_options *options;
    uint32_t rows, width;
    int kind; /* a sum of the values above: rows have a bias, some rows are equal, some are zeros */
    float *x, *bias, *queries;
    /* [QUERIES][top] and [QUERIES] of two searches */
    uint32_t *classes[2], *lengths[2];
    float *scores[2];
    uint32_t top;
} problem;

/* Reports an error of the table. */
__attribute__((format(printf, 3, 4))) static xsm_status fault(const problem *p, xsm_error *err, const char *format, ...)
{
    char what[160];
    va_list args;
    va_start(args, format);
    xsmi_format_line(what, sizeof what, format, args);
    va_end(args);
    return xsmi_fail(err, XSM_ERROR_DATA, "index '%s', %u rows of %u numbers%s%s%s: %s", p->ops->name, p->rows,
                     p->width, p->kind & BIASED ? " with a bias" : "", p->kind & EQUAL ? ", some equal" : "",
                     p->kind & ZEROS ? ", some of zeros" : "", what);
}

/* Returns the score of row k, and sets *size to |row| |query|; both include the bias, and the squared norms are
 * increased by 1. */
static double score_of(const problem *p, uint32_t query, uint32_t k, double *size)
{
    double sum = p->kind & BIASED ? (double)p->bias[k] : 0, row_square = 1, query_square = 1;
    for (uint32_t j = 0; j < p->width; j++) {
        double a = (double)p->x[(size_t)k * p->width + j], b = (double)p->queries[query * p->width + j];
        sum += a * b;
        row_square += a * a;
        query_square += b * b;
    }
    *size = sqrt(row_square * query_square);
    return sum;
}

/* Returns an approximately normal number: the sum of four uniform ones. */
static float number(xsmi_stream *s)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        sum += xsmi_stream_uniform(s) - 0.5;
    }
    return (float)sum;
}

static void fill_row(problem *p, xsmi_stream *s, uint32_t k)
{
    float *row = p->x + (size_t)k * p->width;
    double size = 0.25 + xsmi_stream_uniform(s);
    for (uint32_t j = 0; j < p->width; j++) {
        row[j] = (float)(size * (double)number(s));
    }
    if ((p->kind & EQUAL) && k % 3 == 1) {
        memcpy(row, p->x, p->width * sizeof *row);
    }
    if ((p->kind & ZEROS) && k % 5 == 2) {
        memset(row, 0, p->width * sizeof *row);
    }
    p->bias[k] = (p->kind & EQUAL) && k % 3 == 1 ? p->bias[0] : number(s);
}

/* A search for some of the queries, and the length of their lists. */
typedef struct request {
    uint32_t first, count, top;
    const float *least_score; /* or NULL */
} request;

static request search_all(uint32_t top)
{
    return (request){0, QUERIES, top, NULL};
}

static xsm_status search(const problem *p, const xsm_index *x, request a, int into, xsm_error *err)
{
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    s.queries = p->queries + (size_t)a.first * p->width;
    s.stride = p->width;
    s.count = a.count;
    s.top = a.top;
    s.has_least_score = a.least_score != NULL;
    s.least_score = a.least_score ? *a.least_score : 0;
    s.classes = p->classes[into] + (size_t)a.first * a.top;
    s.scores = p->scores[into] + (size_t)a.first * a.top;
    s.lengths = p->lengths[into] + a.first;
    return xsm_index_query(x, &s, err);
}

/* Checks the lists of a search. */
static xsm_status check_lists(const problem *p, int of, uint32_t top, const float *least_score, xsm_error *err)
{
    for (uint32_t i = 0; i < QUERIES; i++) {
        const uint32_t *classes = p->classes[of] + (size_t)i * top;
        const float *scores = p->scores[of] + (size_t)i * top;
        for (uint32_t j = 0; j < p->lengths[of][i]; j++) {
            double size, want = score_of(p, i, classes[j], &size);
            if (!(fabs((double)scores[j] - want) <= p->options->tolerance * size)) {
                return fault(p, err, "row %u scores %g, not %g", classes[j], want, (double)scores[j]);
            }
            if (least_score && !(scores[j] >= *least_score)) {
                return fault(p, err, "row %u is listed with %g, not above %g", classes[j], (double)scores[j],
                             (double)*least_score);
            }
            if (j > 0 && (scores[j] > scores[j - 1] || (scores[j] == scores[j - 1] && classes[j] <= classes[j - 1]))) {
                return fault(p, err, "position %u of a list is before position %u in order", j, j - 1);
            }
            for (uint32_t before = 0; before < j && top <= TOP; before++) {
                if (classes[before] == classes[j]) {
                    return fault(p, err, "row %u is listed twice", classes[j]);
                }
            }
        }
    }
    return XSM_OK;
}

static xsm_status same_lists(const problem *p, uint32_t top, const char *when, xsm_error *err)
{
    size_t entries = (size_t)QUERIES * top;
    if (memcmp(p->lengths[0], p->lengths[1], QUERIES * sizeof(uint32_t)) != 0 ||
        memcmp(p->classes[0], p->classes[1], entries * sizeof(uint32_t)) != 0 ||
        memcmp(p->scores[0], p->scores[1], entries * sizeof(float)) != 0) {
        return fault(p, err, "the same queries give other lists %s", when);
    }
    return XSM_OK;
}

static xsm_status check_recall(const problem *p, const xsm_index *x, const char *when, xsm_error *err)
{
    uint32_t top = XSMI_MIN(p->rows, TOP);
    double recall;
    XSMI_TRY(xsmi_index_recall(
        x,
        &(xsm_index_search){
            .size = sizeof(xsm_index_search), .queries = p->queries, .stride = p->width, .count = QUERIES, .top = top},
        &recall, err));
    if (recall < p->options->recall) {
        return fault(p, err, "a recall of %.3f at %u %s, below %g", recall, top, when, p->options->recall);
    }
    return XSM_OK;
}

static xsm_status set_option(void *object, const char *name, const char *value, xsm_error *err)
{
    return xsm_index_set(object, name, value, err);
}

static xsm_status build(problem *p, xsm_context *context, xsm_index **out, xsm_error *err)
{
    xsm_index *x;
    XSMI_TRY(xsm_index_new_from(context, p->ops, &x, err));
    x->ops.flags &= ~(uint32_t)XSM_INDEX_UNCHECKED;
    xsm_status status = xsmi_trial_set(context, p->options->set, set_option, x, err);
    xsm_index_rows rows = XSM_INDEX_ROWS_INIT;
    rows.rows = p->x;
    rows.stride = p->width;
    rows.count = p->rows;
    rows.width = p->width;
    rows.bias = p->kind & BIASED ? p->bias : NULL;
    if (status == XSM_OK) {
        status = xsm_index_build(x, &rows, err);
    }
    if (status != XSM_OK) {
        xsm_index_free(x);
        return status;
    }
    *out = x;
    return XSM_OK;
}

/* Changes every seventh row. */
static xsm_status change_rows(problem *p, xsmi_stream *stream, xsm_index *x, xsm_error *err)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < p->rows; k += 7) {
        p->classes[1][count++] = k;
        fill_row(p, stream, k);
        if (count == QUERIES || k + 7 >= p->rows) {
            XSMI_TRY(xsm_index_update(x, p->classes[1], count, err));
            count = 0;
        }
    }
    return XSM_OK;
}

/* Searches for SPACED queries with lists that lie twice their length apart; nothing may be written between them. */
enum { SPACED = 32 };
static xsm_status try_spaced(const problem *p, const xsm_index *x, uint32_t top, xsm_error *err)
{
    const size_t stride = xsmi_index_query_stride(x), between = 2 * (size_t)top;
    xsmi_arena arena = {NULL, 0};
    (void)xsmi_arena_take(&arena, SPACED * stride, sizeof(float));
    (void)xsmi_arena_take(&arena, xsmi_index_scratch(x, top), 1);
    const size_t bytes = arena.used;
    arena = (xsmi_arena){xsmi_allocate_zero(p->context, bytes, 1), 0};
    if (!arena.base) {
        return xsmi_fail_memory(err, bytes, "the trial of an index");
    }
    float *queries = xsmi_arena_take(&arena, SPACED * stride, sizeof(float));
    uint64_t probed[SPACED] = {0};
    for (uint32_t i = 0; i < SPACED; i++) {
        memcpy(queries + i * stride, p->queries + (size_t)i * p->width, p->width * sizeof *queries);
        if (x->own_width > x->width) {
            queries[i * stride + p->width] = 1; /* for the bias */
        }
    }
    memset(p->classes[1], 0xA5, SPACED * between * sizeof(uint32_t));
    memset(p->scores[1], 0xA5, SPACED * between * sizeof(float));
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = stride,
        .count = SPACED,
        .top = top,
        .least_score = -INFINITY,
        .classes = p->classes[1],
        .scores = p->scores[1],
        .lengths = p->lengths[1],
        .probed = probed,
        .scratch = arena.base + arena.used,
        .list_stride = between,
    };
    xsm_status status = xsmi_index_block(x, &block, err);
    for (uint32_t i = 0; i < SPACED && status == XSM_OK; i++) {
        const uint32_t *classes = p->classes[1] + i * between;
        bool same = p->lengths[0][i] == p->lengths[1][i] &&
                    memcmp(classes, p->classes[0] + (size_t)i * top, p->lengths[0][i] * sizeof *classes) == 0;
        for (uint32_t j = top; j < between; j++) {
            uint32_t score;
            memcpy(&score, &p->scores[1][i * between + j], sizeof score);
            same &= classes[j] == UINT32_C(0xA5A5A5A5) && score == UINT32_C(0xA5A5A5A5);
        }
        status = same ? XSM_OK : fault(p, err, "lists that are apart (list_stride %zu) are other lists", between);
    }
    xsmi_release(p->context, arena.base, bytes, 1);
    return status;
}

/* -- next() -------------------------------------------------------------------------------------------------------- */

enum { NEXT_QUERIES = 3, GUARD = 64, JUNK = 0xA5 };

/* Lists of some queries, to their ends. */
typedef struct listing {
    uint32_t *classes; /* [NEXT_QUERIES][rows] */
    float *scores;     /* [NEXT_QUERIES][rows] */
    uint32_t lengths[NEXT_QUERIES];
} listing;

/* Memory for a listing of `count` queries. */
typedef struct desk {
    float *queries;         /* [count][stride] */
    unsigned char *cursors; /* [count][cursor_stride], and GUARD bytes */
    size_t cursor_stride;
    uint32_t *classes; /* [count][rows] */
    float *scores;     /* [count][rows] */
    void *scratch;
} desk;

static desk divide_desk(const problem *p, const xsm_index *x, uint32_t count, xsmi_arena *arena)
{
    desk d = {.cursor_stride = xsmi_index_cursor(x)};
    d.queries = xsmi_arena_take(arena, count * xsmi_index_query_stride(x), sizeof *d.queries);
    d.cursors = xsmi_arena_take(arena, count, d.cursor_stride);
    (void)xsmi_arena_take(arena, GUARD, 1);
    d.classes = xsmi_arena_take(arena, (uint64_t)count * p->rows, sizeof *d.classes);
    d.scores = xsmi_arena_take(arena, (uint64_t)count * p->rows, sizeof *d.scores);
    d.scratch = xsmi_arena_take(arena, xsmi_index_scratch(x, p->rows), 1);
    return d;
}

/* Gets further rows of queries that have a desk, and appends them to the listing, from its query `first` on. */
static xsm_status list_some(const problem *p, const xsm_index *x, const desk *d, uint32_t first, uint32_t count,
                            uint32_t top, bool begin, listing *to, xsm_error *err)
{
    uint32_t lengths[NEXT_QUERIES] = {0};
    uint64_t probed[NEXT_QUERIES] = {0};
    const xsm_index_block block = {
        .size = sizeof block,
        .queries = d->queries,
        .stride = xsmi_index_query_stride(x),
        .count = count,
        .top = top,
        .least_score = -INFINITY,
        .classes = d->classes,
        .scores = d->scores,
        .lengths = lengths,
        .probed = probed,
        .scratch = d->scratch,
        .list_stride = p->rows,
        .cursors = d->cursors,
        .cursor_stride = d->cursor_stride,
        .begin = begin,
    };
    XSMI_TRY(xsmi_index_next(x, &block, err));
    for (uint32_t i = 0; i < count; i++) {
        const size_t from = (size_t)i * p->rows, into = (size_t)(first + i) * p->rows + to->lengths[first + i];
        if (lengths[i] > p->rows - to->lengths[first + i]) {
            return fault(p, err, "next() lists more rows than there are");
        }
        memcpy(to->classes + into, d->classes + from, lengths[i] * sizeof *to->classes);
        memcpy(to->scores + into, d->scores + from, lengths[i] * sizeof *to->scores);
        to->lengths[first + i] += lengths[i];
        /* The list of one call must be in falling order. */
        for (uint32_t j = 1; j < lengths[i]; j++) {
            const size_t at = from + j;
            if (d->scores[at] > d->scores[at - 1] ||
                (d->scores[at] == d->scores[at - 1] && d->classes[at] <= d->classes[at - 1])) {
                return fault(p, err, "next(): position %u of a list is before position %u in order", j, j - 1);
            }
        }
    }
    return XSM_OK;
}

static void set_queries(const problem *p, const xsm_index *x, const desk *d, uint32_t first, uint32_t count)
{
    const size_t stride = xsmi_index_query_stride(x);
    memset(d->queries, 0, count * stride * sizeof *d->queries);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(d->queries + i * stride, p->queries + (size_t)(first + i) * p->width, p->width * sizeof *d->queries);
        if (x->own_width > x->width) {
            d->queries[i * stride + p->width] = 1; /* for the bias */
        }
    }
}

/* Lists all rows of the queries first..first+count in one block, with more rows in each call. */
static xsm_status list_all(const problem *p, const xsm_index *x, unsigned char *memory, uint32_t first, uint32_t count,
                           listing *to, xsm_error *err)
{
    xsmi_arena arena = {memory, 0};
    const desk d = divide_desk(p, x, count, &arena);
    set_queries(p, x, &d, first, count);
    memset(d.cursors, JUNK, count * d.cursor_stride + GUARD);
    memset(to->lengths + first, 0, count * sizeof *to->lengths);
    bool ended[NEXT_QUERIES] = {false};
    for (uint32_t top = XSMI_MIN(p->rows, TOP), more = 1, begin = 1; more; begin = 0) {
        uint32_t before[NEXT_QUERIES];
        memcpy(before, to->lengths, sizeof before);
        XSMI_TRY(list_some(p, x, &d, first, count, top, begin, to, err));
        more = 0;
        for (uint32_t i = first; i < first + count; i++) {
            const uint32_t some = to->lengths[i] - before[i];
            if (ended[i] && some > 0) {
                return fault(p, err, "next() goes on after a list that was not full");
            }
            ended[i] = some < top;
            more |= some > 0;
        }
        top = top > p->rows / 2 ? p->rows : 2 * top;
    }
    for (size_t i = 0; i < GUARD; i++) {
        if (d.cursors[count * d.cursor_stride + i] != JUNK) {
            return fault(p, err, "next() writes behind its cursors");
        }
    }
    return XSM_OK;
}

/* Checks the rows of a listing, and that the first ones are those that query() found or better ones. */
static xsm_status check_listing(const problem *p, const listing *l, uint32_t query, uint64_t *seen, xsm_error *err)
{
    const uint32_t *classes = l->classes + (size_t)query * p->rows;
    const float *scores = l->scores + (size_t)query * p->rows;
    const uint32_t length = l->lengths[query], top = XSMI_MIN(p->rows, TOP);
    const bool exact = p->options->recall == 1;
    memset(seen, 0, (p->rows / 64 + 1) * sizeof *seen);
    for (uint32_t j = 0; j < length; j++) {
        const uint64_t bit = UINT64_C(1) << classes[j] % 64;
        double size, want = score_of(p, query, classes[j], &size);
        if (seen[classes[j] / 64] & bit) {
            return fault(p, err, "next() lists row %u twice", classes[j]);
        }
        seen[classes[j] / 64] |= bit;
        if (!(fabs((double)scores[j] - want) <= p->options->tolerance * size)) {
            return fault(p, err, "next(): row %u scores %g, not %g", classes[j], want, (double)scores[j]);
        }
        if (exact && j > 0 && scores[j] > scores[j - 1]) {
            return fault(p, err, "next(): position %u of all rows scores above position %u", j, j - 1);
        }
    }
    if ((double)length < p->options->recall * p->rows) {
        return fault(p, err, "next() lists %u rows in all, a share below %g", length, p->options->recall);
    }
    for (uint32_t search = 0; search < 2; search++) {
        const uint32_t most = search ? p->top : top, *found = p->classes[search] + (size_t)query * most;
        const float *best = p->scores[search] + (size_t)query * most;
        for (uint32_t j = 0; j < p->lengths[search][query] && (exact || !search); j++) {
            if (j >= length || (exact ? classes[j] != found[j] || scores[j] != best[j] : scores[j] < best[j])) {
                return fault(p, err, "next() begins with other rows than query(), at position %u of %u", j, most);
            }
        }
    }
    return XSM_OK;
}

static xsm_status same(const problem *p, const listing *a, const listing *b, const char *when, xsm_error *err)
{
    for (uint32_t i = 0; i < NEXT_QUERIES; i++) {
        const size_t at = (size_t)i * p->rows;
        if (a->lengths[i] != b->lengths[i] ||
            memcmp(a->classes + at, b->classes + at, a->lengths[i] * sizeof *a->classes) != 0 ||
            memcmp(a->scores + at, b->scores + at, a->lengths[i] * sizeof *a->scores) != 0) {
            return fault(p, err, "next() lists other rows %s", when);
        }
    }
    return XSM_OK;
}

/* Memory of a trial. */
typedef struct room {
    listing lists[2];
    uint64_t *seen;       /* [rows/64 + 1] */
    unsigned char *desks; /* [desks][desk_each] */
    size_t desk_each;
} room;

static room divide_room(const problem *p, const xsm_index *x, uint32_t each, uint32_t count, xsmi_arena *arena)
{
    room r = {0};
    for (int i = 0; i < 2; i++) {
        r.lists[i].classes = xsmi_arena_take(arena, (uint64_t)NEXT_QUERIES * p->rows, sizeof *r.lists[i].classes);
        r.lists[i].scores = xsmi_arena_take(arena, (uint64_t)NEXT_QUERIES * p->rows, sizeof *r.lists[i].scores);
    }
    r.seen = xsmi_arena_take(arena, p->rows / 64 + 1, sizeof *r.seen);
    xsmi_arena one = {NULL, 0};
    (void)divide_desk(p, x, each, &one);
    r.desk_each = one.used;
    r.desks = xsmi_arena_take(arena, count, r.desk_each);
    return r;
}

/* Makes memory for `count` desks of `each` queries; NULL if there is none. */
static unsigned char *make_room(const problem *p, const xsm_index *x, uint32_t each, uint32_t count, room *r,
                                size_t *bytes, xsm_error *err)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_room(p, x, each, count, &arena);
    *bytes = arena.used;
    unsigned char *memory = arena.used == SIZE_MAX ? NULL : xsmi_allocate_zero(p->context, arena.used, 1);
    if (!memory) {
        (void)xsmi_fail_memory(err, *bytes, "the trial of an index");
        return NULL;
    }
    arena = (xsmi_arena){memory, 0};
    *r = divide_room(p, x, each, count, &arena);
    return memory;
}

/* Tests next(), if the table has it. Searches 0 and 1 have listed TOP and `top` rows. */
static xsm_status try_next(const problem *p, const xsm_index *x, xsm_error *err)
{
    if (!x->ops.next) {
        return XSM_OK;
    }
    room r;
    size_t bytes;
    unsigned char *memory = make_room(p, x, NEXT_QUERIES, 1, &r, &bytes, err);
    if (!memory) {
        return XSM_ERROR_MEMORY;
    }
    xsm_status status = list_all(p, x, r.desks, 0, NEXT_QUERIES, &r.lists[0], err);
    for (uint32_t i = 0; i < NEXT_QUERIES && status == XSM_OK; i++) {
        status = check_listing(p, &r.lists[0], i, r.seen, err);
    }
    for (uint32_t i = 0; i < NEXT_QUERIES && status == XSM_OK; i++) {
        status = list_all(p, x, r.desks, i, 1, &r.lists[1], err);
    }
    if (status == XSM_OK) {
        status = same(p, &r.lists[0], &r.lists[1], "alone", err);
    }
    xsmi_release(p->context, memory, bytes, 1);
    return status;
}

/* -- cursors ------------------------------------------------------------------------------------------------------- */

typedef struct turn {
    const problem *p;
    const xsm_index *x;
    room *room;
    bool begin;
    uint32_t top;
    xsm_status status[NEXT_QUERIES];
    xsm_error errors[NEXT_QUERIES];
} turn;

/* Makes one call for one query: the next call may come from another thread. */
static void take_turn(void *state, size_t query, uint32_t thread)
{
    turn *t = state;
    (void)thread;
    const uint32_t i = (uint32_t)query;
    xsmi_arena arena = {t->room->desks + query * t->room->desk_each, 0};
    const desk d = divide_desk(t->p, t->x, 1, &arena);
    if (t->begin) {
        set_queries(t->p, t->x, &d, i, 1);
        t->room->lists[1].lengths[i] = 0;
    }
    t->errors[i] = (xsm_error)XSM_ERROR_INIT;
    t->status[i] = list_some(t->p, t->x, &d, i, 1, t->top, t->begin, &t->room->lists[1], &t->errors[i]);
}

/* Tests that queries which take turns on the threads of a context have cursors of their own. */
static xsm_status try_cursors(const problem *p, const xsm_index *x, xsm_context *threads, xsm_error *err)
{
    if (!x->ops.next) {
        return XSM_OK;
    }
    room r;
    size_t bytes;
    unsigned char *memory = make_room(p, x, 1, NEXT_QUERIES, &r, &bytes, err);
    if (!memory) {
        return XSM_ERROR_MEMORY;
    }
    xsm_status status = XSM_OK;
    for (uint32_t i = 0; i < NEXT_QUERIES && status == XSM_OK; i++) {
        status = list_all(p, x, r.desks, i, 1, &r.lists[0], err);
    }
    turn t = {.p = p, .x = x, .room = &r, .begin = true, .top = XSMI_MIN(p->rows, TOP)};
    for (uint64_t listed = 0; status == XSM_OK && listed < 2 * (uint64_t)p->rows; t.begin = false) {
        listed += t.top;
        status = xsmi_run(threads, take_turn, &t, NEXT_QUERIES, err);
        for (uint32_t i = 0; i < NEXT_QUERIES && status == XSM_OK; i++) {
            status = t.status[i] == XSM_OK ? XSM_OK : xsmi_fail_copy(err, &t.errors[i]);
        }
        t.top = t.top > p->rows / 2 ? p->rows : 2 * t.top;
    }
    if (status == XSM_OK) {
        status = same(p, &r.lists[0], &r.lists[1], "on several threads", err);
    }
    xsmi_release(p->context, memory, bytes, 1);
    return status;
}

/* -- the whole ----------------------------------------------------------------------------------------------------- */

static xsm_status try_searches(problem *p, xsm_index *x, xsm_error *err)
{
    uint32_t top = XSMI_MIN(p->rows, TOP);
    XSMI_TRY(search(p, x, search_all(top), 0, err));
    XSMI_TRY(check_lists(p, 0, top, NULL, err));
    for (uint32_t i = 0; i < QUERIES; i++) {
        XSMI_TRY(search(p, x, (request){i, 1, top, NULL}, 1, err));
    }
    XSMI_TRY(same_lists(p, top, "alone", err));
    XSMI_TRY(try_spaced(p, x, top, err));
    float least_score = p->scores[0][0] - 0.05f;
    XSMI_TRY(search(p, x, (request){0, QUERIES, top, &least_score}, 1, err));
    XSMI_TRY(check_lists(p, 1, top, &least_score, err));
    if (p->lengths[1][0] < 1) {
        return fault(p, err, "nothing is found with a least score below the best");
    }
    XSMI_TRY(search(p, x, search_all(p->top), 1, err));
    XSMI_TRY(check_lists(p, 1, p->top, NULL, err));
    return try_next(p, x, err);
}

static xsm_status try_problem(problem *p, xsmi_stream *stream, xsm_error *err)
{
    xsm_index *x = NULL;
    for (uint32_t k = 0; k < p->rows; k++) {
        XSMI_TRY(xsmi_go_on(p->context, err));
        fill_row(p, stream, k);
    }
    for (uint32_t i = 0; i < QUERIES * p->width; i++) {
        p->queries[i] = number(stream);
    }
    XSMI_TRY(build(p, p->context, &x, err));
    xsm_status status = try_searches(p, x, err);
    if (status == XSM_OK) {
        status = check_recall(p, x, "as built", err);
    }
    if (status == XSM_OK) {
        status = change_rows(p, stream, x, err);
    }
    if (status == XSM_OK) {
        status = check_recall(p, x, "after updates", err);
    }
    if (status == XSM_OK) {
        status = try_searches(p, x, err);
    }
    xsm_index_free(x);
    /* Building again on another number of threads must give the same. */
    for (uint32_t threads = 1; threads < 4 && status == XSM_OK; threads++) {
        uint32_t top = XSMI_MIN(p->rows, TOP);
        xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
        xsm_context *other = NULL;
        options.threads = threads;
        status = xsmi_trial_child(p->context, &options, &other, err);
        if (status == XSM_OK) {
            status = build(p, other, &x, err);
            if (status == XSM_OK) {
                status = search(p, x, search_all(top), threads > 1, err);
                if (status == XSM_OK && threads == 2) {
                    status = try_cursors(p, x, other, err);
                }
                xsm_index_free(x);
            }
            xsm_context_free(other);
        }
        if (status == XSM_OK && threads > 1) {
            status = same_lists(p, top, "on another number of threads", err);
        }
    }
    return status;
}

static xsm_status try_size(problem *p, uint32_t rows, uint32_t width, xsm_error *err)
{
    xsm_context *ctx = p->context;
    p->rows = rows;
    p->width = width;
    p->top = XSMI_MIN(rows, 200); /* all of them, if there are few */
    size_t entries = (size_t)QUERIES * (XSMI_MAX(p->top, TOP)), numbers = (size_t)rows * width;
    xsmi_held held = {.context = ctx};
    p->x = xsmi_hold(&held, numbers, sizeof *p->x);
    p->bias = xsmi_hold(&held, rows, sizeof *p->bias);
    p->queries = xsmi_hold(&held, (uint64_t)QUERIES * width, sizeof *p->queries);
    for (int i = 0; i < 2; i++) {
        p->classes[i] = xsmi_hold(&held, entries, sizeof **p->classes);
        p->scores[i] = xsmi_hold(&held, entries, sizeof **p->scores);
        p->lengths[i] = xsmi_hold(&held, QUERIES, sizeof **p->lengths);
    }
    xsm_status status = xsmi_held_check(&held, "the trial of an index", err);
    xsmi_stream stream;
    xsmi_stream_start(&stream, rows, XSMI_STREAM_CHECK, width);
    for (p->kind = 0; p->kind < KINDS && status == XSM_OK; p->kind++) {
        status = try_problem(p, &stream, err);
        xsmi_advance(ctx, 1);
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsm_index_check(xsm_context *context, const xsm_index_ops *ops, const xsm_index_check_options *given,
                           xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {ops, "the table"});
    xsm_index_check_options o = XSM_INDEX_CHECK_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_index_check_options, &o, given, err));
    o.recall = o.recall == XSM_DEFAULT ? XSMI_DEFAULT(xsm_index_check_options, recall) : o.recall;
    o.tolerance = o.tolerance == XSM_DEFAULT ? XSMI_DEFAULT(xsm_index_check_options, tolerance) : o.tolerance;
    if (o.rows > XSM_CLASSES_MAX || o.width > XSM_FEATURES_MAX || !(o.recall >= 0 && o.recall <= 1) ||
        !(o.tolerance >= 0 && o.tolerance < 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "accepted are up to %u rows and numbers, a recall of 0 to 1 and a tolerance from 0 to below 1",
                         XSM_CLASSES_MAX);
    }
    o.rows = o.rows ? o.rows : XSMI_DEFAULT(xsm_index_check_options, rows);
    o.width = o.width ? o.width : XSMI_DEFAULT(xsm_index_check_options, width);
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    problem p = {.context = ctx, .ops = ops, .options = &o};
    const uint32_t sizes[][2] = {{1, 1}, {2, 3}, {50, 5}, {o.rows, o.width}};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    xsmi_activity activity;
    xsmi_begin_cover(&activity, ctx, "trying an index", "problems", SIZES * KINDS);
    xsm_status status = XSM_OK;
    for (size_t i = 0; i < SIZES && status == XSM_OK; i++) {
        status = try_size(&p, sizes[i][0], sizes[i][1], err);
    }
    status = xsmi_trial_status(&activity, ctx, status, err);
    xsm_context_free(ctx);
    return status;
}
