/* xsoftmax calibrate: makes a saved model's probabilities honest, by rows that it was not trained on. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include <xsoftmax/calibrate.h>

typedef struct calibration {
    const char *model_path, *data, *output;
    cli_data format;
    int method; /* as in method_words, which has the order of XSM_CALIBRATION_*; 0 = by the rows */
    uint64_t rows, threads;
    int json, in_place;

    xsm_context *context;
    xsm_model *model;
    xsm_dataset *set;
    xsm_calibrate_result result;
    double seconds;
} calibration;

static const char *const method_words[] = {"auto", "temperature", "labels", NULL};

static int write_model(const calibration *c)
{
    xsm_error err = XSM_ERROR_INIT;
    char *path = cli_output_name(CLI_OUTPUT_MODEL);
    if (!path) {
        return CLI_FAILED;
    }
    const xsm_status status = xsm_model_save(c->model, path, NULL, &err);
    free(path);
    if (status != XSM_OK) {
        return cli_library_failed(&err);
    }
    cli_outputs[CLI_OUTPUT_MODEL].ready = 1;
    cli_stop_hold();
    const int failure = cli_output_commit();
    cli_stop_remove();
    const int code = cli_agree(failure ? cli_fail("%s: cannot write: %s", c->output, strerror(failure)) : CLI_GO_ON);
    return code == CLI_GO_ON ? CLI_DONE : code;
}

static int evaluate(const calibration *c, xsm_metrics *metrics)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_note("evaluating ...");
    xsm_status status = xsm_evaluate(c->context, c->model, c->set, NULL, metrics, &err);
    cli_note_clear();
    return status == XSM_OK ? CLI_GO_ON : cli_fail("%s: %s", c->data, err.message);
}

static void write_metrics(cli_json *json, const char *key, const xsm_metrics *metrics)
{
    cli_json_open(json, key);
    cli_json_real(json, "log_loss", metrics->log_loss);
    cli_json_real(json, "calibration_error", metrics->calibration_error);
    cli_json_close(json);
}

static void print_json(const calibration *c, const xsm_metrics *before, const xsm_metrics *after)
{
    cli_json json = {stdout, 0};
    cli_json_open(&json, NULL);
    cli_json_text(&json, "method", method_words[c->result.method]);
    cli_json_real(&json, "scale", c->result.scale);
    cli_json_real(&json, "shift", c->result.shift);
    cli_json_real(&json, "temperature", 1 / c->result.scale);
    cli_json_whole(&json, "rows", c->result.rows);
    cli_json_real(&json, "calibrate_seconds", c->seconds);
    write_metrics(&json, "before", before);
    write_metrics(&json, "after", after);
    cli_json_close(&json);
    putchar('\n');
}

static void print_report(const calibration *c, const xsm_metrics *before, const xsm_metrics *after)
{
    cli_buffer a, b;
    const xsm_calibrate_result *r = &c->result;
    if (r->method == XSM_CALIBRATION_LABELS) {
        printf("classes    each by itself: scale %.4g, shift %.4g", r->scale, r->shift);
    } else {
        printf("softmax    temperature %.4g", 1 / r->scale);
    }
    printf(", on %s rows in %s\n", cli_grouped(r->rows, &a), cli_seconds(c->seconds, &b));
    if (r->method == XSM_CALIBRATION_LABELS) {
        printf("log-loss   %.4f of each class by itself, %.4f with a scale of 1 and no shift\n", r->log_loss,
               r->log_loss_before);
    } else {
        printf("log-loss   %.4f, %.4f before\n", after->log_loss, before->log_loss);
    }
    printf("ECE        %.4f, %.4f before\n", after->calibration_error, before->calibration_error);
}

static int calibrate(calibration *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_calibrate_options options = XSM_CALIBRATE_OPTIONS_INIT;
    xsm_metrics before = XSM_METRICS_INIT, after = XSM_METRICS_INIT;
    int code = cli_output_plan(CLI_OUTPUT_MODEL, c->output);
    code = code == CLI_GO_ON ? cli_context(c->threads, &c->context) : code;
    code = code == CLI_GO_ON ? cli_load_for_data(c->context, c->model_path, c->data, &c->model) : code;
    code = code == CLI_GO_ON ? cli_read_for_model(c->context, c->data, &c->format, c->model, &c->set) : code;
    code = code == CLI_GO_ON ? cli_need_labels(c->data, c->set) : code;
    code = code == CLI_GO_ON ? cli_data_used(&c->format, (const xsm_dataset *const[]){c->set}, 1) : code;
    code = cli_agree(code);
    code = code == CLI_GO_ON ? evaluate(c, &before) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    options.method = c->method;
    options.rows = c->rows;
    cli_note("calibrating ...");
    const double since = cli_clock();
    xsm_status status = xsm_model_calibrate(c->context, c->model, c->set, &options, &c->result, &err);
    c->seconds = cli_clock() - since;
    cli_note_clear();
    if (status != XSM_OK) {
        return cli_fail("%s: %s", c->data, err.message);
    }
    code = evaluate(c, &after);
    code = code == CLI_GO_ON ? write_model(c) : code;
    if (code == CLI_DONE && c->json) {
        print_json(c, &before, &after);
    } else if (code == CLI_DONE) {
        print_report(c, &before, &after);
    }
    return code;
}

int cli_calibrate(const cli_command *command, int argc, char **argv)
{
    calibration c = {.format = CLI_DATA_INIT, .result = XSM_CALIBRATE_RESULT_INIT};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},
        {"model", CLI_INPUT, &c.model_path, "FILE", "the saved model", NULL, 0, 0, 0, 1},
        {"data", CLI_INPUT, &c.data, "FILE", "rows with labels that it was not trained on", NULL, 0, 0, 0, 1},
        {"output", CLI_OUTPUT, &c.output, "FILE", "the calibrated model to write", NULL, 0, 0, 0, 1},
        CLI_IN_PLACE_FLAG(c.in_place),
        CLI_DATA_FLAGS(c.format),
        CLI_WEIGHTS_FLAG(c.format),
        CLI_LABEL_WEIGHTS_FLAG(c.format),
        {"labels", CLI_CHOICE, &c.format.labels, "WHICH",
         "labels kept of a row: first, smallest or all (as in training)", cli_label_words, 0, 0, 0, 0},
        {"method", CLI_CHOICE, &c.method, "NAME",
         "temperature, labels (each class by itself), or auto: labels where rows or the model's link are so (auto)",
         method_words, 0, 0, 0, 0},
        {"rows", CLI_WHOLE, &c.rows, "N", "at most N of the rows (all)", NULL, 1, 1e15, 0, 0},
        {"threads", CLI_WHOLE, &c.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},
        {"json", CLI_SWITCH, &c.json, NULL, "print one JSON object instead of the report", NULL, 0, 0, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    if (code == CLI_GO_ON) {
        code = calibrate(&c);
    }
    cli_output_discard();
    cli_output_free();
    xsm_dataset_free(c.set);
    xsm_model_free(c.model);
    xsm_context_free(c.context);
    return code;
}
