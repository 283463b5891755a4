/*
 * The layer between optimizers' tables and everyone else: it checks, keeps the scales in range, and hands out a batch's
 * work so that a class's row is changed by one thread, in the order of the examples.
 */
#include "optimizer/optimizer.h"

#include <math.h>
#include <string.h>

static const xsmi_optimizer_ops *const registry[] = {&xsmi_sgd_ops};
#define REGISTERED (sizeof registry / sizeof registry[0])

static const char *name_at(const void *list, size_t index)
{
    (void)list;
    return registry[index]->name;
}

xsm_status xsm_optimizer_new(xsm_context *context, const char *name, xsm_optimizer **out, xsm_error *err)
{
    if (!name || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_optimizer_new: %s is NULL", name ? "out" : "name");
    }
    const xsmi_optimizer_ops *ops = NULL;
    for (size_t i = 0; i < REGISTERED; i++) {
        ops = strcmp(registry[i]->name, name) == 0 ? registry[i] : ops;
    }
    if (!ops) {
        const char *near = xsmi_nearest(name, NULL, REGISTERED, name_at);
        return xsmi_fail(err, XSM_ERROR_NAME, "no optimizer '%s'; accepted is '%s'", name,
                         near ? near : registry[0]->name);
    }
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsm_optimizer *o = xsmi_allocate(ctx, 1, sizeof *o);
    if (!o) {
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, sizeof *o, "an optimizer");
    }
    memset(o, 0, sizeof *o);
    o->context = ctx;
    o->ops = ops;
    *out = o;
    return XSM_OK;
}

void xsm_optimizer_free(xsm_optimizer *o)
{
    if (o) {
        xsm_context *ctx = o->context;
        xsmi_release(ctx, o->sorted, o->sorted_capacity, sizeof *o->sorted);
        xsmi_release(ctx, o->starts, o->starts_capacity, sizeof *o->starts);
        xsmi_release(ctx, o, 1, sizeof *o);
        xsm_context_free(ctx);
    }
}

const char *xsm_optimizer_name(const xsm_optimizer *o)
{
    return o ? o->ops->name : NULL;
}

xsm_status xsm_optimizer_bind(xsm_optimizer *o, xsm_model *model, xsm_error *err)
{
    if (!o || !model) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_optimizer_bind: %s is NULL", o ? "the model" : "the optimizer");
    }
    XSMI_TRY(xsmi_model_own(model, err));
    o->model = model;
    return XSM_OK;
}

/* -- places by class ----------------------------------------------------------------------------------------------- */

static inline uint32_t class_at(const xsm_gradient *g, uint64_t place)
{
    return g->exact ? (uint32_t)(place % g->width) : g->classes[place];
}

/* Sorts places by class, those of a class staying in order: a radix sort, whose passes are as many as K has bytes.
 * `halves` holds two halves of n places each; the result is in the half returned. */
static uint64_t *sort_places(const xsm_gradient *g, uint64_t *halves, size_t n, uint32_t top_class)
{
    uint64_t *from = halves, *to = halves + n;
    for (uint32_t shift = 0; shift < 32 && (top_class >> shift) > 0; shift += 8) {
        size_t counts[257] = {0};
        for (size_t i = 0; i < n; i++) {
            counts[((class_at(g, from[i]) >> shift) & 255) + 1]++;
        }
        for (size_t b = 0; b < 256; b++) {
            counts[b + 1] += counts[b];
        }
        for (size_t i = 0; i < n; i++) {
            to[counts[(class_at(g, from[i]) >> shift) & 255]++] = from[i];
        }
        uint64_t *held = from;
        from = to;
        to = held;
    }
    return from;
}

/* An exact gradient of which less than this part is not 0, as that of a margin, is applied class by class. */
#define SPARSE_PART 16

/* Multiplications that a job should come to. */
#define JOB_WORK 2e4

/* Multiplications that a row takes for a class, about. */
static double row_work(const xsm_batch *batch)
{
    const xsm_dataset *data = batch->dataset;
    return batch->values  ? (double)batch->features + 1
           : data->sparse ? (double)data->offsets[data->rows] / (double)data->rows + 1
                          : (double)data->features + 1;
}

typedef struct class_job {
    xsm_optimizer *optimizer;
    const xsm_batch *batch;
    const xsm_gradient *g;
    const uint64_t *places;
    const size_t *starts;
    size_t groups, each;
    double eta, alpha;
} class_job;

static void run_classes(void *state, size_t index, uint32_t thread)
{
    class_job *job = state;
    (void)thread;
    size_t end = (index + 1) * job->each < job->groups ? (index + 1) * job->each : job->groups;
    for (size_t i = index * job->each; i < end; i++) {
        const uint64_t *entries = job->places + job->starts[i];
        job->optimizer->ops->step_class(job->optimizer->model, job->batch, job->g, class_at(job->g, entries[0]),
                                        entries, job->starts[i + 1] - job->starts[i], job->eta, job->alpha);
    }
}

static bool reserve(xsm_optimizer *o, size_t n)
{
    if (n > o->sorted_capacity / 2) {
        xsmi_release(o->context, o->sorted, o->sorted_capacity, sizeof *o->sorted);
        xsmi_release(o->context, o->starts, o->starts_capacity, sizeof *o->starts);
        o->sorted_capacity = o->starts_capacity = 0;
        o->starts = NULL;
        o->sorted = n < SIZE_MAX / 4 ? xsmi_allocate(o->context, 2 * n, sizeof *o->sorted) : NULL;
        if (!o->sorted) {
            return false;
        }
        o->starts = xsmi_allocate(o->context, n + 1, sizeof *o->starts);
        if (!o->starts) {
            xsmi_release(o->context, o->sorted, 2 * n, sizeof *o->sorted);
            o->sorted = NULL;
            return false;
        }
        o->sorted_capacity = 2 * n;
        o->starts_capacity = n + 1;
    }
    return true;
}

/* Lists the places of a gradient that count, at most `bound`; returns how many. */
static size_t list_places(const xsm_gradient *g, uint64_t *places)
{
    size_t n = 0;
    for (uint64_t i = 0; i < g->examples; i++) {
        uint64_t length = g->exact ? g->width : g->lengths[i];
        for (uint64_t place = i * g->width; place < i * g->width + length; place++) {
            if (!g->exact || g->coefficients[place] != 0) {
                places[n++] = place;
            }
        }
    }
    return n;
}

/* A step on the classes that the gradient names or, exact, has a coefficient for; `bound` places at most. */
static xsm_status apply_listed(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, size_t bound,
                               double eta, double alpha, xsm_error *err)
{
    if (!reserve(o, bound)) {
        return xsmi_fail_memory(err, 2 * bound * sizeof *o->sorted, "a batch's classes");
    }
    size_t n = list_places(g, o->sorted);
    if (n == 0) {
        return XSM_OK;
    }
    /* The second half of the memory begins where `bound` places end; the sort wants halves of n. */
    uint64_t *places = sort_places(g, o->sorted, n, o->model->classes - 1);
    size_t groups = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || class_at(g, places[i]) != class_at(g, places[i - 1])) {
            o->starts[groups++] = i;
        }
    }
    o->starts[groups] = n;
    /* Classes do not depend on each other, so jobs can be as long as makes it worth waking a thread for them. */
    size_t each = (size_t)(JOB_WORK / (row_work(batch) * (double)n / (double)groups)) + 1;
    class_job job = {o, batch, g, places, o->starts, groups, each, eta, alpha};
    return xsmi_run(o->context, run_classes, &job, (groups + job.each - 1) / job.each, err);
}

/* -- every class --------------------------------------------------------------------------------------------------- */

typedef struct range_job {
    xsm_optimizer *optimizer;
    const xsm_batch *batch;
    const xsm_gradient *g;
    uint32_t each;
    double eta, alpha;
} range_job;

static void run_range(void *state, size_t index, uint32_t thread)
{
    range_job *job = state;
    (void)thread;
    uint32_t classes = job->optimizer->model->classes;
    uint32_t first = (uint32_t)index * job->each;
    uint32_t count = classes - first < job->each ? classes - first : job->each;
    job->optimizer->ops->step_range(job->optimizer->model, job->batch, job->g, first, count, job->eta, job->alpha);
}

/* Coefficients of an exact gradient that are not 0. */
static size_t count_places(const xsm_gradient *g)
{
    size_t count = 0;
    for (uint64_t i = 0; i < g->examples; i++) {
        const float *of = g->coefficients + i * g->width;
        uint32_t some = 0; /* a row has fewer than 2^32 */
        for (uint64_t k = 0; k < g->width; k++) {
            some += of[k] != 0;
        }
        count += some;
    }
    return count;
}

static xsm_status apply_exact(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta, double alpha,
                              xsm_error *err)
{
    uint32_t classes = o->model->classes;
    uint32_t threads = xsm_context_threads(o->context);
    /* Elements do not depend on each other, so pieces can be cut as it suits the threads. Whole cache lines of classes
     * for each; too little work is not worth waking anyone. */
    double work = (double)classes * (double)batch->count * row_work(batch);
    uint32_t pieces = threads > 1 && work > 10 * JOB_WORK ? threads * 4 : 1;
    uint32_t each = (classes / pieces + 64) / 64 * 64;
    range_job job = {o, batch, g, pieces == 1 ? classes : each, eta, alpha};
    return xsmi_run(o->context, run_range, &job, (classes + job.each - 1) / job.each, err);
}

xsm_status xsmi_optimizer_decay(xsm_model *m, double decay, double *alpha, xsm_error *err)
{
    if (m->alpha * decay < XSMI_ALPHA_LEAST) {
        XSMI_TRY(xsmi_model_fold(m, err));
    }
    *alpha = m->alpha * decay;
    return XSM_OK;
}

xsm_status xsmi_optimizer_prepare(xsm_model *m, bool proximal, double bound, xsm_error *err)
{
    if (!(bound > 0)) {
        xsmi_model_drop_row_lengths(m);
    }
    if (!proximal && !(bound > 0)) {
        return XSM_OK;
    }
    if (m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s classes one by one, for which the model must be class-major",
                         proximal ? "proximal estimators shrink" : "a bound on the rows of weights scales");
    }
    XSMI_TRY(xsmi_model_need_row_scale(m, err));
    return bound > 0 ? xsmi_model_need_row_lengths(m, err) : XSM_OK;
}

/* -- a step -------------------------------------------------------------------------------------------------------- */

xsm_status xsm_optimizer_apply(xsm_optimizer *o, const xsm_batch *given, const xsm_gradient *g, double eta,
                               xsm_error *err)
{
    if (!o || !given || !g) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_optimizer_apply: %s is NULL",
                         !o       ? "the optimizer"
                         : !given ? "the batch"
                                  : "the gradient");
    }
    if (!o->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "optimizer '%s' is not bound", o->ops->name);
    }
    XSMI_TRY(xsmi_check_eta(eta, err));
    xsm_batch batch;
    XSMI_TRY(xsmi_model_read_batch(o->model, given, &batch, err));
    if (g->examples != batch.count) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the gradient holds %llu examples, the batch %llu",
                         (unsigned long long)g->examples, (unsigned long long)batch.count);
    }
    if (g->model_classes != o->model->classes) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the gradient is of a model of %u classes, this one has %u",
                         g->model_classes, o->model->classes);
    }
    if (!(g->largest * eta < XSMI_STEP_LIMIT)) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "a step of %g would leave the finite numbers; try a smaller learning "
                         "rate than %g",
                         g->largest * eta, eta);
    }
    xsm_model *m = o->model;
    if (g->correction) {
        xsmi_model_set_correction(m, g->correction);
    }
    if (g->exact) {
        xsmi_model_drop_row_lengths(m);
    } else {
        XSMI_TRY(xsmi_optimizer_prepare(m, g->proximal, g->row_bound, err));
    }
    if (g->exact && m->row_scale) {
        XSMI_TRY(xsmi_model_fold(m, err)); /* a step on every class has one scale for all */
    }
    double alpha;
    XSMI_TRY(xsmi_optimizer_decay(m, g->decay, &alpha, err));
    xsm_status status;
    size_t listed = g->exact ? count_places(g) : (size_t)(g->examples * g->width);
    if (g->exact && listed > (size_t)(g->examples * g->width / SPARSE_PART)) {
        status = apply_exact(o, &batch, g, eta, alpha, err);
    } else if (batch.count == 1 && !g->exact) {
        xsmi_features x = xsmi_batch_features(&batch, 0);
        o->ops->step(m, &x, g->lengths[0], g->classes, g->coefficients, g->proximal ? g->shrinks : NULL, eta, alpha,
                     g->row_bound);
        status = XSM_OK;
    } else {
        status = apply_listed(o, &batch, g, listed, eta, alpha, err);
    }
    if (status == XSM_OK) {
        m->alpha = alpha;
    }
    return status;
}
