/*
 * The step on the classes that a batch shares (gradient/gradient.h). Their gradients are the product of the
 * coefficients [examples][S] and the rows [examples][D], computed for a group of classes at a time and applied class by
 * class.
 */
#include "optimizer/optimizer.h"

#include <string.h>

/* CLASSES: classes of a group, a multiple of every kernel's block size; their gradients stay in the second cache. ROWS:
 * rows given to the kernel together. CLASSES_AHEAD: classes whose weights are prefetched before their step. */
enum { CLASSES = 84, ROWS = 128, CLASSES_AHEAD = 3 };

bool xsmi_optimizer_takes_product(const xsm_optimizer *o, const xsm_gradient *g)
{
    const xsm_model *m = o->model;
    return (g->form == XSMI_GRADIENT_SHARED) && o->ops->step_sum && !(g->row_bound > 0) &&
           m->layout == XSM_LAYOUT_CLASS_MAJOR && m->score == XSM_SCORE_LINEAR && !m->row_length;
}

typedef struct product_job {
    xsm_optimizer *optimizer;
    const xsm_batch *batch;
    const xsm_gradient *g;
    double eta, alpha;
    size_t stride;
} product_job;

static void run_group(void *state, size_t index, uint32_t thread)
{
    const product_job *job = state;
    const xsmi_shared_classes *s = &job->g->shared;
    const xsm_model *m = job->optimizer->model;
    const size_t first = index * CLASSES;
    const size_t classes = s->count - first < CLASSES ? s->count - first : CLASSES;
    float *sums = job->optimizer->sums + thread * CLASSES * job->stride, bias[CLASSES] = {0};
    memset(sums, 0, classes * job->stride * sizeof *sums);
    for (uint64_t start = 0; start < job->g->examples; start += ROWS) {
        const float *x[ROWS], *g = s->matrix + start * s->stride + first;
        size_t n = job->g->examples - start < ROWS ? (size_t)(job->g->examples - start) : ROWS;
        for (size_t i = 0; i < n; i++) {
            x[i] = xsmi_batch_features(job->batch, start + i).values;
            for (size_t c = 0; c < classes; c++) {
                bias[c] += g[i * s->stride + c];
            }
        }
        m->kernels->rank_update(sums, job->stride, classes, g, s->stride, x, n, m->features, 1);
    }
    for (size_t c = 0; c < classes; c++) {
        if (c + CLASSES_AHEAD < classes) {
            const uint32_t *upcoming = &s->classes[first + c + CLASSES_AHEAD];
            const xsmi_features all = {sums, NULL, m->features};
            xsmi_prefetch_row(m->weight + (size_t)*upcoming * m->stride, m->features);
            if (job->optimizer->ops->fetch) {
                job->optimizer->ops->fetch(job->optimizer, &all, 1, upcoming);
            }
        }
        job->optimizer->ops->step_sum(job->optimizer, s->classes[first + c], sums + c * job->stride, bias[c], job->eta,
                                      job->alpha);
    }
}

xsm_status xsmi_optimizer_step_product(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                       double alpha, xsm_error *err)
{
    product_job job = {o, batch, g, eta, alpha, xsmi_row_stride(o->model->features)};
    const size_t threads = xsm_context_threads(o->context);
    size_t count;
    if (!xsmi_multiply(threads * CLASSES, job.stride, &count)) {
        return xsmi_fail_memory(err, SIZE_MAX, "the gradients of a batch");
    }
    if (!xsmi_reserve(o->context, &o->sums, &o->sum_capacity, count, sizeof *o->sums)) {
        return xsmi_fail_memory(err, count * sizeof *o->sums, "the gradients of a batch");
    }
    return xsmi_run(o->context, run_group, &job, (g->shared.count + (size_t)CLASSES - 1) / CLASSES, err);
}
