/*
 * The internal interface of calibration, for callers that judge many models.
 */
#ifndef XSMI_CALIBRATE_H
#define XSMI_CALIBRATE_H

#include "model/score.h"

#include <xsoftmax/calibrate.h>

/* Fits a calibration to at most `most` rows (0 = all) and leaves the model as it is; a calibration that it has is not
 * looked at. `once`: the temperature is found in a single pass as a rule, to a hundredth. *precision, unless
 * `precision` is NULL, gets P@1: only for a temperature, of a model that is neither a label tree nor divided among
 * ranks. */
xsm_status xsmi_calibrate(xsm_context *ctx, const xsm_model *model, const xsm_dataset *rows, int32_t method,
                          uint64_t most, bool once, double *precision, xsm_calibrate_result *r, xsm_error *err);

#endif
