/*
 * A trial: a short run on some rows, judged on held-back rows after each epoch.
 */
#include "auto/choose.h"

#include <xsoftmax/fit.h>

#include <math.h>
#include <string.h>

/* A trial ends after PATIENCE epochs in a row that are worse than its best. */
enum { PATIENCE = 2, FIT_ITERATIONS = 60, PILOT_ROWS = 512 };
#define FIT_TOLERANCE 1e-4
#define FALL 0.1

typedef struct trial {
    xsmi_chooser *chooser;
    const xsmi_way *way;
    xsm_choice_trial *out;
    bool stop, late; /* the callback asked to stop; the deadline has passed */
} trial;

const char *xsmi_choose_optimizer(const xsmi_chooser *c, const xsmi_way *way)
{
    return way->full ? "lbfgs" : c->options.optimizer ? c->options.optimizer : way->optimizer ? way->optimizer : "sgd";
}

uint64_t xsmi_choose_batch(const xsmi_chooser *c, const xsmi_way *way)
{
    return c->run.batch ? c->run.batch : way->batch ? way->batch : 1;
}

double xsmi_choose_factor(uint64_t epochs)
{
    return pow(FALL, 1 / (double)epochs);
}

static double loss_of(const xsmi_way *way, const xsm_metrics *m)
{
    double loss = way->ranked ? 1 - m->ndcg[4] : m->log_loss;
    return isfinite(loss) ? loss : (double)INFINITY;
}

static bool asked_to_stop(trial *t)
{
    xsmi_chooser *c = t->chooser;
    if (c->options.progress) {
        xsm_choose_progress p = {.size = sizeof p,
                                 .estimator = t->out->estimator,
                                 .trial = c->result->info.trials + 1,
                                 .eta = t->out->eta,
                                 .ridge = t->out->ridge,
                                 .seconds = xsmi_seconds() - c->began};
        t->stop = c->options.progress(c->options.progress_user, &p) != 0;
    }
    t->late = xsmi_seconds() > c->deadline;
    return t->stop || t->late;
}

static int32_t on_progress(void *user, const xsm_progress *p)
{
    trial *t = user;
    xsm_choice_trial *out = t->out;
    if (p->epoch_ended && p->test && !t->way->full) {
        double loss = loss_of(t->way, p->test);
        out->epochs = p->epoch;
        if (loss < out->loss) {
            out->loss = loss;
            out->precision = p->test->precision[0];
            out->best_epoch = p->epoch;
        }
        if (p->epoch >= out->best_epoch + PATIENCE) {
            return 1;
        }
    }
    return asked_to_stop(t);
}

static xsm_status run_steps(trial *t, xsm_model *model, const xsm_dataset *rows, uint64_t epochs,
                            const xsm_dataset *held, xsm_error *err)
{
    xsmi_chooser *c = t->chooser;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer = NULL;
    xsm_trainer_options o = XSM_TRAINER_OPTIONS_INIT;
    o.epochs = epochs;
    o.batch = xsmi_choose_batch(c, t->way);
    o.eta = t->out->eta;
    o.order = c->run.order;
    o.seed = c->run.seed;
    o.schedule = c->options.keep_schedule ? c->run.schedule : XSM_SCHEDULE_STEP;
    o.factor = c->options.keep_schedule ? c->run.factor : xsmi_choose_factor(c->passes);
    o.evaluate_every = held != NULL;
    o.test = held;
    o.progress = on_progress;
    o.progress_user = t;
    XSMI_TRY(xsm_optimizer_new(c->context, xsmi_choose_optimizer(c, t->way), &optimizer, err));
    xsm_status status =
        t->way->initial > 0 ? xsm_optimizer_set_double(optimizer, "initial", t->way->initial, err) : XSM_OK;
    if (status == XSM_OK) {
        status = xsm_trainer_new(c->context, model, rows, t->way->estimator, optimizer, &o, &trainer, err);
    }
    if (status == XSM_OK) {
        xsm_progress end;
        end.size = sizeof end;
        status = xsm_trainer_run(trainer, err);
        (void)xsm_trainer_get_progress(trainer, &end, NULL);
        c->work += (double)end.examples * t->way->work;
        c->work_seconds += end.seconds;
        if (status == XSM_CANCELLED && !t->stop) {
            status = XSM_OK; /* the stop was ours */
        }
    }
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    return status;
}

static xsm_status run_fit(trial *t, xsm_model *model, const xsm_dataset *rows, xsm_error *err)
{
    xsmi_chooser *c = t->chooser;
    xsm_fit_options o = XSM_FIT_OPTIONS_INIT;
    xsm_fit_result r = XSM_FIT_RESULT_INIT;
    o.iterations = FIT_ITERATIONS;
    o.tolerance = FIT_TOLERANCE;
    o.progress = on_progress;
    o.progress_user = t;
    xsm_status status = xsm_fit_batch(c->context, model, rows, t->way->estimator, &o, &r, err);
    if (status == XSM_CANCELLED && !t->stop) {
        status = XSM_OK;
    }
    c->work += (double)r.evaluations * (double)rows->rows * t->way->work;
    c->work_seconds += r.seconds;
    if (status == XSM_OK) {
        xsm_metrics m = XSM_METRICS_INIT;
        XSMI_TRY(xsm_evaluate(c->context, model, c->held[c->transform], NULL, &m, err));
        t->out->loss = loss_of(t->way, &m);
        t->out->precision = m.precision[0];
        t->out->epochs = r.iterations;
        t->out->best_epoch = isfinite(t->out->loss) ? r.iterations : 0;
    }
    return status;
}

xsm_status xsmi_choose_model(xsmi_chooser *c, const xsmi_way *way, xsm_error *err)
{
    const bool by_feature = way->exact && c->train->sparse;
    const int32_t layout = by_feature ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
    const uint32_t hidden = c->model && c->model->layer ? c->model->features : 0;
    if (c->model && hidden == way->hidden && (hidden || c->model->layout == layout)) {
        xsm_model_clear_correction(c->model);
        xsmi_model_drop_row_lengths(c->model);
        xsmi_model_zero(c->model);
        return XSM_OK;
    }
    xsm_model_free(c->model);
    c->model = NULL;
    if (way->hidden) {
        xsm_embedding_options e = XSM_EMBEDDING_OPTIONS_INIT;
        e.bias = c->options.bias != 0;
        e.seed = c->run.seed;
        return xsm_model_new_embedding(c->context, c->train->features, way->hidden, c->train->classes, &e, &c->model,
                                       err);
    }
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    o.bias = c->options.bias != 0;
    o.layout = layout;
    return xsm_model_new_linear(c->context, c->train->features, c->train->classes, &o, &c->model, err);
}

static xsm_status run(trial *t, const xsm_dataset *rows, uint64_t epochs, const xsm_dataset *held, xsm_error *err)
{
    xsmi_chooser *c = t->chooser;
    XSMI_TRY(xsmi_choose_model(c, t->way, err));
    t->way->estimator->common.ridge = t->out->ridge;
    xsm_error inner = XSM_ERROR_INIT;
    xsm_status status =
        t->way->full ? run_fit(t, c->model, rows, &inner) : run_steps(t, c->model, rows, epochs, held, &inner);
    xsmi_estimator_unbind(t->way->estimator);
    if (status == XSM_ERROR_DIVERGED) {
        t->out->loss = (double)INFINITY;
        t->out->best_epoch = 0;
        status = XSM_OK;
    } else if (status == XSM_CANCELLED) {
        status = xsmi_fail(err, XSM_CANCELLED, "the choice of a way to train was stopped by the callback");
    } else if (status != XSM_OK) {
        xsmi_fail_copy(err, &inner);
    }
    return status;
}

xsm_status xsmi_choose_transform(const xsmi_chooser *c, size_t transform, xsm_dataset *one, xsm_dataset *other,
                                 xsm_error *err)
{
    xsm_transform *t;
    XSMI_TRY(xsm_transform_new(c->context, xsmi_choose_transforms[transform], &t, err));
    xsm_status status = xsm_transform_fit(t, c->train, err);
    status = status == XSM_OK ? xsm_transform_apply(t, one, err) : status;
    status = status == XSM_OK && other ? xsm_transform_apply(t, other, err) : status;
    xsm_transform_free(t);
    return status;
}

xsm_status xsmi_choose_try(xsmi_chooser *c, const xsmi_way *way, double eta, double ridge, xsm_error *err)
{
    xsm_choice *r = c->result;
    if (r->info.trials == r->trial_capacity) {
        size_t wanted = 2 * r->trial_capacity + 8;
        xsm_choice_trial *more = xsmi_reallocate(r->context, r->trials, r->trial_capacity, wanted, sizeof *r->trials);
        if (!more) {
            return xsmi_fail_memory(err, wanted * sizeof *more, "the list of trials");
        }
        r->trials = more;
        r->trial_capacity = wanted;
    }
    const xsm_dataset *rows = c->rows[c->transform];
    xsm_choice_trial *out = &r->trials[r->info.trials];
    *out = (xsm_choice_trial){.size = sizeof *out,
                              .estimator = way->estimator->ops.name,
                              .optimizer = xsmi_choose_optimizer(c, way),
                              .eta = way->full ? 0 : eta,
                              .ridge = ridge,
                              .rows = rows->rows,
                              .loss = (double)INFINITY,
                              .precision = (double)NAN,
                              .transform = c->options.transform ? xsmi_choose_transforms[c->transform] : NULL,
                              .hidden = way->hidden};
    trial t = {.chooser = c, .way = way, .out = out};
    XSMI_TRY(run(&t, rows, c->passes, c->held[c->transform], err));
    r->info.trials++;
    c->cut_short |= t.late;
    return XSM_OK;
}

xsm_status xsmi_choose_pairs(xsmi_chooser *c, const xsmi_way *way, xsmi_judged *judged, xsm_error *err)
{
    xsm_metrics m = XSM_METRICS_INIT;
    xsm_status status = xsm_model_add_pairs(c->model, c->rows[c->transform], judged->pairs, err);
    if (status == XSM_OK) {
        status = xsm_evaluate(c->context, c->model, c->held[c->transform], NULL, &m, err);
        xsm_model_clear_correction(c->model);
    }
    if (status == XSM_ERROR_DIVERGED || status == XSM_ERROR_RANGE) { /* sums exceed float32: continue without pairs */
        m.log_loss = m.ndcg[4] = (double)NAN;
        status = XSM_OK;
    }
    judged->loss = loss_of(way, &m);
    judged->precision = m.precision[0];
    return status;
}

xsm_status xsmi_choose_pilot(xsmi_chooser *c, const xsmi_way *way, double eta, xsm_error *err)
{
    uint64_t list[PILOT_ROWS], count = 0;
    xsm_dataset *few;
    for (; count < PILOT_ROWS && count < c->train->rows; count++) {
        list[count] = (uint64_t)((double)count / PILOT_ROWS * (double)c->train->rows);
        list[count] = c->train->rows <= PILOT_ROWS ? count : list[count];
    }
    XSMI_TRY(xsm_dataset_select(c->train, list, count, &few, err));
    if (c->options.transform) { /* the speed is the same under every transform */
        xsm_status transformed = xsmi_choose_transform(c, 0, few, NULL, err);
        if (transformed != XSM_OK) {
            xsm_dataset_free(few);
            return transformed;
        }
    }
    xsm_choice_trial out = {.size = sizeof out, .estimator = way->estimator->ops.name, .eta = eta, .ridge = way->ridge};
    xsmi_way steps = *way;
    steps.full = false;
    trial t = {.chooser = c, .way = &steps, .out = &out};
    xsm_status status = run(&t, few, 1, NULL, err); /* warms up */
    c->work = c->work_seconds = 0;
    status = status == XSM_OK ? run(&t, few, 1, NULL, err) : status;
    xsm_dataset_free(few);
    return status;
}
