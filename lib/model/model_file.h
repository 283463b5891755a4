/*
 * A model in its file: the entries and tensors that model_save.c lists, and the functions that read and write them.
 */
#ifndef XSMI_MODEL_FILE_H
#define XSMI_MODEL_FILE_H

#include <string.h>

#include "base/safetensors.h"
#include "base/utf8.h"
#include "model/model.h"

/* Makes a model whose weights are in the container's memory. The model takes the mapping; weights that were read in
 * part live as long as the container. `name` is for messages. (model_load.c) */
xsm_status xsmi_model_from_container(xsm_context *ctx, xsmi_container *container, const char *name, xsm_model **out,
                                     xsm_error *err);

/* xsmi_open_how.choose() for a context (the chooser) with several processes: it chooses the lines of this process's
 * classes. */
void xsmi_model_choose_part(const void *context, const xsmi_tensor *t, xsmi_tensor_part *part);

/* Names of the tensors of a state in a model's file (model_state.c): SCALE F64 [1] and ROW_SCALE F64 [K] are the scales
 * of the weights, which are stored as in memory; ROW_LENGTH F64 [K] and ROW_AGE U64 [K] are the members of
 * xsmi_row_length. */
#define XSMI_STATE_PREFIX "state."
#define XSMI_STATE_SCALE "state.scale"
#define XSMI_STATE_LAYER_SCALE "state.layer_scale" /* F64 [1] */
#define XSMI_STATE_ROW_SCALE "state.row_scale"
#define XSMI_STATE_ROW_LENGTH "state.row_length"
#define XSMI_STATE_ROW_AGE "state.row_length_age"
/* Sets the scales of a loaded model from its file. */
xsm_status xsmi_model_load_scales(xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err);

/* Copies a container's metadata to a model that has none, without the library's own entries. */
xsm_status xsmi_model_copy_metadata(xsm_model *m, const xsmi_container *container, xsm_error *err);

/* A first layer in a model's file (layer.c): the functions write the text of its metadata, and read it with its
 * vectors. */
#define XSMI_LAYER_TEXT 160
void xsmi_layer_describe(const xsmi_layer *l, char *text, size_t size);
xsm_status xsmi_layer_read(xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err);

/* Metadata of a model's file that only the library writes, besides the container's own. */
#define XSMI_KEY_TRANSFORM "transform"
#define XSMI_KEY_INPUT_FEATURES "input_features"
#define XSMI_KEY_TRAINING_ROWS "training_rows" /* only with class_counts */
#define XSMI_KEY_FIRST_LAYER "first_layer"
#define XSMI_KEY_GEOMETRY "geometry"       /* "euclidean"; absent for linear scores */
#define XSMI_KEY_LINK "link"               /* "sigmoid"; absent for a softmax */
#define XSMI_KEY_CALIBRATION "calibration" /* absent without one (calibration.h) */
/* XSMI_KEY_CHECKPOINT, and all keys that begin with it and a dot (safetensors.h), also belong to the library. */

/* Whether a string is well-formed UTF-8. */
static inline bool xsmi_model_is_text(const char *string)
{
    size_t length = strlen(string);
    return xsmi_utf8_prefix(string, length) == length;
}

#endif
