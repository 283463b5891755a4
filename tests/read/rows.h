/* Rows as text, for tests of readers. */
#ifndef ROWS_H
#define ROWS_H

#include "support.h"

#include "data/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A dataset as text: `D K[labels or names]: labels f:v f:v; ...`, dense rows with all values. */
static inline void describe(const xsm_dataset *d, char *text, size_t size)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    assert_ok(xsm_dataset_get_class_map(d, &map, &err), err);
    size_t used = (size_t)snprintf(text, size, "%u %u[", map.features, map.classes);
    for (uint32_t k = 0; k < map.classes; k++) {
        used += map.names ? (size_t)snprintf(text + used, size - used, "%s%s", k ? "," : "", map.names[k])
                          : (size_t)snprintf(text + used, size - used, "%s%" PRId64, k ? "," : "",
                                             map.labels ? map.labels[k] : (int64_t)k);
    }
    used += (size_t)snprintf(text + used, size - used, "]:");
    for (uint64_t i = 0; i < d->rows; i++) {
        xsm_row row = XSM_ROW_INIT;
        assert_ok(xsm_dataset_get_row(d, i, &row, &err), err);
        used += (size_t)snprintf(text + used, size - used, i ? "; " : " ");
        for (uint64_t j = 0; j < row.label_count; j++) {
            used += row.labels[j] == XSM_CLASS_UNSEEN
                        ? (size_t)snprintf(text + used, size - used, "%s?", j ? "," : "")
                        : (size_t)snprintf(text + used, size - used, "%s%u", j ? "," : "", row.labels[j]);
        }
        for (uint64_t j = 0; j < row.count; j++) {
            used += row.index
                        ? (size_t)snprintf(text + used, size - used, " %u:%g", row.index[j], (double)row.values[j])
                        : (size_t)snprintf(text + used, size - used, " %g", (double)row.values[j]);
        }
    }
    assert_true(used < size);
}

#endif
