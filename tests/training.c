/* Helpers of the tests of training. */
#include "training.h"

#include "estimator/estimator.h"
#include "model/hierarchy.h"
#include "sampler/sampler.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

uint64_t test_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

double test_uniform(uint64_t *state)
{
    return (double)(test_next(state) >> 11) * 0x1p-53;
}

/* -- runners ------------------------------------------------------------------------------------------------------ */

static int32_t run_reversed(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    for (size_t i = count; i > 0; i--) {
        job(state, i - 1, 0);
    }
    return 0;
}

typedef struct crew {
    xsm_job job;
    void *state;
    size_t count;
    atomic_size_t next;
} crew;

typedef struct worker {
    crew *crew;
    uint32_t thread;
} worker;

static void *work(void *given)
{
    const worker *w = given;
    for (;;) {
        size_t i = atomic_fetch_add(&w->crew->next, 1);
        if (i >= w->crew->count) {
            return NULL;
        }
        w->crew->job(w->crew->state, i, w->thread);
    }
}

static int32_t run_pthreads(void *user, xsm_job job, void *state, size_t count)
{
    uint32_t threads = (uint32_t)(uintptr_t)user;
    crew c = {job, state, count, 0};
    pthread_t ids[16];
    worker workers[16];
    uint32_t started = 0;
    for (uint32_t t = 1; t < threads && t < 16; t++) {
        workers[t] = (worker){&c, t};
        if (pthread_create(&ids[t], NULL, work, &workers[t]) != 0) {
            break;
        }
        started = t;
    }
    workers[0] = (worker){&c, 0};
    work(&workers[0]);
    for (uint32_t t = 1; t <= started; t++) {
        pthread_join(ids[t], NULL);
    }
    return 0;
}

xsm_context *test_context(uint32_t threads, int runner, uint32_t cpu_disable)
{
    xsm_runner own = {sizeof own, (void *)(uintptr_t)threads, threads, 0,
                      runner == TEST_REVERSED ? run_reversed : run_pthreads};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    options.cpu_disable = cpu_disable;
    options.runner = runner == TEST_BUILT_IN ? NULL : &own;
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_context, ctx, xsm_context_new(&options, &ctx, &err));
    return ctx;
}

/* -- problems ----------------------------------------------------------------------------------------------------- */

test_problem test_problem_new(uint64_t rows, uint32_t features, uint32_t classes, bool sparse, uint64_t seed)
{
    test_problem p = {.rows = rows, .features = features, .classes = classes};
    p.x = calloc(rows * features, sizeof *p.x);
    p.labels = calloc(rows, sizeof *p.labels);
    assert_non_null(p.x);
    assert_non_null(p.labels);
    for (uint64_t i = 0; i < rows; i++) {
        for (uint32_t j = 0; j < features; j++) {
            bool there = !sparse || test_uniform(&seed) < 0.2 || (i % features == j && i % 11 != 3);
            double value = 2 * test_uniform(&seed) - 1;
            p.x[i * features + j] = there ? (float)value : 0.0f;
        }
        p.labels[i] = (uint32_t)(test_next(&seed) % classes);
    }
    p.data = test_relabel(&p, sparse, classes, NULL, p.labels);
    return p;
}

void test_same_file(const xsm_model *m, unsigned char **kept, size_t *size)
{
    xsm_error err = XSM_ERROR_INIT;
    size_t length;
    assert_ok(xsm_model_save(m, test_path("same.model"), NULL, &err), err);
    unsigned char *bytes = test_read(test_path("same.model"), &length);
    if (*kept) {
        assert_int_equal(length, *size);
        assert_memory_equal(bytes, *kept, length);
        free(bytes);
    } else {
        *kept = bytes;
        *size = length;
    }
}

xsm_label_tree_options test_small_trees(void)
{
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    o.arity = 4;
    o.leaf = 20;
    return o;
}

xsm_dataset *test_second_labels(const test_problem *p, bool sparse, uint32_t classes, const uint32_t *first,
                                uint32_t shift)
{
    HELD_MEMORY(uint64_t, offsets) = calloc(p->rows + 1, sizeof *offsets);
    uint64_t at = 0;
    HELD_MEMORY(uint32_t, labels) = calloc(2 * p->rows, sizeof *labels);
    for (uint64_t i = 0; i < p->rows; i++) {
        if (first[i] != XSM_CLASS_UNSEEN) {
            labels[at++] = first[i];
        }
        if (shift > 0 && i % 3 == 0) {
            labels[at++] = (p->labels[i] + shift) % p->classes;
        }
        offsets[i + 1] = at;
    }
    xsm_dataset *data = test_relabel(p, sparse, classes, offsets, labels);
    return data;
}

xsm_dataset *test_relabel(const test_problem *p, bool sparse, uint32_t classes, const uint64_t *offsets,
                          const uint32_t *labels)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *data = NULL;
    xsm_labels given = {sizeof given, classes, 0, offsets, labels, NULL};
    if (!sparse) {
        assert_ok(xsm_dataset_from_dense(NULL,
                                         STRUCT(xsm_dense_rows, .values = p->x, .rows = p->rows,
                                                .features = p->features, .labels = &given),
                                         &data, &err),
                  err);
        return data;
    }
    uint64_t total = p->rows * p->features, count = 0;
    HELD_MEMORY(uint64_t, starts) = calloc(p->rows + 1, sizeof *starts);
    HELD_MEMORY(uint32_t, index) = calloc(total, sizeof *index);
    HELD_MEMORY(float, values) = calloc(total, sizeof *values);
    assert_true(starts && index && values);
    for (uint64_t i = 0; i < p->rows; i++) {
        for (uint32_t j = 0; j < p->features; j++) {
            if (p->x[i * p->features + j] != 0) {
                index[count] = j;
                values[count++] = p->x[i * p->features + j];
            }
        }
        starts[i + 1] = count;
    }
    assert_ok(xsm_dataset_from_csr(NULL,
                                   STRUCT(xsm_csr_rows, .offsets = starts, .index = index, .values = values,
                                          .rows = p->rows, .features = p->features, .labels = &given),
                                   &data, &err),
              err);
    return data;
}

test_problem test_golden_problem(bool sparse)
{
    enum { ROWS = 400, FEATURES = 8, CLASSES = 12 };
    test_problem p = {.rows = ROWS, .features = FEATURES, .classes = CLASSES};
    p.x = calloc((size_t)ROWS * FEATURES, sizeof *p.x);
    p.labels = calloc(ROWS, sizeof *p.labels);
    assert_true(p.x && p.labels);
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < FEATURES; j++) {
            p.x[i * FEATURES + j] = (float)((i * 37 + j * 101 + i * j * 13) % 64 - 32) / 32;
        }
        double sum = (double)p.x[i * FEATURES] + (double)p.x[i * FEATURES + 1];
        p.labels[i] = (uint32_t)((int)floor(4 * (sum + 2)) + (i * 7 % 5 == 0)) % CLASSES;
    }
    p.data = test_relabel(&p, sparse, CLASSES, NULL, p.labels);
    return p;
}

test_problem test_context_problem(uint64_t rows, uint32_t contexts, uint32_t classes, double *share)
{
    test_problem p = test_problem_new(rows, contexts, classes, false, 8);
    uint64_t seed = 12;
    memset(p.x, 0, (size_t)rows * contexts * sizeof *p.x);
    memset(share, 0, (size_t)contexts * classes * sizeof *share);
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t c = (uint32_t)(test_uniform(&seed) * contexts);
        double u = test_uniform(&seed);
        p.x[i * contexts + c] = 1;
        p.labels[i] = (uint32_t)(u * u * classes + c) % classes;
        share[c * classes + p.labels[i]]++;
    }
    for (uint32_t c = 0; c < contexts; c++) {
        double all = 0;
        for (uint32_t k = 0; k < classes; k++) {
            all += share[c * classes + k];
        }
        for (uint32_t k = 0; k < classes; k++) {
            share[c * classes + k] /= all;
        }
    }
    xsm_dataset *data = test_relabel(&p, false, classes, NULL, p.labels);
    xsm_dataset_free(p.data);
    p.data = data;
    return p;
}

void test_problem_free(test_problem *p)
{
    xsm_dataset_free(p->data);
    free(p->x);
    free(p->labels);
}

/* -- models ------------------------------------------------------------------------------------------------------- */

xsm_status test_predict(xsm_predictor *predictor, const xsm_batch *batch, uint32_t *classes, float *scores,
                        double *probabilities, xsm_error *err)
{
    xsm_prediction wanted = XSM_PREDICTION_INIT;
    wanted.batch = batch;
    wanted.classes = classes;
    wanted.scores = scores;
    wanted.probabilities = probabilities;
    return xsm_predictor_run(predictor, &wanted, err);
}

xsm_model *test_model(xsm_context *ctx, const test_problem *p, bool bias, int32_t layout, double size, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_model, m,
        xsm_model_new_linear(ctx, p->features, p->classes, STRUCT(xsm_model_options, .bias = bias, .layout = layout),
                             &m, &err));
    if (size > 0) {
        xsm_parameters w = XSM_PARAMETERS_INIT;
        assert_ok(xsm_model_get_parameters(m, &w, &err), err);
        for (uint32_t k = 0; k < p->classes; k++) {
            for (uint32_t j = 0; j < p->features; j++) {
                w.weight[k * w.class_step + j * w.feature_step] = (float)(size * (2 * test_uniform(&seed) - 1));
            }
            if (bias) {
                w.bias[k] = (float)(size * (2 * test_uniform(&seed) - 1));
            }
        }
    }
    return m;
}

double test_weight(const xsm_model *m, uint32_t class, uint32_t feature)
{
    bool class_major = m->w.layout == XSM_LAYOUT_CLASS_MAJOR;
    double w = m->w.weight[class_major ? class * m->w.stride + feature : feature * m->w.stride + class];
    return w * m->w.alpha * (m->w.row_scale ? m->w.row_scale[class] : 1);
}

double test_bias(const xsm_model *m, uint32_t class)
{
    return m->w.bias ? (double)m->w.bias[class] : 0;
}

double test_score(const xsm_model *m, uint32_t class, const float *x)
{
    double z = test_bias(m, class);
    for (uint32_t j = 0; j < m->features; j++) {
        z += test_weight(m, class, j) * (double)x[j];
    }
    return z;
}

void test_all_scores(const xsm_model *m, const xsm_dataset *data, float *scores)
{
    xsm_error err = XSM_ERROR_INIT;
    const uint32_t classes = xsm_model_class_count(m), rows = (uint32_t)data->rows;
    xsm_batch batch = xsm_batch_range(data, 0, rows);
    HELD_MEMORY(uint32_t, each) = calloc(rows, sizeof *each);
    HELD_MEMORY(float, column) = calloc(rows, sizeof *column);
    assert_true(each && column);
    for (uint32_t k = 0; k < classes; k++) {
        for (uint32_t i = 0; i < rows; i++) {
            each[i] = k;
        }
        assert_ok(xsm_model_scores(m, &batch, each, 1, column, &err), err);
        for (uint32_t i = 0; i < rows; i++) {
            scores[(size_t)i * classes + k] = column[i];
        }
    }
}

void test_correct(xsm_model *m, const test_problem *p, int32_t kind)
{
    xsm_error err = XSM_ERROR_INIT;
    if (kind == XSM_CORRECTION_PAIRS) {
        assert_ok(xsm_model_add_pairs(m, p->data, 0.7, &err), err);
    } else if (kind == XSM_CORRECTION_HIERARCHY) {
        xsmi_class_tree *tree = NULL;
        HELD_MEMORY(uint64_t, weights) = calloc(p->classes, sizeof *weights);
        assert_non_null(weights);
        for (uint32_t k = 0; k < p->classes; k++) {
            weights[k] = k % 97 * (k % 5);
        }
        assert_ok(xsmi_hierarchy_huffman(m->context, weights, p->classes, &tree, &err), err);
        assert_ok(xsmi_model_set_hierarchy(m, tree, &err), err);
        xsmi_class_tree_release(tree);
    } else if (kind != XSM_CORRECTION_NONE) {
        xsmi_head *c = NULL;
        MADE(xsm_sampler, sampler,
             xsm_sampler_new(NULL, kind == XSM_CORRECTION_TREE ? "tree" : "frequency", &sampler, &err));
        assert_ok(xsm_sampler_bind(sampler, p->data, &err), err);
        assert_ok(xsmi_sampler_correction(sampler, &c, &err), err);
        xsmi_model_set_head(m, c);
        xsmi_head_release(c);
    }
}

void test_load_corrected(xsm_context *context, const char *path, int32_t kind)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_model, m) = NULL;
    if (kind != XSM_CORRECTION_NONE) {
        assert_ok(xsm_model_load(context, path, NULL, NULL, &m, &err), err);
        assert_int_equal(test_model_info(m).correction, kind);
    } else {
        assert_fails(xsm_model_load(context, path, NULL, NULL, &m, &err), XSM_ERROR_FORMAT, err);
        assert_null(m);
    }
}

uint64_t test_hash(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(m, &w, &err), err);
    uint64_t hash = 0;
    for (uint32_t k = 0; k < w.classes; k++) {
        for (uint32_t j = 0; j <= w.features; j++) {
            float value = j < w.features ? w.weight[k * w.class_step + j * w.feature_step] : w.bias ? w.bias[k] : 0;
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x100000001B3);
        }
    }
    return hash;
}

uint64_t test_hash_embedding(xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_embedding_parameters v = XSM_EMBEDDING_PARAMETERS_INIT;
    uint64_t hash = test_hash(m);
    assert_ok(xsm_model_get_embedding_parameters(m, &v, &err), err);
    for (uint32_t j = 0; j < v.features; j++) {
        for (uint32_t h = 0; h < v.hidden; h++) {
            uint32_t bits;
            memcpy(&bits, &v.vectors[j * v.feature_step + h], sizeof bits);
            hash = (hash ^ bits) * UINT64_C(0x100000001B3);
        }
    }
    return hash;
}

/* -- estimators and optimizers ------------------------------------------------------------------------------------ */

/* Sets options "key=value key=value". */
static xsm_status set_options(xsm_estimator *e, const char *options, xsm_error *err)
{
    char copy[256];
    assert_true(snprintf(copy, sizeof copy, "%s", options) < (int)sizeof copy);
    char *rest = copy;
    xsm_status status = XSM_OK;
    for (char *word = strtok_r(copy, " ", &rest); word && status == XSM_OK; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value++ = '\0';
        status = xsm_estimator_set(e, word, value, err);
    }
    return status;
}

xsm_estimator *test_estimator(xsm_context *ctx, const char *name, const char *options)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_estimator, e, xsm_estimator_new(ctx, name, &e, &err));
    assert_ok(set_options(e, options, &err), err);
    return e;
}

xsm_status test_run_steps(void *state, xsm_context *ctx, xsm_error *err)
{
    const test_steps *s = state;
    const test_problem *p = s->p;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_gradient, g) = NULL;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    options.bias = s->bias;
    options.layout = s->layout;
    xsm_status status = s->hidden > 0 ? xsm_model_new_embedding(ctx, p->features, s->hidden, p->classes, NULL, &m, err)
                                      : xsm_model_new_linear(ctx, p->features, p->classes, &options, &m, err);
    status = status == XSM_OK ? xsm_estimator_new(ctx, s->estimator, &e, err) : status;
    status = status == XSM_OK ? set_options(e, s->options, err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(ctx, s->optimizer, &o, err) : status;
    status = status == XSM_OK ? xsm_gradient_new(ctx, &g, err) : status;
    status = status == XSM_OK ? xsm_estimator_bind(e, m, p->data, err) : status;
    status = status == XSM_OK ? xsm_optimizer_bind(o, m, err) : status;
    for (uint64_t i = 0; i < s->steps && status == XSM_OK; i++) {
        const xsm_batch batch = xsm_batch_range(p->data, s->rows * i, s->rows);
        status = xsm_estimator_gradient(e, &batch, s->eta, g, err);
        status = status == XSM_OK ? xsm_optimizer_apply(o, &batch, g, s->eta, err) : status;
    }
    return status;
}

const char *test_smooth_options(const char *name)
{
    static const char *const table[][2] = {
        {"umax", "delta=100"},
        {"ove", "negatives=4"},
        {"implicit", "negatives=3 tolerance=1e-13"},
        {"decomp-mips", "blocks=1"}}; /* between blocks, messages pass over parts of scores */
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i][0], name) == 0) {
            return table[i][1];
        }
    }
    return "";
}

xsm_gradient *test_gradient(xsm_context *ctx)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_gradient, g, xsm_gradient_new(ctx, &g, &err));
    return g;
}

xsm_optimizer *test_optimizer(xsm_context *ctx, xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_optimizer, o, xsm_optimizer_new(ctx, "sgd", &o, &err));
    assert_ok(xsm_optimizer_bind(o, m, &err), err);
    return o;
}

void test_take_step(xsm_estimator *e, xsm_optimizer *o, xsm_gradient *g, const xsm_batch *batch, double eta)
{
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_estimator_gradient(e, batch, eta, g, &err), err);
    assert_ok(xsm_optimizer_apply(o, batch, g, eta, &err), err);
}

xsm_gradient_view test_view(const xsm_gradient *g)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
    assert_ok(xsm_gradient_get_view(g, &view, &err), err);
    return view;
}

double test_ask(xsm_estimator *e, const xsm_example *example, uint32_t length, const uint32_t *classes, const float *z,
                double eta, float *g)
{
    float scores[64];
    double shrinks[64], loss = NAN;
    _Alignas(64) double scratch[512];
    assert_true(length <= 64 && (!e->ops.scratch || e->ops.scratch(e->state) <= sizeof scratch));
    for (uint32_t j = 0; j < length; j++) {
        scores[j] = z[classes[j]];
        shrinks[j] = 1;
    }
    xsm_score_block block = {.size = sizeof block,
                             .examples = example,
                             .count = 1,
                             .batch = 1,
                             .width = length,
                             .lengths = &length,
                             .classes = classes,
                             .scores = scores,
                             .linear = scores,
                             .eta = eta,
                             .coefficients = g,
                             .shrinks = shrinks,
                             .losses = &loss,
                             .scratch = scratch};
    e->ops.gradient(e->state, &block);
    return loss;
}

test_rig test_rig_new(const char *name, const char *options, uint64_t rows, uint32_t features, uint32_t classes,
                      uint32_t most, bool sparse, bool bias, double size)
{
    xsm_error err = XSM_ERROR_INIT;
    test_rig r = {.p = test_problem_new(rows, features, classes, sparse, 3)};
    uint64_t seed = 9, count = 0;
    r.offsets = calloc(rows + 1, sizeof *r.offsets);
    r.labels = calloc((size_t)rows * most, sizeof *r.labels);
    assert_true(r.offsets && r.labels);
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t own = 1 + (uint32_t)(test_next(&seed) % most), first = (uint32_t)(test_next(&seed) % classes);
        for (uint32_t j = 0; j < own; j++) {
            r.labels[count++] = (first + classes - j) % classes;
        }
        r.offsets[i + 1] = count;
    }
    r.data = test_relabel(&r.p, sparse, classes, r.offsets, r.labels);
    r.m = test_model(NULL, &r.p, bias, XSM_LAYOUT_CLASS_MAJOR, size, 4);
    r.e = test_estimator(NULL, name, options);
    assert_ok(xsm_estimator_bind(r.e, r.m, r.data, &err), err);
    r.g = test_gradient(NULL);
    return r;
}

void test_rig_free(test_rig *r)
{
    xsm_gradient_free(r->g);
    xsm_estimator_free(r->e);
    xsm_model_free(r->m);
    xsm_dataset_free(r->data);
    test_problem_free(&r->p);
    free(r->offsets);
    free(r->labels);
}
