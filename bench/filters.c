/*
 * What filters cost: the time of a prediction of one row, and its recall, with 0, 50, 90, 99 and 99.9 % of the classes
 * denied, scoring all classes and by a spherical index. The classes left are drawn at random, or are those around some
 * of the directions that the weights lie about, as all items of some topics are.
 *
 *     bench_filters [--classes K] [--features D] [--calls N]
 *     bench_filters [--calls N] --rows FILE --queries FILE --features D
 *
 * The second form takes weights and rows from files of float32, D a row.
 */
#include "calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xsoftmax/filter.h>

enum { TOP = 5, ROWS = 256, WARM = 10 };

/* -- model, rows, filters ------------------------------------------------------------------------------------------ */

/* Weights and rows about sqrt(K) directions. */
typedef struct problem {
    uint32_t classes, features, directions;
    uint32_t *direction; /* [classes] */
    xsm_model *model;
    float *rows; /* [ROWS][features] */
} problem;

/* The numbers of a file, `width` a row; *count rows. */
static float *read_rows(const char *path, uint32_t width, uint32_t *count)
{
    FILE *file = fopen(path, "rb");
    size_t room = (size_t)1 << 16, used = 0;
    float *numbers = memory(room, sizeof *numbers);
    for (size_t got; file && (got = fread(numbers + used, sizeof *numbers, room - used, file)) > 0;) {
        used += got;
        if (used == room) {
            room *= 2;
            numbers = realloc(numbers, room * sizeof *numbers);
            if (!numbers) {
                fprintf(stderr, "bench_filters: out of memory\n");
                exit(1);
            }
        }
    }
    if (!file || used < width) {
        fprintf(stderr, "bench_filters: %s is no file of float32\n", path);
        exit(1);
    }
    fclose(file);
    *count = (uint32_t)(used / width);
    return numbers;
}

/* Weights and rows from files; each class is a direction of its own. */
static problem read_problem(const char *rows, const char *queries, uint32_t features)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    uint32_t classes, count;
    float *weights = read_rows(rows, features, &classes);
    problem p = {classes, features, classes, memory(classes, sizeof *p.direction), NULL, NULL};
    p.rows = read_rows(queries, features, &count);
    if (count < ROWS) {
        fprintf(stderr, "bench_filters: %s has fewer than %d rows\n", queries, ROWS);
        exit(1);
    }
    check(xsm_model_new_linear(NULL, features, classes, NULL, &p.model, &err), &err);
    check(xsm_model_get_parameters(p.model, &w, &err), &err);
    for (uint32_t k = 0; k < classes; k++) {
        p.direction[k] = k;
        for (uint32_t j = 0; j < features; j++) {
            w.weight[k * w.class_step + j * w.feature_step] = weights[(size_t)k * features + j];
        }
    }
    free(weights);
    return p;
}

static problem make_problem(uint32_t classes, uint32_t features)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters w = XSM_PARAMETERS_INIT;
    problem p = {classes, features, (uint32_t)sqrt(classes), NULL, NULL, NULL};
    uint64_t random = 5;
    float *centres = memory((size_t)p.directions * features, sizeof *centres);
    p.direction = memory(classes, sizeof *p.direction);
    p.rows = memory((size_t)ROWS * features, sizeof *p.rows);
    for (size_t i = 0; i < (size_t)p.directions * features; i++) {
        centres[i] = (float)(uniform(&random) - 0.5);
    }
    check(xsm_model_new_linear(NULL, features, classes, NULL, &p.model, &err), &err);
    check(xsm_model_get_parameters(p.model, &w, &err), &err);
    for (uint32_t k = 0; k < classes; k++) {
        p.direction[k] = (uint32_t)(uniform(&random) * p.directions);
        const float *centre = centres + (size_t)p.direction[k] * features;
        for (uint32_t j = 0; j < features; j++) {
            w.weight[k * w.class_step + j * w.feature_step] = centre[j] + (float)(0.5 * (uniform(&random) - 0.5));
        }
    }
    for (size_t i = 0; i < ROWS; i++) {
        const float *centre = centres + (size_t)(uniform(&random) * p.directions) * features;
        for (uint32_t j = 0; j < features; j++) {
            p.rows[i * features + j] = centre[j] + (float)(uniform(&random) - 0.5);
        }
    }
    free(centres);
    return p;
}

/* A filter that leaves about a part of the classes; NULL for all. */
static xsm_filter *make_filter(const problem *p, double part, int topics)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_filter_classes c = XSM_FILTER_CLASSES_INIT;
    xsm_filter *filter = NULL;
    uint64_t random = 21;
    uint32_t *allow = memory(p->classes, sizeof *allow);
    if (part >= 1) {
        free(allow);
        return NULL;
    }
    for (uint32_t k = 0; k < p->classes; k++) {
        if (topics ? p->direction[k] < part * p->directions : uniform(&random) < part) {
            allow[c.allow_count++] = k;
        }
    }
    c.classes = p->classes;
    c.allow = allow;
    check(xsm_filter_new(NULL, &c, &filter, &err), &err);
    free(allow);
    return filter;
}

/* -- calls --------------------------------------------------------------------------------------------------------- */

typedef struct result {
    double microseconds; /* median a row */
    double scored;       /* rows that an index scored, mean */
    uint32_t *classes;   /* [ROWS][TOP] */
} result;

static result run(const problem *p, const xsm_index *index, const xsm_filter *filter, uint32_t calls, uint32_t together)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor_info info = XSM_PREDICTOR_INFO_INIT;
    xsm_predictor *predictor = NULL;
    result r = {0, 0, memory((size_t)ROWS * TOP, sizeof *r.classes)};
    double *times = memory(calls, sizeof *times);
    options.top = TOP;
    options.index = index;
    check(xsm_predictor_new(p->model, &options, &predictor, &err), &err);
    for (uint32_t i = 0; i < WARM + calls; i++) {
        const size_t row = (size_t)i * together % ROWS;
        const xsm_batch batch = xsm_batch_values(p->rows + row * p->features, together, p->features, p->features);
        xsm_prediction prediction = XSM_PREDICTION_INIT;
        prediction.batch = &batch;
        prediction.classes = r.classes + row * TOP;
        prediction.filter = filter;
        const double begin = now();
        check(xsm_predictor_run(predictor, &prediction, &err), &err);
        if (i >= WARM) {
            times[i - WARM] = (now() - begin) / together;
        }
    }
    check(xsm_predictor_get_info(predictor, &info, &err), &err);
    qsort(times, calls, sizeof *times, compare);
    r.microseconds = 1e6 * times[calls / 2];
    r.scored = (double)info.probed / ((double)(WARM + calls) * together);
    xsm_predictor_free(predictor);
    free(times);
    return r;
}

/* The share of the classes wanted that were found. */
static double recall_of(const result *found, const result *wanted)
{
    size_t hits = 0, count = 0;
    for (size_t i = 0; i < (size_t)ROWS * TOP; i++) {
        const size_t row = i / TOP * TOP;
        count += wanted->classes[i] != XSM_NO_CLASS;
        for (size_t j = row; wanted->classes[i] != XSM_NO_CLASS && j < row + TOP; j++) {
            hits += found->classes[j] == wanted->classes[i];
        }
    }
    return (double)hits / (double)count;
}

static void measure(const problem *p, const xsm_index *index, double part, int topics, uint32_t calls)
{
    xsm_filter *filter = make_filter(p, part, topics);
    result one = run(p, NULL, filter, calls < ROWS ? ROWS : calls, 1), many = run(p, NULL, filter, calls / 8 + 8, 32),
           found = run(p, index, filter, calls < ROWS ? ROWS : calls, 1);
    printf("%7.1f %-10s %9u %12.1f %12.1f %12.1f %10.0f %10.4f\n", 100 * (1 - part),
           part >= 1 ? "-"
           : topics  ? "topics"
                     : "at random",
           filter ? xsm_filter_left(filter) : p->classes, one.microseconds, many.microseconds, found.microseconds,
           found.scored, recall_of(&found, &one));
    fflush(stdout);
    free(one.classes);
    free(many.classes);
    free(found.classes);
    xsm_filter_free(filter);
}

int main(int argc, char **argv)
{
    static const double parts[] = {1, 0.5, 0.1, 0.01, 0.001};
    uint32_t classes = 100000, features = 128, calls = 400;
    const char *rows = NULL, *queries = NULL;
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--classes") == 0) {
            classes = number(argv[i + 1], argv[i], 10000000);
        } else if (strcmp(argv[i], "--features") == 0) {
            features = number(argv[i + 1], argv[i], 100000);
        } else if (strcmp(argv[i], "--calls") == 0) {
            calls = number(argv[i + 1], argv[i], 1000000);
        } else if (strcmp(argv[i], "--rows") == 0 && argv[i + 1]) {
            rows = argv[i + 1];
        } else if (strcmp(argv[i], "--queries") == 0 && argv[i + 1]) {
            queries = argv[i + 1];
        } else {
            fprintf(stderr,
                    "bench_filters: there are --classes K, --features D, --calls N, --rows and --queries FILE\n");
            return 2;
        }
    }
    xsm_error err = XSM_ERROR_INIT;
    if (!rows != !queries) {
        fprintf(stderr, "bench_filters: --rows and --queries go together\n");
        return 2;
    }
    problem p = rows ? read_problem(rows, queries, features) : make_problem(classes, features);
    xsm_index *index = NULL;
    check(xsm_index_new(NULL, "spherical", &index, &err), &err);
    check(xsm_index_build_model(index, p.model, &err), &err);
    printf("K = %u, D = %u, top %d; microseconds a row, median, one thread\n", p.classes, features, TOP);
    printf("%7s %-10s %9s %12s %12s %12s %10s %10s\n", "denied", "which", "left", "exact", "32 rows", "spherical",
           "scored", "recall@5");
    for (int topics = 0; topics < (rows ? 1 : 2); topics++) {
        for (size_t i = (size_t)topics; i < sizeof parts / sizeof *parts; i++) {
            measure(&p, index, parts[i], topics, calls);
        }
    }
    xsm_index_free(index);
    xsm_model_free(p.model);
    free(p.direction);
    free(p.rows);
    return 0;
}
