/* Estimators: checks their tables, allocates their states, sets their options. */
#include "estimator/estimator.h"
#include "base/entry.h"
#include "base/hash.h"
#include "index/index.h"
#include "model/together.h"
#include "base/heap_sort.h"
#include "base/order.h"

#include <stdio.h>
#include <string.h>

#include <xsoftmax/bindings.h>

static const xsm_option common_options[] = {
    XSMI_OPTION_DOUBLE("ridge", xsmi_common_options, ridge, "0", 0, XSMI_RIDGE_MAX,
                       "mu of the penalty (mu/2)||W||^2 on the sum of the losses; the bias is free"),
    XSMI_OPTION_SEED(xsmi_common_options, "names the random stream that classes are drawn from"),
};
static const xsm_option sampled_options[] = {
    XSMI_OPTION_CHOICE("sampler", xsmi_common_options, sampler, xsmi_sampler_names, "uniform",
                       "what classes are drawn with; its own options are set as sampler.KEY"),
    XSMI_OPTION_BOOL("shared", xsmi_common_options, shared, "no", "classes are drawn once for all rows of a minibatch"),
};
static const xsm_option searched_options[] = {
    XSMI_OPTION_CHOICE("index", xsmi_common_options, index, xsmi_index_names, "spherical",
                       "what classes are searched with; its own options are set as index.KEY"),
};
static const xsm_option hierarchy_options[] = {
    XSMI_OPTION_CHOICE("tree", xsmi_common_options, tree, xsmi_hierarchy_names, "huffman",
                       "shape of the tree: huffman by how frequent classes are, balanced in their order, or fitted as "
                       "by the sampler 'tree'"),
};

/* -- kinds --------------------------------------------------------------------------------------------------------- */

/* Functions of a table by which the kinds differ. */
enum {
    WIDTH = 1 << 0,
    SELECT = 1 << 1,
    PLAN = 1 << 2,
    SEARCH_PLAN = 1 << 3,
    SEARCH = 1 << 4,
    EXACT = 1 << 5,
    SIFT = 1 << 6,
    ROW_BOUND = 1 << 7,
    JOINT = 1 << 8,
    JOINT_WIDTH = 1 << 9,
    JOINT_SELECT = 1 << 10,
    JOINTLY = JOINT | JOINT_WIDTH | JOINT_SELECT
};

static const char *const function_names[] = {"width", "select",    "plan",  "search_plan", "search",      "exact",
                                             "sift",  "row_bound", "joint", "joint_width", "joint_select"};
static const char *const property_names[] = {"proximal",  "row state", "several labels", "corrected", "other loss",
                                             "unbounded", "weights",   "label weights",  "sigmoid"};

#define ANY_LOSS                                                                                                       \
    (XSM_ESTIMATOR_OTHER_LOSS | XSM_ESTIMATOR_UNBOUNDED | XSM_ESTIMATOR_WEIGHTED | XSM_ESTIMATOR_LABEL_WEIGHTED)
#define SEVERAL (ANY_LOSS | XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_SIGMOID)
#define BY_ROW (SEVERAL | XSM_ESTIMATOR_ROW_STATE)
#define STEPS (BY_ROW | XSM_ESTIMATOR_PROXIMAL)

typedef struct kind {
    const char *name;
    uint32_t properties;      /* that it may have */
    uint32_t needed, allowed; /* functions that it must have, and those that it may have besides */
    xsmi_option_table options;
} kind;

/* What a table of each kind must and may have, by XSM_ESTIMATOR_LISTED and so on. */
static const kind kinds[] = {
    {"listed", STEPS, WIDTH | SELECT, EXACT | ROW_BOUND | JOINTLY, {NULL, 0}},
    {"exact", BY_ROW, 0, SIFT, {NULL, 0}},
    {"sampled", STEPS | XSM_ESTIMATOR_CORRECTED, PLAN, EXACT | ROW_BOUND | JOINTLY, XSMI_OPTION_TABLE(sampled_options)},
    {"searched", SEVERAL, WIDTH | SELECT | SEARCH_PLAN | SEARCH, ROW_BOUND, XSMI_OPTION_TABLE(searched_options)},
    {"hierarchy", ANY_LOSS, 0, ROW_BOUND, XSMI_OPTION_TABLE(hierarchy_options)},
};
enum { KINDS = sizeof kinds / sizeof *kinds, CLASS_SUMS_MOST = 8 };

static const kind *kind_of(const xsm_estimator_ops *ops)
{
    return ops->kind >= 0 && ops->kind < KINDS ? &kinds[ops->kind] : NULL;
}

/* Returns the options of an estimator: those of all estimators, those of its kind, its own. */
static xsmi_option_group options_of(const xsm_estimator_ops *ops, void *common, void *state)
{
    const kind *k = kind_of(ops);
    xsmi_option_group group = {
        "estimator",
        ops->name,
        {XSMI_OPTION_TABLE(common_options), k ? k->options : kinds[0].options, {ops->options, ops->option_count}},
        {common, common, state},
    };
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

/* xsm_estimator_ops_option() */
XSMI_DESCRIBE_OPS(estimator)

static uint32_t functions_of(const xsm_estimator_ops *ops)
{
    const bool has[] = {
        ops->width, ops->select,    ops->plan,  ops->search_plan, ops->search,       ops->exact,
        ops->sift,  ops->row_bound, ops->joint, ops->joint_width, ops->joint_select,
    };
    uint32_t functions = 0;
    for (size_t i = 0; i < sizeof has / sizeof *has; i++) {
        functions |= (uint32_t)has[i] << i;
    }
    return functions;
}

/* Returns the name of the lowest bit. */
static const char *first_name(const char *const *names, uint32_t bits)
{
    size_t i = 0;
    while (!(bits >> i & 1)) {
        i++;
    }
    return names[i];
}

static xsm_status check_class_sums(const xsm_estimator_ops *ops, xsm_error *err)
{
    const xsm_class_sums *c = ops->class_sums;
    if (c->size != sizeof *c || !c->sums || !c->gradient || c->count < 1 || c->count > CLASS_SUMS_MOST) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': xsm_class_sums needs its size, 1 to %d sums, sums() and gradient()",
                         ops->name, CLASS_SUMS_MOST);
    }
    if (c->single < 0 || c->single > 2) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_class_sums.single is %d; accepted is 0 to 2", c->single);
    }
    if (xsmi_sums_are_relative(c) && (c->count != 1 || !c->most)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': relative xsm_class_sums need most(), and one sum",
                         ops->name);
    }
    if ((ops->kind != XSM_ESTIMATOR_EXACT && !ops->exact) || ops->sift ||
        (ops->flags & (XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_PROXIMAL))) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': xsm_class_sums are for tables that score every class, without sift() and "
                         "state for each row",
                         ops->name);
    }
    return XSM_OK;
}

/* Checks that the table has the functions that its kind needs, and no function or property that the kind has no use
 * for. */
static xsm_status check_kind(const xsm_estimator_ops *ops, xsm_error *err)
{
    const kind *k = kind_of(ops);
    const uint32_t known = STEPS | XSM_ESTIMATOR_CORRECTED, functions = functions_of(ops);
    if (!k) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': kind %d is not known; accepted is 0 to %d",
                         ops->name, ops->kind, KINDS - 1);
    }
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_estimator_ops, ops, reserved, err));
    if (ops->flags & ~known) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': flags 0x%x are not known", ops->name,
                         ops->flags & ~known);
    }
    if (ops->flags & ~k->properties) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': a table of kind %s cannot have the flag for %s",
                         ops->name, k->name, first_name(property_names, ops->flags & ~k->properties));
    }
    if (k->needed & ~functions) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': a table of kind %s needs %s()", ops->name, k->name,
                         first_name(function_names, k->needed & ~functions));
    }
    if (functions & ~(k->needed | k->allowed)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': a table of kind %s cannot have %s()", ops->name,
                         k->name, first_name(function_names, functions & ~(k->needed | k->allowed)));
    }
    XSMI_TRY(ops->class_sums ? check_class_sums(ops, err) : XSM_OK);
    if ((functions & JOINTLY) != 0 && (functions & JOINTLY) != JOINTLY) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': joint_width(), joint_select() and joint() go together", ops->name);
    }
    if (ops->exact &&
        ((ops->flags & (XSM_ESTIMATOR_PROXIMAL | XSM_ESTIMATOR_CORRECTED)) || ops->row_bound || ops->joint)) {
        return xsmi_fail(
            err, XSM_ERROR_ARGUMENT,
            "estimator '%s': exact() is for tables without row_bound(), joint() and the flags for proximal "
            "and corrected",
            ops->name);
    }
    return XSM_OK;
}

static xsm_status read_ops(const xsm_estimator_ops *given, xsm_estimator_ops *ops, xsm_error *err)
{
    memset(ops, 0, sizeof *ops);
    XSMI_TRY(XSMI_READ_TABLE(xsm_estimator_ops, ops, given, err));
    if (!ops->name || !ops->summary || !ops->gradient) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': the table needs name, summary and gradient()",
                         ops->name ? ops->name : "?");
    }
    XSMI_TRY(check_kind(ops, err));
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_check(&group, ops->state_size, err);
}

/* -- lists of classes as options, whose memory the estimator owns -------------------------------------------------- */

static xsm_class_list *list_of(const xsm_estimator *e, const xsm_option *option)
{
    return (xsm_class_list *)(void *)((char *)e->state + option->offset);
}

static void clear_class_list(xsm_estimator *e, const xsm_option *option)
{
    xsm_class_list *list = list_of(e, option);
    if (list->classes) {
        xsmi_release(e->context, (void *)(uintptr_t)list->classes, list->count, sizeof *list->classes);
    }
    memset(list, 0, sizeof *list);
}

/* Replaces the present list by a copy of the given list. */
static xsm_status set_class_list(xsm_estimator *e, const xsm_option *option, const uint32_t *classes, size_t count,
                                 xsm_error *err)
{
    if (count == 0) {
        clear_class_list(e, option);
        return XSM_OK;
    }
    uint32_t *copy = xsmi_allocate(e->context, count, sizeof *copy);
    uint32_t *sorted = copy ? xsmi_allocate(e->context, count, sizeof *sorted) : NULL;
    xsm_status status = XSM_OK;
    if (!sorted) {
        status = xsmi_fail_memory(err, count * sizeof *copy, "a list of classes");
    } else {
        memcpy(copy, classes, count * sizeof *copy);
        memcpy(sorted, classes, count * sizeof *sorted);
        xsmi_heap_sort(sorted, count, sizeof *sorted, xsmi_compare_u32);
        for (size_t i = 1; status == XSM_OK && i < count; i++) {
            if (sorted[i] == sorted[i - 1]) {
                status = xsmi_fail(err, XSM_ERROR_RANGE, "option '%s' has class %u twice", option->name, sorted[i]);
            }
        }
        if (status == XSM_OK && sorted[count - 1] >= XSM_CLASSES_MAX) {
            status = xsmi_fail(err, XSM_ERROR_RANGE, "option '%s' has class %u; accepted are numbers below %u",
                               option->name, sorted[count - 1], XSM_CLASSES_MAX);
        }
        xsmi_release(e->context, sorted, count, sizeof *sorted);
    }
    if (status != XSM_OK) {
        xsmi_release(e->context, copy, count, sizeof *copy);
        return status;
    }
    clear_class_list(e, option);
    *list_of(e, option) = (xsm_class_list){copy, count};
    return XSM_OK;
}

/* Parses "3,17,4", or an empty list. */
static xsm_status parse_class_list(xsm_estimator *e, const xsm_option *option, const char *text, xsm_error *err)
{
    uint32_t count = *text ? 1 : 0;
    for (const char *c = text; *c; c++) {
        count += *c == ',';
    }
    uint32_t *classes;
    XSMI_TRY(xsmi_array_new(e->context, &classes, count, sizeof *classes, "a list of classes", err));
    xsm_status status = XSM_OK;
    const char *at = text;
    for (uint32_t i = 0; status == XSM_OK && i < count; i++) {
        size_t length = strcspn(at, ",");
        uint64_t number = 0;
        for (size_t j = 0; j < length && j < 11; j++) {
            number = number * 10 + (uint64_t)(at[j] - '0');
        }
        if (length == 0 || length > 10 || strspn(at, "0123456789") != length || number > UINT32_MAX) {
            status =
                xsmi_fail(err, XSM_ERROR_FORMAT,
                          "option '%s': '%.*s' at position %u is no class; numbers from 0 with commas between them are "
                          "accepted",
                          option->name, (int)(XSMI_MIN(length, 40)), at, i + 1);
        }
        classes[i] = (uint32_t)number;
        at += length + 1;
    }
    if (status == XSM_OK) {
        status = set_class_list(e, option, classes, count, err);
    }
    xsmi_release(e->context, classes, count, sizeof *classes);
    return status;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

/* Makes the index that the option names and replaces the present one. */
static xsm_status make_index(xsm_estimator *e, xsm_error *err)
{
    xsm_index *made;
    XSMI_TRY(xsm_index_new(e->context, xsmi_index_names[e->common.index], &made, err));
    if (e->search.index == e->search.own) {
        e->search.index = made;
    }
    xsm_index_free(e->search.own);
    e->search.own = made;
    return XSM_OK;
}

/* Makes the sampler or the index that the options name, for the kinds with one. */
static xsm_status make_sampler_or_index(xsm_estimator *e, xsm_error *err)
{
    return e->ops.kind == XSM_ESTIMATOR_SAMPLED    ? xsmi_estimator_make_sampler(e, err)
           : e->ops.kind == XSM_ESTIMATOR_SEARCHED ? make_index(e, err)
                                                   : XSM_OK;
}

xsm_status xsm_estimator_new_from(xsm_context *context, const xsm_estimator_ops *given, xsm_estimator **out,
                                  xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_TRY(xsmi_need("xsm_estimator_new", XSMI_GIVEN({out, "out"}, {given, "the table"}), err));
    xsm_estimator_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_estimator *e;
    XSMI_TRY(XSMI_OBJECT_NEW(context, &e, xsm_estimator, "an estimator", err));
    xsmi_holders_start(&e->holders);
    e->ops = ops;
    xsm_status status = xsmi_struct_new(e->context, &e->state, ops.state_size, "an estimator", err);
    if (status != XSM_OK) {
        XSMI_OBJECT_FREE(e, xsm_estimator);
        return status;
    }
    xsmi_option_group group = options_of(&e->ops, &e->common, e->state);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_COMMON], &e->common);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_KIND], &e->common);
    xsmi_option_defaults(&group.table[XSMI_OPTIONS_OWN], e->state);
    status = make_sampler_or_index(e, err);
    if (status != XSM_OK) {
        xsm_estimator_free(e);
        return status;
    }
    *out = e;
    return XSM_OK;
}

void xsmi_estimator_clear(xsm_estimator *e)
{
    if (e->ops.unbind) {
        e->ops.unbind(e->state);
    }
    xsmi_spans_free(e->spans);
    xsmi_searcher_free(e->search.searcher);
    xsmi_estimator_unbind_sampler(e);
    xsmi_release(e->context, e->norms, e->norm_count, sizeof *e->norms);
    xsmi_stream_free(e->stream);
    e->spans = NULL;
    e->search.searcher = NULL;
    e->norms = NULL;
    e->stream = NULL;
}

void xsmi_estimator_unbind(xsm_estimator *e)
{
    if (e->model) {
        const xsm_model *model = e->model;
        const xsm_dataset *train = e->train;
        xsmi_estimator_clear(e);
        e->model = NULL;
        e->train = NULL;
        xsmi_dataset_release(train);
        xsmi_model_release(model);
    }
}

xsm_estimator *xsm_estimator_ref(const xsm_estimator *estimator)
{
    return xsmi_estimator_retain(estimator);
}

void xsm_estimator_free(xsm_estimator *e)
{
    if (e && xsmi_holders_drop(&e->holders)) {
        xsm_context *ctx = e->context;
        xsmi_estimator_unbind(e);
        xsm_sampler_free(e->sampling.sampler != e->sampling.own ? e->sampling.sampler : NULL);
        xsm_sampler_free(e->sampling.own);
        xsm_index_free(e->search.index != e->search.own ? e->search.index : NULL);
        xsm_index_free(e->search.own);
        const xsmi_option_table own = options_of(&e->ops, NULL, NULL).table[XSMI_OPTIONS_OWN];
        for (size_t i = 0; i < own.count; i++) {
            const xsm_option *option = xsmi_option_at(&own, i);
            if (option->type == XSM_OPTION_CLASSES) {
                clear_class_list(e, option);
            }
        }
        xsmi_release(ctx, e->state, e->ops.state_size, 1);
        XSMI_OBJECT_FREE(e, xsm_estimator);
    }
}

xsm_status xsm_estimator_get_info(const xsm_estimator *e, xsm_estimator_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the estimator"});
    xsm_estimator_info known = XSM_ESTIMATOR_INFO_INIT;
    known.name = e->ops.name;
    known.sampler = e->sampling.sampler;
    known.batch_limit = e->ops.batch_limit;
    return XSMI_WRITE(xsm_estimator_info, &known, info, err);
}

/* -- options ------------------------------------------------------------------------------------------------------- */

/* Returns KEY of an option's name "sampler.KEY" or "index.KEY" if the estimator has a sampler or an index, otherwise
 * NULL. */
static const char *part_key(const xsm_estimator *e, const char *name)
{
    const char *prefix = e->sampling.sampler ? "sampler." : "index.";
    size_t length = strlen(prefix);
    return (e->sampling.sampler || e->search.index) && name && strncmp(name, prefix, length) == 0 ? name + length
                                                                                                  : NULL;
}

/* Opens the options if one of that name may be set now. Options "sampler.KEY" and "index.KEY" belong to the sampler and
 * the index: *key is then KEY, otherwise NULL. */
static xsm_status open_options(xsm_estimator *e, const char *name, xsmi_option_group *group, const char **key,
                               xsm_error *err)
{
    *key = NULL;
    if (!e || !name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_set: %s is NULL", e ? "the name" : "the estimator");
    }
    if (e->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "option '%s' must be set before the estimator is bound", name);
    }
    *key = part_key(e, name);
    if (*key && (e->sampling.sampler != e->sampling.own || e->search.index != e->search.own)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "option '%s': estimator '%s' has a%s of the host's; set its options",
                         name, e->ops.name, e->sampling.sampler ? " sampler" : "n index");
    }
    *group = options_of(&e->ops, &e->common, e->state);
    return XSM_OK;
}

xsm_status xsm_estimator_set(xsm_estimator *e, const char *name, const char *value, xsm_error *err)
{
    XSMI_ENTER(err);
    xsmi_option_group group;
    const char *key;
    const xsm_option *option;
    void *values;
    XSMI_TRY(open_options(e, name, &group, &key, err));
    if (key) {
        return e->sampling.sampler ? xsm_sampler_set(e->sampling.own, key, value, err)
                                   : xsm_index_set(e->search.own, key, value, err);
    }
    XSMI_TRY(xsmi_group_want(&group, name, &option, &values, err));
    if (value && option->type == XSM_OPTION_CLASSES) {
        return parse_class_list(e, option, value, err);
    }
    xsmi_common_options before = e->common;
    XSMI_TRY(xsmi_group_set_text(&group, name, value, err));
    xsm_status status = XSM_OK;
    if (values == (void *)&e->common && option->type == XSM_OPTION_CHOICE) {
        status = make_sampler_or_index(e, err);
        e->common = status == XSM_OK ? e->common : before;
    }
    return status;
}

xsm_status xsm_estimator_set_classes(xsm_estimator *e, const char *name, const uint32_t *classes, size_t count,
                                     xsm_error *err)
{
    XSMI_ENTER(err);
    xsmi_option_group group;
    const char *key;
    const xsm_option *option;
    void *values;
    XSMI_TRY(open_options(e, name, &group, &key, err));
    XSMI_TRY(xsmi_group_want(&group, name, &option, &values, err));
    if (option->type != XSM_OPTION_CLASSES) {
        return xsmi_fail(err, XSM_ERROR_FORMAT, "option '%s' is no list of classes", name);
    }
    if (!classes && count > 0) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "option '%s': the list is NULL", name);
    }
    return set_class_list(e, option, classes, count, err);
}

xsm_status xsm_estimator_set_number(xsm_estimator *e, const char *name, double value, xsm_error *err)
{
    XSMI_ENTER(err);
    xsmi_option_group group;
    const char *key;
    XSMI_TRY(open_options(e, name, &group, &key, err));
    return !key                  ? xsmi_group_set_number(&group, name, value, err)
           : e->sampling.sampler ? xsm_sampler_set_number(e->sampling.own, key, value, err)
                                 : xsm_index_set_number(e->search.own, key, value, err);
}

size_t xsm_estimator_get(const xsm_estimator *e, const char *name, char *buffer, size_t size)
{
    if (!e) {
        return xsmi_group_get(NULL, name, buffer, size);
    }
    const char *key = part_key(e, name);
    if (key) {
        return e->sampling.sampler ? xsm_sampler_get(e->sampling.sampler, key, buffer, size)
                                   : xsm_index_get(e->search.index, key, buffer, size);
    }
    if (e->search.index != e->search.own && name && strcmp(name, "index") == 0) {
        return (size_t)snprintf(buffer, buffer ? size : 0, "%s", e->search.index->ops.name);
    }
    if (e->sampling.sampler && e->sampling.sampler != e->sampling.own && name && strcmp(name, "sampler") == 0) {
        return (size_t)snprintf(buffer, buffer ? size : 0, "%s", e->sampling.sampler->ops.name);
    }
    xsmi_option_group group = options_of(&e->ops, (void *)(uintptr_t)&e->common, e->state);
    return xsmi_group_get(&group, name, buffer, size);
}

/* -- the index ----------------------------------------------------------------------------------------------------- */

xsm_status xsm_estimator_set_index(xsm_estimator *e, const xsm_index *like, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the estimator"});
    if (!e->search.own) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' does not search", e->ops.name);
    }
    if (e->model || (like && like->built)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "%s",
                         e->model ? "the index must be set before the estimator is bound"
                                  : "the index is built; one that is not is wanted");
    }
    xsm_index *made = e->search.own;
    if (like) {
        XSMI_TRY(xsmi_index_new_like(like, &made, err));
    }
    xsm_index_free(e->search.index != e->search.own ? e->search.index : NULL);
    e->search.index = made;
    return XSM_OK;
}

xsm_status xsm_estimator_get_index_info(const xsm_estimator *e, uint32_t block, xsm_index_info *info, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {e, "the estimator"});
    if (!e->search.own) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' does not search", e->ops.name);
    }
    if (!e->search.searcher) {
        return xsmi_fail(err, XSM_ERROR_STATE, "estimator '%s' is not bound", e->ops.name);
    }
    if (block >= e->search.searcher->blocks) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "block %u; estimator '%s' has %u", block, e->ops.name,
                         e->search.searcher->blocks);
    }
    return xsm_index_get_info(e->search.searcher->indexes[block].index, info, err);
}

/* -- settings as text ---------------------------------------------------------------------------------------------- */

#define PREFIX XSMI_SETTINGS_PREFIX

size_t xsmi_estimator_get(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_estimator_get(of, name, buffer, size);
}

static size_t get_of_sampler(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_sampler_get(of, name, buffer, size);
}

static size_t get_of_index(const void *of, const char *name, char *buffer, size_t size)
{
    return xsm_index_get(of, name, buffer, size);
}

xsm_status xsmi_estimator_settings(const xsm_estimator *e, xsmi_settings *s, xsm_error *err)
{
    const xsm_option *option;
    XSMI_TRY(xsmi_settings_add(s, PREFIX "estimator", "", e->ops.name, err));
    for (size_t i = 0; (option = xsm_estimator_ops_option(&e->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, PREFIX "estimator.", option, e, xsmi_estimator_get, err));
    }
    for (size_t i = 0; e->sampling.sampler && (option = xsm_sampler_ops_option(&e->sampling.sampler->ops, i)) != NULL;
         i++) {
        XSMI_TRY(
            xsmi_settings_add_option(s, PREFIX "estimator.sampler.", option, e->sampling.sampler, get_of_sampler, err));
    }
    if (e->search.index) {
        XSMI_TRY(xsmi_settings_add(s, PREFIX "estimator.index.table", "", e->search.index->ops.name, err));
    }
    for (size_t i = 0; e->search.index && (option = xsm_index_ops_option(&e->search.index->ops, i)) != NULL; i++) {
        XSMI_TRY(xsmi_settings_add_option(s, PREFIX "estimator.index.", option, e->search.index, get_of_index, err));
    }
    return XSM_OK;
}

/* Adds a hash of draws: samplers of the same options may be of other rows. */
static xsm_status add_draws(const xsm_sampler *s, const xsm_dataset *train, xsmi_settings *settings, xsm_error *err)
{
    enum { DRAWS = 64 };
    uint32_t classes[DRAWS];
    double log_q[DRAWS];
    xsm_random random;
    float *code;
    if (!s->bound || s->ops.follow || (s->code_length > 0 && (train->rows == 0 || train->features != s->features))) {
        return XSM_OK;
    }
    XSMI_TRY(xsmi_array_new(s->context, &code, (size_t)s->code_length + 1, sizeof *code, "a row's code", err));
    const xsm_batch first = xsm_batch_range(train, 0, 1);
    xsmi_sampler_encode_batch(s, &first, 0, code);
    xsmi_stream_start(&random.stream, 0, XSMI_STREAM_CHECK, 0);
    s->ops.draw(s->state, code, &random, DRAWS, classes, log_q);
    xsmi_release(s->context, code, (size_t)s->code_length + 1, sizeof *code);
    const uint64_t hash = xsmi_hash(log_q, sizeof log_q, xsmi_hash(classes, sizeof classes, 0));
    return xsmi_settings_add_hash(settings, PREFIX "estimator.sampler.draws", hash, err);
}

/* What an estimator is bound to. */
typedef struct binding {
    const xsm_estimator *estimator;
    const xsm_dataset *train;
    const xsmi_bind_size *size;
} binding;

static xsm_status add_settings(const void *of, xsmi_settings *s, xsm_error *err)
{
    const xsm_estimator *e = ((const binding *)of)->estimator;
    const xsm_dataset *train = ((const binding *)of)->train;
    const xsmi_bind_size *size = ((const binding *)of)->size;
    XSMI_TRY(xsmi_estimator_settings(e, s, err));
    XSMI_TRY(e->sampling.sampler ? add_draws(e->sampling.sampler, train, s, err) : XSM_OK);
    if (!size) {
        return XSM_OK;
    }
    const uint64_t *counts = train->map.counts;
    const xsmi_number sizes[] = {
        XSMI_WHOLE("examples", size->examples), XSMI_WHOLE("ids", size->row_slots),
        XSMI_WHOLE("labels", size->most_labels),
        XSMI_WHOLE("class_counts", counts ? xsmi_hash(counts, train->classes * sizeof *counts, 0) : 0)};
    return xsmi_settings_add_numbers(s, sizes, sizeof sizes / sizeof *sizes, err);
}

xsm_status xsmi_estimator_agree(const xsm_estimator *e, const xsm_model *model, const xsm_dataset *train,
                                const xsmi_bind_size *size, xsm_error *err)
{
    const binding b = {e, train, size};
    return xsmi_together_settings(model, add_settings, &b, err);
}
