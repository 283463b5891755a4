/* A trainer that is stopped and continued: the model is evaluated at each stop. */
#include "race.h"

#include <string.h>

enum { HELD_OUT_MOST = 2000, EPOCHS_ENOUGH = 1000000 };

xsm_dataset *race_hold_out(data_pair *data)
{
    xsm_dataset *held = NULL, *rest = NULL;
    xsm_error err = XSM_ERROR_INIT;
    double share = data->rows / 10 > HELD_OUT_MOST ? (double)HELD_OUT_MOST / (double)data->rows : 0.1;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    papers_check(xsm_dataset_split(data->train, share, 1, &held, &rest, &err), &err);
    xsm_dataset_free(data->train);
    data->train = rest;
    papers_check(xsm_dataset_get_info(rest, &info, &err), &err);
    data->rows = info.rows;
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

double race_clock(const papers *p)
{
    return p->processor ? papers_work() : papers_clock();
}

typedef struct stop {
    const papers *p;
    double begun, until; /* of this run, without evaluations */
} stop;

static int32_t stop_at(void *user, const xsm_progress *progress)
{
    (void)progress;
    const stop *s = user;
    return race_clock(s->p) - s->begun >= s->until;
}

static void add_point(const papers *p, race *r, const xsm_model *model, const xsm_dataset *rows, double seconds)
{
    evaluation metrics = evaluate(p, model, rows);
    r->seconds[r->count] = seconds;
    r->log_loss[r->count] = metrics.log_loss;
    r->accuracy[r->count++] = 1 - metrics.error;
}

racer racer_new(const papers *p, const data_pair *data, const method *m, const char *optimizer)
{
    static const char option[] = "sampler=";
    xsm_error err = XSM_ERROR_INIT;
    racer r = {m, optimizer, NULL, 0, 0};
    if (m->options && strncmp(m->options, option, sizeof option - 1) == 0) {
        papers_check(xsm_sampler_new(p->context, m->options + sizeof option - 1, &r.sampler, &err), &err);
        double start = race_clock(p);
        papers_check(xsm_sampler_bind(r.sampler, data->train, &err), &err);
        r.fit = race_clock(p) - start;
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
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_progress progress = XSM_PROGRESS_INIT;
    xsm_model *model = NULL;
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    race r = {.count = 0};
    stop when = {p, 0, 0};
    shape.bias = 1;
    papers_check(xsm_model_new_linear(p->context, data->features, data->classes, &shape, &model, &err), &err);
    xsm_parameters parameters = XSM_PARAMETERS_INIT;
    papers_check(xsm_model_parameters(model, &parameters, &err), &err);
    for (uint32_t k = 0; k < data->classes; k++) {
        parameters.bias[k] = (float)who->bias;
    }
    papers_check(xsm_estimator_new(p->context, who->method->estimator, &estimator, &err), &err);
    papers_check(xsm_estimator_set_number(estimator, "negatives", who->method->negatives, &err), &err);
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
    double start = race_clock(p);
    papers_check(xsm_trainer_new(p->context, model, data->train, estimator, optimizer, &options, &trainer, &err), &err);
    double spent = steps_alone ? 0 : who->fit + race_clock(p) - start;
    for (int i = points - 1; i >= 0 && !r.diverged; i--) {
        when.until = ldexp(seconds, -i) - spent;
        if (when.until <= 0) {
            continue; /* the first step starts later */
        }
        when.begun = race_clock(p);
        xsm_status status = xsm_trainer_run(trainer, &err);
        spent += race_clock(p) - when.begun;
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
    xsm_model_free(model);
    return r;
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
