/* Detects a file's format by its first bytes, or by the first line that shows one. The rule is documented at
 * XSM_FORMAT_AUTO. */
#include "read/format.h"
#include "base/utf8.h"
#include "read/columns.h"
#include "read/foreign.h"
#include "read/number.h"
#include "read/sparse.h"

#include <stdio.h>
#include <string.h>

/* At most so many bytes of lines are read to find one that shows a format. */
#define DETECT_BYTES ((size_t)1 << 20)

xsm_status xsmi_detect_start(xsmi_source *s, const xsmi_format **format, xsm_error *err)
{
    for (size_t before = 0;;) {
        const unsigned char *bytes;
        size_t count;
        bool open = false;
        XSMI_TRY(xsmi_source_peek(s, before + 1, &bytes, &count, err));
        for (size_t i = 0; xsmi_formats[i]; i++) {
            const xsmi_match match = xsmi_formats[i]->begins ? xsmi_formats[i]->begins(bytes, count) : XSMI_MATCH_NO;
            if (match == XSMI_MATCH_SURE) {
                *format = xsmi_formats[i];
                return XSM_OK;
            }
            open |= match == XSMI_MATCH_OPEN;
        }
        if (!open || count == before || count >= XSMI_PEEK) {
            return XSM_OK;
        }
        before = count;
    }
}

/* Returns the format that a line shows best, and how surely, among those that accept all options of `accepts`. */
static const xsmi_format *best_with(const xsmi_reader *r, const xsmi_early_line *line, unsigned accepts,
                                    xsmi_match *best)
{
    const xsmi_format *format = NULL;
    *best = XSMI_MATCH_NO;
    for (size_t i = 0; xsmi_formats[i]; i++) {
        if ((xsmi_formats[i]->accepts & accepts) != accepts) {
            continue;
        }
        xsmi_match match = xsmi_formats[i]->match ? xsmi_formats[i]->match(r, line) : XSMI_MATCH_NO;
        if (match > *best) {
            *best = match;
            format = xsmi_formats[i];
        }
    }
    return format;
}

/* Returns the best of all formats, but tables first if the options need one. */
static const xsmi_format *best_of(const xsmi_reader *r, const xsmi_early_line *line, xsmi_match *best)
{
    const xsmi_format *table = best_with(r, line, XSMI_ACCEPTS_TABLE, best);
    return *best == XSMI_MATCH_SURE && xsmi_columns_asked_for(&r->options) ? table : best_with(r, line, 0, best);
}

static const char *known_forms(char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; xsmi_formats[i] && used < size; i++) {
        if (xsmi_formats[i]->form) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", xsmi_formats[i]->form);
        }
    }
    return text;
}

static xsm_status fail_unknown(const xsmi_reader *r, xsm_error *err)
{
    char known[400];
    return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, 1, 1,
                            "the format cannot be recognised, as no line has a feature; known are %s; or set "
                            "xsm_read_options.format",
                            known_forms(known, sizeof known));
}

/* Returns the format that a line of no format resembles most. */
static const xsmi_format *nearest(const char *text, size_t length)
{
    return memchr(text, ':', length)    ? &xsmi_libsvm_format
           : memchr(text, ',', length)  ? &xsmi_csv_format
           : memchr(text, '\t', length) ? &xsmi_tsv_format
           : memchr(text, ';', length)  ? &xsmi_csv_format
                                        : NULL;
}

/* Chooses the nearest format for a line that shows none, so that its reader says what is wrong with the line. */
static xsm_status guess(xsmi_reader *r, const xsmi_early_line *line, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE], known[400];
    const char *shown = xsmi_quote(quote, line->text, line->length);
    XSMI_TRY(xsmi_foreign_refuse_text(&r->source, line->text, line->length, err));
    if (line->sizes) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, r->lines.line, 1,
                                "after a line of two numbers %s is no row 'f:v f:v' of XC text; if these are word "
                                "vectors: rows of data are wanted here",
                                shown);
    }
    r->format = nearest(line->text, line->length);
    r->guessed = true;
    return r->format ? XSM_OK
                     : xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, r->lines.line, 1,
                                        "the format cannot be recognised from %s; known are %s; a header line has a "
                                        "column %s; columns with blanks between need xsm_read_options.separator, "
                                        "other text xsm_read_options.format = XSM_FORMAT_TEXT",
                                        shown, known_forms(known, sizeof known), xsmi_reader_label_column(r));
}

/* Whether the line is two whole numbers: the rows and features of XC text whose labels are in another file. */
static bool is_sizes(const char *text, size_t length)
{
    return xsmi_count_integers(text, length) == 2;
}

/* Whether the line may be a comment of an ARFF file. */
static bool is_comment(const xsmi_early_line *line)
{
    return line->length > 0 && line->text[0] == '%';
}

xsm_status xsmi_detect(xsmi_reader *r, xsm_error *err)
{
    bool first = true, sizes = false;
    xsmi_match match = XSMI_MATCH_OPEN, table;
    const xsmi_format *fallback = NULL; /* a table of whole numbers looks like labels alone */
    xsmi_lines_hold(&r->lines);
    while (match == XSMI_MATCH_OPEN) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        if (!text && r->lines.line == 0) {
            return xsmi_fail(err, XSM_ERROR_DATA, "%s: the file is empty; at least one row is needed", r->source.name);
        }
        if (!text || (r->lines.line > 1 && xsmi_lines_buffered(&r->lines) > DETECT_BYTES)) {
            r->format = fallback;
            XSMI_TRY(fallback ? XSM_OK : fail_unknown(r, err));
            break;
        }
        xsmi_early_line line = {text, length, r->lines.line == 1, first, sizes};
        r->format = best_of(r, &line, &match);
        if (match == XSMI_MATCH_NO && is_comment(&line)) {
            XSMI_TRY(xsmi_foreign_refuse_text(&r->source, text, length, err));
            match = XSMI_MATCH_OPEN;
        } else if (match == XSMI_MATCH_NO && fallback) {
            r->format = fallback;
        } else if (match == XSMI_MATCH_NO) {
            XSMI_TRY(guess(r, &line, err));
        } else if (match == XSMI_MATCH_MAYBE) {
            XSMI_TRY(xsmi_foreign_refuse_text(&r->source, text, length, err));
        }
        if (first && length > 0) {
            fallback = best_with(r, &line, XSMI_ACCEPTS_TABLE, &table);
        }
        sizes |= line.top && is_sizes(text, length);
        first = first && length == 0; /* blank lines may come before a header */
    }
    xsmi_lines_rewind(&r->lines);
    return XSM_OK;
}

/* -- lines for a class map with a vocabulary ---------------------------------------------------------------------- */

/* The most lines that are read. */
#define LINES 4

/* What the first lines that are not empty show. */
typedef struct first_lines {
    size_t count, rows, pairs; /* lines; those that are rows of LIBSVM or XC; the features of these */
    bool sizes, header;        /* line 1 is a header of XC; of a table */
} first_lines;

static xsm_status judge_line(xsmi_reader *r, const char *text, size_t length, first_lines *f, xsm_error *err)
{
    if (f->count == 0) {
        const size_t integers = xsmi_count_integers(text, length);
        XSMI_TRY(xsmi_foreign_refuse_text(&r->source, text, length, err));
        if (text[0] == '%') {
            return XSM_OK; /* a comment of ARFF, or not */
        }
        f->sizes = r->lines.line == 1 && (integers == 2 || integers == 3);
        f->header = xsmi_columns_is_header(r, text, length);
    }
    f->rows += xsmi_sparse_is_row(text, length, &f->pairs);
    f->count++;
    return XSM_OK;
}

xsm_status xsmi_detect_no_text(xsmi_reader *r, xsm_error *err)
{
    first_lines f = {0, 0, 0, false, false};
    char *text;
    size_t length;
    xsmi_lines_hold(&r->lines);
    for (bool more = true; more && f.count < LINES && xsmi_lines_buffered(&r->lines) <= DETECT_BYTES;
         more = text != NULL) {
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        XSMI_TRY(text && length > 0 ? judge_line(r, text, length, &f, err) : XSM_OK);
    }
    xsmi_lines_rewind(&r->lines);
    const char *found = f.sizes && f.rows > 0 && f.rows == f.count - 1 ? "XC text"
                        : f.pairs > 1 && f.rows == f.count             ? "rows of LIBSVM"
                        : f.header && f.count > 1                      ? "a table"
                                                                       : NULL;
    return !found
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_FORMAT,
                           "%s: %s, and the class map is that of text; if this is text, too: xsm_read_options.format "
                           "= XSM_FORMAT_TEXT%s",
                           r->source.name, found,
                           f.header ? "; if one of its columns is: xsm_read_options.text_column" : "");
}
