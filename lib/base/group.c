#include "base/group.h"

#include "base/context.h"

#include <string.h>

xsm_status xsmi_group_read(const xsm_comm *given, xsmi_group *group, xsm_error *err)
{
    xsm_comm c = XSM_COMM_INIT;
    if (given) { /* checked first: in another release the rest may mean something else */
        memcpy(&c.size, given, sizeof c.size);
        memcpy(&c.release, (const unsigned char *)given + offsetof(xsm_comm, release), sizeof c.release);
        if (c.size >= offsetof(xsm_comm, rank) && c.release / 100 != XSM_VERSION / 100) {
            return xsmi_fail(
                err, XSM_ERROR_ABI,
                "xsm_comm.release is %u, and this library is of %u: build the communicator with its headers", c.release,
                (unsigned)XSM_VERSION);
        }
    }
    XSMI_TRY(XSMI_READ(xsm_comm, &c, given, err));
    XSMI_TRY(XSMI_CHECK_ZERO(xsm_comm, &c, reserved, err));
    if (c.ranks < 1 || c.ranks > XSM_RANKS_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_comm.ranks is %u; accepted is 1 to %d", c.ranks, XSM_RANKS_MAX);
    }
    if (c.rank >= c.ranks) {
        return xsmi_fail(err, XSM_ERROR_RANGE, "xsm_comm.rank is %u; accepted is 0 to %u, one less than its ranks",
                         c.rank, c.ranks - 1);
    }
    const char *missing = !c.max_f32 ? "max_f32" : !c.allgatherv ? "allgatherv" : !c.broadcast ? "broadcast" : NULL;
    if (c.ranks > 1 && missing) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT, "a communicator of %u processes needs %s()", c.ranks, missing);
    }
    *group = (xsmi_group){.comm = c};
    return XSM_OK;
}

xsm_status xsmi_context_need_alone(const xsm_context *ctx, const char *what, xsm_error *err)
{
    return !ctx || ctx->group.comm.ranks == 1
               ? XSM_OK
               : xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                           "%s needs a context without a communicator, and this one's has %u processes", what,
                           ctx->group.comm.ranks);
}
