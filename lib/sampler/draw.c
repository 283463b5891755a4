/*
 * Draws for rows of a batch, with and without replacement, and the class lists of sampled estimators.
 */
#include "sampler/sampler.h"
#include "base/activity.h"
#include "base/entry.h"
#include "base/heap_sort.h"
#include "base/order.h"
#include "base/arena.h"
#include "base/held.h"
#include "sampler/arrays.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/draw.h>

/* Lists up to this length are searched linearly, longer ones are sorted. */
#define SHORT_LIST 32
/* Draws of one job, so that a job takes much longer than a poll before it. */
#define JOB_DRAWS 256
/* Classes between two polls. */
#define POLL_CLASSES 4096

/* The largest log q, by rounding; what xsm_sampler_check() accepts by default. */
#define LOG_Q_MOST 1e-4

/* -- faults of tables ---------------------------------------------------------------------------------------------- */

/* Whether a class and its log-probability are possible; if not, notes the fault. */
static bool is_sound(const xsm_sampler *s, uint32_t class, double log_q, xsmi_draw_fault *fault)
{
    if (class < s->classes && log_q > -(double)INFINITY && log_q <= LOG_Q_MOST) { /* false for NaN, too */
        return true;
    }
    int none = 0;
    if (atomic_compare_exchange_strong(&fault->met, &none, 1)) {
        fault->class = class;
        fault->log_q = log_q;
        atomic_store(&fault->met, 2);
    }
    return false;
}

static bool are_sound(const xsm_sampler *s, const uint32_t *classes, const double *log_q, uint32_t n,
                      xsmi_draw_fault *fault)
{
    bool sound = true;
    for (uint32_t j = 0; j < n && sound; j++) {
        sound = is_sound(s, classes[j], log_q[j], fault);
    }
    return sound;
}

xsm_status xsmi_draw_check(const xsm_sampler *s, const xsmi_draw_fault *f, xsm_error *err)
{
    if (!xsmi_draw_is_faulty(f)) {
        return XSM_OK;
    }
    return f->class < s->classes
               ? xsmi_fail(err, XSM_ERROR_RANGE,
                           "sampler '%s' gives class %u, which it drew or which is a label, log q = %g; accepted are "
                           "numbers above minus infinity, up to 0",
                           s->ops.name, f->class, f->log_q)
               : xsmi_fail(err, XSM_ERROR_RANGE, "sampler '%s' draws class %u; classes are below %u", s->ops.name,
                           f->class, s->classes);
}

/* -- lists for estimators ------------------------------------------------------------------------------------------ */

/* Sorts classes with their log-probabilities, in place (Shell's sort with M. Ciura's gaps). */
static void sort_few(uint32_t *classes, double *values, uint32_t n)
{
    uint32_t gap = n > 701 ? n / 9 * 4 : 701;
    static const uint32_t gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};
    size_t next = 0;
    while (gap > 0) {
        for (uint32_t i = gap; i < n; i++) {
            uint32_t class = classes[i];
            double value = values[i];
            uint32_t j = i;
            for (; j >= gap && classes[j - gap] > class; j -= gap) {
                classes[j] = classes[j - gap];
                values[j] = values[j - gap];
            }
            classes[j] = class;
            values[j] = value;
        }
        gap = gap > 701 && gap / 9 * 4 > 701 ? gap / 9 * 4 : next < sizeof gaps / sizeof *gaps ? gaps[next++] : 0;
    }
}

/* Lists longer than this are divided into BUCKETS ranges of classes first. */
#define SORT_FEW 128
#define BUCKETS 256

/* Sorts classes with their log-probabilities, in place: by ranges of classes (P. McIlroy, K. Bostic and M. McIlroy,
 * Engineering radix sort, 1993), then within each range. */
static void sort_many(uint32_t *classes, double *values, uint32_t n)
{
    uint32_t end[BUCKETS] = {0}, next[BUCKETS], most = 0, shift = 0;
    for (uint32_t i = 0; i < n; i++) {
        most = XSMI_MAX(most, classes[i]);
    }
    while (most >> shift >= BUCKETS) {
        shift++;
    }
    for (uint32_t i = 0; i < n; i++) {
        end[classes[i] >> shift]++;
    }
    for (uint32_t b = 0, start = 0; b < BUCKETS; b++) {
        next[b] = start;
        end[b] = start += end[b];
    }
    for (uint32_t b = 0, start = 0; b < BUCKETS; start = end[b++]) {
        while (next[b] < end[b]) {
            const uint32_t at = next[b], own = classes[at] >> shift, to = next[own]++;
            const uint32_t class = classes[to]; /* an entry that is in its range already moves to itself */
            const double value = values[to];
            classes[to] = classes[at];
            values[to] = values[at];
            classes[at] = class;
            values[at] = value;
        }
        sort_few(classes + start, values + start, end[b] - start);
    }
}

static void sort_classes(uint32_t *classes, double *values, uint32_t n)
{
    if (n <= SORT_FEW) {
        sort_few(classes, values, n);
    } else {
        sort_many(classes, values, n);
    }
}

/* Returns the position of a class among n distinct ones, n if it is missing; searches a `sorted` list by bisection. */
static uint32_t position_of(const uint32_t *classes, uint32_t n, bool sorted, uint32_t class)
{
    if (!sorted) {
        uint32_t i = 0;
        while (i < n && classes[i] != class) {
            i++;
        }
        return i;
    }
    const uint32_t low = (uint32_t)xsmi_lower_bound(classes, n, class);
    return low < n && classes[low] == class ? low : n;
}

/* Keeps each class once, with the number of its draws; returns the number of classes. */
static uint32_t merge(uint32_t *classes, double *values, uint32_t *draws, uint32_t n, bool sorted)
{
    uint32_t kept = 0;
    if (sorted) {
        sort_classes(classes, values, n);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = sorted ? kept - (kept > 0 && classes[kept - 1] == classes[i])
                             : position_of(classes, kept, false, classes[i]);
        if (at < kept) {
            draws[at]++;
            continue;
        }
        classes[kept] = classes[i];
        values[kept] = values[i];
        draws[kept++] = 1;
    }
    return kept;
}

/* Writes the labels at the head of a list. */
static void put_labels(const xsmi_draw_list *l)
{
    for (uint32_t i = 0; i < l->label_count; i++) {
        l->classes[i] = l->labels[i];
        l->log_expected[i] = 0;
        l->draws[i] = 0;
    }
}

/* Makes the list of labels, followed by n draws with their log-probabilities. */
static uint32_t finish_list(const xsm_sampler *s, const xsmi_draw_rule *rule, const xsmi_draw_list *l)
{
    uint32_t *others = l->classes + l->label_count, *times = l->draws + l->label_count;
    double *values = l->log_expected + l->label_count;
    const uint32_t n = rule->count;
    double log_count = n > 1 ? log((double)n) : 0;
    bool sorted = n > SHORT_LIST;
    uint32_t kept = are_sound(s, others, values, n, rule->fault) ? merge(others, values, times, n, sorted) : 0;
    bool hit = false;
    for (uint32_t i = 0; i < l->label_count; i++) {
        uint32_t at = position_of(others, kept, sorted, l->labels[i]);
        if (at < kept) {
            hit = true;
            l->draws[i] = rule->exclude_labels ? 0 : times[at];
            l->log_expected[i] = log_count + values[at];
            times[at] = 0;
        } else if (rule->label_probabilities) {
            const double log_q = s->ops.log_probability(s->state, l->code, l->labels[i]);
            (void)is_sound(s, l->labels[i], log_q, rule->fault);
            l->log_expected[i] = log_count + log_q;
        }
    }
    uint32_t length = hit ? 0 : kept;
    for (uint32_t j = 0; hit && j < kept; j++) {
        if (times[j] > 0) {
            others[length] = others[j];
            values[length] = values[j];
            times[length++] = times[j];
        }
    }
    for (uint32_t j = 0; j < length; j++) {
        values[j] += log_count;
    }
    return l->label_count + length;
}

/* Draws from the classes other than the labels, without replacement. */
static uint32_t list_others(const xsm_sampler *s, const xsmi_draw_rule *rule, const xsmi_draw_list *l,
                            xsm_random *random)
{
    uint32_t left = s->classes - l->label_count;
    uint32_t n = XSMI_MIN(rule->count, left);
    double log_drawn =
        s->ops.draw_others(s->state, l->code, random, l->labels, l->label_count, n, l->classes + l->label_count);
    for (uint32_t j = l->label_count; j < l->label_count + n; j++) {
        if (!is_sound(s, l->classes[j], log_drawn, rule->fault)) {
            return l->label_count;
        }
        l->log_expected[j] = log_drawn;
        l->draws[j] = 1;
    }
    return l->label_count + n;
}

void xsmi_sampler_lists(const xsm_sampler *s, const xsmi_draw_rule *rule, uint64_t seed, const xsmi_draw_list *lists,
                        uint32_t count)
{
    struct xsm_random random[XSM_SAMPLER_ROWS];
    const bool others = rule->exclude_labels && s->ops.draw_others;
    const bool together = s->ops.draw_rows && !others && rule->count > 0;
    const float *codes[XSM_SAMPLER_ROWS];
    xsm_random *streams[XSM_SAMPLER_ROWS];
    uint32_t *classes[XSM_SAMPLER_ROWS];
    double *values[XSM_SAMPLER_ROWS];
    for (uint32_t i = 0; i < count; i++) {
        const xsmi_draw_list *l = &lists[i];
        xsmi_stream_start(&random[i].stream, seed, XSMI_STREAM_NEGATIVES, l->position);
        put_labels(l);
        codes[i] = l->code;
        streams[i] = &random[i];
        classes[i] = l->classes + l->label_count;
        values[i] = l->log_expected + l->label_count;
    }
    if (together) {
        s->ops.draw_rows(s->state, codes, streams, count, rule->count, classes, values);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (others) {
            *lists[i].length = list_others(s, rule, &lists[i], &random[i]);
            continue;
        }
        if (!together && rule->count > 0) {
            s->ops.draw(s->state, codes[i], &random[i], rule->count, classes[i], values[i]);
        }
        *lists[i].length = finish_list(s, rule, &lists[i]);
    }
}

/* -- draws for a batch --------------------------------------------------------------------------------------------- */

/* A class with its log-probability and a Gumbel variable added. */
typedef struct keyed {
    double key, log_q;
    uint32_t class;
} keyed;

static int compare_keys(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key) - (x->key > y->key) : (x->class > y->class) - (x->class < y->class);
}

typedef struct draw_job {
    const xsm_sampler *sampler;
    const xsm_batch *batch;
    uint64_t seed, position;
    uint32_t count, first;
    uint32_t *classes;
    double *log_probabilities;     /* [n][count] */
    float *many_log_probabilities; /* [n][count] from `first` on, instead of draws */
    float *codes;                  /* [threads][code_length] */
    keyed *keys;                   /* [threads][classes], for distinct draws */
    uint64_t *support;             /* [n] classes of probability above 0, for distinct draws */
    xsmi_draw_fault *fault;
    xsmi_code_fault code_fault;
    unsigned char *sweep; /* [threads][sweep_each]: log-probabilities, codes, the table's scratch */
    size_t sweep_each, sweep_own;
} draw_job;

/* Draws without replacement, in the order of falling log q + Gumbel, which equals drawing one by one from the remaining
 * classes (M. Vieira, Gumbel-max trick and weighted reservoir sampling, 2014; W. Kool et al., 2019). */
static void draw_distinct(const draw_job *job, const float *code, xsmi_stream *stream, uint64_t i, keyed *keys)
{
    const xsm_sampler *s = job->sampler;
    uint32_t support = 0;
    for (uint32_t k = 0; k < s->classes; k++) {
        if (k % POLL_CLASSES == POLL_CLASSES - 1 && xsmi_poll(s->context)) {
            return;
        }
        double log_q = s->ops.log_probability(s->state, code, k);
        /* u is in (0, 1], so that the logarithm is finite; 1 correctly gives the largest key. */
        double u = 1 - xsmi_stream_uniform(stream);
        if (log_q != (double)-INFINITY && is_sound(s, k, log_q, job->fault)) {
            keys[support++] = (keyed){log_q - log(-log(u)), log_q, k};
        }
    }
    job->support[i] = support;
    if (support < job->count) {
        return;
    }
    if (!xsmi_heap_sort_polled(s->context, keys, support, sizeof *keys, compare_keys)) {
        return;
    }
    for (uint32_t j = 0; j < job->count; j++) {
        job->classes[i * job->count + j] = keys[j].class;
        job->log_probabilities[i * job->count + j] = keys[j].log_q;
    }
}

/* Computes log q(k|x) of the classes [first, first+count) by a code. */
static void log_range(const xsm_sampler *s, const float *code, uint32_t first, uint32_t count, float *out)
{
    if (s->ops.log_probabilities) {
        s->ops.log_probabilities(s->state, code, first, count, out);
        return;
    }
    for (uint32_t k = 0; k < count; k++) {
        out[k] = (float)s->ops.log_probability(s->state, code, first + k);
    }
}

/* Returns the larger of `most` and the bits of a number without its sign, which are above those of infinity for NaN. */
static uint32_t magnitude(uint32_t most, const float *number)
{
    uint32_t bits;
    memcpy(&bits, number, sizeof bits);
    return XSMI_MAX(most, bits << 1);
}

/* Notes row `i` if one of its log-probabilities is NaN, by their largest magnitude(). */
static void test_row(draw_job *job, size_t i, uint32_t most)
{
    xsmi_code_test(&job->code_fault, &(float){NAN}, most > UINT32_C(0xFF000000), i);
}

static void run_row(draw_job *job, size_t i, uint32_t thread)
{
    const xsm_sampler *s = job->sampler;
    float *code = job->codes + thread * (size_t)s->code_length;
    xsmi_sampler_encode_batch(s, job->batch, i, code);
    xsmi_code_test(&job->code_fault, code, s->code_length, i);
    if (job->many_log_probabilities) {
        float *out = job->many_log_probabilities + i * job->count;
        uint32_t most = 0;
        log_range(s, code, job->first, job->count, out);
        for (uint32_t k = 0; k < job->count; k++) {
            most = magnitude(most, &out[k]);
        }
        test_row(job, i, most);
        return;
    }
    struct xsm_random random;
    xsmi_stream_start(&random.stream, job->seed, XSMI_STREAM_NEGATIVES, job->position + i);
    if (job->keys) {
        draw_distinct(job, code, &random.stream, i, job->keys + thread * (size_t)s->classes);
    } else {
        uint32_t *classes = job->classes + i * job->count;
        double *log_q = job->log_probabilities + i * job->count;
        s->ops.draw(s->state, code, &random, job->count, classes, log_q);
        (void)are_sound(s, classes, log_q, job->count, job->fault);
    }
}

static void run_rows(void *state, const xsmi_range *r)
{
    draw_job *job = state;
    for (size_t i = r->first; i < r->end && !xsmi_poll(job->sampler->context); i++) {
        run_row(job, i, r->thread);
    }
}

/* Computes the log-probabilities of XSM_SAMPLER_ROWS rows at once, which are the lanes of the table's sweep. */
static void run_sweep(void *state, const xsmi_range *r)
{
    draw_job *job = state;
    const xsm_sampler *s = job->sampler;
    unsigned char *scratch = job->sweep + r->thread * job->sweep_each;
    float *all = (float *)(void *)scratch, *codes = all + (size_t)s->classes * XSM_SAMPLER_ROWS;
    const float *list[XSM_SAMPLER_ROWS] = {NULL};
    const size_t first = r->first, rows = r->end - first;
    for (size_t i = 0; i < rows; i++) {
        float *code = codes + i * s->code_length;
        xsmi_sampler_encode_batch(s, job->batch, first + i, code);
        xsmi_code_test(&job->code_fault, code, s->code_length, first + i);
        list[i] = code;
    }
    s->ops.log_probabilities_rows(s->state, list, (uint32_t)rows, all, scratch + job->sweep_own);
    enum { TOGETHER = 64 }; /* classes whose data stays in the L1 cache */
    for (uint32_t k = 0; k < job->count; k += TOGETHER) {
        uint32_t end = k + TOGETHER < job->count ? k + TOGETHER : job->count;
        for (size_t i = 0; i < rows; i++) {
            float *out = job->many_log_probabilities + (first + i) * job->count;
            uint32_t most = 0;
            for (uint32_t c = k; c < end; c++) {
                out[c] = all[(size_t)(job->first + c) * XSM_SAMPLER_ROWS + i];
                most = magnitude(most, &out[c]);
            }
            test_row(job, first + i, most);
        }
    }
}

static xsm_status run_sweeps(draw_job *job, xsm_error *err)
{
    const xsm_sampler *s = job->sampler;
    size_t threads = xsmi_context_threads(s->context), own = 0;
    size_t floats = (size_t)s->classes * XSM_SAMPLER_ROWS + (size_t)s->code_length * XSM_SAMPLER_ROWS;
    job->sweep_own = (floats * sizeof(float) + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
    own = s->ops.rows_scratch ? s->ops.rows_scratch(s->state) : 0;
    job->sweep_each = job->sweep_own + (own + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
    XSMI_TRY(
        xsmi_array_new(s->context, &job->sweep, threads, job->sweep_each, "log-probabilities of all classes", err));
    xsm_status status = xsmi_run_ranges(s->context, run_sweep, job, job->batch->count, XSM_SAMPLER_ROWS, err);
    xsmi_release(s->context, job->sweep, threads, job->sweep_each);
    return status == XSM_OK ? xsmi_code_check(s, &job->code_fault, err) : status;
}

static xsm_status run_batch(draw_job *job, bool distinct, xsm_error *err)
{
    const xsm_sampler *s = job->sampler;
    size_t n = (size_t)job->batch->count, threads = xsmi_context_threads(s->context);
    xsmi_draw_fault fault = {.met = 0};
    xsmi_held held = {.context = s->context};
    if (!job->many_log_probabilities && !job->log_probabilities) {
        size_t entries;
        entries = xsmi_multiply(n, job->count, &entries) ? entries : SIZE_MAX;
        job->log_probabilities = xsmi_hold(&held, entries, sizeof *job->log_probabilities);
    }
    job->codes = xsmi_hold(&held, threads, s->code_length * sizeof *job->codes);
    if (distinct) {
        job->keys = xsmi_hold(&held, threads, s->classes * sizeof *job->keys);
        job->support = xsmi_hold(&held, n, sizeof *job->support);
    }
    xsm_status status = xsmi_held_check(&held, "drawing classes", err);
    if (status == XSM_OK) {
        job->fault = &fault;
        status =
            xsmi_run_ranges(s->context, run_rows, job, n, JOB_DRAWS / (distinct ? s->classes : job->count) + 1, err);
        status = status == XSM_OK ? xsmi_code_check(s, &job->code_fault, err) : status;
        status = status == XSM_OK ? xsmi_draw_check(s, &fault, err) : status;
    }
    for (size_t i = 0; distinct && status == XSM_OK && i < n; i++) {
        if (job->support[i] < job->count) {
            status = xsmi_fail(err, XSM_ERROR_RANGE,
                               "%u distinct classes asked for; sampler '%s' gives %llu of the %u a probability above 0",
                               job->count, s->ops.name, (unsigned long long)job->support[i], s->classes);
        }
    }
    xsmi_held_release(&held);
    return status;
}

static xsm_status check(const xsm_sampler *s, const char *function, const void *out, const xsm_batch *given,
                        xsm_batch *batch, xsm_error *err)
{
    if (!s || !given || !out) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "%s: %s is NULL", function,
                         !s       ? "the sampler"
                         : !given ? "the batch"
                                  : "the output");
    }
    if (!s->bound) {
        return xsmi_fail(err, XSM_ERROR_STATE, "sampler '%s' is not bound", s->ops.name);
    }
    return xsmi_batch_read(given, "a sampler", s->features, batch, err);
}

xsm_status xsm_sampler_draw(const xsm_sampler *s, const xsm_draw *draw, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {draw, "draw"});
    xsm_draw d = XSM_DRAW_INIT;
    XSMI_TRY(XSMI_READ(xsm_draw, &d, draw, err));
    xsm_batch batch;
    XSMI_TRY(check(s, "xsm_sampler_draw", d.classes, d.batch, &batch, err));
    XSMI_TRY(XSMI_CHECK_FLAG(xsm_draw, &d, distinct, err));
    if (d.count == 0) {
        return XSM_OK;
    }
    if (d.distinct && d.count > s->classes) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u distinct classes asked for; there are %u", d.count, s->classes);
    }
    const size_t all = (size_t)batch.count * d.count;
    xsmi_region regions[2 + XSMI_BATCH_REGIONS] = {
        xsmi_output("classes", d.classes, all, sizeof *d.classes),
        xsmi_output("log_probabilities", d.log_probabilities, all, sizeof *d.log_probabilities)};
    xsmi_batch_regions(&batch, regions + 2);
    XSMI_TRY(xsmi_check_overlap("xsm_draw", regions, 2 + XSMI_BATCH_REGIONS, err));
    draw_job job = {
        .sampler = s,
        .batch = &batch,
        .seed = d.seed,
        .position = d.position,
        .count = d.count,
        .classes = d.classes,
        .log_probabilities = d.log_probabilities,
        .code_fault = XSMI_CODE_FAULT,
    };
    xsmi_activity activity;
    xsmi_begin_short(&activity, s->context, "drawing", "rows");
    return xsmi_end(&activity, run_batch(&job, d.distinct, err), err);
}

xsm_status xsm_sampler_log_probabilities(const xsm_sampler *s, const xsm_batch *given, uint32_t first, uint32_t count,
                                         float *log_probabilities, xsm_error *err)
{
    XSMI_ENTER(err);
    xsm_batch batch;
    XSMI_TRY(check(s, "xsm_sampler_log_probabilities", log_probabilities, given, &batch, err));
    if (first > s->classes || count > s->classes - first) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "%u classes from class %u on; there are %u", count, first, s->classes);
    }
    if (count == 0) {
        return XSM_OK;
    }
    xsmi_region regions[1 + XSMI_BATCH_REGIONS] = {
        xsmi_output("log_probabilities", log_probabilities, (size_t)batch.count * count, sizeof *log_probabilities)};
    xsmi_batch_regions(&batch, regions + 1);
    XSMI_TRY(xsmi_check_overlap("xsm_sampler_log_probabilities", regions, 1 + XSMI_BATCH_REGIONS, err));
    draw_job job = {
        .sampler = s,
        .batch = &batch,
        .first = first,
        .count = count,
        .many_log_probabilities = log_probabilities,
        .code_fault = XSMI_CODE_FAULT,
    };
    /* If many classes are requested, computing all of them in sweeps is less work. */
    const bool sweeps = s->ops.log_probabilities_rows && count >= s->classes / 16;
    xsmi_activity activity;
    xsmi_begin_short(&activity, s->context, "drawing", "rows");
    return xsmi_end(&activity, sweeps ? run_sweeps(&job, err) : run_batch(&job, false, err), err);
}

/* -- corrections --------------------------------------------------------------------------------------------------- */

/*
 * The correction of scores learnt with a sampler, log q(k|x), which becomes part of the model: a number per class, a
 * tree, or a copy of the sampler for other samplers that depend on the row, restored from the arrays that save()
 * writes. A file cannot contain a table of functions, so a model with such a copy cannot be saved.
 */

_Static_assert(XSM_SAMPLER_ROWS == XSMI_LANES, "the rows of a sweep are those of a block");

typedef struct of_sampler {
    xsmi_head base;
    xsm_sampler *sampler;
} of_sampler;

/* The scratch of a block of rows. */
typedef struct block {
    float *codes; /* [XSMI_LANES][code length] */
    float *log_q; /* [classes][XSMI_LANES] */
    float *one;   /* [classes] of one row, for tables without log_probabilities_rows() */
    void *sweep;  /* scratch of a sweep */
} block;

static block divide(const xsm_sampler *s, xsmi_arena *arena)
{
    const bool sweeps = s->ops.log_probabilities_rows != NULL;
    block b;
    b.codes = xsmi_arena_take(arena, (size_t)s->code_length * XSMI_LANES, sizeof *b.codes);
    b.log_q = xsmi_arena_take(arena, (size_t)s->classes * XSMI_LANES, sizeof *b.log_q);
    b.one = xsmi_arena_take(arena, sweeps ? 0 : s->classes, sizeof *b.one);
    b.sweep = xsmi_arena_take(arena, sweeps && s->ops.rows_scratch ? s->ops.rows_scratch(s->state) : 0, 1);
    return b;
}

static const xsm_sampler *sampler_of(const xsmi_head *c)
{
    return ((const of_sampler *)c)->sampler;
}

static void clear(xsmi_head *c)
{
    xsm_sampler_free(((of_sampler *)c)->sampler);
}

static void add_chosen(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                       float *scratch)
{
    const xsm_sampler *s = sampler_of(c);
    xsmi_sampler_encode(s, x, scratch);
    for (size_t j = 0; j < count; j++) {
        scores[j] = (float)((double)scores[j] + s->ops.log_probability(s->state, scratch, classes[j]));
    }
}

static void prepare(const xsmi_head *c, const xsmi_kernels *kernels, const xsmi_features *rows, size_t count,
                    void *prepared)
{
    const xsm_sampler *s = sampler_of(c);
    xsmi_arena arena = {prepared, 0};
    const block b = divide(s, &arena);
    const float *codes[XSMI_LANES] = {NULL};
    (void)kernels;
    for (size_t l = 0; l < count; l++) {
        float *code = b.codes + l * s->code_length;
        xsmi_sampler_encode(s, &rows[l], code);
        codes[l] = code;
    }
    if (s->ops.log_probabilities_rows) {
        s->ops.log_probabilities_rows(s->state, codes, (uint32_t)count, b.log_q, b.sweep);
        return;
    }
    for (size_t l = 0; l < count; l++) {
        log_range(s, codes[l], 0, s->classes, b.one);
        for (size_t k = 0; k < s->classes; k++) {
            b.log_q[k * XSMI_LANES + l] = b.one[k];
        }
    }
}

/* Scores in lanes without a row have no meaning. */
static void add_tile(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                     const void *prepared, float *scores)
{
    xsmi_arena arena = {(unsigned char *)(uintptr_t)prepared, 0};
    const float *log_q = divide(sampler_of(c), &arena).log_q + (size_t)tile->first * XSMI_LANES;
    (void)rows;
    for (size_t k = 0; k < tile->count; k++) {
        for (size_t l = 0; tile->lanes && l < count; l++) {
            scores[k * XSMI_LANES + l] += log_q[k * XSMI_LANES + l];
        }
        if (!tile->lanes) {
            scores[k] += log_q[k * XSMI_LANES + tile->row];
        }
    }
}

static const xsmi_head_kind sampler_correction = {
    .number = XSM_CORRECTION_SAMPLER,
    .name = "sampler",
    .described = "a sampler that depends on the row",
    .size = sizeof(of_sampler),
    .drawn = true,
    .clear = clear,
    .chosen = add_chosen,
    .prepare = prepare,
    .tile = add_tile,
};

static xsm_status correct_by_sampler(const xsm_sampler *s, xsmi_head **out, xsm_error *err)
{
    xsmi_head *c = NULL;
    XSMI_TRY(xsmi_head_new(s->context, &sampler_correction, s->classes, &c, err));
    xsm_sampler **own = &((of_sampler *)c)->sampler;
    xsm_status status = xsmi_sampler_copy(s, own, err);
    if (status != XSM_OK) {
        xsmi_head_release(c);
        return status;
    }
    xsmi_arena arena = {NULL, 0};
    (void)divide(*own, &arena);
    c->code = (*own)->code_length;
    c->block = arena.used;
    *out = c;
    return XSM_OK;
}

static xsm_status correct_by_tree(const xsm_sampler *s, xsmi_head **out, xsm_error *err)
{
    xsmi_tree tree;
    memset(&tree, 0, sizeof tree);
    xsm_status status = xsmi_sampler_tree(s, &tree, err);
    if (status == XSM_OK) {
        status = xsmi_correction_of_tree(s->context, &tree, out, err);
    }
    xsmi_tree_clear(&tree);
    return status;
}

xsm_status xsmi_sampler_need_every(const xsm_sampler *s, const uint64_t *counts, xsm_error *err)
{
    for (uint32_t k = 0; s->code_length == 0 && k < s->classes; k++) {
        const double log_q = s->ops.log_probability(s->state, NULL, k);
        if ((counts && counts[k] == 0) || ((float)log_q > -INFINITY && log_q < INFINITY)) {
            continue;
        }
        if (counts) {
            return xsmi_fail(
                err, XSM_ERROR_RANGE,
                "sampler '%s' never draws class %u (log q = %g), the label of %llu rows, whose score would "
                "only rise; a sampler is accepted that draws every label: 'frequency' bound to these "
                "rows, or with a smoothing above 0",
                s->ops.name, k, log_q, (unsigned long long)counts[k]);
        }
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "sampler '%s' never draws class %u, whose scores would mean nothing; a smoothing above 0 "
                         "is needed",
                         s->ops.name, k);
    }
    return XSM_OK;
}

xsm_status xsmi_sampler_correction(const xsm_sampler *s, xsmi_head **out, xsm_error *err)
{
    *out = NULL;
    if (s->ops.follow) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "sampler '%s' follows the training, so that scores which are corrected at its end would have "
                         "been learnt with many distributions; nce, sampled-softmax, importance and others take it, "
                         "which correct for it as they learn",
                         s->ops.name);
    }
    if (s->ops.flags & XSM_SAMPLER_TREE) {
        return correct_by_tree(s, out, err);
    }
    if (s->code_length > 0 && !s->ops.save) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "sampler '%s' depends on the row, and its table has no save() and load(), by which the model "
                         "would get log q of its own: the sampler's bias would stay in the scores; nce, "
                         "sampled-softmax and importance take it, which correct for it as they learn",
                         s->ops.name);
    }
    if (s->code_length > 0) {
        return correct_by_sampler(s, out, err);
    }
    float *log_q;
    XSMI_TRY(xsmi_array_new(s->context, &log_q, s->classes, sizeof *log_q, "a correction of scores", err));
    bool constant = true;
    for (uint32_t k = 0; k < s->classes; k++) {
        log_q[k] = (float)s->ops.log_probability(s->state, NULL, k);
        constant &= log_q[k] == log_q[0];
    }
    xsm_status status = xsmi_sampler_need_every(s, NULL, err);
    if (status == XSM_OK && !constant) {
        status = xsmi_correction_of_classes(s->context, log_q, s->classes, out, err);
    }
    xsmi_release(s->context, log_q, s->classes, sizeof *log_q);
    return status;
}
