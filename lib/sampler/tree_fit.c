/*
 * Greedy fit of a tree over the classes (Bamler and Mandt 2020, section 3, eq. 8 and 9).
 *
 * From the root down, each node splits its labels in halves. It alternates: Newton ascent on
 *     sum over rows of log sigma(zeta_y (w.x + b)) - lambda (||w||^2 + b^2)
 * and the split, which puts the half of the labels with the larger Delta_y = sum over the rows of y of (w.x + b) to the
 * right, until no label moves. The start is b = 0 and w the dominant eigenvector of the covariance of the labels' sums.
 * Of an odd number of labels the left side gets one more, so that every side can hold its own all the way down: only
 * nodes above the leaves have a side without a label.
 *
 * Nodes of a level do not depend on each other; each is fitted on one thread, rows in the order of its labels.
 */
#include "sampler/tree_fit.h"
#include "base/heap_sort.h"

#include <math.h>
#include <string.h>

enum { MOST_NEWTON = 50, MOST_ALTERNATIONS = 50, MOST_HALVINGS = 30, MOST_POWER = 100 };

typedef struct key {
    double delta;
    uint32_t label;
} key;

/* What a node came to. */
typedef struct outcome {
    double log_likelihood;
    uint32_t alternations;
    bool fitted, converged, settled;
} outcome;

typedef struct fit_work {
    xsmi_tree *tree;
    const xsmi_tree_rows *rows;
    double ridge;
    uint32_t dims;
    uint32_t *order;      /* [classes] labels, those of a node side by side */
    uint32_t *bounds[2];  /* [leaves+1] where the labels of a level's nodes begin: this level and the next */
    double *sums;         /* [classes][dims] sum of a label's codes */
    unsigned char *right; /* [classes] 1: on the right side of its node */
    key *keys;            /* [classes] */
    outcome *outcomes;    /* [nodes of a level] */
    double *scratch;      /* [threads][scratch_each] */
    size_t scratch_each;
    size_t nodes; /* of this level */
} fit_work;

/* A node being fitted: its labels, and scratch. */
typedef struct node_fit {
    const fit_work *work;
    uint32_t *labels;
    uint32_t count;
    uint64_t rows;
    double *w, *trial;       /* [dims] */
    double *gradient, *step; /* [dims] */
    double *x;               /* [dims] a row */
    double *hessian;         /* [dims][dims], lower triangle */
} node_fit;

/* -- Newton ascent ------------------------------------------------------------------------------------------------- */

/* The objective at w, with its gradient and the negative Hessian's lower triangle. *likelihood is the part without the
 * ridge. */
static double objective(const node_fit *f, const double *w, double *likelihood)
{
    const fit_work *k = f->work;
    const size_t dims = k->dims;
    double *restrict gradient = f->gradient, *restrict hessian = f->hessian, *restrict x = f->x;
    double sum = 0, product = 1;
    uint32_t in_product = 0;
    memset(gradient, 0, dims * sizeof *gradient);
    memset(hessian, 0, dims * dims * sizeof *hessian);
    for (uint32_t i = 0; i < f->count; i++) {
        uint32_t label = f->labels[i];
        double zeta = k->right[label] ? 1 : -1;
        for (uint64_t r = k->rows->starts[label]; r < k->rows->starts[label + 1]; r++) {
            const float *code = k->rows->codes + r * dims;
            double part[4] = {0};
            for (size_t j = 0; j < dims; j += 4) {
                for (size_t l = 0; l < 4; l++) {
                    x[j + l] = (double)code[j + l];
                    part[l] += w[j + l] * x[j + l];
                }
            }
            double t = zeta * ((part[0] + part[2]) + (part[1] + part[3]));
            double e = exp(-fabs(t));
            sum += t < 0 ? t : 0;
            product *= 1 + e; /* the logarithm of many factors up to 2 at once */
            if (++in_product == 512) {
                sum -= log(product);
                product = 1;
                in_product = 0;
            }
            double scale = 1 / (1 + e);
            double g = zeta * (t < 0 ? scale : e * scale), v = e * scale * scale;
            for (size_t j = 0; j < dims; j++) {
                gradient[j] += g * x[j];
            }
            for (size_t j = 0; j < dims; j++) {
                double *restrict row = hessian + j * dims;
                double vx = v * x[j];
                size_t end = (j | 3) + 1; /* of a group of four: dims is a multiple of it */
                for (size_t c = 0; c < end; c++) {
                    row[c] += vx * x[c];
                }
            }
        }
    }
    sum -= log(product);
    *likelihood = sum;
    for (size_t a = 0; a < dims; a++) {
        sum -= k->ridge * w[a] * w[a];
        gradient[a] -= 2 * k->ridge * w[a];
        hessian[a * dims + a] += 2 * k->ridge;
    }
    return sum;
}

/* step = hessian^-1 gradient by Cholesky's decomposition, in place; a direction without curvature (no ridge, rows that
 * do not vary in it) is left alone. Returns gradient . step. */
static double solve(const node_fit *f)
{
    const uint32_t d = f->work->dims;
    double *h = f->hessian, *x = f->step;
    double largest = 0;
    for (uint32_t a = 0; a < d; a++) {
        largest = h[(size_t)a * d + a] > largest ? h[(size_t)a * d + a] : largest;
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

/* Climbs from f->w; false when the limit of iterations came first. */
static bool climb(node_fit *f, double *likelihood)
{
    const uint32_t dims = f->work->dims;
    double value = objective(f, f->w, likelihood);
    /* What Newton's step would gain at most: nothing that a draw could tell. */
    const double enough = 1e-7 * (1 + (double)f->rows);
    for (int i = 0; i < MOST_NEWTON; i++) {
        if (!(solve(f) > enough)) {
            return true;
        }
        /* The step can overshoot where the logistics are flat: it is halved until it climbs. */
        double size = 1, reached, part;
        for (int half = 0;; half++, size /= 2) {
            for (uint32_t a = 0; a < dims; a++) {
                f->trial[a] = f->w[a] + size * f->step[a];
            }
            reached = objective(f, f->trial, &part);
            if (reached >= value) {
                break;
            }
            if (half == MOST_HALVINGS) {
                return true; /* rounding alone is left */
            }
        }
        memcpy(f->w, f->trial, dims * sizeof *f->w);
        value = reached;
        *likelihood = part;
    }
    return false;
}

/* -- splitting ----------------------------------------------------------------------------------------------------- */

static int compare_keys(const void *a, const void *b)
{
    const key *x = a, *y = b;
    return x->delta != y->delta ? (x->delta > y->delta) - (x->delta < y->delta)
                                : (x->label > y->label) - (x->label < y->label);
}

/* Puts the labels with the largest Delta to the right, and the labels in that order; true if one changed sides. */
static bool split(const node_fit *f, key *keys)
{
    const fit_work *k = f->work;
    uint32_t left = f->count - f->count / 2;
    bool moved = false;
    for (uint32_t i = 0; i < f->count; i++) {
        const double *sum = k->sums + (size_t)f->labels[i] * k->dims;
        double delta = 0;
        for (uint32_t a = 0; a < k->dims; a++) {
            delta += f->w[a] * sum[a];
        }
        keys[i] = (key){delta, f->labels[i]};
    }
    xsmi_heap_sort(keys, f->count, sizeof *keys, compare_keys);
    for (uint32_t i = 0; i < f->count; i++) {
        unsigned char side = i >= left;
        moved |= k->right[keys[i].label] != side;
        k->right[keys[i].label] = side;
        f->labels[i] = keys[i].label;
    }
    return moved;
}

/* The dominant eigenvector of the covariance of the labels' sums, by powers of it: a start needs few digits. */
static void start_direction(const node_fit *f)
{
    const fit_work *k = f->work;
    const uint32_t dims = k->dims, used = k->tree->pca.components;
    double *mean = f->gradient, *c = f->hessian, *next = f->step;
    memset(mean, 0, dims * sizeof *mean);
    memset(c, 0, (size_t)dims * dims * sizeof *c);
    memset(f->w, 0, dims * sizeof *f->w);
    for (uint32_t i = 0; i < f->count; i++) {
        const double *sum = k->sums + (size_t)f->labels[i] * dims;
        for (uint32_t a = 0; a < used; a++) {
            mean[a] += sum[a] / f->count;
        }
    }
    for (uint32_t i = 0; i < f->count; i++) {
        const double *sum = k->sums + (size_t)f->labels[i] * dims;
        for (uint32_t a = 0; a < used; a++) {
            double at = sum[a] - mean[a];
            for (uint32_t b = 0; b < used; b++) {
                c[(size_t)a * dims + b] += at * (sum[b] - mean[b]);
            }
        }
    }
    uint32_t most = 0;
    for (uint32_t a = 1; a < used; a++) {
        most = c[(size_t)a * dims + a] > c[(size_t)most * dims + most] ? a : most;
    }
    if (used == 0 || !(c[(size_t)most * dims + most] > 0)) {
        return; /* all alike: the split is by number */
    }
    memcpy(f->w, c + (size_t)most * dims, dims * sizeof *f->w);
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
        if (i == MOST_POWER || (i > 0 && change < 1e-6)) {
            break;
        }
        for (uint32_t a = 0; a < used; a++) {
            next[a] = 0;
            for (uint32_t b = 0; b < used; b++) {
                next[a] += c[(size_t)a * dims + b] * f->w[b];
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

static void fit_node(node_fit *f, key *keys, outcome *o)
{
    start_direction(f);
    split(f, keys);
    memset(f->w, 0, f->work->dims * sizeof *f->w);
    o->fitted = true;
    for (o->alternations = 1;; o->alternations++) {
        o->converged = climb(f, &o->log_likelihood);
        if (!split(f, keys)) {
            o->settled = true;
            return;
        }
        if (o->alternations == MOST_ALTERNATIONS) {
            o->converged = climb(f, &o->log_likelihood); /* to the sides as they are now */
            return;
        }
    }
}

static void run_node(void *state, size_t index, uint32_t thread)
{
    const fit_work *k = state;
    uint32_t first = k->bounds[0][index], end = k->bounds[0][index + 1];
    double *scratch = k->scratch + thread * k->scratch_each;
    float *node = k->tree->nodes + (k->nodes + index) * k->dims;
    outcome *o = &k->outcomes[index];
    memset(o, 0, sizeof *o);
    node_fit f = {.work = k, .labels = k->order + first, .count = end - first};
    f.w = scratch;
    f.trial = f.w + k->dims;
    f.gradient = f.trial + k->dims;
    f.step = f.gradient + k->dims;
    f.x = f.step + k->dims;
    f.hessian = f.x + k->dims;
    if (f.count < 2) {
        if (f.count > 0) {
            k->right[f.labels[0]] = 0;
        }
        node[k->tree->pca.components] = -XSMI_TREE_SURE; /* to the left */
        return;
    }
    for (uint32_t i = 0; i < f.count; i++) {
        f.rows += k->rows->starts[f.labels[i] + 1] - k->rows->starts[f.labels[i]];
        k->right[f.labels[i]] = 0;
    }
    fit_node(&f, k->keys + first, o);
    for (uint32_t a = 0; a < k->dims; a++) {
        node[a] = (float)f.w[a];
    }
}

static void run_sums(void *state, size_t index, uint32_t thread)
{
    const fit_work *k = state;
    (void)thread;
    size_t first = index * 1024, end = first + 1024 < k->tree->classes ? first + 1024 : k->tree->classes;
    for (size_t label = first; label < end; label++) {
        double *sum = k->sums + label * k->dims;
        memset(sum, 0, k->dims * sizeof *sum);
        for (uint64_t r = k->rows->starts[label]; r < k->rows->starts[label + 1]; r++) {
            for (uint32_t a = 0; a < k->dims; a++) {
                sum[a] += (double)k->rows->codes[r * k->dims + a];
            }
        }
    }
}

static xsm_status fit_levels(fit_work *k, xsmi_tree_report *report, xsm_error *err)
{
    xsmi_tree *t = k->tree;
    XSMI_TRY(xsmi_run(t->context, run_sums, k, (t->classes + 1023) / 1024, err));
    for (uint32_t i = 0; i < t->classes; i++) {
        k->order[i] = i;
    }
    k->bounds[0][0] = 0;
    k->bounds[0][1] = t->classes;
    for (uint32_t level = 0; level < t->height; level++) {
        k->nodes = (size_t)1 << level;
        XSMI_TRY(xsmi_run(t->context, run_node, k, k->nodes, err));
        for (size_t i = 0; i < k->nodes; i++) {
            const outcome *o = &k->outcomes[i];
            uint32_t first = k->bounds[0][i], count = k->bounds[0][i + 1] - first;
            k->bounds[1][2 * i] = first;
            k->bounds[1][2 * i + 1] = first + (count - count / 2);
            k->bounds[1][2 * i + 2] = first + count;
            report->log_likelihood += o->log_likelihood;
            report->fitted += o->fitted;
            report->alternations += o->alternations;
            report->not_converged += o->fitted && !o->converged;
            report->not_settled += o->fitted && !o->settled;
        }
        uint32_t *held = k->bounds[0];
        k->bounds[0] = k->bounds[1];
        k->bounds[1] = held;
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
    size_t threads = xsm_context_threads(ctx), leaves = xsmi_tree_leaves(t), classes = t->classes, dims = t->dims;
    fit_work k = {.tree = t, .rows = rows, .ridge = ridge, .dims = t->dims};
    memset(report, 0, sizeof *report);
    k.scratch_each = dims * (5 + dims);
    k.order = xsmi_allocate(ctx, classes, sizeof *k.order);
    uint32_t *bounds = xsmi_allocate(ctx, 2 * (leaves + 1), sizeof *bounds);
    k.sums = xsmi_allocate(ctx, classes * dims, sizeof *k.sums);
    k.right = xsmi_allocate_zero(ctx, classes, 1);
    k.keys = xsmi_allocate(ctx, classes, sizeof *k.keys);
    k.outcomes = xsmi_allocate(ctx, leaves, sizeof *k.outcomes);
    k.scratch = xsmi_allocate(ctx, threads * k.scratch_each, sizeof *k.scratch);
    xsm_status status;
    if (!k.order || !bounds || !k.sums || !k.right || !k.keys || !k.outcomes || !k.scratch) {
        status = xsmi_fail_memory(err, classes * dims * sizeof *k.sums, "fitting a tree");
    } else {
        k.bounds[0] = bounds;
        k.bounds[1] = bounds + leaves + 1;
        status = fit_levels(&k, report, err);
    }
    xsmi_release(ctx, k.order, classes, sizeof *k.order);
    xsmi_release(ctx, bounds, 2 * (leaves + 1), sizeof *bounds);
    xsmi_release(ctx, k.sums, classes * dims, sizeof *k.sums);
    xsmi_release(ctx, k.right, classes, 1);
    xsmi_release(ctx, k.keys, classes, sizeof *k.keys);
    xsmi_release(ctx, k.outcomes, leaves, sizeof *k.outcomes);
    xsmi_release(ctx, k.scratch, threads * k.scratch_each, sizeof *k.scratch);
    return status;
}
