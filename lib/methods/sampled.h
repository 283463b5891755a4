/*
 * Common definitions of estimators with a sampler: the number of draws, and an example of a block in the form of their
 * formulas.
 */
#ifndef XSMI_SAMPLED_H
#define XSMI_SAMPLED_H

#include "methods/method.h"

/* The first member of their states; for some it is the whole state. */
typedef struct xsmi_draws {
    int64_t negatives; /* m */
} xsmi_draws;

/* The entry for it in their option tables. */
#define XSMI_DRAWS_OPTION                                                                                              \
    XSMI_OPTION_INT("negatives", xsmi_draws, negatives, "5", 1, XSM_CLASSES_MAX,                                       \
                    "classes that are drawn for each example, m")

/* plan() functions: for estimators that use all m draws, labels included; for those that also need the labels'
 * probabilities; and for those that use only draws of other classes. */
void xsmi_plan_any(const void *state, xsm_draw_plan *p);
void xsmi_plan_probabilities(const void *state, xsm_draw_plan *p);
void xsmi_plan_others(const void *state, xsm_draw_plan *p);

/* One example of a block: [length] entries, its labels first. */
typedef struct xsmi_sampled_example {
    const float *z;
    const double *log_expected;
    const uint32_t *draws;
    float *g;
    uint32_t length, labels;
} xsmi_sampled_example;

static inline xsmi_sampled_example xsmi_sampled_at(const xsm_score_block *block, uint64_t i)
{
    uint64_t start = i * block->width;
    return (xsmi_sampled_example){
        block->scores + start,       block->log_expected + start, block->draws + start,
        block->coefficients + start, block->lengths[i],           (uint32_t)block->examples[i].label_count,
    };
}

#endif
