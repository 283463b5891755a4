/*
 * Training of models whose classes are divided among ranks: the saved model and the losses are those of one process, to
 * the bit, of every estimator of the registry, of linear models and those with a first layer, with both optimizers, for
 * single rows and batches, on any number of ranks; estimators that search refuse; what ranks send; a rank that fails,
 * or whose host stops, ends the run on all.
 */
#define XSM_EXPERIMENTAL
#include "narrow_kinds.h"
#include "training.h"

#include "comm.h"
#include "model/divided.h"
#include "ranks/comm.h"
#include "train/trainer.h"

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/trainer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four class runs, the last of a few classes. */
enum { ROWS = 70, FEATURES = 6, HIDDEN = 7, CLASSES = 3 * XSMI_RUN_CLASSES + 5 };

typedef struct settings {
    const char *estimator, *options[3][2]; /* names and values */
    const char *optimizer;
    uint64_t batch;
    bool bias, sparse;
    double eta;      /* 0 = 0.3 */
    uint32_t hidden; /* of a first layer; 0: none */
} settings;

static const settings plans[] = {
    {"implicit", {{"negatives", "4"}, {"ridge", "0.1"}}, "sgd", 1, true, false, 0, 0},
    {"umax", {{"negatives", "3"}}, "sgd", 1, false, true, 0, 0},
    {"vanilla", {{"negatives", "3"}}, "sgd", 1, true, true, 1e-5, 0},
    {"raman", {{"negatives", "3"}}, "sgd", 1, false, false, 1e-5, 0},
    {"augment-reduce", {{"negatives", "3"}}, "adagrad", 5, true, false, 0, 0},
    {"ove", {{"negatives", "6"}, {"tight", "2"}}, "adagrad", 1, true, false, 0, 0},
    {"ove", {{"negatives", "6"}, {"ridge", "1"}}, "sgd", 8, false, true, 0, 0},
    {"ove-sampled", {{"negatives", "6"}}, "adagrad", 4, true, true, 0, 0},
    {"one-vs-all-sampled", {{"negatives", "9"}}, "adagrad", 1, true, true, 0, 0},
    {"sampled-softmax", {{"negatives", "9"}, {"sampler", "frequency"}}, "sgd", 70, true, false, 0, 0},
    {"sampled-softmax", {{"negatives", "9"}}, "row-adagrad", 3, false, true, 0, 0},
    {"nce", {{"negatives", "5"}}, "sgd", 1, true, false, 0, 0},
    {"importance", {{"negatives", "5"}}, "sgd", 7, true, false, 1e-3, 0},
    {"negative-sampling", {{"negatives", "5"}}, "sgd", 2, false, false, 0, 0},
    {"softmax", {{"ridge", "0.1"}}, "sgd", 1, true, false, 0, 0},
    {"softmax", {{NULL}}, "row-adagrad", 7, true, true, 0, 0},
    {"softmax", {{NULL}}, "sgd", 70, false, true, 0, 0},
    {"one-vs-all", {{NULL}}, "sgd", 5, true, true, 0, 0},
    {"one-vs-all", {{NULL}}, "adagrad", 8, false, false, 0, 0},
    {"one-vs-all-sampled", {{"negatives", "all"}}, "sgd", 6, true, false, 0, 0},
    {"ove", {{"negatives", "all"}}, "sgd", 3, true, false, 0, 0},
    {"ove", {{"negatives", "all"}, {"tight", "9"}}, "adagrad", 9, false, true, 0, 0},
    {"margin", {{"mu", "0.5"}}, "sgd", 10, true, false, 0, 0},
    {"margin", {{NULL}}, "adagrad", 4, true, true, 0, 0},
    {"bouchard", {{NULL}}, "sgd", 20, true, false, 0, 0},
    {"implicit", {{"negatives", "4"}}, "sgd", 7, true, false, 0, 0},
    {"implicit", {{"negatives", "4"}, {"ridge", "0.1"}}, "sgd", 10, false, true, 0, 0},
    {"sampled-softmax", {{"negatives", "300"}, {"shared", "yes"}}, "sgd", 7, true, false, 0, 0},
    {"sampled-softmax",
     {{"negatives", "300"}, {"shared", "yes"}, {"sampler", "frequency"}},
     "adagrad",
     33,
     false,
     false,
     0,
     0},
    {"sampled-softmax", {{"negatives", "40"}, {"shared", "yes"}, {"ridge", "1"}}, "sgd", 16, false, false, 0, 0},
    {"sampled-softmax", {{"negatives", "40"}, {"shared", "yes"}}, "row-adagrad", 16, true, true, 0, 0},
    {"sampled-softmax", {{"negatives", "5"}, {"sampler", "tree"}}, "sgd", 4, true, false, 0, 0},
    {"importance", {{"negatives", "50"}, {"shared", "yes"}}, "sgd", 9, true, false, 1e-3, 0},
    {"negative-sampling", {{"negatives", "5"}, {"sampler", "frequency"}}, "sgd", 3, true, false, 0, 0},
    {"negative-sampling", {{"negatives", "5"}, {"sampler", "tree"}}, "adagrad", 1, false, false, 0, 0},
    {"negative-sampling",
     {{"negatives", "50"}, {"sampler", "frequency"}, {"shared", "yes"}},
     "sgd",
     9,
     true,
     false,
     0,
     0},
    {"sampled-softmax", {{"negatives", "5"}, {"sampler", "label-tree"}}, "sgd", 4, true, true, 0, 0},
    {"negative-sampling", {{"negatives", "5"}, {"sampler", "label-tree"}}, "adagrad", 5, true, true, 0, 0},
    {"implicit", {{"negatives", "4"}, {"ridge", "0.1"}}, "sgd", 1, true, true, 0, 9},
    {"umax", {{"negatives", "3"}}, "sgd", 6, true, true, 0, 9},
    {"sampled-softmax", {{"negatives", "300"}, {"shared", "yes"}, {"ridge", "1"}}, "sgd", 35, true, true, 0, 33},
    {"sampled-softmax", {{"negatives", "30"}, {"shared", "yes"}}, "adagrad", 70, false, false, 0, 4},
    {"importance", {{"negatives", "5"}, {"sampler", "frequency"}}, "sgd", 7, true, true, 1e-3, 9},
    {"negative-sampling", {{"negatives", "5"}, {"sampler", "label-tree"}}, "adagrad", 5, true, true, 0, 9},
    {"softmax", {{"ridge", "0.1"}}, "sgd", 70, true, true, 0, 9},
    {"softmax", {{NULL}}, "adagrad", 7, false, true, 0, 40},
    {"margin", {{NULL}}, "adagrad", 4, true, true, 0, 9},
    {"bouchard", {{NULL}}, "sgd", 20, true, true, 0, 9},
    /* Single rows: a scale of all weights that one process multiplies into them between windows, and one that it
     * multiplies into them within a window. Two windows an epoch. */
    {"sampled-softmax", {{"negatives", "5"}, {"ridge", "60"}}, "sgd", 1, true, false, 0, 0},
    {"nce", {{"negatives", "5"}, {"ridge", "1000"}}, "sgd", 1, false, true, 0, 0},
    /* Bounds on the rows' lengths, which an L2 penalty implies. */
    {"umax", {{"negatives", "3"}, {"weight-bound", "0.5"}}, "sgd", 1, false, true, 0, 0},
    {"umax", {{"negatives", "3"}, {"weight-bound", "0.3"}}, "sgd", 9, true, false, 0, 0},
    {"umax", {{"negatives", "3"}, {"ridge", "400"}}, "sgd", 1, true, true, 0, 0},
    {"umax", {{"negatives", "3"}, {"weight-bound", "0.2"}, {"ridge", "1"}}, "sgd", 16, true, true, 0, 9},
    {"one-vs-all-sampled", {{"negatives", "2000"}}, "sgd", 7, true, false, 0, 0}, /* scored in pieces */
    {"one-vs-all-sampled", {{"negatives", "30"}}, "sgd", 1, true, false, 0, 0},
};

/* Of the plans the last. */
enum { TWO_WINDOWS = sizeof plans / sizeof *plans - 1 };

typedef struct work {
    const settings *plan;
    const xsm_dataset *rows;
    char path[256];
    uint64_t stop_at; /* the callback's call that stops the rank stop_rank; 0 = none */
    uint32_t stop_rank;
    bool distances;               /* the scores are */
    char loaded[256], saved[256]; /* of load() */
    bool every_step;              /* the callback is called after each */
    const settings *unlike;       /* rank 1's plan; NULL: the same */
    uint64_t unlike_seed;         /* rank 1's */
    test_countdown *hook;         /* rank 1's hook cancels its training at call cancel_at; NULL: it has none */
    size_t cancel_at;             /* 0 = never */
    uint64_t stopped[TEST_RANKS]; /* the steps after which training was stopped; UINT64_MAX: it was not */
    struct {
        double loss, tested; /* of the last epoch, and the log-loss of the trained model */
    } made[TEST_RANKS];
    uint64_t steps[TEST_RANKS];
    xsmi_sent sent[TEST_RANKS]; /* by the training itself */
} work;

/* A rank's training. */
typedef struct training {
    work *of;
    const test_rank *rank;
    uint64_t calls;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
} training;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    training *t = user;
    t->of->steps[t->rank->rank] = p->step;
    if (p->epoch_ended) {
        t->of->made[t->rank->rank].loss = p->loss;
    }
    return ++t->calls == t->of->stop_at && t->rank->rank == t->of->stop_rank;
}

static xsm_status prepare(training *t, xsm_context *ctx, xsm_error *err)
{
    const bool unlike = t->of->unlike && t->rank->rank == 1;
    const settings *plan = unlike ? t->of->unlike : t->of->plan;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = plan->bias;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    layer.bias = plan->bias;
    layer.pool = XSM_POOL_MEAN;
    layer.activation = XSM_ACTIVATION_RELU;
    XSMI_TRY(plan->hidden > 0 ? xsm_model_new_embedding(ctx, FEATURES, plan->hidden, CLASSES, &layer, &t->model, err)
                              : xsm_model_new_linear(ctx, FEATURES, CLASSES, &shape, &t->model, err));
    XSMI_TRY(t->of->distances ? xsm_model_set_geometry(t->model, XSM_GEOMETRY_EUCLIDEAN, err) : XSM_OK);
    XSMI_TRY(xsm_estimator_new(ctx, plan->estimator, &t->estimator, err));
    for (size_t i = 0; i < 3 && plan->options[i][0]; i++) {
        XSMI_TRY(xsm_estimator_set(t->estimator, plan->options[i][0], plan->options[i][1], err));
    }
    XSMI_TRY(xsm_optimizer_new(ctx, plan->optimizer, &t->optimizer, err));
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.batch = plan->batch;
    options.eta = plan->eta > 0 ? plan->eta : 0.3;
    options.seed = unlike ? t->of->unlike_seed : 0;
    options.progress = on_progress;
    options.progress_user = t;
    return xsm_trainer_new(ctx, t->model, t->of->rows, t->estimator, t->optimizer, &options, &t->trainer, err);
}

static void end(training *t)
{
    xsm_trainer_free(t->trainer);
    xsm_optimizer_free(t->optimizer);
    xsm_estimator_free(t->estimator);
    xsm_model_free(t->model);
}

/* Evaluates the trained model, and saves it: its weights alone where no file can hold its correction. */
static xsm_status evaluate_and_save(test_rank *r, xsm_model *m)
{
    work *w = r->user;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    XSMI_TRY(xsm_evaluate(r->context, m, w->rows, NULL, &metrics, &r->err));
    w->made[r->rank].tested = metrics.log_loss;
    XSMI_TRY(xsm_model_get_info(m, &info, &r->err));
    if (info.correction == XSM_CORRECTION_SAMPLER) {
        if (xsm_model_save(m, w->path, NULL, &r->err) != XSM_ERROR_UNSUPPORTED) {
            return XSM_ERROR_INTERNAL;
        }
        xsm_model_clear_correction(m);
    }
    return xsm_model_save(m, w->path, NULL, &r->err);
}

static xsm_status run_training(const training *t, test_rank *r)
{
    work *w = r->user;
    const xsmi_sent before = xsmi_sent_by(r->context);
    const bool hooked = w->hook && r->rank == 1;
    if (w->every_step) {
        t->trainer->report.interval = 0;
    }
    if (hooked) {
        *w->hook = (test_countdown){w->cancel_at, false};
    }
    xsm_status status = xsm_trainer_run(t->trainer, &r->err);
    if (hooked) {
        w->hook->left = 0;
    }
    w->stopped[r->rank] = UINT64_MAX;
    if (status == XSM_CANCELLED) {
        xsm_progress at = {.size = sizeof at};
        XSMI_TRY(xsm_trainer_get_progress(t->trainer, &at, &r->err));
        w->stopped[r->rank] = at.step;
        status = xsm_trainer_run(t->trainer, &r->err); /* it goes on */
    }
    const xsmi_sent after = xsmi_sent_by(r->context);
    w->sent[r->rank] = (xsmi_sent){after.calls - before.calls, after.bytes - before.bytes};
    return status;
}

static xsm_status train(test_rank *r)
{
    training t = {.of = r->user, .rank = r};
    xsm_status status = prepare(&t, r->context, &r->err);
    status = status == XSM_OK ? run_training(&t, r) : status;
    status = status == XSM_OK ? evaluate_and_save(r, t.model) : status;
    end(&t);
    return status;
}

/* Trains on so many ranks; the file's bytes are the caller's to free. */
static unsigned char *run_on(work *w, uint32_t count, uint32_t threads, size_t *size)
{
    return test_ranks_file(count, threads, train, w, w->path, size);
}

/* Trains on one process, then on two ranks and more. */
static void expect_bits(work *w)
{
    char what[200];
    snprintf(what, sizeof what, "%s with %s%s%s%s, batches of %u", w->plan->estimator, w->plan->optimizer,
             w->plan->hidden > 0 ? ", a first layer" : "", w->distances ? ", distances" : "",
             w->plan->options[0][0] ? ", options" : "", (unsigned)w->plan->batch);
    const test_made made = {w->path, w->made, sizeof *w->made};
    test_same_on_ranks(train, w, &made, 4, what);
}

static test_problem problem_of(const settings *plan)
{
    return test_problem_new(ROWS, FEATURES, CLASSES, plan->sparse, 8);
}

TEST(test_bits)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        HELD_STRUCT(test_problem, p) = problem_of(&plans[i]);
        work w = {.plan = &plans[i], .rows = p.data};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        expect_bits(&w);
    }
}

/* -- the registry -------------------------------------------------------------------------------------------------- */

/* Rows with one label each, or with several and with weights, as far as the table takes them. */
static xsm_dataset *rows_for(const xsm_estimator_ops *table, const float *x)
{
    const bool several = table->flags & XSM_ESTIMATOR_MULTI_LABEL;
    const bool weighted = !(table->flags & XSM_ESTIMATOR_PROXIMAL) || (table->flags & XSM_ESTIMATOR_WEIGHTED);
    uint64_t offsets[ROWS + 1] = {0}, seed = 5;
    uint32_t labels[3 * ROWS];
    float label_weights[3 * ROWS], weights[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        const uint64_t count = several ? 1 + i % 3 : 1;
        for (uint64_t j = 0; j < count; j++) {
            labels[offsets[i] + j] = (uint32_t)((i * 811 + j * 5000) % (CLASSES - 1) + (i % 7 == 0));
            label_weights[offsets[i] + j] = (float)(0.5 + test_uniform(&seed));
        }
        offsets[i + 1] = offsets[i] + count;
        weights[i] = (float)(i % 4) / 2;
    }
    xsm_labels given = XSM_LABELS_INIT;
    given.classes = CLASSES;
    given.offsets = offsets;
    given.labels = labels;
    given.weights = several && (table->flags & XSM_ESTIMATOR_LABEL_WEIGHTED) ? label_weights : NULL;
    xsm_dense_rows rows = {.size = sizeof rows, .values = x, .rows = ROWS, .features = FEATURES, .labels = &given};
    rows.weights = weighted ? weights : NULL;
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, data, xsm_dataset_from_dense(NULL, &rows, &data, &err));
    return data;
}

static void expect_refusal(work *w, const char *why)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(2, 1, 0, train, w, ranks);
    for (uint32_t r = 0; r < 2; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_UNSUPPORTED, ranks[r].err);
        assert_non_null(strstr(ranks[r].err.message, why));
    }
}

static void try_batches(work *w, const xsm_estimator_ops *table, settings *plan, size_t first)
{
    static const uint64_t batches[] = {1, 11, ROWS}; /* ROWS: more than a product takes together */
    w->plan = plan;
    for (size_t i = first; i < sizeof batches / sizeof *batches; i++) {
        plan->batch = batches[i];
        if (table->kind == XSM_ESTIMATOR_SEARCHED) {
            expect_refusal(w, "an estimator that searches an index needs all classes in one process");
        } else if (table->kind == XSM_ESTIMATOR_HIERARCHY) {
            expect_refusal(w, "estimator 'hierarchical' needs all classes in one process");
        } else if (plan->hidden > 0 && plan->batch > 1 && table->joint) {
            expect_refusal(w, "hidden vectors"); /* as in one process */
        } else {
            expect_bits(w);
        }
    }
}

/* Every estimator; with a first layer also with shared draws. */
static void walk(uint32_t hidden, const char *optimizer, size_t first)
{
    float x[ROWS * FEATURES];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        x[i] = (float)(2 * test_uniform(&seed) - 1);
    }
    const xsm_estimator_ops *table;
    for (size_t i = 0; (table = xsm_estimator_at(i)); i++) {
        const double eta = table->flags & XSM_ESTIMATOR_UNBOUNDED ? 1e-5 : 0.25;
        settings plan = {table->name, {{NULL}}, optimizer, 1, true, false, eta, hidden};
        work w = {.rows = rows_for(table, x)};
        snprintf(w.path, sizeof w.path, "%s", test_path("registry"));
        try_batches(&w, table, &plan, first);
        if (hidden > 0 && table->kind == XSM_ESTIMATOR_SAMPLED && !table->joint) {
            plan.options[0][0] = "shared";
            plan.options[0][1] = "yes";
            try_batches(&w, table, &plan, first);
        }
        if (table->kind == XSM_ESTIMATOR_SAMPLED) {
            plan.options[0][0] = "sampler";
            plan.options[0][1] = "recent";
            expect_refusal(&w, "a sampler that follows the training needs all classes in one process");
        }
        xsm_dataset_free((xsm_dataset *)(uintptr_t)w.rows);
    }
}

TEST(test_registry_linear)
{
    walk(0, "sgd", 0);
}

TEST(test_registry_first_layers)
{
    walk(HIDDEN, "sgd", 0);
    walk(HIDDEN, "adagrad", 2);
}

/* -- distances ----------------------------------------------------------------------------------------------------- */

static const settings distances[] = {
    {"softmax", {{NULL}}, "sgd", 9, false, false, 0.05, 0},
    {"softmax", {{NULL}}, "sgd", 70, true, true, 0.05, 9},
    {"sampled-softmax", {{"negatives", "60"}, {"shared", "yes"}}, "sgd", 16, true, false, 0.05, 0},
    {"sampled-softmax", {{"negatives", "9"}, {"sampler", "frequency"}}, "sgd", 1, true, true, 0.05, 0},
    {"margin", {{NULL}}, "sgd", 10, true, false, 0.05, 0},
};

/* Loads, evaluates and saves. */
static xsm_status load(test_rank *r)
{
    work *w = r->user;
    HELD(xsm_model, m) = NULL;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_model_info info = XSM_MODEL_INFO_INIT;
    XSMI_TRY(xsm_model_load(r->context, w->loaded, NULL, NULL, &m, &r->err));
    xsm_status status = xsm_evaluate(NULL, m, w->rows, NULL, &metrics, &r->err);
    w->made[r->rank].tested = metrics.log_loss;
    status = status == XSM_OK ? xsm_model_get_info(m, &info, &r->err) : status;
    status = status == XSM_OK && info.geometry != XSM_GEOMETRY_EUCLIDEAN ? XSM_ERROR_INTERNAL : status;
    status = status == XSM_OK ? xsm_model_save(m, w->saved, NULL, &r->err) : status;
    return status;
}

/* The file, and its weights in fewer bits. */
static void try_loading(work *w)
{
    test_rank ranks[TEST_RANKS];
    xsm_error err = XSM_ERROR_INIT;
    snprintf(w->loaded, sizeof w->loaded, "%s", test_path("loaded"));
    snprintf(w->saved, sizeof w->saved, "%s", test_path("saved"));
    for (size_t t = 0; t <= TEST_KINDS; t++) {
        NEW(xsm_model, m, xsm_model_load(NULL, w->path, NULL, NULL, &m, &err));
        xsm_model *converted = test_converted(m, t < TEST_KINDS ? test_kinds[t].dtype : XSM_DTYPE_FLOAT32);
        assert_ok(xsm_model_save(converted, w->loaded, NULL, &err), err);
        xsm_model_free(converted);
        xsm_model_free(m);
        size_t size;
        unsigned char *wanted = test_read(w->loaded, &size);
        double tested = 0;
        for (uint32_t count = 1; count <= 3; count++) {
            test_run_ranks(count, 1, 0, load, w, ranks);
            for (uint32_t r = 0; r < count; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                tested = count == 1 ? w->made[0].tested : tested;
                assert_memory_equal(&w->made[r].tested, &tested, sizeof tested);
            }
            test_assert_bytes(w->saved, wanted, size);
        }
        free(wanted);
    }
}

TEST(test_distances)
{
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
        HELD_STRUCT(test_problem, p) = problem_of(&distances[i]);
        work w = {.plan = &distances[i], .rows = p.data, .distances = true};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        expect_bits(&w);
        if (i < 2) {
            try_loading(&w);
        }
    }
    /* What distances refuse on one rank they refuse on all. */
    static const settings none[] = {{"softmax", {{NULL}}, "adagrad", 9, false, false, 0, 0},
                                    {"softmax", {{"ridge", "1"}}, "sgd", 9, false, false, 0, 0}};
    for (size_t i = 0; i < 2; i++) {
        test_rank ranks[TEST_RANKS];
        HELD_STRUCT(test_problem, p) = problem_of(&none[i]);
        work w = {.plan = &none[i], .rows = p.data, .distances = true};
        test_run_ranks(3, 1, 0, train, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_UNSUPPORTED, ranks[r].err);
            assert_non_null(strstr(ranks[r].err.message, "distances"));
        }
    }
}

/* The host owns the loop. */
static xsm_status run_loop(training *t, xsm_gradient *g, xsm_error *err)
{
    xsm_status status = XSM_OK;
    for (uint64_t i = 0; status == XSM_OK && i + 7 <= ROWS; i += 7) {
        const xsm_batch batch = xsm_batch_range(t->of->rows, i, 7);
        status = xsm_estimator_gradient(t->estimator, &batch, 0.5, g, err);
        status = status == XSM_OK ? xsm_optimizer_apply(t->optimizer, &batch, g, 0.5, err) : status;
    }
    return status;
}

static xsm_status loop(test_rank *r)
{
    work *w = r->user;
    training t = {.of = w, .rank = r};
    xsm_gradient *g = NULL;
    xsm_status status = prepare(&t, r->context, &r->err);
    xsm_model_clear_correction(t.model); /* the first step sets it again */
    status = status == XSM_OK ? xsm_gradient_new(r->context, &g, &r->err) : status;
    if (status == XSM_OK) {
        xsmi_model_put_calibration(t.model, (xsmi_calibration){XSM_CALIBRATION_TEMPERATURE, 2, 0});
        status = run_loop(&t, g, &r->err);
    }
    if (status == XSM_OK && t.model->calibration.method != XSM_CALIBRATION_NONE) {
        status = XSM_ERROR_INTERNAL; /* a step drops it */
    }
    if (status == XSM_OK) {
        xsmi_model_put_calibration(t.model, (xsmi_calibration){XSM_CALIBRATION_TEMPERATURE, 2, 0});
        status = xsm_optimizer_bind(t.optimizer, t.model, &r->err); /* as this does */
    }
    if (status == XSM_OK && t.model->calibration.method != XSM_CALIBRATION_NONE) {
        status = XSM_ERROR_INTERNAL;
    }
    status = status == XSM_OK ? evaluate_and_save(r, t.model) : status;
    xsm_gradient_free(g);
    end(&t);
    return status;
}

static void try_host_loop(const settings *plan)
{
    HELD_STRUCT(test_problem, p) = problem_of(plan);
    work w = {.plan = plan, .rows = p.data};
    snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
    test_rank ranks[TEST_RANKS];
    unsigned char *files[2];
    size_t sizes[2];
    double tested = 0;
    for (uint32_t i = 0; i < 2; i++) {
        remove(w.path);
        test_run_ranks(1 + 2 * i, 1, 0, loop, &w, ranks);
        for (uint32_t k = 0; k < 1 + 2 * i; k++) {
            assert_ok(ranks[k].status, ranks[k].err);
            tested = i == 0 ? w.made[0].tested : tested;
            assert_memory_equal(&w.made[k].tested, &tested, sizeof tested);
        }
        files[i] = test_read(w.path, &sizes[i]);
    }
    assert_int_equal(sizes[1], sizes[0]);
    assert_memory_equal(files[1], files[0], sizes[0]);
    free(files[0]);
    free(files[1]);
}

TEST(test_host_loop)
{
    try_host_loop(&plans[5]);
    try_host_loop(&plans[33]); /* the step gives the model a correction */
    try_host_loop(&plans[39]); /* a first layer */
    try_host_loop(&plans[40]);
    try_host_loop(&plans[44]);
}

/* Scores that leave the finite numbers end the run on all ranks, at the step where one process ends. */
TEST(test_diverged)
{
    settings far[] = {plans[2], plans[20]};
    far[0].eta = 1e12;
    far[1].eta = 1e13;
    for (size_t i = 0; i < 2; i++) {
        HELD_STRUCT(test_problem, p) = problem_of(&far[i]);
        work w = {.plan = &far[i], .rows = p.data};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        test_rank one, ranks[TEST_RANKS];
        test_run_ranks(1, 1, 0, train, &w, &one);
        assert_fails(one.status, XSM_ERROR_DIVERGED, one.err);
        test_run_ranks(3, 1, 0, train, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_DIVERGED, ranks[r].err);
            assert_non_null(strstr(ranks[r].err.message, one.err.message));
        }
    }
}

/* Trains until scores leave the finite numbers, and saves what is left. */
static xsm_status train_too_far(test_rank *r)
{
    work *w = r->user;
    training t = {.of = w, .rank = r};
    xsm_progress at = {.size = sizeof at};
    xsm_status status = prepare(&t, r->context, &r->err);
    status = status == XSM_OK ? xsm_trainer_run(t.trainer, &r->err) : status;
    status = status == XSM_ERROR_DIVERGED ? xsm_trainer_get_progress(t.trainer, &at, &r->err) : XSM_ERROR_INTERNAL;
    w->stopped[r->rank] = at.step;
    status = status == XSM_OK ? xsm_model_save(t.model, w->path, NULL, &r->err) : status;
    end(&t);
    return status;
}

/* A step of a window that is not finite ends the run with the model and the step of one process. */
TEST(test_diverged_in_window)
{
    /* Steps whose scores leave the finite numbers when a class is met again, or whose coefficients do. */
    settings far[] = {plans[1], plans[3], plans[8]};
    const double etas[] = {1e11, 1e4, 1e12};
    for (size_t i = 0; i < 3; i++) {
        far[i].eta = etas[i];
        HELD_STRUCT(test_problem, p) = problem_of(&far[i]);
        work w = {.plan = &far[i], .rows = p.data};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        test_rank ranks[TEST_RANKS];
        size_t size = 0;
        unsigned char *one = NULL;
        uint64_t steps = 0;
        for (uint32_t count = 1; count <= 4; count++) {
            remove(w.path);
            test_run_ranks(count, 1 + (count == 3), 0, train_too_far, &w, ranks);
            for (uint32_t r = 0; r < count; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                steps = count == 1 ? w.stopped[0] : steps;
                assert_int_equal(w.stopped[r], steps);
            }
            if (count == 1) {
                one = test_read(w.path, &size);
            } else {
                test_assert_bytes(w.path, one, size);
            }
        }
        assert_int_not_equal(steps % ROWS, 0); /* between two steps of a window */
        free(one);
    }
}

/* A run agrees at its beginning and at its end, and before each epoch begins and ends. A step agrees before the scores
 * (or the weights) are exchanged, and not again; where the ranks divide its rows, what came of them is exchanged
 * without an agreement. 28 bytes for each. A step of softmax exchanges labels, sums with their limits, and what came of
 * them (24 bytes). */
TEST(test_sent)
{
    static const struct {
        size_t plan;
        uint64_t batch, calls; /* of a step */
    } sends[] = {{6, 8, 2}, {6, 35, 3}, {28, 35, 3}, {40, 35, 3}, {41, 35, 3}, {16, 35, 4}};
    enum { AGREEMENTS = 2 + 2 * 2, AGREED = 28 };
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
        settings plan = plans[sends[i].plan];
        plan.batch = sends[i].batch;
        HELD_STRUCT(test_problem, p) = problem_of(&plan);
        work w = {.plan = &plan, .rows = p.data};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        size_t size;
        free(run_on(&w, 3, 1, &size));
        const uint64_t steps = 2 * ((ROWS + plan.batch - 1) / plan.batch), entries = 2 * ROWS * 7;
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(w.sent[r].calls, steps * sends[i].calls + AGREEMENTS);
            if (i == 0) { /* 4 bytes for each entry of a row */
                assert_int_equal(w.sent[r].bytes, 4 * entries + AGREED * (steps + AGREEMENTS));
            }
            if (i == 5) {
                const uint64_t runs = xsmi_runs_of(xsmi_part_size(CLASSES, 3, r));
                assert_int_equal(w.sent[r].bytes,
                                 2 * ROWS * (8 * runs + 4) + steps * (AGREED + 24) + AGREED * AGREEMENTS);
            }
        }
    }
}

/* Steps on single rows agree once a window, here an epoch, and exchange the scores of their lists together, 4 bytes
 * each, until a class occurs again: of 280 in an epoch, of 12293, three or so do. */
TEST(test_sent_window)
{
    enum { AGREED = 28, AGREEMENTS = 2 + 2 * 2 + 2, ENTRIES = 2 * ROWS * 4, MOST = 2 * 16 };
    HELD_STRUCT(test_problem, p) = problem_of(&plans[1]);
    work w = {.plan = &plans[1], .rows = p.data};
    snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
    size_t size;
    free(run_on(&w, 3, 1, &size));
    for (uint32_t r = 0; r < 3; r++) {
        assert_int_equal(w.sent[r].bytes, 4 * ENTRIES + AGREED * AGREEMENTS);
        assert_in_range(w.sent[r].calls, AGREEMENTS + 2 + 1, AGREEMENTS + MOST);
    }
}

/* Of shared draws a rank sends the weights of its classes, once a batch, and the coefficients of all classes of the
 * rows that it computes. */
TEST(test_sent_shared)
{
    /* Of 70 rows 64 are a batch, of which two ranks compute 32 each, and 6 one that both compute. Of 300 draws some may
     * be the same class. A class has its weights, its bias and its scale. */
    enum { BATCH = 64, LINE = 4 * (FEATURES + 2 + 2), EPOCH = 2 * LINE + 4 * 64 };
    enum { LEAST = 2 * EPOCH * 280, MOST = 2 * EPOCH * 300, REST = 20000 };
    settings plan = plans[27];
    plan.batch = BATCH;
    HELD_STRUCT(test_problem, p) = problem_of(&plan);
    work w = {.plan = &plan, .rows = p.data};
    snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
    size_t size;
    free(run_on(&w, 2, 1, &size));
    assert_in_range(w.sent[0].bytes + w.sent[1].bytes, LEAST, MOST + REST);
}

/* Rank 1 has one other setting, which all ranks name before any takes a step. */
TEST(test_other_settings)
{
    static const settings same = {"importance", {{"negatives", "3"}, {"ridge", "0"}}, "sgd", 4, true, true, 0.5, 0};
    static const struct {
        settings of;
        uint64_t seed;
        const char *says;
    } others[] = {
        {{"nce", {{"negatives", "3"}, {"ridge", "0"}}, "sgd", 4, true, true, 0.5, 0},
         0,
         "rank 1 has estimator = nce, and rank 0 has importance"},
        {{"importance", {{"negatives", "4"}, {"ridge", "0"}}, "sgd", 4, true, true, 0.5, 0},
         0,
         "rank 1 has estimator.negatives = 4, and rank 0 has 3"},
        {{"importance", {{"negatives", "3"}, {"ridge", "2"}}, "sgd", 4, true, true, 0.5, 0},
         0,
         "rank 1 has estimator.ridge = 2, and rank 0 has 0"},
        {{"importance", {{"negatives", "3"}, {"ridge", "0"}}, "adagrad", 4, true, true, 0.5, 0},
         0,
         "rank 1 has optimizer = adagrad, and rank 0 has sgd"},
        {{"importance", {{"negatives", "3"}, {"ridge", "0"}}, "sgd", 5, true, true, 0.5, 0},
         0,
         "rank 1 has batch = 5, and rank 0 has 4"},
        {{"importance", {{"negatives", "3"}, {"ridge", "0"}}, "sgd", 4, true, true, 0.25, 0},
         0,
         "rank 1 has eta = 0.25, and rank 0 has 0.5"},
        {{"importance", {{"negatives", "3"}, {"ridge", "0"}}, "sgd", 4, true, true, 0.5, 0},
         7,
         "rank 1 has seed = 7, and rank 0 has 0"},
    };
    HELD_STRUCT(test_problem, p) = problem_of(&same);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        work w = {.plan = &same, .rows = p.data, .unlike = &others[i].of, .unlike_seed = others[i].seed};
        test_rank ranks[TEST_RANKS];
        test_run_ranks(3, 1, 0, train, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            if (ranks[r].status != XSM_ERROR_ARGUMENT || !strstr(ranks[r].err.message, others[i].says)) {
                fail_msg("%s: rank %u: %s: %s", others[i].says, r, xsm_status_name(ranks[r].status),
                         ranks[r].err.message);
            }
            assert_int_equal(w.steps[r], 0);
        }
    }
}

/* The bytes of a row that a rank sends where every class is scored: for the row, and for each of its class runs. */
TEST(test_sent_exact)
{
    static const struct {
        const char *name;
        uint64_t row, run;
    } sends[] = {{"one-vs-all", 4, 8}, {"bouchard", 0, 4 * XSMI_RUN_CLASSES}};
    enum { BATCH = 10, STEPS = 2 * ROWS / BATCH, STEP_MOST = 72, RUN_MOST = 6 * 28 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 8);
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
        const settings plan = {sends[i].name, {{NULL}}, "sgd", BATCH, true, false, 0, 0};
        work w = {.plan = &plan, .rows = p.data};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        size_t size;
        free(run_on(&w, 2, 1, &size));
        const uint64_t least = 2 * ROWS * (sends[i].row + 2 * sends[i].run); /* rank 0 has two whole runs */
        assert_in_range(w.sent[0].bytes, least, least + STEPS * STEP_MOST + RUN_MOST);
    }
}

/* With a first layer and lists both ranks together send each listed class once a step, its weights, bias and scale;
 * then for each row its hidden vector, the gradient of that, its loss and a coefficient for each entry, and what has
 * room for an outcome. Few classes are listed twice. */
TEST(test_sent_lists)
{
    enum { BATCH = 10, STEPS = 2 * ROWS / BATCH, LIST = 6, LINE = 4 * (HIDDEN + 1 + 2), PADDING = 64 };
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 8);
    const settings plan = {"sampled-softmax", {{NULL}}, "sgd", BATCH, true, false, 0, HIDDEN};
    work w = {.plan = &plan, .rows = p.data};
    snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
    size_t size;
    free(run_on(&w, 2, 1, &size));
    const uint64_t weights = 2 * ROWS * LIST * LINE, results = 2 * ROWS * (8 * HIDDEN + 8 + 4 * LIST);
    assert_in_range(w.sent[0].bytes + w.sent[1].bytes, weights * 95 / 100 + results,
                    weights + results + STEPS * 2 * (6 * PADDING + 2 * 4) + 2 * PADDING);
}

static void assert_stopped_alike(const work *w, uint32_t ranks)
{
    for (uint32_t r = 1; r < ranks; r++) {
        assert_int_equal(w->stopped[r], w->stopped[0]);
    }
}

/* A callback on rank 1 stops all ranks, after the same step, and all can go on. */
TEST(test_stopped)
{
    const settings *plan = &plans[0];
    HELD_STRUCT(test_problem, p) = problem_of(plan);
    work w = {.plan = plan, .rows = p.data};
    snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
    size_t size, wanted;
    unsigned char *one = run_on(&w, 1, 1, &wanted);
    w.stop_rank = 1;
    for (w.stop_at = 1; w.stop_at <= 3; w.stop_at++) { /* the beginning of an epoch, its end, the next beginning */
        unsigned char *many = run_on(&w, 3, 1, &size);
        assert_int_equal(size, wanted);
        assert_memory_equal(many, one, size);
        assert_stopped_alike(&w, 3);
        free(many);
    }
    free(one);
}

/* A callback on rank 1 stops all ranks after any step: the others learn of it in their next one. */
TEST(test_stopped_at_steps)
{
    /* Lists, rows that the ranks divide, shared draws, a first layer, states of the rows, sums. */
    static const size_t tried[] = {6, 40, 28, 41, 26, 16};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i += test_full() ? 1 : 4) {
        settings plan = plans[tried[i]];
        plan.batch = i == 0 ? 8 : 33;
        HELD_STRUCT(test_problem, p) = problem_of(&plan);
        work w = {.plan = &plan, .rows = p.data, .stop_rank = 1, .every_step = true};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        size_t size, wanted;
        unsigned char *one = run_on(&w, 1, 1, &wanted);
        const uint64_t steps = (ROWS + plan.batch - 1) / plan.batch, last = 2 * (steps + 1);
        for (w.stop_at = 1; w.stop_at <= last;
             w.stop_at += test_full() ? 1 : 3) { /* an epoch's beginning, then after each of its steps */
            unsigned char *many = run_on(&w, 3, 1, &size);
            assert_int_equal(size, wanted);
            assert_memory_equal(many, one, size);
            assert_stopped_alike(&w, 3);
            assert_int_equal(w.stopped[0], (w.stop_at - 1) / (steps + 1) * steps + (w.stop_at - 1) % (steps + 1));
            free(many);
        }
        free(one);
    }
}

/* A callback on rank 1 stops all ranks after a window of steps on single rows, where it stops one process. */
TEST(test_stopped_at_windows)
{
    const settings *plan = &plans[TWO_WINDOWS];
    HELD_STRUCT(test_problem, p) = problem_of(plan);
    work w = {.plan = plan, .rows = p.data, .every_step = true};
    snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
    size_t size;
    uint64_t within = 0;
    for (w.stop_at = 1; w.stop_at <= 6; w.stop_at++) {
        w.stop_rank = 0;
        unsigned char *one = run_on(&w, 1, 1, &size);
        const uint64_t stopped = w.stopped[0];
        w.stop_rank = 1;
        for (uint32_t count = 2; count <= 3; count++) {
            free(run_on(&w, count, 3 - count + 1, &size));
            test_assert_bytes(w.path, one, size);
            assert_stopped_alike(&w, count);
            assert_int_equal(w.stopped[0], stopped);
        }
        within += stopped % ROWS != 0;
        free(one);
    }
    assert_int_equal(within, 2); /* once an epoch */
}

/* Trains in a context whose hook cancels. */
static xsm_status train_hooked(test_rank *r)
{
    work *w = r->user;
    test_rank of = *r;
    XSMI_TRY(test_rank_context(r, NULL, r->rank == 1 ? w->hook : NULL, &of.context));
    const xsm_status status = train(&of);
    r->err = of.err;
    xsm_context_free(of.context);
    return status;
}

/* A hook on rank 1 cancels the run wherever that can be: it ends on all ranks with the same status, and goes on to the
 * same bits. */
TEST(test_cancelled)
{
    /* Rows that the ranks divide, shared draws, a first layer; of 70 rows the last batch has few. Windows, within which
     * nothing is cancelled. */
    static const struct {
        size_t plan;
        uint64_t batch;
        size_t cancelled;
    } tried[] = {{6, 33, 6}, {28, 33, 6}, {41, 33, 6}, {TWO_WINDOWS, 1, 3}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i += test_full() ? 1 : 3) {
        settings plan = plans[tried[i].plan];
        plan.batch = tried[i].batch;
        HELD_STRUCT(test_problem, p) = problem_of(&plan);
        test_countdown hook = {0, true};
        work w = {.plan = &plan, .rows = p.data};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        size_t size, wanted, cancelled = 0;
        unsigned char *one = run_on(&w, 1, 1, &wanted);
        w.hook = &hook;
        for (w.cancel_at = 1; hook.reached; w.cancel_at = test_next_place(w.cancel_at, 1 + w.cancel_at / 6)) {
            test_rank ranks[TEST_RANKS];
            remove(w.path);
            test_run_ranks(3, 1, 0, train_hooked, &w, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                if (ranks[r].status != XSM_OK) {
                    fail_msg("%s, cancelled at call %zu: rank %u: %s", plan.estimator, w.cancel_at, r,
                             ranks[r].err.message);
                }
            }
            unsigned char *many = test_read(w.path, &size);
            assert_int_equal(size, wanted);
            assert_memory_equal(many, one, size);
            assert_stopped_alike(&w, 3);
            cancelled += w.stopped[0] != UINT64_MAX;
            free(many);
        }
        assert_true(cancelled >= (test_full() ? tried[i].cancelled : tried[i].cancelled / 2));
        free(one);
    }
}

/* The group fails at each of its calls in turn: every rank returns, and with the same status. */
TEST(test_lost)
{
    /* Listed, sums, all scores, shared; of first layers listed, shared, sums; single rows. */
    static const size_t tried[] = {6, 15, 22, 27, 39, 41, 45, TWO_WINDOWS};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i += test_full() ? 1 : 4) {
        settings few = plans[tried[i]];
        few.batch = tried[i] == TWO_WINDOWS ? 1 : ROWS;
        HELD_STRUCT(test_problem, p) = problem_of(&few);
        work w = {.plan = &few, .rows = p.data};
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        test_rank ranks[TEST_RANKS];
        uint64_t at = 1;
        do {
            test_run_ranks(3, 1, at, train, &w, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
            at = test_next_place(
                at, 1 + at / 20); /* all of the first, later some: what all scores of a row are sent by is long */
        } while (ranks[0].status != XSM_OK);
        assert_true(at > 12);
    }
}

/* -- a rank without memory ----------------------------------------------------------------------------------------- */

/* The rank's own objects are made with a context whose k-th allocation fails. */
typedef struct limited {
    work *of;
    size_t k;
    bool reached, begun;      /* begun: by then rank 1 trained */
    bool apart[TEST_RANKS];   /* the model is: only some ranks took the last step */
    bool resumed[TEST_RANKS]; /* the run went on after its failure, and saved its model */
    bool kept[TEST_RANKS];    /* the estimator refused to, and was bound again */
    size_t done[TEST_RANKS];  /* calls of a host's loop */
} limited;

/* A model whose ranks are apart is neither saved nor trained on, whatever is bound to it. */
static xsm_status refuse_apart(const training *t)
{
    const work *w = t->of;
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *made = NULL;
    xsm_trainer *trainer = NULL;
    xsm_gradient *g = NULL;
    xsm_convert_options types = XSM_CONVERT_OPTIONS_INIT;
    types.dtype = XSM_DTYPE_INT8;
    const xsm_batch batch = xsm_batch_range(w->rows, 0, 7);
    XSMI_TRY(xsm_gradient_new(NULL, &g, &err));
    const xsm_status got[] = {
        xsm_model_save(t->model, w->path, NULL, &err),
        xsm_model_convert(t->model, &types, &made, &err),
        xsm_estimator_gradient(t->estimator, &batch, 0.5, g, &err),
        xsm_optimizer_apply(t->optimizer, &batch, g, 0.5, &err),
        xsm_trainer_run(t->trainer, &err),
        xsm_trainer_checkpoint(t->trainer, w->path, NULL, &err),
        xsm_trainer_resume(t->trainer, w->path, NULL, &err),
        xsm_optimizer_bind(t->optimizer, t->model, &err),
        xsm_estimator_bind(t->estimator, t->model, w->rows, &err),
        xsm_trainer_new(t->model->context, t->model, w->rows, t->estimator, t->optimizer, NULL, &trainer, &err),
    };
    bool refused = strstr(err.message, "load it from a file") != NULL;
    for (size_t i = 0; i < sizeof got / sizeof *got; i++) {
        refused &= got[i] == XSM_ERROR_STATE;
    }
    xsm_gradient_free(g);
    return refused ? XSM_OK : XSM_ERROR_INTERNAL;
}

/* Whether an estimator whose ranks keep different things of the rows refuses, until it is bound again. */
static bool refuses_rows(const training *t)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_gradient *g = NULL;
    const xsm_batch batch = xsm_batch_range(t->of->rows, 0, 7);
    bool refused = xsm_gradient_new(NULL, &g, &err) == XSM_OK &&
                   xsm_estimator_gradient(t->estimator, &batch, 0.5, g, &err) == XSM_ERROR_STATE &&
                   strstr(err.message, "bind it again") != NULL;
    xsm_gradient_free(g);
    refused = refused && xsm_trainer_run(t->trainer, &err) == XSM_ERROR_STATE;
    refused = refused && xsm_trainer_checkpoint(t->trainer, t->of->path, NULL, &err) == XSM_ERROR_STATE;
    return refused && xsm_estimator_bind(t->estimator, t->model, t->of->rows, &err) == XSM_OK && !t->estimator->apart;
}

static xsm_status train_without(test_rank *r)
{
    limited *l = r->user;
    test_countdown c = {r->rank == 1 ? l->k : 0, false};
    xsm_context *ctx = NULL;
    xsm_status status = test_rank_context(r, &c, NULL, &ctx);
    if (status != XSM_OK) {
        return XSMI_COLLECTIVE(r->context, status, &r->err);
    }
    training t = {.of = l->of, .rank = r};
    status = prepare(&t, ctx, &r->err);
    if (r->rank == 1) {
        l->begun = status == XSM_OK;
    }
    if (status == XSM_OK) {
        status = xsm_trainer_run(t.trainer, &r->err);
        if (status == XSM_ERROR_MEMORY && t.model->apart) {
            status = refuse_apart(&t) == XSM_OK ? status : XSM_ERROR_INTERNAL;
        } else if (t.estimator->apart) {
            l->kept[r->rank] = refuses_rows(&t);
            status = l->kept[r->rank] ? status : XSM_ERROR_INTERNAL;
        } else if (status == XSM_ERROR_MEMORY) { /* nobody took the step: the run goes on */
            xsm_error again = XSM_ERROR_INIT;
            const bool good = xsm_trainer_run(t.trainer, &again) == XSM_OK &&
                              xsm_model_save(t.model, l->of->path, NULL, &again) == XSM_OK;
            l->resumed[r->rank] = good;
            status = good ? status : XSM_ERROR_INTERNAL;
        }
    }
    end(&t);
    xsm_context_free(ctx);
    if (r->rank == 1) {
        l->reached = c.reached;
    }
    return status;
}

/* Rank 0's callback stops the run after a step for which rank 1 may have had no memory: the ranks have then taken
 * different steps, and none goes on or writes a checkpoint. */
static xsm_status stop_without(test_rank *r)
{
    limited *l = r->user;
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    training t = {.of = l->of, .rank = r};
    XSMI_TRY(test_rank_context(r, &c, NULL, &ctx));
    xsm_status status = prepare(&t, ctx, &r->err);
    if (status == XSM_OK) {
        t.trainer->report.interval = 0;
        c.left = r->rank == 1 ? l->k : 0;
        status = xsm_trainer_run(t.trainer, &r->err);
        c.left = 0;
        l->apart[r->rank] = t.model->apart;
        xsm_error again = XSM_ERROR_INIT;
        const xsm_status next = xsm_trainer_checkpoint(t.trainer, l->of->path, NULL, &again);
        if (next != (t.model->apart ? XSM_ERROR_STATE : XSM_OK)) {
            status = XSM_ERROR_INTERNAL;
        }
    }
    end(&t);
    xsm_context_free(ctx);
    if (r->rank == 1) {
        l->reached = c.reached;
    }
    return status;
}

TEST(test_stopped_without_memory)
{
    settings plan = plans[5];
    plan.batch = 35;
    HELD_STRUCT(test_problem, p) = problem_of(&plan);
    work w = {.plan = &plan, .rows = p.data, .stop_at = 2}; /* after the first step */
    snprintf(w.path, sizeof w.path, "%s", test_path("checkpoint"));
    limited l = {.of = &w, .reached = true};
    test_rank ranks[TEST_RANKS];
    size_t lost = 0;
    for (l.k = 1; l.reached; l.k++) {
        test_run_ranks(3, 1, 0, stop_without, &l, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, ranks[1].status);
            assert_int_equal(l.apart[r], l.apart[1]);
        }
        assert_true(ranks[1].status == XSM_CANCELLED || ranks[1].status == XSM_ERROR_MEMORY);
        lost += l.apart[1] && ranks[1].status == XSM_CANCELLED;
    }
    assert_int_equal(ranks[0].status, XSM_CANCELLED);
    assert_true(lost > 0 && !l.apart[0]);
    remove(w.path);
}

/* The same of a host's loop. A step that rank 1 alone could not take has failed on all, and there is no next one. */
static xsm_status loop_without(test_rank *r)
{
    limited *l = r->user;
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    training t = {.of = l->of, .rank = r};
    xsm_gradient *g = NULL;
    XSMI_TRY(test_rank_context(r, &c, NULL, &ctx));
    xsm_status status = prepare(&t, ctx, &r->err);
    status = status == XSM_OK ? xsm_gradient_new(ctx, &g, &r->err) : status;
    if (status == XSM_OK) {
        c.left = r->rank == 1 ? l->k : 0;
        status = run_loop(&t, g, &r->err);
        l->apart[r->rank] = t.model->apart;
        c.left = 0;
    }
    if (t.model && t.model->apart && refuse_apart(&t) != XSM_OK) {
        status = XSM_ERROR_INTERNAL;
    }
    xsm_gradient_free(g);
    end(&t);
    xsm_context_free(ctx);
    if (r->rank == 1) {
        l->reached = c.reached;
    }
    return status;
}

TEST_OF_FULL(test_memory_lost_in_loop)
{
    static const size_t tried[] = {5, 33, 39, 44};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        HELD_STRUCT(test_problem, p) = problem_of(&plans[tried[i]]);
        work w = {.plan = &plans[tried[i]], .rows = p.data};
        limited l = {.of = &w, .reached = true};
        test_rank ranks[TEST_RANKS];
        size_t apart = 0;
        for (l.k = 1; l.reached; l.k++) {
            test_run_ranks(3, 1, 0, loop_without, &l, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[1].status);
                assert_int_equal(l.apart[r], l.apart[1]);
            }
            assert_true(ranks[1].status == XSM_OK || ranks[1].status == XSM_ERROR_MEMORY);
            assert_true(ranks[1].status == XSM_OK || strncmp(ranks[0].err.message, "rank 1: ", 8) == 0);
            apart += l.apart[1];
        }
        assert_int_equal(ranks[0].status, XSM_OK);
        assert_true(apart > 0);
    }
}

/* The model of one process; none where a file cannot hold it. */
static unsigned char *trained_alone(work *w, size_t *size)
{
    remove(w->path);
    return run_on(w, 1, 1, size);
}

TEST(test_memory_lost)
{
    /* Listed, sums, all scores, a whole batch, shared; of first layers listed, shared, sums, all scores; single rows.
     */
    static const size_t tried[] = {5, 15, 22, 25, 27, 39, 41, 45, 46, TWO_WINDOWS};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i += test_full() ? 1 : 4) {
        settings few = plans[tried[i]];
        few.batch = tried[i] == TWO_WINDOWS ? 1 : 35;
        HELD_STRUCT(test_problem, p) = problem_of(&few);
        work w = {.plan = &few, .rows = p.data};
        limited l = {.of = &w, .reached = true};
        test_rank ranks[TEST_RANKS];
        size_t failures = 0, size, resumed = 0, kept = 0;
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        unsigned char *one = trained_alone(&w, &size);
        for (l.k = 1; l.reached; l.k = test_next_place(l.k, 1)) {
            memset(l.resumed, 0, sizeof l.resumed);
            memset(l.kept, 0, sizeof l.kept);
            test_run_ranks(3, 1, 0, train_without, &l, ranks);
            kept += l.kept[1];
            if (l.resumed[0]) {
                test_assert_bytes(w.path, one, size);
                resumed++;
            }
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(l.resumed[r], l.resumed[1]);
                /* Objects that are no model's are made without the group: the others find that rank 1 has left. */
                assert_true(ranks[r].status == ranks[1].status || (!l.begun && ranks[r].status == XSM_ERROR_COMM));
            }
            assert_true(ranks[1].status == XSM_OK || ranks[1].status == XSM_ERROR_MEMORY);
            failures += ranks[0].status == XSM_ERROR_MEMORY && strncmp(ranks[0].err.message, "rank 1: ", 8) == 0;
        }
        assert_int_equal(ranks[0].status, XSM_OK);
        assert_true(failures > (test_full() ? 10 : 3));
        assert_true(resumed > 0 || tried[i] == TWO_WINDOWS); /* windows have all their memory before the run */
        assert_true(kept > 0 || tried[i] != 25); /* implicit steps of a whole batch change what is kept of the rows */
        free(one);
    }
}

/* -- a rank whose host's runner fails ------------------------------------------------------------------------------ */

/* A host's loop that makes a call once more if it has failed, unless the ranks are apart. */
static xsm_status loop_again(training *t, limited *l, xsm_gradient *g, xsm_error *err)
{
    const settings *plan = t->of->plan;
    const double eta = plan->eta > 0 ? plan->eta : 0.3;
    for (uint64_t i = 0; i + plan->batch <= ROWS; i += plan->batch) {
        const xsm_batch batch = xsm_batch_range(t->of->rows, i, plan->batch);
        xsm_status status = XSM_OK;
        for (int call = 0; call < 2; call++) {
            status = call == 0 ? xsm_estimator_gradient(t->estimator, &batch, eta, g, err)
                               : xsm_optimizer_apply(t->optimizer, &batch, g, eta, err);
            const bool failed = status == XSM_ERROR_RUNNER;
            if (failed && (t->model->apart || t->estimator->apart || call > 0 || l->resumed[t->rank->rank])) {
                return status;
            }
            call -= failed;
            l->resumed[t->rank->rank] |= failed;
            l->done[t->rank->rank] += l->resumed[t->rank->rank] ? 0 : 1;
            XSMI_TRY(failed ? XSM_OK : status);
        }
    }
    return XSM_OK;
}

static xsm_status loop_running(test_rank *r)
{
    limited *l = r->user;
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    training t = {.of = l->of, .rank = r};
    xsm_gradient *g = NULL;
    XSMI_TRY(test_rank_context_running(r, &c, &ctx));
    xsm_status status = prepare(&t, ctx, &r->err);
    status = status == XSM_OK ? xsm_gradient_new(ctx, &g, &r->err) : status;
    if (status == XSM_OK) {
        c.left = r->rank == 1 ? l->k : 0;
        status = loop_again(&t, l, g, &r->err);
        c.left = 0;
        l->apart[r->rank] = t.model->apart || t.estimator->apart;
    }
    status = status == XSM_OK ? xsm_model_save(t.model, l->of->path, NULL, &r->err) : status;
    xsm_gradient_free(g);
    end(&t);
    xsm_context_free(ctx);
    if (r->rank == 1) {
        l->reached = c.reached;
    }
    return status;
}

/* The host's runner of one rank fails in each of its runs in turn: a gradient fails on all ranks, and the loop goes on
 * to the bits of one process; or nothing fails, as others no longer wait for the rank, or have taken the step. */
TEST(test_runner_lost)
{
    /* Shared draws; lists, numbers for the rows, a batch as a whole, all scores, sums; a first layer. */
    static const struct {
        size_t plan;
        uint64_t batch;
    } tried[] = {{27, 70}, {6, 70}, {4, 70}, {25, 35}, {22, 70}, {16, 70}, {41, 35}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i += test_full() ? 1 : 4) {
        settings plan = plans[tried[i].plan];
        plan.batch = tried[i].batch;
        HELD_STRUCT(test_problem, p) = problem_of(&plan);
        work w = {.plan = &plan, .rows = p.data};
        limited l = {.of = &w, .reached = true};
        test_rank ranks[TEST_RANKS];
        size_t size, resumed = 0;
        snprintf(w.path, sizeof w.path, "%s", test_path("trained"));
        test_run_ranks(1, 1, 0, loop_running, &l, ranks);
        assert_ok(ranks[0].status, ranks[0].err);
        unsigned char *one = test_read(w.path, &size);
        l.reached = true;
        for (l.k = 1; l.reached; l.k = test_next_place(l.k, 1)) {
            memset(l.resumed, 0, sizeof l.resumed);
            memset(l.done, 0, sizeof l.done);
            remove(w.path);
            test_run_ranks(3, 1, 0, loop_running, &l, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(l.done[r], l.done[1]);
                assert_int_equal(l.resumed[r], l.resumed[1]);
                assert_false(l.apart[r]);
                assert_ok(ranks[r].status, ranks[r].err);
            }
            test_assert_bytes(w.path, one, size);
            resumed += l.resumed[1];
        }
        assert_true(resumed > 0);
        free(one);
    }
}

/* -- ranks with different rows ------------------------------------------------------------------------------------- */

/* What is done with the rows. */
typedef enum use { BIND, BIND_LABELS, TEST, EVALUATE, EVALUATE_CLASSES, USES } use;

typedef struct unlike {
    const xsm_dataset *rows[2]; /* the second is rank 1's */
    use use;
} unlike;

/* Makes a trainer of the same rows, which evaluates on others. */
static xsm_status make_trainer(const unlike *u, xsm_context *ctx, xsm_model *m, xsm_estimator *e,
                               const xsm_dataset *rows, xsm_error *err)
{
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_trainer, t) = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.eta = 0.1;
    options.test = rows;
    XSMI_TRY(xsm_optimizer_new(ctx, "sgd", &o, err));
    return xsm_trainer_new(ctx, m, u->rows[0], e, o, &options, &t, err);
}

static xsm_status use_rows(const unlike *u, xsm_context *ctx, xsm_model *m, xsm_estimator *e, const xsm_dataset *rows,
                           xsm_error *err)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_class_metrics classes = XSM_CLASS_METRICS_INIT;
    switch (u->use) {
    case BIND:
        return xsm_estimator_bind(e, m, rows, err);
    case BIND_LABELS:
        return xsm_estimator_bind_labels(e, m, rows, err);
    case TEST:
        return make_trainer(u, ctx, m, e, rows, err);
    case EVALUATE:
        return xsm_evaluate(ctx, m, rows, NULL, &metrics, err);
    default:
        return xsm_evaluate_classes(ctx, m, rows, NULL, &classes, err);
    }
}

static xsm_status use_unlike(test_rank *r)
{
    const unlike *u = r->user;
    const xsm_dataset *rows = u->rows[r->rank == 1];
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    XSMI_TRY(xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err));
    xsm_status status = xsm_estimator_new(r->context, "umax", &e, &r->err);
    status = status == XSM_OK ? use_rows(u, r->context, m, e, rows, &r->err) : status;
    return status;
}

TEST(test_unlike_rows)
{
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, false, 8);
    HELD_STRUCT(test_problem, fewer) = test_problem_new(9, FEATURES, CLASSES, false, 8);
    uint64_t offsets[ROWS + 1];
    uint32_t labels[ROWS];
    for (uint32_t i = 0; i <= ROWS; i++) {
        offsets[i] = i;
    }
    memcpy(labels, p.labels, sizeof labels);
    labels[ROWS - 1] = (labels[ROWS - 1] + 1) % CLASSES;
    HELD(xsm_dataset, labelled) = test_relabel(&p, false, CLASSES, offsets, labels);
    offsets[ROWS] = ROWS - 1; /* a row without a label, which is no training row */
    HELD(xsm_dataset, unlabelled) = test_relabel(&p, false, CLASSES, offsets, labels);
    HELD_STRUCT(test_problem, moved) = test_problem_new(ROWS, FEATURES, CLASSES, false, 8);
    ((float *)(uintptr_t)moved.data->values)[FEATURES - 1] += 1;
    const xsm_dataset *others[] = {labelled, unlabelled, fewer.data, moved.data, p.data};
    enum { OTHERS = sizeof others / sizeof *others };
    for (size_t i = 0; i < OTHERS; i++) {
        for (use what = 0; what < USES; what++) {
            unlike u = {{p.data, others[i]}, what};
            test_rank ranks[TEST_RANKS];
            const bool same = i + 1 == OTHERS || (what == BIND_LABELS && others[i] == moved.data);
            test_run_ranks(3, 1, 0, use_unlike, &u, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, same ? XSM_OK : XSM_ERROR_DATA);
                assert_true(same || strstr(ranks[r].err.message, "rank 1: the dataset is not that of rank 0"));
            }
        }
    }
}
