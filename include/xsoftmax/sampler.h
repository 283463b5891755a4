/* SPDX-License-Identifier: MIT */
/**
 * @file sampler.h
 * @brief Samplers: distributions over the classes, from which negatives are drawn.
 */
#ifndef XSOFTMAX_SAMPLER_H
#define XSOFTMAX_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/estimator.h>

/** @defgroup sampler Samplers
 *
 * A sampler is a distribution q(k|x) over the K classes, which may depend on the features x of an example. It draws
 * classes at low cost and computes the probability of each drawn class. Estimators that compute the scores (logits) of
 * sampled classes correct for these probabilities. Built in, with options that
 * @ref method_options lists:
 *
 * | name | q(k given x) | cost of a draw |
 * |---|---|---|
 * | `uniform` | 1/K | O(1) |
 * | `frequency` | proportional to (rows of class k + smoothing)^power | O(1), an alias table |
 * | `tree` | a balanced tree of logistics over c principal components (Bamler and Mandt 2020) | O(c log K) |
 * | `label-tree` | clusters of classes that a label tree finds likely, and a share by frequency | O(log K) |
 * | `recent` | a mixture of the last examples' labels and all classes; follows the training | O(1) |
 * | `midx` | codebooks of M words of the present weights (Chen et al. 2025); follows it, too | O(M), O(M^2) a row |
 *
 * Most programs do not need to make a sampler: estimators that use a sampler have the option `sampler`, and the options
 * of the sampler as `sampler.KEY`, as in xsm_estimator_set(estimator, "sampler.power", "0.75", &err).
 * xsm_estimator_set_sampler() sets a sampler that the program has made.
 *
 * **Randomness.** A draw depends only on the seed and the position of the example, not on threads or earlier draws.
 *
 * **Threads.** Any number of threads may use a bound const sampler at the same time.
 *  @{ */

/** Table of functions of a sampler, see ext/sampler.h. */
typedef struct xsm_sampler_ops xsm_sampler_ops;

/** Facts about a sampler. Start with #XSM_SAMPLER_INFO_INIT. */
typedef struct xsm_sampler_info {
    size_t size;       /**< sizeof(xsm_sampler_info). */
    const char *name;  /**< The sampler's name; borrowed. */
    uint32_t classes;  /**< K of the data that it is bound to; 0 if it is not bound. */
    uint32_t reserved; /**< Zero. */
} xsm_sampler_info;

/** Starting value of an #xsm_sampler_info. */
#define XSM_SAMPLER_INFO_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_sampler_info), NULL, 0, 0                                                                           \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a sampler with its default options.
 *  @param context context, or NULL
 *  @param name    name of a built-in sampler
 *  @param[out] out the sampler, the caller's to release with xsm_sampler_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown name (the message suggests a similar one) */
XSM_API xsm_status xsm_sampler_new(xsm_context *context, const char *name, xsm_sampler **out, xsm_error *err);
/** Gives up the caller's reference to a sampler; NULL is allowed. Estimators that it was set for keep it. */
XSM_API void xsm_sampler_free(xsm_sampler *sampler);
/** Returns another reference to a sampler, which the caller gives up with xsm_sampler_free(); NULL for NULL. Any
 *  thread. O(1). */
XSM_API xsm_sampler *xsm_sampler_ref(const xsm_sampler *sampler);

/** Fills `info` (start it with #XSM_SAMPLER_INFO_INIT). O(1).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_sampler_get_info(const xsm_sampler *sampler, xsm_sampler_info *info, xsm_error *err);

/** Sets an option from text. Options can be set until the sampler is bound.
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown option (the message suggests a similar name); #XSM_ERROR_RANGE or
 *          #XSM_ERROR_FORMAT for the value (the message says what is accepted); #XSM_ERROR_STATE if the sampler is
 *          bound */
XSM_API xsm_status xsm_sampler_set(xsm_sampler *sampler, const char *name, const char *value, xsm_error *err);
/** Sets a numeric option; an integer option accepts integers only. Returns as xsm_sampler_set(). */
XSM_API xsm_status xsm_sampler_set_number(xsm_sampler *sampler, const char *name, double value, xsm_error *err);
/** Writes the value of an option as text to `buffer` (always terminated, truncated to `size` bytes; may be NULL).
 *  Returns the length of the whole text without the terminator, 0 for an empty value; SIZE_MAX, and an empty text,
 *  if there is no such option. */
XSM_API size_t xsm_sampler_get(const xsm_sampler *sampler, const char *name, char *buffer, size_t size);

/** Computes the distribution from training rows. The rows are not needed afterwards. Binding again computes it from
 *  scratch.
 *  @return #XSM_OK; #XSM_ERROR_STATE while an estimator that draws from it is bound; #XSM_ERROR_DATA if no class has a
 *          positive probability; #XSM_ERROR_RANGE for an option that does not fit the data; #XSM_ERROR_UNSUPPORTED for
 *          `tree` and `label-tree` with rows without features; the errors of xsm_fit_label_tree() and of a host's
 *          table. O(1) for `uniform`, O(K) for `frequency`, O(N c^2 log K) for `tree`, plus the cost of the principal
 *          components; that of xsm_fit_label_tree() for `label-tree`. */
XSM_API xsm_status xsm_sampler_bind(xsm_sampler *sampler, const xsm_dataset *train, xsm_error *err);

/** Saves the options and the distribution of a bound sampler in a safetensors file, so that a tree need not be fitted
 *  again. The training rows are not saved. An existing file is replaced atomically, or not changed on failure.
 *  @param sampler a bound sampler
 *  @param path    the file, or NULL for `storage`
 *  @param storage what is written in place of a file (@ref storage), or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_STATE if it is not bound; #XSM_ERROR_UNSUPPORTED for a host's table
 *          without save(); the errors of the table's save() */
XSM_API xsm_status xsm_sampler_save(const xsm_sampler *sampler, const char *path, const xsm_storage *storage,
                                    xsm_error *err);
/** Loads a sampler. It is bound, and its draws are bit-identical to those of the saved sampler.
 *  @param context context, or NULL
 *  @param path    a file of xsm_sampler_save(), or NULL for `storage`
 *  @param storage what is read in place of a file (@ref storage), or NULL
 *  @param ops     table of the host's sampler; NULL for a built-in sampler, whose name is in the file
 *  @param[out] out the sampler, the caller's to release with xsm_sampler_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT for a file that is damaged or contains no sampler; #XSM_ERROR_NAME
 *          for a sampler that is not built in, or whose name is not that of `ops`; #XSM_ERROR_UNSUPPORTED for a table
 *          without load() */
XSM_API xsm_status xsm_sampler_load(xsm_context *context, const char *path, const xsm_storage *storage,
                                    const xsm_sampler_ops *ops, xsm_sampler **out, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
