/*
 * The kernel benchmark: each kernel of each table at sizes that show L1, L2 and memory, beside a ceiling that is
 * measured in the same run, in turn with the kernel, so that a busy machine slows both. Arithmetic is compared with
 * fused multiply-adds on registers, row kernels with a plain pass of the same kind over as many bytes.
 */
#include "checkkernels.h"

#include "peak.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define RUNS 7
#define RUN_SECONDS 4e-3

#define L1_FLOATS 4096                /* 16 KiB */
#define L2_FLOATS (96 * 1024)         /* 384 KiB */
#define BIG_FLOATS (64 * 1024 * 1024) /* 256 MiB */

enum { dim = 512, classes = XSMI_CLASS_TILE, blocks = 8, examples = blocks * XSMI_LANES, top = 5, nnz = 96 };

/* All that a case may use: prepared once, every page touched. */
typedef struct bench {
    const xsmi_kernels *k;
    const peak_loops *peak;
    size_t floats;   /* size of the case, in floats of `big` */
    size_t position; /* where in `big` the next piece of work begins: memory cases move on */
    float *big;
    float *other;
    float *packed;
    float *scores;
    const float *row[examples];
    uint32_t rows[64];
    uint32_t index[nnz];
    float factor[64];
    float result[256];
    xsmi_reduction reduction[blocks];
    volatile float sink;
} bench;

static uint32_t next_random(void)
{
    static uint64_t state = 88172645463325252ULL;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

/* -- the work of a case ------------------------------------------------------------------------------ */

/* Moves through `big` so that a case larger than the caches never finds its data there. */
static float *next_piece(bench *b, size_t n)
{
    if (b->position + n > b->floats) {
        b->position = 0;
    }
    float *piece = b->big + b->position;
    b->position += n;
    return piece;
}

/* Row kernels take at most this much at once, as a row of scores would be. */
#define PIECE_FLOATS (32 * 1024)

static size_t piece_size(const bench *b)
{
    return b->floats < PIECE_FLOATS ? b->floats : PIECE_FLOATS;
}

static void run_dot(bench *b)
{
    size_t n = piece_size(b) / 2;
    const float *x = next_piece(b, 2 * n);
    b->sink = b->k->dot(x, x + n, n);
}

static void run_axpby(bench *b)
{
    size_t n = piece_size(b) / 2;
    float *x = next_piece(b, 2 * n);
    b->k->axpby(x, x + n, n, 1e-9f, 0.999f);
}

static void run_scale(bench *b)
{
    b->k->scale(next_piece(b, piece_size(b)), piece_size(b), -1.0f);
}

static void run_row_max(bench *b)
{
    b->sink = b->k->row_max(next_piece(b, piece_size(b)), piece_size(b));
}

static void run_row_scaled_max(bench *b)
{
    b->sink = b->k->row_scaled_max(next_piece(b, piece_size(b)), piece_size(b), -1.0f, 0.0f);
}

static void run_row_sum_exp(bench *b)
{
    b->sink = (float)b->k->row_sum_exp(next_piece(b, piece_size(b)), piece_size(b), 1.0f);
}

static void run_row_softmax(bench *b)
{
    b->k->row_softmax(next_piece(b, piece_size(b)), piece_size(b), 1.0f, 1.0f, b->other);
}

static void draw_rows(bench *b, size_t m)
{
    for (size_t j = 0; j < m; j++) {
        b->rows[j] = next_random() % (uint32_t)(b->floats / dim);
    }
}

#define SOME_ROWS 6

static void run_gather_scores(bench *b)
{
    draw_rows(b, SOME_ROWS);
    b->k->gather_scores(b->big, dim, b->rows, SOME_ROWS, b->other, dim, b->result, NULL);
}

static void run_scatter_update(bench *b)
{
    draw_rows(b, SOME_ROWS);
    b->k->scatter_update(b->big, dim, b->rows, SOME_ROWS, b->other, dim, b->factor, NULL);
}

static void run_sparse_gather(bench *b)
{
    draw_rows(b, SOME_ROWS);
    b->k->sparse_gather_scores(b->big, dim, b->rows, SOME_ROWS, b->index, b->other, nnz, b->result);
}

static void run_sparse_scatter(bench *b)
{
    draw_rows(b, SOME_ROWS);
    b->k->sparse_scatter_update(b->big, dim, b->rows, SOME_ROWS, b->index, b->other, nnz, b->factor);
}

/* 96 features of COLUMNS classes each. */
#define COLUMNS 256 /* what bench.result holds */

static void run_column_sums(bench *b)
{
    b->k->column_sums(b->big, COLUMNS, b->index, b->other, nnz, COLUMNS, b->result);
}

static void run_column_update(bench *b)
{
    b->k->column_update(b->big, COLUMNS, b->index, b->other, nnz, COLUMNS, b->other + dim, 1e-9f);
}

static void run_pack(bench *b)
{
    b->k->pack(b->row, XSMI_LANES, dim, b->packed);
}

static void run_score_tile(bench *b)
{
    b->k->score_tile(b->big, dim, classes, b->packed, dim, 1.0f, NULL, b->other, b->scores);
}

static void run_reduce_tile(bench *b)
{
    b->k->reduce_tile(b->scores, classes, 0, b->reduction);
}

static void run_rank_update(bench *b)
{
    b->k->rank_update(b->big, dim, classes, b->other, classes, b->row, examples, dim);
}

static void run_rank_packed(bench *b)
{
    b->k->rank_packed(true, b->big, dim, classes, b->other, 1, classes, b->packed, (size_t)examples * XSMI_LANES,
                      examples, dim, NULL);
}

/* A class tile against a batch of 256: the weights come once, from memory if `floats` says so. */
static void exact_scoring(bench *b, size_t d)
{
    const float *w = next_piece(b, classes * d);
    uint32_t first = (uint32_t)((size_t)(w - b->big) / d);
    if (first == 0) {
        for (size_t l = 0; l < blocks; l++) {
            xsmi_reduction_start(b->reduction + l);
        }
    }
    for (size_t l = 0; l < blocks; l++) {
        b->k->score_tile(w, d, classes, b->packed + l * XSMI_LANES * d, d, 1.0f, NULL, b->other, b->scores);
        b->k->reduce_tile(b->scores, classes, first, b->reduction + l);
    }
}

static void run_exact_64(bench *b)
{
    exact_scoring(b, 64);
}

static void run_exact_512(bench *b)
{
    exact_scoring(b, dim);
}

/* -- ceilings ---------------------------------------------------------------------------------------- */

#define FMA_ROUNDS 1000

static void run_peak_fma(bench *b)
{
    b->sink = b->peak->fma(FMA_ROUNDS);
}

static void run_peak_read(bench *b)
{
    b->sink = b->peak->read(next_piece(b, piece_size(b)), piece_size(b));
}

static void run_peak_update(bench *b)
{
    b->peak->update(next_piece(b, piece_size(b)), piece_size(b));
}

/* -- the cases --------------------------------------------------------------------------------------- */

typedef enum { FMA, READ, UPDATE } ceiling;

typedef struct bench_case {
    const char *name;
    void (*run)(bench *b);
    ceiling against;
    size_t floats; /* 0: the three sizes */
    double work;   /* operations or bytes of a call; 0: the bytes of a piece */
} bench_case;

static const bench_case cases[] = {
    {"score + reduce, top 5, d 512, memory", run_exact_512, FMA, BIG_FLOATS, 2.0 * classes *dim *examples},
    {"score + reduce, top 5, d 512, L2", run_exact_512, FMA, classes *dim, 2.0 * classes *dim *examples},
    {"score + reduce, top 5, d 64, memory", run_exact_64, FMA, BIG_FLOATS, 2.0 * classes * 64 * examples},
    {"score_tile, d 512, L2", run_score_tile, FMA, classes *dim, 2.0 * classes *dim *XSMI_LANES},
    {"rank_update, 256 examples, d 512, L2", run_rank_update, FMA, classes *dim, 2.0 * classes *dim *examples},
    {"rank_packed, 256 examples, d 512, L2", run_rank_packed, FMA, classes *dim, 2.0 * classes *dim *examples},
    {"reduce_tile, top 5", run_reduce_tile, READ, L1_FLOATS, 4.0 * classes *XSMI_LANES},
    {"pack, d 512", run_pack, UPDATE, L1_FLOATS, 8.0 * XSMI_LANES *dim},
    {"dot", run_dot, READ, 0, 0},
    {"axpby", run_axpby, UPDATE, 0, 0},
    {"scale", run_scale, UPDATE, 0, 0},
    {"row_max", run_row_max, READ, 0, 0},
    {"row_scaled_max", run_row_scaled_max, UPDATE, 0, 0},
    {"row_sum_exp", run_row_sum_exp, READ, 0, 0},
    {"row_softmax", run_row_softmax, UPDATE, 0, 0},
    {"gather_scores, 6 rows, d 512", run_gather_scores, READ, L2_FLOATS, 4.0 * SOME_ROWS *dim},
    {"gather_scores, 6 rows, d 512, memory", run_gather_scores, READ, BIG_FLOATS, 4.0 * SOME_ROWS *dim},
    {"scatter_update, 6 rows, d 512", run_scatter_update, UPDATE, L2_FLOATS, 8.0 * SOME_ROWS *dim},
    {"scatter_update, 6 rows, d 512, memory", run_scatter_update, UPDATE, BIG_FLOATS, 8.0 * SOME_ROWS *dim},
    {"sparse_gather_scores, 6 x 96", run_sparse_gather, READ, L2_FLOATS, 4.0 * SOME_ROWS *nnz},
    {"sparse_gather_scores, 6 x 96, memory", run_sparse_gather, READ, BIG_FLOATS, 4.0 * SOME_ROWS *nnz},
    {"sparse_scatter_update, 6 x 96", run_sparse_scatter, UPDATE, L2_FLOATS, 8.0 * SOME_ROWS *nnz},
    {"column_sums, 96 x 256", run_column_sums, READ, L2_FLOATS, 4.0 * COLUMNS *nnz},
    {"column_update, 96 x 256", run_column_update, UPDATE, L2_FLOATS, 8.0 * COLUMNS *nnz},
    {"sparse_scatter_update, 6 x 96, memory", run_sparse_scatter, UPDATE, BIG_FLOATS, 8.0 * SOME_ROWS *nnz},
};

static double seconds_of(bench *b, void (*run)(bench *), size_t times)
{
    double start = peak_clock();
    for (size_t t = 0; t < times; t++) {
        run(b);
    }
    return peak_clock() - start;
}

static size_t times_for(bench *b, void (*run)(bench *))
{
    size_t times = 1;
    while (times < ((size_t)1 << 30) && seconds_of(b, run, times) < RUN_SECONDS / 4) {
        times *= 2;
    }
    return times * 4;
}

/* Best rates of the kernel and its ceiling, run in turn. */
static void measure(bench *b, const bench_case *c, double *rate, double *top_rate)
{
    void (*const ceilings[])(bench *) = {run_peak_fma, run_peak_read, run_peak_update};
    void (*const ceiling_run)(bench *) = ceilings[c->against];
    double bytes = (double)piece_size(b) * sizeof(float);
    double both_ways = c->against == UPDATE ? 2.0 : 1.0;
    double ceiling_work = c->against == FMA ? b->peak->fma_operations * FMA_ROUNDS : bytes * both_ways;
    double work = c->work;
    if (c->work == 0.0) {
        work = c->run == run_axpby ? 1.5 * bytes : bytes * both_ways;
    }
    b->position = 0;
    size_t times = times_for(b, c->run);
    size_t ceiling_times = times_for(b, ceiling_run);
    *rate = *top_rate = 0.0;
    for (int r = 0; r < RUNS; r++) {
        double got = work * (double)times / seconds_of(b, c->run, times);
        double most = ceiling_work * (double)ceiling_times / seconds_of(b, ceiling_run, ceiling_times);
        *rate = got > *rate ? got : *rate;
        *top_rate = most > *top_rate ? most : *top_rate;
    }
}

static float *touched(size_t n)
{
    float *p = NULL;
    if (posix_memalign((void **)&p, 2 * 1024 * 1024, n * sizeof(float)) != 0) {
        return NULL;
    }
    /* Huge pages, as the library asks for weights of this size. */
    (void)madvise(p, n * sizeof(float), MADV_HUGEPAGE);
    for (size_t i = 0; i < n; i++) {
        p[i] = (float)(next_random() % 2048) * 0x1p-10f - 1.0f;
    }
    return p;
}

static void print_case(bench *b, const bench_case *c, const char *suffix)
{
    char name[64];
    snprintf(name, sizeof(name), "%s%s", c->name, suffix);
    printf("%-40s", name);
    for (const xsmi_kernels *const *k = check_tables; *k != NULL; k++) {
        if (!check_available(*k)) {
            continue;
        }
        double rate;
        double top_rate;
        b->k = *k;
        b->peak = peak_find((*k)->name);
        measure(b, c, &rate, &top_rate);
        printf("%9.1f /%7.1f =%5.1f %%", rate * 1e-9, top_rate * 1e-9, 100.0 * rate / top_rate);
        fflush(stdout);
    }
    printf("  %s\n", c->against == FMA ? "GFLOP/s" : "GB/s");
}

int check_bench(void)
{
    static bench b;
    static float max[blocks][XSMI_LANES];
    static double sum[blocks][XSMI_LANES];
    static float top_score[blocks][top * XSMI_LANES];
    static uint32_t top_class[blocks][top * XSMI_LANES];
    static uint32_t target[XSMI_LANES];
    static float target_score[blocks][XSMI_LANES];
    b.big = touched(BIG_FLOATS);
    b.other = touched(examples * (size_t)classes);
    b.packed = touched((size_t)examples * dim);
    b.scores = touched(classes * XSMI_LANES);
    float *x = touched((size_t)examples * dim);
    if (b.big == NULL || b.other == NULL || b.packed == NULL || b.scores == NULL || x == NULL) {
        fprintf(stderr, "checkkernels: not enough memory\n");
        return 1;
    }
    for (size_t i = 0; i < examples; i++) {
        b.row[i] = x + i * dim;
    }
    for (uint32_t i = 0; i < nnz; i++) {
        b.index[i] = i * dim / nnz + next_random() % (dim / nnz);
    }
    for (size_t j = 0; j < 64; j++) {
        b.factor[j] = 1e-9f;
    }
    for (size_t l = 0; l < blocks; l++) {
        b.reduction[l] =
            (xsmi_reduction){max[l], sum[l], top, top_score[l], top_class[l], target, target_score[l], XSMI_LANES};
        xsmi_reduction_start(b.reduction + l);
    }
    printf("One thread; rate / ceiling of the same run. GFLOP/s against fused multiply-adds on registers,\n"
           "GB/s against plain reading, or reading and writing.\n%-40s",
           "");
    for (const xsmi_kernels *const *k = check_tables; *k != NULL; k++) {
        if (check_available(*k)) {
            printf("%26s", (*k)->name);
        }
    }
    printf("\n");
    static const struct {
        const char *suffix;
        size_t floats;
    } sizes[] = {{", L1", L1_FLOATS}, {", L2", L2_FLOATS}, {", memory", BIG_FLOATS}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        for (size_t s = 0; s < (cases[c].floats == 0 ? 3 : 1); s++) {
            b.floats = cases[c].floats == 0 ? sizes[s].floats : cases[c].floats;
            print_case(&b, cases + c, cases[c].floats == 0 ? sizes[s].suffix : "");
        }
    }
    free(b.big);
    free(b.other);
    free(b.packed);
    free(b.scores);
    free(x);
    return 0;
}
