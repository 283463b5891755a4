/* Extreme Classification text, LIBSVM, CSV and TSV, written. */
#include "read/write.h"

#include <string.h>

static xsm_status write_char(xsmi_output *o, char c, xsm_error *err)
{
    return xsmi_output_bytes(o, &c, 1, err);
}

/* -- sparse -------------------------------------------------------------------------------------------------------- */

static xsm_status write_header(xsmi_output *o, xsm_error *err)
{
    const xsm_dataset *d = o->d;
    int64_t largest = d->classes > 0 ? xsmi_output_label(o, d->classes - 1) : -1;
    if (d->classes > 0 && (xsmi_output_label(o, 0) < 0 || largest >= (int64_t)XSM_CLASSES_MAX)) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED, "the label %lld; Extreme Classification text has labels from 0 to %u",
            (long long)(largest < (int64_t)XSM_CLASSES_MAX ? xsmi_output_label(o, 0) : largest), XSM_CLASSES_MAX - 1);
    }
    XSMI_TRY(xsmi_output_integer(o, (int64_t)d->rows, err));
    XSMI_TRY(write_char(o, ' ', err));
    XSMI_TRY(xsmi_output_integer(o, d->features, err));
    XSMI_TRY(write_char(o, ' ', err));
    XSMI_TRY(xsmi_output_integer(o, largest + 1, err));
    return write_char(o, '\n', err);
}

static xsm_status write_row(xsmi_output *o, uint64_t row, uint32_t base, xsm_error *err)
{
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(o->d, row, &count);
    for (size_t j = 0; j < count; j++) {
        if (j > 0) {
            XSMI_TRY(write_char(o, ',', err));
        }
        XSMI_TRY(xsmi_output_integer(o, xsmi_output_label(o, labels[j]), err));
    }
    bool first = count == 0;
    xsmi_features f = xsmi_dataset_features(o->d, row);
    for (size_t j = 0; j < f.count; j++) {
        if (f.values[j] != 0) {
            if (!first) {
                XSMI_TRY(write_char(o, ' ', err));
            }
            first = false;
            XSMI_TRY(xsmi_output_integer(o, (int64_t)(f.index ? f.index[j] : j) + base, err));
            XSMI_TRY(write_char(o, ':', err));
            XSMI_TRY(xsmi_output_float(o, f.values[j], err));
        }
    }
    return write_char(o, '\n', err);
}

xsm_status xsmi_write_sparse(xsmi_output *o, bool libsvm, xsm_error *err)
{
    uint32_t base = libsvm && o->options->index_base != XSM_INDEX_BASE_ZERO;
    if (!libsvm) {
        XSMI_TRY(write_header(o, err));
    }
    for (uint64_t i = 0; i < o->d->rows; i++) {
        if (libsvm && o->d->label_offsets[i + 1] == o->d->label_offsets[i] && xsmi_dataset_row_is_empty(o->d, i)) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "row %llu (from 0) has no label and no feature; LIBSVM has no line for it (see "
                             "xsm_dataset_drop())",
                             (unsigned long long)i);
        }
        XSMI_TRY(write_row(o, i, base, err));
        xsmi_dataset_passed(o->d, i, 1);
    }
    return XSM_OK;
}

/* -- dense --------------------------------------------------------------------------------------------------------- */

/* A field of text, in quotes where it needs them, and where it would be another field without: a name of blanks. */
static xsm_status write_field(xsmi_output *o, const char *text, char separator, xsm_error *err)
{
    char special[] = {'"', '\n', '\r', separator, '\0'};
    if (!strpbrk(text, special)) {
        return xsmi_output_bytes(o, text, strlen(text), err);
    }
    XSMI_TRY(write_char(o, '"', err));
    for (const char *p = text; *p; p++) {
        XSMI_TRY(*p == '"' ? xsmi_output_bytes(o, "\"\"", 2, err) : write_char(o, *p, err));
    }
    return write_char(o, '"', err);
}

/* Columns f0, f1, ...; the label column is the last, so its name must be no other. */
static xsm_status write_columns(xsmi_output *o, char separator, xsm_error *err)
{
    const char *label = o->options->label_column;
    if (label[0] == 'f' && label[1] != '\0' && label[1 + strspn(label + 1, "0123456789")] == '\0') {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_write_options.label_column is '%.40s', which is how columns of features are called",
                         label);
    }
    for (uint32_t j = 0; j < o->d->features; j++) {
        XSMI_TRY(write_char(o, 'f', err));
        XSMI_TRY(xsmi_output_integer(o, j, err));
        XSMI_TRY(write_char(o, separator, err));
    }
    XSMI_TRY(write_field(o, label, separator, err));
    return write_char(o, '\n', err);
}

xsm_status xsmi_write_dense(xsmi_output *o, char separator, xsm_error *err)
{
    const xsm_dataset *d = o->d;
    XSMI_TRY(write_columns(o, separator, err));
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features f = xsmi_dataset_features(d, i);
        size_t next = 0;
        for (uint32_t j = 0; j < d->features; j++) {
            bool there = !f.index || (next < f.count && f.index[next] == j);
            XSMI_TRY(xsmi_output_float(o, there ? f.values[next] : 0.0f, err));
            XSMI_TRY(write_char(o, separator, err));
            next += there;
        }
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(d, i, &count);
        if (count > 0 && d->class_names) {
            XSMI_TRY(write_field(o, d->class_names[labels[0]], separator, err));
        } else if (count > 0) {
            XSMI_TRY(xsmi_output_integer(o, xsmi_output_label(o, labels[0]), err));
        }
        XSMI_TRY(write_char(o, '\n', err));
        xsmi_dataset_passed(d, i, 1);
    }
    return XSM_OK;
}
