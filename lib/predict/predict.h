/*
 * The internal interface of predictors: one thread's scratch, for all classes or a hierarchy (predict.c), an index
 * (predict_index.c), a beam in the model's tree (predict_beam.c) or in label trees (predict_labels.c), or a shortlist
 * (predict_shortlist.c); and filters, which say which classes a row may get (predict_filter.c). xsm_predict() divides
 * rows among threads (predict.c).
 */
#ifndef XSMI_PREDICT_H
#define XSMI_PREDICT_H

#include "index/index.h"
#include "model/best_first.h"
#include "model/filter.h"
#include "model/score.h"
#include "base/held.h"
#include "base/top.h"

#include <xsoftmax/predict.h>

/* Rows scored together against all classes. */
#define XSMI_PIECE (XSMI_LANES * XSMI_TILE_BLOCKS)

/* A label tree that finds classes for the model. */
typedef struct xsmi_shortlist {
    const xsm_model *model; /* a reference, or NULL */
    uint32_t *match;        /* [classes] the class of the model that each class of the tree is */
    uint32_t candidates;    /* most classes that are scored for a row */
} xsmi_shortlist;

/* Memory for filtered rows, allocated with the first filter, and again if another layout of the model needs more. */
typedef struct xsmi_filtered {
    void *memory;
    size_t size;
    xsmi_row_filter *filters; /* [XSMI_PIECE] */
    uint32_t *classes;        /* classes that are scored together */
    float *scores;            /* their scores */
    float *hidden;            /* for a first layer */
    float *chosen;            /* for xsmi_model_chosen_scores() */
    void *listed;             /* for xsmi_model_score_listed() */
    bool sums;                /* the call wants probabilities that are relative to the classes that a beam finds */
} xsmi_filtered;

/* A thread's predictor (predict.c). */
typedef struct xsmi_worker {
    xsm_predictor *predictor;
    /* Its first job that failed in a run: */
    size_t failed; /* SIZE_MAX = none */
    xsm_status status;
    xsm_error err;
} xsmi_worker;

struct xsm_predictor {
    xsm_context *context;
    xsmi_held held;         /* scratch of a piece */
    const xsm_model *model; /* a reference */
    uint32_t top;
    /* The rows of one piece. */
    xsmi_features features[XSMI_PIECE];
    double log_sum_exp[XSMI_PIECE];
    float target_score[XSMI_PIECE];
    float *top_score;    /* [XSMI_PIECE][top] */
    uint32_t *top_class; /* [XSMI_PIECE][top] */
    double *probability; /* [top] of a row */
    void *scratch;
    size_t scratch_size;
    /* The model's, when the predictor was made: */
    xsmi_head *head;         /* a reference, so that no other head can get its address */
    uint32_t classes, width; /* of the output layer */
    const xsm_index *index;  /* a reference, or NULL */
    uint32_t beam;           /* width; 0 = none */
    uint32_t reach;          /* the widest beam that the scratch is for: `beam`, or a filter's */
    xsmi_filtered own;
    bool tree_alone;
    xsmi_shortlist shortlist;
    uint64_t probed;
    xsmi_worker *workers; /* [worker_count], which is 0 unless rows are divided among threads: then the workers
                             predict */
    uint32_t worker_count;
};

/* Returns the list of a row of the piece. */
static inline xsmi_top xsmi_predict_list(const xsm_predictor *p, size_t row)
{
    return (xsmi_top){p->top_score + row * p->top, p->top_class + row * p->top, p->top};
}

/* -- rows one by one (predict_filter.c) ---------------------------------------------------------------------------- */

/* Searches the best classes of a row among those that the filter leaves (NULL = all). Fills the list, best first, and
 * probabilities [top] unless that is NULL. `own` is the search's scratch. False if a score is not finite. */
typedef bool (*xsmi_row_search)(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter,
                                const void *own, const xsmi_top *list, double *probabilities);
/* Searches for each row of the batch `to`. */
xsm_status xsmi_predict_rows(xsm_predictor *p, const xsm_prediction *to, xsmi_row_search search, const void *own,
                             xsm_error *err);
/* Fails with the error of a row of the batch whose scores are not finite. */
xsm_status xsmi_predict_fail(const xsm_predictor *p, const xsm_batch *batch, size_t row, xsm_error *err);
/* Fills the list with the best of the classes that were found and scored. False if a score is not finite, or, without a
 * filter, too few were found. */
bool xsmi_predict_best(const xsm_predictor *p, const uint32_t *classes, const float *scores, uint32_t found,
                       const xsmi_row_filter *filter, const xsmi_top *list);
/* Computes the probability of each class by itself, with the model's calibration. Does nothing if `probabilities` is
 * NULL. */
void xsmi_predict_each(const xsm_predictor *p, const float *scores, size_t count, double *probabilities);

/* -- what rows may get (predict_filter.c) -------------------------------------------------------------------------- */

/* Checks filters and thresholds of a prediction. */
xsm_status xsmi_filter_check(const xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
/* Reserves memory for the filters of a checked prediction, and sets the reach that they need. */
xsm_status xsmi_filter_prepare(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
void xsmi_filter_release(xsm_predictor *p);
/* Makes the filter of row i, at position `at` of XSMI_PIECE; NULL = the prediction has no filters. */
const xsmi_row_filter *xsmi_filter_of(xsm_predictor *p, const xsm_prediction *to, size_t i, size_t at);
/* Whether probabilities are wanted, and whether they need the scores of all classes, or of all that a search finds. */
static inline bool xsmi_predict_wants(const xsm_prediction *to)
{
    return to->probabilities || to->least_probability > 0;
}
static inline bool xsmi_predict_sums(const xsm_predictor *p, const xsm_prediction *to)
{
    return xsmi_predict_wants(to) && !p->tree_alone && p->model->calibration.method != XSM_CALIBRATION_LABELS;
}
/* Whether scoring the classes that the filter leaves costs less than a search that finds `width` of all. */
bool xsmi_filter_leaves_few(const xsm_predictor *p, const xsmi_row_filter *f, uint32_t width);
/* Returns the width of a beam that finds as many of the classes that are left as one of width p->beam finds of all; 0 =
 * score all that are left. */
uint32_t xsmi_filter_width(const xsm_predictor *p, const xsmi_row_filter *f);
/* Scores all classes that are left and fills the list, best first. Scores have the bits of xsm_model_scores(), or if
 * `as_all` those of scoring every class. False if a score is not finite. */
bool xsmi_filter_score(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter, bool as_all,
                       const xsmi_top *list);
/* Returns the least number of classes that a list must have. */
static inline uint32_t xsmi_filter_least(const xsm_predictor *p, const xsmi_row_filter *f)
{
    return f && f->most < p->top ? f->most : p->top;
}
/* Whether a search found fewer classes than that: then all that are left must be scored. */
static inline bool xsmi_filter_misses(const xsm_predictor *p, const xsmi_row_filter *f, const xsmi_top *found)
{
    return f && found->class_of[xsmi_filter_least(p, f) - 1] == XSMI_NO_CLASS;
}

/* Returns memory for a row's probabilities until xsmi_predict_put(); NULL: they are not needed. */
double *xsmi_predict_space(const xsm_predictor *p, const xsm_prediction *to);
/* Writes a row's classes, above the thresholds. */
void xsmi_predict_put(const xsm_predictor *p, const xsm_prediction *to, size_t row, const xsmi_top *list);

/* Checks the options of a beam, and sets *width to its width, 0 for none (predict_beam.c). */
xsm_status xsmi_beam_width(const xsm_model *m, const xsm_predictor_options *o, uint32_t top, uint32_t *width,
                           xsm_error *err);
/* Return the bytes of scratch for a beam (SIZE_MAX: too many), and predict a batch with it. */
size_t xsmi_beam_scratch(const xsm_predictor *p);
xsm_status xsmi_beam_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
/* The same for an index (predict_index.c). */
size_t xsmi_index_scratch_of(const xsm_predictor *p);
xsm_status xsmi_index_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
/* The same for a search in label trees (predict_labels.c). */
size_t xsmi_labels_scratch(const xsm_predictor *p);
xsm_status xsmi_labels_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
/* The same for a shortlist (predict_shortlist.c). */
size_t xsmi_shortlist_scratch(const xsm_predictor *p);
xsm_status xsmi_shortlist_run(xsm_predictor *p, const xsm_prediction *to, xsm_error *err);
/* Refuses a shortlist, in the options, that does not suit the model. */
xsm_status xsmi_shortlist_check(const xsm_model *m, const xsm_predictor_options *o, xsm_error *err);
/* Makes the shortlist of a predictor whose other members are set. The caller frees the predictor, also on failure. */
xsm_status xsmi_shortlist_make(xsm_predictor *p, const xsm_predictor_options *o, xsm_error *err);
void xsmi_shortlist_free(xsm_predictor *p);

#endif
