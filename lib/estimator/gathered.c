/* Gathers the weights of listed classes from all processes, and exchanges what each computes with them: see
 * gathered.h. */
#include "estimator/gathered.h"

#include "base/arena.h"
#include "base/hash.h"
#include "base/order.h"
#include "estimator/divided_lists.h"
#include "estimator/shared.h"

#include <string.h>

bool xsmi_pass_gathers(const xsmi_pass *p)
{
    const xsm_gradient *g = p->gradient;
    return p->estimator->divided && !xsmi_gradient_is_dense(g) && (p->input || xsmi_gradient_is_shared(g));
}

/* -- which process computes which examples ------------------------------------------------------------------------- */

/* With fewer examples, each process computes all of them if it has their scores: an exchange would take longer. */
#define DIVIDED_LEAST 32

/* Whether every process computes all examples: because all must store the same state for the rows, or because the
 * examples are few. */
static bool computes_all(const xsmi_pass *p)
{
    const xsm_estimator *e = p->estimator;
    return (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) || e->ops.state_tensor ||
           (!p->input && p->batch->count < DIVIDED_LEAST);
}

/* Returns the first example of process `rank`; the number of examples if `rank` is the number of processes. Products
 * take whole blocks. */
static uint64_t start_of(const xsmi_pass *p, uint32_t rank)
{
    const uint64_t unit = xsmi_gradient_is_shared(p->gradient) ? XSMI_SHARED_ROWS : 1;
    const uint64_t units = (p->batch->count + unit - 1) / unit;
    return XSMI_MIN(xsmi_share_start(units, xsmi_processes(p->estimator->model), rank) * unit, p->batch->count);
}

bool xsmi_gather_range(xsmi_pass *p)
{
    const xsm_model *m = p->estimator->model;
    if (computes_all(p)) {
        return false;
    }
    p->first = start_of(p, xsmi_process(m));
    p->end = start_of(p, xsmi_process(m) + 1);
    return true;
}

/* Returns how many examples a process computes alone, and sets the first; returns 0 where each process computes all. */
static uint64_t examples_of(const xsmi_pass *p, uint32_t rank, uint64_t *first)
{
    *first = start_of(p, rank);
    return computes_all(p) ? 0 : start_of(p, rank + 1) - *first;
}

/* -- the classes of a batch ---------------------------------------------------------------------------------------- */

/* The classes that a batch lists, each once, in the order of the examples, and a table with open addresses that finds a
 * class among them. */
typedef struct listing {
    uint32_t *classes; /* [most] */
    uint32_t *slots;   /* [most] */
    uint32_t *table;   /* [1 << bits] where a class is in `classes`; XSMI_NO_CLASS: free */
    size_t *next;      /* [ranks + 1] the first slot of each process, then the next */
    size_t *sizes;     /* [ranks] bytes that each sends */
    size_t most;
    uint32_t count, bits;
} listing;

/* Returns the place of a class in the list; adds a new one at the end. */
static uint32_t place_of(listing *l, uint32_t class)
{
    const size_t mask = ((size_t)1 << l->bits) - 1;
    size_t at = xsmi_hash_place(class, l->bits);
    while (l->table[at] != XSMI_NO_CLASS && l->classes[l->table[at]] != class) {
        at = (at + 1) & mask;
    }
    if (l->table[at] == XSMI_NO_CLASS) {
        l->table[at] = l->count;
        l->classes[l->count++] = class;
    }
    return l->table[at];
}

static size_t listed_length(const xsm_gradient *g, uint64_t i)
{
    return xsmi_gradient_is_shared(g) ? (size_t)g->example[i].label_count : g->lengths[i];
}

static const uint32_t *listed_classes(const xsm_gradient *g, uint64_t i)
{
    return xsmi_gradient_is_shared(g) ? g->example[i].labels : g->classes + i * g->width;
}

/* Returns the number of classes of shared draws; 0 where the lists have all classes. */
static uint32_t shared_count(const xsm_gradient *g)
{
    return xsmi_gradient_is_shared(g) ? g->shared.count : 0;
}

static void divide_lists(const xsmi_pass *p, listing *l, xsmi_arena *arena)
{
    const uint64_t n = p->batch->count;
    xsmi_gathered *w = &p->gradient->work.gathered;
    const size_t ranks = xsmi_processes(p->estimator->model);
    w->slots = xsmi_arena_take(arena, n, (size_t)p->gradient->width * sizeof *w->slots);
    w->shared = xsmi_arena_take(arena, shared_count(p->gradient), sizeof *w->shared);
    l->classes = xsmi_arena_take(arena, l->most, sizeof *l->classes);
    l->slots = xsmi_arena_take(arena, l->most, sizeof *l->slots);
    l->table = xsmi_arena_take(arena, (uint64_t)1 << l->bits, sizeof *l->table);
    l->next = xsmi_arena_take(arena, ranks + 1, sizeof *l->next);
    l->sizes = xsmi_arena_take(arena, ranks, sizeof *l->sizes);
}

static xsm_status reserve_lists(const xsmi_pass *p, listing *l, xsm_error *err)
{
    xsm_gradient *g = p->gradient;
    xsmi_gathered *w = &g->work.gathered;
    uint64_t entries = shared_count(g);
    for (uint64_t i = 0; i < p->batch->count; i++) {
        entries += listed_length(g, i);
    }
    l->most = (size_t)XSMI_MIN(entries, p->estimator->model->classes);
    for (l->bits = 4; l->bits < 32 && (uint64_t)1 << l->bits < 2 * (uint64_t)l->most; l->bits++) {
    }
    xsmi_arena counted = {NULL, 0};
    divide_lists(p, l, &counted);
    if (counted.used == SIZE_MAX || !xsmi_reserve(g->context, &w->lists, &w->list_bytes, counted.used, 1)) {
        return xsmi_fail_memory(err, counted.used, "the classes of a batch");
    }
    xsmi_arena arena = {w->lists, 0};
    divide_lists(p, l, &arena);
    return XSM_OK;
}

/* Lists the classes, and gives each a slot, the classes of process 0 first. */
static void list_classes(const xsmi_pass *p, listing *l)
{
    const xsm_model *m = p->estimator->model;
    xsm_gradient *g = p->gradient;
    xsmi_gathered *w = &g->work.gathered;
    const uint32_t ranks = xsmi_processes(m);
    memset(l->table, 0xff, ((size_t)1 << l->bits) * sizeof *l->table);
    for (uint32_t c = 0; c < shared_count(g); c++) {
        w->shared[c] = place_of(l, g->shared.classes[c]);
    }
    for (uint64_t i = 0; i < p->batch->count; i++) {
        const uint32_t *classes = listed_classes(g, i);
        for (size_t j = 0; j < listed_length(g, i); j++) {
            w->slots[i * g->width + j] = place_of(l, classes[j]);
        }
    }
    xsmi_part_count(m->classes, ranks, l->classes, l->count, l->next, l->sizes);
    for (uint32_t s = 0; s < l->count; s++) {
        l->slots[s] = (uint32_t)l->next[xsmi_part_of(m->classes, ranks, l->classes[s])]++;
    }
    for (uint32_t c = 0; c < shared_count(g); c++) {
        w->shared[c] = l->slots[w->shared[c]];
    }
    for (uint64_t i = 0; i < p->batch->count; i++) {
        for (size_t j = 0; j < listed_length(g, i); j++) {
            uint32_t *slot = &w->slots[i * g->width + j];
            *slot = l->slots[*slot];
        }
    }
}

/* -- weights ------------------------------------------------------------------------------------------------------- */

/* A class as it is sent: its weights, its bias and, at the next even float, its scale. */
typedef struct lines {
    float *all, *mine; /* [count][floats] */
    float *bias;       /* [count] */
    double *scale;
    size_t floats;
} lines;

static size_t scale_at(const xsm_model *m)
{
    return ((size_t)m->features + 2) / 2 * 2;
}

static void divide_lines(const xsm_model *m, const listing *l, lines *of, xsmi_arena *arena)
{
    const uint32_t rank = xsmi_process(m);
    of->floats = scale_at(m) + sizeof(double) / sizeof(float);
    of->all = xsmi_arena_take(arena, l->count, of->floats * sizeof *of->all);
    of->mine = xsmi_arena_take(arena, l->sizes[rank], of->floats * sizeof *of->mine);
    of->bias = xsmi_arena_take(arena, l->count, sizeof *of->bias);
    of->scale = xsmi_arena_take(arena, l->count, sizeof *of->scale);
}

static xsm_status reserve_lines(const xsmi_pass *p, const listing *l, lines *of, xsm_error *err)
{
    const xsm_model *m = p->estimator->model;
    xsm_gradient *g = p->gradient;
    xsmi_gathered *w = &g->work.gathered;
    xsmi_arena counted = {NULL, 0};
    divide_lines(m, l, of, &counted);
    if (counted.used == SIZE_MAX || !xsmi_reserve(g->context, &w->weights, &w->weight_bytes, counted.used, 1)) {
        return xsmi_fail_memory(err, counted.used, "the weights of a batch's classes");
    }
    xsmi_arena arena = {w->weights, 0};
    divide_lines(m, l, of, &arena);
    return XSM_OK;
}

/* Copies this process's classes, in the order of their slots, which is that of the list. */
static void copy_mine(const xsm_model *m, const listing *l, const lines *of)
{
    const xsmi_mine mine = xsmi_model_mine(m);
    const xsmi_weights *w = mine.w;
    float *to = of->mine;
    for (uint32_t s = 0; s < l->count; s++) {
        if (xsmi_divided_has(m, l->classes[s])) {
            const size_t k = l->classes[s] - mine.first;
            const double scale = w->row_scale ? w->row_scale[k] : 1;
            memcpy(to, w->weight + k * w->stride, w->features * sizeof *to);
            to[w->features] = w->bias ? w->bias[k] : 0;
            memset(to + w->features + 1, 0, (scale_at(m) - w->features - 1) * sizeof *to);
            memcpy(to + scale_at(m), &scale, sizeof scale);
            to += of->floats;
        }
    }
}

/* Makes a view of the weights that came. */
static void use_lines(const xsm_model *m, const listing *l, const lines *of, xsmi_gathered *w)
{
    xsmi_weights *rows = &w->rows;
    bool ones = true;
    for (uint32_t s = 0; s < l->count; s++) {
        const float *from = of->all + s * of->floats;
        of->bias[s] = from[m->features];
        memcpy(&of->scale[s], from + scale_at(m), sizeof *of->scale);
        ones &= of->scale[s] == 1;
    }
    xsmi_weights_start(m->kernels, l->count, m->features, rows);
    rows->weight = of->all;
    rows->stride = of->floats;
    rows->bias = xsmi_model_has_bias(m) ? of->bias : NULL;
    rows->alpha = xsmi_model_mine(m).w->alpha;
    rows->row_scale = ones ? NULL : of->scale;
    rows->unscaled = ones;
    w->used = true;
}

static void list_chunk(void *state, const xsmi_range *r)
{
    const xsmi_pass *p = state;
    xsmi_pass_list_examples(p, r->first, r->end - r->first);
    if (!xsmi_gradient_is_shared(p->gradient)) {
        xsmi_estimator_select(p->estimator, p->gradient, r->first, r->end - r->first);
    }
}

static xsm_status prepare(const xsmi_pass *p, listing *l, lines *of, xsm_error *err)
{
    const xsm_model *m = p->estimator->model;
    XSMI_TRY(
        xsmi_model_need_class_major(m, "the gradient of the rows, where classes are divided among processes,", err));
    XSMI_TRY(xsmi_run_ranges(p->estimator->context, list_chunk, (void *)(uintptr_t)p, p->batch->count,
                             XSMI_EXAMPLE_CHUNK, err));
    XSMI_TRY(reserve_lists(p, l, err));
    list_classes(p, l);
    XSMI_TRY(reserve_lines(p, l, of, err));
    XSMI_TRY(xsmi_gradient_is_shared(p->gradient) ? xsmi_shared_reserve_product(p, err) : XSM_OK);
    copy_mine(m, l, of);
    return XSM_OK;
}

xsm_status xsmi_gather_weights(const xsmi_pass *p, xsm_error *err)
{
    const xsm_model *m = p->estimator->model;
    listing l = {.count = 0};
    lines of = {.floats = 0};
    XSMI_TRY(xsmi_together(m, prepare(p, &l, &of, err), err));
    for (uint32_t r = 0; r < xsmi_processes(m); r++) {
        l.sizes[r] *= of.floats * sizeof *of.all;
    }
    XSMI_TRY(xsmi_together_blocks(m, of.mine, of.all, l.sizes, err));
    use_lines(m, &l, &of, &p->gradient->work.gathered);
    return XSM_OK;
}

/* -- results ------------------------------------------------------------------------------------------------------- */

/* A process's report on its examples. */
typedef struct verdict {
    double largest;
    uint32_t finite, failed; /* flags; with `failed` the rest of its block is undefined */
} verdict;

/* The results of a process's examples, which it sends: one array after another, each in the order of the examples. */
typedef struct results {
    verdict *verdict; /* one */
    double *losses;
    double *shrinks;     /* [examples][width], of proximal tables */
    float *coefficients; /* [examples][listed] */
    float *matrix;       /* [examples][|S|] of the classes that all share */
    float *gradient;     /* [examples][features] */
    float *hidden;       /* [examples][features], where each process computes only those of its examples */
} results;

/* Returns the number of entries of an example's list that an optimizer or a host reads. */
static size_t listed_width(const xsmi_pass *p)
{
    const xsm_gradient *g = p->gradient;
    const size_t labels = xsmi_shared_front(p->estimator);
    return xsmi_gradient_is_shared(g) && !p->lists ? (size_t)XSMI_MIN(labels, g->width) : (size_t)g->width;
}

static void divide_results(const xsmi_pass *p, uint64_t examples, results *r, xsmi_arena *arena)
{
    const xsm_gradient *g = p->gradient;
    r->verdict = xsmi_arena_take(arena, 1, sizeof *r->verdict);
    r->losses = xsmi_arena_take(arena, examples, sizeof *r->losses);
    r->shrinks = xsmi_arena_take(arena, g->proximal ? examples : 0, (size_t)g->width * sizeof *r->shrinks);
    r->coefficients = xsmi_arena_take(arena, examples, listed_width(p) * sizeof *r->coefficients);
    r->matrix = xsmi_arena_take(arena, examples, shared_count(g) * sizeof *r->matrix);
    const size_t row = p->estimator->model->features * sizeof *r->gradient;
    r->gradient = xsmi_arena_take(arena, p->input ? examples : 0, row);
    r->hidden = xsmi_arena_take(arena, p->some_hidden ? examples : 0, row);
}

/* The blocks of results of all processes, and this one's own. */
typedef struct exchange {
    size_t *sizes; /* [ranks] */
    unsigned char *mine, *all;
} exchange;

/* Returns the bytes of a process's block. */
static size_t block_bytes(const xsmi_pass *p, uint32_t rank)
{
    uint64_t first;
    xsmi_arena counted = {NULL, 0};
    results of;
    divide_results(p, examples_of(p, rank, &first), &of, &counted);
    return counted.used;
}

/* Returns the bytes of `sizes`, rounded up so that the blocks begin aligned. */
static uint64_t size_bytes(const xsmi_pass *p)
{
    const uint64_t bytes = xsmi_processes(p->estimator->model) * sizeof(size_t);
    return (bytes + XSMI_ALIGNMENT - 1) / XSMI_ALIGNMENT * XSMI_ALIGNMENT;
}

xsm_status xsmi_gather_reserve(const xsmi_pass *p, xsm_error *err)
{
    const xsm_model *m = p->estimator->model;
    xsm_gradient *g = p->gradient;
    xsmi_gathered *w = &g->work.gathered;
    if (computes_all(p)) {
        return XSM_OK;
    }
    const uint64_t mine = block_bytes(p, xsmi_process(m));
    uint64_t all = 0;
    for (uint32_t r = 0; r < xsmi_processes(m); r++) {
        const size_t bytes = block_bytes(p, r);
        all = bytes == SIZE_MAX ? UINT64_MAX / 4 : all + bytes;
    }
    if (!xsmi_reserve(g->context, &w->results, &w->result_bytes, size_bytes(p) + mine + all, 1)) {
        return xsmi_fail_memory(err, (size_t)(mine + all), "the gradients of all processes");
    }
    return XSM_OK;
}

/* Returns the reserved memory, divided. */
static exchange exchange_of(const xsmi_pass *p)
{
    const xsm_model *m = p->estimator->model;
    unsigned char *memory = p->gradient->work.gathered.results, *mine = memory + size_bytes(p);
    const exchange x = {(size_t *)(void *)memory, mine, mine + block_bytes(p, xsmi_process(m))};
    for (uint32_t r = 0; r < xsmi_processes(m); r++) {
        x.sizes[r] = block_bytes(p, r);
    }
    return x;
}

/* Copies rows of `bytes` bytes between matrices of different strides. */
static void copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, uint64_t rows)
{
    for (uint64_t i = 0; i < rows && bytes > 0; i++) {
        memcpy((unsigned char *)to + i * to_stride, (const unsigned char *)from + i * from_stride, bytes);
    }
}

/* Copies results from the gradient to this process's block, or from another process's block to the gradient. */
static void move_results(const xsmi_pass *p, uint32_t rank, unsigned char *block)
{
    xsm_gradient *g = p->gradient;
    const size_t features = p->input ? p->estimator->model->features : 0, listed = listed_width(p),
                 hidden = p->some_hidden ? features : 0;
    const bool out = rank == xsmi_process(p->estimator->model);
    uint64_t first;
    const uint64_t count = examples_of(p, rank, &first);
    xsmi_arena arena = {block, 0};
    results of;
    divide_results(p, count, &of, &arena);
    float *matrix = shared_count(g) ? g->shared.matrix + first * g->shared.stride : NULL;
    const struct {
        void *gradient, *block;
        size_t stride, bytes;
    } arrays[] = {
        {g->losses + first, of.losses, sizeof(double), sizeof(double)},
        {g->proximal ? g->shrinks + first * g->width : NULL, of.shrinks, (size_t)g->width * sizeof(double),
         g->proximal ? (size_t)g->width * sizeof(double) : 0},
        {g->coefficients + first * g->width, of.coefficients, (size_t)g->width * sizeof(float), listed * sizeof(float)},
        {matrix, of.matrix, g->shared.stride * sizeof(float), shared_count(g) * sizeof(float)},
        {p->input ? p->input->values + first * p->input->stride : NULL, of.gradient,
         p->input ? p->input->stride * sizeof(float) : 0, features * sizeof(float)},
        {hidden ? g->layer.hidden + first * g->layer.stride : NULL, of.hidden, g->layer.stride * sizeof(float),
         hidden * sizeof(float)},
    };
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++) {
        if (out) {
            copy_rows(arrays[a].block, arrays[a].bytes, arrays[a].gradient, arrays[a].stride, arrays[a].bytes, count);
        } else {
            copy_rows(arrays[a].gradient, arrays[a].stride, arrays[a].block, arrays[a].bytes, arrays[a].bytes, count);
        }
    }
}

/* Lists the shared classes for examples that other processes have computed, as an optimizer reads them. */
static void list_shared(const xsmi_pass *p, uint64_t first, uint64_t count)
{
    xsm_gradient *g = p->gradient;
    for (uint64_t i = first; i < first + count && xsmi_gradient_is_shared(g); i++) {
        const xsm_example *example = &g->example[i];
        if (g->shared.listed || xsmi_shared_next_label(&g->shared, example, 0) < g->shared.count) {
            xsmi_shared_select(p->estimator, g, i, 1);
        } else {
            g->lengths[i] = (uint32_t)example->label_count + g->shared.count;
            memcpy(g->classes + i * g->width, example->labels, (size_t)example->label_count * sizeof *g->classes);
        }
    }
}

xsm_status xsmi_gather_results(const xsmi_pass *p, xsm_status status, xsmi_outcome *outcome, xsm_error *err)
{
    const xsm_model *m = p->estimator->model;
    if (computes_all(p)) {
        return status;
    }
    const exchange x = exchange_of(p);
    if (status == XSM_OK) {
        move_results(p, xsmi_process(m), x.mine);
    } else {
        memset(x.mine, 0, x.sizes[xsmi_process(m)]);
    }
    *(verdict *)(void *)x.mine = (verdict){outcome->largest, outcome->finite, status != XSM_OK};
    XSMI_TRY(xsmi_together_blocks(m, x.mine, x.all, x.sizes, err));
    unsigned char *block = x.all;
    for (uint32_t r = 0; r < xsmi_processes(m); block += x.sizes[r], r++) {
        if (((const verdict *)(const void *)block)->failed) {
            return xsmi_together_failed_in(m, r, status, err);
        }
    }
    block = x.all;
    for (uint32_t r = 0; r < xsmi_processes(m); block += x.sizes[r], r++) {
        const verdict *of = (const verdict *)(const void *)block;
        const xsmi_outcome its = {.largest = of->largest, .finite = of->finite};
        uint64_t first;
        const uint64_t count = examples_of(p, r, &first);
        xsmi_outcome_join(outcome, &its);
        if (r != xsmi_process(m)) {
            move_results(p, r, block);
            list_shared(p, first, count);
        }
    }
    return XSM_OK;
}
