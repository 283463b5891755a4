/* Plain steps whose coefficients are clipped to [-clip, clip]. */
#include "optimizer/optimizer.h"

typedef struct clipped_state {
    double clip;
} clipped_state;

static const xsm_option options[] = {
    {"clip", XSM_OPTION_DOUBLE, offsetof(clipped_state, clip), "0.5", 0, 1e30, NULL, "largest size of a coefficient"},
};

static double change_by(const xsm_optimizer *o, float coefficient, double eta)
{
    const double clip = ((const clipped_state *)o->state)->clip, g = (double)coefficient;
    return -eta * (g > clip ? clip : g < -clip ? -clip : g);
}

static void add(const xsm_optimizer *o, const xsmi_features *x, uint32_t class, float coefficient, double eta,
                double alpha)
{
    const xsm_model *m = o->model;
    const double change = change_by(o, coefficient, eta);
    const bool class_major = m->layout == XSM_LAYOUT_CLASS_MAJOR;
    for (size_t j = 0; j < x->count; j++) {
        size_t f = x->index ? x->index[j] : j;
        m->weight[class_major ? class * m->stride + f : f * m->stride + class] +=
            (float)(change / alpha * (double)x->values[j]);
    }
    if (m->bias) {
        m->bias[class] += (float)change;
    }
}

static void step(xsm_optimizer *o, const xsmi_features *x, uint32_t count, const uint32_t *classes,
                 const float *coefficients, const double *shrinks, double eta, double alpha, double bound)
{
    (void)shrinks;
    (void)bound;
    for (uint32_t j = 0; j < count; j++) {
        add(o, x, classes[j], coefficients[j], eta, alpha);
    }
}

static void step_class(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t class,
                       const uint64_t *entries, size_t count, double eta, double alpha, uint32_t thread)
{
    (void)thread;
    for (size_t j = 0; j < count; j++) {
        xsmi_features x = xsmi_batch_features(batch, (size_t)(entries[j] / g->width));
        add(o, &x, class, g->coefficients[entries[j]], eta, alpha);
    }
}

static void step_range(xsm_optimizer *o, const xsm_batch *batch, const xsm_gradient *g, uint32_t first, uint32_t count,
                       double eta, double alpha, uint32_t thread)
{
    (void)thread;
    for (size_t i = 0; i < batch->count; i++) {
        xsmi_features x = xsmi_batch_features(batch, i);
        for (uint32_t k = first; k < first + count; k++) {
            add(o, &x, k, g->coefficients[i * g->width + k], eta, alpha);
        }
    }
}

static void step_tile(xsm_optimizer *o, const xsmi_class_tile *tile, double eta, double alpha, uint32_t thread)
{
    const xsm_model *m = o->model;
    const xsmi_feature_list *list = tile->list;
    (void)thread;
    for (uint32_t c = 0; c < tile->count; c++) {
        for (uint64_t i = 0; m->bias && i < tile->examples; i++) {
            m->bias[tile->first + c] += (float)change_by(o, tile->coefficients[i * tile->stride + c], eta);
        }
        for (size_t f = 0; f < list->founds; f++) {
            float *weight = &m->weight[list->found[f] * m->stride + tile->first + c];
            for (size_t j = list->starts[f]; j < list->starts[f + 1]; j++) {
                const float coefficient = tile->coefficients[list->examples[j] * tile->stride + c];
                *weight += (float)(change_by(o, coefficient, eta) / alpha * (double)list->values[j]);
            }
        }
    }
}

const xsm_optimizer_ops xsmi_clipped_ops = {
    .name = "clipped",
    .summary = "plain steps with clipped coefficients",
    .state_size = sizeof(clipped_state),
    .options = options,
    .option_count = 1,
    .step = step,
    .step_class = step_class,
    .step_range = step_range,
    .step_tile = step_tile,
};
