/* Common code of estimators with an index: the indexes of the blocks, their updates, the search for a batch. */
#include "estimator/searched.h"

#include "estimator/estimator.h"
#include "base/arena.h"

#include <math.h>
#include <string.h>

/* -- the option ---------------------------------------------------------------------------------------------------- */

xsm_status xsmi_estimator_make_index(xsm_estimator *e, xsm_error *err)
{
    xsm_index *made;
    XSMI_TRY(xsm_index_new(e->context, xsmi_index_names[e->common.index], &made, err));
    if (e->index == e->own_index) {
        e->index = made;
    }
    xsm_index_free(e->own_index);
    e->own_index = made;
    return XSM_OK;
}

xsm_status xsm_estimator_set_index(xsm_estimator *e, const xsm_index *like, xsm_error *err)
{
    if (!e) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_set_index: the estimator is NULL");
    }
    if (!e->own_index) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' does not search", e->ops.name);
    }
    if (e->model || (like && like->built)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "%s",
                         e->model ? "the index must be set before the estimator is bound"
                                  : "the index is built; one that is not is wanted");
    }
    xsm_index *made = e->own_index;
    if (like) {
        XSMI_TRY(xsmi_index_new_like(like, &made, err));
    }
    xsm_index_free(e->index != e->own_index ? e->index : NULL);
    e->index = made;
    return XSM_OK;
}

/* -- the indexes --------------------------------------------------------------------------------------------------- */

static void clear_room(xsmi_searcher *s)
{
    size_t lists = s->room * s->blocks, places = lists * s->candidates;
    xsmi_release(s->context, s->queries, lists, s->query_stride * sizeof *s->queries);
    xsmi_release(s->context, s->found, places, sizeof *s->found);
    xsmi_release(s->context, s->score, places, sizeof *s->score);
    xsmi_release(s->context, s->length, lists, sizeof *s->length);
    s->queries = NULL;
    s->found = NULL;
    s->score = NULL;
    s->length = NULL;
    s->room = 0;
}

void xsmi_searcher_free(xsmi_searcher *s)
{
    if (s) {
        xsm_context *ctx = s->context;
        for (uint32_t j = 0; s->parts && j < s->blocks; j++) {
            xsm_index_free(s->parts[j].index);
        }
        clear_room(s);
        xsmi_searcher_forget(s);
        xsmi_release(ctx, s->block, s->block_bytes, 1);
        xsmi_release(ctx, s->parts, s->blocks, sizeof *s->parts);
        xsmi_release(ctx, s->marks, s->mark_words, sizeof *s->marks);
        xsmi_release(ctx, s->changed, s->capacity, sizeof *s->changed);
        xsmi_release(ctx, s, 1, sizeof *s);
        xsm_context_free(ctx);
    }
}

xsm_status xsmi_searcher_new(xsm_context *ctx, const xsm_index *like, const xsm_search_plan *plan,
                             const xsm_model *model, uint64_t rows, xsmi_searcher **out, xsm_error *err)
{
    /* A model without features has only a bias, which is one block. */
    uint32_t most_blocks = model->features > 0 ? model->features : 1;
    if (plan->size != sizeof *plan || plan->blocks < 1 || plan->blocks > most_blocks || plan->candidates < 1 ||
        plan->candidates > model->classes) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a search of %u blocks for %u classes each; the model has %u features, of which each block "
                         "takes at least one, and %u classes",
                         plan->blocks, plan->candidates, model->features, model->classes);
    }
    xsmi_searcher *s = xsmi_allocate_zero(ctx, 1, sizeof *s);
    if (!s) {
        return xsmi_fail_memory(err, sizeof *s, "what searches");
    }
    s->context = xsmi_context_retain(ctx);
    s->model = model;
    s->blocks = plan->blocks;
    s->candidates = plan->candidates;
    s->startup = plan->startup;
    if (plan->startup == XSM_SEARCH_STARTUP_AUTO) {
        s->startup = xsmi_model_is_zero(model) ? rows : 0;
    }
    s->parts = xsmi_allocate_zero(ctx, s->blocks, sizeof *s->parts);
    s->mark_words = ((size_t)model->classes + 63) / 64;
    s->marks = xsmi_allocate_zero(ctx, s->mark_words, sizeof *s->marks);
    xsm_status status = s->parts && s->marks ? XSM_OK : xsmi_fail_memory(err, s->mark_words * 8, "what searches");
    for (uint32_t j = 0; status == XSM_OK && j < s->blocks; j++) {
        xsmi_search_part *p = &s->parts[j];
        p->first = (uint32_t)((uint64_t)model->features * j / s->blocks);
        p->width = (uint32_t)((uint64_t)model->features * (j + 1) / s->blocks) - p->first;
        status = xsmi_index_new_like(like, &p->index, err);
        size_t own = p->width + (model->bias != NULL), stride = (own + 15) / 16 * 16;
        s->query_stride = stride > s->query_stride ? stride : s->query_stride;
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

xsm_status xsm_estimator_index_info(const xsm_estimator *e, uint32_t block, xsm_index_info *info, xsm_error *err)
{
    if (!e) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_index_info: the estimator is NULL");
    }
    if (!e->own_index) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' does not search", e->ops.name);
    }
    if (!e->searcher) {
        return xsmi_fail(err, XSM_ERROR_STATE, "estimator '%s' is not bound", e->ops.name);
    }
    if (block >= e->searcher->blocks) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "block %u; estimator '%s' has %u", block, e->ops.name,
                         e->searcher->blocks);
    }
    return xsm_index_get_info(e->searcher->parts[block].index, info, err);
}

/* -- updates ------------------------------------------------------------------------------------------------------- */

void xsmi_searcher_change_none(xsmi_searcher *s)
{
    for (uint32_t i = 0; i < s->changes; i++) {
        s->marks[s->changed[i] / 64] = 0;
    }
    s->changes = 0;
}

static xsm_status note_change(xsmi_searcher *s, uint32_t k, xsm_error *err)
{
    uint64_t bit = UINT64_C(1) << k % 64;
    if (s->marks[k / 64] & bit) {
        return XSM_OK;
    }
    if (s->changes == s->capacity) {
        uint32_t more = s->capacity + s->capacity / 2 + 1024;
        uint32_t *larger = xsmi_reallocate(s->context, s->changed, s->capacity, more, sizeof *larger);
        if (!larger) {
            return xsmi_fail_memory(err, more * sizeof *larger, "rows to be indexed");
        }
        s->changed = larger;
        s->capacity = more;
    }
    s->marks[k / 64] |= bit;
    s->changed[s->changes++] = k;
    return XSM_OK;
}

/* Records the rows of weights that a step with this gradient changes. */
static xsm_status note_changes(xsmi_searcher *s, const xsm_gradient *g, uint64_t examples, xsm_error *err)
{
    for (uint64_t i = 0; i < examples; i++) {
        for (uint64_t j = i * g->width; j < i * g->width + g->lengths[i]; j++) {
            XSMI_TRY(note_change(s, g->classes[j], err));
        }
    }
    return XSM_OK;
}

xsm_status xsmi_searcher_change_all(xsmi_searcher *s, xsm_error *err)
{
    for (uint32_t k = 0; k < s->model->classes; k++) {
        XSMI_TRY(note_change(s, k, err));
    }
    return XSM_OK;
}

static xsm_status keep_up(xsmi_searcher *s, xsm_error *err)
{
    const xsm_model *m = s->model;
    if (m->layout != XSM_LAYOUT_CLASS_MAJOR) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "classes are searched for in class-major models");
    }
    /* Decays reduce alpha; an alpha that has grown was multiplied into the rows. */
    bool whole = !s->built || m->weight != s->weight || m->alpha > s->alpha;
    for (uint32_t j = 0; j < s->blocks; j++) {
        xsmi_search_part *p = &s->parts[j];
        if (whole) {
            s->built = false;
            XSMI_TRY(xsmi_index_build_slice(p->index, m, p->first, p->width, s->candidates, err));
        } else {
            XSMI_TRY(xsm_index_update(p->index, s->changed, s->changes, err));
        }
    }
    s->built = true;
    s->weight = m->weight;
    s->alpha = m->alpha;
    xsmi_searcher_change_none(s);
    return XSM_OK;
}

/* -- a search ------------------------------------------------------------------------------------------------------ */

static xsm_status reserve(xsmi_searcher *s, uint64_t examples, xsm_error *err)
{
    size_t want = examples < XSM_INDEX_QUERIES ? (size_t)examples : XSM_INDEX_QUERIES, places = 0;
    if (want > s->room) {
        clear_room(s);
        size_t lists = want * s->blocks;
        bool fits = xsmi_multiply(lists, s->candidates, &places);
        s->room = want;
        s->queries = fits ? xsmi_allocate(s->context, lists, s->query_stride * sizeof *s->queries) : NULL;
        s->found = s->queries ? xsmi_allocate(s->context, places, sizeof *s->found) : NULL;
        s->score = s->found ? xsmi_allocate(s->context, places, sizeof *s->score) : NULL;
        s->length = s->score ? xsmi_allocate(s->context, lists, sizeof *s->length) : NULL;
        if (!s->length) {
            clear_room(s);
            return xsmi_fail_memory(err, places * 2 * sizeof *s->score, "what a search finds");
        }
    }
    size_t each = 0;
    for (uint32_t j = 0; j < s->blocks; j++) {
        xsmi_arena arena = {NULL, 0};
        (void)xsmi_arena_take(&arena, s->room * (size_t)s->candidates, sizeof *s->found);
        (void)xsmi_arena_take(&arena, s->room * (size_t)s->candidates, sizeof *s->score);
        (void)xsmi_arena_take(&arena, s->room, sizeof *s->length);
        (void)xsmi_arena_take(&arena, s->room, sizeof(uint64_t));
        (void)xsmi_arena_take(&arena, xsmi_index_scratch(s->parts[j].index, s->candidates), 1);
        each = arena.used > each ? arena.used : each;
    }
    size_t bytes;
    if (!xsmi_multiply(each, xsm_context_threads(s->context), &bytes)) {
        return xsmi_fail_memory(err, each, "a search");
    }
    if (bytes > s->block_bytes) {
        xsmi_release(s->context, s->block, s->block_bytes, 1);
        s->block = xsmi_allocate(s->context, bytes, 1);
        s->block_bytes = s->block ? bytes : 0;
        if (!s->block) {
            return xsmi_fail_memory(err, bytes, "a search");
        }
    }
    s->block_each = each;
    return XSM_OK;
}

/* The search for the examples first..first+count of a batch. */
typedef struct search_job {
    xsm_estimator *estimator;
    xsmi_searcher *searcher;
    xsm_gradient *gradient;
    uint64_t first, batch;
    uint32_t count;
    uint32_t pieces; /* number of pieces of the queries, for more threads than blocks */
    double eta;
    const xsmi_input_gradient *input;
    xsm_status *status; /* [pieces][blocks] */
    xsm_error *errors;  /* [pieces][blocks] */
    bool finite[XSM_INDEX_QUERIES];
    double largest[XSM_INDEX_QUERIES];
} search_job;

/* B alpha x_j, followed by a 1 for the bias, of which each block has 1/B; with distances each block has its own. */
static void make_query(const search_job *job, const xsmi_search_part *p, uint32_t i, float *query)
{
    const xsmi_searcher *s = job->searcher;
    const xsm_model *m = s->model;
    xsmi_features x = xsmi_gradient_features(job->estimator, job->gradient, job->first + i);
    float scale = (float)((double)s->blocks * m->alpha);
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
    if (m->bias) {
        query[p->width] = m->score == XSM_SCORE_EUCLIDEAN ? (float)s->blocks : 1;
    }
}

static void run_queries(void *state, size_t index, uint32_t thread)
{
    search_job *job = state;
    xsmi_searcher *s = job->searcher;
    const size_t part = index % s->blocks, piece = index / s->blocks;
    const xsmi_search_part *p = &s->parts[part];
    const uint32_t begin = (uint32_t)(piece * job->count / job->pieces);
    const uint32_t count = (uint32_t)((piece + 1) * job->count / job->pieces) - begin;
    const size_t first_list = (size_t)begin * s->blocks + part;
    float *queries = s->queries + (part * s->room + begin) * s->query_stride;
    for (uint32_t i = 0; i < count; i++) {
        make_query(job, p, begin + i, queries + i * s->query_stride);
    }
    xsmi_arena arena = {s->block + thread * s->block_each, 0};
    size_t places = s->room * (size_t)s->candidates;
    xsm_index_block block = {
        .size = sizeof block,
        .queries = queries,
        .stride = s->query_stride,
        .count = count,
        .top = s->candidates,
        .threshold = -INFINITY,
        .any_order = 1,
    };
    block.classes = xsmi_arena_take(&arena, places, sizeof *block.classes);
    block.scores = xsmi_arena_take(&arena, places, sizeof *block.scores);
    block.lengths = xsmi_arena_take(&arena, s->room, sizeof *block.lengths);
    block.probed = xsmi_arena_take(&arena, s->room, sizeof *block.probed);
    block.scratch = arena.base + arena.used;
    /* Lists are written directly to their destination if the table can write them with gaps, or if there are no
     * gaps. */
    bool straight = p->index->own_table || s->blocks == 1 || count == 1;
    if (straight) {
        block.apart = p->index->own_table ? (size_t)s->blocks * s->candidates : 0;
        block.classes = s->found + first_list * s->candidates;
        block.scores = s->score + first_list * s->candidates;
    }
    job->errors[index] = (xsm_error)XSM_ERROR_INIT;
    job->status[index] = xsmi_index_block(p->index, &block, &job->errors[index]);
    if (job->status[index] != XSM_OK) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t list = first_list + (size_t)i * s->blocks, to = list * s->candidates, from = (size_t)i * s->candidates;
        s->length[list] = block.lengths[i];
        if (!straight) {
            memcpy(s->found + to, block.classes + from, block.lengths[i] * sizeof *s->found);
            memcpy(s->score + to, block.scores + from, block.lengths[i] * sizeof *s->score);
        }
    }
}

static void score_parts(const xsm_search_block *block, uint64_t example, const uint32_t *classes, uint32_t count,
                        float *parts)
{
    const search_job *job = block->scorer;
    const xsmi_searcher *s = job->searcher;
    const xsm_model *m = s->model;
    uint64_t i = (uint64_t)(block->examples - (job->gradient->example + job->first)) + example;
    for (uint32_t c = 0; c < count; c++) {
        const float *row = m->weight + (size_t)classes[c] * m->stride;
        if (c + 4 < count) {
            xsmi_prefetch_row(m->weight + (size_t)classes[c + 4] * m->stride, m->features);
        }
        float scale = m->row_scale ? (float)m->row_scale[classes[c]] : 1;
        for (uint32_t j = 0; j < s->blocks; j++) {
            const xsmi_search_part *p = &s->parts[j];
            const float *query = s->queries + (j * s->room + i) * s->query_stride;
            float sum = m->kernels->dot(row + p->first, query, p->width);
            float own = m->bias ? m->bias[classes[c]] : 0;
            if (m->score == XSM_SCORE_EUCLIDEAN) {
                own = (float)s->blocks * (-0.5f * m->kernels->dot(row + p->first, row + p->first, p->width));
            }
            parts[(size_t)c * s->blocks + j] = scale * sum + own;
        }
    }
}

static void run_examples(void *state, size_t index, uint32_t thread)
{
    search_job *job = state;
    const xsmi_searcher *s = job->searcher;
    xsm_gradient *g = job->gradient;
    uint64_t at = job->first + index;
    size_t lists = index * s->blocks, place = (size_t)(at * g->width);
    void *scratch = g->work.scratch_each ? g->work.scratch + thread * g->work.scratch_each : NULL;
    xsm_search_block block = {
        .size = sizeof block,
        .examples = g->example + at,
        .count = 1,
        .batch = job->batch,
        .width = g->width,
        .blocks = s->blocks,
        .candidates = s->candidates,
        .found = s->found + lists * s->candidates,
        .found_length = s->length + lists,
        .found_score = s->score + lists * s->candidates,
        .score = score_parts,
        .eta = job->eta,
        .classes = g->classes + place,
        .lengths = g->lengths + at,
        .coefficients = g->coefficients + place,
        .losses = g->losses + at,
        .scratch = scratch,
        .scorer = job,
    };
    job->estimator->ops.search(job->estimator->state, &block);
    xsm_score_block taken = {
        .size = sizeof taken,
        .examples = block.examples,
        .count = 1,
        .batch = job->batch,
        .width = g->width,
        .lengths = block.lengths,
        .eta = job->eta,
        .coefficients = block.coefficients,
        .losses = block.losses,
    };
    job->largest[index] = 0;
    job->finite[index] = xsmi_estimator_take_mean(&taken, &job->largest[index]) == 1;
    if (job->input && job->finite[index]) {
        job->finite[index] = xsmi_input_gradient_take(job->input, job->estimator, g, job->eta, at, 1);
    }
}

/* Number of pieces of the queries, so that each thread has work. A table may process all queries of one block together,
 * which can be faster. */
static uint32_t pieces_of(const xsmi_searcher *s, uint32_t queries)
{
    uint32_t pieces = (xsm_context_threads(s->context) + s->blocks - 1) / s->blocks;
    return pieces < queries ? pieces : queries;
}

static xsm_status search_all(search_job *job, xsm_estimator *e, const xsm_batch *batch, bool *finite, double *largest,
                             xsm_error *err)
{
    xsmi_searcher *s = job->searcher;
    *finite = true;
    *largest = 0;
    for (uint64_t first = 0; first < batch->count; first += job->count) {
        uint64_t left = batch->count - first;
        job->first = first;
        job->count = left < XSM_INDEX_QUERIES ? (uint32_t)left : XSM_INDEX_QUERIES;
        for (uint64_t i = first; i < first + job->count; i++) {
            job->gradient->example[i] = xsmi_example_of(e, batch, i);
        }
        xsmi_gradient_measure(e, job->gradient, first, job->count);
        job->pieces = pieces_of(s, job->count);
        const size_t jobs = (size_t)job->pieces * s->blocks;
        XSMI_TRY(xsmi_run(s->context, run_queries, job, jobs, err));
        for (size_t j = 0; j < jobs; j++) {
            if (job->status[j] != XSM_OK) {
                return xsmi_fail_copy(err, &job->errors[j]);
            }
        }
        XSMI_TRY(xsmi_run(s->context, run_examples, job, job->count, err));
        for (uint32_t i = 0; i < job->count; i++) {
            *finite &= job->finite[i];
            *largest = job->largest[i] > *largest ? job->largest[i] : *largest;
        }
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_search(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g,
                                 const xsmi_input_gradient *input, bool *finite, double *largest, xsm_error *err)
{
    xsmi_searcher *s = e->searcher;
    XSMI_TRY(xsmi_estimator_reserve(e, g, batch->count, xsm_context_threads(e->context), false, err));
    XSMI_TRY(xsmi_gradient_take_batch(e, g, batch, eta, err));
    const xsmi_input_gradient of_layer = {g->layer.gradient, g->work.rows.stride};
    input = e->model->layer ? &of_layer : input;
    xsm_error unsaid = XSM_ERROR_INIT;
    xsm_status kept = keep_up(s, &unsaid);
    if (kept == XSM_ERROR_DIVERGED) { /* rows are not finite: the caller reports it, as for scores */
        *finite = false;
        return XSM_OK;
    }
    if (kept != XSM_OK) {
        return xsmi_fail_copy(err, &unsaid);
    }
    XSMI_TRY(reserve(s, batch->count, err));
    search_job job = {.estimator = e, .searcher = s, .gradient = g, .batch = batch->count, .eta = eta, .input = input};
    const size_t jobs = (size_t)pieces_of(s, (uint32_t)s->room) * s->blocks;
    job.status = xsmi_allocate(s->context, jobs, sizeof *job.status);
    job.errors = xsmi_allocate(s->context, jobs, sizeof *job.errors);
    xsm_status status = job.status && job.errors ? search_all(&job, e, batch, finite, largest, err)
                                                 : xsmi_fail_memory(err, jobs * sizeof *job.errors, "a search");
    xsmi_release(s->context, job.status, jobs, sizeof *job.status);
    xsmi_release(s->context, job.errors, jobs, sizeof *job.errors);
    g->decay = xsmi_estimator_decay(e, eta);
    if (status == XSM_OK && *finite && e->model->layer) {
        xsmi_gradient_take_layer(e, g, batch, 0, batch->count, largest);
        *finite = *largest * eta < XSMI_STEP_LIMIT; /* false for NaN too */
    }
    if (status == XSM_OK && *finite) {
        status = note_changes(s, g, batch->count, err);
    }
    return status;
}
