#include "schedule.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct entry {
    char kind; /* 'm', 'g', 'c'; 'e' = the end of a step */
    double bytes, seconds, wall;
} entry;

struct schedule {
    xsm_comm of;
    entry *entries;
    size_t count, room;
    double since; /* this thread's processor time at the end of the last call */
};

static double clock_now(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

schedule *schedule_new(const xsm_comm *of)
{
    schedule *s = calloc(1, sizeof *s);
    if (!s) {
        fprintf(stderr, "bench_cluster: out of memory\n");
        exit(1);
    }
    s->of = *of;
    s->since = clock_now(CLOCK_THREAD_CPUTIME_ID);
    return s;
}

void schedule_free(schedule *s)
{
    if (s) {
        free(s->entries);
        free(s);
    }
}

static void record(schedule *s, char kind, double bytes)
{
    const double now = clock_now(CLOCK_THREAD_CPUTIME_ID);
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 4096;
        entry *more = realloc(s->entries, s->room * sizeof *more);
        if (!more) {
            fprintf(stderr, "bench_cluster: out of memory\n");
            exit(1);
        }
        s->entries = more;
    }
    s->entries[s->count++] = (entry){kind, bytes, now - s->since, clock_now(CLOCK_MONOTONIC)};
}

static int32_t returned(schedule *s, int32_t result)
{
    s->since = clock_now(CLOCK_THREAD_CPUTIME_ID);
    return result;
}

static int32_t max_f32(void *user, float *values, size_t count)
{
    schedule *s = user;
    record(s, 'm', (double)(count * sizeof *values));
    return returned(s, s->of.max_f32(s->of.user, values, count));
}

static int32_t allgatherv(void *user, const void *mine, void *all, const size_t *sizes)
{
    schedule *s = user;
    record(s, 'g', (double)sizes[s->of.rank]);
    return returned(s, s->of.allgatherv(s->of.user, mine, all, sizes));
}

static int32_t broadcast(void *user, void *data, size_t bytes, uint32_t root)
{
    schedule *s = user;
    record(s, 'c', (double)bytes);
    return returned(s, s->of.broadcast(s->of.user, data, bytes, root));
}

xsm_comm schedule_comm(schedule *s)
{
    xsm_comm comm = s->of;
    comm.user = s;
    comm.max_f32 = max_f32;
    comm.allgatherv = allgatherv;
    comm.broadcast = broadcast;
    return comm;
}

void schedule_step(schedule *s)
{
    record(s, 'e', 0);
    returned(s, 0);
}

/* Where the step after `from` ends; the count if it does not. */
static size_t end_of(const schedule *s, size_t from)
{
    while (from < s->count && s->entries[from].kind != 'e') {
        from++;
    }
    return from;
}

int schedule_write(const schedule *s, FILE *out)
{
    size_t steps = 0, skip = 0, begin = 0;
    for (size_t i = 0; i < s->count; i++) {
        steps += s->entries[i].kind == 'e';
    }
    if (steps < 5) {
        return -1;
    }
    while (skip < (steps + 4) / 5) {
        begin = end_of(s, begin) + 1;
        skip++;
    }
    const size_t length = end_of(s, begin) - begin + 1, used = steps - skip;
    entry *mean = calloc(length, sizeof *mean);
    int failed = mean ? 0 : -1;
    size_t at = begin;
    for (size_t step = 0; !failed && step < used; step++, at += length) {
        if (end_of(s, at) - at + 1 != length) {
            failed = -1;
            break;
        }
        for (size_t i = 0; i < length; i++) {
            const entry *e = &s->entries[at + i];
            failed |= step > 0 && mean[i].kind != e->kind ? -1 : 0;
            mean[i].kind = e->kind;
            mean[i].bytes += e->bytes / (double)used;
            mean[i].seconds += e->seconds / (double)used;
        }
    }
    if (!failed) {
        fprintf(out, "step %.9f\n", (s->entries[at - 1].wall - s->entries[begin - 1].wall) / (double)used);
        for (size_t i = 0; i < length; i++) {
            const char kind = mean[i].kind;
            const char *name = kind == 'm' ? "max" : kind == 'g' ? "gather" : kind == 'c' ? "copy" : "end";
            fprintf(out, "%s %.1f %.9f\n", name, mean[i].bytes, mean[i].seconds);
        }
    }
    free(mean);
    return failed;
}
