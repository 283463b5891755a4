/* xsoftmax info: describes what a file contains. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xsoftmax/vocabulary.h>
#include <xsoftmax/calibrate.h>

static const char *correction_word(const xsm_model_info *about)
{
    static const char *const words[] = {"none", "classes", "tree", "sampler", "hierarchy", "pairs"};
    return about->correction >= 0 && (size_t)about->correction < sizeof words / sizeof *words ? words[about->correction]
                                                                                              : "of a later release";
}

enum { START = 4096 };

static char start[START]; /* of the file, with an end */

/* A safetensors file starts with the length of its header, eight bytes, and the opening brace of the header. The
 * metadata come first; in a cache of data they say that it is one. */
static int starts_model(size_t got)
{
    start[got] = '\0';
    return got > 8 && start[8] == '{' && start[7] == 0 && !strstr(start + 8, "\"dataset\":\"1\"");
}

/* A value of the metadata at the start, without characters that are escaped; NULL without it. Freed by the caller. */
static char *metadata(const char *key)
{
    char *entry = cli_format("\"%s\":\"", key);
    const char *at = strstr(start + 8, entry), *value = at ? at + strlen(entry) : NULL;
    free(entry);
    return value ? cli_format("%.*s", (int)strcspn(value, "\"\\"), value) : NULL;
}

int cli_looks_like_model(const char *path)
{
    struct stat st; /* what is read of a pipe is gone */
    FILE *file = strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode) ? NULL : fopen(path, "rbe");
    size_t got = file ? fread(start, 1, sizeof start - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    return starts_model(got);
}

int cli_is_tree_checkpoint(const char *path)
{
    char *method = cli_looks_like_model(path) ? metadata("checkpoint.method") : NULL;
    const int is = method != NULL;
    free(method);
    return is;
}

/* The same of a pipe, whose first bytes are kept for who reads it: FILE is - then. */
static int pipe_brings_model(const char **path)
{
    struct stat st;
    const int file =
        strcmp(*path, "-") != 0 && stat(*path, &st) == 0 && S_ISFIFO(st.st_mode) ? open(*path, O_RDONLY) : -1;
    if (file >= 0) {
        (void)dup2(file, STDIN_FILENO);
        close(file);
        *path = "-";
    }
    if (strcmp(*path, "-") != 0) {
        return 0;
    }
    size_t got = 0;
    for (int64_t more = 1; more > 0 && got<sizeof start - 1; got += more> 0 ? (size_t)more : 0) {
        more = cli_read_input(NULL, start + got, sizeof start - 1 - got);
    }
    cli_read_ahead(&(cli_ahead){.bytes = {start, NULL}, .count = {got, 0}});
    return starts_model(got);
}

static void print_vocabulary(const xsm_vocabulary *vocabulary)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_text_options text = XSM_TEXT_OPTIONS_INIT;
    cli_buffer a;
    if (!vocabulary || xsm_vocabulary_get_options(vocabulary, &text, &err) != XSM_OK) {
        return;
    }
    printf("  %-22s %s", "words", cli_grouped(xsm_vocabulary_words(vocabulary), &a));
    if (text.min_count > 1) {
        printf(", each at least %u times", text.min_count);
    }
    if (text.word_ngrams > 1) {
        printf("; n-grams of up to %u words", text.word_ngrams);
    }
    if (text.max_chars > 0) {
        printf("; n-grams of %u to %u characters", text.min_chars, text.max_chars);
    }
    if (text.word_ngrams > 1 || text.max_chars > 0) {
        printf(" in %s buckets", cli_grouped(text.buckets, &a));
    }
    printf("\n");
}

/* Whether each class has a probability of its own. */
static int is_each(const xsm_model_info *about, const xsm_calibration *calibration)
{
    return calibration->method == XSM_CALIBRATION_LABELS ||
           (calibration->method == XSM_CALIBRATION_NONE && about->link == XSM_LINK_SIGMOID);
}

/* Prints a line with what a file says, and releases it; whatever that is, it is one line and commands no terminal. */
static void put_line(char *line)
{
    for (char *c = line; *c; c++) {
        *c = (unsigned char)*c < ' ' || *c == 127 ? ' ' : *c;
    }
    puts(line);
    free(line);
}

static void print_said(const char *key, const char *value)
{
    put_line(cli_format("  %-22s %s", key, value));
}

/* Of a search index or a sampler, neither of which can be loaded by itself, or of a cache of data. */
static void print_release(cli_json *json)
{
    char *release = metadata("library"), *format = metadata("format_version");
    if (json) {
        cli_json_text(json, "release", release);
        cli_json_whole(json, "format_version", strtoul(format ? format : "0", NULL, 10));
    } else if (release && format) {
        put_line(cli_format("  %-22s xsoftmax %s, format %s", "written by", release, format));
    }
    free(release);
    free(format);
}

static int show_method(const char *path, const char *kind, const char *name, int json)
{
    cli_json out = {stdout, 0};
    if (!json) {
        put_line(cli_format("%s: %s %s '%s'", path, *kind == 'i' ? "an" : "a", kind, name));
        print_release(NULL);
        return CLI_DONE;
    }
    cli_json_open(&out, NULL);
    cli_json_text(&out, "kind", kind);
    cli_json_text(&out, "name", name);
    print_release(&out);
    cli_json_close(&out);
    putchar('\n');
    return CLI_DONE;
}

/* Fills place[count] with whole numbers of a checkpoint, its tensor `name`; false where it cannot be found. */
static int read_place(const char *path, const char *name, uint64_t *place, size_t count)
{
    char *entry = cli_format("\"%s\":{\"data_offsets\":[", name);
    const char *at = strstr(start + 8, entry);
    const long from = at ? strtol(at + strlen(entry), NULL, 10) : 0;
    uint64_t header = 0;
    memcpy(&header, start, sizeof header);
    FILE *file = at && header < INT32_MAX && from < INT32_MAX / 2 && strcmp(path, "-") != 0 ? fopen(path, "rbe") : NULL;
    const int found = file && fseek(file, (long)header + 8 + from, SEEK_SET) == 0 &&
                      fread(place, sizeof *place, count, file) == count;
    if (file) {
        fclose(file);
    }
    free(entry);
    return found;
}

#define OF_TREES "checkpoint.label-tree."

/* Prints the options of a checkpoint of label trees: "checkpoint.label-tree.NAME":"VALUE". */
static void print_tree_options(cli_json *json)
{
    for (const char *at = start + 8; (at = strstr(at, "\"" OF_TREES)) != NULL; at++) {
        char *key = cli_format("%.*s", (int)strcspn(at + 1, "\""), at + 1), *value = metadata(key);
        if (value && json) {
            cli_json_text(json, key + strlen(OF_TREES), value);
        } else if (value) {
            print_said(key + strlen("checkpoint."), value);
        }
        free(key);
        free(value);
    }
}

static int show_tree_checkpoint(const char *path, int json)
{
    static const char *const names[] = {"rows", "features", "classes", "label-tree.trees"};
    enum { TREES = 3, NAMES };
    uint64_t numbers[NAMES], place[5] = {0}; /* trees, 1 if another is begun, its nodes, ... (doc/formats.md) */
    cli_buffer a, b;
    cli_json out = {stdout, 0};
    for (size_t i = 0; i < NAMES; i++) {
        char *key = cli_format("checkpoint.%s", names[i]), *value = metadata(key);
        numbers[i] = strtoull(value ? value : "0", NULL, 10);
        free(key);
        free(value);
    }
    const int known = read_place(path, "state.place", place, sizeof place / sizeof *place);
    if (!json) {
        printf("%s: a checkpoint of label trees\n", path);
        print_release(NULL);
        for (size_t i = 0; i < TREES; i++) {
            printf("  %-22s %s\n", names[i], cli_grouped(numbers[i], &a));
        }
        if (known) {
            printf("  %-22s %s of %s trees%s\n", "done", cli_grouped(place[0], &a), cli_grouped(numbers[TREES], &b),
                   place[1] ? ", and a part of the next" : "");
        }
        print_tree_options(NULL);
        printf("  %-22s train --method label-tree --resume %s, with data and flags as before\n", "to go on", path);
        return CLI_DONE;
    }
    cli_json_open(&out, NULL);
    cli_json_text(&out, "kind", "checkpoint");
    cli_json_text(&out, "method", "label-tree");
    print_release(&out);
    for (size_t i = 0; i < TREES; i++) {
        cli_json_whole(&out, names[i], numbers[i]);
    }
    if (known) {
        cli_json_whole(&out, "trees_done", place[0]);
    }
    cli_json_open(&out, "options");
    print_tree_options(&out);
    cli_json_close(&out);
    cli_json_close(&out);
    putchar('\n');
    return CLI_DONE;
}

static void print_model_json(const xsm_model *model, const xsm_model_info *about, const xsm_calibration *calibration,
                             const xsm_class_map *map)
{
    cli_json json = {stdout, 0};
    char *shape = cli_model_shape(model);
    cli_json_open(&json, NULL);
    char *checkpoint = metadata("checkpoint");
    cli_json_text(&json, "kind", checkpoint ? "checkpoint" : "model");
    free(checkpoint);
    cli_json_text(&json, "model", shape);
    free(shape);
    cli_json_text(&json, "release", *about->release ? about->release : NULL);
    cli_json_whole(&json, "format_version", about->format_version);
    cli_json_whole(&json, "classes", about->classes);
    cli_json_whole(&json, "features", about->features);
    cli_json_whole(&json, "input_features", about->input_features);
    cli_json_whole(&json, "hidden", about->hidden);
    cli_json_whole(&json, "weights", about->weights);
    cli_json_whole(&json, "bytes", about->bytes);
    cli_json_text(&json, "correction", correction_word(about));
    cli_json_text(&json, "probabilities", is_each(about, calibration) ? "each" : "sum to one");
    cli_json_text(&json, "transform", about->transform);
    cli_json_open_list(&json, "labels");
    for (uint32_t k = 0; k < map->classes; k++) {
        cli_json_class(&json, NULL, map, k);
    }
    cli_json_close_list(&json);
    cli_json_open(&json, "metadata");
    for (uint64_t i = 0; i < about->metadata_count; i++) {
        cli_json_text(&json, about->metadata_keys[i], xsm_model_get_metadata(model, about->metadata_keys[i]));
    }
    cli_json_close(&json);
    cli_json_close(&json);
    putchar('\n');
}

static void print_data_json(const xsm_dataset_info *info)
{
    cli_json json = {stdout, 0};
    cli_json_open(&json, NULL);
    cli_json_text(&json, "kind", "data");
    cli_json_text(&json, "format", cli_format_name(info->format));
    if (info->format == XSM_FORMAT_CACHE) {
        print_release(&json);
    }
    cli_json_whole(&json, "rows", info->rows);
    cli_json_whole(&json, "features", info->features);
    cli_json_whole(&json, "values", info->values);
    cli_json_whole(&json, "classes", info->classes);
    cli_json_whole(&json, "labels", info->labels);
    cli_json_whole(&json, "unlabelled", info->unlabelled);
    cli_json_whole(&json, "empty", info->empty);
    cli_json_close(&json);
    putchar('\n');
}

static int show_model(xsm_context *context, const char *path, const cli_data *format, int json)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_model *model = NULL;
    cli_buffer a, b, c;
    int code = cli_data_unused(format, path);
    code = code == CLI_GO_ON ? cli_load(context, path, &model) : code;
    if (code != CLI_GO_ON) {
        return code;
    }
    if (xsm_model_get_class_map(model, &map, &err) != XSM_OK) {
        xsm_model_free(model);
        return cli_library_failed(&err);
    }
    const xsm_model_info about = cli_model_info(model);
    uint32_t classes = about.classes, features = about.features;
    xsm_calibration calibration = XSM_CALIBRATION_INIT;
    (void)xsm_model_get_calibration(model, &calibration, NULL);
    if (json) {
        print_model_json(model, &about, &calibration, &map);
        xsm_model_free(model);
        return CLI_DONE;
    }
    char *checkpoint = metadata("checkpoint"), *checksum = metadata("checksum");
    printf("%s: a %s, %s\n", path, checkpoint ? "checkpoint" : "model",
           checksum ? "its checksum right" : "no checksum");
    if (*about.release) {
        put_line(cli_format("  %-22s xsoftmax %s, format %u", "written by", about.release, about.format_version));
    }
    uint64_t place[3]; /* epochs, rows of the next, steps (doc/formats.md) */
    if (checkpoint && read_place(path, "state.trainer.place", place, 3)) {
        printf("  %-22s %s epochs and %s rows, %s steps\n", "done", cli_grouped(place[0], &a),
               cli_grouped(place[1], &b), cli_grouped(place[2], &c));
    }
    if (checkpoint) {
        printf("  %-22s train --resume %s, with data and flags as before\n", "to go on", path);
    }
    free(checkpoint);
    free(checksum);
    printf("  %-22s %s\n", "classes", cli_grouped(classes, &a));
    if (map.labels) {
        printf("  %-22s %lld to %lld\n", "labels", (long long)map.labels[0], (long long)map.labels[classes - 1]);
    }
    printf("  %-22s %s\n", "label names", map.names ? "yes" : "no");
    print_vocabulary(map.vocabulary);
    printf("  %-22s %s", "features", cli_grouped(features, &b));
    if (map.features != features) {
        printf(", of %s in the data", cli_grouped(map.features, &c));
    }
    if (map.feature_numbers) {
        printf(", the numbers in use of those up to %s", cli_grouped(cli_largest_number(&map), &c));
    }
    printf("\n  %-22s %s\n", "bias", about.bias ? "yes" : "no");
    char *shape = cli_model_shape(model);
    printf("  %-22s %s\n", "model", shape);
    free(shape);
    printf("  %-22s %s\n", "correction", correction_word(&about));
    printf("  %-22s %s\n", "probabilities",
           is_each(&about, &calibration) ? "of each class by itself" : "sum to one over the classes");
    if (calibration.method == XSM_CALIBRATION_TEMPERATURE) {
        printf("  %-22s temperature %.4g\n", "calibration", 1 / calibration.scale);
    } else if (calibration.method == XSM_CALIBRATION_LABELS) {
        printf("  %-22s each class by itself, scale %.4g, shift %.4g\n", "calibration", calibration.scale,
               calibration.shift);
    }
    print_said("transform", *about.transform ? about.transform : "none");
    for (uint64_t i = 0; i < about.metadata_count; i++) {
        print_said(about.metadata_keys[i], xsm_model_get_metadata(model, about.metadata_keys[i]));
    }
    xsm_model_free(model);
    return CLI_DONE;
}

static int show_data(xsm_context *context, const char *path, const cli_data *format, int json)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_dataset_info info = XSM_DATASET_INFO_INIT;
    xsm_dataset *dataset = NULL;
    cli_buffer a, b;
    int code = cli_read(context, path, format, NULL, &dataset);
    code = code == CLI_GO_ON ? cli_data_used(format, (const xsm_dataset *const[]){dataset}, 1) : code;
    if (code != CLI_GO_ON) {
        xsm_dataset_free(dataset);
        return code;
    }
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    xsm_status status = xsm_dataset_get_info(dataset, &info, &err);
    status = status == XSM_OK ? xsm_dataset_get_class_map(dataset, &map, &err) : status;
    const uint64_t largest = status == XSM_OK ? cli_largest_number(&map) : 0;
    xsm_dataset_free(dataset);
    if (status != XSM_OK) {
        return cli_library_failed(&err);
    }
    if (json) {
        print_data_json(&info);
        return CLI_DONE;
    }
    double rows = (double)info.rows;
    printf("%s: data, %s, %s\n", path, cli_format_name(info.format), info.sparse ? "sparse" : "dense");
    if (info.format == XSM_FORMAT_CACHE) {
        print_release(NULL);
    }
    printf("  %-22s %s\n", "rows", cli_grouped(info.rows, &a));
    printf("  %-22s %s", "features", cli_grouped(info.features, &a));
    if (largest > 0) {
        printf(", the numbers in use of those up to %s", cli_grouped(largest, &b));
    }
    printf("\n  %-22s %s (%.1f a row)\n", "values", cli_grouped(info.values, &a), (double)info.values / rows);
    printf("  %-22s %s\n", "classes", cli_grouped(info.classes, &a));
    printf("  %-22s %s (%.2f a row)\n", "labels", cli_grouped(info.labels, &a), (double)info.labels / rows);
    printf("  %-22s %s\n", "rows without a label", cli_grouped(info.unlabelled, &a));
    printf("  %-22s %s\n", "rows without a feature", cli_grouped(info.empty, &a));
    return CLI_DONE;
}

int cli_info(const cli_command *command, int argc, char **argv)
{
    cli_data format = CLI_DATA_INIT;
    const char *path = NULL, *model = NULL, *data = NULL;
    int json = 0;
    const cli_flag flags[] = {
        {"model", CLI_INPUT, &model, "FILE", "the same as FILE alone", NULL, 0, 0, 0, 0},
        {"data", CLI_INPUT, &data, "FILE", "the same", NULL, 0, 0, 0, 0},
        {"json", CLI_SWITCH, &json, NULL, "print one JSON object", NULL, 0, 0, 0, 0},
        {NULL, CLI_HEADING, NULL, NULL, "Options, for data", NULL, 0, 0, 0, 0},
        CLI_DATA_FLAGS(format),
        CLI_TEXT_FLAGS(format),
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], &path, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if ((path != NULL) + (model != NULL) + (data != NULL) != 1) {
        return cli_misuse("info needs one FILE: a model or data");
    }
    path = path ? path : model ? model : data;
    xsm_context *context = NULL;
    code = cli_context(0, &context);
    if (code == CLI_GO_ON) {
        const int safetensors = cli_looks_like_model(path) || pipe_brings_model(&path);
        char *index = safetensors ? metadata("index") : NULL, *sampler = safetensors ? metadata("sampler") : NULL;
        char *method = safetensors ? metadata("checkpoint.method") : NULL;
        code = index         ? show_method(path, "index", index, json)
               : sampler     ? show_method(path, "sampler", sampler, json)
               : method      ? show_tree_checkpoint(path, json)
               : safetensors ? show_model(context, path, &format, json)
                             : show_data(context, path, &format, json);
        free(index);
        free(sampler);
        free(method);
    }
    xsm_context_free(context);
    return code;
}
