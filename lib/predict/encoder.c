/* Encoding one row at a time by a model's vocabulary and transform, without a dataset. */
#include "base/entry.h"
#include "data/vocabulary.h"
#include "model/model.h"
#include "predict/predict.h"
#include "read/row.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/bindings.h>
#include <xsoftmax/encoder.h>

struct xsm_encoder {
    xsm_context *context;
    const xsm_model *model;     /* a reference */
    xsm_vocabulary *vocabulary; /* a reference, or NULL */
    uint32_t features;          /* of rows before the transform */
    xsmi_row_reader *reader;
    xsmi_row_entries row;
    uint64_t offsets[2];
};

/* -- making -------------------------------------------------------------------------------------------------------- */

static xsm_status choose_form(const xsm_encoder_options *o, const xsm_class_map *map, xsmi_row_form *form,
                              xsm_error *err)
{
    const bool has_words = map->vocabulary != NULL;
    form->format = o->format ? o->format : has_words ? XSM_FORMAT_TEXT : XSM_FORMAT_LIBSVM;
    form->index_base = o->index_base ? o->index_base : map->index_base;
    form->features = map->features;
    form->vocabulary = map->vocabulary;
    form->numbers = map->feature_numbers;
    const bool sparse = form->format == XSM_FORMAT_XC || form->format == XSM_FORMAT_LIBSVM;
    if (!sparse && form->format != XSM_FORMAT_TEXT) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_encoder_options.format is %d; XSM_FORMAT_TEXT, XSM_FORMAT_XC and XSM_FORMAT_LIBSVM are "
                         "accepted",
                         (int)o->format);
    }
    if (sparse == has_words) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s",
                         has_words ? "the model's features are words; its rows are text (XSM_FORMAT_TEXT)"
                                   : "the model has no vocabulary to encode text with; its rows are sparse features");
    }
    if (o->index_base < XSM_INDEX_BASE_AUTO || o->index_base > XSM_INDEX_BASE_ONE) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_encoder_options.index_base is %d; an XSM_INDEX_BASE_* value (0 to %d) is accepted",
                         (int)o->index_base, XSM_INDEX_BASE_ONE);
    }
    if (o->index_base != XSM_INDEX_BASE_AUTO && form->format != XSM_FORMAT_LIBSVM) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_encoder_options.index_base is set, an option of XSM_FORMAT_LIBSVM");
    }
    if (form->index_base != map->index_base && map->index_base != XSM_INDEX_BASE_AUTO && sparse) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "the features of the model are numbered from %d, and xsm_encoder_options.index_base says %d: "
                         "%d is accepted, or none",
                         map->index_base == XSM_INDEX_BASE_ONE, form->index_base == XSM_INDEX_BASE_ONE,
                         map->index_base == XSM_INDEX_BASE_ONE);
    }
    return form->format != XSM_FORMAT_LIBSVM || form->index_base != XSM_INDEX_BASE_AUTO
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_ARGUMENT,
                           "the model does not say whether features begin at 0 or 1; set "
                           "xsm_encoder_options.index_base, or the format XSM_FORMAT_XC (from 0)");
}

xsm_status xsm_encoder_new(const xsm_model *model, const xsm_encoder_options *options, xsm_encoder **out,
                           xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {out, "out"});
    xsm_encoder_options o = XSM_ENCODER_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_encoder_options, &o, options, err));
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsmi_row_form form;
    XSMI_TRY(xsm_model_get_class_map(model, &map, err));
    XSMI_TRY(choose_form(&o, &map, &form, err));
    xsm_encoder *e;
    XSMI_TRY(XSMI_OBJECT_NEW(model->context, &e, xsm_encoder, "an encoder", err));
    xsm_context *ctx = e->context;
    e->model = xsmi_model_retain(model);
    e->vocabulary = xsmi_vocabulary_retain(map.vocabulary);
    e->features = form.features;
    const xsm_status status = xsmi_row_reader_new(ctx, &form, &e->reader, err);
    if (status != XSM_OK) {
        xsm_encoder_free(e);
        return status;
    }
    *out = e;
    return XSM_OK;
}

void xsm_encoder_free(xsm_encoder *e)
{
    if (e) {
        xsmi_row_reader_free(e->reader);
        xsmi_vocabulary_release(e->vocabulary);
        xsmi_model_release(e->model);
        XSMI_OBJECT_FREE(e, xsm_encoder);
    }
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

static xsm_status check_encoder(const xsm_encoder *e, xsm_error *err)
{
    const uint32_t features = xsmi_model_input_features(e->model);
    return features == e->features
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_STATE,
                           "the model takes rows of %u features now, and of %u when the encoder was made; make it anew",
                           features, e->features);
}

/* Transforms the row that was read. */
static xsm_status transform_row(xsm_encoder *e, xsm_error *err)
{
    xsmi_row_entries *r = &e->row;
    if (e->model->transform) {
        const size_t count = r->count;
        size_t room;
        XSMI_TRY(xsmi_transform_row_room(e->model->transform, count, &room, err));
        XSMI_TRY(xsmi_row_reader_reserve(e->reader, room, r, err));
        r->count = count;
        XSMI_TRY(xsmi_transform_row(e->model->transform, r->index, r->values, &r->count, err));
    }
    e->offsets[0] = 0;
    e->offsets[1] = r->count;
    return XSM_OK;
}

static xsm_status set_batch(const xsm_encoder *e, xsm_batch *batch, xsm_error *err)
{
    return xsm_batch_set_sparse_values(batch, e->offsets, e->row.index, e->row.values, 1, xsmi_model_input(e->model),
                                       err);
}

static xsm_status encode(xsm_encoder *e, const char *bytes, size_t length, xsm_error *err)
{
    if (!bytes && length > 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "a row of %zu bytes at NULL", length);
    }
    if (e->model->map.schema && e->model->map.schema->kind == XSMI_SCHEMA_COLUMNS) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's features are columns of a table, and a line here would be of numbered features; "
                         "the numbers of the columns, in the model's order, or pairs of a column and its number are "
                         "accepted");
    }
    XSMI_TRY(check_encoder(e, err));
    XSMI_TRY(xsmi_row_reader_read(e->reader, bytes ? bytes : "", length, &e->row, err));
    return transform_row(e, err);
}

xsm_status xsm_encoder_encode(xsm_encoder *e, const char *bytes, size_t length, xsm_batch *batch, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the encoder"}, {batch, "batch"});
    XSMI_TRY(encode(e, bytes, length, err));
    return set_batch(e, batch, err);
}

static xsm_status copy_pairs(xsm_encoder *e, const uint32_t *index, const float *values, size_t count, xsm_error *err)
{
    if (count > e->features) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu pairs; the model has %u features, each of which a row has once",
                         (unsigned long long)count, e->features);
    }
    for (uint64_t j = 0; j < count; j++) {
        if (index[j] >= e->features || (j > 0 && index[j] <= index[j - 1])) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "feature %u at position %llu (from 0); a row's rise and are below %u", index[j],
                             (unsigned long long)j, e->features);
        }
        if (!isfinite(values[j])) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "feature %u is not finite; finite values are accepted", index[j]);
        }
    }
    XSMI_TRY(xsmi_row_reader_reserve(e->reader, (size_t)count, &e->row, err));
    if (count > 0) {
        memcpy(e->row.index, index, (size_t)count * sizeof *index);
        memcpy(e->row.values, values, (size_t)count * sizeof *values);
    }
    return XSM_OK;
}

xsm_status xsm_encoder_encode_pairs(xsm_encoder *e, const uint32_t *index, const float *values, size_t count,
                                    xsm_batch *batch, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the encoder"}, {batch, "batch"});
    XSMI_TRY(count > 0 ? xsmi_need(__func__, XSMI_GIVEN({index, "index"}, {values, "values"}), err) : XSM_OK);
    XSMI_TRY(check_encoder(e, err));
    XSMI_TRY(copy_pairs(e, index, values, count, err));
    XSMI_TRY(transform_row(e, err));
    return set_batch(e, batch, err);
}

xsm_status xsm_encoder_predict(xsm_encoder *e, const char *bytes, size_t length, xsm_predictor *predictor,
                               const xsm_prediction *prediction, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the encoder"}, {predictor, "the predictor"}, {prediction, "prediction"});
    xsm_prediction given = XSM_PREDICTION_INIT;
    XSMI_TRY(XSMI_READ(xsm_prediction, &given, prediction, err));
    if (given.batch || predictor->model != e->model) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s",
                         given.batch ? "xsm_prediction.batch is set; the encoder makes the batch"
                                     : "the encoder and the predictor are of different models");
    }
    xsm_batch batch = XSM_BATCH_INIT;
    XSMI_TRY(encode(e, bytes, length, err));
    XSMI_TRY(set_batch(e, &batch, err));
    given.batch = &batch;
    return xsm_predictor_run(predictor, &given, err);
}
