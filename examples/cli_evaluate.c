/* xsoftmax evaluate: how good a saved model is on rows with labels. */
#include "cli.h"

#include <stdlib.h>

typedef struct evaluation {
    const char *model_path, *data;
    cli_data format;
    uint64_t threads;
    int json;

    xsm_context *context;
    xsm_model *model;
    xsm_dataset *rows;
} evaluation;

static void print_json(const evaluation *e, const xsm_metrics *metrics, double seconds)
{
    cli_json json = {stdout, 0};
    cli_json_open(&json, NULL);
    cli_json_text(&json, "estimator", xsm_model_get_metadata(e->model, "estimator"));
    cli_json_whole(&json, "examples", metrics->rows);
    cli_json_whole(&json, "features", xsm_model_features(e->model));
    cli_json_whole(&json, "classes", xsm_model_classes(e->model));
    cli_json_whole(&json, "unseen_test_labels", metrics->unseen_labels);
    cli_json_whole(&json, "known_rows", metrics->known_rows);
    cli_json_whole(&json, "unlabelled", metrics->unlabelled);
    cli_json_real(&json, "evaluate_seconds", seconds);
    cli_json_whole(&json, "peak_bytes", cli_peak_bytes());
    cli_json_metrics(&json, "test", metrics, 1);
    cli_json_close(&json);
    putchar('\n');
}

static void print_report(const evaluation *e, const xsm_metrics *metrics, double seconds)
{
    cli_buffer a, b, c;
    const char *estimator = xsm_model_get_metadata(e->model, "estimator");
    printf("model      %s: %s classes x %s features%s%s\n", e->model_path, cli_grouped(xsm_model_classes(e->model), &a),
           cli_grouped(xsm_model_features(e->model), &b), estimator ? ", trained by " : "", estimator ? estimator : "");
    printf("data       %s: %s rows with a label", e->data, cli_grouped(metrics->rows, &a));
    if (metrics->unseen_rows > 0) {
        printf(", %s of a class that training never saw (always wrong)", cli_grouped(metrics->unseen_rows, &b));
    }
    if (metrics->unlabelled > 0) {
        printf("; %s without a label left out", cli_grouped(metrics->unlabelled, &c));
    }
    printf("\nlog-loss   %.4f", metrics->log_loss);
    if (metrics->unseen_rows > 0) {
        printf(" over the %s rows of known classes", cli_grouped(metrics->known_rows, &a));
    }
    printf("\nerror      %.2f %%\nprecision  @1 %.4f, @3 %.4f, @5 %.4f\ntime       %s\n", 100 * metrics->error,
           metrics->precision[0], metrics->precision[2], metrics->precision[4], cli_seconds(seconds, &c));
}

static int evaluate(evaluation *e)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_metrics metrics = XSM_METRICS_INIT;
    int code = cli_context(e->threads, &e->context);
    code = code == CLI_GO_ON ? cli_load(e->context, e->model_path, &e->model) : code;
    code = code == CLI_GO_ON ? cli_read_for_model(e->context, e->data, &e->format, e->model, &e->rows) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    cli_note("evaluating ...");
    double since = cli_clock();
    xsm_status status = xsm_evaluate(e->context, e->model, e->rows, NULL, &metrics, &err);
    double seconds = cli_clock() - since;
    cli_note_clear();
    if (status != XSM_OK) {
        return cli_fail("%s: %s", e->data, err.message);
    }
    if (e->json) {
        print_json(e, &metrics, seconds);
    } else {
        print_report(e, &metrics, seconds);
    }
    return CLI_DONE;
}

int cli_evaluate(const cli_command *command, int argc, char **argv)
{
    evaluation e = {.format = CLI_DATA_INIT};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},
        {"model", CLI_TEXT, &e.model_path, "FILE", "the saved model", NULL, 0, 0, 0, 1},
        {"data", CLI_TEXT, &e.data, "FILE", "rows with labels; - is standard input", NULL, 0, 0, 0, 1},
        CLI_DATA_FLAGS(e.format),
        {"labels", CLI_CHOICE, &e.format.labels, "WHICH",
         "labels kept of a row: first, smallest or all (as in training)", cli_label_words, 0, 0, 0, 0},
        {"threads", CLI_WHOLE, &e.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},
        {"json", CLI_SWITCH, &e.json, NULL, "print one JSON object instead of the report", NULL, 0, 0, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, 0, argc, argv);
    if (code == CLI_GO_ON) {
        code = evaluate(&e);
    }
    xsm_dataset_free(e.rows);
    xsm_model_free(e.model);
    xsm_context_free(e.context);
    return code;
}
