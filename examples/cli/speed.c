/* What a model costs its users: the bytes of its weights, and the time of a prediction. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 1000 };
/* Seconds after which no further row is predicted. */
#define MOST_SECONDS 0.05

double cli_model_bytes(const xsm_model *model)
{
    const xsm_model_info about = cli_model_info(model);
    const double each = about.hidden && !about.tied ? cli_type_of(about.dtype)->bytes : 0;
    return (double)about.bytes + each * about.hidden * about.features;
}

double cli_prediction_seconds(const xsm_model *model, const xsm_dataset *rows, uint32_t beam)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor *predictor = NULL;
    xsm_dataset_info about = XSM_DATASET_INFO_INIT;
    uint32_t classes[5];
    float scores[5];
    double began = 0, seconds = (double)NAN;
    options.beam = beam;
    if (cli_group || xsm_dataset_get_info(rows, &about, NULL) != XSM_OK ||
        xsm_predictor_new(model, &options, &predictor, NULL) != XSM_OK) {
        return seconds;
    }
    /* The first row warms up. */
    for (uint64_t i = 0; i <= MOST_ROWS; i++) {
        const xsm_batch batch = xsm_batch_range(rows, i * 7919 % about.rows, 1);
        xsm_prediction p = XSM_PREDICTION_INIT;
        p.batch = &batch;
        p.classes = classes;
        p.scores = scores;
        if (xsm_predictor_run(predictor, &p, NULL) != XSM_OK) {
            seconds = (double)NAN;
            break;
        }
        const double now = cli_clock();
        began = i == 0 ? now : began;
        seconds = i == 0 ? seconds : (now - began) / (double)i;
        if (i > 0 && now - began > MOST_SECONDS) {
            break;
        }
    }
    xsm_predictor_free(predictor);
    return seconds;
}
