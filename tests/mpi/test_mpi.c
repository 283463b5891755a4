/*
 * libxsoftmax-mpi, on every rank of an MPI run: what it refuses, and the three functions of the table, with any count,
 * in pieces too.
 *
 *   mpirun -n RANKS test_mpi single|funneled RANKS     how MPI is started
 */
#define XSM_EXPERIMENTAL
#include "mpi/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax.h>
#include <xsoftmax/mpi.h>

static int rank, ranks;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition);                                     \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

#define CHECK_OK(call) CHECK((call) == XSM_OK || (fprintf(stderr, "%s\n", err.message), 0))

static xsm_error err = XSM_ERROR_INIT;

/* -- what is refused ----------------------------------------------------------------------------------------------- */

static void refused(xsm_status status, const void *comm, size_t bytes)
{
    const xsm_comm start = XSM_COMM_INIT;
    xsm_comm out = XSM_COMM_INIT;
    CHECK(xsm_mpi_comm_new(comm, bytes, &out, &err) == status && err.status == status && *err.message);
    CHECK(memcmp(&out, &start, sizeof out) == 0);
    CHECK(xsm_mpi_comm_new(comm, bytes, &out, NULL) == status);
    xsm_mpi_comm_free(&out);
    CHECK(memcmp(&out, &start, sizeof out) == 0);
}

static void test_refusals(void)
{
    MPI_Comm all = MPI_COMM_WORLD, none = MPI_COMM_NULL, half, inter;
    refused(XSM_ERROR_ARGUMENT, NULL, sizeof all);
    refused(XSM_ERROR_ARGUMENT, &none, sizeof none);
    refused(XSM_ERROR_UNSUPPORTED, &all, sizeof all + 4);
    refused(XSM_ERROR_UNSUPPORTED, &all, 0);
    CHECK(xsm_mpi_comm_new(&all, sizeof all, NULL, &err) == XSM_ERROR_ARGUMENT);
    xsm_comm old = XSM_COMM_INIT;
    old.size = 8;
    CHECK(xsm_mpi_comm_new(&all, sizeof all, &old, &err) == XSM_ERROR_STRUCT_OLD && old.ranks == 1);
    xsm_mpi_comm_free(NULL);
    if (ranks > 1) {
        CHECK(MPI_Comm_split(all, rank == 0, rank, &half) == 0);
        CHECK(MPI_Intercomm_create(half, 0, all, rank == 0, 7, &inter) == 0);
        refused(XSM_ERROR_ARGUMENT, &inter, sizeof inter);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&half);
    }
}

/* -- the functions ------------------------------------------------------------------------------------------------- */

enum { COUNT = 1000 };

static void check_max(const xsmi_mpi_way *way, size_t count)
{
    float values[COUNT];
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(i % (size_t)ranks == (size_t)rank ? i + 1 : 0);
    }
    CHECK(xsmi_mpi_max(way, values, count) == 0);
    for (size_t i = 0; i < count; i++) {
        CHECK(values[i] == (float)(i + 1));
    }
}

static unsigned char byte_of(int of, size_t i)
{
    return (unsigned char)((size_t)of * 37 + i * 11);
}

/* Rank r's block has (r * 131) % 300 bytes: some have none. */
static void check_blocks(const xsmi_mpi_way *way)
{
    static unsigned char mine[300], all[64 * 300];
    size_t sizes[64], at = 0;
    for (int r = 0; r < ranks; r++) {
        sizes[r] = (size_t)r * 131 % 300;
    }
    for (size_t i = 0; i < sizes[rank]; i++) {
        mine[i] = byte_of(rank, i);
    }
    memset(all, 0, sizeof all);
    CHECK(xsmi_mpi_blocks(way, sizes[rank] ? mine : NULL, all, sizes) == 0);
    for (int r = 0; r < ranks; r++) {
        for (size_t i = 0; i < sizes[r]; i++) {
            CHECK(all[at++] == byte_of(r, i));
        }
    }
    CHECK(all[at] == 0);
}

static void check_copy(const xsmi_mpi_way *way, int root, size_t bytes)
{
    unsigned char data[COUNT] = {0};
    for (size_t i = 0; i < bytes && rank == root; i++) {
        data[i] = byte_of(root, i);
    }
    CHECK(xsmi_mpi_copy(way, data, bytes, (uint32_t)root) == 0);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK(data[i] == (i < bytes ? byte_of(root, i) : 0));
    }
}

static void test_pieces(void)
{
    const size_t pieces[] = {64, 999, 1000, (size_t)1 << 30};
    /* Ranks that do not yield wait for each other's time slices where there are too few processors. */
    for (int yields = ranks > 2; yields < 2; yields++) {
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            const xsmi_mpi_way way = {MPI_COMM_WORLD, pieces[p], yields};
            check_max(&way, COUNT);
            check_max(&way, 0);
            check_blocks(&way);
            for (int root = 0; root < ranks; root++) {
                check_copy(&way, root, COUNT - (size_t)root);
                check_copy(&way, root, 0);
            }
        }
    }
}

/* Two ranks that wait by turns, and do not agree on what is sent: the call fails, and ends no program. */
static void test_failures(void)
{
    MPI_Comm pair;
    unsigned char data[COUNT] = {0};
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &pair) == 0);
    CHECK(MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN) == 0);
    const xsmi_mpi_way way = {pair, COUNT, 1};
    if (rank < 2 && ranks > 1) {
        CHECK((xsmi_mpi_copy(&way, data, rank == 0 ? COUNT : 7, 0) != 0) == (rank == 1));
    }
    MPI_Comm_free(&pair);
}

/* Two groups at once: of all ranks, and of them in the other order; the program's messages stay apart. */
static void test_table(void)
{
    MPI_Comm turned;
    xsm_comm one = XSM_COMM_INIT, two = XSM_COMM_INIT;
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, 0, ranks - rank, &turned) == 0);
    MPI_Comm all = MPI_COMM_WORLD;
    CHECK_OK(xsm_mpi_comm_new(&all, sizeof all, &one, &err));
    CHECK_OK(xsm_mpi_comm_new(&turned, sizeof turned, &two, &err));
    MPI_Comm_free(&turned); /* the group has a duplicate */
    CHECK(one.rank == (uint32_t)rank && one.ranks == (uint32_t)ranks && one.size == sizeof one);
    CHECK(two.rank == (uint32_t)(ranks - 1 - rank) && two.ranks == one.ranks);
    float most[2] = {(float)rank, (float)-rank};
    CHECK(one.max_f32(one.user, most, 2) == 0 && most[0] == (float)(ranks - 1) && most[1] == 0);
    uint32_t first = (uint32_t)rank;
    CHECK(two.broadcast(two.user, &first, sizeof first, 0) == 0 && first == (uint32_t)(ranks - 1));
    size_t sizes[64];
    uint32_t numbers[64];
    for (int r = 0; r < ranks; r++) {
        sizes[r] = sizeof *numbers;
    }
    const uint32_t own = (uint32_t)rank;
    CHECK(two.allgatherv(two.user, &own, numbers, sizes) == 0);
    for (int r = 0; r < ranks; r++) {
        CHECK(numbers[r] == (uint32_t)(ranks - 1 - r));
    }
    /* A call that MPI cannot do returns, and does not end the program. */
    CHECK(ranks == 1 || one.broadcast(one.user, &first, sizeof first, (uint32_t)ranks) != 0);
    xsm_mpi_comm_free(&one);
    CHECK(one.ranks == 1 && one.rank == 0 && !one.max_f32 && !one.user);
    xsm_mpi_comm_free(&one);
    xsm_mpi_comm_free(&two);
}

/* -- the program --------------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    const int single = argc > 1 && strcmp(argv[1], "single") == 0;
    int provided = MPI_THREAD_SINGLE;
    MPI_Comm all = MPI_COMM_WORLD;
    if (argc != 3 || (!single && strcmp(argv[1], "funneled") != 0)) {
        fprintf(stderr, "usage: test_mpi single|funneled RANKS\n");
        return 2;
    }
    refused(XSM_ERROR_STATE, &all, sizeof all);
    CHECK(MPI_Init_thread(&argc, &argv, single ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED, &provided) == 0);
    CHECK(MPI_Comm_rank(all, &rank) == 0 && MPI_Comm_size(all, &ranks) == 0);
    CHECK(ranks == atoi(argv[2]) && ranks <= 64); /* that it was started by mpirun of the same MPI */
    if (single && provided == MPI_THREAD_SINGLE) {
        refused(XSM_ERROR_UNSUPPORTED, &all, sizeof all);
    } else {
        test_refusals();
        test_pieces();
        test_table();
        test_failures();
    }
    MPI_Finalize();
    refused(XSM_ERROR_STATE, &all, sizeof all);
    if (rank == 0) {
        printf("%d ranks, %s\n", ranks, argv[1]);
    }
    return 0;
}
