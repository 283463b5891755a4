/* The built-in indexes. A new one needs its file and a line in each of these lists. */
#include "index/index.h"

#include <string.h>

static const xsm_index_ops *const registry[] = {
    &xsmi_exact_index_ops,
    &xsmi_spherical_index_ops,
};
const char *const xsmi_index_names[] = {"exact", "spherical", NULL};

_Static_assert(sizeof xsmi_index_names / sizeof *xsmi_index_names == sizeof registry / sizeof *registry + 1,
               "each index has a name");

size_t xsm_index_count(void)
{
    return sizeof registry / sizeof registry[0];
}

const xsm_index_ops *xsm_index_at(size_t index)
{
    return index < xsm_index_count() ? registry[index] : NULL;
}

const xsm_index_ops *xsm_index_find(const char *name)
{
    for (size_t i = 0; name && i < xsm_index_count(); i++) {
        if (strcmp(registry[i]->name, name) == 0) {
            return registry[i];
        }
    }
    return NULL;
}

bool xsmi_index_own_table(const xsm_index_ops *ops)
{
    bool own = false;
    for (size_t i = 0; i < xsm_index_count(); i++) {
        own |= registry[i]->query == ops->query;
    }
    return own;
}
