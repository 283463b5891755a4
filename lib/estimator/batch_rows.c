/*
 * The rows of a batch as input of the output layer: those of the data, features that come with the batch, for example
 * from a network of the host's, or hidden vectors of a first layer.
 */
#include "estimator/pass.h"
#include "estimator/stream.h"

#include <math.h>

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
