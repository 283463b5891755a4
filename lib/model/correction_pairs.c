/*
 * A correction by pairs of features and classes (experimental.h), counted in training rows. In a file: `pair_counts`
 * U32 [D], how many classes each feature has; feature by feature the classes in rising order, `pair_classes` U32; and
 * their values, `pair_values` F32.
 */
#include "model/head.h"
#include "base/activity.h"
#include "base/entry.h"
#include "ranks/comm.h"
#include "model/score.h"
#include "model/pairs.h"

#include <math.h>
#include <string.h>

#define XSM_EXPERIMENTAL
#include <xsoftmax/experimental.h>

typedef struct correction_of_pairs {
    xsmi_head base;
    xsmi_pairs pairs;
} correction_of_pairs;

static const xsmi_pairs *pairs_of(const xsmi_head *c)
{
    return &((const correction_of_pairs *)c)->pairs;
}

/* Makes a correction of the contents of `pairs`, which is left empty. */
static xsm_status of_pairs(xsm_context *ctx, xsmi_pairs *pairs, xsmi_head **out, xsm_error *err)
{
    XSMI_TRY(xsmi_head_new(ctx, &xsmi_pairs_head, pairs->classes, out, err));
    ((correction_of_pairs *)*out)->pairs = *pairs;
    memset(pairs, 0, sizeof *pairs);
    return XSM_OK;
}

static void clear(xsmi_head *c)
{
    xsmi_pairs_clear(&((correction_of_pairs *)c)->pairs);
}

static void add_chosen(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                       float *scratch)
{
    (void)scratch;
    xsmi_pairs_add(pairs_of(c), x, classes, count, scores);
}

static void add_tile(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                     const void *prepared, float *scores)
{
    (void)prepared;
    for (size_t l = 0; tile->lanes && l < count; l++) {
        xsmi_pairs_add_range(pairs_of(c), &rows[l], tile->first, tile->count, scores + l, XSMI_LANES);
    }
    if (!tile->lanes) {
        xsmi_pairs_add_range(pairs_of(c), &rows[tile->row], tile->first, tile->count, scores, 1);
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static const char *const tensor_names[] = {"pair_counts", "pair_classes", "pair_values", NULL};

static xsmi_tensor list(const char *name, xsmi_dtype dtype, size_t count, const void *data)
{
    const size_t size = count * xsmi_dtype_size(dtype);
    return (xsmi_tensor){.name = name, .dtype = dtype, .rank = 1, .shape = {count}, .size = size, .data = data};
}

static size_t save(const xsmi_head *c, xsmi_tensor *tensors)
{
    const xsmi_pairs *p = pairs_of(c);
    tensors[0] = list(tensor_names[0], XSMI_DTYPE_U32, p->features, p->counts);
    tensors[1] = list(tensor_names[1], XSMI_DTYPE_U32, p->count, p->class);
    tensors[2] = list(tensor_names[2], XSMI_DTYPE_F32, p->count, p->value);
    return 3;
}

static xsm_status bad_pairs(const xsmi_tensor_source *s, xsm_error *err)
{
    return xsmi_fail(
        err, XSM_ERROR_FORMAT,
        "%s: tensors 'pair_counts', 'pair_classes' and 'pair_values' must hold how many classes each of the "
        "%u features has, those below %u, rising for each feature, and a finite F32 for each",
        s->name, s->features, s->classes);
}

static xsm_status load(const xsmi_tensor_source *s, xsmi_head **out, xsm_error *err)
{
    const xsmi_tensor *const *t = s->tensors;
    const uint64_t count = t[1] && t[1]->rank == 1 ? t[1]->shape[0] : 0;
    if (count == 0 || !xsmi_tensor_is(t[0], XSMI_DTYPE_U32, 1, s->features, 0) ||
        !xsmi_tensor_is(t[1], XSMI_DTYPE_U32, 1, count, 0) || !xsmi_tensor_is(t[2], XSMI_DTYPE_F32, 1, count, 0)) {
        return bad_pairs(s, err);
    }
    const uint32_t *counts = (const uint32_t *)(const void *)t[0]->data;
    uint64_t total = 0;
    for (uint32_t j = 0; j < s->features; j++) {
        total += counts[j];
    }
    if (total != count) {
        return bad_pairs(s, err);
    }
    xsmi_pairs pairs;
    memset(&pairs, 0, sizeof pairs);
    xsm_status status = xsmi_pairs_start(s->context, counts, s->features, s->classes, &pairs, err);
    if (status == XSM_OK) {
        memcpy(pairs.class, t[1]->data, t[1]->size);
        memcpy(pairs.value, t[2]->data, t[2]->size);
        status = xsmi_pairs_sound(&pairs) ? of_pairs(s->context, &pairs, out, err) : bad_pairs(s, err);
    }
    xsmi_pairs_clear(&pairs);
    return status;
}

const xsmi_head_kind xsmi_pairs_head = {
    .number = XSM_CORRECTION_PAIRS,
    .name = "pairs",
    .described = "pairs of features and classes",
    .size = sizeof(correction_of_pairs),
    .clear = clear,
    .chosen = add_chosen,
    .tile = add_tile,
    .tensor_names = tensor_names,
    .save = save,
    .load = load,
};

/* -- models -------------------------------------------------------------------------------------------------------- */

xsm_status xsm_model_add_pairs(xsm_model *m, const xsm_dataset *train, double strength, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"}, {train, "the data"});
    if (!(strength > 0) || isinf(strength)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the strength of pairs is %g; accepted is above 0", strength);
    }
    XSMI_TRY(xsmi_model_need_dense(xsmi_model_weights(m), "adding pairs", err));
    if (train->features != xsmi_model_input(m) || train->classes != m->classes) {
        return xsmi_fail(err, XSM_ERROR_SHAPE,
                         "rows of %u features and %u classes for a model of %u features and %u classes",
                         train->features, train->classes, xsmi_model_input(m), m->classes);
    }
    if (!train->sparse) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "pairs are counted in sparse rows; in dense ones every feature is with every class");
    }
    if (train->counted.unseen_labels > 0) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "%llu labels of the rows are of no class of the model; pairs are counted in rows without such",
                         (unsigned long long)train->counted.unseen_labels);
    }
    if (m->head && m->head->kind != &xsmi_pairs_head) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's scores have a correction already, by '%s'; clear it before, or do without pairs",
                         m->head->kind->name);
    }
    xsmi_pairs pairs;
    memset(&pairs, 0, sizeof pairs);
    xsmi_activity activity;
    /* There are two passes over the row of each label. */
    xsmi_begin(&activity, m->context, "counting pairs", "rows", 2 * train->counted.labels);
    xsm_context *group = xsmi_model_group(m);
    xsmi_head *correction = NULL;
    xsm_status status = xsmi_end(&activity, xsmi_pairs_count(m->context, train, strength, &pairs, err), err);
    if (status == XSM_OK && pairs.count > 0) {
        status = of_pairs(m->context, &pairs, &correction, err);
    }
    status = xsmi_agree(group, status, err);
    if (status == XSM_OK) {
        xsmi_model_set_head(m, correction);
    }
    xsmi_head_release(correction);
    xsmi_pairs_clear(&pairs);
    return status;
}
