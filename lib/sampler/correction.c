/* The correction of scores learnt with a sampler, as a part of models. */
#include "sampler/sampler.h"

#include <math.h>

xsm_status xsmi_sampler_correction(const xsm_sampler *s, xsmi_correction **out, xsm_error *err)
{
    const xsmi_tree *tree = xsmi_sampler_tree(s);
    if (tree) {
        xsmi_tree copy;
        XSMI_TRY(xsmi_tree_copy(s->context, tree, &copy, err));
        xsm_status status = xsmi_correction_of_tree(s->context, &copy, out, err);
        xsmi_tree_clear(&copy);
        return status;
    }
    if (s->code_length > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "sampler '%s' depends on the row, and of such samplers a model carries the tree alone: its "
                         "bias would stay in "
                         "the scores; nce, sampled-softmax and importance take it, which correct for it as they learn",
                         s->ops.name);
    }
    float *log_q = xsmi_allocate(s->context, s->classes, sizeof *log_q);
    if (!log_q) {
        return xsmi_fail_memory(err, s->classes * sizeof *log_q, "a correction of scores");
    }
    bool constant = true;
    xsm_status status = XSM_OK;
    for (uint32_t k = 0; k < s->classes && status == XSM_OK; k++) {
        log_q[k] = (float)s->ops.log_probability(s->state, NULL, k);
        constant &= log_q[k] == log_q[0];
        if (!(log_q[k] > -INFINITY)) {
            status =
                xsmi_fail(err, XSM_ERROR_RANGE,
                          "sampler '%s' never draws class %u, whose scores would mean nothing; a smoothing above 0 "
                          "is needed",
                          s->ops.name, k);
        }
    }
    *out = NULL;
    if (status == XSM_OK && !constant) {
        status = xsmi_correction_of_classes(s->context, log_q, s->classes, out, err);
    }
    xsmi_release(s->context, log_q, s->classes, sizeof *log_q);
    return status;
}
