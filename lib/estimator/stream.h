/*
 * Rows of a stream: each batch brings features and labels, and they never form a dataset. State by row is stored by the
 * host's ids; a row without an id gets a slot that is reset for each batch.
 *
 * The estimator is bound to a dataset without rows, which only knows the classes.
 */
#ifndef XSMI_STREAM_H
#define XSMI_STREAM_H

#include "estimator/estimator.h"

struct xsmi_stream_rows {
    xsm_context *context;
    xsm_dataset *rows; /* a dataset without rows, for the classes */
    uint64_t ids, batch, labels;
    unsigned char *fresh; /* [fresh_size] a line of each tensor by row in the state after bind(), one after another */
    size_t fresh_size;
};

/* Stores a line, in its initial state, of each tensor that has one for each row. */
xsm_status xsmi_stream_keep_fresh(const xsm_estimator *e, xsmi_stream_rows *s, xsm_error *err);
/* xsmi_stream_bytes() returns the bytes of the lines of the first `ids` rows of all tensors; xsmi_stream_carry() copies
 * them to memory or, with `back`, from there. */
size_t xsmi_stream_bytes(const xsm_estimator *e, uint64_t ids);
void xsmi_stream_carry(const xsm_estimator *e, uint64_t ids, unsigned char *memory, bool back);
/* Checks a stream's batch except its features, and resets the state of rows without an id. */
xsm_status xsmi_stream_read_batch(const xsm_estimator *e, const xsm_batch *batch, xsm_error *err);
/* Whether a row occurs twice; yes if there is no memory for the test. */
bool xsmi_stream_repeats(const xsm_estimator *e, const xsm_batch *batch);

#endif
