/*
 * Batches that an estimator processes as a whole: one list of classes for all examples, their scores (logits), and the
 * coordinates of the rows in the basis of their span.
 */
#include "estimator/estimator.h"

#include <math.h>
#include <string.h>

typedef struct score_job {
    const xsm_estimator *estimator;
    xsm_gradient *gradient;
    uint64_t count;
    bool *finite; /* by example */
} score_job;

/* Examples that one job scores: each has many classes. */
#define SCORE_EXAMPLES 8

static void run_scores(void *state, size_t index, uint32_t thread)
{
    score_job *job = state;
    (void)thread;
    uint64_t first = index * SCORE_EXAMPLES, rest = job->count - first;
    uint64_t count = rest < SCORE_EXAMPLES ? rest : SCORE_EXAMPLES;
    job->finite[index] =
        xsmi_estimator_scores(job->estimator, job->gradient, first, count, job->estimator->model->alpha, NULL);
}

static xsm_status need_spans(xsm_estimator *e, xsm_error *err)
{
    return e->spans ? XSM_OK
                    : xsmi_spans_new(e->context, e->train, e->model->kernels, e->fixed_batches, &e->spans, err);
}

/* Scratch: `room` for each row's number, and a flag for each job. */
static xsm_status take(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g, uint64_t *room,
                       bool *flags, bool *finite, double *largest, xsm_error *err)
{
    uint64_t n = batch->count;
    if (batch->rows && xsmi_batch_has_repeats(batch, room)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': a row is twice in the batch", e->ops.name);
    }
    for (uint64_t i = 0; i < n; i++) {
        room[i] = xsmi_batch_row(batch, i);
        g->example[i] = xsmi_example_at(e, room[i], e->position + i);
    }
    e->ops.joint_select(e->state, g->example, n, g->classes, g->lengths);
    for (uint64_t i = 1; i < n; i++) {
        memcpy(g->classes + i * g->width, g->classes, g->lengths[0] * sizeof *g->classes);
        g->lengths[i] = g->lengths[0];
    }
    size_t jobs = (size_t)((n + SCORE_EXAMPLES - 1) / SCORE_EXAMPLES);
    score_job job = {e, g, n, flags};
    XSMI_TRY(xsmi_run(e->context, run_scores, &job, jobs, err));
    *finite = true;
    for (size_t i = 0; i < jobs; i++) {
        *finite &= flags[i];
    }
    if (!*finite) {
        return XSM_OK;
    }
    const double *coordinates;
    size_t rank;
    XSMI_TRY(need_spans(e, err));
    XSMI_TRY(xsmi_spans_get(e->spans, room, (size_t)n, &coordinates, &rank, err));
    g->decay = 1 / (1 + eta * e->common.ridge / (double)e->examples);
    xsm_score_block block = {
        .size = sizeof block,
        .examples = g->example,
        .count = n,
        .batch = n,
        .width = g->width,
        .lengths = g->lengths,
        .classes = g->classes,
        .scores = g->work.scores,
        .linear = e->model->bias ? g->work.linear : g->work.scores,
        .eta = eta,
        .coefficients = g->coefficients,
        .losses = g->losses,
        .scratch = g->work.scratch_each ? g->work.scratch : NULL,
        .coordinates = coordinates,
        .rank = rank,
        .decay = g->decay,
    };
    XSMI_TRY(e->ops.joint(e->state, &block, err));
    *finite = xsmi_estimator_take_mean(&block, largest) == block.count;
    return XSM_OK;
}

xsm_status xsmi_estimator_joint(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g, bool *finite,
                                double *largest, xsm_error *err)
{
    XSMI_TRY(xsmi_estimator_reserve(e, g, batch->count, xsm_context_threads(e->context), true, err));
    size_t n = (size_t)batch->count;
    uint64_t *room = xsmi_allocate(e->context, n, sizeof *room);
    bool *flags = xsmi_allocate(e->context, n, sizeof *flags);
    xsm_status status = room && flags ? take(e, batch, eta, g, room, flags, finite, largest, err)
                                      : xsmi_fail_memory(err, n * sizeof *room, "a batch");
    xsmi_release(e->context, room, n, sizeof *room);
    xsmi_release(e->context, flags, n, sizeof *flags);
    return status;
}
