/*
 * Calls that all processes make together if the classes of a model are divided among them, for the floors above the
 * model. With a model that is not divided, and with NULL, they compare nothing, and return a status as it is.
 */
#ifndef XSMI_TOGETHER_H
#define XSMI_TOGETHER_H

#include "base/settings.h"
#include "model/score_all.h"

/* Return the number of processes of the model's context, and the number of this one, from 0. */
uint32_t xsmi_processes(const xsm_model *m);
uint32_t xsmi_process(const xsm_model *m);

/* Refuses a model whose parts may come from different steps. */
xsm_status xsmi_model_need_together(const xsm_model *m, const char *what, xsm_error *err);

/* XSMI_COLLECTIVE() of ranks/comm.h, for public calls that need all processes of a divided model. */
#define XSMI_TOGETHER(m, call, err) (xsmi_together_enter(m), xsmi_together_leave(m, call, err))
void xsmi_together_enter(const xsm_model *m);
xsm_status xsmi_together_leave(const xsm_model *m, xsm_status status, xsm_error *err);

/* Begins a part of such a call. */
void xsmi_together_begin(const xsm_model *m);
/* Makes the processes agree on a status, unless they have: returns XSM_OK, or on every process the status and the
 * message of the first process that has failed. */
xsm_status xsmi_together(const xsm_model *m, xsm_status status, xsm_error *err);
/* Whether all processes know of a failure since xsmi_together_begin(), or can no longer learn of one. */
bool xsmi_together_failed(const xsm_model *m);
/* Marks a divided model `apart`: a step has been taken in this process, and perhaps in no other. */
void xsmi_together_lose(xsm_model *m);
/* Ends a step. `alone`: it has failed in this process, and perhaps in no other. If weights may then have changed in
 * other processes, the model is marked `apart`. */
xsm_status xsmi_together_end_step(xsm_model *m, bool alone, xsm_status status, xsm_error *err);

/* Compare what all processes have read or were given; fail on every process if one has something else than the first.
 * `status` says whether this process could gather it. */
xsm_status xsmi_together_rows(const xsm_model *m, const xsm_dataset *rows, bool labels_alone, xsm_error *err);
xsm_status xsmi_together_batch(const xsm_model *m, const xsm_batch *batch, uint64_t asked, xsm_status status,
                               xsm_error *err);
xsm_status xsmi_together_order(const xsm_model *m, const xsm_dataset *rows, xsm_error *err);
xsm_status xsmi_together_numbers(const xsm_model *m, const xsmi_number *numbers, size_t count, xsm_status status,
                                 xsm_error *err);
/* Compares the settings that add() adds, and what the model is. */
xsm_status xsmi_together_settings(const xsm_model *m,
                                  xsm_status (*add)(const void *of, xsmi_settings *s, xsm_error *err), const void *of,
                                  xsm_error *err);
xsm_status xsmi_together_file(const xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err);
/* Replaces a number by that of the first process. */
xsm_status xsmi_together_first(const xsm_model *m, double *number, xsm_error *err);
/* Replaces each number by the largest of all processes. */
xsm_status xsmi_together_largest(const xsm_model *m, float *numbers, size_t count, xsm_error *err);
/* Fills `all` with the blocks of the processes of a divided model one after another; that of process r has sizes[r]
 * bytes. */
xsm_status xsmi_together_blocks(const xsm_model *m, const void *mine, void *all, const size_t *sizes, xsm_error *err);
/* xsmi_together() after an exchange from which all processes of a divided model know that the first one that has failed
 * is `first`. */
xsm_status xsmi_together_failed_in(const xsm_model *m, uint32_t first, xsm_status status, xsm_error *err);

/* A list of classes for each of some rows. */
typedef struct xsmi_score_lists {
    const uint32_t **classes; /* [rows] */
    size_t *counts;           /* [rows] lengths; 0: no list */
    float *scores;            /* [total] as from xsmi_model_chosen_scores(), one list after another; INFINITY in place
                                 of NaN, -INFINITY for a class that the model lacks */
    size_t total;
} xsmi_score_lists;

/* With a divided model: xsmi_model_score_rows() for any number of rows, and scores of lists, with the results in every
 * process, on the context's threads. `status` says whether this process has what it needs; `scratch` is not used. For
 * each row, a process sends 4 bytes for the target, 8 for each entry of the top list and 12 for each of its class runs,
 * and 4 for each class of a list. With other models: xsmi_model_score_rows() in this thread, without lists. */
xsm_status xsmi_together_score_rows(const xsm_model *m, const xsmi_score_all *rows, const xsmi_score_lists *lists,
                                    void *scratch, xsm_context *ctx, xsm_status status, xsm_error *err);
/* Returns the bytes of scratch for xsmi_together_score_rows(). */
size_t xsmi_together_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top);
/* Returns how many threads may predict with a model at a time: all of the context, or 1 if predictions need every
 * process. */
uint32_t xsmi_together_callers(const xsm_model *m, const xsm_context *ctx);

#endif
