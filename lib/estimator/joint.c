/*
 * Batches that an estimator processes as a whole: one list of classes for all examples, their scores (logits), and the
 * coordinates of the rows in the basis of their span.
 */
#include "estimator/pass.h"
#include "base/activity.h"
#include "estimator/divided_lists.h"
#include "model/together.h"

#include <math.h>
#include <string.h>

/* Number of examples that one job scores; they are few, as each has many classes. */
#define SCORE_EXAMPLES 8

typedef struct score_job {
    const xsmi_pass *pass;
    bool *finite; /* by job */
} score_job;

static void run_scores(void *state, const xsmi_range *r)
{
    const score_job *job = state;
    const xsmi_pass *p = job->pass;
    job->finite[r->index] = true;
    if (xsmi_would_stop(p->estimator->context)) {
        return;
    }
    job->finite[r->index] = xsmi_estimator_scores(p->estimator, p->gradient, r->first, r->end - r->first,
                                                  p->estimator->model->w.alpha, NULL);
}

xsm_status xsmi_estimator_check_joint(const xsm_estimator *e, xsm_error *err)
{
    return xsmi_model_need_no_layer(e->model, "a batch of several rows that the estimator takes as a whole", err);
}

static xsm_status check(const xsmi_pass *p, xsm_error *err)
{
    XSMI_TRY(xsmi_estimator_check_joint(p->estimator, err));
    if (p->batch->values || p->input) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' takes a batch of several rows as a whole, for which their features must be "
                         "the dataset's; with features of the host's own, or for their gradient, give it one row at a "
                         "time",
                         p->estimator->ops.name);
    }
    return XSM_OK;
}

/* Fills the examples and their common list; `rows` gets each row's number. */
static xsm_status list_examples(const xsmi_pass *p, uint64_t *rows, xsm_error *err)
{
    const xsm_estimator *e = p->estimator;
    const uint64_t n = p->batch->count;
    xsm_gradient *g = p->gradient;
    if (p->batch->rows && xsmi_batch_has_repeats(p->batch, rows)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': a row is twice in the batch", e->ops.name);
    }
    xsmi_example_weighted(e, p->batch, g);
    for (uint64_t i = 0; i < n; i++) {
        rows[i] = xsmi_batch_row(p->batch, i);
        g->example[i] = xsmi_example_at(e, rows[i], e->position + i);
        xsmi_example_weigh(e, p->batch, rows[i], g, i);
    }
    e->ops.joint_select(e->state, g->example, n, g->classes, g->lengths);
    for (uint64_t i = 1; i < n; i++) {
        memcpy(g->classes + i * g->width, g->classes, g->lengths[0] * sizeof *g->classes);
        g->lengths[i] = g->lengths[0];
    }
    return XSM_OK;
}

/* Asks whether the call goes on. A cancelled call may end here: nothing stored for the rows changes before joint(). */
static xsm_status go_on(const xsmi_pass *p, xsm_error *err)
{
    const xsm_context *ctx = p->estimator->context;
    return xsmi_would_stop(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

static xsm_status score_examples(const xsmi_pass *p, bool *flags, xsmi_outcome *outcome, xsm_error *err)
{
    if (p->estimator->divided) {
        XSMI_TRY(xsmi_divided_scores(p, true, err));
        outcome->finite = xsmi_divided_finite(p->gradient, 0, p->batch->count);
        return XSM_OK;
    }
    const size_t jobs = (size_t)((p->batch->count + SCORE_EXAMPLES - 1) / SCORE_EXAMPLES);
    score_job job = {p, flags};
    XSMI_TRY(xsmi_run_ranges(p->estimator->context, run_scores, &job, p->batch->count, SCORE_EXAMPLES, err));
    for (size_t i = 0; i < jobs; i++) {
        outcome->finite &= flags[i];
    }
    return go_on(p, err);
}

/* Computes the coordinates of the rows in the basis of their span. On a divided model it succeeds on all processes or
 * on none. */
static xsm_status find_span(const xsmi_pass *p, const uint64_t *rows, const double **coordinates, size_t *rank,
                            xsm_error *err)
{
    xsm_estimator *e = p->estimator;
    xsm_status status =
        e->spans ? XSM_OK : xsmi_spans_new(e->context, e->train, e->model->kernels, e->fixed_batches, &e->spans, err);
    status =
        status == XSM_OK ? xsmi_spans_get(e->spans, rows, (size_t)p->batch->count, coordinates, rank, err) : status;
    return xsmi_together(e->model, status, err);
}

/* Calls the table's joint(), which cannot be cancelled on a divided model, as the other processes go on. If it fails on
 * one process, others may have changed the state that they store for the rows. */
static xsm_status call_joint(xsm_estimator *e, const xsm_score_block *block, xsm_error *err)
{
    if (!e->divided) {
        return e->ops.joint(e->state, block, err);
    }
    xsmi_activity shield;
    xsmi_shield(&shield, e->context);
    xsm_status status = e->ops.joint(e->state, block, err);
    xsmi_unshield(&shield);
    status = xsmi_together(e->model, status, err);
    e->apart = status != XSM_OK && status != XSM_ERROR_DIVERGED;
    return status;
}

/* `rows` (each row's number) and `flags` (one for each job) are scratch memory. */
static xsm_status run_joint(const xsmi_pass *p, uint64_t *rows, bool *flags, xsmi_outcome *outcome, xsm_error *err)
{
    xsm_estimator *e = p->estimator;
    xsm_gradient *g = p->gradient;
    const uint64_t n = p->batch->count;
    XSMI_TRY(list_examples(p, rows, err));
    XSMI_TRY(score_examples(p, flags, outcome, err));
    if (!outcome->finite) {
        return XSM_OK;
    }
    const double *coordinates;
    size_t rank;
    XSMI_TRY(find_span(p, rows, &coordinates, &rank, err));
    g->decay = xsmi_estimator_own_decay(e, p->eta);
    xsm_score_block block = {
        .size = sizeof block,
        .examples = g->example,
        .count = n,
        .batch = n,
        .width = g->width,
        .lengths = g->lengths,
        .classes = g->classes,
        .scores = g->work.scores,
        .linear = xsmi_model_has_bias(e->model) ? g->work.linear : g->work.scores,
        .eta = p->eta,
        .coefficients = g->coefficients,
        .losses = g->losses,
        .scratch = g->work.scratch_each ? g->work.scratch : NULL,
        .coordinates = coordinates,
        .rank = rank,
        .decay = g->decay,
        .weights = g->weighted ? g->weights : NULL,
        .label_weights = g->label_weighted ? (const float *const *)g->label_weights : NULL,
    };
    XSMI_TRY(call_joint(e, &block, err));
    xsmi_estimator_finish_block(e->model->kernels, &block, outcome);
    return XSM_OK;
}

xsm_status xsmi_pass_joint(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    xsm_context *ctx = p->estimator->context;
    const size_t n = (size_t)p->batch->count;
    XSMI_TRY(check(p, err));
    XSMI_TRY(xsmi_estimator_reserve(p->estimator, p->gradient, n, xsmi_context_threads(ctx), true, err));
    uint64_t *rows = xsmi_allocate(ctx, n, sizeof *rows);
    bool *flags = xsmi_allocate(ctx, n, sizeof *flags);
    xsm_status status =
        rows && flags ? run_joint(p, rows, flags, outcome, err) : xsmi_fail_memory(err, n * sizeof *rows, "a batch");
    xsmi_release(ctx, rows, n, sizeof *rows);
    xsmi_release(ctx, flags, n, sizeof *flags);
    return status;
}
