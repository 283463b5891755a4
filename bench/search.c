/*
 * The cost of a search as a function of K: for K = 10^3 to 10^6 rows of 64 numbers in sqrt(K) directions, prints the
 * microseconds per query of `exact` and of `spherical` with its defaults, on one thread in the same run, the rows that
 * a search scores, its recall at 10 and the times to build the index and to load it from memory. Both times are the
 * least processor times of several alternating runs.
 *
 *     bench_search [LARGEST-K]
 *
 * The second form prints the recall of a search that scores a twentieth of all rows, for vectors in files of raw
 * floats:
 *
 *     bench_search ROWS QUERIES WIDTH
 *
 * bench/search.sh runs both, the second also on weights that were trained on real sets.
 */
#include "index/index.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <xsoftmax.h>
#include <xsoftmax/search.h>
#include <xsoftmax/buffer.h>

enum { WIDTH = 64, QUERIES = 256, TOP = 10, RUNS = 5 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* processor time of one thread: other programs do not count */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static float normal(uint64_t *state)
{
    double u = uniform(state), v = uniform(state);
    return (float)(sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
}

/* Rows around random directions, of different lengths. */
static float *make_rows(uint32_t count, const float *centres, uint32_t directions, uint64_t *state)
{
    float *rows = malloc((size_t)count * WIDTH * sizeof *rows);
    for (uint32_t k = 0; rows && k < count; k++) {
        const float *centre = centres + (size_t)(uniform(state) * directions) * WIDTH;
        float size = (float)(0.5 + uniform(state));
        for (uint32_t j = 0; j < WIDTH; j++) {
            rows[(size_t)k * WIDTH + j] = size * (centre[j] + 0.7f * normal(state));
        }
    }
    return rows;
}

static int check(xsm_status status, const xsm_error *err)
{
    if (status != XSM_OK) {
        fprintf(stderr, "bench_search: %s\n", err->message);
        exit(1);
    }
    return 0;
}

/* The floats of a whole file; *count of them. */
static float *read_floats(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    long bytes = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    float *x = bytes > 0 ? malloc((size_t)bytes) : NULL;
    *count = bytes > 0 ? (size_t)bytes / sizeof *x : 0;
    if (!x || fseek(file, 0, SEEK_SET) != 0 || fread(x, sizeof *x, *count, file) != *count) {
        fprintf(stderr, "bench_search: %s cannot be read\n", path);
        exit(1);
    }
    (void)fclose(file);
    return x;
}

static int recall_of_files(xsm_context *context, const char *rows_path, const char *queries_path,
                           const char *width_text)
{
    static const uint32_t tops[] = {1, 10, 100};
    xsm_error err = XSM_ERROR_INIT;
    size_t row_floats, query_floats;
    float *rows = read_floats(rows_path, &row_floats), *queries = read_floats(queries_path, &query_floats);
    unsigned long width = strtoul(width_text, NULL, 10);
    if (width < 1 || width > row_floats / 100 || row_floats % width != 0 || query_floats % width != 0) {
        fprintf(stderr, "bench_search: files of rows of %s numbers, a hundred or more, are wanted\n", width_text);
        return 1;
    }
    const uint32_t k = (uint32_t)(row_floats / width), probe = k / 20;
    xsm_index *index = NULL;
    xsm_index_rows view = {sizeof view, rows, width, k, (uint32_t)width, NULL, 0, 0};
    check(xsm_index_new(context, "spherical", &index, &err), &err);
    char text[32];
    snprintf(text, sizeof text, "%u", probe);
    check(xsm_index_set(index, "probe", text, &err), &err);
    check(xsm_index_build(index, &view, &err), &err);
    printf("%u rows of %lu numbers, %zu queries, %u rows (K/20) probed; recall", k, width, query_floats / width, probe);
    for (size_t i = 0; i < sizeof tops / sizeof tops[0]; i++) {
        double recall;
        check(xsmi_index_recall(index,
                                &(xsm_index_search){.size = sizeof(xsm_index_search),
                                                    .queries = queries,
                                                    .stride = width,
                                                    .count = query_floats / width,
                                                    .top = tops[i]},
                                &recall, &err),
              &err);
        printf("%s@%u %.4f", i ? ", " : " ", tops[i], recall);
    }
    printf("\n");
    xsm_index_free(index);
    free(rows);
    free(queries);
    return 0;
}

/* Seconds of loading an index from memory that it was saved to. */
static double load_again(xsm_context *context, const xsm_index *index, const xsm_index_rows *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_buffer *buffer = NULL;
    xsm_storage storage = XSM_STORAGE_INIT;
    xsm_index *loaded = NULL;
    check(xsm_buffer_new(context, &buffer, &err), &err);
    check(xsm_buffer_get_storage(buffer, &storage, &err), &err);
    check(xsm_index_save(index, NULL, &storage, &err), &err);
    check(xsm_buffer_get_storage(buffer, &storage, &err), &err);
    const double start = now();
    check(xsm_index_load_rows(context, NULL, &storage, NULL, rows, &loaded, &err), &err);
    const double seconds = now() - start;
    xsm_index_free(loaded);
    xsm_buffer_free(buffer);
    return seconds;
}

static int cost_against_k(xsm_context *context, double largest)
{
    static uint32_t classes[QUERIES * TOP], lengths[QUERIES];
    static float scores[QUERIES * TOP];
    static const char *const names[2] = {"exact", "spherical"};
    xsm_error err = XSM_ERROR_INIT;
    printf("%10s %12s %12s %8s %12s %9s %10s %10s %14s\n", "K", "exact us", "spherical us", "ratio", "rows scored",
           "recall@10", "build s", "load s", "us / sqrt(K)");
    for (double size = 1000; size <= largest * 1.0001; size *= sqrt(10)) {
        uint32_t k = (uint32_t)lround(size), directions = (uint32_t)lround(sqrt(size));
        uint64_t state = k;
        float *centres = malloc((size_t)directions * WIDTH * sizeof *centres);
        for (size_t i = 0; centres && i < (size_t)directions * WIDTH; i++) {
            centres[i] = normal(&state);
        }
        float *rows = centres ? make_rows(k, centres, directions, &state) : NULL;
        float *queries = centres ? make_rows(QUERIES, centres, directions, &state) : NULL;
        if (!rows || !queries) {
            fprintf(stderr, "bench_search: out of memory\n");
            return 1;
        }
        xsm_index *index[2];
        xsm_index_rows view = {sizeof view, rows, WIDTH, k, WIDTH, NULL, 0, 0};
        double best[2] = {INFINITY, INFINITY}, built = 0, loaded = 0, recall = 0;
        xsm_index_search search = {sizeof search, queries, WIDTH, QUERIES, TOP, 0, 0, 0, classes, scores, lengths, 0};
        for (int i = 0; i < 2; i++) {
            double start = now();
            check(xsm_index_new(context, names[i], &index[i], &err), &err);
            check(xsm_index_build(index[i], &view, &err), &err);
            built = now() - start;
        }
        loaded = load_again(context, index[1], &view);
        for (int run = 0; run < RUNS; run++) {
            for (int i = 0; i < 2; i++) {
                double start = now();
                check(xsm_index_query(index[i], &search, &err), &err);
                double time = (now() - start) / QUERIES;
                best[i] = time < best[i] ? time : best[i];
            }
        }
        check(xsmi_index_recall(index[1],
                                &(xsm_index_search){.size = sizeof(xsm_index_search),
                                                    .queries = queries,
                                                    .stride = WIDTH,
                                                    .count = QUERIES,
                                                    .top = TOP},
                                &recall, &err),
              &err);
        printf("%10u %12.2f %12.2f %8.1f %12.0f %9.4f %10.3f %10.4f %14.4f\n", k, 1e6 * best[0], 1e6 * best[1],
               best[0] / best[1], (double)search.probed / QUERIES, recall, built, loaded, 1e6 * best[1] / sqrt(size));
        fflush(stdout);
        xsm_index_free(index[0]);
        xsm_index_free(index[1]);
        free(rows);
        free(queries);
        free(centres);
    }
    return 0;
}

int main(int argc, char **argv)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = 1;
    xsm_context *context = NULL;
    check(xsm_context_new(&options, &context, &err), &err);
    int code = argc > 3 ? recall_of_files(context, argv[1], argv[2], argv[3])
                        : cost_against_k(context, argc > 1 ? strtod(argv[1], NULL) : 1e6);
    xsm_context_free(context);
    return code;
}
