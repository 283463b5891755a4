/*
 * Groups of rows that follow each other: the clicks of a session, the earlier items of a user, the paragraphs of a
 * document. What is learned of a group's other rows helps its own, and no others', so a group judges whole
 * (leave-one-group-out cross-validation): rows of new groups would be judged by what they do not have.
 */
#ifndef XSMI_ROW_GROUPS_H
#define XSMI_ROW_GROUPS_H

#include "data/dataset.h"

/* Whether rows and those behind them are more alike, by the cosine of their features, than rows of one class are, so
 * that an order by classes makes no groups. Looks at the first rows of `order`, which is random, and writes to *alike
 * the mean cosine of rows of one class. `last` is scratch, [classes]. Time: O(rows) at most. */
bool xsmi_rows_grouped(const xsm_context *ctx, const xsm_dataset *d, const uint64_t *order, uint64_t *last,
                       double *alike);
/* Lists the first rows of groups, at most `rows` of them: a row begins a group if its cosine with the row before it is
 * at most `alike`, or if the group has a hundredth of all rows. Returns their number. */
uint64_t xsmi_row_groups(const xsm_context *ctx, const xsm_dataset *d, double alike, uint64_t *first);

#endif
