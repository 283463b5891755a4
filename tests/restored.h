/* What test_index_restore.c and fuzz/restore.c share: an index over a small model, and its saved numbers. */
#ifndef XSM_TEST_RESTORED_H
#define XSM_TEST_RESTORED_H

#include "index/index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESTORED_CLASSES = 40, RESTORED_WIDTH = 3, RESTORED_CLUSTERS = 6, RESTORED_TOP = 8 };

/* Where things lie among the numbers: moves and rebuilds, 64 bits each, M^2 as a double, then these. */
enum {
    RESTORED_LONGEST = 4,
    RESTORED_MEAN = 6,
    RESTORED_CENTRES = RESTORED_MEAN + RESTORED_WIDTH,
    RESTORED_COUNTS = RESTORED_CENTRES + RESTORED_CLUSTERS * (RESTORED_WIDTH + 1),
    RESTORED_ORDER = RESTORED_COUNTS + RESTORED_CLUSTERS,
    RESTORED_NUMBERS = RESTORED_ORDER + RESTORED_CLASSES
};

typedef struct restored {
    xsm_model *model;
    xsm_index *index;
    uint32_t numbers[RESTORED_NUMBERS]; /* as it saves them */
} restored;

/* False when anything fails. */
static inline bool restored_begin(restored *r, xsm_context *ctx)
{
    xsm_parameters w = XSM_PARAMETERS_INIT;
    uint64_t numbers = 0;
    uint32_t state = 1;
    *r = (restored){0};
    if (xsm_model_new_linear(ctx, RESTORED_WIDTH, RESTORED_CLASSES, NULL, &r->model, NULL) != XSM_OK ||
        xsm_model_get_parameters(r->model, &w, NULL) != XSM_OK) {
        return false;
    }
    for (uint32_t k = 0; k < RESTORED_CLASSES; k++) {
        for (uint32_t f = 0; f < RESTORED_WIDTH; f++) {
            state = state * 1664525 + 1013904223;
            w.weight[k * w.class_step + f * w.feature_step] = (float)(state >> 8) / (1 << 23) - 1;
        }
    }
    const xsmi_index_slice slice = {r->model, 0, RESTORED_WIDTH, RESTORED_TOP};
    if (xsm_index_new(ctx, "spherical", &r->index, NULL) != XSM_OK ||
        xsm_index_set_number(r->index, "clusters", RESTORED_CLUSTERS, NULL) != XSM_OK ||
        xsmi_index_build_slice(r->index, &slice, NULL) != XSM_OK ||
        xsmi_index_saved(r->index, &slice, &numbers, NULL) != XSM_OK || numbers != RESTORED_NUMBERS) {
        return false;
    }
    xsmi_index_save(r->index, r->numbers);
    return true;
}

/* Restores the index from other numbers. */
static inline xsm_status restored_from(restored *r, const uint32_t *numbers, xsm_error *err)
{
    const xsmi_index_slice slice = {r->model, 0, RESTORED_WIDTH, RESTORED_TOP};
    return xsmi_index_restore_slice(r->index, &slice, numbers, err);
}

static inline void restored_end(restored *r)
{
    xsm_index_free(r->index);
    xsm_model_free(r->model);
}

/* Whether an index that was accepted does what an index does: finds rows that there are, once each, takes updates of
 * all, and saves numbers that are accepted. */
static inline bool restored_works(restored *r)
{
    float queries[3][RESTORED_WIDTH] = {{1, 0, 0}, {-0.5f, 2, 1}, {0, 0, 0}};
    uint32_t found[3 * RESTORED_CLASSES], lengths[3], all[RESTORED_CLASSES], numbers[RESTORED_NUMBERS];
    float scores[3 * RESTORED_CLASSES];
    for (int round = 0; round < 2; round++) {
        xsm_index_search s = XSM_INDEX_SEARCH_INIT;
        s.queries = queries[0];
        s.stride = RESTORED_WIDTH;
        s.count = 3;
        s.top = RESTORED_CLASSES;
        s.classes = found;
        s.scores = scores;
        s.lengths = lengths;
        if (xsm_index_query(r->index, &s, NULL) != XSM_OK) {
            return false;
        }
        for (size_t i = 0; i < 3; i++) {
            bool seen[RESTORED_CLASSES] = {false};
            for (uint32_t j = 0; j < lengths[i]; j++) {
                uint32_t k = found[i * RESTORED_CLASSES + j];
                if (k >= RESTORED_CLASSES || seen[k] || !(scores[i * RESTORED_CLASSES + j] < INFINITY)) {
                    return false;
                }
                seen[k] = true;
            }
        }
        for (uint32_t k = 0; k < RESTORED_CLASSES; k++) {
            all[k] = RESTORED_CLASSES - 1 - k;
        }
        if (xsm_index_update(r->index, all, RESTORED_CLASSES, NULL) != XSM_OK) {
            return false;
        }
    }
    xsmi_index_save(r->index, numbers);
    return restored_from(r, numbers, NULL) == XSM_OK;
}

#endif
