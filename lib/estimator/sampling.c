/* Common code of estimators with a sampler: the sampler's life, the codes of the rows, the lists of classes. */
#include "estimator/shared.h"
#include "base/entry.h"

#include <string.h>

xsm_status xsmi_estimator_make_sampler(xsm_estimator *e, xsm_error *err)
{
    xsm_sampler *made;
    XSMI_TRY(xsm_sampler_new(e->context, xsmi_sampler_names[e->common.sampler], &made, err));
    if (e->sampling.sampler == e->sampling.own) {
        e->sampling.sampler = made;
    }
    xsm_sampler_free(e->sampling.own);
    e->sampling.own = made;
    return XSM_OK;
}

xsm_status xsm_estimator_set_sampler(xsm_estimator *e, xsm_sampler *sampler, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the estimator"});
    if (!e->sampling.own) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' takes no sampler", e->ops.name);
    }
    if (e->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "the sampler must be set before the estimator is bound");
    }
    xsm_sampler *before = e->sampling.sampler;
    const bool own = !sampler || sampler == e->sampling.own;
    e->sampling.sampler = own ? e->sampling.own : xsmi_sampler_retain(sampler);
    xsm_sampler_free(before != e->sampling.own ? before : NULL);
    return XSM_OK;
}

void xsmi_estimator_unbind_sampler(xsm_estimator *e)
{
    xsmi_release(e->context, e->sampling.codes, e->sampling.code_count, sizeof *e->sampling.codes);
    e->sampling.codes = NULL;
    e->sampling.code_count = 0;
    xsmi_head_release(e->head);
    e->head = NULL;
    xsmi_release(e->context, e->sampling.labels, e->sampling.label_capacity, sizeof *e->sampling.labels);
    e->sampling.labels = NULL;
    e->sampling.label_capacity = 0;
    if (e->sampling.counted) {
        atomic_fetch_sub(&e->sampling.sampler->users, 1);
    }
    e->sampling.counted = e->sampling.follows = false;
    if (e->sampling.own && atomic_load(&e->sampling.own->users) == 0) {
        xsmi_sampler_unbind(e->sampling.own); /* so that its options can be set again */
    }
}

/* Takes a sampler that follows the training, for this binding alone. */
static xsm_status take_follower(xsm_estimator *e, const xsm_model *model, xsm_error *err)
{
    xsm_sampler *s = e->sampling.sampler;
    if (!s->ops.follow) {
        return XSM_OK;
    }
    if (atomic_load(&s->users) > 0) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "sampler '%s' follows the training of another estimator, which is bound; an estimator needs "
                         "one of its own",
                         s->ops.name);
    }
    XSMI_TRY(xsmi_model_need_whole(model, "a sampler that follows the training", err));
    xsmi_sampler_unbind(s); /* to begin anew */
    e->sampling.follows = true;
    return XSM_OK;
}

static xsm_status bind_sampler(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, uint64_t most_labels,
                               xsm_error *err)
{
    xsm_sampler *s = e->sampling.sampler;
    xsm_draw_plan plan = {.size = sizeof plan};
    e->ops.plan(e->state, &plan);
    e->width = most_labels + plan.count;
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_draw_plan, &plan, exclude_labels, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_draw_plan, &plan, label_probabilities, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_draw_plan, &plan, reserved, err));
    if (plan.size != sizeof plan || e->width > XSM_CLASSES_MAX || (plan.exclude_labels && plan.label_probabilities)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': plan() wants %u draws beside %llu labels, or what cannot be had "
                         "together; accepted is up to %u",
                         e->ops.name, plan.count, (unsigned long long)most_labels, XSM_CLASSES_MAX);
    }
    e->sampling.rule.count = plan.count;
    e->sampling.rule.exclude_labels = plan.exclude_labels;
    e->sampling.rule.label_probabilities = plan.label_probabilities;
    e->sampling.rule.fault = &e->sampling.fault;
    atomic_store(&e->sampling.fault.met, 0);
    XSMI_TRY(take_follower(e, model, err));
    atomic_fetch_add(&s->users, 1);
    e->sampling.counted = true;
    if (s->bound && !e->labels_alone) {
        const xsmi_feature_side rows = {s->schema, 0, "the sampler"}, wanted = {model->map.schema, 0, "the model"};
        XSMI_TRY(xsmi_features_match(&rows, &wanted, NULL, err));
    }
    if (!s->bound) {
        XSMI_TRY(xsmi_sampler_bind(s, train, e->sampling.follows ? model->features : train->features, err));
        if (train->rows == 0 && s->code_length > 0 && !e->sampling.follows) {
            xsmi_sampler_unbind(s);
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "sampler '%s' draws by the features of a row, and a stream has no rows to make it from; "
                             "bind it to some rows first and hand it in by xsm_estimator_set_sampler()",
                             s->ops.name);
        }
    } else if (s->classes != train->classes || (s->features != xsmi_model_input(model) && !e->labels_alone)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE,
                         "sampler '%s' is bound to rows of %u features and %u classes, the data have %u and %u",
                         s->ops.name, s->features, s->classes, train->features, train->classes);
    }
    if (e->labels_alone && s->code_length > 0 && !e->sampling.follows && s->features != xsmi_model_input(model)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE,
                         "sampler '%s' draws by the features of a row, and is bound to rows of %u, but those of the "
                         "batches will have %u; bind it to such rows first",
                         s->ops.name, s->features, xsmi_model_input(model));
    }
    XSMI_TRY(xsmi_shared_check(e, err));
    if (plan.count > 0) { /* nothing is learned of a class that is never drawn, and the score of a label only rises */
        XSMI_TRY(xsmi_sampler_need_every(s, plan.label_probabilities ? NULL : train->map.counts, err));
    }
    if (e->ops.flags & XSM_ESTIMATOR_CORRECTED) {
        XSMI_TRY(xsmi_sampler_correction(s, &e->head, err));
    }
    if (e->labels_alone || e->sampling.follows) {
        return XSM_OK; /* codes are made with each batch */
    }
    size_t count;
    if (!xsmi_multiply((size_t)train->rows, s->code_length, &count)) {
        return xsmi_fail_memory(err, SIZE_MAX, "row codes");
    }
    if (count > 0) {
        XSMI_TRY(xsmi_array_new(e->context, &e->sampling.codes, count, sizeof *e->sampling.codes, "row codes", err));
        e->sampling.code_count = count;
        XSMI_TRY(xsmi_sampler_encode_all(s, e->context, train, e->sampling.codes, err));
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_bind_sampler(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train,
                                       uint64_t most_labels, xsm_error *err)
{
    xsm_status status = bind_sampler(e, model, train, most_labels, err);
    if (status != XSM_OK) {
        xsmi_estimator_unbind_sampler(e);
    }
    return status;
}

/* Reads rows of weights with their bias, or with what replaces it where scores are distances. */
static void read_weights(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                         float *out, size_t stride)
{
    const xsm_model *m = source->state;
    xsmi_weights_copy(&m->w, rows, first, count, false, out, stride);
    for (uint32_t j = 0; j < count; j++) {
        float *row = out + j * stride;
        row[m->features] = 0;
        (void)xsmi_model_constant(m, rows ? rows[j] : first + j, row, m->features, row + m->features);
    }
}

xsm_status xsmi_estimator_follow(xsm_estimator *e, const xsm_batch *batch, xsm_error *err)
{
    xsmi_sampling *s = &e->sampling;
    if (!s->follows) {
        return XSM_OK;
    }
    size_t count = 0;
    for (uint64_t i = 0; i < batch->count; i++) {
        count += (size_t)xsmi_example_of(e, batch, i).label_count;
    }
    if (!xsmi_reserve(e->context, &s->labels, &s->label_capacity, count, sizeof *s->labels)) {
        return xsmi_fail_memory(err, count * sizeof *s->labels, "the labels of a batch");
    }
    uint32_t *next = s->labels;
    for (uint64_t i = 0; i < batch->count; i++) {
        const xsm_example x = xsmi_example_of(e, batch, i);
        memcpy(next, x.labels, (size_t)x.label_count * sizeof *next);
        next += x.label_count;
    }
    const xsm_index_source weights = {
        .size = sizeof weights,
        .context = e->context,
        .state = e->model,
        .count = e->model->classes,
        .width = e->model->features + 1,
        .seed = (uint64_t)s->sampler->common.seed,
        .read = read_weights,
    };
    const xsm_sampler_step step = {sizeof step, s->labels, count, e->position, &weights};
    return s->sampler->ops.follow(s->sampler->state, &step, err);
}

xsm_status xsmi_estimator_check_draws(const xsm_estimator *e, xsm_error *err)
{
    return e->sampling.sampler ? xsmi_draw_check(e->sampling.sampler, &e->sampling.fault, err) : XSM_OK;
}

void xsmi_estimator_select(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count)
{
    if (e->ops.kind == XSM_ESTIMATOR_HIERARCHY) {
        xsmi_hierarchy_select(e, g, first, count);
        return;
    }
    if (!e->sampling.sampler) {
        e->ops.select(e->state, g->example + first, count, g->classes + first * g->width, g->lengths + first);
        return;
    }
    if (g->shared.count > 0) {
        xsmi_shared_select(e, g, first, count);
        return;
    }
    const size_t length = e->sampling.sampler->code_length;
    for (uint64_t start = first, n; start < first + count; start += n) {
        xsmi_draw_list lists[XSM_SAMPLER_ROWS];
        n = first + count - start < XSM_SAMPLER_ROWS ? first + count - start : XSM_SAMPLER_ROWS;
        for (uint64_t i = start; i < start + n; i++) {
            const xsm_example *example = &g->example[i];
            const float *code = g->work.coded       ? g->work.codes + i * length
                                : e->sampling.codes ? e->sampling.codes + example->row * length
                                                    : NULL;
            const uint64_t offset = i * g->width;
            lists[i - start] = (xsmi_draw_list){
                code,
                example->position,
                example->labels,
                (uint32_t)example->label_count,
                g->classes + offset,
                g->work.log_expected + offset,
                g->work.draws + offset,
                g->lengths + i,
            };
            for (size_t at = 0; code && at < length; at += XSMI_LINE) { /* rows come in any order */
                __builtin_prefetch(code + at, 0, 3);
            }
        }
        xsmi_sampler_lists(e->sampling.sampler, &e->sampling.rule, (uint64_t)e->common.seed, lists, (uint32_t)n);
    }
}
