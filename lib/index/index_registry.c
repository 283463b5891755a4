/* The functions that look up built-in indexes by name; XSMI_INDEXES lists them. */
#include "base/registry.h"
#include "index/index.h"

#define TABLE(table, name) &(table),
#define NAME(table, name) name,

/* xsm_index_at(), _find(), _new() */
XSMI_REGISTRY(index, XSMI_INDEXES(TABLE))

const char *const xsmi_index_names[] = {XSMI_INDEXES(NAME) NULL};
