/*
 * The search-based gradients of Yen et al. 2018 (Algorithms 1 and 2: `mips`, `decomp-mips`) for the collapsed skip-gram
 * objective, eq. 9. A centre x is an example whose labels are its contexts, with the target q_{y|x} = n_xy/n_x on each.
 * Estimators use the target 1/|P|. The labels enter cross-entropy through a linear term, and Algorithm 2 knows their
 * scores in all blocks. So the estimator's loss and its coefficients of the labels are corrected by sum_y (1/|P| -
 * q_{y|x}) z_y and its derivative. As in the paper, the positive part is then a plain sum over the pairs.
 */
#include "words/collapsed_search.h"
#include "base/order.h"
#include "estimator/pass.h"

#include <math.h>
#include <string.h>

enum { PARTS_MOST = 64 };

struct xsmi_collapsed_search {
    xsm_context *context;
    const xsmi_kernels *kernels;
    xsm_estimator *estimator;
    const xsm_model *input, *output;
    const uint64_t *pairs; /* [V] pairs of each centre */
    xsm_gradient *gradient;
    size_t dimension, stride;
    uint32_t parts, threads;
    size_t label_most, list_most; /* most contexts of a centre; most slots of a list of either kind */
    /* For each thread. */
    uint32_t *rows; /* [threads][list_most] */
    float *amounts; /* [threads][list_most] */
    double lost[XSMI_SEARCH_CENTRES];
};

/* -- life ---------------------------------------------------------------------------------------------------------- */

static xsm_status bind(xsmi_collapsed_search *s, xsm_error *err)
{
    xsm_estimator *e = s->estimator;
    char loss[32];
    if (e->ops.kind != XSM_ESTIMATOR_SEARCHED) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' does not search; full gradients take mips, decomp-mips or no estimator",
                         e->ops.name);
    }
    if (xsm_estimator_get(e, "loss", loss, sizeof loss) != SIZE_MAX && strcmp(loss, "cross-entropy") != 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' has the loss %s; the collapsed objective is one of cross-entropy", e->ops.name,
                         loss);
    }
    if (e->common.ridge > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' has a ridge; word vectors are trained without",
                         e->ops.name);
    }
    xsm_stream_options o = XSM_STREAM_OPTIONS_INIT;
    o.batch = XSMI_SEARCH_CENTRES;
    o.labels = (uint32_t)s->label_most;
    return xsm_estimator_bind_stream(e, s->output, &o, err);
}

xsm_status xsmi_collapsed_search_new(const xsmi_word_task *task, const uint64_t *pairs, uint32_t most_contexts,
                                     xsmi_collapsed_search **out, xsm_error *err)
{
    xsm_context *ctx = task->context;
    xsmi_collapsed_search *s;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &s, xsmi_collapsed_search, "the collapsed objective", err));
    s->kernels = xsmi_context_kernels(ctx);
    s->estimator = task->estimator;
    s->input = task->input;
    s->output = task->output;
    s->pairs = pairs;
    s->dimension = task->input->features;
    s->stride = xsmi_row_stride(s->dimension);
    s->label_most = most_contexts;
    s->threads = xsmi_context_threads(ctx);
    s->parts = XSMI_MIN(s->threads, PARTS_MOST);
    xsm_status status = bind(s, err);
    if (status == XSM_OK) {
        status = xsm_gradient_new(ctx, &s->gradient, err);
    }
    if (status == XSM_OK) {
        size_t slots = 0;
        s->list_most = (size_t)XSMI_MAX(s->estimator->width, most_contexts);
        if (xsmi_multiply(s->list_most, s->threads, &slots)) {
            s->rows = xsmi_allocate(ctx, slots, sizeof *s->rows);
            s->amounts = xsmi_allocate(ctx, slots, sizeof *s->amounts);
        }
        status = s->rows && s->amounts ? XSM_OK : xsmi_fail_memory(err, slots * 8, "the collapsed objective");
    }
    if (status != XSM_OK) {
        xsmi_collapsed_search_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

void xsmi_collapsed_search_free(xsmi_collapsed_search *s)
{
    if (s) {
        xsm_context *ctx = s->context;
        if (s->estimator->model == s->output) {
            xsmi_estimator_unbind(s->estimator); /* so that it does not keep the vectors */
        }
        xsm_gradient_free(s->gradient);
        xsmi_release(ctx, s->rows, s->threads * s->list_most, sizeof *s->rows);
        xsmi_release(ctx, s->amounts, s->threads * s->list_most, sizeof *s->amounts);
        XSMI_OBJECT_FREE(s, xsmi_collapsed_search);
    }
}

void xsmi_collapsed_search_moved(xsmi_collapsed_search *s)
{
    xsmi_searcher_change_all(s->estimator->search.searcher);
}

/* -- centres ------------------------------------------------------------------------------------------------------- */

/* Centres first..first+count, all of which have contexts, as examples of the gradient. */
typedef struct group {
    xsmi_collapsed_search *s;
    const xsmi_cooccurrence *counts;
    uint32_t first, count;
    float *gradient;
    int side;
    const float *x; /* the centres' vectors, input->stride apart */
} group;

static const uint32_t *contexts_of(const group *g, uint32_t i, uint32_t *count)
{
    const xsmi_cooccurrence *n = g->counts;
    const uint32_t row = g->first + i - n->first;
    *count = (uint32_t)(n->offsets[row + 1] - n->offsets[row]);
    return n->contexts + n->offsets[row];
}

/* Computes a centre's loss and, if requested, its own gradient. */
static void add_centre(void *state, size_t index, uint32_t thread)
{
    const group *g = state;
    xsmi_collapsed_search *s = g->s;
    const xsmi_cooccurrence *n = g->counts;
    const xsm_gradient *found = s->gradient;
    const uint32_t i = (uint32_t)index, word = g->first + i;
    uint32_t labels;
    const uint32_t *contexts = contexts_of(g, i, &labels), *numbers = n->numbers + n->offsets[word - n->first];
    const float *x = g->x + i * s->input->w.stride;
    const double total = (double)s->pairs[word];
    const size_t offset = i * found->width;
    float *amounts = s->amounts + thread * s->list_most;
    double right = 0;
    s->kernels->gather_scores(s->output->w.weight, s->output->w.stride, contexts, labels, x, s->dimension, amounts,
                              NULL);
    for (uint32_t j = 0; j < labels; j++) {
        right += (1.0 / labels - numbers[j] / total) * (double)amounts[j];
    }
    s->lost[i] = total * (found->losses[i] + right);
    if (g->side == XSMI_INPUT) {
        const uint32_t *classes = found->classes + offset;
        float *gradient = g->gradient + (size_t)word * s->stride;
        memset(gradient, 0, s->dimension * sizeof *gradient);
        for (uint32_t j = 0; j < labels; j++) {
            amounts[j] = (float)(1.0 / labels - numbers[j] / total);
        }
        s->kernels->column_sums(s->output->w.weight, s->output->w.stride, contexts, amounts, labels, s->dimension,
                                gradient);
        for (uint32_t j = 0; j < found->lengths[i]; j++) { /* the library has already taken the mean */
            amounts[j] = (float)g->count * found->coefficients[offset + j];
        }
        s->kernels->column_sums(s->output->w.weight, s->output->w.stride, classes, amounts, found->lengths[i],
                                s->dimension, gradient);
    }
}

/* Whether a part adds to the gradient of a word. */
static bool adds(const xsmi_collapsed_search *s, size_t part, uint32_t word)
{
    return word % s->parts == part;
}

/* Adds the group to the gradients of the output vectors of one residue, in the order of the centres. */
static void add_part(void *state, size_t index, uint32_t thread)
{
    const group *g = state;
    xsmi_collapsed_search *s = g->s;
    const xsmi_cooccurrence *n = g->counts;
    const xsm_gradient *found = s->gradient;
    uint32_t *rows = s->rows + thread * s->list_most;
    float *amounts = s->amounts + thread * s->list_most;
    for (uint32_t i = 0; i < g->count; i++) {
        uint32_t labels;
        const uint32_t *contexts = contexts_of(g, i, &labels);
        const uint32_t *numbers = n->numbers + n->offsets[g->first + i - n->first];
        const float *x = g->x + i * s->input->w.stride;
        const double total = (double)s->pairs[g->first + i], even = total / (double)labels;
        const size_t offset = i * found->width;
        size_t m = 0;
        for (uint32_t j = 0; j < found->lengths[i]; j++) {
            if (adds(s, index, found->classes[offset + j])) {
                rows[m] = found->classes[offset + j];
                amounts[m++] = (float)(total * g->count * (double)found->coefficients[offset + j]);
            }
        }
        s->kernels->scatter_update(g->gradient, s->stride, rows, m, x, s->dimension, amounts, NULL);
        m = 0;
        for (uint32_t j = 0; j < labels; j++) {
            if (adds(s, index, contexts[j])) {
                rows[m] = contexts[j];
                amounts[m++] = (float)(even - numbers[j]);
            }
        }
        s->kernels->scatter_update(g->gradient, s->stride, rows, m, x, s->dimension, amounts, NULL);
    }
}

/* -- a group ------------------------------------------------------------------------------------------------------- */

static xsm_status search(const group *g, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_collapsed_search *s = g->s;
    const uint32_t row = g->first - g->counts->first;
    uint64_t offsets[XSMI_SEARCH_CENTRES + 1];
    xsm_batch given = xsm_batch_values(g->x, g->count, s->input->features, s->input->w.stride), batch;
    for (uint32_t i = 0; i <= g->count; i++) {
        offsets[i] = g->counts->offsets[row + i] - g->counts->offsets[row];
    }
    given.labels = g->counts->contexts + g->counts->offsets[row];
    given.label_offsets = offsets;
    XSMI_TRY(xsmi_estimator_read_batch(s->estimator, &given, &batch, err));
    const xsmi_pass pass = {
        .estimator = s->estimator, .gradient = s->gradient, .batch = &batch, .eta = 1, .lists = true};
    return xsmi_pass_search(&pass, outcome, err);
}

static xsm_status add_group(group *g, double *loss, xsm_error *err)
{
    xsmi_collapsed_search *s = g->s;
    xsmi_outcome outcome = {.finite = true};
    XSMI_TRY(search(g, &outcome, err));
    xsmi_searcher_change_none(s->estimator->search.searcher); /* no step has been taken yet */
    if (!outcome.finite) {
        *loss = (double)NAN;
        return XSM_OK;
    }
    XSMI_TRY(xsmi_run(s->context, add_centre, g, g->count, err));
    if (g->side == XSMI_OUTPUT) {
        XSMI_TRY(xsmi_run(s->context, add_part, g, s->parts, err));
    }
    for (uint32_t i = 0; i < g->count; i++) {
        *loss += s->lost[i];
    }
    return XSM_OK;
}

xsm_status xsmi_collapsed_search_add(xsmi_collapsed_search *s, const xsmi_cooccurrence *counts, int side,
                                     float *gradient, double *loss, xsm_error *err)
{
    const uint64_t *at = counts->offsets;
    const uint32_t end = counts->end;
    for (uint32_t first = counts->first, next; first < end && !isnan(*loss); first = next) {
        for (next = first; next < end && next - first < XSMI_SEARCH_CENTRES &&
                           at[next - counts->first + 1] > at[next - counts->first];
             next++) {
        }
        if (next == first) { /* a word without contexts */
            if (side == XSMI_INPUT) {
                memset(gradient + (size_t)first * s->stride, 0, s->dimension * sizeof *gradient);
            }
            next++;
            continue;
        }
        group g = {.s = s,
                   .counts = counts,
                   .first = first,
                   .count = next - first,
                   .gradient = gradient,
                   .side = side,
                   .x = s->input->w.weight + (size_t)first * s->input->w.stride};
        XSMI_TRY(add_group(&g, loss, err));
    }
    return XSM_OK;
}
