/*
 * xsoftmax predict: the best classes of each row. A predictor belongs to one thread, so each thread has its own; a
 * window of rows is cut into a slice for each thread, and printed in the order of the rows when all are done.
 */
#include "cli.h"

#include <pthread.h>
#include <stdlib.h>

/* Rows of a thread's slice of a window: enough for tiles of rows to be scored together. */
#define SLICE_ROWS 256

typedef struct slice {
    xsm_predictor *predictor;
    xsm_batch batch;
    uint32_t *classes;
    float *scores;
    double *probabilities;
    xsm_status status;
    xsm_error err;
    pthread_t thread;
    int started; /* the thread is to be waited for */
} slice;

typedef struct prediction {
    const char *model_path, *data;
    cli_data format;
    uint64_t top, threads;
    int probabilities;

    xsm_context *context;
    xsm_model *model;
    xsm_dataset *rows;
    slice *slices;
    size_t slice_count;
} prediction;

static void *predict_slice(void *argument)
{
    slice *s = argument;
    s->status = xsm_predictor_run(s->predictor, &s->batch, s->classes, s->scores, s->probabilities, &s->err);
    return NULL;
}

static int make_slices(prediction *p)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_predictor_options options = XSM_PREDICTOR_OPTIONS_INIT;
    options.top = (uint32_t)p->top;
    p->slice_count = xsm_context_threads(p->context);
    p->slices = calloc(p->slice_count, sizeof *p->slices);
    if (!p->slices) {
        p->slice_count = 0;
        return cli_fail("out of memory");
    }
    for (size_t i = 0; i < p->slice_count; i++) {
        slice *s = &p->slices[i];
        s->err = (xsm_error)XSM_ERROR_INIT;
        if (xsm_predictor_new(p->model, &options, &s->predictor, &err) != XSM_OK) {
            return cli_library_failed(&err);
        }
        size_t places = (size_t)SLICE_ROWS * xsm_predictor_top(s->predictor);
        s->classes = calloc(places, sizeof *s->classes);
        s->scores = p->probabilities ? NULL : calloc(places, sizeof *s->scores);
        s->probabilities = p->probabilities ? calloc(places, sizeof *s->probabilities) : NULL;
        if (!s->classes || (!s->scores && !s->probabilities)) {
            return cli_fail("out of memory");
        }
    }
    return CLI_GO_ON;
}

/* "label:value" pairs with tabs between, a line a row; a name may have spaces, and colons too, so a value is what
 * follows the last colon. */
static void print_slice(const slice *s, const xsm_class_map *map)
{
    uint32_t top = xsm_predictor_top(s->predictor);
    for (size_t i = 0; i < s->batch.count; i++) {
        for (uint32_t j = 0; j < top; j++) {
            size_t place = i * top + j;
            uint32_t k = s->classes[place];
            if (j > 0) {
                putchar('\t');
            }
            if (map->names) {
                fputs(map->names[k], stdout);
            } else {
                printf("%lld", map->labels ? (long long)map->labels[k] : (long long)k);
            }
            printf(":%.6g", s->scores ? (double)s->scores[place] : s->probabilities[place]);
        }
        putchar('\n');
    }
}

/* Gives each thread its slice of the rows from `first` on, the first slice to this thread. */
static int run_window(prediction *p, uint64_t first, uint64_t rows, size_t *used)
{
    size_t count = 0;
    for (; count < p->slice_count && first < rows; count++) {
        slice *s = &p->slices[count];
        uint64_t left = rows - first;
        s->batch = xsm_batch_range(p->rows, first, left < SLICE_ROWS ? left : SLICE_ROWS);
        first += s->batch.count;
        s->started = count > 0 && pthread_create(&s->thread, NULL, predict_slice, s) == 0;
        if (count > 0 && !s->started) {
            predict_slice(s);
        }
    }
    predict_slice(&p->slices[0]);
    for (size_t i = 1; i < count; i++) {
        if (p->slices[i].started) {
            pthread_join(p->slices[i].thread, NULL);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (p->slices[i].status != XSM_OK) {
            return cli_fail("%s: %s", p->data, p->slices[i].err.message);
        }
    }
    *used = count;
    return CLI_GO_ON;
}

static int predict(prediction *p)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    int code = cli_context(p->threads, &p->context);
    code = code == CLI_GO_ON ? cli_load(p->context, p->model_path, &p->model) : code;
    code = code == CLI_GO_ON ? cli_read_for_model(p->context, p->data, &p->format, p->model, &p->rows) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_model_get_classes(p->model, &map, &err) != XSM_OK || xsm_dataset_get_info(p->rows, &info, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    code = make_slices(p);
    for (uint64_t first = 0; code == CLI_GO_ON && first < info.rows;) {
        size_t used = 0;
        code = run_window(p, first, info.rows, &used);
        for (size_t i = 0; code == CLI_GO_ON && i < used; i++) {
            print_slice(&p->slices[i], &map);
            first += p->slices[i].batch.count;
        }
        if (ferror(stdout)) {
            break; /* main() says so */
        }
    }
    return code == CLI_GO_ON ? CLI_DONE : code;
}

static void release(prediction *p)
{
    for (size_t i = 0; i < p->slice_count; i++) {
        xsm_predictor_free(p->slices[i].predictor);
        free(p->slices[i].classes);
        free(p->slices[i].scores);
        free(p->slices[i].probabilities);
    }
    free(p->slices);
    xsm_dataset_free(p->rows);
    xsm_model_free(p->model);
    xsm_context_free(p->context);
}

int cli_predict(const cli_command *command, int argc, char **argv)
{
    prediction p = {.format = CLI_DATA_INIT, .top = 5};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "Options", NULL, 0, 0, 0, 0},
        {"model", CLI_TEXT, &p.model_path, "FILE", "the saved model", NULL, 0, 0, 0, 1},
        {"data", CLI_TEXT, &p.data, "FILE", "rows, with or without labels; - is standard input", NULL, 0, 0, 0, 1},
        CLI_DATA_FLAGS(p.format),
        {"top", CLI_WHOLE, &p.top, "K", "classes a row, or as many as there are (5)", NULL, 1, 65536, 0, 0},
        {"probabilities", CLI_SWITCH, &p.probabilities, NULL, "print probabilities instead of scores", NULL, 0, 0, 0,
         0},
        {"threads", CLI_WHOLE, &p.threads, "T", "threads (all)", NULL, 1, 4096, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, 0, argc, argv);
    if (code == CLI_GO_ON) {
        code = predict(&p);
    }
    release(&p);
    return code;
}
