/*
 * Runs of the trainer: every estimator on every form, with each of its options, optimizers, batches and schedules.
 */
#include "bits.h"

#include <xsoftmax/ext/optimizer.h>

#include <stdio.h>
#include <string.h>

enum { HIDDEN = 20 };

/* Vanilla steps grow with the number of classes. */
static double rate_of(const char *estimator)
{
    return strcmp(estimator, "vanilla") == 0 ? 1e-4 : 0.02;
}

bits_training bits_training_of(const char *estimator, int form)
{
    bits_training t = {.estimator = estimator,
                       .optimizer = "sgd",
                       .form = form,
                       .set = form == BITS_DENSE ? BITS_DENSE_ROWS : BITS_SPARSE_ROWS,
                       .bias = true,
                       .batch = 5,
                       .epochs = 2,
                       .eta = rate_of(estimator)};
    return t;
}

const bits_sum bits_sums[] = {
    {"softmax", "softmax", NULL},
    {"bouchard", "bouchard", NULL},
    {"one-vs-all", "one-vs-all", NULL},
    {"margin", "margin", NULL},
    {"ove of all", "ove", "negatives=all"},
    {"ove of all, tight", "ove", "tight=5000 negatives=all"},
    {NULL, NULL, NULL},
};

bits_training bits_training_long(const bits_sum *sum, int form)
{
    bits_training t = bits_training_of(sum->estimator, form);
    t.settings = sum->settings;
    t.set = form == BITS_DENSE ? BITS_LONG_ROWS : BITS_LONG_SPARSE_ROWS;
    t.epochs = 1;
    t.batch = 7;
    return t;
}

/* Numbers that are not zero, for a step to depend on. */
static xsm_status fill(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_status status = xsm_model_get_parameters(m, &p, &err);
    uint64_t seed = 99;
    for (uint32_t k = 0; status == XSM_OK && k < p.classes; k++) {
        for (uint32_t j = 0; j < p.features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = 0.25f * bits_number(&seed);
        }
        if (p.bias) {
            p.bias[k] = 0.25f * bits_number(&seed);
        }
    }
    return status;
}

static xsm_status make_model(const bits_machine *machine, const bits_training *t, xsm_model **out)
{
    xsm_error err = XSM_ERROR_INIT;
    const bits_rows *rows = machine->rows[t->set];
    xsm_status status;
    if (t->form == BITS_EMBEDDING) {
        xsm_embedding_options options = XSM_EMBEDDING_OPTIONS_INIT;
        options.bias = t->bias;
        options.activation = t->activation;
        options.pool = t->pool;
        options.tied = t->tied;
        options.seed = 7;
        BITS_TRY(xsm_model_new_embedding(machine->context, rows->features, HIDDEN, rows->classes, &options, out, &err));
    } else {
        xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
        options.bias = t->bias;
        options.layout = t->feature_major ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR;
        BITS_TRY(xsm_model_new_linear(machine->context, rows->features, rows->classes, &options, out, &err));
    }
    if (!t->zeros) {
        BITS_TRY(fill(*out));
    }
    if (t->euclidean) {
        BITS_TRY(xsm_model_set_geometry(*out, XSM_GEOMETRY_EUCLIDEAN, &err));
    }
end:
    return status;
}

xsm_status bits_rig_new(const bits_machine *machine, const bits_training *t, bits_rig *out)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_status status;
    memset(out, 0, sizeof *out);
    out->data = t->several ? machine->several[t->set] : machine->one[t->set];
    BITS_TRY(make_model(machine, t, &out->model));
    BITS_TRY(xsm_estimator_new(machine->context, t->estimator, &out->estimator, &err));
    if (t->settings) {
        BITS_TRY(bits_set_estimator(out->estimator, t->settings));
    }
    BITS_TRY(xsm_optimizer_new(machine->context, t->optimizer, &out->optimizer, &err));
    if (t->optimizer_settings) {
        char key[64];
        const char *value = strchr(t->optimizer_settings, '=');
        memcpy(key, t->optimizer_settings, (size_t)(value - t->optimizer_settings));
        key[value - t->optimizer_settings] = 0;
        BITS_TRY(xsm_optimizer_set(out->optimizer, key, value + 1, &err));
    }
end:
    return status;
}

void bits_rig_free(bits_rig *rig)
{
    xsm_optimizer_free(rig->optimizer);
    xsm_estimator_free(rig->estimator);
    xsm_model_free(rig->model);
}

/* `user` is a hash of all that it is told. */
static int32_t listen(void *user, const xsm_progress *progress)
{
    uint64_t *hash = user;
    if (progress->epoch_ended) {
        bits_add_count(hash, progress->step);
        bits_add_double(hash, progress->eta);
        bits_add_double(hash, progress->loss);
    }
    return 0;
}

static xsm_status run_trainer(const bits_machine *machine, const bits_training *t, bits_rig *rig, uint64_t *told)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = t->epochs;
    options.batch = t->batch;
    options.eta = t->eta;
    options.schedule = t->schedule;
    options.order = t->order;
    options.factor = 0.75;
    options.seed = 5;
    options.progress = listen;
    options.progress_user = told;
    xsm_trainer *trainer = NULL;
    xsm_status status;
    BITS_TRY(xsm_trainer_new(machine->context, rig->model, rig->data, rig->estimator, rig->optimizer, &options,
                             &trainer, &err));
    BITS_TRY(xsm_trainer_run(trainer, &err));
end:
    xsm_trainer_free(trainer);
    return status;
}

xsm_status bits_rig_train(const bits_machine *machine, const bits_training *t, bits_rig *rig)
{
    uint64_t told = 0;
    return run_trainer(machine, t, rig, &told);
}

static xsm_status weights(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const bits_training *t = what;
    bits_rig rig;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, t, &rig));
    BITS_TRY(bits_rig_train(machine, t, &rig));
    BITS_TRY(bits_add_model(hash, rig.model, rig.data));
end:
    bits_rig_free(&rig);
    return status;
}

/* What the callback is told, apart from the weights, as it is no part of them. */
static xsm_status losses(const bits_machine *machine, const void *what, uint64_t *hash)
{
    const bits_training *t = what;
    bits_rig rig;
    xsm_status status;
    BITS_TRY(bits_rig_new(machine, t, &rig));
    BITS_TRY(run_trainer(machine, t, &rig, hash));
end:
    bits_rig_free(&rig);
    return status;
}

static const char *estimator_at(size_t i)
{
    const xsm_estimator_ops *ops = xsm_estimator_at(i);
    return ops ? ops->name : NULL;
}

static void labels_of(const char *name, int form)
{
    bits_training t = bits_training_of(name, form);
    for (int several = 0; several < 2; several++) {
        for (int bias = 0; bias < 2; bias++) {
            t.several = several;
            t.bias = bias;
            bits_record(weights, &t, "labels %s, %s, %s a row%s", name, bits_forms[form], several ? "several" : "one",
                        bias ? ", bias" : "");
        }
    }
    t = bits_training_of(name, form);
    t.zeros = true;
    bits_record(weights, &t, "labels %s, %s, one a row, from zero", name, bits_forms[form]);
    t.zeros = false;
    bits_record(losses, &t, "losses %s, %s", name, bits_forms[form]);
}

static void steps_of(const char *name, int form)
{
    static const uint64_t batches[] = {1, 7};
    bits_training t = bits_training_of(name, form);
    for (size_t o = 0; xsm_optimizer_at(o); o++) {
        for (int b = 0; b < 2; b++) {
            t.optimizer = xsm_optimizer_at(o)->name;
            t.batch = batches[b];
            t.schedule = XSM_SCHEDULE_INVERSE;
            bits_record(weights, &t, "steps %s, %s, %s, batches of %d", name, bits_forms[form], t.optimizer,
                        (int)t.batch);
        }
    }
}

/* Batches, and for sparse rows single ones. */
static void option(const void *user, const char *settings)
{
    bits_training t = *(const bits_training *)user;
    t.settings = settings;
    if (t.form != BITS_SPARSE && bits_has_option(xsm_estimator_find(t.estimator), "index", "spherical")) {
        t.set = BITS_SEARCH_ROWS;
    }
    t.batch = t.form == BITS_SPARSE ? 1 : t.batch;
    bits_record(weights, &t, "options %s, %s, %s", t.estimator, bits_forms[t.form], settings);
    if (strncmp(settings, "loss=", 5) == 0) { /* some differ in rows with several labels alone */
        t.several = true;
        bits_record(weights, &t, "options %s, %s, %s, several a row", t.estimator, bits_forms[t.form], settings);
    }
    static const char *const needs[][2] = {
        {"missing=",
         "loss=cross-entropy candidates=3"}, /* it matters where little is found, to a loss of all classes */
        {"error=", "loss=cross-entropy"},
        {"most=", "loss=nca error=0.01"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (strncmp(settings, needs[i][0], strlen(needs[i][0])) == 0) {
            char more[96];
            snprintf(more, sizeof more, "%s %s", needs[i][1], settings);
            t.settings = more;
            bits_record(weights, &t, "options %s, %s, %s", t.estimator, bits_forms[t.form], more);
        }
    }
}

/* More classes than a tile of scores has, and few enough negatives that steps can go side by side. */
static void wide_of(const char *name, int form)
{
    bits_training t = bits_training_of(name, form);
    t.set = BITS_WIDE_ROWS;
    t.batch = 1;
    t.epochs = 1;
    t.eta /= 100; /* all rows have all features: steps of other classes add up in the vectors */
    bits_record(weights, &t, "wide %s, %s", name, bits_forms[form]);
}

/* Sums over several runs of classes. */
static void long_of(const bits_sum *sum, int form)
{
    const bits_training t = bits_training_long(sum, form);
    bits_record(weights, &t, "long %s, %s", sum->name, bits_forms[form]);
    bits_record(losses, &t, "long %s, %s, losses", sum->name, bits_forms[form]);
}

static void schedules_of(const char *name)
{
    static const char *const schedules[] = {"constant", "step", "inverse", "inverse-sqrt"};
    for (int schedule = XSM_SCHEDULE_CONSTANT; schedule <= XSM_SCHEDULE_INVERSE_SQRT; schedule++) {
        for (int order = XSM_ORDER_SHUFFLE; order <= XSM_ORDER_FILE; order++) {
            bits_training t = bits_training_of(name, BITS_DENSE);
            t.schedule = schedule;
            t.order = order;
            t.epochs = 3;
            bits_record(weights, &t, "schedule %s, %s, rows %s", name, schedules[schedule],
                        order == XSM_ORDER_FILE ? "as in the file" : "shuffled");
        }
    }
}

static void optimizer_options_of(const char *name)
{
    for (size_t o = 0; xsm_optimizer_at(o); o++) {
        const xsm_option *option;
        for (size_t i = 0; (option = xsm_optimizer_ops_option(xsm_optimizer_at(o), i)); i++) {
            char value[32], setting[64];
            for (size_t n = 0; bits_value(option, n, value, sizeof value); n++) {
                snprintf(setting, sizeof setting, "%s=%s", option->name, value);
                for (int form = 0; form < BITS_FORMS; form++) {
                    bits_training t = bits_training_of(name, form);
                    t.optimizer = xsm_optimizer_at(o)->name;
                    t.optimizer_settings = setting;
                    bits_record(weights, &t, "steps %s, %s, %s, %s", name, bits_forms[form], t.optimizer, setting);
                }
            }
        }
    }
}

/* Kinds of models. */
static void kinds_of(const char *name)
{
    static const char *const activations[] = {"identity", "relu", "tanh"}, *const pools[] = {"sum", "mean"};
    for (int adagrad = 0; adagrad < 2; adagrad++) {
        const char *optimizer = adagrad ? "adagrad" : "sgd";
        for (int activation = XSM_ACTIVATION_IDENTITY; activation <= XSM_ACTIVATION_TANH; activation++) {
            for (int pool = XSM_POOL_SUM; pool <= XSM_POOL_MEAN; pool++) {
                for (int set = BITS_DENSE_ROWS; set <= BITS_SPARSE_ROWS; set++) {
                    bits_training t = bits_training_of(name, BITS_EMBEDDING);
                    t.optimizer = optimizer;
                    t.activation = activation;
                    t.pool = pool;
                    t.set = set;
                    bits_record(weights, &t, "kinds %s, %s, %s of %s rows, %s", name, activations[activation],
                                pools[pool], set == BITS_DENSE_ROWS ? "dense" : "sparse", optimizer);
                }
            }
        }
        bits_training tied = bits_training_of(name, BITS_EMBEDDING);
        tied.optimizer = optimizer;
        tied.set = BITS_TIED_ROWS;
        tied.tied = true;
        bits_record(weights, &tied, "kinds %s, tied vectors, %s", name, optimizer);
        for (int form = 0; form < BITS_FORMS; form++) {
            bits_training t = bits_training_of(name, form);
            t.optimizer = optimizer;
            t.euclidean = true;
            bits_record(weights, &t, "kinds %s, %s, distances, %s", name, bits_forms[form], optimizer);
        }
        for (int form = BITS_DENSE; form <= BITS_SPARSE; form++) {
            bits_training t = bits_training_of(name, form);
            t.optimizer = optimizer;
            t.feature_major = true;
            bits_record(weights, &t, "kinds %s, %s, made by feature, %s", name, bits_forms[form], optimizer);
        }
    }
}

void bits_of_training(void)
{
    static const char *const some[] = {"softmax", "ove", "nce", "mips"}; /* each asks for weights in its own way */
    const char *name;
    for (size_t i = 0; (name = estimator_at(i)); i++) {
        for (int form = 0; form < BITS_FORMS; form++) {
            bits_training t = bits_training_of(name, form);
            labels_of(name, form);
            steps_of(name, form);
            bits_estimator_settings(xsm_estimator_at(i), option, &t);
        }
        wide_of(name, BITS_DENSE);
        wide_of(name, BITS_EMBEDDING);
    }
    for (const bits_sum *sum = bits_sums; sum->name; sum++) {
        for (int form = 0; form < BITS_FORMS; form++) {
            long_of(sum, form);
        }
    }
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        schedules_of(some[i]);
        optimizer_options_of(some[i]);
        kinds_of(some[i]);
    }
}
