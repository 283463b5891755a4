/*
 * A set of numbers below a limit that is listed in rising order: one bit a number, and one for each word of bits, so
 * that a few numbers among millions are found without reading all words.
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

#endif
