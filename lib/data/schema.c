/* Schemas: what the features of rows are. */
#include "data/schema.h"
#include "base/hash.h"
#include "data/dictionary.h"
#include "data/vocabulary.h"

#include <string.h>

static xsm_status start(xsm_context *ctx, xsmi_schema_kind kind, xsmi_schema **out, xsm_error *err)
{
    xsmi_schema *s;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &s, xsmi_schema, "a description of features", err));
    xsmi_holders_start(&s->holders);
    s->kind = kind;
    s->hash = (uint64_t)kind;
    *out = s;
    return XSM_OK;
}

xsm_status xsmi_schema_of_words(xsm_context *ctx, const xsm_vocabulary *v, xsmi_schema **out, xsm_error *err)
{
    xsmi_schema *s;
    XSMI_TRY(start(ctx, XSMI_SCHEMA_WORDS, &s, err));
    const xsmi_dictionary *words = xsmi_vocabulary_dictionary(v);
    const xsm_text_options *o = xsmi_vocabulary_options(v);
    const uint32_t buckets = xsmi_text_buckets(o), kept = xsmi_vocabulary_buckets(v);
    const uint32_t first = buckets > 0 ? xsmi_vocabulary_first_words(v) : 0;
    const uint32_t settings[] = {words->count, o->word_ngrams, o->min_chars, o->max_chars, buckets, first};
    s->vocabulary = xsmi_vocabulary_retain(v);
    s->count = words->count + kept;
    s->hash = xsmi_hash(settings, sizeof settings, s->hash + xsmi_vocabulary_is_fasttext(v));
    if (xsmi_vocabulary_kept(v)) {
        s->hash = xsmi_hash(xsmi_vocabulary_kept(v), kept * sizeof(uint32_t), s->hash);
    }
    s->hash = words->count ? xsmi_hash(words->text, (size_t)words->starts[words->count], s->hash) : s->hash;
    *out = s;
    return XSM_OK;
}

xsm_status xsmi_schema_of_columns(xsm_context *ctx, const char *text, size_t size, uint32_t count, xsmi_schema **out,
                                  xsm_error *err)
{
    xsmi_schema *s;
    XSMI_TRY(start(ctx, XSMI_SCHEMA_COLUMNS, &s, err));
    s->text_size = size;
    s->count = count;
    s->text = xsmi_allocate(s->context, size, 1);
    s->names = xsmi_allocate(s->context, count, sizeof *s->names);
    if (!s->text || !s->names) {
        xsmi_schema_release(s);
        return xsmi_fail_memory(err, size, "the names of features");
    }
    memcpy(s->text, text, size);
    const char *p = s->text;
    for (uint32_t j = 0; j < count; j++) {
        s->names[j] = p;
        p += strlen(p) + 1;
    }
    s->hash = xsmi_hash(text, size, s->hash);
    *out = s;
    return XSM_OK;
}

xsm_status xsmi_schema_of_numbers(xsm_context *ctx, int32_t index_base, xsmi_schema **out, xsm_error *err)
{
    *out = NULL;
    if (index_base == XSM_INDEX_BASE_AUTO) {
        return XSM_OK;
    }
    XSMI_TRY(start(ctx, XSMI_SCHEMA_NUMBERS, out, err));
    (*out)->index_base = index_base;
    (*out)->hash = xsmi_hash(&index_base, sizeof index_base, (*out)->hash);
    return XSM_OK;
}

static xsm_status check_each_once(xsm_context *ctx, const int64_t *numbers, uint32_t count, xsm_error *err)
{
    uint32_t j = 1, id;
    while (j < count && numbers[j] > numbers[j - 1]) {
        j++;
    }
    if (j == count) {
        return XSM_OK; /* they rise, as in files, so none occurs twice */
    }
    xsmi_dictionary seen;
    xsmi_dictionary_start(&seen, ctx, false);
    xsm_status status = XSM_OK;
    for (j = 0; j < count && status == XSM_OK; j++) {
        status = xsmi_dictionary_number(&seen, numbers[j], &id, err);
        if (status == XSM_OK && id < j) {
            status = xsmi_fail(err, XSM_ERROR_RANGE,
                               "the number of features %u and %u is %lld; each number is accepted once", id, j,
                               (long long)numbers[j]);
        }
    }
    xsmi_dictionary_end(&seen);
    return status;
}

xsm_status xsmi_schema_of_number_list(xsm_context *ctx, const int64_t *numbers, uint32_t count, xsmi_schema **out,
                                      xsm_error *err)
{
    xsmi_schema *s;
    if (count == 0 || count > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u numbers of features; 1 to %u are accepted", count,
                         (unsigned)XSM_FEATURES_MAX);
    }
    for (uint32_t j = 0; j < count; j++) {
        if (numbers[j] < 0) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "the number of feature %u is %lld; 0 or more is accepted", j,
                             (long long)numbers[j]);
        }
    }
    XSMI_TRY(check_each_once(ctx, numbers, count, err));
    XSMI_TRY(xsmi_schema_of_numbers(ctx, XSM_INDEX_BASE_ZERO, &s, err));
    s->numbers = xsmi_allocate(s->context, count, sizeof *numbers);
    if (!s->numbers) {
        xsmi_schema_release(s);
        return xsmi_fail_memory(err, count * sizeof *numbers, "the numbers of features");
    }
    memcpy(s->numbers, numbers, count * sizeof *numbers);
    s->count = count;
    s->hash = xsmi_hash(numbers, count * sizeof *numbers, s->hash);
    *out = s;
    return XSM_OK;
}

/* Makes the schema of names that a host gives. */
static xsm_status of_names(xsm_context *ctx, const xsm_class_map *map, xsmi_schema **out, xsm_error *err)
{
    const uint32_t count = map->feature_name_count;
    size_t size = 0;
    for (uint32_t j = 0; j < count; j++) {
        if (!map->feature_names[j]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the class map has no name for feature %u though it has names",
                             j);
        }
        size += strlen(map->feature_names[j]) + 1;
    }
    if (count == 0 || count > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a class map of %u names of features; 1 to %u are accepted", count,
                         (unsigned)XSM_FEATURES_MAX);
    }
    char *text;
    XSMI_TRY(xsmi_array_new(ctx, &text, size, 1, "the names of features", err));
    char *p = text;
    for (uint32_t j = 0; j < count; j++) {
        const size_t length = strlen(map->feature_names[j]) + 1;
        memcpy(p, map->feature_names[j], length);
        p += length;
    }
    const xsm_status status = xsmi_schema_of_columns(ctx, text, size, count, out, err);
    xsmi_release(ctx, text, size, 1);
    return status;
}

xsm_status xsmi_schema_of_map(xsm_context *ctx, const xsm_class_map *map, xsmi_schema **out, xsm_error *err)
{
    *out = NULL;
    if (map->index_base < XSM_INDEX_BASE_AUTO || map->index_base > XSM_INDEX_BASE_ONE) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "the class map's index_base is %d; an XSM_INDEX_BASE_* value (0 to %d) is accepted",
                         (int)map->index_base, XSM_INDEX_BASE_ONE);
    }
    if ((map->vocabulary != NULL) + (map->feature_names != NULL) + (map->feature_numbers != NULL) > 1) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "the class map has more than one of a vocabulary, names of features and numbers of features; "
                         "one of them is accepted");
    }
    if (map->feature_numbers) {
        return xsmi_schema_of_number_list(ctx, map->feature_numbers, map->feature_number_count, out, err);
    }
    if (!map->vocabulary && !map->feature_names) {
        return xsmi_schema_of_numbers(ctx, map->index_base, out, err);
    }
    XSMI_TRY(map->vocabulary ? xsmi_schema_of_words(ctx, map->vocabulary, out, err) : of_names(ctx, map, out, err));
    (*out)->index_base = map->index_base;
    return XSM_OK;
}

xsm_status xsmi_schema_check_count(const xsmi_schema *s, uint32_t features, xsm_error *err)
{
    const bool words = s && s->kind == XSMI_SCHEMA_WORDS; /* words may be followed by other features */
    const char *what = words ? "words" : s && s->numbers ? "numbers" : "names";
    return !s || s->count == 0 || (words ? s->count <= features : s->count == features)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_SHAPE,
                           "%s of %u features for a model that reads %u; a transform that changes their number is set "
                           "before",
                           what, s->count, features);
}

void xsmi_schema_view(const xsmi_schema *s, xsm_class_map *map)
{
    if (s) {
        map->vocabulary = s->vocabulary;
        map->index_base = s->index_base;
        map->feature_names = s->names;
        map->feature_name_count = s->names ? s->count : 0;
        map->feature_numbers = s->numbers;
        map->feature_number_count = s->numbers ? s->count : 0;
    }
}

xsmi_schema *xsmi_schema_retain(const xsmi_schema *s)
{
    xsmi_schema *own = (xsmi_schema *)(uintptr_t)s; /* the count of references is not part of its contents */
    if (own) {
        xsmi_holders_add(&own->holders);
    }
    return own;
}

void xsmi_schema_release(const xsmi_schema *s)
{
    xsmi_schema *own = (xsmi_schema *)(uintptr_t)s;
    if (own && xsmi_holders_drop(&own->holders)) {
        xsm_context *ctx = own->context;
        xsmi_vocabulary_release(own->vocabulary);
        xsmi_release(ctx, own->names, own->count, sizeof *own->names);
        xsmi_release(ctx, own->numbers, own->count, sizeof *own->numbers);
        xsmi_release(ctx, own->text, own->text_size, 1);
        XSMI_OBJECT_FREE(own, xsmi_schema);
    }
}
