/*
 * Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities, 2016, Figure 1: (a)
 * probabilities of ten values from 200 observations; (b) decision boundaries of five classes in the plane, 200 points;
 * (c) the maximised log likelihood of (b) and its bounds, and the stochastic one-vs-each bound during training: batches
 * of ten, one other class each, 10,000 steps. The paper's points are not published; these are drawn in the same way.
 */
#include "learn.h"

#include "data.h"

#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 200, VALUES = 10, CLASSES = 5, ANGLES = 3600, BATCH = 10, STEPS = 10000, WINDOW = 5, EXACT = 3 };
#define SPREAD 0.55
#define RADIUS 1.5
#define TURN 6.283185307179586

static const method exact[EXACT] = {
    {"softmax", "softmax", 1, 0, NULL}, {"OVE", "ove", 1, 0, "negatives=all"}, {"Bouchard", "bouchard", 1, 0, NULL}};

static double unit(bench_random *r)
{
    return ((double)(bench_next(r) >> 11) + 0.5) * 0x1p-53;
}

/* Box and Muller, A note on the generation of random normal deviates, 1958. */
static double normal(bench_random *r)
{
    double length = sqrt(-2 * log(unit(r)));
    return length * cos(TURN * unit(r));
}

static xsm_dataset *dense(const papers *p, const float *values, uint32_t features, const uint32_t *of, uint32_t classes)
{
    xsm_labels labels = {sizeof labels, classes, 0, NULL, of, NULL};
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_dataset_from_dense(p->context,
                                        &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                          .values = values,
                                                          .rows = POINTS,
                                                          .features = features,
                                                          .labels = &labels},
                                        &data, &err),
                 &err);
    return data;
}

/* Each value occurs; there is a single feature, always 1, so the weights are the scores (logits). */
static xsm_dataset *draw_values(const papers *p)
{
    bench_random random = {21};
    float ones[POINTS];
    uint32_t of[POINTS];
    for (uint32_t i = 0; i < POINTS; i++) {
        double u = unit(&random);
        ones[i] = 1;
        of[i] = i < VALUES ? i : (uint32_t)(VALUES * u * u); /* the first values are more frequent */
    }
    return dense(p, ones, 1, of, VALUES);
}

static xsm_dataset *draw_points(const papers *p)
{
    bench_random random = {22};
    float at[2 * POINTS];
    uint32_t of[POINTS];
    curves *to = curves_new(p, "ove_toy-points", "x");
    for (uint32_t i = 0; i < POINTS; i++) {
        of[i] = i % CLASSES;
        double angle = TURN * (of[i] + 0.15) / CLASSES;
        at[2 * i] = (float)(RADIUS * cos(angle) + SPREAD * normal(&random));
        at[2 * i + 1] = (float)(RADIUS * sin(angle) + SPREAD * normal(&random));
        char name[16];
        snprintf(name, sizeof name, "class %u", of[i] + 1);
        curves_point(to, name, (double)at[2 * i], (double)at[2 * i + 1]);
    }
    curves_end(to);
    return dense(p, at, 2, of, CLASSES);
}

static void show_values(const papers *p, report *r)
{
    xsm_dataset *data = draw_values(p);
    xsm_error err = XSM_ERROR_INIT;
    const uint64_t *counts = papers_class_counts(data);
    curves *to = curves_new(p, "ove_toy-values", "value");
    for (uint32_t k = 0; k < VALUES; k++) {
        char row[32];
        snprintf(row, sizeof row, "(a) value %u: probability", k + 1);
        report_cell(r, row, "N_k/N", PAPERS_NONE, (double)counts[k] / POINTS);
    }
    for (size_t m = 0; m < EXACT; m++) {
        fitted f = fit(p, data, &exact[m], 0, false, 1e-9, NULL, NULL);
        xsm_parameters w = XSM_PARAMETERS_INIT;
        papers_check(xsm_model_get_parameters(f.model, &w, &err), &err);
        double sum = 0;
        for (uint32_t k = 0; k < VALUES; k++) {
            sum += exp((double)w.weight[k * w.class_step]);
        }
        for (uint32_t k = 0; k < VALUES; k++) {
            char row[32];
            double share = exp((double)w.weight[k * w.class_step]) / sum;
            snprintf(row, sizeof row, "(a) value %u: probability", k + 1);
            report_cell(r, row, exact[m].title, PAPERS_NONE, share);
            curves_point(to, exact[m].title, k + 1, share);
        }
        xsm_model_free(f.model);
    }
    curves_end(to);
    xsm_dataset_free(data);
}

/* Without biases the boundaries are rays from the origin: the angles at which the best class changes. */
static void write_boundaries(xsm_model *model, const char *title, curves *to)
{
    xsm_parameters w = XSM_PARAMETERS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    uint32_t before = CLASSES;
    papers_check(xsm_model_get_parameters(model, &w, &err), &err);
    for (int i = 0; i <= ANGLES; i++) {
        double angle = TURN * i / ANGLES, most = -INFINITY;
        uint32_t best = 0;
        for (uint32_t k = 0; k < CLASSES; k++) {
            const float *row = w.weight + k * w.class_step;
            double score = (double)row[0] * cos(angle) + (double)row[w.feature_step] * sin(angle);
            if (score > most) {
                most = score;
                best = k;
            }
        }
        if (i > 0 && best != before) {
            curves_point(to, title, angle, 1);
        }
        before = best;
    }
}

/* Sum over the rows of the one-vs-each bound of log p. */
static double ove_bound(const xsm_model *model, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    float scores[POINTS * CLASSES];
    xsm_batch batch = xsm_batch_range(data, 0, POINTS);
    double sum = 0;
    papers_check(xsm_model_score_range(model, &batch, 0, CLASSES, scores, CLASSES, &err), &err);
    for (uint64_t i = 0; i < POINTS; i++) {
        const float *z = scores + i * CLASSES;
        xsm_row row = XSM_ROW_INIT;
        papers_check(xsm_dataset_get_row(data, i, &row, &err), &err);
        for (uint32_t k = 0; k < CLASSES; k++) {
            double d = (double)z[k] - (double)z[row.labels[0]];
            sum -= k == row.labels[0] ? 0 : (d > 0 ? d : 0) + log1p(exp(-fabs(d)));
        }
    }
    return sum;
}

typedef struct along {
    curves *to;
    double sum;
} along;

/* The mean of the bound's estimates over WINDOW epochs, scaled to all rows. */
static int32_t add_estimate(void *user, const xsm_progress *progress)
{
    along *a = user;
    if (progress->epoch_ended) {
        a->sum -= progress->loss * POINTS;
        if (progress->epoch % WINDOW == 0) {
            curves_point(a->to, "OVE-SGD", (double)progress->step, a->sum / WINDOW);
            a->sum = 0;
        }
    }
    return 0;
}

typedef struct stochastic_trial {
    const papers *p;
    const xsm_dataset *data;
    const method *m;
    plan how;
} stochastic_trial;

static double try_stochastic(void *user, double rate)
{
    stochastic_trial *t = user;
    t->how.eta = rate;
    learned l = learn(t->p, t->data, t->m, &t->how, NULL, NULL);
    const double loss = l.diverged ? PAPERS_NONE : -ove_bound(l.model, t->data);
    learned_free(&l);
    return loss;
}

static void show_points(const papers *p, report *r)
{
    static const method stochastic = {"OVE-SGD", "ove", BATCH, 1, NULL};
    xsm_dataset *data = draw_points(p);
    curves *rays = curves_new(p, "ove_toy-boundaries", "angle"), *bounds = curves_new(p, "ove_toy-bounds", "iteration");
    fitted of[EXACT];
    for (size_t m = 0; m < EXACT; m++) {
        of[m] = fit(p, data, &exact[m], 0, false, 1e-9, NULL, NULL);
        write_boundaries(of[m].model, exact[m].title, rays);
        curves_point(bounds, exact[m].title, 0, -of[m].result.loss);
        curves_point(bounds, exact[m].title, STEPS, -of[m].result.loss);
        report_cell(r, "(c) maximised log likelihood or bound", exact[m].title, PAPERS_NONE, -of[m].result.loss);
        report_cell(r, "(c) log likelihood at that maximum", exact[m].title, PAPERS_NONE,
                    -softmax_objective(p, of[m].model, data, 0));
        report_cell(r, "(c) |w - softmax's| / |softmax's|", exact[m].title, PAPERS_NONE,
                    distance_from(of[m].model, of[0].model));
    }
    plan how = {.epochs = STEPS * BATCH / POINTS, .factor = 0.99, .skip_train = true};
    stochastic_trial trial = {p, data, &stochastic, how};
    const rate_search rate = rate_find(p, &decades, stochastic.title, try_stochastic, &trial);
    along a = {bounds, 0};
    how.eta = rate.best;
    how.progress = add_estimate;
    how.progress_user = &a;
    learned l = learn(p, data, &stochastic, &how, NULL, NULL);
    report_cell(r, "(c) maximised log likelihood or bound", "OVE-SGD", PAPERS_NONE, ove_bound(l.model, data));
    report_cell(r, "(c) log likelihood at that maximum", "OVE-SGD", PAPERS_NONE,
                -softmax_objective(p, l.model, data, 0));
    report_cell(r, "(c) |w - softmax's| / |softmax's|", "OVE-SGD", PAPERS_NONE, distance_from(l.model, of[0].model));
    learned_free(&l);
    for (size_t m = 0; m < EXACT; m++) {
        xsm_model_free(of[m].model);
    }
    curves_end(rays);
    curves_end(bounds);
    xsm_dataset_free(data);
}

void figure_ove_toy(const papers *p)
{
    report *r = report_new(p, "ove_toy", "Titsias 2016, Figure 1: softmax, one-vs-each and Bouchard's bound");
    report_note(r, "(a) %d observations of %d values; (b, c) %d points of %d classes in the plane, no bias, no ridge.",
                POINTS, VALUES, POINTS, CLASSES);
    report_note(r, "The paper shows curves, and gives no numbers; its points are not published.");
    show_values(p, r);
    show_points(p, r);
    report_end(r);
}
