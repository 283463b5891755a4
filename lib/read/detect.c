/* Detects a file's format by the first line that allows it. The rule is documented at XSM_FORMAT_AUTO. */
#include "read/reader.h"
#include "read/number.h"
#include "data/text.h"
#include "data/vocabulary.h"

#include <string.h>

/* At most this many lines are read to find one that allows it. */
#define DETECT_BYTES ((size_t)1 << 20)

/* Skips spaces and an unsigned integer; NULL if there is none. */
static const char *skip_integer(const char *p, const char *end)
{
    while (p < end && xsmi_is_space(*p)) {
        p++;
    }
    if (p == end || !xsmi_is_digit(*p)) {
        return NULL;
    }
    while (p < end && xsmi_is_digit(*p)) {
        p++;
    }
    return p;
}

bool xsmi_is_xc_header(const char *text, size_t length)
{
    const char *end = text + length;
    const char *p = text;
    for (int i = 0; i < 3; i++) {
        p = skip_integer(p, end);
        if (!p || (p < end && !xsmi_is_space(*p))) {
            return false;
        }
    }
    while (p < end && xsmi_is_space(*p)) {
        p++;
    }
    return p == end;
}

/* ROW: `l f:v` or `f:v`, whatever the values; OPEN: nothing, a comment or labels only. */
enum { LINE_OTHER, LINE_ROW, LINE_OPEN };

static int sparse_line(const char *text, size_t length)
{
    const char *end = text + length;
    const char *p = text;
    while (p < end && xsmi_is_space(*p)) {
        p++;
    }
    if (p == end || *p == '#') {
        return LINE_OPEN;
    }
    /* Labels, unless the first integer is a feature. */
    for (;;) {
        int64_t label;
        const char *after;
        if (xsmi_parse_integer(p, &after, &label) != XSMI_NUMBER_OK) {
            return LINE_OTHER;
        }
        if (after < end && *after == ',') {
            p = after + 1;
            continue;
        }
        if (after < end && *after == ':') {
            return LINE_ROW;
        }
        p = after;
        break;
    }
    if (p < end && !xsmi_is_space(*p) && *p != '#') {
        return LINE_OTHER;
    }
    while (p < end && xsmi_is_space(*p)) {
        p++;
    }
    if (p == end || *p == '#') {
        return LINE_OPEN;
    }
    if (end - p >= 4 && memcmp(p, "qid:", 4) == 0) {
        return LINE_ROW;
    }
    const char *feature = skip_integer(p, end);
    return feature && feature < end && *feature == ':' ? LINE_ROW : LINE_OTHER;
}

/* Whether a header line has the label column; quoted names may not span lines here. */
static bool is_dense_header(const char *text, size_t length, char separator, const char *label_column)
{
    size_t wanted = strlen(label_column);
    if (!memchr(text, separator, length)) {
        return false;
    }
    for (size_t at = 0; at <= length;) {
        const char *stop = memchr(text + at, separator, length - at);
        size_t end = stop ? (size_t)(stop - text) : length;
        size_t start = at;
        size_t size = end - at;
        if (size >= 2 && text[start] == '"' && text[end - 1] == '"') {
            start++;
            size -= 2;
        }
        if (size == wanted && memcmp(text + start, label_column, wanted) == 0) {
            return true;
        }
        at = end + 1;
    }
    return false;
}

/* Whether a header line has as many columns as a class map has features, so that there are no labels. A line of numbers
 * is no header. */
static bool is_bare_header(const xsmi_reader *r, const char *text, size_t length, char separator)
{
    size_t fields = 0;
    bool names = false, drops;
    for (size_t at = 0; r->has_map && at <= length; fields++) {
        const char *stop = memchr(text + at, separator, length - at);
        size_t end = stop ? (size_t)(stop - text) : length;
        names |= !xsmi_is_number(text + at, end - at);
        at = end + 1;
    }
    return names && fields > 1 && fields == xsmi_reader_features(r, &drops);
}

static bool starts_with(const char *text, size_t length, const char *prefix)
{
    size_t at = 0;
    size_t size = strlen(prefix);
    while (at < length && xsmi_is_space(text[at])) {
        at++;
    }
    return length - at >= size && memcmp(text + at, prefix, size) == 0;
}

#define FORMATS_KNOWN                                                                                                  \
    "known are XC text (first line 'rows features labels', then 'l1,l2 f:v f:v'), LIBSVM ('l f:v f:v'), text (lines "  \
    "that start with " XSMI_LABEL_PREFIX ", or xsm_text_options.label_prefix), and CSV or TSV with a header line"

xsm_status xsmi_detect(xsmi_reader *r, xsm_error *err)
{
    const char *column = xsmi_reader_label_column(r);
    int32_t format = XSM_FORMAT_AUTO;
    bool first = true;
    xsm_text_options options;
    XSMI_TRY(xsmi_text_options_read(&options, r->options.text, err));
    xsmi_lines_hold(&r->lines);
    while (format == XSM_FORMAT_AUTO) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        int kind = text ? sparse_line(text, length) : LINE_OPEN;
        if (text && r->lines.line == 1 && xsmi_is_xc_header(text, length)) {
            format = XSM_FORMAT_XC;
        } else if (text && starts_with(text, length, options.label_prefix)) {
            format = XSM_FORMAT_TEXT;
        } else if (text && first && is_dense_header(text, length, ',', column)) {
            format = XSM_FORMAT_CSV;
        } else if (text && first && is_dense_header(text, length, '\t', column)) {
            format = XSM_FORMAT_TSV;
        } else if (kind == LINE_ROW) {
            format = XSM_FORMAT_LIBSVM;
        } else if (kind == LINE_OTHER && first && is_bare_header(r, text, length, ',')) {
            format = XSM_FORMAT_CSV;
        } else if (kind == LINE_OTHER && first && is_bare_header(r, text, length, '\t')) {
            format = XSM_FORMAT_TSV;
        } else if (kind == LINE_OTHER) {
            char quote[XSMI_QUOTE_SIZE];
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, r->lines.line, 1,
                                    "the format cannot be told from %s; " FORMATS_KNOWN " that has a column %s",
                                    xsmi_quote(quote, text, length), column);
        } else if (!text && r->lines.line == 0) {
            return xsmi_fail(err, XSM_ERROR_DATA, "%s: the file is empty; at least one row is needed", r->source.name);
        } else if (!text || xsmi_lines_held(&r->lines) > DETECT_BYTES) {
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, 1, 1,
                                    "the format cannot be told, as no line has a feature; " FORMATS_KNOWN
                                    "; or set xsm_read_options.format");
        }
        first = first && text && length == 0; /* blank lines may come before a header */
    }
    xsmi_lines_rewind(&r->lines);
    r->format = format;
    return XSM_OK;
}
