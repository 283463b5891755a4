/* Ranks that are threads: the last one to come to a collective call does it for all. */
#include "comm.h"

#include "support.h"

#include "base/activity.h"
#include "base/context.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum operation { MAX_F32, ALLGATHERV, BROADCAST } operation;

/* What a rank came with. */
typedef struct visit {
    operation what;
    const void *mine;
    void *data;
    const size_t *sizes;
    size_t count;
    uint32_t root;
} visit;

typedef struct group {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t ranks, here, left;
    uint64_t done, fail_at; /* collective calls */
    bool broken;
    visit visits[TEST_RANKS];
} group;

typedef struct member {
    group *of;
    uint32_t rank, threads;
    test_rank_body body;
    test_rank *result;
} member;

static bool agree(const group *g)
{
    for (uint32_t r = 1; r < g->ranks; r++) {
        const visit *a = &g->visits[0], *b = &g->visits[r];
        if (a->what != b->what || a->count != b->count || a->root != b->root ||
            (a->sizes && memcmp(a->sizes, b->sizes, g->ranks * sizeof *a->sizes) != 0)) {
            return false; /* the ranks make different calls */
        }
    }
    return true;
}

static void take_max(group *g)
{
    for (size_t i = 0; i < g->visits[0].count; i++) {
        float most = ((const float *)g->visits[0].data)[i];
        for (uint32_t r = 1; r < g->ranks; r++) {
            const float value = ((const float *)g->visits[r].data)[i];
            most = value > most ? value : most;
        }
        for (uint32_t r = 0; r < g->ranks; r++) {
            ((float *)g->visits[r].data)[i] = most;
        }
    }
}

static void gather(group *g)
{
    for (uint32_t to = 0; to < g->ranks; to++) {
        unsigned char *out = g->visits[to].data;
        for (uint32_t r = 0; r < g->ranks; r++) {
            memcpy(out, g->visits[r].mine, g->visits[r].sizes[r]);
            out += g->visits[r].sizes[r];
        }
    }
}

static void broadcast(group *g)
{
    const visit *root = &g->visits[g->visits[0].root];
    for (uint32_t r = 0; r < g->ranks; r++) {
        if (&g->visits[r] != root) {
            memcpy(g->visits[r].data, root->data, root->count);
        }
    }
}

static int32_t meet(member *m, const visit *v)
{
    group *g = m->of;
    pthread_mutex_lock(&g->lock);
    g->visits[m->rank] = *v;
    g->broken |= g->left > 0;
    if (!g->broken && ++g->here == g->ranks) {
        g->here = 0;
        g->done++;
        g->broken = !agree(g) || g->done == g->fail_at;
        if (!g->broken) {
            (v->what == MAX_F32 ? take_max : v->what == ALLGATHERV ? gather : broadcast)(g);
        }
        pthread_cond_broadcast(&g->changed);
    } else {
        for (const uint64_t before = g->done; !g->broken && g->done == before;) {
            pthread_cond_wait(&g->changed, &g->lock);
        }
    }
    const bool broken = g->broken;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->lock);
    return broken ? -1 : 0;
}

static int32_t max_f32(void *user, float *values, size_t count)
{
    return meet(user, &(visit){.what = MAX_F32, .data = values, .count = count});
}

static int32_t allgatherv(void *user, const void *mine, void *all, const size_t *sizes)
{
    return meet(user, &(visit){.what = ALLGATHERV, .mine = mine, .data = all, .sizes = sizes});
}

static int32_t broadcast_from(void *user, void *data, size_t bytes, uint32_t root)
{
    return meet(user, &(visit){.what = BROADCAST, .data = data, .count = bytes, .root = root});
}

static void *run_rank(void *state)
{
    member *m = state;
    test_rank *r = m->result;
    xsm_comm comm = XSM_COMM_INIT;
    comm.user = m;
    comm.rank = m->rank;
    comm.ranks = m->of->ranks;
    comm.max_f32 = max_f32;
    comm.allgatherv = allgatherv;
    comm.broadcast = broadcast_from;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = m->threads;
    options.comm = comm.ranks > 1 ? &comm : NULL;
    r->status = xsm_context_new(&options, &r->context, &r->err);
    if (r->status == XSM_OK) {
        r->status = m->body(r);
        xsm_context_free(r->context);
    }
    pthread_mutex_lock(&m->of->lock);
    m->of->left++;
    m->of->broken |= m->of->here > 0;
    pthread_cond_broadcast(&m->of->changed);
    pthread_mutex_unlock(&m->of->lock);
    return NULL;
}

void test_run_ranks(uint32_t count, uint32_t threads, uint64_t fail_at, test_rank_body body, void *user,
                    test_rank *ranks)
{
    group g = {.ranks = count, .fail_at = fail_at};
    member members[TEST_RANKS];
    pthread_t ids[TEST_RANKS];
    pthread_mutex_init(&g.lock, NULL);
    pthread_cond_init(&g.changed, NULL);
    for (uint32_t r = 0; r < count; r++) {
        ranks[r] = (test_rank){.rank = r, .ranks = count, .user = user, .err = XSM_ERROR_INIT};
        members[r] = (member){&g, r, threads, body, &ranks[r]};
        if (pthread_create(&ids[r], NULL, run_rank, &members[r]) != 0) {
            abort();
        }
    }
    for (uint32_t r = 0; r < count; r++) {
        pthread_join(ids[r], NULL);
    }
    pthread_cond_destroy(&g.changed);
    pthread_mutex_destroy(&g.lock);
}

bool test_ranks_tried(uint32_t count)
{
    return test_full() || count == 3;
}

/* -- ranks that fail ----------------------------------------------------------------------------------------------- */

static bool fires(test_countdown *c)
{
    const bool now = c->left > 0 && --c->left == 0;
    c->reached |= now;
    return now;
}

static void *allocate(void *user, size_t size, size_t alignment)
{
    void *memory = NULL;
    if (user && fires(user)) {
        return NULL;
    }
    return posix_memalign(&memory, alignment < sizeof memory ? sizeof memory : alignment, size) == 0 ? memory : NULL;
}

static void release(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)size;
    (void)alignment;
    free(memory);
}

static int32_t cancel(void *user, const xsm_activity *activity)
{
    (void)activity;
    return fires(user);
}

xsm_allocator test_countdown_allocator(test_countdown *c)
{
    return (xsm_allocator){sizeof(xsm_allocator), c, allocate, release};
}

xsm_status test_rank_context(test_rank *r, test_countdown *memory, test_countdown *hook, xsm_context **out)
{
    const xsm_allocator allocator = test_countdown_allocator(memory);
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    xsm_comm comm = r->context->group.comm;
    options.allocator = &allocator;
    options.threads = 1;
    options.comm = &comm;
    options.progress = hook ? cancel : NULL;
    options.progress_user = hook;
    const xsm_status status = xsm_context_new(&options, out, &r->err);
    if (status == XSM_OK && hook) {
        xsmi_set_pace(*out, 0);
    }
    return status;
}

static int32_t run_some(void *user, xsm_job job, void *state, size_t count)
{
    const bool fails = fires(user);
    for (size_t i = 0; i < count; i += fails ? 2 : 1) {
        job(state, i, i % 2);
    }
    return fails;
}

xsm_status test_rank_context_running(test_rank *r, test_countdown *runs, xsm_context **out)
{
    const xsm_runner runner = {sizeof runner, runs, 2, 0, run_some};
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    const xsm_comm comm = r->context->group.comm;
    options.runner = &runner;
    options.comm = comm.ranks > 1 ? &comm : NULL;
    return xsm_context_new(&options, out, &r->err);
}

unsigned char *test_ranks_file(uint32_t count, uint32_t threads, test_rank_body body, void *user, const char *path,
                               size_t *size)
{
    test_rank ranks[TEST_RANKS];
    remove(path);
    test_run_ranks(count, threads, 0, body, user, ranks);
    for (uint32_t r = 0; r < count; r++) {
        assert_ok(ranks[r].status, ranks[r].err);
    }
    return test_read(path, size);
}

void test_same_on_ranks(test_rank_body body, void *user, const test_made *made, uint32_t most, const char *what)
{
    size_t size, wanted;
    unsigned char *one = test_ranks_file(1, 2, body, user, made->path, &wanted), *numbers = malloc(made->each);
    assert_non_null(numbers);
    memcpy(numbers, made->numbers, made->each);
    for (uint32_t count = 2; count <= most; count++) {
        if (!test_ranks_tried(count)) {
            continue;
        }
        unsigned char *many = test_ranks_file(count, 1 + count % 2, body, user, made->path, &size);
        if (size != wanted || memcmp(many, one, size) != 0) {
            fail_msg("%s: another model on %u ranks", what, count);
        }
        for (uint32_t r = 0; r < count; r++) {
            if (memcmp((unsigned char *)made->numbers + r * made->each, numbers, made->each) != 0) {
                fail_msg("%s: other numbers on rank %u of %u", what, r, count);
            }
        }
        free(many);
    }
    free(numbers);
    free(one);
}
