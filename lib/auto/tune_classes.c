/*
 * Trials on some of the classes, if a trial on all of them would draw each class too seldom to be a small version of
 * the run.
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
 */
#include "auto/tune.h"

#include "base/random.h"

#include <math.h>
#include <string.h>

/* If trials of the last round would draw each class less often than this, they use some of the classes. The second is
 * for steps that grow with the number of classes: there a drawn class moves further. */
#define DRAWS_FEW 200
#define DRAWS_FEW_GROWN 100
/* The least number of classes for each class that a step draws; with fewer, the draws would be a large part of the
 * classes. */
#define CLASSES_EACH 16
/* The maximum work of judging a class if the weights are only those of the chosen classes, in the unit of tune.c. */
#define SCORE_MOST 0.36
/* A larger share of the classes saves too little. */
#define CLASSES_MOST 0.3
/* The number of rows whose first steps are compared, and their learning rate, which is small enough not to affect the
 * steps. */
#define FIRST_ROWS 64
#define FIRST_ETA 1e-6

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

/* The least number of classes for a trial. */
static double classes_least(const xsmi_tuner *t)
{
    return CLASSES_EACH * (double)t->estimator->width;
}

/* Whether trials can use some of the classes, and would be faster. */
static bool possible(xsmi_tuner *t)
{
    const xsm_estimator *e = t->estimator;
    const xsm_dataset *d = t->train;
    if (e->exact || t->losses || e->searcher || e->correction || e->hierarchy || !xsmi_model_is_plain(t->model) ||
        t->model->layer || t->model->score != XSM_SCORE_LINEAR || t->model->layout != XSM_LAYOUT_CLASS_MAJOR ||
        (e->ops.flags & XSM_ESTIMATOR_UNBOUNDED) || (e->sampler && e->sampler != e->own_sampler) ||
        d->label_total != d->rows || d->unseen_labels > 0 || names_classes(e)) {
        return false;
    }
    xsmi_tuner_plan(t, XSMI_TUNE_ROUNDS - 1);
    return 2 * t->rows < d->rows && classes_least(t) <= CLASSES_MOST * (double)d->classes;
}

/* Whether the trials of the planned round draw each class less than `often` times. */
static bool draws_less(const xsmi_tuner *t, double often)
{
    const double draws = (double)t->rows * (double)t->epochs * (double)t->estimator->width;
    return draws < often * (double)t->run_train->classes;
}

/* The mean sum of a row's coefficients in the first step of a new model, to which the estimator is bound. */
static xsm_status first_step(const xsmi_tuner *t, const xsm_dataset *d, xsm_gradient *g, double *mean, xsm_error *err)
{
    uint64_t rows[FIRST_ROWS], count = d->rows < FIRST_ROWS ? d->rows : FIRST_ROWS;
    for (uint64_t i = 0; i < count; i++) {
        rows[i] = i * (d->rows / count);
    }
    const uint64_t limit = t->estimator->ops.batch_limit, most = limit > 0 && limit < count ? limit : count;
    double sum = 0;
    for (uint64_t first = 0; first < count; first += most) {
        const uint64_t some = count - first < most ? count - first : most;
        xsm_batch batch = xsm_batch_rows(d, rows + first, some);
        XSMI_TRY(xsm_estimator_gradient(t->estimator, &batch, FIRST_ETA, g, err));
        for (uint64_t i = 0; i < some; i++) {
            for (uint64_t p = 0; p < g->lengths[i]; p++) {
                sum += (double)some * fabs((double)g->coefficients[i * g->width + p]);
            }
        }
    }
    *mean = sum / (double)count;
    return XSM_OK;
}

/* Chooses classes at random until they have that many rows. class_of[k] is the number of class k among them, or
 * XSM_CLASS_UNSEEN. */
static xsm_status take_classes(xsmi_tuner *t, uint64_t rows, uint32_t *class_of, uint32_t *classes, xsm_error *err)
{
    const xsm_dataset *d = t->train;
    uint64_t *order = xsmi_allocate(t->context, d->classes, sizeof *order);
    if (!order) {
        return xsmi_fail_memory(err, (size_t)d->classes * sizeof *order, "the order of the classes");
    }
    for (uint32_t k = 0; k < d->classes; k++) {
        order[k] = k;
        class_of[k] = XSM_CLASS_UNSEEN;
    }
    xsmi_stream stream;
    xsmi_stream_start(&stream, t->run.seed, XSMI_STREAM_TUNE, 1);
    xsmi_stream_permute(&stream, order, d->classes);
    uint64_t sum = 0;
    uint32_t taken = 0;
    const double least = classes_least(t);
    for (; taken < d->classes && (sum < rows || taken < least); taken++) {
        sum += d->class_counts[order[taken]];
        class_of[order[taken]] = 0;
    }
    *classes = 0;
    for (uint32_t k = 0; k < d->classes; k++) { /* numbered in their order */
        class_of[k] = class_of[k] == 0 ? (*classes)++ : XSM_CLASS_UNSEEN;
    }
    xsmi_release(t->context, order, d->classes, sizeof *order);
    return XSM_OK;
}

/* Copies the rows of those classes. */
static xsm_status make_part(xsmi_tuner *t, const uint32_t *class_of, uint32_t classes, xsm_error *err)
{
    const xsm_dataset *d = t->train;
    uint64_t count = 0, *rows = xsmi_allocate(t->context, (size_t)d->rows, sizeof *rows);
    if (!rows) {
        return xsmi_fail_memory(err, (size_t)d->rows * sizeof *rows, "the rows of some classes");
    }
    for (uint64_t i = 0; i < d->rows; i++) {
        if (class_of[d->labels[d->label_offsets[i]]] != XSM_CLASS_UNSEEN) {
            rows[count++] = i;
        }
    }
    xsm_status status = xsm_dataset_select(d, rows, count, &t->part, err);
    xsmi_release(t->context, rows, (size_t)d->rows, sizeof *rows);
    XSMI_TRY(status);
    return xsmi_dataset_renumber(t->part, class_of, classes, NULL, NULL, err);
}

/* Makes the rows of a round, the model without the rows of weights of the other classes, and the factor of rates. */
static xsm_status make_round(xsmi_tuner *t, uint32_t *class_of, xsm_gradient *g, xsm_error *err)
{
    double first;
    uint32_t classes = 0;
    XSMI_TRY(take_classes(t, t->rows + t->held, class_of, &classes, err));
    XSMI_TRY(make_part(t, class_of, classes, err));
    t->train = t->part;
    t->model->classes = classes;
    t->model->weight_count = classes * t->model->stride;
    XSMI_TRY(xsm_estimator_bind(t->estimator, t->model, t->train, err));
    XSMI_TRY(first_step(t, t->train, g, &first, err));
    t->scale = first > 0 && isfinite(first) ? t->run_first / first : 1;
    return XSM_OK;
}

static void drop_round(xsmi_tuner *t)
{
    xsmi_estimator_unbind(t->estimator);
    xsm_dataset_free(t->part);
    t->part = NULL;
    t->train = t->run_train;
    t->model->classes = t->run_train->classes;
    t->model->weight_count = t->run_weights;
}

xsm_status xsmi_tuner_narrow(xsmi_tuner *t, xsm_error *err)
{
    if (!possible(t) || !draws_less(t, DRAWS_FEW)) {
        return XSM_OK;
    }
    xsm_gradient *g = NULL;
    XSMI_TRY(xsm_gradient_new(t->context, &g, err));
    xsm_status status = first_step(t, t->train, g, &t->run_first, err);
    xsm_gradient_free(g);
    t->run_weights = t->model->weight_count;
    const bool grown = t->run_first > (double)t->estimator->width; /* coefficients above 1 */
    t->narrow =
        status == XSM_OK && t->run_first > 0 && isfinite(t->run_first) && (!grown || draws_less(t, DRAWS_FEW_GROWN));
    t->score_class = t->narrow ? fmin(t->score_class, SCORE_MOST) : t->score_class;
    return status;
}

uint32_t xsmi_tuner_classes(const xsmi_tuner *t)
{
    const double all = (double)t->run_train->classes;
    return t->narrow ? (uint32_t)fmax(all * (double)t->rows / (double)t->run_train->rows, classes_least(t))
                     : t->run_train->classes;
}

xsm_status xsmi_tuner_take_classes(xsmi_tuner *t, xsm_error *err)
{
    drop_round(t);
    const uint32_t classes = t->train->classes;
    uint32_t *class_of = xsmi_allocate(t->context, classes, sizeof *class_of);
    xsm_gradient *g = NULL;
    xsm_status status = class_of ? xsm_gradient_new(t->context, &g, err)
                                 : xsmi_fail_memory(err, (size_t)classes * sizeof *class_of, "the classes of trials");
    status = status == XSM_OK ? make_round(t, class_of, g, err) : status;
    xsm_gradient_free(g);
    xsmi_release(t->context, class_of, classes, sizeof *class_of);
    if (status != XSM_OK) {
        drop_round(t);
    }
    return status;
}

void xsmi_tuner_drop_classes(xsmi_tuner *t)
{
    if (t->narrow) {
        drop_round(t);
    }
}
