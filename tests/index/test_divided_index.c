/*
 * Indexes over a model whose classes are divided among ranks: what they find, in order and in any order, after updates
 * and when they are built anew, what is known of them and what is saved, also in files, has the bits of one process, on
 * any number of ranks and threads; a rank that fails ends the call on all; other tables refuse.
 */
#define XSM_EXPERIMENTAL
#include "training.h"

#include "comm.h"
#include "index/index.h"
#include "model/divided.h"

#include <xsoftmax/ext/index.h>
#include <xsoftmax/ext/search.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Five class runs, the last of a few classes; queries of more than one block. */
enum { FEATURES = 6, CLASSES = 4 * XSMI_RUN_CLASSES + 5, QUERIES = 70, TOP = 12, CHANGED = 900 };

typedef struct plan {
    const char *index, *options;
    bool bias, zeros;           /* zeros: all rows are equal at first */
    uint32_t rebuilds, changed; /* at least; rows in an update */
    bool brief;                 /* few searches and updates */
} plan;

static const plan plans[] = {
    {"spherical", "clusters=300", true, false, 0, 900, false},
    {"spherical", "clusters=150 probe=900 drift=0.02", false, false, 2, 900, false},
    {"spherical", "clusters=6 samples=500", true, false, 0, 900, false}, /* large beside any list */
    {"spherical", "clusters=80", true, true, 1, 900, false},             /* empty clusters; then rows that are longer */
    {"exact", "", true, true, 0, 900, false},
};

/* What a rank has found. */
typedef struct findings {
    unsigned char *bytes;
    size_t count, capacity;
} findings;

typedef struct work {
    const plan *of;
    char path[256]; /* a file of an index */
    findings found[TEST_RANKS];
    size_t k; /* the allocation of rank 1 that fails */
    bool reached;
    bool again[TEST_RANKS];  /* an update that failed was made once more */
    size_t done[TEST_RANKS]; /* searches */
} work;

static void put(findings *f, const void *bytes, size_t count)
{
    if (f->count + count > f->capacity) {
        f->capacity = 2 * (f->count + count);
        f->bytes = realloc(f->bytes, f->capacity);
    }
    memcpy(f->bytes + f->count, bytes, count);
    f->count += count;
}

static float number(uint64_t seed)
{
    return (float)(2 * test_uniform(&seed) - 1);
}

/* Weights of some classes in their version number `version`: rows near some points, of which a few leave theirs. */
static void set_rows(xsm_model *m, uint32_t version, const uint32_t *classes, uint32_t count)
{
    xsm_model *own = m->part.own ? m->part.own : m;
    for (uint32_t j = 0; j < count; j++) {
        const uint32_t class = classes ? classes[j] : j, k = class - m->part.first;
        if (k >= own->classes) {
            continue;
        }
        const uint32_t point = class % 50 + (class * version) % 9;
        for (uint32_t f = 0; f < FEATURES; f++) {
            own->weight[k * own->stride + f] =
                number(1000 * point + f) + 0.2F * number(UINT64_C(77) * class + 1000003 * f + version);
        }
        if (own->bias) {
            own->bias[k] = 0.3F * number(class * 5 + version);
        }
    }
}

static xsm_status make(xsm_context *ctx, const plan *of, xsm_index **out, xsm_error *err)
{
    XSMI_TRY(xsm_index_new(ctx, of->index, out, err));
    char copy[128];
    snprintf(copy, sizeof copy, "%s", of->options);
    for (char *save = NULL, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        XSMI_TRY(xsm_index_set(*out, word, equals + 1, err));
    }
    return XSM_OK;
}

/* A search in order, with a threshold or without. */
static xsm_status query(const xsm_index *x, const float *queries, bool threshold, findings *f, xsm_error *err)
{
    static _Thread_local uint32_t classes[QUERIES * TOP], lengths[QUERIES];
    static _Thread_local float scores[QUERIES * TOP];
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    s.queries = queries;
    s.stride = 16;
    s.count = QUERIES;
    s.top = TOP;
    s.has_threshold = threshold;
    s.threshold = 1;
    s.classes = classes;
    s.scores = scores;
    s.lengths = lengths;
    XSMI_TRY(xsm_index_query(x, &s, err));
    put(f, classes, sizeof classes);
    put(f, scores, sizeof scores);
    put(f, lengths, sizeof lengths);
    put(f, &s.probed, sizeof s.probed);
    return XSM_OK;
}

/* A block in any order, as estimators search. */
static xsm_status block_of(const xsm_index *x, const float *queries, uint32_t count, uint32_t top, findings *f,
                           xsm_error *err)
{
    xsm_context *ctx = x->context;
    uint32_t lengths[XSM_INDEX_QUERIES];
    uint64_t probed[XSM_INDEX_QUERIES];
    const size_t entries = (size_t)count * top, scratch = xsmi_index_scratch(x, top);
    uint32_t *classes = calloc(entries, sizeof *classes);
    float *scores = calloc(entries, sizeof *scores);
    void *memory = xsmi_index_is_divided(x) ? NULL : aligned_alloc(64, scratch);
    xsmi_index_desk desk = {.work = NULL};
    const xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = 16,
        .count = count,
        .top = top,
        .threshold = -INFINITY,
        .any_order = 1,
        .classes = classes,
        .scores = scores,
        .lengths = lengths,
        .probed = probed,
        .scratch = memory,
        .list_stride = top,
    };
    const xsm_status status =
        memory ? xsmi_index_block(x, &block, err) : xsmi_index_find(x, &block, &desk, XSM_OK, err);
    if (status == XSM_OK) {
        put(f, classes, entries * sizeof *classes);
        put(f, scores, entries * sizeof *scores);
        put(f, lengths, count * sizeof *lengths);
        put(f, probed, count * sizeof *probed);
    }
    xsmi_index_desk_free(ctx, &desk);
    free(memory);
    free(classes);
    free(scores);
    return status;
}

/* Rows in falling order, some at a time, to the last and beyond. */
static xsm_status list_further(const xsm_index *x, const float *queries, bool brief, findings *f, xsm_error *err)
{
    enum { LISTED = 2, MOST = CLASSES };
    static const uint32_t tops[] = {7, 90, 1, 5000, MOST};
    const size_t stride = xsmi_index_cursor(x), scratch = xsmi_index_scratch(x, MOST);
    void *cursors = aligned_alloc(64, LISTED * stride);
    void *memory = xsmi_index_is_divided(x) ? NULL : aligned_alloc(64, scratch);
    uint32_t *classes = malloc(LISTED * MOST * sizeof *classes);
    float *scores = malloc(LISTED * MOST * sizeof *scores);
    xsmi_index_desk desk = {.work = NULL};
    xsm_status status = XSM_OK;
    for (size_t n = 0; n < (brief ? 2 : sizeof tops / sizeof *tops) && status == XSM_OK; n++) {
        uint32_t lengths[LISTED];
        uint64_t probed[LISTED];
        const xsm_index_block block = {
            .size = sizeof block,
            .queries = queries,
            .stride = 16,
            .count = LISTED,
            .top = tops[n],
            .threshold = -INFINITY,
            .classes = classes,
            .scores = scores,
            .lengths = lengths,
            .probed = probed,
            .scratch = memory,
            .list_stride = tops[n],
            .cursors = cursors,
            .cursor_stride = stride,
            .begin = n == 0,
        };
        void *const apart[LISTED] = {cursors, (unsigned char *)cursors + stride};
        status = memory ? xsmi_index_next(x, &block, err) : xsmi_index_find_next(x, &block, apart, &desk, XSM_OK, err);
        for (uint32_t i = 0; i < LISTED && status == XSM_OK; i++) {
            put(f, classes + i * tops[n], lengths[i] * sizeof *classes);
            put(f, scores + i * tops[n], lengths[i] * sizeof *scores);
            put(f, &lengths[i], sizeof lengths[i]);
            put(f, &probed[i], sizeof probed[i]);
        }
    }
    xsmi_index_desk_free(x->context, &desk);
    free(scores);
    free(classes);
    free(memory);
    free(cursors);
    return status;
}

/* All that an index says. */
static xsm_status ask(const xsm_index *x, const float *queries, bool brief, findings *f, xsm_error *err)
{
    static const uint32_t tops[] = {20, 500, 6000, CLASSES};
    XSMI_TRY(list_further(x, queries, brief, f, err));
    if (brief) {
        XSMI_TRY(block_of(x, queries, 3, 5000, f, err));
        return block_of(x, queries, 2, 20, f, err);
    }
    XSMI_TRY(query(x, queries, false, f, err));
    XSMI_TRY(query(x, queries, true, f, err));
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++) {
        XSMI_TRY(block_of(x, queries, i < 2 ? 64 : 3, tops[i], f, err));
    }
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    XSMI_TRY(xsm_index_get_info(x, &info, err));
    put(f, &info, offsetof(xsm_index_info, name));
    const uint64_t count = xsmi_index_numbers(x);
    uint32_t *numbers = calloc((size_t)count + 1, sizeof *numbers);
    xsmi_index_save(x, numbers);
    put(f, numbers, (size_t)count * sizeof *numbers);
    free(numbers);
    return XSM_OK;
}

/* Saves an index, and asks what was loaded. */
static xsm_status pass_through_file(const work *w, const xsm_model *m, const xsm_index *x, const float *queries,
                                    findings *f, xsm_error *err)
{
    XSMI_TRY(xsm_index_save(x, w->path, err));
    FILE *file = fopen(w->path, "rb");
    char some[4096];
    for (size_t n; file && (n = fread(some, 1, sizeof some, file)) > 0;) {
        put(f, some, n);
    }
    if (!file || fclose(file) != 0) {
        return XSM_ERROR_INTERNAL;
    }
    xsm_index *loaded = NULL;
    XSMI_TRY(xsm_index_load(m->context, w->path, NULL, m, &loaded, err));
    const xsm_status status = ask(loaded, queries, w->of->brief, f, err);
    xsm_index_free(loaded);
    return status;
}

static xsm_status use_index(work *w, uint32_t rank, xsm_model *m, xsm_index *x, findings *f, xsm_error *err)
{
    _Alignas(64) float queries[QUERIES * 16] = {0};
    uint32_t changed[CHANGED];
    double recall = 0;
    for (uint32_t i = 0; i < QUERIES; i++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            queries[i * 16 + j] = number(9000 * i + j);
        }
        queries[i * 16 + FEATURES] = 1; /* for the bias, where blocks are searched */
    }
    if (!w->of->zeros) {
        set_rows(m, 0, NULL, CLASSES);
    }
    XSMI_TRY(xsm_index_build_model(x, m, err));
    XSMI_TRY(ask(x, queries, w->of->brief, f, err));
    for (uint32_t version = 1; version <= (w->of->brief ? 1 : 3); version++) {
        const uint32_t count = version == 3 ? 1 : w->of->changed;
        for (uint32_t j = 0; j < count; j++) {
            changed[j] = (j * 7919 + version * 11) % CLASSES;
        }
        set_rows(m, version, changed, count);
        xsm_status status = xsm_index_update(x, changed, count, err);
        if (status == XSM_ERROR_MEMORY) { /* on all ranks, whose next calls are the same again */
            w->again[rank] = true;
            status = xsm_index_update(x, changed, count, err);
        }
        XSMI_TRY(status);
        XSMI_TRY(ask(x, queries, w->of->brief, f, err));
    }
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    s.queries = queries;
    s.stride = 16;
    s.count = w->of->brief ? 2 : QUERIES;
    s.top = TOP;
    XSMI_TRY(xsm_index_recall(x, &s, &recall, err));
    XSMI_TRY(pass_through_file(w, m, x, queries, f, err));
    put(f, &recall, sizeof recall);
    xsm_index_info info = XSM_INDEX_INFO_INIT;
    XSMI_TRY(xsm_index_get_info(x, &info, err));
    return info.rebuilds >= w->of->rebuilds && recall > 0.02 ? XSM_OK : XSM_ERROR_INTERNAL;
}

static xsm_status use_context(xsm_context *ctx, work *w, uint32_t rank, xsm_error *err)
{
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = w->of->bias;
    xsm_model *m = NULL;
    xsm_index *x = NULL;
    findings *f = &w->found[rank];
    f->count = 0;
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, &shape, &m, err);
    status = status == XSM_OK ? make(ctx, w->of, &x, err) : status;
    status = status == XSM_OK ? use_index(w, rank, m, x, f, err) : status;
    xsm_index_free(x);
    xsm_model_free(m);
    return status;
}

static xsm_status use(test_rank *r)
{
    return use_context(r->context, r->user, r->rank, &r->err);
}

static work work_of(const plan *of)
{
    work w = {.of = of};
    snprintf(w.path, sizeof w.path, "%s", test_path("index"));
    return w;
}

static void free_findings(work *w)
{
    for (uint32_t r = 0; r < TEST_RANKS; r++) {
        free(w->found[r].bytes);
    }
}

static void test_bits(void **state)
{
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 5};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        work one = work_of(&plans[i]), w = work_of(&plans[i]);
        test_rank ranks[TEST_RANKS];
        test_run_ranks(1, 1, 0, use, &one, ranks);
        assert_ok(ranks[0].status, ranks[0].err);
        const findings *wanted = &one.found[0];
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            for (uint32_t threads = test_full() ? 1 : 2; test_ranks_tried(counts[c]) && threads <= 2; threads++) {
                test_run_ranks(counts[c], threads, 0, use, &w, ranks);
                for (uint32_t r = 0; r < counts[c]; r++) {
                    assert_ok(ranks[r].status, ranks[r].err);
                    assert_int_equal(w.found[r].count, wanted->count);
                    if (memcmp(w.found[r].bytes, wanted->bytes, wanted->count) != 0) {
                        size_t at = 0;
                        while (w.found[r].bytes[at] == wanted->bytes[at]) {
                            at++;
                        }
                        fail_msg("%s %s: other findings on rank %u of %u with %u threads, from byte %zu of %zu on",
                                 plans[i].index, plans[i].options, r, counts[c], threads, at, wanted->count);
                    }
                }
            }
        }
        free_findings(&one);
        free_findings(&w);
    }
}

/* The group fails at each of its calls in turn, or at some: every rank returns, and with the same status. */
static void test_lost(void **state)
{
    (void)state;
    static const plan few = {"spherical", "clusters=40 iterations=1 samples=9 drift=0.02", true, false, 0, 900, true};
    work w = work_of(&few);
    test_rank ranks[TEST_RANKS];
    uint64_t at = 1;
    do {
        test_run_ranks(3, 1, at, use, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, ranks[0].status);
        }
        assert_true(ranks[0].status == XSM_OK || ranks[0].status == XSM_ERROR_COMM);
        at = test_next_place(at, 1 + at / 40);
    } while (ranks[0].status != XSM_OK);
    assert_true(at > 60);
    free_findings(&w);
}

/* -- a rank without memory ----------------------------------------------------------------------------------------- */

static xsm_status use_without(test_rank *r)
{
    work *w = r->user;
    test_countdown c = {r->rank == 1 ? w->k : 0, false};
    xsm_context *ctx = NULL;
    xsm_status status = test_rank_context(r, &c, NULL, &ctx);
    if (status != XSM_OK) {
        return xsmi_agree(r->context, status, &r->err);
    }
    status = use_context(ctx, w, r->rank, &r->err);
    xsm_context_free(ctx);
    if (r->rank == 1) {
        w->reached = c.reached;
    }
    return status;
}

static void test_memory_lost(void **state)
{
    (void)state;
    static const plan few = {"spherical", "clusters=9 iterations=1 samples=9 drift=0.02", true, false, 0, 900, true};
    work w = work_of(&few);
    w.reached = true;
    test_rank ranks[TEST_RANKS];
    size_t failures = 0, updates = 0;
    for (w.k = 1; w.reached; w.k = test_next_place(w.k, 1)) {
        memset(w.again, 0, sizeof w.again);
        test_run_ranks(3, 1, 0, use_without, &w, ranks);
        for (uint32_t r = 0; r < 3 && w.again[0]; r++) {
            assert_true(w.again[r]);
            assert_ok(ranks[r].status, ranks[r].err);
        }
        updates += w.again[0];
        for (uint32_t r = 0; r < 3; r++) {
            /* Objects that are no model's are made without the group: the others find that rank 1 has left. */
            assert_true(ranks[r].status == ranks[1].status || ranks[r].status == XSM_ERROR_COMM);
        }
        assert_true(ranks[1].status == XSM_OK || ranks[1].status == XSM_ERROR_MEMORY);
        failures += ranks[0].status == XSM_ERROR_MEMORY && strncmp(ranks[0].err.message, "rank 1: ", 8) == 0;
    }
    assert_int_equal(ranks[0].status, XSM_OK);
    assert_true(failures > (test_full() ? 40 : 8) && updates > (test_full() ? 3 : 0));
    free_findings(&w);
}

/* An update that lacked memory on rank 1 has changed nothing on any rank: what is found is as before. */
static xsm_status update_without(test_rank *r)
{
    work *w = r->user;
    findings *f = &w->found[r->rank];
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    xsm_model *m = NULL;
    xsm_index *x = NULL;
    _Alignas(64) float queries[QUERIES * 16];
    uint32_t changed[CHANGED];
    for (uint32_t i = 0; i < QUERIES * 16; i++) {
        queries[i] = number(i);
    }
    for (uint32_t j = 0; j < CHANGED; j++) {
        changed[j] = j * 7919 % CLASSES;
    }
    f->count = 0;
    XSMI_TRY(test_rank_context(r, &c, NULL, &ctx));
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, NULL, &m, &r->err);
    set_rows(m, 0, NULL, CLASSES);
    status = status == XSM_OK ? make(ctx, w->of, &x, &r->err) : status;
    status = status == XSM_OK ? xsm_index_build_model(x, m, &r->err) : status;
    status = status == XSM_OK ? query(x, queries, false, f, &r->err) : status;
    const size_t each = f->count;
    if (status == XSM_OK) {
        set_rows(m, 1, changed, CHANGED);
        c.left = r->rank == 1 ? w->k : 0;
        status = xsm_index_update(x, changed, CHANGED, &r->err);
        c.left = 0;
        xsm_error err = XSM_ERROR_INIT;
        const bool found = query(x, queries, false, f, &err) == XSM_OK;
        const bool same = found && memcmp(f->bytes, f->bytes + each, each) == 0;
        status = found && same == (status != XSM_OK) ? status : XSM_ERROR_INTERNAL;
    }
    if (r->rank == 1) {
        w->reached = c.reached;
    }
    xsm_index_free(x);
    xsm_model_free(m);
    xsm_context_free(ctx);
    return status;
}

static void test_update_lost(void **state)
{
    (void)state;
    work w = work_of(&plans[4]);
    w.reached = true;
    test_rank ranks[TEST_RANKS];
    for (w.k = 1; w.reached; w.k++) {
        test_run_ranks(3, 1, 0, update_without, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, w.reached ? XSM_ERROR_MEMORY : XSM_OK);
        }
    }
    assert_true(w.k > 2);
    free_findings(&w);
}

/* Searches whose k-th run fails on rank 1, and all of them again. */
static xsm_status search_running(test_rank *r)
{
    work *w = r->user;
    findings *f = &w->found[r->rank];
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    xsm_model *m = NULL;
    xsm_index *x = NULL;
    _Alignas(64) float queries[QUERIES * 16] = {0};
    for (uint32_t i = 0; i < QUERIES * 16; i++) {
        queries[i] = i % 16 < FEATURES ? number(i) : i % 16 == FEATURES;
    }
    XSMI_TRY(test_rank_context_running(r, &c, &ctx));
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = true;
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, &shape, &m, &r->err);
    set_rows(m, 0, NULL, CLASSES);
    status = status == XSM_OK ? make(ctx, w->of, &x, &r->err) : status;
    status = status == XSM_OK ? xsm_index_build_model(x, m, &r->err) : status;
    c.left = r->rank == 1 ? w->k : 0;
    w->done[r->rank] = 0;
    for (int again = 0; again < 2 && status == XSM_OK; again++) {
        xsm_status got = XSM_OK;
        f->count = 0;
        for (int call = 0; call < 4 && got == XSM_OK; call++) {
            got = call == 0   ? query(x, queries, false, f, &r->err)
                  : call == 1 ? block_of(x, queries, 60, 500, f, &r->err)
                  : call == 2 ? block_of(x, queries, 9, CLASSES, f, &r->err)
                              : list_further(x, queries, true, f, &r->err);
            w->done[r->rank] += got == XSM_OK && again == 0;
        }
        c.left = 0;
        status = got == XSM_OK || (got == XSM_ERROR_RUNNER && again == 0) ? status : got;
    }
    if (r->rank == 1) {
        w->reached = c.reached;
    }
    xsm_index_free(x);
    xsm_model_free(m);
    xsm_context_free(ctx);
    return status;
}

/* A search fails on all ranks, or on none. */
static void test_runner_lost(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i += 4) {
        work one = work_of(&plans[i]), w = work_of(&plans[i]);
        test_rank ranks[TEST_RANKS];
        size_t failed = 0;
        test_run_ranks(1, 1, 0, search_running, &one, ranks);
        assert_ok(ranks[0].status, ranks[0].err);
        w.reached = true;
        for (w.k = 1; w.reached; w.k = test_next_place(w.k, 1)) {
            test_run_ranks(3, 1, 0, search_running, &w, ranks);
            for (uint32_t r = 0; r < 3; r++) {
                assert_ok(ranks[r].status, ranks[r].err);
                assert_int_equal(w.done[r], w.done[1]);
                assert_int_equal(w.found[r].count, one.found[0].count);
                assert_memory_equal(w.found[r].bytes, one.found[0].bytes, one.found[0].count);
            }
            failed += w.done[1] < 4;
        }
        assert_true(failed > 0 && w.k > 4);
        free_findings(&one);
        free_findings(&w);
    }
}

/* Distances are made on all ranks or on none. */
static xsm_status make_distances(test_rank *r)
{
    work *w = r->user;
    test_countdown c = {0, false};
    xsm_context *ctx = NULL;
    xsm_model *m = NULL;
    XSMI_TRY(test_rank_context(r, &c, NULL, &ctx));
    xsm_status status = xsm_model_new_linear(ctx, FEATURES, CLASSES, NULL, &m, &r->err);
    if (status == XSM_OK) {
        c.left = r->rank == 1 ? w->k : 0;
        status = xsm_model_set_geometry(m, XSM_GEOMETRY_EUCLIDEAN, &r->err);
        if ((m->part.own->bias != NULL) != (status == XSM_OK)) {
            status = XSM_ERROR_INTERNAL;
        }
    }
    if (r->rank == 1) {
        w->reached = c.reached;
    }
    xsm_model_free(m);
    xsm_context_free(ctx);
    return status;
}

static void test_distances_lost(void **state)
{
    (void)state;
    work w = {.reached = true};
    test_rank ranks[TEST_RANKS];
    for (w.k = 1; w.reached; w.k++) {
        test_run_ranks(3, 1, 0, make_distances, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].status, w.reached ? XSM_ERROR_MEMORY : XSM_OK);
        }
    }
    assert_true(w.k > 2);
}

/* -- numbers that are not finite, and what is refused ---------------------------------------------------------------
 */

static xsm_status use_infinite(test_rank *r)
{
    const uint32_t bad = 2 * XSMI_RUN_CLASSES + 3, one = 1;
    const work *w = r->user;
    xsm_model *m = NULL;
    xsm_index *x = NULL;
    XSMI_TRY(xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err));
    xsm_status status = make(r->context, w->of, &x, &r->err);
    status = status == XSM_OK ? xsm_index_build_model(x, m, &r->err) : status;
    if (xsmi_divided_has(m, bad)) {
        m->part.own->weight[(bad - m->part.first) * m->part.own->stride] = INFINITY;
    }
    status = status == XSM_OK ? xsm_index_update(x, &one, 1, &r->err) : status;
    if (status == XSM_OK) {
        status = xsm_index_update(x, &bad, 1, &r->err);
        status = status == XSM_ERROR_DIVERGED && strstr(r->err.message, "row 8195") ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    if (status == XSM_OK) {
        status = xsm_index_build_model(x, m, &r->err);
        status = status == XSM_ERROR_DIVERGED && strstr(r->err.message, "row 8195") ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    xsm_index_free(x);
    xsm_model_free(m);
    return status;
}

static xsm_status never(const void *state, const xsm_index_block *block, xsm_error *err)
{
    (void)state;
    (void)block;
    (void)err;
    return XSM_ERROR_INTERNAL;
}

static xsm_status refuse(test_rank *r)
{
    xsm_model *m = NULL;
    xsm_index *x = NULL;
    const work *w = r->user;
    xsm_index_ops ops = *xsm_index_find("spherical");
    ops.query = never;
    ops.name = "host";
    XSMI_TRY(xsm_model_new_linear(r->context, FEATURES, CLASSES, NULL, &m, &r->err));
    xsm_status status = xsm_index_new_from(r->context, &ops, &x, &r->err);
    if (status == XSM_OK) {
        status = xsm_index_build_model(x, m, &r->err);
        status = status == XSM_ERROR_UNSUPPORTED && strstr(r->err.message, "2 ranks") ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    xsm_index_free(x);
    x = NULL;
    status = status == XSM_OK ? xsm_index_new(r->context, "exact", &x, &r->err) : status;
    status = status == XSM_OK ? xsm_index_build_model(x, m, &r->err) : status;
    if (status == XSM_OK) {
        status = xsm_index_save(x, "/nowhere/at/all", &r->err);
        status = status == XSM_ERROR_IO && strncmp(r->err.message, "rank 0: ", 8) == 0 ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    /* A file that one rank does not find; one that is not the others'; and one of other rows, of which one rank knows.
     */
    xsm_index *loaded = NULL, *other = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s-other", w->path);
    status = status == XSM_OK ? xsm_index_save(x, w->path, &r->err) : status;
    if (status == XSM_OK) {
        status = xsm_index_load(r->context, r->rank == 0 ? w->path : "/nowhere/at/all", NULL, m, &loaded, &r->err);
        status = status == XSM_ERROR_IO && strncmp(r->err.message, "rank 1: ", 8) == 0 ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    status = status == XSM_OK ? xsm_index_new(r->context, "spherical", &other, &r->err) : status;
    status = status == XSM_OK ? xsm_index_build_model(other, m, &r->err) : status;
    status = status == XSM_OK ? xsm_index_save(other, path, &r->err) : status;
    xsm_index_free(other);
    if (status == XSM_OK) {
        status = xsm_index_load(r->context, r->rank == 0 ? w->path : path, NULL, m, &loaded, &r->err);
        status = status == XSM_ERROR_STATE && strstr(r->err.message, "not the file") && !loaded ? XSM_OK
                                                                                                : XSM_ERROR_INTERNAL;
    }
    m->part.own->weight[0] = r->rank == 1 ? 3 : m->part.own->weight[0];
    if (status == XSM_OK) {
        status = xsm_index_load(r->context, w->path, NULL, m, &loaded, &r->err);
        status =
            status == XSM_ERROR_STATE && strstr(r->err.message, "other rows") && !loaded ? XSM_OK : XSM_ERROR_INTERNAL;
    }
    xsm_index_free(x);
    xsm_model_free(m);
    return status;
}

static void test_refusals(void **state)
{
    (void)state;
    test_rank ranks[TEST_RANKS];
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i += 4) {
        work w = work_of(&plans[i]);
        test_run_ranks(3, 1, 0, use_infinite, &w, ranks);
        for (uint32_t r = 0; r < 3; r++) {
            if (ranks[r].status != XSM_OK) {
                fail_msg("%s: rank %u: %s", plans[i].index, r, ranks[r].err.message);
            }
        }
    }
    work refused = work_of(NULL);
    test_run_ranks(2, 1, 0, refuse, &refused, ranks);
    for (uint32_t r = 0; r < 2; r++) {
        if (ranks[r].status != XSM_OK) {
            fail_msg("rank %u: %s", r, ranks[r].err.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits),           cmocka_unit_test(test_lost),     cmocka_unit_test(test_memory_lost),
        cmocka_unit_test(test_distances_lost), cmocka_unit_test(test_refusals), cmocka_unit_test(test_update_lost),
        cmocka_unit_test(test_runner_lost),
    };
    return cmocka_run_group_tests(tests, NULL, test_files_teardown);
}
