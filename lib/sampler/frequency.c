/*
 * A power of the classes' frequencies: q(k) in proportion to (n_k + smoothing)^power, n_k the training rows with
 * class k. Power 1 draws by frequency, 0.75 is used by word2vec (Mikolov et al. 2013), 0 is uniform. A smoothing
 * above 0 gives classes without rows a probability; with 0 they are never drawn.
 */
#include "sampler/arrays.h"
#include "base/order.h"
#include "sampler/sampler.h"
#include "math/alias.h"

#include <math.h>
#include <string.h>

typedef struct frequency_state {
    double power, smoothing;
    xsm_context *context;
    xsmi_alias alias;
    double *log_q; /* [classes] */
    uint32_t classes;
} frequency_state;

static const xsm_option options[] = {
    XSMI_OPTION_DOUBLE("power", frequency_state, power, "1", 0, 100,
                       "what the frequencies are raised to: 1 = as the data, 0 = uniform"),
    XSMI_OPTION_DOUBLE("smoothing", frequency_state, smoothing, "1", 0, 1e30,
                       "rows that every class is given beyond its own before the power is taken; 0 = classes without "
                       "rows are never drawn"),
};

static void unbind(void *state)
{
    frequency_state *s = state;
    if (s->alias.columns) {
        xsmi_alias_clear(s->context, &s->alias);
    }
    if (s->log_q) {
        xsmi_release(s->context, s->log_q, s->classes, sizeof *s->log_q);
        s->log_q = NULL;
    }
}

static xsm_status bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    frequency_state *s = state;
    s->context = problem->context;
    s->classes = problem->classes;
    s->log_q = xsmi_allocate(s->context, s->classes, sizeof *s->log_q);
    double *weights = xsmi_allocate(s->context, s->classes, sizeof *weights);
    xsm_status status = XSM_OK;
    if (!s->log_q || !weights) {
        status = xsmi_fail_memory(err, s->classes * sizeof *weights, "the classes' frequencies");
    } else {
        double most = 0, total = 0;
        for (uint32_t k = 0; k < s->classes; k++) {
            double n = (double)problem->class_counts[k] + s->smoothing;
            most = XSMI_MAX(n, most);
        }
        if (!(most > 0)) {
            status = xsmi_fail(err, XSM_ERROR_DATA, "no class has a row; a smoothing above 0 is needed");
        }
        for (uint32_t k = 0; status == XSM_OK && k < s->classes; k++) {
            double n = (double)problem->class_counts[k] + s->smoothing;
            weights[k] = n > 0 ? exp(s->power * log(n / most)) : 0;
            total += weights[k];
        }
        for (uint32_t k = 0; status == XSM_OK && k < s->classes; k++) {
            s->log_q[k] = log(weights[k] / total); /* minus infinity for 0 */
        }
        if (status == XSM_OK) {
            status = xsmi_alias_new(s->context, weights, s->classes, &s->alias, err);
        }
    }
    xsmi_release(s->context, weights, s->classes, sizeof *weights);
    return status;
}

static void draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities)
{
    const frequency_state *s = state;
    (void)code;
    xsmi_alias_draws(&s->alias, &random->stream, count, classes);
    for (uint32_t j = 0; j < count; j++) {
        log_probabilities[j] = s->log_q[classes[j]];
    }
}

static double log_probability(const void *state, const float *code, uint32_t class)
{
    (void)code;
    return ((const frequency_state *)state)->log_q[class];
}

static void log_probabilities(const void *state, const float *code, uint32_t first, uint32_t count, float *out)
{
    const frequency_state *s = state;
    (void)code;
    for (uint32_t k = 0; k < count; k++) {
        out[k] = (float)s->log_q[first + k];
    }
}

static xsm_status save(const void *state, xsm_array_writer *writer, xsm_error *err)
{
    const frequency_state *s = state;
    xsm_array log_q = {sizeof log_q, "log_q", XSM_DTYPE_FLOAT64, 1, {s->classes}, s->log_q};
    xsm_array alias = {sizeof alias, "alias", XSM_DTYPE_UINT32, 2, {s->classes, 2}, s->alias.columns};
    XSMI_TRY(xsm_array_write(writer, &log_q, err));
    return xsm_array_write(writer, &alias, err);
}

/* Whether the columns agree with the logarithms. `share` is scratch, [classes]. */
static bool fits(const frequency_state *s, double *share)
{
    double total = 0;
    for (uint32_t k = 0; k < s->classes; k++) {
        share[k] = 0;
        if (s->alias.columns[k].alias >= s->classes) {
            return false;
        }
    }
    for (uint32_t k = 0; k < s->classes; k++) {
        double own = s->alias.columns[k].threshold * 0x1p-32;
        share[k] += own / s->classes;
        share[s->alias.columns[k].alias] += (1 - own) / s->classes;
    }
    for (uint32_t k = 0; k < s->classes; k++) {
        double q = exp(s->log_q[k]);
        if (!(fabs(q - share[k]) <= 1e-6 * (q + 1.0 / s->classes)) || (share[k] > 0) != (q > 0)) {
            return false; /* also for a NaN */
        }
        total += q;
    }
    return fabs(total - 1) < 1e-6;
}

static xsm_status load(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err)
{
    frequency_state *s = state;
    xsm_array log_q = XSM_ARRAY_INIT, alias = XSM_ARRAY_INIT;
    XSMI_TRY(xsm_array_read(reader, "log_q", XSM_DTYPE_FLOAT64, 1, &log_q, err));
    XSMI_TRY(xsm_array_read(reader, "alias", XSM_DTYPE_UINT32, 2, &alias, err));
    if (log_q.shape[0] != problem->classes || alias.shape[0] != problem->classes || alias.shape[1] != 2) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: log_q [K] and alias [K, 2] do not fit the %u classes",
                         reader->name, problem->classes);
    }
    s->context = problem->context;
    s->classes = problem->classes;
    s->log_q = xsmi_allocate(s->context, s->classes, sizeof *s->log_q);
    s->alias.columns = xsmi_allocate(s->context, s->classes, sizeof *s->alias.columns);
    s->alias.count = s->classes;
    double *share = xsmi_allocate(s->context, s->classes, sizeof *share);
    xsm_status status = XSM_OK;
    if (!s->log_q || !s->alias.columns || !share) {
        status = xsmi_fail_memory(err, s->classes * sizeof *s->log_q, "the classes' frequencies");
    } else {
        memcpy(s->log_q, log_q.data, s->classes * sizeof *s->log_q);
        memcpy(s->alias.columns, alias.data, s->classes * sizeof *s->alias.columns);
        status = fits(s, share) ? XSM_OK
                                : xsmi_fail(err, XSM_ERROR_FORMAT, "%s: log_q and alias are not of one distribution",
                                            reader->name);
    }
    xsmi_release(s->context, share, s->classes, sizeof *share);
    return status;
}

const xsm_sampler_ops xsmi_frequency_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "frequency",
    .summary = "a power of how often each class occurs in the training rows",
    .state_size = sizeof(frequency_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .bind = bind,
    .unbind = unbind,
    .draw = draw,
    .log_probability = log_probability,
    .log_probabilities = log_probabilities,
    .save = save,
    .load = load,
};
