/* SPDX-License-Identifier: MIT */
/**
 * @file search.h
 * @brief Indexes in files, and indexes of the host's own rows.
 */
#ifndef XSOFTMAX_SEARCH_H
#define XSOFTMAX_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/index.h>

/** @defgroup search Files of indexes, and rows of the host
 *
 * An index that takes seconds to build can be saved, and loaded over the same rows. It can hold rows that belong to no
 * model. xsm_evaluate_search() measures the search in a model's classes; for other rows an index `exact` finds what an
 * index should.
 *  @{ */

/** Rows to be indexed. Start with #XSM_INDEX_ROWS_INIT. */
typedef struct xsm_index_rows {
    size_t size;       /**< sizeof(xsm_index_rows). */
    const float *rows; /**< Row k at rows[k*stride], finite. Borrowed until the index is built again or
                            released, by predictors too. */
    size_t stride;     /**< Floats from one row to the next, >= width. */
    uint32_t count;    /**< K, 1 to #XSM_CLASSES_MAX. */
    uint32_t width;    /**< D, 1 to #XSM_FEATURES_MAX. */
    const float *bias; /**< [K] numbers that are added to the products, finite, borrowed as `rows`; or NULL. */
    int32_t dtype;     /**< Type of the rows, an XSM_DTYPE_* value; #XSM_DTYPE_FLOAT32, which is 0, is accepted. */
    int32_t reserved;  /**< Zero. */
} xsm_index_rows;

/** Starting value of an #xsm_index_rows. */
#define XSM_INDEX_ROWS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_index_rows), NULL, 0, 0, 0, NULL, 0, 0                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Builds the index of rows in the caller's memory. If the index is already built, it is built again from scratch.
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED for a number that is not finite (the message names its row); #XSM_ERROR_SHAPE
 *          for a stride below the width; #XSM_ERROR_UNSUPPORTED for rows that are not #XSM_DTYPE_FLOAT32;
 *          #XSM_ERROR_RANGE for an invalid number of rows or width, or an option that does not fit them. After a
 *          failure the index is not built. O(K D) for `exact`; O(K C D) for `spherical`. */
XSM_API xsm_status xsm_index_build(xsm_index *index, const xsm_index_rows *rows, xsm_error *err);

/** Saves a built index in a safetensors file, so that it need not be built again: its options and what build() has
 *  found, not the rows. An existing file is replaced atomically, or not changed on failure. If rows have changed since
 *  it was built, call xsm_index_update() first.
 *  @param index   a built index
 *  @param path    the file, or NULL for `storage`
 *  @param storage what is written in place of a file (@ref storage), or NULL
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_STATE if it is not built, or if its model has grown or has another
 *          geometry since; #XSM_ERROR_ARGUMENT for the file that the model is mapped from, which would be lost;
 *          #XSM_ERROR_UNSUPPORTED for a host's table without save() and restore(). O(K D), for a hash of the rows. */
XSM_API xsm_status xsm_index_save(const xsm_index *index, const char *path, const xsm_storage *storage, xsm_error *err);
/** Loads an index over the classes of the model that it was built of, or of a copy with the same weights. It is built,
 *  and finds what the saved index found, to the bit. The index keeps the model until it is built again or released.
 *  @param context context, or NULL
 *  @param path    a file of xsm_index_save(), or NULL for `storage`
 *  @param storage what is read in place of a file (@ref storage), or NULL
 *  @param ops     table of the host's index; NULL for a built-in index, whose name is in the file
 *  @param model   the model whose classes it searches
 *  @param[out] out the index, the caller's to release with xsm_index_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT for a file that is damaged or contains no index; #XSM_ERROR_NAME
 *          for an index that is not built in, or whose name is not that of `ops`; #XSM_ERROR_SHAPE for a model with
 *          another number of classes or features, #XSM_ERROR_STATE for one with other weights; #XSM_ERROR_UNSUPPORTED
 *          for a table without save() and restore(), and as xsm_index_build_model(). O(K D) */
XSM_API xsm_status xsm_index_load(xsm_context *context, const char *path, const xsm_storage *storage,
                                  const xsm_index_ops *ops, const xsm_model *model, xsm_index **out, xsm_error *err);
/** As xsm_index_load(), over rows in the caller's memory, which are borrowed as by xsm_index_build().
 *  @return as xsm_index_load(), with the rows in place of the model; #XSM_ERROR_SHAPE, #XSM_ERROR_RANGE,
 *          #XSM_ERROR_UNSUPPORTED for the rows as xsm_index_build(); #XSM_ERROR_DIVERGED */
XSM_API xsm_status xsm_index_load_rows(xsm_context *context, const char *path, const xsm_storage *storage,
                                       const xsm_index_ops *ops, const xsm_index_rows *rows, xsm_index **out,
                                       xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
