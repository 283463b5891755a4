/*
 * Every thread does the same amount of work on its own part of the memory; the rate is that of all threads until the
 * last one finishes.
 */
#include "ceilings.h"

#include <stdio.h>
#include <stdlib.h>

#define FMA_ROUNDS ((size_t)1 << 22)
/* About a tenth of a second. */
#define BLOCK_ROUNDS ((size_t)1 << 17)
/* Rows that a thread processes in a run: about ten milliseconds. */
#define ROWS_A_RUN 50000

ceilings ceilings_new(uint32_t threads, float *rows, size_t row_count, size_t features)
{
    xsm_context *ctx = bench_context(threads);
    ceilings c = {.loops = peak_find(bench_instruction_set(ctx)),
                  .threads = threads,
                  .rows = rows,
                  .row_count = row_count,
                  .features = features,
                  .borrowed = rows != NULL};
    xsm_context_free(ctx);
    if (row_count > 0) {
        c.listed = ROWS_A_RUN;
        if (!rows) {
            c.rows = bench_memory(row_count * features, sizeof *c.rows);
        }
        c.x = bench_memory(CEILING_EXAMPLES * features, sizeof *c.x);
        c.list = bench_memory(threads * c.listed, sizeof *c.list);
        c.reads = bench_memory(threads * c.listed / 2, sizeof *c.reads);
        c.random.state = 1;
    }
    return c;
}

void ceilings_free(ceilings *c)
{
    if (!c->borrowed) {
        free(c->rows);
    }
    free(c->x);
    free(c->list);
    free(c->reads);
}

/* Operations a second of a loop on all threads. Its sums are used, so that it is not left out; none is NaN. */
static double loop_rate(const ceilings *c, float (*loop)(size_t), size_t rounds, double operations)
{
    float sum = 0;
    double start = peak_clock();
#pragma omp parallel for num_threads(c->threads) schedule(static, 1) reduction(+ : sum)
    for (uint32_t t = 0; t < c->threads; t++) {
        sum += loop(rounds);
    }
    double seconds = peak_clock() - start;
    return sum == sum ? operations * (double)rounds * c->threads / seconds : 0;
}

double ceiling_fma(void *state)
{
    const ceilings *c = state;
    return loop_rate(c, c->loops->fma, FMA_ROUNDS, c->loops->fma_operations);
}

double ceiling_block(void *state)
{
    const ceilings *c = state;
    return loop_rate(c, c->loops->block, BLOCK_ROUNDS, c->loops->block_operations);
}

static void draw_rows(ceilings *c)
{
    /* Different rows each time: the same 50,000 rows, 100 MB, would stay in a large processor's last-level cache from
     * run to run; rows chosen from all of them do not. */
    size_t part = c->row_count / c->threads;
    for (size_t i = 0; i < c->threads * c->listed; i++) {
        c->list[i] = (uint32_t)(i / c->listed * part + bench_below(&c->random, part));
    }
}

double ceiling_rows(void *state)
{
    ceilings *c = state;
    draw_rows(c);
    double start = peak_clock();
#pragma omp parallel for num_threads(c->threads) schedule(static, 1)
    for (uint32_t t = 0; t < c->threads; t++) {
        c->loops->rows(c->rows, c->list + t * c->listed, c->listed, c->x, c->features);
    }
    return (double)(c->listed * c->threads) / (peak_clock() - start);
}

static void draw_examples(ceilings *c)
{
    for (size_t i = 0; i < c->threads * c->listed / 2; i++) {
        c->reads[i] = (uint32_t)bench_below(&c->random, CEILING_EXAMPLES);
    }
}

double ceiling_steps(void *state)
{
    ceilings *c = state;
    draw_rows(c);
    draw_examples(c);
    const size_t part = c->listed, used = part / (2 * PEAK_STEPS) * (2 * PEAK_STEPS);
    double start = peak_clock();
#pragma omp parallel for num_threads(c->threads) schedule(static, 1)
    for (uint32_t t = 0; t < c->threads; t++) {
        c->loops->steps(c->rows, c->list + t * part, used, c->x, c->reads + t * (part / 2), c->features);
    }
    return 0.5 * (double)(used * c->threads) / (peak_clock() - start);
}

double ceiling_pairs(void *state)
{
    ceilings *c = state;
    draw_rows(c);
    draw_examples(c);
    double start = peak_clock();
#pragma omp parallel for num_threads(c->threads) schedule(static, 1)
    for (uint32_t t = 0; t < c->threads; t++) {
        c->loops->pairs(c->rows, c->list + t * c->listed, c->listed, c->x, c->reads + t * (c->listed / 2), c->features);
    }
    return (double)(c->listed * c->threads) / (peak_clock() - start);
}

/* Floats of each thread's part, a multiple of what the loops process at once. */
static size_t part_of(const ceilings *c)
{
    return c->row_count * c->features / c->threads / 64 * 64;
}

double ceiling_stream(void *state)
{
    const ceilings *c = state;
    size_t part = part_of(c);
    double start = peak_clock();
#pragma omp parallel for num_threads(c->threads) schedule(static, 1)
    for (uint32_t t = 0; t < c->threads; t++) {
        c->loops->update(c->rows + t * part, part);
    }
    return (double)(part * c->threads) / (double)c->features / (peak_clock() - start);
}

double ceiling_read(void *state)
{
    const ceilings *c = state;
    size_t part = part_of(c);
    float sum = 0;
    double start = peak_clock();
#pragma omp parallel for num_threads(c->threads) schedule(static, 1) reduction(+ : sum)
    for (uint32_t t = 0; t < c->threads; t++) {
        sum += c->loops->read(c->rows + t * part, part);
    }
    double seconds = peak_clock() - start;
    return sum == 0 ? (double)(part * c->threads) * sizeof(float) / seconds : 0;
}
