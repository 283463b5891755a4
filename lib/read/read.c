/*
 * Reading a file: options, its format, and the dataset made from the rows read.
 */
#include "read/columns.h"
#include "read/format.h"
#include "read/label_file.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/storage.h"
#include "data/schema.h"
#include "data/vocabulary.h"
#include "base/utf8.h"
#include "read/foreign.h"
#include "read/number.h"
#include "read/sparse.h"
#include "base/registry.h"

#include <stdio.h>
#include <string.h>

/* -- options ------------------------------------------------------------------------------------------------------ */

static xsm_status check_map(xsmi_reader *r, xsm_error *err)
{
    r->map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    XSMI_TRY(XSMI_READ(xsm_class_map, &r->map, r->options.classes, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_class_map, &r->map, reserved, err));
    XSMI_TRY(xsmi_schema_of_map(r->context, &r->map, &r->wanted, err));
    r->has_map = true;
    if (r->map.classes > XSM_CLASSES_MAX || r->map.features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a class map of %u classes and %u features; at most %u of each are "
                         "supported",
                         r->map.classes, r->map.features, (unsigned)XSM_CLASSES_MAX);
    }
    for (uint32_t k = 1; k < r->map.classes && r->map.labels; k++) {
        if (r->map.labels[k] <= r->map.labels[k - 1]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "the class map has the label %lld after %lld; its labels must rise",
                             (long long)r->map.labels[k], (long long)r->map.labels[k - 1]);
        }
    }
    for (uint32_t k = 0; k < r->map.classes && r->map.names; k++) {
        if (!r->map.names[k]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the class map has no name for class %u though it has names", k);
        }
    }
    return XSM_OK;
}

static bool sets_text(const xsm_text_options *given, const xsm_text_options *read)
{
    const xsm_text_options unset = XSM_TEXT_OPTIONS_INIT;
    xsm_text_options defaults;
    return given && xsmi_text_options_read(&defaults, &unset, NULL) == XSM_OK &&
           !xsmi_text_options_equal(read, &defaults);
}

/* Lists the formats that have an option, as "CSV, TSV and NPY". */
static const char *list_formats(unsigned option, char *text, size_t size)
{
    size_t count = 0, used = 0;
    for (size_t i = 0; xsmi_formats[i]; i++) {
        count += (xsmi_formats[i]->accepts & option) != 0;
    }
    text[0] = '\0';
    for (size_t i = 0; xsmi_formats[i] && used < size; i++) {
        if (xsmi_formats[i]->accepts & option) {
            count--;
            used += (size_t)snprintf(text + used, size - used, "%s%s", xsmi_formats[i]->name,
                                     count > 1    ? ", "
                                     : count == 1 ? " and "
                                                  : "");
        }
    }
    return text;
}

/* Refuses options of one format if another is requested. If the format is still to be detected, it may be the right
 * one. */
static xsm_status check_format(const xsmi_reader *r, bool text_set, xsm_error *err)
{
    const xsm_read_options *o = &r->options;
    const struct {
        bool set;
        unsigned accepts;
        const char *option;
    } options[] = {
        {o->index_base != XSM_INDEX_BASE_AUTO, XSMI_ACCEPTS_INDEX_BASE, "index_base"},
        {o->label_column != NULL, XSMI_ACCEPTS_COLUMNS, "label_column"},
        {o->header != XSM_HEADER_AUTO, XSMI_ACCEPTS_TABLE, "header"},
        {o->separator != NULL, XSMI_ACCEPTS_TABLE, "separator"},
        {o->ignore_columns != NULL, XSMI_ACCEPTS_TABLE, "ignore_columns"},
        {o->label_separator != NULL, XSMI_ACCEPTS_TABLE, "label_separator"},
        {o->text_column != NULL, XSMI_ACCEPTS_TABLE, "text_column"},
        {o->weights_column != NULL, XSMI_ACCEPTS_COLUMNS, "weights_column"},
        {text_set && !o->text_column, XSMI_ACCEPTS_TEXT, "text"},
        {o->labels_path != NULL, XSMI_ACCEPTS_LABELS_PATH, "labels_path"},
        {o->label_weights != 0, XSMI_ACCEPTS_LABEL_WEIGHTS, "label_weights"},
        {o->skip_verify != 0, XSMI_ACCEPTS_SKIP_VERIFY, "skip_verify"},
        {o->duplicates != XSM_DUPLICATES_FAIL, XSMI_ACCEPTS_DUPLICATES, "duplicates"},
        {o->bad_bytes != XSM_BAD_BYTES_FAIL, XSMI_ACCEPTS_BAD_BYTES, "bad_bytes"},
    };
    for (size_t i = 0; r->format && i < sizeof options / sizeof options[0]; i++) {
        if (options[i].set && !(r->format->accepts & options[i].accepts)) {
            char text[128];
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "xsm_read_options.%s is set, an option of XSM_FORMAT_%s, and the format is XSM_FORMAT_%s",
                             options[i].option, list_formats(options[i].accepts, text, sizeof text), r->format->name);
        }
    }
    return XSM_OK;
}

/* Checks the members that take one of some values, from 0 on. */
static xsm_status check_choices(const xsm_read_options *o, xsm_error *err)
{
    const struct {
        const char *member, *values;
        int32_t value, most;
    } choices[] = {{"labels", "XSM_KEEP_LABELS_*", o->labels, XSM_KEEP_LABELS_SMALLEST},
                   {"index_base", "XSM_INDEX_BASE_*", o->index_base, XSM_INDEX_BASE_ONE},
                   {"duplicates", "XSM_DUPLICATES_*", o->duplicates, XSM_DUPLICATES_SUM},
                   {"bad_bytes", "XSM_BAD_BYTES_*", o->bad_bytes, XSM_BAD_BYTES_REPLACE},
                   {"header", "XSM_HEADER_*", o->header, XSM_HEADER_NO}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (choices[i].value < 0 || choices[i].value > choices[i].most) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_read_options.%s is %d; an %s value (0 to %d) is accepted",
                             choices[i].member, (int)choices[i].value, choices[i].values, (int)choices[i].most);
        }
    }
    return XSM_OK;
}

/* Checks that options which are recalled are set, and that there is a class map. */
static xsm_status check_recalled(const xsm_read_options *o, xsm_error *err)
{
    const int32_t set =
        (o->label_column ? XSM_RECALLED_LABEL_COLUMN : 0) | (o->weights_column ? XSM_RECALLED_WEIGHTS_COLUMN : 0) |
        (o->ignore_columns ? XSM_RECALLED_IGNORE_COLUMNS : 0) | (o->separator ? XSM_RECALLED_SEPARATOR : 0) |
        (o->label_separator ? XSM_RECALLED_LABEL_SEPARATOR : 0) |
        (o->header != XSM_HEADER_AUTO ? XSM_RECALLED_HEADER : 0) | (o->text_column ? XSM_RECALLED_TEXT_COLUMN : 0);
    return (o->recalled & ~set) == 0 && (o->recalled == 0 || o->classes)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_ARGUMENT,
                           "xsm_read_options.recalled is %d; the XSM_RECALLED_* bits of options that are set are "
                           "accepted, %d here, with a class map",
                           (int)o->recalled, (int)set);
}

/* Checks that separators are characters that no number has. */
static xsm_status check_separators(const xsm_read_options *o, xsm_error *err)
{
    static const char refused[] = "\"\r\n.+-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const char *given[] = {o->separator, o->label_separator};
    for (size_t i = 0; i < 2; i++) {
        if (given[i] && (strlen(given[i]) != 1 || strchr(refused, given[i][0]) || (unsigned char)given[i][0] >= 0x80)) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "xsm_read_options.%s is '%.20s'; one character of one byte is accepted that is no letter, "
                             "digit, quote, sign or point",
                             i == 0 ? "separator" : "label_separator", given[i]);
        }
    }
    if (o->separator && o->format == XSM_FORMAT_TSV && o->separator[0] != '\t') {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_read_options.separator is '%s', and TSV has tabs; that is XSM_FORMAT_CSV", o->separator);
    }
    return XSM_OK;
}

static xsm_status check_options(xsmi_reader *r, const xsm_read_options *given, xsm_error *err)
{
    r->options = (xsm_read_options)XSM_READ_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_read_options, &r->options, given, err));
    r->format = xsmi_format_of(r->options.format);
    if (!r->format && r->options.format != XSM_FORMAT_AUTO) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_read_options.format is %d; an XSM_FORMAT_* value (0 to %d) is accepted",
                         (int)r->options.format, (int)xsmi_format_last());
    }
    XSMI_TRY(check_choices(&r->options, err));
    XSMI_TRY(check_separators(&r->options, err));
    if (r->options.features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_read_options.features is %u; at most %u are supported",
                         r->options.features, (unsigned)XSM_FEATURES_MAX);
    }
    if (r->options.weights_column && r->options.weights_path && !xsmi_reader_recalled(r, XSM_RECALLED_WEIGHTS_COLUMN)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "weights of rows are in a column (xsm_read_options.weights_column) or in a file of their own "
                         "(xsm_read_options.weights_path); one of them is accepted");
    }
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_read_options, &r->options, skip_verify, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_read_options, &r->options, label_weights, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_read_options, &r->options, new_features, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_read_options, &r->options, new_labels, err));
    XSMI_TRY(xsmi_text_options_read(&r->text, r->options.text, err));
    XSMI_TRY(check_format(r, sets_text(r->options.text, &r->text), err));
    XSMI_TRY(check_recalled(&r->options, err));
    if (!r->options.classes && (r->options.new_features || r->options.new_labels)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_read_options.%s is set, and no class map that a feature or label could be new to",
                         r->options.new_features ? "new_features" : "new_labels");
    }
    return r->options.classes ? check_map(r, err) : XSM_OK;
}

/* -- finding the format -------------------------------------------------------------------------------------------- */

/* Detects a file's format by its first bytes, or by the first line that shows one. The rule is documented at
 * XSM_FORMAT_AUTO. */

/* The most bytes of lines that are read to find one that shows a format. */
#define DETECT_BYTES ((size_t)1 << 20)

/* Sets *format if the first bytes of a source show it. */
static xsm_status detect_start(xsmi_source *s, const xsmi_format **format, xsm_error *err)
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
    XSMI_TRY(xsmi_foreign_refuse_vowpal(&r->source, line->text, line->length, err));
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

/* Detects r->format by the lines of the file, and returns to the first one. r->guessed: no line shows a format, and
 * r->format is the nearest. */
static xsm_status detect(xsmi_reader *r, xsm_error *err)
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
            XSMI_TRY(xsmi_foreign_refuse_vowpal(&r->source, text, length, err));
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

/* Fails if the first lines of the file, which is to be read as text with a class map's vocabulary, are certainly not
 * text. */
static xsm_status detect_no_text(xsmi_reader *r, xsm_error *err)
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

/* -- the whole ---------------------------------------------------------------------------------------------------- */

/* Shrinks the arrays. If the call was cancelled, an array may stay large; the caller finds out by a poll. */
static void shrink(xsmi_reader *r)
{
    xsm_context *ctx = r->context;
    xsmi_shrink(ctx, &r->entries.values, &r->entries.value_capacity, r->entries.count, sizeof *r->entries.values);
    xsmi_shrink(ctx, &r->label.numbers, &r->label.capacity, r->label.count, sizeof *r->label.numbers);
    if (r->label.weights) {
        xsmi_shrink(ctx, &r->label.weights, &r->label.weight_capacity, r->label.count, sizeof *r->label.weights);
    }
    if (r->weights) {
        xsmi_shrink(ctx, &r->weights, &r->weight_capacity, (size_t)r->rows, sizeof *r->weights);
    }
    xsmi_shrink(ctx, &r->label.offsets, &r->label.offset_capacity, (size_t)r->rows + 1, sizeof *r->label.offsets);
    if (r->sparse) {
        xsmi_shrink(ctx, &r->entries.index, &r->entries.index_capacity, r->entries.count, sizeof *r->entries.index);
        xsmi_shrink(ctx, &r->entries.offsets, &r->entries.offset_capacity, (size_t)r->rows + 1,
                    sizeof *r->entries.offsets);
    }
}

/* Moves the arrays to a dataset. */
static xsm_status finish(xsmi_reader *r, xsm_dataset **out, xsm_error *err)
{
    if (r->rows == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: the file has no rows; at least one is needed", r->source.name);
    }
    if (r->features == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%s: no row has a feature, so their number is not known; set xsm_read_options.features",
                         r->source.name);
    }
    float most = r->label.weights && r->label.count > 0 && !r->has_map ? 0 : 1;
    for (size_t i = 0; i < r->label.count && most == 0; i++) {
        most = r->label.weights[i];
    }
    if (most == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: the weights of all labels are 0; one above 0 is needed",
                         r->source.name);
    }
    /* Each array has at least one element: a capacity of 0 would mean an array of the caller's. */
    XSMI_TRY(xsmi_reader_reserve(r, 1, 1, err));
    xsm_dataset *d = NULL;
    XSMI_TRY(xsmi_dataset_start(r->context, &d, err));
    xsm_status status = xsmi_set_classes(r, d, err);
    if (status != XSM_OK) {
        xsm_dataset_free(d);
        return status;
    }
    if (r->options.spool) {
        for (size_t i = 0; i < XSMI_READER_ARRAYS; i++) {
            d->mapped.files[d->mapped.count++] = xsmi_spool_move(&r->spools[i]);
        }
        /* The dataset does not own the memory of these arrays, as if they were the caller's. */
        r->entries.value_capacity = r->entries.index_capacity = r->entries.offset_capacity = 0;
        r->label.capacity = r->label.offset_capacity = 0;
    } else {
        shrink(r);
    }
    if (xsmi_is_cancelled(r->context)) {
        xsm_dataset_free(d);
        return xsmi_fail_cancelled(r->context, err);
    }
    d->rows = r->rows;
    d->features = r->sparse && r->options.new_features ? XSMI_MAX(r->features, r->map.features) : r->features;
    d->sparse = r->sparse;
    d->format = r->format->id;
    d->stride = r->stride;
    d->values = r->entries.values;
    d->capacity.values = r->entries.value_capacity;
    d->index = r->entries.index;
    d->capacity.index = r->entries.index_capacity;
    d->offsets = r->entries.offsets;
    d->capacity.offsets = r->entries.offset_capacity;
    d->labels = r->label.numbers;
    d->capacity.labels = r->label.capacity;
    d->label_weights = r->label.weights;
    d->capacity.label_weights = r->label.weight_capacity;
    d->weights = r->weights;
    d->capacity.weights = r->weight_capacity;
    d->label_offsets = r->label.offsets;
    d->capacity.label_offsets = r->label.offset_capacity;
    d->counted.dropped_features = r->dropped;
    d->schema = xsmi_schema_retain(r->schema);
    d->unknown_features = r->unknown_features;
    r->entries.values = NULL;
    r->entries.index = NULL;
    r->entries.offsets = NULL;
    r->label.numbers = NULL;
    r->label.weights = NULL;
    r->weights = NULL;
    r->label.offsets = NULL;
    xsmi_dataset_count_features(d);
    xsmi_dataset_count_labels(d);
    status = xsmi_go_on(d->context, err);
    if (status != XSM_OK) {
        xsm_dataset_free(d);
        return status;
    }
    *out = d;
    return XSM_OK;
}

/* Refuses options of labels and weights that the format would ignore, so that none are lost. Options that describe the
 * class map's table may be ignored. */
static xsm_status check_lost(xsmi_reader *r, const char *name, xsm_error *err)
{
    if (!(r->format->accepts & XSMI_ACCEPTS_COLUMNS) && xsmi_reader_recalled(r, XSM_RECALLED_WEIGHTS_COLUMN)) {
        r->options.weights_column = NULL;
    }
    if (r->options.weights_column && !(r->format->accepts & XSMI_ACCEPTS_COLUMNS)) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "%s: a column of weights (%.40s, xsm_read_options.weights_column) goes with CSV, TSV and NumPy "
            "files alone",
            name, r->options.weights_column);
    }
    return !r->options.labels_path || (r->format->accepts & XSMI_ACCEPTS_LABELS_PATH)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_ARGUMENT,
                           "%s: labels in a file of their own (%s, xsm_read_options.labels_path) go with NumPy files "
                           "and XC text alone; the rows of this one hold their labels",
                           name, r->options.labels_path);
}

/* Adds to the error of a file of no known format that it is the nearest format's. */
static xsm_status say_nearest(const xsmi_reader *r, xsm_status status, xsm_error *err)
{
    const char *text = err && err->line > 0 ? strstr(err->message + strlen(r->source.name), ": ") : NULL;
    if (!text) {
        return status;
    }
    const xsm_error near = *err;
    return xsmi_reader_fail(r, err, status, near.line, near.column,
                            "the format cannot be recognised; as %s, the nearest: %s", r->format->name,
                            near.message + (text + 2 - err->message));
}

/* Logs what was changed in the data. */
static void tell(const xsmi_reader *r)
{
    if (r->replaced > 0) {
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: U+FFFD is in place of bytes that are no UTF-8, %llu times, first in line %llu", r->source.name,
                 (unsigned long long)r->replaced, (unsigned long long)r->replaced_line);
    }
    const bool named = r->schema && r->schema->kind == XSMI_SCHEMA_COLUMNS;
    xsmi_rounding_tell(&r->rounding, r->source.name, named ? r->schema->names : NULL);
}

/* Takes the class map's index base, so that a number is the same feature in all files. If that is 0, the caller may say
 * that the numbers of a LIBSVM file begin at 1. */
static xsm_status choose_base(xsmi_reader *r, xsm_error *err)
{
    const int32_t wanted = r->map.index_base;
    if (wanted == XSM_INDEX_BASE_AUTO || r->options.index_base == wanted ||
        !(r->format->accepts & XSMI_ACCEPTS_INDEX_BASE)) {
        return XSM_OK;
    }
    if (r->options.index_base == XSM_INDEX_BASE_ONE && !r->map.feature_numbers) {
        return XSM_OK;
    }
    if (r->options.index_base != XSM_INDEX_BASE_AUTO) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "the features of the class map are numbered from %d, and xsm_read_options.index_base says %d: "
                         "%d is accepted, or none",
                         wanted == XSM_INDEX_BASE_ONE, r->options.index_base == XSM_INDEX_BASE_ONE,
                         wanted == XSM_INDEX_BASE_ONE);
    }
    r->options.index_base = wanted;
    r->base_of_map = true;
    return XSM_OK;
}

/* Compares the features that were read with those of the class map. */
static xsm_status check_schema(const xsmi_reader *r, xsm_error *err)
{
    const xsmi_feature_side rows = {r->schema, r->features, r->source.name};
    const xsmi_feature_side wanted = {r->wanted, r->map.features, "the class map"};
    return r->options.new_features ? xsmi_features_kept(&wanted, &rows, err)
                                   : xsmi_features_match(&rows, &wanted, NULL, err);
}

/* Decides whether rows with a vocabulary are lines of text or a table with a column of text. */
static xsm_status choose_text(xsmi_reader *r, xsm_error *err)
{
    bool table = r->options.text_column != NULL;
    XSMI_TRY(table && xsmi_reader_recalled(r, XSM_RECALLED_TEXT_COLUMN) ? xsmi_detect_text_table(r, &table, err)
                                                                        : XSM_OK);
    if (!table) {
        int64_t number;
        const char *const label = xsmi_reader_label_column(r);
        r->options.text_column = r->options.separator = NULL; /* the file is not the table that they describe */
        r->options.recalled &= ~(XSM_RECALLED_TEXT_COLUMN | XSM_RECALLED_SEPARATOR);
        r->options.label_column = xsmi_columns_is_whole(label, strlen(label), &number) ? NULL : r->options.label_column;
        XSMI_TRY(detect_no_text(r, err));
        r->format = &xsmi_text_format;
    }
    return XSM_OK;
}

static xsm_status read_rows(xsmi_reader *r, xsm_error *err)
{
    xsmi_lines_start(&r->lines, &r->source);
    XSMI_TRY(!r->format && r->has_map && r->map.vocabulary ? choose_text(r, err) : XSM_OK);
    if (!r->format) {
        XSMI_TRY(detect(r, err));
    }
    XSMI_TRY(check_lost(r, r->source.name, err));
    XSMI_TRY(choose_base(r, err));
    r->sparse = r->format->sparse || r->options.text_column;
    r->rounding = (xsmi_rounding){.context = r->context, .off = r->has_map};
    xsmi_dictionary_start(&r->dictionary, r->context, r->format->labels != XSMI_LABELS_NUMBERS);
    xsmi_dictionary_start(&r->numbers, r->context, false);
    XSMI_TRY(xsmi_reader_reserve(r, 0, 0, err));
    r->label.offsets[0] = 0;
    if (r->sparse) {
        r->entries.offsets[0] = 0;
    }
    const xsm_status status = r->format->read(r, err);
    if (status != XSM_OK) {
        return r->guessed ? say_nearest(r, status, err) : status;
    }
    XSMI_TRY(check_schema(r, err));
    XSMI_TRY(r->options.labels_path ? xsmi_read_label_file(r, err) : XSM_OK);
    tell(r);
    return xsmi_go_on(r->context, err);
}

static void end(xsmi_reader *r)
{
    xsm_context *ctx = r->context;
    if (r->dictionary.context) {
        xsmi_dictionary_end(&r->dictionary);
        xsmi_dictionary_end(&r->numbers);
    }
    xsmi_lines_end(&r->lines);
    if (r->source.context) {
        xsmi_source_close(&r->source);
    }
    if (r->options.spool) {
        r->entries.values = NULL;
        r->entries.index = r->label.numbers = NULL;
        r->entries.offsets = r->label.offsets = NULL;
        for (size_t i = 0; i < XSMI_READER_ARRAYS; i++) {
            xsmi_spool_end(&r->spools[i]);
        }
    }
    xsmi_release(ctx, r->entries.values, r->entries.value_capacity, sizeof *r->entries.values);
    xsmi_release(ctx, r->entries.index, r->entries.index_capacity, sizeof *r->entries.index);
    xsmi_release(ctx, r->entries.offsets, r->entries.offset_capacity, sizeof *r->entries.offsets);
    xsmi_release(ctx, r->label.numbers, r->label.capacity, sizeof *r->label.numbers);
    xsmi_release(ctx, r->label.weights, r->label.weight_capacity, sizeof *r->label.weights);
    xsmi_release(ctx, r->weights, r->weight_capacity, sizeof *r->weights);
    xsmi_release(ctx, r->mended, r->mended_capacity, 1);
    xsmi_rounding_end(&r->rounding);
    xsmi_release(ctx, r->label.offsets, r->label.offset_capacity, sizeof *r->label.offsets);
    xsmi_schema_release(r->wanted);
    xsmi_schema_release(r->schema);
    xsm_context_free(ctx);
}

/* -- mapped files -------------------------------------------------------------------------------------------------- */

/* Applies the options to a dataset on a mapping. */
static xsm_status adapt(xsmi_reader *r, const char *path, xsm_dataset *d, xsm_error *err)
{
    const xsmi_feature_side rows = {d->schema, d->features, path};
    xsmi_feature_side from_map = {r->wanted, 0, "the class map"};
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    if (wanted > 0 && wanted < d->features && !drops) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %u features; xsm_read_options.features wants %u", path,
                         d->features, wanted);
    }
    from_map.features = wanted;
    xsmi_feature_map map;
    xsmi_schema *joined = NULL;
    XSMI_TRY(r->options.new_features ? xsmi_features_join(&rows, &from_map, &map, &joined, err)
                                     : xsmi_features_match(&rows, &from_map, &map, err));
    if (map.shift > 0) {
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: features are numbered from 1, and are taken by number for those of the class map, from 0", path);
    }
    const xsm_status status = map.same && wanted > 0 && wanted != d->features && !d->sparse
                                  ? xsmi_fail(err, XSM_ERROR_FORMAT, "%s: dense rows of %u features; %u are expected",
                                              path, d->features, wanted)
                                  : xsmi_dataset_map_features(d, &map, err);
    xsmi_feature_map_end(&map);
    xsmi_schema_release(joined);
    XSMI_TRY(status);
    if (r->has_map && !r->options.new_labels) {
        XSMI_TRY(xsmi_match_classes(r, path, d, err));
    }
    return xsm_dataset_keep_labels(d, r->options.labels, err);
}

static xsm_status map_file(xsmi_reader *r, const char *path, xsm_dataset **out, xsm_error *err)
{
    xsm_dataset *d;
    XSMI_TRY(check_lost(r, path, err));
    XSMI_TRY(r->format->map(r->context, path, r->options.skip_verify != 0, &d, err));
    xsm_status status = adapt(r, path, d, err);
    if (status != XSM_OK) {
        xsm_dataset_free(d);
        return status;
    }
    *out = d;
    return XSM_OK;
}

/* -- all formats -------------------------------------------------------------------------------------------------- */

/* What is read: the file at `path`, or a host's source and its name. */
typedef struct input {
    const char *path;
    const xsm_source *host;
    const char *name;
} input;

static xsm_status read_source(xsmi_reader *r, xsm_dataset **out, xsm_error *err)
{
    xsmi_expect(&r->activity, r->source.raw_size);
    r->source.activity = &r->activity;
    XSMI_TRY(read_rows(r, err));
    xsm_dataset *d = NULL;
    XSMI_TRY(finish(r, &d, err));
    /* The smallest name is known only after all names; the smallest number was chosen while reading. */
    if (r->dictionary.words && r->options.labels == XSM_KEEP_LABELS_SMALLEST) {
        xsm_status status = xsm_dataset_keep_labels(d, XSM_KEEP_LABELS_SMALLEST, err);
        if (status != XSM_OK) {
            xsm_dataset_free(d);
            return status;
        }
    }
    *out = d;
    return XSM_OK;
}

static xsm_status read_rows_of(xsmi_reader *r, const input *from, xsm_dataset **out, xsm_error *err)
{
    XSMI_TRY(from->host ? xsmi_source_open_host(&r->source, r->context, from->host, from->name, err)
                        : xsmi_source_open_file(&r->source, r->context, from->path, err));
    XSMI_TRY(r->format ? XSM_OK : detect_start(&r->source, &r->format, err));
    if (!r->format || !r->format->map) {
        return read_source(r, out, err);
    }
    if (!from->path || r->source.gunzip || r->source.raw_size == 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "%s: a cache is mapped, so it must be a file as it was written",
                         r->source.name);
    }
    xsmi_source_close(&r->source);
    return map_file(r, from->path, out, err);
}

static xsm_status read_input(xsmi_reader *r, const input *from, const xsm_read_options *options, xsm_dataset **out,
                             xsm_error *err)
{
    xsm_dataset *d = NULL;
    XSMI_TRY(check_options(r, options, err));
    XSMI_TRY(read_rows_of(r, from, &d, err));
    xsm_status status = r->options.weights_path ? xsmi_read_weights(d, r->options.weights_path, err) : XSM_OK;
    status = status == XSM_OK && r->options.new_labels ? xsm_dataset_extend(d, &r->map, err) : status;
    if (status != XSM_OK) {
        xsm_dataset_free(d);
        return status;
    }
    *out = d;
    return XSM_OK;
}

/* The bytes of a storage that are not read yet. */
typedef struct unread {
    const char *next;
    size_t count;
} unread;

static int64_t read_bytes(void *user, void *buffer, size_t size)
{
    unread *of = user;
    const size_t count = XSMI_MIN(size, of->count);
    memcpy(buffer, of->next, count);
    of->next += count;
    of->count -= count;
    return (int64_t)count;
}

xsm_status xsm_dataset_read(xsm_context *context, const char *path, const xsm_storage *storage,
                            const xsm_read_options *options, xsm_dataset **out, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_storage known;
    xsmi_place place;
    XSMI_TRY(xsmi_place_to_read(path, storage, &known, "xsm_dataset_read", &place, err));
    XSMI_TRY(xsmi_place_check_unlent(&place, err));
    XSMI_NEED(err, {out, "out"});
    unread bytes = {known.bytes, known.byte_count};
    const xsm_source source = {sizeof source, &bytes, read_bytes};
    const input from = {path, path ? NULL : known.source ? known.source : &source, place.name};
    xsmi_reader r;
    memset(&r, 0, sizeof r);
    r.source.fd = -1;
    XSMI_TRY(xsmi_context_acquire(context, &r.context, err));
    xsmi_begin(&r.activity, r.context, "reading", "bytes", 0);
    xsm_status status = xsmi_end(&r.activity, read_input(&r, &from, options, out, err), err);
    end(&r);
    return status;
}

/* -- all formats --------------------------------------------------------------------------------------------------- */

const xsmi_format *const xsmi_formats[] = {XSMI_FORMATS(XSMI_REGISTRY_TABLE) NULL};

const xsmi_format *xsmi_format_of(int32_t id)
{
    for (size_t i = 0; xsmi_formats[i]; i++) {
        if (xsmi_formats[i]->id == id) {
            return xsmi_formats[i];
        }
    }
    return NULL;
}

int32_t xsmi_format_last(void)
{
    int32_t last = 0;
    for (size_t i = 0; xsmi_formats[i]; i++) {
        last = XSMI_MAX(xsmi_formats[i]->id, last);
    }
    return last;
}
