/*
 * Matches the features of rows with those of a model: which feature of the model each is, or why there is none.
 */
#include "data/schema.h"
#include "base/activity.h"
#include "base/order.h"
#include "data/sort.h"
#include "base/utf8.h"
#include "data/vocabulary.h"

#include <stdio.h>
#include <string.h>

/* Features compared between two polls. */
#define FEATURES_TOGETHER (1 << 16)

/* -- messages ------------------------------------------------------------------------------------------------------ */

#define DESCRIPTION (XSMI_QUOTE_SIZE + 48)

/* Returns what a feature is, such as "the word 'salt'". */
static const char *describe(const xsmi_schema *s, uint32_t j, char text[DESCRIPTION])
{
    char quote[XSMI_QUOTE_SIZE];
    size_t length = 0;
    const uint32_t first = s->vocabulary ? xsmi_vocabulary_first_words(s->vocabulary) : 0;
    const uint32_t buckets = s->vocabulary ? xsmi_vocabulary_buckets(s->vocabulary) : 0;
    if (s->kind == XSMI_SCHEMA_NUMBERS && (!s->numbers || j < s->count)) {
        snprintf(text, DESCRIPTION, "number %lld", (long long)xsmi_schema_number(s, j));
    } else if (j >= s->count) {
        snprintf(text, DESCRIPTION, "none");
    } else if (s->kind == XSMI_SCHEMA_COLUMNS) {
        snprintf(text, DESCRIPTION, "the column %s", xsmi_quote(quote, s->names[j], strlen(s->names[j])));
    } else if (j >= first && j - first < buckets) {
        snprintf(text, DESCRIPTION, "bucket %u of n-grams", j - first);
    } else {
        const char *word =
            xsmi_dictionary_text(xsmi_vocabulary_dictionary(s->vocabulary), j < first ? j : j - buckets, &length);
        snprintf(text, DESCRIPTION, "the word %s", xsmi_quote(quote, word, length));
    }
    return text;
}

static xsm_status refuse_kinds(const xsmi_feature_map *map, xsm_error *err)
{
    static const char *const kinds[] = {"words", "columns of a table", "numbers"};
    char rows[DESCRIPTION], wanted[DESCRIPTION];
    return xsmi_fail(err, XSM_ERROR_DATA,
                     "the features of %s are %s, and those of %s are %s: the first is %s here, and %s there; rows of "
                     "the same kind are accepted",
                     map->rows.what, kinds[map->rows.schema->kind], map->wanted.what, kinds[map->wanted.schema->kind],
                     describe(map->rows.schema, 0, rows), describe(map->wanted.schema, 0, wanted));
}

/* Returns the first feature of the rows that has another number on the other side. */
static uint32_t first_difference(const xsmi_feature_map *map)
{
    uint32_t j = 0;
    while (j < map->from && map->to[j] == j) {
        j++;
    }
    return j;
}

static xsm_status refuse_at(const xsmi_feature_map *map, uint32_t j, xsm_error *err)
{
    char rows[DESCRIPTION], wanted[DESCRIPTION];
    return xsmi_fail(err, XSM_ERROR_DATA,
                     "feature %u (from 0) is %s in %s, and %s in %s; rows that are read with the model's class map are "
                     "accepted",
                     j, describe(map->rows.schema, j, rows), map->rows.what, describe(map->wanted.schema, j, wanted),
                     map->wanted.what);
}

static xsm_status refuse_difference(const xsmi_feature_map *map, xsm_error *err)
{
    return map->to ? refuse_at(map, first_difference(map), err)
                   : xsmi_fail(err, XSM_ERROR_DATA,
                               "the features of %s are numbered from %d, and those of %s from %d; rows of the same "
                               "base are accepted, and files that are read with the model's class map",
                               map->rows.what, map->rows.schema->index_base == XSM_INDEX_BASE_ONE, map->wanted.what,
                               map->wanted.schema->index_base == XSM_INDEX_BASE_ONE);
}

/* Refuses the numbers 1 to D where 0 to D - 1 are wanted: rather than one new feature, this is another index base. */
static xsm_status refuse_counted(const xsmi_feature_map *map, xsm_error *err)
{
    const uint32_t features = map->wanted.features;
    return xsmi_fail(
        err, XSM_ERROR_DATA,
        "the features of %s are numbered from 1 to %u, and those of %s from 0 to %u, as if both counted the "
        "same ones; LIBSVM that is read with the class map and xsm_read_options.index_base is accepted",
        map->rows.what, features, map->wanted.what, features - 1);
}

/* -- comparing ----------------------------------------------------------------------------------------------------- */

static void note_unknown(xsmi_feature_map *map, uint32_t feature)
{
    map->to[feature] = XSMI_NO_FEATURE;
    map->first_unknown = map->unknown == 0 ? feature : XSMI_MIN(map->first_unknown, feature);
    map->unknown++;
}

static const char *words_like(const xsm_vocabulary *v)
{
    return !xsmi_vocabulary_is_fasttext(v) ? "the library's"
           : xsmi_vocabulary_kept(v)       ? "a pruned fastText's"
                                           : "fastText's";
}

/* Words are features of both only if both make n-grams alike; how rare words were left out does not matter. */
static xsm_status compare_settings(const xsmi_feature_map *map, xsm_error *err)
{
    const xsm_vocabulary *rows = map->rows.schema->vocabulary, *wanted = map->wanted.schema->vocabulary;
    const xsm_text_options *a = xsmi_vocabulary_options(rows), *b = xsmi_vocabulary_options(wanted);
    const struct {
        const char *name;
        uint32_t rows, wanted;
    } settings[] = {
        {"word_ngrams", a->word_ngrams, b->word_ngrams},
        {"min_chars", a->min_chars, b->min_chars},
        {"max_chars", a->max_chars, b->max_chars},
        {"buckets", xsmi_text_buckets(a), xsmi_text_buckets(b)},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (settings[i].rows != settings[i].wanted) {
            return xsmi_fail(err, XSM_ERROR_DATA,
                             "the text of %s was read with xsm_text_options.%s %u, and that of %s with %u; text that "
                             "is read with the model's class map is accepted",
                             map->rows.what, settings[i].name, settings[i].rows, map->wanted.what, settings[i].wanted);
        }
    }
    return xsmi_vocabulary_same_ngrams(rows, wanted)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_DATA,
                           "the text of %s was read with %s words and n-grams, and that of %s with %s; text that is "
                           "read with the model's class map is accepted",
                           map->rows.what, words_like(rows), map->wanted.what, words_like(wanted));
}

static xsm_status match_words(xsmi_feature_map *map, xsm_error *err)
{
    const xsm_vocabulary *rows = map->rows.schema->vocabulary, *wanted = map->wanted.schema->vocabulary;
    const xsmi_dictionary *from = xsmi_vocabulary_dictionary(rows), *to = xsmi_vocabulary_dictionary(wanted);
    const uint32_t buckets = xsmi_vocabulary_buckets(rows);
    XSMI_TRY(compare_settings(map, err));
    for (uint32_t i = 0; i < from->count; i++) {
        size_t length;
        const char *word = xsmi_dictionary_text(from, i, &length);
        const uint32_t place = xsmi_dictionary_find_hashed_word(to, from->entries[i].key, word, length);
        const uint32_t feature = xsmi_vocabulary_feature(rows, i);
        if (place == UINT32_MAX) {
            note_unknown(map, feature);
        } else {
            map->to[feature] = xsmi_vocabulary_feature(wanted, place);
        }
        XSMI_TRY(i % FEATURES_TOGETHER == 0 ? xsmi_go_on(map->context, err) : XSM_OK);
    }
    for (uint32_t i = 0; i < buckets; i++) {
        map->to[xsmi_vocabulary_first_words(rows) + i] = xsmi_vocabulary_first_words(wanted) + i;
    }
    return XSM_OK;
}

static int name_before(const void *state, uint32_t a, uint32_t b)
{
    const char *const *names = state;
    return strcmp(names[a], names[b]) < 0;
}

static xsm_status sort_names(const xsmi_schema *s, uint32_t *sorted, uint32_t *scratch, xsm_error *err)
{
    for (uint32_t j = 0; j < s->count; j++) {
        sorted[j] = j;
    }
    xsmi_sort_by(s->context, name_before, s->names, sorted, scratch, s->count);
    return xsmi_go_on(s->context, err);
}

static xsm_status refuse_missing(const xsmi_feature_map *map, uint32_t column, uint32_t missing, xsm_error *err)
{
    char quote[XSMI_QUOTE_SIZE], first[DESCRIPTION];
    const char *name = map->wanted.schema->names[column];
    return xsmi_fail(err, XSM_ERROR_DATA,
                     "the column %s of %s is missing in %s%s, whose first is %s; a table with all of the model's "
                     "columns, in any order, is accepted",
                     xsmi_quote(quote, name, strlen(name)), map->wanted.what, map->rows.what,
                     missing > 1 ? " (and others are)" : "", describe(map->rows.schema, 0, first));
}

/* Pairs columns of one name in their order: the first with the first of the other side, and so on. */
static xsm_status pair_names(xsmi_feature_map *map, uint32_t *a, uint32_t *b, uint32_t *scratch, xsm_error *err)
{
    const xsmi_schema *rows = map->rows.schema, *wanted = map->wanted.schema;
    uint32_t i = 0, j = 0, missing = 0, first = UINT32_MAX;
    XSMI_TRY(sort_names(rows, a, scratch, err));
    XSMI_TRY(sort_names(wanted, b, scratch, err));
    while (i < rows->count || j < wanted->count) {
        const int order = i == rows->count     ? 1
                          : j == wanted->count ? -1
                                               : strcmp(rows->names[a[i]], wanted->names[b[j]]);
        if (order == 0) {
            map->to[a[i++]] = b[j++];
        } else if (order < 0) {
            note_unknown(map, a[i++]);
        } else {
            first = XSMI_MIN(first, b[j]);
            missing++;
            j++;
        }
    }
    return missing == 0 ? XSM_OK : refuse_missing(map, first, missing, err);
}

static xsm_status match_columns(xsmi_feature_map *map, xsm_error *err)
{
    const xsmi_schema *rows = map->rows.schema, *wanted = map->wanted.schema;
    const size_t count = (size_t)rows->count + wanted->count + XSMI_MAX(rows->count, wanted->count);
    uint32_t *work;
    XSMI_TRY(xsmi_array_new(rows->context, &work, count, sizeof *work, "the names of columns", err));
    const xsm_status status =
        pair_names(map, work, work + rows->count, work + rows->count + (size_t)wanted->count, err);
    xsmi_release(rows->context, work, count, sizeof *work);
    return status;
}

/* Matches numbers where one side has a list of them, which `places` holds; the other may have all numbers below a D. */
static xsm_status match_numbers(xsmi_feature_map *map, xsmi_dictionary *places, xsm_error *err)
{
    const xsmi_schema *rows = map->rows.schema, *wanted = map->wanted.schema;
    const int64_t most = map->wanted.features ? map->wanted.features : XSM_FEATURES_MAX;
    for (uint32_t j = 0; wanted->numbers && j < wanted->count; j++) {
        uint32_t place;
        XSMI_TRY(xsmi_dictionary_number(places, wanted->numbers[j], &place, err));
    }
    for (uint32_t j = 0; j < map->from; j++) {
        const int64_t number = xsmi_schema_number(rows, j), plain = number - xsmi_schema_number(wanted, 0);
        map->to[j] = wanted->numbers              ? xsmi_dictionary_find_number(places, number)
                     : plain >= 0 && plain < most ? (uint32_t)plain
                                                  : XSMI_NO_FEATURE;
        if (map->to[j] == XSMI_NO_FEATURE) {
            note_unknown(map, j);
        }
        XSMI_TRY(j % FEATURES_TOGETHER == 0 ? xsmi_go_on(map->context, err) : XSM_OK);
    }
    return XSM_OK;
}

static xsm_status match_number_lists(xsmi_feature_map *map, xsm_error *err)
{
    xsmi_dictionary places;
    xsmi_dictionary_start(&places, map->context, false);
    const xsm_status status = match_numbers(map, &places, err);
    xsmi_dictionary_end(&places);
    return status;
}

static xsm_status match_lists(xsmi_feature_map *map, xsm_error *err)
{
    const xsmi_schema *rows = map->rows.schema;
    map->context = xsmi_context_retain(rows->context);
    map->from = rows->count ? rows->count : map->rows.features ? map->rows.features : map->wanted.schema->count;
    XSMI_TRY(xsmi_array_new(rows->context, &map->to, map->from, sizeof *map->to, "the numbers of features", err));
    XSMI_TRY(rows->kind == XSMI_SCHEMA_WORDS     ? match_words(map, err)
             : rows->kind == XSMI_SCHEMA_COLUMNS ? match_columns(map, err)
                                                 : match_number_lists(map, err));
    map->same = first_difference(map) == map->from;
    return XSM_OK;
}

static xsm_status match(xsmi_feature_map *map, xsm_error *err)
{
    const xsmi_schema *rows = map->rows.schema, *wanted = map->wanted.schema;
    map->same = !rows || !wanted || xsmi_schema_equal(rows, wanted);
    if (map->same) {
        return XSM_OK;
    }
    if (rows->kind != wanted->kind) {
        return refuse_kinds(map, err);
    }
    if (rows->kind != XSMI_SCHEMA_NUMBERS || rows->numbers || wanted->numbers) {
        return match_lists(map, err);
    }
    map->shift = (rows->index_base == XSM_INDEX_BASE_ONE) - (wanted->index_base == XSM_INDEX_BASE_ONE);
    map->same = map->shift == 0;
    return map->shift > 0 && map->rows.features > 0 && map->rows.features == map->wanted.features
               ? refuse_counted(map, err)
               : XSM_OK;
}

xsm_status xsmi_features_match(const xsmi_feature_side *rows, const xsmi_feature_side *wanted, xsmi_feature_map *map,
                               xsm_error *err)
{
    xsmi_feature_map made = {.rows = *rows, .wanted = *wanted};
    xsm_status status = match(&made, err);
    if (status == XSM_OK && !map && made.same && made.to && wanted->schema->count > made.from) {
        status = refuse_at(&made, made.from, err);
    } else if (status == XSM_OK && !map && !made.same) {
        status = refuse_difference(&made, err);
    }
    if (status == XSM_OK && map) {
        *map = made;
    } else {
        xsmi_feature_map_end(&made);
    }
    return status;
}

void xsmi_feature_map_end(xsmi_feature_map *map)
{
    if (map->context) {
        xsmi_release(map->context, map->to, map->from, sizeof *map->to);
        xsm_context_free(map->context);
        map->context = NULL;
        map->to = NULL;
    }
}

xsm_status xsmi_features_kept(const xsmi_feature_side *before, const xsmi_feature_side *after, xsm_error *err)
{
    const xsmi_schema *a = before->schema, *b = after->schema;
    if (!a || !b || a->kind != XSMI_SCHEMA_COLUMNS || b->kind != XSMI_SCHEMA_COLUMNS) {
        xsmi_feature_map map;
        XSMI_TRY(xsmi_features_match(before, after, &map, err));
        const xsm_status status = map.same ? XSM_OK : refuse_difference(&map, err);
        xsmi_feature_map_end(&map);
        return status;
    }
    uint32_t j = 0;
    while (j < a->count && j < b->count && strcmp(a->names[j], b->names[j]) == 0) {
        j++;
    }
    return j == a->count ? XSM_OK : refuse_at(&(xsmi_feature_map){.rows = *before, .wanted = *after}, j, err);
}

/* -- new features -------------------------------------------------------------------------------------------------- */

static xsm_status join_words(xsmi_feature_map *map, xsmi_schema **joined, xsm_error *err)
{
    const xsm_vocabulary *rows = map->rows.schema->vocabulary;
    const xsmi_dictionary *from = xsmi_vocabulary_dictionary(rows);
    xsm_vocabulary *v;
    XSMI_TRY(xsmi_vocabulary_new_grown(map->wanted.schema->vocabulary, &v, err));
    xsm_status status = XSM_OK;
    for (uint32_t i = 0; i < from->count && status == XSM_OK; i++) {
        size_t length;
        bool known;
        const char *word = xsmi_dictionary_text(from, i, &length);
        uint32_t *to = &map->to[xsmi_vocabulary_feature(rows, i)];
        if (*to == XSMI_NO_FEATURE) {
            *to = xsmi_vocabulary_feature(v, xsmi_vocabulary_dictionary(v)->count);
            status = xsmi_vocabulary_add(v, word, length, &known, err);
        }
    }
    status = status == XSM_OK ? xsmi_schema_of_words(map->context, v, joined, err) : status;
    xsmi_vocabulary_release(v);
    return status;
}

static xsm_status join_columns(xsmi_feature_map *map, xsmi_schema **joined, xsm_error *err)
{
    const xsmi_schema *rows = map->rows.schema, *wanted = map->wanted.schema;
    const size_t most = rows->text_size + wanted->text_size;
    size_t size = wanted->text_size;
    uint32_t count = wanted->count;
    char *text;
    XSMI_TRY(xsmi_array_new(map->context, &text, most, 1, "the names of features", err));
    memcpy(text, wanted->text, size);
    for (uint32_t j = 0; j < rows->count; j++) {
        const size_t length = strlen(rows->names[j]) + 1;
        if (map->to[j] == XSMI_NO_FEATURE) {
            memcpy(text + size, rows->names[j], length);
            size += length;
            map->to[j] = count++;
        }
    }
    const xsm_status status = xsmi_schema_of_columns(map->context, text, size, count, joined, err);
    xsmi_release(map->context, text, most, 1);
    return status;
}

static xsm_status join_numbers(xsmi_feature_map *map, xsmi_schema **joined, xsm_error *err)
{
    const uint32_t known = map->wanted.schema->count ? map->wanted.schema->count : map->wanted.features;
    const uint32_t count = known + map->unknown;
    int64_t *numbers;
    XSMI_TRY(xsmi_array_new(map->context, &numbers, count, sizeof *numbers, "the numbers of features", err));
    uint32_t next = 0;
    for (; next < known; next++) {
        numbers[next] = xsmi_schema_number(map->wanted.schema, next);
    }
    for (uint32_t j = 0; j < map->from; j++) {
        if (map->to[j] == XSMI_NO_FEATURE) {
            numbers[next] = xsmi_schema_number(map->rows.schema, j);
            map->to[j] = next++;
        }
    }
    const xsm_status status = xsmi_schema_of_number_list(map->context, numbers, count, joined, err);
    xsmi_release(map->context, numbers, count, sizeof *numbers);
    return status;
}

xsm_status xsmi_features_join(const xsmi_feature_side *rows, const xsmi_feature_side *wanted, xsmi_feature_map *map,
                              xsmi_schema **joined, xsm_error *err)
{
    XSMI_TRY(xsmi_features_match(rows, wanted, map, err));
    xsm_status status = XSM_OK;
    if (map->unknown == 0) {
        *joined = xsmi_schema_retain(wanted->schema ? wanted->schema : rows->schema);
    } else if ((uint64_t)XSMI_MAX(wanted->schema->count, wanted->features) + map->unknown > XSM_FEATURES_MAX) {
        status = xsmi_fail(err, XSM_ERROR_LIMIT, "%u features and %u new ones; at most %u are supported",
                           XSMI_MAX(wanted->schema->count, wanted->features), map->unknown, (unsigned)XSM_FEATURES_MAX);
    } else {
        status = rows->schema->kind == XSMI_SCHEMA_WORDS     ? join_words(map, joined, err)
                 : rows->schema->kind == XSMI_SCHEMA_COLUMNS ? join_columns(map, joined, err)
                                                             : join_numbers(map, joined, err);
    }
    if (status != XSM_OK) {
        xsmi_feature_map_end(map);
        return status;
    }
    map->unknown = 0;
    map->wanted.schema = *joined;
    map->wanted.features = XSMI_MAX(wanted->features, map->to     ? (*joined)->count
                                                      : map->same ? rows->features
                                                                  : rows->features + (uint32_t)map->shift);
    map->same = !map->to ? map->same : first_difference(map) == map->from;
    return XSM_OK;
}

/* -- maps of features ---------------------------------------------------------------------------------------------- */

/* Values moved between two polls. */
#define VALUES_TOGETHER ((size_t)1 << 16)

typedef struct mapping {
    const xsm_dataset *d;
    const xsmi_feature_map *map;
    uint32_t features; /* D of the new rows */
    xsmi_feature_arrays to;
    uint64_t *keys; /* [2 * longest] a row's features, with the places of their values; scratch */
    size_t longest;
    uint64_t dropped;
    size_t since;
} mapping;

/* Refuses a feature 0, whose number would be below 0 on the other side. */
static xsm_status refuse_lost(const mapping *m, uint64_t row, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_DATA,
                     "row %llu (from 0) of %s has a feature of number 0, and the features of %s are numbered from 1; "
                     "rows of numbers from 1 are accepted",
                     (unsigned long long)row, m->map->rows.what, m->map->wanted.what);
}

/* Sets *to to the new feature of a value; from m->features on, the value is dropped. */
static xsm_status place(mapping *m, uint64_t row, uint32_t feature, float value, uint32_t *to, xsm_error *err)
{
    *to = xsmi_feature_place(m->map, feature);
    if (*to >= m->features && value != 0) {
        m->dropped++;
        return m->map->shift < 0 && feature == 0 ? refuse_lost(m, row, err) : XSM_OK;
    }
    return XSM_OK;
}

static xsm_status pass(mapping *m, size_t values, xsm_error *err)
{
    m->since += values;
    if (m->since < VALUES_TOGETHER) {
        return XSM_OK;
    }
    m->since = 0;
    return xsmi_go_on(m->d->context, err);
}

static xsm_status map_dense(mapping *m, xsm_error *err)
{
    const xsm_dataset *d = m->d;
    xsm_status status = XSM_OK;
    m->to.stride = xsmi_dataset_stride(m->features);
    if (d->rows > SIZE_MAX / sizeof(float) / XSMI_MAX(m->to.stride, 1)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows of %zu floats do not fit the address space",
                         (unsigned long long)d->rows, m->to.stride);
    }
    float *values = xsmi_dataset_allocate((xsm_dataset *)(uintptr_t)d, d->rows * m->to.stride, sizeof *values,
                                          &m->to.value_capacity, &status, err);
    m->to.values = values;
    for (uint64_t i = 0; i < d->rows && status == XSM_OK; i++) {
        const float *from = d->values + i * d->stride;
        memset(values, 0, m->to.stride * sizeof *values);
        for (uint32_t j = 0; j < d->features && status == XSM_OK; j++) {
            uint32_t to;
            status = place(m, i, j, from[j], &to, err);
            if (to < m->features) {
                values[to] = from[j];
            }
        }
        values += m->to.stride;
        status = status == XSM_OK ? pass(m, d->features, err) : status;
    }
    return status;
}

static xsm_status map_row(mapping *m, uint64_t row, uint64_t *next, xsm_error *err)
{
    const xsmi_features f = xsmi_dataset_features(m->d, row);
    size_t kept = 0;
    bool rising = true;
    for (size_t i = 0; i < f.count; i++) {
        uint32_t to;
        XSMI_TRY(place(m, row, f.index[i], f.values[i], &to, err));
        if (to < m->features) {
            m->keys[kept] = (uint64_t)to << 32 | i;
            rising &= kept == 0 || m->keys[kept] > m->keys[kept - 1];
            kept++;
        }
    }
    if (!rising) {
        xsmi_sort(m->d->context, m->keys, m->keys + m->longest, kept);
    }
    for (size_t i = 0; i < kept; i++, (*next)++) {
        m->to.index[*next] = (uint32_t)(m->keys[i] >> 32);
        m->to.values[*next] = f.values[(uint32_t)m->keys[i]];
    }
    m->to.offsets[row + 1] = *next;
    return pass(m, f.count + 1, err);
}

static xsm_status map_sparse(mapping *m, xsm_error *err)
{
    xsm_dataset *d = (xsm_dataset *)(uintptr_t)m->d;
    const uint64_t count = d->offsets[d->rows];
    xsm_status status = XSM_OK;
    for (uint64_t i = 0; i < d->rows; i++) {
        m->longest = XSMI_MAX(m->longest, (size_t)(d->offsets[i + 1] - d->offsets[i]));
    }
    m->to.values = xsmi_dataset_allocate(d, count, sizeof *m->to.values, &m->to.value_capacity, &status, err);
    m->to.index = xsmi_dataset_allocate(d, count, sizeof *m->to.index, &m->to.index_capacity, &status, err);
    m->to.offsets = xsmi_dataset_allocate(d, d->rows + 1, sizeof *m->to.offsets, &m->to.offset_capacity, &status, err);
    XSMI_TRY(status);
    XSMI_TRY(xsmi_array_new(d->context, &m->keys, m->longest, 2 * sizeof *m->keys, "a row's features", err));
    m->to.offsets[0] = 0;
    for (uint64_t i = 0, next = 0; i < d->rows && status == XSM_OK; i++) {
        status = map_row(m, i, &next, err);
        xsmi_dataset_passed(d, i, 1);
    }
    xsmi_release(d->context, m->keys, m->longest, 2 * sizeof *m->keys);
    return status == XSM_OK ? xsmi_go_on(d->context, err) : status;
}

static void take_schema(xsm_dataset *d, const xsmi_schema *schema)
{
    xsmi_schema *before = d->schema;
    d->schema = xsmi_schema_retain(schema);
    xsmi_schema_release(before);
}

/* For rows whose features already have the right numbers: sets the schema and, of sparse rows, the number of
 * features. */
static void keep_rows(xsm_dataset *d, uint32_t features, const xsmi_schema *schema)
{
    d->features = d->sparse ? features : d->features;
    if (schema) {
        take_schema(d, schema);
    }
    xsmi_dataset_edited(d);
}

xsm_status xsmi_dataset_prepare_features(xsm_dataset *d, const xsmi_feature_map *map, xsmi_mapped_features *made,
                                         xsm_error *err)
{
    const xsmi_schema *wanted = map->wanted.schema;
    mapping m = {.d = d, .map = map};
    m.features = map->wanted.features      ? map->wanted.features
                 : wanted && wanted->count ? wanted->count
                                           : d->features + (uint32_t)map->shift;
    *made = (xsmi_mapped_features){.features = m.features};
    if (map->same && m.features >= d->features) {
        return XSM_OK;
    }
    if (d->transformed && !map->same) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "%s were transformed, and their features are not those of %s; rows that are mapped before "
                         "xsm_transform_apply() are accepted",
                         map->rows.what, map->wanted.what);
    }
    const xsm_status status = d->sparse ? map_sparse(&m, err) : map_dense(&m, err);
    *made = (xsmi_mapped_features){m.to, m.features, m.dropped, true};
    if (status != XSM_OK) {
        xsmi_feature_arrays_free(d->context, &made->to);
    }
    return status;
}

void xsmi_dataset_take_mapped(xsm_dataset *d, const xsmi_feature_map *map, const xsmi_mapped_features *made)
{
    if (!made->moved) {
        keep_rows(d, made->features, map->wanted.schema);
        return;
    }
    xsmi_dataset_take_features(d, &made->to);
    if (map->wanted.schema) {
        take_schema(d, map->wanted.schema);
    }
    d->features = made->features;
    d->counted.dropped_features += made->dropped;
    d->unknown_features += map->unknown;
    xsmi_dataset_count_features(d);
}

xsm_status xsmi_dataset_map_features(xsm_dataset *d, const xsmi_feature_map *map, xsm_error *err)
{
    xsmi_mapped_features made;
    XSMI_TRY(xsmi_dataset_prepare_features(d, map, &made, err));
    xsmi_dataset_take_mapped(d, map, &made);
    return XSM_OK;
}

xsm_status xsmi_dataset_match_features(xsm_dataset *d, const xsmi_feature_side *wanted, xsm_error *err)
{
    const xsmi_feature_side rows = {d->schema, d->features, "the rows"};
    xsmi_feature_map map;
    XSMI_TRY(xsmi_features_match(&rows, wanted, &map, err));
    const bool known = map.to || map.shift != 0; /* otherwise the numbers of features were compared */
    const xsm_status status = known ? xsmi_dataset_map_features(d, &map, err) : XSM_OK;
    xsmi_feature_map_end(&map);
    return status;
}
