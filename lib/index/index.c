/*
 * The layer between indexes' tables and everyone else: it owns the state's memory, sets options, reads rows of a model
 * or of the host's memory with their bias, and cuts queries into blocks for the threads.
 */
#include "index/index.h"

#include "model/tiles.h"

#include <math.h>
#include <string.h>

static const xsm_option common_options[] = {
    {"seed", XSM_OPTION_INT, offsetof(xsmi_index_common, seed), "1", 0, 9007199254740992.0, NULL,
     "names the random stream of what is random in building"},
};

static xsmi_option_group options_of(const xsm_index_ops *ops, void *common, void *state)
{
    xsmi_option_group group = {
        "index",
        ops->name,
        {{common_options, sizeof common_options / sizeof common_options[0], sizeof common_options[0]},
         {ops->options, ops->option_count, ops->option_size}},
        {common, state},
    };
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

const char *xsm_index_ops_name(const xsm_index_ops *ops)
{
    return ops ? ops->name : NULL;
}

const char *xsm_index_ops_summary(const xsm_index_ops *ops)
{
    return ops ? ops->summary : NULL;
}

const xsm_option *xsm_index_ops_option(const xsm_index_ops *ops, size_t index)
{
    if (!ops) {
        return NULL;
    }
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_at(&group, index);
}

/* A table of the first release. */
#define FIRST_OPS_SIZE (offsetof(xsm_index_ops, info) + sizeof(((xsm_index_ops *)0)->info))

static xsm_status read_ops(const xsm_index_ops *given, xsm_index_ops *ops, xsm_error *err)
{
    memset(ops, 0, sizeof *ops);
    XSMI_TRY(xsmi_options_read(ops, sizeof *ops, FIRST_OPS_SIZE, given, "xsm_index_ops", err));
    if (ops->abi != XSM_INDEX_ABI) {
        return xsmi_fail(err, XSM_ERROR_STRUCT_NEW, "the index table says abi %u; this release serves %d", ops->abi,
                         XSM_INDEX_ABI);
    }
    if (!ops->name || !ops->summary || !ops->build || !ops->query) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': the table needs name, summary, build() and query()",
                         ops->name ? ops->name : "?");
    }
    if (!ops->saved != !ops->save || !ops->saved != !ops->restore) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "index '%s': the table needs saved(), save() and restore(), all three or none", ops->name);
    }
    if (ops->flags) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "index '%s': flags 0x%x are not known", ops->name, ops->flags);
    }
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_check(&group, ops->state_size, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static const char *index_name_at(const void *list, size_t index)
{
    (void)list;
    return xsm_index_at(index)->name;
}

xsm_status xsm_index_new(xsm_context *context, const char *name, xsm_index **out, xsm_error *err)
{
    const xsm_index_ops *ops = xsm_index_find(name);
    if (!ops) {
        return xsmi_fail_name(err, "index", name, xsm_index_count(), index_name_at);
    }
    return xsm_index_new_from(context, ops, out, err);
}

xsm_status xsm_index_new_from(xsm_context *context, const xsm_index_ops *given, xsm_index **out, xsm_error *err)
{
    if (!out || !given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_new: %s is NULL", out ? "the table" : "out");
    }
    xsm_index_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsm_index *x = xsmi_allocate_zero(ctx, 1, sizeof *x);
    void *state = x ? xsmi_allocate_zero(ctx, ops.state_size, 1) : NULL;
    if (!state) {
        xsmi_release(ctx, x, 1, sizeof *x);
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, ops.state_size, "an index");
    }
    x->context = ctx;
    x->ops = ops;
    x->state = state;
    xsmi_option_group group = options_of(&x->ops, &x->common, state);
    xsmi_option_defaults(&group.table[0], &x->common);
    xsmi_option_defaults(&group.table[1], state);
    *out = x;
    return XSM_OK;
}

xsm_status xsmi_index_new_like(const xsm_index *of, xsm_index **out, xsm_error *err)
{
    XSMI_TRY(xsm_index_new_from(of->context, &of->ops, out, err));
    (*out)->common = of->common;
    memcpy((*out)->state, of->state, of->ops.state_size); /* nothing but options, as long as it is not built */
    return XSM_OK;
}

/* Keeps a correction, or none, for as long as the index is built over its model. */
static void hold(xsm_index *x, xsmi_correction *correction)
{
    xsmi_correction *before = x->correction;
    x->correction = xsmi_correction_retain(correction);
    xsmi_correction_release(before);
}

static void clear(xsm_index *x)
{
    if (x->ops.clear) {
        x->ops.clear(x->state);
    }
    x->built = false;
}

void xsm_index_free(xsm_index *x)
{
    if (x) {
        xsm_context *ctx = x->context;
        clear(x);
        hold(x, NULL);
        xsmi_release(ctx, x->state, x->ops.state_size, 1);
        xsmi_release(ctx, x, 1, sizeof *x);
        xsm_context_free(ctx);
    }
}

const char *xsm_index_name(const xsm_index *x)
{
    return x ? x->ops.name : NULL;
}

/* -- options ------------------------------------------------------------------------------------------------------- */

/* The options, where one of that name may be set now. */
static xsm_status open_options(xsm_index *x, const char *name, xsmi_option_group *group, xsm_error *err)
{
    if (!x || !name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_set: %s is NULL", x ? "the name" : "the index");
    }
    if (x->built) {
        return xsmi_fail(err, XSM_ERROR_STATE, "option '%s' must be set before the index is built", name);
    }
    *group = options_of(&x->ops, &x->common, x->state);
    return XSM_OK;
}

xsm_status xsm_index_set(xsm_index *x, const char *name, const char *value, xsm_error *err)
{
    xsmi_option_group group;
    XSMI_TRY(open_options(x, name, &group, err));
    return xsmi_group_set_text(&group, name, value, err);
}

xsm_status xsm_index_set_double(xsm_index *x, const char *name, double value, xsm_error *err)
{
    xsmi_option_group group;
    XSMI_TRY(open_options(x, name, &group, err));
    return xsmi_group_set_double(&group, name, value, err);
}

xsm_status xsm_index_set_int(xsm_index *x, const char *name, int64_t value, xsm_error *err)
{
    xsmi_option_group group;
    XSMI_TRY(open_options(x, name, &group, err));
    return xsmi_group_set_int(&group, name, value, err);
}

size_t xsm_index_get(const xsm_index *x, const char *name, char *buffer, size_t size)
{
    if (!x) {
        if (buffer && size > 0) {
            buffer[0] = '\0';
        }
        return 0;
    }
    xsmi_option_group group = options_of(&x->ops, (void *)(uintptr_t)&x->common, (void *)(uintptr_t)x->state);
    return xsmi_group_get(&group, name, buffer, size);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

static void read_memory(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                        float *out, size_t stride)
{
    const xsm_index *x = source->origin;
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
    const xsm_index *x = source->origin;
    const xsm_model *m = x->model;
    const float *log_q = xsmi_correction_numbers(x->correction);
    bool columns = m->layout == XSM_LAYOUT_FEATURE_MAJOR;
    for (uint32_t f = 0; columns && f < x->width; f++) {
        for (uint32_t j = 0; j < count; j++) {
            out[j * stride + f] = m->weight[f * m->stride + (rows ? rows[j] : first + j)];
        }
    }
    for (uint32_t j = 0; j < count; j++) {
        uint32_t k = rows ? rows[j] : first + j;
        float *row = out + j * stride;
        if (!columns) {
            memcpy(row, m->weight + k * m->stride, x->width * sizeof *row);
        }
        float scale = (float)(m->alpha * (m->row_scale ? m->row_scale[k] : 1.0));
        if (scale != 1.0f) {
            m->kernels->scale(row, x->width, scale);
        }
        if (x->own_width > x->width) {
            row[x->width] = (m->bias ? m->bias[k] : 0) + (log_q ? log_q[k] : 0);
        }
    }
}

static void read_slice(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count, float *out,
                       size_t stride)
{
    const xsm_index *x = source->origin;
    const xsm_model *m = x->model;
    for (uint32_t j = 0; j < count; j++) {
        uint32_t k = rows ? rows[j] : first + j;
        float *row = out + j * stride;
        memcpy(row, m->weight + k * m->stride + x->first, x->width * sizeof *row);
        if (m->row_scale) {
            m->kernels->scale(row, x->width, (float)m->row_scale[k]);
        }
        if (m->score == XSM_SCORE_EUCLIDEAN) {
            row[x->width] = -0.5f * m->kernels->dot(row, row, x->width);
        } else if (m->bias) {
            row[x->width] = m->bias[k];
        }
    }
}

static xsm_index_source source_of(const xsm_index *x)
{
    xsm_index_source source = {
        .size = sizeof source,
        .context = x->context,
        .origin = x,
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

/* Rows that are looked through at once. */
#define CHECK_ROWS 64

typedef struct check_job {
    const xsm_index_source *source;
    const xsmi_kernels *kernels;
    const uint32_t *rows; /* NULL = all */
    uint32_t count;
    unsigned char *scratch;
    size_t stride;
    uint32_t *bad; /* by job, the first row that is not finite, or UINT32_MAX */
} check_job;

static void run_check(void *state, size_t index, uint32_t thread)
{
    check_job *job = state;
    float *block = (float *)(void *)(job->scratch + thread * CHECK_ROWS * job->stride * sizeof(float));
    uint32_t first = (uint32_t)index * CHECK_ROWS;
    uint32_t count = job->count - first < CHECK_ROWS ? job->count - first : CHECK_ROWS;
    job->bad[index] = UINT32_MAX;
    job->source->read(job->source, job->rows ? job->rows + first : NULL, first, count, block, job->stride);
    for (uint32_t j = count; j-- > 0;) {
        const float *row = block + j * job->stride;
        if (job->kernels->dot(row, row, job->source->width) < INFINITY) {
            continue; /* else a square may be too large */
        }
        float most = 0;
        for (uint32_t i = 0; i < job->source->width; i++) {
            float size = fabsf(row[i]);
            most = size > most || size != size ? size : most;
        }
        if (!(most < INFINITY)) {
            job->bad[index] = job->rows ? job->rows[first + j] : first + j;
        }
    }
}

/* Refuses rows that are not finite: nothing is near them. */
static xsm_status check_rows(const xsm_index *x, const uint32_t *rows, uint32_t count, xsm_error *err)
{
    xsm_index_source source = source_of(x);
    size_t jobs = ((size_t)count + CHECK_ROWS - 1) / CHECK_ROWS, threads = xsm_context_threads(x->context);
    check_job job = {&source, xsmi_context_kernels(x->context), rows, count, NULL, xsmi_index_query_stride(x), NULL};
    size_t each = CHECK_ROWS * job.stride * sizeof(float);
    job.scratch = xsmi_allocate(x->context, threads, each);
    job.bad = xsmi_allocate(x->context, jobs, sizeof *job.bad);
    xsm_status status = job.scratch && job.bad ? xsmi_run(x->context, run_check, &job, jobs, err)
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

static xsm_status build(xsm_index *x, xsm_error *err)
{
    XSMI_TRY(check_rows(x, NULL, x->count, err));
    xsm_index_source source = source_of(x);
    xsm_status status = x->ops.build(x->state, &source, err);
    x->built = status == XSM_OK;
    if (!x->built) {
        clear(x);
    }
    return status;
}

xsm_status xsm_index_build(xsm_index *x, const xsm_index_rows *given, xsm_error *err)
{
    if (!x || !given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_build: %s is NULL", x ? "rows" : "the index");
    }
    xsm_index_rows rows = XSM_INDEX_ROWS_INIT;
    XSMI_TRY(xsmi_options_read(&rows, sizeof rows, sizeof rows, given, "xsm_index_rows", err));
    if (!rows.rows) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_rows.rows is NULL");
    }
    if (rows.count < 1 || rows.count > XSM_CLASSES_MAX || rows.width < 1 || rows.width > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u rows of %u numbers; accepted is 1 to %u", rows.count, rows.width,
                         XSM_CLASSES_MAX);
    }
    if (rows.stride < rows.width) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "rows of %u numbers %zu floats apart", rows.width, rows.stride);
    }
    clear(x);
    hold(x, NULL);
    x->rows = rows;
    x->model = NULL;
    x->sliced = false;
    x->wanted = 0;
    x->count = rows.count;
    x->width = rows.width;
    x->own_width = rows.width + (rows.bias != NULL);
    return build(x, err);
}

xsm_status xsm_index_build_model(xsm_index *x, const xsm_model *model, xsm_error *err)
{
    if (!x || !model) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_build_model: %s is NULL", x ? "the model" : "the index");
    }
    const xsmi_correction *correction = model->correction;
    if (correction && !xsmi_correction_numbers(correction)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's scores are made with a %s, and are no products of a class's weights and the "
                         "features, all that an index can search; %s",
                         xsmi_correction_kind(correction),
                         xsmi_correction_tree(correction) ? "search the tree itself: xsm_predictor_options.beam, "
                                                            "--beam on the command line"
                                                          : "a predictor searches it without one");
    }
    clear(x);
    x->model = model;
    x->sliced = false;
    x->wanted = 0;
    x->count = model->classes;
    x->width = model->features;
    hold(x, model->correction);
    x->own_width = model->features + (model->bias || correction);
    return build(x, err);
}

/* Says what an index is to be over. */
static void aim_at_slice(xsm_index *x, const xsm_model *model, uint32_t first, uint32_t width, uint32_t wanted)
{
    hold(x, NULL);
    x->model = model;
    x->sliced = true;
    x->first = first;
    x->wanted = wanted;
    x->count = model->classes;
    x->width = width;
    x->own_width = width + (model->bias != NULL);
}

xsm_status xsmi_index_build_slice(xsm_index *x, const xsm_model *model, uint32_t first, uint32_t width, uint32_t wanted,
                                  xsm_error *err)
{
    clear(x);
    aim_at_slice(x, model, first, width, wanted);
    return build(x, err);
}

xsm_status xsmi_index_saved(xsm_index *x, const xsm_model *model, uint32_t first, uint32_t width, uint32_t wanted,
                            uint64_t *numbers, xsm_error *err)
{
    if (!x->ops.saved) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "index '%s' depends on every update so far, and its table has no save() and restore(), so that "
            "a checkpoint cannot keep it; save the model, and train on from it",
            x->ops.name);
    }
    if (!x->built) {
        aim_at_slice(x, model, first, width, wanted);
    }
    xsm_index_source source = source_of(x);
    *numbers = x->ops.saved(x->state, &source);
    return XSM_OK;
}

void xsmi_index_save(const xsm_index *x, uint32_t *numbers)
{
    xsm_index_source source = source_of(x);
    x->ops.save(x->state, &source, numbers);
}

xsm_status xsmi_index_restore_slice(xsm_index *x, const xsm_model *model, uint32_t first, uint32_t width,
                                    uint32_t wanted, const uint32_t *numbers, xsm_error *err)
{
    clear(x);
    aim_at_slice(x, model, first, width, wanted);
    XSMI_TRY(check_rows(x, NULL, x->count, err));
    xsm_index_source source = source_of(x);
    xsm_status status = x->ops.restore(x->state, &source, numbers, err);
    x->built = status == XSM_OK;
    if (!x->built) {
        clear(x);
    }
    return status;
}

void xsmi_index_move(xsm_index *x, const xsm_model *model)
{
    x->model = model;
}

xsm_status xsm_index_update(xsm_index *x, const uint32_t *classes, uint32_t count, xsm_error *err)
{
    if (!x || (!classes && count > 0)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_update: %s is NULL", x ? "classes" : "the index");
    }
    if (!x->built) {
        return xsmi_fail(err, XSM_ERROR_STATE, "index '%s' is not built", x->ops.name);
    }
    for (uint32_t j = 0; j < count; j++) {
        if (classes[j] >= x->count) {
            return xsmi_fail(err, XSM_ERROR_RANGE, "row %u at place %u; the index has %u", classes[j], j, x->count);
        }
    }
    if (count == 0) {
        return XSM_OK;
    }
    XSMI_TRY(check_rows(x, classes, count, err));
    if (!x->ops.update) {
        clear(x);
        return build(x, err);
    }
    xsm_index_source source = source_of(x);
    return x->ops.update(x->state, &source, classes, count, err);
}

xsm_status xsm_index_get_info(const xsm_index *x, xsm_index_info *info, xsm_error *err)
{
    if (!x) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_get_info: the index is NULL");
    }
    xsm_index_info known = XSM_INDEX_INFO_INIT;
    if (x->built) {
        known.rows = x->count;
        known.width = x->width;
        if (x->ops.info) {
            x->ops.info(x->state, &known);
        }
    }
    return xsmi_options_write(&known, sizeof known, sizeof known, info, "xsm_index_info", err);
}

/* -- queries ------------------------------------------------------------------------------------------------------- */

size_t xsmi_index_query_stride(const xsm_index *x)
{
    return ((size_t)x->own_width + 15) / 16 * 16;
}

size_t xsmi_index_scratch(const xsm_index *x, uint32_t top)
{
    return x->ops.scratch ? x->ops.scratch(x->state, top) : 0;
}

xsm_status xsmi_index_block(const xsm_index *x, const xsm_index_block *block, xsm_error *err)
{
    xsm_error unsaid = XSM_ERROR_INIT;
    xsm_status status = x->ops.query(x->state, block, &unsaid);
    if (status != XSM_OK) {
        /* A host's table may have said nothing. */
        return unsaid.status == status ? xsmi_fail_copy(err, &unsaid)
                                       : xsmi_fail(err, status, "index '%s': a search failed", x->ops.name);
    }
    for (uint32_t i = 0; i < block->count; i++) {
        uint32_t length = block->lengths[i];
        for (uint32_t j = 0; j < length && length <= block->top; j++) {
            length = block->classes[(size_t)i * block->top + j] < x->count ? length : UINT32_MAX;
        }
        if (length > block->top) {
            return xsmi_fail(err, XSM_ERROR_DATA, "index '%s' lists more rows than asked for, or one that is not there",
                             x->ops.name);
        }
        for (uint32_t j = length; j < block->top; j++) {
            block->classes[(size_t)i * block->top + j] = UINT32_MAX;
            block->scores[(size_t)i * block->top + j] = -INFINITY;
        }
    }
    return XSM_OK;
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

static void run_queries(void *state, size_t index, uint32_t thread)
{
    const query_job *job = state;
    const xsm_index *x = job->index;
    const xsm_index_search *s = job->search;
    uint64_t first = (uint64_t)index * XSM_INDEX_QUERIES, left = s->count - first;
    uint32_t count = (uint32_t)(left < XSM_INDEX_QUERIES ? left : XSM_INDEX_QUERIES);
    xsmi_arena arena = {job->scratch + thread * job->scratch_each, 0};
    size_t stride = xsmi_index_query_stride(x);
    float *queries = xsmi_arena_take(&arena, XSM_INDEX_QUERIES * stride, sizeof *queries);
    for (uint32_t i = 0; i < count; i++) {
        memcpy(queries + i * stride, s->queries + (first + i) * s->stride, x->width * sizeof *queries);
        for (size_t j = x->width; j < stride; j++) {
            queries[i * stride + j] = j < x->own_width; /* the bias's 1 */
        }
        job->probed[first + i] = 0;
    }
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = stride,
        .count = count,
        .top = s->top,
        .threshold = s->has_threshold ? s->threshold : -INFINITY,
        .classes = s->classes + first * s->top,
        .scores = s->scores + first * s->top,
        .lengths = s->lengths + first,
        .probed = job->probed + first,
        .scratch = arena.base + arena.used,
    };
    job->errors[index] = (xsm_error)XSM_ERROR_INIT;
    job->status[index] = xsmi_index_block(x, &block, &job->errors[index]);
}

xsm_status xsm_index_query(const xsm_index *x, xsm_index_search *given, xsm_error *err)
{
    if (!x || !given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_query: %s is NULL", x ? "the search" : "the index");
    }
    xsm_index_search s = XSM_INDEX_SEARCH_INIT;
    XSMI_TRY(xsmi_options_read(&s, sizeof s, sizeof s, given, "xsm_index_search", err));
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
    if (s.count < 1 || s.top < 1 || s.top > x->count || (s.has_threshold && !(fabsf(s.threshold) < INFINITY))) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "%llu queries for %u rows each, above %g; accepted is 1 or more, 1 to %u, and finite",
                         (unsigned long long)s.count, s.top, s.has_threshold ? (double)s.threshold : 0.0, x->count);
    }
    size_t jobs = (size_t)((s.count + XSM_INDEX_QUERIES - 1) / XSM_INDEX_QUERIES);
    size_t threads = jobs > 1 ? xsm_context_threads(x->context) : 1;
    xsmi_arena arena = {NULL, 0};
    (void)xsmi_arena_take(&arena, XSM_INDEX_QUERIES * xsmi_index_query_stride(x), sizeof(float));
    (void)xsmi_arena_take(&arena, xsmi_index_scratch(x, s.top), 1);
    query_job job = {.index = x, .search = &s, .scratch_each = arena.used};
    job.scratch = xsmi_allocate(x->context, threads, job.scratch_each);
    job.probed = xsmi_allocate(x->context, (size_t)s.count, sizeof *job.probed);
    job.status = xsmi_allocate(x->context, jobs, sizeof *job.status);
    job.errors = xsmi_allocate(x->context, jobs, sizeof *job.errors);
    xsm_status status = XSM_OK;
    if (arena.used == SIZE_MAX || !job.scratch || !job.probed || !job.status || !job.errors) {
        status = xsmi_fail_memory(err, job.scratch_each, "a search");
    } else {
        status = xsmi_run(x->context, run_queries, &job, jobs, err);
    }
    for (size_t i = 0; status == XSM_OK && i < jobs; i++) {
        if (job.status[i] != XSM_OK) {
            status = xsmi_fail_copy(err, &job.errors[i]);
        }
    }
    if (status == XSM_OK) {
        for (uint64_t i = 0; i < s.count; i++) {
            s.probed = (i ? s.probed : 0) + job.probed[i];
        }
        given->probed = s.probed;
    }
    xsmi_release(x->context, job.scratch, threads, job.scratch_each);
    xsmi_release(x->context, job.probed, (size_t)s.count, sizeof *job.probed);
    xsmi_release(x->context, job.status, jobs, sizeof *job.status);
    xsmi_release(x->context, job.errors, jobs, sizeof *job.errors);
    return status;
}

xsm_status xsm_index_recall(const xsm_index *x, const float *queries, size_t stride, uint64_t count, uint32_t top,
                            double *recall, xsm_error *err)
{
    if (!x || !recall) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_index_recall: %s is NULL", x ? "recall" : "the index");
    }
    xsm_index_search have = XSM_INDEX_SEARCH_INIT;
    have.queries = queries;
    have.stride = stride;
    have.count = count;
    have.top = top;
    xsm_index_search want = have;
    xsm_index *truth = NULL;
    XSMI_TRY(xsm_index_new(x->context, "exact", &truth, err));
    size_t places = 0;
    bool fits = xsmi_multiply((size_t)count, top, &places);
    have.classes = xsmi_allocate(x->context, places, sizeof *have.classes);
    want.classes = xsmi_allocate(x->context, places, sizeof *want.classes);
    have.scores = xsmi_allocate(x->context, places, sizeof *have.scores);
    want.scores = xsmi_allocate(x->context, places, sizeof *want.scores);
    have.lengths = xsmi_allocate(x->context, (size_t)count, sizeof *have.lengths);
    want.lengths = xsmi_allocate(x->context, (size_t)count, sizeof *want.lengths);
    xsm_status status = XSM_OK;
    if (!fits || !have.classes || !want.classes || !have.scores || !want.scores || !have.lengths || !want.lengths) {
        status = xsmi_fail_memory(err, places * 4 * sizeof(float), "a comparison of searches");
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
    if (status == XSM_OK) {
        double found = 0;
        for (size_t i = 0; i < (size_t)count; i++) {
            float last = want.scores[i * top + top - 1];
            /* Scores of both are sums in different orders. */
            double least = (double)last - 1e-5 * fabs((double)last);
            uint32_t hits = 0;
            for (uint32_t j = 0; j < have.lengths[i]; j++) {
                hits += (double)have.scores[i * top + j] >= least;
            }
            found += (double)hits / top;
        }
        *recall = found / (double)count;
    }
    xsmi_release(x->context, have.classes, places, sizeof *have.classes);
    xsmi_release(x->context, want.classes, places, sizeof *want.classes);
    xsmi_release(x->context, have.scores, places, sizeof *have.scores);
    xsmi_release(x->context, want.scores, places, sizeof *want.scores);
    xsmi_release(x->context, have.lengths, (size_t)count, sizeof *have.lengths);
    xsmi_release(x->context, want.lengths, (size_t)count, sizeof *want.lengths);
    xsm_index_free(truth);
    return status;
}
