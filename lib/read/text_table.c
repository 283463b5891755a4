/*
 * Text or a table: what a file is, of which options say what it has if it is a table with a column of text.
 */
#include "base/order.h"
#include "base/utf8.h"
#include "read/columns.h"
#include "read/format.h"
#include "read/number.h"

#include <string.h>

/* A first line and what is between its fields. */
typedef struct first_line {
    const char *text;
    size_t length;
    char separator; /* '\0': nothing */
} first_line;

static size_t count_fields(const first_line *line)
{
    xsmi_part part;
    size_t at = 0, count = 0;
    while (xsmi_columns_next(line->text, line->length, line->separator, &at, &part)) {
        count++;
    }
    return count;
}

static bool has_field(const first_line *line, const char *wanted)
{
    xsmi_part part;
    size_t at = 0;
    while (xsmi_columns_next(line->text, line->length, line->separator, &at, &part)) {
        if (part.length == strlen(wanted) && memcmp(part.text, wanted, part.length) == 0) {
            return true;
        }
    }
    return false;
}

/* Whether a class of the map has this label. */
static bool is_label(const xsm_class_map *map, const char *text, size_t length)
{
    int64_t number;
    const bool whole = xsmi_columns_is_whole(text, length, &number);
    for (uint32_t k = 0; k < map->classes; k++) {
        if (map->names ? length == strlen(map->names[k]) && memcmp(text, map->names[k], length) == 0
                       : whole && number == (map->labels ? map->labels[k] : (int64_t)k)) {
            return true;
        }
    }
    return false;
}

/* Whether the column of that number has a label of the map, perhaps among others. */
static bool has_label(const xsmi_reader *r, const first_line *line, int64_t number)
{
    const char *const separator = r->options.label_separator;
    xsmi_part part = {.text = NULL}, label;
    size_t at = 0;
    number += number < 0 ? (int64_t)count_fields(line) : 0;
    for (int64_t i = 0; i <= number; i++) {
        if (!xsmi_columns_next(line->text, line->length, line->separator, &at, &part)) {
            return false;
        }
    }
    at = 0;
    while (xsmi_columns_next(part.text, part.length, separator ? *separator : '\0', &at, &label)) {
        if (is_label(&r->map, label.text, label.length)) {
            return true;
        }
    }
    return false;
}

/* How many columns a table has at least that has one of this number. */
static size_t needed_by(int64_t number)
{
    return (size_t)(number < 0 ? -number : number + 1);
}

static xsmi_match match(const xsmi_reader *r, const first_line *line)
{
    int64_t text, label = 0;
    const char *const wanted = r->options.text_column, *const labels = xsmi_reader_label_column(r);
    if (!xsmi_columns_is_whole(wanted, strlen(wanted), &text)) {
        return has_field(line, wanted) ? XSMI_MATCH_SURE : XSMI_MATCH_NO;
    }
    const bool by_number = xsmi_columns_is_whole(labels, strlen(labels), &label);
    const size_t count = count_fields(line);
    if (count < 2 || count < needed_by(text) || count < needed_by(label)) {
        return XSMI_MATCH_NO;
    }
    return line->separator == '\t' || (by_number ? has_label(r, line, label) : has_field(line, labels))
               ? XSMI_MATCH_SURE
               : XSMI_MATCH_OPEN;
}

/* What divides the columns of a first line: as in the class map's table if that does, or must, as no name shows a
 * table; else tabs if there are any. */
static char separator_of(const xsmi_reader *r, const char *text, size_t length)
{
    int64_t number;
    const char *const wanted = r->options.text_column;
    if (r->options.separator && xsmi_columns_is_whole(wanted, strlen(wanted), &number)) {
        return *r->options.separator;
    }
    const char found = xsmi_columns_separator(r, XSM_FORMAT_CSV, text, length);
    const bool known = r->options.separator && *r->options.separator == found;
    return !known && memchr(text, '\t', length) ? '\t' : found;
}

xsm_status xsmi_detect_text_table(xsmi_reader *r, bool *table, xsm_error *err)
{
    char *text;
    size_t length;
    xsmi_lines_hold(&r->lines);
    do {
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    } while (text && length == 0);
    const first_line line = {text, length, text ? separator_of(r, text, length) : '\0'};
    const xsmi_match found = text ? match(r, &line) : XSMI_MATCH_NO;
    char quote[XSMI_QUOTE_SIZE];
    const xsm_status status =
        found == XSMI_MATCH_OPEN
            ? xsmi_reader_fail(
                  r, err, XSM_ERROR_FORMAT, r->lines.line, 1,
                  "%s: a row of a table like that of the class map, or text? set xsm_read_options.format = "
                  "XSM_FORMAT_CSV or XSM_FORMAT_TEXT",
                  xsmi_quote(quote, text, length))
            : XSM_OK;
    xsmi_lines_rewind(&r->lines);
    *table = found == XSMI_MATCH_SURE;
    return status;
}
