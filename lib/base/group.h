/* The group of processes of a context: the host's communicator. The calls that use it are in ranks/comm.h. */
#ifndef XSMI_GROUP_H
#define XSMI_GROUP_H

#include "base/base.h"

#define XSM_EXPERIMENTAL
#include <xsoftmax/ext/comm.h>

/* What this process has sent so far. */
typedef struct xsmi_sent {
    uint64_t calls, bytes;
} xsmi_sent;

typedef struct xsmi_group {
    xsm_comm comm; /* without one, comm.ranks is 1 */
    xsmi_sent sent;
    bool failed;    /* a function of the host's has failed: no further one is called */
    bool agreed;    /* the last agreement was on a failure */
    bool met;       /* something was exchanged since xsmi_agree_begin() */
    bool opens;     /* the processes have not agreed yet in the public call that began last */
    uint32_t calls; /* how deep public calls that need the group are nested */
} xsmi_group;

/* Reads a host's table; NULL = this process alone. */
xsm_status xsmi_group_read(const xsm_comm *given, xsmi_group *group, xsm_error *err);

#endif
