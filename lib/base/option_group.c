/* The options of an object: those of its kind and its own, by name. */
#include "base/option.h"

const xsm_option *xsmi_group_at(const xsmi_option_group *group, size_t index)
{
    size_t common = group->table[0].count;
    return index < common ? xsmi_option_at(&group->table[0], index) : xsmi_option_at(&group->table[1], index - common);
}

const xsm_option *xsmi_group_find(const xsmi_option_group *group, const char *name, void **values)
{
    for (int i = 0; i < 2; i++) {
        const xsm_option *option = xsmi_option_find(&group->table[i], name);
        if (option) {
            *values = group->values[i];
            return option;
        }
    }
    return NULL;
}

static const char *group_name_at(const void *list, size_t index)
{
    return xsmi_group_at(list, index)->name;
}

xsm_status xsmi_group_want(const xsmi_option_group *group, const char *name, const xsm_option **option, void **values,
                           xsm_error *err)
{
    *values = NULL;
    *option = xsmi_group_find(group, name, values);
    if (!*option) {
        const char *near = xsmi_nearest(name, group, group->table[0].count + group->table[1].count, group_name_at);
        return xsmi_fail(err, XSM_ERROR_NAME, "%s '%s' has no option '%s'%s%s%s", group->kind, group->name, name,
                         near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
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

xsm_status xsmi_group_set_double(const xsmi_option_group *group, const char *name, double value, xsm_error *err)
{
    const xsm_option *option;
    void *values;
    XSMI_TRY(xsmi_group_want(group, name, &option, &values, err));
    return xsmi_option_set_double(option, values, value, err);
}

xsm_status xsmi_group_set_int(const xsmi_option_group *group, const char *name, int64_t value, xsm_error *err)
{
    const xsm_option *option;
    void *values;
    XSMI_TRY(xsmi_group_want(group, name, &option, &values, err));
    return xsmi_option_set_int(option, values, value, err);
}

xsm_status xsmi_fail_name(xsm_error *err, const char *kind, const char *name, size_t count,
                          const char *(*name_at)(const void *, size_t))
{
    if (!name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_%s_new: name is NULL", kind);
    }
    const char *near = xsmi_nearest(name, NULL, count, name_at);
    return xsmi_fail(err, XSM_ERROR_NAME, "no %s '%s'%s%s%s", kind, name, near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
}

xsm_status xsmi_group_check(const xsmi_option_group *group, size_t size, xsm_error *err)
{
    const xsmi_option_table *own = &group->table[1];
    XSMI_TRY(xsmi_option_check(own, size, group->name, err));
    for (size_t i = 0; i < own->count; i++) {
        const xsm_option *option = xsmi_option_at(own, i);
        if (xsmi_option_find(&group->table[0], option->name)) {
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
    const xsm_option *option = name ? xsmi_group_find(group, name, &values) : NULL;
    size = buffer ? size : 0;
    if (!option) {
        if (size > 0) {
            buffer[0] = '\0';
        }
        return 0;
    }
    return xsmi_option_print(option, values, buffer, size);
}
