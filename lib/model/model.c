/*
 * A linear model in memory: its weights, their layout, and the scales by which the L2 penalty (ridge) is applied.
 *
 * The memory of weights is that of matrix.c. Classes, names and metadata are in classes.c, the transform in
 * model_transform.c, scoring in score.c and score_all.c, files in model_save.c and model_load.c.
 */
#include "model/model.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "ranks/comm.h"
#include "base/order.h"
#include "model/model_file.h"
#include "model/narrow.h"
#include "base/random.h"
#include "model/divided.h"
#include "model/score.h"

#include <float.h>
#include <string.h>

#define XSM_EXPERIMENTAL
#include <xsoftmax/stored_weights.h>
#include <xsoftmax/experimental.h>

/* Number of floats of one job of a pass over all weights. */
#define PASS_FLOATS ((size_t)1 << 20)

size_t xsmi_model_floats(const xsm_model *m)
{
    size_t stride, count;
    return xsmi_weights_size(&m->w, m->w.layout, &stride, &count) ? count : SIZE_MAX;
}

xsm_status xsmi_model_new_empty(xsm_context *context, uint32_t features, uint32_t classes, xsm_model **out,
                                xsm_error *err)
{
    xsm_model *m;
    XSMI_TRY(xsmi_check_dimensions(features, classes, err));
    XSMI_TRY(XSMI_OBJECT_NEW(context, &m, xsm_model, "a model", err));
    xsmi_holders_start(&m->holders);
    m->kernels = xsmi_context_kernels(m->context);
    m->features = features;
    m->classes = classes;
    xsmi_weights_start(m->kernels, classes, features, &m->w);
    xsmi_model_drop_calibration(m);
    *out = m;
    return XSM_OK;
}

xsm_status xsmi_model_new_local(xsm_context *context, uint32_t features, uint32_t classes, const xsm_model_options *o,
                                xsm_model **out, xsm_error *err)
{
    xsm_model *m;
    XSMI_TRY(xsmi_model_new_empty(context, features, classes, &m, err));
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "making a model", "weights", 0);
    xsm_status status = xsmi_weights_allocate(m->context, o->layout, "the weights", &m->w, err);
    m->untouched = status == XSM_OK;
    status = xsmi_end(&activity, status, err);
    if (status == XSM_OK && o->bias) {
        m->w.bias = xsmi_allocate_zero(m->context, classes, sizeof *m->w.bias);
        m->bias_owned = m->w.bias != NULL;
        if (!m->w.bias) {
            status = xsmi_fail_memory(err, classes * sizeof *m->w.bias, "the bias");
        }
    }
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    *out = m;
    return XSM_OK;
}

xsm_status xsmi_model_need_dense(const xsm_model *m, const char *what, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_whole(m, what, err));
    if (xsmi_model_dtype(m) != XSM_DTYPE_FLOAT32 && !xsmi_model_trees(m)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%s needs float32 weights, and those of the model are %s; xsm_model_convert() makes a model "
                         "of float32 of it",
                         what, xsmi_kind_of(xsmi_model_dtype(m))->name);
    }
    if (m->w.layout != XSM_LAYOUT_SPARSE_ROWS) {
        return XSM_OK;
    }
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s needs dense weights, and %s", what,
                     xsmi_model_trees(m) ? "the model is a label tree"
                                         : "those of the model are sparse; xsm_model_set_layout() makes them dense");
}

xsm_status xsmi_model_need_linear(const xsm_model *m, const char *what, xsm_error *err)
{
    return m->score == XSM_GEOMETRY_LINEAR
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s needs linear scores, and those of this model are distances",
                           what);
}

xsm_status xsmi_model_need_no_layer(const xsm_model *m, const char *what, xsm_error *err)
{
    return !m->layer
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "%s needs a model that scores the rows as they are, and this one scores hidden vectors",
                           what);
}

xsm_status xsmi_model_need_untied(const xsm_model *m, const char *what, xsm_error *err)
{
    return !m->layer || !m->layer->tied
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "%s needs vectors of the features that are not tied to the classes' weights", what);
}

xsm_status xsmi_model_need_class_major(const xsm_model *m, const char *what, xsm_error *err)
{
    return xsmi_model_weights(m)->w.layout == XSM_LAYOUT_CLASS_MAJOR
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s needs class-major weights: xsm_model_set_layout()", what);
}

xsm_status xsmi_model_need_plain(const xsm_model *m, const char *what, xsm_error *err)
{
    return xsmi_model_is_plain(m) ? XSM_OK
                                  : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                              "%s needs scores of the weights alone, and those of the model are made "
                                              "with %s",
                                              what, m->head->kind->described);
}

xsm_status xsmi_model_need_products(const xsm_model *m, const char *what, xsm_error *err)
{
    const xsmi_head *head = m->head;
    if (head && !head->numbers) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%s needs scores that are products of a class's weights and the features, and those of the "
                         "model are made with %s%s",
                         what, head->kind->described,
                         head->tree          ? ": search the tree, by xsm_predictor_options.beam (--beam)"
                         : head->kind->nodes ? ", which a predictor searches without an index"
                                             : "");
    }
    return m->w.narrow.data ? XSM_OK : xsmi_model_need_dense(m, what, err);
}

void xsmi_model_release_weights(xsm_model *m)
{
    xsmi_weights_release(m->context, &m->w);
    if (m->bias_owned) {
        xsmi_release(m->context, m->w.bias, m->classes, sizeof *m->w.bias);
    }
    if (!xsmi_host_tensors_mapped(&m->host)) {
        xsmi_unmap_file(&m->mapping);
    }
    xsmi_model_drop_row_lengths(m);
    m->w.bias = NULL;
    m->bias_owned = false;
}

void xsmi_model_set_head(xsm_model *m, xsmi_head *h)
{
    xsmi_head *before = m->head;
    if (h != before) {
        xsmi_model_drop_calibration(m);
    }
    m->head = xsmi_head_retain(h);
    xsmi_head_release(before);
    if (m->part.own) {
        m->part.own->head_first = m->part.first;
        xsmi_model_set_head(m->part.own, h);
    }
}

void xsm_model_clear_correction(xsm_model *m)
{
    if (m && !xsmi_model_trees(m)) {
        xsmi_model_set_head(m, NULL);
    }
}

xsm_model *xsm_model_ref(const xsm_model *model)
{
    return xsmi_model_retain(model);
}

void xsm_model_free(xsm_model *m)
{
    if (!m || !xsmi_holders_drop(&m->holders)) {
        return;
    }
    xsm_context *ctx = m->context;
    xsmi_lender lender = m->lender;
    if (m->part.own && m->part.own->layer) {
        m->layer = NULL; /* the part has released it */
    }
    xsmi_layer_free(m);
    xsmi_host_tensors_clear(ctx, &m->host);
    xsmi_model_release_weights(m);
    xsmi_release(ctx, m->w.row_scale, m->classes, sizeof *m->w.row_scale);
    xsmi_model_clear_classes(m);
    xsmi_model_clear_metadata(m);
    xsmi_release_text(m->context, m->release);
    xsmi_model_clear_transform(m);
    xsmi_model_set_head(m, NULL); /* which also releases that of a part */
    xsm_model_free(m->part.own);
    xsmi_release(ctx, m, 1, sizeof *m);
    xsmi_lender_tell(&lender);
    xsm_context_free(ctx);
}

xsm_status xsmi_model_of_sparse(xsm_context *ctx, xsmi_sparse *weights, xsm_model **out, xsm_error *err)
{
    XSMI_TRY(xsmi_model_new_empty(ctx, weights->features, weights->rows, out, err));
    (*out)->w.layout = XSM_LAYOUT_SPARSE_ROWS;
    (*out)->w.sparse = xsmi_sparse_retain(weights);
    return XSM_OK;
}

/* -- layout -------------------------------------------------------------------------------------------------------- */

/* Copies weights and bias to memory of the model's own, in the requested layout; on failure the weights stay where they
 * are. */
static xsm_status rebuild(xsm_model *m, int32_t layout, xsm_error *err)
{
    xsmi_weights made;
    XSMI_TRY(xsmi_model_own_bias(m, err));
    XSMI_TRY(xsmi_weights_copy_as(m->context, &m->w, layout, "a copy of the weights", &made, err));
    made.alpha = m->w.alpha;
    made.row_scale = m->w.row_scale;
    made.unscaled = m->w.unscaled;
    made.bias = m->w.bias;
    m->bias_owned = false;
    xsmi_model_release_weights(m);
    m->w = made;
    m->bias_owned = made.bias != NULL;
    if (!xsmi_host_tensors_mapped(&m->host)) {
        xsmi_lender_tell(&m->lender);
    }
    return XSM_OK;
}

static xsm_status set_layout(xsm_model *m, int32_t layout, xsm_error *err)
{
    if (layout != XSM_LAYOUT_CLASS_MAJOR && layout != XSM_LAYOUT_FEATURE_MAJOR && layout != XSM_LAYOUT_SPARSE_ROWS) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "layout %d is no XSM_LAYOUT_* value", layout);
    }
    if (layout == m->w.layout) {
        return XSM_OK;
    }
    if (layout == XSM_LAYOUT_SPARSE_ROWS) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "sparse weights cannot be trained, so a model does not change to them; xsm_model_prune() makes "
            "a new model");
    }
    if (xsmi_model_trees(m) || xsmi_model_dtype(m) != XSM_DTYPE_FLOAT32) {
        return xsmi_model_need_dense(m, "another layout", err);
    }
    XSMI_TRY(m->w.sparse ? xsmi_context_need_alone(m->context, "making sparse weights dense", err) : XSM_OK);
    if (m->layer && m->layer->tied) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "tied vectors are class-major");
    }
    if (m->score == XSM_GEOMETRY_EUCLIDEAN) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a model whose scores are distances is class-major: a step changes whole rows");
    }
    xsmi_activity activity;
    xsmi_begin(&activity, m->context, "changing the layout", "weights", (uint64_t)m->features * m->classes);
    xsm_status status = xsmi_layer_own(m, err);
    if (status == XSM_OK) {
        xsmi_model_drop_row_lengths(m);
    }
    if (status == XSM_OK && m->w.row_scale) {
        status = xsmi_model_fold(m, err); /* a class's weights will no longer be contiguous */
    }
    status = status == XSM_OK ? rebuild(m, layout, err) : status;
    return xsmi_end(&activity, status, err);
}

/* Sets the layout of each process's part of a divided model. If it fails, the parts of some processes may have another
 * dense layout, but no score has changed. */
static xsm_status set_divided_layout(xsm_model *m, int32_t layout, xsm_error *err)
{
    XSMI_TRY(xsmi_agree(m->context, set_layout(m->part.own, layout, err), err));
    m->w.layout = layout;
    return XSM_OK;
}

xsm_status xsm_model_set_layout(xsm_model *m, int32_t layout, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    return m->part.own ? XSMI_COLLECTIVE(m->context, set_divided_layout(m, layout, err), err)
                       : set_layout(m, layout, err);
}

xsm_status xsmi_model_own(xsm_model *m, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_dense(m, "changing weights", err));
    XSMI_TRY(xsmi_layer_own(m, err)); /* before the others, as the last copy releases the mapping */
    m->untouched = false;
    return m->w.weight_count > 0 ? XSM_OK : rebuild(m, m->w.layout, err);
}

xsm_status xsmi_model_own_bias(xsm_model *m, xsm_error *err)
{
    if (m->w.bias && !m->bias_owned) {
        float *bias;
        XSMI_TRY(xsmi_array_new(m->context, &bias, m->classes, sizeof *bias, "a copy of the bias", err));
        memcpy(bias, m->w.bias, m->classes * sizeof *bias);
        m->w.bias = bias;
        m->bias_owned = true;
    }
    return XSM_OK;
}

/* -- scales -------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_model_need_row_scale(xsm_model *m, xsm_error *err)
{
    m->w.unscaled = false;
    if (m->w.row_scale) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_array_new(m->context, &m->w.row_scale, m->classes, sizeof *m->w.row_scale, "the rows' scales", err));
    for (size_t k = 0; k < m->classes; k++) {
        m->w.row_scale[k] = 1.0;
    }
    return XSM_OK;
}

void xsmi_model_sum_row_length(xsm_model *m, uint32_t k)
{
    if (m->row_length) {
        const float *row = m->w.weight + (size_t)k * m->w.stride;
        double square = (double)m->kernels->dot(row, row, m->features);
        if (!(square < FLT_MAX)) { /* a row without its scale can be large */
            square = 0;
            for (size_t j = 0; j < m->features; j++) {
                square += (double)row[j] * (double)row[j];
            }
        }
        m->row_length[k] = (xsmi_row_length){square, 0};
    }
}

void xsmi_model_drop_row_lengths(xsm_model *m)
{
    xsmi_release(m->context, m->row_length, m->classes, sizeof *m->row_length);
    m->row_length = NULL;
}

/* A pass over all rows of weights. */
typedef struct row_pass {
    xsm_model *model;
    void (*row)(xsm_model *m, uint32_t k);
} row_pass;

static void pass_rows(void *state, const xsmi_range *r)
{
    const row_pass *pass = state;
    for (size_t k = r->first; k < r->end; k++) {
        pass->row(pass->model, (uint32_t)k);
    }
}

/* Calls a function for each row of weights, in parallel. */
static xsm_status for_each_row(xsm_model *m, void (*row)(xsm_model *m, uint32_t k), xsm_error *err)
{
    row_pass pass = {m, row};
    return xsmi_run_together(m->context, xsmi_ranks(m->context) > 1, pass_rows, &pass, m->classes,
                             m->features < PASS_FLOATS ? PASS_FLOATS / XSMI_MAX(m->features, 1) : 1, err);
}

void xsmi_model_fold_row(xsm_model *m, uint32_t k)
{
    m->kernels->scale(m->w.weight + k * m->w.stride, m->features, (float)m->w.row_scale[k]);
    m->w.row_scale[k] = 1.0;
    xsmi_model_sum_row_length(m, k);
}

xsm_status xsmi_model_need_row_lengths(xsm_model *m, xsm_error *err)
{
    if (m->row_length) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_array_new(m->context, &m->row_length, m->classes, sizeof *m->row_length, "the rows' lengths", err));
    const xsm_status status = for_each_row(m, xsmi_model_sum_row_length, err);
    if (status != XSM_OK) {
        xsmi_model_drop_row_lengths(m);
    }
    return status;
}

xsm_status xsmi_model_fold(xsm_model *m, xsm_error *err)
{
    if (m->w.alpha == 1.0 && !m->w.row_scale) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_model_own(m, err));
    if (m->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
        xsmi_activity shield;
        xsmi_shield(&shield, m->context); /* a cancelled call must not leave half of the rows scaled */
        for (size_t j = 0; j < m->features; j++) {
            m->kernels->scale(m->w.weight + j * m->w.stride, m->classes, (float)m->w.alpha);
            (void)xsmi_poll(m->context);
        }
        xsmi_unshield(&shield);
        m->w.alpha = 1.0;
        return XSM_OK;
    }
    /* The scale of each row is set to 1 when the row is done, so that the model is still correct if a host's runner
     * fails half-way. */
    XSMI_TRY(xsmi_model_need_row_scale(m, err));
    for (size_t k = 0; k < m->classes; k++) {
        m->w.row_scale[k] *= m->w.alpha;
    }
    m->w.alpha = 1.0;
    XSMI_TRY(for_each_row(m, xsmi_model_fold_row, err));
    if (!m->row_length) { /* bounded rows will soon be scaled again */
        xsmi_release(m->context, m->w.row_scale, m->classes, sizeof *m->w.row_scale);
        m->w.row_scale = NULL;
    }
    return XSM_OK;
}

/* -- passes over all parameters ------------------------------------------------------------------------------------ */

static bool all_zero(const float *values, size_t count)
{
    for (size_t i = 0; i < count;) {
        uint32_t differ = 0; /* tested only from time to time, so that the loop below is vectorised */
        for (size_t end = count - i < 1024 ? count : i + 1024; i < end; i++) {
            differ |= values[i] != 0;
        }
        if (differ) {
            return false;
        }
    }
    return true;
}

/* Whether tied vectors are those of a new model: tests some of them. */
static bool is_started(const xsm_model *m)
{
    const xsmi_layer *l = m->layer;
    const size_t step = l->features / 64 + 1;
    for (size_t j = 0; j < l->features; j += step) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, l->made.seed, XSMI_STREAM_EMBEDDING, j);
        for (size_t h = 0; h < m->features; h++) {
            float start = (float)(l->made.scale * (2 * xsmi_stream_uniform(&stream) - 1));
            if (m->w.weight[j * m->w.stride + h] != start) {
                return false;
            }
        }
    }
    return true;
}

bool xsmi_model_is_zero(const xsm_model *m)
{
    if (m->w.narrow.data) {
        return false;
    }
    if (m->layer && m->layer->tied) {
        return is_started(m) && (!m->w.bias || all_zero(m->w.bias, m->classes));
    }
    bool class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR;
    size_t rows = class_major ? m->classes : m->features, columns = class_major ? m->features : m->classes;
    for (size_t r = 0; r < rows && !m->untouched; r++) {
        if (!all_zero(m->w.weight + r * m->w.stride, columns)) {
            return false;
        }
    }
    return !m->w.bias || all_zero(m->w.bias, m->classes);
}

static void zero_part(void *state, const xsmi_range *r)
{
    xsm_model *m = state;
    memset(m->w.weight + r->first, 0, (r->end - r->first) * sizeof *m->w.weight);
}

/* Zeroes the bias, drops scales, norms and calibration, and starts the first layer anew. */
static void zero_rest(xsm_model *m)
{
    if (m->w.bias) {
        memset(m->w.bias, 0, m->classes * sizeof *m->w.bias);
    }
    xsmi_release(m->context, m->w.row_scale, m->classes, sizeof *m->w.row_scale);
    m->w.row_scale = NULL;
    xsmi_model_drop_row_lengths(m);
    m->w.alpha = 1;
    xsmi_model_drop_calibration(m);
    if (m->layer) {
        (void)xsmi_layer_start(m, NULL); /* shielded, so that it cannot fail */
    }
}

void xsmi_model_zero(xsm_model *m)
{
    xsm_model *own = xsmi_model_changed(m);
    xsmi_activity shield;
    xsmi_shield(&shield, own->context);
    xsmi_run_surely(own->context, zero_part, own, own->w.weight_count, PASS_FLOATS);
    zero_rest(own);
    xsmi_model_drop_calibration(m);
    xsmi_unshield(&shield);
}

size_t xsmi_model_marks(const xsm_model *m)
{
    return xsmi_marks_of(m->w.weight_count);
}

void xsmi_model_zero_marked(xsm_model *m, uint64_t *marks)
{
    size_t words = (xsmi_model_marks(m) + 63) / 64;
    xsmi_activity shield;
    xsmi_shield(&shield, m->context);
    for (size_t word = 0; word < words; word++) {
        for (; marks[word] != 0; marks[word] &= marks[word] - 1) {
            size_t first = (word * 64 + (size_t)__builtin_ctzll(marks[word])) * XSMI_MARK_FLOATS;
            size_t rest = m->w.weight_count - first;
            memset(m->w.weight + first, 0, XSMI_MIN(rest, XSMI_MARK_FLOATS) * sizeof *m->w.weight);
        }
    }
    zero_rest(m);
    xsmi_unshield(&shield);
}

/* -- the squared norm ---------------------------------------------------------------------------------------------- */

/* Sums over pieces of the weights. Each piece is within a class run, so that in a divided model it belongs to one
 * process. The sums are added in the order of the classes; feature-major weights in the order of the features within a
 * run. */
typedef struct norm_job {
    const xsm_model *model; /* the model that has the weights */
    bool class_major;
    size_t rows;   /* rows of `weight` in a piece */
    size_t blocks; /* feature-major: pieces of a class run */
    double *sums;  /* [pieces of this model's classes] */
} norm_job;

static norm_job norm_of(const xsm_model *m)
{
    norm_job job = {.model = xsmi_model_weights(m), .class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR, .blocks = 1};
    if (job.class_major) {
        for (job.rows = XSMI_RUN_CLASSES; job.rows > 1 && job.rows * m->features > PASS_FLOATS;) {
            job.rows /= 2; /* still a part of a class run */
        }
        return job;
    }
    job.rows = PASS_FLOATS / XSMI_MIN(m->classes, XSMI_RUN_CLASSES);
    job.blocks = XSMI_MAX((m->features + job.rows - 1) / job.rows, 1);
    return job;
}

/* Returns the number of pieces of the first `classes` classes. */
static size_t pieces_of(const norm_job *job, size_t classes)
{
    return job->class_major ? (classes + job->rows - 1) / job->rows : xsmi_runs_of((uint32_t)classes) * job->blocks;
}

static void norm_part(void *state, size_t index, uint32_t thread)
{
    const norm_job *job = state;
    const xsm_model *m = job->model;
    const size_t rows = job->class_major ? m->classes : m->features, run = index / job->blocks;
    const size_t first = (job->class_major ? index : index % job->blocks) * job->rows, last = first + job->rows,
                 end = XSMI_MIN(last, rows);
    const size_t left = job->class_major ? 0 : run * XSMI_RUN_CLASSES, right = left + XSMI_RUN_CLASSES,
                 columns = job->class_major ? m->features : XSMI_MIN(right, m->classes);
    double sum = 0;
    (void)thread;
    for (size_t r = first; r < end; r++) {
        const float *row = m->w.weight + r * m->w.stride;
        double squares = 0;
        for (size_t c = left; c < columns; c++) {
            squares += (double)row[c] * (double)row[c];
        }
        sum += m->w.row_scale ? squares * m->w.row_scale[r] * m->w.row_scale[r] : squares;
    }
    job->sums[index] = sum;
}

/* Gathers the sums of all processes. `status` says whether this process could compute its own. */
static xsm_status share_sums(const xsm_model *m, const norm_job *job, xsm_status status, double *all, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    size_t *sizes = xsmi_allocate(m->context, ranks, sizeof *sizes);
    status =
        status == XSM_OK && !sizes ? xsmi_fail_memory(err, ranks * sizeof *sizes, "a sum over the weights") : status;
    status = xsmi_agree(m->context, status, err);
    for (uint32_t r = 0; status == XSM_OK && r < ranks; r++) {
        sizes[r] = (pieces_of(job, xsmi_part_start(m->classes, ranks, r + 1)) -
                    pieces_of(job, xsmi_part_start(m->classes, ranks, r))) *
                   sizeof *all;
    }
    status = status == XSM_OK ? xsmi_exchange_blocks(m->context, job->sums, all, sizes, err) : status;
    xsmi_release(m->context, sizes, ranks, sizeof *sizes);
    return status;
}

xsm_status xsmi_model_squared_norm(const xsm_model *m, double *norm, xsm_error *err)
{
    const bool divided = xsmi_model_is_divided(m);
    norm_job job = norm_of(m);
    const xsm_model *own = job.model;
    const size_t jobs = pieces_of(&job, own->classes), count = pieces_of(&job, m->classes);
    xsmi_held held = {.context = m->context};
    double *all = xsmi_hold(&held, count, sizeof *all);
    job.sums = divided ? xsmi_hold(&held, jobs, sizeof *job.sums) : all;
    xsm_status status = xsmi_held_check(&held, "a sum over the weights", err);
    status = status == XSM_OK ? xsmi_run(m->context, norm_part, &job, jobs, err) : status;
    status = divided ? share_sums(m, &job, status, all, err) : status;
    double sum = 0;
    for (size_t i = 0; status == XSM_OK && i < count; i++) {
        sum += all[i];
    }
    xsmi_held_release(&held);
    if (status == XSM_OK) {
        *norm = sum * own->w.alpha * own->w.alpha + xsmi_layer_squared_norm(own);
    }
    return status;
}

/* -- distances ----------------------------------------------------------------------------------------------------- */

/*
 * Scores that are distances: z_k = w_k . phi - ||w_k||^2/2 = -||phi - w_k||^2/2 + ||phi||^2/2, whose last term is the
 * same for every class (Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, section 2:
 * metric learning as linear scores). -||w_k||^2/2 is stored as the bias, so that scoring and searching see a linear
 * model. Only code that changes a row is different: the derivative is phi - w_k, and the bias must be updated with the
 * row.
 */

const char *const xsmi_geometry_names[] = {"linear", "euclidean", NULL}; /* XSM_GEOMETRY_* */

void xsmi_model_pull(xsm_model *m, uint32_t class, double coefficient, double eta)
{
    if (coefficient != 0) {
        m->kernels->scale(m->w.weight + (size_t) class * m->w.stride, m->features, (float)(1 + eta * coefficient));
    }
}

void xsmi_model_settle(xsm_model *m, uint32_t class)
{
    const float *row = m->w.weight + (size_t) class * m->w.stride;
    m->w.bias[class] = -0.5f * m->kernels->dot(row, row, m->features);
}

xsm_status xsmi_model_settle_all(xsm_model *m, xsm_error *err)
{
    return m->score == XSM_GEOMETRY_LINEAR ? XSM_OK : for_each_row(m, xsmi_model_settle, err);
}

bool xsmi_model_constant(const xsm_model *m, uint32_t class, const float *row, size_t width, float *constant)
{
    if (m->score == XSM_GEOMETRY_LINEAR && !m->w.bias) {
        return false;
    }
    *constant = m->score == XSM_GEOMETRY_LINEAR ? m->w.bias[class] : -0.5f * m->kernels->dot(row, row, width);
    return true;
}

/* Prepares `m`, which is `whole` or this process's part of it, for distances: class-major weights of its own without
 * scales, and memory for biases. */
static xsm_status prepare(const xsm_model *whole, xsm_model *m, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_dense(m, "a score that is a distance", err));
    if (m->features < 1) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "a model without features has no distances");
    }
    if (m->layer && m->layer->tied) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "tied vectors change with the features, where the bias of a distance would not follow; vectors "
            "that are not tied can have distances");
    }
    if (xsmi_model_nodes(whole)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's weights are those of the nodes of a tree, which rows have no distance to");
    }
    XSMI_TRY(xsmi_model_own(m, err));
    XSMI_TRY(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, err));
    xsmi_model_drop_row_lengths(m);
    XSMI_TRY(xsmi_model_fold(m, err));
    if (!m->w.bias) {
        XSMI_TRY(xsmi_zeros_new(m->context, &m->w.bias, m->classes, sizeof *m->w.bias, "the bias", err));
        m->bias_owned = true;
    }
    return XSM_OK;
}

/* Makes the scores distances. On a divided model, each process changes its part once all parts are prepared. */
static xsm_status make_euclidean(xsm_model *m, xsm_error *err)
{
    xsm_model *own = xsmi_model_changed(m);
    xsm_context *group = xsmi_model_group(m);
    const bool had = own->w.bias != NULL;
    const xsm_status status = xsmi_agree(group, prepare(m, own, err), err);
    if (group && status != XSM_OK && !had && own->w.bias) { /* another process has failed: none gets a bias */
        xsmi_release(m->context, own->w.bias, own->classes, sizeof *own->w.bias);
        own->w.bias = NULL;
        own->bias_owned = false;
    }
    XSMI_TRY(status);
    m->w.layout = own->w.layout;
    return xsmi_agree(group, for_each_row(own, xsmi_model_settle, err), err);
}

static xsm_status set_geometry(xsm_model *m, int32_t geometry, xsm_error *err)
{
    if (geometry != XSM_GEOMETRY_LINEAR && geometry != XSM_GEOMETRY_EUCLIDEAN) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "geometry %d is no XSM_GEOMETRY_* value", geometry);
    }
    if (geometry == XSM_GEOMETRY_EUCLIDEAN) {
        xsmi_activity activity;
        xsmi_begin(&activity, m->context, "changing the geometry", "weights", 0);
        XSMI_TRY(xsmi_end(&activity, make_euclidean(m, err), err));
    }
    if (xsmi_model_is_divided(m)) {
        m->part.own->shape += m->score != geometry;
        m->part.own->score = geometry;
    }
    m->shape += m->score != geometry;
    m->score = geometry;
    xsmi_model_drop_calibration(m);
    return XSM_OK;
}

xsm_status xsm_model_set_geometry(xsm_model *m, int32_t geometry, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    return XSMI_COLLECTIVE(xsmi_model_group(m), set_geometry(m, geometry, err), err);
}
