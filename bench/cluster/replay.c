/*
 * The time of a step of a divided run on more machines than there are: repeats schedules that bench_cluster recorded,
 * with the collective calls that libxsoftmax-mpi makes, and passes the time between them without computing. Built and
 * run with SimGrid's SMPI by bench/cluster/simulate.sh.
 *
 *     replay A X B Y CLASSES WHAT STEPS
 *
 * A and B are schedules of the same work at two sizes, X and Y. WHAT says which: `classes`, X and Y are the classes of
 * rank 0, whose number times and bytes follow; `shares`, they are one divided by the number of ranks, which times
 * follow, while bytes stay. Prints the ranks, CLASSES, the seconds of a step on the ranks that run it, and those of an
 * estimate on paper by latency and bandwidth alone (LogGP without overheads): 5 us and 12.5 GB/s; last the processor
 * time of one process that has all classes.
 */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 4096 }; /* classes that ranks do not divide */

typedef struct call {
    char kind;
    double bytes, bytes_more, seconds, seconds_more; /* at X and per unit beyond it */
} call;

static void fail(const char *what, const char *file)
{
    fprintf(stderr, "replay: %s: %s\n", file, what);
    exit(1);
}

/* Reads a schedule; *count is its length with the end. */
static call *read_schedule(const char *file, size_t *count)
{
    FILE *in = fopen(file, "r");
    char word[16];
    double wall, bytes, seconds;
    size_t room = 0;
    call *calls = NULL;
    *count = 0;
    if (!in || fscanf(in, "step %lf", &wall) != 1) {
        fail("is no schedule", file);
    }
    while (fscanf(in, "%15s %lf %lf", word, &bytes, &seconds) == 3) {
        if (*count == room) {
            room = room ? 2 * room : 64;
            calls = realloc(calls, room * sizeof *calls);
            if (!calls) {
                fail("no memory", file);
            }
        }
        calls[(*count)++] = (call){.kind = word[0], .bytes = bytes, .seconds = seconds};
    }
    fclose(in);
    if (*count == 0 || calls[*count - 1].kind != 'e') {
        fail("has no end", file);
    }
    return calls;
}

static double runs_of(double classes)
{
    return (double)(((long long)classes + RUN - 1) / RUN);
}

/* The line through both schedules, call by call. */
static call *join(char **args, int by_classes, size_t *count)
{
    size_t other;
    call *a = read_schedule(args[1], count), *b = read_schedule(args[3], &other);
    const double x = atof(args[2]), y = atof(args[4]);
    if (other != *count || x == y) {
        fail("makes other calls, or is of the same size", args[3]);
    }
    for (size_t i = 0; i < *count; i++) {
        if (a[i].kind != b[i].kind) {
            fail("makes other calls", args[3]);
        }
        a[i].seconds_more = (b[i].seconds - a[i].seconds) / (y - x);
        a[i].seconds -= a[i].seconds_more * x;
        if (by_classes) {
            a[i].bytes_more = (b[i].bytes - a[i].bytes) / (runs_of(y) - runs_of(x));
            a[i].bytes -= a[i].bytes_more * runs_of(x);
        }
    }
    free(b);
    return a;
}

static long long start_of(long long classes, int ranks, int rank)
{
    const long long first = (classes + RUN - 1) / RUN * rank / ranks * RUN;
    return first < classes ? first : classes;
}

/* A call of `ranks` ranks: rounds of doubling, and the bytes that a rank gets. */
static double on_paper(const call *c, int ranks, double mine, double total)
{
    const double latency = 5e-6, rate = 12.5e9;
    double rounds = 0;
    for (int r = 1; r < ranks; r *= 2) {
        rounds++;
    }
    return c->kind == 'm'   ? rounds * (latency + c->bytes / rate)
           : c->kind == 'c' ? rounds * latency + c->bytes / rate
           : c->kind == 'g' ? rounds * latency + (total - mine) / rate
                            : 0;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 8) {
        fail("A X B Y CLASSES classes|shares STEPS", "usage");
    }
    const long long classes = atoll(argv[5]);
    const int by_classes = strcmp(argv[6], "classes") == 0, steps = atoi(argv[7]);
    size_t count;
    call *calls = join(argv, by_classes, &count);
    int *sizes = malloc(sizeof *sizes * (size_t)ranks), *starts = malloc(sizeof *starts * (size_t)ranks);
    size_t most = 1;
    const double mine = (double)(start_of(classes, ranks, rank + 1) - start_of(classes, ranks, rank));
    const double size = by_classes ? mine : 1.0 / ranks;
    if (!sizes || !starts) {
        fail("no memory", "replay");
    }
    for (size_t i = 0; i < count; i++) {
        const double top = calls[i].bytes + calls[i].bytes_more * (runs_of((double)classes) / ranks + 1);
        most = top > (double)most ? (size_t)top + 1 : most;
    }
    /* What is sent does not matter: all ranks share the memory. */
    char *send = SMPI_SHARED_MALLOC(most), *all = SMPI_SHARED_MALLOC(most * (size_t)ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    const double since = MPI_Wtime();
    double paper = 0, alone = 0;
    for (int step = 0; step < steps; step++) {
        for (size_t i = 0; i < count; i++) {
            const call *c = &calls[i];
            const double seconds = c->seconds + c->seconds_more * size;
            double gathered = 0;
            smpi_execute_flops(1e9 * (seconds > 0 ? seconds : 0)); /* a simulated processor does 1e9 a second */
            if (c->kind == 'm') {
                MPI_Allreduce(MPI_IN_PLACE, all, (int)(c->bytes / sizeof(float)), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
            } else if (c->kind == 'c') {
                MPI_Bcast(all, (int)c->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
            } else if (c->kind == 'g') {
                int at = 0;
                for (int r = 0; r < ranks; r++) {
                    const long long part = start_of(classes, ranks, r + 1) - start_of(classes, ranks, r);
                    sizes[r] = (int)(c->bytes + c->bytes_more * runs_of((double)part));
                    starts[r] = at;
                    at += sizes[r];
                }
                gathered = at;
                MPI_Allgatherv(send, sizes[rank], MPI_BYTE, all, sizes, starts, MPI_BYTE, MPI_COMM_WORLD);
            }
            alone += c->seconds + c->seconds_more * (by_classes ? (double)classes : 1);
            paper += (seconds > 0 ? seconds : 0) + on_paper(c, ranks, gathered ? sizes[rank] : 0, gathered);
        }
    }
    const double mean[2] = {(MPI_Wtime() - since) / steps, paper / steps};
    double slowest[2];
    MPI_Reduce(mean, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d %lld %.9f %.9f %.9f\n", ranks, classes, slowest[0], slowest[1], alone / steps);
    }
    SMPI_SHARED_FREE(all);
    SMPI_SHARED_FREE(send);
    free(starts);
    free(sizes);
    free(calls);
    MPI_Finalize();
    return 0;
}
