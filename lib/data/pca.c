/*
 * Principal components.
 *
 * One pass over the rows maps an orthonormal basis Q of l = k + 10 directions to Z = C Q, where C is the covariance of
 * the (centred, perhaps scaled) rows. It also gives the small matrix Q'CQ, whose eigenvectors are the best
 * approximation within Q. Dense rows are centred block by block and go through the kernels of full scoring; sparse
 * rows keep their zeros, and the centre is subtracted from the sums.
 *
 * The rows are cut into pieces whose number depends only on the shape of the data. The sums of the pieces are added in
 * order.
 */
#include "data/pca.h"
#include "base/activity.h"
#include "base/order.h"
#include "base/random.h"
#include "math/symmetric.h"

#include <math.h>
#include <string.h>

enum { EXTRA = 10, MOST_PASSES = 30, BLOCK = XSMI_LANES, MOST_PIECES = 64 };
/* Memory that the sums of all pieces may take. */
#define PIECE_BYTES ((size_t)256 << 20)
/* A pass that changes the sum of the variances by less than this is the last. */
#define SETTLED 1e-5

typedef struct pca_work {
    xsm_context *context;
    const xsmi_kernels *kernels;
    const xsm_dataset *data;
    size_t d, l, pieces, threads;
    double *mean, *scale; /* [d] scale = 1/deviation, or 1; 0 for a constant feature */
    double *basis;        /* [l][d] orthonormal */
    float *q;             /* dense: [l][d] the basis times scale; sparse: [d][l] */
    double *q_mean;       /* [l] q' mean, sparse */
    float *sums;          /* [pieces][l*d] sum of x y', laid out as q */
    double *gram;         /* [pieces][l*l] sum of y y' */
    double *ysums;        /* [pieces][l] sum of y */
    double *image;        /* [l][d] C Q */
    double *moments;      /* [pieces][2][d] for the means */
    float *scratch;       /* [threads][scratch_each] */
    size_t scratch_each;
} pca_work;

static void piece_rows(const pca_work *w, size_t piece, uint64_t *first, uint64_t *end)
{
    uint64_t each = w->data->rows / w->pieces, rest = w->data->rows % w->pieces;
    *first = piece * each + XSMI_MIN(piece, rest);
    *end = *first + each + (piece < rest);
}

/* -- means --------------------------------------------------------------------------------------------------------- */

/* Sums each feature and, once the means are known, the squares of its distances from them. */
static void run_moments(void *state, size_t piece, uint32_t thread)
{
    const pca_work *w = state;
    uint64_t first, end;
    (void)thread;
    piece_rows(w, piece, &first, &end);
    double *sum = w->moments + piece * 2 * w->d, *squares = sum + w->d;
    memset(sum, 0, 2 * w->d * sizeof *sum);
    for (uint64_t i = first; i < end; i++) {
        if ((i - first) % BLOCK == 0) {
            if (xsmi_poll(w->context)) {
                return;
            }
            xsmi_advance(w->context, BLOCK);
        }
        xsmi_features x = xsmi_dataset_features(w->data, i);
        for (size_t j = 0; j < x.count; j++) {
            size_t feature = x.index ? x.index[j] : j;
            double value = (double)x.values[j], centred = value - w->mean[feature];
            sum[feature] += value;
            /* for sparse rows the contribution of a zero is subtracted here and added for all rows afterwards */
            squares[feature] += x.index ? centred * centred - w->mean[feature] * w->mean[feature] : centred * centred;
        }
    }
}

static xsm_status compute_moments(pca_work *w, bool correlation, xsm_error *err)
{
    double n = (double)w->data->rows;
    memset(w->mean, 0, w->d * sizeof *w->mean);
    for (int pass = 0; pass < 2; pass++) {
        XSMI_TRY(xsmi_run(w->context, run_moments, w, w->pieces, err));
        for (size_t j = 0; j < w->d; j++) {
            double sum = 0, squares = 0;
            for (size_t p = 0; p < w->pieces; p++) {
                sum += w->moments[p * 2 * w->d + j];
                squares += w->moments[(p * 2 + 1) * w->d + j];
            }
            if (pass == 0) {
                w->mean[j] = (double)(float)(sum / n); /* models store floats */
                continue;
            }
            squares += w->data->sparse ? n * w->mean[j] * w->mean[j] : 0;
            double shift = sum / n - w->mean[j], variance = squares / n - shift * shift;
            double least = 1e-12 * (w->mean[j] * w->mean[j]);
            w->scale[j] = !correlation ? 1 : variance > least && variance > 0 ? 1 / sqrt(variance) : 0;
        }
    }
    return XSM_OK;
}

/* -- a pass -------------------------------------------------------------------------------------------------------- */

/* Rows of one job of a pass, and its sums. */
typedef struct piece {
    uint64_t first, end;
    float *scratch; /* the thread's */
    float *sums;    /* [l][d], for sparse rows [d][l] */
    double *gram;   /* [l][l] */
    double *ysum;   /* [l] */
} piece;

static void add_gram(const pca_work *w, const piece *p, const float *y, size_t rows, size_t stride)
{
    for (size_t i = 0; i < rows; i++) {
        const float *of = y + i * stride;
        for (size_t a = 0; a < w->l; a++) {
            double value = (double)of[a];
            p->ysum[a] += value;
            for (size_t b = 0; b <= a; b++) {
                p->gram[a * w->l + b] += value * (double)of[b];
            }
        }
    }
}

static void pass_dense(const pca_work *w, const piece *p)
{
    size_t d = w->d, l = w->l;
    float *centred = p->scratch, *packed = centred + BLOCK * d, *scores = packed + BLOCK * d;
    float *y = scores + (l + BLOCK) / BLOCK * BLOCK * BLOCK;
    const float *rows[BLOCK];
    for (uint64_t start = p->first; start < p->end; start += BLOCK) {
        size_t n = (size_t)XSMI_MIN(p->end - start, BLOCK);
        if (xsmi_poll(w->context)) {
            return;
        }
        xsmi_advance(w->context, n);
        for (size_t i = 0; i < n; i++) {
            const float *x = xsmi_dataset_features(w->data, start + i).values;
            float *to = centred + i * d;
            rows[i] = to;
            for (size_t j = 0; j < d; j++) {
                to[j] = (float)(((double)x[j] - w->mean[j]) * w->scale[j]);
            }
        }
        w->kernels->pack(rows, n, d, packed);
        for (size_t c = 0; c < l; c += XSMI_CLASS_TILE) {
            size_t count = XSMI_MIN(l - c, XSMI_CLASS_TILE);
            w->kernels->score_tile(w->q + c * d, d, count, packed, d, 1, NULL, NULL, scores + c * BLOCK);
        }
        for (size_t i = 0; i < n; i++) {
            for (size_t c = 0; c < l; c++) {
                y[i * l + c] = scores[c * BLOCK + i];
            }
        }
        w->kernels->rank_update(p->sums, d, l, y, l, rows, n, d);
        add_gram(w, p, y, n, l);
    }
}

static void pass_sparse(const pca_work *w, const piece *p)
{
    size_t l = w->l;
    for (uint64_t i = p->first; i < p->end; i++) {
        if ((i - p->first) % BLOCK == 0) {
            if (xsmi_poll(w->context)) {
                return;
            }
            xsmi_advance(w->context, BLOCK);
        }
        xsmi_features x = xsmi_dataset_features(w->data, i);
        for (size_t c = 0; c < l; c++) {
            p->scratch[c] = (float)-w->q_mean[c];
        }
        w->kernels->column_sums(w->q, l, x.index, x.values, x.count, l, p->scratch);
        w->kernels->column_update(p->sums, l, x.index, x.values, x.count, l, p->scratch, 1);
        add_gram(w, p, p->scratch, 1, l);
    }
}

static void run_pass(void *state, size_t index, uint32_t thread)
{
    const pca_work *w = state;
    piece p = {.scratch = w->scratch + thread * w->scratch_each,
               .sums = w->sums + index * w->l * w->d,
               .gram = w->gram + index * w->l * w->l,
               .ysum = w->ysums + index * w->l};
    piece_rows(w, index, &p.first, &p.end);
    memset(p.sums, 0, w->l * w->d * sizeof *p.sums);
    memset(p.gram, 0, w->l * w->l * sizeof *p.gram);
    memset(p.ysum, 0, w->l * sizeof *p.ysum);
    if (w->data->sparse) {
        pass_sparse(w, &p);
    } else {
        pass_dense(w, &p);
    }
}

static void join_direction(void *state, size_t c, uint32_t thread)
{
    const pca_work *w = state;
    size_t d = w->d, l = w->l;
    double total = 0, *image = w->image + c * d;
    (void)thread;
    for (size_t p = 0; p < w->pieces; p++) {
        total += w->ysums[p * l + c];
    }
    for (size_t j = 0; j < d; j++) {
        double sum = 0;
        for (size_t p = 0; p < w->pieces; p++) {
            sum += (double)w->sums[p * l * d + (w->data->sparse ? j * l + c : c * d + j)];
        }
        if (w->data->sparse) { /* dense rows were centred and scaled */
            sum = (sum - total * w->mean[j]) * w->scale[j];
        }
        image[j] = sum / (double)w->data->rows;
    }
}

/* Computes the image of the basis, and the covariance within the basis, [l][l]. */
static xsm_status pass(pca_work *w, double *inner, xsm_error *err)
{
    size_t d = w->d, l = w->l;
    double n = (double)w->data->rows;
    for (size_t c = 0; c < l; c++) {
        double along = 0;
        for (size_t j = 0; j < d; j++) {
            /* dense rows are scaled as they are copied */
            double entry = w->basis[c * d + j] * (w->data->sparse ? w->scale[j] : 1);
            w->q[w->data->sparse ? j * l + c : c * d + j] = (float)entry;
            along += (double)(float)entry * w->mean[j];
        }
        w->q_mean[c] = along;
    }
    XSMI_TRY(xsmi_run(w->context, run_pass, w, w->pieces, err));
    XSMI_TRY(xsmi_run(w->context, join_direction, w, l, err));
    for (size_t a = 0; a < l; a++) {
        for (size_t b = 0; b <= a; b++) {
            double sum = 0, left = 0, right = 0;
            for (size_t p = 0; p < w->pieces; p++) {
                sum += w->gram[p * l * l + a * l + b];
                left += w->ysums[p * l + a];
                right += w->ysums[p * l + b];
            }
            inner[a * l + b] = inner[b * l + a] = sum / n - left / n * (right / n);
        }
    }
    return XSM_OK;
}

/* -- the whole ----------------------------------------------------------------------------------------------------- */

/* Polls, for xsmi_orthonormalise(). */
static bool goes_on(void *state)
{
    return !xsmi_poll(((const pca_work *)state)->context);
}

static void start_basis(pca_work *w, uint64_t seed)
{
    for (size_t j = 0; j < w->d; j++) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, seed, XSMI_STREAM_PCA, j);
        for (size_t c = 0; c < w->l; c++) {
            w->basis[c * w->d + j] = 2 * xsmi_stream_uniform(&stream) - 1;
        }
    }
    xsmi_orthonormalise(w->basis, w->l, w->d, goes_on, w);
}

xsm_status xsmi_pca_start(xsm_context *ctx, uint32_t features, uint32_t components, xsmi_pca *out, xsm_error *err)
{
    out->context = out->held.context = ctx;
    out->features = features;
    out->components = components;
    out->direction = xsmi_hold_zeros(&out->held, (uint64_t)features * components, sizeof *out->direction);
    out->mean = xsmi_hold_zeros(&out->held, features, sizeof *out->mean);
    out->offset = xsmi_hold_zeros(&out->held, components, sizeof *out->offset);
    out->variance = xsmi_hold_zeros(&out->held, components, sizeof *out->variance);
    const xsm_status status = xsmi_held_check(&out->held, "principal components", err);
    if (status != XSM_OK) {
        xsmi_pca_clear(out);
    }
    return status;
}

/* Makes the eigenvectors within the basis the components. */
static xsm_status finish(const pca_work *w, const xsmi_pca_options *o, const double *values, const double *vectors,
                         xsmi_pca *out, xsm_error *err)
{
    size_t k = 0;
    while (k < o->components && values[k] > 1e-9 * values[0] && values[k] > 0) {
        k++;
    }
    XSMI_TRY(xsmi_pca_start(w->context, (uint32_t)w->d, (uint32_t)k, out, err));
    for (size_t c = 0; c < k; c++) {
        size_t largest = 0;
        if (xsmi_poll(w->context)) {
            xsmi_pca_clear(out);
            return xsmi_fail_cancelled(w->context, err);
        }
        for (size_t j = 0; j < w->d; j++) {
            double entry = 0;
            for (size_t i = 0; i < w->l; i++) {
                entry += vectors[c * w->l + i] * w->basis[i * w->d + j];
            }
            w->image[j] = entry;
            largest = fabs(entry) > fabs(w->image[largest]) ? j : largest;
        }
        double size = (w->image[largest] < 0 ? -1 : 1) * (o->whiten ? 1 / sqrt(values[c]) : 1);
        for (size_t j = 0; j < w->d; j++) {
            out->direction[j * k + c] = (float)(w->image[j] * w->scale[j] * size);
        }
        out->variance[c] = values[c];
    }
    for (size_t j = 0; j < w->d; j++) {
        out->mean[j] = (float)w->mean[j];
    }
    xsmi_pca_set_offset(out);
    return XSM_OK;
}

static xsm_status iterate(pca_work *w, const xsmi_pca_options *o, xsmi_pca *out, xsm_error *err)
{
    size_t l = w->l;
    xsmi_held held = {.context = w->context};
    double *inner = xsmi_hold(&held, (uint64_t)l * l, sizeof *inner);
    double *vectors = xsmi_hold(&held, (uint64_t)l * l, sizeof *vectors);
    double *values = xsmi_hold(&held, l, sizeof *values);
    xsm_status status = xsmi_held_check(&held, "principal components", err);
    if (status == XSM_OK) {
        double before = 0;
        start_basis(w, o->seed);
        for (int i = 0; i < MOST_PASSES; i++) {
            status = pass(w, inner, err);
            status = status == XSM_OK ? xsmi_go_on(w->context, err) : status;
            if (status != XSM_OK) {
                break;
            }
            xsmi_symmetric_eigen(inner, l, values, vectors);
            double sum = 0;
            for (size_t c = 0; c < o->components; c++) {
                sum += XSMI_MAX(values[c], 0);
            }
            if (l == w->d || fabs(sum - before) <= SETTLED * sum || i + 1 == MOST_PASSES) {
                xsmi_log(w->context, XSM_LOG_INFO,
                         "%zu principal components of %zu features after %d passes over the rows",
                         (size_t)o->components, w->d, i + 1);
                break;
            }
            before = sum;
            memcpy(w->basis, w->image, l * w->d * sizeof *w->basis);
            xsmi_orthonormalise(w->basis, l, w->d, goes_on, w);
        }
    }
    if (status == XSM_OK) {
        status = finish(w, o, values, vectors, out, err);
    }
    xsmi_held_release(&held);
    return status;
}

xsm_status xsmi_pca_fit(xsm_context *ctx, const xsm_dataset *data, const xsmi_pca_options *options, xsmi_pca *out,
                        xsm_error *err)
{
    memset(out, 0, sizeof *out);
    if (options->components == 0 || options->components > data->features) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u principal components asked for; rows of %u features have 1 to %u",
                         options->components, data->features, data->features);
    }
    XSMI_TRY(xsmi_check_dimensions(data->features, 1, err));
    pca_work w = {.context = ctx, .kernels = xsmi_context_kernels(ctx), .data = data, .d = data->features};
    w.l = XSMI_MIN((size_t)options->components + EXTRA, w.d);
    w.threads = xsmi_context_threads(ctx);
    const uint64_t each = (uint64_t)w.l * w.d * sizeof *w.sums;
    const uint64_t pieces = XSMI_MIN(PIECE_BYTES / each, data->rows / 64);
    w.pieces = (size_t)XSMI_CLAMP(pieces, 1, MOST_PIECES);
    /* dense: a block centred, packed, scored and transposed */
    w.scratch_each = data->sparse ? w.l : BLOCK * (2 * w.d + (w.l + BLOCK) / BLOCK * BLOCK + w.l);
    w.scratch_each = (w.scratch_each + 15) / 16 * 16;
    xsmi_held held = {.context = ctx};
    w.mean = xsmi_hold(&held, w.d, sizeof *w.mean);
    w.scale = xsmi_hold(&held, w.d, sizeof *w.scale);
    w.basis = xsmi_hold(&held, (uint64_t)w.l * w.d, sizeof *w.basis);
    w.q = xsmi_hold(&held, (uint64_t)w.l * w.d, sizeof *w.q);
    w.q_mean = xsmi_hold(&held, w.l, sizeof *w.q_mean);
    w.sums = xsmi_hold(&held, (uint64_t)w.pieces * w.l * w.d, sizeof *w.sums);
    w.gram = xsmi_hold(&held, (uint64_t)w.pieces * w.l * w.l, sizeof *w.gram);
    w.ysums = xsmi_hold(&held, (uint64_t)w.pieces * w.l, sizeof *w.ysums);
    w.image = xsmi_hold(&held, (uint64_t)w.l * w.d, sizeof *w.image);
    w.moments = xsmi_hold(&held, (uint64_t)w.pieces * 2 * w.d, sizeof *w.moments);
    w.scratch = xsmi_hold(&held, (uint64_t)w.threads * w.scratch_each, sizeof *w.scratch);
    xsm_status status = xsmi_held_check(&held, "principal components", err);
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "finding principal components", "rows", 0);
    if (status == XSM_OK) {
        status = compute_moments(&w, options->correlation, err);
    }
    if (status == XSM_OK) {
        status = iterate(&w, options, out, err);
    }
    status = xsmi_end(&activity, status, err);
    xsmi_held_release(&held);
    return status;
}

void xsmi_pca_clear(xsmi_pca *p)
{
    xsmi_held_release(&p->held);
    memset(p, 0, sizeof *p);
}

void xsmi_pca_set_offset(xsmi_pca *p)
{
    for (size_t c = 0; c < p->components; c++) {
        p->offset[c] = 0;
        for (size_t j = 0; j < p->features; j++) {
            p->offset[c] += (double)p->mean[j] * (double)p->direction[j * p->components + c];
        }
    }
}

void xsmi_pca_encode(const xsmi_pca *p, const xsmi_features *x, float *code)
{
    enum { TOGETHER = 16 };
    size_t k = p->components;
    for (size_t start = 0; start < k; start += TOGETHER) {
        size_t n = XSMI_MIN(k - start, TOGETHER);
        double sum[TOGETHER] = {0};
        for (size_t c = 0; x->index && c < n; c++) {
            sum[c] = -p->offset[start + c];
        }
        for (size_t i = 0; i < x->count; i++) {
            size_t j = x->index ? x->index[i] : i;
            double value = (double)x->values[i] - (x->index ? 0 : (double)p->mean[j]);
            const float *direction = p->direction + j * k + start;
            if (n == TOGETHER) {
                for (size_t c = 0; c < TOGETHER; c++) {
                    sum[c] += value * (double)direction[c];
                }
            } else {
                for (size_t c = 0; c < n; c++) {
                    sum[c] += value * (double)direction[c];
                }
            }
        }
        for (size_t c = 0; c < n; c++) {
            code[start + c] = (float)sum[c];
        }
    }
}
