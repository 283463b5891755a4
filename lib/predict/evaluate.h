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

/* What a row says of a model. */
typedef struct xsmi_row_outcome {
    double log_loss; /* of its known labels; 0 without any */
    double first;    /* whether the best class is one of its labels: precision@1 */
    /* @xsm_metrics.top; 0 where no measure of a ranking is wanted */
    double precision, ndcg, hits, reciprocal_rank;
} xsmi_row_outcome;

/* xsm_evaluate() with that memory. `each`, [rows], gets the outcomes of the rows, which all have a label; NULL: they
 * are not wanted. */
xsm_status xsmi_evaluate(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                         xsmi_evaluate_scratch *kept, xsmi_row_outcome *each, xsm_metrics *metrics, xsm_error *err);
/* Evaluates training rows during training, `how` an XSM_EVALUATE_* value, XSM_EVALUATE_NONE excepted. `seconds` are
 * those of training so far; *sample are the rows of the first evaluation, which this sets, and 0 before. */
xsm_status xsmi_evaluate_train(xsm_context *ctx, const xsm_model *model, const xsm_dataset *train, int32_t how,
                               double seconds, uint64_t *sample, xsm_metrics *metrics, xsm_error *err);
/* Refuses what is none of these values. */
xsm_status xsmi_check_evaluate_train(int32_t how, xsm_error *err);
/* Releases the memory. */
void xsmi_evaluate_scratch_free(xsmi_evaluate_scratch *s);

#endif
