/* The rows read so far: arrays that grow, messages with positions, features and labels as options want them. */
#include "read/reader.h"

#include "base/grow.h"
#include "base/option.h"
#include "base/order.h"
#include "base/utf8.h"
#include "data/dataset.h"
#include "base/activity.h"
#include "base/entry.h"
#include "read/number.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

xsm_status xsmi_reader_fail(const xsmi_reader *r, xsm_error *err, xsm_status status, uint64_t line, uint64_t column,
                            const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return xsmi_fail_at(err, status, line, column, "%s, line %llu, column %llu: %s", r->source.name,
                        (unsigned long long)line, (unsigned long long)column, text);
}

xsm_status xsmi_reader_text(xsmi_reader *r, uint64_t line, uint64_t column, const char *where, const char **text,
                            size_t *length, xsm_error *err)
{
    const size_t valid = xsmi_utf8_prefix(*text, *length);
    if (valid == *length) {
        return XSM_OK;
    }
    if (r->options.bad_bytes != XSM_BAD_BYTES_REPLACE) {
        return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, line, column + valid,
                                "byte 0x%02X%s; UTF-8 text without NUL is accepted%s", (unsigned char)(*text)[valid],
                                where,
                                r->skips_labels /* an encoder's reader, which has no such option */
                                    ? ""
                                    : " (xsm_read_options.bad_bytes = XSM_BAD_BYTES_REPLACE replaces others)");
    }
    size_t most;
    uint64_t replaced;
    if (!xsmi_multiply(*length, 3, &most) || !xsmi_add(most, 1, &most)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: a line that does not fit the address space", r->source.name);
    }
    XSMI_TRY(XSMI_GROW(r->context, r->mended, r->mended_capacity, most, "a line", err));
    *length = xsmi_utf8_mend(*text, *length, r->mended, &replaced);
    r->mended[*length] = '\n';
    *text = r->mended;
    r->replaced_line = r->replaced == 0 ? line : r->replaced_line;
    r->replaced += replaced;
    return XSM_OK;
}

xsm_status xsmi_reader_label(xsmi_reader *r, uint64_t line, uint64_t column, const char *word, size_t length,
                             xsm_error *err)
{
    const char *text = word;
    XSMI_TRY(xsmi_reader_text(r, line, column, " in a label", &text, &length, err));
    r->bad_labels |= text != word;
    return XSM_OK;
}

xsm_status xsmi_reader_word(xsmi_reader *r, const char *word, size_t length, uint32_t *id, xsm_error *err)
{
    int64_t whole;
    uint32_t number;
    const uint32_t before = r->numbers.count;
    const bool is_number = xsmi_whole_number(word, length, &whole);
    XSMI_TRY(is_number ? xsmi_dictionary_number(&r->numbers, whole, &number, err) : XSM_OK);
    if (is_number && number < before) {
        *id = (uint32_t)r->numbers.entries[number].mark;
        return XSM_OK;
    }
    XSMI_TRY(xsmi_dictionary_word(&r->dictionary, word, length, id, err));
    if (is_number) {
        r->numbers.entries[number].mark = *id;
    }
    return XSM_OK;
}

/* An array of the reader that must grow. */
typedef struct growth {
    size_t which; /* XSMI_READER_* */
    void *array;  /* its address */
    size_t *capacity, used, needed, each;
    const char *what;
} growth;

static xsm_status grow_spool(xsmi_reader *r, const growth *g, xsm_error *err)
{
    xsmi_spool *spool = &r->spools[g->which];
    size_t bytes;
    if (!xsmi_multiply(g->needed, g->each, &bytes)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: more than fits the address space", r->source.name);
    }
    XSMI_TRY(xsmi_spool_grow(spool, r->options.spool, bytes, err));
    memcpy(g->array, &spool->data, sizeof spool->data);
    *g->capacity = spool->bytes / g->each;
    return XSM_OK;
}

/* Grows an array to the size that the whole file will probably need. Repeated growth costs copies and new pages, which
 * took more time than parsing. It grows at most eightfold at a time, as the first rows may differ from the others.
 * Without an estimate, or without the memory, it grows in the usual steps. */
static xsm_status grow(xsmi_reader *r, const growth *g, xsm_error *err)
{
    if (r->options.spool) {
        return grow_spool(r, g, err);
    }
    double progress = xsmi_lines_progress(&r->lines);
    if (progress > 0 && g->used > 0) {
        double most = 8 * (double)*g->capacity;
        double wanted = (double)g->used / progress * 1.0625;
        wanted = XSMI_MIN(wanted, most);
        if (wanted > (double)g->needed && wanted < (double)(SIZE_MAX / 2)) {
            void *memory;
            memcpy(&memory, g->array, sizeof memory);
            void *grown = xsmi_reallocate(r->context, memory, *g->capacity, (size_t)wanted, g->each);
            if (grown) {
                memcpy(g->array, &grown, sizeof grown);
                *g->capacity = (size_t)wanted;
                return XSM_OK;
            }
        }
    }
    return xsmi_grow(r->context, (xsmi_array_ref){g->array, g->each}, g->capacity, g->needed, g->what, err);
}

#define GROW(r, which, array, capacity, used, needed, what, err)                                                       \
    ((needed) <= (capacity) ? XSM_OK                                                                                   \
                            : grow((r),                                                                                \
                                   &(growth){XSMI_READER_##which, &(array), &(capacity), (size_t)(used), (needed),     \
                                             sizeof *(array), (what)},                                                 \
                                   (err)))

xsm_status xsmi_reader_reserve(xsmi_reader *r, size_t values, size_t labels, xsm_error *err)
{
    size_t value_total, label_total;
    if (!xsmi_add(r->entries.count, values, &value_total) || !xsmi_add(r->label.count, labels, &label_total)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: more values than fit the address space", r->source.name);
    }
    size_t row_total = (size_t)r->rows + 2;
    XSMI_TRY(GROW(r, VALUES, r->entries.values, r->entries.value_capacity, r->entries.count, value_total,
                  "feature values", err));
    if (r->sparse) {
        XSMI_TRY(GROW(r, INDEX, r->entries.index, r->entries.index_capacity, r->entries.count, value_total,
                      "feature indexes", err));
        XSMI_TRY(GROW(r, OFFSETS, r->entries.offsets, r->entries.offset_capacity, r->rows, row_total, "rows", err));
    }
    XSMI_TRY(GROW(r, LABELS, r->label.numbers, r->label.capacity, r->label.count, label_total, "labels", err));
    if (r->options.label_weights && label_total > r->label.weight_capacity) {
        XSMI_TRY(
            XSMI_GROW(r->context, r->label.weights, r->label.weight_capacity, label_total, "weights of labels", err));
    }
    if (r->options.weights_column && row_total > r->weight_capacity) {
        XSMI_TRY(XSMI_GROW(r->context, r->weights, r->weight_capacity, row_total, "weights of rows", err));
    }
    return GROW(r, LABEL_OFFSETS, r->label.offsets, r->label.offset_capacity, r->rows, row_total, "rows", err);
}

void xsmi_reader_forget_weights(xsmi_reader *r)
{
    xsmi_release(r->context, r->weights, r->weight_capacity, sizeof *r->weights);
    r->weights = NULL;
    r->weight_capacity = 0;
    r->options.weights_column = NULL;
}

void xsmi_reader_end_row(xsmi_reader *r)
{
    uint64_t before = r->sparse ? r->entries.offsets[r->rows] : r->entries.count - r->stride;
    xsmi_reader_passed(r, (r->entries.count - before) * (sizeof *r->entries.values + sizeof *r->entries.index) +
                              sizeof *r->entries.offsets);
    r->rows++;
    if (r->sparse) {
        r->entries.offsets[r->rows] = r->entries.count;
    }
    r->label.offsets[r->rows] = r->label.count;
}

const char *xsmi_reader_label_column(const xsmi_reader *r)
{
    return r->options.label_column ? r->options.label_column : "label";
}

uint32_t xsmi_reader_features(const xsmi_reader *r, bool *drops)
{
    const bool map = r->has_map && !r->options.new_features;
    *drops = r->options.features == 0 && map;
    return r->options.features ? r->options.features : map ? r->map.features : 0;
}

/* -- names --------------------------------------------------------------------------------------------------------- */

/* Names of classes from a file with one name a line: line i, from 0, names the label i. */

typedef struct names {
    xsm_context *context;
    char *text; /* the names wanted, each terminated, one after another */
    size_t used, capacity;
    size_t *starts; /* [classes] */
    /* lines such as `0 cat`: how many, in how many their numbers rise as the lines do, and the first of them */
    uint64_t numbered, rising, first;
    int64_t number; /* of the first */
    char quote[XSMI_QUOTE_SIZE];
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

static void note_number(names *n, const char *text, size_t length, uint64_t line)
{
    const char *after;
    int64_t number;
    if (xsmi_parse_integer(text, &after, &number) != XSMI_NUMBER_OK || after + 1 >= text + length ||
        !strchr(" \t,;:|", *after)) {
        return;
    }
    if (n->numbered++ == 0) {
        n->first = line;
        n->number = number;
        xsmi_quote(n->quote, text, length);
    }
    n->rising += number - n->number == (int64_t)(line - n->first);
}

/* Warns that the lines, perhaps but for a header, begin with numbers that count up: these are part of the names. */
static void tell_numbers(const names *n, const xsmi_lines *l)
{
    if (n->rising > 1 && n->rising + 1 >= l->line) {
        xsmi_log(
            n->context, XSM_LOG_WARNING,
            "%s: lines begin with numbers: line %llu, %s, is the whole name of the label %llu; a line names the label "
            "of its place, from 0, whatever number is in it",
            l->source->name, (unsigned long long)n->first, n->quote, (unsigned long long)n->first - 1);
    }
}

/* Reads the names. Labels and lines both rise, so one pass finds the line of each. */
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
        note_number(n, text, length, l->line);
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
    tell_numbers(n, l);
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
