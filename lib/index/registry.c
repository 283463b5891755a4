/* The functions that look up built-in indexes by name; XSMI_INDEXES lists them. */
#include "base/registry.h"
#include "index/index.h"

XSMI_REGISTRY(index, XSMI_INDEXES(XSMI_REGISTRY_NAMED_TABLE))

const char *const xsmi_index_names[] = {XSMI_REGISTRY_NAMES(XSMI_INDEXES)};

static const char *index_name_at(const void *list, size_t index)
{
    (void)list;
    return xsm_index_at(index)->name;
}

xsm_status xsm_index_new(xsm_context *context, const char *name, xsm_index **out, xsm_error *err)
{
    const xsm_index_ops *ops = xsm_index_find(name);
    if (!ops) {
        return xsmi_fail_name(err, "index", name, xsm_index_count(), index_name_at);
    }
    return xsm_index_new_from(context, ops, out, err);
}
