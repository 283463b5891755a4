/*
 * The search for a number on a logarithmic scale, whose grid points are integers: a learning rate or an L2 penalty.
 */
#ifndef XSMI_SEARCH_H
#define XSMI_SEARCH_H

#include "base/base.h"

#include <limits.h>

enum { XSMI_SEARCH_ROUNDS = 3, XSMI_SEARCH_POINTS = 31, XSMI_NOWHERE = INT_MIN };

/* What is searched. The callbacks have `user` as their first argument. */
typedef struct xsmi_scale {
    int least, most; /* the points that exist, at most XSMI_SEARCH_POINTS */
    int first, last; /* the points of the first round */
    uint32_t rounds; /* at most XSMI_SEARCH_ROUNDS */
    /* Is called before the trials of a round; or NULL. */
    xsm_status (*begin)(void *user, uint32_t round, xsm_error *err);
    /* Makes a trial. Lower values are better; infinite: it diverged, or the caller does not want it. */
    xsm_status (*attempt)(void *user, int point, double *value, xsm_error *err);
    /* Whether that point may be tried: `planned`, as a neighbour of the best of the last round; otherwise beyond the
     * ends. */
    bool (*allows)(void *user, int point, bool planned);
} xsmi_scale;

typedef struct xsmi_scale_search {
    const xsmi_scale *scale;
    void *user;
    uint32_t round;               /* from 0 */
    int low, high;                /* the points that the round has tried */
    int best[XSMI_SEARCH_ROUNDS]; /* the best points, of equal ones the lowest; XSMI_NOWHERE = all diverged */
    double value[XSMI_SEARCH_ROUNDS][XSMI_SEARCH_POINTS];
} xsmi_scale_search;

/* Runs the rounds; ends after a round whose trials all diverged. */
xsm_status xsmi_scale_search_run(xsmi_scale_search *s, const xsmi_scale *scale, void *user, xsm_error *err);
/* Returns the value of a trial; infinite if there was none. */
double xsmi_scale_search_value(const xsmi_scale_search *s, uint32_t round, int point);
/* Returns the neighbour of a round's best point that has the lower value. */
int xsmi_scale_search_second(const xsmi_scale_search *s, uint32_t round);

#endif
