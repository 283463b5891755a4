/*
 * Rows, contexts and hashes.
 */
#include "bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>

const char *const bits_forms[BITS_FORMS] = {"dense", "sparse", "embedding"};

static void *memory(size_t count, size_t size)
{
    void *result = calloc(count ? count : 1, size);
    if (!result) {
        bits_fail("out of memory");
    }
    return result;
}

uint64_t bits_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

float bits_number(uint64_t *state)
{
    return (float)(int32_t)(bits_next(state) >> 40) / 8388608.0f - 1.0f; /* 24 bits: exact */
}

/* Classes of low number are frequent. */
static uint32_t draw_class(uint64_t *seed, uint32_t classes)
{
    uint64_t most = 1 + bits_next(seed) % classes;
    return (uint32_t)(bits_next(seed) % most);
}

static bool among(const uint32_t *list, uint64_t count, uint32_t value)
{
    for (uint64_t i = 0; i < count; i++) {
        if (list[i] == value) {
            return true;
        }
    }
    return false;
}

enum { MOST_LABELS = 3, MOST_VALUES = 9 };

static void make_labels(bits_rows *r, uint64_t *seed)
{
    for (uint64_t i = 0; i < r->rows; i++) {
        uint32_t *own = r->labels + r->label_offsets[i];
        uint64_t wanted = 1 + bits_next(seed) % MOST_LABELS, count = 0;
        while (count < wanted) {
            uint32_t label = draw_class(seed, r->classes);
            if (!among(own, count, label)) {
                own[count++] = label;
            }
        }
        r->first[i] = own[0];
        r->label_offsets[i + 1] = r->label_offsets[i] + count;
    }
}

/* A few features a row, in rising order; those of low number are frequent. Counts and fractions in turns. */
static void make_sparse(bits_rows *r, uint64_t *seed)
{
    for (uint64_t i = 0; i < r->rows; i++) {
        uint64_t at = r->offsets[i], wanted = 1 + bits_next(seed) % MOST_VALUES;
        uint32_t feature = 0;
        for (uint64_t n = 0; n < wanted; n++) {
            feature += (uint32_t)(bits_next(seed) % (r->features / MOST_VALUES));
            r->index[at] = feature++;
            r->values[at++] = n % 3 == 2 ? bits_number(seed) : (float)(1 + n % 2);
        }
        r->offsets[i + 1] = at;
    }
}

bits_rows *bits_rows_new(uint64_t rows, uint32_t features, uint32_t classes, bool sparse, uint64_t seed)
{
    bits_rows *r = memory(1, sizeof *r);
    r->rows = rows;
    r->features = features;
    r->classes = classes;
    r->sparse = sparse;
    r->label_offsets = memory(rows + 1, sizeof *r->label_offsets);
    r->labels = memory(rows * MOST_LABELS, sizeof *r->labels);
    r->first = memory(rows, sizeof *r->first);
    r->values = memory(rows * (sparse ? MOST_VALUES : features), sizeof *r->values);
    make_labels(r, &seed);
    if (sparse) {
        r->offsets = memory(rows + 1, sizeof *r->offsets);
        r->index = memory(rows * MOST_VALUES, sizeof *r->index);
        make_sparse(r, &seed);
    } else {
        for (uint64_t i = 0; i < rows * features; i++) {
            r->values[i] = bits_number(&seed);
        }
    }
    return r;
}

void bits_rows_free(bits_rows *r)
{
    free(r->offsets);
    free(r->index);
    free(r->values);
    free(r->label_offsets);
    free(r->labels);
    free(r->first);
    free(r);
}

static xsm_dataset *make_dataset(xsm_context *context, const bits_rows *r, bool several)
{
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = r->classes;
    labels.offsets = several ? r->label_offsets : NULL;
    labels.labels = several ? r->labels : r->first;
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *data = NULL;
    xsm_status status = r->sparse ? xsm_dataset_from_csr(context,
                                                         &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                                         .offsets = r->offsets,
                                                                         .index = r->index,
                                                                         .values = r->values,
                                                                         .rows = r->rows,
                                                                         .features = r->features,
                                                                         .labels = &labels},
                                                         &data, &err)
                                  : xsm_dataset_from_dense(context,
                                                           &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                                             .values = r->values,
                                                                             .rows = r->rows,
                                                                             .features = r->features,
                                                                             .labels = &labels},
                                                           &data, &err);
    if (status != XSM_OK) {
        bits_fail(err.message);
    }
    return data;
}

void bits_machine_open(bits_machine *m, const char *name, uint32_t threads, uint32_t cpu_disable, size_t every)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = threads;
    options.runner = m->runner;
    options.cpu_disable = cpu_disable;
    m->name = name;
    m->every = every;
    if (xsm_context_new(&options, &m->context, &err) != XSM_OK) {
        bits_fail(err.message);
    }
    for (int set = 0; set < BITS_SETS; set++) {
        m->one[set] = make_dataset(m->context, m->rows[set], false);
        m->several[set] = make_dataset(m->context, m->rows[set], true);
    }
}

void bits_machine_close(bits_machine *m)
{
    for (int set = 0; set < BITS_SETS; set++) {
        xsm_dataset_free(m->one[set]);
        xsm_dataset_free(m->several[set]);
    }
    xsm_context_free(m->context);
}

const char *bits_path(const bits_machine *m, const char *file)
{
    static char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", m->folder, file) >= sizeof path) {
        bits_fail("the folder for temporary files has too long a name");
    }
    return path;
}

/* -- hashes -------------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

void bits_add(uint64_t *hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t h = mix(*hash, size), word;
    for (; size >= sizeof word; size -= sizeof word, bytes += sizeof word) {
        memcpy(&word, bytes, sizeof word);
        h = mix(h, word);
    }
    word = 0;
    if (size) {
        memcpy(&word, bytes, size);
        h = mix(h, word);
    }
    *hash = h;
}

void bits_add_text(uint64_t *hash, const char *text)
{
    bits_add(hash, text, strlen(text));
}

void bits_add_double(uint64_t *hash, double value)
{
    bits_add(hash, &value, sizeof value);
}

void bits_add_count(uint64_t *hash, uint64_t value)
{
    *hash = mix(*hash, value);
}

/* A row of numbers, wherever they lie. */
static void add_strided(uint64_t *hash, const float *values, size_t step, size_t count)
{
    uint64_t h = mix(*hash, count);
    for (size_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, values + i * step, sizeof word);
        h = mix(h, word);
    }
    *hash = h;
}

xsm_status bits_add_model(uint64_t *hash, xsm_model *model, const xsm_dataset *data)
{
    enum { SCORED_ROWS = 4 };
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_status status = xsm_model_get_parameters(model, &p, &err);
    if (status != XSM_OK) {
        return status;
    }
    for (uint32_t k = 0; k < p.classes; k++) {
        add_strided(hash, p.weight + k * p.class_step, p.feature_step, p.features);
    }
    if (p.bias) {
        add_strided(hash, p.bias, 1, p.classes);
    }
    if (test_model_info(model).hidden) {
        xsm_embedding_parameters e = XSM_EMBEDDING_PARAMETERS_INIT;
        status = xsm_model_get_embedding_parameters(model, &e, &err);
        for (uint32_t j = 0; status == XSM_OK && j < e.features; j++) {
            add_strided(hash, e.vectors + j * e.feature_step, 1, e.hidden);
        }
    }
    static const char *const corrections[] = {"none", "classes", "tree", "sampler", "hierarchy", "pairs"};
    const int32_t correction = test_model_info(model).correction;
    if (status == XSM_OK && correction != XSM_CORRECTION_NONE) {
        float *scores = memory((size_t)p.classes * SCORED_ROWS, sizeof *scores);
        xsm_batch batch = xsm_batch_range(data, 0, SCORED_ROWS);
        status = xsm_model_score_range(model, &batch, 0, p.classes, scores, p.classes, &err);
        bits_add_text(hash, corrections[correction]);
        add_strided(hash, scores, 1, (size_t)p.classes * SCORED_ROWS);
        free(scores);
    }
    return status;
}

xsm_status bits_add_dataset(uint64_t *hash, const xsm_dataset *data)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_status status = xsm_dataset_get_info(data, &info, &err);
    bits_add_count(hash, info.features);
    bits_add_count(hash, info.classes);
    for (uint64_t i = 0; status == XSM_OK && i < info.rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        status = xsm_dataset_get_row(data, i, &row, &err);
        if (status == XSM_OK) {
            bits_add(hash, row.values, row.count * sizeof *row.values);
            bits_add(hash, row.index, row.index ? row.count * sizeof *row.index : 0);
            bits_add(hash, row.labels, row.label_count * sizeof *row.labels);
        }
    }
    return status;
}

/* Overwrites the text between the quotes that follow `key`. */
static void blank_value(char *header, const char *key)
{
    char *at = strstr(header, key);
    for (at = at ? at + strlen(key) : NULL; at && *at && *at != '"'; at++) {
        *at = '.';
    }
}

/* Overwrites the last number of a checkpoint's sums, the seconds that training took. */
static void blank_seconds(const char *header, char *data, size_t size)
{
    const char *at = strstr(header, "\"state.trainer.sums\":");
    at = at ? strstr(at, "\"data_offsets\":[") : NULL;
    unsigned long long first, end;
    if (at && sscanf(at, "\"data_offsets\":[%llu,%llu]", &first, &end) == 2 && end <= size && end >= sizeof(double)) {
        memset(data + end - sizeof(double), 0, sizeof(double));
    }
}

xsm_status bits_add_file(uint64_t *hash, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        bits_fail("a file that was written cannot be read");
    }
    size_t size = (size_t)ftell(file);
    char *bytes = memory(size + 1, 1);
    rewind(file);
    if (fread(bytes, 1, size, file) != size) {
        bits_fail("a file that was written cannot be read");
    }
    fclose(file);
    uint64_t length = 0;
    if (size > sizeof length) {
        memcpy(&length, bytes, sizeof length);
    }
    if (size > sizeof length && length < size - sizeof length && bytes[sizeof length] == '{') {
        char *header = bytes + sizeof length, *data = header + length, first = *data;
        *data = 0;
        blank_value(header, "\"checksum\":\"");
        blank_value(header, "\"library\":\"");
        blank_seconds(header, data, size - sizeof length - length);
        *data = first;
    }
    bits_add(hash, bytes, size);
    free(bytes);
    return XSM_OK;
}
