/*
 * What float32 does not keep of the numbers in a file: columns whose numbers are so close together that few of them
 * stay different, and numbers that become zero.
 */
#ifndef XSMI_ROUNDING_H
#define XSMI_ROUNDING_H

#include "base/base.h"

#include <math.h>
#include <string.h>

/* The numbers of a column but for zeros. */
typedef struct xsmi_rounding_column {
    double least, greatest; /* 0: none yet */
    bool apart;             /* they are far enough from each other */
} xsmi_rounding_column;

typedef struct xsmi_rounding {
    xsm_context *context;
    bool off; /* nothing is noted */
    xsmi_rounding_column *columns;
    size_t count, capacity, open; /* open: those that are not apart */
    uint64_t vanished, line;      /* numbers that become zero, and the line of the first, or 0 */
} xsmi_rounding;

/* Columns from here on are not looked at. */
#define XSMI_ROUNDING_COLUMNS (UINT32_C(1) << 20)
/* No numbers below this are close together in sparse rows. */
#define XSMI_ROUNDING_LEAST 4096

void xsmi_rounding_end(xsmi_rounding *r);
/* Looks at a number of a column that is wanted. */
xsm_status xsmi_rounding_number(xsmi_rounding *r, uint64_t column, double value, xsm_error *err);
/* Looks at text that is zero as float32. */
void xsmi_rounding_zero(xsmi_rounding *r, const char *text, uint64_t line);
/* Warns of what was found; names[] of the columns, or NULL. */
void xsmi_rounding_tell(const xsmi_rounding *r, const char *file, const char *const *names);
/* The same of a number's text, which is `value` as float32. */
xsm_status xsmi_rounding_text(xsmi_rounding *r, uint64_t column, const char *text, xsm_error *err);

static inline bool xsmi_rounding_wants(const xsmi_rounding *r, uint64_t column)
{
    return column >= r->count ? !r->off && column < XSMI_ROUNDING_COLUMNS : !r->columns[column].apart;
}

/* Looks at a number that was read as `value` from so many bytes. */
static inline xsm_status xsmi_rounding_see(xsmi_rounding *r, uint64_t column, const char *text, size_t length,
                                           float value, uint64_t line, xsm_error *err)
{
    if (value == 0) {
        /* Not 0.000: an exponent ends it, or another digit begins it. */
        if (length > 3 && (text[0] != '0' || text[length - 3] == '-' || text[length - 4] == '-' || length > 46)) {
            xsmi_rounding_zero(r, text, line);
        }
        return XSM_OK;
    }
    return xsmi_rounding_wants(r, column) ? xsmi_rounding_text(r, column, text, err) : XSM_OK;
}

#endif
