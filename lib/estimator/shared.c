/* Draws that all examples of a minibatch share. */
#include "estimator/shared.h"

#include <math.h>
#include <string.h>

xsm_status xsmi_shared_check(const xsm_estimator *e, xsm_error *err)
{
    if (e->common.shared && e->sampling.sampler->code_length > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s': sampler '%s' draws by the features of a row, so that rows cannot share their "
                         "draws; 'uniform' and 'frequency' go with shared",
                         e->ops.name, e->sampling.sampler->ops.name);
    }
    return XSM_OK;
}

/* -- drawing ------------------------------------------------------------------------------------------------------- */

xsm_status xsmi_shared_reserve(const xsmi_pass *p, bool *shared, xsm_error *err)
{
    const xsm_estimator *e = p->estimator;
    *shared = e->sampling.sampler && !e->exact && e->common.shared && p->batch->count > 1 && e->sampling.rule.count > 0;
    return *shared ? xsmi_gradient_reserve_shared(p->gradient, e->sampling.rule.count, err) : XSM_OK;
}

void xsmi_shared_draw(void *pass)
{
    const xsmi_pass *p = pass;
    const xsm_estimator *e = p->estimator;
    xsmi_shared_classes *s = &p->gradient->shared;
    const xsmi_shared_draws *d = &p->gradient->work.shared;
    const xsmi_draw_list list = {NULL, e->position, NULL, 0, s->classes, d->log_expected, d->draws, &s->count};
    xsmi_sampler_lists(e->sampling.sampler, &e->sampling.rule, (uint64_t)e->common.seed, &list, 1);
    for (uint32_t c = 0; c < s->count; c++) {
        s->column[s->classes[c]] = c;
    }
}

bool xsmi_shared_is_product(const xsmi_pass *p)
{
    const xsm_estimator *e = p->estimator;
    const xsm_gradient *g = p->gradient;
    const xsm_model *m = e->model;
    const bool dense = e->hidden || (g->work.rows.values ? !g->work.rows.offsets : !e->train->sparse);
    return dense && xsmi_model_has_products(m) && !g->proximal;
}

/* -- lists --------------------------------------------------------------------------------------------------------- */

uint32_t xsmi_shared_next_label(const xsmi_shared_classes *s, const xsm_example *example, uint32_t from)
{
    uint32_t next = s->count;
    for (uint64_t j = 0; j < example->label_count; j++) {
        uint32_t c = s->column[example->labels[j]];
        next = c != XSMI_NO_CLASS && c >= from && c < next ? c : next;
    }
    return next;
}

void xsmi_shared_put_labels(const xsm_estimator *e, const xsm_gradient *g, const xsm_example *example,
                            uint32_t *classes, uint32_t *draws, double *log_expected)
{
    const xsmi_shared_draws *d = &g->work.shared;
    const double log_count = e->sampling.rule.label_probabilities ? log((double)e->sampling.rule.count) : 0;
    for (uint64_t j = 0; j < example->label_count; j++) {
        const uint32_t k = example->labels[j], c = g->shared.column[k];
        const bool drawn = c != XSMI_NO_CLASS;
        classes[j] = k;
        draws[j] = drawn && !e->sampling.rule.exclude_labels ? d->draws[c] : 0;
        log_expected[j] =
            drawn ? d->log_expected[c]
            : e->sampling.rule.label_probabilities
                ? log_count + e->sampling.sampler->ops.log_probability(e->sampling.sampler->state, NULL, k)
                : 0;
    }
}

void xsmi_shared_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count)
{
    const xsmi_shared_classes *s = &g->shared;
    const xsmi_shared_draws *d = &g->work.shared;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        uint32_t *classes = g->classes + i * g->width, *draws = g->work.draws + i * g->width;
        double *log_expected = g->work.log_expected + i * g->width;
        uint32_t position = (uint32_t)example->label_count;
        xsmi_shared_put_labels(e, g, example, classes, draws, log_expected);
        for (uint32_t from = 0, end; from < s->count; from = end + 1) {
            end = xsmi_shared_next_label(s, example, from);
            memcpy(classes + position, s->classes + from, (end - from) * sizeof *classes);
            memcpy(draws + position, d->draws + from, (end - from) * sizeof *draws);
            memcpy(log_expected + position, d->log_expected + from, (end - from) * sizeof *log_expected);
            position += end - from;
        }
        g->lengths[i] = position;
    }
}
