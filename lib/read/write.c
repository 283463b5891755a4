/* Writing datasets to files: checks, the format's file, and those of labels and names beside it. */
#include "read/format.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/utf8.h"

#include <string.h>

/* -- one file ------------------------------------------------------------------------------------------------------ */

typedef xsm_status (*writer)(xsmi_output *o, xsm_error *err);

/* Writes the names: line i is the name of label i, which is class i. */
static xsm_status write_names(xsmi_output *o, xsm_error *err)
{
    for (uint32_t k = 0; k < o->d->classes; k++) {
        const char *name = o->d->map.names[k];
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

/* Writes the weights: line i + 1 is that of row i. */
static xsm_status write_weights(xsmi_output *o, xsm_error *err)
{
    for (uint64_t i = 0; i < o->d->rows; i++) {
        XSMI_TRY(xsmi_output_float(o, o->d->weights[i], err));
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
    return xsmi_output_flush(o, err);
}

static xsm_status commit(xsmi_replace **file, xsm_error *err)
{
    xsmi_replace *committed = *file;
    *file = NULL; /* released whatever the result */
    return committed ? xsmi_replace_commit(committed, err) : XSM_OK;
}

/* Writes all files, and replaces their targets only when all are complete. */
static xsm_status write_files(xsmi_output *o, const char *path, const xsmi_format *format, xsm_error *err)
{
    static const char *const names[] = {"path", "labels_path", "names_path", "weights_path"};
    enum { FILES = sizeof names / sizeof *names };
    xsmi_replace *files[FILES] = {NULL};
    xsm_status status = begin(o, path, format->write, &files[0], err);
    status = status == XSM_OK ? begin(o, o->options->labels_path, format->write_labels, &files[1], err) : status;
    status = status == XSM_OK ? begin(o, o->options->names_path, write_names, &files[2], err) : status;
    status = status == XSM_OK ? begin(o, o->options->weights_path, write_weights, &files[3], err) : status;
    for (size_t i = 1; i < FILES && status == XSM_OK; i++) {
        for (size_t j = 0; j < i && status == XSM_OK; j++) {
            if (xsmi_replace_same(files[i], files[j])) {
                status = xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: xsm_write_options.%s is the same file as %s", path,
                                   names[i], names[j]);
            }
        }
    }
    for (size_t i = 0; i < FILES && status == XSM_OK; i++) {
        status = commit(&files[i], err);
    }
    for (size_t i = 0; i < FILES; i++) {
        xsmi_replace_abandon(files[i]);
    }
    return status;
}

/* -- checks -------------------------------------------------------------------------------------------------------- */

static xsm_status check_options(const xsmi_format *f, const xsm_write_options *o, xsm_error *err)
{
    if (!f) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_write_options.format is %d; an XSM_FORMAT_* value (1 to %d) is accepted", (int)o->format,
                         (int)xsmi_format_last());
    }
    if (!f->write && !f->save) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "text cannot be written: its words and their order are gone; any other format is accepted");
    }
    if (o->index_base < XSM_INDEX_BASE_AUTO || o->index_base > XSM_INDEX_BASE_ONE) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_write_options.index_base is %d; an XSM_INDEX_BASE_* value (0 to %d) is accepted",
                         (int)o->index_base, XSM_INDEX_BASE_ONE);
    }
    if (o->index_base != XSM_INDEX_BASE_AUTO && !(f->accepts & XSMI_ACCEPTS_INDEX_BASE)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.index_base is for XSM_FORMAT_LIBSVM alone");
    }
    if (o->label_column && !(f->write && f->named)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.label_column is for XSM_FORMAT_CSV and TSV alone");
    }
    if (o->weights_column && !(f->write && f->named)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_write_options.weights_column is for XSM_FORMAT_CSV and TSV alone");
    }
    if (o->weights_column && o->weights_path) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "weights of rows go to a column (xsm_write_options.weights_column) or to a file of their own "
                         "(xsm_write_options.weights_path); one of them is accepted");
    }
    if (o->labels_path && !f->write_labels) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.labels_path is for XSM_FORMAT_NPY alone");
    }
    if (o->names_path && f->named) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_write_options.names_path: CSV, TSV and caches have the names in themselves");
    }
    if (o->weights_path && f->save) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_write_options.weights_path: caches have the weights in themselves");
    }
    return XSM_OK;
}

/* Refuses to replace the cache that the rows are mapped from, unless by another cache: other formats would lose a part
 * of it. */
static xsm_status check_cache(const xsm_dataset *d, const char *path, const xsm_write_options *o, xsm_error *err)
{
    const char *const paths[] = {o->format == XSM_FORMAT_CACHE ? NULL : path, o->labels_path, o->names_path,
                                 o->weights_path};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (size_t j = 0; j < d->mapped.count; j++) {
            if (paths[i] && xsmi_is_mapped(&d->mapped.files[j], paths[i])) {
                return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                                 "%s is the cache that the rows are read from; only a cache may replace it", paths[i]);
            }
        }
    }
    return XSM_OK;
}

/* Refuses several labels a row; formats with a file of labels have one for each row, or none. */
static xsm_status check_labels(const xsm_dataset *d, const xsmi_format *f, xsm_error *err)
{
    for (uint64_t i = 0; i < d->rows; i++) {
        uint64_t count = d->label_offsets[i + 1] - d->label_offsets[i];
        if (count > 1) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "row %llu (from 0) has %llu labels; this format holds one (see "
                             "xsm_dataset_keep_labels())",
                             (unsigned long long)i, (unsigned long long)count);
        }
        if (count == 0 && d->counted.labels > 0 && f->write_labels) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "row %llu (from 0) has no label and others have; NPY holds a label for each row, or "
                             "none",
                             (unsigned long long)i);
        }
    }
    return XSM_OK;
}

/* Refuses equal names of classes, which formats that call them by name cannot tell apart. */
static xsm_status check_names(const xsm_dataset *d, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE];
    xsmi_repeated r;
    XSMI_TRY(xsmi_repeated_names(d, &r, err));
    const char *const name = r.count > 0 ? d->map.names[r.first] : NULL;
    return name ? xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                            "the classes %u and %u (from 0) are both called %s, and would be one in this format; XC or "
                            "LIBSVM with xsm_write_options.names_path, or a cache, tell them apart",
                            r.first, r.second, xsmi_quote(quote, name, strlen(name)))
                : XSM_OK;
}

/* Refuses rows that a format other than a cache cannot hold. */
static xsm_status check_rows(const xsm_dataset *d, const xsmi_format *f, const xsm_write_options *o, xsm_error *err)
{
    if (d->map.names && !o->names_path && !f->named) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the classes have names, and this format has numbers; set xsm_write_options.names_path, or "
                         "write CSV, TSV or a cache");
    }
    XSMI_TRY(d->map.names && f->named ? check_names(d, err) : XSM_OK);
    if (d->counted.unseen_labels > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "%llu labels are not in the class map, so what the file called them is not known; only a "
                         "cache can hold them",
                         (unsigned long long)d->counted.unseen_labels);
    }
    if (f->single) {
        XSMI_TRY(check_labels(d, f, err));
    }
    if (d->label_weights) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "labels have weights; only a cache can hold them");
    }
    if (d->weights && !o->weights_path && !o->weights_column) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the rows have weights, and this format has no place for them; set "
                         "xsm_write_options.weights_path%s, or write a cache",
                         f->named ? " or weights_column" : "");
    }
    if (f->write_labels && (d->counted.labels > 0) != (o->labels_path != NULL)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         o->labels_path ? "no row has a label for the file of labels (xsm_write_options.labels_path)"
                                        : "labels go to a file of their own (xsm_write_options.labels_path)");
    }
    if (d->features == 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "the rows have no features; only a cache can hold them");
    }
    return XSM_OK;
}

/* Writes with checked options. */
static xsm_status write_dataset(const xsm_dataset *d, const char *path, const xsmi_format *format, xsm_write_options *o,
                                xsmi_activity *activity, xsm_error *err)
{
    if (format->save) {
        return format->save(d, path, activity, err);
    }
    XSMI_TRY(check_rows(d, format, o, err));
    o->label_column = o->label_column ? o->label_column : "label";
    xsmi_output output = {.d = d, .activity = activity, .options = o, .numbers = o->names_path != NULL};
    XSMI_TRY(xsmi_array_new(d->context, &output.buffer, XSMI_WRITE_BUFFER, 1, "a file being written", err));
    xsm_status status = write_files(&output, path, format, err);
    xsmi_release(d->context, output.buffer, XSMI_WRITE_BUFFER, 1);
    return status;
}

xsm_status xsm_dataset_write(const xsm_dataset *d, const char *path, const xsm_write_options *options, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"}, {path, "path"}, {options, "options"});
    xsm_write_options o = XSM_WRITE_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_write_options, &o, options, err));
    const xsmi_format *format = xsmi_format_of(o.format);
    XSMI_TRY(check_options(format, &o, err));
    XSMI_TRY(check_cache(d, path, &o, err));
    if (o.names_path && !d->map.names) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.names_path: the classes have no names");
    }
    if (o.weights_path && !d->weights) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.weights_path: the rows have no weights");
    }
    if (o.weights_column && !d->weights) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_write_options.weights_column: the rows have no weights");
    }
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "writing", format->save ? "bytes" : "rows", format->save ? 0 : d->rows);
    return xsmi_end(&activity, write_dataset(d, path, format, &o, &activity, err), err);
}
