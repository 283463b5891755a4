/*
 * Tests of sums over all classes by shards: compared with a sum in long double, with the same bits however contiguous
 * shards are grouped, as several machines would share them.
 */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gradient/shards.h"

enum { ROWS = 2, WIDTH = 3, STRIDE = 5 };

static const uint32_t sizes[] = {1, 4095, 4096, 4097, 8192, 12300, 5 * 4096, 64 * 4096, 100 * 4096 + 5, 131 * 4096};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Of different sizes, so that the order of additions shows. */
static float value(uint32_t class, size_t row, size_t at)
{
    uint64_t z = (class * UINT64_C(7) + row * 3 + at + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return ldexpf((float)(int32_t)(z >> 33) - 0x1p30f, (int)(z % 8) - 34);
}

/* Classes from `from` on contribute; `last` is the end of the last call. */
typedef struct source {
    uint32_t from, last;
} source;

static bool sum(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    source *s = state;
    assert_true(first == s->last || first == 0 || s->last == UINT32_MAX);
    s->last = end;
    first = first < s->from ? s->from : first;
    if (first >= end) {
        return false;
    }
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < WIDTH; j++) {
            out[i * stride + j] = 0;
            for (uint32_t k = first; k < end; k++) {
                out[i * stride + j] += value(k, i, j);
            }
        }
    }
    return true;
}

static xsmi_shard_sums sums_of(uint32_t classes, source *s)
{
    return (xsmi_shard_sums){xsmi_kernels_select(0), classes, ROWS, WIDTH, sum, NULL, s};
}

static float *new_scratch(uint32_t classes)
{
    const size_t count = ROWS * WIDTH * xsmi_shard_scratch(classes);
    float *scratch = malloc((count + 1) * sizeof *scratch);
    assert_non_null(scratch);
    memset(scratch, 0xff, (count + 1) * sizeof *scratch);
    return scratch;
}

TEST(shards_are_whole_runs)
{
    for (size_t i = 0; i < SIZES; i++) {
        assert_int_equal(xsmi_shard_start(sizes[i], 0), 0);
        assert_int_equal(xsmi_shard_start(sizes[i], XSMI_SHARDS), sizes[i]);
        for (uint32_t s = 0; s < XSMI_SHARDS; s++) {
            const uint32_t first = xsmi_shard_start(sizes[i], s), end = xsmi_shard_start(sizes[i], s + 1);
            assert_true(first <= end && (end % 4096 == 0 || end == sizes[i]));
            assert_true(end - first <= 4096);
        }
    }
    assert_int_equal(xsmi_shard_start(UINT32_MAX, XSMI_SHARDS), UINT32_MAX);
    assert_int_equal(xsmi_shard_scratch(UINT32_MAX), 20);
    assert_int_equal(xsmi_shard_scratch(64 * 4096), 6);
    assert_int_equal(xsmi_shard_scratch(64 * 4096 + 1), 7);
    assert_int_equal(xsmi_shard_scratch(4096), 0);
    assert_int_equal(xsmi_shard_scratch(4097), 1);
}

TEST(sums_are_right)
{
    for (size_t c = 0; c < SIZES; c++) {
        float out[ROWS * STRIDE];
        source s = {0, UINT32_MAX};
        const xsmi_shard_sums sums = sums_of(sizes[c], &s);
        HELD_MEMORY(float, scratch) = new_scratch(sizes[c]);
        for (size_t i = 0; i < ROWS * STRIDE; i++) {
            out[i] = 77;
        }
        xsmi_shard_all(&sums, out, STRIDE, scratch);
        for (size_t i = 0; i < ROWS; i++) {
            for (size_t j = 0; j < STRIDE; j++) {
                long double wanted = 0, size = 0;
                for (uint32_t k = 0; j < WIDTH && k < sizes[c]; k++) {
                    wanted += (long double)value(k, i, j);
                    size += fabsl((long double)value(k, i, j));
                }
                assert_true(j < WIDTH ? fabsl((long double)out[i * STRIDE + j] - wanted) <= 1e-5L * size
                                      : out[i * STRIDE + j] == 77);
            }
        }
        if (sizes[c] <= XSMI_RUN_CLASSES) { /* one shard: one sum */
            float one[ROWS * STRIDE];
            sum(&s, 0, sizes[c], one, STRIDE);
            assert_memory_equal(one, out, WIDTH * sizeof *one);
        }
    }
}

/* The sum of a node that several groups share: each computes the nodes that are its own, and these are joined. */
static bool shared_node(const xsmi_shard_sums *s, uint32_t groups, uint32_t shard, uint32_t count, float *out)
{
    for (uint32_t g = 0; g < groups; g++) {
        if (shard >= (uint64_t)XSMI_SHARDS * g / groups && shard + count <= (uint64_t)XSMI_SHARDS * (g + 1) / groups) {
            HELD_MEMORY(float, scratch) = new_scratch(s->classes);
            ((source *)s->state)->last = UINT32_MAX;
            const bool any = xsmi_shard_node(s, shard, count, out, WIDTH, scratch);
            return any;
        }
    }
    float right[ROWS * WIDTH];
    const bool left_any = shared_node(s, groups, shard, count / 2, out);
    const bool right_any = shared_node(s, groups, shard + count / 2, count / 2, right);
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        out[i] = !left_any ? right[i] : right_any ? out[i] + right[i] : out[i];
    }
    return left_any || right_any;
}

TEST(groups_change_nothing)
{
    static const uint32_t groups[] = {1, 2, 3, 5, 8, 64};
    for (size_t c = 0; c < SIZES; c++) {
        for (uint32_t part = 0; part < 3; part++) { /* all classes contribute, or the upper two thirds or third */
            source s = {sizes[c] / 3 * part, UINT32_MAX};
            const xsmi_shard_sums sums = sums_of(sizes[c], &s);
            float *scratch = new_scratch(sizes[c]), one[ROWS * WIDTH], other[ROWS * WIDTH];
            xsmi_shard_all(&sums, one, WIDTH, scratch);
            for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
                assert_true(shared_node(&sums, groups[g], 0, XSMI_SHARDS, other));
                assert_memory_equal(one, other, sizeof one);
            }
            free(scratch);
        }
    }
}

TEST(nothing_is_zero)
{
    source s = {UINT32_MAX, UINT32_MAX};
    const xsmi_shard_sums sums = sums_of(12300, &s);
    const float zeros[ROWS * WIDTH] = {0};
    float *scratch = new_scratch(12300), out[ROWS * WIDTH] = {1, 2, 3};
    xsmi_shard_all(&sums, out, WIDTH, scratch);
    assert_memory_equal(out, zeros, sizeof zeros);
    free(scratch);
}
