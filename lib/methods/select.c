/* Drawing classes without a sampler, for tables that draw themselves. */
#include "methods/method.h"

#include "base/heap_sort.h"
#include "base/order.h"
#include "base/random.h"

#include <string.h>

/* Fills the lists of xsmi_select_others() with one other class each, by computing the beginnings of many streams at a
 * time. */
static void select_one_other(const xsmi_kernels *kernels, const xsmi_negative_lists *l)
{
    enum { TOGETHER = 64 };
    uint64_t positions[TOGETHER];
    uint32_t labels[TOGETHER], others[TOGETHER];
    for (uint64_t first = 0; first < l->count; first += TOGETHER) {
        const size_t some = (size_t)XSMI_MIN(l->count - first, (uint64_t)TOGETHER);
        for (size_t i = 0; i < some; i++) {
            positions[i] = l->examples[first + i].position;
            labels[i] = l->examples[first + i].labels[0];
        }
        const xsmi_streams streams = {l->seed, XSMI_STREAM_NEGATIVES, positions, some};
        xsmi_streams_other(kernels, &streams, l->classes, labels, others);
        for (size_t i = 0; i < some; i++) {
            l->list[2 * (first + i)] = labels[i];
            l->list[2 * (first + i) + 1] = others[i];
            l->lengths[first + i] = 2;
        }
    }
}

void xsmi_select_others(const xsmi_kernels *kernels, const xsmi_negative_lists *l)
{
    if (l->negatives == 1) {
        select_one_other(kernels, l);
        return;
    }
    for (uint64_t i = 0; i < l->count; i++) {
        uint32_t *of = l->list + i * l->width;
        of[0] = l->examples[i].labels[0];
        if (l->negatives > 0) {
            xsmi_stream stream;
            xsmi_stream_start(&stream, l->seed, XSMI_STREAM_NEGATIVES, l->examples[i].position);
            xsmi_stream_others(&stream, l->classes, of[0], l->negatives, of + 1);
        }
        l->lengths[i] = (uint32_t)l->width;
    }
}

/* Turns ranks among the classes that are not labels into classes: a rank increases by one for each label at or below
 * it. The labels are in rising order. */
static void skip_labels(const uint32_t *labels, uint32_t own, uint32_t *classes, uint32_t count)
{
    enum { FEW = 8 };
    for (uint32_t e = 0; e < own && own <= FEW; e++) {
        for (uint32_t j = 0; j < count; j++) {
            classes[j] += labels[e] <= classes[j];
        }
    }
    for (uint32_t j = 0; j < count && own > FEW; j++) {
        classes[j] = xsmi_other_number(labels, own, classes[j]);
    }
}

void xsmi_select_negatives(const xsmi_kernels *kernels, const xsmi_negative_lists *l)
{
    enum { TOGETHER = 64 };
    uint64_t positions[TOGETHER];
    uint32_t others[TOGETHER], *drawn[TOGETHER];
    for (uint64_t first = 0; first < l->count; first += TOGETHER) {
        const size_t some = (size_t)XSMI_MIN(l->count - first, (uint64_t)TOGETHER);
        for (size_t i = 0; i < some; i++) {
            const xsm_example *example = &l->examples[first + i];
            uint32_t *labels = l->list + (first + i) * l->width, own = (uint32_t)example->label_count;
            memcpy(labels, example->labels, own * sizeof *labels);
            if (own > 1) {
                xsmi_heap_sort(labels, own, sizeof *labels, xsmi_compare_u32);
            }
            positions[i] = example->position;
            others[i] = l->classes - own;
            drawn[i] = labels + own;
            l->lengths[first + i] = own + XSMI_MIN(l->negatives, others[i]);
        }
        const xsmi_streams streams = {l->seed, XSMI_STREAM_NEGATIVES, positions, some};
        xsmi_streams_sets(kernels, &streams, others, l->negatives, drawn);
        for (size_t i = 0; i < some; i++) {
            const uint32_t own = l->classes - others[i];
            skip_labels(drawn[i] - own, own, drawn[i], l->lengths[first + i] - own);
        }
    }
}

const char *const xsmi_negatives_words[] = {"all", NULL};

xsm_status xsmi_negatives(const char *estimator, int64_t option, uint32_t classes, uint32_t *negatives, xsm_error *err)
{
    int64_t others = (int64_t)classes - 1;
    if (option > others) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "estimator '%s': %lld negatives asked for, but there are only %lld other classes", estimator,
                         (long long)option, (long long)others);
    }
    *negatives = (uint32_t)(option > 0 ? option : option < 0 || others < 5 ? others : 5);
    return XSM_OK;
}
