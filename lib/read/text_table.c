/*
 * Decides whether a file is text or a table, if options describe a table with a column of text.
 */
#include "base/order.h"
#include "base/utf8.h"
#include "read/columns.h"
#include "read/format.h"
#include "read/number.h"

#include <string.h>

/* A first line and the separator between its fields. */
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

static bool is(const xsmi_part *part, const char *name)
{
    return part->length == strlen(name) && memcmp(part->text, name, part->length) == 0;
}

static bool has_field(const first_line *line, const char *wanted)
{
    xsmi_part part;
    size_t at = 0;
    while (xsmi_columns_next(line->text, line->length, line->separator, &at, &part)) {
        if (is(&part, wanted)) {
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

/* Whether the column with that number has a label of the map, perhaps among others. */
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

/* Returns the least number of columns of a table with a column of this number. */
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

/* Returns the separator of a first line: that of the class map's table, if the column of text is given by number.
 * Otherwise the one that splits the line best; but if that is not the class map's, a tab, if the line has one. */
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

/* -- tables of other columns --------------------------------------------------------------------------------------- */

/* The most lines that are read. */
#define LINES 8

/* How a separator divides the first lines. */
typedef struct division {
    char separator; /* '\0': nothing does */
    size_t lines, fields;
    uint64_t top; /* number of the first of these lines */
    char quote[XSMI_QUOTE_SIZE];
    bool words;  /* each field of it is one word */
    bool named;  /* one field is the name of the class map's column of text, in any case */
    bool exact;  /* in the same case */
    bool both;   /* another field is the name of the column of labels */
    bool spaced; /* separators are followed by blanks, as in prose */
    bool unlike; /* a line has more fields or fewer */
    bool open;   /* the last line ends in a quoted field */
} division;

static char small(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_called(const xsmi_part *part, const char *name)
{
    size_t i = 0;
    while (i < part->length && name[i] && small(part->text[i]) == small(name[i])) {
        i++;
    }
    return i == part->length && name[i] == '\0';
}

static bool is_word(const xsmi_part *part)
{
    return part->length > 0 && !memchr(part->text, ' ', part->length) &&
           !xsmi_columns_is_number(part->text, part->length);
}

/* Describes one line. */
static division divide(const xsmi_reader *r, const char *text, size_t length, char separator)
{
    division d = {.separator = separator, .lines = 1, .top = r->lines.line, .words = true};
    bool labels = false;
    xsmi_part part;
    for (size_t at = 0; xsmi_columns_next(text, length, separator, &at, &part); d.fields++) {
        d.words &= is_word(&part);
        d.named |= is_called(&part, r->options.text_column);
        d.exact |= is(&part, r->options.text_column);
        labels |= is_called(&part, xsmi_reader_label_column(r));
        d.spaced |= d.fields > 0 && part.spaced && !part.quoted;
        d.unlike |= part.broken;
        d.open |= part.open;
    }
    d.both = d.named && labels;
    xsmi_quote(d.quote, text, length);
    return d;
}

/* Adds a line. Lines before the first that is divided or has the names are taken for a title. */
static void add_line(division *all, const division *line)
{
    const bool like = line->fields == all->fields || (line->open && line->fields < all->fields);
    if (all->lines == 0 || (line->fields > 1 && !like && !all->named && (line->named || all->fields == 1))) {
        *all = *line;
    } else if (!all->open) {
        all->lines++;
        all->spaced |= line->spaced;
        all->unlike |= !like || line->unlike;
        all->open = line->open;
    }
}

/* Whether the lines are rows of a table: prose has blanks after commas, and another number of commas in each line. */
static bool is_divided(const division *d, uint64_t first)
{
    if (d->unlike || (d->named && (d->both || d->lines > 1))) {
        return !d->unlike;
    }
    return d->fields > 1 &&
           (d->spaced ? d->fields > 2 && d->lines > 3 : d->lines > 2 || (d->lines == 2 && d->words && d->top == first));
}

static bool is_remark(const char *text, size_t length)
{
    return text[0] == '#' || (length > 4 && memcmp(text, "sep=", 4) == 0);
}

static xsm_status fail_divided(const xsmi_reader *r, const division *d, xsm_error *err)
{
    static const char advice[] =
        "if this is text: xsm_read_options.format = XSM_FORMAT_TEXT; if one of its columns is: "
        "xsm_read_options.text_column";
    const char *const wanted = r->options.text_column;
    int64_t number;
    if (d->exact && d->top > 1) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, d->top, 1,
                                "%s: names of columns, '%s' among them, which are accepted in line 1: leave out the "
                                "lines before; %s",
                                d->quote, wanted, advice);
    }
    return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, d->top, 1,
                            "%s: %zu column%s of a table, as in the next lines, and %s%s%s; %s", d->quote, d->fields,
                            d->fields == 1 ? "" : "s",
                            xsmi_columns_is_whole(wanted, strlen(wanted), &number)
                                ? "the class map's is divided otherwise, its column of text being "
                                : "none is '",
                            wanted, xsmi_columns_is_whole(wanted, strlen(wanted), &number) ? "" : "'", advice);
}

/* Fails if lines without the class map's column of text are a table: one of other columns, or with a title above the
 * names. */
static xsm_status refuse_other_table(xsmi_reader *r, xsm_error *err)
{
    static const char separators[] = {'\0', ',', ';', '|', '\t'};
    division all[sizeof separators] = {{.lines = 0}};
    char *text;
    size_t length, lines = 0;
    xsmi_lines_hold(&r->lines);
    do {
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        for (size_t i = 0; i < sizeof separators && text && length > 0 && !is_remark(text, length); i++) {
            const division line = divide(r, text, length, separators[i]);
            add_line(&all[i], &line);
        }
        lines += text && length > 0;
    } while (text && lines < LINES);
    xsmi_lines_rewind(&r->lines);
    for (size_t i = 0; i < sizeof separators; i++) {
        XSMI_TRY(is_divided(&all[i], all->top) ? fail_divided(r, &all[i], err) : XSM_OK);
    }
    return XSM_OK;
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
    return found == XSMI_MATCH_NO ? refuse_other_table(r, err) : status;
}
