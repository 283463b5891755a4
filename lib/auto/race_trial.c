/*
 * A trial of an entrant: a run like that on all rows, with all passes and the whole schedule, but on the rows of the
 * present share; the rows that were held back judge its model.
 */
#include "auto/choose.h"

#include "base/entry.h"
#include "base/order.h"

#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/fit.h>

#include <limits.h>
#include <math.h>
#include <string.h>

/* Rates are half powers of ten in units of 1 / median ||x||^2, L2 penalties in units of RIDGE_UNIT. adagrad in batches
 * begins at BATCH_TIMES that rate, and an embedding model, whose rates are powers of two, at VECTOR_RATE. */
#define RIDGE_UNIT 0.1
#define VECTOR_RATE 0.05
#define BATCH_TIMES 2.0
/* A temperature of one half or two must add DOUBT to the log-likelihood of the rows that judge: few rows do not
 * determine it. With all rows, its binary logarithm may differ by DRIFT times the share of the rows that the trial
 * lacked. */
#define DOUBT 8.0
#define DRIFT 0.2
/* The rate falls to this share of its first value in the run. */
#define FALL 0.1
/* The tolerance of lbfgs. */
#define TOLERANCE 1e-4
/* Strengths of pairs are doubled from PAIRS_FIRST to PAIRS_MOST. */
#define PAIRS_FIRST 2.0
#define PAIRS_MOST 4.0

/* -- settings ------------------------------------------------------------------------------------------------------ */

/* Rounds to one significant digit: 3, not 3.1623. Negative powers of ten are not exact, but a division by a power
 * rounds only once. */
static double rounded(double x)
{
    double power = floor(log10(x) + 1e-9), unit = pow(10, fabs(power));
    return power < 0 ? floor(x * unit + 0.5) / unit : floor(x / unit + 0.5) * unit;
}

double xsmi_race_eta(const xsmi_chooser *c, const xsmi_entrant *e)
{
    const xsmi_line *line = e->line;
    const double squared = c->rows.squared[xsmi_slot(e)] > 0 ? c->rows.squared[xsmi_slot(e)] : 1;
    return line->full || !line->estimator ? 0
           : c->run.eta > 0               ? c->run.eta
           : line->hidden                 ? ldexp(VECTOR_RATE, e->rate)
                          : rounded((line->initial > 0 ? BATCH_TIMES : 1) * pow(10, e->rate / 2.0) / squared);
}

double xsmi_race_ridge(const xsmi_entrant *e)
{
    return e->ridge == INT_MIN ? e->line->ridge : rounded(RIDGE_UNIT * pow(10, e->ridge / 2.0));
}

uint64_t xsmi_race_epochs(const xsmi_entrant *e)
{
    uint64_t epochs = e->line->epochs;
    for (uint32_t i = 0; i < e->longer; i++) {
        epochs *= 3;
    }
    return epochs;
}

/* On less than the largest share, a trial of an embedding model makes half of the passes: they are expensive, and the
 * last of them show little. */
uint64_t xsmi_race_passes(const xsmi_chooser *c, const xsmi_entrant *e, uint64_t rows)
{
    const uint64_t epochs = xsmi_race_epochs(e);
    return e->line->hidden && rows < c->rows.most ? (epochs + 1) / 2 : epochs;
}

/* Returns the temperature with the least log-loss of the rows that judged, drawn towards 1: less, the more rows judged,
 * and the more of all rows the trial had. A trial of fewer steps is less sure than the run will be, and nothing bounds
 * the log-loss of a model that is too sure: only lbfgs, or the largest share, gives less than 1. */
double xsmi_race_temperature(const xsmi_chooser *c, const xsmi_entrant *e)
{
    double losses[XSMI_CALIBRATE_FACTORS];
    for (int i = 0; i < XSMI_CALIBRATE_FACTORS; i++) {
        const double octaves = (double)(i - XSMI_CALIBRATE_FACTORS / 2) / 2;
        losses[i] = e->factors[i] + DOUBT * octaves * octaves;
    }
    const double found = log2(xsmi_calibrate_least(losses));
    const double octaves = e->rows < c->rows.most && !e->line->full ? fmin(found, 0) : found;
    const double drift = DRIFT * (1 - (double)e->rows / (double)c->train->rows);
    return floor(10 * exp2(-copysign(fmax(fabs(octaves) - drift, 0), octaves)) + 0.5) / 10;
}

double xsmi_race_factor(const xsmi_chooser *c, uint64_t epochs)
{
    return c->options.keep_schedule ? c->run.factor : pow(FALL, 1 / (double)epochs);
}

/* -- judging ------------------------------------------------------------------------------------------------------- */

static double loss_at(const xsmi_row_losses *l, size_t i)
{
    return (double)l->now[i] - (l->gain > 0 ? l->gain * ((double)l->before[i] - (double)l->now[i]) : 0) - l->lead;
}

xsmi_gap xsmi_race_compare(const xsmi_row_losses *a, const xsmi_row_losses *b, size_t count)
{
    double sum = 0, squares = 0, n = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = loss_at(a, i) - loss_at(b, i);
        if (!isnan(d)) {
            sum += d;
            squares += d * d;
            n++;
        }
    }
    if (n < 2) {
        return (xsmi_gap){0, (double)INFINITY};
    }
    const double mean = sum / n;
    return (xsmi_gap){mean, sqrt(fmax(squares / n - mean * mean, 0) / (n - 1))};
}

/* What the rows of a part say of a model: means over these rows, and log-losses of temperatures, or zeros. `good`: all
 * scores are finite. */
typedef struct verdict {
    double loss, precision, factors[XSMI_CALIBRATE_FACTORS];
    bool good;
} verdict;

/* Calibrates the model by the rows that judge it, so that a method that ranks well is not dropped because its
 * probabilities are too extreme. `alone`: also computes the outcomes. Sets *done to false if no calibration is the
 * best. */
static xsm_status calibrate(xsmi_chooser *c, xsm_model *m, const xsm_dataset *rows, bool alone, bool *done,
                            double *factors, xsm_error *err)
{
    const int32_t method = rows->counted.labels > rows->rows ? XSM_CALIBRATION_LABELS : XSM_CALIBRATION_TEMPERATURE;
    xsm_calibrate_result result;
    xsm_error inner = XSM_ERROR_INIT;
    const xsm_status status =
        xsmi_calibrate(c->runner.context, m, rows, method, 0, factors, alone ? c->outcomes : NULL, &result, &inner);
    *done = status == XSM_OK;
    if (*done && !alone) {
        xsmi_model_put_calibration(m, (xsmi_calibration){result.method, result.scale, result.shift});
    }
    return *done || status == XSM_ERROR_DATA || status == XSM_ERROR_DIVERGED ? XSM_OK : xsmi_fail_copy(err, &inner);
}

/* Computes the outcomes of rows. Sets *good to false if scores are not finite. */
static xsm_status evaluate(xsmi_chooser *c, xsm_model *m, const xsm_dataset *rows, bool *good, xsm_error *err)
{
    double ndcg[XSMI_TOP_MOST];
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.top = XSMI_MAX(c->top, 1);
    metrics.ndcg = ndcg;
    xsm_error inner = XSM_ERROR_INIT;
    c->runner.scratch.context = c->runner.context;
    const xsm_status status = xsmi_evaluate(m, rows, NULL, &c->runner.scratch, c->outcomes, &metrics, &inner);
    *good = status == XSM_OK;
    return *good || status == XSM_ERROR_DIVERGED ? XSM_OK : xsmi_fail_copy(err, &inner);
}

static float loss_of(const xsmi_chooser *c, const xsmi_row_outcome *o)
{
    return (float)(c->measure == XSM_MEASURE_LOG_LOSS    ? o->log_loss
                   : c->measure == XSM_MEASURE_PRECISION ? 1 - o->precision
                   : c->measure == XSM_MEASURE_HITS      ? 1 - o->hits
                   : c->measure == XSM_MEASURE_MRR       ? 1 - o->reciprocal_rank
                                                         : 1 - o->ndcg);
}

/* Judges a model by the rows of the present part that have a class of the share; fills their losses. */
static xsm_status judge(xsmi_chooser *c, xsm_model *m, const xsm_dataset *rows, float *out, verdict *v, xsm_error *err)
{
    const uint64_t first = c->rows.starts[c->rows.part], end = c->rows.starts[c->rows.part + 1];
    /* Label trees are well calibrated as they are. */
    const bool calibrates = c->measure == XSM_MEASURE_LOG_LOSS && !xsmi_model_nodes(m);
    const bool alone = calibrates && !c->survey.several;
    bool done = false;
    *v = (verdict){.good = true};
    XSMI_TRY(calibrates ? calibrate(c, m, rows, alone, &done, v->factors, err) : XSM_OK);
    if (!done || !alone || xsmi_model_link(m) != XSM_LINK_SOFTMAX) {
        memset(v->factors, 0, sizeof v->factors);
    }
    XSMI_TRY(alone && done ? XSM_OK : evaluate(c, m, rows, &v->good, err));
    if (calibrates) {
        xsmi_model_drop_calibration(m);
    }
    double sum = 0, right = 0;
    const xsmi_row_outcome *o = c->outcomes;
    for (uint64_t i = first; i < end && v->good; i++) {
        const bool known = xsmi_race_knows(c, i);
        out[i - first] = known ? loss_of(c, o) : NAN;
        sum += known ? (double)out[i - first] : 0;
        right += known ? o->first : 0;
        o += known;
    }
    v->loss = sum / (double)rows->rows;
    v->precision = right / (double)rows->rows;
    v->good = v->good && !isinf(v->loss);
    return XSM_OK;
}

/* Judges the vectors also with pairs, whose strength is raised as long as that helps. */
static xsm_status judge_pairs(xsmi_chooser *c, xsmi_entrant *e, const xsm_dataset *train, const xsm_dataset *test,
                              float *out, verdict *v, xsm_error *err)
{
    xsm_model *m = c->runner.model;
    const size_t judged = (size_t)(c->rows.starts[c->rows.part + 1] - c->rows.starts[c->rows.part]);
    float *with = xsmi_allocate(c->runner.context, judged, sizeof *with);
    xsm_status status = with ? XSM_OK : xsmi_fail_memory(err, judged * sizeof *with, "losses");
    bool better = true;
    for (double strength = PAIRS_FIRST; status == XSM_OK && better && strength <= PAIRS_MOST; strength *= 2) {
        xsm_error inner = XSM_ERROR_INIT;
        verdict paired = {0};
        status = xsm_model_add_pairs(m, train, strength, &inner);
        if (status == XSM_ERROR_RANGE || status == XSM_ERROR_DIVERGED) { /* sums exceed float32 */
            status = XSM_OK;
            break;
        }
        status = status == XSM_OK ? judge(c, m, test, with, &paired, err) : xsmi_fail_copy(err, &inner);
        xsm_model_clear_correction(m);
        const xsmi_gap gap = xsmi_race_gap(with, out, judged);
        better = paired.good && gap.difference < -gap.error;
        if (status == XSM_OK && better) {
            e->pairs = strength;
            *v = paired;
            memcpy(out, with, judged * sizeof *with);
        }
    }
    xsmi_release(c->runner.context, with, judged, sizeof *with);
    return status;
}

/* -- running ------------------------------------------------------------------------------------------------------- */

static int32_t on_progress(void *user, const xsm_progress *progress)
{
    const xsmi_chooser *c = user;
    const xsm_choice_trial *t = &c->result->trials[c->result->info.trials];
    const xsm_choose_progress p = {.size = sizeof p,
                                   .estimator = t->estimator,
                                   .trial = c->result->info.trials + 1,
                                   .rows = t->rows,
                                   .eta = t->eta,
                                   .ridge = t->ridge,
                                   .seconds = xsmi_seconds() - c->runner.began};
    (void)progress;
    int32_t stop;
    XSMI_CALL_HOST(stop = c->options.progress(c->options.progress_user, &p));
    return stop;
}

/* Adds a trial to the result, without counting it yet. */
static xsm_status note(xsmi_chooser *c, const xsmi_entrant *e, xsm_error *err)
{
    xsm_choice *r = c->result;
    if (r->info.trials == r->trial_capacity) {
        size_t wanted = 2 * r->trial_capacity + 8;
        xsm_choice_trial *more = xsmi_reallocate(r->context, r->trials, r->trial_capacity, wanted, sizeof *r->trials);
        if (!more) {
            return xsmi_fail_memory(err, wanted * sizeof *more, "the list of trials");
        }
        r->trials = more;
        r->trial_capacity = wanted;
    }
    r->trials[r->info.trials] = (xsm_choice_trial){.size = sizeof *r->trials,
                                                   .estimator = e->line->method,
                                                   .optimizer = e->line->optimizer,
                                                   .label_tree = e->line->tree,
                                                   .eta = xsmi_race_eta(c, e),
                                                   .ridge = xsmi_race_ridge(e),
                                                   .rows = c->rows.share,
                                                   .part = c->rows.part + 1,
                                                   .epochs = xsmi_race_passes(c, e, c->rows.share),
                                                   .transform = c->transforms[e->transform],
                                                   .hidden = e->line->hidden,
                                                   .text = c->text_count ? &r->texts[e->line->text] : NULL,
                                                   .predicted = (double)NAN};
    c->runner.progress = c->options.progress ? on_progress : NULL;
    return XSM_OK;
}

/* Trains class means. If they are so large that weights would not be finite, this counts as a run that diverges. */
static xsm_status take_means(const xsmi_chooser *c, xsmi_auto_trial *t, xsm_error *err)
{
    xsm_error inner = XSM_ERROR_INIT;
    const xsm_status status = xsm_fit_class_means(c->runner.context, c->runner.model, t->rows, NULL, &inner);
    t->outcome = (xsmi_auto_outcome){.examples = t->rows->rows, .active = 1, .diverged = status == XSM_ERROR_RANGE};
    return status == XSM_OK || t->outcome.diverged ? XSM_OK : xsmi_fail_copy(err, &inner);
}

/* Trains the model. Sets *fitted to a label tree, which the caller releases, or to NULL. */
static xsm_status train(xsmi_chooser *c, const xsmi_entrant *e, xsmi_auto_trial *t, xsm_model **fitted, xsm_error *err)
{
    const xsmi_line *line = e->line;
    *t = (xsmi_auto_trial){.runner = &c->runner,
                           .setting = {.estimator = line->estimator, .ridge = xsmi_race_ridge(e), .run = c->run},
                           .rows = c->rows.train[xsmi_slot(e)],
                           .budget = {.epochs = xsmi_race_passes(c, e, c->rows.share),
                                      .stretch = 1,
                                      .startup = UINT64_MAX,
                                      .tolerance = TOLERANCE}};
    *fitted = NULL;
    if (line->tree) {
        return xsmi_auto_run_tree(t, line->tree, fitted, err);
    }
    XSMI_TRY(xsmi_line_model(c, line, err));
    if (!line->estimator) {
        return take_means(c, t, err);
    }
    t->setting.run.batch = xsmi_line_batch(c, line, c->rows.share);
    t->setting.run.eta = xsmi_race_eta(c, e);
    t->setting.run.factor = xsmi_race_factor(c, t->budget.epochs);
    if (!line->full) {
        XSMI_TRY(xsm_optimizer_new(c->runner.context, line->optimizer, &t->setting.optimizer, err));
    }
    xsm_status status =
        line->initial > 0 ? xsm_optimizer_set_number(t->setting.optimizer, "initial", line->initial, err) : XSM_OK;
    status = status == XSM_OK ? xsmi_auto_run(t, err) : status;
    xsmi_auto_end(t);
    xsm_optimizer_free(t->setting.optimizer);
    return status;
}

/* Judges a trained entrant: fills its losses of the present part. */
static xsm_status judge_entrant(xsmi_chooser *c, xsmi_entrant *e, xsm_model *fitted, verdict *v, xsm_error *err)
{
    const xsmi_race_rows *r = &c->rows;
    const xsm_dataset *test = r->test[xsmi_slot(e)], *train = r->train[xsmi_slot(e)];
    xsm_model *m = fitted ? fitted : c->runner.model;
    float *out = e->now + r->starts[r->part];
    e->pairs = 0;
    XSMI_TRY(judge(c, m, test, out, v, err));
    e->diverged = !v->good;
    const bool late = e->rows_before > 0 || r->share >= r->most; /* the first round only searches the other settings */
    const bool pairs = v->good && e->line->hidden && late && !c->options.keep_pairs;
    return pairs ? judge_pairs(c, e, train, test, out, v, err) : XSM_OK;
}

/* Starts with the present share: its losses replace those of an earlier one, which become `before`. */
static void begin_share(xsmi_chooser *c, xsmi_entrant *e)
{
    const size_t judged = xsmi_race_judged(c);
    if (e->rows == c->rows.share) {
        return;
    }
    float *old = e->before;
    e->before = e->now;
    e->now = old;
    e->rows_before = e->rows;
    e->fall = e->last_fall;
    e->rows = c->rows.share;
    e->folds = 0;
    e->right = e->judged = 0;
    memset(e->factors, 0, sizeof e->factors);
    for (size_t i = 0; i < judged; i++) {
        e->now[i] = NAN;
    }
}

/* Records the time that a trial has taken. */
static void account(xsmi_chooser *c, xsmi_line *line, const xsmi_entrant *e, double began)
{
    const double rows = (double)c->rows.share, judged = (double)c->rows.test[xsmi_slot(e)]->rows;
    const double longer = (double)xsmi_race_passes(c, e, c->rows.share) / (double)line->epochs;
    xsm_choice_trial *t = &c->result->trials[c->result->info.trials];
    t->seconds = xsmi_seconds() - began;
    const double pace = line->pace > 0 ? line->pace : c->pace;
    const double counted =
        (longer * xsmi_line_seconds(c, line, rows, 0) + xsmi_line_seconds(c, line, 0, judged)) / pace;
    if (c->options.seconds > 0) {
        line->pace = t->seconds / counted;
        xsmi_runner_read_clock(&c->runner);
        c->elapsed = c->runner.elapsed;
        c->pace = line->pace;
    } else {
        c->elapsed += counted;
    }
}

xsm_status xsmi_race_try(xsmi_chooser *c, xsmi_entrant *e, xsm_error *err)
{
    xsmi_auto_trial t;
    xsm_model *fitted;
    verdict v = {.loss = (double)INFINITY, .precision = (double)NAN};
    const double began = xsmi_seconds();
    XSMI_TRY(xsmi_race_rows_make(c, e, err));
    XSMI_TRY(note(c, e, err));
    XSMI_TRY(train(c, e, &t, &fitted, err));
    if (t.outcome.late) {
        c->late = true;
        xsm_model_free(fitted);
        return XSM_OK;
    }
    begin_share(c, e);
    e->diverged = t.outcome.diverged;
    xsm_status status = e->diverged ? XSM_OK : judge_entrant(c, e, fitted, &v, err);
    e->bytes = xsmi_line_bytes(c, e->line, (double)t.outcome.bytes);
    xsm_model_free(fitted);
    XSMI_TRY(status);
    account(c, e->line, e, began);
    const double judged = e->diverged ? 0 : (double)c->rows.test[xsmi_slot(e)]->rows;
    e->right += judged > 0 ? v.precision * judged : 0;
    /* Class means are calibrated by the number of rows of a class, which differs in the run. */
    const bool lasting = e->line->estimator || 2 * c->rows.share >= c->train->rows;
    for (int i = 0; i < XSMI_CALIBRATE_FACTORS && lasting; i++) {
        e->factors[i] += judged * v.factors[i];
    }
    e->judged += judged;
    e->precision = e->right / e->judged;
    e->folds++;
    e->trial = c->result->info.trials++;
    xsm_choice_trial *out = &c->result->trials[e->trial];
    out->loss = e->diverged ? (double)INFINITY : v.loss;
    out->precision = v.precision;
    out->pairs = e->pairs;
    out->temperature = xsmi_race_temperature(c, e);
    out->bytes = e->bytes;
    out->outcome = e->diverged ? XSM_RACE_DIVERGED : XSM_RACE_KEPT;
    return XSM_OK;
}
