/*
 * Cross-entropy and neighbourhood component analysis (Yen et al. 2018, eq. 2 and 6): the same function of the scores
 * (logits), which are negative distances in the second. The first takes the mean over P, the second the sum.
 */
#include "loss/loss.h"

#include "base/order.h"

#include <math.h>

/* Returns weight * (log sum_j e^z_j - mean over P of z_k), and computes its gradient. */
static double weighted(const xsmi_loss_scores *z, double weight, xsmi_loss_gradient *g)
{
    double most = z->positive[0], target = 0, sum = 0;
    for (size_t i = 0; i < z->positives; i++) {
        most = XSMI_MAX(z->positive[i], most);
    }
    for (size_t i = 0; i < z->negatives; i++) {
        most = XSMI_MAX(z->negative[i], most);
    }
    most = z->missing > 0 && most < 0 ? 0 : most;
    for (size_t i = 0; i < z->positives; i++) {
        g->positive[i] = exp(z->positive[i] - most);
        sum += g->positive[i];
        target += z->positive[i] - most;
    }
    for (size_t i = 0; i < z->negatives; i++) {
        g->negative[i] = exp(z->negative[i] - most);
        sum += g->negative[i];
    }
    double absent = exp(-most);
    sum += z->missing > 0 ? z->missing * absent : 0;
    double share = 1 / (double)z->positives;
    for (size_t i = 0; i < z->positives; i++) {
        g->positive[i] = weight * (g->positive[i] / sum - share);
    }
    for (size_t i = 0; i < z->negatives; i++) {
        g->negative[i] = weight * (g->negative[i] / sum);
    }
    g->missing = z->missing > 0 ? weight * (absent / sum) : 0;
    g->log_sum = most + log(sum);
    return weight * (log(sum) - share * target);
}

static double cross_entropy(const xsmi_loss_scores *z, double mu, xsmi_loss_gradient *g, double *scratch)
{
    (void)mu;
    (void)scratch;
    return weighted(z, 1, g);
}

static double nca(const xsmi_loss_scores *z, double mu, xsmi_loss_gradient *g, double *scratch)
{
    (void)mu;
    (void)scratch;
    return weighted(z, (double)z->positives, g);
}

static double cross_entropy_lipschitz(double positives, double negatives)
{
    (void)positives;
    (void)negatives;
    return 2; /* |p - target|_1 is at most 2, as both are distributions */
}

static double nca_lipschitz(double positives, double negatives)
{
    (void)negatives;
    return 2 * positives;
}

static double cross_entropy_smoothness(double mu, double positives)
{
    (void)mu;
    (void)positives;
    return 0.5; /* the largest eigenvalue that diag(p) - p p' can have */
}

static double nca_smoothness(double mu, double positives)
{
    (void)mu;
    return 0.5 * positives;
}

const xsmi_loss xsmi_loss_cross_entropy = {
    .name = "cross-entropy",
    .sums_all = true,
    .has_log_sum = true,
    .gradient = cross_entropy,
    .lipschitz = cross_entropy_lipschitz,
    .smoothness = cross_entropy_smoothness,
};

const xsmi_loss xsmi_loss_nca = {
    .name = "nca",
    .has_log_sum = true,
    .gradient = nca,
    .lipschitz = nca_lipschitz,
    .smoothness = nca_smoothness,
};
