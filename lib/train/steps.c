/*
 * Takes steps in blocks. The steps of a block share no class and no row. Therefore it can score all of them, then
 * compute all their coefficients in one call of the estimator, then change all their rows of weights. The cost of a
 * call is shared, and estimators can work on several steps at once. Meanwhile the memory for later steps is prefetched.
 */
#include "train/steps.h"

#include "base/order.h"

#include <string.h>

enum {
    BLOCK = XSMI_SOLVE_LANES, /* the most steps of a block; some estimators solve an equation for each */
    COMING = 2 * BLOCK,       /* steps of a block, and those ahead of them */
    /* Bytes of the dense steps ahead that are prefetched: they should stay in the L1 cache. */
    AHEAD_BYTES = 12 << 10,
    AHEAD_LEAST = 2,   /* steps */
    SOLVED_LEAST = 4,  /* AHEAD_LEAST with a solver */
    CLASSES_MOST = 32, /* of a block, unless one step has more: comparing them costs the square of their number */
    /* The most rows that are prefetched while a solver computes coefficients: the rests of features, then the first
     * numbers of features and of weights. */
    QUEUED_MOST = 2 * BLOCK + CLASSES_MOST,
    /* Bytes that stay in a cache without prefetches: prefetching the lines of a sparse step costs a fifth of it on
     * Bibtex. */
    NEAR_BYTES = 4 << 20
};

struct xsmi_stepper {
    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient **blocks; /* [threads] the current block of each thread */
    uint32_t threads;
    uint32_t most;    /* steps of a block */
    uint32_t ahead;   /* at least `most`: steps whose memory is prefetched while earlier ones are taken */
    bool far_rows;    /* sparse rows do not stay in a cache */
    bool far_weights; /* the weights for sparse rows do not stay in a cache */
};

/* Chooses the size of blocks. A solver needs several steps at once. Other steps with dense rows are best taken one by
 * one: a row of weights then stays in the L1 cache from its score to its change, and memory is busy evenly. But
 * steps that take little memory are taken together, to share the cost of a call. */
static void choose_blocks(xsmi_stepper *t)
{
    const xsm_estimator *e = t->estimator;
    const uint64_t most = CLASSES_MOST / e->width;
    /* Counts the bias, too: a model may have nothing else. */
    const uint64_t bytes = (e->width + 1) * ((uint64_t)e->train->features + 1) * sizeof(float);
    t->most = (uint32_t)XSMI_CLAMP(most, 1, BLOCK);
    t->ahead = t->most;
    if (!e->train->sparse) {
        const uint64_t ahead = AHEAD_BYTES / bytes;
        t->ahead = (uint32_t)XSMI_CLAMP(ahead, AHEAD_LEAST, BLOCK);
        if (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) {
            t->ahead = XSMI_MAX(t->ahead, SOLVED_LEAST);
            t->most = XSMI_MIN(t->most, t->ahead);
        } else {
            t->most = XSMI_MIN(t->most, t->ahead / 2);
        }
    }
}

xsm_status xsmi_stepper_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_stepper **out, xsm_error *err)
{
    xsmi_stepper *t;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &t, xsmi_stepper, "taking steps", err));
    t->estimator = e;
    t->optimizer = o;
    t->threads = xsmi_context_threads(ctx);
    choose_blocks(t);
    t->far_rows =
        e->train->sparse && e->train->offsets[e->train->rows] > NEAR_BYTES / (sizeof(float) + sizeof(uint32_t));
    t->far_weights = o->model->w.weight_count > NEAR_BYTES / sizeof(float);
    t->blocks = xsmi_allocate_zero(ctx, t->threads, sizeof(xsm_gradient *));
    xsm_status status = t->blocks ? XSM_OK : xsmi_fail_memory(err, t->threads * sizeof(xsm_gradient *), "taking steps");
    for (uint32_t i = 0; status == XSM_OK && i < t->threads; i++) {
        status = xsm_gradient_new(ctx, &t->blocks[i], err);
        if (status == XSM_OK) {
            status = xsmi_estimator_reserve(e, t->blocks[i], t->most, 1, false, err);
        }
    }
    if (status != XSM_OK) {
        xsmi_stepper_free(t);
        return status;
    }
    *out = t;
    return XSM_OK;
}

void xsmi_stepper_free(xsmi_stepper *t)
{
    if (t) {
        xsm_context *ctx = t->context;
        for (uint32_t i = 0; t->blocks && i < t->threads; i++) {
            xsm_gradient_free(t->blocks[i]);
        }
        xsmi_release(ctx, t->blocks, t->threads, sizeof(xsm_gradient *));
        XSMI_OBJECT_FREE(t, xsmi_stepper);
    }
}

/* -- a run of steps, and upcoming steps --------------------------------------------------------------------------- */

typedef struct run {
    const xsmi_stepper *stepper;
    const xsmi_step_list *list;
    const xsm_gradient *drawn; /* the list's */
    const uint32_t *order;
    double *losses; /* of all steps */
    uint64_t count;
    xsm_gradient *block;
    xsmi_upcoming coming[COMING]; /* of dense steps: the memory of step i, at i % COMING */
    uint64_t known;               /* the steps before this one were looked up there */
} run;

static uint64_t step_at(const run *r, uint64_t i)
{
    return r->order ? r->order[i] : i;
}

static xsmi_features features_at(const run *r, uint64_t i)
{
    return xsmi_dataset_features(r->stepper->estimator->train, r->drawn->example[step_at(r, i)].row);
}

/* Returns the memory that step i of the run will read; nothing after the last step. */
static xsmi_upcoming upcoming_at(const run *r, uint64_t i)
{
    xsmi_upcoming upcoming = {NULL, 0, NULL, SIZE_MAX};
    if (i < r->count) {
        uint64_t s = step_at(r, i);
        const xsmi_entries list = xsmi_gradient_list(r->drawn, s);
        upcoming.rows = list.classes;
        upcoming.count = (size_t)list.count;
        upcoming.x = features_at(r, i).values;
    }
    return upcoming;
}

/* Returns the memory of a dense step that was looked up, and that is less than COMING steps before the last such
 * step. */
static const xsmi_upcoming *coming_at(const run *r, uint64_t i)
{
    return &r->coming[i % COMING];
}

/* Looks up the memory of all dense steps before `end`, each once. Steps after the last of the run have none. */
static void look_up(run *r, uint64_t end, size_t most)
{
    for (; r->known < end; r->known++) {
        r->coming[r->known % COMING] = upcoming_at(r, r->known);
        r->coming[r->known % COMING].most = most;
    }
}

/* Prefetches the list entries of step i, which another thread may have written. */
XSMI_PREFETCHER void fetch_entry(const run *r, uint64_t i)
{
    if (i < r->count) {
        xsmi_gradient_fetch(r->drawn, step_at(r, i));
    }
}

/* Prefetches the estimator's state for the row of step i. */
static void fetch_state(const run *r, uint64_t i)
{
    const xsm_estimator *e = r->stepper->estimator;
    if (i < r->count && e->ops.prefetch) {
        e->ops.prefetch(e->state, &r->drawn->example[step_at(r, i)]);
    }
}

/* Returns how many numbers of each row of a dense step are prefetched while an earlier step is scored. The rests of the
 * rows follow while rows change; the rests of the features while a solver, if there is one, computes coefficients. The
 * memory should be busy all the time, but a processor drops prefetches that come faster than memory serves them. */
static size_t scoring_share(const run *r)
{
    return r->stepper->optimizer->model->features / 2 / XSMI_PARTIALS * XSMI_PARTIALS;
}

/* Prefetches the numbers from..to of several rows in turn: row after row they would arrive at half the rate. */
XSMI_PREFETCHER void fetch_in_turn(const size_t rows, const float *const *row, size_t from, size_t to)
{
    enum { LINES = 8 * XSMI_LINE };
    size_t l = from;
    for (; l + LINES <= to; l += LINES) {
        for (size_t i = 0; i < LINES; i += XSMI_LINE) {
            for (size_t j = 0; j < rows; j++) {
                xsmi_prefetch_soon(row[j] + l + i);
            }
        }
    }
    for (; l < to; l += XSMI_LINE) {
        for (size_t j = 0; j < rows; j++) {
            xsmi_prefetch_soon(row[j] + l);
        }
    }
}

/* Prefetches the numbers from..to of a dense step's weights, and of its features if `x` is not NULL, three rows in
 * turn: with more rows, some prefetches would be dropped. */
XSMI_PREFETCHER void fetch_numbers(const xsm_model *m, const xsmi_upcoming *upcoming, const float *x, size_t from,
                                   size_t to)
{
    enum { TOGETHER = 3 };
    const float *row[TOGETHER];
    size_t rows = 0;
    if (x) {
        row[rows++] = x;
    }
    for (size_t j = 0; j < upcoming->count; j++) {
        row[rows++] = m->w.weight + (size_t)upcoming->rows[j] * m->w.stride;
        if (rows == TOGETHER) {
            fetch_in_turn(TOGETHER, row, from, to);
            rows = 0;
        }
    }
    if (rows == 2) {
        fetch_in_turn(2, row, from, to);
    } else if (rows == 1) {
        fetch_in_turn(1, row, from, to);
    }
}

XSMI_PREFETCHER void fetch_scales(const xsm_model *m, const xsmi_upcoming *upcoming)
{
    const double *row_scale = xsmi_weights_scales(&m->w);
    if (!row_scale && !m->row_length && !m->w.bias) {
        return;
    }
    for (size_t j = 0; j < upcoming->count; j++) {
        if (row_scale) {
            __builtin_prefetch(row_scale + upcoming->rows[j], 0, 3); /* mostly only read */
        }
        if (m->row_length) {
            __builtin_prefetch(m->row_length + upcoming->rows[j], 1, 3);
        }
        if (m->w.bias) {
            __builtin_prefetch(m->w.bias + upcoming->rows[j], 1, 3);
        }
    }
}

/* Prefetches the optimizer's state besides the weights for step i. */
static void fetch_optimizer(const run *r, uint64_t i)
{
    const xsm_optimizer *o = r->stepper->optimizer;
    if (i < r->count && o->ops.accumulators > 0) {
        xsmi_features x = features_at(r, i);
        xsmi_upcoming upcoming = upcoming_at(r, i);
        xsmi_optimizer_fetch(o, &x, (uint32_t)upcoming.count, upcoming.rows);
    }
}

/* Prefetches all numbers of a dense step at once. */
XSMI_PREFETCHER void fetch_dense(const xsm_model *m, const xsmi_upcoming *upcoming)
{
    fetch_numbers(m, upcoming, upcoming->x, 0, m->features);
}

/* Prefetches the rests of a dense step's rows; those of its features, too, if `features`. */
XSMI_PREFETCHER void fetch_rests(const xsm_model *m, const xsmi_upcoming *upcoming, bool features)
{
    fetch_numbers(m, upcoming, features ? upcoming->x : NULL, upcoming->most, m->features);
}

/* Prefetches the features of a sparse step. */
XSMI_PREFETCHER void fetch_features(const run *r, uint64_t i)
{
    if (r->stepper->far_rows && i < r->count) {
        xsmi_features x = features_at(r, i);
        xsmi_prefetch_row(x.values, x.count);
        xsmi_prefetch_row((const float *)(const void *)x.index, x.count);
    }
}

/* Prefetches the weights of a sparse step, whose features were prefetched before. */
XSMI_PREFETCHER void fetch_sparse(const run *r, uint64_t i)
{
    if (r->stepper->far_weights && i < r->count) {
        const xsm_model *m = r->stepper->optimizer->model;
        xsmi_features x = features_at(r, i);
        xsmi_upcoming upcoming = upcoming_at(r, i);
        for (size_t j = 0; j < upcoming.count; j++) {
            const float *row = m->w.weight + (size_t)upcoming.rows[j] * m->w.stride;
            for (size_t l = 0; l < x.count; l++) {
                __builtin_prefetch(row + x.index[l], 1, 3);
            }
        }
        fetch_scales(m, &upcoming);
    }
}

/* -- a block ------------------------------------------------------------------------------------------------------ */

static bool shares(const uint32_t *classes, size_t count, uint32_t class)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found |= classes[i] == class;
    }
    return found;
}

/* Copies the next steps, from i on, into the block while they share no class. Returns their number. */
static uint64_t fill(const run *r, uint64_t i)
{
    const uint64_t most = r->stepper->most, ahead = r->stepper->ahead;
    xsm_gradient *g = r->block;
    uint32_t seen[CLASSES_MOST];
    size_t classes = 0;
    uint64_t n = 0;
    for (; n < most && i + n < r->count; n++) {
        fetch_entry(r, i + n + 4 * ahead);
        fetch_state(r, i + n + 2 * ahead);
        uint64_t s = step_at(r, i + n);
        const xsmi_entries own = xsmi_gradient_list(r->drawn, s);
        if (most > 1) {
            bool found = false;
            for (uint32_t j = 0; j < own.count; j++) {
                found |= shares(seen, classes, own.classes[j]);
                seen[classes + j] = own.classes[j];
            }
            if (found) {
                break;
            }
            classes += own.count;
        }
        xsmi_gradient_copy_example(g, n, r->drawn, s);
    }
    return n;
}

/* Puts the rows of the dense steps that follow the block of n steps from step i on into a solver's queue: the rests of
 * the features, then, if `again`, the first numbers of all rows once more, because some of their prefetches were
 * dropped. */
static void queue_rows(const run *r, uint64_t i, uint64_t n, bool again, const float **rows, xsmi_prefetch_queue *queue)
{
    const xsm_model *m = r->stepper->optimizer->model;
    const uint64_t first = i + r->stepper->ahead, left = first < r->count ? r->count - first : 0;
    const uint64_t steps = XSMI_MIN(n, left);
    const size_t share = scoring_share(r);
    queue->rows = rows;
    queue->lines = (m->features - share + XSMI_LINE - 1) / XSMI_LINE;
    for (uint64_t k = 0; k < steps; k++) {
        rows[queue->count++] = coming_at(r, first + k)->x + share;
    }
    for (uint64_t k = 0; again && share > 0 && k < steps; k++) {
        const xsmi_upcoming *upcoming = coming_at(r, first + k);
        rows[queue->count++] = upcoming->x;
        for (size_t j = 0; j < upcoming->count; j++) {
            rows[queue->count++] = m->w.weight + (size_t)upcoming->rows[j] * m->w.stride;
        }
    }
}

/* Takes a block of n steps, which begins with the run's step i. Returns the number of steps before the first that was
 * not finite. */
static uint64_t run_block(run *r, uint64_t i, uint64_t n)
{
    xsm_estimator *e = r->stepper->estimator;
    xsm_optimizer *o = r->stepper->optimizer;
    const xsmi_step_list *list = r->list;
    xsm_gradient *g = r->block;
    const xsm_model *m = o->model;
    const uint64_t ahead = r->stepper->ahead;
    const bool sparse = e->train->sparse, queues = !sparse && g->proximal;
    /* Lines are prefetched a second time, because some prefetches are dropped: the first numbers of rows while a solver
     * computes coefficients, the rests half of `ahead` before the step is scored. */
    const bool again = queues && e->width <= CLASSES_MOST;
    if (!sparse) {
        look_up(r, i + n + ahead, scoring_share(r));
    }
    for (uint64_t k = 0; k < n; k++) {
        const xsmi_upcoming *upcoming = NULL;
        if (sparse) {
            fetch_features(r, i + k + 2 * ahead);
            fetch_sparse(r, i + k + ahead);
        } else {
            upcoming = coming_at(r, i + k + ahead);
            fetch_scales(m, upcoming);
            if (!again) {
                fetch_dense(m, coming_at(r, i + k + ahead / 2));
            } else if (k + ahead / 2 < n) {
                fetch_rests(m, coming_at(r, i + k + ahead / 2), true);
            }
        }
        fetch_optimizer(r, i + k + ahead);
        if (!xsmi_estimator_scores(e, g, k, 1, list->alphas[step_at(r, i + k)], upcoming)) {
            n = k;
        }
    }
    const float *rows[QUEUED_MOST];
    xsmi_prefetch_queue queue = {.count = 0};
    if (queues) {
        queue_rows(r, i, n, again, rows, &queue);
    }
    g->work.upcoming = queues ? &queue : NULL;
    /* Makes one call for all steps with the same rate. */
    for (uint64_t k = 0, end; k < n; k = end) {
        const double eta = list->etas[step_at(r, i + k)];
        for (end = k + 1; end < n && list->etas[step_at(r, i + end)] == eta; end++) {
        }
        const xsmi_piece piece = {k, end - k, 1, eta, 0};
        xsmi_outcome outcome = {.finite = true};
        uint64_t good = xsmi_estimator_coefficients(e, g, &piece, &outcome);
        if (good < end - k) {
            n = k + good;
        }
    }
    g->work.upcoming = NULL;
    xsmi_prefetch_queued(&queue, SIZE_MAX);
    /* Goes in reverse order: the last step's rows are still in the L1 cache, which is too small for the whole
     * block. */
    for (uint64_t k = n; k-- > 0;) {
        const uint64_t s = step_at(r, i + k);
        if (!sparse) {
            fetch_rests(m, coming_at(r, i + (n - 1 - k) + ahead), !g->proximal);
        }
        const xsmi_features x = xsmi_dataset_features(e->train, g->example[k].row);
        const xsmi_example_step step = {
            .x = &x,
            .entries = xsmi_gradient_list(g, k),
            .alpha = list->alphas[s],
            .next_alpha = list->alphas[s + 1],
            .bound = g->row_bound,
            .step = {sizeof step.step, list->etas[s], list->taken + s + 1, 1},
        };
        xsmi_optimizer_step(o, &step);
        r->losses[s] = g->losses[k];
    }
    for (uint64_t k = 0; again && k < ahead / 2; k++) {
        fetch_rests(m, coming_at(r, i + n + k), true);
    }
    return n;
}

uint64_t xsmi_stepper_run(xsmi_stepper *t, const xsmi_step_list *list, const uint32_t *order, double *losses,
                          uint64_t count, uint32_t thread)
{
    run r;
    r.stepper = t;
    r.list = list;
    r.drawn = list->drawn;
    r.order = order;
    r.losses = losses;
    r.count = count;
    r.block = t->blocks[thread];
    r.known = 0; /* no entry of `coming` is set */
    const bool sparse = t->estimator->train->sparse;
    if (!sparse) {
        look_up(&r, t->ahead, scoring_share(&r));
    }
    for (uint64_t i = 0; i < t->ahead; i++) {
        if (sparse) {
            fetch_features(&r, i);
        } else {
            fetch_dense(t->optimizer->model, coming_at(&r, i));
            fetch_scales(t->optimizer->model, coming_at(&r, i));
        }
    }
    for (uint64_t i = 0; sparse && i < t->ahead; i++) {
        fetch_features(&r, t->ahead + i);
        fetch_sparse(&r, i);
    }
    for (uint64_t i = 0, n; i < count; i += n) {
        n = fill(&r, i);
        uint64_t done = run_block(&r, i, n);
        if (done < n) {
            return step_at(&r, i + done);
        }
    }
    return UINT64_MAX;
}
