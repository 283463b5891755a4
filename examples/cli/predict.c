/*
 * xsoftmax predict: the best classes of each row. Rows are predicted window by window, on all threads, and printed.
 * With
 * --index or --shortlist the recall is measured on some of the rows.
 */
#include "cli.h"

#include <math.h>
#include <stdlib.h>

#include <xsoftmax/calibrate.h>

/* Rows of a window for each thread: enough to score tiles of rows together. */
#define WINDOW_ROWS 256
/* The most rows that recall is measured on. */
#define RECALL_ROWS 1000

typedef struct prediction {
    const char *model_path, *data;
    cli_data format;
    cli_index index;
    cli_shortlist shortlist;
    cli_filter filter;
    uint64_t top, threads, beam;
    int probabilities, tree_alone, json;

    xsm_context *context;
    xsm_model *model;
    xsm_dataset *rows;
    cli_stream stream;
    uint64_t row_count, empty; /* so far */
    /* Of a window of rows; of scores and probabilities one. */
    uint64_t window;
    uint32_t length; /* classes a row */
    uint32_t *classes, *lengths;
    float *scores;
    double *probability;
} prediction;

static xsm_predictor_options predictor_options(const prediction *p)
{
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = (uint32_t)p->top;
    options.index = p->index.index;
    options.beam = (uint32_t)p->beam;
    options.tree_alone = p->tree_alone;
    options.shortlist = p->shortlist.model;
    options.candidates = (uint32_t)p->shortlist.candidates;
    return options;
}

/* What each row may get. */
static xsm_prediction filters_of(const prediction *p)
{
    xsm_prediction wanted = XSM_PREDICTION_INIT;
    wanted.filter = p->filter.filter;
    wanted.exclude_known = p->filter.known;
    if (isnan(p->filter.threshold)) {
        return wanted;
    }
    if (p->probabilities) {
        wanted.least_probability = p->filter.threshold;
    } else {
        wanted.has_least_score = 1;
        wanted.least_score = (float)p->filter.threshold;
    }
    return wanted;
}

static int make_window(prediction *p)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_predictor_options options = predictor_options(p);
    xsm_predictor *tried = NULL;
    if (xsm_predictor_new(p->model, &options, &tried, &err) != XSM_OK) {
        return cli_search_refused(&err);
    }
    p->length = cli_predictor_info(tried).top;
    xsm_predictor_free(tried);
    p->window = WINDOW_ROWS * (uint64_t)cli_threads(p->context);
    const size_t entries = (size_t)p->window * p->length;
    p->classes = calloc(entries, sizeof *p->classes);
    p->lengths = calloc(p->window, sizeof *p->lengths);
    p->scores = p->probabilities ? NULL : calloc(entries, sizeof *p->scores);
    p->probability = p->probabilities ? calloc(entries, sizeof *p->probability) : NULL;
    return p->classes && p->lengths && (p->scores || p->probability) ? CLI_GO_ON : cli_fail("out of memory");
}

/* Prints "label:value" pairs separated by tabs. A name may contain spaces and colons, so the value is what follows the
 * last colon. */
static void print_text(const prediction *p, const xsm_class_map *map, size_t row)
{
    for (uint32_t j = 0; j < p->lengths[row]; j++) {
        const size_t entry = row * p->length + j;
        if (j > 0) {
            putchar('\t');
        }
        cli_write_class(stdout, map, p->classes[entry]);
        printf(":%.6g", p->scores ? (double)p->scores[entry] : p->probability[entry]);
    }
}

static void print_json(const prediction *p, const xsm_class_map *map, size_t row)
{
    cli_json json = {stdout, 0};
    cli_json_open(&json, NULL);
    cli_json_open_list(&json, "best");
    for (uint32_t j = 0; j < p->lengths[row]; j++) {
        const size_t entry = row * p->length + j;
        cli_json_open(&json, NULL);
        cli_json_class(&json, "label", map, p->classes[entry]);
        if (p->scores) {
            cli_json_real(&json, "score", (double)p->scores[entry]);
        } else {
            cli_json_real(&json, "probability", p->probability[entry]);
        }
        cli_json_close(&json);
    }
    cli_json_close_list(&json);
    cli_json_close(&json);
}

/* Predicts the next rows from `first` on, and prints a line for each. */
static int run_window(prediction *p, const xsm_class_map *map, uint64_t first, uint64_t rows)
{
    xsm_error err = XSM_ERROR_INIT;
    const xsm_predictor_options options = predictor_options(p);
    const xsm_batch batch = xsm_batch_range(p->rows, first, rows);
    xsm_prediction wanted = filters_of(p);
    wanted.batch = &batch;
    wanted.classes = p->classes;
    wanted.lengths = p->lengths;
    wanted.scores = p->scores;
    wanted.probabilities = p->probability;
    const xsm_status status = xsm_predict(p->context, p->model, &options, &wanted, &err);
    const int code = cli_agree(status == XSM_OK ? CLI_GO_ON : cli_fail("%s: %s", p->data, err.message));
    for (size_t i = 0; code == CLI_GO_ON && i < rows; i++) {
        (p->json ? print_json : print_text)(p, map, i);
        putchar('\n');
    }
    return code;
}

/* Checks the search flags, before anything is read. */
static int make_index(prediction *p)
{
    if (p->probabilities && (p->filter.threshold < 0 || p->filter.threshold > 1)) {
        return cli_misuse("--threshold is of probabilities, with --probabilities; 0 to 1 is accepted");
    }
    const int code = cli_shortlist_load(p->context, &p->shortlist, cli_index_wanted(&p->index) || p->tree_alone);
    return code == CLI_GO_ON ? cli_index_make(p->context, &p->index, p->beam > 0 || p->tree_alone) : code;
}

/* Compares the results of a search with the best of all classes on up to RECALL_ROWS rows, evenly spaced. */
static int measure_recall(prediction *p, uint64_t rows, double *recall, double *part)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options all = XSM_PREDICTOR_OPTIONS_INIT;
    const xsm_predictor_options options = predictor_options(p);
    xsm_predictor *exact = NULL, *searching = NULL;
    uint64_t count = rows < RECALL_ROWS ? rows : RECALL_ROWS, hits = 0;
    uint64_t *chosen = calloc(count, sizeof *chosen);
    uint32_t *want = NULL, *have = NULL, top = 0;
    all.top = (uint32_t)p->top;
    xsm_status status = xsm_predictor_new(p->model, &all, &exact, &err);
    status = status == XSM_OK ? xsm_predictor_new(p->model, &options, &searching, &err) : status;
    if (status == XSM_OK) {
        top = cli_predictor_info(exact).top;
        want = calloc(count * top, sizeof *want);
        have = calloc(count * top, sizeof *have);
    }
    int code = status == XSM_OK ? CLI_GO_ON : cli_search_refused(&err);
    if (code == CLI_GO_ON && (!chosen || !want || !have)) {
        code = cli_fail("out of memory");
    }
    for (uint64_t i = 0; code == CLI_GO_ON && i < count; i++) {
        chosen[i] = i * rows / count;
    }
    xsm_batch batch = xsm_batch_rows(p->rows, chosen, count);
    if (code == CLI_GO_ON &&
        (xsm_predictor_run(exact, &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = want},
                           &err) != XSM_OK ||
         xsm_predictor_run(searching,
                           &(xsm_prediction){.size = sizeof(xsm_prediction), .batch = &batch, .classes = have},
                           &err) != XSM_OK)) {
        code = cli_library_failed(&err);
    }
    for (uint64_t i = 0; code == CLI_GO_ON && i < count * top; i++) {
        for (uint32_t j = 0; j < top; j++) {
            hits += have[i / top * top + j] == want[i];
        }
    }
    *recall = (double)hits / (double)(count * (top ? top : 1));
    *part = (double)cli_predictor_info(searching).probed / (double)count / xsm_model_class_count(p->model);
    xsm_predictor_free(exact);
    xsm_predictor_free(searching);
    free(chosen);
    free(want);
    free(have);
    return code;
}

/* `rows` 0: they are not known yet, so that nothing is said of the recall. */
static int build_index(prediction *p, uint64_t rows)
{
    cli_buffer a, b, c;
    double recall, part;
    int code = cli_index_build(&p->index, p->model);
    if (rows == 0 || code != CLI_GO_ON) {
        return code;
    }
    code = code == CLI_GO_ON ? measure_recall(p, rows, &recall, &part) : code;
    if (code == CLI_GO_ON) {
        uint32_t classes = xsm_model_class_count(p->model);
        uint64_t top = p->top < classes ? p->top : classes;
        fprintf(cli_messages(),
                "xsoftmax: index %s over %s classes %s in %s; recall@%s %.4f, %.2f %% of the classes scored\n",
                p->index.name, cli_grouped(classes, &a), p->index.path ? "loaded" : "built",
                cli_seconds(p->index.seconds, &b), cli_grouped(top, &c), recall, 100 * part);
    }
    return code;
}

/* Measures on some of the rows how many of the best classes a beam of that width, or a shortlist, finds. */
static int tell_beam(prediction *p, uint64_t rows)
{
    cli_buffer a, b, c;
    double recall, part;
    cli_note("trying the %s ...", p->shortlist.path ? "shortlist" : "beam");
    int code = measure_recall(p, rows, &recall, &part);
    cli_note_clear();
    if (code == CLI_GO_ON) {
        uint32_t classes = xsm_model_class_count(p->model);
        uint64_t top = p->top < classes ? p->top : classes;
        if (p->shortlist.path) {
            fprintf(cli_messages(),
                    "xsoftmax: shortlist %s over %s classes; recall@%s %.4f, %.2f %% of the classes scored\n",
                    p->shortlist.path, cli_grouped(classes, &b), cli_grouped(top, &c), recall, 100 * part);
            return code;
        }
        fprintf(cli_messages(),
                "xsoftmax: beam of %s in the tree over %s classes; recall@%s %.4f, %.2f %% of the classes scored\n",
                cli_grouped(p->beam, &a), cli_grouped(classes, &b), cli_grouped(top, &c), recall,
                p->beam < classes ? 100 * part : 100.0);
    }
    return code;
}

/* Such rows all get the same prediction, from the biases: often the features are numbered or named otherwise. */
static void tell_unknown(const prediction *p)
{
    cli_buffer a, b;
    if (p->empty > 0 && xsm_model_feature_count(p->model) > 0) {
        fprintf(cli_messages(), "xsoftmax: %s of %s row%s %s no feature that the model knows\n",
                cli_grouped(p->empty, &a), cli_grouped(p->row_count, &b), p->row_count == 1 ? "" : "s",
                p->empty == 1 ? "has" : "have");
    }
}

/* Ranks with more rows than others would wait for them. */
static int compare_count(const prediction *p, uint64_t rows)
{
    uint64_t first = rows;
    const int code = cli_share(&first, sizeof first);
    return code != CLI_GO_ON ? code
                             : cli_agree(rows == first ? CLI_GO_ON
                                                       : cli_fail("%s: %llu rows, and on rank 0 %llu", p->data,
                                                                  (unsigned long long)rows, (unsigned long long)first));
}

/* Predicts p->rows. */
static int predict_rows(prediction *p, const xsm_class_map *map, uint64_t rows)
{
    int code = CLI_GO_ON;
    for (uint64_t first = 0; code == CLI_GO_ON && first < rows; first += p->window) {
        if (cli_agree_any(ferror(stdout))) {
            break; /* cli_main() reports the error */
        }
        if (cli_agree_any(cli_stop_waits())) {
            code = cli_fail("cancelled while predicting: %llu of %llu rows", (unsigned long long)first,
                            (unsigned long long)rows);
            break;
        }
        if (cli_notes_alone()) {
            cli_note("predicting: %3d %%", (int)(100 * (double)first / (double)rows));
        }
        code = run_window(p, map, first, rows - first < p->window ? rows - first : p->window);
    }
    cli_note_clear();
    return code;
}

/* Reads the next rows, the first time all of them unless they are answered as they come; *rows is 0 at the end. */
static int read_rows(prediction *p, int streams, uint64_t *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    const int first = p->row_count == 0;
    *rows = 0;
    if (!first && !streams) {
        return CLI_GO_ON;
    }
    xsm_dataset_free(p->rows);
    p->rows = NULL;
    int code = streams ? cli_stream_next(&p->stream, p->context, &p->format, p->model, &p->rows)
                       : cli_read_for_model(p->context, p->data, &p->format, p->model, &p->rows);
    code = code == CLI_GO_ON && first ? cli_data_used(&p->format, (const xsm_dataset *const[]){p->rows}, 1) : code;
    if (code == CLI_GO_ON && p->rows && xsm_dataset_get_info(p->rows, &info, &err) != XSM_OK) {
        code = cli_library_failed(&err);
    }
    *rows = info.rows;
    p->row_count += info.rows;
    p->empty += info.empty;
    return code;
}

/* What must hold between the flags and the model. */
static int check_model(const prediction *p)
{
    xsm_calibration calibration = XSM_CALIBRATION_INIT;
    const xsm_model_info about = cli_model_info(p->model);
    (void)xsm_model_get_calibration(p->model, &calibration, NULL);
    const int each = calibration.method == XSM_CALIBRATION_LABELS ||
                     (calibration.method == XSM_CALIBRATION_NONE && about.link == XSM_LINK_SIGMOID);
    const char *search = p->index.path                                   ? "index-file"
                         : p->index.name                                 ? "index"
                         : p->shortlist.path                             ? "shortlist"
                         : p->beam && !p->tree_alone && about.trees == 0 ? "beam"
                                                                         : NULL;
    return p->probabilities && search && !each && about.trees == 0
               ? cli_misuse("--probabilities need the scores of all classes; not with --%s, but for models whose "
                            "classes have probabilities of their own",
                            search)
               : CLI_GO_ON;
}

static int predict(prediction *p)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    uint64_t rows = 0;
    const int streams = cli_stream_wanted(p->data, &p->format);
    int code = cli_context(p->threads, &p->context);
    code = code == CLI_GO_ON ? make_index(p) : code;
    code = code == CLI_GO_ON ? cli_load_for_data(p->context, p->model_path, p->data, &p->model) : code;
    code = code == CLI_GO_ON ? check_model(p) : code;
    code = code == CLI_GO_ON ? cli_filter_make(p->context, &p->filter, p->model) : code;
    code = cli_agree(code == CLI_GO_ON ? read_rows(p, streams, &rows) : code);
    code = code == CLI_GO_ON ? compare_count(p, rows) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_model_get_class_map(p->model, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    const int finds = p->shortlist.path || (p->beam > 0 && !p->tree_alone && cli_model_info(p->model).trees == 0);
    if (!streams) {
        tell_unknown(p);
    }
    code = cli_index_wanted(&p->index) ? build_index(p, streams ? 0 : rows)
           : finds && !streams         ? tell_beam(p, rows)
                                       : CLI_GO_ON;
    code = cli_agree(code == CLI_GO_ON ? make_window(p) : code);
    while (code == CLI_GO_ON && rows > 0) {
        code = predict_rows(p, &map, rows);
        if (ferror(stdout) || (streams && fflush(stdout) != 0)) {
            break;
        }
        code = code == CLI_GO_ON ? read_rows(p, streams, &rows) : code;
    }
    if (streams) {
        tell_unknown(p);
    }
    return code == CLI_GO_ON ? CLI_DONE : code;
}

static void release(prediction *p)
{
    free(p->classes);
    free(p->lengths);
    free(p->scores);
    free(p->probability);
    cli_index_free(&p->index);
    cli_shortlist_free(&p->shortlist);
    cli_filter_free(&p->filter);
    cli_stream_free(&p->stream);
    xsm_dataset_free(p->rows);
    xsm_model_free(p->model);
    xsm_context_free(p->context);
}

int cli_predict(const cli_command *command, int argc, char **argv)
{
    prediction p = {.format = CLI_DATA_INIT, .stream = CLI_STREAM_INIT, .top = 5, .filter = {.threshold = NAN}};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},
        {"model", CLI_INPUT, &p.model_path, "FILE", "the saved model", NULL, 0, 0, 0, 1},
        {"data", CLI_INPUT, &p.data, "FILE",
         "rows, with or without labels; - is standard input, of a pipe answered as they come", NULL, 0, 0, 0, 1},
        CLI_DATA_FLAGS(p.format),
        CLI_LABEL_WEIGHTS_FLAG(p.format),
        {"top", CLI_WHOLE, &p.top, "K", "classes a row, or as many as there are (5)", NULL, 1, 65536, 0, 0},
        {"probabilities", CLI_SWITCH, &p.probabilities, NULL, "print probabilities instead of scores", NULL, 0, 0, 0,
         0},
        CLI_INDEX_FLAGS(p.index, "search the classes by an index (spherical) in place of scoring all"),
        CLI_SHORTLIST_FLAGS(p.shortlist, "score the classes that a label tree finds, in place of all"),
        CLI_FILTER_FLAGS(p.filter),
        {"beam", CLI_WHOLE, &p.beam, "W",
         "score the W classes that a beam in the model's tree finds; of label trees its width (10)", NULL, 1,
         XSM_CLASSES_MAX, 0, 0},
        {"tree-alone", CLI_SWITCH, &p.tree_alone, NULL, "predict by the model's tree, without its weights", NULL, 0, 0,
         0, 0},
        {"json", CLI_SWITCH, &p.json, NULL, "print one JSON object a row", NULL, 0, 0, 0, 0},
        {"threads", CLI_WHOLE, &p.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    if (code == CLI_GO_ON) {
        code = predict(&p);
    }
    release(&p);
    return code;
}
