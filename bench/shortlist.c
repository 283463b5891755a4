/*
 * Searches for the best classes of a trained model, at several widths: a label tree as shortlist beside spherical
 * clusters and beside scoring every class. For each, how much is scored, how many of the model's best classes are
 * found, the precision of what is found, and the time of a query on one thread.
 *
 *     bench_shortlist MODEL TREE DATA     see doc/measurements/search_indexes.md
 *
 * MODEL and TREE were trained on rows with the same labels and the same transform; DATA are test rows, of which the
 * first labels are kept. Times are those of the fastest of five passes over 1,000 rows, 64 together.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <xsoftmax.h>
#include <xsoftmax/search.h>

enum { TOP = 10, TIMED = 1000, TOGETHER = 64, PASSES = 5 };

static xsm_error err = XSM_ERROR_INIT;

static void check(xsm_status status)
{
    if (status != XSM_OK) {
        fprintf(stderr, "bench_shortlist: %s\n", err.message);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_a_row(const xsm_model *m, const xsm_dataset *rows, uint64_t count,
                            const xsm_predictor_options *options)
{
    static uint32_t classes[TOGETHER * TOP];
    xsm_predictor *p = NULL;
    double best = 0;
    check(xsm_predictor_new(m, options, &p, &err));
    for (int pass = 0; pass < PASSES; pass++) {
        const double since = now();
        for (uint64_t i = 0; i < count; i += TOGETHER) {
            const xsm_batch batch = xsm_batch_range(rows, i, count - i < TOGETHER ? count - i : TOGETHER);
            xsm_prediction prediction = XSM_PREDICTION_INIT;
            prediction.batch = &batch;
            prediction.classes = classes;
            check(xsm_predictor_run(p, &prediction, &err));
        }
        const double spent = now() - since;
        best = pass == 0 || spent < best ? spent : best;
    }
    xsm_predictor_free(p);
    return best / (double)count;
}

static void print_search(const char *name, const xsm_model *m, const xsm_dataset *rows, uint64_t count,
                         xsm_predictor_options options)
{
    double recall[TOP], precision[TOP];
    xsm_search_metrics found = XSM_SEARCH_METRICS_INIT;
    options.top = found.top = TOP;
    found.recall = recall;
    found.precision = precision;
    check(xsm_evaluate_search(NULL, m, rows, &options, &found, &err));
    printf("| %s | %.0f | %.3f | %.3f | %.4f | %.4f | %.1f |\n", name, found.probed, recall[0], recall[TOP - 1],
           precision[0], precision[4], 1e6 * seconds_a_row(m, rows, count, &options));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    xsm_model *m = NULL, *tree = NULL;
    xsm_dataset *rows = NULL;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_read_options read = XSM_READ_OPTIONS_INIT;
    if (argc != 4) {
        fprintf(stderr, "usage: bench_shortlist MODEL TREE DATA\n");
        return 2;
    }
    check(xsm_model_load(NULL, argv[1], NULL, NULL, &m, &err));
    check(xsm_model_load(NULL, argv[2], NULL, NULL, &tree, &err));
    check(xsm_model_get_class_map(m, &map, &err));
    read.classes = &map;
    read.labels = XSM_KEEP_LABELS_FIRST;
    check(xsm_dataset_read(NULL, argv[3], NULL, &read, &rows, &err));
    check(xsm_model_transform(m, rows, &err));
    check(xsm_dataset_get_info(rows, &info, &err));
    const uint64_t count = info.rows < TIMED ? info.rows : TIMED;
    printf(
        "| search | classes scored | recall@1 | recall@10 | P@1 | P@5 | us a query |\n|---|---|---|---|---|---|---|\n");
    print_search("all", m, rows, count, (xsm_predictor_options)XSM_PREDICTOR_OPTIONS_INIT);
    static const double parts[] = {80, 40, 20};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
        xsm_index *index = NULL;
        char name[64];
        check(xsm_index_new(NULL, "spherical", &index, &err));
        check(xsm_index_set_number(index, "probe", (double)(uint64_t)(map.classes / parts[i]), &err));
        check(xsm_index_build_model(index, m, &err));
        options.index = index;
        snprintf(name, sizeof name, "spherical, K/%.0f", parts[i]);
        print_search(name, m, rows, count, options);
        xsm_index_free(index);
    }
    static const uint32_t widths[][2] = {{10, 50}, {10, 200}, {10, 1000}, {30, 1000}, {30, 3000}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
        char name[64];
        options.shortlist = tree;
        options.beam = widths[i][0];
        options.candidates = widths[i][1];
        snprintf(name, sizeof name, "tree, beam %u, %u", widths[i][0], widths[i][1]);
        print_search(name, m, rows, count, options);
    }
    xsm_dataset_free(rows);
    xsm_model_free(tree);
    xsm_model_free(m);
    return 0;
}
