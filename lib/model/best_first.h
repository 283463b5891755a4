/*
 * Finds the best classes of a hierarchy without scoring all nodes. Always expands the most probable node so far. As no
 * child is more probable than its parent, classes are found in the order of their probabilities. O(D + log K) for each
 * node expanded: about log K nodes per class if one class is very probable, all K-1 if all classes are equally
 * probable.
 */
#ifndef XSMI_BEST_FIRST_H
#define XSMI_BEST_FIRST_H

#include "model/filter.h"
#include "model/score.h"

/* Returns the bytes of scratch of a search. */
size_t xsmi_best_first_scratch(const xsm_model *m);
/* Lists the most probable classes of a row under a model with a hierarchy, and their log p, in falling order; of equal
 * ones the smaller class comes first. Lists only classes that the filter accepts (NULL = all); if they are too few,
 * XSMI_NO_CLASS and -INFINITY follow the last. Returns the number of nodes expanded, 0 when a score is not finite. */
uint64_t xsmi_best_first(const xsm_model *m, const xsmi_features *x, const xsmi_row_filter *filter,
                         const xsmi_top *list, void *scratch);

#endif
