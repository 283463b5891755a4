/*
 * Rows divided among ranks (xsm_dataset_divide()): models, losses, checkpoints, measures, scores and predictions are
 * those of whole rows, to the bit, on any number of ranks; a rank has memory for its share alone; what needs all rows
 * refuses; a rank that fails ends the call on all.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "base/share.h"
#include "data/part.h"
#include "model/divided.h"
#include "train/trainer.h"

#include <xsoftmax/calibrate.h>
#include <xsoftmax/choose.h>
#include <xsoftmax/dataset_weights.h>
#include <xsoftmax/pairs.h>
#include <xsoftmax/fit.h>
#include <xsoftmax/label_tree.h>
#include <xsoftmax/metrics.h>
#include <xsoftmax/sampler.h>
#include <xsoftmax/trainer.h>
#include <xsoftmax/tune.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five class runs, the last of a few classes. */
enum { ROWS = 70, FEATURES = 6, CLASSES = 4 * XSMI_RUN_CLASSES + 3, TOP = 3, SOME = 9 };

/* -- shares -------------------------------------------------------------------------------------------------------- */

static void test_shares(void **state)
{
    (void)state;
    for (uint64_t rows = 1; rows < 40; rows++) {
        for (uint32_t ranks = 1; ranks < 9; ranks++) {
            assert_int_equal(xsmi_share_start(rows, ranks, 0), 0);
            assert_int_equal(xsmi_share_start(rows, ranks, ranks), rows);
            for (uint32_t r = 0; r < ranks; r++) {
                const uint64_t first = xsmi_share_start(rows, ranks, r), end = xsmi_share_start(rows, ranks, r + 1);
                assert_in_range(end - first, rows / ranks, rows / ranks + 1);
                for (uint64_t row = first; row < end; row++) {
                    assert_int_equal(xsmi_share_of(rows, ranks, row), r);
                }
            }
        }
    }
    assert_int_equal(xsmi_share_of(UINT64_C(1) << 40, 65536, (UINT64_C(1) << 40) - 1), 65535);
}

/* -- the bits of whole rows ---------------------------------------------------------------------------------------- */

typedef struct settings {
    const char *estimator, *options, *optimizer;
    uint64_t batch;
    bool bias, sparse;
    double eta;
    uint32_t hidden; /* of a first layer; 0: none */
} settings;

static const settings plans[] = {
    {"softmax", "ridge=0.1", "sgd", 7, true, false, 0.3, 0},
    {"softmax", "", "adagrad", 70, false, true, 0.3, 9},
    {"sampled-softmax", "negatives=9", "adagrad", 3, false, true, 0.3, 0},
    {"sampled-softmax", "negatives=40 shared=yes", "adagrad", 16, true, true, 0.3, 0},
    {"sampled-softmax", "negatives=30 shared=yes sampler=frequency", "adagrad", 35, false, false, 0.3, 4},
    {"implicit", "negatives=4 ridge=0.1", "sgd", 10, false, false, 0.3, 0}, /* steps solved jointly */
    {"implicit", "negatives=4", "sgd", 1, true, true, 0.3, 0},
    {"umax", "negatives=3", "sgd", 1, false, false, 0.3, 0}, /* a number of the estimator's for each row */
    {"ove", "negatives=6 tight=2", "adagrad", 1, true, true, 0.3, 0},
    {"margin", "", "adagrad", 4, true, true, 0.3, 9},
    {"hierarchical", "tree=huffman", "adagrad", 40, true, true, 0.3, 0},
    {"hierarchical", "tree=balanced", "sgd", 5, false, false, 0.3, 5},
};
enum { PLANS = sizeof plans / sizeof *plans };

/* What a rank finds. */
typedef struct results {
    double loss, log_loss, error, tested;
    double ndcg[TOP];
    uint32_t classes[SOME * TOP];
    double probabilities[SOME * TOP];
    float scores[SOME * 2], range[SOME * 5];
    uint64_t hash;
} results;

typedef struct work {
    const settings *plan;
    char rows[256], several[256], checkpoint[256], model[256];
    bool whole;        /* the rows are not divided */
    const char *other; /* rank 2 reads this instead */
    size_t memory;     /* rank 1's allocation of that number fails, from 1 */
    results of[TEST_RANKS];
} work;

/* A rank's objects. */
typedef struct training {
    xsm_dataset *rows, *several;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    double loss;
} training;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    training *t = user;
    if (p->epoch_ended) {
        t->loss = p->loss;
    }
    return 0;
}

static xsm_status read_rows(const work *w, const test_rank *r, const char *path, xsm_dataset **out, xsm_error *err)
{
    XSMI_TRY(xsm_dataset_read(r->context, path, NULL, out, err));
    return w->whole ? XSM_OK : xsm_dataset_divide(*out, err);
}

static xsm_status set_options(xsm_estimator *e, const char *options, xsm_error *err)
{
    char text[128];
    snprintf(text, sizeof text, "%s", options);
    for (char *rest = NULL, *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(name, '=');
        *value++ = '\0';
        XSMI_TRY(xsm_estimator_set(e, name, value, err));
    }
    return XSM_OK;
}

static xsm_status prepare(training *t, const settings *plan, xsm_context *ctx, xsm_error *err)
{
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = plan->bias;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    layer.bias = plan->bias;
    XSMI_TRY(plan->hidden > 0 ? xsm_model_new_embedding(ctx, FEATURES, plan->hidden, CLASSES, &layer, &t->model, err)
                              : xsm_model_new_linear(ctx, FEATURES, CLASSES, &shape, &t->model, err));
    XSMI_TRY(xsm_estimator_new(ctx, plan->estimator, &t->estimator, err));
    XSMI_TRY(set_options(t->estimator, plan->options, err));
    XSMI_TRY(xsm_optimizer_new(ctx, plan->optimizer, &t->optimizer, err));
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    options.epochs = 2;
    options.batch = plan->batch;
    options.eta = plan->eta;
    options.evaluate_every = 1;
    options.test = t->several;
    options.progress = on_progress;
    options.progress_user = t;
    return xsm_trainer_new(ctx, t->model, t->rows, t->estimator, t->optimizer, &options, &t->trainer, err);
}

static void end(training *t)
{
    xsm_trainer_free(t->trainer);
    xsm_optimizer_free(t->optimizer);
    xsm_estimator_free(t->estimator);
    xsm_model_free(t->model);
    xsm_dataset_free(t->rows);
    xsm_dataset_free(t->several);
}

/* Rows in any order, one of them twice. */
static const uint64_t chosen[SOME] = {69, 3, 17, 3, 40, 0, 68, 51, 22};

static xsm_status predict(training *t, results *to, xsm_error *err)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    xsm_predictor *p = NULL;
    XSMI_TRY(xsm_predictor_new(t->model, &options, &p, err));
    const xsm_batch batch = xsm_batch_rows(t->rows, chosen, SOME);
    const xsm_status status = test_predict(p, &batch, to->classes, NULL, to->probabilities, err);
    xsm_predictor_free(p);
    return status;
}

static xsm_status use_model(training *t, results *to, xsm_error *err)
{
    const xsm_batch some = xsm_batch_rows(t->rows, chosen, SOME), first = xsm_batch_range(t->several, 30, SOME);
    uint32_t classes[SOME * 2];
    for (uint32_t i = 0; i < SOME * 2; i++) {
        classes[i] = i * 911 % CLASSES;
    }
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.top = TOP;
    metrics.ndcg = to->ndcg;
    XSMI_TRY(xsm_evaluate(NULL, t->model, t->several, NULL, &metrics, err));
    to->log_loss = metrics.log_loss;
    to->error = metrics.error;
    XSMI_TRY(xsm_evaluate(NULL, t->model, t->rows, NULL, &metrics, err));
    to->tested = metrics.log_loss;
    XSMI_TRY(predict(t, to, err));
    XSMI_TRY(xsm_model_scores(t->model, &some, classes, 2, to->scores, err));
    return xsm_model_score_range(t->model, &first, XSMI_RUN_CLASSES - 2, 5, to->range, 5, err);
}

/* A host's own step, beside the trainer's. */
static xsm_status take_step(training *t, xsm_context *ctx, xsm_error *err)
{
    xsm_gradient *g = NULL;
    const xsm_batch batch = xsm_batch_range(t->rows, 11, t->estimator->ops.batch_limit == 1 ? 1 : 5);
    XSMI_TRY(xsm_gradient_new(ctx, &g, err));
    xsm_status status = xsm_estimator_gradient(t->estimator, &batch, 0.1, g, err);
    const xsm_batch other = xsm_batch_range(t->rows, 0, 2);
    float scores[2];
    const uint32_t classes[2] = {0, CLASSES - 1};
    if (status == XSM_OK) { /* the batch's rows are no longer there */
        status = xsm_model_scores(t->model, &other, classes, 1, scores, err);
    }
    status = status == XSM_OK ? xsm_optimizer_apply(t->optimizer, &batch, g, 0.1, err) : status;
    xsm_gradient_free(g);
    return status;
}

static xsm_status train(test_rank *r)
{
    work *w = r->user;
    results *to = &w->of[r->rank];
    training t = {.rows = NULL};
    memset(to, 0, sizeof *to);
    const char *path = r->rank == 2 && w->other ? w->other : w->rows;
    xsm_status status = read_rows(w, r, path, &t.rows, &r->err);
    status = status == XSM_OK ? read_rows(w, r, w->several, &t.several, &r->err) : status;
    status = status == XSM_OK ? prepare(&t, w->plan, r->context, &r->err) : status;
    status = status == XSM_OK ? xsm_trainer_run(t.trainer, &r->err) : status;
    if (status == XSM_OK) {
        to->loss = t.loss;
        to->hash = xsmi_dataset_fingerprint(t.rows);
        t.trainer->done.seconds = 0; /* the one number that differs from run to run */
        status = xsm_trainer_checkpoint(t.trainer, w->checkpoint, &r->err);
    }
    status = status == XSM_OK ? take_step(&t, r->context, &r->err) : status;
    status = status == XSM_OK ? use_model(&t, to, &r->err) : status;
    xsm_model_clear_correction(t.model);
    status = status == XSM_OK ? xsm_model_save(t.model, w->model, &r->err) : status;
    end(&t);
    return status;
}

/* Rows with one label each, in one file, and with up to two, and weights, in another. */
static work work_new(const settings *plan)
{
    xsm_error err = XSM_ERROR_INIT;
    work w = {.plan = plan};
    test_problem p = test_problem_new(ROWS, FEATURES, CLASSES, plan->sparse, 8);
    uint64_t offsets[ROWS + 1];
    uint32_t labels[2 * ROWS];
    uint64_t count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        offsets[i] = count;
        for (uint32_t j = 0; j < i % 3; j++) {
            labels[count++] = (i * 37 + j * (CLASSES / 2)) % (CLASSES / 2) + j * (CLASSES / 2);
        }
    }
    offsets[ROWS] = count;
    xsm_dataset *several = test_relabel(&p, plan->sparse, CLASSES, offsets, labels);
    float row_weights[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        row_weights[i] = (float)(i % 5) / 2;
    }
    xsm_dataset_weights weights = XSM_DATASET_WEIGHTS_INIT;
    weights.rows = row_weights;
    weights.row_count = ROWS;
    assert_ok(xsm_dataset_set_weights(several, &weights, &err), err);
    xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
    options.format = XSM_FORMAT_CACHE;
    snprintf(w.rows, sizeof w.rows, "%s", test_path("rows"));
    snprintf(w.several, sizeof w.several, "%s", test_path("several"));
    snprintf(w.checkpoint, sizeof w.checkpoint, "%s", test_path("checkpoint"));
    snprintf(w.model, sizeof w.model, "%s", test_path("model"));
    assert_ok(xsm_dataset_write(p.data, w.rows, &options, &err), err);
    assert_ok(xsm_dataset_write(several, w.several, &options, &err), err);
    xsm_dataset_free(several);
    test_problem_free(&p);
    return w;
}

/* What one process finds, with whole rows. */
typedef struct wanted {
    results found;
    unsigned char *model, *checkpoint;
    size_t model_count, checkpoint_count;
} wanted;

static wanted wanted_new(work *w)
{
    test_rank rank;
    wanted one;
    w->whole = true;
    test_run_ranks(1, 2, 0, train, w, &rank);
    assert_ok(rank.status, rank.err);
    one.found = w->of[0];
    one.model = test_read(w->model, &one.model_count);
    one.checkpoint = test_read(w->checkpoint, &one.checkpoint_count);
    assert_true(one.found.loss > 0 && one.found.log_loss > 0 && one.found.tested > 0);
    w->whole = false;
    return one;
}

static void wanted_free(wanted *one)
{
    free(one->model);
    free(one->checkpoint);
}

static void try_ranks(work *w, const wanted *one, uint32_t count, uint32_t threads)
{
    test_rank ranks[TEST_RANKS];
    remove(w->model);
    remove(w->checkpoint);
    test_run_ranks(count, threads, 0, train, w, ranks);
    for (uint32_t r = 0; r < count; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
        if (memcmp(&w->of[r], &one->found, sizeof one->found) != 0) {
            fail_msg("%s, batches of %u: other results on %u ranks", w->plan->estimator, (unsigned)w->plan->batch,
                     count);
        }
    }
    test_assert_bytes(w->model, one->model, one->model_count);
    test_assert_bytes(w->checkpoint, one->checkpoint, one->checkpoint_count);
}

static void test_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < PLANS; i++) {
        work w = work_new(&plans[i]);
        wanted one = wanted_new(&w);
        static const uint32_t counts[] = {1, 2, 3, 5};
        for (size_t c = 0; c < 4; c++) {
            if (test_ranks_tried(counts[c])) {
                try_ranks(&w, &one, counts[c], 1 + counts[c] % 2);
            }
        }
        wanted_free(&one);
    }
}

/* -- memory and bytes ---------------------------------------------------------------------------------------------- */

/* A rank keeps its share, and can ask for a row of it alone; each rank sends its rows of a batch once. */
static xsm_status look(test_rank *r)
{
    const work *w = r->user;
    xsm_dataset *d = NULL;
    XSMI_TRY(read_rows(w, r, w->rows, &d, &r->err));
    const uint64_t first = xsmi_share_start(ROWS, r->ranks, r->rank),
                   end = xsmi_share_start(ROWS, r->ranks, r->rank + 1);
    const bool sparse = d->sparse;
    const uint64_t values = sparse ? d->offsets[end] - d->offsets[first] : (end - first) * FEATURES;
    bool good = d->capacity.values == values && (!sparse || d->capacity.index == values) && d->mapped.count == 0;
    good &= xsm_dataset_divide(d, &r->err) == XSM_OK; /* once more */
    for (uint64_t i = 0; i < ROWS; i++) {
        xsm_row row = XSM_ROW_INIT;
        xsm_error err = XSM_ERROR_INIT;
        const xsm_status status = xsm_dataset_get_row(d, i, &row, &err);
        good &= i >= first && i < end
                    ? status == XSM_OK && row.values != NULL
                    : status == XSM_ERROR_UNSUPPORTED && strstr(err.message, "on another rank") != NULL;
    }
    const uint64_t before = xsmi_sent_by(r->context).bytes;
    XSMI_TRY(xsmi_dataset_fetch(d, chosen, 0, SOME, &r->err));
    uint64_t sent = 4; /* to agree */
    for (size_t i = 0; i < SOME; i++) {
        const uint64_t count = sparse ? d->offsets[chosen[i] + 1] - d->offsets[chosen[i]] : FEATURES;
        sent += chosen[i] >= first && chosen[i] < end ? count * (sparse ? 8 : 4) : 0;
        good &= xsmi_dataset_features(d, chosen[i]).values != NULL;
    }
    good &= xsmi_sent_by(r->context).bytes - before == sent;
    XSMI_TRY(xsmi_dataset_fetch(d, chosen, 0, SOME, &r->err)); /* they are there */
    good &= xsmi_sent_by(r->context).bytes - before == sent;
    XSMI_TRY(xsmi_dataset_fetch(d, NULL, 5, 2, &r->err)); /* no others are */
    good &= xsmi_dataset_features(d, 6).values != NULL;
    good &= (xsmi_dataset_features(d, 40).values != NULL) == (first <= 40 && 40 < end);
    xsm_dataset_free(d);
    return good ? XSM_OK : XSM_ERROR_INTERNAL;
}

static void test_kept(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    for (size_t i = 0; i < 3; i += 2) {
        work w = work_new(&plans[i]);
        for (uint32_t count = 2; count <= 5; count++) {
            test_run_ranks(count, 1, 0, look, &w, ranks);
            for (uint32_t r = 0; r < count; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
            }
        }
    }
}

/* More ranks than rows. */
static xsm_status look_at_few(test_rank *r)
{
    static const float x[] = {1, 2, 3, 4};
    static const uint32_t labels[] = {0, 1};
    xsm_labels given = XSM_LABELS_INIT;
    given.classes = 2;
    given.labels = labels;
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = x;
    rows.rows = 2;
    rows.features = 2;
    rows.labels = &given;
    rows.ownership = XSM_BORROW;
    xsm_dataset *d = NULL;
    XSMI_TRY(xsm_dataset_from_dense(r->context, &rows, &d, &r->err));
    XSMI_TRY(xsm_dataset_divide(d, &r->err));
    XSMI_TRY(xsmi_dataset_fetch(d, NULL, 0, 2, &r->err));
    const bool good = memcmp(xsmi_dataset_features(d, 0).values, x, 2 * sizeof *x) == 0 &&
                      memcmp(xsmi_dataset_features(d, 1).values, x + 2, 2 * sizeof *x) == 0;
    xsm_dataset_free(d);
    return good ? XSM_OK : XSM_ERROR_INTERNAL;
}

static void test_few(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    test_run_ranks(5, 1, 0, look_at_few, NULL, ranks);
    for (uint32_t r = 0; r < 5; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
}

/* -- what refuses -------------------------------------------------------------------------------------------------- */

static bool refused(xsm_status status, xsm_error *err)
{
    const bool good = status == XSM_ERROR_UNSUPPORTED && strstr(err->message, "divided") != NULL;
    if (!good) {
        fprintf(stderr, "status %d: %s\n", (int)status, err->message);
    }
    *err = (xsm_error)XSM_ERROR_INIT;
    return good;
}

#define REFUSED(call) (refused((call), &err) ? (void)0 : (void)(fprintf(stderr, "%s\n", #call), good = false))

static xsm_status try_all(test_rank *r)
{
    const work *w = r->user;
    training t = {.rows = NULL};
    xsm_error err = XSM_ERROR_INIT;
    bool good = true;
    XSMI_TRY(read_rows(w, r, w->rows, &t.rows, &r->err));
    xsm_dataset *d = t.rows, *out = NULL, *rest = NULL;
    const uint64_t row = 1;
    uint64_t dropped;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_write_options write = XSM_WRITE_OPTIONS_INIT;
    xsm_transform *transform = NULL;
    xsm_model *whole = NULL, *model = NULL;
    xsm_estimator *e = NULL;
    xsm_sampler *s = NULL;
    xsm_optimizer *o = NULL;
    XSMI_TRY(xsm_dataset_get_class_map(d, &map, &r->err));
    XSMI_TRY(xsm_transform_new(NULL, "unit", &transform, &r->err));
    XSMI_TRY(xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, &whole, &r->err));
    XSMI_TRY(xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &model, &r->err));
    write.format = XSM_FORMAT_CACHE;
    REFUSED(xsm_dataset_write(d, w->model, &write, &err));
    REFUSED(xsm_dataset_drop(d, XSM_DROP_EMPTY, &dropped, &err));
    REFUSED(xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_FIRST, &err));
    REFUSED(xsm_dataset_extend(d, &map, &err));
    REFUSED(xsm_dataset_shuffle(d, 1, &err));
    REFUSED(xsm_dataset_select(d, &row, 1, &out, &err));
    REFUSED(xsm_dataset_split(d, 0.5, 1, &out, &rest, &err));
    REFUSED(xsm_transform_fit(transform, d, &err));
    REFUSED(xsm_transform_apply(transform, d, &err));
    /* Samplers that see features, and others. */
    XSMI_TRY(xsm_sampler_new(NULL, "tree", &s, &r->err));
    REFUSED(xsm_sampler_bind(s, d, &err));
    xsm_sampler_free(s);
    XSMI_TRY(xsm_sampler_new(NULL, "label-tree", &s, &r->err));
    REFUSED(xsm_sampler_bind(s, d, &err));
    xsm_sampler_free(s);
    XSMI_TRY(xsm_sampler_new(NULL, "frequency", &s, &r->err));
    XSMI_TRY(xsm_sampler_bind(s, d, &r->err));
    xsm_sampler_free(s);
    /* Whole models, and the calls that divided ones do not have. */
    const xsm_batch batch = xsm_batch_range(d, 0, 2);
    const uint32_t classes[2] = {1, 2};
    float scores[2];
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_ranks found = XSM_RANKS_INIT;
    xsm_search_metrics searched = XSM_SEARCH_METRICS_INIT;
    REFUSED(xsm_model_scores(whole, &batch, classes, 1, scores, &err));
    REFUSED(xsm_model_score_range(whole, &batch, 0, 1, scores, 1, &err));
    REFUSED(xsm_evaluate(NULL, whole, d, NULL, &metrics, &err));
    REFUSED(xsm_evaluate_ranks(NULL, model, d, NULL, &found, &err));
    REFUSED(xsm_evaluate_search(NULL, whole, d, NULL, &searched, &err));
    REFUSED(xsm_model_calibrate(NULL, whole, d, NULL, NULL, &err));
    REFUSED(xsm_model_add_pairs(whole, d, 1, &err));
    REFUSED(xsm_fit_label_tree(NULL, d, NULL, &model, NULL, &err));
    xsm_choice *choice = NULL;
    REFUSED(xsm_choose(NULL, d, NULL, &choice, &err));
    XSMI_TRY(xsm_estimator_new(NULL, "softmax", &e, &r->err));
    XSMI_TRY(xsm_optimizer_new(NULL, "sgd", &o, &r->err));
    REFUSED(xsm_estimator_bind(e, whole, d, &err));
    REFUSED(xsm_trainer_new(NULL, whole, d, e, o, NULL, &t.trainer, &err));
    xsm_tuning *tuning = NULL;
    REFUSED(xsm_tune_eta(NULL, whole, d, e, o, NULL, &tuning, &err));
    /* Also without libLBFGS, for another reason. */
    good &= xsm_fit_full_batch(NULL, whole, d, e, NULL, NULL, &err) == XSM_ERROR_UNSUPPORTED;
    xsm_predictor *p = NULL;
    uint32_t best[2];
    XSMI_TRY(xsm_predictor_new(whole, NULL, &p, &r->err));
    REFUSED(test_predict(p, &batch, best, NULL, NULL, &err));
    xsm_predictor_free(p);
    /* Labels are here, and weights can change. */
    static const float twos[ROWS] = {2};
    xsm_dataset_weights weights = XSM_DATASET_WEIGHTS_INIT;
    weights.rows = twos;
    weights.row_count = ROWS;
    xsm_status status = xsm_estimator_bind_labels(e, whole, d, &r->err);
    status = status == XSM_OK ? xsm_dataset_set_weights(d, &weights, &r->err) : status;
    good &= !out && !rest && !choice && !tuning && !t.trainer && status == XSM_OK;
    xsm_estimator_free(e);
    xsm_optimizer_free(o);
    xsm_model_free(whole);
    xsm_model_free(model);
    xsm_transform_free(transform);
    xsm_dataset_free(d);
    return good ? XSM_OK : XSM_ERROR_INTERNAL;
}

static void test_refused(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    work w = work_new(&plans[2]);
    test_run_ranks(2, 1, 0, try_all, &w, ranks);
    for (uint32_t r = 0; r < 2; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
    xsm_error err = XSM_ERROR_INIT;
    assert_fails(xsm_dataset_divide(NULL, &err), XSM_ERROR_ARGUMENT, err);
}

/* Samplers and trees of a divided model's estimator that are fitted to features. */
static void test_refused_sampler(void **state)
{
    (void)state;
    static const char *const options[] = {"negatives=5 sampler=tree", "negatives=5 sampler=label-tree", "tree=fitted"};
    for (size_t i = 0; i < 3; i++) {
        settings plan = plans[i < 2 ? 2 : 10];
        plan.options = options[i];
        work w = work_new(&plan);
        test_rank ranks[TEST_RANKS];
        test_run_ranks(3, 1, 0, train, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_fails(ranks[r].status, XSM_ERROR_UNSUPPORTED, ranks[r].err);
            assert_non_null(strstr(ranks[r].err.message, "xsm_dataset_divide() has divided them among 3 ranks"));
        }
    }
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

/* A rank that has read another file. */
static void test_other_rows(void **state)
{
    (void)state;
    work w = work_new(&plans[2]);
    w.other = w.several;
    test_rank ranks[TEST_RANKS];
    test_run_ranks(3, 1, 0, train, &w, ranks);
    for (uint32_t r = 0; r < 3; r++) {
        assert_fails(ranks[r].status, XSM_ERROR_DATA, ranks[r].err);
        assert_memory_equal(ranks[r].err.message, "rank 2: ", 8);
    }
}

/* The group fails at each of its calls in turn: every rank returns, with the same status. */
static void test_lost(void **state)
{
    (void)state;
    static const size_t tried[] = {1, 2, 7, 10};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        settings few = plans[tried[i]];
        few.batch = tried[i] == 7 ? 1 : ROWS;
        work w = work_new(&few);
        test_rank ranks[TEST_RANKS];
        uint64_t at = 1;
        do {
            test_run_ranks(3, 1, at, train, &w, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_int_equal(ranks[r].status, ranks[0].status);
            }
            assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
            at = test_next_place(at, 1 + at / 20);
        } while (ranks[0].status != XSM_OK);
        assert_true(at > 30);
    }
}

/* Divides, takes a step and evaluates, with an allocation of rank 1 that fails; a second time it goes well. */
static xsm_status run_short(test_rank *r)
{
    work *w = r->user;
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    XSMI_TRY(test_rank_context(r, &c, NULL, &ctx));
    training t = {.rows = NULL};
    xsm_gradient *g = NULL;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_status status = xsm_dataset_read(ctx, w->rows, NULL, &t.rows, &r->err);
    status = status == XSM_OK ? xsm_model_new_linear(ctx, FEATURES, CLASSES, NULL, &t.model, &r->err) : status;
    status = status == XSM_OK ? xsm_estimator_new(ctx, "umax", &t.estimator, &r->err) : status;
    status = status == XSM_OK ? xsm_gradient_new(ctx, &g, &r->err) : status;
    c.left = r->rank == 1 ? w->memory : 0;
    for (int again = 0; status == XSM_OK && again < 2; again++) {
        const xsm_batch batch = xsm_batch_range(t.rows, 20, 30);
        status = xsm_dataset_divide(t.rows, &r->err);
        if (status != XSM_OK && t.rows->part) {
            status = XSM_ERROR_INTERNAL; /* they are whole after a failure */
            break;
        }
        status = status == XSM_OK ? xsm_estimator_bind(t.estimator, t.model, t.rows, &r->err) : status;
        status = status == XSM_OK ? xsm_estimator_gradient(t.estimator, &batch, 0.1, g, &r->err) : status;
        status = status == XSM_OK ? xsm_evaluate(ctx, t.model, t.rows, NULL, &metrics, &r->err) : status;
        if (status == XSM_ERROR_MEMORY && again == 0 && strncmp(r->err.message, "rank 1: ", 8) == 0) {
            w->of[r->rank].error = 1;
            status = XSM_OK;
        }
        c.left = 0;
    }
    w->of[r->rank].loss = g ? g->loss : 0;
    w->of[r->rank].tested = metrics.log_loss;
    xsm_gradient_free(g);
    end(&t);
    xsm_context_free(ctx);
    if (c.reached) {
        w->of[r->rank].hash = 1;
    }
    return status;
}

static void test_memory_failures(void **state)
{
    (void)state;
    work w = work_new(&plans[2]);
    results good = {.loss = 0};
    bool reached = true;
    for (w.memory = 0; reached; w.memory = test_next_place(w.memory, 1)) {
        test_rank ranks[TEST_RANKS];
        memset(w.of, 0, sizeof w.of);
        test_run_ranks(3, 1, 0, run_short, &w, ranks);
        reached = w.memory == 0 || w.of[1].hash == 1;
        good = w.memory == 0 ? w.of[0] : good;
        for (uint32_t r = 0; r < 3; r++) {
            assert_ok(ranks[r].status, ranks[r].err);
            assert_true(w.of[r].error == (w.memory > 0 && reached ? 1 : 0));
            assert_memory_equal(&w.of[r].loss, &good.loss, sizeof good.loss);
            assert_memory_equal(&w.of[r].tested, &good.tested, sizeof good.tested);
        }
    }
    assert_true(w.memory > 15 && good.loss > 0 && good.tested > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),     cmocka_unit_test(test_bits),    cmocka_unit_test(test_kept),
        cmocka_unit_test(test_few),        cmocka_unit_test(test_refused), cmocka_unit_test(test_refused_sampler),
        cmocka_unit_test(test_other_rows), cmocka_unit_test(test_lost),    cmocka_unit_test(test_memory_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
