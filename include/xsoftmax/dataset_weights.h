/* SPDX-License-Identifier: MIT */
/**
 * @file dataset_weights.h
 * @brief Weights of the rows and labels of a dataset that exists already.
 */
#ifndef XSOFTMAX_DATASET_WEIGHTS_H
#define XSOFTMAX_DATASET_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>

/** @defgroup dataset_weights Weights of rows and labels
 *
 * A row of weight v counts as v copies of the row: training minimises the sum of the weights times the losses, and an
 * evaluation takes weighted means. xsm_dense_rows::weights and xsm_csr_rows::weights give a new dataset weights, and
 * xsm_batch::weights the rows of one batch; these functions change those of a dataset. @ref guide_weights says more.
 *
 * The weight v of a label multiplies its term of the loss: in the sum over the labels with one-vs-all, in their mean
 * with softmax.
 *  @{ */

/** Weights for a dataset. Start with #XSM_DATASET_WEIGHTS_INIT. */
typedef struct xsm_dataset_weights {
    size_t size;         /**< sizeof(xsm_dataset_weights). */
    const float *rows;   /**< [N] weight of each row, finite and at least 0; NULL = 1 each. Copied. */
    size_t row_count;    /**< Length of `rows`: N, or 0 with NULL. */
    const float *labels; /**< [xsm_dataset_info::labels] weight of each label, row after row; likewise. */
    size_t label_count;  /**< Length of `labels`, likewise. */
} xsm_dataset_weights;

/** Starting value of an #xsm_dataset_weights: no weights. */
#define XSM_DATASET_WEIGHTS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_dataset_weights), NULL, 0, NULL, 0                                                                  \
    }

/** How classes get weights. */
enum {
    /** L/(K n_k): L labels, of K classes that occur, n_k of them this one. With one label a row, N/(K n_k). The mean
     *  over all labels is 1. */
    XSM_CLASS_WEIGHTS_BALANCED = 1,
    /** The inverse propensity, 1 + C (n_k + B)^-A, C = (log N - 1) (B + 1)^A (Jain et al. 2016), by which
     *  xsm_metrics::psp weighs labels. */
    XSM_CLASS_WEIGHTS_PROPENSITY = 2,
    XSM_CLASS_WEIGHTS_GIVEN = 3 /**< `weights`, or those of the file `path`. */
};

/** Weights of classes. Start with #XSM_CLASS_WEIGHTS_INIT. */
typedef struct xsm_class_weights {
    size_t size;          /**< sizeof(xsm_class_weights). */
    int32_t method;       /**< An XSM_CLASS_WEIGHTS_* value. */
    int32_t reserved;     /**< Zero. */
    const float *weights; /**< [K] weight of each class, finite and at least 0. */
    size_t count;         /**< Length of `weights`: K, or 0 with NULL. */
    const char *path;     /**< A file, plain or gzip: `LABEL WEIGHT` a line, the label by its number in the data or,
                               where labels are words, its name; other labels have the weight 1. */
    double propensity_a;  /**< A, 0 to 10; #XSM_DEFAULT = 0.55. */
    double propensity_b;  /**< B, 0 to 1e9; #XSM_DEFAULT = 1.5. */
} xsm_class_weights;

/** Starting value of an #xsm_class_weights. */
#define XSM_CLASS_WEIGHTS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(xsm_class_weights), 0, 0, NULL, 0, NULL, XSM_DEFAULT, XSM_DEFAULT                                       \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Multiplies the weight of each label by that of its class, counted in the dataset as it is. Labels that are not in
 *  the class map keep theirs. An estimator that is bound to the dataset must be bound again.
 *  @param dataset the dataset; unchanged on failure
 *  @param weights the weights of the classes
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_FORMAT for a line of the file, with its number, also a label's second one;
 *  #XSM_ERROR_IO; #XSM_ERROR_RANGE for a weight that is not finite or below 0, or another member; #XSM_ERROR_SHAPE for
 *  another number of weights than of classes; #XSM_ERROR_ARGUMENT for GIVEN without weights. O(K + labels). */
XSM_API xsm_status xsm_dataset_weigh_classes(xsm_dataset *dataset, const xsm_class_weights *weights, xsm_error *err);
/** Replaces the weights of a dataset, of rows and of labels. An estimator that is bound to it must be bound again.
 *  @param dataset the dataset; unchanged on failure
 *  @param weights the weights, or NULL for none
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_SHAPE for another number of weights than of rows or labels; #XSM_ERROR_RANGE for a
 *          weight that is not finite or below 0. O(N). */
XSM_API xsm_status xsm_dataset_set_weights(xsm_dataset *dataset, const xsm_dataset_weights *weights, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
