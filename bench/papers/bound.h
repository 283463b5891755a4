/*
 * The bounds of Titsias 2016 over all rows. Bouchard's is also computed with other updates of alpha than in the
 * library, which uses the best alpha of each row in every evaluation. It shares no code with the library's estimators.
 */
#ifndef PAPERS_BOUND_H
#define PAPERS_BOUND_H

#include "learn.h"

typedef enum bound_alpha {
    BOUND_NONE,  /* one-vs-each, which has no alpha */
    BOUND_BEST,  /* each evaluation finds the best alpha of each row, and stores it */
    BOUND_KEPT,  /* the stored alphas */
    BOUND_JOINT, /* alphas are variables, like the weights */
} bound_alpha;

typedef struct bound bound;

/* Copies the rows, which have one label each. */
bound *bound_new(const xsm_dataset *train, double ridge);
void bound_free(bound *b);
/* The length of x: K (D + 1) weights, that of feature j and class k at [j*K + k] and the biases last, which are not
 * penalised; with BOUND_JOINT followed by the rows' alphas. */
size_t bound_size(const bound *b, bound_alpha how);
/* The sum of the rows' bounds on their log-loss, and (ridge/2)||w||^2; fills gradient[bound_size()]. */
double bound_value(bound *b, bound_alpha how, const double *x, double *gradient);
/* The value at the weights of a linear model with a bias. */
double bound_of_model(bound *b, bound_alpha how, xsm_model *model);
/* Copies the weights to a linear model with a bias; `centred`: minus their mean over the classes. */
void bound_to_model(const bound *b, const double *x, bool centred, xsm_model *model);

#endif
