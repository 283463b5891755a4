/*
 * One row of XC text or LIBSVM: `l1,l2 f:v f:v`, where the labels may be missing.
 *
 * The line is followed by a line end, which no number or separator contains, so that the parser need not check for the
 * end. To keep the common path short, some errors are found by parsing the line again.
 */
#include "read/sparse.h"
#include "base/grow.h"
#include "base/order.h"
#include "read/number.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

/* Whether a byte may follow a number; a '\r' may only at the line's end. */
static inline bool ends_token(const xsmi_sparse *s, const char *p)
{
    return xsmi_is_space(*p) || p == s->end || (s->libsvm && *p == '#');
}

static inline bool at_end(const xsmi_sparse *s, const char *p)
{
    return p == s->end || (s->libsvm && *p == '#');
}

static xsm_status fail(const xsmi_sparse *s, const char *p, xsm_status status, xsm_error *err, const char *what)
{
    char quote[XSMI_QUOTE_SIZE];
    const char *stop = p;
    while (stop < s->end && !xsmi_is_space(*stop)) {
        stop++;
    }
    return xsmi_reader_fail(s->r, err, status, s->line_number, (uint64_t)(p - s->line) + 1, "%s, found %s", what,
                            stop == p ? (p == s->end ? "the end of the line" : "a space")
                                      : xsmi_quote(quote, p, (size_t)(stop - p)));
}

/* -- labels ------------------------------------------------------------------------------------------------------- */

static xsm_status label_failure(const xsmi_sparse *s, const char *p, int result, xsm_error *err)
{
    if (result == XSMI_NUMBER_TOO_LARGE) {
        return fail(s, p, XSM_ERROR_LIMIT, err, "a label beyond 64 bits");
    }
    if (result == XSMI_NUMBER_FRACTION) {
        return fail(s, p, XSM_ERROR_FORMAT, err, "expected an integer label");
    }
    return fail(s, p, XSM_ERROR_FORMAT, err,
                s->libsvm ? "expected an integer label, or a space before the first feature"
                          : "expected a label (an integer from 0), or a space before the first feature");
}

/* Reads one label; *is_feature: it is the index of a feature. */
static xsm_status read_label(const xsmi_sparse *s, const char *p, const char **after, int64_t *label, float *weight,
                             bool *is_feature, xsm_error *err)
{
    *is_feature = false;
    int result = XSMI_NUMBER_OK;
    const char *q = p;
    uint64_t n = 0;
    while (xsmi_is_digit(*q) && q - p < 18) {
        n = n * 10 + (uint64_t)(*q - '0');
        q++;
    }
    if (q > p && (*q == ',' || *q == ':' || ends_token(s, q))) {
        *label = (int64_t)n;
    } else if (s->libsvm) {
        result = xsmi_parse_integer(p, &q, label);
    } else {
        const char *digits = q;
        while (xsmi_is_digit(*digits)) {
            digits++;
        }
        if (digits == p) {
            result = XSMI_NUMBER_NONE;
        } else if (*digits == '.' || (*digits | 0x20) == 'e') {
            result = XSMI_NUMBER_FRACTION;
        } else {
            result = xsmi_parse_integer(p, &q, label);
        }
    }
    if (result != XSMI_NUMBER_OK) {
        return label_failure(s, p, result, err);
    }
    *weight = 1;
    if (*q == ':' && q < s->end && !s->r->options.label_weights) {
        *is_feature = true;
        return XSM_OK;
    }
    if (*q == ':' && q < s->end) {
        const char *number = q + 1;
        if (xsmi_parse_short_float(number, &q, weight) != XSMI_NUMBER_OK || !(*weight >= 0)) {
            return fail(
                s, number, XSM_ERROR_FORMAT, err,
                "expected the weight of a label, finite and at least 0; a line without labels starts with a space");
        }
    }
    if (*q != ',' && !ends_token(s, q)) {
        return fail(s, q, XSM_ERROR_FORMAT, err, "expected a comma or a space after a label");
    }
    if (s->has_header && (uint64_t)*label >= s->declared_labels) {
        return xsmi_reader_fail(s->r, err, XSM_ERROR_FORMAT, s->line_number, (uint64_t)(p - s->line) + 1,
                                "label %lld; the first line declares %llu labels, so 0 to %llu are accepted",
                                (long long)*label, (unsigned long long)s->declared_labels,
                                (unsigned long long)s->declared_labels - 1);
    }
    *after = q;
    return XSM_OK;
}

/* Reads the labels of a line from *after on and moves *after behind them. */
static xsm_status read_labels(xsmi_sparse *s, const char **after, xsm_error *err)
{
    const char *p = *after;
    xsmi_row_labels row = {.r = s->r};
    for (bool first = true;; first = false) {
        int64_t label;
        float weight;
        bool is_feature;
        XSMI_TRY(read_label(s, p, &p, &label, &weight, &is_feature, err));
        if (is_feature) {
            return first ? XSM_OK /* no labels: the features start with the line */
                         : fail(s, p, XSM_ERROR_FORMAT, err, "expected a label after the comma, not a feature");
        }
        XSMI_TRY(s->r->skips_labels ? XSM_OK : xsmi_row_labels_add(&row, label, weight, err));
        if (*p != ',') {
            break;
        }
        p++;
    }
    *after = p;
    return xsmi_row_labels_end(&row, err);
}

/* -- features ----------------------------------------------------------------------------------------------------- */

static xsm_status index_failure(const xsmi_sparse *s, const char *p, const char *after, xsm_error *err)
{
    if (s->libsvm && s->end - p >= 4 && memcmp(p, "qid:", 4) == 0) {
        return fail(s, p, XSM_ERROR_FORMAT, err, "a query id goes before the features; expected index:value");
    }
    if (after == p) {
        return fail(s, p, XSM_ERROR_FORMAT, err, "expected a feature as index:value");
    }
    return fail(s, after, XSM_ERROR_FORMAT, err, "expected ':' and a value after a feature index");
}

static xsm_status value_failure(const xsmi_sparse *s, const char *p, int result, xsm_error *err)
{
    switch (result) {
    case XSMI_NUMBER_NOT_FINITE:
        return fail(s, p, XSM_ERROR_FORMAT, err, "expected a finite value");
    case XSMI_NUMBER_TOO_LARGE:
        return fail(s, p, XSM_ERROR_FORMAT, err, "expected a value within float32, up to 3.4e38");
    default:
        return fail(s, p, XSM_ERROR_FORMAT, err, "expected a number");
    }
}

/* Returns the error of an index at or beyond the limit, as the file has it. */
static xsm_status limit_failure(const xsmi_sparse *s, uint64_t line, uint64_t column, uint64_t index, uint32_t base,
                                xsm_error *err)
{
    if (!s->limit_by) {
        return xsmi_reader_fail(s->r, err, XSM_ERROR_LIMIT, line, column,
                                "a feature index beyond %llu, the largest that is supported",
                                (unsigned long long)XSM_FEATURES_MAX - 1 + base);
    }
    return xsmi_reader_fail(s->r, err, XSM_ERROR_FORMAT, line, column,
                            "feature index %llu; %s %llu features, so %u to %llu are accepted",
                            (unsigned long long)index, s->limit_by, (unsigned long long)s->limit, base,
                            (unsigned long long)s->limit - 1 + base);
}

void xsmi_sparse_set_plain(xsmi_sparse *s)
{
    s->plain_first = s->base_open ? 1 : 0;
    s->plain_count = s->base > 0 ? 0 : s->limit - s->plain_first;
}

/* Replaces a number beyond the limit by its code. */
static xsm_status place_wide(xsmi_sparse *s, const char *p, uint64_t *feature, xsm_error *err)
{
    uint32_t id;
    if (*feature > INT64_MAX) {
        return fail(s, p, XSM_ERROR_LIMIT, err, "expected a feature index up to 9223372036854775807 (2^63 - 1)");
    }
    XSMI_TRY(xsmi_dictionary_number(&s->wide, (int64_t)*feature, &id, err));
    *feature = (uint64_t)XSMI_SPARSE_WIDE + id;
    return XSM_OK;
}

/* Handles an index outside of the common case: the base, the limit. *feature is as in the file. */
static xsm_status place_index(xsmi_sparse *s, const char *p, uint64_t *feature, xsm_error *err)
{
    uint64_t column = (uint64_t)(p - s->line) + 1;
    uint64_t index = *feature;
    if (s->any_number && !s->limit_by && index >= s->limit + s->base) {
        return place_wide(s, p, feature, err);
    }
    if (s->base_open) {
        if (index == 0) {
            /* The base is 0 after all; the last index of base 1 is now too large. */
            s->base_open = false;
            xsmi_sparse_set_plain(s);
            if (s->edge_line) {
                return limit_failure(s, s->edge_line, s->edge_column, s->limit, 0, err);
            }
        } else if (index == s->limit) {
            if (!s->edge_line) {
                s->edge_line = s->line_number;
                s->edge_column = column;
            }
            return XSM_OK;
        } else if (index > s->limit) {
            return limit_failure(s, s->line_number, column, index, 1, err);
        }
        return XSM_OK;
    }
    if (index < s->base) {
        return fail(s, p, XSM_ERROR_FORMAT, err, "feature indexes start at 1 here (xsm_read_options.index_base)");
    }
    index -= s->base;
    if (index >= s->limit) {
        return limit_failure(s, s->line_number, column, *feature, s->base, err);
    }
    *feature = index;
    return XSM_OK;
}

/* Returns a feature's number in the line. */
static unsigned long long shown_number(const xsmi_sparse *s, uint32_t feature)
{
    return s->any_number && feature >= XSMI_SPARSE_WIDE
               ? (unsigned long long)xsmi_dictionary_label(&s->wide, feature - XSMI_SPARSE_WIDE)
               : (unsigned long long)feature + s->base;
}

/* Returns the error of a feature that the line has twice, with its second position. */
static xsm_status duplicate_failure(const xsmi_sparse *s, uint32_t feature, xsm_error *err)
{
    bool found = false;
    const unsigned long long shown = shown_number(s, feature);
    for (const char *p = s->features_start; !at_end(s, p);) {
        uint64_t index = 0;
        const char *start = p;
        for (; xsmi_is_digit(*p); p++) {
            index = index * 10 + (uint64_t)(*p - '0'); /* below 2^63: it was read before */
        }
        if (p > start && index == shown) {
            if (found) {
                return xsmi_reader_fail(s->r, err, XSM_ERROR_FORMAT, s->line_number, (uint64_t)(start - s->line) + 1,
                                        "feature %llu for the second time in this row; each is accepted once "
                                        "(xsm_read_options.duplicates = XSM_DUPLICATES_SUM adds them)",
                                        shown);
            }
            found = true;
        }
        while (!ends_token(s, p)) {
            p++;
        }
        while (xsmi_is_space(*p)) {
            p++;
        }
    }
    return xsmi_fail(err, XSM_ERROR_INTERNAL, "a repeated feature that is not there");
}

/* Adds the values of features that a sorted row names more than once. */
static xsm_status add_duplicates(const xsmi_sparse *s, uint32_t *index, float *values, size_t *count, xsm_error *err)
{
    *count = xsmi_add_duplicates(index, values, *count);
    for (size_t i = 0; i < *count; i++) {
        if (!isfinite(values[i])) {
            return xsmi_reader_fail(s->r, err, XSM_ERROR_FORMAT, s->line_number, 1,
                                    "the values of feature %llu have a sum beyond float32", shown_number(s, index[i]));
        }
    }
    return XSM_OK;
}

static xsm_status sort_row(xsmi_sparse *s, uint32_t *index, float *values, size_t *count, xsm_error *err)
{
    XSMI_TRY(xsmi_sort_entries(s->r->context, &s->sort, index, values, *count, err));
    for (size_t i = 1; i < *count; i++) {
        if (index[i] == index[i - 1]) {
            return s->r->options.duplicates == XSM_DUPLICATES_SUM ? add_duplicates(s, index, values, count, err)
                                                                  : duplicate_failure(s, index[i], err);
        }
    }
    return XSM_OK;
}

/* Returns an index with more digits than the common case accepts: it has leading zeros or is too large. */
static uint64_t long_index(const char *p)
{
    uint64_t index = 0;
    for (; xsmi_is_digit(*p); p++) {
        index = index > INT64_MAX / 10 ? UINT64_MAX : index * 10 + (uint64_t)(*p - '0');
    }
    return index;
}

/* Skips a query id of ranking data, `qid:3`. */
static const char *skip_query(xsmi_sparse *s, const char *p)
{
    if (s->end - p < 4 || memcmp(p, "qid:", 4) != 0) {
        return p;
    }
    s->query_line = s->queries++ == 0 ? s->line_number : s->query_line;
    while (!ends_token(s, p)) {
        p++;
    }
    while (xsmi_is_space(*p)) {
        p++;
    }
    return p;
}

/* Reads the features from p to the end of the line and appends them to the reader. Zeros stay until the row was
 * checked. */
static xsm_status read_features(xsmi_sparse *s, const char *p, xsm_error *err)
{
    xsmi_reader *r = s->r;
    uint32_t *index = r->entries.index + r->entries.count;
    float *values = r->entries.values + r->entries.count;
    size_t count = 0;
    bool sorted = true;
    bool spare = false; /* the row has zeros or features to drop */
    uint64_t next = 0;  /* the last index + 1 */
    uint64_t largest = s->largest;
    const uint64_t kept = s->kept;
    float watched = s->watched;
    while (xsmi_is_space(*p)) {
        p++;
    }
    if (s->libsvm && *p == 'q') {
        p = skip_query(s, p);
    }
    s->features_start = p;
    while (!at_end(s, p)) {
        const char *start = p;
        uint64_t feature = 0;
        unsigned c;
        while ((c = (unsigned)((unsigned char)*p - '0')) <= 9) {
            feature = feature * 10 + c;
            p++;
        }
        if (p == start || *p != ':' || p == s->end) {
            return index_failure(s, start, p, err);
        }
        if (p - start > 19) {
            feature = long_index(start);
        }
        const char *number = ++p;
        float value;
        int result = xsmi_parse_short_float(p, &p, &value);
        if (result != XSMI_NUMBER_OK) {
            return value_failure(s, number, result, err);
        }
        if (!ends_token(s, p)) {
            return fail(s, p, XSM_ERROR_FORMAT, err, "expected a space after a value");
        }
        if (value == 0 ? xsmi_rounding_may_vanish(number, (size_t)(p - number))
                       : fabsf(value) >= watched && xsmi_rounding_wants(&r->rounding, feature)) {
            watched = s->watched = value != 0 ? 0 : watched; /* a zero: the column may also have smaller numbers */
            XSMI_TRY(xsmi_rounding_text(&r->rounding, feature, number, s->line_number, err));
        }
        if (feature - s->plain_first >= s->plain_count) {
            XSMI_TRY(place_index(s, start, &feature, err));
        }
        sorted &= feature + 1 > next;
        next = feature + 1;
        largest = XSMI_MAX(next, largest);
        spare |= value == 0 || feature >= kept;
        index[count] = (uint32_t)feature;
        values[count] = value;
        count++;
        while (xsmi_is_space(*p)) {
            p++;
        }
    }
    s->largest = largest;
    if (!sorted) {
        const size_t named = count;
        XSMI_TRY(sort_row(s, index, values, &count, err));
        spare |= count < named; /* a sum may be zero */
    }
    if (spare) {
        size_t left = 0;
        for (size_t i = 0; i < count; i++) {
            if (values[i] != 0 && index[i] < kept) {
                index[left] = index[i];
                values[left++] = values[i];
            } else {
                r->dropped += values[i] != 0;
            }
        }
        count = left;
    }
    r->entries.count += count;
    return XSM_OK;
}

/* -- the row ------------------------------------------------------------------------------------------------------ */

/* Returns the position of the label behind blanks; `p` if a feature or nothing is there. */
static const char *skip_blanks(const xsmi_sparse *s, const char *p)
{
    const char *label = p;
    while (xsmi_is_space(*label)) {
        label++;
    }
    const char *stop = label;
    while (!ends_token(s, stop) && *stop != ':') {
        stop++;
    }
    return stop == label || *stop == ':' ? p : label;
}

xsm_status xsmi_sparse_read_row(xsmi_sparse *s, const char *text, size_t length, xsm_error *err)
{
    s->line = text;
    s->end = text + length;
    /* A label takes at least two bytes and a feature four, so that the line's length bounds their number. */
    XSMI_TRY(xsmi_reader_reserve(s->r, length / 4 + 1, length / 2 + 1, err));
    const char *p = s->libsvm && length > 0 && xsmi_is_space(*text) ? skip_blanks(s, text) : text;
    if (length > 0 && !xsmi_is_space(*p) && !at_end(s, p)) {
        XSMI_TRY(read_labels(s, &p, err));
    }
    XSMI_TRY(read_features(s, p, err));
    xsmi_reader_end_row(s->r);
    return XSM_OK;
}
