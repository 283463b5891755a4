/* The functions that look up built-in indexes; XSMI_INDEXES lists them. */
#include "base/registry.h"
#include "index/index.h"

XSMI_REGISTRY(index, XSMI_INDEXES(XSMI_REGISTRY_NAMED_TABLE))

const char *const xsmi_index_names[] = {XSMI_REGISTRY_NAMES(XSMI_INDEXES)};

bool xsmi_index_own_table(const xsm_index_ops *ops)
{
    bool own = false;
    for (size_t i = 0; i < xsm_index_count(); i++) {
        own |= registry[i]->query == ops->query;
    }
    return own;
}
