/*
 * Labels in a text file of their own: a line for each row, `l1,l2` or `l1:1 l2:1`, perhaps below a line of two numbers,
 * rows and labels, as the Extreme Classification Repository has them.
 */
#include "read/label_file.h"
#include "base/utf8.h"
#include "read/number.h"

#include <stdio.h>

typedef struct label_lines {
    xsmi_reader *r; /* the rows, which are all there */
    xsmi_lines lines;
    uint64_t rows, declared; /* labels below `declared` are accepted */
    const char *line;
} label_lines;

static xsm_status fail(const label_lines *l, const char *at, const char *what, xsm_error *err)
{
    return xsmi_fail_at(err, XSM_ERROR_FORMAT, l->lines.line, (uint64_t)(at - l->line) + 1,
                        "%s, line %llu, column %llu: %s", l->lines.source->name, (unsigned long long)l->lines.line,
                        (unsigned long long)(at - l->line) + 1, what);
}

/* Reads `label` or `label:value` at *at. */
static xsm_status read_label(label_lines *l, const char **at, int64_t *label, float *weight, xsm_error *err)
{
    const char *const start = *at;
    *weight = 1;
    if (xsmi_parse_integer(start, at, label) != XSMI_NUMBER_OK) {
        return fail(l, start, "expected a label, an integer of 64 bits", err);
    }
    if (l->declared < UINT64_MAX && (*label < 0 || (uint64_t)*label >= l->declared)) {
        char text[120];
        snprintf(text, sizeof text, "label %lld; the first line declares %llu labels, from 0", (long long)*label,
                 (unsigned long long)l->declared);
        return fail(l, start, text, err);
    }
    if (**at != ':') {
        return XSM_OK;
    }
    const char *number = *at + 1;
    if (xsmi_parse_float(number, at, weight) != XSMI_NUMBER_OK || !(*weight >= 0)) {
        return fail(l, number, "expected the label's value, finite and at least 0", err);
    }
    return *weight == 1 || l->r->options.label_weights
               ? XSM_OK
               : fail(l, number,
                      "a value other than 1, which is the label's weight; xsm_read_options.label_weights reads weights",
                      err);
}

/* A row's labels, from a line that ends with a line end. */
static xsm_status read_line(label_lines *l, size_t length, xsm_error *err)
{
    xsmi_reader *r = l->r;
    const char *p = l->line, *end = l->line + length;
    xsmi_row_labels row = {.r = r};
    XSMI_TRY(xsmi_reader_reserve(r, 0, length / 2 + 1, err));
    for (bool first = true;; first = false) {
        int64_t label;
        float weight;
        const bool comma = !first && p < end && *p == ',';
        const char *before = p;
        p += comma;
        while (xsmi_is_space(*p)) {
            p++;
        }
        if (p == end && !comma) {
            break;
        }
        if (!first && p == before) {
            return fail(l, p, "expected a comma or a space after a label", err);
        }
        XSMI_TRY(read_label(l, &p, &label, &weight, err));
        XSMI_TRY(xsmi_row_labels_add(&row, label, weight, err));
    }
    return xsmi_row_labels_end(&row, err);
}

static xsm_status wrong_count(const label_lines *l, uint64_t count, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_SHAPE, "%s has labels for %llu rows, and %s has %llu rows; the numbers must agree",
                     l->lines.source->name, (unsigned long long)count, l->r->source.name, (unsigned long long)l->rows);
}

/* Whether the first line declares rows and labels. */
static bool is_header(label_lines *l, size_t length)
{
    int64_t rows, labels;
    const char *p = l->line;
    if (xsmi_count_integers(p, length) != 2) {
        return false;
    }
    while (xsmi_is_space(*p)) {
        p++;
    }
    if (xsmi_parse_integer(p, &p, &rows) != XSMI_NUMBER_OK || (uint64_t)rows != l->rows) {
        return false; /* two labels, or the number of lines shows that it is wrong */
    }
    while (xsmi_is_space(*p)) {
        p++;
    }
    l->declared = xsmi_parse_integer(p, &p, &labels) == XSMI_NUMBER_OK ? (uint64_t)labels : UINT64_MAX;
    return true;
}

static xsm_status read_lines(label_lines *l, xsm_error *err)
{
    xsmi_reader *r = l->r;
    for (;;) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&l->lines, &text, &length, err));
        if (!text) {
            return r->rows == l->rows ? XSM_OK : wrong_count(l, r->rows, err);
        }
        l->line = text;
        if (l->lines.line == 1 && is_header(l, length)) {
            continue;
        }
        if (r->rows == l->rows && length > 0) {
            return wrong_count(l, r->rows + 1, err);
        }
        if (r->rows < l->rows) {
            XSMI_TRY(read_line(l, length, err));
            r->label.offsets[++r->rows] = r->label.count;
        }
    }
}

xsm_status xsmi_read_label_file(xsmi_reader *r, xsm_error *err)
{
    xsmi_source source;
    label_lines l = {.r = r, .rows = r->rows, .declared = UINT64_MAX};
    xsm_status status = xsmi_source_open_file(&source, r->context, r->options.labels_path, err);
    if (status == XSM_OK) {
        xsmi_lines_start(&l.lines, &source);
        r->rows = 0;
        status = read_lines(&l, err);
    }
    xsmi_lines_end(&l.lines);
    xsmi_source_close(&source);
    return status;
}
