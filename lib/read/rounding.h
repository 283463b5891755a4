/*
 * Warnings about what rounding to float32 loses: columns whose numbers are so close together that few remain different,
 * and numbers that become zero.
 */
#ifndef XSMI_ROUNDING_H
#define XSMI_ROUNDING_H

#include "base/base.h"

#include <string.h>

/* The range of a column's numbers, zeros left out. */
typedef struct xsmi_rounding_column {
    double least, greatest; /* 0: none yet */
    bool apart;             /* they are far enough from each other: nothing more is noted */
} xsmi_rounding_column;

typedef struct xsmi_rounding {
    xsm_context *context;
    bool off; /* nothing is noted */
    xsmi_rounding_column *columns;
    size_t count, capacity, open; /* open: those that are not apart */
    uint64_t vanished, line;      /* numbers that became zero, and the line of the first, or 0 */
} xsmi_rounding;

/* Columns from this one on are not checked. */
#define XSMI_ROUNDING_COLUMNS (UINT32_C(1) << 15)
/* Numbers below this in sparse rows are not checked. */
#define XSMI_ROUNDING_LEAST 4096

void xsmi_rounding_end(xsmi_rounding *r);
/* Call before dense rows, with their number of columns. While `open` is above 0, numbers are wanted. */
xsm_status xsmi_rounding_expect(xsmi_rounding *r, uint32_t columns, xsm_error *err);
/* Notes a number that becomes 0, or whose column is still open. */
xsm_status xsmi_rounding_number(xsmi_rounding *r, uint64_t column, double value, xsm_error *err);
/* Logs warnings of what was found. `names` are those of the columns, or NULL. */
void xsmi_rounding_tell(const xsmi_rounding *r, const char *file, const char *const *names);
/* As xsmi_rounding_number(), for the text of a number in line `line`. */
xsm_status xsmi_rounding_text(xsmi_rounding *r, uint64_t column, const char *text, uint64_t line, xsm_error *err);

static inline bool xsmi_rounding_wants(const xsmi_rounding *r, uint64_t column)
{
    return column >= r->count ? !r->off && column < XSMI_ROUNDING_COLUMNS : !r->columns[column].apart;
}

/* Whether the text of a number that was read as 0 may not be 0: it does not begin with 0.0, or is long. */
static inline bool xsmi_rounding_may_vanish(const char *text, size_t length)
{
    return length > 3 && (text[0] != '0' || text[2] != '0' || length > 46);
}

#endif
