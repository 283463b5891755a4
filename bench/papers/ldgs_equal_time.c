/*
 * Yen et al., Loss Decomposition for Fast Learning in Large Output Spaces, 2018, Figure 1 (MegaFace: 672 thousand
 * identities, embeddings of 128 numbers): accuracy as a function of time at the paper's K and D, on generated faces of
 * that form.
 *
 * Every identity is enrolled: its initial weights are one image of it. Then the methods train on images of some of the
 * identities, each from the same weights, in turns of some seconds, so that a slowdown of the machine affects all of
 * them. Each method's learning rate is chosen on a problem with a tenth of the identities and images, where a step also
 * costs about a tenth, and each rate has a hundredth of the time: about as many epochs.
 */
#include "race.h"

#include "ldgs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    D = 128,
    BLOCKS = 8,
    FAMILY = 8,
    IMAGES = 7,
    BATCH = 10,
    EPOCHS_ENOUGH = 1000000,
    SMALLER = 10,
    MEASURED = 2000,
    MEASURED_NEW = 1000,
    RETRIEVED = 100,
    SLICES = 32
};
enum { SEED_ENROLLED = 5, SEED_ROWS = 11 };

/* The factor of an enrolled identity's image. */
#define ENROLLED_LENGTH 8.0

static const rate_grid grid = {2, -1, 3}; /* 0.3 to 30 */

/* A problem, and the options of its methods. */
typedef struct course {
    const papers *p;
    ldgs_shape shape;
    uint64_t rows;
    float *enrolled;             /* [K][D] */
    xsm_dataset *train;          /* IMAGES of each of the first identities */
    xsm_dataset *sample, *fresh; /* some of them, and other images of the same identities */
    char search[60], decomposed[80], plain[60], shared[60], few[60], fixed[90], adaptive[140];
} course;

/* A running method. */
typedef struct runner {
    const papers *p;
    const method *method;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    double spent, begun, until; /* seconds so far; start and length of the present slice */
    double eta;
    bool diverged;
} runner;

/* -- problems */

static unsigned long long measured(uint64_t rows, uint64_t most)
{
    return rows < most ? rows : most;
}

/* Up to `most` rows, at most MEASURED, evenly spaced, or all if there are fewer; the caller frees them. */
static xsm_dataset *some_of(const xsm_dataset *rows, uint64_t count, uint64_t most)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *some = NULL;
    uint64_t which[MEASURED], chosen = measured(count, most);
    for (uint64_t i = 0; i < chosen; i++) {
        which[i] = i * count / chosen;
    }
    papers_check(xsm_dataset_select(rows, which, chosen, &some, &err), &err);
    return some;
}

static course course_new(const papers *p, uint32_t classes)
{
    const uint32_t identities = classes / 16 / IMAGES > 0 ? classes / 16 / IMAGES : 1;
    course c = {.p = p, .rows = (uint64_t)identities * IMAGES};
    c.shape = (ldgs_shape){.classes = classes,
                           .groups = identities / 84 + 1,
                           .features = D,
                           .most_labels = 1,
                           .noise = 1.9,
                           .families = identities / FAMILY};
    const uint32_t found = classes / 100 > 0 ? classes / 100 : 1,
                   clusters = classes / 168 < 1000 ? classes / 168 : 1000;
    snprintf(c.search, sizeof c.search, "candidates=%u,index.clusters=%u", found, clusters);
    snprintf(c.decomposed, sizeof c.decomposed, "%s,blocks=%d", c.search, BLOCKS);
    snprintf(c.plain, sizeof c.plain, "negatives=%u,log-q=no", found);
    snprintf(c.shared, sizeof c.shared, "negatives=%u,shared=yes", found);
    snprintf(c.few, sizeof c.few, "negatives=%u,shared=yes", found / 10 > 0 ? found / 10 : 1);
    snprintf(c.fixed, sizeof c.fixed, "%s,loss=cross-entropy", c.search);
    snprintf(c.adaptive, sizeof c.adaptive, "%s,error=0.1,most=%u", c.fixed, found);
    c.enrolled = papers_memory((size_t)classes * D, sizeof *c.enrolled);
#pragma omp parallel for schedule(static)
    for (uint32_t k = 0; k < classes; k++) {
        float *to = c.enrolled + (size_t)k * D;
        ldgs_image(&c.shape, k, SEED_ENROLLED, to);
        for (uint32_t f = 0; f < D; f++) {
            to[f] *= (float)ENROLLED_LENGTH;
        }
    }
    c.train = ldgs_rows(p, &c.shape, IMAGES, c.rows, SEED_ROWS);
    c.sample = some_of(c.train, c.rows, MEASURED);
    c.shape.images = 1;
    xsm_dataset *fresh = ldgs_rows(p, &c.shape, 1, identities, SEED_ROWS);
    c.fresh = some_of(fresh, identities, MEASURED_NEW);
    xsm_dataset_free(fresh);
    return c;
}

static void course_end(course *c)
{
    free(c->enrolled);
    xsm_dataset_free(c->train);
    xsm_dataset_free(c->sample);
    xsm_dataset_free(c->fresh);
}

/* -- methods */

static int32_t stop_at(void *user, const xsm_progress *progress)
{
    (void)progress;
    const runner *r = user;
    return papers_seconds(r->p) - r->begun >= r->until;
}

static xsm_model *enrolled_model(const course *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *model = NULL;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    papers_check(xsm_model_new_linear(c->p->context, D, c->shape.classes, NULL, &model, &err), &err);
    papers_check(xsm_model_get_parameters(model, &w, &err), &err);
    for (uint32_t k = 0; k < c->shape.classes; k++) {
        memcpy(w.weight + k * w.class_step, c->enrolled + (size_t)k * D, D * sizeof *w.weight);
    }
    return model;
}

/* Prepares a method; the time counts. `r` must not be moved. */
static void start(const course *c, const method *m, double eta, runner *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    *r = (runner){.p = c->p, .method = m, .model = enrolled_model(c), .eta = eta};
    options.epochs = EPOCHS_ENOUGH;
    options.batch = m->batch;
    options.eta = eta * (double)m->batch;
    options.schedule = XSM_SCHEDULE_INVERSE;
    options.seed = 1;
    options.progress = stop_at;
    options.progress_user = r;
    double begun = papers_seconds(c->p);
    papers_check(xsm_estimator_new(c->p->context, m->estimator, &r->estimator, &err), &err);
    set_options(r->estimator, m, 0);
    papers_check(xsm_optimizer_new(c->p->context, "sgd", &r->optimizer, &err), &err);
    papers_check(
        xsm_trainer_new(c->p->context, r->model, c->train, r->estimator, r->optimizer, &options, &r->trainer, &err),
        &err);
    r->spent = papers_seconds(c->p) - begun;
}

/* Trains until the total time is spent. */
static void go_on(runner *r, double seconds)
{
    xsm_error err = XSM_ERROR_INIT;
    r->until = seconds - r->spent;
    if (r->diverged || r->until <= 0) {
        return;
    }
    r->begun = papers_seconds(r->p);
    xsm_status status = xsm_trainer_run(r->trainer, &err);
    r->spent += papers_seconds(r->p) - r->begun;
    r->diverged = status == XSM_ERROR_DIVERGED;
    papers_check(r->diverged || status == XSM_CANCELLED ? XSM_OK : status, &err);
}

static double epochs_passed(const course *c, const runner *r)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_progress progress = XSM_PROGRESS_INIT;
    papers_check(xsm_trainer_get_progress(r->trainer, &progress, &err), &err);
    return (double)progress.examples / (double)c->rows;
}

static void end(runner *r)
{
    xsm_trainer_free(r->trainer);
    xsm_optimizer_free(r->optimizer);
    xsm_estimator_free(r->estimator);
    xsm_model_free(r->model);
}

typedef struct trial {
    const course *c;
    const method *m;
    double seconds;
} trial;

/* Errors on the small problem's rows; of equal ones the one with the smaller log-loss is the less. */
static double try_rate(void *user, double rate)
{
    const trial *t = user;
    runner r;
    start(t->c, t->m, rate, &r);
    while (!r.diverged && epochs_passed(t->c, &r) == 0) {
        go_on(&r, r.spent + 1e-6); /* the first step builds indexes: a larger share of a short run */
    }
    r.spent = 0;
    go_on(&r, t->seconds);
    double loss = PAPERS_NONE;
    if (!r.diverged) {
        const evaluation found = evaluate(t->c->p, r.model, t->c->sample);
        papers_say("    %s, eta0 = %g: %.1f epochs, %.2f %% right, log-loss %.4f", t->m->title, rate,
                   epochs_passed(t->c, &r), 100 * (1 - found.error), found.log_loss);
        loss = found.error + 1e-9 * found.log_loss;
    }
    end(&r);
    return loss;
}

/* The learning rate that is best on the small problem's rows. */
static double best_eta(const course *c, const method *m, double seconds)
{
    trial t = {c, m, seconds};
    return rate_find(c->p, &grid, m->title, try_rate, &t).best;
}

/* -- the race */

enum { METHODS = 8, FEW_SHARED = 5 };

typedef struct outcome {
    report *table;
    curves *train, *fresh;
    double seconds; /* of each method */
} outcome;

static void add_point(const course *c, const runner *r, double seconds, const outcome *to)
{
    char column[60];
    double train = PAPERS_NONE, fresh = PAPERS_NONE;
    /* Not if an index was still being built at that time. */
    if (!r->diverged && r->spent <= 1.1 * seconds) {
        train = 100 * (1 - evaluate(c->p, r->model, c->sample).error);
        fresh = 100 * (1 - evaluate(c->p, r->model, c->fresh).error);
        curves_point(to->train, r->method->title, seconds, train);
        curves_point(to->fresh, r->method->title, seconds, fresh);
        papers_say("  %s after %.4g s, %.2f epochs: %.2f, new images %.2f", r->method->title, r->spent,
                   epochs_passed(c, r), train, fresh);
    }
    snprintf(column, sizeof column, "%% right, %.4g s", seconds);
    report_cell(to->table, r->method->title, column, PAPERS_NONE, train);
    if (seconds == to->seconds) {
        report_cell(to->table, r->method->title, "eta0", PAPERS_NONE, r->eta);
        report_cell(to->table, r->method->title, "new images", PAPERS_NONE, fresh);
        report_cell(to->table, r->method->title, "epochs", PAPERS_NONE, epochs_passed(c, r));
    }
}

/* Runs the methods in turn; evaluates when the number of completed slices is a power of two. */
static void race_all(const course *c, runner *all, size_t count, const outcome *to)
{
    for (int slice = 1; slice <= SLICES; slice++) {
        const double until = to->seconds * slice / SLICES;
        for (size_t i = 0; i < count; i++) {
            go_on(&all[i], until);
        }
        for (size_t i = 0; i < count && !(slice & (slice - 1)); i++) {
            add_point(c, &all[i], until, to);
        }
    }
}

/* The methods of a problem; `shared` and `few` are not from the paper. */
static void methods_of(const course *c, method all[METHODS])
{
    const method of[METHODS] = {{"Decomp-MIPS", "decomp-mips", BATCH, 0, c->decomposed},
                                {"MIPS", "mips", BATCH, 0, c->search},
                                {"Margin", "margin", BATCH, 0, NULL},
                                {"Sampled-Softmax (paper's)", "sampled-softmax", BATCH, 0, c->plain},
                                {"Sampled-Softmax (shared)", "sampled-softmax", BATCH, 0, c->shared},
                                {"Sampled-Softmax (few shared)", "sampled-softmax", BATCH, 0, c->few},
                                {"MIPS (softmax)", "mips", BATCH, 0, c->fixed},
                                {"MIPS (softmax adaptive)", "mips", BATCH, 0, c->adaptive}};
    memcpy(all, of, sizeof of);
}

/* What ways of retrieving classes find with the weights that softmax has trained. */
static void retrieve(const course *c, report *r, xsm_model *model)
{
    char zero[120], drop[160], tenth[160], hundredth[160];
    snprintf(zero, sizeof zero, "startup=0,%s", c->fixed);
    snprintf(drop, sizeof drop, "%s,missing=drop", zero);
    snprintf(tenth, sizeof tenth, "%s,error=0.1", zero);
    snprintf(hundredth, sizeof hundredth, "%s,error=0.01", zero);
    const ldgs_way ways[] = {{"mips Q zero", "mips", zero},
                             {"mips Q drop", "mips", drop},
                             {"mips error 0.1", "mips", tenth},
                             {"mips error 0.01", "mips", hundredth}};
    xsm_dataset *rows = some_of(c->fresh, measured(c->rows / IMAGES, MEASURED_NEW), RETRIEVED);
    ldgs_retrieve(c->p, r, "Retrieved", model, rows, ways, sizeof ways / sizeof ways[0]);
    xsm_dataset_free(rows);
}

/* Ends the program if an unknown method is requested. */
static void check_names(const papers *p, const method all[METHODS])
{
    const char *titles[METHODS + 1] = {NULL};
    for (size_t m = 0; m < METHODS; m++) {
        titles[m] = all[m].title;
    }
    papers_check_list(p->only, "method", titles);
}

void figure_ldgs_equal_time(const papers *p)
{
    const uint32_t asked = (p->quick ? 3000 : 672000) / (p->scale > 0 ? p->scale : 1), least = 10 * SMALLER;
    const uint32_t classes = asked > least ? asked : least;
    const double seconds = p->quick ? 0.4 : p->budget > 0 ? p->budget : 60;
    method all[METHODS], smaller[METHODS];
    runner runners[METHODS];
    double chosen[METHODS];
    size_t count = 0;
    report *r = report_new(p, "ldgs_equal_time", "Yen et al. 2018, Figure 1: accuracy against time");
    course c = course_new(p, classes / SMALLER);
    methods_of(&c, smaller);
    check_names(p, smaller);
    for (size_t m = 0; m < METHODS; m++) {
        chosen[m] =
            papers_listed(p->only, smaller[m].title) ? best_eta(&c, &smaller[m], seconds / SMALLER / SMALLER) : 0;
        if (!isfinite(chosen[m])) {
            papers_fail("%s diverges at every rate", smaller[m].title);
        }
    }
    course_end(&c);
    c = course_new(p, classes);
    methods_of(&c, all);
    outcome to = {r, curves_new(p, "ldgs_equal_time-train", "seconds"), curves_new(p, "ldgs_equal_time-new", "seconds"),
                  seconds};
    for (size_t m = 0; m < METHODS; m++) {
        if (chosen[m] > 0) {
            start(&c, &all[m], chosen[m], &runners[count++]);
        }
    }
    race_all(&c, runners, count, &to);
    for (size_t i = 0; i < count; i++) {
        if (runners[i].method == &all[FEW_SHARED] && !runners[i].diverged) {
            report_note(r, "Retrieved: with the model of %s, for %d new images; a step has %d rows.",
                        all[FEW_SHARED].title, RETRIEVED, BATCH);
            retrieve(&c, r, runners[i].model);
        }
        end(&runners[i]);
    }
    const uint64_t identities = c.rows / IMAGES;
    report_note(
        r,
        "K = %u, D = %d, all enrolled with one image; trained on %d images of each of %llu; n = %d, Q = K/100, "
        "B = %d; rate eta0/(1 + epochs), eta0 the best on a problem of a %dth of "
        "the size. Per cent right of %llu of the training rows after so many seconds%s, and of %llu other images "
        "of the same identities at the end; %u threads.",
        classes, D, IMAGES, (unsigned long long)identities, BATCH, BLOCKS, SMALLER, measured(c.rows, MEASURED),
        p->processor ? " of processor time" : "", measured(identities, MEASURED_NEW), papers_context(p).threads);
    curves_end(to.train);
    curves_end(to.fresh);
    course_end(&c);
    report_end(r);
}
