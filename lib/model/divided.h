/*
 * Models whose classes are divided among the processes of a context: ranks/comm.h.
 *
 * The class runs (XSMI_RUN_CLASSES) are divided into contiguous parts, one for each process. A divided model has no
 * weights; its part is another model, whose class c is class first + c of the divided one. A first layer belongs to the
 * part, and the divided model's `layer` points to it; every process has all of its vectors. Sums over all classes are
 * joined by class runs, in rising order, so that results have the same bits as in one process. All processes make the
 * same calls.
 *
 * Label trees and sparse weights are not divided: each process has a copy, which it uses by itself; process 0 saves it.
 */
#ifndef XSMI_DIVIDED_H
#define XSMI_DIVIDED_H

#include "model/together.h"

/* -- which process has which classes (class_parts.c) --------------------------------------------------------------- */

/* Returns the number of class runs of `classes` classes. */
uint32_t xsmi_runs_of(uint32_t classes);
/* Whether there are enough classes for each of `ranks` processes to have at least one class run. */
static inline bool xsmi_enough_classes(uint32_t classes, uint32_t ranks)
{
    return xsmi_runs_of(classes) >= ranks;
}
/* Returns the first class of process `rank`; the number of classes if `rank` is the number of processes. */
uint32_t xsmi_part_start(uint32_t classes, uint32_t ranks, uint32_t rank);
/* Returns the number of classes of a process. */
uint32_t xsmi_part_size(uint32_t classes, uint32_t ranks, uint32_t rank);
/* Returns the number of class runs of a process's part. */
uint32_t xsmi_runs_of_rank(const xsm_model *m, uint32_t rank);
/* Returns the process that has a class. */
uint32_t xsmi_part_of(uint32_t classes, uint32_t ranks, uint32_t class);
/* Counts a list's classes by process: sizes[r] is the number of those of process r, and next[r] the number of those of
 * all processes before r. Writes ranks + 1 numbers to `next`. */
void xsmi_part_count(uint32_t classes, uint32_t ranks, const uint32_t *list, size_t count, size_t *next, size_t *sizes);

/* Returns the end of a process's columns in a line that has a column for each class, and `width` columns with its
 * padding. */
size_t xsmi_part_columns_end(uint32_t classes, uint32_t ranks, uint32_t rank, size_t width);

/* -- models (divided.c) -------------------------------------------------------------------------------------------- */

/* Makes a divided model with the shape of another, without its layer. Its part in this process is `own`, which it takes
 * on success. Sends nothing. */
xsm_status xsmi_divided_of_part(const xsm_model *like, xsm_model *own, xsm_model **out, xsm_error *err);
/* Returns a number that tells files apart, made from their checksums; 0 for a file without any. */
uint64_t xsmi_file_mark(const xsmi_container *c);
/* Called by all processes with the marks of the files that they have read. Fails on all if they have read different
 * files, for example because a file was replaced meanwhile, or if a file has no checksum. */
xsm_status xsmi_check_same_file(xsm_context *ctx, uint64_t mark, const char *name, xsm_error *err);
/* Divides a model that every process has loaded, whole or with the weights of its part. Every process keeps label trees
 * and sparse weights whole. Sends nothing: the caller makes the processes agree. */
xsm_status xsmi_model_divide(xsm_model *m, xsm_error *err);

/* Return whether this process has a class, and the end of the part that has it. */
bool xsmi_divided_has(const xsm_model *m, size_t class);
size_t xsmi_divided_end(const xsm_model *m, size_t class);
/* Copies `data` from the process that has the class to all processes, if `status` is XSM_OK on all of them
 * (xsmi_agree()). */
xsm_status xsmi_divided_share(const xsm_model *m, size_t class, void *data, size_t bytes, xsm_status status,
                              xsm_error *err);

#endif
