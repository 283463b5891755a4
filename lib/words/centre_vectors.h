/*
 * The input vectors of some words in a row, on every rank that has a part of the words.
 */
#ifndef XSMI_CENTRE_VECTORS_H
#define XSMI_CENTRE_VECTORS_H

#include "base/base.h"

#include <xsoftmax/model.h>

typedef struct xsmi_centre_vectors {
    const xsm_model *input; /* borrowed */
    size_t stride;          /* of the vectors */
    /* Where words are divided. */
    float *mine, *all; /* [most][stride] */
    size_t *sizes;     /* [ranks] bytes */
    size_t most;
} xsmi_centre_vectors;

/* For up to `most` words at a time. Clearing is allowed after a failure. */
xsm_status xsmi_centre_vectors_start(xsmi_centre_vectors *v, const xsm_model *input, uint32_t most, xsm_error *err);
void xsmi_centre_vectors_clear(xsmi_centre_vectors *v);
/* Sets *x to the vectors of `count` words from `first` on, [count][stride], valid until the next call. Where words are
 * divided all ranks call it, and each sends 4 times the stride for each word that it has. */
xsm_status xsmi_centre_vectors_get(xsmi_centre_vectors *v, uint32_t first, uint32_t count, const float **x,
                                   xsm_error *err);

#endif
