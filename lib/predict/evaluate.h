/*
 * The internal interface of evaluation, for callers that evaluate repeatedly.
 */
#ifndef XSMI_EVALUATE_H
#define XSMI_EVALUATE_H

#include "model/model.h"

#include <xsoftmax/metrics.h>

/* Memory reused between evaluations: allocating memory costs more than evaluating a few rows. Initialise with zeros,
 * except `rows`. */
typedef struct xsmi_evaluate_room {
    uint64_t rows; /* the expected maximum of rows; more rows need a new allocation */
    unsigned char *scratch;
    size_t capacity;
} xsmi_evaluate_room;

/* xsm_evaluate() with that memory, which belongs to `context`. */
xsm_status xsmi_evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                         const xsm_evaluate_options *options, xsmi_evaluate_room *kept, xsm_metrics *metrics,
                         xsm_error *err);
void xsmi_evaluate_room_free(xsm_context *context, xsmi_evaluate_room *kept);

#endif
