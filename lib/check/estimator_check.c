/* The suite that tests an estimator's table on generated problems (ext/estimator.h lists the checks): runs the parts in
 * order, and computes the same gradient in other blocks and on other numbers of threads. */
#include "check/failures.h"
#include "check/made_rows.h"
#include "estimator/pass.h"

#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "estimator/sifted.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    ROWS = 70,   /* more than a chunk of the library's */
    FIRST = 1000 /* position of the first row */
};

typedef struct xsmi_estimator_trial {
    xsm_context *context;
    const xsm_estimator_ops *ops;
    const xsm_estimator_check_options *options;
    xsmi_trial_shape shape;
    bool bias, smallest;
    xsm_dataset *data;
    xsm_model *model;
} xsmi_estimator_trial;

/* A gradient of a trial. */
typedef struct xsmi_trial_run {
    uint64_t first, count; /* the rows */
    uint64_t split;        /* examples a block */
    uint64_t batch;        /* of each step */
    int junk;              /* what uninitialised memory is filled with; bytes 0xff are NaN, 0x3f about 0.75 or a half */
    bool anew;             /* binds before, which must reset a row's state */
} xsmi_trial_run;

/* -- what the parts share ------------------------------------------------------------------------------------------ */

/* Reports an error of the table. */
__attribute__((format(printf, 3, 4))) static xsm_status fault(const xsmi_estimator_trial *t, xsm_error *err,
                                                              const char *format, ...)
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

/* Makes an estimator with the options of the trial, bound to its data. */
static xsm_status make_estimator(const xsmi_estimator_trial *t, xsm_context *ctx, xsm_estimator **out, xsm_error *err)
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
static xsm_status fill_model(const xsmi_estimator_trial *t, double size, double bias, uint64_t seed, xsm_error *err)
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

/* Computes a gradient. `g` has one more example than requested, which must remain junk. */
static xsm_status run_gradient(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g,
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
        g->example[i] = xsmi_example_at(e, first + (i < count ? i : 0), FIRST + first + i);
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
        return fault(t, err, "gradient() writes beyond its coefficients");
    }
    if (!xsmi_gradient_scratch_is_filled(g, 1, junk)) {
        return fault(t, err, "gradient() writes beyond its scratch memory");
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

/* Checks that two gradients have the same bits. */
static xsm_status same_gradient(const xsmi_estimator_trial *t, const xsm_gradient *a, const xsm_gradient *b,
                                const char *when, xsm_error *err)
{
    for (uint64_t i = 0; i < a->examples; i++) {
        if (!same_example(a, b, i)) {
            return fault(t, err, "the gradient of row %u is another %s", (unsigned)i, when);
        }
    }
    return XSM_OK;
}

/* Checks the conditions that every gradient must meet. */
static xsm_status check_numbers(const xsmi_estimator_trial *t, const xsm_gradient *g, bool finite, xsm_error *err)
{
    for (uint64_t i = 0; i < g->examples; i++) {
        double sum = 0, size = 0;
        const xsmi_entries e = xsmi_gradient_example_entries(g, i);
        for (uint64_t j = 0; j < e.count; j++) {
            double c = (double)e.coefficients[j];
            if (finite && !isfinite(c)) {
                return fault(t, err, "a coefficient of row %u is %g", (unsigned)i, c);
            }
            if (e.shrinks && finite && !(e.shrinks[j] > 0 && e.shrinks[j] <= 1)) {
                return fault(t, err, "a shrink of row %u is %g", (unsigned)i, e.shrinks[j]);
            }
            sum += c;
            size += fabs(c);
        }
        if (finite && !isfinite(g->losses[i])) {
            return fault(t, err, "the loss of row %u is %g", (unsigned)i, g->losses[i]);
        }
        if ((t->options->promises & XSM_ESTIMATOR_CHECK_ZERO_SUM) && finite && !(fabs(sum) <= 1e-5 * size)) {
            return fault(t, err, "the coefficients of row %u sum to %g, their sizes to %g", (unsigned)i, sum, size);
        }
    }
    return XSM_OK;
}

/* -- slopes of losses, and large scores ---------------------------------------------------------------------------- */

enum { DIFFERED = 12 }; /* rows whose gradients are compared with differences */

static xsm_status loss_at(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, uint64_t row, double *loss,
                          xsm_error *err)
{
    const bool anew = (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) != 0;
    XSMI_TRY(run_gradient(t, e, g, &(xsmi_trial_run){row, 1, 1, 1, 0xff, anew}, err));
    *loss = g->losses[0];
    return XSM_OK;
}

/* Compares coefficients with differences of losses. Weights are zero, so the biases are the scores: changes them by
 * exact steps, and uses a difference formula of the fourth order. */
static xsm_status compare_slopes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other,
                                 uint64_t row, xsm_error *err)
{
    const float h = 0x1p-9f;
    double most = 0, loss[4];
    xsm_parameters w = XSM_PARAMETERS_INIT;
    XSMI_TRY(xsm_model_get_parameters(t->model, &w, err));
    XSMI_TRY(loss_at(t, e, g, row, &loss[0], err));
    const xsmi_entries entries = xsmi_gradient_example_entries(g, 0);
    for (uint64_t j = 0; j < entries.count; j++) {
        const double size = fabs((double)entries.coefficients[j]);
        most = XSMI_MAX(size, most);
    }
    for (uint64_t j = 0; j < entries.count; j++) {
        static const float steps[] = {-2, -1, 1, 2};
        uint32_t k = xsmi_gradient_class(g, j);
        float before = w.bias[k];
        xsm_status status = XSM_OK;
        for (int s = 0; s < 4 && status == XSM_OK; s++) {
            w.bias[k] = before + steps[s] * h;
            status = loss_at(t, e, other, row, &loss[s], err);
        }
        w.bias[k] = before;
        XSMI_TRY(status);
        double slope = (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (12 * (double)h);
        double have = (double)entries.coefficients[j];
        if (!(fabs(slope - have) <= t->options->tolerance * (1 + most))) {
            return fault(t, err, "row %u, class %u: the coefficient is %.8g, the loss rises by %.8g a score",
                         (unsigned)row, k, have, slope);
        }
    }
    return XSM_OK;
}

/* Losses may have kinks, and scores can be near one by chance, so a row has three attempts. */
static xsm_status check_slopes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other,
                               xsm_error *err)
{
    for (uint64_t row = 0; row < DIFFERED; row++) {
        xsm_error said = XSM_ERROR_INIT;
        xsm_status status = XSM_ERROR_DATA;
        for (uint64_t attempt = 0; attempt < 3 && status == XSM_ERROR_DATA; attempt++) {
            XSMI_TRY(fill_model(t, 0, 2, 5 + attempt, err));
            status = compare_slopes(t, e, g, other, row, &said);
        }
        if (status != XSM_OK) {
            return xsmi_fail_copy(err, &said);
        }
    }
    return XSM_OK;
}

static xsm_status check_extremes(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, xsm_error *err)
{
    const float far = 1e4f;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    for (int kind = 0; kind < 6; kind++) {
        XSMI_TRY(fill_model(t, 0, kind < 2 ? (double)far : 0, (uint64_t)kind, err));
        XSMI_TRY(xsm_model_get_parameters(t->model, &w, err));
        for (uint32_t k = 0; k < t->shape.classes && kind >= 2; k++) {
            bool up = kind == 2 ? k % 2 == 0 : kind == 3 ? k % 2 == 1 : kind == 4;
            w.bias[k] = up ? far : -far;
        }
        const xsmi_trial_run whole = {0, ROWS, ROWS, ROWS, 0xff, true};
        XSMI_TRY(run_gradient(t, e, g, &whole, err));
        xsm_error said = XSM_ERROR_INIT;
        xsm_status status = check_numbers(t, g, true, &said);
        if (status != XSM_OK) {
            xsmi_fail(err, status, "%s, at scores up to %g", said.message, (double)far);
            return status;
        }
    }
    return XSM_OK;
}

/* -- lists of classes ---------------------------------------------------------------------------------------------- */

enum { GUARD = 8 }; /* guard elements after an array, which must not change */
#define UNTOUCHED 0xfefefefeu

/* Check the list of an example, and that select() fills lists that pass that check. */
static xsm_status check_list(const xsmi_estimator_trial *t, const xsm_example *example, const uint32_t *classes,
                             uint32_t length, uint64_t width, xsm_error *err)
{
    if (length > width) {
        return fault(t, err, "a list has %u classes, more than the width of %llu", length, (unsigned long long)width);
    }
    for (uint32_t j = 0; j < length; j++) {
        if (classes[j] >= t->shape.classes) {
            return fault(t, err, "class %u is listed", classes[j]);
        }
        for (uint32_t before = 0; before < j; before++) {
            if (classes[before] == classes[j]) {
                return fault(t, err, "class %u is listed twice for an example", classes[j]);
            }
        }
    }
    for (uint64_t l = 0; l < example->label_count; l++) {
        uint32_t j = 0;
        while (j < length && classes[j] != example->labels[l]) {
            j++;
        }
        if (j == length) {
            return fault(t, err, "label %u is not in its example's list", example->labels[l]);
        }
    }
    return XSM_OK;
}

/* The lists of ROWS examples, and one list that is made again. */
typedef struct selection {
    xsm_example *examples;
    uint32_t *classes, *lengths, *again;
} selection;

static xsm_status compare_lists(const xsmi_estimator_trial *t, const xsm_estimator *e, const selection *s,
                                xsm_error *err)
{
    const xsm_example *examples = s->examples;
    uint32_t *classes = s->classes, *lengths = s->lengths, *again = s->again;
    const uint64_t width = e->width, entries = ROWS * width;
    for (uint64_t j = 0; j < entries + GUARD; j++) {
        classes[j] = UNTOUCHED;
    }
    e->ops.select(e->state, examples, ROWS, classes, lengths);
    for (uint64_t j = entries; j < entries + GUARD; j++) {
        if (classes[j] != UNTOUCHED) {
            return fault(t, err, "select() writes beyond its lists");
        }
    }
    for (uint64_t i = ROWS; i-- > 0;) { /* one by one, the last first */
        uint32_t length;
        XSMI_TRY(check_list(t, &examples[i], classes + i * width, lengths[i], width, err));
        e->ops.select(e->state, examples + i, 1, again, &length);
        if (length != lengths[i] || memcmp(again, classes + i * width, length * sizeof *again) != 0) {
            return fault(t, err, "select() lists other classes for an example alone than among others");
        }
    }
    return XSM_OK;
}

static xsm_status check_lists(const xsmi_estimator_trial *t, const xsm_estimator *e, xsm_error *err)
{
    if (e->exact || !e->ops.select) {
        return XSM_OK; /* no lists, or the library's own */
    }
    size_t width = (size_t)e->width, entries;
    if (!xsmi_multiply(ROWS + 1, width, &entries) || !xsmi_add(entries, GUARD + ROWS, &entries)) {
        return xsmi_fail_memory(err, SIZE_MAX, "the trial of an estimator");
    }
    xsmi_held held = {.context = t->context};
    xsm_example *examples = xsmi_hold(&held, ROWS, sizeof *examples);
    uint32_t *memory = xsmi_hold(&held, entries, sizeof *memory);
    xsm_status status = xsmi_held_check(&held, "the trial of an estimator", err);
    if (status == XSM_OK) {
        for (uint64_t i = 0; i < ROWS; i++) {
            examples[i] = xsmi_example_at(e, i, FIRST + i);
        }
        const selection s = {examples, memory, memory + ROWS * width + GUARD, memory + ROWS * width + GUARD + ROWS};
        status = compare_lists(t, e, &s, err);
    }
    xsmi_held_release(&held);
    return status;
}

/* -- options ------------------------------------------------------------------------------------------------------- */

/* Checks that every option has a help text and accepts the text that it prints. */
static xsm_status check_options(const xsmi_estimator_trial *t, xsm_error *err)
{
    xsm_estimator *e;
    xsm_status status = XSM_OK;
    XSMI_TRY(xsm_estimator_new_from(t->context, t->ops, &e, err));
    const xsm_option *option;
    for (size_t i = 0; status == XSM_OK && (option = xsm_estimator_ops_option(t->ops, i)); i++) {
        size_t length = xsm_estimator_get(e, option->name, NULL, 0);
        char *text = xsmi_allocate(t->context, length + 1, 1);
        if (!text) {
            status = xsmi_fail_memory(err, length, "an option's value");
            break;
        }
        xsm_estimator_get(e, option->name, text, length + 1);
        if (!option->help || !*option->help) {
            status =
                xsmi_fail(err, XSM_ERROR_DATA, "estimator '%s': option '%s' has no help", t->ops->name, option->name);
        } else if (xsm_estimator_set(e, option->name, text, NULL) != XSM_OK) {
            status = xsmi_fail(err, XSM_ERROR_DATA, "estimator '%s': option '%s' does not take its own value '%s'",
                               t->ops->name, option->name, text);
        }
        xsmi_release(t->context, text, length + 1, 1);
    }
    if (status == XSM_OK && t->ops->unbind) {
        e->ops.unbind(e->state); /* must accept a state that was never bound */
    }
    xsm_estimator_free(e);
    return status;
}

/* -- the same gradient in other blocks ----------------------------------------------------------------------------- */

static xsm_status check_blocks(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other,
                               xsm_error *err)
{
    const xsmi_trial_run whole = {0, ROWS, ROWS, ROWS, 0xff, true}, single = {0, ROWS, 1, 1, 0xff, true};
    xsmi_trial_run how = whole;
    XSMI_TRY(run_gradient(t, e, g, &whole, err));
    XSMI_TRY(check_numbers(t, g, true, err));
    if (!(e->ops.flags & XSM_ESTIMATOR_ROW_STATE)) {
        how.anew = false;
        XSMI_TRY(run_gradient(t, e, other, &how, err));
        XSMI_TRY(same_gradient(t, g, other, "the second time, and the table says that it keeps no state by row", err));
    }
    how = whole;
    how.junk = 0x3f;
    XSMI_TRY(run_gradient(t, e, other, &how, err));
    XSMI_TRY(same_gradient(t, g, other, "when it is bound anew, with other things in memory", err));
    static const uint64_t splits[] = {1, 7};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        how = whole;
        how.split = splits[i];
        XSMI_TRY(run_gradient(t, e, other, &how, err));
        XSMI_TRY(same_gradient(t, g, other, "when the batch is cut into other blocks", err));
    }
    XSMI_TRY(run_gradient(t, e, g, &single, err));
    how = single;
    how.split = 8;
    XSMI_TRY(run_gradient(t, e, other, &how, err));
    return same_gradient(t, g, other, "when steps of one example come in blocks", err);
}

/* -- by the public functions: threads, joint batches --------------------------------------------------------------- */

static xsm_status check_joint(const xsmi_estimator_trial *t, const xsm_gradient *g, xsm_error *err)
{
    const xsmi_entries first = xsmi_gradient_list(g, 0);
    for (uint64_t i = 0; i < g->examples; i++) {
        const xsmi_entries own = xsmi_gradient_list(g, i);
        XSMI_TRY(check_list(t, &g->example[i], own.classes, (uint32_t)own.count, g->width, err));
        if (own.count != first.count || memcmp(own.classes, first.classes, own.count * sizeof *own.classes) != 0) {
            return fault(t, err, "the examples of a joint batch have different lists");
        }
    }
    return XSM_OK;
}

static xsm_status check_threads(const xsmi_estimator_trial *t, xsm_gradient *g, xsm_gradient *other, xsm_error *err)
{
    uint64_t count = ROWS;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        xsmi_trial memory;
        xsm_context *ctx;
        xsm_estimator *e = NULL;
        xsm_gradient *into = threads == 1 ? g : other;
        XSMI_TRY(xsmi_trial_context(&memory, t->context, threads, threads == 1 ? 0x00 : 0xff, &ctx, err));
        xsm_status status = make_estimator(t, ctx, &e, err);
        if (status == XSM_OK) {
            count = e->ops.batch_limit && e->ops.batch_limit < count ? e->ops.batch_limit : count;
            xsm_batch batch = xsm_batch_range(t->data, 0, count);
            status = xsm_estimator_gradient(e, &batch, t->options->eta, into, err);
            if (status == XSM_OK) {
                status = check_numbers(t, into, true, err);
            } else if (status == XSM_ERROR_DIVERGED) {
                status = fault(t, err, "the gradient at small scores is not finite");
            }
            if (status == XSM_OK && xsmi_estimator_is_joint(e, count)) {
                status = check_joint(t, into, err);
            }
            xsm_estimator_free(e);
            xsmi_head_release(into->head); /* it is in the memory that is freed now */
            into->head = NULL;
        }
        size_t left = xsmi_trial_blocks(&memory);
        xsmi_trial_end(&memory, ctx);
        XSMI_TRY(status);
        if (left > 0) {
            return fault(t, err, "%zu blocks of memory are not released", left);
        }
    }
    return same_gradient(t, g, other, "on another number of threads, or in memory that held something else", err);
}

/* -- allocation failures ------------------------------------------------------------------------------------------- */

static xsm_status use(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsmi_estimator_trial *t = state;
    xsm_estimator *e = NULL;
    xsm_gradient *g = NULL;
    XSMI_TRY(make_estimator(t, ctx, &e, err));
    xsm_status status = xsm_gradient_new(ctx, &g, err);
    for (uint64_t n = 1; n <= 3 && status == XSM_OK; n += 2) {
        xsm_batch batch = xsm_batch_range(t->data, 0, n);
        if (!e->ops.batch_limit || n <= e->ops.batch_limit) {
            status = xsm_estimator_gradient(e, &batch, t->options->eta, g, err);
        }
    }
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    return status;
}

/* -- the whole suite ----------------------------------------------------------------------------------------------- */

static xsm_status try_estimator(const xsmi_estimator_trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other,
                                xsm_error *err)
{
    char who[160];
    uint32_t promises = t->options->promises;
    XSMI_TRY(check_lists(t, e, err));
    XSMI_TRY(check_blocks(t, e, g, other, err));
    XSMI_TRY(check_threads(t, g, other, err));
    snprintf(who, sizeof who, "estimator '%s', K = %u", t->ops->name, t->shape.classes);
    XSMI_TRY(xsmi_trial_allocations(t->context, use, (void *)(uintptr_t)t, who, err));
    if (t->bias && (promises & XSM_ESTIMATOR_CHECK_GRADIENT) && !(t->ops->flags & XSM_ESTIMATOR_PROXIMAL)) {
        XSMI_TRY(check_slopes(t, e, g, other, err));
    }
    return t->bias && (promises & XSM_ESTIMATOR_CHECK_FINITE) ? check_extremes(t, e, g, err) : XSM_OK;
}

static xsm_status try_shape(xsmi_estimator_trial *t, xsm_error *err)
{
    xsm_estimator *e = NULL;
    xsm_gradient *g = NULL, *other = NULL;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = t->bias;
    t->data = NULL;
    t->model = NULL;
    xsm_status status = xsmi_trial_data(t->context, &t->shape, &t->data, err);
    if (status == XSM_OK) {
        status = xsm_model_new_linear(t->context, t->shape.features, t->shape.classes, &shape, &t->model, err);
    }
    status = status == XSM_OK ? fill_model(t, 0.5, 1, 2, err) : status;
    status = status == XSM_OK ? xsm_gradient_new(t->context, &g, err) : status;
    status = status == XSM_OK ? xsm_gradient_new(t->context, &other, err) : status;
    if (status == XSM_OK) {
        status = make_estimator(t, t->context, &e, err);
        /* Options for the largest problem need not be valid for a problem with two classes. */
        bool refused = t->smallest && (status == XSM_ERROR_RANGE || status == XSM_ERROR_UNSUPPORTED);
        status = status == XSM_OK ? try_estimator(t, e, g, other, err) : refused ? XSM_OK : status;
    }
    xsm_gradient_free(other);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    xsm_model_free(t->model);
    xsm_dataset_free(t->data);
    return status;
}

static xsm_status read_options(const xsm_estimator_check_options *given, xsm_estimator_check_options *o, xsm_error *err)
{
    const uint32_t promises = XSM_ESTIMATOR_CHECK_FINITE | XSM_ESTIMATOR_CHECK_GRADIENT | XSM_ESTIMATOR_CHECK_ZERO_SUM;
    XSMI_TRY(XSMI_READ(xsm_estimator_check_options, o, given, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_estimator_check_options, o, reserved, err));
    if (o->classes > XSM_CLASSES_MAX || o->features > XSM_FEATURES_MAX || (o->promises & ~promises) ||
        !(o->eta >= 0 && o->eta < INFINITY) || !(o->tolerance >= 0 && o->tolerance < 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "accepted are up to %u classes and %u features, the promises that the header names, a finite "
                         "rate, and a tolerance from 0 to below 1",
                         XSM_CLASSES_MAX, XSM_FEATURES_MAX);
    }
    o->classes = o->classes ? o->classes : XSMI_DEFAULT(xsm_estimator_check_options, classes);
    o->features = o->features ? o->features : XSMI_DEFAULT(xsm_estimator_check_options, features);
    o->eta = o->eta > 0 ? o->eta : XSMI_DEFAULT(xsm_estimator_check_options, eta);
    o->tolerance = o->tolerance > 0 ? o->tolerance : XSMI_DEFAULT(xsm_estimator_check_options, tolerance);
    return XSM_OK;
}

xsm_status xsm_estimator_check(xsm_context *context, const xsm_estimator_ops *ops,
                               const xsm_estimator_check_options *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {ops, "the table"});
    xsm_estimator_check_options o = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    XSMI_TRY(read_options(given, &o, err));
    xsmi_estimator_trial t = {.ops = ops, .options = &o};
    xsm_context *parent;
    xsmi_trial memory;
    XSMI_TRY(xsmi_context_acquire(context, &parent, err));
    const uint32_t sizes[] = {2, 7, o.classes};
    xsmi_activity activity;
    xsmi_begin(&activity, parent, "trying an estimator", "problems", 3 * 8);
    xsm_status status = xsmi_trial_context(&memory, parent, 1, 0xa5, &t.context, err);
    status = status == XSM_OK ? check_options(&t, err) : status;
    for (uint32_t kind = 0; kind < 3 * 8 && status == XSM_OK; kind++) {
        uint32_t size = sizes[kind / 8];
        t.smallest = kind / 8 < 2;
        t.bias = kind & 1;
        t.shape = (xsmi_trial_shape){
            .rows = ROWS + 2 * (uint64_t)size,
            .features = o.features,
            .classes = size,
            .sparse = kind & 2,
            .several = kind & 4,
        };
        if (!t.shape.several || (ops->flags & XSM_ESTIMATOR_MULTI_LABEL)) {
            status = try_shape(&t, err);
        }
        xsmi_reach(&activity, kind + 1);
    }
    xsmi_trial_end(&memory, t.context);
    status = xsmi_trial_status(&activity, parent, status, err);
    xsm_context_free(parent);
    return status;
}
