/*
 * Sums of vectors over all classes, such as dL/dphi = sum_k g_k w_k, in an order that does not depend on how many
 * processes compute them.
 *
 * The class runs (XSMI_RUN_CLASSES) are divided into XSMI_SHARDS contiguous shards, whatever computes them: shard
 * s of R class runs begins with number R*s/XSMI_SHARDS, and has one class run or none. Within a class run vectors are
 * added one after another. The sums of the shards are joined by a balanced binary tree: a node's sum is its left half's
 * plus its right half's, and a half without classes is left out. The sum of a node needs nothing of other shards. So a
 * process can compute the largest nodes within its class runs, and joining the nodes of all processes gives the same
 * bits.
 */
#ifndef XSMI_SHARDS_H
#define XSMI_SHARDS_H

#include "kernels/kernels.h"

#include <stdbool.h>

/* A power of two, not less than there can be class runs. */
#define XSMI_SHARDS (1 << 20)

typedef struct xsmi_shard_sums {
    const xsmi_kernels *kernels;
    uint32_t classes;
    size_t rows, width; /* vectors and their length */
    /* Sets the vectors in `out`, `stride` floats apart, to the sums over the classes first..end in their order. Returns
     * false if none of them contributes; `out` then has no meaning. For each node the calls come in rising order. */
    bool (*sum)(void *state, uint32_t first, uint32_t end, float *out, size_t stride);
    /* NULL, or sets the vectors to the sum of a node, if it is known. *any becomes what sum() would return. */
    bool (*known)(void *state, uint32_t shard, uint32_t count, float *out, size_t stride, bool *any);
    void *state;
} xsmi_shard_sums;

/* Returns the first class of a shard; for XSMI_SHARDS the number of classes. */
uint32_t xsmi_shard_start(uint32_t classes, uint32_t shard);
/* Returns the vectors of scratch that each vector of a sum needs. */
size_t xsmi_shard_scratch(uint32_t classes);
/* Sets the vectors in `out`, `stride` floats apart, to the sum of the node that has `count` shards (a power of two)
 * from `shard` on (a multiple of it). `scratch` has rows * width * xsmi_shard_scratch() floats. Returns false as sum().
 */
bool xsmi_shard_node(const xsmi_shard_sums *s, uint32_t shard, uint32_t count, float *out, size_t stride,
                     float *scratch);
/* Computes the sum over all shards; zeros if no class contributes. */
void xsmi_shard_all(const xsmi_shard_sums *s, float *out, size_t stride, float *scratch);

#endif
