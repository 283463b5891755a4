/* libxsoftmax-mpi: makes an xsm_comm from an MPI_Comm. */
#define XSM_EXPERIMENTAL
#include "base/base.h"
#include "base/entry.h"
#include "base/first.h"
#include "mpi/exchange.h"

#include <string.h>
#include <unistd.h>

#include <xsoftmax/mpi.h>

/* Most elements or bytes of one call of MPI. */
#define MOST ((size_t)1 << 30)

/* The table's `user` is the MPI_Comm itself, a number or a pointer. */
_Static_assert(sizeof(MPI_Comm) <= sizeof(void *), "an MPI_Comm does not fit a pointer");

static void *user_of(MPI_Comm comm)
{
    void *user = NULL;
    memcpy(&user, &comm, sizeof comm);
    return user;
}

static MPI_Comm comm_of(void *user)
{
    MPI_Comm comm;
    memcpy(&comm, &user, sizeof comm);
    return comm;
}

/* The functions of the table, for processes that yield while they wait and for others. */
#define FUNCTIONS(suffix, yields)                                                                                      \
    static int32_t max_f32##suffix(void *user, float *values, size_t count)                                            \
    {                                                                                                                  \
        const xsmi_mpi_way way = {comm_of(user), MOST, yields};                                                        \
        return xsmi_mpi_max(&way, values, count);                                                                      \
    }                                                                                                                  \
    static int32_t allgatherv##suffix(void *user, const void *mine, void *all, const size_t *sizes)                    \
    {                                                                                                                  \
        const xsmi_mpi_way way = {comm_of(user), MOST, yields};                                                        \
        return xsmi_mpi_blocks(&way, mine, all, sizes);                                                                \
    }                                                                                                                  \
    static int32_t broadcast##suffix(void *user, void *data, size_t bytes, uint32_t root)                              \
    {                                                                                                                  \
        const xsmi_mpi_way way = {comm_of(user), MOST, yields};                                                        \
        return xsmi_mpi_copy(&way, data, bytes, root);                                                                 \
    }

FUNCTIONS(, false)
FUNCTIONS(_yielding, true)

static bool made_here(const xsm_comm *comm)
{
    return comm->max_f32 == max_f32 || comm->max_f32 == max_f32_yielding;
}

/* Sets *yields to whether any machine has more processes of the group than processors: the same on all processes. */
static int need_yield(MPI_Comm comm, int *yields)
{
    MPI_Comm machine;
    int ranks = 0, failed = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    if (failed) {
        return failed;
    }
    failed = MPI_Comm_size(machine, &ranks);
    MPI_Comm_free(&machine);
    /* All processors of the machine, even if each process is bound to some of them. */
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    *yields = processors > 0 && ranks > processors;
    return failed ? failed : MPI_Allreduce(MPI_IN_PLACE, yields, 1, MPI_INT, MPI_MAX, comm);
}

static xsm_status check_started(xsm_error *err)
{
    int started = 0, finished = 0, threads = MPI_THREAD_SINGLE;
    if (MPI_Initialized(&started) || MPI_Finalized(&finished) || !started || finished) {
        return xsmi_fail(err, XSM_ERROR_STATE,
                         "xsm_mpi_comm_new: MPI is %s; it is called between MPI_Init_thread() "
                         "and MPI_Finalize()",
                         finished ? "finished" : "not started");
    }
    if (MPI_Query_thread(&threads) || threads < MPI_THREAD_FUNNELED) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_mpi_comm_new: MPI was started for a single thread, and the library has several; "
                         "MPI_THREAD_FUNNELED or more is accepted");
    }
    return XSM_OK;
}

static xsm_status check_comm(MPI_Comm comm, int *ranks, xsm_error *err)
{
    int inter = 0;
    if (comm == MPI_COMM_NULL || MPI_Comm_test_inter(comm, &inter) || inter) {
        return xsmi_fail(err, XSM_ERROR_ARGUMENT,
                         "xsm_mpi_comm_new: the communicator is %s; an intracommunicator is "
                         "accepted",
                         inter ? "an intercommunicator" : "MPI_COMM_NULL or none");
    }
    if (MPI_Comm_size(comm, ranks) || *ranks > XSM_RANKS_MAX) {
        return xsmi_fail(err, XSM_ERROR_RANGE,
                         "xsm_mpi_comm_new: the communicator has %d processes; 1 to %d are "
                         "accepted",
                         *ranks, XSM_RANKS_MAX);
    }
    return XSM_OK;
}

/* Duplicates the program's communicator; the library uses only the duplicate. */
static xsm_status duplicate(MPI_Comm given, MPI_Comm *own, xsm_error *err)
{
    const int failed = MPI_Comm_dup(given, own);
    if (failed) {
        return xsmi_fail(err, XSM_ERROR_COMM, "xsm_mpi_comm_new: MPI_Comm_dup() returned %d", failed);
    }
    if (MPI_Comm_set_errhandler(*own, MPI_ERRORS_RETURN)) {
        MPI_Comm_free(own);
        return xsmi_fail(err, XSM_ERROR_COMM, "xsm_mpi_comm_new: MPI cannot return errors");
    }
    return XSM_OK;
}

xsm_status xsm_mpi_comm_new(const void *mpi_comm, size_t bytes, xsm_comm *out, xsm_error *err)
{
    XSMI_ENTER(err);
    MPI_Comm given, own;
    int rank = 0, ranks = 0, yields = 0;
    XSMI_NEED(err, {mpi_comm, "mpi_comm"}, {out, "out"});
    if (bytes != sizeof given) {
        return xsmi_fail(err, XSM_ERROR_UNSUPPORTED,
                         "xsm_mpi_comm_new: an MPI_Comm has %zu bytes in the program, and %zu in the MPI that "
                         "libxsoftmax-mpi was built with; both are to be of one MPI",
                         bytes, sizeof given);
    }
    XSMI_TRY(xsmi_check_struct_size(sizeof *out, XSMI_FIRST(xsm_comm), out->size, "xsm_comm", err));
    memcpy(&given, mpi_comm, sizeof given);
    XSMI_TRY(check_started(err));
    XSMI_TRY(check_comm(given, &ranks, err));
    XSMI_TRY(duplicate(given, &own, err));
    if (MPI_Comm_rank(own, &rank) || need_yield(own, &yields)) {
        MPI_Comm_free(&own);
        return xsmi_fail(err, XSM_ERROR_COMM, "xsm_mpi_comm_new: MPI cannot say where the processes are");
    }
    xsm_comm made = XSM_COMM_INIT;
    made.user = user_of(own);
    made.rank = (uint32_t)rank;
    made.ranks = (uint32_t)ranks;
    made.max_f32 = yields ? max_f32_yielding : max_f32;
    made.allgatherv = yields ? allgatherv_yielding : allgatherv;
    made.broadcast = yields ? broadcast_yielding : broadcast;
    return XSMI_WRITE(xsm_comm, &made, out, err);
}

void xsm_mpi_comm_free(xsm_comm *comm)
{
    int started = 0, finished = 0;
    if (!comm || !made_here(comm) || MPI_Initialized(&started) || MPI_Finalized(&finished) || !started || finished) {
        return;
    }
    MPI_Comm own = comm_of(comm->user);
    MPI_Comm_free(&own);
    comm->user = NULL;
    comm->rank = 0;
    comm->ranks = 1;
    comm->max_f32 = NULL;
    comm->allgatherv = NULL;
    comm->broadcast = NULL;
}
