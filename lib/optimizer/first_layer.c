/*
 * The step of an embedding model's first layer: each row's gradient is added to the vectors of the row's features. One
 * thread changes a vector, in the order of the examples.
 */
#include "optimizer/optimizer.h"

typedef struct layer_job {
    xsm_optimizer *optimizer;
    xsm_model *model;
    const xsm_batch *batch;
    const xsm_gradient *g;
    double eta, alpha;
    size_t pieces;
} layer_job;

static void run_piece(void *state, size_t piece, uint32_t thread)
{
    const layer_job *job = state;
    if (job->optimizer->ops->step_layer) {
        job->optimizer->ops->step_layer(job->optimizer, job->g, job->eta, piece, job->pieces, thread);
        return;
    }
    for (size_t i = 0; i < job->batch->count; i++) {
        xsmi_features x = xsmi_batch_features(job->batch, i);
        xsmi_layer_step(job->model, &x, job->g->layer.gradient + i * job->g->work.rows.stride, job->eta, job->alpha,
                        piece, job->pieces);
    }
}

/* The layer's alpha after the step. Tied vectors were decayed with the output layer already. */
static double decay_layer(xsm_model *m, double decay)
{
    xsmi_layer *l = m->layer;
    if (l->tied) {
        return m->alpha;
    }
    if (l->alpha * decay < XSMI_ALPHA_LEAST) {
        xsmi_layer_fold(m);
    }
    return l->alpha * decay;
}

xsm_status xsmi_optimizer_step_layer(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                     xsm_error *err)
{
    xsm_model *m = o->model;
    layer_job job = {
        .optimizer = o, .model = m, .batch = batch, .g = g, .eta = eta, .alpha = decay_layer(m, g->layer.decay)};
    /* Every piece of the plain step reads every feature of every row, so there are no more pieces than threads. */
    double work = xsmi_batch_row_work(batch) * (double)batch->count * m->features;
    job.pieces = work > 2 * XSMI_JOB_WORK ? xsm_context_threads(o->context) : 1;
    XSMI_TRY(xsmi_run(o->context, run_piece, &job, job.pieces, err));
    if (!m->layer->tied) {
        m->layer->alpha = job.alpha;
    }
    return XSM_OK;
}
