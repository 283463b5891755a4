/*
 * The life of optimizers: tables, options, binding. apply.c takes the steps.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/option.h"
#include "model/together.h"
#include "optimizer/step.h"

#include <string.h>

static xsmi_option_group options_of(const xsm_optimizer_ops *ops, const void *common, void *state)
{
    (void)common;
    xsmi_option_group group = {
        "optimizer",
        ops->name,
        {[XSMI_OPTIONS_OWN] = {ops->options, ops->option_count}},
        {[XSMI_OPTIONS_OWN] = state},
    };
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

/* xsm_optimizer_ops_option() */
XSMI_DESCRIBE_OPS(optimizer)

/* Longest name of an accumulator: a checkpoint adds words to it. */
enum { NAME_MOST = 64 };

static bool is_name(const char *name)
{
    const size_t length = name ? strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;
    return length > 0 && length <= NAME_MOST && !name[length];
}

static xsm_status check_accumulators(const xsm_optimizer_ops *ops, xsm_error *err)
{
    if (ops->accumulators > XSM_OPTIMIZER_ACCUMULATORS || (ops->accumulators > 0 && !ops->accumulator_names) ||
        ops->signed_accumulators >> ops->accumulators) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "optimizer '%s': accepted are up to %d accumulators, each with a name, and signed_accumulators of "
            "these only",
            ops->name, XSM_OPTIMIZER_ACCUMULATORS);
    }
    for (uint32_t i = 0; i < ops->accumulators; i++) {
        bool good = is_name(ops->accumulator_names[i]);
        for (uint32_t j = 0; good && j < i; j++) {
            good = strcmp(ops->accumulator_names[i], ops->accumulator_names[j]) != 0;
        }
        if (!good) {
            return xsmi_fail(
                err, XSM_ERROR_ARGUMENT,
                "optimizer '%s': the name of accumulator %u is not made of up to %d lower-case letters, digits "
                "and hyphens, or not the first of that name",
                ops->name, i, NAME_MOST);
        }
    }
    return XSM_OK;
}

static xsm_status read_ops(const xsm_optimizer_ops *given, xsm_optimizer_ops *ops, xsm_error *err)
{
    memset(ops, 0, sizeof *ops);
    XSMI_TRY(xsmi_table_read(ops, sizeof *ops, XSMI_FIRST(xsm_optimizer_ops), given, "xsm_optimizer_ops", err));
    const bool linear = (ops->flags & XSM_OPTIMIZER_LINEAR) != 0;
    if (!ops->name || !ops->summary || (!linear && !ops->rule && !ops->row_rate)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "optimizer '%s': the table needs name, summary and rule() or row_rate()",
                         ops->name ? ops->name : "?");
    }
    if (ops->flags & ~(uint32_t)(XSM_OPTIMIZER_LINEAR | XSM_OPTIMIZER_CHANGES_AT_ZERO)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "optimizer '%s': flags 0x%x are not known", ops->name, ops->flags);
    }
    if (ops->row_rate && (ops->rule || ops->scaled || ops->flags)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "optimizer '%s': a table with row_rate() has no rule(), no scaled() and no flags", ops->name);
    }
    if (linear && (ops->rule || ops->scaled || ops->accumulators || ops->flags != XSM_OPTIMIZER_LINEAR)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "optimizer '%s': the library takes the steps of a linear table, which has no rule(), no "
                         "scaled(), no accumulators and no other flag",
                         ops->name);
    }
    XSMI_TRY(check_accumulators(ops, err));
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_check(&group, ops->state_size, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsm_optimizer_new_from(xsm_context *context, const xsm_optimizer_ops *given, xsm_optimizer **out,
                                  xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_need("xsm_optimizer_new", XSMI_GIVEN({out, "out"}, {given, "the table"}), err));
    xsm_optimizer_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_context *ctx;
    void *memory;
    XSMI_TRY(xsmi_object_new(context, sizeof(xsm_optimizer), "an optimizer", &ctx, &memory, err));
    xsm_optimizer *o = memory;
    xsmi_holders_start(&o->holders);
    o->context = ctx;
    o->ops = ops;
    o->linear = (ops.flags & XSM_OPTIMIZER_LINEAR) != 0;
    o->state = xsmi_allocate_zero(ctx, ops.state_size, 1);
    if (!o->state) {
        xsmi_release(ctx, o, 1, sizeof *o);
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, ops.state_size, "an optimizer");
    }
    xsmi_option_group group = options_of(&o->ops, NULL, o->state);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_OWN], o->state);
    *out = o;
    return XSM_OK;
}

static void unbind(xsm_optimizer *o)
{
    if (o->model && o->ops.unbind) {
        o->ops.unbind(o->state);
    }
    xsmi_accumulators_free(o);
    /* Releases the sums: how many of them must be zeros depends on the model. */
    xsmi_release(o->context, o->sums, o->sums_capacity, sizeof *o->sums);
    o->sums = NULL;
    o->sums_each = o->sums_capacity = 0;
    xsm_model_free(o->model);
    xsm_model_free(o->whole);
    xsm_gradient_free(o->part);
    o->model = NULL;
    o->whole = NULL;
    o->part = NULL;
    o->steps = 0;
}

void xsm_optimizer_free(xsm_optimizer *o)
{
    if (o && xsmi_holders_drop(&o->holders)) {
        xsm_context *ctx = o->context;
        unbind(o);
        xsmi_release(ctx, o->sorted, o->sorted_capacity, sizeof *o->sorted);
        xsmi_release(ctx, o->starts, o->starts_capacity, sizeof *o->starts);
        xsmi_release(ctx, o->packed, o->packed_capacity, sizeof *o->packed);
        xsmi_release_tiles(o);
        xsmi_feature_list_free(ctx, &o->rows);
        xsmi_undo_free(o);
        xsmi_release(ctx, o->state, o->ops.state_size, 1);
        xsmi_release(ctx, o, 1, sizeof *o);
        xsm_context_free(ctx);
    }
}

xsm_status xsm_optimizer_get_info(const xsm_optimizer *o, xsm_optimizer_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {o, "the optimizer"});
    xsm_optimizer_info known = XSM_OPTIMIZER_INFO_INIT;
    known.name = o->ops.name;
    return xsmi_options_write(&known, sizeof known, XSMI_FIRST(xsm_optimizer_info), info, "xsm_optimizer_info", err);
}

/* -- options ------------------------------------------------------------------------------------------------------- */

static const char *closed(const xsm_optimizer *o)
{
    return o->model ? "before the optimizer is bound" : NULL;
}

/* xsm_optimizer_set(), _set_number(), _get() */
XSMI_OBJECT_OPTIONS(optimizer, closed, NULL)

/* -- binding ------------------------------------------------------------------------------------------------------- */

/* Binds to a model, or to this process's part of `whole`. */
static xsm_status bind(xsm_optimizer *o, xsm_model *model, xsm_model *whole, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_dense(model, "an optimizer", err));
    if (model->score != XSM_GEOMETRY_LINEAR && !o->linear) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "optimizer '%s' takes models with linear scores, and this one's are distances; 'sgd' takes "
                         "both",
                         o->ops.name);
    }
    XSMI_TRY(xsmi_model_own(model, err));
    xsmi_model_drop_calibration(whole ? whole : model);
    if (model->score != XSM_GEOMETRY_LINEAR) { /* a host may have changed weights */
        XSMI_TRY(xsmi_model_each_row(model, xsmi_model_settle, err));
    }
    xsm_model *kept = xsmi_model_retain(model),
              *divided = whole ? xsmi_model_retain(whole)
                               : NULL; /* taken before the earlier reference, perhaps to the same model, is given up */
    unbind(o);
    o->model = kept;
    o->whole = divided;
    o->shape = model->shape;
    xsm_status status = o->ops.bind ? o->ops.bind(o->state, o->context, err) : XSM_OK;
    if (status == XSM_OK) {
        status = xsmi_accumulators_new(o, err);
    }
    if (status == XSM_OK && whole) {
        status = xsm_gradient_new(o->context, &o->part, err);
    }
    if (status != XSM_OK) {
        unbind(o);
    }
    return status;
}

size_t xsmi_optimizer_get(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_optimizer_get(of, name, buffer, size);
}

xsm_status xsmi_optimizer_settings(const xsm_optimizer *o, xsmi_settings *s, xsm_error *err)
{
    const xsm_option *option;
    XSMI_TRY(xsmi_settings_add(s, XSMI_SETTINGS_PREFIX "optimizer", "", o->ops.name, err));
    for (size_t i = 0; (option = xsm_optimizer_ops_option(&o->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, XSMI_SETTINGS_PREFIX "optimizer.", option, o, xsmi_optimizer_get, err));
    }
    return XSM_OK;
}

/* Compares the optimizers of all processes. */
static xsm_status agree_settings(const xsm_optimizer *o, const xsm_model *model, xsm_error *err)
{
    if (!xsmi_model_is_divided(model)) {
        return XSM_OK;
    }
    xsmi_settings s = {.context = o->context};
    const xsm_status status = xsmi_together_settings(model, &s, xsmi_optimizer_settings(o, &s, err), err);
    xsmi_settings_free(&s);
    return status;
}

xsm_status xsm_optimizer_bind(xsm_optimizer *o, xsm_model *model, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {o, "the optimizer"}, {model, "the model"});
    const bool divided = xsmi_model_is_divided(model);
    XSMI_TRY(xsmi_model_need_together(model, "an optimizer", err));
    xsmi_activity activity;
    xsmi_begin(&activity, o->context, "preparing an optimizer", "weights", 0);
    xsmi_together_begin(model);
    xsm_status status = agree_settings(o, model, err);
    status = status == XSM_OK ? bind(o, xsmi_model_changed(model), divided ? model : NULL, err) : status;
    status = xsmi_together(model, status, err);
    if (divided && status != XSM_OK) {
        unbind(o);
    }
    return xsmi_end(&activity, status, err);
}
