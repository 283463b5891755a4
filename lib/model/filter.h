/*
 * Which classes a row may get: what the call, the row's own lists and its known labels leave.
 */
#ifndef XSMI_FILTER_H
#define XSMI_FILTER_H

#include "base/base.h"
#include "base/top.h"

#include <xsoftmax/filter.h>

struct xsm_filter {
    xsm_context *context;
    uint32_t classes, left;
    uint64_t *bits; /* [xsmi_filter_words(classes)], those from K on are 0 */
    uint32_t *list; /* [left] the classes left, rising, if they are few; or NULL */
};

static inline size_t xsmi_filter_words(uint32_t classes)
{
    return ((size_t)classes + 63) / 64;
}

static inline bool xsmi_filter_bit(const xsm_filter *f, uint32_t class)
{
    return (f->bits[class / 64] >> class % 64 & 1) != 0;
}

/* The filter of a row. All arrays are borrowed. */
typedef struct xsmi_row_filter {
    const xsm_filter *of[2]; /* of the call and of the row; NULL = all */
    bool allows;
    const uint32_t *allow; /* [allow_count] rising; with `allows` */
    size_t allow_count;
    const uint32_t *deny; /* [deny_count] rising */
    size_t deny_count;
    const uint32_t *known; /* [known_count] in any order */
    size_t known_count;
    const uint32_t *match; /* what each class that is asked about is for the filter; NULL = the same */
    uint32_t first;        /* or, without `match`, this plus the class */
    uint32_t most;         /* classes are left at most */
} xsmi_row_filter;

/* Whether a class is left. O(log of the row's lists + known). */
bool xsmi_row_filter_takes(const xsmi_row_filter *f, uint32_t class);

/* Lists the next classes that are left, at most `most`, rising, from *at on, which begins at 0. Returns their number, 0
 * at the end. Those of `match` are the filter's own. */
size_t xsmi_row_filter_list(const xsmi_row_filter *f, uint32_t classes, uint64_t *at, uint32_t *list, size_t most);

/* xsmi_top_offer() and xsmi_top_offer_any() for a class that is left; filter NULL = every class is. */
static inline void xsmi_top_offer_left(const xsmi_top *top, float score, uint32_t class, const xsmi_row_filter *filter)
{
    if (score > top->score[0] && (!filter || xsmi_row_filter_takes(filter, class))) {
        xsmi_top_sink(top, top->size, score, class);
    }
}

static inline void xsmi_top_offer_any_left(const xsmi_top *top, float score, uint32_t class,
                                           const xsmi_row_filter *filter)
{
    if ((score > top->score[0] || (score == top->score[0] && score > -INFINITY && class < top->class_of[0])) &&
        (!filter || xsmi_row_filter_takes(filter, class))) {
        xsmi_top_sink(top, top->size, score, class);
    }
}

#endif
