/* Draws that all examples of a minibatch share. */
#include "estimator/estimator.h"
#include "estimator/shared.h"

#include <math.h>
#include <string.h>

/* TURN: classes whose scores are transposed together, full lines of the first cache on both sides. GROUP and GATHER:
 * classes of one product and of one gathering job. GATHER_AHEAD: classes whose weights are prefetched ahead. */
enum { TURN = 16, GROUP = 128, GATHER = 64, GATHER_AHEAD = 3 };

/* Arrays that share a capacity. */
#define BY_CLASS(s)                                                                                                    \
    XSMI_ARRAYS(XSMI_ARRAY((s)->classes), XSMI_ARRAY((s)->draws), XSMI_ARRAY((s)->log_expected), XSMI_ARRAY((s)->bias))

void xsmi_shared_clear(xsm_gradient *g)
{
    xsmi_shared *s = &g->shared;
    xsmi_release_all(g->context, BY_CLASS(s), &s->class_capacity);
    xsmi_release(g->context, s->column, s->column_capacity, sizeof *s->column);
    xsmi_release(g->context, s->rows, s->row_capacity, sizeof *s->rows);
    xsmi_release(g->context, s->dense, s->dense_capacity, sizeof *s->dense);
    xsmi_release(g->context, s->scratch, s->scratch_capacity, sizeof *s->scratch);
    *s = (xsmi_shared){.count = 0};
}

void xsmi_shared_forget(xsm_gradient *g)
{
    xsmi_shared *s = &g->shared;
    for (uint32_t c = 0; c < s->count; c++) {
        s->column[s->classes[c]] = XSMI_NO_CLASS;
    }
    s->count = 0;
    s->product = false;
}

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

static bool need_classes(xsm_context *ctx, xsmi_shared *s, uint32_t draws, uint32_t classes)
{
    if (!xsmi_reserve_all(ctx, BY_CLASS(s), &s->class_capacity, draws)) {
        return false;
    }
    if (classes > s->column_capacity) { /* otherwise all entries are XSMI_NO_CLASS already */
        if (!xsmi_reserve(ctx, &s->column, &s->column_capacity, classes, sizeof *s->column)) {
            return false;
        }
        for (size_t k = 0; k < s->column_capacity; k++) {
            s->column[k] = XSMI_NO_CLASS;
        }
    }
    return true;
}

/* Floats of one thread: the packed rows, and scores or coefficients of S by lanes. */
static size_t scratch_of(const xsm_model *m, uint32_t count)
{
    return ((size_t)m->features + count) * XSMI_LANES;
}

static bool need_product(const xsm_estimator *e, xsm_gradient *g, uint64_t n, uint32_t slots)
{
    xsmi_shared *s = &g->shared;
    size_t rows, dense, scratch;
    s->stride = xsmi_row_stride(e->model->features);
    s->dense_stride = (s->count + (size_t)TURN - 1) / TURN * TURN;
    s->scratch_each = scratch_of(e->model, s->count);
    return xsmi_multiply(s->count, s->stride, &rows) && xsmi_multiply((size_t)n, s->dense_stride, &dense) &&
           xsmi_multiply(slots, s->scratch_each, &scratch) &&
           xsmi_reserve(g->context, &s->rows, &s->row_capacity, rows, sizeof *s->rows) &&
           xsmi_reserve(g->context, &s->dense, &s->dense_capacity, dense, sizeof *s->dense) &&
           xsmi_reserve(g->context, &s->scratch, &s->scratch_capacity, scratch, sizeof *s->scratch);
}

/* -- drawing ------------------------------------------------------------------------------------------------------- */

typedef struct gather_job {
    const xsm_model *model;
    xsmi_shared *shared;
} gather_job;

/* Copies the weights of some of S to consecutive memory, which all products read. */
static void gather(void *state, size_t index, uint32_t thread)
{
    const gather_job *job = state;
    const xsm_model *m = job->model;
    xsmi_shared *s = job->shared;
    (void)thread;
    for (size_t c = index * GATHER; c < (index + 1) * GATHER && c < s->count; c++) {
        const uint32_t k = s->classes[c];
        const double scale = m->row_scale ? m->alpha * m->row_scale[k] : m->alpha;
        const float *from = m->weight + (size_t)k * m->stride;
        float *to = s->rows + c * s->stride;
        if (c + GATHER_AHEAD < s->count) {
            xsmi_prefetch_row(m->weight + (size_t)s->classes[c + GATHER_AHEAD] * m->stride, m->features);
        }
        memcpy(to, from, m->features * sizeof *to);
        if (scale != 1) {
            m->kernels->scale(to, m->features, (float)scale);
        }
        s->bias[c] = m->bias ? m->bias[k] : 0;
    }
}

static bool is_product(const xsm_estimator *e, const xsm_gradient *g)
{
    const xsm_model *m = e->model;
    const bool dense = g->values ? !g->value_offsets : !e->train->sparse;
    return dense && m->layout == XSM_LAYOUT_CLASS_MAJOR && m->score == XSM_SCORE_LINEAR && !g->proximal;
}

xsm_status xsmi_shared_draw(const xsm_estimator *e, xsm_gradient *g, uint64_t n, uint32_t slots, xsm_error *err)
{
    xsmi_shared *s = &g->shared;
    if (!e->sampler || e->exact || !e->common.shared || n < 2 || e->rule.count == 0) {
        return XSM_OK;
    }
    if (!need_classes(g->context, s, e->rule.count, e->model->classes)) {
        return xsmi_fail_memory(err, e->rule.count * sizeof *s->log_expected, "the classes that a batch shares");
    }
    s->count = xsmi_sampler_list(e->sampler, &e->rule, NULL, (uint64_t)e->common.seed, e->position, NULL, 0, s->classes,
                                 s->log_expected, s->draws);
    for (uint32_t c = 0; c < s->count; c++) {
        s->column[s->classes[c]] = c;
    }
    if (!is_product(e, g)) {
        return XSM_OK;
    }
    if (!need_product(e, g, n, slots)) {
        return xsmi_fail_memory(err, (size_t)n * s->dense_stride * sizeof *s->dense, "the scores of a batch");
    }
    s->product = true;
    gather_job job = {e->model, s};
    return xsmi_run(g->context, gather, &job, (s->count + (size_t)GATHER - 1) / GATHER, err);
}

/* The first column from `from` on that is a label of the example, or |S|. The classes between two such columns are in
 * the example's list. Labels are in rising order, but their columns need not be; there are few. */
static uint32_t next_label(const xsmi_shared *s, const xsm_example *example, uint32_t from)
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
    const xsmi_shared *s = &g->shared;
    const double log_count = e->rule.label_probabilities ? log((double)e->rule.count) : 0;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        uint32_t *classes = g->classes + i * g->width, *draws = g->draws + i * g->width;
        double *log_expected = g->log_expected + i * g->width;
        uint32_t place = (uint32_t)example->label_count;
        for (uint32_t j = 0; j < place; j++) {
            const uint32_t k = example->labels[j], c = s->column[k];
            const bool drawn = c != XSMI_NO_CLASS;
            classes[j] = k;
            draws[j] = drawn && !e->rule.exclude_labels ? s->draws[c] : 0;
            log_expected[j] = drawn ? s->log_expected[c]
                              : e->rule.label_probabilities
                                  ? log_count + e->sampler->ops.log_probability(e->sampler->state, NULL, k)
                                  : 0;
        }
        for (uint32_t from = 0, end; from < s->count; from = end + 1) {
            end = next_label(s, example, from);
            memcpy(classes + place, s->classes + from, (end - from) * sizeof *classes);
            memcpy(draws + place, s->draws + from, (end - from) * sizeof *draws);
            memcpy(log_expected + place, s->log_expected + from, (end - from) * sizeof *log_expected);
            place += end - from;
        }
        g->lengths[i] = place;
    }
}

/* -- products ------------------------------------------------------------------------------------------------------ */

bool xsmi_shared_scores(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, uint32_t slot)
{
    const xsmi_shared *s = &g->shared;
    const xsm_model *m = e->model;
    float *packed = s->scratch + slot * s->scratch_each, *scores = packed + (size_t)m->features * XSMI_LANES;
    const float *x[XSMI_LANES] = {NULL};
    for (uint64_t i = 0; i < count; i++) {
        x[i] = xsmi_gradient_features(e, g, first + i).values;
    }
    m->kernels->pack(x, (size_t)count, m->features, packed);
    for (size_t c = 0; c < s->count; c += XSMI_CLASS_TILE) {
        size_t some = s->count - c < XSMI_CLASS_TILE ? s->count - c : XSMI_CLASS_TILE;
        m->kernels->score_tile(s->rows + c * s->stride, s->stride, some, packed, m->features, 1, NULL,
                               m->bias ? s->bias + c : NULL, scores + c * XSMI_LANES);
    }
    /* Transposes [S][lanes] to [examples][dense_stride], and copies the scores of classes that are not labels to the
     * lists. */
    for (size_t c = 0; c < s->count; c += TURN) {
        size_t end = c + TURN < s->count ? c + TURN : s->count;
        for (uint64_t i = 0; i < count; i++) {
            float *to = s->dense + (first + i) * s->dense_stride;
            for (size_t j = c; j < end; j++) {
                to[j] = scores[j * XSMI_LANES + i];
            }
        }
    }
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        xsmi_features features = xsmi_gradient_features(e, g, i);
        float *to = g->scores + i * g->width;
        const float *from = s->dense + i * s->dense_stride;
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
            g->linear[i * g->width + j] = to[j] - m->bias[g->classes[i * g->width + j]];
        }
    }
    return finite;
}

bool xsmi_shared_backward(const xsm_estimator *e, xsm_gradient *g, const xsmi_input_gradient *input, uint64_t first,
                          uint64_t count, uint32_t slot)
{
    const xsmi_shared *s = &g->shared;
    const xsm_model *m = e->model;
    for (uint64_t i = first; i < first + count; i++) {
        const xsm_example *example = &g->example[i];
        const float *from = g->coefficients + i * g->width;
        float *to = s->dense + i * s->dense_stride;
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
    float *turned = s->scratch + slot * s->scratch_each + (size_t)m->features * XSMI_LANES;
    for (size_t c = 0; c < s->count; c += TURN) {
        size_t end = c + TURN < s->count ? c + TURN : s->count;
        for (uint64_t i = 0; i < count; i++) {
            const float *from = s->dense + (first + i) * s->dense_stride;
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
            rows[j] = s->rows + (c + j) * s->stride;
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
