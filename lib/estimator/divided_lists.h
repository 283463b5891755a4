/* Estimators on models whose classes are divided among ranks (model/divided.h). */
#ifndef XSMI_ESTIMATOR_DIVIDED_H
#define XSMI_ESTIMATOR_DIVIDED_H

#include "estimator/pass.h"
#include "model/divided.h"

/* Finds which classes of an example's list this process has: g->work.own, which is reserved. */
void xsmi_divided_find(const xsm_model *m, xsm_gradient *g, uint64_t i);
/* Scores those, with the model's factor alpha: g->work.scores and, with a bias, g->work.linear. Classes of other
 * processes get -INFINITY, and what is NaN INFINITY, so that the largest number of all processes is the score. `next`
 * is scored soon. */
void xsmi_divided_score_own(const xsm_estimator *e, xsm_gradient *g, uint64_t i, double alpha,
                            const xsmi_upcoming *next);
/* Lists (unless they are listed) and scores the examples of a batch, for a reserved gradient: 4 bytes for each entry,
 * and 4 more with a bias. All ranks have the scores. */
xsm_status xsmi_divided_scores(const xsmi_pass *p, bool listed, xsm_error *err);
/* The scores of all classes in place of the coefficients of a reserved gradient that is dense: 4 bytes for each class
 * of this rank. All ranks have them. (divided_exact.c) */
xsm_status xsmi_divided_all_scores(const xsmi_pass *p, xsm_error *err);
/* Whether the batches of an estimator, bound as far as it scores every class, are computed by xsmi_divided_sums(). Its
 * gradients then have the rank's classes alone. */
static inline bool xsmi_divided_has_sums(const xsm_estimator *e, const xsm_model *m)
{
    return xsmi_model_is_divided(m) && e->exact && e->ops.class_sums;
}
/* Such a batch, for a reserved gradient: 4 bytes for a row's largest value and for each label, for each run of this
 * rank's classes 8 for each sum, or 4, and 36 bytes. (divided_exact.c) */
xsm_status xsmi_divided_sums(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err);
/* The gradient of the rows of a batch where every class has a coefficient, once there are such and they are finite: 4
 * bytes for each feature and node of the rank's classes. Does nothing for a pass without the output array.
 * (divided_backward.c) */
xsm_status xsmi_divided_backward(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err);
/* Whether the scores of some examples are finite, and not too large. */
bool xsmi_divided_finite(const xsm_gradient *g, uint64_t first, uint64_t count);

#endif
