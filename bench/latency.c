/*
 * The time of one prediction: each thread has a predictor over one model that is mapped from a file, and calls it with
 * one row at a time, as a server does; for comparison also with 32 rows per call. Prints percentiles of the calls'
 * wall-clock times beside a lower bound, the time to read the model's weights once, measured in turn. Exact prediction,
 * and prediction with a spherical index.
 *
 *     bench_latency [--classes K] [--features D] [--calls N] [--threads LIST]
 *
 *     bench_latency --lines FILE [--calls N]
 *
 * times instead the encoding of N lines of FILE, chosen at random, one word after another with spaces between: with
 * words alone, with n-grams of two words, and with n-grams of three to six characters as well.
 *
 * The clock is read before and after each call, which takes about 50 ns. All threads start at once, and each makes its
 * first calls untimed.
 *
 * Then requests of text, words drawn by Zipf's law with n-grams of two words, tf-idf and unit rows: a row read as a
 * dataset, by an encoder, and from its bytes to the best classes in one call. And sparse rows as "f:v f:v".
 */
#include "calls.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xsoftmax/encoder.h>

enum { TOP = 5, ROWS = 1024, WARM = 20, NONZEROS = 40, THREADS_MOST = 64, TOGETHER_MOST = 32 };

/* -- model and rows ----------------------------------------------------------------------------------------------- */

/* Saves a model of random weights around sqrt(K) directions and maps it. */
static xsm_model *make_model(uint32_t classes, uint32_t features, const char *path)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_model_options options = XSM_MODEL_OPTIONS_INIT;
    xsm_parameters p = XSM_PARAMETERS_INIT;
    xsm_model *model = NULL, *mapped = NULL;
    uint64_t state = 5;
    uint32_t directions = (uint32_t)sqrt(classes);
    float *centres = memory((size_t)directions * features, sizeof *centres);
    options.bias = 1;
    for (size_t i = 0; i < (size_t)directions * features; i++) {
        centres[i] = (float)(uniform(&state) - 0.5);
    }
    check(xsm_model_new_linear(NULL, features, classes, &options, &model, &err), &err);
    check(xsm_model_get_parameters(model, &p, &err), &err);
    for (uint32_t k = 0; k < classes; k++) {
        const float *centre = centres + (size_t)(uniform(&state) * directions) * features;
        for (uint32_t j = 0; j < features; j++) {
            p.weight[k * p.class_step + j] = centre[j] + (float)(0.5 * (uniform(&state) - 0.5));
        }
    }
    check(xsm_model_save(model, path, NULL, &err), &err);
    xsm_model_free(model);
    check(xsm_model_load(NULL, path, NULL, NULL, &mapped, &err), &err);
    free(centres);
    return mapped;
}

static xsm_dataset *make_rows(uint32_t features, int sparse)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset *rows = NULL;
    uint64_t state = 9;
    if (!sparse) {
        float *values = memory((size_t)ROWS * features, sizeof *values);
        for (size_t i = 0; i < (size_t)ROWS * features; i++) {
            values[i] = (float)(uniform(&state) - 0.5);
        }
        check(
            xsm_dataset_from_dense(
                NULL,
                &(xsm_dense_rows){.size = sizeof(xsm_dense_rows), .values = values, .rows = ROWS, .features = features},
                &rows, &err),
            &err);
        free(values);
        return rows;
    }
    uint32_t each = features < NONZEROS ? features : NONZEROS;
    uint64_t *offsets = memory(ROWS + 1, sizeof *offsets);
    uint32_t *index = memory((size_t)ROWS * each, sizeof *index);
    float *values = memory((size_t)ROWS * each, sizeof *values);
    for (uint32_t i = 0; i < ROWS; i++) {
        offsets[i + 1] = offsets[i] + each;
        for (uint32_t j = 0; j < each; j++) { /* one in each part of the features, so that they are rising */
            index[i * each + j] = (uint32_t)((uint64_t)j * features / each + uniform(&state) * (features / each));
            values[i * each + j] = (float)(uniform(&state) - 0.5);
        }
    }
    check(xsm_dataset_from_csr(NULL,
                               &(xsm_csr_rows){.size = sizeof(xsm_csr_rows),
                                               .offsets = offsets,
                                               .index = index,
                                               .values = values,
                                               .rows = ROWS,
                                               .features = features},
                               &rows, &err),
          &err);
    free(offsets);
    free(index);
    free(values);
    return rows;
}

/* -- calls -------------------------------------------------------------------------------------------------------- */

typedef struct server {
    const xsm_model *model;
    const xsm_index *index;
    const xsm_dataset *rows;
    pthread_barrier_t *start;
    double *times;                  /* [calls] */
    uint32_t calls, seed, together; /* rows per call */
} server;

static void *serve(void *state)
{
    server *s = state;
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    xsm_predictor *predictor = NULL;
    uint32_t classes[TOP * TOGETHER_MOST];
    double probabilities[TOP * TOGETHER_MOST];
    uint64_t random = s->seed;
    options.top = TOP;
    options.index = s->index;
    check(xsm_predictor_new(s->model, &options, &predictor, &err), &err);
    pthread_barrier_wait(s->start);
    for (uint32_t i = 0; i < WARM + s->calls; i++) {
        xsm_batch batch = xsm_batch_range(s->rows, (uint64_t)(uniform(&random) * (ROWS - TOGETHER_MOST)), s->together);
        double begin = now();
        check(xsm_predictor_run(predictor,
                                &(xsm_prediction){.size = sizeof(xsm_prediction),
                                                  .batch = &batch,
                                                  .classes = classes,
                                                  .probabilities = s->index ? NULL : probabilities},
                                &err),
              &err);
        if (i >= WARM) {
            s->times[i - WARM] = now() - begin;
        }
    }
    xsm_predictor_free(predictor);
    return NULL;
}

/* Seconds to read the weights once on one thread, the least of several runs. */
static double read_once(const float *weights, size_t count)
{
    double least = INFINITY;
    for (int run = 0; run < 5; run++) {
        float sums[64] = {0};
        double begin = now();
        for (size_t i = 0; i + 64 <= count; i += 64) {
            for (size_t j = 0; j < 64; j++) {
                sums[j] += weights[i + j];
            }
        }
        float sum = 0;
        for (size_t j = 0; j < 64; j++) {
            sum += sums[j];
        }
        volatile float kept = sum; /* so that the compiler does not remove the loop above */
        (void)kept;
        double time = now() - begin;
        least = time < least ? time : least;
    }
    return least;
}

/* A line of the table; sorts the times. */
static void print_times(const char *what, uint32_t threads, double *times, size_t calls, double least)
{
    double sum = 0;
    for (size_t i = 0; i < calls; i++) {
        sum += times[i];
    }
    qsort(times, calls, sizeof *times, compare);
    printf("%-18s %7u %10.1f %10.1f %10.1f %10.1f %12.0f", what, threads, 1e6 * times[calls / 2],
           1e6 * times[calls - calls / 10 - 1], 1e6 * times[calls - calls / 100 - 1], 1e6 * times[calls - 1],
           (double)threads * (double)calls / sum);
    if (least > 0) {
        printf(" %10.1f %6.2f", 1e6 * least, times[calls / 2] / least);
    }
    putchar('\n');
    fflush(stdout);
}

static void measure(const char *what, server base, uint32_t threads, double least)
{
    pthread_t thread[THREADS_MOST];
    server servers[THREADS_MOST];
    pthread_barrier_t start;
    size_t calls = (size_t)threads * base.calls;
    double *times = memory(calls, sizeof *times);
    pthread_barrier_init(&start, NULL, threads);
    for (uint32_t t = 0; t < threads; t++) {
        servers[t] = base;
        servers[t].start = &start;
        servers[t].seed = t + 1;
        servers[t].times = times + (size_t)t * base.calls;
        if (pthread_create(&thread[t], NULL, serve, &servers[t]) != 0) {
            fprintf(stderr, "bench_latency: cannot start a thread\n");
            exit(1);
        }
    }
    for (uint32_t t = 0; t < threads; t++) {
        pthread_join(thread[t], NULL);
    }
    print_times(what, threads, times, calls, least);
    pthread_barrier_destroy(&start);
    free(times);
}

/* -- requests ------------------------------------------------------------------------------------------------------ */

enum { LINES = 4096, LINE_WORDS = 20, LINE_MOST = 1024, WORDS = 50000, TEXT_CLASSES = 64 };

/* A word of the line by Zipf's law: the k-th has a probability of about 1 / (k log WORDS). */
static uint32_t draw_word(uint64_t *random)
{
    return (uint32_t)exp(uniform(random) * log(WORDS));
}

typedef struct line_list {
    char *text; /* each line ends with 0 */
    char **line;
    size_t count, bytes; /* of the text */
} line_list;

static void free_lines(line_list *l)
{
    free(l->text);
    free(l->line);
}

static line_list make_lines(int words)
{
    line_list list = {memory(LINES, LINE_MOST), memory(LINES, sizeof(char *)), LINES, (size_t)LINES * LINE_MOST};
    uint64_t random = 3;
    for (size_t i = 0; i < LINES; i++) {
        char *at = list.line[i] = list.text + i * LINE_MOST;
        at += sprintf(at, words ? "__label__%zu" : "%zu", i % TEXT_CLASSES);
        for (uint32_t j = 0; j < (words ? LINE_WORDS : NONZEROS); j++) {
            if (words) { /* of some letters, of which frequent words have fewer */
                uint32_t word = draw_word(&random);
                *at++ = ' ';
                for (word += 10; word > 0; word /= 10) {
                    *at++ = (char)('a' + (word * 7 + 3) % 26);
                }
                *at = '\0';
            } else {
                at += sprintf(at, " %u:%.4f", j * 1000 + (uint32_t)(uniform(&random) * 1000), uniform(&random));
            }
        }
    }
    return list;
}

/* The lines of a file, each with a label before it. */
static line_list read_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    line_list list = {NULL, NULL, 0, 0};
    char *line = NULL;
    size_t space = 0, size = 0, most = 0;
    if (!file) {
        fprintf(stderr, "bench_latency: '%s' cannot be read\n", path);
        exit(1);
    }
    for (int pass = 0; pass < 2; pass++) {
        char *at = list.text;
        for (most = list.count, list.count = 0; (pass == 0 || list.count < most) && getline(&line, &space, file) > 0;) {
            line[strcspn(line, "\n")] = 0;
            const size_t length = strlen(line) + sizeof "__label__00 ";
            size += pass == 0 ? length : 0;
            if (pass > 0) {
                list.line[list.count] = at;
                at += sprintf(at, "__label__%02zu %s", list.count % TEXT_CLASSES, line) + 1;
            }
            list.count++;
        }
        if (list.count == 0) {
            fprintf(stderr, "bench_latency: '%s' has no lines\n", path);
            exit(1);
        }
        if (pass == 0) {
            list.bytes = size;
            list.text = memory(size, 1);
            list.line = memory(list.count, sizeof *list.line);
            rewind(file);
        }
    }
    free(line);
    fclose(file);
    return list;
}

typedef struct bytes {
    const char *data;
    size_t left;
} bytes;

static int64_t read_bytes(void *user, void *buffer, size_t size)
{
    bytes *b = user;
    const size_t some = b->left < size ? b->left : size;
    memcpy(buffer, b->data, some);
    b->data += some;
    b->left -= some;
    return (int64_t)some;
}

/* A model of the lines, whose weights are zeros: what is measured does not depend on them. */
static xsm_model *make_text_model(const line_list *lines, int32_t format, const xsm_text_options *text)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset *rows = NULL;
    xsm_transform *transform = NULL;
    xsm_model *model = NULL;
    char *all = memory(lines->bytes + 1, 1), *at = all;
    for (size_t i = 0; i < lines->count; i++) {
        at += sprintf(at, "%s\n", lines->line[i]);
    }
    bytes b = {all, (size_t)(at - all)};
    options.format = format;
    options.text = format == XSM_FORMAT_TEXT ? text : NULL;
    check(xsm_dataset_read(NULL, NULL,
                           &(xsm_storage){.size = sizeof(xsm_storage),
                                          .name = "lines",
                                          .source = &(xsm_source){sizeof(xsm_source), &b, read_bytes}},
                           &options, &rows, &err),
          &err);
    check(xsm_dataset_get_class_map(rows, &map, &err), &err);
    check(xsm_model_new_linear(NULL, map.features, map.classes, NULL, &model, &err), &err);
    check(xsm_model_set_class_map(model, &map, &err), &err);
    check(xsm_transform_new(NULL, "tfidf,unit", &transform, &err), &err);
    check(xsm_transform_fit(transform, rows, &err), &err);
    check(xsm_model_set_transform(model, transform, &err), &err);
    xsm_transform_free(transform);
    xsm_dataset_free(rows);
    free(all);
    return model;
}

typedef struct request_tools {
    xsm_encoder *encoder;
    xsm_predictor *predictor;
    const xsm_model *model;
    xsm_read_options options;
} request_tools;

/* A row from its bytes: 0 as a dataset, 1 by the encoder, 2 by the encoder with its best classes. */
static void request(int way, const request_tools *t, const char *line)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_batch batch = XSM_BATCH_INIT;
    uint32_t classes[TOP];
    if (way == 0) {
        xsm_dataset *row = NULL;
        bytes b = {line, strlen(line)};
        check(xsm_dataset_read(NULL, NULL,
                               &(xsm_storage){.size = sizeof(xsm_storage),
                                              .name = "a line",
                                              .source = &(xsm_source){sizeof(xsm_source), &b, read_bytes}},
                               &t->options, &row, &err),
              &err);
        check(xsm_model_transform(t->model, row, &err), &err);
        xsm_dataset_free(row);
    } else if (way == 1) {
        check(xsm_encoder_encode(t->encoder, line, strlen(line), &batch, &err), &err);
    } else {
        check(xsm_encoder_predict(t->encoder, line, strlen(line), t->predictor,
                                  &(xsm_prediction){.size = sizeof(xsm_prediction), .classes = classes}, &err),
              &err);
    }
}

/* Times the first `ways` of request(), which have these names. */
static void measure_requests(const line_list *lines, const xsm_text_options *text, const char *const *names, int ways,
                             uint32_t calls)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_encoder_options form = XSM_ENCODER_OPTIONS_INIT;
    request_tools t = {.options = XSM_READ_OPTIONS_INIT};
    double *times = memory(calls, sizeof *times);
    form.format = t.options.format = text ? XSM_FORMAT_TEXT : XSM_FORMAT_XC;
    xsm_model *model = make_text_model(lines, form.format, text);
    t.model = model;
    check(xsm_model_get_class_map(model, &map, &err), &err);
    t.options.classes = &map;
    check(xsm_encoder_new(model, &form, &t.encoder, &err), &err);
    check(xsm_predictor_new(model, NULL, &t.predictor, &err), &err);
    for (int way = 0; way < ways; way++) {
        uint64_t random = 11;
        double sum = 0;
        if (!names[way]) {
            continue;
        }
        for (uint32_t i = 0; i < WARM + calls; i++) {
            const char *line = lines->line[(size_t)(uniform(&random) * (double)lines->count)];
            const double begin = now();
            request(way, &t, line);
            if (i >= WARM) {
                times[i - WARM] = now() - begin;
                sum += times[i - WARM];
            }
        }
        print_times(names[way], 1, times, calls, 0);
        if (ways == 2) {
            printf("%-18s %7s %10.2f\n", "  mean", "", 1e6 * sum / calls);
        }
    }
    xsm_predictor_free(t.predictor);
    xsm_encoder_free(t.encoder);
    xsm_model_free(model);
    free(times);
}

/* The encoding of a file's lines. */
static void measure_file(const char *path, uint32_t calls)
{
    static const char *const names[3][2] = {{NULL, "words"}, {NULL, "2-grams of words"}, {NULL, "and of 3 to 6"}};
    line_list lines = read_lines(path);
    for (int n = 0; n < 3; n++) {
        xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
        text.word_ngrams = n > 0 ? 2 : 1;
        text.min_chars = n > 1 ? 3 : 0;
        text.max_chars = n > 1 ? 6 : 0;
        measure_requests(&lines, &text, names[n], 2, calls);
    }
    free_lines(&lines);
}

static void measure_lines(int words, uint32_t calls)
{
    static const char *const names[2][3] = {{"f:v as dataset", "f:v encoded", "f:v to top 5"},
                                            {"text as dataset", "text encoded", "text to top 5"}};
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    text.word_ngrams = 2;
    line_list lines = make_lines(words);
    measure_requests(&lines, words ? &text : NULL, names[words], 3, calls);
    free_lines(&lines);
}

int main(int argc, char **argv)
{
    const char *lines = NULL;
    uint32_t classes = 100000, features = 128, calls = 400, threads[2] = {1, 2};
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--classes") == 0) {
            classes = number(argv[i + 1], argv[i], 10000000);
        } else if (strcmp(argv[i], "--features") == 0) {
            features = number(argv[i + 1], argv[i], 100000);
        } else if (strcmp(argv[i], "--calls") == 0) {
            calls = number(argv[i + 1], argv[i], 10000000);
        } else if (strcmp(argv[i], "--lines") == 0 && i + 1 < argc) {
            lines = argv[i + 1];
        } else if (strcmp(argv[i], "--threads") == 0) {
            threads[0] = threads[1] = number(argv[i + 1], argv[i], THREADS_MOST);
        } else {
            fprintf(stderr, "bench_latency: there are --classes K, --features D, --calls N and --threads T; or --lines "
                            "FILE and --calls N\n");
            return 2;
        }
    }
    if (lines) {
        printf("%-18s %7s %10s %10s %10s %10s %12s\n", "encoding", "threads", "p50", "p90", "p99", "longest",
               "calls/s");
        measure_file(lines, calls * 10);
        return 0;
    }
    char path[] = "/tmp/bench_latency.XXXXXX";
    int file = mkstemp(path);
    if (file < 0) {
        fprintf(stderr, "bench_latency: no temporary file\n");
        return 1;
    }
    close(file);
    xsm_error err = XSM_ERROR_INIT;
    xsm_model *model = make_model(classes, features, path);
    xsm_dataset *rows[2] = {make_rows(features, 0), make_rows(features, 1)};
    xsm_index *index = NULL;
    check(xsm_index_new(NULL, "spherical", &index, &err), &err);
    check(xsm_index_build_model(index, model, &err), &err);
    /* Reading is measured on separate memory: the same number of floats, touched. */
    size_t count = (size_t)classes * features;
    float *weights = memory(count, sizeof *weights);
    for (size_t i = 0; i < count; i++) {
        weights[i] = 1;
    }
    printf("K = %u, D = %u (%.0f MB), %u nonzeros a sparse row; microseconds a call, of one row but where it says 32, "
           "top %d\n",
           classes, features, 4e-6 * (double)count, features < NONZEROS ? features : NONZEROS, TOP);
    printf("%-18s %7s %10s %10s %10s %10s %12s %10s %6s\n", "prediction", "threads", "p50", "p90", "p99", "longest",
           "calls/s", "read once", "ratio");
    for (int t = 0; t < 2 && (t == 0 || threads[1] != threads[0]); t++) {
        server base = {model, NULL, rows[0], NULL, NULL, calls, 0, 1};
        double least = read_once(weights, count);
        measure("dense, exact", base, threads[t], least);
        base.together = TOGETHER_MOST;
        measure("dense, 32 rows", base, threads[t], least);
        base.together = 1;
        base.rows = rows[1];
        measure("sparse, exact", base, threads[t], 0);
        base.rows = rows[0];
        base.index = index;
        base.calls = calls * 10;
        measure("dense, spherical", base, threads[t], 0);
        base.rows = rows[1];
        measure("sparse, spherical", base, threads[t], 0);
    }
    measure_lines(1, calls * 10);
    measure_lines(0, calls * 10);
    free(weights);
    xsm_index_free(index);
    xsm_dataset_free(rows[0]);
    xsm_dataset_free(rows[1]);
    xsm_model_free(model);
    unlink(path);
    return 0;
}
