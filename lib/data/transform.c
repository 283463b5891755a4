/*
 * Row transforms: a list of steps, what they learn from training rows, and their application in place. `log` is the
 * sublinear term frequency of Manning, Raghavan and Schuetze (Introduction to Information Retrieval, 2008, 6.4.1).
 * Means and variances are updated row by row (Welford, Note on a method for calculating corrected sums of squares and
 * products, Technometrics 4(3), 1962); the zeros that sparse rows leave out are added at the end, as Chan, Golub and
 * LeVeque merge two samples (Algorithms for computing the sample variance, The American Statistician 37(3), 1983).
 *
 * The idf weights are kept as float32, so that a model that stores them gives the same rows.
 */
#include "data/products.h"
#include "base/utf8.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "base/order.h"
#include "math/logarithm.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum step_kind { TRUNCATE, LOG, TFIDF, STANDARD, UNIT, PRODUCTS, STEP_KINDS };

/* For each kind of step: what its value counts (NULL: it takes none) and the least value; the most is
 * XSM_FEATURES_MAX. */
static const struct {
    const char *name, *counts;
    uint32_t least;
} step_kinds[STEP_KINDS] = {
    [TRUNCATE] = {"truncate", "features", 0}, [LOG] = {"log", NULL, 0},   [TFIDF] = {"tfidf", NULL, 0},
    [STANDARD] = {"standard", NULL, 0},       [UNIT] = {"unit", NULL, 0}, [PRODUCTS] = {"products", "rows", 1},
};
#define STEPS_KNOWN "truncate=N, log, tfidf, standard, unit and products=N are known, and none, alone"
#define NO_STEPS "none"

typedef struct step {
    enum step_kind kind;
    uint32_t value;
} step;

struct xsm_transform {
    xsm_context *context;
    char *description;
    step *steps;
    size_t count;
    bool fitted;
    uint32_t features; /* fitted for */
    float *idf;        /* with tfidf, when fitted */
    uint32_t idf_count, columns;
    double *standard;       /* with standard, when fitted: [2, columns] the means, then the scales */
    bool centred;           /* a mean is not 0 */
    xsmi_products products; /* with products, when fitted */
};

/* -- descriptions ------------------------------------------------------------------------------------------------- */

static size_t skip_spaces(const char *text, size_t length, size_t at)
{
    while (at < length && xsmi_is_space(text[at])) {
        at++;
    }
    return at;
}

/* Parses the value of a step in [text, text+length), where [text, text+at) is its name. */
static xsm_status parse_value(const char *text, size_t length, size_t at, step *out, xsm_error *err)
{
    uint64_t n = 0;
    bool digits = false;
    at = skip_spaces(text, length, at);
    if (!step_kinds[out->kind].counts) {
        return at == length ? XSM_OK
                            : xsmi_fail(err, XSM_ERROR_RANGE, "the transform step %s takes no value",
                                        step_kinds[out->kind].name);
    }
    if (at < length) {
        at = skip_spaces(text, length, at + 1); /* the '=' */
        for (; at < length && text[at] >= '0' && text[at] <= '9'; at++) {
            digits = true;
            n = n * 10 + (uint64_t)(text[at] - '0');
            n = n > XSM_FEATURES_MAX ? (uint64_t)XSM_FEATURES_MAX + 1 : n;
        }
    }
    if (!digits || at < length || n > XSM_FEATURES_MAX || n < step_kinds[out->kind].least) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "the transform step '%.*s' needs a number of %s: %s=N, N from %" PRIu32 " to %u",
                         length < 40 ? (int)length : 40, text, step_kinds[out->kind].counts, step_kinds[out->kind].name,
                         step_kinds[out->kind].least, (unsigned)XSM_FEATURES_MAX);
    }
    out->value = (uint32_t)n;
    return XSM_OK;
}

/* Parses one step from [text, text+length), which may have spaces around it and around its '='. */
static xsm_status parse_step(const char *text, size_t length, step *out, xsm_error *err)
{
    const size_t first = skip_spaces(text, length, 0);
    text += first;
    length -= first;
    while (length > 0 && xsmi_is_space(text[length - 1])) {
        length--;
    }
    size_t name = 0;
    while (name < length && text[name] != '=' && !xsmi_is_space(text[name])) {
        name++;
    }
    for (int kind = 0; kind < STEP_KINDS; kind++) {
        if (strlen(step_kinds[kind].name) == name && memcmp(step_kinds[kind].name, text, name) == 0) {
            *out = (step){(enum step_kind)kind, 0};
            return parse_value(text, length, name, out, err);
        }
    }
    return xsmi_fail(err, XSM_ERROR_NAME, "no transform step '%.*s'; " STEPS_KNOWN, name < 40 ? (int)name : 40, text);
}

static bool has_no_steps(const char *text)
{
    size_t length = strlen(text);
    while (length > 0 && xsmi_is_space(text[length - 1])) {
        length--;
    }
    const size_t first = skip_spaces(text, length, 0);
    return first == length ||
           (length - first == strlen(NO_STEPS) && memcmp(text + first, NO_STEPS, length - first) == 0);
}

static xsm_status parse(xsm_transform *t, const char *description, xsm_error *err)
{
    size_t count = 0;
    if (!has_no_steps(description)) {
        count = 1;
        for (const char *p = description; *p; p++) {
            count += *p == ',';
        }
    }
    XSMI_TRY(xsmi_array_new(t->context, &t->steps, count, sizeof *t->steps, "a transform", err));
    t->count = count;
    const char *p = description;
    bool has[STEP_KINDS] = {false};
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(p, ",");
        XSMI_TRY(parse_step(p, length, &t->steps[i], err));
        const enum step_kind kind = t->steps[i].kind;
        if ((kind == TFIDF || kind == STANDARD || kind == PRODUCTS) && has[kind]) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "the transform has the step %s twice; it is accepted once",
                             step_kinds[kind].name);
        }
        if (kind == TFIDF && (has[STANDARD] || has[PRODUCTS])) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "the transform has the step tfidf behind %s; it is accepted before it",
                             step_kinds[has[STANDARD] ? STANDARD : PRODUCTS].name);
        }
        has[kind] = true;
        p += length + 1;
    }
    return XSM_OK;
}

/* A name with '=' and ten digits, with the comma or the end. */
#define STEP_TEXT 24

static xsm_status describe(xsm_transform *t, xsm_error *err)
{
    char *text;
    XSMI_TRY(xsmi_array_new(t->context, &text, t->count * STEP_TEXT + 1, 1, "a transform", err));
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < t->count; i++) {
        const step *s = &t->steps[i];
        const char *name = step_kinds[s->kind].name, *comma = i ? "," : "";
        int n = step_kinds[s->kind].counts ? snprintf(text + used, STEP_TEXT, "%s%s=%" PRIu32, comma, name, s->value)
                                           : snprintf(text + used, STEP_TEXT, "%s%s", comma, name);
        used += (size_t)n;
    }
    t->description = xsmi_copy_text(t->context, text, used);
    xsmi_release(t->context, text, t->count * STEP_TEXT + 1, 1);
    return t->description ? XSM_OK : xsmi_fail_memory(err, used + 1, "a transform");
}

xsm_status xsm_transform_new(xsm_context *context, const char *description, xsm_transform **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {out, "out"}, {description, "description"});
    xsm_transform *t;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &t, xsm_transform, "a transform", err));
    xsm_status status = parse(t, description, err);
    if (status == XSM_OK) {
        status = describe(t, err);
    }
    if (status != XSM_OK) {
        xsm_transform_free(t);
        return status;
    }
    *out = t;
    return XSM_OK;
}

static void free_learned(xsm_transform *t)
{
    xsmi_release(t->context, t->idf, t->idf_count, sizeof *t->idf);
    xsmi_release(t->context, t->standard, t->columns, 2 * sizeof *t->standard);
    xsmi_products_free(t->context, &t->products);
}

void xsm_transform_free(xsm_transform *t)
{
    if (t) {
        xsm_context *ctx = t->context;
        xsmi_release_text(ctx, t->description);
        xsmi_release(ctx, t->steps, t->count, sizeof *t->steps);
        free_learned(t);
        XSMI_OBJECT_FREE(t, xsm_transform);
    }
}

const char *xsmi_transform_description(const xsm_transform *t)
{
    return t->description;
}

/* -- fitting ------------------------------------------------------------------------------------------------------ */

/* Returns the features of rows before step number `until`, if the step products adds `products`. */
static uint32_t features_at(const xsm_transform *t, uint32_t features, uint32_t products, size_t until)
{
    for (size_t i = 0; i < until; i++) {
        if (t->steps[i].kind == TRUNCATE && t->steps[i].value < features) {
            features = t->steps[i].value;
        } else if (t->steps[i].kind == PRODUCTS) {
            features += products;
        }
    }
    return features;
}

/* Returns the number of the step of a kind, or count if there is none. */
static size_t find_step(const xsm_transform *t, enum step_kind kind)
{
    size_t i = 0;
    while (i < t->count && t->steps[i].kind != kind) {
        i++;
    }
    return i;
}

/* Rows between two polls. */
#define ROWS_TOGETHER 256
/* Columns between two polls. */
#define COLUMNS_TOGETHER 4096

/* Polls before a row, now and then. */
static xsm_status reach(xsmi_activity *activity, const xsm_transform *t, uint64_t row, xsm_error *err)
{
    if (row % ROWS_TOGETHER != 0) {
        return XSM_OK;
    }
    xsmi_reach(activity, row);
    return xsmi_go_on(t->context, err);
}

/* A row that is transformed in memory of its own. */
typedef struct scratch {
    float *values;
    uint32_t *index; /* NULL: of a dense row */
    size_t value_capacity, index_capacity;
} scratch;

static void free_scratch(xsm_context *ctx, const scratch *s)
{
    xsmi_release(ctx, s->values, s->value_capacity, sizeof *s->values);
    xsmi_release(ctx, s->index, s->index_capacity, sizeof *s->index);
}

static xsm_status take_steps(const xsm_transform *t, size_t steps, uint32_t *index, float *values, size_t *count,
                             uint64_t row, xsm_error *err);

/* Sets *out to row i of the dataset after the first steps. Polls now and then. */
static xsm_status after_steps(const xsm_transform *t, size_t steps, const xsm_dataset *d, uint64_t i,
                              xsmi_activity *activity, scratch *s, xsmi_features *out, xsm_error *err)
{
    *out = xsmi_dataset_features(d, i);
    XSMI_TRY(reach(activity, t, i, err));
    if (steps == 0 || out->count == 0) {
        return XSM_OK;
    }
    size_t room;
    XSMI_TRY(xsmi_transform_row_room(t, out->count, &room, err));
    XSMI_TRY(XSMI_GROW(t->context, s->values, s->value_capacity, room, "a transformed row", err));
    memcpy(s->values, out->values, out->count * sizeof *s->values);
    if (d->sparse) {
        XSMI_TRY(XSMI_GROW(t->context, s->index, s->index_capacity, room, "a transformed row", err));
        memcpy(s->index, out->index, out->count * sizeof *s->index);
    }
    XSMI_TRY(take_steps(t, steps, s->index, s->values, &out->count, i, err));
    out->values = s->values;
    out->index = s->index;
    return XSM_OK;
}

/* Counts the rows in which each feature is not zero. No step before tfidf or products turns a zero into another value
 * or back (division by a norm can only underflow values that do not matter), so that the untransformed rows are
 * counted. */
static xsm_status count_rows(const xsm_transform *t, const xsm_dataset *d, uint32_t features, uint64_t *counts,
                             xsm_error *err)
{
    xsmi_activity activity;
    xsm_status status = XSM_OK;
    xsmi_begin(&activity, t->context, "fitting a transform", "rows", d->rows);
    for (uint64_t i = 0; i < d->rows && status == XSM_OK; i++) {
        status = reach(&activity, t, i, err);
        xsmi_features f = xsmi_dataset_features(d, i);
        for (size_t j = 0; j < f.count; j++) {
            uint32_t feature = f.index ? f.index[j] : (uint32_t)j;
            if (feature >= features) {
                break;
            }
            counts[feature] += f.values[j] != 0;
        }
    }
    return xsmi_end(&activity, status, err);
}

/* Sets *end to one more than the largest feature that rows have: far less than `features`, if a file claims more. */
static xsm_status find_end(const xsm_transform *t, const xsm_dataset *d, uint32_t features, uint32_t *end,
                           xsm_error *err)
{
    *end = d->sparse ? 0 : features;
    for (uint64_t i = 0; d->sparse && i < d->rows; i++) {
        const xsmi_features f = xsmi_dataset_features(d, i);
        const uint32_t above = f.count > 0 ? f.index[f.count - 1] + 1 : 0;
        *end = XSMI_MAX(*end, XSMI_MIN(above, features));
        XSMI_TRY(i % ROWS_TOGETHER == 0 ? xsmi_go_on(t->context, err) : XSM_OK);
    }
    return XSM_OK;
}

/* Computes the idf weights of features, for a transform that has none yet. */
static xsm_status fit_idf(xsm_transform *to, const xsm_dataset *d, uint32_t features, xsm_error *err)
{
    xsm_context *ctx = to->context;
    uint32_t end;
    XSMI_TRY(find_end(to, d, features, &end, err));
    to->idf = xsmi_allocate(ctx, features, sizeof *to->idf);
    uint64_t *counts = xsmi_allocate_zero(ctx, end, sizeof *counts);
    xsm_status status = XSM_OK;
    if (to->idf && counts) { /* features beyond those of the rows share one logarithm */
        const float unseen = (float)(xsmi_logarithm(1 + (double)d->rows) + 1);
        to->idf_count = features;
        status = count_rows(to, d, features, counts, err);
        for (uint32_t j = 0; j < features && status == XSM_OK; j++) {
            to->idf[j] =
                j < end ? (float)(xsmi_logarithm((1 + (double)d->rows) / (1 + (double)counts[j])) + 1) : unseen;
            status = j % COLUMNS_TOGETHER == 0 ? xsmi_go_on(ctx, err) : XSM_OK;
        }
    } else {
        xsmi_release(ctx, to->idf, features, sizeof *to->idf);
        to->idf = NULL;
        status = xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory for the weights of %u features", features);
    }
    xsmi_release(ctx, counts, end, sizeof *counts);
    return status;
}

static xsm_status need_sparse(const xsm_dataset *d, xsm_error *err)
{
    return d->sparse ? XSM_OK
                     : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                                 "the transform step products takes sparse rows; these are dense");
}

/* Updates the means of columns, and the sums of squared differences from them, by the rows' values after the first
 * steps. Of sparse rows only the values that they list take part; `counts` gets their number. */
static xsm_status sum_columns(const xsm_transform *t, size_t steps, const xsm_dataset *d, double *mean, double *squares,
                              uint64_t *counts, xsm_error *err)
{
    xsmi_activity activity;
    scratch s = {NULL, NULL, 0, 0};
    xsm_status status = XSM_OK;
    xsmi_begin(&activity, t->context, "fitting a transform", "rows", d->rows);
    for (uint64_t i = 0; i < d->rows && status == XSM_OK; i++) {
        xsmi_features f;
        status = after_steps(t, steps, d, i, &activity, &s, &f, err);
        for (size_t j = 0; j < f.count && status == XSM_OK; j++) {
            const uint32_t column = f.index ? f.index[j] : (uint32_t)j;
            const double n = (double)(f.index ? ++counts[column] : i + 1), from = f.values[j] - mean[column];
            mean[column] += from / n;
            squares[column] += from * (f.values[j] - mean[column]);
        }
    }
    free_scratch(t->context, &s);
    return xsmi_end(&activity, status, err);
}

static void find_means(xsm_transform *t)
{
    for (uint32_t j = 0; j < t->columns && !t->centred; j++) {
        t->centred = t->standard[j] != 0;
    }
}

/* Computes means and scales after the first steps. Sparse rows keep their means, so that zeros stay zeros. */
static xsm_status fit_standard(xsm_transform *to, size_t steps, const xsm_dataset *d, xsm_error *err)
{
    xsm_context *ctx = to->context;
    const uint32_t columns = features_at(to, d->features, to->products.count, steps);
    const double rows = (double)d->rows;
    uint64_t *counts = xsmi_allocate_zero(ctx, columns, sizeof *counts);
    to->standard = xsmi_allocate_zero(ctx, columns, 2 * sizeof *to->standard);
    to->columns = to->standard ? columns : 0;
    xsm_status status = to->standard && counts
                            ? XSM_OK
                            : xsmi_fail_memory(err, 3 * (size_t)columns * sizeof *counts, "means and scales");
    double *mean = to->standard, *scale = to->standard + columns;
    status = status == XSM_OK ? sum_columns(to, steps, d, mean, scale, counts, err) : status;
    for (uint32_t j = 0; j < columns && status == XSM_OK; j++) {
        if (d->sparse) {
            const double n = (double)counts[j];
            scale[j] += mean[j] * mean[j] * n * (rows - n) / rows;
            mean[j] = 0;
        }
        scale[j] = scale[j] > 0 ? sqrt(scale[j] / rows) : 1;
        status = j % COLUMNS_TOGETHER == 0 ? xsmi_go_on(ctx, err) : XSM_OK;
    }
    find_means(to);
    xsmi_release(ctx, counts, columns, sizeof *counts);
    return status;
}

static xsm_status learn(xsm_transform *to, const xsm_dataset *d, xsm_error *err)
{
    for (size_t i = 0; i < to->count; i++) {
        const uint32_t features = features_at(to, d->features, to->products.count, i);
        if (to->steps[i].kind == TFIDF) {
            XSMI_TRY(fit_idf(to, d, features, err));
        } else if (to->steps[i].kind == PRODUCTS) {
            XSMI_TRY(need_sparse(d, err));
            XSMI_TRY(xsmi_products_learn(to->context, d, features, to->steps[i].value, &to->products, err));
        } else if (to->steps[i].kind == STANDARD) {
            XSMI_TRY(fit_standard(to, i, d, err));
        }
    }
    return XSM_OK;
}

xsm_status xsm_transform_fit(xsm_transform *t, const xsm_dataset *d, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "transform"}, {d, "dataset"});
    xsm_transform fitted = *t;
    fitted.idf = NULL;
    fitted.standard = NULL;
    fitted.idf_count = fitted.columns = 0;
    fitted.centred = false;
    fitted.products = (xsmi_products){0};
    fitted.fitted = true;
    fitted.features = d->features;
    xsmi_activity activity;
    xsmi_begin(&activity, t->context, "fitting a transform", "rows", d->rows);
    const xsm_status status = xsmi_end(&activity, learn(&fitted, d, err), err);
    free_learned(status == XSM_OK ? t : &fitted);
    if (status == XSM_OK) {
        *t = fitted;
    }
    return status;
}

xsmi_transform_parts xsmi_transform_get_parts(const xsm_transform *t)
{
    return (xsmi_transform_parts){.description = t->description,
                                  .features = t->features,
                                  .idf = t->idf,
                                  .standard = t->standard,
                                  .pairs = t->products.pairs,
                                  .idf_count = t->idf_count,
                                  .columns = t->columns,
                                  .pair_count = t->products.count};
}

bool xsmi_transform_equal(const xsm_transform *a, const xsm_transform *b)
{
    if (!a || !b) {
        return a == b;
    }
    return strcmp(a->description, b->description) == 0 && a->idf_count == b->idf_count && a->columns == b->columns &&
           a->products.count == b->products.count && a->products.features == b->products.features &&
           (a->idf_count == 0 || memcmp(a->idf, b->idf, a->idf_count * sizeof *a->idf) == 0) &&
           (a->columns == 0 || memcmp(a->standard, b->standard, a->columns * 2 * sizeof *a->standard) == 0) &&
           (a->products.count == 0 ||
            memcmp(a->products.pairs, b->products.pairs, a->products.count * sizeof *a->products.pairs) == 0);
}

bool xsmi_transform_is_fitted(const xsm_transform *t)
{
    return t->fitted;
}

uint32_t xsmi_transform_features(const xsm_transform *t)
{
    return t->features;
}

bool xsmi_transform_may_grow(const xsm_transform *t)
{
    size_t i = 0;
    while (i < t->count && t->steps[i].kind != TRUNCATE && t->steps[i].kind != PRODUCTS) {
        i++;
    }
    return i == t->count;
}

/* Copies a transform's means and scales to [2, features], which may have more columns. */
static xsm_status widen_standard(const xsm_transform *t, uint32_t features, double *to, xsm_error *err)
{
    double *scale = to + features;
    memcpy(scale, t->standard + t->columns, t->columns * sizeof *scale);
    if (!xsmi_heap_sort_polled(t->context, scale, t->columns, sizeof *scale, xsmi_compare_double)) {
        return xsmi_fail_cancelled(t->context, err);
    }
    const double median = scale[t->columns / 2];
    for (uint32_t j = 0; j < features; j++) {
        to[j] = j < t->columns ? t->standard[j] : 0;
        scale[j] = j < t->columns ? t->standard[t->columns + j] : median;
    }
    return XSM_OK;
}

xsm_status xsmi_transform_grown(const xsm_transform *t, uint32_t features, xsm_transform **out, xsm_error *err)
{
    xsm_context *ctx = t->context;
    xsmi_transform_parts parts = xsmi_transform_get_parts(t);
    parts.features = features;
    parts.idf_count = t->idf_count > 0 ? features : 0;
    parts.columns = t->columns > 0 ? features : 0;
    xsmi_held held = {.context = ctx};
    float *idf = xsmi_hold(&held, parts.idf_count, sizeof *idf);
    double *standard = xsmi_hold(&held, parts.columns, 2 * sizeof *standard);
    xsm_status status = xsmi_held_check(&held, "a transform", err);
    if (status == XSM_OK) {
        float largest = 0;
        for (uint32_t j = 0; j < parts.idf_count; j++) {
            idf[j] = j < t->idf_count ? t->idf[j] : largest;
            largest = XSMI_MAX(largest, idf[j]);
        }
        status = t->columns > 0 ? widen_standard(t, features, standard, err) : status;
        parts.idf = parts.idf_count > 0 ? idf : NULL;
        parts.standard = parts.columns > 0 ? standard : NULL;
        status = status == XSM_OK ? xsmi_transform_restore(ctx, &parts, out, err) : status;
    }
    xsmi_held_release(&held);
    return status;
}

uint32_t xsmi_transform_output_features(const xsm_transform *t)
{
    return features_at(t, t->features, t->products.count, t->count);
}

static xsm_status check_idf(const xsm_transform *t, const xsmi_transform_parts *parts, xsm_error *err)
{
    const size_t at = find_step(t, TFIDF);
    const uint32_t expected = at < t->count ? features_at(t, parts->features, 0, at) : 0;
    if (parts->idf_count != expected || (expected > 0 && !parts->idf)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "a stored transform '%.80s' with %u weights; it needs %u",
                         t->description, parts->idf ? parts->idf_count : 0, expected);
    }
    for (uint32_t j = 0; j < expected; j++) {
        if (!(parts->idf[j] > 0 && parts->idf[j] <= FLT_MAX)) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "weight %u of a stored transform is %g; it must be above 0", j,
                             (double)parts->idf[j]);
        }
    }
    return XSM_OK;
}

static xsm_status check_standard(const xsm_transform *t, const xsmi_transform_parts *parts, xsm_error *err)
{
    const size_t at = find_step(t, STANDARD);
    const uint32_t expected = at < t->count ? features_at(t, parts->features, parts->pair_count, at) : 0;
    if (parts->columns != expected || (expected > 0 && !parts->standard)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE,
                         "a stored transform '%.80s' with means and scales of %u columns; it needs %u", t->description,
                         parts->standard ? parts->columns : 0, expected);
    }
    for (uint32_t j = 0; j < expected; j++) {
        const double mean = parts->standard[j], scale = parts->standard[expected + j];
        if (!(fabs(mean) <= (double)FLT_MAX && scale > 0 && scale <= (double)FLT_MAX)) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "column %u of a stored transform has the mean %g and the scale %g; both must be finite in "
                             "float32, and the scale above 0",
                             j, mean, scale);
        }
    }
    return XSM_OK;
}

/* Copies the parts to a transform that was made from their description. */
static xsm_status restore(xsm_transform *t, const xsmi_transform_parts *parts, xsm_error *err)
{
    XSMI_TRY(check_idf(t, parts, err));
    const size_t at = find_step(t, PRODUCTS);
    const uint32_t features = features_at(t, parts->features, 0, at);
    if (parts->pairs ? at == t->count : at < t->count) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "a stored transform '%.80s' with%s pairs of features; it needs %s",
                         t->description, parts->pairs ? "" : "out", parts->pairs ? "none" : "them");
    }
    XSMI_TRY(parts->pairs ? xsmi_products_check(parts->pairs, parts->pair_count, features, err) : XSM_OK);
    XSMI_TRY(check_standard(t, parts, err));
    if (parts->idf_count > 0) {
        XSMI_TRY(
            xsmi_array_new(t->context, &t->idf, parts->idf_count, sizeof *t->idf, "the weights of a transform", err));
        t->idf_count = parts->idf_count;
        memcpy(t->idf, parts->idf, parts->idf_count * sizeof *t->idf);
    }
    if (parts->columns > 0) {
        XSMI_TRY(xsmi_array_new(t->context, &t->standard, parts->columns, 2 * sizeof *t->standard,
                                "the means and scales of a transform", err));
        t->columns = parts->columns;
        memcpy(t->standard, parts->standard, parts->columns * 2 * sizeof *t->standard);
        find_means(t);
    }
    t->fitted = true;
    t->features = parts->features;
    return parts->pairs ? xsmi_products_copy(t->context, parts->pairs, parts->pair_count, features, &t->products, err)
                        : XSM_OK;
}

xsm_status xsmi_transform_restore(xsm_context *ctx, const xsmi_transform_parts *parts, xsm_transform **out,
                                  xsm_error *err)
{
    if (parts->features == 0 || parts->features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a stored transform for %u features; 1 to %u are accepted",
                         parts->features, (unsigned)XSM_FEATURES_MAX);
    }
    xsm_transform *t;
    XSMI_TRY(xsm_transform_new(ctx, parts->description, &t, err));
    const xsm_status status = restore(t, parts, err);
    if (status != XSM_OK) {
        xsm_transform_free(t);
        return status;
    }
    *out = t;
    return XSM_OK;
}

/* -- applying ----------------------------------------------------------------------------------------------------- */

static void dampen_row(float *values, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        const float size = fabsf(values[j]);
        if (size > 1) {
            values[j] = copysignf((float)(1 + xsmi_logarithm((double)size)), values[j]);
        }
    }
}

static xsm_status fail_overflow(const char *name, uint64_t row, uint32_t feature, float value, const char *operation,
                                double by, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_RANGE,
                     "%s: row %" PRIu64 ", feature %u (both from 0): %g %s %g is too large for float32", name, row,
                     feature, (double)value, operation, by);
}

/* Multiplies a row by the idf weights, which can be up to 45, so that large values may overflow float32. */
static xsm_status weigh_row(const xsmi_features *f, float *values, const float *idf, uint64_t row, xsm_error *err)
{
    for (size_t j = 0; j < f->count; j++) {
        const uint32_t feature = f->index ? f->index[j] : (uint32_t)j;
        const float weighed = values[j] * idf[feature];
        if (!isfinite(weighed)) {
            return fail_overflow("tfidf", row, feature, values[j], "times the weight", (double)idf[feature], err);
        }
        values[j] = weighed;
    }
    return XSM_OK;
}

/* Adds to a sparse row the zeros of the features that it leaves out; the arrays have room for them. */
static void list_zeros(uint32_t *index, float *values, size_t *count, uint32_t features)
{
    size_t left = *count;
    for (uint32_t j = features; j-- > 0;) { /* reading is always ahead of writing */
        values[j] = left > 0 && index[left - 1] == j ? values[--left] : 0;
        index[j] = j;
    }
    *count = features;
}

static xsm_status standardise_row(const xsm_transform *t, uint32_t *index, float *values, size_t *count, uint64_t row,
                                  xsm_error *err)
{
    const double *mean = t->standard, *scale = mean + t->columns;
    if (index && t->centred) {
        list_zeros(index, values, count, t->columns);
    }
    for (size_t j = 0; j < *count; j++) {
        const uint32_t column = index ? index[j] : (uint32_t)j;
        const double value = (values[j] - mean[column]) / scale[column];
        if (!(fabs(value) <= (double)FLT_MAX)) {
            return fail_overflow(step_kinds[STANDARD].name, row, column, values[j], "less its mean, divided by",
                                 scale[column], err);
        }
        values[j] = (float)value;
    }
    return XSM_OK;
}

static void divide_row(float *values, size_t count)
{
    double square = 0; /* the square of any float32 is a normal double */
    for (size_t j = 0; j < count; j++) {
        square += (double)values[j] * values[j];
    }
    if (square > 0) {
        double norm = sqrt(square);
        for (size_t j = 0; j < count; j++) {
            values[j] = (float)(values[j] / norm);
        }
    }
}

/* Whether a step other than products can fail: after `unit` no value is above 1, after `log` none above 90. */
static bool may_overflow(const xsm_transform *t)
{
    bool small = false;
    for (size_t i = 0; i < t->count; i++) {
        const enum step_kind kind = t->steps[i].kind;
        if (kind == STANDARD || (kind == TFIDF && !small)) {
            return true;
        }
        small |= kind == UNIT || kind == LOG;
    }
    return false;
}

static xsm_status append_products(const xsm_transform *t, uint32_t *index, float *values, size_t *count, uint64_t row,
                                  xsm_error *err)
{
    size_t at[2];
    return xsmi_products_append(&t->products, index, values, count, at)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_RANGE,
                           "products: row %" PRIu64 ", features %u and %u (all from 0): %g times %g is too large for "
                           "float32",
                           row, index[at[0]], index[at[1]], (double)values[at[0]], (double)values[at[1]]);
}

/* Takes the first steps on a row, dense if index is NULL. */
static xsm_status take_steps(const xsm_transform *t, size_t steps, uint32_t *index, float *values, size_t *count,
                             uint64_t row, xsm_error *err)
{
    xsmi_features f = {values, index, *count};
    for (size_t i = 0; i < steps; i++) {
        switch (t->steps[i].kind) {
        case TRUNCATE:
            while (f.count > 0 && (index ? index[f.count - 1] : f.count - 1) >= t->steps[i].value) {
                f.count--;
            }
            break;
        case LOG:
            dampen_row(values, f.count);
            break;
        case TFIDF:
            XSMI_TRY(weigh_row(&f, values, t->idf, row, err));
            break;
        case STANDARD:
            XSMI_TRY(standardise_row(t, index, values, &f.count, row, err));
            break;
        case UNIT:
            divide_row(values, f.count);
            break;
        case PRODUCTS:
            XSMI_TRY(append_products(t, index, values, &f.count, row, err));
            break;
        case STEP_KINDS:
            break;
        }
    }
    *count = f.count;
    return XSM_OK;
}

xsm_status xsmi_transform_row_room(const xsm_transform *t, size_t count, size_t *room, xsm_error *err)
{
    size_t most = t->centred ? XSMI_MAX(count, t->columns) : count;
    return xsmi_add(most, xsmi_products_most(&t->products, most), room)
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_LIMIT, "the products of a row of %zu features do not fit the address space",
                           most);
}

xsm_status xsmi_transform_row(const xsm_transform *t, uint32_t *index, float *values, size_t *count, xsm_error *err)
{
    return take_steps(t, t->count, index, values, count, 0, err);
}

/* Values that rows have grown to between two polls. */
#define VALUES_TOGETHER ((size_t)1 << 16)

/* Makes new arrays for rows that grow. */
static xsm_status make_rows(const xsm_transform *t, const xsm_dataset *d, xsmi_feature_arrays *to,
                            xsmi_activity *activity, xsm_error *err)
{
    xsm_context *ctx = d->context;
    size_t used = 0, looked = 0;
    XSMI_TRY(XSMI_GROW(ctx, to->offsets, to->offset_capacity, (size_t)d->rows + 1, "transformed rows", err));
    XSMI_TRY(XSMI_GROW(ctx, to->values, to->value_capacity, 1, "transformed values", err));
    XSMI_TRY(XSMI_GROW(ctx, to->index, to->index_capacity, 1, "transformed features", err));
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features f = xsmi_dataset_features(d, i);
        size_t count = f.count, room, end;
        XSMI_TRY(reach(activity, t, i, err));
        if (used - looked >= VALUES_TOGETHER) {
            looked = used;
            XSMI_TRY(xsmi_go_on(ctx, err));
        }
        XSMI_TRY(xsmi_transform_row_room(t, count, &room, err));
        if (!xsmi_add(used, room, &end)) {
            return xsmi_fail(err, XSM_ERROR_LIMIT, "transformed rows have more values than fit the address space");
        }
        XSMI_TRY(XSMI_GROW(ctx, to->values, to->value_capacity, end, "transformed values", err));
        XSMI_TRY(XSMI_GROW(ctx, to->index, to->index_capacity, end, "transformed features", err));
        if (count > 0) {
            memcpy(to->values + used, f.values, count * sizeof *f.values);
            memcpy(to->index + used, f.index, count * sizeof *f.index);
        }
        XSMI_TRY(take_steps(t, t->count, to->index + used, to->values + used, &count, i, err));
        to->offsets[i] = used;
        used += count;
    }
    to->offsets[d->rows] = used;
    xsmi_shrink(ctx, &to->values, &to->value_capacity, used, sizeof *to->values);
    xsmi_shrink(ctx, &to->index, &to->index_capacity, used, sizeof *to->index);
    return XSM_OK;
}

static xsm_status replace_rows(const xsm_transform *t, xsm_dataset *d, xsmi_activity *activity, xsm_error *err)
{
    xsmi_feature_arrays made = {.stride = 0};
    XSMI_TRY(need_sparse(d, err));
    const xsm_status status = make_rows(t, d, &made, activity, err);
    if (status == XSM_OK) {
        xsmi_dataset_take_features(d, &made);
    } else {
        xsmi_feature_arrays_free(d->context, &made);
    }
    return status;
}

/* Prepares rows that do not grow: they are changed in place once nothing can fail any more. */
static xsm_status prepare_rows(const xsm_transform *t, xsm_dataset *d, xsmi_activity *activity, xsm_error *err)
{
    unsigned changed = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->steps[i].kind != TRUNCATE) {
            changed |= XSMI_OWN_VALUES;
        } else if (d->sparse && t->steps[i].value < d->features) {
            changed |= XSMI_OWN_VALUES | XSMI_OWN_INDEX;
        }
    }
    scratch s = {NULL, NULL, 0, 0};
    xsm_status status = XSM_OK;
    for (uint64_t i = 0; i < d->rows && status == XSM_OK && may_overflow(t); i++) {
        xsmi_features f;
        status = after_steps(t, t->count, d, i, activity, &s, &f, err);
    }
    free_scratch(t->context, &s);
    return status == XSM_OK ? xsmi_dataset_own(d, changed, err) : status;
}

static void change_rows(const xsm_transform *t, const xsm_dataset *d)
{
    float *values = xsmi_dataset_own_values(d);
    uint32_t *index = xsmi_dataset_own_index(d);
    uint64_t *offsets = xsmi_dataset_own_offsets(d);
    uint64_t start = 0, next = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        if (!d->sparse) {
            size_t count = d->features;
            (void)take_steps(t, t->count, NULL, values + i * d->stride, &count, i,
                             NULL); /* a shorter row at the same stride */
            continue;
        }
        size_t count = (size_t)(offsets[i + 1] - start);
        if (next < start) { /* rows before it have become shorter; index and offsets are the dataset's own */
            memmove(values + next, values + start, count * sizeof *values);
            memmove(index + next, index + start, count * sizeof *index);
        }
        start = offsets[i + 1];
        (void)take_steps(t, t->count, index + next, values + next, &count, i, NULL);
        next += count;
        if (next < start) {
            offsets[i + 1] = next;
        }
    }
}

xsm_status xsm_transform_apply(const xsm_transform *t, xsm_dataset *d, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {t, "transform"}, {d, "dataset"});
    if (!t->fitted) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the transform '%.80s' has not been fitted: call xsm_transform_fit() "
                         "with the training rows first",
                         t->description);
    }
    if (d->transformed && t->count > 0) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the rows were transformed before, and the transform '%.80s' is for rows as they are read",
                         t->description);
    }
    if (t->features != d->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the rows have %u features; the transform was fitted for %u",
                         d->features, t->features);
    }
    const bool grow = find_step(t, PRODUCTS) < t->count || (d->sparse && t->centred);
    xsmi_activity activity;
    xsmi_begin(&activity, t->context, "transforming rows", "rows", d->rows);
    const xsm_status status = grow ? replace_rows(t, d, &activity, err) : prepare_rows(t, d, &activity, err);
    XSMI_TRY(xsmi_end(&activity, status, err));
    if (!grow) {
        change_rows(t, d);
    }
    d->features = xsmi_transform_output_features(t);
    d->transformed |= t->count > 0;
    xsmi_dataset_count_features(d);
    return XSM_OK;
}
