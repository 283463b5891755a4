/*
 * The table of the spherical index (described in spherical.h): spherical_build.c makes the clusters, spherical_update.c
 * updates them, spherical_query.c searches them.
 */
#include "index/spherical.h"

#include "base/activity.h"
#include "base/order.h"

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
    const bool all = block->any_order && block->threshold == -INFINITY && (!s->probe || probe <= block->top);
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
