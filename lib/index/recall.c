/* The recall of an index: its lists compared with those of the exact index. */
#include "index/index.h"

#include "base/activity.h"
#include "base/entry.h"
#include "data/batch.h"

#include <math.h>

/* Returns how much a score may change with the order of the sum. */
static double rounding(const xsm_index *x, const float *query, uint32_t row, float score, float *scratch)
{
    const xsmi_kernels *kernels = xsmi_context_kernels(x->context);
    xsmi_index_read_row(x, row, scratch);
    const double size =
        sqrt(((double)kernels->dot(query, query, x->width) + 1) * (double)kernels->dot(scratch, scratch, x->own_width));
    return 1e-5 * fabs((double)score) + 1e-6 * size;
}

static double share_found(const xsm_index *x, const xsm_index_search *have, const xsm_index_search *want,
                          float *scratch)
{
    const uint32_t top = want->top;
    double found = 0;
    for (size_t i = 0; i < (size_t)want->count; i++) {
        const size_t at = i * top + top - 1;
        const float last = want->scores[at], *query = want->queries + i * want->stride;
        const double least = (double)last - rounding(x, query, want->classes[at], last, scratch);
        uint32_t hits = 0;
        for (uint32_t j = 0; j < have->lengths[i]; j++) {
            hits += (double)have->scores[i * top + j] >= least;
        }
        found += (double)hits / top;
    }
    return found / (double)want->count;
}

xsm_status xsmi_index_recall(const xsm_index *x, const xsm_index_search *search, double *recall, xsm_error *err)
{
    xsm_index_search have = XSM_INDEX_SEARCH_INIT;
    XSMI_TRY(XSMI_READ(xsm_index_search, &have, search, err));
    const uint64_t count = have.count;
    const uint32_t top = have.top;
    xsm_index_search want = have;
    xsm_index *truth = NULL;
    xsm_status status = xsm_index_new(x->context, "exact", &truth, err);
    size_t entries = 0;
    bool fits = xsmi_multiply((size_t)count, top, &entries);
    have.classes = xsmi_allocate(x->context, entries, sizeof *have.classes);
    want.classes = xsmi_allocate(x->context, entries, sizeof *want.classes);
    have.scores = xsmi_allocate(x->context, entries, sizeof *have.scores);
    want.scores = xsmi_allocate(x->context, entries, sizeof *want.scores);
    have.lengths = xsmi_allocate(x->context, (size_t)count, sizeof *have.lengths);
    want.lengths = xsmi_allocate(x->context, (size_t)count, sizeof *want.lengths);
    float *row = xsmi_allocate(x->context, x->own_width, sizeof *row);
    xsmi_activity activity;
    xsmi_begin(&activity, x->context, "measuring recall", "queries", count);
    if (status == XSM_OK && (!fits || !have.classes || !want.classes || !have.scores || !want.scores || !have.lengths ||
                             !want.lengths || !row)) {
        status = xsmi_fail_memory(err, entries * 4 * sizeof(float), "a comparison of searches");
    }
    if (status == XSM_OK) {
        status = xsm_index_query(x, &have, err);
    }
    if (status == XSM_OK) {
        status = x->model ? xsm_index_build_model(truth, x->model, err) : xsm_index_build(truth, &x->rows, err);
    }
    if (status == XSM_OK) {
        status = xsm_index_query(truth, &want, err);
    }
    status = xsmi_end(&activity, status, err);
    if (status == XSM_OK) {
        *recall = share_found(x, &have, &want, row);
    }
    xsmi_release(x->context, have.classes, entries, sizeof *have.classes);
    xsmi_release(x->context, want.classes, entries, sizeof *want.classes);
    xsmi_release(x->context, have.scores, entries, sizeof *have.scores);
    xsmi_release(x->context, want.scores, entries, sizeof *want.scores);
    xsmi_release(x->context, have.lengths, (size_t)count, sizeof *have.lengths);
    xsmi_release(x->context, want.lengths, (size_t)count, sizeof *want.lengths);
    xsmi_release(x->context, row, x->own_width, sizeof *row);
    xsm_index_free(truth);
    return status;
}
