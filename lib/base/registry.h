/*
 * The built-in methods of a kind. Each kind has one list, such as XSMI_SAMPLERS(X), with a line X(table, "name") for
 * each method; the name is there only where an option takes the names of the methods. Declarations, the registry, the
 * names and the public functions that find methods all come from that list.
 */
#ifndef XSMI_REGISTRY_H
#define XSMI_REGISTRY_H

#include "base/option.h"

#include <stddef.h>
#include <string.h>

#define XSMI_REGISTRY_TABLE(table) &(table),
#define XSMI_REGISTRY_NAMED_TABLE(table, name) &(table),
#define XSMI_REGISTRY_NAME(table, name) name,

/* The names of a list, ended by NULL, as options with choices take them: the inside of an array's braces. */
#define XSMI_REGISTRY_NAMES(list) list(XSMI_REGISTRY_NAME) NULL

/* Defines xsm_KIND_at(), xsm_KIND_find() and xsm_KIND_new() over the tables of a list. */
#define XSMI_REGISTRY(kind, tables)                                                                                    \
    static const xsm_##kind##_ops *const registry[] = {tables};                                                        \
                                                                                                                       \
    const xsm_##kind##_ops *xsm_##kind##_at(size_t index)                                                              \
    {                                                                                                                  \
        return index < sizeof registry / sizeof registry[0] ? registry[index] : NULL;                                  \
    }                                                                                                                  \
                                                                                                                       \
    const xsm_##kind##_ops *xsm_##kind##_find(const char *name)                                                        \
    {                                                                                                                  \
        for (size_t i = 0; name && xsm_##kind##_at(i); i++) {                                                          \
            if (strcmp(registry[i]->name, name) == 0) {                                                                \
                return registry[i];                                                                                    \
            }                                                                                                          \
        }                                                                                                              \
        return NULL;                                                                                                   \
    }                                                                                                                  \
                                                                                                                       \
    static const char *name_at(const void *list, size_t index)                                                         \
    {                                                                                                                  \
        (void)list;                                                                                                    \
        return registry[index]->name;                                                                                  \
    }                                                                                                                  \
                                                                                                                       \
    xsm_status xsm_##kind##_new(xsm_context *context, const char *name, xsm_##kind **out, xsm_error *err)              \
    {                                                                                                                  \
        XSMI_ENTER(err);                                                                                               \
        const xsm_##kind##_ops *ops = xsm_##kind##_find(name);                                                         \
        return ops ? xsm_##kind##_new_from(context, ops, out, err)                                                     \
                   : xsmi_fail_name(err, #kind, name, sizeof registry / sizeof registry[0], name_at);                  \
    }

#endif
