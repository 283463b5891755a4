/* Sparse rows from a NumPy archive: a matrix of SciPy, whose labels are in another file. */
#include "data/schema.h"
#include "read/csr.h"
#include "read/entry_sort.h"
#include "read/foreign.h"
#include "read/format.h"
#include "read/label_file.h"

#include <math.h>
#include <string.h>

static xsm_status fail(const xsmi_reader *r, uint32_t column, const char *what, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: row %llu, column %u (both from 0): %s", r->source.name,
                     (unsigned long long)r->rows, column, what);
}

static bool rises(const uint32_t *index, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (index[i] <= index[i - 1]) {
            return false;
        }
    }
    return true;
}

/* Sorts a row, and adds the values of features that it has twice, if that is allowed. */
static xsm_status mend(xsmi_reader *r, xsmi_entry_sort *sort, uint32_t *index, float *values, size_t *count,
                       xsm_error *err)
{
    XSMI_TRY(xsmi_sort_entries(r->context, sort, index, values, *count, err));
    for (size_t i = 1; i < *count && r->options.duplicates != XSM_DUPLICATES_SUM; i++) {
        if (index[i] == index[i - 1]) {
            return fail(r, index[i],
                        "a second value; one is accepted (xsm_read_options.duplicates = XSM_DUPLICATES_SUM adds them)",
                        err);
        }
    }
    *count = xsmi_add_duplicates(index, values, *count);
    for (size_t i = 0; i < *count; i++) {
        if (!isfinite(values[i])) {
            return fail(r, index[i], "the values have a sum beyond float32", err);
        }
    }
    return XSM_OK;
}

/* Appends a row without its zeros and its features from `kept` on. */
static xsm_status add_row(xsmi_reader *r, const uint32_t *index, const float *values, size_t count, uint64_t kept,
                          xsm_error *err)
{
    XSMI_TRY(xsmi_reader_reserve(r, count, 0, err));
    for (size_t i = 0; i < count; i++) {
        if (values[i] != 0 && index[i] < kept) {
            r->entries.index[r->entries.count] = index[i];
            r->entries.values[r->entries.count++] = values[i];
        } else {
            r->dropped += values[i] != 0;
        }
    }
    xsmi_reader_end_row(r);
    return XSM_OK;
}

static xsm_status add_rows(xsmi_reader *r, const xsmi_csr *m, uint64_t kept, xsm_error *err)
{
    xsmi_entry_sort sort = {.keys = NULL};
    xsm_status status = XSM_OK;
    for (uint64_t i = 0; i < m->rows && status == XSM_OK; i++) {
        uint32_t *index = m->index + m->offsets[i];
        float *values = m->values + m->offsets[i];
        size_t count = (size_t)(m->offsets[i + 1] - m->offsets[i]);
        status = rises(index, count) ? XSM_OK : mend(r, &sort, index, values, &count, err);
        status = status == XSM_OK ? add_row(r, index, values, count, kept, err) : status;
    }
    xsmi_entry_sort_end(r->context, &sort);
    return status;
}

static xsm_status set_features(xsmi_reader *r, const xsmi_csr *m, uint64_t *kept, xsm_error *err)
{
    bool drops;
    const uint32_t wanted = xsmi_reader_features(r, &drops);
    if (m->columns == 0 || m->columns > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu columns; 1 to %u are supported", r->source.name,
                         (unsigned long long)m->columns, (unsigned)XSM_FEATURES_MAX);
    }
    if (wanted > 0 && m->columns > wanted && !drops) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %llu columns; %u are expected (xsm_read_options.features)",
                         r->source.name, (unsigned long long)m->columns, wanted);
    }
    if (wanted > 0 && m->columns != wanted && drops) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: %llu columns; %u are expected (those of the class map)",
                         r->source.name, (unsigned long long)m->columns, wanted);
    }
    r->features = wanted ? wanted : (uint32_t)m->columns;
    *kept = r->features;
    return XSM_OK;
}

static xsm_status read_npz(xsmi_reader *r, xsm_error *err)
{
    xsmi_csr m;
    uint64_t kept = 0;
    xsm_status status = xsmi_csr_read(&r->source, &m, err);
    /* A matrix does not say from which base its columns count: column 0 is the first feature, as in a dense matrix. */
    const bool first = r->has_map && r->map.features == m.columns && r->map.index_base != XSM_INDEX_BASE_AUTO;
    const int32_t base = first ? r->map.index_base : XSM_INDEX_BASE_ZERO;
    status = status == XSM_OK ? xsmi_schema_of_numbers(r->context, base, &r->schema, err) : status;
    status = status == XSM_OK ? set_features(r, &m, &kept, err) : status;
    status = status == XSM_OK ? add_rows(r, &m, kept, err) : status;
    if (!r->rounding.off) {
        r->rounding = m.rounding;
        m.rounding.columns = NULL;
        m.rounding.capacity = 0;
    }
    xsmi_csr_end(&m);
    return status;
}

static xsmi_match begins(const unsigned char *start, size_t size)
{
    return xsmi_is_npz(start, size)                           ? XSMI_MATCH_SURE
           : memcmp(start, "PK\x03\x04", size < 4 ? size : 4) ? XSMI_MATCH_NO
                                                              : XSMI_MATCH_OPEN;
}

const xsmi_format xsmi_npz_format = {
    .id = XSM_FORMAT_NPZ,
    .name = "NPZ",
    .accepts = XSMI_ACCEPTS_LABELS_PATH | XSMI_ACCEPTS_LABEL_WEIGHTS | XSMI_ACCEPTS_DUPLICATES,
    .sparse = true,
    .begins = begins,
    .read = read_npz,
};
