/* See ldgs.h. */
#include "ldgs.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "learn.h"
#include "peak.h"

enum { CLUSTERS = 1000, METHODS = 6, STEPS_MOST = 2000 };

/* What weights are after training, times the classes' directions. */
#define WEIGHT_LENGTH 8.0

/* -- data */

static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Adds `size` times a direction that is uniform, nearly, to a vector, and makes it of length 1. */
static void add_direction(float *x, uint32_t d, double size, uint64_t seed)
{
    double noise[LDGS_FEATURES_MAX], square = 0, length = 0;
    for (uint32_t f = 0; f < d; f++) {
        double sum = -6; /* of twelve numbers, 16 bits each: normal enough */
        for (int i = 0; i < 12; i += 4) {
            uint64_t bits = next(&seed);
            sum += (double)((bits & 65535) + (bits >> 16 & 65535) + (bits >> 32 & 65535) + (bits >> 48)) / 65536;
        }
        noise[f] = sum;
        square += sum * sum;
    }
    for (uint32_t f = 0; f < d; f++) {
        x[f] += (float)(size * noise[f] / sqrt(square));
        length += (double)x[f] * (double)x[f];
    }
    for (uint32_t f = 0; f < d; f++) {
        x[f] = (float)((double)x[f] / sqrt(length));
    }
}

void ldgs_direction(const ldgs_shape *s, uint32_t k, float *x)
{
    const double of_group = 0.36, of_family = 0.71;
    uint64_t seed = 2 * (uint64_t)k + 1;
    double own = sqrt(1 / of_group - 1);
    memset(x, 0, s->features * sizeof *x);
    if (s->families > 0) {
        uint64_t family = next(&seed) % s->families, of = 2 * family + 1;
        add_direction(x, s->features, 1, 1000003 * (next(&of) % s->groups));
        add_direction(x, s->features, sqrt(of_family / of_group - 1), family << 20 | 3);
        own = sqrt(1 / of_family - 1);
    } else {
        add_direction(x, s->features, 1, 1000003 * (next(&seed) % s->groups));
    }
    add_direction(x, s->features, own, (uint64_t)k << 20 | 1);
}

xsm_dataset *ldgs_rows(const papers *p, const ldgs_shape *s, uint64_t each, uint64_t rows, uint64_t seed)
{
    xsm_error err = XSM_ERROR_INIT;
    const uint32_t d = s->features;
    rows = each ? each * s->classes : rows;
    float *x = papers_memory((size_t)rows * d, sizeof *x);
    uint64_t *offsets = papers_memory((size_t)rows + 1, sizeof *offsets);
    uint32_t *labels = papers_memory((size_t)rows * s->most_labels, sizeof *labels);
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t own = seed + i;
        uint32_t first = each ? (uint32_t)(i / each) : (uint32_t)(next(&own) % s->classes);
        uint32_t count = 1 + (uint32_t)(next(&own) % s->most_labels);
        for (uint32_t j = 0; j < count; j++) {
            labels[offsets[i] + j] = (first + j) % s->classes;
        }
        offsets[i + 1] = offsets[i] + count;
    }
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < rows; i++) {
        float one[LDGS_FEATURES_MAX], *row = x + i * d;
        for (uint64_t j = offsets[i]; j < offsets[i + 1]; j++) {
            ldgs_direction(s, labels[j], one);
            for (uint32_t f = 0; f < d; f++) {
                row[f] += one[f];
            }
        }
        add_direction(row, d, 0, 1); /* to the length 1 */
        add_direction(row, d, s->noise, (seed << 40) + 7 * i + 3);
    }
    xsm_labels given = {sizeof given, s->classes, 0, offsets, labels};
    xsm_dataset *data = NULL;
    papers_check(xsm_dataset_from_dense(p->context, x, rows, d, d, &given, XSM_COPY, &data, &err), &err);
    free(x);
    free(offsets);
    free(labels);
    return data;
}

/* -- a step */

/* On one thread processor time, which other programs on the machine do not add to. */
static double step_clock(const papers *p)
{
    return xsm_context_threads(p->context) > 1 ? papers_clock() : papers_work();
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count ? values[count / 2] : PAPERS_NONE;
}

/* Bytes a second that all threads read one after another of memory as large as the weights. */
static double stream_rate(const papers *p, const ldgs_shape *s)
{
    const peak_loops *loops = peak_find(xsm_context_instruction_set(p->context));
    int threads = (int)xsm_context_threads(p->context);
    size_t part = (size_t)s->classes * s->features / (size_t)threads / 64 * 64;
    float *memory = NULL;
    if (posix_memalign((void **)&memory, (size_t)2 << 20, part * (size_t)threads * sizeof *memory) != 0) {
        papers_fail("no memory for the streaming rate");
    }
    (void)madvise(memory, part * (size_t)threads * sizeof *memory, MADV_HUGEPAGE); /* as the weights are */
    memset(memory, 0, part * (size_t)threads * sizeof *memory);
    enum { RUNS = 5 };
    double passes[RUNS];
    for (int run = 0; run < RUNS; run++) {
        float sum = 0;
        double start = step_clock(p);
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
        for (int t = 0; t < threads; t++) {
            sum += loops->read(memory + (size_t)t * part, part);
        }
        double rate = (double)(part * (size_t)threads) * sizeof(float) / (step_clock(p) - start);
        passes[run] = sum == 0 ? rate : PAPERS_NONE;
    }
    free(memory);
    return median(passes, RUNS);
}

/* Bytes a second that come when nothing is done but to read, in each block, clusters of such an index here and there
 * until they hold enough rows: what the probes could reach at best. */
static double probe_rate(const papers *p, const ldgs_shape *s, uint32_t blocks, uint32_t clusters, uint32_t candidates)
{
    enum { STEPS = 100 };
    const peak_loops *loops = peak_find(xsm_context_instruction_set(p->context));
    const uint32_t probes = (uint32_t)(((uint64_t)candidates * clusters + s->classes - 1) / s->classes);
    const size_t row = s->features / blocks + 1, cluster = s->classes / clusters * row / 64 * 64;
    const size_t all = cluster * clusters * blocks;
    int threads = (int)xsm_context_threads(p->context);
    uint64_t seed = 17;
    float *memory = NULL, sum = 0;
    if (posix_memalign((void **)&memory, (size_t)2 << 20, all * sizeof *memory) != 0) {
        papers_fail("no memory for the rate of probes");
    }
    (void)madvise(memory, all * sizeof *memory, MADV_HUGEPAGE);
    memset(memory, 0, all * sizeof *memory);
    double passes[STEPS];
    for (int step = 0; step < STEPS; step++) {
        uint64_t shift = next(&seed);
        double start = step_clock(p);
#pragma omp parallel for num_threads(threads) schedule(static, 1) reduction(+ : sum)
        for (uint32_t j = 0; j < blocks; j++) {
            for (uint32_t i = 0; i < probes; i++) {
                uint64_t place = (i * (uint64_t)clusters + (shift >> j) % clusters) / probes;
                sum += loops->read(memory + (j * (size_t)clusters + place) * cluster, cluster);
            }
        }
        double rate = (double)cluster * blocks * probes * sizeof(float) / (step_clock(p) - start);
        passes[step] = sum == 0 ? rate : PAPERS_NONE;
    }
    free(memory);
    return median(passes, STEPS);
}

typedef enum looks { LOOKS_ALL, LOOKS_SEARCH, LOOKS_DRAWS, LOOKS_DRAWS_ONCE } looks;

typedef struct timing {
    const char *title, *estimator;
    looks looks;
    uint32_t blocks; /* of a search */
    bool margin;     /* its loss, which takes the options given */
} timing;

typedef struct bench {
    const papers *p;
    const ldgs_shape *shape;
    xsm_dataset *data;
    uint64_t rows;
    uint32_t candidates, clusters;
    double budget; /* seconds */
    xsm_estimator *e;
    xsm_optimizer *o;
    xsm_gradient *g;
} bench;

static double take_step(const bench *b, uint64_t first, uint64_t n)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(b->data, first, n);
    double start = step_clock(b->p);
    papers_check(xsm_estimator_gradient(b->e, &batch, 0.1, b->g, &err), &err);
    papers_check(xsm_optimizer_apply(b->o, &batch, b->g, 0.1, &err), &err);
    return step_clock(b->p) - start;
}

static xsm_model *trained_model(const bench *b)
{
    const ldgs_shape *s = b->shape;
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *model = NULL;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    papers_check(xsm_model_new_linear(b->p->context, s->features, s->classes, NULL, &model, &err), &err);
    papers_check(xsm_model_parameters(model, &w, &err), &err);
#pragma omp parallel for schedule(static)
    for (uint32_t k = 0; k < s->classes; k++) {
        float *row = w.weight + k * w.class_step;
        ldgs_direction(s, k, row);
        for (uint32_t f = 0; f < s->features; f++) {
            row[f] *= (float)WEIGHT_LENGTH;
        }
    }
    return model;
}

/* Median seconds of a step of n examples; the first, which builds the indexes, does not count. */
static double time_steps(bench *b, const timing *t, uint64_t n, const char *options)
{
    static double seconds[STEPS_MOST];
    xsm_error err = XSM_ERROR_INIT;
    char all[300];
    int length = snprintf(all, sizeof all, "%s", t->margin ? options : "");
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
    const method m = {t->title, t->estimator, n, 0, all};
    xsm_model *model = trained_model(b);
    papers_check(xsm_estimator_new(b->p->context, t->estimator, &b->e, &err), &err);
    set_options(b->e, &m, 0);
    papers_check(xsm_estimator_bind(b->e, model, b->data, &err), &err);
    papers_check(xsm_optimizer_new(b->p->context, "sgd", &b->o, &err), &err);
    papers_check(xsm_optimizer_bind(b->o, model, &err), &err);
    papers_check(xsm_gradient_new(b->p->context, &b->g, &err), &err);
    papers_say("  %s, n = %d: the first step took %.2f s", t->title, (int)n, take_step(b, 0, n));
    size_t steps = 0;
    double begun = papers_clock();
    for (uint64_t first = n; first + n <= b->rows && steps < STEPS_MOST && papers_clock() - begun < b->budget;
         first += n) {
        seconds[steps++] = take_step(b, first, n);
    }
    xsm_gradient_free(b->g);
    xsm_optimizer_free(b->o);
    xsm_estimator_free(b->e);
    xsm_model_free(model);
    return median(seconds, steps);
}

/* Of the weights that scores are made from, with the numbers of classes in each block, and of the centres. */
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

void ldgs_time(const papers *p, report *r, const ldgs_shape *s, uint32_t blocks, const char *options)
{
    const timing methods[METHODS] = {{"Margin", "margin", LOOKS_ALL, 0, true},
                                     {"MIPS", "mips", LOOKS_SEARCH, 1, true},
                                     {"Decomp-MIPS", "decomp-mips", LOOKS_SEARCH, blocks, true},
                                     {"Softmax", "softmax", LOOKS_ALL, 0, false},
                                     {"Sampled-Softmax", "sampled-softmax", LOOKS_DRAWS, 0, false},
                                     {"Sampled-Softmax, shared", "sampled-softmax", LOOKS_DRAWS_ONCE, 0, false}};
    bench b = {.p = p,
               .shape = s,
               .rows = p->quick ? 200 : 20000,
               .candidates = s->classes / 100,
               .clusters = p->quick ? 20 : CLUSTERS,
               .budget = p->quick ? 0.05 : 3};
    b.data = ldgs_rows(p, s, 0, b.rows, 11);
    double before = stream_rate(p, s), probes = probe_rate(p, s, blocks, b.clusters, b.candidates);
    report_note(
        r,
        "A step, K = %u, D = %u, Q = K/100 = %u, B = %u, %u clusters an index, %u threads; memory streams at "
        "%.1f GB/s, clusters here and there at %.1f. Read for scores are all weights; or the rows that are probed, "
        "with their classes, and the centres; or Q rows drawn for each example, or shared by the batch.",
        s->classes, s->features, b.candidates, blocks, b.clusters, xsm_context_threads(p->context), before / 1e9,
        probes / 1e9);
    for (uint64_t n = 1; n <= 10; n += 9) {
        double margin = PAPERS_NONE;
        for (size_t i = 0; i < METHODS; i++) {
            const timing *t = &methods[i];
            double seconds = time_steps(&b, t, n, options);
            /* Other programs on the machine come and go: rates before and after. */
            double after = stream_rate(p, s), rate = (before + after) / 2;
            before = after;
            margin = i == 0 ? seconds : margin;
            double bytes = bytes_read(&b, t, n);
            char row[80];
            snprintf(row, sizeof row, "%s, n = %d", t->title, (int)n);
            papers_say("  %s: %.3f ms, %.1f times as fast, %.0f %% of the streaming rate of %.1f GB/s", row,
                       1e3 * seconds, margin / seconds, 100 * bytes / seconds / rate, rate / 1e9);
            report_cell(r, row, "ms a step", PAPERS_NONE, 1e3 * seconds);
            report_cell(r, row, "times as fast as Margin", PAPERS_NONE, margin / seconds);
            report_cell(r, row, "MB read", PAPERS_NONE, bytes / 1e6);
            report_cell(r, row, "% of the streaming rate", PAPERS_NONE, 100 * bytes / seconds / rate);
        }
    }
    xsm_dataset_free(b.data);
}
