/*
 * The order of the rows of an epoch. Rows in memory, or in a file that is small, are permuted, each order equally
 * likely. In larger files each single row would cost a page. There, runs of some megabytes are permuted first, then
 * the rows within each stretch of 64 runs. Thus little of the file is in use at a time, every byte is read once an
 * epoch, and neighbours in the file are far apart in the order.
 *
 * In each array a run is longer than the 2 MB that some file systems map at once.
 */
#include "data/dataset.h"
#include "base/random.h"
#include "base/order.h"
#include "base/spool.h"

#define RUN_BYTES ((size_t)4 << 20)
/* The smallest file that is ordered by runs. */
#define LARGE_BYTES ((size_t)1 << 29)

size_t xsmi_dataset_order_bytes(const xsm_dataset *d)
{
    size_t bytes = xsmi_dataset_mapped_bytes(d);
    return bytes < LARGE_BYTES ? 0 : bytes;
}

xsm_status xsmi_dataset_order(const xsm_dataset *d, xsmi_stream *stream, uint64_t *order, xsm_error *err)
{
    size_t bytes = xsmi_dataset_order_bytes(d);
    if (bytes == 0) {
        return xsmi_stream_order(d->context, stream, order, (size_t)d->rows, err);
    }
    double a_row = (double)bytes / (double)d->rows;
    uint64_t each = a_row < (double)RUN_BYTES ? (uint64_t)((double)RUN_BYTES / a_row) : 1;
    uint64_t stretch = a_row < (double)XSMI_FORGET_BYTES ? (uint64_t)((double)XSMI_FORGET_BYTES / a_row) : 1;
    uint64_t runs = (d->rows + each - 1) / each;
    /* The runs' numbers are at the end of the array. Rows written from its start never overwrite numbers still to be
     * read: every run but the last has `each` rows. */
    uint64_t *numbers = order + (d->rows - runs);
    XSMI_TRY(xsmi_stream_order(d->context, stream, numbers, (size_t)runs, err));
    uint64_t next = 0;
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t run = numbers[i];
        uint64_t count = XSMI_MIN(d->rows - run * each, each);
        for (uint64_t j = 0; j < count; j++) {
            order[next++] = run * each + j;
        }
    }
    for (uint64_t start = 0; start < d->rows; start += stretch) {
        const uint64_t left = d->rows - start;
        XSMI_TRY(xsmi_stream_permute(d->context, stream, order + start, (size_t)XSMI_MIN(left, stretch), err));
    }
    return XSM_OK;
}
