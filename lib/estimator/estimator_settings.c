/* The settings of an estimator, of its sampler and its index, as text. */
#include "estimator/estimator.h"
#include "index/index.h"

#define PREFIX XSMI_SETTINGS_PREFIX

static size_t get_of_estimator(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_estimator_get(of, name, buffer, size);
}

static size_t get_of_sampler(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_sampler_get(of, name, buffer, size);
}

static size_t get_of_index(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_index_get(of, name, buffer, size);
}

xsm_status xsmi_estimator_settings(const xsm_estimator *e, xsmi_settings *s, xsm_error *err)
{
    const xsm_option *option;
    XSMI_TRY(xsmi_settings_add(s, PREFIX "estimator", "", e->ops.name, err));
    for (size_t i = 0; (option = xsm_estimator_ops_option(&e->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, PREFIX "estimator.", option, e, get_of_estimator, err));
    }
    for (size_t i = 0; e->sampling.sampler && (option = xsm_sampler_ops_option(&e->sampling.sampler->ops, i)) != NULL;
         i++) {
        XSMI_TRY(
            xsmi_settings_add_option(s, PREFIX "estimator.sampler.", option, e->sampling.sampler, get_of_sampler, err));
    }
    if (e->search.index) {
        XSMI_TRY(xsmi_settings_add(s, PREFIX "estimator.index.table", "", e->search.index->ops.name, err));
    }
    for (size_t i = 0; e->search.index && (option = xsm_index_ops_option(&e->search.index->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, PREFIX "estimator.index.", option, e->search.index, get_of_index, err));
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_agree(const xsm_estimator *e, xsm_context *group, xsm_error *err)
{
    if (!group) {
        return XSM_OK;
    }
    xsmi_settings s = {.context = e->context};
    const xsm_status status = xsmi_settings_agree(group, &s, xsmi_estimator_settings(e, &s, err), err);
    xsmi_settings_free(&s);
    return status;
}
