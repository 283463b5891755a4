/*
 * Spherical clustering (Auvolat, Chandar, Vincent, Larochelle and Bengio, Clustering is efficient for approximate
 * maximum * inner product search, 2015): rows get one number more so that all have the length M of the longest, and are
 * clustered by direction; a query, whose number more is 0, probes the clusters whose centres it has the largest
 * products with. The mean of all rows is taken away first, which changes no query's order and leaves more of the
 * lengths to directions.
 */
#ifndef XSMI_SPHERICAL_H
#define XSMI_SPHERICAL_H

#include "index/index.h"

#include <string.h>

/* A cluster: its rows and their classes. Rows lie in blocks of quads (kernels.h, score_quads) with their classes behind
 * them, so that a probe is one stream, and a row that changes is in a few lines beside each other. */
typedef struct xsmi_cluster {
    float *rows;              /* [capacity/XSMI_QUAD_ROWS][block], the last XSMI_QUAD_ROWS of each block classes */
    uint32_t count, capacity; /* capacity: a multiple of XSMI_QUAD_ROWS */
    bool own;                 /* `rows` is memory of its own; else of the sphere's `rows` */
} xsmi_cluster;

/* Where a row is. All of it together, as what is asked for is asked of rows here and there. */
typedef struct xsmi_member {
    uint32_t cluster, place;
    /* How much larger its product with its own centre is than with any other, at least: while it moves by less than
     * half of that its cluster stays the same, as Hamerly (Making k-means even faster, 2010) saw. Below 0: not known.
     */
    float gap;
    float rest; /* its number more, where the gap is known */
} xsmi_member;

/* What is built, and built anew when it has drifted. */
typedef struct xsmi_sphere {
    xsm_context *context;
    const xsmi_kernels *kernels;
    uint32_t count, width; /* K, D; a centre has D + 1 numbers */
    uint32_t quads;        /* of a row in its cluster: ceil(D/4) */
    size_t stride;         /* of rows on their way, and of centres */
    double longest;        /* M^2 */
    float *mean;           /* [stride] of all rows */
    uint32_t clusters;     /* C */
    float *centres;        /* [C][stride] of length 1 */
    float *packed_centres; /* [ceil(C/XSMI_LANES)][width + 1][XSMI_LANES] the same */
    float *rows;           /* [row_room] of all clusters as they were built: in huge pages, so that a probe of one after
                              the other does not wait for addresses */
    size_t row_room;
    xsmi_cluster *cluster;  /* [C] */
    xsmi_member *member;    /* [K] */
    unsigned char *scratch; /* [scratch_bytes] kept from update to update */
    size_t scratch_bytes;
} xsmi_sphere;

typedef struct xsmi_sphere_settings {
    int64_t clusters, iterations, samples;
    uint64_t seed;
} xsmi_sphere_settings;

/* Whole blocks of rows. */
static inline uint32_t xsmi_whole_blocks(uint32_t count)
{
    return (count + XSMI_LANES - 1) / XSMI_LANES * XSMI_LANES;
}

/* The same of a cluster's rows. */
static inline uint32_t xsmi_whole_quads(uint32_t count)
{
    return (count + XSMI_QUAD_ROWS - 1) / XSMI_QUAD_ROWS * XSMI_QUAD_ROWS;
}

/* Floats of a block of a cluster's rows with their classes. */
static inline size_t xsmi_block_size(const xsmi_sphere *s)
{
    return (4 * (size_t)s->quads + 1) * XSMI_QUAD_ROWS;
}

/* The block of a cluster that has a place. */
static inline float *xsmi_cluster_block(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t place)
{
    return c->rows + place / XSMI_QUAD_ROWS * xsmi_block_size(s);
}

/* Where the first four numbers of a cluster's row are; each four others follow XSMI_LINE apart. */
static inline float *xsmi_cluster_row(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t place)
{
    return xsmi_cluster_block(s, c, place) + xsmi_quad_place(place % XSMI_QUAD_ROWS, s->quads);
}

/* Where the class of a cluster's row is; those of its block lie beside it. */
static inline uint32_t *xsmi_cluster_class(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t place)
{
    float *classes = xsmi_cluster_block(s, c, place) + (size_t)s->quads * 4 * XSMI_QUAD_ROWS;
    return (uint32_t *)(void *)classes + place % XSMI_QUAD_ROWS;
}

/* Writes a row to its place, or reads it. */
static inline void xsmi_cluster_put(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t place, const float *row)
{
    float *to = xsmi_cluster_row(s, c, place);
    uint32_t f = 0;
    for (; f + 4 <= s->width; f += 4, to += XSMI_LINE) {
        memcpy(to, row + f, 4 * sizeof *row);
    }
    memcpy(to, row + f, (s->width - f) * sizeof *row);
}

static inline void xsmi_cluster_get(const xsmi_sphere *s, const xsmi_cluster *c, uint32_t place, float *row)
{
    const float *from = xsmi_cluster_row(s, c, place);
    uint32_t f = 0;
    for (; f + 4 <= s->width; f += 4, from += XSMI_LINE) {
        memcpy(row + f, from, 4 * sizeof *row);
    }
    memcpy(row + f, from, (s->width - f) * sizeof *row);
}

/* Makes a sphere of all rows. On failure it is left empty. */
xsm_status xsmi_sphere_build(xsmi_sphere *s, const xsmi_sphere_settings *settings, const xsm_index_source *source,
                             xsm_error *err);
/* As numbers: M^2, the mean, the centres, the rows of each cluster; and back, with the rows as they are now. */
uint64_t xsmi_sphere_saved(const xsmi_sphere_settings *settings, const xsm_index_source *source);
void xsmi_sphere_save(const xsmi_sphere *s, uint32_t *numbers);
xsm_status xsmi_sphere_restore(xsmi_sphere *s, const xsmi_sphere_settings *settings, const xsm_index_source *source,
                               const uint32_t *numbers, xsm_error *err);
void xsmi_sphere_clear(xsmi_sphere *s);
/* Makes room for one row more. */
bool xsmi_sphere_grow(xsmi_sphere *s, uint32_t cluster);
/* The cluster that each of `count` rows belongs to; rows [count][stride] are as xsmi_sphere_prepare() leaves them.
 * `gap` [count] or NULL. */
xsm_status xsmi_sphere_assign(const xsmi_sphere *s, const float *rows, uint32_t count, uint32_t *cluster, float *gap,
                              xsm_error *err);
/* Reads rows again, and moves those that are nearer to another centre now. Adds how many to `moved`; `longest` becomes
 * the largest square of a length among them. On failure some have been read. (spherical_update.c) */
xsm_status xsmi_sphere_update(xsmi_sphere *s, const xsm_index_source *source, const uint32_t *rows, uint32_t count,
                              uint64_t *moved, double *longest, xsm_error *err);
/* What the rows are measured by, each from those before it: their mean, M^2 and the centres. */
xsm_status xsmi_sphere_find_mean(xsmi_sphere *s, const xsm_index_source *source, xsm_error *err);
xsm_status xsmi_sphere_find_longest(xsmi_sphere *s, const xsm_index_source *source, xsm_error *err);
xsm_status xsmi_sphere_find_centres(xsmi_sphere *s, const xsmi_sphere_settings *settings,
                                    const xsm_index_source *source, xsm_error *err);
/* The centres once more, as rows and queries are held against them: to be called when they have moved. */
void xsmi_sphere_pack_centres(xsmi_sphere *s);
/* Places of a list sorted by cluster: members of c are order[starts[c]..starts[c+1]). */
void xsmi_sort_by_cluster(const uint32_t *cluster, uint32_t count, uint32_t clusters, uint32_t *starts,
                          uint32_t *order);
/* Takes the mean away from a row and gives it its number more: what its square lacks to M^2. Returns the square. */
double xsmi_sphere_prepare(const xsmi_sphere *s, float *row);

#endif
