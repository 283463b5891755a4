/*
 * The benchmark program: bench [NAME...] [--json] [--threads LIST] [--cpu SET] [--list]. See doc/guide/benchmarks.md.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bench benches[] = {
    {"row-update", "random rows of 2 KB read, dotted and written; ceiling: the same one after another",
     bench_row_update},
    {"row-read-update", "the same, and a row of 32 MB read for every two; ceiling: row-update", bench_row_read_update},
    {"step-least", "a dense step's least work without the library; ceiling: row-update at two rows a step",
     bench_step_least},
    {"fma-peak", "fused multiply-adds on registers; ceiling: one thread's, times the threads", bench_fma_peak},
    {"line-pass", "a line of the cache goes from one of two threads to the other; against 60 ns a way",
     bench_line_pass},
    {"page-lookup", "lines read one after another, each in a page of its own; against as many that lie together",
     bench_page_lookup},
    {"step/implicit", "implicit SGD, dense D=512 K=217,240 n=m=1; ceiling: row-update at two rows a step",
     bench_step_implicit},
    {"step/umax", "the same for U-max", bench_step_umax},
    {"step/ove", "the same for one-vs-each", bench_step_ove},
    {"step/implicit-sparse", "implicit SGD, Bibtex m=1; least: the sparse kernels alone", bench_step_implicit_sparse},
    {"step/softmax-sparse", "exact softmax, Bibtex n=1; least: the sums over rows alone", bench_step_softmax_sparse},
    {"batch/softmax", "exact softmax training, dense D=512 K=20,000 n=256; ceiling: fma-peak", bench_batch_softmax},
    {"batch/softmax-sparse",
     "the same on sparse rows, 52 of D=8,000, K=12,000 n=256; ceiling: weights one after another",
     bench_batch_softmax_sparse},
    {"batch/sampled-shared",
     "sampled softmax, 1,000 draws a batch of 128 sparse rows, H=256 K=100,000, adagrad; ceiling: fma-peak",
     bench_batch_sampled_shared},
    {"batch/row-adagrad", "the same with K=1,000,000 and row-adagrad; against adagrad, in pairs",
     bench_batch_row_adagrad},
    {"batch/recomputed",
     "exact softmax, n=256 H=64 K=1,000,000, coefficients computed again; against the array of them, in pairs",
     bench_batch_recomputed},
    {"batch/fused", "the same: its three products, of five that are computed; ceiling: fma-peak", bench_batch_fused},
    {"evaluate/exact", "log-sum-exp, argmax and top 5, dense D=512 K=217,240; ceiling: fma-peak", bench_evaluate_exact},
    {"evaluate/blas", "the same; against OpenBLAS's product alone, in batches of 256", bench_evaluate_blas},
    {"evaluate/most", "sums in registers and their exponentials' multiply-adds; against OpenBLAS's product, in pairs",
     bench_evaluate_most},
    {"layout/sampled", "one-vs-each on sparse rows, class-major; against feature-major", bench_layout_sampled},
    {"layout/exact", "exact softmax on sparse rows, feature-major; against class-major", bench_layout_exact},
    {"tree/fit", "adversarial tree, N=490,449 K=213,874 D=64 k=16; against the goal of 60 s", bench_tree_fit},
    {"tree/draw", "a class and its log-probability, one thread; against the goal of 1 us", bench_tree_draw},
    {"tree/sweep", "log-probabilities of all K; ceiling: fma-peak on the nodes' products alone", bench_tree_sweep},
    {"step/tree", "negative sampling with the tree, D=512 K=213,874; against the same with uniform", bench_step_tree},
    {"read", "Extreme Classification text; ceiling: reading memory", bench_read},
};
enum { BENCHES = sizeof benches / sizeof benches[0], THREAD_COUNTS = 16, THREADS_MAX = 256 };

typedef struct settings {
    bool wanted[BENCHES];
    bool json;
    uint32_t threads[THREAD_COUNTS];
    size_t thread_counts;
} settings;

static void list(FILE *to)
{
    for (size_t i = 0; i < BENCHES; i++) {
        fprintf(to, "  %-22s %s\n", benches[i].name, benches[i].summary);
    }
}

/* A name selects itself, and all names that begin with it and a slash. */
static bool want(settings *s, const char *name)
{
    size_t length = strlen(name);
    bool found = false;
    for (size_t i = 0; i < BENCHES; i++) {
        const char *of = benches[i].name;
        if (strncmp(of, name, length) == 0 && (of[length] == '\0' || of[length] == '/')) {
            s->wanted[i] = found = true;
        }
    }
    return found;
}

/* Parses "1,2" to numbers. */
static bool read_threads(settings *s, const char *text)
{
    s->thread_counts = 0;
    for (;;) {
        char *end;
        unsigned long count = strtoul(text, &end, 10);
        if (end == text || *text == '-' || count < 1 || count > THREADS_MAX || s->thread_counts == THREAD_COUNTS) {
            return false;
        }
        s->threads[s->thread_counts++] = (uint32_t)count;
        if (*end == '\0') {
            return true;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
}

/* Limits every context of this program to an instruction set. Exits if this processor lacks it. */
static void use_set(const char *name)
{
    static const struct {
        const char *name;
        uint32_t disabled;
    } sets[] = {{"scalar", XSM_CPU_DISABLE_AVX2 | XSM_CPU_DISABLE_AVX512 | XSM_CPU_DISABLE_NEON},
                {"avx2", XSM_CPU_DISABLE_AVX512},
                {"avx512", 0},
                {"neon", 0}};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (strcmp(sets[i].name, name) != 0) {
            continue;
        }
        bench_disable(sets[i].disabled);
        xsm_context *ctx = bench_context(1);
        bool same = strcmp(bench_instruction_set(ctx), name) == 0;
        xsm_context_free(ctx);
        if (same) {
            return;
        }
        fprintf(stderr, "bench: --cpu %s: this processor cannot run it\n", name);
        exit(2);
    }
    fprintf(stderr, "bench: --cpu takes scalar, avx2, avx512 or neon, not '%s'\n", name);
    exit(2);
}

/* Exits for a usage error, and after --list. */
static settings read_arguments(int argc, char **argv)
{
    settings s = {{false}, false, {1, 2}, 2};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    bool some = false;
    s.thread_counts = processors < 2 ? 1 : 2;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            s.json = true;
        } else if (strcmp(argv[i], "--list") == 0) {
            list(stdout);
            exit(0);
        } else if (strcmp(argv[i], "--threads") == 0) {
            const char *text = i + 1 < argc ? argv[++i] : "";
            if (!read_threads(&s, text)) {
                fprintf(stderr, "bench: --threads takes numbers from 1 to %d separated by commas, not '%s'\n",
                        THREADS_MAX, text);
                exit(2);
            }
        } else if (strcmp(argv[i], "--cpu") == 0) {
            use_set(i + 1 < argc ? argv[++i] : "");
        } else if (argv[i][0] == '-') {
            fprintf(stderr, "bench: no option '%s'; there are --json, --threads LIST, --cpu SET and --list\n", argv[i]);
            exit(2);
        } else if (want(&s, argv[i])) {
            some = true;
        } else {
            fprintf(stderr, "bench: no benchmark '%s'; there are\n", argv[i]);
            list(stderr);
            exit(2);
        }
    }
    for (size_t i = 0; i < BENCHES && !some; i++) {
        s.wanted[i] = true;
    }
    return s;
}

static void print(const settings *s, const bench *b, uint32_t threads, const bench_result *r)
{
    double ratio = r->value / r->ceiling;
    if (s->json) {
        printf("{\"bench\":\"%s\",\"threads\":%u,\"value\":%.6g,\"unit\":\"%s\",\"ceiling\":%.6g,\"ratio\":%.4f}\n",
               b->name, threads, r->value, r->unit, r->ceiling, ratio);
    } else {
        printf("%-22s %7u %14.5g %14.5g  %-9s %7.3f\n", b->name, threads, r->value, r->ceiling, r->unit, ratio);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    settings s = read_arguments(argc, argv);
    if (!s.json) {
        printf("%-22s %7s %14s %14s  %-9s %7s\n", "bench", "threads", "value", "ceiling", "unit", "ratio");
    }
    const char *told = NULL;
    for (size_t i = 0; i < BENCHES; i++) {
        for (size_t t = 0; s.wanted[i] && t < s.thread_counts; t++) {
            bench_result r = benches[i].run(s.threads[t]);
            if (r.note && r.note != told) {
                fprintf(stderr, "bench: %s: %s\n", benches[i].name, r.note);
                told = r.note;
            }
            if (!(r.ceiling > 0)) {
                continue;
            }
            print(&s, &benches[i], s.threads[t], &r);
        }
    }
    return 0;
}
