/* Writing CSV and TSV: columns of features, named by their names, words or numbers, or f0, f1, ...; then the weight, if
 * it has a column; last the label. */
#include "read/dense.h"
#include "base/utf8.h"
#include "data/dictionary.h"
#include "data/schema.h"
#include "data/vocabulary.h"

#include <stdio.h>
#include <string.h>

#include <xsoftmax/vocabulary.h>

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
    if (names && o->d->features > 0 && (names[0][0] == '\0' || strcmp(names[0], "Unnamed: 0") == 0)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the first column of features, %s, would be read as numbers of rows; one with a name is "
                         "accepted",
                         names[0][0] == '\0' ? "which has no name" : "'Unnamed: 0'");
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

xsm_status xsmi_write_dense(xsmi_output *o, xsm_error *err)
{
    const xsm_dataset *d = o->d;
    const char separator = xsmi_dense_separator(o->options->format);
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
