/*
 * A batch's step on every class of a feature-major model, by feature.
 *
 * Example by example, every weight of an example's features would be read and written once for each example. Here the
 * batch is transposed. For a tile of classes, the coefficients of all examples are packed so that they stay in the
 * L2 cache. Each feature's gradient is summed in registers over the examples that have the feature, and its weights
 * are read and written once a batch. Sums follow the order of the examples, so they have the same bits for every tile
 * size.
 */
#include "optimizer/step.h"
#include "base/order.h"

#include <string.h>

enum {
    TILE_FLOATS = 1 << 16, /* packed coefficients, 256 KB, which leaves space for the weights in the L2 cache */
    TILE_LEAST = 32,       /* classes of a tile: two cache lines of a feature's weights */
    TILES_A_THREAD = 4,
    /* Below so many classes, reading a feature's weights takes no longer than finding its examples. */
    CLASSES_LEAST = 64,
    /* The mean number of examples that share a feature, in percent. Below it, steps example by example are as fast. */
    SHARED_LEAST = 150
};

void xsmi_release_tiles(xsm_optimizer *o)
{
    xsmi_feature_list_free(o->context, &o->features);
    xsmi_release(o->context, o->tiles, o->tiles_capacity, sizeof *o->tiles);
    o->tiles = NULL;
    o->tiles_capacity = 0;
}

typedef struct tile_job {
    const xsmi_step *step;
    size_t width; /* of a tile */
} tile_job;

static void run_tile(void *state, const xsmi_range *r)
{
    const tile_job *job = state;
    const xsmi_step *s = job->step;
    const xsm_optimizer *o = s->optimizer;
    const xsm_gradient *g = s->g;
    float *packed = o->tiles + r->thread * (size_t)g->examples * job->width;
    const uint32_t first = (uint32_t)r->first, count = (uint32_t)(r->end - r->first);
    const xsmi_class_tile tile = {&o->features, g->examples, first, count, packed, job->width};
    for (uint64_t i = 0; i < g->examples; i++) {
        memcpy(packed + i * job->width, xsmi_gradient_row(g, i) + first, count * sizeof *packed);
    }
    if (o->linear) {
        xsmi_linear_tile(s, &tile);
    } else {
        xsmi_rule_tile(s, &tile, r->thread);
    }
}

/* Returns the number of classes of a tile, in whole cache lines. */
static size_t tile_width(uint64_t examples, size_t classes, size_t threads)
{
    size_t width = (size_t)(TILE_FLOATS / examples), share = classes / (TILES_A_THREAD * threads);
    width = threads > 1 && share < width ? share : width;
    width = width < TILE_LEAST ? TILE_LEAST : width > XSMI_TILE_MOST ? XSMI_TILE_MOST : width;
    width = XSMI_MIN(width, classes);
    return (width + XSMI_LINE - 1) / XSMI_LINE * XSMI_LINE;
}

/* Whether steps example by example are as fast for the batch. */
static bool alone(const xsm_optimizer *o)
{
    const xsmi_feature_list *list = &o->features;
    return o->linear && list->starts[list->founds] * 100 < list->founds * (size_t)SHARED_LEAST;
}

xsm_status xsmi_step_by_feature(const xsmi_step *s, bool *done, xsm_error *err)
{
    xsm_optimizer *o = s->optimizer;
    const xsm_model *m = o->model;
    const uint64_t examples = s->g->examples;
    const uint32_t all = xsmi_optimizer_model(o)->classes; /* all classes, so that divided models choose as one process
                                                              does */
    *done = false;
    if (m->w.layout != XSM_LAYOUT_FEATURE_MAJOR || o->ops.row_rate ||
        (o->linear && (examples == 1 || all < CLASSES_LEAST))) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_feature_list_fill(o->context, &o->features, m->features, s->batch, err));
    if (alone(o)) {
        return XSM_OK;
    }
    *done = true;
    const size_t classes = m->classes, threads = xsmi_context_threads(o->context);
    tile_job job = {s, tile_width(examples, classes, threads)};
    size_t count;
    if (!xsmi_multiply(threads * job.width, examples, &count)) {
        return xsmi_fail_memory(err, SIZE_MAX, "coefficients of a batch");
    }
    if (!xsmi_reserve(o->context, &o->tiles, &o->tiles_capacity, count, sizeof *o->tiles)) {
        return xsmi_fail_memory(err, count * sizeof *o->tiles, "coefficients of a batch");
    }
    const double work = (double)classes * (double)o->features.starts[o->features.founds];
    return xsmi_run_work(s, run_tile, &job, classes, job.width, work, err);
}
