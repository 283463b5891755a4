/* SPDX-License-Identifier: MIT */
/**
 * @file ext/estimator.h
 * @brief The table of functions of an estimator, and a test suite for such tables.
 */
#ifndef XSOFTMAX_EXT_ESTIMATOR_H
#define XSOFTMAX_EXT_ESTIMATOR_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/estimator.h>

/** @defgroup ext_estimator Writing an estimator
 *
 * An estimator is a constant table of functions over a state of `state_size` bytes. The library allocates the state,
 * zeroes it, writes the options' values to the offsets in the option table, and calls the functions for whole batches:
 * select() lists the classes to score, the library computes their scores (logits), gradient() computes coefficients
 * from the scores. gradient() returns the loss and the coefficients of each example; the library multiplies both by the
 * weight of the example and computes the mean over the batch. The library replaces coefficients of the mean that are
 * smaller than 2^-100 by 0, because they could make weights denormal.
 *
 * **Threads.** select() and gradient() are called from several threads at once, but never at once for two examples of
 * the same row. State that is stored for each row therefore needs no lock; all other state must be constant after
 * bind().
 *
 * **Growth.** New members are added at the end only. Members beyond the `size` of a table count as NULL. Members that
 * say *experimental* keep place and form, but a later minor release may treat them as NULL.
 *
 * **Exceptions.** The functions must return; they must not throw.
 *  @{ */

/** How the classes that an example scores are found: xsm_estimator_ops::kind. */
enum {
    /** The table lists them: width() and select(). */
    XSM_ESTIMATOR_LISTED = 0,
    /** Every class: gradient() gets scores [n][K]. */
    XSM_ESTIMATOR_EXACT = 1,
    /** A sampler draws them, besides the labels: plan(). The library has the options `sampler` and `shared`. */
    XSM_ESTIMATOR_SAMPLED = 2,
    /** Search indexes of the rows of weights find them: search() uses the results; width() and select() are for the
     *  examples before the search begins. The library has the option `index`, builds the indexes and updates the rows
     *  of weights that gradients have changed. */
    XSM_ESTIMATOR_SEARCHED = 3,
    /** The rows of weights belong to the inner nodes of a binary tree over the classes, and an example scores the nodes
     *  on the path to its label, from the lowest up. The library has the option `tree` and makes the tree, or uses
     *  that of the model; gradient() reads xsm_score_block::turns. */
    XSM_ESTIMATOR_HIERARCHY = 4
};

/** Properties of an estimator, of any kind unless one is named. */
enum {
    XSM_ESTIMATOR_PROXIMAL = 1,    /**< Takes proximal steps: gradient() fills `shrinks` and applies the L2 penalty
                                        (ridge) itself. Listed and sampled only. */
    XSM_ESTIMATOR_ROW_STATE = 2,   /**< Stores state for each row: examples of the same row are processed in order. Not
                                        searched. */
    XSM_ESTIMATOR_MULTI_LABEL = 4, /**< Accepts rows with several labels; otherwise each row must have one label. Not
                                        hierarchies. */
    /** Sampled only: scores converge to log p(k|x) - log q(k|x) + const. The trained model adds log q as a correction
     *  of its scores, see xsm_model_info::correction. */
    XSM_ESTIMATOR_CORRECTED = 8,
    XSM_ESTIMATOR_OTHER_LOSS = 16, /**< Does not minimise the log-loss: runs are compared by the estimator's own
                                        loss. */
    /** Steps are unbounded: training with a learning rate that works for a while may diverge later. xsm_tune_eta()
     *  chooses a smaller rate. */
    XSM_ESTIMATOR_UNBOUNDED = 32,
    /** Reads xsm_score_block::weights, so that its proximal and joint steps are those of weighted rows. Tables with
     *  such steps refuse weights without it; all others need nothing for weights. */
    XSM_ESTIMATOR_WEIGHTED = 64,
    /** With #XSM_ESTIMATOR_MULTI_LABEL: reads xsm_score_block::label_weights. For tables without it, the weight of a
     *  row's only label multiplies that of the row, and rows of several labels with weights are refused. */
    XSM_ESTIMATOR_LABEL_WEIGHTED = 128,
    /** Scores are log-odds, each class for itself: training sets #XSM_LINK_SIGMOID (xsm_model_set_link()). */
    XSM_ESTIMATOR_SIGMOID = 256
};

/** The data and model that an estimator is bound to. */
typedef struct xsm_problem {
    size_t size;                  /**< sizeof(xsm_problem). */
    xsm_context *context;         /**< For xsm_context_allocate(). */
    uint64_t examples;            /**< N. */
    uint32_t classes;             /**< K. */
    uint32_t features;            /**< D of the model. */
    const uint64_t *class_counts; /**< [K] number of rows with each class. */
    double ridge;                 /**< mu, the factor of the L2 penalty. */
    uint64_t seed;                /**< Seed of the random stream. */
    int32_t bias;                 /**< 1 if the model has a bias. */
    int32_t reserved;             /**< Zero. */
    double longest_row;           /**< The largest ||x||; INFINITY if features are passed with each batch. */
    uint64_t most_labels;         /**< Most labels of a row. */
    uint64_t row_slots;           /**< Upper limit of xsm_example::row: N; for a stream, the number of the host's ids
                                       plus entries for rows without an id. State that is stored for each row has this
                                       many entries. */
    double total_weight;          /**< The sum of the weights of the rows; N without weights and for a stream. */
} xsm_problem;

/** One example. This struct never gets new members, because functions get arrays of it; later additions are separate
 *  arrays in #xsm_score_block. */
typedef struct xsm_example {
    uint64_t row;           /**< Number of its row; state for each row is stored at this number. */
    uint64_t position;      /**< Number of examples before it in the whole run: the position in the random stream. */
    const uint32_t *labels; /**< [label_count] true classes, all below K. */
    uint64_t label_count;   /**< At least 1. */
    double squared_norm;    /**< ||x||^2. */
} xsm_example;

/** The draws that an #XSM_ESTIMATOR_SAMPLED needs for each example. Initialised to zeros except `size`. */
typedef struct xsm_draw_plan {
    size_t size;                 /**< sizeof(xsm_draw_plan). */
    uint32_t count;              /**< Draws for each example, m. */
    int32_t exclude_labels;      /**< 1: labels are excluded from the draws. If the sampler supports it, other classes
                                      are drawn without replacement; if not, drawn labels are left out. */
    int32_t label_probabilities; /**< 1: `log_expected` is also needed for the labels, so that binding refuses a sampler
                                      that never draws some class; not with `exclude_labels`. */
    int32_t reserved;            /**< Zero. */
} xsm_draw_plan;

/** Cache lines to prefetch, see xsm_prefetch() in ext/experimental.h. */
typedef struct xsm_prefetch_queue xsm_prefetch_queue;

/** Input and output of gradient(): scores in, coefficients out. Entry j of example i is at [i*width + j]. */
typedef struct xsm_score_block {
    size_t size;                 /**< sizeof(xsm_score_block). */
    const xsm_example *examples; /**< [count]. */
    uint64_t count;              /**< Examples in this block. */
    uint64_t batch;              /**< Number of examples n of the whole batch, of which the block is a part. Or 1, less
                                      than `count`, if the block is several steps of one example each, without common
                                      classes or rows. */
    uint64_t width;              /**< Entries for each example. */
    const uint32_t *lengths;     /**< [count] number of entries in use, as returned by select(); NULL = all. */
    const uint32_t *classes;     /**< [count][width] classes, as returned by select(); NULL = entry k is class k. */
    const float *scores;         /**< [count][width] scores, finite. For exact estimators the same memory as
                                      `coefficients`. */
    const float *linear;         /**< [count][width] scores without the bias (the same memory as `scores` if the model
                                      has no bias); NULL for exact estimators. */
    double eta;                  /**< Learning rate. */
    float *coefficients;         /**< [count][width] output: g_ik. */
    double *shrinks;             /**< [count][width] output of proximal estimators: weight decay factors, initially all
                                      1; otherwise NULL. */
    double *losses;              /**< [count] output: estimate of each example's loss. */
    void *scratch;               /**< Scratch memory of the size that scratch() returned, aligned to 64 bytes; contents
                                      undefined. NULL for size 0. */
    const double *coordinates;   /**< For joint(), else NULL: [count][rank] coordinates of the examples' features in an
                                      orthonormal basis of their span. Inner products of these rows equal x_i.x_j up to
                                      1e-6 of the rows' lengths. */
    uint64_t rank; /**< Dimension of the span: at most count; less if rows are linearly dependent. A row counts as
                        dependent if less than 7e-4 of its length is outside of the span of the others. */
    double decay;  /**< For joint(): 1/(1 + eta mu/N), the weight decay factor of the step for all weights. */
    /** [count][width] with a sampler, otherwise NULL: logarithm of the expected number of times that the class is
     *  drawn; with replacement this number is m q(k|x). For a label it is set if plan() requested it or the label was
     *  drawn, else it is 0. The sum over entries of f_k draws / expected has mean sum_k f_k, over all classes or over
     *  those other than the labels. */
    const double *log_expected;
    /** [count][width] with a sampler, otherwise NULL: number of times that the class was drawn; 0 for labels that were
     *  not drawn, and for all labels with `exclude_labels`. The labels of each example are its first entries, in their
     *  order. */
    const uint32_t *draws;
    const uint32_t *turns; /**< [count][width] of hierarchies, otherwise NULL: 1 where the path to the label turns right
                                at the node, 0 where it turns left. */
    /** Memory that later steps will read, or NULL. A table that waits for results of its own calculation may prefetch
     *  some lines of it at a time by xsm_prefetch(). */
    xsm_prefetch_queue *upcoming;
    /** [count] weight of each example, at least 0, or NULL if each is 1. The library multiplies coefficients and losses
     *  by it afterwards; only steps that are not linear in the loss, proximal and joint ones, have to read it. */
    const float *weights;
    /** [count] for each example the weights [label_count] of its labels, at least 0, or NULL if each is 1. They
     *  multiply the labels' terms of the loss. NULL for tables that do not read them. */
    const float *const *label_weights;
} xsm_score_block;

/** Coefficients of some classes alone; experimental, see ext/experimental.h. */
typedef struct xsm_class_sums xsm_class_sums;

/** Type of the numbers of an #xsm_state_tensor. */
enum {
    XSM_STATE_F64 = 1, /**< double */
    XSM_STATE_U64 = 2, /**< uint64_t */
    XSM_STATE_F32 = 3, /**< float */
    XSM_STATE_U32 = 4  /**< uint32_t */
};

/** Numbers of the state that steps change. A checkpoint saves them. */
typedef struct xsm_state_tensor {
    size_t size;      /**< sizeof(xsm_state_tensor). */
    const char *name; /**< Lower-case letters, digits, '-' and '_'; unique. Must stay valid as long as the state. */
    int32_t type;     /**< An XSM_STATE_* value. */
    int32_t by_row;   /**< 1: line i belongs to training row i, and there are N lines; else 0. */
    uint64_t lines;   /**< Number of lines. */
    uint64_t width;   /**< Numbers in a line. */
    void *data;       /**< [lines][width], in the state; valid until unbind(). */
} xsm_state_tensor;

/** Value of xsm_search_plan::startup: if all weights are zero when the estimator is bound, so that all scores are
 *  equal, the search begins after as many examples as there are rows (for a stream, xsm_stream_options::examples).
 *  Otherwise it begins at once. */
#define XSM_SEARCH_STARTUP_AUTO UINT64_MAX

/** The search that an #XSM_ESTIMATOR_SEARCHED needs. Initialised to zeros except `size`. */
typedef struct xsm_search_plan {
    size_t size;         /**< sizeof(xsm_search_plan). */
    uint32_t blocks;     /**< B, 1 to D: the coordinates are divided into B blocks, with one index for each. */
    uint32_t candidates; /**< Q, 1 to K: number of classes that each index lists for an example. */
    uint64_t startup;    /**< Examples before the search begins, or #XSM_SEARCH_STARTUP_AUTO. */
    uint32_t most;     /**< 0 = lists of Q classes, in any order. 1 to K: lists are empty when search() is called, which
                            extends them by xsm_search_block::next() in falling order, each up to that many classes.
                            Q is then a typical number, by which indexes choose their clusters. Refused for indexes
                            without xsm_index_ops::next(). */
    uint32_t reserved; /**< Zero. */
} xsm_search_plan;

/** Search results of one or more examples, and the arrays for the gradient. Scores are z_k = sum_j z_kj, where z_kj is
 *  the share of the coordinates in block j; a bias is divided equally among the blocks. All numbers are
 *  **B z_kj**, so that z_k is their mean over the blocks. */
typedef struct xsm_search_block {
    size_t size;                  /**< sizeof(xsm_search_block). */
    const xsm_example *examples;  /**< [count]. */
    uint64_t count;               /**< Number of examples. */
    uint64_t batch;               /**< Number of examples n of the whole batch, of which the block is a part. */
    uint64_t width;               /**< Entries for each example in `classes` and `coefficients`. */
    uint32_t blocks;              /**< B. */
    uint32_t candidates;          /**< Q; with next(), xsm_search_plan::most. */
    const uint32_t *found;        /**< [count][B][Q] classes that the indexes found, in any order, without duplicates in
                                       a list; they may include labels. */
    const uint32_t *found_length; /**< [count][B] number of classes found, at most Q; with next(), 0 at first. */
    float *found_score;           /**< [count][B][Q] B z_kj of these classes; may be overwritten. */
    /** Computes B z_kj of any `count` classes; writes that of class number c of the list and block j to
     *  shares[c*B + j]. */
    void (*score)(const struct xsm_search_block *block, uint64_t example, const uint32_t *classes, uint32_t count,
                  float *shares);
    double eta;          /**< Learning rate. */
    uint32_t *classes;   /**< [count][width] output: classes with a coefficient, without duplicates. */
    uint32_t *lengths;   /**< [count] output: number of these classes. */
    float *coefficients; /**< [count][width] output: coefficients of each example; the library computes the mean. */
    double *losses;      /**< [count] output: estimate of each example's loss. */
    void *scratch;       /**< Scratch memory of the size that scratch() returned, aligned to 64 bytes; contents
                              undefined. NULL for size 0. */
    const void *scorer;  /**< State of score() and next(). */
    /** With xsm_search_plan::most, else NULL: appends to the list of an example and block j up to `count` further
     *  classes with their scores, in falling order of score as far as the index knows it (xsm_index_ops::next()), and
     *  adds their number to the list's length. Returns this number. Less than `count`: the list has Q classes, or the
     *  index has no others, or it failed, which the library reports after search(). */
    uint32_t (*next)(const struct xsm_search_block *block, uint64_t example, uint32_t j, uint32_t count);
} xsm_search_block;

/** The table. Required members are marked; the others may be NULL or zero. */
struct xsm_estimator_ops {
    size_t size;               /**< Required: sizeof(xsm_estimator_ops). */
    uint32_t abi;              /**< Required: #XSM_EXT_ABI_VERSION. */
    int32_t kind;              /**< How the classes of an example are found: #XSM_ESTIMATOR_LISTED to
                                    #XSM_ESTIMATOR_HIERARCHY. */
    uint32_t flags;            /**< Sum of properties, #XSM_ESTIMATOR_PROXIMAL to #XSM_ESTIMATOR_SIGMOID. */
    uint32_t reserved;         /**< Zero. */
    const char *name;          /**< Required: lower-case words joined by hyphens. */
    const char *summary;       /**< Required: one line. */
    size_t state_size;         /**< Bytes of state. */
    const xsm_option *options; /**< [option_count] entries, each as long as the first one's `size` says, which in a
                                    table of the library may be more than sizeof(xsm_option): read them by
                                    xsm_estimator_ops_option(), not by a subscript. */
    size_t option_count;       /**< Options. */
    uint64_t batch_limit;      /**< Largest batch; 0 = any size. */

    /** Checks options against the problem and allocates the memory of the state; NULL = nothing to check or allocate.
     *  On failure the library calls unbind(). `problem` is valid during the call only. */
    xsm_status (*bind)(void *state, const xsm_problem *problem, xsm_error *err);
    /** Releases what bind() allocated. Must also work on a state for which bind() failed or was never called. */
    void (*unbind)(void *state);
    /** Required of listed and searched tables: largest number of classes that select() or search() lists for an
     *  example, including labels. */
    uint64_t (*width)(const void *state);
    /** Required of listed and searched tables: writes the classes to score for example i to classes[i*width + j], at
     *  most width() and without duplicates, and their number to lengths[i]. The result may depend only on the state
     *  after bind() and the example. */
    void (*select)(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                   uint32_t *lengths);
    /** Bytes of scratch memory that gradient() and search() need. NULL = 0. */
    size_t (*scratch)(const void *state);
    /** Required: computes coefficients and losses. Cannot fail: if coefficients are not finite, the library reports
     *  #XSM_ERROR_DIVERGED and does not use the gradient. */
    void (*gradient)(void *state, const xsm_score_block *block);
    /** Maximum row norm: after each step, the optimizer scales the rows of weights of the batch that have a larger norm
     *  down to this norm. Called once, after bind(). NULL, or a value of 0 = no limit. Not for exact estimators. */
    double (*row_bound)(const void *state);
    /** Experimental: joint_width(), joint_select() and joint() process a batch of several examples jointly, while
     *  gradient() processes examples one by one. A table has all three or none. All examples of such a batch have the
     *  same list of classes; joint_width() returns its largest length for `batch` examples. A row may occur only once
     *  in the batch. A trainer divides its rows into fixed minibatches and shuffles these, so that the library computes
     *  their spans only once. */
    uint64_t (*joint_width)(const void *state, uint64_t batch);
    /** Experimental: writes the classes of a batch, without duplicates and including the labels of all examples, to
     *  `classes` and their number to `length`. The result may depend only on the state after bind() and the examples.
     *  */
    void (*joint_select)(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                         uint32_t *length);
    /** Experimental: as gradient(), for the whole batch on one thread. It computes the coefficients of each example;
     *  the library computes the mean. The library applies the L2 penalty to all weights as the block's `decay`;
     *  `shrinks` is not used. On failure the library does not use the result. */
    xsm_status (*joint)(void *state, const xsm_score_block *block, xsm_error *err);
    /** For listed and sampled tables without proximal steps, correction, row_bound() and joint(): 1 if the state
     *  after bind() scores every class of every example. The estimator is then used like an #XSM_ESTIMATOR_EXACT:
     *  select() is not called, and entry k of the scores of gradient() is class k, with `lengths` and `classes` NULL.
     *  NULL = never. */
    int32_t (*exact)(const void *state);
    /** Required of sampled tables: describes the draws. Called once, after bind(). */
    void (*plan)(const void *state, xsm_draw_plan *plan);
    /** Experimental: prefetches the state that gradient() will read for an example; called for examples of later steps.
     *  NULL = nothing to prefetch. */
    void (*prefetch)(const void *state, const xsm_example *example);
    /** Describes tensor number `index` of the state; returns 0 past the last, else 1. `tensor` is initialised to zeros
     *  except `size`. All state that changes after bind() must be in a tensor: checkpoints save the numbers, and
     *  resuming overwrites the numbers that bind() made. Floating-point numbers must be finite. Required for
     *  checkpoints with #XSM_ESTIMATOR_ROW_STATE. NULL = nothing changes. */
    int32_t (*state_tensor)(void *state, uint32_t index, xsm_state_tensor *tensor);
    /** Required of searched tables: describes the search. Called once, after bind(). */
    void (*search_plan)(const void *state, xsm_search_plan *plan);
    /** Required of searched tables: computes classes, coefficients and losses from the search results. Like
     *  gradient(), it is called from several threads at once and cannot fail. Not used where the classes of a model are
     *  divided among processes, which refuses. */
    void (*search)(void *state, const xsm_search_block *block);
    /** Experimental: for exact tables whose losses depend only on the classes with the highest scores: returns a width
     *  mu above 0, such that a class other than the labels has a coefficient only if its score lies above the threshold
     *  of the projection of all scores onto the simplex of width mu (the smoothed margin's gradient, Yen et al. 2018,
     *  eq. 10). gradient() then gets `lengths` and `classes`: the labels in their order, then in rising order all other
     *  classes that may contribute. The scores of the others are never stored. Called with each batch. NULL =
     *  gradient() gets all scores. */
    double (*sift)(const void *state);
    /** Experimental: for exact tables, and those with exact(), without sift(): how the coefficients of some classes are
     *  computed. Used where the classes of a model are divided among processes. NULL = all scores are sent to every
     *  process, and each calls gradient(). */
    const xsm_class_sums *class_sums;
};

/** Additional properties that xsm_estimator_check() tests, beyond those that every table must have. */
enum {
    /** Coefficients and losses are finite for any scores up to 1e4 in size. */
    XSM_ESTIMATOR_CHECK_FINITE = 1,
    /** For fixed classes of an example, its coefficients are the gradient of the loss that it reports. If the loss of a
     *  row has a kink (no derivative) at the tested scores, the row is tested at other scores. Not tested for tables
     *  with #XSM_ESTIMATOR_PROXIMAL, whose step is not a gradient step. */
    XSM_ESTIMATOR_CHECK_GRADIENT = 2,
    /** The coefficients of an example sum to zero: its loss does not change if the same number is added to all
     *  scores. */
    XSM_ESTIMATOR_CHECK_ZERO_SUM = 4
};

/** Settings of xsm_estimator_check(). Start with #XSM_ESTIMATOR_CHECK_OPTIONS_INIT. */
typedef struct xsm_estimator_check_options {
    size_t size;            /**< sizeof(xsm_estimator_check_options). */
    uint32_t classes;       /**< K of the largest problem; 0 = 20. */
    uint32_t features;      /**< D of the largest problem; 0 = 5. */
    uint32_t promises;      /**< Sum of XSM_ESTIMATOR_CHECK_* values. */
    uint32_t reserved;      /**< Zero. */
    double eta;             /**< Learning rate; 0 = 0.1. */
    double tolerance;       /**< Largest difference between coefficients and central differences, relative to 1 and the
                                 largest coefficient of the example; 0 = 1e-3. */
    const char *const *set; /**< Options to set, "name=value", ended by NULL; NULL = none. */
} xsm_estimator_check_options;

/** Starting value of an #xsm_estimator_check_options. */
#define XSM_ESTIMATOR_CHECK_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(xsm_estimator_check_options), 0, 0, XSM_ESTIMATOR_CHECK_FINITE | XSM_ESTIMATOR_CHECK_GRADIENT, 0, 0, 0, \
            NULL                                                                                                       \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Table of built-in estimator number `index`, NULL past the last. Static, with name and summary. */
XSM_API const xsm_estimator_ops *xsm_estimator_at(size_t index);
/** Table of a built-in estimator by name; NULL if there is none. Static. */
XSM_API const xsm_estimator_ops *xsm_estimator_find(const char *name);
/** Option number `index` of an estimator; the options that all estimators have (`ridge`, `seed`) are first. NULL past
 *  the last. */
XSM_API const xsm_option *xsm_estimator_ops_option(const xsm_estimator_ops *ops, size_t index);
/** As xsm_estimator_new(), from a table of the library or the host. The table must outlive the estimator.
 *  @return as xsm_estimator_new(), and #XSM_ERROR_ARGUMENT for a table that lacks a required entry,
 *          #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW for a `size`, #XSM_ERROR_ABI for another ABI number */
XSM_API xsm_status xsm_estimator_new_from(xsm_context *context, const xsm_estimator_ops *ops, xsm_estimator **out,
                                          xsm_error *err);

/** Tests a table on problems of several sizes, with dense and sparse rows, rows of zeros, models with and without a
 *  bias, a class without rows, and rows with several labels if the table accepts them. Checks that the table is
 *  complete and its options can be set; that select() lists the labels, without duplicates and with classes below K
 *  only, and depends only on the example; that gradient() fills its outputs and nothing else, and that its results do
 *  not depend on other examples in the block, on previous contents of scratch memory and unused entries, on the number
 *  of threads, or on an earlier call if no state is stored for each row; that shrinks are in (0, 1]; that a joint batch
 *  has one list with all labels; the properties in xsm_estimator_check_options::promises; and that every allocation of
 *  the context may fail.
 *  @param context context, or NULL
 *  @param ops     the table
 *  @param options settings, or NULL
 *  @param err     what the table does wrong, and where
 *  @return #XSM_OK; #XSM_ERROR_DATA if the table is wrong; the errors of the functions of estimator.h. bind() may
 *          refuse the smaller problems with #XSM_ERROR_RANGE or #XSM_ERROR_UNSUPPORTED, but not the largest. */
XSM_API xsm_status xsm_estimator_check(xsm_context *context, const xsm_estimator_ops *ops,
                                       const xsm_estimator_check_options *options, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
