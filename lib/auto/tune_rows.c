/*
 * The rows of a round's trials, and their classes.
 *
 * Training finds wrong classes with too high scores (logits) one by one, as they are drawn. With so many classes that a
 * trial draws each only a few times, the trial's exact loss is that of the first part of the run, in which it rises,
 * and rises more at higher rates; it does not predict the end. With the same share of the classes as of the rows, and
 * all rows of these classes, a trial draws each class, and uses rows of it, as often in each pass as the run does.
 *
 * The steps of an estimator may grow with the number of classes, as a sum over classes does, or may not, as with
 * probabilities. The first step shows which. Rates of such trials are multiplied by the sum of its coefficients in a
 * new model of all classes, divided by the same sum in a new model of the chosen classes, so that the first step of a
 * trial is as long as that of the run.
 *
 * These trials train the first rows of the run's weights.
 */
#include "auto/tune.h"

#include "base/held.h"
#include "base/order.h"
#include "base/random.h"
#include "model/score.h"

#include <math.h>

/* If trials of the last round would draw each class less often than this, they use some of the classes. The second
 * number is for steps that grow with the number of classes, in which a drawn class moves further. */
#define DRAWS_FEW 200
#define DRAWS_FEW_GROWN 100
/* A larger share of the classes saves too little. */
#define CLASSES_MOST 0.3
/* The number of rows whose first steps are compared, and their learning rate, which is small enough not to affect the
 * steps. */
enum { FIRST_ROWS = 64 };
#define FIRST_ETA 1e-6
/* A constant of unseen_part(), and a factor for the weight of rows left out if trials use some of the classes. */
#define BY_HEART 3
#define UNSEEN_NARROW 0.5

/* -- some of the classes ------------------------------------------------------------------------------------------- */

/* Whether an option of the estimator lists classes, which would have other numbers among some of the classes. */
static bool names_classes(const xsm_estimator *e)
{
    const xsm_option *option;
    for (size_t i = 0; (option = xsm_estimator_ops_option(&e->ops, i)) != NULL; i++) {
        char one[2];
        if (option->type == XSM_OPTION_CLASSES && xsm_estimator_get(e, option->name, one, sizeof one) > 0) {
            return true;
        }
    }
    return false;
}

/* Whether trials can use some of the classes, and would be faster. */
static bool possible(xsmi_tuner *t)
{
    const xsm_estimator *e = t->estimator;
    const xsm_dataset *d = t->rows.train;
    if (e->exact || t->judge == XSMI_JUDGE_OWN || e->search.searcher || e->head ||
        !xsmi_model_is_linear(t->runner.model) || t->runner.model->w.layout != XSM_LAYOUT_CLASS_MAJOR ||
        (e->ops.flags & XSM_ESTIMATOR_UNBOUNDED) || (e->sampling.sampler && e->sampling.sampler != e->sampling.own) ||
        d->counted.labels != d->rows || d->counted.unseen_labels > 0 || names_classes(e)) {
        return false;
    }
    xsmi_tune_plan(t, XSMI_TUNE_ROUNDS - 1);
    return 2 * t->size.rows < d->rows && xsmi_tune_classes_least(t) <= CLASSES_MOST * (double)d->classes;
}

/* Whether the trials of the planned round draw each class less than `often` times. */
static bool draws_less(const xsmi_tuner *t, double often)
{
    const double draws = (double)t->size.rows * (double)t->size.epochs * t->costs.width;
    return draws < often * (double)t->run.train->classes;
}

/* Computes the mean over rows of the sum of the absolute coefficients in the first step of a new model, to which the
 * estimator is bound. */
static xsm_status first_step(const xsmi_tuner *t, const xsm_dataset *d, double *mean, xsm_error *err)
{
    uint64_t rows[FIRST_ROWS], count = XSMI_MIN(d->rows, FIRST_ROWS);
    for (uint64_t i = 0; i < count; i++) {
        rows[i] = i * (d->rows / count);
    }
    const uint64_t limit = t->estimator->ops.batch_limit, most = limit > 0 && limit < count ? limit : count;
    const xsm_gradient *g = t->runner.losses;
    double sum = 0;
    for (uint64_t first = 0; first < count; first += most) {
        const uint64_t some = XSMI_MIN(count - first, most);
        xsm_batch batch = xsm_batch_rows(d, rows + first, some);
        XSMI_TRY(xsm_estimator_gradient(t->estimator, &batch, FIRST_ETA, t->runner.losses, err));
        for (uint64_t i = 0; i < some; i++) {
            const xsmi_entries list = xsmi_gradient_list(g, i);
            for (uint64_t p = 0; p < list.count; p++) {
                sum += (double)some * fabs((double)list.coefficients[p]);
            }
        }
    }
    *mean = sum / (double)count;
    return XSM_OK;
}

xsm_status xsmi_tune_narrow(xsmi_tuner *t, xsm_error *err)
{
    double *first = &t->run.first;
    if (!possible(t) || !draws_less(t, DRAWS_FEW)) {
        return XSM_OK;
    }
    XSMI_TRY(xsm_gradient_new(t->runner.context, &t->runner.losses, err));
    XSMI_TRY(first_step(t, t->run.train, first, err));
    const bool grown = *first > t->costs.width; /* coefficients above 1 */
    t->rows.narrow = *first > 0 && isfinite(*first) && (!grown || draws_less(t, DRAWS_FEW_GROWN));
    return XSM_OK;
}

static void restore_classes(xsmi_tuner *t)
{
    xsmi_estimator_unbind(t->estimator);
    xsm_dataset_free(t->rows.part);
    t->rows.part = NULL;
    t->rows.train = t->run.train;
    t->runner.model->classes = t->run.train->classes;
    t->runner.model->w.weight_count = xsmi_model_floats(t->runner.model);
}

/* Chooses classes at random until they have `rows` rows and are enough for a trial. class_of[k] is the number of class
 * k among them, or XSM_CLASS_UNSEEN; order[] is scratch. Sets *classes to their number. */
static xsm_status draw_classes(const xsmi_tuner *t, uint64_t rows, uint64_t *order, uint32_t *class_of,
                               uint32_t *classes, xsm_error *err)
{
    const xsm_dataset *d = t->run.train;
    xsmi_stream stream;
    xsmi_stream_start(&stream, t->run.options.seed, XSMI_STREAM_TUNE, 1);
    XSMI_TRY(xsmi_stream_order(t->runner.context, &stream, order, d->classes, err));
    for (uint32_t k = 0; k < d->classes; k++) {
        class_of[k] = XSM_CLASS_UNSEEN;
    }
    uint64_t sum = 0;
    for (uint32_t n = 0; n < d->classes && (sum < rows || n < xsmi_tune_classes_least(t)); n++) {
        sum += d->map.counts[order[n]];
        class_of[order[n]] = 0;
    }
    *classes = 0;
    for (uint32_t k = 0; k < d->classes; k++) { /* the chosen classes are numbered in their order */
        class_of[k] = class_of[k] == 0 ? (*classes)++ : XSM_CLASS_UNSEEN;
    }
    return XSM_OK;
}

/* Copies the rows of those classes, and leaves the others' rows of weights out of the model. */
static xsm_status keep_classes(xsmi_tuner *t, const uint32_t *class_of, uint32_t classes, xsm_error *err)
{
    const xsm_dataset *d = t->run.train;
    uint64_t count = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        if (class_of[d->labels[d->label_offsets[i]]] != XSM_CLASS_UNSEEN) {
            t->rows.chosen[count++] = i;
        }
    }
    XSMI_TRY(xsm_dataset_select(d, t->rows.chosen, count, &t->rows.part, err));
    XSMI_TRY(xsmi_dataset_renumber(t->rows.part, class_of, classes, NULL, NULL, err));
    t->rows.train = t->rows.part;
    t->runner.model->classes = classes;
    t->runner.model->w.weight_count = classes * t->runner.model->w.stride;
    return XSM_OK;
}

/* Selects the classes of the planned round, and the factor of its rates. */
static xsm_status select_classes(xsmi_tuner *t, xsm_error *err)
{
    const uint32_t all = t->run.train->classes;
    uint32_t classes = 0;
    double first;
    restore_classes(t);
    xsmi_held held = {.context = t->runner.context};
    uint64_t *order = xsmi_hold(&held, all, sizeof *order);
    uint32_t *class_of = xsmi_hold(&held, all, sizeof *class_of);
    xsm_status status = xsmi_held_check(&held, "the classes of trials", err);
    status =
        status == XSM_OK ? draw_classes(t, t->size.rows + t->size.held_back, order, class_of, &classes, err) : status;
    status = status == XSM_OK ? keep_classes(t, class_of, classes, err) : status;
    xsmi_held_release(&held);
    XSMI_TRY(status);
    XSMI_TRY(xsm_estimator_bind(t->estimator, t->runner.model, t->rows.train, err));
    XSMI_TRY(first_step(t, t->rows.train, &first, err));
    t->rows.scale = first > 0 && isfinite(first) ? t->run.first / first : 1;
    return XSM_OK;
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Copies the `count` rows of ranks from `first` on, in the order of the data; NULL for all rows or none. */
static xsm_status copy_rows(xsmi_tune_rows *r, uint64_t first, uint64_t count, xsm_dataset **out, xsm_error *err)
{
    xsm_dataset_free(*out);
    *out = NULL;
    if (count == r->train->rows || count == 0) {
        return XSM_OK;
    }
    uint64_t taken = 0;
    for (uint64_t row = 0; row < r->train->rows; row++) {
        if (r->rank[row] - first < count) { /* unsigned: this excludes ranks below `first`, too */
            r->chosen[taken++] = row;
        }
    }
    return xsm_dataset_select(r->train, r->chosen, taken, out, err);
}

/* Computes a random order of the rows from which the round's trials choose theirs. */
static xsm_status rank_rows(xsmi_tuner *t, uint64_t position, xsm_error *err)
{
    xsmi_stream stream;
    xsmi_stream_start(&stream, t->run.options.seed, XSMI_STREAM_TUNE, position);
    return xsmi_stream_order(t->runner.context, &stream, t->rows.rank, (size_t)t->rows.train->rows, err);
}

/* Counts the features that occur in a trial's rows. */
static xsm_status count_features(const xsmi_tuner *t, double *count, xsm_error *err)
{
    const xsm_dataset *d = t->rows.sample ? t->rows.sample : t->rows.train;
    *count = (double)d->features;
    if (!d->sparse) {
        return XSM_OK;
    }
    unsigned char *occurs;
    XSMI_TRY(xsmi_zeros_new(t->runner.context, &occurs, d->features, 1, "the features of a trial", err));
    uint64_t found = 0;
    for (uint64_t i = d->offsets[0]; i < d->offsets[d->rows]; i++) {
        found += !occurs[d->index[i]];
        occurs[d->index[i]] = 1;
    }
    *count = (double)found;
    xsmi_release(t->runner.context, occurs, d->features, 1);
    return XSM_OK;
}

/*
 * Returns the weight of the loss on rows that a trial leaves out, in the estimate of the run's loss. A model of D
 * features partly memorises n rows: its loss on them is f (1 - x), and on others f (1 + x), where x is D / n in least
 * squares. After only a few passes x is less than 1, about D / (n + BY_HEART D). On the N rows of the run the loss is f
 * (1 - X), with X for N. This equals the first loss plus (1 - X / x) / 2 of the difference of the second to it. If
 * there are more features than rows, the run memorises its rows as well as the trial does, and rows left out have
 * little weight. A trial of some of the classes has fewer rows than the run for each feature, but as many for each
 * weight: its weight is between the two.
 */
static double unseen_part(const xsmi_tuner *t, double features)
{
    const double more = BY_HEART * features;
    const double part = (1 - ((double)t->size.rows + more) / ((double)t->run.train->rows + more)) / 2;
    return t->rows.narrow ? UNSEEN_NARROW * part : part;
}

xsm_status xsmi_tune_select(xsmi_tuner *t, uint32_t round, xsm_error *err)
{
    xsmi_tune_rows *r = &t->rows;
    double features;
    if (r->narrow) {
        XSMI_TRY(select_classes(t, err));
    }
    XSMI_TRY(r->narrow ? rank_rows(t, 2 + round, err) : round == 0 ? rank_rows(t, 0, err) : XSM_OK);
    XSMI_TRY(copy_rows(r, 0, t->size.rows, &r->sample, err));
    XSMI_TRY(count_features(t, &features, err));
    t->result->unseen_part[round] = unseen_part(t, features);
    XSMI_TRY(copy_rows(r, 0, t->size.evaluated, &r->subset, err));
    return copy_rows(r, r->train->rows - t->size.held_back, t->size.held_back, &r->rest, err);
}

void xsmi_tune_rows_free(xsmi_tuner *t)
{
    xsmi_tune_rows *r = &t->rows;
    if (r->narrow) {
        restore_classes(t);
    }
    xsm_dataset_free(r->sample);
    xsm_dataset_free(r->subset);
    xsm_dataset_free(r->rest);
    xsmi_release(t->runner.context, r->rank, (size_t)t->run.train->rows, sizeof *r->rank);
    xsmi_release(t->runner.context, r->chosen, (size_t)t->run.train->rows, sizeof *r->chosen);
}
