/* Names of classes from a file with one name a line: line i, from 0, names the label i. */
#include "data/dataset.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "read/reader.h"
#include "base/utf8.h"

#include <string.h>

typedef struct names {
    xsm_context *context;
    char *text; /* the names wanted, each terminated, one after another */
    size_t used, capacity;
    size_t *starts; /* [classes] */
} names;

static int64_t label_of(const xsm_dataset *d, uint32_t k)
{
    return d->map.labels ? d->map.labels[k] : (int64_t)k;
}

static xsm_status check_line(const xsmi_lines *l, const char *text, size_t length, xsm_error *err)
{
    unsigned long long line = (unsigned long long)l->line;
    if (length == 0) {
        return xsmi_fail_at(err, XSM_ERROR_FORMAT, l->line, 1,
                            "%s, line %llu, column 1: an empty line; each line must hold a name", l->source->name,
                            line);
    }
    size_t valid = xsmi_utf8_prefix(text, length);
    if (valid < length) {
        return xsmi_fail_at(err, XSM_ERROR_FORMAT, l->line, valid + 1,
                            "%s, line %llu, column %zu: byte 0x%02X; UTF-8 text without NUL is accepted",
                            l->source->name, line, valid + 1, (unsigned char)text[valid]);
    }
    const char *end = memchr(text, '\r', length);
    if (end) {
        return xsmi_fail_at(err, XSM_ERROR_FORMAT, l->line, (uint64_t)(end - text) + 1,
                            "%s, line %llu, column %llu: a carriage return in a name; names of classes are of one line",
                            l->source->name, line, (unsigned long long)(end - text) + 1);
    }
    return XSM_OK;
}

/* Labels and lines both rise, so one pass finds the line of each. */
static xsm_status read_lines(const xsm_dataset *d, xsmi_lines *l, names *n, xsm_error *err)
{
    uint32_t k = 0;
    if (d->classes > 0 && label_of(d, 0) < 0) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the label %lld cannot have a line in %s; lines count from 0",
                         (long long)label_of(d, 0), l->source->name);
    }
    for (;;) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(l, &text, &length, err));
        if (!text) {
            break;
        }
        XSMI_TRY(check_line(l, text, length, err));
        if (k < d->classes && label_of(d, k) == (int64_t)(l->line - 1)) {
            XSMI_TRY(XSMI_GROW(n->context, n->text, n->capacity, n->used + length + 1, "the names of classes", err));
            memcpy(n->text + n->used, text, length);
            n->text[n->used + length] = '\0';
            n->starts[k++] = n->used;
            n->used += length + 1;
        }
    }
    if (k < d->classes) {
        return xsmi_fail(err, XSM_ERROR_SHAPE,
                         "%s has %llu lines, so none for the label %lld; it needs a line for each label from 0 to %lld",
                         l->source->name, (unsigned long long)l->line, (long long)label_of(d, k),
                         (long long)label_of(d, d->classes - 1));
    }
    return XSM_OK;
}

/* Stores the class numbers as labels, because a map of names without labels would be one of words. */
static xsm_status set_labels(xsm_dataset *d, xsm_error *err)
{
    int64_t *labels = d->map.labels ? d->map.labels : xsmi_allocate(d->context, d->classes, sizeof *labels);
    if (!labels) {
        return xsmi_fail_memory(err, d->classes * sizeof *labels, "the labels of classes");
    }
    for (uint32_t k = 0; !d->map.labels && k < d->classes; k++) {
        labels[k] = k;
    }
    d->map.labels = labels;
    return XSM_OK;
}

static xsm_status set_names(xsm_dataset *d, names *n, xsm_error *err)
{
    char *text = xsmi_allocate(d->context, n->used, 1);
    char **list = xsmi_allocate(d->context, d->classes, sizeof *list);
    if (!text || !list) {
        xsmi_release(d->context, text, n->used, 1);
        xsmi_release(d->context, list, d->classes, sizeof *list);
        return xsmi_fail_memory(err, n->used, "the names of classes");
    }
    if (n->used > 0) {
        memcpy(text, n->text, n->used);
    }
    for (uint32_t k = 0; k < d->classes; k++) {
        list[k] = text + n->starts[k];
    }
    xsmi_release(d->context, d->map.names, d->classes, sizeof *d->map.names);
    xsmi_release(d->context, d->map.text, d->map.text_size, 1);
    d->map.names = list;
    d->map.text = text;
    d->map.text_size = n->used;
    return XSM_OK;
}

xsm_status xsmi_repeated_names(const xsm_dataset *d, xsmi_repeated *r, xsm_error *err)
{
    xsmi_dictionary seen;
    xsm_status status = XSM_OK;
    *r = (xsmi_repeated){0, 0, 0};
    xsmi_dictionary_start(&seen, d->context, true);
    for (uint32_t k = 0; k < d->classes && status == XSM_OK; k++) {
        const char *const name = d->map.names[k];
        uint32_t id;
        const uint32_t before = seen.count;
        status = xsmi_dictionary_word(&seen, name, strlen(name), &id, err);
        if (status == XSM_OK && seen.count > before) {
            seen.entries[id].mark = k;
        } else if (status == XSM_OK && r->count++ == 0) {
            r->first = (uint32_t)seen.entries[id].mark;
            r->second = k;
        }
    }
    xsmi_dictionary_end(&seen);
    return status;
}

static xsm_status tell_repeated(const xsm_dataset *d, const char *path, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE];
    xsmi_repeated r;
    XSMI_TRY(xsmi_repeated_names(d, &r, err));
    if (r.count > 0) {
        const char *const name = d->map.names[r.first];
        xsmi_log(d->context, XSM_LOG_WARNING,
                 "%s: %u classes have the name of another one; the first are the labels %lld and %lld, both %s", path,
                 r.count, (long long)label_of(d, r.first), (long long)label_of(d, r.second),
                 xsmi_quote(quote, name, strlen(name)));
    }
    return XSM_OK;
}

xsm_status xsm_dataset_read_names(xsm_dataset *d, const char *path, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "dataset"}, {path, "path"});
    if (d->map.names && !d->map.labels) {
        char quote[XSMI_QUOTE_SIZE];
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "%s has names for labels that are numbers, and those of the rows are words, the first %s",
                         path, xsmi_quote(quote, d->map.names[0], strlen(d->map.names[0])));
    }
    names n = {.context = d->context};
    XSMI_TRY(xsmi_array_new(d->context, &n.starts, d->classes, sizeof *n.starts, "the names of classes", err));
    xsmi_source source;
    xsmi_lines lines;
    xsmi_activity activity;
    memset(&lines, 0, sizeof lines);
    xsmi_begin(&activity, d->context, "reading names", "bytes", 0);
    xsm_status status = xsmi_source_open_file(&source, d->context, path, err);
    if (status == XSM_OK) {
        xsmi_lines_start(&lines, &source);
        status = read_lines(d, &lines, &n, err);
    }
    status = xsmi_end(&activity, status, err);
    if (status == XSM_OK) {
        status = set_labels(d, err);
        status = status == XSM_OK ? set_names(d, &n, err) : status;
        xsmi_dataset_edited(d);
        status = status == XSM_OK ? tell_repeated(d, path, err) : status;
    }
    xsmi_lines_end(&lines);
    xsmi_source_close(&source);
    xsmi_release(d->context, n.text, n.capacity, 1);
    xsmi_release(d->context, n.starts, d->classes, sizeof *n.starts);
    return status;
}
