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
#define XSMI_ROUNDING_COLUMNS (UINT32_C(1) << 15)
/* No numbers below this are close together in sparse rows. */
#define XSMI_ROUNDING_LEAST 4096

void xsmi_rounding_end(xsmi_rounding *r);
/* Dense rows have so many columns; `open` says whether any is still wanted. */
xsm_status xsmi_rounding_expect(xsmi_rounding *r, uint32_t columns, xsm_error *err);
/* Looks at a number, which becomes 0 or is of a column that is wanted. */
xsm_status xsmi_rounding_number(xsmi_rounding *r, uint64_t column, double value, xsm_error *err);
/* Warns of what was found; names[] of the columns, or NULL. */
void xsmi_rounding_tell(const xsmi_rounding *r, const char *file, const char *const *names);
/* Looks at the text of a number in that line. */
xsm_status xsmi_rounding_text(xsmi_rounding *r, uint64_t column, const char *text, uint64_t line, xsm_error *err);

static inline bool xsmi_rounding_wants(const xsmi_rounding *r, uint64_t column)
{
    return column >= r->count ? !r->off && column < XSMI_ROUNDING_COLUMNS : !r->columns[column].apart;
}

/* Whether the text of a number that was read as 0 may be another: one that programs do not begin with 0.0, or long. */
static inline bool xsmi_rounding_may_vanish(const char *text, size_t length)
{
    return length > 3 && (text[0] != '0' || text[2] != '0' || length > 46);
}

#endif
