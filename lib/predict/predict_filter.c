/*
 * Filtered prediction: which classes each row may get, scoring them if they are few, and writing a row's classes.
 */
#include "predict/predict.h"
#include "base/activity.h"
#include "base/order.h"
#include "model/listed.h"
#include "model/label_scores.h"

#include <math.h>

/* -- what the caller gave ------------------------------------------------------------------------------------------ */

/* Checks lists of classes, one for each row. */
static xsm_status check_lists(const xsm_prediction *to, const uint64_t *offsets, const uint32_t *list, const char *name,
                              uint32_t classes, xsm_error *err)
{
    for (uint64_t i = 0; offsets && i < to->batch->count; i++) {
        if (offsets[i + 1] < offsets[i]) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "xsm_prediction.%s_offsets: the list of row %llu (from 0) ends before it begins", name,
                             (unsigned long long)i);
        }
        if (offsets[i + 1] > offsets[i] && !list) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_prediction.%s is NULL, with %s_offsets", name, name);
        }
        for (uint64_t j = offsets[i]; j < offsets[i + 1]; j++) {
            if (list[j] >= classes || (j > offsets[i] && list[j] <= list[j - 1])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "xsm_prediction.%s[%llu], of row %llu (from 0), is %u; a row's classes rise and are "
                                 "below %u",
                                 name, (unsigned long long)j, (unsigned long long)i, list[j], classes);
            }
        }
    }
    return XSM_OK;
}

static xsm_status check_filter(const xsm_filter *filter, uint32_t classes, xsm_error *err)
{
    return !filter || filter->classes == classes
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_SHAPE, "a filter of %u classes for a model of %u", filter->classes, classes);
}

static bool is_filtered(const xsm_prediction *to)
{
    return to->filter || to->filters || to->allow_offsets || to->deny_offsets || to->exclude_known;
}

xsm_status xsmi_filter_check(const xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    const xsm_batch *batch = to->batch;
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_prediction, to, exclude_known, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_prediction, to, has_least_score, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_prediction, to, reserved, err));
    if (!(to->least_probability >= 0 && to->least_probability <= 1) || to->least_score != to->least_score) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_prediction.least_probability is %g and least_score %g; 0 to 1 and a number are accepted",
                         to->least_probability, (double)to->least_score);
    }
    XSMI_TRY(check_filter(to->filter, p->classes, err));
    for (uint64_t i = 0; to->filters && i < batch->count; i++) {
        XSMI_TRY(check_filter(to->filters[i], p->classes, err));
    }
    XSMI_TRY(check_lists(to, to->allow_offsets, to->allow, "allow", p->classes, err));
    XSMI_TRY(check_lists(to, to->deny_offsets, to->deny, "deny", p->classes, err));
    return !to->exclude_known || batch->labels || batch->dataset
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_ARGUMENT,
                           "xsm_prediction.exclude_known is 1; the batch has neither labels nor a dataset");
}

/* Returns the labels of a row. */
static const uint32_t *known_labels(const xsm_batch *batch, size_t i, size_t *count)
{
    if (!batch->labels) {
        return xsmi_dataset_labels(batch->dataset, xsmi_batch_row(batch, i), count);
    }
    const uint64_t first = batch->label_offsets ? batch->label_offsets[i] : i;
    const uint64_t end = batch->label_offsets ? batch->label_offsets[i + 1] : first + 1;
    *count = end > first ? (size_t)(end - first) : 0;
    return batch->labels + first;
}

static xsmi_row_filter filter_of(const xsm_predictor *p, const xsm_prediction *to, size_t i)
{
    xsmi_row_filter f = {.of = {to->filter, to->filters ? to->filters[i] : NULL}, .most = p->classes};
    if (to->allow_offsets) {
        f.allows = true;
        f.allow = to->allow ? to->allow + to->allow_offsets[i] : NULL;
        f.allow_count = (size_t)(to->allow_offsets[i + 1] - to->allow_offsets[i]);
        f.most = XSMI_MIN((uint32_t)f.allow_count, f.most);
    }
    if (to->deny_offsets) {
        f.deny = to->deny ? to->deny + to->deny_offsets[i] : NULL;
        f.deny_count = (size_t)(to->deny_offsets[i + 1] - to->deny_offsets[i]);
        f.most = XSMI_MIN(p->classes - (uint32_t)f.deny_count, f.most);
    }
    if (to->exclude_known) {
        f.known = known_labels(to->batch, i, &f.known_count);
    }
    for (size_t j = 0; j < 2; j++) {
        f.most = f.of[j] ? XSMI_MIN(f.of[j]->left, f.most) : f.most;
    }
    return f;
}

const xsmi_row_filter *xsmi_filter_of(xsm_predictor *p, const xsm_prediction *to, size_t i, size_t at)
{
    if (!is_filtered(to)) {
        return NULL;
    }
    p->own.filters[at] = filter_of(p, to, i);
    return &p->own.filters[at];
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

/* Classes that are scored together. */
#define TOGETHER 1024

static void divide(xsm_predictor *p, xsmi_arena *arena)
{
    const xsm_model *m = p->model;
    xsmi_filtered *own = &p->own;
    own->filters = xsmi_arena_take(arena, XSMI_PIECE, sizeof *own->filters);
    own->classes = xsmi_arena_take(arena, TOGETHER, sizeof *own->classes);
    own->scores = xsmi_arena_take(arena, TOGETHER, sizeof *own->scores);
    own->hidden = xsmi_model_take_hidden(m, arena);
    own->chosen = xsmi_arena_take(arena, xsmi_model_chosen_scratch(m), sizeof *own->chosen);
    own->listed = xsmi_arena_take(arena, xsmi_model_listed_scratch(m), 1);
}

xsm_status xsmi_filter_prepare(xsm_predictor *p, const xsm_prediction *to, xsm_error *err)
{
    if (!is_filtered(to)) {
        return XSM_OK;
    }
    xsmi_arena arena = {NULL, 0};
    divide(p, &arena);
    if (!xsmi_reserve(p->context, &p->own.memory, &p->own.size, arena.used, 1)) {
        return xsmi_fail_memory(err, arena.used, "a predictor's filters");
    }
    arena = (xsmi_arena){p->own.memory, 0};
    divide(p, &arena);
    p->own.sums = xsmi_predict_wants(to) && xsmi_label_is_relative(p->model);
    if (p->own.sums) {
        p->reach = p->classes; /* only the beam finds classes, so that it may have to reach all */
    }
    for (size_t i = 0; p->beam > 0 && i < to->batch->count; i++) {
        const xsmi_row_filter f = filter_of(p, to, i);
        const uint32_t width = xsmi_filter_width(p, &f);
        p->reach = XSMI_MAX(width, p->reach);
    }
    return XSM_OK;
}

void xsmi_filter_release(xsm_predictor *p)
{
    xsmi_release(p->context, p->own.memory, p->own.size, 1);
}

/* -- how rows are searched ----------------------------------------------------------------------------------------- */

bool xsmi_filter_leaves_few(const xsm_predictor *p, const xsmi_row_filter *f, uint32_t width)
{
    /* If one class in n is left, a search must look at n times as many classes to find `width` of them. */
    return f && (uint64_t)f->most * f->most <= (uint64_t)width * p->classes;
}

uint32_t xsmi_filter_width(const xsm_predictor *p, const xsmi_row_filter *f)
{
    if (!f) {
        return p->beam;
    }
    /* With own.sums, probabilities in a label tree are relative to what the beam finds, so that it must run. */
    if (f->most == 0 || (!p->own.sums && xsmi_filter_leaves_few(p, f, p->beam))) {
        return 0;
    }
    const uint64_t width = ((uint64_t)p->beam * p->classes + f->most - 1) / f->most;
    return (uint32_t)XSMI_MIN(width, p->classes);
}

bool xsmi_filter_score(xsm_predictor *p, const xsmi_features *x, const xsmi_row_filter *filter, bool as_all,
                       const xsmi_top *list)
{
    const xsm_model *m = p->model;
    const xsmi_filtered *own = &p->own;
    const xsmi_tree *tree = p->tree_alone ? p->head->tree : NULL;
    const xsmi_model_row row = {*x, tree ? *x : xsmi_model_forward(m, x, own->hidden)};
    bool finite = true;
    uint64_t at = 0;
    xsmi_top_start(list);
    if (tree) {
        xsmi_tree_encode(tree, x, own->chosen);
    }
    for (size_t count; finite && (count = xsmi_row_filter_list(filter, p->classes, &at, own->classes, TOGETHER)) > 0;) {
        if (xsmi_poll(p->context)) {
            return false;
        }
        if (as_all) {
            xsmi_model_score_listed(m, &row, own->classes, count, own->scores, own->listed);
        } else if (!tree) {
            xsmi_model_chosen_scores(m, &row, own->classes, count, own->scores, own->chosen);
        }
        for (size_t j = 0; j < count; j++) {
            const float score =
                tree ? (float)xsmi_tree_log_probability(tree, own->chosen, own->classes[j]) : own->scores[j];
            finite &= isfinite(score) != 0;
            xsmi_top_offer(list, score, own->classes[j]);
        }
        p->probed += as_all ? 0 : count;
    }
    xsmi_top_sort(list);
    return finite;
}

/* -- a row's classes ----------------------------------------------------------------------------------------------- */

double *xsmi_predict_space(const xsm_predictor *p, const xsm_prediction *to)
{
    return xsmi_predict_wants(to) ? p->probability : NULL;
}

void xsmi_predict_put(const xsm_predictor *p, const xsm_prediction *to, size_t row, const xsmi_top *list)
{
    const double *probabilities = xsmi_predict_space(p, to);
    const size_t at = row * p->top;
    uint32_t count = 0;
    while (count < p->top && list->class_of[count] != XSMI_NO_CLASS &&
           !(to->has_least_score && list->score[count] < to->least_score) &&
           !(to->least_probability > 0 && probabilities[count] < to->least_probability)) {
        count++;
    }
    for (uint32_t k = 0; k < p->top; k++) {
        const bool is = k < count;
        to->classes[at + k] = is ? list->class_of[k] : XSM_NO_CLASS;
        if (to->scores) {
            to->scores[at + k] = is ? list->score[k] : -INFINITY;
        }
        if (to->probabilities) {
            to->probabilities[at + k] = is ? probabilities[k] : 0;
        }
    }
    if (to->lengths) {
        to->lengths[row] = count;
    }
}

/* -- row by row ---------------------------------------------------------------------------------------------------- */

xsm_status xsmi_predict_fail(const xsm_predictor *p, const xsm_batch *batch, size_t row, xsm_error *err)
{
    const unsigned long long number = xsmi_batch_row(batch, row);
    return p->index ? xsmi_fail(err, XSM_ERROR_DIVERGED,
                                "row %llu has scores that are not finite, or index '%s' finds fewer than %u classes",
                                number, p->index->ops.name, p->top)
                    : xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite", number);
}

xsm_status xsmi_predict_rows(xsm_predictor *p, const xsm_prediction *to, xsmi_row_search search, const void *own,
                             xsm_error *err)
{
    const xsmi_top list = {p->top_score, p->top_class, p->top};
    for (size_t i = 0; i < to->batch->count; i++) {
        XSMI_TRY(xsmi_go_on(p->context, err));
        const xsmi_features x = xsmi_batch_features(to->batch, i);
        const xsmi_row_filter *filter = xsmi_filter_of(p, to, i, 0);
        if (!search(p, &x, filter, own, &list, xsmi_predict_space(p, to))) {
            return xsmi_predict_fail(p, to->batch, i, err);
        }
        xsmi_predict_put(p, to, i, &list);
        xsmi_advance(p->context, 1);
    }
    return XSM_OK;
}

bool xsmi_predict_best(const xsm_predictor *p, const uint32_t *classes, const float *scores, uint32_t found,
                       const xsmi_row_filter *filter, const xsmi_top *list)
{
    bool finite = filter || found >= p->top;
    xsmi_top_start(list);
    for (uint32_t j = 0; j < found; j++) {
        finite &= isfinite(scores[j]) != 0;
        xsmi_top_offer_any_left(list, scores[j], classes[j], filter);
    }
    xsmi_top_sort(list);
    return finite;
}

void xsmi_predict_each(const xsm_predictor *p, const float *scores, size_t count, double *probabilities)
{
    for (size_t i = 0; probabilities && i < count; i++) {
        probabilities[i] = xsmi_probability(&p->model->calibration, scores[i], 0);
    }
}
