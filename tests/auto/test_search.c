/* Tests of the search over a logarithmic grid: which points each round tries, and the result. */
#include "training.h"

#include "auto/search.h"

#include <math.h>
#include <string.h>

enum { MOST = 32 };

/* Values with one minimum, and what was tried. */
typedef struct script {
    double minimum;
    int diverges_from; /* the first place of an infinite value */
    int forbidden;     /* a place that allows() refuses */
    int tried[XSMI_SEARCH_ROUNDS][MOST], count[XSMI_SEARCH_ROUNDS];
    uint32_t round;
} script;

static xsm_status begin(void *user, uint32_t round, xsm_error *err)
{
    (void)err;
    ((script *)user)->round = round;
    return XSM_OK;
}

static xsm_status attempt(void *user, int place, double *value, xsm_error *err)
{
    script *s = user;
    (void)err;
    assert_true(s->count[s->round] < MOST);
    s->tried[s->round][s->count[s->round]++] = place;
    *value = place >= s->diverges_from ? (double)INFINITY : 1 + fabs(place - s->minimum);
    return XSM_OK;
}

static bool allows(void *user, int place, bool planned)
{
    (void)planned;
    return place != ((const script *)user)->forbidden;
}

static void assert_tried(const script *s, uint32_t round, const int *places, int count)
{
    assert_int_equal(s->count[round], count);
    assert_memory_equal(s->tried[round], places, (size_t)count * sizeof *places);
}

TEST(halves)
{
    static const xsmi_scale scale = {0, 13, 6, 9, 3, begin, attempt, allows};
    static const int grid[] = {6, 7, 8, 9, 10, 11}, second[] = {10, 9, 11}, third[] = {10, 11, 9};
    script s = {.minimum = 10.4, .diverges_from = 99, .forbidden = 99};
    xsmi_scale_search search;
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, grid, 6);
    assert_tried(&s, 1, second, 3);
    assert_tried(&s, 2, third, 3);
    assert_int_equal(search.best[2], 10);
    assert_int_equal(xsmi_scale_search_second(&search, 2), 11);
    assert_true(isinf(xsmi_scale_search_value(&search, 2, 8)) && isinf(xsmi_scale_search_value(&search, 0, -1)));
}

TEST(brackets)
{
    static const xsmi_scale scale = {-20, 10, 0, 1, 1, NULL, attempt, allows};
    static const int down[] = {0, 1, -1, -2, -3, -4}, up[] = {0, 1, 2, 3, 4}, shut[] = {0, 1, 2};
    xsmi_scale_search search;
    script s = {.minimum = -3, .diverges_from = -1, .forbidden = 99};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, down, 6);
    s = (script){.minimum = 3, .diverges_from = 4, .forbidden = 99};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, up, 5);
    s = (script){.minimum = 8, .diverges_from = 99, .forbidden = 3};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_tried(&s, 0, shut, 3);
    s = (script){.minimum = 0, .diverges_from = -20, .forbidden = 99};
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_int_equal(search.best[0], XSMI_NOWHERE);
    assert_int_equal(s.count[0], 22); /* down to the least place */
}

TEST(of_equal_ones_the_lowest)
{
    static const xsmi_scale scale = {0, 3, 0, 3, 1, NULL, attempt, allows};
    script s = {.minimum = 1.5, .diverges_from = 99, .forbidden = 99};
    xsmi_scale_search search;
    assert_ok(xsmi_scale_search_run(&search, &scale, &s, &err), err);
    assert_int_equal(search.best[0], 1);
}
