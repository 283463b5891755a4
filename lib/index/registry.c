/* The functions that look up built-in indexes by name; XSMI_INDEXES lists them. */
#include "base/registry.h"
#include "index/index.h"

/* xsm_index_at(), _find(), _new() */
XSMI_REGISTRY(index, XSMI_INDEXES(XSMI_REGISTRY_NAMED_TABLE))

const char *const xsmi_index_names[] = {XSMI_REGISTRY_NAMES(XSMI_INDEXES)};
