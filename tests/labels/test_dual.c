/*
 * The solver of label trees: its solutions satisfy the optimality conditions of the squared hinge and of the logistic
 * loss, their gap of duality is small, and shrinking changes no solution beyond the tolerance.
 */
#include "support.h"

#include "base/base.h"
#include "labels/dual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 120, FEATURES = 30, LANES = XSMI_DUAL_LANES };

typedef struct problem {
    uint64_t offsets[ROWS + 1];
    uint32_t index[ROWS * FEATURES], order[ROWS];
    float value[ROWS * FEATURES], square[ROWS], step[ROWS];
    uint16_t positive[ROWS], active[ROWS];
    float alpha[ROWS * LANES], weights[FEATURES * LANES], times[ROWS], diagonal[ROWS];
    xsmi_dual_rows rows;
    xsmi_dual_group group;
} problem;

static void make(problem *p, uint32_t seed, uint32_t lanes)
{
    xsmi_stream s;
    xsmi_stream_start(&s, seed, XSMI_STREAM_CHECK, 0);
    memset(p, 0, sizeof *p);
    uint64_t at = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        p->offsets[i] = at;
        double square = 1;
        for (uint32_t f = 0; f < FEATURES; f++) {
            if (xsmi_stream_below(&s, 4) == 0) {
                p->index[at] = f;
                p->value[at] = (float)(xsmi_stream_uniform(&s) - 0.3);
                square += (double)p->value[at] * (double)p->value[at];
                at++;
            }
        }
        p->square[i] = (float)square;
        /* Some classifiers have many positive rows, some few, one none. */
        for (uint32_t l = 0; l + 1 < LANES; l++) {
            p->positive[i] |= (uint16_t)((xsmi_stream_below(&s, l + 2) == 0) << l);
        }
    }
    p->offsets[ROWS] = at;
    p->rows = (xsmi_dual_rows){.offsets = p->offsets,
                               .index = p->index,
                               .value = p->value,
                               .count = ROWS,
                               .width = FEATURES,
                               .square = p->square};
    p->group = (xsmi_dual_group){.lanes = lanes,
                                 .positive = p->positive,
                                 .active = p->active,
                                 .order = p->order,
                                 .step = p->step,
                                 .diagonal = p->diagonal,
                                 .alpha = p->alpha,
                                 .weights = p->weights};
}

static double score(const problem *p, uint32_t i, uint32_t lane)
{
    double z = (double)p->group.bias[lane];
    for (uint64_t k = p->offsets[i]; k < p->offsets[i + 1]; k++) {
        z += (double)p->value[k] * (double)p->weights[(size_t)p->index[k] * LANES + lane];
    }
    return z;
}

/* a log a, continued to 0. */
static double entropy(double a)
{
    return a > 0 ? a * log(a) : 0;
}

/* The objective at the classifier's weights, and the dual's at its alpha: with v = sum alpha y (x, 1),
 *     sum alpha - 1/2 |v|^2 - sum alpha^2/(4 C),
 *     logistic: sum (C log C - alpha log alpha - (C - alpha) log (C - alpha)) - 1/2 |v|^2. */
static void objectives(const problem *p, uint32_t lane, const xsmi_dual_settings *s, double *primal, double *dual)
{
    const double cost = s->cost;
    double v[FEATURES + 1] = {0}, sizes[FEATURES + 1] = {0};
    *primal = 0.5 * pow((double)p->group.bias[lane], 2);
    *dual = 0;
    for (uint32_t f = 0; f < FEATURES; f++) {
        *primal += 0.5 * pow((double)p->weights[(size_t)f * LANES + lane], 2);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        const double y = p->positive[i] >> lane & 1 ? 1 : -1;
        const double a = (double)p->alpha[(size_t)i * LANES + lane];
        const double margin = y * score(p, i, lane), left = fmax(0, 1 - margin);
        assert_true(a >= 0);
        const double own = cost * (p->rows.weight ? (double)p->times[i] : 1);
        if (s->loss == XSMI_DUAL_LOGISTIC) {
            assert_true(a <= own * (1 + 1e-6));
            *primal += own * (margin > 0 ? log1p(exp(-margin)) : log1p(exp(margin)) - margin);
            *dual += entropy(own) - entropy(a) - entropy(own - a);
        } else {
            *primal += own * left * left;
            *dual += own > 0 ? a - a * a / (4 * own) : a; /* of which there is none then */
        }
        for (uint64_t k = p->offsets[i]; k < p->offsets[i + 1]; k++) {
            v[p->index[k]] += a * y * (double)p->value[k];
            sizes[p->index[k]] += a * fabs((double)p->value[k]);
        }
        v[FEATURES] += a * y;
        sizes[FEATURES] += a;
    }
    for (uint32_t f = 0; f <= FEATURES; f++) {
        const double w = (double)(f < FEATURES ? p->weights[(size_t)f * LANES + lane] : p->group.bias[lane]);
        assert_true(fabs(v[f] - w) < 1e-4 + 1e-5 * sizes[f]); /* the weights are those of alpha */
        *dual -= 0.5 * v[f] * v[f];
    }
}

/* The largest violation: alpha = 2 C max(0, 1 - y z) at the optimum; logistic: alpha = C / (1 + exp(y z)), in units of
 * alpha / C. */
static double violation(const problem *p, uint32_t lane, const xsmi_dual_settings *s)
{
    const double cost = s->cost;
    double most = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        const double y = p->positive[i] >> lane & 1 ? 1 : -1;
        const double a = (double)p->alpha[(size_t)i * LANES + lane];
        const double own = cost * (p->rows.weight ? (double)p->times[i] : 1);
        assert_true(own > 0 || a == 0);
        const double margin = y * score(p, i, lane), g = own > 0 ? margin - 1 + a / (2 * own) : 0;
        const double missed = s->loss == XSMI_DUAL_LOGISTIC ? (own > 0 ? fabs(a / own - 1 / (1 + exp(margin))) : 0)
                              : a > 0                       ? fabs(g)
                                                            : fmax(0, -g);
        most = fmax(most, missed);
    }
    return most;
}

TEST(test_optimum)
{
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    static problem p;
    static const double costs[] = {0.1, 1, 10};
    for (uint32_t trial = 0; trial < 24; trial++) {
        const xsmi_dual_settings settings = {costs[trial % 3], 1e-4, 10000, trial / 12};
        make(&p, trial % 12, trial % 6 < 3 ? LANES : 5);
        for (uint32_t i = 0; i < ROWS; i++) {
            p.times[i] = 0.5f * (float)(i % 5);
        }
        p.rows.weight = trial % 12 < 6 ? NULL : p.times;
        xsmi_stream stream;
        xsmi_stream_start(&stream, 1, XSMI_STREAM_LABEL_ORDER, trial);
        xsmi_dual_solve(ctx, &p.rows, &settings, &stream, &p.group);
        for (uint32_t l = 0; l < p.group.lanes; l++) {
            double primal, dual;
            objectives(&p, l, &settings, &primal, &dual);
            assert_true(violation(&p, l, &settings) < 3e-4);
            /* The dual's value is never above the primal's, but for rounding. */
            assert_true(primal - dual > -1e-4 * (1 + primal) && primal - dual < 1e-3 * (1 + primal));
        }
        for (uint32_t f = 0; f < FEATURES; f++) {
            for (uint32_t l = p.group.lanes; l < LANES; l++) {
                assert_true(p.weights[f * LANES + l] == 0.0f);
            }
        }
    }
}

/* With the usual tolerance the violation is below it, in far fewer visits than passes over all rows. */
TEST(test_shrinking)
{
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    static problem p;
    make(&p, 7, LANES);
    const xsmi_dual_settings settings = {1, 0.1, 1000, XSMI_DUAL_SQUARED_HINGE};
    xsmi_stream stream;
    xsmi_stream_start(&stream, 1, XSMI_STREAM_LABEL_ORDER, 0);
    xsmi_dual_solve(ctx, &p.rows, &settings, &stream, &p.group);
    for (uint32_t l = 0; l < LANES; l++) {
        assert_true(violation(&p, l, &settings) < 0.15);
    }
    assert_true(p.group.visits >= ROWS && p.group.visits < 1000 * ROWS);
}

/* Costs from those that leave all margins near 0 to those that hold nearly every row by Newton's steps alone, and rows
 * that are far from unit length: the gap of duality, in terms of the optimum, is small for all. */
TEST(test_logistic_extremes)
{
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    static problem p;
    static const float lengths[] = {0.01f, 1, 10};
    static const double costs[] = {1e-4, 1, 100};
    for (uint32_t trial = 0; trial < 9; trial++) {
        make(&p, trial, LANES);
        for (uint32_t i = 0; i < ROWS; i++) {
            p.square[i] = 1 + (p.square[i] - 1) * lengths[trial % 3] * lengths[trial % 3];
        }
        for (uint64_t k = 0; k < p.offsets[ROWS]; k++) {
            p.value[k] *= lengths[trial % 3];
        }
        const xsmi_dual_settings settings = {costs[trial / 3], 1e-2, 20000, XSMI_DUAL_LOGISTIC};
        xsmi_stream stream;
        xsmi_stream_start(&stream, 1, XSMI_STREAM_LABEL_ORDER, trial);
        xsmi_dual_solve(ctx, &p.rows, &settings, &stream, &p.group);
        for (uint32_t l = 0; l < LANES; l++) {
            double primal, dual;
            objectives(&p, l, &settings, &primal, &dual);
            assert_true(isfinite(primal) && primal - dual < 1e-2 * primal);
        }
    }
}

/* One pass visits each row once. */
TEST(test_iterations)
{
    MADE(xsm_context, ctx, xsm_context_new(NULL, &ctx, &err));
    static problem p;
    make(&p, 3, LANES);
    const xsmi_dual_settings settings = {1, 0, 1, XSMI_DUAL_SQUARED_HINGE};
    xsmi_stream stream;
    xsmi_stream_start(&stream, 1, XSMI_STREAM_LABEL_ORDER, 0);
    xsmi_dual_solve(ctx, &p.rows, &settings, &stream, &p.group);
    assert_int_equal(p.group.visits, ROWS);
}
