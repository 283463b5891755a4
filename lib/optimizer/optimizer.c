/*
 * The life of optimizers: tables, options, binding. apply.c takes the steps.
 */
#include "optimizer/optimizer.h"

#include "base/activity.h"
#include "base/entry.h"
#include "base/option.h"
#include "model/together.h"
#include "optimizer/step.h"
#include "base/registry.h"

#include <float.h>
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
    XSMI_TRY(XSMI_READ_TABLE(xsm_optimizer_ops, ops, given, err));
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

/* -- the numbers stored for each weight ---------------------------------------------------------------------------- */

/* Numbers that are filled between two polls. */
#define FILL_NUMBERS ((size_t)1 << 20)

static xsm_status fill(const xsm_optimizer *o, float *to, size_t count, float value, xsm_error *err)
{
    for (size_t first = 0, end; first < count; first = end) {
        end = count - first < FILL_NUMBERS ? count : first + FILL_NUMBERS;
        for (size_t i = first; i < end; i++) {
            to[i] = value;
        }
        XSMI_TRY(end < count ? xsmi_go_on(o->context, err) : XSM_OK);
    }
    return XSM_OK;
}

/* Allocates numbers in the shape and layout of a matrix, and sets each to `initial`; of a table with row_rate() a
 * number for each row, as lines of one. */
static xsm_status new_numbers(const xsm_optimizer *o, const xsmi_weights *of, float initial, const char *what,
                              xsmi_weights *w, xsm_error *err)
{
    const bool of_rows = o->ops.row_rate != NULL;
    xsmi_weights_start(of->kernels, of->rows, of_rows ? 1 : of->features, w);
    XSMI_TRY(xsmi_weights_allocate(o->context, of_rows ? XSM_LAYOUT_FEATURE_MAJOR : of->layout, what, w, err));
    if (of_rows) {
        w->layout = XSM_LAYOUT_CLASS_MAJOR;
        w->stride = 1;
    }
    return fill(o, w->weight, w->weight_count, initial, err);
}

/* Returns "PREFIX-NAME", or NULL without memory. */
static char *joined(xsm_context *ctx, const char *prefix, const char *name)
{
    const size_t before = strlen(prefix), length = strlen(name) + 1;
    char *text = xsmi_allocate(ctx, before + length, 1);
    if (text) {
        memcpy(text, prefix, before);
        memcpy(text + before, name, length);
    }
    return text;
}

static xsm_status new_accumulator(const xsm_optimizer *o, uint32_t number, xsmi_accumulator *accumulator,
                                  xsm_error *err)
{
    const xsm_model *m = o->model;
    const char *name = o->ops.accumulator_names[number];
    const float initial = o->ops.initial ? o->ops.initial(o->state, number) : 0;
    accumulator->bias_name = joined(o->context, "bias-", name);
    accumulator->layer_name = joined(o->context, "layer-", name);
    if (!accumulator->bias_name || !accumulator->layer_name) {
        return xsmi_fail_memory(err, strlen(name), "the names of an optimizer's numbers");
    }
    XSMI_TRY(new_numbers(o, &m->w, initial, "an optimizer's numbers for the weights", &accumulator->w, err));
    if (m->w.bias) {
        XSMI_TRY(xsmi_array_new(o->context, &accumulator->w.bias, m->classes, sizeof *accumulator->w.bias,
                                "an optimizer's numbers for the bias", err));
        XSMI_TRY(fill(o, accumulator->w.bias, m->classes, initial, err));
    }
    const xsmi_weights *vectors = xsmi_model_vectors(m);
    if (vectors && vectors != &m->w) {
        return new_numbers(o, vectors, initial, "an optimizer's numbers for the features' vectors",
                           &accumulator->vectors, err);
    }
    accumulator->vectors = accumulator->w; /* those of tied vectors, which are the same */
    accumulator->vectors.weight_count = 0;
    return XSM_OK;
}

/* Makes the accumulators of the bound model, with the initial values of the table. */
static xsm_status new_accumulators(xsm_optimizer *o, xsm_error *err)
{
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        XSMI_TRY(new_accumulator(o, i, &o->accumulators[i], err));
    }
    return XSM_OK;
}

static void free_accumulators(xsm_optimizer *o)
{
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        xsmi_accumulator *accumulator = &o->accumulators[i];
        xsmi_release(o->context, accumulator->w.bias, accumulator->w.rows, sizeof *accumulator->w.bias);
        xsmi_weights_release(o->context, &accumulator->w);
        xsmi_weights_release(o->context, &accumulator->vectors);
        xsmi_release_text(o->context, accumulator->bias_name);
        xsmi_release_text(o->context, accumulator->layer_name);
        *accumulator = (xsmi_accumulator){.bias_name = NULL};
    }
}

/* Whether the model's vectors have another shape than the accumulator's. */
static bool has_other_vectors(const xsm_model *m, const xsmi_accumulator *accumulator)
{
    return accumulator->vectors.weight_count > 0 && accumulator->vectors.rows != xsmi_model_vectors(m)->rows;
}

static xsm_status fail_changed(const xsm_optimizer *o, const xsmi_accumulator *accumulator, xsm_error *err)
{
    const xsm_model *m = o->model;
    if (has_other_vectors(m, accumulator)) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model has vectors for %u features now, and for %u when optimizer '%s' was bound; "
                         "bind it again",
                         xsmi_model_vectors(m)->rows, accumulator->vectors.rows, o->ops.name);
    }
    return xsmi_fail(err, XSM_ERROR_STATE,
                     "the model has %u features and %u classes now, and %u and %u when optimizer '%s' was bound; bind "
                     "it again",
                     m->features, m->classes, accumulator->w.features, accumulator->w.rows, o->ops.name);
}

static xsm_status set_layout(const xsm_optimizer *o, int32_t layout, xsmi_weights *w, xsm_error *err)
{
    const char *what = "an optimizer's numbers for the weights";
    xsmi_weights made;
    xsmi_activity activity;
    xsmi_begin(&activity, o->context, "changing the layout", "weights", (uint64_t)w->features * w->rows);
    XSMI_TRY(xsmi_end(&activity, xsmi_weights_copy_as(o->context, w, layout, what, &made, err), err));
    made.bias = w->bias;
    xsmi_weights_release(o->context, w);
    *w = made;
    return XSM_OK;
}

xsm_status xsmi_accumulators_follow(xsm_optimizer *o, xsm_error *err)
{
    const xsm_model *m = o->model;
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        xsmi_accumulator *accumulator = &o->accumulators[i];
        xsmi_weights *w = &accumulator->w;
        if (w->rows != m->classes || w->features != xsmi_optimizer_numbers(o, m->features) || !w->bias != !m->w.bias ||
            has_other_vectors(m, accumulator)) {
            return fail_changed(o, accumulator, err);
        }
        XSMI_TRY(!o->ops.row_rate && w->layout != m->w.layout ? set_layout(o, m->w.layout, w, err) : XSM_OK);
    }
    return XSM_OK;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsm_optimizer_new_from(xsm_context *context, const xsm_optimizer_ops *given, xsm_optimizer **out,
                                  xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_need("xsm_optimizer_new", XSMI_GIVEN({out, "out"}, {given, "the table"}), err));
    xsm_optimizer_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_optimizer *o;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &o, xsm_optimizer, "an optimizer", err));
    xsmi_holders_start(&o->holders);
    o->ops = ops;
    o->linear = (ops.flags & XSM_OPTIMIZER_LINEAR) != 0;
    const xsm_status status = xsmi_struct_new(o->context, &o->state, ops.state_size, "an optimizer", err);
    if (status != XSM_OK) {
        XSMI_OBJECT_FREE(o, xsm_optimizer);
        return status;
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
    free_accumulators(o);
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

xsm_optimizer *xsm_optimizer_ref(const xsm_optimizer *optimizer)
{
    return xsmi_optimizer_retain(optimizer);
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
        XSMI_OBJECT_FREE(o, xsm_optimizer);
    }
}

xsm_status xsm_optimizer_get_info(const xsm_optimizer *o, xsm_optimizer_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {o, "the optimizer"});
    xsm_optimizer_info known = XSM_OPTIMIZER_INFO_INIT;
    known.name = o->ops.name;
    return XSMI_WRITE(xsm_optimizer_info, &known, info, err);
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
    XSMI_TRY(o->linear ? XSM_OK : xsmi_model_need_linear(model, "another optimizer than 'sgd'", err));
    XSMI_TRY(xsmi_model_own(model, err));
    xsmi_model_drop_calibration(whole ? whole : model);
    XSMI_TRY(xsmi_model_settle_all(model, err));
    xsm_model *kept = xsmi_model_retain(model),
              *divided = whole ? xsmi_model_retain(whole)
                               : NULL; /* taken before the earlier reference, perhaps to the same model, is given up */
    unbind(o);
    o->model = kept;
    o->whole = divided;
    o->shape = model->shape;
    xsm_status status = o->ops.bind ? o->ops.bind(o->state, o->context, err) : XSM_OK;
    if (status == XSM_OK) {
        status = new_accumulators(o, err);
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

static xsm_status add_settings(const void *of, xsmi_settings *s, xsm_error *err)
{
    return xsmi_optimizer_settings(of, s, err);
}

static xsm_status bind_to(xsm_optimizer *o, xsm_model *model, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_optimizer_bind", XSMI_GIVEN({o, "the optimizer"}), err));
    XSMI_TRY(xsmi_model_need_together(model, "an optimizer", err));
    xsmi_activity activity;
    xsmi_begin(&activity, o->context, "preparing an optimizer", "weights", 0);
    xsm_model *own = xsmi_model_changed(model), *whole = own != model ? model : NULL;
    xsm_status status = xsmi_together_settings(model, add_settings, o, err);
    status = status == XSM_OK ? bind(o, own, whole, err) : status;
    status = xsmi_together(model, status, err);
    if (whole && status != XSM_OK) {
        unbind(o);
    }
    return xsmi_end(&activity, status, err);
}

xsm_status xsm_optimizer_bind(xsm_optimizer *o, xsm_model *model, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"});
    return XSMI_TOGETHER(model, bind_to(o, model, err), err);
}

/* -- for checkpoints ----------------------------------------------------------------------------------------------- */

/* The sums of squares of the library's own tables never fall. */
static float least_number(const xsm_optimizer *o, uint32_t accumulator)
{
    const bool grows = o->ops.rule == xsmi_adagrad_ops.rule || o->ops.row_rate == xsmi_row_adagrad_ops.row_rate;
    return o->ops.signed_accumulators >> accumulator & 1 ? -FLT_MAX : grows ? o->ops.initial(o->state, accumulator) : 0;
}

bool xsmi_optimizer_tensor(const xsm_optimizer *o, uint32_t index, xsm_state_tensor *tensor,
                           xsmi_accumulator_kind *kind)
{
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        const xsmi_accumulator *accumulator = &o->accumulators[i];
        const xsmi_weights *w = &accumulator->w, *vectors = &accumulator->vectors;
        const bool class_major = w->layout == XSM_LAYOUT_CLASS_MAJOR, layer = vectors->weight_count > 0;
        const xsm_state_tensor all[] = {
            {.name = o->ops.accumulator_names[i],
             .lines = class_major ? w->rows : w->features,
             .width = w->stride,
             .data = w->weight},
            {.name = accumulator->bias_name, .lines = w->rows, .width = 1, .data = w->bias},
            {.name = accumulator->layer_name,
             .lines = layer ? vectors->rows : 0,
             .width = vectors->stride,
             .data = layer ? vectors->weight : NULL},
        };
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
            if (all[j].data && index-- == 0) {
                *tensor = all[j];
                tensor->size = sizeof *tensor;
                tensor->type = XSM_STATE_F32;
                kind->least = least_number(o, i);
                kind->classes = all[j].data == w->bias || (all[j].data == w->weight && class_major);
                kind->columns = all[j].data == w->weight && !class_major;
                return true;
            }
        }
    }
    return false;
}

/* -- all optimizers ------------------------------------------------------------------------------------------------ */

/* xsm_optimizer_at(), _find(), _new() */
XSMI_REGISTRY(optimizer, XSMI_OPTIMIZERS(XSMI_REGISTRY_TABLE))
