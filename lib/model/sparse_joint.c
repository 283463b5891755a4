/* Chunks of which several ranks have rows: their columns are those of all ranks. */
#include "model/sparse_joint.h"

#include "base/order.h"

/* -- lists of all ranks -------------------------------------------------------------------------------------------- */

/* What a rank has. */
typedef struct list {
    const void *data;
    size_t count, each; /* elements, and bytes of one */
    const char *what;   /* for a message */
} list;

/* The lists of all ranks on every rank, if all are well, one after another: that of rank r begins with element
 * starts[r], and starts[ranks] is the number of all. The caller's to release. `status` is this rank's so far. */
static xsm_status gather(xsm_context *ctx, const list *mine, xsm_status status, size_t *starts, void **all,
                         xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(ctx);
    const uint64_t count = mine->count;
    uint64_t *numbers = xsmi_allocate(ctx, ranks, sizeof *numbers);
    size_t *sizes = xsmi_allocate(ctx, ranks, sizeof *sizes);
    if (status == XSM_OK && (!numbers || !sizes)) {
        status = xsmi_fail_memory(err, mine->count * mine->each, mine->what);
    }
    status = xsmi_agree(ctx, status, err);
    for (uint32_t r = 0; status == XSM_OK && r < ranks; r++) {
        sizes[r] = sizeof count;
    }
    status = status == XSM_OK ? xsmi_exchange_blocks(ctx, &count, numbers, sizes, err) : status;
    if (status == XSM_OK) {
        starts[0] = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            sizes[r] = (size_t)numbers[r] * mine->each;
            starts[r + 1] = starts[r] + (size_t)numbers[r];
        }
        *all = xsmi_allocate(ctx, starts[ranks], mine->each);
        status = *all ? XSM_OK : xsmi_fail_memory(err, starts[ranks] * mine->each, mine->what);
        status = xsmi_agree(ctx, status, err);
        status = status == XSM_OK ? xsmi_exchange_blocks(ctx, mine->data, *all, sizes, err) : status;
    }
    if (status != XSM_OK && *all) {
        xsmi_release(ctx, *all, starts[ranks], mine->each);
        *all = NULL;
    }
    xsmi_release(ctx, numbers, ranks, sizeof *numbers);
    xsmi_release(ctx, sizes, ranks, sizeof *sizes);
    return status;
}

/* -- columns ------------------------------------------------------------------------------------------------------- */

/* The columns of a chunk, with their features. */
static void list_uses(const xsmi_sparse *s, uint32_t chunk, xsmi_sparse_use *uses)
{
    const xsmi_sparse_place *at = &s->places[chunk];
    const xsmi_sparse_block *block = s->blocks + at->block;
    const xsmi_sparse_column *columns = s->columns + at->column;
    for (size_t b = 0; b < xsmi_sparse_blocks(s, chunk); b++) {
        for (uint32_t c = block[b].column; c < block[b + 1].column; c++) {
            uses[c] = (xsmi_sparse_use){(uint32_t)(b << at->shift) + columns[c].low, columns[c].count};
        }
    }
}

xsm_status xsmi_sparse_join(xsm_context *ctx, const xsmi_sparse *mine, uint32_t chunk, xsmi_sparse_joint *j,
                            xsm_error *err)
{
    static const char what[] = "the columns of sparse weights";
    const size_t ranks = xsmi_ranks(ctx);
    const bool has = chunk != XSMI_NO_CHUNK;
    const size_t count = has ? (size_t)(mine->places[chunk + 1].column - mine->places[chunk].column) : 0;
    *j = (xsmi_sparse_joint){.context = ctx};
    j->starts = xsmi_allocate_zero(ctx, ranks + 1, sizeof *j->starts);
    j->next = xsmi_allocate(ctx, ranks, sizeof *j->next);
    xsmi_sparse_use *uses = xsmi_allocate(ctx, count, sizeof *uses);
    xsm_status status = XSM_OK;
    if (!j->starts || !j->next || !uses) {
        status = xsmi_fail_memory(err, count * sizeof *uses, what);
    } else if (has) {
        list_uses(mine, chunk, uses);
    }
    const list own = {uses, count, sizeof *uses, what};
    void *all = NULL;
    status = gather(ctx, &own, status, j->starts, &all, err);
    j->uses = all;
    for (size_t r = 0; status == XSM_OK && r < ranks; r++) {
        j->next[r] = j->starts[r];
    }
    xsmi_release(ctx, uses, count, sizeof *uses);
    return status;
}

void xsmi_sparse_joint_free(xsmi_sparse_joint *j)
{
    const size_t ranks = xsmi_ranks(j->context);
    if (j->uses) {
        xsmi_release(j->context, j->uses, j->starts[ranks], sizeof *j->uses);
    }
    xsmi_release(j->context, j->starts, ranks + 1, sizeof *j->starts);
    xsmi_release(j->context, j->next, ranks, sizeof *j->next);
}

bool xsmi_sparse_joint_look(xsmi_sparse_joint *j)
{
    const uint32_t ranks = xsmi_ranks(j->context);
    bool found = false;
    for (uint32_t r = 0; r < ranks; r++) {
        if (j->next[r] < j->starts[r + 1] && (!found || j->uses[j->next[r]].feature < j->feature)) {
            j->feature = j->uses[j->next[r]].feature;
            found = true;
        }
    }
    j->count = 0;
    for (uint32_t r = 0; found && r < ranks; r++) {
        j->count += xsmi_sparse_joint_of(j, r);
    }
    return found;
}

void xsmi_sparse_joint_step(xsmi_sparse_joint *j)
{
    for (uint32_t r = 0; r < xsmi_ranks(j->context); r++) {
        j->next[r] += xsmi_sparse_joint_of(j, r) > 0;
    }
}

/* -- places -------------------------------------------------------------------------------------------------------- */

/* What a rank has of a chunk. */
typedef struct piece {
    uint64_t entries, columns;
    uint32_t row; /* its first, of all rows */
    uint32_t continues;
} piece;

/* The pieces of all ranks. */
typedef struct pieces {
    piece *all;
    size_t count, mine; /* this rank's begin there */
} pieces;

static xsm_status find_pieces(xsm_context *ctx, const xsmi_sparse_share *share, pieces *p, xsm_error *err)
{
    static const char what[] = "sparse weights";
    const xsmi_sparse *s = share->mine;
    const size_t ranks = xsmi_ranks(ctx), count = s->chunks;
    piece *mine = xsmi_allocate(ctx, count, sizeof *mine);
    size_t *starts = xsmi_allocate(ctx, ranks + 1, sizeof *starts);
    for (size_t c = 0; mine && c < count; c++) {
        const xsmi_sparse_place *at = &s->places[c], *end = at + 1;
        mine[c] = (piece){end->entry - at->entry, end->column - at->column, share->first + at->row,
                          c == 0 && share->continues};
    }
    xsm_status status = mine && starts ? XSM_OK : xsmi_fail_memory(err, count * sizeof *mine, what);
    const list own = {mine, count, sizeof *mine, what};
    void *all = NULL;
    status = gather(ctx, &own, status, starts, &all, err);
    if (status == XSM_OK) {
        *p = (pieces){all, starts[ranks], starts[xsmi_rank(ctx)]};
    }
    xsmi_release(ctx, mine, count, sizeof *mine);
    xsmi_release(ctx, starts, ranks + 1, sizeof *starts);
    return status;
}

/* The columns of the chunk of the pieces from..to. */
static xsm_status count_columns(xsm_context *ctx, const xsmi_sparse_share *share, const pieces *p, size_t from,
                                size_t to, uint64_t *columns, xsm_error *err)
{
    if (to - from == 1) {
        *columns = p->all[from].columns;
        return XSM_OK;
    }
    const size_t end = p->mine + share->mine->chunks, first = XSMI_MAX(from, p->mine);
    const uint32_t chunk = first < XSMI_MIN(to, end) ? (uint32_t)(first - p->mine) : XSMI_NO_CHUNK;
    xsmi_sparse_joint j;
    const xsm_status status = xsmi_sparse_join(ctx, share->mine, chunk, &j, err);
    for (*columns = 0; status == XSM_OK && xsmi_sparse_joint_look(&j); ++*columns) {
        xsmi_sparse_joint_step(&j);
    }
    xsmi_sparse_joint_free(&j);
    return status;
}

static xsm_status fill_places(xsm_context *ctx, const xsmi_sparse_share *share, const pieces *p,
                              xsmi_sparse_place *places, xsm_error *err)
{
    const uint32_t features = share->mine->features;
    xsmi_sparse_place at = {.entry = 0};
    for (size_t from = 0, to; from < p->count; from = to) {
        uint64_t columns, entries = 0;
        to = from;
        do {
            entries += p->all[to++].entries;
        } while (to < p->count && p->all[to].continues);
        XSMI_TRY(count_columns(ctx, share, p, from, to, &columns, err));
        at.row = p->all[from].row;
        at.shift = xsmi_sparse_shift(features, (uint32_t)columns);
        *places++ = at;
        at.entry += entries;
        at.column += columns;
        at.block += xsmi_sparse_blocks_of(features, at.shift) + 1;
    }
    *places = (xsmi_sparse_place){.entry = at.entry, .column = at.column, .block = at.block, .row = share->rows};
    return XSM_OK;
}

xsm_status xsmi_sparse_layout(xsm_context *ctx, const xsmi_sparse_share *share, xsmi_sparse_place **out,
                              uint32_t *chunks, xsm_error *err)
{
    pieces p = {.all = NULL};
    xsmi_sparse_place *places = NULL;
    size_t count = 0;
    xsm_status status = find_pieces(ctx, share, &p, err);
    if (status == XSM_OK) {
        for (size_t i = 0; i < p.count; i++) {
            count += !p.all[i].continues;
        }
        places = xsmi_allocate(ctx, count + 1, sizeof *places);
        status = xsmi_agree(
            ctx, places ? XSM_OK : xsmi_fail_memory(err, (count + 1) * sizeof *places, "sparse weights"), err);
    }
    status = status == XSM_OK ? fill_places(ctx, share, &p, places, err) : status;
    xsmi_release(ctx, p.all, p.count, sizeof *p.all);
    if (status != XSM_OK) {
        xsmi_release(ctx, places, count + 1, sizeof *places);
        return status;
    }
    *out = places;
    *chunks = (uint32_t)count;
    return XSM_OK;
}
