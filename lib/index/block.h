/*
 * The lists and cursors of a block of queries, for the built-in tables.
 */
#ifndef XSMI_INDEX_BLOCK_H
#define XSMI_INDEX_BLOCK_H

#include "base/arena.h"
#include "base/top.h"

#include <xsoftmax/ext/index.h>

static inline xsmi_top xsmi_block_list(const xsm_index_block *block, uint32_t query)
{
    return (xsmi_top){block->scores + query * block->list_stride, block->classes + query * block->list_stride,
                      block->top};
}

/* As xsmi_top_offer_any(), but a score of -INFINITY is one, too: it is not below any least score. */
static inline void xsmi_block_offer(const xsmi_top *list, float score, uint32_t row)
{
    if (score > list->score[0] || (score == list->score[0] && row < list->class_of[0])) {
        xsmi_top_sink(list, list->size, score, row);
    }
}

/* Sorts a query's list, best first, and sets its length. */
static inline void xsmi_block_end_list(const xsm_index_block *block, uint32_t query)
{
    const xsmi_top list = xsmi_block_list(block, query);
    xsmi_top_sort(&list);
    uint32_t length = 0;
    while (length < block->top && list.class_of[length] != XSMI_NO_CLASS) {
        length++;
    }
    block->lengths[query] = length;
}

/* Returns the memory of a query's cursor, for next(). */
static inline xsmi_arena xsmi_block_cursor(const xsm_index_block *block, uint32_t query)
{
    return (xsmi_arena){(unsigned char *)block->cursors + query * block->cursor_stride, 0};
}

#endif
