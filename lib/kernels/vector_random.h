/*
 * Philox4x32-10 for several counters at once, over the vectors of vector_solve.h. In addition each set defines
 *   u_mul    the products of the low halves, 64 bits each
 * A word of the counter is the low half of a lane; the upper half is ignored.
 */
#ifndef XSMI_VECTOR_RANDOM_H
#define XSMI_VECTOR_RANDOM_H

#include "kernels/vector_solve.h"

/* Vectors at once, so that multiplications need not wait for one another, and the counters in them. */
#define PHILOX_VECTORS 2
#define PHILOX_TOGETHER (PHILOX_VECTORS * DW)

typedef uint32_t vw __attribute__((vector_size(4 * DW)));

XSMI_SOLVE_INLINE vu u_set(uint64_t a)
{
    const vu zero = {0};
    return zero + a;
}

/* PHILOX_TOGETHER positions; word w of position i goes to out[w*stride + i]. */
XSMI_SOLVE_INLINE void philox_some(const uint32_t key[2], uint32_t block, uint32_t purpose, const uint64_t *positions,
                                   size_t stride, uint32_t *out)
{
    vu word[4][PHILOX_VECTORS];
    for (size_t v = 0; v < PHILOX_VECTORS; v++) {
        vu position;
        __builtin_memcpy(&position, positions + v * DW, sizeof(position));
        word[0][v] = u_set(block);
        word[1][v] = u_set(purpose);
        word[2][v] = position;
        word[3][v] = position >> 32;
    }
    uint32_t key0 = key[0], key1 = key[1];
    for (int round = 0; round < 10; round++) {
        for (size_t v = 0; v < PHILOX_VECTORS; v++) {
            vu a = u_mul(word[0][v], u_set(0xd2511f53));
            vu b = u_mul(word[2][v], u_set(0xcd9e8d57));
            word[0][v] = (b >> 32) ^ word[1][v] ^ u_set(key0);
            word[1][v] = b;
            word[2][v] = (a >> 32) ^ word[3][v] ^ u_set(key1);
            word[3][v] = a;
        }
        key0 += 0x9e3779b9;
        key1 += 0xbb67ae85;
    }
    for (size_t w = 0; w < 4; w++) {
        for (size_t v = 0; v < PHILOX_VECTORS; v++) {
            const vw low = __builtin_convertvector(word[w][v], vw);
            __builtin_memcpy(out + w * stride + v * DW, &low, sizeof(low));
        }
    }
}

static void philox(const uint32_t key[2], uint32_t block, uint32_t purpose, const uint64_t *positions, size_t n,
                   uint32_t *out)
{
    size_t i = 0;
    for (; i + PHILOX_TOGETHER <= n; i += PHILOX_TOGETHER) {
        philox_some(key, block, purpose, positions + i, n, out + i);
    }
    if (i < n) {
        uint64_t last[PHILOX_TOGETHER] = {0};
        uint32_t words[4 * PHILOX_TOGETHER];
        __builtin_memcpy(last, positions + i, (n - i) * sizeof(*last));
        philox_some(key, block, purpose, last, PHILOX_TOGETHER, words);
        for (size_t w = 0; w < 4; w++) {
            __builtin_memcpy(out + w * n + i, words + w * PHILOX_TOGETHER, (n - i) * sizeof(*words));
        }
    }
}

#endif
