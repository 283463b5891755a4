#include "labels/parts.h"

#include "base/held.h"
#include "ranks/share.h"

#include <string.h>

#define LANES XSMI_DUAL_LANES
/* The number of arrays of a part. */
enum { ARRAYS = 8 };

/* A part without its arrays. */
typedef struct part_head {
    uint32_t children, columns, entries, samples, beam_rows, overflown;
    float bias[LANES];
} part_head;

static part_head head_of(const xsmi_node_part *p)
{
    part_head h = {p->children, p->columns, p->entries, p->samples, p->beam_rows, p->overflown, {0}};
    memcpy(h.bias, p->bias, sizeof h.bias);
    return h;
}

/* Makes the part of another process, with arrays that are not filled yet. False when there is no memory. */
static bool make_part(xsm_context *ctx, const part_head *h, xsmi_node_part *p)
{
    *p = (xsmi_node_part){.children = h->children,
                          .columns = h->columns,
                          .entries = h->entries,
                          .samples = h->samples,
                          .beam_rows = h->beam_rows,
                          .overflown = h->overflown != 0};
    memcpy(p->bias, h->bias, sizeof p->bias);
    p->feature = xsmi_allocate(ctx, p->columns, sizeof *p->feature);
    p->start = xsmi_allocate(ctx, (uint64_t)p->columns + 1, sizeof *p->start);
    p->value = xsmi_allocate(ctx, p->entries, sizeof *p->value);
    p->child = xsmi_allocate(ctx, p->entries, sizeof *p->child);
    p->score = xsmi_allocate(ctx, (uint64_t)p->samples * LANES, sizeof *p->score);
    p->sample_positive = xsmi_allocate(ctx, p->samples, sizeof *p->sample_positive);
    p->sample_weight = xsmi_allocate(ctx, p->samples, sizeof *p->sample_weight);
    p->beam = xsmi_allocate(ctx, (uint64_t)p->beam_rows * LANES, sizeof *p->beam);
    return p->feature && p->start && p->value && p->child && p->score && p->sample_positive && p->sample_weight &&
           p->beam;
}

static void list_arrays(const xsmi_node_part *p, uint32_t owner, xsmi_shared out[ARRAYS])
{
    out[0] = (xsmi_shared){p->feature, p->columns * sizeof *p->feature, owner};
    out[1] = (xsmi_shared){p->start, ((size_t)p->columns + 1) * sizeof *p->start, owner};
    out[2] = (xsmi_shared){p->value, p->entries * sizeof *p->value, owner};
    out[3] = (xsmi_shared){p->child, p->entries * sizeof *p->child, owner};
    out[4] = (xsmi_shared){p->score, (size_t)p->samples * LANES * sizeof *p->score, owner};
    out[5] = (xsmi_shared){p->sample_positive, p->samples * sizeof *p->sample_positive, owner};
    out[6] = (xsmi_shared){p->sample_weight, p->samples * sizeof *p->sample_weight, owner};
    out[7] = (xsmi_shared){p->beam, (size_t)p->beam_rows * LANES * sizeof *p->beam, owner};
}

/* Exchanges the parts: each process has its own and gets the others. `heads` [count] and `arrays` [count][ARRAYS] are
 * scratch. */
static xsm_status share(xsm_context *ctx, xsmi_node_part *parts, const uint32_t *owner, size_t count, part_head *heads,
                        xsmi_shared *arrays, xsm_error *err)
{
    const uint32_t rank = xsmi_rank(ctx);
    for (size_t i = 0; i < count; i++) {
        if (owner[i] == rank) {
            heads[i] = head_of(&parts[i]);
        }
        arrays[i] = (xsmi_shared){&heads[i], sizeof heads[i], owner[i]};
    }
    XSMI_TRY(xsmi_share_arrays(ctx, XSM_OK, arrays, count, err));
    xsm_status status = XSM_OK;
    for (size_t i = 0; i < count && status == XSM_OK; i++) {
        if (owner[i] != rank && !make_part(ctx, &heads[i], &parts[i])) {
            status = xsmi_fail_memory(err, parts[i].entries * 5u + parts[i].columns * 8u, "the weights of a node");
        }
        list_arrays(&parts[i], owner[i], arrays + i * ARRAYS);
    }
    return xsmi_share_arrays(ctx, status, arrays, count * ARRAYS, err);
}

xsm_status xsmi_node_parts_share(xsm_context *ctx, xsm_status status, xsmi_node_part *parts, const uint32_t *owner,
                                 size_t count, xsm_error *err)
{
    xsmi_held held = {.context = ctx};
    part_head *heads = xsmi_hold(&held, count, sizeof *heads);
    xsmi_shared *arrays = xsmi_hold(&held, (uint64_t)count * ARRAYS, sizeof *arrays);
    status = status == XSM_OK ? xsmi_held_check(&held, "the nodes of a label tree", err) : status;
    status = xsmi_agree(ctx, status, err);
    status = status == XSM_OK ? share(ctx, parts, owner, count, heads, arrays, err) : status;
    xsmi_held_release(&held);
    return status;
}
