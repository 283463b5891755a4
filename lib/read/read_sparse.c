/*
 * Extreme Classification text and LIBSVM: lines of rows, each `l1,l2 f:v f:v`.
 *
 * XC: features from 0, labels not negative, a first line of three integers declares rows, features and labels, an
 * empty line is a row of nothing. LIBSVM: features from 0 or 1, any integer label, # starts a comment, lines without
 * anything else are skipped.
 */
#include "read/sparse.h"
#include "read/number.h"
#include "data/text.h"

#include <string.h>

static xsm_status read_header(xsmi_sparse *s, const char *text, xsm_error *err)
{
    static const char *const names[] = {"rows", "features", "labels"};
    uint64_t numbers[3];
    uint64_t most[3] = {INT64_MAX, XSM_FEATURES_MAX, XSM_CLASSES_MAX};
    const char *p = text;
    for (int i = 0; i < 3; i++) {
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

/* The limits set by the caller. */
static void set_limits(xsmi_sparse *s)
{
    bool drops;
    uint32_t wanted = xsmi_reader_features(s->r, &drops);
    s->kept = UINT64_MAX;
    if (wanted == 0) {
        return;
    }
    if (drops) {
        s->kept = wanted;
    } else if (wanted < s->limit) {
        s->limit = wanted;
        s->limit_by = "xsm_read_options.features asks for";
    }
}

static xsm_status read_xc_lines(xsmi_sparse *s, xsm_error *err)
{
    xsmi_reader *r = s->r;
    char *text;
    size_t length;
    XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    uint64_t header_features = 0;
    if (text && xsmi_is_xc_header(text, length)) {
        XSMI_TRY(read_header(s, text, err));
        header_features = s->limit;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
    }
    set_limits(s);
    xsmi_sparse_set_plain(s);
    while (text) {
        s->line_number = r->lines.line;
        if (!s->has_header || r->rows < s->declared_rows) {
            XSMI_TRY(xsmi_sparse_read_row(s, text, length, err));
        } else if (length > 0) { /* empty lines at the end are no rows where the number of rows is known */
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
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    r->features = wanted ? wanted : (uint32_t)(s->has_header ? header_features : s->largest);
    return XSM_OK;
}

/* Converts indexes of the file to indexes from 0, and drops those beyond D. */
static void apply_base(xsmi_sparse *s, uint32_t base, uint64_t kept)
{
    xsmi_reader *r = s->r;
    size_t next = 0;
    size_t start = 0;
    for (uint64_t i = 0; i < r->rows; i++) {
        size_t end = (size_t)r->offsets[i + 1];
        for (size_t j = start; j < end; j++) {
            uint32_t feature = r->index[j] - base;
            if (feature < kept) {
                r->index[next] = feature;
                r->values[next++] = r->values[j];
            } else {
                r->dropped++;
            }
        }
        xsmi_reader_passed(r, (end - start) * 8 + 8);
        start = end;
        r->offsets[i + 1] = next;
    }
    r->value_count = next;
}

static xsm_status read_libsvm_lines(xsmi_sparse *s, xsm_error *err)
{
    xsmi_reader *r = s->r;
    set_limits(s);
    s->base_open = r->options.index_base == XSM_INDEX_BASE_AUTO;
    s->base = r->options.index_base == XSM_INDEX_BASE_ONE;
    xsmi_sparse_set_plain(s);
    bool late = s->base_open;
    uint64_t kept = s->kept;
    if (late) {
        s->kept = UINT64_MAX; /* known when the base is known */
    }
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
        if (blank < length && text[blank] != '#') {
            XSMI_TRY(xsmi_sparse_read_row(s, text, length, err));
        }
    }
    uint32_t base = late && s->base_open && s->largest > 0 ? 1 : 0;
    if (base > 0 || (late && kept != UINT64_MAX)) {
        apply_base(s, base, kept);
    }
    if (late && base > 0) {
        xsmi_log(r->context, XSM_LOG_INFO,
                 "%s: no feature has the index 0, so the first one was taken to be 1; set "
                 "xsm_read_options.index_base if that is wrong",
                 r->source.name);
    }
    r->index_base = !late          ? r->options.index_base
                    : base > 0     ? XSM_INDEX_BASE_ONE
                    : s->base_open ? XSM_INDEX_BASE_AUTO /* no feature shows it */
                                   : XSM_INDEX_BASE_ZERO;
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    r->features = wanted ? wanted : (uint32_t)(s->largest - base);
    return XSM_OK;
}

static xsm_status read_sparse(xsmi_reader *r, bool libsvm, xsm_error *err)
{
    xsmi_sparse s;
    memset(&s, 0, sizeof s);
    s.r = r;
    s.libsvm = libsvm;
    s.limit = XSM_FEATURES_MAX;
    r->index_base = XSM_INDEX_BASE_ZERO;
    xsm_status status = libsvm ? read_libsvm_lines(&s, err) : read_xc_lines(&s, err);
    xsmi_release(r->context, s.keys, s.key_capacity, sizeof *s.keys);
    xsmi_release(r->context, s.scratch, s.scratch_capacity, sizeof *s.scratch);
    return status;
}

xsm_status xsmi_read_xc(xsmi_reader *r, xsm_error *err)
{
    return read_sparse(r, false, err);
}

xsm_status xsmi_read_libsvm(xsmi_reader *r, xsm_error *err)
{
    return read_sparse(r, true, err);
}
