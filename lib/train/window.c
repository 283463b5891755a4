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

#include "train/steps.h"

#include <string.h>

enum {
    STEPS_MOST = 8192,  /* long enough that starting the threads does not matter */
    STEPS_LEAST = 64,   /* shorter ones are not worth starting threads for */
    SELECT_PIECE = 512, /* steps whose classes one job draws */
    LANES_A_THREAD = 8, /* so that a thread which the system stops for a while does not hold up the others for long */
    CUT_AHEAD = 16,     /* steps whose classes are asked for ahead of looking them up */
    TRY_EVERY = 32,     /* windows until the slower way is tried again, ... */
    TRY_SELDOM = 4096   /* and after it was slower each time */
};

#define NONE UINT32_MAX

typedef struct lane {
    uint32_t first, count; /* its steps in w->order */
    uint64_t failed;       /* first step that was not finite, or UINT64_MAX */
} lane;

struct xsmi_window {
    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsmi_stepper *stepper;
    uint64_t steps;      /* most in a window */
    xsm_gradient *drawn; /* the lists of all steps of a window */
    xsmi_step_list list; /* of the window being run */
    double *losses;      /* [steps] in the order that they are run in */
    double *sorted;      /* [steps] losses, rising */
    uint32_t *last;      /* [classes] last step that touched a class, NONE between windows */
    uint32_t *parent;    /* [steps] union-find */
    uint32_t *size;      /* [steps] steps of a component, at its root */
    uint32_t *order;     /* [steps] steps by lane, rising in each */
    uint32_t *lane_of;   /* [steps] of a component, at its root */
    lane *lanes;         /* [lane_count] */
    uint32_t threads, lane_count;
    uint32_t classes;  /* K, kept for the release of `last` */
    double pace[2];    /* seconds a step lately, in order and on the threads; 0 = not known */
    uint32_t windows;  /* run so far */
    uint32_t next_try; /* of them, when the slower way is tried again */
    uint32_t patience; /* how many there were in between, the last time */
    uint64_t threaded; /* those that ran on the threads */
    int32_t way;       /* XSMI_WINDOW_* */
};

bool xsmi_window_fits(const xsm_estimator *e, const xsm_model *m)
{
    /* What is searched for a step depends on the steps before it. */
    return !e->exact && !e->searcher && !m->layer && m->layout == XSM_LAYOUT_CLASS_MAJOR;
}

static xsm_status prepare(xsmi_window *w, xsm_error *err)
{
    return xsmi_optimizer_prepare(w->optimizer, NULL, w->drawn, err);
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
    w->losses = xsmi_allocate(ctx, n, sizeof *w->losses);
    w->list.alphas = xsmi_allocate(ctx, n + 1, sizeof *w->list.alphas);
    w->lanes = xsmi_allocate(ctx, w->lane_count, sizeof *w->lanes);
    bool whole = w->losses && w->list.alphas && w->lanes;
    if (w->threads > 1) {
        w->last = xsmi_allocate(ctx, o->model->classes, sizeof *w->last);
        w->parent = xsmi_allocate(ctx, n, sizeof *w->parent);
        w->size = xsmi_allocate(ctx, n, sizeof *w->size);
        w->order = xsmi_allocate(ctx, n, sizeof *w->order);
        w->lane_of = xsmi_allocate(ctx, n, sizeof *w->lane_of);
        w->sorted = xsmi_allocate(ctx, n, sizeof *w->sorted);
        whole = whole && w->sorted && w->last && w->parent && w->size && w->order && w->lane_of;
    }
    xsm_status status = XSM_OK;
    if (!whole) {
        status = xsmi_fail_memory(err, o->model->classes * sizeof *w->last, "a window of steps");
    }
    if (status == XSM_OK) {
        status = xsm_gradient_new(ctx, &w->drawn, err);
    }
    if (status == XSM_OK) {
        w->list.drawn = w->drawn;
        status = xsmi_gradient_reserve(w->drawn, e, w->steps, 1, false, err);
    }
    if (status == XSM_OK) {
        status = xsmi_stepper_new(ctx, e, o, &w->stepper, err);
    }
    if (status == XSM_OK) {
        status = prepare(w, err);
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
        xsmi_stepper_free(w->stepper);
        xsm_gradient_free(w->drawn);
        xsmi_release(ctx, w->losses, n, sizeof *w->losses);
        xsmi_release(ctx, w->sorted, n, sizeof *w->sorted);
        xsmi_release(ctx, w->list.alphas, n + 1, sizeof *w->list.alphas);
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

/* -- drawing ------------------------------------------------------------------------------------------------------- */

typedef struct select_job {
    xsmi_window *window;
    const uint64_t *rows;
    uint64_t count;
} select_job;

static void run_select(void *state, size_t index, uint32_t thread)
{
    select_job *job = state;
    xsm_estimator *e = job->window->estimator;
    xsm_gradient *g = job->window->drawn;
    (void)thread;
    uint64_t first = index * SELECT_PIECE;
    uint64_t count = job->count - first < SELECT_PIECE ? job->count - first : SELECT_PIECE;
    for (uint64_t i = first; i < first + count; i++) {
        g->example[i] = xsmi_example_at(e, job->rows[i], e->position + i);
    }
    xsmi_estimator_select(e, g, first, count);
}

/* -- cutting ------------------------------------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parent, uint32_t s)
{
    while (parent[s] != s) {
        parent[s] = parent[parent[s]];
        s = parent[s];
    }
    return s;
}

/* Asks for what the cutting looks up for step s. */
XSMI_PREFETCHER void fetch_last(const xsmi_window *w, uint64_t s, uint64_t count)
{
    if (s < count) {
        const uint32_t *classes = w->drawn->classes + s * w->drawn->width;
        for (uint32_t j = 0; j < w->drawn->lengths[s]; j++) {
            __builtin_prefetch(w->last + classes[j], 1, 3);
        }
    }
}

/* Cuts the window's steps into lanes; false when one thread would do nearly all of the work. */
static bool cut(xsmi_window *w, uint32_t count)
{
    const xsm_gradient *list = w->drawn;
    for (uint32_t s = 0; s < count; s++) {
        fetch_last(w, s + CUT_AHEAD, count);
        w->parent[s] = s;
        w->size[s] = 1;
        const uint32_t *classes = list->classes + s * list->width;
        for (uint32_t j = 0; j < list->lengths[s]; j++) {
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
        fetch_last(w, s + CUT_AHEAD, count);
        const uint32_t *classes = list->classes + s * list->width;
        for (uint32_t j = 0; j < list->lengths[s]; j++) {
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

/* -- stepping ------------------------------------------------------------------------------------------------------ */

static void run_lane(void *state, size_t index, uint32_t thread)
{
    xsmi_window *w = state;
    lane *l = &w->lanes[index];
    l->failed = xsmi_stepper_run(w->stepper, &w->list, w->order + l->first, w->losses + l->first, l->count, thread);
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

/* The scale of all weights before each step and after the last, if it starts at the model's. Returns the last. */
static double fill_alphas(xsmi_window *w, uint64_t count)
{
    double *alphas = w->list.alphas;
    alphas[0] = w->optimizer->model->alpha;
    for (uint64_t s = 0; s < count; s++) {
        alphas[s + 1] = alphas[s] * xsmi_estimator_decay(w->estimator, w->list.etas[s]);
    }
    return alphas[count];
}

/* For a ridge so strong that one window takes the scale out of its range: step by step, multiplying out as needed. */
static xsm_status run_folding(xsmi_window *w, uint64_t count, uint64_t *failed, xsm_error *err)
{
    xsm_model *m = w->optimizer->model;
    for (uint32_t s = 0; s < count && *failed == UINT64_MAX; s++) {
        double decay = xsmi_estimator_decay(w->estimator, w->list.etas[s]);
        XSMI_TRY(xsmi_optimizer_decay(m, decay, &w->list.alphas[s + 1], err));
        w->list.alphas[s] = m->alpha;
        *failed = xsmi_stepper_run(w->stepper, &w->list, &s, w->losses + s, 1, 0);
        m->alpha = w->list.alphas[*failed == UINT64_MAX ? s + 1 : s];
    }
    return XSM_OK;
}

xsm_status xsmi_window_run(xsmi_window *w, const uint64_t *rows, uint64_t count, const double *etas, double *loss,
                           uint64_t *failed, xsm_error *err)
{
    xsm_estimator *e = w->estimator;
    xsm_model *m = w->optimizer->model;
    select_job job = {w, rows, count};
    const double *losses = w->losses;
    w->list.etas = etas;
    *failed = UINT64_MAX;
    /* Looking at the weights multiplies the scales out. */
    XSMI_TRY(prepare(w, err));
    XSMI_TRY(xsmi_run(w->context, run_select, &job, (size_t)((count + SELECT_PIECE - 1) / SELECT_PIECE), err));
    double least = fill_alphas(w, count);
    if (least < XSMI_ALPHA_LEAST) {
        XSMI_TRY(xsmi_model_fold(m, err));
        least = fill_alphas(w, count);
    }
    if (least < XSMI_ALPHA_LEAST) {
        XSMI_TRY(run_folding(w, count, failed, err));
    } else {
        double start = xsmi_seconds();
        bool tried = prefers_threads(w, count);
        if (tried && cut(w, (uint32_t)count)) {
            XSMI_TRY(xsmi_run(w->context, run_lane, w, w->lane_count, err));
            for (uint32_t t = 0; t < w->lane_count; t++) {
                *failed = w->lanes[t].failed < *failed ? w->lanes[t].failed : *failed;
            }
            m->alpha = least; /* other threads may have gone on to the end */
            w->threaded++;
            for (uint64_t i = 0; i < count; i++) {
                w->sorted[w->order[i]] = w->losses[i];
            }
            losses = w->sorted;
        } else {
            *failed = xsmi_stepper_run(w->stepper, &w->list, NULL, w->losses, count, 0);
            m->alpha = w->list.alphas[*failed < count ? *failed : count];
        }
        learn(w, tried, (xsmi_seconds() - start) / (double)count);
    }
    uint64_t taken = *failed < count ? *failed : count;
    for (uint64_t s = 0; s < taken; s++) {
        *loss += losses[s];
    }
    e->position += taken;
    return taken == count ? XSM_OK : XSM_ERROR_DIVERGED;
}

void xsmi_window_mark(const xsmi_window *w, uint64_t count, uint64_t *marks)
{
    const xsm_model *m = w->optimizer->model;
    const xsm_gradient *g = w->drawn;
    for (uint64_t s = 0; s < count; s++) {
        xsmi_features x = xsmi_dataset_features(w->estimator->train, g->example[s].row);
        const uint32_t *classes = g->classes + s * g->width;
        for (uint32_t j = 0; j < g->lengths[s]; j++) {
            size_t start = (size_t)classes[j] * m->stride;
            for (size_t i = 0; i < x.count; i += x.index ? 1 : XSMI_MARK_FLOATS) {
                xsmi_mark(marks, start + (x.index ? x.index[i] : i));
            }
        }
    }
}
