/* The options of an object: those of its kind and its own, by name. */
#include "base/option.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_SIZE = 240 };

const xsm_option *xsmi_group_at(const xsmi_option_group *group, size_t index)
{
    for (int i = 0; i < XSMI_OPTION_TABLES; i++) {
        if (index < group->table[i].count) {
            return xsmi_option_at(&group->table[i], index);
        }
        index -= group->table[i].count;
    }
    return NULL;
}

/* Returns the option of that name, and sets *values to the memory of its table's values; NULL if it does not exist. */
static const xsm_option *find_option(const xsmi_option_group *group, const char *name, void **values)
{
    for (int i = 0; i < XSMI_OPTION_TABLES; i++) {
        const xsm_option *option = xsmi_option_find(&group->table[i], name);
        if (option) {
            *values = group->values[i];
            return option;
        }
    }
    return NULL;
}

static size_t count_of(const xsmi_option_group *group)
{
    size_t count = 0;
    for (int i = 0; i < XSMI_OPTION_TABLES; i++) {
        count += group->table[i].count;
    }
    return count;
}

static const char *group_name_at(const void *list, size_t index)
{
    return xsmi_group_at(list, index)->name;
}

/* Lists as many option names as fit into a message. */
static const char *list_names(const xsmi_option_group *group, size_t count, char names[NAMES_SIZE])
{
    static const char more[] = ", ...";
    size_t used = 0;
    names[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const char *name = group_name_at(group, i);
        const bool fits = strlen(name) + strlen(", ") + sizeof more <= NAMES_SIZE - used;
        used +=
            (size_t)snprintf(names + used, NAMES_SIZE - used, "%s%s", i > 0 && fits ? ", " : "", fits ? name : more);
        if (!fits) {
            break;
        }
    }
    return names;
}

xsm_status xsmi_group_want(const xsmi_option_group *group, const char *name, const xsm_option **option, void **values,
                           xsm_error *err)
{
    *values = NULL;
    *option = find_option(group, name, values);
    if (!*option) {
        const size_t count = count_of(group);
        const char *near = xsmi_nearest(name, group, count, group_name_at);
        char names[NAMES_SIZE];
        if (near) {
            return xsmi_fail(err, XSM_ERROR_NAME, "%s '%s' has no option '%s'; did you mean '%s'?", group->kind,
                             group->name, name, near);
        }
        return xsmi_fail(err, XSM_ERROR_NAME, "%s '%s' has no option '%s'%s%s", group->kind, group->name, name,
                         count > 0 ? "; it has " : ", nor any other", list_names(group, count, names));
    }
    return XSM_OK;
}

xsm_status xsmi_group_set_text(const xsmi_option_group *group, const char *name, const char *value, xsm_error *err)
{
    const xsm_option *option;
    void *values;
    XSMI_TRY(xsmi_group_want(group, name, &option, &values, err));
    if (!value) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "option '%s': the value is NULL", name);
    }
    return xsmi_option_set_text(option, values, value, err);
}

xsm_status xsmi_group_set_number(const xsmi_option_group *group, const char *name, double value, xsm_error *err)
{
    const xsm_option *option;
    void *values;
    XSMI_TRY(xsmi_group_want(group, name, &option, &values, err));
    return xsmi_option_set_double(option, values, value, err);
}

xsm_status xsmi_fail_name(xsm_error *err, const char *kind, const char *name, size_t count,
                          const char *(*name_at)(const void *, size_t))
{
    if (!name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_%s_new: name is NULL", kind);
    }
    const char *near = xsmi_nearest(name, NULL, count, name_at);
    if (near) {
        return xsmi_fail(err, XSM_ERROR_NAME, "no %s '%s'; did you mean '%s'?", kind, name, near);
    }
    char names[sizeof err->message]; /* "'sgd' or 'adagrad'" */
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof names; i++) {
        const char *before = i == 0 ? "" : i + 1 < count ? ", " : " or ";
        used += (size_t)snprintf(names + used, sizeof names - used, "%s'%s'", before, name_at(NULL, i));
    }
    return xsmi_fail(err, XSM_ERROR_NAME, "no %s '%s'; accepted is %s", kind, name, names);
}

xsm_status xsmi_check_set(const char *kind, const void *object, const char *name, const char *closed, xsm_error *err)
{
    if (!object || !name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_%s_set: the %s is NULL", kind, object ? "name" : kind);
    }
    return closed ? xsmi_fail(err, XSM_ERROR_STATE, "option '%s' must be set %s", name, closed) : XSM_OK;
}

xsm_status xsmi_group_check(const xsmi_option_group *group, size_t size, xsm_error *err)
{
    const xsmi_option_table *own = &group->table[XSMI_OPTIONS_OWN];
    XSMI_TRY(xsmi_option_check(own, size, group->name, err));
    for (size_t i = 0; i < own->count; i++) {
        const xsm_option *option = xsmi_option_at(own, i);
        if (xsmi_option_find(&group->table[XSMI_OPTIONS_COMMON], option->name) ||
            xsmi_option_find(&group->table[XSMI_OPTIONS_KIND], option->name)) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s '%s': option '%s' is one that every %s has", group->kind,
                             group->name, option->name, group->kind);
        }
        if (xsmi_option_find(own, option->name) != option) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s '%s': option '%s' is there twice", group->kind, group->name,
                             option->name);
        }
    }
    return XSM_OK;
}

size_t xsmi_group_get(const xsmi_option_group *group, const char *name, char *buffer, size_t size)
{
    void *values;
    const xsm_option *option = group && name ? find_option(group, name, &values) : NULL;
    size = buffer ? size : 0;
    if (!option) {
        if (size > 0) {
            buffer[0] = '\0';
        }
        return SIZE_MAX;
    }
    return xsmi_option_print(option, values, buffer, size);
}
