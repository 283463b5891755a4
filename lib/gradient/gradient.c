/* Score gradients: their memory, which is reused from step to step, and their entries. */
#include "gradient/gradient.h"

#include "base/entry.h"
#include "base/option.h"
#include "base/order.h"

#include <string.h>

/* Arrays that share a capacity. */
#define BY_EXAMPLE(g)                                                                                                  \
    XSMI_ARRAYS(XSMI_ARRAY((g)->example), XSMI_ARRAY((g)->losses), XSMI_ARRAY((g)->lengths), XSMI_ARRAY((g)->weights), \
                XSMI_ARRAY((g)->label_weights))
#define DRAWS(w) XSMI_ARRAYS(XSMI_ARRAY((w)->log_expected), XSMI_ARRAY((w)->draws))
#define OWN(o) XSMI_ARRAYS(XSMI_ARRAY((o)->classes), XSMI_ARRAY((o)->entries))
#define HIDDEN(l) XSMI_ARRAYS(XSMI_ARRAY((l)->hidden), XSMI_ARRAY((l)->gradient))
#define SHARED(g)                                                                                                      \
    XSMI_ARRAYS(XSMI_ARRAY((g)->shared.classes), XSMI_ARRAY((g)->work.shared.draws),                                   \
                XSMI_ARRAY((g)->work.shared.log_expected), XSMI_ARRAY((g)->work.shared.bias))

/* -- life ---------------------------------------------------------------------------------------------------------- */

xsm_status xsm_gradient_new(xsm_context *context, xsm_gradient **out, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {out, "out"});
    xsm_gradient *g;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &g, xsm_gradient, "a gradient", err));
    g->array_most = XSMI_ARRAY_MOST;
    *out = g;
    return XSM_OK;
}

static void clear_work(xsm_context *ctx, xsmi_work *w)
{
    xsmi_release(ctx, w->scores, w->list_capacity, sizeof *w->scores);
    xsmi_release(ctx, w->linear, w->linear_capacity, sizeof *w->linear);
    xsmi_release_all(ctx, DRAWS(w), &w->draw_capacity);
    xsmi_release(ctx, w->scratch, w->scratch_bytes, 1);
    xsmi_release(ctx, w->sieve, w->sieve_bytes, 1);
    xsmi_release(ctx, w->codes, w->code_capacity, sizeof *w->codes);
    xsmi_release(ctx, w->outcomes, w->outcome_capacity, sizeof *w->outcomes);
    xsmi_release(ctx, w->shards, w->shard_capacity, sizeof *w->shards);
    xsmi_score_scratch_free(ctx, &w->score_scratch);
}

static void clear_gathered(xsm_context *ctx, xsmi_gathered *w)
{
    xsmi_release(ctx, w->lists, w->list_bytes, 1);
    xsmi_release(ctx, w->weights, w->weight_bytes, 1);
    xsmi_release(ctx, w->results, w->result_bytes, 1);
}

static void clear_shared(xsm_context *ctx, xsm_gradient *g)
{
    xsmi_shared_draws *d = &g->work.shared;
    xsmi_release_all(ctx, SHARED(g), &d->class_capacity);
    xsmi_release(ctx, g->shared.column, d->column_capacity, sizeof *g->shared.column);
    xsmi_release(ctx, d->memory, d->memory_capacity, 1);
}

void xsm_gradient_free(xsm_gradient *g)
{
    if (g) {
        xsm_context *ctx = g->context;
        xsmi_release_all(ctx, BY_EXAMPLE(g), &g->example_capacity);
        xsmi_release(ctx, g->coefficients, g->entry_capacity, sizeof *g->coefficients);
        xsmi_release(ctx, g->classes, g->list_capacity, sizeof *g->classes);
        xsmi_release(ctx, g->shrinks, g->shrink_capacity, sizeof *g->shrinks);
        xsmi_release_all(ctx, HIDDEN(&g->layer), &g->layer.capacity);
        xsmi_head_release(g->head);
        clear_shared(ctx, g);
        clear_gathered(ctx, &g->work.gathered);
        xsmi_release(ctx, g->recomputed.memory, g->recomputed.memory_bytes, 1);
        xsmi_release(ctx, g->work.own.counts, g->work.own.example_capacity, sizeof *g->work.own.counts);
        xsmi_release_all(ctx, OWN(&g->work.own), &g->work.own.entry_capacity);
        clear_work(ctx, &g->work);
        XSMI_OBJECT_FREE(g, xsm_gradient);
    }
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static bool reserve_entries(xsm_gradient *g, const xsmi_gradient_shape *s, size_t entries, size_t scratch_bytes)
{
    xsm_context *ctx = g->context;
    xsmi_work *w = &g->work;
    const bool kept = s->form != XSMI_GRADIENT_RECOMPUTED, lists = kept && s->form != XSMI_GRADIENT_DENSE;
    return xsmi_reserve_all(ctx, BY_EXAMPLE(g), &g->example_capacity, (size_t)s->examples) &&
           (!kept || xsmi_reserve(ctx, &g->coefficients, &g->entry_capacity, entries, sizeof *g->coefficients)) &&
           (!lists || xsmi_reserve(ctx, &g->classes, &g->list_capacity, entries, sizeof *g->classes)) &&
           (!lists || xsmi_reserve(ctx, &w->scores, &w->list_capacity, entries, sizeof *w->scores)) &&
           (!s->linear || xsmi_reserve(ctx, &w->linear, &w->linear_capacity, entries, sizeof *w->linear)) &&
           (!s->proximal || xsmi_reserve(ctx, &g->shrinks, &g->shrink_capacity, entries, sizeof *g->shrinks)) &&
           (!s->draws || xsmi_reserve_all(ctx, DRAWS(w), &w->draw_capacity, entries)) &&
           xsmi_reserve(ctx, &w->scratch, &w->scratch_bytes, scratch_bytes, 1);
}

/* Forgets which classes the last batch shared. */
static void forget_shared(xsm_gradient *g)
{
    xsmi_shared_classes *s = &g->shared;
    for (uint32_t c = 0; c < s->count; c++) {
        s->column[s->classes[c]] = XSMI_NO_CLASS;
    }
    s->count = 0;
    g->form = g->form == XSMI_GRADIENT_SHARED ? XSMI_GRADIENT_LISTED : g->form;
}

xsm_status xsmi_gradient_reserve(xsm_gradient *g, const xsmi_gradient_shape *s, xsm_error *err)
{
    size_t entries, bytes;
    if (s->examples > SIZE_MAX || s->width > XSM_CLASSES_MAX ||
        !xsmi_multiply((size_t)s->examples, (size_t)s->width, &entries) || entries > SIZE_MAX / sizeof(double)) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "a batch of %llu examples with %llu classes each cannot be addressed",
                         (unsigned long long)s->examples, (unsigned long long)s->width);
    }
    const size_t each = (s->scratch_each + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
    const bool sifted = s->form == XSMI_GRADIENT_SIFTED;
    if (!sifted || g->form != XSMI_GRADIENT_SIFTED || s->width != g->width || s->examples > g->example_capacity ||
        entries > g->entry_capacity || entries > g->list_capacity) {
        g->listed = g->clean = 0; /* the coefficients in memory, old or new, are unknown */
    }
    const bool fits = xsmi_multiply(each, s->threads, &bytes) && reserve_entries(g, s, entries, bytes);
    g->examples = 0;
    g->work.rows.values = NULL;
    g->layered = false;
    g->whole = (xsmi_whole_gradient){0, 0};
    g->work.coded = false;
    g->work.gathered.used = false;
    g->work.own.first = g->work.own.end = 0;
    forget_shared(g);
    if (!fits) {
        return xsmi_fail(err, XSM_ERROR_MEMORY, "out of memory: a gradient of %llu examples with %llu classes each",
                         (unsigned long long)s->examples, (unsigned long long)s->width);
    }
    g->form = s->form;
    g->proximal = s->proximal;
    g->width = s->width;
    g->model_classes = s->model_classes;
    g->work.scratch_each = each;
    return XSM_OK;
}

xsm_status xsmi_gradient_reserve_layer(xsm_gradient *g, uint64_t examples, size_t stride, xsm_error *err)
{
    size_t count;
    if (!xsmi_multiply((size_t)examples, stride, &count)) {
        return xsmi_fail_memory(err, SIZE_MAX, "hidden vectors");
    }
    if (!xsmi_reserve_all(g->context, HIDDEN(&g->layer), &g->layer.capacity, count)) {
        return xsmi_fail_memory(err, 2 * count * sizeof *g->layer.hidden, "hidden vectors");
    }
    g->layer.stride = stride;
    g->layered = true;
    return XSM_OK;
}

xsm_status xsmi_gradient_reserve_shards(xsm_gradient *g, size_t each, uint32_t threads, xsm_error *err)
{
    xsmi_work *w = &g->work;
    size_t count;
    w->shards_each = each = XSMI_MAX(each, (size_t)1); /* so that memory for sums over no features is not NULL */
    return xsmi_multiply(each, threads, &count) &&
                   xsmi_reserve(g->context, &w->shards, &w->shard_capacity, count, sizeof *w->shards)
               ? XSM_OK
               : xsmi_fail_memory(err, each * sizeof *w->shards, "the gradient of the rows, for each thread");
}

xsm_status xsmi_gradient_reserve_outcomes(xsm_gradient *g, size_t jobs, xsm_error *err)
{
    xsmi_work *w = &g->work;
    return xsmi_reserve(g->context, &w->outcomes, &w->outcome_capacity, jobs, sizeof *w->outcomes)
               ? XSM_OK
               : xsmi_fail_memory(err, jobs * sizeof *w->outcomes, "a batch");
}

xsm_status xsmi_gradient_reserve_own(xsm_gradient *g, uint64_t examples, xsm_error *err)
{
    xsmi_own_lists *o = &g->work.own;
    const size_t entries = (size_t)(examples * g->width); /* it fits: see xsmi_gradient_reserve() */
    return xsmi_reserve(g->context, &o->counts, &o->example_capacity, (size_t)examples, sizeof *o->counts) &&
                   xsmi_reserve_all(g->context, OWN(o), &o->entry_capacity, entries)
               ? XSM_OK
               : xsmi_fail_memory(err, 2 * entries * sizeof *o->classes, "the lists of a process's classes");
}

void xsmi_gradient_copy_example(xsm_gradient *g, uint64_t to, const xsm_gradient *from, uint64_t i)
{
    const uint64_t source = i * from->width, target = to * g->width;
    g->example[to] = from->example[i];
    g->lengths[to] = from->lengths[i];
    if (g->weighted) {
        g->weights[to] = from->weights[i];
    }
    if (g->label_weighted) {
        g->label_weights[to] = from->label_weights[i];
    }
    for (uint32_t j = 0; j < from->lengths[i]; j++) {
        g->classes[target + j] = from->classes[source + j];
    }
    for (uint32_t j = 0; from->work.draws && j < from->lengths[i]; j++) {
        g->work.draws[target + j] = from->work.draws[source + j];
        g->work.log_expected[target + j] = from->work.log_expected[source + j];
    }
}

/* -- shared classes ------------------------------------------------------------------------------------------------ */

xsm_status xsmi_gradient_reserve_shared(xsm_gradient *g, uint32_t count, xsm_error *err)
{
    xsmi_shared_draws *d = &g->work.shared;
    bool fits = xsmi_reserve_all(g->context, SHARED(g), &d->class_capacity, count);
    if (fits && g->model_classes > d->column_capacity) { /* otherwise all entries are XSMI_NO_CLASS already */
        fits = xsmi_reserve(g->context, &g->shared.column, &d->column_capacity, g->model_classes,
                            sizeof *g->shared.column);
        for (size_t k = 0; fits && k < d->column_capacity; k++) {
            g->shared.column[k] = XSMI_NO_CLASS;
        }
    }
    return fits ? XSM_OK : xsmi_fail_memory(err, count * sizeof *d->log_expected, "the classes that a batch shares");
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

/* Returns the most entries of an example that a step applies: those of its list, or those of its labels if a matrix has
 * the others. */
static size_t length_of(const xsm_gradient *g, uint64_t i, bool shared)
{
    return g->form == XSMI_GRADIENT_SHARED && !shared ? (size_t)g->example[i].label_count : g->lengths[i];
}

/* Coefficients counted between two comparisons with the limit. */
enum { COUNT_RUN = 256 };

size_t xsmi_gradient_count_to(const xsm_gradient *g, size_t most)
{
    const size_t all = (size_t)(g->examples * g->width);
    size_t count = 0;
    for (size_t first = 0; first < all && count <= most; first += COUNT_RUN) {
        const size_t end = XSMI_MIN(first + COUNT_RUN, all);
        uint32_t some = 0;
        for (size_t j = first; j < end; j++) {
            some += g->coefficients[j] != 0;
        }
        count += some;
    }
    return count;
}

size_t xsmi_gradient_count(const xsm_gradient *g, bool shared)
{
    if (g->form == XSMI_GRADIENT_DENSE) {
        return xsmi_gradient_count_to(g, SIZE_MAX);
    }
    size_t count = 0;
    for (uint64_t i = 0; i < g->examples; i++) {
        count += length_of(g, i, shared);
    }
    return count;
}

size_t xsmi_gradient_entries(const xsm_gradient *g, bool shared, uint64_t *entries)
{
    const bool outside = g->form == XSMI_GRADIENT_SHARED && !shared;
    size_t n = 0;
    for (uint64_t i = 0; i < g->examples; i++) {
        const uint64_t first = i * g->width;
        switch (g->form) {
        case XSMI_GRADIENT_SIFTED:
            for (uint64_t j = first; j < first + g->lengths[i]; j++) {
                entries[n++] = first + g->classes[j];
            }
            break;
        case XSMI_GRADIENT_DENSE:
            for (uint64_t j = first; j < first + g->width; j++) {
                if (g->coefficients[j] != 0) {
                    entries[n++] = j;
                }
            }
            break;
        default:
            for (uint64_t j = first; j < first + length_of(g, i, shared); j++) {
                if (!outside || g->shared.column[g->classes[j]] == XSMI_NO_CLASS) {
                    entries[n++] = j;
                }
            }
        }
    }
    return n;
}

double xsmi_gradient_density(const xsm_gradient *g)
{
    double listed = 0;
    if (!xsmi_gradient_has_lists(g)) {
        return (double)g->examples;
    }
    for (uint64_t i = 0; i < g->examples; i++) {
        listed += (double)g->lengths[i];
    }
    return listed / (double)g->width;
}

xsm_status xsmi_check_eta(double eta, xsm_error *err)
{
    if (!(eta > 0 && eta < XSMI_STEP_LIMIT)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the learning rate is %g; accepted is above 0 and below %g", eta,
                         XSMI_STEP_LIMIT);
    }
    return XSM_OK;
}

xsmi_class_matrix xsmi_gradient_range(const xsm_gradient *g, uint32_t first, uint32_t end, void *scratch,
                                      const xsm_context *ctx)
{
    if (!xsmi_gradient_is_recomputed(g)) {
        return (xsmi_class_matrix){NULL, first, end - first, g->coefficients + first, (size_t)g->width};
    }
    const uint32_t run = XSMI_RUN_CLASSES - first % XSMI_RUN_CLASSES;
    end = XSMI_MIN(end - first, XSMI_MIN(run, g->recomputed.step_classes)) + first;
    g->recomputed.compute(g, first, end, scratch, ctx);
    return (xsmi_class_matrix){NULL, first, end - first, scratch, end - first};
}

/* -- for trials ---------------------------------------------------------------------------------------------------- */

void xsmi_gradient_fill(xsm_gradient *g, uint64_t examples, int byte)
{
    const size_t entries = (size_t)(examples * g->width);
    memset(g->coefficients, byte, entries * sizeof *g->coefficients);
    memset(g->losses, byte, (size_t)examples * sizeof *g->losses);
    if (xsmi_gradient_has_lists(g)) {
        memset(g->work.scores, byte, entries * sizeof *g->work.scores);
        memset(g->classes, byte, entries * sizeof *g->classes);
    }
    if (g->proximal) {
        memset(g->shrinks, byte, entries * sizeof *g->shrinks);
    }
    if (g->work.scratch) {
        memset(g->work.scratch, byte, g->work.scratch_bytes);
    }
    g->listed = g->clean = 0;
}

static bool all_bytes(const void *memory, size_t bytes, int byte)
{
    const unsigned char *m = memory;
    bool all = true;
    for (size_t i = 0; i < bytes; i++) {
        all &= m[i] == (unsigned char)byte;
    }
    return all;
}

bool xsmi_gradient_is_filled(const xsm_gradient *g, uint64_t i, int byte)
{
    return all_bytes(xsmi_gradient_row(g, i), (size_t)g->width * sizeof *g->coefficients, byte);
}

bool xsmi_gradient_scratch_is_filled(const xsm_gradient *g, uint32_t thread, int byte)
{
    return all_bytes(g->work.scratch + thread * g->work.scratch_each, g->work.scratch_each, byte);
}

/* -- for hosts ----------------------------------------------------------------------------------------------------- */

xsm_status xsm_gradient_get_view(const xsm_gradient *g, xsm_gradient_view *view, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {g, "gradient"});
    if (g->examples > 0 && g->whole.width > 0) {
        return xsmi_fail(
            err, XSM_ERROR_UNSUPPORTED,
            "xsm_gradient_get_view: the gradient has a coefficient for every class, and each process keeps those "
            "of its own classes");
    }
    xsm_gradient_view v = XSM_GRADIENT_VIEW_INIT;
    v.examples = g->examples;
    if (g->examples > 0) {
        const bool dense = xsmi_gradient_is_dense(g);
        v.width = g->width;
        v.lengths = dense ? NULL : g->lengths;
        v.classes = dense ? NULL : g->classes;
        v.coefficients = g->coefficients;
        v.shrinks = g->proximal ? g->shrinks : NULL;
        v.decay = g->decay;
        v.loss = g->loss;
        v.row_bound = g->row_bound;
    }
    return XSMI_WRITE(xsm_gradient_view, &v, view, err);
}

/* -- the part of a gradient that belongs to some classes ----------------------------------------------------------- */

/* Whether the lists have only labels, because a matrix has the coefficients of the other classes. */
static bool has_labels_alone(const xsm_gradient *g)
{
    return xsmi_gradient_is_shared(g) && !g->shared.listed;
}

/* Adds entries of example i's list, with their coefficients, to the part's: entries[] says where they are in the list
 * from `from` on, classes[] which classes of the part they have. */
static void add_entries(const xsm_gradient *g, uint64_t i, uint64_t from, const uint32_t *classes,
                        const uint32_t *entries, uint32_t count, xsm_gradient *out)
{
    const bool sifted = xsmi_gradient_is_sifted(g);
    const uint64_t row = i * g->width, to = i * out->width;
    for (uint32_t t = 0; t < count; t++) {
        const uint64_t entry = from + entries[t], at = to + out->lengths[i]++;
        out->classes[at] = classes[t];
        if (sifted) {
            out->coefficients[to + classes[t]] = g->coefficients[row + g->classes[row + entry]];
        } else {
            out->coefficients[at] = g->coefficients[row + entry];
        }
        if (g->proximal) {
            out->shrinks[at] = g->shrinks[row + entry];
        }
        out->example[i].label_count += entry < g->example[i].label_count;
    }
}

/* Copies the entries of the classes from the examples' lists; uses the gradient's own lists if they are of the same
 * classes. */
static void copy_lists(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out)
{
    enum { SOME = 64 };
    const xsmi_own_lists *own = &g->work.own;
    const bool known = end > 0 && own->first == first && own->end == end;
    uint32_t classes[SOME], entries[SOME];
    for (uint64_t i = 0; i < g->examples; i++) {
        const uint64_t row = i * g->width, length = has_labels_alone(g) ? g->example[i].label_count : g->lengths[i];
        out->lengths[i] = 0;
        out->example[i] = (xsm_example){.label_count = 0};
        for (uint64_t j = 0; !known && j < length; j += SOME) {
            const uint32_t listed = (uint32_t)XSMI_MIN(length - j, (uint64_t)SOME);
            const uint32_t count = xsmi_part_list(first, end, g->classes + row + j, listed, classes, entries);
            add_entries(g, i, j, classes, entries, count, out);
        }
        if (known) {
            add_entries(g, i, 0, own->classes + row, own->entries + row, own->counts[i], out);
        }
    }
}

/* Copies the shared classes of the part and their matrix; if its columns are adjacent in the whole matrix, `out` points
 * into that. */
static xsm_status copy_shared(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out, xsm_error *err)
{
    const xsmi_shared_classes *from = &g->shared;
    xsmi_shared_classes *to = &out->shared;
    xsmi_shared_draws *d = &out->work.shared;
    size_t count;
    uint32_t *columns; /* [count] columns in the whole matrix */
    XSMI_TRY(xsmi_gradient_reserve_shared(out, from->count, err));
    to->listed = from->listed;
    columns = d->draws; /* scratch: a part has no draws */
    out->form = XSMI_GRADIENT_SHARED;
    for (uint32_t c = 0; c < from->count; c++) {
        const uint32_t class = from->classes[c];
        if (class >= first && class < end) {
            columns[to->count] = c;
            to->column[class - first] = to->count;
            to->classes[to->count++] = class - first;
        }
    }
    if (to->count > 0 && columns[to->count - 1] - columns[0] == to->count - 1) { /* the columns are adjacent */
        to->matrix = from->matrix + columns[0];
        to->stride = from->stride;
        return XSM_OK;
    }
    to->stride = xsmi_row_stride(from->count);
    if (!xsmi_multiply((size_t)g->examples, to->stride * sizeof *to->matrix, &count) ||
        !xsmi_reserve(out->context, &d->memory, &d->memory_capacity, count, 1)) {
        return xsmi_fail_memory(err, SIZE_MAX, "the coefficients of a batch");
    }
    to->matrix = (float *)(void *)d->memory;
    for (uint64_t i = 0; i < g->examples; i++) {
        for (uint32_t c = 0; c < to->count; c++) {
            to->matrix[i * to->stride + c] = from->matrix[i * from->stride + columns[c]];
        }
    }
    return XSM_OK;
}

xsm_status xsmi_gradient_part(const xsm_gradient *g, uint32_t first, uint32_t end, xsm_gradient *out, xsm_error *err)
{
    const bool dense = xsmi_gradient_is_dense(g), sifted = xsmi_gradient_is_sifted(g);
    const xsmi_gradient_shape shape = {.form = xsmi_gradient_is_shared(g) ? XSMI_GRADIENT_LISTED : g->form,
                                       .examples = g->examples,
                                       .width = dense ? end - first : g->width,
                                       .model_classes = end - first,
                                       .proximal = g->proximal};
    XSMI_TRY(xsmi_gradient_reserve(out, &shape, err));
    const size_t row = (size_t)out->width * sizeof *out->coefficients;
    for (uint64_t i = 0; dense && i < g->examples; i++) {
        float *to = out->coefficients + i * out->width;
        if (sifted) {
            memset(to, 0, row);
        } else {
            memcpy(to, xsmi_gradient_row(g, i) + first, row);
        }
    }
    if (xsmi_gradient_has_lists(g)) {
        copy_lists(g, first, end, out);
    }
    if (xsmi_gradient_is_shared(g)) {
        XSMI_TRY(copy_shared(g, first, end, out, err));
    }
    if (dense) {
        out->whole = (xsmi_whole_gradient){g->width, xsmi_gradient_count(g, true)};
    }
    out->layered = g->layered;
    out->decay = g->decay;
    out->row_bound = g->row_bound;
    out->loss = g->loss;
    out->largest = g->largest;
    out->examples = g->examples;
    return XSM_OK;
}
