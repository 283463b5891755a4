/*
 * A correction by a tree over the classes: log p_n(k|x) of the tree from which classes were drawn. In a file it has the
 * tensors of tree_file.h.
 */
#include "model/head.h"
#include "base/arena.h"

#include <string.h>

typedef struct of_tree {
    xsmi_head base;
    xsmi_tree tree;
} of_tree;

/* What prepare() computes for a block of rows. The log-probabilities take as much memory as the block's scores of all
 * classes. */
typedef struct block {
    float *codes; /* [XSMI_LANES][dims] */
    float *sweep; /* scratch of a sweep */
    float *log_q; /* [classes][XSMI_LANES] */
} block;

static block divide(const xsmi_tree *t, xsmi_arena *arena)
{
    block b;
    b.codes = xsmi_arena_take(arena, (size_t)t->dims * XSMI_LANES, sizeof *b.codes);
    b.sweep = xsmi_arena_take(arena, xsmi_tree_scratch(t), sizeof *b.sweep);
    b.log_q = xsmi_arena_take(arena, (size_t)t->classes * XSMI_LANES, sizeof *b.log_q);
    return b;
}

xsm_status xsmi_correction_of_tree(xsm_context *ctx, xsmi_tree *tree, xsmi_head **out, xsm_error *err)
{
    xsmi_arena arena = {NULL, 0};
    XSMI_TRY(xsmi_head_new(ctx, &xsmi_tree_head, tree->classes, out, err));
    of_tree *own = (of_tree *)*out;
    own->tree = *tree;
    memset(tree, 0, sizeof *tree);
    (void)divide(&own->tree, &arena);
    own->base.code = own->tree.dims;
    own->base.block = arena.used;
    own->base.tree = &own->tree;
    return XSM_OK;
}

static void clear(xsmi_head *c)
{
    xsmi_tree_clear(&((of_tree *)c)->tree);
}

static void add_chosen(const xsmi_head *c, const xsmi_features *x, const uint32_t *classes, size_t count, float *scores,
                       float *scratch)
{
    xsmi_tree_encode(c->tree, x, scratch);
    for (size_t j = 0; j < count; j++) {
        scores[j] = (float)((double)scores[j] + xsmi_tree_log_probability(c->tree, scratch, classes[j]));
    }
}

static void prepare(const xsmi_head *c, const xsmi_kernels *kernels, const xsmi_features *rows, size_t count,
                    void *prepared)
{
    xsmi_arena arena = {prepared, 0};
    const block b = divide(c->tree, &arena);
    const float *codes[XSMI_LANES] = {NULL};
    for (size_t l = 0; l < count; l++) {
        float *code = b.codes + l * c->tree->dims;
        xsmi_tree_encode(c->tree, &rows[l], code);
        codes[l] = code;
    }
    xsmi_tree_sweep(c->tree, kernels, codes, count, b.log_q, b.sweep);
}

static void add_tile(const xsmi_head *c, const xsmi_tile *tile, const xsmi_features *rows, size_t count,
                     const void *prepared, float *scores)
{
    xsmi_arena arena = {(unsigned char *)(uintptr_t)prepared, 0};
    const float *log_q = divide(c->tree, &arena).log_q + (size_t)tile->first * XSMI_LANES;
    (void)rows;
    (void)count;
    for (size_t i = 0; tile->lanes && i < tile->count * (size_t)XSMI_LANES; i++) {
        scores[i] += log_q[i];
    }
    for (uint32_t k = 0; !tile->lanes && k < tile->count; k++) {
        scores[k] += log_q[(size_t)k * XSMI_LANES + tile->row];
    }
}

static const char *const tensor_names[] = {XSMI_TREE_TENSOR_NAMES, NULL};

static size_t save(const xsmi_head *c, xsmi_tensor *tensors)
{
    return xsmi_tree_tensors(c->tree, tensors);
}

static xsm_status load(const xsmi_tensor_source *s, xsmi_head **out, xsm_error *err)
{
    xsmi_tree t;
    memset(&t, 0, sizeof t);
    xsm_status status = xsmi_tree_restore(s, &t, err);
    if (status == XSM_OK) {
        status = xsmi_correction_of_tree(s->context, &t, out, err);
    }
    xsmi_tree_clear(&t);
    return status;
}

const xsmi_head_kind xsmi_tree_head = {
    .number = XSM_CORRECTION_TREE,
    .name = "tree",
    .described = "a tree",
    .size = sizeof(of_tree),
    .drawn = true,
    .clear = clear,
    .chosen = add_chosen,
    .prepare = prepare,
    .tile = add_tile,
    .tensor_names = tensor_names,
    .save = save,
    .load = load,
};
