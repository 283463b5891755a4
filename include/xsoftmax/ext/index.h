/* SPDX-License-Identifier: MIT */
/**
 * @file ext/index.h
 * @brief The table of functions of a search index, and a test suite for such tables.
 */
#ifndef XSOFTMAX_EXT_INDEX_H
#define XSOFTMAX_EXT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/estimator.h>
#include <xsoftmax/index.h>

/** @defgroup ext_index Writing a search index
 *
 * A search index is a constant table of functions over a state of `state_size` bytes. The library allocates the state,
 * zeroes it, writes the options' values to the offsets in the option table, and calls build() with a source that rows
 * can be read from. Rows and queries are plain vectors of `width` numbers. A bias is an additional number of each row;
 * each query then has an additional 1. The score (logit) of a row is its inner product with the query.
 *
 * **Threads.** query() and next() are called from several threads at once while the state is constant, each time with
 * scratch memory and cursors of their own. While another function runs, no function of the same state runs in another
 * thread.
 *
 * **Growth.** New members are added at the end only. Members beyond the `size` of a table count as NULL.
 *
 * **Exceptions.** The functions must return; they must not throw.
 *  @{ */

/** The source of the rows; valid during the call. */
typedef struct xsm_index_source {
    size_t size;          /**< sizeof(xsm_index_source). */
    xsm_context *context; /**< For xsm_context_allocate(). */
    const void *state;    /**< What read() reads from: the library's, or the host's if the host made the source. */
    uint32_t count;       /**< K. */
    uint32_t width;       /**< Numbers in a row. */
    uint64_t seed;        /**< Seed for random choices of build(). */
    /** Writes row rows[j], or row first + j if `rows` is NULL, to out[j*stride], for j < count. Any number of threads
     *  may call it at once. */
    void (*read)(const struct xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                 float *out, size_t stride);
    uint32_t wanted;   /**< Number of rows that a search will request; 0 = unknown. Some tables choose the size of their
                            clusters by it. */
    uint32_t reserved; /**< Zero. */
} xsm_index_source;

/** Queries of one call, at most #XSM_INDEX_QUERIES, and the arrays for the results. */
typedef struct xsm_index_block {
    size_t size;          /**< sizeof(xsm_index_block). */
    const float *queries; /**< Query i at queries[i*stride]; each aligned to 64 bytes. */
    size_t stride;        /**< Floats from one query to the next. */
    uint32_t count;       /**< n. */
    uint32_t top;         /**< Most rows to find for each query, at most K. */
    float least_score;    /**< Rows with a score below it are left out; -INFINITY = none, not those whose score
                               overflowed to it either. */
    int32_t any_order;    /**< 1 = lists may be in any order, and a table that scores a subset of the rows need not
                               select the best of them if `top` is enough for all. */
    uint32_t *classes;    /**< [n][list_stride] output: rows, highest score first; rows with equal scores in increasing
                               order. The list of query i begins at classes[i*list_stride]. */
    float *scores;        /**< [n][list_stride] output: their scores. */
    uint32_t *lengths;    /**< [n] output: number of rows found for each query. */
    uint64_t *probed;     /**< [n] output: rows that were scored for each query; 0 unless the table fills it. */
    void *scratch;        /**< Scratch memory of the size that scratch() returned, aligned to 64 bytes; contents
                               undefined. NULL for size 0. */
    size_t list_stride;   /**< Entries from one query's list to the next, at least `top`. Entries between the lists are
                               not the table's. */
    void *cursors;        /**< For next(), else NULL: what each query has listed so far. The cursor of query i is the
                               `cursor_stride` bytes at i*cursor_stride, aligned to 64 bytes; it is the table's until
                               the next beginning, and copies of it are not made. */
    size_t cursor_stride; /**< For next(), else 0: bytes from cursor to cursor, a multiple of 64 and at least what
                               cursor() returned. */
    int32_t begin;        /**< For next(), else 0: 1 = the queries begin, and the contents of their cursors are
                               undefined; 0 = they go on where their cursors stand. */
    uint32_t reserved;    /**< Zero. */
} xsm_index_block;

/** Most queries of an #xsm_index_block. */
#define XSM_INDEX_QUERIES 64

/** A flag of xsm_index_ops::flags: the library does not check the lists of this table for rows >= K, which saves a
 *  pass over each list. Only for tables that xsm_index_check() accepts; a copy of a table with another query() must not
 *  inherit it. */
#define XSM_INDEX_UNCHECKED 1

/** The table. Required members are marked; the others may be NULL or zero. */
struct xsm_index_ops {
    size_t size;               /**< Required: sizeof(xsm_index_ops). */
    uint32_t abi;              /**< Required: #XSM_EXT_ABI_VERSION. */
    uint32_t flags;            /**< 0 or #XSM_INDEX_UNCHECKED. */
    const char *name;          /**< Required: lower-case words joined by hyphens. */
    const char *summary;       /**< Required: one line. */
    size_t state_size;         /**< Bytes of state. */
    const xsm_option *options; /**< [option_count] entries, each as long as the first one's `size` says, which in a
                                    table of the library may be more than sizeof(xsm_option): read them by
                                    xsm_index_ops_option(), not by a subscript. */
    size_t option_count;       /**< Options. */

    /** Required. Builds the index of all rows. On failure the library calls clear(). */
    xsm_status (*build)(void *state, const xsm_index_source *source, xsm_error *err);
    /** Releases what build() allocated. Must also work on a state for which build() failed or was never called. */
    void (*clear)(void *state);
    /** Updates the index after `count` rows have changed. On failure the index must remain valid. NULL = clear() and
     *  build(). */
    xsm_status (*update)(void *state, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                         xsm_error *err);
    /** Bytes of scratch memory that query() and next() need for this `top` or a smaller one; SIZE_MAX = more than can
     *  be addressed. NULL = 0. */
    size_t (*scratch)(const void *state, uint32_t top);
    /** Required. Searches: fills `classes`, `scores` and `lengths`. */
    xsm_status (*query)(const void *state, const xsm_index_block *block, xsm_error *err);
    /** Fills the members of `info` that the table knows; `rows` and `width` are already set. */
    void (*info)(const void *state, xsm_index_info *info);
    /** saved(), save() and restore() store an index in checkpoints of estimators, so that a resumed run is
     *  bit-identical. A table has all three or none; without them, checkpoints are refused. saved() returns the number
     *  of numbers to store. It may depend only on the options and on `count`, `width` and `wanted` of the source, not
     *  on whether the index is built. It is 0 for a table whose build() gives the same index whatever updates came
     *  before. */
    uint64_t (*saved)(const void *state, const xsm_index_source *source);
    /** Writes the numbers of a built index; restore() reads them on any machine with the same byte order. */
    void (*save)(const void *state, const xsm_index_source *source, uint32_t *numbers);
    /** As build(), but makes the index that was saved, with the current rows of the source. Returns #XSM_ERROR_FORMAT
     *  for invalid numbers. */
    xsm_status (*restore)(void *state, const xsm_index_source *source, const uint32_t *numbers, xsm_error *err);
    /** cursor() and next() list the rows of a query in falling order on demand, for estimators that stop when what
     *  remains can be neglected. A table has both or none; without them, such a search is refused. cursor() returns
     *  the bytes of a query's cursor; SIZE_MAX = more than can be addressed. A change of the index ends all cursors;
     *  cursor() is called again after it. */
    size_t (*cursor)(const void *state);
    /** As query() with the `least_score` -INFINITY and an order, but for each query the best `top` rows of those that
     *  were not listed since it began: each row once, and after every beginning the same. Fewer than `top` rows = none
     *  is left that this table can find. The rows listed first are those of query(). A table that finds the best rows
     *  with certainty lists all K in falling order. One that scores a part of the rows at a time may list a row later
     *  than worse ones that an earlier call listed; each call's list is in falling order nonetheless. */
    xsm_status (*next)(const void *state, const xsm_index_block *block, xsm_error *err);
};

/** Settings of xsm_index_check(). Start with #XSM_INDEX_CHECK_OPTIONS_INIT. */
typedef struct xsm_index_check_options {
    size_t size;            /**< sizeof(xsm_index_check_options). */
    uint32_t rows;          /**< K of the largest problem; 0 = 2000. */
    uint32_t width;         /**< D of the largest problem; 0 = 16. */
    double recall;          /**< Smallest recall of the 10 best rows, 0 to 1; #XSM_DEFAULT = 0.9. 1 = exact. */
    double tolerance;       /**< Largest error of a score, relative to |row| |query|; #XSM_DEFAULT = 1e-5. */
    const char *const *set; /**< Options to set, "name=value", ended by NULL; NULL = none. */
} xsm_index_check_options;

/** Starting value of an #xsm_index_check_options. */
#define XSM_INDEX_CHECK_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(xsm_index_check_options), 0, 0, XSM_DEFAULT, XSM_DEFAULT, NULL                                          \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Table of built-in index number `index`, NULL past the last. Static, with name and summary. */
XSM_API const xsm_index_ops *xsm_index_at(size_t index);
/** Table of a built-in index by name; NULL if there is none. Static. */
XSM_API const xsm_index_ops *xsm_index_find(const char *name);
/** Option number `index` of an index; the option that all indexes have (`seed`) is first. NULL past the last. */
XSM_API const xsm_option *xsm_index_ops_option(const xsm_index_ops *ops, size_t index);
/** As xsm_index_new(), from a table of the library or the host. The table must outlive the index.
 *  @return as xsm_index_new(), and #XSM_ERROR_ARGUMENT for a table that lacks a required entry, #XSM_ERROR_STRUCT_OLD
 *          or #XSM_ERROR_STRUCT_NEW for a `size`, #XSM_ERROR_ABI for another ABI number */
XSM_API xsm_status xsm_index_new_from(xsm_context *context, const xsm_index_ops *ops, xsm_index **out, xsm_error *err);

/** Sets the table and options of the indexes of an estimator that searches, in place of those that the option `index`
 *  names. They are copied from `like`, which may be released afterwards.
 *  @param estimator an estimator that searches, not bound
 *  @param like      an index that is not built. NULL: use the options of the estimator again
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for an estimator that does not search; #XSM_ERROR_STATE if the estimator is
 *          bound or `like` is built */
XSM_API xsm_status xsm_estimator_set_index(xsm_estimator *estimator, const xsm_index *like, xsm_error *err);

/** Facts about an index of an estimator that searches; there is one index for each block of coordinates.
 *  @param estimator an estimator
 *  @param block     number of the block, from 0
 *  @param[out] info start it with #XSM_INDEX_INFO_INIT; `rows` is 0 until the search begins
 *  @param err       what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for an estimator that does not search; #XSM_ERROR_STATE if it is not bound;
 *          #XSM_ERROR_RANGE for a block that does not exist */
XSM_API xsm_status xsm_estimator_get_index_info(const xsm_estimator *estimator, uint32_t block, xsm_index_info *info,
                                                xsm_error *err);

/** Tests a table on problems of several sizes, including equal rows, rows of zeros and biases. Checks that lists are
 *  sorted, have no duplicates and only rows below K; that nothing is written between lists; that scores are correct and
 *  `least_score` is respected; that `top` may be K; that a query gives the same list alone and together with others, on
 *  one thread and on several; that updates take effect; and that the recall is large enough. Of next(), that it begins
 *  with the list of query(), lists each row at most once and at least the share `recall` of all, with a recall of 1 in
 *  falling order throughout, and does not write outside its cursors, which queries and threads have for themselves.
 *  @param context context, or NULL
 *  @param ops     the table
 *  @param options requirements, or NULL
 *  @param err     what the table does wrong, and where
 *  @return #XSM_OK; #XSM_ERROR_DATA if the table is wrong; the errors of the functions of index.h */
XSM_API xsm_status xsm_index_check(xsm_context *context, const xsm_index_ops *ops,
                                   const xsm_index_check_options *options, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
