/*
 * The state that a checkpoint stores for an estimator that searches: for each block's index the numbers that its table
 * saves, the rows that wait for an update, in their order, and the start of the search. The other rows are the same in
 * the indexes and in the model, so they are not saved.
 *
 *     search.place    U64 [3]   1 if the indexes are built, examples before the search, rows that wait
 *     search.alpha    F64 [1]   the model's factor at the last update of the indexes
 *     search.changed  U32 [K]   the rows that wait, then zeros
 *     search.N        U32       the index of block N; zeros if it is not built
 */
#include "estimator/searcher.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FIXED = 3 }; /* tensors before those of the blocks */

void xsmi_searcher_forget(xsmi_searcher *s)
{
    for (uint32_t j = 0; s->copy.indexes && s->copy.counts && j < s->blocks; j++) {
        xsmi_release(s->context, s->copy.indexes[j], (size_t)s->copy.counts[j] + 1, sizeof **s->copy.indexes);
    }
    xsmi_release(s->context, s->copy.indexes, s->blocks, sizeof *s->copy.indexes);
    xsmi_release(s->context, s->copy.counts, s->blocks, sizeof *s->copy.counts);
    xsmi_release(s->context, s->copy.names, s->blocks, sizeof *s->copy.names);
    xsmi_release(s->context, s->copy.changed, s->update.mark_words * 64, sizeof *s->copy.changed);
    s->copy.indexes = NULL;
    s->copy.counts = NULL;
    s->copy.names = NULL;
    s->copy.changed = NULL;
}

static xsm_status copy(xsmi_searcher *s, xsm_error *err)
{
    s->copy.indexes = xsmi_allocate_zero(s->context, s->blocks, sizeof *s->copy.indexes);
    s->copy.counts = xsmi_allocate_zero(s->context, s->blocks, sizeof *s->copy.counts);
    s->copy.names = xsmi_allocate_zero(s->context, s->blocks, sizeof *s->copy.names);
    s->copy.changed = xsmi_allocate_zero(s->context, s->update.mark_words * 64, sizeof *s->copy.changed);
    if (!s->copy.indexes || !s->copy.counts || !s->copy.names || !s->copy.changed) {
        return xsmi_fail_memory(err, s->update.mark_words * 64 * sizeof *s->copy.changed,
                                "what a checkpoint keeps of a search");
    }
    for (uint32_t j = 0; j < s->blocks; j++) {
        const xsmi_block_index *p = &s->indexes[j];
        const xsmi_index_slice slice = {s->model, p->first, p->width, s->candidates};
        XSMI_TRY(xsmi_index_saved(p->index, &slice, &s->copy.counts[j], err));
        if (s->copy.counts[j] >= SIZE_MAX / sizeof **s->copy.indexes) {
            return xsmi_fail_memory(err, SIZE_MAX, "what a checkpoint keeps of a search");
        }
        s->copy.indexes[j] = xsmi_allocate_zero(s->context, (size_t)s->copy.counts[j] + 1, sizeof **s->copy.indexes);
        if (!s->copy.indexes[j]) {
            return xsmi_fail_memory(err, (size_t)s->copy.counts[j] * sizeof **s->copy.indexes,
                                    "what a checkpoint keeps of a search");
        }
        snprintf(s->copy.names[j], sizeof *s->copy.names, "search.%u", j);
        if (s->built) {
            xsmi_index_save(p->index, s->copy.indexes[j]);
        }
    }
    s->copy.progress[0] = s->built;
    s->copy.progress[1] = s->startup;
    s->copy.progress[2] = s->update.changes;
    s->copy.alpha = s->built ? s->alpha : 1;
    memcpy(s->copy.changed, s->update.changed, s->update.changes * sizeof *s->copy.changed);
    return XSM_OK;
}

xsm_status xsmi_searcher_copy(xsmi_searcher *s, xsm_error *err)
{
    xsmi_searcher_forget(s);
    xsm_status status = copy(s, err);
    if (status != XSM_OK) {
        xsmi_searcher_forget(s);
    }
    return status;
}

bool xsmi_searcher_tensor(xsmi_searcher *s, uint32_t index, xsm_state_tensor *tensor)
{
    if (index >= FIXED + s->blocks) {
        return false;
    }
    const xsm_state_tensor fixed[FIXED] = {
        {.name = "search.place", .type = XSM_STATE_U64, .lines = 1, .width = 3, .data = s->copy.progress},
        {.name = "search.alpha", .type = XSM_STATE_F64, .lines = 1, .width = 1, .data = &s->copy.alpha},
        {.name = "search.changed", .type = XSM_STATE_U32, .lines = 1, .width = s->classes, .data = s->copy.changed},
    };
    *tensor = index < FIXED
                  ? fixed[index]
                  : (xsm_state_tensor){.name = s->copy.names[index - FIXED],
                                       .type = XSM_STATE_U32,
                                       .lines = 1,
                                       .width = s->copy.counts[index - FIXED] + 1, /* tensors must not be empty */
                                       .data = s->copy.indexes[index - FIXED]};
    tensor->size = sizeof *tensor;
    return true;
}

/* Whether the list names each row at most once, and only rows that exist. */
static bool good_changes(const xsmi_searcher *s, const uint32_t *changed, uint64_t count, uint64_t *seen)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bit = UINT64_C(1) << changed[i] % 64;
        if (changed[i] >= s->classes || (seen[changed[i] / 64] & bit)) {
            return false;
        }
        seen[changed[i] / 64] |= bit;
    }
    return true;
}

static xsm_status check(const xsmi_searcher *s, const void *const *data, xsm_error *err)
{
    const uint64_t *progress = data[0];
    const double *alpha = data[1];
    bool good = progress[0] <= 1 && progress[2] <= s->classes && *alpha > 0;
    uint64_t *seen = xsmi_allocate_zero(s->context, s->update.mark_words, sizeof *seen);
    if (!seen) {
        return xsmi_fail_memory(err, s->update.mark_words * sizeof *seen, "rows to be indexed");
    }
    good = good && good_changes(s, data[2], progress[2], seen);
    xsmi_release(s->context, seen, s->update.mark_words, sizeof *seen);
    return good ? XSM_OK
                : xsmi_fail(err, XSM_ERROR_FORMAT,
                            "the checkpoint's tensors 'search.*' are of no search over %u classes", s->classes);
}

static void let_go(const xsmi_searcher *s, xsm_index **indexes)
{
    for (uint32_t j = 0; j < s->blocks; j++) {
        xsm_index_free(indexes[j]);
        indexes[j] = NULL;
    }
}

xsm_status xsmi_searcher_restore(const xsmi_searcher *s, const xsm_index *like, const xsm_model *rows,
                                 const void *const *data, xsm_index **indexes, xsm_error *err)
{
    const uint64_t *progress = data[0];
    XSMI_TRY(check(s, data, err));
    memset(indexes, 0, s->blocks * sizeof(xsm_index *)); /* NOLINT(bugprone-sizeof-expression) */
    xsm_status status = XSM_OK;
    for (uint32_t j = 0; j < s->blocks && status == XSM_OK; j++) {
        const xsmi_block_index *p = &s->indexes[j];
        status = xsmi_index_new_like(like, &indexes[j], err);
        if (status == XSM_OK && progress[0]) {
            const xsmi_index_slice slice = {rows, p->first, p->width, s->candidates};
            status = xsmi_index_restore_slice(indexes[j], &slice, data[FIXED + j], err);
        }
    }
    if (status != XSM_OK) {
        let_go(s, indexes);
    }
    return status;
}

void xsmi_searcher_install(xsmi_searcher *s, const void *const *data, xsm_index **indexes)
{
    const uint64_t *progress = data[0];
    const uint32_t *changed = data[2];
    for (uint32_t j = 0; j < s->blocks; j++) {
        xsm_index_free(s->indexes[j].index);
        s->indexes[j].index = indexes[j];
        xsmi_index_aim(indexes[j], s->model);
        indexes[j] = NULL;
    }
    s->built = progress[0] != 0;
    s->startup = progress[1];
    s->alpha = *(const double *)data[1];
    s->weight = s->model->w.weight;
    memset(s->update.marks, 0, s->update.mark_words * sizeof *s->update.marks);
    s->update.changes = (uint32_t)progress[2];
    memcpy(s->update.changed, changed, s->update.changes * sizeof *changed);
    for (uint32_t i = 0; i < s->update.changes; i++) {
        s->update.marks[changed[i] / 64] |= UINT64_C(1) << changed[i] % 64;
    }
}
