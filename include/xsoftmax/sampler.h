/**
 * @file sampler.h
 * @brief Samplers: distributions over the classes that negatives are drawn from.
 */
#ifndef XSOFTMAX_SAMPLER_H
#define XSOFTMAX_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/dataset.h>
#include <xsoftmax/option.h>

/** @defgroup sampler Samplers
 *
 * A sampler is a distribution q(k|x) over the K classes, given an example's features or regardless of them, that
 * classes can be drawn from cheaply and that knows the probability of what it draws. The estimators that look at
 * sampled classes correct for it. Built in:
 *
 * | name | q(k given x) | a draw costs |
 * |---|---|---|
 * | `uniform` | 1/K | O(1) |
 * | `frequency` | proportional to (rows of class k + smoothing)^power | O(1), an alias table |
 * | `tree` | a balanced tree of logistics over c principal components (Bamler and Mandt 2020) | O(c log K) |
 *
 * Most programs never make one: the estimators that take a sampler have the option `sampler`, and the sampler's own
 * options are theirs as `sampler.KEY`, as in xsm_estimator_set(estimator, "sampler.power", "0.75", &err). Who has made
 * one hands it over by xsm_estimator_set_sampler().
 *
 * **Randomness.** A draw depends on the seed and the example's position alone: not on threads, nor on earlier draws.
 *
 * **Threads.** A bound sampler that is const may be used by many threads at once.
 *  @{ */

/** A sampler; opaque. */
typedef struct xsm_sampler xsm_sampler;
/** Table of a sampler of the host's own, see ext/sampler.h. */
typedef struct xsm_sampler_ops xsm_sampler_ops;

#ifdef __cplusplus
extern "C" {
#endif

/** Number of built-in samplers. */
XSM_API size_t xsm_sampler_count(void);
/** Table of built-in sampler number `index`, NULL past the last. Static. */
XSM_API const xsm_sampler_ops *xsm_sampler_at(size_t index);
/** Table of a built-in sampler by name; NULL if there is none. Static. */
XSM_API const xsm_sampler_ops *xsm_sampler_find(const char *name);
/** Name of a sampler's table. */
XSM_API const char *xsm_sampler_ops_name(const xsm_sampler_ops *ops);
/** What a sampler draws, in one line. */
XSM_API const char *xsm_sampler_ops_summary(const xsm_sampler_ops *ops);
/** Option number `index` of a sampler, that which all have (`seed`) first; NULL past the last. */
XSM_API const xsm_option *xsm_sampler_ops_option(const xsm_sampler_ops *ops, size_t index);

/** Makes a sampler with its default options.
 *  @param context context, or NULL
 *  @param name    name of a built-in sampler
 *  @param[out] out the sampler, the caller's to release with xsm_sampler_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming the nearest; #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_sampler_new(xsm_context *context, const char *name, xsm_sampler **out, xsm_error *err);
/** The same from a table, of the library's or the host's own; the table must outlive the sampler.
 *  @return as xsm_sampler_new(), and #XSM_ERROR_ARGUMENT for a table that lacks a required entry,
 *          #XSM_ERROR_STRUCT_OLD or #XSM_ERROR_STRUCT_NEW for one of another ABI */
XSM_API xsm_status xsm_sampler_new_from(xsm_context *context, const xsm_sampler_ops *ops, xsm_sampler **out,
                                        xsm_error *err);
/** Releases a sampler; NULL is fine. Estimators that it was set for must be released or bound anew before. */
XSM_API void xsm_sampler_free(xsm_sampler *sampler);
/** The sampler's name; borrowed. */
XSM_API const char *xsm_sampler_name(const xsm_sampler *sampler);

/** Sets an option from text. Options can be set until the sampler is bound.
 *  @return #XSM_OK; #XSM_ERROR_NAME, the message naming the nearest option; #XSM_ERROR_RANGE or #XSM_ERROR_FORMAT for
 *          the value, the message saying what is accepted; #XSM_ERROR_STATE when it is bound */
XSM_API xsm_status xsm_sampler_set(xsm_sampler *sampler, const char *name, const char *value, xsm_error *err);
/** Sets a number; whole numbers only for an integer option. Returns as xsm_sampler_set(). */
XSM_API xsm_status xsm_sampler_set_double(xsm_sampler *sampler, const char *name, double value, xsm_error *err);
/** Sets a whole number. Returns as xsm_sampler_set(). */
XSM_API xsm_status xsm_sampler_set_int(xsm_sampler *sampler, const char *name, int64_t value, xsm_error *err);
/** Writes an option's value as text to buffer (always terminated, cut if need be; may be NULL) and returns the length
 *  that it has whole; 0 if there is no such option. */
XSM_API size_t xsm_sampler_get(const xsm_sampler *sampler, const char *name, char *buffer, size_t size);

/** Makes the distribution from training rows. The rows are not needed afterwards. Binding again starts anew.
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_RANGE for an option that does not fit the data; #XSM_ERROR_DATA
 *          where no class has a probability; #XSM_ERROR_UNSUPPORTED for `tree` on rows without features;
 *          #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER; what a host's table returns. O(1) for `uniform`, O(K) for `frequency`,
 *          O(N c^2 log K) for `tree`, with the components besides. */
XSM_API xsm_status xsm_sampler_bind(xsm_sampler *sampler, const xsm_dataset *train, xsm_error *err);
/** K of what the sampler is bound to, 0 if it is not. */
XSM_API uint32_t xsm_sampler_classes(const xsm_sampler *sampler);

/** Saves a bound sampler, its options and its distribution, to a safetensors file, without the rows that it was made
 *  from: a tree that took long to fit is there at once the next time. What is at the path is replaced in one piece
 * or left as it is.
 *  @param sampler a bound sampler
 *  @param path    the file
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_STATE when it is not bound; #XSM_ERROR_UNSUPPORTED for a table of
 * the host's without save(); #XSM_ERROR_IO; #XSM_ERROR_MEMORY; what the table's save() returns */
XSM_API xsm_status xsm_sampler_save(const xsm_sampler *sampler, const char *path, xsm_error *err);
/** Loads a sampler, which is then bound, and draws as the one that was saved, to the bit.
 *  @param context context, or NULL
 *  @param path    a file of xsm_sampler_save()
 *  @param ops     its table, if it is the host's; NULL for built-in ones, which the file names
 *  @param[out] out the sampler, the caller's to release with xsm_sampler_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_ARGUMENT; #XSM_ERROR_IO; #XSM_ERROR_FORMAT for a file that is damaged or no sampler's;
 *          #XSM_ERROR_NAME for a sampler that is not built in, or another than `ops`; #XSM_ERROR_UNSUPPORTED for a
 * table without load(); #XSM_ERROR_MEMORY */
XSM_API xsm_status xsm_sampler_load(xsm_context *context, const char *path, const xsm_sampler_ops *ops,
                                    xsm_sampler **out, xsm_error *err);

/** Draws classes for the rows of a batch.
 *  @param sampler  a bound sampler
 *  @param batch    n rows with the features that it is bound to
 *  @param seed     names the random stream
 *  @param position of the batch's first row in that stream; row i draws at position + i
 *  @param count    classes a row, m
 *  @param distinct 0: each is drawn from q on its own. 1: without replacement, each from what is left of q once those
 *                  before it are gone; m at most the classes whose probability is not zero
 *  @param[out] classes [n][m]
 *  @param[out] log_probabilities [n][m] log q(k|x) of each, or NULL
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE when not bound; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE for more
 *          distinct classes than there are; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER. O(n m) draws; distinct ones that come
 *          near the number of classes cost O(K log K) a row. */
XSM_API xsm_status xsm_sampler_draw(const xsm_sampler *sampler, const xsm_batch *batch, uint64_t seed,
                                    uint64_t position, uint32_t count, int32_t distinct, uint32_t *classes,
                                    double *log_probabilities, xsm_error *err);
/** Log-probabilities of the classes first..first+count for the rows of a batch.
 *  @param sampler  a bound sampler
 *  @param batch    n rows with the features that it is bound to
 *  @param first    first class
 *  @param count    number of classes; first + count <= K
 *  @param[out] log_probabilities row i's at [i*count]; minus infinity for a class that is never drawn
 *  @param err      what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_STATE when not bound; #XSM_ERROR_ARGUMENT; #XSM_ERROR_SHAPE; #XSM_ERROR_RANGE for
 * classes or rows that are not there; #XSM_ERROR_MEMORY; #XSM_ERROR_RUNNER. O(n count), for `tree` times c. */
XSM_API xsm_status xsm_sampler_log_probabilities(const xsm_sampler *sampler, const xsm_batch *batch, uint32_t first,
                                                 uint32_t count, float *log_probabilities, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
