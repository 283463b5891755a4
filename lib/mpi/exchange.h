/*
 * The collective calls of an xsm_comm by MPI. MPI's counts are int, so larger messages are sent in pieces of at most
 * `most` elements or bytes (1 to INT_MAX). A process that yields gives its processor to others while it waits. Most
 * MPIs do not: with more processes than processors, each then waits for whole time slices of others that only wait. The
 * functions return 0, or MPI's error code.
 */
#ifndef XSMI_MPI_EXCHANGE_H
#define XSMI_MPI_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <mpi.h>

typedef struct xsmi_mpi_way {
    MPI_Comm comm;
    size_t most;
    bool yields;
} xsmi_mpi_way;

/* They do what the functions of xsm_comm do. */
int32_t xsmi_mpi_max(const xsmi_mpi_way *way, float *values, size_t count);
int32_t xsmi_mpi_blocks(const xsmi_mpi_way *way, const void *mine, void *all, const size_t *sizes);
int32_t xsmi_mpi_copy(const xsmi_mpi_way *way, void *data, size_t bytes, uint32_t root);

#endif
