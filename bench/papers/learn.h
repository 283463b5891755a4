/*
 * Data as the papers use it, and training by xsm_trainer with their schedules.
 */
#ifndef PAPERS_LEARN_H
#define PAPERS_LEARN_H

#include "papers.h"

/* -- data */

typedef struct data_pair {
    const char *title;
    xsm_dataset *train, *test;
    uint64_t rows, test_rows;
    uint32_t features, classes;
} data_pair;

/* Reads FOLDER/FOLDER_train.txt.gz and _test of the real data (XSM_DATA, or shared/data beside the source tree): the
 * first label of a row, rows without one dropped, the classes those that are left in the training rows; then the
 * transform ("" for none). False, having said so, where it is not there. */
bool data_read(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out);
/* The same with all labels of a row, in rows that have one. */
bool data_read_labels(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out);
/* As data_read() with the labels that are the first of a row in either file as classes. */
bool data_read_union(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out);
/* Multiplies all features by a factor. */
void data_scale(const papers *p, data_pair *data, float factor);
void data_free(data_pair *data);
/* A tenth of the training rows, to find a learning rate on; the caller's. */
xsm_dataset *data_tenth(const data_pair *data);

/* -- training */

typedef struct method {
    const char *title, *estimator;
    uint64_t batch;
    int64_t negatives;   /* 0: the estimator has no such option */
    const char *options; /* more of them, "name=value,name=value", or NULL */
} method;

typedef struct plan {
    uint64_t epochs;
    double eta;    /* at the start, of one example: a batch steps by the sum of its examples' gradients times eta */
    double factor; /* the rate's, an epoch; 0 = eta/(1 + epochs passed) instead */
    double ridge;
    bool bias;
    uint32_t hidden;      /* 0: a linear model; else an embedding model with vectors of that many numbers */
    uint64_t evaluations; /* on the training rows, at even distances; 0 = none but at the end */
    bool skip_train;      /* not even then */
    const xsm_dataset *test;
    xsm_progress_function progress; /* told of every step forward, or NULL */
    void *progress_user;
} plan;

typedef struct learned {
    bool diverged;
    double seconds;          /* of training alone */
    double work;             /* processor seconds of all threads, with evaluation on the way */
    xsm_model *model;        /* NULL if it diverged */
    xsm_metrics train, test; /* at the end; the latter if there are test rows. NaN if it diverged */
} learned;

/* Told of each evaluation on the training rows. */
typedef void (*learn_point)(void *user, uint64_t epoch, const xsm_metrics *train);

/* Sets a method's options and a ridge. */
void set_options(xsm_estimator *e, const method *m, double ridge);
/* Trains a new model. */
learned learn(const papers *p, const xsm_dataset *train, const method *m, const plan *how, learn_point each,
              void *user);
void learned_free(learned *l);
/* Evaluates exactly. */
xsm_metrics evaluate(const papers *p, const xsm_model *model, const xsm_dataset *data);

/* The papers' rates, 10^-3 to 10^3, and two below for what diverges at all of them. */
enum { RATES = 9, RATES_BELOW = 2 };
extern const double rates[RATES];

/* Number of the rate with the least loss; -1 when none is finite. */
int best_rate(const double losses[RATES]);
/* Trains on a tenth of the rows at each of the rates and evaluates on `all`; losses[i] is NaN where training diverged
 * or was not needed. */
void try_rates(const papers *p, const xsm_dataset *tenth, const xsm_dataset *all, const method *m, const plan *how,
               double losses[RATES]);

/* -- all rows at once */

typedef struct fitted {
    xsm_model *model;
    xsm_fit_result result;
} fitted;

/* Minimises a method's loss over all rows by L-BFGS, from zero weights; the model and what came of it. Its batch does
 * not count. `tolerance`, `progress` and `user` are those of xsm_fit_options. */
fitted fit(const papers *p, const xsm_dataset *train, const method *m, double ridge, bool bias, double tolerance,
           xsm_progress_function progress, void *user);
/* Sum of the losses of the exact softmax over the rows, and (ridge/2)||W||^2. */
double softmax_objective(const papers *p, xsm_model *model, const xsm_dataset *data, double ridge);
/* sum |w - of| / sum |of| over the weights, and the biases where there are any. */
double distance_from(xsm_model *model, xsm_model *of);

#endif
