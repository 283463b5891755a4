/* Tiles of scores (logits): scores of the weights, with the model's correction, or scores of a head of nodes. */
#include "model/tiles.h"
#include "model/plain_tiles.h"

/* Scratch for scores of weights, with or without a correction. */
typedef struct scratch {
    xsmi_plain_scratch plain;
    void *prepared; /* what a correction has prepared for one block */
} scratch;

static void divide_scratch(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, scratch *s)
{
    xsmi_plain_divide(m, sparse, blocks, arena, &s->plain);
    s->prepared = xsmi_arena_take(arena, m->head ? m->head->block : 0, 1);
}

size_t xsmi_tiles_scratch(const xsm_model *m, bool sparse, size_t blocks)
{
    const xsmi_head_of_nodes *nodes = xsmi_model_nodes(m);
    if (nodes) {
        return nodes->scratch(m, sparse, blocks);
    }
    xsmi_arena arena = {NULL, 0};
    scratch s;
    divide_scratch(m, sparse, blocks, &arena, &s);
    return arena.used;
}

/* -- corrections --------------------------------------------------------------------------------------------------- */

typedef struct corrected {
    const xsmi_tile_call *call;
    const xsmi_tile_rows *rows; /* the rows of these blocks, not their hidden vectors */
    size_t block;               /* the number of the first one in the call */
    const void *prepared;
} corrected;

/* Adds the correction to a tile, which is in scratch memory, and passes the tile on. */
static void correct_tile(void *state, const xsmi_tile *tile)
{
    const corrected *c = state;
    const xsmi_head *correction = c->call->model->head;
    const xsmi_features *rows = c->rows->features + tile->block * XSMI_LANES;
    float *scores = (float *)(uintptr_t)tile->scores;
    xsmi_tile moved = *tile;
    moved.first += c->call->model->head_first;
    correction->kind->tile(correction, &moved, rows, c->rows->counts[tile->block], c->prepared, scores);
    moved.first = tile->first;
    moved.block += c->block;
    c->call->consume(c->call->state, &moved);
}

/* Scores with a correction. If it prepares memory for a block, which may be as much as the block's scores of all
 * classes, takes one block at a time. */
static void score_corrected(const xsmi_tile_call *call, scratch *s)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const xsmi_head_kind *kind = m->head->kind;
    const size_t together = kind->prepare ? 1 : rows->blocks;
    for (size_t b = 0; b < rows->blocks; b += together) {
        const xsmi_tile_rows group = {rows->features + b * XSMI_LANES, rows->counts + b, together, rows->sparse};
        if (kind->prepare) {
            kind->prepare(m->head, m->kernels, group.features, group.counts[0], s->prepared);
        }
        corrected c = {call, &group, b, s->prepared};
        const xsmi_tile_call plain = {m,  &group,        call->first,  call->end,   correct_tile,
                                      &c, call->context, call->stores, call->hidden};
        xsmi_plain_score(&plain, &s->plain);
    }
}

void xsmi_tiles_score(const xsmi_tile_call *call, void *memory)
{
    const xsm_model *m = call->model;
    const xsmi_head_of_nodes *nodes = xsmi_model_nodes(m);
    if (nodes) {
        nodes->score(call, memory);
        return;
    }
    xsmi_arena arena = {memory, 0};
    scratch s;
    divide_scratch(m, call->rows->sparse, call->rows->blocks, &arena, &s);
    if (m->head) {
        score_corrected(call, &s);
    } else {
        xsmi_plain_score(call, &s.plain);
    }
}
