/*
 * A host that answers requests, one line of text each: an encoder turns the line into features by the model's own
 * vocabulary and transform, and a predictor finds the best classes. Neither allocates once it has seen the longest
 * line. Trains a small model first, on lines that are written below.
 *
 *     host_requests [LINE...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/encoder.h>

static const char *const training[] = {
    "__label__animal the cat sleeps on the mat",
    "__label__animal a dog barks at the cat",
    "__label__animal birds sing in the tree",
    "__label__food bread and butter for breakfast",
    "__label__food soup with bread",
    "__label__food an apple a day",
    "__label__travel the train to the sea",
    "__label__travel a flight over the sea",
    "__label__travel walking to the station",
};
enum { LINES = sizeof training / sizeof *training, TOP = 2 };

static void check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "host_requests: %s\n", err->message);
        exit(1);
    }
}

/* Hands out a line a call. */
static int64_t read_line(void *user, void *buffer, size_t size)
{
    size_t *line = user;
    return *line < LINES ? snprintf(buffer, size, "%s\n", training[(*line)++]) : 0;
}

/* Trains a model that carries vocabulary and transform, as a model file of `xsoftmax train` does. */
static xsm_model *make_model(void)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_trainer_options how = XSM_TRAINER_OPTIONS_INIT;
    xsm_dataset *rows;
    xsm_transform *transform;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    size_t line = 0;
    how.epochs = 50;
    how.eta = 1;
    read.format = XSM_FORMAT_TEXT;
    check(xsm_dataset_read(NULL, NULL,
                           &(xsm_storage){.size = sizeof(xsm_storage),
                                          .name = "training",
                                          .source = &(xsm_source){sizeof(xsm_source), &line, read_line}},
                           &read, &rows, &err),
          &err);
    check(xsm_dataset_get_class_map(rows, &map, &err), &err);
    check(xsm_transform_new(NULL, "tfidf,unit", &transform, &err), &err);
    check(xsm_transform_fit(transform, rows, &err), &err);
    check(xsm_transform_apply(transform, rows, &err), &err);
    check(xsm_model_new_linear(NULL, map.features, map.classes, NULL, &model, &err), &err);
    check(xsm_model_set_transform(model, transform, &err), &err);
    check(xsm_model_set_class_map(model, &map, &err), &err);
    check(xsm_estimator_new(NULL, "softmax", &estimator, &err), &err);
    check(xsm_optimizer_new(NULL, "sgd", &optimizer, &err), &err);
    check(xsm_trainer_new(NULL, model, rows, estimator, optimizer, &how, &trainer, &err), &err);
    check(xsm_trainer_run(trainer, &err), &err);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_transform_free(transform);
    xsm_dataset_free(rows);
    return model;
}

int main(int argc, char **argv)
{
    static const char *const some[] = {"a cat in the tree", "bread for the train", "the sea"};
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_encoder *encoder;
    xsm_predictor *predictor;
    xsm_model *model = make_model();
    options.top = TOP;
    check(xsm_model_get_class_map(model, &map, &err), &err);
    check(xsm_encoder_new(model, NULL, &encoder, &err), &err);
    check(xsm_predictor_new(model, &options, &predictor, &err), &err);
    const int lines = argc > 1 ? argc - 1 : (int)(sizeof some / sizeof *some);
    for (int i = 0; i < lines; i++) {
        const char *line = argc > 1 ? argv[i + 1] : some[i];
        uint32_t classes[TOP];
        double probabilities[TOP];
        xsm_prediction answer = XSM_PREDICTION_INIT;
        answer.classes = classes;
        answer.probabilities = probabilities;
        check(xsm_encoder_predict(encoder, line, strlen(line), predictor, &answer, &err), &err);
        printf("%s:", line);
        for (int k = 0; k < TOP; k++) {
            printf(" %s %.2f", map.names[classes[k]], probabilities[k]);
        }
        putchar('\n');
    }
    xsm_predictor_free(predictor);
    xsm_encoder_free(encoder);
    xsm_model_free(model);
    return 0;
}
