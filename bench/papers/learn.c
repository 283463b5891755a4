/* Trains a model by one of the papers' methods. */
#include "learn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const rate_grid decades = {1, -3, 3};

typedef struct listener {
    const papers *p;
    const xsm_model *model;
    const xsm_dataset *rows;
    const plan *how;
    uint64_t every; /* epochs from one evaluation to the next; 0 = none */
    learn_point each;
    void *user;
    double begun, others; /* papers_seconds() at the start, and seconds since that are not training */
    evaluation train;     /* the last one */
} listener;

/* Copies metrics whose arrays have 5 numbers. */
static evaluation of_metrics(const xsm_metrics *m)
{
    evaluation at = {m->log_loss, m->error, m->known_rows, {0}, {0}};
    memcpy(at.precision, m->precision, sizeof at.precision);
    memcpy(at.ndcg, m->ndcg, sizeof at.ndcg);
    return at;
}

void each_option(const char *options, void (*set)(void *to, const char *name, const char *value), void *to)
{
    char *list = strdup(options ? options : ""), *rest = NULL;
    if (!list) {
        papers_fail("no memory for options");
    }
    for (char *item = strtok_r(list, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(item, '=');
        if (!value) {
            papers_fail("'%s' is no option with a value", item);
        }
        *value = '\0';
        set(to, item, value + 1);
    }
    free(list);
}

static void set_option(void *to, const char *name, const char *value)
{
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_estimator_set(to, name, value, &err), &err);
}

void set_options(xsm_estimator *e, const method *m, double ridge)
{
    xsm_error err = XSM_ERROR_INIT;
    if (m->negatives > 0) {
        papers_check(xsm_estimator_set_number(e, "negatives", m->negatives, &err), &err);
    }
    papers_check(xsm_estimator_set_number(e, "ridge", ridge, &err), &err);
    each_option(m->options, set_option, e);
}

evaluation evaluate(const papers *p, const xsm_model *model, const xsm_dataset *data)
{
    double precision[5], ndcg[5];
    xsm_metrics metrics = {.size = sizeof metrics, .top = 5, .precision = precision, .ndcg = ndcg};
    xsm_error err = XSM_ERROR_INIT;
    papers_check(xsm_evaluate(p->context, model, data, NULL, &metrics, &err), &err);
    return of_metrics(&metrics);
}

static int32_t listen(void *user, const xsm_progress *progress)
{
    listener *l = user;
    const double since = papers_seconds(l->p);
    if (progress->epoch_ended && l->every > 0 &&
        (progress->epoch % l->every == 0 || progress->epoch == l->how->epochs)) {
        l->train = evaluate(l->p, l->model, l->rows);
        if (l->each) {
            l->each(l->user, progress->epoch, since - l->begun - l->others, &l->train);
        }
    }
    const int32_t stop = l->how->progress ? l->how->progress(l->how->progress_user, progress) : 0;
    l->others += papers_seconds(l->p) - since;
    return stop;
}

xsm_model *new_model(const papers *p, uint32_t features, uint32_t classes, uint32_t hidden, bool bias)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *model = NULL;
    if (hidden > 0) {
        xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
        layer.bias = bias;
        papers_check(xsm_model_new_embedding(p->context, features, hidden, classes, &layer, &model, &err), &err);
    } else {
        xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
        shape.bias = bias;
        papers_check(xsm_model_new_linear(p->context, features, classes, &shape, &model, &err), &err);
    }
    return model;
}

void set_biases(xsm_model *model, double value)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    papers_check(xsm_model_get_parameters(model, &w, &err), &err);
    for (uint32_t k = 0; k < w.classes; k++) {
        w.bias[k] = (float)value;
    }
}

bool train_by_adagrad(const papers *p, xsm_model *model, const xsm_dataset *rows, xsm_estimator *e,
                      const xsm_trainer_options *options)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    papers_check(xsm_optimizer_new(p->context, "adagrad", &optimizer, &err), &err);
    papers_check(xsm_trainer_new(p->context, model, rows, e, optimizer, options, &trainer, &err), &err);
    const xsm_status status = xsm_trainer_run(trainer, &err);
    papers_check(status == XSM_ERROR_DIVERGED ? XSM_OK : status, &err);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(e);
    return status == XSM_OK;
}

learned learn(const papers *p, const xsm_dataset *train, const method *m, const plan *how, learn_point each, void *user)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    const uint64_t seed = how->seed ? how->seed : 1;
    learned l = {.diverged = false};
    papers_check(xsm_dataset_get_info(train, &info, &err), &err);
    l.model = new_model(p, info.features, info.classes, how->hidden, how->bias);
    papers_check(xsm_estimator_new(p->context, m->estimator, &estimator, &err), &err);
    set_options(estimator, m, how->ridge);
    papers_check(xsm_estimator_set_number(estimator, "seed", (double)seed, &err), &err);
    papers_check(xsm_optimizer_new(p->context, "sgd", &optimizer, &err), &err);
    options.epochs = how->epochs;
    options.batch = m->batch;
    options.eta = how->eta * (double)m->batch;
    options.schedule = how->factor > 0 ? XSM_SCHEDULE_STEP : XSM_SCHEDULE_INVERSE;
    options.factor = how->factor;
    options.seed = seed;
    listener to = {.p = p, .model = l.model, .rows = train, .how = how, .each = each, .user = user};
    if (how->evaluations > 0) {
        to.every = how->epochs > how->evaluations ? how->epochs / how->evaluations : 1;
    }
    options.progress = listen;
    options.progress_user = &to;
    papers_check(xsm_trainer_new(p->context, l.model, train, estimator, optimizer, &options, &trainer, &err), &err);
    const double before = papers_work();
    to.begun = papers_seconds(p);
    xsm_status status = xsm_trainer_run(trainer, &err);
    l.seconds = papers_seconds(p) - to.begun - to.others;
    l.work = papers_work() - before;
    l.diverged = status == XSM_ERROR_DIVERGED;
    papers_check(l.diverged ? XSM_OK : status, &err);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    if (l.diverged) {
        xsm_model_free(l.model);
        l.model = NULL;
        l.train.log_loss = l.train.error = l.test.log_loss = l.test.error = PAPERS_NONE;
        return l;
    }
    /* The callback's last evaluation is at the end. */
    if (how->evaluations > 0) {
        l.train = to.train;
    } else if (!how->skip_train) {
        l.train = evaluate(p, l.model, train);
    }
    if (how->test) {
        l.test = evaluate(p, l.model, how->test);
    }
    return l;
}

void learned_free(learned *l)
{
    xsm_model_free(l->model);
}

typedef struct tenth_trial {
    const papers *p;
    const xsm_dataset *tenth;
    const method *m;
    plan how;
} tenth_trial;

static double try_tenth(void *user, double rate)
{
    tenth_trial *t = user;
    t->how.eta = rate;
    learned l = learn(t->p, t->tenth, t->m, &t->how, NULL, NULL);
    const double loss = l.test.log_loss;
    learned_free(&l);
    return loss;
}

rate_search learn_rate(const papers *p, const xsm_dataset *tenth, const xsm_dataset *all, const method *m,
                       const plan *how)
{
    tenth_trial t = {p, tenth, m, *how};
    char who[80];
    t.how.evaluations = 0;
    t.how.skip_train = true;
    t.how.test = all;
    t.how.progress = NULL;
    snprintf(who, sizeof who, "%s on a tenth of the rows", m->title);
    return rate_find(p, &decades, who, try_tenth, &t);
}

void several_add(several *s, double value)
{
    s->value[s->count++] = value;
}

double several_mean(const several *s)
{
    double sum = 0;
    for (int i = 0; i < s->count; i++) {
        sum += s->value[i];
    }
    return s->count ? sum / s->count : PAPERS_NONE;
}

/* +1: the largest, -1: the least; NaN if a value is not finite. */
static double several_end(const several *s, double sign)
{
    double most = -INFINITY;
    for (int i = 0; i < s->count; i++) {
        if (!isfinite(s->value[i])) {
            return PAPERS_NONE;
        }
        most = sign * s->value[i] > most ? sign * s->value[i] : most;
    }
    return s->count ? sign * most : PAPERS_NONE;
}

double several_spread(const several *s)
{
    return several_end(s, 1) - several_end(s, -1);
}

void several_point(const several *s, curves *to, const char *column, double x)
{
    char end[100];
    curves_point(to, column, x, several_mean(s));
    snprintf(end, sizeof end, "%s least", column);
    curves_point(to, end, x, several_end(s, -1));
    snprintf(end, sizeof end, "%s most", column);
    curves_point(to, end, x, several_end(s, 1));
}
