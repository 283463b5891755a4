/*
 * Training against the clock: what a method has learned after so many seconds.
 */
#ifndef PAPERS_RACE_H
#define PAPERS_RACE_H

#include "learn.h"

enum { RACE_POINTS = 9, RACE_TEST_MOST = 10000 };

typedef struct race {
    bool diverged;
    double epochs; /* passed at the end */
    size_t count;  /* points, in the order of time */
    double seconds[RACE_POINTS], log_loss[RACE_POINTS], accuracy[RACE_POINTS];
} race;

/* A tenth of a set's training rows, at most 2,000, to choose settings on; they are taken out of the training rows. */
xsm_dataset *race_hold_out(data_pair *data);
/* Leaves RACE_TEST_MOST of the test rows, at random, where there are more: a curve has many points. */
void race_limit_test(data_pair *data);
/* What a method's runs have in common: its sampler is fitted once, and the time counts for each of them. */
typedef struct racer {
    const method *method;
    const char *optimizer;
    xsm_sampler *sampler; /* NULL: the method has none */
    double fit;           /* seconds of race_clock() */
    double bias;          /* that models start with; 0 but for NCE, whose scores are to be log-probabilities */
} racer;

/* Seconds since some moment, or of processor time of all threads, as the settings ask. */
double race_clock(const papers *p);

racer racer_new(const papers *p, const data_pair *data, const method *m, const char *optimizer);
void racer_free(racer *r);
/* Trains a new model for so many seconds and evaluates on `rows` on the way, `points` times (RACE_POINTS at most), at
 * times that double. Evaluating does not count; the sampler's fit and the making of the trainer do, unless
 * `steps_alone` says that steps are all that counts. eta stays as it is. Where what counts before the first step leaves
 * nothing of the time, there are no points. Each point is said on standard error. */
race race_run(const papers *p, const data_pair *data, const xsm_dataset *rows, const racer *who, double eta,
              double seconds, int points, bool steps_alone);
/* The first moment at which an accuracy is reached, between points on a line in log time; NaN for never. */
double race_reached(const race *r, double accuracy);

#endif
