/*
 * Matching the classes of two maps, and merging a dataset's classes with those of a map.
 *
 * Classes are words when a map has names and no labels; they are matched by name where the other side has names, too.
 * So they are where both have names and the labels 0, 1, .... Otherwise they are matched by label, and names are only
 * shown.
 */
#include "data/part.h"
#include "base/entry.h"
#include "data/schema.h"
#include "data/sort.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Classes between two looks whether to go on. */
#define CLASSES_TOGETHER 4096

static int64_t label_of(const xsm_class_map *map, uint32_t k)
{
    return map->labels ? map->labels[k] : (int64_t)k;
}

static bool has_words(const xsm_class_map *map)
{
    bool own = true;
    for (uint32_t k = 0; own && map->labels && k < map->classes; k++) {
        own = map->labels[k] == (int64_t)k;
    }
    return map->names && own;
}

static int name_before(const void *state, uint32_t a, uint32_t b)
{
    const char *const *names = state;
    return strcmp(names[a], names[b]) < 0;
}

static xsm_status match_names(xsm_context *ctx, const xsm_class_map *from, const xsm_class_map *to, uint32_t *match,
                              xsm_error *err)
{
    uint32_t *sorted = xsmi_allocate(ctx, to->classes, 2 * sizeof *sorted);
    if (!sorted) {
        return xsmi_fail_memory(err, (size_t)to->classes * 2 * sizeof *sorted, "the names of classes");
    }
    for (uint32_t k = 0; k < to->classes; k++) {
        sorted[k] = k;
    }
    xsmi_sort_by(ctx, name_before, to->names, sorted, sorted + to->classes, to->classes);
    xsm_status status = xsmi_go_on(ctx, err);
    for (uint32_t k = 0; k < from->classes && status == XSM_OK; k++) {
        status = k % CLASSES_TOGETHER == 0 ? xsmi_go_on(ctx, err) : status;
        uint32_t low = 0, rest = to->classes;
        while (rest > 0) {
            uint32_t half = rest / 2;
            bool before = strcmp(to->names[sorted[low + half]], from->names[k]) < 0;
            low += before ? half + 1 : 0;
            rest = before ? rest - half - 1 : half;
        }
        bool found = low < to->classes && strcmp(to->names[sorted[low]], from->names[k]) == 0;
        match[k] = found ? sorted[low] : XSM_CLASS_UNSEEN;
    }
    xsmi_release(ctx, sorted, to->classes, 2 * sizeof *sorted);
    return status;
}

xsm_status xsmi_class_map_read(const xsm_class_map *given, xsm_class_map *map, xsm_error *err)
{
    XSMI_TRY(xsmi_options_read(map, sizeof *map, XSMI_FIRST(xsm_class_map), given, "xsm_class_map", err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_class_map, map, reserved, err));
    if (map->classes < 1 || map->classes > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a class map of %u classes; accepted are 1 to %u", map->classes,
                         XSM_CLASSES_MAX);
    }
    for (uint32_t k = 0; k < map->classes; k++) {
        if (k > 0 && label_of(map, k) <= label_of(map, k - 1)) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "the label of class %u is %lld, which is not above class %u's %lld",
                             k, (long long)label_of(map, k), k - 1, (long long)label_of(map, k - 1));
        }
        if (map->names && !map->names[k]) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the name of class %u is NULL", k);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_class_match(xsm_context *ctx, const xsm_class_map *from, const xsm_class_map *to, uint32_t *match,
                            bool *words, xsm_error *err)
{
    const bool named = from->names && to->names;
    *words = named && (!from->labels || !to->labels || (has_words(from) && has_words(to)));
    if (*words) {
        return match_names(ctx, from, to, match, err);
    }
    for (uint32_t k = 0, j = 0; k < from->classes; k++) { /* both rise */
        while (j < to->classes && label_of(to, j) < label_of(from, k)) {
            j++;
        }
        match[k] = j < to->classes && label_of(to, j) == label_of(from, k) ? j : XSM_CLASS_UNSEEN;
    }
    return XSM_OK;
}

/* -- bringing together -------------------------------------------------------------------------------------------- */

/* Scratch for the classes of both, and the merged classes. */
typedef struct together {
    xsm_context *context;
    uint32_t capacity, own; /* classes of both at most; of the dataset */
    uint32_t *match;        /* [own] class of the map, or none; then the new class */
    int64_t *labels;        /* [capacity] */
    const char **names;     /* [capacity] or NULL */
    char (*numbers)[24];    /* [capacity] names of classes that have none but a number */
    uint32_t classes;
    bool words;
} together;

static void release(together *t)
{
    xsmi_release(t->context, t->match, t->own, sizeof *t->match);
    xsmi_release(t->context, t->labels, t->capacity, sizeof *t->labels);
    xsmi_release(t->context, t->names, t->capacity, sizeof *t->names);
    xsmi_release(t->context, t->numbers, t->capacity, sizeof *t->numbers);
}

static xsm_status prepare(together *t, const xsm_class_map *own, const xsm_class_map *map, xsm_error *err)
{
    bool named = own->names || map->names;
    t->own = own->classes;
    if (__builtin_add_overflow(own->classes, map->classes, &t->capacity)) {
        t->capacity = UINT32_MAX;
    }
    t->match = xsmi_allocate(t->context, t->own, sizeof *t->match);
    t->labels = xsmi_allocate(t->context, t->capacity, sizeof *t->labels);
    t->names = named ? xsmi_allocate(t->context, t->capacity, sizeof *t->names) : NULL;
    t->numbers = named ? xsmi_allocate(t->context, t->capacity, sizeof *t->numbers) : NULL;
    if (!t->match || !t->labels || (named && (!t->names || !t->numbers))) {
        return xsmi_fail_memory(err, (size_t)t->capacity * sizeof *t->labels, "the classes of both");
    }
    return xsmi_class_match(t->context, own, map, t->match, &t->words, err);
}

static void add(together *t, int64_t label, const char *first, const char *second)
{
    uint32_t k = t->classes++;
    t->labels[k] = label;
    if (t->names) {
        snprintf(t->numbers[k], sizeof t->numbers[k], "%" PRId64, label);
        t->names[k] = first ? first : second ? second : t->numbers[k];
    }
}

static const char *name_of(const xsm_class_map *map, uint32_t k)
{
    return map->names ? map->names[k] : NULL;
}

/* By label, in rising order. */
static void merge_numbers(together *t, const xsm_class_map *own, const xsm_class_map *map)
{
    uint32_t k = 0, j = 0;
    while (k < own->classes || j < map->classes) {
        bool from_own = k < own->classes && (j == map->classes || label_of(own, k) <= label_of(map, j));
        bool from_map = j < map->classes && (k == own->classes || label_of(map, j) <= label_of(own, k));
        int64_t label = from_own ? label_of(own, k) : label_of(map, j);
        if (from_own) {
            t->match[k] = t->classes;
        }
        add(t, label, from_own ? name_of(own, k) : NULL, from_map ? name_of(map, j) : NULL);
        k += from_own;
        j += from_map;
    }
}

/* By name: the map's classes, then those that it has not. */
static void merge_words(together *t, const xsm_class_map *own, const xsm_class_map *map)
{
    for (uint32_t j = 0; j < map->classes; j++) {
        add(t, label_of(map, j), map->names[j], NULL);
    }
    for (uint32_t k = 0; k < own->classes; k++) {
        if (t->match[k] == XSM_CLASS_UNSEEN) {
            t->match[k] = t->classes;
            add(t, t->labels[t->classes - 1] + 1, own->names[k], NULL);
        }
    }
}

/* The rows' features become those of the map, and what the map lacks follows; and their classes are renumbered. */
static xsm_status join(xsm_dataset *d, const xsmi_feature_map *found, const xsm_class_map *map, const together *t,
                       xsm_error *err)
{
    xsmi_mapped_features made;
    if (found->same && map->features > d->features && !d->sparse) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "dense rows of %u features cannot become rows of %u", d->features,
                         map->features);
    }
    XSMI_TRY(xsmi_dataset_prepare_features(d, found, &made, err));
    const xsm_status status = xsmi_dataset_renumber(d, t->match, t->classes, t->labels, t->names, err);
    if (status == XSM_OK) {
        xsmi_dataset_take_mapped(d, found, &made);
    } else {
        xsmi_feature_arrays_free(d->context, &made.to);
    }
    return status;
}

static xsm_status join_features(xsm_dataset *d, const xsm_class_map *map, const together *t, xsm_error *err)
{
    xsmi_schema *wanted, *joined = NULL;
    xsmi_feature_map found;
    XSMI_TRY(xsmi_schema_of_map(d->context, map, &wanted, err));
    const xsmi_feature_side rows = {d->schema, d->features, "the rows"};
    const xsmi_feature_side other = {wanted, map->features, "the class map"};
    xsm_status status = xsmi_features_join(&rows, &other, &found, &joined, err);
    if (status == XSM_OK) {
        status = join(d, &found, map, t, err);
        xsmi_feature_map_end(&found);
    }
    xsmi_schema_release(joined);
    xsmi_schema_release(wanted);
    return status;
}

xsm_status xsm_dataset_extend(xsm_dataset *d, const xsm_class_map *given, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!d || !given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_dataset_extend: %s is NULL", d ? "the map" : "the dataset");
    }
    XSMI_TRY(xsmi_dataset_need_whole(d, "xsm_dataset_extend", err));
    xsm_class_map map = XSM_CLASS_MAP_INIT, own = XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsmi_class_map_read(given, &map, err));
    XSMI_TRY(xsm_dataset_get_class_map(d, &own, err));
    together t = {.context = d->context};
    xsm_status status = prepare(&t, &own, &map, err);
    if (status == XSM_OK) {
        if (t.words && label_of(&map, map.classes - 1) > INT64_MAX - (int64_t)own.classes) {
            status = xsmi_fail(err, XSM_ERROR_LIMIT, "the label %lld of the map leaves no labels for new classes",
                               (long long)label_of(&map, map.classes - 1));
        } else if (t.words) {
            merge_words(&t, &own, &map);
        } else {
            merge_numbers(&t, &own, &map);
        }
        if (t.classes > XSM_CLASSES_MAX) {
            status = xsmi_fail(err, XSM_ERROR_LIMIT, "%u classes together; at most %u are accepted", t.classes,
                               XSM_CLASSES_MAX);
        }
    }
    status = status == XSM_OK ? join_features(d, &map, &t, err) : status;
    release(&t);
    return status;
}
