/*
 * Updating clusters: changed rows are read again.
 *
 * Most of them stay in their cluster. Centres have norm 1. If a row moves by d, the gap between its products with its
 * own and with another centre shrinks by at most 2 d. A lower bound of the gap is stored; as long as it stays positive,
 * the row need not be compared with all centres (Hamerly, Making k-means even faster, SDM 2010).
 */
#include "index/spherical.h"

#include "base/arena.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* Rows whose slots are prefetched ahead. */
#define ROWS_AHEAD 8

static void move_row(xsmi_sphere *s, uint32_t k, uint32_t to, const float *row)
{
    xsmi_member *of = &s->member[k];
    xsmi_cluster *from = &s->cluster[of->cluster], *into = &s->cluster[to];
    if (from != into) {
        uint32_t last = --from->count;
        if (of->position != last) {
            float *hole = xsmi_cluster_row(s, from, of->position);
            const float *last_row = xsmi_cluster_row(s, from, last);
            for (size_t c = 0; c < s->quads; c++) {
                memcpy(hole + c * XSMI_LINE, last_row + c * XSMI_LINE, 4 * sizeof *hole);
            }
            uint32_t filler = *xsmi_cluster_class(s, from, last);
            *xsmi_cluster_class(s, from, of->position) = filler;
            s->member[filler].position = of->position;
        }
        of->cluster = to;
        of->position = into->count++;
        *xsmi_cluster_class(s, into, of->position) = k;
    }
    xsmi_cluster_put(s, into, of->position, row);
}

/* Prefetches the records of rows. */
XSMI_PREFETCHER void fetch_members(const xsmi_sphere *s, const uint32_t *rows, uint32_t count)
{
    for (uint32_t j = 0; j < count; j++) {
        __builtin_prefetch(s->member + rows[j], 1, 3);
    }
}

/* Prefetches the present slot of a row. */
XSMI_PREFETCHER void fetch_row(const xsmi_sphere *s, uint32_t k)
{
    const xsmi_member *of = &s->member[k];
    const float *to = xsmi_cluster_row(s, &s->cluster[of->cluster], of->position);
    for (size_t c = 0; c < s->quads; c++) {
        __builtin_prefetch(to + c * XSMI_LINE, 1, 2);
    }
}

/* Returns the remaining gap when a row becomes `row` with the extra coordinate `rest`; below 0 if no gap is certain.
 * `old` [stride]. */
static float gap_left(const xsmi_sphere *s, const xsmi_member *of, const float *row, float rest, float *old)
{
    /* The rounding error of two products, before and after; norms of rows are at most 2 M. */
    const double slack = 16 * (s->width + 2.0) * 0x1p-24 * sqrt(s->longest);
    if (!((double)of->gap > slack)) {
        return -1;
    }
    xsmi_cluster_get(s, &s->cluster[of->cluster], of->position, old);
    s->kernels->axpby(old, row, s->width, -1, 1);
    double more = (double)rest - (double)of->rest;
    double moved = sqrt((double)s->kernels->dot(old, old, s->width) + more * more);
    double left = (double)of->gap - 2.001 * moved - 1e-6 * sqrt(s->longest); /* less what rounding errors may add */
    return left > slack ? (float)left : -1;
}

/* The rows that may have to move, by position in the list. */
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
        if (m->cluster[i] != s->member[k].cluster) {
            if (!xsmi_sphere_grow(s, m->cluster[i])) {
                return xsmi_fail_memory(err, xsmi_block_size(s) * sizeof(float), "the rows of a cluster");
            }
            ++*moved;
        }
        move_row(s, k, m->cluster[i], block + m->which[i] * s->stride);
        s->member[k].gap = m->gap[i];
        s->member[k].rest = m->rows[i * s->stride + s->width];
    }
    return XSM_OK;
}

/* Scratch of an update, in one block that the sphere keeps. */
typedef struct update_scratch {
    float *block, *old; /* [count][stride] rows just read; [stride] */
    movers m;
} update_scratch;

static update_scratch divide_update(const xsmi_sphere *s, uint32_t count, xsmi_arena *arena)
{
    const size_t row_bytes = s->stride * sizeof(float);
    update_scratch p;
    p.block = xsmi_arena_take(arena, count, row_bytes);
    p.old = xsmi_arena_take(arena, 1, row_bytes);
    p.m.rows = xsmi_arena_take(arena, count, row_bytes);
    p.m.which = xsmi_arena_take(arena, count, sizeof *p.m.which);
    p.m.cluster = xsmi_arena_take(arena, count, sizeof *p.m.cluster);
    p.m.gap = xsmi_arena_take(arena, count, sizeof *p.m.gap);
    p.m.count = 0;
    return p;
}

/* Reads changed rows; check_row() is then called for each in turn. */
static void read_rows(const xsmi_sphere *s, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                      const update_scratch *p)
{
    fetch_members(s, rows, count);
    source->read(source, rows, 0, count, p->block, s->stride);
    for (uint32_t j = 0; j < count && j < ROWS_AHEAD; j++) {
        fetch_row(s, rows[j]);
    }
}

/* Returns the remaining gap of row j of those read, and sets *rest to its extra coordinate. If the gap is below 0, the
 * row may have to move and is added to the movers. */
static float check_row(const xsmi_sphere *s, const uint32_t *rows, uint32_t j, uint32_t count, update_scratch *p,
                       float *rest, double *longest)
{
    const float *read = p->block + j * s->stride;
    float *row = p->m.rows + p->m.count * s->stride;
    if (j + ROWS_AHEAD < count) {
        fetch_row(s, rows[j + ROWS_AHEAD]);
    }
    memcpy(row, read, s->width * sizeof *row);
    const double square = xsmi_sphere_prepare(s, row);
    *longest = XSMI_MAX(square, *longest);
    *rest = row[s->width];
    const float left = gap_left(s, &s->member[rows[j]], read, *rest, p->old);
    if (!(left > 0)) {
        p->m.which[p->m.count++] = j;
    }
    return left;
}

xsm_status xsmi_sphere_update(xsmi_sphere *s, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                              xsmi_sphere_change *change, xsm_error *err)
{
    *change = (xsmi_sphere_change){0};
    xsmi_arena needed = {NULL, 0};
    (void)divide_update(s, count, &needed);
    if (needed.used == SIZE_MAX || !xsmi_reserve(s->context, &s->scratch, &s->scratch_bytes, needed.used, 1)) {
        return xsmi_fail_memory(err, needed.used, "copies of rows");
    }
    xsmi_arena arena = {s->scratch, 0};
    update_scratch p = divide_update(s, count, &arena);
    const movers *m = &p.m;
    read_rows(s, source, rows, count, &p);
    for (uint32_t j = 0; j < count; j++) {
        float rest;
        const float left = check_row(s, rows, j, count, &p, &rest, &change->longest);
        if (left > 0) {
            xsmi_member *of = &s->member[rows[j]];
            of->gap = left;
            of->rest = rest;
            xsmi_cluster_put(s, &s->cluster[of->cluster], of->position, p.block + j * s->stride);
        }
    }
    return m->count > 0 ? move_all(s, rows, p.block, m, &change->moved, err) : XSM_OK;
}
