/* A file that is written through a buffer, and the text of its numbers. */
#include "read/output.h"
#include "read/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

xsm_status xsmi_output_flush(xsmi_output *o, xsm_error *err)
{
    size_t used = o->used;
    o->used = 0;
    return used > 0 ? xsmi_replace_write(o->file, o->buffer, used, err) : XSM_OK;
}

xsm_status xsmi_output_bytes(xsmi_output *o, const void *data, size_t size, xsm_error *err)
{
    if (size > XSMI_WRITE_BUFFER - o->used) {
        XSMI_TRY(xsmi_output_flush(o, err));
        if (size > XSMI_WRITE_BUFFER) {
            return xsmi_replace_write(o->file, data, size, err);
        }
    }
    if (size > 0) {
        memcpy(o->buffer + o->used, data, size);
    }
    o->used += size;
    return XSM_OK;
}

xsm_status xsmi_output_integer(xsmi_output *o, int64_t value, xsm_error *err)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, value);
    return xsmi_output_bytes(o, text, (size_t)length, err);
}

/* Writes `digits` significant digits of a value as [-]d.ddde[-]x without trailing zeros, with a point in every
 * locale. */
static size_t print(char *out, float value, int digits)
{
    char text[64];
    char *p = out;
    snprintf(text, sizeof text, "%.*e", digits - 1, (double)value);
    const char *exponent = strchr(text, 'e');
    char *last = out;
    size_t count = 0;
    for (const char *c = text; c < exponent; c++) {
        if (*c == '-') {
            *p++ = '-';
        } else if (xsmi_is_digit(*c)) {
            if (count++ == 1) {
                *p++ = '.';
            }
            *p++ = *c;
            last = *c != '0' || count == 1 ? p : last;
        }
    }
    p = last;
    int x = 0;
    for (const char *c = exponent + 2; *c; c++) {
        x = x * 10 + (*c - '0');
    }
    if (x > 0) {
        p += snprintf(p, 8, "e%s%d", exponent[1] == '-' ? "-" : "", x);
    }
    return (size_t)(p - out);
}

xsm_status xsmi_output_float(xsmi_output *o, float value, xsm_error *err)
{
    char text[64];
    if (value == (float)(int32_t)(value < 1e6f && value > -1e6f ? value : 0.5f)) {
        return xsmi_output_integer(o, (int32_t)value, err); /* the fast path for integers, zeros included */
    }
    size_t length = 0;
    for (int digits = 6; digits <= 9; digits++) {
        length = print(text, value, digits);
        text[length] = '\n'; /* not part of a number */
        const char *end;
        float back = 0;
        if (xsmi_parse_float(text, &end, &back) == XSMI_NUMBER_OK && back == value) {
            break;
        }
    }
    return xsmi_output_bytes(o, text, length, err);
}
