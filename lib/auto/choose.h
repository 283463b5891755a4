/*
 * The internal interface of the choice of how to train, a race: lines.c lists the methods, race_rows.c the rows by
 * which they are trained and judged, race_trial.c runs and judges a trial, race.c decides which settings go on,
 * choose.c has the public functions. N-grams of text are chosen by a race, too, whose lines are one method with each of
 * the n-grams that texts.c lists.
 */
#ifndef XSMI_CHOOSE_H
#define XSMI_CHOOSE_H

#include "auto/trial.h"
#include "predict/calibrate.h"

#include "base/held.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/choose.h>
#include <xsoftmax/experimental.h>

#define XSMI_LABEL_TREE "label-tree"
#define XSMI_CLASS_MEANS "class-means"

enum { XSMI_LINES_MOST = 18, XSMI_TRANSFORMS = 7, XSMI_TEXTS = 4, XSMI_KINDS = 4, XSMI_TOP_MOST = 100 };
/* The most rows by which what no trial measures is estimated. */
enum { XSMI_MEASURED = 1000 };
/* Sparse rows in which at least this share of the values is not zero are a table, and features in this share of the
 * rows have a size of their own. */
#define XSMI_FILLED 0.1
/* The number of kinds of rows: each text with each transform. */
enum { XSMI_SLOTS = XSMI_TEXTS * XSMI_TRANSFORMS };

/* What kind of model a line trains. */
typedef enum xsmi_kind { XSMI_KIND_TREE, XSMI_KIND_MEANS, XSMI_KIND_LINEAR, XSMI_KIND_EMBEDDING } xsmi_kind;

/* A line of the portfolio: a method with its options, except the settings of its entrants. */
typedef struct xsmi_line {
    const char *method; /* the estimator's name, or XSMI_LABEL_TREE */
    xsmi_kind kind;
    const xsm_label_tree_options *tree; /* NULL: trained by steps, or lbfgs */
    xsm_estimator *estimator;           /* NULL: a label tree or class means, which have no such settings */
    const char *optimizer;              /* or "lbfgs"; NULL for a label tree or class means */
    bool own;                           /* the estimator was made here, not by the caller */
    bool full;                          /* lbfgs */
    bool exact;                         /* scores every class */
    bool rates, ridges;                 /* its entrants may differ in the rate, and in the L2 penalty */
    uint64_t epochs;                    /* of a run: passes, or iterations of lbfgs */
    double work;                        /* without an estimator: multiplications of an example, approximately */
    uint32_t width;                     /* classes of a step */
    double judging;                     /* multiplications for judging a row */
    double speed;                       /* multiplications a second of a usual machine */
    double pace;                        /* seconds by the clock for each estimated from `speed`; 0 before a trial */
    double ridge;                       /* if there is nothing to choose */
    double initial;                     /* of adagrad; 0 = its default */
    uint32_t sums;                      /* numbers that the optimizer keeps of each weight */
    uint64_t batch;                     /* examples a step */
    uint32_t hidden;                    /* length of an embedding model's vectors; 0 = linear */
    uint32_t text;                      /* number of the n-grams of its rows, if these are chosen */
} xsmi_line;

/* A line with settings, which is trained and judged. Numbers of judged rows are NaN if the row has not been judged, or
 * if its class is in no row of the share. */
typedef struct xsmi_entrant {
    xsmi_line *line;
    uint32_t transform;
    int rate, ridge;      /* points on their scales; a ridge of INT_MIN is the line's own */
    uint32_t longer;      /* how many times the epochs are tripled */
    double pairs;         /* strength of pairs; 0 = none */
    uint64_t rows, folds; /* rows that it was last trained on, and number of parts that judged it then; 0: none */
    uint64_t rows_before; /* rows of the share before that; 0: none */
    double right, judged; /* rows that judged it: those whose first class is right, and all */
    double factors[XSMI_CALIBRATE_FACTORS]; /* sums over these of the log-losses of temperatures; zeros if it is not
                                               calibrated */
    float *now, *before;                    /* [judged] losses with these rows */
    double fall, last_fall; /* decrease of the mean loss for a doubling, up to the share before the last one, and up to
                               the last; 0: unknown */
    double gain;            /* weight of another fall like the last one in the prediction */
    double lead;            /* without an earlier share: the fall predicted for similar settings */
    double loss, predicted, precision; /* means: with the last share, and as predicted with all rows */
    uint64_t bytes;                    /* of the model that a run would make */
    uint64_t trial;                    /* number of the last trial; UINT64_MAX: none */
    bool diverged, out;
} xsmi_entrant;

struct xsm_choice {
    xsm_context *context;
    xsm_choice_info info;
    xsm_estimator *estimator;                          /* a reference */
    xsm_label_tree_options trees[XSMI_LINES_MOST + 1]; /* options of lines that are label trees, by number; then those
                                                          of the run */
    xsm_text_options texts[XSMI_TEXTS];                /* without a prefix of labels */
    xsm_choice_trial *trials;                          /* [info.trials] */
    size_t trial_capacity;
};

/* What the rows are like. */
typedef struct xsmi_survey {
    double nonzeros; /* mean number in a row */
    bool several;    /* rows have several labels */
    bool large;      /* some value is above 1 or below -1: logarithms change it */
    bool table;      /* columns are of any scale: dense rows, and sparse ones, not of text, that have many values */
} xsmi_survey;

/* The rows that judge, in parts (cross-validation: models that a part judges are trained on other rows), and the rows
 * of the present share. */
typedef struct xsmi_race_rows {
    xsmi_held held;           /* the arrays */
    uint64_t parts;           /* at least one, if anything is judged */
    uint64_t *judged;         /* [starts[parts]] rows, part by part */
    uint64_t *starts;         /* [parts+1] */
    bool halved;              /* rows that judge are trained on, too; they judge with half of their features */
    uint64_t most;            /* rows that the largest share trains on, at least one for each part */
    uint64_t least;           /* number of rows in which the classes of half of the judging rows occur */
    uint64_t *order;          /* [rows] all rows in the order in which shares take them */
    bool grouped;             /* the order keeps groups of rows together (row_groups.h) */
    unsigned char *is_judged; /* [rows] whether a row is in the present part */
    uint64_t together;        /* number of parts that judge a trial on the largest share, so that enough rows do */
    uint64_t share, part;     /* the present ones; a share of 0 rows before the first */
    uint64_t *list;           /* [rows] the rows of the share */
    float *prior;             /* [starts[parts]] the loss if only the frequencies of the classes are known */
    uint64_t *counts;         /* [classes] number of labels of each class in the share */
    uint64_t *known;          /* [rows] scratch: rows of the present part that have a class of the share */
    /* Transformed rows of the share, made when they are needed, and the median of their squared norms. */
    xsm_transform *fitted[XSMI_SLOTS];
    xsm_dataset *train[XSMI_SLOTS], *test[XSMI_SLOTS];
    double squared[XSMI_SLOTS];
} xsmi_race_rows;

typedef struct xsmi_chooser {
    xsmi_runner runner;
    const xsm_dataset *train;
    xsm_choose_options options;
    xsm_trainer_options run; /* 0: not given */
    double ridge;            /* < 0: not given */
    int32_t measure;         /* an XSM_MEASURE_* value but AUTO */
    uint32_t top;            /* k of a measure of the k best classes, at most XSMI_TOP_MOST; 0: the log-loss */
    xsmi_survey survey;
    xsmi_line lines[XSMI_LINES_MOST];
    size_t line_count;
    const char *transforms[XSMI_TRANSFORMS]; /* descriptions; NULL: rows as they are */
    uint32_t transform_count;
    struct xsmi_schema *texts[XSMI_TEXTS]; /* the features of the rows with each of the n-grams to choose from */
    uint32_t text_count;                   /* 0: n-grams are not chosen */
    xsmi_race_rows rows;
    xsmi_entrant *entrants;
    size_t entrant_count, entrant_capacity;
    const xsmi_entrant *favourite[XSMI_KINDS]; /* the best entrant of the first line of a kind: others begin with its
                                                  settings */
    xsmi_row_outcome *outcomes;                /* [largest part] scratch */
    double elapsed;                    /* seconds of the trials so far: from their work or, with a budget, by the
                                          clock */
    double pace;                       /* of all trials, with a time budget; 1 before any */
    bool few;                          /* too few rows for a race */
    bool late, cut_trials, cut_epochs; /* the deadline ended the race; the budget made race and run shorter */
    xsm_choice *result;
} xsmi_chooser;

/* Returns which kind of rows of a share an entrant has. */
static inline uint32_t xsmi_slot(const xsmi_entrant *e)
{
    return e->line->text * XSMI_TRANSFORMS + e->transform;
}

/* -- texts.c ------------------------------------------------------------------------------------------------------- */

/* Lists the n-grams to choose from, single words first. Fails if rows are not text. */
xsm_status xsmi_texts_list(xsmi_chooser *c, xsm_error *err);
/* Estimates the mean number of features of rows with these n-grams, from some rows. */
xsm_status xsmi_texts_measure(const xsmi_chooser *c, uint32_t text, double *features, xsm_error *err);
void xsmi_texts_free(xsmi_chooser *c);

/* -- lines.c ------------------------------------------------------------------------------------------------------- */

/* Lists the lines, and measures each, so that unsuitable data fails early. */
xsm_status xsmi_lines_list(xsmi_chooser *c, xsm_error *err);
/* Lists the lines of a choice of n-grams: a label tree with each, or none if label trees are impossible. */
xsm_status xsmi_lines_of_texts(xsmi_chooser *c, xsm_error *err);
/* Resets the trials' model to the start of a run. The model is made once for lines of one kind, because new memory
 * costs more than clearing memory. */
xsm_status xsmi_line_model(xsmi_chooser *c, const xsmi_line *line, xsm_error *err);
/* Returns the bytes of a line's model. For a label tree, they are estimated from the bytes `fitted` of a fit to a share
 * of the rows. */
uint64_t xsmi_line_bytes(const xsmi_chooser *c, const xsmi_line *line, double fitted);
/* Returns the batch for a share of the rows. */
uint64_t xsmi_line_batch(const xsmi_chooser *c, const xsmi_line *line, uint64_t rows);
/* Returns the number of label trees that a run of `seconds` seconds has time for, at least that of the trials. */
uint32_t xsmi_line_trees(const xsmi_chooser *c, const xsmi_line *line, double seconds);
/* Returns the seconds of training on `rows` rows with all passes, and of judging `judged` rows. */
double xsmi_line_seconds(const xsmi_chooser *c, const xsmi_line *line, double rows, double judged);
void xsmi_lines_free(xsmi_chooser *c);

/* -- race_rows.c --------------------------------------------------------------------------------------------------- */

xsmi_survey xsmi_race_survey(const xsmi_chooser *c);
/* Returns the number of rows that judge, in all parts. */
static inline size_t xsmi_race_judged(const xsmi_chooser *c)
{
    return c->rows.starts ? (size_t)c->rows.starts[c->rows.parts] : 0;
}
/* Chooses the rows that judge; none if there are too few. */
xsm_status xsmi_race_rows_plan(xsmi_chooser *c, xsm_error *err);
/* Goes on to a share, which begins with the rows of every smaller share, and to a part that judges it. */
void xsmi_race_rows_take(xsmi_chooser *c, uint64_t share, uint64_t part);
/* Whether a class of a judging row, counted from the first part, is in a row of the share. Models cannot know other
 * classes, so rows without such a class neither judge nor calibrate. */
bool xsmi_race_knows(const xsmi_chooser *c, uint64_t judged);
/* Makes the rows of the share that an entrant has. */
xsm_status xsmi_race_rows_make(xsmi_chooser *c, const xsmi_entrant *e, xsm_error *err);
/* Computes what the learning rate of an entrant that is not tried depends on, from some rows. */
xsm_status xsmi_race_rows_measure(xsmi_chooser *c, const xsmi_entrant *e, xsm_error *err);
void xsmi_race_rows_free(xsmi_chooser *c);

/* -- race_trial.c -------------------------------------------------------------------------------------------------- */

/* A mean difference between two entrants over the same rows, below 0 if the first is better, and its standard error. */
typedef struct xsmi_gap {
    double difference, error;
} xsmi_gap;
/* Losses of rows: those of a share, or what a share and the one before it predict. */
typedef struct xsmi_row_losses {
    const float *now, *before;
    double gain, lead; /* row i: now - gain (before - now) - lead; without `gain`, `before` is not read */
} xsmi_row_losses;
/* Compares two entrants over `count` rows; leaves out rows for which one has no value. */
xsmi_gap xsmi_race_compare(const xsmi_row_losses *a, const xsmi_row_losses *b, size_t count);
static inline xsmi_gap xsmi_race_gap(const float *a, const float *b, size_t count)
{
    return xsmi_race_compare(&(xsmi_row_losses){.now = a}, &(xsmi_row_losses){.now = b}, count);
}
/* Trains an entrant on the present share, judges it by the present part, and adds this to the result's trials. If the
 * deadline ends it, only sets c->late. */
xsm_status xsmi_race_try(xsmi_chooser *c, xsmi_entrant *e, xsm_error *err);
/* Return the learning rate and the L2 penalty of an entrant. */
double xsmi_race_eta(const xsmi_chooser *c, const xsmi_entrant *e);
double xsmi_race_ridge(const xsmi_entrant *e);
/* Returns the temperature by which an entrant's last trials were calibrated; 1 if they were not, or did not need it. */
double xsmi_race_temperature(const xsmi_chooser *c, const xsmi_entrant *e);
/* Return the passes of an entrant's run, and of a trial on `rows` rows. */
uint64_t xsmi_race_epochs(const xsmi_entrant *e);
uint64_t xsmi_race_passes(const xsmi_chooser *c, const xsmi_entrant *e, uint64_t rows);
/* Returns the factor by which the rate falls in each of `epochs` epochs. */
double xsmi_race_factor(const xsmi_chooser *c, uint64_t epochs);

/* -- race.c -------------------------------------------------------------------------------------------------------- */

/* Races all lines; *winner is NULL if none was tried. */
xsm_status xsmi_race(xsmi_chooser *c, const xsmi_entrant **winner, xsm_error *err);

/* Refuse a time budget, a ridge or a measure that is not valid; `options` names its struct. */
xsm_status xsmi_check_seconds(const char *options, double seconds, xsm_error *err);
xsm_status xsmi_check_ridge(const char *options, double ridge, xsm_error *err);
xsm_status xsmi_check_measure(int32_t measure, uint32_t top, xsm_error *err);

#endif
