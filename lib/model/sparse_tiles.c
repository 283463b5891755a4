/*
 * Tiles of the scores of sparse weights.
 *
 * A chunk of a linear model is scored for one row after another, so that its weights stay in the cache. A label tree is
 * swept once for as many rows as there is scratch memory for: parents come before their children.
 */
#include "model/sparse_tiles.h"

#include "base/activity.h"
#include "base/order.h"

/* Bytes of log-probabilities of all nodes that a sweep over label trees may use for each thread, or those of one row if
 * that is more. */
#define SWEPT_BYTES ((size_t)32 << 20)

/* -- linear models ------------------------------------------------------------------------------------------------- */

size_t xsmi_sparse_tiles_scratch(const xsm_model *m)
{
    return m->w.sparse->widest;
}

/* Passes a row's scores of a chunk on, those within the call's range; z are the chunk's, which starts at class
 * `start`. */
static void pass_chunk(const xsmi_tile_call *call, size_t block, size_t row, uint32_t start, uint32_t rows, float *z)
{
    const uint32_t first = XSMI_MAX(start, call->first), end = XSMI_MIN(start + rows, call->end);
    for (uint32_t tile = first, count; tile < end; tile += count) {
        count = xsmi_tile_classes(tile, end, XSMI_ROW_TILE - tile % XSMI_ROW_TILE);
        if (call->model->w.bias) {
            call->model->kernels->axpby(z + (tile - start), call->model->w.bias + tile, count, 1.0f, 1.0f);
        }
        xsmi_tile t = {block, row, false, tile, count, z + (tile - start)};
        call->consume(call->state, &t);
    }
}

void xsmi_sparse_tiles(const xsmi_tile_call *call, float *scratch)
{
    const xsmi_sparse *s = call->model->w.sparse;
    const xsmi_tile_rows *rows = call->rows;
    for (uint32_t c = xsmi_sparse_chunk_of(s, call->first); c < s->chunks && s->places[c].row < call->end; c++) {
        for (size_t b = 0; b < rows->blocks; b++) {
            for (size_t l = 0; l < rows->counts[b]; l++) {
                if (xsmi_poll(call->context)) {
                    return;
                }
                xsmi_sparse_scores(s, c, &rows->features[b * XSMI_LANES + l], scratch);
                pass_chunk(call, b, l, s->places[c].row, xsmi_sparse_chunk_rows(s, c), scratch);
            }
        }
    }
}

/* -- label trees --------------------------------------------------------------------------------------------------- */

/* Rows that are swept together. */
static size_t swept_together(const xsm_model *m, size_t blocks)
{
    const size_t most = SWEPT_BYTES / (m->trees->nodes * sizeof(float));
    return XSMI_CLAMP(most, 1, blocks * XSMI_LANES);
}

size_t xsmi_label_tiles_scratch(const xsm_model *m, size_t blocks)
{
    return swept_together(m, blocks) * m->trees->nodes + m->trees->widest + XSMI_ROW_TILE;
}

/* Log-probabilities of all nodes of all trees, log_p[tree's nodes, one tree after another], for some rows. False when
 * the call was cancelled. */
static bool sweep(const xsmi_tile_call *call, const xsmi_features *rows, size_t count, float *log_p, float *z)
{
    const xsmi_label_trees *l = call->model->trees;
    size_t offset = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        const xsmi_class_tree *tree = l->tree[t].tree;
        for (uint32_t v = 0; v < tree->nodes; v++) {
            const uint32_t first = tree->first_child[v], end = tree->first_child[v + 1];
            if (v > 0 && first == end) {
                continue;
            }
            if (xsmi_poll(call->context)) {
                return false;
            }
            for (size_t r = 0; r < count; r++) {
                float *to = log_p + r * l->nodes + offset;
                const float before = v == 0 ? 0 : to[v];
                xsmi_label_children(l, t, v, &rows[r], z);
                for (uint32_t i = first; i < end; i++) {
                    to[i] = before + z[i - first];
                }
            }
        }
        offset += tree->nodes;
    }
    return true;
}

/* Passes a row's scores on. */
static void pass_row(const xsmi_tile_call *call, size_t number, const float *log_p, float *scores)
{
    const xsmi_label_trees *l = call->model->trees;
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, XSMI_ROW_TILE);
        for (uint32_t c = 0; c < count; c++) {
            float p[XSMI_LABEL_TREES] = {0};
            size_t offset = 0;
            for (uint32_t t = 0; t < l->count; t++) {
                p[t] = log_p[offset + l->tree[t].tree->class_leaf[tile + c]];
                offset += l->tree[t].tree->nodes;
            }
            scores[c] = xsmi_label_mean(p, l->count);
        }
        xsmi_tile t = {number / XSMI_LANES, number % XSMI_LANES, false, tile, count, scores};
        call->consume(call->state, &t);
    }
}

void xsmi_label_tiles(const xsmi_tile_call *call, float *scratch)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const size_t together = swept_together(m, rows->blocks);
    float *log_p = scratch, *z = log_p + together * m->trees->nodes, *scores = z + m->trees->widest;
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b];) { /* of one block, as the last one has fewer rows */
            const size_t some = XSMI_MIN(rows->counts[b] - l, together), first = b * XSMI_LANES + l;
            if (!sweep(call, rows->features + first, some, log_p, z)) {
                return;
            }
            for (size_t r = 0; r < some; r++) {
                pass_row(call, first + r, log_p + r * m->trees->nodes, scores);
            }
            l += some;
        }
    }
}
