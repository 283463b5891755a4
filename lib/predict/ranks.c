/*
 * Filtered ranks of the labels among all classes: the measure of link prediction (Bordes et al., Translating embeddings
 * for modeling multi-relational data, 2013, section 4.2). A label competes with the classes that are not known to be
 * right for the same row, either from the row itself or from rows with the same features elsewhere.
 *
 * All rows are scored twice, tile by tile: first for the scores (logits) of the labels and of the filtered classes,
 * to count the higher scores. A tile's scores have the same bits both times, so nothing depends on rounding.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "base/settings.h"
#include "model/tiles.h"
#include "predict/rounds.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/experimental.h>

#include <math.h>
#include <string.h>

#define JOB_ROWS XSMI_TILE_ROWS

/* -- rows with the same features ----------------------------------------------------------------------------------- */

#define NONE UINT64_MAX

/* Rows of the datasets with known labels, by their features: the chains of a hash table. */
typedef struct known_rows {
    xsmi_held held; /* the arrays */
    const xsm_dataset *const *datasets;
    size_t dataset_count;
    uint64_t *heads; /* [1 << bits] */
    uint64_t *next;  /* [rows] of all datasets, one after another */
    uint64_t rows;
    uint32_t bits;
} known_rows;

static uint64_t hash_of(const xsmi_features *x)
{
    uint64_t hash = xsmi_hash(x->values, x->count * sizeof *x->values, 0);
    return x->index ? xsmi_hash(x->index, x->count * sizeof *x->index, hash) : hash;
}

static bool same(const xsmi_features *a, const xsmi_features *b)
{
    return a->count == b->count && !a->index == !b->index &&
           memcmp(a->values, b->values, a->count * sizeof *a->values) == 0 &&
           (!a->index || memcmp(a->index, b->index, a->count * sizeof *a->index) == 0);
}

/* Returns the dataset that has row `number` of all datasets, and sets *row to its number there. */
static const xsm_dataset *find_row(const known_rows *k, uint64_t number, uint64_t *row)
{
    size_t d = 0;
    while (number >= k->datasets[d]->rows) {
        number -= k->datasets[d++]->rows;
    }
    *row = number;
    return k->datasets[d];
}

static xsm_status start_known(xsm_context *ctx, const xsm_ranks_options *o, known_rows *k, xsm_error *err)
{
    k->datasets = o->known;
    k->dataset_count = o->known_count;
    for (size_t d = 0; d < o->known_count; d++) {
        k->rows += o->known[d]->rows;
    }
    if (k->rows == 0) {
        return XSM_OK;
    }
    for (k->bits = 4; k->bits < 40 && (UINT64_C(1) << k->bits) < k->rows; k->bits++) {
    }
    k->heads = xsmi_hold(&k->held, (size_t)1 << k->bits, sizeof *k->heads);
    k->next = xsmi_hold(&k->held, (size_t)k->rows, sizeof *k->next);
    XSMI_TRY(xsmi_held_check(&k->held, "rows whose labels are known", err));
    memset(k->heads, 0xFF, ((size_t)1 << k->bits) * sizeof *k->heads);
    for (uint64_t number = 0; number < k->rows; number++) {
        uint64_t row;
        const xsm_dataset *d = find_row(k, number, &row);
        xsmi_features x = xsmi_dataset_features(d, row);
        uint64_t *head = &k->heads[hash_of(&x) >> (64 - k->bits)];
        k->next[number] = *head;
        *head = number;
        if (number % 64 == 0) {
            XSMI_TRY(xsmi_go_on(ctx, err));
        }
    }
    return XSM_OK;
}

/* -- the classes that concern a row -------------------------------------------------------------------------------- */

/* A class that concerns a row: one of its own labels, which is ranked, or one that is known to be right. */
typedef struct listed {
    uint32_t class;
    bool own;
    float score;
    uint64_t above, level; /* classes with a higher score, and with the same, itself included */
} listed;

/* The classes of a job's rows; grows. */
typedef struct list {
    xsm_context *context;
    uint32_t classes; /* of the model; others are not listed */
    listed *items;
    size_t count, capacity;
    size_t starts[JOB_ROWS + 1];
} list;

static xsm_status add(list *l, const uint32_t *labels, size_t count, bool own, xsm_error *err)
{
    XSMI_TRY(XSMI_GROW(l->context, l->items, l->capacity, l->count + count, "the labels of rows", err));
    for (size_t j = 0; j < count; j++) {
        if (labels[j] < l->classes) {
            l->items[l->count++] = (listed){labels[j], own, 0, 0, 0};
        }
    }
    return XSM_OK;
}

static int compare_listed(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    return x->class != y->class ? XSMI_COMPARE(x->class, y->class) : (int)y->own - (int)x->own;
}

/* Lists the classes of row `row` in rising order, each once; a class that is also the row's own label is listed as
 * that. */
static xsm_status list_row(list *l, const known_rows *k, const xsm_dataset *data, uint64_t row, xsm_error *err)
{
    const size_t first = l->count;
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(data, row, &count);
    XSMI_TRY(add(l, labels, count, true, err));
    if (l->count == first) {
        return XSM_OK; /* nothing to rank */
    }
    xsmi_features x = xsmi_dataset_features(data, row);
    for (uint64_t number = k->rows ? k->heads[hash_of(&x) >> (64 - k->bits)] : NONE; number != NONE;
         number = k->next[number]) {
        uint64_t other;
        const xsm_dataset *d = find_row(k, number, &other);
        xsmi_features y = xsmi_dataset_features(d, other);
        if (same(&x, &y)) {
            labels = xsmi_dataset_labels(d, other, &count);
            XSMI_TRY(add(l, labels, count, false, err));
        }
    }
    xsmi_heap_sort(l->items + first, l->count - first, sizeof *l->items, compare_listed);
    size_t kept = first;
    for (size_t i = first; i < l->count; i++) {
        if (kept == first || l->items[i].class != l->items[kept - 1].class) {
            l->items[kept++] = l->items[i];
        }
    }
    l->count = kept;
    return XSM_OK;
}

/* -- scoring ------------------------------------------------------------------------------------------------------- */

/* The sums of a job, each row multiplied by its weight: the labels that the model has, the others, 1/rank, rank, and
 * from HITS on, by k, the labels whose rank, rounded up, is k + 1. */
enum { RANKED, UNSEEN, RECIPROCAL, RANK, HITS };

/* Counts without weights. */
typedef struct partial {
    uint64_t ranked, unseen;
    uint64_t failed; /* first row whose scores are not finite, or UINT64_MAX */
} partial;

typedef struct ranks_job {
    xsm_context *context;
    const xsm_model *model;
    const xsm_dataset *data;
    const known_rows *known;
    partial *partials;  /* [jobs] */
    xsmi_rounds rounds; /* HITS + top numbers */
    unsigned char *scratch;
    size_t scratch_each;
    list *lists;           /* [threads] */
    bool *short_of_memory; /* [jobs] */
    uint32_t top;
} ranks_job;

typedef struct pass {
    list *list;
    bool counting; /* the second pass */
    bool finite;
    size_t cursors[JOB_ROWS]; /* the next class of each row to find in a tile */
    size_t rows;
} pass;

/* Reads one row's scores of a tile, `step` floats apart. */
static void read_row(pass *p, size_t row, const xsmi_tile *tile, const float *scores, size_t step)
{
    listed *items = p->list->items;
    const size_t end = p->list->starts[row + 1];
    const uint32_t from = tile->first;
    if (p->list->starts[row] == end) {
        return;
    }
    if (!p->counting) {
        size_t *next = &p->cursors[row];
        for (; *next < end && items[*next].class < from + tile->count; (*next)++) {
            items[*next].score = scores[(items[*next].class - from) * step];
        }
        for (uint32_t c = 0; c < tile->count; c++) {
            p->finite &= isfinite(scores[c * step]) != 0;
        }
        return;
    }
    for (size_t i = p->list->starts[row]; i < end; i++) {
        if (!items[i].own) {
            continue;
        }
        const float own = items[i].score;
        uint32_t above = 0, level = 0;
        for (uint32_t c = 0; c < tile->count; c++) {
            above += scores[c * step] > own;
            level += scores[c * step] == own;
        }
        items[i].above += above;
        items[i].level += level;
    }
}

static void read_tile(void *state, const xsmi_tile *tile)
{
    pass *p = state;
    if (!tile->lanes) {
        read_row(p, tile->block * XSMI_LANES + tile->row, tile, tile->scores, 1);
        return;
    }
    for (size_t l = 0; l < XSMI_LANES && tile->block * XSMI_LANES + l < p->rows; l++) {
        read_row(p, tile->block * XSMI_LANES + l, tile, tile->scores + l, XSMI_LANES);
    }
}

/* Adds the ranks of a row's labels, times `times`: 1 plus the number of higher classes, plus half of those with the
 * same score, without the classes that are known to be right. */
static void add_ranks(const ranks_job *job, const list *l, size_t row, double times, partial *p, double *numbers)
{
    const size_t first = l->starts[row], end = l->starts[row + 1];
    for (size_t i = first; i < end; i++) {
        const listed *own = &l->items[i];
        if (!own->own) {
            continue;
        }
        uint64_t above = own->above, level = own->level;
        for (size_t j = first; j < end; j++) {
            above -= l->items[j].score > own->score;
            level -= l->items[j].score == own->score; /* includes itself */
        }
        double rank = 1 + (double)above + (double)level / 2;
        p->ranked++;
        numbers[RANKED] += times;
        numbers[RANK] += times * rank;
        numbers[RECIPROCAL] += times / rank;
        if (rank <= job->top) {
            numbers[HITS + (size_t)ceil(rank) - 1] += times;
        }
    }
}

/* Lists the classes of a job's rows; false without memory. */
static bool list_rows(ranks_job *job, const xsmi_range *r, double *numbers, list *l)
{
    const xsm_dataset *data = job->data;
    partial *result = &job->partials[r->index];
    const size_t first = r->first, rows = r->end - first;
    memset(result, 0, sizeof *result);
    result->failed = UINT64_MAX;
    job->short_of_memory[r->index] = false;
    l->context = job->context;
    l->classes = job->model->classes;
    l->count = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t labels;
        const uint32_t *of = xsmi_dataset_labels(data, first + i, &labels);
        l->starts[i] = l->count;
        if (list_row(l, job->known, data, first + i, NULL) != XSM_OK) {
            job->short_of_memory[r->index] = true;
            return false;
        }
        for (size_t j = 0; j < labels; j++) {
            if (of[j] >= job->model->classes) {
                result->unseen++;
                numbers[UNSEEN] += xsmi_dataset_weight(data, first + i);
            }
        }
    }
    for (size_t i = rows; i <= JOB_ROWS; i++) {
        l->starts[i] = l->count;
    }
    return true;
}

/* Passes once over the scores of a job's rows. Returns whether they are finite. */
static bool score_rows(const ranks_job *job, const xsmi_range *r, list *l, bool counting)
{
    pass p = {.list = l, .rows = r->end - r->first, .counting = counting, .finite = true};
    xsmi_features features[JOB_ROWS];
    size_t counts[XSMI_TILE_BLOCKS] = {0};
    for (size_t i = 0; i < p.rows; i++) {
        features[i] = xsmi_dataset_features(job->data, r->first + i);
        counts[i / XSMI_LANES]++;
        p.cursors[i] = l->starts[i];
    }
    const xsmi_tile_rows rows = {features, counts, (p.rows + XSMI_LANES - 1) / XSMI_LANES, job->data->sparse};
    const xsmi_tile_call call = {job->model, &rows, 0,    job->model->classes, read_tile, &p, job->context,
                                 false,      false, false};
    xsmi_tiles_score(&call, job->scratch + r->thread * job->scratch_each);
    return p.finite;
}

/* Adds the ranks of a job's rows, all of whose scores are finite. */
static void add_rows(const ranks_job *job, const xsmi_range *r, const list *l, double *numbers)
{
    for (size_t i = r->first; i < r->end; i++) {
        add_ranks(job, l, i - r->first, xsmi_dataset_weight(job->data, i), &job->partials[r->index], numbers);
    }
    xsmi_advance(job->context, r->end - r->first);
}

static void run_rows(void *state, const xsmi_range *r)
{
    ranks_job *job = state;
    list *l = &job->lists[r->thread];
    double *numbers = xsmi_rounds_numbers(&job->rounds, r->index);
    if (!list_rows(job, r, numbers, l)) {
        return;
    }
    bool finite = true;
    for (int n = 0; n < 2 && l->count > 0 && finite; n++) {
        finite = score_rows(job, r, l, n == 1);
    }
    if (xsmi_is_cancelled(job->context)) {
        return;
    }
    if (finite) {
        add_rows(job, r, l, numbers);
    } else {
        job->partials[r->index].failed = r->first;
    }
}

static xsm_status join(const ranks_job *job, size_t jobs, xsm_ranks *r, xsm_error *err)
{
    for (size_t i = 0; i < jobs; i++) {
        const partial *p = &job->partials[i];
        if (job->short_of_memory[i]) {
            return xsmi_fail_memory(err, sizeof(listed), "the labels of rows");
        }
        if (p->failed != UINT64_MAX) {
            return xsmi_fail(err, XSM_ERROR_DIVERGED,
                             "rows from %llu on have scores that are not finite: the model has diverged",
                             (unsigned long long)p->failed);
        }
        r->labels += p->ranked + p->unseen;
        r->unseen_labels += p->unseen;
    }
    if (r->labels == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "none of the %llu rows has a label to rank",
                         (unsigned long long)job->data->rows);
    }
    const double *sums = job->rounds.sums, weight = sums[RANKED] + sums[UNSEEN];
    if (!(weight > 0 && weight < INFINITY)) {
        return xsmi_fail(err, XSM_ERROR_DATA,
                         "the weights of the rows of the %llu labels add up to %g; a sum above 0 is accepted",
                         (unsigned long long)r->labels, weight);
    }
    r->reciprocal_rank = sums[RECIPROCAL] / weight;
    r->mean_rank = sums[RANKED] > 0 ? sums[RANK] / sums[RANKED] : (double)NAN;
    return XSM_OK;
}

/* Writes Hits@k: shares of the labels. */
static void write_hits(const ranks_job *job, const xsm_ranks *r)
{
    const double *sums = job->rounds.sums;
    double hits = 0;
    for (uint32_t k = 0; k < job->top; k++) {
        hits += sums[HITS + k];
        r->hits[k] = hits / (sums[RANKED] + sums[UNSEEN]);
    }
}

static xsm_status check_data(const xsm_model *model, const xsm_dataset *data, const char *what, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_evaluate_ranks", XSMI_GIVEN({data, what}), err));
    XSMI_TRY(xsmi_model_check_rows(model, data, what, err));
    return xsmi_model_check_labels(model, data, what, err);
}

xsm_status xsm_evaluate_ranks(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                              const xsm_ranks_options *options, xsm_ranks *ranks, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {model, "the model"}, {ranks, "ranks"});
    xsm_ranks_options o = XSM_RANKS_OPTIONS_INIT;
    XSMI_TRY(XSMI_READ(xsm_ranks_options, &o, options, err));
    XSMI_TRY(xsmi_model_need_whole(model, "xsm_evaluate_ranks()", err));
    XSMI_TRY(check_data(model, dataset, "the data", err));
    xsm_context *ctx = context ? context : model->context;
    xsm_ranks r = XSM_RANKS_INIT;
    XSMI_TRY(XSMI_READ(xsm_ranks, &r, ranks, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_ranks, &r, reserved, err));
    if (r.hits && r.top == 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_ranks.top is 0, but hits is not NULL; accepted is 1 or more");
    }
    if (o.known_count > 0 && !o.known) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_ranks_options.known is NULL");
    }
    for (size_t d = 0; d < o.known_count; d++) {
        XSMI_TRY(check_data(model, o.known[d], "a dataset of known labels", err));
    }
    r.labels = r.unseen_labels = 0;
    known_rows known = {.held = {.context = ctx}};
    const size_t jobs = (size_t)((dataset->rows + JOB_ROWS - 1) / JOB_ROWS), threads = xsmi_context_threads(ctx);
    ranks_job job = {.context = ctx, .model = model, .data = dataset, .known = &known, .top = r.hits ? r.top : 0};
    job.scratch_each = xsmi_tiles_scratch(model, dataset->sparse, XSMI_TILE_BLOCKS);
    xsmi_held held = {.context = ctx};
    job.partials = xsmi_hold(&held, jobs, sizeof *job.partials);
    job.short_of_memory = xsmi_hold(&held, jobs, sizeof *job.short_of_memory);
    job.lists = xsmi_hold_zeros(&held, threads, sizeof *job.lists);
    job.scratch = xsmi_hold(&held, threads, job.scratch_each);
    job.rounds.rows = dataset->rows;
    job.rounds.job_rows = JOB_ROWS;
    job.rounds.each = HITS + (size_t)job.top;
    xsm_status status = xsmi_rounds_start(ctx, &job.rounds, err);
    status = status == XSM_OK ? xsmi_held_check(&held, "an evaluation", err) : status;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "evaluating", "rows", dataset->rows);
    if (status == XSM_OK) {
        status = start_known(ctx, &o, &known, err);
    }
    if (status == XSM_OK) {
        status = xsmi_rounds_run(ctx, &job.rounds, run_rows, &job, err);
    }
    status = xsmi_end(&activity, status, err);
    if (status == XSM_OK) {
        status = join(&job, jobs, &r, err);
    }
    if (status == XSM_OK) {
        status = XSMI_WRITE(xsm_ranks, &r, ranks, err);
    }
    if (status == XSM_OK) {
        write_hits(&job, &r);
    }
    for (size_t t = 0; job.lists && t < threads; t++) {
        xsmi_release(ctx, job.lists[t].items, job.lists[t].capacity, sizeof *job.lists[t].items);
    }
    xsmi_held_release(&known.held);
    xsmi_held_release(&held);
    xsmi_held_release(&job.rounds.held);
    return status;
}
