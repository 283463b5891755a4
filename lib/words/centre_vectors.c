/* The input vectors of some words in a row: see centre_vectors.h. */
#include "words/centre_vectors.h"

#include "base/order.h"
#include "model/divided.h"

#include <string.h>

xsm_status xsmi_centre_vectors_start(xsmi_centre_vectors *v, const xsm_model *input, uint32_t most, xsm_error *err)
{
    xsm_context *ctx = input->context;
    *v = (xsmi_centre_vectors){.input = input, .stride = input->stride};
    if (!xsmi_model_is_divided(input)) {
        return XSM_OK;
    }
    v->stride = xsmi_row_stride(input->features);
    v->most = most;
    v->mine = xsmi_allocate_zero(ctx, v->most, v->stride * sizeof *v->mine);
    v->all = xsmi_allocate(ctx, v->most, v->stride * sizeof *v->all);
    v->sizes = xsmi_allocate(ctx, xsmi_ranks(ctx), sizeof *v->sizes);
    return v->mine && v->all && v->sizes
               ? XSM_OK
               : xsmi_fail_memory(err, v->most * v->stride * sizeof *v->all, "the vectors of centre words");
}

void xsmi_centre_vectors_clear(xsmi_centre_vectors *v)
{
    if (v->input) {
        xsm_context *ctx = v->input->context;
        xsmi_release(ctx, v->mine, v->most, v->stride * sizeof *v->mine);
        xsmi_release(ctx, v->all, v->most, v->stride * sizeof *v->all);
        xsmi_release(ctx, v->sizes, xsmi_ranks(ctx), sizeof *v->sizes);
        memset(v, 0, sizeof *v);
    }
}

xsm_status xsmi_centre_vectors_get(xsmi_centre_vectors *v, uint32_t first, uint32_t count, const float **x,
                                   xsm_error *err)
{
    const xsm_model *m = v->input, *own = xsmi_model_weights(m);
    if (!xsmi_model_is_divided(m)) {
        *x = m->weight + (size_t)first * m->stride;
        return XSM_OK;
    }
    const uint32_t ranks = xsmi_ranks(m->context), end = first + count;
    float *to = v->mine;
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t from = xsmi_part_start(m->classes, ranks, r), last = xsmi_part_start(m->classes, ranks, r + 1);
        const uint32_t low = XSMI_CLAMP(first, from, last), high = XSMI_CLAMP(end, from, last);
        v->sizes[r] = (high - low) * v->stride * sizeof *v->all;
    }
    for (uint32_t k = first; k < end; k++) {
        if (xsmi_divided_has(m, k)) {
            memcpy(to, own->weight + (size_t)(k - m->part.first) * own->stride, m->features * sizeof *to);
            to += v->stride;
        }
    }
    *x = v->all;
    return xsmi_exchange_blocks(m->context, v->mine, v->all, v->sizes, err);
}
