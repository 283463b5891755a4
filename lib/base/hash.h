/*
 * XXH3-64, and its functions for data in pieces; the one place that includes them. Hashes are chained: the hash of one
 * array is the seed of the next (0 for the first), so that several arrays have one fingerprint.
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

#endif
