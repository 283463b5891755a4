/*
 * CSV and TSV (RFC 4180 with any separator), with or without a header line: columns of labels, weights, text or
 * features. Rows that are read against a class map may lack the labels.
 */
#include "read/output.h"
#include "base/order.h"
#include "base/utf8.h"
#include "data/schema.h"
#include "read/columns.h"
#include "read/format.h"
#include "read/number.h"
#include "read/text.h"
#include "data/dictionary.h"
#include "data/vocabulary.h"

#include <stdio.h>
#include <math.h>
#include <string.h>
#include <xsoftmax/vocabulary.h>

static char separator_for(int32_t format)
{
    return format == XSM_FORMAT_CSV ? ',' : '\t';
}

/* -- recognising --------------------------------------------------------------------------------------------------- */

static xsmi_match match_table(const xsmi_reader *r, const xsmi_early_line *line, int32_t format)
{
    const char *given = xsmi_reader_recalled(r, XSM_RECALLED_SEPARATOR) ? NULL : r->options.separator;
    if (!line->first || line->length == 0 || (given && (given[0] == '\t') != (format == XSM_FORMAT_TSV))) {
        return XSMI_MATCH_NO;
    }
    switch (xsmi_columns_match(r, format, line->text, line->length)) {
    case XSMI_TABLE_SURE:
        return XSMI_MATCH_SURE;
    case XSMI_TABLE_MAYBE:
        return XSMI_MATCH_MAYBE;
    default:
        return XSMI_MATCH_NO;
    }
}

static xsmi_match match_csv(const xsmi_reader *r, const xsmi_early_line *line)
{
    return match_table(r, line, XSM_FORMAT_CSV);
}

static xsmi_match match_tsv(const xsmi_reader *r, const xsmi_early_line *line)
{
    return match_table(r, line, XSM_FORMAT_TSV);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* The fewest rows of which a column that rises is told. */
enum { COUNTED_LEAST = 50 };

typedef struct table {
    xsmi_columns k;
    xsmi_feature_map map;           /* with a class map with names: the feature of each column; otherwise columns keep
                                       their order */
    xsmi_text text;                 /* with a column of text */
    xsmi_field words;               /* the field of the column of text */
    xsmi_text_note joined;          /* labels with characters that elsewhere separate labels */
    uint64_t lists, list_line;      /* number of label fields in brackets, and the line of the first */
    bool watched;                   /* some column's numbers may still be too close together for float32 */
    uint64_t missing, missing_line; /* number of labels such as NA, which elsewhere mean a missing one, and the line of
                                       the first */
} table;

/* Finds the columns of a class map that names them. */
static xsm_status match_names(const xsmi_record *c, table *t, uint64_t line, xsm_error *err)
{
    xsmi_reader *r = c->r;
    const xsmi_feature_side rows = {r->schema, 0, "the file"};
    const xsmi_feature_side wanted = {r->wanted, r->map.features, "the class map"};
    xsm_error inner = XSM_ERROR_INIT;
    xsmi_schema *all = NULL;
    const xsm_status status = r->options.new_features ? xsmi_features_join(&rows, &wanted, &t->map, &all, &inner)
                                                      : xsmi_features_match(&rows, &wanted, &t->map, &inner);
    if (status != XSM_OK) {
        return status == XSM_ERROR_DATA ? xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, 1, "%s", inner.message)
                                        : xsmi_fail_copy(err, &inner);
    }
    if (t->map.unknown > 0) {
        char quote[XSMI_QUOTE_SIZE];
        const char *name = r->schema->names[t->map.first_unknown];
        xsmi_log(r->context, XSM_LOG_WARNING, "%s: %u column%s that the class map has not, left out: %s%s",
                 r->source.name, t->map.unknown, t->map.unknown == 1 ? "" : "s", xsmi_quote(quote, name, strlen(name)),
                 t->map.unknown == 1 ? "" : ", ...");
    }
    r->unknown_features = t->map.unknown;
    xsmi_schema_release(r->schema);
    r->schema = all ? all : xsmi_schema_retain(r->wanted);
    r->features = all ? all->count : r->features;
    return XSM_OK;
}

static xsm_status count_features(const xsmi_record *c, size_t features, uint64_t line, xsm_error *err)
{
    xsmi_reader *r = c->r;
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    if (r->has_map && r->options.features == 0 && features != r->map.features) {
        return xsmi_reader_fail(
            r, err, XSM_ERROR_FORMAT, line, 1,
            "the class map has %u features, the file %zu column%s of features; columns without names are "
            "known by their places (xsm_read_options.ignore_columns leaves some out)",
            r->map.features, features, features == 1 ? "" : "s");
    }
    if (wanted > 0 && !drops && features != wanted) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, 1,
                                "%zu columns of features; %u are expected (xsm_read_options.features)", features,
                                wanted);
    }
    r->features = wanted ? wanted : (uint32_t)features;
    return XSM_OK;
}

static xsm_status set_features(const xsmi_record *c, table *t, uint64_t line, xsm_error *err)
{
    xsmi_reader *r = c->r;
    if (t->k.features > XSM_FEATURES_MAX) {
        return xsmi_reader_fail(r, err, XSM_ERROR_LIMIT, line, 1, "%zu columns of features; at most %u are supported",
                                t->k.features, (unsigned)XSM_FEATURES_MAX);
    }
    const bool named = t->k.header && r->wanted && r->wanted->kind == XSMI_SCHEMA_COLUMNS;
    XSMI_TRY(count_features(c, named ? r->wanted->count : t->k.features, line, err));
    XSMI_TRY(xsmi_rounding_expect(&r->rounding, r->features, err));
    if (!t->k.header) {
        r->stride = xsmi_dataset_stride(r->features);
        return XSM_OK;
    }
    const size_t names = named ? t->k.features : XSMI_MIN(t->k.features, r->features);
    size_t size = 0;
    for (size_t j = 0; j < names; j++) {
        size += strlen(t->k.text + size) + 1;
    }
    XSMI_TRY(xsmi_schema_of_columns(r->context, t->k.text, size, (uint32_t)names, &r->schema, err));
    XSMI_TRY(named ? match_names(c, t, line, err) : XSM_OK);
    r->stride = xsmi_dataset_stride(r->features);
    return XSM_OK;
}

static bool is_blank(char c, char separator)
{
    return c != separator && xsmi_is_space(c);
}

/* Reads a number or a truth value from a field; spaces around it are allowed. */
static xsm_status read_value(const xsmi_record *c, const table *t, size_t column, const xsmi_field *f, float *value,
                             xsm_error *err)
{
    const char *p = c->text + f->start;
    const char *end = p + f->length;
    while (p < end && is_blank(*p, c->separator)) {
        p++;
    }
    const char *problem = "expected a number";
    if (p < end) {
        const char *after = p;
        int result = xsmi_parse_short_float(p, &after, value);
        while (result == XSMI_NUMBER_OK && after < end && is_blank(*after, c->separator)) {
            after++;
        }
        if ((result == XSMI_NUMBER_OK && after == end) || xsmi_columns_is_truth(p, (size_t)(end - p), value)) {
            return XSM_OK;
        }
        problem = result == XSMI_NUMBER_NOT_FINITE  ? "expected a finite number"
                  : result == XSMI_NUMBER_TOO_LARGE ? "expected a number within float32, up to 3.4e38"
                                                    : "expected a number";
        p = result == XSMI_NUMBER_OK ? after : p;
    }
    return xsmi_columns_fail(c, &t->k, column, f, p, problem, err);
}

static xsm_status read_weight(const xsmi_record *c, const table *t, size_t column, const xsmi_field *f, xsm_error *err)
{
    xsmi_reader *r = c->r;
    float value;
    XSMI_TRY(read_value(c, t, column, f, &value, err));
    if (!(value >= 0)) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, f->line, f->column,
                                "%s is no weight; a finite number of 0 or more is accepted",
                                xsmi_quote(quote, c->text + f->start, f->length));
    }
    r->weights[r->rows] = value;
    return XSM_OK;
}

/* Adds one of the labels in a field. */
static xsm_status add_label(xsmi_reader *r, const xsmi_field *f, const char *word, size_t length, size_t before,
                            xsm_error *err)
{
    uint32_t id;
    XSMI_TRY(xsmi_reader_label(r, f->line, f->column + before + (f->quoted ? 1 : 0), word, length, err));
    if (memchr(word, '\n', length) || memchr(word, '\r', length)) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, f->line, f->column,
                                "a line end in a label; names of classes are of one line");
    }
    XSMI_TRY(xsmi_reader_word(r, word, length, &id, err));
    xsmi_reader_add_label(r, id);
    return XSM_OK;
}

static xsm_status read_labels(const xsmi_record *c, const xsmi_field *f, char separator, xsm_error *err)
{
    xsmi_reader *r = c->r;
    const char *const start = c->text + f->start;
    const char *end = start + f->length;
    XSMI_TRY(xsmi_reader_reserve(r, 0, f->length / 2 + 1, err));
    for (const char *p = start; p <= end;) {
        const char *stop = memchr(p, separator, (size_t)(end - p));
        stop = stop ? stop : end;
        const char *first = p, *last = stop;
        while (first < last && xsmi_is_space(*first)) {
            first++;
        }
        while (last > first && xsmi_is_space(last[-1])) {
            last--;
        }
        if (first == last) {
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, f->line, f->column + (uint64_t)(first - start),
                                    "an empty label; labels are separated by '%c' here", separator);
        }
        XSMI_TRY(add_label(r, f, first, (size_t)(last - first), (size_t)(first - start), err));
        if (r->options.labels == XSM_KEEP_LABELS_FIRST) {
            break;
        }
        p = stop + 1;
    }
    return XSM_OK;
}

/* Removes the spaces around a whole number. */
static void trim_number(const char **word, size_t *length)
{
    const char *first = *word, *last = *word + *length;
    while (first < last && *first == ' ') {
        first++;
    }
    while (last > first && last[-1] == ' ') {
        last--;
    }
    const char *digits = first + (first < last && *first == '-');
    while (digits < last && *digits >= '0' && *digits <= '9') {
        digits++;
    }
    if (digits == last && last > first) {
        *word = first;
        *length = (size_t)(last - first);
    }
}

static xsm_status read_label(const xsmi_record *c, table *t, const xsmi_field *f, xsm_error *err)
{
    const char *separator = c->r->options.label_separator, *const start = c->text + f->start, *word = start;
    size_t length = f->length;
    (f->quoted ? trim_number : xsmi_columns_trim)(&word, &length);
    if (length == 0) {
        return XSM_OK; /* a row without a label */
    }
    if (word[0] == '[' && word[length - 1] == ']' && t->lists++ == 0) {
        t->list_line = f->line;
    }
    if (separator) {
        return read_labels(c, f, separator[0], err);
    }
    if (xsmi_text_is_joined(word, length)) {
        xsmi_text_note_add(&t->joined, f->line, word, length);
    }
    if ((xsmi_columns_is_missing(word, length) || (length == 1 && *word == '-')) && t->missing++ == 0) {
        t->missing_line = f->line;
    }
    return add_label(c->r, f, word, length, (size_t)(word - start), err);
}

/* Checks a field that numbers or names its row: a fraction does neither and is refused. */
static xsm_status check_row_name(const xsmi_record *c, const xsmi_field *f, xsm_error *err)
{
    const char *text = c->text + f->start, *after;
    float value;
    return f->length == 0 || xsmi_parse_short_float(text, &after, &value) != XSMI_NUMBER_OK ||
                   after != text + f->length || value == floorf(value)
               ? XSM_OK
               : xsmi_reader_fail(
                     c->r, err, XSM_ERROR_FORMAT, f->line, f->column,
                     "a fraction in a column that numbers or names the rows, for it has no name, or "
                     "pandas' for none; give it a name, or leave it out (xsm_read_options.ignore_columns)");
}

static inline xsm_status read_feature(const xsmi_record *c, const table *t, size_t column, uint32_t next,
                                      const xsmi_field *f, float *row, xsm_error *err)
{
    xsmi_reader *r = c->r;
    const uint32_t place = t->map.to ? t->map.to[next] : next;
    if (place == XSMI_NO_FEATURE) {
        return XSM_OK; /* a column that is ignored may contain anything */
    }
    float value;
    XSMI_TRY(read_value(c, t, column, f, &value, err));
    const char *const text = c->text + f->start;
    if (value == 0 ? xsmi_rounding_may_vanish(text, f->length)
                   : t->watched && xsmi_rounding_wants(&r->rounding, place)) {
        XSMI_TRY(xsmi_rounding_text(&r->rounding, place, text, f->line, err));
    }
    if (place < r->features) {
        row[place] = value;
    } else {
        r->dropped += value != 0;
    }
    return XSM_OK;
}

/* Reads a field that is no feature. */
static xsm_status read_other(const xsmi_record *c, table *t, size_t column, const xsmi_field *f, xsm_error *err)
{
    switch (t->k.roles[column]) {
    case XSMI_COLUMN_LABEL:
        return read_label(c, t, f, err);
    case XSMI_COLUMN_WEIGHT:
        return read_weight(c, t, column, f, err);
    case XSMI_COLUMN_ROW:
        return check_row_name(c, f, err);
    case XSMI_COLUMN_TEXT:
        t->words = *f;
        return XSM_OK;
    default:
        return XSM_OK;
    }
}

static xsm_status end_record(const xsmi_record *c, table *t, xsm_error *err)
{
    xsmi_reader *r = c->r;
    if (r->options.text_column) {
        return xsmi_text_read_words(&t->text, c->text + t->words.start, t->words.length, t->words.line, err);
    }
    float *row = r->entries.values + r->entries.count;
    memset(row + r->features, 0, (r->stride - r->features) * sizeof *row);
    r->entries.count += r->stride;
    xsmi_reader_end_row(r);
    return XSM_OK;
}

static xsm_status fail_names(const xsmi_reader *r, uint64_t line, xsm_error *err)
{
    return xsmi_reader_fail(
        r, err, XSM_ERROR_FORMAT, line, 1,
        "the names of columns again, as where files follow one another; a row is accepted: leave this "
        "line out");
}

static xsm_status read_record(xsmi_record *c, table *t, xsm_error *err)
{
    xsmi_reader *r = c->r;
    const xsmi_columns *k = &t->k;
    const char *like = k->header ? "the header line has" : "the first row has";
    const uint64_t line = c->line;
    XSMI_TRY(xsmi_reader_reserve(r, r->stride, 1, err));
    t->watched = r->rounding.open > 0;
    float *row = r->stride > 0 ? r->entries.values + r->entries.count : NULL; /* a table with a column of text has no
                                                                                 dense row */
    uint32_t next = 0;
    size_t names = 0;
    for (size_t i = 0; i < k->count; i++) {
        if (c->done) {
            size_t at = c->at - 1;
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, c->line, at - c->line_start + 1, "%zu fields; %s %zu%s",
                                    i, like, k->count,
                                    c->separator == '\t' && memchr(c->text, '"', c->length)
                                        ? "; between tabs a field ends in its line, whatever quotes it has"
                                        : "");
        }
        xsmi_field f;
        XSMI_TRY(xsmi_record_next(c, &f, err));
        names += k->header && names == i && xsmi_columns_is_name(c, k, &f);
        const xsm_status status = k->roles[i] == XSMI_COLUMN_FEATURE ? read_feature(c, t, i, next++, &f, row, err)
                                                                     : read_other(c, t, i, &f, err);
        if (status != XSM_OK) {
            return status == XSM_ERROR_FORMAT && names == i + 1 ? fail_names(r, line, err) : status;
        }
    }
    if (!c->done) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, c->line, c->at - c->line_start + 1,
                                "more than %zu fields; %s %zu%s", k->count, like, k->count,
                                k->header && r->rows == 0 ? "; if rows begin with their names or numbers, as R writes "
                                                            "them, begin the header line with a separator"
                                                          : "");
    }
    if (names == k->count && names > 1) {
        return fail_names(r, line, err);
    }
    return end_record(c, t, err);
}

/* Reads an empty line with a class map: a row of zeros without a label, so that each line gets a prediction. */
static xsm_status read_nothing(const xsmi_record *c, table *t, xsm_error *err)
{
    xsmi_reader *r = c->r;
    XSMI_TRY(xsmi_reader_reserve(r, r->stride, 1, err));
    if (r->options.weights_column) {
        r->weights[r->rows] = 0;
    }
    if (r->options.text_column) {
        return xsmi_text_read_words(&t->text, "", 0, c->line, err);
    }
    memset(r->entries.values + r->entries.count, 0, r->stride * sizeof *r->entries.values);
    r->entries.count += r->stride;
    xsmi_reader_end_row(r);
    return XSM_OK;
}

/* Reads the first record: names of columns, or a row. */
static xsm_status read_first(xsmi_record *c, table *t, xsm_error *err)
{
    xsmi_reader *r = c->r;
    const uint64_t line = c->line;
    XSMI_TRY(xsmi_record_split(c, err));
    XSMI_TRY(xsmi_columns_find(c, &t->k, err));
    XSMI_TRY(r->options.text_column ? xsmi_text_start(&t->text, r, err) : set_features(c, t, line, err));
    t->text.only_words = true;
    c->again = t->k.header ? 0 : c->count;
    c->done = t->k.header;
    return t->k.header ? XSM_OK : read_record(c, t, err);
}

static xsm_status read_records(xsmi_record *c, table *t, xsm_error *err)
{
    xsmi_reader *r = c->r;
    bool have_columns = false;
    for (;;) {
        char *text;
        size_t length;
        c->line++;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        if (!text) {
            break;
        }
        if (length == 0 && !(have_columns && r->has_map)) {
            continue; /* empty lines are skipped, as by other readers of CSV */
        }
        if (length == 0) {
            XSMI_TRY(read_nothing(c, t, err));
            continue;
        }
        if (!have_columns) {
            XSMI_TRY(xsmi_columns_check_separator(r, c->line, text, length, err));
            const char found = xsmi_columns_separator(r, r->format->id, text, length);
            c->separator = found ? found : separator_for(r->format->id);
        }
        xsmi_record_start(c, text, length);
        XSMI_TRY(have_columns ? read_record(c, t, err) : read_first(c, t, err));
        have_columns = true;
    }
    return have_columns
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_DATA, "%s: the file is empty; at least one row is needed", r->source.name);
}

/* Whether a feature is a whole number that rises from each row to the next. */
static bool counts(xsmi_reader *r, uint32_t feature)
{
    const float *value = r->entries.values + feature;
    float before = -INFINITY;
    for (uint64_t i = 0; i < r->rows; i++, value += r->stride) {
        if (!(*value > before) || *value != floorf(*value)) {
            return false;
        }
        before = *value;
        xsmi_reader_passed(r, r->stride * sizeof *value);
    }
    return true;
}

/* Warns of columns that count: of rows that are sorted by class, the row's number says the class. */
static void tell_counting(xsmi_reader *r, const xsmi_columns *k)
{
    const char *name = k->text;
    char first[XSMI_QUOTE_SIZE];
    size_t found = 0;
    for (size_t i = 0, j = 0; i < k->count && j < r->features && r->rows >= COUNTED_LEAST; i++) {
        if (k->roles[i] != XSMI_COLUMN_FEATURE) {
            continue;
        }
        if (counts(r, (uint32_t)j++) && found++ == 0) {
            snprintf(first, sizeof first, "%zu", i);
            if (k->header) {
                xsmi_quote(first, name, strlen(name));
            }
        }
        name += k->header ? strlen(name) + 1 : 0;
    }
    if (found > 0) {
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: columns of whole numbers that rise from row to row: %zu, the first is %s; leave out what numbers "
                 "the rows (xsm_read_options.ignore_columns)",
                 r->source.name, found, first);
    }
}

static xsm_status end_table(xsmi_reader *r, table *t, xsm_error *err)
{
    if (!r->has_map && !r->options.text_column) {
        tell_counting(r, &t->k);
    }
    if (t->joined.count > 0) {
        xsmi_log(
            r->context, XSM_LOG_WARNING,
            "%s: %llu labels have a comma, a semicolon, a bar or a wide blank within, the first is %s in line %llu, "
            "and each is one label; xsm_read_options.label_separator reads several of a field",
            r->source.name, (unsigned long long)t->joined.count, t->joined.first, (unsigned long long)t->joined.line);
    }
    if (t->missing > 0) {
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: %llu labels are NA, '-' or the like, first in line %llu, and make classes like other words; rows "
                 "without a label have an empty field",
                 r->source.name, (unsigned long long)t->missing, (unsigned long long)t->missing_line);
    }
    if (t->lists > 0) {
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: %llu fields of labels are lists in brackets, as Python and JSON write them, first in line %llu; "
                 "brackets and quotes are parts of the names: write a,b in place of ['a', 'b']",
                 r->source.name, (unsigned long long)t->lists, (unsigned long long)t->list_line);
    }
    return r->options.text_column ? xsmi_text_finish(&t->text, err) : XSM_OK;
}

static xsm_status read_dense(xsmi_reader *r, xsm_error *err)
{
    xsmi_record c = {.r = r};
    table t = {.k = {.count = 0}};
    xsm_status status = read_records(&c, &t, err);
    status = status == XSM_OK ? end_table(r, &t, err) : status;
    if (t.text.r) {
        xsmi_text_end(&t.text);
    }
    xsmi_feature_map_end(&t.map);
    xsmi_columns_end(&t.k, r->context);
    xsmi_record_end(&c);
    return status;
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* Writes a field of text, in quotes if it needs them or has blanks at its ends, which a reader would remove. */
static xsm_status write_field(xsmi_output *o, const char *text, char separator, xsm_error *err)
{
    char special[] = {'"', '\n', '\r', separator, '\0'};
    const size_t length = strlen(text);
    if (separator == '\t' && strpbrk(text, "\r\n")) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a line end in the name %s, and TSV has a row in each line; XSM_FORMAT_CSV can hold it",
                         xsmi_quote(quote, text, length));
    }
    const bool blank = length > 0 && (xsmi_is_space(text[0]) || xsmi_is_space(text[length - 1]));
    if (!blank && !strpbrk(text, special)) {
        return xsmi_output_bytes(o, text, length, err);
    }
    XSMI_TRY(xsmi_output_char(o, '"', err));
    for (const char *p = text; *p; p++) {
        XSMI_TRY(*p == '"' ? xsmi_output_bytes(o, "\"\"", 2, err) : xsmi_output_char(o, *p, err));
    }
    return xsmi_output_char(o, '"', err);
}

/* Returns the columns' names, or NULL. */
static const char *const *names_of(const xsm_dataset *d)
{
    const bool named = d->schema && d->schema->kind == XSMI_SCHEMA_COLUMNS && !d->transformed;
    return named && d->schema->count == d->features ? d->schema->names : NULL;
}

/* Returns the vocabulary whose words and buckets the columns are, or NULL. */
static const xsm_vocabulary *words_of(const xsm_dataset *d)
{
    const xsm_vocabulary *v = d->transformed ? NULL : xsmi_schema_vocabulary(d->schema);
    return v && xsmi_vocabulary_features(v) == d->features ? v : NULL;
}

/* Writes a feature's word, or for a bucket a name such as `bucket 3 of 1000`, which no word equals, as words have no
 * blanks. */
static xsm_status write_word(xsmi_output *o, const xsm_vocabulary *v, uint32_t feature, char separator, xsm_error *err)
{
    const uint32_t first = xsmi_vocabulary_first_words(v), buckets = xsmi_vocabulary_buckets(v);
    if (feature < first || feature - first >= buckets) {
        return write_field(o, xsm_vocabulary_word(v, feature < first ? feature : feature - buckets), separator, err);
    }
    char name[64];
    const int length = snprintf(name, sizeof name, "bucket %u of %u", feature - first, buckets);
    return xsmi_output_bytes(o, name, (size_t)length, err);
}

/* Refuses a column of labels or weights that has a feature's name. */
static xsm_status check_name(const xsm_dataset *d, const char *member, const char *name, xsm_error *err)
{
    const char *const *names = names_of(d);
    const xsm_vocabulary *words = words_of(d);
    bool taken =
        !names && !words && name[0] == 'f' && name[1] != '\0' && name[1 + strspn(name + 1, "0123456789")] == '\0';
    for (uint32_t j = 0; names && j < d->features && !taken; j++) {
        taken = strcmp(names[j], name) == 0;
    }
    taken |= words && xsmi_dictionary_find_word(xsmi_vocabulary_dictionary(words), name, strlen(name)) != UINT32_MAX;
    return taken
               ? xsmi_fail(err, XSM_ERROR_RANGE,
                           "xsm_write_options.%s is '%.40s', which is how columns of features are called", member, name)
               : XSM_OK;
}

static xsm_status write_columns(xsmi_output *o, char separator, xsm_error *err)
{
    const char *label = o->options->label_column, *weights = o->options->weights_column;
    const char *const *names = names_of(o->d);
    for (uint32_t j = 0; names && j < o->d->features; j++) {
        char quote[XSMI_QUOTE_SIZE];
        if (xsmi_columns_names_rows(names[j], strlen(names[j]), j == 0)) {
            return xsmi_fail(
                err, XSM_ERROR_UNSUPPORTED,
                "the %scolumn of features, %s, would be read as numbers of rows; one with a name is accepted",
                j == 0 ? "first " : "",
                names[j][0] == '\0' ? "which has no name" : xsmi_quote(quote, names[j], strlen(names[j])));
        }
    }
    const xsm_vocabulary *words = words_of(o->d);
    const int64_t *numbers = xsmi_output_numbers(o);
    XSMI_TRY(check_name(o->d, "label_column", label, err));
    XSMI_TRY(weights ? check_name(o->d, "weights_column", weights, err) : XSM_OK);
    if (weights && strcmp(weights, label) == 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_write_options.weights_column is '%.40s', which is that of the labels", weights);
    }
    for (uint32_t j = 0; j < o->d->features; j++) {
        if (names) {
            XSMI_TRY(write_field(o, names[j], separator, err));
        } else if (words) {
            XSMI_TRY(write_word(o, words, j, separator, err));
        } else {
            XSMI_TRY(xsmi_output_char(o, 'f', err));
            XSMI_TRY(xsmi_output_integer(o, numbers ? numbers[j] : (int64_t)j, err));
        }
        XSMI_TRY(xsmi_output_char(o, separator, err));
    }
    if (weights) {
        XSMI_TRY(write_field(o, weights, separator, err));
        XSMI_TRY(xsmi_output_char(o, separator, err));
    }
    XSMI_TRY(write_field(o, label, separator, err));
    return xsmi_output_char(o, '\n', err);
}

static xsm_status write_dense(xsmi_output *o, xsm_error *err)
{
    const xsm_dataset *d = o->d;
    const char separator = separator_for(o->options->format);
    XSMI_TRY(write_columns(o, separator, err));
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features f = xsmi_dataset_features(d, i);
        size_t next = 0;
        for (uint32_t j = 0; j < d->features; j++) {
            bool there = !f.index || (next < f.count && f.index[next] == j);
            XSMI_TRY(xsmi_output_float(o, there ? f.values[next] : 0.0f, err));
            XSMI_TRY(xsmi_output_char(o, separator, err));
            next += there;
        }
        if (o->options->weights_column) {
            XSMI_TRY(xsmi_output_float(o, d->weights[i], err));
            XSMI_TRY(xsmi_output_char(o, separator, err));
        }
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(d, i, &count);
        if (count > 0 && d->map.names) {
            XSMI_TRY(write_field(o, d->map.names[labels[0]], separator, err));
        } else if (count > 0) {
            XSMI_TRY(xsmi_output_integer(o, xsmi_output_label(o, labels[0]), err));
        } else if (d->features == 0 && !o->options->weights_column) {
            XSMI_TRY(xsmi_output_bytes(o, "\"\"", 2, err)); /* an empty line would not be read as a row */
        }
        XSMI_TRY(xsmi_output_char(o, '\n', err));
        xsmi_output_passed(o, i);
    }
    return XSM_OK;
}

/* -- the formats --------------------------------------------------------------------------------------------------- */

#define TABLE_FORMAT(kind, matcher)                                                                                    \
    {                                                                                                                  \
        .id = XSM_FORMAT_##kind, .name = #kind, .form = #kind,                                                         \
        .accepts = XSMI_ACCEPTS_COLUMNS | XSMI_ACCEPTS_BAD_BYTES | XSMI_ACCEPTS_TABLE, .labels = XSMI_LABELS_WORDS,    \
        .single = true, .named = true, .match = matcher, .read = read_dense, .write = write_dense,                     \
    }

const xsmi_format xsmi_csv_format = TABLE_FORMAT(CSV, match_csv);
const xsmi_format xsmi_tsv_format = TABLE_FORMAT(TSV, match_tsv);
