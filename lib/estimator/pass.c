/*
 * The stages of a batch. Its rows, as input of the output layer, are those of the data, features that come with the
 * batch, for example from a network of the host's, or hidden vectors of a first layer.
 */
#include "estimator/pass.h"

#include "estimator/stream.h"
#include "base/order.h"
#include "estimator/gathered.h"
#include "estimator/sifted.h"
#include "base/activity.h"
#include "gradient/shards.h"

#include <math.h>
#include <string.h>

xsm_status xsmi_estimator_read_batch(const xsm_estimator *e, const xsm_batch *given, xsm_batch *batch, xsm_error *err)
{
    XSMI_TRY(xsmi_batch_parse(given, batch, err));
    if (e->labels_alone && !batch->values) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s' is bound to labels alone: the batch must bring its rows' features in `values`",
                         e->ops.name);
    }
    XSMI_TRY(xsmi_model_check_batch(e->model, batch, err));
    XSMI_TRY(batch->weights ? xsmi_estimator_check_weights(e, err) : XSM_OK);
    if (e->stream) {
        return xsmi_stream_read_batch(e, batch, err);
    }
    if (batch->label_weights) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "xsm_batch.label_weights are of xsm_batch.labels, which a stream's batches bring; a dataset has "
            "its own");
    }
    if (batch->dataset != e->train) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the batch is of other data than the estimator is bound to");
    }
    return XSM_OK;
}

/* Makes room for the codes of the rows, and makes those of a sampler that is constant. */
static xsm_status encode_rows(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, xsm_error *err)
{
    const bool follows = e->sampling.follows;
    const size_t length =
        e->sampling.sampler && !e->exact && (batch->values || follows) ? e->sampling.sampler->code_length : 0;
    size_t count;
    if (!xsmi_multiply((size_t)batch->count, length, &count)) {
        return xsmi_fail_memory(err, SIZE_MAX, "row codes");
    }
    if (!xsmi_reserve(g->context, &g->work.codes, &g->work.code_capacity, count, sizeof *g->work.codes)) {
        return xsmi_fail_memory(err, count * sizeof *g->work.codes, "row codes");
    }
    g->work.coded = length > 0;
    xsmi_code_fault fault = XSMI_CODE_FAULT;
    for (size_t i = 0; length > 0 && !follows && i < batch->count; i++) {
        XSMI_TRY(xsmi_go_on(e->context, err));
        xsmi_sampler_encode_batch(e->sampling.sampler, batch, i, g->work.codes + i * length);
        xsmi_code_test(&fault, g->work.codes + i * length, length, i);
    }
    return length > 0 ? xsmi_code_check(e->sampling.sampler, &fault, err) : XSM_OK;
}

static void run_encode(void *state, const xsmi_range *r)
{
    const xsmi_pass *p = state;
    const xsm_sampler *s = p->estimator->sampling.sampler;
    xsmi_pass_list_examples(p, r->first, r->end - r->first);
    for (uint64_t i = r->first; i < r->end && !xsmi_poll(p->estimator->context); i++) {
        const xsmi_features x = xsmi_gradient_features(p->estimator, p->gradient, i);
        xsmi_sampler_encode(s, &x, p->gradient->work.codes + i * s->code_length);
    }
}

static xsm_status compute_hidden(const xsmi_pass *p, const xsmi_aside *aside, xsm_error *err)
{
    const xsm_estimator *e = p->estimator;
    const xsm_batch *batch = p->batch;
    xsm_gradient *g = p->gradient;
    const xsm_model *m = e->model;
    const size_t stride = xsmi_row_stride(m->features);
    XSMI_TRY(xsmi_gradient_reserve_layer(g, batch->count, stride, err));
    g->work.rows.values = g->layer.hidden;
    g->work.rows.stride = stride;
    g->layer.decay = xsmi_estimator_own_decay(e, p->eta);
    const size_t first = p->some_hidden ? (size_t)p->first : 0;
    const size_t end = p->some_hidden ? (size_t)p->end : (size_t)batch->count;
    return xsmi_model_hidden(m, batch, first, end, g->layer.hidden, stride, aside, err);
}

xsm_status xsmi_pass_set_rows(const xsmi_pass *p, const xsmi_aside *aside, xsm_error *err)
{
    const xsm_estimator *e = p->estimator;
    const xsm_batch *batch = p->batch;
    xsm_gradient *g = p->gradient;
    XSMI_TRY(encode_rows(e, g, batch, err));
    xsmi_example_weighted(e, batch, g);
    g->work.rows.offsets = NULL;
    if (e->hidden) {
        XSMI_TRY(compute_hidden(p, aside, err));
    } else {
        if (aside) {
            aside->run(aside->state);
        }
        g->work.rows.values = batch->values;
        g->work.rows.stride = batch->stride;
        g->work.rows.offsets = batch->offsets;
        g->work.rows.index = batch->index;
    }
    return g->work.coded && e->sampling.follows
               ? xsmi_run_ranges(e->context, run_encode, (void *)(uintptr_t)p, batch->count, XSMI_EXAMPLE_CHUNK, err)
               : XSM_OK;
}

void xsmi_pass_list_examples(const xsmi_pass *p, uint64_t first, uint64_t count)
{
    const xsm_estimator *e = p->estimator;
    xsm_gradient *g = p->gradient;
    for (uint64_t i = first; i < first + count; i++) {
        g->example[i] = xsmi_example_of(e, p->batch, i);
    }
    for (uint64_t i = first; (g->weighted || g->label_weighted) && i < first + count; i++) {
        xsmi_example_weigh(e, p->batch, e->stream ? 0 : xsmi_batch_row(p->batch, (size_t)i), g, i);
    }
    const uint64_t start = p->some_hidden ? XSMI_MAX(first, p->first) : first;
    const uint64_t end = p->some_hidden ? XSMI_MIN(first + count, p->end) : first + count;
    for (uint64_t i = start; g->work.rows.values && i < end; i++) {
        xsmi_features x = xsmi_gradient_features(e, g, i);
        g->example[i].squared_norm = (double)e->model->kernels->dot(x.values, x.values, x.count);
    }
}

void xsmi_pass_layer_backward(const xsmi_pass *p, uint64_t first, uint64_t count, xsmi_outcome *outcome)
{
    const xsm_model *m = p->estimator->model;
    const xsm_batch *batch = p->batch;
    xsm_gradient *g = p->gradient;
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_features x = xsmi_batch_features(batch, (size_t)i);
        float *gradient = g->layer.gradient + i * g->work.rows.stride;
        xsmi_layer_before(m, &x, g->layer.hidden + i * g->work.rows.stride, gradient);
        double square = (double)m->kernels->dot(gradient, gradient, m->features), reach = 0;
        for (size_t j = 0; j < x.count; j++) {
            reach = fabs((double)x.values[j]) > reach ? fabs((double)x.values[j]) : reach;
        }
        reach *= sqrt(square);
        outcome->largest = reach <= outcome->largest ? outcome->largest : reach; /* NaN is stored, too */
    }
    outcome->finite &= outcome->largest * p->eta < XSMI_STEP_LIMIT; /* false for NaN, too */
}

/* -- coefficients -------------------------------------------------------------------------------------------------- */

/*
 * Computes the scores (logits) of the classes that the lists name, calls the table to turn them into coefficients,
 * takes the mean over the batch, and detects numbers that are not finite.
 */

/* Smaller coefficients are set to 0. They change only weights that are as small, and make weights denormal floats,
 * with which scores and steps are several times slower. */
#define COEFFICIENT_LEAST 0x1p-100f

xsm_status xsmi_estimator_check_eta(const xsm_estimator *e, double eta, xsm_error *err)
{
    XSMI_TRY(xsmi_check_eta(eta, err));
    double rate = e->ops.joint ? e->common.ridge / (double)e->examples : e->decay_rate;
    if (!(eta * rate < 1e12)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a learning rate of %g with a ridge of %g would leave nothing of the weights in one step; "
                         "their product over the number of rows must be below 1e12",
                         eta, e->common.ridge);
    }
    return XSM_OK;
}

static xsm_status reserve(const xsm_estimator *e, xsm_gradient *g, const xsmi_gradient_shape *shape, xsm_error *err)
{
    XSMI_TRY(xsmi_gradient_reserve(g, shape, err));
    if (g->head != e->head) {
        xsmi_head_release(g->head);
        g->head = xsmi_head_retain(e->head);
    }
    g->row_bound = e->row_bound;
    g->link = xsmi_estimator_link(e);
    xsmi_example_weighted(e, NULL, g);
    return XSM_OK;
}

xsm_status xsmi_estimator_reserve_recomputed(const xsm_estimator *e, xsm_gradient *g, uint64_t examples, xsm_error *err)
{
    const xsmi_gradient_shape shape = {
        .form = XSMI_GRADIENT_RECOMPUTED, .examples = examples, .width = e->width, .model_classes = e->model->classes};
    return reserve(e, g, &shape, err);
}

xsm_status xsmi_estimator_reserve(const xsm_estimator *e, xsm_gradient *g, uint64_t examples, uint32_t threads,
                                  bool joint, xsm_error *err)
{
    const bool sifted = e->ops.sift != NULL;
    const xsmi_gradient_shape shape = {
        .form = !e->exact ? XSMI_GRADIENT_LISTED
                : sifted  ? XSMI_GRADIENT_SIFTED
                          : XSMI_GRADIENT_DENSE,
        .examples = examples,
        .width = joint ? e->ops.joint_width(e->state, examples) : e->width,
        .model_classes = e->model->classes,
        .proximal = (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0 && !joint,
        .linear = !e->exact && xsmi_model_has_bias(e->model),
        .draws = !e->exact && (e->sampling.sampler || e->ops.kind == XSM_ESTIMATOR_HIERARCHY),
        .scratch_each = e->ops.scratch ? e->ops.scratch(e->state) : 0,
        .threads = threads,
    };
    return reserve(e, g, &shape, err);
}

/* Returns what example i will be scored with, for prefetching; nothing from the end on. */
static xsmi_upcoming upcoming_list(const xsm_estimator *e, const xsm_gradient *g, uint64_t i, uint64_t end)
{
    if (i >= end) {
        return (xsmi_upcoming){.rows = NULL};
    }
    const xsmi_features x = xsmi_gradient_features(e, g, i);
    return (xsmi_upcoming){xsmi_listed_classes(g, i), g->lengths[i], x.index ? NULL : x.values, SIZE_MAX};
}

bool xsmi_estimator_scores(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, double alpha,
                           const xsmi_upcoming *upcoming)
{
    const xsmi_weights *w = xsmi_listed_weights(e, g);
    const uint64_t ahead = xsmi_lists_ahead((size_t)g->width);
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_features x = xsmi_gradient_features(e, g, i);
        const uint32_t *classes = xsmi_listed_classes(g, i);
        float *scores = g->work.scores + i * g->width;
        if (count == 1) {
            xsmi_weights_score(w, &x, classes, g->lengths[i], alpha, scores, upcoming);
        } else {
            const xsmi_upcoming next = upcoming_list(e, g, i + ahead, first + count);
            xsmi_weights_score_list(w, &x, classes, g->lengths[i], alpha, scores, &next);
        }
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            finite &= fabsf(scores[j]) < (float)XSMI_STEP_LIMIT; /* false for NaN, too */
        }
        for (uint32_t j = 0; w->bias && j < g->lengths[i]; j++) {
            g->work.linear[i * g->width + j] = scores[j] - w->bias[classes[j]];
        }
    }
    return finite;
}

xsm_score_block xsmi_estimator_block(const xsm_estimator *e, xsm_gradient *g, const xsmi_piece *piece)
{
    const uint64_t first = piece->first;
    const xsm_model *m = e->model;
    uint64_t width = g->width, start = first * width;
    const bool lists = xsmi_gradient_has_lists(g), dense = xsmi_gradient_is_dense(g);
    const bool sifted = xsmi_gradient_is_sifted(g);
    const bool drawn = e->sampling.sampler && !dense;
    const float *scores = (lists ? g->work.scores : g->coefficients) + start;
    return (xsm_score_block){
        .size = sizeof(xsm_score_block),
        .examples = g->example + first,
        .count = piece->count,
        .batch = piece->batch,
        .width = width,
        .lengths = lists ? g->lengths + first : NULL,
        .classes = lists ? g->classes + start : NULL,
        .scores = scores,
        .linear = dense                    ? NULL
                  : xsmi_model_has_bias(m) ? g->work.linear + start
                                           : scores,
        .eta = piece->eta,
        .coefficients = (sifted ? g->work.sifted : g->coefficients) + start,
        .shrinks = g->proximal ? g->shrinks + start : NULL,
        .losses = g->losses + first,
        .scratch = g->work.scratch_each ? g->work.scratch + piece->thread * g->work.scratch_each : NULL,
        .log_expected = drawn ? g->work.log_expected + start : NULL,
        .draws = drawn ? g->work.draws + start : NULL,
        .turns = e->ops.kind == XSM_ESTIMATOR_HIERARCHY ? g->work.draws + start : NULL,
        .upcoming = g->work.upcoming,
        .weights = g->weighted ? g->weights + first : NULL,
        .label_weights = g->label_weighted ? (const float *const *)g->label_weights + first : NULL,
    };
}

uint64_t xsmi_estimator_coefficients(xsm_estimator *e, xsm_gradient *g, const xsmi_piece *piece, xsmi_outcome *outcome)
{
    if (xsmi_draw_is_faulty(&e->sampling.fault)) {
        outcome->finite = false;
        return 0;
    }
    const xsm_score_block block = xsmi_estimator_block(e, g, piece);
    for (uint64_t j = 0; g->proximal && j < block.count * block.width; j++) {
        block.shrinks[j] = 1;
    }
    e->ops.gradient(e->state, &block);
    const uint64_t good = xsmi_estimator_finish_block(e->model->kernels, &block, outcome);
    if (xsmi_gradient_is_sifted(g)) {
        xsmi_sift_spread(g, piece->first, piece->count);
    }
    return good;
}

/* Multiplies an example's coefficients by its weight and 1/n, and its loss by the weight; returns the largest |g|. A
 * weight of 0 leaves nothing, whatever the table has computed. */
static float weigh(const xsmi_kernels *kernels, const xsm_score_block *block, uint64_t i, size_t length, float mean)
{
    float *coefficients = block->coefficients + i * block->width;
    const float weight = block->weights[i];
    if (weight == 0) {
        memset(coefficients, 0, length * sizeof *coefficients);
        block->losses[i] = 0;
        return 0;
    }
    block->losses[i] *= (double)weight;
    return kernels->row_scaled_max(coefficients, length, mean * weight, COEFFICIENT_LEAST);
}

uint64_t xsmi_estimator_finish_block(const xsmi_kernels *kernels, const xsm_score_block *block, xsmi_outcome *outcome)
{
    uint64_t good = block->count;
    float mean = 1 / (float)block->batch;
    for (uint64_t i = 0; i < block->count; i++) {
        uint64_t length = block->lengths ? block->lengths[i] : block->width;
        const float most = block->weights ? weigh(kernels, block, i, (size_t)length, mean)
                                          : kernels->row_scaled_max(block->coefficients + i * block->width,
                                                                    (size_t)length, mean, COEFFICIENT_LEAST);
        /* The 1 is for the bias, and because a row of zeros times infinity would be NaN. */
        double reach = (double)most * sqrt(block->examples[i].squared_norm + 1);
        outcome->largest = XSMI_MAX(reach, outcome->largest);
        /* The first three are false for NaN, too. */
        bool finite = most < INFINITY && reach * (double)block->batch < XSMI_GRADIENT_LIMIT &&
                      reach * block->eta < XSMI_STEP_LIMIT && isfinite(block->losses[i]);
        good = finite || good < i ? good : i;
    }
    outcome->finite &= good == block->count;
    return good;
}

void xsm_prefetch(xsm_prefetch_queue *queue, uint32_t lines)
{
    if (queue) {
        xsmi_prefetch_queued(queue, lines);
    }
}

/* -- the gradient of the rows -------------------------------------------------------------------------------------- */

/*
 * The gradient with respect to the rows.
 *
 * For an explicit estimator dL/dx = sum_k g_k w_k, at the weights that were scored. A proximal one minimises F(theta) +
 * ||theta - theta_old||^2 / (2 eta) in theta, where F is its objective on the batch. The host's loss is that minimum as
 * a function of x (the Moreau envelope of F). Its derivative in x is dF/dx at the minimum, which is sum_k g_k w_k+ with
 * the weights after the step, w_k+ = s_k (w_k - eta g_k x).
 */

/* Number of classes whose coefficients are applied together. */
#define GROUP 64
/* Classes, and the least rows, of a product of coefficients and weights. */
#define PRODUCT_CLASSES 64
#define PRODUCT_ROWS 4
/* Classes between two polls, a multiple of both. */
#define POLL_CLASSES 512
/* Floats of scratch of a thread, unless one row needs more. */
#define SCRATCH_FLOATS ((size_t)1 << 20)

/* Adds sum_k g_k s_k (w_k - eta g_k x). */
static void add_proximal(const xsm_estimator *e, const xsm_gradient *g, double eta, uint64_t i, float *out)
{
    const float *coefficients = g->coefficients + i * g->width;
    const double *shrinks = g->shrinks + i * g->width;
    const uint32_t *classes = xsmi_listed_classes(g, i);
    float amounts[GROUP];
    double own = 0;
    for (uint32_t start = 0; start < g->lengths[i]; start += GROUP) {
        uint32_t count = g->lengths[i] - start < GROUP ? g->lengths[i] - start : GROUP;
        for (uint32_t k = 0; k < count; k++) {
            double c = (double)coefficients[start + k], s = shrinks[start + k];
            amounts[k] = (float)(c * s);
            own += c * c * s;
        }
        xsmi_weights_backward(xsmi_listed_weights(e, g), classes + start, 0, amounts, count, out);
    }
    xsmi_features x = xsmi_gradient_features(e, g, i);
    const float back = (float)(-eta * own);
    for (size_t j = 0; j < x.count; j++) {
        float *at = out + (x.index ? x.index[j] : j);
        *at = fmaf(back, x.values[j], *at);
    }
}

/* The rows of a call, from number `row` on, for which the sums over the classes are computed. */
typedef struct input_sums {
    const xsmi_pass *pass;
    const xsmi_weights *weights; /* class k is row k - first of these, and its coefficient is in column k - column */
    uint32_t first, column;
    uint64_t row, rows;
    uint32_t thread;
    uint32_t next; /* sifted: the first entry of the list, after the labels, that is not added yet */
} input_sums;

/* Adds some classes to several rows: a product of matrices, with the bits of xsmi_weights_backward(). */
static void add_product(const xsmi_weights *w, size_t first, size_t classes, const float *coefficients, size_t width,
                        size_t rows, float *out, size_t stride)
{
    /* Rows that lie a power of two from each other would evict one another from the L1 cache. */
    enum { AMOUNTS = PRODUCT_CLASSES + XSMI_LINE };
    _Alignas(XSMI_ALIGNMENT) float amounts[XSMI_EXAMPLE_CHUNK * AMOUNTS], packed[PRODUCT_CLASSES * XSMI_LANES];
    const float *weights[PRODUCT_CLASSES];
    for (size_t i = 0; i < rows; i++) {
        float *of_row = amounts + i * AMOUNTS;
        memcpy(of_row, coefficients + i * width, classes * sizeof *of_row);
        for (size_t k = 0; w->alpha != 1 && k < classes; k++) {
            of_row[k] = (float)((double)of_row[k] * w->alpha);
        }
    }
    for (size_t at = 0; at < w->features; at += XSMI_LANES) {
        const size_t used = XSMI_MIN(w->features - at, XSMI_LANES);
        for (size_t k = 0; k < classes; k++) {
            weights[k] = w->weight + (first + k) * w->stride + at;
        }
        w->kernels->pack_rows(weights, classes, used, packed, 0);
        w->kernels->rank_packed(true, out + at, stride, rows, amounts, AMOUNTS, 1, packed, 0, classes, used, NULL);
    }
}

/* Adds the classes first..end, some of them for all rows in turn, so that their weights stay in the cache; row i has
 * its coefficients at all + i*width. Returns false if the call was cancelled. */
static bool add_classes(const input_sums *s, uint32_t first, uint32_t end, const float *all, uint64_t width, float *out,
                        size_t stride)
{
    const xsmi_weights *w = s->weights;
    const bool product = s->rows >= PRODUCT_ROWS && w->layout == XSM_LAYOUT_CLASS_MAJOR && !w->row_scale;
    const uint32_t group = product ? PRODUCT_CLASSES : GROUP;
    for (uint32_t k = first; k < end; k += group) {
        const size_t some = XSMI_MIN(end - k, group);
        if (k > first && (k - first) % POLL_CLASSES == 0 && xsmi_poll(s->pass->estimator->context)) {
            return false;
        }
        if (product) {
            add_product(w, k - s->first, some, all + (k - first), width, s->rows, out, stride);
        }
        for (uint64_t i = 0; !product && i < s->rows; i++) {
            xsmi_weights_backward(w, NULL, k - s->first, all + i * width + (k - first), some, out + i * stride);
        }
    }
    return true;
}

/* Adds every class. */
static bool sum_dense(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    const input_sums *s = state;
    const xsmi_pass *p = s->pass;
    const xsm_gradient *g = p->gradient;
    for (uint64_t i = 0; i < s->rows; i++) {
        memset(out + i * stride, 0, s->weights->features * sizeof *out);
    }
    if (!p->recompute) {
        const float *all = g->coefficients + s->row * g->width + (first - s->column);
        (void)add_classes(s, first, end, all, g->width, out, stride);
        return true; /* if the call was cancelled it fails, and its rows are undefined */
    }
    for (uint32_t k = first, some; k < end; k += some) {
        some = XSMI_MIN(end - k, g->recomputed.chunk_classes);
        const float *all = p->recompute(g, s->row, s->rows, k, k + some, s->thread);
        if (!add_classes(s, k, k + some, all, some, out, stride)) {
            break;
        }
    }
    return true;
}

/* Returns the number of labels at the head of a sifted list, which omits labels whose coefficient is 0. */
static uint32_t listed_labels(const xsm_gradient *g, uint64_t row)
{
    const xsm_example *example = &g->example[row];
    const uint32_t *classes = g->classes + row * g->width;
    uint32_t count = 0;
    for (uint64_t l = 0; l < example->label_count; l++) {
        count += count < g->lengths[row] && classes[count] == example->labels[l];
    }
    return count;
}

/* Adds what some listed classes contribute. */
static void add_sifted(const input_sums *s, const uint32_t *classes, const float *coefficients, size_t count,
                       float *out)
{
    uint32_t numbers[GROUP];
    for (size_t start = 0, some; start < count; start += some) {
        some = XSMI_MIN(count - start, GROUP);
        for (size_t i = 0; i < some; i++) {
            numbers[i] = classes[start + i] - s->first;
        }
        xsmi_weights_backward(s->weights, numbers, 0, coefficients + start, some, out);
    }
}

/* Adds, for one row, the labels among the classes first..end, then the other listed classes among them. */
static bool sum_sifted(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    input_sums *s = state;
    const xsm_gradient *g = s->pass->gradient;
    const uint32_t *classes = g->classes + s->row * g->width, labels = listed_labels(g, s->row);
    const float *listed = g->work.sifted + s->row * g->width;
    bool any = false;
    (void)stride;
    while (s->next < g->lengths[s->row] && classes[s->next] < first) {
        s->next++; /* its class belongs to another process */
    }
    const uint32_t start = s->next;
    while (s->next < g->lengths[s->row] && classes[s->next] < end) {
        s->next++;
    }
    for (uint32_t j = 0; j < labels; j++) {
        any |= classes[j] >= first && classes[j] < end;
    }
    if (!any && s->next == start) {
        return false;
    }
    memset(out, 0, s->weights->features * sizeof *out);
    for (uint32_t j = 0; j < labels; j++) {
        add_sifted(s, classes + j, listed + j, classes[j] >= first && classes[j] < end, out);
    }
    add_sifted(s, classes + start, listed + start, s->next - start, out);
    return true;
}

/* Returns how many rows are summed together: as many as keep the scratch near the size of a cache. */
static uint64_t rows_together(const xsm_model *m, uint64_t rows)
{
    const size_t each = xsmi_shard_scratch(m->classes) * m->features;
    return each * rows <= SCRATCH_FLOATS ? rows : XSMI_MAX(SCRATCH_FLOATS / each, 1);
}

size_t xsmi_pass_backward_scratch(const xsmi_pass *p)
{
    const xsm_model *m = p->estimator->model;
    const uint64_t rows = xsmi_gradient_is_sifted(p->gradient) ? 1 : rows_together(m, XSMI_EXAMPLE_CHUNK);
    return p->input && xsmi_gradient_is_dense(p->gradient) ? (size_t)rows * xsmi_shard_scratch(m->classes) * m->features
                                                           : 0;
}

uint64_t xsmi_pass_rows_together(const xsmi_pass *p, uint64_t rows)
{
    return xsmi_gradient_is_sifted(p->gradient) ? 1 : rows_together(p->estimator->model, rows);
}

/* Sets up the sums of `rows` examples from `first` on. */
static xsmi_shard_sums sums_of(const xsmi_pass *p, uint64_t first, uint64_t rows, uint32_t thread, input_sums *state)
{
    const xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    const xsmi_mine mine = xsmi_model_mine(m);
    const bool sifted = xsmi_gradient_is_sifted(g);
    *state = (input_sums){
        .pass = p,
        .weights = mine.w,
        .first = mine.first,
        .column = g->width < m->classes ? mine.first : 0,
        .row = first,
        .rows = rows,
        .thread = thread,
        .next = sifted ? listed_labels(g, first) : 0,
    };
    return (xsmi_shard_sums){.kernels = m->kernels,
                             .classes = m->classes,
                             .rows = (size_t)rows,
                             .width = m->features,
                             .sum = sifted ? sum_sifted : sum_dense,
                             .state = state};
}

bool xsmi_pass_backward_node(const xsmi_pass *p, uint64_t first, uint64_t rows, uint32_t thread, uint32_t shard,
                             uint32_t count, float *out, size_t stride)
{
    input_sums state;
    const xsmi_shard_sums sums = sums_of(p, first, rows, thread, &state);
    return xsmi_shard_node(&sums, shard, count, out, stride,
                           p->gradient->work.shards + thread * p->gradient->work.shards_each);
}

/* Adds every class, by shards, where each has a coefficient, or may have one. */
static void backward_dense(const xsmi_pass *p, uint64_t first, uint64_t count, uint32_t thread)
{
    const xsm_gradient *g = p->gradient;
    const uint64_t together = xsmi_pass_rows_together(p, XSMI_EXAMPLE_CHUNK);
    for (uint64_t i = first, rows; i < first + count; i += rows) {
        rows = XSMI_MIN(first + count - i, together);
        input_sums state;
        const xsmi_shard_sums sums = sums_of(p, i, rows, thread, &state);
        xsmi_shard_all(&sums, p->input->values + i * p->input->stride, p->input->stride,
                       g->work.shards + thread * g->work.shards_each);
    }
}

/* Adds the classes that example i lists, one after another. */
static void backward_listed(const xsmi_pass *p, uint64_t i)
{
    const xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    float *out = p->input->values + i * p->input->stride;
    memset(out, 0, m->features * sizeof *out);
    if (g->proximal) {
        add_proximal(p->estimator, g, p->eta, i, out);
    } else {
        xsmi_weights_backward(xsmi_listed_weights(p->estimator, g), xsmi_listed_classes(g, i), 0,
                              g->coefficients + i * g->width, g->lengths[i], out);
    }
}

bool xsmi_pass_backward(const xsmi_pass *p, uint64_t first, uint64_t count, uint32_t thread)
{
    const xsmi_input_gradient *input = p->input;
    const xsm_model *m = p->estimator->model;
    const bool dense = xsmi_gradient_is_dense(p->gradient);
    bool finite = true;
    if (dense) {
        backward_dense(p, first, count, thread);
    }
    for (uint64_t i = first; !dense && i < first + count; i++) {
        backward_listed(p, i);
    }
    for (uint64_t i = first; i < first + count; i++) {
        /* False for NaN, too. */
        finite &= m->kernels->row_scaled_max(input->values + i * input->stride, m->features, 1, 0) < INFINITY;
    }
    return finite;
}
