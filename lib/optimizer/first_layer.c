/*
 * The step of an embedding model's first layer: each row's gradient is added to the vectors of the row's features. One
 * thread changes a vector, in the order of the examples. Rules change only vectors of features in the batch, by the
 * sum over the batch. Tied vectors are the output layer's rows and share their accumulators; their step here follows
 * that of the output layer.
 */
#include "optimizer/step.h"

#include <string.h>

/* How many features ahead of its step a vector is prefetched. */
enum { FEATURES_AHEAD = 4 };

typedef struct layer_job {
    const xsmi_step *step;
    const xsm_batch *rows;
    double alpha; /* of the layer, before the step */
    size_t pieces;
} layer_job;

static void row_of(const xsm_optimizer *o, uint32_t feature, xsmi_row *row)
{
    const xsmi_weights *w = xsmi_model_vectors(o->model);
    row->weights = w->weight + feature * w->stride;
    row->stride = 1;
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        const xsmi_weights *own = &o->accumulators[i].vectors;
        row->accumulators[i] = own->weight + feature * own->stride;
    }
}

/* Prefetches the first `numbers` numbers of a feature's vector and of its accumulators. */
XSMI_PREFETCHER void prefetch_feature(const xsm_optimizer *o, uint32_t feature, size_t numbers)
{
    xsmi_row row;
    row_of(o, feature, &row);
    xsmi_prefetch_weights(o, &row, numbers);
}

static void step_feature(const layer_job *job, size_t f, float *sums)
{
    const xsmi_step *s = job->step;
    const xsm_optimizer *o = s->optimizer;
    const xsmi_feature_list *list = &o->rows;
    const size_t hidden = o->model->features;
    const xsmi_example_rows rows = {o->model->kernels, s->layer->gradient, s->layer->stride, hidden};
    xsmi_row row;
    float factor;
    const float *sum = xsmi_feature_list_sum(list, f, &rows, sums, &factor);
    row_of(o, list->found[f], &row);
    xsmi_rule_row(o, &row, &(xsmi_features){sum, NULL, hidden}, factor, &s->step);
    if (sum == sums) {
        memset(sums, 0, hidden * sizeof *sums);
    }
}

static void run_rule(const layer_job *job, size_t piece, float *sums)
{
    const xsm_optimizer *o = job->step->optimizer;
    const xsmi_feature_list *list = &o->rows;
    const size_t each = job->pieces, together = XSMI_ROWS_TOGETHER * each;
    for (size_t first = piece; first < list->founds; first += together) {
        const size_t end = XSMI_MIN(first + together, list->founds);
        for (size_t f = first; f < end; f += each) {
            prefetch_feature(o, list->found[f], 1);
        }
        for (size_t f = first; f < end; f += each) {
            if (f + FEATURES_AHEAD * each < list->founds) {
                prefetch_feature(o, list->found[f + FEATURES_AHEAD * each], o->model->features);
            }
            step_feature(job, f, sums);
        }
    }
}

static void run_piece(void *state, const xsmi_range *r)
{
    const layer_job *job = state;
    const xsmi_step *s = job->step;
    const xsm_optimizer *o = s->optimizer;
    if (!o->linear) {
        run_rule(job, r->index, o->sums + r->thread * o->sums_each);
        return;
    }
    const xsmi_layer_change change = {s->step.eta, job->alpha, r->index, job->pieces};
    for (size_t i = 0; i < job->rows->count; i++) {
        xsmi_features x = xsmi_batch_features(job->rows, i);
        xsmi_layer_step(o->model, &x, s->layer->gradient + i * s->layer->stride, &change);
    }
}

/* Returns the layer's alpha before the step. Tied vectors have the output layer's, whose step was already taken: one
 * decay serves both steps. */
static double alpha_of(const xsmi_step *s)
{
    xsm_model *m = s->optimizer->model;
    const xsmi_weights *vectors = xsmi_model_vectors(m);
    if (vectors == &m->w) {
        return s->alpha;
    }
    if (vectors->alpha * s->layer->decay < XSMI_ALPHA_LEAST) {
        xsmi_layer_fold(m);
    }
    return vectors->alpha;
}

xsm_status xsmi_prepare_first_layer(const xsmi_step *s, const xsm_batch *rows, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    if (o->linear) {
        return XSM_OK;
    }
    xsmi_layer_fold(o->model); /* earlier steps with an L2 penalty may have left a scale */
    return xsmi_feature_list_fill(o->context, &o->rows, xsmi_model_vectors(o->model)->rows, rows, err);
}

xsm_status xsmi_step_first_layer(const xsmi_step *s, const xsm_batch *rows, xsm_error *err)
{
    xsm_model *m = s->optimizer->model;
    layer_job job = {.step = s, .rows = rows, .alpha = alpha_of(s)};
    /* Every piece of the plain step reads every feature of every row, so there are no more pieces than threads. */
    double work = xsmi_batch_row_work(rows) * (double)rows->count * m->features;
    job.pieces = work > 2 * XSMI_JOB_WORK ? xsmi_context_threads(s->optimizer->context) : 1;
    XSMI_TRY(xsmi_run_step(s, run_piece, &job, job.pieces, 1, err));
    xsmi_layer_set_alpha(m, job.alpha * s->layer->decay);
    return XSM_OK;
}
