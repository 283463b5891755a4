/* Figures of each class: F1, a table of all (--by-class), and which are taken for which (--confusions). */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cli_classes_plan(const cli_classes *c)
{
    if (c->unwanted && (c->path || c->most || c->threshold != XSM_DEFAULT)) {
        return cli_misuse("--no-f1 leaves out the figures of classes, of which --%s is one", c->path ? "by-class"
                                                                                             : c->most
                                                                                                 ? "confusions"
                                                                                                 : "f1-threshold");
    }
    return c->path ? cli_output_plan(CLI_OUTPUT_CLASSES, c->path) : CLI_GO_ON;
}

/* A text as a field of a CSV file. */
static void write_field(FILE *out, const xsm_class_map *map, uint32_t class)
{
    if (!map->names) {
        cli_write_class(out, map, class);
        return;
    }
    putc('"', out);
    for (const char *at = map->names[class]; *at; at++) {
        if (*at == '"') {
            putc('"', out);
        }
        putc(*at, out);
    }
    putc('"', out);
}

/* part / whole; nothing where there is no whole. */
static void write_share(FILE *out, double part, double whole)
{
    cli_buffer number;
    fprintf(out, ",%s", whole > 0 ? cli_real(part / whole, &number) : "");
}

static void write_class(FILE *out, const xsm_class_map *map, const xsm_class_metrics *m, uint32_t k)
{
    cli_buffer number;
    const double *const counts[] = {m->labels, m->predicted, m->right};
    write_field(out, map, k);
    for (size_t i = 0; i < 3; i++) {
        fprintf(out, ",%s", cli_real(counts[i][k], &number));
    }
    write_share(out, m->right[k], m->predicted[k]);
    write_share(out, m->right[k], m->labels[k]);
    write_share(out, 2 * m->right[k], m->labels[k] + m->predicted[k]);
    putc('\n', out);
}

static int write_table(const cli_classes *c, const xsm_model *model)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    if (xsm_model_get_class_map(model, &map, &err) != XSM_OK) {
        return cli_library_failed(&err);
    }
    const char *name = cli_output_begin(CLI_OUTPUT_CLASSES);
    FILE *out = name ? fopen(name, "w") : NULL;
    if (!out) {
        return name ? cli_fail("%s: cannot write: %s", c->path, strerror(errno)) : CLI_FAILED;
    }
    errno = 0;
    fputs("label,rows,predicted,true_positives,precision,recall,f1\n", out);
    for (uint32_t k = 0; k < map.classes; k++) {
        write_class(out, &map, &c->of, k);
    }
    int failure = ferror(out) ? errno : 0;
    failure = fclose(out) != 0 && !failure ? errno : failure;
    cli_outputs[CLI_OUTPUT_CLASSES].ready = !failure;
    failure = failure ? failure : cli_output_rename(CLI_OUTPUT_CLASSES);
    return failure ? cli_fail("%s: cannot write: %s", c->path, strerror(failure)) : CLI_GO_ON;
}

int cli_classes_run(cli_classes *c, xsm_context *context, const xsm_model *model, const xsm_dataset *rows,
                    uint32_t beam)
{
    xsm_error err = XSM_ERROR_INIT;
    xsm_class_metrics_options options = XSM_CLASS_METRICS_OPTIONS_INIT;
    const size_t classes = xsm_model_class_count(model);
    c->of = (xsm_class_metrics)XSM_CLASS_METRICS_INIT;
    if (c->unwanted) {
        return CLI_GO_ON;
    }
    options.threshold = c->threshold;
    options.beam = beam;
    c->counts = calloc(3 * classes, sizeof *c->counts);
    c->of.most = c->most;
    c->of.confusions = c->most ? calloc(c->most, sizeof *c->of.confusions) : NULL;
    if (!c->counts || (c->most && !c->of.confusions)) {
        return cli_fail("out of memory");
    }
    c->of.labels = c->counts;
    c->of.predicted = c->counts + classes;
    c->of.right = c->counts + 2 * classes;
    cli_note("evaluating each class ...");
    const xsm_status status = xsm_evaluate_classes(context, model, rows, &options, &c->of, &err);
    cli_note_clear();
    if (status != XSM_OK) {
        return cli_library_failed(&err);
    }
    return c->path && cli_leads() ? write_table(c, model) : CLI_GO_ON;
}

/* Confusions that were found and asked for. */
static uint64_t confusions_of(const cli_classes *c)
{
    return c->of.found < c->most ? c->of.found : c->most;
}

/* Labels of the rows that the model lacks: what else was counted. */
static uint64_t unseen_of(const cli_classes *c, const xsm_class_map *map)
{
    uint64_t unseen = c->of.counted;
    for (uint32_t k = 0; k < map->classes; k++) {
        unseen -= c->of.labels[k] + c->of.predicted[k] > 0;
    }
    return unseen;
}

void cli_classes_report(const cli_classes *c, const xsm_model *model)
{
    cli_buffer a;
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    if (c->unwanted || xsm_model_get_class_map(model, &map, NULL) != XSM_OK) {
        return;
    }
    printf("F1         micro %.4f, macro %.4f over %s classes; predicted is ", c->of.micro_f1, c->of.macro_f1,
           cli_grouped(c->of.counted, &a));
    if (c->of.threshold > 0) {
        printf("what has a probability of %s or more\n", cli_real(c->of.threshold, &a));
    } else {
        puts("the best class of a row");
    }
    for (uint64_t i = 0; i < confusions_of(c); i++) {
        const xsm_confusion *pair = &c->of.confusions[i];
        printf("%-10s ", i == 0 ? "confusions" : "");
        cli_write_class(stdout, &map, pair->label);
        fputs(" taken for ", stdout);
        cli_write_class(stdout, &map, pair->predicted);
        printf(": %s\n", cli_real(pair->rows, &a));
    }
    if (c->path) {
        printf("by class   %s\n", c->path);
    }
    const uint64_t unseen = unseen_of(c, &map);
    if (unseen > 0) {
        printf("           %s labels that training never saw are classes with an F1 of 0%s\n", cli_grouped(unseen, &a),
               c->path ? ", and not in that table" : "");
    }
}

void cli_classes_json(cli_json *json, const cli_classes *c, const xsm_model *model)
{
    xsm_class_map map = XSM_CLASS_MAP_INIT;
    if (c->unwanted || xsm_model_get_class_map(model, &map, NULL) != XSM_OK) {
        return;
    }
    cli_json_open(json, "f1");
    cli_json_real(json, "micro", c->of.micro_f1);
    cli_json_real(json, "macro", c->of.macro_f1);
    cli_json_whole(json, "classes", c->of.counted);
    cli_json_whole(json, "unseen_classes", unseen_of(c, &map));
    cli_json_real(json, "threshold", c->of.threshold);
    cli_json_close(json);
    if (c->most == 0) {
        return;
    }
    cli_json_open_list(json, "confusions");
    for (uint64_t i = 0; i < confusions_of(c); i++) {
        cli_json_open(json, NULL);
        cli_json_class(json, "label", &map, c->of.confusions[i].label);
        cli_json_class(json, "predicted", &map, c->of.confusions[i].predicted);
        cli_json_real(json, "rows", c->of.confusions[i].rows);
        cli_json_close(json);
    }
    cli_json_close_list(json);
}

void cli_classes_free(cli_classes *c)
{
    free(c->counts);
    free(c->of.confusions);
    cli_output_discard();
    cli_output_free();
}
