/*
 * Row transforms: a list of steps, the weights fitted on training rows, and their application in place.
 *
 * The idf weights are kept as float32, so that a model that stores them gives the same rows.
 */
#include "data/part.h"
#include "data/text.h"
#include "base/activity.h"
#include "base/entry.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum step_kind { TRUNCATE, TFIDF, UNIT };

static const char *const step_names[] = {"truncate", "tfidf", "unit"};
#define STEPS_KNOWN "truncate=N, tfidf and unit are known"

typedef struct step {
    enum step_kind kind;
    uint32_t features; /* truncate's N */
} step;

struct xsm_transform {
    xsm_context *context;
    char *description;
    step *steps;
    size_t count;
    uint32_t features; /* fitted for; 0 = not fitted */
    float *idf;        /* with tfidf, when fitted */
    uint32_t idf_count;
};

/* -- descriptions ------------------------------------------------------------------------------------------------- */

/* One step from [text, text+length), spaces around it and around its '=' allowed. */
static xsm_status parse_step(const char *text, size_t length, step *out, xsm_error *err)
{
    while (length > 0 && xsmi_is_space(text[0])) {
        text++;
        length--;
    }
    while (length > 0 && xsmi_is_space(text[length - 1])) {
        length--;
    }
    size_t name = 0;
    while (name < length && text[name] != '=' && !xsmi_is_space(text[name])) {
        name++;
    }
    int shown = name < 40 ? (int)name : 40;
    for (size_t kind = 0; kind < sizeof step_names / sizeof *step_names; kind++) {
        if (strlen(step_names[kind]) != name || memcmp(step_names[kind], text, name) != 0) {
            continue;
        }
        out->kind = (enum step_kind)kind;
        out->features = 0;
        size_t at = name;
        while (at < length && xsmi_is_space(text[at])) {
            at++;
        }
        if (kind != TRUNCATE) {
            return at == length
                       ? XSM_OK
                       : xsmi_fail(err, XSM_ERROR_RANGE, "the transform step %s takes no value", step_names[kind]);
        }
        uint64_t n = 0;
        bool digits = false;
        if (at < length) {
            at++; /* the '=' */
            while (at < length && xsmi_is_space(text[at])) {
                at++;
            }
            for (; at < length && text[at] >= '0' && text[at] <= '9'; at++) {
                digits = true;
                n = n * 10 + (uint64_t)(text[at] - '0');
                n = n > XSM_FEATURES_MAX ? (uint64_t)XSM_FEATURES_MAX + 1 : n;
            }
        }
        if (!digits || at < length || n > XSM_FEATURES_MAX) {
            return xsmi_fail(err, XSM_ERROR_RANGE,
                             "the transform step '%.*s' needs a number of features: truncate=N, N "
                             "from 0 to %u",
                             length < 40 ? (int)length : 40, text, (unsigned)XSM_FEATURES_MAX);
        }
        out->features = (uint32_t)n;
        return XSM_OK;
    }
    return xsmi_fail(err, XSM_ERROR_NAME, "no transform step '%.*s'; " STEPS_KNOWN, shown, text);
}

static bool is_blank(const char *text)
{
    while (xsmi_is_space(*text)) {
        text++;
    }
    return *text == '\0';
}

static xsm_status parse(xsm_transform *t, const char *description, xsm_error *err)
{
    size_t count = 0;
    if (!is_blank(description)) {
        count = 1;
        for (const char *p = description; *p; p++) {
            count += *p == ',';
        }
    }
    t->steps = xsmi_allocate(t->context, count, sizeof *t->steps);
    if (!t->steps) {
        return xsmi_fail_memory(err, count * sizeof *t->steps, "a transform");
    }
    t->count = count;
    const char *p = description;
    bool tfidf = false;
    for (size_t i = 0; i < count; i++) {
        size_t length = strcspn(p, ",");
        XSMI_TRY(parse_step(p, length, &t->steps[i], err));
        if (t->steps[i].kind == TFIDF && tfidf) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "the transform has the step tfidf twice; it is accepted once");
        }
        tfidf |= t->steps[i].kind == TFIDF;
        p += length + 1;
    }
    return XSM_OK;
}

/* "truncate=" and ten digits, with the comma or the end. */
#define STEP_TEXT 24

static xsm_status describe(xsm_transform *t, xsm_error *err)
{
    char *text = xsmi_allocate(t->context, t->count * STEP_TEXT + 1, 1);
    if (!text) {
        return xsmi_fail_memory(err, t->count * STEP_TEXT + 1, "a transform");
    }
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < t->count; i++) {
        const step *s = &t->steps[i];
        int n = s->kind == TRUNCATE ? snprintf(text + used, STEP_TEXT, "%struncate=%" PRIu32, i ? "," : "", s->features)
                                    : snprintf(text + used, STEP_TEXT, "%s%s", i ? "," : "", step_names[s->kind]);
        used += (size_t)n;
    }
    t->description = xsmi_copy_text(t->context, text, used);
    xsmi_release(t->context, text, t->count * STEP_TEXT + 1, 1);
    return t->description ? XSM_OK : xsmi_fail_memory(err, used + 1, "a transform");
}

xsm_status xsm_transform_new(xsm_context *context, const char *description, xsm_transform **out, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!out || !description) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_transform_new: %s is NULL", out ? "description" : "out");
    }
    xsm_context *ctx;
    void *memory;
    XSMI_TRY(xsmi_object_new(context, sizeof(xsm_transform), "a transform", &ctx, &memory, err));
    xsm_transform *t = memory;
    t->context = ctx;
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

void xsm_transform_free(xsm_transform *t)
{
    if (t) {
        xsm_context *ctx = t->context;
        xsmi_release_text(ctx, t->description);
        xsmi_release(ctx, t->steps, t->count, sizeof *t->steps);
        xsmi_release(ctx, t->idf, t->idf_count, sizeof *t->idf);
        xsmi_release(ctx, t, 1, sizeof *t);
        xsm_context_free(ctx);
    }
}

const char *xsmi_transform_description(const xsm_transform *t)
{
    return t->description;
}

/* -- fitting ------------------------------------------------------------------------------------------------------ */

/* Features of rows before the step number `until`. */
static uint32_t features_at(const xsm_transform *t, uint32_t features, size_t until)
{
    for (size_t i = 0; i < until; i++) {
        if (t->steps[i].kind == TRUNCATE && t->steps[i].features < features) {
            features = t->steps[i].features;
        }
    }
    return features;
}

/* The number of the tfidf step, or count if there is none. */
static size_t find_tfidf(const xsm_transform *t)
{
    size_t i = 0;
    while (i < t->count && t->steps[i].kind != TFIDF) {
        i++;
    }
    return i;
}

/* Rows between two looks whether to go on. */
#define ROWS_TOGETHER 256

/* No step before tfidf turns a zero into another value or back (division by a norm can only underflow values that do
 * not matter), so that the rows themselves are counted, up to the remaining features. */
static xsm_status count_rows(const xsm_transform *t, const xsm_dataset *d, uint32_t features, uint64_t *counts,
                             xsm_error *err)
{
    xsmi_activity activity;
    xsm_status status = XSM_OK;
    xsmi_begin(&activity, t->context, "fitting a transform", "rows", d->rows);
    for (uint64_t i = 0; i < d->rows && status == XSM_OK; i++) {
        if (i % ROWS_TOGETHER == 0) {
            xsmi_reach(&activity, i);
            status = xsmi_go_on(t->context, err);
        }
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

xsm_status xsm_transform_fit(xsm_transform *t, const xsm_dataset *d, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!t || !d) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_transform_fit: %s is NULL", t ? "dataset" : "transform");
    }
    XSMI_TRY(xsmi_dataset_need_whole(d, "a transform", err));
    size_t at = find_tfidf(t);
    float *idf = NULL;
    uint32_t idf_count = 0;
    if (at < t->count) {
        idf_count = features_at(t, d->features, at);
        idf = xsmi_allocate(t->context, idf_count, sizeof *idf);
        uint64_t *counts = xsmi_allocate_zero(t->context, idf_count, sizeof *counts);
        if (!idf || !counts) {
            xsmi_release(t->context, idf, idf_count, sizeof *idf);
            xsmi_release(t->context, counts, idf_count, sizeof *counts);
            return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory for the weights of %u features", idf_count);
        }
        const xsm_status status = count_rows(t, d, idf_count, counts, err);
        for (uint32_t j = 0; j < idf_count; j++) {
            idf[j] = (float)(log((1 + (double)d->rows) / (1 + (double)counts[j])) + 1);
        }
        xsmi_release(t->context, counts, idf_count, sizeof *counts);
        if (status != XSM_OK) {
            xsmi_release(t->context, idf, idf_count, sizeof *idf);
            return status;
        }
    }
    xsmi_release(t->context, t->idf, t->idf_count, sizeof *t->idf);
    t->idf = idf;
    t->idf_count = idf_count;
    t->features = d->features;
    return XSM_OK;
}

const float *xsmi_transform_idf(const xsm_transform *t, uint32_t *count)
{
    *count = t->idf_count;
    return t->idf;
}

uint32_t xsmi_transform_features(const xsm_transform *t)
{
    return t->features;
}

uint32_t xsmi_transform_output_features(const xsm_transform *t)
{
    return features_at(t, t->features, t->count);
}

xsm_status xsmi_transform_restore(xsm_context *ctx, const char *description, uint32_t features, const float *idf,
                                  uint32_t idf_count, xsm_transform **out, xsm_error *err)
{
    if (features == 0 || features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a stored transform for %u features; 1 to %u are accepted", features,
                         (unsigned)XSM_FEATURES_MAX);
    }
    xsm_transform *t;
    XSMI_TRY(xsm_transform_new(ctx, description, &t, err));
    size_t at = find_tfidf(t);
    uint32_t expected = at < t->count ? features_at(t, features, at) : 0;
    xsm_status status = XSM_OK;
    if (idf_count != expected || (expected > 0 && !idf)) {
        status = xsmi_fail(err, XSM_ERROR_SHAPE, "a stored transform '%.80s' with %u weights; it needs %u",
                           t->description, idf ? idf_count : 0, expected);
    }
    for (uint32_t j = 0; j < expected && status == XSM_OK; j++) {
        if (!(idf[j] > 0 && idf[j] <= FLT_MAX)) {
            status = xsmi_fail(err, XSM_ERROR_RANGE, "weight %u of a stored transform is %g; it must be above 0", j,
                               (double)idf[j]);
        }
    }
    if (status == XSM_OK && expected > 0) {
        t->idf = xsmi_allocate(t->context, expected, sizeof *t->idf);
        if (t->idf) {
            t->idf_count = expected;
            memcpy(t->idf, idf, expected * sizeof *idf);
        } else {
            status = xsmi_fail_memory(err, expected * sizeof *idf, "the weights of a transform");
        }
    }
    if (status != XSM_OK) {
        xsm_transform_free(t);
        return status;
    }
    t->features = features;
    *out = t;
    return XSM_OK;
}

/* -- applying ----------------------------------------------------------------------------------------------------- */

static void cut_features(xsm_dataset *d, uint32_t features)
{
    if (features >= d->features) {
        return;
    }
    d->features = features;
    if (!d->sparse) {
        return; /* a shorter row at the same stride */
    }
    float *values = xsmi_dataset_own_values(d);
    uint32_t *index = xsmi_dataset_own_index(d);
    uint64_t *offsets = xsmi_dataset_own_offsets(d);
    uint64_t next = 0;
    uint64_t start = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        uint64_t end = offsets[i + 1];
        offsets[i] = next;
        for (uint64_t j = start; j < end && index[j] < features; j++, next++) {
            values[next] = values[j];
            index[next] = index[j];
        }
        start = end;
    }
    offsets[d->rows] = next;
}

static void weigh_row(const xsmi_features *f, float *values, const float *idf)
{
    for (size_t j = 0; j < f->count; j++) {
        values[j] *= idf[f->index ? f->index[j] : j];
    }
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

static void weigh(const xsm_dataset *d, const float *idf)
{
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features f = xsmi_dataset_features(d, i);
        weigh_row(&f, (float *)(uintptr_t)f.values, idf);
    }
}

static void divide_by_norm(const xsm_dataset *d)
{
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features f = xsmi_dataset_features(d, i);
        divide_row((float *)(uintptr_t)f.values, f.count);
    }
}

/* The position of the first feature whose product with its weight is not finite, f->count if there is none. */
static size_t find_overflow(const xsm_transform *t, const xsmi_features *f)
{
    size_t j = 0;
    for (; j < f->count; j++) {
        const uint32_t feature = f->index ? f->index[j] : (uint32_t)j;
        if (feature < t->idf_count && !isfinite(f->values[j] * t->idf[feature])) {
            break;
        }
    }
    return j;
}

static bool may_overflow(const xsm_transform *t)
{
    const size_t at = find_tfidf(t);
    for (size_t i = 0; i < at; i++) {
        if (t->steps[i].kind == UNIT) {
            return false;
        }
    }
    return at < t->count;
}

static xsm_status fail_overflow(const xsm_transform *t, const xsmi_features *f, size_t at, uint64_t row, xsm_error *err)
{
    const uint32_t feature = f->index ? f->index[at] : (uint32_t)at;
    return xsmi_fail(err, XSM_ERROR_RANGE,
                     "tfidf: row %" PRIu64 ", feature %u (both from 0): %g times the weight %g is too large "
                     "for float32",
                     row, feature, (double)f->values[at], (double)t->idf[feature]);
}

xsm_status xsmi_transform_row(const xsm_transform *t, const uint32_t *index, float *values, size_t *count,
                              xsm_error *err)
{
    xsmi_features f = {values, index, *count};
    const size_t bad = may_overflow(t) ? find_overflow(t, &f) : f.count;
    if (bad < f.count) {
        return fail_overflow(t, &f, bad, 0, err);
    }
    for (size_t i = 0; i < t->count; i++) {
        switch (t->steps[i].kind) {
        case TRUNCATE:
            while (f.count > 0 && index[f.count - 1] >= t->steps[i].features) {
                f.count--;
            }
            break;
        case TFIDF:
            weigh_row(&f, values, t->idf);
            break;
        case UNIT:
            divide_row(values, f.count);
            break;
        }
    }
    *count = f.count;
    return XSM_OK;
}

/* Weights can be up to 45, so that large values may overflow float32. This is checked before anything is changed. After
 * `unit` no value is above 1. */
static xsm_status check_products(const xsm_transform *t, const xsm_dataset *d, xsmi_activity *activity, xsm_error *err)
{
    for (uint64_t i = 0; i < d->rows && may_overflow(t); i++) {
        if (i % ROWS_TOGETHER == 0) {
            xsmi_reach(activity, i);
            XSMI_TRY(xsmi_go_on(t->context, err));
        }
        const xsmi_features f = xsmi_dataset_features(d, i);
        const size_t bad = find_overflow(t, &f);
        if (bad < f.count) {
            return fail_overflow(t, &f, bad, i, err);
        }
    }
    return XSM_OK;
}

xsm_status xsm_transform_apply(const xsm_transform *t, xsm_dataset *d, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!t || !d) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_transform_apply: %s is NULL", t ? "dataset" : "transform");
    }
    XSMI_TRY(xsmi_dataset_need_whole(d, "a transform", err));
    if (t->features == 0) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "the transform '%.80s' has not been fitted: call xsm_transform_fit() "
                         "with the training rows first",
                         t->description);
    }
    if (t->features != d->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the rows have %u features; the transform was fitted for %u",
                         d->features, t->features);
    }
    unsigned changed = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->steps[i].kind != TRUNCATE) {
            changed |= XSMI_OWN_VALUES;
        } else if (d->sparse && t->steps[i].features < d->features) {
            changed |= XSMI_OWN_VALUES | XSMI_OWN_INDEX;
        }
    }
    xsmi_activity activity;
    xsmi_begin(&activity, t->context, "transforming rows", "rows", d->rows);
    xsm_status status = check_products(t, d, &activity, err);
    if (status == XSM_OK) {
        status = xsmi_dataset_own(d, changed, err);
    }
    XSMI_TRY(xsmi_end(&activity, status, err));
    /* From here on the rows change, so that nothing stops it. */
    for (size_t i = 0; i < t->count; i++) {
        switch (t->steps[i].kind) {
        case TRUNCATE:
            cut_features(d, t->steps[i].features);
            break;
        case TFIDF:
            weigh(d, t->idf);
            break;
        case UNIT:
            divide_by_norm(d);
            break;
        }
    }
    xsmi_dataset_count_features(d);
    return XSM_OK;
}
