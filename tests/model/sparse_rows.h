/* What the tests of sparse weights and of label trees share: rows, files, and what is tried on damaged ones. */
#ifndef XSM_TEST_SPARSE_ROWS_H
#define XSM_TEST_SPARSE_ROWS_H

#include "support.h"

/* Numbers that look random, the same everywhere. */
uint32_t noise(uint32_t i);

typedef struct sparse_shape {
    uint32_t rows, features, classes;
    uint32_t nonzeros; /* of a row, at most */
    uint32_t gap;      /* the largest one between features that follow each other */
    bool several;      /* a third of the rows have two labels */
} sparse_shape;

/* Sparse rows, and the same as dense ones; row 3 has no features. */
typedef struct rows {
    uint64_t *offsets, *label_offsets;
    uint32_t *index, *labels;
    float *values, *dense;
    xsm_dataset *sparse, *full;
} rows;

rows *rows_new(xsm_context *ctx, const sparse_shape *shape);
void end_rows(rows *r);

/* Loads a model from bytes, and scores a row if it has that many features. Counts whether it was refused, with a
 * message, or accepted; bytes that are no container count as neither. */
typedef struct tried {
    size_t refused, accepted;
} tried;
void try_bytes(xsm_context *ctx, unsigned char *bytes, size_t size, const rows *r, uint32_t features, tried *t);

#endif
