/*
 * Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities, 2016, Table 2: the distance
 * of BOUCHARD's weights from SOFT's on MNIST for several ways of updating alpha; the paper only says that each row has
 * its own. A vector that is added to the weights of all classes changes no probability, and no bound whose alphas
 * follow it, only the penalty. If alpha lags behind the weights such a vector arises, and only the penalty removes it
 * again.
 */
#include "bound.h"

#include <lbfgs.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEPT = 20, ITERATIONS = 2000, KEPT_ITERATIONS = 600 };
#define RIDGE 1.0
#define TOLERANCE 1e-5
/* A fit is measured at iterations whose numbers grow by this factor. */
#define SPACING 1.3

enum { SETS = 3 };
static const struct published {
    const char *folder, *title;
    float scale;
    double norm, error, nlpd;
} sets[SETS] = {
    {"mnist", "MNIST", 1.0F / 255, 0.64, 0.073, 0.333},
    {"20news", "20NEWS", 1, 0.65, 0.249, 1.337},
    {"bibtex", "BIBTEX", 1, 0.25, 0.621, 2.955},
};

static const method exact[2] = {{"SOFT", "softmax", 1, 0, NULL}, {"BOUCHARD", "bouchard", 1, 0, NULL}};

/* libLBFGS built with SSE needs vectors whose length is a multiple of 16. */
static size_t padded(size_t size)
{
    return (size + 15) / 16 * 16;
}

typedef struct course {
    const papers *p;
    const struct published *s;
    report *r;
    curves *to;
    bound *b;
    bound_alpha how;
    const char *title;
    const data_pair *data;
    xsm_model *soft, *model;
    uint64_t iterations, next;
} course;

static void put(const course *c, const char *what, xsm_model *model, double common, double objective)
{
    char row[120];
    evaluation test = evaluate(c->p, model, c->data->test);
    snprintf(row, sizeof row, "%s, %s", c->s->title, what);
    report_cell(c->r, row, "norm", c->s->norm, distance_from(model, c->soft));
    report_cell(c->r, row, "less the common vector", PAPERS_NONE, common);
    report_cell(c->r, row, "error", c->s->error, test.error);
    report_cell(c->r, row, "nlpd", c->s->nlpd, test.log_loss);
    report_cell(c->r, row, "penalised bound an example", PAPERS_NONE, -objective / (double)c->data->rows);
}

static void look(course *c, const double *x, double objective)
{
    char row[80], column[80];
    snprintf(row, sizeof row, "%s, %llu", c->title, (unsigned long long)c->iterations);
    bound_to_model(c->b, x, true, c->model);
    double common = distance_from(c->model, c->soft);
    bound_to_model(c->b, x, false, c->model);
    put(c, row, c->model, common, objective);
    curves_point(c->to, c->title, (double)c->iterations, distance_from(c->model, c->soft));
    snprintf(column, sizeof column, "%s (centred)", c->title);
    curves_point(c->to, column, (double)c->iterations, common);
    papers_say("  %s", row);
}

static lbfgsfloatval_t value(void *user, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, int n, lbfgsfloatval_t step)
{
    course *c = user;
    (void)step;
    for (size_t i = bound_size(c->b, c->how); i < (size_t)n; i++) {
        g[i] = 0;
    }
    return bound_value(c->b, c->how, x, g);
}

static int forward(void *user, const lbfgsfloatval_t *x, const lbfgsfloatval_t *g, lbfgsfloatval_t f,
                   lbfgsfloatval_t x_norm, lbfgsfloatval_t g_norm, lbfgsfloatval_t step, int n, int k, int trials)
{
    course *c = user;
    (void)g;
    (void)x_norm;
    (void)g_norm;
    (void)step;
    (void)n;
    (void)k;
    (void)trials;
    c->iterations++;
    if (c->how == BOUND_JOINT && c->iterations >= c->next) {
        look(c, x, f);
        c->next = (uint64_t)(SPACING * (double)c->next) + 1;
    }
    return 0;
}

static double descend(course *c, double *x, int iterations)
{
    lbfgs_parameter_t options;
    double f = 0;
    lbfgs_parameter_init(&options);
    options.m = 10;
    options.epsilon = 1e-9;
    options.max_linesearch = 40;
    /* If a line search ends because of rounding, L-BFGS restarts from there. x is the best so far, however it ends. */
    for (uint64_t first = c->iterations, before = first; before - first < (uint64_t)iterations;
         before = c->iterations) {
        options.max_iterations = iterations - (int)(before - first);
        int code = lbfgs((int)padded(bound_size(c->b, c->how)), x, &f, value, forward, c, &options);
        if (code >= 0 || c->iterations == before) {
            break;
        }
    }
    return f;
}

static void run_joint(course *c)
{
    double *x = papers_memory(padded(bound_size(c->b, BOUND_JOINT)), sizeof *x);
    c->how = BOUND_JOINT;
    c->title = "a variable of each row";
    c->iterations = 0;
    c->next = c->p->quick ? 1 : 20;
    descend(c, x, c->p->quick ? 4 : ITERATIONS);
    free(x);
}

/* Alternates between the best alphas and KEPT iterations of the weights with these alphas. */
static void run_kept(course *c)
{
    const size_t size = bound_size(c->b, BOUND_KEPT);
    double *x = papers_memory(padded(size), sizeof *x), *g = papers_memory(size, sizeof *g);
    c->title = "kept for 20 iterations";
    c->iterations = 0;
    c->next = KEPT;
    bound_value(c->b, BOUND_BEST, x, g);
    while (c->iterations < (c->p->quick ? KEPT : KEPT_ITERATIONS)) {
        uint64_t before = c->iterations;
        c->how = BOUND_KEPT;
        descend(c, x, KEPT);
        double objective = bound_value(c->b, BOUND_BEST, x, g);
        if (c->iterations >= c->next || c->iterations == before) {
            look(c, x, objective);
            c->next = (uint64_t)(SPACING * (double)c->next) + 1;
        }
        if (c->iterations == before) {
            break;
        }
    }
    free(x);
    free(g);
}

static void run_set(const papers *p, report *r, const struct published *s)
{
    data_pair data;
    xsm_error err = XSM_ERROR_INIT;
    const double tolerance = p->quick ? 1e-2 : TOLERANCE;
    if (!data_read_union(p, s->folder, s->title, p->quick ? "truncate=500" : "", &data)) {
        return;
    }
    if (s->scale < 1) {
        data_scale(p, &data, s->scale);
    }
    fitted fits[2];
    for (size_t m = 0; m < 2; m++) {
        fits[m] = fit(p, data.train, &exact[m], RIDGE, true, tolerance, NULL, NULL);
    }
    char name[80];
    snprintf(name, sizeof name, "ove_alpha-%s", s->folder);
    course c = {.p = p, .s = s, .r = r, .data = &data, .soft = fits[0].model};
    c.to = curves_new(p, name, "iterations");
    c.b = bound_new(data.train, RIDGE);
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = 1;
    papers_check(xsm_model_new_linear(p->context, data.features, data.classes, &shape, &c.model, &err), &err);
    double distance = distance_from(fits[1].model, fits[0].model);
    put(&c, "best in each evaluation, to the end", fits[1].model, distance, fits[1].result.objective);
    run_joint(&c);
    run_kept(&c);
    curves_end(c.to);
    bound_free(c.b);
    xsm_model_free(c.model);
    xsm_model_free(fits[0].model);
    xsm_model_free(fits[1].model);
    data_free(&data);
}

void figure_ove_alpha(const papers *p)
{
    report *r = report_new(p, "ove_alpha", "Titsias 2016, Table 2: BOUCHARD by how alpha moves");
    report_note(
        r, "Penalty (1/2)||w||^2; SOFT by L-BFGS to %g of the objective. Rows: alpha, L-BFGS iterations from zero.",
        TOLERANCE);
    for (size_t i = 0; i < SETS; i++) {
        run_set(p, r, &sets[i]);
    }
    report_end(r);
}
