/*
 * Writing datasets: a buffered file, and the numbers and labels in it.
 */
#ifndef XSMI_OUTPUT_H
#define XSMI_OUTPUT_H

#include "base/activity.h"
#include "base/file.h"
#include "data/dataset.h"
#include "data/schema.h"

#define XSMI_WRITE_BUFFER ((size_t)256 << 10)

typedef struct xsmi_output {
    const xsm_dataset *d;
    const xsm_write_options *options;
    xsmi_replace *file;
    char *buffer; /* [XSMI_WRITE_BUFFER] */
    size_t used;
    xsmi_activity *activity;
    bool numbers; /* labels are class numbers, as names go to a separate file */
} xsmi_output;

xsm_status xsmi_output_bytes(xsmi_output *o, const void *data, size_t size, xsm_error *err);
static inline xsm_status xsmi_output_char(xsmi_output *o, char c, xsm_error *err)
{
    return xsmi_output_bytes(o, &c, 1, err);
}
/* Call after a row: counts progress and releases mapped pages. */
static inline void xsmi_output_passed(const xsmi_output *o, uint64_t row)
{
    xsmi_dataset_passed(o->d, row, 1);
    xsmi_reach(o->activity, row + 1);
}
/* Writes the buffer to the file. */
xsm_status xsmi_output_flush(xsmi_output *o, xsm_error *err);
xsm_status xsmi_output_integer(xsmi_output *o, int64_t value, xsm_error *err);
/* Writes a value with the fewest digits, of 6 to 9, that read back as the same float32. */
xsm_status xsmi_output_float(xsmi_output *o, float value, xsm_error *err);
/* Returns the file's label of a class. */
static inline int64_t xsmi_output_label(const xsmi_output *o, uint32_t k)
{
    return o->d->map.labels && !o->numbers ? o->d->map.labels[k] : (int64_t)k;
}
/* Returns the numbers of features in files; NULL: they follow from the index base. */
static inline const int64_t *xsmi_output_numbers(const xsmi_output *o)
{
    return o->d->schema && !o->d->transformed ? o->d->schema->numbers : NULL;
}

#endif
