/*
 * Whether all processes of a group have the same rows, by hashes of the datasets, and the same settings. The context
 * NULL is this process alone.
 */
#ifndef XSMI_SAME_H
#define XSMI_SAME_H

#include "base/settings.h"
#include "data/dataset.h"

#include <xsoftmax/batch.h>

/* Compare the rows that all processes have read, the second without the features: all fail if one has others than
 * process 0. Each sends 56 bytes. A process that has failed before calls xsmi_agree() instead. */
xsm_status xsmi_check_same_rows(xsm_context *ctx, const xsm_dataset *d, xsm_error *err);
xsm_status xsmi_check_same_labels(xsm_context *ctx, const xsm_dataset *d, xsm_error *err);
/* xsmi_agree_same() on the rows of a batch: those of a dataset by its hash and the rows' numbers, those of a host's
 * arrays by how many they are; and on `asked`, a hash of what else the call was given. `status` says whether the call
 * was accepted; if not, the batch is not read. */
xsm_status xsmi_check_same_batch(xsm_context *ctx, const xsm_batch *batch, uint64_t asked, xsm_status status,
                                 xsm_error *err);

/* Compares the settings of all processes of a group. All return the same status; the message names the first process
 * whose settings differ, and the first setting that does. `status` is that of gathering them. Each process sends 32
 * bytes, and process 0 sends 8 more and, if they differ, its settings as text. */
xsm_status xsmi_settings_agree(xsm_context *group, const xsmi_settings *s, xsm_status status, xsm_error *err);
/* Compares numbers in the same way. */
xsm_status xsmi_numbers_agree(xsm_context *group, const xsmi_number *numbers, size_t count, xsm_status status,
                              xsm_error *err);

#endif
