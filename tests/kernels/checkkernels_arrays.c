/*
 * Test data for checkkernels: random values of several kinds, and arrays in which stray accesses show.
 *
 * Each array ends at a page that may not be touched, so that reading or writing past its end is a fault; outputs are
 * compared together with the 64 floats before them.
 */
#include "checkkernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define GUARD 64 /* floats before an array */

static const size_t long_sizes[SIZES - SHORT_SIZES] = {300, 511, 512, 513, 1000, 4095, 4096, 4097, 8300};

size_t size_at(size_t k)
{
    return k < SHORT_SIZES ? k : long_sizes[k - SHORT_SIZES];
}

static uint64_t random_state = 1;

void random_restart(void)
{
    random_state = 1;
}

/* Marsaglia's xorshift64* is plenty for test data. */
uint32_t random_bits(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 0x2545f4914f6cdd1dULL) >> 32);
}

uint32_t random_below(uint32_t n)
{
    return random_bits() % n;
}

float random_unit(void)
{
    return (float)(random_bits() >> 8) * 0x1p-23f - 1.0f;
}

float random_value(kind k)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 1e-40f, -1e-45f, 3e38f};
    switch (k) {
    case COARSE:
        return (float)((int)random_below(9) - 4) * 0.5f;
    case WIDE:
        return random_unit() * (random_below(4) == 0 ? 1e-39f : random_below(2) ? 1e4f : 50.0f);
    case SPECIAL:
        return random_below(40) == 0 ? special[random_below(8)] : random_unit();
    default:
        return random_unit();
    }
}

void array_open(array *a, size_t most)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    a->bytes = ((most + GUARD) * sizeof(float) + page - 1) / page * page;
    a->pages = mmap(NULL, a->bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(a->pages != MAP_FAILED);
    assert_int_equal(mprotect(a->pages + a->bytes, page, PROT_NONE), 0);
}

void array_close(array *a)
{
    munmap(a->pages, a->bytes + (size_t)sysconf(_SC_PAGESIZE));
}

/* Places n floats at the fence, or `slack` floats before it, and fills them; the guard too. */
float *array_fill(array *a, size_t n, size_t slack, kind k)
{
    assert_true((n + slack + GUARD) * sizeof(float) <= a->bytes);
    a->at = (float *)(void *)(a->pages + a->bytes) - slack - n;
    a->n = n + slack;
    for (size_t i = 0; i < n + slack + GUARD; i++) {
        a->at[i - GUARD] = random_value(k);
    }
    return a->at;
}

float *array_copy(array *a, const array *from)
{
    a->at = (float *)(void *)(a->pages + a->bytes) - from->n;
    a->n = from->n;
    memcpy(a->at - GUARD, from->at - GUARD, (a->n + GUARD) * sizeof(float));
    return a->at;
}

void expect_floats(const float *got, const float *want, size_t n, const char *what, size_t size)
{
    if (n == 0 || memcmp(got, want, n * sizeof(float)) == 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        bool both_nan = isnan(got[i]) && isnan(want[i]);
        if (!both_nan && memcmp(got + i, want + i, sizeof(float)) != 0) {
            fail_msg("%s, size %zu: place %zu of %zu is %a, not %a", what, size, i, n, (double)got[i], (double)want[i]);
        }
    }
}

/* The whole of two arrays, guards included. */
void expect_arrays(const array *got, const array *want, const char *what, size_t size)
{
    expect_floats(got->at - GUARD, want->at - GUARD, want->n + GUARD, what, size);
}

void expect_float(float got, float want, const char *what, size_t size)
{
    expect_floats(&got, &want, 1, what, size);
}
