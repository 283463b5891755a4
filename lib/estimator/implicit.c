/*
 * Implicit SGD on the double sum (Fagan and Iyengar 2018, section 3.2 and appendix F), for one example
 * (implicit_batch.c for several) and any number m of sampled classes, with ridge and bias: theta+ = theta - eta grad
 * f(theta+), solved as one equation in u (math/proximal.h).
 *
 * With x the example, A = eta (K-1)/m, s_j = 1/(1 + eta mu beta_j / N) the ridge's shrinkage, beta_j = N over the
 * expected number of examples of an epoch that touch class j, and q_j = s_j ||x||^2, plus 1 with a bias:
 *     w_k+ = s_k (w_k - c_k x),  b_k+ = b_k - c_k,  w_y+ = s_y (w_y + C x),  b_y+ = b_y + C,  C = sum_k c_k,
 *     d/du:    C(u)   = eta (1 - e^-u) + u - u_old,
 *     d/dw_k:  c_k(u) = omega(log(q_k A) + a_k - a_y - q_y C(u) - u) / q_k,   a_j = s_j w_j.x + b_j.
 */
#include "estimator/implicit.h"
#include "math/proximal.h"

#include <float.h>
#include <math.h>

static const char *const solvers[] = {"newton", "bisection", NULL};

static const xsm_option options[] = {
    XSMI_DOUBLE_SUM_OPTIONS,
    {"solver", XSM_OPTION_CHOICE, offsetof(xsmi_implicit, solver), "newton", 0, 0, solvers,
     "how the one-dimensional equation is solved: newton (safeguarded) or bisection (the paper's)"},
    {"tolerance", XSM_OPTION_DOUBLE, offsetof(xsmi_implicit, tolerance), "1e-8", 1e-15, 1e-2, NULL,
     "accuracy of u, and relative accuracy of the step, at which the solver stops"},
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

/* Shrinkage of class j's row: beta_j/N = 1/(n_j + (N - n_j) m/(K-1)), the inverse of the examples that touch it. */
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

/* The step for one example, whose lists hold `length` classes. Room: three doubles a class. */
static void step(xsmi_implicit *s, const xsm_score_block *block, uint64_t i, uint32_t length, double *room)
{
    const xsm_example *example = &block->examples[i];
    const float *linear = block->linear + i * block->width;
    const float *scores = block->scores + i * block->width;
    const uint32_t *classes = block->classes + i * block->width;
    float *g = block->coefficients + i * block->width;
    double *shrinks = block->shrinks + i * block->width;
    double eta = block->eta;
    double *level = room, *q = room + length, *c = room + 2 * (size_t)length;
    double s_y = shrinkage(s, classes[0], eta);
    double a_y = (s_y - 1) * (double)linear[0] + (double)scores[0];
    /* A row of zeros has q = 0, for which c_k is the limit A e^(...): a tiny q gives it to the last digit. */
    const double least = 1e-300;
    xsmi_proximal e = {eta, s->sum.u[example->row], s_y * example->squared_norm + s->bias, length - 1, level, q, c};
    shrinks[0] = s_y;
    double rate = eta * s->sum.weight, log_qa = 0;
    for (uint32_t j = 1; j < length; j++) {
        double s_j = shrinkage(s, classes[j], eta);
        shrinks[j] = s_j;
        double q_j = s_j * example->squared_norm + s->bias;
        q[j - 1] = q_j > least ? q_j : least;
        if (j == 1 || q[j - 1] != q[j - 2]) {
            /* Without a ridge they are all the same. One logarithm, unless the product leaves the normal numbers. */
            double qa = q[j - 1] * rate;
            log_qa = qa > DBL_MIN && qa < DBL_MAX ? log(qa) : log(q[j - 1]) + log(rate);
        }
        level[j - 1] = log_qa + ((s_j - 1) * (double)linear[j] + (double)scores[j]) - a_y;
    }
    double u = xsmi_proximal_solve(&e, s->solver, s->tolerance);
    double sum = 0;
    for (uint32_t j = 1; j < length; j++) {
        sum += c[j - 1];
        g[j] = (float)(c[j - 1] / eta);
    }
    g[0] = (float)(-sum / eta);
    s->sum.u[example->row] = u;
    /* f at the new point is u + e^-u + C/eta - 1, and C is known from its equation in u. */
    block->losses[i] = u + (u - e.u_old) / eta;
}

static size_t scratch(const void *state)
{
    return 3 * (size_t)xsmi_double_sum_width(state) * sizeof(double);
}

static void gradient(void *state, const xsm_score_block *block)
{
    xsmi_implicit *s = state;
    for (uint64_t i = 0; i < block->count; i++) {
        step(s, block, i, block->lengths[i], block->scratch);
    }
}

const xsm_estimator_ops xsmi_implicit_ops = {
    .size = sizeof(xsm_estimator_ops),
    .abi = XSM_ESTIMATOR_ABI,
    .flags = XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_PROXIMAL,
    .name = "implicit",
    .summary = "implicit SGD on the double sum, sampled classes (Fagan and Iyengar 2018)",
    .state_size = sizeof(xsmi_implicit),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .bind = bind,
    .unbind = unbind,
    .width = xsmi_double_sum_width,
    .select = xsmi_double_sum_select,
    .scratch = scratch,
    .gradient = gradient,
    .joint_width = xsmi_implicit_joint_width,
    .joint_select = xsmi_implicit_joint_select,
    .joint = xsmi_implicit_joint,
};
