/* Describes a model: its shape, and how its weights are stored. */
#include "base/entry.h"
#include "model/model.h"
#include "model/narrow.h"

uint32_t xsm_model_class_count(const xsm_model *m)
{
    return m ? m->classes : 0;
}

uint32_t xsm_model_feature_count(const xsm_model *m)
{
    return m ? xsmi_model_input(m) : 0;
}

uint64_t xsmi_model_stored(const xsm_model *m, uint64_t *bytes)
{
    const uint64_t dense = (uint64_t)m->classes * m->features;
    const xsmi_label_trees *trees = xsmi_model_trees(m);
    *bytes = trees ? xsmi_label_bytes(trees)
             : m->w.sparse
                 ? xsmi_sparse_bytes(m->w.sparse)
                 : dense * xsmi_number_bytes(xsmi_model_dtype(m)) + xsmi_factor_bytes(xsmi_model_dtype(m), m->classes);
    return trees ? xsmi_label_entries(trees) : m->w.sparse ? xsmi_sparse_entries(m->w.sparse) : dense;
}

xsm_status xsm_model_get_info(const xsm_model *m, xsm_model_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    xsm_model_info known = XSM_MODEL_INFO_INIT;
    known.classes = m->classes;
    known.features = xsmi_model_input(m);
    known.input_features = xsmi_model_input_features(m);
    known.bias = xsmi_model_has_bias(m);
    known.layout = m->w.layout;
    known.geometry = m->score;
    known.correction = m->head ? m->head->kind->number : XSM_CORRECTION_NONE;
    known.transform = m->transform ? xsmi_transform_description(m->transform) : "";
    known.metadata_keys = (const char *const *)m->metadata.keys;
    known.metadata_count = m->metadata.count;
    known.weights = xsmi_model_stored(m, &known.bytes);
    known.trees = xsmi_model_trees(m) ? xsmi_model_trees(m)->count : 0;
    known.dtype = xsmi_model_dtype(m);
    known.link = xsmi_model_link(m);
    known.release = m->release ? m->release : "";
    known.format_version = m->format_version;
    if (m->layer) {
        const xsm_embedding_options *made = &m->layer->made;
        known.hidden = m->features;
        known.activation = made->activation;
        known.pool = made->pool;
        known.tied = made->tied;
        known.seed = made->seed;
        known.scale = made->scale;
    }
    return XSMI_WRITE(xsm_model_info, &known, info, err);
}
