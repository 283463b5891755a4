/* Draws that all examples of a minibatch share. */
#include "estimator/shared.h"

#include <math.h>
#include <string.h>

/* TURN: classes whose scores are transposed together, full lines of the first cache on both sides. GROUP and GATHER:
 * classes of one product and of one gathering job. GATHER_AHEAD: classes whose weights are prefetched ahead. */
enum { TURN = 16, GROUP = 128, GATHER = 64, GATHER_AHEAD = 3 };

xsm_status xsmi_shared_check(const xsm_estimator *e, xsm_error *err)
{
    if (e->common.shared && e->sampler->code_length > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s': sampler '%s' draws by the features of a row, so that rows cannot share their "
                         "draws; 'uniform' and 'frequency' go with shared",
                         e->ops.name, e->sampler->ops.name);
    }
    return XSM_OK;
}

/* -- scratch ------------------------------------------------------------------------------------------------------- */

/* Floats of one thread: the packed rows, and scores or coefficients of S by lanes. */
static size_t scratch_of(const xsm_model *m, uint32_t count)
{
    return ((size_t)m->features + count) * XSMI_LANES;
}

static xsm_status need_product(const xsm_estimator *e, xsm_gradient *g, uint64_t n, uint32_t threads, xsm_error *err)
{
    xsmi_shared_draws *d = &g->work.shared;
    size_t rows, matrix, scratch;
    d->stride = xsmi_row_stride(e->model->features);
    g->shared.stride = (g->shared.count + (size_t)TURN - 1) / TURN * TURN;
    d->scratch_each = scratch_of(e->model, g->shared.count);
    const bool fits =
        xsmi_multiply(g->shared.count, d->stride, &rows) && xsmi_multiply((size_t)n, g->shared.stride, &matrix) &&
        xsmi_multiply(threads, d->scratch_each, &scratch) &&
        xsmi_reserve(g->context, &d->rows, &d->row_capacity, rows, sizeof *d->rows) &&
        xsmi_reserve(g->context, &g->shared.matrix, &d->matrix_capacity, matrix, sizeof *g->shared.matrix) &&
        xsmi_reserve(g->context, &d->scratch, &d->scratch_capacity, scratch, sizeof *d->scratch);
    return fits ? XSM_OK : xsmi_fail_memory(err, (size_t)n * g->shared.stride * sizeof(float), "the scores of a batch");
}

/* -- drawing ------------------------------------------------------------------------------------------------------- */

typedef struct gather_job {
    const xsm_model *model;
    xsm_gradient *gradient;
} gather_job;

/* Copies the weights of some of S to consecutive memory, which all products read. */
static void gather(void *state, size_t index, uint32_t thread)
{
    const gather_job *job = state;
    const xsm_model *m = job->model;
    const xsmi_shared_classes *s = &job->gradient->shared;
    xsmi_shared_draws *d = &job->gradient->work.shared;
    (void)thread;
    for (size_t c = index * GATHER; c < (index + 1) * GATHER && c < s->count; c++) {
        const uint32_t k = s->classes[c];
        const double scale = m->row_scale ? m->alpha * m->row_scale[k] : m->alpha;
        const float *from = m->weight + (size_t)k * m->stride;
        float *to = d->rows + c * d->stride;
        if (c + GATHER_AHEAD < s->count) {
            xsmi_prefetch_row(m->weight + (size_t)s->classes[c + GATHER_AHEAD] * m->stride, m->features);
        }
        memcpy(to, from, m->features * sizeof *to);
        if (scale != 1) {
            m->kernels->scale(to, m->features, (float)scale);
        }
        d->bias[c] = m->bias ? m->bias[k] : 0;
    }
}

static bool is_product(const xsm_estimator *e, const xsm_gradient *g)
{
    const xsm_model *m = e->model;
    const bool dense = g->work.rows.values ? !g->work.rows.offsets : !e->train->sparse;
    return dense && m->layout == XSM_LAYOUT_CLASS_MAJOR && m->score == XSM_SCORE_LINEAR && !g->proximal;
}

xsm_status xsmi_shared_draw(const xsm_estimator *e, xsm_gradient *g, uint64_t n, uint32_t threads, xsm_error *err)
{
    xsmi_shared_classes *s = &g->shared;
    xsmi_shared_draws *d = &g->work.shared;
    if (!e->sampler || e->exact || !e->common.shared || n < 2 || e->rule.count == 0) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_gradient_reserve_shared(g, e->rule.count, err));
    const xsmi_draw_list list = {NULL, e->position, NULL, 0, s->classes, d->log_expected, d->draws, &s->count};
    xsmi_sampler_lists(e->sampler, &e->rule, (uint64_t)e->common.seed, &list, 1);
    for (uint32_t c = 0; c < s->count; c++) {
        s->column[s->classes[c]] = c;
    }
    if (!is_product(e, g)) {
        return XSM_OK;
    }
    XSMI_TRY(need_product(e, g, n, threads, err));
    g->form = XSMI_GRADIENT_SHARED;
    gather_job job = {e->model, g};
    return xsmi_run(g->context, gather, &job, (s->count + (size_t)GATHER - 1) / GATHER, err);
}

/* The first column from `from` on that is a label of the example, or |S|. The classes between two such columns are in
 * the example's list. Labels are in rising order, but their columns need not be; there are few. */
static uint32_t next_label(const xsmi_shared_classes *s, const xsm_example *example, uint32_t from)
{
    uint32_t next = s->count;
    for (uint64_t j = 0; j < example->label_count; j++) {
        uint32_t c = s->column[example->labels[j]];
        next = c != XSMI_NO_CLASS && c >= from && c < next ? c : next;
    }
    return next;
}

void xsmi_shared_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count)
{
    const xsmi_shared_classes *s = &g->shared;
    const xsmi_shared_draws *d = &g->work.shared;
    const double log_count = e->rule.label_probabilities ? log((double)e->rule.count) : 0;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        uint32_t *classes = g->classes + i * g->width, *draws = g->work.draws + i * g->width;
        double *log_expected = g->work.log_expected + i * g->width;
        uint32_t place = (uint32_t)example->label_count;
        for (uint32_t j = 0; j < place; j++) {
            const uint32_t k = example->labels[j], c = s->column[k];
            const bool drawn = c != XSMI_NO_CLASS;
            classes[j] = k;
            draws[j] = drawn && !e->rule.exclude_labels ? d->draws[c] : 0;
            log_expected[j] = drawn ? d->log_expected[c]
                              : e->rule.label_probabilities
                                  ? log_count + e->sampler->ops.log_probability(e->sampler->state, NULL, k)
                                  : 0;
        }
        for (uint32_t from = 0, end; from < s->count; from = end + 1) {
            end = next_label(s, example, from);
            memcpy(classes + place, s->classes + from, (end - from) * sizeof *classes);
            memcpy(draws + place, d->draws + from, (end - from) * sizeof *draws);
            memcpy(log_expected + place, d->log_expected + from, (end - from) * sizeof *log_expected);
            place += end - from;
        }
        g->lengths[i] = place;
    }
}

/* -- products ------------------------------------------------------------------------------------------------------ */

bool xsmi_shared_scores(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, uint32_t thread)
{
    const xsmi_shared_classes *s = &g->shared;
    const xsmi_shared_draws *d = &g->work.shared;
    const xsm_model *m = e->model;
    float *packed = d->scratch + thread * d->scratch_each, *scores = packed + (size_t)m->features * XSMI_LANES;
    const float *x[XSMI_LANES] = {NULL};
    for (uint64_t i = 0; i < count; i++) {
        x[i] = xsmi_gradient_features(e, g, first + i).values;
    }
    m->kernels->pack(x, (size_t)count, m->features, packed);
    for (size_t c = 0; c < s->count; c += XSMI_CLASS_TILE) {
        size_t some = s->count - c < XSMI_CLASS_TILE ? s->count - c : XSMI_CLASS_TILE;
        m->kernels->score_tile(d->rows + c * d->stride, d->stride, some, packed, m->features, 1, NULL,
                               m->bias ? d->bias + c : NULL, scores + c * XSMI_LANES);
    }
    /* Transposes [S][lanes] to [examples][dense_stride], and copies the scores of classes that are not labels to the
     * lists. */
    for (size_t c = 0; c < s->count; c += TURN) {
        size_t end = c + TURN < s->count ? c + TURN : s->count;
        for (uint64_t i = 0; i < count; i++) {
            float *to = s->matrix + (first + i) * s->stride;
            for (size_t j = c; j < end; j++) {
                to[j] = scores[j * XSMI_LANES + i];
            }
        }
    }
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        xsmi_features features = xsmi_gradient_features(e, g, i);
        float *to = g->work.scores + i * g->width;
        const float *from = s->matrix + i * s->stride;
        size_t place = (size_t)example->label_count;
        xsmi_model_score_classes(m, &features, g->classes + i * g->width, place, m->alpha, to, NULL);
        for (uint32_t at = 0, end; at < s->count; at = end + 1) {
            end = next_label(s, example, at);
            memcpy(to + place, from + at, (end - at) * sizeof *to);
            place += end - at;
        }
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            finite &= fabsf(to[j]) < (float)XSMI_STEP_LIMIT; /* false for NaN too */
        }
        for (uint32_t j = 0; m->bias && j < g->lengths[i]; j++) {
            g->work.linear[i * g->width + j] = to[j] - m->bias[g->classes[i * g->width + j]];
        }
    }
    return finite;
}

bool xsmi_shared_backward(const xsmi_pass *p, uint64_t first, uint64_t count, uint32_t thread)
{
    const xsm_model *m = p->estimator->model;
    const xsmi_input_gradient *input = p->input;
    xsm_gradient *g = p->gradient;
    const xsmi_shared_classes *s = &g->shared;
    const xsmi_shared_draws *d = &g->work.shared;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        const float *from = g->coefficients + i * g->width;
        float *to = s->matrix + i * s->stride;
        size_t place = (size_t)example->label_count;
        for (uint32_t at = 0, end; at < s->count; at = end + 1) {
            end = next_label(s, example, at);
            memcpy(to + at, from + place, (end - at) * sizeof *to);
            place += end - at;
        }
        for (uint64_t j = 0; j < example->label_count; j++) {
            uint32_t c = s->column[example->labels[j]];
            if (c != XSMI_NO_CLASS) {
                to[c] = from[j];
            }
        }
    }
    if (!input) {
        return true;
    }
    float *turned = d->scratch + thread * d->scratch_each + (size_t)m->features * XSMI_LANES;
    for (size_t c = 0; c < s->count; c += TURN) {
        size_t end = c + TURN < s->count ? c + TURN : s->count;
        for (uint64_t i = 0; i < count; i++) {
            const float *from = s->matrix + (first + i) * s->stride;
            for (size_t j = c; j < end; j++) {
                turned[j * XSMI_LANES + i] = from[j];
            }
        }
    }
    /* In this product examples and classes are swapped. */
    float *out = input->values + first * input->stride;
    for (uint64_t i = 0; i < count; i++) {
        memset(out + i * input->stride, 0, m->features * sizeof *out);
    }
    for (size_t c = 0; c < s->count; c += GROUP) {
        const float *rows[GROUP];
        size_t some = s->count - c < GROUP ? s->count - c : GROUP;
        for (size_t j = 0; j < some; j++) {
            rows[j] = d->rows + (c + j) * d->stride;
        }
        m->kernels->rank_update(out, input->stride, (size_t)count, turned + c * XSMI_LANES, XSMI_LANES, rows, some,
                                m->features, 1);
    }
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        float *row = input->values + i * input->stride;
        for (uint64_t j = 0; j < example->label_count; j++) {
            if (s->column[example->labels[j]] == XSMI_NO_CLASS) {
                xsmi_model_backward(m, &example->labels[j], 0, g->coefficients + i * g->width + j, 1, row);
            }
        }
        for (size_t j = 0; j < m->features; j++) {
            finite &= fabsf(row[j]) < INFINITY; /* false for NaN too */
        }
    }
    return finite;
}
