/*
 * A step on a batch: checks arguments, keeps the scales in range, and divides the work so that one thread changes a
 * class's row of weights, in the order of the examples.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "model/together.h"
#include "optimizer/step.h"

#include <string.h>

/* -- preparing ----------------------------------------------------------------------------------------------------- */

xsm_status xsmi_optimizer_check(const xsm_optimizer *o, bool proximal, bool decay, bool bound, xsm_error *err)
{
    if (o->linear || (!proximal && !decay && !bound)) {
        return XSM_OK;
    }
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                     "optimizer '%s' gives weights rates of their own, and cannot apply %s; 'sgd' can", o->ops.name,
                     proximal ? "the proximal steps of the estimator, whose rate is part of their solution"
                     : decay  ? "a ridge, which is a decay of all weights alike"
                              : "the estimator's bound on the length of rows");
}

xsm_status xsmi_optimizer_decay(xsm_model *m, double decay, double *next_alpha, xsm_error *err)
{
    if (m->w.alpha * decay < XSMI_ALPHA_LEAST) {
        XSMI_TRY(xsmi_model_fold(m, err));
    }
    *next_alpha = m->w.alpha * decay;
    return XSM_OK;
}

/* Makes the scales and lengths of the rows of weights that the steps need. */
static xsm_status prepare_rows(xsm_model *m, bool proximal, double bound, xsm_error *err)
{
    if (!(bound > 0)) {
        xsmi_model_drop_row_lengths(m);
    }
    if (!proximal && !(bound > 0)) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_model_need_class_major(m, proximal ? "a proximal step" : "a bound on the rows of weights", err));
    if (!m->w.row_scale) {
        XSMI_TRY(xsmi_model_need_row_scale(m, err));
        m->w.unscaled = true; /* until a step changes one */
    }
    return bound > 0 ? xsmi_model_need_row_lengths(m, err) : XSM_OK;
}

xsm_status xsmi_optimizer_prepare(xsm_optimizer *o, const xsm_gradient *g, xsm_error *err)
{
    xsm_model *m = o->model;
    if (xsmi_gradient_is_dense(g)) {
        xsmi_model_drop_row_lengths(m);
    } else {
        XSMI_TRY(prepare_rows(m, g->proximal, g->row_bound, err));
    }
    if ((xsmi_gradient_is_dense(g) && m->w.row_scale) || (!o->linear && (m->w.row_scale || m->w.alpha != 1))) {
        XSMI_TRY(xsmi_model_fold(m, err)); /* steps on every class keep one common scale, steps of a rule keep none */
    }
    return xsmi_accumulators_follow(o, err);
}

/* -- single examples ----------------------------------------------------------------------------------------------- */

void xsmi_optimizer_step(xsm_optimizer *o, const xsmi_example_step *s)
{
    if (o->linear) {
        xsmi_linear_example(o->model, s);
    } else {
        xsmi_rule_example(o, s);
    }
}

/* -- entries by class ---------------------------------------------------------------------------------------------- */

/* Sorts the entries of a gradient by class and keeps the order within a class: a radix sort, with one pass for each
 * byte of K. `halves` has two halves of n entries each; the result is in the half returned. */
static uint64_t *sort_entries(const xsm_gradient *g, uint64_t *halves, size_t n, uint32_t top_class)
{
    uint64_t *from = halves, *to = halves + n;
    for (uint32_t shift = 0; shift < 32 && (top_class >> shift) > 0; shift += 8) {
        size_t counts[257] = {0};
        for (size_t i = 0; i < n; i++) {
            counts[((xsmi_gradient_class(g, from[i]) >> shift) & 255) + 1]++;
        }
        for (size_t b = 0; b < 256; b++) {
            counts[b + 1] += counts[b];
        }
        for (size_t i = 0; i < n; i++) {
            to[counts[(xsmi_gradient_class(g, from[i]) >> shift) & 255]++] = from[i];
        }
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

typedef struct class_job {
    const xsmi_step *step;
    const uint64_t *entries;
    const size_t *starts;
} class_job;

/* How many classes ahead of its step a row is prefetched: memory takes longer than the step on a row. */
enum { CLASSES_AHEAD = 3 };

/* Prefetches a class's row: the scores may have read more weights than a cache holds, and no accumulators. */
XSMI_PREFETCHER void prefetch_class(const xsmi_step *s, uint32_t class, size_t numbers)
{
    if (xsmi_step_is_product(s)) {
        xsmi_row row;
        xsmi_row_of_class(s->optimizer, class, &row);
        xsmi_prefetch_weights(s->optimizer, &row, numbers);
    }
}

static uint32_t class_of(const class_job *job, size_t group)
{
    return xsmi_gradient_class(job->step->g, job->entries[job->starts[group]]);
}

static void step_class(const class_job *job, size_t group, uint32_t thread)
{
    const xsmi_step *s = job->step;
    const uint64_t *entries = job->entries + job->starts[group];
    const size_t count = job->starts[group + 1] - job->starts[group];
    if (s->optimizer->linear) {
        xsmi_linear_class(s, class_of(job, group), entries, count);
    } else {
        xsmi_rule_class(s, class_of(job, group), entries, count, thread);
    }
}

static void run_classes(void *state, const xsmi_range *r)
{
    const class_job *job = state;
    for (size_t first = r->first, some; first < r->end; first += some) {
        some = XSMI_MIN(r->end - first, XSMI_ROWS_TOGETHER);
        for (size_t i = first; i < first + some; i++) {
            prefetch_class(job->step, class_of(job, i), 1);
        }
        for (size_t i = first; i < first + some; i++) {
            if (i + CLASSES_AHEAD < r->end) {
                prefetch_class(job->step, class_of(job, i + CLASSES_AHEAD), job->step->optimizer->model->features);
            }
            step_class(job, i, r->thread);
        }
    }
}

/* Reserves memory for at most `bound` entries by class. */
static xsm_status reserve_entries(xsm_optimizer *o, size_t bound, xsm_error *err)
{
    return bound < SIZE_MAX / 4 &&
                   xsmi_reserve(o->context, &o->sorted, &o->sorted_capacity, 2 * bound, sizeof *o->sorted) &&
                   xsmi_reserve(o->context, &o->starts, &o->starts_capacity, bound + 1, sizeof *o->starts)
               ? XSM_OK
               : xsmi_fail_memory(err, 2 * bound * sizeof *o->sorted, "a batch's classes");
}

/* Takes a step on the classes that the gradient lists or, if dense, has a coefficient for; without those of the shared
 * matrix, if `product`. */
static xsm_status apply_listed(const xsmi_step *s, bool product, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    const size_t n = xsmi_gradient_entries(s->g, !product, o->sorted);
    if (n == 0) {
        return XSM_OK;
    }
    /* The second half of the memory begins after the most entries, but the sort expects halves of n. */
    const uint64_t *entries = sort_entries(s->g, o->sorted, n, o->model->classes - 1);
    size_t groups = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || xsmi_gradient_class(s->g, entries[i]) != xsmi_gradient_class(s->g, entries[i - 1])) {
            o->starts[groups++] = i;
        }
    }
    o->starts[groups] = n;
    /* Classes are independent, so a job can be long enough to be worth waking a thread. */
    size_t each = (size_t)(XSMI_JOB_WORK / (xsmi_batch_row_work(s->batch) * (double)n / (double)groups)) + 1;
    class_job job = {s, entries, o->starts};
    return xsmi_run_step(s, run_classes, &job, groups, each, err);
}

/* -- every class --------------------------------------------------------------------------------------------------- */

/* Classes between two polls. */
#define POLL_CLASSES 64

static void run_range(void *state, const xsmi_range *r)
{
    const xsmi_step *s = state;
    const uint32_t first = (uint32_t)r->first, end = (uint32_t)r->end;
    if (s->optimizer->linear) {
        const xsmi_class_matrix range = xsmi_gradient_range(s->g, first, end, NULL, NULL);
        xsmi_linear_range(s, &range, r->thread);
        return;
    }
    for (uint32_t k = first; k < end; k++) {
        if ((k - first) % POLL_CLASSES == POLL_CLASSES - 1) {
            (void)xsmi_poll(s->optimizer->context); /* for the hook alone: a step must be completed */
        }
        xsmi_rule_class(s, k, NULL, (size_t)s->batch->count, r->thread);
    }
}

/* Computes the coefficients of class runs again, and takes the step on them. */
static void run_recomputed(void *state, const xsmi_range *r)
{
    const xsmi_step *s = state;
    xsm_optimizer *o = s->optimizer;
    float *scratch = o->tiles + r->thread * (s->g->recomputed.scratch_each / sizeof *o->tiles);
    const uint32_t end = (uint32_t)r->end;
    for (uint32_t first = (uint32_t)r->first; first < end;) {
        const xsmi_class_matrix some = xsmi_gradient_range(s->g, first, end, scratch, o->context);
        if (o->linear) {
            xsmi_linear_range(s, &some, r->thread);
        } else {
            xsmi_groups_here(s, &some, r->thread);
        }
        first += (uint32_t)some.count;
    }
}

static xsm_status apply_recomputed(const xsmi_step *s, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    const size_t each = s->g->recomputed.scratch_each / sizeof *o->tiles;
    size_t count;
    if (!xsmi_multiply(xsmi_context_threads(o->context), each, &count) ||
        !xsmi_reserve(o->context, &o->tiles, &o->tiles_capacity, count, sizeof *o->tiles)) {
        return xsmi_fail_memory(err, s->g->recomputed.scratch_each, "coefficients of a batch, for each thread");
    }
    XSMI_TRY(xsmi_pack_batch(s, err));
    return xsmi_run_step(s, run_recomputed, (void *)(uintptr_t)s, o->model->classes, XSMI_RUN_CLASSES, err);
}

static bool uses_groups(const xsmi_step *s)
{
    return !s->optimizer->linear && xsmi_step_is_product(s);
}

static xsm_status apply_dense(const xsmi_step *s, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    const uint32_t classes = o->model->classes, threads = xsmi_context_threads(o->context);
    if (xsmi_gradient_is_recomputed(s->g)) {
        return apply_recomputed(s, err);
    }
    if (uses_groups(s)) {
        const xsmi_class_matrix all = xsmi_gradient_range(s->g, 0, classes, NULL, NULL);
        return xsmi_step_groups(s, &all, err);
    }
    XSMI_TRY(xsmi_step_is_product(s) ? xsmi_pack_batch(s, err) : XSM_OK);
    bool done;
    XSMI_TRY(xsmi_step_by_feature(s, &done, err));
    if (done) {
        return XSM_OK;
    }
    /* Elements are independent, so pieces can be cut to suit the threads, in whole cache lines of classes. Threads are
     * not woken for little work. */
    double work = (double)classes * (double)s->batch->count * xsmi_batch_row_work(s->batch);
    uint32_t pieces = threads > 1 && work > 10 * XSMI_JOB_WORK ? threads * 4 : 1;
    uint32_t each = (classes / pieces + 64) / 64 * 64;
    return xsmi_run_step(s, run_range, (void *)(uintptr_t)s, classes, pieces == 1 ? classes : each, err);
}

/* -- a step -------------------------------------------------------------------------------------------------------- */

static xsm_status fail_classes(const xsm_gradient *g, const xsm_model *m, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_SHAPE, "the gradient is of a model of %u classes, this one has %u",
                     g->model_classes, m->classes);
}

/* Refuses a step that the optimizer cannot take, of a gradient on a batch. */
static xsm_status check_step(const xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                             xsm_error *err)
{
    const xsm_model *m = o->model;
    if (g->examples != batch->count) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the gradient holds %llu examples, the batch %llu",
                         (unsigned long long)g->examples, (unsigned long long)batch->count);
    }
    if (g->model_classes != m->classes) {
        return fail_classes(g, m, err);
    }
    if (!(g->largest * eta < XSMI_STEP_LIMIT)) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "a step of %g would leave the finite numbers; try a smaller learning "
                         "rate than %g",
                         g->largest * eta, eta);
    }
    XSMI_TRY(xsmi_optimizer_check(o, g->proximal, g->decay != 1, g->row_bound > 0, err));
    if (g->proximal || g->decay != 1 || g->row_bound > 0) {
        XSMI_TRY(xsmi_model_need_linear(m, "a gradient that scales rows of weights", err));
    }
    if (g->layered != (xsmi_model_hidden_floats(m) > 0)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the %s a first layer, and the %s",
                         g->layered ? "gradient is of a model with" : "model has",
                         g->layered ? "model has none" : "gradient is not of such a model");
    }
    return g->row_bound > 0 ? xsmi_model_need_untied(m, "a bound on the rows of weights", err) : XSM_OK;
}

/* Sets `batch` to the output layer's rows: the hidden vectors of the gradient. */
static void use_hidden(xsm_batch *batch, const xsm_batch *rows, const xsm_model *m, const xsmi_layer_gradient *layer)
{
    *batch = *rows;
    batch->values = layer->hidden;
    batch->stride = layer->stride;
    batch->features = m->features;
    batch->offsets = NULL; /* hidden vectors are dense */
    batch->index = NULL;
}

/* Whether the step on the classes that the examples share goes by groups (groups.c). */
static bool uses_product(const xsm_optimizer *o, const xsm_gradient *g)
{
    const xsm_model *m = o->model;
    return xsmi_gradient_is_shared(g) && !(g->row_bound > 0) && xsmi_model_has_products(m) && !m->row_length;
}

/* Returns the floats of sums that each thread needs. */
static size_t sums_of(const xsmi_step *s, bool product)
{
    const xsm_optimizer *o = s->optimizer;
    if (product || (uses_groups(s) && xsmi_gradient_is_dense(s->g))) {
        return xsmi_group_sums(o->model);
    }
    return o->linear ? xsmi_linear_sums(s)
                     : xsmi_rule_zeros(o->model) + (o->ops.row_rate ? 2 * (size_t)o->model->features : 0);
}

static void apply_one(const xsmi_step *s)
{
    const xsm_gradient *g = s->g;
    const xsmi_features x = xsmi_batch_features(s->batch, 0);
    const xsmi_example_step one = {
        .x = &x,
        .entries = xsmi_gradient_list(g, 0),
        .alpha = s->alpha,
        .next_alpha = s->next_alpha,
        .bound = g->row_bound,
        .step = s->step,
    };
    xsmi_optimizer_step(s->optimizer, &one);
}

/* Takes the step of the output layer. */
static xsm_status apply_output(const xsmi_step *s, bool product, xsm_error *err)
{
    const xsm_gradient *g = s->g;
    const bool dense = xsmi_gradient_is_dense(g);
    if (g->examples == 1 && !dense) {
        apply_one(s);
        return XSM_OK;
    }
    if (s->every) {
        return apply_dense(s, err);
    }
    const size_t listed = dense ? s->listed : xsmi_gradient_count(g, !product);
    XSMI_TRY(reserve_entries(s->optimizer, listed, err));
    if (product) {
        const xsmi_class_matrix shared = xsmi_gradient_shared(g);
        XSMI_TRY(xsmi_step_groups(s, &shared, err));
    }
    return apply_listed(s, product, err);
}

/* Takes a step. `rows` is the batch before a first layer. */
static xsm_status take_step(xsmi_step *s, const xsm_batch *rows, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    xsm_model *m = o->model;
    XSMI_TRY(xsmi_optimizer_prepare(o, s->g, err));
    const bool product = uses_product(o, s->g);
    XSMI_TRY(xsmi_reserve_sums(o, sums_of(s, product), err));
    if (s->layer) {
        XSMI_TRY(xsmi_prepare_first_layer(s, rows, err));
    }
    XSMI_TRY(xsmi_optimizer_decay(m, s->g->decay, &s->next_alpha, err));
    s->alpha = m->w.alpha;
    const xsm_status status = apply_output(s, product, err);
    if (status != XSM_OK && s->undoes) {
        xsmi_undo_step(s);
    }
    XSMI_TRY(status);
    m->w.alpha = s->next_alpha;
    if (s->layer) {
        XSMI_TRY(xsmi_step_first_layer(s, rows, err));
    }
    o->steps++;
    return XSM_OK;
}

/* Applies a gradient after check_step(). `whole` has the gradient of a first layer: it is g, or the gradient that g is
 * a part of. */
static xsm_status apply(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, const xsm_gradient *whole,
                        double eta, xsm_error *err)
{
    xsm_model *m = o->model;
    xsmi_step s = {.optimizer = o,
                   .batch = batch,
                   .g = g,
                   .layer = g->layered ? &whole->layer : NULL,
                   .distances = xsmi_model_pulls(m),
                   .step = {sizeof s.step, eta, o->steps + 1, batch->count}};
    xsm_batch hidden;
    if (!o->whole) {
        xsmi_model_take_head(m, g->head);
    }
    if (s.layer) {
        use_hidden(&hidden, batch, m, s.layer);
        s.batch = &hidden;
    }
    const bool large = batch->count >= XSMI_UNDO_ROWS;
    const bool recomputed = xsmi_gradient_is_recomputed(g); /* more of its coefficients than `most` are not 0 */
    const size_t most = g->whole.width > 0 ? SIZE_MAX : (size_t)(g->examples * g->width / XSMI_SPARSE_PART);
    s.listed = xsmi_gradient_is_dense(g) && !recomputed ? xsmi_gradient_count_to(g, most) : 0;
    s.every = recomputed || (g->whole.width > 0 ? g->whole.nonzero > g->examples * g->whole.width / XSMI_SPARSE_PART
                                                : s.listed > most);
    s.undoes = large && s.every && xsmi_undo_begin(&s);
    xsmi_activity shield;
    if (large && !s.undoes) {
        xsmi_shield(&shield, o->context); /* a step must be completed */
    }
    const xsm_status status = take_step(&s, batch, err);
    if (large && !s.undoes) {
        xsmi_unshield(&shield);
    }
    return status;
}

/* Takes the step of this process's part of a divided model; it cannot be cancelled. A dense gradient may have only this
 * part. If `begun` is not NULL, all processes first agree that each can take its step, and *begun becomes true;
 * otherwise a process without memory fails alone. */
static xsm_status apply_part(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta, bool *begun,
                             xsm_error *err)
{
    const xsm_model *whole = o->whole;
    const xsmi_mine mine = xsmi_model_mine(whole);
    const xsm_gradient *part = g;
    xsm_status status = XSM_OK;
    if (g->whole.width != whole->classes) {
        part = o->part;
        status = g->model_classes == whole->classes ? xsmi_gradient_part(g, mine.first, mine.end, o->part, err)
                                                    : fail_classes(g, whole, err);
    }
    const bool made = status == XSM_OK;
    status = made ? check_step(o, batch, part, eta, err) : status;
    if (begun || (made && status != XSM_OK)) { /* all processes that have a part refuse the step, or none does */
        status = xsmi_together(whole, status, err);
    }
    if (begun) {
        *begun = status == XSM_OK;
    }
    if (status == XSM_OK) {
        xsmi_model_take_head(o->whole, g->head);
        xsmi_activity shield;
        xsmi_shield(&shield, o->context);
        status = apply(o, batch, part, g, eta, err);
        xsmi_unshield(&shield);
    }
    return status;
}

static xsm_status apply_alone(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                              xsm_error *err)
{
    XSMI_TRY(check_step(o, batch, g, eta, err));
    return apply(o, batch, g, g, eta, err);
}

xsm_status xsmi_optimizer_apply(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                                xsm_error *err)
{
    if (!o->whole) {
        return apply_alone(o, batch, g, eta, err);
    }
    const xsm_status status = apply_part(o, batch, g, eta, NULL, err);
    if (status != XSM_OK && !xsmi_together_failed(o->whole)) {
        xsmi_together_lose(o->whole);
    }
    return status;
}

/* As xsmi_optimizer_apply(), for a divided model: if the step fails in one process, for lack of memory say, the call
 * fails in all, although the others have taken theirs. */
static xsm_status apply_agreed(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, double eta,
                               xsm_error *err)
{
    bool begun = false;
    xsm_status status = apply_part(o, batch, g, eta, &begun, err);
    if (begun) {
        status = xsmi_together(o->whole, status, err);
        if (status != XSM_OK) {
            xsmi_together_lose(o->whole);
        }
    }
    return status;
}

static xsm_status apply_given(xsm_optimizer *o, const xsm_batch *given, const xsm_gradient *g, double eta,
                              xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_optimizer_apply", XSMI_GIVEN({given, "the batch"}, {g, "the gradient"}), err));
    if (!o->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "optimizer '%s' is not bound", o->ops.name);
    }
    if (o->model->shape != o->shape) {
        return xsmi_fail(
            err, XSM_ERROR_STATE,
            "optimizer '%s': its model has another number of classes or features, or another geometry, than "
            "when it was bound; bind it again",
            o->ops.name);
    }
    XSMI_TRY(xsmi_model_need_together(xsmi_optimizer_model(o), "a step", err));
    xsm_batch batch;
    XSMI_TRY(xsmi_check_eta(eta, err));
    XSMI_TRY(xsmi_model_read_batch(o->whole ? o->whole : o->model, given, &batch, err));
    xsmi_activity activity;
    if (batch.count < XSMI_UNDO_ROWS) {
        xsmi_begin_whole(&activity, o->context, "taking a step", "rows");
    } else {
        xsmi_begin_short(&activity, o->context, "taking a step", "rows");
    }
    const xsm_status status =
        xsmi_end(&activity, o->whole ? apply_agreed(o, &batch, g, eta, err) : apply_alone(o, &batch, g, eta, err), err);
    if (status != XSM_CANCELLED) {
        xsm_model *m = o->whole ? o->whole : o->model;
        xsmi_model_put_link(m, status == XSM_OK ? g->link : m->link);
    }
    return status;
}

xsm_status xsm_optimizer_apply(xsm_optimizer *o, const xsm_batch *given, const xsm_gradient *g, double eta,
                               xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {o, "the optimizer"});
    return XSMI_TOGETHER(o->whole, apply_given(o, given, g, eta, err), err);
}
