/* Computes the gradient of a batch: example by example on the context's threads, jointly, or with a search. */
#include "estimator/divided_lists.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "estimator/gathered.h"
#include "estimator/recomputed.h"
#include "estimator/shared.h"
#include "estimator/sifted.h"
#include "estimator/stream.h"
#include "model/together.h"
#include "estimator/pass.h"

#include <string.h>

/* Returns the number of examples of one job. */
static uint64_t chunk_of(const xsm_gradient *g)
{
    return xsmi_gradient_is_shared(g) ? XSMI_SHARED_ROWS : XSMI_EXAMPLE_CHUNK;
}

/* Lists and scores the classes of the examples first..first+count, unless those of all classes were scored with the
 * batch. False: one is not finite. */
static bool select_and_score(const xsmi_pass *p, uint64_t first, uint64_t count)
{
    const xsm_estimator *e = p->estimator;
    xsm_gradient *g = p->gradient;
    if (xsmi_gradient_is_dense(g)) {
        return true;
    }
    if (!g->work.gathered.used) {
        xsmi_estimator_select(e, g, first, count);
    }
    return xsmi_estimator_scores(e, g, first, count, xsmi_listed_weights(e, g)->alpha, NULL);
}

static void compute_coefficients(const xsmi_pass *p, const xsmi_piece *piece, xsmi_outcome *outcome)
{
    if (xsmi_gradient_is_shared(p->gradient)) {
        xsmi_shared_coefficients(p, piece, outcome);
        return;
    }
    const bool gathered = p->gradient->work.gathered.used;
    if (p->estimator->divided && !xsmi_gradient_is_dense(p->gradient) && !gathered) {
        outcome->finite = xsmi_divided_finite(p->gradient, piece->first, piece->count);
    } else {
        xsmi_pass_list_examples(p, piece->first, piece->count);
        outcome->finite = select_and_score(p, piece->first, piece->count);
    }
    if (outcome->finite) {
        xsmi_estimator_coefficients(p->estimator, p->gradient, piece, outcome);
    }
}

/* Whether the gradient of the rows must wait until all processes have sent their coefficients. */
static bool waits(const xsmi_pass *p)
{
    return p->estimator->divided && xsmi_gradient_is_dense(p->gradient);
}

static bool propagate_back(const xsmi_pass *p, const xsmi_piece *piece)
{
    return xsmi_gradient_is_shared(p->gradient)
               ? xsmi_shared_backward(p, piece)
               : !p->input || waits(p) || xsmi_pass_backward(p, piece->first, piece->count, piece->thread);
}

static void run_chunk(void *state, const xsmi_range *r)
{
    const xsmi_pass *p = state;
    const uint64_t first = p->first + r->first, count = r->end - r->first;
    const xsmi_piece piece = {first, count, p->batch->count, p->eta, r->thread};
    xsmi_outcome *outcome = &p->gradient->work.outcomes[r->index];
    *outcome = (xsmi_outcome){.finite = true};
    compute_coefficients(p, &piece, outcome);
    outcome->finite = outcome->finite && propagate_back(p, &piece);
    if (p->gradient->layered && outcome->finite && !waits(p)) {
        xsmi_pass_layer_backward(p, first, count, outcome);
    }
}

/* Whether a row occurs twice in a batch; yes if there is no memory for the test, which is the safe answer. */
static bool may_repeat(xsm_context *ctx, const xsm_batch *batch)
{
    if (!batch->rows) {
        return false;
    }
    uint64_t *sorted = xsmi_allocate(ctx, (size_t)batch->count, sizeof *sorted);
    bool repeats = !sorted || xsmi_batch_has_repeats(batch, sorted);
    xsmi_release(ctx, sorted, (size_t)batch->count, sizeof *sorted);
    return repeats;
}

/* Computes the scores of the classes that all examples have. */
static xsm_status score_all(const xsmi_pass *p, xsm_error *err)
{
    xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    const bool gathers = xsmi_pass_gathers(p);
    XSMI_TRY(gathers ? xsmi_gather_weights(p, err) : XSM_OK);
    if (gathers || xsmi_gradient_is_shared(g)) {
        return xsmi_gradient_is_shared(g) ? xsmi_shared_score(p, err) : XSM_OK;
    }
    const bool divided = p->estimator->divided;
    if (divided && xsmi_gradient_is_dense(g)) {
        XSMI_TRY(xsmi_divided_all_scores(p, err));
    }
    if (xsmi_gradient_is_sifted(g)) {
        xsmi_pass_list_examples(p, 0, p->batch->count);
        const xsm_status status = xsmi_sift(p->estimator, g, p->batch, divided, err);
        return xsmi_together(m, status, err);
    }
    if (divided) {
        if (!xsmi_gradient_is_dense(g)) {
            XSMI_TRY(xsmi_divided_scores(p, false, err));
            const xsmi_mine mine = xsmi_model_mine(m);
            g->work.own.first = mine.first; /* the lists stay as they are */
            g->work.own.end = mine.end;
        }
        return XSM_OK;
    }
    const xsmi_score_range all = {p->batch, 0, m->classes, g->coefficients, g->width};
    return xsmi_gradient_is_dense(g) ? xsmi_model_score_range(m, &all, g->context, &g->work.score_scratch, err)
                                     : XSM_OK;
}

/* Whether examples must be processed one after another, because two of them change the same state. */
static bool in_order(const xsmi_pass *p)
{
    const xsm_estimator *e = p->estimator;
    return (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) &&
           (e->stream ? xsmi_stream_repeats(e, p->batch) : may_repeat(e->context, p->batch));
}

static xsm_status run_chunks(xsmi_pass *p, size_t chunks, xsm_error *err)
{
    xsm_context *ctx = p->estimator->context;
    const bool divided = p->estimator->divided, together = chunks == 1 || !in_order(p);
    const size_t count = (size_t)(p->end - p->first), each = (size_t)chunk_of(p->gradient);
    if (together) {
        return xsmi_run_together(ctx, divided, run_chunk, p, count, each, err);
    }
    for (size_t i = 0; i < chunks; i++) {
        XSMI_TRY(divided ? XSM_OK : xsmi_go_on(ctx, err));
        run_chunk(p, &(xsmi_range){i * each, XSMI_MIN(i * each + each, count), i, 0});
    }
    return XSM_OK;
}

/* Joins the outcomes of the chunks to that of the batch, on a divided model with those of the other processes. */
static xsm_status end_chunks(const xsmi_pass *p, size_t chunks, xsm_status status, xsmi_outcome *outcome,
                             xsm_error *err)
{
    for (size_t i = 0; i < chunks && status == XSM_OK; i++) {
        xsmi_outcome_join(outcome, &p->gradient->work.outcomes[i]);
    }
    if (p->estimator->divided && !xsmi_gradient_is_dense(p->gradient)) {
        return xsmi_gather_results(p, status, outcome, err);
    }
    XSMI_TRY(status);
    return waits(p) ? xsmi_divided_backward(p, outcome, err) : XSM_OK;
}

/* Processes the examples in chunks, on the context's threads. */
static xsm_status one_by_one(const xsmi_pass *given, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_pass p = *given;
    p.end = p.batch->count;
    xsm_estimator *e = p.estimator;
    xsm_gradient *g = p.gradient;
    const uint32_t threads = xsmi_context_threads(e->context);
    XSMI_TRY(xsmi_estimator_reserve(e, g, p.batch->count, threads, false, err));
    const xsmi_aside drawing = {xsmi_shared_draw, &p};
    bool shared;
    XSMI_TRY(xsmi_shared_reserve(&p, &shared, err));
    const bool divided = e->divided;
    xsmi_input_gradient of_layer = {NULL, 0};
    p.input = e->hidden ? &of_layer : p.input;
    if (divided && p.input == &of_layer && !xsmi_gradient_is_dense(g)) {
        g->form = shared && xsmi_shared_is_product(&p) ? XSMI_GRADIENT_SHARED : g->form;
        p.some_hidden = xsmi_gather_range(&p);
    }
    XSMI_TRY(xsmi_pass_set_rows(&p, shared ? &drawing : NULL, err));
    if (shared && xsmi_shared_is_product(&p)) {
        g->form = XSMI_GRADIENT_SHARED;
    }
    of_layer = (xsmi_input_gradient){g->layer.gradient, g->work.rows.stride};
    XSMI_TRY(xsmi_gradient_reserve_shards(g, xsmi_pass_backward_scratch(&p), threads, err));
    if (xsmi_divided_has_sums(e)) {
        XSMI_TRY(xsmi_divided_sums(&p, outcome, err));
        return xsmi_divided_backward(&p, outcome, err);
    }
    if (divided && !xsmi_gradient_is_dense(g)) {
        (void)xsmi_gather_range(&p);
        XSMI_TRY(xsmi_gather_reserve(&p, err));
    }
    const size_t chunks = (size_t)((p.end - p.first + chunk_of(g) - 1) / chunk_of(g));
    XSMI_TRY(xsmi_gradient_reserve_outcomes(g, chunks, err));
    xsm_status status = score_all(&p, err);
    if (xsmi_gradient_is_dense(g) || xsmi_together_failed(e->model)) {
        XSMI_TRY(status); /* otherwise the other processes have their scores already, and learn of a failure from the
                             next exchange */
    }
    status = status == XSM_OK ? run_chunks(&p, chunks, err) : status;
    status = status == XSM_OK ? xsmi_estimator_check_draws(e, err) : status;
    XSMI_TRY(end_chunks(&p, chunks, status, outcome, err));
    g->decay = xsmi_estimator_decay(e, p.eta);
    return XSM_OK;
}

/* -- batches as a whole -------------------------------------------------------------------------------------------- */

/*
 * Batches that an estimator processes as a whole: one list of classes for all examples, their scores (logits), and the
 * coordinates of the rows in the basis of their span.
 */

/* Number of examples that one job scores; they are few, as each has many classes. */
#define SCORE_EXAMPLES 8

typedef struct score_job {
    const xsmi_pass *pass;
    bool *finite; /* by job */
} score_job;

static void run_scores(void *state, const xsmi_range *r)
{
    const score_job *job = state;
    const xsmi_pass *p = job->pass;
    job->finite[r->index] = true;
    if (xsmi_would_stop(p->estimator->context)) {
        return;
    }
    job->finite[r->index] = xsmi_estimator_scores(p->estimator, p->gradient, r->first, r->end - r->first,
                                                  p->estimator->model->w.alpha, NULL);
}

xsm_status xsmi_estimator_check_joint(const xsm_estimator *e, xsm_error *err)
{
    return xsmi_model_need_no_layer(e->model, "a batch of several rows that the estimator takes as a whole", err);
}

static xsm_status check(const xsmi_pass *p, xsm_error *err)
{
    XSMI_TRY(xsmi_estimator_check_joint(p->estimator, err));
    if (p->batch->values || p->input) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' takes a batch of several rows as a whole, for which their features must be "
                         "the dataset's; with features of the host's own, or for their gradient, give it one row at a "
                         "time",
                         p->estimator->ops.name);
    }
    return XSM_OK;
}

/* Fills the examples and their common list; `rows` gets each row's number. */
static xsm_status list_examples(const xsmi_pass *p, uint64_t *rows, xsm_error *err)
{
    const xsm_estimator *e = p->estimator;
    const uint64_t n = p->batch->count;
    xsm_gradient *g = p->gradient;
    if (p->batch->rows && xsmi_batch_has_repeats(p->batch, rows)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': a row is twice in the batch", e->ops.name);
    }
    xsmi_example_weighted(e, p->batch, g);
    for (uint64_t i = 0; i < n; i++) {
        rows[i] = xsmi_batch_row(p->batch, i);
        g->example[i] = xsmi_example_at(e, rows[i], e->position + i);
        xsmi_example_weigh(e, p->batch, rows[i], g, i);
    }
    e->ops.joint_select(e->state, g->example, n, g->classes, g->lengths);
    for (uint64_t i = 1; i < n; i++) {
        memcpy(g->classes + i * g->width, g->classes, g->lengths[0] * sizeof *g->classes);
        g->lengths[i] = g->lengths[0];
    }
    return XSM_OK;
}

/* Asks whether the call goes on. A cancelled call may end here: nothing stored for the rows changes before joint(). */
static xsm_status go_on(const xsmi_pass *p, xsm_error *err)
{
    const xsm_context *ctx = p->estimator->context;
    return xsmi_would_stop(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

static xsm_status score_examples(const xsmi_pass *p, bool *flags, xsmi_outcome *outcome, xsm_error *err)
{
    if (p->estimator->divided) {
        XSMI_TRY(xsmi_divided_scores(p, true, err));
        outcome->finite = xsmi_divided_finite(p->gradient, 0, p->batch->count);
        return XSM_OK;
    }
    const size_t jobs = (size_t)((p->batch->count + SCORE_EXAMPLES - 1) / SCORE_EXAMPLES);
    score_job job = {p, flags};
    XSMI_TRY(xsmi_run_ranges(p->estimator->context, run_scores, &job, p->batch->count, SCORE_EXAMPLES, err));
    for (size_t i = 0; i < jobs; i++) {
        outcome->finite &= flags[i];
    }
    return go_on(p, err);
}

/* Computes the coordinates of the rows in the basis of their span. On a divided model it succeeds on all processes or
 * on none. */
static xsm_status find_span(const xsmi_pass *p, const uint64_t *rows, const double **coordinates, size_t *rank,
                            xsm_error *err)
{
    xsm_estimator *e = p->estimator;
    xsm_status status =
        e->spans ? XSM_OK : xsmi_spans_new(e->context, e->train, e->model->kernels, e->fixed_batches, &e->spans, err);
    status =
        status == XSM_OK ? xsmi_spans_get(e->spans, rows, (size_t)p->batch->count, coordinates, rank, err) : status;
    return xsmi_together(e->model, status, err);
}

/* Calls the table's joint(), which cannot be cancelled on a divided model, as the other processes go on. If it fails on
 * one process, others may have changed the state that they store for the rows. */
static xsm_status call_joint(xsm_estimator *e, const xsm_score_block *block, xsm_error *err)
{
    if (!e->divided) {
        return e->ops.joint(e->state, block, err);
    }
    xsmi_activity shield;
    xsmi_shield(&shield, e->context);
    xsm_status status = e->ops.joint(e->state, block, err);
    xsmi_unshield(&shield);
    status = xsmi_together(e->model, status, err);
    e->apart = status != XSM_OK && status != XSM_ERROR_DIVERGED;
    return status;
}

/* Runs the stages of a joint batch. `rows` (each row's number) and `flags` (one for each job) are scratch. */
static xsm_status run_joint(const xsmi_pass *p, uint64_t *rows, bool *flags, xsmi_outcome *outcome, xsm_error *err)
{
    xsm_estimator *e = p->estimator;
    xsm_gradient *g = p->gradient;
    const uint64_t n = p->batch->count;
    XSMI_TRY(list_examples(p, rows, err));
    XSMI_TRY(score_examples(p, flags, outcome, err));
    if (!outcome->finite) {
        return XSM_OK;
    }
    const double *coordinates;
    size_t rank;
    XSMI_TRY(find_span(p, rows, &coordinates, &rank, err));
    g->decay = xsmi_estimator_own_decay(e, p->eta);
    xsm_score_block block = {
        .size = sizeof block,
        .examples = g->example,
        .count = n,
        .batch = n,
        .width = g->width,
        .lengths = g->lengths,
        .classes = g->classes,
        .scores = g->work.scores,
        .linear = xsmi_model_has_bias(e->model) ? g->work.linear : g->work.scores,
        .eta = p->eta,
        .coefficients = g->coefficients,
        .losses = g->losses,
        .scratch = g->work.scratch_each ? g->work.scratch : NULL,
        .coordinates = coordinates,
        .rank = rank,
        .decay = g->decay,
        .weights = g->weighted ? g->weights : NULL,
        .label_weights = g->label_weighted ? (const float *const *)g->label_weights : NULL,
    };
    XSMI_TRY(call_joint(e, &block, err));
    xsmi_estimator_finish_block(e->model->kernels, &block, outcome);
    return XSM_OK;
}

/* Computes several examples as a whole, with the table's joint(). Refuses batches for which that is not supported. */
static xsm_status pass_joint(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    xsm_context *ctx = p->estimator->context;
    const size_t n = (size_t)p->batch->count;
    XSMI_TRY(check(p, err));
    XSMI_TRY(xsmi_estimator_reserve(p->estimator, p->gradient, n, xsmi_context_threads(ctx), true, err));
    xsmi_held held = {.context = ctx};
    uint64_t *rows = xsmi_hold(&held, n, sizeof *rows);
    bool *flags = xsmi_hold(&held, n, sizeof *flags);
    xsm_status status = xsmi_held_check(&held, "a batch", err);
    status = status == XSM_OK ? run_joint(p, rows, flags, outcome, err) : status;
    xsmi_held_release(&held);
    return status;
}

static xsm_status check_bound(const xsm_estimator *e, xsm_error *err)
{
    if (!e->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "estimator '%s' is not bound", e->ops.name);
    }
    if (e->model->shape != e->shape || e->train->edits != e->edits) {
        return xsmi_fail(
            err, XSM_ERROR_STATE, "estimator '%s': its %s; bind it again", e->ops.name,
            e->model->shape != e->shape
                ? "model has another number of classes or features, or another geometry, than when it was bound"
                : "data have other rows, labels or classes than when it was bound");
    }
    XSMI_TRY(xsmi_model_need_together(e->model, "a gradient", err));
    return xsmi_estimator_check_rows_kept(e, err);
}

static xsm_status run_pass(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    const xsm_estimator *e = p->estimator;
    if (xsmi_estimator_is_joint(e, p->batch->count)) {
        return pass_joint(p, outcome, err);
    }
    if (xsmi_pass_recomputes(p)) {
        bool done;
        XSMI_TRY(xsmi_pass_recomputed(p, outcome, &done, err));
        if (done) {
            return XSM_OK;
        }
        *outcome = (xsmi_outcome){.finite = true};
    }
    return e->search.searcher && xsmi_searcher_begun(e->search.searcher, e->position)
               ? xsmi_pass_search(p, outcome, err)
               : one_by_one(p, outcome, err);
}

/* What a gradient is for: see xsmi_pass. */
typedef struct purpose {
    const xsmi_input_gradient *input;
    bool lists;
} purpose;

static xsm_status check_input_gradient(const xsm_estimator *e, const xsm_batch *batch, const xsmi_input_gradient *input,
                                       xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_estimator_gradient_input", XSMI_GIVEN({input->values, "input_gradient"}), err));
    if (input->stride < e->model->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "rows of the gradient %zu floats apart for %u features", input->stride,
                         e->model->features);
    }
    xsmi_region regions[1 + XSMI_BATCH_REGIONS] = {xsmi_output_rows(
        "input_gradient", input->values, batch->count, e->model->features, input->stride, sizeof *input->values)};
    xsmi_batch_regions(batch, regions + 1);
    return xsmi_check_overlap("xsm_estimator_gradient_input", regions, 1 + XSMI_BATCH_REGIONS, err);
}

/* Reads and checks a call. */
static xsm_status read_call(xsm_estimator *e, const xsm_batch *given, double eta, xsm_gradient *g, purpose what,
                            xsm_batch *batch, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_estimator_gradient", XSMI_GIVEN({given, "the batch"}, {g, "the gradient"}), err));
    g->examples = 0;
    XSMI_TRY(check_bound(e, err));
    XSMI_TRY(xsmi_estimator_check_eta(e, eta, err));
    XSMI_TRY(xsmi_estimator_read_batch(e, given, batch, err));
    if (e->ops.batch_limit && batch->count > e->ops.batch_limit) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' takes batches of %llu at most, not %llu",
                         e->ops.name, (unsigned long long)e->ops.batch_limit, (unsigned long long)batch->count);
    }
    return what.input ? check_input_gradient(e, batch, what.input, err) : XSM_OK;
}

static xsm_status gradient_of(xsm_estimator *e, const xsm_batch *given, double eta, xsm_gradient *g, purpose what,
                              xsm_error *err)
{
    xsm_batch batch = {.size = sizeof batch};
    const xsm_status status = read_call(e, given, eta, g, what, &batch, err);
    /* The trainer's batches are of rows that were compared. */
    XSMI_TRY(what.lists ? xsmi_together_batch(e->model, &batch, what.input != NULL, status, err) : status);
    /* Bounded rows are changed one by one. */
    const xsmi_pass pass = {.estimator = e,
                            .gradient = g,
                            .batch = &batch,
                            .eta = eta,
                            .input = what.input,
                            .lists = what.lists || e->row_bound > 0 || e->model->row_length};
    xsmi_outcome outcome = {.finite = true};
    XSMI_TRY(run_pass(&pass, &outcome, err));
    if (!outcome.finite) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "estimator '%s': scores or coefficients are no longer finite; try a smaller learning "
                         "rate than %g",
                         e->ops.name, eta);
    }
    XSMI_TRY(xsmi_estimator_follow(e, &batch, err));
    double loss = 0;
    for (uint64_t i = 0; i < batch.count; i++) {
        loss += g->losses[i];
    }
    g->largest = outcome.largest;
    g->loss = loss / (double)batch.count;
    g->examples = batch.count;
    e->position += batch.count;
    return XSM_OK;
}

/* Runs a call of the host's. */
static xsm_status call_gradient(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g, purpose what,
                                xsm_error *err)
{
    if (e->model && e->hidden && what.input) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "the model has a first layer of its own, whose vectors an optimizer changes: the gradient goes "
            "no further down");
    }
    xsmi_activity activity;
    if (xsmi_estimator_changes(e)) { /* ends as a whole: its state must not be half changed */
        xsmi_begin_whole(&activity, e->context, "computing a gradient", "rows");
    } else {
        xsmi_begin_short(&activity, e->context, "computing a gradient", "rows");
    }
    return xsmi_end(&activity, gradient_of(e, batch, eta, g, what, err), err);
}

xsm_status xsm_estimator_gradient(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the estimator"});
    return XSMI_TOGETHER(e->model, call_gradient(e, batch, eta, g, (purpose){NULL, true}, err), err);
}

xsm_status xsmi_estimator_step_gradient(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g,
                                        xsm_error *err)
{
    xsmi_together_begin(e->model);
    const xsm_status status = gradient_of(e, batch, eta, g, (purpose){NULL, false}, err);
    return status == XSM_OK ? status : xsmi_together(e->model, status, err);
}

xsm_status xsm_estimator_gradient_input(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g,
                                        float *input_gradient, size_t stride, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the estimator"});
    return XSMI_TOGETHER(
        e->model, call_gradient(e, batch, eta, g, (purpose){&(xsmi_input_gradient){input_gradient, stride}, true}, err),
        err);
}
