/* Drawing classes without a sampler, for tables that draw themselves. */
#include "methods/method.h"

#include "base/heap_sort.h"
#include "base/order.h"
#include "base/random.h"

#include <string.h>

/* The lists of xsmi_select_others() with one other class each: computes the beginnings of many streams at a time. */
static void select_one_other(const xsmi_kernels *kernels, uint64_t seed, uint32_t classes, const xsm_example *examples,
                             uint64_t count, uint32_t *list, uint32_t *lengths)
{
    enum { TOGETHER = 64 };
    uint64_t positions[TOGETHER];
    uint32_t labels[TOGETHER], others[TOGETHER];
    for (uint64_t first = 0; first < count; first += TOGETHER) {
        const size_t some = count - first < TOGETHER ? (size_t)(count - first) : TOGETHER;
        for (size_t i = 0; i < some; i++) {
            positions[i] = examples[first + i].position;
            labels[i] = examples[first + i].labels[0];
        }
        const xsmi_streams streams = {seed, XSMI_STREAM_NEGATIVES, positions, some};
        xsmi_streams_other(kernels, &streams, classes, labels, others);
        for (size_t i = 0; i < some; i++) {
            list[2 * (first + i)] = labels[i];
            list[2 * (first + i) + 1] = others[i];
            lengths[first + i] = 2;
        }
    }
}

void xsmi_select_others(const xsmi_kernels *kernels, uint64_t seed, uint32_t classes, uint32_t negatives,
                        const xsm_example *examples, uint64_t count, uint32_t *list, uint32_t *lengths)
{
    if (negatives == 1) {
        select_one_other(kernels, seed, classes, examples, count, list, lengths);
        return;
    }
    size_t width = 1 + (size_t)negatives;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t *of = list + i * width;
        of[0] = examples[i].labels[0];
        if (negatives > 0) {
            xsmi_stream stream;
            xsmi_stream_start(&stream, seed, XSMI_STREAM_NEGATIVES, examples[i].position);
            xsmi_stream_others(&stream, classes, of[0], negatives, of + 1);
        }
        lengths[i] = (uint32_t)width;
    }
}

void xsmi_select_negatives(uint64_t seed, uint32_t classes, uint32_t negatives, uint64_t width,
                           const xsm_example *examples, uint64_t count, uint32_t *list, uint32_t *lengths)
{
    for (uint64_t i = 0; i < count; i++) {
        const xsm_example *example = &examples[i];
        uint32_t *labels = list + i * width, own = (uint32_t)example->label_count;
        memcpy(labels, example->labels, own * sizeof *labels);
        if (own > 1) {
            xsmi_heap_sort(labels, own, sizeof *labels, xsmi_compare_u32);
        }
        uint32_t others = classes - own, drawn = negatives < others ? negatives : others;
        uint32_t *of = labels + own;
        if (drawn > 0) {
            /* Ranks among the classes that are not labels; a rank increases by one for each label at or below it. */
            xsmi_stream stream;
            xsmi_stream_start(&stream, seed, XSMI_STREAM_NEGATIVES, example->position);
            xsmi_stream_others(&stream, others + 1, others, drawn, of);
        }
        for (uint32_t j = 0; j < drawn; j++) {
            uint32_t low = 0, high = own;
            while (low < high) {
                uint32_t middle = low + (high - low) / 2;
                if (labels[middle] - middle <= of[j]) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            of[j] += low;
        }
        lengths[i] = own + drawn;
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
