/* Synthetic rows for the conformance suites. */
#include "check/made_rows.h"
#include "base/activity.h"
#include "base/held.h"
#include "base/random.h"

#include <string.h>

/* Fills the features: feature j of row i is the value of its label's centre, and noise. */
static xsm_status fill(const xsm_context *ctx, const xsmi_trial_shape *shape, const uint64_t *offsets,
                       const uint32_t *labels, float *x, xsm_error *err)
{
    for (uint64_t i = 0; i < shape->rows; i++) {
        XSMI_TRY(xsmi_go_on(ctx, err));
        xsmi_stream own, centre;
        xsmi_stream_start(&own, i, XSMI_STREAM_CHECK, shape->features);
        xsmi_stream_start(&centre, labels[offsets[i]], XSMI_STREAM_CHECK, 0);
        for (uint32_t j = 0; j < shape->features; j++) {
            double noise = xsmi_stream_uniform(&own) - 0.5, middle = 2 * xsmi_stream_uniform(&centre) - 1;
            bool there = !shape->sparse || xsmi_stream_below(&own, 3) == 0;
            x[i * shape->features + j] = i == 1 || !there ? 0 : (float)(middle + noise);
        }
    }
    return XSM_OK;
}

static bool is_there(const uint32_t *labels, uint64_t first, uint64_t end, uint32_t label)
{
    for (; first < end; first++) {
        if (labels[first] == label) {
            return true;
        }
    }
    return false;
}

static void choose_labels(const xsmi_trial_shape *shape, uint64_t *offsets, uint32_t *labels)
{
    static const uint32_t beyond[] = {0, 1, 3}; /* offsets from a row's first label to its others */
    uint32_t used = shape->classes > 2 ? shape->classes - 1 : shape->classes;
    uint64_t total = 0;
    xsmi_stream stream;
    xsmi_stream_start(&stream, 1, XSMI_STREAM_CHECK, shape->classes);
    for (uint64_t i = 0; i < shape->rows; i++) {
        double u = xsmi_stream_uniform(&stream);
        uint32_t first = i < used ? (uint32_t)i : (uint32_t)(u * u * used);
        bool every = shape->several && i == 2;
        uint32_t count = every ? used : shape->several ? 1 + (uint32_t)xsmi_stream_below(&stream, 3) : 1;
        offsets[i] = total;
        for (uint32_t j = 0; j < count; j++) {
            uint32_t label = every ? j : (first + beyond[j]) % used;
            if (!is_there(labels, offsets[i], total, label)) {
                labels[total++] = label;
            }
        }
    }
    offsets[shape->rows] = total;
}

/* Removes the zeros, row by row: makes CSR in place. */
static void compress(const xsmi_trial_shape *shape, float *x, uint64_t *starts, uint32_t *index)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < shape->rows; i++) {
        starts[i] = count;
        for (uint32_t j = 0; j < shape->features; j++) {
            float value = x[i * shape->features + j];
            if (value > 0 || value < 0) {
                index[count] = j;
                x[count++] = value;
            }
        }
    }
    starts[shape->rows] = count;
}

xsm_status xsmi_trial_data(xsm_context *ctx, const xsmi_trial_shape *shape, xsm_dataset **out, xsm_error *err)
{
    size_t rows = (size_t)shape->rows, numbers, most;
    if (!xsmi_multiply(rows, shape->features, &numbers) || !xsmi_multiply(rows, 3, &most) ||
        !xsmi_add(most, shape->classes, &most)) {
        return xsmi_fail_memory(err, SIZE_MAX, "a trial's rows");
    }
    xsmi_held held = {.context = ctx};
    float *x = xsmi_hold(&held, numbers, sizeof *x);
    uint32_t *index = xsmi_hold(&held, numbers, sizeof *index);
    uint64_t *starts = xsmi_hold(&held, rows + 1, sizeof *starts);
    uint64_t *offsets = xsmi_hold(&held, rows + 1, sizeof *offsets);
    uint32_t *labels = xsmi_hold(&held, most, sizeof *labels);
    xsm_status status = xsmi_held_check(&held, "a trial's rows", err);
    if (status == XSM_OK) {
        choose_labels(shape, offsets, labels);
        status = fill(ctx, shape, offsets, labels, x, err);
        xsm_labels of = {sizeof of, shape->classes, 0, offsets, labels, NULL};
        if (status == XSM_OK && shape->sparse) {
            compress(shape, x, starts, index);
            status = xsm_dataset_from_csr(ctx,
                                          &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                                          .offsets = starts,
                                                          .index = index,
                                                          .values = x,
                                                          .rows = rows,
                                                          .features = shape->features,
                                                          .labels = &of},
                                          out, err);
        } else if (status == XSM_OK) {
            status = xsm_dataset_from_dense(ctx,
                                            &(xsm_dense_rows){.size = sizeof(xsm_dense_rows),
                                                              .values = x,
                                                              .rows = rows,
                                                              .features = shape->features,
                                                              .labels = &of},
                                            out, err);
        }
    }
    xsmi_held_release(&held);
    return status;
}
