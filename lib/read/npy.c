/*
 * NumPy's .npy files: a matrix of numbers, one of whose columns may be labels and one weights. Labels may be in a file
 * of their own.
 */
#include "base/grow.h"
#include "base/order.h"
#include "base/utf8.h"
#include "read/columns.h"
#include "read/format.h"
#include "read/npy_array.h"
#include "read/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a row that are read before memory for more of them is reserved. */
#define PIECE ((size_t)64 << 10)

/* -- reading ------------------------------------------------------------------------------------------------------- */

static xsm_status add_label(xsmi_reader *r, const xsmi_npy *n, const unsigned char *p, uint64_t row, xsm_error *err)
{
    int64_t label;
    uint32_t id;
    if (!xsmi_npy_integer(n, p, &label)) {
        return XSMI_NPY_FAIL(n, err, "the label of row %llu (from 0) is no integer of 64 bits",
                             (unsigned long long)row);
    }
    XSMI_TRY(xsmi_dictionary_number(&r->dictionary, label, &id, err));
    xsmi_reader_add_label(r, id);
    return XSM_OK;
}

/* Columns of the matrix that are no features, UINT64_MAX where there is none. */
typedef struct special_columns {
    uint64_t label, weight;
} special_columns;

/* Parses the column that an option names by its number; UINT64_MAX without the option. */
static xsm_status parse_column(const xsmi_npy *n, const char *text, const char *what, uint64_t *column, xsm_error *err)
{
    *column = UINT64_MAX;
    if (!text) {
        return XSM_OK;
    }
    bool negative = text[0] == '-';
    uint64_t number = 0;
    const char *digits = text + negative;
    const char *p = digits;
    for (; xsmi_is_digit(*p) && number < XSM_FEATURES_MAX; p++) {
        number = number * 10 + (uint64_t)(*p - '0');
    }
    if (p == digits || *p != '\0' || (negative ? number < 1 || number > n->columns : number >= n->columns)) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%s: the %s column is %s; of a NumPy file it is a number from 0 to %llu, or from -1 down to "
                         "-%llu, counted from the end",
                         n->name, what, xsmi_quote(quote, text, strlen(text)), (unsigned long long)n->columns - 1,
                         (unsigned long long)n->columns);
    }
    *column = negative ? n->columns - number : number;
    return XSM_OK;
}

/* Finds a column of the class map's table, if the option is a number; the matrix may lack it. */
static xsm_status find_column(const xsmi_reader *r, const xsmi_npy *n, const char *text, bool label, uint64_t *column,
                              xsm_error *err)
{
    int64_t number;
    if (!xsmi_reader_recalled(r, label ? XSM_RECALLED_LABEL_COLUMN : XSM_RECALLED_WEIGHTS_COLUMN)) {
        return parse_column(n, text, label ? "label" : "weights", column, err);
    }
    const size_t found = xsmi_columns_is_whole(text, strlen(text), &number) && !(label && r->options.labels_path)
                             ? xsmi_columns_place(r, (size_t)n->columns, number, label)
                             : SIZE_MAX;
    *column = found == SIZE_MAX ? UINT64_MAX : found;
    return XSM_OK;
}

static xsm_status find_columns(xsmi_reader *r, const xsmi_npy *n, special_columns *k, xsm_error *err)
{
    r->options.ignore_columns = NULL; /* an option of tables only */
    XSMI_TRY(find_column(r, n, r->options.label_column, true, &k->label, err));
    XSMI_TRY(find_column(r, n, r->options.weights_column, false, &k->weight, err));
    if (k->weight == UINT64_MAX || r->options.weights_path) {
        xsmi_reader_forget_weights(r);
    }
    if (k->label != UINT64_MAX && r->options.labels_path) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: labels are in the column %s or in a file of their own; one of them is accepted", n->name,
                         r->options.label_column);
    }
    if (k->weight != UINT64_MAX && k->weight == k->label) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s: the column %s is that of the labels; another is accepted as "
                         "xsm_read_options.weights_column",
                         n->name, r->options.weights_column);
    }
    return XSM_OK;
}

static xsm_status set_features(xsmi_reader *r, const xsmi_npy *n, uint64_t features, xsm_error *err)
{
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    wanted = wanted == 0 && r->has_map ? r->map.features : wanted; /* columns have no names */
    if (features == 0 || features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu columns of features; 1 to %u are supported", n->name,
                         (unsigned long long)features, (unsigned)XSM_FEATURES_MAX);
    }
    if (wanted > 0 && features != wanted) {
        return XSMI_NPY_FAIL(n, err, "%llu columns of features; %u are expected (%s)", (unsigned long long)features,
                             wanted, r->options.features == 0 ? "those of the class map" : "xsm_read_options.features");
    }
    r->features = wanted ? wanted : (uint32_t)features;
    r->stride = xsmi_dataset_stride(r->features);
    return XSM_OK;
}

static xsm_status add_row(xsmi_reader *r, const xsmi_npy *n, const unsigned char *bytes, const special_columns *k,
                          xsm_error *err)
{
    float *row = r->entries.values + r->entries.count;
    uint32_t next = 0;
    XSMI_TRY(r->rows == 0 ? xsmi_rounding_expect(&r->rounding, r->features, err) : XSM_OK);
    /* The numbers have more bits than float32, and those of some column may be too close together. */
    const bool wide = n->size > (n->kind == 'f' ? sizeof(float) : 2) && r->rounding.open > 0;
    for (uint64_t j = 0; j < n->columns; j++, bytes += n->size) {
        if (j == k->label) {
            XSMI_TRY(add_label(r, n, bytes, r->rows, err));
            continue;
        }
        const double number = xsmi_npy_number(n, bytes);
        const float value = (float)number;
        if (!isfinite(value)) {
            return XSMI_NPY_FAIL(n, err, "row %llu, column %llu (both from 0): expected a finite number within float32",
                                 (unsigned long long)r->rows, (unsigned long long)j);
        }
        if (j == k->weight) {
            if (value < 0) {
                return XSMI_NPY_FAIL(n, err,
                                     "row %llu, column %llu (both from 0): %g is no weight; 0 or more is accepted",
                                     (unsigned long long)r->rows, (unsigned long long)j, (double)value);
            }
            if (r->weights) {
                r->weights[r->rows] = value;
            }
        } else if (next < r->features) {
            if ((value == 0 && number != 0) || (wide && xsmi_rounding_wants(&r->rounding, next))) {
                XSMI_TRY(xsmi_rounding_number(&r->rounding, next, number, err));
            }
            row[next++] = value;
        } else {
            r->dropped += value != 0;
        }
    }
    memset(row + next, 0, (r->stride - next) * sizeof *row);
    r->entries.count += r->stride;
    return XSM_OK;
}

/* The bytes of a row, in memory that grows while they are read, because a file may have fewer than its header says. */
typedef struct row_bytes {
    unsigned char *data;
    size_t capacity;
} row_bytes;

/* As xsmi_npy_read(), for a row of `size` bytes. */
static xsm_status read_row(xsmi_source *s, row_bytes *row, size_t size, size_t *got, xsm_error *err)
{
    *got = 0;
    while (*got < size) {
        const size_t some = XSMI_MIN(size - *got, PIECE);
        size_t more;
        XSMI_TRY(XSMI_GROW(s->context, row->data, row->capacity, *got + some, "bytes of a row", err));
        XSMI_TRY(xsmi_npy_read(s, row->data + *got, some, &more, err));
        *got += more;
        if (more < some) {
            break;
        }
    }
    return XSM_OK;
}

static xsm_status read_rows(xsmi_reader *r, const xsmi_npy *n, const special_columns *k, xsm_error *err)
{
    const size_t bytes = (size_t)n->columns * n->size;
    row_bytes row = {NULL, 0};
    xsm_status status = XSM_OK;
    for (uint64_t i = 0; i < n->rows && status == XSM_OK; i++) {
        size_t got;
        status = read_row(&r->source, &row, bytes, &got, err);
        status = status == XSM_OK && got < bytes ? xsmi_npy_cut_short(n, i, err) : status;
        status = status == XSM_OK ? xsmi_reader_reserve(r, r->stride, 1, err) : status;
        status = status == XSM_OK ? add_row(r, n, row.data, k, err) : status;
        if (status == XSM_OK) {
            xsmi_reader_end_row(r);
        }
    }
    xsmi_release(r->context, row.data, row.capacity, 1);
    return status == XSM_OK ? xsmi_npy_check_end(&r->source, n, err) : status;
}

static xsm_status check_matrix(const xsmi_npy *n, xsm_error *err)
{
    if (n->kind == 'U' || n->kind == 'S' || n->rank != 2) {
        return XSMI_NPY_FAIL(n, err, "%u dimensions of %s; a matrix of numbers is read: save array.reshape(rows, -1)",
                             n->rank, n->kind == 'U' || n->kind == 'S' ? "text" : "numbers");
    }
    if (n->columns_first) {
        return XSMI_NPY_FAIL(n, err, "%s",
                             "the matrix lies column by column (Fortran order); save numpy.ascontiguousarray(array)");
    }
    return n->columns <= SIZE_MAX / 16
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu columns are more than this process can address", n->name,
                           (unsigned long long)n->columns);
}

static xsm_status read_npy(xsmi_reader *r, xsm_error *err)
{
    xsmi_npy n = {.name = r->source.name};
    special_columns k;
    XSMI_TRY(xsmi_npy_read_header(&r->source, &n, err));
    XSMI_TRY(check_matrix(&n, err));
    XSMI_TRY(find_columns(r, &n, &k, err));
    XSMI_TRY(set_features(r, &n, n.columns - (k.label != UINT64_MAX) - (k.weight != UINT64_MAX), err));
    return read_rows(r, &n, &k, err);
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* Writes a header of version 1.0, padded so that the numbers begin at a multiple of 64. */
static xsm_status write_header(xsmi_output *o, const char *type, uint64_t rows, uint64_t columns, xsm_error *err)
{
    char text[256];
    memset(text, ' ', sizeof text);
    memcpy(text, XSMI_NPY_MAGIC "\x01\x00", 8);
    char shape[64];
    snprintf(shape, sizeof shape, columns ? "%llu, %llu" : "%llu,", (unsigned long long)rows,
             (unsigned long long)columns);
    int used =
        snprintf(text + 10, sizeof text - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    size_t end = 10 + (size_t)used;
    text[end] = ' ';
    size_t total = (end + 1 + 63) / 64 * 64;
    text[total - 1] = '\n';
    text[8] = (char)((total - 10) & 0xFF);
    text[9] = (char)((total - 10) >> 8);
    return xsmi_output_bytes(o, text, total, err);
}

static xsm_status write_npy(xsmi_output *o, xsm_error *err)
{
    static const float zeros[1024];
    const xsm_dataset *d = o->d;
    XSMI_TRY(write_header(o, "<f4", d->rows, d->features, err));
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features f = xsmi_dataset_features(d, i);
        uint32_t column = 0;
        for (size_t j = 0; j < f.count && f.index; j++) {
            for (uint32_t left = f.index[j] - column; left > 0;) {
                uint32_t some = XSMI_MIN(left, 1024);
                XSMI_TRY(xsmi_output_bytes(o, zeros, some * sizeof *zeros, err));
                left -= some;
            }
            XSMI_TRY(xsmi_output_bytes(o, &f.values[j], sizeof *f.values, err));
            column = f.index[j] + 1;
        }
        if (!f.index) {
            XSMI_TRY(xsmi_output_bytes(o, f.values, f.count * sizeof *f.values, err));
            column = d->features;
        }
        for (uint32_t left = d->features - column; left > 0;) {
            uint32_t some = XSMI_MIN(left, 1024);
            XSMI_TRY(xsmi_output_bytes(o, zeros, some * sizeof *zeros, err));
            left -= some;
        }
        xsmi_output_passed(o, i);
    }
    return XSM_OK;
}

static xsm_status write_labels(xsmi_output *o, xsm_error *err)
{
    XSMI_TRY(write_header(o, "<i8", o->d->rows, 0, err));
    for (uint64_t i = 0; i < o->d->rows; i++) {
        int64_t label = xsmi_output_label(o, o->d->labels[o->d->label_offsets[i]]);
        XSMI_TRY(xsmi_output_bytes(o, &label, sizeof label, err));
    }
    return XSM_OK;
}

static xsmi_match begins(const unsigned char *start, size_t size)
{
    const size_t length = sizeof XSMI_NPY_MAGIC - 1;
    return memcmp(start, XSMI_NPY_MAGIC, XSMI_MIN(size, length)) != 0 ? XSMI_MATCH_NO
           : size < length                                            ? XSMI_MATCH_OPEN
                                                                      : XSMI_MATCH_SURE;
}

const xsmi_format xsmi_npy_format = {
    .id = XSM_FORMAT_NPY,
    .name = "NPY",
    .accepts = XSMI_ACCEPTS_COLUMNS | XSMI_ACCEPTS_LABELS_PATH,
    .single = true,
    .begins = begins,
    .read = read_npy,
    .write = write_npy,
    .write_labels = write_labels,
};
