/*
 * Checkpoints of divided models: the bytes are those of one process's, also in storages, and a run goes on from them on
 * any number of ranks to the same bits. What fails on a rank fails on all, and changes nothing.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "model/divided.h"
#include "train/trainer.h"

#include <xsoftmax/buffer.h>
#include <xsoftmax/trainer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five class runs, the last of a few classes. */
enum { ROWS = 40, FEATURES = 5, CLASSES = 4 * XSMI_RUN_CLASSES + 3 };

typedef struct settings {
    const char *estimator, *options, *optimizer;
    uint64_t batch;
    bool bias, sparse;
    uint32_t hidden; /* of a first layer; 0: none */
} settings;

static const settings plans[] = {
    {"implicit", "negatives=4 ridge=400", "sgd", 1, true, false, 0}, /* scales of rows, multiplied out on the way */
    {"umax", "negatives=3", "sgd", 1, false, true, 0},               /* a number of the estimator's for each row */
    {"umax", "negatives=3 weight-bound=0.3 ridge=1", "sgd", 1, true, false, 0}, /* lengths of rows */
    {"ove", "negatives=6", "adagrad", 8, true, false, 0},
    {"sampled-softmax", "negatives=9", "adagrad", 3, false, true, 0},
    {"sampled-softmax", "negatives=9", "adagrad", 3, true, true, 6},
    {"softmax", "ridge=3", "sgd", 8, true, false, 6},
};

/* Where a checkpoint is. */
enum { PATH, BUFFER, FORWARD_BUFFER, PLACES };

typedef struct work {
    const settings *plan;
    const xsm_dataset *rows;
    uint64_t stop_at; /* steps of the first part of the run */
    int place;
    uint32_t missing; /* 1 + the rank whose checkpoint is elsewhere, or damaged; 0 = none */
    char first[256], checkpoint[256], model[256], elsewhere[256];
    void *bytes; /* of the checkpoint */
    size_t count;
} work;

typedef struct training {
    const work *of;
    uint64_t stop_at;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
} training;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    const training *t = user;
    return p->step == t->stop_at;
}

static xsm_status prepare(training *t, xsm_context *ctx, xsm_error *err)
{
    const settings *plan = t->of->plan;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = plan->bias;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    layer.bias = plan->bias;
    XSMI_TRY(plan->hidden > 0 ? xsm_model_new_embedding(ctx, FEATURES, plan->hidden, CLASSES, &layer, &t->model, err)
                              : xsm_model_new_linear(ctx, FEATURES, CLASSES, &shape, &t->model, err));
    XSMI_TRY(xsm_estimator_new(ctx, plan->estimator, &t->estimator, err));
    char text[128];
    snprintf(text, sizeof text, "%s", plan->options);
    for (char *name = text, *next; name; name = next) {
        next = strchr(name, ' ');
        if (next) {
            *next++ = '\0';
        }
        char *value = strchr(name, '=');
        *value++ = '\0';
        XSMI_TRY(xsm_estimator_set(t->estimator, name, value, err));
    }
    XSMI_TRY(xsm_optimizer_new(ctx, plan->optimizer, &t->optimizer, err));
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.batch = plan->batch;
    options.eta = 0.3;
    options.progress = on_progress;
    options.progress_user = t;
    XSMI_TRY(xsm_trainer_new(ctx, t->model, t->of->rows, t->estimator, t->optimizer, &options, &t->trainer, err));
    t->trainer->report.interval = 0; /* a call after every step */
    return XSM_OK;
}

static void end(training *t)
{
    xsm_trainer_free(t->trainer);
    xsm_optimizer_free(t->optimizer);
    xsm_estimator_free(t->estimator);
    xsm_model_free(t->model);
}

static xsm_status checkpoint_to_buffer(training *t, const test_rank *r, xsm_error *err)
{
    work *w = r->user;
    xsm_buffer *buffer = NULL;
    xsm_storage storage = XSM_STORAGE_INIT;
    XSMI_TRY(xsm_buffer_new(NULL, &buffer, err));
    xsm_status status = xsm_buffer_get_storage(buffer, &storage, err);
    storage.seek = w->place == BUFFER ? storage.seek : NULL;
    status = status == XSM_OK ? xsm_trainer_checkpoint(t->trainer, NULL, &storage, err) : status;
    size_t count = 0;
    const void *bytes = xsm_buffer_bytes(buffer, &count);
    if (status == XSM_OK && r->rank == 0) { /* the others' buffers stay empty */
        w->count = count;
        w->bytes = malloc(w->count);
        memcpy(w->bytes, bytes, w->count);
    } else if (status == XSM_OK && bytes) {
        status = XSM_ERROR_INTERNAL;
    }
    xsm_buffer_free(buffer);
    return status;
}

/* The first part of a run, and its checkpoint. */
static xsm_status begin(test_rank *r)
{
    work *w = r->user;
    training t = {.of = w, .stop_at = w->stop_at};
    xsm_status status = prepare(&t, r->context, &r->err);
    status = status == XSM_OK ? xsm_trainer_run(t.trainer, &r->err) : status;
    if (status == XSM_CANCELLED) {
        t.trainer->done.seconds = 0; /* the one number that differs from run to run */
        status = w->place == PATH ? xsm_trainer_checkpoint(t.trainer, w->checkpoint, NULL, &r->err)
                                  : checkpoint_to_buffer(&t, r, &r->err);
        status = status == XSM_OK ? xsm_model_save(t.model, w->first, NULL, &r->err) : status;
    }
    end(&t);
    return status;
}

static xsm_status resume(training *t, const test_rank *r, xsm_error *err)
{
    const work *w = r->user;
    if (w->place == PATH) {
        return xsm_trainer_resume(t->trainer, r->rank + 1 == w->missing ? w->elsewhere : w->checkpoint, NULL, err);
    }
    xsm_storage storage = XSM_STORAGE_INIT;
    unsigned char *bytes = malloc(w->count);
    memcpy(bytes, w->bytes, w->count);
    bytes[w->count - 2] ^= r->rank + 1 == w->missing;
    storage.bytes = bytes;
    storage.byte_count = w->count;
    const xsm_status status = xsm_trainer_resume(t->trainer, NULL, &storage, err);
    free(bytes);
    return status;
}

/* The rest of the run. */
static xsm_status finish(test_rank *r)
{
    work *w = r->user;
    training t = {.of = w};
    xsm_status status = prepare(&t, r->context, &r->err);
    status = status == XSM_OK ? resume(&t, r, &r->err) : status;
    status = status == XSM_OK ? xsm_model_save(t.model, w->first, NULL, &r->err) : status;
    status = status == XSM_OK ? xsm_trainer_run(t.trainer, &r->err) : status;
    status = status == XSM_OK ? xsm_model_save(t.model, w->model, NULL, &r->err) : status;
    end(&t);
    return status;
}

static void run(work *w, uint32_t count, uint32_t threads, test_rank_body body)
{
    test_rank ranks[TEST_RANKS];
    test_run_ranks(count, threads, 0, body, w, ranks);
    for (uint32_t r = 0; r < count; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
}

static work work_new(const settings *plan, const test_problem *p)
{
    work w = {.plan = plan, .rows = p->data};
    /* In the middle of an epoch; at its end where one process takes many steps at once. */
    w.stop_at = plan->batch == 1 ? ROWS : (ROWS / plan->batch) * 3 / 2;
    snprintf(w.first, sizeof w.first, "%s", test_path("first"));
    snprintf(w.checkpoint, sizeof w.checkpoint, "%s", test_path("checkpoint"));
    snprintf(w.model, sizeof w.model, "%s", test_path("model"));
    snprintf(w.elsewhere, sizeof w.elsewhere, "/nowhere/at/all");
    return w;
}

TEST(test_bits)
{
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, plans[i].sparse, 8);
        work w = work_new(&plans[i], &p);
        run(&w, 1, 2, begin);
        size_t first_count, checkpoint_count, model_count;
        unsigned char *first = test_read(w.first, &first_count),
                      *checkpoint = test_read(w.checkpoint, &checkpoint_count);
        run(&w, 1, 1, finish);
        unsigned char *model = test_read(w.model, &model_count);
        test_assert_bytes(w.first, first, first_count);
        for (uint32_t count = 2; count <= 4; count++) {
            remove(w.checkpoint);
            run(&w, count, 1 + count % 2, begin);
            test_assert_bytes(w.checkpoint, checkpoint, checkpoint_count);
            test_assert_bytes(w.first, first, first_count);
            for (uint32_t other = 1; other <= 4; other++) { /* on another number of ranks */
                if (other != 1 && (i + count + other) % 2 == 0) {
                    continue;
                }
                remove(w.model);
                run(&w, other, 1 + other % 2, finish);
                test_assert_bytes(w.first, first, first_count);
                test_assert_bytes(w.model, model, model_count);
            }
        }
        free(first);
        free(checkpoint);
        free(model);
    }
}

TEST(test_storages)
{
    const settings *plan = &plans[2];
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, plan->sparse, 8);
    work w = work_new(plan, &p);
    run(&w, 1, 1, begin);
    size_t checkpoint_count, first_count;
    unsigned char *checkpoint = test_read(w.checkpoint, &checkpoint_count), *first = test_read(w.first, &first_count);
    for (w.place = BUFFER; w.place < PLACES; w.place++) {
        run(&w, 3, 1, begin);
        assert_int_equal(w.count, checkpoint_count);
        assert_memory_equal(w.bytes, checkpoint, w.count);
        run(&w, 2, 1, finish);
        test_assert_bytes(w.first, first, first_count);
        free(w.bytes);
    }
    free(checkpoint);
    free(first);
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

/* A resume that fails, and one that does not: the first has changed nothing. */
static xsm_status fail_and_finish(test_rank *r)
{
    work *w = r->user;
    training t = {.of = w};
    xsm_status status = prepare(&t, r->context, &r->err);
    xsm_model *own = t.model ? t.model->part.own : NULL;
    for (size_t i = 0; status == XSM_OK && i < own->classes * own->w.stride; i++) {
        own->w.weight[i] = (float)(i % 7);
    }
    status = status == XSM_OK ? resume(&t, r, &r->err) : status;
    bool same = own != NULL && t.trainer && t.trainer->done.steps == 0;
    for (size_t i = 0; same && i < own->classes * own->w.stride; i++) {
        same = own->w.weight[i] == (float)(i % 7);
    }
    end(&t);
    return same || status == XSM_OK ? status : XSM_ERROR_INTERNAL;
}

TEST(test_failures)
{
    const settings *plan = &plans[2];
    HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, plan->sparse, 8);
    work w = work_new(plan, &p);
    test_rank ranks[TEST_RANKS];
    run(&w, 1, 1, begin);
    /* A checkpoint that is missing, or damaged, on one rank. */
    w.bytes = test_read(w.checkpoint, &w.count);
    for (w.place = PATH; w.place <= BUFFER; w.place++) {
        for (w.missing = 1; w.missing <= 3; w.missing++) {
            test_run_ranks(3, 1, 0, fail_and_finish, &w, ranks);
            char start[16];
            snprintf(start, sizeof start, "rank %u: ", w.missing - 1);
            for (uint32_t r = 0; r < 3; r++) {
                assert_fails(ranks[r].status, w.place == PATH ? XSM_ERROR_IO : XSM_ERROR_CHECKSUM, ranks[r].err);
                assert_memory_equal(ranks[r].err.message, start, strlen(start));
            }
        }
    }
    /* One of another step, which each rank could go on from. */
    w.place = PATH;
    work later = w;
    later.stop_at += ROWS;
    snprintf(later.checkpoint, sizeof later.checkpoint, "%s", test_path("later"));
    run(&later, 1, 1, begin);
    memcpy(w.elsewhere, later.checkpoint, sizeof w.elsewhere);
    for (w.missing = 1; w.missing <= 3; w.missing++) {
        char start[16];
        snprintf(start, sizeof start, "rank %u: ", w.missing == 3 ? 2 : 1);
        test_run_ranks(3, 1, 0, fail_and_finish, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_STATE, ranks[r].err);
            assert_memory_equal(ranks[r].err.message, start, strlen(start));
            assert_non_null(strstr(ranks[r].err.message, "this is not the file that rank 0 has read"));
        }
    }
    w.missing = 0;
    /* A folder where nothing can be written. */
    const work nowhere = w;
    snprintf(w.checkpoint, sizeof w.checkpoint, "/nowhere/at/all");
    test_run_ranks(3, 1, 0, begin, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_IO, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 0: ", 8);
    }
    w = nowhere;
    /* The group fails at each of its calls in turn, and the old file stays. */
    static const settings by_feature = {"softmax", "ridge=0", "adagrad", 8, true, true, 0};
    HELD_STRUCT(test_problem, sparse) = test_problem_new(ROWS, FEATURES, CLASSES, true, 8);
    const test_rank_body bodies[] = {begin, finish, begin, finish};
    for (size_t i = 0; i < 4; i++) {
        settings few = i < 2 ? *plan : by_feature;
        w.rows = i < 2 ? p.data : sparse.data;
        few.batch = ROWS;
        w.plan = &few;
        w.stop_at = 1;
        run(&w, 1, 1, begin);
        size_t wanted;
        unsigned char *before = test_read(w.checkpoint, &wanted);
        uint64_t at = 1;
        do {
            test_run_ranks(3, 1, at, bodies[i], &w, ranks);
            at = test_next_place(at, 1);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
            test_assert_bytes(w.checkpoint, before, wanted);
        } while (ranks[0].status != XSM_OK);
        assert_true(at > 20);
        free(before);
    }
    free(w.bytes);
}

/* Rows that are sparse make the model feature-major, and adagrad's numbers with it. */
TEST(test_feature_major)
{
    static const settings by_feature[] = {
        {"softmax", "ridge=0.1", "sgd", 8, true, true, 0},
        {"softmax", "ridge=0", "adagrad", 8, true, true, 0},
        {"one-vs-all", "ridge=0", "adagrad", 5, false, true, 0},
    };
    for (size_t i = 0; i < sizeof by_feature / sizeof *by_feature; i++) {
        HELD_STRUCT(test_problem, p) = test_problem_new(ROWS, FEATURES, CLASSES, true, 8);
        work w = work_new(&by_feature[i], &p);
        run(&w, 1, 1, begin);
        size_t checkpoint_count, model_count;
        unsigned char *checkpoint = test_read(w.checkpoint, &checkpoint_count);
        run(&w, 1, 1, finish);
        unsigned char *model = test_read(w.model, &model_count);
        for (uint32_t count = 2; count <= 5; count++) {
            remove(w.checkpoint);
            remove(w.model);
            run(&w, count, 1 + count % 2, begin);
            test_assert_bytes(w.checkpoint, checkpoint, checkpoint_count);
            run(&w, 6 - count, 1, finish);
            test_assert_bytes(w.model, model, model_count);
        }
        for (w.place = BUFFER; w.place < PLACES; w.place++) {
            remove(w.model);
            run(&w, 3, 1, begin);
            assert_int_equal(w.count, checkpoint_count);
            assert_memory_equal(w.bytes, checkpoint, w.count);
            run(&w, 2, 1, finish);
            test_assert_bytes(w.model, model, model_count);
            free(w.bytes);
        }
        free(checkpoint);
        free(model);
    }
}
