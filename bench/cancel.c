/*
 * How long a cancelled call takes to return: the time from a wish, at some moment of the call, to its return. For each
 * long call the worst of some moments is printed, with the call's own time and its phases.
 *
 *     bench_cancel [RUNS] [CLASSES] [FEATURES] [ROWS] [CALL]
 *     bench_cancel gaps [CLASSES] [FEATURES] [ROWS] [CALL]
 *
 * With CALL only calls whose names begin so. The second form lets each call look for a wish on one thread, whenever it
 * can, and prints the longest time of the processor for which it did not, in the first second and from then, when it is
 * wished, to its return. Other programs that keep the machine busy hardly change these times.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/activity.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax-words.h>
#include <xsoftmax.h>
#include <xsoftmax/calibrate.h>
#include <xsoftmax/draw.h>
#include <xsoftmax/ext/estimator.h>
#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/optimizer.h>
#include <xsoftmax/ext/sampler.h>
#include <xsoftmax/buffer.h>
#include <xsoftmax/experimental.h>
#include <xsoftmax/stored_weights.h>

enum {
    BATCH = 2000,     /* the rows of a large batch */
    JOINT_BATCH = 500 /* of one that an estimator takes as a whole */
};

static uint32_t classes = 200000, features = 128;
static uint64_t rows = 20000;
static double wish = -1; /* when the call is to end */
static double called;    /* when the call began, with what it needs made */
static double returned;  /* when it returned, if that is not the end of what releases its objects */
static char phases[256];

/* The longest time without a look at the hook. */
static bool gaps;
static double looked, longest_gap;
static char gap_phase[64];

static double now(void)
{
    struct timespec t;
    clock_gettime(gaps ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void end_gap(double at, const char *phase)
{
    if (at - looked > longest_gap) {
        longest_gap = at - looked;
        snprintf(gap_phase, sizeof gap_phase, "%s", phase);
    }
}

static int32_t watch(void *user, const xsm_activity *activity)
{
    (void)user;
    if (gaps && wish >= 0) {
        end_gap(now(), activity->phase);
    }
    looked = now();
    if (!strstr(phases, activity->phase) && strlen(phases) + strlen(activity->phase) + 3 < sizeof phases) {
        strcat(strcat(phases, phases[0] ? ", " : ""), activity->phase);
    }
    return wish >= 0 && now() >= wish;
}

/* Nothing is wished while what the call needs is made. */
static double held_wish;

static void hold_wish(void)
{
    held_wish = wish;
    wish = -1;
}

/* What the call needs is made: the call itself begins here. */
static void begin_call(void)
{
    const double start = now();
    wish = held_wish + start - called;
    called = looked = start;
}

static xsm_context *ctx;
static xsm_dataset *data, *small, *words;
static xsm_model *model;
static xsm_index *built;
static char **own_names, **all_names; /* of the model, and with as many new ones between them */
static char word_path[64], text_path[64], cache_path[64], model_path[64], out_path[64];
static xsm_error err = XSM_ERROR_INIT;

static void need(xsm_status status)
{
    if (status != XSM_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
}

static xsm_status read_path(const char *path)
{
    xsm_dataset *d = NULL;
    xsm_status status = xsm_dataset_read(ctx, path, NULL, NULL, &d, &err);
    xsm_dataset_free(d);
    return status;
}

static xsm_status read_text(void)
{
    return read_path(text_path);
}

static xsm_status read_cache(void)
{
    return read_path(cache_path);
}

static xsm_status write_as(int32_t format)
{
    xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
    options.format = format;
    return xsm_dataset_write(data, out_path, &options, &err);
}

static xsm_status write_text(void)
{
    return write_as(XSM_FORMAT_CSV);
}

static xsm_status write_cache(void)
{
    return write_as(XSM_FORMAT_CACHE);
}

static xsm_status save(void)
{
    return xsm_model_save(model, out_path, NULL, &err);
}

static xsm_status load(void)
{
    xsm_model *m = NULL;
    xsm_status status = xsm_model_load(ctx, model_path, NULL, NULL, &m, &err);
    xsm_model_free(m);
    return status;
}

static xsm_status save_to_buffer(void)
{
    xsm_buffer *buffer = NULL;
    xsm_storage storage = XSM_STORAGE_INIT;
    need(xsm_buffer_new(ctx, &buffer, &err));
    need(xsm_buffer_get_storage(buffer, &storage, &err));
    const xsm_status status = xsm_model_save(model, NULL, &storage, &err);
    returned = now();
    xsm_buffer_free(buffer);
    return status;
}

static xsm_status load_copy(void)
{
    xsm_model *m = NULL;
    xsm_load_options options = XSM_LOAD_OPTIONS_INIT;
    options.copy = 1;
    const xsm_status status = xsm_model_load(ctx, model_path, NULL, &options, &m, &err);
    returned = now();
    xsm_model_free(m);
    return status;
}

static xsm_status convert(void)
{
    xsm_model *m = NULL;
    xsm_convert_options options = XSM_CONVERT_OPTIONS_INIT;
    options.dtype = XSM_DTYPE_INT8;
    const xsm_status status = xsm_model_convert(model, &options, &m, &err);
    returned = now();
    xsm_model_free(m);
    return status;
}

static xsm_status prune(void)
{
    xsm_model *m = NULL;
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    options.keep = features / 4 + 1;
    const xsm_status status = xsm_model_prune(model, &options, &m, &err);
    returned = now();
    xsm_model_free(m);
    return status;
}

static xsm_status calibrate(void)
{
    return xsm_model_calibrate(ctx, model, small, NULL, NULL, &err);
}

static xsm_status fit_tree(const xsm_label_tree_options *options)
{
    xsm_model *m = NULL;
    const xsm_status status = xsm_fit_label_tree(ctx, words, options, &m, NULL, &err);
    returned = now();
    xsm_model_free(m);
    return status;
}

static xsm_status fit_label_tree(void)
{
    return fit_tree(NULL);
}

static xsm_status fit_label_tree_negatives(void)
{
    xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
    options.negatives = 10;
    options.loss = XSM_LABEL_TREE_LOSS_LOGISTIC;
    options.balance = XSM_LABEL_TREE_BALANCE_CLUSTERS;
    return fit_tree(&options);
}

static xsm_status evaluate(void)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    return xsm_evaluate(ctx, model, data, NULL, &metrics, &err);
}

static xsm_status evaluate_ranks(void)
{
    xsm_ranks ranks = XSM_RANKS_INIT;
    return xsm_evaluate_ranks(ctx, model, data, NULL, &ranks, &err);
}

static xsm_status predict(void)
{
    const xsm_batch all = xsm_batch_range(small, 0, 2000);
    uint32_t *best = malloc(2000 * 5 * sizeof *best);
    xsm_predictor *p = NULL;
    need(xsm_predictor_new(model, NULL, &p, &err));
    xsm_prediction wanted = XSM_PREDICTION_INIT;
    wanted.batch = &all;
    wanted.classes = best;
    xsm_status status = xsm_predictor_run(p, &wanted, &err);
    xsm_predictor_free(p);
    free(best);
    return status;
}

static xsm_status evaluate_search(void)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_search_metrics metrics = XSM_SEARCH_METRICS_INIT;
    options.index = built;
    return xsm_evaluate_search(ctx, model, small, &options, &metrics, &err);
}

static xsm_status build_index(void)
{
    xsm_index *x = NULL;
    need(xsm_index_new(ctx, "spherical", &x, &err));
    xsm_status status = xsm_index_build_model(x, model, &err);
    xsm_index_free(x);
    return status;
}

static xsm_status bind_tree(void)
{
    xsm_sampler *s = NULL;
    need(xsm_sampler_new(ctx, "tree", &s, &err));
    xsm_status status = xsm_sampler_bind(s, data, &err);
    xsm_sampler_free(s);
    return status;
}

static xsm_status train_with(const char *name, const xsm_dataset *train, uint64_t batch)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_model *m = NULL;
    xsm_estimator *e = NULL;
    xsm_optimizer *o = NULL;
    xsm_trainer *t = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 20;
    options.batch = batch;
    options.eta = 0.1;
    need(xsm_dataset_get_info(train, &info, &err));
    need(xsm_model_new_linear(ctx, info.features, info.classes, NULL, &m, &err));
    need(xsm_estimator_new(ctx, name, &e, &err));
    need(xsm_optimizer_new(ctx, "sgd", &o, &err));
    xsm_status status = xsm_trainer_new(ctx, m, train, e, o, &options, &t, &err);
    if (status == XSM_OK) {
        status = xsm_trainer_run(t, &err);
    }
    xsm_trainer_free(t);
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    xsm_model_free(m);
    return status;
}

static xsm_status train_softmax(void)
{
    return train_with("softmax", data, 256);
}

static xsm_status train_large(void)
{
    return train_with("softmax", data, BATCH);
}

static xsm_status train_margin(void)
{
    return train_with("margin", data, BATCH);
}

static xsm_status train_implicit(void)
{
    return train_with("implicit", data, 1);
}

static xsm_status train_searching(void)
{
    return train_with("mips", data, 32);
}

/* What a step on the model needs. */
typedef struct stepper {
    xsm_estimator *e;
    xsm_optimizer *o;
    xsm_gradient *g;
} stepper;

static stepper new_stepper(const char *estimator, const char *optimizer)
{
    stepper s = {NULL, NULL, NULL};
    hold_wish();
    need(xsm_estimator_new(ctx, estimator, &s.e, &err));
    need(xsm_optimizer_new(ctx, optimizer, &s.o, &err));
    need(xsm_gradient_new(ctx, &s.g, &err));
    need(xsm_optimizer_bind(s.o, model, &err));
    need(xsm_estimator_bind(s.e, model, data, &err));
    return s;
}

static void free_stepper(stepper *s)
{
    xsm_gradient_free(s->g);
    xsm_optimizer_free(s->o);
    xsm_estimator_free(s->e);
}

/* A batch's gradient, and the step. */
static xsm_status take_step(const char *name, bool of_rows)
{
    const uint64_t most = strcmp(name, "implicit") == 0 ? JOINT_BATCH : BATCH;
    const xsm_batch batch = xsm_batch_range(data, 0, rows < most ? rows : most);
    float *input = malloc((size_t)BATCH * features * sizeof *input);
    stepper s = new_stepper(name, "sgd");
    begin_call();
    const xsm_status status = of_rows ? xsm_estimator_gradient_input(s.e, &batch, 1e-6, s.g, input, features, &err)
                                      : xsm_estimator_gradient(s.e, &batch, 1e-6, s.g, &err);
    returned = now(); /* to release gigabytes takes longer */
    if (status == XSM_OK) {
        wish = -1; /* the call has ended */
        need(xsm_optimizer_apply(s.o, &batch, s.g, 1e-6, &err));
    }
    free_stepper(&s);
    free(input);
    return status;
}

static xsm_status gradient(void)
{
    return take_step("softmax", false);
}

/* Three steps that draw by codebooks, which the second and the third make. */
static xsm_status gradient_midx(void)
{
    const xsm_batch batch = xsm_batch_range(data, 0, rows < BATCH ? rows : BATCH);
    stepper s = {NULL, NULL, NULL};
    hold_wish();
    need(xsm_estimator_new(ctx, "sampled-softmax", &s.e, &err));
    need(xsm_estimator_set(s.e, "sampler", "midx", &err));
    need(xsm_estimator_set(s.e, "sampler.words", "1024", &err));
    need(xsm_gradient_new(ctx, &s.g, &err));
    need(xsm_estimator_bind(s.e, model, data, &err));
    begin_call();
    xsm_status status = XSM_OK;
    for (int i = 0; i < 3 && status == XSM_OK; i++) {
        status = xsm_estimator_gradient(s.e, &batch, 1e-6, s.g, &err);
    }
    returned = now();
    free_stepper(&s);
    return status;
}

static xsm_status gradient_margin(void)
{
    return take_step("margin", false);
}

static xsm_status gradient_joint(void)
{
    return take_step("implicit", false);
}

static xsm_status gradient_input(void)
{
    return take_step("softmax", true);
}

/* The step of a gradient that has every class. */
static xsm_status apply_with(const char *name)
{
    const xsm_batch batch = xsm_batch_range(data, 0, rows < BATCH ? rows : BATCH);
    stepper s = new_stepper("softmax", name);
    need(xsm_estimator_gradient(s.e, &batch, 1e-6, s.g, &err));
    begin_call();
    const xsm_status status = xsm_optimizer_apply(s.o, &batch, s.g, 1e-6, &err);
    returned = now();
    free_stepper(&s);
    return status;
}

static xsm_status apply_sgd(void)
{
    return apply_with("sgd");
}

static xsm_status apply_adagrad(void)
{
    return apply_with("adagrad");
}

static xsm_status score_range(void)
{
    const xsm_batch batch = xsm_batch_range(data, 0, rows < BATCH ? rows : BATCH);
    float *scores = malloc((size_t)BATCH * classes * sizeof *scores);
    hold_wish();
    begin_call();
    const xsm_status status = xsm_model_score_range(model, &batch, 0, classes, scores, classes, &err);
    returned = now();
    free(scores);
    return status;
}

static xsm_status score_chosen(void)
{
    const xsm_batch batch = xsm_batch_range(data, 0, rows < 200 ? rows : 200);
    float *scores = malloc((size_t)200 * classes * sizeof *scores);
    uint32_t *chosen = malloc((size_t)200 * classes * sizeof *chosen);
    hold_wish();
    for (size_t i = 0; i < (size_t)200 * classes; i++) {
        chosen[i] = (uint32_t)(i % classes);
    }
    begin_call();
    const xsm_status status = xsm_model_scores(model, &batch, chosen, classes, scores, &err);
    returned = now();
    free(scores);
    free(chosen);
    return status;
}

static xsm_status draw_distinct(void)
{
    const xsm_batch batch = xsm_batch_range(data, 0, rows < BATCH ? rows : BATCH);
    static uint32_t drawn[BATCH * 5];
    xsm_sampler *s = NULL;
    xsm_draw draw = XSM_DRAW_INIT;
    draw.batch = &batch;
    draw.count = 5;
    draw.distinct = 1;
    draw.classes = drawn;
    hold_wish();
    need(xsm_sampler_new(ctx, "frequency", &s, &err));
    need(xsm_sampler_bind(s, data, &err));
    begin_call();
    const xsm_status status = xsm_sampler_draw(s, &draw, &err);
    returned = now();
    xsm_sampler_free(s);
    return status;
}

static xsm_status log_probabilities(void)
{
    const xsm_batch batch = xsm_batch_range(data, 0, rows < BATCH ? rows : BATCH);
    xsm_sampler *s = NULL;
    float *out = malloc((size_t)BATCH * classes * sizeof *out);
    hold_wish();
    need(xsm_sampler_new(ctx, "tree", &s, &err));
    need(xsm_sampler_bind(s, data, &err));
    begin_call();
    const xsm_status status = xsm_sampler_log_probabilities(s, &batch, 0, classes, out, &err);
    returned = now();
    xsm_sampler_free(s);
    free(out);
    return status;
}

static xsm_status fit(void)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_model *m = NULL;
    xsm_estimator *e = NULL;
    need(xsm_dataset_get_info(small, &info, &err));
    need(xsm_model_new_linear(ctx, info.features, info.classes, NULL, &m, &err));
    need(xsm_estimator_new(ctx, "softmax", &e, &err));
    xsm_status status = xsm_fit_full_batch(ctx, m, small, e, NULL, NULL, &err);
    xsm_estimator_free(e);
    xsm_model_free(m);
    return status;
}

/* The classes of a model, or those and the new ones. */
static xsm_class_map class_map(uint32_t count)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    map.classes = count;
    map.names = (const char *const *)(count == classes ? own_names : all_names);
    return map;
}

static xsm_model *named_model(uint32_t width)
{
    xsm_model *m = NULL;
    const xsm_class_map map = class_map(classes);
    need(xsm_model_new_linear(ctx, width, classes, NULL, &m, &err));
    need(xsm_model_set_class_map(m, &map, &err));
    return m;
}

static xsm_status grow(void)
{
    hold_wish();
    xsm_model *m = named_model(features);
    const xsm_class_map wider = class_map(2 * classes);
    wish = held_wish;
    xsm_status status = xsm_model_grow(m, features + 1, &wider, &err);
    xsm_model_free(m);
    return status;
}

static xsm_status change_layout(void)
{
    xsm_model_info about = XSM_MODEL_INFO_INIT;
    (void)xsm_model_get_info(model, &about, NULL);
    return xsm_model_set_layout(
        model, about.layout == XSM_LAYOUT_CLASS_MAJOR ? XSM_LAYOUT_FEATURE_MAJOR : XSM_LAYOUT_CLASS_MAJOR, &err);
}

static xsm_status add_pairs(void)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_model *m = NULL;
    need(xsm_dataset_get_info(words, &info, &err));
    need(xsm_model_new_embedding(ctx, info.features, 8, info.classes, NULL, &m, &err));
    xsm_status status = xsm_model_add_pairs(m, words, 0.5, &err);
    xsm_model_free(m);
    return status;
}

static xsm_status write_words(void)
{
    return xsm_word_model_write(model, out_path, &err);
}

static xsm_status read_words(void)
{
    xsm_model *m = NULL;
    xsm_status status = xsm_word_model_read(ctx, word_path, &m, &err);
    xsm_model_free(m);
    return status;
}

static xsm_status check_estimator(void)
{
    xsm_estimator_check_options options = XSM_ESTIMATOR_CHECK_OPTIONS_INIT;
    options.classes = classes / 10;
    return xsm_estimator_check(ctx, xsm_estimator_find("ove"), &options, &err);
}

static xsm_status check_sampler(void)
{
    xsm_sampler_check_options options = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    options.classes = classes / 10;
    return xsm_sampler_check(ctx, xsm_sampler_find("tree"), &options, &err);
}

static xsm_status check_index(void)
{
    xsm_index_check_options options = XSM_INDEX_CHECK_OPTIONS_INIT;
    options.rows = classes;
    return xsm_index_check(ctx, xsm_index_find("spherical"), &options, &err);
}

static xsm_status check_optimizer(void)
{
    xsm_optimizer_check_options options = XSM_OPTIMIZER_CHECK_OPTIONS_INIT;
    options.classes = 1000;
    options.features = 10000;
    return xsm_optimizer_check(ctx, xsm_optimizer_find("adagrad"), &options, &err);
}

static double uniform(void)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(state >> 40) / (double)(1 << 24);
}

static void make_data(uint64_t count, uint32_t k, xsm_dataset **out)
{
    float *x = malloc(count * features * sizeof *x);
    uint32_t *labels = malloc(count * sizeof *labels);
    xsm_labels of = XSM_LABELS_INIT;
    for (uint64_t i = 0; i < count * features; i++) {
        x[i] = (float)(2 * uniform() - 1);
    }
    for (uint64_t i = 0; i < count; i++) {
        labels[i] = (uint32_t)(uniform() * k);
    }
    of.classes = k;
    of.labels = labels;
    xsm_dense_rows of_rows = XSM_DENSE_ROWS_INIT;
    of_rows.values = x;
    of_rows.rows = count;
    of_rows.features = of_rows.stride = features;
    of_rows.labels = &of;
    need(xsm_dataset_from_dense(ctx, &of_rows, out, &err));
    free(x);
    free(labels);
}

/* Rows of 20 of 20,000 features. */
static void make_sparse(uint64_t count, uint32_t k, xsm_dataset **out)
{
    enum { EACH = 20, STEP = 1000 };
    uint64_t *offsets = malloc((count + 1) * sizeof *offsets);
    uint32_t *index = malloc(count * EACH * sizeof *index), *labels = malloc(count * sizeof *labels);
    float *values = malloc(count * EACH * sizeof *values);
    xsm_labels of = XSM_LABELS_INIT;
    xsm_csr_rows given = XSM_CSR_ROWS_INIT;
    for (uint64_t i = 0; i <= count; i++) {
        offsets[i] = i * EACH;
        for (uint32_t j = 0; i < count && j < EACH; j++) {
            index[i * EACH + j] = j * STEP + (uint32_t)(uniform() * STEP);
            values[i * EACH + j] = 1;
        }
        if (i < count) {
            labels[i] = (uint32_t)(uniform() * k);
        }
    }
    of.classes = k;
    of.labels = labels;
    given.offsets = offsets;
    given.index = index;
    given.values = values;
    given.rows = count;
    given.features = EACH * STEP;
    given.labels = &of;
    need(xsm_dataset_from_csr(ctx, &given, out, &err));
    free(offsets);
    free(index);
    free(labels);
    free(values);
}

/* Names in no order; every second one is the model's. */
static void make_names(void)
{
    own_names = malloc(classes * sizeof *own_names);
    all_names = malloc(2 * (size_t)classes * sizeof *all_names);
    for (uint32_t k = 0; k < 2 * classes; k++) {
        all_names[k] = malloc(16);
        snprintf(all_names[k], 16, "%08x", k * UINT32_C(2654435761));
        own_names[k / 2] = all_names[k];
    }
}

static void prepare(void)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    options.progress = watch;
    options.threads = gaps ? 1 : 0;
    need(xsm_context_new(&options, &ctx, &err));
    make_data(rows, classes, &data);
    make_data(2000, classes, &small);
    make_sparse(10 * rows, classes, &words);
    make_names();
    need(xsm_model_new_linear(ctx, features, classes, NULL, &model, &err));
    need(xsm_model_get_parameters(model, &p, &err));
    for (size_t i = 0; i < (size_t)classes * features; i++) {
        p.weight[i / features * p.class_step + i % features * p.feature_step] = (float)(uniform() - 0.5);
    }
    need(xsm_index_new(ctx, "spherical", &built, &err));
    need(xsm_index_build_model(built, model, &err));
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    snprintf(text_path, sizeof text_path, "%.30s/bench_cancel.csv", folder);
    snprintf(cache_path, sizeof cache_path, "%.30s/bench_cancel.cache", folder);
    snprintf(model_path, sizeof model_path, "%.30s/bench_cancel.model", folder);
    snprintf(word_path, sizeof word_path, "%.30s/bench_cancel.vec", folder);
    snprintf(out_path, sizeof out_path, "%.30s/bench_cancel.out", folder);
    need(write_text());
    need(rename(out_path, text_path) == 0 ? XSM_OK : XSM_ERROR_IO);
    need(write_cache());
    need(rename(out_path, cache_path) == 0 ? XSM_OK : XSM_ERROR_IO);
    need(xsm_model_save(model, model_path, NULL, &err));
    const xsm_class_map map = class_map(classes);
    need(xsm_model_set_class_map(model, &map, &err));
    need(xsm_word_model_write(model, word_path, &err));
}

static const struct long_call {
    const char *name;
    xsm_status (*call)(void);
} calls[] = {
    {"xsm_dataset_read, csv", read_text},
    {"xsm_dataset_read, cache", read_cache},
    {"xsm_dataset_write, csv", write_text},
    {"xsm_dataset_write, cache", write_cache},
    {"xsm_model_save", save},
    {"xsm_model_load", load},
    {"xsm_model_save, a buffer", save_to_buffer},
    {"xsm_model_load, a copy", load_copy},
    {"xsm_model_convert, int8", convert},
    {"xsm_model_prune, keep", prune},
    {"xsm_model_calibrate", calibrate},
    {"xsm_fit_label_tree", fit_label_tree},
    {"xsm_fit_label_tree, negatives", fit_label_tree_negatives},
    {"xsm_evaluate", evaluate},
    {"xsm_evaluate_ranks", evaluate_ranks},
    {"xsm_evaluate_search", evaluate_search},
    {"xsm_predictor_run", predict},
    {"xsm_index_build_model", build_index},
    {"xsm_sampler_bind, tree", bind_tree},
    {"xsm_trainer_run, softmax", train_softmax},
    {"xsm_trainer_run, softmax, large batches", train_large},
    {"xsm_trainer_run, margin", train_margin},
    {"xsm_trainer_run, implicit", train_implicit},
    {"xsm_trainer_run, mips", train_searching},
    {"xsm_estimator_gradient, softmax", gradient},
    {"xsm_estimator_gradient, margin", gradient_margin},
    {"xsm_estimator_gradient, midx", gradient_midx},
    {"xsm_estimator_gradient_input, softmax", gradient_input},
    {"xsm_estimator_gradient, implicit", gradient_joint},
    {"xsm_optimizer_apply, sgd", apply_sgd},
    {"xsm_optimizer_apply, adagrad", apply_adagrad},
    {"xsm_model_score_range", score_range},
    {"xsm_model_scores, all classes", score_chosen},
    {"xsm_sampler_draw, distinct", draw_distinct},
    {"xsm_sampler_log_probabilities, tree", log_probabilities},
    {"xsm_fit_full_batch", fit},
    {"xsm_model_grow", grow},
    {"xsm_model_set_layout", change_layout},
    {"xsm_model_add_pairs", add_pairs},
    {"xsm_word_model_write", write_words},
    {"xsm_word_model_read", read_words},
    {"xsm_estimator_check, ove", check_estimator},
    {"xsm_sampler_check, tree", check_sampler},
    {"xsm_index_check, spherical", check_index},
    {"xsm_optimizer_check, adagrad", check_optimizer},
};

/* Ends the call at some moment of it. */
static void print_latency(const struct long_call *c, int runs)
{
    double worst = 0, longest = 1;
    phases[0] = '\0';
    int cancelled = 0;
    for (int r = 0; r < runs; r++) {
        const double start = now();
        wish = start + longest * (r + uniform()) / runs;
        called = start;
        const xsm_status status = c->call();
        const double end = returned > called ? returned : now();
        if (status == XSM_CANCELLED) {
            cancelled++;
            worst = end - wish > worst ? end - wish : worst;
        } else {
            need(status);
            longest = end - called < longest ? end - called : longest;
        }
    }
    wish = -1;
    printf("| %s | %.2f s | ", c->name, longest);
    if (cancelled) {
        printf("%.0f ms", 1e3 * worst);
    } else {
        printf("-");
    }
    printf(" | %s |\n", phases);
}

static int compare_times(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of three runs. */
static void print_gap(const struct long_call *c)
{
    enum { GAP_RUNS = 3 };
    double longest[GAP_RUNS], ran = 0;
    for (size_t r = 0; r < GAP_RUNS; r++) {
        longest_gap = 0;
        called = looked = now();
        wish = called + 1;
        const xsm_status status = c->call();
        const double end = returned > called ? returned : now();
        if (status != XSM_CANCELLED) {
            need(status);
        }
        end_gap(end, "the return");
        ran = end - called;
        longest[r] = longest_gap;
    }
    wish = -1;
    qsort(longest, GAP_RUNS, sizeof *longest, compare_times);
    printf("| %s | %.2f s | %.1f ms | %s |\n", c->name, ran, 1e3 * longest[GAP_RUNS / 2], gap_phase);
}

int main(int argc, char **argv)
{
    gaps = argc > 1 && strcmp(argv[1], "gaps") == 0;
    const int runs = argc > 1 && !gaps ? atoi(argv[1]) : 10;
    classes = argc > 2 ? (uint32_t)atoi(argv[2]) : classes;
    features = argc > 3 ? (uint32_t)atoi(argv[3]) : features;
    rows = argc > 4 ? (uint64_t)atoi(argv[4]) : rows;
    prepare();
    xsm_context_info about = XSM_CONTEXT_INFO_INIT;
    (void)xsm_context_get_info(ctx, &about, NULL);
    printf("%u classes, %u features, %llu rows, %u threads, %s; %s of %d\n\n", classes, features,
           (unsigned long long)rows, about.threads, about.instruction_set, gaps ? "median" : "worst", gaps ? 3 : runs);
    if (gaps) {
        xsmi_set_pace(ctx, 0);
        printf("| call | ran for | longest without a look | before |\n|---|---|---|---|\n");
    } else {
        printf("| call | ran for at most | from the wish to the return | phases |\n|---|---|---|---|\n");
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (argc > 5 && strncmp(calls[i].name, argv[5], strlen(argv[5])) != 0) {
            continue;
        }
        if (gaps) {
            print_gap(&calls[i]);
        } else {
            print_latency(&calls[i], runs);
        }
        fflush(stdout);
    }
    unlink(text_path);
    unlink(cache_path);
    unlink(model_path);
    unlink(word_path);
    unlink(out_path);
    xsm_index_free(built);
    xsm_model_free(model);
    xsm_dataset_free(data);
    xsm_dataset_free(small);
    xsm_dataset_free(words);
    for (uint32_t k = 0; k < 2 * classes; k++) {
        free(all_names[k]);
    }
    free(all_names);
    free(own_names);
    xsm_context_free(ctx);
    return 0;
}
