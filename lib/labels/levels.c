#include "labels/levels.h"

#include "base/activity.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* -- rows of nodes ------------------------------------------------------------------------------------------------- */

static uint64_t row_entries(const xsm_dataset *d, uint64_t row)
{
    return d->sparse ? d->offsets[row + 1] - d->offsets[row] : d->features;
}

/* Finds the node of the level that each position is under. */
static void find_nodes(const xsmi_levels *s, xsmi_level *l)
{
    const xsmi_layout *t = s->layout;
    for (uint32_t p = 0; p < t->labels; p++) {
        l->node_at[p] = XSMI_NO_CLASS;
    }
    for (uint32_t v = l->from; v < l->from + l->count; v++) {
        for (uint32_t p = t->start[v]; p < t->end[v]; p++) {
            l->node_at[p] = v;
        }
    }
}

/* Counts a row of a node, or lists it with its score. */
static void add_row(const xsmi_levels *s, xsmi_level *l, uint32_t n, uint64_t row, bool list, float score)
{
    if (!list) {
        l->first[n]++;
        l->entries[n] += row_entries(s->data, row);
        return;
    }
    const uint64_t at = l->first[n]++;
    l->rows[at] = (uint32_t)row;
    if (l->score) {
        l->score[at] = score;
    }
}

/* Counts or lists each row once for each inner node of the level that is in its beam or has one of its labels. last
 * [nodes of the level] is scratch. */
static void pass_rows(const xsmi_levels *s, xsmi_level *l, uint64_t *last, bool list)
{
    const xsm_dataset *d = s->data;
    const uint32_t beam = s->width;
    for (uint32_t n = 0; n < l->count; n++) {
        last[n] = UINT64_MAX;
    }
    for (uint64_t r = 0; r < d->rows; r++) {
        size_t labels;
        const uint32_t *label = xsmi_dataset_labels(d, r, &labels);
        for (size_t k = r * beam; k < (r + 1) * beam && s->beam.node[k] != XSMI_NO_CLASS; k++) {
            const uint32_t n = s->beam.node[k] - l->from;
            last[n] = r;
            add_row(s, l, n, r, list, s->beam.score[k]);
        }
        for (size_t k = 0; k < labels; k++) {
            const uint32_t v = label[k] < d->classes ? l->node_at[s->place[label[k]]] : XSMI_NO_CLASS;
            const uint32_t n = v - l->from;
            if (v != XSMI_NO_CLASS && last[n] != r && !xsmi_layout_is_leaf(s->layout, v) && !(s->idle && s->idle[v])) {
                last[n] = r;
                add_row(s, l, n, r, list, -INFINITY);
            }
        }
    }
}

xsm_status xsmi_levels_list(xsmi_levels *s, uint32_t number, xsm_error *err)
{
    xsmi_level *l = &s->level[number];
    xsm_context *ctx = s->context;
    l->first = xsmi_allocate_zero(ctx, (uint64_t)l->count + 1, sizeof *l->first);
    l->entries = xsmi_allocate_zero(ctx, l->count, sizeof *l->entries);
    uint64_t *last = xsmi_allocate(ctx, l->count, sizeof *last);
    xsm_status status = XSM_OK;
    if (!l->first || !l->entries || !last) {
        status = xsmi_fail_memory(err, (uint64_t)l->count * 24, "the rows of nodes");
    } else {
        pass_rows(s, l, last, false);
        uint64_t at = 0;
        for (uint32_t n = 0; n <= l->count; n++) {
            const uint64_t count = l->first[n];
            l->first[n] = at;
            at += count;
        }
        l->rows = xsmi_allocate(ctx, at, sizeof *l->rows);
        l->score = s->width > 0 ? xsmi_allocate(ctx, at, sizeof *l->score) : NULL;
        if (!l->rows || (s->width > 0 && !l->score)) {
            status = xsmi_fail_memory(err, at * 8, "the rows of nodes");
        } else {
            pass_rows(s, l, last, true);
            memmove(l->first + 1, l->first, l->count * sizeof *l->first);
            l->first[0] = 0;
        }
    }
    xsmi_release(ctx, last, l->count, sizeof *last);
    return status;
}

xsm_status xsmi_levels_find(xsmi_levels *s, xsm_error *err)
{
    const xsmi_layout *t = s->layout;
    XSMI_TRY(xsmi_zeros_new(s->context, &s->level, (uint64_t)t->depth + 1, sizeof *s->level,
                            "the levels of a label tree", err));
    for (uint32_t k = 0; k < t->depth; k++) {
        xsmi_level *l = &s->level[k];
        l->from = t->level[k];
        l->count = (k + 1 < t->depth ? t->level[k + 1] : t->nodes) - l->from;
        XSMI_TRY(
            xsmi_array_new(s->context, &l->node_at, t->labels, sizeof *l->node_at, "the levels of a label tree", err));
        find_nodes(s, l);
        XSMI_TRY(xsmi_go_on(s->context, err));
    }
    return XSM_OK;
}

void xsmi_levels_release(xsmi_levels *s, uint32_t number)
{
    xsmi_level *l = &s->level[number];
    const size_t rows = l->rows || l->score ? (size_t)l->first[l->count] : 0;
    xsmi_release(s->context, l->rows, rows, sizeof *l->rows);
    xsmi_release(s->context, l->score, rows, sizeof *l->score);
    l->rows = NULL;
    l->score = NULL;
}

/* -- the beam ------------------------------------------------------------------------------------------------------ */

static xsm_status allocate_beams(xsmi_levels *s, xsmi_beams *b, uint64_t places, xsm_error *err)
{
    b->node = xsmi_hold(&s->held, places, sizeof *b->node);
    b->score = xsmi_hold(&s->held, places, sizeof *b->score);
    return xsmi_held_check(&s->held, "the beams of the rows", err);
}

/* Puts every row at the root. */
xsm_status xsmi_levels_start_beam(xsmi_levels *s, xsm_error *err)
{
    const uint64_t places = s->data->rows * s->width;
    if (places == 0) {
        return XSM_OK;
    }
    XSMI_TRY(allocate_beams(s, &s->beam, places, err));
    if (s->keep_start) {
        XSMI_TRY(allocate_beams(s, &s->start, places, err));
    }
    for (uint64_t k = 0; k < places; k++) {
        s->beam.node[k] = k % s->width == 0 ? 0 : XSMI_NO_CLASS;
        s->beam.score[k] = 0.0f;
    }
    return XSM_OK;
}

/* Empties the beam on the next level. */
void xsmi_levels_clear_beam(const xsmi_levels *s)
{
    const size_t places = (size_t)s->data->rows * s->width;
    if (s->keep_start && places > 0) {
        memcpy(s->start.node, s->beam.node, places * sizeof *s->start.node);
        memcpy(s->start.score, s->beam.score, places * sizeof *s->start.score);
    }
    for (size_t k = 0; k < places; k++) {
        s->beam.node[k] = XSMI_NO_CLASS;
        s->beam.score[k] = 0.0f;
    }
}

void xsmi_levels_swap_beams(xsmi_levels *s)
{
    const xsmi_beams kept = s->beam;
    s->beam = s->start;
    s->start = kept;
}

/* Puts a node into a row's beam if it is among the best; of equal scores the lower number is better. */
static void insert_node(const xsmi_levels *s, uint32_t row, uint32_t node, float score)
{
    const uint32_t beam = s->width;
    uint32_t *nodes = s->beam.node + (size_t)row * beam;
    float *scores = s->beam.score + (size_t)row * beam;
    uint32_t at = beam;
    while (at > 0 && (nodes[at - 1] == XSMI_NO_CLASS || score > scores[at - 1])) {
        at--;
    }
    for (uint32_t k = beam; k-- > at + 1;) {
        nodes[k] = nodes[k - 1];
        scores[k] = scores[k - 1];
    }
    if (at < beam) {
        nodes[at] = node;
        scores[at] = score;
    }
}

/* Offers a node's inner children to the beams of its rows, except those whose classes have no rows: nothing under them
 * is trained. */
void xsmi_levels_advance(const xsmi_levels *s, uint32_t number, uint32_t node, const xsmi_node_part *part)
{
    const xsmi_level *l = &s->level[number];
    const xsmi_layout *t = s->layout;
    size_t row = 0;
    for (uint64_t at = l->first[node - l->from]; part->beam_rows > 0 && at < l->first[node - l->from + 1]; at++) {
        if (!(l->score[at] > -INFINITY)) {
            continue;
        }
        for (uint32_t v = t->first_child[node]; v < t->first_child[node + 1]; v++) {
            const uint32_t child = v - t->first_child[node];
            const float below =
                1.0f - part[child / XSMI_DUAL_LANES].beam[row * XSMI_DUAL_LANES + child % XSMI_DUAL_LANES];
            if (!xsmi_layout_is_leaf(t, v) && xsmi_layout_is_seen(t, v)) {
                insert_node(s, l->rows[at], v, l->score[at] - (below > 0.0f ? below * below : 0.0f));
            }
        }
        row++;
    }
}

void xsmi_levels_free(xsmi_levels *s)
{
    for (uint32_t k = 0; s->level && k < s->layout->depth; k++) {
        xsmi_level *l = &s->level[k];
        xsmi_levels_release(s, k);
        xsmi_release(s->context, l->first, (size_t)l->count + 1, sizeof *l->first);
        xsmi_release(s->context, l->entries, l->count, sizeof *l->entries);
        xsmi_release(s->context, l->node_at, s->layout->labels, sizeof *l->node_at);
        xsmi_kept_scores_free(&l->kept, s->context);
    }
    if (s->level) {
        xsmi_release(s->context, s->level, (size_t)s->layout->depth + 1, sizeof *s->level);
    }
    xsmi_held_release(&s->held);
}
