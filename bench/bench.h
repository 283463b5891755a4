/*
 * Shared by the benchmarks: the interface of a benchmark, and how one is measured.
 *
 * Machines are noisy, and their clock rate changes from one second to the next. So a rate is never compared with a rate
 * of another run: a benchmark and its ceiling run in turn, each rate is the best of several short runs, and their ratio
 * is the result to compare. All memory is touched before the clock starts.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <xsoftmax.h>

typedef struct bench_result {
    double value, ceiling;
    const char *unit;
    const char *note; /* a description of the data, or NULL */
} bench_result;

typedef struct bench {
    const char *name, *summary;
    /* Measures on that many threads. */
    bench_result (*run)(uint32_t threads);
} bench;

/* Ends the program with exit status 1 if a call failed; otherwise it does nothing. */
void bench_check(xsm_status status, const xsm_error *err);
/* Memory for `count` elements of `each` bytes, aligned for huge pages and touched; the caller frees it with free().
 * Never NULL. */
void *bench_memory(size_t count, size_t each);
/* Instruction sets (XSM_CPU_DISABLE_*) that no context made from now on will use. */
void bench_disable(uint32_t sets);
/* A context of that many threads. */
xsm_context *bench_context(uint32_t threads);
/* The instruction set that it uses. */
const char *bench_instruction_set(const xsm_context *context);

/* Does some tens of milliseconds of work and returns its rate, in any unit per second. */
typedef double (*bench_rate)(void *state);
/* The best rates of `work` and of `ceiling`, run in turn after one run of each that does not count. */
bench_result bench_measure(bench_rate work, void *work_state, bench_rate ceiling, void *ceiling_state,
                           const char *unit);
/* For rates whose limit changes from one moment to the next, as that of memory does. Each run of `work` is paired with
 * the mean of the ceilings before and after it; the result is the pair with the median ratio. */
bench_result bench_measure_pairs(bench_rate work, void *work_state, bench_rate ceiling, void *ceiling_state,
                                 const char *unit);

/* The benchmarks: one line each in main.c. */
bench_result bench_row_update(uint32_t threads);
bench_result bench_row_read_update(uint32_t threads);
bench_result bench_step_least(uint32_t threads);
bench_result bench_fma_peak(uint32_t threads);
bench_result bench_line_pass(uint32_t threads);
bench_result bench_page_lookup(uint32_t threads);
bench_result bench_step_implicit(uint32_t threads);
bench_result bench_step_umax(uint32_t threads);
bench_result bench_step_ove(uint32_t threads);
bench_result bench_step_implicit_sparse(uint32_t threads);
bench_result bench_step_softmax_sparse(uint32_t threads);
bench_result bench_batch_softmax(uint32_t threads);
bench_result bench_batch_softmax_sparse(uint32_t threads);
bench_result bench_batch_sampled_shared(uint32_t threads);
bench_result bench_batch_row_adagrad(uint32_t threads);
bench_result bench_batch_recomputed(uint32_t threads);
bench_result bench_batch_fused(uint32_t threads);
bench_result bench_evaluate_exact(uint32_t threads);
bench_result bench_evaluate_blas(uint32_t threads);
bench_result bench_evaluate_most(uint32_t threads);
bench_result bench_layout_sampled(uint32_t threads);
bench_result bench_layout_exact(uint32_t threads);
bench_result bench_read(uint32_t threads);
bench_result bench_tree_fit(uint32_t threads);
bench_result bench_tree_draw(uint32_t threads);
bench_result bench_tree_sweep(uint32_t threads);
bench_result bench_step_tree(uint32_t threads);

#endif
