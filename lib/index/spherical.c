/*
 * The spherical index: searches and updates (spherical.h says what it is; spherical_build.c makes the clusters).
 *
 * A search ranks the centres for a block of queries in tiles, gives each query the best clusters until they hold enough
 * rows, and goes through the clusters one by one, so that the rows of one are read once for all queries that probe it.
 */
#include "index/spherical.h"

#include "model/tiles.h"
#include "model/top.h"

#include <math.h>
#include <string.h>

typedef struct spherical_state {
    int64_t clusters, probe, iterations, samples;
    double drift;
    xsmi_sphere sphere;
    uint64_t moved, rebuilds, seed;
} spherical_state;

static const xsm_option options[] = {
    {"clusters", XSM_OPTION_INT, offsetof(spherical_state, clusters), "0", 0, XSM_CLASSES_MAX, NULL,
     "clusters, C; 0 = 8 times the square root of K, at most K/4"},
    {"probe", XSM_OPTION_INT, offsetof(spherical_state, probe), "0", 0, XSM_CLASSES_MAX, NULL,
     "rows that a query scores, at least: the best clusters are probed until they hold so many; 0 = 8 times the square "
     "root of K"},
    {"iterations", XSM_OPTION_INT, offsetof(spherical_state, iterations), "10", 0, 1000, NULL,
     "times that the centres move"},
    {"samples", XSM_OPTION_INT, offsetof(spherical_state, samples), "32", 1, 1000000, NULL,
     "rows a cluster that the centres are found from, at most"},
    {"drift", XSM_OPTION_DOUBLE, offsetof(spherical_state, drift), "0.5", 0, 1e9, NULL,
     "moves from cluster to cluster, as a part of K, after which updates build all anew"},
};

static void clear(void *state)
{
    spherical_state *s = state;
    xsmi_sphere_clear(&s->sphere);
    s->moved = s->rebuilds = 0;
}

static xsmi_sphere_settings settings_of(const spherical_state *s, uint64_t seed)
{
    xsmi_sphere_settings settings = {s->clusters, s->iterations, s->samples, seed};
    return settings;
}

static xsm_status build(void *state, const xsm_index_source *source, xsm_error *err)
{
    spherical_state *s = state;
    s->seed = source->seed;
    xsmi_sphere_settings settings = settings_of(s, s->seed);
    return xsmi_sphere_build(&s->sphere, &settings, source, err);
}

/* -- updates ------------------------------------------------------------------------------------------------------- */

static void move_row(xsmi_sphere *s, uint32_t k, uint32_t to, const float *row)
{
    xsmi_cluster *from = &s->cluster[s->cluster_of[k]], *into = &s->cluster[to];
    if (from != into) {
        uint32_t hole = s->place_of[k], last = --from->count;
        if (hole != last) {
            memcpy(from->rows + hole * s->stride, from->rows + last * s->stride, s->stride * sizeof *row);
            from->classes[hole] = from->classes[last];
            s->place_of[from->classes[hole]] = hole;
        }
        s->cluster_of[k] = to;
        s->place_of[k] = into->count++;
        into->classes[s->place_of[k]] = k;
    }
    memcpy(into->rows + s->place_of[k] * s->stride, row, s->width * sizeof *row);
}

static xsm_status update(void *state, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                         xsm_error *err)
{
    spherical_state *s = state;
    xsmi_sphere *sphere = &s->sphere;
    float *block = xsmi_allocate(sphere->context, count, sphere->stride * sizeof *block);
    float *prepared = xsmi_allocate(sphere->context, count, sphere->stride * sizeof *prepared);
    uint32_t *cluster = xsmi_allocate(sphere->context, count, sizeof *cluster);
    xsm_status status = XSM_OK;
    double longest = 0;
    if (!block || !prepared || !cluster) {
        status = xsmi_fail_memory(err, count * sphere->stride * sizeof *block, "rows on their way to clusters");
    } else {
        source->read(source, rows, 0, count, block, sphere->stride);
        for (uint32_t j = 0; j < count; j++) {
            float *row = prepared + j * sphere->stride;
            memcpy(row, block + j * sphere->stride, sphere->width * sizeof *row);
            double square = xsmi_sphere_prepare(sphere, row);
            longest = square > longest ? square : longest;
        }
        status = xsmi_sphere_assign(sphere, prepared, count, cluster, err);
    }
    for (uint32_t j = 0; j < count && status == XSM_OK; j++) {
        if (cluster[j] != sphere->cluster_of[rows[j]]) {
            if (!xsmi_sphere_grow(sphere, cluster[j])) {
                status = xsmi_fail_memory(err, sphere->stride * sizeof *block, "the rows of a cluster");
                break;
            }
            s->moved++;
        }
        move_row(sphere, rows[j], cluster[j], block + j * sphere->stride);
    }
    xsmi_release(s->sphere.context, block, count, sphere->stride * sizeof *block);
    xsmi_release(s->sphere.context, prepared, count, sphere->stride * sizeof *prepared);
    xsmi_release(s->sphere.context, cluster, count, sizeof *cluster);
    /* Rows much longer than the longest of then have directions alone to tell them apart. */
    if (status == XSM_OK && ((double)s->moved > s->drift * sphere->count || longest > 4 * sphere->longest)) {
        xsmi_sphere anew;
        xsmi_sphere_settings settings = settings_of(s, s->seed);
        status = xsmi_sphere_build(&anew, &settings, source, err);
        if (status == XSM_OK) {
            xsmi_sphere_clear(sphere);
            *sphere = anew;
            s->moved = 0;
            s->rebuilds++;
        }
    }
    return status;
}

/* -- searches ------------------------------------------------------------------------------------------------------ */

typedef struct places {
    float *packed, *tile;
    float *ranks;     /* [XSM_INDEX_QUERIES][C] products with the centres */
    uint32_t *heap;   /* [C] */
    uint32_t *chosen; /* [XSM_INDEX_QUERIES][C] clusters of each query */
    uint32_t *counts; /* [XSM_INDEX_QUERIES] */
    uint32_t *starts; /* [C+1] */
    uint32_t *askers; /* [XSM_INDEX_QUERIES][C] queries by cluster */
    float *scores;    /* of the rows of a cluster */
} places;

static places divide_scratch(const xsmi_sphere *s, xsmi_arena *arena)
{
    places p;
    size_t c = s->clusters, all = c * XSM_INDEX_QUERIES;
    p.packed = xsmi_arena_take(arena, (size_t)s->width * XSMI_LANES, sizeof *p.packed);
    p.tile = xsmi_arena_take(arena, XSMI_CLASS_TILE * XSMI_LANES, sizeof *p.tile);
    p.ranks = xsmi_arena_take(arena, all, sizeof *p.ranks);
    p.heap = xsmi_arena_take(arena, c, sizeof *p.heap);
    p.chosen = xsmi_arena_take(arena, all, sizeof *p.chosen);
    p.counts = xsmi_arena_take(arena, XSM_INDEX_QUERIES, sizeof *p.counts);
    p.starts = xsmi_arena_take(arena, c + 1, sizeof *p.starts);
    p.askers = xsmi_arena_take(arena, all, sizeof *p.askers);
    p.scores = xsmi_arena_take(arena, s->identity_count, sizeof *p.scores);
    return p;
}

static size_t scratch(const void *state, uint32_t top)
{
    xsmi_arena arena = {NULL, 0};
    (void)top;
    (void)divide_scratch(&((const spherical_state *)state)->sphere, &arena);
    return arena.used;
}

static void rank_centres(const xsmi_sphere *s, const xsm_index_block *block, const places *p)
{
    for (uint32_t at = 0; at < block->count; at += XSMI_LANES) {
        const float *x[XSMI_LANES];
        uint32_t n = block->count - at < XSMI_LANES ? block->count - at : XSMI_LANES;
        for (uint32_t l = 0; l < n; l++) {
            x[l] = block->queries + (at + l) * block->stride;
        }
        s->kernels->pack(x, n, s->width, p->packed);
        for (uint32_t c = 0; c < s->clusters; c += XSMI_CLASS_TILE) {
            uint32_t some = s->clusters - c < XSMI_CLASS_TILE ? s->clusters - c : XSMI_CLASS_TILE;
            s->kernels->score_tile(s->centres + c * s->stride, s->stride, some, p->packed, s->width, 1, NULL, NULL,
                                   p->tile);
            for (uint32_t l = 0; l < n; l++) {
                for (uint32_t j = 0; j < some; j++) {
                    p->ranks[(size_t)(at + l) * s->clusters + c + j] = p->tile[j * XSMI_LANES + l];
                }
            }
        }
    }
}

static bool ahead(const float *rank, uint32_t a, uint32_t b)
{
    return rank[a] > rank[b] || (rank[a] == rank[b] && a < b);
}

static void sink(const float *rank, uint32_t *heap, uint32_t size, uint32_t place)
{
    uint32_t item = heap[place];
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= size) {
            break;
        }
        child += child + 1 < size && ahead(rank, heap[child + 1], heap[child]);
        if (!ahead(rank, heap[child], item)) {
            break;
        }
        heap[place] = heap[child];
        place = child;
    }
    heap[place] = item;
}

/* The best clusters of a query until they hold `rows` rows; returns how many they hold. */
static uint64_t choose(const xsmi_sphere *s, const float *rank, uint64_t rows, uint32_t *heap, uint32_t *chosen,
                       uint32_t *count)
{
    uint64_t held = 0;
    uint32_t size = s->clusters;
    for (uint32_t c = 0; c < size; c++) {
        heap[c] = c;
    }
    for (uint32_t place = size / 2; place-- > 0;) {
        sink(rank, heap, size, place);
    }
    *count = 0;
    while (held < rows && size > 0) {
        uint32_t c = heap[0];
        chosen[(*count)++] = c;
        held += s->cluster[c].count;
        heap[0] = heap[--size];
        sink(rank, heap, size, 0);
    }
    return held;
}

/* Lists for each cluster the queries that probe it. */
static void list_askers(const xsmi_sphere *s, const xsm_index_block *block, const places *p)
{
    memset(p->starts, 0, ((size_t)s->clusters + 1) * sizeof *p->starts);
    for (uint32_t i = 0; i < block->count; i++) {
        for (uint32_t j = 0; j < p->counts[i]; j++) {
            p->starts[p->chosen[(size_t)i * s->clusters + j] + 1]++;
        }
    }
    for (uint32_t c = 0; c < s->clusters; c++) {
        p->starts[c + 1] += p->starts[c];
    }
    for (uint32_t i = 0; i < block->count; i++) {
        for (uint32_t j = 0; j < p->counts[i]; j++) {
            p->askers[p->starts[p->chosen[(size_t)i * s->clusters + j]]++] = i;
        }
    }
    for (uint32_t c = s->clusters; c > 0; c--) {
        p->starts[c] = p->starts[c - 1];
    }
    p->starts[0] = 0;
}

static xsm_status query(const void *state, const xsm_index_block *block, xsm_error *err)
{
    const spherical_state *state_of = state;
    const xsmi_sphere *s = &state_of->sphere;
    (void)err;
    xsmi_arena arena = {block->scratch, 0};
    places p = divide_scratch(s, &arena);
    xsmi_top lists[XSM_INDEX_QUERIES];
    uint64_t rows = state_of->probe ? (uint64_t)state_of->probe : (uint64_t)ceil(8 * sqrt((double)s->count));
    rows = rows > block->top ? rows : block->top;
    rank_centres(s, block, &p);
    for (uint32_t i = 0; i < block->count; i++) {
        block->probed[i] = choose(s, p.ranks + (size_t)i * s->clusters, rows, p.heap,
                                  p.chosen + (size_t)i * s->clusters, &p.counts[i]);
        lists[i] =
            (xsmi_top){block->scores + (size_t)i * block->top, block->classes + (size_t)i * block->top, block->top};
        xsmi_top_start(&lists[i]);
    }
    list_askers(s, block, &p);
    for (uint32_t c = 0; c < s->clusters; c++) {
        const xsmi_cluster *cluster = &s->cluster[c];
        for (uint32_t a = p.starts[c]; a < p.starts[c + 1]; a++) {
            uint32_t i = p.askers[a];
            s->kernels->gather_scores(cluster->rows, s->stride, s->identity, cluster->count,
                                      block->queries + i * block->stride, s->width, p.scores, NULL);
            for (uint32_t j = 0; j < cluster->count; j++) {
                if (p.scores[j] >= lists[i].score[0] && p.scores[j] > block->threshold) {
                    xsmi_top_offer_any(&lists[i], p.scores[j], cluster->classes[j]);
                }
            }
        }
    }
    for (uint32_t i = 0; i < block->count; i++) {
        xsmi_top_sort(&lists[i]);
        uint32_t length = 0;
        while (length < block->top && lists[i].class_of[length] != XSMI_NO_CLASS) {
            length++;
        }
        block->lengths[i] = length;
    }
    return XSM_OK;
}

static void info(const void *state, xsm_index_info *out)
{
    const spherical_state *s = state;
    out->clusters = s->sphere.clusters;
    for (uint32_t c = 0; c < s->sphere.clusters; c++) {
        out->largest = s->sphere.cluster[c].count > out->largest ? s->sphere.cluster[c].count : out->largest;
    }
    out->moved = s->moved;
    out->rebuilds = s->rebuilds;
}

const xsm_index_ops xsmi_spherical_index_ops = {
    .size = sizeof(xsm_index_ops),
    .abi = XSM_INDEX_ABI,
    .name = "spherical",
    .summary = "clusters of directions, of which the best are probed (Auvolat et al. 2015)",
    .state_size = sizeof(spherical_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .build = build,
    .clear = clear,
    .update = update,
    .scratch = scratch,
    .query = query,
    .info = info,
};
