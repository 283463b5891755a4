/* All classes with the same probability: q(k) = 1/K. */
#include "sampler/sampler.h"

#include <math.h>

typedef struct uniform_state {
    uint32_t classes;
    double log_probability;
} uniform_state;

static xsm_status bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    uniform_state *s = state;
    (void)err;
    s->classes = problem->classes;
    s->log_probability = -log((double)problem->classes);
    return XSM_OK;
}

static void draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities)
{
    const uniform_state *s = state;
    (void)code;
    for (uint32_t j = 0; j < count; j++) {
        classes[j] = (uint32_t)xsmi_stream_below(&random->stream, s->classes);
        log_probabilities[j] = s->log_probability;
    }
}

/* Draws from the K - e others without replacement: each is drawn with probability count/(K - e). */
static double draw_others(const void *state, const float *code, xsm_random *random, const uint32_t *excluded,
                          uint32_t excluded_count, uint32_t count, uint32_t *classes)
{
    const uniform_state *s = state;
    (void)code;
    xsmi_stream_without(&random->stream, s->classes, excluded, excluded_count, count, classes);
    return count > 0 ? log((double)count / (s->classes - excluded_count)) : 0;
}

static double log_probability(const void *state, const float *code, uint32_t class)
{
    (void)code;
    (void)class;
    return ((const uniform_state *)state)->log_probability;
}

static void log_probabilities(const void *state, const float *code, uint32_t first, uint32_t count, float *out)
{
    (void)code;
    (void)first;
    for (uint32_t k = 0; k < count; k++) {
        out[k] = (float)((const uniform_state *)state)->log_probability;
    }
}

/* Saves nothing: the number of classes is the whole state. */
static xsm_status save(const void *state, xsm_array_writer *writer, xsm_error *err)
{
    (void)state;
    (void)writer;
    (void)err;
    return XSM_OK;
}

static xsm_status load(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err)
{
    (void)reader;
    return bind(state, problem, err);
}

const xsm_sampler_ops xsmi_uniform_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "uniform",
    .summary = "every class alike",
    .state_size = sizeof(uniform_state),
    .bind = bind,
    .draw = draw,
    .draw_others = draw_others,
    .log_probability = log_probability,
    .log_probabilities = log_probabilities,
    .save = save,
    .load = load,
};
