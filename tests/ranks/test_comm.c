/* Groups of processes: the host's table, agreement on errors, counted bytes. */
#include "support.h"

#include <string.h>

#include "base/base.h"
#include "ranks/comm.h"
#include "comm.h"

static int32_t no_max(void *user, float *values, size_t count)
{
    (void)user;
    (void)values;
    (void)count;
    return 1;
}

static int32_t no_gather(void *user, const void *mine, void *all, const size_t *sizes)
{
    (void)user;
    (void)mine;
    (void)all;
    (void)sizes;
    return 1;
}

static int32_t no_broadcast(void *user, void *data, size_t bytes, uint32_t root)
{
    (void)user;
    (void)data;
    (void)bytes;
    (void)root;
    return 1;
}

TEST(test_table)
{
    xsm_comm comm = XSM_COMM_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    xsm_context *ctx = NULL;
    options.comm = &comm;
    assert_ok(xsm_context_new(&options, &ctx, &err), err); /* one rank needs no functions */
    assert_int_equal(xsmi_ranks(ctx), 1);
    xsm_context_free(ctx);

    comm = (xsm_comm){sizeof comm, XSM_VERSION, 1, 2, 0, NULL, no_max, no_gather, no_broadcast};
    comm.release = XSM_VERSION + 100; /* a minor release */
    comm.ranks = 0;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ABI, err);
    comm.release = 0; /* filled in by no headers */
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ABI, err);
    comm.release = XSM_VERSION / 100 * 100 + 99; /* a patch */
    comm.ranks = 0;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_RANGE, err);
    comm.ranks = XSM_RANKS_MAX + 1;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_RANGE, err);
    comm.ranks = 1;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "rank is 1"));
    comm.ranks = 2;
    comm.max_f32 = NULL;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "max_f32()"));
    comm.max_f32 = no_max;
    comm.allgatherv = NULL;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ARGUMENT, err);
    comm.allgatherv = no_gather;
    comm.broadcast = NULL;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_ARGUMENT, err);
    comm.broadcast = no_broadcast;
    comm.size = sizeof comm - 1;
    assert_fails(xsm_context_new(&options, &ctx, &err), XSM_ERROR_STRUCT_OLD, err);
    comm.size = sizeof comm;
    assert_ok(xsm_context_new(&options, &ctx, &err), err);
    assert_int_equal(xsmi_ranks(ctx), 2);
    assert_int_equal(xsmi_rank(ctx), 1);

    /* Exchanges are of public calls; a function that failed is not called again. */
    float value = 0;
    assert_fails(xsmi_exchange_max(ctx, &value, 1, &err), XSM_ERROR_INTERNAL, err);
    xsmi_collective_begin(ctx);
    assert_fails(xsmi_exchange_max(ctx, &value, 1, &err), XSM_ERROR_COMM, err);
    assert_non_null(strstr(err.message, "rank 1: max_f32()"));
    assert_fails(xsmi_exchange_copy(ctx, &value, 1, 0, &err), XSM_ERROR_COMM, err);
    assert_non_null(strstr(err.message, "earlier"));
    assert_fails(xsmi_agree(ctx, XSM_OK, &err), XSM_ERROR_COMM, err);
    assert_int_equal(xsmi_sent_by(ctx).calls, 0);
    xsm_context_free(ctx);
}

/* Exchanges of each kind, and their bytes: an agreement has 28, before the first and at the end. */
static xsm_status exchanges(test_rank *r)
{
    xsm_context *ctx = r->context;
    float values[2] = {(float)r->rank, -(float)r->rank};
    XSMI_TRY(xsmi_exchange_max(ctx, values, 2, &r->err));
    size_t sizes[TEST_RANKS];
    for (uint32_t k = 0; k < r->ranks; k++) {
        sizes[k] = k;
    }
    unsigned char mine[TEST_RANKS], all[TEST_RANKS * TEST_RANKS];
    memset(mine, 'a' + (int)r->rank, sizeof mine);
    XSMI_TRY(xsmi_exchange_blocks(ctx, mine, all, sizes, &r->err));
    uint64_t number = r->rank + 7;
    XSMI_TRY(xsmi_exchange_copy(ctx, &number, sizeof number, 1, &r->err));
    XSMI_TRY(xsmi_agree(ctx, XSM_OK, &r->err));
    const xsmi_sent sent = xsmi_sent_by(ctx);
    return values[0] == (float)(r->ranks - 1) && values[1] == 0 && memcmp(all, "bcc", 3) == 0 && number == 8 &&
                   sent.calls == 5 && sent.bytes == 8 + r->rank + (r->rank == 1 ? 8 : 0) + 2 * 28
               ? XSM_OK
               : XSM_ERROR_INTERNAL;
}

static xsm_status exchange(test_rank *r)
{
    return XSMI_COLLECTIVE(r->context, exchanges(r), &r->err);
}

/* An agreement on a number. */
static xsm_status agree_same(test_rank *r)
{
    const uint64_t *numbers = r->user; /* that of rank 1, and that of the others */
    xsmi_collective_begin(r->context);
    const xsm_status given = numbers[2] == r->rank ? xsmi_fail(&r->err, XSM_ERROR_FORMAT, "this is it") : XSM_OK;
    const xsm_status status =
        xsmi_agree_same(r->context, given, numbers[r->rank != 1], XSM_ERROR_STATE, "it is another", &r->err);
    const xsmi_sent sent = xsmi_sent_by(r->context);
    return xsmi_agreed(r->context) == (status != XSM_OK) && (status != XSM_OK || (sent.calls == 1 && sent.bytes == 28))
               ? status
               : XSM_ERROR_INTERNAL;
}

TEST(test_agree_same)
{
    test_rank ranks[TEST_RANKS];
    for (int bit = -1; bit < 64; bit++) { /* numbers that differ by one bit, or by none */
        uint64_t numbers[] = {UINT64_C(0xFEDCBA9876543210), 0, TEST_RANKS};
        numbers[1] = numbers[0] ^ (bit < 0 ? 0 : UINT64_C(1) << bit);
        test_run_ranks(3, 1, 0, agree_same, numbers, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, bit < 0 ? XSM_OK : XSM_ERROR_STATE);
            assert_true(bit < 0 || strcmp(ranks[r].err.message, "rank 1: it is another") == 0);
        }
        numbers[2] = 2; /* fails: whatever the numbers are */
        test_run_ranks(3, 1, 0, agree_same, numbers, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, XSM_ERROR_FORMAT);
            assert_string_equal(ranks[r].err.message, "rank 2: this is it");
        }
    }
}

TEST(test_exchanges)
{
    test_rank ranks[TEST_RANKS];
    for (uint32_t count = 3; count <= TEST_RANKS; count++) {
        test_run_ranks(count, 1, 0, exchange, NULL, ranks);
        for (uint32_t r = 0; r < count; r++) {
            assert_ok(ranks[r].status, ranks[r].err);
        }
    }
}

/* Ranks 2 and 1 fail, each in its own way. */
static xsm_status fail_some(test_rank *r)
{
    xsm_status status = r->rank == 0   ? XSM_OK
                        : r->rank == 1 ? xsmi_fail_at(&r->err, XSM_ERROR_FORMAT, 3, 4, "this is it")
                                       : xsmi_fail_memory(&r->err, 5, "much");
    return XSMI_COLLECTIVE(r->context, xsmi_agree(r->context, status, &r->err), &r->err);
}

/* The same, where all ranks know already that rank 1 is the first. */
static xsm_status fail_known(test_rank *r)
{
    xsmi_collective_begin(r->context);
    if (xsmi_agree(r->context, XSM_OK, &r->err) != XSM_OK || xsmi_agreed(r->context)) {
        return XSM_ERROR_INTERNAL;
    }
    xsm_status status = r->rank == 0   ? XSM_OK
                        : r->rank == 1 ? xsmi_fail_at(&r->err, XSM_ERROR_FORMAT, 3, 4, "this is it")
                                       : xsmi_fail_memory(&r->err, 5, "much");
    status = xsmi_agree_failed(r->context, 1, status, &r->err);
    const xsmi_sent sent = xsmi_sent_by(r->context);
    return xsmi_agreed(r->context) && sent.calls == 2 && (sent.bytes > 28) == (r->rank == 1)
               ? xsmi_agree_once(r->context, status, &r->err) /* does nothing */
               : XSM_ERROR_INTERNAL;
}

/* A failure without a message. */
static xsm_status fail_mutely(test_rank *r)
{
    xsmi_collective_begin(r->context);
    return xsmi_agree(r->context, r->rank == 2 ? XSM_ERROR_IO : XSM_OK, r->rank == 2 ? NULL : &r->err);
}

TEST(test_agreement)
{
    test_rank ranks[TEST_RANKS];
    for (int i = 0; i < 2; i++) {
        test_run_ranks(3, 1, 0, i == 0 ? fail_some : fail_known, NULL, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_FORMAT, ranks[r].err);
            assert_string_equal(ranks[r].err.message, "rank 1: this is it");
            assert_int_equal(ranks[r].err.line, 3);
            assert_int_equal(ranks[r].err.column, 4);
        }
    }
    test_run_ranks(3, 1, 0, fail_mutely, NULL, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(ranks[r].status, XSM_ERROR_IO);
    }
    assert_string_equal(ranks[0].err.message, "rank 2: XSM_ERROR_IO");
}

/* Rank 1 leaves before the others have met it. */
static xsm_status leave(test_rank *r)
{
    xsmi_collective_begin(r->context);
    return r->rank == 1 ? XSM_OK : xsmi_agree(r->context, XSM_OK, &r->err);
}

TEST(test_lost)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(3, 1, 0, leave, NULL, ranks);
    assert_fails(ranks[0].status, XSM_ERROR_COMM, ranks[0].err);
    assert_fails(ranks[2].status, XSM_ERROR_COMM, ranks[2].err);
    for (uint64_t at = 1; at <= 5; at++) { /* each of the calls of exchange() */
        test_run_ranks(3, 1, at, exchange, NULL, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_COMM, ranks[r].err);
        }
    }
}
