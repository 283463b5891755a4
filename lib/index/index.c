/* The layer between indexes' tables and their users: it owns the state's memory, sets options, builds and searches. */
#include "index/index.h"

#include "base/entry.h"
#include "model/model.h"
#include "base/registry.h"
#include "base/activity.h"
#include "base/hash.h"
#include "data/batch.h"
#include "base/arena.h"
#include "base/held.h"
#include "base/overlap.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const xsm_option common_options[] = {
    XSMI_OPTION_SEED(xsmi_index_common, "names the random stream of what is random in building"),
};

static xsmi_option_group options_of(const xsm_index_ops *ops, void *common, void *state)
{
    xsmi_option_group group = {
        "index",
        ops->name,
        {[XSMI_OPTIONS_COMMON] = XSMI_OPTION_TABLE(common_options),
         [XSMI_OPTIONS_OWN] = {ops->options, ops->option_count}},
        {[XSMI_OPTIONS_COMMON] = common, [XSMI_OPTIONS_OWN] = state},
    };
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

/* xsm_index_ops_option() */
XSMI_DESCRIBE_OPS(index)

static xsm_status read_ops(const xsm_index_ops *given, xsm_index_ops *ops, xsm_error *err)
{
    memset(ops, 0, sizeof *ops);
    XSMI_TRY(XSMI_READ_TABLE(xsm_index_ops, ops, given, err));
    if (!ops->name || !ops->summary || !ops->build || !ops->query) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': the table needs name, summary, build() and query()",
                         ops->name ? ops->name : "?");
    }
    if (!ops->saved != !ops->save || !ops->saved != !ops->restore) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "index '%s': the table needs saved(), save() and restore(), all three or none", ops->name);
    }
    if (!ops->cursor != !ops->next) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': the table needs cursor() and next(), both or none",
                         ops->name);
    }
    if (ops->flags & ~(uint32_t)XSM_INDEX_UNCHECKED) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': flags 0x%x are not known", ops->name, ops->flags);
    }
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_check(&group, ops->state_size, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsm_index_new_from(xsm_context *context, const xsm_index_ops *given, xsm_index **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_need("xsm_index_new", XSMI_GIVEN({out, "out"}, {given, "the table"}), err));
    xsm_index_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_index *x;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &x, xsm_index, "an index", err));
    xsmi_holders_start(&x->holders);
    x->ops = ops;
    const xsm_status status = xsmi_struct_new(x->context, &x->state, ops.state_size, "an index", err);
    if (status != XSM_OK) {
        XSMI_OBJECT_FREE(x, xsm_index);
        return status;
    }
    xsmi_option_group group = options_of(&x->ops, &x->common, x->state);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_COMMON], &x->common);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_OWN], x->state);
    *out = x;
    return XSM_OK;
}

xsm_status xsmi_index_new_like(const xsm_index *of, xsm_index **out, xsm_error *err)
{
    XSMI_TRY(xsm_index_new_from(of->context, &of->ops, out, err));
    (*out)->common = of->common;
    memcpy((*out)->state, of->state, of->ops.state_size); /* only options, as long as it is not built */
    return XSM_OK;
}

/* Keeps a reference to a correction, or NULL, as long as the index is built over its model. */
static void hold_head(xsm_index *x, xsmi_head *head)
{
    xsmi_head *before = x->head;
    x->head = xsmi_head_retain(head);
    xsmi_head_release(before);
}

void xsmi_index_aim(xsm_index *x, const xsm_model *model)
{
    const xsm_model *before = x->model;
    x->model = xsmi_model_retain(model);
    x->shape = model ? model->shape : 0;
    xsmi_model_release(before);
}

/* Returns the index to the state before it was built. */
static void clear_index(xsm_index *x)
{
    if (x->ops.clear) {
        x->ops.clear(x->state);
    }
    x->built = false;
}

xsm_index *xsm_index_ref(const xsm_index *index)
{
    return xsmi_index_retain(index);
}

void xsm_index_free(xsm_index *x)
{
    if (x && xsmi_holders_drop(&x->holders)) {
        xsm_context *ctx = x->context;
        clear_index(x);
        hold_head(x, NULL);
        xsmi_index_aim(x, NULL);
        xsmi_release(ctx, x->state, x->ops.state_size, 1);
        XSMI_OBJECT_FREE(x, xsm_index);
    }
}

/* -- options ------------------------------------------------------------------------------------------------------- */

xsmi_option_group xsmi_index_options(const xsm_index *x)
{
    return options_of(&x->ops, (void *)(uintptr_t)&x->common, x->state);
}

static const char *closed(const xsm_index *x)
{
    return x->built ? "before the index is built" : NULL;
}

/* xsm_index_set(), _set_number(), _get() */
XSMI_OBJECT_OPTIONS(index, closed, &object->common)

/* -- what is known ----------------------------------------------------------------------------------------------- */

xsm_status xsm_index_get_info(const xsm_index *x, xsm_index_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {x, "the index"});
    xsm_index_info known = XSM_INDEX_INFO_INIT;
    if (x->built) {
        known.rows = x->count;
        known.width = x->width;
        if (x->ops.info) {
            x->ops.info(x->state, &known);
        }
    }
    known.name = x->ops.name;
    return XSMI_WRITE(xsm_index_info, &known, info, err);
}

/* -- all indexes --------------------------------------------------------------------------------------------------- */

#define TABLE(table, name) &(table),
#define NAME(table, name) name,

/* xsm_index_at(), _find(), _new() */
XSMI_REGISTRY(index, XSMI_INDEXES(TABLE))

const char *const xsmi_index_names[] = {XSMI_INDEXES(NAME) NULL};

/* -- building ------------------------------------------------------------------------------------------------------ */

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

/* Reads a row, own_width numbers. */
static void read_row(const xsm_index *x, uint32_t row, float *out)
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
    xsmi_held held = {.context = x->context};
    job.scratch = xsmi_hold(&held, threads, each);
    job.bad = xsmi_hold(&held, jobs, sizeof *job.bad);
    xsm_status status = xsmi_held_check(&held, "rows to be indexed", err);
    status = status == XSM_OK ? xsmi_run_ranges(x->context, run_check, &job, count, CHECK_ROWS, err) : status;
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        if (job.bad[i] != UINT32_MAX) {
            status = xsmi_fail(err, XSM_ERROR_DIVERGED, "row %u has a number that is not finite", job.bad[i]);
        }
    }
    xsmi_held_release(&held);
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
    xsmi_held held = {.context = x->context};
    job.scratch = xsmi_hold(&held, threads, each);
    job.hashes = xsmi_hold(&held, jobs, sizeof *job.hashes);
    xsm_status status = xsmi_held_check(&held, "the hash of rows", err);
    status = status == XSM_OK ? xsmi_run_ranges(x->context, run_hash, &job, source.count, CHECK_ROWS, err) : status;
    if (status == XSM_OK) {
        *out = xsmi_hash(job.hashes, jobs * sizeof *job.hashes, 0);
    }
    xsmi_held_release(&held);
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
        clear_index(x);
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
    clear_index(x);
    hold_head(x, NULL);
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
    clear_index(x);
    xsmi_index_aim(x, model);
    x->sliced = false;
    x->wanted = 0;
    x->count = model->classes;
    x->width = model->features;
    hold_head(x, model->head);
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
    hold_head(x, NULL);
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
    clear_index(x);
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
    clear_index(x);
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
        clear_index(x);
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
        clear_index(x);
        status = build(x, err);
    } else if (status == XSM_OK) {
        xsm_index_source source = source_of(x);
        status = x->ops.update(x->state, &source, classes, changed, err);
    }
    return xsmi_end(&activity, status, err);
}

/* -- searching ----------------------------------------------------------------------------------------------------- */

/* Calls query() or next(), and checks the lists. */
static xsm_status search(const xsm_index *x, const xsm_index_block *block, bool further, xsm_error *err)
{
    xsm_error unsaid = XSM_ERROR_INIT;
    xsm_status status = (further ? x->ops.next : x->ops.query)(x->state, block, &unsaid);
    if (status != XSM_OK) {
        /* A host's table may return an error without a message. */
        return unsaid.status == status ? xsmi_fail_copy(err, &unsaid)
                                       : xsmi_fail(err, status, "index '%s': a search failed", x->ops.name);
    }
    const bool trusted = (x->ops.flags & XSM_INDEX_UNCHECKED) != 0;
    for (uint32_t i = 0; i < block->count; i++) {
        const uint32_t length = block->lengths[i], listed = trusted || length > block->top ? 0 : length;
        const uint32_t *classes = block->classes + i * block->list_stride;
        bool bad = length > block->top;
        for (uint32_t j = 0; j < listed; j++) { /* no early exit, so that the loop is vectorised */
            bad |= classes[j] >= x->count;
        }
        if (bad) {
            return xsmi_fail(err, XSM_ERROR_DATA, "index '%s' lists more rows than asked for, or one that is not there",
                             x->ops.name);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_index_block(const xsm_index *x, const xsm_index_block *block, xsm_error *err)
{
    XSMI_TRY(search(x, block, false, err));
    for (uint32_t i = 0; i < block->count; i++) {
        for (uint32_t j = block->lengths[i]; j < block->top; j++) {
            block->classes[i * block->list_stride + j] = UINT32_MAX;
            block->scores[i * block->list_stride + j] = -INFINITY;
        }
    }
    return XSM_OK;
}

size_t xsmi_index_cursor(const xsm_index *x)
{
    const size_t bytes = x->ops.cursor(x->state);
    return bytes > SIZE_MAX - XSMI_ALIGNMENT ? SIZE_MAX
                                             : (bytes + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
}

xsm_status xsmi_index_next(const xsm_index *x, const xsm_index_block *block, xsm_error *err)
{
    return search(x, block, true, err);
}

static void copy_query(const xsm_index *x, const float *from, float *to)
{
    memcpy(to, from, x->width * sizeof *to);
    for (size_t j = x->width; j < xsmi_index_query_stride(x); j++) {
        to[j] = j < x->own_width; /* 1 for the bias */
    }
}

typedef struct query_job {
    const xsm_index *index;
    const xsm_index_search *search;
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each;
    uint64_t *probed;   /* [n] */
    xsm_status *status; /* by job */
    xsm_error *errors;  /* by job */
} query_job;

static void run_queries(void *state, const xsmi_range *r)
{
    const query_job *job = state;
    const xsm_index *x = job->index;
    const xsm_index_search *s = job->search;
    const size_t first = r->first;
    const uint32_t count = (uint32_t)(r->end - first);
    xsmi_arena arena = {job->scratch + r->thread * job->scratch_each, 0};
    size_t stride = xsmi_index_query_stride(x);
    float *queries = xsmi_arena_take(&arena, (uint64_t)XSM_INDEX_QUERIES * stride, sizeof *queries);
    for (uint32_t i = 0; i < count; i++) {
        copy_query(x, s->queries + (first + i) * s->stride, queries + i * stride);
        job->probed[first + i] = 0;
    }
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = stride,
        .count = count,
        .top = s->top,
        .least_score = s->has_least_score ? s->least_score : -INFINITY,
        .classes = s->classes + first * s->top,
        .scores = s->scores + first * s->top,
        .lengths = s->lengths + first,
        .probed = job->probed + first,
        .scratch = arena.base + arena.used,
        .list_stride = s->top,
    };
    job->errors[r->index] = (xsm_error)XSM_ERROR_INIT;
    job->status[r->index] = xsmi_index_block(x, &block, &job->errors[r->index]);
    xsmi_advance(x->context, count);
}

static xsm_status check_queries(const xsm_index *x, const xsm_index_search *s, xsm_error *err)
{
    const xsmi_kernels *kernels = xsmi_context_kernels(x->context);
    for (uint64_t i = 0; i < s->count; i++) {
        const float *query = s->queries + i * s->stride;
        if (kernels->dot(query, query, x->width) < INFINITY) {
            continue;
        }
        for (uint32_t j = 0; j < x->width; j++) {
            if (!isfinite(query[j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "query %llu, number %u (both from 0) is %g; finite numbers are accepted",
                                 (unsigned long long)i, j, (double)query[j]);
            }
        }
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "query %llu (from 0) is so long that its scores would not be finite; a length below %.2g is "
                         "accepted",
                         (unsigned long long)i, sqrt((double)FLT_MAX));
    }
    return XSM_OK;
}

/* Refuses rows so long that a score is infinite. */
static xsm_status check_scores(const xsm_index_search *s, xsm_error *err)
{
    for (uint64_t i = 0; i < s->count; i++) {
        for (uint32_t j = 0; j < s->lengths[i]; j++) {
            if (!isfinite(s->scores[i * s->top + j])) {
                return xsmi_fail(err, XSM_ERROR_RANGE, "query %llu (from 0) has scores that are not finite",
                                 (unsigned long long)i);
            }
        }
    }
    return XSM_OK;
}

xsm_status xsm_index_query(const xsm_index *x, xsm_index_search *given, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {x, "the index"}, {given, "the search"});
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    XSMI_TRY(XSMI_READ(xsm_index_search, &s, given, err));
    XSMI_TRY(xsmi_check_float32("xsm_index_search.dtype", s.dtype, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_index_search, &s, has_least_score, err));
    if (!x->built) {
        return xsmi_fail(err, XSM_ERROR_STATE, "index '%s' is not built", x->ops.name);
    }
    if (!s.queries || !s.classes || !s.scores || !s.lengths) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_search.%s is NULL",
                         !s.queries   ? "queries"
                         : !s.classes ? "classes"
                         : !s.scores  ? "scores"
                                      : "lengths");
    }
    if (s.stride < x->width) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "queries %zu floats apart for rows of %u numbers", s.stride, x->width);
    }
    if (s.count < 1 || s.top < 1 || s.top > x->count) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%llu queries for %u rows each; accepted are 1 query and more, for 1 to %u rows each",
                         (unsigned long long)s.count, s.top, x->count);
    }
    if (s.has_least_score && !(fabsf(s.least_score) < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_index_search.least_score is %g; accepted is a finite one",
                         (double)s.least_score);
    }
    const size_t n = (size_t)s.count, all = n * s.top;
    const xsmi_region regions[] = {xsmi_output("classes", s.classes, all, sizeof *s.classes),
                                   xsmi_output("scores", s.scores, all, sizeof *s.scores),
                                   xsmi_output("lengths", s.lengths, n, sizeof *s.lengths),
                                   xsmi_input_rows("queries", s.queries, n, x->width, s.stride, sizeof *s.queries)};
    XSMI_TRY(xsmi_check_overlap("xsm_index_search", regions, sizeof regions / sizeof *regions, err));
    XSMI_TRY(check_queries(x, &s, err));
    size_t jobs = (size_t)((s.count + XSM_INDEX_QUERIES - 1) / XSM_INDEX_QUERIES);
    size_t threads = jobs > 1 ? xsmi_context_threads(x->context) : 1;
    xsmi_arena arena = {NULL, 0};
    (void)xsmi_arena_take(&arena, (uint64_t)XSM_INDEX_QUERIES * xsmi_index_query_stride(x), sizeof(float));
    (void)xsmi_arena_take(&arena, xsmi_index_scratch(x, s.top), 1);
    query_job job = {.index = x, .search = &s, .scratch_each = arena.used};
    xsmi_held held = {.context = x->context};
    job.scratch = xsmi_hold(&held, threads, job.scratch_each);
    job.probed = xsmi_hold(&held, (size_t)s.count, sizeof *job.probed);
    job.status = xsmi_hold(&held, jobs, sizeof *job.status);
    job.errors = xsmi_hold(&held, jobs, sizeof *job.errors);
    xsm_status status = xsmi_held_check(&held, "a search", err);
    xsmi_activity activity;
    xsmi_begin(&activity, x->context, "searching", "queries", s.count);
    status =
        status == XSM_OK ? xsmi_run_ranges(x->context, run_queries, &job, s.count, XSM_INDEX_QUERIES, err) : status;
    status = xsmi_end(&activity, status, err);
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        if (job.status[i] != XSM_OK) {
            status = xsmi_fail_copy(err, &job.errors[i]);
        }
    }
    status = status == XSM_OK ? check_scores(&s, err) : status;
    if (status == XSM_OK) {
        for (uint64_t i = 0; i < s.count; i++) {
            s.probed = (i ? s.probed : 0) + job.probed[i];
        }
        given->probed = s.probed;
    }
    xsmi_held_release(&held);
    return status;
}

/* -- recall -------------------------------------------------------------------------------------------------------- */

/* Returns how much a score may change with the order of the sum. */
static double rounding(const xsm_index *x, const float *query, uint32_t row, float score, float *scratch)
{
    const xsmi_kernels *kernels = xsmi_context_kernels(x->context);
    read_row(x, row, scratch);
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
    xsmi_held held = {.context = x->context};
    size_t entries;
    entries = xsmi_multiply(count, top, &entries) ? entries : SIZE_MAX;
    have.classes = xsmi_hold(&held, entries, sizeof *have.classes);
    want.classes = xsmi_hold(&held, entries, sizeof *want.classes);
    have.scores = xsmi_hold(&held, entries, sizeof *have.scores);
    want.scores = xsmi_hold(&held, entries, sizeof *want.scores);
    have.lengths = xsmi_hold(&held, count, sizeof *have.lengths);
    want.lengths = xsmi_hold(&held, count, sizeof *want.lengths);
    float *row = xsmi_hold(&held, x->own_width, sizeof *row);
    xsmi_activity activity;
    xsmi_begin(&activity, x->context, "measuring recall", "queries", count);
    status = status == XSM_OK ? xsmi_held_check(&held, "a comparison of searches", err) : status;
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
    xsmi_held_release(&held);
    xsm_index_free(truth);
    return status;
}
