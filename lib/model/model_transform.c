/*
 * The transform that a model stores, so that new rows are transformed as the training rows were.
 */
#include "model/model.h"
#include "base/entry.h"
#include "model/model_file.h"

void xsmi_model_clear_transform(xsm_model *m)
{
    xsm_transform_free(m->transform);
    m->transform = NULL;
}

uint32_t xsmi_model_input_features(const xsm_model *m)
{
    return m->transform ? xsmi_transform_features(m->transform) : xsmi_model_input(m);
}

xsm_status xsm_model_set_transform(xsm_model *m, const xsm_transform *transform, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    xsm_transform *copy = NULL;
    if (transform) {
        const xsmi_transform_parts parts = xsmi_transform_get_parts(transform);
        uint32_t output = xsmi_transform_output_features(transform);
        if (!xsmi_transform_is_fitted(transform)) {
            return xsmi_fail(err, XSM_ERROR_STATE, "the transform is not fitted; see xsm_transform_fit()");
        }
        if (output != xsmi_model_input(m)) {
            return xsmi_fail(err, XSM_ERROR_SHAPE, "the transform yields %u features, the model has %u", output,
                             xsmi_model_input(m));
        }
        XSMI_TRY(xsmi_schema_check_count(m->map.schema, parts.features, err));
        XSMI_TRY(*parts.description && parts.features > 0 ? xsmi_transform_restore(m->context, &parts, &copy, err)
                                                          : XSM_OK);
    }
    xsm_transform_free(m->transform);
    m->transform = copy;
    return XSM_OK;
}

xsm_status xsm_model_transform(const xsm_model *m, xsm_dataset *dataset, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"}, {dataset, "dataset"});
    const xsmi_feature_side wanted = {m->map.schema, xsmi_model_input_features(m), "the model"};
    XSMI_TRY(xsmi_dataset_match_features(dataset, &wanted, err));
    return m->transform ? xsm_transform_apply(m->transform, dataset, err) : XSM_OK;
}
