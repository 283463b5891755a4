/*
 * The smoothed margin loss (Yen et al. 2018, eq. 3, 10 and 11). Its gradient is the projection of (z + 1_N)/mu onto the
 * bi-simplex, whose entries are 0 except for classes of N within mu of the best of them and above min_P z - 1, and
 * classes of P within mu of the worst.
 */
#include "loss/loss.h"
#include "base/order.h"
#include "math/simplex.h"

#include <math.h>

static size_t scratch_count(size_t positives, size_t negatives)
{
    size_t points = negatives + 1; /* the missing classes are one more point */
    return 2 * points + positives + xsmi_bisimplex_scratch(points, positives);
}

static double margin(const xsmi_loss_scores *z, double mu, xsmi_loss_gradient *g, double *scratch)
{
    double *b = scratch, *weight = b + z->negatives + 1, *c = weight + z->negatives + 1, *rest = c + z->positives;
    double least = z->positive[0], most = z->missing > 0 ? 0 : -INFINITY;
    for (size_t i = 0; i < z->positives; i++) {
        least = XSMI_MIN(z->positive[i], least);
    }
    for (size_t i = 0; i < z->negatives; i++) {
        most = XSMI_MAX(z->negative[i], most);
    }
    /* Scores relative to the best of N and the worst of P, so that differences are exact for large scores or small
     * mu. */
    size_t points = 0, kept = 0;
    for (size_t i = 0; i < z->positives; i++) {
        g->positive[i] = 0;
        if (z->positive[i] - least < mu) {
            c[kept++] = -(z->positive[i] - least) / mu;
        }
    }
    double bar = XSMI_MAX(most - mu, least - 1);
    for (size_t i = 0; i < z->negatives; i++) {
        g->negative[i] = 0;
        if (z->negative[i] > bar) {
            b[points] = (z->negative[i] - most) / mu;
            weight[points++] = 1;
        }
    }
    g->missing = 0;
    if (z->missing > 0 && 0 > bar) {
        b[points] = (0 - most) / mu;
        weight[points++] = z->missing;
    }
    if (points == 0) {
        return 0;
    }
    xsmi_points on_b = {b, weight, points}, on_c = {c, NULL, kept};
    double shift = (most - least + 1) / mu;
    xsmi_bisimplex p = xsmi_bisimplex_project(&on_b, &on_c, shift, rest);
    if (p.sum == 0) {
        return 0;
    }
    double linear = p.sum * shift, square = 0;
    for (size_t i = 0; i < z->positives; i++) {
        double at = (z->positive[i] - least) / mu, alpha = -at - p.t_c;
        if (alpha > 0) {
            g->positive[i] = -alpha;
            linear -= alpha * at;
            square += alpha * alpha;
        }
    }
    for (size_t i = 0; i < z->negatives; i++) {
        double at = (z->negative[i] - most) / mu, alpha = at - p.t_b;
        if (z->negative[i] > bar && alpha > 0) {
            g->negative[i] = alpha;
            linear += alpha * at;
            square += alpha * alpha;
        }
    }
    double at = (0 - most) / mu, alpha = at - p.t_b;
    if (z->missing > 0 && 0 > bar && alpha > 0) {
        g->missing = alpha;
        linear += z->missing * alpha * at;
        square += z->missing * alpha * alpha;
    }
    double value = mu * (linear - square / 2);
    return XSMI_MAX(value, 0);
}

static double lipschitz(double positives, double negatives)
{
    (void)positives;
    (void)negatives;
    return 2; /* |alpha|_1 in C */
}

static double smoothness(double mu, double positives)
{
    (void)positives;
    return 1 / mu; /* a projection increases no distance */
}

static double least_score(double mu, double least_positive, double largest_negative)
{
    double near = largest_negative - mu, below = least_positive - 1;
    return XSMI_MAX(near, below);
}

double xsmi_margin_bar(double mu, double least_positive, double largest_negative, const float *best, size_t ranges,
                       double *scratch)
{
    double bar = least_score(mu, least_positive, largest_negative);
    size_t near = 0;
    for (size_t range = 0; range < ranges; range++) {
        if ((double)best[range] > bar) {
            scratch[near++] = ((double)best[range] - largest_negative) / mu;
        }
    }
    if (near > 1) {
        xsmi_points points = {scratch, NULL, near};
        double among = largest_negative + mu * xsmi_simplex_threshold(&points, scratch + ranges);
        bar = XSMI_MAX(among, bar);
    }
    return bar - 1e-12 * fabs(bar); /* lowered by more than rounding errors */
}

const xsmi_loss xsmi_loss_margin = {
    .name = "margin",
    .gradient = margin,
    .scratch = scratch_count,
    .lipschitz = lipschitz,
    .smoothness = smoothness,
    .least = least_score,
    .bar = xsmi_margin_bar,
};
