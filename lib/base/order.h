/*
 * The smaller, the larger, the nearest within limits; and how numbers are sorted and found.
 */
#ifndef XSMI_ORDER_H
#define XSMI_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Arguments are evaluated twice and converted as by operators; where they are equal, or not ordered (a NaN), the result
 * is b. */
#define XSMI_MIN(a, b) ((a) < (b) ? (a) : (b))
#define XSMI_MAX(a, b) ((a) > (b) ? (a) : (b))
/* x within [low, high]. */
#define XSMI_CLAMP(x, low, high) ((x) < (low) ? (low) : (x) > (high) ? (high) : (x))

/* Order of sorting, rising: less than 0, 0, or more than 0. */
#define XSMI_COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* Comparisons for xsmi_heap_sort(). */
static inline int xsmi_compare_u32(const void *a, const void *b)
{
    return XSMI_COMPARE(*(const uint32_t *)a, *(const uint32_t *)b);
}
static inline int xsmi_compare_u64(const void *a, const void *b)
{
    return XSMI_COMPARE(*(const uint64_t *)a, *(const uint64_t *)b);
}
static inline int xsmi_compare_double(const void *a, const void *b)
{
    return XSMI_COMPARE(*(const double *)a, *(const double *)b);
}

/* Whether `value` is one of n numbers in any order. */
static inline bool xsmi_contains(const uint32_t *numbers, size_t n, uint32_t value)
{
    size_t i = 0;
    while (i < n && numbers[i] != value) {
        i++;
    }
    return i < n;
}

/* Returns the position of `value` in n rising numbers, or where it would be inserted. */
static inline size_t xsmi_lower_bound(const uint32_t *numbers, size_t n, uint32_t value)
{
    size_t low = 0;
    while (n > 0) {
        size_t half = n / 2;
        if (numbers[low + half] < value) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* Returns the number of rank `rank`, from 0, among those that are not in n rising numbers. */
static inline uint32_t xsmi_other_number(const uint32_t *numbers, size_t n, uint32_t rank)
{
    /* numbers[i] - i others are smaller than numbers[i]: where that is at most `rank`, it comes before the result. */
    size_t low = 0;
    for (size_t high = n; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (numbers[middle] - middle <= rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return rank + (uint32_t)low;
}

/* Returns the position of `text` in n rising texts, of which text_of(list, i) is number i, or where it would be
 * inserted; *found says which. */
static inline size_t xsmi_find_text(const char *(*text_of)(const void *list, size_t i), const void *list, size_t n,
                                    const char *text, bool *found)
{
    size_t low = 0;
    for (size_t high = n; low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(text_of(list, middle), text) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low < n && strcmp(text_of(list, low), text) == 0;
    return low;
}

/* Divide `count` things in a row, at most 2^48, evenly into contiguous shares. Return where a share begins, `count` for
 * number `shares`; and which share has a thing. */
static inline uint64_t xsmi_share_start(uint64_t count, uint32_t shares, uint32_t share)
{
    return count * share / shares;
}
static inline uint32_t xsmi_share_of(uint64_t count, uint32_t shares, uint64_t at)
{
    return (uint32_t)(((at + 1) * shares - 1) / count); /* the last share that begins at or before it */
}

#endif
