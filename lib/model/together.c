#include "model/together.h"

#include "base/activity.h"
#include "base/held.h"
#include "base/order.h"
#include "base/top.h"
#include "ranks/same.h"
#include "model/divided.h"
#include "model/model_file.h"
#include "ranks/comm.h"

#include <math.h>
#include <stdio.h>

xsm_status xsmi_model_need_together(const xsm_model *m, const char *what, xsm_error *err)
{
    return !m->apart ? XSM_OK
                     : xsmi_fail(err, XSM_ERROR_STATE,
                                 "%s needs weights of one step in all processes, and one has failed in a step of this "
                                 "model that others may have taken; load it from a file, or make a new one",
                                 what);
}

uint32_t xsmi_processes(const xsm_model *m)
{
    return xsmi_ranks(m->context);
}

uint32_t xsmi_process(const xsm_model *m)
{
    return xsmi_rank(m->context);
}

/* -- failures ------------------------------------------------------------------------------------------------------ */

void xsmi_together_enter(const xsm_model *m)
{
    xsmi_collective_begin(xsmi_model_group(m));
}

xsm_status xsmi_together_leave(const xsm_model *m, xsm_status status, xsm_error *err)
{
    return xsmi_collective_end(xsmi_model_group(m), status, err);
}

void xsmi_together_begin(const xsm_model *m)
{
    xsmi_agree_begin(xsmi_model_group(m));
}

xsm_status xsmi_together(const xsm_model *m, xsm_status status, xsm_error *err)
{
    return xsmi_agree_once(xsmi_model_group(m), status, err);
}

bool xsmi_together_failed(const xsm_model *m)
{
    return !xsmi_model_group(m) || xsmi_agreed(m->context);
}

void xsmi_together_lose(xsm_model *m)
{
    m->apart |= xsmi_model_is_divided(m);
}

xsm_status xsmi_together_end_step(xsm_model *m, bool alone, xsm_status status, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    if (!group || status == XSM_OK) {
        return status;
    }
    float apart = m->apart || (alone && xsmi_met(group) && !xsmi_agreed(group));
    status = xsmi_agree_once(group, status, err);
    const bool lost = status == XSM_ERROR_COMM;
    const xsm_status told = xsmi_exchange_max(group, &apart, 1, lost ? NULL : err);
    m->apart = told != XSM_OK || apart > 0;
    return told == XSM_OK || lost ? status : told;
}

/* -- what all processes have --------------------------------------------------------------------------------------- */

xsm_status xsmi_together_rows(const xsm_model *m, const xsm_dataset *rows, bool labels_alone, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return labels_alone ? xsmi_check_same_labels(group, rows, err) : xsmi_check_same_rows(group, rows, err);
}

xsm_status xsmi_together_batch(const xsm_model *m, const xsm_batch *batch, uint64_t asked, xsm_status status,
                               xsm_error *err)
{
    return xsmi_check_same_batch(xsmi_model_group(m), batch, asked, status, err);
}

xsm_status xsmi_together_order(const xsm_model *m, const xsm_dataset *rows, xsm_error *err)
{
    return xsmi_agree_same(
        xsmi_model_group(m), XSM_OK, xsmi_dataset_order_bytes(rows), XSM_ERROR_DATA,
        "the rows are mapped from a large file on this process or on rank 0 alone, and so shuffled in "
        "another way; read them alike in all processes, or take XSM_ORDER_FILE",
        err);
}

/* Adds what a model was made with, and is set to, but for its sizes, which processes compare when they make it. */
static xsm_status add_model(const xsm_model *m, xsmi_settings *s, xsm_error *err)
{
    char layer[XSMI_LAYER_TEXT] = "no first layer", calibration[XSMI_CALIBRATION_TEXT] = "none", text[400];
    if (m->layer) {
        xsmi_layer_describe(m->layer, layer, sizeof layer);
    }
    if (m->calibration.method != XSM_CALIBRATION_NONE) {
        xsmi_calibration_describe(&m->calibration, calibration, sizeof calibration);
    }
    snprintf(text, sizeof text, "(%s bias, %s, %s, correction %s, calibration %s, %s)",
             xsmi_model_weights(m)->w.bias ? "with" : "no", xsmi_geometry_names[m->score],
             xsmi_link_words[xsmi_model_link(m)], m->head ? m->head->kind->name : "none", calibration, layer);
    return xsmi_settings_add(s, XSMI_SETTINGS_PREFIX "model", "", text, err);
}

xsm_status xsmi_together_settings(const xsm_model *m,
                                  xsm_status (*add)(const void *of, xsmi_settings *s, xsm_error *err), const void *of,
                                  xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    if (!group) {
        return XSM_OK;
    }
    xsmi_settings s = {.context = group};
    xsm_status status = add(of, &s, err);
    status = status == XSM_OK ? add_model(m, &s, err) : status;
    status = xsmi_settings_agree(group, &s, status, err);
    xsmi_settings_free(&s);
    return status;
}

/* Numbers as settings. */
typedef struct number_list {
    const xsmi_number *numbers;
    size_t count;
    xsm_status status; /* of gathering them */
} number_list;

static xsm_status add_numbers(const void *of, xsmi_settings *s, xsm_error *err)
{
    const number_list *l = of;
    return l->status == XSM_OK ? xsmi_settings_add_numbers(s, l->numbers, l->count, err) : l->status;
}

xsm_status xsmi_together_numbers(const xsm_model *m, const xsmi_number *numbers, size_t count, xsm_status status,
                                 xsm_error *err)
{
    const number_list l = {numbers, count, status};
    return xsmi_model_group(m) ? xsmi_together_settings(m, add_numbers, &l, err) : status;
}

xsm_status xsmi_together_file(const xsm_model *m, const xsmi_container *file, const char *name, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return group ? xsmi_check_same_file(group, xsmi_file_mark(file), name, err) : XSM_OK;
}

xsm_status xsmi_together_first(const xsm_model *m, double *number, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return group ? xsmi_exchange_copy(group, number, sizeof *number, 0, err) : XSM_OK;
}

xsm_status xsmi_together_largest(const xsm_model *m, float *numbers, size_t count, xsm_error *err)
{
    xsm_context *group = xsmi_model_group(m);
    return group ? xsmi_exchange_max(group, numbers, count, err) : XSM_OK;
}

xsm_status xsmi_together_blocks(const xsm_model *m, const void *mine, void *all, const size_t *sizes, xsm_error *err)
{
    return xsmi_exchange_blocks(m->context, mine, all, sizes, err);
}

xsm_status xsmi_together_failed_in(const xsm_model *m, uint32_t first, xsm_status status, xsm_error *err)
{
    return xsmi_agree_failed(m->context, first, status, err);
}

uint32_t xsmi_together_callers(const xsm_model *m, const xsm_context *ctx)
{
    return xsmi_model_group(m) ? 1 : xsmi_context_threads(ctx);
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

/*
 * Each process scores its classes. When a row is scored against all classes, the processes exchange the sum of every
 * class run, which each joins in rising order, and the best classes of each process.
 */
/* Number of classes that are scored together. */
#define SOME 64

/* Scores this process's classes, and writes -INFINITY for others, so that xsmi_exchange_max() gives every process all
 * scores. */
static void score_own(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                      float *scores, float *scratch)
{
    uint32_t local[SOME], at[SOME];
    float z[SOME];
    for (size_t j = 0; j < count; j += SOME) {
        const uint32_t listed = (uint32_t)XSMI_MIN(count - j, (size_t)SOME);
        const uint32_t some = xsmi_part_list(m->part.first, m->part.end, classes + j, listed, local, at);
        for (uint32_t i = 0; i < listed; i++) {
            scores[j + i] = -INFINITY;
        }
        xsmi_model_chosen_scores(m->part.own, row, local, some, z, scratch);
        for (uint32_t i = 0; i < some; i++) {
            scores[j + at[i]] = z[i] == z[i] ? z[i] : INFINITY;
        }
    }
}

/* Scores the classes of lists that this process has. */
static xsm_status score_lists(const xsm_model *m, const xsmi_score_all *rows, const xsmi_score_lists *lists,
                              xsm_context *ctx, xsm_error *err)
{
    const size_t code = xsmi_model_chosen_scratch(m), floats = code + xsmi_model_hidden_floats(m);
    float *scratch;
    XSMI_TRY(xsmi_array_new(ctx, &scratch, floats, sizeof *scratch, "scratch of scoring", err));
    for (size_t i = 0, at = 0; i < rows->rows; at += lists->counts[i], i++) {
        if (lists->counts[i] > 0) {
            const xsmi_features x = rows->features[i];
            const xsmi_model_row both = {x, xsmi_model_forward(m, &x, scratch + code)};
            score_own(m, &both, lists->classes[i], lists->counts[i], lists->scores + at, scratch);
        }
    }
    xsmi_release(ctx, scratch, floats, sizeof *scratch);
    return XSM_OK;
}

/* -- all classes --------------------------------------------------------------------------------------------------- */

/* The results of a process for `rows` rows. */
typedef struct block {
    double *sum; /* [rows][runs] */
    float *max;
    float *target;       /* [rows] */
    float *top_score;    /* [rows][top] */
    uint32_t *top_class; /* [rows][top] of the whole model */
    size_t runs;
} block;

/* Divides a process's block, or only counts its bytes if `memory` is NULL. Returns the bytes, a multiple of 8. */
static size_t divide_block(const xsmi_score_all *all, uint32_t runs, unsigned char *memory, block *b)
{
    const size_t sums = all->rows * runs, lists = all->rows * all->top;
    size_t used = 0;
    *b = (block){.runs = runs};
    if (memory) {
        b->sum = (double *)(void *)memory;
        b->max = (float *)(void *)(memory + sums * sizeof(double));
        b->target = b->max + sums;
        b->top_score = b->target + all->rows;
        b->top_class = (uint32_t *)(void *)(b->top_score + lists);
    }
    used = sums * (sizeof(double) + sizeof(float)) + all->rows * sizeof(float) +
           lists * (sizeof(float) + sizeof(uint32_t));
    return (used + 7) / 8 * 8;
}

typedef struct score_job {
    const xsm_model *model;
    xsm_context *context;
    const xsmi_score_all *all;
    size_t each; /* rows of a job */
    const block *mine;
    xsmi_log_sum *runs;       /* [threads][each][runs] */
    uint32_t *targets;        /* [threads][each] */
    double *sums;             /* [threads][each] not used */
    xsmi_row_filter *filters; /* [threads][each] or NULL */
    unsigned char *scratch;
    size_t scratch_each;
} score_job;

static void score_some(void *state, const xsmi_range *r)
{
    const score_job *job = state;
    const xsm_model *m = job->model;
    const xsmi_score_all *all = job->all;
    const size_t first = r->first, rows = r->end - first, runs = job->mine->runs;
    uint32_t *targets = job->targets + r->thread * job->each;
    xsmi_log_sum *sums = job->runs + r->thread * job->each * runs;
    for (size_t i = 0; i < rows; i++) {
        const uint32_t target = all->target ? all->target[first + i] : XSMI_NO_CLASS;
        targets[i] = target >= m->part.first && target < m->part.end ? target - m->part.first : XSMI_NO_CLASS;
    }
    xsmi_row_filter *filters = job->filters ? job->filters + r->thread * job->each : NULL;
    for (size_t i = 0; i < rows && filters; i++) {
        filters[i] = all->filters[first + i];
        filters[i].first = m->part.first;
    }
    const block *b = job->mine;
    const xsmi_score_all wanted = {.rows = rows,
                                   .features = all->features + first,
                                   .sparse = all->sparse,
                                   .target = targets,
                                   .top = all->top,
                                   .filters = filters,
                                   .log_sum_exp = job->sums + r->thread * job->each,
                                   .runs = sums,
                                   .run_count = runs,
                                   .target_score = b->target + first,
                                   .top_score = b->top_score + first * all->top,
                                   .top_class = b->top_class + first * all->top};
    xsmi_model_score_rows(m->part.own, &wanted, job->scratch + r->thread * job->scratch_each, job->context);
    for (size_t i = 0; i < rows * runs; i++) {
        b->sum[first * runs + i] = sums[i].sum;
        b->max[first * runs + i] = sums[i].max;
    }
    for (size_t i = first * all->top; i < (first + rows) * all->top; i++) {
        b->top_class[i] += b->top_class[i] != XSMI_NO_CLASS ? m->part.first : 0;
    }
}

/* Scores the rows against this process's classes. */
static xsm_status score_mine(score_job *job, xsm_error *err)
{
    xsm_context *ctx = job->context;
    const xsmi_score_all *all = job->all;
    const size_t threads = xsmi_context_threads(ctx), blocks = (all->rows + XSMI_LANES - 1) / XSMI_LANES;
    const size_t each = XSMI_MIN((blocks + threads - 1) / threads, XSMI_TILE_BLOCKS), runs = job->mine->runs;
    job->each = each * XSMI_LANES;
    job->scratch_each = xsmi_model_score_all_scratch(job->model->part.own, all->sparse, each, all->top);
    const size_t rows = threads * job->each;
    xsmi_held held = {.context = ctx};
    job->scratch = xsmi_hold(&held, threads, job->scratch_each);
    job->runs = xsmi_hold(&held, (uint64_t)rows * runs, sizeof *job->runs);
    job->targets = xsmi_hold(&held, rows, sizeof *job->targets);
    job->sums = xsmi_hold(&held, rows, sizeof *job->sums);
    job->filters = all->filters ? xsmi_hold(&held, rows, sizeof *job->filters) : NULL;
    xsm_status status = xsmi_held_check(&held, "scratch of scoring, for each thread", err);
    status = status == XSM_OK ? xsmi_run_ranges(ctx, score_some, job, all->rows, job->each, err) : status;
    status = status == XSM_OK && xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : status;
    xsmi_held_release(&held);
    return status;
}

/* Joins the results of all processes for row i. */
static void join_row(const xsm_model *m, const xsmi_score_all *all, const block *blocks, size_t i)
{
    const uint32_t ranks = xsmi_ranks(m->context);
    xsmi_log_sum total = XSMI_LOG_SUM_INIT;
    const xsmi_top list = {all->top_score + i * all->top, all->top_class + i * all->top, all->top};
    if (all->top) {
        xsmi_top_start(&list);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        const block *b = &blocks[r];
        for (size_t j = 0; j < b->runs; j++) {
            const xsmi_log_sum run = {b->max[i * b->runs + j], b->sum[i * b->runs + j]};
            xsmi_log_sum_join(&total, &run);
        }
        for (size_t j = i * all->top; j < (i + 1) * all->top && b->top_class[j] != XSMI_NO_CLASS; j++) {
            xsmi_top_offer_any(&list, b->top_score[j], b->top_class[j]);
        }
    }
    if (all->top) {
        xsmi_top_sort(&list);
    }
    all->log_sum_exp[i] = xsmi_log_partition(m->calibration.method, &total);
    if (all->target) {
        const uint32_t target = all->target[i];
        all->target_score[i] =
            target < m->classes ? blocks[xsmi_part_of(m->classes, ranks, target)].target[i] : -INFINITY;
    }
}

static xsm_status score_rows_together(const xsm_model *m, const xsmi_score_all *rows, const xsmi_score_lists *lists,
                                      xsm_context *ctx, xsm_status status, xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(m->context), rank = xsmi_rank(m->context);
    xsmi_held held = {.context = ctx};
    size_t *sizes = xsmi_hold(&held, ranks, sizeof *sizes);
    block *blocks = xsmi_hold(&held, ranks, sizeof *blocks);
    unsigned char *all = NULL, *mine = NULL;
    size_t total = 0;
    for (uint32_t r = 0; sizes && blocks && r < ranks; r++) {
        sizes[r] = divide_block(rows, xsmi_runs_of_rank(m, r), NULL, &blocks[r]);
        total += sizes[r];
    }
    if (sizes && blocks) {
        all = xsmi_hold(&held, total, 1);
        mine = xsmi_hold_zeros(&held, sizes[rank], 1);
    }
    status = status == XSM_OK ? xsmi_held_check(&held, "the scores of all processes", err) : status;
    if (status == XSM_OK) {
        block b;
        (void)divide_block(rows, xsmi_runs_of_rank(m, rank), mine, &b);
        score_job job = {.model = m, .context = ctx, .all = rows, .mine = &b};
        status = score_mine(&job, err);
        status = status == XSM_OK && lists ? score_lists(m, rows, lists, ctx, err) : status;
    }
    status = xsmi_agree(m->context, status, err);
    status = status == XSM_OK ? xsmi_exchange_blocks(m->context, mine, all, sizes, err) : status;
    if (status == XSM_OK && lists && lists->total > 0) {
        status = xsmi_exchange_max(m->context, lists->scores, lists->total, err);
    }
    if (status == XSM_OK) {
        size_t at = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            (void)divide_block(rows, xsmi_runs_of_rank(m, r), all + at, &blocks[r]);
            at += sizes[r];
        }
        for (size_t i = 0; i < rows->rows; i++) {
            join_row(m, rows, blocks, i);
        }
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsmi_together_score_rows(const xsm_model *m, const xsmi_score_all *rows, const xsmi_score_lists *lists,
                                    void *scratch, xsm_context *ctx, xsm_status status, xsm_error *err)
{
    if (xsmi_model_is_divided(m)) {
        return score_rows_together(m, rows, lists, ctx, status, err);
    }
    XSMI_TRY(status);
    xsmi_model_score_rows(m, rows, scratch, ctx);
    return xsmi_is_cancelled(ctx) ? xsmi_fail_cancelled(ctx, err) : XSM_OK;
}

size_t xsmi_together_scratch(const xsm_model *m, bool sparse, size_t blocks, uint32_t top)
{
    return xsmi_model_is_divided(m) ? 0 : xsmi_model_score_all_scratch(m, sparse, blocks, top);
}
