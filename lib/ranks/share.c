#include "ranks/share.h"

#include "base/heap_sort.h"
#include "base/held.h"
#include "base/order.h"

#include <string.h>

/* Bytes that all processes send in a round, and the least that each may send. */
#define ROUND_BYTES ((size_t)1 << 23)
#define LEAST_BYTES ((size_t)1 << 12)

/* -- work ---------------------------------------------------------------------------------------------------------- */

typedef struct piece {
    uint64_t work;
    size_t number;
} piece;

typedef struct load {
    uint64_t work;
    uint32_t rank;
} load;

/* Orders pieces by falling work. */
static int compare_pieces(const void *a, const void *b)
{
    const piece *x = a, *y = b;
    return x->work != y->work ? XSMI_COMPARE(y->work, x->work) : XSMI_COMPARE(x->number, y->number);
}

static bool is_less(const load *a, const load *b)
{
    return a->work < b->work || (a->work == b->work && a->rank < b->rank);
}

/* Moves the first load of a heap, which has grown, to its place, so that the smallest is first again. */
static void sink(load *heap, size_t count)
{
    size_t at = 0;
    for (;;) {
        size_t least = at;
        for (size_t below = 2 * at + 1; below < count && below <= 2 * at + 2; below++) {
            least = is_less(&heap[below], &heap[least]) ? below : least;
        }
        if (least == at) {
            return;
        }
        const load kept = heap[at];
        heap[at] = heap[least];
        heap[least] = kept;
        at = least;
    }
}

xsm_status xsmi_share_work(xsm_context *ctx, const uint64_t *work, size_t count, uint32_t *owner, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(ctx);
    xsmi_held held = {.context = ctx};
    piece *pieces = xsmi_hold(&held, count, sizeof *pieces);
    load *loads = xsmi_hold(&held, ranks, sizeof *loads);
    const xsm_status status = xsmi_held_check(&held, "the work of the processes", err);
    if (status == XSM_OK) {
        for (size_t i = 0; i < count; i++) {
            pieces[i] = (piece){work[i], i};
        }
        xsmi_heap_sort(pieces, count, sizeof *pieces, compare_pieces);
        for (uint32_t r = 0; r < ranks; r++) {
            loads[r] = (load){0, r};
        }
        for (size_t i = 0; i < count; i++) {
            owner[pieces[i].number] = loads[0].rank;
            loads[0].work += pieces[i].work;
            sink(loads, ranks);
        }
    }
    xsmi_held_release(&held);
    return status;
}

/* -- arrays -------------------------------------------------------------------------------------------------------- */

/* How far the arrays of a process have been sent. */
typedef struct cursor {
    size_t at;     /* in `order` */
    size_t offset; /* in that array */
    uint64_t left; /* bytes */
} cursor;

typedef struct sharing {
    xsmi_held held; /* the arrays below */
    const xsmi_shared *arrays;
    size_t count;
    size_t *order;      /* [count] the arrays by their owners */
    cursor *cursors;    /* [ranks] */
    size_t *sizes;      /* [ranks] bytes of a round */
    size_t most, round; /* bytes that one process sends in a round at most; bytes that all send */
    unsigned char *mine, *all;
} sharing;

/* Sorts the arrays by their owners, and measures the rounds. */
static void plan(sharing *s, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        s->cursors[r] = (cursor){0, 0, 0};
    }
    for (size_t i = 0; i < s->count; i++) {
        s->cursors[s->arrays[i].owner].at++;
        s->cursors[s->arrays[i].owner].left += s->arrays[i].bytes;
    }
    uint64_t largest = 0;
    for (size_t r = 0, first = 0; r < ranks; r++) {
        const size_t number = s->cursors[r].at;
        s->cursors[r].at = first;
        first += number;
        largest = XSMI_MAX(largest, s->cursors[r].left);
    }
    for (size_t i = 0; i < s->count; i++) {
        s->order[s->cursors[s->arrays[i].owner].at++] = i;
    }
    s->most = (size_t)XSMI_MIN(largest, XSMI_MAX(ROUND_BYTES / ranks, LEAST_BYTES));
    s->round = 0;
    for (uint32_t r = ranks; r-- > 0;) { /* filling has moved each beginning to that of the next process */
        s->cursors[r].at = r > 0 ? s->cursors[r - 1].at : 0;
        s->round += (size_t)XSMI_MIN(s->cursors[r].left, s->most);
    }
}

static xsm_status start(sharing *s, xsm_context *ctx, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(ctx);
    s->order = xsmi_hold(&s->held, s->count, sizeof *s->order);
    s->cursors = xsmi_hold(&s->held, ranks, sizeof *s->cursors);
    s->sizes = xsmi_hold(&s->held, ranks, sizeof *s->sizes);
    XSMI_TRY(xsmi_held_check(&s->held, "what the processes exchange", err));
    plan(s, ranks);
    s->mine = xsmi_hold(&s->held, s->most, 1);
    s->all = xsmi_hold(&s->held, s->round, 1);
    return xsmi_held_check(&s->held, "what the processes exchange", err);
}

/* Copies the next bytes of a process's arrays to a buffer, or from it. */
static void move(const sharing *s, cursor *c, size_t bytes, unsigned char *to, const unsigned char *from)
{
    c->left -= bytes;
    while (bytes > 0) {
        const xsmi_shared *a = &s->arrays[s->order[c->at]];
        const size_t n = XSMI_MIN(bytes, a->bytes - c->offset);
        if (to && n > 0) {
            memcpy(to, (const unsigned char *)a->data + c->offset, n);
            to += n;
        }
        if (from && n > 0) {
            memcpy((unsigned char *)a->data + c->offset, from, n);
            from += n;
        }
        bytes -= n;
        c->offset += n;
        if (c->offset == a->bytes) {
            c->at++;
            c->offset = 0;
        }
    }
}

static xsm_status exchange(const sharing *s, xsm_context *ctx, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(ctx), rank = xsmi_rank(ctx);
    for (;;) {
        uint64_t any = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            s->sizes[r] = (size_t)XSMI_MIN(s->cursors[r].left, s->most);
            any += s->sizes[r];
        }
        if (any == 0) {
            return XSM_OK;
        }
        move(s, &s->cursors[rank], s->sizes[rank], s->mine, NULL);
        XSMI_TRY(xsmi_exchange_blocks(ctx, s->mine, s->all, s->sizes, err));
        const unsigned char *block = s->all;
        for (uint32_t r = 0; r < ranks; block += s->sizes[r], r++) {
            if (r != rank) {
                move(s, &s->cursors[r], s->sizes[r], NULL, block);
            }
        }
    }
}

xsm_status xsmi_share_arrays(xsm_context *ctx, xsm_status status, const xsmi_shared *arrays, size_t count,
                             xsm_error *err)
{
    sharing s = {.held = {.context = ctx}, .arrays = arrays, .count = count};
    status = status == XSM_OK ? start(&s, ctx, err) : status;
    status = xsmi_agree(ctx, status, err);
    status = status == XSM_OK ? exchange(&s, ctx, err) : status;
    xsmi_held_release(&s.held);
    return status;
}
