/* SPDX-License-Identifier: MIT */
/**
 * @file filter.h
 * @brief Filters: which classes may be predicted, prepared once for many calls.
 */
#ifndef XSOFTMAX_FILTER_H
#define XSOFTMAX_FILTER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/predict.h>

/** @defgroup filter Filters of classes
 *
 * A filter says which of K classes may be predicted: those of a list, all but those of a list, or those of a bitmap. It
 * is made once and then used in any number of calls, for all rows (xsm_prediction::filter) or for some
 * (xsm_prediction::filters).
 *
 * **Threads.** A filter never changes. Any number of threads may use one at the same time.
 *  @{ */

/** The classes of a filter: those that every member allows. Start with #XSM_FILTER_CLASSES_INIT. */
typedef struct xsm_filter_classes {
    size_t size;            /**< sizeof(xsm_filter_classes). */
    uint32_t classes;       /**< K, as the model has. */
    uint32_t reserved;      /**< Zero. */
    const uint32_t *allow;  /**< [allow_count] the classes that may be predicted, in any order; NULL = all. An array of
                                 length 0 allows none. */
    size_t allow_count;     /**< Their number. */
    const uint32_t *deny;   /**< [deny_count] classes that may not be predicted, in any order, or NULL. */
    size_t deny_count;      /**< Their number. */
    const uint64_t *bitmap; /**< [ceil(K/64)] bit k%64 of number k/64 is 1 if class k may be predicted; bits from K on
                                 are ignored. NULL = all. */
} xsm_filter_classes;

/** Starting value of an #xsm_filter_classes. */
#define XSM_FILTER_CLASSES_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(xsm_filter_classes), 0, 0, NULL, 0, NULL, 0, NULL                                                       \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a filter; it keeps copies.
 *  @param context context, or NULL
 *  @param classes the classes
 *  @param[out] out the filter, the caller's to release with xsm_filter_free() when no call uses it
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_RANGE for K or a class that is not below it (the message names its position);
 *          #XSM_ERROR_ARGUMENT for a length without an array. O(K/64 + length of the lists); K/8 bytes, and 4 for each
 *          class where they are few. */
XSM_API xsm_status xsm_filter_new(xsm_context *context, const xsm_filter_classes *classes, xsm_filter **out,
                                  xsm_error *err);
/** Releases a filter; NULL is allowed. */
XSM_API void xsm_filter_free(xsm_filter *filter);
/** Number of classes that a filter leaves; 0 for NULL. O(1). */
XSM_API uint32_t xsm_filter_left(const xsm_filter *filter);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
