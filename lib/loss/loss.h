/*
 * Losses of score (logit) vectors with one or several true classes P (Yen et al., Loss Decomposition for Fast Learning
 * in Large Output Spaces, 2018, section 2): value and gradient where only some of the scores are known.
 *
 * Notation: N the other classes, z_k the score of a class, p_k = e^z_k / sum_j e^z_j.
 *
 *     cross-entropy   log sum_j e^z_j - mean over P of z_k
 *     margin          max over alpha in C of <z + 1_N, alpha> - mu/2 |alpha|^2
 *     triplet         sum over k in P, j in N of [z_j - z_k + 1]_+
 *     nca             sum over P of (log sum_j e^z_j - z_k), z = -distance (eq. 6)
 *
 * The constants a and b of |L(z) - L(z')| <= a |z - z'|_inf and |grad L(z) - grad L(z')|_2 <= b |z - z'|_2, which
 * lipschitz() and smoothness() give:
 *
 *                     a             b
 *     cross-entropy   2             1/2
 *     margin          2             1/mu
 *     triplet         2 |P| |N|     none: it has kinks
 *     nca             2 |P|         |P|/2
 *
 * C is the bi-simplex {alpha >= 0 on N, <= 0 on P, sum over N = -sum over P <= 1}. `margin` is the loss of Crammer and
 * Singer, [max_N z_j - min_P z_k + 1]_+, smoothed as Nesterov does: it is smaller by at most mu. All losses are convex.
 */
#ifndef XSMI_LOSS_H
#define XSMI_LOSS_H

#include <stdbool.h>
#include <stddef.h>

/* The known scores: those in the lists, and a score of 0 for `missing` further classes of N. */
typedef struct xsmi_loss_scores {
    const double *positive; /* [positives] of P, finite */
    const double *negative; /* [negatives] of classes of N, finite */
    size_t positives;       /* at least 1 */
    size_t negatives;
    double missing; /* a whole number, 0 or more */
} xsmi_loss_scores;

/* dL/dz of the same entries. */
typedef struct xsmi_loss_gradient {
    double *positive, *negative;
    double missing; /* derivative of each missing class */
    double log_sum; /* log of the sum of e^z over all these classes, if the loss has one */
} xsmi_loss_gradient;

typedef struct xsmi_loss {
    const char *name;
    /* Fills *g and returns L. `scratch` as below. `mu` is above 0; only margin uses it. */
    double (*gradient)(const xsmi_loss_scores *z, double mu, xsmi_loss_gradient *g, double *scratch);
    /* Doubles of scratch for lists of that length; NULL = no scratch. */
    size_t (*scratch)(size_t positives, size_t negatives);
    /* The Lipschitz constant of L in the largest change of a score, for |P| and |N|. */
    double (*lipschitz)(double positives, double negatives);
    /* The Lipschitz constant of the gradient, in the Euclidean norm; INFINITY = none. */
    double (*smoothness)(double mu, double positives);
    /* A threshold: classes of N with scores at or below it contribute nothing to L and its gradient, given the least
     * score of P and the largest of N. NULL = every class contributes. */
    double (*least)(double mu, double least_positive, double largest_negative);
    /* As least(), but perhaps higher, given also the best score in each of several ranges of the classes of N. 3
     * doubles of scratch a range. NULL = least(). */
    double (*bar)(double mu, double least_positive, double largest_negative, const float *best, size_t ranges,
                  double *scratch);
    bool sums_all;    /* classes of score 0 make up most of L, so that missing classes count by default */
    bool has_log_sum; /* L is a factor times log sum_j e^z_j, less a sum over P */
} xsmi_loss;

/* The losses: a new one is its file and a line here. */
/* clang-format off */
#define XSMI_LOSSES(X) \
    X(xsmi_loss_cross_entropy, "cross-entropy") \
    X(xsmi_loss_margin, "margin") \
    X(xsmi_loss_triplet, "triplet") \
    X(xsmi_loss_nca, "nca")
/* clang-format on */
#define XSMI_DECLARE_LOSS(table, name) extern const xsmi_loss table;
XSMI_LOSSES(XSMI_DECLARE_LOSS)

/* bar() of the margin: the projection of the best scores alone has a threshold at or below that of all scores. */
double xsmi_margin_bar(double mu, double least_positive, double largest_negative, const float *best, size_t ranges,
                       double *scratch);

/* All losses, ended by NULL; and their names, ended by NULL, for tables of options. */
extern const xsmi_loss *const xsmi_losses[];
extern const char *const xsmi_loss_names[];

#endif
