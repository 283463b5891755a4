/*
 * Searches in clusters whose rows are divided among ranks. Every rank chooses the same clusters for a query, and scores
 * the rows that it has. Where a list has the best rows, lists are merged. Where it takes rows as they come, all know
 * which classes those are, and in which order one process would meet them; so only their scores are exchanged.
 */
#include "index/spherical_search.h"

#include "base/activity.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/share.h"
#include "index/block.h"
#include "model/divided.h"

#include <string.h>

/* Scores that are exchanged together, but for a query that has more. */
#define ENTRIES ((size_t)1 << 22)

/* A block of queries whose lists take rows as they come. */
typedef struct find_job {
    const xsmi_sphere *sphere;
    const xsm_index_block *block;
    uint32_t pieces, ranks, rank;
    uint32_t from, to;            /* the queries of this round */
    xsmi_sphere_search *searches; /* [pieces] */
    xsm_index_block *blocks;      /* [pieces] */
    unsigned char *scratch;       /* [pieces][scratch_each] */
    size_t scratch_each;
    size_t *starts; /* [queries] in `entries` */
    size_t *at;     /* [queries][ranks] how many entries of a query are a rank's; then where they are among all */
    size_t *sizes;  /* [ranks] */
    uint64_t *keys; /* [threads][C] */
    float *entries, *mine, *all;
} find_job;

static void divide_work(find_job *j, xsmi_arena *arena)
{
    const size_t threads = xsmi_context_threads(j->sphere->context), n = j->block->count;
    j->scratch_each = xsmi_sphere_scratch(j->sphere); /* a multiple of the alignment */
    j->searches = xsmi_arena_take(arena, j->pieces, sizeof *j->searches);
    j->blocks = xsmi_arena_take(arena, j->pieces, sizeof *j->blocks);
    j->starts = xsmi_arena_take(arena, n, sizeof *j->starts);
    j->at = xsmi_arena_take(arena, n * j->ranks, sizeof *j->at);
    j->sizes = xsmi_arena_take(arena, j->ranks, sizeof *j->sizes);
    j->keys = xsmi_arena_take(arena, threads * j->sphere->clusters, sizeof *j->keys);
    j->scratch = xsmi_arena_take(arena, j->pieces, j->scratch_each);
}

/* The search that has a query, and the query's number in it. */
static const xsmi_sphere_search *search_of(const find_job *j, uint32_t query, uint32_t *number)
{
    const uint32_t piece = xsmi_share_of(j->block->count, j->pieces, query);
    *number = query - xsmi_index_piece(j->block->count, j->pieces, piece);
    return &j->searches[piece];
}

static void choose_piece(void *state, size_t index, uint32_t thread)
{
    const find_job *j = state;
    xsmi_sphere_search *q = &j->searches[index];
    const uint32_t n = j->block->count, first = xsmi_index_piece(n, j->pieces, index);
    (void)thread;
    j->blocks[index] = xsmi_index_part_of_block(j->block, first, xsmi_index_piece(n, j->pieces, index + 1));
    q->block = &j->blocks[index];
    xsmi_arena arena = {j->scratch + index * j->scratch_each, 0};
    q->scratch = xsmi_sphere_divide_scratch(j->sphere, &arena);
    if (xsmi_poll(j->sphere->context)) {
        return;
    }
    xsmi_sphere_rank_centres(q);
    for (uint32_t i = 0; i < q->block->count; i++) {
        xsmi_sphere_choose_for(q, i);
    }
    xsmi_sphere_spread_queries(q);
}

static void score_piece(void *state, size_t index, uint32_t thread)
{
    const find_job *j = state;
    xsmi_sphere_search *q = &j->searches[index];
    const uint32_t n = j->block->count, first = xsmi_index_piece(n, j->pieces, index);
    const uint32_t end = xsmi_index_piece(n, j->pieces, index + 1);
    (void)thread;
    q->from = XSMI_MAX(first, j->from) - first;
    q->to = end <= j->from ? q->from : XSMI_MIN(end, j->to) - first;
    q->entries = j->entries;
    q->starts = j->starts + first;
    if (first < j->to && end > j->from) {
        (void)xsmi_sphere_probe(q);
    }
}

/* An entry of a query: one of the rows that it probes. */
typedef struct entry {
    size_t at; /* in the query's entries */
    uint32_t class, rank;
} entry;

/* The statement after it is run with each entry of a query in turn, in `e`. */
#define FOR_ENTRIES(j, query, e) for (walk w = begin_walk((j), (query)); next_entry((j), &w, &(e));)

typedef struct walk {
    const uint32_t *chosen;
    const xsmi_sphere_list *list;
    uint32_t cluster, clusters, position;
    uint64_t at, most;
} walk;

static walk begin_walk(const find_job *j, uint32_t query)
{
    uint32_t number;
    const xsmi_sphere_search *q = search_of(j, query, &number);
    return (walk){.chosen = q->scratch.chosen + (size_t)number * j->sphere->clusters,
                  .clusters = q->scratch.counts[number],
                  .most = j->block->probed[query]};
}

static inline bool next_entry(const find_job *j, walk *w, entry *e)
{
    while (!w->list || w->position == w->list->count) {
        if (w->cluster == w->clusters) {
            return false;
        }
        w->list = &j->sphere->list[w->chosen[w->cluster++]];
        w->position = 0;
    }
    if (w->at == w->most) {
        return false;
    }
    e->at = (size_t)w->at++;
    e->class = w->list->classes[w->position++];
    e->rank = j->sphere->owner[e->class / XSMI_RUN_CLASSES];
    return true;
}

static void count_entries(void *state, size_t index, uint32_t thread)
{
    const find_job *j = state;
    const uint32_t query = j->from + (uint32_t)index;
    size_t *counts = j->at + (size_t)query * j->ranks;
    entry e;
    (void)thread;
    memset(counts, 0, j->ranks * sizeof *counts);
    FOR_ENTRIES(j, query, e)
    {
        counts[e.rank]++;
    }
}

/* Copies the scores of this rank to its block. `at` says where a query's begin in the blocks of all ranks; this rank's
 * block begins there with those of the round's first query. */
static void pack_entries(void *state, size_t index, uint32_t thread)
{
    const find_job *j = state;
    const uint32_t query = j->from + (uint32_t)index;
    const float *scores = j->entries + j->starts[query];
    const size_t *at = j->at + j->rank; /* [queries], `ranks` apart */
    float *to = j->mine + (at[(size_t)query * j->ranks] - at[(size_t)j->from * j->ranks]);
    entry e;
    (void)thread;
    FOR_ENTRIES(j, query, e)
    {
        if (e.rank == j->rank) {
            *to++ = scores[e.at];
        }
    }
}

static int by_cluster(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The best of all rows that a query probes, in the order in which one process keeps them: clusters by number. */
static void keep_best(const find_job *j, uint32_t query, const float *scores, uint64_t *keys)
{
    const xsmi_sphere *s = j->sphere;
    const xsmi_top top = xsmi_block_list(j->block, query);
    const walk w = begin_walk(j, query);
    uint32_t begin = 0, filled = 0;
    for (uint32_t c = 0; c < w.clusters; c++) {
        keys[c] = (uint64_t)w.chosen[c] << 32 | begin;
        begin += s->list[w.chosen[c]].count;
    }
    xsmi_heap_sort(keys, w.clusters, sizeof *keys, by_cluster);
    for (uint32_t c = 0; c < w.clusters; c++) {
        const xsmi_sphere_list *list = &s->list[keys[c] >> 32];
        const float *of = scores + (uint32_t)keys[c];
        for (uint32_t i = 0; i < list->count; i++) {
            if (filled == top.size) {
                xsmi_top_offer_any(&top, of[i], list->classes[i]);
                continue;
            }
            top.score[filled] = of[i];
            top.class_of[filled++] = list->classes[i];
            if (filled == top.size) {
                xsmi_top_heap(&top);
            }
        }
    }
}

static void fill_list(void *state, size_t index, uint32_t thread)
{
    const find_job *j = state;
    const uint32_t query = j->from + (uint32_t)index;
    size_t *at = j->at + (size_t)query * j->ranks;
    float *scores = j->entries + j->starts[query], *to = j->block->scores + query * j->block->list_stride;
    uint32_t *classes = j->block->classes + query * j->block->list_stride, number;
    const bool best = search_of(j, query, &number)->scratch.filled[number] != XSMI_AS_THEY_COME;
    entry e;
    FOR_ENTRIES(j, query, e)
    {
        scores[e.at] = j->all[at[e.rank]++];
        if (!best) {
            to[e.at] = scores[e.at];
            classes[e.at] = e.class;
        }
    }
    if (best) {
        keep_best(j, query, scores, j->keys + (size_t)thread * j->sphere->clusters);
    }
}

/* -- a round ------------------------------------------------------------------------------------------------------- */

/* The queries from j->from on whose entries are exchanged together; returns the number of these. */
static size_t plan_round(find_job *j)
{
    size_t total = 0;
    for (j->to = j->from; j->to < j->block->count; j->to++) {
        const size_t more = (size_t)j->block->probed[j->to];
        if (j->to > j->from && more > ENTRIES - XSMI_MIN(total, ENTRIES)) {
            break;
        }
        j->starts[j->to] = total;
        total += more;
    }
    return total;
}

/* Scores this rank's rows of a round. */
static xsm_status score_round(find_job *j, xsmi_index_desk *desk, xsm_error *err)
{
    xsm_context *ctx = j->sphere->context;
    const size_t total = plan_round(j);
    if (!xsmi_reserve(ctx, &desk->entries, &desk->entry_bytes, total + XSMI_QUAD_ROWS, sizeof(float)) ||
        !xsmi_reserve(ctx, &desk->all, &desk->all_bytes, total * sizeof(float), 1)) {
        return xsmi_fail_memory(err, total * sizeof(float), "the scores of a search");
    }
    j->entries = (float *)(void *)desk->entries;
    j->all = (float *)(void *)desk->all;
    XSMI_TRY(xsmi_run(ctx, score_piece, j, j->pieces, err));
    XSMI_TRY(xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK);
    XSMI_TRY(xsmi_run(ctx, count_entries, j, j->to - j->from, err));
    size_t next = 0;
    for (uint32_t r = 0; r < j->ranks; r++) {
        const size_t begin = next;
        for (uint32_t i = j->from; i < j->to; i++) {
            size_t *at = &j->at[(size_t)i * j->ranks + r], count = *at;
            *at = next;
            next += count;
        }
        j->sizes[r] = (next - begin) * sizeof(float);
    }
    const size_t bytes = XSMI_MAX(j->sizes[j->rank], sizeof(float)); /* not NULL without scores */
    if (!xsmi_reserve(ctx, &desk->mine, &desk->mine_bytes, bytes, 1)) {
        return xsmi_fail_memory(err, bytes, "the scores of a search");
    }
    j->mine = (float *)(void *)desk->mine;
    return xsmi_run(ctx, pack_entries, j, j->to - j->from, err);
}

/* Chooses the clusters of all queries. */
static xsm_status choose_all(find_job *j, xsmi_index_desk *desk, uint64_t rows, xsm_error *err)
{
    xsm_context *ctx = j->sphere->context;
    xsmi_arena counted = {NULL, 0};
    divide_work(j, &counted);
    if (counted.used == SIZE_MAX || !xsmi_reserve(ctx, &desk->work, &desk->work_bytes, counted.used, 1)) {
        return xsmi_fail_memory(err, counted.used, "a search");
    }
    xsmi_arena arena = {desk->work, 0};
    divide_work(j, &arena);
    for (uint32_t i = 0; i < j->pieces; i++) {
        j->searches[i] = (xsmi_sphere_search){.sphere = j->sphere, .rows = rows, .all = true};
    }
    XSMI_TRY(xsmi_run(ctx, choose_piece, j, j->pieces, err));
    return xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

static xsm_status find_all(const xsmi_sphere *s, const xsm_index_block *block, uint64_t rows, xsmi_index_desk *desk,
                           xsm_status status, xsm_error *err)
{
    xsm_context *group = s->part.group;
    find_job j = {.sphere = s, .block = block, .ranks = xsmi_ranks(group), .rank = xsmi_rank(group)};
    j.pieces = xsmi_index_pieces(s->context, block->count);
    status = status == XSM_OK ? choose_all(&j, desk, rows, err) : status;
    do {
        status = status == XSM_OK ? score_round(&j, desk, err) : status;
        XSMI_TRY(xsmi_agree(group, status, err));
        XSMI_TRY(xsmi_exchange_blocks(group, j.mine, j.all, j.sizes, err));
        xsmi_run_surely(s->context, fill_list, &j, j.to - j.from); /* nothing is left that a rank alone could fail in */
        j.from = j.to;
    } while (j.from < block->count);
    return XSM_OK;
}

/* -- searches ------------------------------------------------------------------------------------------------------ */

/* What lists of the best are made with. */
typedef struct best_search {
    const xsmi_sphere *sphere;
    uint64_t rows;
} best_search;

static xsm_status list_best(const void *state, const xsm_index_block *block, xsm_error *err)
{
    const best_search *of = state;
    xsm_context *ctx = of->sphere->context;
    xsmi_sphere_query(of->sphere, block, of->rows, false);
    return xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

xsm_status xsmi_sphere_find(const xsmi_sphere *s, const xsm_index_block *block, uint64_t rows, bool all,
                            xsmi_index_desk *desk, xsm_status status, xsm_error *err)
{
    if (all) {
        return find_all(s, block, rows, desk, status, err);
    }
    const best_search of = {s, rows};
    const xsmi_index_lister lister = {
        .query = list_best,
        .state = &of,
        .scratch = xsmi_sphere_scratch(s),
        .rows = s->count,
        .part = &s->part,
        .context = s->context,
    };
    return xsmi_index_merge(&lister, block, desk, status, err);
}
