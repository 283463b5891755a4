/*
 * A trainer to be measured: the objects that belong to it, and its rate.
 */
#ifndef BENCH_TRAINING_H
#define BENCH_TRAINING_H

#include "bench.h"

typedef struct training {
    xsm_context *context;
    xsm_dataset *data;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_trainer *trainer;
    /* Set before training_start(). */
    const char *sampler; /* option of the estimator, or NULL */
    bool shared;         /* whether the examples of a batch share their draws */
    uint32_t hidden;     /* of an embedding model; 0 = linear */
    const char *rule;    /* the optimizer; NULL = sgd */
    uint64_t epochs;     /* of one measured run */
    uint64_t ends;       /* of these, completed so far */
} training;

/* Without bias. `negatives` 0: the estimator has no such option. The struct must not be moved. */
void training_start(training *t, xsm_context *ctx, xsm_dataset *data, const char *estimator, uint32_t negatives,
                    uint64_t batch, double eta);
/* Releases all objects, the data and the context too. */
void training_end(training *t);
/* Trains for t->epochs and returns examples a second. */
double training_rate(void *state);

#endif
