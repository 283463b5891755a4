/*
 * Sums over the rows of an evaluation whose bits do not depend on the threads: each job adds the numbers of its rows,
 * and these are added in the order of the jobs, after rounds of some jobs each.
 */
#ifndef XSMI_ROUNDS_H
#define XSMI_ROUNDS_H

#include "base/base.h"
#include "base/held.h"

/* The most numbers that are stored before they are added, 64 MiB, so that not every job needs memory. */
#define XSMI_ROUND_NUMBERS ((size_t)1 << 23)
/* Jobs of a round, at least. */
#define XSMI_ROUND_JOBS ((size_t)16)

typedef struct xsmi_rounds {
    xsmi_held held;  /* the arrays, which the caller releases, after a failure, too */
    uint64_t rows;   /* all; the caller sets it and the next two */
    size_t job_rows; /* of a job */
    size_t each;     /* numbers of a job */
    size_t jobs;     /* all */
    size_t round;    /* the most jobs in a round */
    size_t first;    /* first job of the present round */
    double *numbers; /* [round][each] set to zero when a round begins */
    double *sums;    /* [each] of all rounds so far */
} xsmi_rounds;

xsm_status xsmi_rounds_start(xsm_context *ctx, xsmi_rounds *r, xsm_error *err);
/* Runs all jobs, with indices and rows of all rounds. */
xsm_status xsmi_rounds_run(xsm_context *ctx, xsmi_rounds *r, xsmi_range_job job, void *state, xsm_error *err);
/* Returns the numbers of a job. */
static inline double *xsmi_rounds_numbers(const xsmi_rounds *r, size_t index)
{
    return r->numbers + (index - r->first) * r->each;
}

#endif
