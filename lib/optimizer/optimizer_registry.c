/* The functions that look up built-in optimizers by name; XSMI_OPTIMIZERS lists them. */
#include "base/registry.h"
#include "optimizer/optimizer.h"

/* xsm_optimizer_at(), _find(), _new() */
XSMI_REGISTRY(optimizer, XSMI_OPTIMIZERS(XSMI_REGISTRY_TABLE))
