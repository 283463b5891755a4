/*
 * The rows of the race: those that judge, and shares of the others, on which entrants are trained. If there are few
 * rows, all judge, in parts; each part judges models that were trained on the other parts (cross-validation).
 */
#include "auto/choose.h"

#include "auto/row_groups.h"
#include "base/entry.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/random.h"
#include "data/ngrams.h"

#include <math.h>
#include <string.h>

/* The number of rows that judge. If there are fewer than four times as many rows, all judge, in PARTS parts. Rows in
 * groups judge in GROUPS groups or more: in a table that is sorted, or a series, each row is like the one before it. */
enum { JUDGED = 2000, PARTS = 5, GROUPS = 100 };
/* The streams of random numbers: the order of the rows, and which features are left out. */
enum { STREAM_ORDER = 1, STREAM_HALVES = 2 };

xsmi_survey xsmi_race_survey(const xsmi_chooser *c)
{
    const xsm_dataset *d = c->train;
    xsmi_survey s = {.several = d->counted.labels > d->rows};
    double count = 0;
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features x = xsmi_dataset_features(d, i);
        count += (double)x.count;
        for (size_t j = 0; j < x.count && !s.large; j++) {
            s.large = fabsf(x.values[j]) > 1;
        }
        xsmi_dataset_poll(c->runner.context, i);
    }
    s.nonzeros = count / (double)d->rows;
    s.table = !d->sparse ||
              (s.nonzeros >= XSMI_FILLED * (double)d->features && !(d->schema && xsmi_schema_vocabulary(d->schema)));
    return s;
}

/* -- who judges ---------------------------------------------------------------------------------------------------- */

/* Whether a row can be held back: another training row must have one of its classes. `left` has the number of rows of
 * each class that are not held back. */
static bool can_hold(const xsm_dataset *d, uint64_t row, const uint64_t *left)
{
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(d, row, &count);
    bool stays = false;
    for (size_t j = 0; j < count; j++) {
        stays |= left[labels[j]] > 1;
    }
    return stays;
}

static void count_labels(const xsm_dataset *d, uint64_t row, uint64_t *counts, uint64_t by)
{
    size_t count;
    const uint32_t *labels = xsmi_dataset_labels(d, row, &count);
    for (size_t j = 0; j < count; j++) {
        counts[labels[j]] += by;
    }
}

static void count_all(const xsmi_chooser *c, uint64_t *counts)
{
    const xsm_dataset *d = c->train;
    memset(counts, 0, d->classes * sizeof *counts);
    for (uint64_t i = 0; i < d->rows; i++) {
        count_labels(d, i, counts, 1);
        xsmi_dataset_poll(c->runner.context, i);
    }
}

/* Holds back rows of order[first..end) for a part, at most `most` of them. */
static void hold_back(xsmi_chooser *c, uint64_t part, uint64_t first, uint64_t end, uint64_t most)
{
    xsmi_race_rows *r = &c->rows;
    uint64_t next = r->starts[part];
    count_all(c, r->counts);
    for (uint64_t i = first; i < end && next < r->starts[part] + most; i++) {
        const uint64_t row = r->order[i];
        if (can_hold(c->train, row, r->counts)) {
            count_labels(c->train, row, r->counts, UINT64_MAX);
            r->judged[next++] = row;
        }
        xsmi_dataset_poll(c->runner.context, i);
    }
    r->starts[part + 1] = next;
}

static xsm_status allocate(xsmi_chooser *c, xsm_error *err)
{
    xsmi_race_rows *r = &c->rows;
    const uint64_t rows = c->train->rows, classes = c->train->classes;
    r->held.context = c->runner.context;
    r->judged = xsmi_hold(&r->held, rows, sizeof *r->judged);
    r->starts = xsmi_hold_zeros(&r->held, PARTS + 1, sizeof *r->starts);
    r->order = xsmi_hold(&r->held, rows, sizeof *r->order);
    r->list = xsmi_hold(&r->held, rows, sizeof *r->list);
    r->is_judged = xsmi_hold(&r->held, rows, sizeof *r->is_judged);
    r->counts = xsmi_hold(&r->held, classes, sizeof *r->counts);
    r->prior = xsmi_hold(&r->held, rows, sizeof *r->prior);
    r->known = xsmi_hold(&r->held, rows, sizeof *r->known);
    return xsmi_held_check(&r->held, "the rows of a choice", err);
}

/* Returns the number of first rows of the order in which the classes of half of the judging rows occur: the median of
 * the places where they first occur. Uses `counts` and `list` as scratch. */
static uint64_t least_share(xsmi_chooser *c)
{
    xsmi_race_rows *r = &c->rows;
    const xsm_dataset *d = c->train;
    size_t labels;
    const uint64_t judged = r->starts[1];
    memset(r->is_judged, 0, d->rows);
    for (uint64_t i = 0; i < judged && !r->halved; i++) {
        r->is_judged[r->judged[i]] = 1;
    }
    for (uint32_t k = 0; k < d->classes; k++) {
        r->counts[k] = r->most;
    }
    for (uint64_t i = 0, place = 0; i < d->rows; i++) {
        const uint32_t *label = xsmi_dataset_labels(d, r->order[i], &labels);
        place += !r->is_judged[r->order[i]];
        for (size_t j = 0; j < labels && !r->is_judged[r->order[i]]; j++) {
            r->counts[label[j]] = XSMI_MIN(r->counts[label[j]], place);
        }
        xsmi_dataset_poll(c->runner.context, i);
    }
    for (uint64_t i = 0; i < judged; i++) {
        const uint32_t *label = xsmi_dataset_labels(d, r->judged[i], &labels);
        r->list[i] = r->counts[label[i % labels]];
    }
    xsmi_heap_sort(r->list, (size_t)judged, sizeof *r->list, xsmi_compare_u64);
    return r->list[judged / 2];
}

/* Makes the order of the rows, or of groups of them, random. Uses `counts`, `known` and `list` as scratch. */
static xsm_status order_rows(xsmi_chooser *c, xsm_error *err)
{
    xsmi_race_rows *r = &c->rows;
    const xsm_context *ctx = c->runner.context;
    const uint64_t rows = c->train->rows;
    xsmi_stream stream;
    double alike;
    xsmi_stream_start(&stream, c->run.seed, XSMI_STREAM_SPLIT, STREAM_ORDER);
    XSMI_TRY(xsmi_stream_order(ctx, &stream, r->order, (size_t)rows, err));
    r->grouped = xsmi_rows_grouped(ctx, c->train, r->order, r->counts, &alike);
    if (!r->grouped && xsmi_rows_copied(ctx, c->train, c->run.seed, r->list, r->known)) {
        r->grouped = true;
        memcpy(r->order, r->list, rows * sizeof *r->order);
        return XSM_OK;
    }
    if (!r->grouped) {
        return XSM_OK;
    }
    const uint64_t most = XSMI_MIN(rows, JUDGED) / GROUPS + 1;
    const uint64_t groups = xsmi_row_groups(ctx, c->train, alike, most, r->known);
    XSMI_TRY(xsmi_stream_order(ctx, &stream, r->list, (size_t)groups, err));
    uint64_t next = 0;
    for (uint64_t g = 0; g < groups; g++) {
        const uint64_t end = r->list[g] + 1 < groups ? r->known[r->list[g] + 1] : rows;
        for (uint64_t row = r->known[r->list[g]]; row < end; row++) {
            r->order[next++] = row;
        }
        xsmi_dataset_poll(ctx, g);
    }
    return XSM_OK;
}

xsm_status xsmi_race_rows_plan(xsmi_chooser *c, xsm_error *err)
{
    xsmi_race_rows *r = &c->rows;
    const uint64_t rows = c->train->rows;
    XSMI_TRY(allocate(c, err));
    XSMI_TRY(order_rows(c, err));
    const uint64_t parts = rows < 4 * JUDGED ? PARTS : 1, wanted = parts > 1 ? rows : JUDGED;
    for (uint64_t p = 0; p < parts; p++) {
        hold_back(c, p, rows * p / parts, rows * (p + 1) / parts, wanted);
    }
    r->parts = parts;
    r->most = 0;
    for (uint64_t p = 0; p < parts; p++) {
        r->most = XSMI_MAX(r->most, r->starts[p + 1] - r->starts[p]);
    }
    r->most = rows - r->most;
    /* If nearly all classes have a single row, rows that were trained on judge, with half of their features. */
    const uint64_t few = XSMI_MIN(rows, JUDGED);
    if (10 * r->starts[parts] < few) {
        r->halved = true;
        r->parts = 1;
        r->most = rows;
        r->starts[1] = few;
        memcpy(r->judged, r->order, few * sizeof *r->judged);
        xsmi_log(c->runner.context, XSM_LOG_WARNING,
                 "nearly all of the %u classes have one row: rows that were trained on judge, without half of their "
                 "features, so that losses promise nothing for other rows; labels that are quantities are no classes",
                 c->train->classes);
    }
    r->together = r->parts;
    while (r->together > 1 && (r->together - 1) * r->starts[1] >= JUDGED) {
        r->together--;
    }
    r->least = least_share(c);
    return XSM_OK;
}

/* -- a share ------------------------------------------------------------------------------------------------------- */

static void drop_transformed(xsmi_race_rows *r)
{
    for (size_t t = 0; t < XSMI_SLOTS; t++) {
        xsm_dataset_free(r->train[t]);
        xsm_dataset_free(r->test[t]);
        r->train[t] = r->test[t] = NULL;
    }
}

/* Returns the loss of a row if the classes are ranked by their frequencies, or if these are the probabilities. */
static double prior_loss(const xsmi_chooser *c, uint64_t row, const uint32_t *top, uint32_t count, double total)
{
    size_t labels;
    const uint32_t *label = xsmi_dataset_labels(c->train, row, &labels);
    double gain = 0, ideal = 0, sum = 0, hits = 0, first = 0;
    for (size_t j = 0; j < labels; j++) {
        sum -= log((double)XSMI_MAX(c->rows.counts[label[j]], 1) / total) / (double)labels;
    }
    for (uint32_t k = 0; k < count; k++) {
        const double discount = 1 / log2((double)k + 2);
        ideal += k < labels ? discount : 0;
        if (xsmi_contains(label, labels, top[k])) {
            gain += discount;
            hits += 1;
            first = hits > 1 ? first : 1 / ((double)k + 1);
        }
    }
    switch (c->measure) {
    case XSM_MEASURE_LOG_LOSS: /* not known here for several labels, each of which has its own odds */
        return c->survey.several ? (double)NAN : sum;
    case XSM_MEASURE_PRECISION:
        return 1 - hits / c->top;
    case XSM_MEASURE_HITS:
        return hits == 0;
    case XSM_MEASURE_MRR:
        return 1 - first;
    default:
        return 1 - gain / ideal;
    }
}

/* Lists the most frequent classes, at most `most`; of equally frequent ones the lowest. */
static uint32_t frequent(const uint64_t *counts, uint32_t classes, uint32_t most, uint32_t *top)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < classes; k++) {
        uint32_t rank = kept < most ? kept++ : most;
        for (; rank > 0 && counts[top[rank - 1]] < counts[k]; rank--) {
            if (rank < most) {
                top[rank] = top[rank - 1];
            }
        }
        if (rank < most) {
            top[rank] = k;
        }
    }
    return kept;
}

static void judge_prior(xsmi_chooser *c)
{
    xsmi_race_rows *r = &c->rows;
    uint32_t top[XSMI_TOP_MOST];
    const uint32_t kept = frequent(r->counts, c->train->classes, c->top, top);
    double total = 0;
    for (uint32_t k = 0; k < c->train->classes; k++) {
        total += (double)r->counts[k];
    }
    for (uint64_t i = r->starts[r->part]; i < r->starts[r->part + 1]; i++) {
        r->prior[i] = (float)prior_loss(c, r->judged[i], top, kept, total);
    }
}

void xsmi_race_rows_take(xsmi_chooser *c, uint64_t share, uint64_t part)
{
    xsmi_race_rows *r = &c->rows;
    const uint64_t rows = c->train->rows;
    if (share == r->share && part == r->part) {
        return;
    }
    drop_transformed(r);
    memset(r->is_judged, 0, rows);
    for (uint64_t i = r->starts[part]; i < r->starts[part + 1] && !r->halved; i++) {
        r->is_judged[r->judged[i]] = 1;
    }
    uint64_t kept = 0;
    for (uint64_t i = 0; i < rows && kept < share; i++) {
        if (!r->is_judged[r->order[i]]) {
            r->list[kept++] = r->order[i];
        }
    }
    r->share = kept;
    r->part = part;
    memset(r->counts, 0, c->train->classes * sizeof *r->counts);
    for (uint64_t i = 0; i < kept; i++) {
        count_labels(c->train, r->list[i], r->counts, 1);
    }
    judge_prior(c);
}

bool xsmi_race_knows(const xsmi_chooser *c, uint64_t judged)
{
    size_t labels;
    const uint32_t *label = xsmi_dataset_labels(c->train, c->rows.judged[judged], &labels);
    bool known = false;
    for (size_t j = 0; j < labels && !known; j++) {
        known = c->rows.counts[label[j]] > 0;
    }
    return known;
}

/* Leaves out each feature of the rows with probability 1/2. */
static xsm_status halve(xsmi_chooser *c, xsm_dataset *d, xsm_error *err)
{
    xsmi_stream stream;
    xsmi_stream_start(&stream, c->run.seed, XSMI_STREAM_SPLIT, STREAM_HALVES);
    XSMI_TRY(xsmi_dataset_own(d, XSMI_OWN_VALUES, err));
    float *values = xsmi_dataset_own_values(d);
    for (uint64_t i = 0; i < d->rows; i++) {
        const size_t first = (size_t)(d->sparse ? d->offsets[i] : i * d->stride);
        const size_t count = d->sparse ? (size_t)(d->offsets[i + 1] - d->offsets[i]) : d->features;
        for (size_t j = first; j < first + count; j++) {
            values[j] = xsmi_stream_below(&stream, 2) ? values[j] : 0;
        }
        xsmi_dataset_poll(c->runner.context, i);
    }
    return XSM_OK;
}

/* Computes the median of the rows' squared norms, which, unlike the mean, does not depend on a single row of large
 * numbers. */
static xsm_status median_norm(xsmi_chooser *c, const xsm_dataset *d, double *out, xsm_error *err)
{
    double *squares;
    XSMI_TRY(xsmi_array_new(c->runner.context, &squares, d->rows, sizeof *squares, "the lengths of rows", err));
    for (uint64_t i = 0; i < d->rows; i++) {
        const xsmi_features x = xsmi_dataset_features(d, i);
        squares[i] = (double)xsmi_context_kernels(c->runner.context)->dot(x.values, x.values, x.count);
        xsmi_dataset_poll(c->runner.context, i);
    }
    const bool sorted =
        xsmi_heap_sort_polled(c->runner.context, squares, (size_t)d->rows, sizeof *squares, xsmi_compare_double);
    *out = isfinite(squares[d->rows / 2]) && squares[d->rows / 2] > 0 ? squares[d->rows / 2] : 1;
    xsmi_release(c->runner.context, squares, d->rows, sizeof *squares);
    return sorted ? XSM_OK : xsmi_fail_cancelled(c->runner.context, err);
}

/* Fits a transform to all rows, as it does not use classes; with other n-grams than the rows have, to the rows of the
 * share. */
static xsm_status transform(xsmi_chooser *c, const char *description, uint32_t t, xsm_error *err)
{
    xsmi_race_rows *r = &c->rows;
    if (!description) {
        return XSM_OK;
    }
    if (!r->fitted[t]) {
        XSMI_TRY(xsm_transform_new(c->runner.context, description, &r->fitted[t], err));
    }
    if (!xsmi_transform_features(r->fitted[t]) || c->text_count > 0) {
        XSMI_TRY(xsm_transform_fit(r->fitted[t], c->text_count > 0 ? r->train[t] : c->train, err));
    }
    XSMI_TRY(xsm_transform_apply(r->fitted[t], r->train[t], err));
    return r->test[t] ? xsm_transform_apply(r->fitted[t], r->test[t], err) : XSM_OK;
}

static xsm_status take_ngrams(const xsmi_chooser *c, uint32_t t, uint32_t text, xsm_error *err)
{
    XSMI_TRY(xsmi_dataset_take_ngrams(c->rows.train[t], c->texts[text], err));
    return xsmi_dataset_take_ngrams(c->rows.test[t], c->texts[text], err);
}

xsm_status xsmi_race_rows_make(xsmi_chooser *c, const xsmi_entrant *e, xsm_error *err)
{
    xsmi_race_rows *r = &c->rows;
    const uint32_t t = xsmi_slot(e);
    if (r->train[t]) {
        return XSM_OK;
    }
    uint64_t count = 0;
    for (uint64_t i = r->starts[r->part]; i < r->starts[r->part + 1]; i++) {
        r->known[count] = r->judged[i];
        count += xsmi_race_knows(c, i);
    }
    xsm_status status = xsm_dataset_select(c->train, r->list, r->share, &r->train[t], err);
    status = status == XSM_OK ? xsm_dataset_select(c->train, r->known, count, &r->test[t], err) : status;
    status = status == XSM_OK && r->halved ? halve(c, r->test[t], err) : status;
    status = status == XSM_OK && c->text_count > 0 ? take_ngrams(c, t, e->line->text, err) : status;
    status = status == XSM_OK ? transform(c, c->transforms[e->transform], t, err) : status;
    if (status == XSM_OK && r->squared[t] == 0) { /* only of the first share, so that a rate has the same effect in
                                                     all */
        status = median_norm(c, r->train[t], &r->squared[t], err);
    }
    return status;
}

xsm_status xsmi_race_rows_measure(xsmi_chooser *c, const xsmi_entrant *e, xsm_error *err)
{
    xsmi_race_rows *r = &c->rows;
    const uint32_t t = xsmi_slot(e);
    const uint64_t count = XSMI_MIN(c->train->rows, XSMI_MEASURED);
    uint64_t list[XSMI_MEASURED];
    for (uint64_t i = 0; i < count; i++) {
        list[i] = i * c->train->rows / count;
    }
    XSMI_TRY(xsm_dataset_select(c->train, list, count, &r->train[t], err));
    XSMI_TRY(transform(c, c->transforms[e->transform], t, err));
    return median_norm(c, r->train[t], &r->squared[t], err);
}

void xsmi_race_rows_free(xsmi_chooser *c)
{
    xsmi_race_rows *r = &c->rows;
    drop_transformed(r);
    for (size_t t = 0; t < XSMI_SLOTS; t++) {
        xsm_transform_free(r->fitted[t]);
    }
    xsmi_held_release(&r->held);
}
