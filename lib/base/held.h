/* Arrays of one call, or of one object, that are released together. */
#ifndef XSMI_HELD_H
#define XSMI_HELD_H

#include "base/base.h"

/* Arrays that one list can hold. */
enum { XSMI_HELD_MOST = 16 };

/* Begins as {.context = ctx}. */
typedef struct xsmi_held {
    xsm_context *context;
    size_t count;
    bool failed;      /* there was no memory for an array, */
    uint64_t missing; /* of so many bytes */
    struct {
        void *memory;
        size_t count, each;
    } list[XSMI_HELD_MOST];
} xsmi_held;

/* Like xsmi_allocate() and xsmi_allocate_zero(), for an array that xsmi_held_release() releases. Once one has failed,
 * the others return NULL, too: check after the last. */
void *xsmi_hold(xsmi_held *h, uint64_t count, size_t each);
void *xsmi_hold_zeros(xsmi_held *h, uint64_t count, size_t each);
/* XSM_ERROR_MEMORY if there was no memory for an array; `what` they are for. */
xsm_status xsmi_held_check(const xsmi_held *h, const char *what, xsm_error *err);
/* Releases the arrays. The list can be used again. */
void xsmi_held_release(xsmi_held *h);

#endif
