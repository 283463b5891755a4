/*
 * Maps the features of rows to those of a model: each value moves to the number that its feature has there.
 */
#include "data/schema.h"
#include "base/activity.h"
#include "base/order.h"
#include "data/sort.h"

#include <string.h>

/* Values moved between two polls. */
#define VALUES_TOGETHER ((size_t)1 << 16)

typedef struct mapping {
    const xsm_dataset *d;
    const xsmi_feature_map *map;
    uint32_t features; /* D of the new rows */
    xsmi_feature_arrays to;
    uint64_t *keys; /* [2 * longest] a row's features, with the places of their values; scratch */
    size_t longest;
    uint64_t dropped;
    size_t since;
} mapping;

/* Refuses a feature 0, whose number would be below 0 on the other side. */
static xsm_status refuse_lost(const mapping *m, uint64_t row, xsm_error *err)
{
    return xsmi_fail(err, XSM_ERROR_DATA,
                     "row %llu (from 0) of %s has a feature of number 0, and the features of %s are numbered from 1; "
                     "rows of numbers from 1 are accepted",
                     (unsigned long long)row, m->map->rows.what, m->map->wanted.what);
}

/* Sets *to to the new feature of a value; from m->features on, the value is dropped. */
static xsm_status place(mapping *m, uint64_t row, uint32_t feature, float value, uint32_t *to, xsm_error *err)
{
    *to = xsmi_feature_place(m->map, feature);
    if (*to >= m->features && value != 0) {
        m->dropped++;
        return m->map->shift < 0 && feature == 0 ? refuse_lost(m, row, err) : XSM_OK;
    }
    return XSM_OK;
}

static xsm_status pass(mapping *m, size_t values, xsm_error *err)
{
    m->since += values;
    if (m->since < VALUES_TOGETHER) {
        return XSM_OK;
    }
    m->since = 0;
    return xsmi_go_on(m->d->context, err);
}

static xsm_status map_dense(mapping *m, xsm_error *err)
{
    const xsm_dataset *d = m->d;
    xsm_status status = XSM_OK;
    m->to.stride = xsmi_dataset_stride(m->features);
    if (d->rows > SIZE_MAX / sizeof(float) / XSMI_MAX(m->to.stride, 1)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows of %zu floats do not fit the address space",
                         (unsigned long long)d->rows, m->to.stride);
    }
    float *values = xsmi_dataset_allocate((xsm_dataset *)(uintptr_t)d, d->rows * m->to.stride, sizeof *values,
                                          &m->to.value_capacity, &status, err);
    m->to.values = values;
    for (uint64_t i = 0; i < d->rows && status == XSM_OK; i++) {
        const float *from = d->values + i * d->stride;
        memset(values, 0, m->to.stride * sizeof *values);
        for (uint32_t j = 0; j < d->features && status == XSM_OK; j++) {
            uint32_t to;
            status = place(m, i, j, from[j], &to, err);
            if (to < m->features) {
                values[to] = from[j];
            }
        }
        values += m->to.stride;
        status = status == XSM_OK ? pass(m, d->features, err) : status;
    }
    return status;
}

static xsm_status map_row(mapping *m, uint64_t row, uint64_t *next, xsm_error *err)
{
    const xsmi_features f = xsmi_dataset_features(m->d, row);
    size_t kept = 0;
    bool rising = true;
    for (size_t i = 0; i < f.count; i++) {
        uint32_t to;
        XSMI_TRY(place(m, row, f.index[i], f.values[i], &to, err));
        if (to < m->features) {
            m->keys[kept] = (uint64_t)to << 32 | i;
            rising &= kept == 0 || m->keys[kept] > m->keys[kept - 1];
            kept++;
        }
    }
    if (!rising) {
        xsmi_sort(m->d->context, m->keys, m->keys + m->longest, kept);
    }
    for (size_t i = 0; i < kept; i++, (*next)++) {
        m->to.index[*next] = (uint32_t)(m->keys[i] >> 32);
        m->to.values[*next] = f.values[(uint32_t)m->keys[i]];
    }
    m->to.offsets[row + 1] = *next;
    return pass(m, f.count + 1, err);
}

static xsm_status map_sparse(mapping *m, xsm_error *err)
{
    xsm_dataset *d = (xsm_dataset *)(uintptr_t)m->d;
    const uint64_t count = d->offsets[d->rows];
    xsm_status status = XSM_OK;
    for (uint64_t i = 0; i < d->rows; i++) {
        m->longest = XSMI_MAX(m->longest, (size_t)(d->offsets[i + 1] - d->offsets[i]));
    }
    m->to.values = xsmi_dataset_allocate(d, count, sizeof *m->to.values, &m->to.value_capacity, &status, err);
    m->to.index = xsmi_dataset_allocate(d, count, sizeof *m->to.index, &m->to.index_capacity, &status, err);
    m->to.offsets = xsmi_dataset_allocate(d, d->rows + 1, sizeof *m->to.offsets, &m->to.offset_capacity, &status, err);
    XSMI_TRY(status);
    XSMI_TRY(xsmi_array_new(d->context, &m->keys, m->longest, 2 * sizeof *m->keys, "a row's features", err));
    m->to.offsets[0] = 0;
    for (uint64_t i = 0, next = 0; i < d->rows && status == XSM_OK; i++) {
        status = map_row(m, i, &next, err);
        xsmi_dataset_passed(d, i, 1);
    }
    xsmi_release(d->context, m->keys, m->longest, 2 * sizeof *m->keys);
    return status == XSM_OK ? xsmi_go_on(d->context, err) : status;
}

static void take_schema(xsm_dataset *d, const xsmi_schema *schema)
{
    xsmi_schema *before = d->schema;
    d->schema = xsmi_schema_retain(schema);
    xsmi_schema_release(before);
}

/* For rows whose features already have the right numbers: sets the schema and, of sparse rows, the number of
 * features. */
static void keep_rows(xsm_dataset *d, uint32_t features, const xsmi_schema *schema)
{
    d->features = d->sparse ? features : d->features;
    if (schema) {
        take_schema(d, schema);
    }
    xsmi_dataset_edited(d);
}

xsm_status xsmi_dataset_prepare_features(xsm_dataset *d, const xsmi_feature_map *map, xsmi_mapped_features *made,
                                         xsm_error *err)
{
    const xsmi_schema *wanted = map->wanted.schema;
    mapping m = {.d = d, .map = map};
    m.features = map->wanted.features      ? map->wanted.features
                 : wanted && wanted->count ? wanted->count
                                           : d->features + (uint32_t)map->shift;
    *made = (xsmi_mapped_features){.features = m.features};
    if (map->same && m.features >= d->features) {
        return XSM_OK;
    }
    if (d->transformed && !map->same) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "%s were transformed, and their features are not those of %s; rows that are mapped before "
                         "xsm_transform_apply() are accepted",
                         map->rows.what, map->wanted.what);
    }
    const xsm_status status = d->sparse ? map_sparse(&m, err) : map_dense(&m, err);
    *made = (xsmi_mapped_features){m.to, m.features, m.dropped, true};
    if (status != XSM_OK) {
        xsmi_feature_arrays_free(d->context, &made->to);
    }
    return status;
}

void xsmi_dataset_take_mapped(xsm_dataset *d, const xsmi_feature_map *map, const xsmi_mapped_features *made)
{
    if (!made->moved) {
        keep_rows(d, made->features, map->wanted.schema);
        return;
    }
    xsmi_dataset_take_features(d, &made->to);
    if (map->wanted.schema) {
        take_schema(d, map->wanted.schema);
    }
    d->features = made->features;
    d->counted.dropped_features += made->dropped;
    d->unknown_features += map->unknown;
    xsmi_dataset_count_features(d);
}

xsm_status xsmi_dataset_map_features(xsm_dataset *d, const xsmi_feature_map *map, xsm_error *err)
{
    xsmi_mapped_features made;
    XSMI_TRY(xsmi_dataset_prepare_features(d, map, &made, err));
    xsmi_dataset_take_mapped(d, map, &made);
    return XSM_OK;
}

xsm_status xsmi_dataset_match_features(xsm_dataset *d, const xsmi_feature_side *wanted, xsm_error *err)
{
    const xsmi_feature_side rows = {d->schema, d->features, "the rows"};
    xsmi_feature_map map;
    XSMI_TRY(xsmi_features_match(&rows, wanted, &map, err));
    const bool known = map.to || map.shift != 0; /* otherwise the numbers of features were compared */
    const xsm_status status = known ? xsmi_dataset_map_features(d, &map, err) : XSM_OK;
    xsmi_feature_map_end(&map);
    return status;
}
