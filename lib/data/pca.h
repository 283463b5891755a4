/*
 * Principal components of a dataset's rows, dense or sparse: the coordinates of a row in the directions in which the
 * rows vary most.
 */
#ifndef XSMI_PCA_H
#define XSMI_PCA_H

#include "data/dataset.h"

#include "base/held.h"

typedef struct xsmi_pca_options {
    uint32_t components; /* k, at most D */
    bool correlation;    /* features are divided by their standard deviation first; constant ones are omitted */
    bool whiten;         /* each component is divided by its standard deviation */
    uint64_t seed;       /* of the random start */
} xsmi_pca_options;

/* code_c = sum_j (x_j - mean_j) direction[j][c]. */
typedef struct xsmi_pca {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    uint32_t features, components;
    float *direction; /* [features][components], standard deviations divided in */
    float *mean;      /* [features] */
    double *offset;   /* [components] the code of the mean, uncentred */
    double *variance; /* [components] along each, falling; with `correlation` of the scaled features */
} xsmi_pca;

/* Finds the components by block subspace iteration from a random start (Halko, Martinsson and Tropp, Finding structure
 * with randomness, 2011, sections 4.5 and 5.5), centring implicitly for sparse rows: a pass over the rows an iteration,
 * on all threads, O(values (k + 10)) each, until the variances no longer change. Where k + 10 >= D the result is exact.
 * The signs are such that each direction's largest entry is above 0. Directions without variance are left out, so that
 * there may be fewer than k, none if all rows are alike. The same bits on any number of threads. XSM_ERROR_RANGE for k
 * = 0 or above D, XSM_ERROR_MEMORY, XSM_ERROR_RUNNER. */
xsm_status xsmi_pca_fit(xsm_context *ctx, const xsm_dataset *data, const xsmi_pca_options *options, xsmi_pca *out,
                        xsm_error *err);
void xsmi_pca_clear(xsmi_pca *p);
/* Makes the arrays for `features` features and `components` components, for a loader to fill, which then calls
 * xsmi_pca_set_offset(). */
xsm_status xsmi_pca_start(xsm_context *ctx, uint32_t features, uint32_t components, xsmi_pca *out, xsm_error *err);
/* Computes `offset` from the other members, after loading. */
void xsmi_pca_set_offset(xsmi_pca *p);
/* Computes a row's components. */
void xsmi_pca_encode(const xsmi_pca *p, const xsmi_features *x, float *code);

#endif
