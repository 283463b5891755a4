/*
 * A sampler for classes numbered by falling frequency: q(k) = log((k + 2)/(k + 1)) / log(K + 1), as words are drawn by
 * Zipf's law without counting them.
 */
#include "sampler/sampler.h"

#include <math.h>

typedef struct log_uniform_state {
    uint32_t classes;
    double range; /* log(K + 1) */
} log_uniform_state;

static xsm_status bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    log_uniform_state *s = state;
    (void)err;
    s->classes = problem->classes;
    s->range = log(problem->classes + 1.0);
    return XSM_OK;
}

static double log_probability(const void *state, const float *code, uint32_t class)
{
    (void)code;
    return log(log1p(1 / (class + 1.0)) / ((const log_uniform_state *)state)->range);
}

static void draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities)
{
    const log_uniform_state *s = state;
    for (uint32_t j = 0; j < count; j++) {
        double k = floor(exp(xsm_random_uniform(random) * s->range)) - 1;
        classes[j] = k < s->classes ? (uint32_t)k : s->classes - 1;
        log_probabilities[j] = log_probability(state, code, classes[j]);
    }
}

const xsm_sampler_ops xsmi_log_uniform_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "log-uniform",
    .summary = "classes numbered by falling frequency, by Zipf's law",
    .state_size = sizeof(log_uniform_state),
    .bind = bind,
    .draw = draw,
    .log_probability = log_probability,
};
