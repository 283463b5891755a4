/*
 * The implicit step for several examples (Fagan and Iyengar 2018, Proposition 3 and appendix F.3). A step scores the
 * labels L of the batch and m classes C drawn from all the others; every example uses all of these classes,
 *     f_i = u_i + e^(-u_i) (1 + sum_{k in L - y_i} e^(z_k - z_y) + (K - |L|)/m sum_{k in C} e^(z_k - z_y)),
 * which is unbiased, and equals implicit.c for one example. The step minimises
 *     eta (1/n sum_i f_i + mu/(2N) ||W||^2) + ||theta - theta_old||^2 / 2
 * over all weights, biases and the u_i of the batch. With s = 1/(1 + eta mu/N) its solution is
 *     w_k+ = s (w_k - sum_i c_ik x_i),   b_k+ = b_k - sum_i c_ik,   c_ik = eta/n df_i/dz_k at the end of the step.
 * The u_i are integrated out (math/proximal_batch.h). Of the rows, only the coordinates in a basis of their span are
 * needed. All computations are in log space, so the solver can start at the old point and does not need the linear
 * program of the paper's eq. 22.
 *
 * An example of weight v_i counts as v_i copies, as in implicit.c: its f_i and the square of its u's change are
 * multiplied by v_i.
 */
#include "base/activity.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/random.h"
#include "methods/implicit.h"
#include "math/proximal_batch.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* A step with a larger distance from stationarity is not a solution. */
#define GAP_MOST 1e-3

void xsmi_implicit_release(xsmi_implicit *s)
{
    if (s->work) {
        xsmi_release(s->sum.context, s->work, s->work_count, sizeof *s->work);
        s->work = NULL;
        s->work_count = 0;
    }
}

uint64_t xsmi_implicit_joint_width(const void *state, uint64_t batch)
{
    const xsmi_implicit *s = state;
    uint64_t most = batch + s->sum.negatives;
    return XSMI_MIN(most, s->sum.classes);
}

/* Returns the class with rank `rank`, from 0, among the classes that are not in labels[0..count), which rises. */
static uint32_t class_beside(const uint32_t *labels, uint32_t count, uint32_t rank)
{
    /* labels[i] - i classes before label i are not labels: labels for which that is at most `rank` come before the
     * class. */
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (labels[middle] - middle <= rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return rank + low;
}

void xsmi_implicit_joint_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                                uint32_t *length)
{
    const xsmi_implicit *s = state;
    uint32_t labels = 0;
    /* There may be more examples than entries: when the sorted list is full, it is reduced to distinct labels. */
    uint64_t width = xsmi_implicit_joint_width(state, count);
    for (uint64_t i = 0; i < count; i++) {
        classes[labels++] = examples[i].labels[0];
        if (labels == width || i + 1 == count) {
            xsmi_heap_sort(classes, labels, sizeof *classes, xsmi_compare_u32);
            uint32_t kept = 1;
            for (uint32_t j = 1; j < labels; j++) {
                if (classes[j] != classes[kept - 1]) {
                    classes[kept++] = classes[j];
                }
            }
            labels = kept;
            if (labels == width) {
                break; /* every class is listed */
            }
        }
    }
    uint32_t beside = s->sum.classes - labels;
    uint32_t drawn = XSMI_MIN(s->sum.negatives, beside);
    if (drawn > 0) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, s->sum.seed, XSMI_STREAM_NEGATIVES, examples[0].position);
        /* The function excludes one number: it gets one number more than there are, and that is the one. */
        xsmi_stream_others(&stream, beside + 1, beside, drawn, classes + labels);
        for (uint32_t j = labels; j < labels + drawn; j++) {
            classes[j] = class_beside(classes, labels, classes[j]);
        }
    }
    *length = labels + drawn;
}

static xsm_status reserve(xsmi_implicit *s, size_t count, xsm_error *err)
{
    if (count > s->work_count) {
        xsmi_implicit_release(s);
        s->work = xsmi_allocate(s->sum.context, count, sizeof *s->work);
        if (!s->work) {
            return xsmi_fail_memory(err, count * sizeof *s->work, "the step of a batch");
        }
        s->work_count = count;
    }
    return XSM_OK;
}

/* Returns the label's position in the list, which begins with the labels in rising order. */
static uint32_t position_of(const uint32_t *classes, uint32_t length, uint32_t label)
{
    uint32_t j = 0;
    while (j + 1 < length && classes[j] != label) {
        j++;
    }
    return j;
}

xsm_status xsmi_implicit_joint(void *state, const xsm_score_block *block, xsm_error *err)
{
    xsmi_implicit *s = state;
    size_t n = (size_t)block->count, classes = block->lengths[0], rank = (size_t)block->rank, table, total;
    size_t work = xsmi_proximal_batch_work(n, classes, rank);
    bool fits = xsmi_multiply(n, classes, &table) && work < SIZE_MAX / 8 && classes * (rank + 1) < INT_MAX - 16;
    /* The solver's scratch, levels, pull, weights, u before and after, the rows' weights, and the labels' positions. */
    fits = fits && table < SIZE_MAX / 32 && xsmi_add(work, 2 * table + classes + 4 * n, &total);
    if (!fits) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "the step of a batch of %zu examples and %zu classes is too large", n,
                         classes);
    }
    XSMI_TRY(reserve(s, total, err));
    double *level = s->work + work, *pull = level + table, *log_weight = pull + table;
    double *u_old = log_weight + classes, *u = u_old + n, *weight_of = u + n;
    uint32_t *own = (uint32_t *)(void *)(weight_of + n), labels = 0;
    for (size_t i = 0; i < n; i++) {
        const float *linear = block->linear + i * block->width, *scores = block->scores + i * block->width;
        for (size_t j = 0; j < classes; j++) {
            level[i * classes + j] = (block->decay - 1) * (double)linear[j] + (double)scores[j];
        }
        own[i] = position_of(block->classes, (uint32_t)classes, block->examples[i].labels[0]);
        labels = own[i] + 1 > labels ? own[i] + 1 : labels;
        u_old[i] = s->sum.u[block->examples[i].row];
        weight_of[i] = block->weights ? (double)block->weights[i] : 1;
    }
    double drawn = (double)classes - labels;
    double weight = drawn > 0 ? log(((double)s->sum.classes - labels) / drawn) : 0;
    for (size_t j = 0; j < classes; j++) {
        log_weight[j] = j < labels ? 0 : weight;
    }
    xsmi_proximal_batch p = {
        block->eta, block->decay, s->bias > 0, n,    classes, rank, block->coordinates, level,          log_weight,
        own,        u_old,        u,           pull, s->work, 0,    weight_of,          s->sum.context, false};
    if (xsmi_proximal_batch_solve(&p, s->tolerance) == XSMI_SOLVE_MEMORY) {
        return xsmi_fail_memory(err, 16 * classes * (rank + 1) * sizeof(double), "the step of a batch");
    }
    if (p.stopped) {
        return xsmi_fail_cancelled(s->sum.context, err); /* the u_i have not changed */
    }
    if (!(p.gap <= GAP_MOST)) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "estimator 'implicit': the step of a batch of %zu examples could not be solved for (what is "
                         "left of its gradient is %.2g of it); try a smaller learning rate than %g",
                         n, p.gap, block->eta);
    }
    for (size_t i = 0; i < n; i++) {
        float *g = block->coefficients + i * block->width;
        double others = 0;
        /* The share of one example's gradient, which the library weighs afterwards. */
        const double share = block->eta / (double)n * weight_of[i];
        if (weight_of[i] == 0) { /* it changes nothing */
            memset(g, 0, classes * sizeof *g);
            s->sum.u[block->examples[i].row] = u[i];
            block->losses[i] = 0;
            continue;
        }
        for (size_t j = 0; j < classes; j++) {
            others += j == own[i] ? 0 : pull[i * classes + j];
            g[j] = (float)(pull[i * classes + j] / share);
        }
        s->sum.u[block->examples[i].row] = u[i];
        /* f at the new point, less 1. */
        block->losses[i] = u[i] + expm1(-u[i]) + others / share;
    }
    return XSM_OK;
}
