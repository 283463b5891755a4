/* A program outside the tree, built and run by check_consumer.py. */
#include <stdio.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/ext/estimator.h>

int main(void)
{
    if (xsm_version() != XSM_VERSION || xsm_abi_version() != XSM_ABI_VERSION) {
        fprintf(stderr, "built against another release than it runs with\n");
        return 1;
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *context = NULL;
    if (xsm_context_new(NULL, &context, &err) != XSM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    /* An error comes back in words, and leaves the output alone. */
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.cpu_disable = 1u << 31;
    xsm_context *other = NULL;
    if (xsm_context_new(&options, &other, &err) != XSM_ERROR_RANGE || !strstr(err.message, "cpu_disable") || other) {
        fprintf(stderr, "an option that does not exist was not refused\n");
        return 1;
    }
    /* Three classes that differ in one feature each: data, training, prediction. */
    enum { ROWS = 30, CLASSES = 3 };
    float values[ROWS][CLASSES] = {{0}};
    uint32_t labels[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        values[i][labels[i]] = 1;
    }
    xsm_labels described = {sizeof described, CLASSES, 0, NULL, labels, NULL};
    xsm_trainer_options training = XSM_TRAINER_OPTIONS_INIT;
    xsm_predictor_options best = XSM_PREDICTOR_OPTIONS_INIT;
    best.top = 1;
    xsm_dataset *rows = NULL;
    xsm_model *model = NULL;
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    xsm_predictor *predictor = NULL;
    uint32_t found[ROWS];
    xsm_status status = xsm_dataset_from_dense(context,
                                               &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                                 .values = &values[0][0],
                                                                 .rows = ROWS,
                                                                 .features = CLASSES,
                                                                 .labels = &described},
                                               &rows, &err);
    xsm_batch all = xsm_batch_range(rows, 0, ROWS);
    if (status || xsm_model_new_linear(context, CLASSES, CLASSES, NULL, &model, &err) ||
        xsm_estimator_new(context, "implicit", &estimator, &err) ||
        xsm_optimizer_new(context, "sgd", &optimizer, &err) ||
        xsm_trainer_new(context, model, rows, estimator, optimizer, &training, &trainer, &err) ||
        xsm_trainer_run(trainer, &err) || xsm_predictor_new(model, &best, &predictor, &err) ||
        xsm_predictor_run(predictor, &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &all, .classes = found},
                          &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        if (found[i] != labels[i]) {
            fprintf(stderr, "row %u was not learned\n", (unsigned)i);
            return 1;
        }
    }
    xsm_model *loaded = NULL;
    if (xsm_model_save(model, "consumer.safetensors", NULL, &err) ||
        xsm_model_load(context, "consumer.safetensors", NULL, NULL, &loaded, &err) ||
        xsm_model_class_count(loaded) != CLASSES || remove("consumer.safetensors") != 0) {
        fprintf(stderr, "the model was not saved and loaded: %s\n", err.message);
        return 1;
    }
    xsm_model_free(loaded);
    xsm_predictor_free(predictor);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_model_free(model);
    xsm_dataset_free(rows);
    xsm_context_info info = XSM_CONTEXT_INFO_INIT;
    (void)xsm_context_get_info(context, &info, NULL);
    printf("libxsoftmax %s, %s\n", xsm_version_string(), info.instruction_set);
    xsm_context_free(context);
    return 0;
}
