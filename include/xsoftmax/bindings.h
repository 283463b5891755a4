/* SPDX-License-Identifier: MIT */
/**
 * @file bindings.h
 * @brief What the headers have as macros and inline functions, for other languages.
 */
#ifndef XSOFTMAX_BINDINGS_H
#define XSOFTMAX_BINDINGS_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/error.h>
#include <xsoftmax/estimator.h>

/** @defgroup bindings For other languages
 *
 * Functions that do what C programs do by a macro, an inline function or text. xsoftmax-abi.json describes the structs
 * (@ref guide_bindings).
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

/** Writes the starting value of a struct with a `size`: what its `XSM_..._INIT` has, or zeros and the size where it has
 *  none. For languages that cannot expand the macros.
 *  @param type name of the struct, such as "xsm_trainer_options"; also one of ext/ or libxsoftmax-words
 *  @param[out] out the caller's struct, of `size` bytes; members that the library does not know become zero
 *  @param size bytes of the struct in the program; becomes its `size`
 *  @param err  what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown name; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW for a size that
 *          no release has. Any thread. O(number of structs + size). */
XSM_API xsm_status xsm_struct_init(const char *type, void *out, size_t size, xsm_error *err);

/** Meaning of a status in a few words; NULL for an unknown number. Static string, any thread. */
XSM_API const char *xsm_status_text(xsm_status status);

/** As xsm_batch_range(), for languages that cannot call functions of a header: sets every member of the caller's batch
 *  except `size`, which the caller has set to its own (xsm_struct_init() does).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for no batch. O(1). */
XSM_API xsm_status xsm_batch_set_range(xsm_batch *batch, const xsm_dataset *dataset, uint64_t first, size_t count,
                                       xsm_error *err);

/** As xsm_batch_rows(), into the caller's batch: see xsm_batch_set_range(). */
XSM_API xsm_status xsm_batch_set_rows(xsm_batch *batch, const xsm_dataset *dataset, const uint64_t *rows, size_t count,
                                      xsm_error *err);

/** As xsm_batch_values(), into the caller's batch: see xsm_batch_set_range(). */
XSM_API xsm_status xsm_batch_set_values(xsm_batch *batch, const float *values, size_t count, uint32_t features,
                                        size_t stride, xsm_error *err);

/** As xsm_batch_sparse_values(), into the caller's batch: see xsm_batch_set_range(). */
XSM_API xsm_status xsm_batch_set_sparse_values(xsm_batch *batch, const uint64_t *offsets, const uint32_t *index,
                                               const float *values, size_t count, uint32_t features, xsm_error *err);

/** Sets a list of classes, without duplicates; it is copied. As text, a list is numbers separated by commas.
 *  @return #XSM_OK; #XSM_ERROR_NAME; #XSM_ERROR_FORMAT if the option is not a list; #XSM_ERROR_RANGE;
 *          #XSM_ERROR_STATE */
XSM_API xsm_status xsm_estimator_set_classes(xsm_estimator *estimator, const char *name, const uint32_t *classes,
                                             size_t count, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
