/*
 * The table of the spherical index (described in spherical.h): makes the clusters and updates them; spherical_query.c
 * searches them.
 */
#include "index/spherical.h"

#include "base/activity.h"
#include "base/order.h"
#include "base/arena.h"
#include "base/held.h"

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

/* -- building ------------------------------------------------------------------------------------------------------ */

/*
 * Building the clusters: every row is assigned to its nearest centre (spherical_means.c). Empty clusters get half of
 * the largest one.
 */

/* Returns the floats of a cluster of that capacity. */
static size_t cluster_floats(const xsmi_sphere *s, uint32_t capacity)
{
    return capacity / XSMI_QUAD_ROWS * xsmi_block_size(s);
}

/* -- all rows ------------------------------------------------------------------------------------------------------ */

/* Rows that are read and assigned together. */
#define ASSIGN_ROWS 65536
#define READ_ROWS 512

/* Finds the cluster of each row, its gap and its extra coordinate, [count] each. */
static xsm_status assign_all(const xsmi_sphere *s, const xsm_index_source *source, uint32_t *cluster, float *gap,
                             float *rest, xsm_error *err)
{
    uint32_t most = XSMI_MIN(s->count, ASSIGN_ROWS);
    float *rows;
    XSMI_TRY(xsmi_array_new(s->context, &rows, most, s->stride * sizeof *rows, "copies of rows", err));
    xsm_status status = XSM_OK;
    for (uint32_t first = 0; first < s->count && status == XSM_OK;) {
        uint32_t count = s->count - first < most ? s->count - first : most;
        for (uint32_t j = 0; j < count && !xsmi_poll(s->context); j += READ_ROWS) {
            const uint32_t end = count - j < READ_ROWS ? count : j + READ_ROWS;
            source->read(source, NULL, first + j, end - j, rows + j * s->stride, s->stride);
            for (uint32_t i = j; i < end; i++) {
                (void)xsmi_sphere_prepare(s, rows + i * s->stride);
                rest[first + i] = rows[i * s->stride + s->width];
            }
        }
        status = xsmi_go_on(s->context, err);
        if (status == XSM_OK) {
            status = xsmi_sphere_assign(s, rows, count, cluster + first, gap + first, err);
        }
        xsmi_advance(s->context, count / 2);
        first += count;
    }
    xsmi_release(s->context, rows, most, s->stride * sizeof *rows);
    return status;
}

static void set_members(xsmi_sphere *s, const uint32_t *cluster, const float *gap, const float *rest)
{
    for (uint32_t k = 0; k < s->count; k++) {
        s->member[k] = (xsmi_member){.cluster = cluster[k], .gap = gap[k], .rest = rest[k]};
    }
}

/* Gives every empty cluster half of the rows of the largest one, and its centre. `counts` [C], `starts` [C+1] and
 * `order` [K] are scratch for the rows by cluster. */
static void repair(xsmi_sphere *s, uint32_t *cluster, float *gap, uint32_t *counts, uint32_t *starts, uint32_t *order)
{
    xsmi_sort_by_cluster(cluster, s->count, s->clusters, starts, order);
    for (uint32_t c = 0; c < s->clusters; c++) {
        counts[c] = starts[c + 1] - starts[c];
    }
    for (uint32_t c = 0; c < s->clusters; c++) {
        if (counts[c] > 0) {
            continue;
        }
        uint32_t largest = 0;
        for (uint32_t other = 1; other < s->clusters; other++) {
            largest = counts[other] > counts[largest] ? other : largest;
        }
        memcpy(s->centres + c * s->stride, s->centres + largest * s->stride, s->stride * sizeof *s->centres);
        counts[c] = counts[largest] / 2;
        counts[largest] -= counts[c];
        starts[c] = starts[largest] + counts[largest];
        for (uint32_t j = starts[largest]; j < starts[c] + counts[c]; j++) {
            cluster[order[j]] = j < starts[c] ? largest : c;
            gap[order[j]] = -1; /* two centres are equal */
        }
    }
}

/* Reserves one more row; false without memory. */
static bool grow_cluster(xsmi_sphere *s, uint32_t cluster)
{
    xsmi_cluster *c = &s->cluster[cluster];
    if (c->count < c->capacity) {
        return true;
    }
    uint32_t capacity = xsmi_whole_quads(c->capacity + c->capacity / 2 + 1);
    float *rows = xsmi_allocate_zero(s->context, cluster_floats(s, capacity), sizeof *rows);
    if (!rows) {
        return false;
    }
    memcpy(rows, c->rows, cluster_floats(s, c->capacity) * sizeof *rows);
    if (c->own) {
        xsmi_release(s->context, c->rows, cluster_floats(s, c->capacity), sizeof *rows);
    }
    c->rows = rows;
    c->own = true;
    c->capacity = capacity;
    return true;
}

/* Makes empty clusters with memory for the rows that are theirs, and some more. */
static xsm_status make_clusters(xsmi_sphere *s, xsm_error *err)
{
    s->row_floats = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        s->cluster[s->member[k].cluster].capacity++;
    }
    for (uint32_t c = 0; c < s->clusters; c++) {
        const uint32_t count = s->cluster[c].capacity;
        s->cluster[c].capacity = xsmi_whole_quads(count + count / 8 + 1);
        s->row_floats += cluster_floats(s, s->cluster[c].capacity);
    }
    XSMI_TRY(xsmi_zeros_new(s->context, &s->rows, s->row_floats, sizeof *s->rows, "the rows of an index", err));
    size_t offset = 0;
    for (uint32_t c = 0; c < s->clusters; c++) {
        uint32_t capacity = s->cluster[c].capacity;
        s->cluster[c].rows = s->rows + offset;
        offset += cluster_floats(s, capacity);
    }
    return XSM_OK;
}

/* Copies all rows to their clusters, each cluster in the given order (NULL: rising). */
static xsm_status fill_clusters(xsmi_sphere *s, const uint32_t *order, const xsm_index_source *source, xsm_error *err)
{
    float *row;
    XSMI_TRY(xsmi_array_new(s->context, &row, s->stride, sizeof *row, "a row", err));
    for (uint32_t j = 0; j < s->count; j++) {
        if (j % READ_ROWS == 0) {
            if (xsmi_poll(s->context)) {
                break;
            }
            xsmi_advance(s->context, READ_ROWS / 2);
        }
        const uint32_t k = order ? order[j] : j;
        xsmi_cluster *c = &s->cluster[s->member[k].cluster];
        source->read(source, NULL, k, 1, row, s->stride);
        xsmi_cluster_put(s, c, c->count, row);
        *xsmi_cluster_class(s, c, c->count) = k;
        s->member[k].position = c->count++;
    }
    xsmi_release(s->context, row, s->stride, sizeof *row);
    return xsmi_go_on(s->context, err);
}

void xsmi_sphere_clear(xsmi_sphere *s)
{
    if (!s->context) {
        return;
    }
    for (uint32_t c = 0; s->cluster && c < s->clusters; c++) {
        if (s->cluster[c].own) {
            xsmi_release(s->context, s->cluster[c].rows, cluster_floats(s, s->cluster[c].capacity), sizeof(float));
        }
    }
    xsmi_release(s->context, s->rows, s->row_floats, sizeof *s->rows);
    xsmi_release(s->context, s->cluster, s->clusters, sizeof *s->cluster);
    xsmi_release(s->context, s->mean, s->stride, sizeof *s->mean);
    xsmi_release(s->context, s->centres, s->clusters, s->stride * sizeof *s->centres);
    xsmi_release(s->context, s->member, s->count, sizeof *s->member);
    xsmi_release(s->context, s->scratch, s->scratch_bytes, 1);
    xsmi_release(s->context, s->packed_centres, (size_t)xsmi_whole_blocks(s->clusters) * ((size_t)s->width + 1),
                 sizeof *s->packed_centres);
    memset(s, 0, sizeof *s);
}

static uint32_t clusters_of(const xsmi_sphere_settings *settings, const xsm_index_source *source)
{
    return settings->clusters < source->count ? (uint32_t)settings->clusters : source->count;
}

/* Makes an empty sphere with memory for its clusters; false without memory. */
static bool begin(xsmi_sphere *s, const xsmi_sphere_settings *settings, const xsm_index_source *source)
{
    memset(s, 0, sizeof *s);
    s->context = source->context;
    s->kernels = xsmi_context_kernels(source->context);
    s->count = source->count;
    s->width = source->width;
    s->quads = (source->width + 3) / 4;
    s->stride = xsmi_row_stride((size_t)source->width + 1);
    s->clusters = clusters_of(settings, source);
    s->mean = xsmi_allocate_zero(s->context, s->stride, sizeof *s->mean);
    s->centres = xsmi_allocate_zero(s->context, s->clusters, s->stride * sizeof *s->centres);
    s->packed_centres = xsmi_allocate(s->context, (size_t)xsmi_whole_blocks(s->clusters) * ((size_t)s->width + 1),
                                      sizeof *s->packed_centres);
    s->cluster = xsmi_allocate_zero(s->context, s->clusters, sizeof *s->cluster);
    s->member = xsmi_allocate(s->context, s->count, sizeof *s->member);
    return s->mean && s->centres && s->packed_centres && s->cluster && s->member;
}

xsm_status xsmi_sphere_build(xsmi_sphere *s, const xsmi_sphere_settings *settings, const xsm_index_source *source,
                             xsm_error *err)
{
    const bool allocated = begin(s, settings, source);
    xsmi_held held = {.context = s->context};
    uint32_t *counts = xsmi_hold(&held, s->clusters, sizeof *counts);
    uint32_t *starts = xsmi_hold(&held, (size_t)s->clusters + 1, sizeof *starts);
    uint32_t *order = xsmi_hold(&held, s->count, sizeof *order);
    uint32_t *cluster = xsmi_hold(&held, s->count, sizeof *cluster);
    float *gap = xsmi_hold(&held, s->count, sizeof *gap);
    float *rest = xsmi_hold(&held, s->count, sizeof *rest);
    xsm_status status = allocated ? xsmi_held_check(&held, "clusters", err)
                                  : xsmi_fail_memory(err, s->count * sizeof *s->member, "clusters");
    if (status == XSM_OK) {
        status = xsmi_sphere_find_mean(s, source, err);
    }
    if (status == XSM_OK) {
        status = xsmi_sphere_find_longest(s, source, err);
    }
    if (status == XSM_OK) {
        status = xsmi_sphere_find_centres(s, settings, source, err);
    }
    if (status == XSM_OK) {
        xsmi_sphere_pack_centres(s);
        status = assign_all(s, source, cluster, gap, rest, err);
    }
    if (status == XSM_OK) {
        repair(s, cluster, gap, counts, starts, order);
        set_members(s, cluster, gap, rest);
        xsmi_sphere_pack_centres(s);
        status = make_clusters(s, err);
        status = status == XSM_OK ? fill_clusters(s, NULL, source, err) : status;
    }
    xsmi_held_release(&held);
    if (status != XSM_OK) {
        xsmi_sphere_clear(s);
    }
    return status;
}

/* -- checkpoints --------------------------------------------------------------------------------------------------- */

/* Save the sphere as numbers: M^2, the mean, the centres, the rows of each cluster; and make a sphere from these
 * numbers and the present rows. */
static uint64_t saved_numbers(const xsmi_sphere_settings *settings, const xsm_index_source *source)
{
    const uint64_t c = clusters_of(settings, source), width = source->width;
    return 2 + width + c * (width + 1) + c + source->count;
}

static void save_sphere(const xsmi_sphere *s, uint32_t *numbers)
{
    const size_t width = s->width;
    memcpy(numbers, &s->longest, sizeof s->longest);
    memcpy(numbers + 2, s->mean, width * sizeof *numbers);
    numbers += 2 + width;
    for (uint32_t c = 0; c < s->clusters; c++, numbers += width + 1) {
        memcpy(numbers, s->centres + c * s->stride, (width + 1) * sizeof *numbers);
    }
    uint32_t *order = numbers + s->clusters;
    for (uint32_t c = 0; c < s->clusters; c++) {
        numbers[c] = s->cluster[c].count;
        for (uint32_t i = 0; i < numbers[c]; i++) {
            *order++ = *xsmi_cluster_class(s, &s->cluster[c], i);
        }
    }
}

#define SAVED "numbers of a spherical index: "

/* Sets the cluster of each row, [K]. */
static xsm_status read_order(const xsmi_sphere *s, const uint32_t *counts, const uint32_t *order, uint32_t *cluster,
                             xsm_error *err)
{
    const uint32_t rows = s->count;
    uint32_t done = 0;
    memset(cluster, 0xff, rows * sizeof *cluster); /* none */
    for (uint32_t c = 0; c < s->clusters; c++) {
        if (counts[c] > rows - done) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, SAVED "cluster %u has %u rows; of %u there are %u left", c,
                             counts[c], rows, rows - done);
        }
        for (uint32_t end = done + counts[c]; done < end; done++) {
            if (order[done] >= rows || cluster[order[done]] != UINT32_MAX) {
                return xsmi_fail(err, XSM_ERROR_FORMAT, SAVED "row %u in cluster %u; accepted is each of 0 to %u once",
                                 order[done], c, rows - 1);
            }
            cluster[order[done]] = c;
        }
    }
    return done == rows ? XSM_OK
                        : xsmi_fail(err, XSM_ERROR_FORMAT, SAVED "clusters have %u rows; there are %u", done, rows);
}

/* Checks the mean, M^2 and the centres. */
static xsm_status check_measures(const xsmi_sphere *s, xsm_error *err)
{
    if (!(s->longest >= 0 && s->longest < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, SAVED "the longest row's square is %g; accepted is 0 or more, finite",
                         s->longest);
    }
    for (uint32_t f = 0; f < s->width; f++) {
        if (!(fabsf(s->mean[f]) < INFINITY)) {
            return xsmi_fail(err, XSM_ERROR_FORMAT, SAVED "number %u of the mean is not finite", f);
        }
    }
    for (uint32_t c = 0; c < s->clusters; c++) {
        const float *centre = s->centres + c * s->stride;
        double square = (double)s->kernels->dot(centre, centre, (size_t)s->width + 1);
        if (!(square < 4)) { /* about 1, unless squares underflow */
            return xsmi_fail(err, XSM_ERROR_FORMAT, SAVED "centre %u has length %g, not 1", c, sqrt(square));
        }
    }
    return XSM_OK;
}

static xsm_status restore_sphere(xsmi_sphere *s, const xsmi_sphere_settings *settings, const xsm_index_source *source,
                                 const uint32_t *numbers, xsm_error *err)
{
    if (!begin(s, settings, source)) {
        xsmi_sphere_clear(s);
        return xsmi_fail_memory(err, source->count * sizeof(uint32_t), "clusters");
    }
    const size_t width = s->width;
    memcpy(&s->longest, numbers, sizeof s->longest);
    memcpy(s->mean, numbers + 2, width * sizeof *numbers);
    numbers += 2 + width;
    for (uint32_t c = 0; c < s->clusters; c++, numbers += width + 1) {
        memcpy(s->centres + c * s->stride, numbers, (width + 1) * sizeof *numbers);
    }
    const uint32_t *order = numbers + s->clusters;
    uint32_t *cluster = xsmi_allocate(s->context, s->count, sizeof *cluster);
    xsm_status status =
        cluster ? check_measures(s, err) : xsmi_fail_memory(err, s->count * sizeof *cluster, "clusters");
    status = status == XSM_OK ? read_order(s, numbers, order, cluster, err) : status;
    if (status == XSM_OK) {
        for (uint32_t k = 0; k < s->count; k++) { /* the gap is computed again when the row changes */
            s->member[k] = (xsmi_member){cluster[k], 0, -1, 0};
        }
        xsmi_sphere_pack_centres(s);
        status = make_clusters(s, err);
    }
    status = status == XSM_OK ? fill_clusters(s, order, source, err) : status;
    xsmi_release(s->context, cluster, s->count, sizeof *cluster);
    if (status != XSM_OK) {
        xsmi_sphere_clear(s);
    }
    return status;
}

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
            if (!grow_cluster(s, m->cluster[i])) {
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

/* -- updates ------------------------------------------------------------------------------------------------------- */

/* Changes the lists; builds them anew after a large change or many. */
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
    return 4 + saved_numbers(&settings, source);
}

static void save(const void *state, const xsm_index_source *source, uint32_t *numbers)
{
    const spherical_state *s = state;
    (void)source;
    memcpy(numbers, &s->moved, sizeof s->moved);
    memcpy(numbers + 2, &s->rebuilds, sizeof s->rebuilds);
    save_sphere(&s->sphere, numbers + 4);
}

static xsm_status restore(void *state, const xsm_index_source *source, const uint32_t *numbers, xsm_error *err)
{
    spherical_state *s = state;
    xsmi_sphere_settings settings = settings_of(s, source);
    s->seed = source->seed;
    memcpy(&s->moved, numbers, sizeof s->moved);
    memcpy(&s->rebuilds, numbers + 2, sizeof s->rebuilds);
    return restore_sphere(&s->sphere, &settings, source, numbers + 4, err);
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
