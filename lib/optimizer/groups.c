/*
 * The step on classes whose coefficients are a matrix: those that a batch shares (gradient/gradient.h), or, for rules,
 * all. Their gradients are the product of the coefficients [examples][S] and the rows [examples][D], computed for a
 * group of classes at a time and applied class by class.
 */
#include "base/order.h"
#include "optimizer/step.h"

enum {
    CLASSES = 84, /* of a group, a multiple of every kernel's block size; their gradients stay in the L2 cache */
    SOON = 3      /* classes ahead whose rows are prefetched again: some prefetches are dropped */
};

typedef struct group_job {
    const xsmi_step *step;
    const xsmi_class_matrix *matrix;
    size_t stride; /* floats of a class's gradient */
} group_job;

size_t xsmi_group_sums(const xsm_model *m)
{
    size_t count, total;
    return xsmi_multiply(CLASSES, xsmi_row_stride(m->features), &count) && xsmi_add(count, xsmi_rule_zeros(m), &total)
               ? total
               : SIZE_MAX;
}

static uint32_t class_at(const xsmi_class_matrix *matrix, size_t i)
{
    return matrix->classes ? matrix->classes[i] : matrix->first + (uint32_t)i;
}

/* Lists the rows that a group's step changes, to be prefetched. */
static xsmi_prefetch_queue rows_of(const group_job *job, size_t first, size_t classes, const float **rows)
{
    const xsm_optimizer *o = job->step->optimizer;
    size_t n = 0;
    xsmi_row row;
    for (size_t c = first; c < first + classes; c++) {
        xsmi_row_of_class(o, class_at(job->matrix, c), &row);
        rows[n++] = row.weights;
        for (uint32_t i = 0; !o->ops.row_rate && i < o->ops.accumulators; i++) {
            rows[n++] = row.accumulators[i];
        }
    }
    return (xsmi_prefetch_queue){rows, n, (o->model->features + (size_t)XSMI_LINE - 1) / XSMI_LINE, 0, 0};
}

/* Sums the gradients of a group's classes, and of their biases if there are any. Meanwhile it prefetches the rows that
 * they will change. */
static void sum_group(const group_job *job, size_t first, size_t classes, float *sums, float *bias)
{
    const xsm_model *m = job->step->optimizer->model;
    const xsmi_class_matrix *matrix = job->matrix;
    const uint64_t examples = job->step->g->examples;
    const float *rows[CLASSES * (1 + XSM_OPTIMIZER_ACCUMULATORS)], *g = matrix->coefficients + first;
    xsmi_prefetch_queue queue = rows_of(job, first, classes, rows);
    xsmi_prefetch_firsts(&queue);
    for (uint64_t i = 0; m->w.bias && i < examples; i++) {
        m->kernels->axpby(bias, g + i * matrix->stride, classes, 1, 1);
    }
    m->kernels->rank_packed(false, sums, job->stride, classes, g, 1, matrix->stride, job->step->optimizer->packed,
                            xsmi_pitch(job->step), (size_t)examples, m->features, &queue);
    xsmi_prefetch_queued(&queue, SIZE_MAX); /* with few examples the sums leave no time for all prefetches */
}

static void run_group(const group_job *job, size_t first, float *sums)
{
    const xsmi_step *s = job->step;
    const xsm_optimizer *o = s->optimizer;
    const xsmi_class_matrix *matrix = job->matrix;
    const size_t features = o->model->features;
    const size_t classes = XSMI_MIN(matrix->count - first, (size_t)CLASSES);
    float bias[CLASSES] = {0};
    xsmi_row row;
    sum_group(job, first, classes, sums, bias);
    for (size_t c = 0; c < classes; c++) {
        if (c + SOON < classes) {
            xsmi_row_of_class(o, class_at(matrix, first + c + SOON), &row);
            xsmi_prefetch_weights(o, &row, features);
        }
        const uint32_t class = class_at(matrix, first + c);
        const float *sum = sums + c * job->stride;
        if (o->linear) {
            xsmi_linear_sum(s, class, sum, bias[c]);
        } else {
            xsmi_row_of_class(o, class, &row);
            xsmi_rule_row(o, &row, &(xsmi_features){sum, NULL, features}, 1, &s->step);
        }
    }
    if (!o->linear && o->model->w.bias) {
        const uint32_t *index = matrix->classes ? matrix->classes + first : NULL;
        xsmi_rule_bias(o, index ? 0 : class_at(matrix, first), &(xsmi_features){bias, index, classes}, &s->step);
    }
}

/* Takes a rule's step on a batch of one example, which needs no sums. */
static void run_one(const group_job *job, size_t first, size_t end)
{
    const xsm_optimizer *o = job->step->optimizer;
    const xsm_step *step = &job->step->step;
    const float *coefficients = job->matrix->coefficients;
    const xsmi_features x = xsmi_batch_features(job->step->batch, 0);
    xsmi_row row;
    for (size_t i = first; i < end; i++) {
        xsmi_row_of_class(o, class_at(job->matrix, i), &row);
        xsmi_rule_row(o, &row, &x, coefficients[i], step);
    }
    if (o->model->w.bias) {
        xsmi_rule_bias(o, class_at(job->matrix, first), &(xsmi_features){coefficients + first, NULL, end - first},
                       step);
    }
}

static void run_groups(void *state, const xsmi_range *r)
{
    const group_job *job = state;
    const xsm_optimizer *o = job->step->optimizer;
    const size_t start = r->first * CLASSES, end = XSMI_MIN(job->matrix->count, r->end * CLASSES);
    if (!o->linear && job->step->g->examples == 1 && !job->matrix->classes) {
        run_one(job, start, end);
        return;
    }
    for (size_t first = start; first < end; first += CLASSES) {
        const size_t left = end - first;
        if (job->step->undoes &&
            !xsmi_undo_save(job->step, class_at(job->matrix, first), XSMI_MIN(left, (size_t)CLASSES))) {
            return;
        }
        run_group(job, first, o->sums + r->thread * o->sums_each + xsmi_rule_zeros(o->model));
    }
}

void xsmi_groups_here(const xsmi_step *s, const xsmi_class_matrix *matrix, uint32_t thread)
{
    group_job job = {s, matrix, xsmi_row_stride(s->optimizer->model->features)};
    run_groups(&job, &(xsmi_range){0, (matrix->count + CLASSES - 1) / CLASSES, 0, thread});
}

xsm_status xsmi_step_groups(const xsmi_step *s, const xsmi_class_matrix *matrix, xsm_error *err)
{
    const xsm_model *m = s->optimizer->model;
    const double work = (double)s->g->examples * xsmi_batch_row_work(s->batch);
    const size_t groups = (matrix->count + (size_t)CLASSES - 1) / CLASSES;
    XSMI_TRY(xsmi_pack_batch(s, err));
    group_job job = {s, matrix, xsmi_row_stride(m->features)};
    return xsmi_run_work(s, run_groups, &job, groups, (size_t)(XSMI_JOB_WORK / (work * CLASSES)) + 1,
                         work * (double)matrix->count, err);
}
