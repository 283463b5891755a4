/*
 * Building the clusters: every row is assigned to its nearest centre (spherical_means.c). Empty clusters get half of
 * the largest one.
 */
#include "index/spherical.h"

#include "base/activity.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

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

bool xsmi_sphere_grow(xsmi_sphere *s, uint32_t cluster)
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

/* An empty sphere with memory for its clusters; false without memory. */
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
    bool allocated = begin(s, settings, source);
    uint32_t *counts = xsmi_allocate(s->context, s->clusters, sizeof *counts);
    uint32_t *starts = xsmi_allocate(s->context, (size_t)s->clusters + 1, sizeof *starts);
    uint32_t *order = xsmi_allocate(s->context, s->count, sizeof *order);
    uint32_t *cluster = xsmi_allocate(s->context, s->count, sizeof *cluster);
    float *gap = xsmi_allocate(s->context, s->count, sizeof *gap);
    float *rest = xsmi_allocate(s->context, s->count, sizeof *rest);
    xsm_status status = XSM_OK;
    if (!allocated || !counts || !starts || !order || !cluster || !gap || !rest) {
        status = xsmi_fail_memory(err, s->count * sizeof *s->member, "clusters");
    }
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
    xsmi_release(s->context, counts, s->clusters, sizeof *counts);
    xsmi_release(s->context, starts, (size_t)s->clusters + 1, sizeof *starts);
    xsmi_release(s->context, order, s->count, sizeof *order);
    xsmi_release(s->context, cluster, s->count, sizeof *cluster);
    xsmi_release(s->context, gap, s->count, sizeof *gap);
    xsmi_release(s->context, rest, s->count, sizeof *rest);
    if (status != XSM_OK) {
        xsmi_sphere_clear(s);
    }
    return status;
}

/* -- checkpoints --------------------------------------------------------------------------------------------------- */

uint64_t xsmi_sphere_saved(const xsmi_sphere_settings *settings, const xsm_index_source *source)
{
    const uint64_t c = clusters_of(settings, source), width = source->width;
    return 2 + width + c * (width + 1) + c + source->count;
}

void xsmi_sphere_save(const xsmi_sphere *s, uint32_t *numbers)
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

xsm_status xsmi_sphere_restore(xsmi_sphere *s, const xsmi_sphere_settings *settings, const xsm_index_source *source,
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
