/* Sparse weights and label trees in a model's file. */
#include "model/sparse_file.h"

#include "model/narrow.h"
#include "base/option.h"
#include "base/order.h"

#include <stdio.h>
#include <string.h>

/* The names of the tensors of sparse weights and of a tree. */
static const char *const names[XSMI_SPARSE_NAMES] = {"indptr", "values",         "values_scale", "bias",   "scales",
                                                     "blocks", XSMI_TREE_TENSOR, "columns",      "indices"};

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* Adds a tensor of tree `tree`, or of a linear model if `tree` is below 0. */
static void add(xsmi_sparse_tensors *l, int tree, int which, xsmi_dtype dtype, uint64_t rows, uint64_t columns,
                const void *data)
{
    char *name = l->names[l->count];
    if (tree < 0) {
        snprintf(name, sizeof *l->names, "%s", names[which]);
    } else {
        snprintf(name, sizeof *l->names, "tree%d.%s", tree, names[which]);
    }
    xsmi_tensor *t = &l->tensors[l->count++];
    *t = (xsmi_tensor){.name = name,
                       .dtype = dtype,
                       .rank = columns > 1 ? 2 : 1,
                       .shape = {rows, columns > 1 ? columns : 0},
                       .size = (size_t)(rows * columns) * xsmi_dtype_size(dtype),
                       .data = data};
}

/* Adds the tensors whose elements have that many bytes. */
static void add_sized(xsmi_sparse_tensors *l, int tree, const xsmi_sparse *s, const xsmi_class_tree *t, size_t bytes)
{
    const xsmi_sparse_place *end = &s->places[s->chunks];
    const int32_t dtype = xsmi_sparse_dtype(s);
    if (bytes == xsmi_number_bytes(dtype)) { /* before the others: tensors of integers follow those of weights */
        add(l, tree, XSMI_SPARSE_VALUES, xsmi_kind_of(dtype)->tensor, end->entry, 1, xsmi_sparse_numbers(s));
    }
    if (bytes == 8) {
        add(l, tree, XSMI_SPARSE_PLACES, XSMI_DTYPE_U64, (uint64_t)s->chunks + 1, 4, s->places);
    } else if (bytes == 4) {
        if (s->factors) {
            add(l, tree, XSMI_SPARSE_FACTORS, XSMI_DTYPE_F32, s->rows, 1, s->factors);
        }
        if (s->bias) {
            add(l, tree, XSMI_SPARSE_BIAS, XSMI_DTYPE_F32, s->rows, 1, s->bias);
        }
        if (s->scales) {
            add(l, tree, XSMI_SPARSE_SCALES, XSMI_DTYPE_F32, s->levels, 2, s->scales);
        }
        add(l, tree, XSMI_SPARSE_BLOCKS, XSMI_DTYPE_U32, end->block, 2, s->blocks);
        if (t) {
            add(l, tree, XSMI_SPARSE_NODES, XSMI_DTYPE_U32, t->nodes, 1, t->made);
        }
    } else if (bytes == 2) {
        add(l, tree, XSMI_SPARSE_COLUMNS, XSMI_DTYPE_U16, end->column, 2, s->columns);
        if (s->row16) {
            add(l, tree, XSMI_SPARSE_INDICES, XSMI_DTYPE_U16, end->entry, 1, s->row16);
        }
    } else if (s->row8) {
        add(l, tree, XSMI_SPARSE_INDICES, XSMI_DTYPE_U8, end->entry, 1, s->row8);
    }
}

xsm_status xsmi_sparse_list_trees(xsm_context *ctx, const xsmi_sparse *linear, const xsmi_label_tree *trees,
                                  uint32_t count, xsmi_sparse_tensors *list, xsm_error *err)
{
    *list = (xsmi_sparse_tensors){.context = ctx, .capacity = XSMI_SPARSE_NAMES * ((size_t)count + (linear != NULL))};
    list->tensors = xsmi_allocate(ctx, list->capacity, sizeof *list->tensors);
    list->names = xsmi_allocate(ctx, list->capacity, sizeof *list->names);
    if (!list->tensors || !list->names) {
        xsmi_sparse_list_free(list);
        return xsmi_fail_memory(err, list->capacity * sizeof *list->tensors, "a list of tensors");
    }
    for (size_t bytes = 8; bytes > 0; bytes /= 2) {
        if (linear) {
            add_sized(list, -1, linear, NULL, bytes);
        }
        for (uint32_t t = 0; t < count; t++) {
            add_sized(list, (int)t, trees[t].weights, trees[t].tree, bytes);
        }
    }
    return XSM_OK;
}

xsm_status xsmi_sparse_list(const xsm_model *m, xsmi_sparse_tensors *list, xsm_error *err)
{
    const xsmi_label_trees *l = xsmi_model_trees(m);
    return xsmi_sparse_list_trees(m->context, m->w.sparse, l ? l->tree : NULL, l ? l->count : 0, list, err);
}

int xsmi_sparse_which(const char *name)
{
    const char *const point = strrchr(name, '.');
    int which = 0;
    name = point ? point + 1 : name;
    while (which < XSMI_SPARSE_NAMES && strcmp(names[which], name) != 0) {
        which++;
    }
    return which;
}

void xsmi_sparse_list_free(xsmi_sparse_tensors *list)
{
    xsmi_release(list->context, list->tensors, list->capacity, sizeof *list->tensors);
    xsmi_release(list->context, list->names, list->capacity, sizeof *list->names);
    *list = (xsmi_sparse_tensors){.context = list->context};
}

void xsmi_label_trees_describe(const xsmi_label_trees *l, char text[XSMI_LABEL_TREES_TEXT])
{
    snprintf(text, XSMI_LABEL_TREES_TEXT, "%u %s", l->count, xsmi_link_names[l->link]);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

bool xsmi_sparse_in_file(const xsmi_container *file)
{
    return xsmi_container_tensor(file, names[XSMI_SPARSE_PLACES]) ||
           xsmi_container_metadata(file, XSMI_KEY_LABEL_TREES);
}

typedef struct source {
    xsm_context *context;
    xsmi_tensor_list list;
    uint32_t features;
} source;

static const xsmi_tensor *find_in_file(const void *file, const char *name)
{
    return xsmi_container_tensor(file, name);
}

static source source_of(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t features)
{
    return (source){ctx, {find_in_file, file, name}, features};
}

static const xsmi_tensor *find(const source *s, int tree, int which)
{
    char name[32];
    if (tree < 0) {
        return s->list.find(s->list.where, names[which]);
    }
    snprintf(name, sizeof name, "tree%d.%s", tree, names[which]);
    return s->list.find(s->list.where, name);
}

static xsm_status bad_weights(const source *s, int tree, xsm_error *err)
{
    char which[24] = "", types[192] = "";
    if (tree >= 0) {
        snprintf(which, sizeof which, " of tree %d", tree);
    }
    for (const xsmi_weight_kind *k = xsmi_kind_after(NULL); k; k = xsmi_kind_after(k)) {
        const size_t at = strlen(types);
        snprintf(types + at, sizeof types - at, "%s%s%s", at > 0 ? ", " : "", xsmi_dtype_name(k->tensor),
                 k->whole ? " with a tensor 'values_scale' of a factor for each row, 0 and more" : "");
    }
    return xsmi_fail(err, XSM_ERROR_FORMAT,
                     "%s: the tensors 'indptr', 'values', 'blocks', 'columns' and 'indices'%s must hold sparse weights "
                     "over %u features: chunks of rows, with rising features in each and rising rows for each "
                     "feature; values of one of %s; finite biases",
                     s->list.name, which, s->features, types);
}

/* Whether the tensor is there and has that dtype, and rank 1 or, with columns, rank 2 and so many columns. */
static bool is_list(const xsmi_tensor *t, xsmi_dtype dtype, uint64_t columns)
{
    return t && t->dtype == dtype && (columns > 1 ? t->rank == 2 && t->shape[1] == columns : t->rank == 1);
}

/* Whether a tensor has weights of a known type, and factors if the type has them. */
static bool has_numbers(const xsmi_tensor *values, const xsmi_tensor *factors)
{
    const xsmi_weight_kind *kind = values ? xsmi_kind_in_file(values->dtype) : NULL;
    return kind && values->rank == 1 && (kind->whole > 0) == (factors != NULL);
}

/* Returns the values as numbers in fewer bits; of float32 `data` is NULL. */
static xsmi_narrow numbers_of(const xsmi_tensor *values)
{
    const int32_t dtype = xsmi_kind_in_file(values->dtype)->dtype;
    return (xsmi_narrow){dtype, dtype == XSM_DTYPE_FLOAT32 ? NULL : values->data, 0};
}

/* The tensors of sparse weights, each NULL if the file lacks it. */
typedef struct all_tensors {
    const xsmi_tensor *indptr, *values, *factors, *bias, *scales, *blocks, *columns, *indices;
} all_tensors;

static all_tensors find_all(const source *s, int tree)
{
    return (all_tensors){.indptr = find(s, tree, XSMI_SPARSE_PLACES),
                         .values = find(s, tree, XSMI_SPARSE_VALUES),
                         .factors = find(s, tree, XSMI_SPARSE_FACTORS),
                         .bias = tree < 0 ? NULL : find(s, tree, XSMI_SPARSE_BIAS),
                         .scales = tree < 0 ? NULL : find(s, tree, XSMI_SPARSE_SCALES),
                         .blocks = find(s, tree, XSMI_SPARSE_BLOCKS),
                         .columns = find(s, tree, XSMI_SPARSE_COLUMNS),
                         .indices = find(s, tree, XSMI_SPARSE_INDICES)};
}

static bool has_bytes(const all_tensors *t)
{
    return is_list(t->indices, XSMI_DTYPE_U8, 1);
}

/* Whether the tensors have the dtypes and ranks of sparse weights, and at least one chunk. */
static bool are_lists(const all_tensors *t)
{
    return is_list(t->indptr, XSMI_DTYPE_U64, 4) && t->indptr->shape[0] >= 2 && has_numbers(t->values, t->factors) &&
           is_list(t->blocks, XSMI_DTYPE_U32, 2) && is_list(t->columns, XSMI_DTYPE_U16, 2) &&
           (!t->scales || (is_list(t->scales, XSMI_DTYPE_F32, 2) && t->scales->shape[0] - 1 < XSMI_TREE_DEPTH)) &&
           (has_bytes(t) || is_list(t->indices, XSMI_DTYPE_U16, 1)) && t->indices->shape[0] == t->values->shape[0];
}

static const xsmi_sparse_place *places_of(const all_tensors *t)
{
    return (const xsmi_sparse_place *)(const void *)t->indptr->data;
}

static bool are_finite(const xsmi_tensor *t)
{
    return xsmi_floats_finite((const float *)(const void *)t->data, (size_t)t->shape[0]);
}

/* Whether there are as many factors and biases as rows, and all biases are finite. */
static bool have_rows(const all_tensors *t, uint32_t rows)
{
    return (!t->bias || (xsmi_tensor_is(t->bias, XSMI_DTYPE_F32, 1, rows, 0) && are_finite(t->bias))) &&
           (!t->factors || xsmi_tensor_is(t->factors, XSMI_DTYPE_F32, 1, rows, 0));
}

/* Returns the arrays of the tensors. */
static xsmi_sparse_arrays arrays_of(const source *s, const all_tensors *t)
{
    const bool bytes = has_bytes(t);
    return (xsmi_sparse_arrays){
        .rows = places_of(t)[t->indptr->shape[0] - 1].row,
        .features = s->features,
        .places = places_of(t),
        .place_count = (size_t)t->indptr->shape[0],
        .blocks = (const xsmi_sparse_block *)(const void *)t->blocks->data,
        .block_count = (size_t)t->blocks->shape[0],
        .columns = (const xsmi_sparse_column *)(const void *)t->columns->data,
        .column_count = (size_t)t->columns->shape[0],
        .row8 = bytes ? t->indices->data : NULL,
        .row16 = bytes ? NULL : (const uint16_t *)(const void *)t->indices->data,
        .values = t->values->dtype == XSMI_DTYPE_F32 ? (const float *)(const void *)t->values->data : NULL,
        .narrow = numbers_of(t->values),
        .factors = t->factors ? (const float *)(const void *)t->factors->data : NULL,
        .entries = (size_t)t->values->shape[0],
        .bias = t->bias ? (const float *)(const void *)t->bias->data : NULL,
        .scales = t->scales ? (const float *)(const void *)t->scales->data : NULL,
        .levels = t->scales ? (uint32_t)t->scales->shape[0] : 0,
    };
}

/* Makes sparse weights over the file's memory; they must have `rows` rows, or any number if `rows` is 0. */
static xsm_status read_weights(const source *s, int tree, uint32_t rows, xsmi_sparse **out, xsm_error *err)
{
    const all_tensors t = find_all(s, tree);
    *out = NULL;
    if (are_lists(&t)) {
        xsmi_sparse_arrays a = arrays_of(s, &t);
        a.rows = rows ? rows : a.rows;
        if (have_rows(&t, a.rows)) {
            XSMI_TRY(xsmi_sparse_over(s->context, &a, out, err));
        }
    }
    return *out ? XSM_OK : bad_weights(s, tree, err);
}

/* Returns the number of classes of a tree, which is that of its leaves. */
static uint32_t count_leaves(const xsmi_tensor *nodes)
{
    const uint32_t *made = (const uint32_t *)(const void *)nodes->data;
    uint64_t count = 0;
    for (uint64_t v = 0; v < nodes->shape[0]; v++) {
        count += made[v] >> 31;
    }
    return (uint32_t)XSMI_MIN(count, UINT32_MAX);
}

/* Reads tree `tree`; the first tree sets *classes. */
static xsm_status read_tree(const source *s, int tree, uint32_t *classes, xsmi_label_tree *out, xsm_error *err)
{
    const xsmi_tensor *nodes = find(s, tree, XSMI_SPARSE_NODES);
    if (is_list(nodes, XSMI_DTYPE_U32, 1)) {
        *classes = tree == 0 ? count_leaves(nodes) : *classes;
        XSMI_TRY(xsmi_class_tree_new(s->context, (const uint32_t *)(const void *)nodes->data, (size_t)nodes->shape[0],
                                     *classes, XSMI_TREE_BY_LEVEL, &out->tree, err));
    }
    if (!out->tree) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: tensor 'tree%d.nodes' must hold a tree in which each class is one leaf, the same in "
                         "every tree, at most %d steps below the root",
                         s->list.name, tree, XSMI_TREE_DEPTH);
    }
    XSMI_TRY(read_weights(s, tree, out->tree->nodes - 1, &out->weights, err));
    return xsmi_label_tree_fits(out) ? XSM_OK : bad_weights(s, tree, err);
}

xsm_status xsmi_sparse_find_tree(xsm_context *ctx, const xsmi_tensor_list *tensors, uint32_t features, int tree,
                                 uint32_t *classes, xsmi_label_tree *out, xsm_error *err)
{
    const source s = {ctx, *tensors, features};
    *out = (xsmi_label_tree){NULL, NULL};
    const xsm_status status = find(&s, tree, XSMI_SPARSE_NODES) ? read_tree(&s, tree, classes, out, err)
                                                                : read_weights(&s, tree, 0, &out->weights, err);
    if (status != XSM_OK) {
        xsmi_class_tree_release(out->tree);
        xsmi_sparse_release(out->weights);
        *out = (xsmi_label_tree){NULL, NULL};
    }
    return status;
}

xsm_status xsmi_sparse_read_tree(xsm_context *ctx, const xsmi_container *file, const char *name, uint32_t features,
                                 int tree, uint32_t *classes, xsmi_label_tree *out, xsm_error *err)
{
    const source s = source_of(ctx, file, name, features);
    return xsmi_sparse_find_tree(ctx, &s.list, features, tree, classes, out, err);
}

xsm_status xsmi_sparse_own_tree(xsm_context *ctx, xsmi_label_tree *tree, xsm_error *err)
{
    xsmi_sparse *others = tree->weights;
    xsmi_sparse_builder *builder;
    tree->weights = NULL;
    xsm_status status = xsmi_sparse_builder_new(ctx, others->features, others->bias != NULL, &builder, err);
    if (status == XSM_OK) {
        status = xsmi_sparse_builder_load(builder, others, err);
        status = status == XSM_OK ? xsmi_sparse_builder_finish(builder, &tree->weights, err) : status;
        status = status == XSM_OK && others->scales
                     ? xsmi_sparse_set_scales(tree->weights, others->scales, others->levels, err)
                     : status;
        xsmi_sparse_builder_free(builder);
    }
    xsmi_sparse_release(others);
    return status;
}

static xsm_status read_trees(const source *s, const char *text, xsmi_label_tree *trees, int *count, int32_t *link,
                             uint32_t *classes, xsm_error *err)
{
    char number[XSMI_LABEL_TREES_TEXT] = "";
    const char *blank = strchr(text, ' ');
    int64_t wanted = 0;
    if (blank && (size_t)(blank - text) < sizeof number) {
        memcpy(number, text, (size_t)(blank - text));
        (void)xsmi_parse_int(number, &wanted);
    }
    for (*link = 0; blank && xsmi_link_names[*link] && strcmp(xsmi_link_names[*link], blank + 1) != 0; ++*link) {
    }
    if (wanted < 1 || wanted > XSMI_LABEL_TREES || !xsmi_link_names[*link]) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: the metadata '" XSMI_KEY_LABEL_TREES "' is '%.100s'; accepted is a number of trees, 1 to "
                         "%d, and sigmoid, hinge, softmax or normalised",
                         s->list.name, text, XSMI_LABEL_TREES);
    }
    for (int t = 0; t < wanted; t++) {
        *count = t + 1;
        XSMI_TRY(read_tree(s, t, classes, &trees[t], err));
    }
    return XSM_OK;
}

static xsm_status read_features(source *s, const xsmi_container *file, xsm_error *err)
{
    const char *text = xsmi_container_metadata(file, XSMI_KEY_SPARSE_FEATURES);
    int64_t features = -1;
    if (!text || !xsmi_parse_int(text, &features) || features < 0 || features > XSM_FEATURES_MAX) {
        return xsmi_fail(err, XSM_ERROR_FORMAT,
                         "%s: sparse weights need the metadata '" XSMI_KEY_SPARSE_FEATURES "', 0 to %u", s->list.name,
                         XSM_FEATURES_MAX);
    }
    s->features = (uint32_t)features;
    return XSM_OK;
}

xsm_status xsmi_sparse_model_read(xsm_context *ctx, const xsmi_container *file, const char *name, xsm_model **out,
                                  xsm_error *err)
{
    source s = source_of(ctx, file, name, 0);
    const char *text = xsmi_container_metadata(file, XSMI_KEY_LABEL_TREES);
    XSMI_TRY(read_features(&s, file, err));
    if (!text) {
        xsmi_sparse *weights;
        XSMI_TRY(read_weights(&s, -1, 0, &weights, err));
        const xsm_status status = xsmi_model_of_sparse(ctx, weights, out, err);
        xsmi_sparse_release(weights);
        return status;
    }
    xsmi_label_tree trees[XSMI_LABEL_TREES] = {{NULL, NULL}};
    int count = 0;
    int32_t link;
    uint32_t classes = 0;
    xsm_status status = read_trees(&s, text, trees, &count, &link, &classes, err);
    if (status == XSM_OK) {
        status = xsmi_model_of_label_trees(ctx, link, trees, (uint32_t)count, out, err);
    }
    for (int t = 0; t < count; t++) {
        xsmi_class_tree_release(trees[t].tree);
        xsmi_sparse_release(trees[t].weights);
    }
    return status;
}
