/*
 * Tests of rows whose features come with their batches, such as the output of a host's network: the bits equal those
 * of rows of a dataset, and the gradient for the network agrees with central differences of the loss, for every
 * estimator.
 */
#include "training.h"

#include "estimator/estimator.h"
#include "methods/double_sum.h"

#include <xsoftmax/predict.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FEATURES = 5, STRIDE = 9, CLASSES = 7, ROWS = 12, BATCH = 6 };

typedef struct fixture {
    test_problem problem;
    xsm_dataset *labels; /* the rows' labels, without features */
    xsm_model *model;
    float values[BATCH * STRIDE]; /* of the rows 2, 3, ... */
} fixture;

static xsm_dataset *labels_alone(const uint32_t *labels, uint64_t rows, uint32_t classes)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_labels given = {sizeof given, classes, 0, NULL, labels, NULL};
    NEW(xsm_dataset, data,
        xsm_dataset_from_dense(
            NULL, STRUCT(xsm_dense_rows, .values = NULL, .rows = rows, .features = 0, .labels = &given), &data, &err));
    return data;
}

static fixture start(bool bias, int32_t layout, xsm_context *ctx)
{
    fixture f = {.problem = test_problem_new(ROWS, FEATURES, CLASSES, false, 5)};
    f.labels = labels_alone(f.problem.labels, ROWS, CLASSES);
    f.model = test_model(ctx, &f.problem, bias, layout, 1, 9);
    for (size_t i = 0; i < BATCH * STRIDE; i++) {
        f.values[i] = NAN; /* what lies between the rows is nobody's business */
    }
    for (size_t i = 0; i < BATCH; i++) {
        memcpy(f.values + i * STRIDE, f.problem.x + (2 + i) * FEATURES, FEATURES * sizeof(float));
    }
    return f;
}

static void end(fixture *f)
{
    xsm_model_free(f->model);
    xsm_dataset_free(f->labels);
    test_problem_free(&f->problem);
}

static xsm_batch batch_of(const fixture *f, uint64_t n)
{
    xsm_batch batch = xsm_batch_values(f->values, n, FEATURES, STRIDE);
    batch.dataset = f->labels;
    batch.first = 2;
    return batch;
}

/* -- the gradient against differences ------------------------------------------------------------------------------ */

/* The minimum that an implicit step finds (input.c): its loss, its part of the ridge, and the distance moved. */
static double envelope(const fixture *f, const xsm_estimator *e, const xsm_gradient_view *g, const float *x, double eta,
                       double u_before)
{
    double u = ((const xsmi_double_sum *)e->state)->u[2];
    double sum = g->loss + (u - u_before) * (u - u_before) / (2 * eta);
    for (uint32_t j = 0; j < g->lengths[0]; j++) {
        const double c = (double)g->coefficients[j], s = g->shrinks[j];
        double moved = 0, after = 0;
        for (uint32_t d = 0; d < FEATURES; d++) {
            double before = test_weight(f->model, g->classes[j], d);
            double now = s * (before - eta * c * (double)x[d]);
            moved += (now - before) * (now - before);
            after += now * now;
        }
        moved += f->model->w.bias ? eta * c * eta * c : 0;
        sum += moved / (2 * eta) + (1 / s - 1) / (2 * eta) * after;
    }
    return sum;
}

/* The loss of a batch and, if wanted, its gradient: the same draws each time. */
static double loss_of(const fixture *f, xsm_estimator *e, uint64_t n, xsm_gradient *g, float *input_gradient)
{
    xsm_error err = XSM_ERROR_INIT;
    const double eta = 0.3;
    xsm_batch batch = batch_of(f, n);
    assert_ok(xsm_estimator_bind_labels(e, f->model, f->labels, &err), err);
    double u = e->ops.flags & XSM_ESTIMATOR_PROXIMAL ? ((const xsmi_double_sum *)e->state)->u[2] : 0;
    if (input_gradient) {
        assert_ok(xsm_estimator_gradient_input(e, &batch, eta, g, input_gradient, STRIDE, &err), err);
    } else {
        assert_ok(xsm_estimator_gradient(e, &batch, eta, g, &err), err);
    }
    xsm_gradient_view view = test_view(g);
    if (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) {
        assert_string_equal(e->ops.name, "implicit"); /* another one's minimum has to be written down above */
        return envelope(f, e, &view, f->values, eta, u);
    }
    return view.loss;
}

static void check_differences(fixture *f, const char *name, const char *options, uint64_t n)
{
    HELD(xsm_estimator, e) = test_estimator(NULL, name, options);
    HELD(xsm_gradient, g) = test_gradient(NULL);
    float found[BATCH * STRIDE];
    for (size_t i = 0; i < BATCH * STRIDE; i++) {
        found[i] = 77;
    }
    loss_of(f, e, n, g, found);
    const float h = 0x1p-7f;
    for (uint64_t i = 0; i < n; i++) {
        for (uint32_t d = 0; d < STRIDE; d++) {
            if (d >= FEATURES) {
                assert_true(found[i * STRIDE + d] == 77);
                continue;
            }
            static const float steps[4] = {-2, -1, 1, 2};
            float *at = &f->values[i * STRIDE + d], held = *at;
            double loss[4];
            volatile float moved[4];
            for (int s = 0; s < 4; s++) {
                moved[s] = *at = held + steps[s] * h;
                loss[s] = loss_of(f, e, n, g, NULL);
            }
            *at = held;
            double slope =
                (8 * (loss[2] - loss[1]) - (loss[3] - loss[0])) / (6 * ((double)moved[2] - (double)moved[1]));
            double got = (double)found[i * STRIDE + d];
            /* Scores are float32: a loss has that accuracy of itself. */
            if (!(fabs(slope - got) <= 3e-5 * (1 + fabs(slope)) + 1e-5 * fabs(loss[0]))) {
                fail_msg("%s %s, batch %llu: row %llu feature %u: differences say %.8g, the gradient %.8g", name,
                         options, (unsigned long long)n, (unsigned long long)i, d, slope, got);
            }
        }
    }
}

TEST(every_estimator_gives_the_gradient_of_its_loss)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        for (int kind = 0; kind < 4; kind++) {
            fixture f = start(kind & 1, XSM_LAYOUT_CLASS_MAJOR, NULL);
            char options[128];
            snprintf(options, sizeof options, "%s%s", test_smooth_options(ops->name), kind & 2 ? " ridge=0.7" : "");
            check_differences(&f, ops->name, options, 1);
            if (!ops->joint) {
                check_differences(&f, ops->name, options, BATCH);
            }
            end(&f);
        }
    }
}

TEST(scales_of_the_weights_count)
{
    fixture f = start(true, XSM_LAYOUT_CLASS_MAJOR, NULL);
    f.model->w.alpha = 0.75;
    check_differences(&f, "softmax", "", BATCH);
    check_differences(&f, "sampled-softmax", "negatives=3", BATCH);
    assert_ok(xsmi_model_need_row_scale(f.model, &err), err);
    for (uint32_t k = 0; k < CLASSES; k++) {
        f.model->w.row_scale[k] = 0.5 + 0.25 * k;
    }
    check_differences(&f, "softmax", "", BATCH);
    check_differences(&f, "ove", "negatives=3", BATCH);
    check_differences(&f, "implicit", "negatives=3 ridge=0.5 tolerance=1e-13", 1);
    end(&f);
    f = start(true, XSM_LAYOUT_FEATURE_MAJOR, NULL);
    f.model->w.alpha = 0.75;
    check_differences(&f, "softmax", "", BATCH);
    check_differences(&f, "sampled-softmax", "negatives=3", BATCH);
    end(&f);
}

/* -- the same as rows of a dataset --------------------------------------------------------------------------------- */

/* Trains by batches of the host's values, or of the dataset's own rows; returns the weights' hash. */
static uint64_t train(const char *name, const char *options, uint64_t n, bool own, uint32_t threads,
                      xsm_sampler *sampler)
{
    xsm_error err = XSM_ERROR_INIT;
    HELD(xsm_context, ctx) = test_context(threads, TEST_BUILT_IN, 0);
    fixture f = start(true, XSM_LAYOUT_CLASS_MAJOR, ctx);
    xsm_estimator *e = test_estimator(ctx, name, options);
    if (sampler) {
        assert_ok(xsm_estimator_set_sampler(e, sampler, &err), err);
    }
    assert_ok(own ? xsm_estimator_bind_labels(e, f.model, f.labels, &err)
                  : xsm_estimator_bind(e, f.model, f.problem.data, &err),
              err);
    xsm_gradient *g = test_gradient(ctx);
    xsm_optimizer *o = test_optimizer(ctx, f.model);
    float input[BATCH * STRIDE];
    for (int step = 0; step < 20; step++) {
        xsm_batch batch = own ? batch_of(&f, n) : xsm_batch_range(f.problem.data, 2, n);
        xsm_status status = own ? xsm_estimator_gradient_input(e, &batch, 0.01, g, input, STRIDE, &err)
                                : xsm_estimator_gradient(e, &batch, 0.01, g, &err);
        assert_ok(status, err);
        assert_ok(xsm_optimizer_apply(o, &batch, g, 0.01, &err), err);
    }
    uint64_t hash = test_hash(f.model);
    xsm_optimizer_free(o);
    xsm_gradient_free(g);
    xsm_estimator_free(e);
    end(&f);
    return hash;
}

TEST(values_train_as_rows_of_a_dataset_do)
{
    for (size_t i = 0; xsm_estimator_at(i); i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        uint64_t n = ops->joint ? 1 : BATCH;
        uint64_t want = train(ops->name, "ridge=0.5", n, false, 1, NULL);
        if (train(ops->name, "ridge=0.5", n, true, 1, NULL) != want ||
            train(ops->name, "ridge=0.5", n, true, 4, NULL) != want) {
            fail_msg("%s: the host's features train to other weights", ops->name);
        }
    }
}

TEST(a_sampler_that_looks_at_rows_looks_at_the_values)
{
    fixture f = start(true, XSM_LAYOUT_CLASS_MAJOR, NULL);
    xsm_sampler *tree = NULL;
    assert_ok(xsm_sampler_new(NULL, "tree", &tree, &err), err);
    assert_ok(xsm_sampler_bind(tree, f.problem.data, &err), err);
    uint64_t want = train("negative-sampling", "", BATCH, false, 1, tree);
    assert_true(train("negative-sampling", "", BATCH, true, 1, tree) == want);
    assert_true(train("negative-sampling", "", BATCH, true, 3, tree) == want);
    /* There is nothing to fit a tree to, or something else. */
    xsm_estimator *e = test_estimator(NULL, "negative-sampling", "sampler=tree");
    assert_fails(xsm_estimator_bind_labels(e, f.model, f.labels, &err), XSM_ERROR_UNSUPPORTED, err);
    test_problem wide = test_problem_new(ROWS, FEATURES + 1, CLASSES, false, 6);
    assert_fails(xsm_estimator_bind_labels(e, f.model, wide.data, &err), XSM_ERROR_SHAPE, err);
    test_problem_free(&wide);
    xsm_estimator_free(e);
    xsm_sampler_free(tree);
    end(&f);
}

/* Scores and predictions of values need no dataset. */
TEST(values_are_scored_and_predicted)
{
    fixture f = start(true, XSM_LAYOUT_CLASS_MAJOR, NULL);
    xsm_batch values = xsm_batch_values(f.values, BATCH, FEATURES, STRIDE);
    xsm_batch rows = xsm_batch_range(f.problem.data, 2, BATCH);
    float a[BATCH * CLASSES], b[BATCH * CLASSES];
    uint32_t classes[BATCH * 2], best[2][BATCH * 3];
    double probabilities[2][BATCH * 3];
    for (uint32_t i = 0; i < BATCH * 2; i++) {
        classes[i] = i % CLASSES;
    }
    assert_ok(xsm_model_scores(f.model, &values, classes, 2, a, &err), err);
    assert_ok(xsm_model_scores(f.model, &rows, classes, 2, b, &err), err);
    assert_memory_equal(a, b, BATCH * 2 * sizeof *a);
    assert_ok(xsm_model_score_range(f.model, &values, 0, CLASSES, a, CLASSES, &err), err);
    assert_ok(xsm_model_score_range(f.model, &rows, 0, CLASSES, b, CLASSES, &err), err);
    assert_memory_equal(a, b, sizeof a);
    NEW(xsm_predictor, p, xsm_predictor_new(f.model, STRUCT(xsm_predictor_options, .top = 3), &p, &err));
    assert_ok(test_predict(p, &values, best[0], NULL, probabilities[0], &err), err);
    assert_ok(test_predict(p, &rows, best[1], NULL, probabilities[1], &err), err);
    assert_memory_equal(best[0], best[1], sizeof best[0]);
    assert_memory_equal(probabilities[0], probabilities[1], sizeof probabilities[0]);
    xsm_predictor_free(p);
    end(&f);
}

/* -- what is refused ----------------------------------------------------------------------------------------------- */

TEST(what_cannot_be_is_refused)
{
    fixture f = start(false, XSM_LAYOUT_CLASS_MAJOR, NULL);
    xsm_estimator *e = test_estimator(NULL, "softmax", "");
    xsm_gradient *g = test_gradient(NULL);
    float out[BATCH * STRIDE];
    assert_fails(xsm_estimator_bind(e, f.model, f.labels, &err), XSM_ERROR_SHAPE, err);
    assert_fails(xsm_estimator_bind_labels(e, f.model, NULL, &err), XSM_ERROR_ARGUMENT, err);
    assert_ok(xsm_estimator_bind_labels(e, f.model, f.labels, &err), err);
    xsm_batch batch = batch_of(&f, BATCH);
    assert_fails(xsm_estimator_gradient_input(e, &batch, 1, g, NULL, STRIDE, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_gradient_input(NULL, &batch, 1, g, out, STRIDE, &err), XSM_ERROR_ARGUMENT, err);
    assert_fails(xsm_estimator_gradient_input(e, &batch, 1, g, out, FEATURES - 1, &err), XSM_ERROR_SHAPE, err);
    batch.values = NULL;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    assert_non_null(strstr(err.message, "values"));
    batch = batch_of(&f, BATCH);
    batch.dataset = NULL;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    batch.dataset = f.problem.data;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_ARGUMENT, err);
    batch = batch_of(&f, BATCH);
    batch.features = FEATURES + 1;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_SHAPE, err);
    batch = batch_of(&f, BATCH);
    batch.stride = FEATURES - 1;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_SHAPE, err);
    batch = batch_of(&f, BATCH);
    batch.stride = SIZE_MAX / 8;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_RANGE, err);
    batch = batch_of(&f, BATCH);
    batch.first = ROWS - BATCH + 1;
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_RANGE, err);
    f.values[STRIDE + 3] = NAN;
    batch = batch_of(&f, BATCH);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_RANGE, err);
    assert_non_null(strstr(err.message, "row 1, feature 3"));
    f.values[STRIDE + 3] = 1e30f;
    batch = batch_of(&f, BATCH);
    assert_fails(xsm_estimator_gradient_input(e, &batch, 1, g, out, STRIDE, &err), XSM_ERROR_DIVERGED, err);
    assert_true(test_view(g).examples == 0);
    xsm_estimator_free(e);
    end(&f);

    /* Batches that are taken as wholes. */
    f = start(false, XSM_LAYOUT_CLASS_MAJOR, NULL);
    e = test_estimator(NULL, "implicit", "");
    assert_ok(xsm_estimator_bind_labels(e, f.model, f.labels, &err), err);
    batch = batch_of(&f, BATCH);
    assert_fails(xsm_estimator_gradient(e, &batch, 1, g, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_ok(xsm_estimator_bind(e, f.model, f.problem.data, &err), err);
    batch = xsm_batch_range(f.problem.data, 0, 3);
    assert_fails(xsm_estimator_gradient_input(e, &batch, 1, g, out, STRIDE, &err), XSM_ERROR_UNSUPPORTED, err);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    xsm_estimator_free(e);
    xsm_gradient_free(g);
    end(&f);
}

/* A gradient that is too large to be one is divergence, though loss and coefficients are finite. */
TEST(an_input_gradient_that_overflows_is_divergence)
{
    fixture f = start(false, XSM_LAYOUT_CLASS_MAJOR, NULL);
    xsm_estimator *e = test_estimator(NULL, "one-vs-all", "");
    xsm_gradient *g = test_gradient(NULL);
    float out[BATCH * STRIDE];
    xsm_parameters w = XSM_PARAMETERS_INIT;
    assert_ok(xsm_model_get_parameters(f.model, &w, &err), err);
    for (uint32_t k = 0; k < CLASSES; k++) {
        w.weight[k * w.class_step] = 3e38f;
    }
    memset(f.values, 0, sizeof f.values); /* scores of 0 */
    xsm_batch batch = batch_of(&f, 2);
    assert_ok(xsm_estimator_bind_labels(e, f.model, f.labels, &err), err);
    assert_ok(xsm_estimator_gradient(e, &batch, 1, g, &err), err);
    xsm_status status = xsm_estimator_gradient_input(e, &batch, 1, g, out, STRIDE, &err);
    assert_int_equal(status, XSM_ERROR_DIVERGED);
    xsm_estimator_free(e);
    xsm_gradient_free(g);
    end(&f);
}

static xsm_status take_gradient(void *state, xsm_context *ctx, xsm_error *err)
{
    fixture *f = state;
    HELD(xsm_estimator, e) = NULL;
    HELD(xsm_gradient, g) = NULL;
    HELD(xsm_sampler, tree) = NULL;
    float out[BATCH * STRIDE];
    xsm_batch batch = batch_of(f, BATCH);
    xsm_status status = xsm_estimator_new(ctx, "ove-sampled", &e, err);
    status = status == XSM_OK ? xsm_gradient_new(ctx, &g, err) : status;
    status = status == XSM_OK ? xsm_sampler_new(ctx, "tree", &tree, err) : status;
    status = status == XSM_OK ? xsm_sampler_bind(tree, f->problem.data, err) : status;
    status = status == XSM_OK ? xsm_estimator_set_sampler(e, tree, err) : status;
    status = status == XSM_OK ? xsm_estimator_bind_labels(e, f->model, f->labels, err) : status;
    status = status == XSM_OK ? xsm_estimator_gradient_input(e, &batch, 0.1, g, out, STRIDE, err) : status;
    return status;
}

TEST(every_allocation_may_fail)
{
    fixture f = start(true, XSM_LAYOUT_CLASS_MAJOR, NULL);
    assert_true(test_every_allocation(take_gradient, &f) > 8);
    end(&f);
}
