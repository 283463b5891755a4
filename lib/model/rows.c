/* Copies of the weights of some classes. */
#include "model/model.h"

#include <string.h>

void xsmi_model_copy_rows(const xsm_model *m, size_t first, size_t count, bool raw, float *out)
{
    size_t d = m->features;
    if (m->w.narrow.data) {
        m->kernels->widen(&m->w.narrow, first * m->w.stride, count * m->w.stride, out);
    } else if (m->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
        for (size_t j = 0; j < d; j++) {
            const float *weight = m->w.weight + j * m->w.stride + first;
            for (size_t k = 0; k < count; k++) {
                out[k * d + j] = weight[k];
            }
        }
    } else {
        for (size_t k = 0; k < count; k++) {
            memcpy(out + k * d, m->w.weight + (first + k) * m->w.stride, d * sizeof *out);
        }
    }
    for (size_t k = 0; !raw && k < count; k++) {
        float scale = (float)(m->w.alpha * (m->w.row_scale ? m->w.row_scale[first + k] : 1.0));
        if (scale != 1.0f) {
            m->kernels->scale(out + k * d, d, scale);
        }
    }
}
