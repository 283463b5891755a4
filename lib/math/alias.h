/*
 * Drawing from a fixed distribution over n outcomes in O(1): Walker's alias method, set up in O(n) by M. Vose's
 * algorithm (A linear algorithm for generating random numbers with a given distribution, 1991).
 */
#ifndef XSMI_ALIAS_H
#define XSMI_ALIAS_H

#include "base/base.h"
#include "base/random.h"

/* A column of the table. A draw of it returns the column's own number if 32 random bits are below `threshold`, else its
 * alias. Rounding to 32 bits changes an outcome's probability by at most 2^-32 of a column's for each column that leads
 * to it. */
typedef struct xsmi_alias_column {
    uint32_t threshold, alias;
} xsmi_alias_column;

typedef struct xsmi_alias {
    xsmi_alias_column *columns; /* [count] */
    uint32_t count;
} xsmi_alias;

/* Makes a table for probabilities in proportion to weights[0..count), which are finite and not negative, at least one
 * above zero; count >= 1. Temporarily allocates `count` doubles and integers. An outcome of weight 0 is never drawn. */
xsm_status xsmi_alias_new(xsm_context *ctx, const double *weights, uint32_t count, xsmi_alias *out, xsm_error *err);
void xsmi_alias_clear(xsm_context *ctx, xsmi_alias *table);

/* Draws `count` outcomes, those of as many calls of xsmi_alias_draw(): the columns are looked up side by side. */
void xsmi_alias_draws(const xsmi_alias *table, xsmi_stream *stream, uint32_t count, uint32_t *out);

static inline uint32_t xsmi_alias_draw(const xsmi_alias *table, xsmi_stream *stream)
{
    uint32_t column = (uint32_t)xsmi_stream_below(stream, table->count);
    xsmi_alias_column c = table->columns[column];
    return xsmi_stream_next(stream) < c.threshold ? column : c.alias;
}

#endif
