#include "predict/evaluate_rows.h"

#include "base/activity.h"
#include "base/arena.h"
#include "base/order.h"
#include "model/together.h"
#include "model/label_scores.h"
#include "predict/sample.h"

#include <math.h>
#include <string.h>

/* The rows of one job. */
typedef struct job_rows {
    xsmi_features features[XSMI_EVALUATE_ROWS];
    uint32_t targets[XSMI_EVALUATE_ROWS];
    double log_sum_exp[XSMI_EVALUATE_ROWS];
    float target_scores[XSMI_EVALUATE_ROWS];
    double loss[XSMI_EVALUATE_ROWS];
    size_t known[XSMI_EVALUATE_ROWS]; /* labels that the model has */
} job_rows;

/* One thread's scratch. */
typedef struct scratch {
    job_rows *rows;
    float *top_score;        /* [XSMI_EVALUATE_ROWS][top] */
    uint32_t *top_class;     /* [XSMI_EVALUATE_ROWS][top] */
    double *best;            /* [top] the largest weights of a row's labels, falling */
    float *code;             /* for the model's correction */
    float *hidden;           /* for the model's first layer */
    float *label_scores;     /* of every row with several labels, one row after another; NULL: not computed yet */
    void *model;             /* of the model; NULL: label trees are searched */
    xsmi_label_scores trees; /* for searches in label trees */
} scratch;

static scratch divide(const xsmi_evaluate_job *job, xsmi_arena *arena)
{
    scratch p;
    p.rows = xsmi_arena_take(arena, 1, sizeof *p.rows);
    p.top_score = xsmi_arena_take(arena, (uint64_t)XSMI_EVALUATE_ROWS * job->top, sizeof *p.top_score);
    p.top_class = xsmi_arena_take(arena, (uint64_t)XSMI_EVALUATE_ROWS * job->top, sizeof *p.top_class);
    p.best = xsmi_arena_take(arena, job->top, sizeof *p.best);
    p.code = xsmi_arena_take(arena, xsmi_model_chosen_scratch(job->model), sizeof *p.code);
    p.hidden = xsmi_model_take_hidden(job->model, arena);
    p.label_scores = NULL;
    p.model = NULL;
    if (job->beam > 0) {
        const uint32_t top = XSMI_MIN(job->top, job->model->classes);
        xsmi_label_scores_divide(job->model, XSMI_MAX(job->beam, top), arena, &p.trees);
        return p;
    }
    uint64_t blocks = (job->most + XSMI_LANES - 1) / XSMI_LANES; /* a few rows need less memory */
    blocks = XSMI_MIN(blocks, XSMI_TILE_BLOCKS);
    size_t bytes = xsmi_together_scratch(job->model, job->dataset->sparse, (size_t)blocks, job->top);
    p.model = xsmi_arena_take(arena, bytes, 1);
    return p;
}

/* Returns row i of those that are evaluated. */
static uint64_t row_of(const xsmi_evaluate_job *job, uint64_t i)
{
    return xsmi_sample_row(job->dataset->rows, job->rows, i);
}

/* Returns the weight of a label, which may be unseen. */
static double weight_of(const xsmi_evaluate_job *job, uint32_t label)
{
    uint32_t classes = job->model->classes;
    return job->weights ? job->weights[XSMI_MIN(label, classes)] : 0;
}

/* Fills `best` with the largest weights of a row's labels; returns their number. */
static uint32_t best_weights(const xsmi_evaluate_job *job, const uint32_t *labels, size_t count, double *best)
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

/* Adds the measures of a row's ranking, times `times`, to the sums of a job of the round, and fills the row's own. */
static void add_measures(const xsmi_evaluate_job *job, size_t index, double times, const uint32_t *labels, size_t count,
                         const uint32_t *top_class, double *best, xsmi_row_outcome *out)
{
    uint32_t top = job->top, best_count = best_weights(job, labels, count, best);
    double *sums = job->measures + index * XSMI_MEASURES * top;
    double hits = 0, gain = 0, weighted = 0, weighted_gain = 0, most = 0, most_gain = 0, ideal = 0;
    double first = 0; /* 1/rank of the first label */
    for (uint32_t k = 0; k < top; k++) {
        for (size_t j = 0; j < count; j++) {
            if (top_class[k] != XSMI_NO_CLASS && labels[j] == top_class[k]) {
                double weight = weight_of(job, labels[j]);
                hits += 1;
                first = hits > 1 ? first : 1 / ((double)k + 1);
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
        sums[XSMI_PRECISION * top + k] += times * (hits / (k + 1));
        sums[XSMI_NDCG * top + k] += times * (gain / ideal);
        sums[XSMI_PSP * top + k] += times * (weighted / (k + 1));
        sums[XSMI_PSP_BEST * top + k] += times * (most / (k + 1));
        sums[XSMI_PSNDCG * top + k] += times * (weighted_gain / ideal);
        sums[XSMI_PSNDCG_BEST * top + k] += times * (most_gain / ideal);
        sums[XSMI_RECALL * top + k] += times * (hits / (double)count);
        sums[XSMI_HITS * top + k] += hits > 0 ? times : 0;
        sums[XSMI_RECIPROCAL * top + k] += times * first;
    }
    out->precision = hits / top;
    out->ndcg = gain / ideal;
    out->hits = hits > 0;
    out->reciprocal_rank = first;
}

/* Returns a row's log-loss from the sum of its labels' calibrated scores; 0 where rounding makes it negative. */
static double loss_of(const xsmi_calibration *c, double log_sum_exp, double target, double known)
{
    const double loss = log_sum_exp - (c->method == XSM_CALIBRATION_LABELS ? target : target / known);
    return loss < 0 && isfinite(loss) ? 0 : loss;
}

/* Adds the log-loss of row i of those that were scored against all classes, and the number of its known labels. */
static void add_labels(const xsmi_evaluate_job *job, size_t i, const uint32_t *labels, size_t count, scratch *here)
{
    const xsm_model *m = job->model;
    job_rows *r = here->rows;
    double target = 0;
    xsmi_model_row features = {r->features[i], r->features[i]};
    if (count > 1) {
        features.input = xsmi_model_forward(m, &features.x, here->hidden);
    }
    r->known[i] = 0;
    for (size_t j = 0; j < count; j++) {
        if (labels[j] >= m->classes) {
            continue;
        }
        float score = r->target_scores[i];
        if (count > 1 && here->label_scores) {
            score = here->label_scores[j];
        } else if (count > 1) {
            xsmi_model_chosen_scores(m, &features, &labels[j], 1, &score, here->code);
        }
        target += xsmi_calibrated_score(&m->calibration, score);
        r->known[i]++;
    }
    if (count > 1 && here->label_scores) {
        here->label_scores += count;
    }
    r->loss[i] = r->known[i] > 0 ? loss_of(&m->calibration, r->log_sum_exp[i], target, (double)r->known[i]) : 0;
}

/* Adds row i, which was scored, of a job of the round. */
static void add_row(const xsmi_evaluate_job *job, size_t index, size_t i, scratch *here)
{
    xsmi_evaluated *p = &job->partials[index];
    const xsm_model *m = job->model;
    const uint64_t row = row_of(job, (uint64_t)(job->first + index) * XSMI_EVALUATE_ROWS + i);
    const double log_sum_exp = here->rows->log_sum_exp[i];
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(job->dataset, row, &count);
    if (count == 0) {
        p->unlabelled++;
        return;
    }
    const double times = xsmi_dataset_weight(job->dataset, row);
    p->rows++;
    p->weight += times;
    if (here->model) {
        add_labels(job, i, labels, count, here);
    }
    const size_t known = here->rows->known[i];
    const double loss = here->rows->loss[i];
    p->unseen_labels += count - known;
    if (!isfinite(log_sum_exp) || !isfinite(loss)) {
        p->failed = XSMI_MIN(row, p->failed);
        return;
    }
    if (known > 0) {
        p->known_rows++;
        p->known_weight += times;
        p->log_loss += times * loss;
    }
    const uint32_t *top_class = here->top_class + i * job->top;
    const bool right = top_class[0] != XSMI_NO_CLASS && xsmi_contains(labels, count, top_class[0]);
    const float best = here->top_score[i * job->top];
    const double sure = xsmi_class_probability(m, &m->calibration, best, log_sum_exp);
    if (!isfinite(sure)) { /* scores are so large that rounding separates the best one from their log-sum */
        p->failed = XSMI_MIN(row, p->failed);
        return;
    }
    const size_t bin = xsmi_bin_of(sure);
    p->sure[bin] += times * sure;
    p->right[bin] += right ? times : 0;
    p->wrong += right ? 0 : times;
    xsmi_row_outcome outcome = {.log_loss = loss, .first = right};
    if (job->ranked) {
        add_measures(job, index, times, labels, count, top_class, here->best, &outcome);
    }
    if (job->each) {
        job->each[(job->first + index) * XSMI_EVALUATE_ROWS + i] = outcome;
    }
}

/* Sets what to compute over all classes for a job's rows. */
static xsmi_score_all all_scores(const xsmi_evaluate_job *job, size_t rows, const scratch *here)
{
    const job_rows *r = here->rows;
    return (xsmi_score_all){.rows = rows,
                            .features = r->features,
                            .sparse = job->dataset->sparse,
                            .target = r->targets,
                            .top = job->top,
                            .log_sum_exp = here->rows->log_sum_exp,
                            .target_score = here->rows->target_scores,
                            .top_score = here->top_score,
                            .top_class = here->top_class};
}

/* Lists the labels of a job's rows that have several. */
static void list_labels(const xsmi_evaluate_job *job, uint64_t first, size_t rows, xsmi_score_lists *lists)
{
    for (size_t i = 0; i < rows; i++) {
        size_t *count = &lists->counts[i];
        lists->classes[i] = xsmi_dataset_labels(job->dataset, row_of(job, first + i), count);
        *count = *count > 1 ? *count : 0;
        lists->total += *count;
    }
}

/* Searches the best classes of a job's rows in label trees. */
static void search_rows(const xsmi_evaluate_job *job, size_t rows, uint64_t first, const scratch *here)
{
    const xsm_model *m = job->model;
    job_rows *r = here->rows;
    const uint32_t top = XSMI_MIN(job->top, m->classes);
    xsmi_label_beam_start(&here->trees.beam, m->classes);
    for (size_t i = 0; i < rows && !xsmi_poll(job->context); i++) {
        const xsmi_top list = {here->top_score + i * job->top, here->top_class + i * job->top, top};
        const bool good = xsmi_label_beam_all(&here->trees.beam, &r->features[i], job->beam, &list) > 0;
        for (uint32_t k = top; k < job->top; k++) {
            list.class_of[k] = XSMI_NO_CLASS;
        }
        r->log_sum_exp[i] = good ? 0 : (double)NAN;
        r->loss[i] = 0;
        r->known[i] = 0;
        if (good) {
            size_t count;
            const uint32_t *labels = xsmi_dataset_labels(job->dataset, row_of(job, first + i), &count);
            const double log_sum = xsmi_label_log_sum(&here->trees);
            r->log_sum_exp[i] = log_sum;
            r->loss[i] = xsmi_label_loss(&here->trees, &r->features[i], labels, count, log_sum, &r->known[i]);
        }
    }
}

/* Lists a job's rows, and their targets where they have one label. */
static void list_rows(const xsmi_evaluate_job *job, uint64_t first, size_t rows, job_rows *r)
{
    for (size_t i = 0; i < XSMI_EVALUATE_ROWS; i++) {
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
}

/* Adds the measures of a job's rows. */
static void add_rows(const xsmi_evaluate_job *job, size_t index, uint64_t first, size_t rows, scratch *here)
{
    memset(&job->partials[index], 0, sizeof job->partials[index]);
    if (job->ranked) {
        memset(job->measures + index * XSMI_MEASURES * job->top, 0, XSMI_MEASURES * job->top * sizeof *job->measures);
    }
    job->partials[index].failed = UINT64_MAX;
    for (size_t i = 0; i < rows; i++) {
        add_row(job, index, i, here);
    }
    const uint64_t from = row_of(job, first);
    xsmi_dataset_passed(job->dataset, from, row_of(job, first + rows - 1) + 1 - from);
    xsmi_advance(job->context, rows);
}

/* Sets *first to the first row of a job of the round, and returns the number of its rows. */
static size_t rows_of(const xsmi_evaluate_job *job, size_t index, uint64_t *first)
{
    *first = (uint64_t)(job->first + index) * XSMI_EVALUATE_ROWS;
    return (size_t)XSMI_MIN(job->rows - *first, XSMI_EVALUATE_ROWS);
}

void xsmi_evaluate_rows_job(void *state, size_t index, uint32_t thread)
{
    const xsmi_evaluate_job *job = state;
    xsmi_arena arena = {job->scratch + thread * job->scratch_each, 0};
    scratch here = divide(job, &arena);
    uint64_t first;
    const size_t rows = rows_of(job, index, &first);
    list_rows(job, first, rows, here.rows);
    if (here.model) {
        const xsmi_score_all wanted = all_scores(job, rows, &here);
        (void)xsmi_together_score_rows(job->model, &wanted, NULL, here.model, job->context, XSM_OK, NULL);
    } else {
        search_rows(job, rows, first, &here);
    }
    if (!xsmi_is_cancelled(job->context)) {
        add_rows(job, index, first, rows, &here);
    }
}

xsm_status xsmi_evaluate_rows_together(const xsmi_evaluate_job *job, size_t index, xsm_error *err)
{
    xsmi_arena arena = {job->scratch, 0};
    scratch here = divide(job, &arena);
    const uint32_t *classes[XSMI_EVALUATE_ROWS];
    size_t counts[XSMI_EVALUATE_ROWS];
    xsmi_score_lists lists = {.classes = classes, .counts = counts};
    uint64_t first;
    const size_t rows = rows_of(job, index, &first);
    list_rows(job, first, rows, here.rows);
    list_labels(job, first, rows, &lists);
    lists.scores = here.label_scores = xsmi_allocate(job->context, lists.total, sizeof *lists.scores);
    xsm_status status =
        lists.scores ? XSM_OK : xsmi_fail_memory(err, lists.total * sizeof *lists.scores, "the scores of labels");
    const xsmi_score_all wanted = all_scores(job, rows, &here);
    status = xsmi_together_score_rows(job->model, &wanted, &lists, here.model, job->context, status, err);
    if (status == XSM_OK) {
        add_rows(job, index, first, rows, &here);
    }
    xsmi_release(job->context, lists.scores, lists.total, sizeof *lists.scores);
    return status;
}

size_t xsmi_evaluate_scratch_bytes(const xsmi_evaluate_job *job)
{
    xsmi_arena counted = {NULL, 0};
    (void)divide(job, &counted);
    return counted.used;
}
