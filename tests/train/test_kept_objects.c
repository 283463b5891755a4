/*
 * Objects that others keep: whatever a keeper was made from or bound to is released at once, and the keeper goes on to
 * the same bits as one whose objects stay. The counting allocator finds what nobody releases, and refuses what is
 * released twice; with the address sanitizer nothing may be read after its release.
 */
#include "training.h"

#include <xsoftmax/search.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/index.h>
#include <xsoftmax/predict.h>
#include <xsoftmax/sampler.h>
#include <xsoftmax/trainer.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 200, FEATURES = 6, CLASSES = 30, TOP = 3 };

/* The objects of a run, in a context of their own that counts. Each is NULL once it is given up. */
typedef struct world {
    test_memory *memory;
    xsm_context *ctx;
    test_problem p; /* arrays of the test */
    xsm_dataset *data, *test;
    xsm_model *model;
} world;

static xsm_dataset *copy_rows(const world *w, uint64_t first, uint64_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_labels labels = {sizeof labels, CLASSES, 0, NULL, w->p.labels + first, NULL};
    NEW(xsm_dataset, d,
        xsm_dataset_from_dense(w->ctx,
                               STRUCT(xsm_dense_rows, .values = w->p.x + first * FEATURES, .stride = FEATURES,
                                      .rows = count, .features = FEATURES, .labels = &labels, .ownership = XSM_COPY),
                               &d, &err));
    return d;
}

static world begin(void)
{
    world w = {.p = test_problem_new(ROWS, FEATURES, CLASSES, false, 5)};
    w.ctx = test_memory_context(&w.memory, 2);
    w.data = copy_rows(&w, 0, ROWS);
    w.test = copy_rows(&w, 0, ROWS / 4);
    w.model = test_model(w.ctx, &w.p, true, XSM_LAYOUT_CLASS_MAJOR, 0.5, 8);
    return w;
}

static void release(world *w)
{
    xsm_model_free(w->model);
    xsm_dataset_free(w->data);
    xsm_dataset_free(w->test);
    w->model = NULL;
    w->data = w->test = NULL;
}

static void end(world *w)
{
    release(w);
    test_problem_free(&w->p);
    test_memory_end(w->memory, w->ctx);
}

/* A reference of the host's own outlives the first one, whatever kind it is of. */
TEST(hosts_keep_all)
{
    world w = begin();
    NEW(xsm_estimator, estimator, xsm_estimator_new(w.ctx, "softmax", &estimator, &err));
    NEW(xsm_optimizer, optimizer, xsm_optimizer_new(w.ctx, "sgd", &optimizer, &err));
    NEW(xsm_sampler, sampler, xsm_sampler_new(w.ctx, "uniform", &sampler, &err));
    assert_ok(xsm_sampler_bind(sampler, w.data, &err), err);
    NEW(xsm_index, index, xsm_index_new(w.ctx, "exact", &index, &err));
    assert_ok(xsm_index_build_model(index, w.model, &err), err);
    xsm_context *context = xsm_context_ref(w.ctx);
    xsm_dataset *data = xsm_dataset_ref(w.data);
    xsm_model *model = xsm_model_ref(w.model);
    xsm_sampler *kept = xsm_sampler_ref(sampler);
    xsm_index *searched = xsm_index_ref(index);
    xsm_estimator *estimates = xsm_estimator_ref(estimator);
    xsm_optimizer *applied = xsm_optimizer_ref(optimizer);
    release(&w);
    xsm_estimator_free(estimator);
    xsm_optimizer_free(optimizer);
    xsm_sampler_free(sampler);
    xsm_index_free(index);
    assert_true(context == w.ctx && kept == sampler && searched == index && estimates == estimator &&
                applied == optimizer);
    xsm_dataset_info rows = XSM_DATASET_INFO_INIT;
    xsm_sampler_info drawn = XSM_SAMPLER_INFO_INIT;
    xsm_index_info built = XSM_INDEX_INFO_INIT;
    xsm_estimator_info method = XSM_ESTIMATOR_INFO_INIT;
    xsm_optimizer_info rule = XSM_OPTIMIZER_INFO_INIT;
    assert_ok(xsm_estimator_get_info(estimates, &method, &err), err);
    assert_string_equal(method.name, "softmax");
    assert_ok(xsm_optimizer_get_info(applied, &rule, &err), err);
    assert_string_equal(rule.name, "sgd");
    assert_ok(xsm_dataset_get_info(data, &rows, &err), err);
    assert_int_equal(rows.rows, ROWS);
    assert_int_equal(xsm_model_class_count(model), CLASSES);
    assert_ok(xsm_sampler_get_info(kept, &drawn, &err), err);
    assert_ok(xsm_index_get_info(searched, &built, &err), err);
    xsm_dataset_free(data);
    xsm_model_free(model);
    xsm_sampler_free(kept);
    xsm_index_free(searched);
    xsm_estimator_free(estimates);
    xsm_optimizer_free(applied);
    xsm_context_free(context);
    end(&w);
    assert_null(xsm_context_ref(NULL));
    assert_null(xsm_dataset_ref(NULL));
    assert_null(xsm_model_ref(NULL));
    assert_null(xsm_sampler_ref(NULL));
    assert_null(xsm_index_ref(NULL));
    assert_null(xsm_estimator_ref(NULL));
    assert_null(xsm_optimizer_ref(NULL));
}

/* -- trainers ------------------------------------------------------------------------------------------------------ */

typedef struct watched {
    double loss;
    float precision;
    int calls;
} watched;

static int32_t watch(void *user, const xsm_progress *p)
{
    watched *seen = user;
    if (p->test) {
        seen->loss = p->loss;
        seen->precision = (float)p->test->log_loss;
        seen->calls++;
    }
    return 0;
}

static watched train(const char *name, const char *options, uint64_t batch, const char *optimizer, bool early)
{
    xsm_error err = XSM_ERROR_INIT;
    world w = begin();
    watched seen = {0, 0, 0};
    xsm_estimator *e = test_estimator(w.ctx, name, options);
    NEW(xsm_optimizer, o, xsm_optimizer_new(w.ctx, optimizer, &o, &err));
    NEW(xsm_trainer, t,
        xsm_trainer_new(w.ctx, w.model, w.data, e, o,
                        STRUCT(xsm_trainer_options, .epochs = 2, .eta = 0.1, .batch = batch, .evaluate_every = 1,
                               .test = w.test, .progress = watch, .progress_user = &seen),
                        &t, &err));
    if (early) {
        release(&w);
        xsm_estimator_free(e);
        xsm_optimizer_free(o);
    }
    assert_ok(xsm_trainer_run(t, &err), err);
    xsm_trainer_free(t);
    if (!early) {
        xsm_optimizer_free(o);
        xsm_estimator_free(e);
    }
    end(&w);
    assert_int_equal(seen.calls, 2);
    return seen;
}

TEST(trainers_keep_all)
{
    static const struct {
        const char *name, *options, *optimizer;
        uint64_t batch;
    } runs[] = {{"softmax", "", "sgd", 8},
                {"implicit", "negatives=3", "sgd", 1},
                {"sampled-softmax", "negatives=3", "adagrad", 8},
                {"negative-sampling", "sampler=tree", "sgd", 8},
                {"hierarchical", "", "sgd", 8},
                {"mips", "", "sgd", 8}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        watched late = train(runs[i].name, runs[i].options, runs[i].batch, runs[i].optimizer, false);
        watched early = train(runs[i].name, runs[i].options, runs[i].batch, runs[i].optimizer, true);
        assert_memory_equal(&late.loss, &early.loss, sizeof late.loss);
        assert_memory_equal(&late.precision, &early.precision, sizeof late.precision);
    }
}

/* -- a host's loop ------------------------------------------------------------------------------------------------- */

/* Steps on a stream, whose estimator and optimizer are the only ones to keep the model. */
static uint64_t step_alone(bool early)
{
    xsm_error err = XSM_ERROR_INIT;
    world w = begin();
    xsm_estimator *e = test_estimator(w.ctx, "sampled-softmax", "negatives=3");
    xsm_optimizer *o = test_optimizer(w.ctx, w.model);
    xsm_gradient *g = test_gradient(w.ctx);
    NEW(xsm_sampler, s, xsm_sampler_new(w.ctx, "tree", &s, &err));
    assert_ok(xsm_sampler_bind(s, w.data, &err), err);
    assert_ok(xsm_estimator_set_sampler(e, s, &err), err);
    const xsm_model *model = w.model;
    xsm_batch batch = xsm_batch_values(w.p.x, 16, FEATURES, FEATURES);
    batch.labels = w.p.labels;
    assert_ok(xsm_estimator_bind_stream(e, w.model, NULL, &err), err);
    if (early) {
        xsm_sampler_free(s);
        release(&w);
    }
    for (int i = 0; i < 3; i++) {
        test_take_step(e, o, g, &batch, 0.1);
    }
    assert_string_equal(test_sampler_info(test_estimator_info(e).sampler).name, "tree");
    uint64_t hash = 0;
    for (uint32_t k = 0; k < CLASSES; k++) {
        double weight = test_weight(model, k, 1);
        uint64_t bits;
        memcpy(&bits, &weight, sizeof bits);
        hash = hash * 31 + bits;
    }
    if (!early) {
        xsm_sampler_free(s);
    }
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    xsm_optimizer_free(o);
    end(&w);
    return hash;
}

TEST(bindings_keep_model_and_sampler)
{
    assert_true(step_alone(true) == step_alone(false));
}

/* What a binding keeps is given up by the next one, by a failed one and by another sampler. */
TEST(bindings_give_up)
{
    world w = begin();
    xsm_dataset *few = copy_rows(&w, 0, 10), *other = copy_rows(&w, 10, 20);
    xsm_estimator *e = test_estimator(w.ctx, "nce", "ridge=1");
    xsm_sampler *samplers[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        assert_ok(xsm_sampler_new(w.ctx, "frequency", &samplers[i], &err), err);
        assert_ok(xsm_estimator_set_sampler(e, samplers[i], &err), err);
    }
    const size_t before = test_memory_blocks(w.memory);
    xsm_sampler_free(samplers[0]); /* the second one has taken its place */
    assert_true(test_memory_blocks(w.memory) < before);
    assert_ok(xsm_estimator_set_sampler(e, samplers[1], &err), err); /* itself again */
    xsm_sampler_free(samplers[1]);
    assert_ok(xsm_estimator_bind(e, w.model, few, &err), err);
    size_t held = test_memory_blocks(w.memory);
    xsm_dataset_free(few);
    assert_true(test_memory_blocks(w.memory) == held); /* kept */
    assert_ok(xsm_estimator_bind(e, w.model, other, &err), err);
    assert_true(test_memory_blocks(w.memory) < held); /* given up */
    held = test_memory_blocks(w.memory);
    xsm_dataset_free(other);
    assert_true(test_memory_blocks(w.memory) == held);
    /* Refused after the earlier binding has ended: nothing is kept of either. */
    assert_ok(xsm_model_set_geometry(w.model, XSM_GEOMETRY_EUCLIDEAN, &err), err);
    assert_int_equal(xsm_estimator_bind(e, w.model, w.data, &err), XSM_ERROR_UNSUPPORTED);
    assert_true(test_memory_blocks(w.memory) < held);
    release(&w);
    xsm_estimator_free(e);
    end(&w);
}

/* -- prediction ---------------------------------------------------------------------------------------------------- */

static void predict(const world *w, xsm_predictor *p, uint32_t *classes)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_values(w->p.x, ROWS, FEATURES, FEATURES);
    assert_ok(xsm_predictor_run(p, STRUCT(xsm_prediction, .batch = &batch, .classes = classes), &err), err);
}

TEST(predictors_keep_model_and_index)
{
    static uint32_t late[ROWS * TOP], early[ROWS * TOP];
    for (int indexed = 0; indexed < 2; indexed++) {
        world w = begin();
        NEW(xsm_index, index, xsm_index_new(w.ctx, "spherical", &index, &err));
        assert_ok(xsm_index_build_model(index, w.model, &err), err);
        NEW(xsm_predictor, p,
            xsm_predictor_new(w.model, STRUCT(xsm_predictor_options, .top = TOP, .index = indexed ? index : NULL), &p,
                              &err));
        predict(&w, p, late);
        xsm_index_free(index);
        release(&w);
        memset(early, 0xff, sizeof early);
        predict(&w, p, early);
        assert_memory_equal(late, early, sizeof late);
        xsm_predictor_free(p);
        end(&w);
    }
}

/* An index alone keeps its model, whose rows an update reads again; built over the host's rows, it gives it up. */
TEST(indexes_keep_models)
{
    world w = begin();
    NEW(xsm_index, index, xsm_index_new(w.ctx, "exact", &index, &err));
    assert_ok(xsm_index_build_model(index, w.model, &err), err);
    const size_t before = test_memory_blocks(w.memory);
    xsm_model_free(w.model);
    w.model = NULL;
    assert_true(test_memory_blocks(w.memory) == before);
    const uint32_t changed[2] = {0, 7};
    assert_ok(xsm_index_update(index, changed, 2, &err), err);
    xsm_index_rows rows = XSM_INDEX_ROWS_INIT;
    rows.rows = w.p.x;
    rows.count = ROWS;
    rows.width = rows.stride = FEATURES;
    assert_ok(xsm_index_build(index, &rows, &err), err);
    assert_true(test_memory_blocks(w.memory) < before);
    xsm_index_free(index);
    end(&w);
}

/* -- growth and threads -------------------------------------------------------------------------------------------- */

/* A model that grows exchanges its members with a new one's, and keeps its references. */
TEST(grown_models_stay_kept)
{
    world w = begin();
    xsm_estimator *e = test_estimator(w.ctx, "softmax", "");
    assert_ok(xsm_estimator_bind(e, w.model, w.data, &err), err);
    assert_ok(xsm_model_grow(w.model, FEATURES, STRUCT(xsm_class_map, .classes = CLASSES + 5), &err), err);
    const size_t before = test_memory_blocks(w.memory);
    xsm_model_free(w.model);
    xsm_dataset_free(w.data);
    assert_true(test_memory_blocks(w.memory) == before);
    w.model = NULL;
    w.data = NULL;
    xsm_estimator_free(e);
    end(&w);
}

typedef struct user {
    const xsm_model *model;
    const xsm_dataset *data;
    xsm_context *ctx;
} user;

static void *keep_and_give_up(void *argument)
{
    const user *u = argument;
    xsm_error err = XSM_ERROR_INIT;
    for (int i = 0; i < 200; i++) {
        HELD(xsm_predictor, p) = NULL;
        HELD(xsm_estimator, e) = NULL;
        if (xsm_predictor_new(u->model, NULL, &p, &err) != XSM_OK ||
            xsm_estimator_new(u->ctx, "softmax", &e, &err) != XSM_OK ||
            xsm_estimator_bind(e, u->model, u->data, &err) != XSM_OK) {
            return argument;
        }
    }
    return NULL;
}

TEST(threads_share)
{
    world w = begin();
    pthread_t threads[4];
    user u = {w.model, w.data, w.ctx};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_and_give_up, &u), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&w.model->holders.number), 1);
    assert_int_equal(atomic_load(&w.data->holders.number), 1);
    end(&w);
}

/* -- arrays that are lent ------------------------------------------------------------------------------------------ */

/* Arrays of the test's, which are released when the library says so. */
typedef struct lent {
    float *x;
    uint32_t *labels;
    int released;
    pthread_t by;
} lent;

static void take_back(void *lender)
{
    lent *l = lender;
    free(l->x);
    free(l->labels);
    l->x = NULL;
    l->labels = NULL;
    l->released++;
    l->by = pthread_self();
}

/* Dense rows over arrays that are lent. */
static xsm_status lend(const world *w, lent *l, xsm_dense_rows *rows, xsm_dataset **out, xsm_error *err)
{
    xsm_labels labels = XSM_LABELS_INIT;
    *l = (lent){.x = malloc(sizeof(float) * ROWS * FEATURES), .labels = malloc(sizeof(uint32_t) * ROWS)};
    assert_non_null(l->x);
    assert_non_null(l->labels);
    memcpy(l->x, w->p.x, sizeof(float) * ROWS * FEATURES);
    memcpy(l->labels, w->p.labels, sizeof(uint32_t) * ROWS);
    labels.classes = CLASSES;
    labels.labels = l->labels;
    rows->values = l->x;
    rows->rows = ROWS;
    rows->features = FEATURES;
    rows->labels = &labels;
    rows->release = take_back;
    rows->release_user = l;
    return xsm_dataset_from_dense(w->ctx, rows, out, err);
}

static xsm_dataset *lend_rows(const world *w, lent *l)
{
    xsm_error err = XSM_ERROR_INIT;
    NEW(xsm_dataset, d, lend(w, l, STRUCT(xsm_dense_rows, .ownership = XSM_BORROW), &d, &err));
    assert_int_equal(l->released, 0);
    return d;
}

TEST(lent_to_nobody_else)
{
    world w = begin();
    lent l;
    xsm_dataset *d = lend_rows(&w, &l);
    xsm_dataset_free(d);
    assert_int_equal(l.released, 1);
    /* A constructor that fails leaves the arrays to the caller; a copy borrows none. */
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.ownership = XSM_BORROW;
    rows.dtype = XSM_DTYPE_FLOAT64;
    d = NULL;
    assert_fails(lend(&w, &l, &rows, &d, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_int_equal(l.released, 0);
    take_back(&l);
    rows.dtype = XSM_DTYPE_FLOAT32;
    rows.ownership = XSM_COPY;
    assert_fails(lend(&w, &l, &rows, &d, &err), XSM_ERROR_ARGUMENT, err);
    assert_int_equal(l.released, 0);
    assert_null(d);
    take_back(&l);
    end(&w);
}

TEST(lent_as_csr)
{
    static const uint64_t offsets[] = {0, 1, 3};
    static const uint32_t index[] = {2, 0, 4};
    static const float values[] = {1, 2, 3};
    world w = begin();
    lent l = {.released = 0};
    xsm_csr_rows rows = XSM_CSR_ROWS_INIT;
    xsm_transform *unit = NULL;
    rows.offsets = offsets;
    rows.index = index;
    rows.values = values;
    rows.rows = 2;
    rows.features = 5;
    rows.ownership = XSM_BORROW;
    rows.release = take_back;
    rows.release_user = &l;
    NEW(xsm_dataset, d, xsm_dataset_from_csr(w.ctx, &rows, &d, &err));
    assert_ok(xsm_transform_new(w.ctx, "unit", &unit, &err), err);
    assert_ok(xsm_transform_fit(unit, d, &err), err);
    assert_ok(xsm_transform_apply(unit, d, &err), err);
    assert_int_equal(l.released, 0); /* offsets and index are still needed */
    xsm_transform_free(unit);
    xsm_dataset_free(d);
    assert_int_equal(l.released, 1);
    end(&w);
}

/* What changes all of the arrays copies them, and needs them no longer. */
TEST(lent_until_copied)
{
    world w = begin();
    lent l;
    xsm_transform *unit = NULL;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_dataset *d = lend_rows(&w, &l);
    assert_ok(xsm_transform_new(w.ctx, "unit", &unit, &err), err);
    assert_ok(xsm_transform_fit(unit, d, &err), err);
    assert_ok(xsm_transform_apply(unit, d, &err), err);
    assert_int_equal(l.released, 0); /* the labels are still needed */
    assert_ok(xsm_dataset_shuffle(d, 3, &err), err);
    assert_int_equal(l.released, 1);
    assert_ok(xsm_dataset_get_info(d, &info, &err), err);
    assert_int_equal(info.rows, ROWS);
    xsm_transform_free(unit);
    xsm_dataset_free(d);
    assert_int_equal(l.released, 1);
    end(&w);
}

static uint64_t train_lent(world *w, xsm_dataset *rows, lent *l)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_estimator *e = test_estimator(w->ctx, "implicit", "");
    xsm_optimizer *o = test_optimizer(w->ctx, w->model);
    xsm_model *m = w->model;
    NEW(xsm_trainer, t,
        xsm_trainer_new(w->ctx, m, rows, e, o, STRUCT(xsm_trainer_options, .epochs = 2, .eta = 0.1), &t, &err));
    if (l) { /* the host's handle goes first, and the estimator's binding last */
        xsm_dataset_free(rows);
        assert_int_equal(l->released, 0);
    }
    assert_ok(xsm_trainer_run(t, &err), err);
    const uint64_t hash = test_hash(m);
    xsm_trainer_free(t);
    if (l) {
        assert_int_equal(l->released, 0);
    }
    xsm_optimizer_free(o);
    xsm_estimator_free(e);
    if (l) {
        assert_int_equal(l->released, 1);
    }
    return hash;
}

TEST(lent_to_a_trainer)
{
    world kept = begin(), w = begin();
    lent l;
    const uint64_t hash = train_lent(&kept, kept.data, NULL);
    assert_true(train_lent(&w, lend_rows(&w, &l), &l) == hash);
    end(&kept);
    end(&w);
}

static void *free_rows(void *rows)
{
    xsm_dataset_free(rows);
    return NULL;
}

TEST(lent_to_another_thread)
{
    world w = begin();
    lent l;
    pthread_t thread;
    xsm_dataset *d = lend_rows(&w, &l);
    assert_int_equal(pthread_create(&thread, NULL, free_rows, d), 0);
    pthread_join(thread, NULL);
    assert_int_equal(l.released, 1);
    assert_false(pthread_equal(l.by, pthread_self()));
    end(&w);
}
