/* What the parts of an estimator's trial share: making the estimator, its gradients, and reporting its faults. */
#include "check/estimator_check.h"
#include "estimator/sifted.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

xsm_status xsmi_estimator_fault(const xsmi_estimator_trial *t, xsm_error *err, const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    xsmi_format_line(what, sizeof what, format, args);
    va_end(args);
    return xsmi_fail(err, XSM_ERROR_DATA, "estimator '%s', K = %u, %s rows of %u features%s%s: %s", t->ops->name,
                     t->shape.classes, t->shape.sparse ? "sparse" : "dense", t->shape.features,
                     t->shape.several ? " with several labels" : "", t->bias ? ", with a bias" : "", what);
}

static xsm_status set_option(void *object, const char *name, const char *value, xsm_error *err)
{
    return xsm_estimator_set(object, name, value, err);
}

xsm_status xsmi_estimator_trial_make(const xsmi_estimator_trial *t, xsm_context *ctx, xsm_estimator **out,
                                     xsm_error *err)
{
    xsm_estimator *e;
    XSMI_TRY(xsm_estimator_new_from(ctx, t->ops, &e, err));
    xsm_status status = xsmi_trial_set(ctx, t->options->set, set_option, e, err);
    if (status == XSM_OK) {
        status = xsm_estimator_bind(e, t->model, t->data, err);
    }
    if (status != XSM_OK) {
        xsm_estimator_free(e);
        return status;
    }
    *out = e;
    return XSM_OK;
}

/* Sets weights up to `size`, and biases up to `bias` on a grid of 2^-16, so that small changes of biases are exact. */
xsm_status xsmi_estimator_trial_fill(const xsmi_estimator_trial *t, double size, double bias, uint64_t seed,
                                     xsm_error *err)
{
    xsm_parameters w = XSM_PARAMETERS_INIT;
    xsmi_stream stream;
    XSMI_TRY(xsm_model_get_parameters(t->model, &w, err));
    xsmi_stream_start(&stream, seed, XSMI_STREAM_CHECK, t->shape.classes);
    for (uint32_t k = 0; k < t->shape.classes; k++) {
        XSMI_TRY(xsmi_go_on(t->context, err));
        for (uint32_t j = 0; j < t->shape.features; j++) {
            w.weight[k * w.class_step + j * w.feature_step] = (float)(size * (2 * xsmi_stream_uniform(&stream) - 1));
        }
        if (t->bias) {
            w.bias[k] = (float)(floor(0x1p16 * bias * (2 * xsmi_stream_uniform(&stream) - 1)) * 0x1p-16);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_trial_run(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g,
                                    const xsmi_trial_run *how, xsm_error *err)
{
    const uint64_t first = how->first, count = how->count;
    const int junk = how->junk;
    XSMI_TRY(xsmi_go_on(t->context, err));
    if (how->anew) {
        XSMI_TRY(xsm_estimator_bind(e, t->model, t->data, err));
    }
    xsm_batch rows = xsm_batch_range(t->data, first, count);
    XSMI_TRY(xsmi_estimator_reserve(e, g, count + 1, 2, false, err));
    xsmi_gradient_fill(g, count + 1, junk);
    for (uint64_t i = 0; i <= count; i++) {
        g->example[i] = xsmi_example_at(e, first + (i < count ? i : 0), XSMI_TRIAL_FIRST + first + i);
    }
    if (xsmi_gradient_is_sifted(g)) {
        XSMI_TRY(xsmi_sift(e, g, &rows, false, err));
    } else if (xsmi_gradient_is_dense(g)) {
        XSMI_TRY(xsm_model_score_range(t->model, &rows, 0, t->shape.classes, g->coefficients, g->width, err));
    } else {
        xsmi_estimator_select(e, g, 0, count);
        if (!xsmi_estimator_scores(e, g, 0, count, t->model->w.alpha, NULL)) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED, "scores of a trial are not finite");
        }
    }
    for (uint64_t i = 0; i < count; i += how->split) {
        xsmi_outcome outcome = {.finite = true};
        uint64_t some = how->split < count - i ? how->split : count - i;
        for (uint64_t at = i; e->ops.prefetch && at < i + some; at++) {
            e->ops.prefetch(e->state, &g->example[at]);
        }
        const xsmi_piece piece = {i, some, how->batch, t->options->eta, 0};
        xsmi_estimator_coefficients(e, g, &piece, &outcome);
    }
    g->examples = count;
    if (!xsmi_gradient_is_filled(g, count, junk)) {
        return xsmi_estimator_fault(t, err, "gradient() writes beyond its coefficients");
    }
    if (!xsmi_gradient_scratch_is_filled(g, 1, junk)) {
        return xsmi_estimator_fault(t, err, "gradient() writes beyond its scratch memory");
    }
    return XSM_OK;
}

static bool same(const void *a, const void *b, uint64_t count, size_t size)
{
    return memcmp(a, b, (size_t)count * size) == 0;
}

/* Whether example i of a gradient has the same bits as that of another. */
static bool same_example(const xsm_gradient *a, const xsm_gradient *b, uint64_t i)
{
    const xsmi_entries own = xsmi_gradient_example_entries(a, i), other = xsmi_gradient_example_entries(b, i);
    return own.count == other.count &&
           (!own.classes || same(own.classes, other.classes, own.count, sizeof *own.classes)) &&
           same(own.coefficients, other.coefficients, own.count, sizeof *own.coefficients) &&
           same(a->losses + i, b->losses + i, 1, sizeof *a->losses) &&
           (!own.shrinks || same(own.shrinks, other.shrinks, own.count, sizeof *own.shrinks));
}

xsm_status xsmi_estimator_trial_same(const xsmi_estimator_trial *t, const xsm_gradient *a, const xsm_gradient *b,
                                     const char *when, xsm_error *err)
{
    for (uint64_t i = 0; i < a->examples; i++) {
        if (!same_example(a, b, i)) {
            return xsmi_estimator_fault(t, err, "the gradient of row %u is another %s", (unsigned)i, when);
        }
    }
    return XSM_OK;
}

/* Checks the conditions that every gradient must meet. */
xsm_status xsmi_estimator_trial_numbers(const xsmi_estimator_trial *t, const xsm_gradient *g, bool finite,
                                        xsm_error *err)
{
    for (uint64_t i = 0; i < g->examples; i++) {
        double sum = 0, size = 0;
        const xsmi_entries e = xsmi_gradient_example_entries(g, i);
        for (uint64_t j = 0; j < e.count; j++) {
            double c = (double)e.coefficients[j];
            if (finite && !isfinite(c)) {
                return xsmi_estimator_fault(t, err, "a coefficient of row %u is %g", (unsigned)i, c);
            }
            if (e.shrinks && finite && !(e.shrinks[j] > 0 && e.shrinks[j] <= 1)) {
                return xsmi_estimator_fault(t, err, "a shrink of row %u is %g", (unsigned)i, e.shrinks[j]);
            }
            sum += c;
            size += fabs(c);
        }
        if (finite && !isfinite(g->losses[i])) {
            return xsmi_estimator_fault(t, err, "the loss of row %u is %g", (unsigned)i, g->losses[i]);
        }
        if ((t->options->promises & XSM_ESTIMATOR_CHECK_ZERO_SUM) && finite && !(fabs(sum) <= 1e-5 * size)) {
            return xsmi_estimator_fault(t, err, "the coefficients of row %u sum to %g, their sizes to %g", (unsigned)i,
                                        sum, size);
        }
    }
    return XSM_OK;
}
