/* What a gradient means for one part of the classes. */
#include "gradient/gradient.h"

xsm_status xsmi_gradient_part(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out, xsm_error *err)
{
    if (g->form != XSMI_GRADIENT_LISTED || g->layered) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a step on a model that is divided among ranks takes gradients with a list of classes for "
                         "each example");
    }
    const xsmi_gradient_shape shape = {.form = XSMI_GRADIENT_LISTED,
                                       .examples = g->examples,
                                       .width = g->width,
                                       .model_classes = end - first,
                                       .proximal = g->proximal};
    XSMI_TRY(xsmi_gradient_reserve(out, &shape, err));
    for (uint64_t i = 0; i < g->examples; i++) {
        const xsmi_entries list = xsmi_gradient_list(g, i);
        const uint64_t at = i * g->width;
        uint32_t kept = 0;
        for (uint64_t j = 0; j < list.count; j++) {
            if (list.classes[j] >= first && list.classes[j] < end) {
                out->classes[at + kept] = list.classes[j] - first;
                out->coefficients[at + kept] = list.coefficients[j];
                if (g->proximal) {
                    out->shrinks[at + kept] = list.shrinks[j];
                }
                kept++;
            }
        }
        out->lengths[i] = kept;
    }
    out->decay = g->decay;
    out->row_bound = g->row_bound;
    out->loss = g->loss;
    out->largest = g->largest;
    out->examples = g->examples;
    return XSM_OK;
}
