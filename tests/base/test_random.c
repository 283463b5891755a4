/*
 * Tests of random streams: known answers, golden values of an independent script, and the exact distribution of each
 * kind of draw. Statistical tests use fixed seeds, so that a test always passes or always fails. A true random source
 * would exceed their bounds once in a million tests.
 */
#include "support.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "golden/random_streams.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Pearson's statistic against equal chances, compared with its quantile at 1 - 1e-6 (Wilson and Hilferty 1931). */
static void assert_equal_chances(const uint32_t *counts, size_t cells)
{
    double total = 0, statistic = 0;
    for (size_t i = 0; i < cells; i++) {
        total += counts[i];
    }
    double expected = total / (double)cells;
    assert_true(expected >= 10); /* fewer, and the statistic is not chi-square distributed */
    for (size_t i = 0; i < cells; i++) {
        statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    double freedom = (double)(cells - 1);
    double root = 1 - 2 / (9 * freedom) + 4.753424 * sqrt(2 / (9 * freedom));
    if (statistic > freedom * root * root * root) {
        fail_msg("chi-square %.1f with %.0f degrees of freedom", statistic, freedom);
    }
}

/* Random123's tests/kat_vectors (https://github.com/DEShawResearch/random123), the lines "philox4x32 10": counter,
 * key, result. */
TEST(test_known_answers)
{
    static const struct {
        uint32_t counter[4], key[2], result[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t v = 0; v < COUNT(vectors); v++) {
        xsmi_stream s;
        xsmi_stream_start(&s, (uint64_t)vectors[v].key[1] << 32 | vectors[v].key[0], vectors[v].counter[1],
                          (uint64_t)vectors[v].counter[3] << 32 | vectors[v].counter[2]);
        s.counter[0] = vectors[v].counter[0];
        for (size_t i = 0; i < 4; i++) {
            assert_int_equal(xsmi_stream_next(&s), vectors[v].result[i]);
        }
    }
}

TEST(test_golden_words)
{
    for (size_t g = 0; g < COUNT(golden_words); g++) {
        xsmi_stream s;
        xsmi_stream_start(&s, golden_words[g].seed, golden_words[g].purpose, golden_words[g].position);
        for (size_t i = 0; i < COUNT(golden_words[g].words); i++) {
            assert_int_equal(xsmi_stream_next(&s), golden_words[g].words[i]);
        }
    }
}

/* A stream that has used up its 2^34 words goes on in blocks that no purpose below 2^16 names. */
TEST(test_carry)
{
    xsmi_stream s, fresh;
    xsmi_stream_start(&s, 7, XSMI_STREAM_PERMUTE, 11);
    s.counter[0] = UINT32_MAX;
    for (int i = 0; i < 4; i++) {
        xsmi_stream_next(&s);
    }
    assert_int_equal(s.counter[0], 0);
    assert_int_equal(s.counter[1], XSMI_STREAM_PERMUTE + (1 << 16));
    xsmi_stream_start(&fresh, 7, XSMI_STREAM_PERMUTE, 11);
    assert_int_not_equal(xsmi_stream_next(&s), xsmi_stream_next(&fresh));
}

TEST(test_golden_below)
{
    for (size_t g = 0; g < COUNT(golden_below); g++) {
        xsmi_stream s;
        xsmi_stream_start(&s, 1, 2, 3);
        for (size_t i = 0; i < COUNT(golden_below[g].values); i++) {
            uint64_t value = xsmi_stream_below(&s, golden_below[g].n);
            assert_true(value < golden_below[g].n);
            assert_true(value == golden_below[g].values[i]);
        }
    }
}

/* The remainder by 3 of a number below 3*2^30: without the rejection, 0 would come twice as often as 1 and 2. The same
 * for 64 bits. */
TEST(test_below_is_exact)
{
    static const uint64_t bounds[] = {3, 6, 3u << 30, UINT64_C(3) << 62};
    for (size_t b = 0; b < COUNT(bounds); b++) {
        uint32_t counts[3] = {0};
        xsmi_stream s;
        xsmi_stream_start(&s, 42, 0, b);
        for (int i = 0; i < 30000; i++) {
            counts[xsmi_stream_below(&s, bounds[b]) % 3]++;
        }
        assert_equal_chances(counts, 3);
    }
    uint32_t counts[1000] = {0};
    xsmi_stream s;
    xsmi_stream_start(&s, 43, 0, 0);
    for (int i = 0; i < 200000; i++) {
        counts[xsmi_stream_below(&s, 1000)]++;
    }
    assert_equal_chances(counts, 1000);
}

TEST(test_uniform)
{
    xsmi_stream s;
    xsmi_stream_start(&s, 1, 2, 3);
    for (size_t i = 0; i < COUNT(golden_uniform); i++) {
        assert_true(xsmi_stream_uniform(&s) == golden_uniform[i]);
    }
    uint32_t counts[64] = {0};
    for (int i = 0; i < 64000; i++) {
        double value = xsmi_stream_uniform(&s);
        assert_true(value >= 0 && value < 1);
        counts[(int)(value * 64)]++;
    }
    assert_equal_chances(counts, 64);
    /* The largest value, from words of all ones, is below 1. */
    s.used = 0;
    memset(s.block, 0xff, sizeof s.block);
    assert_true(xsmi_stream_uniform(&s) == 1 - 0x1p-53);
}

TEST(test_golden_others)
{
    for (size_t g = 0; g < COUNT(golden_others); g++) {
        uint32_t classes[40];
        xsmi_stream s;
        xsmi_stream_start(&s, 5, XSMI_STREAM_NEGATIVES, golden_others[g].n);
        xsmi_stream_others(&s, golden_others[g].n, golden_others[g].excluded, golden_others[g].m, classes);
        for (uint32_t i = 0; i < golden_others[g].m; i++) {
            assert_int_equal(classes[i], golden_others[g].classes[i]);
        }
    }
}

/* Many streams at once give what each gives alone, where draws are rejected often, too. */
TEST(test_streams_other)
{
    enum { STREAMS = 3000 };
    static const uint32_t sizes[] = {2, 3, 217240, 2147483649u, 3000000000u, UINT32_MAX};
    static uint64_t positions[STREAMS];
    static uint32_t excluded[STREAMS], out[STREAMS];
    const uint64_t seed = 0x123456789abcdef0;
    for (size_t k = 0; k < COUNT(sizes); k++) {
        const uint32_t n = sizes[k];
        for (size_t i = 0; i < STREAMS; i++) {
            positions[i] = i % 2 ? i : UINT64_MAX - 7 * i;
            excluded[i] = (uint32_t)(0x9e3779b97f4a7c15 * i >> 32) % n;
        }
        for (uint32_t mask = 0; mask < 8; mask++) {
            const size_t count = STREAMS - mask;
            const xsmi_streams streams = {seed, XSMI_STREAM_NEGATIVES, positions, count};
            xsmi_streams_other(xsmi_kernels_select(mask), &streams, n, excluded, out);
            for (size_t i = 0; i < count; i++) {
                xsmi_stream s;
                uint32_t alone;
                xsmi_stream_start(&s, seed, XSMI_STREAM_NEGATIVES, positions[i]);
                xsmi_stream_others(&s, n, excluded[i], 1, &alone);
                assert_int_equal(out[i], alone);
            }
        }
    }
}

/* The same of several draws, of each stream from another number of classes. */
TEST(test_streams_sets)
{
    enum { STREAMS = 300, MOST = 40 };
    static const uint32_t most[] = {1, 3, 9, 33, 90, 217240, 2147483649u, UINT32_MAX - 1},
                          draws[] = {0, 1, 2, 5, 8, 20, 32, 33, MOST};
    static uint64_t positions[STREAMS];
    static uint32_t n[STREAMS], drawn[STREAMS][MOST], *out[STREAMS];
    const uint64_t seed = 0x123456789abcdef0;
    for (size_t k = 0; k < COUNT(most) * COUNT(draws) * 8; k++) {
        const uint32_t mask = (uint32_t)k % 8, m = draws[k / 8 % COUNT(draws)], classes = most[k / 8 / COUNT(draws)];
        for (size_t i = 0; i < STREAMS; i++) {
            positions[i] = i % 2 ? i + k : UINT64_MAX - 7 * i;
            n[i] = classes - (uint32_t)(i % 5 < classes ? i % 5 : 0);
            out[i] = drawn[i];
        }
        memset(drawn, 0x5a, sizeof drawn);
        const size_t count = STREAMS - mask;
        const xsmi_streams streams = {seed, XSMI_STREAM_NEGATIVES, positions, count};
        xsmi_streams_sets(xsmi_kernels_select(mask), &streams, n, m, out);
        for (size_t i = 0; i < count; i++) {
            const uint32_t own = m < n[i] ? m : n[i];
            uint32_t alone[MOST];
            xsmi_stream s;
            memset(alone, 0x5a, sizeof alone);
            xsmi_stream_start(&s, seed, XSMI_STREAM_NEGATIVES, positions[i]);
            xsmi_stream_others(&s, n[i] + 1, n[i], own, alone);
            assert_memory_equal(drawn[i], alone, sizeof alone);
        }
    }
}

static uint32_t choose(uint32_t n, uint32_t m)
{
    uint64_t ways = 1;
    for (uint32_t i = 1; i <= m; i++) {
        ways = ways * (n - m + i) / i;
    }
    return (uint32_t)ways;
}

/* Every set of m of the n-1 others, for every class left out, equally often. */
TEST(test_others_sets)
{
    enum { N = 7 };
    static uint32_t by_mask[1 << N];
    for (uint32_t m = 1; m < N; m++) {
        for (uint32_t excluded = 0; excluded < N; excluded++) {
            memset(by_mask, 0, sizeof by_mask);
            for (uint32_t draw = 0; draw < 4000; draw++) {
                uint32_t classes[N], mask = 0;
                xsmi_stream s;
                xsmi_stream_start(&s, 100 * m + excluded, XSMI_STREAM_NEGATIVES, draw);
                xsmi_stream_others(&s, N, excluded, m, classes);
                for (uint32_t i = 0; i < m; i++) {
                    assert_true(classes[i] < N && classes[i] != excluded);
                    assert_int_equal(mask >> classes[i] & 1, 0);
                    mask |= 1u << classes[i];
                }
                by_mask[mask]++;
            }
            uint32_t counts[1 << N];
            size_t cells = 0;
            for (uint32_t mask = 0; mask < 1 << N; mask++) {
                if (by_mask[mask] > 0) {
                    counts[cells++] = by_mask[mask];
                }
            }
            assert_int_equal(cells, choose(N - 1, m)); /* none is missing */
            if (cells > 1) {
                assert_equal_chances(counts, cells);
            }
        }
    }
}

/* The same above 32 draws, where the list is kept sorted: 33 of 35 leave out each pair equally often. */
TEST(test_others_long)
{
    enum { N = 36, M = 33, EXCLUDED = 17 };
    static uint32_t counts[N * N];
    for (uint32_t draw = 0; draw < 20000; draw++) {
        uint32_t classes[M];
        bool seen[N] = {false};
        xsmi_stream s;
        xsmi_stream_start(&s, 3, XSMI_STREAM_NEGATIVES, draw);
        xsmi_stream_others(&s, N, EXCLUDED, M, classes);
        for (uint32_t i = 0; i < M; i++) {
            assert_true(classes[i] < N && classes[i] != EXCLUDED && !seen[classes[i]]);
            seen[classes[i]] = true;
        }
        uint32_t missing[2], found = 0;
        for (uint32_t k = 0; k < N; k++) {
            if (!seen[k] && k != EXCLUDED) {
                missing[found++] = k - (k > EXCLUDED);
            }
        }
        assert_int_equal(found, 2);
        counts[missing[1] * (missing[1] - 1) / 2 + missing[0]]++;
    }
    assert_equal_chances(counts, choose(N - 1, 2));
}

/* Without any set of classes, in any order, the rest are left in their order: also where thousands are excluded that
 * follow each other, for which the search from below took hours. */
TEST(test_without_many)
{
    enum { MOST = 100000 };
    static uint32_t excluded[MOST], classes[MOST];
    static bool out[2 * MOST];
    static const struct {
        uint32_t n, first, excluded, step;
    } tried[] = {{MOST + 50, 0, MOST, 1}, {MOST + 50, 50, MOST, 1}, {MOST + 50, 20, MOST, 1},
                 {900, 0, 300, 3},        {900, 1, 300, 3},         {900, 2, 300, 3},
                 {40, 3, 17, 2},          {12, 0, 12, 1},           {2 * MOST, 0, MOST - 9, 2}};
    for (size_t t = 0; t < COUNT(tried); t++) {
        const uint32_t n = tried[t].n, count = tried[t].excluded;
        xsmi_stream s;
        memset(out, 0, sizeof out);
        for (uint32_t i = 0; i < count; i++) { /* 7919 is prime, and no count's divisor */
            excluded[i] = tried[t].first + (uint32_t)((uint64_t)i * 7919 % count) * tried[t].step;
            out[excluded[i]] = true;
        }
        const uint32_t left = n - count < 100 || n < 1000 ? n - count : 100;
        xsmi_stream_start(&s, 1, XSMI_STREAM_NEGATIVES, t);
        xsmi_stream_without(&s, n, excluded, count, left, classes);
        if (left == n - count) {
            for (uint32_t k = 0, at = 0; k < n; k++) {
                assert_true(out[k] || classes[at++] == k);
            }
        }
        for (uint32_t i = 0; i < left; i++) {
            assert_true(classes[i] < n && !out[classes[i]]);
            out[classes[i]] = true;
        }
    }
}

TEST(test_others_edges)
{
    uint32_t classes[1000];
    xsmi_stream s;
    for (uint32_t n = 2; n <= 1000; n = n * 3 / 2 + 1) {
        for (uint32_t which = 0; which < 3; which++) {
            uint32_t excluded = which == 0 ? 0 : which == 1 ? n / 2 : n - 1;
            xsmi_stream_start(&s, 1, XSMI_STREAM_NEGATIVES, n);
            xsmi_stream_others(&s, n, excluded, n - 1, classes);
            for (uint32_t i = 0; i < n - 1; i++) {
                assert_int_equal(classes[i], i + (i >= excluded));
            }
        }
    }
    /* The largest number of classes: the last one can be drawn and can be left out. */
    uint32_t greatest = 0;
    for (uint32_t draw = 0; draw < 1000; draw++) {
        xsmi_stream_start(&s, 1, XSMI_STREAM_NEGATIVES, draw);
        xsmi_stream_others(&s, 2147483647u, 0, 2, classes);
        assert_true(classes[0] != classes[1] && classes[0] > 0 && classes[1] > 0);
        greatest = classes[0] > greatest ? classes[0] : greatest;
    }
    assert_true(greatest > 2100000000u && greatest < 2147483647u);
}

TEST(test_permute)
{
    uint64_t order[12];
    xsmi_stream s;
    HELD(xsm_context, ctx) = NULL;
    assert_int_equal(xsm_context_new(NULL, &ctx, NULL), XSM_OK);
    xsmi_stream_start(&s, 9, XSMI_STREAM_SHUFFLE, 0);
    assert_int_equal(xsmi_stream_order(ctx, &s, order, 12, NULL), XSM_OK);
    for (size_t i = 0; i < 12; i++) {
        assert_true(order[i] == golden_permutation[i]);
    }
    order[0] = 5;
    assert_int_equal(xsmi_stream_permute(ctx, &s, order, 0, NULL), XSM_OK);
    assert_int_equal(xsmi_stream_permute(ctx, &s, order, 1, NULL), XSM_OK);
    assert_true(order[0] == 5);

    uint32_t counts[256] = {0}, cells[24];
    for (uint32_t draw = 0; draw < 24000; draw++) {
        uint64_t four[4];
        xsmi_stream_start(&s, 9, XSMI_STREAM_SHUFFLE, draw);
        assert_int_equal(xsmi_stream_order(ctx, &s, four, 4, NULL), XSM_OK);
        counts[four[0] | four[1] << 2 | four[2] << 4 | four[3] << 6]++;
    }
    size_t found = 0;
    for (size_t i = 0; i < COUNT(counts); i++) {
        if (counts[i] > 0) {
            assert_true(found < 24);
            cells[found++] = counts[i];
        }
    }
    assert_int_equal(found, 24);
    assert_equal_chances(cells, 24);
}
