/*
 * A model's calibration: what turns its scores (logits) into probabilities. Scores stay as they are; the factor is
 * applied only where probabilities are made: in the log-partition of score_all.c, and in xsmi_probability().
 */
#ifndef XSMI_CALIBRATION_H
#define XSMI_CALIBRATION_H

#include "kernels/kernels.h"
#include "math/log_sum.h"
#include "model/tile.h"

#include <xsoftmax/calibrate.h>

#include <math.h>

/* The limits of factors of the scores: beyond them float32 could not hold the products. */
#define XSMI_CALIBRATION_LEAST 0x1p-20
#define XSMI_CALIBRATION_MOST 0x1p20

typedef struct xsmi_calibration {
    int32_t method;      /* XSM_CALIBRATION_* */
    double scale, shift; /* values of float32, as tiles use them */
} xsmi_calibration;

/* Returns the calibration of a model that was given none, by its XSM_LINK_*. */
static inline xsmi_calibration xsmi_calibration_of_link(int32_t link)
{
    return link == XSM_LINK_SIGMOID ? (xsmi_calibration){XSM_CALIBRATION_LABELS, 1, 0}
                                    : (xsmi_calibration){XSM_CALIBRATION_NONE, 1, 0};
}
static inline bool xsmi_calibration_is_link(const xsmi_calibration *c, int32_t link)
{
    const xsmi_calibration own = xsmi_calibration_of_link(link);
    return c->method == own.method && c->scale == own.scale && c->shift == own.shift;
}

/* Returns a number rounded to float32. It goes through memory, because gcc 12 omits the rounding when it converts two
 * neighbours there and back at once. */
static inline double xsmi_as_float(double number)
{
    volatile float rounded = (float)number;
    return (double)rounded;
}

/* Whether the numbers of a calibration are accepted. */
static inline bool xsmi_calibration_is_valid(const xsmi_calibration *c)
{
    return c->scale >= XSMI_CALIBRATION_LEAST && c->scale <= XSMI_CALIBRATION_MOST && isfinite(c->shift) &&
           (c->method == XSM_CALIBRATION_LABELS || (c->method == XSM_CALIBRATION_TEMPERATURE && c->shift == 0));
}

/* Returns a calibrated score, rounded like the scores that log-partitions sum, so that no score is above its row's
 * log-partition. */
static inline double xsmi_calibrated_score(const xsmi_calibration *c, float score)
{
    const double scaled = c->scale == 1 ? (double)score : xsmi_as_float(c->scale * (double)score);
    return c->shift == 0 ? scaled : xsmi_as_float(scaled + c->shift);
}
/* Returns a class's probability from its score and the row's log-partition (xsmi_score_all). */
static inline double xsmi_probability(const xsmi_calibration *c, float score, double log_partition)
{
    const double z = xsmi_calibrated_score(c, score);
    const double p = c->method == XSM_CALIBRATION_LABELS ? 1 / (1 + exp(-z)) : exp(z - log_partition);
    return p > 1 && p < INFINITY ? 1 : p; /* a sum of float32 is rounded, possibly to less than its largest
                                             exponential */
}

/* Returns the maximum of a class run before its first tile. With XSM_CALIBRATION_LABELS the sums are of losses, not of
 * exponentials, and are joined without a shift. */
static inline float xsmi_run_start(int32_t method)
{
    return method == XSM_CALIBRATION_LABELS ? 0 : -INFINITY;
}
/* Returns a row's log-partition from the joined sums of its class runs. */
static inline double xsmi_log_partition(int32_t method, const xsmi_log_sum *total)
{
    return method == XSM_CALIBRATION_LABELS ? total->sum : (double)total->max + log(total->sum);
}

/* Number of floats of a tile. */
#define XSMI_TILE_FLOATS ((size_t)XSMI_CLASS_TILE * XSMI_LANES)

/* Adds the exponentials of `scale` times a tile's scores to the sums of its rows; max and sum are those of the tile's
 * block, [XSMI_LANES], as in xsmi_reduction. `scratch` has XSMI_TILE_FLOATS. */
void xsmi_add_exponentials(const xsmi_kernels *kernels, const xsmi_tile *tile, size_t rows, float scale, float *max,
                           double *sum, float *scratch);
/* Adds log(1 + exp(scale z + shift)) of a tile's scores to the sums of its block's rows, [XSMI_LANES]. `scratch` has
 * four times XSMI_TILE_FLOATS. */
void xsmi_add_branches(const xsmi_kernels *kernels, const xsmi_tile *tile, size_t rows, const xsmi_calibration *c,
                       double *sum, float *scratch);

/* The values of the file's metadata "link", by XSM_LINK_*. */
extern const char *const xsmi_link_words[2];
/* The text of the file's metadata "calibration", such as "temperature 0.8" or "labels 1.1 -2": the scale, then the
 * shift. xsmi_calibration_describe() writes it; xsmi_calibration_parse() reads it, and returns false if it is no such
 * text. */
#define XSMI_CALIBRATION_TEXT 96
void xsmi_calibration_describe(const xsmi_calibration *c, char *text, size_t size);
bool xsmi_calibration_parse(const char *text, xsmi_calibration *c);

#endif
