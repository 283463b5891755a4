/* The trial of an optimizer's rule on weights without a model, and how faults are reported. */
#include "check/optimizer_check.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

xsm_status xsmi_optimizer_fault(const xsmi_optimizer_trial *t, xsm_error *err, const char *format, ...)
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
            return xsmi_optimizer_fault(t, err, "rule() writes beyond the n weights or their accumulators");
        }
        for (size_t i = 0; i < WEIGHTS; i++) {
            if (!changes_at_zero && is_zero(step, i) && memcmp(&was[i + 1], &is[i + 1], sizeof *is) != 0) {
                return xsmi_optimizer_fault(
                    t, err, "a sum of 0 changes %s from %g to %g; with XSM_OPTIMIZER_CHANGES_AT_ZERO this is accepted",
                    m == 0 ? "a weight" : o->ops.accumulator_names[m - 1], (double)was[i + 1], (double)is[i + 1]);
            }
            if (!isfinite(is[i + 1])) {
                return xsmi_optimizer_fault(t, err, "%s is not finite after a step",
                                            m == 0 ? "a weight" : o->ops.accumulator_names[m - 1]);
            }
            if (m > 0 && is[i + 1] < 0 && !(o->ops.signed_accumulators >> (m - 1) & 1)) {
                return xsmi_optimizer_fault(t, err, "%s is below 0, and signed_accumulators does not have it",
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
        return xsmi_optimizer_fault(t, err, "scaled() gives other numbers than rule()");
    }
    for (size_t i = 0; i < WEIGHTS; i++) {
        d->in_list[i] = d->values[d->index[i]];
    }
    const size_t half = WEIGHTS / 2; /* in two calls, the second of which is short of whole vectors */
    for (size_t first = 0, n = half + 3; first < WEIGHTS; first += n, n = WEIGHTS - first) {
        xsm_scaled_gradient part = {sizeof part, d->in_list + first, d->index + first, n, factor, 0};
        call_scaled(o, &d->listed, &part, step);
    }
    return same(o, &d->listed, &d->want)
               ? XSM_OK
               : xsmi_optimizer_fault(t, err, "scaled() with a list gives other numbers than rule()");
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
        return xsmi_optimizer_fault(t, err, "rule() changes the sums");
    }
    XSMI_TRY(check_numbers(t, o, s, &d->before, &d->whole, err));
    for (size_t first = 0, n = 0; first < WEIGHTS; first += n) {
        n = n + 1 < WEIGHTS - first ? n + 1 : WEIGHTS - first;
        call_rule(o, &d->cut, d->sums, first, n, &step);
    }
    if (!same(o, &d->cut, &d->whole)) {
        return xsmi_optimizer_fault(t, err, "rule() gives other numbers when the weights come in pieces");
    }
    return o->ops.scaled ? check_scaled(t, o, d, &step, err) : XSM_OK;
}

/* row_rate() changes nothing for a mean of 0, and gives finite numbers. */
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
                return xsmi_optimizer_fault(t, err, "row_rate() makes %s %g of %g, and the rate %g, by the mean %g",
                                            o->ops.accumulator_names[m], (double)numbers[m], (double)was[m],
                                            (double)rate, (double)mean);
            }
        }
    }
    return XSM_OK;
}

xsm_status xsmi_optimizer_try_rule(const xsmi_optimizer_trial *t, const xsm_optimizer *o, xsm_error *err)
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
