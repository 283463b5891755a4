/* Tests of sorting in place, compared with the C library's sort. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap_sort.h"
#include "base/random.h"

typedef struct item {
    uint32_t key, number;
    char rest[5];
} item;

static int by_key(const void *a, const void *b)
{
    uint32_t x = ((const item *)a)->key, y = ((const item *)b)->key;
    return (x > y) - (x < y);
}

static int by_key_and_number(const void *a, const void *b)
{
    uint32_t x = ((const item *)a)->number, y = ((const item *)b)->number;
    int by = by_key(a, b);
    return by ? by : (x > y) - (x < y);
}

TEST(test_sort)
{
    enum { MOST = 300 };
    for (uint32_t n = 0; n < MOST; n++) {
        for (uint32_t range = 1; range <= 1000; range *= 10) { /* few keys: many equal items */
            item items[MOST] = {{0}}, expected[MOST];
            xsmi_stream s;
            xsmi_stream_start(&s, range, XSMI_STREAM_SHUFFLE, n);
            for (uint32_t i = 0; i < n; i++) {
                items[i] = (item){(uint32_t)xsmi_stream_below(&s, range), i, "rest"};
            }
            memcpy(expected, items, sizeof items);
            qsort(expected, n, sizeof *expected, by_key_and_number);
            xsmi_heap_sort(items, n, sizeof *items, by_key);
            for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(items[i].key, expected[i].key);
                assert_string_equal(items[i].rest, "rest");
            }
            /* With all keys different there is one order; and nothing is lost or doubled. */
            xsmi_heap_sort(items, n, sizeof *items, by_key_and_number);
            for (uint32_t i = 0; i < n; i++) {
                assert_true(items[i].key == expected[i].key && items[i].number == expected[i].number);
            }
        }
    }
}
