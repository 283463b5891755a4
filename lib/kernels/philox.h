/* Philox4x32-10, a counter-based generator: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3,
 * 2011. */
#ifndef XSMI_PHILOX_H
#define XSMI_PHILOX_H

#include <stdint.h>

/* Replaces the counter by its four words under that key. */
static inline void xsmi_philox(const uint32_t key[2], uint32_t counter[4])
{
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53 * counter[0], b = (uint64_t)0xcd9e8d57 * counter[2];
        counter[0] = (uint32_t)(b >> 32) ^ counter[1] ^ key0;
        counter[1] = (uint32_t)b;
        counter[2] = (uint32_t)(a >> 32) ^ counter[3] ^ key1;
        counter[3] = (uint32_t)a;
        key0 += 0x9e3779b9;
        key1 += 0xbb67ae85;
    }
}

#endif
