/*
 * Training for given times: the results of a method after each.
 */
#ifndef PAPERS_RACE_H
#define PAPERS_RACE_H

#include "learn.h"

enum { RACE_POINTS = 9, RACE_TEST_MOST = 10000 };

typedef struct race {
    bool diverged;
    double epochs; /* completed at the end */
    size_t count;  /* number of points, in the order of time */
    double seconds[RACE_POINTS], log_loss[RACE_POINTS], accuracy[RACE_POINTS];
    xsm_model *model; /* at the end, if the racer keeps it, else NULL; the caller frees it */
} race;

/* A tenth of a set's training rows at random, at most 2,000, to choose settings on; they are removed from the training
 * rows, of which each class keeps one: a class that no row has could not be drawn by frequency. One label a row. */
xsm_dataset *race_hold_out(data_pair *data);
/* If there are more test rows than RACE_TEST_MOST, keeps a random selection of that size, because a curve has many
 * points. */
void race_limit_test(data_pair *data);
/* Shared by the runs of a method: its sampler is fitted once, and the time of the fit counts for each run. */
typedef struct racer {
    const method *method;
    const char *optimizer;
    xsm_sampler *sampler; /* NULL: the method has none */
    double fit;           /* seconds of papers_seconds() */
    double bias;          /* initial biases; 0 except for NCE, whose scores are to be log-probabilities */
    uint32_t hidden;      /* 0: a linear model; else an embedding model with vectors of that many numbers */
    bool keep;            /* the model */
} racer;

/* Seconds of a method: --budget, or else the usual ones of a set. */
double race_seconds(const papers *p, double usual);

/* Of the method's options, `sampler=NAME` and `sampler.OPTION=VALUE` are its sampler's, the others the estimator's. */
racer racer_new(const papers *p, const data_pair *data, const method *m, const char *optimizer);
void racer_free(racer *r);
/* Trains a new model for the given seconds and evaluates it on `rows` at `points` times (RACE_POINTS at most), each
 * twice the one before. Evaluation time does not count; the time of fitting the sampler and making the trainer does,
 * unless `steps_alone` says that only steps count. eta is constant. If the time before the first step uses up all of
 * the time, there are no points. Each point is printed on standard error. */
race race_run(const papers *p, const data_pair *data, const xsm_dataset *rows, const racer *who, double eta,
              double seconds, int points, bool steps_alone);
/* The learning rate that is best on held-out rows after so many seconds of steps, by the log-loss there or by the
 * error. `title` is whose it is. */
rate_search race_rate(const papers *p, const rate_grid *grid, const char *title, const data_pair *data,
                      const xsm_dataset *held, const racer *who, double seconds, bool by_log_loss);
/* The time at which an accuracy is first reached, by linear interpolation between points in log time; NaN if never. */
double race_reached(const race *r, double accuracy);

#endif
