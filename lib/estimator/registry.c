/* The built-in estimators: a new one is its file and a line here. */
#include "estimator/estimator.h"

#include <string.h>

/* clang-format off */
static const xsm_estimator_ops *const registry[] = {
    &xsmi_softmax_ops,
    &xsmi_bouchard_ops,
    &xsmi_margin_ops,
    &xsmi_mips_ops,
    &xsmi_decomp_mips_ops,
    &xsmi_one_vs_all_ops,
    &xsmi_one_vs_all_sampled_ops,
    &xsmi_ove_ops,
    &xsmi_vanilla_ops,
    &xsmi_raman_ops,
    &xsmi_umax_ops,
    &xsmi_implicit_ops,
    &xsmi_nce_ops,
    &xsmi_importance_ops,
    &xsmi_sampled_softmax_ops,
    &xsmi_negative_sampling_ops,
    &xsmi_ove_sampled_ops,
    &xsmi_ove_searched_ops,
    &xsmi_hierarchical_ops,
    &xsmi_augment_reduce_ops,
};
/* clang-format on */

size_t xsm_estimator_count(void)
{
    return sizeof registry / sizeof registry[0];
}

const xsm_estimator_ops *xsm_estimator_at(size_t index)
{
    return index < xsm_estimator_count() ? registry[index] : NULL;
}

const xsm_estimator_ops *xsm_estimator_find(const char *name)
{
    for (size_t i = 0; name && i < xsm_estimator_count(); i++) {
        if (strcmp(registry[i]->name, name) == 0) {
            return registry[i];
        }
    }
    return NULL;
}
