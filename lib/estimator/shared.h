/*
 * Draws that all examples of a minibatch share.
 *
 * One set S of classes is drawn for the batch. An example's list is its labels and the classes of S that are not
 * labels. The numbers of each list have the same meaning as for separate draws, so tables of estimators need no change.
 * For dense rows (mostly hidden vectors), the scores (logits) of S, the gradient of the rows and the gradient of the
 * weights are products of matrices. These cost a fraction of reading as many rows of weights from memory one by one.
 */
#ifndef XSMI_SHARED_H
#define XSMI_SHARED_H

#include "estimator/pass.h"

/* Examples of one job: the lanes of a product. */
#define XSMI_SHARED_ROWS XSMI_LANES

/* Refuses a sampler whose draws depend on the row. */
xsm_status xsmi_shared_check(const xsm_estimator *e, xsm_error *err);
/* Sets *shared to whether the examples of a batch share draws (a single one does not); if so, reserves memory for
 * them. */
xsm_status xsmi_shared_reserve(const xsmi_pass *p, bool *shared, xsm_error *err);
/* Draws for a batch; `pass` is a const xsmi_pass *. */
void xsmi_shared_draw(void *pass);
/* Whether scores and gradient of these draws are products of matrices: the form of the gradient is then
 * XSMI_GRADIENT_SHARED. Called once the gradient has its rows, or earlier if they are hidden vectors. */
bool xsmi_shared_is_product(const xsmi_pass *p);
/* Fills the lists of the examples first..first+count. */
void xsmi_shared_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count);
/* Returns the number of slots for labels before the first of these classes. */
static inline size_t xsmi_shared_front(const xsm_estimator *e)
{
    return (size_t)((e->most_labels + XSMI_LINE - 1) / XSMI_LINE * XSMI_LINE);
}
/* Returns the first column from `from` on that is a label of the example, or |S|. The classes between two such columns
 * are in the example's list. Labels are in rising order, but their columns need not be; there are few. */
uint32_t xsmi_shared_next_label(const xsmi_shared_classes *s, const xsm_example *example, uint32_t from);

/* -- products of matrices, for gradients of that form -------------------------------------------------------------- */

/* Reserves the memory of these products. On a divided model this is called before the weights are gathered. */
xsm_status xsmi_shared_reserve_product(const xsmi_pass *p, xsm_error *err);
/* Reserves that memory, fills the examples of the batch, and scores S for all of them. */
xsm_status xsmi_shared_score(const xsmi_pass *p, xsm_error *err);
/* Computes the coefficients of some examples, in the matrix. Copies those of labels, or with p->lists all, to the
 * gradient. */
void xsmi_shared_coefficients(const xsmi_pass *p, const xsmi_piece *piece, xsmi_outcome *outcome);
/* As xsmi_pass_backward(), for at most XSMI_SHARED_ROWS examples. */
bool xsmi_shared_backward(const xsmi_pass *p, const xsmi_piece *piece);

#endif
