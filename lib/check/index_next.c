/* The part of the conformance suite of indexes that tests next(): rows in falling order on demand. */
#include "check/index_check.h"

#include "base/arena.h"
#include "base/order.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 3, TOP = XSMI_TRIAL_TOP, GUARD = 64, JUNK = 0xA5 };

/* Lists of some queries, to their ends. */
typedef struct listing {
    uint32_t *classes; /* [QUERIES][rows] */
    float *scores;     /* [QUERIES][rows] */
    uint32_t lengths[QUERIES];
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

static desk divide_desk(const xsmi_index_trial *p, const xsm_index *x, uint32_t count, xsmi_arena *arena)
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
static xsm_status list_some(const xsmi_index_trial *p, const xsm_index *x, const desk *d, uint32_t first,
                            uint32_t count, uint32_t top, bool begin, listing *to, xsm_error *err)
{
    uint32_t lengths[QUERIES] = {0};
    uint64_t probed[QUERIES] = {0};
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
            return xsmi_index_fault(p, err, "next() lists more rows than there are");
        }
        memcpy(to->classes + into, d->classes + from, lengths[i] * sizeof *to->classes);
        memcpy(to->scores + into, d->scores + from, lengths[i] * sizeof *to->scores);
        to->lengths[first + i] += lengths[i];
        /* The list of one call must be in falling order. */
        for (uint32_t j = 1; j < lengths[i]; j++) {
            const size_t at = from + j;
            if (d->scores[at] > d->scores[at - 1] ||
                (d->scores[at] == d->scores[at - 1] && d->classes[at] <= d->classes[at - 1])) {
                return xsmi_index_fault(p, err, "next(): position %u of a list is before position %u in order", j,
                                        j - 1);
            }
        }
    }
    return XSM_OK;
}

static void set_queries(const xsmi_index_trial *p, const xsm_index *x, const desk *d, uint32_t first, uint32_t count)
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
static xsm_status list_all(const xsmi_index_trial *p, const xsm_index *x, unsigned char *memory, uint32_t first,
                           uint32_t count, listing *to, xsm_error *err)
{
    xsmi_arena arena = {memory, 0};
    const desk d = divide_desk(p, x, count, &arena);
    set_queries(p, x, &d, first, count);
    memset(d.cursors, JUNK, count * d.cursor_stride + GUARD);
    memset(to->lengths + first, 0, count * sizeof *to->lengths);
    bool ended[QUERIES] = {false};
    for (uint32_t top = XSMI_MIN(p->rows, TOP), more = 1, begin = 1; more; begin = 0) {
        uint32_t before[QUERIES];
        memcpy(before, to->lengths, sizeof before);
        XSMI_TRY(list_some(p, x, &d, first, count, top, begin, to, err));
        more = 0;
        for (uint32_t i = first; i < first + count; i++) {
            const uint32_t some = to->lengths[i] - before[i];
            if (ended[i] && some > 0) {
                return xsmi_index_fault(p, err, "next() goes on after a list that was not full");
            }
            ended[i] = some < top;
            more |= some > 0;
        }
        top = top > p->rows / 2 ? p->rows : 2 * top;
    }
    for (size_t i = 0; i < GUARD; i++) {
        if (d.cursors[count * d.cursor_stride + i] != JUNK) {
            return xsmi_index_fault(p, err, "next() writes behind its cursors");
        }
    }
    return XSM_OK;
}

/* Checks the rows of a listing, and that the first ones are those that query() found or better ones. */
static xsm_status check_listing(const xsmi_index_trial *p, const listing *l, uint32_t query, uint64_t *seen,
                                xsm_error *err)
{
    const uint32_t *classes = l->classes + (size_t)query * p->rows;
    const float *scores = l->scores + (size_t)query * p->rows;
    const uint32_t length = l->lengths[query], top = XSMI_MIN(p->rows, TOP);
    const bool exact = p->options->recall == 1;
    memset(seen, 0, (p->rows / 64 + 1) * sizeof *seen);
    for (uint32_t j = 0; j < length; j++) {
        const uint64_t bit = UINT64_C(1) << classes[j] % 64;
        double size, want = xsmi_index_trial_score(p, query, classes[j], &size);
        if (seen[classes[j] / 64] & bit) {
            return xsmi_index_fault(p, err, "next() lists row %u twice", classes[j]);
        }
        seen[classes[j] / 64] |= bit;
        if (!(fabs((double)scores[j] - want) <= p->options->tolerance * size)) {
            return xsmi_index_fault(p, err, "next(): row %u scores %g, not %g", classes[j], want, (double)scores[j]);
        }
        if (exact && j > 0 && scores[j] > scores[j - 1]) {
            return xsmi_index_fault(p, err, "next(): position %u of all rows scores above position %u", j, j - 1);
        }
    }
    if ((double)length < p->options->recall * p->rows) {
        return xsmi_index_fault(p, err, "next() lists %u rows in all, a share below %g", length, p->options->recall);
    }
    for (uint32_t search = 0; search < 2; search++) {
        const uint32_t most = search ? p->top : top, *found = p->classes[search] + (size_t)query * most;
        const float *best = p->scores[search] + (size_t)query * most;
        for (uint32_t j = 0; j < p->lengths[search][query] && (exact || !search); j++) {
            if (j >= length || (exact ? classes[j] != found[j] || scores[j] != best[j] : scores[j] < best[j])) {
                return xsmi_index_fault(p, err, "next() begins with other rows than query(), at position %u of %u", j,
                                        most);
            }
        }
    }
    return XSM_OK;
}

static xsm_status same(const xsmi_index_trial *p, const listing *a, const listing *b, const char *when, xsm_error *err)
{
    for (uint32_t i = 0; i < QUERIES; i++) {
        const size_t at = (size_t)i * p->rows;
        if (a->lengths[i] != b->lengths[i] ||
            memcmp(a->classes + at, b->classes + at, a->lengths[i] * sizeof *a->classes) != 0 ||
            memcmp(a->scores + at, b->scores + at, a->lengths[i] * sizeof *a->scores) != 0) {
            return xsmi_index_fault(p, err, "next() lists other rows %s", when);
        }
    }
    return XSM_OK;
}

/* Memory of a trial. */
typedef struct room {
    listing lists[2];
    uint64_t *seen;       /* [rows/64 + 1] */
    unsigned char *desks; /* [desk_count][desk_each] */
    size_t desk_each;
} room;

static room divide_room(const xsmi_index_trial *p, const xsm_index *x, uint32_t each, uint32_t count, xsmi_arena *arena)
{
    room r = {0};
    for (int i = 0; i < 2; i++) {
        r.lists[i].classes = xsmi_arena_take(arena, (uint64_t)QUERIES * p->rows, sizeof *r.lists[i].classes);
        r.lists[i].scores = xsmi_arena_take(arena, (uint64_t)QUERIES * p->rows, sizeof *r.lists[i].scores);
    }
    r.seen = xsmi_arena_take(arena, p->rows / 64 + 1, sizeof *r.seen);
    xsmi_arena one = {NULL, 0};
    (void)divide_desk(p, x, each, &one);
    r.desk_each = one.used;
    r.desks = xsmi_arena_take(arena, count, r.desk_each);
    return r;
}

/* Makes memory for `count` desks of `each` queries; NULL if there is none. */
static unsigned char *make_room(const xsmi_index_trial *p, const xsm_index *x, uint32_t each, uint32_t count, room *r,
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

xsm_status xsmi_index_try_next(const xsmi_index_trial *p, const xsm_index *x, xsm_error *err)
{
    if (!x->ops.next) {
        return XSM_OK;
    }
    room r;
    size_t bytes;
    unsigned char *memory = make_room(p, x, QUERIES, 1, &r, &bytes, err);
    if (!memory) {
        return XSM_ERROR_MEMORY;
    }
    xsm_status status = list_all(p, x, r.desks, 0, QUERIES, &r.lists[0], err);
    for (uint32_t i = 0; i < QUERIES && status == XSM_OK; i++) {
        status = check_listing(p, &r.lists[0], i, r.seen, err);
    }
    for (uint32_t i = 0; i < QUERIES && status == XSM_OK; i++) {
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
    const xsmi_index_trial *p;
    const xsm_index *x;
    room *room;
    bool begin;
    uint32_t top;
    xsm_status status[QUERIES];
    xsm_error errors[QUERIES];
} turn;

/* One call for one query: the next call may come from another thread. */
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

xsm_status xsmi_index_try_cursors(const xsmi_index_trial *p, const xsm_index *x, xsm_context *threads, xsm_error *err)
{
    if (!x->ops.next) {
        return XSM_OK;
    }
    room r;
    size_t bytes;
    unsigned char *memory = make_room(p, x, 1, QUERIES, &r, &bytes, err);
    if (!memory) {
        return XSM_ERROR_MEMORY;
    }
    xsm_status status = XSM_OK;
    for (uint32_t i = 0; i < QUERIES && status == XSM_OK; i++) {
        status = list_all(p, x, r.desks, i, 1, &r.lists[0], err);
    }
    turn t = {.p = p, .x = x, .room = &r, .begin = true, .top = XSMI_MIN(p->rows, TOP)};
    for (uint64_t listed = 0; status == XSM_OK && listed < 2 * (uint64_t)p->rows; t.begin = false) {
        listed += t.top;
        status = xsmi_run(threads, take_turn, &t, QUERIES, err);
        for (uint32_t i = 0; i < QUERIES && status == XSM_OK; i++) {
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
