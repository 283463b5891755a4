/*
 * The settings of a run as text. A checkpoint contains them, and only a run with the same settings can continue it.
 */
#ifndef XSMI_CHECKPOINT_SETTINGS_H
#define XSMI_CHECKPOINT_SETTINGS_H

#include "base/safetensors.h"
#include "train/trainer.h"

typedef struct xsmi_settings {
    xsm_context *context;
    xsmi_entry *entries; /* keys "checkpoint" and "checkpoint.*"; owns its texts */
    size_t count, capacity;
} xsmi_settings;

/* The settings of a trainer, with the fingerprint of its data, which needs a pass over the data the first time. */
xsm_status xsmi_settings_gather(xsm_trainer *t, xsmi_settings *out, xsm_error *err);
void xsmi_settings_free(xsmi_settings *s);
/* Refuses a checkpoint with other settings; the message names the first difference. */
xsm_status xsmi_settings_compare(const xsmi_settings *s, const xsmi_container *file, const char *path, xsm_error *err);

#endif
