/* Shared code of the double-sum estimators. */
#include "methods/double_sum.h"
#include "base/order.h"

#include <math.h>

const char *const xsmi_double_sum_starts[] = {"zero", "log-classes", NULL};

xsm_status xsmi_double_sum_bind(xsmi_double_sum *s, const char *name, const xsm_problem *problem, xsm_error *err)
{
    XSMI_TRY(xsmi_negatives(name, s->negatives_option, problem->classes, &s->negatives, err));
    XSMI_TRY(xsmi_array_new(problem->context, &s->u, problem->row_slots, sizeof *s->u, "one number for each row", err));
    s->context = problem->context;
    s->examples = problem->examples;
    s->slots = problem->row_slots;
    s->seed = problem->seed;
    s->classes = problem->classes;
    s->weight = s->negatives ? (double)(s->classes - 1) / s->negatives : 0;
    double start = s->start == XSMI_START_LOG_CLASSES ? log((double)s->classes) : 0;
    for (uint64_t i = 0; i < s->slots; i++) {
        s->u[i] = start;
    }
    return XSM_OK;
}

void xsmi_double_sum_unbind(void *state)
{
    xsmi_double_sum *s = state;
    if (s->u) {
        xsmi_release(s->context, s->u, s->slots, sizeof *s->u);
        s->u = NULL;
    }
}

uint64_t xsmi_double_sum_width(const void *state)
{
    return 1 + (uint64_t)((const xsmi_double_sum *)state)->negatives;
}

void xsmi_double_sum_select(const void *state, const xsm_example *examples, uint64_t count, uint32_t *classes,
                            uint32_t *lengths)
{
    const xsmi_double_sum *s = state;
    xsmi_select_others(xsmi_context_kernels(s->context),
                       &(xsmi_negative_lists){s->seed, s->classes, s->negatives, xsmi_double_sum_width(state), examples,
                                              count, classes, lengths});
}

/* e^(z_k - z_y - most) of an example's other classes, with the largest exponent or 0 as `most`: the terms are in g. */
typedef struct terms {
    double most, rest; /* the sum of the terms */
    double whole;      /* with e^-most */
} terms;

static terms sum_terms(const float *z, uint32_t length, float *g, bool whole)
{
    terms t = {0, 0, 0};
    for (uint32_t j = 1; j < length; j++) {
        double difference = (double)z[j] - (double)z[0];
        t.most = XSMI_MAX(difference, t.most);
    }
    for (uint32_t j = 1; j < length; j++) {
        double e = exp((double)z[j] - (double)z[0] - t.most);
        t.rest += e;
        g[j] = (float)e;
    }
    if (whole) {
        t.whole = (t.most > 0 ? exp(-t.most) : 1) + t.rest;
    }
    return t;
}

/* Computes the terms for one other class. Either its term or e^-most is 1, so that one exponential and no branch are
 * needed. */
static terms sum_one(const float *z, float *g)
{
    const double difference = (double)z[1] - (double)z[0], e = exp(-fabs(difference));
    const double term = XSMI_MAX(e, (double)(difference > 0));
    g[1] = (float)term;
    return (terms){XSMI_MAX(difference, 0), term, 1 + e};
}

void xsmi_double_sum_explicit(xsmi_double_sum *s, const xsm_score_block *block, double delta, double most_u)
{
    for (uint64_t i = 0; i < block->count; i++) {
        const float *z = block->scores + i * block->width;
        float *g = block->coefficients + i * block->width;
        uint64_t row = block->examples[i].row;
        uint32_t length = block->lengths[i];
        const terms t = length == 2 ? sum_one(z, g) : sum_terms(z, length, g, delta < INFINITY);
        double u = s->u[row];
        if (delta < INFINITY) {
            double bound = t.most + log(t.whole);
            u = u < bound - delta ? bound : u;
        }
        double scale = s->weight * exp(t.most - u), decline = exp(-u), sum = scale * t.rest;
        if (!(sum < XSMI_STEP_LIMIT)) {
            g[0] = -INFINITY; /* otherwise zero times infinity would give NaN */
            for (uint32_t j = 1; j < length; j++) {
                g[j] = INFINITY;
            }
            block->losses[i] = INFINITY;
            continue;
        }
        for (uint32_t j = 1; j < length; j++) {
            g[j] = (float)(scale * (double)g[j]);
        }
        g[0] = (float)-sum;
        /* The loss is the batch's mean, so the u of each row takes 1/n of the step. */
        double next = u - block->eta / (double)block->batch * (1 - decline - sum);
        xsmi_double_sum_move(s, row, next > 0 ? XSMI_MIN(next, most_u) : 0);
        block->losses[i] = u + decline + sum - 1;
    }
}

void xsmi_double_sum_fetch(const void *state, const xsm_example *example)
{
    const xsmi_double_sum *s = state;
    __builtin_prefetch(s->u + example->row, 1, 3);
}

int32_t xsmi_double_sum_tensor(void *state, uint32_t index, xsm_state_tensor *tensor)
{
    xsmi_double_sum *s = state;
    if (index > 0) {
        return 0;
    }
    tensor->name = "u";
    tensor->type = XSM_STATE_F64;
    tensor->by_row = 1;
    tensor->lines = s->slots;
    tensor->width = 1;
    tensor->data = s->u;
    return 1;
}
