/*
 * A set of numbers below a limit, which can be listed in rising order: a bit for each number, and a bit for each word
 * of these bits, so that a few numbers among millions are found without reading all words.
 */
#ifndef XSMI_LABEL_MARKS_H
#define XSMI_LABEL_MARKS_H

#include "base/base.h"

typedef struct xsmi_marks {
    uint64_t *word, *summary; /* both all zero when the set is empty */
    size_t words, summaries;
} xsmi_marks;

static inline bool xsmi_marks_new(xsmi_marks *m, xsm_context *ctx, uint32_t limit)
{
    m->words = (size_t)limit / 64 + 1;
    m->summaries = m->words / 64 + 1;
    m->word = xsmi_allocate_zero(ctx, m->words + m->summaries, sizeof *m->word);
    m->summary = m->word ? m->word + m->words : NULL;
    return m->word != NULL;
}

static inline void xsmi_marks_free(xsmi_marks *m, xsm_context *ctx)
{
    xsmi_release(ctx, m->word, m->words + m->summaries, sizeof *m->word);
    m->word = NULL;
}

static inline void xsmi_marks_add(xsmi_marks *m, uint32_t number)
{
    const size_t w = number / 64;
    m->word[w] |= (uint64_t)1 << number % 64;
    m->summary[w / 64] |= (uint64_t)1 << w % 64;
}

/* Empties the set into `out`, rising; returns how many there were. */
static inline uint32_t xsmi_marks_take(xsmi_marks *m, uint32_t *out)
{
    uint32_t count = 0;
    for (size_t s = 0; s < m->summaries; s++) {
        for (uint64_t left = m->summary[s]; left != 0; left &= left - 1) {
            const size_t w = s * 64 + (size_t)__builtin_ctzll(left);
            for (uint64_t bits = m->word[w]; bits != 0; bits &= bits - 1) {
                out[count++] = (uint32_t)(w * 64 + (size_t)__builtin_ctzll(bits));
            }
            m->word[w] = 0;
        }
        m->summary[s] = 0;
    }
    return count;
}

/* The features that occur among many, numbered in rising order. */
typedef struct xsmi_numbering {
    xsm_context *context;
    uint32_t features;
    xsmi_marks marks;
    uint32_t *number; /* [features] the number of each feature that occurs */
    uint32_t *found;  /* [features] the features that occur, by their numbers */
} xsmi_numbering;

static inline void xsmi_numbering_free(xsmi_numbering *n)
{
    if (n->context) {
        xsmi_release(n->context, n->number, n->features, sizeof *n->number);
        xsmi_release(n->context, n->found, n->features, sizeof *n->found);
        xsmi_marks_free(&n->marks, n->context);
    }
}

/* Allocates the arrays; false when there is no memory, and xsmi_numbering_free() is to be called then, too. */
static inline bool xsmi_numbering_new(xsmi_numbering *n, xsm_context *ctx, uint32_t features)
{
    *n = (xsmi_numbering){.context = ctx, .features = features};
    n->number = xsmi_allocate(ctx, features, sizeof *n->number);
    n->found = xsmi_allocate(ctx, features, sizeof *n->found);
    return xsmi_marks_new(&n->marks, ctx, features) && n->number && n->found;
}

/* Numbers the features in `marks` and empties it; returns how many there are. */
static inline uint32_t xsmi_numbering_make(xsmi_numbering *n)
{
    const uint32_t count = xsmi_marks_take(&n->marks, n->found);
    for (uint32_t f = 0; f < count; f++) {
        n->number[n->found[f]] = f;
    }
    return count;
}

#endif
