/* Lists of classes as options of estimators. The estimator owns the memory of the lists. */
#include "estimator/estimator.h"

#include "base/heap_sort.h"
#include "base/order.h"

#include <string.h>

static xsm_class_list *list_of(const xsm_estimator *e, const xsm_option *option)
{
    return (xsm_class_list *)(void *)((char *)e->state + option->offset);
}

void xsmi_class_list_clear(xsm_estimator *e, const xsm_option *option)
{
    xsm_class_list *list = list_of(e, option);
    if (list->classes) {
        xsmi_release(e->context, (void *)(uintptr_t)list->classes, list->count, sizeof *list->classes);
    }
    memset(list, 0, sizeof *list);
}

/* Replaces the present list by a copy of the given list. */
xsm_status xsmi_class_list_set(xsm_estimator *e, const xsm_option *option, const uint32_t *classes, size_t count,
                               xsm_error *err)
{
    if (count == 0) {
        xsmi_class_list_clear(e, option);
        return XSM_OK;
    }
    uint32_t *copy = xsmi_allocate(e->context, count, sizeof *copy);
    uint32_t *sorted = copy ? xsmi_allocate(e->context, count, sizeof *sorted) : NULL;
    xsm_status status = XSM_OK;
    if (!sorted) {
        status = xsmi_fail_memory(err, count * sizeof *copy, "a list of classes");
    } else {
        memcpy(copy, classes, count * sizeof *copy);
        memcpy(sorted, classes, count * sizeof *sorted);
        xsmi_heap_sort(sorted, count, sizeof *sorted, xsmi_compare_u32);
        for (size_t i = 1; status == XSM_OK && i < count; i++) {
            if (sorted[i] == sorted[i - 1]) {
                status = xsmi_fail(err, XSM_ERROR_RANGE, "option '%s' has class %u twice", option->name, sorted[i]);
            }
        }
        if (status == XSM_OK && sorted[count - 1] >= XSM_CLASSES_MAX) {
            status = xsmi_fail(err, XSM_ERROR_RANGE, "option '%s' has class %u; accepted are numbers below %u",
                               option->name, sorted[count - 1], XSM_CLASSES_MAX);
        }
        xsmi_release(e->context, sorted, count, sizeof *sorted);
    }
    if (status != XSM_OK) {
        xsmi_release(e->context, copy, count, sizeof *copy);
        return status;
    }
    xsmi_class_list_clear(e, option);
    *list_of(e, option) = (xsm_class_list){copy, count};
    return XSM_OK;
}

/* Parses "3,17,4", or an empty list. */
xsm_status xsmi_class_list_parse(xsm_estimator *e, const xsm_option *option, const char *text, xsm_error *err)
{
    uint32_t count = *text ? 1 : 0;
    for (const char *c = text; *c; c++) {
        count += *c == ',';
    }
    uint32_t *classes = xsmi_allocate(e->context, count, sizeof *classes);
    if (!classes) {
        return xsmi_fail_memory(err, count * sizeof *classes, "a list of classes");
    }
    xsm_status status = XSM_OK;
    const char *at = text;
    for (uint32_t i = 0; status == XSM_OK && i < count; i++) {
        size_t length = strcspn(at, ",");
        uint64_t number = 0;
        for (size_t j = 0; j < length && j < 11; j++) {
            number = number * 10 + (uint64_t)(at[j] - '0');
        }
        if (length == 0 || length > 10 || strspn(at, "0123456789") != length || number > UINT32_MAX) {
            status =
                xsmi_fail(err, XSM_ERROR_FORMAT,
                          "option '%s': '%.*s' at position %u is no class; numbers from 0 with commas between them are "
                          "accepted",
                          option->name, (int)(XSMI_MIN(length, 40)), at, i + 1);
        }
        classes[i] = (uint32_t)number;
        at += length + 1;
    }
    if (status == XSM_OK) {
        status = xsmi_class_list_set(e, option, classes, count, err);
    }
    xsmi_release(e->context, classes, count, sizeof *classes);
    return status;
}
