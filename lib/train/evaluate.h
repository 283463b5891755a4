/*
 * Inside of evaluation, for what evaluates again and again.
 */
#ifndef XSMI_EVALUATE_H
#define XSMI_EVALUATE_H

#include "model/model.h"

#include <xsoftmax/metrics.h>

/* Memory that is kept from one evaluation to the next: new memory costs more than evaluating a few rows. Zeros to start
 * with, but for `rows`. */
typedef struct xsmi_evaluate_room {
    uint64_t rows; /* so many, or fewer, will be evaluated at most; more take memory once more */
    unsigned char *scratch;
    size_t capacity;
} xsmi_evaluate_room;

/* xsm_evaluate() in that room, whose memory is of `context`. */
xsm_status xsmi_evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                         const xsm_evaluate_options *options, xsmi_evaluate_room *kept, xsm_metrics *metrics,
                         xsm_error *err);
void xsmi_evaluate_room_free(xsm_context *context, xsmi_evaluate_room *kept);

#endif
