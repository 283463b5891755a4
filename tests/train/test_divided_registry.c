/*
 * Every estimator of the registry on a model whose classes are divided among ranks, linear or with a first layer: the
 * saved model and the losses are those of one process, to the bit, for single rows and batches, draws for each row or
 * shared, rows with several labels and weights where the table takes them; those that search refuse. And what
 * estimators send.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "base/context.h"
#include "comm.h"
#include "model/divided.h"

#include <xsoftmax/trainer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Four class runs, the last of a few classes. */
enum { ROWS = 40, FEATURES = 5, HIDDEN = 7, CLASSES = 3 * XSMI_RUN_CLASSES + 9 };

typedef struct work {
    const xsm_estimator_ops *table;
    const xsm_dataset *rows;
    uint64_t batch;
    bool layer;         /* a first layer */
    const char *shared; /* its value; NULL = as it is */
    const char *optimizer;
    char path[256];
    double loss[TEST_RANKS];
    uint64_t sent[TEST_RANKS];
} work;

typedef struct run {
    work *of;
    const test_rank *rank;
} run;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    const run *r = user;
    if (p->epoch_ended) {
        r->of->loss[r->rank->rank] = p->loss;
    }
    return 0;
}

static xsm_status new_model(xsm_context *ctx, const work *w, xsm_model **model, xsm_error *err)
{
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    shape.bias = layer.bias = 1;
    layer.activation = XSM_ACTIVATION_TANH;
    return w->layer ? xsm_model_new_embedding(ctx, FEATURES, HIDDEN, CLASSES, &layer, model, err)
                    : xsm_model_new_linear(ctx, FEATURES, CLASSES, &shape, model, err);
}

static xsm_status new_estimator(xsm_context *ctx, const work *w, xsm_estimator **estimator, xsm_error *err)
{
    XSMI_TRY(xsm_estimator_new_from(ctx, w->table, estimator, err));
    return w->shared ? xsm_estimator_set(*estimator, "shared", w->shared, err) : XSM_OK;
}

static xsm_status train(test_rank *r)
{
    work *w = r->user;
    run of = {w, r};
    xsm_model *model = NULL;
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.batch = w->batch;
    options.eta = w->table->flags & XSM_ESTIMATOR_UNBOUNDED ? 1e-5 : 0.25;
    options.progress = on_progress;
    options.progress_user = &of;
    xsm_status status = new_model(r->context, w, &model, &r->err);
    status = status == XSM_OK ? new_estimator(r->context, w, &estimator, &r->err) : status;
    status = status == XSM_OK ? xsm_optimizer_new(r->context, w->optimizer, &optimizer, &r->err) : status;
    status = status == XSM_OK
                 ? xsm_trainer_new(r->context, model, w->rows, estimator, optimizer, &options, &trainer, &r->err)
                 : status;
    const uint64_t before = xsmi_sent_by(r->context).bytes;
    status = status == XSM_OK ? xsm_trainer_run(trainer, &r->err) : status;
    w->sent[r->rank] = xsmi_sent_by(r->context).bytes - before;
    status = status == XSM_OK ? xsm_model_save(model, w->path, NULL, &r->err) : status;
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_model_free(model);
    return status;
}

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
    xsm_dataset *data = NULL;
    xsm_error err = XSM_ERROR_INIT;
    assert_ok(xsm_dataset_from_dense(NULL, &rows, &data, &err), err);
    return data;
}

/* Trains on so many ranks; the file's bytes are the caller's to free. */
static unsigned char *run_on(work *w, uint32_t count, uint32_t threads, size_t *size)
{
    test_rank ranks[TEST_RANKS];
    remove(w->path);
    test_run_ranks(count, threads, 0, train, w, ranks);
    for (uint32_t r = 0; r < count; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
    return test_read(w->path, size);
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

static void expect_bits(work *w)
{
    size_t size, wanted;
    unsigned char *one = run_on(w, 1, 2, &wanted);
    const double loss = w->loss[0];
    for (uint32_t count = 2; count <= 4; count++) {
        if (!test_ranks_tried(count)) {
            continue;
        }
        unsigned char *many = run_on(w, count, 1 + count % 2, &size);
        assert_int_equal(size, wanted);
        if (memcmp(many, one, size) != 0) {
            fail_msg("%s with %s%s%s: another model on %u ranks, batches of %u", w->table->name, w->optimizer,
                     w->layer ? ", a first layer" : "", w->shared ? ", shared draws" : "", count, (unsigned)w->batch);
        }
        for (uint32_t r = 0; r < count; r++) {
            assert_memory_equal(&w->loss[r], &loss, sizeof loss);
        }
        free(many);
    }
    free(one);
}

static void try_batches(work *w, const uint64_t *batches, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        w->batch = batches[i];
        if (w->table->kind == XSM_ESTIMATOR_SEARCHED) {
            expect_refusal(w, "an estimator that searches an index needs all classes in one process");
        } else if (w->table->kind == XSM_ESTIMATOR_HIERARCHY) {
            expect_refusal(w, "estimator 'hierarchical' needs all classes in one process");
        } else if (w->layer && w->batch > 1 && w->table->joint) {
            expect_refusal(w, "hidden vectors"); /* as in one process */
        } else {
            expect_bits(w);
        }
    }
}

static void test_all(bool layer, const char *optimizer, const uint64_t *batches, size_t count)
{
    float x[ROWS * FEATURES];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        x[i] = (float)(2 * test_uniform(&seed) - 1);
    }
    work w = {.layer = layer, .optimizer = optimizer};
    snprintf(w.path, sizeof w.path, "%s", test_path("registry"));
    for (size_t i = 0; (w.table = xsm_estimator_at(i)); i++) {
        xsm_dataset *rows = rows_for(w.table, x);
        w.rows = rows;
        try_batches(&w, batches, count);
        w.shared = "yes";
        if (layer && w.table->kind == XSM_ESTIMATOR_SAMPLED && !w.table->joint) {
            try_batches(&w, batches, count);
        }
        w.shared = NULL;
        xsm_dataset_free(rows);
    }
}

static void test_linear(void **state)
{
    static const uint64_t batches[] = {1, 11, ROWS};
    (void)state;
    test_all(false, "sgd", batches, 3);
}

/* With batches of more rows than a product takes together. */
static void test_first_layers(void **state)
{
    static const uint64_t batches[] = {1, 11, ROWS};
    (void)state;
    test_all(true, "sgd", batches, 3);
    test_all(true, "adagrad", batches + 2, 1);
}

/* The bytes of a row that a rank sends in training: for the row, and for each class run of the rank. Besides them a
 * step sends what agreements need. */
static void test_sent(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t row, run;
    } sends[] = {{"softmax", 8, 4}, {"one-vs-all", 4, 8}, {"bouchard", 0, 4 * XSMI_RUN_CLASSES}};
    enum { BATCH = 10, STEPS = 2 * ROWS / BATCH, STEP_MOST = 48, RUN_MOST = 64 };
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, false, 8);
    work w = {.rows = p.data, .batch = BATCH, .optimizer = "sgd"};
    snprintf(w.path, sizeof w.path, "%s", test_path("registry"));
    for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
        w.table = xsm_estimator_find(sends[i].name);
        size_t size;
        free(run_on(&w, 2, 1, &size));
        const uint64_t least = 2 * ROWS * (sends[i].row + 2 * sends[i].run); /* rank 0 has two whole runs */
        assert_in_range(w.sent[0], least, least + STEPS * STEP_MOST + RUN_MOST);
    }
    /* With a first layer, for each row besides: the sum over the classes of this rank, one node. */
    w.layer = true;
    w.table = xsm_estimator_find("softmax");
    size_t size;
    free(run_on(&w, 2, 1, &size));
    const uint64_t least = 2 * ROWS * (8 + 2 * 4 + 4 * HIDDEN);
    assert_in_range(w.sent[0], least, least + STEPS * (STEP_MOST + 8) + RUN_MOST);
    test_problem_free(&p);
}

/* With a first layer and lists both ranks together send each listed class once a step, its weights, bias and scale;
 * then for each row its hidden vector, the gradient of that, its loss and a coefficient for each entry, and what has
 * room for an outcome. Few classes are listed twice. */
static void test_sent_lists(void **state)
{
    (void)state;
    enum { BATCH = 10, STEPS = 2 * ROWS / BATCH, LIST = 6, LINE = 4 * (HIDDEN + 1 + 2), PADDING = 64 };
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, false, 8);
    work w = {.rows = p.data, .batch = BATCH, .layer = true, .optimizer = "sgd"};
    snprintf(w.path, sizeof w.path, "%s", test_path("registry"));
    w.table = xsm_estimator_find("sampled-softmax");
    size_t size;
    free(run_on(&w, 2, 1, &size));
    const uint64_t weights = 2 * ROWS * LIST * LINE, results = 2 * ROWS * (8 * HIDDEN + 8 + 4 * LIST);
    assert_in_range(w.sent[0] + w.sent[1], weights * 95 / 100 + results,
                    weights + results + STEPS * 2 * (6 * PADDING + 2 * 4) + 2 * PADDING);
    test_problem_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear),
        cmocka_unit_test(test_first_layers),
        cmocka_unit_test(test_sent),
        cmocka_unit_test(test_sent_lists),
    };
    return cmocka_run_group_tests(tests, NULL, test_files_teardown);
}
