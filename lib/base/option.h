/*
 * Options by name, from tables of xsm_option: the one place that parses, checks, prints and suggests.
 */
#ifndef XSMI_OPTION_H
#define XSMI_OPTION_H

#include "base/base.h"
#include "base/entry.h"

#include <xsoftmax/option.h>

/* A table of options: an array whose entries have the `size` that they say, because a host's may be of another
 * release. */
typedef struct xsmi_option_table {
    const xsm_option *options;
    size_t count;
} xsmi_option_table;

/* The entries of a table. Each names the option and the member of the state type that stores its value (of the type
 * that the option needs, or it does not compile), and ends with the default value as text, limits and the help. */
/* clang-format off */
#define XSMI_OPTION_OF(name, kind, needed, type, member, initial, least, most, words, help) \
    {sizeof(xsm_option), name, kind, _Generic(((type *)0)->member, needed: offsetof(type, member)), initial, least, most, words, \
     help}
/* An array of entries as a table. */
#define XSMI_OPTION_TABLE(array) {(array), sizeof(array) / sizeof *(array)}
/* clang-format on */
#define XSMI_OPTION_DOUBLE(name, type, member, initial, least, most, help)                                             \
    XSMI_OPTION_OF(name, XSM_OPTION_DOUBLE, double, type, member, initial, least, most, NULL, help)
#define XSMI_OPTION_INT(name, type, member, initial, least, most, help)                                                \
    XSMI_OPTION_INT_OR(name, type, member, NULL, initial, least, most, help)
/* Words are accepted in place of a number: see xsm_option.choices. */
#define XSMI_OPTION_INT_OR(name, type, member, words, initial, least, most, help)                                      \
    XSMI_OPTION_OF(name, XSM_OPTION_INT, int64_t, type, member, initial, least, most, words, help)
#define XSMI_OPTION_BOOL(name, type, member, initial, help)                                                            \
    XSMI_OPTION_OF(name, XSM_OPTION_BOOL, int32_t, type, member, initial, 0, 1, NULL, help)
#define XSMI_OPTION_CHOICE(name, type, member, choices, initial, help)                                                 \
    XSMI_OPTION_OF(name, XSM_OPTION_CHOICE, int32_t, type, member, initial, 0, 0, choices, help)
#define XSMI_OPTION_CLASSES(name, type, member, help)                                                                  \
    XSMI_OPTION_OF(name, XSM_OPTION_CLASSES, xsm_class_list, type, member, "", 0, 0, NULL, help)
/* The option "seed" of a state with such a member. */
#define XSMI_OPTION_SEED(type, help) XSMI_OPTION_INT("seed", type, seed, "1", 0, 9007199254740992.0, help)

const xsm_option *xsmi_option_at(const xsmi_option_table *table, size_t index);
const xsm_option *xsmi_option_find(const xsmi_option_table *table, const char *name);
/* Checks a table itself: names, types, defaults that parse, members inside `size` bytes. `owner` is for messages. */
xsm_status xsmi_option_check(const xsmi_option_table *table, size_t size, const char *owner, xsm_error *err);
/* Sets the default values. The table was checked. */
void xsmi_option_defaults(const xsmi_option_table *table, void *values);
xsm_status xsmi_option_set_text(const xsm_option *option, void *values, const char *value, xsm_error *err);
xsm_status xsmi_option_set_double(const xsm_option *option, void *values, double value, xsm_error *err);
xsm_status xsmi_option_set_int(const xsm_option *option, void *values, int64_t value, xsm_error *err);
/* Writes the value as text; returns its full length. */
size_t xsmi_option_print(const xsm_option *option, const void *values, char *buffer, size_t size);

/* The options of an object come from up to three tables, in this order: those of every object of its type (every
 * estimator, say), those of some, its own. */
enum { XSMI_OPTIONS_COMMON, XSMI_OPTIONS_KIND, XSMI_OPTIONS_OWN, XSMI_OPTION_TABLES };

typedef struct xsmi_option_group {
    const char *kind, *name; /* for messages: "estimator", "ove" */
    xsmi_option_table table[XSMI_OPTION_TABLES];
    void *values[XSMI_OPTION_TABLES];
} xsmi_option_group;

/* Option number `index`, NULL past the last. */
const xsm_option *xsmi_group_at(const xsmi_option_group *group, size_t index);
/* Finds the option of that name and the memory of its table's values; the error names the nearest option. */
xsm_status xsmi_group_want(const xsmi_option_group *group, const char *name, const xsm_option **option, void **values,
                           xsm_error *err);
xsm_status xsmi_group_set_text(const xsmi_option_group *group, const char *name, const char *value, xsm_error *err);
xsm_status xsmi_group_set_number(const xsmi_option_group *group, const char *name, double value, xsm_error *err);
/* Checks an object's own table like xsmi_option_check(), and that no name occurs twice or belongs to all objects of the
 * kind. */
xsm_status xsmi_group_check(const xsmi_option_group *group, size_t size, xsm_error *err);
/* Prints an option's value as xsm_estimator_get() does; group NULL: has no options. Returns SIZE_MAX if
 * there is no such option. */
size_t xsmi_group_get(const xsmi_option_group *group, const char *name, char *buffer, size_t size);

/* Returns the nearest of count names to `name` by edit distance, NULL if none is near. name_at(list, i) gives name
 * i. */
const char *xsmi_nearest(const char *name, const void *list, size_t count,
                         const char *(*name_at)(const void *, size_t));
/* Fails with the error of xsm_KIND_new() for a name that is NULL or not one of `count` registered names. */
xsm_status xsmi_fail_name(xsm_error *err, const char *kind, const char *name, size_t count,
                          const char *(*name_at)(const void *, size_t));
/* Parses a whole text as a number, whatever the locale; false when it is no number or does not fit. */
bool xsmi_parse_double(const char *text, double *value);
/* Writes a number with the given number of significant digits, or for 0 the shortest text that reads back as the same
 * number, with a decimal point in every locale. Returns its length, as snprintf() does. */
size_t xsmi_print_double(double value, int digits, char *buffer, size_t size);
bool xsmi_parse_int(const char *text, int64_t *value);
/* Whether a label, followed by a byte that is neither digit nor point, is a whole number as programs write it, perhaps
 * as a float: 24, 24.0, 2.4e+01; but 024, +24 and 24e0 are words. */
bool xsmi_whole_number(const char *word, size_t length, int64_t *number);

/* Defines xsm_KIND_ops_option() by a function options_of(ops, common, state) that returns the group of options. */
#define XSMI_DESCRIBE_OPS(kind)                                                                                        \
    const xsm_option *xsm_##kind##_ops_option(const xsm_##kind##_ops *ops, size_t index)                               \
    {                                                                                                                  \
        if (!ops) {                                                                                                    \
            return NULL;                                                                                               \
        }                                                                                                              \
        const xsmi_option_group group = options_of(ops, NULL, NULL);                                                   \
        return xsmi_group_at(&group, index);                                                                           \
    }

/* Defines xsm_KIND_set(), _set_number() and _get() of an object with the members ops and state,
 * and the values of common options at `common`, an expression with `object`. Options may be set while closed(object)
 * returns NULL; otherwise it returns until when they could be: "before the index is built". */
#define XSMI_OBJECT_OPTIONS(kind, closed, common)                                                                      \
    static xsm_status open_options(xsm_##kind *object, const char *name, xsmi_option_group *group, xsm_error *err)     \
    {                                                                                                                  \
        XSMI_TRY(xsmi_check_set(#kind, object, name, object ? closed(object) : NULL, err));                            \
        *group = options_of(&object->ops, (common), object->state);                                                    \
        return XSM_OK;                                                                                                 \
    }                                                                                                                  \
                                                                                                                       \
    xsm_status xsm_##kind##_set(xsm_##kind *object, const char *name, const char *value, xsm_error *err)               \
    {                                                                                                                  \
        XSMI_ENTER(err);                                                                                               \
        xsmi_option_group group;                                                                                       \
        XSMI_TRY(open_options(object, name, &group, err));                                                             \
        return xsmi_group_set_text(&group, name, value, err);                                                          \
    }                                                                                                                  \
                                                                                                                       \
    xsm_status xsm_##kind##_set_number(xsm_##kind *object, const char *name, double value, xsm_error *err)             \
    {                                                                                                                  \
        XSMI_ENTER(err);                                                                                               \
        xsmi_option_group group;                                                                                       \
        XSMI_TRY(open_options(object, name, &group, err));                                                             \
        return xsmi_group_set_number(&group, name, value, err);                                                        \
    }                                                                                                                  \
                                                                                                                       \
    size_t xsm_##kind##_get(const xsm_##kind *object, const char *name, char *buffer, size_t size)                     \
    {                                                                                                                  \
        if (!object) {                                                                                                 \
            return xsmi_group_get(NULL, name, buffer, size);                                                           \
        }                                                                                                              \
        const xsmi_option_group group = options_of(&object->ops, (void *)(uintptr_t)(common), object->state);          \
        return xsmi_group_get(&group, name, buffer, size);                                                             \
    }

/* Refuses a NULL object or name, and any option unless `closed` is NULL: `closed` says until when options could be set
 * ("before the index is built"). */
xsm_status xsmi_check_set(const char *kind, const void *object, const char *name, const char *closed, xsm_error *err);

#endif
