/*
 * The gradient with respect to a row's features, from the gradient with respect to its scores: sum_k g_k w_k, the
 * transpose of score.c.
 */
#include "model/score.h"
#include "base/order.h"

#include <math.h>

/* Classes whose coefficients are scaled together. A run of them stays in the first cache for the next rows. */
#define GROUP 64

static void add_feature_major(const xsm_model *m, const uint32_t *classes, uint32_t first, const float *amounts,
                              size_t count, float *out)
{
    for (size_t j = 0; j < m->features; j++) {
        const float *row = m->w.weight + j * m->w.stride;
        for (size_t i = 0; i < count; i++) {
            out[j] = fmaf(amounts[i], row[classes ? classes[i] : first + i], out[j]);
        }
    }
}

void xsmi_model_backward(const xsm_model *m, const uint32_t *classes, uint32_t first, const float *coefficients,
                         size_t count, float *out)
{
    float amounts[GROUP];
    for (size_t start = 0; start < count; start += GROUP) {
        size_t group = XSMI_MIN(count - start, GROUP);
        const uint32_t *some = classes ? classes + start : NULL;
        const uint32_t next = first + (uint32_t)start;
        for (size_t i = 0; i < group; i++) {
            double scale = m->w.row_scale ? m->w.alpha * m->w.row_scale[some ? some[i] : next + i] : m->w.alpha;
            amounts[i] = (float)((double)coefficients[start + i] * scale);
        }
        if (m->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
            add_feature_major(m, some, next, amounts, group, out);
        } else {
            const float *weight = some ? m->w.weight : m->w.weight + next * m->w.stride;
            m->kernels->column_sums(weight, m->w.stride, some, amounts, group, m->features, out);
        }
    }
}
