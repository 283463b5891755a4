/*
 * Inside of trainers, for what makes runs of its own.
 */
#ifndef XSMI_TRAINER_H
#define XSMI_TRAINER_H

#include "estimator/estimator.h"

#include <xsoftmax/trainer.h>

/* Options with their defaults, checked against the estimator; `given` may be NULL. */
xsm_status xsmi_trainer_read_options(const xsm_trainer_options *given, const xsm_estimator *e, xsm_trainer_options *o,
                                     xsm_error *err);
/* Has the schedule count each pass as `stretch` passes, so that a run of few epochs sees the schedule of a long one. */
void xsmi_trainer_stretch(xsm_trainer *t, double stretch);
/* Has the trainer mark (model.h) the weights that its steps may change; false, and it does not, where it takes batches.
 * `marks` is borrowed. */
bool xsmi_trainer_mark(xsm_trainer *t, uint64_t *marks);

#endif
