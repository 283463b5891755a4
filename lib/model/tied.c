/* Tied vectors of a divided model: tied.h. */
#include "model/tied.h"

#include "base/order.h"
#include "data/part.h"
#include "model/divided.h"

#include <string.h>

/* A feature that was not fetched. */
#define NO_PLACE UINT32_MAX

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_tied_divide(xsm_model *m, xsm_error *err)
{
    xsmi_layer *l = m->part.own->layer;
    if (!l || !l->tied) {
        return XSM_OK;
    }
    const size_t ranks = xsmi_ranks(m->context);
    xsmi_tied *t = xsmi_allocate_zero(m->context, 1, sizeof *t);
    l->first = m->part.first;
    l->fetched = t;
    if (t) {
        t->place = xsmi_allocate(m->context, l->features, sizeof *t->place);
        t->next = xsmi_allocate(m->context, 2 * ranks + 1, sizeof *t->next);
    }
    if (!t || !t->place || !t->next) {
        return xsmi_fail_memory(err, l->features * sizeof *t->place, "the features' vectors");
    }
    t->sizes = t->next + ranks + 1;
    for (size_t j = 0; j < l->features; j++) {
        t->place[j] = NO_PLACE;
    }
    return XSM_OK;
}

void xsmi_tied_free(xsm_context *ctx, xsmi_tied *t, uint32_t features)
{
    if (t) {
        xsmi_release(ctx, t->place, features, sizeof *t->place);
        xsmi_release(ctx, t->listed, t->listed_capacity, sizeof *t->listed);
        xsmi_release(ctx, t->lines, t->lines_capacity, 1);
        xsmi_release(ctx, t->mine, t->mine_capacity, 1);
        xsmi_release(ctx, t->next, 2 * (size_t)xsmi_ranks(ctx) + 1, sizeof *t->next);
        xsmi_release(ctx, t, 1, sizeof *t);
    }
}

/* -- the features of the rows -------------------------------------------------------------------------------------- */

static void forget(xsmi_tied *t)
{
    for (size_t i = 0; i < t->count; i++) {
        t->place[t->listed[i]] = NO_PLACE;
    }
    t->count = 0;
}

/* Lists the features of the rows, each once. */
static xsm_status list_features(const xsm_model *m, const xsm_batch *batch, size_t first, size_t count, xsm_error *err)
{
    const xsmi_layer *l = m->layer;
    xsmi_tied *t = l->fetched;
    uint64_t entries = 0;
    forget(t);
    for (size_t i = first; i < first + count; i++) {
        entries += xsmi_batch_features(batch, i).count;
    }
    const uint64_t most = XSMI_MIN(entries, l->features);
    if (!xsmi_reserve(m->context, &t->listed, &t->listed_capacity, most, sizeof *t->listed)) {
        return xsmi_fail_memory(err, (size_t)most * sizeof *t->listed, "the features of a batch");
    }
    for (size_t i = first; i < first + count; i++) {
        const xsmi_features x = xsmi_batch_features(batch, i);
        for (size_t j = 0; j < x.count; j++) {
            const uint32_t feature = x.index ? x.index[j] : (uint32_t)j;
            if (t->place[feature] == NO_PLACE) {
                t->place[feature] = 0;
                t->listed[t->count++] = feature;
            }
        }
    }
    return XSM_OK;
}

/* Numbers the vectors: those of rank 0 come first, each rank's in the order of the list. */
static void number_vectors(const xsm_model *m)
{
    xsmi_tied *t = m->layer->fetched;
    const uint32_t ranks = xsmi_ranks(m->context);
    xsmi_part_count(m->classes, ranks, t->listed, t->count, t->next, t->sizes);
    for (uint32_t r = 0; r < ranks; r++) {
        t->sizes[r] *= t->line;
    }
    for (size_t i = 0; i < t->count; i++) {
        t->place[t->listed[i]] = (uint32_t)t->next[xsmi_part_of(m->classes, ranks, t->listed[i])]++;
    }
}

/* -- the exchange -------------------------------------------------------------------------------------------------- */

/* Copies this rank's vectors, in the order of their numbers, which is that of the list. */
static void copy_mine(const xsm_model *m)
{
    const xsm_model *own = m->part.own;
    const xsmi_tied *t = m->layer->fetched;
    const size_t number = xsmi_number_bytes(own->narrow.dtype), bytes = own->features * number;
    const size_t stride = (own->narrow.data ? own->narrow.stride : own->stride) * number;
    const unsigned char *rows = own->narrow.data ? own->narrow.data : (const void *)own->weight;
    unsigned char *to = t->mine;
    for (size_t i = 0; i < t->count; i++) {
        if (xsmi_model_has_vector(own, t->listed[i])) {
            const size_t k = t->listed[i] - own->layer->first;
            const double scale = own->row_scale ? own->alpha * own->row_scale[k] : own->alpha;
            memcpy(to, rows + k * stride, bytes);
            memset(to + bytes, 0, t->line - sizeof scale - bytes);
            memcpy(to + t->line - sizeof scale, &scale, sizeof scale);
            to += t->line;
        }
    }
}

static xsm_status prepare(const xsm_model *m, const xsm_batch *batch, size_t first, size_t count, xsm_error *err)
{
    xsmi_tied *t = m->layer->fetched;
    const int32_t dtype = m->part.own->narrow.dtype;
    const size_t number = xsmi_number_bytes(dtype);
    size_t all;
    XSMI_TRY(list_features(m, batch, first, count, err));
    t->line = (m->features * number + sizeof(double) - 1) / sizeof(double) * sizeof(double) + sizeof(double);
    if (!xsmi_multiply(t->count, t->line, &all)) {
        return xsmi_fail_memory(err, SIZE_MAX, "the vectors of a batch's features");
    }
    number_vectors(m);
    const size_t mine = t->sizes[xsmi_rank(m->context)];
    if (!xsmi_reserve(m->context, &t->lines, &t->lines_capacity, all, 1) ||
        !xsmi_reserve(m->context, &t->mine, &t->mine_capacity, mine, 1)) {
        return xsmi_fail_memory(err, all, "the vectors of a batch's features");
    }
    t->vectors = (xsmi_narrow){dtype, t->lines, t->line / number};
    copy_mine(m);
    return XSM_OK;
}

bool xsmi_model_fetches(const xsm_model *m, const xsm_batch *batch)
{
    return xsmi_batch_is_divided(batch) || (m->layer && m->layer->fetched);
}

xsm_status xsmi_model_fetch(const xsm_model *m, const xsm_batch *batch, size_t first, size_t count, xsm_error *err)
{
    XSMI_TRY(xsmi_batch_fetch(batch, first, count, err));
    if (!m->layer || !m->layer->fetched) {
        return XSM_OK;
    }
    const xsmi_tied *t = m->layer->fetched;
    XSMI_TRY(xsmi_agree(m->context, prepare(m, batch, first, count, err), err));
    return xsmi_exchange_blocks(m->context, t->mine, t->lines, t->sizes, err);
}
