/*
 * Small problems for the conformance suites.
 */
#ifndef XSMI_CHECK_MADE_ROWS_H
#define XSMI_CHECK_MADE_ROWS_H

#include "data/dataset.h"

typedef struct xsmi_trial_shape {
    uint64_t rows;
    uint32_t features, classes;
    bool sparse;  /* about a third of the features of each row */
    bool several; /* up to three labels a row, and one row with all classes but the last */
} xsmi_trial_shape;

/* Makes rows whose features depend on their label. Labels have uneven frequencies; with three classes or more the last
 * has no rows. Row 1 is all zeros. The same shape gives the same rows. */
xsm_status xsmi_trial_data(xsm_context *ctx, const xsmi_trial_shape *shape, xsm_dataset **out, xsm_error *err);

#endif
