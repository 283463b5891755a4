/*
 * A dictionary of labels that a file has chosen: numbers that met in one slot of a table whose slots did not depend on
 * where it lies, which made reading quadratic, take no longer than others.
 */
#include "support.h"

#include "data/dictionary.h"

#include <time.h>

enum { NUMBERS = 50000 };

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A number whose product with 0x9E3779B97F4A7C15, after its high half was mixed into the low one, has the bits 20 to 51
 * zero, from which slots were taken. */
static int64_t chosen(uint64_t i)
{
    const uint64_t inverse = UINT64_C(0xF1DE83E19937733D);
    const uint64_t product = (i & 0xFFF) << 52 | i >> 12;
    const uint64_t mixed = product * inverse;
    return (int64_t)(mixed ^ mixed >> 32);
}

static int64_t consecutive(uint64_t i)
{
    return (int64_t)i;
}

/* Processor seconds to enter the numbers and find them again. */
static double take(int64_t (*number)(uint64_t i))
{
    xsm_error err = XSM_ERROR_INIT;
    xsmi_dictionary d;
    NEW(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    xsmi_dictionary_start(&d, ctx, false);
    const double start = seconds();
    for (uint64_t i = 0; i < NUMBERS; i++) {
        uint32_t id;
        assert_ok(xsmi_dictionary_number(&d, number(i), &id, &err), err);
        assert_int_equal(id, i);
    }
    for (uint64_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(xsmi_dictionary_find_number(&d, number(i)), i);
    }
    const double took = seconds() - start;
    xsmi_dictionary_end(&d);
    xsm_context_free(ctx);
    return took;
}

TEST(chosen_numbers_take_no_longer)
{
    const uint64_t golden = UINT64_C(0x9E3779B97F4A7C15);
    for (uint64_t i = 0; i < NUMBERS; i++) { /* they are what they are said to be */
        uint64_t key = (uint64_t)chosen(i);
        key = (key ^ key >> 32) * golden;
        assert_true((key >> 20 & 0xFFFFFFFF) == 0);
    }
    const double usual = take(consecutive), hostile = take(chosen);
    if (hostile > 30 * usual) {
        fail_msg("%.3f s, and %.3f s for consecutive numbers", hostile, usual);
    }
}
