/*
 * Products of two features of a row, as features of their own: those of the pairs that occur together in training rows,
 * for the transform step products=N.
 */
#ifndef XSMI_PRODUCTS_H
#define XSMI_PRODUCTS_H

#include "data/dataset.h"

typedef struct xsmi_products {
    xsmi_feature_pair *pairs; /* [count], rising, as xsmi_products_check() wants them */
    uint32_t count;
    size_t capacity;
    uint32_t features; /* of rows without products: pair k makes the feature `features` + k */
} xsmi_products;

/* Finds the pairs of features below `features` that are both not zero in `least` rows or more, and adds them to *out,
 * which has none before. Time grows with the pairs of all rows, counted in each row. Besides the pairs it takes 16
 * bytes a row and 28 a feature. `out` is the caller's to free, also on failure. */
xsm_status xsmi_products_learn(xsm_context *ctx, const xsm_dataset *d, uint32_t features, uint32_t least,
                               xsmi_products *out, xsm_error *err);
/* Refuses pairs that do not rise, whose features do not rise or are not below `features`, or that are too many. */
xsm_status xsmi_products_check(const xsmi_feature_pair *pairs, uint32_t count, uint32_t features, xsm_error *err);
/* Makes a copy of checked pairs. */
xsm_status xsmi_products_copy(xsm_context *ctx, const xsmi_feature_pair *pairs, uint32_t count, uint32_t features,
                              xsmi_products *out, xsm_error *err);
void xsmi_products_free(xsm_context *ctx, xsmi_products *p);

/* Returns the most products that a row of `count` features can have. */
uint64_t xsmi_products_most(const xsmi_products *p, size_t count);
/* Appends to a row the products that are not zero, for which the arrays have room. False if one is not finite: at[0]
 * and at[1] are then the positions of its features. */
bool xsmi_products_append(const xsmi_products *p, uint32_t *index, float *values, size_t *count, size_t at[2]);

#endif
