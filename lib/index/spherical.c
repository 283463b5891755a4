/*
 * The table of the spherical index (described in spherical.h): spherical_build.c makes the clusters, spherical_query.c
 * searches them; and their updates.
 */
#include "index/spherical.h"

#include "base/activity.h"
#include "base/order.h"
#include "base/arena.h"

#include <math.h>
#include <string.h>

typedef struct spherical_state {
    int64_t clusters, probe, iterations, samples;
    double drift;
    xsmi_sphere sphere;
    uint64_t moved, rebuilds, seed;
} spherical_state;

static const xsm_option options[] = {
    XSMI_OPTION_INT("clusters", spherical_state, clusters, "0", 0, XSM_CLASSES_MAX,
                    "clusters, C; 0 = 8 times the square root of K, at most K/4; for estimators that ask for Q rows, "
                    "10 K/Q if that is less"),
    XSMI_OPTION_INT("probe", spherical_state, probe, "0", 0, XSM_CLASSES_MAX,
                    "rows that a query scores, at least: the best clusters are probed until they hold so many; 0 = 8 "
                    "times the square root of K"),
    XSMI_OPTION_INT("iterations", spherical_state, iterations, "10", 0, 1000, "times that the centres move"),
    XSMI_OPTION_INT("samples", spherical_state, samples, "32", 1, 1000000,
                    "rows a cluster that the centres are found from, at most"),
    XSMI_OPTION_DOUBLE("drift", spherical_state, drift, "4", 0, 1e9,
                       "moves from cluster to cluster, as a part of K, after which updates build all anew"),
};

static void clear(void *state)
{
    spherical_state *s = state;
    xsmi_sphere_clear(&s->sphere);
    s->moved = s->rebuilds = 0;
}

static xsmi_sphere_settings settings_of(const spherical_state *s, const xsm_index_source *source)
{
    xsmi_sphere_settings settings = {s->clusters, s->iterations, s->samples, s->seed};
    const uint32_t rows = source->count;
    int64_t some = (int64_t)lround(8 * sqrt((double)rows)), quarter = rows / 4 + 1;
    if (settings.clusters == 0) {
        settings.clusters = XSMI_MIN(some, quarter);
        /* A cluster holds a tenth of the list. With more clusters, ranking them would take longer than probing them. */
        int64_t tenths = source->wanted ? 10 * (int64_t)rows / source->wanted : settings.clusters;
        settings.clusters = XSMI_MIN(tenths, settings.clusters);
    }
    return settings;
}

static xsm_status build(void *state, const xsm_index_source *source, xsm_error *err)
{
    spherical_state *s = state;
    s->seed = source->seed;
    xsmi_sphere_settings settings = settings_of(s, source);
    return xsmi_sphere_build(&s->sphere, &settings, source, err);
}

/* -- updates ------------------------------------------------------------------------------------------------------- */

/* Builds anew after a change that was large, or the last of many. */
static xsm_status update(void *state, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                         xsm_error *err)
{
    spherical_state *s = state;
    xsmi_sphere_change change;
    xsm_status status = xsmi_sphere_update(&s->sphere, source, rows, count, &change, err);
    s->moved += change.moved;
    XSMI_TRY(status);
    /* Rows much longer than the longest at the time of building differ only by direction. */
    if ((double)s->moved > s->drift * s->sphere.count || change.longest > 4 * s->sphere.longest) {
        xsmi_sphere anew;
        xsmi_sphere_settings settings = settings_of(s, source);
        XSMI_TRY(xsmi_sphere_build(&anew, &settings, source, err));
        xsmi_sphere_clear(&s->sphere);
        s->sphere = anew;
        s->moved = 0;
        s->rebuilds++;
    }
    return XSM_OK;
}

/* -- searches ------------------------------------------------------------------------------------------------------ */

static size_t scratch(const void *state, uint32_t top)
{
    (void)top;
    return xsmi_sphere_scratch(&((const spherical_state *)state)->sphere);
}

/* Returns the least number of rows that a query scores. */
static uint64_t probe_of(const spherical_state *s)
{
    return s->probe ? (uint64_t)s->probe : (uint64_t)ceil(8 * sqrt((double)s->sphere.count));
}

/* Whether a block needs no selection: its lists have no order, and all probed rows fit into them. Sets *rows to the
 * rows to probe, at least. */
static bool takes_all(const spherical_state *s, const xsm_index_block *block, uint64_t *rows)
{
    const uint64_t probe = probe_of(s);
    const bool all = block->any_order && block->least_score == -INFINITY && (!s->probe || probe <= block->top);
    *rows = all || probe < block->top ? block->top : probe;
    return all;
}

static xsm_status query(const void *state, const xsm_index_block *given, xsm_error *err)
{
    const spherical_state *s = state;
    xsm_index_block block;
    uint64_t rows;
    XSMI_TRY(xsmi_index_read_block(given, &block, err));
    const bool all = takes_all(s, &block, &rows);
    xsmi_sphere_query(&s->sphere, &block, rows, all);
    const xsm_context *ctx = s->sphere.context;
    return xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

static size_t cursor(const void *state)
{
    return xsmi_sphere_cursor(&((const spherical_state *)state)->sphere);
}

static xsm_status next(const void *state, const xsm_index_block *given, xsm_error *err)
{
    const spherical_state *s = state;
    xsm_index_block block;
    XSMI_TRY(xsmi_index_read_next(given, cursor(state), &block, err));
    xsmi_sphere_next(&s->sphere, &block, probe_of(s));
    const xsm_context *ctx = s->sphere.context;
    return xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

static void info(const void *state, xsm_index_info *out)
{
    const spherical_state *s = state;
    out->clusters = s->sphere.clusters;
    for (uint32_t c = 0; c < s->sphere.clusters; c++) {
        const uint32_t size = s->sphere.cluster[c].count;
        out->largest = XSMI_MAX(size, out->largest);
    }
    out->moved = s->moved;
    out->rebuilds = s->rebuilds;
}

/* -- checkpoints --------------------------------------------------------------------------------------------------- */

static uint64_t saved(const void *state, const xsm_index_source *source)
{
    xsmi_sphere_settings settings = settings_of(state, source);
    return 4 + xsmi_sphere_saved(&settings, source);
}

static void save(const void *state, const xsm_index_source *source, uint32_t *numbers)
{
    const spherical_state *s = state;
    (void)source;
    memcpy(numbers, &s->moved, sizeof s->moved);
    memcpy(numbers + 2, &s->rebuilds, sizeof s->rebuilds);
    xsmi_sphere_save(&s->sphere, numbers + 4);
}

static xsm_status restore(void *state, const xsm_index_source *source, const uint32_t *numbers, xsm_error *err)
{
    spherical_state *s = state;
    xsmi_sphere_settings settings = settings_of(s, source);
    s->seed = source->seed;
    memcpy(&s->moved, numbers, sizeof s->moved);
    memcpy(&s->rebuilds, numbers + 2, sizeof s->rebuilds);
    return xsmi_sphere_restore(&s->sphere, &settings, source, numbers + 4, err);
}

const xsm_index_ops xsmi_spherical_index_ops = {
    .size = sizeof(xsm_index_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .flags = XSM_INDEX_UNCHECKED,
    .name = "spherical",
    .summary = "clusters of directions, of which the best are probed (Auvolat et al. 2015)",
    .state_size = sizeof(spherical_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .build = build,
    .clear = clear,
    .update = update,
    .scratch = scratch,
    .query = query,
    .info = info,
    .saved = saved,
    .save = save,
    .restore = restore,
    .cursor = cursor,
    .next = next,
};

/* -- updates ------------------------------------------------------------------------------------------------------- */

/*
 * Updating clusters: changed rows are read again.
 *
 * Most of them stay in their cluster. Centres have norm 1. If a row moves by d, the gap between its products with its
 * own and with another centre shrinks by at most 2 d. A lower bound of the gap is stored; as long as it stays positive,
 * the row need not be compared with all centres (Hamerly, Making k-means even faster, SDM 2010).
 */

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
