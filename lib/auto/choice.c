/* The result of a choice. */
#include "auto/choose.h"
#include "base/entry.h"

void xsm_choice_free(xsm_choice *r)
{
    if (r) {
        xsm_context *ctx = r->context;
        xsm_estimator_free(r->estimator);
        xsmi_release(ctx, r->trials, r->trial_capacity, sizeof *r->trials);
        xsmi_release(ctx, r, 1, sizeof *r);
        xsm_context_free(ctx);
    }
}

xsm_status xsm_choice_get_info(const xsm_choice *r, xsm_choice_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {r, "the choice"});
    return xsmi_options_write(&r->info, sizeof r->info, XSMI_FIRST(xsm_choice_info), info, "xsm_choice_info", err);
}

xsm_estimator *xsm_choice_estimator(const xsm_choice *r)
{
    return r ? r->estimator : NULL;
}

xsm_status xsm_choice_get_trial(const xsm_choice *r, uint64_t index, xsm_choice_trial *trial, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {r, "the choice"});
    if (index >= r->info.trials) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "trial %llu of %llu; accepted is below that", (unsigned long long)index,
                         (unsigned long long)r->info.trials);
    }
    const xsm_choice_trial *t = &r->trials[index];
    return xsmi_options_write(t, sizeof *t, XSMI_FIRST(xsm_choice_trial), trial, "xsm_choice_trial", err);
}
