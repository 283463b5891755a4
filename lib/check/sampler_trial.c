/* What the parts of a sampler's trial share: making the sampler, drawing twice, and reporting its faults. */
#include "check/sampler_check.h"

#include <stdarg.h>
#include <string.h>

#include <xsoftmax/draw.h>

xsm_status xsmi_sampler_fault(const xsmi_sampler_trial *t, xsm_error *err, const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    xsmi_format_line(what, sizeof what, format, args);
    va_end(args);
    return xsmi_fail(err, XSM_ERROR_DATA, "sampler '%s', K = %u, %s rows of %u features: %s", t->ops->name,
                     t->shape.classes, t->shape.sparse ? "sparse" : "dense", t->shape.features, what);
}

xsm_status xsmi_sampler_trial_set(void *object, const char *name, const char *value, xsm_error *err)
{
    return xsm_sampler_set(object, name, value, err);
}

/* Makes up rows of weights. */
static void read_weights(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                         float *out, size_t stride)
{
    for (uint32_t j = 0; j < count; j++) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, source->seed, XSMI_STREAM_CHECK, rows ? rows[j] : first + j);
        for (uint32_t i = 0; i < source->width; i++) {
            out[j * stride + i] = (float)(2 * xsmi_stream_uniform(&stream) - 1);
        }
    }
}

xsm_status xsmi_sampler_trial_follow(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    const uint64_t *offsets = t->data->label_offsets;
    const xsm_index_source weights = {
        .size = sizeof weights,
        .context = s->context,
        .count = t->shape.classes,
        .width = t->shape.features + 1,
        .seed = 1,
        .read = read_weights,
    };
    for (uint64_t first = 0, count = 1; first < t->shape.rows; first += count++) {
        const uint64_t end = XSMI_MIN(first + count, t->shape.rows);
        const xsm_sampler_step step = {sizeof step, t->data->labels + offsets[first], offsets[end] - offsets[first],
                                       first, &weights};
        XSMI_TRY(s->ops.follow(s->state, &step, err));
    }
    return XSM_OK;
}

xsm_status xsmi_sampler_trial_make(const xsmi_sampler_trial *t, xsm_context *ctx, xsm_sampler **out, xsm_error *err)
{
    xsm_sampler *s;
    XSMI_TRY(xsm_sampler_new_from(ctx, t->ops, &s, err));
    xsm_status status = xsmi_trial_set(ctx, t->options->set, xsmi_sampler_trial_set, s, err);
    if (status == XSM_OK) {
        status = xsm_sampler_bind(s, t->data, err);
    }
    if (status == XSM_OK && t->follows) {
        status = xsmi_sampler_trial_follow(t, s, err);
    }
    if (status != XSM_OK) {
        xsm_sampler_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

xsm_status xsmi_sampler_trial_draw(const xsmi_sampler_trial *t, const xsm_sampler *s, int into, bool alone,
                                   xsm_error *err)
{
    XSMI_TRY(xsmi_go_on(t->context, err));
    for (uint64_t row = 0; alone && row < t->shape.rows; row++) {
        xsm_batch one = xsm_batch_range(t->data, row, 1);
        XSMI_TRY(xsm_sampler_draw(s,
                                  &(xsm_draw){.size = sizeof(xsm_draw),
                                              .batch = &one,
                                              .seed = 9,
                                              .position = 100 + row,
                                              .count = XSMI_TRIAL_DRAWS,
                                              .classes = t->classes[into] + row * XSMI_TRIAL_DRAWS,
                                              .log_probabilities = t->logs[into] + row * XSMI_TRIAL_DRAWS},
                                  err));
    }
    xsm_batch batch = xsm_batch_range(t->data, 0, t->shape.rows);
    return alone ? XSM_OK
                 : xsm_sampler_draw(s,
                                    &(xsm_draw){.size = sizeof(xsm_draw),
                                                .batch = &batch,
                                                .seed = 9,
                                                .position = 100,
                                                .count = XSMI_TRIAL_DRAWS,
                                                .classes = t->classes[into],
                                                .log_probabilities = t->logs[into]},
                                    err);
}

xsm_status xsmi_sampler_trial_same(const xsmi_sampler_trial *t, const char *when, xsm_error *err)
{
    size_t entries = (size_t)t->shape.rows * XSMI_TRIAL_DRAWS;
    if (memcmp(t->classes[0], t->classes[1], entries * sizeof **t->classes) != 0 ||
        memcmp(t->logs[0], t->logs[1], entries * sizeof **t->logs) != 0) {
        return xsmi_sampler_fault(t, err, "the same draws are others %s", when);
    }
    return XSM_OK;
}
