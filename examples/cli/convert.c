/* xsoftmax convert: writes a data file in another format. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* In the order of XSM_FORMAT_*, without auto and text. */
static const char *const to_words[] = {"xc", "libsvm", "csv", "tsv", "npy", "cache", NULL};
static const int32_t to_formats[] = {XSM_FORMAT_XC,  XSM_FORMAT_LIBSVM, XSM_FORMAT_CSV,
                                     XSM_FORMAT_TSV, XSM_FORMAT_NPY,    XSM_FORMAT_CACHE};

typedef struct conversion {
    const char *data, *like, *output, *rest, *label_names, *labels_to, *names_to, *weights_to, *to_label_column,
        *to_weights_column;
    cli_data format;
    int to, to_base, drop, shuffle;
    uint64_t min_label_count;
    double split;  /* 0 = all rows are written to one file */
    uint64_t seed; /* UINT64_MAX until the flags are read */

    xsm_context *context;
    xsm_dataset *rows, *part, *others;
    /* --like: what it is, with its classes and features */
    xsm_model *like_model;
    xsm_dataset *like_rows;
    xsm_class_map map;
} conversion;

/* Loads the model or cache of --like. */
static int load_like(conversion *c)
{
    xsm_error err = XSM_ERROR_INIT;
    if (!c->like) {
        return CLI_GO_ON;
    }
    if (cli_looks_like_model(c->like)) {
        int code = cli_load(c->context, c->like, &c->like_model);
        if (code != CLI_GO_ON) {
            return code;
        }
        const int asked = c->format.labels;
        c->format.labels = cli_labels_kept(c->like_model, asked);
        if (asked < 0 && c->format.labels > XSM_KEEP_LABELS_ALL) {
            fprintf(stderr,
                    "xsoftmax: the %s label of a row is kept, as in the training of %s; --labels all keeps all\n",
                    cli_label_words[c->format.labels], c->like);
        }
    } else {
        xsm_read_options options = XSM_READ_OPTIONS_INIT;
        options.format = XSM_FORMAT_CACHE;
        if (xsm_dataset_read(c->context, c->like, NULL, &options, &c->like_rows, &err) != XSM_OK) {
            return cli_fail("--like takes a model or a cache: %s", err.message);
        }
    }
    if ((c->like_model ? xsm_model_get_class_map(c->like_model, &c->map, &err)
                       : xsm_dataset_get_class_map(c->like_rows, &c->map, &err)) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (to_formats[c->to] == XSM_FORMAT_LIBSVM && c->to_base == XSM_INDEX_BASE_AUTO) {
        c->to_base = c->map.index_base;
    }
    return CLI_GO_ON;
}

/* Says what of the rows --like lacks. */
static int note_new(const conversion *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    cli_buffer a;
    if (xsm_dataset_get_info(c->rows, &info, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (info.classes > c->map.classes) {
        fprintf(stderr, "xsoftmax: classes that %s lacks: %s\n", c->like,
                cli_grouped(info.classes - c->map.classes, &a));
    }
    char *left_out = cli_left_out(&info, c->map.vocabulary != NULL, c->like);
    if (left_out) {
        fprintf(stderr, "xsoftmax: %s\n", left_out);
    }
    free(left_out);
    return CLI_GO_ON;
}

/* Says that files of words, or of classes with names, that are converted apart have other numbers for them, where they
 * do not say which. */
static int note_numbers(const conversion *c)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    const int32_t to = to_formats[c->to];
    if (c->like || (to != XSM_FORMAT_XC && to != XSM_FORMAT_LIBSVM && to != XSM_FORMAT_NPY)) {
        return CLI_GO_ON;
    }
    if (xsm_dataset_get_class_map(c->rows, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (map.vocabulary) {
        fprintf(stderr,
                "xsoftmax: note: %s does not say which word a feature is; other files get the same features by --like "
                "with a cache (--to cache) or model of this one\n",
                to_words[c->to]);
    }
    if (c->names_to && (map.names || c->label_names)) {
        fprintf(stderr,
                "xsoftmax: note: %s numbers the classes, whose names go to --names-to, as they are in this file; other "
                "files get the same numbers by --like with a cache (--to cache) or model of this one\n",
                to_words[c->to]);
    }
    return CLI_GO_ON;
}

static int read_rows(conversion *c)
{
    xsm_error err = XSM_ERROR_INIT;
    char *folder = NULL;
    cli_data format = c->format;
    if (to_formats[c->to] == XSM_FORMAT_CACHE && !format.spool && format.format != XSM_FORMAT_CACHE) {
        const char *temporary = getenv("TMPDIR");
        struct stat st;
        const int nowhere = stat(c->output, &st) == 0 && !S_ISREG(st.st_mode); /* a pipe has no folder */
        format.spool = folder = nowhere ? cli_format("%s", temporary ? temporary : "/tmp") : cli_folder_of(c->output);
    }
    format.new_labels = c->like != NULL;
    if (c->like_model) {
        cli_recall_table(c->like_model, &format);
    }
    int code = cli_read(c->context, c->data, &format, c->like ? &c->map : NULL, &c->rows);
    free(folder);
    code = code == CLI_GO_ON ? cli_data_used(&c->format, (const xsm_dataset *const[]){c->rows}, 1) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    code = c->like ? note_new(c) : note_numbers(c);
    if (code != CLI_GO_ON) {
        return code;
    }
    uint64_t dropped = 0, rare = 0;
    if ((c->label_names && xsm_dataset_read_names(c->rows, c->label_names, &err) != XSM_OK) ||
        (c->min_label_count > 0 &&
         xsm_dataset_drop_rare_labels(c->rows, c->min_label_count, c->like ? &c->map : NULL, &rare, &err) != XSM_OK) ||
        (c->drop && xsm_dataset_drop(c->rows, XSM_DROP_UNLABELLED | XSM_DROP_EMPTY, &dropped, &err) != XSM_OK)) {
        return cli_fail("%s: %s", c->data, err.message);
    }
    if (rare > 0) {
        fprintf(stderr, "xsoftmax: %llu labels of fewer than %llu rows are left out\n", (unsigned long long)rare,
                (unsigned long long)c->min_label_count);
    }
    if (dropped > 0) {
        fprintf(stderr, "xsoftmax: %llu rows without a label or a feature are left out\n", (unsigned long long)dropped);
    }
    if ((c->shuffle && xsm_dataset_shuffle(c->rows, c->seed, &err) != XSM_OK) ||
        (c->split > 0 && xsm_dataset_split(c->rows, c->split, c->seed, &c->part, &c->others, &err) != XSM_OK)) {
        return cli_fail("%s: %s%s", c->data, err.status == XSM_ERROR_RANGE ? "--split: " : "", err.message);
    }
    return CLI_GO_ON;
}

static int write_rows(const conversion *c, const xsm_dataset *rows, const char *output)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_write_options options = XSM_WRITE_OPTIONS_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    options.format = to_formats[c->to];
    options.index_base = c->to_base;
    options.label_column = c->to_label_column;
    options.weights_column = c->to_weights_column;
    options.labels_path = c->labels_to;
    options.names_path = c->names_to;
    options.weights_path = c->weights_to;
    if (xsm_dataset_get_info(rows, &info, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    const int one_label =
        options.format == XSM_FORMAT_CSV || options.format == XSM_FORMAT_TSV || options.format == XSM_FORMAT_NPY;
    if (one_label && info.labels > info.rows - info.unlabelled) {
        return cli_fail("%s has rows with several labels, and %s holds one a row; --labels first or --labels smallest "
                        "keeps that one",
                        c->data, to_words[c->to]);
    }
    cli_note("writing %s ...", output);
    xsm_status status = xsm_dataset_write(rows, output, &options, &err);
    cli_note_clear();
    if (status == XSM_ERROR_IO || status == XSM_CANCELLED) { /* for names of files */
        return cli_library_failed(&err);
    }
    if (status != XSM_OK) {
        return cli_fail("%s: %s", cli_output_shown(output), err.message);
    }
    cli_buffer a, b, d, e;
    printf("%s: %s rows, %s features, %s classes; peak memory %s\n", cli_output_shown(output),
           cli_grouped(info.rows, &a), cli_grouped(info.features, &b), cli_grouped(info.classes, &d),
           cli_bytes((double)cli_peak_bytes(), &e));
    return CLI_GO_ON;
}

/* Checks for incompatible flags, before anything is read. */
static int check(conversion *c)
{
    if (c->seed != UINT64_MAX && !c->shuffle && !c->rest && c->split <= 0) {
        return cli_misuse("--seed is of --shuffle and --split, and nothing else is random");
    }
    c->seed = c->seed != UINT64_MAX ? c->seed : 1;
    if ((c->split > 0) != (c->rest != NULL)) {
        return cli_misuse("--split SHARE and --rest FILE go together: the rows of neither are lost");
    }
    if (c->like && (c->label_names || c->format.min_count > 0)) {
        return cli_misuse("--%s: the %s are those of --like", c->label_names ? "label-names" : "min-count",
                          c->label_names ? "names of labels" : "words");
    }
    const int32_t to = to_formats[c->to];
    if (c->to_base != XSM_INDEX_BASE_AUTO && to != XSM_FORMAT_LIBSVM) {
        return cli_misuse("--to-index-base is of --to libsvm, not %s", to_words[c->to]);
    }
    if (c->to_label_column && to != XSM_FORMAT_CSV && to != XSM_FORMAT_TSV) {
        return cli_misuse("--to-label-column is of --to csv or tsv, not %s", to_words[c->to]);
    }
    if (c->to_weights_column && to != XSM_FORMAT_CSV && to != XSM_FORMAT_TSV) {
        return cli_misuse("--to-weights-column is of --to csv or tsv, not %s", to_words[c->to]);
    }
    if (c->to_weights_column && c->weights_to) {
        return cli_misuse("--weights-to and --to-weights-column: the weights go to one of them");
    }
    if (c->labels_to && to != XSM_FORMAT_NPY) {
        return cli_misuse("--labels-to is of --to npy, not %s", to_words[c->to]);
    }
    if (c->names_to && to != XSM_FORMAT_XC && to != XSM_FORMAT_LIBSVM && to != XSM_FORMAT_NPY) {
        return cli_misuse("--names-to is of --to xc, libsvm and npy; %s has the names in itself", to_words[c->to]);
    }
    if (c->rest && c->labels_to) {
        return cli_misuse("--split: two parts cannot share the file of --labels-to; split first, then convert to npy");
    }
    if (c->weights_to && to == XSM_FORMAT_CACHE) {
        return cli_misuse("--weights-to: a cache has the weights in itself");
    }
    if (c->rest && c->weights_to) {
        return cli_misuse("--split: two parts cannot share the file of --weights-to; split into caches first");
    }
    return CLI_GO_ON;
}

int cli_convert(const cli_command *command, int argc, char **argv)
{
    conversion c = {.format = CLI_DATA_INIT, .to = -1, .seed = UINT64_MAX, .map = XSM_CLASS_MAP_INIT};
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, NULL, "What is read", NULL, 0, 0, 0, 0},
        {"data", CLI_INPUT, &c.data, "FILE", "rows to convert; - is standard input", NULL, 0, 0, 0, 1},
        {"like", CLI_INPUT, &c.like, "FILE", "read the rows for this model, or like those of this cache", NULL, 0, 0, 0,
         0},
        CLI_DATA_FLAGS(c.format),
        CLI_WEIGHTS_FLAG(c.format),
        CLI_LABEL_WEIGHTS_FLAG(c.format),
        CLI_TEXT_FLAGS(c.format),
        {"labels", CLI_CHOICE, &c.format.labels, "WHICH", "labels kept of a row: all, first or smallest (all)",
         cli_label_words, 0, 0, 0, 0},
        {"label-names", CLI_INPUT, &c.label_names, "FILE", "names of the labels, line i (from 0) naming label i", NULL,
         0, 0, 0, 0},
        {"min-label-count", CLI_WHOLE, &c.min_label_count, "N",
         "leave out labels that fewer rows have, but those of --like (1)", NULL, 1, 1e15, 0, 0},
        {"drop", CLI_SWITCH, &c.drop, NULL, "leave out rows without a label or without a feature", NULL, 0, 0, 0, 0},
        {"shuffle", CLI_SWITCH, &c.shuffle, NULL, "put the rows into a random order", NULL, 0, 0, 0, 0},
        {"split", CLI_REAL, &c.split, "SHARE", "only so many of the rows, drawn at random, go to --output: 0.9", NULL,
         0, 1, 1, 0},
        {"rest", CLI_OUTPUT, &c.rest, "FILE", "--split: where the others go", NULL, 0, 0, 0, 0},
        {"seed", CLI_WHOLE, &c.seed, "S", "of --shuffle and --split (1)", NULL, 0, 9007199254740992.0, 0, 0},
        {NULL, CLI_HEADING, NULL, NULL, "What is written", NULL, 0, 0, 0, 0},
        {"to", CLI_CHOICE, &c.to, "FORMAT", "xc, libsvm, csv, tsv, npy or cache", to_words, 0, 0, 0, 1},
        {"output", CLI_OUTPUT, &c.output, "FILE", "the file to write", NULL, 0, 0, 0, 1},
        {"to-index-base", CLI_CHOICE, &c.to_base, "BASE",
         "libsvm: first feature index, 0 or 1 (that of the data, or 1)", cli_base_words, 0, 0, 0, 0},
        {"to-label-column", CLI_TEXT, &c.to_label_column, "NAME", "csv and tsv: name of the label column (label)", NULL,
         0, 0, 0, 0},
        {"to-weights-column", CLI_TEXT, &c.to_weights_column, "NAME",
         "csv and tsv: name of a column for the weights of the rows", NULL, 0, 0, 0, 0},
        {"labels-to", CLI_OUTPUT, &c.labels_to, "FILE", "npy: file for the labels", NULL, 0, 0, 0, 0},
        {"names-to", CLI_OUTPUT, &c.names_to, "FILE", "xc, libsvm and npy: file for the names of classes", NULL, 0, 0,
         0, 0},
        {"weights-to", CLI_OUTPUT, &c.weights_to, "FILE", "all but cache: file for the weights of the rows", NULL, 0, 0,
         0, 0},
        {"spool", CLI_TEXT, &c.format.spool, "FOLDER",
         "keep rows in temporary files there, not in memory (for caches: the output's folder)", NULL, 0, 0, 0, 0},
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], NULL, argc, argv);
    code = code == CLI_GO_ON ? check(&c) : code;
    code = code == CLI_GO_ON ? cli_context(0, &c.context) : code;
    code = code == CLI_GO_ON ? load_like(&c) : code;
    code = code == CLI_GO_ON ? read_rows(&c) : code;
    code = code == CLI_GO_ON ? write_rows(&c, c.rest ? c.part : c.rows, c.output) : code;
    code = code == CLI_GO_ON && c.rest ? write_rows(&c, c.others, c.rest) : code;
    xsm_dataset_free(c.others);
    xsm_dataset_free(c.part);
    xsm_dataset_free(c.rows);
    xsm_dataset_free(c.like_rows);
    xsm_model_free(c.like_model);
    xsm_context_free(c.context);
    return code == CLI_GO_ON ? CLI_DONE : code;
}
