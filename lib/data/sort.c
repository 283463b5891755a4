/* Merge sort from below: runs of doubling length, merged alternately between the array and the scratch. The keys of a
 * row, some dozens to thousands, are sorted by their digits instead, which takes a third of the time. */
#include "data/sort.h"

#include <string.h>

#define RUN 16
/* Items between two polls; a power of two. */
#define POLL_ITEMS ((size_t)1 << 14)
#define IS_STOPPED(at) ((at) > 0 && (at) % POLL_ITEMS == 0 && xsmi_poll(ctx))

#define MERGE_SORT(TYPE, BEFORE)                                                                                       \
    do {                                                                                                               \
        bool stopped = false;                                                                                          \
        for (size_t start = 0; start < count && !stopped; start += RUN) {                                              \
            stopped = IS_STOPPED(start);                                                                               \
            size_t end = count - start < RUN ? count : start + RUN;                                                    \
            for (size_t i = start + 1; i < end; i++) {                                                                 \
                TYPE item = items[i];                                                                                  \
                size_t j = i;                                                                                          \
                for (; j > start && BEFORE(item, items[j - 1]); j--) {                                                 \
                    items[j] = items[j - 1];                                                                           \
                }                                                                                                      \
                items[j] = item;                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
        TYPE *from = items;                                                                                            \
        TYPE *to = scratch;                                                                                            \
        for (size_t run = RUN; run < count && !stopped; run = run > count / 2 ? count : run * 2) {                     \
            for (size_t start = 0; start < count && !stopped;) {                                                       \
                stopped = IS_STOPPED(start);                                                                           \
                size_t middle = count - start < run ? count : start + run;                                             \
                size_t end = count - middle < run ? count : middle + run;                                              \
                size_t a = start, b = middle, o = start;                                                               \
                while (a < middle && b < end && !stopped) {                                                            \
                    to[o++] = BEFORE(from[b], from[a]) ? from[b++] : from[a++];                                        \
                    stopped = IS_STOPPED(o);                                                                           \
                }                                                                                                      \
                memcpy(to + o, from + a, (middle - a) * sizeof *to);                                                   \
                o += middle - a;                                                                                       \
                memcpy(to + o, from + b, (end - b) * sizeof *to);                                                      \
                start = end;                                                                                           \
            }                                                                                                          \
            if (!stopped) {                                                                                            \
                TYPE *swap = from;                                                                                     \
                from = to;                                                                                             \
                to = swap;                                                                                             \
            }                                                                                                          \
        }                                                                                                              \
        if (from != items) {                                                                                           \
            memcpy(items, from, count * sizeof *items);                                                                \
        }                                                                                                              \
    } while (0)

/* Lists of FEW to MANY keys are sorted by their digits. */
#define FEW 48
#define MANY ((size_t)1 << 14)

/* Sorts by each digit in which keys differ, the lowest first. All digits have the same number of bits, eight at most. A
 * digit with few values would be slow, as each key would wait for the one before it. */
static void sort_by_digits(uint64_t *keys, uint64_t *scratch, size_t count)
{
    uint64_t differ = 0, *from = keys, *to = scratch;
    for (size_t i = 1; i < count; i++) {
        differ |= keys[i] ^ keys[0];
    }
    unsigned bits = 0;
    while (bits < 64 && differ >> bits) {
        bits++;
    }
    const unsigned digits = (bits + 7) / 8, width = digits ? (bits + digits - 1) / digits : 1;
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    for (unsigned shift = 0; shift < bits; shift += width) {
        if ((differ >> shift & mask) == 0) {
            continue;
        }
        uint32_t ends[256] = {0}, end = 0;
        for (size_t i = 0; i < count; i++) {
            ends[from[i] >> shift & mask]++;
        }
        for (size_t b = 0; b <= mask; b++) {
            const uint32_t some = ends[b];
            ends[b] = end; /* where its next key goes */
            end += some;
        }
        for (size_t i = 0; i < count; i++) {
            to[ends[from[i] >> shift & mask]++] = from[i];
        }
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys) {
        memcpy(keys, from, count * sizeof *keys);
    }
}

void xsmi_sort(const xsm_context *ctx, uint64_t *keys, uint64_t *scratch, size_t count)
{
    if (count >= FEW && count <= MANY) {
        sort_by_digits(keys, scratch, count);
        return;
    }
    uint64_t *items = keys;
#define BY_VALUE(a, b) ((a) < (b))
    MERGE_SORT(uint64_t, BY_VALUE);
#undef BY_VALUE
}

void xsmi_sort_by(const xsm_context *ctx, xsmi_before before, const void *state, uint32_t *items, uint32_t *scratch,
                  size_t count)
{
#define BY_CALL(a, b) before(state, a, b)
    MERGE_SORT(uint32_t, BY_CALL);
#undef BY_CALL
}
