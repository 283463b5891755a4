/*
 * NumPy's .npy files (numpy.org/doc/stable/reference/generated/numpy.lib.format.html), versions 1 to 3: a matrix of
 * floats, one of whose columns may be labels and one weights, and a vector of integers as labels.
 */
#include "base/utf8.h"
#include "base/grow.h"
#include "base/order.h"
#include "read/format.h"
#include "read/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define HEADER_MAX ((size_t)64 << 10)
/* Bytes of a row that are read before memory for more of them is reserved. */
#define PIECE ((size_t)64 << 10)

typedef struct npy {
    const char *name;
    char kind; /* 'f', 'i', 'u' or 'b' */
    unsigned size;
    uint64_t rows, columns; /* columns 1 of a vector */
    unsigned rank;
} npy;

#define FAIL(n, err, ...) FAIL_TEXT(n, err, __VA_ARGS__)
#define FAIL_TEXT(n, err, format, ...) xsmi_fail(err, XSM_ERROR_FORMAT, "%s: " format, (n)->name, __VA_ARGS__)

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* Reads exactly `size` bytes; *got is less at the end. */
static xsm_status read_fully(xsmi_source *s, void *buffer, size_t size, size_t *got, xsm_error *err)
{
    *got = 0;
    while (*got < size) {
        size_t some;
        XSMI_TRY(xsmi_source_read(s, (char *)buffer + *got, size - *got, &some, err));
        if (some == 0) {
            break;
        }
        *got += some;
    }
    return XSM_OK;
}

/* The text behind `'key':` and blanks, NULL if the key is missing. */
static const char *value_of(const char *header, const char *key)
{
    const char *p = strstr(header, key);
    if (!p) {
        return NULL;
    }
    p += strlen(key);
    p += strspn(p, " ");
    if (*p != ':') {
        return NULL;
    }
    p++;
    return p + strspn(p, " ");
}

static xsm_status parse_shape(npy *n, const char *p, xsm_error *err)
{
    uint64_t sizes[3] = {0, 1, 1};
    n->rank = 0;
    if (*p++ != '(') {
        return FAIL(n, err, "%s", "the header's 'shape' is no tuple");
    }
    for (p += strspn(p, " "); *p != ')'; p += strspn(p, " ,")) {
        uint64_t size = 0;
        const char *start = p;
        for (; xsmi_is_digit(*p) && size < UINT64_C(1) << 58; p++) {
            size = size * 10 + (uint64_t)(*p - '0');
        }
        if (p == start || n->rank == 3) {
            return FAIL(n, err, "%s", "the header's 'shape' is not two numbers, or one for labels");
        }
        sizes[n->rank++] = size;
    }
    n->rows = sizes[0];
    n->columns = sizes[1];
    return XSM_OK;
}

static xsm_status parse_header(npy *n, const char *header, xsm_error *err)
{
    const char *type = value_of(header, "'descr'");
    const char *order = value_of(header, "'fortran_order'");
    const char *shape = value_of(header, "'shape'");
    if (!type || !order || !shape || (*type != '\'' && *type != '[')) {
        return FAIL(n, err, "%s", "the header needs 'descr', 'fortran_order' and 'shape'");
    }
    /* strchr() finds the end of the text, too. */
    if (type[0] != '\'' || !type[1] || !strchr("<|", type[1]) || !type[2] || !strchr("fiub", type[2]) ||
        !xsmi_is_digit(type[3]) || type[4] != '\'') {
        char quote[XSMI_QUOTE_SIZE];
        return FAIL(n, err, "numbers of the type %s; little-endian '<f4' and '<f8' are read, and integers as labels",
                    xsmi_quote(quote, type, strcspn(type, ",}")));
    }
    n->kind = type[2];
    n->size = (unsigned)(type[3] - '0');
    XSMI_TRY(parse_shape(n, shape, err));
    if (strncmp(order, "False", 5) != 0 && n->rank > 1) {
        return FAIL(n, err, "%s",
                    "the matrix lies column by column (Fortran order); save numpy.ascontiguousarray() of it");
    }
    return XSM_OK;
}

static xsm_status read_header(xsmi_source *s, npy *n, xsm_error *err)
{
    unsigned char start[12];
    size_t got;
    XSMI_TRY(read_fully(s, start, 10, &got, err));
    if (got < 10 || memcmp(start, MAGIC, 6) != 0) {
        return FAIL(n, err, "%s", "not a NumPy file: it does not begin with \\x93NUMPY");
    }
    if (start[6] < 1 || start[6] > 3) {
        return FAIL(n, err, "version %u of NumPy's format; 1 to 3 are read", start[6]);
    }
    size_t length = start[8] | (size_t)start[9] << 8;
    if (start[6] > 1) {
        XSMI_TRY(read_fully(s, start + 10, 2, &got, err));
        if (got < 2) {
            return FAIL(n, err, "%s", "the file is cut short within its header");
        }
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length > HEADER_MAX) {
        return FAIL(n, err, "a header of %zu bytes; at most %zu are read", length, HEADER_MAX);
    }
    char *header = xsmi_allocate(s->context, length + 1, 1);
    if (!header) {
        return xsmi_fail_memory(err, length + 1, "a file's header");
    }
    xsm_status status = read_fully(s, header, length, &got, err);
    header[got] = '\0';
    if (status == XSM_OK) {
        status =
            got < length ? FAIL(n, err, "%s", "the file is cut short within its header") : parse_header(n, header, err);
    }
    xsmi_release(s->context, header, length + 1, 1);
    return status;
}

static xsm_status check_end(xsmi_source *s, const npy *n, xsm_error *err)
{
    char more;
    size_t got;
    XSMI_TRY(xsmi_source_read(s, &more, 1, &got, err));
    return got == 0 ? XSM_OK : FAIL(n, err, "more bytes than a shape of %llu rows has", (unsigned long long)n->rows);
}

static double number_at(const npy *n, const unsigned char *p)
{
    double d;
    float f;
    if (n->size == 8) {
        memcpy(&d, p, sizeof d);
        return d;
    }
    memcpy(&f, p, sizeof f);
    return (double)f;
}

/* An integer of any type, or a float that is one. */
static bool integer_at(const npy *n, const unsigned char *p, int64_t *out)
{
    uint64_t bits = 0;
    if (n->kind == 'f') {
        double d = number_at(n, p);
        if (!(d >= -9007199254740992.0 && d <= 9007199254740992.0) || d != floor(d)) {
            return false;
        }
        *out = (int64_t)d;
        return true;
    }
    for (unsigned i = 0; i < n->size; i++) {
        bits |= (uint64_t)p[i] << (8 * i);
    }
    unsigned spare = 64 - 8 * n->size;
    if (n->kind == 'i') {
        *out = (int64_t)(bits << spare) >> spare;
        return true;
    }
    *out = (int64_t)bits;
    return bits <= INT64_MAX;
}

static xsm_status add_label(xsmi_reader *r, const npy *n, const unsigned char *p, uint64_t row, xsm_error *err)
{
    int64_t label;
    uint32_t id;
    if (!integer_at(n, p, &label)) {
        return FAIL(n, err, "the label of row %llu (from 0) is no integer of 64 bits", (unsigned long long)row);
    }
    XSMI_TRY(xsmi_dictionary_number(&r->dictionary, label, &id, err));
    xsmi_reader_add_label(r, id);
    return XSM_OK;
}

/* Columns of the matrix that are no features, UINT64_MAX where there is none. */
typedef struct special_columns {
    uint64_t label, weight;
} special_columns;

/* The column that an option names by its number, UINT64_MAX without the option. */
static xsm_status parse_column(const npy *n, const char *text, const char *what, uint64_t *column, xsm_error *err)
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

static xsm_status find_columns(const xsmi_reader *r, const npy *n, special_columns *k, xsm_error *err)
{
    XSMI_TRY(parse_column(n, r->options.label_column, "label", &k->label, err));
    XSMI_TRY(parse_column(n, r->options.weights_column, "weights", &k->weight, err));
    if (r->options.label_column && r->options.labels_path) {
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

static xsm_status set_features(xsmi_reader *r, const npy *n, uint64_t features, xsm_error *err)
{
    bool drops;
    uint32_t wanted = xsmi_reader_features(r, &drops);
    if (features == 0 || features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu columns of features; 1 to %u are supported", n->name,
                         (unsigned long long)features, (unsigned)XSM_FEATURES_MAX);
    }
    if (wanted > 0 && (features < wanted || (features > wanted && !drops))) {
        return FAIL(n, err, "%llu columns of features; %u are expected (%s)", (unsigned long long)features, wanted,
                    drops ? "those of the class map" : "xsm_read_options.features");
    }
    r->features = wanted ? wanted : (uint32_t)features;
    r->stride = xsmi_dataset_stride(r->features);
    return XSM_OK;
}

static xsm_status add_row(xsmi_reader *r, const npy *n, const unsigned char *bytes, const special_columns *k,
                          xsm_error *err)
{
    float *row = r->entries.values + r->entries.count;
    uint32_t next = 0;
    for (uint64_t j = 0; j < n->columns; j++, bytes += n->size) {
        if (j == k->label) {
            XSMI_TRY(add_label(r, n, bytes, r->rows, err));
            continue;
        }
        float value = (float)number_at(n, bytes);
        if (!isfinite(value)) {
            return FAIL(n, err, "row %llu, column %llu (both from 0): expected a finite number within float32",
                        (unsigned long long)r->rows, (unsigned long long)j);
        }
        if (j == k->weight) {
            if (value < 0) {
                return FAIL(n, err, "row %llu, column %llu (both from 0): %g is no weight; 0 or more is accepted",
                            (unsigned long long)r->rows, (unsigned long long)j, (double)value);
            }
            r->weights[r->rows] = value;
        } else if (next < r->features) {
            row[next++] = value;
        } else {
            r->dropped += value != 0;
        }
    }
    memset(row + next, 0, (r->stride - next) * sizeof *row);
    r->entries.count += r->stride;
    return XSM_OK;
}

static xsm_status cut_short(const npy *n, uint64_t row, xsm_error *err)
{
    return FAIL(n, err, "cut short: it ends in row %llu (from 0) of %llu", (unsigned long long)row,
                (unsigned long long)n->rows);
}

/* The bytes of a row, in memory that grows as they come: what the header promises need not be there. */
typedef struct row_bytes {
    unsigned char *data;
    size_t capacity;
} row_bytes;

/* As read_fully(). */
static xsm_status read_row(xsmi_source *s, row_bytes *row, size_t size, size_t *got, xsm_error *err)
{
    *got = 0;
    while (*got < size) {
        const size_t some = XSMI_MIN(size - *got, PIECE);
        size_t more;
        XSMI_TRY(XSMI_GROW(s->context, row->data, row->capacity, *got + some, "bytes of a row", err));
        XSMI_TRY(read_fully(s, row->data + *got, some, &more, err));
        *got += more;
        if (more < some) {
            break;
        }
    }
    return XSM_OK;
}

static xsm_status read_matrix(xsmi_reader *r, const npy *n, const special_columns *k, xsmi_source *labels, const npy *l,
                              xsm_error *err)
{
    const size_t bytes = (size_t)n->columns * n->size;
    row_bytes row = {NULL, 0};
    xsm_status status = XSM_OK;
    for (uint64_t i = 0; i < n->rows && status == XSM_OK; i++) {
        unsigned char label[8];
        size_t got;
        status = read_row(&r->source, &row, bytes, &got, err);
        status = status == XSM_OK && got < bytes ? cut_short(n, i, err) : status;
        status = status == XSM_OK ? xsmi_reader_reserve(r, r->stride, 1, err) : status;
        status = status == XSM_OK ? add_row(r, n, row.data, k, err) : status;
        if (status == XSM_OK && labels) {
            status = read_fully(labels, label, l->size, &got, err);
            status = status == XSM_OK && got < l->size ? cut_short(l, i, err) : status;
            status = status == XSM_OK ? add_label(r, l, label, i, err) : status;
        }
        if (status == XSM_OK) {
            xsmi_reader_end_row(r);
        }
    }
    xsmi_release(r->context, row.data, row.capacity, 1);
    return status == XSM_OK ? check_end(&r->source, n, err) : status;
}

static xsm_status read_npy(xsmi_reader *r, xsm_error *err)
{
    npy n = {.name = r->source.name};
    npy l = {.name = NULL};
    special_columns k;
    XSMI_TRY(read_header(&r->source, &n, err));
    if (n.kind != 'f' || (n.size != 4 && n.size != 8) || n.rank != 2) {
        return FAIL(&n, err, "%u dimensions of '%c%u'; a matrix of '<f4' or '<f8' is read", n.rank, n.kind, n.size);
    }
    if (n.columns > SIZE_MAX / 16) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: %llu columns are more than this process can address", n.name,
                         (unsigned long long)n.columns);
    }
    XSMI_TRY(find_columns(r, &n, &k, err));
    XSMI_TRY(set_features(r, &n, n.columns - (k.label != UINT64_MAX) - (k.weight != UINT64_MAX), err));
    if (!r->options.labels_path) {
        return read_matrix(r, &n, &k, NULL, NULL, err);
    }
    xsmi_source source;
    xsm_status status = xsmi_source_open_file(&source, r->context, r->options.labels_path, err);
    if (status == XSM_OK) {
        l.name = source.name;
        status = read_header(&source, &l, err);
        if (status == XSM_OK && (l.rank < 1 || l.rank > 2 || l.columns != 1 || l.rows != n.rows || l.size < 1 ||
                                 l.size > 8 || (l.kind == 'f' && l.size < 4))) {
            status = FAIL(&l, err, "labels of the shape (%llu, %llu); (%llu,) is needed, a label for each row",
                          (unsigned long long)l.rows, (unsigned long long)l.columns, (unsigned long long)n.rows);
        }
        status = status == XSM_OK ? read_matrix(r, &n, &k, &source, &l, err) : status;
        status = status == XSM_OK ? check_end(&source, &l, err) : status;
    }
    xsmi_source_close(&source);
    return status;
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* Version 1.0: the header is padded so that the numbers begin at a multiple of 64. */
static xsm_status write_header(xsmi_output *o, const char *type, uint64_t rows, uint64_t columns, xsm_error *err)
{
    char text[256];
    memset(text, ' ', sizeof text);
    memcpy(text, MAGIC "\x01\x00", 8);
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
    const size_t length = sizeof MAGIC - 1;
    return memcmp(start, MAGIC, XSMI_MIN(size, length)) != 0 ? XSMI_MATCH_NO
           : size < length                                   ? XSMI_MATCH_OPEN
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
