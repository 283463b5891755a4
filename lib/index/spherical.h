/*
 * Spherical clustering (Auvolat, Chandar, Vincent, Larochelle and Bengio, Clustering is efficient for approximate
 * maximum inner product search, 2015): rows get an extra coordinate so that all have the norm M of the longest, and are
 * clustered by direction. A query, whose extra coordinate is 0, probes the clusters whose centres have the largest
 * products with it. The mean of all rows is subtracted first, which changes no query's order and makes directions
 * differ more.
 */
#ifndef XSMI_SPHERICAL_H
#define XSMI_SPHERICAL_H

#include "index/index.h"

#include <string.h>

/* A cluster: its rows and their classes. Rows are stored in blocks of quads (kernels.h, score_quads) followed by their
 * classes, so that a probe is one stream, and a changed row is in a few adjacent cache lines. */
typedef struct xsmi_cluster {
    float *rows;              /* [capacity/XSMI_QUAD_ROWS][block] */
    uint32_t count, capacity; /* capacity: a multiple of XSMI_QUAD_ROWS */
    bool own;                 /* `rows` is its own allocation; else a part of the sphere's `rows` */
} xsmi_cluster;

/* The position of a row. One record, as rows are accessed at random. */
typedef struct xsmi_member {
    uint32_t cluster, position;
    /* A lower bound of the gap between its product with its own centre and with any other centre. While the row moves
     * by less than half of the gap, its cluster stays the same (Hamerly, Making k-means even faster, 2010). Below 0:
     * unknown. */
    float gap;
    float rest; /* its extra coordinate, if the gap is known */
} xsmi_member;

/* The clusters, which are rebuilt after many changes. */
typedef struct xsmi_sphere {
    xsm_context *context;
    const xsmi_kernels *kernels;
    uint32_t count, width; /* K, D; a centre has D + 1 numbers */
    uint32_t quads;        /* of a row in its cluster: ceil(D/4) */
    size_t stride;         /* of rows being moved, and of centres */
    double longest;        /* M^2 */
    float *mean;           /* [stride] of all rows */
    uint32_t clusters;     /* C */
    float *centres;        /* [C][stride] of length 1 */
    float *packed_centres; /* [ceil(C/XSMI_LANES)][width + 1][XSMI_LANES] centres */
    float *rows;           /* [row_floats] all clusters as built, on huge pages against TLB misses */
    size_t row_floats;
    xsmi_cluster *cluster;  /* [C] */
    xsmi_member *member;    /* [count] */
    unsigned char *scratch; /* [scratch_bytes] kept from update to update */
    size_t scratch_bytes;
} xsmi_sphere;

typedef struct xsmi_sphere_settings {
    int64_t clusters, iterations, samples;
    uint64_t seed;
} xsmi_sphere_settings;

/* Rounds up to whole blocks of rows. */
static inline uint32_t xsmi_whole_blocks(uint32_t count)
{
    return (count + XSMI_LANES - 1) / XSMI_LANES * XSMI_LANES;
}

/* Returns a number of rows of a cluster, rounded up to whole blocks. */
static inline uint32_t xsmi_whole_quads(uint32_t count)
{
    return (count + XSMI_QUAD_ROWS - 1) / XSMI_QUAD_ROWS * XSMI_QUAD_ROWS;
}

/* Returns the floats of a block of a cluster's rows with their classes. */
static inline size_t xsmi_block_size(const xsmi_sphere *s)
{
    return (4 * (size_t)s->quads + 1) * XSMI_QUAD_ROWS;
}

/* Returns the block of a cluster with that slot. */
static inline float *xsmi_cluster_block(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t position)
{
    return c->rows + position / XSMI_QUAD_ROWS * xsmi_block_size(s);
}

/* Returns the first four numbers of a cluster's row; each next four follow XSMI_LINE floats later. */
static inline float *xsmi_cluster_row(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t position)
{
    return xsmi_cluster_block(s, c, position) + xsmi_quad_offset(position % XSMI_QUAD_ROWS, s->quads);
}

/* Returns the class of a cluster's row; the other classes of its block are beside it. */
static inline uint32_t *xsmi_cluster_class(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t position)
{
    float *classes = xsmi_cluster_block(s, c, position) + (size_t)s->quads * 4 * XSMI_QUAD_ROWS;
    return (uint32_t *)(void *)classes + position % XSMI_QUAD_ROWS;
}

/* Writes or reads a row in its slot. */
static inline void xsmi_cluster_put(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t position, const float *row)
{
    float *to = xsmi_cluster_row(s, c, position);
    uint32_t f = 0;
    for (; f + 4 <= s->width; f += 4, to += XSMI_LINE) {
        memcpy(to, row + f, 4 * sizeof *row);
    }
    memcpy(to, row + f, (s->width - f) * sizeof *row);
}

static inline void xsmi_cluster_get(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t position, float *row)
{
    const float *from = xsmi_cluster_row(s, c, position);
    uint32_t f = 0;
    for (; f + 4 <= s->width; f += 4, from += XSMI_LINE) {
        memcpy(row + f, from, 4 * sizeof *row);
    }
    memcpy(row + f, from, (s->width - f) * sizeof *row);
}

/* Makes a sphere of all rows. On failure it is left empty. */
xsm_status xsmi_sphere_build(xsmi_sphere *s, const xsmi_sphere_settings *settings, const xsm_index_source *source,
                             xsm_error *err);
void xsmi_sphere_clear(xsmi_sphere *s);
/* Finds the cluster of each of `count` rows; rows [count][stride] were prepared by xsmi_sphere_prepare(). `gap` [count]
 * or NULL. */
xsm_status xsmi_sphere_assign(const xsmi_sphere *s, const float *rows, uint32_t count, uint32_t *cluster, float *gap,
                              xsm_error *err);
/* The result of an update. */
typedef struct xsmi_sphere_change {
    uint64_t moved; /* rows that are in another cluster now */
    double longest; /* the largest squared norm among the rows read */
} xsmi_sphere_change;

/* Reads rows again, and moves those that are now nearer to another centre. On failure only some rows were read.
 * (spherical.c) */
xsm_status xsmi_sphere_update(xsmi_sphere *s, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                              xsmi_sphere_change *change, xsm_error *err);
/* Returns the bytes of scratch of a search. */
size_t xsmi_sphere_scratch(const xsmi_sphere *s);
/* Searches for a block of queries (spherical_query.c). The clusters of a query hold at least `rows` rows, if there are
 * so many. With `all`, lists take the rows of these clusters unsorted, and only the best if there are too many. */
void xsmi_sphere_query(const xsmi_sphere *s, const xsm_index_block *block, uint64_t rows, bool all);
/* Return the bytes of a cursor, and search for the next rows of each query, in clusters that have at least `rows` rows
 * and several times as many as are listed. */
size_t xsmi_sphere_cursor(const xsmi_sphere *s);
void xsmi_sphere_next(const xsmi_sphere *s, const xsm_index_block *block, uint64_t rows);
/* Compute the mean, M^2 and the centres, each from those before it. */
xsm_status xsmi_sphere_find_mean(xsmi_sphere *s, const xsm_index_source *source, xsm_error *err);
xsm_status xsmi_sphere_find_longest(xsmi_sphere *s, const xsm_index_source *source, xsm_error *err);
xsm_status xsmi_sphere_find_centres(xsmi_sphere *s, const xsmi_sphere_settings *settings,
                                    const xsm_index_source *source, xsm_error *err);
/* Packs the centres for comparison with rows and queries. Call it after they have moved. */
void xsmi_sphere_pack_centres(xsmi_sphere *s);
/* Sorts the positions of a list by cluster: members of c are order[starts[c]..starts[c+1]). */
void xsmi_sort_by_cluster(const uint32_t *cluster, uint32_t count, uint32_t clusters, uint32_t *starts,
                          uint32_t *order);
/* Subtracts the mean from a row and sets its extra coordinate, which brings its squared norm to M^2. Returns the
 * squared norm without it. */
double xsmi_sphere_prepare(const xsmi_sphere *s, float *row);

#endif
