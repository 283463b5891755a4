/*
 * The rows of an index: from the host's memory, a model or a slice of its features, with their bias, and checked for
 * numbers that are not finite; and updates of the index.
 */
#include "index/index.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/hash.h"
#include "data/batch.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

static void read_memory(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                        float *out, size_t stride)
{
    const xsm_index *x = source->state;
    for (uint32_t j = 0; j < count; j++) {
        uint32_t k = rows ? rows[j] : first + j;
        memcpy(out + j * stride, x->rows.rows + k * x->rows.stride, x->width * sizeof *out);
        if (x->rows.bias) {
            out[j * stride + x->width] = x->rows.bias[k];
        }
    }
}

static void read_model(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count, float *out,
                       size_t stride)
{
    const xsm_index *x = source->state;
    const xsm_model *m = x->model;
    const float *log_q = x->head ? x->head->numbers : NULL;
    xsmi_weights_copy(&m->w, rows, first, count, false, out, stride);
    for (uint32_t j = 0; x->own_width > x->width && j < count; j++) {
        const uint32_t k = rows ? rows[j] : first + j;
        out[j * stride + x->width] = (m->w.bias ? m->w.bias[k] : 0) + (log_q ? log_q[k] : 0);
    }
}

static void read_slice(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count, float *out,
                       size_t stride)
{
    const xsm_index *x = source->state;
    const xsm_model *m = x->model;
    for (uint32_t j = 0; j < count; j++) {
        uint32_t k = rows ? rows[j] : first + j;
        float *row = out + j * stride;
        memcpy(row, m->w.weight + k * m->w.stride + x->first, x->width * sizeof *row);
        if (m->w.row_scale) {
            m->kernels->scale(row, x->width, (float)m->w.row_scale[k]);
        }
        float constant;
        if (xsmi_model_constant(m, k, row, x->width, &constant)) {
            row[x->width] = constant;
        }
    }
}

static xsm_index_source source_of(const xsm_index *x)
{
    xsm_index_source source = {
        .size = sizeof source,
        .context = x->context,
        .state = x,
        .count = x->count,
        .width = x->own_width,
        .seed = (uint64_t)x->common.seed,
        .read = x->sliced  ? read_slice
                : x->model ? read_model
                           : read_memory,
        .wanted = x->wanted,
    };
    return source;
}

void xsmi_index_read_row(const xsm_index *x, uint32_t row, float *out)
{
    const xsm_index_source source = source_of(x);
    source.read(&source, &row, 0, 1, out, x->own_width);
}

/* Rows that are checked at once. */
#define CHECK_ROWS 64

typedef struct check_job {
    const xsm_index_source *source;
    const xsmi_kernels *kernels;
    const uint32_t *rows; /* NULL = all */
    unsigned char *scratch;
    size_t stride;
    uint32_t *bad; /* for each job, the first row that is not finite, or UINT32_MAX */
} check_job;

static void run_check(void *state, const xsmi_range *r)
{
    check_job *job = state;
    float *block = (float *)(void *)(job->scratch + r->thread * CHECK_ROWS * job->stride * sizeof(float));
    const uint32_t first = (uint32_t)r->first, count = (uint32_t)(r->end - r->first);
    job->bad[r->index] = UINT32_MAX;
    job->source->read(job->source, job->rows ? job->rows + first : NULL, first, count, block, job->stride);
    for (uint32_t j = count; j-- > 0;) {
        const float *row = block + j * job->stride;
        if (job->kernels->dot(row, row, job->source->width) < INFINITY) {
            continue; /* otherwise a number is not finite, or a square overflows */
        }
        float most = 0;
        for (uint32_t i = 0; i < job->source->width; i++) {
            float size = fabsf(row[i]);
            most = size > most || size != size ? size : most;
        }
        if (!(most < INFINITY)) {
            job->bad[r->index] = job->rows ? job->rows[first + j] : first + j;
        }
    }
}

/* Refuses rows that are not finite, as no search could rank them. */
static xsm_status check_rows(const xsm_index *x, const uint32_t *rows, uint32_t count, xsm_error *err)
{
    xsm_index_source source = source_of(x);
    size_t jobs = ((size_t)count + CHECK_ROWS - 1) / CHECK_ROWS, threads = xsmi_context_threads(x->context);
    check_job job = {&source, xsmi_context_kernels(x->context), rows, NULL, xsmi_index_query_stride(x), NULL};
    size_t each = CHECK_ROWS * job.stride * sizeof(float);
    job.scratch = xsmi_allocate(x->context, threads, each);
    job.bad = xsmi_allocate(x->context, jobs, sizeof *job.bad);
    xsm_status status = job.scratch && job.bad ? xsmi_run_ranges(x->context, run_check, &job, count, CHECK_ROWS, err)
                                               : xsmi_fail_memory(err, threads * each, "rows to be indexed");
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        if (job.bad[i] != UINT32_MAX) {
            status = xsmi_fail(err, XSM_ERROR_DIVERGED, "row %u has a number that is not finite", job.bad[i]);
        }
    }
    xsmi_release(x->context, job.scratch, threads, each);
    xsmi_release(x->context, job.bad, jobs, sizeof *job.bad);
    return status;
}

typedef struct hash_job {
    const xsm_index_source *source;
    unsigned char *scratch;
    size_t stride;
    uint64_t *hashes; /* for each job */
} hash_job;

static void run_hash(void *state, const xsmi_range *r)
{
    const hash_job *job = state;
    const xsm_index_source *source = job->source;
    float *block = (float *)(void *)(job->scratch + r->thread * CHECK_ROWS * job->stride * sizeof(float));
    const uint32_t first = (uint32_t)r->first, count = (uint32_t)(r->end - r->first);
    uint64_t hash = 0;
    source->read(source, NULL, first, count, block, job->stride);
    for (uint32_t j = 0; j < count; j++) {
        hash = xsmi_hash(block + j * job->stride, source->width * sizeof *block, hash);
    }
    job->hashes[r->index] = hash;
}

/* Hashes the hashes of blocks of rows, so that the result is the same for any number of threads. */
xsm_status xsmi_index_fingerprint(const xsm_index *x, uint64_t *out, xsm_error *err)
{
    xsm_index_source source = source_of(x);
    const size_t jobs = ((size_t)source.count + CHECK_ROWS - 1) / CHECK_ROWS;
    const size_t threads = xsmi_context_threads(x->context);
    hash_job job = {&source, NULL, xsmi_index_query_stride(x), NULL};
    const size_t each = CHECK_ROWS * job.stride * sizeof(float);
    job.scratch = xsmi_allocate(x->context, threads, each);
    job.hashes = xsmi_allocate(x->context, jobs, sizeof *job.hashes);
    xsm_status status = job.scratch && job.hashes
                            ? xsmi_run_ranges(x->context, run_hash, &job, source.count, CHECK_ROWS, err)
                            : xsmi_fail_memory(err, threads * each, "the hash of rows");
    if (status == XSM_OK) {
        *out = xsmi_hash(job.hashes, jobs * sizeof *job.hashes, 0);
    }
    xsmi_release(x->context, job.scratch, threads, each);
    xsmi_release(x->context, job.hashes, jobs, sizeof *job.hashes);
    return status;
}

static xsm_status build(xsm_index *x, xsm_error *err)
{
    xsmi_activity activity;
    xsmi_begin(&activity, x->context, "building an index", "rows", x->count);
    xsm_index_source source = source_of(x);
    xsm_status status = check_rows(x, NULL, source.count, err);
    if (status == XSM_OK) {
        status = x->ops.build(x->state, &source, err);
    }
    status = xsmi_end(&activity, status, err);
    x->built = status == XSM_OK;
    if (!x->built) {
        xsmi_index_clear(x);
    }
    return status;
}

xsm_status xsmi_index_aim_at_rows(xsm_index *x, const xsm_index_rows *given, xsm_error *err)
{
    xsm_index_rows rows = XSM_INDEX_ROWS_INIT;
    XSMI_TRY(XSMI_READ(xsm_index_rows, &rows, given, err));
    XSMI_TRY(xsmi_check_float32("xsm_index_rows.dtype", rows.dtype, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_index_rows, &rows, reserved, err));
    if (!rows.rows) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_rows.rows is NULL");
    }
    if (rows.count < 1 || rows.count > XSM_CLASSES_MAX || rows.width < 1 || rows.width > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u rows of %u numbers; accepted is 1 to %u", rows.count, rows.width,
                         XSM_CLASSES_MAX);
    }
    XSMI_TRY(xsmi_check_dimensions(rows.width, rows.count, err));
    if (rows.stride < rows.width) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "rows of %u numbers %zu floats apart", rows.width, rows.stride);
    }
    xsmi_index_clear(x);
    xsmi_index_hold(x, NULL);
    x->rows = rows;
    xsmi_index_aim(x, NULL);
    x->sliced = false;
    x->wanted = 0;
    x->count = rows.count;
    x->width = rows.width;
    x->own_width = rows.width + (rows.bias != NULL);
    return XSM_OK;
}

xsm_status xsm_index_build(xsm_index *x, const xsm_index_rows *rows, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {x, "the index"}, {rows, "rows"});
    XSMI_TRY(xsmi_index_aim_at_rows(x, rows, err));
    return build(x, err);
}

xsm_status xsmi_index_aim_at_model(xsm_index *x, const xsm_model *model, xsm_error *err)
{
    XSMI_TRY(xsmi_model_need_products(model, "an index", err));
    xsmi_index_clear(x);
    xsmi_index_aim(x, model);
    x->sliced = false;
    x->wanted = 0;
    x->count = model->classes;
    x->width = model->features;
    xsmi_index_hold(x, model->head);
    x->own_width = model->features + (xsmi_model_has_bias(model) || x->head);
    return XSM_OK;
}

xsm_status xsm_index_build_model(xsm_index *x, const xsm_model *model, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {x, "the index"}, {model, "the model"});
    XSMI_TRY(xsmi_index_aim_at_model(x, model, err));
    return build(x, err);
}

/* Sets the rows of an index. */
static void aim_at_slice(xsm_index *x, const xsmi_index_slice *slice)
{
    xsmi_index_hold(x, NULL);
    xsmi_index_aim(x, slice->model);
    x->sliced = true;
    x->first = slice->first;
    x->wanted = slice->wanted;
    x->count = slice->model->classes;
    x->width = slice->width;
    x->own_width = slice->width + xsmi_model_has_bias(slice->model);
}

xsm_status xsmi_index_build_slice(xsm_index *x, const xsmi_index_slice *slice, xsm_error *err)
{
    xsmi_index_clear(x);
    aim_at_slice(x, slice);
    return build(x, err);
}

xsm_status xsmi_index_saved(xsm_index *x, const xsmi_index_slice *slice, uint64_t *numbers, xsm_error *err)
{
    if (!x->ops.saved) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "index '%s' depends on every update so far, and its table has no save() and restore(), so that "
            "a checkpoint cannot keep it; save the model, and train on from it",
            x->ops.name);
    }
    if (!x->built) {
        aim_at_slice(x, slice);
    }
    *numbers = xsmi_index_numbers(x);
    return XSM_OK;
}

uint64_t xsmi_index_numbers(const xsm_index *x)
{
    xsm_index_source source = source_of(x);
    return x->ops.saved(x->state, &source);
}

void xsmi_index_save(const xsm_index *x, uint32_t *numbers)
{
    xsm_index_source source = source_of(x);
    x->ops.save(x->state, &source, numbers);
}

xsm_status xsmi_index_restore_slice(xsm_index *x, const xsmi_index_slice *slice, const uint32_t *numbers,
                                    xsm_error *err)
{
    xsmi_index_clear(x);
    aim_at_slice(x, slice);
    return xsmi_index_restore(x, numbers, err);
}

xsm_status xsmi_index_restore(xsm_index *x, const uint32_t *numbers, xsm_error *err)
{
    xsm_index_source source = source_of(x);
    XSMI_TRY(check_rows(x, NULL, source.count, err));
    xsm_status status = x->ops.restore(x->state, &source, numbers, err);
    x->built = status == XSM_OK;
    if (!x->built) {
        xsmi_index_clear(x);
    }
    return status;
}

xsm_status xsmi_index_check_model(const xsm_index *x, xsm_error *err)
{
    return x->model && x->model->shape != x->shape
               ? xsmi_fail(err, XSM_ERROR_STATE,
                           "index '%s': its model has another number of classes or features, or another geometry, "
                           "than when it was built; build it anew",
                           x->ops.name)
               : XSM_OK;
}

xsm_status xsm_index_update(xsm_index *x, const uint32_t *classes, size_t count, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {x, "the index"}, {count > 0 ? (const void *)classes : x, "classes"});
    if (!x->built) {
        return xsmi_fail(err, XSM_ERROR_STATE, "index '%s' is not built", x->ops.name);
    }
    XSMI_TRY(xsmi_index_check_model(x, err));
    if (count > x->count) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%zu rows; the index has %u, each of which is named at most once", count,
                         x->count);
    }
    const uint32_t changed = (uint32_t)count;
    for (uint32_t j = 0; j < changed; j++) {
        if (classes[j] >= x->count) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "row %u at position %u; the index has %u", classes[j], j, x->count);
        }
    }
    if (changed == 0) {
        return XSM_OK;
    }
    xsmi_activity activity;
    xsmi_begin(&activity, x->context, "updating an index", "rows", changed);
    xsm_status status = check_rows(x, classes, changed, err);
    if (status == XSM_OK && !x->ops.update) {
        xsmi_index_clear(x);
        status = build(x, err);
    } else if (status == XSM_OK) {
        xsm_index_source source = source_of(x);
        status = x->ops.update(x->state, &source, classes, changed, err);
    }
    return xsmi_end(&activity, status, err);
}
