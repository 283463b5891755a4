/*
 * Reading a file: options, the choice of the format, and the dataset made of the rows that were read.
 */
#include "data/reader.h"
#include "data/grow.h"
#include "data/number.h"
#include "data/sort.h"
#include "data/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIRST_OPTIONS_SIZE (offsetof(xsm_read_options, classes) + sizeof(const xsm_class_map *))
#define FIRST_MAP_SIZE (offsetof(xsm_class_map, names) + sizeof(const char *const *))

/* Lines that tell nothing are looked at up to here. */
#define DETECT_BYTES ((size_t)1 << 20)

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

/* Grows an array of rows to what the whole file will probably need: each step of blind growth costs a copy and fresh
 * pages, which took more time than all parsing. At most eightfold at a time, as the first rows may not be like the
 * others; without an answer or the memory, growth is blind. */
static xsm_status grow(const xsmi_reader *r, void *array, size_t *capacity, size_t used, size_t needed, size_t each,
                       const char *what, xsm_error *err)
{
    double progress = xsmi_lines_progress(&r->lines);
    if (progress > 0 && used > 0) {
        double most = 8 * (double)*capacity;
        double wanted = (double)used / progress * 1.0625;
        wanted = wanted < most ? wanted : most;
        if (wanted > (double)needed && wanted < (double)(SIZE_MAX / 2)) {
            void *memory;
            memcpy(&memory, array, sizeof memory);
            void *grown = xsmi_reallocate(r->context, memory, *capacity, (size_t)wanted, each);
            if (grown) {
                memcpy(array, &grown, sizeof grown);
                *capacity = (size_t)wanted;
                return XSM_OK;
            }
        }
    }
    return xsmi_grow(r->context, array, capacity, needed, each, what, err);
}

#define GROW(r, array, capacity, used, needed, what, err)                                                              \
    ((needed) <= (capacity)                                                                                            \
         ? XSM_OK                                                                                                      \
         : grow((r), &(array), &(capacity), (size_t)(used), (needed), sizeof *(array), (what), (err)))

xsm_status xsmi_reader_reserve(xsmi_reader *r, size_t values, size_t labels, xsm_error *err)
{
    size_t value_total, label_total;
    if (!xsmi_add(r->value_count, values, &value_total) || !xsmi_add(r->label_count, labels, &label_total)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%s: more values than fit the address space", r->source.name);
    }
    size_t row_total = (size_t)r->rows + 2;
    XSMI_TRY(GROW(r, r->values, r->value_capacity, r->value_count, value_total, "feature values", err));
    if (r->sparse) {
        XSMI_TRY(GROW(r, r->index, r->index_capacity, r->value_count, value_total, "feature indexes", err));
        XSMI_TRY(GROW(r, r->offsets, r->offset_capacity, r->rows, row_total, "rows", err));
    }
    XSMI_TRY(GROW(r, r->labels, r->label_capacity, r->label_count, label_total, "labels", err));
    return GROW(r, r->label_offsets, r->label_offset_capacity, r->rows, row_total, "rows", err);
}

void xsmi_reader_end_row(xsmi_reader *r)
{
    r->rows++;
    if (r->sparse) {
        r->offsets[r->rows] = r->value_count;
    }
    r->label_offsets[r->rows] = r->label_count;
}

uint32_t xsmi_reader_features(const xsmi_reader *r, bool *drops)
{
    *drops = r->options.features == 0 && r->has_map;
    return r->options.features ? r->options.features : r->has_map ? r->map.features : 0;
}

/* -- options ------------------------------------------------------------------------------------------------------ */

static xsm_status check_map(xsmi_reader *r, xsm_error *err)
{
    r->map = (xsm_class_map)XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsmi_options_read(&r->map, sizeof r->map, FIRST_MAP_SIZE, r->options.classes, "xsm_class_map", err));
    r->has_map = true;
    if (r->map.classes > XSM_CLASSES_MAX || r->map.features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a class map of %u classes and %u features; at most %u of each are "
                         "supported",
                         r->map.classes, r->map.features, (unsigned)XSM_CLASSES_MAX);
    }
    for (uint32_t k = 1; k < r->map.classes && r->map.labels; k++) {
        if (r->map.labels[k] <= r->map.labels[k - 1]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "the class map has the label %lld after %lld; its labels must rise",
                             (long long)r->map.labels[k], (long long)r->map.labels[k - 1]);
        }
    }
    for (uint32_t k = 0; k < r->map.classes && r->map.names; k++) {
        if (!r->map.names[k]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the class map has no name for class %u though it has names", k);
        }
    }
    return XSM_OK;
}

static xsm_status check_options(xsmi_reader *r, const xsm_read_options *given, xsm_error *err)
{
    r->options = (xsm_read_options)XSM_READ_OPTIONS_INIT;
    XSMI_TRY(xsmi_options_read(&r->options, sizeof r->options, FIRST_OPTIONS_SIZE, given, "xsm_read_options", err));
    if (r->options.format < XSM_FORMAT_AUTO || r->options.format > XSM_FORMAT_TSV) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_read_options.format is %d; an XSM_FORMAT_* value (0 to %d) is accepted",
                         (int)r->options.format, XSM_FORMAT_TSV);
    }
    if (r->options.labels < XSM_LABELS_ALL || r->options.labels > XSM_LABELS_SMALLEST) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_read_options.labels is %d; an XSM_LABELS_* value (0 to %d) is accepted",
                         (int)r->options.labels, XSM_LABELS_SMALLEST);
    }
    if (r->options.index_base < XSM_INDEX_BASE_AUTO || r->options.index_base > XSM_INDEX_BASE_ONE) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_read_options.index_base is %d; an XSM_INDEX_BASE_* value (0 to %d) is accepted",
                         (int)r->options.index_base, XSM_INDEX_BASE_ONE);
    }
    if (r->options.features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_read_options.features is %u; at most %u are supported",
                         r->options.features, (unsigned)XSM_FEATURES_MAX);
    }
    if (!r->options.label_column) {
        r->options.label_column = "label";
    }
    return r->options.classes ? check_map(r, err) : XSM_OK;
}

/* -- choosing the format ------------------------------------------------------------------------------------------ */

#define FORMATS_KNOWN                                                                                                  \
    "known are XC text (first line 'rows features labels', then 'l1,l2 f:v f:v'), LIBSVM ('l f:v f:v'), and CSV or "   \
    "TSV with a header line"

static xsm_status detect(xsmi_reader *r, xsm_error *err)
{
    const char *column = r->options.label_column;
    int32_t format = XSM_FORMAT_AUTO;
    bool first = true;
    xsmi_lines_hold(&r->lines);
    while (format == XSM_FORMAT_AUTO) {
        char *text;
        size_t length;
        XSMI_TRY(xsmi_lines_next(&r->lines, &text, &length, err));
        int kind = text ? xsmi_sparse_line(text, length) : XSMI_LINE_OPEN;
        if (text && r->lines.line == 1 && xsmi_is_xc_header(text, length)) {
            format = XSM_FORMAT_XC;
        } else if (text && first && xsmi_is_dense_header(text, length, ',', column)) {
            format = XSM_FORMAT_CSV;
        } else if (text && first && xsmi_is_dense_header(text, length, '\t', column)) {
            format = XSM_FORMAT_TSV;
        } else if (kind == XSMI_LINE_ROW) {
            format = XSM_FORMAT_LIBSVM;
        } else if (kind == XSMI_LINE_OTHER) {
            char quote[XSMI_QUOTE_SIZE];
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, r->lines.line, 1,
                                    "the format cannot be told from %s; " FORMATS_KNOWN " that has a column %s",
                                    xsmi_quote(quote, text, length), column);
        } else if (!text && r->lines.line == 0) {
            return xsmi_fail(err, XSM_ERROR_DATA, "%s: the file is empty; at least one row is needed", r->source.name);
        } else if (!text || xsmi_lines_held(&r->lines) > DETECT_BYTES) {
            return xsmi_reader_fail(r, err, XSM_ERROR_FORMAT, 1, 1,
                                    "the format cannot be told, as no line has a feature; " FORMATS_KNOWN
                                    "; or set xsm_read_options.format");
        }
        first = first && text && length == 0; /* blank lines may come before a header */
    }
    xsmi_lines_rewind(&r->lines);
    r->format = format;
    return XSM_OK;
}

/* -- classes ------------------------------------------------------------------------------------------------------ */

/* A word that is an integer, spaces around it allowed as around any number. The word is terminated. */
static bool word_number(const char *word, size_t length, int64_t *number)
{
    const char *end = word + length;
    while (*word == ' ') {
        word++;
    }
    if (xsmi_parse_integer(word, &word, number) != XSMI_NUMBER_OK) {
        return false;
    }
    while (*word == ' ') {
        word++;
    }
    return word == end;
}

/* The label of each number of the dictionary; false when some are words. */
static bool numbers_of(const xsmi_dictionary *d, int64_t *labels)
{
    for (uint32_t i = 0; i < d->count; i++) {
        if (!d->words) {
            labels[i] = xsmi_dictionary_label(d, i);
        } else {
            size_t length;
            const char *word = xsmi_dictionary_text(d, i, &length);
            if (!word_number(word, length, &labels[i])) {
                return false;
            }
        }
    }
    return true;
}

/* Place of label in rising labels, or UINT32_MAX. */
static uint32_t search(const int64_t *labels, uint32_t count, int64_t label)
{
    uint32_t low = 0;
    uint32_t high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (labels[middle] < label) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && labels[low] == label ? low : UINT32_MAX;
}

static int word_before(const void *state, uint32_t a, uint32_t b)
{
    const xsmi_dictionary *d = state;
    size_t a_length, b_length;
    const char *a_text = xsmi_dictionary_text(d, a, &a_length);
    const char *b_text = xsmi_dictionary_text(d, b, &b_length);
    int order = memcmp(a_text, b_text, a_length < b_length ? a_length : b_length);
    return order < 0 || (order == 0 && a_length < b_length);
}

/* The class of each of the dictionary's labels in the caller's map. */
static void match(const xsmi_reader *r, uint32_t *class_of)
{
    const xsmi_dictionary *d = &r->dictionary;
    const xsm_class_map *map = &r->map;
    if (d->words && map->names) {
        for (uint32_t i = 0; i < d->count; i++) {
            class_of[i] = XSM_CLASS_UNSEEN;
        }
        for (uint32_t k = map->classes; k-- > 0;) { /* downwards: of equal names the first class counts */
            uint32_t id = xsmi_dictionary_find_word(d, map->names[k], strlen(map->names[k]));
            if (id != UINT32_MAX) {
                class_of[id] = k;
            }
        }
        return;
    }
    for (uint32_t i = 0; i < d->count; i++) {
        int64_t label = 0;
        bool number = true;
        if (d->words) {
            size_t length;
            const char *word = xsmi_dictionary_text(d, i, &length);
            number = word_number(word, length, &label);
        } else {
            label = xsmi_dictionary_label(d, i);
        }
        uint32_t k = !number                                                  ? UINT32_MAX
                     : map->labels                                            ? search(map->labels, map->classes, label)
                     : label >= 0 && (uint64_t)label < (uint64_t)map->classes ? (uint32_t)label
                                                                              : UINT32_MAX;
        class_of[i] = k; /* UINT32_MAX is XSM_CLASS_UNSEEN */
    }
}

/* Signed order as unsigned order. */
#define SIGN (UINT64_C(1) << 63)

/* Classes from the numbers that occur, given in labels[]; `spare` has room for as many. */
static xsm_status classes_of_numbers(const xsmi_reader *r, xsm_dataset *d, int64_t *labels, uint64_t *spare,
                                     uint32_t *class_of, xsm_error *err)
{
    uint32_t count = r->dictionary.count;
    /* Sorted in its place, with the unsorted labels still at hand in the dictionary. */
    uint64_t *keys = (uint64_t *)labels;
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = (uint64_t)labels[i] ^ SIGN;
    }
    xsmi_sort(keys, spare, count);
    uint32_t classes = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t label = (int64_t)(keys[i] ^ SIGN);
        if (classes == 0 || labels[classes - 1] != label) {
            labels[classes++] = label; /* words such as 1 and 01 are one label */
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t label = 0;
        if (r->dictionary.words) {
            size_t length;
            const char *word = xsmi_dictionary_text(&r->dictionary, i, &length);
            (void)word_number(word, length, &label);
        } else {
            label = xsmi_dictionary_label(&r->dictionary, i);
        }
        class_of[i] = search(labels, classes, label);
    }
    return xsmi_dataset_set_classes(d, classes, labels, NULL, err);
}

static xsm_status classes_of_words(const xsmi_reader *r, xsm_dataset *d, uint64_t *spare, uint32_t *class_of,
                                   xsm_error *err)
{
    uint32_t count = r->dictionary.count;
    uint32_t *order = (uint32_t *)spare;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    xsmi_sort_by(word_before, &r->dictionary, order, order + count, count);
    const char **names = xsmi_allocate(r->context, count, sizeof *names);
    if (!names) {
        return xsmi_fail_memory(err, count * sizeof *names, "the names of classes");
    }
    for (uint32_t k = 0; k < count; k++) {
        size_t length;
        names[k] = xsmi_dictionary_text(&r->dictionary, order[k], &length);
        class_of[order[k]] = k;
    }
    xsm_status status = xsmi_dataset_set_classes(d, count, NULL, names, err);
    xsmi_release(r->context, names, count, sizeof *names);
    return status;
}

static xsm_status set_classes(xsmi_reader *r, xsm_dataset *d, xsm_error *err)
{
    uint32_t count = r->dictionary.count;
    uint32_t *class_of = xsmi_allocate(r->context, count, sizeof *class_of);
    int64_t *labels = xsmi_allocate(r->context, count, sizeof *labels);
    uint64_t *spare = xsmi_allocate(r->context, count, sizeof *spare);
    xsm_status status = XSM_OK;
    if (!class_of || !labels || !spare) {
        status = xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory for the map of %u labels", count);
    } else if (r->has_map) {
        match(r, class_of);
        status = xsmi_dataset_set_classes(d, r->map.classes, r->map.labels, r->map.names, err);
    } else if (numbers_of(&r->dictionary, labels)) {
        status = classes_of_numbers(r, d, labels, spare, class_of, err);
    } else {
        status = classes_of_words(r, d, spare, class_of, err);
    }
    for (size_t i = 0; i < r->label_count && status == XSM_OK; i++) {
        r->labels[i] = class_of[r->labels[i]];
    }
    xsmi_release(r->context, class_of, count, sizeof *class_of);
    xsmi_release(r->context, labels, count, sizeof *labels);
    xsmi_release(r->context, spare, count, sizeof *spare);
    return status;
}

/* -- the whole ---------------------------------------------------------------------------------------------------- */

/* Hands the arrays over to a dataset. They have room for one element at least, as a row has been reserved for. */
static xsm_status finish(xsmi_reader *r, xsm_dataset **out, xsm_error *err)
{
    if (r->rows == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "%s: the file has no rows; at least one is needed", r->source.name);
    }
    if (r->features == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%s: no row has a feature, so their number is not known; set xsm_read_options.features",
                         r->source.name);
    }
    /* At least one element each: a capacity of 0 would mean an array of the caller's. */
    XSMI_TRY(XSMI_GROW(r->context, r->values, r->value_capacity, 1, "feature values", err));
    XSMI_TRY(XSMI_GROW(r->context, r->labels, r->label_capacity, 1, "labels", err));
    xsm_dataset *d = NULL;
    XSMI_TRY(xsmi_dataset_start(r->context, &d, err));
    xsm_status status = set_classes(r, d, err);
    if (status != XSM_OK) {
        xsm_dataset_free(d);
        return status;
    }
    xsm_context *ctx = r->context;
    xsmi_shrink(ctx, &r->values, &r->value_capacity, r->value_count, sizeof *r->values);
    xsmi_shrink(ctx, &r->labels, &r->label_capacity, r->label_count, sizeof *r->labels);
    xsmi_shrink(ctx, &r->label_offsets, &r->label_offset_capacity, (size_t)r->rows + 1, sizeof *r->label_offsets);
    if (r->sparse) {
        xsmi_shrink(ctx, &r->index, &r->index_capacity, r->value_count, sizeof *r->index);
        xsmi_shrink(ctx, &r->offsets, &r->offset_capacity, (size_t)r->rows + 1, sizeof *r->offsets);
    }
    d->rows = r->rows;
    d->features = r->features;
    d->sparse = r->sparse;
    d->format = r->format;
    d->stride = r->stride;
    d->values = r->values;
    d->value_capacity = r->value_capacity;
    d->index = r->index;
    d->index_capacity = r->index_capacity;
    d->offsets = r->offsets;
    d->offset_capacity = r->offset_capacity;
    d->labels = r->labels;
    d->label_capacity = r->label_capacity;
    d->label_offsets = r->label_offsets;
    d->label_offset_capacity = r->label_offset_capacity;
    d->dropped_features = r->dropped;
    r->values = NULL;
    r->index = NULL;
    r->offsets = NULL;
    r->labels = NULL;
    r->label_offsets = NULL;
    xsmi_dataset_count_features(d);
    xsmi_dataset_count_labels(d);
    *out = d;
    return XSM_OK;
}

static xsm_status read_rows(xsmi_reader *r, xsm_error *err)
{
    xsmi_lines_start(&r->lines, &r->source);
    r->format = r->options.format;
    if (r->format == XSM_FORMAT_AUTO) {
        XSMI_TRY(detect(r, err));
    }
    r->sparse = r->format == XSM_FORMAT_XC || r->format == XSM_FORMAT_LIBSVM;
    bool words = !r->sparse;
    xsmi_dictionary_start(&r->dictionary, r->context, words);
    XSMI_TRY(xsmi_reader_reserve(r, 0, 0, err));
    r->label_offsets[0] = 0;
    if (r->sparse) {
        r->offsets[0] = 0;
    }
    switch (r->format) {
    case XSM_FORMAT_XC:
        return xsmi_read_xc(r, err);
    case XSM_FORMAT_LIBSVM:
        return xsmi_read_libsvm(r, err);
    default:
        return xsmi_read_dense(r, r->format == XSM_FORMAT_CSV ? ',' : '\t', err);
    }
}

static void end(xsmi_reader *r)
{
    xsm_context *ctx = r->context;
    if (r->dictionary.context) {
        xsmi_dictionary_end(&r->dictionary);
    }
    xsmi_lines_end(&r->lines);
    if (r->source.context) {
        xsmi_source_close(&r->source);
    }
    xsmi_release(ctx, r->values, r->value_capacity, sizeof *r->values);
    xsmi_release(ctx, r->index, r->index_capacity, sizeof *r->index);
    xsmi_release(ctx, r->offsets, r->offset_capacity, sizeof *r->offsets);
    xsmi_release(ctx, r->labels, r->label_capacity, sizeof *r->labels);
    xsmi_release(ctx, r->label_offsets, r->label_offset_capacity, sizeof *r->label_offsets);
    xsm_context_free(ctx);
}

static xsm_status read_all(xsm_context *context, const char *path, const xsm_source *host, const char *name,
                           const xsm_read_options *options, xsm_dataset **out, xsm_error *err)
{
    xsmi_reader r;
    memset(&r, 0, sizeof r);
    XSMI_TRY(xsmi_context_acquire(context, &r.context, err));
    xsm_status status = check_options(&r, options, err);
    if (status == XSM_OK) {
        status = host ? xsmi_source_open_host(&r.source, r.context, host, name, err)
                      : xsmi_source_open_file(&r.source, r.context, path, err);
    }
    if (status == XSM_OK) {
        status = read_rows(&r, err);
    }
    if (status == XSM_OK) {
        status = finish(&r, out, err);
    }
    end(&r);
    return status;
}

xsm_status xsm_dataset_read(xsm_context *context, const char *path, const xsm_read_options *options, xsm_dataset **out,
                            xsm_error *err)
{
    if (!path || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_read: %s is NULL", path ? "out" : "path");
    }
    return read_all(context, path, NULL, NULL, options, out, err);
}

xsm_status xsm_dataset_read_source(xsm_context *context, const xsm_source *source, const char *name,
                                   const xsm_read_options *options, xsm_dataset **out, xsm_error *err)
{
    if (!source || !source->read || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_read_source: %s is NULL",
                         !source         ? "source"
                         : !source->read ? "the source's read()"
                                         : "out");
    }
    return read_all(context, NULL, source, name ? name : "input", options, out, err);
}
