/*
 * The correction of scores learnt with a sampler, log q(k|x), which becomes part of the model: a number per class, a
 * tree, or a copy of the sampler for other samplers that depend on the row, restored from the arrays that save()
 * writes. A file cannot contain a table of functions, so a model with such a copy cannot be saved.
 */
#include "base/arena.h"
#include "sampler/arrays.h"
#include "sampler/sampler.h"

#include <math.h>
#include <string.h>

_Static_assert(XSM_SAMPLER_ROWS == XSMI_LANES, "the rows of a sweep are those of a block");

typedef struct of_sampler {
    xsmi_head base;
    xsm_sampler *sampler;
} of_sampler;

/* The scratch of a block of rows. */
typedef struct block {
    float *codes; /* [XSMI_LANES][code length] */
    float *log_q; /* [classes][XSMI_LANES] */
    float *one;   /* [classes] of one row, for tables without log_probabilities_rows() */
    void *sweep;  /* scratch of a sweep */
} block;

static block divide(const xsm_sampler *s, xsmi_arena *arena)
{
    const bool sweeps = s->ops.log_probabilities_rows != NULL;
    block b;
    b.codes = xsmi_arena_take(arena, (size_t)s->code_length * XSMI_LANES, sizeof *b.codes);
    b.log_q = xsmi_arena_take(arena, (size_t)s->classes * XSMI_LANES, sizeof *b.log_q);
    b.one = xsmi_arena_take(arena, sweeps ? 0 : s->classes, sizeof *b.one);
    b.sweep = xsmi_arena_take(arena, sweeps && s->ops.rows_scratch ? s->ops.rows_scratch(s->state) : 0, 1);
    return b;
}

static const xsm_sampler *sampler_of(const xsmi_head *c)
{
    return ((const of_sampler *)c)->sampler;
}

static void clear(xsmi_head *c)
{
    xsm_sampler_free(((of_sampler *)c)->sampler);
}

static void add_chosen(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                       float *scratch)
{
    const xsm_sampler *s = sampler_of(c);
    xsmi_sampler_encode(s, x, scratch);
    for (size_t j = 0; j < count; j++) {
        scores[j] = (float)((double)scores[j] + s->ops.log_probability(s->state, scratch, classes[j]));
    }
}

static void prepare(const xsmi_head *c, const xsmi_kernels *kernels, const xsmi_features *rows, size_t count,
                    void *prepared)
{
    const xsm_sampler *s = sampler_of(c);
    xsmi_arena arena = {prepared, 0};
    const block b = divide(s, &arena);
    const float *codes[XSMI_LANES] = {NULL};
    (void)kernels;
    for (size_t l = 0; l < count; l++) {
        float *code = b.codes + l * s->code_length;
        xsmi_sampler_encode(s, &rows[l], code);
        codes[l] = code;
    }
    if (s->ops.log_probabilities_rows) {
        s->ops.log_probabilities_rows(s->state, codes, (uint32_t)count, b.log_q, b.sweep);
        return;
    }
    for (size_t l = 0; l < count; l++) {
        xsmi_sampler_log_range(s, codes[l], 0, s->classes, b.one);
        for (size_t k = 0; k < s->classes; k++) {
            b.log_q[k * XSMI_LANES + l] = b.one[k];
        }
    }
}

/* Scores in lanes without a row have no meaning. */
static void add_tile(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                     const void *prepared, float *scores)
{
    xsmi_arena arena = {(unsigned char *)(uintptr_t)prepared, 0};
    const float *log_q = divide(sampler_of(c), &arena).log_q + (size_t)tile->first * XSMI_LANES;
    (void)rows;
    for (size_t k = 0; k < tile->count; k++) {
        for (size_t l = 0; tile->lanes && l < count; l++) {
            scores[k * XSMI_LANES + l] += log_q[k * XSMI_LANES + l];
        }
        if (!tile->lanes) {
            scores[k] += log_q[k * XSMI_LANES + tile->row];
        }
    }
}

static const xsmi_head_kind sampler_correction = {
    .number = XSM_CORRECTION_SAMPLER,
    .name = "sampler",
    .described = "a sampler that depends on the row",
    .size = sizeof(of_sampler),
    .drawn = true,
    .clear = clear,
    .chosen = add_chosen,
    .prepare = prepare,
    .tile = add_tile,
};

static xsm_status correct_by_sampler(const xsm_sampler *s, xsmi_head **out, xsm_error *err)
{
    xsmi_head *c = NULL;
    XSMI_TRY(xsmi_head_new(s->context, &sampler_correction, s->classes, &c, err));
    xsm_sampler **own = &((of_sampler *)c)->sampler;
    xsm_status status = xsmi_sampler_copy(s, own, err);
    if (status != XSM_OK) {
        xsmi_head_release(c);
        return status;
    }
    xsmi_arena arena = {NULL, 0};
    (void)divide(*own, &arena);
    c->code = (*own)->code_length;
    c->block = arena.used;
    *out = c;
    return XSM_OK;
}

static xsm_status correct_by_tree(const xsm_sampler *s, xsmi_head **out, xsm_error *err)
{
    xsmi_tree tree;
    memset(&tree, 0, sizeof tree);
    xsm_status status = xsmi_sampler_tree(s, &tree, err);
    if (status == XSM_OK) {
        status = xsmi_correction_of_tree(s->context, &tree, out, err);
    }
    xsmi_tree_clear(&tree);
    return status;
}

xsm_status xsmi_sampler_need_every(const xsm_sampler *s, const uint64_t *counts, xsm_error *err)
{
    for (uint32_t k = 0; s->code_length == 0 && k < s->classes; k++) {
        const double log_q = s->ops.log_probability(s->state, NULL, k);
        if ((counts && counts[k] == 0) || ((float)log_q > -INFINITY && log_q < INFINITY)) {
            continue;
        }
        if (counts) {
            return xsmi_fail(
                err, XSM_ERROR_RANGE,
                "sampler '%s' never draws class %u (log q = %g), the label of %llu rows, whose score would "
                "only rise; a sampler is accepted that draws every label: 'frequency' bound to these "
                "rows, or with a smoothing above 0",
                s->ops.name, k, log_q, (unsigned long long)counts[k]);
        }
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "sampler '%s' never draws class %u, whose scores would mean nothing; a smoothing above 0 "
                         "is needed",
                         s->ops.name, k);
    }
    return XSM_OK;
}

xsm_status xsmi_sampler_correction(const xsm_sampler *s, xsmi_head **out, xsm_error *err)
{
    *out = NULL;
    if (s->ops.follow) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "sampler '%s' follows the training, so that scores which are corrected at its end would have "
                         "been learnt with many distributions; nce, sampled-softmax, importance and others take it, "
                         "which correct for it as they learn",
                         s->ops.name);
    }
    if (s->ops.flags & XSM_SAMPLER_TREE) {
        return correct_by_tree(s, out, err);
    }
    if (s->code_length > 0 && !s->ops.save) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "sampler '%s' depends on the row, and its table has no save() and load(), by which the model "
                         "would get log q of its own: the sampler's bias would stay in the scores; nce, "
                         "sampled-softmax and importance take it, which correct for it as they learn",
                         s->ops.name);
    }
    if (s->code_length > 0) {
        return correct_by_sampler(s, out, err);
    }
    float *log_q;
    XSMI_TRY(xsmi_array_new(s->context, &log_q, s->classes, sizeof *log_q, "a correction of scores", err));
    bool constant = true;
    for (uint32_t k = 0; k < s->classes; k++) {
        log_q[k] = (float)s->ops.log_probability(s->state, NULL, k);
        constant &= log_q[k] == log_q[0];
    }
    xsm_status status = xsmi_sampler_need_every(s, NULL, err);
    if (status == XSM_OK && !constant) {
        status = xsmi_correction_of_classes(s->context, log_q, s->classes, out, err);
    }
    xsmi_release(s->context, log_q, s->classes, sizeof *log_q);
    return status;
}
