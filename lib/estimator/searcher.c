/* The indexes of an estimator that searches, and their updates. */
#include "estimator/searcher.h"

#include "gradient/gradient.h"
#include "base/activity.h"
#include "base/arena.h"
#include "base/order.h"
#include "model/model.h"
#include "estimator/pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void clear_lists(xsmi_searcher *s)
{
    xsmi_held_release(&s->results.held);
    s->results.capacity = 0;
}

void xsmi_searcher_free(xsmi_searcher *s)
{
    if (s) {
        xsm_context *ctx = s->context;
        for (uint32_t j = 0; s->indexes && j < s->blocks; j++) {
            xsm_index_free(s->indexes[j].index);
        }
        clear_lists(s);
        xsmi_searcher_forget(s);
        xsmi_release(ctx, s->results.block, s->results.block_bytes, 1);
        xsmi_held_release(&s->held);
        XSMI_OBJECT_FREE(s, xsmi_searcher);
    }
}

xsm_status xsmi_searcher_new(xsm_context *ctx, const xsm_index *like, const xsm_search_plan *plan,
                             const xsm_model *model, uint64_t rows, xsmi_searcher **out, xsm_error *err)
{
    /* A model without features has only a bias, which is one block. */
    uint32_t most_blocks = model->features > 0 ? model->features : 1;
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_search_plan, plan, reserved, err));
    if (plan->size != sizeof *plan || plan->blocks < 1 || plan->blocks > most_blocks || plan->candidates < 1 ||
        plan->candidates > model->classes || plan->most > model->classes) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a search of %u blocks for %u classes each; the model has %u features, of which each block "
                         "takes at least one, and %u classes",
                         plan->blocks, XSMI_MAX(plan->candidates, plan->most), model->features, model->classes);
    }
    xsmi_searcher *s;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &s, xsmi_searcher, "what searches", err));
    s->held.context = ctx;
    s->model = model;
    s->classes = model->classes;
    s->blocks = plan->blocks;
    s->candidates = plan->candidates;
    s->most = plan->most;
    s->startup = plan->startup;
    if (plan->startup == XSM_SEARCH_STARTUP_AUTO) {
        s->startup = xsmi_model_is_zero(model) ? rows : 0;
    }
    s->indexes = xsmi_hold_zeros(&s->held, s->blocks, sizeof *s->indexes);
    s->update.mark_words = ((size_t)model->classes + 63) / 64;
    s->update.marks = xsmi_hold_zeros(&s->held, s->update.mark_words, sizeof *s->update.marks);
    s->update.changed = xsmi_hold(&s->held, s->classes, sizeof *s->update.changed);
    xsm_status status = xsmi_held_check(&s->held, "what searches", err);
    for (uint32_t j = 0; status == XSM_OK && j < s->blocks; j++) {
        xsmi_block_index *p = &s->indexes[j];
        p->first = (uint32_t)((uint64_t)model->features * j / s->blocks);
        p->width = (uint32_t)((uint64_t)model->features * (j + 1) / s->blocks) - p->first;
        status = xsmi_index_new_like(like, &p->index, err);
        size_t width = p->width + (model->w.bias != NULL), stride = (width + 15) / 16 * 16;
        s->query_stride = XSMI_MAX(stride, s->query_stride);
    }
    if (status != XSM_OK) {
        xsmi_searcher_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

uint64_t xsmi_searcher_startup(const xsmi_searcher *s)
{
    return s->startup;
}

void xsmi_searcher_set_startup(xsmi_searcher *s, uint64_t examples)
{
    s->startup = examples;
}

bool xsmi_searcher_begun(const xsmi_searcher *s, uint64_t position)
{
    return position >= s->startup;
}

/* -- updates ------------------------------------------------------------------------------------------------------- */

void xsmi_searcher_change_none(xsmi_searcher *s)
{
    for (uint32_t i = 0; i < s->update.changes; i++) {
        s->update.marks[s->update.changed[i] / 64] = 0;
    }
    s->update.changes = 0;
}

static void note_change(xsmi_searcher *s, uint32_t k)
{
    const uint64_t bit = UINT64_C(1) << k % 64;
    if (!(s->update.marks[k / 64] & bit)) {
        s->update.marks[k / 64] |= bit;
        s->update.changed[s->update.changes++] = k;
    }
}

/* Records the rows of weights that a step with this gradient of n examples changes. */
static void note_changes(xsmi_searcher *s, const xsm_gradient *g, uint64_t examples)
{
    for (uint64_t i = 0; i < examples; i++) {
        for (uint64_t j = i * g->width; j < i * g->width + g->lengths[i]; j++) {
            note_change(s, g->classes[j]);
        }
    }
}

void xsmi_searcher_change_all(xsmi_searcher *s)
{
    for (uint32_t k = 0; k < s->classes; k++) {
        note_change(s, k);
    }
}

/* Indexes the rows that have changed. Fails with XSM_ERROR_DIVERGED if some are not finite. */
static xsm_status update_indexes(xsmi_searcher *s, xsm_error *err)
{
    const xsm_model *m = s->model;
    XSMI_TRY(xsmi_model_need_class_major(m, "an estimator that searches an index", err));
    /* Decays reduce alpha; an alpha that has grown was multiplied into the rows. */
    const bool whole = !s->built || m->w.weight != s->weight || m->w.alpha > s->alpha;
    for (uint32_t j = 0; j < s->blocks; j++) {
        xsmi_block_index *p = &s->indexes[j];
        if (whole) {
            s->built = false;
            const xsmi_index_slice slice = {m, p->first, p->width, s->candidates};
            XSMI_TRY(xsmi_index_build_slice(p->index, &slice, err));
        } else {
            /* The update is not cancelled: if it were repeated later, it could give other clusters. */
            xsmi_activity shield;
            xsmi_shield(&shield, s->context);
            xsm_status status = xsm_index_update(p->index, s->update.changed, s->update.changes, err);
            xsmi_unshield(&shield);
            XSMI_TRY(status);
        }
    }
    s->built = true;
    s->weight = m->w.weight;
    s->alpha = m->w.alpha;
    xsmi_searcher_change_none(s);
    return XSM_OK;
}

/* -- a search ------------------------------------------------------------------------------------------------------ */

/* Divides a thread's memory, or only counts its bytes. */
static xsmi_growing_lists divide_block(const xsmi_searcher *s, xsmi_arena *arena)
{
    const uint64_t entries = (uint64_t)s->blocks * s->most;
    xsmi_growing_lists p = {.cursor_stride = 0};
    size_t scratch = 0;
    for (uint32_t j = 0; j < s->blocks; j++) {
        const xsm_index *index = s->indexes[j].index;
        const size_t cursor = xsmi_index_cursor(index), of = xsmi_index_scratch(index, s->most);
        p.cursor_stride = XSMI_MAX(cursor, p.cursor_stride);
        scratch = XSMI_MAX(of, scratch);
    }
    p.length = xsmi_arena_take(arena, s->blocks, sizeof *p.length);
    p.found = xsmi_arena_take(arena, entries, sizeof *p.found);
    p.score = xsmi_arena_take(arena, entries, sizeof *p.score);
    p.cursors = xsmi_arena_take(arena, s->blocks, p.cursor_stride);
    p.scratch = xsmi_arena_take(arena, scratch, 1);
    return p;
}

/* Returns the bytes that a thread needs. */
static size_t block_bytes(const xsmi_searcher *s)
{
    xsmi_arena arena = {NULL, 0};
    if (s->most > 0) {
        (void)divide_block(s, &arena);
        return arena.used;
    }
    size_t each = 0;
    for (uint32_t j = 0; j < s->blocks; j++) {
        arena.used = 0;
        (void)xsmi_arena_take(&arena, s->results.capacity, sizeof *s->results.length);
        (void)xsmi_arena_take(&arena, s->results.capacity, sizeof(uint64_t));
        (void)xsmi_arena_take(&arena, xsmi_index_scratch(s->indexes[j].index, s->candidates), 1);
        each = XSMI_MAX(arena.used, each);
    }
    return each;
}

/* Reserves memory for the searches of a batch. */
static xsm_status reserve_searches(xsmi_searcher *s, uint64_t examples, xsm_error *err)
{
    size_t want = examples < XSM_INDEX_QUERIES ? (size_t)examples : XSM_INDEX_QUERIES, entries = 0;
    if (want > s->results.capacity) {
        clear_lists(s);
        size_t lists = want * s->blocks;
        entries = xsmi_multiply(lists, s->candidates, &entries) ? entries : SIZE_MAX;
        s->results.held.context = s->context;
        s->results.queries = xsmi_hold(&s->results.held, lists, s->query_stride * sizeof *s->results.queries);
        if (s->most == 0) { /* lists that do not grow */
            s->results.found = xsmi_hold(&s->results.held, entries, sizeof *s->results.found);
            s->results.score = xsmi_hold(&s->results.held, entries, sizeof *s->results.score);
            s->results.length = xsmi_hold(&s->results.held, lists, sizeof *s->results.length);
        }
        const xsm_status status = xsmi_held_check(&s->results.held, "what a search finds", err);
        if (status != XSM_OK) {
            clear_lists(s);
            return status;
        }
        s->results.capacity = want;
    }
    size_t each = block_bytes(s), bytes;
    if (!xsmi_multiply(each, xsmi_context_threads(s->context), &bytes)) {
        return xsmi_fail_memory(err, each, "a search");
    }
    if (bytes > s->results.block_bytes) {
        xsmi_release(s->context, s->results.block, s->results.block_bytes, 1);
        s->results.block = xsmi_allocate(s->context, bytes, 1);
        s->results.block_bytes = s->results.block ? bytes : 0;
        if (!s->results.block) {
            return xsmi_fail_memory(err, bytes, "a search");
        }
    }
    s->results.block_each = each;
    return XSM_OK;
}

/* -- the state in a checkpoint ------------------------------------------------------------------------------------- */

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

enum { FIXED = 3 }; /* tensors before those of the blocks */

void xsmi_searcher_forget(xsmi_searcher *s)
{
    for (uint32_t j = 0; s->copy.held.count > 0 && !s->copy.held.failed && j < s->blocks; j++) {
        xsmi_release(s->context, s->copy.indexes[j], (size_t)s->copy.counts[j] + 1, sizeof **s->copy.indexes);
    }
    xsmi_held_release(&s->copy.held);
}

static xsm_status copy(xsmi_searcher *s, xsm_error *err)
{
    s->copy.held.context = s->context;
    s->copy.indexes = xsmi_hold_zeros(&s->copy.held, s->blocks, sizeof *s->copy.indexes);
    s->copy.counts = xsmi_hold_zeros(&s->copy.held, s->blocks, sizeof *s->copy.counts);
    s->copy.names = xsmi_hold_zeros(&s->copy.held, s->blocks, sizeof *s->copy.names);
    s->copy.changed = xsmi_hold_zeros(&s->copy.held, s->update.mark_words * 64, sizeof *s->copy.changed);
    XSMI_TRY(xsmi_held_check(&s->copy.held, "what a checkpoint keeps of a search", err));
    for (uint32_t j = 0; j < s->blocks; j++) {
        const xsmi_block_index *p = &s->indexes[j];
        const xsmi_index_slice slice = {s->model, p->first, p->width, s->candidates};
        XSMI_TRY(xsmi_index_saved(p->index, &slice, &s->copy.counts[j], err));
        if (s->copy.counts[j] >= SIZE_MAX / sizeof **s->copy.indexes) {
            return xsmi_fail_memory(err, SIZE_MAX, "what a checkpoint keeps of a search");
        }
        XSMI_TRY(xsmi_zeros_new(s->context, &s->copy.indexes[j], (size_t)s->copy.counts[j] + 1,
                                sizeof **s->copy.indexes, "what a checkpoint keeps of a search", err));
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
    uint64_t *seen;
    XSMI_TRY(xsmi_zeros_new(s->context, &seen, s->update.mark_words, sizeof *seen, "rows to be indexed", err));
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

/* -- batches ------------------------------------------------------------------------------------------------------- */

/* The examples first..first+count of a batch, whose queries are made and run together. */
typedef struct search_job {
    const xsmi_pass *pass;
    xsmi_searcher *searcher;
    uint64_t first;
    uint32_t count;
    uint32_t pieces;    /* number of pieces of the queries, for more threads than blocks */
    xsm_status *status; /* [pieces][blocks]; of lists that grow [count] */
    xsm_error *errors;  /* the same */
    xsmi_outcome outcomes[XSM_INDEX_QUERIES];
} search_job;

/* Writes B alpha x_j, followed by a 1 for the bias: each block has the share 1/B of it, but its own bias with
 * distances. */
static void make_query(const search_job *job, const xsmi_block_index *p, uint32_t i, float *query)
{
    const xsmi_searcher *s = job->searcher;
    const xsm_model *m = s->model;
    xsmi_features x = xsmi_gradient_features(job->pass->estimator, job->pass->gradient, job->first + i);
    float scale = (float)((double)s->blocks * m->w.alpha);
    memset(query, 0, s->query_stride * sizeof *query);
    if (x.index) {
        for (size_t f = 0; f < x.count; f++) {
            if (x.index[f] >= p->first && x.index[f] - p->first < p->width) {
                query[x.index[f] - p->first] = scale * x.values[f];
            }
        }
    } else {
        for (uint32_t f = 0; f < p->width; f++) {
            query[f] = scale * x.values[p->first + f];
        }
    }
    if (m->w.bias) {
        query[p->width] = m->score == XSM_GEOMETRY_EUCLIDEAN ? (float)s->blocks : 1;
    }
}

/* Computes B z_kj of a class and query number i, for all blocks. */
static void query_shares(const xsmi_searcher *s, size_t i, uint32_t class, float *shares)
{
    const xsm_model *m = s->model;
    const float *row = m->w.weight + (size_t) class * m->w.stride;
    const float scale = m->w.row_scale ? (float)m->w.row_scale[class] : 1;
    for (uint32_t j = 0; j < s->blocks; j++) {
        const xsmi_block_index *p = &s->indexes[j];
        const float *query = s->results.queries + (j * s->results.capacity + i) * s->query_stride;
        float sum = m->kernels->dot(row + p->first, query, p->width);
        float own = 0;
        if (xsmi_model_constant(m, class, row + p->first, p->width, &own)) {
            own *= query[p->width];
        }
        shares[j] = scale * sum + own;
    }
}

/* Returns what search() gets of an example of the batch, except the classes found and the functions that score. */
static xsm_search_block search_block_of(const xsmi_pass *p, uint64_t example, uint32_t thread)
{
    xsm_gradient *g = p->gradient;
    const xsmi_searcher *s = p->estimator->search.searcher;
    const size_t entry = (size_t)(example * g->width);
    return (xsm_search_block){
        .size = sizeof(xsm_search_block),
        .examples = g->example + example,
        .count = 1,
        .batch = p->batch->count,
        .width = g->width,
        .blocks = s->blocks,
        .candidates = s->candidates,
        .eta = p->eta,
        .classes = g->classes + entry,
        .lengths = g->lengths + example,
        .coefficients = g->coefficients + entry,
        .losses = g->losses + example,
        .scratch = g->work.scratch_each ? g->work.scratch + thread * g->work.scratch_each : NULL,
    };
}

/* Completes the coefficients that search() has written: weights, mean over the batch, check. */
static void finish(const xsmi_pass *p, const xsm_search_block *block, xsmi_outcome *outcome)
{
    const xsm_gradient *g = p->gradient;
    xsm_score_block found = {
        .size = sizeof found,
        .examples = block->examples,
        .count = 1,
        .batch = block->batch,
        .width = block->width,
        .lengths = block->lengths,
        .eta = p->eta,
        .coefficients = block->coefficients,
        .losses = block->losses,
        .weights = g->weighted ? g->weights + (block->examples - g->example) : NULL,
    };
    *outcome = (xsmi_outcome){.finite = true};
    xsmi_estimator_finish_block(p->estimator->model->kernels, &found, outcome);
}

/* One example of a search_job. */
typedef struct example_job {
    search_job *job;
    uint32_t index;
    xsmi_growing_lists lists; /* if lists grow */
} example_job;

/* -- lists that do not grow, before search() ----------------------------------------------------------------------- */

/* Returns into how many pieces the queries are divided. An index may process all queries of one piece together, which
 * can be faster, but every thread must have work. */
static uint32_t pieces_of(const xsmi_searcher *s, uint32_t queries)
{
    uint32_t pieces = (xsmi_context_threads(s->context) + s->blocks - 1) / s->blocks;
    return XSMI_MIN(pieces, queries);
}

/* Runs one job: makes its queries, and searches the classes. */
static void run_queries(void *state, size_t index, uint32_t thread)
{
    search_job *job = state;
    xsmi_searcher *s = job->searcher;
    const size_t of = index % s->blocks, piece = index / s->blocks;
    const xsmi_block_index *p = &s->indexes[of];
    const uint32_t begin = (uint32_t)xsmi_share_start(job->count, job->pieces, (uint32_t)piece);
    const uint32_t count = (uint32_t)xsmi_share_start(job->count, job->pieces, (uint32_t)piece + 1) - begin;
    const size_t first_list = (size_t)begin * s->blocks + of;
    float *queries = s->results.queries + (of * s->results.capacity + begin) * s->query_stride;
    for (uint32_t i = 0; i < count; i++) {
        make_query(job, p, begin + i, queries + i * s->query_stride);
    }
    xsmi_arena arena = {s->results.block + thread * s->results.block_each, 0};
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = s->query_stride,
        .count = count,
        .top = s->candidates,
        .least_score = -INFINITY,
        .any_order = 1,
        .classes = s->results.found + first_list * s->candidates,
        .scores = s->results.score + first_list * s->candidates,
        .list_stride = (size_t)s->blocks * s->candidates,
    };
    block.lengths = xsmi_arena_take(&arena, s->results.capacity, sizeof *block.lengths);
    block.probed = xsmi_arena_take(&arena, s->results.capacity, sizeof *block.probed);
    block.scratch = arena.base + arena.used;
    job->errors[index] = (xsm_error)XSM_ERROR_INIT;
    job->status[index] = xsmi_index_block(p->index, &block, &job->errors[index]);
    for (uint32_t i = 0; i < count && job->status[index] == XSM_OK; i++) {
        s->results.length[first_list + (size_t)i * s->blocks] = block.lengths[i];
    }
}

/* Returns the first of the errors of `count` jobs. */
static xsm_status first_error(const search_job *job, size_t count, xsm_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (job->status[i] != XSM_OK) {
            return xsmi_fail_copy(err, &job->errors[i]);
        }
    }
    return XSM_OK;
}

/* -- one example --------------------------------------------------------------------------------------------------- */

/* The functions score() and next() of an xsm_search_block, which has one example. */

static void score_parts(const xsm_search_block *block, uint64_t example, const uint32_t *classes, uint32_t count,
                        float *shares)
{
    const example_job *of = block->scorer;
    const xsmi_searcher *s = of->job->searcher;
    const xsm_model *m = s->model;
    for (uint32_t c = 0; c < count; c++) {
        if (c + 4 < count) {
            xsmi_prefetch_row(m->w.weight + (size_t)classes[c + 4] * m->w.stride, m->features);
        }
        query_shares(s, (size_t)(of->index + example), classes[c], shares + (size_t)c * s->blocks);
    }
}

static uint32_t list_more(const xsm_search_block *block, uint64_t example, uint32_t j, uint32_t count)
{
    const example_job *of = block->scorer;
    search_job *job = of->job;
    const xsmi_searcher *s = job->searcher;
    const xsmi_growing_lists *lists = &of->lists;
    const uint32_t length = lists->length[j], left = s->most - length, i = of->index + (uint32_t)example;
    uint32_t found = 0;
    uint64_t probed = 0;
    const xsm_index_block further = {
        .size = sizeof further,
        .queries = s->results.queries + (j * s->results.capacity + i) * s->query_stride,
        .stride = s->query_stride,
        .count = 1,
        .top = XSMI_MIN(count, left),
        .least_score = -INFINITY,
        .classes = lists->found + (size_t)j * s->most + length,
        .scores = lists->score + (size_t)j * s->most + length,
        .lengths = &found,
        .probed = &probed,
        .scratch = lists->scratch,
        .list_stride = left,
        .cursors = lists->cursors + j * lists->cursor_stride,
        .cursor_stride = lists->cursor_stride,
        .begin = length == 0,
    };
    if (further.top == 0 || job->status[i] != XSM_OK) {
        return 0;
    }
    job->status[i] = xsmi_index_next(s->indexes[j].index, &further, &job->errors[i]);
    if (job->status[i] != XSM_OK) {
        return 0;
    }
    lists->length[j] += found;
    return found;
}

/* Begins the lists of an example that grow. */
static void begin_lists(example_job *of, uint32_t thread)
{
    const search_job *job = of->job;
    const xsmi_searcher *s = job->searcher;
    xsmi_arena arena = {s->results.block + thread * s->results.block_each, 0};
    of->lists = divide_block(s, &arena);
    for (uint32_t j = 0; j < s->blocks; j++) {
        of->lists.length[j] = 0;
        make_query(job, &s->indexes[j], of->index,
                   s->results.queries + (j * s->results.capacity + of->index) * s->query_stride);
    }
    job->errors[of->index] = (xsm_error)XSM_ERROR_INIT;
    job->status[of->index] = XSM_OK;
}

static void run_examples(void *state, size_t index, uint32_t thread)
{
    search_job *job = state;
    const xsmi_searcher *s = job->searcher;
    const xsmi_pass *p = job->pass;
    example_job own = {.job = job, .index = (uint32_t)index};
    const uint64_t at = job->first + index;
    const size_t lists = index * s->blocks;
    xsm_search_block block = search_block_of(p, at, thread);
    block.found = s->results.found + lists * s->candidates;
    block.found_length = s->results.length + lists;
    block.found_score = s->results.score + lists * s->candidates;
    block.score = score_parts;
    block.scorer = &own;
    xsmi_outcome *outcome = &job->outcomes[index];
    *outcome = (xsmi_outcome){.finite = true};
    if (s->most > 0) {
        begin_lists(&own, thread);
        block.candidates = s->most;
        block.found = own.lists.found;
        block.found_length = own.lists.length;
        block.found_score = own.lists.score;
        block.next = list_more;
    }
    p->estimator->ops.search(p->estimator->state, &block);
    if (s->most > 0 && job->status[index] != XSM_OK) {
        return;
    }
    finish(p, &block, outcome);
    if (p->input && outcome->finite) {
        outcome->finite = xsmi_pass_backward(p, at, 1, thread);
    }
}

static xsm_status search_all(search_job *job, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_searcher *s = job->searcher;
    const uint64_t n = job->pass->batch->count;
    for (; job->first < n; job->first += job->count) {
        job->count = n - job->first < XSM_INDEX_QUERIES ? (uint32_t)(n - job->first) : XSM_INDEX_QUERIES;
        xsmi_pass_list_examples(job->pass, job->first, job->count);
        job->pieces = pieces_of(s, job->count);
        const size_t jobs = (size_t)job->pieces * s->blocks;
        if (s->most == 0) {
            XSMI_TRY(xsmi_run(s->context, run_queries, job, jobs, err));
            XSMI_TRY(first_error(job, jobs, err));
        }
        XSMI_TRY(xsmi_run(s->context, run_examples, job, job->count, err));
        XSMI_TRY(s->most > 0 ? first_error(job, job->count, err) : XSM_OK);
        for (uint32_t i = 0; i < job->count; i++) {
            xsmi_outcome_join(outcome, &job->outcomes[i]);
        }
    }
    return XSM_OK;
}

static xsm_status search(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_searcher *s = p->estimator->search.searcher;
    search_job job = {.pass = p, .searcher = s};
    const size_t searches = (size_t)pieces_of(s, (uint32_t)s->results.capacity) * s->blocks;
    const size_t jobs = s->most > 0 ? s->results.capacity : searches;
    xsmi_held held = {.context = s->context};
    job.status = xsmi_hold(&held, jobs, sizeof *job.status);
    job.errors = xsmi_hold(&held, jobs, sizeof *job.errors);
    xsm_status status = xsmi_held_check(&held, "a search", err);
    status = status == XSM_OK ? search_all(&job, outcome, err) : status;
    xsmi_held_release(&held);
    return status;
}

/* Indexes the rows that have changed; sets *finite to whether they are finite. */
static xsm_status update(xsmi_searcher *s, bool *finite, xsm_error *err)
{
    xsm_error unsaid = XSM_ERROR_INIT;
    const xsm_status status = update_indexes(s, &unsaid);
    *finite = status != XSM_ERROR_DIVERGED;
    return status == XSM_OK || status == XSM_ERROR_DIVERGED ? XSM_OK : xsmi_fail_copy(err, &unsaid);
}

xsm_status xsmi_pass_search(const xsmi_pass *given, xsmi_outcome *outcome, xsm_error *err)
{
    xsmi_pass p = *given;
    xsm_estimator *e = p.estimator;
    xsm_gradient *g = p.gradient;
    XSMI_TRY(xsmi_estimator_reserve(e, g, p.batch->count, xsmi_context_threads(e->context), false, err));
    XSMI_TRY(xsmi_pass_set_rows(&p, NULL, err));
    const xsmi_input_gradient of_layer = {g->layer.gradient, g->work.rows.stride};
    p.input = g->layered ? &of_layer : p.input;
    xsmi_searcher *s = e->search.searcher;
    XSMI_TRY(update(s, &outcome->finite, err));
    if (!outcome->finite) { /* the caller reports it, as for scores */
        return XSM_OK;
    }
    XSMI_TRY(reserve_searches(s, p.batch->count, err));
    XSMI_TRY(search(&p, outcome, err));
    g->decay = xsmi_estimator_decay(e, p.eta);
    if (outcome->finite && g->layered) {
        xsmi_pass_layer_backward(&p, 0, p.batch->count, outcome);
    }
    if (outcome->finite) {
        note_changes(e->search.searcher, g, p.batch->count);
    }
    return XSM_OK;
}
