/*
 * Counts how often words occur in each other's windows, in bounded memory: for as many centres at once as fit, in as
 * many passes over the text as needed.
 */
#ifndef XSMI_COOCCURRENCE_H
#define XSMI_COOCCURRENCE_H

#include "words/skipgram.h"

#include "base/held.h"

typedef struct xsmi_cooccurrence {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    xsmi_centres text;
    uint32_t words;
    /* Open addressing; a key is centre << 32 | context, counts of 0 are free slots. */
    uint64_t *keys;
    uint32_t *counts;
    size_t slots, used;
    bool overflow; /* of a count */
    /* The centres first..end, as rows: contexts rising. */
    uint32_t first, end;
    uint64_t *offsets;  /* [words+1], of which end-first+1 are in use */
    uint32_t *contexts; /* [capacity] */
    uint32_t *numbers;  /* [capacity] */
    size_t capacity;
} xsmi_cooccurrence;

/* Reserves `memory` bytes at most, or what a centre needs, for the table and rows. Clear it also after a failure. */
xsm_status xsmi_cooccurrence_start(xsmi_cooccurrence *c, xsm_context *ctx, const xsm_corpus *corpus,
                                   const xsmi_text_settings *settings, uint64_t memory, xsm_error *err);
void xsmi_cooccurrence_clear(xsmi_cooccurrence *c);
/* Counts the centres from `first` on, up to c->end; the draws from the text are the same in every pass. Does nothing if
 * these centres are counted already. */
xsm_status xsmi_cooccurrence_count(xsmi_cooccurrence *c, uint32_t first, xsm_error *err);

#endif
