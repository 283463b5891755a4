/* Sparse score gradients: their memory, which is reused from step to step. */
#include "estimator/estimator.h"

#include <string.h>

/* Arrays that share a capacity. */
#define BY_EXAMPLE(g) XSMI_ARRAYS(XSMI_ARRAY((g)->example), XSMI_ARRAY((g)->losses), XSMI_ARRAY((g)->lengths))
#define LISTS(g) XSMI_ARRAYS(XSMI_ARRAY((g)->classes), XSMI_ARRAY((g)->scores))
#define DRAWS(g) XSMI_ARRAYS(XSMI_ARRAY((g)->log_expected), XSMI_ARRAY((g)->draws))

xsm_status xsm_gradient_new(xsm_context *context, xsm_gradient **out, xsm_error *err)
{
    if (!out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_gradient_new: out is NULL");
    }
    xsm_context *ctx;
    void *memory;
    XSMI_TRY(xsmi_object_new(context, sizeof(xsm_gradient), "a gradient", &ctx, &memory, err));
    xsm_gradient *g = memory;
    g->context = ctx;
    *out = g;
    return XSM_OK;
}

void xsmi_gradient_clear(xsm_gradient *g)
{
    xsm_context *ctx = g->context;
    xsmi_release_all(ctx, BY_EXAMPLE(g), &g->example_capacity);
    xsmi_release(ctx, g->coefficients, g->place_capacity, sizeof *g->coefficients);
    xsmi_release_all(ctx, LISTS(g), &g->list_capacity);
    xsmi_release(ctx, g->linear, g->linear_capacity, sizeof *g->linear);
    xsmi_release(ctx, g->shrinks, g->shrink_capacity, sizeof *g->shrinks);
    xsmi_release_all(ctx, DRAWS(g), &g->draw_capacity);
    xsmi_release(ctx, g->scratch, g->scratch_bytes, 1);
    xsmi_release(ctx, g->sieve, g->sieve_bytes, 1);
    xsmi_score_room_free(ctx, &g->room);
    xsmi_release(ctx, g->codes, g->code_capacity, sizeof *g->codes);
    xsmi_release_all(ctx, XSMI_HIDDEN_VECTORS(g), &g->hidden_capacity);
    xsmi_correction_release(g->correction);
    xsmi_shared_clear(g);
    memset(g, 0, sizeof *g);
    g->context = ctx;
}

void xsm_gradient_free(xsm_gradient *g)
{
    if (g) {
        xsm_context *ctx = g->context;
        xsmi_gradient_clear(g);
        xsmi_release(ctx, g, 1, sizeof *g);
        xsm_context_free(ctx);
    }
}

xsm_status xsmi_gradient_reserve(xsm_gradient *g, const xsm_estimator *e, uint64_t examples, uint32_t slots, bool joint,
                                 xsm_error *err)
{
    bool exact = e->exact;
    bool proximal = (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0 && !joint;
    uint64_t width = joint ? e->ops.joint_width(e->state, examples) : e->width;
    size_t places, bytes, n = (size_t)examples;
    if (examples > SIZE_MAX || width > XSM_CLASSES_MAX || !xsmi_multiply(n, (size_t)width, &places) ||
        places > SIZE_MAX / sizeof(double)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "a batch of %llu examples with %llu classes each cannot be addressed",
                         (unsigned long long)examples, (unsigned long long)width);
    }
    size_t each = e->ops.scratch ? e->ops.scratch(e->state) : 0;
    each = (each + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
    bool fits = xsmi_multiply(each, slots, &bytes);
    bool sifted = (e->ops.flags & XSMI_ESTIMATOR_SIFTED) != 0;
    if (!sifted || !g->sifted || width != g->width || n > g->example_capacity || places > g->place_capacity ||
        places > g->list_capacity) {
        g->listed = g->clean = 0; /* the coefficients in memory, old or new, are unknown */
    }
    fits = fits && xsmi_reserve_all(g->context, BY_EXAMPLE(g), &g->example_capacity, n);
    fits = fits && xsmi_reserve(g->context, &g->coefficients, &g->place_capacity, places, sizeof *g->coefficients);
    if (fits && (!exact || sifted)) {
        fits = xsmi_reserve_all(g->context, LISTS(g), &g->list_capacity, places);
    }
    if (fits && !exact && e->model->bias) {
        fits = xsmi_reserve(g->context, &g->linear, &g->linear_capacity, places, sizeof *g->linear);
    }
    if (fits && proximal) {
        fits = xsmi_reserve(g->context, &g->shrinks, &g->shrink_capacity, places, sizeof *g->shrinks);
    }
    if (fits && e->sampler && !exact) {
        fits = xsmi_reserve_all(g->context, DRAWS(g), &g->draw_capacity, places);
    }
    fits = fits && xsmi_reserve(g->context, &g->scratch, &g->scratch_bytes, bytes, 1);
    g->examples = 0;
    g->values = NULL;
    xsmi_shared_forget(g);
    g->coded = false;
    if (!fits) {
        return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory: a gradient of %llu examples with %llu classes each",
                         (unsigned long long)examples, (unsigned long long)width);
    }
    if (g->correction != e->correction) {
        xsmi_correction_release(g->correction);
        g->correction = xsmi_correction_retain(e->correction);
    }
    g->scratch_each = each;
    g->width = width;
    g->model_classes = e->model->classes;
    g->exact = exact;
    g->sifted = sifted;
    g->proximal = proximal;
    g->row_bound = e->row_bound;
    return XSM_OK;
}

xsm_status xsm_gradient_get(const xsm_gradient *g, xsm_gradient_view *view, xsm_error *err)
{
    if (!g) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_gradient_get: gradient is NULL");
    }
    xsm_gradient_view v = XSM_GRADIENT_VIEW_INIT;
    v.examples = g->examples;
    if (g->examples > 0) {
        v.width = g->width;
        v.lengths = g->exact ? NULL : g->lengths;
        v.classes = g->exact ? NULL : g->classes;
        v.coefficients = g->coefficients;
        v.shrinks = g->proximal ? g->shrinks : NULL;
        v.decay = g->decay;
        v.loss = g->loss;
        v.row_bound = g->row_bound;
    }
    const size_t first_size = offsetof(xsm_gradient_view, row_bound);
    return xsmi_options_write(&v, sizeof v, first_size, view, "xsm_gradient_view", err);
}
