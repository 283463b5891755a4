/*
 * Keeping clusters current: rows that have changed are read again.
 *
 * Most of them stay where they are. Centres have length 1, so that a row which moves by d brings its products with its
 * own and with another centre nearer to each other by 2 d at most; as long as that does not use up the gap between
 * them, which is kept, nothing needs to be held against all centres (Hamerly, Making k-means even faster, SDM 2010).
 */
#include "index/spherical.h"

#include "model/tiles.h"

#include <math.h>
#include <string.h>

/* Rows whose places are asked for before they are looked at. */
#define ROWS_AHEAD 4

static void move_row(xsmi_sphere *s, uint32_t k, uint32_t to, const float *row)
{
    xsmi_cluster *from = &s->cluster[s->cluster_of[k]], *into = &s->cluster[to];
    if (from != into) {
        uint32_t hole = s->place_of[k], last = --from->count;
        if (hole != last) {
            float *to_row = xsmi_cluster_row(s, from, hole);
            const float *last_row = xsmi_cluster_row(s, from, last);
            for (size_t f = 0; f < s->width; f++) {
                to_row[f * XSMI_LANES] = last_row[f * XSMI_LANES];
            }
            uint32_t filler = *xsmi_cluster_class(s, from, last);
            *xsmi_cluster_class(s, from, hole) = filler;
            s->place_of[filler] = hole;
        }
        s->cluster_of[k] = to;
        s->place_of[k] = into->count++;
        *xsmi_cluster_class(s, into, s->place_of[k]) = k;
    }
    xsmi_cluster_put(s, into, s->place_of[k], row);
}

/* Asks for what is known of rows. */
XSMI_PREFETCHER void fetch_known(const xsmi_sphere *s, const uint32_t *rows, uint32_t count)
{
    for (uint32_t j = 0; j < count; j++) {
        __builtin_prefetch(s->cluster_of + rows[j], 1, 3);
        __builtin_prefetch(s->place_of + rows[j], 1, 3);
        __builtin_prefetch(s->gap + rows[j], 1, 3);
    }
}

/* Asks for the place that a row has now, a line for each of its numbers. */
XSMI_PREFETCHER void fetch_row(const xsmi_sphere *s, uint32_t k)
{
    const float *to = xsmi_cluster_row(s, &s->cluster[s->cluster_of[k]], s->place_of[k]);
    for (size_t f = 0; f < s->width; f++) {
        __builtin_prefetch(to + f * XSMI_LANES, 1, 2);
    }
}

/* A gap that is left when row k becomes `row`, as prepared, or below 0 when none is sure to be. `old` [stride]. */
static float gap_left(const xsmi_sphere *s, uint32_t k, const float *row, float *old)
{
    /* What products of float sums may be off by, each of two, before and after; rows are not longer than 2 M. */
    const double slack = 16 * (s->width + 2.0) * 0x1p-24 * sqrt(s->longest);
    if (!((double)s->gap[k] > slack)) {
        return -1;
    }
    const float *at = xsmi_cluster_row(s, &s->cluster[s->cluster_of[k]], s->place_of[k]);
    for (size_t f = 0; f < s->width; f++) {
        old[f] = at[f * XSMI_LANES];
    }
    (void)xsmi_sphere_prepare(s, old);
    s->kernels->axpby(old, row, (size_t)s->width + 1, -1, 1);
    double moved = sqrt((double)s->kernels->dot(old, old, (size_t)s->width + 1));
    double left = (double)s->gap[k] - 2.001 * moved - 1e-6 * sqrt(s->longest); /* with what rounding takes */
    return left > slack ? (float)left : -1;
}

/* The rows that may have to move, by place in the list. */
typedef struct movers {
    uint32_t *which, *cluster; /* [count] */
    float *rows, *gap;         /* [count][stride], prepared; [count] */
    uint32_t count;
} movers;

static xsm_status move_all(xsmi_sphere *s, const uint32_t *rows, const float *block, const movers *m, uint64_t *moved,
                           xsm_error *err)
{
    XSMI_TRY(xsmi_sphere_assign(s, m->rows, m->count, m->cluster, m->gap, err));
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t k = rows[m->which[i]];
        if (m->cluster[i] != s->cluster_of[k]) {
            if (!xsmi_sphere_grow(s, m->cluster[i])) {
                return xsmi_fail_memory(err, xsmi_block_size(s) * sizeof(float), "the rows of a cluster");
            }
            ++*moved;
        }
        move_row(s, k, m->cluster[i], block + m->which[i] * s->stride);
        s->gap[k] = m->gap[i];
    }
    return XSM_OK;
}

xsm_status xsmi_sphere_update(xsmi_sphere *s, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                              uint64_t *moved, double *longest, xsm_error *err)
{
    const size_t row_bytes = s->stride * sizeof(float);
    float *block = xsmi_allocate(s->context, count, row_bytes), *old = xsmi_allocate(s->context, 1, row_bytes);
    movers m = {.count = 0};
    m.rows = xsmi_allocate(s->context, count, row_bytes);
    m.which = xsmi_allocate(s->context, count, sizeof *m.which);
    m.cluster = xsmi_allocate(s->context, count, sizeof *m.cluster);
    m.gap = xsmi_allocate(s->context, count, sizeof *m.gap);
    xsm_status status = XSM_OK;
    *longest = 0;
    if (!block || !old || !m.rows || !m.which || !m.cluster || !m.gap) {
        status = xsmi_fail_memory(err, count * row_bytes, "rows on their way to clusters");
    } else {
        fetch_known(s, rows, count);
        source->read(source, rows, 0, count, block, s->stride);
        for (uint32_t j = 0; j < count && j < ROWS_AHEAD; j++) {
            fetch_row(s, rows[j]);
        }
        for (uint32_t j = 0; j < count; j++) {
            float *row = m.rows + m.count * s->stride;
            if (j + ROWS_AHEAD < count) {
                fetch_row(s, rows[j + ROWS_AHEAD]);
            }
            memcpy(row, block + j * s->stride, s->width * sizeof *row);
            double square = xsmi_sphere_prepare(s, row);
            *longest = square > *longest ? square : *longest;
            float left = gap_left(s, rows[j], row, old);
            if (left > 0) {
                s->gap[rows[j]] = left;
                xsmi_cluster_put(s, &s->cluster[s->cluster_of[rows[j]]], s->place_of[rows[j]], block + j * s->stride);
            } else {
                m.which[m.count++] = j;
            }
        }
        status = m.count > 0 ? move_all(s, rows, block, &m, moved, err) : XSM_OK;
    }
    xsmi_release(s->context, block, count, row_bytes);
    xsmi_release(s->context, old, 1, row_bytes);
    xsmi_release(s->context, m.rows, count, row_bytes);
    xsmi_release(s->context, m.which, count, sizeof *m.which);
    xsmi_release(s->context, m.cluster, count, sizeof *m.cluster);
    xsmi_release(s->context, m.gap, count, sizeof *m.gap);
    return status;
}
