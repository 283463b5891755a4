/*
 * The cost of a step at the sizes of Yen et al. 2018 (ldgs.h).
 *
 * All methods are prepared first, each with its own model. Then they run in turn, for several rounds: a pass over
 * memory as large as the weights, steps, and such a pass again. The speed of memory changes from second to second; a
 * step is compared with the passes just before and after it, and with the margin's step of the same round.
 */
#include "ldgs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "peak.h"

enum { CLUSTERS = 1000, METHODS = 6, SIZES = 2, ROUNDS = 11, ROWS = 20000, FLOATS_A_LINE = 16 };

/* Examples of a step. */
static const uint64_t sizes[SIZES] = {1, 10};

/* Trained weights are about this factor times the classes' directions. */
#define WEIGHT_LENGTH 8.0

typedef enum looks { LOOKS_ALL, LOOKS_SEARCH, LOOKS_DRAWS, LOOKS_DRAWS_ONCE } looks;

typedef struct timing {
    const char *title, *estimator;
    looks looks;
    uint32_t blocks; /* of a search */
    bool margin;     /* the loss of a search, which has the given options */
} timing;

/* Shared by the methods. */
typedef struct bench {
    const papers *p;
    const ldgs_shape *shape;
    const char *options;
    xsm_dataset *data;
    uint64_t rows;
    uint32_t candidates, clusters;
    size_t rounds; /* turns, up to ROUNDS */
    double budget; /* seconds of steps in each turn */
    const peak_loops *loops;
    float *memory;       /* [parts of all threads], for the passes over memory */
    size_t part;         /* of a thread */
    unsigned char *seen; /* [K] */
} bench;

/* A prepared method, and its measurements. */
typedef struct contestant {
    const timing *of;
    xsm_model *model;
    xsm_estimator *estimator;
    xsm_optimizer *optimizer;
    xsm_gradient *gradient;
    uint64_t place;                /* of the rows */
    double seconds[SIZES][ROUNDS]; /* seconds a step, the mean of a turn */
    double rate[SIZES][ROUNDS];    /* bytes a second that memory delivers before and after the turn, the mean */
    double changed[SIZES];         /* rows that the last step of a turn changes, the mean */
} contestant;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, size_t count)
{
    double sorted[128];
    if (count < 1 || count > sizeof sorted / sizeof sorted[0]) {
        return PAPERS_NONE;
    }
    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare);
    return sorted[count / 2];
}

static double least(const double *values, size_t count)
{
    double found = values[0];
    for (size_t i = 1; i < count; i++) {
        found = values[i] < found ? values[i] : found;
    }
    return found;
}

static double most(const double *values, size_t count)
{
    double found = values[0];
    for (size_t i = 1; i < count; i++) {
        found = values[i] > found ? values[i] : found;
    }
    return found;
}

/* -- memory */

/* Memory in huge pages, like the weights, that has been touched; the caller frees it with free(). */
static float *touched(size_t floats)
{
    float *memory = NULL;
    if (posix_memalign((void **)&memory, (size_t)2 << 20, floats * sizeof *memory) != 0) {
        papers_fail("no memory for the streaming rate");
    }
    (void)madvise(memory, floats * sizeof *memory, MADV_HUGEPAGE);
    memset(memory, 0, floats * sizeof *memory);
    return memory;
}

/* Bytes a second that all threads read one after another. */
static double stream_rate(const bench *b)
{
    int threads = (int)papers_context(b->p).threads;
    float sum = 0;
    double start = papers_seconds(b->p);
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
    for (int t = 0; t < threads; t++) {
        sum += b->loops->read(b->memory + (size_t)t * b->part, b->part);
    }
    double rate = (double)(b->part * (size_t)threads) * sizeof(float) / (papers_seconds(b->p) - start);
    return sum == 0 ? rate : PAPERS_NONE;
}

/* Bytes a second for reads alone: in each block, clusters of such an index at scattered positions until they contain
 * enough rows. This is an upper bound of the rate of the probes. */
static double probe_rate(const bench *b, uint32_t blocks)
{
    enum { STEPS = 100 };
    const ldgs_shape *s = b->shape;
    const uint32_t clusters = b->clusters;
    const uint32_t probes = (uint32_t)(((uint64_t)b->candidates * clusters + s->classes - 1) / s->classes);
    const size_t row = s->features / blocks + 1;
    const size_t cluster = s->classes / clusters * row / FLOATS_A_LINE * FLOATS_A_LINE,
                 all = cluster * clusters * blocks;
    int threads = (int)papers_context(b->p).threads;
    uint64_t shift = 17;
    float *memory = touched(all), sum = 0;
    double passes[STEPS];
    for (int step = 0; step < STEPS; step++) {
        shift = shift * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double start = papers_seconds(b->p);
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
        for (uint32_t j = 0; j < blocks; j++) {
            for (uint32_t i = 0; i < probes; i++) {
                uint64_t place = (i * (uint64_t)clusters + (shift >> (20 + j)) % clusters) / probes;
                sum += b->loops->read(memory + (j * (size_t)clusters + place) * cluster, cluster);
            }
        }
        double rate = (double)cluster * blocks * probes * sizeof(float) / (papers_seconds(b->p) - start);
        passes[step] = sum == 0 ? rate : PAPERS_NONE;
    }
    free(memory);
    return median(passes, STEPS);
}

/* -- preparation */

/* Weights as after training, or those of `like` if it is given. */
static xsm_model *trained_model(const bench *b, xsm_model *like)
{
    const ldgs_shape *s = b->shape;
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *model = NULL;
    xsm_parameters w = XSM_PARAMETERS_INIT, from = XSM_PARAMETERS_INIT;
    papers_check(xsm_model_new_linear(b->p->context, s->features, s->classes, NULL, &model, &err), &err);
    papers_check(xsm_model_get_parameters(model, &w, &err), &err);
    if (like) {
        papers_check(xsm_model_get_parameters(like, &from, &err), &err);
    }
#pragma omp parallel for schedule(static)
    for (uint32_t k = 0; k < s->classes; k++) {
        float *row = w.weight + k * w.class_step;
        if (like) {
            memcpy(row, from.weight + k * from.class_step, s->features * sizeof *row);
            continue;
        }
        ldgs_direction(s, k, row);
        for (uint32_t f = 0; f < s->features; f++) {
            row[f] *= (float)WEIGHT_LENGTH;
        }
    }
    return model;
}

static void take_step(const bench *b, contestant *c, uint64_t n)
{
    xsm_error err = XSM_ERROR_INIT;
    if (c->place + n > b->rows) {
        c->place = 0;
    }
    xsm_batch batch = xsm_batch_range(b->data, c->place, n);
    papers_check(xsm_estimator_gradient(c->estimator, &batch, 0.1, c->gradient, &err), &err);
    papers_check(xsm_optimizer_apply(c->optimizer, &batch, c->gradient, 0.1, &err), &err);
    c->place += n;
}

/* The first step builds the indexes. */
static void make_ready(const bench *b, contestant *c, xsm_model *like)
{
    const timing *t = c->of;
    xsm_error err = XSM_ERROR_INIT;
    char all[300];
    int length = snprintf(all, sizeof all, "%s", t->margin ? b->options : "");
    if (t->looks == LOOKS_SEARCH) {
        length += snprintf(all + length, sizeof all - (size_t)length, "%scandidates=%u,index.clusters=%u",
                           length ? "," : "", b->candidates, b->clusters);
    } else if (t->looks != LOOKS_ALL) {
        length += snprintf(all + length, sizeof all - (size_t)length, "negatives=%u,shared=%s", b->candidates,
                           t->looks == LOOKS_DRAWS_ONCE ? "yes" : "no");
    }
    if (t->blocks > 1) {
        snprintf(all + length, sizeof all - (size_t)length, ",blocks=%u", t->blocks);
    }
    const method m = {t->title, t->estimator, sizes[SIZES - 1], 0, all};
    double begun = papers_clock();
    c->model = trained_model(b, like);
    papers_check(xsm_estimator_new(b->p->context, t->estimator, &c->estimator, &err), &err);
    set_options(c->estimator, &m, 0);
    papers_check(xsm_estimator_bind(c->estimator, c->model, b->data, &err), &err);
    papers_check(xsm_optimizer_new(b->p->context, "sgd", &c->optimizer, &err), &err);
    papers_check(xsm_optimizer_bind(c->optimizer, c->model, &err), &err);
    papers_check(xsm_gradient_new(b->p->context, &c->gradient, &err), &err);
    for (size_t i = 0; i < SIZES; i++) {
        take_step(b, c, sizes[SIZES - 1 - i]);
    }
    papers_say("  %s: ready after %.1f s", t->title, papers_clock() - begun);
}

static void end(contestant *c)
{
    xsm_gradient_free(c->gradient);
    xsm_optimizer_free(c->optimizer);
    xsm_estimator_free(c->estimator);
    xsm_model_free(c->model);
}

/* -- turns */

/* The number of distinct classes with a coefficient. */
static double rows_changed(const bench *b, const xsm_gradient *g)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_gradient_view v = XSM_GRADIENT_VIEW_INIT;
    papers_check(xsm_gradient_get_view(g, &v, &err), &err);
    memset(b->seen, 0, b->shape->classes);
    uint64_t count = 0;
    for (uint64_t i = 0; i < v.examples; i++) {
        for (uint64_t j = 0; j < (v.lengths ? v.lengths[i] : v.width); j++) {
            uint64_t k = v.classes ? v.classes[i * v.width + j] : j;
            bool counts = v.coefficients[i * v.width + j] != 0 && !b->seen[k];
            b->seen[k] |= counts;
            count += counts;
        }
    }
    return (double)count;
}

/* Steps between two passes over memory. One step before them, which loads the caches again, does not count. */
static void take_turn(const bench *b, contestant *c, size_t size, size_t round)
{
    double before = stream_rate(b);
    take_step(b, c, sizes[size]);
    uint64_t steps = 0;
    double begun = papers_seconds(b->p), passed = 0;
    for (; steps < 3 || passed < b->budget; steps++) {
        take_step(b, c, sizes[size]);
        passed = papers_seconds(b->p) - begun;
    }
    c->seconds[size][round] = passed / (double)steps;
    c->rate[size][round] = (before + stream_rate(b)) / 2;
    c->changed[size] += rows_changed(b, c->gradient) / (double)b->rounds;
}

/* The bytes that scores are computed from: all weights; or the probed rows, with their classes in each block, and the
 * centres; or the drawn rows. */
static double bytes_read(const bench *b, const timing *t, uint64_t n)
{
    const double classes = b->shape->classes, few = b->candidates;
    const double row = b->shape->features * sizeof(float) + t->blocks * sizeof(uint32_t);
    switch (t->looks) {
    case LOOKS_SEARCH:
        return (double)n * few * row + (double)b->clusters * (b->shape->features + t->blocks) * sizeof(float);
    case LOOKS_DRAWS:
        return (double)n * few * row;
    case LOOKS_DRAWS_ONCE:
        return few * row;
    default:
        return classes * row;
    }
}

/* Changed rows are read and written, in the weights and, read from there, in the indexes. */
static double bytes_changed(const bench *b, const contestant *c, size_t size)
{
    return c->changed[size] * b->shape->features * sizeof(float) * (c->of->looks == LOOKS_SEARCH ? 5 : 2);
}

static void tell(const bench *b, report *r, const contestant *c, const contestant *margin, size_t size)
{
    double ratio[ROUNDS], share[ROUNDS], read = bytes_read(b, c->of, sizes[size]);
    for (size_t i = 0; i < b->rounds; i++) {
        ratio[i] = margin->seconds[size][i] / c->seconds[size][i];
        share[i] = 100 * read / c->seconds[size][i] / c->rate[size][i];
    }
    char row[80];
    snprintf(row, sizeof row, "%s, n = %d", c->of->title, (int)sizes[size]);
    double seconds = median(c->seconds[size], b->rounds), faster = median(ratio, b->rounds);
    papers_say("  %s: %.3f ms (%.3f to %.3f), %.1f times as fast, %.1f MB read at %.0f %% (%.0f to %.0f) of %.1f GB/s",
               row, 1e3 * seconds, 1e3 * least(c->seconds[size], b->rounds), 1e3 * most(c->seconds[size], b->rounds),
               faster, read / 1e6, median(share, b->rounds), least(share, b->rounds), most(share, b->rounds),
               median(c->rate[size], b->rounds) / 1e9);
    report_cell(r, row, "ms a step", PAPERS_NONE, 1e3 * seconds);
    report_cell(r, row, "times as fast as Margin", PAPERS_NONE, faster);
    report_cell(r, row, "MB read", PAPERS_NONE, read / 1e6);
    report_cell(r, row, "MB of rows changed", PAPERS_NONE, bytes_changed(b, c, size) / 1e6);
    report_cell(r, row, "% of the streaming rate", PAPERS_NONE, median(share, b->rounds));
}

void ldgs_time(const papers *p, report *r, const ldgs_shape *s, uint32_t blocks, const char *options)
{
    const timing methods[METHODS] = {{"Margin", "margin", LOOKS_ALL, 0, true},
                                     {"MIPS", "mips", LOOKS_SEARCH, 1, true},
                                     {"Decomp-MIPS", "decomp-mips", LOOKS_SEARCH, blocks, true},
                                     {"Softmax", "softmax", LOOKS_ALL, 0, false},
                                     {"Sampled-Softmax", "sampled-softmax", LOOKS_DRAWS, 0, false},
                                     {"Sampled-Softmax, shared", "sampled-softmax", LOOKS_DRAWS_ONCE, 0, false}};
    contestant *all = papers_memory(METHODS, sizeof *all);
    const uint32_t threads = papers_context(p).threads;
    bench b = {.p = p,
               .shape = s,
               .options = options,
               .rows = p->quick ? 200 : ROWS,
               .candidates = s->classes / 100,
               .clusters = p->quick ? 20 : CLUSTERS,
               .rounds = p->quick ? 2 : ROUNDS,
               .budget = p->quick ? 0.002 : 0.2,
               .loops = peak_find(papers_context(p).instruction_set),
               .part = (size_t)s->classes * s->features / threads / 64 * 64};
    b.data = ldgs_rows(p, s, 0, b.rows, 11);
    b.memory = touched(b.part * threads);
    b.seen = papers_memory(s->classes, 1);
    for (size_t i = 0; i < METHODS; i++) {
        all[i].of = &methods[i];
        make_ready(&b, &all[i], i ? all[0].model : NULL);
    }
    double probes = probe_rate(&b, blocks);
    for (size_t round = 0; round < b.rounds; round++) {
        for (size_t size = 0; size < SIZES; size++) {
            for (size_t i = 0; i < METHODS; i++) {
                take_turn(&b, &all[i], size, round);
            }
        }
    }
    report_note(
        r,
        "A step, K = %u, D = %u, Q = K/100 = %u, B = %u, %u clusters an index, %u threads; memory streams at %.1f "
        "GB/s, clusters here and there at %.1f. Medians of %u turns, ratios within a turn. Read for scores are all "
        "weights; or the rows that are probed, with their classes, and the centres; or Q rows drawn for each "
        "example, or shared by the batch.",
        s->classes, s->features, b.candidates, blocks, b.clusters, threads, median(all[0].rate[0], b.rounds) / 1e9,
        probes / 1e9, (unsigned)b.rounds);
    for (size_t size = 0; size < SIZES; size++) {
        for (size_t i = 0; i < METHODS; i++) {
            tell(&b, r, &all[i], &all[0], size);
        }
    }
    for (size_t i = 0; i < METHODS; i++) {
        end(&all[i]);
    }
    xsm_dataset_free(b.data);
    free(b.memory);
    free(b.seen);
    free(all);
}
