/**
 * @file ext/sampler.h
 * @brief The table behind a sampler, for those who bring their own, and the suite that tries one.
 */
#ifndef XSOFTMAX_EXT_SAMPLER_H
#define XSOFTMAX_EXT_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/sampler.h>

/** @defgroup ext_sampler Writing a sampler
 *
 * A sampler is a constant table of functions over a state of `state_size` bytes. The library allocates the state,
 * zeroes it, puts the options' values where the option table says, and calls bind() with the training rows. A
 * distribution that depends on an example's features reads them through a **code**: a short array of floats that
 * encode() makes of a row once (the training rows' codes are kept), and from which the other functions work.
 *
 * **Threads.** After bind() all functions are called from several threads at once, on a state that does not change.
 *
 * **Growth.** Members are added at the end only. A table says its `size`; what is beyond it counts as NULL.
 *  @{ */

/** Value of xsm_sampler_ops::abi for tables of this header. */
#define XSM_SAMPLER_ABI 1

/** Rows of a sweep. */
#define XSM_SAMPLER_LANES 32

/** A random stream, positioned by the library; opaque. */
typedef struct xsm_random xsm_random;

/** What a sampler is bound to. */
typedef struct xsm_sampler_problem {
    size_t size;                  /**< sizeof(xsm_sampler_problem). */
    xsm_context *context;         /**< For xsm_context_allocate(). */
    const xsm_dataset *train;     /**< The rows; may be read during the call only. */
    uint64_t examples;            /**< N. */
    uint32_t classes;             /**< K. */
    uint32_t features;            /**< D. */
    const uint64_t *class_counts; /**< [K] rows that carry each class. */
    uint64_t seed;                /**< For what is random in making the distribution. */
} xsm_sampler_problem;

/** Types of an array's numbers. */
enum {
    XSM_ARRAY_U8 = 1,  /**< uint8_t. */
    XSM_ARRAY_I32 = 2, /**< int32_t. */
    XSM_ARRAY_U32 = 3, /**< uint32_t. */
    XSM_ARRAY_F32 = 4, /**< float. */
    XSM_ARRAY_I64 = 5, /**< int64_t. */
    XSM_ARRAY_U64 = 6, /**< uint64_t. */
    XSM_ARRAY_F64 = 7  /**< double. */
};

/** An array of a saved state. */
typedef struct xsm_array {
    size_t size;       /**< sizeof(xsm_array). */
    const char *name;  /**< Its name in the file; UTF-8, not empty. */
    int32_t type;      /**< An XSM_ARRAY_* value. */
    uint32_t rank;     /**< Dimensions, 1 to 4. */
    uint64_t shape[4]; /**< The numbers of each; the last runs fastest. Zeros beyond `rank`. */
    const void *data;  /**< The numbers, without padding. */
} xsm_array;

/** Starting value of an #xsm_array. */
#define XSM_ARRAY_INIT                                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_array), NULL, 0, 0, {0, 0, 0, 0}, NULL                                                              \
    }

/** Takes the arrays of a state that is being saved; opaque. */
typedef struct xsm_array_writer xsm_array_writer;
/** Has the arrays of a saved state; opaque. */
typedef struct xsm_array_reader xsm_array_reader;

/** The table. Required members are marked; the others may be NULL or zero. */
struct xsm_sampler_ops {
    size_t size;               /**< Required: sizeof(xsm_sampler_ops). */
    uint32_t abi;              /**< Required: #XSM_SAMPLER_ABI. */
    uint32_t flags;            /**< Zero. */
    const char *name;          /**< Required: lower-case words joined by hyphens. */
    const char *summary;       /**< Required: one line. */
    size_t state_size;         /**< Bytes of state. */
    const xsm_option *options; /**< [option_count]. */
    uint32_t option_count;     /**< Options. */
    uint32_t option_size;      /**< sizeof(xsm_option), if there are options. */

    /** Required. Makes the distribution. On failure the library calls unbind(). `problem` is valid during the call
     *  only. */
    xsm_status (*bind)(void *state, const xsm_sampler_problem *problem, xsm_error *err);
    /** Releases what bind() allocated; must be fine on a state that bind() left half-made or never saw. */
    void (*unbind)(void *state);
    /** Floats of a row's code. NULL = 0: the distribution does not depend on the row. */
    uint32_t (*code_length)(const void *state);
    /** Required with code_length(): makes a row's code. */
    void (*encode)(const void *state, const xsm_row *row, float *code);
    /** Required: draws `count` classes, each on its own, and says the log-probability of each. */
    void (*draw)(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities);
    /** Draws `count` distinct classes of which none is among the `excluded_count` distinct ones in `excluded` (both
     *  together at most K), such that every other class is drawn with one probability that is known beforehand:
     *  returns its logarithm. For estimators that look at the classes other than the labels; without it they draw with
     *  replacement and leave the labels out. NULL where the distribution is not of that kind. */
    double (*draw_others)(const void *state, const float *code, xsm_random *random, const uint32_t *excluded,
                          uint32_t excluded_count, uint32_t count, uint32_t *classes);
    /** Required: log q(k|x); minus infinity for a class that is never drawn. */
    double (*log_probability)(const void *state, const float *code, uint32_t class_number);
    /** log q(k|x) of the classes first..first+count. NULL = log_probability() for each. */
    void (*log_probabilities)(const void *state, const float *code, uint32_t first, uint32_t count,
                              float *log_probabilities);
    /** log q(k|x) of all K classes for up to #XSM_SAMPLER_LANES rows at once: row i's of class k at
     *  log_probabilities[k*XSM_SAMPLER_LANES + i]; places beyond the rows may hold anything. `scratch` is aligned to 64
     *  bytes and as long as sweep_scratch() says. NULL = log_probabilities() for each row. */
    void (*sweep)(const void *state, const float *const *codes, uint32_t rows, float *log_probabilities, void *scratch);
    /** Bytes of scratch memory that sweep() is to get. NULL = 0. */
    size_t (*sweep_scratch)(const void *state);
    /** save() and load(), both or none: for xsm_sampler_save() and xsm_sampler_load(). save() hands over the arrays
     * that a bound state is made of, by xsm_array_write(); options are kept beside them by the library. */
    xsm_status (*save)(const void *state, xsm_array_writer *writer, xsm_error *err);
    /** In place of bind(): makes the same distribution from the arrays, found by xsm_array_read(), checking that they
     *  are what they must be (#XSM_ERROR_FORMAT if not). `problem` has no rows: `train` and `class_counts` are NULL and
     *  `examples` is 0. On failure the library calls unbind(). */
    xsm_status (*load)(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err);
    /** draw() for up to #XSM_SAMPLER_LANES rows at once: row i's `count` draws by random[i] at classes[i] and
     *  log_probabilities[i], the same to the bit as draw() makes of that stream. For tables that can overlap what the
     *  rows wait for. NULL = draw() for each row. */
    void (*draw_rows)(const void *state, const float *const *codes, xsm_random *const *random, uint32_t rows,
                      uint32_t count, uint32_t *const *classes, double *const *log_probabilities);
};

/** How a table is tried by xsm_sampler_check(). Start with #XSM_SAMPLER_CHECK_OPTIONS_INIT; zero or NULL means the
 *  default. */
typedef struct xsm_sampler_check_options {
    size_t size;            /**< sizeof(xsm_sampler_check_options). */
    uint32_t classes;       /**< K of the largest problem; default 50. */
    uint32_t features;      /**< D of it; default 6. */
    uint32_t draws;         /**< Draws for each chi-square; default 40,000. */
    uint32_t reserved;      /**< Zero. */
    double false_alarm;     /**< Probability that a table without a fault fails by bad luck of its draws, over all
                                 tests of the suite together; above 0 and below 1, default 1e-6. */
    double tolerance;       /**< How far log-probabilities of one class from several functions may be apart, relative to
                                 1 + |log q|, and their sum over the classes from 1; above 0 and below 1, default
                                 1e-4. */
    const char *const *set; /**< Options to set, "name=value", ended by NULL; NULL = none. */
} xsm_sampler_check_options;

/** Starting value of an #xsm_sampler_check_options. */
#define XSM_SAMPLER_CHECK_OPTIONS_INIT                                                                                 \
    {                                                                                                                  \
        sizeof(xsm_sampler_check_options), 0, 0, 0, 0, 0, 0, NULL                                                      \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Tries a table on problems of several sizes, one class among them, with dense and sparse rows, rows of zeros and a
 *  class without rows: that codes are complete and finite and no array is overrun; that log-probabilities are those of
 *  a distribution, the same from every function; that draws follow them (a chi-square a row) and say them right; that
 *  draw_others() draws what it promises, each class as often as it says; that draw_rows() draws what draw() does; that
 * nothing depends on threads, on rows asked for beside it, on draws before, on what memory held, or on having been
 * bound before; where the table has save() and load(), that what is loaded draws the same, and that load() refuses
 * arrays that are missing or of another length; and that every allocation of the context may fail.
 *  @param context context, or NULL
 *  @param ops     the table
 *  @param options how it is tried, or NULL
 *  @param err     what the table got wrong, and where
 *  @return #XSM_OK; #XSM_ERROR_DATA when the table is at fault; else as the functions of sampler.h. Takes 20 `draws`
 *          draws and some hundred bindings. */
XSM_API xsm_status xsm_sampler_check(xsm_context *context, const xsm_sampler_ops *ops,
                                     const xsm_sampler_check_options *options, xsm_error *err);

/** Hands over an array of the state. Name and numbers are not copied: they must stay as they are until the sampler is
 *  changed, bound anew or freed.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT for an array that is none or a name that is there already; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_array_write(xsm_array_writer *writer, const xsm_array *array, xsm_error *err);
/** Finds an array by name.
 *  @param reader what load() was handed
 *  @param name   the array's name
 *  @param type   the type that it must have, an XSM_ARRAY_* value
 *  @param rank   the number of dimensions that it must have
 *  @param[out] array start it with #XSM_ARRAY_INIT; its numbers, aligned to their size, are there until load() returns
 *  @param err    what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_FORMAT if there is none of that name, type and rank; #XSM_ERROR_ARGUMENT */
XSM_API xsm_status xsm_array_read(const xsm_array_reader *reader, const char *name, int32_t type, uint32_t rank,
                                  xsm_array *array, xsm_error *err);

/** The next 32 random bits of a stream. */
XSM_API uint32_t xsm_random_bits(xsm_random *random);
/** Uniform in [0, n), exactly; n >= 1. */
XSM_API uint64_t xsm_random_below(xsm_random *random, uint64_t n);
/** Uniform in [0, 1), 53 bits. */
XSM_API double xsm_random_uniform(xsm_random *random);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
