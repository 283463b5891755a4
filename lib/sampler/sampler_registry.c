/* The functions that look up built-in samplers by name; XSMI_SAMPLERS lists them. */
#include "base/registry.h"
#include "sampler/sampler.h"

/* xsm_sampler_at(), _find(), _new() */
XSMI_REGISTRY(sampler, XSMI_SAMPLERS(XSMI_REGISTRY_NAMED_TABLE))

const char *const xsmi_sampler_names[] = {XSMI_REGISTRY_NAMES(XSMI_SAMPLERS)};
