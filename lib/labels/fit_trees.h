/* The fit of label trees, for other floors. */
#ifndef XSMI_FIT_TREES_H
#define XSMI_FIT_TREES_H

#include "base/base.h"

#include <xsoftmax/label_tree.h>

/* xsm_fit_label_tree() by this process alone or, if `divided`, by all processes of the context together. After a
 * success they have agreed on it; after a failure the caller calls xsmi_agree_once(). Both ways give the same trees. */
xsm_status xsmi_fit_label_tree(xsm_context *context, const xsm_dataset *train, const xsm_label_tree_options *options,
                               bool divided, xsm_model **out, xsm_label_tree_result *result, xsm_error *err);

#endif
