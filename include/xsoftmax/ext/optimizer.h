/* SPDX-License-Identifier: MIT */
/**
 * @file ext/optimizer.h
 * @brief The table of functions of an optimizer, and a test suite for such tables.
 */
#ifndef XSOFTMAX_EXT_OPTIMIZER_H
#define XSOFTMAX_EXT_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/optimizer.h>

/** @defgroup ext_optimizer Writing an optimizer
 *
 * An optimizer is a constant table with a rule, which changes weights by the sum of their gradients over a batch. A
 * rule may store numbers for each weight, for example a sum of squares: its accumulators (other libraries call them
 * slots or moments). The library computes the gradient sums, allocates the accumulators of the weights, the bias and
 * the vectors of an embedding model, saves them in checkpoints, and calls the rule for pieces of consecutive weights. A
 * table with #XSM_OPTIMIZER_LINEAR has no rule: the library takes its steps.
 *
 * The state has `state_size` bytes. The library allocates it, zeroes it, and writes the options' values to the offsets
 * in the option table.
 *
 * **Weights without a gradient.** The library calls the rule for classes and features of the batch only. So that dense
 * and sparse rows give the same model, the rule must leave a weight and its accumulators alone if its sum is 0; see
 * #XSM_OPTIMIZER_CHANGES_AT_ZERO for rules that do not.
 *
 * **Gradients.** The sum is that of coefficient times feature over the examples of the batch; the coefficients contain
 * 1/n. Gradients with `shrinks`, `decay` or `row_bound` (proximal steps, an L2 penalty, a maximum row norm) and models
 * whose scores (logits) are distances are for tables with #XSM_OPTIMIZER_LINEAR only.
 *
 * **Threads.** rule() and scaled() are called from several threads at once, never at once for the same weight.
 *
 * **Growth.** New members are added at the end only. Members beyond the `size` of a table count as NULL.
 *
 * **Exceptions.** The functions must return; they must not throw.
 *  @{ */

/** Maximum number of accumulators of an optimizer. */
#define XSM_OPTIMIZER_ACCUMULATORS 8

/** Properties of an optimizer. */
enum {
    /** The step is weights - eta sum, eta the learning rate. The library takes it, with proximal steps, an L2 penalty
     *  (ridge) and a maximum row norm; the table has no rule() and no accumulators. */
    XSM_OPTIMIZER_LINEAR = 1,
    /** A sum of 0 changes a weight or its accumulators, too. Which weights of a batch the rule sees then depends on the
     *  form of the rows (dense or sparse) and on the layout of the model, and so does the trained model. */
    XSM_OPTIMIZER_CHANGES_AT_ZERO = 2
};

/** What a rule knows about the step. */
typedef struct xsm_step {
    size_t size;       /**< sizeof(xsm_step). */
    double eta;        /**< Learning rate, above 0. */
    uint64_t number;   /**< Number of the step since xsm_optimizer_bind(), from 1; a resumed run continues the count. */
    uint64_t examples; /**< n, the examples of the batch. `sum` times n is the sum over the examples, not their mean. */
} xsm_step;

/** Gradients factor * values[i], rounded to float, of the weights index[i]. */
typedef struct xsm_scaled_gradient {
    size_t size;           /**< sizeof(xsm_scaled_gradient). */
    const float *values;   /**< [count]. */
    const uint32_t *index; /**< [count] weights, without duplicates; NULL = 0, 1, 2, ... */
    size_t count;          /**< Number of weights. */
    float factor;          /**< Factor of all values. */
    uint32_t reserved;     /**< Zero. */
} xsm_scaled_gradient;

/** The table. Required members are marked; the others may be NULL or zero. */
struct xsm_optimizer_ops {
    size_t size;               /**< Required: sizeof(xsm_optimizer_ops). */
    uint32_t abi;              /**< Required: #XSM_EXT_ABI_VERSION. */
    uint32_t flags;            /**< Sum of #XSM_OPTIMIZER_LINEAR and #XSM_OPTIMIZER_CHANGES_AT_ZERO. */
    const char *name;          /**< Required: lower-case words joined by hyphens. */
    const char *summary;       /**< Required: one line. */
    size_t state_size;         /**< Bytes of state. */
    const xsm_option *options; /**< [option_count] entries, each as long as the first one's `size` says, which in a
                                    table of the library may be more than sizeof(xsm_option): read them by
                                    xsm_optimizer_ops_option(), not by a subscript. */
    size_t option_count;       /**< Options. */

    /** [accumulators] lower-case words joined by hyphens: the names in checkpoints. */
    const char *const *accumulator_names;
    uint32_t accumulators; /**< Numbers stored for each weight, or row, at most #XSM_OPTIMIZER_ACCUMULATORS. */
    /** Sum of 1 << m for each accumulator m whose numbers may be below 0. A checkpoint with other numbers
     *  below 0 is refused. */
    uint32_t signed_accumulators;

    /** Checks the options and prepares the state; NULL = nothing to check or prepare. On failure the library calls
     *  unbind(). */
    xsm_status (*bind)(void *state, xsm_context *context, xsm_error *err);
    /** Releases what bind() allocated. Must also work on a state for which bind() failed or was never called. */
    void (*unbind)(void *state);
    /** Initial value of accumulator number `accumulator`; NULL = 0. Called after bind(). */
    float (*initial)(const void *state, uint32_t accumulator);
    /** Required, except with #XSM_OPTIMIZER_LINEAR or row_rate(): changes `weights` [n] and accumulators[m] [n] by the
     *  gradients `sum` [n]. Each weight must be changed on its own: results may not depend on how the library cuts a
     *  row into pieces. */
    void (*rule)(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                 const xsm_step *step);
    /** The same for the gradient of one example: a faster way to the same bits as rule(). NULL = the library copies
     *  weights and accumulators to consecutive memory and calls rule(). */
    void (*scaled)(const void *state, float *weights, float *const *accumulators, const xsm_scaled_gradient *gradient,
                   const xsm_step *step);
    /** In place of rule() and scaled(), for accumulators that have one number a row: a class's weights, a feature's
     *  vector, or a bias. Changes accumulators[m][0] by the mean of the squares of the row's sums that are not 0, and
     *  returns the row's rate: the library subtracts rate * sum from each weight. */
    float (*row_rate)(const void *state, float *const *accumulators, float mean_square, const xsm_step *step);
};

/** Settings of xsm_optimizer_check(). Start with #XSM_OPTIMIZER_CHECK_OPTIONS_INIT. */
typedef struct xsm_optimizer_check_options {
    size_t size;            /**< sizeof(xsm_optimizer_check_options). */
    uint32_t classes;       /**< K of the largest problem; 0 = 40. */
    uint32_t features;      /**< D of the largest problem; 0 = 300. */
    double eta;             /**< Learning rate; 0 = 0.1. */
    const char *const *set; /**< Options to set, "name=value", ended by NULL; NULL = none. */
} xsm_optimizer_check_options;

/** Starting value of an #xsm_optimizer_check_options. */
#define XSM_OPTIMIZER_CHECK_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(xsm_optimizer_check_options), 0, 0, 0, NULL                                                             \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Table of built-in optimizer number `index`, NULL past the last. Static, with name and summary. */
XSM_API const xsm_optimizer_ops *xsm_optimizer_at(size_t index);
/** Table of a built-in optimizer by name; NULL if there is none. Static. */
XSM_API const xsm_optimizer_ops *xsm_optimizer_find(const char *name);
/** Option number `index` of an optimizer; NULL past the last. */
XSM_API const xsm_option *xsm_optimizer_ops_option(const xsm_optimizer_ops *ops, size_t index);
/** As xsm_optimizer_new(), from a table of the library or the host. The table must outlive the optimizer.
 *  @return as xsm_optimizer_new(), and #XSM_ERROR_ARGUMENT for a table that lacks a required entry,
 *          #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW for a `size`, #XSM_ERROR_ABI for another ABI number */
XSM_API xsm_status xsm_optimizer_new_from(xsm_context *context, const xsm_optimizer_ops *ops, xsm_optimizer **out,
                                          xsm_error *err);

/** Tests a table. Checks that it is complete and its options can be set; that accumulators start at finite numbers
 *  and stay finite; that rule() changes only the weights and accumulators that it is given, leaves those with a sum
 *  of 0 alone (without #XSM_OPTIMIZER_CHANGES_AT_ZERO), and gives the same bits however a row is cut; that scaled()
 *  gives the same bits as rule(); that steps on a model have the same bits for dense and sparse rows, for both
 *  layouts of the model and for every number of threads, of linear and embedding models, and one by one in a
 *  trainer's windows; that weights stay finite; that a run whose accumulators were saved and restored continues
 *  with the same bits; and that every allocation of the context may fail.
 *  @param context context, or NULL
 *  @param ops     the table
 *  @param options settings, or NULL
 *  @param err     what the table does wrong, and where
 *  @return #XSM_OK; #XSM_ERROR_DATA if the table is wrong; the errors of the functions of optimizer.h */
XSM_API xsm_status xsm_optimizer_check(xsm_context *context, const xsm_optimizer_ops *ops,
                                       const xsm_optimizer_check_options *options, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
