/* Draws that all examples of a minibatch share. */
#include "estimator/shared.h"

#include "base/arena.h"
#include "base/order.h"
#include "estimator/gathered.h"

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

/* Writes an example's labels as the head of a list. */
static void put_labels(const xsm_estimator *e, const xsm_gradient *g, const xsm_example *example, uint32_t *classes,
                       uint32_t *draws, double *log_expected)
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
        put_labels(e, g, example, classes, draws, log_expected);
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

/* -- products of matrices ------------------------------------------------------------------------------------------ */

/*
 * Draws that a batch shares, for dense rows: scores (logits) and gradients as products of matrices.
 *
 * The scores and the coefficients of an example are rows of two matrices, whose columns are S. Before its first column
 * a row has slots for the labels, so that labels and S lie together, as a table of an estimator expects them; what else
 * a table reads of S is the same for all examples. Only an example with a label in S needs a list of its own.
 */

enum {
    LABELS_AHEAD = 4,    /* examples whose labels' weights are prefetched ahead */
    LABELS_TOGETHER = 16 /* labels of an example whose first lines are prefetched: more would not stay in the L1
                            cache */
};

/* -- memory -------------------------------------------------------------------------------------------------------- */

/* What a table reads of labels and S, with the labels before `front`. */
typedef struct frame {
    uint32_t *classes, *draws;
    double *log_expected;
    float *linear;
    float *packed; /* [features][XSMI_LANES] the weights of some of S */
    float *scaled; /* [XSMI_LANES][features] the same with the scales multiplied in, for models with scales */
} frame;

static bool is_scaled(const xsmi_weights *w)
{
    return w->row_scale || w->alpha != 1;
}

static frame divide_frame(const xsm_gradient *g, const xsmi_weights *w, xsmi_arena *arena)
{
    const uint64_t columns = (uint64_t)g->work.shared.front + g->shared.count;
    frame f;
    f.classes = xsmi_arena_take(arena, columns, sizeof *f.classes);
    f.draws = xsmi_arena_take(arena, columns, sizeof *f.draws);
    f.log_expected = xsmi_arena_take(arena, columns, sizeof *f.log_expected);
    f.linear = xsmi_arena_take(arena, columns, sizeof *f.linear);
    f.packed = xsmi_arena_take(arena, w->features, XSMI_LANES * sizeof *f.packed);
    f.scaled = xsmi_arena_take(arena, w->features, XSMI_LANES * sizeof *f.scaled);
    return f;
}

static frame frame_of(const xsmi_pass *p, uint32_t thread)
{
    const xsmi_shared_draws *d = &p->gradient->work.shared;
    xsmi_arena arena = {d->scratch + thread * d->scratch_each, 0};
    return divide_frame(p->gradient, d->scored, &arena);
}

/* Returns the floats from a piece of the weights of S to the next. */
static size_t pitch_of(const xsmi_shared_classes *s)
{
    return (size_t)s->count * XSMI_LANES;
}

/* Divides the memory for a batch, or only counts it if `memory` is NULL. Returns the bytes. */
static size_t divide(const xsmi_pass *p, unsigned char *memory)
{
    xsmi_shared_classes *s = &p->gradient->shared;
    xsmi_shared_draws *d = &p->gradient->work.shared;
    const xsmi_weights *w = d->scored;
    const uint64_t n = p->batch->count, blocks = (n + XSMI_LANES - 1) / XSMI_LANES;
    const uint64_t pieces = ((uint64_t)w->features + XSMI_LANES - 1) / XSMI_LANES;
    const size_t row = s->stride * sizeof *s->matrix;
    xsmi_arena each = {NULL, 0}, all = {memory, 0};
    (void)divide_frame(p->gradient, w, &each);
    d->scratch_each = each.used;
    d->weights = xsmi_arena_take(&all, p->input ? pieces : 0, pitch_of(s) * sizeof *d->weights);
    d->packed = xsmi_arena_take(&all, blocks, w->features * XSMI_LANES * sizeof *d->packed);
    d->scores = xsmi_arena_take(&all, n, row);
    s->matrix = xsmi_arena_take(&all, n, row);
    d->scratch = xsmi_arena_take(&all, xsmi_context_threads(p->gradient->context), each.used);
    return each.used == SIZE_MAX ? SIZE_MAX : all.used;
}

xsm_status xsmi_shared_reserve_product(const xsmi_pass *p, xsm_error *err)
{
    xsm_gradient *g = p->gradient;
    xsmi_shared_draws *d = &g->work.shared;
    d->scored = g->work.gathered.used ? &g->work.gathered.rows : xsmi_model_mine(p->estimator->model).w;
    d->front = xsmi_shared_front(p->estimator);
    g->shared.stride = xsmi_row_stride(d->front + g->shared.count);
    const size_t bytes = divide(p, NULL);
    if (bytes == SIZE_MAX || !xsmi_reserve(g->context, &d->memory, &d->memory_capacity, bytes, 1)) {
        return xsmi_fail_memory(err, bytes, "the scores of a batch");
    }
    (void)divide(p, d->memory);
    d->scores += d->front;
    g->shared.matrix += d->front;
    g->shared.listed = p->lists;
    return XSM_OK;
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

/* Fills some examples and packs their rows. */
static void pack_examples(void *state, const xsmi_range *r)
{
    const xsmi_pass *p = state;
    const xsm_model *m = p->estimator->model;
    const uint64_t first = p->first + r->first, count = r->end - r->first;
    const float *x[XSMI_LANES] = {NULL};
    xsmi_pass_list_examples(p, first, count);
    for (uint64_t i = 0; i < count; i++) {
        x[i] = xsmi_gradient_features(p->estimator, p->gradient, first + i).values;
    }
    m->kernels->pack(x, (size_t)count, m->features, p->gradient->work.shared.packed + first * m->features);
}

static size_t lines_of(const xsmi_weights *w)
{
    return (w->features + (size_t)XSMI_LINE - 1) / XSMI_LINE;
}

/* Returns the numbers of the classes S in the model that they are scored with. */
static const uint32_t *classes_of(const xsmi_pass *p)
{
    const xsmi_gathered *w = &p->gradient->work.gathered;
    return w->used ? w->shared : p->gradient->shared.classes;
}

/* Returns where the model has the weights of a block of S. */
static xsmi_prefetch_queue weights_of(const xsmi_pass *p, size_t block, const float **rows)
{
    const xsmi_shared_draws *d = &p->gradient->work.shared;
    const xsmi_weights *w = d->scored;
    const size_t all = p->gradient->shared.count, first = XSMI_MIN(block * XSMI_LANES, all);
    const size_t count = XSMI_MIN(all - first, XSMI_LANES);
    for (size_t c = 0; c < count; c++) {
        rows[c] = w->weight + (size_t)classes_of(p)[first + c] * w->stride;
    }
    return (xsmi_prefetch_queue){rows, count, lines_of(w), 0, 0};
}

/* Packs the weights of a block of S: for the scores, and for the gradient of the rows. */
static void pack_classes(const xsmi_pass *p, size_t block, const frame *f)
{
    const xsmi_shared_classes *s = &p->gradient->shared;
    const xsmi_shared_draws *d = &p->gradient->work.shared;
    const xsmi_weights *w = d->scored;
    const float *rows[XSMI_LANES];
    xsmi_prefetch_queue weights = weights_of(p, block, rows);
    xsmi_prefetch_queued(&weights, SIZE_MAX);
    for (size_t j = 0; j < weights.count; j++) {
        const uint32_t k = classes_of(p)[block * XSMI_LANES + j];
        d->bias[block * XSMI_LANES + j] = w->bias ? w->bias[k] : 0;
        if (is_scaled(w)) {
            float *to = f->scaled + j * w->features;
            memcpy(to, rows[j], w->features * sizeof *to);
            w->kernels->scale(to, w->features, (float)(w->row_scale ? w->alpha * w->row_scale[k] : w->alpha));
            rows[j] = to;
        }
    }
    w->kernels->pack(rows, weights.count, w->features, f->packed);
    if (p->input) {
        w->kernels->pack_rows(rows, weights.count, w->features, d->weights + block * XSMI_LANES * XSMI_LANES,
                              pitch_of(s));
    }
}

/* Scores a block of the classes S for all examples: examples are the rows of this product, and it sums over features.
 * Meanwhile it prefetches the weights of the thread's next block. */
static void score_classes(void *state, const xsmi_range *r)
{
    const xsmi_pass *p = state;
    const xsmi_shared_classes *s = &p->gradient->shared;
    const xsmi_shared_draws *d = &p->gradient->work.shared;
    const xsmi_weights *w = d->scored;
    const size_t c = r->first, some = r->end - c;
    const float *next[XSMI_LANES];
    const frame f = frame_of(p, r->thread);
    xsmi_prefetch_queue queue = weights_of(p, r->index + xsmi_context_threads(p->gradient->context), next);
    float *scores = d->scores + c;
    xsmi_prefetch_firsts(&queue);
    pack_classes(p, r->index, &f);
    for (uint64_t i = p->first; i < p->end; i += XSMI_LANES) {
        w->kernels->rank_packed(false, scores + i * s->stride, s->stride, (size_t)XSMI_MIN(p->end - i, XSMI_LANES),
                                d->packed + i * w->features, 1, XSMI_LANES, f.packed, 0, w->features, some, &queue);
    }
    for (uint64_t i = p->first; w->bias && i < p->end; i++) {
        w->kernels->axpby(scores + i * s->stride, d->bias + c, some, 1, 1);
    }
}

xsm_status xsmi_shared_score(const xsmi_pass *p, xsm_error *err)
{
    xsm_context *ctx = p->gradient->context;
    const bool gathered = p->gradient->work.gathered.used; /* other processes no longer wait for this one */
    xsmi_pass *pass = (xsmi_pass *)(uintptr_t)p;
    XSMI_TRY(xsmi_shared_reserve_product(p, err));
    XSMI_TRY(xsmi_run_together(ctx, gathered, pack_examples, pass, p->end - p->first, XSMI_LANES, err));
    return xsmi_run_together(ctx, gathered, score_classes, pass, p->gradient->shared.count, XSMI_LANES, err);
}

/* -- coefficients -------------------------------------------------------------------------------------------------- */

/* Returns the numbers of an example's labels in the model that they are scored with. */
static const uint32_t *labels_of(const xsmi_pass *p, uint64_t i)
{
    const xsm_gradient *g = p->gradient;
    return g->work.gathered.used ? g->work.gathered.slots + i * g->width : g->example[i].labels;
}

/* Scores the labels of one example, then calls the table; the block has its lists and its scores of S. */
static void compute_example(const xsmi_pass *p, const xsm_score_block *b, float *scores, float *linear,
                            xsmi_outcome *outcome)
{
    const xsm_estimator *e = p->estimator;
    const xsm_model *m = e->model;
    const uint64_t i = (uint64_t)(b->examples - p->gradient->example), labels = b->examples->label_count;
    const xsmi_shared_draws *d = &p->gradient->work.shared;
    const xsmi_weights *scored = d->scored;
    const xsmi_features x = xsmi_gradient_features(e, p->gradient, i);
    const uint32_t *numbers = labels_of(p, i);
    xsmi_weights_score(scored, &x, numbers, (size_t)labels, scored->alpha, scores, NULL);
    for (uint32_t j = 0; scored->bias && j < b->lengths[0]; j++) {
        linear[j] =
            scores[j] - (j < labels ? scored->bias[numbers[j]] : d->bias[p->gradient->shared.column[b->classes[j]]]);
    }
    /* False for NaN, too. */
    outcome->finite &= m->kernels->row_scaled_max(scores, b->lengths[0], 1, 0) < (float)XSMI_STEP_LIMIT;
    if (outcome->finite) {
        e->ops.gradient(e->state, b);
        (void)xsmi_estimator_finish_block(m->kernels, b, outcome);
    }
}

/* Computes an example with its own lists. */
static void compute_listed(const xsmi_pass *p, const xsmi_piece *one, xsmi_outcome *outcome)
{
    xsm_gradient *g = p->gradient;
    const xsmi_shared_classes *s = &g->shared;
    const xsm_score_block b = xsmi_estimator_block(p->estimator, g, one);
    const xsm_example *example = b.examples;
    const uint64_t start = one->first * g->width;
    const float *from = g->work.shared.scores + one->first * s->stride;
    float *scores = g->work.scores + start, *to = s->matrix + one->first * s->stride;
    xsmi_shared_select(p->estimator, g, one->first, 1);
    size_t position = (size_t)example->label_count;
    for (uint32_t at = 0, end; at < s->count; at = end + 1) {
        end = xsmi_shared_next_label(s, example, at);
        memcpy(scores + position, from + at, (end - at) * sizeof *scores);
        position += end - at;
    }
    compute_example(p, &b, scores, g->work.linear ? g->work.linear + start : NULL, outcome);
    position = (size_t)example->label_count;
    for (uint32_t at = 0, end; at < s->count; at = end + 1) {
        end = xsmi_shared_next_label(s, example, at);
        memcpy(to + at, b.coefficients + position, (end - at) * sizeof *to);
        position += end - at;
    }
    for (uint64_t j = 0; j < example->label_count; j++) {
        const uint32_t c = s->column[example->labels[j]];
        if (c != XSMI_NO_CLASS) {
            to[c] = b.coefficients[j];
        }
    }
}

/* Computes an example without labels in S. */
static void compute_unlisted(const xsmi_pass *p, const xsmi_piece *one, const frame *f, xsmi_outcome *outcome)
{
    xsm_gradient *g = p->gradient;
    const xsmi_shared_classes *s = &g->shared;
    const uint64_t labels = g->example[one->first].label_count, start = one->first * g->width;
    const size_t at = g->work.shared.front - (size_t)labels;
    float *scores = g->work.shared.scores + one->first * s->stride - labels;
    xsm_score_block b = xsmi_estimator_block(p->estimator, g, one);
    put_labels(p->estimator, g, b.examples, f->classes + at, f->draws + at, f->log_expected + at);
    g->lengths[one->first] = (uint32_t)labels + s->count;
    b.classes = f->classes + at;
    b.draws = f->draws + at;
    b.log_expected = f->log_expected + at;
    b.scores = scores;
    b.linear = xsmi_model_has_bias(p->estimator->model) ? f->linear + at : scores;
    b.coefficients = s->matrix + one->first * s->stride - labels;
    compute_example(p, &b, scores, f->linear + at, outcome);
    memcpy(g->classes + start, b.classes, (size_t)labels * sizeof *g->classes);
    memcpy(g->coefficients + start, b.coefficients, (size_t)labels * sizeof *g->coefficients);
}

/* Prefetches what scoring an example's labels reads. Unless `whole`, only the first lines of rows of weights (see
 * xsmi_prefetch_firsts()), and of at most LABELS_TOGETHER labels. */
XSMI_PREFETCHER void prefetch_labels(const xsmi_pass *p, uint64_t i, const bool whole)
{
    const xsm_model *m = p->estimator->model;
    const xsm_example *example = &p->gradient->example[i];
    for (uint64_t j = 0; j < example->label_count && (whole || j < LABELS_TOGETHER); j++) {
        const uint32_t k = example->labels[j];
        __builtin_prefetch(p->gradient->shared.column + k, 0, 3);
        if (m->w.weight && whole) {
            xsmi_prefetch_row(m->w.weight + (size_t)k * m->w.stride, m->features);
        } else if (m->w.weight) {
            xsmi_prefetch_line(m->w.weight + (size_t)k * m->w.stride);
        }
        if (m->w.weight && m->w.bias) {
            __builtin_prefetch(m->w.bias + k, 0, 3);
        }
    }
}

static bool has_drawn_label(const xsmi_shared_classes *s, const xsm_example *example)
{
    return xsmi_shared_next_label(s, example, 0) < s->count;
}

void xsmi_shared_coefficients(const xsmi_pass *p, const xsmi_piece *piece, xsmi_outcome *outcome)
{
    const xsm_gradient *g = p->gradient;
    const xsmi_shared_classes *s = &g->shared;
    const xsmi_shared_draws *d = &g->work.shared;
    const uint64_t end = piece->first + piece->count;
    const frame f = frame_of(p, piece->thread);
    memcpy(f.classes + d->front, s->classes, s->count * sizeof *s->classes);
    memcpy(f.draws + d->front, d->draws, s->count * sizeof *d->draws);
    memcpy(f.log_expected + d->front, d->log_expected, s->count * sizeof *d->log_expected);
    for (uint64_t i = piece->first; i < end; i++) {
        prefetch_labels(p, i, false);
    }
    for (uint64_t i = piece->first; i < end; i++) {
        const xsmi_piece one = {i, 1, piece->batch, piece->eta, piece->thread};
        if (i + LABELS_AHEAD < end) {
            prefetch_labels(p, i + LABELS_AHEAD, true);
        }
        if (s->listed || has_drawn_label(s, &g->example[i])) {
            compute_listed(p, &one, outcome);
        } else {
            compute_unlisted(p, &one, &f, outcome);
        }
    }
}

/* -- the gradient of the rows -------------------------------------------------------------------------------------- */

/* Adds what labels outside S contribute; returns whether all is finite. */
static bool add_labels(const xsmi_pass *p, uint64_t i)
{
    const xsm_gradient *g = p->gradient;
    const xsmi_weights *w = g->work.shared.scored;
    const xsm_example *example = &g->example[i];
    float *row = p->input->values + i * p->input->stride;
    for (uint64_t j = 0; j < example->label_count; j++) {
        if (g->shared.column[example->labels[j]] == XSMI_NO_CLASS) {
            xsmi_weights_backward(w, labels_of(p, i) + j, 0, g->coefficients + i * g->width + j, 1, row);
        }
    }
    return w->kernels->row_scaled_max(row, w->features, 1, 0) < INFINITY; /* false for NaN, too */
}

bool xsmi_shared_backward(const xsmi_pass *p, const xsmi_piece *piece)
{
    const xsm_model *m = p->estimator->model;
    const xsmi_input_gradient *input = p->input;
    const xsmi_shared_classes *s = &p->gradient->shared;
    const size_t count = (size_t)piece->count;
    if (!input) {
        return true;
    }
    float *out = input->values + piece->first * input->stride;
    m->kernels->rank_packed(false, out, input->stride, count, s->matrix + piece->first * s->stride, s->stride, 1,
                            p->gradient->work.shared.weights, pitch_of(s), s->count, m->features, NULL);
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        finite &= add_labels(p, piece->first + i);
    }
    return finite;
}
