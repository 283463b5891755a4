/*
 * Evaluation on a dataset with scores of all classes, in blocks of rows: log-loss, error, and measures of rankings
 * (metrics.h has the formulas; the propensities are from Jain, Prabhu and Varma, Extreme multi-label loss functions for
 * recommendation, tagging, ranking and other missing label applications, 2016).
 *
 * The sums of the blocks are added in the order of the rows, so that the result does not depend on the threads.
 */
#include "predict/evaluate.h"

#include "base/arena.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

#define JOB_ROWS (XSMI_LANES * XSMI_TILE_BLOCKS)

/* Sums over the rows of one job. */
typedef struct partial {
    double log_loss;
    uint64_t rows, known_rows, unlabelled, unseen_labels, wrong;
    uint64_t failed; /* first row whose scores are not finite, or UINT64_MAX */
} partial;

/* Sums over rows for each k <= top. Weighted measures also have the sum of the best possible values. */
enum { PRECISION, NDCG, PSP, PSP_BEST, PSNDCG, PSNDCG_BEST, MEASURES };

typedef struct evaluate_job {
    const xsm_model *model;
    const xsm_dataset *dataset;
    uint32_t top;
    uint64_t most;          /* rows with scratch, at most those of a job */
    partial *partials;      /* [jobs] */
    double *measures;       /* [jobs][MEASURES][top] */
    double *weights;        /* [K+1] 1/propensity of each class, then of an unseen one; NULL = unknown */
    double *discounts;      /* [top] 1/log2(j + 2) */
    unsigned char *scratch; /* [threads][scratch_each] */
    size_t scratch_each;
} evaluate_job;

/* The rows of one job. */
typedef struct job_rows {
    xsmi_features features[JOB_ROWS];
    uint32_t targets[JOB_ROWS];
    double log_sum_exp[JOB_ROWS];
    float target_scores[JOB_ROWS];
} job_rows;

/* One thread's scratch. */
typedef struct scratch {
    job_rows *rows;
    float *top_score;    /* [JOB_ROWS][top] */
    uint32_t *top_class; /* [JOB_ROWS][top] */
    double *best;        /* [top] the largest weights of a row's labels, falling */
    float *code;         /* for the model's correction */
    float *hidden;       /* for the model's first layer */
    void *model;         /* of the model */
} scratch;

static scratch divide_scratch(const evaluate_job *job, xsmi_arena *arena)
{
    scratch p;
    p.rows = xsmi_arena_take(arena, 1, sizeof *p.rows);
    p.top_score = xsmi_arena_take(arena, (uint64_t)JOB_ROWS * job->top, sizeof *p.top_score);
    p.top_class = xsmi_arena_take(arena, (uint64_t)JOB_ROWS * job->top, sizeof *p.top_class);
    p.best = xsmi_arena_take(arena, job->top, sizeof *p.best);
    p.code = xsmi_arena_take(arena, xsmi_correction_code(job->model->correction), sizeof *p.code);
    p.hidden = xsmi_arena_take(arena, job->model->layer ? job->model->features : 0, sizeof *p.hidden);
    uint64_t blocks = (job->most + XSMI_LANES - 1) / XSMI_LANES; /* few rows need little memory */
    blocks = XSMI_MIN(blocks, XSMI_TILE_BLOCKS);
    size_t bytes = xsmi_model_score_all_scratch(job->model, job->dataset->sparse, (size_t)blocks, job->top);
    p.model = xsmi_arena_take(arena, bytes, 1);
    return p;
}

/* The weight of a label, which may be unseen. */
static double weight_of(const evaluate_job *job, uint32_t label)
{
    uint32_t classes = job->model->classes;
    return job->weights ? job->weights[XSMI_MIN(label, classes)] : 0;
}

/* Fills `best` with the largest weights of a row's labels; returns their number. */
static uint32_t best_weights(const evaluate_job *job, const uint32_t *labels, size_t count, double *best)
{
    uint32_t kept = 0;
    for (size_t j = 0; j < count; j++) {
        double weight = weight_of(job, labels[j]);
        uint32_t rank = kept < job->top ? kept++ : job->top;
        for (; rank > 0 && best[rank - 1] < weight; rank--) {
            if (rank < job->top) {
                best[rank] = best[rank - 1];
            }
        }
        if (rank < job->top) {
            best[rank] = weight;
        }
    }
    return kept;
}

/* Adds the measures of a row's ranking to the job's sums; returns whether its first class is a label. */
static bool add_measures(const evaluate_job *job, size_t index, const uint32_t *labels, size_t count,
                         const uint32_t *top_class, double *best)
{
    uint32_t top = job->top, best_count = best_weights(job, labels, count, best);
    double *sums = job->measures + index * MEASURES * top;
    double hits = 0, gain = 0, weighted = 0, weighted_gain = 0, most = 0, most_gain = 0, ideal = 0;
    bool first = false;
    for (uint32_t k = 0; k < top; k++) {
        for (size_t j = 0; j < count; j++) {
            if (top_class[k] != XSMI_NO_CLASS && labels[j] == top_class[k]) {
                double weight = weight_of(job, labels[j]);
                hits += 1;
                gain += job->discounts[k];
                weighted += weight;
                weighted_gain += weight * job->discounts[k];
                first |= k == 0;
            }
        }
        if (k < best_count) {
            most += best[k];
            most_gain += best[k] * job->discounts[k];
            ideal += job->discounts[k];
        }
        sums[PRECISION * top + k] += hits / (k + 1);
        sums[NDCG * top + k] += gain / ideal;
        sums[PSP * top + k] += weighted / (k + 1);
        sums[PSP_BEST * top + k] += most / (k + 1);
        sums[PSNDCG * top + k] += weighted_gain / ideal;
        sums[PSNDCG_BEST * top + k] += most_gain / ideal;
    }
    return first;
}

/* Adds row i of a job, which was scored. */
static void add_row(const evaluate_job *job, size_t index, size_t i, const scratch *here)
{
    partial *p = &job->partials[index];
    const xsm_model *m = job->model;
    const uint64_t row = (uint64_t)index * JOB_ROWS + i;
    const double log_sum_exp = here->rows->log_sum_exp[i];
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(job->dataset, row, &count);
    if (count == 0) {
        p->unlabelled++;
        return;
    }
    p->rows++;
    size_t known = 0;
    double target = 0;
    const xsmi_features x = xsmi_dataset_features(job->dataset, row);
    xsmi_model_row features = {x, x};
    if (count > 1) {
        features.input = xsmi_model_forward(m, &x, here->hidden);
    }
    for (size_t j = 0; j < count; j++) {
        if (labels[j] >= m->classes) {
            p->unseen_labels++;
            continue;
        }
        float score = here->rows->target_scores[i];
        if (count > 1) {
            xsmi_model_chosen_scores(m, &features, &labels[j], 1, &score, here->code);
        }
        target += score;
        known++;
    }
    if (!isfinite(log_sum_exp) || !isfinite(target)) {
        p->failed = XSMI_MIN(row, p->failed);
        return;
    }
    if (known > 0) {
        p->known_rows++;
        p->log_loss += log_sum_exp - target / (double)known;
    }
    p->wrong += !add_measures(job, index, labels, count, here->top_class + i * job->top, here->best);
}

static void run_rows(void *state, size_t index, uint32_t thread)
{
    const evaluate_job *job = state;
    xsmi_arena arena = {job->scratch + thread * job->scratch_each, 0};
    const scratch here = divide_scratch(job, &arena);
    job_rows *r = here.rows;
    uint64_t first = (uint64_t)index * JOB_ROWS;
    size_t rows = (size_t)XSMI_MIN(job->dataset->rows - first, JOB_ROWS);
    xsmi_score_all blocks[XSMI_TILE_BLOCKS];
    size_t count = 0;
    for (size_t i = 0; i < JOB_ROWS; i++) {
        r->targets[i] = XSMI_NO_CLASS;
        if (i < rows) {
            size_t labels;
            const uint32_t *label = xsmi_dataset_labels(job->dataset, first + i, &labels);
            r->features[i] = xsmi_dataset_features(job->dataset, first + i);
            if (labels == 1 && label[0] < job->model->classes) {
                r->targets[i] = label[0];
            }
        }
    }
    for (size_t i = 0; i < rows; i += XSMI_LANES) {
        xsmi_score_all *b = &blocks[count++];
        b->rows = XSMI_MIN(rows - i, XSMI_LANES);
        b->features = r->features + i;
        b->sparse = job->dataset->sparse;
        b->target = r->targets + i;
        b->top = job->top;
        b->log_sum_exp = r->log_sum_exp + i;
        b->target_score = r->target_scores + i;
        b->top_score = here.top_score + i * job->top;
        b->top_class = here.top_class + i * job->top;
    }
    xsmi_model_score_all(job->model, blocks, count, here.model);
    memset(&job->partials[index], 0, sizeof job->partials[index]);
    memset(job->measures + index * MEASURES * job->top, 0, MEASURES * job->top * sizeof *job->measures);
    job->partials[index].failed = UINT64_MAX;
    for (size_t i = 0; i < rows; i++) {
        add_row(job, index, i, &here);
    }
    xsmi_dataset_passed(job->dataset, first, rows);
}

static xsm_status join(const evaluate_job *job, size_t jobs, xsm_metrics *m, xsm_error *err)
{
    uint64_t wrong = 0, failed = UINT64_MAX;
    double loss = 0;
    double sums[MEASURES][XSM_PRECISION_MAX] = {{0}};
    for (size_t i = 0; i < jobs; i++) {
        const partial *p = &job->partials[i];
        m->rows += p->rows;
        m->known_rows += p->known_rows;
        m->unlabelled += p->unlabelled;
        m->unseen_labels += p->unseen_labels;
        wrong += p->wrong;
        loss += p->log_loss;
        failed = XSMI_MIN(p->failed, failed);
        for (uint32_t j = 0; j < MEASURES; j++) {
            for (uint32_t k = 0; k < job->top; k++) {
                sums[j][k] += job->measures[(i * MEASURES + j) * job->top + k];
            }
        }
    }
    if (failed != UINT64_MAX) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite: the model has diverged",
                         (unsigned long long)failed);
    }
    if (m->rows == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "none of the %llu rows has a label to evaluate against",
                         (unsigned long long)job->dataset->rows);
    }
    m->unseen_rows = m->rows - m->known_rows;
    m->log_loss = m->known_rows ? loss / (double)m->known_rows : (double)NAN;
    m->error = (double)wrong / (double)m->rows;
    m->precision_max = job->top;
    for (uint32_t k = 0; k < job->top; k++) {
        m->precision[k] = sums[PRECISION][k] / (double)m->rows;
        m->ndcg[k] = sums[NDCG][k] / (double)m->rows;
        m->psp[k] = job->weights ? sums[PSP][k] / sums[PSP_BEST][k] : (double)NAN;
        m->psndcg[k] = job->weights ? sums[PSNDCG][k] / sums[PSNDCG_BEST][k] : (double)NAN;
    }
    return XSM_OK;
}

/* 1/propensity of every class, and of a class without training rows. */
static void fill_weights(const xsm_model *m, double a, double b, double *weights)
{
    double c = (log((double)m->map.rows) - 1) * pow(b + 1, a);
    for (uint32_t k = 0; k <= m->classes; k++) {
        double count = k < m->classes ? (double)m->map.counts[k] : 0;
        weights[k] = 1 + XSMI_MAX(c, 0) * pow(count + b, -a);
    }
}

xsm_status xsm_evaluate(xsm_context *context, const xsm_model *model, const xsm_dataset *dataset,
                        const xsm_evaluate_options *options, xsm_metrics *metrics, xsm_error *err)
{
    xsm_context *ctx = context ? context : model ? model->context : NULL;
    xsmi_evaluate_scratch kept = {.context = ctx};
    xsm_status status = xsmi_evaluate(model, dataset, options, &kept, metrics, err);
    xsmi_evaluate_scratch_free(&kept);
    return status;
}

void xsmi_evaluate_scratch_free(xsmi_evaluate_scratch *s)
{
    xsmi_release(s->context, s->memory, s->capacity, 1);
    *s = (xsmi_evaluate_scratch){.context = s->context};
}

xsm_status xsmi_evaluate(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                         xsmi_evaluate_scratch *kept, xsm_metrics *metrics, xsm_error *err)
{
    xsm_context *ctx = kept->context;
    if (!model || !dataset || !metrics) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_evaluate: %s is NULL",
                         !model     ? "the model"
                         : !dataset ? "the data"
                                    : "metrics");
    }
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    XSMI_TRY(xsmi_options_read(&o, sizeof o, XSMI_FIRST(xsm_evaluate_options), options, "xsm_evaluate_options", err));
    if (o.precision_max > XSM_PRECISION_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "precision_max is %u; accepted is up to %d", o.precision_max,
                         XSM_PRECISION_MAX);
    }
    if (!(o.propensity_a >= 0 && o.propensity_a <= 10) || !(o.propensity_b >= 0 && o.propensity_b <= 1e9)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "propensity_a is %g and propensity_b is %g; accepted is 0 to 10 and 0 to 1e9", o.propensity_a,
                         o.propensity_b);
    }
    if (xsmi_model_input(model) != dataset->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the model has %u features, the data %u", xsmi_model_input(model),
                         dataset->features);
    }
    xsm_metrics m = XSM_METRICS_INIT;
    evaluate_job job = {.model = model, .dataset = dataset, .top = o.precision_max ? o.precision_max : 10};
    job.most = XSMI_MAX(dataset->rows, kept->rows);
    size_t jobs = (size_t)((dataset->rows + JOB_ROWS - 1) / JOB_ROWS);
    size_t threads = xsm_context_threads(ctx);
    xsmi_arena counted = {NULL, 0};
    (void)divide_scratch(&job, &counted);
    job.scratch_each = counted.used;
    job.partials = xsmi_allocate(ctx, jobs, sizeof *job.partials);
    job.measures = xsmi_allocate(ctx, jobs, MEASURES * job.top * sizeof *job.measures);
    job.discounts = xsmi_allocate(ctx, job.top, sizeof *job.discounts);
    size_t weights = model->map.counts ? (size_t)model->classes + 1 : 0;
    job.weights = weights ? xsmi_allocate(ctx, weights, sizeof *job.weights) : NULL;
    size_t bytes;
    bool fits =
        xsmi_multiply(threads, job.scratch_each, &bytes) && xsmi_reserve(ctx, &kept->memory, &kept->capacity, bytes, 1);
    job.scratch = kept->memory;
    xsm_status status;
    if (!job.partials || !job.measures || !fits || !job.discounts || (weights && !job.weights)) {
        status = xsmi_fail_memory(err, threads * job.scratch_each, "an evaluation");
    } else {
        for (uint32_t k = 0; k < job.top; k++) {
            job.discounts[k] = 1 / log2((double)k + 2);
        }
        if (weights) {
            fill_weights(model, o.propensity_a > 0 ? o.propensity_a : 0.55, o.propensity_b > 0 ? o.propensity_b : 1.5,
                         job.weights);
        }
        status = xsmi_run(ctx, run_rows, &job, jobs, err);
    }
    if (status == XSM_OK) {
        status = join(&job, jobs, &m, err);
    }
    if (status == XSM_OK) {
        status = xsmi_options_write(&m, sizeof m, XSMI_FIRST(xsm_metrics), metrics, "xsm_metrics", err);
    }
    xsmi_release(ctx, job.partials, jobs, sizeof *job.partials);
    xsmi_release(ctx, job.measures, jobs, MEASURES * job.top * sizeof *job.measures);
    xsmi_release(ctx, job.discounts, job.top, sizeof *job.discounts);
    xsmi_release(ctx, job.weights, weights, sizeof *job.weights);
    return status;
}
