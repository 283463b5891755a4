/* The one-vs-each bound of a list of scores, which estimators get in ways of their own. */
#ifndef XSMI_OVE_H
#define XSMI_OVE_H

#include <stdint.h>

/* Eq. 6 of Titsias (2016) for one example. The label's score is first, those of the others of C follow up to place
 * `soft`, and from there to `length` those of some of the `outside` classes that are neither, which stand for all of
 * them. Returns the loss and fills g [length], which may be z. */
double xsmi_ove_gradient(const float *z, uint32_t soft, uint32_t length, uint32_t outside, float *g);

#endif
