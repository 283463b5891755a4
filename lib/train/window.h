/*
 * Windows of single-example steps: classes are drawn ahead, so that their rows can be fetched ahead, and steps that
 * share no row run on different threads.
 */
#ifndef XSMI_WINDOW_H
#define XSMI_WINDOW_H

#include "optimizer/optimizer.h"

#include <xsoftmax/trainer.h>

typedef struct xsmi_window xsmi_window;

/* Whether an estimator and a model can be run in windows: sampled classes, one example a step, rows by class. */
bool xsmi_window_fits(const xsm_estimator *e, const xsm_model *m);
xsm_status xsmi_window_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_window **out, xsm_error *err);
void xsmi_window_free(xsmi_window *w);
/* Most steps in one window. */
uint64_t xsmi_window_steps(const xsmi_window *w);
/* The rows of the next window. */
typedef struct xsmi_window_coming {
    const uint64_t *rows;         /* [count] */
    uint64_t count;               /* 1 to xsmi_window_steps() */
    void (*prepare)(void *state); /* puts the rows there; called at most once, on any thread. NULL = they are there */
    void *state;
} xsmi_window_coming;

/* Takes one step for each of rows[0..count), step s at rate etas[s], in that order as far as anyone can tell: the
 * result is the same bits as taking them one after another. No row twice. `coming` is what the next call is expected to
 * be for; NULL = not known. Until then those rows may not change. Adds the
 * losses, in order, to *loss. On XSM_ERROR_DIVERGED, *failed is the first step that was not finite, whichever way the
 * window ran. The steps before it were taken, it and what depends on it were not; on threads, later steps that do not
 * depend on it may have been. */
xsm_status xsmi_window_run(xsmi_window *w, const uint64_t *rows, uint64_t count, const xsmi_window_coming *coming,
                           const double *etas, double *loss, uint64_t *failed, xsm_error *err);
/* Forgets what was planned, for rows or an estimator that are not what they were. */
void xsmi_window_forget(xsmi_window *w);

/* Marks (model.h) the weights that the last window of `count` steps may have changed. */
void xsmi_window_mark(const xsmi_window *w, uint64_t count, uint64_t *marks);

/* How windows are run. The result does not depend on it: this is for tests, to have the way that they mean. */
enum {
    XSMI_WINDOW_FASTER = 0, /* whichever way was faster lately */
    XSMI_WINDOW_ORDER = 1,  /* on the caller's thread */
    XSMI_WINDOW_THREADS = 2 /* on the threads, where the steps can be cut into lanes */
};
void xsmi_window_go(xsmi_window *w, int32_t way);
/* Windows that ran on the threads so far. */
uint64_t xsmi_window_threaded(const xsmi_window *w);
/* Windows that were planned beside the one before. */
uint64_t xsmi_window_planned(const xsmi_window *w);
/* A trainer's window; NULL where it takes batches. */
xsmi_window *xsmi_trainer_window(xsm_trainer *trainer);

#endif
