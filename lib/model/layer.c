/* The first layer of an embedding model. Tied vectors are the output layer's rows, with its scales. */
#include "model/layer.h"

#include "base/activity.h"
#include "base/random.h"
#include "model/narrow.h"
#include "model/score.h"
#include "base/order.h"
#include "base/option.h"
#include "model/model.h"
#include "model/model_file.h"

#include <stdio.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const xsmi_activation_names[] = {"identity", "relu", "tanh", NULL};
const char *const xsmi_pool_names[] = {"sum", "mean", "weighted-mean", NULL};

/* Number of features per call of a kernel that scales values or changes vectors. */
#define GROUP 64
/* Number of vectors that one job initialises. */
#define PASS_VECTORS 1024
/* Number of vectors copied between two polls. */
#define VECTORS_TOGETHER 256

/* -- life ---------------------------------------------------------------------------------------------------------- */

static xsm_status allocate(const xsm_model *m, xsmi_weights *w, xsm_error *err)
{
    return xsmi_weights_allocate(m->context, XSM_LAYOUT_CLASS_MAJOR, "the features' vectors", w, err);
}

xsm_status xsmi_layer_new(xsm_model *m, uint32_t features, const xsm_embedding_options *options, xsm_error *err)
{
    XSMI_TRY(xsmi_check_dimensions(features, 1, err));
    XSMI_TRY(options->tied ? xsmi_context_need_alone(m->context, "an embedding with tied vectors", err) : XSM_OK);
    xsmi_layer *l;
    XSMI_TRY(xsmi_struct_new(m->context, &l, sizeof *l, "a first layer", err));
    l->features = features;
    l->made = *options;
    l->tied = options->tied != 0;
    xsmi_weights_start(m->kernels, features, m->features, &l->w);
    m->layer = l;
    return XSM_OK;
}

xsm_status xsmi_layer_allocate(xsm_model *m, xsm_error *err)
{
    return m->layer->tied ? XSM_OK : allocate(m, &m->layer->w, err);
}

void xsmi_layer_free(xsm_model *m)
{
    xsmi_layer *l = m->layer;
    if (l) {
        xsmi_weights_release(m->context, &l->w);
        xsmi_release(m->context, l->w.row_scale, l->features, sizeof *l->w.row_scale);
        xsmi_release(m->context, l, 1, sizeof *l);
        m->layer = NULL;
    }
}

typedef struct start_job {
    xsm_model *model;
    size_t first;
} start_job;

/* Each vector is initialised from its own random stream, whatever other vectors there are. */
static void start_vectors(void *state, const xsmi_range *r)
{
    const start_job *job = state;
    xsm_model *m = job->model;
    const xsmi_layer *l = m->layer;
    const xsmi_weights *w = xsmi_model_vectors(m);
    for (size_t j = job->first + r->first; j < job->first + r->end; j++) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, l->made.seed, XSMI_STREAM_EMBEDDING, j);
        for (size_t h = 0; h < m->features; h++) {
            w->weight[j * w->stride + h] = (float)(l->made.scale * (2 * xsmi_stream_uniform(&stream) - 1) / w->alpha);
        }
    }
}

/* Initialises the vectors from `first` on. */
static xsm_status start_from(xsm_model *m, size_t first, xsm_error *err)
{
    start_job job = {m, first};
    return xsmi_run_all(m->context, start_vectors, &job, m->layer->features - first, PASS_VECTORS, err);
}

xsm_status xsmi_layer_start(xsm_model *m, xsm_error *err)
{
    m->layer->w.alpha = 1;
    return start_from(m, 0, err);
}

xsm_status xsmi_layer_grow(const xsm_model *from, uint32_t features, xsm_model *to, xsm_error *err)
{
    const xsmi_layer *old = from->layer;
    if (!old) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_layer_new(to, features, &old->made, err));
    XSMI_TRY(xsmi_layer_allocate(to, err));
    xsmi_layer *l = to->layer;
    l->w.alpha = old->w.alpha;
    for (size_t j = 0; !l->tied && j < old->features; j++) {
        if (j % VECTORS_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(to->context, err));
        }
        memcpy(l->w.weight + j * l->w.stride, old->w.weight + j * old->w.stride, to->features * sizeof *l->w.weight);
    }
    return start_from(to, old->features, err);
}

double xsmi_layer_squared_norm(const xsm_model *m)
{
    const xsmi_layer *l = m->layer;
    double sum = 0;
    for (size_t j = 0; l && !l->tied && j < l->features; j++) {
        const float *row = l->w.weight + j * l->w.stride;
        double squares = 0;
        for (size_t h = 0; h < m->features; h++) {
            squares += (double)row[h] * (double)row[h];
        }
        sum += squares;
    }
    return l ? sum * l->w.alpha * l->w.alpha : 0;
}

/* Copies vectors in fewer bits than float32 to memory of their own. */
static xsm_status own_narrow(xsm_model *m, xsm_error *err)
{
    xsmi_layer *l = m->layer;
    const size_t bytes = l->features * l->w.narrow.stride * xsmi_number_bytes(l->w.narrow.dtype);
    if (l->w.narrow_bytes > 0) {
        return XSM_OK;
    }
    void *numbers;
    XSMI_TRY(xsmi_array_new(m->context, &numbers, bytes, 1, "the features' vectors", err));
    const xsm_status status = xsmi_copy_bytes(m->context, numbers, l->w.narrow.data, bytes, err);
    if (status != XSM_OK) {
        xsmi_release(m->context, numbers, bytes, 1);
        return status;
    }
    l->w.narrow.data = numbers;
    l->w.narrow_bytes = bytes;
    return XSM_OK;
}

xsm_status xsmi_layer_own(xsm_model *m, xsm_error *err)
{
    xsmi_layer *l = m->layer;
    if (!l || l->tied || l->w.weight_count > 0) {
        return XSM_OK;
    }
    if (l->w.narrow.data) {
        return own_narrow(m, err);
    }
    xsmi_weights own = l->w;
    XSMI_TRY(allocate(m, &own, err));
    for (size_t j = 0; j < l->features; j++) {
        xsm_status status = j % VECTORS_TOGETHER == 0 ? xsmi_go_on(m->context, err) : XSM_OK;
        if (status != XSM_OK) {
            xsmi_release(m->context, own.weight, own.weight_count, sizeof *own.weight);
            return status;
        }
        memcpy(own.weight + j * own.stride, l->w.weight + j * l->w.stride, m->features * sizeof *own.weight);
    }
    l->w = own;
    return XSM_OK;
}

void xsmi_layer_set_alpha(xsm_model *m, double alpha)
{
    if (!m->layer->tied) {
        m->layer->w.alpha = alpha;
    }
}

void xsmi_layer_fold(xsm_model *m)
{
    xsmi_layer *l = m->layer;
    if (l && l->w.alpha != 1) {
        xsmi_activity shield;
        xsmi_shield(&shield, m->context); /* a cancelled call must not leave half of the vectors scaled */
        for (size_t j = 0; j < l->features; j++) {
            m->kernels->scale(l->w.weight + j * l->w.stride, m->features, (float)l->w.alpha);
            (void)(j % VECTORS_TOGETHER == VECTORS_TOGETHER - 1 && xsmi_poll(m->context));
        }
        xsmi_unshield(&shield);
        l->w.alpha = 1;
    }
}

xsm_status xsmi_layer_check_restore(const xsm_model *m, const xsm_model *from, xsm_error *err)
{
    const xsmi_layer *a = m->layer, *b = from->layer;
    if (!a != !b || (a && (a->features != b->features || a->tied != b->tied || a->made.pool != b->made.pool ||
                           a->made.activation != b->made.activation))) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the model has %s, the checkpoint's %s",
                         !a   ? "no first layer"
                         : !b ? "a first layer"
                              : "another first layer",
                         !a   ? "has one"
                         : !b ? "has none"
                              : "one of other features or settings");
    }
    return XSM_OK;
}

void xsmi_layer_restore(xsm_model *m, const xsm_model *from)
{
    xsmi_layer *l = m->layer;
    if (l) {
        for (size_t j = 0; !l->tied && j < l->features; j++) {
            memcpy(l->w.weight + j * l->w.stride, from->layer->w.weight + j * from->layer->w.stride,
                   m->features * sizeof *l->w.weight);
        }
        l->made = from->layer->made;
        l->w.alpha = from->layer->w.alpha;
    }
}

/* -- forward and back ---------------------------------------------------------------------------------------------- */

static float pool_factor(const xsmi_layer *l, const xsmi_features *x)
{
    float weight = 0;
    if (l->made.pool == XSM_POOL_MEAN) {
        weight = (float)x->count;
    }
    for (size_t i = 0; l->made.pool == XSM_POOL_WEIGHTED_MEAN && i < x->count; i++) {
        weight += fabsf(x->values[i]);
    }
    return weight > 0 ? 1 / weight : 1;
}

/* Returns the scale of the tied vector that is row k. */
static double tied_scale(const xsm_model *m, double alpha, uint32_t k)
{
    return m->w.row_scale ? alpha * m->w.row_scale[k] : alpha;
}

static void sum_vectors(const xsm_model *m, const uint32_t *index, const float *values, size_t count, float *out)
{
    const xsmi_weights *w = xsmi_model_vectors(m);
    if (w->narrow.data) {
        m->kernels->narrow_column_sums(&w->narrow, index, values, count, m->features, out);
    } else {
        m->kernels->column_sums(w->weight, w->stride, index, values, count, m->features, out);
    }
}

/* Sums vectors that have scales of their own. */
static void sum_scaled(const xsm_model *m, const xsmi_features *x, float *out)
{
    const xsmi_layer *l = m->layer;
    float values[GROUP];
    uint32_t index[GROUP];
    for (size_t start = 0; start < x->count; start += GROUP) {
        size_t count = XSMI_MIN(x->count - start, GROUP);
        for (size_t i = 0; i < count; i++) {
            const uint32_t j = x->index ? x->index[start + i] : (uint32_t)(start + i);
            const double scale = l->tied ? tied_scale(m, m->w.alpha, j) : l->w.row_scale[j];
            index[i] = j;
            values[i] = (float)((double)x->values[start + i] * scale);
        }
        sum_vectors(m, index, values, count, out);
    }
}

void xsmi_layer_hidden(const xsm_model *m, const xsmi_features *x, float *out)
{
    const xsmi_layer *l = m->layer;
    const size_t h = m->features;
    float scale = pool_factor(l, x);
    memset(out, 0, h * sizeof *out);
    if (l->tied || l->w.row_scale) {
        sum_scaled(m, x, out);
    } else {
        sum_vectors(m, x->index, x->values, x->count, out);
    }
    scale *= l->tied ? 1 : (float)l->w.alpha;
    if (scale != 1) {
        m->kernels->scale(out, h, scale);
    }
    if (l->made.activation == XSM_ACTIVATION_RELU) {
        for (size_t j = 0; j < h; j++) {
            out[j] = out[j] < 0 ? 0 : out[j]; /* NaN stays NaN and is detected later */
        }
    } else if (l->made.activation == XSM_ACTIVATION_TANH) {
        for (size_t j = 0; j < h; j++) {
            out[j] = (float)tanh((double)out[j]);
        }
    }
}

void xsmi_layer_before(const xsm_model *m, const xsmi_features *x, const float *hidden, float *gradient)
{
    const xsmi_layer *l = m->layer;
    const float factor = pool_factor(l, x);
    for (size_t j = 0; j < m->features; j++) {
        float slope = factor;
        if (l->made.activation == XSM_ACTIVATION_RELU) {
            slope = hidden[j] > 0 ? factor : 0;
        } else if (l->made.activation == XSM_ACTIVATION_TANH) {
            slope = factor * (1 - hidden[j] * hidden[j]);
        }
        gradient[j] *= slope;
    }
}

void xsmi_layer_step(xsm_model *m, const xsmi_features *x, const float *gradient, const xsmi_layer_change *change)
{
    const xsmi_layer *l = m->layer;
    const xsmi_weights *w = xsmi_model_vectors(m);
    uint32_t rows[GROUP];
    float amounts[GROUP];
    size_t count = 0;
    for (size_t i = 0; i < x->count; i++) {
        uint32_t j = x->index ? x->index[i] : (uint32_t)i;
        if (x->values[i] == 0 || j % change->pieces != change->piece) {
            continue;
        }
        rows[count] = j;
        double scale = l->tied ? tied_scale(m, change->alpha, j) : change->alpha;
        amounts[count++] = (float)(-change->eta * (double)x->values[i] / scale);
        if (count == GROUP) {
            m->kernels->scatter_update(w->weight, w->stride, rows, count, gradient, m->features, amounts, NULL);
            count = 0;
        }
    }
    if (count > 0) {
        m->kernels->scatter_update(w->weight, w->stride, rows, count, gradient, m->features, amounts, NULL);
    }
}

/* -- batches ------------------------------------------------------------------------------------------------------- */

/* Number of rows of one job. */
#define JOB_ROWS 16

/* The most features of a row whose vectors are prefetched. */
#define FEATURES_AHEAD 32

typedef struct hidden_job {
    const xsm_model *model;
    const xsm_batch *batch;
    size_t first, end; /* the rows of a job */
    float *out;
    size_t stride;
} hidden_job;

/* Prefetches the vectors of a row's features, or only the first line of each (see xsmi_prefetch_firsts()). */
XSMI_PREFETCHER void prefetch_vectors(const xsm_model *m, const xsmi_features *x, const bool whole)
{
    const xsmi_layer *l = m->layer;
    for (size_t j = 0; !l->tied && l->w.weight && j < x->count && j < FEATURES_AHEAD; j++) {
        const float *vector = l->w.weight + (x->index ? x->index[j] : j) * l->w.stride;
        if (whole) {
            xsmi_prefetch_row(vector, m->features);
        } else {
            xsmi_prefetch_line(vector);
        }
    }
}

static void run_hidden(void *state, const xsmi_range *r)
{
    const hidden_job *job = state;
    const size_t first = job->first + r->first, end = job->first + r->end;
    for (size_t i = first; i < end; i++) {
        const xsmi_features x = xsmi_batch_features(job->batch, i);
        prefetch_vectors(job->model, &x, false);
    }
    for (size_t i = first; i < end; i++) {
        xsmi_features x = xsmi_batch_features(job->batch, i);
        if (i + 1 < job->end) {
            const xsmi_features next = xsmi_batch_features(job->batch, i + 1);
            prefetch_vectors(job->model, &next, true);
        }
        xsmi_layer_hidden(job->model, &x, job->out + i * job->stride);
    }
}

xsm_status xsmi_model_hidden(const xsm_model *m, const xsm_batch *batch, size_t first, size_t end, float *out,
                             size_t stride, const xsmi_aside *aside, xsm_error *err)
{
    hidden_job job = {m, batch, first, end, out, stride};
    return xsmi_run_beside(m->context, run_hidden, &job, end - first, JOB_ROWS, aside, err);
}

/* -- in files ------------------------------------------------------------------------------------------------------ */

/*
 * A first layer in a model's file: the tensor `embedding` [F, H], unless the vectors are tied, and the metadata
 * `first_layer`, such as "relu mean seed=1 scale=0.25", with " tied" at its end for tied vectors. A file of another
 * program may have only the tensor; its vectors are then summed without an activation.
 */

void xsmi_layer_describe(const xsmi_layer *l, char *text, size_t size)
{
    char scale[64];
    xsmi_print_double(l->made.scale, 0, scale, sizeof scale);
    snprintf(text, size, "%s %s seed=%" PRIu64 " scale=%s%s", xsmi_activation_names[l->made.activation],
             xsmi_pool_names[l->made.pool], l->made.seed, scale, l->tied ? " tied" : "");
}

/* -- loading ------------------------------------------------------------------------------------------------------- */

/* Reads the next word of a text, up to a space; false at its end or when it does not fit. */
static bool next_word(const char **text, char *word, size_t size)
{
    size_t length = strcspn(*text, " ");
    if (length == 0 || length >= size) {
        return false;
    }
    memcpy(word, *text, length);
    word[length] = '\0';
    *text += length + ((*text)[length] == ' ');
    return true;
}

static bool choice_of(const char *word, const char *const *names, int32_t *choice)
{
    for (int32_t i = 0; names[i]; i++) {
        if (strcmp(names[i], word) == 0) {
            *choice = i;
            return true;
        }
    }
    return false;
}

static bool parse(const char *text, xsm_embedding_options *o)
{
    char activation[16], pool[16], seed[64], scale[64], tied[16];
    int64_t number = 0;
    if (!next_word(&text, activation, sizeof activation) || !next_word(&text, pool, sizeof pool) ||
        !next_word(&text, seed, sizeof seed) || !next_word(&text, scale, sizeof scale) ||
        !choice_of(activation, xsmi_activation_names, &o->activation) || !choice_of(pool, xsmi_pool_names, &o->pool) ||
        strncmp(seed, "seed=", 5) != 0 || strncmp(scale, "scale=", 6) != 0 || !xsmi_parse_int(seed + 5, &number) ||
        number < 0 || !xsmi_parse_double(scale + 6, &o->scale) || !(o->scale >= 0 && o->scale <= 1e6)) {
        return false;
    }
    o->seed = (uint64_t)number;
    if (next_word(&text, tied, sizeof tied)) {
        o->tied = strcmp(tied, "tied") == 0;
        return o->tied && *text == '\0';
    }
    return *text == '\0';
}

xsm_status xsmi_layer_read(xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err)
{
    const xsmi_tensor *vectors = xsmi_container_tensor(file, "embedding");
    const xsmi_dtype type = xsmi_kind_of(xsmi_model_dtype(m))->tensor;
    const char *text = xsmi_container_metadata(file, XSMI_KEY_FIRST_LAYER);
    xsm_embedding_options o = XSM_EMBEDDING_OPTIONS_INIT;
    if (!vectors && !text) {
        return XSM_OK;
    }
    o.scale = sqrt(3.0 / (m->features ? m->features : 1));
    if (text && !parse(text, &o)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the metadata 'first_layer' is '%.100s'; accepted is an activation, a pooling, seed= and "
                         "scale=, such as 'identity sum seed=0 scale=0.1', and tied or nothing after it",
                         name, text);
    }
    o.bias = m->w.bias != NULL;
    if (o.tied ? vectors != NULL
               : !vectors || vectors->dtype != type || vectors->rank != 2 || vectors->shape[0] < 1 ||
                     vectors->shape[0] > XSM_FEATURES_MAX || vectors->shape[1] != m->features) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: an embedding model has a tensor 'embedding', %s of 1 to %u features by the %u columns of "
                         "'weight', or none where its vectors are tied",
                         name, xsmi_dtype_name(type), XSM_FEATURES_MAX, m->features);
    }
    if (m->features < 1 || m->features > XSM_HIDDEN_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: hidden vectors of %u; 1 to %d are accepted", name, m->features,
                         XSM_HIDDEN_MAX);
    }
    XSMI_TRY(xsmi_layer_new(m, o.tied ? m->classes : (uint32_t)vectors->shape[0], &o, err));
    return o.tied ? XSM_OK
                  : xsmi_weights_read(m->context, file, name, vectors, XSMI_EMBEDDING_SCALE, &m->layer->w, err);
}
