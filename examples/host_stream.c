/*
 * Training on an endless stream: items are shown to users, who choose one; each event is first predicted, then learned,
 * then discarded. There is no dataset. The same users return, so U-max keeps a value for each user, identified by the
 * user's id. Sometimes new items appear, and the model grows during training.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <xsoftmax.h>

enum { USERS = 500, FEATURES = 24, START = 100, MORE = 50, TIMES = 3, EVENTS = 20000 };

static void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "host_stream: %s\n", err->message);
        exit(1);
    }
}

/* A random number in [0, 1), the same on every machine. */
static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

/* A user prefers a few features, and the items that have them. A user chooses one of three items. */
static uint32_t event(uint64_t *state, uint32_t items, uint64_t *user, uint32_t *index, float *values)
{
    *user = (uint64_t)(uniform(state) * USERS);
    uint32_t each = FEATURES / 4, item = (uint32_t)((*user * 7 + (uint64_t)(uniform(state) * 3) * 31) % items);
    for (uint32_t j = 0; j < 4; j++) { /* one feature in each quarter, chosen by the item, with noise */
        uint32_t chosen = (item * 2654435761u >> (5 * j)) % each;
        index[j] = j * each + (uniform(state) < 0.1 ? (uint32_t)(uniform(state) * each) : chosen);
        values[j] = 0.5f;
    }
    return item;
}

int main(void)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model_options bias = XSM_MODEL_OPTIONS_INIT;
    xsm_stream_options stream = XSM_STREAM_OPTIONS_INIT;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    uint64_t state = 11;
    double last = 1;
    bias.bias = 1;
    stream.ids = USERS;
    check(xsm_model_new_linear(NULL, FEATURES, START, &bias, &model, &err), &err);
    check(xsm_estimator_new(NULL, "umax", &estimator, &err), &err);
    check(xsm_estimator_set(estimator, "negatives", "10", &err), &err);
    check(xsm_optimizer_new(NULL, "sgd", &optimizer, &err), &err);
    check(xsm_gradient_new(NULL, &gradient, &err), &err);
    printf("%8s %10s %22s\n", "items", "events", "right before learning");
    for (uint32_t time = 0; time < TIMES; time++) {
        uint32_t items = START + time * MORE;
        if (time > 0) { /* new items: their weights are zero, and the other items keep theirs */
            xsm_class_map map = XSM_CLASS_MAP_INIT;
            map.classes = items;
            check(xsm_model_grow(model, FEATURES, &map, &err), &err);
        }
        /* All objects bound to the model are bound again; what the estimator keeps for the users' ids is preserved. */
        check(xsm_estimator_bind_stream(estimator, model, &stream, &err), &err);
        check(xsm_optimizer_bind(optimizer, model, &err), &err);
        xsm_predictor_options best = XSM_PREDICTOR_OPTIONS_INIT;
        xsm_predictor *predictor;
        best.top = 1;
        check(xsm_predictor_new(model, &best, &predictor, &err), &err);
        for (uint32_t quarter = 0; quarter < 4; quarter++) {
            uint32_t right = 0;
            for (uint32_t i = 0; i < EVENTS / 4; i++) {
                const uint64_t offsets[2] = {0, 4};
                uint64_t user;
                uint32_t index[4], guess;
                float values[4];
                uint32_t item = event(&state, items, &user, index, values);
                xsm_batch batch = xsm_batch_sparse_values(offsets, index, values, 1, FEATURES);
                check(xsm_predictor_run(
                          predictor,
                          &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = &guess}, &err),
                      &err);
                right += guess == item;
                batch.labels = &item;
                batch.ids = &user;
                check(xsm_estimator_gradient(estimator, &batch, 0.5, gradient, &err), &err);
                check(xsm_optimizer_apply(optimizer, &batch, gradient, 0.5, &err), &err);
            }
            last = (double)right / (EVENTS / 4);
            printf("%8u %10u %20.1f %%\n", items, time * EVENTS + (quarter + 1) * EVENTS / 4, 100 * last);
        }
        xsm_predictor_free(predictor);
    }
    xsm_gradient_free(gradient);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_model_free(model);
    return last > 0.3 ? 0 : 1;
}
