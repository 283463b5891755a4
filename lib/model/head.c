/* What all kinds of heads share. */
#include "model/head.h"

#include <string.h>

xsm_status xsmi_head_new(xsm_context *ctx, const xsmi_head_kind *kind, uint32_t classes, xsmi_head **out,
                         xsm_error *err)
{
    xsmi_head *c;
    XSMI_TRY(xsmi_array_new(ctx, &c, 1, kind->size, "a correction of scores", err));
    memset(c, 0, kind->size);
    c->kind = kind;
    c->context = xsmi_context_retain(ctx);
    c->classes = classes;
    xsmi_holders_start(&c->holders);
    *out = c;
    return XSM_OK;
}

xsmi_head *xsmi_head_retain(xsmi_head *c)
{
    if (c) {
        xsmi_holders_add(&c->holders);
    }
    return c;
}

void xsmi_head_release(xsmi_head *c)
{
    if (c && xsmi_holders_drop(&c->holders)) {
        xsm_context *ctx = c->context;
        c->kind->clear(c);
        xsmi_release(ctx, c, 1, c->kind->size);
        xsm_context_free(ctx);
    }
}
