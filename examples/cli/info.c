/* xsoftmax info: describes what a file contains. */
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <xsoftmax/vocabulary.h>

static const char *correction_word(const xsm_model_info *about)
{
    static const char *const words[] = {"none", "classes", "tree", "sampler", "hierarchy", "pairs"};
    return about->correction >= 0 && (size_t)about->correction < sizeof words / sizeof *words ? words[about->correction]
                                                                                              : "of a later release";
}

/* A safetensors file starts with the length of its header, eight bytes, and the opening brace of the header. The
 * metadata come first; in a cache of data they say that it is one. */
int cli_looks_like_model(const char *path)
{
    char start[1024];
    struct stat st; /* what is read of a pipe is gone */
    FILE *file = strcmp(path, "-") == 0 || stat(path, &st) != 0 || !S_ISREG(st.st_mode) ? NULL : fopen(path, "rbe");
    size_t got = file ? fread(start, 1, sizeof start - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    start[got] = '\0';
    return got > 8 && start[8] == '{' && start[7] == 0 && !strstr(start + 8, "\"dataset\":\"1\"");
}

/* What the header of a model's file says under a key that the library writes itself; the caller frees it. NULL: of a
 * file of another program, or one that cannot be read. */
static char *header_entry(const char *path, const char *key)
{
    uint64_t length = 0;
    FILE *file = fopen(path, "rbe");
    char *header = NULL, *found = NULL, *wanted = cli_format("\"%s\":\"", key);
    if (file && fread(&length, sizeof length, 1, file) == 1 && length <= (16 << 20)) {
        header = calloc(1, (size_t)length + 1);
    }
    if (header && fread(header, 1, (size_t)length, file) == length && (found = strstr(header, wanted)) != NULL) {
        found += strlen(wanted);
        found = cli_format("%.*s", (int)strcspn(found, "\""), found);
    }
    if (file) {
        fclose(file);
    }
    free(header);
    free(wanted);
    return found;
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

static void print_model_json(const char *path, const xsm_model *model, const xsm_model_info *about,
                             const xsm_calibration *calibration, const xsm_class_map *map)
{
    cli_json json = {stdout, 0};
    char *shape = cli_model_shape(model);
    cli_json_open(&json, NULL);
    cli_json_text(&json, "kind", "model");
    cli_json_text(&json, "model", shape);
    free(shape);
    char *release = header_entry(path, "library"), *version = header_entry(path, "format_version");
    cli_json_text(&json, "release", release);
    cli_json_text(&json, "format_version", version);
    free(release);
    free(version);
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
        print_model_json(path, model, &about, &calibration, &map);
        xsm_model_free(model);
        return CLI_DONE;
    }
    printf("%s: a model, its checksum right\n", path);
    char *release = header_entry(path, "library"), *version = header_entry(path, "format_version");
    if (release && version) {
        printf("  %-22s xsoftmax %s, format %s\n", "written by", release, version);
    }
    free(release);
    free(version);
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
    printf("  %-22s %s\n", "transform", *about.transform ? about.transform : "none");
    for (uint64_t i = 0; i < about.metadata_count; i++) {
        printf("  %-22s %s\n", about.metadata_keys[i], xsm_model_get_metadata(model, about.metadata_keys[i]));
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
    const char *path = NULL;
    int json = 0;
    const cli_flag flags[] = {
        {"json", CLI_SWITCH, &json, NULL, "print one JSON object", NULL, 0, 0, 0, 0},
        {NULL, CLI_HEADING, NULL, NULL, "Options, for data", NULL, 0, 0, 0, 0},
        CLI_DATA_FLAGS(format),
        CLI_TEXT_FLAGS(format),
    };
    int code = cli_parse(command, flags, sizeof flags / sizeof flags[0], &path, argc, argv);
    if (code != CLI_GO_ON) {
        return code;
    }
    if (!path) {
        return cli_misuse("info needs a FILE: a model or data");
    }
    xsm_context *context = NULL;
    code = cli_context(0, &context);
    if (code == CLI_GO_ON) {
        code = cli_looks_like_model(path) ? show_model(context, path, &format, json)
                                          : show_data(context, path, &format, json);
    }
    xsm_context_free(context);
    return code;
}
