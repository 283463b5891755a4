/*
 * Objects that others keep: each counts its references, so that they can be released in any order, on any threads.
 *
 * A keeper takes a reference when it stores the object and gives it up when it is released or stores another one. The
 * public xsm_X_free() gives up a reference, and the last one releases the object. An object keeps only objects of kinds
 * that are below its own - context, vocabulary, dataset, sampler, correction, model, index, estimator and optimizer,
 * trainer - and none of its own kind that a host can reach, so that references form no circles.
 */
#ifndef XSMI_COUNTED_H
#define XSMI_COUNTED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct xsmi_holders {
    atomic_size_t number;
} xsmi_holders;

/* Sets the count of a new object, which its maker holds. */
static inline void xsmi_holders_start(xsmi_holders *h)
{
    atomic_init(&h->number, 1);
}

static inline void xsmi_holders_add(xsmi_holders *h)
{
    atomic_fetch_add_explicit(&h->number, 1, memory_order_relaxed);
}

/* Whether the reference was the last one. If so, all that others did with the object has happened before what the
 * caller does next. */
static inline bool xsmi_holders_drop(xsmi_holders *h)
{
    return atomic_fetch_sub_explicit(&h->number, 1, memory_order_acq_rel) == 1;
}

/* xsmi_X_retain(), another reference to an object or NULL, and xsmi_X_release(), which gives it up. Both take const
 * objects, as the count is no part of the contents. The object has a member `holders` and a public xsm_X_free(). */
#define XSMI_COUNTED(name)                                                                                             \
    static inline xsm_##name *xsmi_##name##_retain(const xsm_##name *object)                                           \
    {                                                                                                                  \
        xsm_##name *own = (xsm_##name *)(uintptr_t)object;                                                             \
        if (own) {                                                                                                     \
            xsmi_holders_add(&own->holders);                                                                           \
        }                                                                                                              \
        return own;                                                                                                    \
    }                                                                                                                  \
    static inline void xsmi_##name##_release(const xsm_##name *object)                                                 \
    {                                                                                                                  \
        xsm_##name##_free((xsm_##name *)(uintptr_t)object);                                                            \
    }

#endif
