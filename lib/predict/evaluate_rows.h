/*
 * The rows of an evaluation: a job scores some of them and adds their measures.
 */
#ifndef XSMI_EVALUATE_ROWS_H
#define XSMI_EVALUATE_ROWS_H

#include "model/score.h"
#include "predict/bins.h"
#include "predict/evaluate.h"

/* Rows of a job. */
#define XSMI_EVALUATE_ROWS (XSMI_LANES * XSMI_TILE_BLOCKS)

/* Sums over the rows of one job. All but the numbers of rows and labels multiply each row by its weight. */
typedef struct xsmi_evaluated {
    double log_loss;
    /* Sums by bin: the probabilities of the best classes, and the weight of those that are labels. */
    double sure[XSMI_BINS], right[XSMI_BINS];
    double weight, known_weight, wrong; /* weights of rows: of those with a label, with a known one, of wrong ones */
    uint64_t rows, known_rows, unlabelled, unseen_labels;
    uint64_t failed; /* first row whose scores are not finite, or UINT64_MAX */
} xsmi_evaluated;

/* Sums over rows for each k <= top. Weighted measures also have the sum of the best possible values. */
enum {
    XSMI_PRECISION,
    XSMI_NDCG,
    XSMI_PSP,
    XSMI_PSP_BEST,
    XSMI_PSNDCG,
    XSMI_PSNDCG_BEST,
    XSMI_RECALL,
    XSMI_HITS,
    XSMI_RECIPROCAL,
    XSMI_MEASURES
};

typedef struct xsmi_evaluate_job {
    xsm_context *context;
    const xsm_model *model;
    const xsm_dataset *dataset;
    uint32_t top;             /* at least 1 */
    bool ranked;              /* measures are wanted */
    uint64_t rows;            /* to evaluate, of the dataset's */
    uint32_t beam;            /* xsmi_model_beam() */
    bool lossless;            /* the model has no log-loss */
    uint64_t most;            /* rows with scratch, at most those of a job */
    size_t jobs, round;       /* all jobs; the most in a round */
    size_t first;             /* first job of the round */
    xsmi_evaluated *partials; /* [jobs of a round] */
    double *measures;         /* [jobs of a round][XSMI_MEASURES][top] if `ranked` */
    size_t weight_count;      /* K+1, or 0 */
    double *weights;          /* [weight_count] 1/propensity of each class, then of an unseen one; NULL = unknown */
    double *discounts;        /* [top] 1/log2(j + 2) */
    xsmi_row_outcome *each;   /* [rows], or NULL */
    unsigned char *scratch;   /* [threads][scratch_each] */
    size_t scratch_each;
} xsmi_evaluate_job;

/* Returns the bytes of a thread's scratch. */
size_t xsmi_evaluate_scratch_bytes(const xsmi_evaluate_job *job);
/* Evaluates the rows of a job of the round, for xsmi_run() with an xsmi_evaluate_job. */
void xsmi_evaluate_rows_job(void *state, size_t index, uint32_t thread);
/* The same for a model that all processes score together, on the context's threads: one job after another. */
xsm_status xsmi_evaluate_rows_together(const xsmi_evaluate_job *job, size_t index, xsm_error *err);

#endif
