/*
 * Windows of single-example steps.
 *
 * A step reads and writes the rows of its few classes and what the estimator keeps for its example. Two steps of a
 * window that share no class, not even through others, can run at once; those that do must keep their order. So the
 * steps are cut into connected components (union-find over the classes they touch), each component runs on one thread
 * in order, and the result is that of running all in order, bit for bit, whatever the number of threads. With many
 * classes the components are small; when one holds most steps, the window runs on the caller's thread.
 */
#include "train/window.h"

#include <string.h>

enum {
    STEPS_MOST = 4096,  /* long enough that starting the threads does not matter */
    STEPS_LEAST = 64,   /* shorter ones are not worth starting threads for */
    SELECT_PIECE = 512, /* steps whose classes one job draws */
    LANES_A_THREAD = 4, /* so that a thread which the system stops for a while does not hold up the others for long */
    TRY_EVERY = 32,     /* windows until the slower way is tried again, ... */
    TRY_SELDOM = 4096,  /* and after it was slower each time */
    /* Steps ahead that are asked for: all that a dense one needs; a sparse one's features, then its weights. */
    AHEAD_DENSE = 3,
    FAR_SPARSE = 6,
    NEAR_SPARSE = 3,
    LINE = XSMI_ALIGNMENT / sizeof(float), /* floats in a cache line */
    /* A dense step asks for its lines in three parts: before scoring, before and after the estimator computes. */
    PARTS = 32,
    PART1 = 8,
    PART2 = 24
};

#define NONE UINT32_MAX
#define NOTHING UINT64_MAX

typedef struct lane {
    uint32_t first, count; /* its steps in w->order */
    uint64_t failed;       /* first step that was not finite, or UINT64_MAX */
} lane;

struct xsmi_window {
    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient; /* lists and results of all steps of a window */
    uint64_t steps;         /* most in a window */
    double *alphas;         /* [steps+1] the model's alpha before each step and after the last */
    uint32_t *last;         /* [classes] last step that touched a class, NONE between windows */
    uint32_t *parent;       /* [steps] union-find */
    uint32_t *size;         /* [steps] steps of a component, at its root */
    uint32_t *order;        /* [steps] steps by lane, rising in each */
    uint32_t *lane_of;      /* [steps] of a component, at its root */
    lane *lanes;            /* [lane_count] */
    uint32_t threads, lane_count;
    uint32_t classes;   /* K, kept for the release of `last` */
    double pace[2];     /* seconds a step lately, in order and on the threads; 0 = not known */
    uint32_t windows;   /* run so far */
    uint32_t next_try;  /* of them, when the slower way is tried again */
    uint32_t patience;  /* how many there were in between, the last time */
    uint64_t threaded;  /* those that ran on the threads */
    int32_t way;        /* XSMI_WINDOW_* */
    const double *etas; /* [count] of the window being run */
};

bool xsmi_window_fits(const xsm_estimator *e, const xsm_model *m)
{
    return !e->exact && m->layout == XSM_LAYOUT_CLASS_MAJOR;
}

xsm_status xsmi_window_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_window **out, xsm_error *err)
{
    xsmi_window *w = xsmi_allocate(ctx, 1, sizeof *w);
    if (!w) {
        return xsmi_fail_memory(err, sizeof *w, "a window of steps");
    }
    memset(w, 0, sizeof *w);
    w->context = xsmi_context_retain(ctx);
    w->estimator = e;
    w->optimizer = o;
    w->threads = xsm_context_threads(ctx);
    w->lane_count = w->threads * LANES_A_THREAD;
    w->next_try = w->patience = TRY_EVERY;
    w->classes = o->model->classes;
    /* Components stay small while a window touches few of the classes. */
    uint64_t steps = o->model->classes / (8 * e->width);
    w->steps = steps > STEPS_MOST ? STEPS_MOST : steps < STEPS_LEAST ? STEPS_LEAST : steps;
    size_t n = (size_t)w->steps;
    w->alphas = xsmi_allocate(ctx, n + 1, sizeof *w->alphas);
    w->lanes = xsmi_allocate(ctx, w->lane_count, sizeof *w->lanes);
    bool whole = w->alphas && w->lanes;
    if (w->threads > 1) {
        w->last = xsmi_allocate(ctx, o->model->classes, sizeof *w->last);
        w->parent = xsmi_allocate(ctx, n, sizeof *w->parent);
        w->size = xsmi_allocate(ctx, n, sizeof *w->size);
        w->order = xsmi_allocate(ctx, n, sizeof *w->order);
        w->lane_of = xsmi_allocate(ctx, n, sizeof *w->lane_of);
        whole = whole && w->last && w->parent && w->size && w->order && w->lane_of;
    }
    xsm_status status = XSM_OK;
    if (!whole) {
        status = xsmi_fail_memory(err, o->model->classes * sizeof *w->last, "a window of steps");
    }
    if (status == XSM_OK) {
        status = xsm_gradient_new(ctx, &w->gradient, err);
    }
    if (status == XSM_OK) {
        status = xsmi_gradient_reserve(w->gradient, e, w->steps, w->threads, false, err);
    }
    if (status == XSM_OK) {
        status = xsmi_optimizer_prepare(o->model, w->gradient->proximal, w->gradient->row_bound, err);
    }
    if (status != XSM_OK) {
        xsmi_window_free(w);
        return status;
    }
    for (uint32_t k = 0; w->last && k < o->model->classes; k++) {
        w->last[k] = NONE;
    }
    *out = w;
    return XSM_OK;
}

void xsmi_window_free(xsmi_window *w)
{
    if (w) {
        xsm_context *ctx = w->context;
        size_t n = (size_t)w->steps;
        xsm_gradient_free(w->gradient);
        xsmi_release(ctx, w->alphas, n + 1, sizeof *w->alphas);
        xsmi_release(ctx, w->lanes, w->lane_count, sizeof *w->lanes);
        xsmi_release(ctx, w->last, w->classes, sizeof *w->last);
        xsmi_release(ctx, w->parent, n, sizeof *w->parent);
        xsmi_release(ctx, w->size, n, sizeof *w->size);
        xsmi_release(ctx, w->order, n, sizeof *w->order);
        xsmi_release(ctx, w->lane_of, n, sizeof *w->lane_of);
        xsmi_release(ctx, w, 1, sizeof *w);
        xsm_context_free(ctx);
    }
}

uint64_t xsmi_window_steps(const xsmi_window *w)
{
    return w->steps;
}

void xsmi_window_go(xsmi_window *w, int32_t way)
{
    w->way = way;
}

uint64_t xsmi_window_threaded(const xsmi_window *w)
{
    return w->threaded;
}

/* -- drawing
 * --------------------------------------------------------------------------------------------------------------- */

typedef struct select_job {
    xsmi_window *window;
    const uint64_t *rows;
    uint64_t count;
} select_job;

static void run_select(void *state, size_t index, uint32_t thread)
{
    select_job *job = state;
    xsm_estimator *e = job->window->estimator;
    xsm_gradient *g = job->window->gradient;
    (void)thread;
    uint64_t first = index * SELECT_PIECE;
    uint64_t count = job->count - first < SELECT_PIECE ? job->count - first : SELECT_PIECE;
    for (uint64_t i = first; i < first + count; i++) {
        g->example[i] = xsmi_example_at(e, job->rows[i], e->position + i);
    }
    xsmi_estimator_select(e, g, first, count);
}

/* -- cutting
 * --------------------------------------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parent, uint32_t s)
{
    while (parent[s] != s) {
        parent[s] = parent[parent[s]];
        s = parent[s];
    }
    return s;
}

/* Cuts the window's steps into lanes; false when one thread would do nearly all of the work. */
static bool cut(xsmi_window *w, uint32_t count)
{
    const xsm_gradient *g = w->gradient;
    for (uint32_t s = 0; s < count; s++) {
        w->parent[s] = s;
        w->size[s] = 1;
        const uint32_t *classes = g->classes + s * g->width;
        for (uint32_t j = 0; j < g->lengths[s]; j++) {
            uint32_t before = w->last[classes[j]];
            if (before != NONE) {
                uint32_t a = root_of(w->parent, before), b = root_of(w->parent, s);
                if (a != b) {
                    /* The earlier step becomes the root, so that roots come up first below. */
                    uint32_t early = a < b ? a : b, late = a < b ? b : a;
                    w->parent[late] = early;
                    w->size[early] += w->size[late];
                }
            }
            w->last[classes[j]] = s;
        }
    }
    uint32_t largest = 0;
    for (uint32_t s = 0; s < count; s++) {
        const uint32_t *classes = g->classes + s * g->width;
        for (uint32_t j = 0; j < g->lengths[s]; j++) {
            w->last[classes[j]] = NONE;
        }
        largest = w->parent[s] == s && w->size[s] > largest ? w->size[s] : largest;
    }
    if (largest > count - count / 8) {
        return false;
    }
    for (uint32_t t = 0; t < w->lane_count; t++) {
        w->lanes[t].first = w->lanes[t].count = 0;
    }
    /* A component goes where its first step does: to the first lane that is not full. */
    uint32_t full = (count + w->lane_count - 1) / w->lane_count, open = 0;
    for (uint32_t s = 0; s < count; s++) {
        if (w->parent[s] == s) {
            open += open + 1 < w->lane_count && w->lanes[open].count >= full;
            w->lane_of[s] = open;
            w->lanes[open].count += w->size[s];
        }
    }
    uint32_t start = 0;
    for (uint32_t t = 0; t < w->lane_count; t++) {
        w->lanes[t].first = start;
        start += w->lanes[t].count;
        w->lanes[t].count = 0;
    }
    for (uint32_t s = 0; s < count; s++) {
        lane *l = &w->lanes[w->lane_of[root_of(w->parent, s)]];
        w->order[l->first + l->count++] = s;
    }
    return true;
}

/* -- stepping
 * -------------------------------------------------------------------------------------------------------------- */

/* Asks for the lines from..to of a row. Lines that are asked for faster than they arrive are not fetched at all by some
 * processors: a read-modify-write that waits for the last one keeps the pace. Measured with 2 KB rows: a step takes
 * 0.7 of the time that it takes with the same lines asked for in one burst, or with none asked for. */
static void fetch_lines(const float *row, size_t from, size_t to)
{
    volatile uint32_t pace = 0;
    for (size_t l = from; l < to; l++) {
        pace = pace + 1;
        __builtin_prefetch(row + l * LINE, 1, 3);
    }
}

/* Asks for a part, from/PARTS to to/PARTS, of what a dense step will read and write. */
static void fetch_dense(const xsmi_window *w, uint64_t s, size_t from, size_t to)
{
    if (s == NOTHING) {
        return;
    }
    const xsm_model *m = w->optimizer->model;
    const xsm_gradient *g = w->gradient;
    const uint32_t *classes = g->classes + s * g->width;
    size_t lines = (m->features + LINE - 1) / LINE;
    size_t first = from * lines / PARTS, last = to * lines / PARTS;
    fetch_lines(xsmi_dataset_features(w->estimator->train, g->example[s].row).values, first, last);
    for (uint32_t j = 0; j < g->lengths[s]; j++) {
        fetch_lines(m->weight + (size_t)classes[j] * m->stride, first, last);
        if (m->row_scale && from == 0) {
            __builtin_prefetch(m->row_scale + classes[j], 1, 3);
        }
    }
}

/* Asks for the weights of a sparse step, whose features are there already. */
static void fetch_sparse(const xsmi_window *w, uint64_t s)
{
    if (s == NOTHING) {
        return;
    }
    const xsm_model *m = w->optimizer->model;
    const xsm_gradient *g = w->gradient;
    const uint32_t *classes = g->classes + s * g->width;
    xsmi_features x = xsmi_dataset_features(w->estimator->train, g->example[s].row);
    for (uint32_t j = 0; j < g->lengths[s]; j++) {
        const float *row = m->weight + (size_t)classes[j] * m->stride;
        for (size_t i = 0; i < x.count; i++) {
            __builtin_prefetch(row + x.index[i], 1, 3);
        }
        if (m->row_scale) {
            __builtin_prefetch(m->row_scale + classes[j], 1, 3);
        }
    }
}

/* Asks for the features of a sparse step. */
static void fetch_features(const xsmi_window *w, uint64_t s)
{
    if (s == NOTHING) {
        return;
    }
    xsmi_features x = xsmi_dataset_features(w->estimator->train, w->gradient->example[s].row);
    xsmi_prefetch_row(x.values, x.count);
    xsmi_prefetch_row((const float *)(const void *)x.index, x.count);
}

/* Takes step s, asking meanwhile for what steps ahead need. False when it is not finite. */
static bool take(xsmi_window *w, uint64_t s, uint64_t near, uint64_t far, uint32_t thread)
{
    xsm_estimator *e = w->estimator;
    xsm_gradient *g = w->gradient;
    xsm_model *m = w->optimizer->model;
    xsmi_features x = xsmi_dataset_features(e->train, g->example[s].row);
    const bool sparse = x.index != NULL;
    double largest = 0;
    if (!sparse) {
        fetch_dense(w, far, 0, PART1);
    }
    if (!xsmi_estimator_scores(e, g, s, 1, w->alphas[s])) {
        return false;
    }
    if (sparse) {
        fetch_sparse(w, near);
    } else {
        fetch_dense(w, far, PART1, PART2);
    }
    if (!xsmi_estimator_coefficients(e, g, s, 1, 1, w->etas[s], thread, &largest)) {
        return false;
    }
    if (sparse) {
        fetch_features(w, far);
    } else {
        fetch_dense(w, far, PART2, PARTS);
    }
    w->optimizer->ops->step(m, &x, g->lengths[s], g->classes + s * g->width, g->coefficients + s * g->width,
                            g->proximal ? g->shrinks + s * g->width : NULL, w->etas[s], w->alphas[s + 1], g->row_bound);
    return true;
}

/* Step number i of a list of count, or of all of them in order where there is no list. */
static uint64_t step_at(const uint32_t *list, uint64_t count, uint64_t i)
{
    return i >= count ? NOTHING : list ? list[i] : i;
}

/* Takes the steps of a list; returns the first that was not finite, or UINT64_MAX. */
static uint64_t run_steps(xsmi_window *w, const uint32_t *list, uint64_t count, uint32_t thread)
{
    const bool sparse = w->estimator->train->sparse;
    const uint64_t near = NEAR_SPARSE, far = sparse ? FAR_SPARSE : AHEAD_DENSE;
    for (uint64_t i = 0; i < far; i++) {
        if (sparse) {
            fetch_features(w, step_at(list, count, i));
        } else {
            fetch_dense(w, step_at(list, count, i), 0, PARTS);
        }
    }
    for (uint64_t i = 0; sparse && i < near; i++) {
        fetch_sparse(w, step_at(list, count, i));
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t s = step_at(list, count, i);
        if (!take(w, s, step_at(list, count, i + near), step_at(list, count, i + far), thread)) {
            return s;
        }
    }
    return UINT64_MAX;
}

static void run_lane(void *state, size_t index, uint32_t thread)
{
    xsmi_window *w = state;
    lane *l = &w->lanes[index];
    l->failed = run_steps(w, w->order + l->first, l->count, thread);
}

/* Which way to run a window. Both give the same bits, so it is only a matter of time: whichever was faster lately, the
 * other being tried again now and then. */
static bool prefers_threads(const xsmi_window *w, uint64_t count)
{
    if (w->threads == 1 || count < STEPS_LEAST) {
        return false;
    }
    if (w->way != XSMI_WINDOW_FASTER) {
        return w->way == XSMI_WINDOW_THREADS;
    }
    bool faster = w->pace[1] < w->pace[0]; /* 0, not known, wins */
    return w->windows >= w->next_try ? !faster : faster;
}

static void learn(xsmi_window *w, bool tried, double pace)
{
    double *known = &w->pace[tried];
    *known = *known > 0 ? 0.75 * *known + 0.25 * pace : pace;
    if (w->windows++ >= w->next_try) {
        bool slower = *known > w->pace[!tried];
        w->patience = !slower ? TRY_EVERY : w->patience < TRY_SELDOM ? 2 * w->patience : TRY_SELDOM;
        w->next_try = w->windows + w->patience;
    }
}

/* The scale of all weights before each step and after the last, if it starts at the model's. */
static void fill_alphas(xsmi_window *w, uint64_t count)
{
    w->alphas[0] = w->optimizer->model->alpha;
    for (uint64_t s = 0; s < count; s++) {
        w->alphas[s + 1] = w->alphas[s] * xsmi_estimator_decay(w->estimator, w->etas[s]);
    }
}

/* For a ridge so strong that one window takes the scale out of its range: step by step, multiplying out as needed. */
static xsm_status run_folding(xsmi_window *w, uint64_t count, uint64_t *failed, xsm_error *err)
{
    xsm_model *m = w->optimizer->model;
    for (uint64_t s = 0; s < count && *failed == UINT64_MAX; s++) {
        XSMI_TRY(xsmi_optimizer_decay(m, xsmi_estimator_decay(w->estimator, w->etas[s]), &w->alphas[s + 1], err));
        w->alphas[s] = m->alpha;
        if (take(w, s, NOTHING, NOTHING, 0)) {
            m->alpha = w->alphas[s + 1];
        } else {
            *failed = s;
        }
    }
    return XSM_OK;
}

xsm_status xsmi_window_run(xsmi_window *w, const uint64_t *rows, uint64_t count, const double *etas, double *loss,
                           uint64_t *failed, xsm_error *err)
{
    xsm_estimator *e = w->estimator;
    xsm_model *m = w->optimizer->model;
    select_job job = {w, rows, count};
    w->etas = etas;
    *failed = UINT64_MAX;
    /* Looking at the weights multiplies the scales out. */
    XSMI_TRY(xsmi_optimizer_prepare(m, w->gradient->proximal, w->gradient->row_bound, err));
    XSMI_TRY(xsmi_run(w->context, run_select, &job, (size_t)((count + SELECT_PIECE - 1) / SELECT_PIECE), err));
    fill_alphas(w, count);
    if (w->alphas[count] < XSMI_ALPHA_LEAST) {
        XSMI_TRY(xsmi_model_fold(m, err));
        fill_alphas(w, count);
    }
    if (w->alphas[count] < XSMI_ALPHA_LEAST) {
        XSMI_TRY(run_folding(w, count, failed, err));
    } else {
        double start = xsmi_seconds();
        bool tried = prefers_threads(w, count);
        if (tried && cut(w, (uint32_t)count)) {
            XSMI_TRY(xsmi_run(w->context, run_lane, w, w->lane_count, err));
            for (uint32_t t = 0; t < w->lane_count; t++) {
                *failed = w->lanes[t].failed < *failed ? w->lanes[t].failed : *failed;
            }
            m->alpha = w->alphas[count]; /* other threads may have gone on to the end */
            w->threaded++;
        } else {
            *failed = run_steps(w, NULL, count, 0);
            m->alpha = w->alphas[*failed < count ? *failed : count];
        }
        learn(w, tried, (xsmi_seconds() - start) / (double)count);
    }
    uint64_t taken = *failed < count ? *failed : count;
    for (uint64_t s = 0; s < taken; s++) {
        *loss += w->gradient->losses[s];
    }
    e->position += taken;
    return taken == count ? XSM_OK : XSM_ERROR_DIVERGED;
}
