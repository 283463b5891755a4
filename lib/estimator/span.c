/*
 * Gram-Schmidt on the rows of a batch (Fagan and Iyengar 2018, appendix F.3.2: the basis V_j with x_i = V_j b_i). Only
 * the coordinates b_i are needed, and they follow from the products of the rows alone: they are the rows of the pivoted
 * Cholesky factor of the Gram matrix.
 */
#include "estimator/span.h"

#include "base/activity.h"
#include "base/hash.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

/* A residual below this share of a row's squared length counts as rounding error of the products, which are floats: a
 * part of a row that is orthogonal to the rows before it vanishes if it is shorter than 7e-4 of the row. */
#define REST_LEAST 5e-7
/* Number of multiplications between two polls. */
#define POLL_WORK ((size_t)1 << 18)
/* Stands in place of a rank: the call was cancelled. */
#define STOPPED SIZE_MAX

/* A cached batch: rows[count], then coordinates[count][rank], in one allocation. */
typedef struct kept {
    struct kept *next; /* of the same bucket */
    uint64_t hash;
    size_t count, rank;
} kept;

struct xsmi_spans {
    xsm_context *context;
    const xsm_dataset *data;
    const xsmi_kernels *kernels;
    bool keep;
    kept **buckets; /* [bucket_count], if batches are cached */
    size_t bucket_count, kept_count, kept_bytes;
    uint32_t threads;
    float *spread;       /* [threads][features] zeros between calls; for sparse rows */
    size_t spread_count; /* its floats */
    double *gram;        /* [capacity][capacity] products, and space for the residual of each row */
    double *coordinates; /* the same size */
    size_t capacity;
};

static size_t kept_size(size_t count, size_t rank)
{
    return sizeof(kept) + count * sizeof(uint64_t) + count * rank * sizeof(double);
}

static uint64_t *kept_rows(kept *k)
{
    return (uint64_t *)(void *)(k + 1);
}

static double *kept_coordinates(kept *k)
{
    return (double *)(void *)(kept_rows(k) + k->count);
}

xsm_status xsmi_spans_new(xsm_context *ctx, const xsm_dataset *data, const xsmi_kernels *kernels, bool keep,
                          xsmi_spans **out, xsm_error *err)
{
    xsmi_spans *s;
    XSMI_TRY(xsmi_struct_new(ctx, &s, sizeof *s, "the spans of batches", err));
    s->context = ctx;
    s->data = data;
    s->kernels = kernels;
    s->keep = keep;
    s->threads = xsmi_context_threads(ctx);
    s->bucket_count = keep ? (size_t)data->rows / 4 + 1 : 0;
    s->buckets = keep ? xsmi_allocate_zero(ctx, s->bucket_count, sizeof *s->buckets) : NULL;
    s->spread_count = data->sparse ? (size_t)s->threads * XSMI_MAX(data->features, 1u) : 0; /* never NULL */
    s->spread = s->spread_count ? xsmi_allocate_zero(ctx, s->spread_count, sizeof *s->spread) : NULL;
    if ((keep && !s->buckets) || (s->spread_count && !s->spread)) {
        size_t bytes = s->spread_count * sizeof *s->spread;
        xsmi_spans_free(s);
        return xsmi_fail_memory(err, bytes, "the spans of batches");
    }
    *out = s;
    return XSM_OK;
}

static void release_tables(xsmi_spans *s)
{
    xsmi_release(s->context, s->gram, s->capacity * (s->capacity + 1), sizeof *s->gram);
    xsmi_release(s->context, s->coordinates, s->capacity * s->capacity, sizeof *s->coordinates);
    s->gram = s->coordinates = NULL;
    s->capacity = 0;
}

void xsmi_spans_free(xsmi_spans *s)
{
    if (s) {
        for (size_t i = 0; s->buckets && i < s->bucket_count; i++) {
            for (kept *k = s->buckets[i], *next; k; k = next) {
                next = k->next;
                xsmi_release(s->context, k, kept_size(k->count, k->rank), 1);
            }
        }
        xsmi_release(s->context, s->buckets, s->bucket_count, sizeof *s->buckets);
        xsmi_release(s->context, s->spread, s->spread_count, sizeof *s->spread);
        release_tables(s);
        xsmi_release(s->context, s, 1, sizeof *s);
    }
}

size_t xsmi_spans_kept(const xsmi_spans *s)
{
    return s->kept_count;
}

/* -- products ----------------------------------------------------------------------------------------------------- */

typedef struct gram_job {
    xsmi_spans *s;
    const uint64_t *rows;
    size_t count;
} gram_job;

/* Computes the products of row i with itself and the rows before it. */
static void run_products(void *state, size_t i, uint32_t thread)
{
    const gram_job *job = state;
    const xsmi_spans *s = job->s;
    if (xsmi_would_stop(s->context)) {
        return;
    }
    xsmi_features x = xsmi_dataset_features(s->data, job->rows[i]);
    double *out = s->gram + i * job->count;
    if (!x.index) {
        for (size_t j = 0; j <= i; j++) {
            xsmi_features y = xsmi_dataset_features(s->data, job->rows[j]);
            out[j] = (double)s->kernels->dot(x.values, y.values, x.count);
        }
        return;
    }
    float *spread = s->spread + (size_t)thread * s->data->features;
    for (size_t t = 0; t < x.count; t++) {
        spread[x.index[t]] = x.values[t];
    }
    static const uint32_t first = 0;
    for (size_t j = 0; j <= i; j++) {
        xsmi_features y = xsmi_dataset_features(s->data, job->rows[j]);
        float product;
        s->kernels->sparse_gather_scores(spread, s->data->features, &first, 1, y.index, y.values, y.count, &product);
        out[j] = (double)product;
    }
    for (size_t t = 0; t < x.count; t++) {
        spread[x.index[t]] = 0;
    }
}

/* Pivoted Cholesky: the next coordinate is along the residual of the row with the largest residual relative to its
 * length. Returns the rank, or STOPPED; coordinates are [count][rank] on return. */
static size_t factor(xsmi_spans *s, size_t n)
{
    double *left = s->gram + s->capacity * s->capacity, *b = s->coordinates;
    for (size_t i = 0; i < n; i++) {
        left[i] = s->gram[i * n + i];
    }
    size_t rank = 0, work = 0;
    for (; rank < n; rank++) {
        work += n * rank;
        if (work >= POLL_WORK) {
            work = 0;
            if (xsmi_would_stop(s->context)) {
                return STOPPED;
            }
        }
        size_t pivot = n;
        double most = REST_LEAST;
        for (size_t i = 0; i < n; i++) {
            double part = left[i] > 0 ? left[i] / s->gram[i * n + i] : 0;
            if (part > most) {
                most = part;
                pivot = i;
            }
        }
        if (pivot == n) {
            break;
        }
        double length = sqrt(left[pivot]);
        for (size_t i = 0; i < n; i++) {
            double sum = i > pivot ? s->gram[i * n + pivot] : s->gram[pivot * n + i];
            for (size_t t = 0; t < rank; t++) {
                sum -= b[i * n + t] * b[pivot * n + t];
            }
            b[i * n + rank] = i == pivot ? length : sum / length;
            left[i] -= b[i * n + rank] * b[i * n + rank];
        }
        left[pivot] = 0;
    }
    for (size_t i = 1; i < n; i++) {
        memmove(b + i * rank, b + i * n, rank * sizeof *b);
    }
    return rank;
}

/* -- the cache ---------------------------------------------------------------------------------------------------- */

static uint64_t hash_rows(const uint64_t *rows, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++) {
        hash = xsmi_hash_mix(hash, rows[i]);
    }
    return hash;
}

static kept *find(const xsmi_spans *s, uint64_t hash, const uint64_t *rows, size_t count)
{
    for (kept *k = s->keep ? s->buckets[hash % s->bucket_count] : NULL; k; k = k->next) {
        if (k->hash == hash && k->count == count && memcmp(kept_rows(k), rows, count * sizeof *rows) == 0) {
            return k;
        }
    }
    return NULL;
}

/* Stores a batch's coordinates if the cache has space for them; without memory the batch is not cached. */
static void store(xsmi_spans *s, uint64_t hash, const uint64_t *rows, size_t count, size_t rank)
{
    size_t size = kept_size(count, rank);
    kept *k = s->keep && size <= XSMI_SPANS_MOST - s->kept_bytes ? xsmi_allocate(s->context, size, 1) : NULL;
    if (k) {
        *k = (kept){s->buckets[hash % s->bucket_count], hash, count, rank};
        memcpy(kept_rows(k), rows, count * sizeof *rows);
        memcpy(kept_coordinates(k), s->coordinates, count * rank * sizeof(double));
        s->buckets[hash % s->bucket_count] = k;
        s->kept_count++;
        s->kept_bytes += size;
    }
}

xsm_status xsmi_spans_get(xsmi_spans *s, const uint64_t *rows, size_t count, const double **coordinates, size_t *rank,
                          xsm_error *err)
{
    uint64_t hash = hash_rows(rows, count);
    kept *k = find(s, hash, rows, count);
    if (k) {
        *coordinates = kept_coordinates(k);
        *rank = k->rank;
        return XSM_OK;
    }
    if (count > s->capacity) {
        release_tables(s);
        size_t square;
        if (!xsmi_multiply(count, count + 1, &square) || square > SIZE_MAX / 2 / sizeof(double)) {
            return xsmi_fail(err, XSM_ERROR_LIMIT, "the products of %zu rows cannot be addressed", count);
        }
        s->gram = xsmi_allocate(s->context, square, sizeof *s->gram);
        s->coordinates = xsmi_allocate(s->context, square - count, sizeof *s->coordinates);
        s->capacity = count;
        if (!s->gram || !s->coordinates) {
            release_tables(s);
            return xsmi_fail_memory(err, square * sizeof *s->gram, "the products of a batch's rows");
        }
    }
    gram_job job = {s, rows, count};
    XSMI_TRY(xsmi_run(s->context, run_products, &job, count, err));
    *rank = xsmi_would_stop(s->context) ? STOPPED : factor(s, count);
    if (*rank == STOPPED) {
        return xsmi_fail_cancelled(s->context, err);
    }
    *coordinates = s->coordinates;
    store(s, hash, rows, count, *rank);
    return XSM_OK;
}
