/* What all kinds of heads share. */
#include "model/head.h"

xsm_status xsmi_head_new(xsm_context *ctx, const xsmi_head_kind *kind, uint32_t classes, xsmi_head **out,
                         xsm_error *err)
{
    xsmi_head *c;
    XSMI_TRY(xsmi_object_new(ctx, &c, kind->size, offsetof(xsmi_head, context), "a correction of scores", err));
    c->kind = kind;
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
        c->kind->clear(c);
        xsmi_object_free(c, c->kind->size, offsetof(xsmi_head, context));
    }
}
