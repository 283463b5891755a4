/*
 * The best k of many (score, class) pairs: a heap whose top is the worst of them. A pair that is among the best costs
 * O(log k), any other one comparison.
 *
 * Pairs must be offered in rising order of class, but to xsmi_top_offer_any(): of equal scores the smaller class then
 * stays without comparing classes. A score of NaN or minus infinity never enters a heap that was started empty.
 */
#ifndef XSMI_TOP_H
#define XSMI_TOP_H

#include "kernels/kernels.h"

#include <math.h>
#include <stdbool.h>

typedef struct xsmi_top {
    float *score;       /* [size] */
    uint32_t *class_of; /* [size] */
    uint32_t size;      /* k >= 1 */
} xsmi_top;

static inline void xsmi_top_start(const xsmi_top *top)
{
    for (uint32_t i = 0; i < top->size; i++) {
        top->score[i] = -INFINITY;
        top->class_of[i] = XSMI_NO_CLASS;
    }
}

/* Moves a pair to its position at or below the free position `position` in a heap of `size`. */
static inline void xsmi_top_sink_from(const xsmi_top *top, uint32_t size, uint32_t position, float score,
                                      uint32_t class)
{
    for (;;) {
        uint32_t child = 2 * position + 1;
        if (child >= size) {
            break;
        }
        uint32_t other = child + 1;
        if (other < size && (top->score[other] < top->score[child] ||
                             (top->score[other] == top->score[child] && top->class_of[other] > top->class_of[child]))) {
            child = other;
        }
        bool worse = top->score[child] < score || (top->score[child] == score && top->class_of[child] > class);
        if (!worse) {
            break;
        }
        top->score[position] = top->score[child];
        top->class_of[position] = top->class_of[child];
        position = child;
    }
    top->score[position] = score;
    top->class_of[position] = class;
}

static inline void xsmi_top_sink(const xsmi_top *top, uint32_t size, float score, uint32_t class)
{
    xsmi_top_sink_from(top, size, 0, score, class);
}

/* Makes a heap of `size` pairs in any order, whose scores are finite. */
static inline void xsmi_top_heap(const xsmi_top *top)
{
    for (uint32_t position = top->size / 2; position-- > 0;) {
        xsmi_top_sink_from(top, top->size, position, top->score[position], top->class_of[position]);
    }
}

static inline void xsmi_top_offer(const xsmi_top *top, float score, uint32_t class)
{
    if (score > top->score[0]) {
        xsmi_top_sink(top, top->size, score, class);
    }
}

/* As xsmi_top_offer(), for pairs in any order. */
static inline void xsmi_top_offer_any(const xsmi_top *top, float score, uint32_t class)
{
    if (score > top->score[0] || (score == top->score[0] && score > -INFINITY && class < top->class_of[0])) {
        xsmi_top_sink(top, top->size, score, class);
    }
}

/* Turns the heap into a list, best first. */
static inline void xsmi_top_sort(const xsmi_top *top)
{
    for (uint32_t size = top->size; size > 1; size--) {
        float score = top->score[size - 1];
        uint32_t class = top->class_of[size - 1];
        top->score[size - 1] = top->score[0];
        top->class_of[size - 1] = top->class_of[0];
        xsmi_top_sink(top, size - 1, score, class);
    }
}

#endif
