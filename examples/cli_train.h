/* A training run: what was asked for, and what came of it. Filled by cli_train.c, told of by cli_report.c. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli.h"

typedef struct cli_run {
    const char *data, *test, *transform_text, *label_names, *estimator_name, *optimizer_name, *schedule_text;
    const char *model_path, *history_path;
    cli_data format;
    cli_list sets;
    uint64_t epochs, batch, iterations, seed, threads, evaluate_every;
    double eta, ridge, tolerance; /* eta: 0 until the flags are read, NAN until it is chosen */
    int bias, order, json;
    int full; /* all rows at once: lbfgs */
    int32_t schedule;
    double factor;

    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_transform *transform;
    xsm_dataset *train_rows, *test_rows;
    xsm_model *model;
    xsm_trainer *trainer;
    xsm_tuning *tuning; /* NULL: the learning rate was given */
    xsm_tuning_info tuned;

    uint64_t dropped;
    xsm_dataset_info raw_info, train_info, test_info;
    uint64_t unlabelled_dropped;
    cli_history history;
    double started;
    xsm_progress end;        /* where training ended */
    xsm_fit_result fit;      /* of lbfgs */
    uint64_t evaluated_step; /* that the figures below are of */
    xsm_metrics train_metrics, test_metrics;
    int train_known, test_known, stopped;
} cli_run;

/* Chooses the learning rate of a run, for the model as it is made, and prints what was tried on standard error. */
int cli_tune(cli_run *run, const xsm_trainer_options *options);
/* The JSON members that tell of the learning rate. */
void cli_tune_json(cli_json *json, const cli_run *run);

/* The object that --json prints, the caller's to free; NULL when there is no memory. Figures that are not known yet are
 * null. */
char *cli_train_json(const cli_run *run);
/* The same for people. */
void cli_train_report(const cli_run *run);

#endif
