/*
 * Searching the clusters of the spherical index.
 *
 * A search ranks the centres for a block of queries in tiles and assigns the best clusters to each query until they
 * hold enough rows. Then it scores cluster by cluster, so that the rows of a cluster are read once for all queries that
 * probe it.
 */
#include "index/spherical.h"

#include "base/activity.h"
#include "base/arena.h"
#include "base/order.h"
#include "index/block.h"

#include <math.h>
#include <string.h>

/* Centres whose products are skipped together when none of them is the next. */
#define RUN 64

/* Marks a list that takes rows unsorted, each cluster's rows in their own range. */
#define AS_THEY_COME UINT32_MAX

typedef struct search_arrays {
    float *tile;           /* [XSM_INDEX_QUERIES][XSMI_LANES] scores of some rows or centres */
    float *queries;        /* [XSM_INDEX_QUERIES][quads][XSMI_LINE] in the layout of the kernel for clusters */
    float *ranks;          /* [XSM_INDEX_QUERIES][C] products with the centres */
    float *best;           /* [C/RUN + 1] */
    uint32_t *chosen;      /* [XSM_INDEX_QUERIES][C] clusters of each query */
    uint32_t *counts;      /* [XSM_INDEX_QUERIES] */
    uint32_t *ends;        /* [C] end of the query list of each probed cluster */
    uint64_t *probed;      /* [C/64 + 1] a bit each cluster */
    uint32_t *probes;      /* [C] clusters that any query probes */
    uint32_t *probers;     /* [XSM_INDEX_QUERIES][C] queries by cluster */
    uint32_t *filled;      /* [XSM_INDEX_QUERIES] rows in a list that keeps the best rows, or AS_THEY_COME */
    uint32_t *list_starts; /* [XSM_INDEX_QUERIES][C] parallel to `probers`: the start of a cluster's rows in the query's
                              list */
} search_arrays;

/* A search for a block of queries. */
typedef struct search {
    const xsmi_sphere *sphere;
    const xsm_index_block *block;
    search_arrays scratch;
    uint64_t rows; /* that the clusters of a query hold, at least */
    bool all;      /* nothing is selected: lists take rows as they come */
} search;

/* Divides the memory of a search, or counts it. */
static search_arrays divide_scratch(const xsmi_sphere *s, xsmi_arena *arena)
{
    search_arrays p;
    size_t c = s->clusters, all = c * XSM_INDEX_QUERIES;
    p.tile = xsmi_arena_take(arena, (uint64_t)XSM_INDEX_QUERIES * XSMI_LANES, sizeof *p.tile);
    p.queries = xsmi_arena_take(arena, (uint64_t)XSM_INDEX_QUERIES * s->quads, XSMI_LINE * sizeof *p.queries);
    p.ranks = xsmi_arena_take(arena, all, sizeof *p.ranks);
    p.best = xsmi_arena_take(arena, c / RUN + 1, sizeof *p.best);
    p.chosen = xsmi_arena_take(arena, all, sizeof *p.chosen);
    p.counts = xsmi_arena_take(arena, XSM_INDEX_QUERIES, sizeof *p.counts);
    p.ends = xsmi_arena_take(arena, c, sizeof *p.ends);
    p.filled = xsmi_arena_take(arena, XSM_INDEX_QUERIES, sizeof *p.filled);
    p.probed = xsmi_arena_take(arena, c / 64 + 1, sizeof *p.probed);
    p.probes = xsmi_arena_take(arena, c, sizeof *p.probes);
    p.probers = xsmi_arena_take(arena, all, sizeof *p.probers);
    p.list_starts = xsmi_arena_take(arena, all, sizeof *p.list_starts);
    return p;
}

size_t xsmi_sphere_scratch(const xsmi_sphere *s)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_scratch(s, &arena);
    return arena.used;
}

/* Computes the products of all queries with the centres, by which these are ranked. */
static void rank_centres(const search *q)
{
    const xsmi_sphere *s = q->sphere;
    const xsm_index_block *block = q->block;
    const search_arrays *p = &q->scratch;
    size_t width = (size_t)s->width + 1; /* the last is 0 in queries */
    for (uint32_t c = 0; c < s->clusters; c += XSMI_LANES) {
        uint32_t some = s->clusters - c < XSMI_LANES ? s->clusters - c : XSMI_LANES;
        s->kernels->score_tile(block->queries, block->stride, block->count, s->packed_centres + c * width, s->width, 1,
                               NULL, NULL, p->tile);
        for (uint32_t i = 0; i < block->count; i++) {
            memcpy(p->ranks + (size_t)i * s->clusters + c, p->tile + i * XSMI_LANES, some * sizeof *p->ranks);
        }
    }
}

/* A cluster with more rows than this share of a list is large. */
#define LARGE 4

/* Whether a cluster is large beside a list. Most clusters hold a tenth of a long list, and any of their rows will do. A
 * short list takes the best rows of a few clusters, which costs little beside ranking. If few rows are long, one
 * cluster holds most of the others. Rows at its end would then be in no list, clusters ranked behind it in few lists,
 * and no step would lower the scores of their classes. */
static bool is_large(uint32_t count, uint32_t top)
{
    return count > top / LARGE;
}

/* The clusters of a query, the largest products first. */
typedef struct choice {
    uint32_t *clusters, count;
    uint64_t rows; /* that they hold */
} choice;

/* Chooses the clusters with the largest products, of equal ones the first, until they hold the rows wanted. A cluster
 * counts for at most `most` rows. The products of chosen clusters become -INFINITY. `best` and `clusters` are a
 * query's, as in search_arrays. */
static choice choose(const xsmi_sphere *s, float *rank, float *best, uint32_t *clusters, uint64_t rows, uint32_t most)
{
    const uint32_t size = s->clusters, runs = (size + RUN - 1) / RUN;
    choice chosen = {clusters, 0, 0};
    uint64_t counted = 0;
    for (uint32_t run = 0; run < runs; run++) {
        uint32_t first = run * RUN;
        best[run] = s->kernels->row_max(rank + first, size - first < RUN ? size - first : RUN);
    }
    while (counted < rows && chosen.count < size) {
        uint32_t top = 0;
        for (uint32_t run = 1; run < runs; run++) {
            top = best[run] > best[top] ? run : top;
        }
        uint32_t first = top * RUN, some = size - first < RUN ? size - first : RUN, c = first;
        while (c < first + some && rank[c] != best[top]) {
            c++;
        }
        if (c == first + some || best[top] == -INFINITY) {
            break; /* NaN: the query gets no clusters */
        }
        chosen.clusters[chosen.count++] = c;
        const uint32_t held = s->cluster[c].count;
        chosen.rows += held;
        counted += XSMI_MIN(held, most);
        rank[c] = -INFINITY;
        best[top] = s->kernels->row_max(rank + first, some);
    }
    return chosen;
}

/* Lists for each cluster the queries that probe it, and the position of its rows in lists that take rows as they come.
 * Skips clusters without queries. Returns the number of clusters with queries. */
static uint32_t list_askers(const search *q)
{
    const xsmi_sphere *s = q->sphere;
    const search_arrays *p = &q->scratch;
    const size_t words = s->clusters / 64 + 1;
    memset(p->probed, 0, words * sizeof *p->probed);
    for (uint32_t i = 0; i < q->block->count; i++) {
        for (uint32_t j = 0; j < p->counts[i]; j++) {
            uint32_t c = p->chosen[(size_t)i * s->clusters + j];
            uint64_t bit = UINT64_C(1) << c % 64;
            p->ends[c] = p->probed[c / 64] & bit ? p->ends[c] + 1 : 1;
            p->probed[c / 64] |= bit;
        }
    }
    uint32_t probes = 0, total = 0;
    for (size_t w = 0; w < words; w++) {
        for (uint64_t left = p->probed[w]; left; left &= left - 1) {
            uint32_t c = (uint32_t)w * 64 + (uint32_t)__builtin_ctzll(left), probers = p->ends[c];
            p->probes[probes++] = c;
            p->ends[c] = total; /* the start of its list; each entry moves it towards the end */
            total += probers;
        }
    }
    for (uint32_t i = 0; i < q->block->count; i++) {
        uint32_t begin = 0;
        for (uint32_t j = 0; j < p->counts[i]; j++) {
            uint32_t c = p->chosen[(size_t)i * s->clusters + j], at = p->ends[c]++;
            p->probers[at] = i;
            p->list_starts[at] = begin;
            begin += s->cluster[c].count;
        }
    }
    return probes;
}

/* Writes each group of four numbers of the queries four times. */
static void spread_queries(const search *q)
{
    const xsmi_sphere *s = q->sphere;
    const xsm_index_block *block = q->block;
    const search_arrays *p = &q->scratch;
    for (uint32_t i = 0; i < block->count; i++) {
        const float *query = block->queries + i * block->stride;
        float *to = p->queries + (size_t)i * s->quads * XSMI_LINE;
        for (uint32_t f = 0; f < 4 * s->quads; f++) {
            float number = f < s->width ? query[f] : 0;
            for (uint32_t r = 0; r < 4; r++) {
                to[f / 4 * XSMI_LINE + 4 * r + f % 4] = number;
            }
        }
    }
}

static void add_best(const xsm_index_block *block, uint32_t query, const float *scores, const uint32_t *classes,
                     uint32_t count)
{
    const xsmi_top list = xsmi_block_list(block, query);
    for (uint32_t j = 0; j < count; j++) {
        if (scores[j] >= list.score[0] && scores[j] >= block->least_score) {
            xsmi_block_offer(&list, scores[j], classes[j]);
        }
    }
}

/* Bytes of rows that are prefetched ahead: the amount that arrives within one memory latency. */
#define AHEAD 8192

/* Returns how many rows of the cluster at a position of `probes` fit into a list or are compared with it. */
static uint32_t rows_wanted(const search *q, uint32_t at)
{
    const search_arrays *p = &q->scratch;
    const uint32_t top = q->block->top;
    const uint32_t count = q->sphere->cluster[p->probes[at]].count, end = p->ends[p->probes[at]];
    uint32_t space = q->all ? 0 : count;
    for (uint32_t a = at ? p->ends[p->probes[at - 1]] : 0; space < count && a < end; a++) {
        uint32_t left = p->filled[p->probers[a]] != AS_THEY_COME ? count
                        : p->list_starts[a] < top                ? top - p->list_starts[a]
                                                                 : 0;
        space = XSMI_MAX(left, space);
    }
    return XSMI_MIN(space, count);
}

/* The prefetch position. */
typedef struct cursor {
    const search *search;
    uint32_t next, end;     /* the following clusters, by position in `probes` */
    const float *at, *stop; /* in the present cluster */
} cursor;

/* Prefetches that many floats of rows, cluster by cluster. */
XSMI_PREFETCHER void fetch(cursor *f, size_t floats)
{
    const search *q = f->search;
    for (size_t left = floats; left > 0;) {
        if (f->at == f->stop) {
            if (f->next == f->end) {
                return;
            }
            uint32_t rows = rows_wanted(q, f->next);
            f->at = q->sphere->cluster[q->scratch.probes[f->next++]].rows;
            f->stop = f->at + xsmi_whole_quads(rows) / XSMI_QUAD_ROWS * xsmi_block_size(q->sphere);
            continue;
        }
        size_t some = (size_t)(f->stop - f->at) < left ? (size_t)(f->stop - f->at) : left;
        for (size_t i = 0; i < some; i += XSMI_LINE) {
            xsmi_prefetch_line(f->at + i);
        }
        f->at += some;
        left -= some;
    }
}

/* Blocks of rows that are scored together. */
#define PIECE 2

/* Scores `rows` rows of a cluster from a position on into a query's list, as long as there is room. */
static void append_rows(const search *q, uint32_t query, uint32_t list_start, const float *from, uint32_t rows)
{
    const xsmi_sphere *s = q->sphere;
    const xsm_index_block *block = q->block;
    const search_arrays *p = &q->scratch;
    const size_t size = xsmi_block_size(s);
    const float *of = p->queries + (size_t)query * s->quads * XSMI_LINE, *classes = from + size - XSMI_QUAD_ROWS;
    if (list_start >= block->top) {
        return;
    }
    const uint32_t space = block->top - list_start;
    const size_t offset = query * block->list_stride + list_start;
    float *scores = block->scores + offset;
    uint32_t *to = block->classes + offset;
    rows = XSMI_MIN(rows, space);
    if (rows == PIECE * XSMI_QUAD_ROWS) {
        s->kernels->score_quads(of, from, size, PIECE, s->quads, scores);
        for (size_t b = 0; b < PIECE; b++) { /* a size that the compiler knows */
            memcpy(to + b * XSMI_QUAD_ROWS, classes + b * size, XSMI_QUAD_ROWS * sizeof *to);
        }
        return;
    }
    s->kernels->score_quads(of, from, size, xsmi_whole_quads(rows) / XSMI_QUAD_ROWS, s->quads, p->tile);
    memcpy(scores, p->tile, rows * sizeof *scores);
    for (uint32_t i = 0; i < rows; i += XSMI_QUAD_ROWS, classes += size) {
        memcpy(to + i, classes, (rows - i < XSMI_QUAD_ROWS ? rows - i : XSMI_QUAD_ROWS) * sizeof *to);
    }
}

/* Scores `rows` rows of a cluster from a position on into a query's list: appends them while there is space, then
 * replaces worse ones. */
static void add_rows(const search *q, uint32_t query, const float *from, uint32_t rows)
{
    const xsmi_sphere *s = q->sphere;
    const xsm_index_block *block = q->block;
    const search_arrays *p = &q->scratch;
    const uint32_t filled = p->filled[query], space = block->top - filled, some = XSMI_MIN(rows, space);
    if (some > 0) {
        append_rows(q, query, filled, from, some);
        p->filled[query] += some;
    }
    const size_t size = xsmi_block_size(s);
    const xsmi_top list = xsmi_block_list(block, query);
    if (some > 0 && some == space) {
        xsmi_top_heap(&list);
    }
    if (some < rows) {
        s->kernels->score_quads(p->queries + (size_t)query * s->quads * XSMI_LINE, from, size,
                                xsmi_whole_quads(rows) / XSMI_QUAD_ROWS, s->quads, p->tile);
    }
    const float *classes = from + size - XSMI_QUAD_ROWS;
    for (uint32_t i = some; i < rows; i++) {
        const uint32_t *of = (const uint32_t *)(const void *)(classes + i / XSMI_QUAD_ROWS * size);
        xsmi_block_offer(&list, p->tile[i], of[i % XSMI_QUAD_ROWS]);
    }
}

/* Scores the rows of the cluster at that position of `probes` for the queries that probe it, a few blocks of rows for
 * all queries at a time. */
static void probe(const search *q, uint32_t at, cursor *upcoming)
{
    const xsmi_sphere *s = q->sphere;
    const xsm_index_block *block = q->block;
    const search_arrays *p = &q->scratch;
    const bool all = q->all;
    const xsmi_cluster *cluster = &s->cluster[p->probes[at]];
    const uint32_t begin = at ? p->ends[p->probes[at - 1]] : 0;
    const uint32_t *probers = p->probers + begin, *begins = p->list_starts + begin;
    const uint32_t count = p->ends[p->probes[at]] - begin, together = PIECE * XSMI_QUAD_ROWS;
    const size_t size = xsmi_block_size(s);
    const uint32_t wanted = rows_wanted(q, at);
    for (uint32_t first = 0; first < wanted; first += together) {
        uint32_t rows = wanted - first < together ? wanted - first : together;
        uint32_t blocks = xsmi_whole_quads(rows) / XSMI_QUAD_ROWS;
        const float *from = xsmi_cluster_block(s, cluster, first);
        fetch(upcoming, blocks * size);
        for (uint32_t a = 0; a < count; a++) {
            if (all && p->filled[probers[a]] != AS_THEY_COME) {
                add_rows(q, probers[a], from, rows);
                continue;
            }
            if (all) {
                append_rows(q, probers[a], begins[a] + first, from, rows);
                continue;
            }
            s->kernels->score_quads(p->queries + (size_t)probers[a] * s->quads * XSMI_LINE, from, size, blocks,
                                    s->quads, p->tile);
            for (uint32_t b = 0; b < blocks; b++) {
                uint32_t from_row = b * XSMI_QUAD_ROWS, left = rows - from_row;
                add_best(block, probers[a], p->tile + from_row, xsmi_cluster_class(s, cluster, first + from_row),
                         XSMI_MIN(left, XSMI_QUAD_ROWS));
            }
        }
    }
}

/* Chooses the clusters of a query and sets the length of its list. */
static void choose_for(const search *q, uint32_t query)
{
    const xsmi_sphere *s = q->sphere;
    const xsm_index_block *block = q->block;
    const search_arrays *p = &q->scratch;
    const uint32_t most = q->all ? block->top / LARGE + 1 : s->count;
    const size_t at = (size_t)query * s->clusters;
    const choice chosen = choose(s, p->ranks + at, p->best, p->chosen + at, q->rows, most);
    p->counts[query] = chosen.count;
    block->lengths[query] = chosen.rows < block->top ? (uint32_t)chosen.rows : block->top;
    block->probed[query] = chosen.rows;
    p->filled[query] = AS_THEY_COME;
    if (!q->all) {
        const xsmi_top list = xsmi_block_list(block, query);
        xsmi_top_start(&list);
        return;
    }
    bool large = false;
    for (uint32_t j = 0; chosen.rows > block->top && j < chosen.count; j++) {
        large |= is_large(s->cluster[chosen.clusters[j]].count, block->top);
    }
    if (large) {
        p->filled[query] = 0;
    } else {
        block->probed[query] = block->lengths[query]; /* rows that do not fit were not scored */
    }
}

/* Scores the rows of the chosen clusters; false if the call was cancelled. */
static bool probe_all(const search *q)
{
    uint32_t probes = list_askers(q);
    cursor upcoming = {.search = q, .end = probes};
    fetch(&upcoming, AHEAD / sizeof(float));
    for (uint32_t i = 0; i < probes; i++) {
        if (xsmi_poll(q->sphere->context)) {
            return false;
        }
        probe(q, i, &upcoming);
    }
    return true;
}

void xsmi_sphere_query(const xsmi_sphere *s, const xsm_index_block *block, uint64_t rows, bool all)
{
    xsmi_arena arena = {block->scratch, 0};
    search q = {s, block, divide_scratch(s, &arena), rows, all};
    rank_centres(&q);
    for (uint32_t i = 0; i < block->count; i++) {
        choose_for(&q, i);
    }
    spread_queries(&q);
    if (!probe_all(&q)) {
        return;
    }
    for (uint32_t i = 0; !all && i < block->count; i++) {
        xsmi_block_end_list(block, i);
    }
}

/* -- falling order on demand --------------------------------------------------------------------------------------- */

/* Rows that are scored for each row listed. Only the best of the rows of the best clusters are listed: rows of other
 * clusters may score higher than the rest. */
#define SCORED_PER_LISTED 4

/* What a query has listed. */
typedef struct place {
    uint64_t listed, scored; /* rows */
    uint32_t pooled;         /* rows that are scored and not listed */
} place;

typedef struct cursor_arrays {
    place *at;
    float *ranks;      /* [C] products with the centres, -INFINITY of clusters that were probed */
    float *scores;     /* [K + XSMI_QUAD_ROWS] of the pooled rows */
    uint32_t *classes; /* [K] */
} cursor_arrays;

static cursor_arrays divide_cursor(const xsmi_sphere *s, xsmi_arena *arena)
{
    cursor_arrays c;
    c.at = xsmi_arena_take(arena, 1, sizeof *c.at);
    c.ranks = xsmi_arena_take(arena, s->clusters, sizeof *c.ranks);
    c.scores = xsmi_arena_take(arena, (uint64_t)s->count + XSMI_QUAD_ROWS, sizeof *c.scores);
    c.classes = xsmi_arena_take(arena, s->count, sizeof *c.classes);
    return c;
}

size_t xsmi_sphere_cursor(const xsmi_sphere *s)
{
    xsmi_arena arena = {NULL, 0};
    (void)divide_cursor(s, &arena);
    return arena.used;
}

/* Adds the rows of a cluster to those of a query that are scored. */
static void pool_cluster(const search *q, uint32_t query, const xsmi_cluster *cluster, const cursor_arrays *c)
{
    const xsmi_sphere *s = q->sphere;
    const size_t size = xsmi_block_size(s), ahead = AHEAD / sizeof(float);
    const float *of = q->scratch.queries + (size_t)query * s->quads * XSMI_LINE;
    for (uint32_t first = 0; first < cluster->count; first += XSMI_QUAD_ROWS) {
        const uint32_t left = cluster->count - first, rows = XSMI_MIN(left, XSMI_QUAD_ROWS);
        const float *from = xsmi_cluster_block(s, cluster, first);
        if (first + XSMI_QUAD_ROWS < cluster->count) {
            const size_t rest = xsmi_whole_quads(left) / XSMI_QUAD_ROWS * size;
            for (size_t i = ahead; i < ahead + size && i < rest; i += XSMI_LINE) {
                xsmi_prefetch_line(from + i);
            }
        }
        s->kernels->score_quads(of, from, size, 1, s->quads, c->scores + c->at->pooled);
        memcpy(c->classes + c->at->pooled, xsmi_cluster_class(s, cluster, first), rows * sizeof *c->classes);
        c->at->pooled += rows;
    }
}

/* Lists the best of the pooled rows. */
static void list_pooled(const xsm_index_block *block, uint32_t query, const cursor_arrays *c)
{
    const uint32_t pooled = c->at->pooled, length = XSMI_MIN(block->top, pooled);
    xsmi_top list = xsmi_block_list(block, query);
    list.size = length;
    block->lengths[query] = length;
    if (length == 0) {
        return;
    }
    memcpy(list.score, c->scores, length * sizeof *list.score);
    memcpy(list.class_of, c->classes, length * sizeof *list.class_of);
    xsmi_top_heap(&list);
    for (uint32_t i = length; i < pooled; i++) {
        xsmi_block_offer(&list, c->scores[i], c->classes[i]);
    }
    xsmi_top_sort(&list);
}

/* Removes the pooled rows that are in a query's list. */
static void drop_listed(const xsm_index_block *block, uint32_t query, const cursor_arrays *c)
{
    const xsmi_top list = xsmi_block_list(block, query);
    const uint32_t length = block->lengths[query], pooled = c->at->pooled;
    if (length == 0) {
        return;
    }
    const float least = list.score[length - 1];
    const uint32_t last = list.class_of[length - 1];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < pooled; i++) {
        const float z = c->scores[i];
        const uint32_t k = c->classes[i];
        c->scores[kept] = z;
        c->classes[kept] = k;
        kept += z < least || (z == least && k > last);
    }
    c->at->pooled = kept;
    c->at->listed += length;
}

void xsmi_sphere_next(const xsmi_sphere *s, const xsm_index_block *block, uint64_t rows)
{
    xsmi_arena arena = {block->scratch, 0};
    search q = {s, block, divide_scratch(s, &arena), rows, false};
    const search_arrays *p = &q.scratch;
    if (block->begin) {
        rank_centres(&q);
    }
    spread_queries(&q);
    for (uint32_t i = 0; i < block->count; i++) {
        xsmi_arena own = xsmi_block_cursor(block, i);
        const cursor_arrays c = divide_cursor(s, &own);
        if (block->begin) {
            *c.at = (place){0};
            memcpy(c.ranks, p->ranks + (size_t)i * s->clusters, s->clusters * sizeof *c.ranks);
        }
        const uint64_t reached = SCORED_PER_LISTED * (c.at->listed + block->top), wanted = XSMI_MAX(rows, reached);
        block->probed[i] = 0;
        if (c.at->scored < wanted) {
            const choice chosen = choose(s, c.ranks, p->best, p->chosen, wanted - c.at->scored, s->count);
            for (uint32_t j = 0; j < chosen.count; j++) {
                if (xsmi_poll(s->context)) {
                    return;
                }
                pool_cluster(&q, i, &s->cluster[chosen.clusters[j]], &c);
            }
            c.at->scored += chosen.rows;
            block->probed[i] = chosen.rows;
        }
        list_pooled(block, i, &c);
        drop_listed(block, i, &c);
    }
}
