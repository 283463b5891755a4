/*
 * xsoftmax-mpi: the command as the ranks of an MPI run, which divide the classes of a model. xsoftmax becomes it where
 * mpirun has started several:
 *
 *     mpirun -n 4 xsoftmax train --data train.txt --estimator sampled-softmax --eta 0.1 --model m.safetensors
 */
#define XSM_EXPERIMENTAL
#include "cli/cli.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <xsoftmax/mpi.h>

/* Seconds that a rank that has failed waits for the others to fail, too; after the first it says why. */
#define PATIENCE 10

/* Threads of a rank by default: its share of the machine's processors, or fewer where it is bound to fewer. */
static uint32_t share_of_processors(void)
{
    MPI_Comm machine;
    int ranks = 1;
    long mine = sysconf(_SC_NPROCESSORS_ONLN);
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine) == MPI_SUCCESS) {
        MPI_Comm_size(machine, &ranks);
        MPI_Comm_free(&machine);
    }
    mine /= ranks;
#ifdef CPU_COUNT
    cpu_set_t bound;
    if (sched_getaffinity(0, sizeof bound, &bound) == 0 && CPU_COUNT(&bound) < mine) {
        mine = CPU_COUNT(&bound);
    }
#endif
    return mine > 1 ? (uint32_t)mine : 1;
}

/* Ends a rank: with the exit code of the first that failed. One that waits in vain for others ends them, too, which may
 * wait for it in a call of the library. */
static int end(MPI_Comm comm, int rank, int code)
{
    int mine[2] = {code == CLI_DONE ? INT_MIN : -rank, code}, all[2], done = 0;
    const double since = cli_clock();
    int said = rank == 0; /* as it happened */
    MPI_Request request;
    MPI_Iallreduce(mine, all, 2, MPI_INT, MPI_MAX, comm, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
        const double waited = code == CLI_DONE ? 0 : cli_clock() - since;
        if (waited > 1 && !said) {
            fprintf(stderr, "xsoftmax: rank %d: %s\n", rank, cli_held());
            said = 1;
        }
        if (waited > PATIENCE) {
            MPI_Abort(MPI_COMM_WORLD, code);
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    if (done && all[0] == -rank && !said) { /* rank 0 knows nothing of it */
        fprintf(stderr, "xsoftmax: rank %d: %s\n", rank, cli_held());
    }
    return done ? all[1] : code;
}

int main(int argc, char **argv)
{
    int provided = MPI_THREAD_SINGLE, rank = 0, ranks = 1, code = CLI_FAILED;
    MPI_Comm all = MPI_COMM_WORLD, last;
    xsm_comm group = XSM_COMM_INIT;
    xsm_error err = XSM_ERROR_INIT;
#ifdef SIGXFSZ
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of file sizes then fails with a message */
#endif
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    MPI_Comm_dup(all, &last);
    uint32_t started, number;
    if (cli_started(&started, &number) && started > 1 && ranks == 1) {
        if (number == 0) {
            cli_misuse("mpirun started %u ranks, and xsoftmax-mpi sees itself alone; the mpirun of the MPI that it was "
                       "built with is accepted",
                       started);
        }
        code = CLI_USAGE;
    } else if (xsm_mpi_comm_new(&all, sizeof all, &group, &err) != XSM_OK) {
        cli_library_failed(&err);
    } else {
        cli_group = ranks > 1 ? &group : NULL;
        cli_group_threads = ranks > 1 ? share_of_processors() : 0;
        code = cli_agree(rank == 0 || freopen("/dev/null", "w", stdout) ? CLI_GO_ON
                                                                        : cli_fail("/dev/null cannot be written"));
        code = code == CLI_GO_ON ? cli_main(argc, argv) : code;
    }
    code = end(last, rank, code);
    xsm_mpi_comm_free(&group);
    MPI_Comm_free(&last);
    MPI_Finalize();
    return code;
}
