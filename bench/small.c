/*
 * Prediction by float32, bfloat16 and int8 weights, in turn: one dense row a call, and up to 256. Of each type the
 * median of the calls' times, how many times as fast as float32, and the part of what the memory can stream: the time
 * to read as many bytes one after another, in huge pages, measured beside each call.
 *
 *     bench_small [--classes K] [--features D] [--calls N] [--rows N] [--probabilities] [--mapped]
 *
 *     bench_small [--calls N] --data FILE --models MODEL...
 *
 * times instead single rows of FILE, all of them in N rounds, by each model, the first of which is that of float32.
 *
 * With --rows only so many rows a call are timed. With --probabilities calls return probabilities as well, which need
 * the sum over all classes.
 *
 * Ratios are medians of those within a round, in which every type has a turn. One thread. With --mapped the models are
 * mapped from files in /tmp; a mapped file is in pages of 4 KiB.
 */
#include "calls.h"
#include "ceilings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xsoftmax/stored_weights.h>

enum { TYPES = 3, TOP = 5, ROWS = 1024, BATCH = 256, MOST_CALLS = 1000, MOST_MODELS = 8 };

static const int32_t types[TYPES] = {XSM_DTYPE_FLOAT32, XSM_DTYPE_BFLOAT16, XSM_DTYPE_INT8};
static const char *const names[TYPES] = {"float32", "bfloat16", "int8"};
static const size_t bytes[TYPES] = {4, 2, 1};

typedef struct contest {
    xsm_context *context;
    xsm_model *model[TYPES];
    xsm_predictor *predictor[TYPES];
    xsm_dataset *rows;
    ceilings reading[TYPES];
    double seconds[TYPES][MOST_CALLS], least[TYPES][MOST_CALLS]; /* of calls, and of reading */
    uint32_t found[TYPES][BATCH * TOP];
    double probability[BATCH * TOP];
    bool probabilities;
} contest;

static xsm_model *random_model(xsm_context *ctx, uint32_t classes, uint32_t features)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_model *m = NULL;
    bench_random random = {5};
    bench_check(xsm_model_new_linear(ctx, features, classes, NULL, &m, &err), &err);
    bench_check(xsm_model_get_parameters(m, &p, &err), &err);
    for (size_t k = 0; k < p.classes; k++) {
        for (size_t j = 0; j < p.features; j++) {
            p.weight[k * p.class_step + j * p.feature_step] = bench_uniform(&random);
        }
    }
    return m;
}

/* The model saved, mapped, and its name removed. */
static xsm_model *mapped(xsm_context *ctx, xsm_model *m)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *loaded = NULL;
    char path[64];
    snprintf(path, sizeof path, "/tmp/bench_small.%ld", (long)getpid());
    bench_check(xsm_model_save(m, path, NULL, &err), &err);
    bench_check(xsm_model_load(ctx, path, NULL, NULL, &loaded, &err), &err);
    unlink(path);
    xsm_model_free(m);
    return loaded;
}

static double predict(contest *c, int type, uint64_t first, uint64_t count)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = xsm_batch_range(c->rows, first, count);
    xsm_prediction prediction = XSM_PREDICTION_INIT;
    prediction.batch = &batch;
    prediction.classes = c->found[type];
    prediction.probabilities = c->probabilities ? c->probability : NULL;
    const double start = peak_clock();
    bench_check(xsm_predictor_run(c->predictor[type], &prediction, &err), &err);
    return peak_clock() - start;
}

/* The median of a[i]/b[i]; b NULL: of a. */
static double median(const double *a, const double *b, size_t n)
{
    double sorted[MOST_CALLS];
    for (size_t i = 0; i < n; i++) {
        sorted[i] = b ? a[i] / b[i] : a[i];
    }
    qsort(sorted, n, sizeof *sorted, compare);
    return sorted[n / 2];
}

static void measure(contest *c, uint32_t together, uint32_t calls, bool read)
{
    size_t agree[TYPES] = {0};
    for (uint32_t i = 0; i < calls + 1; i++) { /* the first round does not count */
        const uint64_t first = (uint64_t)i * 37 % (ROWS - together);
        for (int t = 0; t < TYPES; t++) {
            const size_t size = c->reading[t].row_count * c->reading[t].features * sizeof(float);
            const size_t at = i ? i - 1 : 0;
            c->seconds[t][at] = predict(c, t, first, together);
            c->least[t][at] = read ? (double)size / ceiling_read(&c->reading[t]) : 0;
            for (uint32_t r = 0; i > 0 && r < together; r++) {
                agree[t] += c->found[t][r * TOP] == c->found[0][r * TOP];
            }
        }
    }
    for (int t = 0; t < TYPES; t++) {
        printf("%-10s %5u %12.3f %10.2f", names[t], together, 1e3 * median(c->seconds[t], NULL, calls),
               median(c->seconds[0], c->seconds[t], calls));
        if (read) {
            printf(" %12.3f %10.2f", 1e3 * median(c->least[t], NULL, calls), median(c->least[t], c->seconds[t], calls));
        } else {
            printf(" %12s %10s", "", "");
        }
        printf(" %10.4f\n", (double)agree[t] / calls / together);
    }
}

/* Microseconds a row of each model, and how many times as fast as the first: medians over the rounds. */
static int measure_models(const char *data, char **paths, int count, uint32_t rounds)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context *ctx = bench_context(1);
    xsm_dataset *rows = NULL;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    static xsm_model *model[MOST_MODELS];
    static xsm_predictor *predictor[MOST_MODELS];
    static double seconds[MOST_MODELS][MOST_CALLS];
    bench_check(xsm_dataset_read(ctx, data, NULL, NULL, &rows, &err), &err);
    bench_check(xsm_dataset_get_info(rows, &info, &err), &err);
    for (int m = 0; m < count; m++) {
        bench_check(xsm_model_load(ctx, paths[m], NULL, NULL, &model[m], &err), &err);
        bench_check(xsm_predictor_new(model[m], NULL, &predictor[m], &err), &err);
    }
    for (uint32_t r = 0; r < rounds + 1; r++) { /* the first round does not count */
        for (int m = 0; m < count; m++) {
            const double start = peak_clock();
            for (uint64_t i = 0; i < info.rows; i++) {
                uint32_t classes[TOP];
                xsm_batch batch = xsm_batch_range(rows, i, 1);
                xsm_prediction prediction = XSM_PREDICTION_INIT;
                prediction.batch = &batch;
                prediction.classes = classes;
                bench_check(xsm_predictor_run(predictor[m], &prediction, &err), &err);
            }
            seconds[m][r ? r - 1 : 0] = peak_clock() - start;
        }
    }
    for (int m = 0; m < count; m++) {
        printf("%-40s %10.2f us a row %10.2f x the first\n", paths[m],
               1e6 * median(seconds[m], NULL, rounds) / (double)info.rows, median(seconds[0], seconds[m], rounds));
        xsm_predictor_free(predictor[m]);
        xsm_model_free(model[m]);
    }
    xsm_dataset_free(rows);
    xsm_context_free(ctx);
    return 0;
}

int main(int argc, char **argv)
{
    const char *data = NULL;
    static contest c;
    uint32_t classes = 217240, features = 512, calls = 60, rows = 0;
    bool map = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--classes") == 0) {
            classes = number(argv[i + 1], argv[i], 10000000);
            i++;
        } else if (strcmp(argv[i], "--features") == 0) {
            features = number(argv[i + 1], argv[i], 65536);
            i++;
        } else if (strcmp(argv[i], "--calls") == 0) {
            calls = number(argv[i + 1], argv[i], MOST_CALLS);
            i++;
        } else if (strcmp(argv[i], "--rows") == 0) {
            rows = number(argv[i + 1], argv[i], BATCH);
            i++;
        } else if (strcmp(argv[i], "--probabilities") == 0) {
            c.probabilities = true;
        } else if (strcmp(argv[i], "--mapped") == 0) {
            map = true;
        } else if (strcmp(argv[i], "--data") == 0 && i + 1 < argc) {
            data = argv[++i];
        } else if (strcmp(argv[i], "--models") == 0 && data && argc - i - 1 >= 1 && argc - i - 1 <= MOST_MODELS) {
            return measure_models(data, argv + i + 1, argc - i - 1, calls);
        } else {
            fprintf(stderr,
                    "bench_small: there are --classes K, --features D, --calls N, --rows N, --probabilities and "
                    "--mapped; or --calls N, --data FILE and --models with at most 8 models\n");
            return 2;
        }
    }
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = TOP;
    c.context = bench_context(1);
    c.rows = bench_dense(c.context, ROWS, features, 2);
    c.model[0] = random_model(c.context, classes, features);
    for (int t = 0; t < TYPES; t++) {
        xsm_convert_options convert = XSM_CONVERT_OPTIONS_INIT;
        convert.dtype = types[t];
        if (t > 0) {
            bench_check(xsm_model_convert(c.model[0], &convert, &c.model[t], &err), &err);
        }
    }
    for (int t = 0; t < TYPES; t++) {
        c.model[t] = map ? mapped(c.context, c.model[t]) : c.model[t];
        bench_check(xsm_predictor_new(c.model[t], &options, &c.predictor[t], &err), &err);
        c.reading[t] = ceilings_new(1, NULL, (size_t)classes * bytes[t] / sizeof(float), features);
    }
    printf("K = %u, D = %u, top %d, one thread (%s), weights %s\n", classes, features, TOP,
           bench_instruction_set(c.context), map ? "mapped" : "in memory");
    printf("%-10s %5s %12s %10s %12s %10s %10s\n", "weights", "rows", "ms a call", "x float32", "read, ms", "of stream",
           "same best");
    for (uint32_t together = rows ? rows : 1; together <= (rows ? rows : BATCH); together *= together < 4 ? 4 : 2) {
        const uint32_t some = together == 1 ? calls : (calls * 2 + together - 1) / together + 4;
        measure(&c, together, some, together <= 4);
    }
    for (int t = 0; t < TYPES; t++) {
        ceilings_free(&c.reading[t]);
        xsm_predictor_free(c.predictor[t]);
        xsm_model_free(c.model[t]);
    }
    xsm_dataset_free(c.rows);
    xsm_context_free(c.context);
    return 0;
}
