/* SPDX-License-Identifier: MIT */
/**
 * @file draw.h
 * @brief Draws and probabilities of a sampler, without an estimator.
 */
#ifndef XSOFTMAX_DRAW_H
#define XSOFTMAX_DRAW_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/sampler.h>

/** @defgroup draw Drawing classes
 *
 * Draws for a host's own losses, and the probabilities of a distribution.
 *  @{ */

/** Classes to draw, and where to write them. Start with #XSM_DRAW_INIT. */
typedef struct xsm_draw {
    size_t size;            /**< sizeof(xsm_draw). */
    const xsm_batch *batch; /**< n rows with the D that the sampler is bound to. */
    uint64_t seed;          /**< Names the random stream. */
    uint64_t position;      /**< Position of the first row in the random stream; row i draws at position + i. */
    uint32_t count;         /**< Number of classes for each row, m; 0 draws none. */
    int32_t distinct;       /**< 0: draws are independent. 1: draws are without replacement: each is from q restricted
                                 to the classes not yet drawn; m is at most the number of classes with a positive
                                 probability. */
    uint32_t *classes;      /**< [n][m] output. */
    double *log_probabilities; /**< [n][m] output: log q(k|x) of each drawn class, or NULL. */
} xsm_draw;

/** Starting value of an #xsm_draw. */
#define XSM_DRAW_INIT                                                                                                  \
    {                                                                                                                  \
        sizeof(xsm_draw), NULL, 0, 0, 0, 0, NULL, NULL                                                                 \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Draws classes for the rows of a batch.
 *  @param sampler  a bound sampler
 *  @param draw     the batch, the random stream, and the arrays to fill
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE if not bound; #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE for more distinct classes than
 *          there are, and for a host's table that draws what is no class, or a class with the probability 0, NaN or
 *          more than 1, and for a row whose features are so large that the distribution is none; after that and
 *          #XSM_CANCELLED the arrays are undefined. O(n m) draws; with `distinct` and m close to K, O(K log K) for each
 *          row. */
XSM_API xsm_status xsm_sampler_draw(const xsm_sampler *sampler, const xsm_draw *draw, xsm_error *err);

/** Computes the log-probabilities of the classes [first, first+count) for the rows of a batch.
 *  @param sampler  a bound sampler
 *  @param batch    n rows with the D that the sampler is bound to
 *  @param first    first class
 *  @param count    number of classes; first + count <= K
 *  @param[out] log_probabilities [n][count] log q(k|x); minus infinity for a class that is never drawn
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE if not bound; #XSM_ERROR_RANGE for classes or rows that do not exist, and
 *          for a row whose features are so large that the distribution is none; #XSM_ERROR_SHAPE; after
 *          #XSM_ERROR_RANGE and #XSM_CANCELLED the array is undefined. O(n count), times c for `tree`. */
XSM_API xsm_status xsm_sampler_log_probabilities(const xsm_sampler *sampler, const xsm_batch *batch, uint32_t first,
                                                 uint32_t count, float *log_probabilities, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
