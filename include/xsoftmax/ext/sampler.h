/* SPDX-License-Identifier: MIT */
/**
 * @file ext/sampler.h
 * @brief The table of functions of a sampler, and a test suite for such tables.
 */
#ifndef XSOFTMAX_EXT_SAMPLER_H
#define XSOFTMAX_EXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dtype.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/sampler.h>

/** @defgroup ext_sampler Writing a sampler
 *
 * A sampler is a constant table of functions over a state of `state_size` bytes. The library allocates the state,
 * zeroes it, writes the options' values to the offsets in the option table, and calls bind() with the training rows. A
 * distribution that depends on the features of a row gets them as a **code**: a short array of floats that encode()
 * computes once for each row and that the other functions use. The library stores the codes of the training rows.
 *
 * **Threads.** After bind(), all functions are called from several threads at once while the state is constant.
 * follow() is called by one thread, while no other function of the same state runs.
 *
 * **Growth.** New members are added at the end only. Members beyond the `size` of a table count as NULL.
 * Members that say *experimental* keep place and form, but a later minor release may treat them as NULL.
 *
 * **Exceptions.** The functions must return; they must not throw.
 *  @{ */

/** Properties of a sampler. */
enum {
    /** The distribution depends on the row, and is a balanced binary tree over the classes whose inner nodes are
     *  logistics of linear components of the features. save() writes it as the arrays below, so that a trained model
     *  can have it as its correction (xsm_model_info::correction), save it, and search it. Needs code_length(),
     *  encode(), save() and load().
     *
     *  | array             | numbers                | meaning                                                        |
     *  |-------------------|------------------------|----------------------------------------------------------------|
     *  | `tree_mean`       | F32 [D]                | mean of the rows                                               |
     *  | `tree_directions` | F32 [D, C]             | C <= D directions; component c is sum_j (x_j - mean_j) v_jc    |
     *  | `tree_nodes`      | F32 [L, M]             | node i: C weights, a bias, zeros; M is C + 1 rounded up to 4   |
     *  | `tree_leaves`     | U32 [K]                | the leaf of each class, below L; each its own                  |
     *
     *  L is the smallest power of two that is at least K. Row 0 of the nodes is unused, row 1 the root; below row i are
     *  rows 2i (left) and 2i + 1 (right), and row L + l stands for leaf l. A node turns right with probability
     *  sigma(weights.components + bias). A node with leaves of no class on one side has weights 0 and bias 10000 or
     *  -10000, by which it turns to the other side. Every node has a class below it. */
    XSM_SAMPLER_TREE = 1
};

/** Largest number of rows in a call of log_probabilities_rows() or draw_rows(), and the distance of two classes in the
 *  array that the first fills. */
#define XSM_SAMPLER_ROWS 32

/** A random stream, positioned by the library; opaque. */
typedef struct xsm_random xsm_random;

/** The data that a sampler is bound to. */
typedef struct xsm_sampler_problem {
    size_t size;                  /**< sizeof(xsm_sampler_problem). */
    xsm_context *context;         /**< For xsm_context_allocate(). */
    const xsm_dataset *train;     /**< The rows; valid during the call only. */
    uint64_t examples;            /**< N. */
    uint32_t classes;             /**< K. */
    uint32_t features;            /**< D; for a table with follow() of what the classes' weights multiply: with a first
                                       layer, of hidden vectors. */
    const uint64_t *class_counts; /**< [K] number of rows with each class. */
    uint64_t seed;                /**< Seed for random choices of bind(). */
} xsm_sampler_problem;

/** What a sampler that follows the training is told of a batch; valid during the call only. */
typedef struct xsm_sampler_step {
    size_t size;            /**< sizeof(xsm_sampler_step). */
    const uint32_t *labels; /**< [label_count] the labels of the batch's examples, one example after another. */
    uint64_t label_count;   /**< Labels. */
    uint64_t examples;      /**< Examples before the batch, since the estimator was bound. */
    /** The K classes' rows of D + 1 weights, the last one the bias (0 without), or -||w||^2/2 where scores are
     *  distances; D is xsm_sampler_problem::features. */
    const xsm_index_source *weights;
} xsm_sampler_step;

/** An array of a saved state. Start with #XSM_ARRAY_INIT. */
typedef struct xsm_array {
    size_t size;       /**< sizeof(xsm_array). */
    const char *name;  /**< Its name in the file; UTF-8, not empty. */
    int32_t type;      /**< An XSM_DTYPE_* value, not one that is reserved for weights. */
    uint32_t rank;     /**< Number of dimensions, 1 to 4. */
    uint64_t shape[4]; /**< Size of each dimension; the last varies fastest. Zeros beyond `rank`. */
    const void *data;  /**< The numbers, without padding. */
} xsm_array;

/** Starting value of an #xsm_array. */
#define XSM_ARRAY_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_array), NULL, 0, 0, {0, 0, 0, 0}, NULL                                                              \
    }

/** Receives the arrays of a state that is saved; opaque. */
typedef struct xsm_array_writer xsm_array_writer;
/** Provides the arrays of a saved state; opaque. */
typedef struct xsm_array_reader xsm_array_reader;

/** The table. Required members are marked; the others may be NULL or zero. */
struct xsm_sampler_ops {
    size_t size;               /**< Required: sizeof(xsm_sampler_ops). */
    uint32_t abi;              /**< Required: #XSM_EXT_ABI_VERSION. */
    uint32_t flags;            /**< Zero, or #XSM_SAMPLER_TREE. */
    const char *name;          /**< Required: lower-case words joined by hyphens. */
    const char *summary;       /**< Required: one line. */
    size_t state_size;         /**< Bytes of state. */
    const xsm_option *options; /**< [option_count] entries, each as long as the first one's `size` says, which in a
                                    table of the library may be more than sizeof(xsm_option): read them by
                                    xsm_sampler_ops_option(), not by a subscript. */
    size_t option_count;       /**< Options. */

    /** Required. Computes the distribution. On failure the library calls unbind(). `problem` is valid during the call
     *  only. */
    xsm_status (*bind)(void *state, const xsm_sampler_problem *problem, xsm_error *err);
    /** Releases what bind() allocated. Must also work on a state for which bind() failed or was never called. */
    void (*unbind)(void *state);
    /** Number of floats in a row's code. NULL = 0: the distribution does not depend on the row. */
    uint32_t (*code_length)(const void *state);
    /** Required with code_length(): computes the code of a row. */
    void (*encode)(const void *state, const xsm_row *row, float *code);
    /** Required: draws `count` classes independently, and returns the log-probability of each. */
    void (*draw)(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities);
    /** Draws `count` distinct classes that are not among the `excluded_count` distinct classes in `excluded` (both
     *  together at most K), such that every class that is not excluded is drawn with the same probability, known in
     *  advance. Returns the logarithm of this probability. For estimators that compute the scores (logits) of
     *  classes other than the labels; without this function they draw with replacement and leave out the labels. NULL
     *  if the distribution does not allow this. */
    double (*draw_others)(const void *state, const float *code, xsm_random *random, const uint32_t *excluded,
                          uint32_t excluded_count, uint32_t count, uint32_t *classes);
    /** Required: log q(k|x); minus infinity for a class that is never drawn. */
    double (*log_probability)(const void *state, const float *code, uint32_t class_number);
    /** log q(k|x) of the classes [first, first+count). NULL = log_probability() for each. */
    void (*log_probabilities)(const void *state, const float *code, uint32_t first, uint32_t count,
                              float *log_probabilities);
    /** Experimental: log q(k|x) of all K classes for up to #XSM_SAMPLER_ROWS rows at once: that of row i and class k is
     *  log_probabilities[k*XSM_SAMPLER_ROWS + i]; entries beyond the rows may have any value. `scratch` is aligned to
     *  64 bytes and has the size that rows_scratch() returned. NULL = log_probabilities() for each row. */
    void (*log_probabilities_rows)(const void *state, const float *const *codes, uint32_t rows,
                                   float *log_probabilities, void *scratch);
    /** Experimental: bytes of scratch memory that log_probabilities_rows() needs. NULL = 0. */
    size_t (*rows_scratch)(const void *state);
    /** save() and load() are used by xsm_sampler_save() and xsm_sampler_load(); a table has both or none. save() writes
     *  the arrays of a bound state with xsm_array_write(). The library saves the options. */
    xsm_status (*save)(const void *state, xsm_array_writer *writer, xsm_error *err);
    /** Used instead of bind(): makes the same distribution from the arrays, which it reads with xsm_array_read(). It
     *  must check the arrays and return #XSM_ERROR_FORMAT if they are invalid. `problem` has no rows: `train` and
     *  `class_counts` are NULL and `examples` is 0. On failure the library calls unbind(). */
    xsm_status (*load)(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err);
    /** Experimental: as draw(), for up to #XSM_SAMPLER_ROWS rows at once: draws `count` classes of row i with
     *  random[i], and writes them to classes[i] and log_probabilities[i]. Results must be bit-identical to those of
     *  draw() with the same stream. For tables that can overlap the memory accesses of several rows. NULL = draw() for
     *  each row. */
    void (*draw_rows)(const void *state, const float *const *codes, xsm_random *const *random, uint32_t rows,
                      uint32_t count, uint32_t *const *classes, double *const *log_probabilities);
    /** Lets the distribution follow the training: called once the gradient of a batch is computed, so that no draw
     *  depends on the labels of its own batch. A status other than #XSM_OK, #XSM_ERROR_MEMORY or any other, is that of
     *  the gradient's call or the training's, with the message in `err`: the batch's step is not taken, and the state
     *  must be as before. What takes long asks xsm_context_poll(), and returns #XSM_CANCELLED. Needs save() and
     *  load(), by which checkpoints have the state: after bind(), their arrays must never change names, types or
     *  shapes. With code_length(), rows are encoded batch by batch, as the classes' weights see them. Such a sampler
     *  belongs to one estimator at a time, whose binding binds it anew, a loaded one too: only xsm_trainer_resume()
     *  goes on with its state, and a host's own loop begins without. One that corrects scores after training
     *  (#XSM_ESTIMATOR_CORRECTED) refuses it, as do classes that are divided among processes. NULL = the distribution
     *  is constant. */
    xsm_status (*follow)(void *state, const xsm_sampler_step *step, xsm_error *err);
};

/** Settings of xsm_sampler_check(). Start with #XSM_SAMPLER_CHECK_OPTIONS_INIT. */
typedef struct xsm_sampler_check_options {
    size_t size;            /**< sizeof(xsm_sampler_check_options). */
    uint32_t classes;       /**< K of the largest problem; 0 = 50. */
    uint32_t features;      /**< D of the largest problem; 0 = 6. */
    uint32_t draws;         /**< Draws for each chi-square test; 0 = 40000. */
    uint32_t reserved;      /**< Zero. */
    double false_alarm;     /**< Probability that a correct table fails by chance, for all tests of the suite together;
                                 above 0 and below 1; 0 = 1e-6. */
    double tolerance;       /**< Largest difference of the log-probabilities of a class from several functions, relative
                                 to 1 + |log q|, and largest difference of the sum of the probabilities from 1; above 0
                                 and below 1; 0 = 1e-4. */
    const char *const *set; /**< Options to set, "name=value", ended by NULL; NULL = none. */
} xsm_sampler_check_options;

/** Starting value of an #xsm_sampler_check_options. */
#define XSM_SAMPLER_CHECK_OPTIONS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_sampler_check_options), 0, 0, 0, 0, 0, 0, NULL                                                      \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Table of built-in sampler number `index`, NULL past the last. Static, with name and summary. */
XSM_API const xsm_sampler_ops *xsm_sampler_at(size_t index);
/** Table of a built-in sampler by name; NULL if there is none. Static. */
XSM_API const xsm_sampler_ops *xsm_sampler_find(const char *name);
/** Option number `index` of a sampler; the option that all samplers have (`seed`) is first. NULL past the last. */
XSM_API const xsm_option *xsm_sampler_ops_option(const xsm_sampler_ops *ops, size_t index);
/** As xsm_sampler_new(), from a table of the library or the host. The table must outlive the sampler.
 *  @return as xsm_sampler_new(), and #XSM_ERROR_ARGUMENT for a table that lacks a required entry, #XSM_ERROR_STRUCT_OLD
 *          or #XSM_ERROR_STRUCT_NEW for a `size`, #XSM_ERROR_ABI for another ABI number */
XSM_API xsm_status xsm_sampler_new_from(xsm_context *context, const xsm_sampler_ops *ops, xsm_sampler **out,
                                        xsm_error *err);

/** Tests a table on problems of several sizes (also with one class), with dense and sparse rows, rows of zeros and a
 *  class without rows. Checks that codes are complete and finite and no array is overrun; that log-probabilities are
 *  those of a distribution and equal from every function; that draws follow them (a chi-square test for each row) and
 *  return the correct log-probability; that draw_others() draws each class with the probability that it returns; that
 *  draw_rows() draws the same as draw(); that results do not depend on threads, other rows in the call, earlier draws,
 *  previous contents of memory, or an earlier bind(); if the table has save() and load(), that a loaded state draws the
 *  same, that load() refuses arrays that are missing or have another length, and that a tree of #XSM_SAMPLER_TREE gives
 *  the same log-probabilities; that all this is so after calls of follow(), too, and that a loaded state follows to the
 *  same draws; and that every allocation of the context may fail.
 *  @param context context, or NULL
 *  @param ops     the table
 *  @param options settings, or NULL
 *  @param err     what the table does wrong, and where
 *  @return #XSM_OK; #XSM_ERROR_DATA if the table is wrong; the errors of the functions of sampler.h. Needs 20 times
 *          `draws` draws and several hundred calls of bind(). */
XSM_API xsm_status xsm_sampler_check(xsm_context *context, const xsm_sampler_ops *ops,
                                     const xsm_sampler_check_options *options, xsm_error *err);

/** Writes an array of the state. Name and numbers are not copied: they must stay unchanged until the sampler is
 *  changed, bound again or freed.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for an invalid array or a name that is already written */
XSM_API xsm_status xsm_array_write(xsm_array_writer *writer, const xsm_array *array, xsm_error *err);
/** Finds an array by name.
 *  @param reader the reader that load() got
 *  @param name   the array's name
 *  @param type   the type that it must have, an XSM_DTYPE_* value
 *  @param rank   the number of dimensions that it must have
 *  @param[out] array start it with #XSM_ARRAY_INIT; its numbers are aligned to their size and valid until load()
 *                returns
 *  @param err    what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_FORMAT if there is no array with this name, type and rank */
XSM_API xsm_status xsm_array_read(const xsm_array_reader *reader, const char *name, int32_t type, uint32_t rank,
                                  xsm_array *array, xsm_error *err);

/** Returns the next 32 random bits of a stream. */
XSM_API uint32_t xsm_random_bits(xsm_random *random);
/** Returns a uniform random number in [0, n), without rounding bias; n >= 1. */
XSM_API uint64_t xsm_random_below(xsm_random *random, uint64_t n);
/** Returns a uniform random number in [0, 1) with 53 random bits. */
XSM_API double xsm_random_uniform(xsm_random *random);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
