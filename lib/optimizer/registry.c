/* The built-in optimizers: a new one is its file and a line here. */
#include "optimizer/optimizer.h"

#include <string.h>

static const xsm_optimizer_ops *const registry[] = {
    &xsmi_sgd_ops,
    &xsmi_adagrad_ops,
};

size_t xsm_optimizer_count(void)
{
    return sizeof registry / sizeof registry[0];
}

const xsm_optimizer_ops *xsm_optimizer_at(size_t index)
{
    return index < xsm_optimizer_count() ? registry[index] : NULL;
}

const xsm_optimizer_ops *xsm_optimizer_find(const char *name)
{
    for (size_t i = 0; name && i < xsm_optimizer_count(); i++) {
        if (strcmp(registry[i]->name, name) == 0) {
            return registry[i];
        }
    }
    return NULL;
}
