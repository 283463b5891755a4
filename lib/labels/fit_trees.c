/* The public fit of label trees: options, one tree after another, the model. */
#include "base/activity.h"
#include "ranks/comm.h"
#include "base/entry.h"
#include "base/option.h"
#include "base/storage.h"
#include "ranks/same.h"
#include "labels/fit_trees.h"
#include "labels/grow_tree.h"
#include "model/divided.h"
#include "model/model.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/experimental.h>

#include <math.h>

static const char *const balances[] = {"balanced", "clusters", NULL};
static const char *const losses[] = {"squared-hinge", "logistic", NULL};
static const char *const links[] = {"auto", "sigmoid", "softmax", "hinge", "normalised", NULL};

/* The settings, with the types of options and with defaults filled in. */
typedef struct tree_settings {
    int64_t trees, arity, leaf, rounds, iterations, keep, negatives, seed;
    double cost, epsilon, threshold;
    int32_t loss, balance, link;
    /* Not in the table of options: */
    xsm_storage storages[2];       /* copies of the host's, for the places below */
    xsmi_place checkpoint, resume; /* none if it has no name */
    double checkpoint_every;
    const xsm_model *start; /* the trees that grow; NULL: none */
    bool divided;           /* the processes of the context fit the trees together */
} tree_settings;

#define TYPE tree_settings
static const xsm_option options[] = {
    XSMI_OPTION_INT("trees", TYPE, trees, XSMI_DEFAULT_TEXT(xsm_label_tree_options, trees), 1, XSMI_LABEL_TREES,
                    "trees, of other seeds, whose probabilities are averaged"),
    XSMI_OPTION_INT("arity", TYPE, arity, XSMI_DEFAULT_TEXT(xsm_label_tree_options, arity), 2, 4096,
                    "most children of a node whose children are not labels"),
    XSMI_OPTION_INT("leaf", TYPE, leaf, XSMI_DEFAULT_TEXT(xsm_label_tree_options, leaf), 2, 4096,
                    "most labels under a node whose children are labels"),
    XSMI_OPTION_CHOICE("balance", TYPE, balance, balances, "balanced",
                       "divide labels into parts of equal size, or into clusters of any size"),
    XSMI_OPTION_INT("rounds", TYPE, rounds, XSMI_DEFAULT_TEXT(xsm_label_tree_options, rounds), 1, 10000,
                    "most iterations of a clustering"),
    XSMI_OPTION_CHOICE("loss", TYPE, loss, losses, "squared-hinge", "loss of a node's classifiers"),
    XSMI_OPTION_DOUBLE("cost", TYPE, cost, XSMI_DEFAULT_TEXT(xsm_label_tree_options, cost), 1e-6, 1e6,
                       "weight of the loss against the penalty |w|^2/2"),
    XSMI_OPTION_DOUBLE("epsilon", TYPE, epsilon, XSMI_DEFAULT_TEXT(xsm_label_tree_options, epsilon), 1e-9, 10,
                       "tolerance of the solver: largest difference of projected gradients"),
    XSMI_OPTION_INT("iterations", TYPE, iterations, XSMI_DEFAULT_TEXT(xsm_label_tree_options, iterations), 1, 1000000,
                    "most passes over the rows of a node"),
    XSMI_OPTION_DOUBLE("threshold", TYPE, threshold, XSMI_DEFAULT_TEXT(xsm_label_tree_options, threshold), 0, 1e6,
                       "weights with a smaller absolute value are dropped"),
    XSMI_OPTION_INT("keep", TYPE, keep, "0", 0, 4294967295.0,
                    "most weights of a node, the largest; 0 = all above the threshold"),
    XSMI_OPTION_INT("negatives", TYPE, negatives, "0", 0, 1000,
                    "width of a beam search whose mistakes are negatives, too; 0 = only the rows of a node"),
    XSMI_OPTION_CHOICE("link", TYPE, link, links, "auto",
                       "what scores become: probabilities of each label, or of all together, or scores that rank only"),
    XSMI_OPTION_SEED(TYPE, "seed of the random starts and orders"),
};
static const xsmi_option_table table = XSMI_OPTION_TABLE(options);

const xsm_option *xsm_label_tree_option(size_t index)
{
    return index < table.count ? xsmi_option_at(&table, index) : NULL;
}

/* The offset of each option's value in the public struct, in the order of the table. */
static const uint32_t members[] = {
#define MEMBER(name) offsetof(xsm_label_tree_options, name)
    MEMBER(trees), MEMBER(arity),     MEMBER(leaf),    MEMBER(balance),    MEMBER(rounds),
    MEMBER(loss),  MEMBER(cost),      MEMBER(epsilon), MEMBER(iterations), MEMBER(threshold),
    MEMBER(keep),  MEMBER(negatives), MEMBER(link),    MEMBER(seed),
#undef MEMBER
};
_Static_assert(sizeof members / sizeof *members == sizeof options / sizeof *options, "a member for each option");

/* Returns option number `i`, a whole number: the seed has 64 bits, counts have 32. */
static uint64_t whole_of(const xsm_label_tree_options *o, size_t i)
{
    const void *at = (const char *)o + members[i];
    return members[i] == offsetof(xsm_label_tree_options, seed) ? *(const uint64_t *)at : *(const uint32_t *)at;
}

/* Reads option number `i` of the caller's struct: 0 means the default if the option does not accept 0, else XSM_DEFAULT
 * does. */
static xsm_status read_option(const xsm_label_tree_options *o, size_t i, tree_settings *s, xsm_error *err)
{
    const xsm_option *option = &options[i];
    const void *at = (const char *)o + members[i];
    if (option->type == XSM_OPTION_INT) {
        const uint64_t number = whole_of(o, i);
        return number == 0 && option->minimum > 0
                   ? XSM_OK
                   : xsmi_option_set_int(option, s, (int64_t)XSMI_MIN(number, (uint64_t)INT64_MAX), err);
    }
    if (option->type == XSM_OPTION_DOUBLE) {
        const double number = *(const double *)at, stands = option->minimum > 0 ? 0 : XSM_DEFAULT;
        return number == stands ? XSM_OK : xsmi_option_set_double(option, s, number, err);
    }
    const int32_t chosen = *(const int32_t *)at;
    int32_t choices = 0;
    while (option->choices[choices]) {
        choices++;
    }
    if (chosen < 0 || chosen >= choices) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "option '%s' is %d; accepted is 0 to %d", option->name, chosen,
                         choices - 1);
    }
    *(int32_t *)(void *)((char *)s + option->offset) = chosen;
    return XSM_OK;
}

/* Copies the caller's options, which may be another release's. */
static xsm_status known_options(const xsm_label_tree_options *given, xsm_label_tree_options *known, xsm_error *err)
{
    *known = (xsm_label_tree_options)XSM_LABEL_TREE_OPTIONS_INIT;
    return XSMI_READ(xsm_label_tree_options, known, given, err);
}

static xsm_status read_options(const xsm_label_tree_options *given, tree_settings *s, xsm_error *err)
{
    xsm_label_tree_options known;
    XSMI_TRY(known_options(given, &known, err));
    xsmi_option_defaults(&table, s);
    for (size_t i = 0; i < table.count; i++) {
        XSMI_TRY(read_option(&known, i, s, err));
    }
    if (s->loss == XSM_LABEL_TREE_LOSS_LOGISTIC && s->link == XSM_LABEL_TREE_LINK_HINGE) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "link 'hinge' is for loss 'squared-hinge'; with loss 'logistic' accepted are 'auto', "
                         "'sigmoid', 'softmax' and 'normalised'");
    }
    if (!(known.checkpoint_every >= 0 && isfinite(known.checkpoint_every))) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "checkpoint_every is %g; accepted is 0 (%g seconds) or more",
                         known.checkpoint_every, (double)XSMI_DEFAULT(xsm_label_tree_options, checkpoint_every));
    }
    s->start = known.start;
    s->checkpoint = (xsmi_place){.name = known.checkpoint};
    s->resume = (xsmi_place){.name = known.resume};
    if ((known.checkpoint && known.checkpoint_storage) || (known.resume && known.resume_storage)) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_label_tree_options: %s are both set; one of them is accepted at most",
                         known.checkpoint && known.checkpoint_storage ? "checkpoint and checkpoint_storage"
                                                                      : "resume and resume_storage");
    }
    if (known.checkpoint_storage) {
        XSMI_TRY(xsmi_place_to_write(NULL, known.checkpoint_storage, &s->storages[0],
                                     "xsm_label_tree_options.checkpoint_storage", &s->checkpoint, err));
    }
    if (known.resume_storage) {
        XSMI_TRY(xsmi_place_to_read(NULL, known.resume_storage, &s->storages[1],
                                    "xsm_label_tree_options.resume_storage", &s->resume, err));
        XSMI_TRY(xsmi_place_check_unlent(&s->resume, err));
    }
    s->checkpoint_every =
        known.checkpoint_every > 0 ? known.checkpoint_every : XSMI_DEFAULT(xsm_label_tree_options, checkpoint_every);
    return XSM_OK;
}

/* Returns the table of options with the values of `s`. */
static xsmi_option_group group_of(const tree_settings *s)
{
    return (xsmi_option_group){.kind = "method",
                               .name = "label-tree",
                               .table = {{0}, {0}, table},
                               .values = {NULL, NULL, (void *)(uintptr_t)s}};
}

static void write_option(const tree_settings *s, size_t i, xsm_label_tree_options *o)
{
    const void *from = (const char *)s + options[i].offset;
    void *to = (char *)o + members[i];
    if (options[i].type == XSM_OPTION_DOUBLE) {
        *(double *)to = *(const double *)from;
    } else if (options[i].type == XSM_OPTION_CHOICE) {
        *(int32_t *)to = *(const int32_t *)from;
    } else if (members[i] == offsetof(xsm_label_tree_options, seed)) {
        *(uint64_t *)to = (uint64_t) * (const int64_t *)from;
    } else {
        *(uint32_t *)to = (uint32_t) * (const int64_t *)from;
    }
}

xsm_status xsm_label_tree_set(xsm_label_tree_options *o, const char *name, const char *value, xsm_error *err)
{
    XSMI_ENTER(err);
    XSMI_NEED(err, {o, "options"}, {name, "name"});
    xsm_label_tree_options known;
    tree_settings s;
    XSMI_TRY(known_options(o, &known, err));
    xsmi_option_defaults(&table, &s);
    const xsmi_option_group group = group_of(&s);
    XSMI_TRY(xsmi_group_set_text(&group, name, value, err));
    write_option(&s, (size_t)(xsmi_option_find(&table, name) - options), &known);
    return XSMI_WRITE(xsm_label_tree_options, &known, o, err);
}

size_t xsm_label_tree_get(const xsm_label_tree_options *o, const char *name, char *buffer, size_t size)
{
    tree_settings s;
    const bool readable = o && name && read_options(o, &s, NULL) == XSM_OK;
    const xsmi_option_group group = group_of(&s);
    return xsmi_group_get(readable ? &group : NULL, name, buffer, size);
}

/* -- rows ---------------------------------------------------------------------------------------------------------- */

/* Refuses rows that cannot be trained on; *several says that a row has more than one known label. */
static xsm_status check_rows(const xsm_dataset *d, bool *several, xsm_error *err)
{
    if (d->features == 0) {
        return xsmi_fail(err, XSM_ERROR_SHAPE, "the rows have no features; a label tree needs some");
    }
    if (d->rows > UINT32_MAX - 1) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%llu rows; a label tree takes up to 4,294,967,294",
                         (unsigned long long)d->rows);
    }
    if (d->classes > INT32_MAX) {
        return xsmi_fail(err, XSM_ERROR_LIMIT, "%u classes; a label tree takes up to 2,147,483,647", d->classes);
    }
    XSMI_TRY(xsmi_check_dimensions(d->features, d->classes, err));
    bool any = false;
    *several = false;
    for (uint64_t r = 0; r < d->rows; r++) {
        size_t n, known = 0;
        const uint32_t *labels = xsmi_dataset_labels(d, r, &n);
        for (size_t k = 0; k < n; k++) {
            known += labels[k] < d->classes;
        }
        if (n > 1 && d->label_weights) {
            return xsmi_fail(
                err, XSM_ERROR_UNSUPPORTED,
                "row %llu has %zu labels with weights; a label tree weighs rows, not their labels: one label a "
                "row is accepted with weights, or several without",
                (unsigned long long)r, n);
        }
        any = any || known > 0;
        *several = *several || known > 1;
    }
    return any ? XSM_OK : xsmi_fail(err, XSM_ERROR_SHAPE, "no row has a known label; a label tree needs one");
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

static const int32_t calibrations[] = {
    [XSM_LABEL_TREE_LINK_SIGMOID] = XSMI_GROW_SIGMOID,
    [XSM_LABEL_TREE_LINK_SOFTMAX] = XSMI_GROW_SOFTMAX,
    [XSM_LABEL_TREE_LINK_HINGE] = XSMI_GROW_PLAIN,
    [XSM_LABEL_TREE_LINK_NORMALISED] = XSMI_GROW_SIGMOID,
};
static const int32_t model_links[] = {
    [XSM_LABEL_TREE_LINK_SIGMOID] = XSMI_LINK_LOG_SIGMOID,
    [XSM_LABEL_TREE_LINK_SOFTMAX] = XSMI_LINK_SOFTMAX,
    [XSM_LABEL_TREE_LINK_HINGE] = XSMI_LINK_SQUARED_HINGE,
    [XSM_LABEL_TREE_LINK_NORMALISED] = XSMI_LINK_NORMALISED,
};

/* Takes trees and link from the model that grows. */
static xsm_status check_start(const xsm_dataset *d, tree_settings *o, xsm_error *err)
{
    static const int32_t own_links[] = {[XSMI_LINK_LOG_SIGMOID] = XSM_LABEL_TREE_LINK_SIGMOID,
                                        [XSMI_LINK_SOFTMAX] = XSM_LABEL_TREE_LINK_SOFTMAX,
                                        [XSMI_LINK_SQUARED_HINGE] = XSM_LABEL_TREE_LINK_HINGE,
                                        [XSMI_LINK_NORMALISED] = XSM_LABEL_TREE_LINK_NORMALISED};
    const xsm_model *m = o->start;
    const xsmi_label_trees *l = xsmi_model_trees(m);
    if (!l || xsmi_model_dtype(m) != XSM_DTYPE_FLOAT32) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED, "start is a model of %s; accepted is a label tree of float32",
                         l ? "fewer bits" : "another kind");
    }
    if (m->classes != d->classes || m->features != d->features) {
        return xsmi_fail(err, XSM_ERROR_SHAPE,
                         "the label tree has %u classes and %u features, the rows %u and %u; xsm_model_grow() and "
                         "xsm_dataset_extend() give both the same",
                         m->classes, m->features, d->classes, d->features);
    }
    if (o->checkpoint.name || o->resume.name) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "the growth of a label tree writes and reads no checkpoints");
    }
    o->trees = l->count;
    o->link = own_links[l->link];
    for (uint32_t t = 0; t < l->count; t++) {
        if (!l->tree[t].weights->bias || (!l->tree[t].weights->scales && o->link != XSM_LABEL_TREE_LINK_HINGE)) {
            return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                             "the label tree does not say how its scores were calibrated (tensors 'scales'); "
                             "fit it anew");
        }
    }
    return XSM_OK;
}

static xsmi_grow_settings settings_of(const tree_settings *o, uint64_t tree)
{
    const uint64_t position = tree << 48, seed = (uint64_t)o->seed;
    return (xsmi_grow_settings){
        .divided = o->divided,
        .layout = {.arity = (uint32_t)o->arity,
                   .leaf = (uint32_t)o->leaf,
                   .balanced = o->balance == XSM_LABEL_TREE_BALANCE_BALANCED,
                   .seed = seed,
                   .iterations = (uint32_t)o->rounds,
                   .position = position,
                   .divided = o->divided},
        .node = {.dual = {o->cost, o->epsilon, (uint32_t)o->iterations,
                          o->loss == XSM_LABEL_TREE_LOSS_LOGISTIC ? XSMI_DUAL_LOGISTIC : XSMI_DUAL_SQUARED_HINGE},
                 .threshold = o->threshold,
                 .keep = (uint32_t)o->keep,
                 .seed = seed,
                 .position = position},
        .beam = o->start ? 0 : (uint32_t)o->negatives,
        .calibrate = calibrations[o->link]};
}

static void add_to_result(xsm_label_tree_result *r, const xsmi_label_tree *tree)
{
    r->nodes += tree->tree->nodes;
    r->weights += xsmi_sparse_entries(tree->weights);
    r->bytes += xsmi_sparse_bytes(tree->weights) + 4 * (uint64_t)tree->tree->nodes;
    r->depth = tree->tree->depth > r->depth ? tree->tree->depth : r->depth;
}

static size_t get_of_group(const void *of, const char *name, char *buffer, size_t size)
{
    return xsmi_group_get(of, name, buffer, size);
}

static xsm_status add_options(const tree_settings *o, xsmi_settings *s, xsm_error *err)
{
    const xsmi_option_group group = group_of(o);
    for (size_t i = 0; i < table.count; i++) {
        XSMI_TRY(
            xsmi_settings_add_option(s, XSMI_SETTINGS_PREFIX "label-tree.", &options[i], &group, get_of_group, err));
    }
    return XSM_OK;
}

/* Compares the options among the processes of a context. */
static xsm_status agree_options(xsm_context *ctx, const tree_settings *o, xsm_error *err)
{
    const xsmi_number files[] = {XSMI_WHOLE("checkpoint", o->checkpoint.name != NULL),
                                 XSMI_WHOLE("resume", o->resume.name != NULL)};
    xsmi_settings s = {.context = ctx};
    xsm_status status = add_options(o, &s, err);
    status = status == XSM_OK ? xsmi_settings_add_numbers(&s, files, sizeof files / sizeof *files, err) : status;
    status = xsmi_settings_agree(ctx, &s, status, err);
    xsmi_settings_free(&s);
    return status;
}

/* Lists the settings by which checkpoints are compared. */
static xsm_status gather_settings(const xsm_dataset *train, const tree_settings *o, xsmi_settings *s, xsm_error *err)
{
    XSMI_TRY(xsmi_settings_add(s, XSMI_KEY_CHECKPOINT, "", "1", err));
    XSMI_TRY(xsmi_settings_add(s, XSMI_SETTINGS_PREFIX "method", "", "label-tree", err));
    XSMI_TRY(add_options(o, s, err));
    XSMI_TRY(xsmi_settings_add_whole(s, XSMI_SETTINGS_PREFIX "rows", train->rows, err));
    XSMI_TRY(xsmi_settings_add_whole(s, XSMI_SETTINGS_PREFIX "features", train->features, err));
    XSMI_TRY(xsmi_settings_add_whole(s, XSMI_SETTINGS_PREFIX "classes", train->classes, err));
    const uint64_t hash = xsmi_dataset_fingerprint(train);
    XSMI_TRY(xsmi_go_on(s->context, err));
    return xsmi_settings_add_hash(s, XSMI_SETTINGS_PREFIX "data", hash, err);
}

/* Reads the checkpoint to resume. Writes a first one, so that a file that cannot be written is an error at once. */
static xsm_status prepare_checkpoint(const xsm_dataset *train, const tree_settings *o, xsmi_label_tree *trees,
                                     xsmi_fit_checkpoint *c, xsm_error *err)
{
    if (!o->checkpoint.name && !o->resume.name) {
        return XSM_OK;
    }
    c->schema = train->schema;
    XSMI_TRY(gather_settings(train, o, &c->settings, err));
    if (o->resume.name) {
        XSMI_TRY(xsmi_fit_checkpoint_resume(c, &o->resume, train->features, train->classes, (uint32_t)o->trees, trees,
                                            &c->count, err));
    }
    return o->checkpoint.name && !o->resume.name ? xsmi_fit_checkpoint_save(c, NULL, err) : XSM_OK;
}

static xsm_status grow_trees(xsm_context *ctx, const xsm_dataset *train, const tree_settings *o, xsmi_label_tree *trees,
                             xsmi_fit_checkpoint *checkpoint, xsm_label_tree_result *result, xsm_error *err)
{
    for (uint32_t t = 0; t < checkpoint->count; t++) {
        add_to_result(result, &trees[t]);
    }
    if (checkpoint->count == (uint64_t)o->trees) {
        return XSM_OK;
    }
    const double started = xsmi_seconds();
    xsmi_label_vectors vectors;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "making label vectors", "labels", train->classes);
    XSMI_TRY(xsmi_end(&activity, xsmi_label_vectors_make(&vectors, ctx, train, false, err), err));
    result->clustering_seconds = xsmi_seconds() - started;
    xsm_status status = XSM_OK;
    while (checkpoint->count < (uint64_t)o->trees && status == XSM_OK) {
        xsmi_label_tree *tree = &trees[checkpoint->count];
        const xsmi_grow_settings settings = settings_of(o, checkpoint->count);
        xsmi_grow_times times = {0, 0, 0};
        status = xsmi_label_grow(&vectors, train, &settings, checkpoint, tree, &times, err);
        result->clustering_seconds += times.clustering;
        result->training_seconds += times.training;
        if (status == XSM_OK) {
            add_to_result(result, tree);
            checkpoint->count++;
            if (o->checkpoint.name) {
                (void)xsmi_fit_checkpoint_save(checkpoint, NULL, NULL);
            }
        }
    }
    xsmi_label_vectors_free(&vectors);
    return status;
}

/* Makes the trees of o->start with the classes that arrive. */
static xsm_status grow_start(xsm_context *ctx, const xsm_dataset *train, const tree_settings *o, xsmi_label_tree *trees,
                             xsmi_fit_checkpoint *checkpoint, xsm_label_tree_result *result, xsm_error *err)
{
    const double started = xsmi_seconds();
    xsmi_label_vectors vectors;
    uint32_t *beside;
    XSMI_TRY(xsmi_array_new(ctx, &beside, train->classes, sizeof *beside, "the places of classes", err));
    xsm_status status = xsmi_label_vectors_make(&vectors, ctx, train, true, err);
    if (status == XSM_OK) {
        status = xsmi_arrivals_place(o->start, &vectors, beside, err);
        result->clustering_seconds = xsmi_seconds() - started;
        for (uint32_t k = 0; k < train->classes && status == XSM_OK; k++) {
            result->classes += beside[k] != XSMI_NO_CLASS;
        }
        for (uint32_t t = 0; t < (uint64_t)o->trees && status == XSM_OK; t++) {
            xsmi_grow_settings settings = settings_of(o, t);
            xsmi_grow_times times = {0, 0, 0};
            xsmi_arrivals arrivals;
            status = xsmi_arrivals_plan(&arrivals, o->start, t, &vectors, beside, settings.layout.leaf, err);
            settings.arrivals = settings.layout.arrivals = &arrivals;
            result->divided += arrivals.divisions;
            status = status == XSM_OK
                         ? xsmi_label_grow(&arrivals.rows, train, &settings, checkpoint, &trees[t], &times, err)
                         : status;
            xsmi_arrivals_free(&arrivals);
            result->clustering_seconds += times.clustering;
            result->training_seconds += times.training;
            result->trained += times.trained;
            if (status == XSM_OK) {
                add_to_result(result, &trees[t]);
            }
        }
        xsmi_label_vectors_free(&vectors);
    }
    xsmi_release(ctx, beside, train->classes, sizeof *beside);
    return status;
}

static xsm_status make_model(xsm_context *ctx, const xsm_dataset *train, const xsmi_label_tree *trees,
                             const tree_settings *o, xsm_model **out, xsm_error *err)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model *model;
    XSMI_TRY(xsm_dataset_get_class_map(train, &map, err));
    XSMI_TRY(xsmi_model_of_label_trees(ctx, model_links[o->link], trees, (uint32_t)o->trees, &model, err));
    xsm_status status =
        o->start ? xsmi_model_copy_rest(o->start, model, err) : xsmi_model_put_class_map(model, &map, err);
    if (status != XSM_OK) {
        xsm_model_free(model);
        return status;
    }
    *out = model;
    return XSM_OK;
}

/* Agrees on `status`; then fails unless all processes have read the same rows and resume from the same file. */
static xsm_status compare_ranks(xsm_context *ctx, const xsm_dataset *train, const tree_settings *o,
                                const xsmi_fit_checkpoint *c, xsm_status status, xsm_error *err)
{
    if (status != XSM_OK) {
        return xsmi_agree(ctx, status, err);
    }
    XSMI_TRY(xsmi_check_same_rows(ctx, train, err)); /* begins with an agreement */
    return o->resume.name ? xsmi_check_same_file(ctx, xsmi_file_mark(c->file), o->resume.name, err) : XSM_OK;
}

static xsm_status fit(xsm_context *ctx, const xsm_dataset *train, tree_settings *o, xsm_model **out,
                      xsm_label_tree_result *result, xsm_error *err)
{
    xsmi_label_tree trees[XSMI_LABEL_TREES] = {{NULL, NULL}};
    bool several = false;
    XSMI_TRY(o->divided ? agree_options(ctx, o, err) : XSM_OK);
    XSMI_TRY(check_rows(train, &several, err));
    XSMI_TRY(o->start ? check_start(train, o, err) : XSM_OK);
    if (o->link == XSM_LABEL_TREE_LINK_AUTO) {
        o->link = several ? XSM_LABEL_TREE_LINK_SIGMOID : XSM_LABEL_TREE_LINK_SOFTMAX;
    }
    result->link = o->link;
    xsmi_fit_checkpoint checkpoint = {.context = ctx,
                                      .place = o->checkpoint.name ? &o->checkpoint : NULL,
                                      .writes = !o->divided || xsmi_rank(ctx) == 0,
                                      .every = o->checkpoint_every,
                                      .saved = xsmi_seconds(),
                                      .settings = {.context = ctx},
                                      .trees = trees};
    xsm_status status = prepare_checkpoint(train, o, trees, &checkpoint, err);
    if (o->divided) { /* the first process must not replace a file that others still read */
        status = compare_ranks(ctx, train, o, &checkpoint, status, err);
    }
    if (status == XSM_OK) {
        status = (o->start ? grow_start : grow_trees)(ctx, train, o, trees, &checkpoint, result, err);
    }
    result->checkpoints = checkpoint.written;
    result->checkpoint = checkpoint.status;
    xsmi_fit_checkpoint_free(&checkpoint);
    if (status == XSM_OK) {
        status = make_model(ctx, train, trees, o, out, err);
    }
    for (int64_t t = 0; t < o->trees; t++) {
        xsmi_class_tree_release(trees[t].tree);
        xsmi_sparse_release(trees[t].weights);
    }
    return status;
}

/* Ends a fit that succeeded in this process: agrees that it did in all, and takes the result of process 0. */
static xsm_status end_divided(xsm_context *ctx, xsm_label_tree_result *done, xsm_error *err)
{
    XSMI_TRY(xsmi_agree(ctx, XSM_OK, err));
    return xsmi_exchange_copy(ctx, done, sizeof *done, 0, err);
}

xsm_status xsmi_fit_label_tree(xsm_context *context, const xsm_dataset *train, const xsm_label_tree_options *given,
                               bool divided, xsm_model **out, xsm_label_tree_result *result, xsm_error *err)
{
    tree_settings o;
    xsm_label_tree_result done = XSM_LABEL_TREE_RESULT_INIT;
    XSMI_TRY(read_options(given, &o, err));
    o.divided = divided;
    if (result) {
        XSMI_TRY(XSMI_WRITE(xsm_label_tree_result, &done, result, err));
    }
    xsm_context *ctx;
    XSMI_TRY(xsmi_context_acquire(context, &ctx, err));
    xsm_model *model = NULL;
    xsmi_activity activity;
    xsmi_begin(&activity, ctx, "training a label tree", "trees", (uint64_t)o.trees);
    xsm_status status = xsmi_end(&activity, fit(ctx, train, &o, &model, &done, err), err);
    if (divided && status == XSM_OK) {
        status = end_divided(ctx, &done, err);
    }
    if (status == XSM_OK && result) {
        status = XSMI_WRITE(xsm_label_tree_result, &done, result, err);
    }
    if (status == XSM_OK) {
        *out = model;
    } else {
        xsm_model_free(model);
    }
    xsm_context_free(ctx);
    return status;
}

/* Whether a tree grows, which each process does alone. */
static bool grows(const xsm_label_tree_options *given)
{
    xsm_label_tree_options known;
    return given && known_options(given, &known, NULL) == XSM_OK && known.start;
}

static xsm_status fit_in(xsm_context *context, const xsm_dataset *train, const xsm_label_tree_options *given,
                         xsm_model **out, xsm_label_tree_result *result, xsm_error *err)
{
    xsm_context *group = xsmi_context_group(context);
    const bool grow = grows(given);
    xsm_model *made = NULL;
    XSMI_TRY(xsmi_need("xsm_fit_label_tree", XSMI_GIVEN({train, "train"}, {out, "out"}), err));
    XSMI_TRY(xsmi_agree_same(group, XSM_OK, grow, XSM_ERROR_ARGUMENT,
                             "xsm_label_tree_options.start is given here or on rank 0 alone", err));
    xsm_status status = xsmi_fit_label_tree(context, train, given, group && !grow, &made, result, err);
    status = grow ? xsmi_agree(group, status, err) : status;
    if (status != XSM_OK) {
        xsm_model_free(made);
        return status;
    }
    *out = made;
    return XSM_OK;
}

xsm_status xsm_fit_label_tree(xsm_context *context, const xsm_dataset *train, const xsm_label_tree_options *given,
                              xsm_model **out, xsm_label_tree_result *result, xsm_error *err)
{
    XSMI_ENTER(err);
    return XSMI_COLLECTIVE(xsmi_context_group(context), fit_in(context, train, given, out, result, err), err);
}
