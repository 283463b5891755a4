/* CSV and TSV. */
#ifndef XSMI_DENSE_H
#define XSMI_DENSE_H

#include "read/output.h"

static inline char xsmi_dense_separator(int32_t format)
{
    return format == XSM_FORMAT_CSV ? ',' : '\t';
}

xsm_status xsmi_write_dense(xsmi_output *o, xsm_error *err);

#endif
