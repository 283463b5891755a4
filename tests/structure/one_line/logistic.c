/* A logistic for each class: sum over P of log(1 + e^-z_k) + sum over N of log(1 + e^z_j). */
#include "loss/loss.h"

#include "math/omega.h"

#include <math.h>

static double sigmoid(double z)
{
    return 1 / (1 + exp(-z));
}

static double logistic(const xsmi_loss_scores *z, double mu, xsmi_loss_gradient *g, double *scratch)
{
    double value = z->missing * log(2);
    (void)mu;
    (void)scratch;
    for (size_t k = 0; k < z->positives; k++) {
        value += xsmi_softplus(-z->positive[k]);
        g->positive[k] = -sigmoid(-z->positive[k]);
    }
    for (size_t j = 0; j < z->negatives; j++) {
        value += xsmi_softplus(z->negative[j]);
        g->negative[j] = sigmoid(z->negative[j]);
    }
    g->missing = z->missing > 0 ? 0.5 : 0;
    return value;
}

static double lipschitz(double positives, double negatives)
{
    return positives + negatives;
}

static double smoothness(double mu, double positives)
{
    (void)mu;
    (void)positives;
    return 0.25;
}

const xsmi_loss xsmi_loss_logistic = {
    .name = "logistic",
    .gradient = logistic,
    .lipschitz = lipschitz,
    .smoothness = smoothness,
};
