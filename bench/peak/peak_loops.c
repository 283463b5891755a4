/*
 * The loops of one instruction set, written with the compilers' vector types and built once for each set with its
 * flags: PEAK_NAME is the set's name, PEAK_LANES the floats in its vectors. The compiler fuses multiply and add
 * (-ffp-contract=fast) if the set can; the base x86-64 cannot, and executes them one after the other.
 */
#include "peak.h"

#include <math.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

typedef float vector __attribute__((vector_size(PEAK_LANES * sizeof(float)), aligned(4), may_alias));

/* Enough independent chains for two units of latency four, few enough for 16 registers. */
#define CHAINS 12

static float first_lane(vector v)
{
    float lane[PEAK_LANES];
    __builtin_memcpy(lane, &v, sizeof(lane));
    return lane[0];
}

static float fma_loop(size_t rounds)
{
    vector acc[CHAINS];
    const vector zero = {0};
    const vector a = zero + 0.999f;
    const vector b = zero + 0.001f;
    for (int k = 0; k < CHAINS; k++) {
        acc[k] = zero + (float)k;
    }
    for (size_t r = 0; r < rounds; r++) {
        UNROLL
        for (int k = 0; k < CHAINS; k++) {
            acc[k] = acc[k] * a + b;
        }
    }
    vector sum = zero;
    for (int k = 0; k < CHAINS; k++) {
        sum += acc[k];
    }
    return first_lane(sum);
}

/* The block of block(): twelve sums. Numbers of PIECE features, 9 KB with 8 lanes, are used again and again. */
#define BLOCK_CLASSES 3
#define BLOCK_VECTORS 4
#define PIECE 64
#define EXP_OPERATIONS 10
/* Keeps a vector in a register, so that a number is read once for all of its multiply-adds. */
#ifdef __AVX__
#define KEEP(a) __asm__("" : "+x"(a))
#else
#define KEEP(a) ((void)(a))
#endif

static float block_loop(size_t rounds)
{
    /* A vector that lies in two lines of the cache would take two reads. */
    __attribute__((aligned(64))) float rows[PIECE][BLOCK_VECTORS * PEAK_LANES];
    float classes[BLOCK_CLASSES][PIECE];
    uint32_t state = 1;
    for (size_t i = 0; i < PIECE; i++) { /* between -0.5 and 0.5, all bits in use */
        for (size_t l = 0; l < BLOCK_VECTORS * PEAK_LANES; l++) {
            state = state * 1664525 + 1013904223;
            rows[i][l] = (float)(state >> 8) * 0x1p-24f - 0.5f;
        }
        for (size_t c = 0; c < BLOCK_CLASSES; c++) {
            state = state * 1664525 + 1013904223;
            classes[c][i] = (float)(state >> 8) * 0x1p-24f - 0.5f;
        }
    }
    const vector zero = {0};
    const vector a = zero + 0.5f, b = zero + 0.001f;
    vector acc[BLOCK_CLASSES][BLOCK_VECTORS] = {{{0}}};
    for (size_t r = 0; r < rounds; r++) {
        for (size_t piece = 0; piece < PEAK_FEATURES / PIECE; piece++) {
            for (size_t i = 0; i < PIECE; i++) {
                vector factor[BLOCK_CLASSES];
                UNROLL
                for (int c = 0; c < BLOCK_CLASSES; c++) {
                    factor[c] = classes[c][i] - zero;
                    KEEP(factor[c]);
                }
                UNROLL
                for (int v = 0; v < BLOCK_VECTORS; v++) {
                    const vector x = *(const vector *)(const void *)(rows[i] + v * PEAK_LANES);
                    UNROLL
                    for (int c = 0; c < BLOCK_CLASSES; c++) {
                        acc[c][v] += x * factor[c];
                    }
                }
            }
        }
        UNROLL
        for (int k = 0; k < EXP_OPERATIONS; k++) {
            UNROLL
            for (int c = 0; c < BLOCK_CLASSES; c++) {
                UNROLL
                for (int v = 0; v < BLOCK_VECTORS; v++) {
                    acc[c][v] = acc[c][v] * a + b;
                }
            }
        }
    }
    vector sum = zero;
    UNROLL
    for (int c = 0; c < BLOCK_CLASSES; c++) {
        UNROLL
        for (int v = 0; v < BLOCK_VECTORS; v++) {
            sum += acc[c][v];
        }
    }
    return first_lane(sum);
}

static float read_loop(const float *x, size_t n)
{
    vector acc[4] = {{0}};
    for (size_t i = 0; i < n; i += 4 * PEAK_LANES) {
        UNROLL
        for (int k = 0; k < 4; k++) {
            acc[k] += *(const vector *)(const void *)(x + i + k * PEAK_LANES);
        }
    }
    return first_lane(acc[0] + acc[1] + acc[2] + acc[3]);
}

static void update_loop(float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 4 * PEAK_LANES) {
        UNROLL
        for (int k = 0; k < 4; k++) {
            vector *v = (vector *)(void *)(x + i + k * PEAK_LANES);
            *v = *v * -1.0f;
        }
    }
}

/* How many rows ahead a row is prefetched. */
#define ROWS_AHEAD 6

/* `reads` NULL, a constant: the same x for all rows. */
static inline __attribute__((always_inline)) void take_rows(float *w, const uint32_t *list, size_t count,
                                                            const float *matrix, const uint32_t *reads, size_t n)
{
    for (size_t r = 0; r < count; r++) {
        const float *coming = w + list[r + ROWS_AHEAD < count ? r + ROWS_AHEAD : r] * n;
        float *row = w + list[r] * n;
        const float *x = reads ? matrix + reads[r / 2] * n : matrix;
        const float *coming_x = reads ? matrix + reads[(r + ROWS_AHEAD < count ? r + ROWS_AHEAD : r) / 2] * n : matrix;
        vector acc[4] = {{0}};
        for (size_t i = 0; i < n; i += 4 * PEAK_LANES) {
            for (int k = 0; k < 4 * PEAK_LANES; k += 16) {
                __builtin_prefetch(coming + i + k, 1, 3);
                if (reads && r % 2 == 0) {
                    __builtin_prefetch(coming_x + i + k, 0, 3);
                }
            }
            UNROLL
            for (int k = 0; k < 4; k++) {
                acc[k] += *(const vector *)(const void *)(row + i + k * PEAK_LANES) *
                          *(const vector *)(const void *)(x + i + k * PEAK_LANES);
            }
        }
        vector sum = acc[0] + acc[1] + acc[2] + acc[3];
        float lane[PEAK_LANES];
        __builtin_memcpy(lane, &sum, sizeof(lane));
        float dot = 0;
        UNROLL
        for (int l = 0; l < PEAK_LANES; l++) {
            dot += lane[l];
        }
        const vector zero = {0};
        const vector change = zero + 1e-6f * dot;
        for (size_t i = 0; i < n; i += 4 * PEAK_LANES) {
            UNROLL
            for (int k = 0; k < 4; k++) {
                vector *v = (vector *)(void *)(row + i + k * PEAK_LANES);
                *v += change * *(const vector *)(const void *)(x + i + k * PEAK_LANES);
            }
        }
    }
}

static void rows_loop(float *w, const uint32_t *list, size_t count, const float *x, size_t n)
{
    take_rows(w, list, count, x, NULL, n);
}

static void pairs_loop(float *w, const uint32_t *list, size_t count, const float *matrix, const uint32_t *reads,
                       size_t n)
{
    take_rows(w, list, count, matrix, reads, n);
}

/* Prefetches three rows of a step from `from` on, half of each. */
static inline __attribute__((always_inline)) void fetch_step(const float *const rows[3], size_t from)
{
    __builtin_prefetch(rows[0] + from, 0, 3);
    __builtin_prefetch(rows[1] + from, 1, 3);
    __builtin_prefetch(rows[2] + from, 1, 3);
}

/* The example and the two rows of a step. */
#define STEP_ROWS(s)                                                                                                   \
    {                                                                                                                  \
        matrix + reads[s] * n, w + list[2 * (s)] * n, w + list[2 * (s) + 1] * n                                        \
    }

static float sum_of(const vector acc[4])
{
    const vector sum = acc[0] + acc[1] + acc[2] + acc[3];
    float lane[PEAK_LANES];
    __builtin_memcpy(lane, &sum, sizeof(lane));
    float all = 0;
    UNROLL
    for (int l = 0; l < PEAK_LANES; l++) {
        all += lane[l];
    }
    return all;
}

static void steps_loop(float *w, const uint32_t *list, size_t count, const float *matrix, const uint32_t *reads,
                       size_t n)
{
    const size_t steps = count / 2;
    const vector zero = {0};
    for (size_t first = 0; first < steps; first += PEAK_STEPS) {
        const size_t ahead = first + PEAK_STEPS < steps ? PEAK_STEPS : 0;
        float score[PEAK_STEPS], change[PEAK_STEPS];
        for (size_t b = 0; b < PEAK_STEPS; b++) {
            const float *const row[3] = STEP_ROWS(first + b), *const coming[3] = STEP_ROWS(first + b + ahead);
            vector own[4] = {{0}}, other[4] = {{0}};
            for (size_t i = 0; i < n; i += 4 * PEAK_LANES) {
                for (size_t k = 0; k < 4 * PEAK_LANES; k += 32) {
                    fetch_step(coming, (i + k) / 2);
                }
                UNROLL
                for (int k = 0; k < 4; k++) {
                    const vector x = *(const vector *)(const void *)(row[0] + i + k * PEAK_LANES);
                    own[k] += *(const vector *)(const void *)(row[1] + i + k * PEAK_LANES) * x;
                    other[k] += *(const vector *)(const void *)(row[2] + i + k * PEAK_LANES) * x;
                }
            }
            score[b] = sum_of(other) - sum_of(own);
        }
        for (size_t b = 0; b < PEAK_STEPS; b++) {
            const double e = exp((double)score[b]);
            change[b] = (float)(1e-6 * e * exp(-log(1 + e)));
        }
        for (size_t b = PEAK_STEPS; b-- > 0;) {
            const float *const row[3] = STEP_ROWS(first + b), *const coming[3] = STEP_ROWS(first + b + ahead);
            float *own = w + list[2 * (first + b)] * n, *other = w + list[2 * (first + b) + 1] * n;
            const vector by = zero + change[b];
            for (size_t i = 0; i < n; i += 4 * PEAK_LANES) {
                for (size_t k = 0; k < 4 * PEAK_LANES; k += 32) {
                    fetch_step(coming, (n + i + k) / 2);
                }
                UNROLL
                for (int k = 0; k < 4; k++) {
                    const size_t at = i + (size_t)k * PEAK_LANES;
                    const vector x = *(const vector *)(const void *)(row[0] + at);
                    *(vector *)(void *)(own + at) += by * x;
                    *(vector *)(void *)(other + at) -= by * x;
                }
            }
        }
    }
}

extern const peak_loops JOIN(peak_, PEAK_NAME);
const peak_loops JOIN(peak_, PEAK_NAME) = {
    .name = TEXT(PEAK_NAME),
    .fma_operations = 2.0 * CHAINS * PEAK_LANES,
    .fma = fma_loop,
    .block_operations = 2.0 * BLOCK_CLASSES * BLOCK_VECTORS * PEAK_LANES * PEAK_FEATURES,
    .block = PEAK_LANES == 16 ? NULL : block_loop, /* with 32 registers larger blocks are faster */
    .read = read_loop,
    .update = update_loop,
    .rows = rows_loop,
    .pairs = pairs_loop,
    .steps = steps_loop,
};
