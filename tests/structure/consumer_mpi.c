/*
 * A program with libxsoftmax-mpi: a group, and a context for it. Also without mpirun, when it is the only rank.
 */
#define XSM_EXPERIMENTAL
#include <mpi.h>
#include <stdio.h>

#include <xsoftmax.h>
#include <xsoftmax/mpi.h>

int main(int argc, char **argv)
{
    int provided;
    xsm_error err = XSM_ERROR_INIT;
    xsm_comm group = XSM_COMM_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    xsm_context *context = NULL;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm all = MPI_COMM_WORLD;
    options.comm = &group;
    if (xsm_mpi_comm_new(&all, sizeof all, &group, &err) || xsm_context_new(&options, &context, &err)) {
        fprintf(stderr, "%s\n", err.message);
        MPI_Abort(all, 1);
    }
    printf("libxsoftmax-mpi, rank %u of %u\n", (unsigned)group.rank, (unsigned)group.ranks);
    xsm_context_free(context);
    xsm_mpi_comm_free(&group);
    MPI_Finalize();
    return 0;
}
