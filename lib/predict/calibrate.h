/*
 * The internal interface of calibration, for callers that judge many models.
 */
#ifndef XSMI_CALIBRATE_H
#define XSMI_CALIBRATE_H

#include "model/score.h"
#include "predict/evaluate.h"

#include <xsoftmax/calibrate.h>

/* Fits a calibration to at most `most` rows (0 = all) and leaves the model as it is; a calibration that it has is not
 * looked at. `once`: the temperature is found in a single pass, to a hundredth, from a quarter to four. `each`, [rows],
 * gets the log-losses of all rows, which have a known label, after calibration, and their precision: only for a
 * temperature, of a model in one process that is no label tree; else NULL. */
xsm_status xsmi_calibrate(xsm_context *ctx, const xsm_model *model, const xsm_dataset *rows, int32_t method,
                          uint64_t most, bool once, xsmi_row_outcome *each, xsm_calibrate_result *r, xsm_error *err);

#endif
