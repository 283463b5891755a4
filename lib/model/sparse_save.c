/*
 * The tensors of a divided model's sparse weights, as one process writes them. A chunk of one rank's classes is sent as
 * it is. Of one that several ranks have rows of, each rank gets the columns of all, and of each column the entries of
 * one rank after another follow each other.
 */
#include "model/sparse_file.h"

#include "base/order.h"
#include "model/divided.h"
#include "model/sparse_joint.h"

#include <string.h>

/* Bytes that are sent together: room for the longest column. */
#define SENT_BYTES ((size_t)1 << 20)
_Static_assert(SENT_BYTES >= XSMI_CHUNK_ROWS * sizeof(float), "a column is sent at once");

typedef struct saving {
    const xsm_model *model;
    const xsmi_sparse *own;
    int which;                          /* XSMI_SPARSE_* */
    size_t each;                        /* bytes of an element */
    const unsigned char *data;          /* this rank's */
    unsigned char *mine, *all, *joined; /* [SENT_BYTES] */
    size_t *sizes, *offsets, *begin;    /* [ranks] */
    bool *ended;
    xsmi_container_writer *w;
} saving;

/* The first element of a chunk. */
static uint64_t element_at(const saving *s, const xsmi_sparse_place *at)
{
    return xsmi_sparse_element(s->which, at);
}

/* This rank's chunk that has a class of the model, or XSMI_NO_CHUNK. */
static uint32_t own_chunk(const saving *s, const xsmi_sparse_place *at)
{
    const xsmi_part *part = &s->model->part;
    const uint32_t first = XSMI_MAX(part->first, at->row), end = XSMI_MIN(part->end, at[1].row);
    return first < end ? xsmi_sparse_chunk_of(s->own, first - part->first) : XSMI_NO_CHUNK;
}

/* -- chunks of one rank -------------------------------------------------------------------------------------------- */

static xsm_status write_chunk(const saving *s, const xsmi_sparse_place *at, xsm_error *err)
{
    const uint32_t chunk = own_chunk(s, at);
    const uint64_t count = element_at(s, at + 1) - element_at(s, at);
    const unsigned char *from = NULL;
    if (chunk != XSMI_NO_CHUNK) {
        from = s->data + element_at(s, &s->own->places[chunk]) * s->each;
    }
    for (uint64_t done = 0, some; done < count; done += some) {
        some = XSMI_MIN(count - done, SENT_BYTES / s->each);
        const size_t bytes = (size_t)some * s->each;
        if (from) {
            memcpy(s->mine, from + done * s->each, bytes);
        }
        const xsm_status status = xsmi_divided_share(s->model, at->row, s->mine, bytes, XSM_OK, err);
        *s->ended |= status != XSM_OK;
        XSMI_TRY(status);
        XSMI_TRY(xsmi_container_write(s->w, s->mine, bytes, err));
    }
    return XSM_OK;
}

/* -- chunks of several ranks --------------------------------------------------------------------------------------- */

/* Writes the blocks or the columns, which every rank knows. */
static xsm_status write_columns(const saving *s, const xsmi_sparse_place *at, xsmi_sparse_joint *j, xsm_error *err)
{
    xsm_context *ctx = s->model->context;
    const uint64_t count = element_at(s, at + 1) - element_at(s, at);
    const uint32_t mask = (UINT32_C(1) << at->shift) - 1;
    xsmi_sparse_block *blocks = NULL;
    xsmi_sparse_column *columns = NULL;
    if (!s->w) {
        return XSM_OK;
    }
    unsigned char *memory = xsmi_allocate(ctx, count, s->each);
    if (!memory) {
        return xsmi_fail_memory(err, (size_t)count * s->each, "the columns of sparse weights");
    }
    if (s->which == XSMI_SPARSE_BLOCKS) {
        blocks = (xsmi_sparse_block *)(void *)memory;
    } else {
        columns = (xsmi_sparse_column *)(void *)memory;
    }
    xsmi_sparse_block next = {0, 0};
    uint64_t block = 0;
    for (; xsmi_sparse_joint_look(j); xsmi_sparse_joint_step(j)) {
        for (; blocks && block <= j->feature >> at->shift; block++) {
            blocks[block] = next;
        }
        if (columns) {
            columns[next.column] = (xsmi_sparse_column){(uint16_t)(j->feature & mask), (uint16_t)j->count};
        }
        next.column++;
        next.entry += j->count;
    }
    for (; blocks && block < count; block++) {
        blocks[block] = next;
    }
    const xsm_status status = xsmi_container_write(s->w, memory, (size_t)count * s->each, err);
    xsmi_release(ctx, memory, count, s->each);
    return status;
}

/* Copies this rank's entries, rows counted from the chunk's first, which is `moved` before this rank's. */
static void copy_entries(const saving *s, uint64_t first, size_t count, uint32_t moved)
{
    memcpy(s->mine, s->data + first * s->each, count * s->each);
    if (s->which == XSMI_SPARSE_INDICES && s->own->row8) {
        for (size_t i = 0; i < count; i++) {
            s->mine[i] = (uint8_t)(s->own->row8[first + i] + moved);
        }
    } else if (s->which == XSMI_SPARSE_INDICES) {
        uint16_t *rows = (uint16_t *)(void *)s->mine;
        for (size_t i = 0; i < count; i++) {
            rows[i] = (uint16_t)(s->own->row16[first + i] + moved);
        }
    }
}

/* The columns that follow, as many as are sent together; s->begin says where they begin on each rank, and s->sizes how
 * many bytes each sends of them. */
static size_t choose_columns(const saving *s, xsmi_sparse_joint *j)
{
    const uint32_t ranks = xsmi_ranks(j->context);
    size_t columns = 0, bytes = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        s->begin[r] = j->next[r];
        s->sizes[r] = 0;
    }
    while (xsmi_sparse_joint_look(j) && bytes + j->count * s->each <= SENT_BYTES) {
        for (uint32_t r = 0; r < ranks; r++) {
            s->sizes[r] += xsmi_sparse_joint_of(j, r) * s->each;
        }
        bytes += j->count * s->each;
        columns++;
        xsmi_sparse_joint_step(j);
    }
    return columns;
}

/* Puts the entries of all ranks in the order of the columns; returns the bytes. */
static size_t join_entries(const saving *s, size_t columns, xsmi_sparse_joint *j)
{
    const uint32_t ranks = xsmi_ranks(j->context);
    size_t done = 0, offset = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        s->offsets[r] = offset;
        offset += s->sizes[r];
        j->next[r] = s->begin[r];
    }
    for (; columns > 0; columns--) {
        (void)xsmi_sparse_joint_look(j);
        for (uint32_t r = 0; r < ranks; r++) {
            const size_t bytes = xsmi_sparse_joint_of(j, r) * s->each;
            memcpy(s->joined + done, s->all + s->offsets[r], bytes);
            s->offsets[r] += bytes;
            done += bytes;
        }
        xsmi_sparse_joint_step(j);
    }
    return done;
}

static xsm_status write_entries(const saving *s, const xsmi_sparse_place *at, xsmi_sparse_joint *j, xsm_error *err)
{
    xsm_context *ctx = s->model->context;
    const uint32_t chunk = own_chunk(s, at), rank = xsmi_rank(ctx);
    uint64_t entry = 0;
    uint32_t moved = 0;
    if (chunk != XSMI_NO_CHUNK) {
        entry = s->own->places[chunk].entry;
        moved = s->model->part.first + s->own->places[chunk].row - at->row;
    }
    for (size_t columns; (columns = choose_columns(s, j)) > 0;) {
        const size_t count = s->sizes[rank] / s->each;
        copy_entries(s, entry, count, moved);
        entry += count;
        xsm_status status = xsmi_agree(ctx, XSM_OK, err);
        status = status == XSM_OK ? xsmi_exchange_blocks(ctx, s->mine, s->all, s->sizes, err) : status;
        *s->ended |= status != XSM_OK;
        XSMI_TRY(status);
        if (s->w) {
            XSMI_TRY(xsmi_container_write(s->w, s->joined, join_entries(s, columns, j), err));
        }
    }
    return XSM_OK;
}

static xsm_status write_joint(const saving *s, const xsmi_sparse_place *at, xsm_error *err)
{
    xsmi_sparse_joint j;
    xsm_status status = xsmi_sparse_join(s->model->context, s->own, own_chunk(s, at), &j, err);
    *s->ended |= status != XSM_OK;
    if (status == XSM_OK) {
        const bool entries = s->which == XSMI_SPARSE_VALUES || s->which == XSMI_SPARSE_INDICES;
        status = entries ? write_entries(s, at, &j, err) : write_columns(s, at, &j, err);
    }
    xsmi_sparse_joint_free(&j);
    return status;
}

/* -- tensors ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_sparse_write_divided(const xsm_model *m, const xsmi_tensor *t, bool *ended, xsmi_container_writer *w,
                                     xsm_error *err)
{
    xsm_context *ctx = m->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    saving s = {.model = m,
                .own = m->part.own->sparse,
                .which = xsmi_sparse_which(t->name),
                .each = xsmi_dtype_size(t->dtype) * (t->rank > 1 ? (size_t)t->shape[1] : 1),
                .data = t->data,
                .ended = ended,
                .w = w};
    unsigned char *memory = xsmi_allocate(ctx, 3, SENT_BYTES);
    size_t *numbers = xsmi_allocate(ctx, 3 * (uint64_t)ranks, sizeof *numbers);
    xsm_status status = memory && numbers ? XSM_OK : xsmi_fail_memory(err, 3 * SENT_BYTES, "copies of weights");
    if (status == XSM_OK) {
        s.mine = memory;
        s.all = memory + SENT_BYTES;
        s.joined = s.all + SENT_BYTES;
        s.sizes = numbers;
        s.offsets = numbers + ranks;
        s.begin = s.offsets + ranks;
    }
    for (uint32_t c = 0; status == XSM_OK && c < m->part.chunks; c++) {
        const xsmi_sparse_place *at = &m->part.places[c];
        const bool one = xsmi_part_of(m->classes, ranks, at->row) == xsmi_part_of(m->classes, ranks, at[1].row - 1);
        status = one ? write_chunk(&s, at, err) : write_joint(&s, at, err);
    }
    xsmi_release(ctx, memory, 3, SENT_BYTES);
    xsmi_release(ctx, numbers, 3 * (size_t)ranks, sizeof *numbers);
    return status;
}
