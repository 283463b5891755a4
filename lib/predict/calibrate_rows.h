/*
 * One pass over the rows of a calibration. It computes all that is needed from the scores, which are not stored: the
 * log-losses at several factors, or the derivatives by both numbers. Jobs have fixed rows, and their sums are added in
 * the order of the rows, so that the result does not depend on the threads.
 */
#ifndef XSMI_CALIBRATE_ROWS_H
#define XSMI_CALIBRATE_ROWS_H

#include "math/platt.h"
#include "model/score.h"
#include "predict/bins.h"
#include "predict/evaluate.h"
#include "predict/sample.h"

#include <xsoftmax/calibrate.h>

/* Rows of a job. */
#define XSMI_CALIBRATE_ROWS XSMI_TILE_ROWS
/* Factors of a pass: one in the middle, and XSMI_STEPS on each side, up to the neighbours of the best one in the pass
 * before. */
enum { XSMI_STEPS = 4, XSMI_POINTS = 2 * XSMI_STEPS + 1 };

/* What a pass computes. */
enum {
    XSMI_PASS_FACTORS,  /* the log-losses with XSM_CALIBRATION_TEMPERATURE at all factors */
    XSMI_PASS_BRANCHES, /* the sums of math/platt.h with XSM_CALIBRATION_LABELS at the first point */
    XSMI_PASS_JUDGE     /* of label trees: the log-losses of the job's method at all points, and the bins */
};

typedef struct xsmi_calibrate_sums {
    double sums[XSMI_POINTS]; /* the first XSMI_PLATT_SUMS for XSMI_PASS_BRANCHES; each row is multiplied by its
                                 weight */
    double weight;            /* of the rows with a known label */
    uint64_t rows;            /* their number */
    uint64_t failed;          /* first row whose scores are not finite, or UINT64_MAX */
    /* Label trees: over rows with any label, by point and bin, the sum of the best class's probability less 1 if it is
     * a label. */
    double gap[XSMI_POINTS][XSMI_BINS];
    double labelled; /* the weight of these rows */
} xsmi_calibrate_sums;

typedef struct xsmi_calibrate_job xsmi_calibrate_job;

/* How a pass gets at scores. */
typedef struct xsmi_calibrate_way {
    xsmi_range_job run;                               /* of up to XSMI_CALIBRATE_ROWS rows */
    size_t (*scratch)(const xsmi_calibrate_job *job); /* bytes of a thread */
    bool (*judges)(const xsmi_calibrate_job *job);    /* whether XSMI_PASS_JUDGE ends the fit; NULL: never */
} xsmi_calibrate_way;
extern const xsmi_calibrate_way xsmi_calibrate_all;      /* of all classes */
extern const xsmi_calibrate_way xsmi_calibrate_searched; /* of those found in label trees (calibrate_trees.c) */

struct xsmi_calibrate_job {
    xsm_context *context;
    const xsmi_calibrate_way *way;
    const xsm_model *model;
    const xsm_dataset *dataset;
    uint64_t rows; /* of the sample */
    int32_t method;
    int32_t pass;                  /* XSMI_PASS_* */
    float points[XSMI_POINTS];     /* factors */
    float shifts[XSMI_POINTS];     /* shifts, for XSM_CALIBRATION_LABELS */
    xsmi_row_outcome *each;        /* [rows] gets outcomes; NULL: they are not needed */
    double (*losses)[XSMI_POINTS]; /* [rows] log-losses at all factors, with `each` */
    uint64_t labelled;             /* rows with a known label, in the last XSMI_PASS_BRANCHES */
    size_t jobs;
    xsmi_calibrate_sums *partials; /* [jobs] */
    unsigned char *scratch;        /* [threads][scratch_each] */
    size_t scratch_each;
};

static inline uint64_t xsmi_calibrate_row(const xsmi_calibrate_job *job, uint64_t i)
{
    return xsmi_sample_row(job->dataset->rows, job->rows, i);
}

/* Returns the number of sums over all classes that a pass makes for each row. */
static inline size_t xsmi_calibrate_numbers(const xsmi_calibrate_job *job)
{
    return job->method == XSM_CALIBRATION_LABELS ? (size_t)XSMI_PLATT_SUMS : XSMI_POINTS;
}

#endif
