/*
 * Solving the implicit step of a batch. L-BFGS (Liu and Nocedal 1989, libLBFGS) does most of the work. Its line search
 * compares values of the objective, which lose their last digits well before the gradient does. So Newton steps by
 * conjugate gradients, which use only gradients, finish where it stops. A build without libLBFGS takes them from the
 * start.
 */
#include "math/proximal_batch.h"

#include "base/activity.h"
#include "base/order.h"
#include "base/system.h"
#include "math/omega.h"

#if XSMI_HAVE_LBFGS
#include <lbfgs.h>
#endif

#include <math.h>
#include <string.h>

enum { NEWTON_STEPS = 100, CG_STEPS = 200 };
/* Multiplications between two polls. */
#define POLL_WORK ((size_t)1 << 18)

static size_t variables(const xsmi_proximal_batch *p)
{
    return p->classes * (p->rank + p->bias);
}

/* libLBFGS needs vectors of whole SSE registers; the padding is zeros and stays zero. */
static size_t padded(size_t count)
{
    return (count + 15) / 16 * 16;
}

size_t xsmi_proximal_batch_work(size_t examples, size_t classes, size_t rank)
{
    const size_t most = SIZE_MAX / sizeof(double) / 16;
    if (classes > 0 && (rank + 1 > most / classes || examples > most / classes)) {
        return SIZE_MAX;
    }
    /* Vectors: the point, and of Newton's method the gradient, step, residual, direction, image and a point to go back
     * to; tables: scores of a direction, and class shares; by example: v. */
    return 7 * padded(classes * (rank + 1)) + 2 * examples * classes + examples;
}

typedef struct problem {
    xsmi_proximal_batch *p;
    double scale;  /* of libLBFGS's variables x: the point is scale * x */
    double first;  /* value at 0 */
    double *share; /* [n][J] pi_ij = dT_i/dz_ij for the others; at the label -sum */
    double *v;     /* [n] dh_i/dT_i */
    double *image; /* [n][J] */
    double tolerance;
    size_t count;
} problem;

/* Sets u, which minimises eta (u + e^(T - u)) + (u - old)^2/2, and returns v = eta e^(T - u). */
static double settle(double eta, double t, double old, double *u)
{
    double v = xsmi_omega(log(eta) + t - old + eta);
    double at = old + (v - eta);
    /* The difference loses digits where eta is large: Newton steps on eta (1 - e^(T-u)) + u - old, which rises in u. */
    for (int i = 0; i < 3; i++) {
        double e = expm1(t - at);
        double next = at - (-eta * e + (at - old)) / (eta * (e + 1) + 1);
        if (!(fabs(next - at) > 1e-16 * fabs(at))) {
            break;
        }
        at = next;
    }
    *u = XSMI_MAX(at, 0);
    return v;
}

static size_t poll_end(xsmi_proximal_batch *p, size_t i)
{
    p->stopped = p->stopped || (i > 0 && i < p->examples && xsmi_would_stop(p->context));
    return p->stopped ? i : XSMI_MIN(p->examples, i + POLL_WORK / (p->classes * (p->rank + 1)) + 1);
}

/* Returns the end of the run of examples from i on that is worked on before the next poll; i if there are no more, or
 * if the call was cancelled. */
static inline size_t end_at(xsmi_proximal_batch *p, size_t i)
{
    return p->context ? poll_end(p, i) : p->examples;
}

/* z_ij = level_ij + sign (M p)_ij of the examples first..end; level NULL: zeros. */
static void apply_some(const xsmi_proximal_batch *p, size_t first, size_t end, const double *point, const double *level,
                       double sign, double *z)
{
    size_t r = p->rank, each = r + p->bias;
    double root = sqrt(p->shrink);
    for (size_t i = first; i < end; i++) {
        const double *q = p->coordinates + i * r;
        for (size_t j = 0; j < p->classes; j++) {
            const double *a = point + j * each;
            double sum = 0;
            for (size_t t = 0; t < r; t++) {
                sum += q[t] * a[t];
            }
            sum = root * sum + (p->bias ? a[r] : 0);
            z[i * p->classes + j] = (level ? level[i * p->classes + j] : 0) + sign * sum;
        }
    }
}

static void apply(xsmi_proximal_batch *p, const double *point, const double *level, double sign, double *z)
{
    for (size_t i = 0, end; (end = end_at(p, i)) > i; i = end) {
        apply_some(p, i, end, point, level, sign, z);
    }
}

/* out_j += sum_i c_ij (sqrt(s) q_i, b): the transpose of apply_some(). */
static void add_transposed(const xsmi_proximal_batch *p, size_t first, size_t end, const double *c, double *out)
{
    size_t r = p->rank, each = r + p->bias;
    double root = sqrt(p->shrink);
    for (size_t i = first; i < end; i++) {
        const double *q = p->coordinates + i * r;
        for (size_t j = 0; j < p->classes; j++) {
            double amount = c[i * p->classes + j], *a = out + j * each;
            for (size_t t = 0; amount != 0 && t < r; t++) {
                a[t] += root * amount * q[t];
            }
            if (p->bias) {
                a[r] += amount;
            }
        }
    }
}

static void apply_transposed(xsmi_proximal_batch *p, const double *c, double *out)
{
    memset(out, 0, variables(p) * sizeof *out);
    for (size_t i = 0, end; (end = end_at(p, i)) > i; i = end) {
        add_transposed(p, i, end, c, out);
    }
}

static double weight_of(const xsmi_proximal_batch *p, size_t i)
{
    return p->weight ? p->weight[i] : 1;
}

/* Sum of the h_i at a point; sets u, pull, share and v. */
static double losses(problem *s, const double *point)
{
    xsmi_proximal_batch *p = s->p;
    double eta = p->eta / (double)p->examples, total = 0;
    apply(p, point, p->level, -1, p->pull);
    for (size_t i = 0, end = 0; i < end || (end = end_at(p, i)) > i; i++) {
        double *z = p->pull + i * p->classes, *share = s->share + i * p->classes;
        uint32_t own = p->own[i];
        double own_z = z[own], most = 0, sum = 0;
        for (size_t j = 0; j < p->classes; j++) {
            z[j] += p->log_weight[j] - own_z;
            most = j != own && z[j] > most ? z[j] : most;
        }
        for (size_t j = 0; j < p->classes; j++) {
            share[j] = j == own ? 0 : exp(z[j] - most);
            sum += share[j];
        }
        double all = sum + exp(-most), t = most + log(all);
        double u, v = settle(eta, t, p->u_old[i], &u), weight = weight_of(p, i);
        for (size_t j = 0; j < p->classes; j++) {
            share[j] /= all;
            z[j] = weight * v * share[j];
        }
        share[own] = -sum / all;
        z[own] = weight * v * share[own];
        double off = u - p->u_old[i];
        total += weight * (eta * u + v + 0.5 * off * off);
        p->u[i] = u;
        s->v[i] = v;
    }
    return total;
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* Gradient p - M'c at a point; returns its norm relative to that of M'c. */
static double gradient(problem *s, const double *point, double *g, double *value)
{
    *value = losses(s, point) + 0.5 * dot(point, point, s->count);
    apply_transposed(s->p, s->p->pull, g);
    double pull = sqrt(dot(g, g, s->count));
    for (size_t i = 0; i < s->count; i++) {
        g[i] = point[i] - g[i];
    }
    double length = sqrt(dot(g, g, s->count));
    return s->p->gap = pull > 0 ? length / pull : length;
}

#if XSMI_HAVE_LBFGS
enum { MEMORY = 12, LBFGS_STEPS = 400 };

static lbfgsfloatval_t evaluate(void *state, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, int n, lbfgsfloatval_t step)
{
    problem *s = state;
    (void)step;
    double *point = s->image + s->p->examples * s->p->classes; /* the first Newton vector, not used yet */
    for (size_t i = 0; i < s->count; i++) {
        point[i] = s->scale * x[i];
    }
    double value;
    gradient(s, point, g, &value);
    if (s->p->stopped) {
        memset(g, 0, (size_t)n * sizeof *g); /* the search ends here */
        return 0;
    }
    for (size_t i = 0; i < s->count; i++) {
        g[i] /= s->scale;
    }
    for (size_t i = s->count; i < (size_t)n; i++) {
        g[i] = 0;
    }
    return (value - s->first) / s->scale / s->scale;
}

static int progress(void *state, const lbfgsfloatval_t *x, const lbfgsfloatval_t *g, const lbfgsfloatval_t value,
                    const lbfgsfloatval_t point_length, const lbfgsfloatval_t gradient_length,
                    const lbfgsfloatval_t step, int n, int iteration, int evaluations)
{
    const problem *s = state;
    (void)x;
    (void)g;
    (void)value;
    (void)step;
    (void)n;
    (void)iteration;
    (void)evaluations;
    return s->p->stopped || gradient_length <= s->tolerance * point_length;
}

/* Minimises from 0 as far as L-BFGS gets; false if it has no memory. */
static bool approach(problem *s, double *point)
{
    lbfgs_parameter_t settings;
    lbfgs_parameter_init(&settings);
    settings.m = MEMORY;
    settings.epsilon = 0;
    settings.max_iterations = LBFGS_STEPS;
    settings.max_linesearch = 60;
    settings.min_step = 1e-40;
    int n = (int)padded(s->count);
    int result = lbfgs(n, point, NULL, evaluate, progress, s, &settings);
    for (size_t i = 0; i < s->count; i++) {
        point[i] *= s->scale;
    }
    return result != LBFGSERR_OUTOFMEMORY;
}
#else
static bool approach(problem *s, double *point)
{
    (void)s;
    (void)point;
    return true;
}
#endif

/* out = (1 + M' H M) d, H the Hessians of the h_i at the point of share and v. */
static void curvature(problem *s, const double *d, double *out)
{
    xsmi_proximal_batch *p = s->p;
    apply(p, d, NULL, 1, s->image);
    for (size_t i = 0, end = 0; i < end || (end = end_at(p, i)) > i; i++) {
        const double *share = s->share + i * p->classes;
        double *z = s->image + i * p->classes, v = s->v[i], own = z[p->own[i]], slope = 0, sum = 0;
        const double weight = weight_of(p, i);
        for (size_t j = 0; j < p->classes; j++) {
            z[j] -= own;
            slope += j == p->own[i] ? 0 : share[j] * z[j]; /* of T */
        }
        for (size_t j = 0; j < p->classes; j++) {
            if (j != p->own[i]) {
                /* v changes by v/(1+v) of the change of T, as u follows T */
                z[j] = weight * (v * share[j] * (z[j] - slope) + v / (1 + v) * share[j] * slope);
                sum += z[j];
            }
        }
        z[p->own[i]] = -sum;
    }
    apply_transposed(p, s->image, out);
    for (size_t i = 0; i < s->count; i++) {
        out[i] += d[i];
    }
}

/* Newton's method; conjugate gradients solve its systems, only as precisely as a step needs. */
static void finish(problem *s, double *point, double *vectors)
{
    size_t n = s->count, pitch = padded(s->p->classes * (s->p->rank + 1));
    double *g = vectors, *step = g + pitch, *residual = step + pitch, *direction = residual + pitch;
    double *image = direction + pitch, *old = image + pitch, value;
    double gap = gradient(s, point, g, &value);
    for (int i = 0; i < NEWTON_STEPS && gap > s->tolerance && !s->p->stopped; i++) {
        memset(step, 0, n * sizeof *step);
        memcpy(residual, g, n * sizeof *g);
        memcpy(direction, g, n * sizeof *g);
        double square = dot(g, g, n), part = fmin(0.01, gap), enough = part * part * square;
        for (int k = 0; k < CG_STEPS && square > enough && !s->p->stopped; k++) {
            curvature(s, direction, image);
            double a = square / dot(direction, image, n), before = square;
            for (size_t j = 0; j < n; j++) {
                step[j] += a * direction[j];
                residual[j] -= a * image[j];
            }
            square = dot(residual, residual, n);
            for (size_t j = 0; j < n; j++) {
                direction[j] = residual[j] + square / before * direction[j];
            }
        }
        memcpy(old, point, n * sizeof *old);
        double last = gap, from = value, slope = dot(g, step, n), length = 1;
        bool better = false;
        for (int tries = 0; tries < 40 && !better && !s->p->stopped; tries++, length /= 2) {
            for (size_t j = 0; j < n; j++) {
                point[j] = old[j] - length * step[j];
            }
            gap = gradient(s, point, g, &value);
            /* The value must fall; where rounding hides its change, the gradient must fall. */
            double noise = 1e-13 * (fabs(from) + fabs(value));
            better = value <= from - 1e-4 * length * slope - noise || (fabs(value - from) <= noise && gap < last);
        }
        if (!better) {
            memcpy(point, old, n * sizeof *old);
            gradient(s, point, g, &value);
            return; /* no improvement in double precision */
        }
    }
}

int xsmi_proximal_batch_solve(xsmi_proximal_batch *p, double tolerance)
{
    size_t count = variables(p), pitch = padded(p->classes * (p->rank + 1)), table = p->examples * p->classes;
    double *point = p->work, *share = point + pitch, *v = share + table, *image = v + p->examples;
    double *vectors = image + table;
    problem s = {p, 1, 0, share, v, image, tolerance, count};
    memset(point, 0, pitch * sizeof *point);
    double value, *g = vectors;
    p->stopped = false;
    if (p->examples * p->classes * (p->rank + 1) <= POLL_WORK) {
        p->context = NULL;
    }
    gradient(&s, point, g, &value);
    /* At 0 the gradient is -M'c, the explicit step; errors are relative to its norm. */
    s.scale = sqrt(dot(g, g, count));
    s.first = value;
    if (p->stopped) {
        return XSMI_SOLVED;
    }
    if (!(s.scale > 0)) {
        p->gap = 0;
        return XSMI_SOLVED; /* the gradient is 0 */
    }
    if (!approach(&s, point)) {
        return XSMI_SOLVE_MEMORY;
    }
    finish(&s, point, vectors);
    return XSMI_SOLVED;
}
