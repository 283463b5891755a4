/*
 * Titsias, One-vs-Each Approximation to Softmax for Scalable Estimation of Probabilities, 2016, Table 2: the maxima of
 * the softmax's log likelihood and of the bounds on it, with the penalty (1/2)||w||^2, and one-vs-each by stochastic
 * gradients, batches of 200 with one other class each. norm = sum |w_soft - w| / sum |w_soft| (eq. 17), error and nlpd
 * on the test rows (eq. 18).
 */
#include "bound.h"

#include <stdio.h>

enum { SETS = 3, FITTED = 3, METHODS = 5, SGD = 3, SGD_LONG = 4, STEPS = 100000, LONGER = 10, BATCH = 200 };
#define RIDGE 1.0
#define TOLERANCE 1e-5
/* The learning rates tried for OVE-SGD, from the largest down. */
#define ETA_MOST 1.0
#define ETA_LEAST 5e-6
#define ETA_RATIO 3.1622776601683795
/* The factors of the tolerance of a SOFT that stops early. */
static const double early[] = {10, 30};

static const method methods[METHODS] = {
    {"SOFT", "softmax", 1, 0, NULL},
    {"BOUCHARD", "bouchard", 1, 0, NULL},
    {"OVE", "ove", 1, 0, "negatives=all"},
    [SGD] = {"OVE-SGD", "ove", BATCH, 1, NULL},
    /* As many steps as the paper's Figure 3 has; on the smallest set alone, for the time that they take. */
    [SGD_LONG] = {"OVE-SGD, 10^6 steps", "ove", BATCH, 1, NULL},
};

#define NONE PAPERS_NONE
static const struct published {
    const char *folder, *title;
    float scale;
    bool longer; /* with SGD_LONG */
    double norm[METHODS], error[METHODS], nlpd[METHODS];
} sets[SETS] = {
    {"mnist",
     "MNIST",
     1.0F / 255,
     false,
     {NONE, 0.64, 0.50, 0.53, 0.53},
     {0.074, 0.073, 0.082, 0.080, 0.080},
     {0.271, 0.333, 0.287, 0.278, 0.278}},
    {"20news",
     "20NEWS",
     1,
     false,
     {NONE, 0.65, 0.05, 0.14, 0.14},
     {0.272, 0.249, 0.276, 0.276, 0.276},
     {1.263, 1.337, 1.297, 1.312, 1.312}},
    {"bibtex",
     "BIBTEX",
     1,
     true,
     {NONE, 0.25, 0.09, 0.10, 0.10},
     {0.622, 0.621, 0.636, 0.633, 0.633},
     {2.793, 2.955, 2.888, 2.875, 2.875}},
};

static void put(report *r, const struct published *s, const char *what, size_t m, double paper, double ours)
{
    char row[80];
    snprintf(row, sizeof row, "%s, %s", s->title, what);
    report_cell(r, row, methods[m].title, paper, ours);
}

static void put_all(const papers *p, report *r, const struct published *s, const data_pair *data, size_t m,
                    xsm_model *model, xsm_model *soft, double seconds)
{
    evaluation test = evaluate(p, model, data->test);
    if (m > 0) {
        put(r, s, "norm", m, s->norm[m], distance_from(model, soft));
    }
    put(r, s, "error", m, s->error[m], test.error);
    put(r, s, "nlpd", m, s->nlpd[m], test.log_loss);
    put(r, s, "seconds", m, NONE, seconds);
    papers_say("  %s, %s (%.0f s)", s->title, methods[m].title, seconds);
}

typedef struct course {
    curves *to;
    const char *column;
    double rows;
} course;

/* The log likelihood or bound of an example, without the penalty, by passes over the rows. */
static int32_t add_point(void *user, const xsm_progress *progress)
{
    const course *c = user;
    if (progress->epoch_ended) {
        curves_point(c->to, c->column, (double)progress->examples / c->rows, -progress->loss);
    }
    return 0;
}

/* One-vs-each by stochastic gradients for `longer` times STEPS steps. */
static learned descend(const papers *p, report *r, const struct published *s, const data_pair *data, size_t which,
                       uint64_t longer, double eta)
{
    const method *m = &methods[which];
    uint64_t epochs = p->quick ? 3 : longer * STEPS * BATCH / data->rows;
    /* The last learning rate is a thousandth of the first. */
    plan how = {.epochs = epochs,
                .eta = eta,
                .factor = pow(1e-3, 1 / (double)epochs),
                .ridge = RIDGE,
                .bias = true,
                .skip_train = true};
    put(r, s, "eta", which, PAPERS_NONE, eta);
    learned l = learn(p, data->train, m, &how, NULL, NULL);
    if (l.diverged) {
        papers_fail("%s diverges on %s at rate %g", m->title, data->title, eta);
    }
    bound *b = bound_new(data->train, RIDGE);
    double value = bound_of_model(b, BOUND_NONE, l.model);
    put(r, s, "penalised bound an example", which, PAPERS_NONE, -value / (double)data->rows);
    bound_free(b);
    return l;
}

/* The learning rate at which a tenth of the rows, with a tenth of the L2 penalty (ridge), reaches the best penalised
 * bound. */
static double tune(const papers *p, const data_pair *data)
{
    const method *m = &methods[SGD];
    double least = INFINITY, eta = 0;
    uint64_t epochs = p->quick ? 3 : STEPS * (uint64_t)BATCH / data->rows;
    plan how = {.epochs = epochs,
                .factor = pow(1e-3, 1 / (double)epochs),
                .ridge = RIDGE / 10,
                .bias = true,
                .skip_train = true};
    xsm_dataset *tenth = data_tenth(data);
    bound *b = bound_new(tenth, RIDGE / 10);
    for (how.eta = ETA_MOST; how.eta > ETA_LEAST; how.eta /= ETA_RATIO) {
        learned l = learn(p, tenth, m, &how, NULL, NULL);
        double value = l.diverged ? (double)INFINITY : bound_of_model(b, BOUND_NONE, l.model);
        if (value < least) {
            least = value;
            eta = how.eta;
        }
        learned_free(&l);
    }
    bound_free(b);
    xsm_dataset_free(tenth);
    if (eta == 0) {
        papers_fail("%s diverges at every rate", m->title);
    }
    return eta;
}

/* The norms of the bounds relative to a SOFT that stops early, as the paper's may have done. */
static void put_early(const papers *p, report *r, const struct published *s, const data_pair *data,
                      const fitted bounds[FITTED], double tolerance)
{
    for (size_t i = 0; i < sizeof early / sizeof early[0]; i++) {
        char what[40];
        fitted soft = fit(p, data->train, &methods[0], RIDGE, true, early[i] * tolerance, NULL, NULL);
        snprintf(what, sizeof what, "norm, SOFT to %g", early[i] * tolerance);
        for (size_t m = 1; m < FITTED; m++) {
            put(r, s, what, m, NONE, distance_from(bounds[m].model, soft.model));
        }
        xsm_model_free(soft.model);
    }
}

static void run_set(const papers *p, report *r, const struct published *s)
{
    const double tolerance = p->quick ? 1e-2 : TOLERANCE;
    data_pair data;
    if (!data_read_union(p, s->folder, s->title, p->quick ? "truncate=500" : "", &data)) {
        return;
    }
    if (s->scale < 1) {
        data_scale(p, &data, s->scale);
    }
    report_note(r, "%s: N = %llu, test %llu, D = %u, K = %u.", s->title, (unsigned long long)data.rows,
                (unsigned long long)data.test_rows, data.features, data.classes);
    fitted all[FITTED];
    char name[80];
    snprintf(name, sizeof name, "ove_table2-%s", s->folder);
    curves *to = curves_new(p, name, "passes");
    for (size_t m = 0; m < FITTED; m++) {
        course c = {to, methods[m].title, (double)data.rows};
        all[m] = fit(p, data.train, &methods[m], RIDGE, true, tolerance, add_point, &c);
        put_all(p, r, s, &data, m, all[m].model, all[0].model, all[m].seconds);
        put(r, s, "penalised bound an example", m, NONE, -all[m].result.objective / (double)data.rows);
    }
    curves_end(to);
    put_early(p, r, s, &data, all, tolerance);
    const double eta = tune(p, &data);
    learned l = descend(p, r, s, &data, SGD, 1, eta);
    put_all(p, r, s, &data, SGD, l.model, all[0].model, l.seconds);
    learned_free(&l);
    if (s->longer) {
        l = descend(p, r, s, &data, SGD_LONG, LONGER, eta);
        put_all(p, r, s, &data, SGD_LONG, l.model, all[0].model, l.seconds);
        learned_free(&l);
    }
    for (size_t m = 0; m < FITTED; m++) {
        xsm_model_free(all[m].model);
    }
    data_free(&data);
}

void figure_ove_table2(const papers *p)
{
    report *r = report_new(p, "ove_table2", "Titsias 2016, Table 2: the bounds' maxima against the softmax's");
    report_note(
        r, "Penalty (1/2)||w||^2, with biases; the first label; classes: the first labels of training and test rows.");
    report_note(r,
                "L-BFGS to %g of the objective; OVE-SGD: %d steps, the rate falling to a thousandth, "
                "chosen for the penalised bound of a tenth of the rows.",
                TOLERANCE, STEPS);
    for (size_t i = 0; i < SETS; i++) {
        run_set(p, r, &sets[i]);
    }
    report_end(r);
}
