/*
 * Fuzzing of what else is saved, piece by piece: samplers, indexes, checkpoints of label trees. Inputs are those of
 * contents.h. A sampler that was accepted draws by its own probabilities, an index finds rows that there are, a fit
 * that continues ends with a model.
 */
#include "contents.h"
#include "restored.h"
#include "rig.h"

#include "base/activity.h"

#include <math.h>
#include <string.h>

#include <xsoftmax/draw.h>
#include <xsoftmax/label_tree.h>

enum { DRAWS = 20, MOST_CLASSES = 100, ROWS = 3 };

/* -- files that are in order --------------------------------------------------------------------------------------- */

static void end_save(xsm_context *ctx, xsm_buffer *buffer, fuzz_contents *c)
{
    const xsm_storage storage = fuzz_storage(buffer);
    fuzz_contents_read(ctx, &storage, c);
    xsm_buffer_free(buffer);
}

static void save_sampler(xsm_context *ctx, const char *name, fuzz_contents *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = NULL;
    xsm_buffer *buffer = fuzz_buffer(ctx);
    xsm_dataset *rows = fuzz_rows(ctx, true);
    fuzz_require(xsm_sampler_new(ctx, name, &s, &err) == XSM_OK, err.message);
    fuzz_require(xsm_sampler_bind(s, rows, &err) == XSM_OK, err.message);
    const xsm_storage storage = fuzz_storage(buffer);
    fuzz_require(xsm_sampler_save(s, NULL, &storage, &err) == XSM_OK, err.message);
    end_save(ctx, buffer, c);
    xsm_sampler_free(s);
    xsm_dataset_free(rows);
}

static void save_index(xsm_context *ctx, const char *name, fuzz_contents *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_index *x = NULL;
    xsm_buffer *buffer = fuzz_buffer(ctx);
    fuzz_require(xsm_index_new(ctx, name, &x, &err) == XSM_OK, err.message);
    fuzz_require(xsm_index_build_model(x, fuzz_restored()->model, &err) == XSM_OK, err.message);
    const xsm_storage storage = fuzz_storage(buffer);
    fuzz_require(xsm_index_save(x, NULL, &storage, &err) == XSM_OK, err.message);
    end_save(ctx, buffer, c);
    xsm_index_free(x);
}

static xsm_label_tree_options tree_options(const char *name)
{
    xsm_label_tree_options options = XSM_LABEL_TREE_OPTIONS_INIT;
    options.trees = 2;
    options.arity = 2;
    options.leaf = 2;
    options.threshold = 0;
    options.link = strcmp(name, "calibrated") == 0 ? XSM_LABEL_TREE_LINK_SIGMOID : XSM_LABEL_TREE_LINK_AUTO;
    options.checkpoint_every = 1e-9;
    return options;
}

/* The hook of a context that cancels at its `left`-th call. */
static int32_t cancels(void *left, const xsm_activity *activity)
{
    (void)activity;
    return --*(int *)left == 0;
}

/* The checkpoint of a fit that was cancelled on the way. */
static void save_fit(xsm_context *unused, const char *name, fuzz_contents *c)
{
    (void)unused;
    for (int left = 400;; left /= 2) {
        int calls = left;
        xsm_error err = XSM_ERROR_INIT;
        xsm_context_options how = XSM_CONTEXT_OPTIONS_INIT;
        xsm_context *ctx = NULL;
        xsm_model *m = NULL;
        xsm_label_tree_options options = tree_options(name);
        how.threads = 1;
        how.progress = cancels;
        how.progress_user = &calls;
        fuzz_require(left > 0 && xsm_context_new(&how, &ctx, &err) == XSM_OK, err.message);
        xsmi_set_pace(ctx, 0);
        xsm_dataset *rows = fuzz_rows(ctx, true);
        xsm_buffer *buffer = fuzz_buffer(ctx);
        const xsm_storage storage = fuzz_storage(buffer);
        options.checkpoint_storage = &storage;
        const xsm_status status = xsm_fit_label_tree(ctx, rows, &options, &m, NULL, &err);
        size_t size = 0;
        const bool saved = status == XSM_CANCELLED && xsm_buffer_bytes(buffer, &size) && size > 0;
        calls = 0;
        if (saved) {
            end_save(ctx, buffer, c);
        } else {
            xsm_buffer_free(buffer);
        }
        xsm_model_free(m);
        xsm_dataset_free(rows);
        xsm_context_free(ctx);
        if (saved) {
            return;
        }
    }
}

/* -- what is done with them ---------------------------------------------------------------------------------------- */

static const xsm_dataset *some_rows(void)
{
    static xsm_dataset *rows;
    rows = rows ? rows : fuzz_rows(fuzz_context(), true);
    return rows;
}

static void use_sampler(xsm_context *ctx, const xsm_storage *from, const char *name)
{
    (void)name;
    xsm_error err = XSM_ERROR_INIT;
    xsm_sampler *s = NULL;
    xsm_sampler_info info = XSM_SAMPLER_INFO_INIT;
    const xsm_status status = xsm_sampler_load(ctx, NULL, from, NULL, &s, &err);
    fuzz_require_reason(status, &err);
    if (status != XSM_OK) {
        return;
    }
    uint32_t classes[DRAWS];
    double log_q[DRAWS];
    fuzz_require(xsm_sampler_get_info(s, &info, &err) == XSM_OK, err.message);
    const xsm_batch batch = xsm_batch_range(some_rows(), 0, 1);
    const xsm_draw draw = {.size = sizeof draw,
                           .batch = &batch,
                           .seed = 9,
                           .count = DRAWS,
                           .classes = classes,
                           .log_probabilities = log_q};
    const xsm_status drawn = xsm_sampler_draw(s, &draw, &err);
    fuzz_require_reason(drawn, &err);
    if (drawn == XSM_OK && info.classes <= MOST_CLASSES) {
        float all[MOST_CLASSES];
        double sum = 0;
        fuzz_require(xsm_sampler_log_probabilities(s, &batch, 0, info.classes, all, &err) == XSM_OK, err.message);
        for (uint32_t k = 0; k < info.classes; k++) {
            sum += exp((double)all[k]);
        }
        fuzz_require(fabs(sum - 1) < 1e-3, "probabilities sum to one");
        for (size_t i = 0; i < DRAWS; i++) {
            fuzz_require(classes[i] < info.classes &&
                             fabs(log_q[i] - (double)all[classes[i]]) <= 1e-3 * (1 + fabs(log_q[i])),
                         "draws have the probabilities that they say");
        }
    }
    xsm_sampler_free(s);
}

static void use_index(xsm_context *ctx, const xsm_storage *from, const char *name)
{
    (void)name;
    xsm_error err = XSM_ERROR_INIT;
    xsm_index *x = NULL;
    const xsm_status status = xsm_index_load(ctx, NULL, from, NULL, fuzz_restored()->model, &x, &err);
    fuzz_require_reason(status, &err);
    if (status == XSM_OK) {
        const float query[RESTORED_WIDTH] = {1, -2, 3};
        uint32_t classes[RESTORED_CLASSES], lengths = 0;
        float scores[RESTORED_CLASSES];
        bool seen[RESTORED_CLASSES] = {false};
        xsm_index_search s = XSM_INDEX_SEARCH_INIT;
        s.queries = query;
        s.stride = RESTORED_WIDTH;
        s.count = 1;
        s.top = RESTORED_TOP;
        s.classes = classes;
        s.scores = scores;
        s.lengths = &lengths;
        fuzz_require(xsm_index_query(x, &s, &err) == XSM_OK && lengths <= RESTORED_TOP, err.message);
        for (uint32_t i = 0; i < lengths; i++) {
            fuzz_require(classes[i] < RESTORED_CLASSES && !seen[classes[i]] && (i == 0 || scores[i] <= scores[i - 1]),
                         "rows that there are, once each, in order");
            seen[classes[i]] = true;
        }
        xsm_index_free(x);
    }
}

static void use_fit(xsm_context *ctx, const xsm_storage *from, const char *name)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_label_tree_options options = tree_options(name);
    xsm_model *m = NULL;
    options.resume_storage = from;
    const xsm_status status = xsm_fit_label_tree(ctx, some_rows(), &options, &m, NULL, &err);
    fuzz_require_reason(status, &err);
    fuzz_require((status == XSM_OK) == (m != NULL), "a model or an error");
    xsm_model_free(m);
}

static const struct {
    const char *name;
    void (*save)(xsm_context *ctx, const char *name, fuzz_contents *c);
    void (*use)(xsm_context *ctx, const xsm_storage *from, const char *name);
} kinds[] = {
    {"uniform", save_sampler, use_sampler}, {"frequency", save_sampler, use_sampler},
    {"tree", save_sampler, use_sampler},    {"label-tree", save_sampler, use_sampler},
    {"exact", save_index, use_index},       {"spherical", save_index, use_index},
    {"label tree", save_fit, use_fit},      {"calibrated", save_fit, use_fit},
    {"recent", save_sampler, use_sampler},  {"midx", save_sampler, use_sampler},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fuzz_contents all[KINDS];
    if (size < 2) {
        return 0;
    }
    const size_t which = data[0] % KINDS;
    xsm_context *ctx = fuzz_context();
    fuzz_file file;
    if (all[which].entry_count == 0) {
        kinds[which].save(ctx, kinds[which].name, &all[which]);
    }
    if (fuzz_contents_make(ctx, &all[which], data, size, &file)) {
        const xsm_storage from = fuzz_file_storage(&file);
        kinds[which].use(ctx, &from, kinds[which].name);
        fuzz_file_free(&file);
    }
    return 0;
}

#ifndef FUZZER
int main(int argc, char **argv)
{
    fuzz_contents_run(2000);
    return argc > 1 ? fuzz_replay(argc, argv, false) : 0;
}
#endif
