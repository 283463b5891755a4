/*
 * A dataset as one safetensors file that is mapped when it is read:
 *
 *     offsets       U64 [N+1]        sparse rows: row i has the values offsets[i]..offsets[i+1]
 *     label_offsets U64 [N+1]        likewise its labels
 *     class_labels  I64 [K]          the file's label of each class, if labels are not class numbers
 *     class_counts  I64 [K]          rows with each class
 *     values        F32 [nnz], or [N, D] when dense
 *     index         U32 [nnz]        sparse rows: the features, increasing
 *     labels        U32 [L]          classes, or 2^32 - 1 for one that the class map lacks
 *     weights       F32 [N]          of the rows, if they have weights
 *     label_weights F32 [L]          of the labels, likewise
 *     class_names   U8 [bytes]       a name a line, if classes have names
 *     vocabulary    U8 [bytes]       or feature_names, what features are: schema_file.c
 *
 * and metadata `dataset` = "1", `features`, `classes`, `index_base`, `source_format`, `dropped_features` and the counts
 * of special rows. Reading trusts none of it: in one pass, whether or not the checksum is compared, offsets, indexes,
 * labels and values are checked, and rows and labels are counted again. `transformed` = "1": a transform has changed
 * the rows.
 */
#include "read/foreign.h"
#include "read/format.h"
#include "base/activity.h"
#include "base/option.h"
#include "base/spool.h"
#include "base/utf8.h"
#include "data/schema.h"

#include <inttypes.h>
#include <string.h>

#define KEY_TRANSFORMED "transformed"
#define PIECE ((size_t)16 << 20)

/* The numbers of the metadata, with their members of a dataset. */
typedef struct number {
    const char *key;
    uint64_t value;
} number;

enum { FEATURES, CLASSES, SOURCE_FORMAT, DROPPED, UNLABELLED, EMPTY, UNSEEN_ROWS, UNSEEN_LABELS, NUMBERS };

static void list_numbers(const xsm_dataset *d, number n[NUMBERS])
{
    n[FEATURES] = (number){"features", d->features};
    n[CLASSES] = (number){"classes", d->classes};
    n[SOURCE_FORMAT] = (number){"source_format", (uint64_t)d->format};
    n[DROPPED] = (number){"dropped_features", d->counted.dropped_features};
    n[UNLABELLED] = (number){"rows_without_label", d->counted.unlabelled};
    n[EMPTY] = (number){"rows_without_feature", d->counted.empty};
    n[UNSEEN_ROWS] = (number){"rows_unseen", d->counted.unseen_rows};
    n[UNSEEN_LABELS] = (number){"labels_unseen", d->counted.unseen_labels};
}

/* -- writing ------------------------------------------------------------------------------------------------------ */

/* Writes large arrays in pieces and releases mapped pages after each piece. */
static xsm_status write_array(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_dataset *d = c->of;
    const char *data = (const char *)c->tensor.data;
    size_t since = 0, bytes;
    (void)xsmi_tensor_bytes(&c->tensor, &bytes);
    for (size_t at = 0; at < bytes; at += PIECE) {
        size_t size = bytes - at < PIECE ? bytes - at : PIECE;
        XSMI_TRY(xsmi_container_write(w, data + at, size, err));
        since += size;
        if (since >= XSMI_FORGET_BYTES) {
            since = 0;
            for (size_t i = 0; i < d->mapped.count; i++) {
                xsmi_mapping_forget(&d->mapped.files[i]);
            }
        }
    }
    return XSM_OK;
}

static xsm_status write_rows(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_dataset *d = c->of;
    for (uint64_t i = 0; i < d->rows; i++) {
        XSMI_TRY(xsmi_container_write(w, d->values + i * d->stride, d->features * sizeof *d->values, err));
        xsmi_dataset_passed(d, i, 1);
    }
    return XSM_OK;
}

static xsm_status write_names(const xsmi_content *c, xsmi_container_writer *w, xsm_error *err)
{
    const xsm_dataset *d = c->of;
    for (uint32_t k = 0; k < d->classes; k++) {
        XSMI_TRY(xsmi_container_write(w, d->map.names[k], strlen(d->map.names[k]) + 1, err));
    }
    return XSM_OK;
}

/* Adds an array of the rows. */
static void add(xsmi_contents *c, const xsm_dataset *d, const char *name, xsmi_dtype dtype, uint64_t count,
                const void *data)
{
    const xsmi_tensor tensor = {.name = name, .dtype = dtype, .rank = 1, .shape = {count}, .data = data};
    xsmi_contents_add(c, (xsmi_content){.tensor = tensor, .write = write_array, .of = d});
}

static void add_values(xsmi_contents *c, const xsm_dataset *d)
{
    const uint64_t count = d->sparse ? d->offsets[d->rows] : d->rows;
    const xsmi_tensor tensor = {.name = "values",
                                .dtype = XSMI_DTYPE_F32,
                                .rank = d->sparse ? 1 : 2,
                                .shape = {count, d->sparse ? 0 : d->features},
                                .data = (const void *)d->values};
    const bool whole = d->sparse || d->stride == d->features;
    xsmi_contents_add(
        c, (xsmi_content){.tensor = tensor, .write = whole ? write_array : write_rows, .of = d, .aligned = true});
    if (d->sparse) {
        add(c, d, "index", XSMI_DTYPE_U32, count, d->index);
    }
}

static void list_arrays(const xsm_dataset *d, xsmi_contents *c)
{
    const uint64_t rows = d->rows, labels = d->label_offsets[rows];
    if (d->sparse) {
        add(c, d, "offsets", XSMI_DTYPE_U64, rows + 1, d->offsets);
    }
    add(c, d, "label_offsets", XSMI_DTYPE_U64, rows + 1, d->label_offsets);
    if (d->map.labels) {
        add(c, d, "class_labels", XSMI_DTYPE_I64, d->classes, d->map.labels);
    }
    add(c, d, "class_counts", XSMI_DTYPE_I64, d->classes, d->map.counts);
    add_values(c, d);
    add(c, d, "labels", XSMI_DTYPE_U32, labels, d->labels);
    if (d->weights) {
        add(c, d, "weights", XSMI_DTYPE_F32, rows, d->weights);
    }
    if (d->label_weights) {
        add(c, d, "label_weights", XSMI_DTYPE_F32, labels, d->label_weights);
    }
    if (d->map.names) {
        uint64_t bytes = 0;
        for (uint32_t k = 0; k < d->classes; k++) {
            bytes += strlen(d->map.names[k]) + 1;
        }
        const xsmi_tensor names = {.name = "class_names", .dtype = XSMI_DTYPE_U8, .rank = 1, .shape = {bytes}};
        xsmi_contents_add(c, (xsmi_content){.tensor = names, .write = write_names, .of = d});
    }
}

static xsm_status list(const xsm_dataset *d, xsmi_contents *c, xsm_error *err)
{
    number numbers[NUMBERS];
    list_arrays(d, c);
    XSMI_TRY(xsmi_schema_list(d->schema, c, err));
    XSMI_TRY(xsmi_schema_list_base(d->schema, c, err));
    list_numbers(d, numbers);
    XSMI_TRY(xsmi_settings_add(&c->metadata, XSMI_KEY_DATASET, "", "1", err));
    for (size_t i = 0; i < NUMBERS; i++) {
        XSMI_TRY(xsmi_settings_add_whole(&c->metadata, numbers[i].key, numbers[i].value, err));
    }
    return d->transformed ? xsmi_settings_add(&c->metadata, KEY_TRANSFORMED, "", "1", err) : XSM_OK;
}

static xsm_status save(const xsm_dataset *d, const char *path, xsmi_activity *activity, xsm_error *err)
{
    xsmi_contents c;
    const xsmi_place place = {.name = path};
    xsmi_contents_start(&c, d->context);
    xsm_status status = list(d, &c, err);
    status = status == XSM_OK ? xsmi_contents_save(&c, &place, activity, err) : status;
    xsmi_contents_end(&c);
    return status;
}

/* -- reading ------------------------------------------------------------------------------------------------------ */

static xsmi_match begins(const unsigned char *start, size_t size)
{
    return xsmi_is_safetensors(start, size) ? XSMI_MATCH_SURE : XSMI_MATCH_NO;
}

typedef struct cache {
    const char *path;
    const xsmi_container *file;
    xsm_dataset *d;
    uint64_t numbers[NUMBERS];
    const xsmi_tensor *counts; /* class_counts */
} cache;

#define FAIL(c, err, ...) FAIL_TEXT(c, err, __VA_ARGS__)
#define FAIL_TEXT(c, err, format, ...) xsmi_fail(err, XSM_ERROR_FORMAT, "%s: " format, (c)->path, __VA_ARGS__)

/* Finds a required tensor with the given number of elements (UINT64_MAX: any number). */
static xsm_status find(const cache *c, const char *name, xsmi_dtype dtype, uint64_t count, const xsmi_tensor **out,
                       xsm_error *err)
{
    const xsmi_tensor *t = xsmi_container_tensor(c->file, name);
    if (!t || t->dtype != dtype || t->rank != 1 || (count != UINT64_MAX && t->shape[0] != count)) {
        return FAIL(c, err, "the dataset needs a tensor '%s', %s of %s%llu elements%s", name, xsmi_dtype_name(dtype),
                    count == UINT64_MAX ? "at least " : "", count == UINT64_MAX ? 1ULL : (unsigned long long)count,
                    t ? ", and it has another of that name" : "");
    }
    *out = t;
    return XSM_OK;
}

static xsm_status read_numbers(cache *c, xsm_error *err)
{
    number n[NUMBERS];
    const char *kind = xsmi_container_metadata(c->file, XSMI_KEY_DATASET);
    list_numbers(c->d, n);
    if (!kind || strcmp(kind, "1") != 0) {
        const char *found = xsmi_container_kind(c->file);
        return FAIL(c, err, "%s, and rows are wanted: a cache that xsm_dataset_write() has written, or text",
                    found ? found : "a safetensors file of others");
    }
    for (size_t i = 0; i < NUMBERS; i++) {
        int64_t value = 0;
        const char *text = xsmi_container_metadata(c->file, n[i].key);
        if (!text || !xsmi_parse_int(text, &value) || value < 0) {
            return FAIL(c, err, "the metadata '%s' is '%.40s'; a number from 0 on is needed", n[i].key,
                        text ? text : "");
        }
        c->numbers[i] = (uint64_t)value;
    }
    if (c->numbers[FEATURES] > XSM_FEATURES_MAX || c->numbers[CLASSES] > XSM_CLASSES_MAX ||
        c->numbers[SOURCE_FORMAT] > XSM_FORMAT_NPZ) {
        return FAIL(c, err, "%llu features, %llu classes, source_format %llu: beyond what there is",
                    (unsigned long long)c->numbers[FEATURES], (unsigned long long)c->numbers[CLASSES],
                    (unsigned long long)c->numbers[SOURCE_FORMAT]);
    }
    return XSM_OK;
}

/* Offsets, and bytes of rows, that are checked between two polls. */
#define OFFSETS_TOGETHER (1 << 16)
#define BYTES_TOGETHER ((size_t)256 << 10)

/* Checks that offsets rise from 0 to `total`, so that rows lie within their arrays. */
static xsm_status check_offsets(const cache *c, const uint64_t *offsets, uint64_t rows, uint64_t total,
                                const char *what, xsm_error *err)
{
    bool good = offsets[0] == 0 && offsets[rows] == total;
    uint64_t row = 0;
    for (; row < rows && good; row++) {
        good = offsets[row + 1] >= offsets[row];
        if (row % OFFSETS_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(c->d->context, err));
        }
    }
    return good ? XSM_OK
                : FAIL(c, err, "'%s' is wrong at row %llu (from 0): it must rise from 0 to %llu", what,
                       (unsigned long long)(row ? row - 1 : 0), (unsigned long long)total);
}

static xsm_status read_rows(cache *c, xsm_error *err)
{
    xsm_dataset *d = c->d;
    const xsmi_tensor *t = NULL;
    XSMI_TRY(find(c, "label_offsets", XSMI_DTYPE_U64, UINT64_MAX, &t, err));
    if (t->shape[0] < 2) {
        return FAIL(c, err, "%s", "no rows; at least one is needed");
    }
    d->rows = t->shape[0] - 1;
    d->label_offsets = (const uint64_t *)(const void *)t->data;
    XSMI_TRY(find(c, "labels", XSMI_DTYPE_U32, UINT64_MAX, &t, err));
    d->labels = (const uint32_t *)(const void *)t->data;
    XSMI_TRY(check_offsets(c, d->label_offsets, d->rows, t->shape[0], "label_offsets", err));
    d->features = (uint32_t)c->numbers[FEATURES];
    d->sparse = xsmi_container_tensor(c->file, "index") != NULL;
    if (d->sparse) {
        const xsmi_tensor *index = NULL;
        XSMI_TRY(find(c, "offsets", XSMI_DTYPE_U64, d->rows + 1, &t, err));
        d->offsets = (const uint64_t *)(const void *)t->data;
        XSMI_TRY(find(c, "index", XSMI_DTYPE_U32, UINT64_MAX, &index, err));
        d->index = (const uint32_t *)(const void *)index->data;
        XSMI_TRY(find(c, "values", XSMI_DTYPE_F32, index->shape[0], &t, err));
        d->values = (const float *)(const void *)t->data;
        return check_offsets(c, d->offsets, d->rows, index->shape[0], "offsets", err);
    }
    t = xsmi_container_tensor(c->file, "values");
    if (!t || t->dtype != XSMI_DTYPE_F32 || t->rank != 2 || t->shape[0] != d->rows || t->shape[1] != d->features) {
        return FAIL(c, err, "the dataset needs a tensor 'values', F32 of %llu rows and %u columns",
                    (unsigned long long)d->rows, d->features);
    }
    d->values = (const float *)(const void *)t->data;
    d->stride = d->features;
    return XSM_OK;
}

static xsm_status read_weights(cache *c, xsm_error *err)
{
    const xsmi_tensor *t = NULL;
    if (xsmi_container_tensor(c->file, "weights")) {
        XSMI_TRY(find(c, "weights", XSMI_DTYPE_F32, c->d->rows, &t, err));
        c->d->weights = (const float *)(const void *)t->data;
        if (xsmi_check_weights(c->d->weights, c->d->rows, "rows", NULL) != XSM_OK) {
            return FAIL(c, err, "%s", "a weight of a row is not finite or below 0");
        }
    }
    if (xsmi_container_tensor(c->file, "label_weights")) {
        const uint64_t labels = c->d->label_offsets[c->d->rows];
        XSMI_TRY(find(c, "label_weights", XSMI_DTYPE_F32, labels, &t, err));
        c->d->label_weights = (const float *)(const void *)t->data;
        if (xsmi_check_weights(c->d->label_weights, labels, "labels", NULL) != XSM_OK) {
            return FAIL(c, err, "%s", "a weight of a label is not finite or below 0");
        }
    }
    return XSM_OK;
}

/* Sets names[] to the names in the file, where each is terminated. */
static xsm_status find_names(const cache *c, const xsmi_tensor *t, const char **names, uint32_t classes, xsm_error *err)
{
    const char *p = (const char *)t->data;
    const char *end = p + t->size;
    for (uint32_t k = 0; k < classes; k++) {
        const char *stop = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;
        if (!stop || xsmi_utf8_prefix(p, (size_t)(stop - p)) < (size_t)(stop - p)) {
            return FAIL(c, err, "the name of class %u is missing or not UTF-8", k);
        }
        names[k] = p;
        p = stop + 1;
    }
    return p == end ? XSM_OK : FAIL(c, err, "more names than the %u classes", classes);
}

static xsm_status read_classes(cache *c, xsm_error *err)
{
    xsm_dataset *d = c->d;
    uint32_t classes = (uint32_t)c->numbers[CLASSES];
    const int64_t *labels = NULL;
    const xsmi_tensor *t = NULL;
    XSMI_TRY(find(c, "class_counts", XSMI_DTYPE_I64, classes, &c->counts, err)); /* checked before memory for so many
                                                                                    classes is allocated */
    if (xsmi_container_tensor(c->file, "class_labels")) {
        XSMI_TRY(find(c, "class_labels", XSMI_DTYPE_I64, classes, &t, err));
        labels = (const int64_t *)(const void *)t->data;
        for (uint32_t k = 1; k < classes; k++) {
            if (labels[k] <= labels[k - 1]) {
                return FAIL(c, err, "the label of class %u does not rise", k);
            }
        }
    }
    const xsmi_tensor *lines = xsmi_container_tensor(c->file, "class_names");
    const char **names = lines ? xsmi_allocate(d->context, classes, sizeof *names) : NULL;
    if (lines && !names) {
        return xsmi_fail_memory(err, classes * sizeof *names, "the names of classes");
    }
    xsm_status status = lines ? find_names(c, lines, names, classes, err) : XSM_OK;
    if (status == XSM_OK) {
        status = xsmi_dataset_set_classes(d, classes, labels, names, err);
    }
    xsmi_release(d->context, names, classes, sizeof *names);
    return status;
}

/* Whether a row's values are finite, and its features rise and are below D; *any: one is not 0. */
static bool is_row(const xsmi_features *f, uint32_t features, bool *any)
{
    uint32_t bad = 0, some = 0;
    for (size_t j = 0; j < f->count; j++) {
        uint32_t bits;
        memcpy(&bits, &f->values[j], sizeof bits);
        bad |= (bits & UINT32_C(0x7F800000)) == UINT32_C(0x7F800000);
        some |= bits << 1;
    }
    for (size_t j = 1; f->index && j < f->count; j++) {
        bad |= f->index[j] <= f->index[j - 1];
    }
    *any = some != 0;
    return !bad && (!f->index || f->count == 0 || f->index[f->count - 1] < features);
}

/* Checks the features in one pass, in the order of the file. */
static xsm_status check_features(const cache *c, xsm_error *err)
{
    xsm_dataset *d = c->d;
    size_t since = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        xsmi_features f = xsmi_dataset_features(d, i);
        bool any;
        since += (f.count + 1) * sizeof *f.values;
        if (since > BYTES_TOGETHER) {
            since = 0;
            XSMI_TRY(xsmi_go_on(d->context, err));
        }
        if (!is_row(&f, d->features, &any)) {
            return FAIL(
                c, err,
                "row %llu (from 0) has a value that is not finite, or a feature that does not rise or is not below %u",
                (unsigned long long)i, d->features);
        }
        d->counted.empty += !any;
        xsmi_dataset_passed(d, i, 1);
    }
    return XSM_OK;
}

/* Compares the file's numbers of its rows with those that were counted. */
static xsm_status check_counts(const cache *c, xsm_error *err)
{
    const xsm_dataset *d = c->d;
    number n[NUMBERS];
    list_numbers(d, n);
    for (size_t i = UNLABELLED; i < NUMBERS; i++) {
        if (n[i].value != c->numbers[i]) {
            return FAIL(c, err, "the metadata '%s' is %llu, and there are %llu", n[i].key,
                        (unsigned long long)c->numbers[i], (unsigned long long)n[i].value);
        }
    }
    for (uint32_t k = 0; k < d->classes; k++) {
        uint64_t rows;
        memcpy(&rows, c->counts->data + k * sizeof rows, sizeof rows);
        if (rows != d->map.counts[k]) {
            return FAIL(c, err, "'class_counts' has %lld rows of class %u, and there are %llu", (long long)rows, k,
                        (unsigned long long)d->map.counts[k]);
        }
    }
    return XSM_OK;
}

static xsm_status fill(cache *c, xsm_error *err)
{
    xsm_dataset *d = c->d;
    XSMI_TRY(read_numbers(c, err));
    XSMI_TRY(read_rows(c, err));
    XSMI_TRY(read_weights(c, err));
    XSMI_TRY(read_classes(c, err));
    XSMI_TRY(xsmi_schema_load(d->context, c->file, c->path, &d->schema, err));
    d->transformed = xsmi_container_metadata(c->file, KEY_TRANSFORMED) != NULL;
    d->format = XSM_FORMAT_CACHE;
    d->counted.dropped_features = c->numbers[DROPPED];
    XSMI_TRY(xsmi_container_check_known(c->file, c->path, "a cache", err));
    XSMI_TRY(check_features(c, err));
    XSMI_TRY(xsmi_dataset_check_labels(d, c->path, err));
    return check_counts(c, err);
}

static xsm_status map(xsm_context *ctx, const char *path, bool believe, xsm_dataset **out, xsm_error *err)
{
    xsmi_container *file;
    XSMI_TRY(xsmi_container_open(ctx, path, !believe, &file, err));
    cache c = {.path = path, .file = file};
    xsm_status status = xsmi_dataset_start(ctx, &c.d, err);
    if (status == XSM_OK) {
        /* From here on the dataset owns the mapping; the tensors do not move. */
        c.d->mapped.files[c.d->mapped.count++] = xsmi_container_detach_mapping(file);
        status = fill(&c, err);
    }
    xsmi_container_close(file);
    if (status != XSM_OK) {
        xsm_dataset_free(c.d);
        return status;
    }
    *out = c.d;
    return XSM_OK;
}

const xsmi_format xsmi_cache_format = {
    .id = XSM_FORMAT_CACHE,
    .name = "CACHE",
    .accepts = XSMI_ACCEPTS_SKIP_VERIFY,
    .named = true,
    .begins = begins,
    .map = map,
    .save = save,
};
