/* SciPy's sparse matrices in NumPy archives (scipy.sparse.save_npz), row by row. */
#ifndef XSMI_CSR_H
#define XSMI_CSR_H

#include "read/rounding.h"
#include "read/source.h"

typedef struct xsmi_csr {
    xsm_context *context;
    uint64_t rows, columns;
    float *values; /* [count] */
    size_t count, value_capacity;
    uint32_t *index; /* [count], below `columns` */
    size_t index_count, index_capacity;
    uint64_t *offsets; /* [rows+1] */
    size_t offset_count, offset_capacity;
    xsmi_rounding rounding; /* notes on the values, if the columns precede them in the file */
} xsmi_csr;

/* Reads a matrix; the caller releases it with xsmi_csr_end(), after a failure too. Rows may be unsorted, and name a
 * column twice. */
xsm_status xsmi_csr_read(xsmi_source *file, xsmi_csr *m, xsm_error *err);
void xsmi_csr_end(xsmi_csr *m);

#endif
