/*
 * The best classes of a hierarchy without scoring all nodes. The most probable node so far is expanded first. As no
 * child is more probable than its parent, classes are found in the order of their probabilities. O(D + log K) for each
 * node expanded: some log K nodes per class where the model is sure, all K-1 where all classes are equally
 * probable.
 */
#ifndef XSMI_BEST_FIRST_H
#define XSMI_BEST_FIRST_H

#include "model/filter.h"
#include "model/score.h"

/* Bytes of scratch. */
size_t xsmi_best_first_scratch(const xsm_model *m);
/* The most probable classes of a row under a model with a hierarchy, and their log p, falling, of equal ones the
 * smaller class first; of those that the filter leaves (NULL = all), where they are fewer, XSMI_NO_CLASS and -INFINITY
 * past the last. Returns the number of nodes expanded, 0 when a score is not finite. */
uint64_t xsmi_best_first(const xsm_model *m, const xsmi_features *x, const xsmi_row_filter *filter,
                         const xsmi_top *list, void *scratch);

#endif
