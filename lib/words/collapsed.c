/*
 * Yen et al., Loss decomposition for fast learning in large output spaces, 2018, eq. 9: the skip-gram objective with
 * equal pairs combined,
 *     f = sum_x q_x [ logsum_k exp(w_k . phi_x) - sum_y q_{y|x} w_y . phi_x ],
 *     df/dphi_x = q_x sum_k (p_{k|x} - q_{k|x}) w_k,   df/dw_k = sum_x q_x (p_{k|x} - q_{k|x}) phi_x,
 * with full-gradient steps of input and output vectors in turn. Scores (logits) are computed for one group of centres
 * at a time. With an estimator that searches, the classes of a centre are those found (collapsed_search.c).
 *
 * Sums over all words are joined by class runs.
 */
#include "words/collapsed_search.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "gradient/shards.h"
#include "words/release.h"

#include <math.h>
#include <string.h>

enum {
    GROUP = 64, /* centres scored at once */
    TILE = 512, /* words whose gradient one job changes */
    HALVINGS = 30
};

struct xsmi_collapsed {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    const xsmi_kernels *kernels;
    xsmi_word_task task;
    xsmi_collapsed_search *search; /* with an estimator, after the first count */
    xsmi_cooccurrence counts;
    uint32_t words;
    size_t dimension, stride, score_stride;
    float *scores;   /* [GROUP][score_stride], without an estimator */
    float *gradient; /* [words][stride] */
    float *shards;   /* [threads][shards_each], without an estimator */
    size_t shards_each;
    double losses[GROUP];
    uint64_t *pairs[2]; /* [V] pairs of each word as centre, as context */
    uint64_t all;
    uint32_t most_contexts; /* of a centre */
    bool counted;
};

/* -- life ---------------------------------------------------------------------------------------------------------- */

/* Allocates what scoring all words for a group needs. */
static xsm_status allocate_group(xsmi_collapsed *c, xsm_error *err)
{
    c->score_stride = xsmi_row_stride(c->words);
    c->shards_each = xsmi_shard_scratch(c->words) * c->dimension;
    c->scores = xsmi_hold(&c->held, (uint64_t)GROUP * c->score_stride, sizeof *c->scores);
    c->shards = xsmi_hold(&c->held, xsmi_context_threads(c->context), c->shards_each * sizeof *c->shards);
    return xsmi_held_check(&c->held, "the collapsed objective", err);
}

xsm_status xsmi_collapsed_new(const xsmi_word_task *task, const xsm_skipgram_fit_options *o, xsmi_collapsed **out,
                              xsm_error *err)
{
    xsm_context *ctx = task->context;
    xsmi_collapsed *c;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &c, xsmi_collapsed, "the collapsed objective", err));
    c->held.context = ctx;
    c->kernels = xsmi_context_kernels(ctx);
    c->task = *task;
    c->words = task->corpus->info.words;
    c->dimension = task->input->features;
    c->stride = xsmi_row_stride(c->dimension);
    c->gradient = xsmi_hold(&c->held, (uint64_t)c->words * c->stride, sizeof *c->gradient);
    c->pairs[0] = xsmi_hold_zeros(&c->held, c->words, sizeof(uint64_t));
    c->pairs[1] = xsmi_hold_zeros(&c->held, c->words, sizeof(uint64_t));
    xsm_status status = xsmi_held_check(&c->held, "the collapsed objective", err);
    if (status == XSM_OK && !task->estimator) {
        status = allocate_group(c, err);
    }
    if (status == XSM_OK) {
        const xsmi_text_settings settings = {o->window, o->subsample, o->seed};
        status = xsmi_cooccurrence_start(&c->counts, ctx, task->corpus, &settings, o->memory, err);
    }
    if (status != XSM_OK) {
        xsmi_collapsed_free(c);
        return status;
    }
    *out = c;
    return XSM_OK;
}

void xsmi_collapsed_free(xsmi_collapsed *c)
{
    if (c) {
        xsmi_collapsed_search_free(c->search);
        xsmi_cooccurrence_clear(&c->counts);
        xsmi_held_release(&c->held);
        XSMI_OBJECT_FREE(c, xsmi_collapsed);
    }
}

const float *xsmi_collapsed_gradient(const xsmi_collapsed *c)
{
    return c->gradient;
}

/* -- a group of centres -------------------------------------------------------------------------------------------- */

typedef struct group {
    xsmi_collapsed *c;
    int side;
    uint32_t first, count;
    const float *x; /* the centres' vectors, input->stride apart */
} group;

/* A centre's coefficients of all words. */
typedef struct centre {
    const xsmi_collapsed *c;
    const float *coefficients;
} centre;

static bool sum_words(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    const centre *s = state;
    const xsmi_collapsed *c = s->c;
    const xsm_model *m = c->task.output;
    (void)stride;
    memset(out, 0, c->dimension * sizeof *out);
    c->kernels->column_sums(m->w.weight + first * m->w.stride, m->w.stride, NULL, s->coefficients + first, end - first,
                            c->dimension, out);
    return true;
}

/* Converts a centre's scores to n_x p_k - n_xk, computes its loss and, if wanted, its own gradient. */
static void run_row(void *state, size_t index, uint32_t thread)
{
    const group *g = state;
    xsmi_collapsed *c = g->c;
    const xsmi_cooccurrence *n = &c->counts;
    const uint32_t word = g->first + (uint32_t)index, row = word - n->first;
    float *z = c->scores + index * c->score_stride;
    const double total = (double)c->pairs[XSMI_INPUT][word];
    const float most = c->kernels->row_max(z, c->words);
    double sum = 0, right = 0;
    uint64_t i = n->offsets[row];
    for (size_t from = 0; from < c->words; from += XSMI_RUN_CLASSES) {
        const size_t end = XSMI_MIN(from + XSMI_RUN_CLASSES, c->words);
        double contexts = 0;
        for (; i < n->offsets[row + 1] && n->contexts[i] < end; i++) {
            contexts += (double)n->numbers[i] * (double)z[n->contexts[i]];
        }
        sum += c->kernels->row_sum_exp(z + from, end - from, most);
        right += contexts;
    }
    c->losses[index] = total > 0 ? total * ((double)most + log(sum)) - right : 0;
    c->kernels->row_softmax(z, c->words, most, (float)(total / sum), z);
    for (i = n->offsets[row]; i < n->offsets[row + 1]; i++) {
        z[n->contexts[i]] -= (float)n->numbers[i];
    }
    if (g->side != XSMI_INPUT) {
        return;
    }
    float *gradient = c->gradient + (size_t)word * c->stride;
    memset(gradient, 0, c->dimension * sizeof *gradient);
    if (total > 0) {
        centre own = {c, z};
        const xsmi_shard_sums sums = {.kernels = c->kernels,
                                      .classes = c->words,
                                      .rows = 1,
                                      .width = c->dimension,
                                      .sum = sum_words,
                                      .state = &own};
        xsmi_shard_all(&sums, gradient, c->dimension, c->shards + thread * c->shards_each);
        c->kernels->scale(gradient, c->dimension, (float)(1 / total));
    }
}

/* Adds the group to the gradients of some output vectors. */
static void add_tile(void *state, const xsmi_range *r)
{
    const group *g = state;
    xsmi_collapsed *c = g->c;
    const float *x[GROUP];
    for (uint32_t i = 0; i < g->count; i++) {
        x[i] = g->x + i * c->task.input->w.stride;
    }
    c->kernels->rank_update(c->gradient + r->first * c->stride, c->stride, r->end - r->first, c->scores + r->first,
                            c->score_stride, x, g->count, c->dimension);
}

static xsm_status add_group(xsmi_collapsed *c, int side, uint32_t first, uint32_t count, double *loss, xsm_error *err)
{
    const xsm_model *input = c->task.input;
    group g = {c, side, first, count, input->w.weight + (size_t)first * input->w.stride};
    xsm_batch batch = xsm_batch_values(g.x, count, (uint32_t)c->dimension, input->w.stride);
    XSMI_TRY(xsm_model_score_range(c->task.output, &batch, 0, c->words, c->scores, c->score_stride, err));
    XSMI_TRY(xsmi_run(c->context, run_row, &g, count, err));
    if (side == XSMI_OUTPUT) {
        XSMI_TRY(xsmi_run_ranges(c->context, add_tile, &g, c->words, TILE, err));
    }
    for (uint32_t i = 0; i < count; i++) {
        *loss += c->losses[i];
    }
    return XSM_OK;
}

/* Counts all pairs, by centre and by context. If the counts of the text do not fit, this passes over its parts. */
static xsm_status count_pairs(xsmi_collapsed *c, xsm_error *err)
{
    const xsmi_cooccurrence *n = &c->counts;
    memset(c->pairs[XSMI_INPUT], 0, c->words * sizeof(uint64_t));
    memset(c->pairs[XSMI_OUTPUT], 0, c->words * sizeof(uint64_t));
    c->all = 0;
    for (uint32_t first = 0; first < c->words; first = n->end) {
        XSMI_TRY(xsmi_cooccurrence_count(&c->counts, first, err));
        for (uint32_t k = n->first; k < n->end; k++) {
            const uint64_t from = n->offsets[k - n->first], to = n->offsets[k - n->first + 1];
            c->most_contexts = (uint32_t)XSMI_MAX(to - from, c->most_contexts);
            for (uint64_t i = from; i < to; i++) {
                c->pairs[XSMI_INPUT][k] += n->numbers[i];
                c->pairs[XSMI_OUTPUT][n->contexts[i]] += n->numbers[i];
                c->all += n->numbers[i];
            }
        }
    }
    if (c->all == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: no two words of the vocabulary stand together",
                         n->text.corpus->path);
    }
    c->counted = true;
    return XSM_OK;
}

static xsm_status prepare(xsmi_collapsed *c, int side, xsm_error *err)
{
    if (!c->counted) {
        XSMI_TRY(count_pairs(c, err));
    }
    if (c->task.estimator && !c->search) {
        return xsmi_collapsed_search_new(&c->task, c->pairs[XSMI_INPUT], c->most_contexts, &c->search, err);
    }
    if (c->search && side == XSMI_INPUT) { /* this follows a step of the output vectors */
        xsmi_collapsed_search_moved(c->search);
    }
    return XSM_OK;
}

xsm_status xsmi_collapsed_at(xsmi_collapsed *c, int side, double *objective, xsm_error *err)
{
    double loss = 0;
    XSMI_TRY(prepare(c, side, err));
    if (side == XSMI_OUTPUT) {
        memset(c->gradient, 0, c->words * c->stride * sizeof *c->gradient);
    }
    for (uint32_t first = 0; first < c->words; first = c->counts.end) {
        XSMI_TRY(xsmi_cooccurrence_count(&c->counts, first, err));
        if (c->search) {
            XSMI_TRY(xsmi_collapsed_search_add(c->search, &c->counts, side, c->gradient, &loss, err));
            continue;
        }
        for (uint32_t at = first; at < c->counts.end; at += GROUP) {
            const uint32_t count = XSMI_MIN(c->counts.end - at, GROUP);
            XSMI_TRY(add_group(c, side, at, count, &loss, err));
        }
    }
    for (uint32_t k = 0; side == XSMI_OUTPUT && k < c->words; k++) {
        const double n = (double)c->pairs[XSMI_OUTPUT][k];
        c->kernels->scale(c->gradient + k * c->stride, c->dimension, n > 0 ? (float)(1 / n) : 0);
    }
    *objective = loss / (double)c->all;
    return XSM_OK;
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

static xsm_status read_options(const xsm_skipgram_fit_options *given, const xsm_corpus *corpus,
                               xsm_skipgram_fit_options *o, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_skipgram_fit_options, o, given, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_skipgram_fit_options, o, reserved, err));
    xsm_skipgram_options text = XSM_SKIPGRAM_OPTIONS_INIT;
    text.window = o->window;
    text.subsample = o->subsample;
    text.eta = o->eta == 0 ? XSMI_DEFAULT(xsm_skipgram_fit_options, eta) : o->eta;
    XSMI_TRY(xsmi_skipgram_read_options(&text, corpus, &text, err));
    o->window = text.window;
    o->subsample = text.subsample;
    o->eta = text.eta;
    o->iterations = o->iterations ? o->iterations : XSMI_DEFAULT(xsm_skipgram_fit_options, iterations);
    o->memory =
        o->memory ? o->memory : XSMI_MIN(SIZE_MAX / 4, (uint64_t)XSMI_DEFAULT(xsm_skipgram_fit_options, memory));
    if (o->memory < UINT64_C(64) * corpus->info.words || o->memory > SIZE_MAX / 4) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%llu bytes for counts of pairs; accepted are %llu (64 for each word) and "
                         "up",
                         (unsigned long long)o->memory, 64ULL * corpus->info.words);
    }
    return XSM_OK;
}

typedef struct descent {
    xsmi_held held; /* the arrays */
    xsmi_collapsed *at;
    xsm_model *models[2];
    float *before; /* [words][stride] the vectors before a step */
    float *slope;  /* [words][stride] the gradient there */
    size_t floats;
    double eta[2], objective;
    xsm_skipgram_fit_options options;
    uint64_t steps;
    double start;
} descent;

/* Sets the vectors of one side to those before the step, less eta times the gradient. */
static void move(const descent *d, int side, double eta)
{
    xsm_model *m = d->models[side];
    for (uint32_t k = 0; k < m->classes; k++) {
        float *row = m->w.weight + (size_t)k * m->w.stride;
        memcpy(row, d->before + k * d->at->stride, m->features * sizeof *row);
        if (eta > 0) {
            m->kernels->axpby(row, d->slope + k * d->at->stride, m->features, (float)-eta, 1);
        }
    }
}

/* Calls the callback; XSM_CANCELLED if it asks to stop. */
static xsm_status report(const descent *d, double eta, xsm_error *err)
{
    xsm_progress p;
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    p.step = d->steps;
    p.steps = 2 * d->options.iterations;
    p.epoch = d->steps / 2;
    p.epochs = d->options.iterations;
    p.epoch_ended = d->steps > 0 && d->steps % 2 == 0;
    p.examples = d->steps * d->at->all;
    p.eta = eta;
    p.seconds = xsmi_seconds() - d->start;
    p.loss = p.objective = d->objective;
    p.gradient_norm = (double)NAN;
    bool stop = false;
    if (d->options.progress) {
        XSMI_CALL_HOST(stop = d->options.progress(d->options.progress_user, &p) != 0);
    }
    return stop
               ? xsmi_fail(err, XSM_CANCELLED, "stopped by the callback after %llu steps", (unsigned long long)d->steps)
               : XSM_OK;
}

/* Takes a step of one side along its gradient, then computes the gradient of the other side. *moved becomes false if no
 * step lowers the objective. */
static xsm_status step(descent *d, int side, bool *moved, xsm_error *err)
{
    xsm_model *m = d->models[side];
    for (uint32_t k = 0; k < m->classes; k++) {
        memcpy(d->before + k * d->at->stride, m->w.weight + (size_t)k * m->w.stride, m->features * sizeof(float));
    }
    memcpy(d->slope, d->at->gradient, d->floats * sizeof(float));
    *moved = false;
    xsm_status status = XSM_OK;
    for (int i = 0; i < HALVINGS && !*moved && status == XSM_OK; i++) {
        double f;
        move(d, side, d->eta[side]);
        status = xsmi_collapsed_at(d->at, !side, &f, err);
        if (status == XSM_OK && f < d->objective) { /* false for NaN */
            d->objective = f;
            *moved = true;
        } else {
            d->eta[side] /= 2;
        }
    }
    if (!*moved) {
        move(d, side, 0);
    }
    return status;
}

static xsm_status run(descent *d, xsm_error *err)
{
    XSMI_TRY(xsmi_collapsed_at(d->at, XSMI_INPUT, &d->objective, err));
    if (!isfinite(d->objective)) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED, "the collapsed objective is not finite at these vectors");
    }
    XSMI_TRY(report(d, 0, err));
    bool any = true;
    for (uint64_t i = 0; i < d->options.iterations && any; i++) {
        any = false;
        for (int side = XSMI_INPUT; side <= XSMI_OUTPUT; side++) {
            bool moved;
            XSMI_TRY(step(d, side, &moved, err));
            any |= moved;
            d->steps++;
            xsmi_advance(d->at->context, 1);
            XSMI_TRY(report(d, moved ? d->eta[side] : 0, err));
            d->eta[side] *= 1.1;
            if (!moved) {
                double same; /* not used: the gradient, which is that of a step that was undone, is computed again */
                XSMI_TRY(xsmi_collapsed_at(d->at, !side, &same, err));
            }
        }
    }
    return XSM_OK;
}

/* Allocates the memory of a descent whose task was checked. */
static xsm_status start(descent *d, const xsmi_word_task *task, xsm_error *err)
{
    XSMI_TRY(xsmi_collapsed_new(task, &d->options, &d->at, err));
    d->floats = d->at->words * d->at->stride;
    d->held.context = task->context;
    d->before = xsmi_hold(&d->held, d->floats, sizeof *d->before);
    d->slope = xsmi_hold(&d->held, d->floats, sizeof *d->slope);
    return xsmi_held_check(&d->held, "a step of all vectors", err);
}

static xsm_status fit(descent *d, const xsmi_word_task *task, xsm_error *err)
{
    xsmi_activity activity;
    xsmi_begin(&activity, task->context, "fitting word vectors", "steps", 2 * d->options.iterations);
    xsm_status status = start(d, task, err);
    status = status == XSM_OK ? run(d, err) : status;
    status = xsmi_end(&activity, status, err);
    xsmi_held_release(&d->held);
    xsmi_collapsed_free(d->at);
    return status;
}

xsm_status xsm_skipgram_fit(xsm_context *context, const xsm_corpus *corpus, xsm_model *input, xsm_model *output,
                            const xsm_skipgram_fit_options *options, double *objective, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_words_check_release(err));
    XSMI_NEED(err, {corpus, "the corpus"}, {input, "the input model"}, {output, "the output model"});
    descent d = {.options = XSM_SKIPGRAM_FIT_OPTIONS_INIT, .start = xsmi_seconds()};
    XSMI_TRY(read_options(options, corpus, &d.options, err));
    XSMI_TRY(xsmi_word_models_check(corpus, input, output, err));
    XSMI_TRY(xsmi_model_need_plain(input, "the input of word vectors", err));
    XSMI_TRY(xsmi_model_need_plain(output, "the output of word vectors, with full gradients,", err));
    d.models[XSMI_INPUT] = input;
    d.models[XSMI_OUTPUT] = output;
    d.eta[0] = d.eta[1] = d.options.eta;
    xsm_context *ctx = NULL;
    xsm_status status = xsmi_context_acquire(context, &ctx, err);
    if (status == XSM_OK) {
        status = fit(&d, &(xsmi_word_task){ctx, corpus, input, output, d.options.estimator}, err);
    }
    if (objective && (status == XSM_OK || status == XSM_CANCELLED)) {
        *objective = d.objective;
    }
    xsm_context_free(ctx);
    return status;
}
