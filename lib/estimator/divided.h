/* Estimators on models whose classes are divided among ranks (model/divided.h). */
#ifndef XSMI_ESTIMATOR_DIVIDED_H
#define XSMI_ESTIMATOR_DIVIDED_H

#include "estimator/pass.h"
#include "model/divided.h"

/* Refuses an estimator, bound but for its search, that a divided model is not for. */
xsm_status xsmi_divided_check(const xsm_estimator *e, const xsm_model *m, xsm_error *err);
/* Lists and scores the examples of a batch, for a reserved gradient: 4 bytes for each entry, and 4 more with a bias.
 * All ranks have the scores. */
xsm_status xsmi_divided_scores(const xsmi_pass *p, xsm_error *err);
/* Whether the scores of some examples are finite, and not too large. */
bool xsmi_divided_finite(const xsm_gradient *g, uint64_t first, uint64_t count);

#endif
