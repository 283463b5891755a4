/*
 * dL/dphi for hosts, of models whose classes are divided among ranks: for every estimator that takes divided models the
 * gradient of the rows and the trained model are those of one process, to the bit, with rows of a dataset, with rows
 * that come with their batches, and with streams; and with so many classes that a shard of the ranks' has many class
 * runs.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "gradient/gradient.h"
#include "model/divided.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 45, PHI = 6, STRIDE = 9, STEPS = 3, CLASSES = 3 * XSMI_RUN_CLASSES + 9 };
/* Ranks of three have no node of half or a quarter of the class runs. */
enum { MANY = 150 * XSMI_RUN_CLASSES + 77 };

enum { OF_DATASET, WITH_BATCHES, STREAMED };

typedef struct work {
    const xsm_estimator_ops *table;
    const char *shared; /* option of the estimator; NULL = none */
    const xsm_dataset *rows, *labels;
    const float *x;
    uint32_t classes, batch;
    int bound;
    char start[256], path[256]; /* the models before and after */
    struct {
        float input[STEPS][ROWS * STRIDE];
        double loss[STEPS];
    } made[TEST_RANKS];
} work;

static xsm_status bind(const work *w, xsm_estimator *e, const xsm_model *m, xsm_error *err)
{
    xsm_stream_options stream = XSM_STREAM_OPTIONS_INIT;
    stream.examples = 1000;
    stream.ids = ROWS;
    return w->bound == OF_DATASET     ? xsm_estimator_bind(e, m, w->rows, err)
           : w->bound == WITH_BATCHES ? xsm_estimator_bind_labels(e, m, w->labels, err)
                                      : xsm_estimator_bind_stream(e, m, &stream, err);
}

static xsm_status take_steps(const test_rank *r, work *w, xsm_estimator *e, xsm_optimizer *o, xsm_gradient *g,
                             xsm_error *err)
{
    uint32_t labels[ROWS];
    uint64_t ids[ROWS];
    const double eta = w->table->flags & XSM_ESTIMATOR_UNBOUNDED ? 1e-5 : 0.25;
    memset(&w->made[r->rank], 0, sizeof w->made[r->rank]);
    for (uint32_t s = 0; s < STEPS; s++) {
        const uint32_t first = s * w->batch % (ROWS - w->batch + 1);
        const float *x = w->x + (size_t)first * PHI;
        xsm_batch batch = xsm_batch_range(w->bound == WITH_BATCHES ? w->labels : w->rows, first, w->batch);
        if (w->bound == STREAMED) {
            batch = xsm_batch_values(x, w->batch, PHI, PHI);
        } else if (w->bound == WITH_BATCHES) {
            batch.values = x;
            batch.features = batch.stride = PHI;
        }
        for (uint32_t i = 0; i < w->batch && w->bound == STREAMED; i++) {
            size_t count;
            labels[i] = *xsmi_dataset_labels(w->rows, first + i, &count);
            ids[i] = first + i;
        }
        batch.labels = w->bound == STREAMED ? labels : NULL;
        batch.ids = w->bound == STREAMED ? ids : NULL;
        XSMI_TRY(xsm_estimator_gradient_input(e, &batch, eta, g, w->made[r->rank].input[s], STRIDE, err));
        w->made[r->rank].loss[s] = g->loss;
        XSMI_TRY(xsm_optimizer_apply(o, &batch, g, eta, err));
    }
    return XSM_OK;
}

static xsm_status run(test_rank *r)
{
    work *w = r->user;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_optimizer, o) = NULL;
    HELD(xsm_gradient, g) = NULL;
    xsm_status status = xsm_model_load(r->context, w->start, NULL, NULL, &m, &r->err);
    status = status == XSM_OK ? xsm_estimator_new_from(r->context, w->table, &e, &r->err) : status;
    status = status == XSM_OK && w->shared ? xsm_estimator_set(e, "shared", w->shared, &r->err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(r->context, "sgd", &o, &r->err) : status;
    status = status == XSM_OK ? xsm_gradient_new(r->context, &g, &r->err) : status;
    status = status == XSM_OK ? bind(w, e, m, &r->err) : status;
    status = status == XSM_OK ? xsm_optimizer_bind(o, m, &r->err) : status;
    status = status == XSM_OK ? take_steps(r, w, e, o, g, &r->err) : status;
    xsm_model_clear_correction(m); /* of streams, which no file holds */
    status = status == XSM_OK ? xsm_model_save(m, w->path, NULL, &r->err) : status;
    return status;
}

static void expect_bits(work *w, uint32_t most)
{
    char what[100];
    snprintf(what, sizeof what, "%s, batches of %u", w->table->name, w->batch);
    const test_made made = {w->path, w->made, sizeof *w->made};
    test_same_on_ranks(run, w, &made, most, what);
    float largest = 0;
    for (size_t i = 0; i < STEPS * ROWS * STRIDE; i++) {
        const float value = w->made[0].input[i / (ROWS * STRIDE)][i % (ROWS * STRIDE)];
        largest = value > largest ? value : largest;
    }
    assert_true(largest > 0);
}

/* Rows whose classes are spread over the parts of all ranks. */
static void work_new(work *w, uint32_t classes, test_problem *p)
{
    *p = test_problem_new(ROWS, PHI, classes, false, 4);
    memset(w, 0, sizeof *w);
    w->rows = p->data;
    w->x = p->x;
    w->classes = classes;
    snprintf(w->path, sizeof w->path, "%s", test_path("input"));
    xsm_labels labels = XSM_LABELS_INIT;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    xsm_error err = XSM_ERROR_INIT;
    labels.classes = classes;
    labels.labels = p->labels;
    rows.rows = ROWS;
    rows.labels = &labels;
    NEW(xsm_dataset, data, xsm_dataset_from_dense(NULL, &rows, &data, &err));
    w->labels = data;
    snprintf(w->start, sizeof w->start, "%s", test_path("start"));
    HELD(xsm_model, m) = test_model(NULL, p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 7);
    assert_ok(xsm_model_save(m, w->start, NULL, &err), err);
}

static void try_registry(int bound)
{
    static work w;
    test_problem p;
    work_new(&w, CLASSES, &p);
    w.bound = bound;
    for (size_t i = 0; (w.table = xsm_estimator_at(i)); i++) {
        const bool refused =
            w.table->kind == XSM_ESTIMATOR_SEARCHED || w.table->kind == XSM_ESTIMATOR_HIERARCHY; /* divided_training */
        for (w.batch = 1; w.batch <= ROWS && !refused; w.batch += ROWS - 1) {
            if (w.batch == 1 || !w.table->joint) {
                expect_bits(&w, 4);
            }
            if (w.batch > 1 && !w.table->joint && w.table->kind == XSM_ESTIMATOR_SAMPLED) {
                w.shared = "yes";
                expect_bits(&w, 4);
                w.shared = NULL;
            }
        }
    }
    xsm_dataset_free((xsm_dataset *)(uintptr_t)w.labels);
    test_problem_free(&p);
}

TEST(test_of_dataset)
{
    try_registry(OF_DATASET);
}

TEST(test_with_batches)
{
    try_registry(WITH_BATCHES);
}

TEST(test_streamed)
{
    try_registry(STREAMED);
}

TEST(test_many_classes)
{
    static work w;
    test_problem p;
    work_new(&w, MANY, &p);
    w.batch = 4;
    static const struct {
        const char *name;
        uint32_t ranks;
    } tried[] = {{"softmax", 8}, {"margin", 3}, {"bouchard", 3}, {"sampled-softmax", 8}};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        w.table = xsm_estimator_find(tried[i].name);
        expect_bits(&w, tried[i].ranks);
    }
    xsm_dataset_free((xsm_dataset *)(uintptr_t)w.labels);
    test_problem_free(&p);
}

/* -- what is refused ----------------------------------------------------------------------------------------------- */

/* The gradient of rows of listed classes needs whole rows of weights. */
static xsm_status refuse(test_rank *r)
{
    work *w = r->user;
    HELD(xsm_model, m) = NULL;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_gradient, g) = NULL;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.layout = XSM_LAYOUT_FEATURE_MAJOR;
    xsm_status status = xsm_model_new_linear(r->context, PHI, w->classes, &shape, &m, &r->err);
    status = status == XSM_OK ? xsm_estimator_new(r->context, "nce", &e, &r->err) : status;
    status = status == XSM_OK ? xsm_gradient_new(r->context, &g, &r->err) : status;
    status = status == XSM_OK ? xsm_estimator_bind(e, m, w->rows, &r->err) : status;
    float *input = w->made[r->rank].input[0];
    const xsm_batch batch = xsm_batch_range(w->rows, 0, 1);
    if (status == XSM_OK) {
        input[0] = 77;
        status = xsm_estimator_gradient_input(e, &batch, 1, g, input, PHI, &r->err);
        status = status == XSM_ERROR_UNSUPPORTED && strstr(r->err.message, "class-major") && input[0] == 77
                     ? XSM_OK
                     : XSM_ERROR_INTERNAL;
    }
    return status;
}

TEST(test_refused)
{
    static work w;
    test_problem p;
    test_rank ranks[TEST_RANKS];
    work_new(&w, CLASSES, &p);
    test_run_ranks(2, 1, 0, refuse, &w, ranks);
    assert_ok(ranks[0].status, ranks[0].err);
    assert_ok(ranks[1].status, ranks[1].err);
    xsm_dataset_free((xsm_dataset *)(uintptr_t)w.labels);
    test_problem_free(&p);
}
