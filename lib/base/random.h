/*
 * Counter-based random streams: Philox4x32-10 (Salmon et al. 2011).
 *
 * A random stream is named by (seed, purpose, position), so that a draw does not depend on earlier draws: results are
 * the same on any number of threads and in any order of work. Making a stream costs nothing; its first draw costs one
 * Philox block (ten rounds).
 */
#ifndef XSMI_RANDOM_H
#define XSMI_RANDOM_H

#include "base/base.h"
#include "kernels/kernels.h"

#include <stdint.h>
#include <stddef.h>

/* The purpose of a random stream. Streams with different purposes are independent. Never change a number: the same seed
 * must keep giving the same results. */
enum {
    XSMI_STREAM_SHUFFLE = 1,   /* position = epoch */
    XSMI_STREAM_NEGATIVES = 2, /* position = running count of examples */
    XSMI_STREAM_SPLIT = 3,
    XSMI_STREAM_PERMUTE = 4,
    XSMI_STREAM_TUNE = 5,
    XSMI_STREAM_PCA = 6,       /* position = feature */
    XSMI_STREAM_EMBEDDING = 7, /* position = feature */
    XSMI_STREAM_TEXT = 12,     /* position = lines of text over all passes */
    XSMI_STREAM_WORDS = 13,    /* position = centre words over all passes */
    XSMI_STREAM_VECTORS = 14,  /* position = word */
    XSMI_STREAM_CLUSTERS = 20,
    XSMI_STREAM_CHECK = 21,
    XSMI_STREAM_LABEL_SPLIT = 22, /* position = node of a label tree, counted as they are split */
    XSMI_STREAM_LABEL_ORDER = 23  /* position = group of children of a label tree */
};

typedef struct xsmi_stream {
    uint32_t key[2];
    uint32_t counter[4]; /* block, purpose, position low, position high */
    uint32_t block[4];
    uint32_t used; /* words of the block already used */
} xsmi_stream;

void xsmi_stream_start(xsmi_stream *s, uint64_t seed, uint32_t purpose, uint64_t position);
/* Returns the next 32 random bits. */
uint32_t xsmi_stream_next(xsmi_stream *s);
/* Uniform in [0, n), exactly (Lemire's multiplication with rejection); n >= 1. */
uint64_t xsmi_stream_below(xsmi_stream *s, uint64_t n);
/* Uniform in [0, 1), 53 bits. */
double xsmi_stream_uniform(xsmi_stream *s);
/* Draws m distinct classes from {0..n-1} without `excluded`, each set with equal probability (Floyd's algorithm; 1 <= m
 * <= n-1; m = n-1 gives all the others in rising order). O(m) for m <= 32, else O(m log m). */
void xsmi_stream_others(xsmi_stream *s, uint32_t n, uint32_t excluded, uint32_t m, uint32_t *out);
/* New streams of one seed and purpose. */
typedef struct xsmi_streams {
    uint64_t seed;
    uint32_t purpose;
    const uint64_t *positions; /* [count] */
    size_t count;
} xsmi_streams;
/* Makes the first draw of xsmi_stream_others() with m = 1 from each stream: out[i] is not excluded[i]. The first words
 * of about ten streams are computed side by side. n >= 2. */
void xsmi_streams_other(const xsmi_kernels *kernels, const xsmi_streams *streams, uint32_t n, const uint32_t *excluded,
                        uint32_t *out);
/* From each stream m distinct numbers below n[i], or all of these if they are fewer, to out[i]: what
 * xsmi_stream_others() draws from n[i] + 1 classes without the last. The words of many streams are computed side by
 * side where m <= 32. */
void xsmi_streams_sets(const xsmi_kernels *kernels, const xsmi_streams *streams, const uint32_t *n, uint32_t m,
                       uint32_t *const *out);
/* xsmi_stream_others() without each of the `excluded_count` distinct classes in `excluded`, in any order; 0 <= m <= n -
 * excluded_count. For one excluded class the draws are those of xsmi_stream_others(). Each draw takes O(excluded_count)
 * more where few excluded classes are below it, and O(excluded_count log excluded_count) at most. */
void xsmi_stream_without(xsmi_stream *s, uint32_t n, const uint32_t *excluded, uint32_t excluded_count, uint32_t m,
                         uint32_t *out);
/* Permutes `order` of n numbers (Fisher-Yates). A call that is cancelled meanwhile leaves some order. */
xsm_status xsmi_stream_permute(const xsm_context *ctx, xsmi_stream *s, uint64_t *order, size_t n, xsm_error *err);
/* The same for the numbers below n, which it writes first. */
xsm_status xsmi_stream_order(const xsm_context *ctx, xsmi_stream *s, uint64_t *order, size_t n, xsm_error *err);

#endif
