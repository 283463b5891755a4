/* Indexes over the classes of a divided model: which tables can be searched over ranks, and a search. */
#include "index/index.h"

#include "model/divided.h"

#include <math.h>

const xsmi_index_ranks *xsmi_index_ranks_of(const xsm_index_ops *table)
{
#define KNOWN(table, name, ranks) {&(table), ranks},
    static const struct {
        const xsm_index_ops *ops;
        const xsmi_index_ranks *ranks;
    } known[] = {XSMI_INDEXES(KNOWN)};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const xsm_index_ops *ops = known[i].ops;
        /* A host's table may be a copy with functions of its own. */
        if (table->query == ops->query && table->build == ops->build && table->update == ops->update &&
            table->restore == ops->restore) {
            return known[i].ranks;
        }
    }
    return NULL;
}

xsm_status xsmi_index_check_ranks(const xsm_index *x, const xsm_model *model, xsm_error *err)
{
    return !xsmi_model_is_divided(model) || x->ranks
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "index '%s' is searched in one process, and the classes of the model are divided among %u "
                           "ranks; the indexes of the library, 'exact' and 'spherical', are accepted",
                           x->ops.name, xsmi_ranks(model->context));
}

/* -- a search ------------------------------------------------------------------------------------------------------ */

/* The rows of a table that finds the best of all its rows. */
static xsm_status find_best(const xsm_index *x, const xsm_index_block *block, xsmi_index_desk *desk, xsm_status status,
                            xsm_error *err)
{
    const xsmi_index_part part = xsmi_index_part_of(x);
    const xsmi_index_lister lister = {
        .query = x->ops.query,
        .state = x->state,
        .scratch = xsmi_index_scratch(x, block->top),
        .rows = x->model->part.own->classes,
        .part = &part,
        .context = x->context,
        .every = block->any_order && block->top == x->count && block->threshold == -INFINITY,
    };
    XSMI_TRY(xsmi_index_merge(&lister, block, desk, status, err));
    for (uint32_t i = 0; i < block->count; i++) {
        block->probed[i] = x->count;
    }
    return XSM_OK;
}

xsm_status xsmi_index_find(const xsm_index *x, const xsm_index_block *block, xsmi_index_desk *desk, xsm_status status,
                           xsm_error *err)
{
    XSMI_TRY(x->ranks->find ? x->ranks->find(x->state, block, desk, status, err)
                            : find_best(x, block, desk, status, err));
    for (uint32_t i = 0; i < block->count; i++) {
        for (uint32_t j = block->lengths[i]; j < block->top; j++) {
            block->classes[i * block->list_stride + j] = XSMI_NO_CLASS;
            block->scores[i * block->list_stride + j] = -INFINITY;
        }
    }
    return XSM_OK;
}

typedef struct peeking {
    const xsm_index *index;
    const xsm_index_block *block;
    void *const *cursors;
} peeking;

/* One query of a block, with its cursor. */
static xsm_index_block block_of(const xsm_index_block *block, uint32_t query, void *cursor)
{
    xsm_index_block one = xsmi_index_part_of_block(block, query, query + 1);
    one.cursors = cursor;
    return one;
}

static xsm_status peek(const void *state, const xsm_index_block *part, xsm_error *err)
{
    const peeking *of = state;
    const size_t first = (size_t)(part->queries - of->block->queries) / of->block->stride;
    for (uint32_t i = 0; i < part->count; i++) {
        const xsm_index_block one = block_of(part, i, of->cursors[first + i]);
        XSMI_TRY(of->index->ranks->peek(of->index->state, &one, of->block->top, err));
    }
    return XSM_OK;
}

xsm_status xsmi_index_find_next(const xsm_index *x, const xsm_index_block *block, void *const *cursors,
                                xsmi_index_desk *desk, xsm_status status, xsm_error *err)
{
    const xsmi_index_part part = xsmi_index_part_of(x);
    const peeking of = {x, block, cursors};
    const xsmi_index_lister lister = {
        .query = peek,
        .state = &of,
        .scratch = xsmi_index_scratch(x, block->top),
        .rows = x->model->part.own->classes,
        .part = &part,
        .context = x->context,
    };
    XSMI_TRY(xsmi_index_merge(&lister, block, desk, status, err));
    for (uint32_t i = 0; i < block->count; i++) {
        const xsm_index_block one = block_of(block, i, cursors[i]);
        x->ranks->pass(x->state, &one, &part);
    }
    return XSM_OK;
}
