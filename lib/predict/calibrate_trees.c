/* A pass over the classes that a beam search finds in label trees, as prediction finds them. */
#include "predict/calibrate_rows.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/label_scores.h"

#include <math.h>

static xsmi_label_scores divide_scratch(const xsmi_calibrate_job *job, xsmi_arena *arena)
{
    xsmi_label_scores s;
    xsmi_label_scores_divide(job->model, xsmi_model_beam(job->model, 0), arena, &s);
    return s;
}

static size_t scratch_bytes(const xsmi_calibrate_job *job)
{
    xsmi_arena counted = {NULL, 0};
    (void)divide_scratch(job, &counted);
    return counted.used;
}

/* Computes the log-losses at all points, and adds the gaps of the best class, whose score is `best`. */
static void judge(const xsmi_calibrate_job *job, const xsmi_label_scores *s, const xsmi_features *x,
                  const uint32_t *labels, size_t count, float best, double right, double times, xsmi_calibrate_sums *p,
                  double *losses)
{
    const bool factor = job->method == XSM_CALIBRATION_TEMPERATURE;
    const xsmi_label_target target = xsmi_label_find(s, x, labels, count);
    for (size_t n = 0; n < XSMI_POINTS; n++) {
        const xsmi_calibration c = {job->method, (double)job->points[n], (double)job->shifts[n]};
        const double log_partition = factor ? xsmi_label_log_partition(s, c.scale) : 0;
        const double sure = xsmi_class_probability(job->model, &c, best, log_partition);
        p->gap[n][xsmi_bin_of(sure)] += times * (sure - right);
        double sums[XSMI_PLATT_SUMS] = {0};
        if (target.known > 0 && factor) {
            sums[XSMI_LOSS] = xsmi_label_temperature_loss(&target, log_partition, c.scale);
        } else if (target.known > 0) {
            xsmi_label_branches(s, x, labels, count, job->points[n], job->shifts[n], sums);
        }
        losses[n] = sums[XSMI_LOSS];
    }
}

/* Adds a row that was searched. */
static void add_row(const xsmi_calibrate_job *job, const xsmi_label_scores *s, uint64_t row, const xsmi_features *x,
                    float best, uint32_t best_class, xsmi_calibrate_sums *p)
{
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(job->dataset, row, &count);
    double sums[XSMI_POINTS] = {0};
    size_t known = 0;
    for (size_t j = 0; j < count; j++) {
        known += labels[j] < job->model->classes;
    }
    const double times = xsmi_dataset_weight(job->dataset, row);
    p->labelled += count > 0 ? times : 0;
    if (count > 0 && job->pass == XSMI_PASS_JUDGE) {
        judge(job, s, x, labels, count, best, xsmi_contains(labels, count, best_class), times, p, sums);
    } else if (known > 0 && job->pass == XSMI_PASS_BRANCHES) {
        xsmi_label_branches(s, x, labels, count, job->points[0], job->shifts[0], sums);
    } else if (known > 0) {
        const xsmi_label_target target = xsmi_label_find(s, x, labels, count);
        for (size_t n = 0; n < XSMI_POINTS; n++) {
            const double scale = (double)job->points[n];
            sums[n] = xsmi_label_temperature_loss(&target, xsmi_label_log_partition(s, scale), scale);
        }
    }
    p->rows += known > 0;
    p->weight += known > 0 ? times : 0;
    for (size_t n = 0; n < XSMI_POINTS; n++) {
        if (!isfinite(sums[n])) {
            p->failed = XSMI_MIN(row, p->failed);
        }
        p->sums[n] += times * sums[n];
    }
}

static void run(void *state, const xsmi_range *r)
{
    const xsmi_calibrate_job *job = state;
    xsmi_arena arena = {job->scratch + r->thread * job->scratch_each, 0};
    const xsmi_label_scores s = divide_scratch(job, &arena);
    xsmi_calibrate_sums *p = &job->partials[r->index];
    *p = (xsmi_calibrate_sums){.failed = UINT64_MAX};
    xsmi_label_beam_start(&s.beam, job->model->classes);
    for (size_t i = r->first; i < r->end && !xsmi_poll(job->context); i++) {
        const uint64_t row = xsmi_calibrate_row(job, i);
        const xsmi_features x = xsmi_dataset_features(job->dataset, row);
        float best;
        uint32_t best_class;
        const xsmi_top list = {&best, &best_class, 1};
        if (xsmi_label_beam_all(&s.beam, &x, s.beam.width, &list) > 0) {
            add_row(job, &s, row, &x, best, best_class, p);
        } else {
            p->failed = XSMI_MIN(row, p->failed);
        }
    }
    xsmi_advance(job->context, r->end - r->first);
}

/* Whether the fit is judged: scores that only rank were not probabilities before it, so there is nothing to compare
 * with. */
static bool judges(const xsmi_calibrate_job *job)
{
    return !xsmi_label_only_orders(job->model);
}

const xsmi_calibrate_way xsmi_calibrate_searched = {run, scratch_bytes, judges};
