/* Divided models: makes their parts, and gathers their weights. */
#include "model/divided.h"

#include "base/order.h"
#include "model/narrow.h"
#include "ranks/comm.h"
#include "ranks/same.h"
#include "base/entry.h"

#include <string.h>

/* -- making parts -------------------------------------------------------------------------------------------------- */

static xsm_status set_part(xsm_model *m, xsmi_part *part, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_rank(m->context);
    if (!xsmi_enough_classes(m->classes, ranks)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%u classes cannot be divided among %u processes: they are %u runs of %d, and each has at "
                         "least one",
                         m->classes, ranks, xsmi_runs_of(m->classes), XSMI_RUN_CLASSES);
    }
    part->first = xsmi_part_start(m->classes, ranks, rank);
    part->end = xsmi_part_start(m->classes, ranks, rank + 1);
    return XSM_OK;
}

static xsm_status new_part(xsm_model *m, const xsm_model_options *o, xsm_error *err)
{
    xsmi_part part = {.own = NULL}; /* of dense weights */
    XSMI_TRY(set_part(m, &part, err));
    XSMI_TRY(xsmi_model_new_local(m->context, m->features, part.end - part.first, o, &part.own, err));
    m->part = part;
    m->w.layout = o->layout;
    return XSM_OK;
}

/* xsm_model_new_linear() in a context with several processes, for checked options. */
static xsm_status new_divided(xsm_context *ctx, uint32_t features, uint32_t classes, const xsm_model_options *o,
                              xsm_model **out, xsm_error *err)
{
    xsm_model *m = NULL;
    xsm_status status = xsmi_model_new_empty(ctx, features, classes, &m, err);
    status = status == XSM_OK ? new_part(m, o, err) : status;
    const xsmi_number sizes[] = {XSMI_WHOLE("features", features), XSMI_WHOLE("classes", classes),
                                 XSMI_WHOLE("layout", (uint64_t)o->layout)};
    status = xsmi_numbers_agree(ctx, sizes, sizeof sizes / sizeof *sizes, status, err);
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    *out = m;
    return XSM_OK;
}

/* Copies the weights of this process's classes to the part; `loaded` is the first class whose weights the model has. */
static xsm_status copy_weights(xsm_model *m, size_t loaded, xsm_error *err)
{
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    o.bias = m->w.bias != NULL;
    XSMI_TRY(new_part(m, &o, err));
    const xsm_model *own = m->part.own;
    for (size_t k = 0; k < own->classes; k++) {
        memcpy(own->w.weight + k * own->w.stride, m->w.weight + (m->part.first - loaded + k) * m->w.stride,
               m->features * sizeof *own->w.weight);
    }
    return XSM_OK;
}

/* Copies weights in fewer bits than float32 in the same way. */
static xsm_status copy_narrow(xsm_model *m, size_t loaded, xsm_error *err)
{
    xsmi_part part = {.own = NULL};
    XSMI_TRY(set_part(m, &part, err));
    XSMI_TRY(xsmi_model_new_empty(m->context, m->features, part.end - part.first, &part.own, err));
    m->part = part;
    xsm_model *own = part.own;
    const size_t line = m->w.narrow.stride * xsmi_number_bytes(m->w.narrow.dtype), bytes = own->classes * line;
    own->w.stride = m->w.stride;
    void *numbers = xsmi_allocate(m->context, own->classes, line);
    own->w.bias = m->w.bias ? xsmi_allocate(m->context, own->classes, sizeof *own->w.bias) : NULL;
    own->bias_owned = own->w.bias != NULL;
    if (numbers) {
        memcpy(numbers, (const unsigned char *)m->w.narrow.data + (part.first - loaded) * line, bytes);
        own->w.narrow = (xsmi_narrow){m->w.narrow.dtype, numbers, m->w.narrow.stride};
        own->w.narrow_bytes = bytes;
    }
    return numbers && !own->w.bias == !m->w.bias ? XSM_OK : xsmi_fail_memory(err, bytes, "the weights");
}

xsm_status xsmi_divided_of_part(const xsm_model *like, xsm_model *own, xsm_model **out, xsm_error *err)
{
    xsm_model *m;
    XSMI_TRY(xsmi_model_new_empty(like->context, like->features, like->classes, &m, err));
    m->part = (xsmi_part){.own = own, .first = like->part.first, .end = like->part.end};
    m->w.layout = own->w.layout;
    m->score = own->score;
    *out = m;
    return XSM_OK;
}

/* Moves the first layer, in memory of its own, to the part. */
static xsm_status move_layer(xsm_model *m, xsm_error *err)
{
    m->part.own->layer = m->layer;
    return m->layer ? xsmi_layer_own(m->part.own, err) : XSM_OK;
}

xsm_status xsmi_model_divide(xsm_model *m, xsm_error *err)
{
    if (m->w.layout == XSM_LAYOUT_SPARSE_ROWS) {
        return XSM_OK;
    }
    if (xsmi_model_nodes(m)) {
        return xsmi_context_need_alone(m->context, "a model of estimator 'hierarchical', unless it is pruned,", err);
    }
    const size_t loaded = m->part.first;
    XSMI_TRY(m->w.narrow.data ? copy_narrow(m, loaded, err) : copy_weights(m, loaded, err));
    XSMI_TRY(move_layer(m, err));
    xsm_model *own = m->part.own;
    const size_t first = m->part.first;
    if (m->w.bias) {
        memcpy(own->w.bias, m->w.bias + first, own->classes * sizeof *own->w.bias);
    }
    own->untouched = false;
    own->score = m->score;
    own->w.alpha = m->w.alpha;
    if (m->w.row_scale) {
        XSMI_TRY(xsmi_model_need_row_scale(own, err));
        memcpy(own->w.row_scale, m->w.row_scale + first, own->classes * sizeof *own->w.row_scale);
    }
    xsmi_release(m->context, m->w.row_scale, m->classes, sizeof *m->w.row_scale);
    m->w.row_scale = NULL;
    xsmi_model_set_head(m, m->head);
    xsmi_model_put_calibration(m, m->calibration);
    xsmi_model_release_weights(m);
    return XSM_OK;
}

/* -- weights of all processes -------------------------------------------------------------------------------------- */

size_t xsmi_divided_end(const xsm_model *m, size_t class)
{
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_part_of(m->classes, ranks, (uint32_t) class);
    return xsmi_part_start(m->classes, ranks, rank + 1);
}

bool xsmi_divided_has(const xsm_model *m, size_t class)
{
    return class >= m->part.first && class < m->part.end;
}

xsm_status xsmi_divided_share(const xsm_model *m, size_t class, void *data, size_t bytes, xsm_status status,
                              xsm_error *err)
{
    const uint32_t root = xsmi_part_of(m->classes, xsmi_ranks(m->context), (uint32_t) class);
    XSMI_TRY(xsmi_agree(m->context, status, err));
    return xsmi_exchange_copy(m->context, data, bytes, root, err);
}

/* -- new linear models --------------------------------------------------------------------------------------------- */

static xsm_status new_linear(xsm_context *context, uint32_t features, uint32_t classes,
                             const xsm_model_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_model_new_linear", XSMI_GIVEN({out, "out"}), err));
    xsm_model_options o = XSM_MODEL_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_model_options, &o, options, err));
    if (features > XSM_FEATURES_MAX || (features == 0 && o.bias == 0)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u features; accepted are 1 to %u, or 0 with a bias", features,
                         XSM_FEATURES_MAX);
    }
    if (classes < 1 || classes > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u classes; accepted are 1 to %u", classes, XSM_CLASSES_MAX);
    }
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_model_options, &o, bias, err));
    if (o.layout != XSM_LAYOUT_CLASS_MAJOR && o.layout != XSM_LAYOUT_FEATURE_MAJOR) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_model_options.layout is %d, which is no XSM_LAYOUT_* value",
                         o.layout);
    }
    return context && xsmi_ranks(context) > 1 ? new_divided(context, features, classes, &o, out, err)
                                              : xsmi_model_new_local(context, features, classes, &o, out, err);
}

xsm_status xsm_model_new_linear(xsm_context *context, uint32_t features, uint32_t classes,
                                const xsm_model_options *options, xsm_model **out, xsm_error *err)
{
    XSMI_ENTER(err);
    return XSMI_COLLECTIVE(xsmi_context_group(context), new_linear(context, features, classes, options, out, err), err);
}
