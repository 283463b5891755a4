/*
 * CSV and TSV (RFC 4180 with either separator): a header line, one column of labels, perhaps one of weights, all others
 * features. Rows that are read against a class map may lack the labels.
 *
 * A quoted field may hold separators, doubled quotes and line ends, so a record may be several lines. A record stays in
 * the line buffer until it is complete, but moves when a line is added. So positions in it are stored as offsets.
 */
#include "read/dense.h"
#include "read/format.h"
#include "read/number.h"
#include "base/grow.h"
#include "base/order.h"
#include "base/utf8.h"

#include <string.h>

/* -- recognising --------------------------------------------------------------------------------------------------- */

/* Whether a field is a number, with spaces around it or without. */
static bool is_number(const char *text, size_t length)
{
    const char *p = text, *end = text + length, *after;
    float value;
    while (p < end && xsmi_is_space(*p)) {
        p++;
    }
    while (end > p && xsmi_is_space(end[-1])) {
        end--;
    }
    return p < end && xsmi_parse_short_float(p, &after, &value) == XSMI_NUMBER_OK && after == end;
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

/* Columns of weights. */
static size_t weighted(const xsmi_reader *r)
{
    return r->options.weights_column != NULL;
}

/* Whether a line without the label column is a header nevertheless: it has a column for each feature of a class map,
 * and one of weights where these are asked for, so that there are no labels, or names alone, so that reading it says
 * what is missing. */
static bool is_bare_header(const xsmi_reader *r, const char *text, size_t length, char separator)
{
    size_t fields = 0;
    size_t names = 0;
    bool drops;
    for (size_t at = 0; at <= length; fields++) {
        const char *stop = memchr(text + at, separator, length - at);
        size_t end = stop ? (size_t)(stop - text) : length;
        names += end > at && !is_number(text + at, end - at);
        at = end + 1;
    }
    return fields > 1 &&
           (names == fields || (names > 0 && r->has_map && fields == xsmi_reader_features(r, &drops) + weighted(r)));
}

static xsmi_match match_header(const xsmi_reader *r, const xsmi_early_line *line, char separator)
{
    const char *text = line->text;
    if (!line->first) {
        return XSMI_MATCH_NO;
    }
    return is_dense_header(text, line->length, separator, xsmi_reader_label_column(r)) ||
                   (r->map.feature_names && is_dense_header(text, line->length, separator, r->map.feature_names[0]))
               ? XSMI_MATCH_SURE
           : is_bare_header(r, text, line->length, separator) ? XSMI_MATCH_MAYBE
                                                              : XSMI_MATCH_NO;
}

static xsmi_match match_csv(const xsmi_reader *r, const xsmi_early_line *line)
{
    return match_header(r, line, ',');
}

static xsmi_match match_tsv(const xsmi_reader *r, const xsmi_early_line *line)
{
    return match_header(r, line, '\t');
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

typedef struct record {
    xsmi_reader *r;
    char separator;
    char *text;
    size_t length;
    size_t at;     /* start of the next field */
    bool done;     /* the last field was returned */
    uint64_t line; /* the line of `at`, and where it starts */
    size_t line_start;
} record;

typedef struct field {
    size_t start, length; /* in the record's text, without quotes, doubled ones made single */
    uint64_t line, column;
    bool quoted;
} field;

static xsm_status fail_here(const record *c, size_t at, xsm_error *err, const char *what)
{
    return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, c->line, at - c->line_start + 1, "%s", what);
}

static void start_record(record *c, char *text, size_t length)
{
    c->text = text;
    c->length = length;
    c->at = 0;
    c->done = false;
    c->line_start = 0;
}

/* The rest of a field after its opening quote at `open`: finds the closing one, line by line. */
static xsm_status quoted_field(record *c, size_t open, field *f, xsm_error *err)
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

/* The next field; it exists as long as the record is not complete. */
static xsm_status next_field(record *c, field *f, xsm_error *err)
{
    f->line = c->line;
    f->column = c->at - c->line_start + 1;
    f->quoted = c->at < c->length && c->text[c->at] == '"';
    if (f->quoted) {
        return quoted_field(c, c->at, f, err);
    }
    const char *stop = memchr(c->text + c->at, c->separator, c->length - c->at);
    size_t end = stop ? (size_t)(stop - c->text) : c->length;
    f->start = c->at;
    f->length = end - c->at;
    c->done = !stop;
    c->at = end + 1;
    return XSM_OK;
}

#define NO_COLUMN SIZE_MAX

typedef struct columns {
    size_t count, label, weight; /* the columns of labels and weights, NO_COLUMN without */
    size_t features;             /* columns besides these */
    char *text;                  /* their names, each terminated */
    size_t text_size, text_capacity;
    xsmi_feature_map map; /* of a class map with names: where it has them; else the columns keep their order */
    bool names;           /* some name is not a number: the line is a header */
    char found[200];      /* the names, for the message when the label column is not among them */
    size_t found_length;
} columns;

/* Keeps the name of a column of features. */
static xsm_status keep_name(const record *c, const field *f, columns *k, xsm_error *err)
{
    const char *name = c->text + f->start;
    if (memchr(name, '\0', f->length)) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, f->line, f->column,
                                "a byte of 0 in the name of a column; names without are accepted");
    }
    XSMI_TRY(
        XSMI_GROW(c->r->context, k->text, k->text_capacity, k->text_size + f->length + 1, "the names of columns", err));
    memcpy(k->text + k->text_size, name, f->length);
    k->text_size += f->length;
    k->text[k->text_size++] = '\0';
    k->features++;
    return XSM_OK;
}

static void list_column(columns *k, const char *name, size_t length)
{
    char quote[XSMI_QUOTE_SIZE];
    xsmi_quote(quote, name, length);
    size_t size = strlen(quote);
    if (k->found_length + size + 6 < sizeof k->found) {
        if (k->found_length > 0) {
            memcpy(k->found + k->found_length, ", ", 2);
            k->found_length += 2;
        }
        memcpy(k->found + k->found_length, quote, size + 1);
        k->found_length += size;
    } else if (k->found[k->found_length - 1] != '.') {
        memcpy(k->found + k->found_length, " ...", 5);
        k->found_length += 4;
    }
}

/* Notes a column if its name is the wanted one. */
static xsm_status note_column(const record *c, const field *f, const char *wanted, const char *what, size_t number,
                              size_t *column, xsm_error *err)
{
    if (f->length != strlen(wanted) || memcmp(c->text + f->start, wanted, f->length) != 0) {
        return XSM_OK;
    }
    if (*column != NO_COLUMN) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, f->line, f->column,
                                "a second column '%s'; one column of %s is accepted", wanted, what);
    }
    *column = number;
    return XSM_OK;
}

static xsm_status read_header(record *c, columns *k, xsm_error *err)
{
    const char *wanted = xsmi_reader_label_column(c->r), *weights = c->r->options.weights_column;
    bool drops;
    k->label = k->weight = NO_COLUMN;
    uint64_t first_line = c->line;
    if (weights && strcmp(weights, wanted) == 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: the column '%s' is that of the labels; another is accepted as "
                         "xsm_read_options.weights_column",
                         c->r->source.name, weights);
    }
    while (!c->done) {
        field f = {0};
        XSMI_TRY(next_field(c, &f, err));
        const char *name = c->text + f.start;
        XSMI_TRY(note_column(c, &f, wanted, "labels", k->count, &k->label, err));
        XSMI_TRY(weights ? note_column(c, &f, weights, "weights", k->count, &k->weight, err) : XSM_OK);
        k->names |= !is_number(name, f.length);
        list_column(k, name, f.length);
        if (k->label != k->count && k->weight != k->count) {
            XSMI_TRY(keep_name(c, &f, k, err));
        }
        k->count++;
    }
    const bool have = k->label != NO_COLUMN;
    if (weights && k->weight == NO_COLUMN) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, first_line, 1,
                                "no column '%s' (xsm_read_options.weights_column); the columns are %s", weights,
                                k->found);
    }
    if (!have && k->names && c->r->map.feature_names) {
        return XSM_OK; /* its columns are found by name */
    }
    if (!have && c->r->has_map && k->count == xsmi_reader_features(c->r, &drops) + weighted(c->r)) {
        return k->names ? XSM_OK
                        : xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, first_line, 1,
                                           "numbers where the names of columns are expected: %s", k->found);
    }
    if (!have && c->r->has_map) {
        return xsmi_reader_fail(
            c->r, err, XSM_ERROR_FORMAT, first_line, 1,
            "no column '%s' (xsm_read_options.label_column), and the class map has %u features, the "
            "file %zu column%s: %s",
            wanted, (unsigned)xsmi_reader_features(c->r, &drops), k->count, k->count == 1 ? "" : "s", k->found);
    }
    if (!have) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, first_line, 1,
                                "no column '%s'; the columns, with %s between, are %s; name the label's with "
                                "xsm_read_options.label_column",
                                wanted, c->separator == ',' ? "commas" : "tabs", k->found);
    }
    if (k->count == 1 + weighted(c->r)) {
        return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, first_line, 1,
                                "no column beside '%s'%s%s%s; at least one column of features is needed (separated by "
                                "%s)",
                                wanted, weights ? " and '" : "", weights ? weights : "", weights ? "'" : "",
                                c->separator == ',' ? "commas" : "tabs");
    }
    return XSM_OK;
}

/* Finds the columns of a class map that names them. */
static xsm_status match_names(const record *c, columns *k, uint64_t line, xsm_error *err)
{
    xsmi_reader *r = c->r;
    const xsmi_feature_side rows = {r->schema, 0, "the file"};
    const xsmi_feature_side wanted = {r->wanted, r->map.features, "the class map"};
    xsm_error inner = XSM_ERROR_INIT;
    xsmi_schema *all = NULL;
    const xsm_status status = r->options.new_features ? xsmi_features_join(&rows, &wanted, &k->map, &all, &inner)
                                                      : xsmi_features_match(&rows, &wanted, &k->map, &inner);
    if (status != XSM_OK) {
        return status == XSM_ERROR_DATA ? xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, 1, "%s", inner.message)
                                        : xsmi_fail_copy(err, &inner);
    }
    if (k->map.unknown > 0) {
        char quote[XSMI_QUOTE_SIZE];
        const char *name = r->schema->names[k->map.first_unknown];
        xsmi_log(r->context, XSM_LOG_INFO, "%s: %u column%s that the class map has not, left out: %s%s", r->source.name,
                 k->map.unknown, k->map.unknown == 1 ? "" : "s", xsmi_quote(quote, name, strlen(name)),
                 k->map.unknown == 1 ? "" : ", ...");
    }
    r->unknown_features = k->map.unknown;
    xsmi_schema_release(r->schema);
    r->schema = all ? all : xsmi_schema_retain(r->wanted);
    r->features = all ? all->count : r->features;
    return XSM_OK;
}

static xsm_status count_features(const record *c, size_t features, uint64_t line, xsm_error *err)
{
    xsmi_reader *r = c->r;
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    if (drops && features < wanted) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, 1,
                                "the class map has %u features, the file %zu column%s of features", wanted, features,
                                features == 1 ? "" : "s");
    }
    if (wanted > 0 && !drops && features != wanted) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, 1,
                                "%zu columns of features; %u are expected (xsm_read_options.features)", features,
                                wanted);
    }
    r->features = wanted ? wanted : (uint32_t)features;
    return XSM_OK;
}

static xsm_status set_features(const record *c, columns *k, uint64_t line, xsm_error *err)
{
    xsmi_reader *r = c->r;
    if (k->features > XSM_FEATURES_MAX) {
        return xsmi_reader_fail(r, err, XSM_ERROR_LIMIT, line, 1, "%zu columns of features; at most %u are supported",
                                k->features, (unsigned)XSM_FEATURES_MAX);
    }
    if (k->features == 0) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, 1, "no column of features; at least one is needed");
    }
    const bool named = r->wanted && r->wanted->kind == XSMI_SCHEMA_COLUMNS;
    XSMI_TRY(count_features(c, named ? r->wanted->count : k->features, line, err));
    const size_t names = named ? k->features : XSMI_MIN(k->features, r->features);
    size_t size = 0;
    for (size_t j = 0; j < names; j++) {
        size += strlen(k->text + size) + 1;
    }
    XSMI_TRY(xsmi_schema_of_columns(r->context, k->text, size, (uint32_t)names, &r->schema, err));
    XSMI_TRY(named ? match_names(c, k, line, err) : XSM_OK);
    r->stride = xsmi_dataset_stride(r->features);
    return XSM_OK;
}

static bool is_blank(char c, char separator)
{
    return c != separator && xsmi_is_space(c);
}

/* A number from [start, start+length) of the record, spaces around it allowed. Behind it stands the separator, a quote
 * or the end of the line, none of which is part of a number. */
static xsm_status read_value(const record *c, const field *f, float *value, xsm_error *err)
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
        if (result == XSMI_NUMBER_OK && after == end) {
            return XSM_OK;
        }
        problem = result == XSMI_NUMBER_NOT_FINITE  ? "expected a finite number"
                  : result == XSMI_NUMBER_TOO_LARGE ? "expected a number within float32, up to 3.4e38"
                                                    : "expected a number";
        p = result == XSMI_NUMBER_OK ? after : p;
    }
    char quote[XSMI_QUOTE_SIZE];
    uint64_t column = f->column + (uint64_t)(p - (c->text + f->start)) + (f->quoted ? 1 : 0);
    return xsmi_reader_fail(c->r, err, XSM_ERROR_FORMAT, f->line, column, "%s, found %s", problem,
                            p == end ? "an empty field" : xsmi_quote(quote, p, (size_t)(end - p)));
}

static xsm_status read_weight(const record *c, const field *f, xsm_error *err)
{
    xsmi_reader *r = c->r;
    float value;
    XSMI_TRY(read_value(c, f, &value, err));
    if (!(value >= 0)) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, f->line, f->column,
                                "%s is no weight; a finite number of 0 or more is accepted",
                                xsmi_quote(quote, c->text + f->start, f->length));
    }
    r->weights[r->rows] = value;
    return XSM_OK;
}

static xsm_status read_label(const record *c, const field *f, xsm_error *err)
{
    if (f->length == 0) {
        return XSM_OK; /* a row without a label */
    }
    xsmi_reader *r = c->r;
    const char *word = c->text + f->start;
    size_t length = f->length;
    XSMI_TRY(xsmi_reader_text(r, f->line, f->column + (f->quoted ? 1 : 0), " in a label", &word, &length, err));
    if (memchr(word, '\n', length) || memchr(word, '\r', length)) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, f->line, f->column,
                                "a line end in a label; names of classes are of one line");
    }
    uint32_t id;
    XSMI_TRY(xsmi_dictionary_word(&r->dictionary, word, length, &id, err));
    xsmi_reader_add_label(r, id);
    return XSM_OK;
}

static xsm_status read_record(record *c, const columns *k, xsm_error *err)
{
    xsmi_reader *r = c->r;
    XSMI_TRY(xsmi_reader_reserve(r, r->stride, 1, err));
    float *row = r->entries.values + r->entries.count;
    uint32_t next = 0;
    for (size_t i = 0; i < k->count; i++) {
        if (c->done) {
            size_t at = c->at - 1;
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, c->line, at - c->line_start + 1,
                                    "%zu fields; the header line has %zu", i, k->count);
        }
        field f = {0};
        XSMI_TRY(next_field(c, &f, err));
        if (i == k->label) {
            XSMI_TRY(read_label(c, &f, err));
            continue;
        }
        if (i == k->weight) {
            XSMI_TRY(read_weight(c, &f, err));
            continue;
        }
        const uint32_t place = k->map.to ? k->map.to[next] : next;
        next++;
        if (place == XSMI_NO_FEATURE) {
            continue; /* of a column that is left out the fields may be anything */
        }
        float value;
        XSMI_TRY(read_value(c, &f, &value, err));
        if (place < r->features) {
            row[place] = value;
        } else {
            r->dropped += value != 0;
        }
    }
    if (!c->done) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, c->line, c->at - c->line_start + 1,
                                "more than %zu fields; the header line has %zu", k->count, k->count);
    }
    memset(row + r->features, 0, (r->stride - r->features) * sizeof *row);
    r->entries.count += r->stride;
    xsmi_reader_end_row(r);
    return XSM_OK;
}

/* An empty line of rows that are read against a class map is a row of zeros without a label: each has an answer. */
static xsm_status read_nothing(xsmi_reader *r, xsm_error *err)
{
    XSMI_TRY(xsmi_reader_reserve(r, r->stride, 1, err));
    memset(r->entries.values + r->entries.count, 0, r->stride * sizeof *r->entries.values);
    r->entries.count += r->stride;
    if (r->options.weights_column) {
        r->weights[r->rows] = 0;
    }
    xsmi_reader_end_row(r);
    return XSM_OK;
}

static xsm_status read_records(record *c, columns *k, xsm_error *err)
{
    xsmi_reader *r = c->r;
    bool have_header = false;
    for (;;) {
        char *text;
        size_t length;
        c->line++;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        if (!text) {
            break;
        }
        if (length == 0 && !(have_header && r->has_map)) {
            continue; /* as every reader of CSV does */
        }
        uint64_t line = c->line;
        start_record(c, text, length);
        if (length == 0) {
            XSMI_TRY(read_nothing(r, err));
        } else if (have_header) {
            XSMI_TRY(read_record(c, k, err));
        } else {
            XSMI_TRY(read_header(c, k, err));
            XSMI_TRY(set_features(c, k, line, err));
            have_header = true;
        }
    }
    return have_header ? XSM_OK
                       : xsmi_fail(err, XSM_ERROR_DATA,
                                   "%s: the file is empty; a header line and at least one row are "
                                   "needed",
                                   r->source.name);
}

static xsm_status read_dense(xsmi_reader *r, xsm_error *err)
{
    record c = {.r = r, .separator = xsmi_dense_separator(r->format->id)};
    columns k = {0};
    const xsm_status status = read_records(&c, &k, err);
    xsmi_feature_map_end(&k.map);
    xsmi_release(r->context, k.text, k.text_capacity, 1);
    return status;
}

const xsmi_format xsmi_csv_format = {
    .id = XSM_FORMAT_CSV,
    .name = "CSV",
    .form = "CSV with a header line",
    .accepts = XSMI_ACCEPTS_COLUMNS | XSMI_ACCEPTS_BAD_BYTES,
    .labels = XSMI_LABELS_WORDS,
    .single = true,
    .named = true,
    .match = match_csv,
    .read = read_dense,
    .write = xsmi_write_dense,
};

const xsmi_format xsmi_tsv_format = {
    .id = XSM_FORMAT_TSV,
    .name = "TSV",
    .form = "TSV with a header line",
    .accepts = XSMI_ACCEPTS_COLUMNS | XSMI_ACCEPTS_BAD_BYTES,
    .labels = XSMI_LABELS_WORDS,
    .single = true,
    .named = true,
    .match = match_tsv,
    .read = read_dense,
    .write = xsmi_write_dense,
};
