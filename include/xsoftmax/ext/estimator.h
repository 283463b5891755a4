/**
 * @file ext/estimator.h
 * @brief The table behind an estimator, for those who bring their own, and the suite that tries one.
 */
#ifndef XSOFTMAX_EXT_ESTIMATOR_H
#define XSOFTMAX_EXT_ESTIMATOR_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/estimator.h>

/** @defgroup ext_estimator Writing an estimator
 *
 * An estimator is a constant table of functions over a state of `state_size` bytes. The library allocates the state,
 * zeroes it, puts the options' values where the option table says, and calls the functions for whole batches:
 * select() says which classes are to be scored, the library scores them, gradient() turns scores into coefficients.
 * gradient() gives each example's own loss and coefficients; the library takes the mean over the batch. Coefficients
 * of it that are smaller than 2^-100 are taken for 0, as weights made of them could be denormal floats.
 *
 * **Threads.** select() and gradient() are called from several threads at once, never at once for two examples of the
 * same row: a state kept by row needs no lock, anything else in the state must be constant after bind().
 *
 * **Growth.** Members are added at the end only. A table says its `size`; what is beyond it counts as NULL.
 *  @{ */

/** Value of xsm_estimator_ops::abi for tables of this header. */
#define XSM_ESTIMATOR_ABI 1

/** What an estimator is. */
enum {
    XSM_ESTIMATOR_EXACT = 1,       /**< Looks at every class: no select(), gradient() gets scores [n][K]. */
    XSM_ESTIMATOR_PROXIMAL = 2,    /**< gradient() fills `shrinks`, and the ridge is its own affair. */
    XSM_ESTIMATOR_ROW_STATE = 4,   /**< Keeps something by row: examples of one row are handled in order. */
    XSM_ESTIMATOR_MULTI_LABEL = 8, /**< Takes rows with several labels; otherwise one label a row is required. */
    XSM_ESTIMATOR_SAMPLER = 16,    /**< A sampler draws the classes: plan() in place of width() and select(). */
    /** With a sampler: its optimum is log p(k|x) - log q(k|x) + const. The model that it trains carries log q as a
     *  correction of its scores, see xsm_model_correction(). */
    XSM_ESTIMATOR_CORRECTED = 32,
    XSM_ESTIMATOR_OTHER_LOSS = 64, /**< Neither the log-loss nor a way to it: runs are compared by its own loss. */
    /** Steps that nothing bounds: a rate that does well for a while may blow up later. xsm_tune_eta() is careful. */
    XSM_ESTIMATOR_UNBOUNDED = 128,
    /** Search indexes over the rows of weights find the classes: search() works on what they found, select() and
     *  gradient() are for the examples before the search begins. The library builds the indexes and reads rows again
     *  that its gradients named. */
    XSM_ESTIMATOR_INDEX = 256
};

/** What an estimator is bound to. */
typedef struct xsm_problem {
    size_t size;                  /**< sizeof(xsm_problem). */
    xsm_context *context;         /**< For xsm_context_allocate(). */
    uint64_t examples;            /**< N. */
    uint32_t classes;             /**< K. */
    uint32_t features;            /**< D of the model. */
    const uint64_t *class_counts; /**< [K] rows that carry each class. */
    double ridge;                 /**< mu. */
    uint64_t seed;                /**< Names the random stream. */
    int32_t bias;                 /**< 1 if the model has a bias. */
    int32_t reserved;             /**< Zero. */
    double longest_row;           /**< The largest ||x||; INFINITY where rows come with their batches. */
    uint64_t most_labels;         /**< Most labels that a row has. */
    uint64_t row_slots;           /**< Numbers that xsm_example::row stays below: N; for a stream, the host's ids and
                                       places for rows without one. What is kept by row has so many. */
} xsm_problem;

/** One example. It never grows, as arrays of it are handed over: what is ever added comes as an array of its own, in
 *  #xsm_score_block. */
typedef struct xsm_example {
    uint64_t row;           /**< Its row; what is kept by row is kept by this number. */
    uint64_t position;      /**< Examples handled before it in the whole run: names the random stream. */
    const uint32_t *labels; /**< [label_count] true classes, all below K. */
    uint64_t label_count;   /**< At least 1. */
    double squared_norm;    /**< ||x||^2. */
} xsm_example;

/** What an estimator with #XSM_ESTIMATOR_SAMPLER wants drawn for each example. Starts as zeros but for `size`. */
typedef struct xsm_draw_plan {
    size_t size;                 /**< sizeof(xsm_draw_plan). */
    uint32_t count;              /**< Draws an example, m. */
    int32_t exclude_labels;      /**< 1: labels are not to be among the draws. Where the sampler can, the others are
                                      drawn without replacement; where not, labels that are drawn are left out. */
    int32_t label_probabilities; /**< 1: `log_expected` is wanted for the labels too; not with `exclude_labels`. */
    int32_t reserved;            /**< Zero. */
} xsm_draw_plan;

/** Scores in, coefficients out. Place j of example i is at [i*width + j]. */
typedef struct xsm_score_block {
    size_t size;                 /**< sizeof(xsm_score_block). */
    const xsm_example *examples; /**< [count]. */
    uint64_t count;              /**< Examples in this block. */
    uint64_t batch;              /**< Examples n in the whole batch, of which the block is a part; or 1, less than
                                      `count`, where the block is several steps of one example each that touch neither
                                      each other's classes nor rows. */
    uint64_t width;              /**< Places a row. */
    const uint32_t *lengths;     /**< [count] places in use, as select() said; NULL = all. */
    const uint32_t *classes;     /**< [count][width], as select() said; NULL = place k is class k. */
    const float *scores;         /**< [count][width], finite. For exact estimators the same memory as `coefficients`. */
    const float *linear;         /**< [count][width] the scores without the bias (the same memory as `scores` when the
                                      model has none); NULL for exact estimators. */
    double eta;                  /**< Learning rate. */
    float *coefficients;         /**< [count][width] g_ik, to be filled. */
    double *shrinks;             /**< [count][width], all 1, to be filled by proximal estimators; otherwise NULL. */
    double *losses;              /**< [count] estimate of each example's loss, to be filled. */
    void *scratch;               /**< Bytes that scratch() asked for, aligned to 64; contents undefined. NULL for 0. */
    const double *coordinates;   /**< For joint(), else NULL: [count][rank] coordinates of the examples' features in an
                                      orthonormal basis of their span, so that products of rows are x_i.x_j up to float
                                      rounding. */
    uint64_t rank;               /**< At most count; less for rows that depend on each other. */
    double decay;                /**< For joint(): 1/(1 + eta mu/N), the factor that the step takes all weights by. */
    /** [count][width], with a sampler, otherwise NULL: logarithm of how often the class was to be expected among the
     *  draws, m q(k|x) with replacement. For labels: where plan() asked for it or the label was drawn, else 0. The sum
     *  over places of f_k draws / expected has mean sum_k f_k, over all classes or those other than the labels. */
    const double *log_expected;
    /** [count][width], with a sampler, otherwise NULL: how often the class was drawn; 0 for labels that were not, and
     * for all labels with `exclude_labels`. Every example's labels come first, in their order. */
    const uint32_t *draws;
    void *asks; /**< For the library's own tables; NULL in a block that a host fills. */
} xsm_score_block;

/** What the numbers of an #xsm_state_tensor are. */
enum {
    XSM_STATE_F64 = 1, /**< double */
    XSM_STATE_U64 = 2, /**< uint64_t */
    XSM_STATE_F32 = 3, /**< float */
    XSM_STATE_U32 = 4  /**< uint32_t */
};

/** Numbers in a state that change as steps are taken: what a checkpoint keeps of it. */
typedef struct xsm_state_tensor {
    size_t size;      /**< sizeof(xsm_state_tensor). */
    const char *name; /**< Lower-case letters, digits, '-' and '_'; none twice. Must stay as long as the state. */
    int32_t type;     /**< An XSM_STATE_* value. */
    int32_t by_row;   /**< 1: line i is what is kept for training row i, and there are N lines; else 0. */
    uint64_t lines;   /**< Lines. */
    uint64_t width;   /**< Numbers a line. */
    void *data;       /**< [lines][width], in the state; valid until unbind(). */
} xsm_state_tensor;

/** Value of xsm_search_plan::startup: as many examples as there are rows where all weights are zero when the estimator
 *  is bound, for all classes score alike then (of a stream, xsm_stream_options::examples); otherwise none. */
#define XSM_SEARCH_STARTUP_AUTO UINT64_MAX

/** What an estimator with #XSM_ESTIMATOR_INDEX wants to be searched. Starts as zeros but for `size`. */
typedef struct xsm_search_plan {
    size_t size;         /**< sizeof(xsm_search_plan). */
    uint32_t blocks;     /**< B: the coordinates are cut into so many blocks, with an index for each; 1 to D. */
    uint32_t candidates; /**< Q: classes that each index lists for an example, 1 to K. */
    uint64_t startup;    /**< Examples before the search begins, or #XSM_SEARCH_STARTUP_AUTO. */
} xsm_search_plan;

/** What was found for one or more examples, and room for the gradient. Scores are z_k = sum_j z_kj, where z_kj is the
 *  part of the coordinates in block j, and a bias is shared out evenly; everything here is **B z_kj**, so that z_k is
 *  the mean over the blocks. */
typedef struct xsm_search_block {
    size_t size;                 /**< sizeof(xsm_search_block). */
    const xsm_example *examples; /**< [count]. */
    uint64_t count;              /**< Examples. */
    uint64_t batch;              /**< Examples n in the whole batch, of which these are some. */
    uint64_t width;              /**< Places a row of `classes` and `coefficients`. */
    uint32_t blocks;             /**< B. */
    uint32_t candidates;         /**< Q. */
    const uint32_t *found;       /**< [count][B][Q] classes that the indexes listed, in any order, none twice in a list;
                                      labels may be among them. */
    const uint32_t *found_length; /**< [count][B] how many, at most Q. */
    float *found_score;           /**< [count][B][Q] their B z_kj; may be overwritten. */
    /** Writes B z_kj of any classes to parts[c*B + j]. */
    void (*score)(const struct xsm_search_block *block, uint64_t example, const uint32_t *classes, uint32_t count,
                  float *parts);
    double eta;          /**< Learning rate. */
    uint32_t *classes;   /**< [count][width] to be filled: classes with a coefficient, none twice. */
    uint32_t *lengths;   /**< [count] to be filled. */
    float *coefficients; /**< [count][width] to be filled: each example's own, the library takes the mean. */
    double *losses;      /**< [count] estimate of each example's loss, to be filled. */
    void *scratch;       /**< Bytes that scratch() asked for, aligned to 64; contents undefined. NULL for 0. */
    const void *origin;  /**< The library's. */
} xsm_search_block;

/** The table. Required members are marked; the others may be NULL or zero. */
struct xsm_estimator_ops {
    size_t size;               /**< Required: sizeof(xsm_estimator_ops). */
    uint32_t abi;              /**< Required: #XSM_ESTIMATOR_ABI. */
    uint32_t flags;            /**< Sum of XSM_ESTIMATOR_* values. */
    const char *name;          /**< Required: lower-case words joined by hyphens. */
    const char *summary;       /**< Required: one line. */
    size_t state_size;         /**< Bytes of state. */
    const xsm_option *options; /**< [option_count]. */
    uint32_t option_count;     /**< Options. */
    uint32_t option_size;      /**< sizeof(xsm_option), if there are options. */
    uint64_t batch_limit;      /**< Most examples a batch; 0 = any number. */

    /** Checks options against the problem and allocates what the state needs; NULL = nothing of either. On failure the
     * library calls unbind(). `problem` is valid during the call only. */
    xsm_status (*bind)(void *state, const xsm_problem *problem, xsm_error *err);
    /** Releases what bind() allocated; must be fine on a state that bind() left half-made or never saw. */
    void (*unbind)(void *state);
    /** Required unless exact: the most classes that select(), or search(), lists for an example, labels included. */
    uint64_t (*width)(const void *state);
    /** Required unless exact: lists the classes to score of each example, at most width() each, in
     *  classes[i*width + j], no class twice, and their number in lengths[i]. Depends on nothing but the state after
     *  bind() and the example. */
    void (*select)(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                   uint32_t *lengths);
    /** Bytes of scratch memory that gradient() and search() are to get. NULL = 0. */
    size_t (*scratch)(const void *state);
    /** Required: fills coefficients and losses. Cannot fail: coefficients that are not finite are reported as
     *  divergence by the library, which then does not use the gradient. */
    void (*gradient)(void *state, const xsm_score_block *block);
    /** The length that a row of weights may have: whoever takes the steps scales longer rows down to it, those that a
     *  batch touched, after its step. Asked once after bind(). NULL, or a value of 0 = any length. Not for exact
     *  estimators. */
    double (*row_bound)(const void *state);
    /** joint_width(), joint_select() and joint(), all three or none: they take a batch of several examples as a whole,
     *  where gradient() takes examples one by one. Every example of such a batch has the same list of classes, of which
     *  joint_width() says the most for `batch` examples. No row may be twice in the batch. A trainer cuts its rows into
     *  minibatches once and for all, and shuffles the minibatches, so that the library works out their spans once. */
    uint64_t (*joint_width)(const void *state, uint64_t batch);
    /** Lists the classes of a batch, the examples' labels among them, no class twice, and their number in *length.
     *  Depends on nothing but the state after bind() and the examples. */
    void (*joint_select)(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                         uint32_t *length);
    /** As gradient() for the whole batch, on one thread; coefficients are each example's own, the library takes the
     *  mean. The ridge is in the block's `decay`, which the library applies to all weights; there are no shrinks. On
     *  failure nothing is used. */
    xsm_status (*joint)(void *state, const xsm_score_block *block, xsm_error *err);
    /** For estimators that are neither exact nor proximal by their flags and have no row_bound() or joint(): 1 if the
     *  state, after bind(), looks at every
     *  class of every example. It is then used as one with #XSM_ESTIMATOR_EXACT is: no select(), and place k of
     *  gradient()'s scores is class k, `lengths` and `classes` being NULL. NULL = never. */
    int32_t (*exact)(const void *state);
    /** Required with #XSM_ESTIMATOR_SAMPLER, whose tables need neither width() nor select(): says what is to be drawn.
     *  Called once, after bind(). */
    void (*plan)(const void *state, xsm_draw_plan *plan);
    /** Asks the processor for what gradient() will read of the state for an example (a prefetch): called for examples
     *  that are some steps ahead. NULL = nothing to ask for. */
    void (*fetch)(const void *state, const xsm_example *example);
    /** Says where number `index` of the state's tensors lies; returns 0 past the last, else 1. `tensor` starts as zeros
     *  but for `size`. After bind() all that changes as steps are taken must be in one of them: checkpoints save their
     *  numbers, and resuming writes them back over what bind() made. Floating-point numbers must be finite.
     *  Needed for checkpoints with #XSM_ESTIMATOR_ROW_STATE; NULL = nothing changes. */
    int32_t (*state_tensor)(void *state, uint32_t index, xsm_state_tensor *tensor);
    /** Required with #XSM_ESTIMATOR_INDEX: says what is to be searched. Called once, after bind(). */
    void (*search_plan)(const void *state, xsm_search_plan *plan);
    /** Required with #XSM_ESTIMATOR_INDEX: fills lists, coefficients and losses from what was found. As gradient(), it
     *  is called from several threads at once and cannot fail. */
    void (*search)(void *state, const xsm_search_block *block);
};

/** What xsm_estimator_check() is to hold a table to, beyond what every table must keep. */
enum {
    /** Coefficients and losses are finite for any scores up to 1e4 in size. */
    XSM_ESTIMATOR_CHECK_FINITE = 1,
    /** With the classes of an example given, its coefficients are the gradient of the loss that it reports, but for
     *  edges: a row whose loss has one where it is looked at is looked at elsewhere. Not looked at in tables with
     * #XSM_ESTIMATOR_PROXIMAL, whose step is another. */
    XSM_ESTIMATOR_CHECK_GRADIENT = 2,
    /** The coefficients of an example sum to zero: its loss does not change when all scores rise by one number. */
    XSM_ESTIMATOR_CHECK_ZERO_SUM = 4
};

/** How a table is tried by xsm_estimator_check(). Start with #XSM_ESTIMATOR_CHECK_OPTIONS_INIT; zero or NULL means the
 *  default, but for `promises`. */
typedef struct xsm_estimator_check_options {
    size_t size;            /**< sizeof(xsm_estimator_check_options). */
    uint32_t classes;       /**< K of the largest problem; default 20. */
    uint32_t features;      /**< D of it; default 5. */
    uint32_t promises;      /**< Sum of XSM_ESTIMATOR_CHECK_* values. */
    uint32_t reserved;      /**< Zero. */
    double eta;             /**< Learning rate; default 0.1. */
    double tolerance;       /**< How far coefficients may be from central differences, relative to 1 and the largest of
                                 the example's; default 1e-3. */
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

/** Tries a table on problems of several sizes, with dense and sparse rows, rows of zeros, models with a bias and
 *  without, a class without rows, and, for tables that take them, rows with several labels: that the table is complete
 *  and its options can be set; that select() lists the labels, no class twice and none beyond the last, and depends on
 *  the example alone; that gradient() fills what it must and nothing else, the same whatever the block holds besides,
 *  whatever its scratch memory and the places beyond a list held, on any number of threads, and a second time where no
 *  state is kept by row; that shrinks are in (0, 1]; that a joint batch has one list with all labels in it; what the
 *  options promise; and that every allocation of the context may fail.
 *  @param context context, or NULL
 *  @param ops     the table
 *  @param options how it is tried, or NULL
 *  @param err     what the table got wrong, and where
 *  @return #XSM_OK; #XSM_ERROR_DATA when the table is at fault; else as the functions of estimator.h. The smaller
 *          problems may be refused by bind() with #XSM_ERROR_RANGE or #XSM_ERROR_UNSUPPORTED, the largest may not. */
XSM_API xsm_status xsm_estimator_check(xsm_context *context, const xsm_estimator_ops *ops,
                                       const xsm_estimator_check_options *options, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
