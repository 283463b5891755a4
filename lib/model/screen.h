/*
 * The best of all classes of a single row, without the sum over all.
 */
#ifndef XSMI_SCREEN_H
#define XSMI_SCREEN_H

#include "model/score_all.h"

/* Whether xsmi_model_screen() finds the best classes of a sparse or dense row faster than xsmi_model_score_rows(). */
bool xsmi_model_screens(const xsm_model *m, bool sparse, uint32_t top);
size_t xsmi_model_screen_scratch(const xsm_model *m, uint32_t top);
/* Fills a row's list with the classes and scores that xsmi_model_score_rows() finds, with the same bits. Returns false
 * if it cannot tell which these are: scores may not be finite, or too many are nearly equal. `scratch` (aligned to
 * XSMI_ALIGNMENT) has xsmi_model_screen_scratch() bytes. Polls the activity of `ctx`; the results of a cancelled call
 * are undefined. */
bool xsmi_model_screen(const xsm_model *m, const xsmi_features *row, const xsmi_top *list, void *scratch,
                       const xsm_context *ctx);

#endif
