/*
 * The upper tail of the chi-square distribution in closed form (Abramowitz and Stegun 26.4.4 and 26.4.5): for n degrees
 * of freedom and h = x/2,
 *     n even: sum over j = 0 .. n/2-1 of e^-h h^j / j!
 *     n odd:  erfc(sqrt h) + sum over j = 1 .. (n-1)/2 of e^-h h^(j-1/2) / Gamma(j+1/2).
 * The terms rise up to j = h; they are summed relative to the largest.
 */
#include "check/chi_square.h"
#include "base/order.h"

#include <math.h>

#define HALF_LOG_PI 0.57236494292470008707

double xsmi_chi_square_tail(double x, uint32_t freedom)
{
    double h = x / 2;
    if (!(h > 0)) {
        return 1;
    }
    uint32_t odd = freedom % 2, terms = freedom / 2;
    double half = odd ? 0.5 : 0;
    /* The index of the largest term; its logarithm is summed factor by factor. */
    double log_term = odd ? -h + 0.5 * log(h) - (HALF_LOG_PI - log(2)) : -h;
    uint32_t largest = 0;
    for (uint32_t j = 1; j < terms && h > j + half; j++) {
        log_term += log(h / (j + half));
        largest = j;
    }
    double sum = terms > 0 ? 1 : 0, term = 1;
    for (uint32_t j = largest + 1; j < terms; j++) {
        term *= h / (j + half);
        sum += term;
    }
    term = 1;
    for (uint32_t j = largest; j > 0; j--) {
        term *= (j + half) / h;
        sum += term;
    }
    double tail = terms > 0 ? exp(log_term + log(sum)) : 0;
    tail += odd ? erfc(sqrt(h)) : 0;
    return XSMI_MIN(tail, 1);
}
