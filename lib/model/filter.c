/* Filters of classes: makes them, and finds which classes they accept for a row. */
#include "model/filter.h"

#include "base/entry.h"
#include "base/order.h"

#include <string.h>

/* A filter that accepts at most one class in LISTED has a list of the accepted classes. */
#define LISTED 8

/* -- making -------------------------------------------------------------------------------------------------------- */

static xsm_status check_classes(const uint32_t *list, uint64_t count, const char *name, uint32_t classes,
                                xsm_error *err)
{
    if (!list && count > 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_filter_classes.%s is NULL, and %s_count %llu", name, name,
                         (unsigned long long)count);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (list[i] >= classes) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_filter_classes.%s[%llu] is %u; classes are below %u", name,
                             (unsigned long long)i, list[i], classes);
        }
    }
    return XSM_OK;
}

static void fill(xsm_filter *f, const xsm_filter_classes *c)
{
    const size_t words = xsmi_filter_words(f->classes);
    memset(f->bits, c->allow ? 0 : 0xFF, words * sizeof *f->bits);
    for (uint64_t i = 0; i < c->allow_count; i++) {
        f->bits[c->allow[i] / 64] |= UINT64_C(1) << c->allow[i] % 64;
    }
    for (uint64_t i = 0; i < c->deny_count; i++) {
        f->bits[c->deny[i] / 64] &= ~(UINT64_C(1) << c->deny[i] % 64);
    }
    if (f->classes % 64) {
        f->bits[words - 1] &= (UINT64_C(1) << f->classes % 64) - 1;
    }
    for (size_t w = 0; w < words; w++) {
        f->bits[w] &= c->bitmap ? c->bitmap[w] : UINT64_MAX;
        f->left += (uint32_t)__builtin_popcountll(f->bits[w]);
    }
}

static xsm_status make_list(xsm_filter *f, xsm_error *err)
{
    XSMI_TRY(xsmi_array_new(f->context, &f->list, f->left, sizeof *f->list, "a filter", err));
    uint32_t count = 0;
    for (size_t w = 0; w < xsmi_filter_words(f->classes); w++) {
        for (uint64_t left = f->bits[w]; left; left &= left - 1) {
            f->list[count++] = (uint32_t)w * 64 + (uint32_t)__builtin_ctzll(left);
        }
    }
    return XSM_OK;
}

xsm_status xsm_filter_new(xsm_context *context, const xsm_filter_classes *classes, xsm_filter **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {classes, "classes"}, {out, "out"});
    xsm_filter_classes c = XSM_FILTER_CLASSES_INIT;
    XSMI_TRY(XSMI_READ(xsm_filter_classes, &c, classes, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_filter_classes, &c, reserved, err));
    if (c.classes < 1 || c.classes > XSM_CLASSES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_filter_classes.classes is %u; 1 to %u is accepted", c.classes,
                         (unsigned)XSM_CLASSES_MAX);
    }
    XSMI_TRY(check_classes(c.allow, c.allow_count, "allow", c.classes, err));
    XSMI_TRY(check_classes(c.deny, c.deny_count, "deny", c.classes, err));
    xsm_filter *f;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &f, xsm_filter, "a filter", err));
    f->classes = c.classes;
    xsm_status status =
        xsmi_array_new(f->context, &f->bits, xsmi_filter_words(c.classes), sizeof *f->bits, "a filter", err);
    if (status == XSM_OK) {
        fill(f, &c);
        status = f->left <= f->classes / LISTED ? make_list(f, err) : XSM_OK;
    }
    if (status != XSM_OK) {
        xsm_filter_free(f);
        return status;
    }
    *out = f;
    return XSM_OK;
}

void xsm_filter_free(xsm_filter *f)
{
    if (f) {
        xsm_context *ctx = f->context;
        xsmi_release(ctx, f->bits, xsmi_filter_words(f->classes), sizeof *f->bits);
        xsmi_release(ctx, f->list, f->left, sizeof *f->list);
        XSMI_OBJECT_FREE(f, xsm_filter);
    }
}

uint32_t xsm_filter_left(const xsm_filter *f)
{
    return f ? f->left : 0;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Whether a class is in a rising list. */
static bool is_listed(const uint32_t *list, size_t count, uint32_t class)
{
    const size_t at = xsmi_lower_bound(list, count, class);
    return at < count && list[at] == class;
}

/* Whether the row's filter accepts a class, as numbered for the filter. */
static bool accepts(const xsmi_row_filter *f, uint32_t class)
{
    for (size_t i = 0; i < 2; i++) {
        if (f->of[i] && !xsmi_filter_bit(f->of[i], class)) {
            return false;
        }
    }
    return (!f->allows || is_listed(f->allow, f->allow_count, class)) && !is_listed(f->deny, f->deny_count, class) &&
           !xsmi_contains(f->known, f->known_count, class);
}

bool xsmi_row_filter_takes(const xsmi_row_filter *f, uint32_t class)
{
    return accepts(f, f->match ? f->match[class] : f->first + class);
}

/* Returns a list that contains all accepted classes, perhaps with others; NULL if there is none. */
static const uint32_t *short_list(const xsmi_row_filter *f, size_t *count)
{
    const uint32_t *list = f->allows ? f->allow : NULL;
    *count = f->allows ? f->allow_count : SIZE_MAX;
    for (size_t i = 0; i < 2; i++) {
        if (f->of[i] && f->of[i]->list && f->of[i]->left < *count) {
            list = f->of[i]->list;
            *count = f->of[i]->left;
        }
    }
    return list;
}

size_t xsmi_row_filter_list(const xsmi_row_filter *f, uint32_t classes, uint64_t *at, uint32_t *list, size_t most)
{
    size_t listed, count = 0;
    const uint32_t *from = short_list(f, &listed);
    if (from || f->allows) {
        for (; *at < listed && count < most; ++*at) {
            if (accepts(f, from[*at])) {
                list[count++] = from[*at];
            }
        }
        return count;
    }
    while (*at < classes && count < most) {
        const uint32_t word = (uint32_t)(*at / 64), bit = (uint32_t)(*at % 64);
        uint64_t left = UINT64_MAX << bit;
        left &= f->of[0] ? f->of[0]->bits[word] : UINT64_MAX;
        left &= f->of[1] ? f->of[1]->bits[word] : UINT64_MAX;
        if (left == 0) {
            *at = ((uint64_t)word + 1) * 64;
            continue;
        }
        *at = (uint64_t)word * 64 + (uint64_t)__builtin_ctzll(left);
        if (*at < classes && accepts(f, (uint32_t)*at)) {
            list[count++] = (uint32_t)*at;
        }
        ++*at;
    }
    return count;
}
