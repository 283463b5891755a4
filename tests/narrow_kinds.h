/*
 * The kinds of weights in fewer bits, for tests: a new one is a line here. test_narrow.c finds what is missing.
 */
#ifndef XSM_TEST_NARROW_KINDS_H
#define XSM_TEST_NARROW_KINDS_H

#include <math.h>

#include "support.h"

#include <xsoftmax/stored_weights.h>

/* Numbers of these bits, widened by other means than the library's: by powers of two. */
static inline float test_wide_bfloat16(uint32_t bits)
{
    const int exponent = bits >> 7 & 0xff, fraction = bits & 0x7f;
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    if (exponent == 255) {
        return fraction ? NAN : sign * INFINITY;
    }
    const int whole = exponent ? 128 + fraction : fraction;
    return copysignf(ldexpf((float)whole, (exponent ? exponent : 1) - 127 - 7), sign);
}
static inline float test_wide_int8(uint32_t bits)
{
    return (float)((int)(bits ^ 128) - 128);
}

typedef struct test_kind {
    int32_t dtype;
    const char *name;
    uint32_t bytes;
    bool factors;    /* of each row */
    double error;    /* the most by which a weight is wrong, times the weight or, with factors, the row's largest */
    float too_large; /* infinite in the type */
    float (*wide)(uint32_t bits);
} test_kind;
static const test_kind test_kinds[] = {
    {XSM_DTYPE_BFLOAT16, "bfloat16", 2, false, 0x1p-8, 0x1.ffp+127f, test_wide_bfloat16},
    {XSM_DTYPE_INT8, "int8", 1, true, 1.0 / 254, INFINITY, test_wide_int8},
};
enum { TEST_KINDS = sizeof test_kinds / sizeof *test_kinds };
/* for (EACH_KIND(kind)) { ... } */
#define EACH_KIND(kind)                                                                                                \
    const test_kind *kind = test_kinds;                                                                                \
    kind < test_kinds + TEST_KINDS;                                                                                    \
    kind++

/* Number `at`, widened. */
static inline float test_number(const test_kind *type, const void *data, size_t at)
{
    return type->wide(type->bytes == 1 ? ((const uint8_t *)data)[at] : ((const uint16_t *)data)[at]);
}

static inline xsm_model *test_converted(const xsm_model *m, int32_t dtype)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_convert_options o = {sizeof o, dtype, 0};
    xsm_model *to = NULL;
    assert_ok(xsm_model_convert(m, &o, &to, &err), err);
    assert_int_equal(test_model_info(to).dtype, dtype);
    return to;
}

#endif
