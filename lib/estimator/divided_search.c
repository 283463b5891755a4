/*
 * Searches on a divided model: the ranks search the indexes together, and all get the lists of one process.
 *
 * A table's search() asks for scores of any classes while it runs, on threads that cannot wait for other ranks. So it
 * is run again: a request that no one has answered yet gets zeros, and is kept; the ranks exchange the scores that all
 * examples lack, and what was computed without them is computed anew. All ranks ask for the same, as they know the
 * same. The scores of labels are exchanged before the first run. Lists that grow are empty at first, and grow likewise.
 */
#include "estimator/divided.h"
#include "estimator/gathered.h"
#include "estimator/search.h"

#include "base/grow.h"

#include <math.h>
#include <string.h>

/* Classes of the examples whose lists grow together, if all lists had all: 8 bytes each, on all ranks together. */
#define LISTED_TOGETHER ((uint64_t)1 << 22)

/* The classes whose scores an example has asked for, in the order in which it did. */
typedef struct asked {
    xsm_context *context;
    uint32_t *classes; /* [capacity] */
    float *shares;     /* [capacity][blocks] of the first `known` */
    size_t count, known, class_capacity, share_capacity;
    size_t at; /* of this run, the next */
    bool missing, short_of_memory, done;
} asked;

typedef struct divided_job {
    xsmi_query_job queries;
    asked *asked;           /* [examples] */
    xsmi_growing growing;   /* lists that grow; without them: */
    float *scores;          /* [threads][blocks][candidates] those that search() may overwrite */
    xsmi_outcome *outcomes; /* [examples] */
    size_t examples;        /* at most */
    size_t *sizes, *next;   /* [ranks] */
    unsigned char *mine, *all;
    size_t mine_bytes, all_bytes;
} divided_job;

/* -- memory -------------------------------------------------------------------------------------------------------- */

/* Entries of the lists of an example; 0 where they grow. */
static size_t entries_of(const xsmi_searcher *s)
{
    return s->most > 0 ? 0 : (size_t)s->blocks * s->candidates;
}

/* Examples that are searched together, at most. */
static uint32_t together(const xsmi_searcher *s)
{
    const uint64_t fit = LISTED_TOGETHER / ((uint64_t)s->blocks * s->classes);
    const uint64_t most = s->most == 0 ? XSM_INDEX_QUERIES : XSMI_MAX(fit, UINT64_C(1));
    return (uint32_t)XSMI_MIN(most, XSM_INDEX_QUERIES);
}

static xsm_status job_new(const xsmi_pass *p, divided_job *j, xsm_error *err)
{
    xsmi_searcher *s = p->estimator->search.searcher;
    xsm_context *ctx = s->context;
    const uint32_t ranks = xsmi_ranks(s->whole->context);
    const size_t n = s->results.capacity, entries = entries_of(s);
    *j = (divided_job){.queries = {.pass = p, .searcher = s}, .examples = n};
    j->scores = xsmi_allocate(ctx, xsmi_context_threads(ctx), entries * sizeof *j->scores);
    j->asked = xsmi_allocate_zero(ctx, n, sizeof *j->asked);
    j->outcomes = xsmi_allocate(ctx, n, sizeof *j->outcomes);
    j->sizes = xsmi_allocate(ctx, ranks, sizeof *j->sizes);
    j->next = xsmi_allocate(ctx, ranks, sizeof *j->next);
    if (!j->scores || !j->asked || !j->outcomes || !j->sizes || !j->next) {
        return xsmi_fail_memory(err, n * sizeof *j->asked + entries * sizeof *j->scores, "what a search finds");
    }
    return xsmi_growing_new(s, XSMI_MIN(together(s), n), &j->growing, err);
}

static void job_free(divided_job *j)
{
    const xsmi_searcher *s = j->queries.searcher;
    xsm_context *ctx = s->context;
    const uint32_t ranks = xsmi_ranks(s->whole->context);
    const size_t n = j->examples, entries = entries_of(s);
    for (size_t i = 0; j->asked && i < n; i++) {
        xsmi_release(ctx, j->asked[i].classes, j->asked[i].class_capacity, sizeof *j->asked[i].classes);
        xsmi_release(ctx, j->asked[i].shares, j->asked[i].share_capacity, sizeof *j->asked[i].shares);
    }
    xsmi_growing_free(&j->growing);
    xsmi_release(ctx, j->scores, xsmi_context_threads(ctx), entries * sizeof *j->scores);
    xsmi_release(ctx, j->asked, n, sizeof *j->asked);
    xsmi_release(ctx, j->outcomes, n, sizeof *j->outcomes);
    xsmi_release(ctx, j->sizes, ranks, sizeof *j->sizes);
    xsmi_release(ctx, j->next, ranks, sizeof *j->next);
    xsmi_release(ctx, j->mine, j->mine_bytes, 1);
    xsmi_release(ctx, j->all, j->all_bytes, 1);
}

/* Room for the blocks of all ranks, of j->sizes bytes. */
static xsm_status reserve_blocks(divided_job *j, xsm_error *err)
{
    const xsmi_searcher *s = j->queries.searcher;
    const xsm_context *group = s->whole->context;
    size_t all = 0;
    for (uint32_t r = 0; r < xsmi_ranks(group); r++) {
        all += j->sizes[r];
    }
    return xsmi_reserve(s->context, &j->mine, &j->mine_bytes, j->sizes[xsmi_rank(group)], 1) &&
                   xsmi_reserve(s->context, &j->all, &j->all_bytes, all, 1)
               ? XSM_OK
               : xsmi_fail_memory(err, all, "what a search finds");
}

/* -- lists --------------------------------------------------------------------------------------------------------- */

/* Adds classes to those that an example has asked for. False without memory. */
static bool ask(asked *a, const uint32_t *classes, size_t count, uint32_t blocks)
{
    const size_t total = a->count + count;
    const bool fits =
        XSMI_GROW(a->context, a->classes, a->class_capacity, total, "what a search asks for", NULL) == XSM_OK &&
        XSMI_GROW(a->context, a->shares, a->share_capacity, total * blocks, "what a search asks for", NULL) == XSM_OK;
    if (fits) {
        memcpy(a->classes + a->count, classes, count * sizeof *classes);
        a->count = total;
    }
    return fits;
}

/* Asks for the scores of the labels of an example. */
static void begin_example(void *state, size_t index, uint32_t thread)
{
    const divided_job *j = state;
    const xsmi_query_job *q = &j->queries;
    const xsm_example *example = &q->pass->gradient->example[q->first + index];
    asked *a = &j->asked[index];
    (void)thread;
    a->context = q->searcher->context;
    a->count = a->known = 0;
    a->done = false;
    xsmi_growing_begin(&j->growing, index);
    a->short_of_memory = !ask(a, example->labels, (size_t)example->label_count, q->searcher->blocks);
}

static xsm_status check_memory(const divided_job *j, xsm_status status, xsm_error *err)
{
    for (size_t i = 0; i < j->queries.count && status == XSM_OK; i++) {
        status = j->asked[i].short_of_memory
                     ? xsmi_fail_memory(err, j->asked[i].count * sizeof(float), "the scores of a search")
                     : status;
    }
    return status;
}

static void make_query(void *state, size_t index, uint32_t thread)
{
    const divided_job *j = state;
    const xsmi_searcher *s = j->queries.searcher;
    const size_t example = index / s->blocks, of = index % s->blocks;
    (void)thread;
    xsmi_query_make(&j->queries, &s->indexes[of], (uint32_t)example,
                    s->results.queries + (of * s->results.capacity + example) * s->query_stride);
}

/* Makes the queries and, where lists do not grow, searches all blocks. `status` is this rank's so far. */
static xsm_status find_lists(divided_job *j, xsm_status status, xsm_error *err)
{
    const xsmi_query_job *q = &j->queries;
    xsmi_searcher *s = q->searcher;
    uint32_t lengths[XSM_INDEX_QUERIES];
    uint64_t probed[XSM_INDEX_QUERIES];
    status = status == XSM_OK ? xsmi_run(s->context, make_query, j, (size_t)q->count * s->blocks, err) : status;
    if (s->most > 0) {
        return xsmi_agree(s->whole->context, status, err);
    }
    for (size_t of = 0; of < s->blocks; of++) {
        const xsm_index_block block = {
            .size = sizeof block,
            .queries = s->results.queries + of * s->results.capacity * s->query_stride,
            .stride = s->query_stride,
            .count = q->count,
            .top = s->candidates,
            .threshold = -INFINITY,
            .any_order = 1,
            .classes = s->results.found + of * s->candidates,
            .scores = s->results.score + of * s->candidates,
            .lengths = lengths,
            .probed = probed,
            .list_stride = entries_of(s),
        };
        XSMI_TRY(xsmi_index_find(s->indexes[of].index, &block, &s->results.desk, status, err));
        for (size_t i = 0; i < q->count; i++) {
            s->results.length[i * s->blocks + of] = lengths[i];
        }
    }
    return XSM_OK;
}

/* -- scores that are asked for ------------------------------------------------------------------------------------- */

static void share_example(void *state, size_t index, uint32_t thread)
{
    const divided_job *j = state;
    const xsmi_searcher *s = j->queries.searcher;
    const asked *a = &j->asked[index];
    (void)thread;
    for (size_t c = a->known; c < a->count; c++) {
        if (xsmi_divided_has(s->whole, a->classes[c])) {
            xsmi_query_shares(s, index, a->classes[c] - s->whole->part.first, a->shares + c * s->blocks);
        }
    }
}

/* Gives all ranks the scores that examples lack. `status` is this rank's so far. */
static xsm_status exchange_shares(divided_job *j, xsm_status status, xsm_error *err)
{
    const xsmi_searcher *s = j->queries.searcher;
    xsm_context *group = s->whole->context;
    const uint32_t ranks = xsmi_ranks(group), rank = xsmi_rank(group);
    const size_t each = s->blocks * sizeof(float);
    status = status == XSM_OK ? xsmi_run(s->context, share_example, j, j->queries.count, err) : status;
    memset(j->sizes, 0, ranks * sizeof *j->sizes);
    for (size_t i = 0; i < j->queries.count && status == XSM_OK; i++) {
        for (size_t c = j->asked[i].known; c < j->asked[i].count; c++) {
            j->sizes[xsmi_part_of(s->classes, ranks, j->asked[i].classes[c])] += each;
        }
    }
    status = status == XSM_OK ? reserve_blocks(j, err) : status;
    XSMI_TRY(xsmi_agree(group, status, err));
    unsigned char *to = j->mine;
    for (size_t i = 0; i < j->queries.count; i++) {
        const asked *a = &j->asked[i];
        for (size_t c = a->known; c < a->count; c++) {
            if (xsmi_part_of(s->classes, ranks, a->classes[c]) == rank) {
                memcpy(to, a->shares + c * s->blocks, each);
                to += each;
            }
        }
    }
    XSMI_TRY(xsmi_exchange_blocks(group, j->mine, j->all, j->sizes, err));
    size_t at = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        j->next[r] = at;
        at += j->sizes[r];
    }
    for (size_t i = 0; i < j->queries.count; i++) {
        asked *a = &j->asked[i];
        for (; a->known < a->count; a->known++) {
            size_t *next = &j->next[xsmi_part_of(s->classes, ranks, a->classes[a->known])];
            memcpy(a->shares + a->known * s->blocks, j->all + *next, each);
            *next += each;
        }
    }
    return XSM_OK;
}

/* An example that search() runs on. */
typedef struct running {
    const divided_job *job;
    asked *asked;
    size_t index;
    xsmi_growing_lists lists; /* where lists grow */
} running;

/* xsm_search_block.score(): what is known, or zeros, in which case the run is repeated. */
static void score_asked(const xsm_search_block *block, uint64_t example, const uint32_t *classes, uint32_t count,
                        float *shares)
{
    asked *a = ((const running *)block->scorer)->asked;
    const size_t first = a->at, blocks = block->blocks;
    (void)example;
    a->at += count;
    if (!a->missing) {
        size_t same = 0;
        while (same < count && first + same < a->known && a->classes[first + same] == classes[same]) {
            same++;
        }
        if (same == count) {
            memcpy(shares, a->shares + first * blocks, count * blocks * sizeof *shares);
            return;
        }
        a->missing = true;
        a->count = a->known = first + same;
        a->short_of_memory = !ask(a, classes + same, count - same, block->blocks);
    }
    memset(shares, 0, count * blocks * sizeof *shares);
}

/* xsm_search_block.next(): the same, or 0. */
static uint32_t next_known(const xsm_search_block *block, uint64_t example, uint32_t j, uint32_t count)
{
    const running *of = block->scorer;
    uint32_t found = 0;
    (void)example;
    if (!of->asked->missing) {
        of->asked->missing = !xsmi_growing_next(&of->job->growing, of->index, &of->lists, j, count, &found);
    }
    return found;
}

/* The lists of an example that do not grow. */
static void show_lists(const running *of, uint32_t thread, xsm_search_block *block)
{
    const xsmi_searcher *s = of->job->queries.searcher;
    const size_t entries = entries_of(s);
    float *scores = of->job->scores + thread * entries;
    memcpy(scores, s->results.score + of->index * entries, entries * sizeof *scores);
    block->found = s->results.found + of->index * entries;
    block->found_length = s->results.length + of->index * s->blocks;
    block->found_score = scores;
}

/* Those that grow, empty. */
static void begin_lists(running *of, uint32_t thread, xsm_search_block *block)
{
    const xsmi_searcher *s = of->job->queries.searcher;
    xsmi_arena arena = {s->results.block + thread * s->results.block_each, 0};
    of->lists = xsmi_searcher_divide(s, &arena);
    memset(of->lists.length, 0, s->blocks * sizeof *of->lists.length);
    block->candidates = s->most;
    block->found = of->lists.found;
    block->found_length = of->lists.length;
    block->found_score = of->lists.score;
    block->next = next_known;
}

static void run_example(void *state, size_t index, uint32_t thread)
{
    const divided_job *j = state;
    const xsmi_pass *p = j->queries.pass;
    asked *a = &j->asked[index];
    if (a->done) {
        return;
    }
    a->at = 0;
    a->missing = false;
    xsm_search_block block = xsmi_search_block_of(p, j->queries.first + index, thread);
    running of = {.job = j, .asked = a, .index = index};
    if (j->growing.examples > 0) {
        begin_lists(&of, thread, &block);
    } else {
        show_lists(&of, thread, &block);
    }
    block.score = score_asked;
    block.scorer = &of;
    p->estimator->ops.search(p->estimator->state, &block);
    if (!a->missing) {
        a->done = true;
        xsmi_search_finish(p, &block, &j->outcomes[index]);
    }
}

/* Some examples. What a rank fails in is agreed on next, whatever it and the others then do. */
static xsm_status search_some(divided_job *j, xsm_status status, xsm_error *err)
{
    const xsmi_query_job *q = &j->queries;
    xsm_context *ctx = q->searcher->context;
    if (status == XSM_OK) {
        xsmi_pass_list_examples(q->pass, q->first, q->count);
    }
    XSMI_TRY(find_lists(j, status, err));
    status = check_memory(j, xsmi_run(ctx, begin_example, j, q->count, err), err);
    bool missing = true;
    while (missing) {
        XSMI_TRY(exchange_shares(j, status, err));
        XSMI_TRY(xsmi_growing_extend(&j->growing, q->count, err));
        status = check_memory(j, xsmi_run(ctx, run_example, j, q->count, err), err);
        missing = false;
        for (size_t i = 0; i < q->count; i++) {
            missing |= !j->asked[i].done;
        }
    }
    return xsmi_agree(q->searcher->whole->context, status, err);
}

/* -- the gradient of the rows -------------------------------------------------------------------------------------- */

static void backward_some(void *state, size_t index, uint32_t thread)
{
    const xsmi_pass *p = state;
    const uint64_t first = p->first + index * XSMI_EXAMPLE_CHUNK, rest = p->end - first;
    const bool finite = xsmi_pass_backward(p, first, XSMI_MIN(rest, XSMI_EXAMPLE_CHUNK), thread);
    p->gradient->work.outcomes[index] = (xsmi_outcome){.finite = finite};
}

/* With the weights of the listed classes from all ranks, which divide the examples. */
static xsm_status backward(const xsmi_pass *given, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_pass p = *given;
    XSMI_TRY(xsmi_gather_weights(&p, true, err));
    p.first = 0;
    p.end = p.batch->count;
    (void)xsmi_gather_range(&p);
    const size_t jobs = (size_t)((p.end - p.first + XSMI_EXAMPLE_CHUNK - 1) / XSMI_EXAMPLE_CHUNK);
    xsm_status status = xsmi_gradient_reserve_outcomes(p.gradient, jobs, err);
    status = status == XSM_OK ? xsmi_run(p.estimator->context, backward_some, &p, jobs, err) : status;
    for (size_t i = 0; i < jobs && status == XSM_OK; i++) {
        xsmi_outcome_join(outcome, &p.gradient->work.outcomes[i]);
    }
    return xsmi_gather_results(&p, status, outcome, err);
}

xsm_status xsmi_divided_search(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    const uint64_t n = p->batch->count;
    divided_job j;
    xsm_status status = job_new(p, &j, err);
    status = status == XSM_OK && p->input ? xsmi_gather_reserve(p, err) : status;
    xsmi_query_job *q = &j.queries;
    do {
        q->count = (uint32_t)XSMI_MIN(n - q->first, together(q->searcher));
        status = search_some(&j, status, err);
        for (uint32_t i = 0; i < q->count && status == XSM_OK; i++) {
            xsmi_outcome_join(outcome, &j.outcomes[i]);
        }
        q->first += q->count;
    } while (status == XSM_OK && q->first < n);
    job_free(&j);
    XSMI_TRY(status);
    return p->input && outcome->finite ? backward(p, outcome, err) : XSM_OK;
}
