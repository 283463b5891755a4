/*
 * Weights in fewer bits than float32, which are scored and never changed. bfloat16 is rounded to nearest, ties to even.
 * int8 has a factor for each row, max |w|/127, and each weight is a whole multiple of it. In a model's file they are
 * tensors BF16, or I8 with the factors in a tensor F32 whose name ends in "_scale".
 */
#ifndef XSMI_MODEL_NARROW_H
#define XSMI_MODEL_NARROW_H

#include "base/order.h"
#include "base/safetensors.h"
#include "model/model.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Returns the name of an XSM_DTYPE_* value; NULL if weights cannot have this type. */
const char *xsmi_narrow_name(int32_t dtype);
/* Returns the bytes of the factors of `rows` rows in a file. */
static inline uint64_t xsmi_factor_bytes(int32_t dtype, uint32_t rows)
{
    return dtype == XSM_DTYPE_INT8 ? (uint64_t)rows * sizeof(float) : 0;
}

/* Rounds to nearest, ties to even: the largest floats become infinite. */
static inline uint16_t xsmi_to_bfloat16(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
/* Whether a number is finite when it is rounded to a type. */
static inline bool xsmi_finite_in(int32_t dtype, float number)
{
    return isfinite(number) && (dtype != XSM_DTYPE_BFLOAT16 || (xsmi_to_bfloat16(number) & 0x7f80) != 0x7f80);
}
/* Return the factor of a row of int8, from its largest absolute weight, and a weight in multiples of the factor. The
 * range is symmetric. A subnormal factor, which has few digits, is rounded up, so that 127 times the factor is no less
 * than the weight. */
#define XSMI_MOST_INT8 127
static inline float xsmi_int8_factor(float most)
{
    const float factor = most / XSMI_MOST_INT8;
    const bool small = factor < FLT_MIN && (double)factor * XSMI_MOST_INT8 < (double)most;
    return small ? nextafterf(factor, INFINITY) : factor;
}
static inline int8_t xsmi_to_int8(float number, float factor)
{
    /* A factor that was rounded down may be slightly too small for the largest weight; it is 0 for a row of zeros. */
    const double whole = factor > 0 ? rint((double)number / (double)factor) : 0;
    return (int8_t)XSMI_CLAMP(whole, -XSMI_MOST_INT8, XSMI_MOST_INT8);
}

/* In a file: the names of the factors of `weight` and `embedding`, and the type of a tensor. */
#define XSMI_WEIGHT_SCALE "weight_scale"
#define XSMI_EMBEDDING_SCALE "embedding_scale"
xsmi_dtype xsmi_narrow_tensor_type(int32_t dtype);
/* Gives a matrix the numbers of a tensor [rows, columns] of the file, in place, and for int8 their factors [rows], in
 * allocated memory. Refuses factors of other types. */
xsm_status xsmi_weights_read(xsm_context *ctx, const xsmi_container *file, const char *path, const xsmi_tensor *numbers,
                             const char *factors_name, xsmi_weights *w, xsm_error *err);
/* Refuses numbers of the rows first..first+count that are not finite, which a file of another program may have;
 * messages call the first row `number`. */
xsm_status xsmi_narrow_check(const xsmi_narrow *n, size_t first, size_t count, size_t number, xsm_error *err);

#endif
