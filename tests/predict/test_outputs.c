/*
 * Every call that fills a caller's arrays refuses those that share memory with each other or with what it reads, and
 * leaves them as they are; rows of two arrays may lie between each other.
 */
#include "support.h"

#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/draw.h>

enum { N = 6, D = 5, K = 9, H = 4, TOP = 3 };

/* One piece of memory for everything that a call is given. */
typedef union numbers {
    float f[4 * N * K];
    uint32_t u[4 * N * K];
    double d[2 * N * K];
} numbers;

static void fill(numbers *all, size_t count)
{
    memset(all, 0, sizeof *all);
    for (size_t i = 0; i < count; i++) {
        all->f[i] = (float)(i % 7) / 4;
    }
}

typedef struct objects {
    xsm_dataset *rows;
    xsm_model *linear, *embedding;
} objects;

static void make(objects *o)
{
    xsm_error err = XSM_ERROR_INIT;
    numbers all;
    uint32_t labels[N] = {0, 1, 2, 3, 4, 8};
    xsm_labels of = XSM_LABELS_INIT;
    of.classes = K;
    of.labels = labels;
    fill(&all, N * D);
    xsm_dense_rows rows = XSM_DENSE_ROWS_INIT;
    rows.values = all.f;
    rows.rows = N;
    rows.features = D;
    rows.labels = &of;
    assert_ok(xsm_dataset_from_dense(NULL, &rows, &o->rows, &err), err);
    assert_ok(xsm_model_new_linear(NULL, D, K, NULL, &o->linear, &err), err);
    assert_ok(xsm_model_new_embedding(NULL, D, H, K, NULL, &o->embedding, &err), err);
}

static void release(objects *o)
{
    xsm_dataset_free(o->rows);
    xsm_model_free(o->linear);
    xsm_model_free(o->embedding);
}

/* The call must be refused, with a message that names the array, and all memory is as it was. */
#define REFUSED(call, word)                                                                                            \
    do {                                                                                                               \
        const numbers before = all;                                                                                    \
        assert_fails(call, XSM_ERROR_ARGUMENT, err);                                                                   \
        assert_non_null(strstr(err.message, word));                                                                    \
        assert_memory_equal(&before, &all, sizeof all);                                                                \
    } while (0)

TEST(test_scores)
{
    objects o;
    numbers all;
    make(&o);
    fill(&all, N * D);
    xsm_batch batch = xsm_batch_values(all.f, N, D, D);
    uint32_t classes[N] = {0, 1, 2, 3, 4, 5};
    assert_ok(xsm_model_scores(o.linear, &batch, classes, 1, all.f + N * D, &err), err);
    REFUSED(xsm_model_scores(o.linear, &batch, classes, 1, all.f + N * D - 1, &err), "values");
    memcpy(all.u + 100, classes, sizeof classes);
    REFUSED(xsm_model_scores(o.linear, &batch, all.u + 100, 1, all.f + 100, &err), "classes");
    REFUSED(xsm_model_scores(o.linear, &batch, all.u + 100, 1, all.f + 100 + N - 1, &err), "classes");

    REFUSED(xsm_model_score_range(o.linear, &batch, 0, D, all.f, D, &err), "scores");
    REFUSED(xsm_model_hidden_vectors(o.embedding, &batch, all.f, H, &err), "values");
    /* Features and scores of a row beside each other. */
    fill(&all, N * (D + K));
    batch = xsm_batch_values(all.f, N, D, D + K);
    assert_ok(xsm_model_score_range(o.linear, &batch, 0, K, all.f + D, D + K, &err), err);
    REFUSED(xsm_model_score_range(o.linear, &batch, 0, K, all.f + D - 1, D + K, &err), "values");
    assert_ok(xsm_model_hidden_vectors(o.embedding, &batch, all.f + D, D + K, &err), err);

    /* Sparse rows. */
    uint64_t offsets[N + 1] = {0, 1, 2, 3, 4, 5, 6};
    uint32_t *index = all.u + 150;
    fill(&all, N);
    memset(index, 0, N * sizeof *index);
    batch = xsm_batch_sparse_values(offsets, index, all.f, N, D);
    REFUSED(xsm_model_score_range(o.linear, &batch, 0, 1, all.f + N - 1, 1, &err), "values");
    REFUSED(xsm_model_score_range(o.linear, &batch, 0, 1, all.f + 145, 1, &err), "index");
    assert_ok(xsm_model_score_range(o.linear, &batch, 0, 1, all.f + N, 1, &err), err);
    release(&o);
}

TEST(test_predictions)
{
    objects o;
    numbers all;
    make(&o);
    fill(&all, N * D);
    NEW(xsm_predictor, predictor,
        xsm_predictor_new(o.linear, STRUCT(xsm_predictor_options, .top = TOP), &predictor, &err));
    const xsm_batch batch = xsm_batch_values(all.f, N, D, D);
    xsm_prediction to = XSM_PREDICTION_INIT;
    to.batch = &batch;
    to.classes = all.u + 40;
    to.scores = all.f + 40 + N * TOP;
    to.probabilities = all.d + 40;
    to.lengths = all.u + 40 + 2 * N * TOP - 4; /* where the scores still are */
    REFUSED(xsm_predictor_run(predictor, &to, &err), "scores and lengths");
    to.lengths = NULL;
    assert_ok(xsm_predictor_run(predictor, &to, &err), err);
    fill(&all, N * D);
    to.scores--;
    REFUSED(xsm_predictor_run(predictor, &to, &err), "classes and scores");
    to.scores = NULL;
    to.classes = all.u + N * D - 1;
    REFUSED(xsm_predictor_run(predictor, &to, &err), "values");
    /* What may be predicted, in the place of what was. */
    uint64_t offsets[N + 1] = {0, 0, 0, 0, 0, 0, 2};
    to.classes = all.u + 60;
    all.u[60] = 1;
    all.u[61] = 3;
    to.allow_offsets = offsets;
    to.allow = all.u + 60;
    REFUSED(xsm_predictor_run(predictor, &to, &err), "allow");
    to.deny_offsets = offsets;
    to.deny = to.allow;
    to.allow_offsets = NULL;
    REFUSED(xsm_predictor_run(predictor, &to, &err), "deny");
    xsm_predictor_free(predictor);
    release(&o);
}

TEST(test_searches)
{
    objects o;
    numbers all;
    make(&o);
    fill(&all, N * D);
    NEW(xsm_index, index, xsm_index_new(NULL, "exact", &index, &err));
    assert_ok(xsm_index_build_model(index, o.linear, &err), err);
    xsm_index_search search = XSM_INDEX_SEARCH_INIT;
    search.queries = all.f;
    search.stride = D;
    search.count = N;
    search.top = TOP;
    search.classes = all.u + 40;
    search.scores = all.f + 40;
    search.lengths = all.u + 100;
    REFUSED(xsm_index_query(index, &search, &err), "classes and scores");
    search.classes = all.u + 110;
    search.scores = all.f + N * D - 1;
    REFUSED(xsm_index_query(index, &search, &err), "queries");
    search.classes = all.u + 40;
    search.scores = all.f + 40 + N * TOP;
    search.lengths = all.u + 40 + N * TOP - 1;
    REFUSED(xsm_index_query(index, &search, &err), "lengths");
    search.lengths = all.u + 40 + 2 * N * TOP;
    assert_ok(xsm_index_query(index, &search, &err), err);
    xsm_index_free(index);
    release(&o);
}

TEST(test_draws)
{
    objects o;
    numbers all;
    make(&o);
    fill(&all, N * D);
    NEW(xsm_sampler, sampler, xsm_sampler_new(NULL, "uniform", &sampler, &err));
    assert_ok(xsm_sampler_bind(sampler, o.rows, &err), err);
    xsm_batch batch = xsm_batch_values(all.f, N, D, D);
    xsm_draw draw = XSM_DRAW_INIT;
    draw.batch = &batch;
    draw.count = 2;
    draw.classes = all.u + 60;
    draw.log_probabilities = all.d + 30;
    REFUSED(xsm_sampler_draw(sampler, &draw, &err), "classes and log_probabilities");
    draw.log_probabilities = all.d + 36;
    draw.classes = all.u + N * D - 1;
    REFUSED(xsm_sampler_draw(sampler, &draw, &err), "values");
    draw.classes = all.u + 60;
    assert_ok(xsm_sampler_draw(sampler, &draw, &err), err);
    fill(&all, N * D);
    REFUSED(xsm_sampler_log_probabilities(sampler, &batch, 0, 2, all.f + 1, &err), "values");
    xsm_sampler_free(sampler);
    release(&o);
}

TEST(test_gradients)
{
    objects o;
    numbers all;
    make(&o);
    fill(&all, N * D);
    NEW(xsm_estimator, estimator, xsm_estimator_new(NULL, "softmax", &estimator, &err));
    assert_ok(xsm_estimator_bind_labels(estimator, o.linear, o.rows, &err), err);
    NEW(xsm_gradient, gradient, xsm_gradient_new(NULL, &gradient, &err));
    xsm_batch batch = xsm_batch_values(all.f, N, D, D);
    batch.dataset = o.rows;
    REFUSED(xsm_estimator_gradient_input(estimator, &batch, 1, gradient, all.f, D, &err), "input_gradient");
    assert_ok(xsm_estimator_gradient_input(estimator, &batch, 1, gradient, all.f + N * D, D, &err), err);
    batch.stride = 2 * D;
    fill(&all, N * 2 * D);
    assert_ok(xsm_estimator_gradient_input(estimator, &batch, 1, gradient, all.f + D, 2 * D, &err), err);
    xsm_gradient_free(gradient);
    xsm_estimator_free(estimator);
    release(&o);
}

TEST(test_measures)
{
    objects o;
    numbers all;
    make(&o);
    fill(&all, 0);
    xsm_metrics metrics = XSM_METRICS_INIT;
    metrics.top = TOP;
    metrics.ndcg = metrics.psndcg = all.d;
    REFUSED(xsm_evaluate(NULL, o.linear, o.rows, NULL, &metrics, &err), "ndcg and psndcg");
    metrics.psndcg = all.d + TOP;
    assert_ok(xsm_evaluate(NULL, o.linear, o.rows, NULL, &metrics, &err), err);
    xsm_search_metrics found = XSM_SEARCH_METRICS_INIT;
    found.top = TOP;
    found.recall = all.d;
    found.precision = all.d + TOP - 1;
    REFUSED(xsm_evaluate_search(NULL, o.linear, o.rows, NULL, &found, &err), "recall and precision");

    xsm_dataset *part = NULL;
    assert_fails(xsm_dataset_split(o.rows, 0.5, 1, &part, &part, &err), XSM_ERROR_ARGUMENT, err);
    assert_null(part);
    release(&o);
}
