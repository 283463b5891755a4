#include "gradient/shards.h"

#include "base/order.h"

#include <string.h>

uint32_t xsmi_shard_start(uint32_t classes, uint32_t shard)
{
    const uint64_t runs = ((uint64_t)classes + XSMI_RUN_CLASSES - 1) / XSMI_RUN_CLASSES;
    const uint64_t first = runs * shard / XSMI_SHARDS * XSMI_RUN_CLASSES;
    return (uint32_t)XSMI_MIN(first, classes);
}

size_t xsmi_shard_scratch(uint32_t classes)
{
    size_t levels = 0;
    while (classes > (uint64_t)XSMI_RUN_CLASSES << levels) {
        levels++;
    }
    return levels;
}

bool xsmi_shard_node(const xsmi_shard_sums *s, uint32_t shard, uint32_t count, float *out, size_t stride,
                     float *scratch)
{
    const uint32_t first = xsmi_shard_start(s->classes, shard), end = xsmi_shard_start(s->classes, shard + count);
    const uint32_t half = count / 2;
    if (first == end) {
        return false;
    }
    bool any;
    if (s->known && s->known(s->state, shard, count, out, stride, &any)) {
        return any;
    }
    if (end - first <= XSMI_RUN_CLASSES) {
        return s->sum(s->state, first, end, out, stride);
    }
    if (!xsmi_shard_node(s, shard, half, out, stride, scratch)) {
        return xsmi_shard_node(s, shard + half, half, out, stride, scratch);
    }
    if (xsmi_shard_start(s->classes, shard + half) < end &&
        xsmi_shard_node(s, shard + half, half, scratch, s->width, scratch + s->rows * s->width)) {
        for (size_t i = 0; i < s->rows; i++) {
            s->kernels->axpby(out + i * stride, scratch + i * s->width, s->width, 1, 1);
        }
    }
    return true;
}

void xsmi_shard_all(const xsmi_shard_sums *s, float *out, size_t stride, float *scratch)
{
    if (!xsmi_shard_node(s, 0, XSMI_SHARDS, out, stride, scratch)) {
        for (size_t i = 0; i < s->rows; i++) {
            memset(out + i * stride, 0, s->width * sizeof *out);
        }
    }
}
