/* Tests the lists of classes that an estimator's table selects. */
#include "check/estimator_check.h"

#include <string.h>

enum {
    ROWS = XSMI_TRIAL_ROWS,
    GUARD = 8 /* guard elements after an array, which must not change */
};
#define UNTOUCHED 0xfefefefeu

xsm_status xsmi_estimator_trial_list(const xsmi_estimator_trial *t, const xsm_example *example, const uint32_t *classes,
                                     uint32_t length, uint64_t width, xsm_error *err)
{
    if (length > width) {
        return xsmi_estimator_fault(t, err, "a list has %u classes, more than the width of %llu", length,
                                    (unsigned long long)width);
    }
    for (uint32_t j = 0; j < length; j++) {
        if (classes[j] >= t->shape.classes) {
            return xsmi_estimator_fault(t, err, "class %u is listed", classes[j]);
        }
        for (uint32_t before = 0; before < j; before++) {
            if (classes[before] == classes[j]) {
                return xsmi_estimator_fault(t, err, "class %u is listed twice for an example", classes[j]);
            }
        }
    }
    for (uint64_t l = 0; l < example->label_count; l++) {
        uint32_t j = 0;
        while (j < length && classes[j] != example->labels[l]) {
            j++;
        }
        if (j == length) {
            return xsmi_estimator_fault(t, err, "label %u is not in its example's list", example->labels[l]);
        }
    }
    return XSM_OK;
}

/* The lists of ROWS examples, and one list that is made again. */
typedef struct selection {
    xsm_example *examples;
    uint32_t *classes, *lengths, *again;
} selection;

static xsm_status compare_lists(const xsmi_estimator_trial *t, const xsm_estimator *e, const selection *s,
                                xsm_error *err)
{
    const xsm_example *examples = s->examples;
    uint32_t *classes = s->classes, *lengths = s->lengths, *again = s->again;
    const uint64_t width = e->width, entries = ROWS * width;
    for (uint64_t j = 0; j < entries + GUARD; j++) {
        classes[j] = UNTOUCHED;
    }
    e->ops.select(e->state, examples, ROWS, classes, lengths);
    for (uint64_t j = entries; j < entries + GUARD; j++) {
        if (classes[j] != UNTOUCHED) {
            return xsmi_estimator_fault(t, err, "select() writes beyond its lists");
        }
    }
    for (uint64_t i = ROWS; i-- > 0;) { /* one by one, the last first */
        uint32_t length;
        XSMI_TRY(xsmi_estimator_trial_list(t, &examples[i], classes + i * width, lengths[i], width, err));
        e->ops.select(e->state, examples + i, 1, again, &length);
        if (length != lengths[i] || memcmp(again, classes + i * width, length * sizeof *again) != 0) {
            return xsmi_estimator_fault(t, err, "select() lists other classes for an example alone than among others");
        }
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_trial_lists(const xsmi_estimator_trial *t, const xsm_estimator *e, xsm_error *err)
{
    if (e->exact || !e->ops.select) {
        return XSM_OK; /* no lists, or the library's own */
    }
    size_t width = (size_t)e->width, entries;
    if (!xsmi_multiply(ROWS + 1, width, &entries) || !xsmi_add(entries, GUARD + ROWS, &entries)) {
        return xsmi_fail_memory(err, SIZE_MAX, "the trial of an estimator");
    }
    xsm_example *examples = xsmi_allocate(t->context, ROWS, sizeof *examples);
    uint32_t *memory = xsmi_allocate(t->context, entries, sizeof *memory);
    xsm_status status = XSM_OK;
    if (!examples || !memory) {
        status = xsmi_fail_memory(err, entries * sizeof *memory, "the trial of an estimator");
    } else {
        for (uint64_t i = 0; i < ROWS; i++) {
            examples[i] = xsmi_example_at(e, i, XSMI_TRIAL_FIRST + i);
        }
        const selection s = {examples, memory, memory + ROWS * width + GUARD, memory + ROWS * width + GUARD + ROWS};
        status = compare_lists(t, e, &s, err);
    }
    xsmi_release(t->context, examples, ROWS, sizeof *examples);
    xsmi_release(t->context, memory, entries, sizeof *memory);
    return status;
}
