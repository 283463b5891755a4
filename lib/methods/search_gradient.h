/*
 * Search-based gradients (Yen, Kale, Yu, Holtmann-Rice, Kumar and Ravikumar, Loss Decomposition for Fast Learning in
 * Large Output Spaces, 2018): the loss of the scores (logits) that were found (Algorithm 1), and greedy message passing
 * between the blocks of coordinates (Algorithm 2). The estimators are tables that use these functions.
 *
 * With v_j = B(z_j + lambda_j), the j-th block's estimate of all scores, the step to lambda*_j = z/B - z_j is v_jk <-
 * v_jk + eta (z_k - v_jk), and z_k remains the mean of the v_jk: messages need no memory of their own. By Theorem 1 the
 * mean of L(v_j) is above L(z) and decreases towards it.
 */
#ifndef XSMI_SEARCH_GRADIENT_H
#define XSMI_SEARCH_GRADIENT_H

#include "methods/method.h"
#include "loss/loss.h"

/* How an absent class counts: the option's values. */
enum { XSMI_MISSING_AUTO = 0, XSMI_MISSING_ZERO = 1, XSMI_MISSING_DROP = 2 };
/* Which scores of the classes in A are known: all, or those that the indexes listed. */
enum { XSMI_COMPLETE_EXACT = 0, XSMI_COMPLETE_FOUND = 1 };

typedef struct xsmi_search_options {
    int32_t loss; /* index in xsmi_losses */
    int32_t missing;
    double mu, least, error;
    int64_t candidates, most, startup;
} xsmi_search_options;

typedef struct xsmi_search {
    const xsmi_kernels *kernels;
    const xsmi_loss *loss;
    uint64_t seed;
    double mu, least;
    double threshold; /* tau_2 */
    double error;     /* above 0: lists grow until the sum over all other classes is at most this share of the sum over
                         their classes */
    uint32_t classes, blocks, rounds, candidates;
    uint32_t longest; /* of the lists: Q, or with `error` the limit */
    uint32_t most_labels;
    bool missing_zero, found_only;
} xsmi_search;

/* The options that both estimators have, for a state with these options in its member `member`. */
#define XSMI_SEARCH_OPTIONS(type, member)                                                                              \
    XSMI_OPTION_CHOICE("loss", type, member.loss, xsmi_loss_names, "margin", "loss of the scores that are found"),     \
        XSMI_OPTION_DOUBLE("mu", type, member.mu, "1", 1e-6, 1e6,                                                      \
                           "width of the margin's smoothing: 1 for one label a row, 5 for several (the paper's)"),     \
        XSMI_OPTION_INT("candidates", type, member.candidates, "0", 0, XSM_CLASSES_MAX,                                \
                        "Q, classes that are searched for in each block; 0 = K/100, but 100 at least"),                \
        XSMI_OPTION_CHOICE("missing", type, member.missing, xsmi_missing_names, "auto",                                \
                           "classes that are not found: have the score zero (the paper's), or drop out; auto = zero "  \
                           "for cross-entropy, where they make up most of the sum, else drop"),                        \
        XSMI_OPTION_INT_OR("startup", type, member.startup, xsmi_startup_words, "auto", 0, 9e15,                       \
                           "examples that see Q classes drawn at random before the search begins; auto = one pass "    \
                           "where all weights are zero, else none"),                                                   \
        XSMI_OPTION_DOUBLE("least", type, member.least, "0", 0, 1,                                                     \
                           "coefficients up to that size are left out, those of labels never"),                        \
        XSMI_OPTION_DOUBLE("error", type, member.error, "0", 0, 1,                                                     \
                           "adaptive retrieval for cross-entropy and nca: in place of Q classes, lists take classes "  \
                           "in falling order of score until the sum Z of all e^z is known up to that part of it; 0 = " \
                           "Q classes"),                                                                               \
        XSMI_OPTION_INT("most", type, member.most, "0", 0, XSM_CLASSES_MAX,                                            \
                        "with error: classes in a list at most, even where the error is larger then; 0 = all")

extern const char *const xsmi_missing_names[], *const xsmi_startup_words[];

/* Adaptive retrieval (section 4 of the paper): with `error`, a block's list holds its best classes up to one of the
 * score s, such that the other classes, r in number, have r e^s <= error Z, where Z is the sum over the list and the
 * classes whose scores are known besides. Z is then too small by a factor of at most 1 + error, if lists are in falling
 * order. */

/* Fills a search of one block and no rounds; the caller may then change it and must check it afterwards. `estimator` is
 * the estimator's name for error messages. */
xsm_status xsmi_search_bind(xsmi_search *s, const xsmi_search_options *o, const xsm_problem *problem,
                            const char *estimator, xsm_error *err);
/* Refuses a search whose lists are too large to address. */
xsm_status xsmi_search_check(const xsmi_search *s, const char *estimator, xsm_error *err);
void xsmi_search_plan(const xsmi_search *s, const xsmi_search_options *o, xsm_search_plan *plan);

/* Table functions for states that begin with an xsmi_search. */
uint64_t xsmi_search_width(const void *state);
void xsmi_search_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                        uint32_t *lengths);
size_t xsmi_search_scratch(const void *state);
void xsmi_search_gradient(void *state, const xsm_score_block *block);
void xsmi_search_found(void *state, const xsm_search_block *block);

/* The common members of both tables. */
#define XSMI_SEARCH_OPS                                                                                                \
    .kind = XSM_ESTIMATOR_SEARCHED, .flags = XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_OTHER_LOSS,                     \
    .width = xsmi_search_width, .select = xsmi_search_select, .scratch = xsmi_search_scratch,                          \
    .gradient = xsmi_search_gradient, .search = xsmi_search_found

#endif
