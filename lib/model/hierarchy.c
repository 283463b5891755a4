/* Trees over the classes whose nodes are rows of a model's weights: construction, sweeps, and the head of such models.
 */
#include "model/hierarchy.h"

#include "base/activity.h"
#include "base/heap_sort.h"
#include "base/held.h"
#include "math/omega.h"
#include "model/tiles.h"

#include <string.h>

/* Allocates the nodes of a binary tree over `classes` classes; refuses a single class. */
static xsm_status start(xsm_context *ctx, uint32_t classes, uint32_t **nodes, xsm_error *err)
{
    if (classes < 2) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "a tree over %u class; accepted is 2 and more", classes);
    }
    *nodes = xsmi_allocate(ctx, 2 * (uint64_t)classes - 1, sizeof **nodes);
    return *nodes ? XSM_OK : xsmi_fail_memory(err, 2 * (uint64_t)classes * sizeof **nodes, "a tree over the classes");
}

xsm_status xsmi_hierarchy_new(xsm_context *ctx, const uint32_t *nodes, size_t count, uint32_t classes,
                              xsmi_class_tree **out, xsm_error *err)
{
    XSMI_TRY(xsmi_class_tree_new(ctx, nodes, count, classes, XSMI_TREE_PREORDER, out, err));
    if (*out && ((*out)->widest != 2 || (*out)->inner != classes - 1)) { /* otherwise each inner node has two
                                                                            children */
        xsmi_class_tree_release(*out);
        *out = NULL;
    }
    return XSM_OK;
}

/* -- balanced ------------------------------------------------------------------------------------------------------ */

xsm_status xsmi_hierarchy_balanced(xsm_context *ctx, const uint32_t *order, uint32_t classes, xsmi_class_tree **out,
                                   xsm_error *err)
{
    typedef struct range {
        uint32_t first, count; /* the classes of a node, in the given order */
    } range;
    uint32_t *nodes;
    XSMI_TRY(start(ctx, classes, &nodes, err));
    const size_t count = 2 * (size_t)classes - 1;
    range *of = xsmi_allocate(ctx, count, sizeof *of);
    xsm_status status = of ? XSM_OK : xsmi_fail_memory(err, count * sizeof *of, "a tree over the classes");
    size_t made = 1;
    if (of) {
        of[0] = (range){0, classes};
        for (size_t v = 0; v < count; v++) {
            const range r = of[v];
            const uint32_t left = (r.count + 1) / 2;
            nodes[v] = r.count > 1 ? 2 : XSMI_TREE_LEAF | (order ? order[r.first] : r.first);
            if (r.count > 1) {
                of[made++] = (range){r.first, left};
                of[made++] = (range){r.first + left, r.count - left};
            }
        }
        status = xsmi_hierarchy_new(ctx, nodes, count, classes, out, err);
    }
    xsmi_release(ctx, of, count, sizeof *of);
    xsmi_release(ctx, nodes, count, sizeof *nodes);
    return status;
}

/* -- Huffman ------------------------------------------------------------------------------------------------------- */

typedef struct weighted {
    uint64_t weight;
    uint32_t class;
} weighted;

static int compare_weights(const void *a, const void *b)
{
    const weighted *x = a, *y = b;
    int by_weight = (x->weight > y->weight) - (x->weight < y->weight);
    return by_weight ? by_weight : (x->class > y->class) - (x->class < y->class);
}

/* Merges the two lightest nodes until one is left. Leaves come in rising order of weights, and merged nodes are made in
 * rising order, too. Of equal weights, the leaf comes first, which makes the tree less deep. merged[] has the two
 * children of each merged node, in the order of merging. */
static void merge(const weighted *leaves, uint32_t classes, uint64_t *weights, uint32_t *merged)
{
    uint32_t leaf = 0, node = 0;
    for (uint32_t made = 0; made + 1 < classes; made++) {
        uint64_t sum = 0;
        for (uint32_t side = 0; side < 2; side++) {
            bool use_leaf = leaf < classes && (node >= made || leaves[leaf].weight <= weights[node]);
            merged[2 * (size_t)made + side] = use_leaf ? XSMI_TREE_LEAF | leaves[leaf].class : node;
            sum += use_leaf ? leaves[leaf].weight : weights[node];
            leaf += use_leaf;
            node += !use_leaf;
        }
        weights[made] = sum;
    }
}

/* Lists the merged nodes level by level. `from` [nodes] is scratch: the merged node, or leaf, that each node is. */
static void list_levels(const uint32_t *merged, uint32_t classes, uint32_t *from, uint32_t *nodes)
{
    const size_t count = 2 * (size_t)classes - 1;
    size_t listed = 1;
    from[0] = classes - 2;
    for (size_t v = 0; v < count; v++) {
        if (from[v] & XSMI_TREE_LEAF) {
            nodes[v] = from[v];
            continue;
        }
        nodes[v] = 2;
        for (uint32_t side = 0; side < 2; side++) {
            from[listed++] = merged[2 * (size_t)from[v] + side];
        }
    }
}

xsm_status xsmi_hierarchy_of_merges(xsm_context *ctx, const uint32_t *merged, uint32_t classes, uint32_t *made,
                                    xsmi_class_tree **out, xsm_error *err)
{
    uint32_t *nodes;
    XSMI_TRY(start(ctx, classes, &nodes, err));
    const size_t count = 2 * (size_t)classes - 1;
    uint32_t *from = xsmi_allocate(ctx, count, sizeof *from);
    xsm_status status = from ? XSM_OK : xsmi_fail_memory(err, count * sizeof *from, "a tree over the classes");
    if (from) {
        list_levels(merged, classes, from, nodes);
        status = xsmi_hierarchy_new(ctx, nodes, count, classes, out, err);
    }
    for (uint32_t i = 0; made && status == XSM_OK && *out && i < (*out)->inner; i++) {
        made[i] = from[(*out)->inner_node[i]];
    }
    xsmi_release(ctx, from, count, sizeof *from);
    xsmi_release(ctx, nodes, count, sizeof *nodes);
    return status;
}

xsm_status xsmi_hierarchy_huffman(xsm_context *ctx, const uint64_t *weights, uint32_t classes, xsmi_class_tree **out,
                                  xsm_error *err)
{
    xsmi_held held = {.context = ctx};
    weighted *leaves = xsmi_hold(&held, classes, sizeof *leaves);
    uint64_t *sums = xsmi_hold(&held, classes, sizeof *sums);
    uint32_t *merged = xsmi_hold(&held, classes, 2 * sizeof *merged);
    xsm_status status = xsmi_held_check(&held, "a Huffman tree", err);
    if (status == XSM_OK) {
        for (uint32_t k = 0; k < classes; k++) {
            leaves[k] = (weighted){weights[k], k};
        }
        if (xsmi_heap_sort_polled(ctx, leaves, classes, sizeof *leaves, compare_weights)) {
            merge(leaves, classes, sums, merged);
            status = xsmi_hierarchy_of_merges(ctx, merged, classes, NULL, out, err);
        } else {
            status = xsmi_fail_cancelled(ctx, err);
        }
    }
    xsmi_held_release(&held);
    return status;
}

/* -- sweeps -------------------------------------------------------------------------------------------------------- */

/* A sweep over the nodes in their order, for the log-probabilities of all classes of up to XSMI_LANES rows. */
typedef struct sweep {
    const xsmi_class_tree *tree;
    const xsmi_kernels *kernels;
    float *out;    /* [classes][XSMI_LANES] result */
    float *stack;  /* [stack_floats()] */
    uint32_t next; /* inner node */
    size_t height; /* of the stack */
} sweep;

/* Returns the floats of a sweep's stack, which is aligned to XSMI_ALIGNMENT. */
static size_t stack_floats(const xsmi_class_tree *h)
{
    return ((size_t)h->depth + 3) * XSMI_LANES;
}

/* Starts a sweep at the root; `out` and `stack` are set. */
static void start_sweep(sweep *s)
{
    s->next = 0;
    s->height = 1;
    memset(s->stack, 0, XSMI_LANES * sizeof *s->stack);
}

/* Consumes the scores [count][XSMI_LANES] of the next nodes; scores beyond the last node are ignored. */
static void consume(sweep *s, const float *scores, uint32_t count)
{
    const xsmi_class_tree *h = s->tree;
    for (uint32_t i = 0; i < count && s->next < h->inner; i++, s->next++) {
        const uint32_t left = h->first_child[h->inner_node[s->next]];
        float both[2 * XSMI_LANES];
        s->height--;
        s->kernels->log_branches(scores + (size_t)i * XSMI_LANES, s->stack + s->height * XSMI_LANES, 1, both);
        for (uint32_t side = 2; side-- > 0;) { /* the left one is pushed last, as its subtree comes next */
            float *to = xsmi_class_tree_is_leaf(h, left + side)
                            ? s->out + (size_t)xsmi_class_tree_class(h, left + side) * XSMI_LANES
                            : s->stack + s->height++ * XSMI_LANES;
            memcpy(to, both + side * XSMI_LANES, XSMI_LANES * sizeof *to);
        }
    }
}

/* -- scores -------------------------------------------------------------------------------------------------------- */

/* Number of nodes of a path that are scored in one call. */
#define PATH_NODES 64

/* Computes log p of chosen classes, each as the sum over its path. O(D) for each node. */
static void score_paths(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                        float *scores, float *scratch)
{
    const xsmi_class_tree *h = m->head->hierarchy;
    (void)scratch;
    for (size_t j = 0; j < count; j++) {
        double sum = 0;
        for (uint32_t v = h->class_leaf[classes[j]]; v != 0;) {
            uint32_t nodes[PATH_NODES], some = 0;
            float z[PATH_NODES];
            double sign[PATH_NODES];
            for (; v != 0 && some < PATH_NODES; some++, v = h->parent[v]) {
                nodes[some] = h->number[h->parent[v]];
                sign[some] = xsmi_hierarchy_turn(v) ? 1 : -1;
            }
            xsmi_weights_score(&m->w, &row->input, nodes, some, m->w.alpha, z, NULL);
            for (uint32_t i = 0; i < some; i++) {
                sum -= xsmi_softplus(-sign[i] * (double)z[i]);
            }
        }
        scores[j] = (float)sum;
    }
}

/* The most bytes for log-probabilities of all classes that a sweep uses for each thread, unless one block needs
 * more. */
#define SWEPT_BYTES ((size_t)32 << 20)

/* The memory of each of several blocks. */
typedef struct scratch {
    void *tiles;   /* of the nodes */
    float *scores; /* [XSMI_ROW_TILE] */
    float *log_p;  /* [classes][XSMI_LANES] */
    float *stack;  /* of its sweep */
    float *nodes;  /* [XSMI_ROW_TILE][XSMI_LANES] scores of a tile, when scored row by row */
    float *rows;   /* [XSMI_LANES][inner nodes] all scores, for sparse weights, whose tiles come row after row */
} scratch;

/* Returns the number of blocks whose log-probabilities are in memory at once. */
static size_t swept_together(const xsm_model *m, size_t blocks)
{
    const size_t numbers = m->w.sparse ? 2 : 1; /* for each class and row */
    size_t most = SWEPT_BYTES / ((size_t)m->classes * XSMI_LANES * numbers * sizeof(float));
    return XSMI_CLAMP(most, 1, blocks);
}

static void divide_scratch(const xsm_model *m, bool sparse, size_t blocks, xsmi_arena *arena, scratch *s)
{
    const xsmi_class_tree *h = m->head->hierarchy;
    const size_t together = swept_together(m, blocks);
    s->tiles = xsmi_arena_take(arena, xsmi_tiles_scratch_of_rows(m, sparse, blocks), 1);
    s->scores = xsmi_arena_take(arena, XSMI_ROW_TILE, sizeof *s->scores);
    s->log_p = xsmi_arena_take(arena, together * h->classes, XSMI_LANES * sizeof *s->log_p);
    s->stack = xsmi_arena_take(arena, together * stack_floats(h), sizeof *s->stack);
    s->nodes = xsmi_arena_take(arena, together * XSMI_ROW_TILE, XSMI_LANES * sizeof *s->nodes);
    s->rows = xsmi_arena_take(arena, m->w.sparse ? together * h->inner : 0, XSMI_LANES * sizeof *s->rows);
}

static size_t scratch_bytes(const xsm_model *m, bool sparse, size_t blocks)
{
    xsmi_arena arena = {NULL, 0};
    scratch s;
    divide_scratch(m, sparse, blocks, &arena, &s);
    return arena.used;
}

typedef struct swept {
    sweep sweep[XSMI_TILE_BLOCKS];
    float *nodes;         /* scratch's */
    const size_t *counts; /* rows of each block */
} swept;

/* Consumes a tile of nodes: at once if it has all rows of the block, otherwise with the tile of the block's last
 * row. */
static void sweep_tile(void *state, const xsmi_tile *tile)
{
    swept *w = state;
    if (tile->lanes) {
        consume(&w->sweep[tile->block], tile->scores, tile->count);
        return;
    }
    float *nodes = w->nodes + tile->block * XSMI_ROW_TILE * XSMI_LANES;
    for (uint32_t i = 0; i < tile->count; i++) {
        nodes[(size_t)i * XSMI_LANES + tile->row] = tile->scores[i];
    }
    if (tile->row + 1 == w->counts[tile->block]) {
        consume(&w->sweep[tile->block], nodes, tile->count);
    }
}

/* Where tiles of nodes are stored for sweep_kept(). */
typedef struct kept {
    float *rows;
    size_t stride;
} kept;

static void keep_tile(void *state, const xsmi_tile *tile)
{
    const kept *k = state;
    memcpy(k->rows + (tile->block * XSMI_LANES + tile->row) * k->stride + tile->first, tile->scores,
           tile->count * sizeof *k->rows);
}

/* Consumes the stored scores of all nodes, row by row. */
static void sweep_kept(swept *w, size_t block, const float *scores, const xsm_context *ctx)
{
    float *nodes = w->nodes + block * XSMI_ROW_TILE * XSMI_LANES;
    const uint32_t inner = w->sweep[block].tree->inner;
    for (uint32_t first = 0, count; first < inner && !xsmi_poll(ctx); first += count) {
        count = XSMI_MIN(inner - first, XSMI_ROW_TILE);
        for (size_t l = 0; l < w->counts[block]; l++) {
            for (uint32_t i = 0; i < count; i++) {
                nodes[(size_t)i * XSMI_LANES + l] = scores[l * inner + first + i];
            }
        }
        consume(&w->sweep[block], nodes, count);
    }
}

/* Passes a block's log-probabilities on as tiles. */
static void pass_swept(const xsmi_tile_call *call, size_t block, const float *log_p, float *scores)
{
    const bool lanes = xsmi_tiles_packed(call->model, call->rows->sparse);
    const uint32_t most = lanes ? XSMI_CLASS_TILE : XSMI_ROW_TILE;
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, most);
        if (xsmi_poll(call->context)) {
            return;
        }
        const float *from = log_p + (size_t)tile * XSMI_LANES;
        if (lanes) {
            xsmi_tile t = {block, 0, true, tile, count, from};
            call->consume(call->state, &t);
        }
        for (size_t l = 0; !lanes && l < call->rows->counts[block]; l++) {
            for (uint32_t c = 0; c < count; c++) {
                scores[c] = from[(size_t)c * XSMI_LANES + l];
            }
            xsmi_tile t = {block, l, false, tile, count, scores};
            call->consume(call->state, &t);
        }
    }
}

/* Converts the nodes' scores of several blocks to log-probabilities of all classes, which are then the tiles. */
static void score_hierarchy(const xsmi_tile_call *call, void *memory)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    xsmi_arena arena = {memory, 0};
    scratch s;
    divide_scratch(m, rows->sparse, rows->blocks, &arena, &s);
    const xsmi_class_tree *h = m->head->hierarchy;
    const size_t together = swept_together(m, rows->blocks), each = (size_t)h->classes * XSMI_LANES;
    for (size_t b = 0; b < rows->blocks; b += together) {
        size_t some = XSMI_MIN(rows->blocks - b, together);
        const xsmi_tile_rows group = {rows->features + b * XSMI_LANES, rows->counts + b, some, rows->sparse};
        swept w = {.nodes = s.nodes, .counts = group.counts};
        for (size_t i = 0; i < some; i++) {
            w.sweep[i] = (sweep){h, m->kernels, s.log_p + i * each, s.stack + i * stack_floats(h), 0, 0};
            start_sweep(&w.sweep[i]);
        }
        memset(s.nodes, 0, some * XSMI_ROW_TILE * XSMI_LANES * sizeof *s.nodes);
        kept all = {s.rows, h->inner};
        const xsmi_tile_call nodes = {m,
                                      &group,
                                      0,
                                      h->inner,
                                      m->w.sparse ? keep_tile : sweep_tile,
                                      m->w.sparse ? (void *)&all : &w,
                                      call->context,
                                      call->stores,
                                      call->hidden,
                                      true};
        xsmi_tiles_score(&nodes, s.tiles);
        for (size_t i = 0; i < some && m->w.sparse; i++) {
            sweep_kept(&w, i, s.rows + i * XSMI_LANES * h->inner, call->context);
        }
        for (size_t i = 0; i < some; i++) {
            pass_swept(call, b + i, s.log_p + i * each, s.scores);
        }
    }
}

/* -- the head ------------------------------------------------------------------------------------------------------ */

typedef struct of_hierarchy {
    xsmi_head base;
    xsmi_class_tree *tree; /* a reference */
} of_hierarchy;

xsm_status xsmi_head_of_hierarchy(xsmi_class_tree *tree, xsmi_head **out, xsm_error *err)
{
    xsmi_head *h = NULL;
    XSMI_TRY(xsmi_head_new(tree->context, &xsmi_hierarchy_head, tree->classes, &h, err));
    h->hierarchy = ((of_hierarchy *)h)->tree = xsmi_class_tree_retain(tree);
    *out = h;
    return XSM_OK;
}

xsm_status xsmi_model_set_hierarchy(xsm_model *m, xsmi_class_tree *tree, xsm_error *err)
{
    xsmi_head *h = NULL;
    XSMI_TRY(xsmi_head_of_hierarchy(tree, &h, err));
    xsmi_model_set_head(m, h);
    xsmi_head_release(h);
    return XSM_OK;
}

static void clear(xsmi_head *h)
{
    xsmi_class_tree_release(((of_hierarchy *)h)->tree);
}

static xsm_status check_calibration(const xsmi_head *h, int32_t method, xsm_error *err)
{
    (void)h;
    (void)method;
    return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                     "the model's scores are log-probabilities of its hierarchy, which cannot be calibrated; any "
                     "other model can");
}

static const char *const tensor_names[] = {XSMI_TREE_TENSOR, NULL};

static size_t save(const xsmi_head *h, xsmi_tensor *tensors)
{
    tensors[0] = (xsmi_tensor){.name = XSMI_TREE_TENSOR,
                               .dtype = XSMI_DTYPE_U32,
                               .rank = 1,
                               .shape = {h->hierarchy->nodes},
                               .size = h->hierarchy->nodes * sizeof *h->hierarchy->made,
                               .data = (const unsigned char *)h->hierarchy->made};
    return 1;
}

static xsm_status load(const xsmi_tensor_source *s, xsmi_head **out, xsm_error *err)
{
    const xsmi_tensor *t = s->tensors[0];
    xsmi_class_tree *tree = NULL;
    if (t->dtype == XSMI_DTYPE_U32 && t->rank == 1) {
        const uint32_t *nodes = (const uint32_t *)(const void *)t->data;
        XSMI_TRY(xsmi_hierarchy_new(s->context, nodes, (size_t)t->shape[0], s->classes, &tree, err));
    }
    const xsm_status status =
        tree ? xsmi_head_of_hierarchy(tree, out, err)
             : xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: tensor '" XSMI_TREE_TENSOR
                         "' must hold a binary tree over the %u classes: 2 for each node with children, level by "
                         "level, 2^31 + the class for each leaf, at most %d steps below the root",
                         s->name, s->classes, XSMI_TREE_DEPTH);
    xsmi_class_tree_release(tree);
    return status;
}

static const xsmi_head_of_nodes scores_of_nodes = {
    .chosen = score_paths,
    .scratch = scratch_bytes,
    .score = score_hierarchy,
    .why_softmax = "the model's scores are log-probabilities of its hierarchy, which sum to one",
    .check_calibration = check_calibration,
};

const xsmi_head_kind xsmi_hierarchy_head = {
    .number = XSM_CORRECTION_HIERARCHY,
    .name = "hierarchy",
    .described = "a hierarchy",
    .size = sizeof(of_hierarchy),
    .nodes = &scores_of_nodes,
    .clear = clear,
    .tensor_names = tensor_names,
    .save = save,
    .load = load,
};
