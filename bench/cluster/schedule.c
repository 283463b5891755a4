#include "schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The bytes of a block in which a rank says whether all is well. */
#define ABSENT_HEAD 64

typedef struct entry {
    char kind; /* 'm', 'g', 'c'; 'e' = the end */
    double bytes, seconds, wall;
    size_t gather; /* of a gathering: which one it is */
} entry;

struct schedule {
    xsm_comm of;
    entry *entries;
    size_t count, room;
    double since;  /* this thread's processor time at the end of the last call */
    size_t *sizes; /* [gathers][ranks] bytes of every rank */
    size_t gathers, gather_room;
};

static void *grow(void *memory, size_t bytes)
{
    void *more = realloc(memory, bytes);
    if (!more) {
        fprintf(stderr, "bench_cluster: out of memory\n");
        exit(1);
    }
    return more;
}

static double clock_now(clockid_t which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int32_t absent_max(void *user, float *values, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i++) {
        values[i] = values[i] == -INFINITY ? 0 : values[i];
    }
    return 0;
}

static int32_t absent_gather(void *user, const void *mine, void *all, const size_t *sizes)
{
    const xsm_comm *of = user;
    const size_t own = sizes[of->rank];
    const float small = 1e-9f;
    unsigned char *to = all;
    for (uint32_t r = 0; r < of->ranks; to += sizes[r], r++) {
        const size_t limit = r == of->rank ? own : own < ABSENT_HEAD ? own : ABSENT_HEAD;
        const size_t copied = sizes[r] < limit ? sizes[r] : limit;
        if (copied > 0) {
            memcpy(to, mine, copied);
        }
        for (size_t at = copied; at + sizeof small <= sizes[r]; at += sizeof small) {
            memcpy(to + at, &small, sizeof small);
        }
    }
    return 0;
}

static int32_t absent_copy(void *user, void *data, size_t bytes, uint32_t root)
{
    const xsm_comm *of = user;
    if (root != of->rank && bytes > 0) {
        memset(data, 0, bytes);
    }
    return 0;
}

xsm_comm schedule_absent(uint32_t ranks)
{
    static xsm_comm of = XSM_COMM_INIT;
    of.user = &of;
    of.rank = ranks - 1;
    of.ranks = ranks;
    of.max_f32 = absent_max;
    of.allgatherv = absent_gather;
    of.broadcast = absent_copy;
    return of;
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
        free(s->sizes);
        free(s);
    }
}

static void record(schedule *s, char kind, double bytes)
{
    const double now = clock_now(CLOCK_THREAD_CPUTIME_ID);
    if (s->count == s->room) {
        s->room = s->room ? 2 * s->room : 4096;
        s->entries = grow(s->entries, s->room * sizeof *s->entries);
    }
    s->entries[s->count++] = (entry){kind, bytes, now - s->since, clock_now(CLOCK_MONOTONIC), s->gathers};
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

static void keep_sizes(schedule *s, const size_t *sizes)
{
    if (s->gathers == s->gather_room) {
        s->gather_room = s->gather_room ? 2 * s->gather_room : 256;
        s->sizes = grow(s->sizes, s->gather_room * s->of.ranks * sizeof *s->sizes);
    }
    memcpy(s->sizes + s->gathers * s->of.ranks, sizes, s->of.ranks * sizeof *sizes);
    s->gathers++;
}

static int32_t allgatherv(void *user, const void *mine, void *all, const size_t *sizes)
{
    schedule *s = user;
    record(s, 'g', (double)sizes[s->of.rank]);
    keep_sizes(s, sizes);
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

/* The most calls of what is recorded, and its end. */
#define LONGEST 128

/* Where what is recorded from `from` ends; the count if it does not. */
static size_t end_of(const schedule *s, size_t from)
{
    while (from < s->count && s->entries[from].kind != 'e') {
        from++;
    }
    return from;
}

/* How many entries most of what is recorded from `begin` has, with the end; of two such numbers the smaller. */
static size_t usual_length(const schedule *s, size_t begin)
{
    size_t best = 0, most = 0;
    for (size_t length = 1; length <= LONGEST; length++) {
        size_t steps = 0;
        for (size_t at = begin; at < s->count; at = end_of(s, at) + 1) {
            steps += end_of(s, at) < s->count && end_of(s, at) - at + 1 == length;
        }
        if (steps > most) {
            best = length;
            most = steps;
        }
    }
    return best;
}

/* The mean of a rank's bytes in gathering `which` of the steps recorded from `begin` on that have so many calls. */
static double mean_size(const schedule *s, size_t begin, size_t length, size_t which, uint32_t rank)
{
    double sum = 0;
    size_t used = 0;
    for (size_t at = begin, end; (end = end_of(s, at)) < s->count; at = end + 1) {
        if (end - at + 1 == length) {
            sum += (double)s->sizes[s->entries[at + which].gather * s->of.ranks + rank];
            used++;
        }
    }
    return sum / (double)used;
}

int schedule_write(const schedule *s, uint32_t steps, FILE *out)
{
    size_t ends = 0, begin = 0, used = 0;
    for (size_t i = 0; i < s->count; i++) {
        ends += s->entries[i].kind == 'e';
    }
    for (size_t skip = 0; skip < (ends + 4) / 5; skip++) {
        begin = end_of(s, begin) + 1;
    }
    const size_t length = ends > 1 ? usual_length(s, begin) : 0;
    entry mean[LONGEST] = {{.kind = 0}};
    double wall = 0;
    for (size_t at = begin, end; (end = end_of(s, at)) < s->count; at = end + 1) {
        if (end - at + 1 != length) {
            continue;
        }
        for (size_t i = 0; i < length; i++) {
            const entry *e = &s->entries[at + i];
            if (used > 0 && mean[i].kind != e->kind) {
                return -1;
            }
            mean[i].kind = e->kind;
            mean[i].bytes += e->bytes;
            mean[i].seconds += e->seconds;
        }
        wall += s->entries[end].wall - s->entries[at - 1].wall;
        used++;
    }
    if (used < 4) {
        return -1;
    }
    fprintf(out, "step %.9f %u %u\n", wall / (double)used / steps, (unsigned)s->of.ranks, (unsigned)steps);
    for (size_t i = 0; i < length; i++) {
        const char kind = mean[i].kind;
        const char *name = kind == 'm' ? "max" : kind == 'g' ? "gather" : kind == 'c' ? "copy" : "end";
        fprintf(out, "%s %.1f %.9f", name, mean[i].bytes / (double)used, mean[i].seconds / (double)used);
        for (uint32_t r = 0; kind == 'g' && r < s->of.ranks; r++) {
            fprintf(out, " %.1f", mean_size(s, begin, length, i, r));
        }
        fputc('\n', out);
    }
    return 0;
}
