/*
 * Common definitions of the double-sum estimators (Fagan and Iyengar, Unbiased scalable softmax optimization, 2018, eq.
 * 5):
 *     f(u,W) = sum_i u_i + e^(-u_i) (1 + sum_{k != y_i} e^(z_k - z_y)),
 * where z are scores (logits); minimised over u_i it is the log-loss. The state has one u_i for each row. Learning
 * rates are on the scale of the mean loss: the paper's N eta is eta here.
 */
#ifndef XSMI_DOUBLE_SUM_H
#define XSMI_DOUBLE_SUM_H

#include "methods/method.h"

enum { XSMI_START_ZERO = 0, XSMI_START_LOG_CLASSES = 1 };
extern const char *const xsmi_double_sum_starts[];

/* The first member of the states of these estimators. */
typedef struct xsmi_double_sum {
    int64_t negatives_option;
    int32_t start; /* XSMI_START_* */
    xsm_context *context;
    double *u; /* [slots] */
    uint64_t examples, slots;
    uint64_t seed;
    double weight; /* (K-1)/m */
    uint32_t classes, negatives;
} xsmi_double_sum;

/* Option table entries for the members above, for a state that begins with them; only the first if u has a single
 * start. */
#define XSMI_DOUBLE_SUM_NEGATIVES                                                                                      \
    XSMI_OPTION_INT_OR(                                                                                                \
        "negatives", xsmi_double_sum, negatives_option, xsmi_negatives_words, "0", 0, XSM_CLASSES_MAX,                 \
        "other classes that a step scores, m, or all of them; 0 = 5, or all the others if there are fewer")
#define XSMI_DOUBLE_SUM_OPTIONS                                                                                        \
    XSMI_DOUBLE_SUM_NEGATIVES,                                                                                         \
        XSMI_OPTION_CHOICE(                                                                                            \
            "start", xsmi_double_sum, start, xsmi_double_sum_starts, "zero",                                           \
            "where u, a row's running log-partition, starts: zero (the authors' code) or log-classes (their paper)")

/* The common members of their tables. */
#define XSMI_DOUBLE_SUM_OPS                                                                                            \
    .unbind = xsmi_double_sum_unbind, .width = xsmi_double_sum_width, .select = xsmi_double_sum_select,                \
    .prefetch = xsmi_double_sum_fetch, .state_tensor = xsmi_double_sum_tensor

xsm_status xsmi_double_sum_bind(xsmi_double_sum *s, const char *name, const xsm_problem *problem, xsm_error *err);
void xsmi_double_sum_unbind(void *state);
void xsmi_double_sum_fetch(const void *state, const xsm_example *example);
uint64_t xsmi_double_sum_width(const void *state);
void xsmi_double_sum_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                            uint32_t *lengths);

/* Describes the single tensor of the state, u, as xsm_estimator_ops::state_tensor(). */
int32_t xsmi_double_sum_tensor(void *state, uint32_t index, xsm_state_tensor *tensor);

/* Computes gradients of sampled terms for a block, and the step of each row's u: c_k = (K-1)/m e^(z_k - z_y - u), g_y =
 * -sum c, u <- u - eta/n (1 - e^-u - sum c), limited to [0, most]. First, if u is more than `delta` below log(1 +
 * sum_{k in S} e^(z_k - z_y)), it is raised to it (INFINITY: never). Overflow gives infinite coefficients and does not
 * change u. */
void xsmi_double_sum_explicit(xsmi_double_sum *s, const xsm_score_block *block, double delta, double most);

/* Sets a row's u to `next`, unless that number is beyond the limit of a step. */
static inline void xsmi_double_sum_move(xsmi_double_sum *s, uint64_t row, double next)
{
    if (next > -XSMI_STEP_LIMIT && next < XSMI_STEP_LIMIT) {
        s->u[row] = next;
    }
}

#endif
