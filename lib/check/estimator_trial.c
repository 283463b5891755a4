/* What the parts of an estimator's trial share: making the estimator, its gradients, and reporting its faults. */
#include "check/estimator.h"
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
    XSMI_TRY(xsm_model_parameters(t->model, &w, err));
    xsmi_stream_start(&stream, seed, XSMI_STREAM_CHECK, t->shape.classes);
    for (uint32_t k = 0; k < t->shape.classes; k++) {
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
    if (how->anew) {
        XSMI_TRY(xsm_estimator_bind(e, t->model, t->data, err));
    }
    xsm_batch rows = xsm_batch_range(t->data, first, count);
    XSMI_TRY(xsmi_estimator_reserve(e, g, count + 1, 2, false, err));
    size_t places = (size_t)((count + 1) * g->width);
    memset(g->coefficients, junk, places * sizeof *g->coefficients);
    memset(g->losses, junk, (size_t)(count + 1) * sizeof *g->losses);
    if (g->work.scratch) {
        memset(g->work.scratch, junk, 2 * g->work.scratch_each);
    }
    for (uint64_t i = 0; i <= count; i++) {
        g->example[i] = xsmi_example_at(e, first + (i < count ? i : 0), XSMI_TRIAL_FIRST + first + i);
    }
    if (g->form == XSMI_GRADIENT_SIFTED) {
        g->listed = g->clean = 0; /* the memory is junk now */
        XSMI_TRY(xsmi_sift(e, g, &rows, err));
    } else if (xsmi_gradient_is_exact(g)) {
        XSMI_TRY(xsm_model_score_range(t->model, &rows, 0, t->shape.classes, g->coefficients, g->width, err));
    } else {
        memset(g->work.scores, junk, places * sizeof *g->work.scores);
        memset(g->classes, junk, places * sizeof *g->classes);
        xsmi_estimator_select(e, g, 0, count);
        if (!xsmi_estimator_scores(e, g, 0, count, t->model->alpha, NULL)) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED, "scores of a trial are not finite");
        }
    }
    if (g->proximal) {
        memset(g->shrinks, junk, places * sizeof *g->shrinks);
    }
    for (uint64_t i = 0; i < count; i += how->split) {
        xsmi_outcome outcome = {.finite = true};
        uint64_t some = how->split < count - i ? how->split : count - i;
        for (uint64_t at = i; e->ops.fetch && at < i + some; at++) {
            e->ops.fetch(e->state, &g->example[at]);
        }
        const xsmi_piece piece = {i, some, how->batch, t->options->eta, 0};
        xsmi_estimator_coefficients(e, g, &piece, &outcome);
    }
    g->examples = count;
    const unsigned char *behind = (const unsigned char *)(g->coefficients + count * g->width);
    for (size_t j = 0; j < g->width * sizeof *g->coefficients; j++) {
        if (behind[j] != (unsigned char)junk) {
            return xsmi_estimator_fault(t, err, "gradient() writes beyond its coefficients");
        }
    }
    for (size_t j = 0; j < g->work.scratch_each; j++) {
        if (g->work.scratch[g->work.scratch_each + j] != (unsigned char)junk) {
            return xsmi_estimator_fault(t, err, "gradient() writes beyond its scratch memory");
        }
    }
    return XSM_OK;
}

uint64_t xsmi_estimator_trial_length(const xsm_gradient *g, uint64_t i)
{
    return xsmi_gradient_is_exact(g) ? g->width : g->lengths[i];
}

/* Whether example i of a gradient equals example j of another to the bit. */
static bool same_example(const xsm_gradient *a, uint64_t i, const xsm_gradient *b, uint64_t j)
{
    uint64_t length = xsmi_estimator_trial_length(a, i);
    size_t from = (size_t)(i * a->width), to = (size_t)(j * b->width);
    return length == xsmi_estimator_trial_length(b, j) &&
           (xsmi_gradient_is_exact(a) ||
            memcmp(a->classes + from, b->classes + to, length * sizeof *a->classes) == 0) &&
           memcmp(a->coefficients + from, b->coefficients + to, length * sizeof *a->coefficients) == 0 &&
           memcmp(a->losses + i, b->losses + j, sizeof *a->losses) == 0 &&
           (!a->proximal || memcmp(a->shrinks + from, b->shrinks + to, length * sizeof *a->shrinks) == 0);
}

xsm_status xsmi_estimator_trial_same(const xsmi_estimator_trial *t, const xsm_gradient *a, const xsm_gradient *b,
                                     const char *when, xsm_error *err)
{
    for (uint64_t i = 0; i < a->examples; i++) {
        if (!same_example(a, i, b, i)) {
            return xsmi_estimator_fault(t, err, "the gradient of row %u is another %s", (unsigned)i, when);
        }
    }
    return XSM_OK;
}

/* The conditions for every gradient. */
xsm_status xsmi_estimator_trial_numbers(const xsmi_estimator_trial *t, const xsm_gradient *g, bool finite,
                                        xsm_error *err)
{
    for (uint64_t i = 0; i < g->examples; i++) {
        double sum = 0, size = 0;
        for (uint64_t j = 0; j < xsmi_estimator_trial_length(g, i); j++) {
            size_t place = (size_t)(i * g->width + j);
            double c = (double)g->coefficients[place];
            if (finite && !isfinite(c)) {
                return xsmi_estimator_fault(t, err, "a coefficient of row %u is %g", (unsigned)i, c);
            }
            if (g->proximal && finite && !(g->shrinks[place] > 0 && g->shrinks[place] <= 1)) {
                return xsmi_estimator_fault(t, err, "a shrink of row %u is %g", (unsigned)i, g->shrinks[place]);
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
