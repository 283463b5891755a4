/* Which rank has which classes of a divided model. */
#include "model/divided.h"

#include "base/order.h"
#include "base/share.h"
#include "data/part.h"

xsm_status xsmi_model_need_whole(const xsm_model *m, const char *what, xsm_error *err)
{
    return !xsmi_model_is_divided(m)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "%s needs all classes in one process, and those of the model are divided among %u ranks; "
                           "save it, and load it in a context without a communicator",
                           what, xsmi_ranks(m->context));
}

uint32_t xsmi_runs_of(uint32_t classes)
{
    return (uint32_t)(((uint64_t)classes + XSMI_RUN_CLASSES - 1) / XSMI_RUN_CLASSES);
}

uint32_t xsmi_part_start(uint32_t classes, uint32_t ranks, uint32_t rank)
{
    const uint64_t first = xsmi_share_start(xsmi_runs_of(classes), ranks, rank) * XSMI_RUN_CLASSES;
    return (uint32_t)XSMI_MIN(first, classes);
}

uint32_t xsmi_part_size(uint32_t classes, uint32_t ranks, uint32_t rank)
{
    return xsmi_part_start(classes, ranks, rank + 1) - xsmi_part_start(classes, ranks, rank);
}

uint32_t xsmi_runs_of_rank(const xsm_model *m, uint32_t rank)
{
    return xsmi_runs_of(xsmi_part_size(m->classes, xsmi_ranks(m->context), rank));
}

uint32_t xsmi_part_of(uint32_t classes, uint32_t ranks, uint32_t class)
{
    return xsmi_share_of(xsmi_runs_of(classes), ranks, class / XSMI_RUN_CLASSES);
}

xsm_status xsmi_model_check_rows(const xsm_model *m, const xsm_dataset *d, xsm_error *err)
{
    if (!d || !d->part) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_model_is_divided(m) ? XSM_OK : xsmi_dataset_need_whole(d, "a model that is not divided", err));
    return m->context == d->context
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_ARGUMENT,
                           "the rows are divided among the ranks of another context than the model's; the same is "
                           "accepted");
}

size_t xsmi_part_columns_end(uint32_t classes, uint32_t ranks, uint32_t rank, size_t width)
{
    return rank + 1 < ranks ? xsmi_part_start(classes, ranks, rank + 1) : width;
}
