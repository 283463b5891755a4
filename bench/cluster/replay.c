/*
 * The time of a step of a divided run on more machines than there are: repeats schedules that bench_cluster recorded,
 * with the collective calls that libxsoftmax-mpi makes, and passes the time between them without computing. Built and
 * run with SimGrid's SMPI by bench/cluster/simulate.sh.
 *
 *     replay LATENCY RATE A X B Y CLASSES TIMES
 *     replay LATENCY RATE A TIMES
 *
 * A and B are schedules of the same work on X and Y classes of rank 0, whose number times and bytes follow. A alone is
 * a schedule of as many ranks as run this, which is repeated as it is: with the bytes of each rank, and the times of
 * the one that recorded it on all. Schedules are repeated so many TIMES. Prints the ranks, CLASSES (or 0), the seconds
 * of a step on the ranks that run it, and those of an estimate on paper by latency and bandwidth alone (LogGP with
 * overhead and gap 0): LATENCY seconds and RATE bytes a second; last the processor time of one process that has all
 * classes, or, of A alone, of one rank.
 */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUN = 4096 }; /* classes that ranks do not divide */

typedef struct call {
    char kind;
    double bytes, bytes_more, seconds, seconds_more; /* at 0 and per unit beyond it */
    double *sizes;                                   /* of a gather: the bytes of each rank that recorded it */
} call;

static void fail(const char *what, const char *file)
{
    fprintf(stderr, "replay: %s: %s\n", file, what);
    exit(1);
}

static void *reserve(void *memory, size_t bytes)
{
    void *more = realloc(memory, bytes);
    if (!more) {
        fail("no memory", "replay");
    }
    return more;
}

/* Reads a schedule; *count is its length with the end, *ranks are those that recorded it, of *steps steps. */
static call *read_schedule(const char *file, size_t *count, int *ranks, int *steps)
{
    FILE *in = fopen(file, "r");
    char word[16];
    double wall, bytes, seconds;
    size_t room = 0;
    call *calls = NULL;
    *count = 0;
    if (!in || fscanf(in, "step %lf %d %d", &wall, ranks, steps) != 3 || *ranks < 1 || *steps < 1) {
        fail("is no schedule", file);
    }
    while (fscanf(in, "%15s %lf %lf", word, &bytes, &seconds) == 3) {
        if (*count == room) {
            room = room ? 2 * room : 64;
            calls = reserve(calls, room * sizeof *calls);
        }
        call *c = &calls[(*count)++];
        *c = (call){.kind = word[0], .bytes = bytes, .seconds = seconds};
        if (c->kind == 'g') {
            c->sizes = reserve(NULL, sizeof *c->sizes * (size_t)*ranks);
            for (int r = 0; r < *ranks; r++) {
                if (fscanf(in, "%lf", &c->sizes[r]) != 1) {
                    fail("lacks the bytes of a rank", file);
                }
            }
        }
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
static call *join(char **args, size_t *count, int *steps)
{
    size_t other;
    int ranks, other_steps;
    call *a = read_schedule(args[0], count, &ranks, steps), *b = read_schedule(args[2], &other, &ranks, &other_steps);
    const double x = atof(args[1]), y = atof(args[3]);
    if (other != *count || other_steps != *steps || x == y) {
        fail("makes other calls, or is of the same size", args[2]);
    }
    for (size_t i = 0; i < *count; i++) {
        free(a[i].sizes);
        free(b[i].sizes);
        a[i].sizes = NULL;
        if (a[i].kind != b[i].kind) {
            fail("makes other calls", args[2]);
        }
        a[i].seconds_more = (b[i].seconds - a[i].seconds) / (y - x);
        a[i].seconds -= a[i].seconds_more * x;
        a[i].bytes_more = (b[i].bytes - a[i].bytes) / (runs_of(y) - runs_of(x));
        a[i].bytes -= a[i].bytes_more * runs_of(x);
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
static double on_paper(const call *c, int ranks, double mine, double total, double latency, double rate)
{
    double rounds = 0;
    for (int r = 1; r < ranks; r *= 2) {
        rounds++;
    }
    return c->kind == 'm'   ? rounds * (latency + c->bytes / rate)
           : c->kind == 'c' ? rounds * latency + c->bytes / rate
           : c->kind == 'g' ? rounds * latency + (total - mine) / rate
                            : 0;
}

/* The bytes that each rank sends in a gather, and where they begin; returns those of all. */
static int size_blocks(const call *c, long long classes, int ranks, int *sizes, int *starts)
{
    int at = 0;
    for (int r = 0; r < ranks; r++) {
        const long long part = start_of(classes, ranks, r + 1) - start_of(classes, ranks, r);
        sizes[r] = c->sizes ? (int)(c->sizes[r] + .5) : (int)(c->bytes + c->bytes_more * runs_of((double)part));
        starts[r] = at;
        at += sizes[r];
    }
    return at;
}

/* Waits until a time that is the same on all ranks, and returns it: they leave a barrier one after another. */
static double start_together(void)
{
    double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, &start, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    start += 1; /* by then all have it */
    smpi_execute_flops(1e9 * (start - MPI_Wtime()));
    return start;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 9 && argc != 5) {
        fail("LATENCY RATE A [X B Y CLASSES] TIMES", "usage");
    }
    const double latency = atof(argv[1]), rate = atof(argv[2]);
    const int as_it_is = argc == 5, times = atoi(argv[argc - 1]);
    const long long classes = as_it_is ? 0 : atoll(argv[7]);
    size_t count;
    int recorded = ranks, steps;
    call *calls = as_it_is ? read_schedule(argv[3], &count, &recorded, &steps) : join(argv + 3, &count, &steps);
    if (recorded != ranks) {
        fail("is of another number of ranks", argv[3]);
    }
    int *sizes = reserve(NULL, sizeof *sizes * (size_t)ranks), *starts = reserve(NULL, sizeof *starts * (size_t)ranks);
    size_t most = 1, most_all = 1;
    const double mine = (double)(start_of(classes, ranks, rank + 1) - start_of(classes, ranks, rank));
    for (size_t i = 0; i < count; i++) {
        const call *c = &calls[i];
        most = c->bytes > (double)most ? (size_t)c->bytes + 1 : most;
        most_all = most > most_all ? most : most_all;
        if (c->kind == 'g') {
            const size_t all = (size_t)size_blocks(c, classes, ranks, sizes, starts);
            most_all = all > most_all ? all : most_all;
            for (int r = 0; r < ranks; r++) {
                most = (size_t)sizes[r] > most ? (size_t)sizes[r] : most;
            }
        }
    }
    /* What is sent does not matter: all ranks share the memory. */
    char *send = SMPI_SHARED_MALLOC(most), *all = SMPI_SHARED_MALLOC(most_all);
    const double since = start_together();
    double paper = 0, alone = 0;
    for (int time = 0; time < times; time++) {
        for (size_t i = 0; i < count; i++) {
            const call *c = &calls[i];
            const double seconds = c->seconds + c->seconds_more * mine;
            double gathered = 0;
            smpi_execute_flops(1e9 * (seconds > 0 ? seconds : 0)); /* a simulated processor does 1e9 a second */
            if (c->kind == 'm') {
                MPI_Allreduce(MPI_IN_PLACE, all, (int)(c->bytes / sizeof(float)), MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
            } else if (c->kind == 'c') {
                MPI_Bcast(all, (int)c->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
            } else if (c->kind == 'g') {
                gathered = size_blocks(c, classes, ranks, sizes, starts);
                MPI_Allgatherv(send, sizes[rank], MPI_BYTE, all, sizes, starts, MPI_BYTE, MPI_COMM_WORLD);
            }
            alone += c->seconds + c->seconds_more * (double)classes;
            paper += (seconds > 0 ? seconds : 0) +
                     on_paper(c, ranks, gathered > 0 ? sizes[rank] : 0, gathered, latency, rate);
        }
    }
    const double all_steps = (double)times * steps, mean[2] = {(MPI_Wtime() - since) / all_steps, paper / all_steps};
    double slowest[2];
    MPI_Reduce(mean, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d %lld %.9f %.9f %.9f\n", ranks, classes, slowest[0], slowest[1], alone / all_steps);
    }
    SMPI_SHARED_FREE(all);
    SMPI_SHARED_FREE(send);
    free(starts);
    free(sizes);
    for (size_t i = 0; i < count; i++) {
        free(calls[i].sizes);
    }
    free(calls);
    MPI_Finalize();
    return 0;
}
