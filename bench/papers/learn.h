/*
 * Data as in the papers, and training by xsm_trainer with their schedules.
 */
#ifndef PAPERS_LEARN_H
#define PAPERS_LEARN_H

#include "papers.h"
#include "rates.h"

/* -- data */

typedef struct data_pair {
    const char *title;
    xsm_dataset *train, *test;
    uint64_t rows, test_rows;
    uint32_t features, classes;
} data_pair;

/* Reads FOLDER/FOLDER_train.txt.gz and _test of the real data (XSM_DATA, or shared/data beside the source tree): the
 * first label of a row, without rows that have no label; the classes are those of the remaining training rows; then
 * applies the transform ("" for none). If the data is missing, prints a message and returns false. */
bool data_read(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out);
/* The same with all labels of a row, in rows that have one. */
bool data_read_labels(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out);
/* Like data_read(), with the first labels of the rows of both files as classes. */
bool data_read_union(const papers *p, const char *folder, const char *title, const char *transform, data_pair *out);
/* Multiplies all features by a factor. */
void data_scale(const papers *p, data_pair *data, float factor);
void data_free(data_pair *data);
/* A tenth of the training rows, to choose a learning rate on; the caller frees them. */
xsm_dataset *data_tenth(const data_pair *data);

/* -- training */

typedef struct method {
    const char *title, *estimator;
    uint64_t batch;
    int64_t negatives;   /* 0: the estimator has no such option */
    const char *options; /* further options, "name=value,name=value", or NULL */
} method;

typedef struct plan {
    uint64_t epochs;
    double eta;    /* the initial rate, of one example: a batch steps by the sum of its examples' gradients times eta */
    double factor; /* of the learning rate per epoch; 0 = eta/(1 + epochs passed) instead */
    double ridge;
    bool bias;
    uint32_t hidden;      /* 0: a linear model; else an embedding model with vectors of that many numbers */
    uint64_t evaluations; /* on the training rows, evenly spaced; 0 = only at the end */
    bool skip_train;      /* no evaluation at the end either */
    const xsm_dataset *test;
    uint64_t seed;                  /* 0 = 1 */
    xsm_progress_function progress; /* called as training proceeds, or NULL */
    void *progress_user;
} plan;

/* An evaluation, with what the tables show at 1 to 5. */
typedef struct evaluation {
    double log_loss, error;
    uint64_t known_rows;
    double precision[5], ndcg[5];
} evaluation;

typedef struct learned {
    bool diverged;
    double seconds;         /* papers_seconds() of training alone */
    double work;            /* processor seconds of all threads, including evaluations during training */
    xsm_model *model;       /* NULL if it diverged */
    evaluation train, test; /* at the end; `test` if there are test rows. NaN if it diverged */
} learned;

/* Called at each evaluation on the training rows, after so many seconds of training alone. */
typedef void (*learn_point)(void *user, uint64_t epoch, double seconds, const evaluation *train);

/* Calls `set` for each "name=value" of a list "name=value,..." (or NULL). Ends the program if an item has no value. */
void each_option(const char *options, void (*set)(void *to, const char *name, const char *value), void *to);
/* Sets a method's options and the L2 penalty (ridge). */
void set_options(xsm_estimator *e, const method *m, double ridge);
/* A linear model, or an embedding model with `hidden` numbers if that is not 0; the caller frees it. */
xsm_model *new_model(const papers *p, uint32_t features, uint32_t classes, uint32_t hidden, bool bias);
void set_biases(xsm_model *model, double value);
/* Trains a model by adagrad as `options` say; releases the estimator. False if training diverged. */
bool train_by_adagrad(const papers *p, xsm_model *model, const xsm_dataset *rows, xsm_estimator *e,
                      const xsm_trainer_options *options);
/* Trains a new model. */
learned learn(const papers *p, const xsm_dataset *train, const method *m, const plan *how, learn_point each,
              void *user);
void learned_free(learned *l);
/* Evaluates exactly. */
evaluation evaluate(const papers *p, const xsm_model *model, const xsm_dataset *data);

/* The papers' learning rates, 10^-3 to 10^3. */
extern const rate_grid decades;

/* The learning rate that, trained with on a tenth of the rows, has the least log-loss on `all`. */
rate_search learn_rate(const papers *p, const xsm_dataset *tenth, const xsm_dataset *all, const method *m,
                       const plan *how);

/* A number at several seeds: their mean, and the largest less the least. */
enum { SEEDS = 3 };
typedef struct several {
    int count;
    double value[SEEDS];
} several;
void several_add(several *s, double value);
double several_mean(const several *s);
double several_spread(const several *s);
/* Adds the mean to a column, and the least and the largest to the two columns after it: NAME, NAME least, NAME most. */
void several_point(const several *s, curves *to, const char *column, double x);

/* -- all rows at once */

typedef struct fitted {
    xsm_model *model;
    xsm_fit_result result;
    double seconds; /* papers_seconds(), callbacks included */
} fitted;

/* Minimises a method's loss over all rows by L-BFGS, from zero weights; returns the model and the results. The method's
 * batch size is ignored. `tolerance`, `progress` and `user` are those of xsm_fit_options. */
fitted fit(const papers *p, const xsm_dataset *train, const method *m, double ridge, bool bias, double tolerance,
           xsm_progress_function progress, void *user);
/* The sum of the losses of the exact softmax over the rows, and (ridge/2)||W||^2. */
double softmax_objective(const papers *p, xsm_model *model, const xsm_dataset *data, double ridge);
/* sum |w - of| / sum |of| over the weights, and the biases if there are any. */
double distance_from(xsm_model *model, xsm_model *of);

#endif
