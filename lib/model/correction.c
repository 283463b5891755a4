/* Corrections of scores: what all kinds share. */
#include "model/correction.h"

#include <string.h>

xsm_status xsmi_correction_new(xsm_context *ctx, const xsmi_correction_kind *kind, uint32_t classes,
                               xsmi_correction **out, xsm_error *err)
{
    xsmi_correction *c = xsmi_allocate(ctx, 1, kind->size);
    if (!c) {
        return xsmi_fail_memory(err, kind->size, "a correction of scores");
    }
    memset(c, 0, kind->size);
    c->kind = kind;
    c->context = xsmi_context_retain(ctx);
    c->classes = classes;
    xsmi_holders_start(&c->holders);
    *out = c;
    return XSM_OK;
}

xsmi_correction *xsmi_correction_retain(xsmi_correction *c)
{
    if (c) {
        xsmi_holders_add(&c->holders);
    }
    return c;
}

void xsmi_correction_release(xsmi_correction *c)
{
    if (c && xsmi_holders_drop(&c->holders)) {
        xsm_context *ctx = c->context;
        c->kind->clear(c);
        xsmi_release(ctx, c, 1, c->kind->size);
        xsm_context_free(ctx);
    }
}
