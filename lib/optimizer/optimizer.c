/*
 * The layer between the optimizers' tables and their callers. It checks arguments, keeps the scales in range, and
 * divides a batch's work so that one thread changes a class's row of weights, in the order of the examples.
 */
#include "optimizer/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static xsmi_option_group options_of(const xsm_optimizer_ops *ops, void *state)
{
    xsmi_option_group group = {
        "optimizer",
        ops->name,
        {[XSMI_OPTIONS_OWN] = {ops->options, ops->option_count, sizeof(xsm_option)}},
        {[XSMI_OPTIONS_OWN] = state},
    };
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

const char *xsm_optimizer_ops_name(const xsm_optimizer_ops *ops)
{
    return ops ? ops->name : NULL;
}

const char *xsm_optimizer_ops_summary(const xsm_optimizer_ops *ops)
{
    return ops ? ops->summary : NULL;
}

const xsm_option *xsm_optimizer_ops_option(const xsm_optimizer_ops *ops, size_t index)
{
    if (!ops) {
        return NULL;
    }
    xsmi_option_group group = options_of(ops, NULL);
    return xsmi_group_at(&group, index);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

/* "'sgd' or 'adagrad'" */
static const char *all_names(char *text, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < xsm_optimizer_count() && used < size; i++) {
        const char *before = i == 0 ? "" : i + 1 < xsm_optimizer_count() ? ", " : " or ";
        used += (size_t)snprintf(text + used, size - used, "%s'%s'", before, xsm_optimizer_at(i)->name);
    }
    return text;
}

xsm_status xsm_optimizer_new(xsm_context *context, const char *name, xsm_optimizer **out, xsm_error *err)
{
    if (!name || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_optimizer_new: %s is NULL", name ? "out" : "name");
    }
    const xsm_optimizer_ops *ops = xsm_optimizer_find(name);
    if (!ops) {
        char names[200];
        return xsmi_fail(err, XSM_ERROR_NAME, "no optimizer '%s'; accepted is %s", name,
                         all_names(names, sizeof names));
    }
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsm_optimizer *o = xsmi_allocate(ctx, 1, sizeof *o);
    void *state = o ? xsmi_allocate_zero(ctx, ops->state_size, 1) : NULL;
    if (!state) {
        xsmi_release(ctx, o, 1, sizeof *o);
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, sizeof *o + ops->state_size, "an optimizer");
    }
    memset(o, 0, sizeof *o);
    o->context = ctx;
    o->ops = ops;
    o->state = state;
    xsmi_option_group group = options_of(ops, state);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_OWN], state);
    *out = o;
    return XSM_OK;
}

static void unbind(xsm_optimizer *o)
{
    if (o->model && o->ops->unbind) {
        o->ops->unbind(o);
    }
    o->model = NULL;
}

void xsm_optimizer_free(xsm_optimizer *o)
{
    if (o) {
        xsm_context *ctx = o->context;
        unbind(o);
        xsmi_release(ctx, o->sorted, o->sorted_capacity, sizeof *o->sorted);
        xsmi_release(ctx, o->starts, o->starts_capacity, sizeof *o->starts);
        xsmi_release(ctx, o->sums, o->sum_capacity, sizeof *o->sums);
        xsmi_optimizer_release_tiles(o);
        xsmi_release(ctx, o->state, o->ops->state_size, 1);
        xsmi_release(ctx, o, 1, sizeof *o);
        xsm_context_free(ctx);
    }
}

const char *xsm_optimizer_name(const xsm_optimizer *o)
{
    return o ? o->ops->name : NULL;
}

/* -- options ------------------------------------------------------------------------------------------------------- */

/* Opens the options if they can be set now. */
static xsm_status open_options(xsm_optimizer *o, const char *name, xsmi_option_group *group, xsm_error *err)
{
    if (!o || !name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_optimizer_set: %s is NULL", o ? "the name" : "the optimizer");
    }
    if (o->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "option '%s' must be set before the optimizer is bound", name);
    }
    *group = options_of(o->ops, o->state);
    return XSM_OK;
}

xsm_status xsm_optimizer_set(xsm_optimizer *o, const char *name, const char *value, xsm_error *err)
{
    xsmi_option_group group;
    XSMI_TRY(open_options(o, name, &group, err));
    return xsmi_group_set_text(&group, name, value, err);
}

xsm_status xsm_optimizer_set_double(xsm_optimizer *o, const char *name, double value, xsm_error *err)
{
    xsmi_option_group group;
    XSMI_TRY(open_options(o, name, &group, err));
    return xsmi_group_set_double(&group, name, value, err);
}

xsm_status xsm_optimizer_set_int(xsm_optimizer *o, const char *name, int64_t value, xsm_error *err)
{
    xsmi_option_group group;
    XSMI_TRY(open_options(o, name, &group, err));
    return xsmi_group_set_int(&group, name, value, err);
}

size_t xsm_optimizer_get(const xsm_optimizer *o, const char *name, char *buffer, size_t size)
{
    if (!o) {
        return 0;
    }
    xsmi_option_group group = options_of(o->ops, o->state);
    return xsmi_group_get(&group, name, buffer, size);
}

/* -- binding ------------------------------------------------------------------------------------------------------- */

xsm_status xsm_optimizer_bind(xsm_optimizer *o, xsm_model *model, xsm_error *err)
{
    if (!o || !model) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_optimizer_bind: %s is NULL", o ? "the model" : "the optimizer");
    }
    if (model->layer && !o->ops->layers) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "optimizer '%s' takes linear models, and this one has a first layer; 'sgd' takes both",
                         o->ops->name);
    }
    if (model->score != XSM_SCORE_LINEAR && !o->ops->distances) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "optimizer '%s' takes models with linear scores, and this one's are distances; 'sgd' takes "
                         "both",
                         o->ops->name);
    }
    XSMI_TRY(xsmi_model_own(model, err));
    if (model->score != XSM_SCORE_LINEAR) {
        XSMI_TRY(xsmi_model_settle_all(model, err)); /* a host may have written weights */
    }
    unbind(o);
    o->model = model;
    xsm_status status = o->ops->bind ? o->ops->bind(o, err) : XSM_OK;
    if (status != XSM_OK) {
        unbind(o);
    }
    return status;
}

static xsm_status check(const xsm_optimizer *o, bool shrinks, bool decay, bool bound, xsm_error *err)
{
    if (o->ops->proximal || (!shrinks && !decay && !bound)) {
        return XSM_OK;
    }
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                     "optimizer '%s' gives every weight a rate of its own, which does not go with %s; 'sgd' takes it",
                     o->ops->name,
                     shrinks ? "the proximal steps of the estimator, whose rate is part of their solution"
                     : decay ? "a ridge, which is a decay of all weights alike"
                             : "the estimator's bound on the length of rows");
}

xsm_status xsmi_optimizer_check(const xsm_optimizer *o, const xsm_estimator *e, xsm_error *err)
{
    return check(o, (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0, e->decay_rate > 0, e->row_bound > 0, err);
}

/* -- entries by class ---------------------------------------------------------------------------------------------- */

/* Sorts the entries of a gradient by class and keeps the order within a class: a radix sort, with one pass for each
 * byte of K. `halves` has two halves of n entries each; the result is in the half returned. */
static uint64_t *sort_places(const xsm_gradient *g, uint64_t *halves, size_t n, uint32_t top_class)
{
    uint64_t *from = halves, *to = halves + n;
    for (uint32_t shift = 0; shift < 32 && (top_class >> shift) > 0; shift += 8) {
        size_t counts[257] = {0};
        for (size_t i = 0; i < n; i++) {
            counts[((xsmi_gradient_class(g, from[i]) >> shift) & 255) + 1]++;
        }
        for (size_t b = 0; b < 256; b++) {
            counts[b + 1] += counts[b];
        }
        for (size_t i = 0; i < n; i++) {
            to[counts[(xsmi_gradient_class(g, from[i]) >> shift) & 255]++] = from[i];
        }
        uint64_t *held = from;
        from = to;
        to = held;
    }
    return from;
}

/* An exact gradient with at most one non-zero coefficient in so many, such as the margin's, is applied class by
 * class. */
#define SPARSE_PART 16

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
    size_t end = (index + 1) * job->each < job->groups ? (index + 1) * job->each : job->groups;
    for (size_t i = index * job->each; i < end; i++) {
        const uint64_t *entries = job->places + job->starts[i];
        job->optimizer->ops->step_class(job->optimizer, job->batch, job->g, xsmi_gradient_class(job->g, entries[0]),
                                        entries, job->starts[i + 1] - job->starts[i], job->eta, job->alpha, thread);
    }
}

static bool reserve(xsm_optimizer *o, size_t n)
{
    return n < SIZE_MAX / 4 && xsmi_reserve(o->context, &o->sorted, &o->sorted_capacity, 2 * n, sizeof *o->sorted) &&
           xsmi_reserve(o->context, &o->starts, &o->starts_capacity, n + 1, sizeof *o->starts);
}

/* A step on the classes that the gradient lists or, if exact, has a coefficient for; at most `bound` entries. */
static xsm_status apply_listed(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, bool product,
                               size_t bound, double eta, double alpha, xsm_error *err)
{
    if (!reserve(o, bound)) {
        return xsmi_fail_memory(err, 2 * bound * sizeof *o->sorted, "a batch's classes");
    }
    size_t n = xsmi_gradient_entries(g, !product, o->sorted);
    if (n == 0) {
        return XSM_OK;
    }
    /* The second half of the memory begins after `bound` entries, but the sort expects halves of n. */
    uint64_t *places = sort_places(g, o->sorted, n, o->model->classes - 1);
    size_t groups = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || xsmi_gradient_class(g, places[i]) != xsmi_gradient_class(g, places[i - 1])) {
            o->starts[groups++] = i;
        }
    }
    o->starts[groups] = n;
    /* Classes are independent, so a job can be long enough to be worth waking a thread. */
    size_t each = (size_t)(XSMI_JOB_WORK / (xsmi_batch_row_work(batch) * (double)n / (double)groups)) + 1;
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
    uint32_t classes = job->optimizer->model->classes;
    uint32_t first = (uint32_t)index * job->each;
    uint32_t count = classes - first < job->each ? classes - first : job->each;
    job->optimizer->ops->step_range(job->optimizer, job->batch, job->g, first, count, job->eta, job->alpha, thread);
}

static xsm_status apply_exact(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta, double alpha,
                              xsm_error *err)
{
    uint32_t classes = o->model->classes;
    uint32_t threads = xsm_context_threads(o->context);
    bool done;
    XSMI_TRY(xsmi_optimizer_step_by_feature(o, batch, g, eta, alpha, &done, err));
    if (done) {
        return XSM_OK;
    }
    /* Elements are independent, so pieces can be cut to suit the threads, in whole cache lines of classes. Threads are
     * not woken for little work. */
    double work = (double)classes * (double)batch->count * xsmi_batch_row_work(batch);
    uint32_t pieces = threads > 1 && work > 10 * XSMI_JOB_WORK ? threads * 4 : 1;
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

/* The scales and lengths of the rows of weights, as the steps need them. */
static xsm_status prepare_rows(xsm_model *m, bool proximal, double bound, xsm_error *err)
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

xsm_status xsmi_optimizer_prepare(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, xsm_error *err)
{
    xsm_model *m = o->model;
    if (xsmi_gradient_is_exact(g)) {
        xsmi_model_drop_row_lengths(m);
    } else {
        XSMI_TRY(prepare_rows(m, g->proximal, g->row_bound, err));
    }
    if ((xsmi_gradient_is_exact(g) && m->row_scale) || (!o->ops->proximal && (m->row_scale || m->alpha != 1))) {
        XSMI_TRY(xsmi_model_fold(m, err)); /* a step on every class has one scale, a plain step none */
    }
    return o->ops->prepare ? o->ops->prepare(o, batch, g, err) : XSM_OK;
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
    XSMI_TRY(check(o, g->proximal, g->decay != 1, g->row_bound > 0, err));
    xsm_model *m = o->model;
    if (m->score != XSM_SCORE_LINEAR && (g->proximal || g->decay != 1 || g->row_bound > 0)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the gradient asks for rows to be scaled, and those of a model whose scores are distances are "
                         "not");
    }
    if (m->layer && (!g->layer.hidden || g->work.rows.values != g->layer.hidden)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the model has a first layer, and the gradient is not of such a model");
    }
    if (m->layer && m->layer->tied && g->row_bound > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a bound on the rows of weights goes with vectors that are not tied");
    }
    if (g->correction) {
        xsmi_model_set_correction(m, g->correction);
    }
    if (g->hierarchy) {
        xsmi_model_set_hierarchy(m, g->hierarchy);
    }
    xsm_batch rows = batch;
    if (m->layer) { /* the output layer's rows are the hidden vectors of the gradient */
        batch.values = g->layer.hidden;
        batch.stride = g->work.rows.stride;
        batch.features = m->features;
        batch.offsets = NULL; /* dense, whatever form the rows have */
        batch.index = NULL;
    }
    XSMI_TRY(xsmi_optimizer_prepare(o, &batch, g, err));
    if (m->layer && o->ops->prepare_layer) {
        XSMI_TRY(o->ops->prepare_layer(o, &rows, err));
    }
    double alpha;
    XSMI_TRY(xsmi_optimizer_decay(m, g->decay, &alpha, err));
    xsm_status status;
    const bool product = xsmi_optimizer_takes_product(o, g);
    const bool exact = xsmi_gradient_is_exact(g);
    size_t listed = xsmi_gradient_count(g, !product);
    if (exact && listed > (size_t)(g->examples * g->width / SPARSE_PART)) {
        status = apply_exact(o, &batch, g, eta, alpha, err);
    } else if (batch.count == 1 && !exact) {
        xsmi_features x = xsmi_batch_features(&batch, 0);
        o->ops->step(o, &x, g->lengths[0], g->classes, g->coefficients, g->proximal ? g->shrinks : NULL, eta, alpha,
                     g->row_bound);
        status = XSM_OK;
    } else {
        status = product ? xsmi_optimizer_step_product(o, &batch, g, eta, alpha, err) : XSM_OK;
        status = status == XSM_OK ? apply_listed(o, &batch, g, product, listed, eta, alpha, err) : status;
    }
    if (status == XSM_OK) {
        m->alpha = alpha;
    }
    if (status == XSM_OK && m->layer) {
        status = xsmi_optimizer_step_layer(o, &rows, g, eta, err);
    }
    return status;
}
