/*
 * Reading a row at a time, as a line of a file is read against a class map, into arrays that are kept from row to row.
 */
#ifndef XSMI_READ_ROW_H
#define XSMI_READ_ROW_H

#include "base/base.h"

#include <xsoftmax/dataset.h>

typedef struct xsmi_row_reader xsmi_row_reader;

/* How rows are written. */
typedef struct xsmi_row_form {
    int32_t format;                   /* XSM_FORMAT_TEXT, XSM_FORMAT_XC or XSM_FORMAT_LIBSVM */
    int32_t index_base;               /* LIBSVM: XSM_INDEX_BASE_ZERO or ONE */
    uint32_t features;                /* D; larger features are left out */
    const xsm_vocabulary *vocabulary; /* text: borrowed */
    const int64_t *numbers;           /* [features] the number of each feature in rows; NULL = they follow from the
                                         index base */
} xsmi_row_form;

/* The features of a row, in the reader's arrays. */
typedef struct xsmi_row_entries {
    uint32_t *index;
    float *values;
    size_t count;
} xsmi_row_entries;

xsm_status xsmi_row_reader_new(xsm_context *ctx, const xsmi_row_form *form, xsmi_row_reader **out, xsm_error *err);
/* Releases it; NULL is allowed. */
void xsmi_row_reader_free(xsmi_row_reader *r);
/* Reads a row. Its labels are checked and left out; a line end at its end is ignored. */
xsm_status xsmi_row_reader_read(xsmi_row_reader *r, const char *bytes, size_t length, xsmi_row_entries *entries,
                                xsm_error *err);
/* Makes room for a row of `count` features, and keeps those of the row that was read last. */
xsm_status xsmi_row_reader_reserve(xsmi_row_reader *r, size_t count, xsmi_row_entries *entries, xsm_error *err);

#endif
