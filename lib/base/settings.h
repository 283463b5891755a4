/*
 * The settings of a run as text. A checkpoint contains them, and only a run with the same settings can continue it.
 */
#ifndef XSMI_SETTINGS_H
#define XSMI_SETTINGS_H

#include "base/option.h"
#include "base/safetensors.h"

/* Prefix of all keys but the first, which is XSMI_KEY_CHECKPOINT and whose value is the version. */
#define XSMI_SETTINGS_PREFIX XSMI_KEY_CHECKPOINT "."

typedef struct xsmi_settings {
    xsm_context *context;
    xsmi_entry *entries; /* keys "checkpoint" and "checkpoint.*"; owns its texts */
    bool *initial;       /* whether an entry is an option with its default, which older checkpoints may lack */
    size_t count, capacity, initial_capacity;
} xsmi_settings;

/* Adds a setting; its key is `key` followed by `more`. */
xsm_status xsmi_settings_add(xsmi_settings *s, const char *key, const char *more, const char *value, xsm_error *err);
xsm_status xsmi_settings_add_whole(xsmi_settings *s, const char *key, uint64_t value, xsm_error *err);
xsm_status xsmi_settings_add_hash(xsmi_settings *s, const char *key, uint64_t value, xsm_error *err);
xsm_status xsmi_settings_add_real(xsmi_settings *s, const char *key, double value, xsm_error *err);
/* As xsm_estimator_get(). */
typedef size_t (*xsmi_option_getter)(const void *of, const char *name, char *buffer, size_t size);
/* Sets *text to the text of an option's value, the caller's to release, or NULL if `of` has no such option; *size to
 * its bytes with the terminator. */
xsm_status xsmi_option_text(xsm_context *context, xsmi_option_getter get, const void *of, const char *name, char **text,
                            size_t *size, xsm_error *err);
/* Adds an option's value. */
xsm_status xsmi_settings_add_option(xsmi_settings *s, const char *prefix, const xsm_option *option, const void *of,
                                    xsmi_option_getter get, xsm_error *err);
/* Options of a struct: whole numbers, or real ones. */
typedef struct xsmi_number {
    const char *key;
    uint64_t whole; /* 0: it is the real one */
    double real;
} xsmi_number;
#define XSMI_WHOLE(name, value)                                                                                        \
    {                                                                                                                  \
        XSMI_SETTINGS_PREFIX name, value, 0                                                                            \
    }
#define XSMI_REAL(name, value)                                                                                         \
    {                                                                                                                  \
        XSMI_SETTINGS_PREFIX name, 0, value                                                                            \
    }
xsm_status xsmi_settings_add_numbers(xsmi_settings *s, const xsmi_number *numbers, size_t count, xsm_error *err);
void xsmi_settings_free(xsmi_settings *s);
/* Returns the value of a key; NULL: there is none. */
const char *xsmi_settings_value(const xsmi_settings *s, const char *key);
/* Refuses a checkpoint with other settings; the message names the first difference. An option that the checkpoint lacks
 * had its default. */
xsm_status xsmi_settings_compare(const xsmi_settings *s, const xsmi_container *file, const char *path, xsm_error *err);

#endif
