/* A test of a sampler's table: its draws, saving and loading. */
#ifndef XSMI_CHECK_SAMPLER_H
#define XSMI_CHECK_SAMPLER_H

#include "check/failures.h"
#include "check/made_rows.h"
#include "sampler/sampler.h"

/* Draws of each row where the draws of all rows are compared. */
#define XSMI_TRIAL_DRAWS 3

typedef struct xsmi_sampler_trial {
    xsm_context *context;
    const xsm_sampler_ops *ops;
    const xsm_sampler_check_options *options;
    xsmi_trial_shape shape;
    bool follows;   /* it follows a made-up training before it is tried */
    uint32_t tests; /* chi-square tests of the whole suite, which share the false-alarm rate */
    xsm_dataset *data;
    float *all, *other; /* [COMPARED_ROWS][K] */
    double *q;          /* [K] */
    uint32_t *seen;     /* [K] */
    uint32_t *classes[2];
    double *logs[2]; /* [rows][XSMI_TRIAL_DRAWS] */
    uint32_t *some;  /* [K + GUARD] */
    double *some_logs;
    uint32_t *excluded; /* [K] */
} xsmi_sampler_trial;

/* Reports an error of the table. */
xsm_status xsmi_sampler_fault(const xsmi_sampler_trial *t, xsm_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* xsm_sampler_set(), for xsmi_trial_set(). */
xsm_status xsmi_sampler_trial_set(void *object, const char *name, const char *value, xsm_error *err);
/* Lets a sampler follow a training with the trial's rows in batches. */
xsm_status xsmi_sampler_trial_follow(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err);
/* Makes a sampler with the options of the trial, bound to its data, which has followed if t->follows. */
xsm_status xsmi_sampler_trial_make(const xsmi_sampler_trial *t, xsm_context *ctx, xsm_sampler **out, xsm_error *err);
/* Draws for all rows, together or one by one, into classes[into] and logs[into]. */
xsm_status xsmi_sampler_trial_draw(const xsmi_sampler_trial *t, const xsm_sampler *s, int into, bool alone,
                                   xsm_error *err);
/* Checks that both draws have the same bits. */
xsm_status xsmi_sampler_trial_same(const xsmi_sampler_trial *t, const char *when, xsm_error *err);
/* Checks that draw_rows() draws the same as draw(). */
xsm_status xsmi_sampler_trial_rows(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err);
/* Saves a sampler that has drawn into classes[0] and logs[0], and loads it. */
xsm_status xsmi_sampler_trial_saved(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err);

#endif
