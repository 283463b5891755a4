/* xsm_model_grow() of label trees. */
#ifndef XSMI_GROW_TREES_H
#define XSMI_GROW_TREES_H

#include "model/model.h"

/* Makes the trees of a label tree model of float32 with `classes` classes, of which match[k] is class k of the model,
 * and more features. Old nodes keep weights and order. */
xsm_status xsmi_label_trees_grow(const xsm_model *m, uint32_t features, uint32_t classes, const uint32_t *match,
                                 xsm_model **out, xsm_error *err);

#endif
