#include "ranks/comm.h"

#include "base/activity.h"
#include "base/context.h"
#include "base/entry.h"

#include <string.h>

uint32_t xsmi_ranks(const xsm_context *ctx)
{
    return ctx->group.comm.ranks;
}

uint32_t xsmi_rank(const xsm_context *ctx)
{
    return ctx->group.comm.rank;
}

xsmi_sent xsmi_sent_by(const xsm_context *ctx)
{
    return ctx->group.sent;
}

/* Ends a collective call, in which this process has sent `bytes` bytes: counts it, or returns its failure. */
static xsm_status called(xsmi_group *g, int32_t result, const char *name, uint64_t bytes, xsm_error *err)
{
    if (result != 0) {
        g->failed = true;
        return xsmi_fail(err, XSM_ERROR_COMM, "rank %u: %s() of the host's communicator returned %d", g->comm.rank,
                         name, result);
    }
    g->met = true;
    g->sent.calls++;
    g->sent.bytes += bytes;
    return XSM_OK;
}

void xsmi_collective_begin(xsm_context *group)
{
    xsmi_agree_begin(group);
    if (group) {
        group->group.opens = true;
        group->group.calls++;
    }
}

xsm_status xsmi_collective_end(xsm_context *group, xsm_status status, xsm_error *err)
{
    if (group) {
        status = status == XSM_OK ? status : xsmi_agree_once(group, status, err);
        group->group.calls--;
        group->group.opens &= group->group.calls > 0;
    }
    return status;
}

xsm_context *xsmi_context_group(xsm_context *ctx)
{
    return ctx && xsmi_ranks(ctx) > 1 ? ctx : NULL;
}

/* What precedes every exchange. */
static xsm_status prepare(xsm_context *ctx, xsm_error *err)
{
    const xsmi_group *g = &ctx->group;
    if (g->calls == 0) {
        return xsmi_fail(err, XSM_ERROR_INTERNAL, "an exchange outside of a call of all processes");
    }
    XSMI_TRY(g->opens ? xsmi_agree(ctx, XSM_OK, err) : XSM_OK);
    return g->failed ? xsmi_fail(err, XSM_ERROR_COMM,
                                 "rank %u: the host's communicator failed in an earlier call, and is not used any more",
                                 g->comm.rank)
                     : XSM_OK;
}

xsm_status xsmi_exchange_max(xsm_context *ctx, float *values, size_t count, xsm_error *err)
{
    xsmi_group *g = &ctx->group;
    XSMI_TRY(prepare(ctx, err));
    int32_t result;
    XSMI_CALL_HOST(result = g->comm.max_f32(g->comm.user, values, count));
    return called(g, result, "max_f32", (uint64_t)count * sizeof *values, err);
}

xsm_status xsmi_exchange_blocks(xsm_context *ctx, const void *mine, void *all, const size_t *sizes, xsm_error *err)
{
    xsmi_group *g = &ctx->group;
    XSMI_TRY(prepare(ctx, err));
    unsigned char nothing = 0; /* for calls that send or get no bytes */
    int32_t result;
    XSMI_CALL_HOST(result = g->comm.allgatherv(g->comm.user, mine ? mine : &nothing, all ? all : &nothing, sizes));
    return called(g, result, "allgatherv", sizes[g->comm.rank], err);
}

xsm_status xsmi_exchange_copy(xsm_context *ctx, void *data, size_t bytes, uint32_t root, xsm_error *err)
{
    xsmi_group *g = &ctx->group;
    XSMI_TRY(prepare(ctx, err));
    int32_t result;
    XSMI_CALL_HOST(result = g->comm.broadcast(g->comm.user, data, bytes, root));
    return called(g, result, "broadcast", root == g->comm.rank ? bytes : 0, err);
}

xsm_status xsmi_compare_first(xsm_context *ctx, uint64_t mine, bool *same, xsm_error *err)
{
    uint64_t first = mine;
    XSMI_TRY(xsmi_exchange_copy(ctx, &first, sizeof first, 0, err));
    *same = mine == first;
    return XSM_OK;
}

xsm_status xsmi_agree_same(xsm_context *ctx, xsm_status status, uint64_t mine, xsm_status unlike, const char *message,
                           xsm_error *err)
{
    if (!ctx) {
        return status;
    }
    enum { PIECES = 3, BITS = 24 }; /* a float holds whole numbers of so many bits */
    /* Of failures the largest number is that of the first process. */
    float said[1 + 2 * PIECES] = {status == XSM_OK ? 0 : (float)(xsmi_ranks(ctx) - xsmi_rank(ctx))};
    for (int i = 0; i < PIECES; i++) {
        const float piece = (float)(mine >> i * BITS & ((UINT64_C(1) << BITS) - 1));
        said[1 + 2 * i] = piece; /* the largest and, negative, the smallest of all processes */
        said[2 + 2 * i] = -piece;
    }
    ctx->group.opens = false;
    ctx->group.agreed = true; /* even if the group itself fails */
    XSMI_TRY(xsmi_exchange_max(ctx, said, sizeof said / sizeof *said, err));
    if (said[0] > 0) {
        return xsmi_agree_failed(ctx, xsmi_ranks(ctx) - (uint32_t)said[0], status, err);
    }
    bool same = true;
    for (int i = 0; i < PIECES; i++) {
        same &= said[1 + 2 * i] == -said[2 + 2 * i];
    }
    if (same) {
        ctx->group.agreed = false;
        return XSM_OK;
    }
    XSMI_TRY(xsmi_compare_first(ctx, mine, &same, err));
    return xsmi_agree(ctx, same ? XSM_OK : xsmi_fail(err, unlike, "%s", message), err);
}

xsm_status xsmi_agree(xsm_context *ctx, xsm_status status, xsm_error *err)
{
    return xsmi_agree_same(ctx, status, 0, XSM_ERROR_STATE, "the processes make different calls", err);
}

/* A process's failure, as it sends it to the others. */
typedef struct report {
    uint64_t line, column;
    xsm_status status;
    char message[sizeof(((xsm_error *)0)->message)];
} report;

static void fill_report(report *r, xsm_status status, const xsm_error *err)
{
    const bool full = err && err->size >= offsetof(xsm_error, message) + sizeof err->message && err->message[0];
    const char *text = full ? err->message : xsm_status_name(status);
    memset(r, 0, sizeof *r);
    r->status = status;
    if (full) {
        r->line = err->line;
        r->column = err->column;
    }
    if (text) {
        memcpy(r->message, text, strnlen(text, sizeof r->message - 1));
    }
}

xsm_status xsmi_agree_failed(xsm_context *ctx, uint32_t first, xsm_status status, xsm_error *err)
{
    ctx->group.agreed = true;
    report r;
    if (first == xsmi_rank(ctx)) {
        /* The report is what xsmi_end() will return in this process: in a cancelled call, any failure is
         * XSM_CANCELLED. */
        fill_report(&r, xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : status, err);
    } else {
        memset(&r, 0, sizeof r);
    }
    XSMI_TRY(xsmi_exchange_copy(ctx, &r, sizeof r, first, err));
    return xsmi_fail_at(err, r.status, r.line, r.column, "rank %u: %s", first, r.message);
}

void xsmi_agree_begin(xsm_context *ctx)
{
    if (ctx) {
        ctx->group.agreed = ctx->group.met = false;
    }
}

bool xsmi_met(const xsm_context *ctx)
{
    return ctx->group.met;
}

bool xsmi_agreed(const xsm_context *ctx)
{
    return ctx->group.agreed || ctx->group.failed;
}

xsm_status xsmi_agree_once(xsm_context *ctx, xsm_status status, xsm_error *err)
{
    return ctx && status != XSM_OK && xsmi_agreed(ctx) ? status : xsmi_agree(ctx, status, err);
}
