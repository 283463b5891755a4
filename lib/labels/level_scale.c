#include "labels/level_scale.h"

#include "base/grow.h"
#include "base/order.h"
#include "math/platt.h"

#include <math.h>

#define ITERATIONS 50
#define LEAST_SCALE 1e-3
#define MOST_SCALE 1e3
/* The fit ends when an iteration gains less than this share of the loss. */
#define LEAST_GAIN 1e-9

xsm_status xsmi_kept_scores_reserve(xsmi_kept_scores *c, xsm_context *ctx, uint32_t rows, uint32_t children,
                                    xsmi_kept_score **score, xsm_error *err)
{
    size_t added;
    if (!xsmi_multiply(rows, children, &added) || added >= SIZE_MAX - c->count) {
        return xsmi_fail_memory(err, SIZE_MAX, "scores for calibration");
    }
    XSMI_TRY(XSMI_GROW(ctx, c->score, c->capacity, c->count + added + 1, "scores for calibration", err));
    XSMI_TRY(XSMI_GROW(ctx, c->end, c->row_capacity, c->rows + rows, "scores for calibration", err));
    *score = c->score + c->count;
    return XSM_OK;
}

void xsmi_kept_scores_end(xsmi_kept_scores *c, const xsmi_kept_score *end)
{
    c->count = (size_t)(end - c->score);
    c->end[c->rows++] = c->count;
}

void xsmi_kept_scores_free(xsmi_kept_scores *c, xsm_context *ctx)
{
    xsmi_release(ctx, c->score, c->capacity, sizeof *c->score);
    xsmi_release(ctx, c->end, c->row_capacity, sizeof *c->end);
    *c = (xsmi_kept_scores){0};
}

/* -- sigmoid ------------------------------------------------------------------------------------------------------- */

typedef struct sigmoid_pass {
    const xsmi_kept_scores *kept;
    double target[2]; /* of negative and of positive labels */
} sigmoid_pass;

static xsm_status sum_sigmoid(void *state, double at[2], double sums[XSMI_PLATT_SUMS], xsm_error *err)
{
    const sigmoid_pass *s = state;
    (void)err;
    for (size_t i = 0; i < XSMI_PLATT_SUMS; i++) {
        sums[i] = 0;
    }
    for (size_t k = 0; k < s->kept->count; k++) {
        const xsmi_kept_score *score = &s->kept->score[k];
        const double z = (double)score->z, x = at[0] * z + at[1], target = s->target[score->label > 0];
        const double weight = fabs((double)score->label);
        if (weight == 1) {
            xsmi_platt_add_score(sums, z, x);
            xsmi_platt_add_labels(sums, target, target * z, target * x);
            continue;
        }
        double own[XSMI_PLATT_SUMS] = {0};
        xsmi_platt_add_score(own, z, x);
        xsmi_platt_add_labels(own, target, target * z, target * x);
        for (size_t i = 0; i < XSMI_PLATT_SUMS; i++) {
            sums[i] += weight * own[i];
        }
    }
    return XSM_OK;
}

xsmi_calibrated xsmi_calibrate_sigmoid(const xsmi_kept_scores *c)
{
    double positives = 0, negatives = 0;
    for (size_t k = 0; k < c->count; k++) {
        *(c->score[k].label > 0 ? &positives : &negatives) += fabs((double)c->score[k].label);
    }
    if (positives == 0 || negatives == 0) {
        return (xsmi_calibrated){1, 0};
    }
    sigmoid_pass pass = {c, {1 / (negatives + 2), (positives + 1) / (positives + 2)}};
    const xsmi_platt platt = {sum_sigmoid, &pass, -MOST_SCALE, MOST_SCALE, ITERATIONS};
    double at[2] = {0, log((positives + 1) / (negatives + 1))}, sums[XSMI_PLATT_SUMS], before;
    uint32_t passes;
    (void)xsmi_platt_fit(&platt, at, sums, &before, &passes, NULL); /* its passes cannot fail */
    /* The limits keep the order of the classes even if scores are worthless. */
    return (xsmi_calibrated){XSMI_CLAMP(at[0], LEAST_SCALE, MOST_SCALE), at[1]};
}

/* -- softmax ------------------------------------------------------------------------------------------------------- */

/* Rows of a job. */
enum { JOB_ROWS = 256 };

/* A row's loss with its two derivatives by the scale. */
typedef struct softmax_loss {
    double loss, g, h;
    bool counts; /* false: the row is left out */
} softmax_loss;

/* Computes a row's loss. Its derivative by the scale is E[z] - z_label, the second one the variance of z. */
static softmax_loss loss_of(const xsmi_kept_score *score, size_t count, double scale)
{
    double most = -INFINITY, label = 0, labels = 0;
    for (size_t j = 0; j < count; j++) {
        most = fmax(most, (double)score[j].z);
        labels += score[j].label > 0;
        label = score[j].label > 0 ? (double)score[j].z : label;
    }
    if (labels != 1) {
        return (softmax_loss){.counts = false};
    }
    double sum = 0, first = 0, second = 0;
    for (size_t j = 0; j < count; j++) {
        const double z = (double)score[j].z - most, p = exp(scale * z);
        sum += p;
        first += p * z;
        second += p * z * z;
    }
    first /= sum;
    second /= sum;
    const double weight = fabs((double)score->label);
    return (softmax_loss){.loss = weight * (log(sum) - scale * (label - most)),
                          .g = weight * (first - (label - most)),
                          .h = weight * (second - first * first),
                          .counts = true};
}

typedef struct softmax_job {
    const xsmi_kept_scores *kept;
    double scale;
    softmax_loss *losses; /* [rows] */
} softmax_job;

static softmax_loss row_loss(const softmax_job *job, size_t row)
{
    const size_t start = row > 0 ? job->kept->end[row - 1] : 0;
    return loss_of(job->kept->score + start, job->kept->end[row] - start, job->scale);
}

static void run_rows(void *state, const xsmi_range *r)
{
    const softmax_job *job = state;
    for (size_t i = r->first; i < r->end; i++) {
        job->losses[i] = row_loss(job, i);
    }
}

typedef struct softmax_sums {
    double loss, g, h;
    size_t rows;
} softmax_sums;

/* Sums over all rows, in their order. `losses` is scratch for each row; NULL: this thread computes all. */
static softmax_sums sum_softmax(const xsmi_kept_scores *c, double scale, xsm_context *ctx, softmax_loss *losses)
{
    softmax_job job = {c, scale, losses};
    softmax_sums s = {0};
    if (losses) {
        xsmi_run_surely(ctx, run_rows, &job, c->rows, JOB_ROWS);
    }
    for (size_t r = 0; r < c->rows; r++) {
        const softmax_loss row = losses ? losses[r] : row_loss(&job, r);
        if (row.counts) {
            s.loss += row.loss;
            s.g += row.g;
            s.h += row.h;
            s.rows++;
        }
    }
    return s;
}

static xsmi_calibrated fit_softmax(const xsmi_kept_scores *c, xsm_context *ctx, softmax_loss *losses)
{
    xsmi_calibrated done = {1, 0};
    softmax_sums now = sum_softmax(c, 1, ctx, losses);
    if (now.rows == 0) {
        return done;
    }
    double gain = INFINITY;
    for (int i = 0; i < ITERATIONS && gain > LEAST_GAIN * now.loss; i++) {
        const double newton = now.h > 0 ? done.scale - now.g / now.h : now.g < 0 ? MOST_SCALE : LEAST_SCALE;
        /* The loss is convex; a step changes the scale at most fourfold. */
        double next = XSMI_CLAMP(newton, done.scale / 4, done.scale * 4);
        next = XSMI_CLAMP(next, LEAST_SCALE, MOST_SCALE);
        const softmax_sums then = sum_softmax(c, next, ctx, losses);
        gain = now.loss - then.loss;
        if (gain > 0) {
            now = then;
            done.scale = next;
        }
    }
    return done;
}

xsmi_calibrated xsmi_calibrate_softmax(const xsmi_kept_scores *c, xsm_context *ctx)
{
    softmax_loss *losses = xsmi_context_threads(ctx) > 1 ? xsmi_allocate(ctx, c->rows, sizeof *losses) : NULL;
    const xsmi_calibrated done = fit_softmax(c, ctx, losses);
    xsmi_release(ctx, losses, c->rows, sizeof *losses);
    return done;
}
