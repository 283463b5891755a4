/* xsoftmax prune and convert-model: write a model without its small weights, or with its weights in another type, and
 * say what that saves and loses. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xsoftmax/stored_weights.h>

typedef struct pruned {
    const char *from, *to, *test;
    double bytes_before; /* of `from`, which `to` may replace */
    cli_data format;
    double below;
    uint64_t keep, threads;
    int type; /* of type_words; of prune -1 */
    int json, in_place;

    xsm_context *context;
    xsm_model *before, *after;
    xsm_dataset *rows;
    cli_metrics metrics[2]; /* before and after */
} pruned;

/* Bytes of a file; 0 when that cannot be said. */
static double file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) ? (double)status.st_size : (double)NAN;
}

static int measure(pruned *p, const xsm_model *model, cli_metrics *metrics)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_metrics_start(metrics);
    cli_note("evaluating ...");
    xsm_status status = xsm_evaluate(p->context, model, p->rows, NULL, &metrics->of, &err);
    cli_note_clear();
    return status == XSM_OK ? CLI_GO_ON : cli_fail("%s: %s", p->test, err.message);
}

/* The types of weights: a word, its XSM_DTYPE_* value, and the bytes of a number. */
#define NARROW_TYPES(TYPE) TYPE(bfloat16, BFLOAT16, 2) TYPE(int8, INT8, 1)
#define TYPES(TYPE) TYPE(float32, FLOAT32, 4) NARROW_TYPES(TYPE)
#define AS_WORD(word, dtype, bytes) #word,
#define AS_TYPE(word, dtype, bytes) {#word, XSM_DTYPE_##dtype, bytes},
#define AS_TEXT(word, dtype, bytes) ", " #word
#define TYPE_TEXT "float32" NARROW_TYPES(AS_TEXT)
static const char *const type_words[] = {TYPES(AS_WORD) NULL};
static const cli_type types[] = {TYPES(AS_TYPE){"of an unknown type", -1, (double)NAN}};

const cli_type *cli_type_of(int32_t dtype)
{
    const cli_type *type = types;
    while (type->dtype >= 0 && type->dtype != dtype) {
        type++;
    }
    return type;
}

static xsm_status change(pruned *p, xsm_error *err)
{
    if (p->type >= 0) {
        xsm_convert_options options = XSM_CONVERT_OPTIONS_INIT;
        options.dtype = types[p->type].dtype;
        return xsm_model_convert(p->before, &options, &p->after, err);
    }
    xsm_prune_options options = XSM_PRUNE_OPTIONS_INIT;
    options.below = p->below;
    options.keep = (uint32_t)p->keep;
    return xsm_model_prune(p->before, &options, &p->after, err);
}

static int prune(pruned *p)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_note("%s ...", p->type < 0 ? "pruning" : "converting");
    xsm_status status = change(p, &err);
    cli_note_clear();
    return status == XSM_OK ? CLI_GO_ON : cli_fail("%s: %s", p->from, err.message);
}

/* Once nothing else can fail, so that a file that is there is replaced only then. */
static int save(pruned *p)
{
    xsm_error err = XSM_ERROR_INIT;
    p->bytes_before = file_bytes(p->from);
    return xsm_model_save(p->after, p->to, NULL, &err) == XSM_OK ? CLI_GO_ON : cli_library_failed(&err);
}

/* A number before and after. */
static void print_pair(const char *title, double before, double after)
{
    printf("%-10s %.4f, was %.4f (%+.4f)\n", title, after, before, after - before);
}

static void print_report(const pruned *p, const xsm_model_info *was, const xsm_model_info *is)
{
    cli_buffer a, b, c, d;
    if (p->type < 0) {
        printf("weights    %s of %s, %.1f a class\n", cli_grouped(is->weights, &a), cli_grouped(was->weights, &b),
               (double)is->weights / is->classes);
    } else {
        printf("weights    %s, %s; was %s, %s\n", type_words[p->type], cli_bytes((double)is->bytes, &a),
               cli_type_of(was->dtype)->word, cli_bytes((double)was->bytes, &b));
    }
    const double bytes = file_bytes(p->to);
    printf("file       %s%s%s; was %s\n", cli_output_shown(p->to), bytes > 0 ? ", " : "",
           bytes > 0 ? cli_bytes(bytes, &c) : "", cli_bytes(p->bytes_before, &d));
    if (!p->rows) {
        return;
    }
    const xsm_metrics *before = &p->metrics[0].of, *after = &p->metrics[1].of;
    printf("data       %s: %s rows with a label\n", p->test, cli_grouped(after->rows, &a));
    print_pair("log-loss", before->log_loss, after->log_loss);
    for (size_t j = 0; j < CLI_MEASURE_RANKS; j++) {
        const uint32_t k = cli_measure_ranks[j];
        char title[16];
        snprintf(title, sizeof title, "P@%u", k);
        print_pair(title, cli_measure_at(before, 0, k), cli_measure_at(after, 0, k));
    }
}

static void print_json(const pruned *p, const xsm_model_info *was, const xsm_model_info *is)
{
    cli_json json = {stdout, 0};
    cli_json_open(&json, NULL);
    cli_json_whole(&json, "classes", is->classes);
    cli_json_whole(&json, "features", is->features);
    cli_json_whole(&json, "weights_before", was->weights);
    cli_json_whole(&json, "weights", is->weights);
    cli_json_whole(&json, "weight_bytes_before", was->bytes);
    cli_json_whole(&json, "weight_bytes", is->bytes);
    cli_json_real(&json, "model_bytes_before", p->bytes_before);
    cli_json_real(&json, "model_bytes", file_bytes(p->to));
    if (p->rows) {
        cli_json_metrics(&json, "test_before", &p->metrics[0].of, 1);
        cli_json_metrics(&json, "test", &p->metrics[1].of, 1);
    }
    cli_json_close(&json);
    putchar('\n');
}

static int run(pruned *p)
{
    int code = cli_context(p->threads, &p->context);
    code = code == CLI_GO_ON ? cli_load(p->context, p->from, &p->before) : code;
    if (code == CLI_GO_ON && p->test) {
        code = cli_read_for_model(p->context, p->test, &p->format, p->before, &p->rows);
        code = code == CLI_GO_ON ? cli_need_labels(p->test, p->rows) : code;
        code = code == CLI_GO_ON ? cli_data_used(&p->format, (const xsm_dataset *const[]){p->rows}, 1) : code;
    } else if (code == CLI_GO_ON) {
        code = cli_data_unused(&p->format, p->from);
    }
    code = cli_agree(code);
    code = code == CLI_GO_ON ? prune(p) : code;
    code = code == CLI_GO_ON && p->rows ? measure(p, p->before, &p->metrics[0]) : code;
    code = code == CLI_GO_ON && p->rows ? measure(p, p->after, &p->metrics[1]) : code;
    code = code == CLI_GO_ON ? save(p) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    const xsm_model_info was = cli_model_info(p->before), is = cli_model_info(p->after);
    if (p->json) {
        print_json(p, &was, &is);
    } else {
        print_report(p, &was, &is);
    }
    return CLI_DONE;
}

/* Releases everything; returns the code. */
static int end(pruned *p, int code)
{
    xsm_dataset_free(p->rows);
    xsm_model_free(p->after);
    xsm_model_free(p->before);
    xsm_context_free(p->context);
    return code;
}

/* The options that both commands have. */
#define MODEL_FLAGS(p)                                                                                                 \
    {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},                                                      \
        {"model", CLI_INPUT, &(p).from, "FILE", "the saved model", NULL, 0, 0, 0, 1},                                  \
    {                                                                                                                  \
        "output", CLI_OUTPUT, &(p).to, "FILE", "the model to write", NULL, 0, 0, 0, 1                                  \
    }
#define TEST_FLAGS(p)                                                                                                  \
    {"test", CLI_INPUT, &p.test, "FILE", "rows with labels, to say what is lost; - is standard input",                 \
     NULL,   0,         0,       0,      0},                                                                           \
        CLI_IN_PLACE_FLAG(p.in_place), CLI_DATA_FLAGS(p.format),                                                       \
        {"labels",                                                                                                     \
         CLI_CHOICE,                                                                                                   \
         &p.format.labels,                                                                                             \
         "WHICH",                                                                                                      \
         "labels kept of a row: first, smallest or all (as in training)",                                              \
         cli_label_words,                                                                                              \
         0,                                                                                                            \
         0,                                                                                                            \
         0,                                                                                                            \
         0},                                                                                                           \
        {"threads", CLI_WHOLE, &p.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},                                 \
    {                                                                                                                  \
        "json", CLI_SWITCH, &p.json, NULL, "print one JSON object instead of the report", NULL, 0, 0, 0, 0             \
    }

int cli_convert_model(const cli_command *command, int argc, char **argv)
{
    pruned p = {.format = CLI_DATA_INIT, .type = -1};
    const cli_flag flags[] = {
        MODEL_FLAGS(p),
        {"type", CLI_CHOICE, &p.type, "NAME", "type of the weights: " TYPE_TEXT, type_words, 0, 0, 0, 0},
        TEST_FLAGS(p),
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    if (code == CLI_GO_ON && p.type < 0) {
        code = cli_misuse("to what type? --type says so: " TYPE_TEXT);
    }
    return end(&p, code == CLI_GO_ON ? run(&p) : code);
}

int cli_prune(const cli_command *command, int argc, char **argv)
{
    pruned p = {.format = CLI_DATA_INIT, .type = -1};
    const cli_flag flags[] = {
        MODEL_FLAGS(p),
        {"below", CLI_REAL, &p.below, "X", "leave out weights of a smaller absolute value", NULL, 0, 1e30, 1, 0},
        {"keep", CLI_WHOLE, &p.keep, "N", "keep the N weights of each class with the largest absolute values", NULL, 1,
         XSM_FEATURES_MAX, 0, 0},
        TEST_FLAGS(p),
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    if (code == CLI_GO_ON && p.below == 0 && p.keep == 0) {
        code = cli_misuse("what is to be left out? --below X or --keep N says so");
    }
    return end(&p, code == CLI_GO_ON ? run(&p) : code);
}
