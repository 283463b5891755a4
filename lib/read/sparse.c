/*
 * Extreme Classification text and LIBSVM: lines of rows, each `l1,l2 f:v f:v`.
 *
 * XC: features from 0, labels not negative, a first line of three integers declares rows, features and labels, an
 * empty line is a row without labels and features. LIBSVM: features from 0 or 1, any integer label, # starts a comment,
 * lines without anything else are skipped, but with a class map blank lines are rows, so that each gets a prediction.
 */
#include "read/sparse.h"
#include "base/order.h"
#include "read/format.h"
#include "read/number.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

/* -- recognising --------------------------------------------------------------------------------------------------- */

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

/* Matches a line `l f:v` or `f:v`, whatever the values. An empty line, a comment or labels alone leave it open. */
static xsmi_match match_libsvm(const xsmi_reader *r, const xsmi_early_line *line)
{
    const char *p = line->text;
    const char *end = p + line->length;
    (void)r;
    while (p < end && xsmi_is_space(*p)) {
        p++;
    }
    if (p == end || *p == '#') {
        return XSMI_MATCH_OPEN;
    }
    /* Labels, unless the first integer is a feature. */
    for (;;) {
        int64_t label;
        const char *after;
        if (xsmi_parse_integer(p, &after, &label) != XSMI_NUMBER_OK) {
            return XSMI_MATCH_NO;
        }
        if (after < end && *after == ',') {
            p = after + 1;
            continue;
        }
        if (after < end && *after == ':') {
            return XSMI_MATCH_SURE;
        }
        p = after;
        break;
    }
    if (p < end && !xsmi_is_space(*p) && *p != '#') {
        return XSMI_MATCH_NO;
    }
    while (p < end && xsmi_is_space(*p)) {
        p++;
    }
    if (p == end || *p == '#') {
        return XSMI_MATCH_OPEN;
    }
    if (end - p >= 4 && memcmp(p, "qid:", 4) == 0) {
        return XSMI_MATCH_SURE;
    }
    const char *feature = skip_integer(p, end);
    return feature && feature < end && *feature == ':' ? XSMI_MATCH_SURE : XSMI_MATCH_NO;
}

static xsmi_match match_xc(const xsmi_reader *r, const xsmi_early_line *line)
{
    if (line->sizes) {
        return match_libsvm(r, line);
    }
    const size_t numbers = line->top ? xsmi_count_integers(line->text, line->length) : 0;
    return numbers == 3 ? XSMI_MATCH_SURE : numbers == 2 ? XSMI_MATCH_OPEN : XSMI_MATCH_NO;
}

bool xsmi_sparse_is_row(const char *text, size_t length, size_t *pairs)
{
    const char *p = text, *const end = text + length;
    size_t found = 0;
    for (size_t token = 0;; token++) {
        while (p < end && xsmi_is_space(*p)) {
            p++;
        }
        if (p == end || *p == '#') {
            *pairs += found;
            return found > 0;
        }
        const char *stop = p, *colon, *after;
        int64_t feature;
        float value;
        while (stop < end && !xsmi_is_space(*stop)) {
            stop++;
        }
        const bool labels = token == 0 && strspn(p, "0123456789.,+-") == (size_t)(stop - p);
        const bool query = stop - p > 4 && memcmp(p, "qid:", 4) == 0;
        if (!labels && !query) {
            if (xsmi_parse_integer(p, &colon, &feature) != XSMI_NUMBER_OK || *colon != ':' ||
                xsmi_parse_float(colon + 1, &after, &value) != XSMI_NUMBER_OK || after != stop) {
                return false;
            }
            found++;
        }
        p = stop;
    }
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* Reads `rows features labels`, or without the labels where these are in another file. */
static xsm_status read_header(xsmi_sparse *s, const char *text, size_t count, xsm_error *err)
{
    static const char *const names[] = {"rows", "features", "labels"};
    uint64_t numbers[3] = {0, 0, UINT64_MAX};
    uint64_t most[3] = {INT64_MAX, XSM_FEATURES_MAX, XSM_CLASSES_MAX};
    const char *p = text;
    for (size_t i = 0; i < count; i++) {
        while (xsmi_is_space(*p)) {
            p++;
        }
        const char *start = p;
        int64_t number = 0;
        int result = xsmi_parse_integer(start, &p, &number);
        numbers[i] = (uint64_t)number;
        if (result != XSMI_NUMBER_OK || numbers[i] > most[i]) {
            return xsmi_reader_fail(s->r, err, XSM_ERROR_LIMIT, 1, (uint64_t)(start - text) + 1,
                                    "the number of %s is too large; at most %llu are supported", names[i],
                                    (unsigned long long)most[i]);
        }
    }
    if (numbers[1] == 0) {
        return xsmi_reader_fail(s->r, err, XSM_ERROR_FORMAT, 1, 1,
                                "the first line declares no features; at least one "
                                "is needed");
    }
    s->has_header = true;
    s->declared_rows = numbers[0];
    s->declared_labels = numbers[2];
    s->limit = numbers[1];
    s->limit_by = "the first line declares";
    return XSM_OK;
}

/* Sets the limits that the caller gave. */
static void set_limits(xsmi_sparse *s)
{
    const xsmi_reader *r = s->r;
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    s->kept = UINT64_MAX;
    const bool known = r->has_map && r->map.feature_numbers;
    s->any_number = known || (!s->has_header && r->options.features == 0 && (!r->has_map || r->options.new_features));
    if (s->any_number) {
        return;
    }
    if (wanted == 0) {
        return;
    }
    if (drops) {
        s->kept = wanted;
    } else if (wanted < s->limit) {
        s->limit = wanted;
        s->limit_by = "xsm_read_options.features wants";
    }
}

static xsm_status read_xc_lines(xsmi_sparse *s, xsm_error *err)
{
    xsmi_reader *r = s->r;
    char *text;
    size_t length;
    XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    uint64_t header_features = 0;
    const size_t numbers = text ? xsmi_count_integers(text, length) : 0;
    if (numbers == 2 || numbers == 3) {
        XSMI_TRY(read_header(s, text, numbers, err));
        header_features = s->limit;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    }
    set_limits(s);
    if (s->has_header && s->kept != UINT64_MAX && header_features < s->kept) { /* such as rows that are older than the
                                                                                  model's latest features */
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: the first line declares %llu features, and the class map has %llu; the first %llu are taken for "
                 "the same",
                 r->source.name, (unsigned long long)header_features, (unsigned long long)s->kept,
                 (unsigned long long)header_features);
    }
    xsmi_sparse_set_plain(s);
    while (text) {
        s->line_number = r->lines.line;
        if (!s->has_header || r->rows < s->declared_rows) {
            XSMI_TRY(xsmi_sparse_read_row(s, text, length, err));
        } else if (length > 0) { /* if the header says the number of rows, empty lines at the end are no rows */
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, s->line_number, 1,
                                    "a row too many: the first line declares %llu rows",
                                    (unsigned long long)s->declared_rows);
        }
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    }
    if (s->has_header && r->rows < s->declared_rows) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, 1, 1,
                                "the first line declares %llu rows and the file has %llu; the numbers must agree",
                                (unsigned long long)s->declared_rows, (unsigned long long)r->rows);
    }
    bool drops, compacts;
    XSMI_TRY(xsmi_sparse_compact(s, &compacts, err));
    if (!compacts) {
        uint32_t wanted = xsmi_reader_features(r, &drops);
        r->features = wanted ? wanted : (uint32_t)(s->has_header ? header_features : s->largest);
    }
    return XSM_OK;
}

/* Rows between two polls. */
#define ROWS_TOGETHER 1024

/* Converts indexes of the file to indexes from 0, and drops those beyond D. */
static void apply_base(xsmi_sparse *s, uint32_t base, uint64_t kept)
{
    xsmi_reader *r = s->r;
    size_t next = 0;
    size_t start = 0;
    for (uint64_t i = 0; i < r->rows; i++) {
        size_t end = (size_t)r->entries.offsets[i + 1];
        if (i % ROWS_TOGETHER == 0 && xsmi_poll(r->context)) {
            return; /* the call was cancelled: the rows are not used any more */
        }
        for (size_t j = start; j < end; j++) {
            uint32_t feature = r->entries.index[j] - base;
            if (feature < kept) {
                r->entries.index[next] = feature;
                r->entries.values[next++] = r->entries.values[j];
            } else {
                r->dropped++;
            }
        }
        xsmi_reader_passed(r, (end - start) * 8 + 8);
        start = end;
        r->entries.offsets[i + 1] = next;
    }
    r->entries.count = next;
}

/* Returns the least feature number of the rows, UINT32_MAX without any; those of each row rise. */
static uint32_t least_index(const xsmi_reader *r)
{
    uint32_t least = UINT32_MAX;
    for (uint64_t i = 0; i < r->rows && least > 0; i++) {
        const size_t first = (size_t)r->entries.offsets[i];
        least = first < r->entries.offsets[i + 1] ? XSMI_MIN(least, r->entries.index[first]) : least;
    }
    return least;
}

/* Refuses the numbers 1 to D if those of the class map begin at 0, because these rows seem to count from 1; warns of
 * other rows without a feature 0. */
static xsm_status doubt_base(const xsmi_sparse *s, xsm_error *err)
{
    const xsmi_reader *r = s->r;
    const uint32_t least = least_index(r);
    if (r->map.index_base != XSM_INDEX_BASE_ZERO || least == 0 || least == UINT32_MAX) {
        return XSM_OK;
    }
    if (s->largest == (uint64_t)r->map.features + 1) {
        return xsmi_fail(
            err, XSM_ERROR_FORMAT,
            "%s: features are numbered from %u to %u, and those of the class map from 0 to %u, as if these "
            "rows counted from 1: set xsm_read_options.index_base to 1 if they do, else to 0",
            r->source.name, least, r->map.features, r->map.features - 1);
    }
    xsmi_log(
        r->context, XSM_LOG_WARNING,
        "%s: the least feature number is %u, and is taken to count from 0, as those of the class map; if these rows "
        "count from 1, set xsm_read_options.index_base to 1, else to 0",
        r->source.name, least);
    return XSM_OK;
}

/* Sets the base that the options say, or leaves it open. */
static void set_base(xsmi_sparse *s, uint64_t kept)
{
    s->base_open = s->r->options.index_base == XSM_INDEX_BASE_AUTO;
    s->base = s->r->options.index_base == XSM_INDEX_BASE_ONE;
    s->kept = s->base_open ? UINT64_MAX : kept; /* set when the base is known */
    xsmi_sparse_set_plain(s);
}

/* Reads a comment above the rows: scikit-learn's dump_svmlight_file() says there where features begin. */
static xsm_status read_comment(xsmi_sparse *s, const char *text, size_t length, uint64_t kept, xsm_error *err)
{
    static const char *const says[] = {"# Column indices are zero-based", "# Column indices are one-based"};
    xsmi_reader *r = s->r;
    for (size_t one = 0; one < 2; one++) {
        const int32_t base = one ? XSM_INDEX_BASE_ONE : XSM_INDEX_BASE_ZERO;
        if (length < strlen(says[one]) || memcmp(text, says[one], strlen(says[one])) != 0) {
            continue;
        }
        if (r->base_of_map && r->options.index_base != base) {
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, s->line_number, 1,
                                    "the comment says that features count from %zu, and those of the class map count "
                                    "from %zu: set xsm_read_options.index_base",
                                    one, 1 - one);
        }
        r->options.index_base = r->options.index_base == XSM_INDEX_BASE_AUTO ? base : r->options.index_base;
        set_base(s, kept);
    }
    return XSM_OK;
}

static xsm_status read_libsvm_lines(xsmi_sparse *s, xsm_error *err)
{
    xsmi_reader *r = s->r;
    set_limits(s);
    const uint64_t kept = s->kept;
    set_base(s, kept);
    for (;;) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        if (!text) {
            break;
        }
        s->line_number = r->lines.line;
        size_t blank = 0;
        while (blank < length && xsmi_is_space(text[blank])) {
            blank++;
        }
        if (blank < length ? text[blank] != '#' : r->has_map) {
            XSMI_TRY(xsmi_sparse_read_row(s, text, length, err));
        } else if (r->rows == 0) {
            XSMI_TRY(read_comment(s, text, length, kept, err));
        }
    }
    const bool late = r->options.index_base == XSM_INDEX_BASE_AUTO;
    if (s->queries > 0) {
        xsmi_log(r->context, XSM_LOG_WARNING,
                 "%s: %llu rows have a query id (qid:), the first in line %llu; they are for ranking and are left out",
                 r->source.name, (unsigned long long)s->queries, (unsigned long long)s->query_line);
    }
    uint32_t base = late && s->base_open && s->largest > 0 ? 1 : 0;
    bool compacts;
    XSMI_TRY(r->base_of_map && !r->map.feature_numbers ? doubt_base(s, err) : XSM_OK);
    XSMI_TRY(xsmi_sparse_compact(s, &compacts, err));
    if (compacts) {
        return XSM_OK;
    }
    if (base > 0 || (late && kept != UINT64_MAX)) {
        apply_base(s, base, kept);
    }
    if (late && base > 0) {
        xsmi_log(r->context, r->has_map ? XSM_LOG_WARNING : XSM_LOG_INFO,
                 "%s: no feature has the index 0, so the first one was taken to be 1; set "
                 "xsm_read_options.index_base if that is wrong",
                 r->source.name);
    }
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    r->features = wanted ? wanted : (uint32_t)(s->largest - base);
    const int32_t index_base = r->has_map && r->map.index_base ? r->map.index_base /* the features are those of the
                                                                                      class map */
                               : !late        ? r->options.index_base
                               : base > 0     ? XSM_INDEX_BASE_ONE
                               : s->base_open ? XSM_INDEX_BASE_AUTO /* no feature shows the base */
                                              : XSM_INDEX_BASE_ZERO;
    return xsmi_schema_of_numbers(r->context, index_base, &r->schema, err);
}

static xsm_status read_sparse(xsmi_sparse *s, xsm_status (*lines)(xsmi_sparse *, xsm_error *), xsm_error *err)
{
    xsmi_reader *r = s->r;
    s->limit = XSM_FEATURES_MAX;
    s->watched = r->rounding.off ? INFINITY : XSMI_ROUNDING_LEAST;
    xsmi_dictionary_start(&s->wide, r->context, false);
    xsm_status status = lines(s, err);
    xsmi_dictionary_end(&s->wide);
    xsmi_entry_sort_end(r->context, &s->sort);
    return status;
}

static xsm_status read_xc(xsmi_reader *r, xsm_error *err)
{
    XSMI_TRY(xsmi_schema_of_numbers(r->context, XSM_INDEX_BASE_ZERO, &r->schema, err));
    return read_sparse(&(xsmi_sparse){.r = r}, read_xc_lines, err);
}

static xsm_status read_libsvm(xsmi_reader *r, xsm_error *err)
{
    return read_sparse(&(xsmi_sparse){.r = r, .libsvm = true}, read_libsvm_lines, err);
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* Sets *features to the D of a header: that of the dataset, or one more than the largest number if that is above it. */
static xsm_status declared_features(const xsmi_output *o, int64_t *features, xsm_error *err)
{
    const xsm_dataset *d = o->d;
    const int64_t *numbers = xsmi_output_numbers(o);
    *features = d->features;
    for (uint32_t j = 0; numbers && j < d->features; j++) {
        if (numbers[j] >= (int64_t)XSM_FEATURES_MAX) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "feature %u has the number %lld; Extreme Classification text declares at most %u features",
                             j, (long long)numbers[j], (unsigned)XSM_FEATURES_MAX);
        }
        *features = XSMI_MAX(*features, numbers[j] + 1);
    }
    return XSM_OK;
}

static xsm_status write_header(xsmi_output *o, xsm_error *err)
{
    const xsm_dataset *d = o->d;
    int64_t largest = d->classes > 0 ? xsmi_output_label(o, d->classes - 1) : -1, features;
    XSMI_TRY(declared_features(o, &features, err));
    if (d->classes > 0 && (xsmi_output_label(o, 0) < 0 || largest >= (int64_t)XSM_CLASSES_MAX)) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED, "the label %lld; Extreme Classification text has labels from 0 to %u",
            (long long)(largest < (int64_t)XSM_CLASSES_MAX ? xsmi_output_label(o, 0) : largest), XSM_CLASSES_MAX - 1);
    }
    XSMI_TRY(xsmi_output_integer(o, (int64_t)d->rows, err));
    XSMI_TRY(xsmi_output_char(o, ' ', err));
    XSMI_TRY(xsmi_output_integer(o, features, err));
    XSMI_TRY(xsmi_output_char(o, ' ', err));
    XSMI_TRY(xsmi_output_integer(o, largest + 1, err));
    return xsmi_output_char(o, '\n', err);
}

static xsm_status write_row(xsmi_output *o, uint64_t row, uint32_t base, xsm_error *err)
{
    const int64_t *numbers = xsmi_output_numbers(o);
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(o->d, row, &count);
    for (size_t j = 0; j < count; j++) {
        if (j > 0) {
            XSMI_TRY(xsmi_output_char(o, ',', err));
        }
        XSMI_TRY(xsmi_output_integer(o, xsmi_output_label(o, labels[j]), err));
    }
    xsmi_features f = xsmi_dataset_features(o->d, row);
    if (count == 0 && xsmi_dataset_row_is_empty(o->d, row)) {
        XSMI_TRY(xsmi_output_char(o, ' ', err)); /* in place of an empty list of labels */
    }
    for (size_t j = 0; j < f.count; j++) {
        if (f.values[j] != 0) {
            const size_t feature = f.index ? f.index[j] : j;
            XSMI_TRY(xsmi_output_char(o, ' ', err));
            XSMI_TRY(xsmi_output_integer(o, numbers ? numbers[feature] : (int64_t)feature + base, err));
            XSMI_TRY(xsmi_output_char(o, ':', err));
            XSMI_TRY(xsmi_output_float(o, f.values[j], err));
        }
    }
    return xsmi_output_char(o, '\n', err);
}

static xsm_status write_xc(xsmi_output *o, xsm_error *err)
{
    XSMI_TRY(write_header(o, err));
    for (uint64_t i = 0; i < o->d->rows; i++) {
        XSMI_TRY(write_row(o, i, 0, err));
        xsmi_output_passed(o, i);
    }
    return XSM_OK;
}

static xsm_status write_libsvm(xsmi_output *o, xsm_error *err)
{
    const xsm_dataset *d = o->d;
    const int32_t own = xsmi_schema_index_base(o->d->schema); /* numbers stay those of the file that was read */
    uint32_t base = (o->options->index_base ? o->options->index_base : own) != XSM_INDEX_BASE_ZERO;
    if (xsmi_output_numbers(o) && o->options->index_base == XSM_INDEX_BASE_ONE) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_write_options.index_base is XSM_INDEX_BASE_ONE, and the features have numbers of their "
                         "own, the first %lld (xsm_class_map.feature_numbers)",
                         (long long)xsmi_output_numbers(o)[0]);
    }
    for (uint64_t i = 0; i < d->rows; i++) {
        if (d->label_offsets[i + 1] == d->label_offsets[i] && xsmi_dataset_row_is_empty(d, i)) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "row %llu (from 0) has no label and no feature; LIBSVM has no line for it (see "
                             "xsm_dataset_drop())",
                             (unsigned long long)i);
        }
        XSMI_TRY(write_row(o, i, base, err));
        xsmi_output_passed(o, i);
    }
    return XSM_OK;
}

const xsmi_format xsmi_xc_format = {
    .id = XSM_FORMAT_XC,
    .name = "XC",
    .form = "XC text (first line 'rows features labels', then 'l1,l2 f:v f:v')",
    .accepts = XSMI_ACCEPTS_LABEL_WEIGHTS | XSMI_ACCEPTS_LABELS_PATH | XSMI_ACCEPTS_DUPLICATES,
    .sparse = true,
    .match = match_xc,
    .read = read_xc,
    .write = write_xc,
};

const xsmi_format xsmi_libsvm_format = {
    .id = XSM_FORMAT_LIBSVM,
    .name = "LIBSVM",
    .form = "LIBSVM ('l f:v f:v')",
    .accepts = XSMI_ACCEPTS_INDEX_BASE | XSMI_ACCEPTS_LABEL_WEIGHTS | XSMI_ACCEPTS_DUPLICATES,
    .sparse = true,
    .match = match_libsvm,
    .read = read_libsvm,
    .write = write_libsvm,
};
