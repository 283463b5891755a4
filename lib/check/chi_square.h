/* The chi-square distribution. */
#ifndef XSMI_CHECK_CHI_SQUARE_H
#define XSMI_CHECK_CHI_SQUARE_H

#include <stdint.h>

/* Returns P(X > x) for a chi-square X with `freedom` >= 1 degrees of freedom, x >= 0; relative error below 1e-11 where
 * the result is above 1e-300. O(freedom). */
double xsmi_chi_square_tail(double x, uint32_t freedom);

#endif
