/* Corrections of scores. */
#include "model/correction.h"

#include <stdatomic.h>
#include <string.h>

struct xsmi_correction {
    xsm_context *context;
    atomic_size_t holders;
    uint32_t classes;
    /* One of these is set: */
    float *log_q; /* [classes] */
    xsmi_tree tree;
    xsmi_hierarchy hierarchy;
    xsmi_pairs pairs;
};

static xsm_status start(xsm_context *ctx, uint32_t classes, xsmi_correction **out, xsm_error *err)
{
    xsmi_correction *c = xsmi_allocate(ctx, 1, sizeof *c);
    if (!c) {
        return xsmi_fail_memory(err, sizeof *c, "a correction of scores");
    }
    memset(c, 0, sizeof *c);
    c->context = xsmi_context_retain(ctx);
    c->classes = classes;
    atomic_init(&c->holders, 1);
    *out = c;
    return XSM_OK;
}

xsm_status xsmi_correction_of_classes(xsm_context *ctx, const float *log_q, uint32_t classes, xsmi_correction **out,
                                      xsm_error *err)
{
    xsmi_correction *c = NULL;
    XSMI_TRY(start(ctx, classes, &c, err));
    c->log_q = xsmi_allocate(ctx, classes, sizeof *c->log_q);
    if (!c->log_q) {
        xsmi_correction_release(c);
        return xsmi_fail_memory(err, classes * sizeof *log_q, "a correction of scores");
    }
    memcpy(c->log_q, log_q, classes * sizeof *log_q);
    *out = c;
    return XSM_OK;
}

/* Moves the contents of `part` to that member of a new correction; `part` is left empty. */
static xsm_status take(xsm_context *ctx, uint32_t classes, size_t place, void *part, size_t size, xsmi_correction **out,
                       xsm_error *err)
{
    XSMI_TRY(start(ctx, classes, out, err));
    memcpy((unsigned char *)*out + place, part, size);
    memset(part, 0, size);
    return XSM_OK;
}

xsm_status xsmi_correction_of_tree(xsm_context *ctx, xsmi_tree *tree, xsmi_correction **out, xsm_error *err)
{
    return take(ctx, tree->classes, offsetof(xsmi_correction, tree), tree, sizeof *tree, out, err);
}

xsm_status xsmi_correction_of_hierarchy(xsm_context *ctx, xsmi_hierarchy *hierarchy, xsmi_correction **out,
                                        xsm_error *err)
{
    return take(ctx, hierarchy->classes, offsetof(xsmi_correction, hierarchy), hierarchy, sizeof *hierarchy, out, err);
}

xsm_status xsmi_correction_of_pairs(xsm_context *ctx, xsmi_pairs *pairs, xsmi_correction **out, xsm_error *err)
{
    return take(ctx, pairs->classes, offsetof(xsmi_correction, pairs), pairs, sizeof *pairs, out, err);
}

xsmi_correction *xsmi_correction_retain(xsmi_correction *c)
{
    if (c) {
        atomic_fetch_add(&c->holders, 1);
    }
    return c;
}

void xsmi_correction_release(xsmi_correction *c)
{
    if (c && atomic_fetch_sub(&c->holders, 1) == 1) {
        xsm_context *ctx = c->context;
        xsmi_release(ctx, c->log_q, c->classes, sizeof *c->log_q);
        xsmi_tree_clear(&c->tree);
        xsmi_hierarchy_clear(&c->hierarchy);
        xsmi_pairs_clear(&c->pairs);
        xsmi_release(ctx, c, 1, sizeof *c);
        xsm_context_free(ctx);
    }
}

const float *xsmi_correction_numbers(const xsmi_correction *c)
{
    return c ? c->log_q : NULL;
}

const xsmi_tree *xsmi_correction_tree(const xsmi_correction *c)
{
    return c && c->tree.nodes ? &c->tree : NULL;
}

const xsmi_hierarchy *xsmi_correction_hierarchy(const xsmi_correction *c)
{
    return c && c->hierarchy.children ? &c->hierarchy : NULL;
}

const xsmi_pairs *xsmi_correction_pairs(const xsmi_correction *c)
{
    return c && c->pairs.class ? &c->pairs : NULL;
}

const char *xsmi_correction_kind(const xsmi_correction *c)
{
    return !c ? "none" : c->log_q ? "classes" : c->tree.nodes ? "tree" : c->pairs.class ? "pairs" : "hierarchy";
}

uint32_t xsmi_correction_classes(const xsmi_correction *c)
{
    return c->classes;
}

size_t xsmi_correction_code(const xsmi_correction *c)
{
    return c->tree.nodes ? c->tree.dims : 0;
}

void xsmi_correction_add(const xsmi_correction *c, const xsmi_features *x, const uint32_t *classes, size_t count,
                         float *scores, float *scratch)
{
    if (c->pairs.class) {
        xsmi_pairs_add(&c->pairs, x, classes, count, scores);
        return;
    }
    if (!c->log_q) {
        xsmi_tree_encode(&c->tree, x, scratch);
    }
    for (size_t j = 0; j < count; j++) {
        double log_q =
            c->log_q ? (double)c->log_q[classes[j]] : xsmi_tree_log_probability(&c->tree, scratch, classes[j]);
        scores[j] = (float)((double)scores[j] + log_q);
    }
}
