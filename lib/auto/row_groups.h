/*
 * Groups of rows that follow each other: the clicks of a session, the earlier items of a user, the paragraphs of a
 * document; and copies of rows. What a model learns from some rows of a group helps with the others, and not with rows
 * of new groups, so a group is held back as a whole (leave-one-group-out cross-validation).
 */
#ifndef XSMI_ROW_GROUPS_H
#define XSMI_ROW_GROUPS_H

#include "data/dataset.h"

/* Whether neighbouring rows are more alike, by the cosine of their features, than rows of one class, so that rows
 * sorted by class make no groups. Looks at the first rows of `order`, which is random, and sets *alike to the mean
 * cosine of rows of one class. `last` is scratch, [classes]. Time: O(rows) at most. */
bool xsmi_rows_grouped(const xsm_context *ctx, const xsm_dataset *d, const uint64_t *order, uint64_t *last,
                       double *alike);
/* Sets first[] to the first row of each group, [rows] at most: a row begins a group if its cosine with the row before
 * it is at most `alike`, or if the group so far has `most` rows. Returns their number. */
uint64_t xsmi_row_groups(const xsm_context *ctx, const xsm_dataset *d, double alike, uint64_t most, uint64_t *first);

/* Whether a quarter of the rows are copies of others, with their labels, as where rare classes were written several
 * times; not if rows of the same features often have other labels, as in tables of few values, where copies are chance.
 * Sets order[] to the rows in an order that does not depend on theirs, copies together. `spare`: scratch, [rows]. */
bool xsmi_rows_copied(const xsm_context *ctx, const xsm_dataset *d, uint64_t seed, uint64_t *order, uint64_t *spare);

#endif
