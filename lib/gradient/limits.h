/* Limits of the numbers that estimators and optimizers pass on. */
#ifndef XSMI_LIMITS_H
#define XSMI_LIMITS_H

/* Larger scores and steps are reported as divergence. The limit is far above any meaningful number, and small enough
 * that a step divided by the smallest scales of a row is still a float32. */
#define XSMI_STEP_LIMIT 1e15
/* The limit of the weight gradients of an example, for every learning rate: squares of larger numbers, which optimizers
 * sum, exceed float32. */
#define XSMI_GRADIENT_LIMIT 1e18

#endif
