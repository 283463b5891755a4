/*
 * Label vectors: for each label with rows, v = sum over its rows i of x_i/sqrt(n_i), n_i the row's labels, brought to
 * unit length; sparse (PIFA of Yu et al., PECOS, 2022; Prabhu et al., Parabel, 2018).
 */
#ifndef XSMI_LABEL_VECTORS_H
#define XSMI_LABEL_VECTORS_H

#include "data/dataset.h"

/* Vectors of a block of neighbouring labels. */
typedef struct xsmi_vector_block {
    uint32_t *index;
    float *value;
    size_t capacity, count;
} xsmi_vector_block;

#define XSMI_VECTOR_BLOCK 256

typedef struct xsmi_label_vectors {
    xsm_context *context;
    uint32_t features;
    uint32_t classes;
    uint32_t count;   /* classes that have rows */
    uint32_t *label;  /* [classes] the classes with rows, rising, then the others */
    uint32_t *length; /* [count] entries */
    size_t *start;    /* [count] the first entry, in its block */
    xsmi_vector_block *block;
    uint32_t blocks;
} xsmi_label_vectors;

/* Makes room for so many entries behind those that a block has; false when there is no memory. */
bool xsmi_vector_block_reserve(xsmi_vector_block *b, xsm_context *ctx, size_t entries);

/* Computes them; O(entries of the rows times their labels). */
xsm_status xsmi_label_vectors_make(xsmi_label_vectors *v, xsm_context *ctx, const xsm_dataset *data, xsm_error *err);
void xsmi_label_vectors_free(xsmi_label_vectors *v);

static inline xsmi_features xsmi_label_vector(const xsmi_label_vectors *v, uint32_t i)
{
    const xsmi_vector_block *b = &v->block[i / XSMI_VECTOR_BLOCK];
    const xsmi_features f = {b->value + v->start[i], b->index + v->start[i], v->length[i]};
    return f;
}

#endif
