/*
 * Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities, 2016, Figure 2: the
 * probabilities of 10^4 values from 10^6 observations, p_k proportional to u_k^2 with u_k uniform on [0, 1]. The exact
 * estimate is N_k/N, and the one-vs-each bound has the same maximum (Proposition 2). Doubly stochastic: b = 100
 * observations and 10 of the other values each, 2 10^5 steps, initial learning rate 0.5/b, multiplied by 0.9 after each
 * epoch.
 *
 * The paper steps by 0.5/b times the plain sum over the batch and the sampled values; the library's gradient is the
 * mean over the batch of (K-1)/10 times the sum, so the library's learning rate is 0.5/b b/((K-1)/10).
 */
#include "papers.h"

#include "data.h"

#include <stdlib.h>

enum { SAMPLED = 10, BATCH = 100, CURVE_POINTS = 200, SHOWN = 250 };

typedef struct sizes {
    uint64_t observations, steps;
    uint32_t values;
} sizes;

static int compare_falling(const void *a, const void *b)
{
    const double *p = a, *q = b;
    return (*p < *q) - (*p > *q);
}

/* Observed values, [s->observations]; counts[k] of them equal k. */
static uint32_t *observe(const sizes *s, uint64_t *counts)
{
    bench_random random = {20160907};
    double *sum = papers_memory(s->values, sizeof *sum);
    uint32_t *seen = papers_memory(s->observations, sizeof *seen);
    double total = 0;
    for (uint32_t k = 0; k < s->values; k++) {
        double u = 0.5 * (1 + (double)bench_uniform(&random));
        total += u * u;
        sum[k] = total;
    }
    for (uint64_t i = 0; i < s->observations; i++) {
        double at = total * (double)(bench_next(&random) >> 11) * 0x1p-53;
        uint32_t low = 0, high = s->values - 1;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (sum[middle] > at) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        seen[i] = low;
        counts[low]++;
    }
    free(sum);
    return seen;
}

/* Sum over the values of |estimate - exact|; writes the estimates to `estimate`. */
static double distance(xsm_model *model, const double *exact, double *estimate)
{
    xsm_parameters w = XSM_PARAMETERS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_model_get_parameters(model, &w, &err), &err);
    double most = -INFINITY, sum = 0, away = 0;
    for (uint32_t k = 0; k < w.classes; k++) {
        double score = (double)w.weight[k * w.class_step];
        most = score > most ? score : most;
    }
    for (uint32_t k = 0; k < w.classes; k++) {
        estimate[k] = exp((double)w.weight[k * w.class_step] - most);
        sum += estimate[k];
    }
    for (uint32_t k = 0; k < w.classes; k++) {
        estimate[k] /= sum;
        away += fabs(estimate[k] - exact[k]);
    }
    return away;
}

/* Figures 2a and 2b: about SHOWN of the values, by falling exact probability. */
static void write_probabilities(const papers *p, const sizes *s, const double *exact, const double *estimate)
{
    double(*both)[2] = papers_memory(s->values, sizeof *both);
    curves *to = curves_new(p, "ove_nonparametric-values", "value");
    uint32_t every = s->values > SHOWN ? s->values / SHOWN : 1;
    for (uint32_t k = 0; k < s->values; k++) {
        both[k][0] = exact[k];
        both[k][1] = estimate[k];
    }
    qsort(both, s->values, sizeof *both, compare_falling);
    for (uint32_t k = 0; k < s->values; k += every) {
        curves_point(to, "exact", k, both[k][0]);
        curves_point(to, "OVE", k, both[k][1]);
    }
    curves_end(to);
    free(both);
}

void figure_ove_nonparametric(const papers *p)
{
    sizes s = {1000000, 200000, 10000};
    if (p->quick) {
        s = (sizes){2000, 2000, 50};
    }
    report *r = report_new(p, "ove_nonparametric", "Titsias 2016, Figure 2: probabilities of many values");
    report_note(r,
                "N = %llu observations of K = %u values, %d observations and %d other values a step, %llu steps; error "
                "= sum |estimate - exact|.",
                (unsigned long long)s.observations, s.values, BATCH, SAMPLED, (unsigned long long)s.steps);
    report_note(r, "The paper shows curves, and gives no numbers.");
    xsm_error err = XSM_ERROR_INIT;
    uint64_t *counts = papers_memory(s.values, sizeof *counts);
    uint32_t *seen = observe(&s, counts);
    double *exact = papers_memory(s.values, sizeof *exact), *estimate = papers_memory(s.values, sizeof *estimate);
    float *ones = papers_memory(s.observations, sizeof *ones);
    for (uint64_t i = 0; i < s.observations; i++) {
        ones[i] = 1;
    }
    for (uint32_t k = 0; k < s.values; k++) {
        exact[k] = (double)counts[k] / (double)s.observations;
    }
    /* A single feature that is always 1: the weights are the scores (logits). */
    xsm_labels labels = {sizeof labels, s.values, 0, NULL, seen, NULL};
    xsm_dataset *data = NULL;
    xsm_model *model = NULL;
    xsm_estimator *ove = NULL;
    xsm_optimizer *sgd = NULL;
    xsm_gradient *gradient = NULL;
    papers_check(xsm_dataset_from_dense(p->context,
                                        &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                          .values = ones,
                                                          .rows = s.observations,
                                                          .features = 1,
                                                          .labels = &labels,
                                                          .ownership = XSM_BORROW},
                                        &data, &err),
                 &err);
    papers_check(xsm_model_new_linear(p->context, 1, s.values, NULL, &model, &err), &err);
    papers_check(xsm_estimator_new(p->context, "ove", &ove, &err), &err);
    papers_check(xsm_estimator_set_number(ove, "negatives", SAMPLED, &err), &err);
    papers_check(xsm_estimator_bind(ove, model, data, &err), &err);
    papers_check(xsm_optimizer_new(p->context, "sgd", &sgd, &err), &err);
    papers_check(xsm_optimizer_bind(sgd, model, &err), &err);
    papers_check(xsm_gradient_new(p->context, &gradient, &err), &err);
    bench_random random = {7};
    uint64_t rows[BATCH];
    double first = 0.5 / BATCH * BATCH / ((s.values - 1) / (double)SAMPLED);
    double start = distance(model, exact, estimate), seconds = 0;
    curves *errors = curves_new(p, "ove_nonparametric-error", "iteration");
    curves_point(errors, "OVE", 0, start);
    for (uint64_t t = 0; t < s.steps; t++) {
        for (size_t i = 0; i < BATCH; i++) {
            rows[i] = bench_below(&random, s.observations);
        }
        xsm_batch batch = xsm_batch_rows(data, rows, BATCH);
        double eta = first * pow(0.9, (double)(t * BATCH / s.observations));
        double before = papers_seconds(p);
        papers_check(xsm_estimator_gradient(ove, &batch, eta, gradient, &err), &err);
        papers_check(xsm_optimizer_apply(sgd, &batch, gradient, eta, &err), &err);
        seconds += papers_seconds(p) - before;
        if ((t + 1) % (s.steps / CURVE_POINTS) == 0) {
            curves_point(errors, "OVE", (double)(t + 1), distance(model, exact, estimate));
        }
    }
    curves_end(errors);
    double end = distance(model, exact, estimate);
    write_probabilities(p, &s, exact, estimate);
    report_cell(r, "error at the start", "OVE", PAPERS_NONE, start);
    report_cell(r, "error at the end", "OVE", PAPERS_NONE, end);
    report_cell(r, "microseconds a step", "OVE", PAPERS_NONE, 1e6 * seconds / (double)s.steps);
    report_end(r);
    xsm_gradient_free(gradient);
    xsm_optimizer_free(sgd);
    xsm_estimator_free(ove);
    xsm_model_free(model);
    xsm_dataset_free(data);
    free(ones);
    free(estimate);
    free(exact);
    free(seen);
    free(counts);
}
