/* What a gradient means for one part of the classes. */
#include "gradient/gradient.h"

#include <string.h>

/* Copies what the lists of the examples have of the classes; the coefficients of each entry too, where the lists have
 * them. */
static void copy_lists(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out)
{
    const bool sifted = xsmi_gradient_is_sifted(g);
    for (uint64_t i = 0; i < g->examples; i++) {
        const uint64_t from = i * g->width, at = i * out->width;
        uint32_t kept = 0;
        for (uint64_t j = from; j < from + g->lengths[i]; j++) {
            const uint32_t class = g->classes[j];
            if (class < first || class >= end) {
                continue;
            }
            out->classes[at + kept] = class - first;
            if (sifted) {
                out->coefficients[at + (class - first)] = g->coefficients[from + class];
            } else {
                out->coefficients[at + kept] = g->coefficients[j];
            }
            if (g->proximal) {
                out->shrinks[at + kept] = g->shrinks[j];
            }
            kept++;
        }
        out->lengths[i] = kept;
    }
}

xsm_status xsmi_gradient_part(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out, xsm_error *err)
{
    if (xsmi_gradient_is_shared(g) || g->layered) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a step on a model that is divided among ranks takes no gradient whose classes are shared, or "
                         "of a first layer");
    }
    const bool dense = xsmi_gradient_is_dense(g), sifted = xsmi_gradient_is_sifted(g);
    const xsmi_gradient_shape shape = {.form = g->form,
                                       .examples = g->examples,
                                       .width = dense ? end - first : g->width,
                                       .model_classes = end - first,
                                       .proximal = g->proximal};
    XSMI_TRY(xsmi_gradient_reserve(out, &shape, err));
    const size_t row = (size_t)out->width * sizeof *out->coefficients;
    for (uint64_t i = 0; dense && i < g->examples; i++) {
        float *to = out->coefficients + i * out->width;
        if (sifted) {
            memset(to, 0, row);
        } else {
            memcpy(to, xsmi_gradient_row(g, i) + first, row);
        }
    }
    if (xsmi_gradient_has_lists(g)) {
        copy_lists(g, first, end, out);
    }
    if (dense) {
        out->whole = (xsmi_whole_gradient){g->width, xsmi_gradient_count(g, true)};
    }
    out->decay = g->decay;
    out->row_bound = g->row_bound;
    out->loss = g->loss;
    out->largest = g->largest;
    out->examples = g->examples;
    return XSM_OK;
}
