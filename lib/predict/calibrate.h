/*
 * The internal interface of calibration, for callers that judge many models.
 */
#ifndef XSMI_CALIBRATE_H
#define XSMI_CALIBRATE_H

#include "model/score.h"
#include "predict/evaluate.h"

#include <xsoftmax/calibrate.h>

/* The factors of the scores of a single pass: powers of the root of two from a quarter to four. */
enum { XSMI_CALIBRATE_FACTORS = 9 };

/* Fits a calibration to at most `most` rows (0 = all). The model does not change, and a calibration that it has is
 * ignored. `once`, or NULL: the temperature is found in a single pass, to a hundredth, between a quarter and four, and
 * `once`, [XSMI_CALIBRATE_FACTORS], gets the mean log-losses at these factors. `each`, [rows], or NULL, gets the
 * log-loss after calibration and the precision of each row, all of which must have a known label: only for a
 * temperature of a model that is in one process and no label tree. */
xsm_status xsmi_calibrate(xsm_context *ctx, const xsm_model *model, const xsm_dataset *rows, int32_t method,
                          uint64_t most, double *once, xsmi_row_outcome *each, xsm_calibrate_result *r, xsm_error *err);
/* Returns the factor with the least of the losses at these factors, interpolated. */
double xsmi_calibrate_least(const double *losses);

#endif
