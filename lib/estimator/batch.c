/*
 * A batch through an estimator: scores the classes that its table selects, calls the table to turn the scores into
 * coefficients, takes the mean over the batch, and detects numbers that are not finite.
 */
#include "estimator/estimator.h"

#include "base/heap_sort.h"
#include "estimator/shared.h"
#include "estimator/sifted.h"

#include <math.h>
#include <string.h>

/* Smaller coefficients are set to 0. They change only weights that are as small, and make weights denormal floats,
 * with which scores and steps are several times slower. */
#define COEFFICIENT_LEAST 0x1p-100f

xsm_status xsmi_check_eta(double eta, xsm_error *err)
{
    if (!(eta > 0 && eta < XSMI_STEP_LIMIT)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the learning rate is %g; accepted is above 0 and below %g", eta,
                         XSMI_STEP_LIMIT);
    }
    return XSM_OK;
}

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

xsm_status xsmi_estimator_reserve(const xsm_estimator *e, xsm_gradient *g, uint64_t examples, uint32_t threads,
                                  bool joint, xsm_error *err)
{
    const bool sifted = e->ops.sift != NULL;
    xsmi_gradient_shape shape = {
        .form = !e->exact ? XSMI_GRADIENT_LISTED
                : sifted  ? XSMI_GRADIENT_SIFTED
                          : XSMI_GRADIENT_DENSE,
        .examples = examples,
        .width = joint ? e->ops.joint_width(e->state, examples) : e->width,
        .model_classes = e->model->classes,
        .proximal = (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0 && !joint,
        .linear = !e->exact && e->model->bias,
        .draws = !e->exact && (e->sampler || e->ops.kind == XSM_ESTIMATOR_HIERARCHY),
        .scratch_each = e->ops.scratch ? e->ops.scratch(e->state) : 0,
        .threads = threads,
    };
    XSMI_TRY(xsmi_gradient_reserve(g, &shape, err));
    if (g->correction != e->correction) {
        xsmi_correction_release(g->correction);
        g->correction = xsmi_correction_retain(e->correction);
    }
    g->row_bound = e->row_bound;
    return XSM_OK;
}

bool xsmi_estimator_scores(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, double alpha,
                           const xsmi_coming *coming)
{
    const xsm_model *m = e->model;
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_features x = xsmi_gradient_features(e, g, i);
        const uint32_t *classes = g->classes + i * g->width;
        float *scores = g->work.scores + i * g->width;
        xsmi_model_score_classes(m, &x, classes, g->lengths[i], alpha, scores, coming);
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            finite &= fabsf(scores[j]) < (float)XSMI_STEP_LIMIT; /* false for NaN too */
        }
        for (uint32_t j = 0; m->bias && j < g->lengths[i]; j++) {
            g->work.linear[i * g->width + j] = scores[j] - m->bias[classes[j]];
        }
    }
    return finite;
}

uint64_t xsmi_estimator_coefficients(xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, uint64_t batch,
                                     double eta, uint32_t thread, double *largest)
{
    const xsm_model *m = e->model;
    uint64_t width = g->width, start = first * width;
    const bool lists = xsmi_gradient_has_lists(g), exact = xsmi_gradient_is_exact(g), sifted = exact && lists;
    const bool drawn = e->sampler && !exact;
    const float *scores = (lists ? g->work.scores : g->coefficients) + start;
    for (uint64_t j = 0; g->proximal && j < count * width; j++) {
        g->shrinks[start + j] = 1;
    }
    xsm_score_block block = {
        .size = sizeof block,
        .examples = g->example + first,
        .count = count,
        .batch = batch,
        .width = width,
        .lengths = lists ? g->lengths + first : NULL,
        .classes = lists ? g->classes + start : NULL,
        .scores = scores,
        .linear = exact     ? NULL
                  : m->bias ? g->work.linear + start
                            : scores,
        .eta = eta,
        .coefficients = (sifted ? g->work.scores : g->coefficients) + start,
        .shrinks = g->proximal ? g->shrinks + start : NULL,
        .losses = g->losses + first,
        .scratch = g->work.scratch_each ? g->work.scratch + thread * g->work.scratch_each : NULL,
        .log_expected = drawn ? g->work.log_expected + start : NULL,
        .draws = drawn ? g->work.draws + start : NULL,
        .turns = e->ops.kind == XSM_ESTIMATOR_HIERARCHY ? g->work.draws + start : NULL,
        .upcoming = g->work.upcoming,
    };
    e->ops.gradient(e->state, &block);
    uint64_t good = xsmi_estimator_take_mean(&block, largest);
    if (sifted) {
        xsmi_sift_spread(g, first, count);
    }
    return good;
}

uint64_t xsmi_estimator_take_mean(const xsm_score_block *block, double *largest)
{
    uint64_t good = block->count;
    float mean = 1 / (float)block->batch;
    for (uint64_t i = 0; i < block->count; i++) {
        uint64_t length = block->lengths ? block->lengths[i] : block->width;
        float *c = block->coefficients + i * block->width;
        uint32_t most_bits = 0;
        for (uint64_t j = 0; j < length; j++) {
            c[j] *= mean;
            c[j] = fabsf(c[j]) < COEFFICIENT_LEAST ? 0 : c[j];
            /* Sizes of floats compare as their bits do, with infinity and NaN above all others; compilers can vectorise
             * this. */
            uint32_t bits;
            memcpy(&bits, &c[j], sizeof bits);
            bits &= 0x7fffffff;
            most_bits = bits > most_bits ? bits : most_bits;
        }
        float most;
        memcpy(&most, &most_bits, sizeof most);
        /* The 1 is for the bias, and because a row of zeros times infinity would be NaN. */
        double reach = (double)most * sqrt(block->examples[i].squared_norm + 1);
        *largest = reach > *largest ? reach : *largest;
        /* The first three are false for NaN too. */
        bool finite = most < INFINITY && reach < XSMI_GRADIENT_LIMIT && reach * block->eta < XSMI_STEP_LIMIT &&
                      isfinite(block->losses[i]);
        good = finite || good < i ? good : i;
    }
    return good;
}

void xsm_prefetch(xsm_prefetch_queue *queue, uint32_t lines)
{
    if (queue) {
        xsmi_ask_lines(queue, lines);
    }
}

typedef struct chunk_job {
    xsm_estimator *estimator;
    xsm_gradient *gradient;
    const xsm_batch *batch;
    double eta;
    const xsmi_input_gradient *input;
    double *largest; /* by chunk */
    bool *finite;
} chunk_job;

/* Examples of one job. */
static uint64_t chunk_of(const xsm_gradient *g)
{
    return (g->form == XSMI_GRADIENT_SHARED) ? XSMI_SHARED_ROWS : XSMI_EXAMPLE_CHUNK;
}

static void run_chunk(void *state, size_t index, uint32_t thread)
{
    chunk_job *job = state;
    xsm_estimator *e = job->estimator;
    xsm_gradient *g = job->gradient;
    const bool product = (g->form == XSMI_GRADIENT_SHARED);
    const uint64_t chunk = chunk_of(g);
    uint64_t first = index * chunk;
    uint64_t rest = job->batch->count - first;
    uint64_t count = rest < chunk ? rest : chunk;
    for (uint64_t i = first; i < first + count; i++) {
        g->example[i] = xsmi_example_of(e, job->batch, i);
    }
    xsmi_gradient_measure(e, g, first, count);
    if (!xsmi_gradient_is_exact(g)) {
        xsmi_estimator_select(e, g, first, count);
    }
    job->largest[index] = 0;
    bool scored =
        xsmi_gradient_is_exact(g) || (product ? xsmi_shared_scores(e, g, first, count, thread)
                                              : xsmi_estimator_scores(e, g, first, count, e->model->alpha, NULL));
    job->finite[index] = scored && xsmi_estimator_coefficients(e, g, first, count, job->batch->count, job->eta, thread,
                                                               &job->largest[index]) == count;
    if (product && job->finite[index]) {
        job->finite[index] = xsmi_shared_backward(e, g, job->input, first, count, thread);
    } else if (job->input && job->finite[index]) {
        job->finite[index] = xsmi_input_gradient_take(job->input, e, g, job->eta, first, count);
    }
    if (e->model->layer && job->finite[index]) {
        xsmi_gradient_take_layer(e, g, job->batch, first, count, &job->largest[index]);
        job->finite[index] = job->largest[index] * job->eta < XSMI_STEP_LIMIT; /* false for NaN too */
    }
}

static int compare_rows(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool xsmi_batch_has_repeats(const xsm_batch *batch, uint64_t *sorted)
{
    size_t n = (size_t)batch->count;
    memcpy(sorted, batch->rows, n * sizeof *sorted);
    xsmi_heap_sort(sorted, n, sizeof *sorted, compare_rows);
    bool repeats = false;
    for (size_t i = 1; i < n; i++) {
        repeats |= sorted[i] == sorted[i - 1];
    }
    return repeats;
}

/* Whether a row occurs twice in a batch; yes if there is no memory for the test, which is the safe answer. */
static bool may_repeat(xsm_context *ctx, const xsm_batch *batch)
{
    if (!batch->rows) {
        return false;
    }
    uint64_t *sorted = xsmi_allocate(ctx, (size_t)batch->count, sizeof *sorted);
    bool repeats = !sorted || xsmi_batch_has_repeats(batch, sorted);
    xsmi_release(ctx, sorted, (size_t)batch->count, sizeof *sorted);
    return repeats;
}

/* Processes the examples in chunks, on the context's threads. */
static xsm_status one_by_one(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g,
                             const xsmi_input_gradient *input, bool *finite, double *largest, xsm_error *err)
{
    XSMI_TRY(xsmi_estimator_reserve(e, g, batch->count, xsm_context_threads(e->context), false, err));
    XSMI_TRY(xsmi_gradient_take_batch(e, g, batch, eta, err));
    XSMI_TRY(xsmi_shared_draw(e, g, batch->count, xsm_context_threads(e->context), err));
    const xsmi_input_gradient of_layer = {g->layer.gradient, g->work.rows.stride};
    input = e->model->layer ? &of_layer : input;
    if (g->form == XSMI_GRADIENT_SIFTED) {
        for (uint64_t i = 0; i < batch->count; i++) {
            g->example[i] = xsmi_example_of(e, batch, i);
        }
        XSMI_TRY(xsmi_sift(e, g, batch, err));
    } else if (xsmi_gradient_is_exact(g)) {
        XSMI_TRY(xsmi_model_score_range(e->model, batch, 0, e->model->classes, g->coefficients, g->width, g->context,
                                        &g->work.room, err));
    }
    size_t chunks = (size_t)((batch->count + chunk_of(g) - 1) / chunk_of(g));
    double few_largest[8];
    bool few_finite[8];
    double *each_largest = chunks <= 8 ? few_largest : xsmi_allocate(e->context, chunks, sizeof *each_largest);
    bool *each_finite = chunks <= 8 ? few_finite : xsmi_allocate(e->context, chunks, sizeof *each_finite);
    xsm_status status = XSM_OK;
    if (!each_largest || !each_finite) {
        status = xsmi_fail_memory(err, chunks * sizeof *each_largest, "a batch");
    } else {
        chunk_job job = {e, g, batch, eta, input, each_largest, each_finite};
        bool in_order = (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) && chunks > 1 &&
                        (e->stream ? xsmi_stream_repeats(e, batch) : may_repeat(e->context, batch));
        if (in_order) {
            for (size_t i = 0; i < chunks; i++) {
                run_chunk(&job, i, 0);
            }
        } else {
            status = xsmi_run(e->context, run_chunk, &job, chunks, err);
        }
    }
    *finite = true;
    *largest = 0;
    for (size_t i = 0; status == XSM_OK && i < chunks; i++) {
        *finite &= each_finite[i];
        *largest = each_largest[i] > *largest ? each_largest[i] : *largest;
    }
    if (chunks > 8) {
        xsmi_release(e->context, each_largest, chunks, sizeof *each_largest);
        xsmi_release(e->context, each_finite, chunks, sizeof *each_finite);
    }
    g->decay = xsmi_estimator_decay(e, eta);
    return status;
}

xsm_status xsmi_estimator_gradient(xsm_estimator *e, const xsm_batch *given, double eta, xsm_gradient *g,
                                   const xsmi_input_gradient *input, xsm_error *err)
{
    if (!e || !given || !g) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_gradient: %s is NULL",
                         !e       ? "the estimator"
                         : !given ? "the batch"
                                  : "the gradient");
    }
    g->examples = 0;
    if (!e->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "estimator '%s' is not bound", e->ops.name);
    }
    if (e->model->classes != e->train->classes) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "estimator '%s': its model or data have other classes than when it was "
                         "bound; bind it again",
                         e->ops.name);
    }
    XSMI_TRY(xsmi_estimator_check_eta(e, eta, err));
    xsm_batch batch;
    XSMI_TRY(xsmi_estimator_read_batch(e, given, &batch, err));
    if (e->ops.batch_limit && batch.count > e->ops.batch_limit) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' takes batches of %llu at most, not %llu",
                         e->ops.name, (unsigned long long)e->ops.batch_limit, (unsigned long long)batch.count);
    }
    bool finite = false;
    double largest = 0;
    if (xsmi_estimator_is_joint(e, batch.count)) {
        XSMI_TRY(xsmi_estimator_check_joint(e, &batch, input, err));
        XSMI_TRY(xsmi_estimator_joint(e, &batch, eta, g, &finite, &largest, err));
    } else if (e->searcher && xsmi_searcher_begun(e->searcher, e->position)) {
        XSMI_TRY(xsmi_estimator_search(e, &batch, eta, g, input, &finite, &largest, err));
    } else {
        XSMI_TRY(one_by_one(e, &batch, eta, g, input, &finite, &largest, err));
    }
    if (!finite) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "estimator '%s': scores or coefficients are no longer finite; try a smaller learning "
                         "rate than %g",
                         e->ops.name, eta);
    }
    double loss = 0;
    for (uint64_t i = 0; i < batch.count; i++) {
        loss += g->losses[i];
    }
    g->largest = largest;
    g->loss = loss / (double)batch.count;
    g->examples = batch.count;
    e->position += batch.count;
    return XSM_OK;
}

xsm_status xsm_estimator_gradient(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g, xsm_error *err)
{
    return xsmi_estimator_gradient(e, batch, eta, g, NULL, err);
}
