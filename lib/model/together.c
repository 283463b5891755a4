#include "model/together.h"

#include "base/activity.h"
#include "ranks/same.h"
#include "model/divided.h"
#include "ranks/comm.h"

xsm_status xsmi_model_need_together(const xsm_model *m, const char *what, xsm_error *err)
{
    return !m->apart ? XSM_OK
                     : xsmi_fail(err, XSM_ERROR_STATE,
                                 "%s needs weights of one step in all processes, and one has failed in a step of this "
                                 "model that others may have taken; load it from a file, or make a new one",
                                 what);
}

uint32_t xsmi_processes(const xsm_model *m)
{
    return xsmi_ranks(m->context);
}

uint32_t xsmi_process(const xsm_model *m)
{
    return xsmi_rank(m->context);
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

void xsmi_together_begin(const xsm_model *m)
{
    xsmi_agree_begin(xsmi_model_group(m));
}

xsm_status xsmi_together(const xsm_model *m, xsm_status status, xsm_error *err)
{
    return xsmi_agree_once(xsmi_model_group(m), status, err);
}

xsm_status xsmi_together_end(const xsm_model *m, xsm_status status, xsm_error *err)
{
    return xsmi_agree_end(xsmi_model_group(m), status, err);
}

bool xsmi_together_failed(const xsm_model *m)
{
    return !xsmi_model_group(m) || xsmi_agreed(m->context);
}

void xsmi_together_lose(xsm_model *m)
{
    m->apart |= xsmi_model_is_divided(m);
}

xsm_status xsmi_together_end_step(xsm_model *m, bool alone, xsm_status status, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    if (!group || status == XSM_OK) {
        return status;
    }
    float apart = m->apart || (alone && xsmi_met(group) && !xsmi_agreed(group));
    status = xsmi_agree_once(group, status, err);
    const bool lost = status == XSM_ERROR_COMM;
    const xsm_status told = xsmi_exchange_max(group, &apart, 1, lost ? NULL : err);
    m->apart = told != XSM_OK || apart > 0;
    return told == XSM_OK || lost ? status : told;
}

/* -- what all processes have --------------------------------------------------------------------------------------- */

xsm_status xsmi_together_rows(const xsm_model *m, const xsm_dataset *rows, bool labels_alone, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return labels_alone ? xsmi_check_same_labels(group, rows, err) : xsmi_check_same_rows(group, rows, err);
}

xsm_status xsmi_together_batch(const xsm_model *m, const xsm_batch *batch, xsm_status status, xsm_error *err)
{
    return xsmi_check_same_batch(xsmi_model_group(m), batch, status, err);
}

xsm_status xsmi_together_order(const xsm_model *m, const xsm_dataset *rows, xsm_error *err)
{
    return xsmi_agree_same(
        xsmi_model_group(m), XSM_OK, xsmi_dataset_order_bytes(rows), XSM_ERROR_DATA,
        "the rows are mapped from a large file on this process or on rank 0 alone, and so shuffled in "
        "another way; read them alike in all processes, or take XSM_ORDER_FILE",
        err);
}

xsm_status xsmi_together_numbers(const xsm_model *m, const xsmi_number *numbers, size_t count, xsm_status status,
                                 xsm_error *err)
{
    return xsmi_numbers_agree(xsmi_model_group(m), numbers, count, status, err);
}

xsm_status xsmi_together_settings(const xsm_model *m,
                                  xsm_status (*add)(const void *of, xsmi_settings *s, xsm_error *err), const void *of,
                                  xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    if (!group) {
        return XSM_OK;
    }
    xsmi_settings s = {.context = group};
    const xsm_status status = xsmi_settings_agree(group, &s, add(of, &s, err), err);
    xsmi_settings_free(&s);
    return status;
}

xsm_status xsmi_together_file(const xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return group ? xsmi_check_same_file(group, xsmi_file_mark(file), name, err) : XSM_OK;
}

xsm_status xsmi_together_first(const xsm_model *m, double *number, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return group ? xsmi_exchange_copy(group, number, sizeof *number, 0, err) : XSM_OK;
}

xsm_status xsmi_together_largest(const xsm_model *m, float *numbers, size_t count, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return group ? xsmi_exchange_max(group, numbers, count, err) : XSM_OK;
}

xsm_status xsmi_together_blocks(const xsm_model *m, const void *mine, void *all, const size_t *sizes, xsm_error *err)
{
    return xsmi_exchange_blocks(m->context, mine, all, sizes, err);
}

xsm_status xsmi_together_failed_in(const xsm_model *m, uint32_t first, xsm_status status, xsm_error *err)
{
    return xsmi_agree_failed(m->context, first, status, err);
}

uint32_t xsmi_together_callers(const xsm_model *m, const xsm_context *ctx)
{
    return xsmi_model_group(m) ? 1 : xsmi_context_threads(ctx);
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_together_score_rows(const xsm_model *m, const xsmi_score_all *rows, const xsmi_score_lists *lists,
                                    void *scratch, xsm_context *ctx, xsm_status status, xsm_error *err)
{
    if (xsmi_model_is_divided(m)) {
        return xsmi_divided_score_rows(m, rows, lists, ctx, status, err);
    }
    XSMI_TRY(status);
    xsmi_model_score_rows(m, rows, scratch, ctx);
    return xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

size_t xsmi_together_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top)
{
    return xsmi_model_is_divided(m) ? 0 : xsmi_model_score_all_scratch(m, sparse, blocks, top);
}
