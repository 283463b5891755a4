#include "labels/vectors.h"

#include "base/activity.h"
#include "base/grow.h"
#include "labels/marks.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* What a source and a term cost in a clustering, in entries. The n labels of a row are together at first, and may all
 * be apart at last: a label's part of the cost of its row is taken as 1/sqrt(n). */
#define SOURCE_COST 8.0
#define TERM_COST 2.0

/* The scratch in which a thread sums. */
typedef struct vector_scratch {
    float *sum;      /* [features] zeros between labels */
    uint32_t *found; /* [features] */
    xsmi_marks marks;
} vector_scratch;

typedef struct vector_job {
    xsmi_label_vectors *v;
    vector_scratch *scratch; /* [threads] */
    atomic_bool failed;      /* no memory */
} vector_job;

/* Adds a row to the sum, and what it costs as a source. Returns its weight. */
static float add_row(vector_scratch *s, const xsm_dataset *data, uint64_t row, double *cost)
{
    const xsmi_features x = xsmi_dataset_features(data, row);
    size_t labels;
    (void)xsmi_dataset_labels(data, row, &labels);
    const float weight = (float)(xsmi_dataset_whole_weight(data, row) / sqrt((double)labels));
    *cost += ((double)x.count + SOURCE_COST) / sqrt((double)labels) + TERM_COST;
    for (size_t k = 0; k < x.count; k++) {
        const uint32_t f = x.index ? x.index[k] : (uint32_t)k;
        if (x.values[k] != 0.0f) {
            s->sum[f] += weight * x.values[k];
            xsmi_marks_add(&s->marks, f);
        }
    }
    return weight;
}

bool xsmi_vector_block_reserve(xsmi_vector_block *b, xsm_context *ctx, size_t entries)
{
    const size_t needed = b->count + entries;
    if (needed <= b->capacity) {
        return true;
    }
    const size_t more = needed + needed / 2;
    uint32_t *index = xsmi_reallocate(ctx, b->index, b->capacity, more, sizeof *index);
    b->index = index ? index : b->index;
    float *value = index ? xsmi_reallocate(ctx, b->value, b->capacity, more, sizeof *value) : NULL;
    b->value = value ? value : b->value;
    if (index && !value) {
        /* Shrinks it again, so that both arrays have the same capacity. */
        index = xsmi_reallocate(ctx, b->index, more, b->capacity, sizeof *index);
        b->index = index ? index : b->index;
    }
    b->capacity = value ? more : b->capacity;
    return value != NULL;
}

/* Appends the sum of label l, at unit length, to the block if it is cheaper as a source; scales the weights of the
 * terms alike, and clears the sum. False without memory. */
static bool take_sum(vector_scratch *s, xsmi_label_vectors *v, uint32_t l, xsmi_vector_block *b, double cost)
{
    const uint32_t found = xsmi_marks_take(&s->marks, s->found);
    double square = 0;
    for (uint32_t k = 0; k < found; k++) {
        square += (double)s->sum[s->found[k]] * (double)s->sum[s->found[k]];
    }
    const float scale = square > 0 ? (float)(1.0 / sqrt(square)) : 0.0f;
    const bool own = found + SOURCE_COST + TERM_COST < cost,
               enough = !own || xsmi_vector_block_reserve(b, v->context, found);
    v->start[l] = b->count;
    v->length[l] = own && enough ? found : 0;
    for (uint32_t k = 0; k < found; k++) {
        if (v->length[l] > 0) {
            b->index[b->count] = s->found[k];
            b->value[b->count++] = scale * s->sum[s->found[k]];
        }
        s->sum[s->found[k]] = 0.0f;
    }
    for (uint64_t i = v->first[l]; i < v->first[l + 1]; i++) {
        v->weight[i] *= scale;
    }
    return enough;
}

static void make_block(void *state, const xsmi_range *r)
{
    vector_job *job = state;
    xsmi_label_vectors *v = job->v;
    vector_scratch *s = &job->scratch[r->thread];
    for (size_t l = r->first; l < r->end && !xsmi_poll(v->context); l++) {
        double cost = v->shared ? 0 : INFINITY;
        for (uint64_t i = v->first[l]; i < v->first[l + 1]; i++) {
            v->weight[i] = add_row(s, v->data, v->row[i], &cost);
        }
        if (!take_sum(s, v, (uint32_t)l, &v->block[r->index], cost)) {
            atomic_store(&job->failed, true);
            return;
        }
    }
    xsmi_advance(v->context, r->end - r->first);
}

static bool new_scratch(vector_scratch *s, xsm_context *ctx, uint32_t features)
{
    s->sum = xsmi_allocate_zero(ctx, features, sizeof *s->sum);
    s->found = xsmi_allocate(ctx, features, sizeof *s->found);
    return xsmi_marks_new(&s->marks, ctx, features) && s->sum && s->found;
}

static void free_scratch(vector_scratch *s, xsm_context *ctx, uint32_t features)
{
    xsmi_release(ctx, s->sum, features, sizeof *s->sum);
    xsmi_release(ctx, s->found, features, sizeof *s->found);
    xsmi_marks_free(&s->marks, ctx);
}

/* Lists the rows of each label, in rising order. */
static void list_rows(xsmi_label_vectors *v, const uint32_t *number)
{
    const xsm_dataset *data = v->data;
    for (uint64_t r = 0; r < data->rows; r++) {
        size_t n;
        const uint32_t *labels = xsmi_dataset_labels(data, r, &n);
        for (size_t k = 0; k < n; k++) {
            if (labels[k] < data->classes) {
                v->row[v->first[number[labels[k]]]++] = (uint32_t)r;
            }
        }
        xsmi_dataset_poll(v->context, r);
    }
    /* Filling has moved each beginning to the next one's. */
    memmove(v->first + 1, v->first, v->count * sizeof *v->first);
    v->first[0] = 0;
}

/* Numbers the labels that have rows; `number` [classes] and `first` [classes + 1]. */
static xsm_status number_labels(xsmi_label_vectors *v, uint32_t *number, uint64_t *first, xsm_error *err)
{
    const xsm_dataset *data = v->data;
    const uint64_t pairs = data->label_offsets[data->rows];
    for (uint64_t p = data->label_offsets[0]; p < pairs; p++) {
        if (data->labels[p] < data->classes) {
            first[data->labels[p]]++;
        }
    }
    for (uint32_t k = 0; k < data->classes; k++) {
        v->count += first[k] > 0;
        v->terms += first[k];
    }
    v->blocks = (v->count + XSMI_VECTOR_BLOCK - 1) / XSMI_VECTOR_BLOCK;
    v->label = xsmi_hold(&v->held, v->classes, sizeof *v->label);
    v->first = xsmi_hold(&v->held, (uint64_t)v->count + 1, sizeof *v->first);
    v->row = xsmi_hold(&v->held, v->terms, sizeof *v->row);
    v->weight = xsmi_hold(&v->held, v->terms, sizeof *v->weight);
    v->length = xsmi_hold(&v->held, v->count, sizeof *v->length);
    v->start = xsmi_hold(&v->held, v->count, sizeof *v->start);
    v->block = xsmi_hold_zeros(&v->held, v->blocks, sizeof *v->block);
    XSMI_TRY(xsmi_held_check(&v->held, "label vectors", err));
    uint32_t l = 0;
    uint64_t at = 0;
    for (uint32_t k = 0; k < data->classes; k++) {
        number[k] = l;
        v->label[first[k] > 0 ? l : v->count + k - l] = k;
        if (first[k] > 0) {
            v->first[l++] = at;
            at += first[k];
        }
    }
    v->first[l] = at;
    return XSM_OK;
}

static xsm_status sum_up(xsmi_label_vectors *v, xsm_error *err)
{
    const uint32_t threads = xsmi_context_threads(v->context), features = v->features;
    vector_job job = {v, xsmi_allocate_zero(v->context, threads, sizeof(vector_scratch)), false};
    bool enough = job.scratch != NULL;
    for (uint32_t t = 0; enough && t < threads; t++) {
        enough = new_scratch(&job.scratch[t], v->context, features);
    }
    xsm_status status =
        enough ? xsmi_run_ranges(v->context, make_block, &job, v->count, XSMI_VECTOR_BLOCK, err) : XSM_OK;
    if (status == XSM_OK && (!enough || atomic_load(&job.failed))) {
        status = xsmi_fail_memory(err, (uint64_t)features * 8, "label vectors");
    }
    for (uint32_t t = 0; job.scratch && t < threads; t++) {
        free_scratch(&job.scratch[t], v->context, features);
    }
    xsmi_release(v->context, job.scratch, threads, sizeof *job.scratch);
    return status;
}

xsm_status xsmi_label_vectors_make(xsmi_label_vectors *v, xsm_context *ctx, const xsm_dataset *data, bool own,
                                   xsm_error *err)
{
    *v = (xsmi_label_vectors){
        .context = ctx, .held = {.context = ctx}, .features = data->features, .classes = data->classes, .data = data};
    xsmi_held held = {.context = ctx};
    uint32_t *number = xsmi_hold(&held, data->classes, sizeof *number);
    uint64_t *first = xsmi_hold_zeros(&held, (uint64_t)data->classes + 1, sizeof *first);
    xsm_status status = xsmi_held_check(&held, "the rows of each label", err);
    status = status == XSM_OK ? number_labels(v, number, first, err) : status;
    if (status == XSM_OK) {
        v->shared = !own && data->sparse && data->rows + v->count <= UINT32_MAX;
        list_rows(v, number);
        status = sum_up(v, err);
    }
    xsmi_held_release(&held);
    if (status != XSM_OK) {
        xsmi_label_vectors_free(v);
    }
    return status;
}

void xsmi_label_vectors_free(xsmi_label_vectors *v)
{
    for (uint32_t b = 0; v->block && b < v->blocks; b++) {
        xsmi_release(v->context, v->block[b].index, v->block[b].capacity, sizeof *v->block[b].index);
        xsmi_release(v->context, v->block[b].value, v->block[b].capacity, sizeof *v->block[b].value);
    }
    xsmi_held_release(&v->held);
    *v = (xsmi_label_vectors){0};
}
