/*
 * Who is told when memory that the host has lent is no longer needed (xsm_release_hook).
 */
#ifndef XSMI_LENDER_H
#define XSMI_LENDER_H

#include "base/base.h"
#include "base/entry.h"

/* release is NULL if there is no one to tell, or if this was done. */
typedef struct xsmi_lender {
    xsm_release_hook release;
    void *user;
} xsmi_lender;

/* Tells the lender. Forgets it first, as the hook may call the library. */
static inline void xsmi_lender_tell(xsmi_lender *lender)
{
    const xsmi_lender told = *lender;
    lender->release = NULL;
    if (told.release) {
        XSMI_CALL_HOST(told.release(told.user));
    }
}

#endif
