/* The numbers that an optimizer stores for each weight. */
#include "base/activity.h"
#include "optimizer/step.h"

#include <string.h>

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
    accumulator->bias_name = joined(o->context, "bias-", name);
    accumulator->layer_name = joined(o->context, "layer-", name);
    if (!accumulator->bias_name || !accumulator->layer_name) {
        return xsmi_fail_memory(err, strlen(name), "the names of an optimizer's numbers");
    }
    XSMI_TRY(new_numbers(o, &m->w, initial, "an optimizer's numbers for the weights", &accumulator->w, err));
    if (m->w.bias) {
        accumulator->w.bias = xsmi_allocate(o->context, m->classes, sizeof *accumulator->w.bias);
        if (!accumulator->w.bias) {
            return xsmi_fail_memory(err, m->classes * sizeof *accumulator->w.bias,
                                    "an optimizer's numbers for the bias");
        }
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

/* -- for checkpoints ----------------------------------------------------------------------------------------------- */

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
                kind->negative = (o->ops.signed_accumulators >> i & 1) != 0;
                kind->classes = all[j].data == w->bias || (all[j].data == w->weight && class_major);
                kind->columns = all[j].data == w->weight && !class_major;
                return true;
            }
        }
    }
    return false;
}
