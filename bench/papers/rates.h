/*
 * The choice of a learning rate from a grid that is widened until the best rate lies inside of it.
 */
#ifndef PAPERS_RATES_H
#define PAPERS_RATES_H

#include "papers.h"

enum { RATES_MOST = 48 };

/* Powers of ten (1 a decade), or 1 and 3 times each of them (2 a decade), from index `first` to `last`: rate_at(). */
typedef struct rate_grid {
    int per_decade, first, last;
} rate_grid;

double rate_at(const rate_grid *grid, int index);

/* Trains at a rate; the loss, or NaN if training diverged. */
typedef double (*rate_trial)(void *user, double rate);

typedef struct rate_search {
    double best;        /* NaN: training diverged at every rate */
    double least, most; /* the rates that were tried */
    int count;
    double rate[RATES_MOST], loss[RATES_MOST]; /* in the order of the trials */
} rate_search;

/* Tries the rates of the grid, from the largest down, and then rates beyond that end at which the best one lies, up to
 * four decades. Says on standard error if it does, and for whom. `quick` does not widen. */
rate_search rate_find(const papers *p, const rate_grid *grid, const char *who, rate_trial trial, void *user);

#endif
