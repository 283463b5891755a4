/*
 * The whole objective and its gradient, by tiles of rows.
 *
 * The estimator computes a tile's coefficients. The kernels that update weights sum its part of the gradient in
 * float32, in pieces: runs of the tile's rows, each with its own matrix, times ranges of classes. Then the matrices are
 * added to the gradient in double, run by run, and set to zeros. The cuts of rows and classes depend on the shape of
 * the problem alone, so the sums have the same bits on any number of threads. A run is short enough that rounding in
 * float32 remains small compared with that of the scores (logits).
 *
 * Of a model whose classes are divided among ranks each rank computes the gradient by the weights of its classes, then
 * all send theirs: every rank has the whole gradient, with the bits of one process, and the whole vector of parameters.
 */
#include "train/objective.h"

#include "base/order.h"
#include "model/divided.h"
#include "model/together.h"

#include <string.h>

enum {
    TILE_ROWS = 4096,        /* of a tile, if K allows */
    TILE_SLOTS = 4 << 20,    /* approximate number of coefficients of a tile */
    RANGE = 64,              /* classes of a piece */
    PIECES = 8,              /* enough for a few threads */
    PASS = 1 << 16,          /* parameters of one job of a pass over them */
    DENSE_ROWS = XSMI_LANES, /* examples of one call of the dense kernel */
    PACKED = 1 << 18         /* parameters of feature-major rows that are sent at once, or one row */
};
/* The maximum number of floats of the matrices of all runs. */
#define RUN_FLOATS ((size_t)1 << 26)

struct xsmi_objective {
    xsm_context *context;
    xsm_model *model;
    xsm_model *own;     /* has the weights: this rank's part of the model, or the model */
    uint32_t own_first; /* its first class */
    const xsm_dataset *train;
    xsm_estimator *estimator;
    xsm_gradient *gradient;
    size_t rows, columns;           /* of the model's matrix */
    size_t own_rows, own_columns;   /* of the own one, */
    size_t first_row, first_column; /* and where it is in the model's */
    size_t stride;                  /* of the runs' matrices */
    uint32_t ranges, runs;          /* of the own classes */
    double *packed;                 /* [packed_rows][packed_columns], of a divided model that is feature-major */
    size_t packed_rows, packed_columns;
    uint64_t tile_rows;
    float *sums;            /* [runs][own_rows][stride] */
    unsigned char *touched; /* [runs][own_rows]: feature-major rows that are not all zero */
    double *bias_sums;      /* [runs][own classes], with a bias */
    double *partials;       /* [passes] */
    size_t passes;
    xsmi_objective_pause pause; /* or NULL */
    void *pause_user;
    /* the current call */
    const double *x;
    double *out;
    double ridge; /* mu/N */
    double scale; /* of the tile's coefficients */
    size_t from;  /* the own classes' first coefficient of an example */
    xsm_batch tile;
};

size_t xsmi_objective_size(const xsmi_objective *o)
{
    return o->rows * o->columns + (o->own->w.bias ? o->model->classes : 0);
}

static uint32_t first_of_rank(const xsmi_objective *o, uint32_t rank)
{
    return xsmi_part_start(o->model->classes, xsmi_ranks(o->model->context), rank);
}

static uint32_t classes_of_rank(const xsmi_objective *o, uint32_t rank)
{
    return first_of_rank(o, rank + 1) - first_of_rank(o, rank);
}

/* Ends a step that each rank does alone: if it failed on one rank, it fails on all. */
static xsm_status agree(const xsmi_objective *o, xsm_status status, xsm_error *err)
{
    return xsmi_together(o->model, status, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

void xsmi_objective_free(xsmi_objective *o)
{
    if (o) {
        xsm_context *ctx = o->context;
        xsm_gradient_free(o->gradient);
        xsmi_release(ctx, o->sums, o->runs * o->own_rows, o->stride * sizeof *o->sums);
        xsmi_release(ctx, o->touched, o->runs, o->own_rows);
        xsmi_release(ctx, o->bias_sums, o->runs, o->own->classes * sizeof *o->bias_sums);
        xsmi_release(ctx, o->packed, o->packed_rows, o->packed_columns * sizeof *o->packed);
        xsmi_release(ctx, o->partials, o->passes, sizeof *o->partials);
        xsmi_release(ctx, o, 1, sizeof *o);
    }
}

/* The shapes of the matrices, and how they are cut. */
static void set_shape(xsmi_objective *o)
{
    const xsm_model *m = o->model;
    const bool feature_major = o->own->w.layout == XSM_LAYOUT_FEATURE_MAJOR;
    o->rows = feature_major ? m->features : m->classes;
    o->columns = feature_major ? m->classes : m->features;
    o->own_rows = feature_major ? m->features : o->own->classes;
    o->own_columns = feature_major ? o->own->classes : m->features;
    o->first_row = feature_major ? 0 : o->own_first;
    o->first_column = feature_major ? o->own_first : 0;
    o->stride = xsmi_row_stride(o->own_columns);
    const uint32_t ranges = (m->classes + RANGE - 1) / RANGE; /* of all classes: every rank has the same runs */
    o->ranges = (o->own->classes + RANGE - 1) / RANGE;
    o->runs = ranges < PIECES ? (PIECES + ranges - 1) / ranges : 1;
    while (o->runs > 1 && o->stride > 0 && o->own_rows > RUN_FLOATS / o->stride / o->runs) {
        o->runs--;
    }
    o->tile_rows = XSMI_MAX(TILE_SLOTS / m->classes, XSMI_LANES);
    if (o->tile_rows > XSMI_LANES * XSMI_TILE_BLOCKS) {
        o->tile_rows -= o->tile_rows % (XSMI_LANES * XSMI_TILE_BLOCKS);
        o->tile_rows = XSMI_MIN(o->tile_rows, TILE_ROWS);
    }
    o->passes = (o->rows * o->columns + PASS - 1) / PASS;
    for (uint32_t r = 0; xsmi_model_is_divided(m) && feature_major && r < xsmi_ranks(m->context); r++) {
        o->packed_columns = XSMI_MAX(o->packed_columns, classes_of_rank(o, r));
        o->packed_rows = XSMI_MAX(XSMI_MIN(PACKED / o->packed_columns, o->rows), 1);
    }
}

xsm_status xsmi_objective_new(xsm_context *ctx, xsm_model *m, const xsm_dataset *train, xsm_estimator *e,
                              xsmi_objective **out, xsm_error *err)
{
    xsmi_objective *o = xsmi_allocate(ctx, 1, sizeof *o);
    if (!o) {
        return xsmi_fail_memory(err, sizeof *o, "an objective");
    }
    memset(o, 0, sizeof *o);
    o->context = ctx;
    o->model = m;
    o->train = train;
    o->estimator = e;
    o->own = xsmi_model_changed(m);
    o->own_first = m->part.first;
    set_shape(o);
    size_t bytes;
    o->sums = xsmi_multiply(o->stride, sizeof *o->sums, &bytes)
                  ? xsmi_allocate_zero(ctx, (uint64_t)o->runs * o->own_rows, bytes)
                  : NULL;
    o->touched = xsmi_allocate_zero(ctx, o->runs, o->own_rows);
    o->bias_sums = xsmi_allocate_zero(ctx, o->runs, o->own->classes * sizeof *o->bias_sums);
    o->partials = xsmi_allocate(ctx, o->passes, sizeof *o->partials);
    o->packed = xsmi_allocate(ctx, o->packed_rows, o->packed_columns * sizeof *o->packed);
    xsm_status status = XSM_OK;
    if (!o->sums || !o->touched || !o->bias_sums || !o->partials || !o->packed) {
        status = xsmi_fail_memory(err, o->runs * o->own_rows * o->stride * sizeof *o->sums, "sums of a gradient");
    } else {
        status = xsm_gradient_new(ctx, &o->gradient, err);
    }
    if (status != XSM_OK) {
        xsmi_objective_free(o);
        return status;
    }
    *out = o;
    return XSM_OK;
}

/* -- parameters ---------------------------------------------------------------------------------------------------- */

/* Rows of the own matrix of one job of a pass over its parameters. */
static size_t pass_rows(const xsmi_objective *o)
{
    return o->own_columns < PASS ? PASS / (o->own_columns ? o->own_columns : 1) : 1;
}

static xsm_status pass(xsmi_objective *o, xsm_job job, xsm_error *err)
{
    return xsmi_run(o->context, job, o, (o->own_rows + pass_rows(o) - 1) / pass_rows(o), err);
}

static void pass_range(const xsmi_objective *o, size_t index, size_t *first, size_t *end)
{
    *first = index * pass_rows(o);
    *end = o->own_rows - *first < pass_rows(o) ? o->own_rows : *first + pass_rows(o);
}

/* Returns where a row of this rank's matrix begins among all parameters, and where its bias is. */
static size_t own_row(const xsmi_objective *o, size_t row)
{
    return (o->first_row + row) * o->columns + o->first_column;
}

static size_t own_bias(const xsmi_objective *o)
{
    return o->rows * o->columns + o->own_first;
}

/* Sends `rows` rows of a rank's feature-major part, from `row` on. */
static xsm_status share_rows(const xsmi_objective *o, double *x, uint32_t rank, size_t row, size_t rows, xsm_error *err)
{
    xsm_context *group = o->model->context;
    const size_t width = classes_of_rank(o, rank);
    double *all = x + row * o->columns + first_of_rank(o, rank);
    for (size_t r = 0; rank == xsmi_rank(group) && r < rows; r++) {
        memcpy(o->packed + r * width, all + r * o->columns, width * sizeof *x);
    }
    XSMI_TRY(xsmi_exchange_copy(group, o->packed, rows * width * sizeof *x, rank, err));
    for (size_t r = 0; r < rows; r++) {
        memcpy(all + r * o->columns, o->packed + r * width, width * sizeof *x);
    }
    return XSM_OK;
}

static xsm_status share_part(const xsmi_objective *o, double *x, uint32_t rank, xsm_error *err)
{
    xsm_context *group = o->model->context;
    const size_t first = first_of_rank(o, rank), classes = classes_of_rank(o, rank);
    if (o->packed_columns == 0 && o->columns > 0) {
        XSMI_TRY(xsmi_exchange_copy(group, x + first * o->columns, classes * o->columns * sizeof *x, rank, err));
    }
    for (size_t row = 0; o->packed_columns > 0 && row < o->rows; row += o->packed_rows) {
        XSMI_TRY(share_rows(o, x, rank, row, XSMI_MIN(o->packed_rows, o->rows - row), err));
    }
    return o->own->w.bias ? xsmi_exchange_copy(group, x + o->rows * o->columns + first, classes * sizeof *x, rank, err)
                          : XSM_OK;
}

/* Gives every rank the numbers of all, where each has those of its parameters. */
static xsm_status share(const xsmi_objective *o, double *x, xsm_error *err)
{
    for (uint32_t r = 0; xsmi_model_is_divided(o->model) && r < xsmi_ranks(o->model->context); r++) {
        XSMI_TRY(share_part(o, x, r, err));
    }
    return XSM_OK;
}

static void read_rows(void *state, size_t index, uint32_t thread)
{
    xsmi_objective *o = state;
    size_t first, end;
    (void)thread;
    pass_range(o, index, &first, &end);
    for (size_t r = first; r < end; r++) {
        for (size_t c = 0; c < o->own_columns; c++) {
            o->out[own_row(o, r) + c] = (double)o->own->w.weight[r * o->own->w.stride + c];
        }
    }
}

xsm_status xsmi_objective_read(xsmi_objective *o, double *x, xsm_error *err)
{
    o->out = x;
    XSMI_TRY(agree(o, pass(o, read_rows, err), err));
    for (size_t k = 0; o->own->w.bias && k < o->own->classes; k++) {
        x[own_bias(o) + k] = (double)o->own->w.bias[k];
    }
    return share(o, x, err);
}

static void write_rows(void *state, size_t index, uint32_t thread)
{
    xsmi_objective *o = state;
    size_t first, end;
    (void)thread;
    pass_range(o, index, &first, &end);
    for (size_t r = first; r < end; r++) {
        for (size_t c = 0; c < o->own_columns; c++) {
            o->own->w.weight[r * o->own->w.stride + c] = (float)o->x[own_row(o, r) + c];
        }
    }
}

/* Copies x, rounded, to the model's parameters. */
static xsm_status write(xsmi_objective *o, const double *x, xsm_error *err)
{
    o->x = x;
    XSMI_TRY(pass(o, write_rows, err));
    for (size_t k = 0; o->own->w.bias && k < o->own->classes; k++) {
        o->own->w.bias[k] = (float)x[own_bias(o) + k];
    }
    return XSM_OK;
}

/* -- the gradient -------------------------------------------------------------------------------------------------- */

/* Starts with the gradient of the L2 penalty (ridge), to which the tiles are added, and computes a part of the sum of
 * squares. A job is about PASS weights for every shape of the matrix. */
static void start_gradient(void *state, size_t index, uint32_t thread)
{
    xsmi_objective *o = state;
    size_t first = index * PASS, end = XSMI_MIN(first + PASS, o->rows * o->columns);
    double squares = 0;
    (void)thread;
    for (size_t i = first; i < end; i++) {
        squares += o->x[i] * o->x[i];
        o->out[i] = o->ridge * o->x[i];
    }
    o->partials[index] = squares;
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
    p.classes = XSMI_MIN(o->own->classes - p.class, RANGE);
    p.sums = o->sums + p.run * o->own_rows * o->stride;
    return p;
}

static void add_sparse(const xsmi_objective *o, const piece *p)
{
    const xsm_gradient *g = o->gradient;
    unsigned char *touched = o->touched + p->run * o->own_rows;
    for (uint64_t i = p->first; i < p->end; i++) {
        xsmi_features x = xsmi_dataset_features(o->train, xsmi_batch_row(&o->tile, (size_t)i));
        o->model->kernels->column_update(p->sums + p->class, o->stride, x.index, x.values, x.count, p->classes,
                                         xsmi_gradient_row(g, i) + o->from + p->class, 1);
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
                                       xsmi_gradient_row(g, start) + o->from + p->class, g->width, x, n,
                                       o->model->features);
    }
}

static void add_piece(void *state, size_t index, uint32_t thread)
{
    const xsmi_objective *o = state;
    const xsm_gradient *g = o->gradient;
    const piece p = piece_at(o, index);
    (void)thread;
    if (o->own->w.layout == XSM_LAYOUT_FEATURE_MAJOR) {
        add_sparse(o, &p);
    } else {
        add_dense(o, &p);
    }
    double *bias = o->bias_sums + p.run * o->own->classes + p.class;
    for (uint64_t i = p.first; o->own->w.bias && i < p.end; i++) {
        const float *from = xsmi_gradient_row(g, i) + o->from + p.class;
        for (uint32_t k = 0; k < p.classes; k++) {
            bias[k] += (double)from[k];
        }
    }
}

/* Adds rows of the runs' matrices to the gradient and sets them to zeros. */
static void collect(void *state, size_t index, uint32_t thread)
{
    const xsmi_objective *o = state;
    bool all = o->own->w.layout == XSM_LAYOUT_CLASS_MAJOR;
    size_t first, end;
    (void)thread;
    pass_range(o, index, &first, &end);
    for (uint32_t run = 0; run < o->runs; run++) {
        for (size_t r = first; r < end; r++) {
            unsigned char *touched = o->touched + run * o->own_rows + r;
            if (all || *touched) {
                float *sums = o->sums + (run * o->own_rows + r) * o->stride;
                double *out = o->out + own_row(o, r);
                for (size_t c = 0; c < o->own_columns; c++) {
                    out[c] += o->scale * (double)sums[c];
                }
                memset(sums, 0, o->own_columns * sizeof *sums);
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

/* Starts an evaluation at x: the penalty's part of the gradient, on every rank of all parameters. */
static xsm_status start(xsmi_objective *o, const double *x, double *gradient, xsm_error *err)
{
    const size_t weights = o->rows * o->columns;
    XSMI_TRY(write(o, x, err));
    o->out = gradient;
    o->ridge = o->estimator->common.ridge / (double)o->train->rows;
    XSMI_TRY(xsmi_run(o->context, start_gradient, o, o->passes, err));
    for (size_t i = weights; i < xsmi_objective_size(o); i++) {
        gradient[i] = 0;
    }
    return XSM_OK;
}

/* Adds the gradient of a tile whose coefficients are there. */
static xsm_status add_tile(xsmi_objective *o, xsm_error *err)
{
    const size_t classes = o->own->classes;
    o->from = o->gradient->model_classes == classes ? 0 : o->own_first;
    XSMI_TRY(xsmi_run(o->context, add_piece, o, (size_t)o->ranges * o->runs, err));
    XSMI_TRY(pass(o, collect, err));
    for (size_t i = 0; o->own->w.bias && i < o->runs * classes; i++) {
        o->out[own_bias(o) + i % classes] += o->scale * o->bias_sums[i];
        o->bias_sums[i] = 0;
    }
    return XSM_OK;
}

xsm_status xsmi_objective_at(xsmi_objective *o, const double *x, double *f, double *loss, double *gradient,
                             xsm_error *err)
{
    uint64_t all = o->train->rows;
    XSMI_TRY(agree(o, start(o, x, gradient, err), err));
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
        status = agree(o, status, err);
    }
    if (status != XSM_OK) {
        if (status != XSM_CANCELLED) { /* a runner that failed midway has left sums */
            memset(o->sums, 0, o->runs * o->own_rows * o->stride * sizeof *o->sums);
        }
        return status;
    }
    XSMI_TRY(share(o, gradient, err));
    *loss = losses;
    *f = (losses + o->estimator->common.ridge / 2 * squares) / (double)all;
    return XSM_OK;
}
