/*
 * A host with its own training loop: it selects the rows, calls an estimator for the classes to change and the amounts,
 * and changes the weights, once with the library's optimizer and once with its own code. Both give the same weights.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <xsoftmax.h>

enum { CLASSES = 200, FEATURES = 16, ROWS = 4000, STEPS = 40000 };

static void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "host_loop: %s\n", err->message);
        exit(1);
    }
}

/* A random number below `bound`, the same on every machine. */
static uint32_t draw(uint64_t *state, uint32_t bound)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 33) % bound);
}

/* The step that xsm_gradient_view describes, for one example with the features x. */
static void apply_by_hand(const xsm_parameters *p, const xsm_gradient_view *g, const float *x, float eta)
{
    uint64_t count = g->lengths ? g->lengths[0] : g->width;
    for (uint64_t i = 0; i < count; i++) { /* the example changes a few classes ... */
        uint32_t k = g->classes ? g->classes[i] : (uint32_t)i;
        float step = eta * g->coefficients[i];
        double shrink = g->shrinks ? g->shrinks[i] : 1;
        for (uint32_t j = 0; j < p->features; j++) {
            float *w = &p->weight[k * p->class_step + j * p->feature_step];
            *w = (float)(shrink * (double)(*w - step * x[j]));
        }
        if (p->bias) {
            p->bias[k] -= step;
        }
    }
    for (uint32_t k = 0; g->decay != 1 && k < p->classes; k++) { /* ... and then the L2 penalty all of them */
        for (uint32_t j = 0; j < p->features; j++) {
            p->weight[k * p->class_step + j * p->feature_step] *= (float)g->decay;
        }
    }
}

/* A model, its estimator and its optimizer. Equal seeds draw equal classes. */
static void make(const xsm_dataset *data, xsm_model **model, xsm_estimator **estimator)
{
    xsm_error err = XSM_ERROR_INIT;
    check(xsm_model_new_linear(NULL, FEATURES, CLASSES, NULL, model, &err), &err);
    check(xsm_estimator_new(NULL, "implicit", estimator, &err), &err);
    check(xsm_estimator_set(*estimator, "negatives", "5", &err), &err);
    check(xsm_estimator_set(*estimator, "seed", "1", &err), &err);
    check(xsm_estimator_bind(*estimator, *model, data, &err), &err);
}

int main(void)
{
    static float values[ROWS][FEATURES];
    static uint32_t classes[ROWS];
    uint64_t random = 7;
    for (size_t i = 0; i < ROWS; i++) { /* for class k a few features, chosen by k, have large values */
        classes[i] = draw(&random, CLASSES);
        for (uint32_t j = 0; j < FEATURES; j++) {
            uint32_t chosen = (classes[i] * 2654435761u) >> j & 1;
            values[i][j] = (float)chosen - 0.5f + (float)draw(&random, 1000) / 2000.0f;
        }
    }

    xsm_error err = XSM_ERROR_INIT;
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = CLASSES;
    labels.labels = classes;
    xsm_dataset *data;
    xsm_model *model, *by_hand;
    xsm_estimator *estimator, *twin;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    xsm_parameters weights = XSM_PARAMETERS_INIT, own = XSM_PARAMETERS_INIT;
    check(xsm_dataset_from_dense(NULL,
                                 &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                   .values = values[0],
                                                   .rows = ROWS,
                                                   .features = FEATURES,
                                                   .labels = &labels,
                                                   .ownership = XSM_BORROW},
                                 &data, &err),
          &err);
    make(data, &model, &estimator);
    make(data, &by_hand, &twin);
    check(xsm_optimizer_new(NULL, "sgd", &optimizer, &err), &err);
    check(xsm_optimizer_bind(optimizer, model, &err), &err);
    check(xsm_gradient_new(NULL, &gradient, &err), &err);
    check(xsm_model_get_parameters(by_hand, &own, &err), &err); /* the host may write to these weights */

    for (uint64_t t = 0; t < STEPS; t++) {
        uint64_t row = draw(&random, ROWS); /* the host may choose any rows */
        double eta = 1.0 / (1.0 + (double)t / ROWS);
        xsm_batch batch = xsm_batch_rows(data, &row, 1);

        /* The library applies the gradient ... */
        check(xsm_estimator_gradient(estimator, &batch, eta, gradient, &err), &err);
        check(xsm_optimizer_apply(optimizer, &batch, gradient, eta, &err), &err);

        /* ... or the host does so. */
        xsm_gradient_view view = XSM_GRADIENT_VIEW_INIT;
        check(xsm_estimator_gradient(twin, &batch, eta, gradient, &err), &err);
        check(xsm_gradient_get_view(gradient, &view, &err), &err);
        apply_by_hand(&own, &view, values[row], (float)eta);
    }

    float furthest = 0;
    xsm_metrics metrics = XSM_METRICS_INIT;
    check(xsm_model_get_parameters(model, &weights, &err), &err);
    for (uint32_t k = 0; k < CLASSES; k++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            furthest = fmaxf(furthest, fabsf(weights.weight[k * weights.class_step + j * weights.feature_step] -
                                             own.weight[k * own.class_step + j * own.feature_step]));
        }
    }
    check(xsm_evaluate(NULL, model, data, NULL, &metrics, &err), &err);
    printf("after %d steps: log-loss %.3f (%.3f before), error %.1f %%\n", STEPS, metrics.log_loss, log(CLASSES),
           100 * metrics.error);
    printf("the library's weights and the host's own differ by at most %.1g\n", (double)furthest);

    xsm_gradient_free(gradient);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(twin);
    xsm_estimator_free(estimator);
    xsm_model_free(by_hand);
    xsm_model_free(model);
    xsm_dataset_free(data);
    return furthest < 1e-4f ? 0 : 1;
}
