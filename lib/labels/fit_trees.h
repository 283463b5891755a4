/* The fit of label trees, for other floors. */
#ifndef XSMI_LABELS_FIT_H
#define XSMI_LABELS_FIT_H

#include "base/base.h"

#include <xsoftmax/label_tree.h>

/* xsm_fit_label_tree() by this process alone or, `divided`, by all ranks of the context together, which have agreed
 * when it succeeds, and the caller makes agree where it fails: xsmi_agree_once(). Each rank gets the same trees both
 * ways. */
xsm_status xsmi_fit_label_tree(xsm_context *context, const xsm_dataset *train, const xsm_label_tree_options *options,
                               bool divided, xsm_model **out, xsm_label_tree_result *result, xsm_error *err);

#endif
