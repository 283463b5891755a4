/* The functions that look up built-in samplers by name; XSMI_SAMPLERS lists them. */
#include "base/registry.h"
#include "sampler/sampler.h"

XSMI_REGISTRY(sampler, XSMI_SAMPLERS(XSMI_REGISTRY_NAMED_TABLE))

const char *const xsmi_sampler_names[] = {XSMI_REGISTRY_NAMES(XSMI_SAMPLERS)};

static const char *sampler_name_at(const void *list, size_t index)
{
    (void)list;
    return xsm_sampler_at(index)->name;
}

xsm_status xsm_sampler_new(xsm_context *context, const char *name, xsm_sampler **out, xsm_error *err)
{
    const xsm_sampler_ops *ops = xsm_sampler_find(name);
    if (!ops) {
        return xsmi_fail_name(err, "sampler", name, xsm_sampler_count(), sampler_name_at);
    }
    return xsm_sampler_new_from(context, ops, out, err);
}
