/*
 * Label vectors: for each label with rows, v = sum over its rows i of x_i/sqrt(n_i), n_i the row's labels, brought to
 * unit length; sparse (PIFA of Yu et al., PECOS, 2022; Prabhu et al., Parabel, 2018).
 *
 * They are not computed where rows have several labels, but are kept as sums of weighted sources: its rows, which
 * labels share, or one of its own, which is v.
 */
#ifndef XSMI_LABEL_VECTORS_H
#define XSMI_LABEL_VECTORS_H

#include "data/dataset.h"

#include "base/held.h"

/* Vectors of a block of neighbouring labels. */
typedef struct xsmi_vector_block {
    uint32_t *index;
    float *value;
    size_t capacity, count;
} xsmi_vector_block;

#define XSMI_VECTOR_BLOCK 256

typedef struct xsmi_label_vectors {
    xsm_context *context;
    xsmi_held held; /* the arrays, without those of blocks */
    uint32_t features;
    uint32_t classes;
    uint32_t count;          /* classes that have rows */
    uint32_t *label;         /* [classes] the classes with rows, rising, then the others */
    const xsm_dataset *data; /* of the rows, borrowed */
    bool shared;             /* rows are sources; else each label has its own */
    uint64_t terms;          /* of all labels: their rows */
    uint64_t *first;         /* [count + 1] the first term of each label */
    uint32_t *row;           /* [terms] */
    float *weight;           /* [terms] */
    uint32_t *length;        /* [count] entries of the label's own source; 0: it has none */
    size_t *start;           /* [count] its first entry, in its block */
    xsmi_vector_block *block;
    uint32_t blocks;
} xsmi_label_vectors;

/* The terms of one label: weights and numbers of sources. Source i is the own one of label i; behind these are the
 * rows. */
typedef struct xsmi_label_terms {
    const uint32_t *row; /* NULL: the own source, with weight 1 */
    const float *weight;
    uint32_t count;
} xsmi_label_terms;

/* Makes room for `entries` entries behind those that a block has; false when there is no memory. */
bool xsmi_vector_block_reserve(xsmi_vector_block *b, xsm_context *ctx, size_t entries);

/* Computes the vectors; O(entries of the rows times their labels). A label gets a source of its own where that costs
 * the clustering less than its rows, or if `own` or the rows are dense. */
xsm_status xsmi_label_vectors_make(xsmi_label_vectors *v, xsm_context *ctx, const xsm_dataset *data, bool own,
                                   xsm_error *err);
void xsmi_label_vectors_free(xsmi_label_vectors *v);

/* Returns a label's own source. */
static inline xsmi_features xsmi_label_vector(const xsmi_label_vectors *v, uint32_t i)
{
    const xsmi_vector_block *b = &v->block[i / XSMI_VECTOR_BLOCK];
    const xsmi_features f = {b->value + v->start[i], b->index + v->start[i], v->length[i]};
    return f;
}

static inline uint32_t xsmi_label_sources(const xsmi_label_vectors *v)
{
    return v->count + (v->shared ? (uint32_t)v->data->rows : 0);
}

static inline xsmi_features xsmi_label_source(const xsmi_label_vectors *v, uint32_t s)
{
    return s < v->count ? xsmi_label_vector(v, s) : xsmi_dataset_features(v->data, s - v->count);
}

static inline xsmi_label_terms xsmi_label_terms_of(const xsmi_label_vectors *v, uint32_t i)
{
    static const float one[1] = {1.0f};
    const bool rows = v->shared && v->length[i] == 0;
    return rows ? (xsmi_label_terms){v->row + v->first[i], v->weight + v->first[i],
                                     (uint32_t)(v->first[i + 1] - v->first[i])}
                : (xsmi_label_terms){NULL, one, v->length[i] > 0};
}

/* Returns the source of term `k`. */
static inline uint32_t xsmi_term_source(const xsmi_label_vectors *v, const xsmi_label_terms *t, uint32_t i, uint32_t k)
{
    return t->row ? v->count + t->row[k] : i;
}

#endif
