/*
 * Windows of single-example steps.
 *
 * A step reads and writes the rows of weights of its few classes and the estimator's state for its example. Two steps
 * of a window that share no class, not even through other steps, can run at the same time; all others must keep their
 * order. Therefore the steps are cut into connected components (union-find over the classes that they use), and each
 * component runs on one thread in order. The result has the same bits as running all steps in order, for every number
 * of threads. With many classes the components are small; if one has most of the steps, the window runs on the caller's
 * thread.
 *
 * Drawing and cutting need no weights. With threads, the next window is planned while the steps of the current one run,
 * and the first window of the next epoch together with the order of its rows.
 *
 * On a model whose classes are divided among processes, the processes agree once in each window, and take the steps on
 * the caller's thread (rank_steps.c). Their windows are the same as those of one process, because scales are multiplied
 * into the weights between windows.
 */
#include "train/window.h"

#include "base/held.h"
#include "model/together.h"

#include "base/order.h"
#include "train/rank_steps.h"
#include "train/steps.h"

#include <string.h>

enum {
    STEPS_MOST = 8192,   /* so many that starting the threads costs little */
    STEPS_LEAST = 64,    /* fewer are not worth starting threads for */
    SELECT_PIECE = 512,  /* steps whose classes one job draws */
    LANES_A_THREAD = 16, /* so that no thread waits long for one that plans, or that the system interrupts */
    TRY_EVERY = 32,      /* windows until the slower kind of run is tried again, ... */
    TRY_SELDOM = 4096    /* and after it was slower each time */
};

#define NONE UINT16_MAX
/* Number of multiplications for the scores of a window: they take some hundredths of a second. */
#define WORK_MOST 5e7

typedef struct lane {
    uint32_t first, count; /* its steps in w->order */
    uint64_t failed;       /* first step that was not finite, or UINT64_MAX */
} lane;

/* The plan of a window before it runs. */
typedef struct plan {
    xsm_gradient *drawn; /* the lists of all steps */
    const uint64_t *rows;
    uint64_t count, position; /* steps, and the estimator's position at the first; count 0 = no plan */
    bool cut;                 /* into lanes, so that threads can run it */
    uint32_t *order;          /* [steps] steps by lane, rising in each */
    lane *lanes;              /* [lane_count] */
} plan;

struct xsmi_window {
    xsm_context *context;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsmi_stepper *stepper;        /* NULL with `ranks` */
    xsmi_rank_steps *ranks;       /* of a divided model, or NULL */
    uint64_t bindings;            /* of the estimator, when the following members were made for it */
    uint64_t steps;               /* most steps of a window */
    plan plans[2];                /* of the window being run, and of the next */
    uint32_t now;                 /* index of the present plan */
    const xsmi_window_rows *next; /* of the call that runs */
    xsmi_step_list list;          /* of the window being run */
    double *losses;               /* [steps] */
    uint16_t *last;               /* [slots] last step that touched a class, NONE before */
    size_t slots;                 /* a power of two */
    uint32_t *parent;             /* [steps] union-find */
    uint32_t *size;               /* [steps] steps of a component, at its root */
    uint32_t *lane_of;            /* [steps] */
    uint32_t threads, lane_count;
    xsmi_held held; /* the arrays, with those of the plans */
    xsmi_window_choice choice;
};

bool xsmi_window_fits(const xsm_estimator *e, const xsm_model *m)
{
    /* A search for a step depends on the steps before it, and so do draws that follow the training. */
    return !e->exact && !e->search.searcher && !e->sampling.follows && xsmi_model_steps_apart(m);
}

static xsm_status prepare(xsmi_window *w, xsm_error *err)
{
    return xsmi_optimizer_prepare(w->optimizer, w->plans[0].drawn, err);
}

static xsm_status new_plan(xsmi_window *w, plan *p, xsm_error *err)
{
    if (w->threads > 1) {
        p->order = xsmi_hold(&w->held, (size_t)w->steps, sizeof *p->order);
        p->lanes = xsmi_hold(&w->held, w->lane_count, sizeof *p->lanes);
        XSMI_TRY(xsmi_held_check(&w->held, "a window of steps", err));
    }
    XSMI_TRY(xsm_gradient_new(w->context, &p->drawn, err));
    return xsmi_estimator_reserve(w->estimator, p->drawn, w->steps, 1, false, err);
}

xsm_status xsmi_window_new(xsm_context *ctx, xsm_estimator *e, xsm_optimizer *o, xsmi_window **out, xsm_error *err)
{
    xsmi_window *w;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &w, xsmi_window, "a window of steps", err));
    w->held.context = ctx;
    w->estimator = e;
    w->bindings = e->bindings;
    w->optimizer = o;
    w->threads = xsmi_together_callers(e->model, ctx);
    w->lane_count = w->threads * LANES_A_THREAD;
    w->choice.next_try = w->choice.patience = TRY_EVERY;
    /* Components stay small if a window uses few of the classes. */
    const uint32_t classes = e->model->classes;
    uint64_t steps = classes / (8 * e->width);
    w->steps = XSMI_CLAMP(steps, STEPS_LEAST, STEPS_MOST);
    /* A run is only cancelled between windows, so windows must be short. */
    const double entries = e->train->sparse ? (double)e->train->offsets[e->train->rows] / (double)e->train->rows
                                            : (double)e->train->features;
    const double most = WORK_MOST / ((entries + 1) * (double)e->width);
    w->steps = (double)w->steps > most ? (uint64_t)most + 1 : w->steps;
    size_t n = (size_t)w->steps;
    w->losses = xsmi_hold(&w->held, n, sizeof *w->losses);
    w->list.alphas = xsmi_hold(&w->held, n + 1, sizeof *w->list.alphas);
    /* Classes that share a slot count as one class: few classes do, and none if there are few classes. */
    for (w->slots = 1; w->slots < classes && w->slots < 8 * w->steps * e->width; w->slots *= 2) {
    }
    if (w->threads > 1) {
        w->last = xsmi_hold(&w->held, w->slots, sizeof *w->last);
        w->parent = xsmi_hold(&w->held, n, sizeof *w->parent);
        w->size = xsmi_hold(&w->held, n, sizeof *w->size);
        w->lane_of = xsmi_hold(&w->held, n, sizeof *w->lane_of);
    }
    xsm_status status = xsmi_held_check(&w->held, "a window of steps", err);
    for (uint32_t i = 0; status == XSM_OK && i < (w->threads > 1 ? 2 : 1); i++) {
        status = new_plan(w, &w->plans[i], err);
    }
    if (status == XSM_OK) {
        status =
            e->divided ? xsmi_rank_steps_new(ctx, e, o, &w->ranks, err) : xsmi_stepper_new(ctx, e, o, &w->stepper, err);
    }
    if (status == XSM_OK) {
        status = prepare(w, err);
    }
    if (status != XSM_OK) {
        xsmi_window_free(w);
        return status;
    }
    *out = w;
    return XSM_OK;
}

void xsmi_window_free(xsmi_window *w)
{
    if (w) {
        xsmi_stepper_free(w->stepper);
        xsmi_rank_steps_free(w->ranks);
        for (int i = 0; i < 2; i++) {
            xsm_gradient_free(w->plans[i].drawn);
        }
        xsmi_held_release(&w->held);
        XSMI_OBJECT_FREE(w, xsmi_window);
    }
}

uint64_t xsmi_window_steps(const xsmi_window *w)
{
    return w->steps;
}

uint32_t xsmi_window_threads(const xsmi_window *w)
{
    return w->threads;
}

xsmi_window_choice *xsmi_window_chosen(xsmi_window *w)
{
    return &w->choice;
}

void xsmi_window_forget(xsmi_window *w)
{
    w->plans[0].count = w->plans[1].count = 0;
}

/* -- drawing ------------------------------------------------------------------------------------------------------- */

/* Draws the classes of the steps first..first+count of a window. */
static void draw(const xsmi_window *w, plan *p, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        p->drawn->example[i] = xsmi_example_at(w->estimator, p->rows[i], p->position + i);
    }
    for (uint64_t i = first; (p->drawn->weighted || p->drawn->label_weighted) && i < first + count; i++) {
        xsmi_example_weigh(w->estimator, NULL, p->rows[i], p->drawn, i);
    }
    xsmi_estimator_select(w->estimator, p->drawn, first, count);
}

static void run_draw(void *state, const xsmi_range *r)
{
    xsmi_window *w = state;
    draw(w, &w->plans[w->now], r->first, r->end - r->first);
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

/* Returns the number of steps of lane t. Later lanes have fewer steps, so that all threads end at nearly the same
 * time. */
static uint32_t lane_size(const xsmi_window *w, uint32_t count, uint32_t t)
{
    const uint64_t lanes = w->lane_count, parts = 2 * (lanes - t) - 1; /* of lanes^2 */
    return (uint32_t)((count * parts + lanes * lanes - 1) / (lanes * lanes));
}

/* Cuts a window's steps into lanes; returns false if one lane would have nearly all of the work. */
static bool cut(xsmi_window *w, plan *p)
{
    const xsm_gradient *list = p->drawn;
    const uint32_t count = (uint32_t)p->count;
    memset(w->last, 0xff, w->slots * sizeof *w->last);
    for (uint32_t s = 0; s < count; s++) {
        w->parent[s] = s;
        w->size[s] = 1;
        const xsmi_entries own = xsmi_gradient_list(list, s);
        for (uint32_t j = 0; j < own.count; j++) {
            uint16_t *last = &w->last[own.classes[j] & (w->slots - 1)];
            if (*last != NONE) {
                uint32_t a = root_of(w->parent, *last), b = root_of(w->parent, s);
                if (a != b) {
                    /* The earlier step becomes the root, so that roots are found first below. */
                    uint32_t early = XSMI_MIN(a, b), late = XSMI_MAX(a, b);
                    w->parent[late] = early;
                    w->size[early] += w->size[late];
                }
            }
            *last = (uint16_t)s;
        }
    }
    for (uint32_t t = 0; t < w->lane_count; t++) {
        p->lanes[t].first = p->lanes[t].count = 0;
    }
    /* A component is assigned when its first step, the root, is reached: to the first lane that is not full. */
    uint32_t largest = 0;
    for (uint32_t s = 0, open = 0, full = lane_size(w, count, 0); s < count; s++) {
        const uint32_t root = root_of(w->parent, s);
        if (root != s) {
            w->lane_of[s] = w->lane_of[root];
            continue;
        }
        if (open + 1 < w->lane_count && p->lanes[open].count >= full) {
            full = lane_size(w, count, ++open);
        }
        w->lane_of[s] = open;
        p->lanes[open].count += w->size[s];
        largest = XSMI_MAX(w->size[s], largest);
    }
    if (largest > count - count / 8) {
        return false;
    }
    uint32_t start = 0;
    for (uint32_t t = 0; t < w->lane_count; t++) {
        p->lanes[t].first = start;
        start += p->lanes[t].count;
        p->lanes[t].count = 0;
    }
    for (uint32_t s = 0; s < count; s++) {
        lane *l = &p->lanes[w->lane_of[s]];
        p->order[l->first + l->count++] = s;
    }
    return true;
}

/* -- stepping ------------------------------------------------------------------------------------------------------ */

/* Plans the next window, if it is known, in the first job; runs a lane of this window in each of the others. */
static void run_job(void *state, size_t index, uint32_t thread)
{
    xsmi_window *w = state;
    plan *p = &w->plans[w->now], *next = &w->plans[1 - w->now];
    if (index > 0) {
        lane *l = &p->lanes[index - 1];
        l->failed = xsmi_stepper_run(w->stepper, &w->list, p->order + l->first, w->losses, l->count, thread);
    } else if (next->count > 0) {
        if (w->next->prepare) {
            w->next->prepare(w->next->state);
        }
        draw(w, next, 0, next->count);
        next->cut = cut(w, next);
    }
}

/* Whether to run a window on threads. The bits are the same, so only the time matters: chooses the kind of run that was
 * faster lately, and tries the other now and then. */
static bool prefers_threads(const xsmi_window *w, uint64_t count)
{
    const xsmi_window_choice *c = &w->choice;
    if (w->threads == 1 || count < STEPS_LEAST) {
        return false;
    }
    if (c->mode != XSMI_WINDOW_FASTER) {
        return c->mode == XSMI_WINDOW_THREADS;
    }
    bool faster = c->pace[1] < c->pace[0]; /* 0, unknown, wins */
    return c->windows >= c->next_try ? !faster : faster;
}

static void learn(xsmi_window_choice *c, bool tried, double pace)
{
    double *known = &c->pace[tried];
    *known = *known > 0 ? 0.75 * *known + 0.25 * pace : pace;
    if (c->windows++ >= c->next_try) {
        bool slower = *known > c->pace[!tried];
        c->patience = !slower ? TRY_EVERY : c->patience < TRY_SELDOM ? 2 * c->patience : TRY_SELDOM;
        c->next_try = c->windows + c->patience;
    }
}

/* Writes the scale of all weights before each step and after the last, starting at the model's. Returns the last. */
static double fill_alphas(xsmi_window *w, uint64_t count)
{
    const double *etas = w->list.etas;
    double *alphas = w->list.alphas, decay = 1, alpha = w->optimizer->model->w.alpha;
    alphas[0] = alpha;
    for (uint64_t s = 0; s < count; s++) {
        decay = s > 0 && etas[s] == etas[s - 1] ? decay : xsmi_estimator_decay(w->estimator, etas[s]);
        alpha = decay == 1 ? alpha : alpha * decay; /* mostly avoids a chain of multiplications */
        alphas[s + 1] = alpha;
    }
    return alpha;
}

/* Takes the steps one by one and multiplies the scale into the weights when needed. Called where the L2 penalty (ridge)
 * is so strong that the scale would leave its range within one window. */
static xsm_status run_folding(xsmi_window *w, uint64_t count, uint64_t *failed, xsm_error *err)
{
    xsm_model *m = w->optimizer->model;
    for (uint32_t s = 0; s < count && *failed == UINT64_MAX; s++) {
        double decay = xsmi_estimator_decay(w->estimator, w->list.etas[s]);
        const xsm_status status = xsmi_optimizer_decay(m, decay, &w->list.alphas[s + 1], err);
        w->list.alphas[s] = m->w.alpha;
        if (w->ranks) {
            const xsm_status taken = xsmi_rank_steps_run(w->ranks, &w->list, s, 1, status, w->losses, failed, err);
            if (taken != XSM_OK) {
                *failed = s;
                return taken;
            }
        } else {
            XSMI_TRY(status);
            *failed = xsmi_stepper_run(w->stepper, &w->list, &s, w->losses, 1, 0);
        }
        m->w.alpha = w->list.alphas[*failed == UINT64_MAX ? s + 1 : s];
    }
    return XSM_OK;
}

/* Follows an estimator that was bound again, by a callback or between two runs. Its lists can have another width then:
 * after a bind() that failed, its options can be changed before the next one. */
static xsm_status follow_binding(xsmi_window *w, xsm_error *err)
{
    const xsm_estimator *e = w->estimator;
    if (w->bindings == e->bindings) {
        return XSM_OK;
    }
    if (!xsmi_window_fits(e, w->optimizer->model)) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "estimator '%s' was bound anew so that it scores all classes or searches for them; the "
                         "trainer was made for one that does not",
                         e->ops.name);
    }
    xsmi_window_forget(w);
    for (uint32_t i = 0; i < 2 && w->plans[i].drawn; i++) {
        XSMI_TRY(xsmi_estimator_reserve(e, w->plans[i].drawn, w->steps, 1, false, err));
    }
    if (w->ranks) {
        XSMI_TRY(xsmi_rank_steps_reserve(w->ranks, err));
    } else {
        xsmi_stepper *stepper;
        XSMI_TRY(xsmi_stepper_new(w->context, w->estimator, w->optimizer, &stepper, err));
        xsmi_stepper_free(w->stepper);
        w->stepper = stepper;
    }
    w->bindings = e->bindings;
    return XSM_OK;
}

/* Makes the plan of these rows the present one. Draws its classes now, unless the plan was made during the previous
 * window. */
static xsm_status use_plan(xsmi_window *w, const xsmi_window_rows *now, xsm_error *err)
{
    const uint64_t position = w->estimator->position;
    const plan *next = &w->plans[1 - w->now];
    w->plans[w->now].count = 0;
    if (next->count == now->count && next->position == position && next->rows == now->rows) {
        w->now = 1 - w->now;
        w->choice.planned++;
        return XSM_OK;
    }
    plan *p = &w->plans[w->now];
    p->rows = now->rows;
    p->count = now->count;
    p->position = position;
    p->cut = false;
    return xsmi_run_ranges(w->context, run_draw, w, now->count, SELECT_PIECE, err);
}

xsm_status xsmi_window_run(xsmi_window *w, const xsmi_window_rows *now, const xsmi_window_rows *next, double *loss,
                           uint64_t *failed, xsm_error *err)
{
    const uint64_t count = now->count;
    xsm_estimator *e = w->estimator;
    xsm_model *m = w->optimizer->model;
    w->list.etas = now->etas;
    *failed = UINT64_MAX;
    XSMI_TRY(follow_binding(w, err));
    /* Makes scales again: access to the weights since the last window may have multiplied them into the weights. */
    XSMI_TRY(prepare(w, err));
    XSMI_TRY(use_plan(w, now, err));
    plan *p = &w->plans[w->now], *planned = &w->plans[1 - w->now];
    planned->count = 0;
    w->list.drawn = p->drawn;
    w->list.taken = w->optimizer->steps;
    double least = fill_alphas(w, count);
    if (least < XSMI_ALPHA_LEAST) {
        XSMI_TRY(xsmi_model_fold(m, err));
        least = fill_alphas(w, count);
    }
    if (least < XSMI_ALPHA_LEAST) {
        XSMI_TRY(run_folding(w, count, failed, err));
    } else if (w->ranks) {
        XSMI_TRY(xsmi_rank_steps_run(w->ranks, &w->list, 0, count, XSM_OK, w->losses, failed, err));
        m->w.alpha = w->list.alphas[XSMI_MIN(*failed, count)];
    } else {
        double start = xsmi_seconds();
        bool tried = prefers_threads(w, count);
        if (tried && (p->cut || cut(w, p))) {
            planned->rows = next->rows;
            planned->count = next->count;
            planned->position = e->position + count;
            w->next = next;
            xsm_status status = xsmi_run(w->context, run_job, w, 1 + w->lane_count, err);
            if (status != XSM_OK) {
                planned->count = 0;
                return status;
            }
            for (uint32_t t = 0; t < w->lane_count; t++) {
                *failed = XSMI_MIN(p->lanes[t].failed, *failed);
            }
            m->w.alpha = least; /* other threads may have gone on to the end of the window */
            w->choice.threaded++;
        } else {
            *failed = xsmi_stepper_run(w->stepper, &w->list, NULL, w->losses, count, 0);
            m->w.alpha = w->list.alphas[XSMI_MIN(*failed, count)];
        }
        learn(&w->choice, tried, (xsmi_seconds() - start) / (double)count);
    }
    uint64_t done = XSMI_MIN(*failed, count);
    for (uint64_t s = 0; s < done; s++) {
        *loss += w->losses[s];
    }
    e->position += done;
    w->optimizer->steps += done;
    return done == count ? XSM_OK : XSM_ERROR_DIVERGED;
}

bool xsmi_window_can_mark(const xsmi_window *w)
{
    return w->stepper != NULL;
}

void xsmi_window_mark(const xsmi_window *w, uint64_t count, uint64_t *marks)
{
    const xsm_model *m = w->optimizer->model;
    const xsm_gradient *g = w->plans[w->now].drawn;
    for (uint64_t s = 0; s < count; s++) {
        xsmi_features x = xsmi_dataset_features(w->estimator->train, g->example[s].row);
        const xsmi_entries list = xsmi_gradient_list(g, s);
        for (uint32_t j = 0; j < list.count; j++) {
            size_t start = (size_t)list.classes[j] * m->w.stride;
            for (size_t i = 0; i < x.count; i += x.index ? 1 : XSMI_MARK_FLOATS) {
                xsmi_mark(marks, start + (x.index ? x.index[i] : i));
            }
        }
    }
}
