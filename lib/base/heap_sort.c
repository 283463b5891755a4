/* Heapsort (J. Williams 1964, R. Floyd 1964). */
#include "base/heap_sort.h"

#include "base/activity.h"

/* Items moved down between two polls. */
#define POLL_ITEMS 4096

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

static bool sort(const xsm_context *ctx, unsigned char *items, size_t count, size_t each,
                 int (*compare)(const void *, const void *))
{
    for (size_t root = count / 2; root > 0; root--) {
        if (ctx && root % POLL_ITEMS == 0 && xsmi_poll(ctx)) {
            return false;
        }
        sink(items, root - 1, count, each, compare);
    }
    for (size_t left = count; left > 1; left--) {
        if (ctx && left % POLL_ITEMS == 0 && xsmi_poll(ctx)) {
            return false;
        }
        swap(items, items + (left - 1) * each, each);
        sink(items, 0, left - 1, each, compare);
    }
    return true;
}

void xsmi_heap_sort(void *items, size_t count, size_t each, int (*compare)(const void *, const void *))
{
    (void)sort(NULL, items, count, each, compare);
}

bool xsmi_heap_sort_polled(const xsm_context *ctx, void *items, size_t count, size_t each,
                           int (*compare)(const void *, const void *))
{
    return sort(ctx, items, count, each, compare);
}
