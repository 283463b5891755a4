/* Scores of label trees: node by node, along the paths of chosen classes, and of all classes. */
#include "model/label_trees.h"

#include "base/activity.h"
#include "base/order.h"
#include "model/tiles.h"

#include <math.h>
#include <string.h>

const char *const xsmi_link_names[] = {"sigmoid", "hinge", "softmax", "normalised", NULL}; /* XSMI_LINK_* */

/* Replaces each number by its log sigma, XSMI_LANES at a time. */
static void log_sigmoid(const xsmi_kernels *kernels, float *z, uint32_t count)
{
    static const float parents[XSMI_LANES];
    for (uint32_t i = 0; i < count; i += XSMI_LANES) {
        const uint32_t some = XSMI_MIN(count - i, XSMI_LANES);
        float scores[XSMI_LANES] = {0}, both[2 * XSMI_LANES];
        memcpy(scores, z + i, some * sizeof *z);
        kernels->log_branches(scores, parents, 1, both);
        memcpy(z + i, both + XSMI_LANES, some * sizeof *z);
    }
}

static void squared_hinge(float *z, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const float lacking = 1 - z[i];
        z[i] = lacking <= 0 ? 0 : -(lacking * lacking);
    }
}

static void subtract_log_sum(const xsmi_kernels *kernels, float *z, uint32_t count)
{
    const float most = kernels->row_max(z, count), log_sum = (float)log(kernels->row_sum_exp(z, count, most));
    for (uint32_t i = 0; i < count; i++) {
        z[i] = (z[i] - most) - log_sum;
    }
}

/* Converts the scores of siblings to log-probabilities given their parent. */
static void apply_link(const xsmi_label_trees *l, float *z, uint32_t count)
{
    if (l->link == XSMI_LINK_SOFTMAX) {
        subtract_log_sum(l->kernels, z, count);
    } else if (l->link == XSMI_LINK_SQUARED_HINGE) {
        squared_hinge(z, count);
    } else {
        log_sigmoid(l->kernels, z, count);
    }
}

void xsmi_label_children(const xsmi_label_trees *l, uint32_t tree, uint32_t node, const xsmi_features *x, float *z)
{
    const xsmi_label_tree *t = &l->tree[tree];
    xsmi_sparse_scores(t->weights, t->tree->number[node], x, z);
    apply_link(l, z, t->tree->first_child[node + 1] - t->tree->first_child[node]);
}

float xsmi_label_mean(const float *p, uint32_t count)
{
    if (count == 1) {
        return p[0];
    }
    float most = p[0];
    double sum = 0;
    for (uint32_t t = 1; t < count; t++) {
        most = XSMI_MAX(p[t], most);
    }
    if (most == -INFINITY) {
        return most;
    }
    for (uint32_t t = 0; t < count; t++) {
        sum += exp((double)(p[t] - most));
    }
    return most + (float)log(sum / count);
}

/* Returns the log-probability of a node given its parent; `divided`: divided by the sum over its siblings and itself.
 * Where siblings do not matter, it reads one row of weights. */
static float step_to(const xsmi_label_trees *l, uint32_t tree, uint32_t node, const xsmi_features *x, bool divided,
                     float *scratch)
{
    const xsmi_label_tree *t = &l->tree[tree];
    const uint32_t parent = t->tree->parent[node], first = t->tree->first_child[parent];
    if (l->link == XSMI_LINK_SOFTMAX || divided) {
        xsmi_label_children(l, tree, parent, x, scratch);
        if (divided) {
            subtract_log_sum(l->kernels, scratch, t->tree->first_child[parent + 1] - first);
        }
        return scratch[node - first];
    }
    float z = xsmi_sparse_score(t->weights, node - 1, x);
    apply_link(l, &z, 1);
    return z;
}

/* The inner nodes of a tree whose children a search scored. */
typedef struct opened_nodes {
    const uint32_t *node;
    uint32_t count;
} opened_nodes;

static bool is_opened(const opened_nodes *o, uint32_t node)
{
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->node[i] == node) {
            return true;
        }
    }
    return false;
}

/* Returns a class's log-probability in a tree, summed from the root down as in searches and sweeps. The path is found
 * from the leaf up, so its steps are stored in pieces. The steps below the last of the `opened` nodes are divided by
 * the sums over siblings; with NULL, no step is. */
static float path_sum(const xsmi_label_trees *l, uint32_t tree, uint32_t class, const xsmi_features *x,
                      const opened_nodes *opened, float *scratch)
{
    enum { PIECE = 32 };
    bool divided = false;
    const xsmi_class_tree *t = l->tree[tree].tree;
    const uint32_t leaf = t->class_leaf[class];
    uint32_t depth = 0;
    for (uint32_t v = leaf; v != 0; v = t->parent[v]) {
        depth++;
    }
    float sum = 0;
    for (uint32_t done = 0; done < depth;) {
        uint32_t nodes[PIECE], v = leaf;
        const uint32_t some = XSMI_MIN(depth - done, PIECE);
        for (uint32_t i = depth; i > done; i--, v = t->parent[v]) {
            if (i - done <= some) {
                nodes[i - done - 1] = v;
            }
        }
        for (uint32_t i = 0; i < some; i++) {
            divided = divided || (opened && !is_opened(opened, t->parent[nodes[i]]));
            sum += step_to(l, tree, nodes[i], x, divided, scratch);
        }
        done += some;
    }
    return sum;
}

void xsmi_label_chosen(const xsmi_label_trees *l, const xsmi_features *x, const uint32_t *classes, size_t count,
                       float *scores, float *scratch)
{
    for (size_t j = 0; j < count; j++) {
        float p[XSMI_LABEL_TREES] = {0};
        for (uint32_t t = 0; t < l->count; t++) {
            p[t] = path_sum(l, t, classes[j], x, NULL, scratch);
        }
        scores[j] = xsmi_label_mean(p, l->count);
    }
}

float xsmi_label_outside(const xsmi_label_trees *l, const xsmi_features *x, uint32_t class, const uint32_t *opened,
                         const uint32_t *opened_end, float *scratch)
{
    float p[XSMI_LABEL_TREES] = {0};
    for (uint32_t t = 0; t < l->count; t++) {
        const uint32_t first = t > 0 ? opened_end[t - 1] : 0;
        const opened_nodes nodes = {opened + first, opened_end[t] - first};
        p[t] = path_sum(l, t, class, x, &nodes, scratch);
    }
    return xsmi_label_mean(p, l->count);
}

uint64_t xsmi_label_entries(const xsmi_label_trees *l)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        sum += xsmi_sparse_entries(l->tree[t].weights);
    }
    return sum;
}

uint64_t xsmi_label_bytes(const xsmi_label_trees *l)
{
    uint64_t sum = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        sum += xsmi_sparse_bytes(l->tree[t].weights) + (uint64_t)l->tree[t].tree->nodes * sizeof(uint32_t);
    }
    return sum;
}

/* -- all classes --------------------------------------------------------------------------------------------------- */

/* The most bytes for log-probabilities of all nodes that a sweep over label trees uses for each thread, unless one row
 * needs more. */
#define NODE_BYTES ((size_t)32 << 20)

/* Returns the number of rows that are swept together. */
static size_t rows_together(const xsm_model *m, size_t blocks)
{
    const size_t most = NODE_BYTES / (m->head->labels->nodes * sizeof(float));
    return XSMI_CLAMP(most, 1, blocks * XSMI_LANES);
}

static size_t scratch_bytes(const xsm_model *m, bool sparse, size_t blocks)
{
    const xsmi_label_trees *l = m->head->labels;
    xsmi_arena arena = {NULL, 0};
    (void)sparse;
    (void)xsmi_arena_take(&arena, rows_together(m, blocks) * l->nodes + l->widest + XSMI_ROW_TILE, sizeof(float));
    return arena.used;
}

/* Computes the log-probabilities of all nodes, parents before their children, for some rows; in log_p one tree follows
 * another. Returns false if the call was cancelled. */
static bool sweep_trees(const xsmi_tile_call *call, const xsmi_features *rows, size_t count, float *log_p, float *z)
{
    const xsmi_label_trees *l = call->model->head->labels;
    size_t offset = 0;
    for (uint32_t t = 0; t < l->count; t++) {
        const xsmi_class_tree *tree = l->tree[t].tree;
        for (uint32_t v = 0; v < tree->nodes; v++) {
            const uint32_t first = tree->first_child[v], end = tree->first_child[v + 1];
            if (v > 0 && first == end) {
                continue;
            }
            if (xsmi_poll(call->context)) {
                return false;
            }
            for (size_t r = 0; r < count; r++) {
                float *to = log_p + r * l->nodes + offset;
                const float before = v == 0 ? 0 : to[v];
                xsmi_label_children(l, t, v, &rows[r], z);
                for (uint32_t i = first; i < end; i++) {
                    to[i] = before + z[i - first];
                }
            }
        }
        offset += tree->nodes;
    }
    return true;
}

/* Passes a row's scores on. */
static void pass_row(const xsmi_tile_call *call, size_t number, const float *log_p, float *scores)
{
    const xsmi_label_trees *l = call->model->head->labels;
    for (uint32_t tile = call->first, count; tile < call->end; tile += count) {
        count = xsmi_tile_classes(tile, call->end, XSMI_ROW_TILE);
        for (uint32_t c = 0; c < count; c++) {
            float p[XSMI_LABEL_TREES] = {0};
            size_t offset = 0;
            for (uint32_t t = 0; t < l->count; t++) {
                p[t] = log_p[offset + l->tree[t].tree->class_leaf[tile + c]];
                offset += l->tree[t].tree->nodes;
            }
            scores[c] = xsmi_label_mean(p, l->count);
        }
        xsmi_tile t = {number / XSMI_LANES, number % XSMI_LANES, false, tile, count, scores};
        call->consume(call->state, &t);
    }
}

static void score_label_trees(const xsmi_tile_call *call, void *scratch)
{
    const xsm_model *m = call->model;
    const xsmi_tile_rows *rows = call->rows;
    const size_t together = rows_together(m, rows->blocks);
    float *log_p = scratch, *z = log_p + together * m->head->labels->nodes, *scores = z + m->head->labels->widest;
    for (size_t b = 0; b < rows->blocks; b++) {
        for (size_t l = 0; l < rows->counts[b];) { /* rows of one block: the last block has fewer */
            const size_t some = XSMI_MIN(rows->counts[b] - l, together), first = b * XSMI_LANES + l;
            if (!sweep_trees(call, rows->features + first, some, log_p, z)) {
                return;
            }
            for (size_t r = 0; r < some; r++) {
                pass_row(call, first + r, log_p + r * m->head->labels->nodes, scores);
            }
            l += some;
        }
    }
}

/* -- the head ------------------------------------------------------------------------------------------------------ */

typedef struct of_labels {
    xsmi_head base;
    xsmi_label_trees own;
} of_labels;

static void clear(xsmi_head *h)
{
    const xsmi_label_trees *l = h->labels;
    for (uint32_t t = 0; l && t < l->count; t++) {
        xsmi_class_tree_release(l->tree[t].tree);
        xsmi_sparse_release(l->tree[t].weights);
    }
}

static void score_chosen(const xsm_model *m, const xsmi_model_row *row, const uint32_t *classes, size_t count,
                         float *scores, float *scratch)
{
    xsmi_label_chosen(m->head->labels, &row->x, classes, count, scores, scratch);
}

static xsm_status check_calibration(const xsmi_head *h, int32_t method, xsm_error *err)
{
    if (!xsmi_label_sums_to_one(h->labels) && method == XSM_CALIBRATION_TEMPERATURE) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "a temperature needs probabilities that sum to one, which the label tree's link '%s' does not "
                         "give; XSM_CALIBRATION_LABELS is accepted",
                         xsmi_link_names[h->labels->link]);
    }
    return XSM_OK;
}

/* The head has no tensors of its own: they are saved with the sparse weights (sparse_file.c). */
static size_t save(const xsmi_head *h, xsmi_tensor *tensors)
{
    (void)h;
    (void)tensors;
    return 0;
}

static const xsmi_head_of_nodes scores_of_nodes = {
    .chosen = score_chosen,
    .scratch = scratch_bytes,
    .score = score_label_trees,
    .beam = XSMI_DEFAULT(xsm_predictor_options, beam),
    .why_softmax = "the link of a label tree is an option of its fit",
    .check_calibration = check_calibration,
};

static const xsmi_head_kind labels_head = {
    .number = XSM_CORRECTION_NONE,
    .name = "none",
    .described = "label trees",
    .size = sizeof(of_labels),
    .nodes = &scores_of_nodes,
    .clear = clear,
    .save = save,
};

bool xsmi_label_tree_fits(const xsmi_label_tree *t)
{
    bool fits = t->weights->rows == t->tree->nodes - 1 && t->weights->chunks == t->tree->inner;
    for (uint32_t v = 0; fits && v < t->tree->nodes; v++) {
        fits = xsmi_class_tree_is_leaf(t->tree, v) ||
               t->weights->places[t->tree->number[v]].row == t->tree->first_child[v] - 1;
    }
    return fits;
}

xsm_status xsmi_model_of_label_trees(xsm_context *ctx, int32_t link, const xsmi_label_tree *trees, uint32_t count,
                                     xsm_model **out, xsm_error *err)
{
    const uint32_t features = trees[0].weights->features, classes = trees[0].tree->classes;
    const int32_t dtype = xsmi_sparse_dtype(trees[0].weights);
    for (uint32_t t = 0; t < count; t++) {
        if (count > XSMI_LABEL_TREES || !xsmi_label_tree_fits(&trees[t]) || trees[t].weights->features != features ||
            trees[t].tree->classes != classes || xsmi_sparse_dtype(trees[t].weights) != dtype) {
            return xsmi_fail(err, XSM_ERROR_SHAPE, "tree %u of %u does not fit its weights, or the first tree", t,
                             count);
        }
    }
    xsm_model *m;
    XSMI_TRY(xsmi_model_new_empty(ctx, features, classes, &m, err));
    m->w.layout = XSM_LAYOUT_SPARSE_ROWS;
    m->w.narrow.dtype = dtype;
    const xsm_status status = xsmi_head_new(m->context, &labels_head, classes, &m->head, err);
    if (status != XSM_OK) {
        xsm_model_free(m);
        return status;
    }
    xsmi_label_trees *l = &((of_labels *)m->head)->own;
    m->head->labels = l;
    l->kernels = m->kernels;
    l->link = link;
    for (; l->count < count; l->count++) {
        const xsmi_label_tree *from = &trees[l->count];
        l->tree[l->count] = (xsmi_label_tree){xsmi_class_tree_retain(from->tree), xsmi_sparse_retain(from->weights)};
        l->nodes += from->tree->nodes;
        l->widest = XSMI_MAX(l->widest, from->tree->widest);
    }
    m->head->code = l->widest;
    *out = m;
    return XSM_OK;
}
