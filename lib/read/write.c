/* Writing datasets to files: checks, buffered output, labels and names. The formats themselves are in write_text.c and
 * npy.c, caches in cache.c. */
#include "read/write.h"
#include "read/cache.h"
#include "read/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIRST_OPTIONS_SIZE (offsetof(xsm_write_options, names_path) + sizeof(const char *))

static xsm_status flush(xsmi_output *o, xsm_error *err)
{
    size_t used = o->used;
    o->used = 0;
    return used > 0 ? xsmi_replace_write(o->file, o->buffer, used, err) : XSM_OK;
}

xsm_status xsmi_output_bytes(xsmi_output *o, const void *data, size_t size, xsm_error *err)
{
    if (size > XSMI_WRITE_BUFFER - o->used) {
        XSMI_TRY(flush(o, err));
        if (size > XSMI_WRITE_BUFFER) {
            return xsmi_replace_write(o->file, data, size, err);
        }
    }
    if (size > 0) {
        memcpy(o->buffer + o->used, data, size);
    }
    o->used += size;
    return XSM_OK;
}

xsm_status xsmi_output_integer(xsmi_output *o, int64_t value, xsm_error *err)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, value);
    return xsmi_output_bytes(o, text, (size_t)length, err);
}

/* `digits` significant digits of value as [-]d.ddde[-]x without trailing zeros, with a point in every locale. */
static size_t print(char *out, float value, int digits)
{
    char text[64];
    char *p = out;
    snprintf(text, sizeof text, "%.*e", digits - 1, (double)value);
    const char *exponent = strchr(text, 'e');
    char *last = out;
    size_t count = 0;
    for (const char *c = text; c < exponent; c++) {
        if (*c == '-') {
            *p++ = '-';
        } else if (xsmi_is_digit(*c)) {
            if (count++ == 1) {
                *p++ = '.';
            }
            *p++ = *c;
            last = *c != '0' || count == 1 ? p : last;
        }
    }
    p = last;
    int x = 0;
    for (const char *c = exponent + 2; *c; c++) {
        x = x * 10 + (*c - '0');
    }
    if (x > 0) {
        p += snprintf(p, 8, "e%s%d", exponent[1] == '-' ? "-" : "", x);
    }
    return (size_t)(p - out);
}

xsm_status xsmi_output_float(xsmi_output *o, float value, xsm_error *err)
{
    char text[64];
    if (value == (float)(int32_t)(value < 1e6f && value > -1e6f ? value : 0.5f)) {
        return xsmi_output_integer(o, (int32_t)value, err); /* most values of many files, zeros too */
    }
    size_t length = 0;
    for (int digits = 6; digits <= 9; digits++) {
        length = print(text, value, digits);
        text[length] = '\n'; /* not part of a number */
        const char *end;
        float back = 0;
        if (xsmi_parse_float(text, &end, &back) == XSMI_NUMBER_OK && back == value) {
            break;
        }
    }
    return xsmi_output_bytes(o, text, length, err);
}

/* -- one file ------------------------------------------------------------------------------------------------------ */

typedef xsm_status (*writer)(xsmi_output *o, xsm_error *err);

static xsm_status write_xc(xsmi_output *o, xsm_error *err)
{
    return xsmi_write_sparse(o, false, err);
}

static xsm_status write_libsvm(xsmi_output *o, xsm_error *err)
{
    return xsmi_write_sparse(o, true, err);
}

static xsm_status write_csv(xsmi_output *o, xsm_error *err)
{
    return xsmi_write_dense(o, ',', err);
}

static xsm_status write_tsv(xsmi_output *o, xsm_error *err)
{
    return xsmi_write_dense(o, '\t', err);
}

/* Line i is the name of label i, which is class i. */
static xsm_status write_names(xsmi_output *o, xsm_error *err)
{
    for (uint32_t k = 0; k < o->d->classes; k++) {
        const char *name = o->d->class_names[k];
        if (*name == '\0' || strpbrk(name, "\n\r")) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "the name of class %u is empty or has a line end in it; a file of names has a name a line",
                             k);
        }
        XSMI_TRY(xsmi_output_bytes(o, name, strlen(name), err));
        XSMI_TRY(xsmi_output_bytes(o, "\n", 1, err));
    }
    return XSM_OK;
}

/* Writes beside `path`; the file does not replace `path` yet. */
static xsm_status begin(xsmi_output *o, const char *path, writer write, xsmi_replace **file, xsm_error *err)
{
    *file = NULL;
    if (!path) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_replace_open(o->d->context, path, &o->file, err));
    *file = o->file;
    o->used = 0;
    XSMI_TRY(write(o, err));
    return flush(o, err);
}

static xsm_status commit(xsmi_replace **file, xsm_error *err)
{
    xsmi_replace *taken = *file;
    *file = NULL; /* released whatever the result */
    return taken ? xsmi_replace_commit(taken, err) : XSM_OK;
}

/* All files are complete before the first replaces its target. */
static xsm_status write_files(xsmi_output *o, const char *path, writer write, const char *labels, const char *names,
                              xsm_error *err)
{
    xsmi_replace *files[3] = {NULL, NULL, NULL};
    xsm_status status = begin(o, path, write, &files[0], err);
    status = status == XSM_OK ? begin(o, labels, xsmi_write_npy_labels, &files[1], err) : status;
    status = status == XSM_OK ? begin(o, names, write_names, &files[2], err) : status;
    for (size_t i = 0; i < 3 && status == XSM_OK; i++) {
        status = commit(&files[i], err);
    }
    for (size_t i = 0; i < 3; i++) {
        xsmi_replace_abandon(files[i]);
    }
    return status;
}

/* -- checks -------------------------------------------------------------------------------------------------------- */

static xsm_status check(const xsm_dataset *d, const xsm_write_options *o, xsm_error *err)
{
    if (o->format <= XSM_FORMAT_AUTO || o->format > XSM_FORMAT_CACHE) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_write_options.format is %d; an XSM_FORMAT_* value (1 to %d) is accepted", (int)o->format,
                         XSM_FORMAT_CACHE);
    }
    if (o->format == XSM_FORMAT_TEXT) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "text cannot be written: its words and their order are gone; any other format is accepted");
    }
    if (o->index_base < XSM_INDEX_BASE_AUTO || o->index_base > XSM_INDEX_BASE_ONE) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_write_options.index_base is %d; an XSM_INDEX_BASE_* value (0 to %d) is accepted",
                         (int)o->index_base, XSM_INDEX_BASE_ONE);
    }
    bool cache = o->format == XSM_FORMAT_CACHE;
    bool columns = o->format == XSM_FORMAT_CSV || o->format == XSM_FORMAT_TSV;
    if (o->index_base != XSM_INDEX_BASE_AUTO && o->format != XSM_FORMAT_LIBSVM) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.index_base is for XSM_FORMAT_LIBSVM alone");
    }
    if (o->label_column && !columns) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.label_column is for XSM_FORMAT_CSV and TSV alone");
    }
    if (o->labels_path && o->format != XSM_FORMAT_NPY) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.labels_path is for XSM_FORMAT_NPY alone");
    }
    if (o->names_path && (cache || columns)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_write_options.names_path: CSV, TSV and caches have the names in themselves");
    }
    if (o->names_path && !d->class_names) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.names_path: the classes have no names");
    }
    if (cache) {
        return XSM_OK;
    }
    if (d->class_names && !o->names_path && !columns) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the classes have names, and this format has numbers; set xsm_write_options.names_path, or "
                         "write CSV, TSV or a cache");
    }
    if (d->unseen_labels > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%llu labels are not in the class map, so what the file called them is not known; only a "
                         "cache can hold them",
                         (unsigned long long)d->unseen_labels);
    }
    if (columns || o->format == XSM_FORMAT_NPY) {
        for (uint64_t i = 0; i < d->rows; i++) {
            uint64_t count = d->label_offsets[i + 1] - d->label_offsets[i];
            if (count > 1) {
                return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                 "row %llu (from 0) has %llu labels; this format holds one (see "
                                 "xsm_dataset_keep_labels())",
                                 (unsigned long long)i, (unsigned long long)count);
            }
            if (count == 0 && d->label_total > 0 && !columns) {
                return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                 "row %llu (from 0) has no label and others have; NPY holds a label for each row, or "
                                 "none",
                                 (unsigned long long)i);
            }
        }
    }
    if (o->format == XSM_FORMAT_NPY && (d->label_total > 0) != (o->labels_path != NULL)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         o->labels_path ? "no row has a label for the file of labels (xsm_write_options.labels_path)"
                                        : "labels go to a file of their own (xsm_write_options.labels_path)");
    }
    if (d->features == 0 && o->format != XSM_FORMAT_CACHE) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "the rows have no features; only a cache can hold them");
    }
    return XSM_OK;
}

xsm_status xsm_dataset_write(const xsm_dataset *d, const char *path, const xsm_write_options *options, xsm_error *err)
{
    if (!d || !path || !options) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_write: %s is NULL",
                         !d     ? "dataset"
                         : path ? "options"
                                : "path");
    }
    xsm_write_options o = XSM_WRITE_OPTIONS_INIT;
    XSMI_TRY(xsmi_options_read(&o, sizeof o, FIRST_OPTIONS_SIZE, options, "xsm_write_options", err));
    XSMI_TRY(check(d, &o, err));
    o.label_column = o.label_column ? o.label_column : "label";
    if (o.format == XSM_FORMAT_CACHE) {
        return xsmi_cache_write(d, path, err);
    }
    static const writer writers[] = {NULL, write_xc, write_libsvm, write_csv, write_tsv, NULL, xsmi_write_npy};
    xsmi_output output = {.d = d, .options = &o, .numbers = o.names_path != NULL};
    output.buffer = xsmi_allocate(d->context, XSMI_WRITE_BUFFER, 1);
    if (!output.buffer) {
        return xsmi_fail_memory(err, XSMI_WRITE_BUFFER, "a file being written");
    }
    xsm_status status = write_files(&output, path, writers[o.format], o.labels_path, o.names_path, err);
    xsmi_release(d->context, output.buffer, XSMI_WRITE_BUFFER, 1);
    return status;
}
