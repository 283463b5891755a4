/**
 * @file estimator.h
 * @brief Estimators: which classes a step looks at, and the score gradient that comes of it.
 */
#ifndef XSOFTMAX_ESTIMATOR_H
#define XSOFTMAX_ESTIMATOR_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/index.h>
#include <xsoftmax/model.h>
#include <xsoftmax/option.h>
#include <xsoftmax/sampler.h>

/** @defgroup estimator Estimators
 *
 * An estimator turns a batch into a **sparse score gradient**: for each example a list of classes k with coefficients
 * g_ik, so that the gradient with respect to a row of weights is the sum of g_ik x_i. It never touches the weights
 * itself; an optimizer does, or the host.
 *
 * **Scale.** A gradient estimates the gradient of the *mean* loss per example. The papers' sums over N examples have
 * the factor N in front of their learning rate: eta here = N times eta there. Ridge mu means that the whole objective
 * is f = sum_i loss_i + (mu/2) ||W||^2 (the bias is free), so a step on the mean shrinks by mu/N. This is the same for
 * every estimator.
 *
 * Built in:
 *
 * | name | what a step looks at | converges to |
 * |---|---|---|
 * | `softmax` | all classes | the maximum likelihood |
 * | `bouchard` | all classes | the optimum of Bouchard's upper bound of the log-loss (Bouchard 2007) |
 * | `margin` | all classes | the smoothed margin's optimum (Crammer and Singer; Yen et al. 2018) |
 * | `one-vs-all` | all classes | each class's own logistic regression |
 * | `one-vs-all-sampled` | the labels and m others | the same |
 * | `ove` | the label and m others, or all classes | the one-vs-each bound's optimum (Titsias 2016) |
 * | `umax` | the label and m others | the maximum likelihood, for small steps (Fagan and Iyengar 2018) |
 * | `vanilla` | the label and m others | the maximum likelihood, while it does not diverge (the same) |
 * | `raman` | the label and m others | the maximum likelihood, while it does not diverge (Raman et al. 2016) |
 * | `implicit` | the label and m others | the maximum likelihood (Fagan and Iyengar 2018) |
 * | `augment-reduce` | the label and m others | the maximum likelihood, as bounds settle (Ruiz et al. 2018) |
 * | `nce` | the label and m drawn | the maximum likelihood, if the model can be normalised (Gutmann 2010) |
 * | `importance` | the label and m drawn | biased (Bengio and Senecal 2003) |
 * | `sampled-softmax` | the labels and m drawn | the maximum likelihood as m grows (Jean et al. 2015) |
 * | `negative-sampling` | the label and m drawn | the same less log q, see xsm_model_correction() (Bamler 2020) |
 * | `ove-sampled` | the label and m drawn | the one-vs-each bound's optimum (Titsias 2016) |
 * | `ove-searched` | the label, what a search finds and m others | a tighter bound's optimum (Titsias 2016) |
 * | `hierarchical` | the path to the label in a tree | the tree's maximum likelihood (Morin and Bengio 2005) |
 * | `mips` | the labels and the classes that a search finds | biased; near the loss's optimum (Yen et al. 2018) |
 * | `decomp-mips` | the same, found by blocks of coordinates | biased, less (Yen et al. 2018) |
 *
 * "Drawn" is by a sampler (sampler.h), any of them; a search is by an index (index.h), any of them.
 *
 * `softmax`, `bouchard`, `margin`, both `one-vs-all`, `sampled-softmax`, `mips` and `decomp-mips` take rows with
 * several labels.
 *
 * **Threads.** One thread at a time on one estimator; it uses its context's threads itself.
 *  @{ */

/** An estimator; opaque. */
typedef struct xsm_estimator xsm_estimator;
/** A sparse score gradient, reused from step to step; opaque. */
typedef struct xsm_gradient xsm_gradient;
/** Table of an estimator of the host's own, see ext/estimator.h. */
typedef struct xsm_estimator_ops xsm_estimator_ops;

/** What a gradient holds. Pointers are borrowed until the gradient is next filled or freed.
 *
 * The step that goes with it, for an example x_i, its classes k and learning rate eta:
 * w_k <- shrink_ik (decay w_k - eta g_ik x_i), b_k <- b_k - eta g_ik,
 * and w_k <- decay w_k for the classes that the batch does not name. `decay` is taken once a batch. Where `row_bound`
 * is above 0, each w_k that the batch names and that is longer after the whole batch is then scaled to that length. */
typedef struct xsm_gradient_view {
    size_t size;               /**< sizeof(xsm_gradient_view). */
    uint64_t examples;         /**< n. */
    uint64_t width;            /**< Places a row in the arrays below. */
    const uint32_t *lengths;   /**< [n] classes of each example; NULL = `width` for each. */
    const uint32_t *classes;   /**< [n][width]; NULL = place k is class k. */
    const float *coefficients; /**< [n][width] the g_ik, the mean over the batch taken. */
    const double *shrinks;     /**< [n][width], or NULL = 1: factors of estimators that take a proximal step. */
    double decay;              /**< Factor that the ridge asks of every weight. */
    double loss;               /**< Mean over the batch of the estimator's own estimate of the loss. */
    double row_bound;          /**< Largest ||w_k|| after the step; 0 = any. */
} xsm_gradient_view;

/** Starting value of an #xsm_gradient_view. */
#define XSM_GRADIENT_VIEW_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_gradient_view), 0, 0, NULL, NULL, NULL, NULL, 1, 0, 0                                               \
    }

/** What is known beforehand of rows that come as a stream. Start with #XSM_STREAM_OPTIONS_INIT. */
typedef struct xsm_stream_options {
    size_t size;                  /**< sizeof(xsm_stream_options). */
    uint64_t examples;            /**< N, the rows that a ridge is of; needed with a ridge. Estimators that search
                                       begin to after so many on a model of zeros. */
    uint64_t ids;                 /**< Ids that rows may have: 0, 1, ... below this. What an estimator keeps of each
                                       takes memory, 8 bytes for those built in, 16 for
                                       `augment-reduce`. */
    uint64_t batch;               /**< Most rows of a batch in which some have no id; 0 = 256. */
    uint32_t labels;              /**< Most labels of a row; 0 = 1. */
    uint32_t reserved;            /**< Zero. */
    const uint64_t *class_counts; /**< [K] how often each class occurs, for samplers that go by it; NULL = not known. */
} xsm_stream_options;

/** Starting value of an #xsm_stream_options. */
#define XSM_STREAM_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_stream_options), 0, 0, 0, 0, 0, NULL                                                                \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Number of built-in estimators. */
XSM_API size_t xsm_estimator_count(void);
/** Table of built-in estimator number `index`, NULL past the last. Static. */
XSM_API const xsm_estimator_ops *xsm_estimator_at(size_t index);
/** Table of a built-in estimator by name; NULL if there is none. Static. */
XSM_API const xsm_estimator_ops *xsm_estimator_find(const char *name);
/** Name of an estimator's table. */
XSM_API const char *xsm_estimator_ops_name(const xsm_estimator_ops *ops);
/** What an estimator does, in one line. */
XSM_API const char *xsm_estimator_ops_summary(const xsm_estimator_ops *ops);
/** Option number `index` of an estimator, those that all have (`ridge`, `seed`) first; NULL past the last. */
XSM_API const xsm_option *xsm_estimator_ops_option(const xsm_estimator_ops *ops, size_t index);

/** Makes an estimator with its default options.
 *  @param context context, or NULL
 *  @param name    one of the table above
 *  @param[out] out the estimator, the caller's to release with xsm_estimator_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming the nearest; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_estimator_new(xsm_context *context, const char *name, xsm_estimator **out, xsm_error *err);
/** The same from a table, of the library's or the host's own; the table must outlive the estimator.
 *  @return as xsm_estimator_new(), and #XSM_ERROR_ARGUMENT for a table that lacks a required entry,
 *          #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW for one of another ABI */
XSM_API xsm_status xsm_estimator_new_from(xsm_context *context, const xsm_estimator_ops *ops, xsm_estimator **out,
                                          xsm_error *err);
/** Releases an estimator; NULL is fine. What it was bound to may be gone by then. */
XSM_API void xsm_estimator_free(xsm_estimator *estimator);
/** The estimator's name; borrowed. */
XSM_API const char *xsm_estimator_name(const xsm_estimator *estimator);

/** Sets an option from text. Options can be set until the estimator is bound. Estimators that take a sampler have the
 *  option `sampler`, which makes a new one with its defaults, and that one's options as `sampler.KEY`; those that
 *  search have `index` and `index.KEY` likewise.
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming the nearest option; #XSM_ERROR_RANGE or #XSM_ERROR_FORMAT for
 *          the value, the message saying what is accepted; #XSM_ERROR_STATE when it is bound */
XSM_API xsm_status xsm_estimator_set(xsm_estimator *estimator, const char *name, const char *value, xsm_error *err);
/** Sets a number; whole numbers only for an integer option. Returns as xsm_estimator_set(). */
XSM_API xsm_status xsm_estimator_set_double(xsm_estimator *estimator, const char *name, double value, xsm_error *err);
/** Sets a whole number. Returns as xsm_estimator_set(). */
XSM_API xsm_status xsm_estimator_set_int(xsm_estimator *estimator, const char *name, int64_t value, xsm_error *err);
/** Sets a list of classes, which is copied; none twice. In text it is numbers with commas.
 *  @return #XSM_OK; #XSM_ERROR_NAME; #XSM_ERROR_FORMAT when the option is no list; #XSM_ERROR_RANGE; #XSM_ERROR_STATE;
 *          #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_estimator_set_classes(xsm_estimator *estimator, const char *name, const uint32_t *classes,
                                             uint32_t count, xsm_error *err);
/** Writes an option's value as text to buffer (always terminated, cut if need be; may be NULL) and returns the length
 *  that it has whole; 0 if there is no such option. */
XSM_API size_t xsm_estimator_get(const xsm_estimator *estimator, const char *name, char *buffer, size_t size);

/** Has an estimator draw classes with a sampler of the host's making, in place of the one that its options name.
 *  @param estimator an estimator that takes a sampler, not bound
 *  @param sampler   the sampler, which must outlive its use. It may be bound already, to rows with the classes and
 *                   features of those that the estimator will be bound to; otherwise it is bound with the estimator.
 * Several estimators may share one. NULL: back to the estimator's own
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_UNSUPPORTED for an estimator that takes no sampler;
 * #XSM_ERROR_STATE when it is bound */
XSM_API xsm_status xsm_estimator_set_sampler(xsm_estimator *estimator, xsm_sampler *sampler, xsm_error *err);
/** The sampler that an estimator draws with, the estimator's or the host's; NULL for one that takes none. Borrowed. */
XSM_API const xsm_sampler *xsm_estimator_sampler(const xsm_estimator *estimator);

/** Has an estimator that searches make its indexes like one of the host's: with its table and options, in place of what
 *  the option `index` names. Copied; `like` need not stay.
 *  @param estimator an estimator that searches, not bound
 *  @param like      an index that is not built. NULL: back to what the options name
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_UNSUPPORTED for an estimator that does not search;
 *          #XSM_ERROR_STATE when it is bound, or `like` is built; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_estimator_set_index(xsm_estimator *estimator, const xsm_index *like, xsm_error *err);
/** What the indexes of an estimator that searches hold, one for each block of coordinates.
 *  @param estimator an estimator
 *  @param block     number of the block, from 0
 *  @param[out] info filled; `rows` is 0 as long as the search has not begun
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_UNSUPPORTED for one that does not search; #XSM_ERROR_STATE when it
 *          is not bound; #XSM_ERROR_RANGE for a block that is not there */
XSM_API xsm_status xsm_estimator_index_info(const xsm_estimator *estimator, uint32_t block, xsm_index_info *info,
                                            xsm_error *err);

/** Prepares an estimator for a model and its training data: checks that they fit, sizes its state. Both must stay
 *  while the estimator is used. Binding again starts anew.
 *  @return #XSM_OK; #XSM_ERROR_SHAPE when D or K of the two differ; #XSM_ERROR_DATA for rows without a label or with
 *          more than the estimator takes, or with one that the class map lacks; #XSM_ERROR_RANGE for an option that
 * does not fit the data (more negatives than there are other classes); #XSM_ERROR_UNSUPPORTED for a model that the
 *          estimator cannot train: with a correction of another (xsm_model_correction()), scores that are distances
 *          under a ridge, a proximal step or a bound on rows, tied vectors under a search or a hierarchy;
 *          #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER; what its sampler's xsm_sampler_bind() and a host's table return.
 *          O(N + values), with the sampler's work besides. */
XSM_API xsm_status xsm_estimator_bind(xsm_estimator *estimator, const xsm_model *model, const xsm_dataset *train,
                                      xsm_error *err);
/** The same for rows whose features come with each batch (xsm_batch_values()), such as the output of a network of the
 *  host's: of `train` only labels and classes are used, and it may have any number of features, 0 too.
 *  @return as xsm_estimator_bind(); K must be the same, D need not. #XSM_ERROR_SHAPE for a sampler that draws by the
 *          features of a row and has been bound to rows of other than the model's D; such a sampler is to be bound
 *          first (xsm_estimator_set_sampler()) */
XSM_API xsm_status xsm_estimator_bind_labels(xsm_estimator *estimator, const xsm_model *model, const xsm_dataset *train,
                                             xsm_error *err);
/** Prepares an estimator for rows that come as a stream, of which there is no dataset: every batch brings features and
 *  labels (xsm_batch_values(), xsm_batch_sparse_values(), xsm_batch::labels). What estimators such as `umax` keep by
 * row is kept by the host's ids (xsm_batch::ids); a row without one starts anew each time, for which estimators that
 * keep nothing by row suit better. A sampler that looks at rows, `tree`, must be bound and handed in before.
 *
 *  Called again on an estimator that is bound to a stream, after xsm_model_grow() or for more ids, it keeps what
 * belongs to the ids that remain, and goes on in the random stream.
 *  @param estimator the estimator
 *  @param model     the model, which must stay
 *  @param options   settings, or NULL
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE; #XSM_ERROR_DATA for several labels a row where the estimator takes one;
 *          #XSM_ERROR_UNSUPPORTED for a host's table that keeps something by row without saying what
 *          (xsm_estimator_ops::state_tensor); what xsm_estimator_bind() returns; #XSM_ERROR_MEMORY. O(K). */
XSM_API xsm_status xsm_estimator_bind_stream(xsm_estimator *estimator, const xsm_model *model,
                                             const xsm_stream_options *options, xsm_error *err);
/** Most examples in a batch of this estimator; 0 = any number. */
XSM_API uint64_t xsm_estimator_batch_limit(const xsm_estimator *estimator);

/** Computes a score gradient at the model's weights. Each call goes on in the estimator's random stream.
 *  @param estimator a bound estimator
 *  @param batch     rows of the data that it is bound to, with the data's features or the host's own
 *                   (xsm_batch::values)
 *  @param eta       learning rate, > 0: estimators whose step is not linear in it need it
 *  @param gradient  filled; on failure it holds nothing
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE when not bound, or when model or data have other classes than then;
 *          #XSM_ERROR_ARGUMENT, #XSM_ERROR_SHAPE, #XSM_ERROR_RANGE, #XSM_ERROR_UNSUPPORTED for the batch;
 *          #XSM_ERROR_RANGE for eta; #XSM_ERROR_LIMIT for a batch whose coefficients cannot be addressed;
 *          #XSM_ERROR_DIVERGED when scores or coefficients are not finite or too large for a step; #XSM_ERROR_MEMORY;
 *          #XSM_ERROR_RUNNER. O(n m nnz), m the classes that a step looks at; a search costs what its index does. */
XSM_API xsm_status xsm_estimator_gradient(xsm_estimator *estimator, const xsm_batch *batch, double eta,
                                          xsm_gradient *gradient, xsm_error *err);

/** The same, and with it the gradient with respect to the rows' features, for a host that has a network below: loss,
 *  score gradient and dL/dx in one pass over the weights. L is the mean over the batch of the estimator's loss, for
 *  sampled estimators with the draws as they fell, and the correction of a model's scores held constant. A proximal
 *  estimator's step minimises, in the weights (and in what it keeps for the row), its loss and ridge plus the squared
 *  distance from where they were over 2 eta; L is then that minimum as a function of x (the Moreau envelope), and
 *  dL/dx = sum_k g_k w_k with the weights after the step. To be called before the step is taken.
 *  @param estimator a bound estimator
 *  @param batch     n rows of the data that it is bound to
 *  @param eta       learning rate, > 0
 *  @param gradient  filled; on failure it holds nothing
 *  @param[out] input_gradient [n][D] dL/dx, the mean over the batch taken, row i's at input_gradient[i*stride]; of no
 *                   meaning after a failure
 *  @param stride    floats from row to row, >= D
 *  @param err       what went wrong, or NULL
 *  @return as xsm_estimator_gradient(); #XSM_ERROR_SHAPE for the stride; #XSM_ERROR_UNSUPPORTED where the estimator
 *          takes several rows as a whole (`implicit` with n > 1), and for an embedding model. O(n m D) beside the
 * gradient's own cost, m the classes that it names */
XSM_API xsm_status xsm_estimator_gradient_input(xsm_estimator *estimator, const xsm_batch *batch, double eta,
                                                xsm_gradient *gradient, float *input_gradient, size_t stride,
                                                xsm_error *err);

/** Makes an empty gradient.
 *  @param context context, or NULL
 *  @param[out] out the gradient, the caller's to release with xsm_gradient_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_gradient_new(xsm_context *context, xsm_gradient **out, xsm_error *err);
/** Releases a gradient; NULL is fine. */
XSM_API void xsm_gradient_free(xsm_gradient *gradient);
/** Fills `view` (start it with #XSM_GRADIENT_VIEW_INIT). O(1).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_gradient_get(const xsm_gradient *gradient, xsm_gradient_view *view, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
