/*
 * Tests of the conformance suite for optimizers: it accepts the built-in tables and host rules with none to three
 * accumulators, and finds each kind of fault.
 */
#include "training.h"

#include <xsoftmax/ext/optimizer.h>

#include <math.h>
#include <string.h>

/* -- rules that keep the contract ---------------------------------------------------------------------------------- */

/* RMSprop: s <- decay s + (1 - decay) t^2, w <- w - eta t / (sqrt(s) + 1e-6) */
typedef struct rmsprop {
    double decay;
} rmsprop;

static const xsm_option rmsprop_options[] = {
    {sizeof(xsm_option), "decay", XSM_OPTION_DOUBLE, offsetof(rmsprop, decay), "0.9", 0, 0.9999, NULL,
     "of the mean of squares"},
};

static float rms_step(float t, float *s, float decay, float eta)
{
    *s = decay * *s + (1 - decay) * t * t;
    return eta * t / (sqrtf(*s) + 1e-6f);
}

static void rms_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                     const xsm_step *step)
{
    const float decay = (float)((const rmsprop *)state)->decay;
    for (size_t i = 0; i < n; i++) {
        if (sum[i] != 0) {
            weights[i] -= rms_step(sum[i], &accumulators[0][i], decay, (float)step->eta);
        }
    }
}

static void rms_scaled(const void *state, float *weights, float *const *accumulators, const xsm_scaled_gradient *g,
                       const xsm_step *step)
{
    const float decay = (float)((const rmsprop *)state)->decay;
    for (size_t i = 0; i < g->count; i++) {
        const size_t at = g->index ? g->index[i] : i;
        const float t = g->factor * g->values[i];
        if (t != 0) {
            weights[at] -= rms_step(t, &accumulators[0][at], decay, (float)step->eta);
        }
    }
}

static const char *const names[] = {"squares", "means", "counts"};

static const xsm_optimizer_ops rms_table = {
    .size = sizeof(xsm_optimizer_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "rmsprop",
    .summary = "a test",
    .state_size = sizeof(rmsprop),
    .options = rmsprop_options,
    .option_count = 1,
    .accumulator_names = names,
    .accumulators = 1,
    .rule = rms_rule,
};

/* Adam whose bias correction counts each weight's own steps: three accumulators, one of them signed. */
static void adam_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                      const xsm_step *step)
{
    (void)state;
    for (size_t i = 0; i < n; i++) {
        const float t = sum[i];
        if (t != 0) {
            float *squares = &accumulators[0][i], *mean = &accumulators[1][i], *count = &accumulators[2][i];
            *count += 1;
            *mean = 0.9f * *mean + 0.1f * t;
            *squares = 0.99f * *squares + 0.01f * t * t;
            const float m = *mean / (1 - powf(0.9f, *count)), s = *squares / (1 - powf(0.99f, *count));
            weights[i] -= (float)step->eta * m / (sqrtf(s) + 1e-6f);
        }
    }
}

/* The sign of the gradient, at a rate that falls with the number of the step. */
static void sign_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                      const xsm_step *step)
{
    (void)state;
    (void)accumulators;
    const float eta = (float)(step->eta / (double)step->number);
    for (size_t i = 0; i < n; i++) {
        weights[i] -= sum[i] > 0 ? eta : sum[i] < 0 ? -eta : 0;
    }
}

/* Momentum, which moves weights without a gradient, too. */
static void momentum_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                          const xsm_step *step)
{
    (void)state;
    for (size_t i = 0; i < n; i++) {
        accumulators[0][i] = 0.9f * accumulators[0][i] + sum[i];
        weights[i] -= (float)step->eta * accumulators[0][i];
    }
}

TEST(tables_that_keep_the_contract_pass)
{
    for (size_t i = 0; xsm_optimizer_at(i); i++) {
        assert_ok(xsm_optimizer_check(NULL, xsm_optimizer_at(i), NULL, &err), err);
    }
    xsm_optimizer_ops table = rms_table;
    assert_ok(xsm_optimizer_check(NULL, &table, NULL, &err), err);
    table.scaled = rms_scaled;
    assert_ok(xsm_optimizer_check(NULL, &table, NULL, &err), err);
    xsm_optimizer_check_options options = XSM_OPTIMIZER_CHECK_OPTIONS_INIT;
    static const char *const set[] = {"decay=0.5", NULL};
    options.set = set;
    options.classes = 9;
    options.features = 7;
    options.eta = 0.01;
    assert_ok(xsm_optimizer_check(NULL, &table, &options, &err), err);
    table.rule = adam_rule;
    table.scaled = NULL;
    table.accumulators = 3;
    table.signed_accumulators = 2;
    assert_ok(xsm_optimizer_check(NULL, &table, NULL, &err), err);
    table.rule = sign_rule;
    table.accumulators = table.signed_accumulators = 0;
    assert_ok(xsm_optimizer_check(NULL, &table, NULL, &err), err);
    table.rule = momentum_rule;
    table.accumulators = table.signed_accumulators = 1;
    table.flags = XSM_OPTIMIZER_CHANGES_AT_ZERO;
    assert_ok(xsm_optimizer_check(NULL, &table, NULL, &err), err);
}

/* -- faults -------------------------------------------------------------------------------------------------------- */

static void beyond_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                        const xsm_step *step)
{
    rms_rule(state, weights, accumulators, sum, n, step);
    weights[n] += 1;
}

/* A step that depends on the largest gradient of the piece. */
static void pieces_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                        const xsm_step *step)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(sum[i]));
    }
    (void)state;
    (void)accumulators;
    for (size_t i = 0; i < n; i++) {
        weights[i] -= most > 0 ? (float)step->eta * sum[i] / most : 0;
    }
}

static void infinite_rule(const void *state, float *weights, float *const *accumulators, const float *sum, size_t n,
                          const xsm_step *step)
{
    rms_rule(state, weights, accumulators, sum, n, step);
    for (size_t i = 0; i < n; i++) {
        weights[i] /= sum[i] == 0 ? 1 : 0;
    }
}

static void other_scaled(const void *state, float *weights, float *const *accumulators, const xsm_scaled_gradient *g,
                         const xsm_step *step)
{
    xsm_scaled_gradient wrong = *g;
    wrong.factor = fabsf(g->factor) * 2;
    rms_scaled(state, weights, accumulators, &wrong, step);
}

static void unlisted_scaled(const void *state, float *weights, float *const *accumulators, const xsm_scaled_gradient *g,
                            const xsm_step *step)
{
    xsm_scaled_gradient wrong = *g;
    wrong.index = NULL;
    rms_scaled(state, weights, accumulators, &wrong, step);
}

/* Adds to its sum where the gradients are 0; and a sum below 0. */
static float idle_rate(const void *state, float *const *accumulators, float mean_square, const xsm_step *step)
{
    (void)state;
    *accumulators[0] += mean_square + 1;
    return (float)step->eta;
}

static float negative_rate(const void *state, float *const *accumulators, float mean_square, const xsm_step *step)
{
    (void)state;
    *accumulators[0] -= mean_square;
    return (float)step->eta;
}

static xsm_status bind_fails(void *state, xsm_context *context, xsm_error *err)
{
    (void)state;
    (void)context;
    err->status = XSM_ERROR_RANGE;
    strcpy(err->message, "decay and beta do not go together");
    return XSM_ERROR_RANGE;
}

TEST(faults_are_found)
{
    static const struct {
        void (*rule)(const void *, float *, float *const *, const float *, size_t, const xsm_step *);
        void (*scaled)(const void *, float *, float *const *, const xsm_scaled_gradient *, const xsm_step *);
        uint32_t accumulators, signed_accumulators;
        xsm_status status;
        const char *says;
    } faults[] = {
        {beyond_rule, NULL, 1, 0, XSM_ERROR_DATA, "beyond"},
        {momentum_rule, NULL, 1, 1, XSM_ERROR_DATA, "XSM_OPTIMIZER_CHANGES_AT_ZERO"},
        {adam_rule, NULL, 3, 0, XSM_ERROR_DATA, "'rmsprop': means is below 0"},
        {pieces_rule, NULL, 1, 0, XSM_ERROR_DATA, "in pieces"},
        {infinite_rule, NULL, 1, 0, XSM_ERROR_DATA, "not finite"},
        {rms_rule, other_scaled, 1, 0, XSM_ERROR_DATA, "scaled() gives"},
        {rms_rule, unlisted_scaled, 1, 0, XSM_ERROR_DATA, "with a list"},
        {NULL, NULL, 1, 0, XSM_ERROR_ARGUMENT, "needs name, summary and rule()"},
        {rms_rule, NULL, 9, 0, XSM_ERROR_ARGUMENT, "up to 8 accumulators"},
        {rms_rule, NULL, 1, 2, XSM_ERROR_ARGUMENT, "signed_accumulators"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        xsm_optimizer_ops table = rms_table;
        table.rule = faults[i].rule;
        table.scaled = faults[i].scaled;
        table.accumulators = faults[i].accumulators;
        table.signed_accumulators = faults[i].signed_accumulators;
        assert_fails(xsm_optimizer_check(NULL, &table, NULL, &err), faults[i].status, err);
        if (!strstr(err.message, faults[i].says)) {
            fail_msg("fault %zu: '%s' does not say '%s'", i, err.message, faults[i].says);
        }
    }
    xsm_optimizer_ops table = rms_table;
    table.row_rate = idle_rate;
    assert_fails(xsm_optimizer_check(NULL, &table, NULL, &err), XSM_ERROR_ARGUMENT, err); /* beside rule() */
    table.rule = NULL;
    assert_fails(xsm_optimizer_check(NULL, &table, NULL, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "by the mean 0"));
    table.row_rate = negative_rate;
    assert_fails(xsm_optimizer_check(NULL, &table, NULL, &err), XSM_ERROR_DATA, err);
    assert_non_null(strstr(err.message, "makes squares -"));
}

TEST(bad_tables_are_refused)
{
    xsm_optimizer *o = NULL;
    assert_fails(xsm_optimizer_check(NULL, NULL, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_new_from(NULL, NULL, &o, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_optimizer_new_from(NULL, &rms_table, NULL, &err), XSM_ERROR_ARGUMENT, err);
    xsm_optimizer_ops table = rms_table;
    table.abi = XSM_EXT_ABI_VERSION + 1;
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_ABI, err);
    table = rms_table;
    table.size = 20;
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_STRUCT_OLD, err);
    table = rms_table;
    table.flags = 4;
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_ARGUMENT, err);
    table = rms_table;
    table.flags = XSM_OPTIMIZER_LINEAR; /* with a rule */
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_ARGUMENT, err);
    static const char *const twice[] = {"squares", "squares"}, *const bad[] = {"Squares", NULL};
    table = rms_table;
    table.accumulator_names = twice;
    table.accumulators = 2;
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_ARGUMENT, err);
    table.accumulator_names = bad;
    table.accumulators = 1;
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_ARGUMENT, err);
    table.accumulators = 2;
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_ARGUMENT, err);
    table.accumulator_names = NULL;
    assert_fails(xsm_optimizer_new_from(NULL, &table, &o, &err), XSM_ERROR_ARGUMENT, err);
    table = rms_table;
    table.bind = bind_fails;
    assert_fails(xsm_optimizer_check(NULL, &table, NULL, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "decay and beta"));
    xsm_optimizer_check_options options = XSM_OPTIMIZER_CHECK_OPTIONS_INIT;
    options.classes = 3;
    assert_fails(xsm_optimizer_check(NULL, &rms_table, &options, &err), XSM_ERROR_RANGE, err);
    options.classes = 0;
    static const char *const set[] = {"beta=1", NULL};
    options.set = set;
    assert_fails(xsm_optimizer_check(NULL, &rms_table, &options, &err), XSM_ERROR_NAME, err);
}
