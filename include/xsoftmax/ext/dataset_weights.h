/**
 * @file ext/dataset_weights.h
 * @brief Weights of the rows of a dataset that exists already.
 */
#ifndef XSOFTMAX_EXT_DATASET_WEIGHTS_H
#define XSOFTMAX_EXT_DATASET_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/dataset.h>

/** @defgroup ext_dataset_weights Weights of rows
 *
 * A row of weight v counts as v copies of the row: training minimises the sum of the weights times the losses, and an
 * evaluation takes weighted means. xsm_dense_rows::weights and xsm_csr_rows::weights give a new dataset weights, and
 * xsm_batch::weights the rows of one batch; this function changes those of a dataset. @ref guide_weights says more.
 *  @{ */

/** Weights for a dataset. Start with #XSM_DATASET_WEIGHTS_INIT. */
typedef struct xsm_dataset_weights {
    size_t size;       /**< sizeof(xsm_dataset_weights). */
    const float *rows; /**< [N] weight of each row, finite and at least 0; NULL = 1 each. Copied. */
} xsm_dataset_weights;

/** Starting value of an #xsm_dataset_weights: no weights. */
#define XSM_DATASET_WEIGHTS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_dataset_weights), NULL                                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Replaces the weights of a dataset. An estimator that is bound to it must be bound again.
 *  @param dataset the dataset; unchanged on failure
 *  @param weights the weights, or NULL for none
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for a weight that is not finite or below 0. O(N). */
XSM_API xsm_status xsm_dataset_set_weights(xsm_dataset *dataset, const xsm_dataset_weights *weights, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
