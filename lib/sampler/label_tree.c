/*
 * Look-alikes: classes that a label tree (Prabhu et al., Parabel, 2018), fitted to the training rows, has near those
 * that it finds likely for a row, and now and then any other. A cluster is a node whose children are classes. With S
 * the clusters that a beam search finds best, p_c the tree's probability of cluster c, and f the classes' frequencies,
 * (n_k + 1)/(N + K),
 *     q(k|x) = (1 - m) p_c^a / (sum of p_j^a over S) f_k / (sum of f over c) + m f_k,    c the cluster of k;
 * the first term is 0 where c is not in S. A row's code is S with the running sums of its shares, in float. These sums
 * define the shares, so that q is known exactly even if the search missed better clusters. The classifiers of single
 * classes are not used: they were trained on the labels of these rows, and would draw little else.
 */
#include "sampler/arrays.h"
#include "sampler/sampler.h"

#include "base/order.h"
#include "base/top.h"
#include "labels/fit_trees.h"
#include "model/label_trees.h"
#include "model/sparse_file.h"

#include <math.h>
#include <string.h>

enum { BEAM_MOST = 64, CHILDREN_MOST = 512, LEAF_MOST = 256 };

typedef struct label_tree_state {
    int64_t clusters, leaf;
    double power, share;
    xsm_model *model;              /* the label tree */
    const xsmi_label_trees *trees; /* the model's */
    const xsmi_class_tree *tree;
    xsmi_sparse_tensors tensors; /* its arrays in files */
    float *sums;                 /* [nodes] running sums of the shares that a node's classes have of it */
    xsm_sampler *frequency;      /* bound */
} label_tree_state;

static const xsm_option options[] = {
    XSMI_OPTION_INT("clusters", label_tree_state, clusters, "10", 1, BEAM_MOST,
                    "clusters of a row, the most probable ones; so many nodes of each level the search goes on with"),
    XSMI_OPTION_INT("leaf", label_tree_state, leaf, "100", 2, LEAF_MOST, "most classes of a cluster"),
    XSMI_OPTION_DOUBLE("power", label_tree_state, power, "0.3", 0, 100,
                       "what the probabilities of clusters are raised to: 1 = as they are, 0 = all alike"),
    XSMI_OPTION_DOUBLE("share", label_tree_state, share, "0.5", 1e-6, 1,
                       "share of the draws by frequency, from all classes"),
};

static void unbind(void *state)
{
    label_tree_state *s = state;
    if (s->sums) {
        xsmi_release(s->model->context, s->sums, s->tree->nodes, sizeof *s->sums);
    }
    if (s->tensors.tensors) {
        xsmi_sparse_list_free(&s->tensors);
    }
    xsm_model_free(s->model);
    xsm_sampler_free(s->frequency);
    s->sums = NULL;
    s->model = NULL;
    s->frequency = NULL;
}

/* Divides each node among the classes that are its children, by their frequencies. */
static void divide_nodes(const label_tree_state *s, const uint64_t *counts)
{
    const xsmi_class_tree *t = s->tree;
    for (uint32_t v = 0; v < t->nodes; v++) {
        double total = 0, sum = 0;
        uint32_t last = 0;
        for (uint32_t c = t->first_child[v]; c < t->first_child[v + 1]; c++) {
            if (xsmi_class_tree_is_leaf(t, c)) {
                total += (double)counts[xsmi_class_tree_class(t, c)] + 1;
                last = c;
            }
        }
        for (uint32_t c = t->first_child[v]; c < t->first_child[v + 1]; c++) {
            sum += xsmi_class_tree_is_leaf(t, c) ? (double)counts[xsmi_class_tree_class(t, c)] + 1 : 0;
            s->sums[c] = last == 0 ? 0.0f : c >= last ? 1.0f : (float)(sum / total);
        }
    }
    s->sums[0] = 0.0f;
}

/* Computes what follows from the model's tree, except the shares. */
static xsm_status take_tree(label_tree_state *s, xsm_error *err)
{
    xsm_context *ctx = s->model->context;
    s->trees = xsmi_model_trees(s->model);
    s->tree = s->trees->tree[0].tree;
    if (s->tree->widest > CHILDREN_MOST || s->tree->nodes > INT32_MAX / 2) {
        return xsmi_fail(
            err, XSM_ERROR_LIMIT,
            "sampler 'label-tree': the tree has %u nodes, and up to %u children of one; accepted are %d and "
            "%d at most",
            s->tree->nodes, s->tree->widest, INT32_MAX / 2, CHILDREN_MOST);
    }
    XSMI_TRY(xsmi_sparse_list(s->model, &s->tensors, err));
    s->sums = xsmi_allocate(ctx, s->tree->nodes, sizeof *s->sums);
    return s->sums ? XSM_OK : xsmi_fail_memory(err, s->tree->nodes * sizeof *s->sums, "the classes of a label tree");
}

static xsm_status bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    label_tree_state *s = state;
    xsm_label_tree_options o = XSM_LABEL_TREE_OPTIONS_INIT;
    if (problem->features == 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "sampler 'label-tree': its nodes score features, and the rows have none; 'uniform' or "
                         "'frequency' is accepted");
    }
    o.seed = problem->seed & UINT64_C(0xfffffffffffff);
    o.leaf = (uint32_t)s->leaf;
    XSMI_TRY(xsmi_fit_label_tree(problem->context, problem->train, &o, false, &s->model, NULL, err));
    XSMI_TRY(take_tree(s, err));
    divide_nodes(s, problem->class_counts);
    XSMI_TRY(xsm_sampler_new_from(problem->context, &xsmi_frequency_ops, &s->frequency, err));
    return xsm_sampler_bind(s->frequency, problem->train, err);
}

/* -- codes --------------------------------------------------------------------------------------------------------- */

/* A code has the bits of the clusters' nodes, rising, then this number for each cluster that is missing, then the
 * running sums. */
#define NO_CLUSTER (UINT32_C(1) << 30)

static uint32_t code_length(const void *state)
{
    return 2 * (uint32_t)((const label_tree_state *)state)->clusters;
}

static uint32_t cluster_at(const float *code, uint32_t j)
{
    uint32_t node;
    memcpy(&node, code + j, sizeof node); /* the bits of a finite number */
    return node;
}

static void put_cluster(float *code, uint32_t j, uint32_t node)
{
    memcpy(code + j, &node, sizeof node);
}

/* Offers a node to `list` if it is a cluster, and its inner children to `next`. */
static void open_node(const label_tree_state *s, uint32_t node, float before, const xsmi_features *x,
                      const xsmi_top *next, const xsmi_top *list)
{
    const xsmi_class_tree *t = s->tree;
    const uint32_t first = t->first_child[node], end = t->first_child[node + 1];
    float z[CHILDREN_MOST];
    uint32_t inner = 0;
    for (uint32_t v = first; v < end; v++) {
        inner += !xsmi_class_tree_is_leaf(t, v);
    }
    if (inner < end - first) {
        xsmi_top_offer_any(list, before, node);
    }
    if (inner > 0) {
        xsmi_label_children(s->trees, 0, node, x, z);
        for (uint32_t v = first; v < end; v++) {
            if (!xsmi_class_tree_is_leaf(t, v)) {
                xsmi_top_offer_any(next, before + z[v - first], v);
            }
        }
    }
}

static void search(const label_tree_state *s, const xsmi_features *x, const xsmi_top *list)
{
    float scores[2][BEAM_MOST] = {{0}};
    uint32_t nodes[2][BEAM_MOST] = {{0}}, count = 1;
    const uint32_t width = list->size;
    xsmi_top_start(list);
    for (int now = 0; count > 0; now = !now) {
        const xsmi_top next = {scores[!now], nodes[!now], width};
        xsmi_top_start(&next);
        for (uint32_t i = 0; i < count; i++) {
            open_node(s, nodes[now][i], scores[now][i], x, &next, list);
        }
        xsmi_top_sort(&next);
        for (count = 0; count < width && next.class_of[count] != XSMI_NO_CLASS; count++) {
        }
    }
    xsmi_top_sort(list);
}

static void encode(const void *state, const xsm_row *row, float *code)
{
    const label_tree_state *s = state;
    const xsmi_features x = {row->values, row->index, (size_t)row->count};
    const uint32_t size = (uint32_t)s->clusters;
    float score[BEAM_MOST], *sums = code + size;
    uint32_t node[BEAM_MOST], found = 0;
    const xsmi_top list = {score, node, size};
    search(s, &x, &list);
    const float best = score[0];
    for (; found < size && node[found] != XSMI_NO_CLASS; found++) { /* by their nodes */
        const uint32_t cluster = node[found];
        const float own = score[found];
        uint32_t at = found;
        for (; at > 0 && node[at - 1] > cluster; at--) {
            node[at] = node[at - 1];
            score[at] = score[at - 1];
        }
        node[at] = cluster;
        score[at] = own;
    }
    double total = 0, sum = 0;
    for (uint32_t j = 0; j < found; j++) {
        total += exp(s->power * ((double)score[j] - (double)best));
    }
    for (uint32_t j = 0; j < size; j++) {
        sum += j < found ? exp(s->power * ((double)score[j] - (double)best)) : 0;
        put_cluster(code, j, j < found ? node[j] : NO_CLUSTER);
        sums[j] = j + 1 >= found ? 1.0f : (float)(sum / total);
    }
}

/* -- draws --------------------------------------------------------------------------------------------------------- */

/* Returns the share of draws by frequency: 1 if the tree's scores are NaN. */
static double share_of(const label_tree_state *s, const float *code)
{
    return cluster_at(code, 0) < NO_CLUSTER ? s->share : 1;
}

/* Returns what element i adds to running sums that begin at `first`. */
static double step_of(const float *sums, uint32_t first, uint32_t i)
{
    return (double)sums[i] - (i > first ? (double)sums[i - 1] : 0);
}

/* Returns the first of running sums first..last that is above u < 1; that of the last is 1. */
static uint32_t find_sum(const float *sums, uint32_t first, uint32_t last, double u)
{
    while (first < last) {
        const uint32_t middle = first + (last - first) / 2;
        if ((double)sums[middle] > u) {
            last = middle;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

static double log_probability(const void *state, const float *code, uint32_t class)
{
    const label_tree_state *s = state;
    const uint32_t size = (uint32_t)s->clusters, leaf = s->tree->class_leaf[class], cluster = s->tree->parent[leaf];
    const double share = share_of(s, code),
                 by_frequency = s->frequency->ops.log_probability(s->frequency->state, NULL, class);
    uint32_t j = 0;
    while (j < size && cluster_at(code, j) < cluster) {
        j++;
    }
    if (j == size || cluster_at(code, j) != cluster) {
        return log(share) + by_frequency;
    }
    const double own = step_of(code + size, 0, j) * step_of(s->sums, s->tree->first_child[cluster], leaf);
    return log((1 - share) * own + share * exp(by_frequency));
}

static void draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities)
{
    const label_tree_state *s = state;
    const xsmi_class_tree *t = s->tree;
    const uint32_t size = (uint32_t)s->clusters;
    const double share = share_of(s, code);
    for (uint32_t i = 0; i < count; i++) {
        if (xsmi_stream_uniform(&random->stream) < share) {
            double own;
            s->frequency->ops.draw(s->frequency->state, NULL, random, 1, &classes[i], &own);
        } else {
            const double u = xsmi_stream_uniform(&random->stream), within = xsmi_stream_uniform(&random->stream);
            const uint32_t cluster = cluster_at(code, find_sum(code + size, 0, size - 1, u));
            const uint32_t leaf = find_sum(s->sums, t->first_child[cluster], t->first_child[cluster + 1] - 1, within);
            classes[i] = xsmi_class_tree_class(t, leaf);
        }
        log_probabilities[i] = log_probability(s, code, classes[i]);
    }
}

/* -- files --------------------------------------------------------------------------------------------------------- */

/* The arrays are those of a label tree model of one tree (model/sparse_file.h), those of the frequencies, and: */
#define LINK "link" /* I32 [1], an XSMI_LINK_* value */
#define SUMS "sums" /* F32 [nodes] */

static xsm_status save(const void *state, xsm_array_writer *writer, xsm_error *err)
{
    const label_tree_state *s = state;
    const xsm_array link = {sizeof link, LINK, XSM_DTYPE_INT32, 1, {1}, &s->trees->link};
    const xsm_array sums = {sizeof sums, SUMS, XSM_DTYPE_FLOAT32, 1, {s->tree->nodes}, s->sums};
    for (size_t i = 0; i < s->tensors.count; i++) {
        XSMI_TRY(xsmi_array_put(writer, &s->tensors.tensors[i], err));
    }
    XSMI_TRY(xsm_array_write(writer, &link, err));
    XSMI_TRY(xsm_array_write(writer, &sums, err));
    return xsmi_sampler_arrays(s->frequency, writer, err);
}

static const xsmi_tensor *find_array(const void *reader, const char *name)
{
    return xsmi_array_get(reader, name);
}

/* Whether the sums divide each node among the classes that are its children. */
static bool are_divided(const label_tree_state *s, const float *sums)
{
    const xsmi_class_tree *t = s->tree;
    bool good = sums[0] == 0.0f;
    for (uint32_t v = 0; good && v < t->nodes; v++) {
        const uint32_t first = t->first_child[v], end = t->first_child[v + 1];
        bool classes = false;
        float sum = 0.0f;
        for (uint32_t c = first; good && c < end; c++) {
            const bool leaf = xsmi_class_tree_is_leaf(t, c);
            good = leaf ? sums[c] >= sum && sums[c] <= 1.0f : sums[c] == sum; /* false for a NaN */
            classes = classes || leaf;
            sum = sums[c];
        }
        good = good && (first == end || sum == (classes ? 1.0f : 0.0f));
    }
    return good;
}

/* Whether a tree has biases, scales for each level, and F32 weights, all finite. */
static bool is_whole_tree(const xsmi_label_tree *tree)
{
    const xsmi_sparse *w = tree->weights;
    return w->bias && w->levels == tree->tree->depth && xsmi_sparse_dtype(w) == XSM_DTYPE_FLOAT32 &&
           xsmi_floats_finite(w->values, (size_t)xsmi_sparse_entries(w)) && xsmi_floats_finite(w->bias, w->rows);
}

/* Makes a model of the label tree, in memory of its own. */
static xsm_status load_model(label_tree_state *s, const xsm_sampler_problem *problem, const xsm_array_reader *reader,
                             xsm_error *err)
{
    const xsmi_tensor_list list = {find_array, reader, reader->name};
    xsm_array link = XSM_ARRAY_INIT;
    xsmi_label_tree tree = {NULL, NULL};
    uint32_t classes = problem->classes;
    XSMI_TRY(xsm_array_read(reader, LINK, XSM_DTYPE_INT32, 1, &link, err));
    const int32_t number = link.shape[0] == 1 ? *(const int32_t *)link.data : -1;
    xsm_status status = xsmi_sparse_find_tree(problem->context, &list, problem->features, 0, &classes, &tree, err);
    if (status == XSM_OK && !(tree.tree && classes == problem->classes && is_whole_tree(&tree) &&
                              number >= XSMI_LINK_LOG_SIGMOID && number <= XSMI_LINK_SOFTMAX)) {
        status = xsmi_fail(err, XSM_ERROR_FORMAT,
                           "%s: the arrays 'tree0.nodes' and so on and 'link' [1] must hold a label tree of finite "
                           "F32 weights over the %u classes",
                           reader->name, problem->classes);
    }
    status = status == XSM_OK ? xsmi_sparse_own_tree(problem->context, &tree, err) : status;
    status = status == XSM_OK ? xsmi_model_of_label_trees(problem->context, number, &tree, 1, &s->model, err) : status;
    xsmi_class_tree_release(tree.tree);
    xsmi_sparse_release(tree.weights);
    return status;
}

static xsm_status load(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err)
{
    label_tree_state *s = state;
    xsm_array sums = XSM_ARRAY_INIT;
    XSMI_TRY(load_model(s, problem, reader, err));
    XSMI_TRY(take_tree(s, err));
    XSMI_TRY(xsm_array_read(reader, SUMS, XSM_DTYPE_FLOAT32, 1, &sums, err));
    if (sums.shape[0] != s->tree->nodes || !are_divided(s, sums.data)) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: array '" SUMS
                         "' must have the running sums of the classes' shares of each node, %u in all",
                         reader->name, s->tree->nodes);
    }
    memcpy(s->sums, sums.data, s->tree->nodes * sizeof *s->sums);
    XSMI_TRY(xsm_sampler_new_from(problem->context, &xsmi_frequency_ops, &s->frequency, err));
    return xsmi_sampler_restore(s->frequency, reader, problem->classes, problem->features, err);
}

const xsm_sampler_ops xsmi_label_tree_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .name = "label-tree",
    .summary = "clusters of classes that a label tree fitted to the rows finds likely, and a share by frequency",
    .state_size = sizeof(label_tree_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .bind = bind,
    .unbind = unbind,
    .code_length = code_length,
    .encode = encode,
    .draw = draw,
    .log_probability = log_probability,
    .save = save,
    .load = load,
};
