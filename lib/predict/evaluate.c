/*
 * Evaluation on a dataset with scores of all classes, in blocks of rows: log-loss, error, and measures of rankings
 * (metrics.h has the formulas; the propensities are from Jain, Prabhu and Varma, Extreme multi-label loss functions for
 * recommendation, tagging, ranking and other missing label applications, 2016).
 *
 * The sums of the blocks are added in the order of the rows, so that the result does not depend on the threads.
 */
#include "predict/evaluate.h"

#include "base/activity.h"
#include "base/arena.h"
#include "base/entry.h"
#include "base/hash.h"
#include "base/order.h"
#include "model/label_beam.h"

#include <math.h>
#include <string.h>

#define JOB_ROWS (XSMI_LANES * XSMI_TILE_BLOCKS)
/* Sums of measures that are kept before they are joined, so that a large k needs no memory for each job: 64 MiB. */
#define ROUND_NUMBERS ((size_t)1 << 23)
/* Where seconds are limited: the rows of the first sample; how many times larger the next one is at most; and the share
 * of the time left that it is expected to take. */
enum { FIRST_SAMPLE = 128, SAMPLE_GROWTH = 8 };
#define SAMPLE_SHARE 0.8

/* Bins of equal width of the probability of a row's best class. */
enum { BINS = 15 };

/* Sums over the rows of one job. */
typedef struct partial {
    double log_loss;
    double sure[BINS]; /* by bin: the probabilities of the best classes; and of these, how many are labels */
    uint64_t right[BINS];
    uint64_t rows, known_rows, unlabelled, unseen_labels, wrong;
    uint64_t failed; /* first row whose scores are not finite, or UINT64_MAX */
} partial;

/* Sums over rows for each k <= top. Weighted measures also have the sum of the best possible values. */
enum { PRECISION, NDCG, PSP, PSP_BEST, PSNDCG, PSNDCG_BEST, MEASURES };

typedef struct evaluate_job {
    xsm_context *context;
    const xsm_model *model;
    const xsm_dataset *dataset;
    uint32_t top;           /* at least 1 */
    bool ranked;            /* measures are wanted */
    uint64_t rows;          /* to evaluate, of the dataset's */
    uint32_t beam;          /* width of searches in label trees; 0 = all classes are scored */
    bool lossless;          /* there is no log-loss: by a search, where probabilities do not sum to one */
    uint64_t most;          /* rows with scratch, at most those of a job */
    size_t jobs, round;     /* all jobs; the most in a round */
    size_t first;           /* first job of the round */
    partial *partials;      /* [jobs of a round] */
    double *measures;       /* [jobs of a round][MEASURES][top] where they are wanted */
    size_t weight_count;    /* K+1, or 0 */
    double *weights;        /* [weight_count] 1/propensity of each class, then of an unseen one; NULL = unknown */
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
    float *top_score;     /* [JOB_ROWS][top] */
    uint32_t *top_class;  /* [JOB_ROWS][top] */
    double *best;         /* [top] the largest weights of a row's labels, falling */
    float *code;          /* for the model's correction */
    float *hidden;        /* for the model's first layer */
    void *model;          /* of the model */
    xsmi_label_beam beam; /* where label trees are searched */
} scratch;

static scratch divide_scratch(const evaluate_job *job, xsmi_arena *arena)
{
    scratch p;
    p.rows = xsmi_arena_take(arena, 1, sizeof *p.rows);
    p.top_score = xsmi_arena_take(arena, (uint64_t)JOB_ROWS * job->top, sizeof *p.top_score);
    p.top_class = xsmi_arena_take(arena, (uint64_t)JOB_ROWS * job->top, sizeof *p.top_class);
    p.best = xsmi_arena_take(arena, job->top, sizeof *p.best);
    p.code = xsmi_arena_take(arena, xsmi_model_chosen_scratch(job->model), sizeof *p.code);
    p.hidden = xsmi_arena_take(arena, job->model->layer ? job->model->features : 0, sizeof *p.hidden);
    p.model = NULL;
    if (job->beam > 0) {
        const uint32_t top = XSMI_MIN(job->top, job->model->classes);
        xsmi_label_beam_divide(job->model->trees, job->model->classes, XSMI_MAX(job->beam, top), arena, &p.beam);
        return p;
    }
    uint64_t blocks = (job->most + XSMI_LANES - 1) / XSMI_LANES; /* few rows need little memory */
    blocks = XSMI_MIN(blocks, XSMI_TILE_BLOCKS);
    size_t bytes = xsmi_model_score_all_scratch(job->model, job->dataset->sparse, (size_t)blocks, job->top);
    p.model = xsmi_arena_take(arena, bytes, 1);
    return p;
}

/* Where part i of `rows` equal parts of the dataset begins; a row off, at most, in a dataset of a hundred million. */
static uint64_t part_of(const evaluate_job *job, uint64_t i)
{
    const uint64_t whole = job->dataset->rows / job->rows, rest = job->dataset->rows % job->rows;
    return i * whole + XSMI_MIN((uint64_t)((double)i * (double)rest / (double)job->rows), rest);
}

/* Row i of those that are evaluated. A sample takes one row of each part, at a place that a hash of i says, so that it
 * does not follow a period of the rows. */
static uint64_t row_of(const evaluate_job *job, uint64_t i)
{
    if (job->rows == job->dataset->rows) {
        return i;
    }
    const uint64_t first = part_of(job, i);
    return first + xsmi_hash(&i, sizeof i, 0) % (part_of(job, i + 1) - first);
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

/* Adds the measures of a row's ranking to the sums of a job of the round. */
static void add_measures(const evaluate_job *job, size_t index, const uint32_t *labels, size_t count,
                         const uint32_t *top_class, double *best)
{
    uint32_t top = job->top, best_count = best_weights(job, labels, count, best);
    double *sums = job->measures + index * MEASURES * top;
    double hits = 0, gain = 0, weighted = 0, weighted_gain = 0, most = 0, most_gain = 0, ideal = 0;
    for (uint32_t k = 0; k < top; k++) {
        for (size_t j = 0; j < count; j++) {
            if (top_class[k] != XSMI_NO_CLASS && labels[j] == top_class[k]) {
                double weight = weight_of(job, labels[j]);
                hits += 1;
                gain += job->discounts[k];
                weighted += weight;
                weighted_gain += weight * job->discounts[k];
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
}

static bool is_label(const uint32_t *labels, size_t count, uint32_t class)
{
    size_t j = 0;
    while (j < count && labels[j] != class) {
        j++;
    }
    return j < count && class != XSMI_NO_CLASS;
}

/* The log-loss of a row by the sum of the scores of its labels. */
static double loss_of(const xsmi_calibration *c, double log_sum_exp, double target, double known)
{
    return c->method == XSM_CALIBRATION_NONE          ? log_sum_exp - target / known
           : c->method == XSM_CALIBRATION_TEMPERATURE ? log_sum_exp - c->scale * (target / known)
                                                      : log_sum_exp - (c->scale * target + c->shift * known);
}

/* Adds row i of a job of the round, which was scored. */
static void add_row(const evaluate_job *job, size_t index, size_t i, const scratch *here)
{
    partial *p = &job->partials[index];
    const xsm_model *m = job->model;
    const uint64_t row = row_of(job, (uint64_t)(job->first + index) * JOB_ROWS + i);
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
        float score = job->lossless ? 0 : here->rows->target_scores[i];
        if (count > 1 && !job->lossless) {
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
        p->log_loss += loss_of(&m->calibration, log_sum_exp, target, (double)known);
    }
    const uint32_t *top_class = here->top_class + i * job->top;
    const bool right = is_label(labels, count, top_class[0]);
    /* Label trees have a probability for each class by itself. */
    const double sure = xsmi_probability(&m->calibration, here->top_score[i * job->top], m->trees ? 0 : log_sum_exp);
    const size_t bin = XSMI_MIN((size_t)(sure * BINS), BINS - 1);
    p->sure[bin] += sure;
    p->right[bin] += right;
    p->wrong += !right;
    if (job->ranked) {
        add_measures(job, index, labels, count, top_class, here->best);
    }
}

/* Scores all classes of a job's rows. */
static void score_rows(const evaluate_job *job, size_t rows, const scratch *here)
{
    const job_rows *r = here->rows;
    const xsmi_score_all wanted = {.rows = rows,
                                   .features = r->features,
                                   .sparse = job->dataset->sparse,
                                   .target = r->targets,
                                   .top = job->top,
                                   .log_sum_exp = here->rows->log_sum_exp,
                                   .target_score = here->rows->target_scores,
                                   .top_score = here->top_score,
                                   .top_class = here->top_class};
    xsmi_model_score_rows(job->model, &wanted, here->model, job->context);
}

/* Searches the best classes of a job's rows in label trees. The log-loss of one label a row needs no sum over classes,
 * where probabilities sum to one; otherwise there is none. */
static void search_rows(const evaluate_job *job, size_t rows, const scratch *here)
{
    const xsm_model *m = job->model;
    job_rows *r = here->rows;
    const uint32_t top = XSMI_MIN(job->top, m->classes);
    xsmi_label_beam_start(&here->beam, m->classes);
    for (size_t i = 0; i < rows && !xsmi_poll(job->context); i++) {
        const xsmi_top list = {here->top_score + i * job->top, here->top_class + i * job->top, top};
        const bool good = xsmi_label_beam_search(&here->beam, &r->features[i], job->beam, &list) > 0;
        for (uint32_t k = top; k < job->top; k++) {
            list.class_of[k] = XSMI_NO_CLASS;
        }
        r->log_sum_exp[i] = good ? 0 : (double)NAN;
        r->target_scores[i] = 0;
        if (r->targets[i] != XSMI_NO_CLASS && !job->lossless) {
            xsmi_label_chosen(m->trees, &r->features[i], &r->targets[i], 1, &r->target_scores[i], here->code);
        }
    }
}

static void run_rows(void *state, size_t index, uint32_t thread)
{
    const evaluate_job *job = state;
    xsmi_arena arena = {job->scratch + thread * job->scratch_each, 0};
    const scratch here = divide_scratch(job, &arena);
    job_rows *r = here.rows;
    uint64_t first = (uint64_t)(job->first + index) * JOB_ROWS;
    size_t rows = (size_t)XSMI_MIN(job->rows - first, JOB_ROWS);
    for (size_t i = 0; i < JOB_ROWS; i++) {
        r->targets[i] = XSMI_NO_CLASS;
        if (i < rows) {
            size_t labels;
            const uint64_t row = row_of(job, first + i);
            const uint32_t *label = xsmi_dataset_labels(job->dataset, row, &labels);
            r->features[i] = xsmi_dataset_features(job->dataset, row);
            if (labels == 1 && label[0] < job->model->classes) {
                r->targets[i] = label[0];
            }
        }
    }
    if (job->beam > 0) {
        search_rows(job, rows, &here);
    } else {
        score_rows(job, rows, &here);
    }
    if (xsmi_is_cancelled(job->context)) {
        return;
    }
    memset(&job->partials[index], 0, sizeof job->partials[index]);
    if (job->ranked) {
        memset(job->measures + index * MEASURES * job->top, 0, MEASURES * job->top * sizeof *job->measures);
    }
    job->partials[index].failed = UINT64_MAX;
    for (size_t i = 0; i < rows; i++) {
        add_row(job, index, i, &here);
    }
    const uint64_t from = row_of(job, first);
    xsmi_dataset_passed(job->dataset, from, row_of(job, first + rows - 1) + 1 - from);
    xsmi_advance(job->context, rows);
}

/* The sums of all jobs so far. */
typedef struct total {
    partial all;
    double *measures; /* [MEASURES][top] */
} total;

/* Adds the jobs of a round, in the order of the rows. */
static void add_round(const evaluate_job *job, size_t jobs, total *sum)
{
    partial *all = &sum->all;
    for (size_t i = 0; i < jobs; i++) {
        const partial *p = &job->partials[i];
        all->rows += p->rows;
        all->known_rows += p->known_rows;
        all->unlabelled += p->unlabelled;
        all->unseen_labels += p->unseen_labels;
        all->wrong += p->wrong;
        all->log_loss += p->log_loss;
        for (size_t b = 0; b < BINS; b++) {
            all->sure[b] += p->sure[b];
            all->right[b] += p->right[b];
        }
        all->failed = XSMI_MIN(p->failed, all->failed);
        for (size_t j = 0; job->ranked && j < MEASURES * (size_t)job->top; j++) {
            sum->measures[j] += job->measures[i * MEASURES * job->top + j];
        }
    }
}

static bool is_ranked(const xsm_metrics *m)
{
    return m->precision || m->ndcg || m->psp || m->psndcg;
}

/* Writes the means to the arrays that the caller wants. */
static void write_measures(const evaluate_job *job, const total *sum, const xsm_metrics *m)
{
    const double *sums = sum->measures;
    const uint32_t top = job->top;
    for (uint32_t k = 0; k < top; k++) {
        if (m->precision) {
            m->precision[k] = sums[PRECISION * top + k] / (double)m->rows;
        }
        if (m->ndcg) {
            m->ndcg[k] = sums[NDCG * top + k] / (double)m->rows;
        }
        if (m->psp) {
            m->psp[k] = job->weights ? sums[PSP * top + k] / sums[PSP_BEST * top + k] : (double)NAN;
        }
        if (m->psndcg) {
            m->psndcg[k] = job->weights ? sums[PSNDCG * top + k] / sums[PSNDCG_BEST * top + k] : (double)NAN;
        }
    }
}

static xsm_status finish(const evaluate_job *job, const total *sum, xsm_metrics *m, xsm_error *err)
{
    const partial *all = &sum->all;
    if (all->failed != UINT64_MAX) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED, "row %llu has scores that are not finite: the model has diverged",
                         (unsigned long long)all->failed);
    }
    if (all->rows == 0) {
        return xsmi_fail(err, XSM_ERROR_DATA, "none of the %llu rows has a label to evaluate against",
                         (unsigned long long)job->rows);
    }
    m->rows = all->rows;
    m->known_rows = all->known_rows;
    m->unseen_rows = all->rows - all->known_rows;
    m->unlabelled = all->unlabelled;
    m->unseen_labels = all->unseen_labels;
    m->beam = job->beam;
    m->log_loss = all->known_rows && !job->lossless ? all->log_loss / (double)all->known_rows : (double)NAN;
    m->error = (double)all->wrong / (double)all->rows;
    m->calibration_error = 0;
    for (size_t b = 0; b < BINS; b++) {
        m->calibration_error += fabs((double)all->right[b] - all->sure[b]) / (double)all->rows;
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
    XSMI_ENTER();
    xsm_context *ctx = context ? context : model ? model->context : NULL;
    xsmi_evaluate_scratch kept = {.context = ctx};
    xsm_status status = xsmi_evaluate(model, dataset, options, &kept, metrics, err);
    xsmi_evaluate_scratch_free(&kept);
    return status;
}

xsm_status xsmi_metrics_new(xsm_context *ctx, uint32_t top, xsm_metrics *m, xsm_error *err)
{
    double *values = xsmi_allocate(ctx, 4 * (uint64_t)top, sizeof *values);
    if (!values) {
        return xsmi_fail_memory(err, 4 * (uint64_t)top * sizeof *values, "the measures of an evaluation");
    }
    *m = (xsm_metrics)XSM_METRICS_INIT;
    m->top = top;
    m->precision = values;
    m->ndcg = values + top;
    m->psp = values + 2 * (size_t)top;
    m->psndcg = values + 3 * (size_t)top;
    return XSM_OK;
}

void xsmi_metrics_free(xsm_context *ctx, xsm_metrics *m)
{
    xsmi_release(ctx, m->precision, 4 * (size_t)m->top, sizeof *m->precision);
    *m = (xsm_metrics)XSM_METRICS_INIT;
}

void xsmi_evaluate_scratch_free(xsmi_evaluate_scratch *s)
{
    xsmi_release(s->context, s->memory, s->capacity, 1);
    *s = (xsmi_evaluate_scratch){.context = s->context};
}

/* Reads the options and the wanted measures, and checks them with the model and the data. */
static xsm_status read_request(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                               const xsm_metrics *metrics, xsm_evaluate_options *o, xsm_metrics *m, xsm_error *err)
{
    if (!model || !dataset || !metrics) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_evaluate: %s is NULL",
                         !model     ? "the model"
                         : !dataset ? "the data"
                                    : "metrics");
    }
    XSMI_TRY(xsmi_options_read(o, sizeof *o, XSMI_FIRST(xsm_evaluate_options), options, "xsm_evaluate_options", err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_evaluate_options, o, reserved, err));
    XSMI_TRY(xsmi_options_read(m, sizeof *m, XSMI_FIRST(xsm_metrics), metrics, "xsm_metrics", err));
    const bool ranked = is_ranked(m);
    if (m->top > XSM_TOP_MAX || (ranked && m->top == 0)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_metrics.top is %u; accepted is %d to %d", m->top, ranked ? 1 : 0,
                         XSM_TOP_MAX);
    }
    o->propensity_a = o->propensity_a == XSM_DEFAULT ? 0.55 : o->propensity_a;
    o->propensity_b = o->propensity_b == XSM_DEFAULT ? 1.5 : o->propensity_b;
    if (!(o->propensity_a >= 0 && o->propensity_a <= 10) || !(o->propensity_b >= 0 && o->propensity_b <= 1e9)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "propensity_a is %g and propensity_b is %g; accepted is 0 to 10 and 0 to 1e9", o->propensity_a,
                         o->propensity_b);
    }
    if (!(o->seconds >= 0 && isfinite(o->seconds))) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_evaluate_options.seconds is %g; accepted is 0 or more", o->seconds);
    }
    if (xsmi_model_input(model) != dataset->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the model has %u features, the data %u", xsmi_model_input(model),
                         dataset->features);
    }
    return XSM_OK;
}

/* Releases what prepare() allocated, even where it failed. */
static void release(evaluate_job *job, total *sum)
{
    const size_t sums = MEASURES * (size_t)job->top;
    xsmi_release(job->context, job->partials, job->round, sizeof *job->partials);
    xsmi_release(job->context, job->measures, job->ranked ? job->round : 0, sums * sizeof *job->measures);
    xsmi_release(job->context, sum->measures, sums, sizeof *sum->measures);
    xsmi_release(job->context, job->discounts, job->top, sizeof *job->discounts);
    xsmi_release(job->context, job->weights, job->weight_count, sizeof *job->weights);
}

/* Allocates and fills what the jobs of a round share; `job` has the model, the data and what is wanted. */
static xsm_status prepare(evaluate_job *job, const xsm_evaluate_options *o, const xsm_metrics *m,
                          xsmi_evaluate_scratch *kept, total *sum, xsm_error *err)
{
    xsm_context *ctx = job->context;
    const xsm_model *model = job->model;
    job->most = XSMI_MAX(job->rows, kept->rows);
    job->jobs = (size_t)((job->rows + JOB_ROWS - 1) / JOB_ROWS);
    const size_t sums = MEASURES * (size_t)job->top, threads = xsmi_context_threads(ctx);
    job->round = XSMI_MIN(job->jobs, XSMI_MAX(ROUND_NUMBERS / sums, threads));
    job->weight_count = model->map.counts && (m->psp || m->psndcg) ? (size_t)model->classes + 1 : 0;
    xsmi_arena counted = {NULL, 0};
    (void)divide_scratch(job, &counted);
    job->scratch_each = counted.used;
    job->partials = xsmi_allocate(ctx, job->round, sizeof *job->partials);
    job->measures = xsmi_allocate(ctx, job->ranked ? job->round : 0, sums * sizeof *job->measures);
    sum->measures = xsmi_allocate_zero(ctx, sums, sizeof *sum->measures);
    job->discounts = xsmi_allocate(ctx, job->top, sizeof *job->discounts);
    job->weights = job->weight_count ? xsmi_allocate(ctx, job->weight_count, sizeof *job->weights) : NULL;
    size_t bytes;
    bool fits = xsmi_multiply(threads, job->scratch_each, &bytes) &&
                xsmi_reserve(ctx, &kept->memory, &kept->capacity, bytes, 1);
    job->scratch = kept->memory;
    if (!job->partials || !job->measures || !sum->measures || !fits || !job->discounts ||
        (job->weight_count && !job->weights)) {
        return xsmi_fail_memory(err, threads * job->scratch_each, "an evaluation");
    }
    for (uint32_t k = 0; k < job->top; k++) {
        job->discounts[k] = 1 / log2((double)k + 2);
    }
    if (job->weights) {
        fill_weights(model, o->propensity_a, o->propensity_b, job->weights);
    }
    return XSM_OK;
}

/* Scores all rows, round by round. */
static xsm_status run_rounds(evaluate_job *job, total *sum, xsm_error *err)
{
    xsmi_activity activity;
    xsmi_begin(&activity, job->context, "evaluating", "rows", job->rows);
    xsm_status status = XSM_OK;
    for (; job->first < job->jobs && status == XSM_OK; job->first += job->round) {
        const size_t count = XSMI_MIN(job->round, job->jobs - job->first);
        status = xsmi_run(job->context, run_rows, job, count, err);
        if (status == XSM_OK) {
            add_round(job, count, sum);
        }
    }
    return xsmi_end(&activity, status, err);
}

/* Writes the results to the caller's struct and arrays. */
static xsm_status write_results(const evaluate_job *job, const total *sum, xsm_metrics *m, xsm_metrics *metrics,
                                xsm_error *err)
{
    XSMI_TRY(finish(job, sum, m, err));
    XSMI_TRY(xsmi_options_write(m, sizeof *m, XSMI_FIRST(xsm_metrics), metrics, "xsm_metrics", err));
    if (job->ranked) {
        write_measures(job, sum, m);
    }
    return XSM_OK;
}

/* Evaluates the job's rows. Returns how many times larger a sample may be that is to end at `end`, if that is twice or
 * more; else 0, after writing the results. */
static xsm_status evaluate_rows(evaluate_job *job, const xsm_evaluate_options *o, xsmi_evaluate_scratch *kept,
                                xsm_metrics *m, xsm_metrics *metrics, double end, double *growth, xsm_error *err)
{
    total sum = {.all.failed = UINT64_MAX};
    const double since = xsmi_seconds();
    job->first = 0;
    xsm_status status = prepare(job, o, m, kept, &sum, err);
    status = status == XSM_OK ? run_rounds(job, &sum, err) : status;
    const double now = xsmi_seconds();
    *growth = XSMI_MIN(SAMPLE_SHARE * (end - now) / XSMI_MAX(now - since, 1e-9), SAMPLE_GROWTH);
    *growth = *growth >= 2 ? *growth : 0;
    status = status == XSM_OK && *growth == 0 ? write_results(job, &sum, m, metrics, err) : status;
    release(job, &sum);
    return status;
}

xsm_status xsmi_evaluate(const xsm_model *model, const xsm_dataset *dataset, const xsm_evaluate_options *options,
                         xsmi_evaluate_scratch *kept, xsm_metrics *metrics, xsm_error *err)
{
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics m = XSM_METRICS_INIT;
    XSMI_TRY(read_request(model, dataset, options, metrics, &o, &m, err));
    const bool ranked = is_ranked(&m);
    evaluate_job job = {
        .context = kept->context, .model = model, .dataset = dataset, .top = ranked ? m.top : 1, .ranked = ranked};
    if (model->trees) {
        const uint32_t beam = o.beam ? o.beam : XSMI_LABEL_BEAM;
        job.beam = beam < model->classes ? beam : 0;
        job.lossless = job.beam > 0 &&
                       (model->trees->link != XSMI_LINK_SOFTMAX || model->calibration.method != XSM_CALIBRATION_NONE);
    } else if (o.beam > 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_evaluate_options.beam is %u, and the model is no label tree; 0 is accepted", o.beam);
    }
    const uint64_t rows = o.rows ? XSMI_MIN(o.rows, dataset->rows) : dataset->rows;
    const double end = xsmi_seconds() + o.seconds;
    job.rows = o.seconds > 0 ? XSMI_MIN(rows, FIRST_SAMPLE) : rows;
    double growth;
    do {
        XSMI_TRY(evaluate_rows(&job, &o, kept, &m, metrics, job.rows < rows ? end : 0, &growth, err));
        job.rows = XSMI_MIN(rows, (uint64_t)(growth * (double)job.rows));
    } while (growth > 0);
    return XSM_OK;
}

xsm_status xsmi_evaluate_train(xsm_context *ctx, const xsm_model *model, const xsm_dataset *train, int32_t how,
                               double seconds, uint64_t *sample, xsm_metrics *metrics, xsm_error *err)
{
    xsm_evaluate_options o = XSM_EVALUATE_OPTIONS_INIT;
    if (how == XSM_EVALUATE_SAMPLE) {
        o.rows = *sample;
        o.seconds = *sample ? 0 : XSMI_MAX(seconds / 10, 0.1);
    }
    XSMI_TRY(xsm_evaluate(ctx, model, train, &o, metrics, err));
    *sample = metrics->rows + metrics->unlabelled;
    return XSM_OK;
}

xsm_status xsmi_check_evaluate_train(int32_t how, xsm_error *err)
{
    if (how < XSM_EVALUATE_NONE || how > XSM_EVALUATE_SAMPLE) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "evaluate_train %d is none of XSM_EVALUATE_*", how);
    }
    return XSM_OK;
}
