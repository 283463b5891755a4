/*
 * A correction by one number per class: log p_n(k) of a sampler that does not depend on the row. In a file:
 * `correction` F32 [K].
 */
#include "model/head.h"

#include <string.h>

typedef struct of_classes {
    xsmi_head base;
    float *log_q; /* [classes] */
} of_classes;

xsm_status xsmi_correction_of_classes(xsm_context *ctx, const float *log_q, uint32_t classes, xsmi_head **out,
                                      xsm_error *err)
{
    xsmi_head *c = NULL;
    XSMI_TRY(xsmi_head_new(ctx, &xsmi_classes_head, classes, &c, err));
    of_classes *own = (of_classes *)c;
    own->log_q = xsmi_allocate(ctx, classes, sizeof *log_q);
    if (!own->log_q) {
        xsmi_head_release(c);
        return xsmi_fail_memory(err, classes * sizeof *log_q, "a correction of scores");
    }
    memcpy(own->log_q, log_q, classes * sizeof *log_q);
    c->numbers = own->log_q;
    *out = c;
    return XSM_OK;
}

static void clear(xsmi_head *c)
{
    xsmi_release(c->context, ((of_classes *)c)->log_q, c->classes, sizeof(float));
}

static void add_chosen(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                       float *scratch)
{
    (void)x;
    (void)scratch;
    for (size_t j = 0; j < count; j++) {
        scores[j] = (float)((double)scores[j] + (double)c->numbers[classes[j]]);
    }
}

static void add_tile(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                     const void *prepared, float *scores)
{
    const float *log_q = c->numbers + tile->first;
    (void)rows;
    (void)count;
    (void)prepared;
    for (uint32_t k = 0; k < tile->count; k++) {
        for (size_t l = 0; tile->lanes && l < XSMI_LANES; l++) {
            scores[k * XSMI_LANES + l] += log_q[k];
        }
        if (!tile->lanes) {
            scores[k] += log_q[k];
        }
    }
}

static const char *const tensor_names[] = {"correction", NULL};

static size_t save(const xsmi_head *c, xsmi_tensor *tensors)
{
    tensors[0] = (xsmi_tensor){.name = tensor_names[0],
                               .dtype = XSMI_DTYPE_F32,
                               .rank = 1,
                               .shape = {c->classes},
                               .size = c->classes * sizeof *c->numbers,
                               .data = (const unsigned char *)c->numbers};
    return 1;
}

static xsm_status load(const xsmi_tensor_source *s, xsmi_head **out, xsm_error *err)
{
    const xsmi_tensor *numbers = s->tensors[0];
    const float *values = (const float *)(const void *)numbers->data;
    if (!xsmi_tensor_is(numbers, XSMI_DTYPE_F32, 1, s->classes, 0) || !xsmi_floats_finite(values, s->classes)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: tensor 'correction' must hold a finite F32 for each of the %u classes", s->name,
                         s->classes);
    }
    return xsmi_correction_of_classes(s->context, values, s->classes, out, err);
}

const xsmi_head_kind xsmi_classes_head = {
    .number = XSM_CORRECTION_CLASSES,
    .name = "classes",
    .described = "a number for each class",
    .size = sizeof(of_classes),
    .drawn = true,
    .clear = clear,
    .chosen = add_chosen,
    .tile = add_tile,
    .tensor_names = tensor_names,
    .save = save,
    .load = load,
};
