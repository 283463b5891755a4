/*
 * Class means as a linear model: discriminant analysis with one variance for all classes and features (Hastie,
 * Tibshirani and Friedman, The Elements of Statistical Learning, 2009, section 4.3, its covariance a multiple of the
 * identity), which finds the nearest class mean, as scikit-learn's NearestCentroid does, and may weigh it by the share
 * of the labels that are the class's. With m the mean of all rows, counted with their labels,
 *
 *     log P(k | x) = w_k . x + b_k + a term of x,
 *     w_k = (mu_k - m) / v,  b_k = (|m|^2 - |mu_k|^2) / (2v) + log share_k.
 *
 * Subtracting m from all means changes no probability, and makes scores small, so that rounding errors are small, too.
 *
 * The variance of rows about their means, over all features, would make scores much too large where features depend on
 * each other, as words do. Instead, v is chosen by the likelihood of some rows, each with its class counted and
 * averaged as if the row had been left out, among a sample of the other classes. The classes' shares are used only if
 * they make those rows more likely: shares that come from the choice of the training rows would do harm.
 */
#include "base/activity.h"
#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "kernels/arithmetic.h"
#include "math/logarithm.h"
#include "model/score.h"
#include "train/fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include <xsoftmax/stored_weights.h>
#include <xsoftmax/fit.h>

/* The most rows by which the variance is chosen, and the most classes that each row is compared with. */
enum { ROWS = XSMI_MEANS_SAMPLE, CLASSES = XSMI_MEANS_SAMPLE };
/* 1/v is searched between these powers of 2, in units of the reciprocal of the largest score for v = 1. */
enum { EXPONENT_LEAST = -40, EXPONENT_MOST = 40, HALVINGS = 20 };
/* The largest power that is used: a larger 1/v would turn rounding errors of float32 into differences. */
enum { EXPONENT_EXACT = 16 };
/* Approximate number of jobs over the classes. */
enum { JOBS = 256 };
/* Number of rows of a class between two polls. */
enum { ROWS_TOGETHER = 256 };

/* A row with one of its labels. */
typedef struct sample {
    uint64_t row;
    uint32_t class;
    double weight;
    double own;      /* its score by its class's mean without it, for v = 1; NaN if the class has no other row */
    double distance; /* |x - m|^2 */
} sample;

typedef struct means {
    xsmi_held held; /* the arrays */
    xsm_context *context;
    const xsm_dataset *train;
    xsm_parameters to;
    uint64_t *starts, *rows;                /* [K+1], [labels]: class k has the rows rows[starts[k]..starts[k+1]) */
    float *label_weights;                   /* [labels] the weights of these rows' labels k; NULL: all 1 */
    double *weights, *along, *square;       /* [K] of class k: its labels' weights; m.c; |c|^2 (c = mu_k - m) */
    double *mean, *sums;                    /* m; [threads, D] */
    double total, mean_square;              /* of the weights; |m|^2 */
    uint32_t each, occurring;               /* classes of a job; number of classes with a weight */
    uint32_t classes[CLASSES], class_count; /* the classes that samples are compared with */
    double priors[CLASSES];                 /* the logarithms of these classes' shares, or 0 */
    sample *samples;                        /* [ROWS] */
    double *scores;                         /* [ROWS, CLASSES] for v = 1; -INFINITY for a label of the row */
    size_t sample_count;
    double precision; /* 1/v */
    bool shares;      /* whether the classes' shares are used */
    double least;     /* the bias of classes without a weight */
} means;

/* -- means --------------------------------------------------------------------------------------------------------- */

/* Returns the weight of row rows[at] times that of its label. */
static double weight_of(const means *t, uint64_t at)
{
    return xsmi_dataset_weight(t->train, t->rows[at]) * (t->label_weights ? (double)t->label_weights[at] : 1);
}

/* Lists the rows of each class. */
static void list_rows(means *t)
{
    const xsm_dataset *d = t->train;
    const uint32_t classes = t->to.classes;
    for (uint64_t i = 0; i < d->rows; i++) {
        for (uint64_t l = d->label_offsets[i]; l < d->label_offsets[i + 1]; l++) {
            t->starts[d->labels[l] + 1]++;
        }
        xsmi_dataset_poll(t->context, i);
    }
    for (uint32_t k = 0; k < classes; k++) {
        t->starts[k + 1] += t->starts[k];
    }
    for (uint64_t i = 0; i < d->rows; i++) {
        for (uint64_t l = d->label_offsets[i]; l < d->label_offsets[i + 1]; l++) {
            const uint64_t at = t->starts[d->labels[l]]++;
            t->rows[at] = i;
            if (t->label_weights) {
                t->label_weights[at] = d->label_weights[l];
            }
        }
        xsmi_dataset_poll(t->context, i);
    }
    memmove(t->starts + 1, t->starts, classes * sizeof *t->starts); /* the starts have moved by one class */
    t->starts[0] = 0;
}

static void add_row(const xsmi_features *x, double weight, double *sums)
{
    for (size_t j = 0; j < x->count; j++) {
        sums[x->index ? x->index[j] : j] += weight * (double)x->values[j];
    }
}

/* Computes m, the mean of all rows, each counted once for each label. */
static xsm_status find_mean(means *t, xsm_error *err)
{
    const xsm_dataset *d = t->train;
    size_t since = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features x = xsmi_dataset_features(d, i);
        size_t count;
        (void)xsmi_dataset_labels(d, i, &count);
        const float *weights = xsmi_dataset_label_weights(d, i);
        double weight = 0;
        for (size_t l = 0; l < count; l++) {
            weight += weights ? (double)weights[l] : 1;
        }
        weight *= xsmi_dataset_weight(d, i);
        add_row(&x, weight, t->mean);
        t->total += weight;
        XSMI_TRY(xsmi_dataset_worked(t->context, &since, x.count + count, err));
    }
    if (!(t->total > 0)) {
        return xsmi_fail(err, XSM_ERROR_DATA, "the weights of the rows' labels add up to 0; a sum above 0 is accepted");
    }
    for (uint32_t j = 0; j < d->features; j++) {
        t->mean[j] /= t->total;
        t->mean_square += t->mean[j] * t->mean[j];
    }
    return XSM_OK;
}

static void average_class(means *t, uint32_t class, double *sums)
{
    float *row = t->to.weight + class * t->to.class_step;
    double weight = 0, along = 0, square = 0;
    memset(sums, 0, t->to.features * sizeof *sums);
    for (uint64_t i = t->starts[class]; i < t->starts[class + 1]; i++) {
        const double w = weight_of(t, i);
        const xsmi_features x = xsmi_dataset_features(t->train, t->rows[i]);
        add_row(&x, w, sums);
        weight += w;
        if ((i - t->starts[class]) % ROWS_TOGETHER == 0 && xsmi_go_on(t->context, NULL) != XSM_OK) {
            return;
        }
    }
    for (uint32_t j = 0; j < t->to.features; j++) {
        row[j] = weight > 0 ? (float)(sums[j] / weight - t->mean[j]) : 0;
        along += t->mean[j] * (double)row[j];
        square += (double)row[j] * (double)row[j];
    }
    t->weights[class] = weight;
    t->along[class] = along;
    t->square[class] = square;
}

static double log_share(const means *t, double weight)
{
    return xsmi_logarithm(weight / t->total);
}

static double bias_of(const means *t, uint32_t class)
{
    if (t->weights[class] == 0) {
        return t->least;
    }
    const double prior = t->shares ? log_share(t, t->weights[class]) : 0;
    return prior - t->precision * (t->along[class] + t->square[class] / 2);
}

static void finish_class(means *t, uint32_t class, double *sums)
{
    (void)sums;
    float *row = t->to.weight + class * t->to.class_step;
    for (uint32_t j = 0; j < t->to.features; j++) {
        row[j] = (float)((double)row[j] * t->precision);
    }
    t->to.bias[class] = (float)bias_of(t, class);
}

static void for_classes(means *t, const xsmi_range *r, void (*of)(means *t, uint32_t class, double *sums))
{
    for (size_t k = r->first; k < r->end; k++) {
        of(t, (uint32_t)k, t->sums + (size_t)r->thread * t->to.features);
    }
    xsmi_advance(t->context, r->end - r->first);
}

static void average(void *state, const xsmi_range *r)
{
    for_classes(state, r, average_class);
}

static void finish(void *state, const xsmi_range *r)
{
    for_classes(state, r, finish_class);
}

/* -- the variance -------------------------------------------------------------------------------------------------- */

/* Chooses rows and classes at equal distances in the order of all. */
static void choose_samples(means *t)
{
    const uint64_t labels = t->starts[t->to.classes];
    uint32_t class = 0;
    t->sample_count = (size_t)XSMI_MIN(labels, ROWS);
    for (size_t i = 0; i < t->sample_count; i++) {
        const uint64_t at = (uint64_t)(((double)i + 0.5) / (double)t->sample_count * (double)labels);
        while (t->starts[class + 1] <= at) {
            class ++;
        }
        t->samples[i] = (sample){.row = t->rows[at], .class = class, .own = (double)NAN};
        t->samples[i].weight = weight_of(t, at);
    }
    for (uint32_t k = 0; k < t->to.classes; k++) {
        t->occurring += t->weights[k] > 0;
    }
    const uint32_t most = XSMI_MIN(t->occurring, CLASSES);
    double seen = 0.5;
    for (uint32_t k = 0; k < t->to.classes; k++) {
        if (t->weights[k] > 0) {
            if (t->class_count < most && seen * most >= (double)t->class_count * (double)t->occurring) {
                t->classes[t->class_count++] = k;
            }
            seen++;
        }
    }
}

/* Returns (x - m).c of a class. */
static double dot(const means *t, const xsmi_features *x, double distance, const float *direction, uint32_t class)
{
    const float *c = t->to.weight + class * t->to.class_step;
    double sum = 0;
    if (!x->index) {
        return sqrt(distance) * (double)xsmi_context_kernels(t->context)->dot(direction, c, x->count);
    }
    for (size_t j = 0; j < x->count; j++) {
        sum += (double)x->values[j] * (double)c[x->index[j]];
    }
    return sum - t->along[class];
}

/* Returns |x - m|^2; writes (x - m)/|x - m| to `direction` if the row is dense. */
static double centre(const means *t, const xsmi_features *x, float *direction)
{
    double sum = x->index ? t->mean_square : 0;
    for (size_t j = 0; j < x->count; j++) {
        const double m = t->mean[x->index ? x->index[j] : j], from = (double)x->values[j] - m;
        sum += from * from - (x->index ? m * m : 0);
    }
    const double length = sum > 0 ? sqrt(sum) : 1;
    for (size_t j = 0; j < x->count && !x->index; j++) {
        direction[j] = (float)(((double)x->values[j] - t->mean[j]) / length);
    }
    return XSMI_MAX(sum, 0);
}

/* Scores a sample for v = 1. Without its row, the mean of its class is mu + r (mu - x). */
static void score(void *state, size_t index, uint32_t thread)
{
    const means *t = state;
    sample *s = &t->samples[index];
    double *scores = t->scores + index * CLASSES;
    const xsmi_features x = xsmi_dataset_features(t->train, s->row);
    float *direction = (float *)(void *)(t->sums + (size_t)thread * t->to.features);
    s->distance = centre(t, &x, direction);
    const double others = t->weights[s->class] - s->weight;
    if (t->starts[s->class + 1] - t->starts[s->class] > 1 && others > t->weights[s->class] * 1e-9) {
        const double z = dot(t, &x, s->distance, direction, s->class), q = t->square[s->class], r = s->weight / others;
        s->own = z + r * (z - s->distance) - (q + 2 * r * (q - z) + r * r * (q - 2 * z + s->distance)) / 2;
    }
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(t->train, s->row, &count);
    for (uint32_t i = 0; i < t->class_count; i++) {
        const uint32_t k = t->classes[i];
        scores[i] = dot(t, &x, s->distance, direction, k) - t->square[k] / 2;
    }
    for (size_t l = 0; l < count; l++) {
        const size_t i = xsmi_lower_bound(t->classes, t->class_count, labels[l]);
        if (i < t->class_count && t->classes[i] == labels[l]) {
            scores[i] = -(double)INFINITY;
        }
    }
}

/* Adds the log-likelihood of a sample to *sum, and its derivative by 1/v, which is its own score less the mean of the
 * scores weighted by the probabilities, to *slope. The compared classes stand for all classes. They get a share
 * `smooth` of the label, as in Platt (1999), so that there is a maximum even if all samples are classified
 * correctly. */
static void add_likelihood(const means *t, const sample *s, const double *scores, double smooth, double *sum,
                           double *slope)
{
    const double prior = t->shares ? log_share(t, t->weights[s->class] - s->weight) : 0;
    const double own = t->precision * s->own + prior;
    double largest = own, plain = 0;
    size_t labels, others = 0;
    (void)xsmi_dataset_labels(t->train, s->row, &labels);
    for (uint32_t i = 0; i < t->class_count; i++) {
        others += isfinite(scores[i]);
        plain += isfinite(scores[i]) ? scores[i] : 0;
        largest = XSMI_MAX(largest, t->precision * scores[i] + t->priors[i]);
    }
    if (others == 0 || isnan(s->own)) {
        return;
    }
    const double stand_for = XSMI_MAX((double)t->occurring - (double)labels, 1) / (double)others;
    double total = (double)xsmi_expf0((float)(own - largest)), expected = total * s->own;
    for (uint32_t i = 0; i < t->class_count; i++) {
        if (isfinite(scores[i])) {
            const double score = t->precision * scores[i] + t->priors[i];
            const double p = stand_for * (double)xsmi_expf0((float)(score - largest));
            expected += p * scores[i];
            total += p;
        }
    }
    const double target = (1 - smooth) * s->own + smooth * plain / (double)others;
    *sum += s->weight * (t->precision * target + prior - largest - xsmi_logarithm(total));
    *slope += s->weight * (target - expected / total);
}

/* Returns the log-likelihood of all samples, and sets *slope to its derivative. */
static double likelihood(means *t, double precision, double smooth, double *slope)
{
    double sum = *slope = 0;
    t->precision = precision;
    for (size_t i = 0; i < t->sample_count; i++) {
        add_likelihood(t, &t->samples[i], t->scores + i * CLASSES, smooth, &sum, slope);
    }
    return sum;
}

/* Finds the best 1/v, with the classes' shares or without, and sets *best to its log-likelihood, which is concave in
 * 1/v. */
static xsm_status search(means *t, bool shares, double largest, double smooth, double *best, xsm_error *err)
{
    double low = ldexp(1, EXPONENT_LEAST) / largest, high = ldexp(1, EXPONENT_MOST) / largest, slope;
    t->shares = shares;
    for (uint32_t i = 0; i < t->class_count; i++) {
        t->priors[i] = shares ? log_share(t, t->weights[t->classes[i]]) : 0;
    }
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = sqrt(low) * sqrt(high);
        (void)likelihood(t, middle, smooth, &slope);
        *(slope > 0 ? &low : &high) = middle;
        XSMI_TRY(xsmi_go_on(t->context, err));
    }
    *best = likelihood(t, XSMI_MIN(low, ldexp(1, EXPONENT_EXACT) / largest), smooth, &slope);
    return XSM_OK;
}

/* Chooses 1/v, and whether shares are used, by the likelihood. If no class has two rows, the rows say nothing of v:
 * then v is chosen so that a row at the mean of its class has a probability of about 1/2 if the classes' means are as
 * far from m as rows are, in directions at right angles. If v explains less than a parameter has to (Akaike 1974), 1/v
 * is at most that: the scores of few rows can all be equal. */
static xsm_status choose_precision(means *t, xsm_error *err)
{
    double largest = 0, distance = 0, weight = 0, with, without, slope;
    size_t compared = 0;
    for (size_t i = 0; i < t->sample_count; i++) {
        const sample *s = &t->samples[i];
        compared += !isnan(s->own);
        distance += s->weight * s->distance;
        weight += s->weight;
        largest = isnan(s->own) ? largest : XSMI_MAX(largest, fabs(s->own));
        for (uint32_t j = 0; j < t->class_count && !isnan(s->own); j++) {
            const double score = t->scores[i * CLASSES + j];
            largest = isfinite(score) ? XSMI_MAX(largest, fabs(score)) : largest;
        }
    }
    const double usual = distance > 0 ? xsmi_logarithm(XSMI_MAX((double)t->occurring, 2)) * weight / distance : 1;
    if (!(largest > 0)) {
        t->precision = usual;
        t->shares = true;
        return XSM_OK;
    }
    const double smooth = 1 / ((double)compared + 2);
    XSMI_TRY(search(t, false, largest, smooth, &without, err));
    const double alone = t->precision, alone_gain = without - likelihood(t, 0, smooth, &slope);
    XSMI_TRY(search(t, true, largest, smooth, &with, err));
    const double together = t->precision, gain = with - likelihood(t, 0, smooth, &slope);
    t->shares = with > without;
    t->precision = t->shares ? together : alone;
    if ((t->shares ? gain : alone_gain) < 1) {
        t->precision = XSMI_MIN(t->precision, usual);
    }
    return XSM_OK;
}

/* -- the model ----------------------------------------------------------------------------------------------------- */

static xsm_status allocate(means *t, xsm_error *err)
{
    const uint64_t classes = t->to.classes, features = t->to.features, labels = t->train->label_offsets[t->train->rows];
    t->held.context = t->context;
    t->starts = xsmi_hold_zeros(&t->held, classes + 1, sizeof *t->starts);
    t->rows = xsmi_hold(&t->held, labels, sizeof *t->rows);
    t->label_weights = t->train->label_weights ? xsmi_hold(&t->held, labels, sizeof *t->label_weights) : NULL;
    t->weights = xsmi_hold(&t->held, classes, 3 * sizeof *t->weights);
    t->mean = xsmi_hold_zeros(&t->held, features, sizeof *t->mean);
    t->sums = xsmi_hold(&t->held, features * xsmi_context_threads(t->context), sizeof *t->sums);
    t->samples = xsmi_hold(&t->held, ROWS, sizeof *t->samples);
    t->scores = xsmi_hold(&t->held, ROWS * CLASSES, sizeof *t->scores);
    XSMI_TRY(xsmi_held_check(&t->held, "the means of classes", err));
    t->along = t->weights + classes;
    t->square = t->along + classes;
    return XSM_OK;
}

/* Refuses weights and biases that float32 cannot hold, and chooses the bias of classes without a weight. The mean of a
 * row's scores over the other classes, weighted by their shares, is the mean of their biases for every row, so one of
 * these classes always has a score above that mean. */
static xsm_status check_biases(means *t, xsm_error *err)
{
    double mean = 0;
    for (uint32_t k = 0; k < t->to.classes; k++) {
        if (t->weights[k] > 0) {
            const double bias = bias_of(t, k), longest = t->precision * sqrt(t->square[k]);
            if (!(fabs(bias) <= (double)FLT_MAX && longest <= (double)FLT_MAX)) {
                return xsmi_fail(err, XSM_ERROR_RANGE,
                                 "class %u: a bias of %g and weights of length %g are too large for float32; rows that "
                                 "are transformed by 'standard' or 'unit' are accepted",
                                 k, bias, longest);
            }
            mean += t->weights[k] / t->total * bias;
        }
    }
    t->least = XSMI_MAX(mean - xsmi_logarithm(1 + (double)t->train->rows), -(double)FLT_MAX);
    return XSM_OK;
}

static xsm_status fit(means *t, xsm_error *err)
{
    xsmi_activity activity;
    xsmi_begin(&activity, t->context, "averaging classes", "classes", t->to.classes);
    xsm_status status = find_mean(t, err);
    if (status == XSM_OK) {
        list_rows(t);
        status = xsmi_run_ranges(t->context, average, t, t->to.classes, t->each, err);
    }
    XSMI_TRY(xsmi_end(&activity, status, err));
    choose_samples(t);
    xsmi_begin(&activity, t->context, "comparing classes", "rows", t->sample_count);
    status = xsmi_run(t->context, score, t, t->sample_count, err);
    status = status == XSM_OK ? choose_precision(t, err) : status;
    status = status == XSM_OK ? check_biases(t, err) : status;
    status = status == XSM_OK ? xsmi_run_ranges(t->context, finish, t, t->to.classes, t->each, err) : status;
    return xsmi_end(&activity, status, err);
}

/* Sets all weights to zero: a failure may have left some unfinished. */
static void clear(means *t)
{
    for (uint32_t k = 0; k < t->to.classes; k++) {
        memset(t->to.weight + k * t->to.class_step, 0, t->to.features * sizeof *t->to.weight);
    }
    memset(t->to.bias, 0, t->to.classes * sizeof *t->to.bias);
}

static xsm_status check(const xsm_model *m, const xsm_dataset *d, xsm_error *err)
{
    XSMI_TRY(xsmi_need("xsm_fit_class_means", XSMI_GIVEN({m, "the model"}, {d, "the data"}), err));
    XSMI_TRY(xsmi_model_need_whole(m, "class means", err));
    XSMI_TRY(xsmi_model_need_dense(m, "class means", err));
    XSMI_TRY(xsmi_model_check_rows(m, d, "the data", err));
    XSMI_TRY(xsmi_model_check_labels(m, d, "the data", err));
    if (!xsmi_model_is_linear(m)) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "class means are the weights of a linear model, without a correction, whose scores are no "
                         "distances; this is another one");
    }
    if (!m->w.bias) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "class means need a bias, which has their lengths; this model has none");
    }
    return d->counted.unseen_labels == 0
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_DATA,
                           "%llu labels of the rows are of no class of the model; class means are of rows without such",
                           (unsigned long long)d->counted.unseen_labels);
}

xsm_status xsm_fit_class_means(xsm_context *context, xsm_model *model, const xsm_dataset *train, double *variance,
                               xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(check(model, train, err));
    XSMI_TRY(xsm_model_set_layout(model, XSM_LAYOUT_CLASS_MAJOR, err));
    means t = {.train = train, .to = XSM_PARAMETERS_INIT};
    XSMI_TRY(xsm_model_get_parameters(model, &t.to, err));
    XSMI_TRY(xsmi_context_acquire(context, &t.context, err));
    t.each = t.to.classes / JOBS + 1;
    xsm_status status = allocate(&t, err);
    if (status == XSM_OK) {
        status = fit(&t, err);
        if (status != XSM_OK) {
            clear(&t);
        }
    }
    if (status == XSM_OK && variance) {
        *variance = 1 / t.precision;
    }
    xsmi_held_release(&t.held);
    xsm_context_free(t.context);
    return status;
}
