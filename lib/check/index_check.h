/* What the parts of the trial of an index's table share. */
#ifndef XSMI_CHECK_INDEX_H
#define XSMI_CHECK_INDEX_H

#include "index/index.h"

enum { XSMI_TRIAL_QUERIES = 70, XSMI_TRIAL_TOP = 10 }; /* more queries than in a block */
enum { XSMI_TRIAL_BIASED = 1, XSMI_TRIAL_EQUAL = 2, XSMI_TRIAL_ZEROS = 4 };

typedef struct xsmi_index_trial {
    xsm_context *context;
    const xsm_index_ops *ops;
    const xsm_index_check_options *options;
    uint32_t rows, width;
    int kind; /* a sum of the values above: rows have a bias, some rows are equal, some are zeros */
    float *x, *bias, *queries;
    /* [XSMI_TRIAL_QUERIES][top] and [XSMI_TRIAL_QUERIES] of two searches */
    uint32_t *classes[2], *lengths[2];
    float *scores[2];
    uint32_t top;
} xsmi_index_trial;

/* Reports an error of the table. */
xsm_status xsmi_index_fault(const xsmi_index_trial *p, xsm_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Returns the score of row k, and sets *size to |row| |query|; both include the bias, and the squared norms are
 * increased by 1. */
double xsmi_index_trial_score(const xsmi_index_trial *p, uint32_t query, uint32_t k, double *size);

/* Tests next(), if the table has it. Searches 0 and 1 have listed XSMI_TRIAL_TOP and `top` rows. */
xsm_status xsmi_index_try_next(const xsmi_index_trial *p, const xsm_index *x, xsm_error *err);
/* Tests that queries which take turns on the threads of a context have cursors of their own. */
xsm_status xsmi_index_try_cursors(const xsmi_index_trial *p, const xsm_index *x, xsm_context *threads, xsm_error *err);

#endif
