/*
 * The gradient of the rows (dL/dphi) on a divided model where every class has a coefficient. Each process computes the
 * sums of the highest nodes of the tree of shards (gradient/shards.h) that contain only its classes. All processes get
 * all sums, and join them in the tree, with the same bits as one process.
 */
#include "estimator/divided_lists.h"

#include "base/order.h"
#include "gradient/shards.h"

#include <math.h>
#include <string.h>

/* -- nodes --------------------------------------------------------------------------------------------------------- */

/* A node whose classes all belong to one process, while its parent's do not. */
typedef struct node {
    uint32_t shard, count, rank;
} node;

typedef struct node_list {
    node *nodes;              /* [count] of all processes, in the order of the classes */
    size_t count, first, own; /* those of this process are `own` nodes from `first` on */
} node_list;

/* Lists the nodes below a node; only counts them if `nodes` is NULL. */
static void list_nodes(const xsm_model *m, uint32_t shard, uint32_t count, node_list *n)
{
    const uint32_t ranks = xsmi_processes(m);
    const uint32_t first = xsmi_shard_start(m->classes, shard), end = xsmi_shard_start(m->classes, shard + count);
    if (first == end) {
        return;
    }
    const uint32_t rank = xsmi_part_of(m->classes, ranks, first);
    if (end > xsmi_part_start(m->classes, ranks, rank + 1)) {
        list_nodes(m, shard, count / 2, n);
        list_nodes(m, shard + count / 2, count / 2, n);
        return;
    }
    if (n->nodes) {
        n->nodes[n->count] = (node){shard, count, rank};
    }
    if (rank == xsmi_process(m)) {
        n->first = n->own == 0 ? n->count : n->first;
        n->own++;
    }
    n->count++;
}

static xsm_status list_new(const xsm_model *m, node_list *out, xsm_error *err)
{
    memset(out, 0, sizeof *out);
    list_nodes(m, 0, XSMI_SHARDS, out);
    XSMI_TRY(xsmi_array_new(m->context, &out->nodes, out->count, sizeof *out->nodes, "the sums of all processes", err));
    out->count = out->own = 0;
    list_nodes(m, 0, XSMI_SHARDS, out);
    return XSM_OK;
}

static void list_clear(xsm_context *group, node_list *n)
{
    xsmi_release(group, n->nodes, n->count, sizeof *n->nodes);
    memset(n, 0, sizeof *n);
}

static void list_sizes(const node_list *n, size_t each, size_t *sizes)
{
    for (size_t i = 0; i < n->count; i++) {
        sizes[n->nodes[i].rank] += each;
    }
}

static size_t list_find(const node_list *n, uint32_t shard, uint32_t count)
{
    size_t low = 0, high = n->count;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        *(n->nodes[middle].shard <= shard ? &low : &high) = middle;
    }
    return n->nodes[low].shard == shard && n->nodes[low].count == count ? low : SIZE_MAX;
}

static bool no_sum(void *state, uint32_t first, uint32_t end, float *out, size_t stride)
{
    (void)state;
    (void)first;
    (void)end;
    (void)out;
    (void)stride;
    return false;
}

/* -- sums ---------------------------------------------------------------------------------------------------------- */

typedef struct back_pass {
    const xsmi_pass *pass;
    size_t rows, line; /* examples; floats of a sum, for sifted gradients with one more that says whether there is a
                          sum */
    node_list nodes;
    size_t jobs;   /* for each node */
    float *mine;   /* [this process's nodes][rows][line] */
    float *all;    /* [nodes][rows][line] */
    size_t *sizes; /* [processes] */
} back_pass;

static xsm_status reserve(back_pass *b, xsm_error *err)
{
    const xsm_model *m = b->pass->estimator->model;
    xsm_context *ctx = m->context;
    XSMI_TRY(list_new(m, &b->nodes, err));
    b->sizes = xsmi_allocate_zero(ctx, xsmi_processes(m), sizeof *b->sizes);
    size_t each;
    const bool fits = xsmi_multiply(b->rows, b->line * sizeof *b->mine, &each);
    b->mine = fits ? xsmi_allocate(ctx, b->nodes.own, each) : NULL;
    b->all = fits ? xsmi_allocate(ctx, b->nodes.count, each) : NULL;
    if (!b->sizes || !b->mine || !b->all) {
        return xsmi_fail_memory(err, fits ? b->nodes.count * each : SIZE_MAX,
                                "the gradient of the rows, of all processes");
    }
    list_sizes(&b->nodes, each, b->sizes);
    return XSM_OK;
}

static void release(back_pass *b)
{
    const xsm_model *m = b->pass->estimator->model;
    xsm_context *ctx = m->context;
    const size_t each = b->rows * b->line * sizeof *b->mine;
    xsmi_release(ctx, b->mine, b->nodes.own, each);
    xsmi_release(ctx, b->all, b->nodes.count, each);
    list_clear(ctx, &b->nodes);
    xsmi_release(ctx, b->sizes, xsmi_processes(m), sizeof *b->sizes);
}

static bool is_sifted(const back_pass *b)
{
    return xsmi_gradient_is_sifted(b->pass->gradient);
}

/* Computes the sums of one of this process's nodes for some examples. */
static void run_node(void *state, size_t index, uint32_t thread)
{
    const back_pass *b = state;
    const node *n = &b->nodes.nodes[b->nodes.first + index / b->jobs];
    const size_t start = index % b->jobs * XSMI_EXAMPLE_CHUNK, end = XSMI_MIN(start + XSMI_EXAMPLE_CHUNK, b->rows);
    const uint64_t together = xsmi_pass_rows_together(b->pass, XSMI_EXAMPLE_CHUNK);
    float *sums = b->mine + index / b->jobs * b->rows * b->line;
    for (size_t i = start, rows; i < end; i += rows) {
        rows = (size_t)XSMI_MIN(end - i, together);
        float *out = sums + i * b->line;
        const bool any = xsmi_pass_backward_node(b->pass, i, rows, thread, n->shard, n->count, out, b->line);
        if (is_sifted(b)) {
            if (!any) {
                memset(out, 0, b->line * sizeof *out);
            }
            out[b->line - 1] = any;
        }
    }
}

/* -- joining ------------------------------------------------------------------------------------------------------- */

/* The examples whose sums are joined. */
typedef struct join {
    const back_pass *of;
    size_t first, rows;
} join;

static bool known(void *state, uint32_t shard, uint32_t count, float *out, size_t stride, bool *any)
{
    const join *j = state;
    const back_pass *b = j->of;
    const size_t at = list_find(&b->nodes, shard, count);
    if (at == SIZE_MAX) {
        return false;
    }
    const float *from = b->all + (at * b->rows + j->first) * b->line;
    const size_t features = b->pass->estimator->model->features;
    for (size_t i = 0; i < j->rows; i++) {
        memcpy(out + i * stride, from + i * b->line, features * sizeof *out);
    }
    *any = !is_sifted(b) || from[b->line - 1] != 0;
    return true;
}

/* Joins the sums of some examples, and propagates them through a first layer. */
static void run_join(void *state, const xsmi_range *r)
{
    const back_pass *b = state;
    const xsmi_pass *p = b->pass;
    xsm_gradient *g = p->gradient;
    const xsm_model *m = p->estimator->model;
    const uint64_t together = xsmi_pass_rows_together(p, XSMI_EXAMPLE_CHUNK);
    xsmi_outcome *outcome = &g->work.outcomes[r->index];
    *outcome = (xsmi_outcome){.finite = true};
    for (size_t i = r->first, rows; i < r->end; i += rows) {
        rows = (size_t)XSMI_MIN(r->end - i, together);
        join j = {b, i, rows};
        const xsmi_shard_sums sums = {m->kernels, m->classes, rows, m->features, no_sum, known, &j};
        xsmi_shard_all(&sums, p->input->values + i * p->input->stride, p->input->stride,
                       g->work.shards + r->thread * g->work.shards_each);
    }
    for (size_t i = r->first; i < r->end; i++) {
        /* False for NaN, too. */
        outcome->finite &=
            m->kernels->row_scaled_max(p->input->values + i * p->input->stride, m->features, 1, 0) < INFINITY;
    }
    if (p->estimator->hidden && outcome->finite) {
        xsmi_pass_layer_backward(p, r->first, r->end - r->first, outcome);
    }
}

static xsm_status run(back_pass *b, xsmi_outcome *outcome, xsm_error *err)
{
    const xsmi_pass *p = b->pass;
    xsm_gradient *g = p->gradient;
    xsm_context *ctx = p->estimator->context;
    const xsm_model *m = p->estimator->model;
    b->jobs = (b->rows + XSMI_EXAMPLE_CHUNK - 1) / XSMI_EXAMPLE_CHUNK;
    xsm_status status = reserve(b, err);
    status = status == XSM_OK ? xsmi_gradient_reserve_outcomes(g, b->jobs, err) : status;
    status = status == XSM_OK ? xsmi_run(ctx, run_node, b, b->jobs * b->nodes.own, err) : status;
    XSMI_TRY(xsmi_together(m, status, err));
    XSMI_TRY(xsmi_together_blocks(m, b->mine, b->all, b->sizes, err));
    xsmi_run_surely(ctx, run_join, b, b->rows, XSMI_EXAMPLE_CHUNK);
    for (size_t i = 0; i < b->jobs; i++) {
        xsmi_outcome_join(outcome, &g->work.outcomes[i]);
    }
    return XSM_OK;
}

xsm_status xsmi_divided_backward(const xsmi_pass *p, xsmi_outcome *outcome, xsm_error *err)
{
    if (!p->input || !outcome->finite) {
        return XSM_OK;
    }
    back_pass b = {.pass = p, .rows = (size_t)p->batch->count, .line = p->estimator->model->features};
    b.line += is_sifted(&b);
    const xsm_status status = run(&b, outcome, err);
    release(&b);
    return status;
}
