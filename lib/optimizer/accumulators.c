/* The numbers that an optimizer stores for each weight. */
#include "base/activity.h"
#include "optimizer/step.h"

#include <string.h>

#include <xsoftmax/stored_weights.h>

/* Numbers that are filled between two looks whether to go on. */
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

static xsm_status new_layer(const xsm_optimizer *o, xsmi_accumulator *accumulator, float initial, xsm_error *err)
{
    const xsm_model *m = o->model;
    if (m->layer->tied) {
        accumulator->layer = accumulator->output->w.weight;
        accumulator->layer_stride = accumulator->output->w.stride;
        return XSM_OK;
    }
    size_t count;
    accumulator->layer_stride = xsmi_row_stride(m->features);
    accumulator->layer = xsmi_multiply(m->layer->features, accumulator->layer_stride, &count)
                             ? xsmi_allocate(o->context, count, sizeof *accumulator->layer)
                             : NULL;
    if (!accumulator->layer) {
        return xsmi_fail_memory(err, m->layer->features * accumulator->layer_stride * sizeof *accumulator->layer,
                                "an optimizer's numbers for the features' vectors");
    }
    accumulator->layer_count = count;
    return fill(o, accumulator->layer, count, initial, err);
}

/* "PREFIX-NAME" */
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
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = m->w.bias != NULL;
    shape.layout = m->w.layout;
    accumulator->bias_name = joined(o->context, "bias-", name);
    accumulator->layer_name = joined(o->context, "layer-", name);
    if (!accumulator->bias_name || !accumulator->layer_name) {
        return xsmi_fail_memory(err, strlen(name), "the names of an optimizer's numbers");
    }
    XSMI_TRY(xsmi_model_new_local(o->context, m->features, m->classes, &shape, &accumulator->output, err));
    XSMI_TRY(fill(o, accumulator->output->w.weight, accumulator->output->w.weight_count, initial, err));
    XSMI_TRY(accumulator->output->w.bias ? fill(o, accumulator->output->w.bias, m->classes, initial, err) : XSM_OK);
    return m->layer ? new_layer(o, accumulator, initial, err) : XSM_OK;
}

xsm_status xsmi_accumulators_new(xsm_optimizer *o, xsm_error *err)
{
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        XSMI_TRY(new_accumulator(o, i, &o->accumulators[i], err));
    }
    return XSM_OK;
}

void xsmi_accumulators_free(xsm_optimizer *o)
{
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        xsmi_accumulator *accumulator = &o->accumulators[i];
        xsm_model_free(accumulator->output);
        if (accumulator->layer_count > 0) {
            xsmi_release(o->context, accumulator->layer, accumulator->layer_count, sizeof *accumulator->layer);
        }
        xsmi_release_text(o->context, accumulator->bias_name);
        xsmi_release_text(o->context, accumulator->layer_name);
        *accumulator = (xsmi_accumulator){.output = NULL};
    }
}

static xsm_status fail_changed(const xsm_optimizer *o, const xsmi_accumulator *accumulator, xsm_error *err)
{
    const xsm_model *m = o->model, *s = accumulator->output;
    if (accumulator->layer_count > 0 && accumulator->layer_count / accumulator->layer_stride != m->layer->features) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model has vectors for %u features now, and for %zu when optimizer '%s' was bound; "
                         "bind it again",
                         m->layer->features, accumulator->layer_count / accumulator->layer_stride, o->ops.name);
    }
    return xsmi_fail(err, XSM_ERROR_STATE,
                     "the model has %u features and %u classes now, and %u and %u when optimizer '%s' was bound; bind "
                     "it again",
                     m->features, m->classes, s->features, s->classes, o->ops.name);
}

xsm_status xsmi_accumulators_follow(xsm_optimizer *o, xsm_error *err)
{
    const xsm_model *m = o->model;
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        const xsmi_accumulator *accumulator = &o->accumulators[i];
        const xsm_model *s = accumulator->output;
        if (s->classes != m->classes || s->features != m->features || !s->w.bias != !m->w.bias ||
            (accumulator->layer_count > 0 &&
             accumulator->layer_count / accumulator->layer_stride != m->layer->features)) {
            return fail_changed(o, accumulator, err);
        }
        XSMI_TRY(xsm_model_set_layout(accumulator->output, m->w.layout, err));
    }
    return XSM_OK;
}

/* -- for checkpoints ----------------------------------------------------------------------------------------------- */

bool xsmi_optimizer_tensor(const xsm_optimizer *o, uint32_t index, xsm_state_tensor *tensor,
                           xsmi_accumulator_kind *kind)
{
    for (uint32_t i = 0; i < o->ops.accumulators; i++) {
        const xsmi_accumulator *accumulator = &o->accumulators[i];
        const xsm_model *s = accumulator->output;
        const xsm_state_tensor all[] = {
            {.name = o->ops.accumulator_names[i],
             .lines = s->w.layout == XSM_LAYOUT_CLASS_MAJOR ? s->classes : s->features,
             .width = s->w.stride,
             .data = s->w.weight},
            {.name = accumulator->bias_name, .lines = s->classes, .width = 1, .data = s->w.bias},
            {.name = accumulator->layer_name,
             .lines = accumulator->layer_count > 0 ? accumulator->layer_count / accumulator->layer_stride : 0,
             .width = accumulator->layer_stride,
             .data = accumulator->layer_count > 0 ? accumulator->layer : NULL},
        };
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
            if (all[j].data && index-- == 0) {
                *tensor = all[j];
                tensor->size = sizeof *tensor;
                tensor->type = XSM_STATE_F32;
                kind->negative = (o->ops.signed_accumulators >> i & 1) != 0;
                kind->classes =
                    all[j].data == s->w.bias || (all[j].data == s->w.weight && s->w.layout == XSM_LAYOUT_CLASS_MAJOR);
                kind->columns = all[j].data == s->w.weight && s->w.layout == XSM_LAYOUT_FEATURE_MAJOR;
                return true;
            }
        }
    }
    return false;
}
