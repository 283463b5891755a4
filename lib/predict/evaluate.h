/*
 * The internal interface of evaluation, for callers that evaluate repeatedly.
 */
#ifndef XSMI_EVALUATE_H
#define XSMI_EVALUATE_H

#include "model/score.h"

#include <xsoftmax/metrics.h>

/* Metrics with all arrays, in memory of their own; xsmi_metrics_free() also accepts zeros. */
xsm_status xsmi_metrics_new(xsm_context *ctx, uint32_t top, xsm_metrics *m, xsm_error *err);
void xsmi_metrics_free(xsm_context *ctx, xsm_metrics *m);

/* Memory reused between evaluations: allocating memory costs more than evaluating a few rows. Initialise with zeros,
 * except `context` and `rows`. */
typedef struct xsmi_evaluate_scratch {
    xsm_context *context; /* whose memory and threads are used; borrowed */
    uint64_t rows;        /* the expected maximum of rows; more rows need a new allocation */
    unsigned char *memory;
    size_t capacity;
} xsmi_evaluate_scratch;

/* The measures of one row. */
typedef struct xsmi_row_outcome {
    double log_loss; /* over its known labels; 0 without any */
    double first;    /* precision@1: 1 if the best class is one of its labels, else 0 */
    /* at k = xsm_metrics.top; 0 if no measure of rankings is wanted */
    double precision, ndcg, hits, reciprocal_rank;
} xsmi_row_outcome;

/* xsm_evaluate() with that memory. `each`, [rows], gets the measures of each row, all of which must have a label; NULL:
 * not wanted. */
xsm_status xsmi_evaluate(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                         xsmi_evaluate_scratch *kept, xsmi_row_outcome *each, xsm_metrics *metrics, xsm_error *err);
/* Evaluates training rows during training. `how` is an XSM_EVALUATE_* value other than XSM_EVALUATE_NONE. `seconds` is
 * the time of training so far. *sample is 0 before the first evaluation, which sets it to the number of rows to
 * evaluate. */
xsm_status xsmi_evaluate_train(xsm_context *ctx, const xsm_model *model, const xsm_dataset *train, int32_t how,
                               double seconds, uint64_t *sample, xsm_metrics *metrics, xsm_error *err);
/* Refuses a value that is not an XSM_EVALUATE_* value. */
xsm_status xsmi_check_evaluate_train(int32_t how, xsm_error *err);
/* Releases the memory. */
void xsmi_evaluate_scratch_free(xsmi_evaluate_scratch *s);

#endif
