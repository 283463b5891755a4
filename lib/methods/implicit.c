/*
 * Implicit SGD on the double sum (Fagan and Iyengar 2018, section 3.2 and appendix F), for one example
 * (implicit_batch.c is for several) and any number m of sampled classes, with L2 penalty (ridge) and bias: theta+ =
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

#include <math.h>

static const char *const solvers[] = {"newton", "bisection", NULL};

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_OPTIONS,
    XSMI_OPTION_CHOICE("solver", xsmi_implicit, solver, solvers, "newton",
                       "how the one-dimensional equation is solved: newton (safeguarded) or bisection (the paper's)"),
    XSMI_OPTION_DOUBLE("tolerance", xsmi_implicit, tolerance, "1e-8", 1e-15, 1e-2,
                       "accuracy of u, and relative accuracy of the step, at which the solver stops"),
};

static void unbind(void *state)
{
    xsmi_implicit *s = state;
    xsmi_implicit_release(s);
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
        s->class_counts = xsmi_allocate(problem->context, problem->classes, sizeof *s->class_counts);
        if (!s->class_counts) {
            return xsmi_fail_memory(err, problem->classes * sizeof *s->class_counts, "class counts");
        }
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
    .joint_width = xsmi_implicit_joint_width,
    .joint_select = xsmi_implicit_joint_select,
    .joint = xsmi_implicit_joint,
};
