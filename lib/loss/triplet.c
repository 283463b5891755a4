/*
 * The triplet loss over all pairs (Weinberger and Saul 2009; Yen et al. 2018, eq. 7, where the sign of the difference
 * is misprinted): sum over k in P, j in N of [z_j - z_k + 1]_+. Its gradient counts the pairs that are violated.
 *
 * The scores of P are sorted, with running sums; each class of N then finds its violated pairs by bisection.
 */
#include "loss/loss.h"

#include "base/heap_sort.h"
#include "base/order.h"

#include <math.h>

static size_t scratch_count(size_t positives, size_t negatives)
{
    (void)negatives;
    return 3 * positives + 1;
}

/* Returns how many of the rising values are below x. */
static size_t below(const double *values, size_t count, double x)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (values[middle] < x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static double triplet(const xsmi_loss_scores *z, double mu, xsmi_loss_gradient *g, double *scratch)
{
    (void)mu;
    size_t n = z->positives;
    double *sorted = scratch;
    double *hits = sorted + n; /* hits[i]: classes of N that violate exactly the i+1 worst */
    double *sums = hits + n;   /* sums[i]: of the i worst, relative to the worst */
    for (size_t i = 0; i < n; i++) {
        sorted[i] = z->positive[i];
        hits[i] = 0;
    }
    xsmi_heap_sort(sorted, n, sizeof *sorted, xsmi_compare_double);
    sums[0] = 0;
    for (size_t i = 0; i < n; i++) {
        sums[i + 1] = sums[i] + (sorted[i] - sorted[0]);
    }
    double value = 0;
    for (size_t j = 0; j <= z->negatives; j++) {
        double score = j < z->negatives ? z->negative[j] : 0, times = j < z->negatives ? 1 : z->missing;
        size_t pairs = below(sorted, n, score + 1);
        if (pairs > 0) {
            value += times * ((double)pairs * (score - sorted[0] + 1) - sums[pairs]);
            hits[pairs - 1] += times;
        }
        if (j < z->negatives) {
            g->negative[j] = (double)pairs;
        } else {
            g->missing = times > 0 ? (double)pairs : 0;
        }
    }
    /* A positive is violated by all negatives whose count of pairs reaches its rank. */
    for (size_t i = n; i-- > 1;) {
        hits[i - 1] += hits[i];
    }
    for (size_t i = 0; i < n; i++) {
        g->positive[i] = -hits[below(sorted, n, z->positive[i])];
    }
    return value;
}

static double lipschitz(double positives, double negatives)
{
    return 2 * positives * negatives;
}

static double smoothness(double mu, double positives)
{
    (void)mu;
    (void)positives;
    return INFINITY;
}

static double least_score(double mu, double least_positive, double largest_negative)
{
    (void)mu;
    (void)largest_negative;
    return least_positive - 1;
}

const xsmi_loss xsmi_loss_triplet = {
    .name = "triplet",
    .gradient = triplet,
    .scratch = scratch_count,
    .lipschitz = lipschitz,
    .smoothness = smoothness,
    .least = least_score,
};
