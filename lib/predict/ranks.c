/*
 * Filtered ranks of the labels among all classes: the measure of link prediction (Bordes et al., Translating embeddings
 * for modeling multi-relational data, 2013, section 4.2). A label competes with the classes that are not known to be
 * right for the same row, either from the row itself or from rows with the same features elsewhere.
 *
 * All rows are scored twice, tile by tile: first for the scores (logits) of the labels and of the filtered classes,
 * to count the higher scores. A tile's scores have the same bits both times, so nothing depends on rounding. Of a
 * divided model each rank scores its classes; all get the scores of the labels between the passes, and add up what all
 * have counted after the second.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/settings.h"
#include "data/part.h"
#include "model/divided.h"
#include "model/tiles.h"
#include "predict/rounds.h"

#include <xsoftmax/metrics.h>

#include <math.h>
#include <string.h>

#define JOB_ROWS XSMI_TILE_ROWS

/* -- rows with the same features ----------------------------------------------------------------------------------- */

#define NONE UINT64_MAX

/* Rows of the datasets with known labels, by their features: the chains of a hash table. */
typedef struct known_rows {
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

/* The dataset of a row's number, and the row's number in it. */
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
    k->heads = xsmi_allocate(ctx, (size_t)1 << k->bits, sizeof *k->heads);
    k->next = xsmi_allocate(ctx, (size_t)k->rows, sizeof *k->next);
    if (!k->heads || !k->next) {
        return xsmi_fail_memory(err, (size_t)k->rows * sizeof *k->next, "rows whose labels are known");
    }
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

static void end_known(xsm_context *ctx, known_rows *k)
{
    if (k->heads) {
        xsmi_release(ctx, k->heads, (size_t)1 << k->bits, sizeof *k->heads);
    }
    if (k->next) {
        xsmi_release(ctx, k->next, (size_t)k->rows, sizeof *k->next);
    }
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

/* Lists row `row`'s classes in rising order, each once; of equal classes its own label is listed. */
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

/* What a job adds up, each row as often as its weight says: the labels that the model has, the others, 1/rank, rank,
 * and from HITS on, by k, the labels whose rank, rounded up, is k + 1. */
enum { RANKED, UNSEEN, RECIPROCAL, RANK, HITS };

/* What is counted: each row once. */
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
    list *lists;           /* [XSMI_MAX(threads, XSMI_ROUND_JOBS)] */
    bool *short_of_memory; /* [jobs] */
    uint32_t top;
    size_t at; /* of a divided model: the first of the jobs that are done together now */
} ranks_job;

typedef struct pass {
    list *list;
    bool counting; /* the second pass */
    bool finite;
    size_t cursors[JOB_ROWS]; /* the next class of each row to find in a tile */
    size_t row, rows;         /* of the job: the first that is scored, and how many */
    uint32_t first;           /* the first class that is scored, of those of the whole model */
} pass;

/* Reads one row's scores of a tile, `step` floats apart. */
static void read_row(pass *p, size_t row, const xsmi_tile *tile, const float *scores, size_t step)
{
    listed *items = p->list->items;
    const size_t end = p->list->starts[row + 1];
    const uint32_t from = p->first + tile->first;
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
        read_row(p, p->row + tile->block * XSMI_LANES + tile->row, tile, tile->scores, 1);
        return;
    }
    for (size_t l = 0; l < XSMI_LANES && tile->block * XSMI_LANES + l < p->rows; l++) {
        read_row(p, p->row + tile->block * XSMI_LANES + l, tile, tile->scores + l, XSMI_LANES);
    }
}

/* Adds the ranks of a row's labels, so many times: 1 plus the number of higher classes, plus half of those with the
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

static size_t rows_of(const ranks_job *job, size_t index, uint64_t *first)
{
    *first = (uint64_t)index * JOB_ROWS;
    return (size_t)XSMI_MIN(job->data->rows - *first, JOB_ROWS);
}

/* Lists the classes of the rows of job `index`, of all; false without memory. */
static bool list_rows(ranks_job *job, size_t index, double *numbers, list *l)
{
    const xsm_dataset *data = job->data;
    partial *result = &job->partials[index];
    uint64_t first;
    const size_t rows = rows_of(job, index, &first);
    memset(result, 0, sizeof *result);
    result->failed = UINT64_MAX;
    job->short_of_memory[index] = false;
    l->context = job->context;
    l->classes = job->model->classes;
    l->count = 0;
    for (size_t i = 0; i < rows; i++) {
        size_t labels;
        const uint32_t *of = xsmi_dataset_labels(data, first + i, &labels);
        l->starts[i] = l->count;
        if (list_row(l, job->known, data, first + i, NULL) != XSM_OK) {
            job->short_of_memory[index] = true;
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

/* The first item of a row whose class is `class` or a later one. */
static size_t first_item(const list *l, size_t row, uint32_t class)
{
    size_t i = l->starts[row];
    while (i < l->starts[row + 1] && l->items[i].class < class) {
        i++;
    }
    return i;
}

/* One pass over the scores of a job's rows: of all classes, or of this rank's. Returns whether they are finite. */
static bool score_rows(const ranks_job *job, size_t index, uint32_t thread, list *l, bool counting)
{
    const xsm_model *m = job->model, *own = xsmi_model_weights(m);
    uint64_t first;
    pass p = {.list = l, .counting = counting, .finite = true, .first = m->part.first};
    p.rows = rows_of(job, index, &first);
    xsmi_features features[JOB_ROWS];
    size_t counts[XSMI_TILE_BLOCKS] = {0};
    for (size_t i = 0; i < p.rows; i++) {
        features[i] = xsmi_dataset_features(job->data, first + i);
        counts[i / XSMI_LANES]++;
        p.cursors[i] = first_item(l, i, m->part.first);
    }
    const xsmi_tile_rows rows = {features, counts, (p.rows + XSMI_LANES - 1) / XSMI_LANES, job->data->sparse};
    const xsmi_tile_call call = {own, &rows, 0, own->classes, read_tile, &p, job->context, false};
    xsmi_tiles_score(&call, job->scratch + thread * job->scratch_each);
    return p.finite;
}

/* Adds the ranks of a job's rows, all of whose scores are finite. */
static void add_rows(const ranks_job *job, size_t index, const list *l, double *numbers)
{
    uint64_t first;
    const size_t rows = rows_of(job, index, &first);
    for (size_t i = 0; i < rows; i++) {
        add_ranks(job, l, i, xsmi_dataset_weight(job->data, first + i), &job->partials[index], numbers);
    }
    xsmi_advance(job->context, rows);
}

static double *numbers_of(const ranks_job *job, size_t index)
{
    return job->rounds.numbers + (index - job->rounds.first) * job->rounds.each;
}

static void run_rows(void *state, size_t index, uint32_t thread)
{
    ranks_job *job = state;
    list *l = &job->lists[thread];
    index += job->rounds.first;
    double *numbers = numbers_of(job, index);
    if (!list_rows(job, index, numbers, l)) {
        return;
    }
    bool finite = true;
    for (int n = 0; n < 2 && l->count > 0 && finite; n++) {
        finite = score_rows(job, index, thread, l, n == 1);
    }
    if (xsmi_is_cancelled(job->context)) {
        return;
    }
    if (finite) {
        add_rows(job, index, l, numbers);
    } else {
        job->partials[index].failed = (uint64_t)index * JOB_ROWS;
    }
}

/* -- of a divided model -------------------------------------------------------------------------------------------- */

/* The first pass over this rank's classes; the scores of others are -INFINITY. */
static void find_some(void *state, size_t index, uint32_t thread)
{
    ranks_job *job = state;
    list *l = &job->lists[index];
    index += job->at;
    if (!list_rows(job, index, numbers_of(job, index), l)) {
        return;
    }
    for (size_t i = 0; i < l->count; i++) {
        l->items[i].score = -INFINITY;
    }
    if (l->count > 0 && !score_rows(job, index, thread, l, false)) {
        job->partials[index].failed = (uint64_t)index * JOB_ROWS;
    }
}

static void count_some(void *state, size_t index, uint32_t thread)
{
    const ranks_job *job = state;
    list *l = &job->lists[index];
    index += job->at;
    if (l->count > 0 && job->partials[index].failed == UINT64_MAX) {
        (void)score_rows(job, index, thread, l, true);
    }
}

/* A pass over the scores of the rows of the job job->at in a hierarchy, whose nodes all ranks score together: over
 * those of this rank's classes. `status` is this rank's so far. */
static xsm_status sweep_rows(const ranks_job *job, xsm_status status, bool counting, xsm_error *err)
{
    const xsm_model *m = job->model;
    list *l = &job->lists[0];
    uint64_t from;
    pass p = {.list = l, .counting = counting, .finite = true};
    const size_t rows = rows_of(job, job->at, &from);
    xsmi_features features[JOB_ROWS];
    for (size_t i = 0; i < rows; i++) {
        features[i] = xsmi_dataset_features(job->data, from + i);
        p.cursors[i] = status == XSM_OK ? first_item(l, i, m->part.first) : 0;
    }
    xsmi_nodes n;
    const xsm_status made = xsmi_nodes_new(m, job->context, rows, job->data->sparse, &n, err);
    status = status == XSM_OK ? made : status;
    size_t first = 0;
    do {
        const size_t some = XSMI_MIN(rows - first, n.together);
        status = xsmi_nodes_score(&n, features + first, some, false, status, err);
        p.row = first;
        p.rows = some; /* XSMI_TILE_ROWS at most */
        if (status == XSM_OK) {
            xsmi_nodes_tiles(&n,
                             &(xsmi_nodes_range){.features = features + first,
                                                 .rows = some,
                                                 .first = m->part.first,
                                                 .end = m->part.end,
                                                 .consume = read_tile,
                                                 .state = &p},
                             0);
        }
        first += some;
    } while (status == XSM_OK && first < rows);
    xsmi_nodes_free(&n);
    if (!p.finite) {
        job->partials[job->at].failed = (uint64_t)job->at * JOB_ROWS;
    }
    return status;
}

/* find_some() and count_some() of the job job->at in a hierarchy. */
static xsm_status find_by_nodes(ranks_job *job, xsm_error *err)
{
    list *l = &job->lists[0];
    const bool all = list_rows(job, job->at, numbers_of(job, job->at), l);
    for (size_t i = 0; i < l->count; i++) {
        l->items[i].score = -INFINITY;
    }
    return sweep_rows(job, all ? XSM_OK : xsmi_fail_memory(err, sizeof(listed), "the labels of rows"), false, err);
}

static xsm_status count_by_nodes(ranks_job *job, xsm_error *err)
{
    return job->partials[job->at].failed == UINT64_MAX ? sweep_rows(job, XSM_OK, true, err) : XSM_OK;
}

static xsm_status check_some(const ranks_job *job, size_t count, xsm_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (job->short_of_memory[job->at + i]) {
            return xsmi_fail_memory(err, sizeof(listed), "the labels of rows");
        }
    }
    return xsmi_go_on(job->context, err);
}

/* Gives every rank the scores of all classes that concern the rows of some jobs, and says on all where one has some
 * that are not finite. `values` has room for each item and each job. */
static xsm_status exchange_scores(const ranks_job *job, size_t count, float *values, xsm_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        const list *l = &job->lists[i];
        const bool good = job->partials[job->at + i].failed == UINT64_MAX;
        values[n++] = good ? 0 : 1;
        for (size_t j = 0; j < l->count; j++) {
            values[n++] = good ? l->items[j].score : 0;
        }
    }
    XSMI_TRY(xsmi_exchange_max(job->model->context, values, n, err));
    n = 0;
    for (size_t i = 0; i < count; i++) {
        const list *l = &job->lists[i];
        job->partials[job->at + i].failed = values[n++] > 0 ? (uint64_t)(job->at + i) * JOB_ROWS : UINT64_MAX;
        for (size_t j = 0; j < l->count; j++) {
            l->items[j].score = values[n++];
        }
    }
    return XSM_OK;
}

typedef struct above_level {
    uint32_t above, level;
} above_level;

/* Adds up what the ranks have counted. `counts` has room for the items of all ranks and once more of this one. */
static xsm_status exchange_counts(const ranks_job *job, size_t count, size_t items, size_t *sizes, above_level *counts,
                                  xsm_error *err)
{
    const uint32_t ranks = xsmi_ranks(job->model->context);
    above_level *mine = counts + ranks * items;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < job->lists[i].count; j++) {
            const listed *item = &job->lists[i].items[j];
            mine[n++] = (above_level){(uint32_t)item->above, (uint32_t)item->level};
        }
    }
    for (uint32_t r = 0; r < ranks; r++) {
        sizes[r] = items * sizeof *counts;
    }
    XSMI_TRY(xsmi_exchange_blocks(job->model->context, mine, counts, sizes, err));
    n = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < job->lists[i].count; j++, n++) {
            listed *item = &job->lists[i].items[j];
            item->above = item->level = 0;
            for (uint32_t r = 0; r < ranks; r++) {
                item->above += counts[r * items + n].above;
                item->level += counts[r * items + n].level;
            }
        }
    }
    return XSM_OK;
}

/* `count` jobs from job->at on. */
static xsm_status run_some(ranks_job *job, size_t count, xsm_error *err)
{
    xsm_context *ctx = job->context, *group = job->model->context;
    const uint32_t ranks = xsmi_ranks(group);
    const uint64_t first = (uint64_t)job->at * JOB_ROWS, left = job->data->rows - first;
    const xsm_batch batch = xsm_batch_range(job->data, first, XSMI_MIN(left, (uint64_t)count * JOB_ROWS));
    XSMI_TRY(xsmi_batch_fetch(&batch, 0, (size_t)batch.count, err));
    xsmi_agree_begin(group);
    const bool nodes = job->model->hierarchy != NULL; /* then it is one job */
    xsm_status status = nodes ? find_by_nodes(job, err) : xsmi_run(ctx, find_some, job, count, err);
    status = status == XSM_OK ? check_some(job, count, err) : status;
    size_t items = 0;
    for (size_t i = 0; i < count; i++) {
        items += job->lists[i].count;
    }
    float *values = xsmi_allocate(ctx, items + count, sizeof *values);
    size_t *sizes = xsmi_allocate(ctx, ranks, sizeof *sizes);
    const size_t blocks = (size_t)ranks + 1;
    above_level *counts = xsmi_allocate(ctx, blocks, items * sizeof *counts);
    if (status == XSM_OK && (!values || !sizes || !counts)) {
        status = xsmi_fail_memory(err, blocks * items * sizeof *counts, "the scores of labels");
    }
    status = xsmi_agree_once(group, status, err);
    status = status == XSM_OK ? exchange_scores(job, count, values, err) : status;
    if (status == XSM_OK) {
        status = nodes ? count_by_nodes(job, err) : xsmi_run(ctx, count_some, job, count, err);
        status = status == XSM_OK ? xsmi_go_on(ctx, err) : status;
        status = xsmi_agree_once(group, status, err);
        status = status == XSM_OK ? exchange_counts(job, count, items, sizes, counts, err) : status;
    }
    for (size_t i = 0; i < count && status == XSM_OK; i++) {
        if (job->partials[job->at + i].failed == UINT64_MAX) {
            add_rows(job, job->at + i, &job->lists[i], numbers_of(job, job->at + i));
        }
    }
    xsmi_release(ctx, values, items + count, sizeof *values);
    xsmi_release(ctx, sizes, ranks, sizeof *sizes);
    xsmi_release(ctx, counts, blocks, items * sizeof *counts);
    return status;
}

/* A round: some jobs together, as many on every rank, whose threads share them; in a hierarchy one, for all threads. */
static xsm_status run_divided(void *state, size_t count, xsm_error *err)
{
    ranks_job *job = state;
    const size_t end = job->rounds.first + count, together = job->model->hierarchy ? 1 : XSMI_ROUND_JOBS;
    for (job->at = job->rounds.first; job->at < end; job->at += together) {
        XSMI_TRY(run_some(job, XSMI_MIN(end - job->at, together), err));
    }
    return XSM_OK;
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

/* Shares of the labels. */
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
    if (!data) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_evaluate_ranks: %s is NULL", what);
    }
    XSMI_TRY(xsmi_dataset_need_whole(data, "xsm_evaluate_ranks()", err));
    XSMI_TRY(xsmi_check_same_rows(xsmi_model_group(model), data, err));
    XSMI_TRY(xsmi_model_check_rows(model, data, what, err));
    return xsmi_model_check_labels(model, data, what, err);
}

/* Compares what is wanted among the processes of a group. */
static xsm_status agree_options(xsm_context *group, const xsm_ranks_options *o, const xsm_ranks *r, xsm_error *err)
{
    const xsmi_number numbers[] = {XSMI_WHOLE("top", r->hits ? r->top : 0), XSMI_WHOLE("known", o->known_count)};
    return xsmi_numbers_agree(group, numbers, sizeof numbers / sizeof *numbers, XSM_OK, err);
}

/* The evaluation of this rank, which all make together. */
static xsm_status evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                           const xsm_ranks_options *options, xsm_ranks *ranks, xsm_error *err)
{
    xsm_ranks_options o = XSM_RANKS_OPTIONS_INIT;
    XSMI_TRY(xsmi_options_read(&o, sizeof o, XSMI_FIRST(xsm_ranks_options), options, "xsm_ranks_options", err));
    XSMI_TRY(check_data(model, dataset, "the data", err));
    xsm_context *ctx = context ? context : model->context;
    xsm_ranks r = XSM_RANKS_INIT;
    XSMI_TRY(xsmi_options_read(&r, sizeof r, XSMI_FIRST(xsm_ranks), ranks, "xsm_ranks", err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_ranks, &r, reserved, err));
    if (r.hits && r.top == 0) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_ranks.top is 0, but hits is not NULL; accepted is 1 or more");
    }
    XSMI_TRY(agree_options(xsmi_model_group(model), &o, &r, err));
    if (o.known_count > 0 && !o.known) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_ranks_options.known is NULL");
    }
    for (size_t d = 0; d < o.known_count; d++) {
        XSMI_TRY(check_data(model, o.known[d], "a dataset of known labels", err));
    }
    r.labels = r.unseen_labels = 0;
    known_rows known = {0};
    const size_t jobs = (size_t)((dataset->rows + JOB_ROWS - 1) / JOB_ROWS), threads = xsmi_context_threads(ctx);
    const size_t lists = XSMI_MAX(threads, XSMI_ROUND_JOBS);
    ranks_job job = {.context = ctx, .model = model, .data = dataset, .known = &known, .top = r.hits ? r.top : 0};
    job.scratch_each = xsmi_tiles_scratch(xsmi_model_weights(model), dataset->sparse, XSMI_TILE_BLOCKS);
    job.partials = xsmi_allocate(ctx, jobs, sizeof *job.partials);
    job.short_of_memory = xsmi_allocate(ctx, jobs, sizeof *job.short_of_memory);
    job.lists = xsmi_allocate_zero(ctx, lists, sizeof *job.lists);
    job.scratch = xsmi_allocate(ctx, threads, job.scratch_each);
    job.rounds.jobs = jobs;
    job.rounds.each = HITS + (size_t)job.top;
    xsm_status status = xsmi_rounds_start(ctx, &job.rounds, err);
    if (status == XSM_OK && (!job.partials || !job.short_of_memory || !job.lists || !job.scratch)) {
        status = xsmi_fail_memory(err, threads * job.scratch_each, "an evaluation");
    }
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "evaluating", "rows", dataset->rows);
    if (status == XSM_OK) {
        status = start_known(ctx, &o, &known, err);
    }
    if (xsmi_model_is_divided(model)) {
        status = xsmi_agree(model->context, status, err);
        status = status == XSM_OK ? xsmi_rounds_run_by(&job.rounds, run_divided, &job, err) : status;
    } else if (status == XSM_OK) {
        status = xsmi_rounds_run(ctx, &job.rounds, run_rows, &job, err);
    }
    status = xsmi_end(&activity, status, err);
    if (status == XSM_OK) {
        status = join(&job, jobs, &r, err);
    }
    if (status == XSM_OK) {
        status = xsmi_options_write(&r, sizeof r, XSMI_FIRST(xsm_ranks), ranks, "xsm_ranks", err);
    }
    if (status == XSM_OK) {
        write_hits(&job, &r);
    }
    for (size_t t = 0; job.lists && t < lists; t++) {
        xsmi_release(ctx, job.lists[t].items, job.lists[t].capacity, sizeof *job.lists[t].items);
    }
    end_known(ctx, &known);
    xsmi_release(ctx, job.partials, jobs, sizeof *job.partials);
    xsmi_release(ctx, job.short_of_memory, jobs, sizeof *job.short_of_memory);
    xsmi_release(ctx, job.lists, lists, sizeof *job.lists);
    xsmi_release(ctx, job.scratch, threads, job.scratch_each);
    xsmi_rounds_end(ctx, &job.rounds);
    return status;
}

xsm_status xsm_evaluate_ranks(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                              const xsm_ranks_options *options, xsm_ranks *ranks, xsm_error *err)
{
    XSMI_ENTER(err);
    if (!model || !ranks) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_evaluate_ranks: %s is NULL", model ? "ranks" : "the model");
    }
    xsmi_agree_begin(xsmi_model_group(model));
    return xsmi_agree_once(xsmi_model_group(model), evaluate(context, model, dataset, options, ranks, err), err);
}
