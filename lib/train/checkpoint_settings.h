/*
 * The settings of a trainer's run, for its checkpoints.
 */
#ifndef XSMI_CHECKPOINT_SETTINGS_H
#define XSMI_CHECKPOINT_SETTINGS_H

#include "base/settings.h"
#include "train/trainer.h"

/* Gathers the settings of a trainer, with the fingerprint of its data, which takes a pass over the data the first
 * time. */
xsm_status xsmi_settings_gather(xsm_trainer *t, xsmi_settings *out, xsm_error *err);
/* Compares the options of a trainer among the processes of a group. */
xsm_status xsmi_trainer_agree(const xsm_model *model, const xsm_trainer_options *o, xsm_error *err);

#endif
