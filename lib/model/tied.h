/*
 * Tied vectors of a divided model. Each rank has those of its classes. Those of the features of the rows at hand come
 * from the ranks that have them, by an exchange in which all take part, before hidden vectors are computed.
 */
#ifndef XSMI_TIED_H
#define XSMI_TIED_H

#include "base/base.h"
#include "kernels/kernels.h"

typedef struct xsmi_tied {
    uint32_t *place;  /* [F] of a feature that was fetched: the number of its vector */
    uint32_t *listed; /* [count] the features that were fetched, each once, in the order of the rows */
    size_t count, listed_capacity;
    xsmi_narrow vectors; /* theirs, of the type of the weights, rank after rank: in `lines` */
    /* A line is a vector and, in its last 8 bytes, the vector's scale: those of all ranks, and those that this rank
     * sends. */
    unsigned char *lines, *mine;
    size_t line; /* bytes, a multiple of 8 */
    size_t lines_capacity, mine_capacity;
    size_t *next;  /* [ranks + 1] the first line of each rank, then the next */
    size_t *sizes; /* [ranks] bytes that each sends */
} xsmi_tied;

/* What the vector of that number is multiplied by. */
static inline double xsmi_tied_scale(const xsmi_tied *t, size_t number)
{
    return *(const double *)(const void *)(t->lines + (number + 1) * t->line - sizeof(double));
}

/* Releases it; NULL is allowed. */
void xsmi_tied_free(xsm_context *ctx, xsmi_tied *t, uint32_t features);

#endif
