/*
 * Calls that all processes make together where the classes of a model are divided among them, as floors above the model
 * see it. Of a model that one process has alone, and of NULL, nothing is compared, and a status is returned as it is.
 */
#ifndef XSMI_TOGETHER_H
#define XSMI_TOGETHER_H

#include "base/settings.h"
#include "model/score.h"

/* The processes among which the classes of a model are divided, and the number of this one, from 0. */
uint32_t xsmi_processes(const xsm_model *m);
uint32_t xsmi_process(const xsm_model *m);

/* Refuses a model whose parts may be of different steps. */
xsm_status xsmi_model_need_together(const xsm_model *m, const char *what, xsm_error *err);

/* Begins a call that may fail in one process. */
void xsmi_together_begin(const xsm_model *m);
/* Passes on, unless all processes know it already, whether they are well: XSM_OK, or everywhere the status and the
 * message of the first process that has failed. */
xsm_status xsmi_together(const xsm_model *m, xsm_status status, xsm_error *err);
/* Both around a call, which is evaluated between them. */
#define XSMI_TOGETHER(m, call, err) (xsmi_together_begin(m), xsmi_together(m, call, err))
/* The same at the end of a call that all processes leave together where it succeeds: then nothing is sent. */
xsm_status xsmi_together_end(const xsm_model *m, xsm_status status, xsm_error *err);
/* Whether all processes know of a failure since xsmi_together_begin(), or cannot learn of one any more. */
bool xsmi_together_failed(const xsm_model *m);
/* The end of a step that has failed, perhaps in this process `alone`: where weights may have changed in others, the
 * model is apart from then on. */
xsm_status xsmi_together_end_step(xsm_model *m, bool alone, xsm_status status, xsm_error *err);

/* Compare what all processes have read or were given: an error everywhere if that of one is not that of the first.
 * `status` says whether it was gathered. */
xsm_status xsmi_together_rows(const xsm_model *m, const xsm_dataset *rows, bool labels_alone, xsm_error *err);
xsm_status xsmi_together_batch(const xsm_model *m, const xsm_batch *batch, xsm_status status, xsm_error *err);
xsm_status xsmi_together_order(const xsm_model *m, const xsm_dataset *rows, xsm_error *err);
xsm_status xsmi_together_numbers(const xsm_model *m, const xsmi_number *numbers, size_t count, xsm_status status,
                                 xsm_error *err);
xsm_status xsmi_together_settings(const xsm_model *m, const xsmi_settings *s, xsm_status status, xsm_error *err);
xsm_status xsmi_together_file(const xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err);
/* Makes a number that of the first process. */
xsm_status xsmi_together_first(const xsm_model *m, double *number, xsm_error *err);
/* The largest of each number of all processes. */
xsm_status xsmi_together_largest(const xsm_model *m, float *numbers, size_t count, xsm_error *err);
/* The blocks of the processes of a divided model one after another; that of process r has sizes[r] bytes. */
xsm_status xsmi_together_blocks(const xsm_model *m, const void *mine, void *all, const size_t *sizes, xsm_error *err);
/* xsmi_together() where all processes of a divided model know by what they have exchanged that the first that has
 * failed is `first`. */
xsm_status xsmi_together_failed_in(const xsm_model *m, uint32_t first, xsm_status status, xsm_error *err);

/* Lists of classes of some rows. */
typedef struct xsmi_score_lists {
    const uint32_t **classes; /* [rows] */
    size_t *counts;           /* [rows] 0: none */
    float *scores;            /* [total] as xsmi_model_chosen_scores(), one list after another; NaN is infinite, and a
                                 class that the model lacks has -INFINITY */
    size_t total;
} xsmi_score_lists;

/* xsmi_model_score_rows() of any number of rows, and of a divided model the scores of lists, too: the results in every
 * process, on the context's threads. `status` says whether this process has what it needs; `scratch` is not used. A row
 * takes 4 bytes for its target, 8 for each entry of its list and 12 for each class run of this process, a list 4 for
 * each class. Otherwise at most as many rows as xsmi_model_score_rows() takes, in this thread, and no lists. */
xsm_status xsmi_together_score_rows(const xsm_model *m, const xsmi_score_all *rows, const xsmi_score_lists *lists,
                                    void *scratch, xsm_context *ctx, xsm_status status, xsm_error *err);
/* Bytes of scratch for that. */
size_t xsmi_together_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top);
/* Threads that may predict with a model at a time: all of a context, or 1 where predictions need every process. */
uint32_t xsmi_together_callers(const xsm_model *m, const xsm_context *ctx);

#endif
