#include "estimator/sifted.h"

#include "loss/loss.h"
#include "model/tiles.h"
#include "base/activity.h"
#include "base/arena.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* Number of classes of a range: whole runs, and so many that starting a range costs little. */
#define RANGE (5 * XSMI_RUN_CLASSES)
/* Number of scores of a row's tile that are skipped together if none is above the bar. */
#define RUN 64
/* The length of a list that first raises the bar; later it is twice the length after the last raise plus this. */
#define LISTED_FIRST 48
/* Stands in place of a number of classes: scores are not finite. */
#define BAD UINT32_MAX
/* Whether to poll at row i: every 64 rows, and not in small batches. */
#define IS_POLL(i) ((i) % 64 == 63)
/* Floats set to zeros between two polls. */
#define CLEAR_FLOATS ((uint64_t)1 << 19)

typedef struct sift_job {
    const xsm_model *model;
    const xsm_batch *batch;
    xsm_gradient *g;
    double mu;
    bool scored;    /* all scores are in the memory of the coefficients */
    uint32_t range; /* classes of each range */
    size_t ranges, groups;
    uint32_t *counts;    /* [ranges][n] classes listed, stored from the first class of the range on */
    uint64_t *first;     /* [n+1] the first label of each example */
    float *label_scores; /* [labels of all examples] */
    uint64_t cleaned;    /* rows of zeros, at the end */
    unsigned char *scratch;
    size_t scratch_each;
} sift_job;

/* The state for one range and a group of rows, on one thread. */
typedef struct sieve {
    const sift_job *job;
    size_t row;           /* the group's first row in the batch */
    const size_t *counts; /* rows of each block */
    uint32_t first;       /* the range's first class */
    float *bar;           /* [XSMI_TILE_ROWS] */
    float *most;          /* [XSMI_TILE_ROWS] */
    uint32_t *listed;     /* [XSMI_TILE_ROWS] */
    uint32_t *next;       /* [XSMI_TILE_ROWS] the length of the list at which the bar is raised */
    uint32_t *found;      /* [XSMI_CLASS_TILE*XSMI_LANES + 1] */
    double *work;         /* [range][3] */
    void *tiles;
} sieve;

static sieve divide_scratch(const sift_job *job, size_t blocks, xsmi_arena *arena)
{
    sieve s = {.job = job};
    s.bar = xsmi_arena_take(arena, XSMI_TILE_ROWS, sizeof *s.bar);
    s.most = xsmi_arena_take(arena, XSMI_TILE_ROWS, sizeof *s.most);
    s.listed = xsmi_arena_take(arena, XSMI_TILE_ROWS, sizeof *s.listed);
    s.next = xsmi_arena_take(arena, XSMI_TILE_ROWS, sizeof *s.next);
    s.found = xsmi_arena_take(arena, XSMI_CLASS_TILE * XSMI_LANES + 1, sizeof *s.found);
    s.work = xsmi_arena_take(arena, job->range, 3 * sizeof *s.work);
    s.tiles = xsmi_arena_take(arena, xsmi_tiles_scratch(job->model, xsmi_batch_sparse(job->batch), blocks), 1);
    return s;
}

/* Returns a float at or below a number. */
static float round_down(double x)
{
    float y = (float)x;
    return (double)y > x ? nextafterf(y, -INFINITY) : y;
}

static void offer(sieve *s, size_t row, uint32_t class, float score)
{
    const xsm_gradient *g = s->job->g;
    size_t offset = (s->row + row) * (size_t)g->width + s->first + s->listed[row];
    if (!(score < INFINITY)) {
        s->bar[row] = INFINITY;
        s->next[row] = BAD; /* and the bar is not raised any more */
        return;
    }
    g->classes[offset] = class;
    g->work.scores[offset] = score;
    s->listed[row]++;
    s->most[row] = XSMI_MAX(score, s->most[row]);
}

/* Raises the bar of a row with a long list, and drops the scores at or below it. */
static void raise_bar(sieve *s, size_t row)
{
    const xsm_gradient *g = s->job->g;
    size_t offset = (s->row + row) * (size_t)g->width + s->first;
    uint32_t *classes = g->classes + offset, count = s->listed[row], kept = 0;
    float *scores = g->work.scores + offset;
    double bar = xsmi_margin_bar(s->job->mu, -INFINITY, (double)s->most[row], scores, count, s->work);
    for (uint32_t i = 0; i < count; i++) {
        classes[kept] = classes[i];
        scores[kept] = scores[i];
        kept += (double)scores[i] > bar;
    }
    s->listed[row] = kept;
    s->next[row] = 2 * kept + LISTED_FIRST;
    s->bar[row] = round_down(bar);
}

/* Moves the scores of a row's labels out of a tile, which is scratch memory. */
static void extract_labels(const sieve *s, const xsmi_tile *tile, size_t row, float *scores, size_t step)
{
    const xsm_example *example = &s->job->g->example[row];
    for (uint64_t l = 0; l < example->label_count; l++) {
        uint32_t at = example->labels[l] - tile->first;
        if (at < tile->count) {
            s->job->label_scores[s->job->first[row] + l] = scores[at * step];
            scores[at * step] = -INFINITY;
        }
    }
}

static void sift_lanes(sieve *s, const xsmi_tile *tile, float *scores)
{
    size_t rows = s->counts[tile->block], base = tile->block * XSMI_LANES;
    for (size_t l = 0; l < rows; l++) {
        extract_labels(s, tile, s->row + base + l, scores + l, XSMI_LANES);
    }
    size_t count = s->job->model->kernels->sift_tile(scores, tile->count, s->bar + base, rows, s->found);
    for (size_t i = 0; i < count; i++) {
        size_t row = base + s->found[i] % XSMI_LANES;
        if (s->next[row] != BAD) {
            offer(s, row, tile->first + s->found[i] / XSMI_LANES, scores[s->found[i]]);
        }
    }
    for (size_t row = base; count > 0 && row < base + rows; row++) {
        if (s->listed[row] >= s->next[row]) {
            raise_bar(s, row);
        }
    }
}

static void sift_row(sieve *s, const xsmi_tile *tile, float *scores)
{
    size_t row = tile->block * XSMI_LANES + tile->row;
    extract_labels(s, tile, s->row + row, scores, 1);
    for (uint32_t first = 0; first < tile->count; first += RUN) {
        uint32_t end = tile->count - first < RUN ? tile->count : first + RUN;
        if (s->job->model->kernels->row_max(scores + first, end - first) <= s->bar[row]) {
            continue;
        }
        for (uint32_t c = first; c < end && s->next[row] != BAD; c++) {
            if (!(scores[c] <= s->bar[row])) {
                offer(s, row, tile->first + c, scores[c]);
            }
        }
        if (s->listed[row] >= s->next[row]) {
            raise_bar(s, row);
        }
    }
}

static void sift_tile(void *state, const xsmi_tile *tile)
{
    sift_lanes(state, tile, (float *)(uintptr_t)tile->scores);
}

/* Sifts scores that were computed before; leaves zeros in their place. */
static void sift_scored(sieve *s, size_t rows, uint32_t count)
{
    const xsm_gradient *g = s->job->g;
    for (size_t row = 0; row < rows; row++) {
        float *scores = g->coefficients + (s->row + row) * (size_t)g->width + s->first;
        xsmi_tile tile = {row / XSMI_LANES, row % XSMI_LANES, false, s->first, count, scores};
        sift_row(s, &tile, scores);
        memset(scores, 0, count * sizeof *scores);
    }
}

static void run_range(void *state, size_t index, uint32_t thread)
{
    const sift_job *job = state;
    size_t row = index / job->ranges * XSMI_TILE_ROWS, range = index % job->ranges, n = (size_t)job->batch->count;
    size_t count = n - row < XSMI_TILE_ROWS ? n - row : XSMI_TILE_ROWS, blocks = (count + XSMI_LANES - 1) / XSMI_LANES;
    xsmi_features features[XSMI_TILE_ROWS];
    size_t counts[XSMI_TILE_BLOCKS] = {0};
    xsmi_arena arena = {job->scratch + thread * job->scratch_each, 0};
    sieve s = divide_scratch(job, blocks, &arena);
    s.row = row;
    s.counts = counts;
    s.first = (uint32_t)range * job->range;
    for (size_t i = 0; i < count; i++) {
        features[i] = xsmi_batch_features(job->batch, row + i);
        counts[i / XSMI_LANES]++;
        s.bar[i] = s.most[i] = -INFINITY;
        s.listed[i] = 0;
        s.next[i] = LISTED_FIRST;
    }
    uint32_t left = job->model->classes - s.first, some = XSMI_MIN(left, job->range);
    xsmi_tile_rows rows = {features, counts, blocks, xsmi_batch_sparse(job->batch)};
    if (job->scored) {
        sift_scored(&s, count, some);
    } else {
        const xsmi_tile_call call = {job->model,          &rows, s.first, s.first + some, sift_tile, &s,
                                     job->model->context, true,  false,   false};
        xsmi_tiles_score(&call, s.tiles);
    }
    for (size_t i = 0; i < count; i++) {
        job->counts[range * n + row + i] = s.next[i] == BAD ? BAD : s.listed[i];
    }
}

/* Joins the lists of the ranges. */
static void join_lists(const sift_job *job, uint64_t i)
{
    xsm_gradient *g = job->g;
    const xsm_example *example = &g->example[i];
    const float *own = job->label_scores + job->first[i];
    uint32_t *classes = g->classes + i * g->width, total = 0, labels = (uint32_t)example->label_count;
    float *scores = g->work.scores + i * g->width;
    bool bad = false;
    for (uint32_t l = 0; l < labels; l++) {
        bad |= !(fabsf(own[l]) < INFINITY);
    }
    for (size_t r = 0; r < job->ranges; r++) {
        uint32_t count = job->counts[r * (size_t)job->batch->count + i], from = (uint32_t)r * job->range;
        bad |= count == BAD;
        count = bad ? 0 : count;
        memmove(classes + total, classes + from, count * sizeof *classes);
        memmove(scores + total, scores + from, count * sizeof *scores);
        total += count;
    }
    total = bad ? 0 : total;
    memmove(classes + labels, classes, total * sizeof *classes);
    memmove(scores + labels, scores, total * sizeof *scores);
    memcpy(classes, example->labels, labels * sizeof *classes);
    memcpy(scores, own, labels * sizeof *scores);
    scores[0] = bad ? NAN : scores[0];
    g->lengths[i] = labels + total;
}

/* Sets the batch's coefficients to zeros. */
static xsm_status clear_coefficients(xsm_gradient *g, uint64_t n, const xsm_context *ctx, xsm_error *err)
{
    for (uint64_t i = 0; i < g->listed; i++) {
        XSMI_TRY(IS_POLL(i) ? xsmi_go_on(ctx, err) : XSM_OK);
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            g->coefficients[i * g->width + g->classes[i * g->width + j]] = 0;
        }
    }
    g->listed = 0;
    const uint64_t together = CLEAR_FLOATS / g->width + 1;
    for (; g->clean < n; g->clean++) {
        XSMI_TRY((g->clean + 1) % together == 0 ? xsmi_go_on(ctx, err) : XSM_OK);
        memset(g->coefficients + g->clean * g->width, 0, (size_t)g->width * sizeof(float));
    }
    return XSM_OK;
}

/* Divides a batch's memory, which is one allocation that the gradient reuses. */
static void divide_memory(sift_job *job, size_t n, size_t labels, size_t threads, xsmi_arena *arena)
{
    job->first = xsmi_arena_take(arena, n + 1, sizeof *job->first);
    job->label_scores = xsmi_arena_take(arena, labels, sizeof *job->label_scores);
    job->counts = xsmi_arena_take(arena, n, job->ranges * sizeof *job->counts);
    job->scratch = xsmi_arena_take(arena, threads, job->scratch_each);
}

/* Puts all scores in place of the coefficients, which are zeros. */
static xsm_status score_all(sift_job *job, xsm_error *err)
{
    xsm_gradient *g = job->g;
    job->cleaned = g->clean;
    g->clean = 0; /* until the scores are zeros again */
    const xsmi_score_range all = {job->batch, 0, job->model->classes, g->coefficients, (size_t)g->width};
    return xsmi_model_score_range(job->model, &all, g->context, &g->work.score_scratch, err);
}

/* Marks the coefficients as replaced by scores. */
static void replaced(sift_job *job)
{
    xsm_gradient *g = job->g;
    job->cleaned = XSMI_MAX(g->clean, job->batch->count);
    g->listed = g->clean = 0;
}

xsm_status xsmi_sift(const xsm_estimator *e, xsm_gradient *g, const xsm_batch *batch, bool scored, xsm_error *err)
{
    const xsm_model *m = e->model;
    const size_t n = (size_t)batch->count;
    XSMI_TRY(scored ? XSM_OK : clear_coefficients(g, n, m->context, err));
    sift_job job = {.model = m, .batch = batch, .g = g, .mu = e->ops.sift(e->state)};
    /* For sparse rows, the weights of all rows are copied together first. */
    job.scored = scored || !xsmi_tiles_packed(m, xsmi_batch_sparse(batch));
    if (scored) {
        replaced(&job);
    } else if (job.scored) {
        XSMI_TRY(score_all(&job, err));
    }
    /* What a correction or a hierarchy needs is computed for all classes at once. */
    job.range = (!xsmi_model_is_plain(m) && !job.scored) || m->classes < RANGE ? m->classes : RANGE;
    job.ranges = (m->classes + job.range - 1) / job.range;
    job.groups = (n + XSMI_TILE_ROWS - 1) / XSMI_TILE_ROWS;
    const size_t blocks = n < XSMI_TILE_ROWS ? (n + XSMI_LANES - 1) / XSMI_LANES : XSMI_TILE_BLOCKS;
    const size_t jobs = job.ranges * job.groups, threads = jobs > 1 ? xsmi_context_threads(m->context) : 1;
    xsmi_arena each = {NULL, 0}, needed = {NULL, 0};
    (void)divide_scratch(&job, blocks, &each);
    job.scratch_each = each.used;
    size_t labels = 0;
    for (size_t i = 0; i < n; i++) {
        labels += (size_t)g->example[i].label_count;
    }
    divide_memory(&job, n, labels, threads, &needed);
    if (needed.used == SIZE_MAX || !xsmi_reserve(g->context, &g->work.sieve, &g->work.sieve_bytes, needed.used, 1)) {
        return xsmi_fail_memory(err, needed.used, "what is kept of the scores");
    }
    xsmi_arena arena = {g->work.sieve, 0};
    divide_memory(&job, n, labels, threads, &arena);
    job.first[0] = 0;
    for (size_t i = 0; i < n; i++) {
        job.first[i + 1] = job.first[i] + g->example[i].label_count;
    }
    XSMI_TRY(xsmi_run(m->context, run_range, &job, jobs, err));
    for (size_t i = 0; i < n; i++) {
        XSMI_TRY(IS_POLL(i) ? xsmi_go_on(m->context, err) : XSM_OK);
        join_lists(&job, i);
        g->listed = i + 1;
    }
    if (job.scored) {
        g->clean = job.cleaned;
    }
    return XSM_OK;
}

void xsmi_sift_spread(xsm_gradient *g, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        uint32_t *classes = g->classes + i * g->width, kept = 0;
        float *listed = g->work.sifted + i * g->width, *all = g->coefficients + i * g->width;
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            uint32_t class = classes[j];
            float c = listed[j];
            classes[kept] = class;
            listed[kept] = c;
            if (c != 0) {
                all[class] = c;
                kept++;
            }
        }
        g->lengths[i] = kept;
    }
}
