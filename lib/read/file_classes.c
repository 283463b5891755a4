/* The classes of a file that was read: the labels that occur, or those of the caller's class map. */
#include "read/format.h"
#include "base/held.h"
#include "base/option.h"
#include "base/order.h"
#include "base/utf8.h"
#include "read/number.h"
#include "data/sort.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Sets labels[] to the numbers of the dictionary's words; false if some are not numbers. */
static bool numbers_of(const xsmi_dictionary *d, int64_t *labels)
{
    for (uint32_t i = 0; i < d->count; i++) {
        if (!d->words) {
            labels[i] = xsmi_dictionary_label(d, i);
        } else {
            size_t length;
            const char *word = xsmi_dictionary_text(d, i, &length);
            if (!xsmi_whole_number(word, length, &labels[i])) {
                return false;
            }
        }
    }
    return true;
}

/* Returns a label as messages have it: a name, or else a number. */
static const char *show(const char *name, size_t length, int64_t number, char text[XSMI_QUOTE_SIZE])
{
    if (name) {
        return xsmi_quote(text, name, length);
    }
    snprintf(text, XSMI_QUOTE_SIZE, "%" PRId64, number);
    return text;
}

/* Warns if no label of the rows is in the class map: they are probably other data. Not called if all rows have the same
 * label, as a file of rows to predict often has. */
static void warn_unseen(const xsmi_reader *r, const char *path, const char *first)
{
    const xsm_class_map *map = &r->map;
    char text[XSMI_QUOTE_SIZE];
    const char *name = map->labels || !map->names ? NULL : map->names[0];
    xsmi_log(r->context, XSM_LOG_WARNING,
             "%s: no label of the rows is one that the class map has: the first is %s, and there it is %s", path, first,
             show(name, name ? strlen(name) : 0, map->labels ? map->labels[0] : 0, text));
}

/* Flips the sign bit, so that unsigned order is signed order. */
#define SIGN (UINT64_C(1) << 63)

/* Makes classes of the numbers in labels[]; `spare` is scratch of the same size. */
static xsm_status classes_of_numbers(const xsmi_reader *r, xsm_dataset *d, int64_t *labels, uint64_t *spare,
                                     uint32_t *class_of, xsm_error *err)
{
    uint32_t count = r->dictionary.count;
    /* labels[] is sorted in place; the dictionary keeps the labels in order of arrival. */
    uint64_t *keys = (uint64_t *)labels;
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = (uint64_t)labels[i] ^ SIGN;
    }
    xsmi_sort(r->context, keys, spare, count);
    XSMI_TRY(xsmi_go_on(r->context, err));
    uint32_t classes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t label = (int64_t)(keys[i] ^ SIGN);
        classes += classes == 0 || labels[classes - 1] != label; /* 1.0 is 1 */
        labels[classes - 1] = label;
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t label = 0;
        if (r->dictionary.words) {
            size_t length;
            const char *word = xsmi_dictionary_text(&r->dictionary, i, &length);
            (void)xsmi_whole_number(word, length, &label);
        } else {
            label = xsmi_dictionary_label(&r->dictionary, i);
        }
        class_of[i] = xsmi_class_of_number(labels, classes, label);
    }
    return xsmi_dataset_set_classes(d, classes, labels, NULL, err);
}

/* The fewest labels that are told to be quantities. */
enum { QUANTITIES = 20 };

/* Warns of a table whose labels are mostly fractions, and mostly of one row each: they are quantities. */
static void tell_quantities(const xsmi_reader *r)
{
    const uint32_t count = r->dictionary.count;
    uint32_t fractions = 0;
    for (uint32_t i = 0; i < count && count >= QUANTITIES && 2 * (uint64_t)count > r->rows; i++) {
        size_t length;
        const char *const word = xsmi_dictionary_text(&r->dictionary, i, &length), *end = word;
        float number;
        fractions += memchr(word, '.', length) && xsmi_parse_float(word, &end, &number) == XSMI_NUMBER_OK && !*end;
    }
    if (2 * fractions > count) {
        xsmi_log(
            r->context, XSM_LOG_WARNING,
            "%s: %u of the %u labels are fractions, and most rows have one of their own: quantities are no classes; "
            "ranges of them are",
            r->source.name, fractions, count);
    }
}

static xsm_status classes_of_words(const xsmi_reader *r, xsm_dataset *d, uint64_t *spare, uint32_t *class_of,
                                   xsm_error *err)
{
    uint32_t count = r->dictionary.count;
    uint32_t *order = (uint32_t *)spare;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    xsmi_sort_by(r->context, xsmi_dictionary_before, &r->dictionary, order, order + count, count);
    XSMI_TRY(xsmi_go_on(r->context, err));
    const char **names;
    XSMI_TRY(xsmi_array_new(r->context, &names, count, sizeof *names, "the names of classes", err));
    for (uint32_t k = 0; k < count; k++) {
        size_t length;
        names[k] = xsmi_dictionary_text(&r->dictionary, order[k], &length);
        class_of[order[k]] = k;
    }
    xsm_status status = xsmi_dataset_set_classes(d, count, NULL, names, err);
    if (status == XSM_OK && !r->has_map) {
        tell_quantities(r);
        xsm_class_map own = XSM_CLASS_MAP_INIT;
        status = xsm_dataset_get_class_map(d, &own, err);
        status = status == XSM_OK ? xsmi_tell_alike(r->context, r->source.name, &own, NULL, NULL, err) : status;
    }
    xsmi_release(r->context, names, count, sizeof *names);
    return status;
}

/* Whether words are names even if all are numbers. */
static bool wants_names(const xsmi_reader *r)
{
    const bool map_of_words = r->has_map && r->map.names && !r->map.labels;
    return r->format->labels == XSMI_LABELS_NAMES || (r->dictionary.words && map_of_words);
}

/* -- as another map's ---------------------------------------------------------------------------------------------- */

/* Whether class k has rows. While a file is read there are no counts yet, and each class has. */
static bool occurs(const xsm_dataset *d, uint32_t k)
{
    return d->rows == 0 || d->map.counts[k] > 0;
}

static void warn_if_unseen(const xsmi_reader *r, const xsm_dataset *d, const char *path, const uint32_t *match)
{
    uint32_t first = UINT32_MAX, labels = 0;
    for (uint32_t k = 0; k < d->classes; k++) {
        const bool here = occurs(d, k);
        if (here && match[k] != XSM_CLASS_UNSEEN) {
            return;
        }
        first = here && first == UINT32_MAX ? k : first;
        labels += here;
    }
    if (labels > 1) {
        char text[XSMI_QUOTE_SIZE];
        const char *name = d->map.labels || !d->map.names ? NULL : d->map.names[first];
        const int64_t number = d->map.labels ? d->map.labels[first] : (int64_t)first;
        warn_unseen(r, path, show(name, name ? strlen(name) : 0, number, text));
    }
}

/* Gives a dataset the classes of the caller's map. match[k] becomes the class of the map that its class k is. */
static xsm_status take_map(const xsmi_reader *r, const char *path, xsm_dataset *d, uint32_t *match, xsm_error *err)
{
    xsm_class_map own = XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsm_dataset_get_class_map(d, &own, err));
    XSMI_TRY(xsmi_class_match(r->context, &own, &r->map, match, err));
    if (r->map.classes > 0) {
        warn_if_unseen(r, d, path, match);
    }
    uint32_t unseen = 0;
    for (uint32_t k = 0; k < d->classes; k++) {
        unseen += match[k] == XSM_CLASS_UNSEEN && occurs(d, k);
    }
    d->unseen_classes = unseen;
    XSMI_TRY(unseen > 0 ? xsmi_tell_alike(r->context, path, &own, &r->map, match, err) : XSM_OK);
    return xsmi_dataset_replace_classes(d, r->map.classes, r->map.labels, r->map.names, err);
}

/* Does the same for the classes of a file's labels, class_of[]. */
static xsm_status take_map_of_file(const xsmi_reader *r, xsm_dataset *d, uint32_t *class_of, xsm_error *err)
{
    const uint32_t own = d->classes;
    uint32_t *match = xsmi_allocate(r->context, own, sizeof *match);
    xsm_status status = match ? take_map(r, r->source.name, d, match, err)
                              : xsmi_fail_memory(err, own * sizeof *match, "the map of classes");
    for (uint32_t i = 0; i < r->dictionary.count && status == XSM_OK; i++) {
        class_of[i] = match[class_of[i]];
    }
    xsmi_release(r->context, match, own, sizeof *match);
    return status;
}

#define REPLACED "with U+FFFD in place of bytes that are no UTF-8"
#define ADVICE "iconv -f LATIN1 -t UTF-8 makes UTF-8 of the bytes of Western Europe"

/* Adds a label, with its bad bytes replaced, to a dictionary; fails if another label there is then equal. */
static xsm_status add_mended(const xsmi_reader *r, xsmi_dictionary *mended, uint32_t i, uint32_t *changed,
                             xsm_error *err)
{
    char quotes[2][XSMI_QUOTE_SIZE];
    size_t length, most;
    uint32_t id;
    uint64_t replaced = 0;
    const char *const word = xsmi_dictionary_text(&r->dictionary, i, &length);
    most = 3 * length + 1; /* a bad byte becomes three bytes */
    char *copy;
    XSMI_TRY(xsmi_array_new(r->context, &copy, most, 1, "a label", err));
    const xsm_status status =
        xsmi_dictionary_word(mended, copy, xsmi_utf8_mend(word, length, copy, &replaced), &id, err);
    xsmi_release(r->context, copy, most, 1);
    XSMI_TRY(status);
    if (id < i) {
        const char *const other = xsmi_dictionary_text(&r->dictionary, id, &most);
        return xsmi_fail(err, XSM_ERROR_FORMAT, "%s: the labels %s and %s are one " REPLACED "; " ADVICE,
                         r->source.name, xsmi_quote(quotes[0], other, most), xsmi_quote(quotes[1], word, length));
    }
    *changed += replaced > 0;
    return XSM_OK;
}

/* Replaces bad bytes of labels. */
static xsm_status mend_labels(xsmi_reader *r, xsm_error *err)
{
    xsmi_dictionary mended;
    xsm_status status = XSM_OK;
    uint32_t changed = 0;
    xsmi_dictionary_start(&mended, r->context, true);
    for (uint32_t i = 0; i < r->dictionary.count && status == XSM_OK; i++) {
        status = add_mended(r, &mended, i, &changed, err);
    }
    if (status == XSM_OK) {
        xsmi_log(r->context, XSM_LOG_WARNING, "%s: %u classes have names " REPLACED "; " ADVICE, r->source.name,
                 changed);
        const xsmi_dictionary bad = r->dictionary;
        r->dictionary = mended;
        mended = bad;
    }
    xsmi_dictionary_end(&mended);
    return status;
}

/* Warns of new labels that look like one of the map. `match`: scratch for all classes. */
static xsm_status tell_new(const xsmi_reader *r, const xsm_dataset *d, uint32_t *match, xsm_error *err)
{
    xsm_class_map own = XSM_CLASS_MAP_INIT;
    XSMI_TRY(xsm_dataset_get_class_map(d, &own, err));
    XSMI_TRY(own.names && r->map.names ? xsmi_class_match(r->context, &own, &r->map, match, err) : XSM_OK);
    return xsmi_tell_alike(r->context, r->source.name, &own, &r->map, match, err);
}

xsm_status xsmi_set_classes(xsmi_reader *r, xsm_dataset *d, xsm_error *err)
{
    XSMI_TRY(r->bad_labels ? mend_labels(r, err) : XSM_OK);
    uint32_t count = r->dictionary.count;
    xsmi_held held = {.context = r->context};
    uint32_t *class_of = xsmi_hold(&held, count, sizeof *class_of);
    int64_t *labels = xsmi_hold(&held, count, sizeof *labels);
    uint64_t *spare = xsmi_hold(&held, count, sizeof *spare);
    xsm_status status = xsmi_held_check(&held, "the map of labels", err);
    if (status == XSM_OK) {
        status = !wants_names(r) && numbers_of(&r->dictionary, labels)
                     ? classes_of_numbers(r, d, labels, spare, class_of, err)
                     : classes_of_words(r, d, spare, class_of, err);
    }
    if (status == XSM_OK && r->has_map) {
        status = r->options.new_labels ? tell_new(r, d, (uint32_t *)spare, err) : take_map_of_file(r, d, class_of, err);
    }
    for (size_t i = 0; i < r->label.count && status == XSM_OK; i++) {
        r->label.numbers[i] = class_of[r->label.numbers[i]];
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsmi_match_classes(const xsmi_reader *r, const char *path, xsm_dataset *d, xsm_error *err)
{
    uint32_t count = d->classes;
    uint32_t *class_of;
    XSMI_TRY(xsmi_array_new(r->context, &class_of, count, sizeof *class_of, "the map of classes", err));
    xsm_status status = take_map(r, path, d, class_of, err);
    bool same = true;
    for (uint32_t k = 0; k < count && status == XSM_OK; k++) {
        same &= class_of[k] == k;
    }
    if (status == XSM_OK && !same) {
        status = xsmi_dataset_own(d, XSMI_OWN_LABELS, err);
    }
    if (status == XSM_OK) {
        uint32_t *labels = xsmi_dataset_own_labels(d);
        for (uint64_t i = 0; i < d->label_offsets[d->rows] && !same; i++) {
            labels[i] = labels[i] == XSM_CLASS_UNSEEN ? XSM_CLASS_UNSEEN : class_of[labels[i]];
        }
        xsmi_dataset_count_labels(d);
    }
    xsmi_release(r->context, class_of, count, sizeof *class_of);
    return status;
}
