/*
 * A logarithm with the same bits for every C library and instruction set, for numbers that rows and models keep.
 */
#ifndef XSMI_LOGARITHM_H
#define XSMI_LOGARITHM_H

/* Returns the natural logarithm of a finite x of at least DBL_MIN; error below 3 ulp. */
double xsmi_logarithm(double x);

#endif
