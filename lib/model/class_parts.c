/* Which process has which classes of a divided model. */
#include "model/divided.h"

#include "base/order.h"
#include "ranks/comm.h"

#include <string.h>

xsm_status xsmi_model_need_whole(const xsm_model *m, const char *what, xsm_error *err)
{
    return !xsmi_model_is_divided(m)
               ? XSM_OK
               : xsmi_fail(
                     err, XSM_ERROR_UNSUPPORTED,
                     "%s needs all classes in one process, and those of the model are divided among %u processes; "
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

void xsmi_part_count(uint32_t classes, uint32_t ranks, const uint32_t *list, size_t count, size_t *next, size_t *sizes)
{
    memset(sizes, 0, ranks * sizeof *sizes);
    for (size_t i = 0; i < count; i++) {
        sizes[xsmi_part_of(classes, ranks, list[i])]++;
    }
    next[0] = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        next[r + 1] = next[r] + sizes[r];
    }
}

xsmi_division xsmi_model_division(const xsm_model *m, bool lines, bool columns, size_t stride)
{
    return !xsmi_model_is_divided(m) || (!lines && !columns) ? (xsmi_division){XSMI_UNDIVIDED, 0}
           : lines                                           ? (xsmi_division){XSMI_LINES, 0}
                                                             : (xsmi_division){XSMI_COLUMNS, stride};
}

xsmi_tensor_part xsmi_model_division_part(const xsm_model *m, const xsmi_tensor *t, bool lines, size_t line)
{
    const xsmi_mine mine = xsmi_model_mine(m);
    const size_t width = lines ? t->size / line : (size_t)t->shape[1];
    const size_t end =
        lines ? mine.end : xsmi_part_columns_end(m->classes, xsmi_ranks(m->context), xsmi_rank(m->context), width);
    return (xsmi_tensor_part){width * line, mine.first * line, end * line};
}

static xsm_status check_features(const xsm_model *m, const xsm_dataset *d, const char *what, xsm_error *err)
{
    if (d->schema && m->map.schema && !xsmi_schema_equal(d->schema, m->map.schema)) {
        const xsmi_feature_side rows = {d->schema, 0, what}, wanted = {m->map.schema, 0, "the model"};
        XSMI_TRY(xsmi_features_match(&rows, &wanted, NULL, err));
    }
    return d->features == xsmi_model_input(m) ? XSM_OK
                                              : xsmi_fail(err, XSM_ERROR_SHAPE, "%s have %u features, the model %u",
                                                          what, d->features, xsmi_model_input(m));
}

xsm_status xsmi_model_check_rows(const xsm_model *m, const xsm_dataset *d, const char *what, xsm_error *err)
{
    return d ? check_features(m, d, what, err) : XSM_OK;
}

xsm_status xsmi_model_check_labels(const xsm_model *m, const xsm_dataset *d, const char *what, xsm_error *err)
{
    xsm_class_map rows = XSM_CLASS_MAP_INIT, model = XSM_CLASS_MAP_INIT;
    if (!d) {
        return XSM_OK;
    }
    XSMI_TRY(xsm_dataset_get_class_map(d, &rows, err));
    XSMI_TRY(xsm_model_get_class_map(m, &model, err));
    return xsmi_class_check(&rows, what, &model, err);
}

size_t xsmi_part_columns_end(uint32_t classes, uint32_t ranks, uint32_t rank, size_t width)
{
    return rank + 1 < ranks ? xsmi_part_start(classes, ranks, rank + 1) : width;
}
