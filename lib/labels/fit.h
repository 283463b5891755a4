/* The fit of label trees, for other floors. */
#ifndef XSMI_LABELS_FIT_H
#define XSMI_LABELS_FIT_H

#include "base/base.h"

#include <xsoftmax/label_tree.h>

/* xsm_fit_label_tree() in this process alone, whatever its context: each rank of a group gets the same trees. */
xsm_status xsmi_fit_label_tree(xsm_context *context, const xsm_dataset *train, const xsm_label_tree_options *options,
                               xsm_model **out, xsm_label_tree_result *result, xsm_error *err);

#endif
