/*
 * The measurement of a benchmark, and helper functions for all of them.
 */
#include "bench.h"

#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Runs are short, so that some of them fall between the machine's other work; at least LEAST_RUNS, then up to
 * SECONDS. */
#define LEAST_RUNS 5
#define SECONDS 2.0
/* Pairs of runs: the most pairs, and the most seconds. */
#define PAIRS 101
#define PAIR_SECONDS 4.0
#define HUGE_PAGE ((size_t)2 << 20)

void bench_check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "bench: %s\n", err->message);
        exit(1);
    }
}

void *bench_memory(size_t count, size_t each)
{
    void *memory = NULL;
    if (count > SIZE_MAX / 2 / each || posix_memalign(&memory, HUGE_PAGE, count * each) != 0) {
        fprintf(stderr, "bench: no memory for %zu x %zu bytes\n", count, each);
        exit(1);
    }
    (void)madvise(memory, count * each, MADV_HUGEPAGE); /* only advice */
    memset(memory, 0, count * each);
    return memory;
}

static uint32_t disabled;

void bench_disable(uint32_t sets)
{
    disabled = sets;
}

xsm_context *bench_context(uint32_t threads)
{
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    options.cpu_disable = disabled;
    xsm_context *ctx = NULL;
    xsm_error err = XSM_ERROR_INIT;
    bench_check(xsm_context_new(&options, &ctx, &err), &err);
    return ctx;
}

const char *bench_instruction_set(const xsm_context *context)
{
    xsm_context_info info = XSM_CONTEXT_INFO_INIT;
    xsm_error err = XSM_ERROR_INIT;
    bench_check(xsm_context_get_info(context, &info, &err), &err);
    return info.instruction_set;
}

/* Threads spin for a while before they sleep; those of one measurement must not disturb the next one. */
static void rest(void)
{
    const struct timespec time = {.tv_nsec = 10000000};
    (void)nanosleep(&time, NULL);
}

bench_result bench_measure(bench_rate work, void *work_state, bench_rate ceiling, void *ceiling_state, const char *unit)
{
    bench_result result = {0, 0, unit, NULL};
    (void)work(work_state);
    (void)ceiling(ceiling_state);
    double start = peak_clock();
    for (int run = 0; run < LEAST_RUNS || peak_clock() - start < SECONDS; run++) {
        rest();
        double got = work(work_state);
        rest();
        double most = ceiling(ceiling_state);
        result.value = got > result.value ? got : result.value;
        result.ceiling = most > result.ceiling ? most : result.ceiling;
    }
    return result;
}

static int compare_ratios(const void *a, const void *b)
{
    const bench_result *x = a, *y = b;
    double p = x->value / x->ceiling, q = y->value / y->ceiling;
    return (p > q) - (p < q);
}

bench_result bench_measure_pairs(bench_rate work, void *work_state, bench_rate ceiling, void *ceiling_state,
                                 const char *unit)
{
    bench_result pairs[PAIRS];
    size_t count = 0;
    (void)work(work_state);
    (void)ceiling(ceiling_state);
    double start = peak_clock();
    rest();
    double before = ceiling(ceiling_state);
    while (count < LEAST_RUNS || (count < PAIRS && peak_clock() - start < PAIR_SECONDS)) {
        rest();
        double got = work(work_state);
        rest();
        double after = ceiling(ceiling_state);
        pairs[count++] = (bench_result){got, 0.5 * (before + after), unit, NULL};
        before = after;
    }
    qsort(pairs, count, sizeof *pairs, compare_ratios);
    return pairs[(count - 1) / 2];
}
