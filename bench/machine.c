/*
 * row-update, row-read-update, step-least, fma-peak, line-pass and page-lookup: the limits of the machine. They are the
 * ceilings of the other benchmarks, or show how near to a ceiling code can come, or why it cannot. They have ceilings
 * themselves mainly to distinguish a noisy machine from a quiet one.
 */
#include "ceilings.h"
#include "data.h"
#include "peak/peak.h"
#include "shape.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

bench_result bench_row_update(uint32_t threads)
{
    ceilings c = ceilings_new(threads, NULL, DENSE_CLASSES, DENSE_FEATURES);
    bench_result result = bench_measure(ceiling_rows, &c, ceiling_stream, &c, "rows/s");
    ceilings_free(&c);
    return result;
}

bench_result bench_row_read_update(uint32_t threads)
{
    ceilings c = ceilings_new(threads, NULL, DENSE_CLASSES, DENSE_FEATURES);
    bench_result result = bench_measure(ceiling_pairs, &c, ceiling_rows, &c, "rows/s");
    ceilings_free(&c);
    return result;
}

static double half_the_rows(void *state)
{
    return 0.5 * ceiling_rows(state);
}

bench_result bench_step_least(uint32_t threads)
{
    ceilings c = ceilings_new(threads, NULL, DENSE_CLASSES, DENSE_FEATURES);
    bench_result result = bench_measure_pairs(ceiling_steps, &c, half_the_rows, &c, "steps/s");
    ceilings_free(&c);
    return result;
}

bench_result bench_fma_peak(uint32_t threads)
{
    ceilings one = ceilings_new(1, NULL, 0, 0);
    ceilings all = ceilings_new(threads, NULL, 0, 0);
    bench_result result = bench_measure(ceiling_fma, &all, ceiling_fma, &one, "GFLOP/s");
    result.value *= 1e-9;
    result.ceiling *= 1e-9 * threads; /* the rate of one thread, times the number of threads */
    return result;
}

/* Times that a line goes there and back in a run; a processor whose other thread shares its last cache needs some 60 ns
 * for a way. */
#define PASSES 100000
#define PASS_GOAL 60e-9
/* After so many looks in vain a thread lets another have the processor: perhaps it is the other one's. */
#define LOOKS 10000

static void wait_for(const atomic_uint *turn, unsigned value)
{
    for (unsigned looks = 1; atomic_load_explicit(turn, memory_order_acquire) != value; looks++) {
        if (looks % LOOKS == 0) {
            sched_yield();
        }
    }
}

/* Ways a second. */
static double pass_line(void *state)
{
    atomic_uint *turn = state;
    atomic_store(turn, 0);
    double start = peak_clock();
#pragma omp parallel for num_threads(2) schedule(static, 1)
    for (unsigned t = 0; t < 2; t++) {
        for (unsigned i = t; i < 2 * PASSES; i += 2) {
            wait_for(turn, i);
            atomic_store_explicit(turn, i + 1, memory_order_release);
        }
    }
    return 2 * PASSES / (peak_clock() - start);
}

static double pass_goal(void *state)
{
    (void)state;
    return 1 / PASS_GOAL;
}

bench_result bench_line_pass(uint32_t threads)
{
    if (threads < 2) {
        return (bench_result){0, 0, "ways/s", "needs two threads"};
    }
    atomic_uint *turn = bench_memory(1, 64);
    bench_result result = bench_measure(pass_line, turn, pass_goal, NULL, "ways/s");
    free(turn);
    return result;
}

/* Lines that are read one after another, each at an address that the one before it holds. */
#define CHAIN 32768
#define CHAIN_PAGE 4096
#define LINE_BYTES 64

typedef struct chain {
    char *memory;
    const uint32_t *order;
    size_t apart; /* bytes from a line to the next in memory */
} chain;

/* A page's number chooses the upper bits of a line's set in a cache, and the place in the page the lower ones: lines
 * that lie a page apart fall in as many sets as those that lie together. */
static void **line_of(const chain *c, uint32_t number)
{
    const size_t place = number / (CHAIN / (CHAIN_PAGE / LINE_BYTES));
    const size_t within = c->apart == CHAIN_PAGE ? place * LINE_BYTES : 0;
    return (void **)(void *)(c->memory + number * c->apart + within);
}

static void **follow(void **at)
{
    for (uint32_t i = 0; i < CHAIN; i++) {
        at = *at;
    }
    return at;
}

/* Lines a second. A first pass brings them into the caches. */
static double read_chain(void *state)
{
    const chain *c = state;
    for (uint32_t i = 0; i < CHAIN; i++) {
        *line_of(c, c->order[i]) = (void *)line_of(c, c->order[(i + 1) % CHAIN]);
    }
    void **start = line_of(c, c->order[0]);
    bool whole = follow(start) == start;
    double begun = peak_clock();
    for (int turn = 0; turn < 4; turn++) {
        whole &= follow(start) == start;
    }
    return whole ? 4.0 * CHAIN / (peak_clock() - begun) : 0;
}

bench_result bench_page_lookup(uint32_t threads)
{
    if (threads > 1) {
        return (bench_result){0, 0, "lines/s", "is for one thread"};
    }
    bench_random random = {3};
    char *memory = bench_memory(CHAIN, CHAIN_PAGE);
    uint32_t *order = bench_memory(CHAIN, sizeof *order);
    for (uint32_t i = 0; i < CHAIN; i++) {
        const uint32_t other = (uint32_t)bench_below(&random, i + 1);
        order[i] = order[other];
        order[other] = i;
    }
    chain apart = {memory, order, CHAIN_PAGE}, together = {memory, order, LINE_BYTES};
    bench_result result = bench_measure(read_chain, &apart, read_chain, &together, "lines/s");
    free(order);
    free(memory);
    return result;
}
