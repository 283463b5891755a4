/*
 * What a run was asked for, as text: a checkpoint holds it, and only a run of the same settings goes on from there.
 */
#ifndef XSMI_CHECKPOINT_SETTINGS_H
#define XSMI_CHECKPOINT_SETTINGS_H

#include "base/safetensors.h"
#include "train/trainer.h"

typedef struct xsmi_settings {
    xsm_context *context;
    xsmi_entry *entries; /* keys "checkpoint" and "checkpoint.*", texts of its own */
    size_t count, capacity;
} xsmi_settings;

/* The settings of a trainer, with the fingerprint of its data, which takes a pass over them the first time. */
xsm_status xsmi_settings_gather(xsm_trainer *t, xsmi_settings *out, xsm_error *err);
void xsmi_settings_free(xsmi_settings *s);
/* Refuses a checkpoint of other settings, naming the first that differs. */
xsm_status xsmi_settings_compare(const xsmi_settings *s, const xsmi_container *file, const char *path, xsm_error *err);

#endif
