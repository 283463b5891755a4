/*
 * How a model says, in its metadata, how it was trained: what the command reads when it goes on from one.
 */
#ifndef XSMI_DESCRIBE_H
#define XSMI_DESCRIBE_H

#include "auto/choose.h"

/* A number under "training.NAME". */
xsm_status xsmi_describe_whole(xsm_model *m, const char *name, uint64_t value, xsm_error *err);
xsm_status xsmi_describe_real(xsm_model *m, const char *name, double value, xsm_error *err);
/* That a method trained it which has no estimator; `tree`: the options of a label tree, or NULL. */
xsm_status xsmi_describe_method(xsm_model *m, const char *method, const xsm_label_tree_options *tree, xsm_error *err);
/* Removes what describing writes, of an earlier training. */
xsm_status xsmi_describe_anew(xsm_model *m, xsm_error *err);

#endif
