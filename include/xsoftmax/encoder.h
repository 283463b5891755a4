/* SPDX-License-Identifier: MIT */
/**
 * @file encoder.h
 * @brief One row at a time: from the bytes of a request to the features that a model scores, and to its classes.
 */
#ifndef XSOFTMAX_ENCODER_H
#define XSOFTMAX_ENCODER_H

#include <stddef.h>
#include <stdint.h>

#include <xsoftmax/batch.h>
#include <xsoftmax/model.h>
#include <xsoftmax/predict.h>

/** @defgroup encoder Encoding rows
 *
 * A server gets rows one by one, as text or as sparse features. An encoder turns each into the features that its model
 * scores: by the model's vocabulary with its n-grams, or its first feature index, then by the model's transform. The
 * result has the same bits as a dataset that is read against the model's class map and transformed by
 * xsm_model_transform(). An encoder keeps its memory from row to row, so that it allocates only where a row is longer
 * than those before it.
 *
 * **Threads.** Only one thread at a time may use an encoder. Any number of encoders may share one model, which they do
 * not change.
 *  @{ */

/** An encoder: the scratch memory of one thread; opaque. */
typedef struct xsm_encoder xsm_encoder;

/** Settings of an encoder. Start with #XSM_ENCODER_OPTIONS_INIT. */
typedef struct xsm_encoder_options {
    size_t size;        /**< sizeof(xsm_encoder_options). */
    int32_t format;     /**< What rows are: #XSM_FORMAT_TEXT, #XSM_FORMAT_XC or #XSM_FORMAT_LIBSVM. #XSM_FORMAT_AUTO =
                             text for a model with a vocabulary, else LIBSVM with the model's first feature index. */
    int32_t index_base; /**< LIBSVM: #XSM_INDEX_BASE_ZERO or #XSM_INDEX_BASE_ONE; #XSM_INDEX_BASE_AUTO = the model's
                             (xsm_class_map::index_base). */
} xsm_encoder_options;

/** Starting value of an #xsm_encoder_options. */
#define XSM_ENCODER_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(xsm_encoder_options), 0, 0                                                                              \
    }

#ifdef __cplusplus
extern "C" {
#endif

/** Makes an encoder for a model, which it keeps.
 *  @param model   the model
 *  @param options settings, or NULL
 *  @param[out] out the encoder, the caller's to release with xsm_encoder_free()
 *  @param err     what went wrong, or NULL
 *  @return #XSM_OK; #XSM_ERROR_UNSUPPORTED for text and a model without a vocabulary, for another format and a model
 *          with one, and for other formats; #XSM_ERROR_RANGE for an index base; #XSM_ERROR_ARGUMENT if the first index
 *          is neither in the options nor in the model. O(1). */
XSM_API xsm_status xsm_encoder_new(const xsm_model *model, const xsm_encoder_options *options, xsm_encoder **out,
                                   xsm_error *err);
/** Releases an encoder; NULL is allowed. */
XSM_API void xsm_encoder_free(xsm_encoder *encoder);

/** Encodes a row of text, or of sparse features as `f:v f:v`.
 *  @param encoder the encoder
 *  @param bytes   [length] the row as a line of a file, with or without its line end; labels in it are left out. Line
 *                 ends within text are blanks. Features that the model lacks are left out. NULL is allowed for length 0
 *  @param length  number of bytes
 *  @param[out] batch the row, in the encoder's memory, valid until it encodes the next one; start it with
 *                 #XSM_BATCH_INIT. Unchanged on failure
 *  @param err     what went wrong, with the column, or NULL
 *  @return #XSM_OK; #XSM_ERROR_FORMAT with the column; #XSM_ERROR_UNSUPPORTED for a model whose features are columns of
 *          a table (xsm_class_map::feature_names): give their values to xsm_encoder_encode_pairs(); #XSM_ERROR_LIMIT;
 *          #XSM_ERROR_RANGE if a value times its idf weight overflows float32; #XSM_ERROR_STATE if the model has other
 *          features since the encoder was made. O(length), and sorting the row's features. */
XSM_API xsm_status xsm_encoder_encode(xsm_encoder *encoder, const char *bytes, size_t length, xsm_batch *batch,
                                      xsm_error *err);
/** Encodes a row of sparse features of the host: applies the model's transform to a copy.
 *  @param encoder the encoder
 *  @param index   [count] features, from 0, strictly increasing and below xsm_model_info::input_features; where files
 *                 number them otherwise (xsm_class_map::feature_numbers), positions in that list
 *  @param values  [count] their values, finite
 *  @param count   number of features, 0 to xsm_model_info::input_features; more are refused before they are read
 *  @param[out] batch as for xsm_encoder_encode()
 *  @param err     what went wrong, or NULL
 *  @return as xsm_encoder_encode(); #XSM_ERROR_RANGE for `count`, an index or a value. O(count). */
XSM_API xsm_status xsm_encoder_encode_pairs(xsm_encoder *encoder, const uint32_t *index, const float *values,
                                            size_t count, xsm_batch *batch, xsm_error *err);
/** Encodes a row and predicts its classes: xsm_encoder_encode() and xsm_predictor_run().
 *  @param encoder   the encoder
 *  @param bytes     [length] the row, as for xsm_encoder_encode()
 *  @param length    number of bytes
 *  @param predictor a predictor of the same model
 *  @param prediction what to fill, as for xsm_predictor_run(), for one row; its `batch` is NULL
 *  @param err       what went wrong, or NULL
 *  @return as both functions; #XSM_ERROR_ARGUMENT for a predictor of another model, or a batch */
XSM_API xsm_status xsm_encoder_predict(xsm_encoder *encoder, const char *bytes, size_t length, xsm_predictor *predictor,
                                       const xsm_prediction *prediction, xsm_error *err);

#ifdef __cplusplus
}
#endif

/** @} */

#endif
