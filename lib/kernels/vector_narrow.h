/*
 * The kernels on weights that are stored in fewer bits, over the vocabulary of vector_rows.h and vector_tiles.h, which
 * includes this file, and
 *   v_load_NAME    VW numbers of each kind (weight_kinds.h), widened
 *   NARROW_GROUPS  the most vectors of classes that are scored at once
 *
 * Widening is exact, and the sums are those of the kernels on floats, so that the bits are theirs, too, in every
 * instruction set. Instructions that multiply such numbers as they are stay unused: those of AVX-512 and NEON for
 * bfloat16 round otherwise and take subnormal numbers for zeros, and those for integers need rows of integers.
 *
 * Screening reads rows of any type one after another, so that the processor itself prefetches what follows: it reaches
 * nearly the rate at which memory can be read, and sums with lanes over features, in another order than full scoring.
 */
#ifndef XSMI_VECTOR_NARROW_H
#define XSMI_VECTOR_NARROW_H

#include "kernels/vector_few.h"

/* VW numbers from number `at` on, widened. Here and below `dtype` is a constant wherever this is inlined. */
#define v_load_float32 v_load
XSMI_INLINE vf load_narrow(const int32_t dtype, const void *data, size_t at)
{
#define LOAD_OF_KIND(with, TYPE, name, number, ...)                                                                    \
    case XSM_DTYPE_##TYPE:                                                                                             \
        return v_load_##name((const number *)data + at);
    switch (dtype) {
        XSMI_WEIGHT_KINDS(LOAD_OF_KIND, )
    default:
        return v_set(NAN);
    }
}

/* The k-th bfloat16 (k < 2) in the 32 bits of each lane, widened. */
XSMI_INLINE vf bfloat16_part(vf a, size_t k)
{
    return (vf)(k == 0 ? (v_bits)a << 16 : (v_bits)a & UINT32_C(0xffff0000));
}

/* The same for the k-th int8 (k < 4). A byte at bit 0 becomes the last bits of 2^23 + 128 + the number, one at bit 8
 * bits of 2^15 + 128 + the number, from which the rest is subtracted. */
XSMI_INLINE vf int8_part(vf a, size_t k)
{
    const vf base = v_set(k % 2 == 0 ? 0x1p+23f + 128.0f : 0x1p+15f + 128.0f);
    const v_bits bits = k < 2 ? (v_bits)a : (v_bits)a >> 16;
    return (vf)((bits & (UINT32_C(0xff) << k % 2 * 8)) ^ (v_bits)base) - base;
}

/* load_narrow() of n < VW numbers: the others are read as 0. */
XSMI_INLINE vf load_narrow_first(const int32_t dtype, const void *data, size_t at, size_t n)
{
    uint16_t numbers[VW] = {0};
    const size_t size = xsmi_number_bytes(dtype);
    if (dtype == XSM_DTYPE_FLOAT32) {
        return v_load_first((const float *)data + at, n);
    }
    memcpy(numbers, (const unsigned char *)data + at * size, n * size);
    return load_narrow(dtype, numbers, 0);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

XSMI_INLINE void widen_numbers(const int32_t dtype, const void *data, size_t n, float *out)
{
    size_t i = 0;
    for (; i + VW <= n; i += VW) {
        v_store(out + i, load_narrow(dtype, data, i));
    }
    if (i < n) {
        v_store_first(out + i, load_narrow_first(dtype, data, i, n - i), n - i);
    }
}

static void widen(const xsmi_narrow *w, size_t first, size_t n, float *out)
{
#define WIDEN(dtype) widen_numbers(dtype, (const unsigned char *)w->data + first * xsmi_number_bytes(dtype), n, out)
    XSMI_BY_NARROW_KIND(w->dtype, WIDEN);
}

/* As dot(), with a row that begins at number `first`. */
XSMI_INLINE float dot_narrow(const int32_t dtype, const void *data, size_t first, const float *x, size_t n)
{
    vf acc[PARTS];
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        acc[k] = v_set(0.0f);
    }
    size_t i = 0;
    for (; i + XSMI_PARTIALS <= n; i += XSMI_PARTIALS) {
        XSMI_UNROLL
        for (size_t k = 0; k < PARTS; k++) {
            const size_t at = i + k * VW;
            acc[k] = v_fma(load_narrow(dtype, data, first + at), v_load(x + at), acc[k]);
        }
    }
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        const size_t at = i + k * VW;
        if (at + VW <= n) {
            acc[k] = v_fma(load_narrow(dtype, data, first + at), v_load(x + at), acc[k]);
        } else if (at < n) {
            /* Not a plain fma: adding 0 would turn a partial sum of -0 into +0. */
            const vf numbers = load_narrow_first(dtype, data, first + at, n - at);
            acc[k] = v_select(m_first(n - at), v_fma(numbers, v_load_first(x + at, n - at), acc[k]), acc[k]);
        }
    }
    return join_partials(acc);
}

static void gather_narrow(const xsmi_narrow *w, const uint32_t *rows, size_t m, const float *x, size_t d, float *out)
{
    for (size_t j = 0; j < m; j++) {
        const size_t first = rows[j] * w->stride;
#define DOT(dtype) out[j] = dot_narrow(dtype, w->data, first, x, d)
        XSMI_BY_NARROW_KIND(w->dtype, DOT);
    }
}

/* n <= XSMI_PARTIALS columns from the number `first` of each row on. */
XSMI_INLINE void column_piece(const int32_t dtype, const xsmi_narrow *w, size_t first, const uint32_t *index,
                              const float *value, size_t nnz, size_t n, float *out)
{
    vf acc[PARTS];
    const size_t whole = n / VW, rest = n % VW;
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        if (k < whole) {
            acc[k] = v_load(out + k * VW);
        } else if (k == whole && rest > 0) {
            acc[k] = v_load_first(out + k * VW, rest);
        } else {
            acc[k] = v_set(0.0f);
        }
    }
    for (size_t i = 0; i < nnz; i++) {
        const size_t row = (index ? index[i] : i) * w->stride + first;
        const vf factor = v_set(value[i]);
        XSMI_UNROLL
        for (size_t k = 0; k < PARTS; k++) {
            if (k < whole) {
                acc[k] = v_fma(factor, load_narrow(dtype, w->data, row + k * VW), acc[k]);
            } else if (k == whole && rest > 0) {
                acc[k] = v_fma(factor, load_narrow_first(dtype, w->data, row + k * VW, rest), acc[k]);
            }
        }
    }
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        if (k < whole) {
            v_store(out + k * VW, acc[k]);
        } else if (k == whole && rest > 0) {
            v_store_first(out + k * VW, acc[k], rest);
        }
    }
}

static void narrow_column_sums(const xsmi_narrow *w, const uint32_t *index, const float *value, size_t nnz, size_t n,
                               float *out)
{
    for (size_t c = 0; c < n; c += XSMI_PARTIALS) {
        const size_t some = n - c < XSMI_PARTIALS ? n - c : XSMI_PARTIALS;
#define COLUMNS(dtype) column_piece(dtype, w, c, index, value, nnz, some, out + c)
        XSMI_BY_NARROW_KIND(w->dtype, COLUMNS);
    }
}

/* -- full scoring for a few rows: as in vector_few.h --------------------------------------------------------------- */

/* Vectors of classes at once: their chains of fused multiply-adds take turns. Several rows have enough chains by
 * themselves, and more classes of 16 bits would not fit into the L1 cache. */
#define NARROW_MOST(dtype, rows) (xsmi_number_bytes(dtype) == 1 && (rows) == 1 ? NARROW_GROUPS : 2)
/* Bytes of each row that are transposed at once: four vectors of 32 bits. */
#define NARROW_BYTES 16
/* Bytes ahead at which a line is prefetched into the L2 cache. Before use it is prefetched again, into the L1 cache,
 * while the block before it is worked on. */
#define NARROW_AHEAD 8192

/* Loads 32 bits of each of VW rows into each of four vectors. row[l] is row 4l; the rows after it are `step` bytes
 * apart. */
XSMI_INLINE void load_narrow_quads(const unsigned char *const *row, size_t step, vf quad[4])
{
    XSMI_UNROLL
    for (size_t k = 0; k < 4; k++) {
        const float *rows[VW];
        XSMI_UNROLL
        for (size_t l = 0; l < VW; l += 4) {
            rows[l] = (const float *)(const void *)(row[l / 4] + k * step);
        }
        quad[k] = v_load_quads(rows);
    }
    v_transpose_quads(quad);
}

XSMI_INLINE vf narrow_part(const int32_t dtype, const vf quad[4], size_t f)
{
#define PART_OF_KIND(with, TYPE, name, number, ...)                                                                    \
    case XSM_DTYPE_##TYPE:                                                                                             \
        return name##_part(quad[f * sizeof(number) / 4], f % (4 / sizeof(number)));
    switch (dtype) {
        XSMI_NARROW_KINDS(PART_OF_KIND, )
    default:
        return v_set(NAN);
    }
}

/* Adds the products of the next NARROW_BYTES of each class. */
XSMI_INLINE void add_narrow(const int32_t dtype, const size_t groups, const size_t rows, vf quad[NARROW_GROUPS][4],
                            const float *const *x, size_t i, vf acc[NARROW_GROUPS][XSMI_FEW])
{
    XSMI_UNROLL
    for (size_t f = 0; f < NARROW_BYTES; f++) {
        if (f < NARROW_BYTES / xsmi_number_bytes(dtype)) {
            XSMI_UNROLL
            for (size_t g = 0; g < groups; g++) {
                const vf w = narrow_part(dtype, quad[g], f);
                XSMI_UNROLL
                for (size_t r = 0; r < rows; r++) {
                    acc[g][r] = v_fma(w, v_set(x[r][i + f]), acc[g][r]);
                }
            }
        }
    }
}

/* Adds the products of the last numbers of VW classes, from number i on. It works on copies, so that nothing behind the
 * rows is read. Only the first `classes` exist. */
XSMI_INLINE void add_narrow_rest(const int32_t dtype, const size_t rows, const unsigned char *row, size_t step,
                                 size_t classes, const float *const *x, size_t i, size_t d, vf acc[XSMI_FEW])
{
    for (; i < d; i++) {
        uint16_t numbers[VW] = {0};
        unsigned char *to = (unsigned char *)numbers;
        const size_t size = xsmi_number_bytes(dtype);
        for (size_t l = 0; l < VW && l < classes; l++) {
            memcpy(to + l * size, row + l * step + i * size, size);
        }
        const vf w = load_narrow(dtype, numbers, 0);
        XSMI_UNROLL
        for (size_t r = 0; r < rows; r++) {
            acc[r] = v_fma(w, v_set(x[r][i]), acc[r]);
        }
    }
}

/* The scores of groups*VW classes, or of the first `classes` < VW with one group. */
XSMI_INLINE void narrow_block(const int32_t dtype, const size_t groups, const size_t rows, const unsigned char *row,
                              size_t step, size_t classes, const float *const *x, size_t d, float scale,
                              const float *row_scale, const float *bias, float *out)
{
    const size_t size = xsmi_number_bytes(dtype), each = NARROW_BYTES / size;
    vf acc[NARROW_GROUPS][XSMI_FEW];
    const unsigned char *fourth[NARROW_GROUPS][VW / 4];
    XSMI_UNROLL
    for (size_t g = 0; g < groups; g++) {
        XSMI_UNROLL
        for (size_t r = 0; r < rows; r++) {
            acc[g][r] = v_set(0.0f);
        }
        XSMI_UNROLL
        for (size_t l = 0; l < VW / 4; l++) {
            fourth[g][l] = row + (g * VW + 4 * l) * step;
        }
    }
    uintptr_t next = (uintptr_t)row + groups * VW * step;
    size_t i = 0;
    for (; classes >= VW && i + each <= d; i += each) {
        for (size_t line = 0; line < groups * VW * NARROW_BYTES / 64; line++, next += 64) {
            __builtin_prefetch((const void *)next, 0, 3);
            __builtin_prefetch((const void *)(next + NARROW_AHEAD), 0, 2);
        }
        vf quad[NARROW_GROUPS][4];
        XSMI_UNROLL
        for (size_t g = 0; g < groups; g++) {
            XSMI_UNROLL
            for (size_t l = 0; l < VW / 4; l++) {
                __asm__("" : "+r"(fourth[g][l])); /* otherwise the compiler keeps a pointer for each row in memory */
            }
            load_narrow_quads(fourth[g], step, quad[g]);
            XSMI_UNROLL
            for (size_t l = 0; l < VW / 4; l++) {
                fourth[g][l] += NARROW_BYTES;
            }
        }
        add_narrow(dtype, groups, rows, quad, x, i, acc);
    }
    XSMI_UNROLL
    for (size_t g = 0; g < groups; g++) {
        add_narrow_rest(dtype, rows, row + g * VW * step, step, classes, x, i, d, acc[g]);
        XSMI_UNROLL
        for (size_t r = 0; r < rows; r++) {
            finish_few(acc[g][r], classes < VW ? classes : VW, scale, row_scale ? row_scale + g * VW : NULL,
                       bias ? bias + g * VW : NULL, out + g * VW * XSMI_LANES + r);
        }
    }
}

XSMI_INLINE void narrow_rows(const int32_t dtype, const size_t rows, const xsmi_narrow *w, size_t first, size_t classes,
                             const float *const *x, size_t d, float scale, const float *row_scale, const float *bias,
                             float *out)
{
    const size_t step = w->stride * xsmi_number_bytes(dtype);
    const unsigned char *row = (const unsigned char *)w->data + first * step;
    const size_t all = classes / VW, most = all < NARROW_MOST(dtype, rows) ? all : NARROW_MOST(dtype, rows);
    for (size_t c = 0, groups; c < classes; c += groups * VW) {
        const size_t left = (classes - c + VW - 1) / VW;
        groups = left < most || most == 0 ? left : most;
        /* Whole vectors of classes, some of them a second time, as in score_rows(). */
        c = classes - c < groups * VW && classes >= groups * VW ? classes - groups * VW : c;
        const unsigned char *at = row + c * step;
        const float *scales = row_scale ? row_scale + c : NULL, *biases = bias ? bias + c : NULL;
        float *to = out + c * XSMI_LANES;
        if (groups == 1) {
            narrow_block(dtype, 1, rows, at, step, classes - c, x, d, scale, scales, biases, to);
        } else if (groups == 2) {
            narrow_block(dtype, 2, rows, at, step, groups * VW, x, d, scale, scales, biases, to);
        } else {
            narrow_block(dtype, NARROW_MOST(dtype, rows), rows, at, step, groups * VW, x, d, scale, scales, biases, to);
        }
    }
}

XSMI_INLINE void narrow_few(const int32_t dtype, const xsmi_narrow *w, size_t first, size_t classes,
                            const float *const *x, size_t n, size_t d, float scale, const float *row_scale,
                            const float *bias, float *out)
{
    if (n == 1) {
        narrow_rows(dtype, 1, w, first, classes, x, d, scale, row_scale, bias, out);
    } else if (n == 2) {
        narrow_rows(dtype, 2, w, first, classes, x, d, scale, row_scale, bias, out);
    } else if (n == 3) {
        narrow_rows(dtype, 3, w, first, classes, x, d, scale, row_scale, bias, out);
    } else {
        narrow_rows(dtype, XSMI_FEW, w, first, classes, x, d, scale, row_scale, bias, out);
    }
}

static void score_narrow(const xsmi_narrow *w, size_t first, size_t classes, const float *const *x, size_t n, size_t d,
                         float scale, const float *row_scale, const float *bias, float *out)
{
#define SCORE(dtype) narrow_few(dtype, w, first, classes, x, n, d, scale, row_scale, bias, out)
    XSMI_BY_NARROW_KIND(w->dtype, SCORE);
}

/* -- screening ----------------------------------------------------------------------------------------------------- */

/* Bytes of a row that are prefetched before they are read: rows are read in the order of memory. */
#define SCREEN_AHEAD 8192
/* Vectors of the sums of squares. */
#define SQUARES (2 * QUARTER)

/* One row, which begins at number `first`: dot(), and the sum of squares. */
XSMI_INLINE float screen_row(const int32_t dtype, const bool squared, const void *data, size_t first, const float *x,
                             size_t d, float *squares)
{
    const size_t size = xsmi_number_bytes(dtype);
    uintptr_t next = (uintptr_t)data + first * size + SCREEN_AHEAD;
    vf acc[PARTS], square[SQUARES];
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        acc[k] = v_set(0.0f);
        square[k % SQUARES] = v_set(0.0f);
    }
    size_t i = 0;
    for (; i + XSMI_PARTIALS <= d; i += XSMI_PARTIALS) {
        for (size_t line = 0; line < size; line++, next += XSMI_PARTIALS) {
            __builtin_prefetch((const void *)next, 0, 2);
        }
        XSMI_UNROLL
        for (size_t k = 0; k < PARTS; k++) {
            const size_t at = i + k * VW;
            const vf w = load_narrow(dtype, data, first + at);
            acc[k] = v_fma(w, v_load(x + at), acc[k]);
            square[k % SQUARES] = squared ? v_fma(w, w, square[k % SQUARES]) : square[k % SQUARES];
        }
    }
    XSMI_UNROLL
    for (size_t k = 0; k < PARTS; k++) {
        const size_t at = i + k * VW;
        if (at < d) {
            const size_t n = d - at < VW ? d - at : VW;
            const vf w = n == VW ? load_narrow(dtype, data, first + at) : load_narrow_first(dtype, data, first + at, n);
            const vf sum = v_fma(w, n == VW ? v_load(x + at) : v_load_first(x + at, n), acc[k]);
            /* Not a plain sum for the rest of a vector, as in dot_narrow(). No square is -0. */
            acc[k] = n == VW ? sum : v_select(m_first(n), sum, acc[k]);
            square[k % SQUARES] = squared ? v_fma(w, w, square[k % SQUARES]) : square[k % SQUARES];
        }
    }
    if (squared) {
        vf half[QUARTER];
        XSMI_UNROLL
        for (size_t k = 0; k < QUARTER; k++) {
            half[k] = square[k] + square[k + QUARTER];
        }
        *squares = v_join(half);
    }
    return join_partials(acc);
}

XSMI_INLINE void screen_rows(const int32_t dtype, const xsmi_narrow *w, size_t first, size_t classes, const float *x,
                             size_t d, float *out, float *squares)
{
    float unused;
    for (size_t c = 0; squares && c < classes; c++) {
        out[c] = screen_row(dtype, true, w->data, (first + c) * w->stride, x, d, squares + c);
    }
    for (size_t c = 0; !squares && c < classes; c++) {
        out[c] = screen_row(dtype, false, w->data, (first + c) * w->stride, x, d, &unused);
    }
}

static void screen(const xsmi_narrow *w, size_t first, size_t classes, const float *x, size_t d, float *out,
                   float *squares)
{
#define SCREEN(dtype) screen_rows(dtype, w, first, classes, x, d, out, squares)
    XSMI_BY_KIND(w->dtype, SCREEN);
}

#endif
