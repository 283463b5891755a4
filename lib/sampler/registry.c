/* The built-in samplers. A new one needs its file and a line in each of these lists. */
#include "sampler/sampler.h"

#include <string.h>

static const xsm_sampler_ops *const registry[] = {
    &xsmi_uniform_ops,
    &xsmi_frequency_ops,
    &xsmi_tree_ops,
};
const char *const xsmi_sampler_names[] = {"uniform", "frequency", "tree", NULL};

_Static_assert(sizeof xsmi_sampler_names / sizeof *xsmi_sampler_names == sizeof registry / sizeof *registry + 1,
               "each sampler has a name");

size_t xsm_sampler_count(void)
{
    return sizeof registry / sizeof registry[0];
}

const xsm_sampler_ops *xsm_sampler_at(size_t index)
{
    return index < xsm_sampler_count() ? registry[index] : NULL;
}

const xsm_sampler_ops *xsm_sampler_find(const char *name)
{
    for (size_t i = 0; name && i < xsm_sampler_count(); i++) {
        if (strcmp(registry[i]->name, name) == 0) {
            return registry[i];
        }
    }
    return NULL;
}
