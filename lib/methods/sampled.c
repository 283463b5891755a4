/* The draws that estimators with a sampler request. */
#include "methods/sampled.h"

void xsmi_plan_any(const void *state, xsm_draw_plan *p)
{
    p->count = (uint32_t)((const xsmi_draws *)state)->negatives;
}

void xsmi_plan_probabilities(const void *state, xsm_draw_plan *p)
{
    xsmi_plan_any(state, p);
    p->label_probabilities = 1;
}

void xsmi_plan_others(const void *state, xsm_draw_plan *p)
{
    xsmi_plan_any(state, p);
    p->exclude_labels = 1;
}
