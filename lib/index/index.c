/*
 * The layer between indexes' tables and their users: it owns the state's memory and sets options. Building is in
 * build.c, searching in query.c.
 */
#include "index/index.h"
#include "base/entry.h"
#include "model/model.h"

#include <string.h>

static const xsm_option common_options[] = {
    XSMI_OPTION_SEED(xsmi_index_common, "names the random stream of what is random in building"),
};

static xsmi_option_group options_of(const xsm_index_ops *ops, void *common, void *state)
{
    xsmi_option_group group = {
        "index",
        ops->name,
        {[XSMI_OPTIONS_COMMON] = XSMI_OPTION_TABLE(common_options),
         [XSMI_OPTIONS_OWN] = {ops->options, ops->option_count}},
        {[XSMI_OPTIONS_COMMON] = common, [XSMI_OPTIONS_OWN] = state},
    };
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

/* xsm_index_ops_option() */
XSMI_DESCRIBE_OPS(index)

static xsm_status read_ops(const xsm_index_ops *given, xsm_index_ops *ops, xsm_error *err)
{
    memset(ops, 0, sizeof *ops);
    XSMI_TRY(XSMI_READ_TABLE(xsm_index_ops, ops, given, err));
    if (!ops->name || !ops->summary || !ops->build || !ops->query) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': the table needs name, summary, build() and query()",
                         ops->name ? ops->name : "?");
    }
    if (!ops->saved != !ops->save || !ops->saved != !ops->restore) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "index '%s': the table needs saved(), save() and restore(), all three or none", ops->name);
    }
    if (!ops->cursor != !ops->next) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': the table needs cursor() and next(), both or none",
                         ops->name);
    }
    if (ops->flags & ~(uint32_t)XSM_INDEX_UNCHECKED) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': flags 0x%x are not known", ops->name, ops->flags);
    }
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_check(&group, ops->state_size, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsm_index_new_from(xsm_context *context, const xsm_index_ops *given, xsm_index **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_need("xsm_index_new", XSMI_GIVEN({out, "out"}, {given, "the table"}), err));
    xsm_index_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsm_index *x = xsmi_allocate_zero(ctx, 1, sizeof *x);
    void *state = x ? xsmi_allocate_zero(ctx, ops.state_size, 1) : NULL;
    if (!state) {
        xsmi_release(ctx, x, 1, sizeof *x);
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, ops.state_size, "an index");
    }
    xsmi_holders_start(&x->holders);
    x->context = ctx;
    x->ops = ops;
    x->state = state;
    xsmi_option_group group = options_of(&x->ops, &x->common, state);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_COMMON], &x->common);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_OWN], state);
    *out = x;
    return XSM_OK;
}

xsm_status xsmi_index_new_like(const xsm_index *of, xsm_index **out, xsm_error *err)
{
    XSMI_TRY(xsm_index_new_from(of->context, &of->ops, out, err));
    (*out)->common = of->common;
    memcpy((*out)->state, of->state, of->ops.state_size); /* only options, as long as it is not built */
    return XSM_OK;
}

void xsmi_index_hold(xsm_index *x, xsmi_head *head)
{
    xsmi_head *before = x->head;
    x->head = xsmi_head_retain(head);
    xsmi_head_release(before);
}

void xsmi_index_aim(xsm_index *x, const xsm_model *model)
{
    const xsm_model *before = x->model;
    x->model = xsmi_model_retain(model);
    x->shape = model ? model->shape : 0;
    xsmi_model_release(before);
}

void xsmi_index_clear(xsm_index *x)
{
    if (x->ops.clear) {
        x->ops.clear(x->state);
    }
    x->built = false;
}

xsm_index *xsm_index_ref(const xsm_index *index)
{
    return xsmi_index_retain(index);
}

void xsm_index_free(xsm_index *x)
{
    if (x && xsmi_holders_drop(&x->holders)) {
        xsm_context *ctx = x->context;
        xsmi_index_clear(x);
        xsmi_index_hold(x, NULL);
        xsmi_index_aim(x, NULL);
        xsmi_release(ctx, x->state, x->ops.state_size, 1);
        xsmi_release(ctx, x, 1, sizeof *x);
        xsm_context_free(ctx);
    }
}

/* -- options ------------------------------------------------------------------------------------------------------- */

xsmi_option_group xsmi_index_options(const xsm_index *x)
{
    return options_of(&x->ops, (void *)(uintptr_t)&x->common, x->state);
}

static const char *closed(const xsm_index *x)
{
    return x->built ? "before the index is built" : NULL;
}

/* xsm_index_set(), _set_number(), _get() */
XSMI_OBJECT_OPTIONS(index, closed, &object->common)

/* -- what is known ----------------------------------------------------------------------------------------------- */

xsm_status xsm_index_get_info(const xsm_index *x, xsm_index_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {x, "the index"});
    xsm_index_info known = XSM_INDEX_INFO_INIT;
    if (x->built) {
        known.rows = x->count;
        known.width = x->width;
        if (x->ops.info) {
            x->ops.info(x->state, &known);
        }
    }
    known.name = x->ops.name;
    return XSMI_WRITE(xsm_index_info, &known, info, err);
}
