/*
 * Skip-gram training (Mikolov et al., Distributed representations of words and phrases and their compositionality,
 * 2013): passes over a text, the learning rate, the callback. Steps are in skipgram_batch.c.
 */
#include "words/skipgram.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "train/trainer.h"
#include "words/release.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

/* Seconds between two calls of the callback within an epoch. */
#define CALLBACK_INTERVAL 0.2
#define WINDOW_MOST 256
/* The limit of rate times changes of the most frequent word in a batch: 70 changes at 0.05. */
#define CHANGES_AT_ETA 3.5

struct xsm_skipgram {
    xsm_context *context;
    /* All of these are references. */
    const xsm_corpus *corpus;
    xsm_model *input, *output;
    xsm_estimator *estimator; /* or NULL */
    xsm_dataset *rows;        /* input vectors as rows of features, with an estimator */
    uint32_t *labels;         /* [V] */
    xsm_skipgram_options options;
    xsmi_skipgram_batch *batch;
    xsmi_centres text;
    uint64_t epoch, step, pairs;    /* step: words of the complete epochs and of this one */
    uint64_t epoch_pairs, position; /* position: centres taken */
    double loss_sum, eta, seconds, last_call;
    bool open;    /* the text is open, within an epoch */
    bool pending; /* an epoch is complete and not yet reported */
};

/* -- settings ------------------------------------------------------------------------------------------------------ */

/*
 * Returns the number of centres whose steps can be taken together. A batch sums all changes of a word from the same
 * starting point. It overshoots if a word is in too many of them, and the most frequent word is in most. Penn Treebank,
 * window 8, 15 words drawn, rate 0.05, loss after an epoch: 3.93 with 50 changes of that word a batch, 4.07 with 150,
 * 4.40 with 380, which diverges in a longer run.
 */
static uint32_t choose_batch(const xsm_skipgram_options *o, const xsm_corpus *corpus)
{
    const uint32_t words = corpus->info.words;
    double drawn = 0, kept = 0, most = 0;
    for (uint32_t k = 0; k < words; k++) {
        const double share = (double)corpus->counts[k] / (double)corpus->info.known;
        const double keep = o->subsample >= 1 ? 1 : sqrt(o->subsample / share) + o->subsample / share;
        const double stays = share * XSMI_MIN(keep, 1);
        drawn += pow((double)corpus->counts[k] / (double)corpus->counts[0], o->power);
        kept += stays;
        most = XSMI_MAX(stays, most);
    }
    const double contexts = o->window + 1.0; /* of a centre, on average */
    const double changes = contexts * (o->negatives / drawn + most / kept);
    const double stable = CHANGES_AT_ETA / (o->eta * changes);
    uint32_t share = words / 64;
    share = XSMI_CLAMP(share, 16, 256);
    return stable < 1 ? 1 : stable < share ? (uint32_t)stable : share;
}

xsm_status xsmi_skipgram_read_options(const xsm_skipgram_options *given, const xsm_corpus *corpus,
                                      xsm_skipgram_options *o, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_skipgram_options, o, given, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_skipgram_options, o, reserved, err));
    o->epochs = o->epochs ? o->epochs : XSMI_DEFAULT(xsm_skipgram_options, epochs);
    o->window = o->window ? o->window : XSMI_DEFAULT(xsm_skipgram_options, window);
    o->negatives = o->negatives ? o->negatives : XSMI_DEFAULT(xsm_skipgram_options, negatives);
    o->power = o->power == XSM_DEFAULT ? XSMI_DEFAULT(xsm_skipgram_options, power) : o->power;
    o->subsample = o->subsample == 0 ? XSMI_DEFAULT(xsm_skipgram_options, subsample) : o->subsample;
    o->eta = o->eta == 0 ? XSMI_DEFAULT(xsm_skipgram_options, eta) : o->eta;
    if (o->window > WINDOW_MOST || o->negatives > WINDOW_MOST) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a window of %u with %u negatives; accepted are up to %d each",
                         o->window, o->negatives, WINDOW_MOST);
    }
    if (!(o->power >= 0 && o->power <= 10)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a power of %g; accepted is 0 (all words alike) to 10", o->power);
    }
    if (!(o->subsample > 0)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a subsampling threshold of %g; accepted is above 0", o->subsample);
    }
    if (o->batch > XSMI_BATCH_MOST) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "batches of %u centre words; accepted are up to %d", o->batch,
                         XSMI_BATCH_MOST);
    }
    XSMI_TRY(xsmi_check_eta(o->eta, err));
    o->batch = o->batch ? o->batch : choose_batch(o, corpus);
    return XSM_OK;
}

static xsm_status check_model(const xsm_corpus *corpus, const xsm_model *m, const char *what, xsm_error *err)
{
    XSMI_TRY(xsmi_context_need_alone(m->context, "a word model", err));
    if (m->classes != corpus->info.words) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the %s model has %u classes, the corpus %u words", what, m->classes,
                         corpus->info.words);
    }
    if (xsmi_model_has_bias(m)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "the %s model has a bias; word vectors have none", what);
    }
    return XSM_OK;
}

/* Converts the weights to class-major rows without scales, in memory. */
static xsm_status make_plain(xsm_model *m, xsm_error *err)
{
    XSMI_TRY(xsm_model_set_layout(m, XSM_LAYOUT_CLASS_MAJOR, err));
    xsm_parameters p = XSM_PARAMETERS_INIT; /* asking for parameters multiplies scales into the rows and copies mapped
                                               weights */
    return xsm_model_get_parameters(m, &p, err);
}

xsm_status xsmi_word_models_check(const xsm_corpus *corpus, xsm_model *input, xsm_model *output, xsm_error *err)
{
    if (input == output) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "input and output vectors are to be two models");
    }
    XSMI_TRY(check_model(corpus, input, "input", err));
    XSMI_TRY(check_model(corpus, output, "output", err));
    if (input->features != output->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "input vectors of %u features, output vectors of %u", input->features,
                         output->features);
    }
    if (corpus->info.words < 2) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: a vocabulary of one word has nothing to predict", corpus->path);
    }
    XSMI_TRY(make_plain(input, err));
    XSMI_TRY(make_plain(output, err));
    if (xsmi_model_is_zero(input) && xsmi_model_is_zero(output)) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "all vectors are zero, where every gradient is zero too; start the "
                         "input vectors with a spread above 0");
    }
    return XSM_OK;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

/* Binds the estimator to the output vectors, with the input vectors as rows. */
static xsm_status bind_rows(xsm_skipgram *t, xsm_error *err)
{
    const uint32_t words = t->corpus->info.words;
    XSMI_TRY(xsmi_array_new(t->context, &t->labels, words, sizeof *t->labels, "word vectors as rows", err));
    for (uint32_t k = 0; k < words; k++) {
        t->labels[k] = k;
    }
    xsm_labels labels = {sizeof labels, words, 0, NULL, t->labels, NULL};
    XSMI_TRY(xsm_dataset_from_dense(t->context,
                                    &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                      .values = t->input->w.weight,
                                                      .stride = t->input->w.stride,
                                                      .rows = words,
                                                      .features = t->input->features,
                                                      .labels = &labels,
                                                      .ownership = XSM_BORROW},
                                    &t->rows, err));
    memcpy(t->rows->map.counts, t->corpus->counts, words * sizeof *t->rows->map.counts);
    return xsm_estimator_bind(t->estimator, t->output, t->rows, err);
}

static xsm_status bind_estimator(xsm_skipgram *t, xsm_error *err)
{
    const xsm_estimator *e = t->estimator;
    XSMI_TRY(bind_rows(t, err));
    if (e->exact) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' scores every class; skip-gram training takes one that draws them",
                         e->ops.name);
    }
    if (e->search.searcher) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' searches for classes; skip-gram training takes one that draws them, and "
                         "xsm_skipgram_fit() takes full gradients by searching",
                         e->ops.name);
    }
    if (e->common.ridge > 0 || e->row_bound > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' has a %s; word vectors are trained without",
                         e->ops.name, e->common.ridge > 0 ? "ridge" : "bound on the rows of weights");
    }
    XSMI_TRY(xsmi_estimator_check_eta(e, t->options.eta, err));
    return XSM_OK;
}

/* Makes a trainer for a task that was checked; of->context may be NULL. */
static xsm_status make(const xsmi_word_task *of, const xsm_skipgram_options *o, xsm_skipgram **out, xsm_error *err)
{
    xsm_skipgram *t;
    XSMI_TRY(XSMI_OBJECT_NEW(of->context, &t, xsm_skipgram, "a skip-gram trainer", err));
    xsm_context *ctx = t->context;
    t->corpus = xsmi_corpus_retain(of->corpus);
    t->input = xsmi_model_retain(of->input);
    t->output = xsmi_model_retain(of->output);
    t->estimator = xsmi_estimator_retain(of->estimator);
    t->options = *o;
    t->text.words.source.fd = -1;
    xsm_status status = of->estimator ? bind_estimator(t, err) : XSM_OK;
    if (status == XSM_OK) {
        const xsmi_word_task task = {ctx, of->corpus, of->input, of->output, of->estimator};
        status = xsmi_skipgram_batch_new(&task, o, &t->batch, err);
    }
    if (status == XSM_OK) {
        const xsmi_text_settings settings = {o->window, o->subsample, o->seed};
        status = xsmi_centres_open(&t->text, ctx, of->corpus, &settings, err);
    }
    if (status != XSM_OK) {
        xsm_skipgram_free(t);
        return status;
    }
    if (of->estimator) {
        xsmi_model_take_head(of->output, of->estimator->head);
    }
    *out = t;
    return XSM_OK;
}

xsm_status xsm_skipgram_new(xsm_context *context, const xsm_corpus *corpus, xsm_model *input, xsm_model *output,
                            xsm_estimator *estimator, const xsm_skipgram_options *options, xsm_skipgram **out,
                            xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_words_check_release(err));
    XSMI_NEED(err, {corpus, "the corpus"}, {input, "the input model"}, {output, "the output model"}, {out, "out"});
    xsm_skipgram_options o = XSM_SKIPGRAM_OPTIONS_INIT;
    XSMI_TRY(xsmi_skipgram_read_options(options, corpus, &o, err));
    XSMI_TRY(xsmi_word_models_check(corpus, input, output, err));
    XSMI_TRY(xsmi_model_need_plain(input, "the input of word vectors", err));
    XSMI_TRY(estimator ? XSM_OK : xsmi_model_need_plain(output, "the output of word vectors", err));
    const xsmi_word_task given = {context, corpus, input, output, estimator};
    return make(&given, &o, out, err);
}

void xsm_skipgram_free(xsm_skipgram *t)
{
    if (t) {
        xsm_context *ctx = t->context;
        const uint32_t words = t->corpus->info.words;
        if (t->estimator && t->rows && t->estimator->train == t->rows) {
            xsmi_estimator_unbind(t->estimator); /* the rows are the input model's memory */
        }
        xsmi_skipgram_batch_free(t->batch);
        xsmi_centres_close(&t->text, ctx);
        xsm_dataset_free(t->rows);
        xsmi_release(ctx, t->labels, words, sizeof *t->labels);
        xsm_estimator_free(t->estimator);
        xsm_model_free(t->output);
        xsm_model_free(t->input);
        xsmi_corpus_release(t->corpus);
        XSMI_OBJECT_FREE(t, xsm_skipgram);
    }
}

/* -- progress ------------------------------------------------------------------------------------------------------ */

static xsm_progress progress_of(const xsm_skipgram *t)
{
    xsm_progress p;
    memset(&p, 0, sizeof p);
    p.size = sizeof p;
    p.epoch = t->epoch;
    p.epochs = t->options.epochs;
    p.step = t->step;
    p.steps = t->options.epochs * t->corpus->info.known;
    p.examples = t->pairs;
    p.eta = t->eta;
    p.seconds = t->seconds;
    p.loss = t->epoch_pairs ? t->loss_sum / (double)t->epoch_pairs : (double)NAN;
    p.epoch_ended = t->pending;
    p.objective = p.gradient_norm = (double)NAN;
    return p;
}

xsm_status xsm_skipgram_get_progress(const xsm_skipgram *t, xsm_progress *progress, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "the trainer"});
    xsm_progress p = progress_of(t);
    return XSMI_WRITE(xsm_progress, &p, progress, err);
}

/* Calls the callback; true if it requests to stop. */
static bool report(xsm_skipgram *t)
{
    if (!t->options.progress) {
        return false;
    }
    xsm_progress p = progress_of(t);
    bool stop;
    XSMI_CALL_HOST(stop = t->options.progress(t->options.progress_user, &p) != 0);
    t->last_call = xsmi_seconds();
    return stop;
}

/* -- running ------------------------------------------------------------------------------------------------------- */

/* Runs the next batch; *last = true for the epoch's last. */
static xsm_status advance(xsm_skipgram *t, bool *last, xsm_error *err)
{
    const uint64_t known = t->corpus->info.known;
    if (!t->open) {
        XSMI_TRY(xsmi_centres_rewind(&t->text, err));
        t->open = true;
        t->loss_sum = 0;
        t->epoch_pairs = 0;
    }
    double left = 1 - (double)t->step / (double)(t->options.epochs * known);
    /* The rate of the last steps must be valid for a step. */
    t->eta = t->options.eta * XSMI_MAX(left, 1e-4);
    xsmi_batch_result ran;
    xsm_status status = xsmi_skipgram_batch_run(t->batch, &t->text, t->position, t->eta, &ran, err);
    if (status == XSM_ERROR_DIVERGED) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         t->options.batch > 1
                             ? "training diverged in epoch %llu: scores are no longer finite; try a smaller learning "
                               "rate than %g, or smaller batches than %u"
                             : "training diverged in epoch %llu: scores are no longer finite; try a smaller learning "
                               "rate than %g",
                         (unsigned long long)t->epoch + 1, t->options.eta, t->options.batch);
    }
    XSMI_TRY(status);
    t->position += ran.steps;
    t->pairs += ran.pairs;
    t->epoch_pairs += ran.pairs;
    t->loss_sum += ran.loss;
    if (ran.steps > 0) {
        t->step = t->epoch * known + ran.known;
    }
    *last = ran.last;
    if (*last && ran.known != known) {
        return xsmi_fail(err, XSM_ERROR_STATE, "%s has changed: it held %llu known words, and now %llu",
                         t->corpus->path, (unsigned long long)known, (unsigned long long)ran.known);
    }
    if (*last && t->pairs == 0) {
        return xsmi_fail(
            err, XSM_ERROR_DATA,
            "%s: no line has two words that subsampling keeps, so that there is nothing to learn; a line is "
            "a sentence, and a subsampling threshold of 1 keeps all words",
            t->corpus->path);
    }
    return XSM_OK;
}

/* Returns XSM_CANCELLED if the callback or the hook has stopped the run. */
static xsm_status go_on(xsm_skipgram *t, bool stop, xsm_error *err)
{
    const bool steps = !t->pending && t->epoch < t->options.epochs;
    return stop ? xsmi_fail(err, XSM_CANCELLED, "stopped by the callback after %llu words", (unsigned long long)t->step)
           : steps ? xsmi_go_on(t->context, err)
                   : XSM_OK;
}

static xsm_status run(xsm_skipgram *t, xsmi_activity *activity, xsm_error *err)
{
    bool stop = t->step == 0 && report(t);
    while (true) {
        xsmi_reach(activity, t->step);
        XSMI_TRY(go_on(t, stop, err));
        if (t->pending) {
            stop = report(t);
            t->pending = false;
            continue;
        }
        if (t->epoch >= t->options.epochs) {
            return XSM_OK;
        }
        const double start = xsmi_seconds();
        bool last = false;
        xsmi_activity shield;
        xsmi_shield(&shield, t->context); /* a batch is completed, so that the words read for it are used */
        xsm_status status = advance(t, &last, err);
        xsmi_unshield(&shield);
        const double end = xsmi_seconds();
        t->seconds += end - start;
        XSMI_TRY(status);
        if (last) {
            t->epoch++;
            t->open = false;
            t->pending = true;
        } else if (end - t->last_call > CALLBACK_INTERVAL) {
            stop = report(t);
        }
    }
}

xsm_status xsm_skipgram_run(xsm_skipgram *t, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "the trainer"});
    if (t->estimator && (t->estimator->train != t->rows || t->estimator->model != t->output)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the estimator has been bound to something else since");
    }
    xsmi_activity activity;
    xsmi_begin(&activity, t->context, "training", "words", t->options.epochs * t->corpus->info.known);
    return xsmi_end(&activity, run(t, &activity, err), err);
}
