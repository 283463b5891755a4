/* The conformance suite for optimizers' tables (ext/optimizer.h says what it tests). */
#include "optimizer/optimizer.h"

#include "base/entry.h"
#include "check/failures.h"
#include "check/made_rows.h"
#include "estimator/estimator.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/trainer.h>

/* Number of steps of each run. */
#define XSMI_OPTIMIZER_TRIAL_STEPS 4

typedef struct xsmi_optimizer_trial {
    xsm_context *context;
    const xsm_optimizer_ops *ops;
    const xsm_optimizer_check_options *options;
    xsm_dataset *data; /* sparse rows */
    float *dense;      /* the same rows, [rows][features] */
} xsmi_optimizer_trial;

enum { ROWS = 160, HIDDEN = 20, STEPS = XSMI_OPTIMIZER_TRIAL_STEPS, THREADS = 3 };

static xsm_status set_option(void *object, const char *name, const char *value, xsm_error *err)
{
    return xsm_optimizer_set(object, name, value, err);
}

/* -- the rule without a model -------------------------------------------------------------------------------------- */

/* Reports a fault of the table. */
__attribute__((format(printf, 3, 4))) static xsm_status fault(const xsmi_optimizer_trial *t, xsm_error *err,
                                                              const char *format, ...)
{
    char what[240];
    va_list args;
    va_start(args, format);
    xsmi_format_line(what, sizeof what, format, args);
    va_end(args);
    return xsmi_fail(err, XSM_ERROR_DATA, "optimizer '%s': %s", t->ops->name, what);
}

/* Weights and accumulators, each with a guard before and after. */
enum { WEIGHTS = 300, GUARDED = WEIGHTS + 2, ZERO_EVERY = 5 };
#define GUARD 12345.0f

typedef struct piece {
    float numbers[1 + XSM_OPTIMIZER_ACCUMULATORS][GUARDED];
} piece;

/* The memory of the trial: too large for a host's stack. */
typedef struct desk {
    piece whole, cut, before;            /* steps by rule() */
    piece scaled, listed, want;          /* a step by scaled() */
    float sums[WEIGHTS], given[WEIGHTS]; /* a step's gradients, and those that rule() has got */
    float values[WEIGHTS], in_list[WEIGHTS];
    uint32_t index[WEIGHTS];
} desk;

static float number(uint64_t seed, size_t i)
{
    xsmi_stream stream;
    xsmi_stream_start(&stream, seed, XSMI_STREAM_CHECK, i);
    return (float)(2 * xsmi_stream_uniform(&stream) - 1);
}

static void start(const xsm_optimizer *o, piece *p)
{
    for (uint32_t m = 0; m <= o->ops.accumulators; m++) {
        const float initial = m > 0 && o->ops.initial ? o->ops.initial(o->state, m - 1) : 0;
        for (size_t i = 0; i < GUARDED; i++) {
            p->numbers[m][i] = i == 0 || i == GUARDED - 1 ? GUARD : m == 0 ? number(1, i) : initial;
        }
    }
}

static float *accumulators_at(piece *p, uint32_t count, size_t i, float **accumulators)
{
    for (uint32_t m = 0; m < count; m++) {
        accumulators[m] = &p->numbers[m + 1][i + 1];
    }
    return &p->numbers[0][i + 1];
}

static void call_rule(const xsm_optimizer *o, piece *p, const float *sums, size_t first, size_t n, const xsm_step *step)
{
    float *accumulators[XSM_OPTIMIZER_ACCUMULATORS];
    float *weights = accumulators_at(p, o->ops.accumulators, first, accumulators);
    o->ops.rule(o->state, weights, accumulators, sums + first, n, step);
}

static void call_scaled(const xsm_optimizer *o, piece *p, const xsm_scaled_gradient *g, const xsm_step *step)
{
    float *accumulators[XSM_OPTIMIZER_ACCUMULATORS];
    float *weights = accumulators_at(p, o->ops.accumulators, 0, accumulators);
    o->ops.scaled(o->state, weights, accumulators, g, step);
}

static bool same(const xsm_optimizer *o, const piece *a, const piece *b)
{
    return memcmp(a->numbers, b->numbers, (1 + o->ops.accumulators) * sizeof a->numbers[0]) == 0;
}

/* Whether the sum of a weight is 0 in a step. */
static bool is_zero(uint64_t step, size_t i)
{
    return i % ZERO_EVERY == step % ZERO_EVERY;
}

/* Checks that a step has not changed other numbers, and that all are finite. */
static xsm_status check_numbers(const xsmi_optimizer_trial *t, const xsm_optimizer *o, uint64_t step,
                                const piece *before, const piece *after, xsm_error *err)
{
    const bool changes_at_zero = (o->ops.flags & XSM_OPTIMIZER_CHANGES_AT_ZERO) != 0;
    for (uint32_t m = 0; m <= o->ops.accumulators; m++) {
        const float *was = before->numbers[m], *is = after->numbers[m];
        if (is[0] != GUARD || is[GUARDED - 1] != GUARD) {
            return fault(t, err, "rule() writes beyond the n weights or their accumulators");
        }
        for (size_t i = 0; i < WEIGHTS; i++) {
            if (!changes_at_zero && is_zero(step, i) && memcmp(&was[i + 1], &is[i + 1], sizeof *is) != 0) {
                return fault(
                    t, err, "a sum of 0 changes %s from %g to %g; with XSM_OPTIMIZER_CHANGES_AT_ZERO this is accepted",
                    m == 0 ? "a weight" : o->ops.accumulator_names[m - 1], (double)was[i + 1], (double)is[i + 1]);
            }
            if (!isfinite(is[i + 1])) {
                return fault(t, err, "%s is not finite after a step",
                             m == 0 ? "a weight" : o->ops.accumulator_names[m - 1]);
            }
            if (m > 0 && is[i + 1] < 0 && !(o->ops.signed_accumulators >> (m - 1) & 1)) {
                return fault(t, err, "%s is below 0, and signed_accumulators does not have it",
                             o->ops.accumulator_names[m - 1]);
            }
        }
    }
    return XSM_OK;
}

/* Compares scaled() with rule(): on all weights, or on those of a list in no order. */
static xsm_status check_scaled(const xsmi_optimizer_trial *t, const xsm_optimizer *o, desk *d, const xsm_step *step,
                               xsm_error *err)
{
    const float factor = 0.37f;
    d->scaled = d->listed = d->want = d->before;
    for (size_t i = 0; i < WEIGHTS; i++) {
        d->values[i] = number(2, i);
        d->sums[i] = factor * d->values[i];
        d->index[i] = (uint32_t)(i * 7 % WEIGHTS); /* each index once, as 7 does not divide 300 */
    }
    call_rule(o, &d->want, d->sums, 0, WEIGHTS, step);
    xsm_scaled_gradient g = {sizeof g, d->values, NULL, WEIGHTS, factor, 0};
    call_scaled(o, &d->scaled, &g, step);
    if (!same(o, &d->scaled, &d->want)) {
        return fault(t, err, "scaled() gives other numbers than rule()");
    }
    for (size_t i = 0; i < WEIGHTS; i++) {
        d->in_list[i] = d->values[d->index[i]];
    }
    const size_t half = WEIGHTS / 2; /* in two calls, the second of which is short of whole vectors */
    for (size_t first = 0, n = half + 3; first < WEIGHTS; first += n, n = WEIGHTS - first) {
        xsm_scaled_gradient part = {sizeof part, d->in_list + first, d->index + first, n, factor, 0};
        call_scaled(o, &d->listed, &part, step);
    }
    return same(o, &d->listed, &d->want) ? XSM_OK
                                         : fault(t, err, "scaled() with a list gives other numbers than rule()");
}

static xsm_status check_step(const xsmi_optimizer_trial *t, const xsm_optimizer *o, uint64_t s, desk *d, xsm_error *err)
{
    const xsm_step step = {sizeof step, t->options->eta, s, 2 * s - 1};
    for (size_t i = 0; i < WEIGHTS; i++) {
        d->sums[i] = d->given[i] = is_zero(s, i) ? 0 : number(2 + s, i);
    }
    d->before = d->cut = d->whole;
    call_rule(o, &d->whole, d->given, 0, WEIGHTS, &step);
    if (memcmp(d->sums, d->given, sizeof d->sums) != 0) {
        return fault(t, err, "rule() changes the sums");
    }
    XSMI_TRY(check_numbers(t, o, s, &d->before, &d->whole, err));
    for (size_t first = 0, n = 0; first < WEIGHTS; first += n) {
        n = n + 1 < WEIGHTS - first ? n + 1 : WEIGHTS - first;
        call_rule(o, &d->cut, d->sums, first, n, &step);
    }
    if (!same(o, &d->cut, &d->whole)) {
        return fault(t, err, "rule() gives other numbers when the weights come in pieces");
    }
    return o->ops.scaled ? check_scaled(t, o, d, &step, err) : XSM_OK;
}

/* Checks that row_rate() changes nothing for a mean of 0, and gives finite numbers. */
static xsm_status check_rate(const xsmi_optimizer_trial *t, const xsm_optimizer *o, xsm_error *err)
{
    float was[XSM_OPTIMIZER_ACCUMULATORS], numbers[XSM_OPTIMIZER_ACCUMULATORS], *at[XSM_OPTIMIZER_ACCUMULATORS];
    for (uint32_t m = 0; m < o->ops.accumulators; m++) {
        numbers[m] = o->ops.initial ? o->ops.initial(o->state, m) : 0;
        at[m] = &numbers[m];
    }
    for (uint64_t s = 1; s <= 2 * XSMI_OPTIMIZER_TRIAL_STEPS; s++) {
        const xsm_step step = {sizeof step, t->options->eta, s, 2 * s - 1};
        const float mean = s % 2 ? 0 : 1 / (float)s;
        memcpy(was, numbers, sizeof was);
        const float rate = o->ops.row_rate(o->state, at, mean, &step);
        for (uint32_t m = 0; m < o->ops.accumulators; m++) {
            if (!isfinite(numbers[m]) || !isfinite(rate) || (mean == 0 && numbers[m] != was[m]) ||
                (numbers[m] < 0 && !(o->ops.signed_accumulators >> m & 1))) {
                return fault(t, err, "row_rate() makes %s %g of %g, and the rate %g, by the mean %g",
                             o->ops.accumulator_names[m], (double)numbers[m], (double)was[m], (double)rate,
                             (double)mean);
            }
        }
    }
    return XSM_OK;
}

/* Tests the rule of a bound optimizer without a model. */
static xsm_status try_rule(const xsmi_optimizer_trial *t, const xsm_optimizer *o, xsm_error *err)
{
    if (o->ops.row_rate) {
        return check_rate(t, o, err);
    }
    desk *d;
    XSMI_TRY(xsmi_array_new(t->context, &d, 1, sizeof *d, "the trial of an optimizer", err));
    start(o, &d->whole);
    d->before = d->whole;
    xsm_status status = check_numbers(t, o, 0, &d->before, &d->whole, err);
    for (uint64_t s = 1; status == XSM_OK && s <= XSMI_OPTIMIZER_TRIAL_STEPS; s++) {
        status = check_step(t, o, s, d, err);
    }
    xsmi_release(t->context, d, 1, sizeof *d);
    return status;
}

/* -- steps on models ----------------------------------------------------------------------------------------------- */

/* A model with its optimizer, and an estimator for the gradients. */
typedef struct rig {
    xsm_context *context;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
} rig;

typedef struct form {
    const char *estimator, *option, *value; /* option NULL = none */
    uint64_t batch;
    int32_t layout;
    bool embedding;
} form;

static void rig_free(rig *r)
{
    xsm_gradient_free(r->gradient);
    xsm_optimizer_free(r->optimizer);
    xsm_estimator_free(r->estimator);
    xsm_model_free(r->model);
    xsm_context_free(r->context);
    *r = (rig){.context = NULL};
}

static xsm_status make_model(const xsmi_optimizer_trial *t, const form *f, rig *r, xsm_error *err)
{
    const uint32_t classes = t->options->classes, features = t->options->features;
    if (f->embedding) {
        return xsm_model_new_embedding(r->context, features, HIDDEN, classes, NULL, &r->model, err);
    }
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = 1;
    options.layout = f->layout;
    return xsm_model_new_linear(r->context, features, classes, &options, &r->model, err);
}

static xsm_status make_optimizer(const xsmi_optimizer_trial *t, xsm_context *ctx, xsm_optimizer **out, xsm_error *err)
{
    XSMI_TRY(xsm_optimizer_new_from(ctx, t->ops, out, err));
    return xsmi_trial_set(ctx, t->options->set, set_option, *out, err);
}

static xsm_status fill_rig(const xsmi_optimizer_trial *t, const form *f, rig *r, xsm_error *err)
{
    XSMI_TRY(make_model(t, f, r, err));
    XSMI_TRY(xsmi_go_on(t->context, err));
    XSMI_TRY(xsm_estimator_new(r->context, f->estimator, &r->estimator, err));
    if (f->option) {
        XSMI_TRY(xsm_estimator_set(r->estimator, f->option, f->value, err));
    }
    XSMI_TRY(xsm_estimator_bind(r->estimator, r->model, t->data, err));
    XSMI_TRY(make_optimizer(t, r->context, &r->optimizer, err));
    XSMI_TRY(xsm_optimizer_bind(r->optimizer, r->model, err));
    return xsm_gradient_new(r->context, &r->gradient, err);
}

/* Makes a rig, which the caller frees, also on failure. `ctx` is borrowed; NULL: a new context with `threads`
 * threads. */
static xsm_status rig_new(const xsmi_optimizer_trial *t, const form *f, xsm_context *ctx, uint32_t threads, rig *r,
                          xsm_error *err)
{
    *r = (rig){.context = NULL};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    if (ctx) {
        r->context = xsmi_context_retain(ctx);
    } else {
        XSMI_TRY(xsmi_trial_child(t->context, &options, &r->context, err));
    }
    return fill_rig(t, f, r, err);
}

static xsm_batch batch_at(const xsmi_optimizer_trial *t, const form *f, uint64_t step)
{
    return xsm_batch_range(t->data, step * f->batch % (ROWS - f->batch + 1), f->batch);
}

static xsm_status run_steps(const xsmi_optimizer_trial *t, const form *f, rig *r, uint64_t first, uint64_t count,
                            xsm_error *err)
{
    for (uint64_t step = first; step < first + count; step++) {
        xsm_batch batch = batch_at(t, f, step);
        XSMI_TRY(xsmi_go_on(t->context, err));
        XSMI_TRY(xsm_estimator_gradient(r->estimator, &batch, t->options->eta, r->gradient, err));
        XSMI_TRY(xsmi_go_on(t->context, err));
        XSMI_TRY(xsm_optimizer_apply(r->optimizer, &batch, r->gradient, t->options->eta, err));
    }
    return XSM_OK;
}

/* Whether two matrices of one shape have the same bits, in any layout; false if the suite was cancelled. */
static bool same_weights(const xsmi_optimizer_trial *t, const xsmi_weights *a, const xsmi_weights *b)
{
    bool equal = !a->bias || memcmp(a->bias, b->bias, a->rows * sizeof *a->bias) == 0;
    for (uint32_t k = 0; equal && k < a->rows; k++) {
        size_t of_a, of_b;
        const float *x = xsmi_weights_row(a, k, &of_a), *y = xsmi_weights_row(b, k, &of_b);
        equal = !xsmi_poll(t->context);
        for (uint32_t j = 0; equal && j < a->features; j++) {
            equal = memcmp(x + j * of_a, y + j * of_b, sizeof *x) == 0;
        }
    }
    return equal;
}

static bool same_models(const xsmi_optimizer_trial *t, const xsm_model *a, const xsm_model *b)
{
    const xsmi_weights *vectors = xsmi_model_vectors(a);
    return same_weights(t, &a->w, &b->w) && (!vectors || same_weights(t, vectors, xsmi_model_vectors(b)));
}

static xsm_status check_finite(const xsmi_optimizer_trial *t, const xsm_model *m, xsm_error *err)
{
    for (uint32_t k = 0; k < m->classes; k++) {
        XSMI_TRY(xsmi_go_on(t->context, err));
        size_t step;
        const float *row = xsmi_weights_row(&m->w, k, &step);
        for (uint32_t j = 0; j < m->features; j++) {
            if (!isfinite(row[j * step])) {
                return fault(t, err, "weights are not finite after %d steps", STEPS);
            }
        }
    }
    return XSM_OK;
}

/* Compares the same steps on one thread and on several. */
static xsm_status check_threads(const xsmi_optimizer_trial *t, const form *f, xsm_error *err)
{
    rig one, several = {.context = NULL};
    xsm_status status = rig_new(t, f, NULL, 1, &one, err);
    status = status == XSM_OK ? run_steps(t, f, &one, 0, STEPS, err) : status;
    status = status == XSM_OK ? check_finite(t, one.model, err) : status;
    status = status == XSM_OK ? rig_new(t, f, NULL, THREADS, &several, err) : status;
    status = status == XSM_OK ? run_steps(t, f, &several, 0, STEPS, err) : status;
    if (status == XSM_OK && !same_models(t, one.model, several.model)) {
        status = fault(t, err, "estimator '%s', batches of %llu: the weights depend on the number of threads",
                       f->estimator, (unsigned long long)f->batch);
    }
    rig_free(&several);
    rig_free(&one);
    return status;
}

/* Copies weights and accumulators. */
static void copy_state(const rig *from, rig *to)
{
    xsm_model *a = from->model, *b = to->model;
    memcpy(b->w.weight, a->w.weight, a->w.weight_count * sizeof *a->w.weight);
    if (a->w.bias) {
        memcpy(b->w.bias, a->w.bias, a->classes * sizeof *a->w.bias);
    }
    const xsmi_weights *vectors = xsmi_model_vectors(a);
    if (vectors) {
        memcpy(xsmi_model_vectors(b)->weight, vectors->weight, vectors->weight_count * sizeof *vectors->weight);
    }
    xsm_state_tensor saved, restored;
    xsmi_accumulator_kind kind;
    for (uint32_t i = 0; xsmi_optimizer_tensor(from->optimizer, i, &saved, &kind); i++) {
        xsmi_optimizer_tensor(to->optimizer, i, &restored, &kind);
        memcpy(restored.data, saved.data, (size_t)(saved.lines * saved.width) * sizeof(float));
    }
    to->optimizer->steps = from->optimizer->steps;
    to->estimator->position = from->estimator->position;
}

static xsm_status check_resumed(const xsmi_optimizer_trial *t, const form *f, xsm_error *err)
{
    rig whole, resumed = {.context = NULL};
    xsm_status status = rig_new(t, f, NULL, 1, &whole, err);
    status = status == XSM_OK ? run_steps(t, f, &whole, 0, STEPS, err) : status;
    status = status == XSM_OK ? rig_new(t, f, NULL, 1, &resumed, err) : status;
    if (status == XSM_OK) {
        copy_state(&whole, &resumed);
        status = run_steps(t, f, &whole, STEPS, STEPS, err);
    }
    status = status == XSM_OK ? run_steps(t, f, &resumed, STEPS, STEPS, err) : status;
    if (status == XSM_OK && !same_models(t, whole.model, resumed.model)) {
        status =
            fault(t, err,
                  "with weights and accumulators restored, the next steps are others; all that a rule keeps must be in "
                  "its accumulators");
    }
    rig_free(&resumed);
    rig_free(&whole);
    return status;
}

/* Compares steps with the same gradients on both layouts, with sparse and with dense rows. */
static xsm_status check_forms(const xsmi_optimizer_trial *t, const form *f, xsm_error *err)
{
    enum { RIGS = 4 };
    rig rigs[RIGS] = {{.context = NULL}};
    xsm_status status = XSM_OK;
    for (int i = 0; i < RIGS && status == XSM_OK; i++) {
        form own = *f;
        own.layout = i & 1 ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
        status = rig_new(t, &own, NULL, 1, &rigs[i], err);
    }
    for (uint64_t step = 0; step < STEPS && status == XSM_OK; step++) {
        status = xsmi_go_on(t->context, err);
        if (status != XSM_OK) {
            break;
        }
        xsm_batch sparse = batch_at(t, f, step), dense = sparse;
        dense.values = t->dense + (size_t)sparse.first * t->options->features;
        dense.stride = dense.features = t->options->features;
        status = xsm_estimator_gradient(rigs[0].estimator, &sparse, t->options->eta, rigs[0].gradient, err);
        for (int i = 0; i < RIGS && status == XSM_OK; i++) {
            const xsm_batch *rows = i & 2 ? &dense : &sparse;
            status = xsmi_go_on(t->context, err);
            status = status != XSM_OK
                         ? status
                         : xsm_optimizer_apply(rigs[i].optimizer, rows, rigs[0].gradient, t->options->eta, err);
            if (status == XSM_OK && !same_models(t, rigs[0].model, rigs[i].model)) {
                status = fault(t, err, "estimator '%s', batches of %llu: the weights depend on the %s", f->estimator,
                               (unsigned long long)f->batch,
                               i == 1   ? "layout of the model"
                               : i == 2 ? "form of the rows (dense or sparse)"
                                        : "layout and the form of the rows");
            }
        }
    }
    for (int i = 0; i < RIGS; i++) {
        rig_free(&rigs[i]);
    }
    return status;
}

/* Compares a trainer's windows of single steps with the same steps taken one by one. */
static xsm_status check_windows(const xsmi_optimizer_trial *t, xsm_error *err)
{
    const form f = {"ove", "negatives", "2", 1, XSM_LAYOUT_CLASS_MAJOR, false};
    rig alone, trained = {.context = NULL};
    xsm_trainer *trainer = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = options.batch = 1;
    options.eta = t->options->eta;
    options.order = XSM_ORDER_FILE;
    xsm_status status = rig_new(t, &f, NULL, 1, &alone, err);
    status = status == XSM_OK ? run_steps(t, &f, &alone, 0, ROWS, err) : status;
    status = status == XSM_OK ? rig_new(t, &f, NULL, THREADS, &trained, err) : status;
    if (status == XSM_OK) {
        status = xsm_trainer_new(trained.context, trained.model, t->data, trained.estimator, trained.optimizer,
                                 &options, &trainer, err);
    }
    status = status == XSM_OK ? xsm_trainer_run(trainer, err) : status;
    if (status == XSM_OK && !same_models(t, alone.model, trained.model)) {
        status = fault(t, err, "a trainer's single steps give other weights than the same steps one by one");
    }
    xsm_trainer_free(trainer);
    rig_free(&trained);
    rig_free(&alone);
    return status;
}

static const form forms[] = {
    {"softmax", NULL, NULL, 1, 0, false},   {"softmax", NULL, NULL, 30, 0, false},
    {"ove", "negatives", "3", 1, 0, false}, {"ove", "negatives", "3", 30, 0, false},
    {"margin", NULL, NULL, 7, 0, false},    {"softmax", NULL, NULL, 30, 0, true},
    {"ove", "negatives", "3", 7, 0, true},  {"sampled-softmax", "shared", "yes", 30, 0, true},
};
enum { FORMS = sizeof forms / sizeof *forms };

static xsm_status check_models(const xsmi_optimizer_trial *t, xsm_error *err)
{
    const bool equal = !(t->ops->flags & (XSM_OPTIMIZER_LINEAR | XSM_OPTIMIZER_CHANGES_AT_ZERO));
    for (size_t i = 0; i < FORMS; i++) {
        form f = forms[i];
        if (equal && !f.embedding) {
            XSMI_TRY(check_forms(t, &f, err));
        }
        for (f.layout = 0; f.layout <= (f.embedding ? 0 : XSM_LAYOUT_FEATURE_MAJOR); f.layout++) {
            XSMI_TRY(check_threads(t, &f, err));
            XSMI_TRY(check_resumed(t, &f, err));
        }
        xsmi_advance(t->context, 1);
    }
    return check_windows(t, err);
}

/* -- the whole ----------------------------------------------------------------------------------------------------- */

static xsm_status use_once(void *state, xsm_context *ctx, xsm_error *err)
{
    const form f = {"softmax", NULL, NULL, 7, XSM_LAYOUT_CLASS_MAJOR, true};
    rig r;
    xsm_status status = rig_new(state, &f, ctx, 1, &r, err);
    status = status == XSM_OK ? run_steps(state, &f, &r, 0, 2, err) : status;
    rig_free(&r);
    return status;
}

static xsm_status check_table(const xsmi_optimizer_trial *t, xsm_error *err)
{
    const form f = {"softmax", NULL, NULL, 1, XSM_LAYOUT_CLASS_MAJOR, false};
    rig r;
    xsm_status status = rig_new(t, &f, t->context, 1, &r, err);
    if (status == XSM_OK && !r.optimizer->linear) {
        status = try_rule(t, r.optimizer, err);
    }
    rig_free(&r);
    XSMI_TRY(status);
    XSMI_TRY(check_models(t, err));
    return xsmi_trial_allocations(t->context, use_once, (void *)(uintptr_t)t, t->ops->name, err);
}

static xsm_status make_rows(xsmi_optimizer_trial *t, xsm_error *err)
{
    const uint32_t features = t->options->features;
    const xsmi_trial_shape shape = {ROWS, features, t->options->classes, true, false};
    XSMI_TRY(xsmi_trial_data(t->context, &shape, &t->data, err));
    XSMI_TRY(xsmi_zeros_new(t->context, &t->dense, (uint64_t)ROWS * features, sizeof *t->dense,
                            "the trial of an optimizer", err));
    for (uint64_t i = 0; i < ROWS; i++) {
        const xsmi_features x = xsmi_dataset_features(t->data, i);
        for (size_t j = 0; j < x.count; j++) {
            t->dense[i * features + x.index[j]] = x.values[j];
        }
    }
    return XSM_OK;
}

xsm_status xsm_optimizer_check(xsm_context *context, const xsm_optimizer_ops *ops,
                               const xsm_optimizer_check_options *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {ops, "the table"});
    xsm_optimizer_check_options o = XSM_OPTIMIZER_CHECK_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_optimizer_check_options, &o, given, err));
    o.classes = o.classes ? o.classes : XSMI_DEFAULT(xsm_optimizer_check_options, classes);
    o.features = o.features ? o.features : XSMI_DEFAULT(xsm_optimizer_check_options, features);
    o.eta = o.eta == 0 ? XSMI_DEFAULT(xsm_optimizer_check_options, eta) : o.eta;
    if (o.classes < 8 || o.classes > 1000 || o.features > 10000 || !(o.eta > 0 && o.eta < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "accepted are 8 to 1000 classes, 1 to 10000 features and a finite learning rate above 0");
    }
    xsmi_optimizer_trial t = {.ops = ops, .options = &o};
    XSMI_TRY(xsmi_context_acquire(context, &t.context, err));
    xsmi_activity activity;
    xsmi_begin_cover(&activity, t.context, "trying an optimizer", "problems", FORMS);
    xsm_optimizer *once = NULL; /* refuses a table that is not complete, before it is used */
    xsm_status status = make_optimizer(&t, t.context, &once, err);
    xsm_optimizer_free(once);
    status = status == XSM_OK ? make_rows(&t, err) : status;
    status = status == XSM_OK ? check_table(&t, err) : status;
    status = xsmi_trial_status(&activity, t.context, status, err);
    xsmi_release(t.context, t.dense, (size_t)ROWS * o.features, sizeof *t.dense);
    xsm_dataset_free(t.data);
    xsm_context_free(t.context);
    return status;
}
