/*
 * XXH3-64, of data as a whole or in pieces; no other file includes xxhash.h. Hashes are chained: the hash of one array
 * is the seed of the next (0 for the first), so that several arrays have one fingerprint. Also the hash of numbers in
 * tables.
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

/* Returns a hash with one more number, in few instructions; the same for every byte order. */
static inline uint64_t xsmi_hash_mix(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Returns the slot at which the search for a number begins in a table of 2^bits slots; 1 <= bits <= 32. (Multiplication
 * by the golden ratio: the high bits of the product are the best mixed.) */
static inline uint32_t xsmi_hash_place(uint32_t number, uint32_t bits)
{
    return number * UINT32_C(2654435769) >> (32 - bits);
}

#endif
