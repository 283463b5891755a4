/*
 * Work that ranks divide: shares that are even and the same everywhere; arrays that all ranks have afterwards, whatever
 * their sizes; nothing is sent where a rank has failed.
 */
#include "support.h"

#include "base/order.h"
#include "ranks/share.h"
#include "comm.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES = 500, ARRAYS = 60 };

typedef struct work {
    uint64_t pieces[PIECES];
    uint32_t owner[TEST_RANKS][PIECES];
    size_t sizes[ARRAYS];
    uint32_t fails; /* the rank that has failed; TEST_RANKS: none */
    xsmi_sent sent[TEST_RANKS];
} work;

static xsm_status share_work(test_rank *r)
{
    work *w = r->user;
    return xsmi_share_work(r->context, w->pieces, PIECES, w->owner[r->rank], &r->err);
}

/* No rank has more than the largest piece above the mean, and the pieces of the largest size are dealt out in turn. */
TEST(test_work)
{
    static work w;
    test_rank ranks[TEST_RANKS];
    for (uint32_t count = 1; count <= TEST_RANKS; count++) {
        uint64_t all = 0, most = 0;
        for (size_t i = 0; i < PIECES; i++) {
            w.pieces[i] = i < TEST_RANKS ? 100000 : 1 + i * i * i % 9973;
            all += w.pieces[i];
            most = XSMI_MAX(most, w.pieces[i]);
        }
        test_run_ranks(count, 1, 0, share_work, &w, ranks);
        uint64_t loads[TEST_RANKS] = {0};
        for (uint32_t r = 0; r < count; r++) {
            assert_ok(ranks[r].status, ranks[r].err);
            assert_memory_equal(w.owner[r], w.owner[0], sizeof w.owner[0]);
        }
        for (size_t i = 0; i < PIECES; i++) {
            assert_true(w.owner[0][i] < count);
            assert_true(i >= TEST_RANKS || w.owner[0][i] == i % count);
            loads[w.owner[0][i]] += w.pieces[i];
        }
        for (uint32_t r = 0; r < count; r++) {
            assert_true(loads[r] <= all / count + most && loads[r] + most >= all / count);
        }
    }
}

/* Byte k of array i. */
static unsigned char byte_of(size_t i, size_t k)
{
    return (unsigned char)(i * 37 + k * 11 + k / 251);
}

static xsm_status share_arrays(test_rank *r)
{
    work *w = r->user;
    xsmi_shared arrays[ARRAYS];
    for (size_t i = 0; i < ARRAYS; i++) {
        const uint32_t owner = (uint32_t)(i * i % r->ranks);
        arrays[i] = (xsmi_shared){calloc(w->sizes[i] + 1, 1), w->sizes[i], owner};
        for (size_t k = 0; owner == r->rank && k < w->sizes[i]; k++) {
            ((unsigned char *)arrays[i].data)[k] = byte_of(i, k);
        }
    }
    const bool fails = r->rank == w->fails;
    xsm_status status = fails ? xsmi_fail(&r->err, XSM_ERROR_DATA, "no such rows") : XSM_OK;
    xsmi_collective_begin(r->context);
    status = xsmi_share_arrays(r->context, status, fails ? NULL : arrays, ARRAYS, &r->err);
    w->sent[r->rank] = xsmi_sent_by(r->context);
    for (size_t i = 0; i < ARRAYS; i++) {
        const unsigned char *bytes = arrays[i].data;
        for (size_t k = 0; k <= w->sizes[i] && status == XSM_OK; k++) {
            if (bytes[k] != (k < w->sizes[i] ? byte_of(i, k) : 0)) {
                status = xsmi_fail(&r->err, XSM_ERROR_INTERNAL, "byte %zu of array %zu is %d", k, i, bytes[k]);
            }
        }
        free(arrays[i].data);
    }
    return status;
}

TEST(test_arrays)
{
    static work w;
    test_rank ranks[TEST_RANKS];
    /* Nothing at all; a few bytes; more than a round; one large array beside small ones. */
    for (int kind = 0; kind < 4; kind++) {
        for (size_t i = 0; i < ARRAYS; i++) {
            w.sizes[i] = kind == 0   ? 0
                         : kind == 1 ? i % 7
                         : kind == 2 ? 150000 + 999 * i
                         : i == 13   ? 4600001
                                     : i % 3 * 100;
        }
        for (uint32_t count = 2; count <= 7; count += count == 2 ? 1 : 2) {
            uint64_t own[TEST_RANKS] = {0};
            for (size_t i = 0; i < ARRAYS; i++) {
                own[i * i % count] += w.sizes[i];
            }
            w.fails = TEST_RANKS;
            test_run_ranks(count, 1, 0, share_arrays, &w, ranks);
            for (uint32_t r = 0; r < count; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                assert_int_equal(w.sent[r].bytes, own[r] + 28); /* and the agreement */
                assert_int_equal(w.sent[r].calls, w.sent[0].calls);
            }
            assert_true(kind < 2 || w.sent[0].calls > 2);
            w.fails = count - 1;
            test_run_ranks(count, 1, 0, share_arrays, &w, ranks);
            for (uint32_t r = 0; r < count; r++) {
                assert_fails(ranks[r].status, XSM_ERROR_DATA, ranks[r].err);
                assert_int_equal(w.sent[r].calls, 2); /* the agreement and its message */
            }
        }
    }
}
