/* The index of an estimator that searches: made by an option, or the host's. */
#include "estimator/estimator.h"
#include "base/entry.h"

xsm_status xsmi_estimator_make_index(xsm_estimator *e, xsm_error *err)
{
    xsm_index *made;
    XSMI_TRY(xsm_index_new(e->context, xsmi_index_names[e->common.index], &made, err));
    if (e->search.index == e->search.own) {
        e->search.index = made;
    }
    xsm_index_free(e->search.own);
    e->search.own = made;
    return XSM_OK;
}

xsm_status xsm_estimator_set_index(xsm_estimator *e, const xsm_index *like, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!e) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_set_index: the estimator is NULL");
    }
    if (!e->search.own) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' does not search", e->ops.name);
    }
    if (e->model || (like && like->built)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "%s",
                         e->model ? "the index must be set before the estimator is bound"
                                  : "the index is built; one that is not is wanted");
    }
    xsm_index *made = e->search.own;
    if (like) {
        XSMI_TRY(xsmi_index_new_like(like, &made, err));
    }
    xsm_index_free(e->search.index != e->search.own ? e->search.index : NULL);
    e->search.index = made;
    return XSM_OK;
}

xsm_status xsm_estimator_get_index_info(const xsm_estimator *e, uint32_t block, xsm_index_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!e) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_get_index_info: the estimator is NULL");
    }
    if (!e->search.own) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' does not search", e->ops.name);
    }
    if (!e->search.searcher) {
        return xsmi_fail(err, XSM_ERROR_STATE, "estimator '%s' is not bound", e->ops.name);
    }
    if (block >= e->search.searcher->blocks) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "block %u; estimator '%s' has %u", block, e->ops.name,
                         e->search.searcher->blocks);
    }
    return xsm_index_get_info(e->search.searcher->indexes[block].index, info, err);
}
