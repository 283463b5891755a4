/* Heapsort (J. Williams 1964, R. Floyd 1964). */
#include "base/heap_sort.h"

static void swap(unsigned char *a, unsigned char *b, size_t each)
{
    for (size_t i = 0; i < each; i++) {
        unsigned char saved = a[i];
        a[i] = b[i];
        b[i] = saved;
    }
}

/* Moves the item at `root` down until no item below it is larger. */
static void sink(unsigned char *items, size_t root, size_t count, size_t each,
                 int (*compare)(const void *, const void *))
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= count) {
            return;
        }
        if (child + 1 < count && compare(items + child * each, items + (child + 1) * each) < 0) {
            child++;
        }
        if (compare(items + root * each, items + child * each) >= 0) {
            return;
        }
        swap(items + root * each, items + child * each, each);
        root = child;
    }
}

void xsmi_heap_sort(void *items, size_t count, size_t each, int (*compare)(const void *, const void *))
{
    unsigned char *bytes = items;
    for (size_t root = count / 2; root > 0; root--) {
        sink(bytes, root - 1, count, each, compare);
    }
    for (size_t left = count; left > 1; left--) {
        swap(bytes, bytes + (left - 1) * each, each);
        sink(bytes, 0, left - 1, each, compare);
    }
}
