/* Detects a file's format by its first bytes, or by the first line that allows it. The rule is documented at
 * XSM_FORMAT_AUTO. */
#include "read/format.h"
#include "base/utf8.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* At most this many lines are read to find one that allows it. */
#define DETECT_BYTES ((size_t)1 << 20)

const xsmi_format *xsmi_detect_file(const char *path)
{
    unsigned char start[16] = {0};
    struct stat st;
    int fd = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        return NULL;
    }
    ssize_t got = read(fd, start, sizeof start);
    close(fd);
    for (size_t i = 0; xsmi_formats[i] && got > 0; i++) {
        if (xsmi_formats[i]->begins && xsmi_formats[i]->begins(start, (size_t)got)) {
            return xsmi_formats[i];
        }
    }
    return NULL;
}

/* The format that a line shows best, and how surely. */
static const xsmi_format *best_of(const xsmi_reader *r, const xsmi_early_line *line, xsmi_match *best)
{
    const xsmi_format *format = NULL;
    *best = XSMI_MATCH_NO;
    for (size_t i = 0; xsmi_formats[i]; i++) {
        xsmi_match match = xsmi_formats[i]->match ? xsmi_formats[i]->match(r, line) : XSMI_MATCH_NO;
        if (match > *best) {
            *best = match;
            format = xsmi_formats[i];
        }
    }
    return format;
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

/* No line shows the format, or this one (`text`) shows that it is none of them. */
static xsm_status fail(const xsmi_reader *r, const char *text, size_t length, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE], known[400];
    if (text) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, r->lines.line, 1,
                                "the format cannot be recognised from %s; known are %s; a header line has a column %s",
                                xsmi_quote(quote, text, length), known_forms(known, sizeof known),
                                xsmi_reader_label_column(r));
    }
    return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, 1, 1,
                            "the format cannot be recognised, as no line has a feature; known are %s; or set "
                            "xsm_read_options.format",
                            known_forms(known, sizeof known));
}

xsm_status xsmi_detect(xsmi_reader *r, xsm_error *err)
{
    bool first = true;
    xsmi_match match = XSMI_MATCH_OPEN;
    xsmi_lines_hold(&r->lines);
    while (match == XSMI_MATCH_OPEN) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        if (!text && r->lines.line == 0) {
            return xsmi_fail(err, XSM_ERROR_DATA, "%s: the file is empty; at least one row is needed", r->source.name);
        }
        if (!text) {
            return fail(r, NULL, 0, err);
        }
        xsmi_early_line line = {text, length, r->lines.line == 1, first};
        r->format = best_of(r, &line, &match);
        if (match == XSMI_MATCH_NO) {
            return fail(r, text, length, err);
        }
        if (match == XSMI_MATCH_OPEN && xsmi_lines_buffered(&r->lines) > DETECT_BYTES) {
            return fail(r, NULL, 0, err);
        }
        first = first && length == 0; /* blank lines may come before a header */
    }
    xsmi_lines_rewind(&r->lines);
    return XSM_OK;
}
