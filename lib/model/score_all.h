/*
 * Sums and best classes over all classes. Floors above the model call xsmi_together_score_rows().
 */
#ifndef XSMI_SCORE_ALL_H
#define XSMI_SCORE_ALL_H

#include "math/log_sum.h"
#include "model/score.h"

/*
 * Rows whose scores against every class are added to the results tile by tile and not stored. The loss of a row is
 * log_sum_exp - target_score, where target_score is the same float that entered the sum. In a model with a calibration
 * log_sum_exp is the log-partition: that of the scaled scores, or the sum over all classes of log(1 + exp(scale z +
 * shift)); target_score and top_score are not scaled. A score that is not a number, or plus infinity, makes log_sum_exp
 * NaN or infinite. A row's results have the same bits whatever other rows are scored with it, on any number of threads.
 */
typedef struct xsmi_score_all {
    size_t rows;                    /* n <= XSMI_TILE_ROWS */
    const xsmi_features *features;  /* [n] */
    bool sparse;                    /* rows are lists of features */
    const uint32_t *target;         /* [n] class whose score is requested, or XSMI_NO_CLASS; NULL = none */
    uint32_t top;                   /* length of the top lists */
    bool lists_alone;               /* the sums are not needed: log_sum_exp is then 0 of a row that was screened */
    const xsmi_row_filter *filters; /* [n] which classes the top lists may have; NULL = all. The sums include all
                                       classes. */
    /* results */
    double *log_sum_exp; /* [n] */
    /* [n][run_count] the sum of each class run, which are then joined to log_sum_exp; NULL = not requested */
    xsmi_log_sum *runs;
    size_t run_count;    /* number of the model's class runs, if `runs` are requested */
    float *target_score; /* [n], with target; -INFINITY for XSMI_NO_CLASS or a class that the model lacks */
    float *top_score;    /* [n][top] falling; of equal scores the smaller class first */
    uint32_t *top_class; /* [n][top]; XSMI_NO_CLASS after the last of the K classes, or of those that the filter
                            accepts */
} xsmi_score_all;

/* Returns the bytes of scratch for `blocks` blocks of dense or sparse rows against this model; SIZE_MAX if they cannot
 * be addressed. */
size_t xsmi_model_score_all_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top);
/* Scores up to XSMI_TILE_ROWS rows, one after another in memory, which are divided into blocks, against all classes.
 * `scratch` (aligned to XSMI_ALIGNMENT) has the size for so many blocks. Polls the activity of `ctx`; the results of a
 * cancelled call are undefined. */
void xsmi_model_score_rows(const xsm_model *m, const xsmi_score_all *rows, void *scratch, const xsm_context *ctx);

#endif
