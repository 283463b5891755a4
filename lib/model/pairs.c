/*
 * Values of pairs of a feature and a class that occur together in training rows: a linear part beside an embedding
 * model's vectors, as sparse as the rows, computed from counts. The score of class k for row x grows by sum_j x_j v_jk,
 * with
 *
 *     v_jk = strength log(1 + 4 p(k|j) / (K p(k))),   p(k|j) = C_jk / (1 + sum_l C_jl),   p(k) = n_k / sum_l n_l,
 *
 * where C_jk is the sum of x_j > 0 over the rows with label k, and n_k their number. p(k|j) / p(k) is the ratio of
 * pointwise mutual information (Church and Hanks 1990). The 1 in the logarithm bounds it from below: pairs that did not
 * occur have the value 0. Among classes of equal size, one that follows feature j with probability p gets log(1 + 4p).
 */
#include "base/base.h"
#include "base/held.h"
#include "data/dataset.h"

#include "base/activity.h"
#include "model/head.h"
#include "base/entry.h"
#include "base/order.h"
#include "ranks/comm.h"
#include "model/score.h"

#include <math.h>
#include <string.h>

#define XSM_EXPERIMENTAL
#include <xsoftmax/experimental.h>

typedef struct xsmi_pairs {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    uint32_t features, classes;
    size_t count;
    uint32_t *counts; /* [features] number of classes of each feature */
    uint64_t *start;  /* [features+1] where the classes of each feature begin */
    uint32_t *class;  /* [count] rising for each feature */
    float *value;     /* [count] */
} xsmi_pairs;

/* The 4 in the formula. */
#define RATIO_FACTOR 4.0
/* Numbers of rows or labels, and of values of rows, between two polls. */
#define ROWS_TOGETHER 4096
#define VALUES_TOGETHER 4096

/* Makes room for counts[j] classes of feature j; `counts` [features] is copied. `p` must be zeros; clear_pairs()
 * releases it at any stage. */
static xsm_status start_pairs(xsm_context *ctx, const uint32_t *counts, uint32_t features, uint32_t classes,
                              xsmi_pairs *p, xsm_error *err)
{
    p->context = p->held.context = xsmi_context_retain(ctx);
    p->features = features;
    p->classes = classes;
    p->counts = xsmi_hold(&p->held, features, sizeof *p->counts);
    p->start = xsmi_hold(&p->held, (size_t)features + 1, sizeof *p->start);
    XSMI_TRY(xsmi_held_check(&p->held, "the pairs of features", err));
    uint64_t total = 0;
    for (uint32_t j = 0; j < features; j++) {
        p->counts[j] = counts[j];
        p->start[j] = total;
        total += counts[j];
    }
    p->start[features] = total;
    p->count = total < SIZE_MAX / sizeof(double) ? (size_t)total : SIZE_MAX / sizeof(double);
    p->class = xsmi_hold(&p->held, p->count, sizeof *p->class);
    p->value = xsmi_hold(&p->held, p->count, sizeof *p->value);
    return xsmi_held_check(&p->held, "pairs of a feature and a class", err);
}

static void clear_pairs(xsmi_pairs *p)
{
    xsmi_held_release(&p->held);
    xsm_context_free(p->context);
    memset(p, 0, sizeof *p);
}

/* Checks pairs from a file: whether classes exist and rise for each feature, and values are finite. */
static bool are_sound(const xsmi_pairs *p)
{
    for (uint32_t j = 0; j < p->features; j++) {
        for (uint64_t i = p->start[j]; i < p->start[j + 1]; i++) {
            const bool rises = i == p->start[j] || p->class[i] > p->class[i - 1];
            if (!rises || p->class[i] >= p->classes || !isfinite(p->value[i])) {
                return false;
            }
        }
    }
    return true;
}

/* -- counting ------------------------------------------------------------------------------------------------------ */

/* The rows of each class: visited class by class, each feature meets its classes in rising order. */
typedef struct by_class {
    uint64_t *start; /* [classes+1] */
    uint64_t *row;   /* [labels] */
    size_t classes, labels;
} by_class;

/* The state of each feature at the class being counted. */
typedef struct tally {
    uint32_t *last;   /* the last class so far, XSMI_NO_CLASS before the first */
    uint32_t *counts; /* number of classes so far */
    double *sum;      /* C_jk of the last class */
    double *all;      /* sum of C_jk over all classes */
    size_t features;
} tally;

static xsm_status sort_rows(xsm_context *ctx, const xsm_dataset *d, by_class *by, xsm_error *err)
{
    memset(by->start, 0, (by->classes + 1) * sizeof *by->start);
    for (uint64_t i = 0; i < d->counted.labels; i++) {
        if (i % ROWS_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(ctx, err));
        }
        by->start[d->labels[i] + 1]++;
    }
    for (size_t k = 0; k < by->classes; k++) {
        by->start[k + 1] += by->start[k];
    }
    for (uint64_t i = 0; i < d->rows; i++) {
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(d, i, &count);
        if (i % ROWS_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(ctx, err));
        }
        for (size_t l = 0; l < count; l++) {
            by->row[by->start[labels[l]]++] = i;
        }
    }
    /* Each start is now that of the next class. */
    memmove(by->start + 1, by->start, by->classes * sizeof *by->start);
    by->start[0] = 0;
    return XSM_OK;
}

/* Counts and sums over the rows of each class; with `p` also stores each feature's classes and sums there. */
static xsm_status tally_rows(xsm_context *ctx, const xsm_dataset *d, const by_class *by, tally *t, xsmi_pairs *p,
                             xsm_error *err)
{
    for (size_t j = 0; j < t->features; j++) {
        t->last[j] = XSMI_NO_CLASS;
        t->counts[j] = 0;
        t->all[j] = 0;
    }
    size_t values = 0; /* since the last poll */
    for (uint32_t k = 0; k < by->classes; k++) {
        for (uint64_t i = by->start[k]; i < by->start[k + 1]; i++) {
            xsmi_features x = xsmi_dataset_features(d, by->row[i]);
            values += x.count;
            if (i == 0 || values >= VALUES_TOGETHER) {
                XSMI_TRY(xsmi_go_on(ctx, err));
                values = 0;
            }
            xsmi_advance(ctx, 1);
            for (size_t f = 0; f < x.count; f++) {
                const uint32_t j = x.index[f];
                if (!(x.values[f] > 0)) {
                    continue;
                }
                if (t->last[j] != k) {
                    t->last[j] = k;
                    t->counts[j]++;
                    t->sum[j] = 0;
                }
                t->sum[j] += (double)x.values[f];
                t->all[j] += (double)x.values[f];
                if (p) {
                    const uint64_t position = p->start[j] + t->counts[j] - 1;
                    p->class[position] = k;
                    p->value[position] = (float)t->sum[j];
                }
            }
        }
    }
    return XSM_OK;
}

static xsm_status set_values(xsm_context *ctx, const by_class *by, const tally *t, double strength, xsmi_pairs *p,
                             xsm_error *err)
{
    uint64_t looked = 0;
    for (uint32_t j = 0; j < p->features; j++) {
        if (j == 0 || p->start[j] - looked >= VALUES_TOGETHER) {
            XSMI_TRY(xsmi_go_on(ctx, err));
            looked = p->start[j];
        }
        for (uint64_t i = p->start[j]; i < p->start[j + 1]; i++) {
            const uint32_t k = p->class[i];
            const double share = (double)(by->start[k + 1] - by->start[k]) / (double)by->labels;
            const double ratio = (double)p->value[i] / (1 + t->all[j]) / (share * (double)by->classes);
            p->value[i] = (float)(strength * log1p(RATIO_FACTOR * ratio));
            if (!isfinite(p->value[i])) {
                return xsmi_fail(err, XSM_ERROR_RANGE, "with a strength of %g what pairs have is not finite", strength);
            }
        }
    }
    return XSM_OK;
}

/* Counts pairs in the rows of a sparse dataset. O(non-zeros times labels). `count` is 0 if no pair occurs. */
static xsm_status count_pairs(xsm_context *ctx, const xsm_dataset *d, double strength, xsmi_pairs *p, xsm_error *err)
{
    by_class by = {.classes = d->classes, .labels = (size_t)d->counted.labels};
    tally t = {.features = d->features};
    xsmi_held held = {.context = ctx};
    by.start = xsmi_hold(&held, by.classes + 1, sizeof *by.start);
    by.row = xsmi_hold(&held, by.labels, sizeof *by.row);
    t.last = xsmi_hold(&held, t.features, sizeof *t.last);
    t.counts = xsmi_hold(&held, t.features, sizeof *t.counts);
    t.sum = xsmi_hold(&held, t.features, sizeof *t.sum);
    t.all = xsmi_hold(&held, t.features, sizeof *t.all);
    xsm_status status = xsmi_held_check(&held, "counts of features and classes", err);
    status = status == XSM_OK ? sort_rows(ctx, d, &by, err) : status;
    status = status == XSM_OK ? tally_rows(ctx, d, &by, &t, NULL, err) : status;
    status = status == XSM_OK ? start_pairs(ctx, t.counts, d->features, d->classes, p, err) : status;
    status = status == XSM_OK ? tally_rows(ctx, d, &by, &t, p, err) : status;
    status = status == XSM_OK ? set_values(ctx, &by, &t, strength, p, err) : status;
    if (status != XSM_OK) {
        clear_pairs(p);
    }
    xsmi_held_release(&held);
    return status;
}

/* -- scoring ------------------------------------------------------------------------------------------------------- */

/* Returns the first position of feature j whose class is not below `class`. */
static uint64_t find(const xsmi_pairs *p, uint32_t j, uint32_t class)
{
    const uint64_t start = p->start[j];
    return start + xsmi_lower_bound(p->class + start, (size_t)(p->start[j + 1] - start), class);
}

/* Adds the row's pairs to the scores of `count` classes from `first` on, `stride` floats apart. A class gets the same
 * bits in every range. */
static void add_range(const xsmi_pairs *p, const xsmi_features *x, uint32_t first, uint32_t count, float *scores,
                      size_t stride)
{
    for (size_t f = 0; f < x->count; f++) {
        const uint32_t j = x->index ? x->index[f] : (uint32_t)f;
        const uint64_t end = p->start[j + 1];
        for (uint64_t i = find(p, j, first); i < end && p->class[i] - first < count; i++) {
            scores[(size_t)(p->class[i] - first) * stride] += x->values[f] * p->value[i];
        }
    }
}

/* Adds them to the scores of chosen classes. */
static void add_to_chosen(const xsmi_pairs *p, const xsmi_features *x, const uint32_t *classes, size_t count,
                          float *scores)
{
    for (size_t c = 0; c < count; c++) {
        add_range(p, x, classes[c], 1, scores + c, 1);
    }
}

/* -- the correction ------------------------------------------------------------------------------------------------ */

/*
 * A correction by pairs of features and classes (experimental.h), counted in training rows. In a file: `pair_counts`
 * U32 [D], how many classes each feature has; feature by feature the classes in rising order, `pair_classes` U32; and
 * their values, `pair_values` F32.
 */

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
    clear_pairs(&((correction_of_pairs *)c)->pairs);
}

static void add_chosen(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                       float *scratch)
{
    (void)scratch;
    add_to_chosen(pairs_of(c), x, classes, count, scores);
}

static void add_tile(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                     const void *prepared, float *scores)
{
    (void)prepared;
    for (size_t l = 0; tile->lanes && l < count; l++) {
        add_range(pairs_of(c), &rows[l], tile->first, tile->count, scores + l, XSMI_LANES);
    }
    if (!tile->lanes) {
        add_range(pairs_of(c), &rows[tile->row], tile->first, tile->count, scores, 1);
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
    xsm_status status = start_pairs(s->context, counts, s->features, s->classes, &pairs, err);
    if (status == XSM_OK) {
        memcpy(pairs.class, t[1]->data, t[1]->size);
        memcpy(pairs.value, t[2]->data, t[2]->size);
        status = are_sound(&pairs) ? of_pairs(s->context, &pairs, out, err) : bad_pairs(s, err);
    }
    clear_pairs(&pairs);
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

static xsm_status add_pairs(xsm_model *m, const xsm_dataset *train, double strength, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_model_add_pairs", XSMI_GIVEN({train, "the data"}), err));
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
    xsm_status status = xsmi_end(&activity, count_pairs(m->context, train, strength, &pairs, err), err);
    if (status == XSM_OK && pairs.count > 0) {
        status = of_pairs(m->context, &pairs, &correction, err);
    }
    status = xsmi_agree(group, status, err);
    if (status == XSM_OK) {
        xsmi_model_set_head(m, correction);
    }
    xsmi_head_release(correction);
    clear_pairs(&pairs);
    return status;
}

xsm_status xsm_model_add_pairs(xsm_model *m, const xsm_dataset *train, double strength, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "the model"});
    return XSMI_COLLECTIVE(xsmi_model_group(m), add_pairs(m, train, strength, err), err);
}
