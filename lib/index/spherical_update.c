/*
 * Updating clusters: changed rows are read again.
 *
 * Most of them stay in their cluster. Centres have norm 1. If a row moves by d, the gap between its products with its
 * own and with another centre shrinks by at most 2 d. A lower bound of the gap is stored; as long as it stays positive,
 * the row need not be compared with all centres (Hamerly, Making k-means even faster, SDM 2010).
 *
 * Over ranks each finds the clusters of its own changed rows, and all learn of all; rows change place in the order of
 * one process, so that lists stay the same on every rank.
 */
#include "index/spherical.h"

#include "base/arena.h"
#include "base/order.h"
#include "model/divided.h"

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
            if (s->part.group) {
                *xsmi_cluster_place(s, from, of->position) = *xsmi_cluster_place(s, from, last);
            }
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

/* The remaining gap when a row becomes `row` with that extra coordinate, or below 0 if no gap is certain. `old`
 * [stride]. */
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
    double left = (double)of->gap - 2.001 * moved - 1e-6 * sqrt(s->longest); /* less rounding errors */
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
            if (!xsmi_sphere_grow(s, m->cluster[i], 1)) {
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

/* Reads changed rows, of which look_at() is then called in turn. */
static void read_rows(const xsmi_sphere *s, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                      const update_scratch *p)
{
    fetch_members(s, rows, count);
    source->read(source, rows, 0, count, p->block, s->stride);
    for (uint32_t j = 0; j < count && j < ROWS_AHEAD; j++) {
        fetch_row(s, rows[j]);
    }
}

/* The gap that is left of row j of those read, and its extra coordinate. A row that may have to move is added to the
 * movers: its gap is below 0. */
static float look_at(const xsmi_sphere *s, const uint32_t *rows, uint32_t j, uint32_t count, update_scratch *p,
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
        const float left = look_at(s, rows, j, count, &p, &rest, &change->longest);
        if (left > 0) {
            xsmi_member *of = &s->member[rows[j]];
            of->gap = left;
            of->rest = rest;
            xsmi_cluster_put(s, &s->cluster[of->cluster], of->position, p.block + j * s->stride);
        }
    }
    return m->count > 0 ? move_all(s, rows, p.block, m, &change->moved, err) : XSM_OK;
}

/* -- over ranks ---------------------------------------------------------------------------------------------------- */

/* Scratch of an update by all ranks. */
typedef struct part_scratch {
    update_scratch own; /* of this rank's rows */
    float *left, *rest; /* [own] the gap that is left, below 0 of movers; the extra coordinate */
    size_t *sizes, *next;
    unsigned char *mine, *all; /* blocks of all ranks: M^2 of the rows read, and the cluster of each */
} part_scratch;

#define HEADER sizeof(double)

static part_scratch divide_part(const xsmi_sphere *s, const xsmi_index_changes *c, xsmi_arena *arena)
{
    const size_t ranks = xsmi_ranks(s->part.group);
    part_scratch p = {.own = divide_update(s, c->own_count, arena)};
    p.left = xsmi_arena_take(arena, c->own_count, sizeof *p.left);
    p.rest = xsmi_arena_take(arena, c->own_count, sizeof *p.rest);
    p.sizes = xsmi_arena_take(arena, ranks, sizeof *p.sizes);
    p.next = xsmi_arena_take(arena, ranks, sizeof *p.next);
    p.mine = xsmi_arena_take(arena, HEADER + c->own_count * sizeof(uint32_t), 1);
    p.all = xsmi_arena_take(arena, ranks * HEADER + c->count * sizeof(uint32_t), 1);
    return p;
}

static uint32_t owner_of(const xsmi_sphere *s, uint32_t class)
{
    return s->owner[class / XSMI_RUN_CLASSES];
}

/* Reads the changed rows of this rank, and finds their clusters, `to` [own_count]. */
static xsm_status find_clusters(xsmi_sphere *s, const xsm_index_source *source, const xsmi_index_changes *c,
                                part_scratch *p, uint32_t *to, double *longest, xsm_error *err)
{
    const movers *m = &p->own.m;
    read_rows(s, source, c->own, c->own_count, &p->own);
    for (uint32_t j = 0; j < c->own_count; j++) {
        p->left[j] = look_at(s, c->own, j, c->own_count, &p->own, &p->rest[j], longest);
        to[j] = s->member[c->own[j]].cluster;
    }
    XSMI_TRY(m->count > 0 ? xsmi_sphere_assign(s, m->rows, m->count, m->cluster, m->gap, err) : XSM_OK);
    xsm_status status = XSM_OK;
    for (uint32_t i = 0; i < m->count; i++) {
        const uint32_t cluster = m->cluster[i];
        if (status == XSM_OK && cluster != to[m->which[i]] && !xsmi_sphere_grow(s, cluster, ++s->arriving[cluster])) {
            status = xsmi_fail_memory(err, xsmi_block_size(s) * sizeof(float), "the rows of a cluster");
        }
        to[m->which[i]] = cluster;
    }
    for (uint32_t i = 0; i < m->count; i++) {
        s->arriving[m->cluster[i]] = 0;
    }
    return status;
}

static xsm_status read_part(xsmi_sphere *s, const xsm_index_source *source, const xsmi_index_changes *c,
                            part_scratch *p, xsm_error *err)
{
    xsmi_arena needed = {NULL, 0};
    (void)divide_part(s, c, &needed);
    if (needed.used == SIZE_MAX || !xsmi_reserve(s->context, &s->scratch, &s->scratch_bytes, needed.used, 1)) {
        return xsmi_fail_memory(err, needed.used, "copies of rows");
    }
    xsmi_arena arena = {s->scratch, 0};
    *p = divide_part(s, c, &arena);
    double longest = 0;
    XSMI_TRY(find_clusters(s, source, c, p, (uint32_t *)(void *)(p->mine + HEADER), &longest, err));
    memcpy(p->mine, &longest, HEADER);
    for (uint32_t r = 0; r < xsmi_ranks(s->part.group); r++) {
        p->sizes[r] = HEADER;
    }
    for (uint32_t j = 0; j < c->count; j++) {
        p->sizes[owner_of(s, c->classes[j])] += sizeof(uint32_t);
    }
    return XSM_OK;
}

/* Begins to read the blocks of all ranks; next_cluster() is that of each changed class in turn. */
static void begin_blocks(const xsmi_sphere *s, const part_scratch *p)
{
    size_t at = 0;
    for (uint32_t r = 0; r < xsmi_ranks(s->part.group); r++) {
        p->next[r] = at + HEADER;
        at += p->sizes[r];
    }
}

static uint32_t next_cluster(const xsmi_sphere *s, const part_scratch *p, uint32_t class)
{
    uint32_t cluster;
    size_t *next = &p->next[owner_of(s, class)];
    memcpy(&cluster, p->all + *next, sizeof cluster);
    *next += sizeof cluster;
    return cluster;
}

/* Makes room in the lists for the classes that arrive. All ranks know whether there is enough. */
static xsm_status grow_lists(xsmi_sphere *s, const xsmi_index_changes *c, const part_scratch *p, xsm_error *err)
{
    bool enough = !s->uneven;
    begin_blocks(s, p);
    for (uint32_t j = 0; j < c->count; j++) {
        const uint32_t to = next_cluster(s, p, c->classes[j]);
        s->arriving[to] += to != s->place[c->classes[j]].cluster;
        enough &= s->arriving[to] <= s->list[to].capacity - s->list[to].count;
    }
    xsm_status status = XSM_OK;
    begin_blocks(s, p);
    for (uint32_t j = 0; j < c->count; j++) {
        const uint32_t to = next_cluster(s, p, c->classes[j]);
        xsmi_sphere_list *list = &s->list[to];
        const uint32_t needed = list->count + s->arriving[to], larger = list->capacity + list->capacity / 2 + 1;
        s->arriving[to] = 0;
        if (status == XSM_OK && needed > list->capacity) {
            const uint32_t capacity = XSMI_MAX(needed, larger);
            uint32_t *more =
                xsmi_reallocate(s->context, list->classes, list->capacity, capacity, sizeof *list->classes);
            status = more ? XSM_OK : xsmi_fail_memory(err, capacity * sizeof *more, "the classes of a cluster");
            list->classes = more ? more : list->classes;
            list->capacity = more ? capacity : list->capacity;
        }
    }
    status = enough ? XSM_OK : xsmi_agree(s->part.group, status, err);
    s->uneven |= status != XSM_OK; /* on all ranks: their lists may have room for different numbers */
    return status;
}

/* Whether a class is this rank's, with the number of its row. */
static bool is_own(const xsmi_sphere *s, uint32_t class, uint32_t *row)
{
    *row = class - s->part.first;
    return *row < s->count;
}

/* Moves a class to the end of another cluster's list; the last of the list that it leaves takes its position. */
static void move_class(xsmi_sphere *s, uint32_t class, uint32_t to)
{
    xsmi_sphere_place *of = &s->place[class];
    xsmi_sphere_list *from = &s->list[of->cluster], *into = &s->list[to];
    const uint32_t filler = from->classes[--from->count];
    uint32_t row;
    from->classes[of->position] = filler;
    s->place[filler].position = of->position;
    if (is_own(s, filler, &row)) {
        const xsmi_member *member = &s->member[row];
        *xsmi_cluster_place(s, &s->cluster[member->cluster], member->position) = of->position;
    }
    *of = (xsmi_sphere_place){to, into->count};
    into->classes[into->count++] = class;
}

xsm_status xsmi_sphere_update_part(xsmi_sphere *s, const xsm_index_source *source, const xsmi_index_changes *changes,
                                   xsmi_sphere_change *change, xsm_status status, xsm_error *err)
{
    xsm_context *group = s->part.group;
    part_scratch p = {.mine = NULL};
    *change = (xsmi_sphere_change){0};
    status = status == XSM_OK ? read_part(s, source, changes, &p, err) : status;
    XSMI_TRY(xsmi_agree(group, status, err));
    XSMI_TRY(xsmi_exchange_blocks(group, p.mine, p.all, p.sizes, err));
    XSMI_TRY(grow_lists(s, changes, &p, err));
    begin_blocks(s, &p);
    for (uint32_t r = 0; r < xsmi_ranks(group); r++) {
        double longest;
        memcpy(&longest, p.all + p.next[r] - HEADER, sizeof longest);
        change->longest = XSMI_MAX(longest, change->longest);
    }
    for (uint32_t j = 0, own = 0, i = 0; j < changes->count; j++) {
        const uint32_t class = changes->classes[j], to = next_cluster(s, &p, class);
        const bool moves = to != s->place[class].cluster;
        uint32_t row;
        if (moves) {
            move_class(s, class, to);
            change->moved++;
        }
        if (!is_own(s, class, &row)) {
            continue;
        }
        xsmi_member *member = &s->member[row];
        move_row(s, row, to, p.own.block + own * s->stride);
        if (moves) {
            *xsmi_cluster_place(s, &s->cluster[to], member->position) = s->place[class].position;
        }
        const bool stays = p.left[own] > 0;
        member->gap = stays ? p.left[own] : p.own.m.gap[i];
        member->rest = p.rest[own++];
        i += !stays;
    }
    return XSM_OK;
}
