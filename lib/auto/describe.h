/*
 * Metadata on how a model was trained, which the command reads when it trains the model further.
 */
#ifndef XSMI_DESCRIBE_H
#define XSMI_DESCRIBE_H

#include "auto/choose.h"

/* Writes a number under "training.NAME". */
xsm_status xsmi_describe_whole(xsm_model *m, const char *name, uint64_t value, xsm_error *err);
xsm_status xsmi_describe_real(xsm_model *m, const char *name, double value, xsm_error *err);
/* Writes that a method without an estimator has trained the model; `tree` has the options of a label tree, or is
 * NULL. */
xsm_status xsmi_describe_method(xsm_model *m, const char *method, const xsm_label_tree_options *tree, xsm_error *err);
/* Removes the descriptions of an earlier training. */
xsm_status xsmi_describe_anew(xsm_model *m, xsm_error *err);

#endif
