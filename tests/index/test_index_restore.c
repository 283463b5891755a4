/* Tests of impossible saved numbers of an index: each is refused with a message, and no memory leaks. */
#include "support.h"

#include "restored.h"

#include <math.h>

typedef struct change {
    const char *what;
    uint32_t at, value;
    bool is_double, is_float;
    double number;
    const char *said; /* NULL: is accepted */
} change;

static const change changes[] = {
    {.what = "very many rows", .at = RESTORED_COUNTS, .value = UINT32_MAX, .said = "cluster 0 has 4294967295 rows"},
    {.what = "a longest row that is none", .at = RESTORED_LONGEST, .is_double = true, .number = NAN, .said = "nan"},
    {.what = "a negative square", .at = RESTORED_LONGEST, .is_double = true, .number = -1, .said = "is -1"},
    {.what = "an infinite square", .at = RESTORED_LONGEST, .is_double = true, .number = INFINITY, .said = "is inf"},
    {.what = "a square too small", .at = RESTORED_LONGEST, .is_double = true, .number = 1e-300},
    {.what = "a mean of NaN", .at = RESTORED_MEAN + 2, .is_float = true, .number = NAN, .said = "number 2 of the mean"},
    {.what = "an infinite mean", .at = RESTORED_MEAN, .is_float = true, .number = -INFINITY, .said = "the mean"},
    {.what = "a far mean", .at = RESTORED_MEAN, .is_float = true, .number = 3e38},
    {.what = "a centre of NaN", .at = RESTORED_CENTRES + 4, .is_float = true, .number = NAN, .said = "centre 1 has"},
    {.what = "a far centre",
     .at = RESTORED_CENTRES + 8,
     .is_float = true,
     .number = 100,
     .said = "centre 2 has length"},
    {.what = "an infinite centre", .at = RESTORED_COUNTS - 1, .is_float = true, .number = INFINITY, .said = "centre 5"},
    {.what = "too many rows in all", .at = RESTORED_COUNTS, .value = RESTORED_CLASSES, .said = "there are 0 left"},
    {.what = "too few rows in all", .at = RESTORED_COUNTS + 5, .value = 0, .said = "there are 40"},
    {.what = "a row that is not there", .at = RESTORED_ORDER + 7, .value = RESTORED_CLASSES, .said = "row 40 in"},
    {.what = "a row far off", .at = RESTORED_ORDER, .value = UINT32_MAX, .said = "row 4294967295 in cluster 0"},
    {.what = "many moves", .at = 1, .value = UINT32_MAX},
    {.what = "many rebuilds", .at = 3, .value = UINT32_MAX},
};

static void put(uint32_t *numbers, const change *c)
{
    float number = (float)c->number;
    if (c->is_double) {
        memcpy(numbers + c->at, &c->number, sizeof c->number);
    } else if (c->is_float) {
        memcpy(numbers + c->at, &number, sizeof number);
    } else {
        numbers[c->at] = c->value;
    }
}

TEST(numbers_that_cannot_be_are_refused)
{
    restored r;
    assert_true(restored_begin(&r, NULL));
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        uint32_t numbers[RESTORED_NUMBERS];
        memcpy(numbers, r.numbers, sizeof numbers);
        put(numbers, &changes[i]);
        xsm_status status = restored_from(&r, numbers, &err);
        if (!changes[i].said) {
            assert_ok(status, err);
            assert_true(restored_works(&r));
            continue;
        }
        assert_fails(status, XSM_ERROR_FORMAT, err);
        if (!strstr(err.message, changes[i].said)) {
            fail_msg("%s: '%s' does not say '%s'", changes[i].what, err.message, changes[i].said);
        }
        /* What is left can be restored, and is no index before. */
        xsm_index_search none = XSM_INDEX_SEARCH_INIT;
        assert_fails(xsm_index_query(r.index, &none, &err), XSM_ERROR_STATE, err);
    }
    assert_ok(restored_from(&r, r.numbers, &err), err);
    assert_true(restored_works(&r));
    restored_end(&r);
}

/* Each row in the place of each other: listed twice, or once if it is its own. */
TEST(a_row_twice_is_refused)
{
    restored r;
    assert_true(restored_begin(&r, NULL));
    for (uint32_t i = 0; i < RESTORED_CLASSES; i++) {
        uint32_t numbers[RESTORED_NUMBERS], *order = numbers + RESTORED_ORDER;
        memcpy(numbers, r.numbers, sizeof numbers);
        order[i] = order[(i + 1) % RESTORED_CLASSES];
        assert_fails(restored_from(&r, numbers, &err), XSM_ERROR_FORMAT, err);
        assert_non_null(strstr(err.message, "each of 0 to 39 once"));
    }
    restored_end(&r);
}
