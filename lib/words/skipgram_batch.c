/*
 * A batch of skip-gram steps. First every step is scored with the vectors from before the batch, steps on all threads:
 * scores (logits) of its contexts and of the classes drawn against them, coefficients, and the change of its input
 * vector. Then the changes are added, with the words divided among the threads by residue; each thread adds the changes
 * of its words in the order of the steps. So the bits do not depend on the threads, and no thread waits for another
 * within a phase. While changes are added, one job reads the next batch from the text.
 */
#include "words/skipgram.h"

#include "base/held.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

enum {
    CHUNK = 16,      /* steps scored by one job */
    PARTS_MOST = 64, /* most parts of the words in the second phase */
    FOLD = 512       /* factors up to 2 whose product is a double */
};

struct xsmi_skipgram_batch {
    xsm_context *context;
    xsmi_held held; /* the arrays */
    const xsmi_kernels *kernels;
    xsm_model *input, *output;
    xsm_estimator *estimator;
    bool in_order; /* step by step, for estimators whose state or steps need it */
    struct {
        uint32_t batch, window, negatives;
        uint64_t seed;
        uint32_t pair_width; /* slots a pair */
    } settings;
    size_t dimension, stride;
    xsmi_alias alias, rest; /* alias: of all words; rest: without the first word, if more than half of all draws are of
                               that */
    xsmi_drawn drawn[2];
    uint32_t at, parts; /* the drawn batch that is being run, 0 or 1; parts of the words */
    struct {
        float *x, *change; /* [batch][stride] input vectors before the batch, and what changes them */
        double *losses;    /* [batch] */
        uint32_t *lengths; /* [batch] slots in use */
        uint32_t *bounds;  /* [batch][parts+1] where each part's slots begin */
    } step;
    struct {
        size_t count;
        uint32_t *rows;
        float *amounts; /* -eta g */
    } slot;             /* the slots of step s begin at starts[s] * pair_width */
    struct {
        uint32_t count;
        size_t slots; /* of a step, before they are ordered by part */
        uint32_t *rows;
        float *amounts;
        xsm_gradient **gradients; /* [count], with an estimator */
    } thread;
};

/* -- life ---------------------------------------------------------------------------------------------------------- */

/* Fills the weights of the words from `first` on; earlier words get 0. Returns the sum. */
static double weigh(const xsm_corpus *corpus, double power, uint32_t first, double *weights)
{
    double sum = 0;
    for (uint32_t k = 0; k < corpus->info.words; k++) {
        weights[k] = k < first ? 0 : pow((double)corpus->counts[k] / (double)corpus->counts[first], power);
        sum += weights[k];
    }
    return sum;
}

static xsm_status make_alias(xsmi_skipgram_batch *b, const xsm_corpus *corpus, double power, xsm_error *err)
{
    const uint32_t words = corpus->info.words; /* two at least, by falling count */
    double *weights;
    XSMI_TRY(xsmi_array_new(b->context, &weights, words, sizeof *weights, "the words' frequencies", err));
    const double sum = weigh(corpus, power, 0, weights);
    xsm_status status = xsmi_alias_new(b->context, weights, words, &b->alias, err);
    if (status == XSM_OK && weights[0] > sum / 2) {
        (void)weigh(corpus, power, 1, weights);
        status = xsmi_alias_new(b->context, weights, words, &b->rest, err);
    }
    xsmi_release(b->context, weights, words, sizeof *weights);
    return status;
}

static xsm_status allocate(xsmi_skipgram_batch *b, xsm_error *err)
{
    const size_t n = b->settings.batch, contexts = n * 2 * b->settings.window;
    if (!xsmi_multiply(contexts, b->settings.pair_width, &b->slot.count)) {
        return xsmi_fail_memory(err, SIZE_MAX, "a batch of steps");
    }
    b->thread.slots = (size_t)2 * b->settings.window * b->settings.pair_width;
    for (int i = 0; i < 2; i++) {
        xsmi_drawn *d = &b->drawn[i];
        d->centres = xsmi_hold(&b->held, n, sizeof *d->centres);
        d->starts = xsmi_hold(&b->held, n + 1, sizeof *d->starts);
        d->contexts = xsmi_hold(&b->held, contexts, sizeof *d->contexts);
    }
    b->step.x = xsmi_hold(&b->held, (uint64_t)n * b->stride, sizeof *b->step.x);
    b->step.change = xsmi_hold(&b->held, (uint64_t)n * b->stride, sizeof *b->step.change);
    b->step.losses = xsmi_hold(&b->held, n, sizeof *b->step.losses);
    b->step.lengths = xsmi_hold(&b->held, n, sizeof *b->step.lengths);
    b->step.bounds = xsmi_hold(&b->held, (uint64_t)n * (b->parts + 1), sizeof *b->step.bounds);
    b->slot.rows = xsmi_hold(&b->held, b->slot.count, sizeof *b->slot.rows);
    b->slot.amounts = xsmi_hold(&b->held, b->slot.count, sizeof *b->slot.amounts);
    b->thread.rows = xsmi_hold(&b->held, (uint64_t)b->thread.count * b->thread.slots, sizeof *b->thread.rows);
    b->thread.amounts = xsmi_hold(&b->held, (uint64_t)b->thread.count * b->thread.slots, sizeof *b->thread.amounts);
    b->thread.gradients = xsmi_hold_zeros(&b->held, b->thread.count, sizeof(xsm_gradient *));
    return xsmi_held_check(&b->held, "a batch of steps", err);
}

xsm_status xsmi_skipgram_batch_new(const xsmi_word_task *task, const xsm_skipgram_options *o, xsmi_skipgram_batch **out,
                                   xsm_error *err)
{
    xsm_context *ctx = task->context;
    const xsm_estimator *e = task->estimator;
    xsmi_skipgram_batch *b;
    XSMI_TRY(XSMI_OBJECT_NEW(ctx, &b, xsmi_skipgram_batch, "a batch of steps", err));
    b->held.context = ctx;
    b->kernels = xsmi_context_kernels(ctx);
    b->input = task->input;
    b->output = task->output;
    b->estimator = task->estimator;
    b->in_order = e && (e->ops.flags & (XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_PROXIMAL));
    b->settings.batch = o->batch;
    b->settings.window = o->window;
    b->settings.negatives = o->negatives;
    b->settings.seed = o->seed;
    b->settings.pair_width = e ? (uint32_t)e->width : 1 + o->negatives;
    b->dimension = task->input->features;
    b->stride = xsmi_row_stride(b->dimension);
    b->thread.count = xsmi_context_threads(ctx);
    b->parts = XSMI_MIN(b->thread.count, PARTS_MOST);
    xsm_status status = allocate(b, err);
    if (status == XSM_OK && !e) {
        status = make_alias(b, task->corpus, o->power, err);
    }
    for (uint32_t i = 0; status == XSM_OK && e && i < b->thread.count; i++) {
        status = xsm_gradient_new(ctx, &b->thread.gradients[i], err);
        if (status == XSM_OK) {
            status = xsmi_estimator_reserve(e, b->thread.gradients[i], (uint64_t)2 * b->settings.window, 1, false, err);
        }
    }
    if (status != XSM_OK) {
        xsmi_skipgram_batch_free(b);
        return status;
    }
    *out = b;
    return XSM_OK;
}

void xsmi_skipgram_batch_free(xsmi_skipgram_batch *b)
{
    if (!b) {
        return;
    }
    xsm_context *ctx = b->context;
    for (uint32_t i = 0; b->thread.gradients && i < b->thread.count; i++) {
        xsm_gradient_free(b->thread.gradients[i]);
    }
    xsmi_held_release(&b->held);
    if (b->alias.columns) {
        xsmi_alias_clear(ctx, &b->alias);
    }
    if (b->rest.columns) {
        xsmi_alias_clear(ctx, &b->rest);
    }
    XSMI_OBJECT_FREE(b, xsmi_skipgram_batch);
}

/* -- the next batch out of the text -------------------------------------------------------------------------------- */

static xsm_status fill(const xsmi_skipgram_batch *b, xsmi_drawn *d, xsmi_centres *text, xsm_error *err)
{
    d->steps = 0;
    d->starts[0] = 0;
    d->last = false;
    while (d->steps < b->settings.batch) {
        xsmi_centre c;
        bool found;
        XSMI_TRY(xsmi_centres_next(text, &c, &found, err));
        if (!found) {
            d->last = true;
            break;
        }
        uint32_t *to = d->contexts + d->starts[d->steps];
        memcpy(to, c.words, c.before * sizeof *to);
        memcpy(to + c.before, c.words + c.before + 1, c.after * sizeof *to);
        d->centres[d->steps] = c.words[c.before];
        d->starts[d->steps + 1] = d->starts[d->steps] + c.before + c.after;
        d->steps++;
    }
    d->known = text->known;
    return XSM_OK;
}

/* -- scoring ------------------------------------------------------------------------------------------------------- */

typedef struct run {
    xsmi_skipgram_batch *b;
    xsmi_drawn *d, *next;
    xsmi_centres *text;
    uint64_t position;
    double eta;
    bool *finite; /* by chunk */
    xsm_status filled;
    xsm_error error;
} run;

static float *input_row(const xsmi_skipgram_batch *b, uint32_t word)
{
    return b->input->w.weight + (size_t)word * b->input->w.stride;
}

/* Returns the position of a step's slots among those of the batch. */
static size_t slots_of(const xsmi_skipgram_batch *b, const xsmi_drawn *d, uint32_t s)
{
    return (size_t)d->starts[s] * b->settings.pair_width;
}

/* Lists a step's slots: each context, then the words drawn against it. Returns their number. */
static uint32_t draw(const xsmi_skipgram_batch *b, const xsmi_drawn *d, uint32_t s, uint64_t position, uint32_t *rows)
{
    xsmi_stream stream;
    xsmi_stream_start(&stream, b->settings.seed, XSMI_STREAM_WORDS, position + s);
    uint32_t n = 0;
    for (uint32_t i = d->starts[s]; i < d->starts[s + 1]; i++) {
        const uint32_t context = d->contexts[i];
        const xsmi_alias *from = context == 0 && b->rest.columns ? &b->rest : &b->alias;
        rows[n++] = context;
        for (uint32_t j = 0; j < b->settings.negatives; j++) {
            uint32_t other;
            do { /* at most half of the draws are of the context itself */
                other = xsmi_alias_draw(from, &stream);
            } while (other == context);
            rows[n++] = other;
        }
    }
    return n;
}

/* The slots of a step, or of one of its pairs: rows of output vectors and what is added to them, and the loss. */
typedef struct slots {
    uint32_t *rows;
    float *amounts;
    uint32_t count;
    double loss;
} slots;

/* Converts scores to amounts, eta (y - sigma(z)) with y = 1 for every pair_width-th, and computes the loss. Returns
 * false for scores that are not finite. */
static bool turn(const xsmi_skipgram_batch *b, const float *scores, float eta, slots *own)
{
    float *amounts = own->amounts;
    const uint32_t n = own->count;
    for (uint32_t j = 0; j < n; j++) {
        amounts[j] = -fabsf(scores[j]);
    }
    b->kernels->row_softmax(amounts, n, 0, 1, amounts); /* exp(-|z|) */
    double sum = 0;
    uint32_t most = 0;
    for (uint32_t start = 0; start < n; start += FOLD) {
        const uint32_t end = n - start < FOLD ? n : start + FOLD;
        /* The sum of log(1 + e) as one logarithm of a product. */
        double product[4] = {1, 1, 1, 1};
        for (uint32_t j = start; j < end; j++) {
            product[j % 4] *= 1 + (double)amounts[j];
        }
        sum += log(product[0] * product[1] * product[2] * product[3]);
    }
    for (uint32_t j = 0; j < n; j++) {
        const float z = scores[j], e = amounts[j], share = 1 / (1 + e);
        /* Absolute values compare as their bits, with infinity and NaN above all others. */
        uint32_t bits;
        memcpy(&bits, &z, sizeof bits);
        bits &= 0x7fffffff;
        most = XSMI_MAX(bits, most);
        sum += z > 0 ? (double)z : 0;
        amounts[j] = -eta * (z >= 0 ? share : e * share);
    }
    for (uint32_t j = 0; j < n; j += b->settings.pair_width) {
        sum -= (double)scores[j];
        amounts[j] += eta;
    }
    own->loss = sum;
    float largest;
    memcpy(&largest, &most, sizeof largest);
    return largest < (float)XSMI_STEP_LIMIT;
}

/* Orders a step's slots by the part that adds them, keeping the order within each; they are stored from `offset` on. */
static void divide(const xsmi_skipgram_batch *b, uint32_t s, const slots *own, size_t offset)
{
    const uint32_t *rows = own->rows, n = own->count;
    const uint32_t parts = b->parts;
    uint32_t *bounds = b->step.bounds + (size_t)s * (parts + 1), next[PARTS_MOST];
    memset(bounds, 0, (parts + 1) * sizeof *bounds);
    for (uint32_t j = 0; j < n; j++) {
        bounds[rows[j] % parts + 1]++;
    }
    for (uint32_t p = 0; p < parts; p++) {
        next[p] = bounds[p];
        bounds[p + 1] += bounds[p];
    }
    for (uint32_t j = 0; j < n; j++) {
        const uint32_t to = next[rows[j] % parts]++;
        b->slot.rows[offset + to] = rows[j];
        b->slot.amounts[offset + to] = own->amounts[j];
    }
}

/* Some pairs of a step, from `first` on among those of the batch. */
typedef struct pairs {
    uint32_t step, first, count, thread;
    const float *x; /* the centre's vector */
} pairs;

/* Passes some pairs of a step to the estimator as examples. Returns false if something is not finite. */
static bool estimate(const run *r, const pairs *p, slots *out)
{
    const xsmi_skipgram_batch *b = r->b;
    xsm_estimator *e = b->estimator;
    xsm_gradient *g = b->thread.gradients[p->thread];
    const double norm = (double)b->kernels->dot(p->x, p->x, b->dimension);
    for (uint32_t i = 0; i < p->count; i++) {
        xsm_example *example = &g->example[i];
        example->row = r->d->centres[p->step];
        example->position = e->position + p->first + i;
        example->labels = r->d->contexts + p->first + i;
        example->label_count = 1;
        example->squared_norm = norm;
    }
    xsmi_estimator_select(e, g, 0, p->count);
    const xsmi_piece all = {0, p->count, 1, r->eta, 0};
    xsmi_outcome outcome = {.finite = true};
    if (!xsmi_estimator_scores(e, g, 0, p->count, 1, NULL) ||
        xsmi_estimator_coefficients(e, g, &all, &outcome) < p->count) {
        return false;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const xsmi_entries list = xsmi_gradient_list(g, i);
        for (uint32_t j = 0; j < list.count; j++) {
            out->rows[n] = list.classes[j];
            out->amounts[n++] = (float)(-r->eta * (double)list.coefficients[j]);
        }
        out->loss += g->losses[i];
    }
    out->count = n;
    return true;
}

/* Runs step by step and pair by pair, each with the vectors left by the one before. Returns false if something is not
 * finite. */
static bool run_in_order(const run *r)
{
    xsmi_skipgram_batch *b = r->b;
    const xsmi_kernels *kernels = b->kernels;
    float *weights = b->output->w.weight, *change = b->step.change;
    const size_t stride = b->output->w.stride;
    for (uint32_t s = 0; s < r->d->steps; s++) {
        float *x = input_row(b, r->d->centres[s]);
        slots own = {b->slot.rows, b->slot.amounts, 0, 0};
        for (uint32_t i = r->d->starts[s]; i < r->d->starts[s + 1]; i++) {
            if (!estimate(r, &(pairs){s, i, 1, 0, x}, &own)) {
                return false;
            }
            memset(change, 0, b->dimension * sizeof *change);
            kernels->column_sums(weights, stride, own.rows, own.amounts, own.count, b->dimension, change);
            kernels->scatter_update(weights, stride, own.rows, own.count, x, b->dimension, own.amounts, NULL);
            kernels->axpby(x, change, b->dimension, 1, 1);
        }
        b->step.losses[s] = own.loss;
    }
    return true;
}

/* Scores all pairs of a step, and computes the change of its input vector. Without an estimator `own` has the slots.
 * Returns false if something is not finite. */
static bool score_step(const run *r, const pairs *p, slots *own)
{
    const xsmi_skipgram_batch *b = r->b;
    const xsmi_kernels *kernels = b->kernels;
    const xsm_model *m = b->output;
    float *scores = b->thread.amounts + p->thread * b->thread.slots, *change = b->step.change + p->step * b->stride;
    bool finite;
    if (b->estimator) {
        finite = estimate(r, p, own);
    } else {
        kernels->gather_scores(m->w.weight, m->w.stride, own->rows, own->count, p->x, b->dimension, scores, NULL);
        finite = turn(b, scores, (float)r->eta, own);
    }
    if (finite) {
        b->step.losses[p->step] = own->loss;
        memset(change, 0, b->dimension * sizeof *change);
        kernels->column_sums(m->w.weight, m->w.stride, own->rows, own->amounts, own->count, b->dimension, change);
    }
    return finite;
}

static void score_chunk(void *state, const xsmi_range *range)
{
    run *r = state;
    xsmi_skipgram_batch *b = r->b;
    uint32_t *own_rows = b->thread.rows + range->thread * b->thread.slots;
    float *scores = b->thread.amounts + range->thread * b->thread.slots;
    bool finite = true;
    for (uint32_t s = (uint32_t)range->first; s < range->end && finite; s++) {
        const size_t offset = slots_of(b, r->d, s);
        const uint32_t start = r->d->starts[s], count = r->d->starts[s + 1] - start;
        const float *x = input_row(b, r->d->centres[s]);
        /* Slots are made in scratch before they are divided into parts. */
        slots own = {b->parts > 1 ? own_rows : b->slot.rows + offset, b->slot.amounts + offset, 0, 0};
        own.count = b->estimator ? 0 : draw(b, r->d, s, r->position, own.rows);
        finite = score_step(r, &(pairs){s, start, count, range->thread, x}, &own);
        if (!finite) {
            break;
        }
        memcpy(b->step.x + s * b->stride, x, b->dimension * sizeof *x);
        b->step.lengths[s] = own.count;
        if (b->parts > 1) {
            memcpy(scores, own.amounts, own.count * sizeof *scores);
            own.amounts = scores;
            divide(b, s, &own, offset);
        }
    }
    r->finite[range->index] = finite;
}

/* -- adding -------------------------------------------------------------------------------------------------------- */

/* Adds the changes of the words of one part. */
static void add_part(const run *r, uint32_t part)
{
    xsmi_skipgram_batch *b = r->b;
    const xsmi_kernels *kernels = b->kernels;
    const xsm_model *out = b->output;
    const bool divided = b->parts > 1;
    for (uint32_t s = 0; s < r->d->steps; s++) {
        const size_t offset = slots_of(b, r->d, s);
        const uint32_t *bounds = b->step.bounds + (size_t)s * (b->parts + 1);
        const uint32_t from = divided ? bounds[part] : 0, to = divided ? bounds[part + 1] : b->step.lengths[s];
        kernels->scatter_update(out->w.weight, out->w.stride, b->slot.rows + offset + from, to - from,
                                b->step.x + s * b->stride, b->dimension, b->slot.amounts + offset + from, NULL);
        if (r->d->centres[s] % b->parts == part) {
            kernels->axpby(input_row(b, r->d->centres[s]), b->step.change + s * b->stride, b->dimension, 1, 1);
        }
    }
}

/* Reads the text in the first job, as that is the longest; adds a part of the changes in each of the others. */
static void fill_or_add(void *state, size_t index, uint32_t thread)
{
    run *r = state;
    (void)thread;
    if (index > 0) {
        add_part(r, (uint32_t)index - 1);
    } else if (!r->d->last) {
        r->filled = fill(r->b, r->next, r->text, &r->error);
    }
}

/* -- a batch ------------------------------------------------------------------------------------------------------- */

static xsm_status score(run *r, bool *good, xsm_error *err)
{
    bool finite[XSMI_BATCH_MOST / CHUNK];
    const size_t chunks = ((size_t)r->d->steps + CHUNK - 1) / CHUNK;
    r->finite = finite;
    XSMI_TRY(xsmi_run_ranges(r->b->context, score_chunk, r, r->d->steps, CHUNK, err));
    *good = true;
    for (size_t i = 0; i < chunks; i++) {
        *good &= finite[i];
    }
    return XSM_OK;
}

xsm_status xsmi_skipgram_batch_run(xsmi_skipgram_batch *b, xsmi_centres *text, uint64_t position, double eta,
                                   xsmi_batch_result *result, xsm_error *err)
{
    xsmi_drawn *d = &b->drawn[b->at], *next = &b->drawn[!b->at];
    run r = {b, d, next, text, position, eta, NULL, XSM_OK, XSM_ERROR_INIT};
    bool good = true;
    memset(result, 0, sizeof *result);
    if (b->in_order) {
        good = run_in_order(&r);
    } else if (d->steps > 0) {
        XSMI_TRY(score(&r, &good, err));
    }
    if (!good) {
        XSMI_TRY(b->estimator ? xsmi_estimator_check_draws(b->estimator, err) : XSM_OK);
        return XSM_ERROR_DIVERGED;
    }
    next->steps = 0;
    next->last = false;
    const size_t jobs = 1 + (size_t)(d->steps > 0 && !b->in_order ? b->parts : 0);
    XSMI_TRY(xsmi_run(b->context, fill_or_add, &r, jobs, err));
    XSMI_TRY(r.filled == XSM_OK ? XSM_OK : xsmi_fail_copy(err, &r.error));
    for (uint32_t s = 0; s < d->steps; s++) {
        result->loss += b->step.losses[s];
    }
    result->steps = d->steps;
    result->pairs = d->steps > 0 ? d->starts[d->steps] : 0;
    result->known = d->known;
    result->last = d->last;
    if (b->estimator) {
        b->estimator->position += result->pairs;
    }
    d->steps = 0;
    d->last = false;
    b->at = !b->at;
    return XSM_OK;
}
