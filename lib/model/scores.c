/* Scores for hosts: of chosen classes, and of a range, by this process or, for a divided model, by all processes. */
#include "base/activity.h"
#include "base/entry.h"
#include "base/order.h"
#include "base/safetensors.h"
#include "model/divided.h"

#include <limits.h>
#include <stdatomic.h>

/* Scores that one job checks. */
#define JOB_SCORES ((size_t)1 << 16)

/* Scores that were computed: those of row i begin at scores[i*stride]. */
typedef struct computed {
    const xsm_model *model;
    const float *scores;
    size_t count, stride;
    atomic_ullong failed; /* the first row with scores that are not finite, or ULLONG_MAX */
} computed;

static void check_rows(void *state, const xsmi_range *r)
{
    computed *c = state;
    for (size_t i = r->first; i < r->end; i++) {
        bool finite = true;
        for (size_t k = 0; k < c->count && finite && !xsmi_poll(c->model->context); k += JOB_SCORES) {
            finite = xsmi_floats_finite(c->scores + i * c->stride + k, XSMI_MIN(c->count - k, JOB_SCORES));
        }
        unsigned long long least = atomic_load(&c->failed);
        while (!finite && i < least && !atomic_compare_exchange_weak(&c->failed, &least, i)) {
        }
    }
}

/* Refuses scores that are not finite. */
static xsm_status check_finite(const xsm_model *m, const float *scores, uint64_t rows, size_t count, size_t stride,
                               xsm_error *err)
{
    computed c = {m, scores, count, stride, ULLONG_MAX};
    XSMI_TRY(
        xsmi_run_together(m->context, xsmi_model_is_divided(m), check_rows, &c, rows, JOB_SCORES / count + 1, err));
    const unsigned long long failed = atomic_load(&c.failed);
    return failed == ULLONG_MAX ? XSM_OK
                                : xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite", failed);
}

xsm_status xsm_model_scores(const xsm_model *m, const xsm_batch *given, const uint32_t *classes, size_t count,
                            float *scores, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    xsm_batch batch;
    XSMI_TRY(xsmi_model_read_batch(m, given, &batch, err));
    if (count == 0) {
        return XSM_OK;
    }
    XSMI_NEED(err, {classes, "classes"}, {scores, "scores"});
    size_t total;
    if (!xsmi_multiply((size_t)batch.count, count, &total)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%llu rows of %zu classes are more than can be addressed",
                         (unsigned long long)batch.count, count);
    }
    xsmi_region regions[2 + XSMI_BATCH_REGIONS] = {xsmi_output("scores", scores, total, sizeof *scores),
                                                   xsmi_input("classes", classes, total, sizeof *classes)};
    xsmi_batch_regions(&batch, regions + 2);
    XSMI_TRY(xsmi_check_overlap("xsm_model_scores", regions, 2 + XSMI_BATCH_REGIONS, err));
    for (size_t i = 0; i < total; i++) {
        if (classes[i] >= m->classes) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "class %u at position %zu of row %zu of the batch; the model has %u",
                             classes[i], i % count, i / count, m->classes);
        }
    }
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "scoring", "rows");
    xsm_status status = total > 0 && xsmi_model_is_divided(m)
                            ? xsmi_divided_chosen_scores(m, &batch, classes, count, scores, err)
                            : xsmi_model_batch_scores(m, &batch, classes, count, scores, err);
    status = status == XSM_OK ? check_finite(m, scores, batch.count, count, count, err) : status;
    return xsmi_end(&activity, status, err);
}

xsm_status xsm_model_score_range(const xsm_model *m, const xsm_batch *given, uint32_t first, uint32_t count,
                                 float *scores, size_t stride, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {m, "model"});
    xsm_batch batch;
    XSMI_TRY(xsmi_model_read_batch(m, given, &batch, err));
    if (first > m->classes || count > m->classes - first) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u classes from class %u on; the model has %u", count, first,
                         m->classes);
    }
    size_t floats = 0;
    if (stride < count || !xsmi_multiply((size_t)batch.count, stride, &floats) || floats > SIZE_MAX / sizeof(float)) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "%llu rows of scores %zu floats apart for %u classes",
                         (unsigned long long)batch.count, stride, count);
    }
    if (count == 0) {
        return XSM_OK;
    }
    XSMI_NEED(err, {scores, "scores"});
    xsmi_region regions[1 + XSMI_BATCH_REGIONS] = {
        xsmi_output_rows("scores", scores, batch.count, count, stride, sizeof *scores)};
    xsmi_batch_regions(&batch, regions + 1);
    XSMI_TRY(xsmi_check_overlap("xsm_model_score_range", regions, 1 + XSMI_BATCH_REGIONS, err));
    const xsmi_score_range range = {&batch, first, count, scores, stride};
    xsmi_score_scratch scratch = {.used = NULL};
    xsmi_activity activity;
    xsmi_begin_short(&activity, m->context, "scoring", "rows");
    xsm_status status = batch.count > 0 && xsmi_model_is_divided(m)
                            ? xsmi_divided_score_range(m, &range, &scratch, err)
                            : xsmi_model_score_range(m, &range, m->context, &scratch, err);
    status = status == XSM_OK ? check_finite(m, scores, batch.count, count, stride, err) : status;
    xsmi_score_scratch_free(m->context, &scratch);
    return xsmi_end(&activity, status, err);
}
