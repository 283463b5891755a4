/* xsoftmax evaluate: measures a saved model on rows with labels. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>

typedef struct evaluation {
    const char *model_path, *data;
    cli_data format;
    cli_index index;
    cli_shortlist shortlist;
    cli_classes classes;
    uint64_t threads, beam;
    int tree_alone, label_tree; /* label_tree: of the model, which is always searched */
    double propensity_a, propensity_b;
    int json, ranked;
    cli_list known_paths;

    xsm_context *context;
    xsm_model *model;
    xsm_dataset *rows;
    xsm_dataset **known; /* [known_paths.count] or NULL */
    xsm_ranks ranks;
    double hits[CLI_MEASURE_TOP];     /* of the ranks */
    double found[2][CLI_MEASURE_TOP]; /* recall and precision of a search */
    double prediction_seconds;        /* of a row; NAN where it was not measured */
} evaluation;

static xsm_dataset_info info_of(const evaluation *e)
{
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    (void)xsm_dataset_get_info(e->rows, &info, NULL);
    return info;
}

/* The rows to evaluate and those with other correct labels (--known); each flag must apply to some of them. */
static int read_rows(evaluation *e)
{
    const size_t count = e->known_paths.count;
    const xsm_dataset **all = calloc(count + 1, sizeof *all);
    e->known = calloc(count + 1, sizeof(xsm_dataset *));
    int code = all && e->known ? CLI_GO_ON : cli_fail("out of memory");
    code = code == CLI_GO_ON ? cli_read_for_model(e->context, e->data, &e->format, e->model, &e->rows) : code;
    code = code == CLI_GO_ON ? cli_need_labels(e->data, e->rows) : code;
    for (size_t i = 0; code == CLI_GO_ON && i < count; i++) {
        cli_data format = e->format;
        format.labels_from = format.weights = NULL; /* of the rows to evaluate */
        code = cli_read_for_model(e->context, e->known_paths.items[i], &format, e->model, &e->known[i]);
        all[i + 1] = e->known[i];
    }
    if (code == CLI_GO_ON) {
        all[0] = e->rows;
        code = cli_data_used(&e->format, all, count + 1);
    }
    free((void *)all);
    return code;
}

/* Computes the ranks of all labels, with --ranks. */
static int rank(evaluation *e)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_ranks_options options = XSM_RANKS_OPTIONS_INIT;
    cli_note("ranking ...");
    options.known = (const xsm_dataset *const *)e->known;
    options.known_count = e->known_paths.count;
    e->ranks.top = CLI_MEASURE_TOP;
    e->ranks.hits = e->hits;
    xsm_status status = xsm_evaluate_ranks(e->context, e->model, e->rows, &options, &e->ranks, &err);
    cli_note_clear();
    return status == XSM_OK ? CLI_GO_ON : cli_fail("%s: %s", e->data, err.message);
}

/* Whether a search is evaluated too. */
static int is_searching(const evaluation *e)
{
    return cli_index_wanted(&e->index) || e->shortlist.path || (e->beam > 0 && !e->label_tree) || e->tree_alone;
}

static void print_json(const evaluation *e, const xsm_metrics *metrics, const xsm_search_metrics *search,
                       double seconds)
{
    cli_json json = {stdout, 0};
    cli_json_open(&json, NULL);
    cli_json_text(&json, "estimator", xsm_model_get_metadata(e->model, "estimator"));
    cli_json_whole(&json, "examples", metrics->rows);
    cli_json_whole(&json, "features", xsm_model_feature_count(e->model));
    cli_json_whole(&json, "classes", xsm_model_class_count(e->model));
    cli_json_whole(&json, "unseen_test_labels", metrics->unseen_labels);
    cli_json_whole(&json, "known_rows", metrics->known_rows);
    cli_json_whole(&json, "unlabelled", metrics->unlabelled);
    cli_json_whole(&json, "features_left_out", info_of(e).dropped_features);
    cli_json_real(&json, "evaluate_seconds", seconds);
    cli_json_whole(&json, "peak_bytes", cli_peak_bytes());
    cli_json_real(&json, "weight_bytes", cli_model_bytes(e->model));
    cli_json_real(&json, "prediction_seconds", e->prediction_seconds);
    if (is_searching(e)) {
        cli_json_open(&json, cli_index_wanted(&e->index) ? "index"
                             : e->shortlist.path         ? "shortlist"
                             : e->tree_alone             ? "tree_alone"
                                                         : "beam");
        if (e->shortlist.path) {
            cli_json_text(&json, "file", e->shortlist.path);
        } else if (cli_index_wanted(&e->index)) {
            cli_json_text(&json, "name", e->index.name);
            cli_json_real(&json, e->index.path ? "load_seconds" : "build_seconds", e->index.seconds);
        } else {
            cli_json_whole(&json, "width", e->beam);
        }
        cli_json_real(&json, "classes_scored", search->probed);
        cli_json_ranks(&json, "recall", search->recall, search->top);
        cli_json_ranks(&json, "precision", search->precision, search->labelled ? search->top : 0);
        cli_json_close(&json);
    }
    if (e->label_tree) {
        cli_json_whole(&json, "label_tree_beam", metrics->beam);
    }
    cli_json_metrics(&json, "test", metrics, CLI_MEASURES);
    cli_classes_json(&json, &e->classes, e->model);
    if (e->ranked) {
        cli_json_open(&json, "ranks");
        cli_json_whole(&json, "labels", e->ranks.labels);
        cli_json_whole(&json, "unseen_labels", e->ranks.unseen_labels);
        cli_json_real(&json, "mrr", e->ranks.reciprocal_rank);
        cli_json_real(&json, "mean_rank", e->ranks.mean_rank);
        cli_json_open(&json, "hits");
        cli_json_real(&json, "1", e->hits[0]);
        cli_json_real(&json, "3", e->hits[2]);
        cli_json_real(&json, "10", e->hits[9]);
        cli_json_close(&json);
        cli_json_close(&json);
    }
    cli_json_close(&json);
    putchar('\n');
}

/* How many of the best classes a search finds, and the precision of what it finds. */
static void print_search(const evaluation *e, const xsm_search_metrics *m)
{
    cli_buffer a, b, c;
    uint32_t classes = xsm_model_class_count(e->model);
    if (cli_index_wanted(&e->index)) {
        printf("index      %s, %s in %s: %s of %s classes scored a row\n", e->index.name,
               e->index.path ? "loaded" : "built", cli_seconds(e->index.seconds, &c),
               cli_grouped((uint64_t)(m->probed + 0.5), &a), cli_grouped(classes, &b));
    } else if (e->shortlist.path) {
        printf("shortlist  %s: %s of %s classes scored a row\n", e->shortlist.path,
               cli_grouped((uint64_t)(m->probed + 0.5), &a), cli_grouped(classes, &b));
    } else if (e->tree_alone) {
        printf("tree alone %s of %s leaves scored a row\n", cli_grouped((uint64_t)(m->probed + 0.5), &a),
               cli_grouped(classes, &b));
    } else {
        printf("beam       %s of %s classes scored a row\n",
               cli_grouped(e->beam < classes ? (uint64_t)(m->probed + 0.5) : classes, &a), cli_grouped(classes, &b));
    }
    const char *names[] = {"recall", "precision"};
    const double *values[] = {m->recall, m->precision};
    for (size_t i = 0; i < 2; i++) {
        printf("  %-10s", names[i]);
        for (size_t j = 0; j < CLI_MEASURE_RANKS && cli_measure_ranks[j] <= m->top; j++) {
            printf("%s@%u %.4f", j > 0 ? ", " : "", cli_measure_ranks[j], values[i][cli_measure_ranks[j] - 1]);
        }
        putchar('\n');
    }
}

static void print_report(const evaluation *e, const xsm_metrics *metrics, const xsm_search_metrics *search,
                         double seconds)
{
    cli_buffer a, b, c;
    const char *estimator = xsm_model_get_metadata(e->model, "estimator");
    char *shape = cli_model_shape(e->model);
    printf("model      %s: %s%s%s\n", e->model_path, shape, estimator ? ", trained by " : "",
           estimator ? estimator : "");
    free(shape);
    printf("data       %s: %s rows with a label", e->data, cli_grouped(metrics->rows, &a));
    if (metrics->unseen_rows > 0) {
        printf(", %s of a class that training never saw (always wrong)", cli_grouped(metrics->unseen_rows, &b));
    }
    if (metrics->unlabelled > 0) {
        printf("; %s without a label left out", cli_grouped(metrics->unlabelled, &c));
    }
    const xsm_dataset_info info = info_of(e);
    char *left_out = cli_left_out(&info, cli_reads_words(e->model), "the model");
    if (left_out) {
        printf("\n           %s", left_out);
    }
    free(left_out);
    const int kept = cli_labels_kept(e->model, e->format.labels);
    if (e->format.labels < 0 && kept > XSM_KEEP_LABELS_ALL) {
        printf("\n           the %s label of a row counts, as in training; --labels all counts all",
               cli_label_words[kept]);
    }
    if (metrics->beam > 0) {
        printf("\nbeam       of %u: the classes that it finds are ranked", metrics->beam);
    }
    if (!isnan(metrics->log_loss)) {
        printf("\nlog-loss   %.4f", metrics->log_loss);
    }
    if (metrics->unseen_rows > 0 && !isnan(metrics->log_loss)) {
        printf(" over the %s rows of known classes", cli_grouped(metrics->known_rows, &a));
    }
    printf("\nerror      %.2f %%\n", 100 * metrics->error);
    if (cli_no_better_than_guess(e->model, metrics)) {
        printf("           no better than always answering the most frequent class of the training rows\n");
    }
    printf("ECE        %.4f\n", metrics->calibration_error);
    for (size_t i = 0; i < CLI_MEASURES; i++) {
        if (!isnan(cli_measure_at(metrics, i, 1))) {
            printf("%-10s ", cli_measures[i].title);
            cli_measure_print(metrics, i, ", ");
            putchar('\n');
        }
    }
    cli_classes_report(&e->classes, e->model);
    if (is_searching(e)) {
        print_search(e, search);
    }
    if (e->ranked) {
        printf("ranks      MRR %.4f, hits @1 %.4f, @3 %.4f, @10 %.4f; mean rank %.1f, of %s labels",
               e->ranks.reciprocal_rank, e->hits[0], e->hits[2], e->hits[9], e->ranks.mean_rank,
               cli_grouped(e->ranks.labels, &a));
        if (e->ranks.unseen_labels > 0) {
            printf(", %s of them never seen in training (no hit)", cli_grouped(e->ranks.unseen_labels, &b));
        }
        putchar('\n');
    }
    printf("time       %s", cli_seconds(seconds, &c));
    if (!isnan(e->prediction_seconds)) {
        printf("; a prediction by itself %.3g us", 1e6 * e->prediction_seconds);
    }
    putchar('\n');
}

static int try_search(evaluation *e, xsm_search_metrics *search)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    if (cli_index_wanted(&e->index)) {
        int code = cli_index_build(&e->index, e->model);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    options.index = e->index.index;
    options.beam = (uint32_t)e->beam;
    options.tree_alone = e->tree_alone;
    options.shortlist = e->shortlist.model;
    options.candidates = (uint32_t)e->shortlist.candidates;
    options.top = CLI_MEASURE_TOP;
    if (e->beam > 0 && e->beam < options.top &&
        !e->shortlist.path) { /* a search cannot find more classes than it scores */
        options.top = options.beam;
    }
    search->top = options.top < xsm_model_class_count(e->model) ? options.top : xsm_model_class_count(e->model);
    search->recall = e->found[0];
    search->precision = e->found[1];
    cli_note("searching ...");
    xsm_status status = xsm_evaluate_search(e->context, e->model, e->rows, &options, search, &err);
    cli_note_clear();
    return status == XSM_OK ? CLI_GO_ON : cli_search_refused(&err);
}

static int evaluate(evaluation *e)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_metrics metrics;
    cli_metrics_start(&metrics);
    xsm_evaluate_options options = XSM_EVALUATE_OPTIONS_INIT;
    options.propensity_a = e->propensity_a;
    options.propensity_b = e->propensity_b;
    int code = cli_context(e->threads, &e->context);
    code = code == CLI_GO_ON ? cli_classes_plan(&e->classes) : code;
    code = code == CLI_GO_ON
               ? cli_shortlist_load(e->context, &e->shortlist, cli_index_wanted(&e->index) || e->tree_alone)
               : code;
    code = code == CLI_GO_ON ? cli_index_make(e->context, &e->index, e->beam > 0 || e->tree_alone) : code;
    code = code == CLI_GO_ON ? cli_load_for_data(e->context, e->model_path, e->data, &e->model) : code;
    code = cli_agree(code == CLI_GO_ON ? read_rows(e) : code);
    e->label_tree = code == CLI_GO_ON && cli_model_info(e->model).trees > 0;
    options.beam = e->label_tree ? (uint32_t)e->beam : 0;
    if (code != CLI_GO_ON) {
        return code;
    }
    xsm_search_metrics search = XSM_SEARCH_METRICS_INIT;
    if (is_searching(e)) {
        code = try_search(e, &search);
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    cli_note("evaluating ...");
    double since = cli_clock();
    xsm_status status = xsm_evaluate(e->context, e->model, e->rows, &options, &metrics.of, &err);
    double seconds = cli_clock() - since;
    cli_note_clear();
    if (status != XSM_OK) {
        return cli_fail("%s: %s", e->data, err.message);
    }
    code = cli_agree(cli_classes_run(&e->classes, e->context, e->model, e->rows, options.beam));
    if (code != CLI_GO_ON) {
        return code;
    }
    if (e->ranked) {
        code = cli_agree(rank(e)); /* with a label tree each rank is alone */
        if (code != CLI_GO_ON) {
            return code;
        }
    }
    e->prediction_seconds = is_searching(e) ? (double)NAN : cli_prediction_seconds(e->model, e->rows, options.beam);
    if (e->json) {
        print_json(e, &metrics.of, &search, seconds);
    } else {
        print_report(e, &metrics.of, &search, seconds);
    }
    return CLI_DONE;
}

int cli_evaluate(const cli_command *command, int argc, char **argv)
{
    evaluation e = {.format = CLI_DATA_INIT,
                    .propensity_a = XSM_DEFAULT,
                    .propensity_b = XSM_DEFAULT,
                    .ranks = XSM_RANKS_INIT,
                    .classes = {.threshold = XSM_DEFAULT}};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},
        {"model", CLI_INPUT, &e.model_path, "FILE", "the saved model", NULL, 0, 0, 0, 1},
        {"data", CLI_INPUT, &e.data, "FILE", "rows with labels; - is standard input", NULL, 0, 0, 0, 1},
        CLI_DATA_FLAGS(e.format),
        CLI_WEIGHTS_FLAG(e.format),
        CLI_LABEL_WEIGHTS_FLAG(e.format),
        {"labels", CLI_CHOICE, &e.format.labels, "WHICH",
         "labels kept of a row: first, smallest or all (as in training)", cli_label_words, 0, 0, 0, 0},
        {"propensity-a", CLI_REAL, &e.propensity_a, "A", "of PSP and PSnDCG: 0.5 for Wikipedia, 0.6 for Amazon (0.55)",
         NULL, 0, 10, 0, 0},
        {"propensity-b", CLI_REAL, &e.propensity_b, "B", "of PSP and PSnDCG: 0.4 for Wikipedia, 2.6 for Amazon (1.5)",
         NULL, 0, 1e9, 0, 0},
        CLI_CLASSES_FLAGS(e.classes),
        CLI_INDEX_FLAGS(e.index, "report what a search in an index (spherical) finds too"),
        CLI_SHORTLIST_FLAGS(e.shortlist, "report what the candidates of a label tree hold too"),
        {"beam", CLI_WHOLE, &e.beam, "W",
         "report what a beam of that width in the model's tree finds too; of label trees its width (10)", NULL, 1,
         XSM_CLASSES_MAX, 0, 0},
        {"tree-alone", CLI_SWITCH, &e.tree_alone, NULL, "report what the model's tree finds without its weights too",
         NULL, 0, 0, 0, 0},
        {"ranks", CLI_SWITCH, &e.ranked, NULL,
         "also rank every label among the classes that are not right for its row: MRR, hits", NULL, 0, 0, 0, 0},
        {"known", CLI_INPUTS, &e.known_paths, "FILE",
         "--ranks: rows whose labels are right, too, for rows with the same features; several times", NULL, 0, 0, 0, 0},
        {"threads", CLI_WHOLE, &e.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},
        {"json", CLI_SWITCH, &e.json, NULL, "print one JSON object instead of the report", NULL, 0, 0, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    if (code == CLI_GO_ON && e.known_paths.count > 0 && !e.ranked) {
        code = cli_misuse("--known lists what --ranks leaves out; it needs --ranks");
    }
    if (code == CLI_GO_ON) {
        code = evaluate(&e);
    }
    for (size_t i = 0; e.known && i < e.known_paths.count; i++) {
        xsm_dataset_free(e.known[i]);
    }
    free(e.known);
    cli_classes_free(&e.classes);
    cli_list_free(&e.known_paths);
    cli_index_free(&e.index);
    cli_shortlist_free(&e.shortlist);
    xsm_dataset_free(e.rows);
    xsm_model_free(e.model);
    xsm_context_free(e.context);
    return code;
}
