/*
 * Newton's ascent in a node of a tree (tree_fit.c): passes over its rows, and steps.
 */
#include "sampler/tree_node.h"
#include "base/activity.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

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

xsm_status xsmi_tree_pass(const xsmi_tree_node *f, const double *at, double *sums, xsm_error *err)
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

/* step = hessian^-1 gradient by Cholesky's decomposition, in place; a direction without curvature (no ridge, rows that
 * do not vary in it) gets step 0. Returns gradient . step. */
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

double xsmi_tree_newton(const xsmi_tree_node *f)
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

xsm_status xsmi_tree_climb(xsmi_tree_node *f, bool *moved, xsm_error *err)
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
        XSMI_TRY(xsmi_tree_pass(f, f->trial, f->next, err));
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
