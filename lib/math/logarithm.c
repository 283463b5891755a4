/*
 * The reduction of fdlibm (e_log.c, Sun Microsystems 1993), with the terms of the Taylor series as they are.
 *
 * x = 2^k m with m in [sqrt(1/2), sqrt(2)), f = m - 1, s = f/(2 + f): log(m) = 2 atanh(s) = 2 s + 2 s^3/3 + 2 s^5/5 +
 * ..., where s^2 is at most 0.0295, so that the terms left out are below 1e-17 of it. Every operation rounds once, and
 * none is fused.
 */
#include "math/logarithm.h"

#include <stdint.h>
#include <string.h>

double xsmi_logarithm(double x)
{
    const uint64_t one = 0x3ff0000000000000, root = 0x3fe6a09e667f3bcd; /* 1 and sqrt(1/2) */
    const uint64_t mantissa = 0x000fffffffffffff;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits += one - root;
    const double k = (double)((int64_t)(bits >> 52) - 1023);
    bits = (bits & mantissa) + root;
    double m;
    memcpy(&m, &bits, sizeof m);
    const double f = m - 1, s = f / (2 + f), z = s * s, z2 = z * z;
    const double even = 1.0 / 3 + z2 * (1.0 / 7 + z2 * (1.0 / 11 + z2 * (1.0 / 15 + z2 * (1.0 / 19))));
    const double odd = 1.0 / 5 + z2 * (1.0 / 9 + z2 * (1.0 / 13 + z2 * (1.0 / 17 + z2 * (1.0 / 21))));
    const double ln2 = 0x1.62e42fefa39efp-1;
    return k * ln2 + 2 * (s + s * z * (even + z * odd));
}
