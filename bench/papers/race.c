/* A trainer that is stopped and continued: the model is evaluated at each stop. */
#include "race.h"

#include "data.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/sampler.h>

enum { HELD_OUT_MOST = 2000, EPOCHS_ENOUGH = 1000000, HOLD_OUT_SEED = 3 };

xsm_dataset *race_hold_out(data_pair *data)
{
    xsm_dataset *held = NULL, *rest = NULL;
    xsm_error err = XSM_ERROR_INIT;
    const uint64_t want = data->rows / 10 > HELD_OUT_MOST ? HELD_OUT_MOST : data->rows / 10;
    const uint64_t *counts = papers_class_counts(data->train);
    uint64_t *left = papers_memory(data->classes, sizeof *left), *order = papers_memory(data->rows, sizeof *order);
    memcpy(left, counts, data->classes * sizeof *left);
    bench_random random = {HOLD_OUT_SEED};
    for (uint64_t i = 0; i < data->rows; i++) {
        const uint64_t at = bench_below(&random, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    /* The first `want` rows of the order, less those that are the last of their class, go to the front. */
    uint64_t out = 0;
    for (uint64_t i = 0; i < data->rows && out < want; i++) {
        xsm_row row = XSM_ROW_INIT;
        papers_check(xsm_dataset_get_row(data->train, order[i], &row, &err), &err);
        if (left[row.labels[0]] > 1) {
            left[row.labels[0]]--;
            const uint64_t held_row = order[i];
            order[i] = order[out];
            order[out++] = held_row;
        }
    }
    papers_check(xsm_dataset_select(data->train, order, out, &held, &err), &err);
    papers_check(xsm_dataset_select(data->train, order + out, data->rows - out, &rest, &err), &err);
    free(left);
    free(order);
    xsm_dataset_free(data->train);
    data->train = rest;
    data->rows -= out;
    return held;
}

void race_limit_test(data_pair *data)
{
    xsm_dataset *some = NULL, *rest = NULL;
    xsm_error err = XSM_ERROR_INIT;
    if (data->test_rows > RACE_TEST_MOST) {
        papers_check(
            xsm_dataset_split(data->test, (double)RACE_TEST_MOST / (double)data->test_rows, 1, &some, &rest, &err),
            &err);
        xsm_dataset_free(rest);
        xsm_dataset_free(data->test);
        data->test = some;
        data->test_rows = RACE_TEST_MOST;
    }
}

double race_seconds(const papers *p, double usual)
{
    return p->quick ? 0.1 : p->budget > 0 ? p->budget : usual;
}

typedef struct stop {
    const papers *p;
    double begun, until; /* of this run, without evaluations */
} stop;

static int32_t stop_at(void *user, const xsm_progress *progress)
{
    (void)progress;
    const stop *s = user;
    return papers_seconds(s->p) - s->begun >= s->until;
}

static void add_point(const papers *p, race *r, const xsm_model *model, const xsm_dataset *rows, double seconds)
{
    evaluation metrics = evaluate(p, model, rows);
    r->seconds[r->count] = seconds;
    r->log_loss[r->count] = metrics.log_loss;
    r->accuracy[r->count++] = 1 - metrics.error;
}

static const char of_sampler[] = "sampler.";

typedef struct fitting {
    const papers *p;
    xsm_sampler *sampler; /* NULL: none yet */
} fitting;

static void make_sampler(void *to, const char *name, const char *value)
{
    fitting *f = to;
    xsm_error err = XSM_ERROR_INIT;
    if (strcmp(name, "sampler") == 0) {
        papers_check(xsm_sampler_new(f->p->context, value, &f->sampler, &err), &err);
    } else if (strncmp(name, of_sampler, sizeof of_sampler - 1) == 0) {
        papers_check(xsm_sampler_set(f->sampler, name + sizeof of_sampler - 1, value, &err), &err);
    }
}

static void set_estimator(void *to, const char *name, const char *value)
{
    xsm_error err = XSM_ERROR_INIT;
    if (strncmp(name, "sampler", sizeof "sampler" - 1) != 0) {
        papers_check(xsm_estimator_set(to, name, value, &err), &err);
    }
}

racer racer_new(const papers *p, const data_pair *data, const method *m, const char *optimizer)
{
    xsm_error err = XSM_ERROR_INIT;
    fitting f = {.p = p};
    each_option(m->options, make_sampler, &f);
    racer r = {.method = m, .optimizer = optimizer, .sampler = f.sampler};
    if (r.sampler) {
        double start = papers_seconds(p);
        papers_check(xsm_sampler_bind(r.sampler, data->train, &err), &err);
        r.fit = papers_seconds(p) - start;
    }
    return r;
}

void racer_free(racer *r)
{
    xsm_sampler_free(r->sampler);
}

race race_run(const papers *p, const data_pair *data, const xsm_dataset *rows, const racer *who, double eta,
              double seconds, int points, bool steps_alone)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_progress progress = XSM_PROGRESS_INIT;
    xsm_model *model = new_model(p, data->features, data->classes, who->hidden, true);
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    race r = {.count = 0};
    stop when = {p, 0, 0};
    set_biases(model, who->bias);
    papers_check(xsm_estimator_new(p->context, who->method->estimator, &estimator, &err), &err);
    if (who->method->negatives > 0) {
        papers_check(xsm_estimator_set_number(estimator, "negatives", who->method->negatives, &err), &err);
    }
    each_option(who->method->options, set_estimator, estimator);
    if (who->sampler) {
        papers_check(xsm_estimator_set_sampler(estimator, who->sampler, &err), &err);
    }
    papers_check(xsm_optimizer_new(p->context, who->optimizer, &optimizer, &err), &err);
    options.epochs = EPOCHS_ENOUGH;
    options.batch = who->method->batch;
    options.eta = eta;
    options.schedule = XSM_SCHEDULE_CONSTANT;
    options.seed = 1;
    options.progress = stop_at;
    options.progress_user = &when;
    double start = papers_seconds(p);
    papers_check(xsm_trainer_new(p->context, model, data->train, estimator, optimizer, &options, &trainer, &err), &err);
    double spent = steps_alone ? 0 : who->fit + papers_seconds(p) - start;
    for (int i = points - 1; i >= 0 && !r.diverged; i--) {
        when.until = ldexp(seconds, -i) - spent;
        if (when.until <= 0) {
            continue; /* the first step starts later */
        }
        when.begun = papers_seconds(p);
        xsm_status status = xsm_trainer_run(trainer, &err);
        spent += papers_seconds(p) - when.begun;
        r.diverged = status == XSM_ERROR_DIVERGED;
        papers_check(r.diverged || status == XSM_CANCELLED ? XSM_OK : status, &err);
        papers_check(xsm_trainer_get_progress(trainer, &progress, &err), &err);
        if (!r.diverged) {
            add_point(p, &r, model, rows, spent);
            papers_say("    %s, rate %g: %.1f s, %.1f epochs, accuracy %.4f, log-loss %.4f", who->method->title, eta,
                       r.seconds[r.count - 1], (double)progress.examples / (double)data->rows, r.accuracy[r.count - 1],
                       r.log_loss[r.count - 1]);
        }
    }
    r.epochs = (double)progress.examples / (double)data->rows;
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    if (who->keep && !r.diverged) {
        r.model = model;
    } else {
        xsm_model_free(model);
    }
    return r;
}

typedef struct trial {
    const papers *p;
    const data_pair *data;
    const xsm_dataset *held;
    const racer *who;
    double seconds;
    bool by_log_loss;
} trial;

static double try_rate(void *user, double rate)
{
    const trial *t = user;
    const race r = race_run(t->p, t->data, t->held, t->who, rate, t->seconds, 1, true);
    return r.diverged || r.count == 0 ? PAPERS_NONE : t->by_log_loss ? r.log_loss[0] : 1 - r.accuracy[0];
}

rate_search race_rate(const papers *p, const rate_grid *grid, const char *title, const data_pair *data,
                      const xsm_dataset *held, const racer *who, double seconds, bool by_log_loss)
{
    trial t = {p, data, held, who, seconds, by_log_loss};
    return rate_find(p, grid, title, try_rate, &t);
}

double race_reached(const race *r, double accuracy)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->accuracy[i] < accuracy) {
            continue;
        }
        if (i == 0) {
            return r->seconds[0];
        }
        double share = (accuracy - r->accuracy[i - 1]) / (r->accuracy[i] - r->accuracy[i - 1]);
        return r->seconds[i - 1] * pow(r->seconds[i] / r->seconds[i - 1], share);
    }
    return PAPERS_NONE;
}
