/*
 * XXH3-64, and its functions for data in pieces; the one place that includes them. Hashes are chained: the hash of one
 * array is the seed of the next (0 for the first), so that several arrays have one fingerprint. And where tables of
 * numbers look for them.
 */
#ifndef XSMI_HASH_H
#define XSMI_HASH_H

#include <stdint.h>
#include <stddef.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t xsmi_hash(const void *data, size_t size, uint64_t before)
{
    return XXH3_64bits_withSeed(data, size, before);
}

/* Where a table of 2^bits open addresses looks for a number first; 1 <= bits <= 32 (multiplication by the golden ratio,
 * of which the first bits are the best). */
static inline uint32_t xsmi_hash_place(uint32_t number, uint32_t bits)
{
    return number * UINT32_C(2654435769) >> (32 - bits);
}

#endif
