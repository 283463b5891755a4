/* Copies of the weights of some classes. */
#include "model/model.h"

#include <string.h>

void xsmi_model_copy_rows(const xsm_model *m, size_t first, size_t count, bool raw, float *out)
{
    size_t d = m->features;
    if (m->narrow.data) {
        m->kernels->widen(&m->narrow, first * m->stride, count * m->stride, out);
    } else if (m->layout == XSM_LAYOUT_FEATURE_MAJOR) {
        for (size_t j = 0; j < d; j++) {
            const float *weight = m->weight + j * m->stride + first;
            for (size_t k = 0; k < count; k++) {
                out[k * d + j] = weight[k];
            }
        }
    } else {
        for (size_t k = 0; k < count; k++) {
            memcpy(out + k * d, m->weight + (first + k) * m->stride, d * sizeof *out);
        }
    }
    for (size_t k = 0; !raw && k < count; k++) {
        float scale = (float)(m->alpha * (m->row_scale ? m->row_scale[first + k] : 1.0));
        if (scale != 1.0f) {
            m->kernels->scale(out + k * d, d, scale);
        }
    }
}
