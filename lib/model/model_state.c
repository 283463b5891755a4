/*
 * The model's part of a checkpoint: weights and scales as they are in memory. Multiplying scales into the weights would
 * round the weights, which a run without checkpoints does not do.
 */
#include "ranks/comm.h"
#include "model/model_file.h"

#include <math.h>
#include <string.h>

/* Side of a square that is transposed at once. */
#define SQUARE 32

typedef struct state_file {
    const xsmi_container *file;
    const char *path;
} state_file;

/* Finds the numbers of a tensor of one dimension, which must all be `least` or more; *out is NULL if it is missing.
 * Another shape or dtype, or a smaller number, is an error. */
static xsm_status read_numbers(const state_file *s, const char *name, uint64_t count, double least, const double **out,
                               xsm_error *err)
{
    const char *path = s->path;
    const xsmi_tensor *t = xsmi_container_tensor(s->file, name);
    *out = NULL;
    if (!t) {
        return XSM_OK;
    }
    if (t->dtype != XSMI_DTYPE_F64 || t->rank != 1 || t->shape[0] != count) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: tensor '%s' is not F64 of %llu numbers", path, name,
                         (unsigned long long)count);
    }
    const double *numbers = (const double *)(const void *)t->data;
    for (uint64_t i = 0; i < count; i++) {
        if (!(numbers[i] >= least && numbers[i] < INFINITY)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: number %llu of tensor '%s' is %g; %g and more is accepted",
                             path, (unsigned long long)i, name, numbers[i], least);
        }
    }
    *out = numbers;
    return XSM_OK;
}

xsm_status xsmi_model_load_scales(xsm_model *m, const xsmi_container *file, const char *path, xsm_error *err)
{
    const char *version = xsmi_container_metadata(file, XSMI_KEY_CHECKPOINT);
    const state_file s = {file, path};
    const double *scale, *row_scale, *layer_scale;
    if (strcmp(version, "1") != 0) {
        return xsmi_fail(err, XSM_ERROR_FILE_VERSION, "%s: a checkpoint of version '%s'; this release reads 1", path,
                         version);
    }
    XSMI_TRY(read_numbers(&s, XSMI_STATE_SCALE, 1, XSMI_ALPHA_LEAST, &scale, err));
    XSMI_TRY(read_numbers(&s, XSMI_STATE_ROW_SCALE, m->classes, XSMI_ROW_SCALE_LEAST, &row_scale, err));
    XSMI_TRY(read_numbers(&s, XSMI_STATE_LAYER_SCALE, 1, XSMI_ALPHA_LEAST, &layer_scale, err));
    if (!scale || (m->layer && !layer_scale)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: a checkpoint without the tensor '%s'", path,
                         scale ? XSMI_STATE_LAYER_SCALE : XSMI_STATE_SCALE);
    }
    if (m->layer) {
        m->layer->w.alpha = *layer_scale;
    }
    if (row_scale) {
        XSMI_TRY(xsmi_model_need_row_scale(m, err));
        memcpy(m->w.row_scale, row_scale, m->classes * sizeof *row_scale);
    }
    m->w.alpha = *scale;
    return XSM_OK;
}

/* Copies class-major weights from line `first` on into a model of either layout. */
static void copy_weights(xsm_model *m, const xsm_model *from, size_t first)
{
    const float *rows = from->w.weight + first * from->w.stride;
    if (m->w.layout == XSM_LAYOUT_CLASS_MAJOR) {
        for (size_t k = 0; k < m->classes; k++) {
            memcpy(m->w.weight + k * m->w.stride, rows + k * from->w.stride, m->features * sizeof *m->w.weight);
        }
        return;
    }
    for (size_t k = 0; k < m->classes; k += SQUARE) {
        size_t last_class = m->classes - k < SQUARE ? m->classes : k + SQUARE;
        for (size_t j = 0; j < m->features; j += SQUARE) {
            size_t last = m->features - j < SQUARE ? m->features : j + SQUARE;
            for (size_t f = j; f < last; f++) {
                for (size_t c = k; c < last_class; c++) {
                    m->w.weight[f * m->w.stride + c] = rows[c * from->w.stride + f];
                }
            }
        }
    }
}

/* Whether rows are finite with their own scales and with alpha, which a later step multiplies into them. */
static bool rows_finite(const float *rows, size_t count, size_t width, size_t stride, double alpha, const double *scale)
{
    for (size_t k = 0; k < count; k++) {
        float own = scale ? (float)scale[k] : 1.0f, whole = (float)(scale ? alpha * scale[k] : alpha);
        uint32_t bad = !(own < INFINITY && whole < INFINITY);
        for (size_t j = 0; j < width; j++) {
            float w = rows[k * stride + j], a = w * own, b = w * whole;
            bad |= !(a - a == 0 && b - b == 0);
        }
        if (bad) {
            return false;
        }
    }
    return true;
}

/* Whether the weights of a model are finite: runs save only such models, and continue only from such models. */
static bool model_finite(const xsm_model *m, size_t first, size_t count)
{
    const xsmi_layer *l = m->layer;
    return rows_finite(m->w.weight + (first - m->part.first) * m->w.stride, count, m->features, m->w.stride, m->w.alpha,
                       m->w.row_scale ? m->w.row_scale + first : NULL) &&
           (!m->w.bias || rows_finite(m->w.bias + first, count, 1, 1, 1, NULL)) &&
           (!l || l->tied || rows_finite(l->w.weight, l->features, m->features, l->w.stride, l->w.alpha, NULL));
}

static xsm_status check_restore(const xsm_model *m, const xsm_model *from, bool lengths, xsm_error *err)
{
    const bool bias = xsmi_model_has_bias(m);
    if (m->classes != from->classes || m->features != from->features || bias != (from->w.bias != NULL)) {
        return xsmi_fail(
            err, XSM_ERROR_SHAPE, "the model has %u classes, %u features and %s bias, the checkpoint's %u, %u and %s",
            m->classes, m->features, bias ? "a" : "no", from->classes, from->features, from->w.bias ? "one" : "none");
    }
    if (m->score != from->score) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the model's scores are %s, the checkpoint's %s",
                         xsmi_geometry_names[m->score], xsmi_geometry_names[from->score]);
    }
    if (m->w.layout == XSM_LAYOUT_FEATURE_MAJOR && (from->w.row_scale || lengths)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the checkpoint is of a class-major model, this one is feature-major");
    }
    XSMI_TRY(xsmi_layer_check_restore(m, from, err));
    if (!model_finite(from, m->part.first, xsmi_model_weights(m)->classes)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "the checkpoint has weights that are not finite");
    }
    return XSM_OK;
}

/* The scales and lengths of the rows. */
typedef struct row_state {
    double *scales;
    xsmi_row_length *lengths;
} row_state;

static void row_state_free(const xsm_model *m, row_state *rows)
{
    xsmi_release(m->context, rows->scales, m->classes, sizeof *rows->scales);
    xsmi_release(m->context, rows->lengths, m->classes, sizeof *rows->lengths);
}

/* Does everything that can fail, for a model that has its weights. */
static xsm_status prepare(xsm_model *m, bool scales, bool lengths, row_state *rows, xsm_error *err)
{
    XSMI_TRY(xsmi_model_own(m, err));
    if (scales) {
        rows->scales = xsmi_allocate(m->context, m->classes, sizeof *rows->scales);
    }
    if (lengths) {
        rows->lengths = xsmi_allocate(m->context, m->classes, sizeof *rows->lengths);
    }
    return (scales && !rows->scales) || (lengths && !rows->lengths)
               ? xsmi_fail_memory(err, m->classes * sizeof *rows->lengths, "the rows' scales")
               : XSM_OK;
}

xsm_status xsmi_model_restore(xsm_model *m, const xsm_model *from, const double *row_length, const uint64_t *row_age,
                              xsm_error *err)
{
    row_state rows = {NULL, NULL};
    xsm_model *own = xsmi_model_changed(m);
    const size_t first = m->part.first;
    xsm_status status = check_restore(m, from, row_length != NULL, err);
    status = status == XSM_OK ? prepare(own, from->w.row_scale != NULL, row_length != NULL, &rows, err) : status;
    status = xsmi_agree(xsmi_model_group(m), status, err);
    if (status != XSM_OK) {
        row_state_free(own, &rows);
        return status;
    }
    /* From here on nothing can fail. */
    copy_weights(own, from, first - from->part.first);
    xsmi_layer_restore(m, from);
    if (own->w.bias) {
        memcpy(own->w.bias, from->w.bias + first, own->classes * sizeof *own->w.bias);
    }
    bool ones = true;
    for (size_t k = 0; k < own->classes; k++) {
        if (rows.scales) {
            rows.scales[k] = from->w.row_scale[first + k];
            ones &= rows.scales[k] == 1;
        }
        if (rows.lengths) {
            rows.lengths[k] = (xsmi_row_length){row_length[first + k], row_age[first + k]};
        }
    }
    xsmi_release(own->context, own->w.row_scale, own->classes, sizeof *own->w.row_scale);
    xsmi_model_drop_row_lengths(own);
    own->w.row_scale = rows.scales;
    own->w.unscaled = ones;
    own->row_length = rows.lengths;
    own->w.alpha = from->w.alpha;
    return XSM_OK;
}
