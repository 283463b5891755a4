/* A training run: its settings and its results. train*.c fill them in, report.c prints them. The parts of train.c, in
 * the order in which they run: train_settings.c (checks the flags together), train_model.c (rows, and the model for
 * them), train_run.c (training and evaluation). */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli.h"

enum { CLI_BIAS_NO = 0, CLI_BIAS_ONLY = 2 };   /* values of `bias`: none; no features */
enum { CLI_CHOICE_LINES = 3 };                 /* that explain the automatic choice */
extern const char *const cli_geometry_words[]; /* XSM_GEOMETRY_* */
extern const char *const cli_evaluate_words[]; /* XSM_EVALUATE_* */

/* Settings of an embedding model (hidden.c). */
typedef struct cli_hidden {
    uint64_t size;        /* 0: a linear model */
    int activation, pool; /* XSM_ACTIVATION_*, XSM_POOL_*; -1 = not given */
    int tied;
    const char *vectors; /* a file of vectors to start from, or NULL */
} cli_hidden;
extern const char *const cli_activation_words[], *const cli_pool_words[];

#define CLI_HIDDEN_FLAGS(h)                                                                                             \
    {"hidden",                                                                                                          \
     CLI_WHOLE,                                                                                                         \
     &(h).size,                                                                                                         \
     "D",                                                                                                               \
     "an embedding model: a row's features become a vector of D, which the classes score",                              \
     NULL,                                                                                                              \
     1,                                                                                                                 \
     XSM_HIDDEN_MAX,                                                                                                    \
     0,                                                                                                                 \
     0},                                                                                                                \
        {"activation",                                                                                                  \
         CLI_CHOICE,                                                                                                    \
         &(h).activation,                                                                                               \
         "HOW",                                                                                                         \
         "--hidden: what is made of that vector: identity, relu or tanh (identity)",                                    \
         cli_activation_words,                                                                                          \
         0,                                                                                                             \
         0,                                                                                                             \
         0,                                                                                                             \
         0},                                                                                                            \
        {"pool",         CLI_CHOICE, &(h).pool, "HOW", "--hidden: sum, mean or weighted-mean of a row's vectors (sum)", \
         cli_pool_words, 0,          0,         0,     0},                                                              \
        {"vectors",                                                                                                     \
         CLI_INPUT,                                                                                                     \
         &(h).vectors,                                                                                                  \
         "FILE",                                                                                                        \
         "start from the vectors of words in this .vec file, and --hidden is their length",                             \
         NULL,                                                                                                          \
         0,                                                                                                             \
         0,                                                                                                             \
         0,                                                                                                             \
         0},                                                                                                            \
    {                                                                                                                   \
        "tied", CLI_SWITCH, &(h).tied, NULL,                                                                            \
            "--hidden: features and classes are the same things, with one vector each", NULL, 0, 0, 0, 0                \
    }

/* The largest value of --pairs. */
#define CLI_PAIRS_MOST 1e6
/* The largest value of --temperature; the least is one divided by it. */
#define CLI_TEMPERATURE_MOST 1e6

enum { CLI_METHOD_LABEL_TREE, CLI_METHOD_CLASS_MEANS };
extern const char *const cli_method_words[]; /* of --method, in this order */
extern const char *const cli_start_words[];  /* of --start: zeros, means */

typedef struct cli_run {
    const char *data, *test, *transform_text, *label_names, *class_weights, *estimator_name, *optimizer_name,
        *schedule_text;
    const char *model_path, *history_path, *history_measures, *checkpoint_path, *resume_path, *warm_path;
    cli_data format;
    cli_list sets;
    uint64_t epochs, batch, iterations, seed, threads, evaluate_every;
    double eta, ridge, tolerance; /* eta: 0 until the flags are read, NAN until it is chosen */
    int bias;                     /* -1 until the flags are read */
    int order, json;
    const char *calibrate;    /* rows to calibrate the trained model by, or NULL */
    const char *measure_text; /* of --measure */
    int measure;              /* an XSM_MEASURE_* value */
    uint32_t measure_top;     /* k of its best classes; 0: not given */
    int geometry;             /* an XSM_GEOMETRY_* value, -1 = not given */
    int dry;                  /* --dry-run */
    int unevaluated;          /* --no-evaluate */
    int evaluate_train;       /* an XSM_EVALUATE_* value, -1 until the flags are read */
    cli_hidden hidden;
    int method;                        /* of --method; -1: an estimator trains */
    int start;                         /* of --start; 1: from class means; -1 = not given */
    double variance;                   /* of class means; 0: the model is not made of them */
    xsm_label_tree_options tree;       /* of a label tree */
    xsm_label_tree_result tree_result; /* the same */
    int trees_open;                    /* no flag was given that means nothing to a label tree */
    double time_budget;                /* seconds; 0 = none */
    double pairs;                      /* their strength; 0: no pairs; < 0: not given */
    double temperature;                /* of probabilities; 1: as they are; 0: not given */
    int full;                          /* all rows at once: lbfgs */
    int choose;                        /* settings that were not given are chosen from the rows */
    int first_by_default;              /* one label a row is kept, which was not asked for */
    int estimator_by_default;          /* nor was the estimator, or an option of it */
    int transform_asked;               /* --transform was given, or features are not used */
    char *schedule_made;               /* the text of a chosen schedule */
    int32_t schedule;
    double factor;

    double checkpoint_every; /* seconds; below 0 until the flags are read */
    double checkpoint_saved; /* when, by cli_clock() */
    int checkpoint_failed;   /* the last checkpoint */
    int history_failed;
    int eta_recalled;                   /* the learning rate comes from the checkpoint */
    int new_words;                      /* of a warm start: 0 or 1, below 0 where not given */
    uint32_t new_classes, new_features; /* from the warm start */

    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_transform *transform;
    xsm_dataset *train_rows, *test_rows, *calibrate_rows;
    xsm_model *model;
    xsm_trainer *trainer;
    xsm_model *recalled; /* the resumed checkpoint, if its choice is used; else NULL */
    xsm_choice *choice;  /* NULL: nothing was chosen; else it contains the estimator */
    xsm_choice_info chosen;
    xsm_choice *ngrams; /* the choice of the n-grams; NULL: none was made */
    xsm_choice_info ngrams_chosen;
    char *why[CLI_CHOICE_LINES];  /* the choice in words; NULL: nothing was chosen */
    int choice_given, eta_chosen; /* the estimator was given; the learning rate was not */
    xsm_tuning *tuning;           /* NULL: the learning rate was given, or is part of the choice */
    xsm_tuning_info tuned;

    int drop_empty;
    uint64_t not_used, dropped;                       /* rows without a label or of weight 0; rows without a feature */
    uint64_t min_label_count, rare_labels, rare_rows; /* labels left out, and rows that had no others */
    xsm_dataset_info raw_info, train_info, test_info;
    uint64_t labels_unused; /* as the estimator takes one a row */
    int unused_told;        /* it was said how many these are */
    int unkept_told;        /* it was said that the model is not kept */
    uint64_t vectors_found; /* of the words, in the file of --vectors */
    uint32_t vectors_words;
    cli_history history;
    double entered, began, started; /* reading, choosing, training */
    int spent;                      /* the time budget ended the run */
    xsm_progress end;               /* where training ended */
    xsm_fit_result fit;             /* of lbfgs */
    uint64_t evaluated_step;        /* the state that the results below belong to */
    cli_metrics train_metrics, test_metrics;
    int train_known, test_known, stopped;
    double model_bytes;        /* of the file; NAN without one */
    double prediction_seconds; /* of a row; NAN where it was not measured */
    uint64_t restarts;         /* each at a tenth of the rate, because the run diverged */
} cli_run;

/* Checks the flags and makes what does not depend on the data: context, estimator, optimizer, transform. Like all other
 * functions here, returns CLI_GO_ON or an exit code. */
int cli_train_prepare(cli_run *run);
/* Once the rows are read: where they have several labels and the estimator takes one, takes another estimator, or
 * counts the labels that are not used. */
int cli_train_several(cli_run *run);
/* Whether models of that estimator have a correction that pairs would replace. */
int cli_train_corrects(const char *estimator);
/* Reads the rows: training rows first, because they decide how the test rows are read. */
int cli_train_read(cli_run *run);
/* Transforms the rows that were read with the present transform. */
int cli_train_transform(cli_run *run, const char *description);
/* The first flag that was given and needs --hidden, or NULL. */
const char *cli_hidden_companion(const cli_hidden *hidden);
/* Checks --hidden and the flags that depend on it together with the other flags; makes an embedding model for rows that
 * have been read. */
int cli_hidden_check(const cli_run *run);
int cli_hidden_model(cli_run *run, const xsm_class_map *map);
/* --vectors (vectors.c): the length of the vectors in a file, and those of the words that the model knows. */
int cli_vectors_length(const char *path, uint64_t *length);
int cli_vectors_load(cli_run *run, const xsm_class_map *map);
/* Makes the model and records in it how it is made. */
int cli_train_make_model(cli_run *run);
/* Sets the model's weights to the classes' means; with --method, makes the model before. */
int cli_class_means(cli_run *run);
/* Records a value in the model's metadata, under prefix and name; a number under "training.". */
xsm_status cli_train_note(cli_run *run, const char *prefix, const char *name, const char *value, xsm_error *err);
xsm_status cli_train_note_whole(cli_run *run, const char *name, uint64_t value, xsm_error *err);
/* Records --temperature, or the chosen one, unless it is 1. */
xsm_status cli_train_note_temperature(cli_run *run, xsm_error *err);
/* The library refused to train: because settings on the command line do not fit together (a usage error; with a warm
 * start they may be the model's), or because it failed. */
int cli_train_refused(const cli_run *run, const xsm_error *err);
/* Says, once, that the model is not kept; called when training or a choice has begun. */
void cli_train_unkept(cli_run *run);
/* Trains, after choosing a learning rate if needed. */
int cli_train_run(cli_run *run);
/* Fits the model's calibration to the rows of --calibrate, if there are any. */
int cli_train_calibrate(cli_run *run);
/* Evaluates the present model, unless the trainer has just done so. */
int cli_train_evaluate(cli_run *run);

/* --dry-run (dry_run.c): says what the rows are that were read, and what each way of training would need in memory. */
int cli_dry_run(const cli_run *run);

/* --method (label_tree.c): in place of estimator, model and training. */
int cli_method_prepare(cli_run *run);
/* Reads the label tree's options: those of the model that it starts from, if any, and then those of --set. */
int cli_label_tree_options(cli_run *run);
int cli_method_run(cli_run *run);
/* Whether the choice may come to a label tree, by the flags as they were given. */
int cli_label_tree_open(const cli_run *run);
void cli_method_report(const cli_run *run);
void cli_method_json(cli_json *json, const cli_run *run);

/* Reads --measure. */
int cli_choose_measure(cli_run *run);
/* What the choice was judged by, in words; the caller frees it. */
char *cli_choose_measured(const cli_run *run);
/* Chooses from the rows the settings that the flags left open, and prints the choice and the reason on standard
 * error. */
int cli_choose(cli_run *run);
/* Says the choice in words, before it is applied: fills `why`. */
int cli_choose_words(cli_run *run);
/* What the flags say to a choice; valid until the next call. */
xsm_choose_options cli_choose_options(cli_run *run);
/* Prints a race: each way of training with its best settings, what it lost and what was predicted. */
void cli_choose_race(FILE *out, const xsm_choice *choice, uint64_t trials);
/* Writes the JSON members that describe the choice, and those of a choice's trials. */
void cli_choose_json(cli_json *json, const cli_run *run);
void cli_choose_trials(cli_json *json, const xsm_choice *choice, uint64_t trials);

/* N-grams of text (choose_ngrams.c). Whether they are a choice, by the flags as they were given. */
int cli_ngrams_open(const cli_run *run);
/* Chooses those of the training rows, if they are a choice and the rows text, and prints the race on standard error. */
int cli_choose_ngrams(cli_run *run);
/* What they are called; the caller frees it. */
char *cli_ngrams_name(const xsm_text_options *text);
void cli_ngrams_json(cli_json *json, const cli_run *run);
/* The entry of a model whose n-grams were chosen. */
#define CLI_NGRAMS "ngrams"
#define CLI_CHOSEN "chosen"

/* Chooses the learning rate of a run, for the model as it is made, and prints the trials on standard error. */
int cli_tune(cli_run *run, const xsm_trainer_options *options);
/* Writes the JSON members that describe the learning rate. */
void cli_tune_json(cli_json *json, const cli_run *run);

/* Prefixes of the options of estimator and optimizer in a model's metadata. */
#define CLI_KEY_ESTIMATOR "estimator."
#define CLI_KEY_OPTIMIZER "training.optimizer."

/* --checkpoint and --resume (checkpoint.c). Seconds between checkpoints by default (--checkpoint-every): */
#define CLI_CHECKPOINT_SECONDS 300
/* Checks the flags. */
int cli_checkpoint_prepare(cli_run *run);
/* Takes from the checkpoint what the resumed run chose itself: the learning rate. */
int cli_checkpoint_recall(cli_run *run);
/* The same for all choices of a run without a given estimator: they are applied as if they had been given. */
int cli_checkpoint_recall_choice(cli_run *run);
/* Sets the options of the estimator or optimizer, once it is made, to those that the checkpoint has under `prefix`. */
typedef xsm_status (*cli_setter)(void *of, const char *name, const char *value, xsm_error *err);
int cli_checkpoint_recall_options(const cli_run *run, const char *prefix, cli_setter set, void *of);
/* Sets a new trainer to the state of the resumed checkpoint, if there is one. */
xsm_status cli_checkpoint_resume(cli_run *run, xsm_error *err);
/* Says that a checkpoint could not be written. */
void cli_no_checkpoint(const char *why);
/* Saves a checkpoint if it is due; called by the progress callback. A failure is reported, and the run continues. */
void cli_checkpoint_tick(cli_run *run);
/* Whether it is due. */
int cli_checkpoint_due(const cli_run *run);
/* Of several ranks: each is called back by its own clock, so that a checkpoint, in which all have a part, needs the run
 * to pause. Saves it if it is due on any rank, and returns whether the run goes on. */
int cli_checkpoint_pause(cli_run *run);
/* Saves the last one, when training has ended or was stopped. After a failure the model is still saved. */
void cli_checkpoint_finish(cli_run *run);

/* --warm-start (warm.c). Checks the flags and loads the model. */
int cli_warm_prepare(cli_run *run);
/* Reads the training rows against the model: its features, and new ones unless --new-words says no. */
int cli_warm_read(cli_run *run, cli_data *format);
/* Combines training rows and model: classes and features of both, with the rows transformed by the model's
 * transform. */
int cli_warm_fit(cli_run *run);

/* The object that --json prints; the caller frees it. NULL if memory runs out. Unknown results are null. `stopped` says
 * what a signal stopped; NULL: nothing. */
char *cli_train_json(const cli_run *run, const char *stopped);
/* The same for people. */
void cli_train_report(const cli_run *run);

#endif
