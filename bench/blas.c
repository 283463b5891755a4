/*
 * OpenBLAS, loaded with dlopen(): the benchmarks can be built without a BLAS, and the library never uses one.
 */
#include "blas.h"

#include "bench.h"
#include "data.h"
#include "peak.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };

static float *matrix(size_t rows, size_t columns)
{
    bench_random random = {8};
    float *of = bench_memory(rows * columns, sizeof *of);
    for (size_t i = 0; i < rows * columns; i++) {
        of[i] = bench_uniform(&random);
    }
    return of;
}

blas blas_new(const char *set, uint32_t threads, size_t rows, size_t classes, size_t features)
{
    blas b = {.rows = rows, .classes = classes, .features = features};
    /* OpenBLAS's kernels for the instruction set, whatever the processor. */
    (void)setenv("OPENBLAS_CORETYPE",
                 strcmp(set, "avx512") == 0 ? "SkylakeX"
                 : strcmp(set, "avx2") == 0 ? "Haswell"
                 : strcmp(set, "neon") == 0 ? "ARMV8"
                                            : "Prescott",
                 1);
    b.library = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!b.library) {
        return b;
    }
    void (*set_threads)(int);
    void *symbol = dlsym(b.library, "cblas_sgemm");
    memcpy(&b.multiply, &symbol, sizeof symbol);
    symbol = dlsym(b.library, "openblas_set_num_threads");
    memcpy(&set_threads, &symbol, sizeof symbol);
    if (set_threads) {
        set_threads((int)threads);
    }
    b.a = matrix(rows, features);
    b.b = matrix(classes, features);
    b.c = matrix(rows, classes);
    return b;
}

void blas_free(blas *b)
{
    free(b->a);
    free(b->b);
    free(b->c);
    if (b->library) {
        (void)dlclose(b->library);
    }
}

double blas_rate(void *state)
{
    const blas *b = state;
    double start = peak_clock();
    b->multiply(ROW_MAJOR, PLAIN, TRANSPOSED, (int)b->rows, (int)b->classes, (int)b->features, 1, b->a,
                (int)b->features, b->b, (int)b->features, 0, b->c, (int)b->classes);
    return 2.0 * (double)b->rows * (double)b->classes * (double)b->features / (peak_clock() - start);
}
