/* Which process computes which nodes of the tree of shards: see rank_nodes.h. */
#include "gradient/rank_nodes.h"

#include "model/divided.h"

#include <string.h>

/* Lists the nodes below a node; only counts them if `nodes` is NULL. */
static void list_nodes(const xsm_context *group, uint32_t classes, uint32_t shard, uint32_t count, xsmi_rank_nodes *n)
{
    const uint32_t ranks = xsmi_ranks(group);
    const uint32_t first = xsmi_shard_start(classes, shard), end = xsmi_shard_start(classes, shard + count);
    if (first == end) {
        return;
    }
    const uint32_t rank = xsmi_part_of(classes, ranks, first);
    if (end > xsmi_part_start(classes, ranks, rank + 1)) {
        list_nodes(group, classes, shard, count / 2, n);
        list_nodes(group, classes, shard + count / 2, count / 2, n);
        return;
    }
    if (n->nodes) {
        n->nodes[n->count] = (xsmi_rank_node){shard, count, rank};
    }
    if (rank == xsmi_rank(group)) {
        n->first = n->own == 0 ? n->count : n->first;
        n->own++;
    }
    n->count++;
}

xsm_status xsmi_rank_nodes_new(xsm_context *group, uint32_t classes, xsmi_rank_nodes *out, xsm_error *err)
{
    memset(out, 0, sizeof *out);
    list_nodes(group, classes, 0, XSMI_SHARDS, out);
    out->nodes = xsmi_allocate(group, out->count, sizeof *out->nodes);
    if (!out->nodes) {
        return xsmi_fail_memory(err, out->count * sizeof *out->nodes, "the sums of all ranks");
    }
    out->count = out->own = 0;
    list_nodes(group, classes, 0, XSMI_SHARDS, out);
    return XSM_OK;
}

void xsmi_rank_nodes_clear(xsm_context *group, xsmi_rank_nodes *n)
{
    xsmi_release(group, n->nodes, n->count, sizeof *n->nodes);
    memset(n, 0, sizeof *n);
}

void xsmi_rank_nodes_sizes(const xsmi_rank_nodes *n, size_t each, size_t *sizes)
{
    for (size_t i = 0; i < n->count; i++) {
        sizes[n->nodes[i].rank] += each;
    }
}

size_t xsmi_rank_nodes_find(const xsmi_rank_nodes *n, uint32_t shard, uint32_t count)
{
    size_t low = 0, high = n->count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        *(n->nodes[middle].shard <= shard ? &low : &high) = middle;
    }
    return n->nodes[low].shard == shard && n->nodes[low].count == count ? low : SIZE_MAX;
}

bool xsmi_rank_nodes_no_sum(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    (void)state;
    (void)first;
    (void)end;
    (void)out;
    (void)stride;
    return false;
}
