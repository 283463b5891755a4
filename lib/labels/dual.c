#include "labels/dual.h"

#include "base/activity.h"

#include <math.h>
#include <string.h>

#define LANES XSMI_DUAL_LANES

/* Makes the order of a pass: Fisher and Yates's shuffle by the multiplicative generator of Steele and Vigna (2021),
 * which starts from the stream. */
static void shuffle(uint32_t *order, size_t n, uint64_t state)
{
    state |= 1;
    for (size_t i = n; i > 1; i--) {
        state *= UINT64_C(0xd1342543de82ef95);
        const size_t j = (size_t)(((state >> 32) * i) >> 32);
        const uint32_t kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* Makes all rows active again in these lanes. */
static size_t restore(const xsmi_dual_rows *rows, xsmi_dual_group *g, uint32_t lanes)
{
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        if (!rows->weight || rows->weight[i] > 0) {
            g->active[i] |= (uint16_t)lanes;
            g->order[count++] = (uint32_t)i;
        }
    }
    return count;
}

/* Keeps the rows that some lane still visits. */
static size_t shrink(xsmi_dual_group *g, size_t count, uint32_t lanes)
{
    size_t left = 0;
    for (size_t s = 0; s < count; s++) {
        const uint32_t i = g->order[s];
        g->order[left] = i;
        left += (g->active[i] & lanes) != 0;
    }
    return left;
}

static void start(const xsmi_dual_rows *rows, const xsmi_dual_settings *settings, xsmi_dual_group *g)
{
    const bool logistic = settings->loss == XSMI_DUAL_LOGISTIC;
    if (!g->started) {
        memset(g->weights, 0, (size_t)rows->width * LANES * sizeof *g->weights);
        memset(g->bias, 0, sizeof g->bias);
    }
    memset(g->alpha, 0, (size_t)rows->count * LANES * sizeof *g->alpha);
    memset(g->active, 0, rows->count * sizeof *g->active);
    for (size_t i = 0; i < rows->count; i++) {
        const double cost = settings->cost * (rows->weight ? (double)rows->weight[i] : 1.0);
        const float own = (float)(logistic ? cost : 0.5 / cost);
        g->step[i] = logistic ? rows->square[i] : -1.0f / (rows->square[i] + own);
        if (rows->weight) {
            g->diagonal[i] = own;
        }
    }
    for (size_t k = 0; logistic && k < (size_t)rows->count * LANES; k++) {
        g->alpha[k] = INFINITY; /* the limit for rows with alpha = 0 */
    }
}

/* Computes alpha from u, which the passes of the logistic loss keep in its place. */
static void finish_logistic(const xsm_context *ctx, const xsmi_dual_rows *rows, const xsmi_dual_settings *settings,
                            xsmi_dual_group *g)
{
    for (size_t i = 0; i < rows->count; i++) {
        float *alpha = g->alpha + i * LANES, rest[LANES];
        xsmi_context_kernels(ctx)->logistics(alpha, LANES, alpha, rest, NULL);
        for (size_t l = 0; l < LANES; l++) {
            alpha[l] *= rows->weight ? g->diagonal[i] : (float)settings->cost;
        }
    }
}

void xsmi_dual_solve(const xsm_context *ctx, const xsmi_dual_rows *rows, const xsmi_dual_settings *settings,
                     xsmi_stream *stream, xsmi_dual_group *g)
{
    const bool logistic = settings->loss == XSMI_DUAL_LOGISTIC;
    float above[LANES], most[LANES], least[LANES];
    const uint32_t all = (uint32_t)((1u << g->lanes) - 1);
    uint32_t unsolved = all; /* lanes that are not known to be at their optimum over all rows */
    uint32_t live = all;     /* those that are not at their optimum over the rows left to them */
    bool whole = true;       /* all rows were active before this pass */
    xsmi_dual_pass pass = {.offsets = rows->offsets,
                           .index = rows->index,
                           .value = rows->value,
                           .stride = rows->stride,
                           .features = rows->features,
                           .source = rows->source,
                           .order = g->order,
                           .positive = g->positive,
                           .active = g->active,
                           .step = g->step,
                           .diagonal = (float)(logistic ? settings->cost : 0.5 / settings->cost),
                           .diagonals = rows->weight ? g->diagonal : NULL,
                           .above = above,
                           .alpha = g->alpha,
                           .weights = g->weights,
                           .bias = g->bias,
                           .most = most,
                           .least = least};
    start(rows, settings, g);
    g->visits = 0;
    size_t count = restore(rows, g, all);
    for (size_t l = 0; l < LANES; l++) {
        above[l] = INFINITY;
    }
    for (uint32_t iteration = 0; iteration < settings->iterations && !xsmi_poll(ctx); iteration++) {
        for (size_t l = 0; l < LANES; l++) {
            most[l] = -INFINITY;
            least[l] = INFINITY;
        }
        const uint64_t high = xsmi_stream_next(stream);
        shuffle(g->order, count, high << 32 | xsmi_stream_next(stream));
        pass.count = count;
        pass.live = (uint16_t)live;
        if (logistic) {
            xsmi_context_kernels(ctx)->dual_logistic_pass(&pass);
        } else {
            xsmi_context_kernels(ctx)->dual_pass(&pass);
        }
        g->visits += count;
        for (size_t l = 0; l < LANES; l++) {
            const uint32_t lane = 1u << l;
            if (!(live & lane)) {
                continue;
            }
            if (!(most[l] - least[l] > settings->epsilon)) {
                live &= ~lane;
                unsolved &= whole ? ~lane : all;
            }
            above[l] = most[l] > 0.0f ? most[l] : INFINITY;
        }
        whole = logistic; /* the logistic loss leaves no row out */
        if (live == 0) {
            if (unsolved == 0) {
                break;
            }
            /* Visits all rows again, as some may have been left out wrongly. */
            live = unsolved;
            count = restore(rows, g, live);
            for (size_t l = 0; l < LANES; l++) {
                above[l] = INFINITY;
            }
            whole = true;
        } else {
            count = shrink(g, count, live);
        }
    }
    if (logistic) {
        finish_logistic(ctx, rows, settings, g);
    }
}
