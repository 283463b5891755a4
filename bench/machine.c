/*
 * row-update, row-read-update, step-least and fma-peak: the limits of the machine. They are the ceilings of the other
 * benchmarks, or show how near to a ceiling code can come. They have ceilings themselves mainly to distinguish a noisy
 * machine from a quiet one.
 */
#include "ceilings.h"
#include "shape.h"

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
