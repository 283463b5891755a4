#include "read/rounding.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/utf8.h"
#include "read/number.h"

#include <math.h>
#include <stdio.h>

/* If all numbers of a column are within this share of their size, float32 keeps at most 12 bits of their
 * differences. */
#define CLOSE (1.0 / 4096)
/* Numbers within this share of their size count as equal. */
#define SAME 1e-12

void xsmi_rounding_end(xsmi_rounding *r)
{
    xsmi_release(r->context, r->columns, r->capacity, sizeof *r->columns);
}

static xsm_status grow(xsmi_rounding *r, size_t count, xsm_error *err)
{
    XSMI_TRY(XSMI_GROW(r->context, r->columns, r->capacity, count, "the columns of a file", err));
    memset(r->columns + r->count, 0, (count - r->count) * sizeof *r->columns);
    r->open += count - r->count;
    r->count = count;
    return XSM_OK;
}

xsm_status xsmi_rounding_expect(xsmi_rounding *r, uint32_t columns, xsm_error *err)
{
    return r->off ? XSM_OK : grow(r, XSMI_MIN(columns, XSMI_ROUNDING_COLUMNS), err);
}

xsm_status xsmi_rounding_number(xsmi_rounding *r, uint64_t column, double value, xsm_error *err)
{
    if ((float)value == 0 || r->off) {
        r->vanished += value != 0 && !r->off;
        return XSM_OK;
    }
    XSMI_TRY(column >= r->count ? grow(r, (size_t)column + 1, err) : XSM_OK);
    xsmi_rounding_column *c = &r->columns[column];
    c->least = c->least == 0 ? value : XSMI_MIN(value, c->least);
    c->greatest = c->greatest == 0 ? value : XSMI_MAX(value, c->greatest);
    c->apart = c->greatest - c->least >= CLOSE * XSMI_MAX(fabs(c->greatest), fabs(c->least));
    r->open -= c->apart;
    return XSM_OK;
}

xsm_status xsmi_rounding_text(xsmi_rounding *r, uint64_t column, const char *text, uint64_t line, xsm_error *err)
{
    const double number = r->off ? 0 : xsmi_rough_double(text);
    if ((float)number == 0) {
        r->line = number != 0 && r->vanished++ == 0 ? line : r->line;
        return XSM_OK;
    }
    return xsmi_rounding_wants(r, column) ? xsmi_rounding_number(r, column, number, err) : XSM_OK;
}

/* Returns how many float32 numbers there are from `low` to `high`, both included, which have the same sign. */
static unsigned between(double low, double high)
{
    const float ends[] = {(float)low, (float)high};
    int32_t bits[2];
    memcpy(bits, ends, sizeof bits);
    return (unsigned)(bits[1] > bits[0] ? bits[1] - bits[0] : bits[0] - bits[1]) + 1;
}

static bool is_lost(const xsmi_rounding_column *c)
{
    return !c->apart && c->greatest - c->least > SAME * fabs(c->greatest);
}

void xsmi_rounding_tell(const xsmi_rounding *r, const char *file, const char *const *names)
{
    size_t lost = 0, first = 0;
    for (size_t j = r->count; j-- > 0;) {
        lost += is_lost(&r->columns[j]);
        first = is_lost(&r->columns[j]) ? j : first;
    }
    if (lost > 0) {
        char name[XSMI_QUOTE_SIZE];
        const xsmi_rounding_column *c = &r->columns[first];
        if (names) {
            xsmi_quote(name, names[first], strlen(names[first]));
        } else {
            snprintf(name, sizeof name, "%zu", first);
        }
        xsmi_log(
            r->context, XSM_LOG_WARNING,
            "%s: %zu features differ by less than 1/4096 of their size, the first is %s: of its numbers from %.12g "
            "to %.12g at most %u are different in float32; subtract a constant before",
            file, lost, name, c->least, c->greatest, between(c->least, c->greatest));
    }
    if (r->vanished > 0) {
        char where[48] = "";
        if (r->line > 0) {
            snprintf(where, sizeof where, ", the first in line %llu", (unsigned long long)r->line);
        }
        xsmi_log(r->context, XSM_LOG_WARNING, "%s: %llu numbers are 0 in float32, whose least is 1.4e-45%s", file,
                 (unsigned long long)r->vanished, where);
    }
}
