/*
 * The layer between estimators' tables and everyone else: it owns the state's memory, sets options, scores the classes
 * that a table asks for, takes the mean over the batch, and finds out when numbers leave the finite.
 */
#include "estimator/estimator.h"

#include "base/heap_sort.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COMMON_OPTIONS                                                                                                 \
    {"ridge",                                                                                                          \
     XSM_OPTION_DOUBLE,                                                                                                \
     offsetof(xsmi_common_options, ridge),                                                                             \
     "0",                                                                                                              \
     0,                                                                                                                \
     1e30,                                                                                                             \
     NULL,                                                                                                             \
     "mu of the penalty (mu/2)||W||^2 on the sum of the losses; the bias is free"},                                    \
    {                                                                                                                  \
        "seed", XSM_OPTION_INT, offsetof(xsmi_common_options, seed), "1", 0, 9007199254740992.0, NULL,                 \
            "names the random stream that classes are drawn from"                                                      \
    }

static const xsm_option common_options[] = {COMMON_OPTIONS};
static const xsm_option sampled_options[] = {
    COMMON_OPTIONS,
    {"sampler", XSM_OPTION_CHOICE, offsetof(xsmi_common_options, sampler), "uniform", 0, 0, xsmi_sampler_names,
     "what classes are drawn with; its own options are set as sampler.KEY"},
};
static const xsm_option searched_options[] = {
    COMMON_OPTIONS,
    {"index", XSM_OPTION_CHOICE, offsetof(xsmi_common_options, index), "spherical", 0, 0, xsmi_index_names,
     "what classes are searched with; its own options are set as index.KEY"},
};

/* The options of an estimator, those that all of its kind have first. */
static xsmi_option_group options_of(const xsm_estimator_ops *ops, void *common, void *state)
{
    xsmi_option_group group = {
        "estimator",
        ops->name,
        {{common_options, sizeof common_options / sizeof common_options[0], sizeof common_options[0]},
         {ops->options, ops->option_count, ops->option_size}},
        {common, state},
    };
    if (ops->flags & (XSM_ESTIMATOR_SAMPLER | XSM_ESTIMATOR_INDEX)) {
        group.table[0].options = ops->flags & XSM_ESTIMATOR_SAMPLER ? sampled_options : searched_options;
        group.table[0].count++;
    }
    return group;
}

/* -- tables -------------------------------------------------------------------------------------------------------- */

const char *xsm_estimator_ops_name(const xsm_estimator_ops *ops)
{
    return ops ? ops->name : NULL;
}

const char *xsm_estimator_ops_summary(const xsm_estimator_ops *ops)
{
    return ops ? ops->summary : NULL;
}

const xsm_option *xsm_estimator_ops_option(const xsm_estimator_ops *ops, size_t index)
{
    if (!ops) {
        return NULL;
    }
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_at(&group, index);
}

/* A table up to and with its last required member, in the first release. */
#define FIRST_OPS_SIZE (offsetof(xsm_estimator_ops, gradient) + sizeof(((xsm_estimator_ops *)0)->gradient))

static xsm_status read_ops(const xsm_estimator_ops *given, xsm_estimator_ops *ops, xsm_error *err)
{
    memset(ops, 0, sizeof *ops);
    XSMI_TRY(xsmi_options_read(ops, sizeof *ops, FIRST_OPS_SIZE, given, "xsm_estimator_ops", err));
    if (ops->abi != XSM_ESTIMATOR_ABI) {
        return xsmi_fail(err, XSM_ERROR_STRUCT_NEW, "the estimator table says abi %u; this release serves %d", ops->abi,
                         XSM_ESTIMATOR_ABI);
    }
    if (!ops->name || !ops->summary || !ops->gradient) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': the table needs name, summary and gradient()",
                         ops->name ? ops->name : "?");
    }
    const uint32_t flags = XSM_ESTIMATOR_EXACT | XSM_ESTIMATOR_PROXIMAL | XSM_ESTIMATOR_ROW_STATE |
                           XSM_ESTIMATOR_MULTI_LABEL | XSM_ESTIMATOR_SAMPLER | XSM_ESTIMATOR_CORRECTED |
                           XSM_ESTIMATOR_OTHER_LOSS | XSM_ESTIMATOR_UNBOUNDED | XSM_ESTIMATOR_INDEX;
    const uint32_t own = xsm_estimator_find(given->name) == given ? XSMI_ESTIMATOR_HIERARCHY : 0;
    if (ops->flags & ~(flags | own)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': flags 0x%x are not known", ops->name,
                         ops->flags & ~(flags | own));
    }
    bool exact = (ops->flags & XSM_ESTIMATOR_EXACT) != 0;
    if (ops->flags & XSM_ESTIMATOR_SAMPLER) {
        if (exact || !ops->plan || ops->select || ops->width ||
            (ops->exact && (ops->flags & XSM_ESTIMATOR_CORRECTED))) {
            return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                             "estimator '%s': with the flag for a sampler the table needs plan(), without width(), "
                             "select() and the flag for exact",
                             ops->name);
        }
    } else if (ops->flags & XSM_ESTIMATOR_CORRECTED) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': the flag for corrected goes with that for a sampler",
                         ops->name);
    } else if (exact ? (ops->flags & XSM_ESTIMATOR_PROXIMAL) || ops->row_bound : !ops->select || !ops->width) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': the table needs width() and select(), or the flag for exact without the one "
                         "for proximal and without row_bound()",
                         ops->name);
    }
    const uint32_t not_searched =
        XSM_ESTIMATOR_EXACT | XSM_ESTIMATOR_PROXIMAL | XSM_ESTIMATOR_ROW_STATE | XSM_ESTIMATOR_SAMPLER;
    if ((ops->flags & XSM_ESTIMATOR_INDEX) &&
        ((ops->flags & not_searched) || ops->exact || ops->joint || !ops->search_plan || !ops->search)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': with the flag for an index the table needs search_plan() and search(), "
                         "without exact(), joint() and the flags for exact, proximal, row state and sampler",
                         ops->name);
    }
    if (!ops->joint != !ops->joint_width || !ops->joint != !ops->joint_select || (ops->joint && exact)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': joint_width(), joint_select() and joint() go together, and not with the flag "
                         "for exact",
                         ops->name);
    }
    if (ops->exact && ((ops->flags & (XSM_ESTIMATOR_EXACT | XSM_ESTIMATOR_PROXIMAL)) || ops->row_bound || ops->joint)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "estimator '%s': exact() is for tables without row_bound(), joint() and the flags for exact "
                         "and proximal",
                         ops->name);
    }
    xsmi_option_group group = options_of(ops, NULL, NULL);
    return xsmi_group_check(&group, ops->state_size, err);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static const char *estimator_name_at(const void *list, size_t index)
{
    (void)list;
    return xsm_estimator_at(index)->name;
}

xsm_status xsm_estimator_new(xsm_context *context, const char *name, xsm_estimator **out, xsm_error *err)
{
    const xsm_estimator_ops *ops = xsm_estimator_find(name);
    if (!ops) {
        return xsmi_fail_name(err, "estimator", name, xsm_estimator_count(), estimator_name_at);
    }
    return xsm_estimator_new_from(context, ops, out, err);
}

xsm_status xsm_estimator_new_from(xsm_context *context, const xsm_estimator_ops *given, xsm_estimator **out,
                                  xsm_error *err)
{
    if (!out || !given) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_new: %s is NULL", out ? "the table" : "out");
    }
    xsm_estimator_ops ops;
    XSMI_TRY(read_ops(given, &ops, err));
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsm_estimator *e = xsmi_allocate(ctx, 1, sizeof *e);
    void *state = e ? xsmi_allocate(ctx, ops.state_size, 1) : NULL;
    if (!state) {
        xsmi_release(ctx, e, 1, sizeof *e);
        xsm_context_free(ctx);
        return xsmi_fail_memory(err, ops.state_size, "an estimator");
    }
    memset(e, 0, sizeof *e);
    memset(state, 0, ops.state_size);
    e->context = ctx;
    e->ops = ops;
    e->state = state;
    xsmi_option_group group = options_of(&e->ops, &e->common, state);
    xsmi_option_defaults(&group.table[0], &e->common);
    xsmi_option_defaults(&group.table[1], state);
    if (ops.flags & XSM_ESTIMATOR_SAMPLER) {
        xsm_status status = xsmi_estimator_make_sampler(e, err);
        if (status != XSM_OK) {
            xsm_estimator_free(e);
            return status;
        }
    }
    if (ops.flags & XSM_ESTIMATOR_INDEX) {
        xsm_status status = xsmi_estimator_make_index(e, err);
        if (status != XSM_OK) {
            xsm_estimator_free(e);
            return status;
        }
    }
    *out = e;
    return XSM_OK;
}

void xsmi_estimator_unbind(xsm_estimator *e)
{
    if (e->model) {
        if (e->ops.unbind) {
            e->ops.unbind(e->state);
        }
        xsmi_spans_free(e->spans);
        xsmi_searcher_free(e->searcher);
        e->searcher = NULL;
        xsmi_estimator_unbind_sampler(e);
        xsmi_release(e->context, e->norms, e->norm_count, sizeof *e->norms);
        e->spans = NULL;
        e->norms = NULL;
        e->model = NULL;
        e->train = NULL;
        xsmi_stream_free(e->stream);
        e->stream = NULL;
    }
}

void xsm_estimator_free(xsm_estimator *e)
{
    if (e) {
        xsm_context *ctx = e->context;
        xsmi_estimator_unbind(e);
        xsm_sampler_free(e->own_sampler);
        xsm_index_free(e->index != e->own_index ? e->index : NULL);
        xsm_index_free(e->own_index);
        const xsmi_option_table own = options_of(&e->ops, NULL, NULL).table[1];
        for (size_t i = 0; i < own.count; i++) {
            const xsm_option *option = xsmi_option_at(&own, i);
            if (option->type == XSM_OPTION_CLASSES) {
                xsmi_class_list_clear(e, option);
            }
        }
        xsmi_release(ctx, e->state, e->ops.state_size, 1);
        xsmi_release(ctx, e, 1, sizeof *e);
        xsm_context_free(ctx);
    }
}

const char *xsm_estimator_name(const xsm_estimator *e)
{
    return e ? e->ops.name : NULL;
}

uint64_t xsm_estimator_batch_limit(const xsm_estimator *e)
{
    return e ? e->ops.batch_limit : 0;
}

/* -- options ------------------------------------------------------------------------------------------------------- */

/* KEY of an option's name "sampler.KEY" or "index.KEY", where there is a sampler or an index, otherwise NULL. */
static const char *part_key(const xsm_estimator *e, const char *name)
{
    const char *prefix = e->sampler ? "sampler." : "index.";
    size_t length = strlen(prefix);
    return (e->sampler || e->index) && name && strncmp(name, prefix, length) == 0 ? name + length : NULL;
}

/* The options, where one of that name may be set now. Those named "sampler.KEY" or "index.KEY" are the sampler's or
 * the index's: *key is then KEY, otherwise NULL. */
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
    if (*key && (e->sampler != e->own_sampler || e->index != e->own_index)) {
        return xsmi_fail(err, XSM_ERROR_STATE, "option '%s': estimator '%s' has a%s of the host's; set its options",
                         name, e->ops.name, e->sampler ? " sampler" : "n index");
    }
    *group = options_of(&e->ops, &e->common, e->state);
    return XSM_OK;
}

xsm_status xsm_estimator_set(xsm_estimator *e, const char *name, const char *value, xsm_error *err)
{
    xsmi_option_group group;
    const char *key;
    const xsm_option *option;
    void *values;
    XSMI_TRY(open_options(e, name, &group, &key, err));
    if (key) {
        return e->sampler ? xsm_sampler_set(e->own_sampler, key, value, err)
                          : xsm_index_set(e->own_index, key, value, err);
    }
    XSMI_TRY(xsmi_group_want(&group, name, &option, &values, err));
    if (value && option->type == XSM_OPTION_CLASSES) {
        return xsmi_class_list_parse(e, option, value, err);
    }
    xsmi_common_options before = e->common;
    XSMI_TRY(xsmi_group_set_text(&group, name, value, err));
    xsm_status status = XSM_OK;
    if (values == (void *)&e->common && option->type == XSM_OPTION_CHOICE) {
        status = e->sampler ? xsmi_estimator_make_sampler(e, err) : xsmi_estimator_make_index(e, err);
        e->common = status == XSM_OK ? e->common : before;
    }
    return status;
}

xsm_status xsm_estimator_set_classes(xsm_estimator *e, const char *name, const uint32_t *classes, uint32_t count,
                                     xsm_error *err)
{
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
    return xsmi_class_list_set(e, option, classes, count, err);
}

xsm_status xsm_estimator_set_double(xsm_estimator *e, const char *name, double value, xsm_error *err)
{
    xsmi_option_group group;
    const char *key;
    XSMI_TRY(open_options(e, name, &group, &key, err));
    return !key         ? xsmi_group_set_double(&group, name, value, err)
           : e->sampler ? xsm_sampler_set_double(e->own_sampler, key, value, err)
                        : xsm_index_set_double(e->own_index, key, value, err);
}

xsm_status xsm_estimator_set_int(xsm_estimator *e, const char *name, int64_t value, xsm_error *err)
{
    xsmi_option_group group;
    const char *key;
    XSMI_TRY(open_options(e, name, &group, &key, err));
    return !key         ? xsmi_group_set_int(&group, name, value, err)
           : e->sampler ? xsm_sampler_set_int(e->own_sampler, key, value, err)
                        : xsm_index_set_int(e->own_index, key, value, err);
}

size_t xsm_estimator_get(const xsm_estimator *e, const char *name, char *buffer, size_t size)
{
    if (!e) {
        return 0;
    }
    const char *key = part_key(e, name);
    if (key) {
        return e->sampler ? xsm_sampler_get(e->sampler, key, buffer, size) : xsm_index_get(e->index, key, buffer, size);
    }
    if (e->index != e->own_index && name && strcmp(name, "index") == 0) {
        return (size_t)snprintf(buffer, buffer ? size : 0, "%s", e->index->ops.name);
    }
    if (e->sampler && e->sampler != e->own_sampler && name && strcmp(name, "sampler") == 0) {
        return (size_t)snprintf(buffer, buffer ? size : 0, "%s", e->sampler->ops.name);
    }
    xsmi_option_group group = options_of(&e->ops, (void *)(uintptr_t)&e->common, e->state);
    return xsmi_group_get(&group, name, buffer, size);
}

/* -- binding ------------------------------------------------------------------------------------------------------- */

/* Every row must have a label (one, if the estimator takes no more), each of them below K. *most: those of the row that
 * has most. */
static xsm_status check_labels(const xsm_estimator *e, const xsm_dataset *train, uint64_t *most, xsm_error *err)
{
    *most = 0;
    bool several = (e->ops.flags & XSM_ESTIMATOR_MULTI_LABEL) != 0;
    for (uint64_t i = 0; i < train->rows; i++) {
        size_t count;
        const uint32_t *labels = xsmi_dataset_labels(train, i, &count);
        if (count == 0) {
            return xsmi_fail(err, XSM_ERROR_DATA, "row %llu has no label; drop such rows before training",
                             (unsigned long long)i);
        }
        if (count > 1 && !several) {
            return xsmi_fail(err, XSM_ERROR_DATA,
                             "row %llu has %zu labels, but estimator '%s' takes one a row; keep the first or the "
                             "smallest",
                             (unsigned long long)i, count, e->ops.name);
        }
        *most = count > *most ? count : *most;
        for (size_t j = 0; j < count; j++) {
            if (labels[j] >= train->classes) {
                return xsmi_fail(err, XSM_ERROR_DATA, "row %llu has a label that is not in the class map",
                                 (unsigned long long)i);
            }
        }
    }
    return XSM_OK;
}

/* Rows whose norms one job takes. */
#define NORM_ROWS 4096

typedef struct norm_job {
    const xsm_dataset *train;
    const xsmi_kernels *kernels;
    float *norms;
} norm_job;

static void run_norms(void *state, size_t index, uint32_t thread)
{
    norm_job *job = state;
    (void)thread;
    uint64_t first = (uint64_t)index * NORM_ROWS, rest = job->train->rows - first;
    uint64_t count = rest < NORM_ROWS ? rest : NORM_ROWS;
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_features x = xsmi_dataset_features(job->train, i);
        job->norms[i] = job->kernels->dot(x.values, x.values, x.count);
    }
    xsmi_dataset_passed(job->train, first, count);
}

/* The rows' squared lengths, and the largest of their lengths. */
static xsm_status take_norms(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, double *longest,
                             xsm_error *err)
{
    e->norms = train->rows < SIZE_MAX ? xsmi_allocate(e->context, (size_t)train->rows, sizeof *e->norms) : NULL;
    if (!e->norms) {
        return xsmi_fail_memory(err, (size_t)train->rows * sizeof *e->norms, "the norms of the rows");
    }
    e->norm_count = (size_t)train->rows;
    norm_job job = {train, model->kernels, e->norms};
    xsm_status status = xsmi_run(e->context, run_norms, &job, (e->norm_count + NORM_ROWS - 1) / NORM_ROWS, err);
    if (status != XSM_OK) {
        xsmi_release(e->context, e->norms, e->norm_count, sizeof *e->norms);
        e->norms = NULL;
        return status;
    }
    float most = 0;
    for (size_t i = 0; i < e->norm_count; i++) {
        most = e->norms[i] > most ? e->norms[i] : most;
    }
    *longest = sqrt((double)most);
    return XSM_OK;
}

/* What is done to the scores of the model must be what the estimator trains for. */
static xsm_status check_correction(const xsm_estimator *e, const xsm_model *model, xsm_error *err)
{
    const bool nodes = xsmi_correction_hierarchy(model->correction) != NULL;
    const bool takes_nodes = (e->ops.flags & XSMI_ESTIMATOR_HIERARCHY) != 0;
    if (takes_nodes && model->layer && model->layer->tied) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "estimator '%s' has weights for the nodes of a tree, not for classes: the features' vectors "
                         "cannot be tied to them",
                         e->ops.name);
    }
    if (nodes && !takes_nodes) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's weights are those of the nodes of a tree, which estimator '%s' would take for "
                         "classes; train it with hierarchical, or a new model",
                         e->ops.name);
    }
    if (model->correction && !nodes && (takes_nodes || (!e->exact && !(e->ops.flags & XSM_ESTIMATOR_CORRECTED)))) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "the model's scores are corrected by the '%s' of the sampler that it was trained with, which "
                         "estimator '%s' does not know of; train it with negative-sampling or with all classes, or "
                         "clear its correction",
                         xsm_model_correction(model), e->ops.name);
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_bind(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, bool labels_alone,
                               const xsmi_bind_size *size, xsm_error *err)
{
    if (!e || !model || !train) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_bind%s: %s is NULL", labels_alone ? "_labels" : "",
                         !e       ? "the estimator"
                         : !model ? "the model"
                                  : "the data");
    }
    if ((xsmi_model_input(model) != train->features && !labels_alone) || model->classes != train->classes) {
        return xsmi_fail(err, XSM_ERROR_SHAPE,
                         "the model has %u features and %u classes, the data %u features and %u classes",
                         xsmi_model_input(model), model->classes, train->features, train->classes);
    }
    xsmi_bind_size of = {train->rows, train->rows, 0};
    if (size) {
        of = *size;
    } else {
        XSMI_TRY(check_labels(e, train, &of.most_labels, err));
    }
    xsmi_estimator_unbind(e);
    bool proximal = (e->ops.flags & XSM_ESTIMATOR_PROXIMAL) != 0;
    e->labels_alone = labels_alone;
    double longest = INFINITY; /* not known of rows that vary */
    if (!xsmi_estimator_rows_vary(e, model)) {
        XSMI_TRY(take_norms(e, model, train, &longest, err));
    }
    xsm_problem problem = {
        .size = sizeof problem,
        .context = e->context,
        .examples = of.examples,
        .classes = train->classes,
        .features = model->features,
        .class_counts = train->class_counts,
        .ridge = e->common.ridge,
        .seed = (uint64_t)e->common.seed,
        .bias = model->bias != NULL,
        .longest_row = longest,
        .most_labels = of.most_labels,
        .row_slots = of.row_slots,
    };
    xsm_status status = e->ops.bind ? e->ops.bind(e->state, &problem, err) : XSM_OK;
    e->exact = status == XSM_OK && ((e->ops.flags & XSM_ESTIMATOR_EXACT) || (e->ops.exact && e->ops.exact(e->state)));
    if (status == XSM_OK && (e->ops.flags & XSMI_ESTIMATOR_HIERARCHY)) {
        status = xsmi_hierarchical_bind(e, model, train, err);
    }
    if (status == XSM_OK && e->sampler && !e->exact) {
        status = xsmi_estimator_bind_sampler(e, model, train, of.most_labels, err);
    } else if (status == XSM_OK) {
        e->width = e->exact ? train->classes : e->ops.width(e->state);
        if (e->width == 0 || e->width > XSM_CLASSES_MAX) {
            status = xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': width() is %llu; accepted is 1 to %u",
                               e->ops.name, (unsigned long long)e->width, XSM_CLASSES_MAX);
        }
    }
    status = status == XSM_OK ? check_correction(e, model, err) : status;
    if (status == XSM_OK && e->index && model->layer && model->layer->tied) {
        status =
            xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                      "estimator '%s' searches an index of the classes' weights, which steps on tied vectors change "
                      "unseen",
                      e->ops.name);
    }
    if (status == XSM_OK && e->index) {
        xsm_search_plan plan = {.size = sizeof plan};
        e->ops.search_plan(e->state, &plan);
        status = xsmi_searcher_new(e->context, e->index, &plan, model, train->rows, &e->searcher, err);
    }
    e->row_bound = status == XSM_OK && e->ops.row_bound ? e->ops.row_bound(e->state) : 0;
    if (status == XSM_OK && !(e->row_bound >= 0 && e->row_bound < INFINITY)) {
        status = xsmi_fail(err, XSM_ERROR_ARGUMENT, "estimator '%s': row_bound() is %g; accepted is 0 and above",
                           e->ops.name, e->row_bound);
    }
    if (status != XSM_OK) {
        if (e->ops.unbind) {
            e->ops.unbind(e->state);
        }
        xsmi_estimator_unbind_sampler(e);
        xsmi_searcher_free(e->searcher);
        e->searcher = NULL;
        xsmi_release(e->context, e->norms, e->norm_count, sizeof *e->norms);
        e->norms = NULL;
        return status;
    }
    e->model = model;
    e->train = train;
    e->position = 0;
    e->fixed_batches = false;
    e->examples = of.examples;
    e->row_slots = of.row_slots;
    e->decay_rate = proximal ? 0 : e->common.ridge / (double)of.examples;
    return XSM_OK;
}

xsm_status xsm_estimator_bind(xsm_estimator *e, const xsm_model *model, const xsm_dataset *train, xsm_error *err)
{
    return xsmi_estimator_bind(e, model, train, false, NULL, err);
}

xsm_status xsmi_estimator_check_full(const xsm_estimator *e, xsm_error *err)
{
    if (e->exact && !(e->ops.flags & XSM_ESTIMATOR_ROW_STATE)) {
        return XSM_OK;
    }
    char accepted[256];
    size_t used = 0;
    accepted[0] = '\0';
    for (size_t i = 0; i < xsm_estimator_count() && used < sizeof accepted; i++) {
        const xsm_estimator_ops *ops = xsm_estimator_at(i);
        bool exact = (ops->flags & XSM_ESTIMATOR_EXACT) != 0;
        if (exact || ops->exact) {
            used += (size_t)snprintf(accepted + used, sizeof accepted - used, "%s'%s'%s", used ? ", " : "", ops->name,
                                     exact ? "" : " with negatives=all");
        }
    }
    return xsmi_fail(
        err, XSM_ERROR_UNSUPPORTED,
        "estimator '%s' looks at some classes only; all rows at once take one that looks at every class: %s",
        e->ops.name, accepted);
}

xsm_status xsmi_bind_kernels(void *state, const xsm_problem *problem, xsm_error *err)
{
    (void)err;
    ((xsmi_kernels_state *)state)->kernels = xsmi_context_kernels(problem->context);
    return XSM_OK;
}

/* -- the gradient -------------------------------------------------------------------------------------------------- */

xsm_status xsmi_check_eta(double eta, xsm_error *err)
{
    if (!(eta > 0 && eta < XSMI_STEP_LIMIT)) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "the learning rate is %g; accepted is above 0 and below %g", eta,
                         XSMI_STEP_LIMIT);
    }
    return XSM_OK;
}

xsm_status xsmi_estimator_check_eta(const xsm_estimator *e, double eta, xsm_error *err)
{
    XSMI_TRY(xsmi_check_eta(eta, err));
    double rate = e->ops.joint ? e->common.ridge / (double)e->examples : e->decay_rate;
    if (!(eta * rate < 1e12)) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "a learning rate of %g with a ridge of %g would leave nothing of the weights in one step; "
                         "their product over the number of rows must be below 1e12",
                         eta, e->common.ridge);
    }
    return XSM_OK;
}

bool xsmi_estimator_scores(const xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, double alpha,
                           const xsmi_coming *coming)
{
    const xsm_model *m = e->model;
    bool finite = true;
    for (uint64_t i = first; i < first + count; i++) {
        xsmi_features x = xsmi_gradient_features(e, g, i);
        const uint32_t *classes = g->classes + i * g->width;
        float *scores = g->scores + i * g->width;
        xsmi_model_score_classes(m, &x, classes, g->lengths[i], alpha, scores, coming);
        for (uint32_t j = 0; j < g->lengths[i]; j++) {
            finite &= fabsf(scores[j]) < (float)XSMI_STEP_LIMIT; /* false for NaN too */
        }
        for (uint32_t j = 0; m->bias && j < g->lengths[i]; j++) {
            g->linear[i * g->width + j] = scores[j] - m->bias[classes[j]];
        }
    }
    return finite;
}

uint64_t xsmi_estimator_coefficients(xsm_estimator *e, xsm_gradient *g, uint64_t first, uint64_t count, uint64_t batch,
                                     double eta, uint32_t slot, double *largest)
{
    const xsm_model *m = e->model;
    uint64_t width = g->width, start = first * width;
    const float *scores = g->exact ? g->coefficients + start : g->scores + start;
    const uint32_t *lengths = g->exact ? NULL : g->lengths + first;
    for (uint64_t j = 0; g->proximal && j < count * width; j++) {
        g->shrinks[start + j] = 1;
    }
    xsm_score_block block = {
        .size = sizeof block,
        .examples = g->example + first,
        .count = count,
        .batch = batch,
        .width = width,
        .lengths = lengths,
        .classes = g->exact ? NULL : g->classes + start,
        .scores = scores,
        .linear = g->exact  ? NULL
                  : m->bias ? g->linear + start
                            : scores,
        .eta = eta,
        .coefficients = g->coefficients + start,
        .shrinks = g->proximal ? g->shrinks + start : NULL,
        .losses = g->losses + first,
        .scratch = g->scratch_each ? g->scratch + slot * g->scratch_each : NULL,
        .log_expected = e->sampler && !g->exact ? g->log_expected + start : NULL,
        .draws = e->sampler && !g->exact ? g->draws + start : NULL,
    };
    e->ops.gradient(e->state, &block);
    return xsmi_estimator_take_mean(&block, largest);
}

uint64_t xsmi_estimator_take_mean(const xsm_score_block *block, double *largest)
{
    uint64_t good = block->count;
    float mean = 1 / (float)block->batch;
    for (uint64_t i = 0; i < block->count; i++) {
        uint64_t length = block->lengths ? block->lengths[i] : block->width;
        float *c = block->coefficients + i * block->width;
        uint32_t most_bits = 0;
        for (uint64_t j = 0; j < length; j++) {
            c[j] *= mean;
            /* Sizes compare as their bits do, infinity and NaN above all others; compilers have vectors for that. */
            uint32_t bits;
            memcpy(&bits, &c[j], sizeof bits);
            bits &= 0x7fffffff;
            most_bits = bits > most_bits ? bits : most_bits;
        }
        float most;
        memcpy(&most, &most_bits, sizeof most);
        /* The bias, and that a row of zeros times infinity is no number, both ask for the 1. */
        double reach = (double)most * sqrt(block->examples[i].squared_norm + 1);
        *largest = reach > *largest ? reach : *largest;
        /* The first three are false for NaN too. */
        bool finite = most < INFINITY && reach < XSMI_GRADIENT_LIMIT && reach * block->eta < XSMI_STEP_LIMIT &&
                      isfinite(block->losses[i]);
        good = finite || good < i ? good : i;
    }
    return good;
}

typedef struct chunk_job {
    xsm_estimator *estimator;
    xsm_gradient *gradient;
    const xsm_batch *batch;
    double eta;
    const xsmi_input_gradient *input;
    double *largest; /* by chunk */
    bool *finite;
} chunk_job;

static void run_chunk(void *state, size_t index, uint32_t thread)
{
    chunk_job *job = state;
    xsm_estimator *e = job->estimator;
    xsm_gradient *g = job->gradient;
    uint64_t first = index * XSMI_EXAMPLE_CHUNK;
    uint64_t rest = job->batch->count - first;
    uint64_t count = rest < XSMI_EXAMPLE_CHUNK ? rest : XSMI_EXAMPLE_CHUNK;
    for (uint64_t i = first; i < first + count; i++) {
        g->example[i] = xsmi_example_of(e, job->batch, i);
    }
    xsmi_gradient_measure(e, g, first, count);
    if (!g->exact) {
        xsmi_estimator_select(e, g, first, count);
    }
    job->largest[index] = 0;
    job->finite[index] = (g->exact || xsmi_estimator_scores(e, g, first, count, e->model->alpha, NULL)) &&
                         xsmi_estimator_coefficients(e, g, first, count, job->batch->count, job->eta, thread,
                                                     &job->largest[index]) == count;
    if (job->input && job->finite[index]) {
        job->finite[index] = xsmi_input_gradient_take(job->input, e, g, job->eta, first, count);
    }
    if (e->model->layer && job->finite[index]) {
        xsmi_gradient_take_layer(e, g, job->batch, first, count, &job->largest[index]);
        job->finite[index] = job->largest[index] * job->eta < XSMI_STEP_LIMIT; /* false for NaN too */
    }
}

static int compare_rows(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool xsmi_batch_has_repeats(const xsm_batch *batch, uint64_t *sorted)
{
    size_t n = (size_t)batch->count;
    memcpy(sorted, batch->rows, n * sizeof *sorted);
    xsmi_heap_sort(sorted, n, sizeof *sorted, compare_rows);
    bool repeats = false;
    for (size_t i = 1; i < n; i++) {
        repeats |= sorted[i] == sorted[i - 1];
    }
    return repeats;
}

/* Whether a row occurs twice in a batch; with no memory to find out, yes is the safe answer. */
static bool may_repeat(xsm_context *ctx, const xsm_batch *batch)
{
    if (!batch->rows) {
        return false;
    }
    uint64_t *sorted = xsmi_allocate(ctx, (size_t)batch->count, sizeof *sorted);
    bool repeats = !sorted || xsmi_batch_has_repeats(batch, sorted);
    xsmi_release(ctx, sorted, (size_t)batch->count, sizeof *sorted);
    return repeats;
}

/* Examples in chunks, on the context's threads. */
static xsm_status one_by_one(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g,
                             const xsmi_input_gradient *input, bool *finite, double *largest, xsm_error *err)
{
    XSMI_TRY(xsmi_gradient_reserve(g, e, batch->count, xsm_context_threads(e->context), false, err));
    XSMI_TRY(xsmi_gradient_take_batch(e, g, batch, eta, err));
    const xsmi_input_gradient of_layer = {g->hidden_gradient, g->value_stride};
    input = e->model->layer ? &of_layer : input;
    if (g->exact) {
        XSMI_TRY(xsm_model_score_range(e->model, batch, 0, e->model->classes, g->coefficients, g->width, err));
    }
    size_t chunks = (size_t)((batch->count + XSMI_EXAMPLE_CHUNK - 1) / XSMI_EXAMPLE_CHUNK);
    double few_largest[8];
    bool few_finite[8];
    double *each_largest = chunks <= 8 ? few_largest : xsmi_allocate(e->context, chunks, sizeof *each_largest);
    bool *each_finite = chunks <= 8 ? few_finite : xsmi_allocate(e->context, chunks, sizeof *each_finite);
    xsm_status status = XSM_OK;
    if (!each_largest || !each_finite) {
        status = xsmi_fail_memory(err, chunks * sizeof *each_largest, "a batch");
    } else {
        chunk_job job = {e, g, batch, eta, input, each_largest, each_finite};
        bool in_order = (e->ops.flags & XSM_ESTIMATOR_ROW_STATE) && chunks > 1 &&
                        (e->stream ? xsmi_stream_repeats(e, batch) : may_repeat(e->context, batch));
        if (in_order) {
            for (size_t i = 0; i < chunks; i++) {
                run_chunk(&job, i, 0);
            }
        } else {
            status = xsmi_run(e->context, run_chunk, &job, chunks, err);
        }
    }
    *finite = true;
    *largest = 0;
    for (size_t i = 0; status == XSM_OK && i < chunks; i++) {
        *finite &= each_finite[i];
        *largest = each_largest[i] > *largest ? each_largest[i] : *largest;
    }
    if (chunks > 8) {
        xsmi_release(e->context, each_largest, chunks, sizeof *each_largest);
        xsmi_release(e->context, each_finite, chunks, sizeof *each_finite);
    }
    g->decay = xsmi_estimator_decay(e, eta);
    return status;
}

xsm_status xsmi_estimator_gradient(xsm_estimator *e, const xsm_batch *given, double eta, xsm_gradient *g,
                                   const xsmi_input_gradient *input, xsm_error *err)
{
    if (!e || !given || !g) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "xsm_estimator_gradient: %s is NULL",
                         !e       ? "the estimator"
                         : !given ? "the batch"
                                  : "the gradient");
    }
    g->examples = 0;
    if (!e->model) {
        return xsmi_fail(err, XSM_ERROR_STATE, "estimator '%s' is not bound", e->ops.name);
    }
    if (e->model->classes != e->train->classes) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "estimator '%s': its model or data have other classes than when it was "
                         "bound; bind it again",
                         e->ops.name);
    }
    XSMI_TRY(xsmi_estimator_check_eta(e, eta, err));
    xsm_batch batch;
    XSMI_TRY(xsmi_estimator_read_batch(e, given, &batch, err));
    if (e->ops.batch_limit && batch.count > e->ops.batch_limit) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "estimator '%s' takes batches of %llu at most, not %llu",
                         e->ops.name, (unsigned long long)e->ops.batch_limit, (unsigned long long)batch.count);
    }
    bool finite = false;
    double largest = 0;
    if (xsmi_estimator_is_joint(e, batch.count)) {
        XSMI_TRY(xsmi_estimator_check_joint(e, &batch, input, err));
        XSMI_TRY(xsmi_estimator_joint(e, &batch, eta, g, &finite, &largest, err));
    } else if (e->searcher && xsmi_searcher_begun(e->searcher, e->position)) {
        XSMI_TRY(xsmi_estimator_search(e, &batch, eta, g, input, &finite, &largest, err));
    } else {
        XSMI_TRY(one_by_one(e, &batch, eta, g, input, &finite, &largest, err));
    }
    if (!finite) {
        return xsmi_fail(err, XSM_ERROR_DIVERGED,
                         "estimator '%s': scores or coefficients are no longer finite; try a smaller learning "
                         "rate than %g",
                         e->ops.name, eta);
    }
    double loss = 0;
    for (uint64_t i = 0; i < batch.count; i++) {
        loss += g->losses[i];
    }
    g->largest = largest;
    g->loss = loss / (double)batch.count;
    g->examples = batch.count;
    e->position += batch.count;
    return XSM_OK;
}

xsm_status xsm_estimator_gradient(xsm_estimator *e, const xsm_batch *batch, double eta, xsm_gradient *g, xsm_error *err)
{
    return xsmi_estimator_gradient(e, batch, eta, g, NULL, err);
}

/* -- shared by the estimators that sample -------------------------------------------------------------------------- */

void xsmi_select_others(uint64_t seed, uint32_t classes, uint32_t negatives, const xsm_example *examples,
                        uint64_t count, uint32_t *list, uint32_t *lengths)
{
    size_t width = 1 + (size_t)negatives;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t *of = list + i * width;
        of[0] = examples[i].labels[0];
        if (negatives > 0) {
            xsmi_stream stream;
            xsmi_stream_start(&stream, seed, XSMI_STREAM_NEGATIVES, examples[i].position);
            xsmi_stream_others(&stream, classes, of[0], negatives, of + 1);
        }
        lengths[i] = (uint32_t)width;
    }
}

static int compare_classes(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void xsmi_select_negatives(uint64_t seed, uint32_t classes, uint32_t negatives, uint64_t width,
                           const xsm_example *examples, uint64_t count, uint32_t *list, uint32_t *lengths)
{
    for (uint64_t i = 0; i < count; i++) {
        const xsm_example *example = &examples[i];
        uint32_t *labels = list + i * width, own = (uint32_t)example->label_count;
        memcpy(labels, example->labels, own * sizeof *labels);
        if (own > 1) {
            xsmi_heap_sort(labels, own, sizeof *labels, compare_classes);
        }
        uint32_t others = classes - own, drawn = negatives < others ? negatives : others;
        uint32_t *of = labels + own;
        if (drawn > 0) {
            /* Ranks among the classes that are no labels; a rank goes up by one for each label at or below it. */
            xsmi_stream stream;
            xsmi_stream_start(&stream, seed, XSMI_STREAM_NEGATIVES, example->position);
            xsmi_stream_others(&stream, others + 1, others, drawn, of);
        }
        for (uint32_t j = 0; j < drawn; j++) {
            uint32_t low = 0, high = own;
            while (low < high) {
                uint32_t middle = low + (high - low) / 2;
                if (labels[middle] - middle <= of[j]) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            of[j] += low;
        }
        lengths[i] = own + drawn;
    }
}

const char *const xsmi_negatives_words[] = {"all", NULL};

xsm_status xsmi_negatives(const char *estimator, int64_t option, uint32_t classes, uint32_t *negatives, xsm_error *err)
{
    int64_t others = (int64_t)classes - 1;
    if (option > others) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "estimator '%s': %lld negatives asked for, but there are only %lld other classes", estimator,
                         (long long)option, (long long)others);
    }
    *negatives = (uint32_t)(option > 0 ? option : option < 0 || others < 5 ? others : 5);
    return XSM_OK;
}
