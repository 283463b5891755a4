/*
 * Implicit SGD on the double sum (Fagan and Iyengar 2018, section 3.2 and appendix F), for one example
 * (below for several) and any number m of sampled classes, with L2 penalty (ridge) and bias: theta+ =
 * theta - eta grad f(theta+), solved as one equation in u (math/proximal.h).
 *
 * With x the example, A = eta (K-1)/m, s_j = 1/(1 + eta mu beta_j / N) the shrinkage by the L2 penalty, beta_j = N over
 * the expected number of examples of an epoch that change class j, and q_j = s_j ||x||^2, plus 1 with a bias:
 *     w_k+ = s_k (w_k - c_k x),  b_k+ = b_k - c_k,  w_y+ = s_y (w_y + C x),  b_y+ = b_y + C,  C = sum_k c_k,
 *     d/du:    C(u)   = eta (1 - e^-u) + u - u_old,
 *     d/dw_k:  c_k(u) = omega(log(q_k A) + a_k - a_y - q_y C(u) - u) / q_k,   a_j = s_j w_j.x + b_j.
 *
 * An example of weight v counts as v copies of it, each with its own u_i, which all move alike. The step minimises
 * v (eta f + (u - u_old)^2/2) + ||theta - theta_old||^2/2: eta is multiplied by v for the weights of the model, and as
 * the copies' u are v numbers, not for u. With c_k for one copy, v c_k x is the change of w_k, so the equations are
 * those above with v q_j for q_j.
 */
#include "methods/implicit.h"
#include "base/order.h"
#include "math/proximal.h"
#include "base/activity.h"
#include "base/heap_sort.h"
#include "base/random.h"
#include "math/proximal_batch.h"

#include <limits.h>
#include <math.h>
#include <string.h>

static const char *const solvers[] = {"newton", "bisection", NULL};

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_OPTIONS,
    XSMI_OPTION_CHOICE("solver", xsmi_implicit, solver, solvers, "newton",
                       "how the one-dimensional equation is solved: newton (safeguarded) or bisection (the paper's)"),
    XSMI_OPTION_DOUBLE("tolerance", xsmi_implicit, tolerance, "1e-8", 1e-15, 1e-2,
                       "accuracy of u, and relative accuracy of the step, at which the solver stops"),
};

static void release_work(xsmi_implicit *s)
{
    if (s->work) {
        xsmi_release(s->sum.context, s->work, s->work_count, sizeof *s->work);
        s->work = NULL;
        s->work_count = 0;
    }
}

static void unbind(void *state)
{
    xsmi_implicit *s = state;
    release_work(s);
    if (s->class_counts) {
        xsmi_release(s->sum.context, s->class_counts, s->sum.classes, sizeof *s->class_counts);
        s->class_counts = NULL;
    }
    xsmi_double_sum_unbind(state);
}

static xsm_status bind(void *state, const xsm_problem *problem, xsm_error *err)
{
    xsmi_implicit *s = state;
    XSMI_TRY(xsmi_double_sum_bind(&s->sum, "implicit", problem, err));
    s->kernels = xsmi_context_kernels(problem->context);
    s->ridge = problem->ridge;
    s->bias = problem->bias ? 1 : 0;
    if (s->ridge > 0) {
        XSMI_TRY(xsmi_array_new(problem->context, &s->class_counts, problem->classes, sizeof *s->class_counts,
                                "class counts", err));
        for (uint32_t k = 0; k < problem->classes; k++) {
            s->class_counts[k] = problem->class_counts[k];
        }
    }
    return XSM_OK;
}

/* A row of zeros has q = 0, for which c_k is the limit A e^(...). A tiny q gives this limit to the last digit. */
#define Q_LEAST 1e-300

/* Positions in the scratch memory of the equations of several examples, in the layout of xsmi_equations. */
typedef struct lanes {
    size_t count;
    double *u_old, *q_y, *u, *margin, *q, *c;
} lanes;

/* Returns the shrinkage of class j's row of weights: beta_j/N = 1/(n_j + (N - n_j) m/(K-1)), the inverse of the number
 * of examples that change it. */
static double shrinkage(const xsmi_implicit *s, uint32_t class, double eta)
{
    if (!s->class_counts) {
        return 1;
    }
    double own = (double)s->class_counts[class];
    double drawn = s->sum.negatives ? ((double)s->sum.examples - own) / s->sum.weight : 0;
    double touched = own + drawn;
    return touched > 0 ? 1 / (1 + eta * s->ridge / touched) : 1;
}

/* Poses the equation without an L2 penalty (ridge), where every shrinkage is 1. */
static void pose_plain(const xsmi_implicit *s, const xsm_score_block *block, uint64_t i, const lanes *e, size_t lane)
{
    const xsm_example *example = &block->examples[i];
    const float *scores = block->scores + i * block->width;
    const double weight = block->weights ? (double)block->weights[i] : 1;
    const double q = example->squared_norm * weight + s->bias * weight, a_y = (double)scores[0];
    const double at_least = XSMI_MAX(q, Q_LEAST);
    double *qs = e->q + lane, *margins = e->margin + lane;
    e->u_old[lane] = s->sum.u[example->row];
    e->q_y[lane] = q;
    for (size_t k = 1; k <= e->count; k++, qs += XSMI_SOLVE_LANES, margins += XSMI_SOLVE_LANES) {
        *qs = at_least;
        *margins = (double)scores[k] - a_y;
    }
}

/* Gives a lane the numbers of another one. */
static void copy_lane(const lanes *e, size_t from, size_t to)
{
    e->u_old[to] = e->u_old[from];
    e->q_y[to] = e->q_y[from];
    for (size_t k = 0; k < e->count * XSMI_SOLVE_LANES; k += XSMI_SOLVE_LANES) {
        e->q[k + to] = e->q[k + from];
        e->margin[k + to] = e->margin[k + from];
    }
}

/* Writes the equation of example i to a lane. The example's lists have e->count classes and the label. */
static void pose(const xsmi_implicit *s, const xsm_score_block *block, uint64_t i, const lanes *e, size_t lane)
{
    const size_t stride = XSMI_SOLVE_LANES;
    const xsm_example *example = &block->examples[i];
    const float *linear = block->linear + i * block->width;
    const float *scores = block->scores + i * block->width;
    const uint32_t *classes = block->classes + i * block->width;
    double *shrinks = block->shrinks + i * block->width;
    double s_y = shrinkage(s, classes[0], block->eta);
    double a_y = (s_y - 1) * (double)linear[0] + (double)scores[0];
    double norm = example->squared_norm, bias = s->bias; /* times the weight */
    if (block->weights) {
        norm *= (double)block->weights[i];
        bias *= (double)block->weights[i];
    }
    e->u_old[lane] = s->sum.u[example->row];
    e->q_y[lane] = s_y * norm + bias;
    shrinks[0] = s_y;
    for (size_t k = 0; k < e->count; k++) {
        double s_k = shrinkage(s, classes[k + 1], block->eta);
        double q_k = s_k * norm + bias;
        shrinks[k + 1] = s_k;
        e->q[k * stride + lane] = XSMI_MAX(q_k, Q_LEAST);
        e->margin[k * stride + lane] = ((s_k - 1) * (double)linear[k + 1] + (double)scores[k + 1]) - a_y;
    }
}

/* Reads the solution from a lane. */
static void read_solution(xsmi_implicit *s, const xsm_score_block *block, uint64_t i, const lanes *e, size_t lane)
{
    float *g = block->coefficients + i * block->width;
    double sum = 0, u = e->u[lane];
    for (size_t k = 0; k < e->count; k++) {
        double c = e->c[k * XSMI_SOLVE_LANES + lane];
        sum += c;
        g[k + 1] = (float)(c / block->eta);
    }
    g[0] = (float)(-sum / block->eta);
    s->sum.u[block->examples[i].row] = u;
    /* f at the new point, less 1. Computing it by (u - u_old)/eta = e^-u - 1 + C/eta would lose digits for small
     * eta. */
    block->losses[i] = u + expm1(-u) + sum / block->eta;
}

static size_t scratch(const void *state)
{
    size_t count = (size_t)xsmi_double_sum_width(state) - 1;
    return ((3 + 5 * count) * XSMI_SOLVE_LANES + 3 * count) * sizeof(double);
}

static void gradient(void *state, const xsm_score_block *block)
{
    const size_t lanes_most = XSMI_SOLVE_LANES;
    xsmi_implicit *s = state;
    double *scratch = block->scratch;
    for (uint64_t first = 0, end; first < block->count; first = end) {
        lanes e = {.count = block->lengths[first] - 1, .u_old = scratch, .q_y = scratch + lanes_most};
        for (end = first + 1; end < block->count && end - first < lanes_most; end++) {
            if (block->lengths[end] != block->lengths[first]) {
                break;
            }
        }
        const size_t entries = e.count * lanes_most;
        e.u = scratch + 2 * lanes_most;
        e.margin = scratch + 3 * lanes_most;
        e.q = e.margin + entries;
        e.c = e.q + entries;
        for (uint64_t i = first; i < end; i++) {
            if (s->class_counts) {
                pose(s, block, i, &e, (size_t)(i - first));
            } else {
                pose_plain(s, block, i, &e, (size_t)(i - first));
            }
        }
        for (size_t l = (size_t)(end - first); l < lanes_most; l++) {
            copy_lane(&e, 0, l); /* not used, but must be a valid equation */
        }
        xsmi_equations equations = {(size_t)(end - first),
                                    e.count,
                                    block->eta,
                                    block->eta * s->sum.weight,
                                    s->tolerance,
                                    e.u_old,
                                    e.q_y,
                                    e.margin,
                                    e.q,
                                    e.u,
                                    e.c,
                                    e.c + entries,
                                    block->upcoming};
        xsmi_proximal_solve_lanes(s->kernels, &equations, s->solver, e.c + 3 * entries);
        for (uint64_t i = first; i < end; i++) {
            read_solution(s, block, i, &e, (size_t)(i - first));
        }
    }
}

/* -- batches ------------------------------------------------------------------------------------------------------- */

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

/* A step with a larger distance from stationarity is not a solution. */
#define GAP_MOST 1e-3

static uint64_t width_of_joint(const void *state, uint64_t batch)
{
    const xsmi_implicit *s = state;
    uint64_t most = batch + s->sum.negatives;
    return XSMI_MIN(most, s->sum.classes);
}

static void select_joint(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                         uint32_t *length)
{
    const xsmi_implicit *s = state;
    uint32_t labels = 0;
    /* There may be more examples than entries: when the sorted list is full, it is reduced to distinct labels. */
    uint64_t width = width_of_joint(state, count);
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
        /* The function excludes one number: it draws from one number more than there are, and excludes that one. */
        xsmi_stream_others(&stream, beside + 1, beside, drawn, classes + labels);
        for (uint32_t j = labels; j < labels + drawn; j++) {
            classes[j] = xsmi_other_number(classes, labels, classes[j]);
        }
    }
    *length = labels + drawn;
}

static xsm_status reserve(xsmi_implicit *s, size_t count, xsm_error *err)
{
    if (count > s->work_count) {
        release_work(s);
        XSMI_TRY(xsmi_array_new(s->sum.context, &s->work, count, sizeof *s->work, "the step of a batch", err));
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

static xsm_status step_jointly(void *state, const xsm_score_block *block, xsm_error *err)
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

const xsm_estimator_ops xsmi_implicit_ops = {
    XSMI_ESTIMATOR_OF(xsmi_implicit),
    .flags = XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_PROXIMAL | XSM_ESTIMATOR_WEIGHTED,
    .name = "implicit",
    .summary = "implicit SGD on the double sum, sampled classes (Fagan and Iyengar 2018)",
    XSMI_ESTIMATOR_OPTIONS(options),
    .bind = bind,
    .unbind = unbind,
    .scratch = scratch,
    .width = xsmi_double_sum_width,
    .select = xsmi_double_sum_select,
    .prefetch = xsmi_double_sum_fetch,
    .state_tensor = xsmi_double_sum_tensor,
    .gradient = gradient,
    .joint_width = width_of_joint,
    .joint_select = select_joint,
    .joint = step_jointly,
};
