/* The collective calls of an xsm_comm by MPI, in pieces whose sizes fit MPI's counts. */
#include "mpi/exchange.h"

#include <sched.h>
#include <string.h>
#include <time.h>

/* A process that yields tests TESTS times, then sleeps for PAUSE nanoseconds: a process that wakes gets a processor
 * sooner than one that has yielded. */
#define TESTS 4
#define PAUSE 20000

static int test_until_done(MPI_Request *begun)
{
    for (int done = 0, tests = 1;; tests++) {
        const int failed = MPI_Test(begun, &done, MPI_STATUS_IGNORE);
        if (failed || done) {
            return failed;
        }
        if (tests % TESTS) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = PAUSE}, NULL);
        }
    }
}

/* Waits for a call that was begun. Open MPI passes a failure of such a call to the error handler of MPI_COMM_WORLD, not
 * to that of the call's communicator; the default handler would end the job. */
static int wait_for(MPI_Request *begun)
{
    MPI_Errhandler before;
    int failed = MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
    if (failed) {
        return failed;
    }
    failed = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    failed = failed ? failed : test_until_done(begun);
    (void)MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
    (void)MPI_Errhandler_free(&before);
    return failed;
}

static int reduce(const xsmi_mpi_way *way, float *values, int count)
{
    if (!way->yields) {
        return MPI_Allreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_MAX, way->comm);
    }
    MPI_Request begun;
    const int failed = MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_FLOAT, MPI_MAX, way->comm, &begun);
    return failed ? failed : wait_for(&begun);
}

int32_t xsmi_mpi_max(const xsmi_mpi_way *way, float *values, size_t count)
{
    for (size_t done = 0; done < count;) {
        const size_t some = count - done < way->most ? count - done : way->most;
        const int failed = reduce(way, values + done, (int)some);
        if (failed) {
            return failed;
        }
        done += some;
    }
    return 0;
}

static int copy(const xsmi_mpi_way *way, void *data, int bytes, int root)
{
    if (!way->yields) {
        return MPI_Bcast(data, bytes, MPI_BYTE, root, way->comm);
    }
    MPI_Request begun;
    const int failed = MPI_Ibcast(data, bytes, MPI_BYTE, root, way->comm, &begun);
    return failed ? failed : wait_for(&begun);
}

int32_t xsmi_mpi_copy(const xsmi_mpi_way *way, void *data, size_t bytes, uint32_t root)
{
    unsigned char *at = data;
    for (size_t done = 0; done < bytes;) {
        const size_t some = bytes - done < way->most ? bytes - done : way->most;
        const int failed = copy(way, at + done, (int)some, (int)root);
        if (failed) {
            return failed;
        }
        done += some;
    }
    return 0;
}

/* The most processes that gather() takes: MPI_Allgatherv() needs two arrays with an entry for each. */
#define RANKS_AT_ONCE 1024

/* Gathers the blocks in one call of MPI. */
static int gather(const xsmi_mpi_way *way, const void *mine, void *all, const size_t *sizes, int rank, int ranks)
{
    int counts[RANKS_AT_ONCE], starts[RANKS_AT_ONCE];
    for (int r = 0, at = 0; r < ranks; r++) {
        counts[r] = (int)sizes[r];
        starts[r] = at;
        at += counts[r];
    }
    if (!way->yields) {
        return MPI_Allgatherv(mine, counts[rank], MPI_BYTE, all, counts, starts, MPI_BYTE, way->comm);
    }
    MPI_Request begun;
    const int failed = MPI_Iallgatherv(mine, counts[rank], MPI_BYTE, all, counts, starts, MPI_BYTE, way->comm, &begun);
    return failed ? failed : wait_for(&begun);
}

int32_t xsmi_mpi_blocks(const xsmi_mpi_way *way, const void *mine, void *all, const size_t *sizes)
{
    int rank, ranks, failed = MPI_Comm_rank(way->comm, &rank);
    failed = failed ? failed : MPI_Comm_size(way->comm, &ranks);
    if (failed) {
        return failed;
    }
    size_t total = 0;
    for (int r = 0; r < ranks; r++) {
        total += sizes[r];
    }
    if (total <= way->most && ranks <= RANKS_AT_ONCE) {
        return gather(way, mine, all, sizes, rank, ranks);
    }
    unsigned char *at = all;
    for (int r = 0; r < ranks && !failed; r++) {
        if (r == rank && sizes[r] > 0) {
            memcpy(at, mine, sizes[r]);
        }
        failed = xsmi_mpi_copy(way, at, sizes[r], (uint32_t)r);
        at += sizes[r];
    }
    return failed;
}
