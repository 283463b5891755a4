/* Estimators on models whose classes are divided among processes (model/divided.h). */
#ifndef XSMI_DIVIDED_LISTS_H
#define XSMI_DIVIDED_LISTS_H

#include "estimator/pass.h"
#include "model/divided.h"

/* Finds which classes of an example's list this process has, and stores them in g->work.own, which is reserved. */
void xsmi_divided_find(const xsm_model *m, xsm_gradient *g, uint64_t i);
/* Scores these classes with the model's factor alpha, into g->work.scores and, with a bias, g->work.linear. Classes of
 * other processes get -INFINITY, and scores that are NaN get INFINITY, so that the largest number of all processes is
 * the score. `next` is what will be scored next, for prefetching. */
void xsmi_divided_score_own(const xsm_estimator *e, xsm_gradient *g, uint64_t i, double alpha,
                            const xsmi_upcoming *next);
/* Lists the examples of a batch, unless `listed` says that they are, and scores them, for a reserved gradient. Every
 * process gets all scores. A process sends 4 bytes for each entry, and 4 more with a bias. */
xsm_status xsmi_divided_scores(const xsmi_pass *p, bool listed, xsm_error *err);
/* Writes the scores of all classes in place of the coefficients of a reserved, dense gradient, on every process. A
 * process sends 4 bytes for each example and class of its own. */
xsm_status xsmi_divided_all_scores(const xsmi_pass *p, xsm_error *err);
/* Whether xsmi_divided_sums() computes the batches of an estimator whose binding has set `exact`. Its gradients then
 * have only the process's classes. */
static inline bool xsmi_divided_has_sums(const xsm_estimator *e)
{
    return e->divided && e->exact && e->ops.class_sums;
}
/* Computes the gradient of such a batch, which is reserved. A process sends 4 bytes for each label and each largest
 * value, of a row or, with a relative sum, of each run of its classes, 8 or 4 for each sum of such a run, and 52. */
xsm_status xsmi_divided_sums(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err);
/* Computes the gradient of the rows of a batch where every class has a coefficient, once the coefficients are there and
 * finite. A process sends 4 bytes for each example, feature and node of its classes. Does nothing for a pass without
 * the output array. */
xsm_status xsmi_divided_backward(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err);
/* Whether the scores of some examples are finite, and not too large. */
bool xsmi_divided_finite(const xsm_gradient *g, uint64_t first, uint64_t count);

#endif
