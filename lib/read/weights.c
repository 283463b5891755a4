/* Weights of rows from a file with one number a line: line i + 1 is the weight of row i. */
#include "read/format.h"
#include "base/utf8.h"
#include "read/number.h"
#include "read/source.h"

#include <string.h>

static xsm_status parse_weight(const xsmi_lines *l, const char *text, size_t length, float *weight, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE];
    const char *end = text;
    const int parsed = xsmi_parse_short_float(text, &end, weight);
    while (parsed == XSMI_NUMBER_OK && end < text + length && xsmi_is_space(*end)) {
        end++;
    }
    return parsed == XSMI_NUMBER_OK && end == text + length && *weight >= 0
               ? XSM_OK
               : xsmi_fail_at(err, XSM_ERROR_FORMAT, l->line, 1,
                              "%s, line %llu, column 1: %s is no weight; a finite number of 0 or more is accepted",
                              l->source->name, (unsigned long long)l->line, xsmi_quote(quote, text, length));
}

static xsm_status read_lines(const xsm_dataset *d, xsmi_lines *l, float *weights, xsm_error *err)
{
    for (uint64_t i = 0;; i++) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(l, &text, &length, err));
        if (!text && i == d->rows) {
            return XSM_OK;
        }
        if (!text || i == d->rows) {
            return xsmi_fail(err, XSM_ERROR_SHAPE, "%s has %s %llu lines; it needs a weight for each of the %llu rows",
                             l->source->name, text ? "more than" : "only", (unsigned long long)i,
                             (unsigned long long)d->rows);
        }
        XSMI_TRY(parse_weight(l, text, length, weights + i, err));
    }
}

xsm_status xsmi_read_weights(xsm_dataset *d, const char *path, xsm_error *err)
{
    xsm_status status = XSM_OK;
    size_t capacity = 0;
    xsmi_source source;
    xsmi_lines lines;
    float *weights = xsmi_dataset_allocate(d, d->rows, sizeof *weights, &capacity, &status, err);
    XSMI_TRY(status);
    memset(&lines, 0, sizeof lines);
    status = xsmi_source_open_file(&source, d->context, path, err);
    if (status == XSM_OK) {
        xsmi_lines_start(&lines, &source);
        status = read_lines(d, &lines, weights, err);
    }
    xsmi_lines_end(&lines);
    xsmi_source_close(&source);
    if (status == XSM_OK) {
        xsmi_dataset_take_weights(d, weights, capacity);
    } else {
        xsmi_release(d->context, weights, capacity, sizeof *weights);
    }
    return status;
}
