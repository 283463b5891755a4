/*
 * What a model that is divided among ranks costs: time and bytes sent, of some kinds of work, on the ranks that it is
 * started on.
 *
 *     mpirun -n RANKS bench_cluster WORK THREADS SECONDS CLASSES FEATURES BATCH DRAWS [SCHEDULE [RANKS]]
 *
 * WORK is evaluate, wire (the latency and the bandwidth of MPI's calls themselves; the other words are not used), or
 * the name of an estimator, whose steps are measured; `shared` is sampled-softmax with shared draws. DRAWS are the
 * negatives of an example or batch, 0 for estimators without. FEATURES is a number of features, of dense rows, or
 * FEATURES/HIDDEN/LISTED for an embedding model with sparse rows, each of which lists so many of its features. Prints a
 * line: rows a second, and the bytes that a rank sends a row and a step. bench/cluster/run.sh runs it. SCHEDULE is a
 * file that gets the calls on rank 0 (schedule.h) of an epoch, or of an evaluation of one batch; an epoch is one batch,
 * or with DRAWS 20. With RANKS, on one process, it is the last of so many ranks, and the others are not there: what it
 * computes in a step is that of such a rank, what it trains is not.
 */
#define XSM_EXPERIMENTAL
#include <dirent.h>
#include <inttypes.h>
#include <mpi.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <xsoftmax.h>
#include <xsoftmax/mpi.h>

#include "schedule.h"

/* A communicator that counts what this rank sends. */
typedef struct counted {
    xsm_comm of;
    uint64_t calls, bytes;
    int leads; /* whether this process ends a measurement, and prints it: rank 0, or the one that is there */
} counted;

static int32_t max_f32(void *user, float *values, size_t count)
{
    counted *c = user;
    c->calls++;
    c->bytes += count * sizeof *values;
    return c->of.max_f32(c->of.user, values, count);
}

static int32_t allgatherv(void *user, const void *mine, void *all, const size_t *sizes)
{
    counted *c = user;
    c->calls++;
    c->bytes += sizes[c->of.rank];
    return c->of.allgatherv(c->of.user, mine, all, sizes);
}

static int32_t broadcast(void *user, void *data, size_t bytes, uint32_t root)
{
    counted *c = user;
    c->calls++;
    c->bytes += root == c->of.rank ? bytes : 0;
    return c->of.broadcast(c->of.user, data, bytes, root);
}

static xsm_error err = XSM_ERROR_INIT;

static void check(xsm_status status)
{
    if (status != XSM_OK && status != XSM_CANCELLED) {
        fprintf(stderr, "bench_cluster: %s\n", err.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* -- processors ---------------------------------------------------------------------------------------------------- */

/* Where the threads of this rank run, if the machine has a processor for each thread of each of its ranks: otherwise
 * the system now and then runs two of them on one processor while another has nothing to do. */
typedef struct places {
    bool chosen;
    cpu_set_t first, others; /* of the thread that calls the library, and of those that it starts */
} places;

/* Chooses the processors, and moves this thread to those of the others: threads that it starts stay there. */
static places choose_places(uint32_t threads)
{
    places p = {.chosen = false};
    cpu_set_t all;
    MPI_Comm machine;
    int rank, ranks;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_size(machine, &ranks);
    MPI_Comm_free(&machine);
    if (sched_getaffinity(0, sizeof all, &all) != 0 || (uint64_t)ranks * threads > (uint64_t)CPU_COUNT(&all)) {
        return p;
    }
    CPU_ZERO(&p.first);
    CPU_ZERO(&p.others);
    uint32_t number = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            if (number / threads == (uint32_t)rank) {
                CPU_SET(cpu, number % threads == 0 ? &p.first : &p.others);
            }
            number++;
        }
    }
    p.chosen = true;
    return threads == 1 || sched_setaffinity(0, sizeof p.others, &p.others) == 0 ? p : (places){.chosen = false};
}

/* Moves the thread that calls the library to its own processor, once all threads have started. */
static void take_place(const places *p)
{
    if (p->chosen && sched_setaffinity(0, sizeof p->first, &p->first) != 0) {
        fprintf(stderr, "bench_cluster: a thread cannot be bound to a processor\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Seconds that the threads of this process were ready and had no processor; 0 where the system does not count them. */
static double waited(void)
{
    double nanoseconds = 0;
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry = threads ? readdir(threads) : NULL; entry; entry = readdir(threads)) {
        char name[sizeof entry->d_name + 40];
        unsigned long long delay = 0;
        snprintf(name, sizeof name, "/proc/self/task/%s/schedstat", entry->d_name);
        FILE *in = fopen(name, "r");
        if (in && fscanf(in, "%*u %llu", &delay) == 1) {
            nanoseconds += (double)delay;
        }
        if (in) {
            fclose(in);
        }
    }
    if (threads) {
        closedir(threads);
    }
    return nanoseconds / 1e9;
}

/* -- work ---------------------------------------------------------------------------------------------------------- */

typedef struct settings {
    const char *work;
    double seconds;
    uint32_t threads, classes, features, batch, draws;
    uint32_t hidden, listed; /* 0: rows are dense, and scored directly */
} settings;

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 40;
}

static xsm_status make_dense(xsm_context *ctx, const settings *s, uint64_t rows, const float *values,
                             const xsm_labels *labels, xsm_dataset **made)
{
    xsm_dense_rows given = XSM_DENSE_ROWS_INIT;
    given.values = values;
    given.rows = rows;
    given.features = s->features;
    given.labels = labels;
    return xsm_dataset_from_dense(ctx, &given, made, &err);
}

/* One feature of each of `listed` ranges of the features; `offsets` and `index` are memory. */
static xsm_status make_sparse(xsm_context *ctx, const settings *s, uint64_t rows, const float *values,
                              const xsm_labels *labels, uint64_t *offsets, uint32_t *index, xsm_dataset **made)
{
    uint64_t state = 2;
    const uint32_t range = s->features / s->listed;
    for (uint64_t i = 0; i < rows * s->listed; i++) {
        index[i] = (uint32_t)(i % s->listed) * range + (uint32_t)(next(&state) % range);
    }
    for (uint64_t i = 0; i <= rows; i++) {
        offsets[i] = i * s->listed;
    }
    xsm_csr_rows given = XSM_CSR_ROWS_INIT;
    given.rows = rows;
    given.features = s->features;
    given.offsets = offsets;
    given.index_bits = 32;
    given.index = index;
    given.values = values;
    given.labels = labels;
    return xsm_dataset_from_csr(ctx, &given, made, &err);
}

/* Rows with values in [-1, 1), the same on every rank. */
static xsm_dataset *make_rows(xsm_context *ctx, const settings *s, uint64_t rows)
{
    const uint64_t count = rows * (s->hidden ? s->listed : s->features);
    float *values = malloc(sizeof *values * count);
    uint32_t *classes = malloc(sizeof *classes * rows), *index = malloc(sizeof *index * count);
    uint64_t *offsets = malloc(sizeof *offsets * (rows + 1)), state = 1;
    xsm_dataset *made = NULL;
    if (!values || !classes || !index || !offsets) {
        fprintf(stderr, "bench_cluster: out of memory\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
        exit(1);
    }
    for (uint64_t i = 0; i < count; i++) {
        values[i] = (float)next(&state) / 8388608.0f - 1.0f;
    }
    for (uint64_t i = 0; i < rows; i++) {
        classes[i] = (uint32_t)(i * UINT64_C(2654435761) % s->classes);
    }
    xsm_labels labels = XSM_LABELS_INIT;
    labels.classes = s->classes;
    labels.labels = classes;
    check(s->hidden ? make_sparse(ctx, s, rows, values, &labels, offsets, index, &made)
                    : make_dense(ctx, s, rows, values, &labels, &made));
    free(values);
    free(classes);
    free(index);
    free(offsets);
    return made;
}

static xsm_model *make_model(xsm_context *ctx, const settings *s)
{
    xsm_model_options shape = XSM_MODEL_OPTIONS_INIT;
    xsm_embedding_options layer = XSM_EMBEDDING_OPTIONS_INIT;
    xsm_model *made = NULL;
    check(s->hidden ? xsm_model_new_embedding(ctx, s->features, s->hidden, s->classes, &layer, &made, &err)
                    : xsm_model_new_linear(ctx, s->features, s->classes, &shape, &made, &err));
    return made;
}

/* One measurement at a time; those of rank 0 end it. */
typedef struct clock_of {
    double since, seconds, warm; /* the last: of the steps that are not counted */
    double warm_waited;
    uint64_t rows, warm_rows, warm_bytes, warm_steps, warm_calls;
    const counted *sent;
    schedule *steps; /* or NULL */
    const places *where;
    uint64_t step;
} clock_of;

static int32_t on_progress(void *user, const xsm_progress *p)
{
    clock_of *c = user;
    const double now = MPI_Wtime() - c->since;
    if (c->step == 0 && p->step > 0) {
        take_place(c->where);
    }
    if (c->steps && p->step > c->step) {
        schedule_step(c->steps);
    }
    c->step = p->step;
    if (c->warm == 0 && now > c->seconds / 5) {
        c->warm = now;
        c->warm_waited = waited();
        c->warm_rows = p->examples;
        c->warm_steps = p->step;
        c->warm_bytes = c->sent->bytes;
        c->warm_calls = c->sent->calls;
    }
    return c->sent->leads && now > c->seconds;
}

typedef struct result {
    double rows, steps, bytes, calls, seconds;
    double waited; /* seconds, of this rank's threads */
} result;

/* The waiting is that of the rank that waited most. */
static void print(const settings *s, const counted *sent, const result *r)
{
    float most = (float)(r->waited / r->seconds);
    if (sent->of.ranks > 1 && sent->of.max_f32(sent->of.user, &most, 1) != 0) {
        fprintf(stderr, "bench_cluster: MPI failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (sent->leads) {
        printf("%s ranks %u threads %u classes %u features %u hidden %u batch %u draws %u: %.1f rows/s, %.1f bytes a "
               "row, %.0f bytes and %.3g calls a step, %.1f %% without a processor\n",
               s->work, (unsigned)sent->of.ranks, (unsigned)s->threads, (unsigned)s->classes, (unsigned)s->features,
               (unsigned)s->hidden, (unsigned)s->batch, (unsigned)s->draws, r->rows / r->seconds, r->bytes / r->rows,
               r->steps > 0 ? r->bytes / r->steps : 0, r->steps > 0 ? r->calls / r->steps : 0, 100 * (double)most);
    }
}

/* The batches of an epoch that is recorded. */
static uint32_t recorded_steps(const settings *s)
{
    return s->draws > 0 ? 20 : 1;
}

static void measure_steps(xsm_context *ctx, const settings *s, const counted *sent, schedule *steps,
                          const places *where)
{
    xsm_trainer_options options = XSM_TRAINER_OPTIONS_INIT;
    xsm_model *model = make_model(ctx, s);
    xsm_estimator *estimator = NULL;
    xsm_optimizer *optimizer = NULL;
    xsm_trainer *trainer = NULL;
    xsm_progress at = {.size = sizeof at};
    clock_of clock = {.seconds = s->seconds, .sent = sent, .steps = steps, .where = where};
    const int shared = strcmp(s->work, "shared") == 0;
    xsm_dataset *rows = make_rows(ctx, s,
                                  steps           ? recorded_steps(s) * s->batch
                                  : s->batch == 1 ? 4096
                                                  : 20 * (uint64_t)s->batch);
    check(xsm_estimator_new(ctx, shared ? "sampled-softmax" : s->work, &estimator, &err));
    if (s->draws > 0) {
        check(xsm_estimator_set_number(estimator, "negatives", s->draws, &err));
    }
    if (shared) {
        check(xsm_estimator_set(estimator, "shared", "yes", &err));
    }
    check(xsm_optimizer_new(ctx, "sgd", &optimizer, &err));
    options.epochs = 1000000;
    options.batch = s->batch;
    options.eta = 1e-6;
    options.progress = on_progress;
    options.progress_user = &clock;
    check(xsm_trainer_new(ctx, model, rows, estimator, optimizer, &options, &trainer, &err));
    clock.since = MPI_Wtime();
    check(xsm_trainer_run(trainer, &err));
    result found = {.seconds = MPI_Wtime() - clock.since - clock.warm, .waited = waited() - clock.warm_waited};
    check(xsm_trainer_get_progress(trainer, &at, &err));
    found.rows = (double)(at.examples - clock.warm_rows);
    found.steps = (double)(at.step - clock.warm_steps);
    found.bytes = (double)(sent->bytes - clock.warm_bytes);
    found.calls = (double)(sent->calls - clock.warm_calls);
    print(s, sent, &found);
    xsm_trainer_free(trainer);
    xsm_optimizer_free(optimizer);
    xsm_estimator_free(estimator);
    xsm_model_free(model);
    xsm_dataset_free(rows);
}

/* Batches by themselves, for a schedule. */
static void record_evaluation(xsm_context *ctx, const settings *s, const xsm_model *model, schedule *steps)
{
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_dataset *batch = make_rows(ctx, s, s->batch);
    for (int i = 0; i < 10; i++) {
        check(xsm_evaluate(ctx, model, batch, NULL, &metrics, &err));
        schedule_step(steps);
    }
    xsm_dataset_free(batch);
}

static void measure_evaluation(xsm_context *ctx, const settings *s, const counted *sent, schedule *steps,
                               const places *where)
{
    xsm_evaluate_options all = XSM_EVALUATE_OPTIONS_INIT, timed = XSM_EVALUATE_OPTIONS_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    xsm_model *model = make_model(ctx, s);
    xsm_dataset *rows = make_rows(ctx, s, 100 * (uint64_t)s->batch);
    timed.seconds = s->seconds; /* finds how many rows take so long */
    check(xsm_evaluate(ctx, model, rows, &timed, &metrics, &err));
    take_place(where);
    all.rows = metrics.rows;
    const uint64_t before = sent->bytes;
    const double since = MPI_Wtime(), waited_before = waited();
    check(xsm_evaluate(ctx, model, rows, &all, &metrics, &err));
    print(s, sent,
          &(result){.rows = (double)metrics.rows,
                    .bytes = (double)(sent->bytes - before),
                    .seconds = MPI_Wtime() - since,
                    .waited = waited() - waited_before});
    if (steps) {
        schedule_step(steps);
        record_evaluation(ctx, s, model, steps);
    }
    xsm_model_free(model);
    xsm_dataset_free(rows);
}

/* Seconds of the smallest call, and bytes a second of a large one. */
static void measure_wire(const xsm_comm *group)
{
    enum { CALLS = 2000, LARGE = 50, BYTES = 4 << 20 };
    float value = 0;
    char *data = calloc(BYTES, 1);
    int32_t failed = !data;
    double since = MPI_Wtime();
    for (int i = 0; i < CALLS && !failed; i++) {
        failed |= group->max_f32(group->user, &value, 1);
    }
    const double latency = (MPI_Wtime() - since) / CALLS;
    since = MPI_Wtime();
    for (int i = 0; i < LARGE && !failed; i++) {
        failed |= group->broadcast(group->user, data, BYTES, 0);
    }
    const double rate = (double)BYTES * LARGE / (MPI_Wtime() - since);
    free(data);
    if (failed) {
        fprintf(stderr, "bench_cluster: MPI failed\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (group->rank == 0) {
        printf("wire %.9f %.0f\n", latency, rate);
    }
}

/* Memory of large pages, each of which is there: untouched pages of zeros would all be the same one, and be read from
 * the cache, as no machine reads the weights of a model that has been trained. */
static void *allocate(void *user, size_t size, size_t alignment)
{
    const size_t page = (size_t)2 << 20;
    void *memory = NULL;
    (void)user;
    alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    if (posix_memalign(&memory, size < page || alignment > page ? alignment : page, size) != 0) {
        return NULL;
    }
    if (size >= page) {
        (void)madvise(memory, size, MADV_HUGEPAGE);
        memset(memory, 0, size);
    }
    return memory;
}

static void release(void *user, void *memory, size_t size, size_t alignment)
{
    (void)user;
    (void)size;
    (void)alignment;
    free(memory);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    if (argc < 8 || argc > 10) {
        fprintf(stderr, "usage: bench_cluster WORK THREADS SECONDS CLASSES FEATURES BATCH DRAWS [SCHEDULE [RANKS]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    settings s = {.work = argv[1],
                  .threads = (uint32_t)atoi(argv[2]),
                  .seconds = atof(argv[3]),
                  .classes = (uint32_t)atoi(argv[4]),
                  .batch = (uint32_t)atoi(argv[6]),
                  .draws = (uint32_t)atoi(argv[7])};
    const int numbers = sscanf(argv[5], "%" SCNu32 "/%" SCNu32 "/%" SCNu32, &s.features, &s.hidden, &s.listed);
    if (numbers != 1 && (numbers != 3 || s.listed < 1 || s.listed > s.features)) {
        fprintf(stderr, "bench_cluster: FEATURES is '%s'; a number, or FEATURES/HIDDEN/LISTED, is accepted\n", argv[5]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm all = MPI_COMM_WORLD;
    xsm_comm started = XSM_COMM_INIT, group;
    xsm_context *ctx = NULL;
    check(xsm_mpi_comm_new(&all, sizeof all, &started, &err));
    const int alone = argc == 10;
    if (alone && (started.ranks != 1 || atoi(argv[9]) < 1)) {
        fprintf(stderr, "bench_cluster: RANKS is '%s', on %u processes; 1 or more, on one, is accepted\n", argv[9],
                (unsigned)started.ranks);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    group = alone ? schedule_absent((uint32_t)atoi(argv[9])) : started;
    schedule *steps = argc >= 9 ? schedule_new(&group) : NULL;
    counted sent = {.of = steps ? schedule_comm(steps) : group, .leads = alone || group.rank == 0};
    xsm_comm counts = sent.of;
    counts.user = &sent;
    counts.max_f32 = max_f32;
    counts.allgatherv = allgatherv;
    counts.broadcast = broadcast;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.comm = &counts;
    options.threads = s.threads;
    const places where = choose_places(s.threads);
    const xsm_allocator touched = {.size = sizeof touched, .allocate = allocate, .release = release};
    options.allocator = steps ? &touched : NULL;
    check(xsm_context_new(&options, &ctx, &err));
    if (strcmp(s.work, "wire") == 0) {
        measure_wire(&group);
    } else if (strcmp(s.work, "evaluate") == 0) {
        measure_evaluation(ctx, &s, &sent, steps, &where);
    } else {
        measure_steps(ctx, &s, &sent, steps, &where);
    }
    if (steps && sent.leads && strcmp(s.work, "wire") != 0) {
        FILE *out = fopen(argv[8], "w");
        if (!out || schedule_write(steps, recorded_steps(&s), out) != 0 || fclose(out) != 0) {
            fprintf(stderr,
                    "bench_cluster: no schedule: too few steps, steps with different calls, or %s cannot be "
                    "written\n",
                    argv[8]);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    schedule_free(steps);
    xsm_context_free(ctx);
    xsm_mpi_comm_free(&started);
    MPI_Finalize();
    return 0;
}
