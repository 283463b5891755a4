/*
 * The adversarial sampler of R. Bamler and S. Mandt, Extreme classification via adversarial softmax approximation,
 * 2020: a balanced tree over the classes whose inner nodes are logistics of a row's principal components, fitted to the
 * training rows. It draws classes that are probable given the features and so hard to tell from the label.
 */
#include "model/tree_file.h"
#include "sampler/arrays.h"
#include "sampler/sampler.h"
#include "sampler/tree_fit.h"
#include "base/activity.h"
#include "base/held.h"
#include "base/order.h"

#include <math.h>
#include <string.h>

typedef struct tree_state {
    int64_t components;
    double ridge;
    int64_t folds;
    int32_t scaling, whiten;
    xsmi_tree tree;
} tree_state;

enum { SCALING_CORRELATION = 0, SCALING_COVARIANCE = 1 };
static const char *const scalings[] = {"correlation", "covariance", NULL};

static const xsm_option options[] = {
    XSMI_OPTION_INT(
        "components", tree_state, components, "0", 0, XSM_FEATURES_MAX,
        "principal components of the features that the nodes see; 0 = 16, or all features if there are fewer"),
    XSMI_OPTION_DOUBLE("ridge", tree_state, ridge, "0.1", 0, 1e30,
                       "lambda of the penalty lambda (||w||^2 + b^2) on each node's sum of log-likelihoods"),
    XSMI_OPTION_INT("folds", tree_state, folds, "0", 0, 100,
                    "parts of the rows that are held back in turn to choose the ridge among 0.01, 0.1, 1, 10; 0 = the "
                    "ridge as it is"),
    XSMI_OPTION_CHOICE("scaling", tree_state, scaling, scalings, "correlation",
                       "what the components are of: correlation divides each feature by its standard deviation first"),
    XSMI_OPTION_BOOL("whiten", tree_state, whiten, "yes",
                     "divides each component by its standard deviation, so that the ridge weighs all alike"),
};

static void unbind(void *state)
{
    xsmi_tree_clear(&((tree_state *)state)->tree);
}

/* The rows of a fit by label, and the held-back rows. */
typedef struct fit_rows {
    xsm_context *context;
    const xsm_dataset *train;
    const xsmi_tree *tree;
    float *codes;        /* [row_labels][dims] by label */
    uint64_t *starts;    /* [classes+1] */
    uint64_t row_labels; /* (row, label) pairs in all */
    uint64_t *row_of;    /* [row_labels] by label */
} fit_rows;

static void run_codes(void *state, const xsmi_range *r)
{
    const fit_rows *f = state;
    for (size_t i = r->first; i < r->end; i++) {
        xsmi_features x = xsmi_dataset_features(f->train, f->row_of[i]);
        xsmi_tree_encode(f->tree, &x, f->codes + i * f->tree->dims);
    }
}

/* Lists the rows by label: all but those of part `fold` of `folds`, or only those when `held_back`; every row with
 * folds 0. */
static void list_rows(fit_rows *f, uint64_t folds, uint64_t fold, bool held_back)
{
    uint32_t classes = f->train->classes;
    memset(f->starts, 0, ((size_t)classes + 1) * sizeof *f->starts);
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t row = 0; row < f->train->rows; row++) {
            size_t count;
            if (row % 4096 == 0 && xsmi_poll(f->context)) {
                f->row_labels = 0; /* the call was cancelled: no rows are encoded, and the caller finds out */
                return;
            }
            const uint32_t *labels = xsmi_dataset_labels(f->train, row, &count);
            bool mine = folds == 0 || (row % folds == fold) == held_back;
            for (size_t j = 0; mine && j < count; j++) {
                if (labels[j] >= classes) {
                    continue; /* a label that is not in the class map */
                }
                if (pass == 0) {
                    f->starts[labels[j] + 1]++;
                } else {
                    f->row_of[f->starts[labels[j]]++] = row;
                }
            }
        }
        for (uint32_t k = 0; pass == 0 && k < classes; k++) {
            f->starts[k + 1] += f->starts[k];
        }
    }
    for (uint32_t k = classes; k > 0; k--) { /* each has moved to the start of the next */
        f->starts[k] = f->starts[k - 1];
    }
    f->starts[0] = 0;
    f->row_labels = f->starts[classes];
}

static xsm_status fit_once(fit_rows *f, xsmi_tree *t, double ridge, xsmi_tree_report *report, xsm_error *err)
{
    XSMI_TRY(xsmi_go_on(f->context, err));
    XSMI_TRY(xsmi_run_ranges(f->context, run_codes, f, f->row_labels, 256, err));
    xsmi_tree_rows rows = {f->codes, f->starts};
    return xsmi_tree_fit(t, &rows, ridge, report, err);
}

/* Returns the sum of the log-probabilities of the rows listed, under a fitted tree. */
static double held_back_log_likelihood(const fit_rows *f)
{
    double sum = 0;
    for (uint32_t k = 0; k < f->train->classes; k++) {
        if (k % 64 == 0 && xsmi_poll(f->context)) {
            break; /* the caller finds out */
        }
        for (uint64_t i = f->starts[k]; i < f->starts[k + 1]; i++) {
            sum += xsmi_tree_log_probability(f->tree, f->codes + i * f->tree->dims, k);
        }
    }
    return sum;
}

static void empty_tree(xsmi_tree *t)
{
    memset(t->nodes, 0, xsmi_tree_leaves(t) * t->dims * sizeof *t->nodes);
}

static xsm_status choose_ridge(tree_state *s, fit_rows *f, double *ridge, xsm_error *err)
{
    static const double candidates[] = {0.01, 0.1, 1, 10};
    double best = -INFINITY;
    for (size_t c = 0; c < sizeof candidates / sizeof *candidates; c++) {
        double total = 0;
        for (int64_t fold = 0; fold < s->folds; fold++) {
            xsmi_tree_report report;
            list_rows(f, (uint64_t)s->folds, (uint64_t)fold, false);
            empty_tree(&s->tree);
            XSMI_TRY(fit_once(f, &s->tree, candidates[c], &report, err));
            list_rows(f, (uint64_t)s->folds, (uint64_t)fold, true);
            XSMI_TRY(xsmi_go_on(f->context, err));
            XSMI_TRY(xsmi_run_ranges(f->context, run_codes, f, f->row_labels, 256, err));
            total += held_back_log_likelihood(f);
            XSMI_TRY(xsmi_go_on(f->context, err));
        }
        if (total > best) {
            best = total;
            *ridge = candidates[c];
        }
    }
    xsmi_log(f->context, XSM_LOG_INFO, "tree: ridge %g is best on rows held back, log-probability %.4f a label", *ridge,
             best / (double)f->train->counted.labels);
    return XSM_OK;
}

static xsm_status bind(void *state, const xsm_sampler_problem *problem, xsm_error *err)
{
    tree_state *s = state;
    xsm_context *ctx = problem->context;
    if (problem->features == 0) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "sampler 'tree': its nodes score features, and the rows have none; 'uniform' or 'frequency' "
                         "is accepted");
    }
    if (s->components > (int64_t)problem->features) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "sampler 'tree': %lld components asked for, but the rows have %u features",
                         (long long)s->components, problem->features);
    }
    if (s->folds == 1 || (uint64_t)s->folds > problem->examples) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "sampler 'tree': %lld folds of %llu rows; accepted is 0, or 2 to %llu",
                         (long long)s->folds, (unsigned long long)problem->examples,
                         (unsigned long long)problem->examples);
    }
    uint32_t usual = XSMI_MIN(problem->features, 16);
    xsmi_pca_options pca = {
        .components = s->components ? (uint32_t)s->components : usual,
        .correlation = s->scaling == SCALING_CORRELATION,
        .whiten = s->whiten,
        .seed = problem->seed,
    };
    XSMI_TRY(xsmi_pca_fit(ctx, problem->train, &pca, &s->tree.pca, err));
    XSMI_TRY(xsmi_tree_start(ctx, problem->classes, &s->tree, err));
    fit_rows f = {.context = ctx, .train = problem->train, .tree = &s->tree};
    uint64_t row_labels = problem->train->counted.labels;
    xsmi_held held = {.context = ctx};
    f.codes = xsmi_hold(&held, (uint64_t)row_labels * s->tree.dims, sizeof *f.codes);
    f.starts = xsmi_hold(&held, (size_t)problem->classes + 1, sizeof *f.starts);
    f.row_of = xsmi_hold(&held, row_labels, sizeof *f.row_of);
    xsm_status status = xsmi_held_check(&held, "the rows of a tree", err);
    xsmi_tree_report report;
    double ridge = s->ridge;
    if (status == XSM_OK && s->folds > 0) {
        status = choose_ridge(s, &f, &ridge, err);
    }
    if (status == XSM_OK) {
        list_rows(&f, 0, 0, false);
        empty_tree(&s->tree);
        status = fit_once(&f, &s->tree, ridge, &report, err);
    }
    if (status == XSM_OK) {
        double labels = report.rows > 0 ? (double)report.rows : 1,
               nodes = report.fitted > 0 ? (double)report.fitted : 1;
        xsmi_log(ctx, XSM_LOG_INFO, "tree: %u classes, %llu nodes, %.2f steps a node, log-probability %.4f a label",
                 problem->classes, (unsigned long long)report.fitted, (double)report.steps / nodes,
                 report.log_likelihood / labels);
        if (report.not_converged > 0 || report.not_settled > 0) {
            xsmi_log(
                ctx, XSM_LOG_WARNING,
                "tree: %llu nodes were not fitted to the end, %llu did not stop moving labels; the sampler works, a "
                "larger ridge makes it fit better",
                (unsigned long long)report.not_converged, (unsigned long long)report.not_settled);
        }
    }
    xsmi_held_release(&held);
    return status;
}

static uint32_t code_length(const void *state)
{
    return ((const tree_state *)state)->tree.dims;
}

static void encode(const void *state, const xsm_row *row, float *code)
{
    xsmi_features x = {row->values, row->index, (size_t)row->count};
    xsmi_tree_encode(&((const tree_state *)state)->tree, &x, code);
}

/* Draws for one row or several. Descents in the tree run side by side. */
static void draw_rows(const void *state, const float *const *codes, xsm_random *const *random, uint32_t rows,
                      uint32_t count, uint32_t *const *classes, double *const *log_probabilities)
{
    const xsmi_tree *t = &((const tree_state *)state)->tree;
    const xsmi_kernels *kernels = xsmi_context_kernels(t->context);
    xsmi_tree_draws draws;
    uint64_t all = (uint64_t)rows * count;
    uint32_t row = 0, slot = 0, row_out = 0, slot_out = 0;
    for (uint64_t first = 0; first < all; first += XSMI_TREE_ROWS) {
        size_t n = all - first < XSMI_TREE_ROWS ? (size_t)(all - first) : XSMI_TREE_ROWS;
        for (size_t i = 0; i < n; i++) {
            draws.codes[i] = codes[row];
            draws.uniforms[i] = xsmi_stream_uniform(&random[row]->stream);
            slot = slot + 1 < count ? slot + 1 : 0;
            row += slot == 0;
        }
        draws.count = n;
        xsmi_tree_draw(t, kernels, &draws);
        for (size_t i = 0; i < n; i++) {
            classes[row_out][slot_out] = draws.classes[i];
            log_probabilities[row_out][slot_out] = draws.log_probabilities[i];
            slot_out = slot_out + 1 < count ? slot_out + 1 : 0;
            row_out += slot_out == 0;
        }
    }
}

static void draw(const void *state, const float *code, xsm_random *random, uint32_t count, uint32_t *classes,
                 double *log_probabilities)
{
    draw_rows(state, &code, &random, 1, count, &classes, &log_probabilities);
}

static double log_probability(const void *state, const float *code, uint32_t class)
{
    return xsmi_tree_log_probability(&((const tree_state *)state)->tree, code, class);
}

_Static_assert(XSM_SAMPLER_ROWS == XSMI_TREE_ROWS, "a sweep's rows are the kernels' lanes");

static void sweep(const void *state, const float *const *codes, uint32_t rows, float *out, void *scratch)
{
    const xsmi_tree *t = &((const tree_state *)state)->tree;
    xsmi_tree_sweep(t, xsmi_context_kernels(t->context), codes, rows, out, scratch);
}

static size_t sweep_scratch(const void *state)
{
    return xsmi_tree_scratch(&((const tree_state *)state)->tree) * sizeof(float);
}

static xsm_status save(const void *state, xsm_array_writer *writer, xsm_error *err)
{
    xsmi_tensor tensors[XSMI_TREE_TENSORS];
    size_t count = xsmi_tree_tensors(&((const tree_state *)state)->tree, tensors);
    for (size_t i = 0; i < count; i++) {
        XSMI_TRY(xsmi_array_put(writer, &tensors[i], err));
    }
    return XSM_OK;
}

static xsm_status load(void *state, const xsm_sampler_problem *problem, const xsm_array_reader *reader, xsm_error *err)
{
    return xsmi_array_tree(reader, problem, &((tree_state *)state)->tree, err);
}

const xsm_sampler_ops xsmi_tree_ops = {
    .size = sizeof(xsm_sampler_ops),
    .abi = XSM_EXT_ABI_VERSION,
    .flags = XSM_SAMPLER_TREE,
    .name = "tree",
    .summary = "a tree fitted to the rows, which draws classes hard to tell from the label (Bamler and Mandt 2020)",
    .state_size = sizeof(tree_state),
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .bind = bind,
    .unbind = unbind,
    .code_length = code_length,
    .encode = encode,
    .draw = draw,
    .log_probability = log_probability,
    .log_probabilities_rows = sweep,
    .rows_scratch = sweep_scratch,
    .save = save,
    .load = load,
    .draw_rows = draw_rows,
};
