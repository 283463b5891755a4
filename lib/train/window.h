/*
 * Windows of single-example steps: classes are drawn ahead, so that their rows of weights can be prefetched, and steps
 * that share no row run on different threads.
 */
#ifndef XSMI_WINDOW_H
#define XSMI_WINDOW_H

#include "estimator/estimator.h"
#include "optimizer/optimizer.h"

#include <xsoftmax/trainer.h>

typedef struct xsmi_window xsmi_window;

/* Whether an estimator and a model can run in windows: sampled classes, one example a step, class-major rows of
 * weights. */
bool xsmi_window_fits(const xsm_estimator *e, const xsm_model *m);
xsm_status xsmi_window_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_window **out, xsm_error *err);
void xsmi_window_free(xsmi_window *w);
/* Return the most steps in one window, and how many threads a window runs on. */
uint64_t xsmi_window_steps(const xsmi_window *w);
uint32_t xsmi_window_threads(const xsmi_window *w);
/* The rows of a window. */
typedef struct xsmi_window_rows {
    const uint64_t *rows;         /* [count]; no row may occur twice */
    const double *etas;           /* [count] learning rates; only of the window that runs */
    uint64_t count;               /* 1 to xsmi_window_steps(); 0 if the next window is unknown */
    void (*prepare)(void *state); /* of the next window: writes its rows; called at most once, on any thread. NULL: they
                                     are written */
    void *state;
} xsmi_window_rows;

/* Takes one step for each of the rows of `now`. The result has the same bits as taking them one after another. `next`
 * has the expected rows of the next call, which must not change until then. Adds the losses, in order, to *loss. On
 * XSM_ERROR_DIVERGED, *failed is the first step that was not finite, for every kind of run. The steps before it were
 * taken; it and the steps that depend on it were not. On threads, later independent steps may have been taken. On a
 * divided model, a process that fails before its first step takes part in the others' next agreement. */
xsm_status xsmi_window_run(xsmi_window *w, const xsmi_window_rows *now, const xsmi_window_rows *next, double *loss,
                           uint64_t *failed, xsm_error *err);
/* Forgets the plan of the next window; call this when its rows or the estimator have changed. */
void xsmi_window_forget(xsmi_window *w);

/* Marks (model.h) the weights that the last window of `count` steps may have changed, unless the model is divided,
 * where it cannot. */
bool xsmi_window_can_mark(const xsmi_window *w);
void xsmi_window_mark(const xsmi_window *w, uint64_t count, uint64_t *marks);

/* How windows run. The result does not depend on it. */
enum {
    XSMI_WINDOW_FASTER = 0, /* the kind of run that was faster lately */
    XSMI_WINDOW_ORDER = 1,  /* in order, on the caller's thread */
    XSMI_WINDOW_THREADS = 2 /* on the threads, if the steps can be cut into lanes */
};
typedef struct xsmi_window_choice {
    int32_t mode;      /* XSMI_WINDOW_* */
    double pace[2];    /* seconds a step lately, in order and on the threads; 0 = unknown */
    uint32_t windows;  /* run so far */
    uint32_t next_try; /* the number of windows at which the slower kind is tried again */
    uint32_t patience; /* windows between the last two such trials */
    uint64_t threaded; /* windows that ran on the threads */
    uint64_t planned;  /* windows that were planned while the previous one ran */
} xsmi_window_choice;
/* Returns the state of that choice. Only tests call this: they set the mode to compare the bits of both kinds of run,
 * and read the counts to know that both ran. */
xsmi_window_choice *xsmi_window_chosen(xsmi_window *w);

#endif
