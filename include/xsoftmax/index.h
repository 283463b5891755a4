/**
 * @file index.h
 * @brief Search for the largest inner products: which classes score best, without scoring all.
 */
#ifndef XSOFTMAX_INDEX_H
#define XSOFTMAX_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/model.h>
#include <xsoftmax/option.h>

/** @defgroup index Search indexes
 *
 * An index holds K rows of D numbers and finds those with the largest inner product with a query (plus the row's bias,
 * if there is one): the rows of a model's weights, or any others.
 *
 * | name | what it does | cost of a query |
 * |---|---|---|
 * | `exact` | scores every row, in tiles | K D |
 * | `spherical` | clusters of directions; scores the rows of the best clusters (Auvolat et al. 2015) | (C + probe) D |
 *
 * **Results** do not depend on the number of threads, nor on which queries are asked together.
 *
 * **Threads.** Any number of threads may query one index at once; building and updating must be alone.
 *  @{ */

/** An index; opaque. */
typedef struct xsm_index xsm_index;
/** Table of an index of the host's own, see ext/index.h. */
typedef struct xsm_index_ops xsm_index_ops;

/** Rows to be indexed. */
typedef struct xsm_index_rows {
    size_t size;       /**< sizeof(xsm_index_rows). */
    const float *rows; /**< Row k at rows[k*stride], finite. Borrowed until the index is built anew or freed. */
    size_t stride;     /**< Floats from row to row, >= width. */
    uint32_t count;    /**< K, 1 to #XSM_CLASSES_MAX. */
    uint32_t width;    /**< D, 1 to #XSM_FEATURES_MAX. */
    const float *bias; /**< [K] added to the products, finite, or NULL. Borrowed likewise. */
} xsm_index_rows;

/** Starting value of an #xsm_index_rows. */
#define XSM_INDEX_ROWS_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_index_rows), NULL, 0, 0, 0, NULL                                                                    \
    }

/** A search for the best rows of several queries. */
typedef struct xsm_index_search {
    size_t size;           /**< sizeof(xsm_index_search). */
    const float *queries;  /**< Query i at queries[i*stride], D numbers. */
    size_t stride;         /**< Floats from query to query, >= D. */
    uint64_t count;        /**< n >= 1. */
    uint32_t top;          /**< Most rows a query, at least 1. */
    int32_t has_threshold; /**< 1 = only rows that score above `threshold`. */
    float threshold;       /**< With has_threshold. */
    uint32_t reserved;     /**< Zero. */
    uint32_t *classes;     /**< [n][top] filled: rows, best first; of equal scores the smaller first. */
    float *scores;         /**< [n][top] filled: their scores, as the index computes them. */
    uint32_t *lengths;     /**< [n] filled: how many there are of each query. The places behind hold UINT32_MAX. */
    uint64_t probed;       /**< Filled: rows that were scored, over all queries; 0 if the index does not count. */
} xsm_index_search;

/** Starting value of an #xsm_index_search. */
#define XSM_INDEX_SEARCH_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(xsm_index_search), NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0                                          \
    }

/** What an index holds. */
typedef struct xsm_index_info {
    size_t size;       /**< sizeof(xsm_index_info). */
    uint32_t rows;     /**< K; 0 = not built. */
    uint32_t width;    /**< D. */
    uint32_t clusters; /**< C, 0 if it has none. */
    uint32_t largest;  /**< Rows of the largest cluster. */
    uint64_t moved;    /**< Rows that updates have moved to another cluster since the index was last made whole. */
    uint64_t rebuilds; /**< Times that updates had drifted so far that all was made anew. */
} xsm_index_info;

/** Starting value of an #xsm_index_info. */
#define XSM_INDEX_INFO_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(xsm_index_info), 0, 0, 0, 0, 0, 0                                                                       \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Number of built-in indexes. */
XSM_API size_t xsm_index_count(void);
/** Table of built-in index number `index`, NULL past the last. Static. */
XSM_API const xsm_index_ops *xsm_index_at(size_t index);
/** Table of a built-in index by name; NULL if there is none. Static. */
XSM_API const xsm_index_ops *xsm_index_find(const char *name);
/** Name of an index's table. */
XSM_API const char *xsm_index_ops_name(const xsm_index_ops *ops);
/** What an index does, in one line. */
XSM_API const char *xsm_index_ops_summary(const xsm_index_ops *ops);
/** Option number `index` of an index, that which all have (`seed`) first; NULL past the last. */
XSM_API const xsm_option *xsm_index_ops_option(const xsm_index_ops *ops, size_t index);

/** Makes an index with its default options.
 *  @param context context, or NULL
 *  @param name    name of a built-in index
 *  @param[out] out the index, the caller's to release with xsm_index_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming the nearest; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_index_new(xsm_context *context, const char *name, xsm_index **out, xsm_error *err);
/** The same from a table, of the library's or the host's own; the table must outlive the index.
 *  @return as xsm_index_new(), and #XSM_ERROR_ARGUMENT for a table that lacks a required entry, #XSM_ERROR_STRUCT_OLD
 * or #XSM_ERROR_STRUCT_NEW for one of another ABI */
XSM_API xsm_status xsm_index_new_from(xsm_context *context, const xsm_index_ops *ops, xsm_index **out, xsm_error *err);
/** Releases an index; NULL is fine. */
XSM_API void xsm_index_free(xsm_index *index);
/** The index's name; borrowed. */
XSM_API const char *xsm_index_name(const xsm_index *index);

/** Sets an option from text. Options can be set until the index is built.
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming the nearest option; #XSM_ERROR_RANGE or #XSM_ERROR_FORMAT for
 *          the value, the message saying what is accepted; #XSM_ERROR_STATE when it is built */
XSM_API xsm_status xsm_index_set(xsm_index *index, const char *name, const char *value, xsm_error *err);
/** Sets a number; whole numbers only for an integer option. Returns as xsm_index_set(). */
XSM_API xsm_status xsm_index_set_double(xsm_index *index, const char *name, double value, xsm_error *err);
/** Sets a whole number. Returns as xsm_index_set(). */
XSM_API xsm_status xsm_index_set_int(xsm_index *index, const char *name, int64_t value, xsm_error *err);
/** Writes an option's value as text to buffer (always terminated, cut if need be; may be NULL) and returns the length
 *  that it has whole; 0 if there is no such option. */
XSM_API size_t xsm_index_get(const xsm_index *index, const char *name, char *buffer, size_t size);

/** Builds the index over rows in the caller's memory. Building again starts anew.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE for a stride below the width; #XSM_ERROR_RANGE for a number
 * of rows or a width that is none, or an option that does not fit them; #XSM_ERROR_DIVERGED for a number that is not
 * finite, naming its row; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER. After a failure the index is not built. O(K D) for
 * `exact`; O(K C D) for `spherical`. */
XSM_API xsm_status xsm_index_build(xsm_index *index, const xsm_index_rows *rows, xsm_error *err);
/** The same over the classes of a model: a class's score is its row's product with the features (an embedding model's
 *  hidden vector), plus its bias and, where the model's correction is a number a class (xsm_model_correction()), plus
 *  that. The model must stay until the index is built anew or freed.
 *  @return as xsm_index_build(); #XSM_ERROR_UNSUPPORTED for a model whose correction is a tree, a hierarchy or pairs */
XSM_API xsm_status xsm_index_build_model(xsm_index *index, const xsm_model *model, xsm_error *err);
/** Reads rows again that have changed since. An index that has drifted too far is built anew.
 *  @param index   a built index
 *  @param classes [count] the rows that changed, each once
 *  @param count   how many
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE when not built; #XSM_ERROR_RANGE for a row that is not there; #XSM_ERROR_DIVERGED;
 *          #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER. After a failure the index may hold some rows as they were.
 *          O(count C D) for `spherical`. */
XSM_API xsm_status xsm_index_update(xsm_index *index, const uint32_t *classes, uint32_t count, xsm_error *err);
/** Searches, on the context's threads.
 *  @return #XSM_OK; #XSM_ERROR_STATE when not built; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE for a stride below D;
 *          #XSM_ERROR_RANGE; #XSM_ERROR_DATA for lists of a host's table that cannot be; #XSM_ERROR_MEMORY;
 *          #XSM_ERROR_RUNNER; what a host's table returns. O(n K D) for `exact`, O(n (C + probe) D) for `spherical`. */
XSM_API xsm_status xsm_index_query(const xsm_index *index, xsm_index_search *search, xsm_error *err);
/** Fills `info` (start it with #XSM_INDEX_INFO_INIT), of an index that is not built with zeros. O(C).
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STRUCT_OLD, #XSM_ERROR_STRUCT_NEW */
XSM_API xsm_status xsm_index_get_info(const xsm_index *index, xsm_index_info *info, xsm_error *err);
/** How much of the truth an index finds: the share of the `top` best rows of each query that it lists, a row with the
 *  score of the last of them being as good. Scores every row. The rows must be as they were indexed.
 *  @param index   a built index
 *  @param queries query i at queries[i*stride]
 *  @param stride  floats from query to query, >= D
 *  @param count   n >= 1
 *  @param top     Q, 1 to K
 *  @param[out] recall mean over the queries, 0 to 1
 *  @param err     what went wrong, or NULL
 *  @return as xsm_index_query(). O(n K D). */
XSM_API xsm_status xsm_index_recall(const xsm_index *index, const float *queries, size_t stride, uint64_t count,
                                    uint32_t top, double *recall, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
