/* Counter-based streams by Philox4x32-10, and the draws that the library needs. */
#include "base/random.h"
#include "base/activity.h"
#include "base/order.h"
#include "base/system.h"
#include "kernels/philox.h"

#include <stdbool.h>
#include <string.h>

void xsmi_stream_start(xsmi_stream *s, uint64_t seed, uint32_t purpose, uint64_t position)
{
    s->key[0] = (uint32_t)seed;
    s->key[1] = (uint32_t)(seed >> 32);
    s->counter[0] = 0;
    s->counter[1] = purpose;
    s->counter[2] = (uint32_t)position;
    s->counter[3] = (uint32_t)(position >> 32);
    s->used = 4;
}

uint32_t xsmi_stream_next(xsmi_stream *s)
{
    if (s->used == 4) {
        memcpy(s->block, s->counter, sizeof s->block);
        xsmi_philox(s->key, s->block);
        /* 2^34 draws from one stream would run into the stream of another purpose. Only a permutation of 2^33 rows
         * draws that many at one position; for it the carry goes into the high bits of the purpose. */
        if (++s->counter[0] == 0) {
            s->counter[1] += 1u << 16;
        }
        s->used = 0;
    }
    return s->block[s->used++];
}

static uint64_t next64(xsmi_stream *s)
{
    uint64_t high = xsmi_stream_next(s);
    return high << 32 | xsmi_stream_next(s);
}

uint64_t xsmi_stream_below(xsmi_stream *s, uint64_t n)
{
    /* D. Lemire, Fast random integer generation in an interval, 2019. */
    if (n <= UINT32_MAX) {
        uint64_t product = (uint64_t)xsmi_stream_next(s) * n;
        if ((uint32_t)product < (uint32_t)n) {
            uint32_t threshold = (uint32_t)(-(uint32_t)n % (uint32_t)n);
            while ((uint32_t)product < threshold) {
                product = (uint64_t)xsmi_stream_next(s) * n;
            }
        }
        return product >> 32;
    }
    uint64_t high, low;
    xsmi_multiply_wide(next64(s), n, &high, &low);
    if (low < n) {
        uint64_t threshold = -n % n;
        while (low < threshold) {
            xsmi_multiply_wide(next64(s), n, &high, &low);
        }
    }
    return high;
}

double xsmi_stream_uniform(xsmi_stream *s)
{
    return (double)(next64(s) >> 11) * 0x1p-53;
}

/* Draws up to which a list is searched from the front; a longer one is kept sorted. */
enum { SHORT_SET = 32 };

/* Draws m distinct numbers from 0..n-1, each set with equal probability; all of them in rising order if m = n. */
static void draw_set(xsmi_stream *s, uint32_t n, uint32_t m, uint32_t *out)
{
    if (m >= n) {
        for (uint32_t i = 0; i < n; i++) {
            out[i] = i;
        }
        return;
    }
    /* R. Floyd (in J. Bentley, Programming Pearls: a sample of brilliance, 1987): the set after the step for j is a
     * uniform sample of {0..j}. */
    bool sorted = m > SHORT_SET;
    size_t drawn = 0;
    for (uint32_t j = n - m; j < n; j++) {
        uint32_t t = (uint32_t)xsmi_stream_below(s, (uint64_t)j + 1);
        if (sorted) {
            size_t position = xsmi_lower_bound(out, drawn, t);
            if (position < drawn && out[position] == t) {
                out[drawn++] = j; /* j is larger than all in the list */
            } else {
                memmove(out + position + 1, out + position, (drawn - position) * sizeof *out);
                out[position] = t;
                drawn++;
            }
        } else {
            for (size_t i = 0; i < drawn; i++) {
                if (out[i] == t) {
                    t = j;
                    break;
                }
            }
            out[drawn++] = t;
        }
    }
}

void xsmi_stream_others(xsmi_stream *s, uint32_t n, uint32_t excluded, uint32_t m, uint32_t *out)
{
    xsmi_stream_without(s, n, &excluded, 1, m, out);
}

static uint32_t count_up_to(const uint32_t *numbers, uint32_t count, uint32_t most)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        found += numbers[i] <= most;
    }
    return found;
}

/* Returns the class that has the rank `rank`, from 0, among those that are not excluded: rank plus the number of
 * excluded classes below it. Usually that number is small and found by counting up; where it is large, it is found by
 * bisection. */
static uint32_t class_of_rank(uint32_t rank, const uint32_t *excluded, uint32_t count)
{
    enum { ROUNDS = 8 };
    uint32_t low = rank;
    for (int i = 0; i < ROUNDS; i++) {
        const uint32_t next = rank + count_up_to(excluded, count, low);
        if (next == low) {
            return low;
        }
        low = next;
    }
    for (uint32_t high = rank + count; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        if (middle + 1 - count_up_to(excluded, count, middle) > rank) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void xsmi_stream_without(xsmi_stream *s, uint32_t n, const uint32_t *excluded, uint32_t excluded_count, uint32_t m,
                         uint32_t *out)
{
    draw_set(s, n - excluded_count, m, out); /* ranks among the classes that are not excluded */
    if (excluded_count == 1) {
        for (uint32_t i = 0; i < m; i++) {
            out[i] += out[i] >= excluded[0];
        }
        return;
    }
    for (uint32_t i = 0; i < m; i++) {
        out[i] = class_of_rank(out[i], excluded, excluded_count);
    }
}

void xsmi_streams_other(const xsmi_kernels *kernels, const xsmi_streams *streams, uint32_t n, const uint32_t *excluded,
                        uint32_t *out)
{
    enum { TOGETHER = 64 };
    const uint64_t seed = streams->seed, *positions = streams->positions;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t words[4 * TOGETHER];
    for (size_t first = 0; first < streams->count; first += TOGETHER) {
        const size_t some = XSMI_MIN(streams->count - first, TOGETHER);
        kernels->philox(key, 0, streams->purpose, positions + first, some, words);
        for (size_t i = first; i < first + some; i++) {
            uint64_t product = (uint64_t)words[i - first] * (n - 1);
            if ((uint32_t)product >= n - 1) { /* xsmi_stream_below() would accept it without a further test */
                uint32_t number = (uint32_t)(product >> 32);
                out[i] = number + (number >= excluded[i]);
            } else {
                xsmi_stream stream;
                xsmi_stream_start(&stream, seed, streams->purpose, positions[i]);
                xsmi_stream_others(&stream, n, excluded[i], 1, &out[i]);
            }
        }
    }
}

static bool is_among(const uint32_t *drawn, uint32_t count, uint32_t number)
{
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found |= drawn[i] == number;
    }
    return found;
}

/* draw_set() of a short list with m < n by the stream's words words[0], words[stride], ... Returns false if one of them
 * might be rejected; the draws then have no meaning. */
static bool set_of_words(const uint32_t *words, size_t stride, uint32_t n, uint32_t m, uint32_t *out)
{
    enum { SEEN = 16 };
    uint64_t seen[SEEN] = {0}; /* a bit for the low bits of each number drawn: usually they differ from all earlier
                                  ones */
    bool unsure = false;
    for (uint32_t d = 0; d < m; d++) {
        const uint32_t last = n - m + d;
        const uint64_t product = (uint64_t)words[d * stride] * ((uint64_t)last + 1);
        uint32_t t = (uint32_t)(product >> 32);
        unsure |= (uint32_t)product <= last;
        if ((seen[t / 64 % SEEN] >> t % 64 & 1) && is_among(out, d, t)) {
            t = last;
        }
        seen[t / 64 % SEEN] |= UINT64_C(1) << t % 64;
        out[d] = t;
    }
    return !unsure;
}

void xsmi_streams_sets(const xsmi_kernels *kernels, const xsmi_streams *streams, const uint32_t *n, uint32_t m,
                       uint32_t *const *out)
{
    enum { TOGETHER = 64 };
    const uint64_t seed = streams->seed, *positions = streams->positions;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, blocks = m > SHORT_SET ? 0 : (m + 3) / 4;
    uint32_t words[SHORT_SET * TOGETHER];
    for (size_t first = 0; first < streams->count; first += TOGETHER) {
        const size_t some = XSMI_MIN(streams->count - first, TOGETHER);
        for (uint32_t b = 0; b < blocks; b++) {
            kernels->philox(key, b, streams->purpose, positions + first, some, words + 4 * b * some);
        }
        for (size_t i = first; i < first + some; i++) {
            if (m >= n[i] || blocks == 0 || !set_of_words(words + (i - first), some, n[i], m, out[i])) {
                xsmi_stream stream;
                xsmi_stream_start(&stream, seed, streams->purpose, positions[i]);
                draw_set(&stream, n[i], XSMI_MIN(m, n[i]), out[i]);
            }
        }
    }
}

xsm_status xsmi_stream_permute(const xsm_context *ctx, xsmi_stream *s, uint64_t *order, size_t n, xsm_error *err)
{
    enum { TOGETHER = 4096 }; /* numbers permuted between two polls */
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)xsmi_stream_below(s, i);
        uint64_t saved = order[i - 1];
        order[i - 1] = order[j];
        order[j] = saved;
        XSMI_TRY(i % TOGETHER == 0 ? xsmi_go_on(ctx, err) : XSM_OK);
    }
    return XSM_OK;
}

xsm_status xsmi_stream_order(const xsm_context *ctx, xsmi_stream *s, uint64_t *order, size_t n, xsm_error *err)
{
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
    }
    return xsmi_stream_permute(ctx, s, order, n, err);
}
