/*
 * The kinds of stored weights. A kind is a line of a list below, two functions of its name here, and for each vector
 * instruction set v_load_NAME(), with NAME_part() in vector_narrow.h. All else reads the list.
 *
 *     xsmi_of_NAME(number)      the number widened, exactly
 *     xsmi_to_NAME(w, factor)   a finite weight rounded to nearest, ties to even; what is too large becomes infinite
 */
#ifndef XSMI_WEIGHT_KINDS_H
#define XSMI_WEIGHT_KINDS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <xsoftmax/dtype.h>

/*
 * Kinds in fewer bits than float32, which are scored and never changed. KIND(with, TYPE, name, number, TENSOR, whole,
 * few), where `with` is what the list is given:
 *
 *     TYPE, name, TENSOR   XSM_DTYPE_TYPE, its name, and in files XSMI_DTYPE_TENSOR
 *     number               the C type of a number
 *     whole                0; or each row has a factor, and the numbers are whole ones from -whole to whole, but that
 *                          other programs' files may have -whole - 1
 *     few                  up to so many rows, a call widens weights in registers (model/tiles.c): by measurement
 */
/* clang-format off */
#define XSMI_NARROW_KINDS(KIND, with) \
    KIND(with, BFLOAT16, bfloat16, uint16_t, BF16, 0, 12) \
    KIND(with, INT8, int8, int8_t, I8, 127, 16)
/* And float32. */
#define XSMI_WEIGHT_KINDS(KIND, with) \
    KIND(with, FLOAT32, float32, float, F32, 0, XSMI_FEW) \
    XSMI_NARROW_KINDS(KIND, with)
/* clang-format on */

/* Calls DO(type) with the kind's XSM_DTYPE_* value as a constant, so that loops over numbers need not ask for it. */
#define XSMI_CASE_OF_KIND(DO, TYPE, ...)                                                                               \
    case XSM_DTYPE_##TYPE: {                                                                                           \
        DO(XSM_DTYPE_##TYPE);                                                                                          \
        break;                                                                                                         \
    }
#define XSMI_BY_NARROW_KIND(dtype, DO)                                                                                 \
    switch (dtype) {                                                                                                   \
        XSMI_NARROW_KINDS(XSMI_CASE_OF_KIND, DO)                                                                       \
    }
#define XSMI_BY_KIND(dtype, DO)                                                                                        \
    switch (dtype) {                                                                                                   \
        XSMI_WEIGHT_KINDS(XSMI_CASE_OF_KIND, DO)                                                                       \
    }

/* -- the kinds ----------------------------------------------------------------------------------------------------- */

static inline float xsmi_of_float32(float number)
{
    return number;
}
static inline float xsmi_to_float32(float w, float factor)
{
    (void)factor;
    return w;
}

/* The upper 16 bits of a float. */
static inline float xsmi_of_bfloat16(uint16_t upper)
{
    const uint32_t bits = (uint32_t)upper << 16;
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}
static inline uint16_t xsmi_to_bfloat16(float w, float factor)
{
    uint32_t bits;
    memcpy(&bits, &w, sizeof bits);
    (void)factor;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A whole number; max |w|/127 is the factor of a row. */
static inline float xsmi_of_int8(int8_t number)
{
    return (float)number;
}
static inline int8_t xsmi_to_int8(float w, float factor)
{
    /* A factor that was rounded down may be slightly too small for the largest weight; it is 0 for a row of zeros. */
    const double whole = factor > 0 ? rint((double)w / (double)factor) : 0;
    return (int8_t)(whole < -127 ? -127 : whole > 127 ? 127 : whole);
}

/* -- any kind, by its XSM_DTYPE_* value ---------------------------------------------------------------------------- */

/* Returns the bytes of a number; 0 if weights cannot have the type. */
static inline size_t xsmi_number_bytes(int32_t dtype)
{
#define XSMI_KIND_BYTES(with, TYPE, name, number, ...)                                                                 \
    case XSM_DTYPE_##TYPE:                                                                                             \
        return sizeof(number);
    switch (dtype) {
        XSMI_WEIGHT_KINDS(XSMI_KIND_BYTES, )
    default:
        return 0;
    }
}

/* Returns number `at`, widened. NaN if weights cannot have the type. */
static inline float xsmi_number_at(int32_t dtype, const void *data, size_t at)
{
#define XSMI_KIND_AT(with, TYPE, name, number, ...)                                                                    \
    case XSM_DTYPE_##TYPE:                                                                                             \
        return xsmi_of_##name(((const number *)data)[at]);
    switch (dtype) {
        XSMI_WEIGHT_KINDS(XSMI_KIND_AT, )
    default:
        return NAN;
    }
}

/* Returns the factor of a row from its largest absolute weight. A subnormal factor, which has few digits, is rounded
 * up, so that `whole` times the factor is no less than the weight. */
static inline float xsmi_factor_of(int whole, float most)
{
    const float factor = most / (float)whole;
    const bool small = factor < FLT_MIN && (double)factor * whole < (double)most;
    return small ? nextafterf(factor, INFINITY) : factor;
}

/* Rounds a weight to number `at` of `to`; `factor` is that of its row, if the kind has factors. */
static inline void xsmi_round_to(int32_t dtype, float w, float factor, void *to, size_t at)
{
#define XSMI_KIND_ROUND(with, TYPE, name, number, ...)                                                                 \
    case XSM_DTYPE_##TYPE:                                                                                             \
        ((number *)to)[at] = xsmi_to_##name(w, factor);                                                                \
        break;
    switch (dtype) {
        XSMI_WEIGHT_KINDS(XSMI_KIND_ROUND, )
    }
}

/* Returns whether a weight is finite, and still is when it is rounded. */
static inline bool xsmi_finite_in(int32_t dtype, float w)
{
#define XSMI_KIND_FINITE(with, TYPE, name, number, TENSOR, whole, ...)                                                 \
    case XSM_DTYPE_##TYPE:                                                                                             \
        return isfinite(w) && ((whole) || isfinite(xsmi_of_##name(xsmi_to_##name(w, 1))));
    switch (dtype) {
        XSMI_WEIGHT_KINDS(XSMI_KIND_FINITE, )
    default:
        return false;
    }
}

#endif
