/*
 * The gradient with respect to the rows.
 *
 * For an explicit estimator dL/dx = sum_k g_k w_k, at the weights that were scored. A proximal one minimises F(theta) +
 * ||theta - theta_old||^2 / (2 eta) in theta, where F is its objective on the batch. The host's loss is that minimum as
 * a function of x (the Moreau envelope of F). Its derivative in x is dF/dx at the minimum, which is sum_k g_k w_k+ with
 * the weights after the step, w_k+ = s_k (w_k - eta g_k x).
 */
#include "estimator/pass.h"

#include <math.h>
#include <string.h>

/* Classes whose coefficients are applied together. */
#define GROUP 64

/* Adds sum_k g_k s_k (w_k - eta g_k x). */
static void add_proximal(const xsm_estimator *e, const xsm_gradient *g, double eta, uint64_t i, float *out)
{
    const float *coefficients = g->coefficients + i * g->width;
    const double *shrinks = g->shrinks + i * g->width;
    float amounts[GROUP];
    double own = 0;
    for (uint32_t start = 0; start < g->lengths[i]; start += GROUP) {
        uint32_t count = g->lengths[i] - start < GROUP ? g->lengths[i] - start : GROUP;
        for (uint32_t k = 0; k < count; k++) {
            double c = (double)coefficients[start + k], s = shrinks[start + k];
            amounts[k] = (float)(c * s);
            own += c * c * s;
        }
        xsmi_model_backward(e->model, g->classes + i * g->width + start, 0, amounts, count, out);
    }
    xsmi_features x = xsmi_gradient_features(e, g, i);
    const float back = (float)(-eta * own);
    for (size_t j = 0; j < x.count; j++) {
        float *at = out + (x.index ? x.index[j] : j);
        *at = fmaf(back, x.values[j], *at);
    }
}

bool xsmi_pass_backward(const xsmi_pass *p, uint64_t first, uint64_t count)
{
    const xsmi_input_gradient *input = p->input;
    const xsm_estimator *e = p->estimator;
    const xsm_gradient *g = p->gradient;
    const bool lists = xsmi_gradient_has_lists(g);
    const size_t d = e->model->features;
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        memset(input->values + i * input->stride, 0, d * sizeof *input->values);
        if (g->proximal) {
            add_proximal(e, g, p->eta, i, input->values + i * input->stride);
        } else if (lists) {
            const float *listed = ((g->form == XSMI_GRADIENT_SIFTED) ? g->work.scores : g->coefficients) + i * g->width;
            xsmi_model_backward(e->model, g->classes + i * g->width, 0, listed, g->lengths[i],
                                input->values + i * input->stride);
        }
    }
    /* Every class: one run of classes for each row in turn, so that their weights are in the cache. */
    for (uint32_t k = 0; !lists && k < g->width; k += GROUP) {
        size_t some = g->width - k < GROUP ? (size_t)(g->width - k) : GROUP;
        for (uint64_t i = first; i < first + count; i++) {
            xsmi_model_backward(e->model, NULL, k, g->coefficients + i * g->width + k, some,
                                input->values + i * input->stride);
        }
    }
    for (uint64_t i = first; i < first + count; i++) {
        for (size_t j = 0; j < d; j++) {
            finite &= fabsf(input->values[i * input->stride + j]) < INFINITY; /* false for NaN too */
        }
    }
    return finite;
}
