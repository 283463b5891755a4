/*
 * The gradient with respect to the rows.
 *
 * For an explicit estimator dL/dx = sum_k g_k w_k, at the weights that were scored. A proximal one minimises F(theta) +
 * ||theta - theta_old||^2 / (2 eta) in theta, where F is its objective on the batch. The host's loss is that minimum as
 * a function of x (the Moreau envelope of F). Its derivative in x is dF/dx at the minimum, which is sum_k g_k w_k+ with
 * the weights after the step, w_k+ = s_k (w_k - eta g_k x).
 */
#include "estimator/pass.h"

#include "base/activity.h"
#include "base/order.h"
#include "estimator/gathered.h"
#include "gradient/shards.h"

#include <math.h>
#include <string.h>

/* Number of classes whose coefficients are applied together. */
#define GROUP 64
/* Classes between two polls, a multiple of GROUP. */
#define POLL_CLASSES 512
/* Floats of scratch of a thread, unless one row needs more. */
#define SCRATCH_FLOATS ((size_t)1 << 20)

/* Adds sum_k g_k s_k (w_k - eta g_k x). */
static void add_proximal(const xsm_estimator *e, const xsm_gradient *g, double eta, uint64_t i, float *out)
{
    const float *coefficients = g->coefficients + i * g->width;
    const double *shrinks = g->shrinks + i * g->width;
    const uint32_t *classes = xsmi_listed_classes(g, i);
    float amounts[GROUP];
    double own = 0;
    for (uint32_t start = 0; start < g->lengths[i]; start += GROUP) {
        uint32_t count = g->lengths[i] - start < GROUP ? g->lengths[i] - start : GROUP;
        for (uint32_t k = 0; k < count; k++) {
            double c = (double)coefficients[start + k], s = shrinks[start + k];
            amounts[k] = (float)(c * s);
            own += c * c * s;
        }
        xsmi_weights_backward(xsmi_listed_weights(e, g), classes + start, 0, amounts, count, out);
    }
    xsmi_features x = xsmi_gradient_features(e, g, i);
    const float back = (float)(-eta * own);
    for (size_t j = 0; j < x.count; j++) {
        float *at = out + (x.index ? x.index[j] : j);
        *at = fmaf(back, x.values[j], *at);
    }
}

/* The rows of a call, from number `row` on, for which the sums over the classes are computed. */
typedef struct input_sums {
    const xsmi_pass *pass;
    const xsmi_weights *weights; /* class k is row k - first of these, and its coefficient is in column k - column */
    uint32_t first, column;
    uint64_t row, rows;
    uint32_t thread;
    uint32_t next; /* sifted: the first entry of the list, after the labels, that is not added yet */
} input_sums;

/* Adds every class: one class run for each row in turn, so that the weights of the run stay in the cache. */
static bool sum_dense(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    const input_sums *s = state;
    const xsm_gradient *g = s->pass->gradient;
    const xsmi_weights *w = s->weights;
    const xsmi_pass *p = s->pass;
    const float *all = p->recompute ? p->recompute(g, s->row, s->rows, first, end, s->thread)
                                    : g->coefficients + s->row * g->width + (first - s->column);
    const uint64_t width = p->recompute ? end - first : g->width;
    for (uint64_t i = 0; i < s->rows; i++) {
        memset(out + i * stride, 0, w->features * sizeof *out);
    }
    for (uint32_t k = first; k < end; k += GROUP) {
        const size_t some = XSMI_MIN(end - k, GROUP);
        if (k > first && (k - first) % POLL_CLASSES == 0 && xsmi_poll(s->pass->estimator->context)) {
            return true; /* the call fails, and its rows are undefined */
        }
        for (uint64_t i = 0; i < s->rows; i++) {
            xsmi_weights_backward(w, NULL, k - s->first, all + i * width + (k - first), some, out + i * stride);
        }
    }
    return true;
}

/* Returns the number of labels at the head of a sifted list, which omits labels whose coefficient is 0. */
static uint32_t listed_labels(const xsm_gradient *g, uint64_t row)
{
    const xsm_example *example = &g->example[row];
    const uint32_t *classes = g->classes + row * g->width;
    uint32_t count = 0;
    for (uint64_t l = 0; l < example->label_count; l++) {
        count += count < g->lengths[row] && classes[count] == example->labels[l];
    }
    return count;
}

/* Adds what some listed classes contribute. */
static void add_sifted(const input_sums *s, const uint32_t *classes, const float *coefficients, size_t count,
                       float *out)
{
    uint32_t numbers[GROUP];
    for (size_t start = 0, some; start < count; start += some) {
        some = XSMI_MIN(count - start, GROUP);
        for (size_t i = 0; i < some; i++) {
            numbers[i] = classes[start + i] - s->first;
        }
        xsmi_weights_backward(s->weights, numbers, 0, coefficients + start, some, out);
    }
}

/* Adds, for one row, the labels among the classes first..end, then the other listed classes among them. */
static bool sum_sifted(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    input_sums *s = state;
    const xsm_gradient *g = s->pass->gradient;
    const uint32_t *classes = g->classes + s->row * g->width, labels = listed_labels(g, s->row);
    const float *listed = g->work.sifted + s->row * g->width;
    bool any = false;
    (void)stride;
    while (s->next < g->lengths[s->row] && classes[s->next] < first) {
        s->next++; /* its class belongs to another process */
    }
    const uint32_t start = s->next;
    while (s->next < g->lengths[s->row] && classes[s->next] < end) {
        s->next++;
    }
    for (uint32_t j = 0; j < labels; j++) {
        any |= classes[j] >= first && classes[j] < end;
    }
    if (!any && s->next == start) {
        return false;
    }
    memset(out, 0, s->weights->features * sizeof *out);
    for (uint32_t j = 0; j < labels; j++) {
        add_sifted(s, classes + j, listed + j, classes[j] >= first && classes[j] < end, out);
    }
    add_sifted(s, classes + start, listed + start, s->next - start, out);
    return true;
}

/* Returns how many rows are summed together: as many as keep the scratch near the size of a cache. */
static uint64_t rows_together(const xsm_model *m, uint64_t rows)
{
    const size_t each = xsmi_shard_scratch(m->classes) * m->features;
    return each * rows <= SCRATCH_FLOATS ? rows : XSMI_MAX(SCRATCH_FLOATS / each, 1);
}

size_t xsmi_pass_backward_scratch(const xsmi_pass *p)
{
    const xsm_model *m = p->estimator->model;
    const uint64_t rows = xsmi_gradient_is_sifted(p->gradient) ? 1 : rows_together(m, XSMI_EXAMPLE_CHUNK);
    return p->input && xsmi_gradient_is_dense(p->gradient) ? (size_t)rows * xsmi_shard_scratch(m->classes) * m->features
                                                           : 0;
}

uint64_t xsmi_pass_rows_together(const xsmi_pass *p, uint64_t rows)
{
    return xsmi_gradient_is_sifted(p->gradient) ? 1 : rows_together(p->estimator->model, rows);
}

/* Sets up the sums of `rows` examples from `first` on. */
static xsmi_shard_sums sums_of(const xsmi_pass *p, uint64_t first, uint64_t rows, uint32_t thread, input_sums *state)
{
    const xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    const xsmi_mine mine = xsmi_model_mine(m);
    const bool sifted = xsmi_gradient_is_sifted(g);
    *state = (input_sums){
        .pass = p,
        .weights = mine.w,
        .first = mine.first,
        .column = g->width < m->classes ? mine.first : 0,
        .row = first,
        .rows = rows,
        .thread = thread,
        .next = sifted ? listed_labels(g, first) : 0,
    };
    return (xsmi_shard_sums){.kernels = m->kernels,
                             .classes = m->classes,
                             .rows = (size_t)rows,
                             .width = m->features,
                             .sum = sifted ? sum_sifted : sum_dense,
                             .state = state};
}

bool xsmi_pass_backward_node(const xsmi_pass *p, uint64_t first, uint64_t rows, uint32_t thread, uint32_t shard,
                             uint32_t count, float *out, size_t stride)
{
    input_sums state;
    const xsmi_shard_sums sums = sums_of(p, first, rows, thread, &state);
    return xsmi_shard_node(&sums, shard, count, out, stride,
                           p->gradient->work.shards + thread * p->gradient->work.shards_each);
}

/* Where every class has a coefficient, or may have one: adds by shards. */
static void backward_dense(const xsmi_pass *p, uint64_t first, uint64_t count, uint32_t thread)
{
    const xsm_gradient *g = p->gradient;
    const uint64_t together = xsmi_pass_rows_together(p, XSMI_EXAMPLE_CHUNK);
    for (uint64_t i = first, rows; i < first + count; i += rows) {
        rows = XSMI_MIN(first + count - i, together);
        input_sums state;
        const xsmi_shard_sums sums = sums_of(p, i, rows, thread, &state);
        xsmi_shard_all(&sums, p->input->values + i * p->input->stride, p->input->stride,
                       g->work.shards + thread * g->work.shards_each);
    }
}

/* Where examples list classes: adds them one after another. */
static void backward_listed(const xsmi_pass *p, uint64_t i)
{
    const xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    float *out = p->input->values + i * p->input->stride;
    memset(out, 0, m->features * sizeof *out);
    if (g->proximal) {
        add_proximal(p->estimator, g, p->eta, i, out);
    } else {
        xsmi_weights_backward(xsmi_listed_weights(p->estimator, g), xsmi_listed_classes(g, i), 0,
                              g->coefficients + i * g->width, g->lengths[i], out);
    }
}

bool xsmi_pass_backward(const xsmi_pass *p, uint64_t first, uint64_t count, uint32_t thread)
{
    const xsmi_input_gradient *input = p->input;
    const xsm_model *m = p->estimator->model;
    const bool dense = xsmi_gradient_is_dense(p->gradient);
    bool finite = true;
    if (dense) {
        backward_dense(p, first, count, thread);
    }
    for (uint64_t i = first; !dense && i < first + count; i++) {
        backward_listed(p, i);
    }
    for (uint64_t i = first; i < first + count; i++) {
        /* False for NaN, too. */
        finite &= m->kernels->row_scaled_max(input->values + i * input->stride, m->features, 1, 0) < INFINITY;
    }
    return finite;
}
