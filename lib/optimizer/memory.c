/* The numbers that an optimizer stores for each weight. */
#include "optimizer/step.h"

#include <string.h>

static void fill(float *to, size_t count, float value)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = value;
    }
}

static xsm_status new_layer(const xsm_optimizer *o, xsmi_memory *memory, float initial, xsm_error *err)
{
    const xsm_model *m = o->model;
    if (m->layer->tied) {
        memory->layer = memory->output->weight;
        memory->layer_stride = memory->output->stride;
        return XSM_OK;
    }
    size_t count;
    memory->layer_stride = xsmi_row_stride(m->features);
    memory->layer = xsmi_multiply(m->layer->features, memory->layer_stride, &count)
                        ? xsmi_allocate(o->context, count, sizeof *memory->layer)
                        : NULL;
    if (!memory->layer) {
        return xsmi_fail_memory(err, m->layer->features * memory->layer_stride * sizeof *memory->layer,
                                "an optimizer's numbers for the features' vectors");
    }
    memory->layer_count = count;
    fill(memory->layer, count, initial);
    return XSM_OK;
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

static xsm_status new_memory(const xsm_optimizer *o, uint32_t number, xsmi_memory *memory, xsm_error *err)
{
    const xsm_model *m = o->model;
    const char *name = o->ops.memory_names[number];
    const float initial = o->ops.initial ? o->ops.initial(o->state, number) : 0;
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    shape.bias = m->bias != NULL;
    shape.layout = m->layout;
    memory->bias_name = joined(o->context, "bias-", name);
    memory->layer_name = joined(o->context, "layer-", name);
    if (!memory->bias_name || !memory->layer_name) {
        return xsmi_fail_memory(err, strlen(name), "the names of an optimizer's numbers");
    }
    XSMI_TRY(xsm_model_new_linear(o->context, m->features, m->classes, &shape, &memory->output, err));
    fill(memory->output->weight, memory->output->weight_count, initial);
    if (memory->output->bias) {
        fill(memory->output->bias, m->classes, initial);
    }
    return m->layer ? new_layer(o, memory, initial, err) : XSM_OK;
}

xsm_status xsmi_memory_new(xsm_optimizer *o, xsm_error *err)
{
    for (uint32_t i = 0; i < o->ops.memories; i++) {
        XSMI_TRY(new_memory(o, i, &o->memory[i], err));
    }
    return XSM_OK;
}

void xsmi_memory_free(xsm_optimizer *o)
{
    for (uint32_t i = 0; i < o->ops.memories; i++) {
        xsmi_memory *memory = &o->memory[i];
        xsm_model_free(memory->output);
        if (memory->layer_count > 0) {
            xsmi_release(o->context, memory->layer, memory->layer_count, sizeof *memory->layer);
        }
        xsmi_release_text(o->context, memory->bias_name);
        xsmi_release_text(o->context, memory->layer_name);
        *memory = (xsmi_memory){.output = NULL};
    }
}

static xsm_status fail_changed(const xsm_optimizer *o, const xsmi_memory *memory, xsm_error *err)
{
    const xsm_model *m = o->model, *s = memory->output;
    if (memory->layer_count > 0 && memory->layer_count / memory->layer_stride != m->layer->features) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the model has vectors for %u features now, and for %zu when optimizer '%s' was bound; "
                         "bind it again",
                         m->layer->features, memory->layer_count / memory->layer_stride, o->ops.name);
    }
    return xsmi_fail(err, XSM_ERROR_STATE,
                     "the model has %u features and %u classes now, and %u and %u when optimizer '%s' was bound; bind "
                     "it again",
                     m->features, m->classes, s->features, s->classes, o->ops.name);
}

xsm_status xsmi_memory_follow(xsm_optimizer *o, xsm_error *err)
{
    const xsm_model *m = o->model;
    for (uint32_t i = 0; i < o->ops.memories; i++) {
        const xsmi_memory *memory = &o->memory[i];
        const xsm_model *s = memory->output;
        if (s->classes != m->classes || s->features != m->features || !s->bias != !m->bias ||
            (memory->layer_count > 0 && memory->layer_count / memory->layer_stride != m->layer->features)) {
            return fail_changed(o, memory, err);
        }
        XSMI_TRY(xsm_model_set_layout(memory->output, m->layout, err));
    }
    return XSM_OK;
}

/* -- for checkpoints ----------------------------------------------------------------------------------------------- */

bool xsmi_optimizer_tensor(const xsm_optimizer *o, uint32_t index, xsm_state_tensor *tensor, bool *negative)
{
    for (uint32_t i = 0; i < o->ops.memories; i++) {
        const xsmi_memory *memory = &o->memory[i];
        const xsm_model *s = memory->output;
        const xsm_state_tensor all[] = {
            {.name = o->ops.memory_names[i],
             .lines = s->layout == XSM_LAYOUT_CLASS_MAJOR ? s->classes : s->features,
             .width = s->stride,
             .data = s->weight},
            {.name = memory->bias_name, .lines = s->classes, .width = 1, .data = s->bias},
            {.name = memory->layer_name,
             .lines = memory->layer_count > 0 ? memory->layer_count / memory->layer_stride : 0,
             .width = memory->layer_stride,
             .data = memory->layer_count > 0 ? memory->layer : NULL},
        };
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
            if (all[j].data && index-- == 0) {
                *tensor = all[j];
                tensor->size = sizeof *tensor;
                tensor->type = XSM_STATE_F32;
                *negative = (o->ops.signed_memories >> i & 1) != 0;
                return true;
            }
        }
    }
    return false;
}
