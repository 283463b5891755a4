/* Rows that occur twice in a batch. */
#include "estimator/estimator.h"

#include "base/heap_sort.h"

#include <string.h>

static int compare_rows(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool xsmi_batch_has_repeats(const xsm_batch *batch, uint64_t *sorted)
{
    size_t n = (size_t)batch->count;
    memcpy(sorted, batch->rows, n * sizeof *sorted);
    xsmi_heap_sort(sorted, n, sizeof *sorted, compare_rows);
    bool repeats = false;
    for (size_t i = 1; i < n; i++) {
        repeats |= sorted[i] == sorted[i - 1];
    }
    return repeats;
}
