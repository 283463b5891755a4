/* What tables read of a block of queries, and the memory that they need for it. */
#include "index/index.h"

#include "data/batch.h"

size_t xsmi_index_scratch(const xsm_index *x, uint32_t top)
{
    return x->ops.scratch ? x->ops.scratch(x->state, top) : 0;
}

xsm_status xsmi_index_read_block(const xsm_index_block *given, xsm_index_block *block, xsm_error *err)
{
    *block = (xsm_index_block){0};
    XSMI_TRY(XSMI_READ(xsm_index_block, block, given, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_index_block, block, any_order, err));
    if (block->list_stride < block->top) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_index_block.list_stride is %zu for lists of %u rows; at least %u is accepted",
                         block->list_stride, block->top, block->top);
    }
    return XSM_OK;
}

xsm_status xsmi_index_read_next(const xsm_index_block *given, size_t cursor, xsm_index_block *block, xsm_error *err)
{
    XSMI_TRY(xsmi_index_read_block(given, block, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_index_block, block, begin, err));
    if (!block->cursors) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_block.cursors is NULL");
    }
    if (block->cursor_stride < cursor || block->cursor_stride % XSMI_ALIGNMENT != 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_index_block.cursor_stride is %zu; accepted are multiples of %d from %zu on",
                         block->cursor_stride, XSMI_ALIGNMENT, cursor);
    }
    return XSM_OK;
}
