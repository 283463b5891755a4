/*
 * Greedy fit of a tree over the classes (Bamler and Mandt 2020, section 3, eq. 8 and 9).
 *
 * From the root down, each node splits its labels in halves. It alternates: Newton ascent on
 *     sum over rows of log sigma(zeta_y (w.x + b)) - lambda (||w||^2 + b^2)
 * and the split, which puts the half of the labels with the larger Delta_y = sum over the rows of y of (w.x + b) to the
 * right, until no label moves and Newton's method has converged. It starts from b = 0 and w the dominant eigenvector of
 * the covariance of the labels' sums. The left side gets one label more if their number is odd. So every subtree has
 * room for its labels, and only nodes just above the leaves have a side without a label.
 *
 * A split follows each step of Newton's method, not only its convergence: both increase the objective. A split costs no
 * pass over the rows: as log sigma(t) - log sigma(-t) = t, a label that changes sides changes the likelihood by its
 * Delta, the gradient by the sum of its codes, and the Hessian not at all. So a step is one pass, which gives all three
 * at the new point.
 *
 * A node's rows are copied together first. A pass runs the kernels on blocks of them in float and adds the blocks in
 * double, in chunks whose sums are added in order. Nodes with many rows have their chunks spread over the threads, the
 * others of a level are fitted on one thread each; the bits are the same either way.
 */
#include "sampler/tree_fit.h"
#include "base/activity.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* Rows of one call of the kernels. */
#define XSMI_TREE_BLOCK 128

typedef struct xsmi_tree_key {
    double delta;
    uint32_t position;
} xsmi_tree_key;

/* The result of a node. */
typedef struct xsmi_tree_outcome {
    double log_likelihood;
    uint32_t steps;
    bool fitted, converged, settled;
} xsmi_tree_outcome;

typedef struct xsmi_tree_fitting {
    xsmi_tree *tree;
    const xsmi_kernels *kernels;
    const xsmi_tree_rows *rows;
    double ridge;
    uint32_t dims, used;  /* floats of a code; components and the 1 */
    uint32_t *order;      /* [classes] labels, those of a node contiguous */
    uint32_t *spare;      /* [classes] scratch for reordering a node's labels */
    uint64_t *first_row;  /* [classes+1] by position in `order`: the start of a label's rows */
    float *codes;         /* [rows][dims] in that order */
    float *sums;          /* [classes][dims] by position: sum of a label's codes */
    unsigned char *right; /* [classes] by position, 1: on the right side of its node */
    xsmi_tree_key *keys;  /* [classes] by position */
    uint32_t *bounds[2];  /* [leaves+1] positions where the labels of a level's nodes begin: this level and the next */
    xsmi_tree_outcome *outcomes; /* [nodes of a level] */
    double *scratch;             /* [threads][scratch_each] of nodes */
    size_t scratch_each;
    double *chunk_sums; /* [chunks][total_length] of a node whose chunks are spread over the threads */
    uint64_t chunk;     /* rows of a chunk */
    float *blocks;      /* [threads][block_each] */
    size_t total_length, block_each;
    size_t nodes; /* of this level */
} xsmi_tree_fitting;

/* A node being fitted: its positions first..first+count, and scratch. */
typedef struct xsmi_tree_node {
    const xsmi_tree_fitting *work;
    uint32_t first, count, thread;
    bool spread;             /* over the threads */
    double *w, *trial;       /* [dims] */
    double *gradient, *step; /* [dims] */
    double *hessian;         /* [used][used] the lower triangle of the negative Hessian */
    double *sums;            /* [total_length] at w; see sum_rows() */
    double *next;            /* [total_length] at the trial point */
    double *part;            /* [total_length] of a chunk */
} xsmi_tree_node;

/* The layout of a pass's sums. For components a, b < c and the constant 1 as component c: [a*c + b] is the sum of v x_a
 * x_b, [c*c + b] of v x_b, [(c+1)*c + b] of g x_b. Then follow the sums of v, of g and of the log-likelihood; g = zeta
 * sigma(-zeta s), v = sigma(s) sigma(-s). */
static inline size_t xsmi_tree_total_of_v(size_t c)
{
    return (c + 2) * c;
}

enum {
    MOST_NEWTON = 200, /* steps of a node, with splits between them */
    MOST_SPLITS = 50,  /* splits that move labels; Newton's method then continues with fixed sides */
    MOST_POWER = 30,
    LEAST_CHUNK = 4096, /* rows of one job; a multiple of XSMI_TREE_BLOCK */
    LABEL_CHUNK = 4096, /* labels of one job */
    MANY_CHUNKS = 8     /* the least chunks of a node that are spread over the threads */
};

/* -- Newton's ascent ----------------------------------------------------------------------------------------------- */

/* The most halvings of a step that does not increase the objective. */
#define MOST_HALVINGS 30

/* -- a pass -------------------------------------------------------------------------------------------------------- */

typedef struct pass_job {
    const xsmi_tree_node *fit;
    const float *w; /* [dims] */
} pass_job;

/* Adds rows from..to of a node to the sums; `label` is the position of the first row's label. */
static void add_block(const xsmi_tree_node *f, const float *w, uint64_t from, uint64_t to, uint32_t *label,
                      float *block, double *sums)
{
    const xsmi_tree_fitting *k = f->work;
    const size_t dims = k->dims, c = k->used - 1, width = c + 2, n = (size_t)(to - from);
    float *scores = block, *left = scores + XSMI_TREE_BLOCK, *right = left + XSMI_TREE_BLOCK,
          *rest = right + XSMI_TREE_BLOCK;
    float *factors = rest + XSMI_TREE_BLOCK, *products = factors + XSMI_TREE_BLOCK * width;
    const float *rows[XSMI_TREE_BLOCK];
    const float *code = k->codes + from * dims;
    for (size_t i = 0; i < n; i++) {
        rows[i] = code + i * dims;
        scores[i] = xsmi_tree_node_score(w, rows[i], (uint32_t)dims);
    }
    k->kernels->logistics(scores, n, left, right, rest);
    double of_v = 0, of_g = 0, likelihood = 0;
    for (size_t i = 0; i < n; i++) {
        while (from + i >= k->first_row[*label + 1]) {
            ++*label;
        }
        const bool on_right = k->right[*label];
        const float v = left[i] * right[i], g = on_right ? left[i] : -right[i];
        const float *restrict x = rows[i];
        float *restrict to_factors = factors + i * width;
        for (size_t a = 0; a < c; a++) {
            to_factors[a] = v * x[a];
        }
        to_factors[c] = v;
        to_factors[c + 1] = g;
        const float against = on_right ? scores[i] : -scores[i];
        of_v += (double)v;
        of_g += (double)g;
        likelihood += (double)(XSMI_MIN(against, 0)) - (double)rest[i];
    }
    memset(products, 0, width * c * sizeof *products);
    if (c > 0) {
        k->kernels->rank_update(products, c, width, factors, width, rows, n, c);
    }
    for (size_t i = 0; i < width * c; i++) {
        sums[i] += (double)products[i];
    }
    double *rest_of = sums + xsmi_tree_total_of_v(c);
    rest_of[0] += of_v;
    rest_of[1] += of_g;
    rest_of[2] += likelihood;
}

/* Adds up a chunk of a node's rows. */
static void add_chunk(const xsmi_tree_node *f, const float *w, size_t chunk, float *block, double *sums)
{
    const xsmi_tree_fitting *k = f->work;
    const uint64_t end = k->first_row[f->first + f->count];
    uint64_t from = k->first_row[f->first] + chunk * k->chunk, to = end - from < k->chunk ? end : from + k->chunk;
    uint32_t low = f->first, rest = f->count; /* the last label whose rows begin at `from` or before */
    while (rest > 1) {
        uint32_t half = rest / 2;
        if (k->first_row[low + half] <= from) {
            low += half;
            rest -= half;
        } else {
            rest = half;
        }
    }
    memset(sums, 0, k->total_length * sizeof *sums);
    for (uint64_t at = from; at < to; at += XSMI_TREE_BLOCK) {
        add_block(f, w, at, to - at < XSMI_TREE_BLOCK ? to : at + XSMI_TREE_BLOCK, &low, block, sums);
    }
}

static void run_chunk(void *state, size_t index, uint32_t thread)
{
    const pass_job *job = state;
    const xsmi_tree_fitting *k = job->fit->work;
    add_chunk(job->fit, job->w, index, k->blocks + thread * k->block_each, k->chunk_sums + index * k->total_length);
}

/* Computes the sums at w over all rows of the node. */
static xsm_status sum_rows(const xsmi_tree_node *f, const double *at, double *sums, xsm_error *err)
{
    const xsmi_tree_fitting *k = f->work;
    float *block = k->blocks + f->thread * k->block_each, *w = block + k->block_each - k->dims;
    uint64_t rows = k->first_row[f->first + f->count] - k->first_row[f->first];
    size_t chunks = (size_t)((rows + k->chunk - 1) / k->chunk);
    for (size_t a = 0; a < k->dims; a++) {
        w[a] = (float)at[a];
    }
    if (f->spread) {
        pass_job job = {f, w};
        XSMI_TRY(xsmi_run(k->tree->context, run_chunk, &job, chunks, err));
    }
    if (chunks == 1) {
        add_chunk(f, w, 0, block, sums);
        return XSM_OK;
    }
    memset(sums, 0, k->total_length * sizeof *sums);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        const double *part = f->part;
        XSMI_TRY(xsmi_go_on(k->tree->context, err));
        if (f->spread) {
            part = k->chunk_sums + chunk * k->total_length;
        } else {
            add_chunk(f, w, chunk, block, f->part);
        }
        for (size_t i = 0; i < k->total_length; i++) {
            sums[i] += part[i];
        }
    }
    return XSM_OK;
}

/* -- Newton's ascent --------------------------------------------------------------------------------------------- */

/* Sets step to hessian^-1 gradient by Cholesky's decomposition, in place; a direction without curvature (no ridge, rows
 * that do not vary in it) gets step 0. Returns gradient . step. */
static double solve(const xsmi_tree_node *f)
{
    const uint32_t d = f->work->used;
    double *h = f->hessian, *x = f->step;
    double largest = 0;
    for (uint32_t a = 0; a < d; a++) {
        largest = XSMI_MAX(h[(size_t)a * d + a], largest);
    }
    for (uint32_t a = 0; a < d; a++) {
        double *row = h + (size_t)a * d;
        for (uint32_t b = 0; b < a; b++) {
            const double *other = h + (size_t)b * d;
            double sum = row[b];
            for (uint32_t l = 0; l < b; l++) {
                sum -= row[l] * other[l];
            }
            row[b] = other[b] > 0 ? sum / other[b] : 0;
        }
        double sum = row[a];
        for (uint32_t l = 0; l < a; l++) {
            sum -= row[l] * row[l];
        }
        row[a] = sum > 1e-14 * largest ? sqrt(sum) : 0;
    }
    for (uint32_t a = 0; a < d; a++) {
        double sum = f->gradient[a];
        for (uint32_t l = 0; l < a; l++) {
            sum -= h[(size_t)a * d + l] * x[l];
        }
        x[a] = h[(size_t)a * d + a] > 0 ? sum / h[(size_t)a * d + a] : 0;
    }
    for (uint32_t a = d; a-- > 0;) {
        double sum = x[a];
        for (uint32_t l = a + 1; l < d; l++) {
            sum -= h[(size_t)l * d + a] * x[l];
        }
        x[a] = h[(size_t)a * d + a] > 0 ? sum / h[(size_t)a * d + a] : 0;
    }
    double product = 0;
    for (uint32_t a = 0; a < d; a++) {
        product += f->gradient[a] * x[a];
    }
    return product;
}

/* Returns the objective at a point, from its sums. */
static double value_of(const xsmi_tree_node *f, const double *w, const double *sums)
{
    const xsmi_tree_fitting *k = f->work;
    double value = sums[xsmi_tree_total_of_v(k->used - 1) + 2];
    for (uint32_t a = 0; a < k->used; a++) {
        value -= k->ridge * w[a] * w[a];
    }
    return value;
}

/* Computes gradient and Hessian at w from the sums there, and Newton's step. Returns twice the gain that a parabola
 * would have. */
static double find_step(const xsmi_tree_node *f)
{
    const xsmi_tree_fitting *k = f->work;
    const size_t d = k->used, c = d - 1;
    const double *rest = f->sums + xsmi_tree_total_of_v(c);
    for (size_t a = 0; a < c; a++) {
        memcpy(f->hessian + a * d, f->sums + a * c, (a + 1) * sizeof *f->hessian);
    }
    memcpy(f->hessian + c * d, f->sums + c * c, c * sizeof *f->hessian);
    memcpy(f->gradient, f->sums + (c + 1) * c, c * sizeof *f->gradient);
    f->hessian[c * d + c] = rest[0];
    f->gradient[c] = rest[1];
    for (size_t a = 0; a < d; a++) {
        f->gradient[a] -= 2 * k->ridge * f->w[a];
        f->hessian[a * d + a] += 2 * k->ridge;
    }
    return solve(f);
}

/* Moves along Newton's step as far as the objective increases; *moved is false if only rounding errors remain. */
static xsm_status climb(xsmi_tree_node *f, bool *moved, xsm_error *err)
{
    const uint32_t used = f->work->used;
    const double value = value_of(f, f->w, f->sums);
    /* The step can overshoot where the logistics are flat: it is halved until the objective increases. */
    double size = 1;
    *moved = true;
    for (int half = 0;; half++, size /= 2) {
        for (uint32_t a = 0; a < used; a++) {
            f->trial[a] = f->w[a] + size * f->step[a];
        }
        XSMI_TRY(sum_rows(f, f->trial, f->next, err));
        if (value_of(f, f->trial, f->next) >= value) {
            break;
        }
        if (half == MOST_HALVINGS) {
            *moved = false;
            return XSM_OK;
        }
    }
    double *old = f->w;
    f->w = f->trial;
    f->trial = old;
    old = f->sums;
    f->sums = f->next;
    f->next = old;
    return XSM_OK;
}

/* -- splitting ----------------------------------------------------------------------------------------------------- */

static bool is_less(const xsmi_tree_key *a, const xsmi_tree_key *b)
{
    return a->delta != b->delta ? a->delta < b->delta : a->position < b->position;
}

static int compare_keys(const void *a, const void *b)
{
    return is_less(a, b) ? -1 : is_less(b, a);
}

/* Moves the `least` smallest of n keys to the front, in an order that depends only on the keys (C. A. R. Hoare, Find,
 * 1961; sorts them after too many bad pivots). */
static void find_least(xsmi_tree_key *keys, uint32_t n, uint32_t least)
{
    uint32_t low = 0, high = n; /* the border is in this range */
    for (int tries = 0; high - low > 1 && least > low && least < high; tries++) {
        if (tries == 64) {
            xsmi_heap_sort(keys + low, high - low, sizeof *keys, compare_keys);
            return;
        }
        const xsmi_tree_key a = keys[low], b = keys[low + (high - low) / 2], c = keys[high - 1];
        const xsmi_tree_key pivot = is_less(&a, &b) ? (is_less(&b, &c)   ? b
                                                       : is_less(&a, &c) ? c
                                                                         : a)
                                                    : (is_less(&a, &c)   ? a
                                                       : is_less(&b, &c) ? c
                                                                         : b);
        uint32_t i = low, j = high - 1;
        for (;; i++, j--) {
            while (is_less(&keys[i], &pivot)) {
                i++;
            }
            while (is_less(&pivot, &keys[j])) {
                j--;
            }
            if (i >= j) {
                break;
            }
            const xsmi_tree_key old = keys[i];
            keys[i] = keys[j];
            keys[j] = old;
        }
        /* Keys before i are <= the pivot, keys from i on >= the pivot; all keys differ. */
        if (least <= i) {
            high = i;
        } else {
            low = i;
        }
    }
}

static void compute_keys(const xsmi_tree_node *f, uint32_t from, uint32_t to)
{
    const xsmi_tree_fitting *k = f->work;
    for (uint32_t i = f->first + from; i < f->first + to; i++) {
        const float *sum = k->sums + (size_t)i * k->dims;
        double delta = 0;
        for (uint32_t a = 0; a < k->used; a++) {
            delta += f->w[a] * (double)sum[a];
        }
        k->keys[i] = (xsmi_tree_key){delta, i};
    }
}

static void run_keys(void *state, const xsmi_range *r)
{
    compute_keys(state, (uint32_t)r->first, (uint32_t)r->end);
}

/* Moves the labels with the largest Delta to the right side and updates the sums for labels that change sides. *moved
 * says whether any did. */
static xsm_status split(xsmi_tree_node *f, bool *moved, xsm_error *err)
{
    const xsmi_tree_fitting *k = f->work;
    const uint32_t left = f->count - f->count / 2;
    const size_t c = k->used - 1;
    double *gradient = f->sums + (c + 1) * c, *rest = f->sums + xsmi_tree_total_of_v(c);
    xsmi_tree_key *keys = k->keys + f->first;
    if (f->spread) {
        XSMI_TRY(xsmi_run_ranges(k->tree->context, run_keys, f, f->count, LABEL_CHUNK, err));
    } else {
        compute_keys(f, 0, f->count);
    }
    find_least(keys, f->count, left);
    *moved = false;
    for (uint32_t i = 0; i < f->count; i++) {
        const unsigned char side = i >= left;
        if (k->right[keys[i].position] == side) {
            continue;
        }
        const float *sum = k->sums + (size_t)keys[i].position * k->dims;
        const double sign = side ? 1 : -1;
        k->right[keys[i].position] = side;
        *moved = true;
        for (size_t b = 0; b < c; b++) {
            gradient[b] += sign * (double)sum[b];
        }
        rest[1] += sign * (double)sum[c];
        rest[2] += sign * keys[i].delta;
    }
    return XSM_OK;
}

/* Starts with the dominant eigenvector of the covariance of the labels' sums, by power iteration: an initial value
 * needs few digits. */
static void start_direction(const xsmi_tree_node *f)
{
    const xsmi_tree_fitting *k = f->work;
    const uint32_t used = k->used - 1, d = k->used;
    const float *sums = k->sums + (size_t)f->first * k->dims;
    double *mean = f->gradient, *c = f->hessian, *next = f->step;
    memset(mean, 0, d * sizeof *mean);
    memset(c, 0, (size_t)d * d * sizeof *c);
    memset(f->w, 0, k->dims * sizeof *f->w);
    for (uint32_t i = 0; i < f->count; i++) {
        for (uint32_t a = 0; a < used; a++) {
            mean[a] += (double)sums[(size_t)i * k->dims + a] / f->count;
        }
    }
    for (uint32_t i = 0; i < f->count; i++) {
        if (i % 1024 == 0 && xsmi_poll(k->tree->context)) {
            return;
        }
        for (uint32_t a = 0; a < used; a++) {
            next[a] = (double)sums[(size_t)i * k->dims + a] - mean[a];
        }
        for (uint32_t a = 0; a < used; a++) {
            for (uint32_t b = 0; b < used; b++) {
                c[(size_t)a * d + b] += next[a] * next[b];
            }
        }
    }
    uint32_t most = 0;
    for (uint32_t a = 1; a < used; a++) {
        most = c[(size_t)a * d + a] > c[(size_t)most * d + most] ? a : most;
    }
    if (used == 0 || !(c[(size_t)most * d + most] > 0)) {
        return; /* all equal: the split is by class number */
    }
    memcpy(f->w, c + (size_t)most * d, used * sizeof *f->w);
    for (int i = 0; i <= MOST_POWER; i++) {
        double length = 0, change = 0;
        for (uint32_t a = 0; a < used; a++) {
            length += f->w[a] * f->w[a];
        }
        length = sqrt(length);
        for (uint32_t a = 0; a < used; a++) {
            f->w[a] /= length;
            change = i > 0 && fabs(f->w[a] - f->trial[a]) > change ? fabs(f->w[a] - f->trial[a]) : change;
            f->trial[a] = f->w[a];
        }
        if (i == MOST_POWER || (i > 0 && change < 1e-3)) {
            break;
        }
        for (uint32_t a = 0; a < used; a++) {
            next[a] = 0;
            for (uint32_t b = 0; b < used; b++) {
                next[a] += c[(size_t)a * d + b] * f->w[b];
            }
        }
        memcpy(f->w, next, used * sizeof *f->w);
    }
    uint32_t largest = 0;
    for (uint32_t a = 0; a < used; a++) {
        largest = fabs(f->w[a]) > fabs(f->w[largest]) ? a : largest;
    }
    double sign = f->w[largest] < 0 ? -1 : 1;
    for (uint32_t a = 0; a < used; a++) {
        f->w[a] *= sign;
    }
}

/* -- nodes --------------------------------------------------------------------------------------------------------- */

/* Copies the rows of the node's labels together, and sums each label's codes. */
static void gather_labels(const xsmi_tree_node *f, uint32_t from, uint32_t to)
{
    const xsmi_tree_fitting *k = f->work;
    const size_t dims = k->dims;
    for (uint32_t i = f->first + from; i < f->first + to; i++) {
        const uint64_t count = k->first_row[i + 1] - k->first_row[i];
        const float *source = k->rows->codes + k->rows->starts[k->order[i]] * dims;
        float *sum = k->sums + (size_t)i * dims;
        memcpy(k->codes + k->first_row[i] * dims, source, count * dims * sizeof *source);
        for (size_t a = 0; a < dims; a += 4) {
            double of[4] = {0};
            for (uint64_t r = 0; r < count; r++) {
                for (size_t l = 0; l < 4; l++) {
                    of[l] += (double)source[r * dims + a + l];
                }
            }
            for (size_t l = 0; l < 4; l++) {
                sum[a + l] = (float)of[l];
            }
        }
        k->right[i] = 0;
    }
}

static void run_gather(void *state, const xsmi_range *r)
{
    gather_labels(state, (uint32_t)r->first, (uint32_t)r->end);
}

/* Moves the labels of the left side to the front, keeping the order on each side. */
static void order_labels(const xsmi_tree_node *f)
{
    const xsmi_tree_fitting *k = f->work;
    const uint32_t end = f->first + f->count;
    uint32_t left = f->first, right = f->first + (f->count - f->count / 2);
    for (uint32_t i = f->first; i < end; i++) {
        k->spare[k->right[i] ? right++ : left++] = k->order[i];
    }
    memcpy(k->order + f->first, k->spare + f->first, f->count * sizeof *k->order);
}

static xsm_status fit_node(xsmi_tree_node *f, xsmi_tree_outcome *o, xsm_error *err)
{
    const xsmi_tree_fitting *k = f->work;
    const uint64_t rows = k->first_row[f->first + f->count] - k->first_row[f->first];
    /* The most that Newton's step could gain: too little to change draws. */
    const double enough = 1e-9 * (1 + (double)rows);
    bool moved, stuck = false;
    if (f->spread) {
        XSMI_TRY(xsmi_run_ranges(k->tree->context, run_gather, f, f->count, LABEL_CHUNK, err));
    } else {
        gather_labels(f, 0, f->count);
    }
    start_direction(f);
    XSMI_TRY(split(f, &moved, err));
    memset(f->w, 0, k->dims * sizeof *f->w);
    memset(f->trial, 0, k->dims * sizeof *f->trial);
    XSMI_TRY(sum_rows(f, f->w, f->sums, err));
    uint32_t splits = 0;
    o->fitted = true;
    for (o->steps = 0;; o->steps++) {
        XSMI_TRY(xsmi_go_on(k->tree->context, err));
        o->converged = stuck || !(find_step(f) > enough);
        if (!o->converged) {
            if (o->steps == MOST_NEWTON) {
                break;
            }
            XSMI_TRY(climb(f, &moved, err));
            stuck = !moved;
        }
        if (o->converged && o->settled) {
            break;
        }
        if (splits < MOST_SPLITS) {
            XSMI_TRY(split(f, &moved, err));
            o->settled = !moved;
            splits += moved;
            stuck &= !moved;
        } else if (o->converged) {
            break;
        }
    }
    o->log_likelihood = f->sums[xsmi_tree_total_of_v(k->used - 1) + 2];
    order_labels(f);
    return XSM_OK;
}

/* Fits node `index` of the level. */
static xsm_status fit_level_node(const xsmi_tree_fitting *k, size_t index, uint32_t thread, bool spread, xsm_error *err)
{
    const uint32_t first = k->bounds[0][index], end = k->bounds[0][index + 1];
    const size_t dims = k->dims;
    float *node = k->tree->nodes + (k->nodes + index) * dims;
    xsmi_tree_outcome *o = &k->outcomes[index];
    memset(o, 0, sizeof *o);
    if (end - first < 2) {
        node[k->used - 1] = -XSMI_TREE_SURE; /* to the left */
        return XSM_OK;
    }
    xsmi_tree_node f = {.work = k, .first = first, .count = end - first, .thread = thread, .spread = spread};
    f.w = k->scratch + thread * k->scratch_each;
    f.trial = f.w + dims;
    f.gradient = f.trial + dims;
    f.step = f.gradient + dims;
    f.hessian = f.step + dims;
    f.sums = f.hessian + (size_t)k->used * k->used;
    f.next = f.sums + k->total_length;
    f.part = f.next + k->total_length;
    XSMI_TRY(fit_node(&f, o, err));
    for (size_t a = 0; a < k->used; a++) {
        node[a] = (float)f.w[a];
    }
    return XSM_OK;
}

static size_t rows_of(const xsmi_tree_fitting *k, size_t index)
{
    return (size_t)(k->first_row[k->bounds[0][index + 1]] - k->first_row[k->bounds[0][index]]);
}

static bool is_large(const xsmi_tree_fitting *k, size_t index)
{
    return rows_of(k, index) >= MANY_CHUNKS * k->chunk;
}

static void run_node(void *state, size_t index, uint32_t thread)
{
    const xsmi_tree_fitting *k = state;
    if (!is_large(k, index)) {
        (void)fit_level_node(k, index, thread, false, NULL); /* on one thread it fails only if the call is cancelled */
        xsmi_advance(k->tree->context, rows_of(k, index));
    }
}

static xsm_status fit_level(const xsmi_tree_fitting *k, xsm_error *err)
{
    uint64_t *first_row = k->first_row;
    first_row[0] = 0;
    for (uint32_t i = 0; i < k->tree->classes; i++) {
        const uint64_t *starts = k->rows->starts + k->order[i];
        first_row[i + 1] = first_row[i] + (starts[1] - starts[0]);
    }
    for (size_t i = 0; i < k->nodes; i++) {
        if (is_large(k, i)) {
            XSMI_TRY(fit_level_node(k, i, 0, true, err));
            xsmi_advance(k->tree->context, rows_of(k, i));
        }
    }
    return xsmi_run(k->tree->context, run_node, (void *)(uintptr_t)k, k->nodes, err);
}

static xsm_status fit_levels(xsmi_tree_fitting *k, xsmi_tree_report *report, xsm_error *err)
{
    xsmi_tree *t = k->tree;
    for (uint32_t i = 0; i < t->classes; i++) {
        k->order[i] = i;
    }
    k->bounds[0][0] = 0;
    k->bounds[0][1] = t->classes;
    for (uint32_t level = 0; level < t->height; level++) {
        k->nodes = (size_t)1 << level;
        XSMI_TRY(fit_level(k, err));
        for (size_t i = 0; i < k->nodes; i++) {
            const xsmi_tree_outcome *o = &k->outcomes[i];
            uint32_t first = k->bounds[0][i], count = k->bounds[0][i + 1] - first;
            k->bounds[1][2 * i] = first;
            k->bounds[1][2 * i + 1] = first + (count - count / 2);
            k->bounds[1][2 * i + 2] = first + count;
            report->log_likelihood += o->log_likelihood;
            report->fitted += o->fitted;
            report->steps += o->steps;
            report->not_converged += o->fitted && !o->converged;
            report->not_settled += o->fitted && !o->settled;
        }
        uint32_t *old = k->bounds[0];
        k->bounds[0] = k->bounds[1];
        k->bounds[1] = old;
    }
    for (size_t leaf = 0; leaf < xsmi_tree_leaves(t); leaf++) {
        if (k->bounds[0][leaf] < k->bounds[0][leaf + 1]) {
            uint32_t label = k->order[k->bounds[0][leaf]];
            t->leaf_class[leaf] = label;
            t->class_leaf[label] = (uint32_t)leaf;
        }
    }
    report->rows = k->rows->starts[t->classes];
    return XSM_OK;
}

xsm_status xsmi_tree_fit(xsmi_tree *t, const xsmi_tree_rows *rows, double ridge, xsmi_tree_report *report,
                         xsm_error *err)
{
    xsm_context *ctx = t->context;
    const size_t threads = xsmi_context_threads(ctx), leaves = xsmi_tree_leaves(t), classes = t->classes;
    const size_t dims = t->dims, used = t->pca.components + 1;
    const uint64_t row_labels = rows->starts[classes];
    xsmi_tree_fitting k = {
        .tree = t, .kernels = xsmi_context_kernels(ctx), .rows = rows, .ridge = ridge, .dims = t->dims};
    memset(report, 0, sizeof *report);
    k.used = (uint32_t)used;
    k.total_length = xsmi_tree_total_of_v(used - 1) + 3;
    k.scratch_each = 4 * dims + used * used + 3 * k.total_length;
    k.block_each = (XSMI_TREE_BLOCK * (4 + used + 1) + (used + 1) * (used - 1) + dims + 15) / 16 * 16;
    /* Makes chunks so long that their sums take little memory compared with the rows. */
    k.chunk = LEAST_CHUNK * (uint64_t)((k.total_length + 1023) / 1024);
    const size_t chunks = (size_t)((row_labels + k.chunk - 1) / k.chunk);
    xsmi_held held = {.context = ctx};
    uint32_t *bounds = xsmi_hold(&held, (uint64_t)2 * (leaves + 1), sizeof *bounds);
    k.order = xsmi_hold(&held, classes, sizeof *k.order);
    k.spare = xsmi_hold(&held, classes, sizeof *k.spare);
    k.first_row = xsmi_hold(&held, classes + 1, sizeof *k.first_row);
    k.codes = xsmi_hold(&held, (uint64_t)row_labels * dims, sizeof *k.codes);
    k.sums = xsmi_hold(&held, (uint64_t)classes * dims, sizeof *k.sums);
    k.right = xsmi_hold_zeros(&held, classes, 1);
    k.keys = xsmi_hold(&held, classes, sizeof *k.keys);
    k.outcomes = xsmi_hold(&held, leaves, sizeof *k.outcomes);
    k.scratch = xsmi_hold(&held, (uint64_t)threads * k.scratch_each, sizeof *k.scratch);
    k.chunk_sums = xsmi_hold(&held, (uint64_t)chunks * k.total_length, sizeof *k.chunk_sums);
    k.blocks = xsmi_hold(&held, (uint64_t)threads * k.block_each, sizeof *k.blocks);
    xsm_status status = xsmi_held_check(&held, "fitting a tree", err);
    if (status == XSM_OK) {
        k.bounds[0] = bounds;
        k.bounds[1] = bounds + leaves + 1;
        xsmi_activity activity;
        xsmi_begin(&activity, ctx, "fitting a tree", "labels", row_labels * t->height);
        status = xsmi_end(&activity, fit_levels(&k, report, err), err);
    }
    xsmi_held_release(&held);
    return status;
}
