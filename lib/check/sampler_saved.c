/* Tests what a sampler's table saves and loads. */
#include "sampler/arrays.h"
#include "check/sampler_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows whose log-probabilities are compared with those of a tree. */
enum { TREE_ROWS = 8 };

/* Makes a sampler from these arrays, without training rows. */
static xsm_status load(const xsmi_sampler_trial *t, xsm_context *ctx, const xsm_array_reader *reader, xsm_sampler **out,
                       xsm_error *err)
{
    xsm_sampler *s;
    XSMI_TRY(xsm_sampler_new_from(ctx, t->ops, &s, err));
    xsm_status status = xsmi_trial_set(ctx, t->options->set, xsmi_sampler_trial_set, s, err);
    if (status == XSM_OK) {
        status = xsmi_sampler_restore(s, reader, t->shape.classes, t->shape.features, err);
    }
    if (status != XSM_OK) {
        xsm_sampler_free(s);
        return status;
    }
    *out = s;
    return XSM_OK;
}

/* Checks that load() gives an error or a working sampler for damaged arrays. */
static xsm_status check_damage(const xsmi_sampler_trial *t, xsm_array_writer *w, const xsm_array_reader *whole,
                               xsm_error *err)
{
    for (size_t i = 0; i < w->count; i++) {
        const xsmi_tensor intact = w->tensors[i];
        for (int kind = 0; kind < 3; kind++) {
            xsm_sampler *s = NULL;
            xsm_array_reader reader = *whole;
            if (kind == 1 && intact.shape[0] == 0) {
                continue;
            }
            if (kind == 0) { /* missing: the last array takes its place */
                w->tensors[i] = w->tensors[w->count - 1];
                reader.count--;
            } else if (kind == 1) { /* shorter by one */
                w->tensors[i].shape[0]--;
            } else {
                w->tensors[i].dtype = intact.dtype == XSMI_DTYPE_F32 ? XSMI_DTYPE_U32 : XSMI_DTYPE_F32;
            }
            xsm_status status = load(t, t->context, &reader, &s, NULL);
            w->tensors[i] = intact;
            xsm_sampler_free(s);
            if (status != XSM_ERROR_FORMAT && status != XSM_ERROR_MEMORY) {
                return xsmi_sampler_fault(t, err, "load() says %s when array '%s' %s", xsm_status_name(status),
                                          intact.name,
                                          kind == 0   ? "is not there"
                                          : kind == 1 ? "is shorter"
                                                      : "is of another type");
            }
        }
    }
    return XSM_OK;
}

typedef struct load_use {
    const xsmi_sampler_trial *t;
    const xsm_array_reader *reader;
} load_use;

static xsm_status use_loaded(void *state, xsm_context *ctx, xsm_error *err)
{
    const load_use *u = state;
    xsm_sampler *s = NULL;
    XSMI_TRY(load(u->t, ctx, u->reader, &s, err));
    xsm_sampler_free(s);
    return XSM_OK;
}

/* Compares the tree that save() writes with log_probability(). */
static xsm_status check_tree(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    xsmi_tree tree;
    xsm_error said = XSM_ERROR_INIT;
    memset(&tree, 0, sizeof tree);
    float *code = xsmi_allocate(t->context, s->code_length, sizeof *code), *own = NULL;
    xsm_status status = code ? xsmi_sampler_tree(s, &tree, &said)
                             : xsmi_fail_memory(&said, s->code_length * sizeof *code, "the trial of a sampler");
    own = status == XSM_OK ? xsmi_allocate(t->context, tree.dims, sizeof *own) : NULL;
    if (status != XSM_OK && status != XSM_ERROR_MEMORY) {
        status = xsmi_sampler_fault(t, err, "XSM_SAMPLER_TREE, but save() writes no such tree: %s", said.message);
    } else if (!own) {
        status = xsmi_fail_memory(err, tree.dims * sizeof *own, "the trial of a sampler");
    }
    for (uint64_t row = 0; row < TREE_ROWS && status == XSM_OK; row++) {
        const xsmi_features x = xsmi_dataset_features(t->data, row);
        xsmi_sampler_encode(s, &x, code);
        xsmi_tree_encode(&tree, &x, own);
        for (uint32_t k = 0; k < t->shape.classes && status == XSM_OK; k++) {
            const double q = s->ops.log_probability(s->state, code, k), want = xsmi_tree_log_probability(&tree, own, k);
            if (!(fabs(q - want) <= t->options->tolerance * (1 + fabs(q)))) {
                status = xsmi_sampler_fault(
                    t, err, "class %u has log-probability %.9g, and %.9g by the tree that save() writes", k, q, want);
            }
        }
    }
    xsmi_release(t->context, own, tree.dims, sizeof *own);
    xsmi_release(t->context, code, s->code_length, sizeof *code);
    xsmi_tree_clear(&tree);
    return status;
}

/* Checks that a loaded sampler follows as one that was never saved; draws into classes[] and logs[]. */
static xsm_status follow_on(const xsmi_sampler_trial *t, const xsm_sampler *loaded, xsm_error *err)
{
    xsm_sampler *s = NULL;
    XSMI_TRY(xsmi_sampler_trial_make(t, t->context, &s, err));
    xsm_status status = xsmi_sampler_trial_follow(t, s, err);
    status = status == XSM_OK ? xsmi_sampler_trial_follow(t, loaded, err) : status;
    status = status == XSM_OK ? xsmi_sampler_trial_draw(t, s, 0, false, err) : status;
    status = status == XSM_OK ? xsmi_sampler_trial_draw(t, loaded, 1, false, err) : status;
    status = status == XSM_OK ? xsmi_sampler_trial_same(t, "when it was saved, loaded and followed on", err) : status;
    xsm_sampler_free(s);
    return status;
}

/* `s` has drawn classes[0] and logs[0]. */
xsm_status xsmi_sampler_trial_saved(const xsmi_sampler_trial *t, const xsm_sampler *s, xsm_error *err)
{
    xsm_array_writer w = {.context = t->context};
    xsm_sampler *loaded = NULL;
    xsm_status status = xsmi_sampler_arrays(s, &w, err);
    xsm_array_reader reader = {w.tensors, w.count, "a trial", NULL};
    if (status == XSM_OK) {
        xsm_error said = XSM_ERROR_INIT;
        status = load(t, t->context, &reader, &loaded, &said);
        if (status != XSM_OK && status != XSM_ERROR_MEMORY) {
            status = xsmi_sampler_fault(t, err, "load() does not take what save() hands over: %s",
                                        said.message[0] ? said.message : xsm_status_name(status));
        }
    }
    status = status == XSM_OK ? xsmi_sampler_trial_draw(t, loaded, 1, false, err) : status;
    status = status == XSM_OK ? xsmi_sampler_trial_same(t, "when it was saved and loaded", err) : status;
    status = status == XSM_OK && t->follows ? follow_on(t, loaded, err) : status;
    status = status == XSM_OK && (s->ops.flags & XSM_SAMPLER_TREE) ? check_tree(t, s, err) : status;
    status = status == XSM_OK ? check_damage(t, &w, &reader, err) : status;
    if (status == XSM_OK) {
        char who[160];
        load_use u = {t, &reader};
        snprintf(who, sizeof who, "sampler '%s', K = %u, load()", t->ops->name, t->shape.classes);
        status = xsmi_trial_allocations(t->context, use_loaded, &u, who, err);
    }
    xsm_sampler_free(loaded);
    xsmi_array_writer_clear(&w);
    return status;
}
