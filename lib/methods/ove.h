/* The one-vs-each bound of a list of scores (logits); each estimator makes the list in its own way. */
#ifndef XSMI_OVE_H
#define XSMI_OVE_H

#include <stdint.h>

/* Computes eq. 6 of Titsias (2016) for one example. The label's score comes first, then those of the other classes of
 * C, up to position `soft`. From there to `length` are scores of some of the `outside` classes that are neither; they
 * represent all of these. Returns the loss and fills g [length], which may be z. */
double xsmi_ove_gradient(const float *z, uint32_t soft, uint32_t length, uint32_t outside, float *g);

#endif
