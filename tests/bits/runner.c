/*
 * A thread pool of a host whose threads have small stacks, filled with a pattern, so that one sees how much jobs have
 * used. The thread that calls waits, so that every job is on one of them; a job that began jobs would wait for ever.
 */
#include "bits.h"

#include <pthread.h>
#include <string.h>

enum { THREADS = 2 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t threads[THREADS];
    unsigned char *stacks[THREADS];
    xsm_job job;
    void *state;
    size_t count, next, ended;
    bool end;
} pool = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *work(void *number)
{
    const uint32_t thread = *(const uint32_t *)number;
    pthread_mutex_lock(&pool.mutex);
    while (!pool.end) {
        if (pool.next == pool.count) {
            pthread_cond_wait(&pool.changed, &pool.mutex);
            continue;
        }
        const size_t index = pool.next++;
        pthread_mutex_unlock(&pool.mutex);
        pool.job(pool.state, index, thread);
        pthread_mutex_lock(&pool.mutex);
        pool.ended++;
        pthread_cond_broadcast(&pool.changed);
    }
    pthread_mutex_unlock(&pool.mutex);
    return NULL;
}

static int32_t run(void *user, xsm_job job, void *state, size_t count)
{
    (void)user;
    pthread_mutex_lock(&pool.mutex);
    pool.job = job;
    pool.state = state;
    pool.next = pool.ended = 0;
    pool.count = count;
    pthread_cond_broadcast(&pool.changed);
    while (pool.ended < count) {
        pthread_cond_wait(&pool.changed, &pool.mutex);
    }
    pool.next = pool.count = 0;
    pthread_mutex_unlock(&pool.mutex);
    return 0;
}

const xsm_runner *bits_runner_open(void)
{
    static const xsm_runner runner = {sizeof runner, NULL, THREADS, 0, run};
    static uint32_t numbers[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_attr_t attributes;
        numbers[i] = i;
        pool.stacks[i] = pool.stacks[i] ? pool.stacks[i] : bits_new_stack();
        memset(pool.stacks[i], BITS_STACK_PATTERN, bits_stack_size);
        if (pthread_attr_init(&attributes) != 0 ||
            pthread_attr_setstack(&attributes, pool.stacks[i], bits_stack_size) != 0 ||
            pthread_create(&pool.threads[i], &attributes, work, &numbers[i]) != 0) {
            bits_fail("no thread of a runner");
        }
        pthread_attr_destroy(&attributes);
    }
    return &runner;
}

size_t bits_runner_used(void)
{
    size_t most = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        const size_t used = bits_stack_used(pool.stacks[i]);
        most = used > most ? used : most;
    }
    return most;
}

void bits_runner_close(void)
{
    pthread_mutex_lock(&pool.mutex);
    pool.end = true;
    pthread_cond_broadcast(&pool.changed);
    pthread_mutex_unlock(&pool.mutex);
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(pool.threads[i], NULL);
    }
    pool.end = false;
}
