/* Scratch of a step's jobs, and whether they are worth threads. */
#include "base/order.h"
#include "optimizer/step.h"
#include "base/activity.h"
#include "base/context.h"

#include <string.h>

xsm_status xsmi_run_step(const xsmi_step *s, xsmi_range_job job, void *state, size_t count, size_t each, xsm_error *err)
{
    return xsmi_run_together(s->optimizer->context, s->optimizer->whole != NULL, job, state, count, each, err);
}

xsm_status xsmi_run_work(const xsmi_step *s, xsmi_range_job job, void *state, size_t count, size_t each, double work,
                         xsm_error *err)
{
    if (work > 10 * XSMI_JOB_WORK) {
        return xsmi_run_step(s, job, state, count, each, err);
    }
    xsmi_run_here(job, state, count, each);
    return XSM_OK;
}

/* Rows that one job packs. */
enum { PACK_ROWS = 32 };

static void run_pack(void *state, const xsmi_range *r)
{
    const xsmi_step *s = state;
    const xsm_optimizer *o = s->optimizer;
    const float *x[PACK_ROWS];
    for (size_t i = r->first; i < r->end; i++) {
        x[i - r->first] = xsmi_batch_features(s->batch, i).values;
    }
    o->model->kernels->pack_rows(x, r->end - r->first, o->model->features, o->packed + r->first * XSMI_LANES,
                                 xsmi_pitch(s));
}

xsm_status xsmi_pack_batch(const xsmi_step *s, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    const size_t rows = (size_t)s->batch->count, lanes = ((size_t)o->model->features + XSMI_LANES - 1) / XSMI_LANES;
    const size_t pieces = XSMI_MAX(lanes, (size_t)1); /* so that the memory is not NULL without features */
    size_t count;
    if (!xsmi_multiply(xsmi_pitch(s), pieces, &count) ||
        !xsmi_reserve(o->context, &o->packed, &o->packed_capacity, count, sizeof *o->packed)) {
        return xsmi_fail_memory(err, rows * o->model->features * sizeof *o->packed, "the rows of a batch");
    }
    return xsmi_run_work(s, run_pack, (void *)(uintptr_t)s, rows, PACK_ROWS, (double)count, err);
}

xsm_status xsmi_reserve_sums(xsm_optimizer *o, size_t each, xsm_error *err)
{
    if (each <= o->sums_each) {
        return XSM_OK;
    }
    size_t count;
    xsmi_release(o->context, o->sums, o->sums_capacity, sizeof *o->sums);
    o->sums_each = o->sums_capacity = 0;
    o->sums = xsmi_multiply(xsmi_context_threads(o->context), each, &count)
                  ? xsmi_allocate_zero(o->context, count, sizeof *o->sums)
                  : NULL;
    if (!o->sums) {
        return xsmi_fail_memory(err, each * sizeof *o->sums, "the gradients of a batch");
    }
    o->sums_each = each;
    o->sums_capacity = count;
    return XSM_OK;
}

/* -- steps that can be cancelled ----------------------------------------------------------------------------------- */

/*
 * Large steps that can be cancelled. The weights of some classes are copied before they change, while they are in the
 * cache for the step, and copied back when the call is cancelled before the step has ended: the model is as before.
 *
 * Only steps that take long can be undone: dense gradients of many dense rows, which are products of matrices. The copy
 * costs a part of their time that falls with the number of rows.
 */

/* Multiplications a second. Steps that end before the hook would be called need not be undone. */
#define FAST 2e10

/* Returns how many arrays of the shape of the weights a step changes. */
static size_t arrays_of(const xsm_optimizer *o)
{
    return 1 + (size_t)o->ops.accumulators;
}

static const xsmi_weights *array_at(const xsm_optimizer *o, size_t i)
{
    return i == 0 ? &o->model->w : &o->accumulators[i - 1].w;
}

/* Returns the floats of the copy of an array, with its biases. */
static size_t floats_each(const xsm_model *m)
{
    return (size_t)m->classes * (m->w.stride + 1);
}

/* Return the copies of the rows and of the biases. */
static float *rows_of(const xsm_optimizer *o, size_t i)
{
    return o->undo.floats + i * floats_each(o->model);
}

static float *biases_of(const xsm_optimizer *o, size_t i)
{
    return rows_of(o, i) + (size_t)o->model->classes * o->model->w.stride;
}

static bool serves(const xsmi_step *s)
{
    const xsm_optimizer *o = s->optimizer;
    const xsm_model *m = o->model;
    const double work = (double)m->classes * (double)s->batch->count * xsmi_batch_row_work(s->batch);
    return xsmi_can_stop(o->context) && s->batch->count >= XSMI_UNDO_ROWS && work >= o->context->pace * FAST &&
           xsmi_step_is_product(s) && !s->layer && !m->w.row_scale && !m->row_length && !s->distances;
}

bool xsmi_undo_begin(const xsmi_step *s)
{
    xsm_optimizer *o = s->optimizer;
    xsmi_undo *u = &o->undo;
    if (!serves(s)) {
        return false;
    }
    const size_t arrays = arrays_of(o), each = floats_each(o->model);
    size_t floats;
    if (!xsmi_multiply(arrays, each, &floats) ||
        !xsmi_reserve(o->context, &u->floats, &u->float_capacity, floats, sizeof *u->floats) ||
        !xsmi_reserve(o->context, &u->saved, &u->saved_capacity, o->model->classes, sizeof *u->saved)) {
        return false;
    }
    memset(u->saved, 0, o->model->classes * sizeof *u->saved);
    for (size_t i = 0; o->model->w.bias && i < arrays; i++) {
        memcpy(biases_of(o, i), array_at(o, i)->bias, o->model->classes * sizeof(float));
    }
    return true;
}

bool xsmi_undo_save(const xsmi_step *s, uint32_t first, size_t count)
{
    const xsm_optimizer *o = s->optimizer;
    if (xsmi_poll(o->context)) {
        return false;
    }
    for (size_t i = 0; i < arrays_of(o); i++) {
        const xsmi_weights *w = array_at(o, i);
        memcpy(rows_of(o, i) + first * w->stride, w->weight + first * w->stride, count * w->stride * sizeof(float));
    }
    memset(o->undo.saved + first, 1, count * sizeof *o->undo.saved);
    return true;
}

void xsmi_undo_step(const xsmi_step *s)
{
    const xsm_optimizer *o = s->optimizer;
    const uint32_t classes = o->model->classes;
    for (uint32_t first = 0, end; first < classes; first = end) {
        const bool saved = o->undo.saved[first] != 0;
        for (end = first + 1; end < classes && (o->undo.saved[end] != 0) == saved;) {
            end++;
        }
        for (size_t i = 0; saved && i < arrays_of(o); i++) {
            const xsmi_weights *w = array_at(o, i);
            memcpy(w->weight + first * w->stride, rows_of(o, i) + first * w->stride,
                   (end - first) * w->stride * sizeof(float));
        }
    }
    for (size_t i = 0; o->model->w.bias && i < arrays_of(o); i++) {
        memcpy(array_at(o, i)->bias, biases_of(o, i), classes * sizeof(float));
    }
}

void xsmi_undo_free(xsm_optimizer *o)
{
    xsmi_release(o->context, o->undo.floats, o->undo.float_capacity, sizeof *o->undo.floats);
    xsmi_release(o->context, o->undo.saved, o->undo.saved_capacity, sizeof *o->undo.saved);
    o->undo = (xsmi_undo){.floats = NULL};
}
