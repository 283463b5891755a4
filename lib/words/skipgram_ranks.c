/* Vectors of words from all ranks, and what each rank computes with them: see skipgram_ranks.h. */
#include "words/skipgram_ranks.h"

#include "base/hash.h"
#include "base/order.h"
#include "base/share.h"
#include "model/divided.h"

#include <string.h>

struct xsmi_skipgram_ranks {
    xsm_context *context; /* the models' */
    const xsm_model *input, *output;
    size_t dimension, stride;
    /* Vectors are numbered: words' output vectors, then their input vectors. */
    uint32_t *index;  /* [2 V] where a vector is among those of its rank; XSMI_NO_CLASS: not in the batch */
    uint32_t *listed; /* the vectors of the batch, each once */
    size_t listed_count, listed_capacity;
    uint32_t *rows; /* of the slots, then of the centres */
    size_t rows_capacity;
    uint32_t *starts; /* [ranks + 1] the first row of each rank */
    size_t *sizes;    /* [ranks] bytes that each sends */
    float *mine, *vectors;
    size_t mine_capacity, vectors_capacity;
    unsigned char *sent, *received; /* what steps have computed */
    size_t sent_capacity, received_capacity;
    xsmi_word_copies copies;
};

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_skipgram_ranks_new(const xsmi_word_task *task, xsmi_skipgram_ranks **out, xsm_error *err)
{
    xsm_context *ctx = task->output->context;
    const uint32_t ranks = xsmi_ranks(ctx);
    const uint64_t vectors = 2 * (uint64_t)task->output->classes;
    xsmi_skipgram_ranks *r = xsmi_allocate_zero(ctx, 1, sizeof *r);
    if (!r) {
        return xsmi_fail_memory(err, sizeof *r, "steps on several ranks");
    }
    r->context = xsmi_context_retain(ctx);
    r->input = task->input;
    r->output = task->output;
    r->dimension = task->output->features;
    r->stride = xsmi_row_stride(r->dimension);
    r->index = xsmi_allocate(ctx, vectors, sizeof *r->index);
    r->starts = xsmi_allocate(ctx, (uint64_t)ranks + 1, sizeof *r->starts);
    r->sizes = xsmi_allocate(ctx, ranks, sizeof *r->sizes);
    if (!r->index || !r->starts || !r->sizes) {
        xsmi_skipgram_ranks_free(r);
        return xsmi_fail_memory(err, vectors * sizeof *r->index, "steps on several ranks");
    }
    for (uint64_t i = 0; i < vectors; i++) {
        r->index[i] = XSMI_NO_CLASS;
    }
    *out = r;
    return XSM_OK;
}

void xsmi_skipgram_ranks_free(xsmi_skipgram_ranks *r)
{
    if (r) {
        xsm_context *ctx = r->context;
        const uint32_t ranks = xsmi_ranks(ctx);
        xsmi_release(ctx, r->index, (size_t)2 * r->output->classes, sizeof *r->index);
        xsmi_release(ctx, r->listed, r->listed_capacity, sizeof *r->listed);
        xsmi_release(ctx, r->rows, r->rows_capacity, sizeof *r->rows);
        xsmi_release(ctx, r->starts, (size_t)ranks + 1, sizeof *r->starts);
        xsmi_release(ctx, r->sizes, ranks, sizeof *r->sizes);
        xsmi_release(ctx, r->mine, r->mine_capacity, sizeof *r->mine);
        xsmi_release(ctx, r->vectors, r->vectors_capacity, sizeof *r->vectors);
        xsmi_release(ctx, r->sent, r->sent_capacity, 1);
        xsmi_release(ctx, r->received, r->received_capacity, 1);
        xsmi_release(ctx, r, 1, sizeof *r);
        xsm_context_free(ctx);
    }
}

/* -- vectors ------------------------------------------------------------------------------------------------------- */

static uint32_t rank_of(const xsmi_skipgram_ranks *r, uint32_t vector)
{
    const uint32_t words = r->output->classes;
    return xsmi_part_of(words, xsmi_ranks(r->context), vector < words ? vector : vector - words);
}

/* The numbers of a vector of this rank. */
static float *numbers_of(const xsmi_skipgram_ranks *r, uint32_t vector)
{
    const uint32_t words = r->output->classes, word = vector < words ? vector : vector - words;
    const xsm_model *m = vector < words ? r->output : r->input, *own = xsmi_model_weights(m);
    return own->weight + (size_t)(word - m->part.first) * own->stride;
}

/* Lists a vector once; index[] of it becomes its place among those of its rank, starts[rank + 1] their number. */
static void list_vector(xsmi_skipgram_ranks *r, uint32_t vector)
{
    if (r->index[vector] == XSMI_NO_CLASS) {
        r->index[vector] = r->starts[rank_of(r, vector) + 1]++;
        r->listed[r->listed_count++] = vector;
    }
}

static uint32_t row_of(const xsmi_skipgram_ranks *r, uint32_t vector)
{
    return r->starts[rank_of(r, vector)] + r->index[vector];
}

/* Where the slots of a step are. */
static size_t offset_of(const xsmi_word_slots *slots, uint32_t s)
{
    return (size_t)slots->drawn->starts[s] * slots->pair_width;
}

static void list_vectors(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots)
{
    const xsmi_drawn *d = slots->drawn;
    r->listed_count = 0;
    memset(r->starts, 0, ((size_t)xsmi_ranks(r->context) + 1) * sizeof *r->starts);
    for (uint32_t s = 0; s < d->steps; s++) {
        const size_t offset = offset_of(slots, s);
        for (uint32_t i = 0; i < slots->lengths[s]; i++) {
            list_vector(r, slots->words[offset + i]);
        }
    }
    for (uint32_t s = 0; d->centres && s < d->steps; s++) {
        list_vector(r, r->output->classes + d->centres[s]);
    }
}

/* Copies this rank's listed vectors to where they are sent from, and fills in the rows of copies. */
static void fill(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots)
{
    const xsmi_drawn *d = slots->drawn;
    const uint32_t rank = xsmi_rank(r->context);
    uint32_t *of_centres = r->rows + offset_of(slots, d->steps);
    for (size_t i = 0; i < r->listed_count; i++) {
        const uint32_t vector = r->listed[i];
        if (rank_of(r, vector) == rank) {
            float *to = r->mine + r->index[vector] * r->stride;
            memcpy(to, numbers_of(r, vector), r->dimension * sizeof *to);
            memset(to + r->dimension, 0, (r->stride - r->dimension) * sizeof *to);
        }
    }
    for (uint32_t s = 0; s < d->steps; s++) {
        const size_t offset = offset_of(slots, s);
        for (uint32_t i = 0; i < slots->lengths[s]; i++) {
            r->rows[offset + i] = row_of(r, slots->words[offset + i]);
        }
        if (d->centres) {
            of_centres[s] = row_of(r, r->output->classes + d->centres[s]);
        }
    }
}

static xsm_status prepare(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots, xsm_error *err)
{
    const xsmi_drawn *d = slots->drawn;
    const uint32_t ranks = xsmi_ranks(r->context), rank = xsmi_rank(r->context), words = r->output->classes;
    const size_t slot_count = offset_of(slots, d->steps), count = slot_count + d->steps;
    const uint64_t most = XSMI_MIN(count, 2 * (uint64_t)words);
    if (!xsmi_reserve(r->context, &r->rows, &r->rows_capacity, count, sizeof *r->rows) ||
        !xsmi_reserve(r->context, &r->listed, &r->listed_capacity, most, sizeof *r->listed)) {
        return xsmi_fail_memory(err, count * sizeof *r->rows, "the words of a batch");
    }
    list_vectors(r, slots);
    const size_t listed = r->listed_count;
    for (uint32_t i = 0; i < ranks; i++) {
        r->sizes[i] = r->starts[i + 1] * r->stride * sizeof *r->vectors;
        r->starts[i + 1] += r->starts[i];
    }
    const uint64_t own = (uint64_t)(r->starts[rank + 1] - r->starts[rank]) * r->stride;
    const bool room =
        xsmi_reserve(r->context, &r->mine, &r->mine_capacity, own, sizeof *r->mine) &&
        xsmi_reserve(r->context, &r->vectors, &r->vectors_capacity, listed * r->stride, sizeof *r->vectors);
    if (room) {
        fill(r, slots);
    }
    for (size_t i = 0; i < listed; i++) {
        r->index[r->listed[i]] = XSMI_NO_CLASS;
    }
    if (!room) {
        return xsmi_fail_memory(err, listed * r->stride * sizeof *r->vectors, "the vectors of a batch");
    }
    r->copies = (xsmi_word_copies){r->vectors, r->rows, d->centres ? r->rows + slot_count : NULL};
    return XSM_OK;
}

/* xsmi_agree(), and that all ranks have listed the same vectors: the text of some may have changed. */
static xsm_status agree_on_list(xsmi_skipgram_ranks *r, xsm_status status, xsm_error *err)
{
    const size_t bytes = status == XSM_OK ? r->listed_count * sizeof *r->listed : 0;
    const uint64_t list = xsmi_hash(r->listed, bytes, r->listed_count);
    return xsmi_agree_same(
        r->context, status, list, XSM_ERROR_STATE,
        "the words are not those that rank 0 has read: the text has changed, or is not the same for all", err);
}

xsm_status xsmi_skipgram_ranks_gather(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots, xsm_status status,
                                      xsm_error *err)
{
    status = status == XSM_OK ? prepare(r, slots, err) : status;
    XSMI_TRY(agree_on_list(r, status, err));
    return xsmi_exchange_blocks(r->context, r->mine, r->vectors, r->sizes, err);
}

const xsmi_word_copies *xsmi_skipgram_ranks_copies(const xsmi_skipgram_ranks *r)
{
    return &r->copies;
}

void xsmi_skipgram_ranks_keep(xsmi_skipgram_ranks *r)
{
    const uint32_t rank = xsmi_rank(r->context);
    const float *from = r->vectors + r->starts[rank] * r->stride; /* in the order of the list */
    for (size_t i = 0; i < r->listed_count; i++) {
        if (rank_of(r, r->listed[i]) == rank) {
            memcpy(numbers_of(r, r->listed[i]), from, r->dimension * sizeof *from);
            from += r->stride;
        }
    }
}

/* -- what steps compute -------------------------------------------------------------------------------------------- */

static uint32_t first_of(const xsmi_skipgram_ranks *r, uint32_t steps, uint32_t rank)
{
    return (uint32_t)xsmi_share_start(steps, xsmi_ranks(r->context), rank);
}

void xsmi_skipgram_ranks_share(const xsmi_skipgram_ranks *r, uint32_t steps, uint32_t *first, uint32_t *end)
{
    *first = first_of(r, steps, xsmi_rank(r->context));
    *end = first_of(r, steps, xsmi_rank(r->context) + 1);
}

/* Copies what the steps first..end have computed to `bytes`, or from there: loss, change and amounts of each step. */
static void move_steps(const xsmi_skipgram_ranks *r, const xsmi_word_slots *slots, const xsmi_word_changes *changes,
                       uint32_t rank, unsigned char *bytes, bool send)
{
    const xsmi_drawn *d = slots->drawn;
    const uint32_t end = first_of(r, d->steps, rank + 1);
    for (uint32_t s = first_of(r, d->steps, rank); s < end; s++) {
        const struct {
            void *numbers;
            size_t bytes;
        } pieces[] = {{changes->losses + s, sizeof *changes->losses},
                      {changes->changes + s * changes->stride, r->dimension * sizeof(float)},
                      {slots->amounts + offset_of(slots, s), slots->lengths[s] * sizeof *slots->amounts}};
        for (size_t i = 0; i < sizeof pieces / sizeof *pieces; bytes += pieces[i].bytes, i++) {
            memcpy(send ? bytes : pieces[i].numbers, send ? pieces[i].numbers : bytes, pieces[i].bytes);
        }
    }
}

/* The bytes of a rank's steps. */
static size_t bytes_of(const xsmi_skipgram_ranks *r, const xsmi_word_slots *slots, uint32_t rank)
{
    const uint32_t first = first_of(r, slots->drawn->steps, rank), end = first_of(r, slots->drawn->steps, rank + 1);
    size_t used = 0;
    for (uint32_t s = first; s < end; s++) {
        used += slots->lengths[s];
    }
    return (end - first) * (sizeof(double) + r->dimension * sizeof(float)) + used * sizeof *slots->amounts;
}

static xsm_status send_steps(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots, const xsmi_word_changes *changes,
                             xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(r->context), rank = xsmi_rank(r->context);
    size_t all = 0;
    for (uint32_t i = 0; i < ranks; i++) {
        r->sizes[i] = bytes_of(r, slots, i);
        all += r->sizes[i];
    }
    if (!xsmi_reserve(r->context, &r->sent, &r->sent_capacity, r->sizes[rank], 1) ||
        !xsmi_reserve(r->context, &r->received, &r->received_capacity, all, 1)) {
        return xsmi_fail_memory(err, all, "what the steps of a batch have computed");
    }
    move_steps(r, slots, changes, rank, r->sent, true);
    return XSM_OK;
}

xsm_status xsmi_skipgram_ranks_exchange(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots,
                                        const xsmi_word_changes *changes, xsm_status status, xsm_error *err)
{
    status = status == XSM_OK ? send_steps(r, slots, changes, err) : status;
    XSMI_TRY(xsmi_agree(r->context, status, err));
    XSMI_TRY(xsmi_exchange_blocks(r->context, r->sent, r->received, r->sizes, err));
    unsigned char *bytes = r->received;
    for (uint32_t i = 0; i < xsmi_ranks(r->context); bytes += r->sizes[i], i++) {
        if (i != xsmi_rank(r->context)) {
            move_steps(r, slots, changes, i, bytes, false);
        }
    }
    return XSM_OK;
}
