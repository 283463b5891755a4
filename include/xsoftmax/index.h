/* SPDX-License-Identifier: MIT */
/**
 * @file index.h
 * @brief Search for the largest inner products: finds the classes with the highest scores (logits) without scoring all.
 */
#ifndef XSOFTMAX_INDEX_H
#define XSOFTMAX_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/model.h>
#include <xsoftmax/option.h>

/** @defgroup index Search indexes
 *
 * An index contains K rows of D numbers, such as the rows of weights of a model. It finds the rows with the highest
 * score for a query: the inner product of row and query, plus the row's bias if there is one.
 *
 * Built in, with options that @ref method_options lists:
 *
 * | name | what it does | cost of a query |
 * |---|---|---|
 * | `exact` | scores every row, in tiles | K D |
 * | `spherical` | clusters of directions; scores the rows of the best clusters (Auvolat et al. 2015) | (C + probe) D |
 *
 * **Results** do not depend on the number of threads, nor on which queries are in the same call.
 *
 * **Threads.** Any number of threads may query one index at the same time. While an index is built or updated, no other
 * thread may use it.
 *  @{ */

/** An index; opaque. */
typedef struct xsm_index xsm_index;
/** Table of functions of an index, see ext/index.h. */
typedef struct xsm_index_ops xsm_index_ops;

/** A search for the rows with the highest scores for several queries. Start with #XSM_INDEX_SEARCH_INIT. */
typedef struct xsm_index_search {
    size_t size;             /**< sizeof(xsm_index_search). */
    const float *queries;    /**< Query i at queries[i*stride], D numbers. */
    size_t stride;           /**< Floats from one query to the next, >= D. */
    size_t count;            /**< n >= 1. */
    uint32_t top;            /**< Most rows for each query, 1 to K. */
    int32_t has_least_score; /**< 1: `least_score` counts. */
    float least_score;       /**< Rows with a score below it are left out. */
    int32_t dtype;     /**< Type of the queries, an XSM_DTYPE_* value; #XSM_DTYPE_FLOAT32, which is 0, is accepted. */
    uint32_t *classes; /**< [n][top] output: rows, highest score first; rows with equal scores in increasing
                            order. */
    float *scores;     /**< [n][top] output: their scores, as the index computes them. */
    uint32_t *lengths; /**< [n] output: number of rows found for each query. The unused entries of `classes` are
                            UINT32_MAX. */
    uint64_t probed;   /**< Output: rows that were scored for all queries together; 0 if the index does not count
                            them. */
} xsm_index_search;

/** Starting value of an #xsm_index_search. */
#define XSM_INDEX_SEARCH_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_index_search), NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0                                          \
    }

/** Facts about an index. Start with #XSM_INDEX_INFO_INIT. */
typedef struct xsm_index_info {
    size_t size;       /**< sizeof(xsm_index_info). */
    uint32_t rows;     /**< K; 0 = not built. */
    uint32_t width;    /**< D. */
    uint32_t clusters; /**< C; 0 if the index has no clusters. */
    uint32_t largest;  /**< Rows of the largest cluster. */
    uint64_t moved;    /**< Rows that updates have moved to another cluster since the last build of the whole index. */
    uint64_t rebuilds; /**< Number of times that an update built the whole index again, because rows had moved too
                            far. */
    const char *name;  /**< The index's name; borrowed. */
} xsm_index_info;

/** Starting value of an #xsm_index_info. */
#define XSM_INDEX_INFO_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_index_info), 0, 0, 0, 0, 0, 0, NULL                                                                 \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an index with its default options.
 *  @param context context, or NULL
 *  @param name    name of a built-in index
 *  @param[out] out the index, the caller's to release with xsm_index_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown name (the message suggests a similar one) */
XSM_API xsm_status xsm_index_new(xsm_context *context, const char *name, xsm_index **out, xsm_error *err);
/** Gives up the caller's reference to an index; NULL is allowed. Predictors keep theirs. */
XSM_API void xsm_index_free(xsm_index *index);
/** Returns another reference to an index, which the caller gives up with xsm_index_free(); NULL for NULL. Any thread.
 *  O(1). */
XSM_API xsm_index *xsm_index_ref(const xsm_index *index);

/** Sets an option from text. Options can be set until the index is built.
 *  @return #XSM_OK; #XSM_ERROR_NAME for an unknown option (the message suggests a similar name); #XSM_ERROR_RANGE or
 *          #XSM_ERROR_FORMAT for the value (the message says what is accepted); #XSM_ERROR_STATE if the index is
 *          built */
XSM_API xsm_status xsm_index_set(xsm_index *index, const char *name, const char *value, xsm_error *err);
/** Sets a numeric option; an integer option accepts integers only. Returns as xsm_index_set(). */
XSM_API xsm_status xsm_index_set_number(xsm_index *index, const char *name, double value, xsm_error *err);
/** Writes the value of an option as text to `buffer` (always terminated, truncated to `size` bytes; may be NULL).
 *  Returns the length of the whole text without the terminator, 0 for an empty value; SIZE_MAX, and an empty text,
 *  if there is no such option. */
XSM_API size_t xsm_index_get(const xsm_index *index, const char *name, char *buffer, size_t size);

/** As xsm_index_build(), for the classes of a model. The score of a class is the product of its row of weights with the
 *  features (in an embedding model, with the hidden vector), plus its bias, plus its correction if the model's
 *  correction is "classes" (xsm_model_info::correction). The index keeps the model until it is built again or released.
 *  @return as xsm_index_build(); #XSM_ERROR_UNSUPPORTED for a model whose correction is a tree, a hierarchy or pairs,
 *          and for one whose classes are divided among processes (ext/comm.h) */
XSM_API xsm_status xsm_index_build_model(xsm_index *index, const xsm_model *model, xsm_error *err);
/** Updates the index after rows have changed. If rows have moved too far, the whole index is built again.
 *  @param index   a built index
 *  @param classes [count] the rows that changed, without duplicates
 *  @param count   number of these rows
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_DIVERGED for a number that is not finite; #XSM_ERROR_STATE if not built, or if its model
 *          has grown or has another geometry since; #XSM_ERROR_RANGE for a row that does not exist. After a failure the
 *          index may contain old values of some rows. O(count C D) for `spherical`. */
XSM_API xsm_status xsm_index_update(xsm_index *index, const uint32_t *classes, size_t count, xsm_error *err);
/** Searches, on the context's threads.
 *  @return #XSM_OK; #XSM_ERROR_STATE if not built; #XSM_ERROR_SHAPE for a stride below D; #XSM_ERROR_RANGE for
 *          `count`, `top` or `least_score`, a query that is not finite, and a score that is not in a list;
 *          #XSM_ERROR_UNSUPPORTED for queries that are not #XSM_DTYPE_FLOAT32; #XSM_ERROR_DATA if a host's table
 *          returns invalid lists; the errors of a host's table. O(n K D) for `exact`, O(n (C + probe) D) for
 *          `spherical`. */
XSM_API xsm_status xsm_index_query(const xsm_index *index, xsm_index_search *search, xsm_error *err);
/** Fills `info` (start it with #XSM_INDEX_INFO_INIT); all but the name is zero if the index is not built. O(C).
 *  @return #XSM_OK, or what any function may return (@ref error) */
XSM_API xsm_status xsm_index_get_info(const xsm_index *index, xsm_index_info *info, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
