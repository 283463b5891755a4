/*
 * The whole objective and its gradient, by tiles of rows.
 *
 * The estimator computes a tile's coefficients. The kernels that update weights sum its part of the gradient in
 * float32, in pieces: runs of the tile's rows, each with its own matrix, times ranges of classes. Then the matrices are
 * added to the gradient in double, run by run, and set to zeros. Where rows and classes are cut depends only on the
 * shape of the problem, so the sums have the same bits on any number of threads. A run is short enough that rounding in
 * float32 remains small compared with that of the scores (logits).
 */
#include "train/objective.h"

#include "base/held.h"
#include "base/order.h"

#include <string.h>

enum {
    TILE_ROWS = 4096,       /* of a tile, if K allows */
    TILE_SLOTS = 4 << 20,   /* approximate number of coefficients of a tile */
    RANGE = 64,             /* classes of a piece */
    PIECES = 8,             /* enough for a few threads */
    PASS = 1 << 16,         /* parameters of one job of a pass over them */
    DENSE_ROWS = XSMI_LANES /* examples of one call of the dense kernel */
};
/* The maximum number of floats of the matrices of all runs. */
#define RUN_FLOATS ((size_t)1 << 26)

struct xsmi_objective {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    xsm_model *model;
    bool feature_major; /* the model's weights are, and so are the matrices */
    const xsm_dataset *train;
    xsm_estimator *estimator;
    xsm_gradient *gradient;
    size_t rows, columns; /* of the model's matrix */
    size_t stride;        /* of the runs' matrices */
    uint32_t ranges, runs;
    uint64_t tile_rows;
    float *sums;            /* [runs][rows][stride] */
    unsigned char *touched; /* [runs][rows]: feature-major rows that are not all zero */
    double *bias_sums;      /* [runs][classes], with a bias */
    double *partials;       /* [passes] */
    size_t passes;
    xsmi_objective_pause pause; /* or NULL */
    void *pause_user;
    /* the current call */
    const double *x;
    double *out;
    double ridge; /* mu/N */
    double scale; /* of the tile's coefficients */
    xsm_batch tile;
};

size_t xsmi_objective_size(const xsmi_objective *o)
{
    return o->rows * o->columns + (o->model->w.bias ? o->model->classes : 0);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

void xsmi_objective_free(xsmi_objective *o)
{
    if (o) {
        xsm_gradient_free(o->gradient);
        xsmi_held_release(&o->held);
        xsmi_release(o->context, o, 1, sizeof *o);
    }
}

/* Sets the shapes of the matrices, and how they are cut. */
static void set_shape(xsmi_objective *o)
{
    const xsm_model *m = o->model;
    const bool feature_major = o->feature_major = m->w.layout == XSM_LAYOUT_FEATURE_MAJOR;
    o->rows = feature_major ? m->features : m->classes;
    o->columns = feature_major ? m->classes : m->features;
    o->stride = xsmi_row_stride(o->columns);
    o->ranges = (m->classes + RANGE - 1) / RANGE;
    o->runs = o->ranges < PIECES ? (PIECES + o->ranges - 1) / o->ranges : 1;
    while (o->runs > 1 && o->stride > 0 && o->rows > RUN_FLOATS / o->stride / o->runs) {
        o->runs--;
    }
    o->tile_rows = XSMI_MAX(TILE_SLOTS / m->classes, XSMI_LANES);
    if (o->tile_rows > XSMI_LANES * XSMI_TILE_BLOCKS) {
        o->tile_rows -= o->tile_rows % (XSMI_LANES * XSMI_TILE_BLOCKS);
        o->tile_rows = XSMI_MIN(o->tile_rows, TILE_ROWS);
    }
    o->passes = (o->rows * o->columns + PASS - 1) / PASS;
}

xsm_status xsmi_objective_new(xsm_context *ctx, xsm_model *m, const xsm_dataset *train, xsm_estimator *e,
                              xsmi_objective **out, xsm_error *err)
{
    xsmi_objective *o;
    XSMI_TRY(xsmi_struct_new(ctx, &o, sizeof *o, "an objective", err));
    o->context = o->held.context = ctx;
    o->model = m;
    o->train = train;
    o->estimator = e;
    set_shape(o);
    size_t bytes;
    bytes = xsmi_multiply(o->stride, sizeof *o->sums, &bytes) ? bytes : SIZE_MAX;
    o->sums = xsmi_hold_zeros(&o->held, (uint64_t)o->runs * o->rows, bytes);
    o->touched = xsmi_hold_zeros(&o->held, o->runs, o->rows);
    o->bias_sums = xsmi_hold_zeros(&o->held, o->runs, o->model->classes * sizeof *o->bias_sums);
    o->partials = xsmi_hold(&o->held, o->passes, sizeof *o->partials);
    xsm_status status = xsmi_held_check(&o->held, "sums of a gradient", err);
    status = status == XSM_OK ? xsm_gradient_new(ctx, &o->gradient, err) : status;
    if (status != XSM_OK) {
        xsmi_objective_free(o);
        return status;
    }
    *out = o;
    return XSM_OK;
}

/* -- parameters ---------------------------------------------------------------------------------------------------- */

/* Returns how many rows of the matrix a job of a pass over the parameters takes. */
static size_t pass_rows(const xsmi_objective *o)
{
    return o->columns < PASS ? PASS / (o->columns ? o->columns : 1) : 1;
}

static xsm_status pass(xsmi_objective *o, xsmi_range_job job, xsm_error *err)
{
    return xsmi_run_ranges(o->context, job, o, o->rows, pass_rows(o), err);
}

static void read_rows(void *state, const xsmi_range *r)
{
    xsmi_objective *o = state;
    for (size_t i = r->first; i < r->end; i++) {
        for (size_t c = 0; c < o->columns; c++) {
            o->out[i * o->columns + c] = (double)o->model->w.weight[i * o->model->w.stride + c];
        }
    }
}

xsm_status xsmi_objective_read(xsmi_objective *o, double *x, xsm_error *err)
{
    o->out = x;
    XSMI_TRY(pass(o, read_rows, err));
    for (size_t k = 0; o->model->w.bias && k < o->model->classes; k++) {
        x[o->rows * o->columns + k] = (double)o->model->w.bias[k];
    }
    return XSM_OK;
}

static void write_rows(void *state, const xsmi_range *r)
{
    xsmi_objective *o = state;
    for (size_t i = r->first; i < r->end; i++) {
        for (size_t c = 0; c < o->columns; c++) {
            o->model->w.weight[i * o->model->w.stride + c] = (float)o->x[i * o->columns + c];
        }
    }
}

/* Copies x, rounded, to the model's parameters. */
static xsm_status write(xsmi_objective *o, const double *x, xsm_error *err)
{
    o->x = x;
    XSMI_TRY(pass(o, write_rows, err));
    for (size_t k = 0; o->model->w.bias && k < o->model->classes; k++) {
        o->model->w.bias[k] = (float)x[o->rows * o->columns + k];
    }
    return XSM_OK;
}

/* -- the gradient -------------------------------------------------------------------------------------------------- */

/* Starts with the gradient of the L2 penalty (ridge), to which the tiles are added, and computes a part of the sum of
 * squares. A job is about PASS weights for every shape of the matrix. */
static void start_gradient(void *state, const xsmi_range *r)
{
    xsmi_objective *o = state;
    double squares = 0;
    for (size_t i = r->first; i < r->end; i++) {
        squares += o->x[i] * o->x[i];
        o->out[i] = o->ridge * o->x[i];
    }
    o->partials[r->index] = squares;
}

/* One run of the tile's rows times one range of classes. */
typedef struct piece {
    size_t run;
    uint64_t first, end; /* its rows in the tile */
    uint32_t class, classes;
    float *sums; /* the run's matrix */
} piece;

static piece piece_at(const xsmi_objective *o, size_t index)
{
    piece p = {.run = index / o->ranges, .class = (uint32_t)(index % o->ranges) * RANGE};
    const uint64_t each = (o->tile.count + o->runs - 1) / o->runs;
    p.first = p.run * each;
    p.end = XSMI_MIN(p.first + each, o->tile.count);
    p.classes = XSMI_MIN(o->model->classes - p.class, RANGE);
    p.sums = o->sums + p.run * o->rows * o->stride;
    return p;
}

static void add_sparse(const xsmi_objective *o, const piece *p)
{
    const xsm_gradient *g = o->gradient;
    unsigned char *touched = o->touched + p->run * o->rows;
    for (uint64_t i = p->first; i < p->end; i++) {
        xsmi_features x = xsmi_dataset_features(o->train, xsmi_batch_row(&o->tile, (size_t)i));
        o->model->kernels->column_update(p->sums + p->class, o->stride, x.index, x.values, x.count, p->classes,
                                         xsmi_gradient_row(g, i) + p->class, 1);
        for (size_t j = 0; p->class == 0 && j < x.count; j++) {
            touched[x.index ? x.index[j] : j] = 1;
        }
    }
}

static void add_dense(const xsmi_objective *o, const piece *p)
{
    const xsm_gradient *g = o->gradient;
    const float *x[DENSE_ROWS];
    for (uint64_t start = p->first; start < p->end; start += DENSE_ROWS) {
        size_t n = (size_t)XSMI_MIN(p->end - start, DENSE_ROWS);
        for (size_t i = 0; i < n; i++) {
            x[i] = xsmi_dataset_features(o->train, xsmi_batch_row(&o->tile, (size_t)start + i)).values;
        }
        o->model->kernels->rank_update(p->sums + p->class * o->stride, o->stride, p->classes,
                                       xsmi_gradient_row(g, start) + p->class, g->width, x, n, o->model->features);
    }
}

static void add_piece(void *state, size_t index, uint32_t thread)
{
    const xsmi_objective *o = state;
    const xsm_gradient *g = o->gradient;
    const piece p = piece_at(o, index);
    (void)thread;
    if (o->feature_major) {
        add_sparse(o, &p);
    } else {
        add_dense(o, &p);
    }
    double *bias = o->bias_sums + p.run * o->model->classes + p.class;
    for (uint64_t i = p.first; o->model->w.bias && i < p.end; i++) {
        const float *from = xsmi_gradient_row(g, i) + p.class;
        for (uint32_t k = 0; k < p.classes; k++) {
            bias[k] += (double)from[k];
        }
    }
}

/* Adds rows of the runs' matrices to the gradient and sets them to zeros. */
static void collect(void *state, const xsmi_range *r)
{
    const xsmi_objective *o = state;
    bool all = !o->feature_major;
    for (uint32_t run = 0; run < o->runs; run++) {
        for (size_t i = r->first; i < r->end; i++) {
            unsigned char *touched = o->touched + run * o->rows + i;
            if (all || *touched) {
                float *sums = o->sums + (run * o->rows + i) * o->stride;
                double *out = o->out + i * o->columns;
                for (size_t c = 0; c < o->columns; c++) {
                    out[c] += o->scale * (double)sums[c];
                }
                memset(sums, 0, o->columns * sizeof *sums);
                *touched = 0;
            }
        }
    }
}

void xsmi_objective_set_pause(xsmi_objective *o, xsmi_objective_pause pause, void *user)
{
    o->pause = pause;
    o->pause_user = user;
}

/* Starts an evaluation at x: the penalty's part of the gradient. */
static xsm_status start(xsmi_objective *o, const double *x, double *gradient, xsm_error *err)
{
    const size_t weights = o->rows * o->columns;
    XSMI_TRY(write(o, x, err));
    o->out = gradient;
    o->ridge = o->estimator->common.ridge / (double)o->train->rows;
    XSMI_TRY(xsmi_run_ranges(o->context, start_gradient, o, weights, PASS, err));
    for (size_t i = weights; i < xsmi_objective_size(o); i++) {
        gradient[i] = 0;
    }
    return XSM_OK;
}

/* Adds the gradient of a tile whose coefficients are computed. */
static xsm_status add_tile(xsmi_objective *o, xsm_error *err)
{
    const size_t classes = o->model->classes;
    XSMI_TRY(xsmi_run(o->context, add_piece, o, (size_t)o->ranges * o->runs, err));
    XSMI_TRY(pass(o, collect, err));
    for (size_t i = 0; o->model->w.bias && i < o->runs * classes; i++) {
        o->out[o->rows * o->columns + i % classes] += o->scale * o->bias_sums[i];
        o->bias_sums[i] = 0;
    }
    return XSM_OK;
}

xsm_status xsmi_objective_at(xsmi_objective *o, const double *x, double *f, double *loss, double *gradient,
                             xsm_error *err)
{
    uint64_t all = o->train->rows;
    XSMI_TRY(start(o, x, gradient, err));
    double squares = 0, losses = 0;
    for (size_t i = 0; i < o->passes; i++) {
        squares += o->partials[i];
    }
    xsm_status status = XSM_OK;
    for (uint64_t first = 0; status == XSM_OK && first < all; first += o->tile_rows) {
        o->tile = xsm_batch_range(o->train, first, XSMI_MIN(all - first, o->tile_rows));
        o->scale = (double)o->tile.count / (double)all; /* the estimator has divided by the tile's size */
        status = xsm_estimator_gradient(o->estimator, &o->tile, 1, o->gradient, err);
        if (status == XSM_OK) {
            losses += o->gradient->loss * (double)o->tile.count;
            xsmi_dataset_passed(o->train, first, o->tile.count);
            status = add_tile(o, err);
        }
        if (status == XSM_OK && o->pause) {
            status = o->pause(o->pause_user, first + o->tile.count, err);
        }
    }
    if (status != XSM_OK) {
        if (status != XSM_CANCELLED) { /* a runner that failed midway has left sums that are not zero */
            memset(o->sums, 0, o->runs * o->rows * o->stride * sizeof *o->sums);
        }
        return status;
    }
    *loss = losses;
    *f = (losses + o->estimator->common.ridge / 2 * squares) / (double)all;
    return XSM_OK;
}
