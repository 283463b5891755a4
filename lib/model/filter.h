/*
 * Which classes a row may get: those that the call, the row's own lists and its known labels accept.
 */
#ifndef XSMI_FILTER_H
#define XSMI_FILTER_H

#include "base/base.h"
#include "base/top.h"

#include <xsoftmax/filter.h>

struct xsm_filter {
    xsm_context *context;
    uint32_t classes, left;
    uint64_t *bits; /* [xsmi_filter_words(classes)] 1 for an accepted class; bits from K on are 0 */
    uint32_t *list; /* [left] the accepted classes in rising order, if they are few; or NULL */
};

static inline size_t xsmi_filter_words(uint32_t classes)
{
    return ((size_t)classes + 63) / 64;
}

static inline bool xsmi_filter_bit(const xsm_filter *f, uint32_t class)
{
    return (f->bits[class / 64] >> class % 64 & 1) != 0;
}

/* The filter of a row, which accepts a class that every member accepts. All arrays are borrowed. */
typedef struct xsmi_row_filter {
    const xsm_filter *of[2]; /* of the call and of the row; NULL accepts all */
    bool allows;
    const uint32_t *allow; /* [allow_count] rising; with `allows` */
    size_t allow_count;
    const uint32_t *deny; /* [deny_count] rising */
    size_t deny_count;
    const uint32_t *known; /* [known_count] in any order */
    size_t known_count;
    const uint32_t *match; /* the filter's number of each class that is asked about; NULL = the same */
    uint32_t first;        /* without `match`: the filter's number is `first` + the class */
    uint32_t most;         /* at most so many classes are accepted */
} xsmi_row_filter;

/* Whether a class is accepted. O(log of the lengths of the row's lists + known_count). */
bool xsmi_row_filter_takes(const xsmi_row_filter *f, uint32_t class);

/* Lists the next accepted classes, at most `most`, in rising order. *at, which the caller sets to 0 first, says where
 * to go on. Returns their number, 0 at the end. With `match`, these are the filter's numbers. */
size_t xsmi_row_filter_list(const xsmi_row_filter *f, uint32_t classes, uint64_t *at, uint32_t *list, size_t most);

/* xsmi_top_offer() and xsmi_top_offer_any() for a class that the filter accepts; a filter NULL accepts every class. */
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
