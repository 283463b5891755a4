/* The conformance suite for samplers' tables, on synthetic problems (ext/sampler.h says what it tests). */
#include "check/failures.h"
#include "check/made_rows.h"
#include "sampler/sampler.h"

#include "base/entry.h"
#include "base/held.h"
#include "base/order.h"
#include "check/chi_square.h"
#include "sampler/arrays.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <xsoftmax/draw.h>

/* Draws of each row where the draws of all rows are compared. */
#define TRIAL_DRAWS 3

typedef struct xsmi_sampler_trial {
    xsm_context *context;
    const xsm_sampler_ops *ops;
    const xsm_sampler_check_options *options;
    xsmi_trial_shape shape;
    bool follows;   /* it follows a made-up training before it is tried */
    uint32_t tests; /* chi-square tests of the whole suite, which share the false-alarm rate */
    xsm_dataset *data;
    float *all, *other; /* [COMPARED_ROWS][K] */
    double *q;          /* [K] */
    uint32_t *seen;     /* [K] */
    uint32_t *classes[2];
    double *logs[2]; /* [rows][TRIAL_DRAWS] */
    uint32_t *some;  /* [K + GUARD] */
    double *some_logs;
    uint32_t *excluded; /* [K] */
} xsmi_sampler_trial;

enum {
    COMPARED_ROWS = 40,  /* rows whose log-probabilities are compared: more than one sweep */
    TRIED = 4,           /* rows with many draws */
    TOGETHER = 16,       /* draws a call */
    CALLS_TOGETHER = 64, /* between two polls */
    GUARD = 8            /* entries behind an array, which must not change */
};
/* The least expected number of draws of a cell of a chi-square test; rarer classes share a cell. */
#define CELL 25.0
#define UNTOUCHED_CLASS 0xfefefefeu
#define UNTOUCHED 12345.5

static bool near(const xsmi_sampler_trial *t, double a, double b)
{
    if (isinf(a) || isinf(b)) {
        return isinf(a) && isinf(b) && (a < 0) == (b < 0);
    }
    return fabs(a - b) <= t->options->tolerance * (1 + fabs(a)); /* false for NaN */
}

/* -- what the parts share ------------------------------------------------------------------------------------------ */

/* Reports an error of the table. */
__attribute__((format(printf, 3, 4))) static xsm_status fault(const xsmi_sampler_trial *t, xsm_error *err,
                                                              const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    xsmi_format_line(what, sizeof what, format, args);
    va_end(args);
    return xsmi_fail(err, XSM_ERROR_DATA, "sampler '%s', K = %u, %s rows of %u features: %s", t->ops->name,
                     t->shape.classes, t->shape.sparse ? "sparse" : "dense", t->shape.features, what);
}

/* xsm_sampler_set(), for xsmi_trial_set(). */
static xsm_status set_option(void *object, const char *name, const char *value, xsm_error *err)
{
    return xsm_sampler_set(object, name, value, err);
}

/* Makes up rows of weights. */
static void read_weights(const xsm_index_source *source, const uint32_t *rows, uint32_t first, uint32_t count,
                         float *out, size_t stride)
{
    for (uint32_t j = 0; j < count; j++) {
        xsmi_stream stream;
        xsmi_stream_start(&stream, source->seed, XSMI_STREAM_CHECK, rows ? rows[j] : first + j);
        for (uint32_t i = 0; i < source->width; i++) {
            out[j * stride + i] = (float)(2 * xsmi_stream_uniform(&stream) - 1);
        }
    }
}

/* Lets a sampler follow a training with the trial's rows in batches. */
static xsm_status follow_made_up(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    const uint64_t *offsets = t->data->label_offsets;
    const xsm_index_source weights = {
        .size = sizeof weights,
        .context = s->context,
        .count = t->shape.classes,
        .width = t->shape.features + 1,
        .seed = 1,
        .read = read_weights,
    };
    for (uint64_t first = 0, count = 1; first < t->shape.rows; first += count++) {
        const uint64_t end = XSMI_MIN(first + count, t->shape.rows);
        const xsm_sampler_step step = {sizeof step, t->data->labels + offsets[first], offsets[end] - offsets[first],
                                       first, &weights};
        XSMI_TRY(s->ops.follow(s->state, &step, err));
    }
    return XSM_OK;
}

/* Makes a sampler with the options of the trial, bound to its data, which has followed if t->follows. */
static xsm_status make_sampler(const xsmi_sampler_trial *t, xsm_context *ctx, xsm_sampler **out, xsm_error *err)
{
    xsm_sampler *s;
    XSMI_TRY(xsm_sampler_new_from(ctx, t->ops, &s, err));
    xsm_status status = xsmi_trial_set(ctx, t->options->set, set_option, s, err);
    if (status == XSM_OK) {
        status = xsm_sampler_bind(s, t->data, err);
    }
    if (status == XSM_OK && t->follows) {
        status = follow_made_up(t, s, err);
    }
    if (status != XSM_OK) {
        xsm_sampler_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

/* Draws for all rows, together or one by one, into classes[into] and logs[into]. */
static xsm_status draw_all(const xsmi_sampler_trial *t, const xsm_sampler *s, int into, bool alone, xsm_error *err)
{
    XSMI_TRY(xsmi_go_on(t->context, err));
    for (uint64_t row = 0; alone && row < t->shape.rows; row++) {
        xsm_batch one = xsm_batch_range(t->data, row, 1);
        XSMI_TRY(xsm_sampler_draw(s,
                                  &(xsm_draw){.size = sizeof(xsm_draw),
                                              .batch = &one,
                                              .seed = 9,
                                              .position = 100 + row,
                                              .count = TRIAL_DRAWS,
                                              .classes = t->classes[into] + row * TRIAL_DRAWS,
                                              .log_probabilities = t->logs[into] + row * TRIAL_DRAWS},
                                  err));
    }
    xsm_batch batch = xsm_batch_range(t->data, 0, t->shape.rows);
    return alone ? XSM_OK
                 : xsm_sampler_draw(s,
                                    &(xsm_draw){.size = sizeof(xsm_draw),
                                                .batch = &batch,
                                                .seed = 9,
                                                .position = 100,
                                                .count = TRIAL_DRAWS,
                                                .classes = t->classes[into],
                                                .log_probabilities = t->logs[into]},
                                    err);
}

/* Checks that both draws have the same bits. */
static xsm_status same_draws(const xsmi_sampler_trial *t, const char *when, xsm_error *err)
{
    size_t entries = (size_t)t->shape.rows * TRIAL_DRAWS;
    if (memcmp(t->classes[0], t->classes[1], entries * sizeof **t->classes) != 0 ||
        memcmp(t->logs[0], t->logs[1], entries * sizeof **t->logs) != 0) {
        return fault(t, err, "the same draws are others %s", when);
    }
    return XSM_OK;
}

/* -- codes --------------------------------------------------------------------------------------------------------- */

static void encode(const xsmi_sampler_trial *t, const xsm_sampler *s, uint64_t row, float *code)
{
    xsm_batch one = xsm_batch_range(t->data, row, 1);
    xsmi_sampler_encode_batch(s, &one, 0, code);
}

static xsm_status check_codes(const xsmi_sampler_trial *t, const xsm_sampler *s, float *code, xsm_error *err)
{
    uint32_t length = s->code_length;
    if (s->ops.code_length && s->ops.code_length(s->state) != length) {
        return fault(t, err, "code_length() changes");
    }
    for (uint64_t row = 0; length > 0 && row < COMPARED_ROWS; row++) {
        for (int pass = 0; pass < 2; pass++) {
            float *of = code + pass * (length + GUARD);
            for (uint32_t j = 0; j < length + GUARD; j++) {
                of[j] = j < length && pass ? 7 : (float)UNTOUCHED; /* former contents must not matter */
            }
            encode(t, s, row, of);
            for (uint32_t j = 0; j < length + GUARD; j++) {
                bool kept = !(of[j] < (float)UNTOUCHED) && !(of[j] > (float)UNTOUCHED);
                if (j >= length && !kept) {
                    return fault(t, err, "encode() writes beyond the %u floats of a code", length);
                }
                if (!isfinite(of[j])) {
                    return fault(t, err, "the code of row %u has a number that is not finite", (unsigned)row);
                }
            }
        }
        if (memcmp(code, code + length + GUARD, length * sizeof *code) != 0) {
            return fault(t, err, "encode() does not fill all of a code, or gives another the second time");
        }
    }
    return XSM_OK;
}

/* -- log-probabilities --------------------------------------------------------------------------------------------- */

static xsm_status check_row(const xsmi_sampler_trial *t, const xsm_sampler *s, const float *code, uint64_t row,
                            xsm_error *err)
{
    const float *all = t->all + row * t->shape.classes;
    double sum = 0, together = 0;
    for (uint32_t k = 0; k < t->shape.classes; k++) {
        double one = s->ops.log_probability(s->state, code, k);
        if (k % CALLS_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(t->context, err));
        }
        if (!(one <= 1e-9)) {
            return fault(t, err, "log_probability() of class %u is %g", k, one);
        }
        if (!near(t, one, (double)all[k])) {
            return fault(t, err, "class %u has log-probability %.9g by itself and %.9g among all", k, one,
                         (double)all[k]);
        }
        t->q[k] = exp(one);
        sum += t->q[k];
        together += exp((double)all[k]);
    }
    if (!(fabs(sum - 1) <= t->options->tolerance) || !(fabs(together - 1) <= t->options->tolerance)) {
        return fault(t, err, "the probabilities of row %u sum to %.9g, those of all at once to %.9g", (unsigned)row,
                     sum, together);
    }
    return XSM_OK;
}

/* Computes xsm_sampler_log_probabilities(), which refuses numbers that are not finite. */
static xsm_status ask_all(const xsmi_sampler_trial *t, const xsm_sampler *s, const xsm_batch *batch, uint32_t first,
                          uint32_t count, float *out, xsm_error *err)
{
    const xsm_status status = xsm_sampler_log_probabilities(s, batch, first, count, out, err);
    return status == XSM_ERROR_RANGE ? fault(t, err, "log-probabilities of classes from %u on are not finite", first)
                                     : status;
}

static xsm_status check_probabilities(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    const uint32_t classes = t->shape.classes;
    xsm_batch batch = xsm_batch_range(t->data, 0, COMPARED_ROWS);
    XSMI_TRY(ask_all(t, s, &batch, 0, classes, t->all, err));
    for (uint64_t row = 0; row < COMPARED_ROWS; row++) { /* alone, and in parts */
        xsm_batch one = xsm_batch_range(t->data, row, 1);
        const float *all = t->all + row * classes;
        XSMI_TRY(ask_all(t, s, &one, 0, classes, t->other, err));
        if (memcmp(all, t->other, classes * sizeof *all) != 0) {
            return fault(t, err, "row %u has other log-probabilities in company than alone", (unsigned)row);
        }
        for (uint32_t first = 0, count = 1; first < classes; first += count, count *= 2) {
            count = count < classes - first ? count : classes - first;
            XSMI_TRY(ask_all(t, s, &one, first, count, t->other, err));
            for (uint32_t k = 0; k < count; k++) {
                if (!near(t, (double)t->other[k], (double)all[first + k])) {
                    return fault(t, err, "class %u has log-probability %.9g among %u and %.9g among all", first + k,
                                 (double)t->other[k], count, (double)all[first + k]);
                }
            }
        }
    }
    return XSM_OK;
}

/* -- draws --------------------------------------------------------------------------------------------------------- */

/* Checks that t->seen is plausible for `draws` draws from t->q. */
static xsm_status check_frequencies(const xsmi_sampler_trial *t, uint64_t draws, uint64_t row, xsm_error *err)
{
    double chi = 0, rare = 0, rare_seen = 0;
    uint32_t cells = 0;
    for (uint32_t k = 0; k < t->shape.classes; k++) {
        double want = t->q[k] * (double)draws, have = t->seen[k];
        if (want < CELL) {
            rare += want;
            rare_seen += have;
        } else {
            chi += (have - want) * (have - want) / want;
            cells++;
        }
    }
    if (rare >= CELL) {
        chi += (rare_seen - rare) * (rare_seen - rare) / rare;
        cells++;
    } else if (rare_seen > CELL + 20 * sqrt(CELL)) { /* Poisson: far less likely than any requested false-alarm rate */
        return fault(t, err, "classes that are to come up %.3g times in %llu draws for row %u come up %g times", rare,
                     (unsigned long long)draws, (unsigned)row, rare_seen);
    }
    double limit = t->options->false_alarm / t->tests;
    if (cells > 1 && xsmi_chi_square_tail(chi, cells - 1) < limit) {
        return fault(t, err,
                     "%llu draws for row %u do not follow the log-probabilities: a chi-square of %.1f with %u "
                     "degrees of freedom",
                     (unsigned long long)draws, (unsigned)row, chi, cells - 1);
    }
    return XSM_OK;
}

static void guard(const xsmi_sampler_trial *t, uint32_t count)
{
    for (uint32_t j = 0; j < count + GUARD; j++) {
        t->some[j] = UNTOUCHED_CLASS;
        t->some_logs[j] = UNTOUCHED;
    }
}

static bool overrun(const xsmi_sampler_trial *t, uint32_t count)
{
    bool whole = true;
    for (uint32_t j = count; j < count + GUARD; j++) {
        whole &= t->some[j] == UNTOUCHED_CLASS && fabs(t->some_logs[j] - UNTOUCHED) <= 0;
    }
    return !whole;
}

static xsm_status check_draws(const xsmi_sampler_trial *t, const xsm_sampler *s, const float *code, uint64_t row,
                              xsm_error *err)
{
    uint64_t calls = (t->options->draws + TOGETHER - 1) / TOGETHER;
    memset(t->seen, 0, t->shape.classes * sizeof *t->seen);
    for (uint64_t call = 0; call <= calls; call++) {
        struct xsm_random random;
        uint32_t count = call < calls ? TOGETHER : 0;
        XSMI_TRY(xsmi_go_on(t->context, err));
        guard(t, count);
        xsmi_stream_start(&random.stream, row, XSMI_STREAM_CHECK, call);
        s->ops.draw(s->state, code, &random, count, t->some, t->some_logs);
        if (overrun(t, count)) {
            return fault(t, err, "draw() writes beyond the %u entries that it was given", count);
        }
        for (uint32_t j = 0; j < count; j++) {
            uint32_t k = t->some[j];
            if (k >= t->shape.classes) {
                return fault(t, err, "draw() gives class %u", k);
            }
            double log_q = s->ops.log_probability(s->state, code, k);
            if (isinf(log_q) || !near(t, t->some_logs[j], log_q)) {
                return fault(t, err, "class %u is drawn with log-probability %.9g, and has %.9g", k, t->some_logs[j],
                             log_q);
            }
            t->seen[k]++;
        }
    }
    return check_frequencies(t, calls * TOGETHER, row, err);
}

/* Returns a bound (Chernoff) on the two-sided tail probability of a binomial variable, which holds for every n. */
static double binomial_tail(double seen, double n, double p)
{
    double share = seen / n, part = 0;
    part += share > 0 ? share * log(share / p) : 0;
    part += share < 1 ? (1 - share) * log((1 - share) / (1 - p)) : 0;
    return 2 * exp(-n * part);
}

/* Checks that all classes but the excluded ones are drawn equally often, in the right number and with the same
 * probability. */
static xsm_status check_others(const xsmi_sampler_trial *t, const xsm_sampler *s, const float *code, uint32_t excluded,
                               uint32_t count, xsm_error *err)
{
    const uint32_t classes = t->shape.classes, left = classes - excluded;
    const uint64_t calls = t->options->draws / (count + 1) + 1;
    for (uint32_t i = 0; i < excluded; i++) {
        t->excluded[i] = classes - 1 - i;
    }
    memset(t->seen, 0, classes * sizeof *t->seen);
    for (uint64_t call = 0; call < calls; call++) {
        struct xsm_random random;
        if (call % CALLS_TOGETHER == 0) {
            XSMI_TRY(xsmi_go_on(t->context, err));
        }
        guard(t, count);
        xsmi_stream_start(&random.stream, excluded, XSMI_STREAM_CHECK, call);
        double log_drawn = s->ops.draw_others(s->state, code, &random, t->excluded, excluded, count, t->some);
        if (overrun(t, count)) {
            return fault(t, err, "draw_others() writes beyond the %u entries that it was given", count);
        }
        if (count > 0 && !near(t, log_drawn, log((double)count / left))) {
            return fault(t, err, "draw_others() of %u of %u classes says log-probability %.9g, not %.9g", count, left,
                         log_drawn, log((double)count / left));
        }
        for (uint32_t j = 0; j < count; j++) {
            bool twice = false;
            for (uint32_t i = 0; i < j; i++) {
                twice |= t->some[i] == t->some[j];
            }
            for (uint32_t i = 0; i < excluded; i++) {
                twice |= t->excluded[i] == t->some[j];
            }
            if (t->some[j] >= classes || twice) {
                return fault(t, err, "draw_others() gives class %u twice, excluded or beyond the last", t->some[j]);
            }
            t->seen[t->some[j]]++;
        }
    }
    double limit = t->options->false_alarm / t->tests / (classes + 1.0);
    for (uint32_t k = 0; k < classes && count < left; k++) {
        bool out = false;
        for (uint32_t i = 0; i < excluded; i++) {
            out |= t->excluded[i] == k;
        }
        if (!out && binomial_tail(t->seen[k], (double)calls, (double)count / left) < limit) {
            return fault(t, err, "draw_others() gives class %u in %u of %llu calls, each of %u of %u classes", k,
                         t->seen[k], (unsigned long long)calls, count, left);
        }
    }
    return XSM_OK;
}

/* Checks draws without replacement, as many as there are classes of probability above 0. */
static xsm_status check_distinct(const xsmi_sampler_trial *t, const xsm_sampler *s, uint64_t row, xsm_error *err)
{
    uint32_t support = 0;
    xsm_batch one = xsm_batch_range(t->data, row, 1);
    for (uint32_t k = 0; k < t->shape.classes; k++) {
        support += t->q[k] > 0;
        t->seen[k] = 0;
    }
    XSMI_TRY(xsm_sampler_draw(s,
                              &(xsm_draw){.size = sizeof(xsm_draw),
                                          .batch = &one,
                                          .seed = 3,
                                          .position = row,
                                          .count = support,
                                          .distinct = 1,
                                          .classes = t->some,
                                          .log_probabilities = t->some_logs},
                              err));
    for (uint32_t j = 0; j < support; j++) {
        if (t->some[j] >= t->shape.classes || t->seen[t->some[j]]++) {
            return fault(t, err, "a draw without replacement has class %u twice", t->some[j]);
        }
    }
    return XSM_OK;
}

/* -- the same again ------------------------------------------------------------------------------------------------ */

static xsm_status check_repeats(const xsmi_sampler_trial *t, xsm_sampler *s, xsm_error *err)
{
    XSMI_TRY(draw_all(t, s, 0, false, err));
    XSMI_TRY(draw_all(t, s, 1, false, err));
    XSMI_TRY(same_draws(t, "the second time", err));
    XSMI_TRY(draw_all(t, s, 1, true, err));
    XSMI_TRY(same_draws(t, "row by row", err));
    XSMI_TRY(xsm_sampler_bind(s, t->data, err));
    XSMI_TRY(t->follows ? follow_made_up(t, s, err) : XSM_OK);
    XSMI_TRY(draw_all(t, s, 1, false, err));
    XSMI_TRY(same_draws(t, "when it is bound anew", err));
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
        xsmi_trial memory;
        xsm_context *ctx;
        xsm_sampler *again = NULL;
        XSMI_TRY(xsmi_trial_context(&memory, t->context, threads, threads == 1 ? 0x00 : 0xff, &ctx, err));
        xsm_status status = make_sampler(t, ctx, &again, err);
        if (status == XSM_OK) {
            status = draw_all(t, again, 1, false, err);
            xsm_sampler_free(again);
        }
        size_t left = xsmi_trial_blocks(&memory);
        xsmi_trial_end(&memory, ctx);
        XSMI_TRY(status);
        XSMI_TRY(same_draws(t, threads == 1 ? "in memory that held something else" : "on several threads", err));
        if (left > 0) {
            return fault(t, err, "%zu blocks of memory are not released", left);
        }
    }
    return XSM_OK;
}

/* -- memory that fails --------------------------------------------------------------------------------------------- */

static xsm_status use(void *state, xsm_context *ctx, xsm_error *err)
{
    const xsmi_sampler_trial *t = state;
    xsm_sampler *s = NULL;
    XSMI_TRY(make_sampler(t, ctx, &s, err));
    uint32_t drawn[TRIAL_DRAWS];
    xsm_batch one = xsm_batch_range(t->data, 0, 1);
    xsm_status status = xsm_sampler_draw(
        s, &(xsm_draw){.size = sizeof(xsm_draw), .batch = &one, .count = TRIAL_DRAWS, .classes = drawn}, err);
    xsm_sampler_free(s);
    return status;
}

/* -- draws for several rows at once -------------------------------------------------------------------------------- */

enum { LANES = XSM_SAMPLER_ROWS, MOST_DRAWS = 40, ENTRIES = MOST_DRAWS + 2 };

/* Draws of several rows, with slots before and after them that must not change. */
typedef struct drawn {
    uint32_t classes[LANES][ENTRIES];
    double logs[LANES][ENTRIES];
} drawn;

typedef struct rows_trial {
    drawn together, alone;
    uint32_t *class_lists[LANES];
    double *log_lists[LANES];
    const float *codes[LANES];
    struct xsm_random random[LANES];
    xsm_random *streams[LANES];
} rows_trial;

static void start_streams(rows_trial *r, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        xsmi_stream_start(&r->random[i].stream, 5, XSMI_STREAM_CHECK, i);
    }
}

static xsm_status compare(const xsmi_sampler_trial *t, const xsm_sampler *s, rows_trial *r, uint32_t rows,
                          uint32_t count, xsm_error *err)
{
    memset(&r->together, 0x5a, sizeof r->together);
    memset(&r->alone, 0x5a, sizeof r->alone);
    start_streams(r, rows);
    s->ops.draw_rows(s->state, r->codes, r->streams, rows, count, r->class_lists, r->log_lists);
    start_streams(r, rows);
    for (uint32_t i = 0; i < rows; i++) {
        s->ops.draw(s->state, r->codes[i], &r->random[i], count, r->alone.classes[i] + 1, r->alone.logs[i] + 1);
    }
    for (uint32_t i = 0; i < LANES; i++) {
        if (memcmp(r->together.classes[i], r->alone.classes[i], sizeof r->alone.classes[i]) != 0 ||
            memcmp(r->together.logs[i], r->alone.logs[i], sizeof r->alone.logs[i]) != 0) {
            return fault(t, err,
                         "draw_rows() with %u rows of %u draws gives row %u others than draw() does, or "
                         "writes beyond its entries",
                         rows, count, i);
        }
    }
    return XSM_OK;
}

/* Checks that draw_rows() draws the same as draw(). */
static xsm_status try_draw_rows(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    static const uint32_t counts[] = {0, 1, 3, MOST_DRAWS}, sizes[] = {1, 2, LANES - 1, LANES};
    const size_t floats = (size_t)LANES * s->code_length;
    xsmi_held held = {.context = t->context};
    rows_trial *r = xsmi_hold(&held, 1, sizeof *r);
    float *codes = xsmi_hold(&held, floats, sizeof *codes);
    xsm_status status = xsmi_held_check(&held, "the trial of a sampler", err);
    for (uint32_t i = 0; status == XSM_OK && i < LANES; i++) {
        float *code = codes + (size_t)i * s->code_length;
        xsm_batch one = xsm_batch_range(t->data, i % t->data->rows, 1);
        xsmi_sampler_encode_batch(s, &one, 0, code);
        r->codes[i] = s->code_length > 0 ? code : NULL;
        r->class_lists[i] = r->together.classes[i] + 1;
        r->log_lists[i] = r->together.logs[i] + 1;
        r->streams[i] = &r->random[i];
    }
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        for (size_t n = 0; status == XSM_OK && n < sizeof sizes / sizeof *sizes; n++) {
            status = compare(t, s, r, sizes[n], counts[c], err);
        }
    }
    xsmi_held_release(&held);
    return status;
}

/* -- saving and loading -------------------------------------------------------------------------------------------- */

/* Rows whose log-probabilities are compared with those of a tree. */
enum { TREE_ROWS = 8 };

/* Makes a sampler from these arrays, without training rows. */
static xsm_status load(const xsmi_sampler_trial *t, xsm_context *ctx, const xsm_array_reader *reader, xsm_sampler **out,
                       xsm_error *err)
{
    xsm_sampler *s;
    XSMI_TRY(xsm_sampler_new_from(ctx, t->ops, &s, err));
    xsm_status status = xsmi_trial_set(ctx, t->options->set, set_option, s, err);
    if (status == XSM_OK) {
        status = xsmi_sampler_restore(s, reader, t->shape.classes, t->shape.features, err);
    }
    if (status != XSM_OK) {
        xsm_sampler_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

/* Checks that load() refuses damaged arrays. */
static xsm_status check_damage(const xsmi_sampler_trial *t, xsm_array_writer *w, const xsm_array_reader *whole,
                               xsm_error *err)
{
    for (size_t i = 0; i < w->count; i++) {
        const xsmi_tensor intact = w->tensors[i];
        for (int kind = 0; kind < 3; kind++) {
            xsm_sampler *s = NULL;
            xsm_array_reader reader = *whole;
            if (kind == 1 && intact.shape[0] == 0) {
                continue;
            }
            if (kind == 0) { /* missing: the last array takes its place */
                w->tensors[i] = w->tensors[w->count - 1];
                reader.count--;
            } else if (kind == 1) { /* shorter by one */
                w->tensors[i].shape[0]--;
            } else {
                w->tensors[i].dtype = intact.dtype == XSMI_DTYPE_F32 ? XSMI_DTYPE_U32 : XSMI_DTYPE_F32;
            }
            xsm_status status = load(t, t->context, &reader, &s, NULL);
            w->tensors[i] = intact;
            xsm_sampler_free(s);
            if (status != XSM_ERROR_FORMAT && status != XSM_ERROR_MEMORY) {
                return fault(t, err, "load() says %s when array '%s' %s", xsm_status_name(status), intact.name,
                             kind == 0   ? "is not there"
                             : kind == 1 ? "is shorter"
                                         : "is of another type");
            }
        }
    }
    return XSM_OK;
}

typedef struct load_use {
    const xsmi_sampler_trial *t;
    const xsm_array_reader *reader;
} load_use;

static xsm_status use_loaded(void *state, xsm_context *ctx, xsm_error *err)
{
    const load_use *u = state;
    xsm_sampler *s = NULL;
    XSMI_TRY(load(u->t, ctx, u->reader, &s, err));
    xsm_sampler_free(s);
    return XSM_OK;
}

/* Compares the tree that save() writes with log_probability(). */
static xsm_status check_tree(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    xsmi_tree tree;
    xsm_error said = XSM_ERROR_INIT;
    memset(&tree, 0, sizeof tree);
    float *code = xsmi_allocate(t->context, s->code_length, sizeof *code), *own = NULL;
    xsm_status status = code ? xsmi_sampler_tree(s, &tree, &said)
                             : xsmi_fail_memory(&said, s->code_length * sizeof *code, "the trial of a sampler");
    own = status == XSM_OK ? xsmi_allocate(t->context, tree.dims, sizeof *own) : NULL;
    if (status != XSM_OK && status != XSM_ERROR_MEMORY) {
        status = fault(t, err, "XSM_SAMPLER_TREE, but save() writes no such tree: %s", said.message);
    } else if (!own) {
        status = xsmi_fail_memory(err, tree.dims * sizeof *own, "the trial of a sampler");
    }
    for (uint64_t row = 0; row < TREE_ROWS && status == XSM_OK; row++) {
        const xsmi_features x = xsmi_dataset_features(t->data, row);
        xsmi_sampler_encode(s, &x, code);
        xsmi_tree_encode(&tree, &x, own);
        for (uint32_t k = 0; k < t->shape.classes && status == XSM_OK; k++) {
            const double q = s->ops.log_probability(s->state, code, k), want = xsmi_tree_log_probability(&tree, own, k);
            if (!(fabs(q - want) <= t->options->tolerance * (1 + fabs(q)))) {
                status = fault(t, err, "class %u has log-probability %.9g, and %.9g by the tree that save() writes", k,
                               q, want);
            }
        }
    }
    xsmi_release(t->context, own, tree.dims, sizeof *own);
    xsmi_release(t->context, code, s->code_length, sizeof *code);
    xsmi_tree_clear(&tree);
    return status;
}

/* Checks that a loaded sampler follows as one that was never saved; draws into classes[] and logs[]. */
static xsm_status follow_on(const xsmi_sampler_trial *t, const xsm_sampler *loaded, xsm_error *err)
{
    xsm_sampler *s = NULL;
    XSMI_TRY(make_sampler(t, t->context, &s, err));
    xsm_status status = follow_made_up(t, s, err);
    status = status == XSM_OK ? follow_made_up(t, loaded, err) : status;
    status = status == XSM_OK ? draw_all(t, s, 0, false, err) : status;
    status = status == XSM_OK ? draw_all(t, loaded, 1, false, err) : status;
    status = status == XSM_OK ? same_draws(t, "when it was saved, loaded and followed on", err) : status;
    xsm_sampler_free(s);
    return status;
}

/* Tests what the table saves and loads; `s` has drawn classes[0] and logs[0]. */
static xsm_status try_saved(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    xsm_array_writer w = {.context = t->context};
    xsm_sampler *loaded = NULL;
    xsm_status status = xsmi_sampler_arrays(s, &w, err);
    xsm_array_reader reader = {w.tensors, w.count, "a trial", NULL};
    if (status == XSM_OK) {
        xsm_error said = XSM_ERROR_INIT;
        status = load(t, t->context, &reader, &loaded, &said);
        if (status != XSM_OK && status != XSM_ERROR_MEMORY) {
            status = fault(t, err, "load() does not take what save() hands over: %s",
                           said.message[0] ? said.message : xsm_status_name(status));
        }
    }
    status = status == XSM_OK ? draw_all(t, loaded, 1, false, err) : status;
    status = status == XSM_OK ? same_draws(t, "when it was saved and loaded", err) : status;
    status = status == XSM_OK && t->follows ? follow_on(t, loaded, err) : status;
    status = status == XSM_OK && (s->ops.flags & XSM_SAMPLER_TREE) ? check_tree(t, s, err) : status;
    status = status == XSM_OK ? check_damage(t, &w, &reader, err) : status;
    if (status == XSM_OK) {
        char who[160];
        load_use u = {t, &reader};
        snprintf(who, sizeof who, "sampler '%s', K = %u, load()", t->ops->name, t->shape.classes);
        status = xsmi_trial_allocations(t->context, use_loaded, &u, who, err);
    }
    xsm_sampler_free(loaded);
    xsmi_array_writer_clear(&w);
    return status;
}

/* -- the whole ----------------------------------------------------------------------------------------------------- */

static xsm_status try_rows(const xsmi_sampler_trial *t, const xsm_sampler *s, float *code, xsm_error *err)
{
    for (uint64_t row = 0; row < COMPARED_ROWS; row++) {
        encode(t, s, row, code);
        XSMI_TRY(check_row(t, s, code, row, err));
        if (row < TRIED) {
            XSMI_TRY(check_draws(t, s, code, row, err));
            XSMI_TRY(check_distinct(t, s, row, err));
        }
    }
    uint32_t classes = t->shape.classes;
    for (uint32_t excluded = 0; s->ops.draw_others && excluded <= 2 && excluded < classes; excluded++) {
        uint32_t left = classes - excluded, counts[] = {0, 1, left / 2, left};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            XSMI_TRY(check_others(t, s, code, excluded, counts[c], err));
        }
    }
    return XSM_OK;
}

static xsm_status try_sampler(const xsmi_sampler_trial *t, xsm_error *err)
{
    xsm_sampler *s;
    char who[160];
    XSMI_TRY(make_sampler(t, t->context, &s, err));
    size_t floats = 2 * ((size_t)s->code_length + GUARD);
    float *code = xsmi_allocate(t->context, floats, sizeof *code);
    xsm_status status = code ? XSM_OK : xsmi_fail_memory(err, floats * sizeof *code, "the trial of a sampler");
    status = status == XSM_OK ? check_codes(t, s, code, err) : status;
    status = status == XSM_OK ? check_probabilities(t, s, err) : status;
    status = status == XSM_OK ? try_rows(t, s, code, err) : status;
    status = status == XSM_OK ? check_repeats(t, s, err) : status;
    status = status == XSM_OK && s->ops.draw_rows ? try_draw_rows(t, s, err) : status;
    status = status == XSM_OK && s->ops.save ? try_saved(t, s, err) : status;
    xsmi_release(t->context, code, floats, sizeof *code);
    xsm_sampler_free(s);
    XSMI_TRY(status);
    snprintf(who, sizeof who, "sampler '%s', K = %u", t->ops->name, t->shape.classes);
    return xsmi_trial_allocations(t->context, use, (void *)(uintptr_t)t, who, err);
}

static xsm_status try_shape(xsmi_sampler_trial *t, xsm_error *err)
{
    xsm_context *ctx = t->context;
    size_t classes = t->shape.classes, compared = COMPARED_ROWS * classes,
           entries = (size_t)t->shape.rows * TRIAL_DRAWS;
    size_t some = (XSMI_MAX(classes, TOGETHER)) + GUARD;
    xsmi_held held = {.context = ctx};
    t->data = NULL;
    t->all = xsmi_hold(&held, compared, sizeof *t->all);
    t->other = xsmi_hold(&held, classes, sizeof *t->other);
    t->q = xsmi_hold(&held, classes, sizeof *t->q);
    t->seen = xsmi_hold(&held, classes, sizeof *t->seen);
    t->excluded = xsmi_hold(&held, classes, sizeof *t->excluded);
    t->some = xsmi_hold(&held, some, sizeof *t->some);
    t->some_logs = xsmi_hold(&held, some, sizeof *t->some_logs);
    for (int i = 0; i < 2; i++) {
        t->classes[i] = xsmi_hold(&held, entries, sizeof **t->classes);
        t->logs[i] = xsmi_hold(&held, entries, sizeof **t->logs);
    }
    xsm_status status = xsmi_held_check(&held, "the trial of a sampler", err);
    status = status == XSM_OK ? xsmi_trial_data(ctx, &t->shape, &t->data, err) : status;
    t->follows = false;
    status = status == XSM_OK ? try_sampler(t, err) : status;
    t->follows = XSM_HAS(t->ops, follow) && t->ops->follow;
    status = status == XSM_OK && t->follows ? try_sampler(t, err) : status;
    xsm_dataset_free(t->data);
    xsmi_held_release(&held);
    return status;
}

static xsm_status read_options(const xsm_sampler_check_options *given, xsm_sampler_check_options *o, xsm_error *err)
{
    XSMI_TRY(XSMI_READ(xsm_sampler_check_options, o, given, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_sampler_check_options, o, reserved, err));
    if (o->classes > XSM_CLASSES_MAX || o->features > XSM_FEATURES_MAX ||
        !(o->false_alarm >= 0 && o->false_alarm < 1) || !(o->tolerance >= 0 && o->tolerance < 1)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "accepted are up to %u classes and %u features, and a false alarm and a tolerance from 0 to "
                         "below 1",
                         XSM_CLASSES_MAX, XSM_FEATURES_MAX);
    }
    o->classes = o->classes ? o->classes : XSMI_DEFAULT(xsm_sampler_check_options, classes);
    o->features = o->features ? o->features : XSMI_DEFAULT(xsm_sampler_check_options, features);
    o->draws = o->draws ? o->draws : XSMI_DEFAULT(xsm_sampler_check_options, draws);
    o->false_alarm = o->false_alarm > 0 ? o->false_alarm : XSMI_DEFAULT(xsm_sampler_check_options, false_alarm);
    o->tolerance = o->tolerance > 0 ? o->tolerance : XSMI_DEFAULT(xsm_sampler_check_options, tolerance);
    return XSM_OK;
}

xsm_status xsm_sampler_check(xsm_context *context, const xsm_sampler_ops *ops, const xsm_sampler_check_options *given,
                             xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {ops, "the table"});
    xsm_sampler_check_options o = XSM_SAMPLER_CHECK_OPTIONS_INIT;
    XSMI_TRY(read_options(given, &o, err));
    const uint32_t sizes[] = {1, 2, 7, o.classes, o.classes};
    enum { SIZES = sizeof sizes / sizeof *sizes, OTHERS = 12 };
    xsmi_sampler_trial t = {.ops = ops, .options = &o, .tests = SIZES * (TRIED + OTHERS) * 2};
    xsm_context *parent;
    xsmi_trial memory;
    XSMI_TRY(xsmi_context_acquire(context, &parent, err));
    xsmi_activity activity;
    xsmi_begin(&activity, parent, "trying a sampler", "problems", SIZES);
    xsm_status status = xsmi_trial_context(&memory, parent, 1, 0xa5, &t.context, err);
    for (size_t i = 0; i < SIZES && status == XSM_OK; i++) {
        t.shape = (xsmi_trial_shape){.rows = sizes[i] > 20 ? 3 * (uint64_t)sizes[i] : 60,
                                     .features = o.features,
                                     .classes = sizes[i],
                                     .sparse = i % 2 == 0};
        status = try_shape(&t, err);
        xsmi_reach(&activity, i + 1);
    }
    xsmi_trial_end(&memory, t.context);
    status = xsmi_trial_status(&activity, parent, status, err);
    xsm_context_free(parent);
    return status;
}
