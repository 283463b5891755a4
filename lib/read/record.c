#include "read/record.h"
#include "base/grow.h"

#include <string.h>

static xsm_status fail_here(const xsmi_record *c, size_t at, xsm_error *err, const char *what)
{
    return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, c->line, at - c->line_start + 1, "%s", what);
}

void xsmi_record_start(xsmi_record *c, char *text, size_t length)
{
    c->text = text;
    c->length = length;
    c->at = 0;
    c->done = false;
    c->again = 0;
    c->line_start = 0;
    if (c->separator == ' ') {
        c->at = xsmi_record_skip(c, 0);
    }
}

bool xsmi_record_opens(const char *line, size_t at, size_t length, char separator)
{
    const char *const end = line + length;
    const char *p = line + at;
    if (separator != '\t') {
        return true;
    }
    do {
        p = memchr(p + 1, '"', (size_t)(end - p - 1));
    } while (p && p + 1 < end && p[1] == '"' && p++);
    for (p = p ? p + 1 : NULL; p && p < end && *p == ' ';) {
        p++;
    }
    return p && (p == end || *p == separator);
}

/* Reads the rest of a field after its opening quote at `open`, up to the closing one, line by line. */
static xsm_status quoted_field(xsmi_record *c, size_t open, xsmi_field *f, xsm_error *err)
{
    size_t from = open + 1; /* next byte to read */
    size_t to = open + 1;   /* next byte of the decoded field */
    for (;;) {
        char *quote = memchr(c->text + from, '"', c->length - from);
        if (!quote) {
            size_t part = c->length - from;
            memmove(c->text + to, c->text + from, part);
            to += part;
            size_t old = c->length;
            XSMI_TRY(xsmi_lines_extend(&c->r->lines, &c->text, &c->length, err));
            if (!c->text) {
                return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, f->line, f->column,
                                        "a quoted field that does not end; expected a closing quote");
            }
            /* The line end (one byte or two) belongs to the field. */
            size_t end = old;
            while (c->text[end] != '\n') {
                c->text[to++] = c->text[end++];
            }
            c->text[to++] = '\n';
            from = end + 1;
            c->line++;
            c->line_start = from;
            continue;
        }
        size_t at = (size_t)(quote - c->text);
        size_t part = at - from;
        memmove(c->text + to, c->text + from, part);
        to += part;
        from = at + 1;
        if (from < c->length && c->text[from] == '"') {
            c->text[to++] = '"';
            from++;
            continue;
        }
        f->start = open + 1;
        f->length = to - f->start;
        from = c->separator == ' ' ? from : xsmi_record_skip(c, from);
        if (from < c->length && c->text[from] != c->separator) {
            return fail_here(c, from, err,
                             "expected a separator or the end of the line after a closing quote (a quote "
                             "within a quoted field is doubled)");
        }
        c->done = from >= c->length;
        c->at = from + 1;
        return XSM_OK;
    }
}

xsm_status xsmi_record_next_field(xsmi_record *c, xsmi_field *f, xsm_error *err)
{
    if (c->again > 0) {
        *f = c->fields[c->count - c->again--];
        c->done = c->again == 0;
        return XSM_OK;
    }
    if (xsmi_record_quoted(c)) {
        c->at = xsmi_record_skip(c, c->at);
        *f = (xsmi_field){.line = c->line, .column = c->at - c->line_start + 1, .quoted = true};
        XSMI_TRY(quoted_field(c, c->at, f, err));
    } else {
        xsmi_record_plain(c, f);
    }
    if (c->separator == ' ' && !c->done) {
        c->at = xsmi_record_skip(c, c->at);
        c->done = c->at >= c->length;
    }
    return XSM_OK;
}

xsm_status xsmi_record_split(xsmi_record *c, xsm_error *err)
{
    c->count = 0;
    while (!c->done) {
        XSMI_TRY(XSMI_GROW(c->r->context, c->fields, c->capacity, c->count + 1, "the columns of a table", err));
        XSMI_TRY(xsmi_record_next(c, &c->fields[c->count], err));
        c->count++;
    }
    return XSM_OK;
}

void xsmi_record_end(xsmi_record *c)
{
    xsmi_release(c->r->context, c->fields, c->capacity, sizeof *c->fields);
}
