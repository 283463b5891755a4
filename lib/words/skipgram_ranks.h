/*
 * Skip-gram steps whose words are divided among ranks. Each rank has the vectors of its words, and all draw the same
 * steps. Every rank gets copies of the vectors that a batch reads; each computes a share of the steps; and every rank
 * gets what all have computed, to change the vectors of its words. A change of an input vector is a sum over the slots
 * of its step in their order, computed as in one process, so that the bits are the same. Steps that are applied one by
 * one are computed by every rank on its copies, of which it keeps those of its words.
 *
 * A batch sends, in bytes of a rank: 4 times the stride for each vector of its words, once, as output vector and as
 * input vector; 4 for each slot of its share of the steps, and 4 D + 8 for each of these steps; 12 to agree on what is
 * read, and 8 to agree that all is well. Of steps one by one it sends the vectors and the first 12.
 */
#ifndef XSMI_SKIPGRAM_RANKS_H
#define XSMI_SKIPGRAM_RANKS_H

#include "words/skipgram.h"

typedef struct xsmi_skipgram_ranks xsmi_skipgram_ranks;

/* The slots of a batch: those of step s begin at starts[s] * pair_width. */
typedef struct xsmi_word_slots {
    const xsmi_drawn *drawn; /* its centres NULL: output vectors alone */
    const uint32_t *words;
    const uint32_t *lengths; /* [steps] slots in use */
    float *amounts;          /* what the steps of this rank's share add, then those of all */
    uint32_t pair_width;
} xsmi_word_slots;

/* The same for input vectors and losses. */
typedef struct xsmi_word_changes {
    float *changes; /* [steps][stride] */
    size_t stride;
    double *losses; /* [steps] */
} xsmi_word_changes;

/* Copied vectors: rows of xsmi_row_stride(D) numbers. */
typedef struct xsmi_word_copies {
    float *vectors;
    const uint32_t *of_slots;   /* [slots] of those in use, the row with the slot's output vector */
    const uint32_t *of_centres; /* [steps] the row with the centre's input vector; NULL without centres */
} xsmi_word_copies;

/* Both models are divided; they are borrowed. */
xsm_status xsmi_skipgram_ranks_new(const xsmi_word_task *task, xsmi_skipgram_ranks **out, xsm_error *err);
void xsmi_skipgram_ranks_free(xsmi_skipgram_ranks *r);
/* Copies the vectors that a batch reads, if `status` is XSM_OK on all ranks. */
xsm_status xsmi_skipgram_ranks_gather(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots, xsm_status status,
                                      xsm_error *err);
/* Valid until the next call of xsmi_skipgram_ranks_gather(). */
const xsmi_word_copies *xsmi_skipgram_ranks_copies(const xsmi_skipgram_ranks *r);
/* Stores this rank's vectors as they are now among the copies, which all ranks have changed alike. */
void xsmi_skipgram_ranks_keep(xsmi_skipgram_ranks *r);
/* This rank's share of so many steps. */
void xsmi_skipgram_ranks_share(const xsmi_skipgram_ranks *r, uint32_t steps, uint32_t *first, uint32_t *end);
/* Fills in what the other ranks have computed, if `status` is XSM_OK on all ranks. */
xsm_status xsmi_skipgram_ranks_exchange(xsmi_skipgram_ranks *r, const xsmi_word_slots *slots,
                                        const xsmi_word_changes *changes, xsm_status status, xsm_error *err);

#endif
