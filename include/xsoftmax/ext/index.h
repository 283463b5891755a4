/**
 * @file ext/index.h
 * @brief The table behind a search index, for those who bring their own, and the suite that tries one.
 */
#ifndef XSOFTMAX_EXT_INDEX_H
#define XSOFTMAX_EXT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/index.h>

/** @defgroup ext_index Writing a search index
 *
 * A search index is a constant table of functions over a state of `state_size` bytes. The library allocates the state,
 * zeroes it, puts the options' values where the option table says, and calls build() with something that rows can be
 * read from. Rows and queries are plain vectors of `width` numbers: a bias has become one number more of each row, with
 * a 1 in each query.
 *
 * **Threads.** query() is called from several threads at once on a state that does not change; the other functions are
 * alone.
 *
 * **Growth.** Members are added at the end only. A table says its `size`; what is beyond it counts as NULL.
 *  @{ */

/** Value of xsm_index_ops::abi for tables of this header. */
#define XSM_INDEX_ABI 1

/** Where the rows come from; valid during the call. */
typedef struct xsm_index_source {
    size_t size;          /**< sizeof(xsm_index_source). */
    xsm_context *context; /**< For xsm_context_allocate(). */
    const void *origin;   /**< The library's. */
    uint32_t count;       /**< K. */
    uint32_t width;       /**< Numbers of a row. */
    uint64_t seed;        /**< For what is random in building. */
    /** Writes row rows[j], or first + j where `rows` is NULL, to out[j*stride], for j < count. Any number of threads
     * may read at once. */
    void (*read)(const struct xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                 float *out, size_t stride);
    uint32_t wanted;   /**< Rows that a search will ask for; 0 = not known. Some tables cut their rows to it. */
    uint32_t reserved; /**< Zero. */
} xsm_index_source;

/** Queries of one call, at most #XSM_INDEX_QUERIES, and room for what is found. */
typedef struct xsm_index_block {
    size_t size;          /**< sizeof(xsm_index_block). */
    const float *queries; /**< Query i at queries[i*stride]; each aligned to 64 bytes. */
    size_t stride;        /**< Floats from query to query. */
    uint32_t count;       /**< n. */
    uint32_t top;         /**< Most rows a query, at most K. */
    float threshold;      /**< Only rows that score above it; -INFINITY = all. */
    uint32_t reserved;    /**< Zero. */
    uint32_t *classes;    /**< [n][top] to be filled: rows, best first, of equal scores the smaller first. */
    float *scores;        /**< [n][top] to be filled. */
    uint32_t *lengths;    /**< [n] to be filled: how many of each query. */
    uint64_t *probed;     /**< [n] rows that were scored; 0 unless the table fills it. */
    void *scratch;        /**< Bytes that scratch() asked for, aligned to 64; contents undefined. NULL for 0. */
    int32_t any_order;    /**< 1 = lists may be in any order, and a table that scores a choice of rows need not say
                               which are the best of them, when `top` is enough for all. */
    int32_t reserved2;    /**< Zero. */
    size_t apart; /**< Places from a query's list to the next one's, `top` at least; 0 = `top`, which is all that
                       tables of a host's are asked for. The built-in tables take both. */
} xsm_index_block;

/** Most queries of an #xsm_index_block. */
#define XSM_INDEX_QUERIES 64

/** The table. Required members are marked; the others may be NULL or zero. */
struct xsm_index_ops {
    size_t size;               /**< Required: sizeof(xsm_index_ops). */
    uint32_t abi;              /**< Required: #XSM_INDEX_ABI. */
    uint32_t flags;            /**< Zero. */
    const char *name;          /**< Required: lower-case words joined by hyphens. */
    const char *summary;       /**< Required: one line. */
    size_t state_size;         /**< Bytes of state. */
    const xsm_option *options; /**< [option_count]. */
    uint32_t option_count;     /**< Options. */
    uint32_t option_size;      /**< sizeof(xsm_option), if there are options. */

    /** Required. Makes the index of all rows. On failure the library calls clear(). */
    xsm_status (*build)(void *state, const xsm_index_source *source, xsm_error *err);
    /** Releases what build() allocated; must be fine on a state that build() left half-made or never saw. */
    void (*clear)(void *state);
    /** Reads `count` rows again. On failure the index must still be one. NULL = clear() and build(). */
    xsm_status (*update)(void *state, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                         xsm_error *err);
    /** Bytes of scratch memory that query() is to get for that `top`; SIZE_MAX = more than can be. NULL = 0. */
    size_t (*scratch)(const void *state, uint32_t top);
    /** Required. Fills lists and lengths. */
    xsm_status (*query)(const void *state, const xsm_index_block *block, xsm_error *err);
    /** Fills what it knows of `info`; rows and width are there already. */
    void (*info)(const void *state, xsm_index_info *info);
    /** saved(), save() and restore(), all three or none: what checkpoints of estimators keep of an index, so that it
     * goes on with the same bits. saved(): how many numbers, which follow from the options and the source's count,
     * width and `wanted` alone, whether the index is built or not; 0 for a table whose build() gives the same whatever
     * the updates before. NULL = checkpoints are refused. */
    uint64_t (*saved)(const void *state, const xsm_index_source *source);
    /** Writes the numbers of an index that is built, to be read by restore() on any machine of the same byte order. */
    void (*save)(const void *state, const xsm_index_source *source, uint32_t *numbers);
    /** As build(), an index as the one that was saved; rows are read from the source as they are now. Numbers that
     *  cannot be are an error, #XSM_ERROR_FORMAT. */
    xsm_status (*restore)(void *state, const xsm_index_source *source, const uint32_t *numbers, xsm_error *err);
};

/** What a table must reach in xsm_index_check(). */
typedef struct xsm_index_check_options {
    size_t size;            /**< sizeof(xsm_index_check_options). */
    uint32_t rows;          /**< K of the largest problem; 0 = 2000. */
    uint32_t width;         /**< D of it; 0 = 16. */
    double recall;          /**< Least recall of the 10 best rows; 0 = 0.9. 1 = exact. */
    double tolerance;       /**< Most that a score may be off, relative to |row| |query|; 0 = 1e-5. */
    const char *const *set; /**< Options to set, "name=value", ended by NULL; NULL = none. */
} xsm_index_check_options;

/** Starting value of an #xsm_index_check_options. */
#define XSM_INDEX_CHECK_OPTIONS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(xsm_index_check_options), 0, 0, 0, 0, NULL                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Tries a table on problems of several sizes, with equal rows, rows of zeros and biases among them: that lists are
 *  sorted, without repeats and within K; that scores are right and thresholds kept; that `top` may be K; that the same
 *  queries give the same lists alone and together, on one thread and on several; that updates are seen; and the recall.
 *  @param context context, or NULL
 *  @param ops     the table
 *  @param options what is asked of it, or NULL
 *  @param err     what the table got wrong, and where
 *  @return #XSM_OK; #XSM_ERROR_DATA when the table is at fault; else as the functions of index.h */
XSM_API xsm_status xsm_index_check(xsm_context *context, const xsm_index_ops *ops,
                                   const xsm_index_check_options *options, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
