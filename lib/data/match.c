/*
 * Matching the classes of two maps, and merging a dataset's classes with those of a map.
 *
 * Classes are words when a map has names and no labels, and are called by their names; else they are numbers, and names
 * are only for people. Numbers meet words by their spelling; a word whose spelling is not found meets the same whole
 * number: 24.0 meets 24.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/option.h"
#include "base/order.h"
#include "base/utf8.h"
#include "data/dictionary.h"
#include "data/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Classes between two polls. */
#define CLASSES_TOGETHER 4096

static int64_t label_of(const xsm_class_map *map, uint32_t k)
{
    return map->labels ? map->labels[k] : (int64_t)k;
}

static bool has_words(const xsm_class_map *map)
{
    return map->names && !map->labels;
}

/* Bytes for the text of a number. */
#define NUMBER 24

/* Returns the text of a class's label: its name, or its number, written to `number`. */
static const char *spell(const xsm_class_map *map, uint32_t k, char number[NUMBER])
{
    if (has_words(map)) {
        return map->names[k];
    }
    snprintf(number, NUMBER, "%" PRId64, label_of(map, k));
    return number;
}

xsm_status xsmi_class_map_read(const xsm_class_map *given, xsm_class_map *map, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_class_map, map, given, err));
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

static void match_numbers(const xsm_class_map *from, const xsm_class_map *to, uint32_t *match)
{
    for (uint32_t k = 0, j = 0; k < from->classes; k++) { /* both rise */
        while (j < to->classes && label_of(to, j) < label_of(from, k)) {
            j++;
        }
        match[k] = j < to->classes && label_of(to, j) == label_of(from, k) ? j : XSM_CLASS_UNSEEN;
    }
}

/* The classes of a map by their words; classes of the same word form a list, in rising order. */
typedef struct called {
    xsmi_dictionary words;
    xsmi_dictionary numbers; /* of words with a decimal point; the mark is the word's number in `words` */
    uint32_t *first, *next;  /* the first class of a word; the class after a class with the same word; or
                                XSM_CLASS_UNSEEN */
} called;

static xsm_status call(called *c, const xsm_class_map *map, xsm_error *err)
{
    for (uint32_t k = map->classes; k-- > 0;) {
        char number[NUMBER];
        const char *word = spell(map, k, number);
        uint32_t id, before = c->words.count;
        XSMI_TRY(xsmi_dictionary_word(&c->words, word, strlen(word), &id, err));
        c->next[k] = c->words.count > before ? XSM_CLASS_UNSEEN : c->first[id];
        c->first[id] = k;
        int64_t whole;
        if (strchr(word, '.') && xsmi_whole_number(word, strlen(word), &whole)) {
            uint32_t of_number;
            XSMI_TRY(xsmi_dictionary_number(&c->numbers, whole, &of_number, err));
            c->numbers.entries[of_number].mark = id;
        }
        XSMI_TRY(k % CLASSES_TOGETHER == 0 ? xsmi_go_on(c->words.context, err) : XSM_OK);
    }
    return XSM_OK;
}

/* Finds a word that is the same whole number; UINT32_MAX: there is none. */
static uint32_t find_number(const called *c, const char *word)
{
    char text[NUMBER];
    int64_t whole;
    if (!xsmi_whole_number(word, strlen(word), &whole)) {
        return UINT32_MAX;
    }
    snprintf(text, sizeof text, "%" PRId64, whole);
    const uint32_t id = xsmi_dictionary_find_word(&c->words, text, strlen(text));
    const uint32_t number = id == UINT32_MAX ? xsmi_dictionary_find_number(&c->numbers, whole) : UINT32_MAX;
    return number == UINT32_MAX ? id : (uint32_t)c->numbers.entries[number].mark;
}

/* Matches equal words in their order: the first with the first of the other side, and so on. With `numbers`, words that
 * are left are matched in the same way by the numbers that they are. */
static xsm_status take_words(called *c, const xsm_class_map *from, bool numbers, uint32_t *match, xsm_error *err)
{
    for (uint32_t k = 0; k < from->classes; k++) {
        char number[NUMBER];
        const char *word = spell(from, k, number);
        if (numbers && match[k] != XSM_CLASS_UNSEEN) {
            continue;
        }
        const uint32_t id = numbers ? find_number(c, word) : xsmi_dictionary_find_word(&c->words, word, strlen(word));
        match[k] = id == UINT32_MAX ? XSM_CLASS_UNSEEN : c->first[id];
        if (match[k] != XSM_CLASS_UNSEEN) {
            c->first[id] = c->next[match[k]];
        }
        XSMI_TRY(k % CLASSES_TOGETHER == 0 ? xsmi_go_on(c->words.context, err) : XSM_OK);
    }
    return XSM_OK;
}

xsm_status xsmi_class_match(xsm_context *ctx, const xsm_class_map *from, const xsm_class_map *to, uint32_t *match,
                            xsm_error *err)
{
    if (!has_words(from) && !has_words(to)) {
        match_numbers(from, to, match);
        return XSM_OK;
    }
    called c;
    XSMI_TRY(xsmi_array_new(ctx, &c.first, to->classes, 2 * sizeof *c.first, "the names of classes", err));
    c.next = c.first + to->classes;
    xsmi_dictionary_start(&c.words, ctx, true);
    xsmi_dictionary_start(&c.numbers, ctx, false);
    xsm_status status = call(&c, to, err);
    status = status == XSM_OK ? take_words(&c, from, false, match, err) : status;
    status = status == XSM_OK ? take_words(&c, from, true, match, err) : status;
    xsmi_dictionary_end(&c.words);
    xsmi_dictionary_end(&c.numbers);
    xsmi_release(ctx, c.first, to->classes, 2 * sizeof *c.first);
    return status;
}

/* -- as they are --------------------------------------------------------------------------------------------------- */

/* Returns the first class whose label differs, or the number of classes compared. */
static uint32_t first_difference(const xsm_class_map *a, const xsm_class_map *b)
{
    const uint32_t count = XSMI_MIN(a->classes, b->classes);
    uint32_t k = 0;
    if (!has_words(a) && !has_words(b)) {
        while (k < count && label_of(a, k) == label_of(b, k)) {
            k++;
        }
        return k;
    }
    char first[NUMBER], second[NUMBER];
    while (k < count && strcmp(spell(a, k, first), spell(b, k, second)) == 0) {
        k++;
    }
    return k;
}

/* Returns a word in quotes, or a number. */
static const char *show(const xsm_class_map *map, uint32_t k, char text[XSMI_QUOTE_SIZE])
{
    char number[NUMBER];
    const char *word = spell(map, k, number);
    if (has_words(map)) {
        return xsmi_quote(text, word, strlen(word));
    }
    snprintf(text, XSMI_QUOTE_SIZE, "%s", word);
    return text;
}

xsm_status xsmi_class_check(const xsm_class_map *rows, const char *what, const xsm_class_map *model, xsm_error *err)
{
    char first[XSMI_QUOTE_SIZE], second[XSMI_QUOTE_SIZE];
    if ((!rows->labels && !rows->names) || (!model->labels && !model->names)) {
        return XSM_OK;
    }
    const uint32_t k = first_difference(rows, model);
    return k == rows->classes || k == model->classes
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_DATA,
                           "class %u is %s in %s, and %s in the model; rows that are read with the model's class map "
                           "are accepted",
                           k, show(rows, k, first), what, show(model, k, second));
}

/* -- bringing together -------------------------------------------------------------------------------------------- */

/* Scratch for the classes of both, and the merged classes. */
typedef struct together {
    xsm_context *context;
    xsmi_held held;          /* the arrays */
    uint32_t *match;         /* [classes of the dataset] class of the map, or none; then the new class */
    int64_t *labels;         /* [classes of both]; NULL: the classes are words */
    const char **names;      /* [classes of both] or NULL */
    char (*numbers)[NUMBER]; /* [classes of both] names of classes that have none but a number */
    uint32_t classes;
} together;

/* Refuses numbers with names: these names would be lost in a union of words. */
static xsm_status check_names_kept(const xsm_class_map *own, const xsm_class_map *map, xsm_error *err)
{
    const xsm_class_map *words = has_words(own) ? own : map, *numbers = has_words(own) ? map : own;
    char word[XSMI_QUOTE_SIZE], number[XSMI_QUOTE_SIZE];
    return !has_words(words) || has_words(numbers) || !numbers->names
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_DATA,
                           "the classes of %s are words, the first %s, and those of %s numbers with names, the first "
                           "%s; rows whose labels are of the map's kind are accepted",
                           words == own ? "the rows" : "the class map", show(words, 0, word),
                           words == own ? "the class map" : "the rows", show(numbers, 0, number));
}

static xsm_status prepare(together *t, const xsm_class_map *own, const xsm_class_map *map, xsm_error *err)
{
    const bool words = has_words(own) || has_words(map), named = own->names || map->names;
    XSMI_TRY(check_names_kept(own, map, err));
    uint32_t capacity;
    capacity = __builtin_add_overflow(own->classes, map->classes, &capacity) ? UINT32_MAX : capacity;
    t->held.context = t->context;
    t->match = xsmi_hold(&t->held, own->classes, sizeof *t->match);
    t->labels = words ? NULL : xsmi_hold(&t->held, capacity, sizeof *t->labels);
    t->names = named ? xsmi_hold(&t->held, capacity, sizeof *t->names) : NULL;
    t->numbers = named ? xsmi_hold(&t->held, capacity, sizeof *t->numbers) : NULL;
    XSMI_TRY(xsmi_held_check(&t->held, "the classes of both", err));
    return xsmi_class_match(t->context, own, map, t->match, err);
}

static void add_number(together *t, int64_t label, const char *first, const char *second)
{
    uint32_t k = t->classes++;
    t->labels[k] = label;
    if (t->names) {
        snprintf(t->numbers[k], sizeof t->numbers[k], "%" PRId64, label);
        t->names[k] = first ? first : second ? second : t->numbers[k];
    }
}

static void add_word(together *t, const xsm_class_map *map, uint32_t k)
{
    t->names[t->classes] = spell(map, k, t->numbers[t->classes]);
    t->classes++;
}

static const char *name_of(const xsm_class_map *map, uint32_t k)
{
    return map->names ? map->names[k] : NULL;
}

/* Merges by label, in rising order. */
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
        add_number(t, label, from_own ? name_of(own, k) : NULL, from_map ? name_of(map, j) : NULL);
        k += from_own;
        j += from_map;
    }
}

/* Lists the map's classes, then those that it lacks. */
static void merge_words(together *t, const xsm_class_map *own, const xsm_class_map *map)
{
    for (uint32_t j = 0; j < map->classes; j++) {
        add_word(t, map, j);
    }
    for (uint32_t k = 0; k < own->classes; k++) {
        if (t->match[k] == XSM_CLASS_UNSEEN) {
            t->match[k] = t->classes;
            add_word(t, own, k);
        }
    }
}

/* Maps the rows' features to those of the map, followed by those that it lacks, and renumbers the rows' classes. */
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

static xsm_status extend(xsm_dataset *d, const xsm_class_map *given, together *t, xsm_error *err)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT, own = XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsmi_class_map_read(given, &map, err));
    XSMI_TRY(xsm_dataset_get_class_map(d, &own, err));
    XSMI_TRY(prepare(t, &own, &map, err));
    (t->labels ? merge_numbers : merge_words)(t, &own, &map);
    if (t->classes > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%u classes together; at most %u are accepted", t->classes,
                         XSM_CLASSES_MAX);
    }
    return join_features(d, &map, t, err);
}

xsm_status xsm_dataset_extend(xsm_dataset *d, const xsm_class_map *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {d, "the dataset"}, {given, "the map"});
    together t = {.context = d->context};
    xsmi_activity activity;
    xsmi_begin(&activity, d->context, "bringing classes together", "rows", 0);
    const xsm_status status = xsmi_end(&activity, extend(d, given, &t, err), err);
    xsmi_held_release(&t.held);
    return status;
}
