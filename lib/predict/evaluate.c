/*
 * Evaluation on a dataset with scores of all classes, in blocks of rows: log-loss, error, and measures of rankings
 * (metrics.h has the formulas; the propensities are from Jain, Prabhu and Varma, Extreme multi-label loss functions for
 * recommendation, tagging, ranking and other missing label applications, 2016).
 *
 * The sums of the blocks are added in the order of the rows, so that the result does not depend on the threads.
 */
#include "predict/evaluate.h"
#include "predict/evaluate_rows.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "base/overlap.h"
#include "base/settings.h"
#include "math/propensity.h"
#include "model/together.h"
#include "model/label_scores.h"
#include "predict/rounds.h"

#include <math.h>

/* If seconds are limited: the rows of the first sample; how many times larger the next one is at most; and the share of
 * the remaining time that it is expected to take. */
enum { FIRST_SAMPLE = 128, SAMPLE_GROWTH = 8 };
#define SAMPLE_SHARE 0.8
/* Arrays of an xsm_metrics. */
enum { ARRAYS = 7 };

/* The sums of all jobs so far. */
typedef struct total {
    xsmi_held held; /* the arrays of the job, and the sums */
    xsmi_evaluated all;
    double *measures; /* [XSMI_MEASURES][top] */
} total;

/* Adds the jobs of a round, in the order of the rows. */
static void add_round(const xsmi_evaluate_job *job, size_t jobs, total *sum)
{
    xsmi_evaluated *all = &sum->all;
    for (size_t i = 0; i < jobs; i++) {
        const xsmi_evaluated *p = &job->partials[i];
        all->rows += p->rows;
        all->known_rows += p->known_rows;
        all->unlabelled += p->unlabelled;
        all->unseen_labels += p->unseen_labels;
        all->wrong += p->wrong;
        all->weight += p->weight;
        all->known_weight += p->known_weight;
        all->log_loss += p->log_loss;
        for (size_t b = 0; b < XSMI_BINS; b++) {
            all->sure[b] += p->sure[b];
            all->right[b] += p->right[b];
        }
        all->failed = XSMI_MIN(p->failed, all->failed);
        for (size_t j = 0; job->ranked && j < XSMI_MEASURES * (size_t)job->top; j++) {
            sum->measures[j] += job->measures[i * XSMI_MEASURES * job->top + j];
        }
    }
}

static bool is_ranked(const xsm_metrics *m)
{
    return m->precision || m->ndcg || m->psp || m->psndcg || m->recall || m->hits || m->reciprocal_rank;
}

/* Writes the means to the arrays that the caller wants. */
static void write_measures(const xsmi_evaluate_job *job, const total *sum, const xsm_metrics *m)
{
    const uint32_t top = job->top;
    const struct {
        double *to;
        int sum, by; /* the measure by whose sum it is divided; 0: the weight of the rows */
    } means[] = {
        {m->precision, XSMI_PRECISION, 0},          {m->ndcg, XSMI_NDCG, 0},     {m->psp, XSMI_PSP, XSMI_PSP_BEST},
        {m->psndcg, XSMI_PSNDCG, XSMI_PSNDCG_BEST}, {m->recall, XSMI_RECALL, 0}, {m->hits, XSMI_HITS, 0},
        {m->reciprocal_rank, XSMI_RECIPROCAL, 0}};
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        const double *sums = sum->measures + (size_t)means[i].sum * top;
        const double *by = means[i].by ? sum->measures + (size_t)means[i].by * top : NULL;
        for (uint32_t k = 0; means[i].to && k < top; k++) {
            means[i].to[k] = by && !job->weights ? (double)NAN : sums[k] / (by ? by[k] : sum->all.weight);
        }
    }
}

static xsm_status finish(const xsmi_evaluate_job *job, const total *sum, xsm_metrics *m, xsm_error *err)
{
    const xsmi_evaluated *all = &sum->all;
    if (all->failed != UINT64_MAX) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite: the model has diverged",
                         (unsigned long long)all->failed);
    }
    if (all->rows == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "none of the %llu rows has a label to evaluate against",
                         (unsigned long long)job->rows);
    }
    if (!(all->weight > 0 && all->weight < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "the weights of the %llu rows with a label add up to %g; a sum above 0 is "
                         "accepted",
                         (unsigned long long)all->rows, all->weight);
    }
    m->rows = all->rows;
    m->known_rows = all->known_rows;
    m->unseen_rows = all->rows - all->known_rows;
    m->unlabelled = all->unlabelled;
    m->unseen_labels = all->unseen_labels;
    m->beam = job->beam < job->model->classes ? job->beam : 0;
    m->log_loss = all->known_rows && !job->lossless ? all->log_loss / all->known_weight : (double)NAN;
    m->error = all->wrong / all->weight;
    m->calibration_error = 0;
    for (size_t b = 0; b < XSMI_BINS; b++) {
        m->calibration_error += fabs(all->right[b] - all->sure[b]) / all->weight;
    }
    return XSM_OK;
}

/* Fills weights[] with 1/propensity of every class, then of a class without training rows. */
static void fill_weights(const xsm_model *m, double a, double b, double *weights)
{
    for (uint32_t k = 0; k <= m->classes; k++) {
        double count = k < m->classes ? (double)m->map.counts[k] : 0;
        weights[k] = xsmi_inverse_propensity(count, (double)m->map.rows, a, b);
    }
}

static xsm_status evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                           const xsm_evaluate_options *options, xsm_metrics *metrics, xsm_error *err)
{
    xsmi_evaluate_scratch kept = {.context = context ? context : model->context};
    XSMI_TRY(xsmi_need("xsm_evaluate", XSMI_GIVEN({dataset, "the data"}), err));
    XSMI_TRY(xsmi_together_rows(model, dataset, false, err));
    const xsm_status status = xsmi_evaluate(model, dataset, options, &kept, NULL, metrics, err);
    xsmi_evaluate_scratch_free(&kept);
    return xsmi_together(model, status, err);
}

xsm_status xsm_evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                        const xsm_evaluate_options *options, xsm_metrics *metrics, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, evaluate(context, model, dataset, options, metrics, err), err);
}

xsm_status xsmi_metrics_new(xsm_context *ctx, uint32_t top, xsm_metrics *m, xsm_error *err)
{
    double *values;
    XSMI_TRY(
        xsmi_array_new(ctx, &values, ARRAYS * (uint64_t)top, sizeof *values, "the measures of an evaluation", err));
    *m = (xsm_metrics)XSM_METRICS_INIT;
    m->top = top;
    m->precision = values;
    m->ndcg = values + top;
    m->psp = values + 2 * (size_t)top;
    m->psndcg = values + 3 * (size_t)top;
    m->recall = values + 4 * (size_t)top;
    m->hits = values + 5 * (size_t)top;
    m->reciprocal_rank = values + 6 * (size_t)top;
    return XSM_OK;
}

void xsmi_metrics_free(xsm_context *ctx, xsm_metrics *m)
{
    xsmi_release(ctx, m->precision, ARRAYS * (size_t)m->top, sizeof *m->precision);
    *m = (xsm_metrics)XSM_METRICS_INIT;
}

void xsmi_evaluate_scratch_free(xsmi_evaluate_scratch *s)
{
    xsmi_release(s->context, s->memory, s->capacity, 1);
    *s = (xsmi_evaluate_scratch){.context = s->context};
}

/* Reads the options and the wanted measures, and checks them with the model and the data. */
static xsm_status read_request(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                               const xsm_metrics *metrics, xsm_evaluate_options *o, xsm_metrics *m, xsm_error *err)
{
    XSMI_TRY(
        xsmi_need("xsm_evaluate", XSMI_GIVEN({model, "the model"}, {dataset, "the data"}, {metrics, "metrics"}), err));
    XSMI_TRY(XSMI_READ(xsm_evaluate_options, o, options, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_evaluate_options, o, reserved, err));
    XSMI_TRY(XSMI_READ(xsm_metrics, m, metrics, err));
    const bool ranked = is_ranked(m);
    if (m->top > XSM_TOP_MAX || (ranked && m->top == 0)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_metrics.top is %u; accepted is %d to %d", m->top, ranked ? 1 : 0,
                         XSM_TOP_MAX);
    }
    const xsmi_region regions[] = {xsmi_output("precision", m->precision, m->top, sizeof *m->precision),
                                   xsmi_output("ndcg", m->ndcg, m->top, sizeof *m->ndcg),
                                   xsmi_output("psp", m->psp, m->top, sizeof *m->psp),
                                   xsmi_output("psndcg", m->psndcg, m->top, sizeof *m->psndcg),
                                   xsmi_output("recall", m->recall, m->top, sizeof *m->recall),
                                   xsmi_output("hits", m->hits, m->top, sizeof *m->hits),
                                   xsmi_output("reciprocal_rank", m->reciprocal_rank, m->top, sizeof *m->hits)};
    XSMI_TRY(xsmi_check_overlap("xsm_metrics", regions, sizeof regions / sizeof *regions, err));
    XSMI_TRY(xsmi_propensity_options(&o->propensity_a, &o->propensity_b,
                                     XSMI_DEFAULT(xsm_evaluate_options, propensity_a),
                                     XSMI_DEFAULT(xsm_evaluate_options, propensity_b), err));
    if (!(o->seconds >= 0 && isfinite(o->seconds))) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_evaluate_options.seconds is %g; accepted is 0 or more", o->seconds);
    }
    XSMI_TRY(xsmi_model_check_rows(model, dataset, "the data", err));
    return xsmi_model_check_labels(model, dataset, "the data", err);
}

/* Allocates and fills what the jobs of a round share; `job` has the model, the data and what is wanted. */
static xsm_status prepare(xsmi_evaluate_job *job, const xsm_evaluate_options *o, const xsm_metrics *m,
                          xsmi_evaluate_scratch *kept, total *sum, xsm_error *err)
{
    xsm_context *ctx = job->context;
    const xsm_model *model = job->model;
    job->most = XSMI_MAX(job->rows, kept->rows);
    job->jobs = (size_t)((job->rows + XSMI_EVALUATE_ROWS - 1) / XSMI_EVALUATE_ROWS);
    const size_t sums = XSMI_MEASURES * (size_t)job->top, threads = xsmi_context_threads(ctx);
    job->round = XSMI_MIN(job->jobs, XSMI_MAX(XSMI_ROUND_NUMBERS / sums, threads));
    job->weight_count = model->map.counts && (m->psp || m->psndcg) ? (size_t)model->classes + 1 : 0;
    job->scratch_each = xsmi_evaluate_scratch_bytes(job);
    sum->held.context = ctx;
    job->partials = xsmi_hold(&sum->held, job->round, sizeof *job->partials);
    job->measures = xsmi_hold(&sum->held, job->ranked ? job->round : 0, sums * sizeof *job->measures);
    sum->measures = xsmi_hold_zeros(&sum->held, sums, sizeof *sum->measures);
    job->discounts = xsmi_hold(&sum->held, job->top, sizeof *job->discounts);
    job->weights = job->weight_count ? xsmi_hold(&sum->held, job->weight_count, sizeof *job->weights) : NULL;
    XSMI_TRY(xsmi_held_check(&sum->held, "an evaluation", err));
    size_t bytes;
    if (!xsmi_multiply(threads, job->scratch_each, &bytes) ||
        !xsmi_reserve(ctx, &kept->memory, &kept->capacity, bytes, 1)) {
        return xsmi_fail_memory(err, threads * job->scratch_each, "an evaluation");
    }
    job->scratch = kept->memory;
    for (uint32_t k = 0; k < job->top; k++) {
        job->discounts[k] = 1 / log2((double)k + 2);
    }
    if (job->weights) {
        fill_weights(model, o->propensity_a, o->propensity_b, job->weights);
    }
    return XSM_OK;
}

/* Scores all rows, round by round. */
static xsm_status run_rounds(xsmi_evaluate_job *job, total *sum, xsm_error *err)
{
    xsmi_activity activity;
    xsmi_begin(&activity, job->context, "evaluating", "rows", job->rows);
    xsm_status status = XSM_OK;
    for (; job->first < job->jobs && status == XSM_OK; job->first += job->round) {
        const size_t count = XSMI_MIN(job->round, job->jobs - job->first);
        if (xsmi_model_is_divided(job->model)) {
            for (size_t i = 0; i < count && status == XSM_OK; i++) {
                status = xsmi_evaluate_rows_together(job, i, err);
            }
        } else {
            status = xsmi_run(job->context, xsmi_evaluate_rows_job, job, count, err);
        }
        if (status == XSM_OK) {
            add_round(job, count, sum);
        }
    }
    return xsmi_end(&activity, status, err);
}

/* Writes the results to the caller's struct and arrays. */
static xsm_status write_results(const xsmi_evaluate_job *job, const total *sum, xsm_metrics *m, xsm_metrics *metrics,
                                xsm_error *err)
{
    XSMI_TRY(finish(job, sum, m, err));
    XSMI_TRY(XSMI_WRITE(xsm_metrics, m, metrics, err));
    if (job->ranked) {
        write_measures(job, sum, m);
    }
    return XSM_OK;
}

/* Evaluates the job's rows. Sets *growth to how many times larger a sample may be that is to end at `end`, if that is
 * twice or more; else to 0, after writing the results. */
static xsm_status evaluate_rows(xsmi_evaluate_job *job, const xsm_evaluate_options *o, xsmi_evaluate_scratch *kept,
                                xsm_metrics *m, xsm_metrics *metrics, double end, double *growth, xsm_error *err)
{
    total sum = {.all.failed = UINT64_MAX};
    const double since = xsmi_seconds();
    job->first = 0;
    xsm_status status = prepare(job, o, m, kept, &sum, err);
    status = xsmi_together(job->model, status, err);
    status = status == XSM_OK ? run_rounds(job, &sum, err) : status;
    const double now = xsmi_seconds();
    *growth = XSMI_MIN(SAMPLE_SHARE * (end - now) / XSMI_MAX(now - since, 1e-9), SAMPLE_GROWTH);
    *growth = *growth >= 2 ? *growth : 0;
    status = status == XSM_OK && o->seconds > 0 ? xsmi_together_first(job->model, growth, err) : status;
    status = status == XSM_OK && *growth == 0 ? write_results(job, &sum, m, metrics, err) : status;
    xsmi_held_release(&sum.held);
    return status;
}

/* Compares the requests of all processes. */
static xsm_status agree_options(const xsm_model *model, const xsm_evaluate_options *o, const xsm_metrics *m,
                                xsm_error *err)
{
    const xsmi_number numbers[] = {XSMI_WHOLE("top", is_ranked(m) ? m->top : 0),
                                   XSMI_WHOLE("ranked", is_ranked(m)),
                                   XSMI_REAL("propensity_a", o->propensity_a),
                                   XSMI_REAL("propensity_b", o->propensity_b),
                                   XSMI_WHOLE("rows", o->rows),
                                   XSMI_WHOLE("timed", o->seconds > 0),
                                   XSMI_WHOLE("beam", o->beam)};
    return xsmi_together_numbers(model, numbers, sizeof numbers / sizeof *numbers, XSM_OK, err);
}

xsm_status xsmi_evaluate(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                         xsmi_evaluate_scratch *kept, xsmi_row_outcome *each, xsm_metrics *metrics, xsm_error *err)
{
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics m = XSM_METRICS_INIT;
    XSMI_TRY(read_request(model, dataset, options, metrics, &o, &m, err));
    const bool ranked = is_ranked(&m);
    xsmi_evaluate_job job = {.context = kept->context,
                             .model = model,
                             .dataset = dataset,
                             .top = ranked ? m.top : 1,
                             .ranked = ranked,
                             .each = each};
    job.beam = xsmi_model_beam(model, o.beam ? o.beam : XSMI_DEFAULT(xsm_evaluate_options, beam));
    job.lossless = !xsmi_label_has_loss(model);
    if (o.beam > 0 && job.beam == 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_evaluate_options.beam is %u, and the model is no label tree; 0 is accepted", o.beam);
    }
    XSMI_TRY(agree_options(model, &o, &m, err));
    const uint64_t rows = o.rows ? XSMI_MIN(o.rows, dataset->rows) : dataset->rows;
    const double end = xsmi_seconds() + o.seconds;
    job.rows = o.seconds > 0 ? XSMI_MIN(rows, FIRST_SAMPLE) : rows;
    double growth;
    do {
        XSMI_TRY(evaluate_rows(&job, &o, kept, &m, metrics, job.rows < rows ? end : 0, &growth, err));
        job.rows = XSMI_MIN(rows, (uint64_t)(growth * (double)job.rows));
    } while (growth > 0);
    return XSM_OK;
}

xsm_status xsmi_evaluate_train(xsm_context *ctx, const xsm_model *model, const xsm_dataset *train, int32_t how,
                               double seconds, uint64_t *sample, xsm_metrics *metrics, xsm_error *err)
{
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    if (how == XSM_EVALUATE_SAMPLE) {
        o.rows = *sample;
        o.seconds = *sample ? 0 : XSMI_MAX(seconds / 10, 0.1);
    }
    XSMI_TRY(xsm_evaluate(ctx, model, train, &o, metrics, err));
    *sample = metrics->rows + metrics->unlabelled;
    return XSM_OK;
}

xsm_status xsmi_check_evaluate_train(int32_t how, xsm_error *err)
{
    if (how < XSM_EVALUATE_NONE || how > XSM_EVALUATE_SAMPLE) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "evaluate_train %d is none of XSM_EVALUATE_*", how);
    }
    return XSM_OK;
}
