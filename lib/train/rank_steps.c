/*
 * Steps of one row each on a model whose classes are divided among processes, in blocks of steps that share no class
 * and no row. The steps of a block do not depend on each other: each process scores those of their classes that it has,
 * one exchange gives all processes all scores, and each computes all coefficients and changes the weights of its own
 * classes. A step that lists a class of an earlier step begins the next block. All processes list the same classes, and
 * so make the same blocks.
 */
#include "train/rank_steps.h"

#include "base/arena.h"
#include "base/hash.h"
#include "base/order.h"
#include "estimator/divided_lists.h"

#include <string.h>

enum {
    STEPS_MOST = 512,         /* of a block: with so many, an exchange takes longer than its latency */
    ENTRIES_MOST = 1 << 15,   /* of the lists of a block, unless one step has more */
    SOLVED = XSMI_SOLVE_LANES /* steps in one call of the estimator; some estimators solve an equation for each */
};

/* A class that block number `block` lists. */
typedef struct seen {
    uint32_t class, block;
} seen;

struct xsmi_rank_steps {
    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *block;   /* the steps of a block */
    uint32_t most;         /* such steps */
    uint32_t number, bits; /* number: of the block */
    unsigned char *memory; /* the memory of the following members */
    size_t bytes;
    seen *table;     /* [1 << bits] open addresses */
    float *numbers;  /* what is sent: for each step the scores and, with a bias, the scores without it */
    float *scratch;  /* [width] coefficients of this process's classes */
    double *shrinks; /* [width] */
};

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void divide(xsmi_rank_steps *t, xsmi_arena *arena)
{
    const size_t width = (size_t)t->estimator->width;
    t->table = xsmi_arena_take(arena, (uint64_t)1 << t->bits, sizeof *t->table);
    t->numbers = xsmi_arena_take(arena, t->most, 2 * width * sizeof *t->numbers);
    t->scratch = xsmi_arena_take(arena, 1, width * sizeof *t->scratch);
    t->shrinks = xsmi_arena_take(arena, 1, width * sizeof *t->shrinks);
}

xsm_status xsmi_rank_steps_reserve(xsmi_rank_steps *t, xsm_error *err)
{
    const uint64_t width = XSMI_MAX(t->estimator->width, 1), most = ENTRIES_MOST / width;
    t->most = (uint32_t)XSMI_CLAMP(most, 1, STEPS_MOST);
    for (t->bits = 4; t->bits < 31 && (uint64_t)1 << t->bits < 2 * t->most * width; t->bits++) {
    }
    xsmi_arena counted = {NULL, 0};
    divide(t, &counted);
    if (counted.used == SIZE_MAX || !xsmi_reserve(t->context, &t->memory, &t->bytes, counted.used, 1)) {
        return xsmi_fail_memory(err, counted.used, "steps of several processes");
    }
    xsmi_arena arena = {t->memory, 0};
    divide(t, &arena);
    t->number = UINT32_MAX; /* the next block clears the table */
    XSMI_TRY(xsmi_estimator_reserve(t->estimator, t->block, t->most, 1, false, err));
    return xsmi_gradient_reserve_own(t->block, t->most, err);
}

xsm_status xsmi_rank_steps_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_rank_steps **out,
                               xsm_error *err)
{
    xsmi_rank_steps *t;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &t, xsmi_rank_steps, "steps of several processes", err));
    t->estimator = e;
    t->optimizer = o;
    xsm_status status = xsm_gradient_new(ctx, &t->block, err);
    status = status == XSM_OK ? xsmi_rank_steps_reserve(t, err) : status;
    if (status != XSM_OK) {
        xsmi_rank_steps_free(t);
        return status;
    }
    *out = t;
    return XSM_OK;
}

void xsmi_rank_steps_free(xsmi_rank_steps *t)
{
    if (t) {
        xsm_context *ctx = t->context;
        xsm_gradient_free(t->block);
        xsmi_release(ctx, t->memory, t->bytes, 1);
        XSMI_OBJECT_FREE(t, xsmi_rank_steps);
    }
}

/* -- a block of steps ---------------------------------------------------------------------------------------------- */

static const xsm_model *whole_of(const xsmi_rank_steps *t)
{
    return t->estimator->model;
}

/* Returns the entry of a class of the block, or the free entry for it. */
static seen *find(const xsmi_rank_steps *t, uint32_t class)
{
    const uint32_t mask = (UINT32_C(1) << t->bits) - 1;
    uint32_t at = xsmi_hash_place(class, t->bits);
    while (t->table[at].block == t->number && t->table[at].class != class) {
        at = (at + 1) & mask;
    }
    return &t->table[at];
}

/* Whether the block lists one of these classes. */
static bool meets(const xsmi_rank_steps *t, const xsmi_entries *list)
{
    for (uint64_t j = 0; j < list->count; j++) {
        if (find(t, list->classes[j])->block == t->number) {
            return true;
        }
    }
    return false;
}

static void begin_block(xsmi_rank_steps *t)
{
    if (++t->number == 0) {
        memset(t->table, 0, ((size_t)1 << t->bits) * sizeof *t->table);
        t->number = 1;
    }
}

/* Makes a block of steps from `first` on, at least one. Returns their number. */
static uint32_t fill(xsmi_rank_steps *t, const xsmi_step_list *list, uint64_t first, uint64_t end)
{
    uint32_t n = 0;
    begin_block(t);
    for (; n < t->most && first + n < end; n++) {
        const xsmi_entries own = xsmi_gradient_list(list->drawn, first + n);
        if (n > 0 && meets(t, &own)) {
            break;
        }
        for (uint64_t j = 0; j < own.count; j++) {
            *find(t, own.classes[j]) = (seen){own.classes[j], t->number};
        }
        xsmi_gradient_copy_example(t->block, n, list->drawn, first + n);
        xsmi_divided_find(whole_of(t), t->block, n);
    }
    return n;
}

static xsmi_features features_of(const xsmi_rank_steps *t, uint32_t k)
{
    return xsmi_dataset_features(t->estimator->train, t->block->example[k].row);
}

/* Scores this process's classes of step k, and prefetches those of the next of n steps. */
static void score(const xsmi_rank_steps *t, uint32_t k, uint32_t n, double alpha)
{
    const xsm_gradient *g = t->block;
    xsmi_upcoming next = {NULL, 0, NULL, SIZE_MAX};
    if (k + 1 < n) {
        const xsmi_features x = features_of(t, k + 1);
        next.rows = g->work.own.classes + (k + 1) * g->width;
        next.count = g->work.own.counts[k + 1];
        next.x = x.index ? NULL : x.values;
    }
    xsmi_divided_score_own(t->estimator, t->block, k, alpha, &next);
}

/* Copies the scores of n steps, and with a bias the scores without it, to what is sent, or back. Returns how many
 * numbers. */
static size_t move(const xsmi_rank_steps *t, uint32_t n, bool back)
{
    const xsm_gradient *g = t->block;
    size_t count = 0;
    for (uint32_t k = 0; k < n; k++) {
        for (int part = 0; part < (t->optimizer->model->w.bias ? 2 : 1); part++, count += g->lengths[k]) {
            float *known = (part == 0 ? g->work.scores : g->work.linear) + k * g->width, *sent = t->numbers + count;
            memcpy(back ? known : sent, back ? sent : known, g->lengths[k] * sizeof *sent);
        }
    }
    return count;
}

/* Computes the scores of n steps, for all processes. */
static xsm_status exchange(xsmi_rank_steps *t, const xsmi_step_list *list, uint64_t first, uint32_t n, xsm_error *err)
{
    for (uint32_t k = 0; k < n; k++) {
        score(t, k, n, list->alphas[first + k]);
    }
    XSMI_TRY(xsmi_together_largest(whole_of(t), t->numbers, move(t, n, false), err));
    (void)move(t, n, true);
    return XSM_OK;
}

/* Changes the weights of this process's classes by step k of the block, step s of the list. */
static void change(const xsmi_rank_steps *t, const xsmi_step_list *list, uint32_t k, uint64_t s)
{
    const xsm_gradient *g = t->block;
    const xsmi_features x = features_of(t, k);
    const uint32_t *places = g->work.own.entries + k * g->width, count = g->work.own.counts[k];
    for (uint32_t i = 0; i < count; i++) {
        t->scratch[i] = g->coefficients[k * g->width + places[i]];
    }
    for (uint32_t i = 0; g->proximal && i < count; i++) {
        t->shrinks[i] = g->shrinks[k * g->width + places[i]];
    }
    const xsmi_example_step step = {
        .x = &x,
        .entries = {count, g->work.own.classes + k * g->width, t->scratch, g->proximal ? t->shrinks : NULL},
        .alpha = list->alphas[s],
        .next_alpha = list->alphas[s + 1],
        .bound = g->row_bound,
        .step = {sizeof step.step, list->etas[s], list->taken + s + 1, 1},
    };
    if (count > 0) {
        xsmi_optimizer_step(t->optimizer, &step);
    }
}

/* Takes n steps whose scores are computed. Returns the first that was not finite, or UINT64_MAX. */
static uint64_t take(xsmi_rank_steps *t, const xsmi_step_list *list, uint64_t first, uint32_t n, double *losses)
{
    xsm_gradient *g = t->block;
    uint32_t finite = 0;
    while (finite < n && xsmi_divided_finite(g, finite, 1)) {
        finite++;
    }
    for (uint32_t k = 0, end; k < finite; k = end) {
        const double eta = list->etas[first + k];
        for (end = k + 1; end < finite && end - k < SOLVED && list->etas[first + end] == eta; end++) {
        }
        const xsmi_piece piece = {k, end - k, 1, eta, 0};
        xsmi_outcome outcome = {.finite = true};
        const uint64_t good = xsmi_estimator_coefficients(t->estimator, g, &piece, &outcome);
        for (uint32_t i = k; i < k + good; i++) {
            change(t, list, i, first + i);
            losses[first + i] = g->losses[i];
        }
        if (good < end - k) {
            return first + k + good;
        }
    }
    return finite < n ? first + finite : UINT64_MAX;
}

xsm_status xsmi_rank_steps_run(xsmi_rank_steps *t, const xsmi_step_list *list, uint64_t first, uint64_t count,
                               xsm_status status, double *losses, uint64_t *failed, xsm_error *err)
{
    *failed = UINT64_MAX;
    XSMI_TRY(xsmi_together(whole_of(t), status, err));
    uint32_t n;
    for (uint64_t s = first; s < first + count && *failed == UINT64_MAX; s += n) {
        n = fill(t, list, s, first + count);
        XSMI_TRY(exchange(t, list, s, n, err));
        *failed = take(t, list, s, n, losses);
    }
    return XSM_OK;
}
