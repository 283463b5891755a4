/* The suite that tests an estimator's table on generated problems (ext/estimator.h lists the checks). */
#include "estimator/pass.h"
#include "estimator/sifted.h"

#include "check/context.h"
#include "check/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    ROWS = 70,     /* more than a chunk of the library's */
    DIFFERED = 12, /* rows whose gradients are compared with differences */
    GUARD = 8,     /* guard elements behind an array, which must not change */
    FIRST = 1000   /* position of the first row */
};
#define UNTOUCHED 0xfefefefeu

typedef struct trial {
    xsm_context *context;
    const xsm_estimator_ops *ops;
    const xsm_estimator_check_options *options;
    xsmi_trial_shape shape;
    bool bias, smallest;
    xsm_dataset *data;
    xsm_model *model;
} trial;

static xsm_status fault(const trial *t, xsm_error *err, const char *format, ...) __attribute__((format(printf, 3, 4)));
static xsm_status fault(const trial *t, xsm_error *err, const char *format, ...)
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

static xsm_status make(const trial *t, xsm_context *ctx, xsm_estimator **out, xsm_error *err)
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
static xsm_status fill_model(const trial *t, double size, double bias, uint64_t seed, xsm_error *err)
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

/* -- options ------------------------------------------------------------------------------------------------------- */

/* Every option must have a help text and accept the text that it prints. */
static xsm_status check_options(const trial *t, xsm_error *err)
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
        e->ops.unbind(e->state); /* of a state that was never bound */
    }
    xsm_estimator_free(e);
    return status;
}

/* -- lists --------------------------------------------------------------------------------------------------------- */

static xsm_status check_list(const trial *t, const xsm_example *example, const uint32_t *classes, uint32_t length,
                             uint64_t width, xsm_error *err)
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

static xsm_status compare_lists(const trial *t, const xsm_estimator *e, const xsm_example *examples, uint32_t *classes,
                                uint32_t *lengths, uint32_t *again, xsm_error *err)
{
    const uint64_t width = e->width, places = ROWS * width;
    for (uint64_t j = 0; j < places + GUARD; j++) {
        classes[j] = UNTOUCHED;
    }
    e->ops.select(e->state, examples, ROWS, classes, lengths);
    for (uint64_t j = places; j < places + GUARD; j++) {
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

static xsm_status check_select(const trial *t, const xsm_estimator *e, xsm_error *err)
{
    if (e->exact || !e->ops.select) {
        return XSM_OK; /* no lists, or the library's own */
    }
    size_t width = (size_t)e->width, places;
    if (!xsmi_multiply(ROWS + 1, width, &places) || !xsmi_add(places, GUARD + ROWS, &places)) {
        return xsmi_fail_memory(err, SIZE_MAX, "the trial of an estimator");
    }
    xsm_example *examples = xsmi_allocate(t->context, ROWS, sizeof *examples);
    uint32_t *room = xsmi_allocate(t->context, places, sizeof *room);
    xsm_status status = XSM_OK;
    if (!examples || !room) {
        status = xsmi_fail_memory(err, places * sizeof *room, "the trial of an estimator");
    } else {
        for (uint64_t i = 0; i < ROWS; i++) {
            examples[i] = xsmi_example_at(e, i, FIRST + i);
        }
        status =
            compare_lists(t, e, examples, room, room + ROWS * width + GUARD, room + ROWS * width + GUARD + ROWS, err);
    }
    xsmi_release(t->context, examples, ROWS, sizeof *examples);
    xsmi_release(t->context, room, places, sizeof *room);
    return status;
}

/* -- gradients ----------------------------------------------------------------------------------------------------- */

/* The gradient of rows first..first+count, `split` examples a block, all steps of one batch of `batch`. Fills
 * uninitialised memory with `junk` first. g has one more example than requested, which must remain junk. */
static xsm_status run(const trial *t, xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, uint64_t split,
                      uint64_t batch, int junk, xsm_error *err)
{
    xsm_batch rows = xsm_batch_range(t->data, first, count);
    XSMI_TRY(xsmi_estimator_reserve(e, g, count + 1, 2, false, err));
    size_t places = (size_t)((count + 1) * g->width);
    memset(g->coefficients, junk, places * sizeof *g->coefficients);
    memset(g->losses, junk, (size_t)(count + 1) * sizeof *g->losses);
    if (g->work.scratch) {
        memset(g->work.scratch, junk, 2 * g->work.scratch_each);
    }
    for (uint64_t i = 0; i <= count; i++) {
        g->example[i] = xsmi_example_at(e, first + (i < count ? i : 0), FIRST + first + i);
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
    for (uint64_t i = 0; i < count; i += split) {
        xsmi_outcome outcome = {.finite = true};
        uint64_t some = split < count - i ? split : count - i;
        for (uint64_t at = i; e->ops.fetch && at < i + some; at++) {
            e->ops.fetch(e->state, &g->example[at]);
        }
        const xsmi_piece piece = {i, some, batch, t->options->eta, 0};
        xsmi_estimator_coefficients(e, g, &piece, &outcome);
    }
    g->examples = count;
    const unsigned char *behind = (const unsigned char *)(g->coefficients + count * g->width);
    for (size_t j = 0; j < g->width * sizeof *g->coefficients; j++) {
        if (behind[j] != (unsigned char)junk) {
            return fault(t, err, "gradient() writes beyond its coefficients");
        }
    }
    for (size_t j = 0; j < g->work.scratch_each; j++) {
        if (g->work.scratch[g->work.scratch_each + j] != (unsigned char)junk) {
            return fault(t, err, "gradient() writes beyond its scratch memory");
        }
    }
    return XSM_OK;
}

static uint64_t length_of(const xsm_gradient *g, uint64_t i)
{
    return xsmi_gradient_is_exact(g) ? g->width : g->lengths[i];
}

/* Whether example i of a gradient equals example j of another to the bit. */
static bool same_example(const xsm_gradient *a, uint64_t i, const xsm_gradient *b, uint64_t j)
{
    uint64_t length = length_of(a, i);
    size_t from = (size_t)(i * a->width), to = (size_t)(j * b->width);
    return length == length_of(b, j) &&
           (xsmi_gradient_is_exact(a) ||
            memcmp(a->classes + from, b->classes + to, length * sizeof *a->classes) == 0) &&
           memcmp(a->coefficients + from, b->coefficients + to, length * sizeof *a->coefficients) == 0 &&
           memcmp(a->losses + i, b->losses + j, sizeof *a->losses) == 0 &&
           (!a->proximal || memcmp(a->shrinks + from, b->shrinks + to, length * sizeof *a->shrinks) == 0);
}

static xsm_status same(const trial *t, const xsm_gradient *a, const xsm_gradient *b, const char *when, xsm_error *err)
{
    for (uint64_t i = 0; i < a->examples; i++) {
        if (!same_example(a, i, b, i)) {
            return fault(t, err, "the gradient of row %u is another %s", (unsigned)i, when);
        }
    }
    return XSM_OK;
}

/* The conditions for every gradient. */
static xsm_status check_numbers(const trial *t, const xsm_gradient *g, bool finite, xsm_error *err)
{
    for (uint64_t i = 0; i < g->examples; i++) {
        double sum = 0, size = 0;
        for (uint64_t j = 0; j < length_of(g, i); j++) {
            size_t place = (size_t)(i * g->width + j);
            double c = (double)g->coefficients[place];
            if (finite && !isfinite(c)) {
                return fault(t, err, "a coefficient of row %u is %g", (unsigned)i, c);
            }
            if (g->proximal && finite && !(g->shrinks[place] > 0 && g->shrinks[place] <= 1)) {
                return fault(t, err, "a shrink of row %u is %g", (unsigned)i, g->shrinks[place]);
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

/* A run after binding again, which must reset a row's state. */
static xsm_status run_fresh(const trial *t, xsm_estimator *e, xsm_gradient *g, uint64_t split, uint64_t batch, int junk,
                            xsm_error *err)
{
    XSMI_TRY(xsm_estimator_bind(e, t->model, t->data, err));
    return run(t, e, g, 0, ROWS, split, batch, junk, err);
}

/* Memory of bytes 0xff is NaN, of bytes 0x3f about 0.75 or a half. */
static xsm_status check_blocks(const trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other, xsm_error *err)
{
    XSMI_TRY(run_fresh(t, e, g, ROWS, ROWS, 0xff, err));
    XSMI_TRY(check_numbers(t, g, true, err));
    if (!(e->ops.flags & XSM_ESTIMATOR_ROW_STATE)) {
        XSMI_TRY(run(t, e, other, 0, ROWS, ROWS, ROWS, 0xff, err));
        XSMI_TRY(same(t, g, other, "the second time, and the table says that it keeps no state by row", err));
    }
    XSMI_TRY(run_fresh(t, e, other, ROWS, ROWS, 0x3f, err));
    XSMI_TRY(same(t, g, other, "when it is bound anew, with other things in memory", err));
    static const uint64_t splits[] = {1, 7};
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
        XSMI_TRY(run_fresh(t, e, other, splits[i], ROWS, 0xff, err));
        XSMI_TRY(same(t, g, other, "when the batch is cut into other blocks", err));
    }
    XSMI_TRY(run_fresh(t, e, g, 1, 1, 0xff, err)); /* steps of one example */
    XSMI_TRY(run_fresh(t, e, other, 8, 1, 0xff, err));
    return same(t, g, other, "when steps of one example come in blocks", err);
}

/* -- by the public functions: threads, joint batches --------------------------------------------------------------- */

static xsm_status check_joint(const trial *t, const xsm_gradient *g, xsm_error *err)
{
    for (uint64_t i = 0; i < g->examples; i++) {
        const uint32_t *classes = g->classes + i * g->width;
        XSMI_TRY(check_list(t, &g->example[i], classes, g->lengths[i], g->width, err));
        if (g->lengths[i] != g->lengths[0] || memcmp(classes, g->classes, g->lengths[0] * sizeof *classes) != 0) {
            return fault(t, err, "the examples of a joint batch have different lists");
        }
    }
    return XSM_OK;
}

static xsm_status check_threads(const trial *t, xsm_gradient *g, xsm_gradient *other, xsm_error *err)
{
    uint64_t count = ROWS;
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        xsmi_trial memory;
        xsm_context *ctx;
        xsm_estimator *e = NULL;
        xsm_gradient *into = threads == 1 ? g : other;
        XSMI_TRY(xsmi_trial_context(&memory, t->context, threads, threads == 1 ? 0x00 : 0xff, &ctx, err));
        xsm_status status = make(t, ctx, &e, err);
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
            xsmi_correction_release(into->correction); /* they are in the memory that is freed now */
            into->correction = NULL;
            xsmi_hierarchy_release(into->hierarchy);
            into->hierarchy = NULL;
        }
        size_t left = xsmi_trial_blocks(&memory);
        xsmi_trial_end(&memory, ctx);
        XSMI_TRY(status);
        if (left > 0) {
            return fault(t, err, "%zu blocks of memory are not released", left);
        }
    }
    return same(t, g, other, "on another number of threads, or in memory that held something else", err);
}

/* -- promises ------------------------------------------------------------------------------------------------------ */

static xsm_status loss_at(const trial *t, xsm_estimator *e, xsm_gradient *g, uint64_t row, double *loss, xsm_error *err)
{
    if (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) {
        XSMI_TRY(xsm_estimator_bind(e, t->model, t->data, err));
    }
    XSMI_TRY(run(t, e, g, row, 1, 1, 1, 0xff, err));
    *loss = g->losses[0];
    return XSM_OK;
}

/* With weights of zeros, a class's bias is its score: changes it by exact steps and uses a formula of the fourth
 * order. */
static xsm_status compare_slopes(const trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other, uint64_t row,
                                 xsm_error *err)
{
    const float h = 0x1p-9f;
    double most = 0, loss[4];
    xsm_parameters w = XSM_PARAMETERS_INIT;
    XSMI_TRY(xsm_model_parameters(t->model, &w, err));
    XSMI_TRY(loss_at(t, e, g, row, &loss[0], err));
    for (uint64_t j = 0; j < length_of(g, 0); j++) {
        most = fmax(most, fabs((double)g->coefficients[j]));
    }
    for (uint64_t j = 0; j < length_of(g, 0); j++) {
        static const float steps[] = {-2, -1, 1, 2};
        uint32_t k = xsmi_gradient_is_exact(g) ? (uint32_t)j : g->classes[j];
        float held = w.bias[k];
        xsm_status status = XSM_OK;
        for (int s = 0; s < 4 && status == XSM_OK; s++) {
            w.bias[k] = held + steps[s] * h;
            status = loss_at(t, e, other, row, &loss[s], err);
        }
        w.bias[k] = held;
        XSMI_TRY(status);
        double slope = (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (12 * (double)h);
        double have = (double)g->coefficients[j];
        if (!(fabs(slope - have) <= t->options->tolerance * (1 + most))) {
            return fault(t, err, "row %u, class %u: the coefficient is %.8g, the loss rises by %.8g a score",
                         (unsigned)row, k, have, slope);
        }
    }
    return XSM_OK;
}

/* Losses may have kinks, and scores can be near one by chance, so a row has three attempts. */
static xsm_status check_differences(const trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other,
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

static xsm_status check_extremes(const trial *t, xsm_estimator *e, xsm_gradient *g, xsm_error *err)
{
    const float far = 1e4f;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    for (int kind = 0; kind < 6; kind++) {
        XSMI_TRY(fill_model(t, 0, kind < 2 ? (double)far : 0, (uint64_t)kind, err));
        XSMI_TRY(xsm_model_parameters(t->model, &w, err));
        for (uint32_t k = 0; k < t->shape.classes && kind >= 2; k++) {
            bool up = kind == 2 ? k % 2 == 0 : kind == 3 ? k % 2 == 1 : kind == 4;
            w.bias[k] = up ? far : -far;
        }
        XSMI_TRY(run_fresh(t, e, g, ROWS, ROWS, 0xff, err));
        xsm_error said = XSM_ERROR_INIT;
        xsm_status status = check_numbers(t, g, true, &said);
        if (status != XSM_OK) {
            xsmi_fail(err, status, "%s, at scores up to %g", said.message, (double)far);
            return status;
        }
    }
    return XSM_OK;
}

/* -- allocation failures ------------------------------------------------------------------------------------------- */

static xsm_status use(void *state, xsm_context *ctx, xsm_error *err)
{
    const trial *t = state;
    xsm_estimator *e = NULL;
    xsm_gradient *g = NULL;
    XSMI_TRY(make(t, ctx, &e, err));
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

static xsm_status try_estimator(const trial *t, xsm_estimator *e, xsm_gradient *g, xsm_gradient *other, xsm_error *err)
{
    char who[160];
    uint32_t promises = t->options->promises;
    XSMI_TRY(check_select(t, e, err));
    XSMI_TRY(check_blocks(t, e, g, other, err));
    XSMI_TRY(check_threads(t, g, other, err));
    snprintf(who, sizeof who, "estimator '%s', K = %u", t->ops->name, t->shape.classes);
    XSMI_TRY(xsmi_trial_allocations(t->context, use, (void *)(uintptr_t)t, who, err));
    if (t->bias && (promises & XSM_ESTIMATOR_CHECK_GRADIENT) && !(t->ops->flags & XSM_ESTIMATOR_PROXIMAL)) {
        XSMI_TRY(check_differences(t, e, g, other, err));
    }
    return t->bias && (promises & XSM_ESTIMATOR_CHECK_FINITE) ? check_extremes(t, e, g, err) : XSM_OK;
}

static xsm_status try_shape(trial *t, xsm_error *err)
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
        status = make(t, t->context, &e, err);
        /* Options for the largest problem need not be valid for one of two classes. */
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
    XSMI_TRY(xsmi_options_read(o, sizeof *o, sizeof *o, given, "xsm_estimator_check_options", err));
    if (o->classes > XSM_CLASSES_MAX || o->features > XSM_FEATURES_MAX || (o->promises & ~promises) ||
        o->reserved != 0 || !(o->eta >= 0 && o->eta < INFINITY) || !(o->tolerance >= 0 && o->tolerance < 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "accepted are up to %u classes and %u features, the promises that the header names, a finite "
                         "rate, and a tolerance from 0 to below 1",
                         XSM_CLASSES_MAX, XSM_FEATURES_MAX);
    }
    o->classes = o->classes ? o->classes : 20;
    o->features = o->features ? o->features : 5;
    o->eta = o->eta > 0 ? o->eta : 0.1;
    o->tolerance = o->tolerance > 0 ? o->tolerance : 1e-3;
    return XSM_OK;
}

xsm_status xsm_estimator_check(xsm_context *context, const xsm_estimator_ops *ops,
                               const xsm_estimator_check_options *given, xsm_error *err)
{
    if (!ops) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_check: the table is NULL");
    }
    xsm_estimator_check_options o = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    XSMI_TRY(read_options(given, &o, err));
    trial t = {.ops = ops, .options = &o};
    xsm_context *parent;
    xsmi_trial memory;
    XSMI_TRY(xsmi_context_acquire(context, &parent, err));
    xsm_status status = xsmi_trial_context(&memory, parent, 1, 0xa5, &t.context, err);
    if (status != XSM_OK) {
        xsm_context_free(parent);
        return status;
    }
    status = check_options(&t, err);
    const uint32_t sizes[] = {2, 7, o.classes};
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
    }
    xsmi_trial_end(&memory, t.context);
    xsm_context_free(parent);
    return status;
}
