/* A training run: what was asked for, and what came of it. Filled by train*.c, told of by report.c.
 * The parts of train.c, in the order in which they run: train_settings.c (what the flags mean together),
 * train_model.c (rows, and the model for them), train_run.c (training and evaluation). */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli.h"

enum { CLI_BIAS_ONLY = 2 };                 /* of `bias`: no features */
extern const char *const cli_order_words[]; /* XSM_ORDER_* */
extern const char *const cli_score_words[]; /* XSM_SCORE_* */

/* Of an embedding model (hidden.c). */
typedef struct cli_hidden {
    uint64_t size;        /* 0: a linear model */
    int activation, pool; /* XSM_ACTIVATION_*, XSM_POOL_*; -1 = not given */
    int tied;
} cli_hidden;
extern const char *const cli_activation_words[], *const cli_pool_words[];

#define CLI_HIDDEN_FLAGS(h)                                                                                              \
    {"hidden",                                                                                                           \
     CLI_WHOLE,                                                                                                          \
     &(h).size,                                                                                                          \
     "D",                                                                                                                \
     "an embedding model: a row's features become a vector of D, and the classes look at that",                          \
     NULL,                                                                                                               \
     1,                                                                                                                  \
     XSM_HIDDEN_MAX,                                                                                                     \
     0,                                                                                                                  \
     0},                                                                                                                 \
        {"activation",                                                                                                   \
         CLI_CHOICE,                                                                                                     \
         &(h).activation,                                                                                                \
         "HOW",                                                                                                          \
         "--hidden: what is made of that vector: identity, relu or tanh (identity)",                                     \
         cli_activation_words,                                                                                           \
         0,                                                                                                              \
         0,                                                                                                              \
         0,                                                                                                              \
         0},                                                                                                             \
        {"pool",         CLI_CHOICE, &(h).pool, "HOW", "--hidden: the features' vectors are taken by sum or mean (sum)", \
         cli_pool_words, 0,          0,         0,     0},                                                               \
    {                                                                                                                    \
        "tied", CLI_SWITCH, &(h).tied, NULL,                                                                             \
            "--hidden: features and classes are the same things, with one vector each", NULL, 0, 0, 0, 0                 \
    }

/* Greatest --pairs. */
#define CLI_PAIRS_MOST 1e6

typedef struct cli_run {
    const char *data, *test, *transform_text, *label_names, *estimator_name, *optimizer_name, *schedule_text;
    const char *model_path, *history_path, *history_measures, *checkpoint_path, *resume_path, *warm_path;
    cli_data format;
    cli_list sets;
    uint64_t epochs, batch, iterations, seed, threads, evaluate_every;
    double eta, ridge, tolerance; /* eta: 0 until the flags are read, NAN until it is chosen */
    int bias;                     /* -1 until the flags are read */
    int order, json;
    int score;       /* an XSM_SCORE_* value, -1 = not given */
    int unevaluated; /* --no-evaluate */
    cli_hidden hidden;
    double time_budget;  /* seconds; 0 = none */
    double pairs;        /* their strength; 0: without; < 0: not given */
    int full;            /* all rows at once: lbfgs */
    int choose;          /* what was not given is chosen from the rows */
    int transform_asked; /* --transform was given, or features do not matter */
    char *schedule_made; /* the text of a schedule that was chosen */
    int32_t schedule;
    double factor;

    double checkpoint_every; /* seconds; below 0 until the flags are read */
    double checkpoint_saved; /* when, on cli_clock() */
    int checkpoint_failed;   /* the last one */
    int eta_recalled;        /* the learning rate is the checkpoint's */
    uint32_t new_classes;    /* that a warm start brought */

    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_transform *transform;
    xsm_dataset *train_rows, *test_rows;
    xsm_model *model;
    xsm_trainer *trainer;
    xsm_model *recalled; /* the checkpoint's, where the choice is taken from it; else NULL */
    xsm_choice *choice;  /* NULL: nothing was to be chosen; else it holds the estimator */
    xsm_choice_info chosen;
    int choice_given, eta_chosen; /* the estimator was given; the rate was not */
    xsm_tuning *tuning;           /* NULL: the learning rate was given, or is part of the choice */
    xsm_tuning_info tuned;

    uint64_t dropped;
    xsm_dataset_info raw_info, train_info, test_info;
    uint64_t unlabelled_dropped;
    cli_history history;
    double began, started;   /* choosing, training */
    int spent;               /* the time budget ended the run */
    xsm_progress end;        /* where training ended */
    xsm_fit_result fit;      /* of lbfgs */
    uint64_t evaluated_step; /* that the figures below are of */
    xsm_metrics train_metrics, test_metrics;
    int train_known, test_known, stopped;
    uint64_t restarts; /* at a tenth of the rate each, because the run diverged */
} cli_run;

/* Checks the flags and makes what does not depend on the data: context, estimator, optimizer, transform. As all the
 * others, returns CLI_GO_ON or an exit code. */
int cli_train_prepare(cli_run *run);
/* Whether models of that estimator have a correction that pairs would take the place of. */
int cli_train_corrects(const char *estimator);
/* Reads the rows: training rows first, as what they hold decides how the test rows are read. */
int cli_train_read(cli_run *run);
/* Transforms the rows that were read as is said now. */
int cli_train_transform(cli_run *run, const char *description);
/* The flag beside --hidden that was given, the first of them, or NULL. */
const char *cli_hidden_companion(const cli_hidden *hidden);
/* Checks --hidden and its companions with the other flags; makes an embedding model for rows that have been read. */
int cli_hidden_check(const cli_run *run);
int cli_hidden_model(cli_run *run, const xsm_class_map *map);
/* Makes the model, with how it is made noted in it. */
int cli_train_make_model(cli_run *run);
/* Notes something in the model's metadata, under prefix and name; a number under "training.". */
xsm_status cli_train_note(cli_run *run, const char *prefix, const char *name, const char *value, xsm_error *err);
xsm_status cli_train_note_whole(cli_run *run, const char *name, uint64_t value, xsm_error *err);
/* The library refuses to train: because of what does not go together on the command line (misuse), which with a warm
 * start may be the model's, or because it failed. */
int cli_train_refused(const cli_run *run, const xsm_error *err);
/* Trains, with the choice of a learning rate before. */
int cli_train_run(cli_run *run);
/* Evaluates the model as it is now, unless the trainer has just done so. */
int cli_train_evaluate(cli_run *run);

/* Chooses from the rows what the flags left open, and says on standard error what and why. */
int cli_choose(cli_run *run);
/* The JSON members that tell of it. */
void cli_choose_json(cli_json *json, const cli_run *run);

/* Chooses the learning rate of a run, for the model as it is made, and prints what was tried on standard error. */
int cli_tune(cli_run *run, const xsm_trainer_options *options);
/* The JSON members that tell of the learning rate. */
void cli_tune_json(cli_json *json, const cli_run *run);

/* What the options of estimator and optimizer are kept under in a model's metadata. */
#define CLI_KEY_ESTIMATOR "estimator."
#define CLI_KEY_OPTIMIZER "training.optimizer."

/* --checkpoint and --resume (checkpoint.c). Seconds between checkpoints unless --checkpoint-every says other: */
#define CLI_CHECKPOINT_SECONDS 300
/* Checks the flags; `inputs` as for cli_output_plan(). */
int cli_checkpoint_prepare(cli_run *run, const char *const *inputs);
/* What the resumed run chose for itself and its checkpoint knows: the learning rate. */
int cli_checkpoint_recall(cli_run *run);
/* The same for all that a run chose which was given no estimator: taken as if it had been given. */
int cli_checkpoint_recall_choice(cli_run *run);
/* The options of estimator or optimizer follow when it is made: those that the checkpoint has under `prefix`. */
typedef xsm_status (*cli_setter)(void *of, const char *name, const char *value, xsm_error *err);
int cli_checkpoint_recall_options(const cli_run *run, const char *prefix, cli_setter set, void *of);
/* Puts a new trainer to where the checkpoint is that is resumed, if one is. */
xsm_status cli_checkpoint_resume(cli_run *run, xsm_error *err);
/* Saves a checkpoint if it is time; for the progress callback. A failure is told of, and the run goes on. */
void cli_checkpoint_tick(cli_run *run);
/* The last one, when training has ended or was stopped. */
int cli_checkpoint_finish(cli_run *run);

/* --warm-start (warm.c). Checks the flags and loads the model. */
int cli_warm_prepare(cli_run *run);
/* Brings training rows and model together: classes and features of both, rows transformed as the model wants them. */
int cli_warm_fit(cli_run *run);

/* The object that --json prints, the caller's to free; NULL when there is no memory. Figures that are not known yet are
 * null. */
char *cli_train_json(const cli_run *run);
/* The same for people. */
void cli_train_report(const cli_run *run);

#endif
