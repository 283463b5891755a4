#include "base/held.h"

typedef void *(*allocator)(xsm_context *ctx, uint64_t count, size_t each);

static void *add(xsmi_held *h, allocator allocate, uint64_t count, size_t each)
{
    void *memory = h->failed || h->count == XSMI_HELD_MOST ? NULL : allocate(h->context, count, each);
    if (memory) {
        h->list[h->count].memory = memory;
        h->list[h->count].count = (size_t)count;
        h->list[h->count++].each = each;
    } else if (!h->failed) {
        h->failed = true;
        h->missing = count * each;
    }
    return memory;
}

void *xsmi_hold(xsmi_held *h, uint64_t count, size_t each)
{
    return add(h, xsmi_allocate, count, each);
}

void *xsmi_hold_zeros(xsmi_held *h, uint64_t count, size_t each)
{
    return add(h, xsmi_allocate_zero, count, each);
}

xsm_status xsmi_held_check(const xsmi_held *h, const char *what, xsm_error *err)
{
    return h->failed ? xsmi_fail_memory(err, h->missing, what) : XSM_OK;
}

void xsmi_held_release(xsmi_held *h)
{
    while (h->count > 0) {
        h->count--;
        xsmi_release(h->context, h->list[h->count].memory, h->list[h->count].count, h->list[h->count].each);
    }
    h->failed = false;
}
