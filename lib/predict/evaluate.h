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

/* xsm_evaluate() with that memory. */
xsm_status xsmi_evaluate(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                         xsmi_evaluate_scratch *kept, xsm_metrics *metrics, xsm_error *err);
/* Evaluates training rows during training, `how` an XSM_EVALUATE_* value, XSM_EVALUATE_NONE excepted. `seconds` are
 * those of training so far; *sample are the rows of the first evaluation, which this sets, and 0 before. */
xsm_status xsmi_evaluate_train(xsm_context *ctx, const xsm_model *model, const xsm_dataset *train, int32_t how,
                               double seconds, uint64_t *sample, xsm_metrics *metrics, xsm_error *err);
/* Refuses what is none of these values. */
xsm_status xsmi_check_evaluate_train(int32_t how, xsm_error *err);
/* Releases the memory. */
void xsmi_evaluate_scratch_free(xsmi_evaluate_scratch *s);

#endif
