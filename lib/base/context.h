/* The members of a context, for files that need more than the functions of base.h. */
#ifndef XSMI_CONTEXT_H
#define XSMI_CONTEXT_H

#include "base/activity.h"
#include "base/base.h"
#include "base/counted.h"
#include "base/group.h"
#include "base/pool.h"

struct xsm_context {
    xsmi_holders holders;
    xsm_allocator allocator;
    xsm_log_function log;
    void *log_user;
    xsm_runner runner; /* run == NULL: the pool */
    xsmi_pool *pool;   /* NULL with a host's runner or one thread */
    const xsmi_kernels *kernels;
    xsm_activity_hook progress;
    void *progress_user;
    double pace;              /* seconds from one call of progress() to the next */
    pthread_key_t key;        /* each thread's activity; only with progress() */
    xsmi_group group;         /* of processes */
    xsm_release_hook release; /* called when all else of the context is gone */
    void *release_user;
    xsmi_activity shield; /* the activity of a thread whose call cannot be cancelled */
};

#endif
