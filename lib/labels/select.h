/*
 * Selects the largest of some numbers, which are stored as keys: the number in the high bits, its index in the low
 * bits, so that no two are equal.
 */
#ifndef XSMI_LABEL_SELECT_H
#define XSMI_LABEL_SELECT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the bits of a float as an integer that rises with the float. */
static inline uint32_t xsmi_sortable(float a)
{
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static inline void xsmi_swap_keys(uint64_t *a, uint64_t *b)
{
    const uint64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* Puts the `most` largest of n distinct keys first, in any order (Hoare's selection, the pivot the middle one of
 * three). O(n) on average. */
static inline void xsmi_select_largest(uint64_t *key, size_t n, size_t most)
{
    size_t low = 0, high = n;
    while (low < most && most < high) {
        const size_t middle = low + (high - low) / 2;
        if (key[low] < key[middle]) {
            xsmi_swap_keys(&key[low], &key[middle]);
        }
        if (key[high - 1] > key[middle]) {
            xsmi_swap_keys(&key[high - 1], &key[middle]);
        }
        if (key[low] < key[middle]) {
            xsmi_swap_keys(&key[low], &key[middle]);
        }
        xsmi_swap_keys(&key[middle], &key[high - 1]);
        const uint64_t pivot = key[high - 1];
        size_t larger = low;
        for (size_t i = low; i < high - 1; i++) {
            const uint64_t k = key[i];
            key[i] = key[larger];
            key[larger] = k;
            larger += k > pivot;
        }
        xsmi_swap_keys(&key[larger], &key[high - 1]);
        if (most <= larger) {
            high = larger;
        } else {
            low = larger + 1;
        }
    }
}

#endif
