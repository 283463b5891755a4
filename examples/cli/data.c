/* Reads data and models according to the flags. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xsoftmax/vocabulary.h>

/* In the order of XSM_FORMAT_*, XSM_KEEP_LABELS_*, XSM_INDEX_BASE_*, XSM_DUPLICATES_*,
 * XSM_BAD_BYTES_* and XSM_HEADER_*. */
const char *const cli_format_words[] = {"auto", "xc", "libsvm", "csv", "tsv", "text", "npy", "cache", "npz", NULL};
const char *const cli_label_words[] = {"all", "first", "smallest", NULL};
const char *const cli_base_words[] = {"auto", "0", "1", NULL};
const char *const cli_duplicate_words[] = {"fail", "sum", NULL};
const char *const cli_header_words[] = {"auto", "yes", "no", NULL};
const char *const cli_bad_byte_words[] = {"fail", "replace", NULL};

const char *cli_format_name(int32_t format)
{
    static const char *const names[] = {
        "", "Extreme Classification text", "LIBSVM text", "CSV", "TSV", "words", "NumPy", "a cache", "a NumPy archive"};
    return format > 0 && format < (int32_t)(sizeof names / sizeof names[0]) ? names[format] : "memory";
}

int cli_reads_words(const xsm_model *model)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    return xsm_model_get_class_map(model, &map, NULL) == XSM_OK && map.vocabulary;
}

char *cli_left_out(const xsm_dataset_info *info, int words, const char *owner)
{
    cli_buffer a;
    if (info->dropped_features > 0) {
        return cli_format("left out %s times: %s that %s lacks", cli_grouped(info->dropped_features, &a),
                          words ? "words" : "features", owner);
    }
    return info->unknown_features > 0
               ? cli_format("left out: %s columns that %s lacks", cli_grouped(info->unknown_features, &a), owner)
               : NULL;
}

uint64_t cli_largest_number(const xsm_class_map *map)
{
    int64_t largest = 0;
    for (uint32_t j = 0; j < map->feature_number_count; j++) {
        largest = map->feature_numbers[j] > largest ? map->feature_numbers[j] : largest;
    }
    return (uint64_t)largest;
}

#define ONE_RANK "standard input is given to one rank alone; each of several reads a file"

static cli_ahead ahead; /* what is left of it */

void cli_read_ahead(const cli_ahead *bytes)
{
    ahead = bytes ? *bytes : (cli_ahead){{NULL, NULL}, {0, 0}, 0, 0};
}

int64_t cli_read_input(void *user, void *buffer, size_t size)
{
    ssize_t got;
    (void)user;
    for (size_t i = 0; i < 2; i++) {
        const size_t count = ahead.count[i] < size ? ahead.count[i] : size;
        if (count > 0) {
            memcpy(buffer, ahead.bytes[i], count);
            ahead.bytes[i] += count;
            ahead.count[i] -= count;
            return (int64_t)count;
        }
    }
    if (ahead.alone) {
        return 0;
    }
    /* A pipe may have nothing for long. */
    for (struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN}; poll(&in, 1, 50) == 0;) {
        if (cli_stop_waits()) {
            return -1;
        }
    }
    do {
        got = read(STDIN_FILENO, buffer, size);
    } while (got < 0 && errno == EINTR);
    return got;
}

int cli_need_labels(const char *path, const xsm_dataset *rows)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    if (xsm_dataset_get_info(rows, &info, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (info.unlabelled < info.rows) {
        return CLI_GO_ON;
    }
    return cli_fail("%s: no row has a label%s", path,
                    info.format == XSM_FORMAT_NPY
                        ? "; those of a NumPy matrix are in a file of their own (--labels-from FILE, and of the rows "
                          "to test --test-labels-from FILE) or in a column of it (--label-column NUMBER)"
                    : info.format == XSM_FORMAT_LIBSVM ? "; --label-weights reads labels with weights, 3:0.5"
                    : info.format == XSM_FORMAT_XC
                        ? "; where the rows of XC text have none, they are in a file of their own (--labels-from FILE, "
                          "and of the rows to test --test-labels-from FILE)"
                    : info.format == XSM_FORMAT_CSV || info.format == XSM_FORMAT_TSV
                        ? "; the column of labels is --label-column, a name or a number (label)"
                        : "");
}

#define IS(format) (1U << XSM_FORMAT_##format)

/* Refuses a flag that was given and applies to none of the `formats`, a set of IS(); `found` names the formats that
 * were read. */
static int check_formats(const cli_data *data, unsigned formats, const char *found, int code)
{
    const unsigned text = IS(TEXT) | (data->text_column ? IS(CSV) | IS(TSV) : 0);
    const unsigned memory = IS(XC) | IS(LIBSVM) | IS(CSV) | IS(TSV) | IS(TEXT) | IS(NPY) | IS(NPZ);
    const struct {
        const char *flag;
        int given;
        unsigned formats;
        const char *accepted;
    } flags[] = {
        {"index-base", data->index_base != XSM_INDEX_BASE_AUTO, IS(LIBSVM), "libsvm"},
        {"label-column", data->label_column != NULL, IS(CSV) | IS(TSV) | IS(NPY), "csv, tsv and npy"},
        {"header", data->header != XSM_HEADER_AUTO, IS(CSV) | IS(TSV), "csv and tsv"},
        {"separator", data->separator != NULL, IS(CSV) | IS(TSV), "csv and tsv"},
        {"ignore-columns", data->ignore_columns != NULL, IS(CSV) | IS(TSV), "csv and tsv"},
        {"label-separator", data->label_separator != NULL, IS(CSV) | IS(TSV), "csv and tsv"},
        {"text-column", data->text_column != NULL, IS(CSV) | IS(TSV), "csv and tsv"},
        {"weights-column", data->weights_column != NULL, IS(CSV) | IS(TSV) | IS(NPY), "csv, tsv and npy"},
        {"label-weights", data->label_weights, IS(XC) | IS(LIBSVM) | IS(TEXT) | IS(NPZ), "xc, libsvm, text and npz"},
        {"labels-from", data->labels_from != NULL, IS(XC) | IS(NPY) | IS(NPZ), "xc, npy and npz"},
        {"test-labels-from", data->test_labels_from != NULL, IS(XC) | IS(NPY) | IS(NPZ), "xc, npy and npz"},
        {"duplicates", data->duplicates != XSM_DUPLICATES_FAIL, IS(XC) | IS(LIBSVM) | IS(NPZ), "xc, libsvm and npz"},
        {"bad-bytes", data->bad_bytes != XSM_BAD_BYTES_FAIL, IS(CSV) | IS(TSV) | IS(TEXT), "csv, tsv and text"},
        {"no-verify", data->believe, IS(CACHE), "cache"},
        {"spool", data->spool != NULL, memory, "every format but cache, which is mapped"},
        {"label-prefix", data->label_prefix != NULL, text, "text"},
        {"min-count", data->min_count > 0, text, "text"},
        {"word-ngrams", data->word_ngrams > 0, text, "text"},
        {"min-chars", data->min_chars > 0, text, "text"},
        {"max-chars", data->max_chars > 0, text, "text"},
        {"buckets", data->buckets > 0, text, "text"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        if (!flags[i].given || (flags[i].formats & formats)) {
            continue;
        }
        (void)cli_fail("--%s is for %s, and %s", flags[i].flag, flags[i].accepted, found);
        return code;
    }
    return CLI_GO_ON;
}

int cli_data_used(const cli_data *data, const xsm_dataset *const *read, size_t count)
{
    unsigned formats = 0;
    for (size_t i = 0; i < count; i++) {
        xsm_error err = XSM_ERROR_INIT;
        xsm_dataset_info info = XSM_DATASET_INFO_INIT;
        if (read[i] && xsm_dataset_get_info(read[i], &info, &err) != XSM_OK) {
            return cli_library_failed(&err);
        }
        formats |= read[i] ? 1U << info.format : 0;
    }
    char *found = cli_format("%s", "");
    for (int32_t f = XSM_FORMAT_XC; f <= XSM_FORMAT_NPZ; f++) {
        if (formats >> f & 1) {
            char *longer = cli_format("%s%s%s", found, *found ? " and " : "the rows read are ", cli_format_words[f]);
            free(found);
            found = longer;
        }
    }
    int code = check_formats(data, formats, found, CLI_FAILED);
    free(found);
    return code;
}

int cli_data_unused(const cli_data *data, const char *path)
{
    if (data->format != XSM_FORMAT_AUTO) {
        return cli_fail("--format is for data, and %s is a model", path);
    }
    char *found = cli_format("%s is a model", path);
    int code = check_formats(data, 0, found, CLI_FAILED);
    free(found);
    return code;
}

/* How text is read: as a vocabulary's was, with which flags must agree, but for the least count of new words. */
static int read_text_flags(const cli_data *data, const xsm_vocabulary *vocabulary, xsm_text_options *text)
{
    xsm_error err = XSM_ERROR_INIT;
    if (vocabulary && xsm_vocabulary_get_options(vocabulary, text, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    const struct {
        const char *flag;
        uint64_t given;
        uint32_t *value;
    } numbers[] = {{"word-ngrams", data->word_ngrams, &text->word_ngrams},
                   {"min-chars", data->min_chars, &text->min_chars},
                   {"max-chars", data->max_chars, &text->max_chars},
                   {"buckets", data->buckets, &text->buckets}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (vocabulary && numbers[i].given > 0 && numbers[i].given != *numbers[i].value) {
            return cli_misuse("--%s %llu: the model's text was read with %u, and rows for it are read like it",
                              numbers[i].flag, (unsigned long long)numbers[i].given, *numbers[i].value);
        }
        *numbers[i].value = vocabulary ? *numbers[i].value : (uint32_t)numbers[i].given;
    }
    if (vocabulary && data->label_prefix && strcmp(data->label_prefix, text->label_prefix) != 0) {
        return cli_misuse("--label-prefix %s: the labels of the model's text begin with %s, and rows for it are read "
                          "like it",
                          data->label_prefix, text->label_prefix);
    }
    text->label_prefix = vocabulary ? text->label_prefix : data->label_prefix;
    text->word_ngrams = data->ngrams_open && !vocabulary ? 2 : text->word_ngrams;
    text->min_count = data->min_count > 0 ? (uint32_t)data->min_count : text->min_count;
    return CLI_GO_ON;
}

/* Numbers the line of a message as that of the input, of which `before` lines came before those that were read. */
static void count_lines(xsm_error *err, uint64_t before)
{
    char *at = before > 0 ? strstr(err->message, ", line ") : NULL, *end = NULL;
    const unsigned long long line = at ? strtoull(at + 7, &end, 10) : 0;
    if (at && end != at + 7) {
        char *rest = cli_format("%s", end);
        snprintf(at + 7, sizeof err->message - (size_t)(at + 7 - err->message), "%llu%s", line + before, rest);
        free(rest);
    }
}

/* Separators that a shell does not like have names. */
static const char *separator_of(const char *given)
{
    return !given                                                   ? NULL
           : strcmp(given, "tab") == 0 || strcmp(given, "\\t") == 0 ? "\t"
           : strcmp(given, "space") == 0                            ? " "
                                                                    : given;
}

int cli_read(xsm_context *context, const char *path, const cli_data *data, const xsm_class_map *classes,
             xsm_dataset **out)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_read_options options = XSM_READ_OPTIONS_INIT;
    options.format = data->format;
    options.index_base = data->index_base;
    options.labels = data->labels >= 0 ? data->labels : XSM_KEEP_LABELS_ALL;
    options.label_column = data->label_column;
    options.weights_column = data->weights_column;
    options.classes = classes;
    options.labels_path = data->labels_from;
    options.spool = data->spool;
    options.skip_verify = data->believe;
    options.weights_path = data->weights;
    options.label_weights = data->label_weights;
    options.new_features = data->new_features;
    options.new_labels = data->new_labels;
    options.duplicates = data->duplicates;
    options.bad_bytes = data->bad_bytes;
    options.header = data->header;
    options.separator = separator_of(data->separator);
    options.ignore_columns = data->ignore_columns;
    options.label_separator = separator_of(data->label_separator);
    options.text_column = data->text_column;
    options.recalled = data->recalled;
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    if (read_text_flags(data, classes ? classes->vocabulary : NULL, &text) != CLI_GO_ON) {
        return CLI_USAGE;
    }
    if (text.min_chars > text.max_chars) {
        return cli_misuse("--min-chars %u: --max-chars must be as large or larger; it is %s%u", text.min_chars,
                          text.max_chars == 0 ? "not given, so " : "", text.max_chars);
    }
    if (data->buckets > 0 && text.word_ngrams <= 1 && text.max_chars == 0) {
        return cli_misuse("--buckets are of n-grams, and there are none without --word-ngrams or --max-chars");
    }
    char *asked = cli_format("--format is %s", cli_format_words[data->format]);
    int code = data->format == XSM_FORMAT_AUTO ? CLI_GO_ON : check_formats(data, 1U << data->format, asked, CLI_USAGE);
    free(asked);
    if (code != CLI_GO_ON) {
        return code;
    }
    options.text = classes && classes->vocabulary && !data->new_features ? NULL : &text;
    xsm_status status;
    if (strcmp(path, "-") == 0 && cli_group) {
        return cli_misuse(ONE_RANK);
    }
    if (strcmp(path, "-") == 0) {
        xsm_source source = {sizeof source, NULL, cli_read_input};
        cli_note("reading standard input ...");
        status = xsm_dataset_read(
            context, NULL, &(xsm_storage){.size = sizeof(xsm_storage), .name = "standard input", .source = &source},
            &options, out, &err);
    } else {
        cli_note("reading %s ...", path);
        status = xsm_dataset_read(context, path, NULL, &options, out, &err);
    }
    cli_note_clear();
    count_lines(&err, ahead.lines);
    if (status != XSM_OK && status != XSM_CANCELLED && cli_stop_waits()) {
        return cli_fail("cancelled while reading standard input");
    }
    return status == XSM_OK ? CLI_GO_ON : cli_library_failed(&err);
}

int cli_labels_kept(const xsm_model *model, int given)
{
    const char *kept = xsm_model_get_metadata(model, "training.labels");
    for (int i = 0; kept && given < 0 && cli_label_words[i]; i++) {
        if (strcmp(kept, cli_label_words[i]) == 0) {
            return i;
        }
    }
    return given;
}

/* What flags say of tables, by the name that it has in a model. */
#define KEY_HEADER "training.header"
#define KEY_LABEL_WEIGHTS "training.label_weights"
static const struct {
    const char *key;
    size_t offset;
    int bit;
} table_texts[] = {
    {"training.text_column", offsetof(cli_data, text_column), XSM_RECALLED_TEXT_COLUMN},
    {"training.label_column", offsetof(cli_data, label_column), XSM_RECALLED_LABEL_COLUMN},
    {"training.weights_column", offsetof(cli_data, weights_column), XSM_RECALLED_WEIGHTS_COLUMN},
    {"training.ignore_columns", offsetof(cli_data, ignore_columns), XSM_RECALLED_IGNORE_COLUMNS},
    {"training.separator", offsetof(cli_data, separator), XSM_RECALLED_SEPARATOR},
    {"training.label_separator", offsetof(cli_data, label_separator), XSM_RECALLED_LABEL_SEPARATOR},
};

static const char **text_of(cli_data *data, size_t i)
{
    return (const char **)(void *)((char *)data + table_texts[i].offset);
}

int cli_is_of_table(const char *key)
{
    int found = strcmp(key, KEY_HEADER) == 0 || strcmp(key, KEY_LABEL_WEIGHTS) == 0;
    for (size_t i = 0; i < sizeof table_texts / sizeof *table_texts; i++) {
        found |= strcmp(key, table_texts[i].key) == 0;
    }
    return found;
}

xsm_status cli_note_table(xsm_model *model, const cli_data *data, int32_t format, xsm_error *err)
{
    cli_data noted = *data;
    xsm_status status = XSM_OK;
    noted.separator = format == XSM_FORMAT_TSV && data->text_column ? "tab" : data->separator;
    for (size_t i = 0; i < sizeof table_texts / sizeof *table_texts && status == XSM_OK; i++) {
        if (*text_of(&noted, i)) {
            status = xsm_model_set_metadata(model, table_texts[i].key, *text_of(&noted, i), err);
        }
    }
    /* Only in text a label cannot be taken for a feature, or a feature for a label. */
    if (status == XSM_OK && data->label_weights && format == XSM_FORMAT_TEXT) {
        status = xsm_model_set_metadata(model, KEY_LABEL_WEIGHTS, "yes", err);
    }
    return status == XSM_OK && data->header != XSM_HEADER_AUTO
               ? xsm_model_set_metadata(model, KEY_HEADER, cli_header_words[data->header], err)
               : status;
}

/* What a model keeps of tables, where it holds for the format and other flags say nothing of it. */
static const char *kept_text(const xsm_model *model, const cli_data *data, size_t i)
{
    const int bit = table_texts[i].bit;
    const int elsewhere =
        (bit == XSM_RECALLED_SEPARATOR && data->format == XSM_FORMAT_TSV) ||
        (bit == XSM_RECALLED_LABEL_COLUMN && data->labels_from) ||
        (bit != XSM_RECALLED_LABEL_COLUMN && bit != XSM_RECALLED_WEIGHTS_COLUMN && data->format == XSM_FORMAT_NPY);
    return elsewhere ? NULL : xsm_model_get_metadata(model, table_texts[i].key);
}

void cli_recall_table(const xsm_model *model, cli_data *data)
{
    const int asked = data->label_column || data->header != XSM_HEADER_AUTO || data->separator ||
                      data->ignore_columns || data->label_separator || data->text_column;
    const int open = data->format == XSM_FORMAT_AUTO,
              table = open || data->format == XSM_FORMAT_CSV || data->format == XSM_FORMAT_TSV;
    const char *header = table ? xsm_model_get_metadata(model, KEY_HEADER) : NULL;
    const int text = (open && !data->text_column) || data->format == XSM_FORMAT_TEXT;
    data->label_weights |= text && xsm_model_get_metadata(model, KEY_LABEL_WEIGHTS) != NULL;
    for (size_t i = 0; i < sizeof table_texts / sizeof *table_texts && (table || data->format == XSM_FORMAT_NPY); i++) {
        const char *kept = *text_of(data, i) ? NULL : kept_text(model, data, i);
        if (kept) {
            *text_of(data, i) = kept;
            data->recalled |= table_texts[i].bit;
        }
    }
    for (int i = 0; header && data->header == XSM_HEADER_AUTO && cli_header_words[i]; i++) {
        if (strcmp(header, cli_header_words[i]) == 0) {
            data->header = i;
            data->recalled |= XSM_RECALLED_HEADER;
            break;
        }
    }
    if (asked || !open) {
        data->recalled &= ~XSM_RECALLED_TEXT_COLUMN; /* a table, and no text */
    }
}

int cli_read_for_model(xsm_context *context, const char *path, const cli_data *data, const xsm_model *model,
                       xsm_dataset **out)
{
    xsm_error err = XSM_ERROR_INIT;
    cli_data settings = *data;
    xsm_class_map classes = XSM_CLASS_MAP_INIT;
    settings.labels = cli_labels_kept(model, settings.labels);
    cli_recall_table(model, &settings);
    if (xsm_model_get_class_map(model, &classes, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    xsm_dataset *dataset = NULL;
    int code = cli_read(context, path, &settings, &classes, &dataset);
    if (code == CLI_GO_ON && xsm_model_transform(model, dataset, &err) != XSM_OK) {
        code = cli_library_failed(&err);
    }
    if (code != CLI_GO_ON) {
        xsm_dataset_free(dataset);
        return code;
    }
    *out = dataset;
    return CLI_GO_ON;
}

/* What the library warns of; of a pipe, which is read in pieces, once. */
static void print_warning(void *user, int32_t level, const char *message)
{
    static xsm_error last;
    (void)user;
    if (level == XSM_LOG_WARNING && strncmp(last.message, message, sizeof last.message - 1) != 0) {
        xsm_error text = XSM_ERROR_INIT;
        snprintf(last.message, sizeof last.message, "%s", message);
        snprintf(text.message, sizeof text.message, "%s", message);
        cli_name_flags(text.message);
        cli_note_clear();
        fprintf(cli_messages(), "xsoftmax: note: %s\n", text.message);
    }
}

int cli_context(uint64_t threads, xsm_context **out)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_context_options options = XSM_CONTEXT_OPTIONS_INIT;
    options.threads = threads ? (uint32_t)threads : cli_group_threads;
    options.comm = cli_group;
    options.progress = cli_watch;
    options.log = print_warning;
    cli_stop_install();
    return cli_agree(xsm_context_new(&options, out, &err) == XSM_OK ? CLI_GO_ON : cli_library_failed(&err));
}

int cli_load(xsm_context *context, const char *path, xsm_model **out)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_source bytes = {sizeof bytes, NULL, cli_read_input};
    xsm_storage input = XSM_STORAGE_INIT;
    const int piped = strcmp(path, "-") == 0;
    const int code = cli_agree(piped && cli_group ? cli_misuse(ONE_RANK) : CLI_GO_ON);
    if (code != CLI_GO_ON) {
        return code;
    }
    input.name = "standard input";
    input.source = &bytes;
    cli_note("reading %s ...", piped ? input.name : path);
    xsm_status status = xsm_model_load(context, piped ? NULL : path, piped ? &input : NULL, NULL, out, &err);
    cli_note_clear();
    return status == XSM_OK ? CLI_GO_ON : cli_library_failed(&err);
}

int cli_load_for_data(xsm_context *context, const char *path, const char *data, xsm_model **out)
{
    if (access(path, R_OK) == 0 && !cli_looks_like_model(path) && cli_looks_like_model(data)) {
        return cli_fail("%s is no model file, but %s is one; did you swap --model and --data?", path, data);
    }
    return cli_load(context, path, out);
}
