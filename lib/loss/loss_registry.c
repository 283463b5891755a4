/* The losses that XSMI_LOSSES lists, and their names. */
#include "base/registry.h"
#include "loss/loss.h"

const xsmi_loss *const xsmi_losses[] = {XSMI_LOSSES(XSMI_REGISTRY_NAMED_TABLE) NULL};

const char *const xsmi_loss_names[] = {XSMI_REGISTRY_NAMES(XSMI_LOSSES)};
