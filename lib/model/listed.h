/*
 * Scores of listed classes with the same bits as when all classes are scored.
 */
#ifndef XSMI_LISTED_H
#define XSMI_LISTED_H

#include "model/score.h"

/* Whether xsmi_model_score_listed() takes a model: not if it is divided, has dense weights in fewer bits than float32,
 * or a head other than a number for each class. */
bool xsmi_model_lists_as_all(const xsm_model *m);
/* Returns the bytes of its scratch. */
size_t xsmi_model_listed_scratch(const xsm_model *m);
/* Computes the scores of xsmi_model_chosen_scores(), with the bits that they have when all classes are scored. */
void xsmi_model_score_listed(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                             float *scores, void *scratch);

#endif
