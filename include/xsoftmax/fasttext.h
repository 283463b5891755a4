/* SPDX-License-Identifier: MIT */
/**
 * @file fasttext.h
 * @brief Models that fastText has trained.
 */
#ifndef XSOFTMAX_FASTTEXT_H
#define XSOFTMAX_FASTTEXT_H

#include <xsoftmax/model.h>

/** @defgroup fasttext Models of fastText
 *
 * See @ref guide_coming_from.
 *  @{ */

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an embedding model of a file that fastText saved: `.bin`, or `.ftz`, whose quantised numbers become float32.
 *  Features are its words and buckets of n-grams, vectors its input, and phi their mean over the words and n-grams of a
 *  line (#XSM_POOL_WEIGHTED_MEAN). Classes are the labels of a supervised model, the words of a model of vectors
 *  (skipgram, cbow); weights are its output. The link is #XSM_LINK_SOFTMAX, or #XSM_LINK_SIGMOID for the losses `ova`
 *  and `ns`; `hs` becomes a hierarchy, as of the estimator `hierarchical`. The vocabulary reads text as fastText does.
 *  Rows of a supervised model end with the word `</s>`; those of a model of vectors do not, so that phi of one word is
 *  its vector.
 *  @param context      context of one process, or NULL
 *  @param path         the file, or NULL for `storage`
 *  @param storage      what is read to its end in place of a file (@ref storage), or NULL
 *  @param label_prefix the prefix of labels, which is not in the file; NULL = `__label__`
 *  @param[out] out     the model, the caller's to release with xsm_model_free()
 *  @param err          what went wrong, with the byte in the file; or NULL
 *  @return #XSM_OK; #XSM_ERROR_IO; #XSM_ERROR_FORMAT for a file that is cut, grown or contradicts itself, and for
 *          labels that are no UTF-8 (in words U+FFFD replaces such bytes, with a warning); #XSM_ERROR_UNSUPPORTED for a
 *          version other than 11 and 12, n-grams longer than #xsm_text_options takes, and in a context of several
 *          processes. O(bytes) */
XSM_API xsm_status xsm_model_import_fasttext(xsm_context *context, const char *path, const xsm_storage *storage,
                                             const char *label_prefix, xsm_model **out, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
